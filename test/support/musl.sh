#!/bin/sh
# Loads the libraries that targets load into a program whose C library is musl, as it
# is in images of Alpine.  Debian has no Erlang for musl: the VM's functions are stand-ins.
# usage: musl.sh BUILD LIBRARY ...
set -eu

dir=$1/musl
shift
mkdir -p "$dir"
nm -D --undefined-only "$@" | sed -n 's/.* U \(enif_[a-z0-9_]*\)$/void \1(void); void \1(void) { __builtin_trap(); }/p' |
    sort -u >"$dir/vm.c"
musl-gcc -std=c11 -Wall -Wextra -rdynamic -o "$dir/host" test/support/musl_host.c "$dir/vm.c"
readelf -l "$dir/host" | grep -q 'interpreter: .*musl' || {
	echo "musl.sh: the program has another C library" >&2
	exit 1
}
"$dir/host" "$@" >"$dir/names"
for library in "$@"; do
	name=${library##*/}
	if ! grep -qx "${name%.so}" "$dir/names"; then
		echo "musl.sh: no module of $library" >&2
		exit 1
	fi
	if readelf -d "$library" | grep NEEDED; then
		echo "musl.sh: $library names a library that it needs" >&2
		exit 1
	fi
done
echo "musl: $# passed, 0 failed"
