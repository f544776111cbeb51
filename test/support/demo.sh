#!/bin/sh
# Installs what is missing, builds, profiles the sample application under load for
# some seconds, and prints the report and how long each of these took.
# usage: demo.sh BUILD_DIR MAKE
set -eu

b=$1
make=$2
dir=$b/demo
node=kprofd_demo_$$@127.0.0.1
seconds=${DEMO_SECONDS:-10}
app= load=

finish() {
	[ -z "$load" ] || kill "$load" 2>/dev/null || true
	[ -z "$app" ] || kill "$app" 2>/dev/null || true
	wait 2>/dev/null || true
}
trap finish EXIT
trap 'exit 1' INT TERM

sh test/support/setup.sh build
echo "== building kprofd, with the sample application (V=1: show commands)"
began=$(date +%s)
"$make" --no-print-directory QUIET=1 all sample
built=$(($(date +%s) - began))

rm -rf "$dir"
mkdir -p "$dir"
: >"$dir/app.log"	# looked at before the application has begun
(umask 077; od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$dir/cookie")

echo "== starting the sample application, node $node"
test/sample_app/run "$node" "$b/sample_app/ebin" 0 \
    -setcookie "$(cat "$dir/cookie")" -sample_app config \
    '#{db => #{work_us => 100, wait_ms => 3}, formatter => #{work_us => 60}, accounting => #{work_us => 10}, faults => #{raise => 0.01, slow => 0.001}}' \
    >"$dir/app.log" 2>&1 &
app=$!
port=
for _ in $(seq 100); do
	port=$(sed -n 's/^ready //p' "$dir/app.log")
	[ -z "$port" ] || break
	kill -0 "$app" 2>/dev/null || break
	sleep 0.1
done
[ -n "$port" ] || { cat "$dir/app.log" >&2; exit 1; }

echo "== load: 16 clients on port $port"
test/sample_app/load "$b/sample_app/ebin" "$port" 16 \
    "$((seconds + 4))s" 5 >"$dir/load.log" 2>&1 &
load=$!

echo "== kprofd -target $node -tiers test/sample_app/tiers.conf -duration ${seconds}s"
"$b/kprofd" -target "$node" -tiers test/sample_app/tiers.conf \
    -cookie-file "$dir/cookie" -db "$dir/kprofd.db" -interval 2s \
    -duration "${seconds}s" &
kprofd=$!
while sleep 2 && kill -0 "$kprofd" 2>/dev/null; do
	"$b/kprof" status -db "$dir/kprofd.db" 2>/dev/null |
	    grep '^requests' || true
done
wait "$kprofd"

echo "== kprof report"
"$b/kprof" report -db "$dir/kprofd.db"
echo
echo "== kprof slow -n 3"
"$b/kprof" slow -db "$dir/kprofd.db" -n 3
echo
echo "== look around"
echo "  $b/kprof report -db $dir/kprofd.db -percentiles"
slowest=$("$b/kprof" slow -db "$dir/kprofd.db" -n 1 -json |
    sed -n 's/.*"request": *\([0-9]*\).*/\1/p' | head -n 1)
echo "  $b/kprof tree $slowest -db $dir/kprofd.db"
echo "  $b/kprof web -db $dir/kprofd.db -http 127.0.0.1:4711    # in a browser"
echo
installed=
[ ! -e build/setup.done ] || installed="$(cat build/setup.done), "
echo "demo: ${installed}built in $built s, profiled for $seconds s"
