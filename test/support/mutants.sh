#!/bin/sh
# mutants.sh - shows that the tests of faults fail where what they test is not
# there.
#
#     mutants.sh BUILD [NAME ...]
#
# Each test/support/mutants/NAME.patch takes one protection out, in a copy of
# the tree; its first lines say what that is, which tests are run then, and
# what they have to say when they fail:
#
#     Protects: in words
#     Test: part of the name of an integration test, or `unit PROGRAM`
#     Fails: extended regular expression
#     Release: of OTP, where it is so on that one only
#
# Ends with 1 when one did not fail, or failed otherwise.

build=$1
shift
tree=$build/mutants/tree
unset CI KPROFD_FAULTS

# What is built is copied with its times, so that little is built again.
copy_tree() {
	rm -rf "$tree" && mkdir -p "$tree/build/test" || return 1
	tar --exclude=./build --exclude=./.git -cf - . | tar -xf - -C "$tree"
	for f in obj gen flags libkprof.a libkprof_profile.a kprofd kprof sample_app deb \
	    integration/ebin $(cd "$build" && ls -d kprof-* test/*.so); do
		[ -e "$build/$f" ] || continue
		mkdir -p "$tree/build/$(dirname "$f")"
		cp -a "$build/$f" "$tree/build/$f"
	done
}

field() {
	sed -n "/^---/q; s/^$2: //p" "$1"
}

run() {
	case $1 in
	"unit "*)
		program=build/test/${1#unit }
		make "$program" && "$program" ;;
	*)
		make integration ONLY="$1" ;;
	esac
}

# $1: the patch, $2: the test
mutant() {
	name=$(basename "$1" .patch)
	log=$build/mutants/$name.log
	if (cd "$tree" && run "$2") > "$log" 2>&1; then
		echo "FAIL  $name: '$2' passes without it; see $log"
		return 1
	fi
	# Of the test's own words, not of what programs said or make did.
	said=$(sed -n '/^FAIL/,/ -- /p; /\[  *FAILED/p; /\[   LINE/p' "$log" |
	    grep -Em 1 "$(field "$1" Fails)")
	if [ -z "$said" ]; then
		echo "FAIL  $name: '$2' fails otherwise; see $log"
		return 1
	fi
	echo "ok    $name: '$2': $(echo "$said" | cut -c 1-100 | sed 's/^ *//')"
}

# Every test of one patch.
all_of() {
	only=$(field "$1" Release)
	if [ -n "$only" ] && [ "$only" != "$release" ]; then
		echo "skip  $(basename "$1" .patch): of OTP $only"
		return 0
	fi
	patch -sp1 -d "$tree" < "$1" || {
		echo "FAIL  $1 does not apply: renew it"
		return 1
	}
	field "$1" Test > "$build/mutants/tests"
	bad=0
	while read -r test; do
		mutant "$1" "$test" < /dev/null || bad=1
	done < "$build/mutants/tests"
	patch -sRp1 -d "$tree" < "$1"
	return $bad
}

release=$(erl -noinput -eval \
    'io:put_chars(erlang:system_info(otp_release)), halt().')
copy_tree || exit 1
[ $# -gt 0 ] || set -- $(ls test/support/mutants | sed 's/\.patch$//')
status=0
for name; do
	all_of "test/support/mutants/$name.patch" || status=1
done
exit $status
