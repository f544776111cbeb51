#!/bin/sh
# Makes the picture of the dashboard that the README shows: profiles the sample
# application under a load that changes, and photographs the page.
# usage: screenshot.sh BUILD_DIR PICTURE
set -eu

b=$1
picture=$2
dir=$b/screenshot
node=shop@127.0.0.1
size=${SIZE:-1560,1350}
app= load= kprofd=

finish() {
	for p in $load $kprofd $app; do
		kill "$p" 2>/dev/null || true
	done
	wait 2>/dev/null || true
}
trap finish EXIT
trap 'exit 1' INT TERM

for tool in chromium pngquant; do
	command -v $tool >/dev/null || {
		echo "screenshot: needs Debian's package $tool" >&2
		exit 1
	}
done

# Waits for what a program writes to a file, and prints what it captures.
wait_for() {
	for _ in $(seq 600); do
		found=$(sed -n "s/$2/\1/p" "$1" | head -n 1)
		[ -z "$found" ] || { echo "$found"; return; }
		sleep 0.1
	done
	echo "screenshot: no $2 in $1" >&2
	exit 1
}

# CLIENTS SECONDS THINK_MS; the seed of each is its own.
clients() {
	test/sample_app/load "$b/sample_app/ebin" "$port" "$1" "${2}s" "$3" \
	    >>"$dir/load.log" 2>&1
}

rm -rf "$dir"
mkdir -p "$dir/chromium"
: >"$dir/app.log"
: >"$dir/kprofd.log"
(umask 077; od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$dir/cookie")

test/sample_app/run "$node" "$b/sample_app/ebin" 0 \
    -setcookie "$(cat "$dir/cookie")" -sample_app config \
    '#{db => #{work_us => 100, wait_ms => 3}, formatter => #{work_us => 300, wait_ms => 2}, accounting => #{work_us => 50, wait_ms => 1}, faults => #{raise => 0.02, slow => 0.002}}' \
    >"$dir/app.log" 2>&1 &
app=$!
port=$(wait_for "$dir/app.log" '^ready \(.*\)')

"$b/kprofd" -target "$node" -tiers test/sample_app/tiers.conf \
    -cookie-file "$dir/cookie" -db "$dir/kprofd.db" -interval 5s \
    -http 127.0.0.1:0 >"$dir/kprofd.log" 2>&1 &
kprofd=$!
at=$(wait_for "$dir/kprofd.log" '.*http:\/\/\([0-9.:]*\).*')

# Some clients all the time, a rush in the middle.
(clients 6 260 20 & sleep 60; clients 4 80 20 & sleep 30; clients 4 30 20
    wait) &
load=$!
sleep 12
since=$(date -u +%Y-%m-%dT%H:%M:%SZ)
sleep 240
until=$(date -u +%Y-%m-%dT%H:%M:%SZ)

# The page asks for its figures after it was loaded: it is given that time.
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars \
    --disable-background-networking --user-data-dir="$dir/chromium" \
    --window-size="$size" --virtual-time-budget=20000 \
    --screenshot="$dir/page.png" \
    "http://$at/?since=$since&until=$until&live=0" >"$dir/chromium.log" 2>&1
pngquant --force --strip --speed 1 --quality 60-95 --output "$picture" 64 "$dir/page.png"
echo "$picture: $(wc -c <"$picture") bytes, http://$at"
