#!/bin/sh
# kprof top on a pseudo-terminal: keys, sizes, a daemon, signals; and kprof
# merge and several -db, as they are used.
# usage: top_test.sh BUILD_DIR
set -u

b=$1
kprof=$b/kprof
dir=$(mktemp -d "${TMPDIR:-/tmp}/top_test.XXXXXX")
db=$dir/a.db
export TZ=UTC LC_ALL=C.UTF-8
unset COLUMNS
. "$(dirname "$0")/client_lib.sh"
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

# screen WIDTH HEIGHT ARGS... <script: kprof top on a terminal
screen() {
	w=$1 h=$2
	shift 2
	: >"$dir/out"
	if "$b/test/pty_run" "$w" "$h" "$kprof" top "$@" 2>"$dir/err"; then
		pass
	else
		fail "kprof top $* on $w x $h"
	fi
}

"$b/test/mkdb" "$dir/a.db" || exit 1
"$b/test/mkdb" "$dir/b.db" 1795255260 || exit 1

# ---- plain: where there is no terminal

run 0 top -db "$dir/a.db"
has out 'kprof top  all nodes (2)  last 1m  by requests'
has out 'all requests'
has out 'req/s*'
has out 'passed over by sampling; the others stand for them (sampled_out)'
has out 'is it running?'
if grep -q "$(printf '\033')" "$dir/out"; then
	fail 'an escape character was printed'
else
	pass
fi
# the rate of the last minute is what the report of it counts
rate=$(sed -n 's/^all requests  *\([0-9.]*\).*/\1/p' "$dir/out")
run 0 report -db "$dir/a.db" -since 2026-11-21T10:01:00Z -json
same 'requests a second' "$rate" "$(sqlite3 :memory: "select printf('%.1f',
    json_extract(readfile('$dir/out'), '$.rows[0].requests') / 60.0)")"
run 0 top -db "$dir/a.db" -sort name -what calls -node 'web@a' -refreshes 2 -every 1
same 'two looks' "$(grep -c '^kprof top  web@a  last 1m  by name' \
    "$dir/out")" 2
has out 'tiers: calls per request'
run 1 top -db "$dir/none.db"
has out 'no figures: cannot open'
run 0 top -db "$dir/a.db" -sort nosuch
has out 'by requests* (there is no tier nosuch)'
has out 'req/s*'
run 2 top -every 0
run 2 top -every 9999
run 2 top -what x
has err 'choose one of'
run 2 top -node 'a b'
run 2 top -db "$dir/a.db" -db "$dir/b.db" -control x
has err '-control is one daemon'
if "$b/test/pty_run" 80 200 /usr/bin/env TERM=dumb "$kprof" top \
    -db "$dir/a.db" >"$dir/out" 2>"$dir/err" <<'END'
see all requests
exit 0
END
then
	pass
else
	fail 'a terminal that cannot be drawn on'
fi

# ---- on a terminal

screen 100 30 -db "$dir/a.db" <<'END'
see kprof top  all nodes (2)  last 1m  by requests
see all requests
see q end  s sort
gone outcome
key s
see by total
see total*
key <
see by requests
key r
see by least requests
key r
key w
see tiers: self (exclusive) time per request
key n
see kprof top  web@a
key n
see kprof top  web@b
key N
see kprof top  web@a
key N
see kprof top  all nodes
key 2
see no slow requests in this time
key 1
key -
see last 30s
key ++
see last 5m
# the slow requests are below the tiers now
see all requests
see outcome
key 2
gone all requests
see outcome
key 3
see passed over by sampling
key h
see hold what is shown
key \e
see all requests
key  
see HELD
key  
gone HELD
# a key in parts, one that means nothing, and an end of the list
key \e[B\e[15~\e[F\e[H
see all requests
key p
see pause: cannot reach kprofd
key z
see q end
key q
exit 0
END

# sizes, also those in which there is hardly anything
screen 120 40 -db "$dir/a.db" <<'END'
see templating
size 50 12
gone templating
see all requests
size 20 4
see kprof top
size 1 1
size 132 50
see templating
see q end
key q
exit 0
END

# however it ends, the terminal is as it was
for sig in 1 2 3 10 12 14 15 24; do
	screen 80 24 -db "$dir/a.db" <<END
see all requests
signal $sig
exit 0
END
done
# so it is while it is stopped, as by ^Z, and once it goes on and is ended
screen 80 24 -db "$dir/a.db" <<'END'
see all requests
signal 20
stopped
signal 18
see all requests
key 2
see no slow requests
signal 20
stopped
signal 15
signal 18
exit 0
END
screen 80 24 -db "$dir/a.db" -n 2 -every 1 <<'END'
see all requests
exit 0
END

# a database that comes later, and one that goes
screen 80 24 -db "$dir/later.db" -every 1 <<END
see no figures: cannot open
key q
exit 0
END

# what a daemon says of its targets
said='{"armed":1,"targets":[{"target":"web@a","state":"armed",
"state_text":"","one_in":4,"in_flight":12,"cost":{"scheduler_percent":1.5},
"overload":{"trips":2,"resting":true}}]}'
answer "ok ${#said}\n$said"
screen 120 30 -db "$db" -every 60 <<'END'
see web@a: armed, one request in 4, 12 in flight, costs 1.50 % of a scheduler, 2 overloads, paused
key q
exit 0
END
asked 'status json'
# one that does not answer, and takes as long for that as there is between two
# looks: keys and signals are obeyed all the same, the second one at once
"$b/test/one_answer" "$db.sock" </dev/null >/dev/null &
server=$!
till -S "$db.sock"
kill -STOP "$server"
screen 80 24 -db "$db" -every 1 <<'END'
see does not answer
key 3
see passed over
key q
exit 0
END
screen 80 24 -db "$db" -every 1 <<'END'
see does not answer
signal 15
exit 0
END
screen 80 24 -db "$db" -every 60 <<'END'
see does not answer
key p
see pause ...
signal 15
signal 2
exit 130 0
END
kill -9 "$server"
wait "$server" 2>/dev/null
server=
rm -f "$db.sock"
answer 'ok 7\nno JSON'
run 0 top -db "$db"
has out 'kprofd answers what kprof does not understand'
asked 'status json'

# ---- merge

run 0 merge "$dir/all.db" "$dir/a.db" "$dir/b.db"
has out 'a.db: 1 run, 24 windows, 5 slow requests, 1 event added'
has out 'b.db: 1 run, 24 windows, 5 slow requests, 1 event added'
run 0 merge "$dir/all.db" "$dir/b.db" "$dir/a.db"
has out 'a.db: nothing new'
has out 'b.db: nothing new'
# what a symbolic link leads to is replaced, and a journal of something else
# is not taken for its own
mkdir "$dir/sub"
ln -s sub/real.db "$dir/link.db"
run 0 merge "$dir/sub/real.db" "$dir/a.db"
run 0 merge "$dir/link.db" "$dir/b.db"
same 'the link' "$(readlink "$dir/link.db")" sub/real.db
same 'what it leads to' "$(sqlite3 "$dir/sub/real.db" \
    'select count(*) from run')" 2
rm "$dir/sub/real.db"
echo x >"$dir/sub/real.db-wal"
run 1 merge "$dir/sub/real.db" "$dir/a.db"
has err 'belongs to another database of this name'
same 'what is left of that' "$(ls "$dir/sub")" real.db-wal
run 2 merge
run 2 merge "$dir/all.db"
run 1 merge "$dir/all.db" "$dir/none.db"
run 1 merge "$dir/all.db" "$dir/all.db"
has err 'into itself'

# of several files as of the one they were merged into
for c in 'report' 'report -json' 'report -csv' 'report -percentiles' \
    'report -node web@a -identity u*' \
    'report -since 2026-11-21T10:01 -versus 2026-11-21T10:00,2026-11-21T10:01'
do
	# shellcheck disable=SC2086
	run 0 $c -db "$dir/a.db" -db "$dir/b.db"
	cp "$dir/out" "$dir/several"
	# shellcheck disable=SC2086
	run 0 $c -db "$dir/all.db"
	if cmp -s "$dir/out" "$dir/several"; then
		pass
	else
		fail "$c: several files are not as the merged one"
		diff "$dir/several" "$dir/out" | head -5 >&2
	fi
done
run 0 slow -db "$dir/a.db" -db "$dir/b.db" -json
same 'slow requests of both' "$(json '$.requests[9].start' | wc -w)" 1
id=$(sqlite3 :memory: "select max(json_extract(value, '$.request'))
    from json_each(readfile('$dir/out'), '$.requests')")
run 0 tree "$id" -db "$dir/a.db" -db "$dir/b.db"
has out "request $id: "
run 1 tree "$id" -db "$dir/a.db"
run 1 status -db "$dir/a.db" -db "$dir/b.db"
same 'both databases' "$(grep -c '^database ' "$dir/out")" 2
run 1 pause -db "$dir/a.db" -db "$dir/b.db"
same 'both daemons' "$(grep -c 'cannot reach' "$dir/err")" 2
run 1 report -db "$dir/a.db" -db "$dir/all.db"
has err 'hold the same run'
run 2 clear-tokens -db "$dir/a.db" -db "$dir/b.db"

# killed at any moment: as it was, or all of it; and the next one works
cp "$dir/a.db" "$dir/kill.db"
sum=$(cksum <"$dir/kill.db")
for i in 00 01 02 04 06 08 10 13 16 20 25 30 40; do
	"$kprof" merge "$dir/kill.db" "$dir/b.db" >/dev/null 2>&1 &
	pid=$!
	sleep "0.$i"
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
	if [ "$(cksum <"$dir/kill.db")" = "$sum" ]; then
		pass
	else
		same 'all of it' "$(sqlite3 "$dir/kill.db" \
		    'select count(*) from time_window')" 48
		cp "$dir/a.db" "$dir/kill.db"
	fi
done
run 0 merge "$dir/kill.db" "$dir/b.db"
same 'after that' "$(sqlite3 "$dir/kill.db" 'select count(*) from
    time_window; pragma integrity_check')" "48
ok"
same 'what is left' "$(find "$dir" -name 'kill*' | wc -l)" 1

# the page of several files
"$kprof" web -http 127.0.0.1:0 -db "$dir/a.db" -db "$dir/b.db" >"$dir/addr" &
server=$!
till -s "$dir/addr"
node -e 'require("node:http").get(process.argv[1], (a) => a.pipe(process.stdout))' \
    "$(sed -n 's,.*at \(http.*\)/$,\1,p' "$dir/addr")/api/v1/report" >"$dir/out"
same 'requests on the page' "$(json '$.rows[0].requests')" \
    "$(sqlite3 "$dir/all.db" "select sum(requests) from request_stats
    where identity = '_total'")"
kill "$server"
wait "$server"
server=

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
