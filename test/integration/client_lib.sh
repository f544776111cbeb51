# Sourced by tests of the client, which set $b, $kprof, $dir and $db: runs it,
# looks at what it printed, and stands in for its daemon.
passed=0 failed=0
server=

pass() {
	passed=$((passed + 1))
}

fail() {
	failed=$((failed + 1))
	echo "FAILED: $*" >&2
	[ ! -s "$dir/out" ] || sed 's/^/  out: /' "$dir/out" >&2
	[ ! -s "$dir/err" ] || sed 's/^/  err: /' "$dir/err" >&2
}

# run STATUS ARGS...: kprof's output is left in $dir/out and $dir/err
run() {
	want=$1
	shift
	"$kprof" "$@" >"$dir/out" 2>"$dir/err"
	got=$?
	if [ $got -eq "$want" ]; then
		pass
	else
		fail "kprof $*: exit $got, expected $want"
	fi
}

# has out|err TEXT
has() {
	if grep -qF -e "$2" "$dir/$1"; then
		pass
	else
		fail "'$2' is not on std$1"
	fi
}

same() {
	if [ "$2" = "$3" ]; then
		pass
	else
		fail "$1: '$2', expected '$3'"
	fi
}

# a value of the JSON that was printed last
json() {
	sqlite3 :memory: "select json_extract(readfile('$dir/out'), '$1')"
}

# till TEST...: waits until test(1) says so, on a machine that may be busy
till() {
	for _ in $(seq 600); do
		[ "$@" ] && return 0
		sleep 0.1
	done
	fail "waited in vain: $*"
}

# answer TEXT: a daemon that says this, once
answer() {
	printf '%b' "$1" >"$dir/answer"
	timeout 120 "$b/test/one_answer" "$db.sock" <"$dir/answer" \
	    >"$dir/asked" &
	server=$!
	till -S "$db.sock"
}

asked() {
	wait "$server"
	server=
	same "the command" "$(cat "$dir/asked")" "$1"
}
