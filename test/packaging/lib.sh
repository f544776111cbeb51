# Sourced: counts what passes, and shows what does not.
passed=0 failed=0

fail() {
	failed=$((failed + 1))
	echo "FAILED: $*" >&2
}

# same WHAT GOT WANTED
same() {
	if [ "$2" = "$3" ]; then
		passed=$((passed + 1))
	else
		fail "$1: got:"
		printf '%s\n  -- wanted:\n%s\n' "$2" "$3" | sed 's/^/  /' >&2
	fi
}

# ok WHAT COMMAND...: the command succeeds
ok() {
	what=$1
	shift
	if "$@" >"$dir/ok.out" 2>&1; then
		passed=$((passed + 1))
	else
		fail "$what: $*"
		sed 's/^/  /' "$dir/ok.out" >&2
	fi
}

# until WHAT COMMAND...: it does within half a minute
until_ok() {
	what=$1
	shift
	for _ in $(seq 300); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	fail "waited in vain: $what"
	return 1
}

finish() {
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
}
