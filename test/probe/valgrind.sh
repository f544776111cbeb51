#!/bin/sh
# The native probe's torture in a VM that runs in valgrind; fails when the test
# does, or where valgrind finds something in the probe's code.  What it finds in
# the VM's own is the VM's: that has allocators which valgrind does not know, and
# code that it writes itself, and again for each breakpoint.
# usage: valgrind.sh BEAMS LIBRARY CYCLES
set -eu

root=$(erl -noinput -eval 'io:put_chars(code:root_dir()), halt().')
erts=$root/erts-$(erl -noinput -eval 'io:put_chars(erlang:system_info(version)), halt().')
export ROOTDIR="$root" BINDIR="$erts/bin" EMU=beam PROGNAME=erl

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for kind in Cond Value8 Value4 Value2 Value1 Addr8 Addr4 Addr2 Addr1; do
	for code in '*/beam.smp' '*vmem*'; do
		printf '{\n%s\nMemcheck:%s\nobj:%s\n}\n' $kind $kind "$code"
	done
done > "$dir/vm.supp"

valgrind --smc-check=all --error-limit=no --num-callers=20 --leak-check=no \
    --suppressions="$dir/vm.supp" --log-file="$dir/log" \
    "$BINDIR/beam.smp" -- -root "$root" -bindir "$BINDIR" -progname erl \
    -home "$dir" -- -noshell -noinput -pa "$1" -s probe_torture main \
    -extra "$2" "$3"

# One paragraph for each error; ours are known by their files.  The VM's code has
# its stack at the end of a heap, which valgrind takes for what is below a stack:
# terms there, in what the VM has got, can be read.
sed 's/^==[0-9]*== *//' "$dir/log" |
    awk -v RS= '/\((drain|event|names|probe|ring|term_put)\.[ch]:[0-9]+\)/ || /kprof_probe\.so/ {
	if ($0 !~ /Command:|erts_sys_aligned_alloc/) { print; print ""; n++ } }
	END { exit n > 0 }' || {
	echo "valgrind: these are in the probe" >&2
	exit 1
}
sed -n 's/^==[0-9]*== ERROR SUMMARY/valgrind: in the VM/p' "$dir/log"
