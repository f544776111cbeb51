#!/bin/sh
# Makes the pictures of the documents: profiles the sample application under a load that
# changes, and photographs the page, and what Go's pprof and speedscope show of it.
# usage: screenshot.sh BUILD_DIR PICTURES GO_DIR SPEEDSCOPE_DIR [SECONDS]
# SECONDS: how long the load is; 240, as in the picture that is there, if not given.
set -eu

b=$1 pictures=$2 go=$3 speedscope=$4 seconds=${5:-240}
dir=$b/screenshot
node=shop@127.0.0.1
app= load= kprofd= pprof=

finish() {
	for p in $load $kprofd $app $pprof; do
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

{
	cat test/sample_app/tiers.conf
	echo '{stacks, {per_second, 100}}.'
} >"$dir/tiers.conf"
"$b/kprofd" -target "$node" -tiers "$dir/tiers.conf" \
    -cookie-file "$dir/cookie" -db "$dir/kprofd.db" -interval 5s \
    -http 127.0.0.1:0 >"$dir/kprofd.log" 2>&1 &
kprofd=$!
at=$(wait_for "$dir/kprofd.log" '.*http:\/\/\([0-9.:]*\).*')

# Some clients all the time, a rush in the middle.
(clients 6 $((seconds + 20)) 20 & sleep $((seconds / 4)); clients 4 $((seconds / 3)) 20 &
    sleep $((seconds / 8)); clients 4 $((seconds / 8)) 20
    wait) &
load=$!
sleep 12
since=$(date -u +%Y-%m-%dT%H:%M:%SZ)
sleep "$seconds"
until=$(date -u +%Y-%m-%dT%H:%M:%SZ)

# shoot NAME WIDTH,HEIGHT URL: a page asks for its figures after it was loaded, and is given
# that time.
shoot() {
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars \
	    --allow-file-access-from-files \
	    --disable-background-networking --user-data-dir="$dir/chromium" \
	    --window-size="$2" --virtual-time-budget=20000 \
	    --screenshot="$dir/$1" "$3" >"$dir/chromium.log" 2>&1
	pngquant --force --strip --speed 1 --quality 60-95 --output "$pictures/$1" 64 "$dir/$1"
	echo "$pictures/$1: $(wc -c <"$pictures/$1") bytes"
}

shoot dashboard.png 1560,1350 "http://$at/?since=$since&until=$until&live=0"

"$b/kprof" report -stacks -since "$since" -form pprof -db "$dir/kprofd.db" >"$dir/stacks.pb.gz"
# pprof makes itself a directory, and does not say which port it took
free=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
HOME=$dir PPROF_TMPDIR=$dir "$(find "$go" -path '*/tool/*/pprof')" "-http=127.0.0.1:$free" -no_browser \
    -tagroot=request_type,tiers "$dir/stacks.pb.gz" >"$dir/pprof.log" 2>&1 &
pprof=$!
wait_for "$dir/pprof.log" '.*\(Serving web UI\).*'
shoot pprof.png 1200,330 "http://localhost:$free/ui/flamegraph?si=wall"

# what the page calls when it is given a file
id=$("$b/kprof" slow -n 1 -json -db "$dir/kprofd.db" | sed 's/.*"requests":\[{"request":\([0-9]*\).*/\1/')
"$b/kprof" tree "$id" -form speedscope -db "$dir/kprofd.db" >"$dir/request.json"
printf 'speedscope.loadFileFromBase64("request %s", "%s")' "$id" "$(base64 -w0 "$dir/request.json")" \
    >"$dir/request.js"
shoot speedscope.png 1200,230 "file://$(cd "$speedscope" && pwd)/index.html#localProfilePath=$(cd "$dir" && pwd)/request.js"
