#!/bin/sh
# Compiles for arm64, runs unit tests there, and profiles a real node of OTP 27 with the
# native probe, all in an emulator.  The node's JIT has one mapping of its code (+JMsingle),
# since the emulator does not see what is written through another.  Needs root.
# usage: arm64.sh MAKE ROOTS UNIT_TESTS
# UNIT_TESTS: such as "test_native test_ring"; all of them take an hour.
set -eu

make=$1 roots=$2 tests=$3
b=build/arm64
dir=$(mktemp -d "${TMPDIR:-/tmp}/arm64.XXXXXX")
node=arm64_$$@127.0.0.1
app=
cleanup() {
	[ -z "$app" ] || kill "$app" 2>/dev/null
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

sh test/support/setup.sh build mmdebstrap qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
mkdir -p "$roots"
roots=$(cd "$roots" && pwd)

# make_root SUITE PACKAGES: unpacked, since their scripts cannot run here
make_root() {
	[ -e "$roots/arm64-$1/made" ] && return
	rm -rf --one-file-system "$roots/arm64-$1"
	mmdebstrap --quiet --mode=root --variant=extract --architectures=arm64 \
	    --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "5"' \
	    --include="$2" "$1" "$roots/arm64-$1"
	(cd "$roots/arm64-$1"
	for d in lib bin sbin; do
		[ -e $d ] || ln -s usr/$d $d
	done
	# links that begin at the root
	find usr/lib lib/ -lname '/*' | while read -r link; do
		ln -sf "$PWD$(readlink "$link")" "$link"
	done
	touch made)
}
make_root bookworm libevent-dev,libsqlite3-dev,libcurl4-openssl-dev,libssl-dev,zlib1g-dev,libcmocka-dev,erlang-dev,libc6-dev
make_root trixie erlang-base,erlang-runtime-tools,erlang-tools

root=$roots/arm64-bookworm
libs=usr/lib/aarch64-linux-gnu
ei=$(echo "$root"/usr/lib/erlang/lib/erl_interface-*/lib)
run="qemu-aarch64 -L $root"
"$make" --no-print-directory all $(for t in $tests; do echo "$b/test/$t.run"; done) B=$b RUNNER="$run" \
    CC="aarch64-linux-gnu-gcc --sysroot=$root -isystem $root/usr/include -isystem $root/usr/include/aarch64-linux-gnu" \
    LDFLAGS="-L$ei -L$root/$libs -L$root/lib/aarch64-linux-gnu -Wl,-rpath-link,$root/$libs:$root/lib/aarch64-linux-gnu"
"$make" --no-print-directory sample

# The node starts other programs, which are of arm64 as well.
erts=$(echo "$roots"/arm64-trixie/usr/lib/erlang/erts-*/bin)
mkdir "$dir/bin"
for p in erl_child_setup inet_gethost erlexec beam.smp; do
	printf '#!/bin/sh\nexec qemu-aarch64 -L %s %s/%s "$@"\n' "$roots/arm64-trixie" "$erts" $p >"$dir/bin/$p"
	chmod +x "$dir/bin/$p"
done
epmd -daemon
printf '%s' "arm64_$$" >"$dir/cookie"
chmod 600 "$dir/cookie"
env BINDIR="$dir/bin" EMU=beam PROGNAME=erl ROOTDIR="$roots/arm64-trixie/usr/lib/erlang" \
    "$dir/bin/erlexec" +JMsingle true -noinput -name "$node" -setcookie "arm64_$$" -start_epmd false \
    -pa build/sample_app/ebin -sample_app port 0 -s sample_app main >"$dir/app" 2>&1 &
app=$!
wait_for() {
	for _ in $(seq 600); do
		! grep -q "$1" "$2" || return 0
		sleep 0.1
	done
	cat "$2" >&2
	exit 1
}
wait_for '^ready' "$dir/app"
$run $b/kprofd -target "$node" -cookie-file "$dir/cookie" -tiers test/sample_app/tiers.conf \
    -db "$dir/kprofd.db" -probe native -probe-library "$PWD/$b/kprof_probe.so" -interval 2s \
    -requests 100 -duration 120s >"$dir/log" 2>&1 &
daemon=$!
wait_for profiling "$dir/log"
test/sample_app/load build/sample_app/ebin "$(sed -n 's/^ready //p' "$dir/app")" 2 100
wait $daemon || { cat "$dir/log" >&2; exit 1; }
grep 'done: 100 requests .*, nothing lost' "$dir/log" || { cat "$dir/log" >&2; exit 1; }
$run $b/kprof report -db "$dir/kprofd.db"
