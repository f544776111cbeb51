#!/bin/sh
# The native probe's torture in a VM that runs in valgrind; fails when the test
# does, or where valgrind finds something in the probe's code, or in the VM's
# when that is called by the probe's.
#
# The library is built for it (src/probe/checked.h): its memory has ends that
# are watched, and what the VM hands it counts as written.  What is found in
# the VM's own code is the VM's: that has allocators which valgrind does not
# know, code that it writes itself, and its stack at the end of a heap, which
# valgrind takes for one of C.  A VM without the probe is run first, to show that.
# usage: valgrind.sh BEAMS LIBRARY CYCLES [MODULE]
set -eu

root=$(erl -noinput -eval 'io:put_chars(code:root_dir()), halt().')
erts=$root/erts-$(erl -noinput -eval 'io:put_chars(erlang:system_info(version)), halt().')
export ROOTDIR="$root" BINDIR="$erts/bin" EMU=beam PROGNAME=erl

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The VM's code, what it has written, and what it calls to copy bytes.
for kind in Cond Value16 Value8 Value4 Value2 Value1 \
    Addr32 Addr16 Addr8 Addr4 Addr2 Addr1; do
	for frames in 'obj:*/beam.smp' 'obj:*vmem*' \
	    'obj:*vgpreload_memcheck*\nobj:*/beam.smp' \
	    'obj:*/libc.so.6\nobj:*/beam.smp'; do
		printf "{\nvm\nMemcheck:$kind\n$frames\n}\n"
	done
done > "$dir/vm.supp"

# run LOG BEAM_ARGUMENT...
run() {
	log=$1
	shift
	valgrind --smc-check=all --error-limit=no --num-callers=20 \
	    --leak-check=no --suppressions="$dir/vm.supp" --log-file="$log" \
	    "$BINDIR/beam.smp" -- -root "$root" -bindir "$BINDIR" \
	    -progname erl -home "$dir" -- -noshell -noinput "$@"
}

run "$dir/without" -eval '[spawn(fun() -> lists:sort(lists:seq(1, N)) end)
    || N <- lists:seq(1, 100)], erlang:garbage_collect(), halt().'
sed -n 's/^==[0-9]*== ERROR SUMMARY/valgrind: a VM without the probe/p' "$dir/without"
status=0
run "$dir/log" -pa "$1" -s "${4:-probe_torture}" main -extra "$2" "$3" || status=$?
sed -n 's/^==[0-9]*== ERROR SUMMARY/valgrind: the VM with the probe/p' "$dir/log"

# One paragraph for each error; ours are known by their files.
sed 's/^==[0-9]*== *//' "$dir/log" | awk -v RS= '
	/Command:/ { next }
	/\((calls|checked|clock|drain|event|merge|names|probe|put|ring|term_put)\.[ch]:[0-9]+\)/ ||
	    /kprof_(calls_)?probe\.so/ { print; print ""; n++ }
	END { exit n > 0 }' || {
	echo "valgrind: these are in the probe" >&2
	exit 1
}
echo "valgrind: none is in the probe"
[ $status = 0 ] || {
	echo "valgrind: the torture itself failed" >&2
	exit 1
}
