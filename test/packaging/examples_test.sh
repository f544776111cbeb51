#!/bin/sh
# The examples for cron, logrotate and systemd do what they are for: the
# crontab's commands are run as cron runs them, logrotate rotates a log that
# kprofd writes, systemd reads the units.
# usage: examples_test.sh BUILD_DIR
set -u

b=$(cd "$1" && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/examples_test.XXXXXX")
server= kprofd=
finish_all() {
	[ -z "$server" ] || kill "$server" 2>/dev/null
	[ -z "$kprofd" ] || kill -KILL "$kprofd" 2>/dev/null
	rm -rf "$dir"
}
trap finish_all EXIT
trap 'exit 1' INT TERM
. "$(dirname "$0")/lib.sh"

# ---- the crontab

db=$dir/kprofd.db out=$dir/reports
"$b/test/mkdb" "$db" || exit 1

# Lines that cron runs: five fields of time, and the command with \% as %.
# A % without a backslash would be a newline.
commands() {
	sed -n '/^[A-Z]*=/d; /^#/d; /^$/d; p' priv/cron/kprofd |
	    while read -r minute hour day month weekday command; do
		printf '%s\n' "$minute$hour$day$month$weekday" |
		    grep -qxE '[0-9*/,-]+' || echo "bad fields: $minute $hour"
		printf '%s\n' "$command" | sed 's/\([^\\]\)%/\1\n/g; s/\\%/%/g'
	done
}

# The lines that set the environment, but for the places.
settings() {
	sed -n 's/^\([A-Z]*=\)/\1/p' priv/cron/kprofd |
	    sed "s,^DB=.*,DB=$db,; s,^OUT=.*,OUT=$out,"
}

# It is five past ten, when the database's two minutes have just been.
mkdir "$dir/bin"
ln -s "$b/kprof" "$dir/bin/kprof"
cat >"$dir/bin/date" <<'END'
#!/bin/sh
case "$*" in
*'5 minutes ago'*) exec /bin/date -u -d 2026-11-21T10:00:00Z "$4" ;;
*-d*) exec /bin/date "$@" ;;
*) exec /bin/date -u -d 2026-11-21T10:05:00Z "$2" ;;
esac
END
chmod +x "$dir/bin/date"

# cron LINE: runs one of the commands as cron would
cron() {
	commands | sed -n "$1p" >"$dir/command"
	settings | sed "s,^PATH=,PATH=$dir/bin:," >"$dir/env"
	env -i HOME="$dir" sh -c '
		set -a; . "$1"; set +a
		exec "$SHELL" -c "$(cat "$2")"' sh "$dir/env" "$dir/command" \
	    >"$dir/cron.out" 2>&1
}

same 'crontab: commands' "$(commands | wc -l)" 2
same 'crontab: bad fields' "$(commands | grep 'bad fields')" ''
printf 'ok 8\nwritten\n' >"$dir/answer"
timeout 120 "$b/test/one_answer" "$db.sock" <"$dir/answer" >"$dir/asked" &
server=$!
until_ok 'a daemon stands there' test -S "$db.sock"
cron 1
same 'crontab: the status' $? 0
wait "$server"
server=
same 'crontab: what the daemon was asked' "$(cat "$dir/asked")" dump
same 'crontab: what would be mailed' "$(cat "$dir/cron.out")" ''
same 'crontab: files' "$(ls "$out")" "2026-11-21T1000Z.csv
2026-11-21T1000Z.json"
total=$(sqlite3 "$db" "select sum(requests) from request_stats
    where identity = '_total'")
same 'crontab: the CSV' "$(sqlite3 :memory: -cmd '.mode csv' \
    -cmd ".import '$out/2026-11-21T1000Z.csv' c" -cmd '.mode list' \
    "select sum(requests) from c where tier = '_total' and
    identity = '_total'")" "$total"
same 'crontab: the JSON' "$(sqlite3 :memory: "select json_extract(
    readfile('$out/2026-11-21T1000Z.json'), '$.rows[0].requests')")" "$total"

# Where no daemon answers nothing is written, and cron has something to mail.
rm -r "$out"
cron 1
same 'crontab: the status without a daemon' $? 1
same 'crontab: files without a daemon' "$(ls "$out")" ''
grep -q 'cannot reach kprofd' "$dir/cron.out" || fail 'nothing to mail'

touch -d '20 days ago' "$out/2026-11-01T1000Z.csv" "$out/else"
touch "$out/2026-11-20T1000Z.csv"
cron 2
same 'crontab: the status of the cleaning' $? 0
same 'crontab: what is left' "$(ls "$out")" "2026-11-20T1000Z.csv
else"

# ---- logrotate, and the log that is opened anew

logrotate=$(command -v logrotate || echo build/tools/usr/sbin/logrotate)
mkdir "$dir/log" "$dir/lib" "$dir/lib/shop"
me=$(id -un) group=$(id -gn)
sed "s,/var/log/kprofd,$dir/log,; s,/var/lib/kprofd,$dir/lib,g
    s,su kprofd kprofd,su $me $group," priv/logrotate/kprofd >"$dir/logrotate"
# Nobody runs as a service here: the signal goes to the one below.
cat >"$dir/bin/systemctl" <<END
#!/bin/sh
echo "\$*" >>"$dir/systemctl"
kill -HUP "\$(cat "$dir/pid")"
END
chmod +x "$dir/bin/systemctl"
chmod 750 "$dir" "$dir/log" "$dir/lib" "$dir/lib/shop"

echo '[{web, {web, handle, 2}}].' >"$dir/tiers.conf"
(umask 077; echo secret >"$dir/cookie")
log=$dir/log/shop.log
# A resolver that does not answer keeps it from ending for want of a target.
LD_PRELOAD=$b/test/slow_resolver.so "$b/kprofd" -target app@no.host \
    -tiers "$dir/tiers.conf" -db "$dir/lib/shop.db" -cookie-file "$dir/cookie" \
    -log-file "$log" -verbose &
kprofd=$!
echo $kprofd >"$dir/pid"
until_ok 'kprofd writes its log' grep -q connecting "$log"
echo '{}' >"$dir/lib/shop/tables.jsonl"

ok 'logrotate: the configuration' "$logrotate" -d -s "$dir/state" \
    "$dir/logrotate"
same 'logrotate: its warnings' "$(grep -iE 'error|warning:' "$dir/ok.out" |
    grep -v 'debug mode does nothing')" ''
PATH=$dir/bin:$PATH
ok 'logrotate: a rotation' "$logrotate" -f -s "$dir/state" "$dir/logrotate"
until_ok 'kprofd opens its log anew' grep -q "opened '.*' again" "$log"
same 'logrotate: files' "$(ls "$dir/log")" "shop.log
shop.log.1"
same 'logrotate: tables' "$(ls "$dir/lib/shop")" tables.jsonl.1
same 'logrotate: what is told' "$(cat "$dir/systemctl")" \
    "kill --kill-whom=main --signal=HUP kprofd.service kprofd@*.service"
grep -q connecting "$log.1" || fail 'the old log is not complete'
kill -TERM "$kprofd"
wait "$kprofd"
same 'kprofd: the status after SIGTERM' $? 0
kprofd=

# ---- systemd's units

# Of the same text as those that are installed, with a program that is here.
make -s PREFIX="$dir/usr" B="$dir/usr" OPT= "$dir/usr/gen/kprofd.service" \
    "$dir/usr/gen/kprofd@.service" >"$dir/make.out" 2>&1 ||
    fail "the units are not made: $(cat "$dir/make.out")"
mkdir -p "$dir/usr/bin" "$dir/units"
ln -s "$b/kprofd" "$dir/usr/bin/kprofd"
cp "$dir/usr/gen/kprofd.service" "$dir/usr/gen/kprofd@.service" "$dir/units/"
for u in kprofd.service kprofd@shop.service; do
	ok "systemd: $u" systemd-analyze verify --man=no "$dir/units/$u"
	# Of the machine's own units it may have something to say as well.
	same "systemd: what it says of $u" "$(grep kprofd "$dir/ok.out")" ''
done
# 0 is none, 10 all that there is; 1.3 is what the network costs.
for u in kprofd.service kprofd@.service; do
	ok "systemd: what $u is exposed to" systemd-analyze security \
	    --offline=yes --no-pager --threshold=15 "$dir/units/$u"
	sed -n 's/.*Overall/Overall/p' "$dir/ok.out"
done
ok 'systemd: the user' systemd-sysusers --dry-run \
    "$PWD/priv/systemd/kprofd.sysusers"
# What the unit runs is what kprofd takes: with the example's settings.
unit=$dir/units/kprofd.service
grep -q '^RestartPreventExitStatus=2 3$' "$unit" || fail 'exit statuses'
# shellcheck disable=SC2046
env -i $(grep -v '^#' priv/systemd/kprofd.env) \
    KPROFD_TIERS="$dir/tiers.conf" sh -c "$(sed -n 's/^ExecStart=//p' "$unit" |
    sed "s,%S,$dir,") -check" >"$dir/check.out" 2>&1
# It reads its options, and gets as far as the cookie.
grep -q "cannot read the cookie file" "$dir/check.out" ||
    fail "ExecStart: $(cat "$dir/check.out")"

finish
