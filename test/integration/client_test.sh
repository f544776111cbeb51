#!/bin/sh
# The client on a database made for it: what it prints is what sqlite3 counts,
# and every command ends with the status it promises.
# usage: client_test.sh BUILD_DIR
set -u

b=$1
kprof=$b/kprof
dir=$(mktemp -d "${TMPDIR:-/tmp}/client_test.XXXXXX")
db=$dir/k.db
export TZ=UTC
unset COLUMNS
. "$(dirname "$0")/client_lib.sh"
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

sql() {
	sqlite3 "$db" "$1"
}

is_json() {
	same "valid JSON" 1 \
	    "$(sqlite3 :memory: "select json_valid(readfile('$dir/out'))")"
}

"$b/test/mkdb" "$db" || exit 1

# ---- report: the same figures as in the views

run 0 report -db "$db"
has out 'all requests'
has out '2026-11-21 10:00:00 to 10:02:00 UTC (2m), web@a, web@b'
has out 'sampling: '
has out 'after: '
has out 'requests  passed over by sampling; the others stand for them (sampled_out)'
has out '\x1b[31mred "quoted"'
if grep -q "$(printf '\033')" "$dir/out"; then
	fail 'an escape character was printed'
else
	pass
fi
total=$(sql "select sum(requests) from request_stats where identity='_total'")
same 'all requests' \
    "$(sed -n 's/^all requests  *\([0-9 ]*[0-9]\)  .*/\1/p' "$dir/out" |
    sed 's/  .*//; s/ //g')" "$total"

run 0 report -db="$db" --json
is_json
same requests "$(json '$.rows[0].requests')" "$total"
same sampled "$(json '$.sampled')" "$(sql 'select sum(sampled) from time_window')"
same 'entry calls' "$(json '$.entry_calls')" \
    "$(sql 'select sum(entry_calls) from time_window')"
same windows "$(json '$.windows')" "$(sql 'select count(*) from time_window')"
same losses "$(json '$.losses[0].lost')" \
    "$(sql "select sum(lost) from losses where cause = 'sampled_out'")"
same 'busy time' "$(json '$.rows[0].tiers[2].busy_ms')" \
    "$(sql "select sum(w_busy_ns) / 1e6 from stat join tier t on t.id = tier_id
    join identity i on i.id = identity_id
    where t.name = 'database' and i.name = '_total'")"
same 'busy time per request' \
    "$(sqlite3 :memory: "select round(json_extract(readfile('$dir/out'),
    '$.rows[0].tiers[2].busy_per_request_ms'), 3)")" \
    "$(sql "select round(sum(b.w_busy_ns) / 1e6 / sum(r.w_requests), 3)
    from stat b join stat r on r.window_id = b.window_id
    and r.identity_id = b.identity_id
    where b.identity_id = (select id from identity where name = '_total')
    and b.tier_id = (select id from tier where name = 'database')
    and r.tier_id = (select id from tier where name = '_total')")"
same maximum "$(json '$.rows[0].tiers[1].max_ms')" \
    "$(sql "select max(max_ns) / 1e6 from stat join tier t on t.id = tier_id
    where t.name = 'http'")"
same 'an identity' \
    "$(sqlite3 :memory: "select json_extract(value, '$.requests')
    from json_each(readfile('$dir/out'), '$.rows')
    where json_extract(value, '$.identity') = 'create'")" \
    "$(sql "select sum(requests) from request_stats where identity='create'")"

run 0 report -db "$db" -since 2026-11-21T10:01:00Z -until 2026-11-21T10:01:30 \
    -node 'web@a' -json
same 'a part' "$(json '$.rows[0].requests')" \
    "$(sql "select sum(requests) from request_stats where identity = '_total'
    and node = 'web@a' and start >= '2026-11-21T10:01:00'
    and start < '2026-11-21T10:01:30'")"

# several nodes are shown together; what cannot be a list is refused
run 0 report -db "$db" -node web@a -node web@b -json
same 'both nodes' "$(json '$.rows[0].requests')" "$total"
run 0 report -db "$db" -node nobody@h --node=web@a -json
same 'one of two names' "$(json '$.rows[0].requests')" \
    "$(sql "select sum(requests) from request_stats where identity = '_total'
    and node = 'web@a'")"
run 0 slow -db "$db" -node web@a -node web@b -json -json
same 'slow requests of both' "$(json '$.requests[#-1].id')" \
    "$(run 0 slow -db "$db" -json; json '$.requests[#-1].id')"
for twice in '-identity x' '-since 1h' '-sort name' '-what busy' '-versus -2h,-1h' \
    '-tier x -stacks' '-form tree -stacks'; do
	run 2 report -db "$db" $twice $twice
	has err "kprof report: ${twice%% *} is given twice: give it once"
done
run 2 slow -n 1 -db "$db" -n 2
has err '-n is given twice'
run 2 stacks -target a@h -for 1s -target b@h
has err '-target is given twice'
run 2 stacks -target a@h -states running -for 1s -states nonsense
has err "'running,nonsense'"

run 0 report -db "$db" -identity 'u*' -json
same 'some identities' "$(json '$.rows[0].requests')" \
    "$(sql "select sum(requests) from request_stats
    where identity in ('update', 'undefined')")"
same 'their number' "$(json '$.rows[3]')" ''

run 0 report -db "$db" -csv
same CSV "$(sqlite3 :memory: -cmd '.mode csv' -cmd ".import $dir/out c" \
    "select requests from c where identity = 'create' and tier = '_total'")" \
    "$(sql "select sum(requests) from request_stats where identity='create'")"
has out "\"'=cmd|'/c calc'!A1\""

# errors inside requests, by type and tier; raised is their name in SQL, too
run 0 report -db "$db"
has out 'errors '
same 'calls of a tier that raised' "$(sed -n '/^errors /,/^$/p' "$dir/out" |
    sed -n 's/^all requests .* \([0-9.]*\) %\( ([^)]*)\)\{0,1\}$/\1/p')" \
    "$(sql "select round(100.0 * sum(raised) / sum(calls + async_calls), 1)
    from tier_stats where tier = 'database' and identity = '_total'")"
run 0 report -db "$db" -json
same 'raised, as in SQL' "$(json '$.rows[0].tiers[2].raised')" \
    "$(sql "select sum(raised) from tier_stats where tier = 'database'
    and identity = '_total'")"
same 'one name for it' "$(sql 'select count(*) from request_stats
    where raised = errors and raised > 0') > 0" \
    "$(sql 'select count(*) from request_stats where errors > 0') > 0"

# calls that began after their request have percentiles of their own
same 'the longest of them' "$(json '$.rows[0].tiers[2].async_max_ms')" \
    "$(sql "select cast(max(async_max_ms) as int) from tier_stats
    where tier = 'database'")"
same 'half of them, in a bucket around 3 ms' \
    "$(json '$.rows[0].tiers[2].async_p50_ms' | cut -c1-3)" 2.9
same 'none of http' "$(json '$.rows[0].tiers[1].async_p99_ms')" ''
run 0 report -db "$db" -percentiles
has out 'all requests, after'

run 0 slow -db "$db" -outcome unfinished -json
same 'one without an end' "$(json '$.requests[#-1].outcome')" unfinished
same 'of one' "$(json '$.requests[1]')" ''
run 0 slow -db "$db" -outcome raised
has out 'no slow requests'
run 0 slow -db "$db" -outcome raised-inside -json
same 'with calls that raised' \
    "$(sqlite3 :memory: "select sum(json_extract(value, '\$.raised_calls'))
    from json_each(readfile('$dir/out'), '\$.requests')")" \
    "$(sql "select sum(raised_calls) from slow_requests where raised_calls > 0")"
run 0 slow -db "$db"
has out 'raised'
run 2 slow -db "$db" -outcome x
has err "-outcome 'x': choose one of"

# what costs most: requests x time
run 0 report -db "$db" -sort cost -json
same 'order of cost' \
    "$(sqlite3 :memory: "select group_concat(json_extract(value,
    '$.requests')) from json_each(readfile('$dir/out'), '$.rows')
    where json_extract(value, '$.identity') <> '_total'")" \
    "$(sql "select group_concat(n) from (select sum(w_requests) n from stat
    where tier_id = (select id from tier where name = '_total')
    and identity_id <> (select id from identity where name = '_total')
    group by identity_id order by sum(w_total_ns) desc)")"
same 'its share' "$(sqlite3 :memory: "select round(json_extract(
    readfile('$dir/out'), '$.rows[1].share'), 5)")" \
    "$(sql "select round(max(t) * 1.0 / sum(t), 5) from (select
    sum(w_total_ns) t from stat
    where tier_id = (select id from tier where name = '_total')
    and identity_id <> (select id from identity where name = '_total')
    group by identity_id)")"
same 'all of it' "$(json '$.rows[0].share')" 1
same 'time measured' "$(json '$.covered_ms')" 120000
run 0 report -db "$db"
has out '  total  '
has out '  after  '
has out 'share: of the '

# a row adds up; programs have the figures and the order that they had before
has out 'self (exclusive) time per request'
has out 'self: the tiers of a row add up to total (inclusive)'
same 'the sum of a row, as rounded' \
    "$(awk -F '  +' '/, by label / { exit } /^all requests/ { sub(/ ms/, "", $3); t = $3
	for (i = 6; i <= NF; i++) { n = $i; sub(/ .*/, "", n)
		s += $i ~ /us/ ? n / 1000 : n }
	print (s > t * 0.95 && s < t * 1.05) }' "$dir/out")" 1
run 0 report -db "$db" -what busy
has out 'time in tier (inclusive) per request'
has out '(-what self does)'
for form in -json -csv; do
	run 0 report -db "$db" -what busy $form -sort database
	cp "$dir/out" "$dir/busy"
	run 0 report -db "$db" $form -sort database
	same "$form, whose default is -what busy" \
	    "$(cmp "$dir/out" "$dir/busy" 2>&1)" ''
done

run 0 report -db "$db" -percentiles -what calls -sort database
has out 'whole request'
has out 'calls per request'
# counts as they are printed, in the table and below it: what the VM counted is
# bare, what was estimated from samples has a ~
counts() {
	awk -F '  +' -v n="$1" '/, by label / { exit } /^(all requests|create) / {
		printf "%s", $1
		for (i = 2; i < 2 + n; i++) {
			sub(/ ±.*/, "", $i)
			printf "|%s", $i
		}
		print ""
	}' "$dir/out"
}
run 0 report -db "$db" -percentiles
same 'counts and their marks' "$(counts 1)" \
    "$(printf 'all requests|%s\ncreate|~675\n' '3 522' '3 522' '~3 522' \
    '~3 522' '~3 522')"
run 0 report -db "$db" -percentiles -until 2026-11-21T10:01
same 'counts where all are measured' "$(counts 1 | sort -u)" \
    "$(printf 'all requests|332\ncreate|55')"
COLUMNS=50 "$kprof" report -db "$db" >"$dir/out"
same 'blocks on a narrow terminal' "$(sed '/, by label /,$d' "$dir/out" |
    grep -c '^all requests')" 2
has out 'database  2 other'
# what is left out for want of room are figures of labels, not their names
same 'labels on a narrow terminal' "$(sed -n '/, by label /,/^and /p' "$dir/out" |
    grep -c ' users  *0\.')" 6
# no line of any table is wider than the terminal
for c in report 'report -percentiles' \
    'report -since 2026-11-21T10:01 -versus 2026-11-21T10:00,2026-11-21T10:01' \
    slow 'tree 1'; do
	for w in 40 60 80 132 200; do
		# shellcheck disable=SC2086
		COLUMNS=$w "$kprof" $c -db "$db" >"$dir/out"
		same "lines of $c wider than $w" \
		    "$(LC_ALL=C.UTF-8 grep -cE "^.{$((w + 1)),}$" "$dir/out")" 0
	done
	# shellcheck disable=SC2086
	"$kprof" $c -db "$db" >"$dir/out"
	has out 'losses:'
done

# ---- intervals, computed again by SQL: of tenths of the windows, as
# priv/doc/reading-figures.md and src/store/sum.c have it

offset() {	# of the tenths in a row of ten windows
	echo $((($1 * -7046029254386353131 >> 40 & 16777215) % 10))
}
sql "create view tenth as select id window_id, node_id, (start_ns / 10000000000
    + case start_ns / 100000000000 when 17952552 then $(offset 17952552)
    else $(offset 17952553) end) % 10 tenth from time_window"

# How far the ends are from sum(y) / sum(x), of a select of y and x by tenth; least:
# relative variance; of all requests, this part was measured
ends() {
	sql "with t(y, x) as ($1),
	s as (select 1.0 * sum(y) / sum(x) v, sum(x) sx, count(*) n, sum(y > 0) filled from t),
	e as (select sum(d * d) two, sum(d * d * d * d) four
	    from (select (y - v * x) / sx d from t, s)),
	q as (select sqrt(n / (n - 1.0) * two) / v error,
	    min(max(cast(2 * two * two / four - 1 as int), 2), filled - 1) df from s, e),
	w as (select max(error, sqrt($2)) * sqrt(1 - $3) * (select value from json_each(
	    '[0,12.706,4.303,3.182,2.776,2.571,2.447,2.365,2.306,2.262]')
	    where key = df) within from q)
	select printf('%.4f %.4f', exp(-within), exp(within)) from w"
}
# of nodes
run 0 report -db "$db" -by node -json
is_json
same 'a row for each node' "$(sqlite3 :memory: "select group_concat(value ->> '\$.identity')
    from json_each(readfile('$dir/out'), '\$.rows')")" '_total,web@b,web@a'
for node in web@a web@b; do
	of="from stat s join tenth using (window_id)
	    where node_id = (select id from node where name = '$node')
	    and tier_id = (select id from tier where name = '_total')
	    and identity_id = (select id from identity where name = '_total')"
	same "interval of the requests of $node" "$(sqlite3 :memory: "
	    select printf('%.4f %.4f', c ->> '\$.intervals.requests[0]' /
	    (c ->> '\$.requests'), c ->> '\$.intervals.requests[1]' / (c ->> '\$.requests'))
	    from (select value ->> '\$.tiers[0]' c from
	    json_each(readfile('$dir/out'), '\$.rows')
	    where value ->> '\$.identity' = '$node')")" \
	    "$(ends "select sum(w_requests), count(*) * 10.0 $of group by tenth" \
	    "(select 1.0 / sum(requests) $of)" \
	    "(select 1.0 * sum(requests) / sum(w_requests) $of)")"
done
run 0 report -db "$db" -by node
has out 'all nodes  '
same 'each node has its own' "$(grep -c '^web@[ab] .*~[0-9 ]* ±[0-9.]* % .* ms ±' \
    "$dir/out")" 2
run 0 report -db "$db" -by node -identity create -json
same 'and of one type' "$(sqlite3 :memory: "select count(*) from
    json_each(readfile('$dir/out'), '\$.rows')
    where value ->> '\$.tiers[0].intervals.requests[0]' > 0")" 3
run 0 report -db "$db" -by node -json -until 2026-11-21T10:01
same 'none where all are measured' "$(grep -c '"intervals":{' "$dir/out")" 0

# of calls with a label, in a request of the row
run 0 report -db "$db" -json
for label in users 'orders;'; do
	row='identity_id = (select id from identity where name = '\''update'\'')'
	of="from stat s join tenth using (window_id) where s.$row
	    and tier_id = (select id from tier where name = '_total')"
	of_calls="select sum(c.w_calls) from stat c join tenth t using (window_id)
	    join tier on tier.id = c.tier_id where c.$row
	    and tier.name glob 'database: *$label*' and t.tenth = tenth.tenth"
	through="(select 1.0 * sum(c.requests) from stat c join tier on tier.id = c.tier_id
	    where c.$row and tier.name glob 'database: *$label*')"
	same "interval of the calls of $label" "$(sqlite3 :memory: "
	    select printf('%.4f %.4f', l ->> '\$.intervals.calls_per_request[0]' / f,
	    l ->> '\$.intervals.calls_per_request[1]' / f) from (select l.value l,
	    (l.value ->> '\$.calls') * 1.0 / (r.value ->> '\$.requests') f from
	    json_each(readfile('$dir/out'), '\$.rows') r, json_each(r.value, '\$.tiers') t,
	    json_each(t.value, '\$.labels') l where r.value ->> '\$.identity' = 'update'
	    and t.value ->> '\$.tier' = 'database'
	    and l.value ->> '\$.label' glob '*$label*')")" \
	    "$(ends "select ifnull(($of_calls), 0), sum(w_requests) $of group by tenth" \
	    "(select (1 - $through / sum(requests)) / $through $of)" \
	    "(select 1.0 * sum(requests) / sum(w_requests) $of)")"
done
run 0 report -db "$db"
has out ' 0.26 ±40 %  '
COLUMNS=60 "$kprof" report -db "$db" >"$dir/out"
same 'intervals of labels go before a column does' "$(sed -n '/, by label/,/^and /p' \
    "$dir/out" | grep -c ±)" 0

# of kprof top, of the last minute
run 0 top -plain -db "$db"
of="from stat s join tenth using (window_id) join time_window w on w.id = window_id
    where w.start_ns >= 1795255260000000000
    and tier_id = (select id from tier where name = '_total')
    and identity_id = (select id from identity where name = 'create')"
within=$(ends "select sum(w_requests), count(distinct w.start_ns) * 10.0 $of group by tenth" \
    "(select 1.0 / sum(requests) $of)" "(select 1.0 * sum(requests) / sum(w_requests) $of)")
has out "$(sqlite3 :memory: "select printf('create  %*s~10.3 ±%.0f %%  ', 17, '',
    100 * (${within#* } - 1))")"
COLUMNS=80 "$kprof" top -plain -db "$db" >"$dir/out"
same 'intervals go before a tier does' "$(grep -c ± "$dir/out")" 0

# ---- objectives: what was in time, by the times that the database was made of

"$b/test/mkdb" "$dir/slo.db" 1795255200 "$dir/raw" || exit 1
# slow LIMIT_MS WHERE: the requests or calls that took longer
slow() {
	sqlite3 :memory: 'create table raw (tier, id int, ns int, w int)' '.separator ,' \
	    ".import $dir/raw raw" "select ifnull(sum(w), 0) from raw where ns > $1 * 1e6 and $2"
}
run 0 report -slo -json -db "$dir/slo.db"
is_json
same 'objectives' "$(json '$.objectives[#-1].objective')" 'all requests within 250 ms'
same 'requests of a type' "$(json '$.objectives[0].requests')" "$(sql \
    "select sum(requests) from request_stats where identity = 'create'")"
same 'failed ones' "$(json '$.objectives[0].failed')" "$(sql \
    "select sum(errors) from request_stats where identity = 'create'")"
same 'calls of a tier' "$(json '$.objectives[1].requests')" "$(sql \
    "select sum(calls) from tier_stats where identity = '_total' and tier = 'database'")"
# 7.8125 ms is 2^-7 s, the edge of a bucket: none is estimated
same 'slow calls' "$(json '$.objectives[1].slow')" "$(slow 7.8125 "tier = 'database'")"
same 'slow requests, within a bucket' 1 "$(sqlite3 :memory: "select n between
    v ->> 'missed_low' and v ->> 'missed_high' from (select $(slow 15 "tier = '_total' and
    id = 1") + json_extract(readfile('$dir/out'), '\$.objectives[0].failed') n,
    json_extract(readfile('$dir/out'), '\$.objectives[0]') v)")"
same 'none took so long' "$(json '$.objectives[2].slow')" 0
run 0 report -slo -by node -json -db "$dir/slo.db"
same 'nodes add up' "$(json '$.objectives[0].nodes[0].requests') + $(json \
    '$.objectives[0].nodes[1].requests')" "$(sql "select group_concat(n, ' + ') from (select
    sum(requests) n from request_stats where identity = 'create' group by node order by node)")"
run 0 report -slo -db "$dir/slo.db"
has out '99 % of create within 15 ms'
has out 'budget burned'
has out '~: estimated: requests were sampled'
run 2 report -slo -sort cost -db "$db"
has err '-slo goes with -by, -json, -db, -node and a range alone'

# ---- two ranges

then="start >= '2026-11-21T10:00:00' and start < '2026-11-21T10:01:00'"
now="start >= '2026-11-21T10:01:00'"
versus="-since 2026-11-21T10:01 -versus 2026-11-21T10:00,2026-11-21T10:01"
# shellcheck disable=SC2086
run 0 report -db "$db" $versus -sort change -json
changes=$(cat "$dir/out")
# shellcheck disable=SC2086
run 0 report -db "$db" $versus -json
is_json
same 'what changed most comes first' "$(cat "$dir/out")" "$changes"
# what the comparison says of create: requests, or a figure of a tier
create() {
	sqlite3 :memory: "select json_extract(value, '$1')
	    from json_each(readfile('$dir/out'), '\$.changes')
	    where json_extract(value, '\$.identity') = 'create'"
}
for side in 'now' 'then'; do
	if [ $side = now ]; then where=$now; else where=$then; fi
	same "requests $side" "$(create "\$.requests.$side")" \
	    "$(sql "select sum(requests) from request_stats
	    where identity = 'create' and $where")"
	same "losses $side" "$(json "\$.$side.losses[0].lost")" \
	    "$(sql "select nullif(sum(lost), 0) from losses where $where")"
	same "busy time of the database $side" "$(sqlite3 :memory: \
	    "select round($(create "\$.figures[3].$side"), 2)")" \
	    "$(sql "select round(sum(busy_ms) / (select sum(requests)
	    from request_stats where identity = 'create' and $where), 2)
	    from tier_stats where tier = 'database' and identity = 'create'
	    and $where")"
done
same 'the tier' "$(create '$.figures[3].tier')" database
same 'the change' "$(sqlite3 :memory: "select round($(create \
    '$.figures[3].change_percent'), 3)")" "$(sqlite3 :memory: "select round(
    100 * ($(create '$.figures[3].now') / $(create '$.figures[3].then') - 1),
    3)")"
# shellcheck disable=SC2086
run 0 report -db "$db" $versus
has out '----- requests ------'
has out 'now: 2026-11-21 10:01:00 to 10:02:00 UTC (1m), web@a, web@b'
has out 'then: 2026-11-21 10:00:00 to 10:01:00 UTC (1m), web@a, web@b'
same 'losses of each' "$(grep -c '^losses:' "$dir/out")" 2
has out '~ before a change, uncertain: fewer than 30 measured'
same 'counts of both' "$(counts 2 | sed 2q)" \
    "$(printf 'all requests|3 190|332\ncreate|~620|55')"
# shellcheck disable=SC2086
run 0 report -db "$db" $versus -csv -what calls
same 'CSV of two' "$(sqlite3 :memory: -cmd '.mode csv' \
    -cmd ".import $dir/out c" "select now + \"then\" from c
    where identity = 'create' and tier = 'http'
    and figure = 'calls_per_request'")" 2
# shellcheck disable=SC2086
run 0 report -db "$db" $versus -sort change -percentiles
has out 'whole request'
same 'a table for the tier' "$(grep -c '^database   *now  *then' "$dir/out")" 1
for p in raised_share p50_ms p90_ms p99_ms; do
	# shellcheck disable=SC2086
	run 0 report -db "$db" $versus -json
	for side in 'now' 'then'; do
		if [ $side = now ]; then where='-since 2026-11-21T10:01'
		else where='-since 2026-11-21T10:00 -until 2026-11-21T10:01'; fi
		got=$(sqlite3 :memory: "select value ->> '$side' from json_each(
		    readfile('$dir/out'), '\$.changes[0].figures')
		    where value ->> 'figure' = '$p' and value ->> 'tier' = '_total'")
		# shellcheck disable=SC2086
		"$kprof" report -db "$db" $where -json >"$dir/one"
		same "$p $side" "$(sqlite3 :memory: "select round($got, 5)")" \
		    "$(sqlite3 :memory: "select round(iif('$p' like 'p%',
		    value ->> '$p', 1.0 * (value ->> 'raised') /
		    (value ->> 'calls')), 5) from json_each(readfile('$dir/one'),
		    '\$.rows[0].tiers') where value ->> 'tier' = '_total'")"
	done
done
# shellcheck disable=SC2086
run 0 report -db "$db" $versus -by node
has out 'web@b  '
run 0 report -db "$db" -since 2026-11-21T10:01 \
    -versus 2026-11-20T10:00,2026-11-20T11:00
has out '-versus: nothing was measured in that time'
run 2 report -db "$db" -versus 2h
has err "-versus '2h': give two times with a comma between them"
run 2 report -db "$db" -versus 2h,soon
has err "-versus '2h,soon': the second is not a length of time such as 30m"
run 2 report -db "$db" -versus=-1h,-2h
has err 'the first is not before the second'
run 2 report -db "$db" -sort change
has err "-sort 'change': there is no change without -versus"
# by length, both measured from one moment: not a window is lost between them
"$b/test/mkdb" "$dir/now.db" $(($(date +%s) - 120))
run 0 report -db "$dir/now.db" -since -1m -versus -2h,-1m -json
same 'windows of both' "$(sqlite3 :memory: "select
    json_extract(readfile('$dir/out'), '$.now.windows') +
    json_extract(readfile('$dir/out'), '$.then.windows')")" 24

# ---- empty reports say why

run 0 report -db "$db" -since 2026-11-22T00:00
has out 'nothing was measured in that time'
has out '2026-11-21 10:00:00 to 10:02:00 UTC'
run 0 report -db "$db" -node 'x@*'
has out "no node matches 'x@*' (see -node); there are: web@a, web@b"
run 0 report -db "$db" -identity nope
has out "no request type matches 'nope'"
has out create
run 0 report -db "$db" -identity nope -json
is_json
has err 'no request type matches'
sqlite3 "$dir/empty.db" <priv/schema.sql >/dev/null
run 0 report -db "$dir/empty.db"
has out 'holds no measurements yet'
run 0 report -db "$dir/empty.db" -json
is_json
same 'a hint for programs' "$(json '$.hints[0]')" \
    "$(head -1 "$dir/err")"
run 0 top -plain -db "$dir/empty.db"
has out 'holds no measurements yet'
sqlite3 "$dir/empty.db" "insert into run (started_ns, interval_ns, version,
    tiers_conf) values (1, 10000000000, '1', '')"
run 0 report -db "$dir/empty.db"
has out 'no target is attached yet, so nothing is measured: kprof status'
sqlite3 "$dir/empty.db" "insert or ignore into node (id, name) values (1, '');
    insert into event (run_id, node_id, at_ns, kind, text)
    values (1, 1, 2, 'absent', 'cannot connect to shop@vm')"
run 0 report -db "$dir/empty.db"
has out 'nothing was measured: cannot connect to shop@vm'

# ---- the same after a roll-up: from 24 windows to 6, of 30 s and 1 min; how sure
# estimates are is known from windows

figures() {
	sed 's/"windows":[0-9]*//; s/"intervals":\(null\|{[^}]*}\)//g' "$dir/out"
}

plain=$db
db=$dir/rolled.db
"$b/test/mkdb" "$db" 1795255200 /dev/null 10s:20s,30s:1m,1m:9d 150 || exit 1
same 'mixed windows' "$(sql 'select group_concat(l) from (select level
    || ":" || count(*) l from time_window group by level order by level)')" \
    '30:4,60:2'
for args in '' '-node web@a' '-percentiles' '-identity u*' \
    '-until 2026-11-21T10:01:00Z' '-since 2026-11-21T10:01:00Z'; do
	# shellcheck disable=SC2086
	run 0 report -db "$plain" -json $args
	figures >"$dir/before"
	# shellcheck disable=SC2086
	run 0 report -db "$db" -json $args
	figures | cmp -s - "$dir/before"
	same "the figures after a roll-up, with '$args'" $? 0
	has out '"rows":[{"identity":"'
done
# A range has whole windows: "10:05 to 11:05" once was 11:00 to 12:00.
first=$(sql "select sum(w_requests) from stat s join time_window w
    on w.id = window_id where tier_id = (select id from tier where name = '_total')
    and identity_id = (select id from identity where name = '_total')
    and start_ns = 1795255200000000000")
part='-since 2026-11-21T10:00:20Z -until 2026-11-21T10:00:40Z'
# shellcheck disable=SC2086
run 0 report -db "$db" $part
has out '2026-11-21 10:00:00 to 10:01:00 UTC (1m), web@a, web@b'
# shellcheck disable=SC2086
run 0 report -db "$db" -json $part
same 'requests of a part' "$(json '$.rows[0].requests')" "$first"
same 'since when' "$(json '$.start')" 2026-11-21T10:00:00.000Z
same 'until when' "$(json '$.end')" 2026-11-21T10:01:00.000Z
# shellcheck disable=SC2086
run 0 report -db "$db" -csv $part
has out '2026-11-21T10:00:00.000Z,2026-11-21T10:01:00.000Z,_total,_total'
for of in -stacks -messages; do
	# shellcheck disable=SC2086
	run 0 report $of -db "$db" $part
	has out '2026-11-21 10:00:00 to 10:01:00 UTC'
done
# shellcheck disable=SC2086
run 0 report -db "$db" $part -versus 2026-11-21T10:00:30Z,2026-11-21T10:01:10Z
has out 'now: 2026-11-21 10:00:00 to 10:01:00 UTC'
has out 'then: 2026-11-21 10:00:00 to 10:01:30 UTC'
has out 'both ranges have windows in common'
# of ranges that do not overlap, the first one has the window between them
# shellcheck disable=SC2086
run 0 report -db "$db" $part -versus 2026-11-21T10:00:50Z,2026-11-21T10:01:10Z
has out 'then: 2026-11-21 10:01:00 to 10:01:30 UTC'
run 0 report -db "$db" -since 2026-11-21T10:00:50Z -until 2026-11-21T10:01:10Z \
    -versus 2026-11-21T10:00:10Z,2026-11-21T10:00:50Z
has out 'now: 2026-11-21 10:00:00 to 10:01:30 UTC'
# slow requests have times of their own; what is lost is known by windows
run 0 slow -db "$db" -since 2026-11-21T10:00:20Z -until 2026-11-21T10:00:45Z
has out '10:00:40.123'
if grep -q '10:00:10.123' "$dir/out"; then
	fail 'a request from before the range is listed'
else
	pass
fi
has out '2026-11-21 10:00:00 to 10:01:00 UTC'

run 0 slow -db "$db"
has out '450 ms'
run 1 status -db "$db"
has out '2026-11-21 10:00:00 to 10:02:00 UTC'
run 1 status -db "$db" -json
same 'the last window, rolled up' "$(json '$.last_sampled')" \
    "$(sql 'select sum(sampled) from time_window where start_ns =
    (select max(start_ns) from time_window)')"
db=$plain

# ---- memory: the last window of the view, and what it has grown by

run 0 report -memory -db "$db" -node web@a
has out 'db_server           shop             1     8 920    8 920  3.1 MB  +2.2 MB   30.0 kB       250 000'
has out 'web:init/1 (fun 2)  shop '
has out 'shop_cache  shop_cache       1  100 000  73.0 MB  +33.0 MB'
has out 'db_server: 8 920 messages wait in one mailbox (process <0.77.0>), long since 2026-11-21 10:00:50'
has out 'GROWN: memory and binaries, 2026-11-21 10:00:00 to 10:02:00 UTC (2m)'
COLUMNS=80 "$kprof" report -memory -db "$db" >"$dir/out"
same 'lines wider than the terminal' \
    "$(LC_ALL=C.UTF-8 grep -cE '^.{81}' "$dir/out")" 0
run 0 report -memory -db "$db" -node web@a -json
is_json
same 'its longest queue' "$(json '$.usage[2].longest')" \
    "$(sql "select max(longest) from process_stats where node = 'web@a'")"
run 0 report -memory -db "$db" -node web@a -n 1
has out '1 group more (see -n)'
run 2 report -memory -stacks -db "$db"
has err '-memory goes with'

# ---- stacks: the same samples as in the views

run 0 report -stacks -db "$db"
has out 'all requests  '
has out '    database  '
has out '      db:query/2  '
has out 'gen:do_call/4:259 < db:query/2:17 < web:handle/2:41'
has out '(not seen)'
has out '(after the request)'
has out '      db:rows/1 (list comprehension)  '
has out '~: estimated from samples'
has out '2026-11-21 10:00:00 to 10:02:00 UTC'
COLUMNS=80 "$kprof" report -stacks -db "$db" >"$dir/out"
same 'lines wider than the terminal' \
    "$(LC_ALL=C.UTF-8 grep -cE '^.{81}' "$dir/out")" 0
run 0 report -stacks -tier 'database: users' -db "$db"
has out '    database: users '
run 2 report -stacks -tier 'database: nobody' -db "$db"
has err "-tier 'database: nobody': no such tier"
run 0 report -stacks -db "$db" -json
is_json
same samples "$(json '$.samples')" "$(sql 'select sum(samples) from tier_stacks')"
same 'not seen' "$(json '$.not_seen')" \
    "$(sql "select sum(samples) from tier_stacks where state = 'not seen'")"
same 'the longest stack' "$(json '$.stacks[0].ms')" \
    "$(sql 'select cast(max(ms) as integer) from (select sum(ms) ms
    from tier_stacks group by node, identity, path, state, frames)')"
same 'in the order of time' "$(sqlite3 :memory: "select count(*) from (select
    value ->> 'ms' ms, lag(value ->> 'ms') over (order by key) before from
    json_each(readfile('$dir/out'), '\$.stacks')) where ms > before")" 0
run 0 report -stacks -db "$db" -form folded
same 'folded time' "$(awk '{ n += $NF } END { printf "%d", n / 1000 }' "$dir/out")" \
    "$(sql 'select cast(sum(ms) as integer) from tier_stacks')"
has out 'create;http;database;cowboy_stream_h:request_process/3:306;web:handle/2:41;db:query/2:17;gen:do_call/4:259 '
has out ';db:query/2:22;db:rows/1 (list comprehension):31 '
same 'SQL has the name of the compiler' "$(sql "select distinct function from
    stack_functions where function like '%lc$%'")" "db:'-rows/1-lc\$^0/1-0-'/1"
run 0 report -stacks -db "$db" -form speedscope
is_json
same 'a profile for each type' "$(json '$.profiles[3]')" ''
same 'its end is the time of all' "$(json '$.profiles[1].endValue')" \
    "$(sql "select cast(sum(ms) * 1000000 as integer) from tier_stacks where
    identity = 'create'")"
run 0 report -stacks -db "$db" -form pprof
same 'a profile' "$(gzip -dc <"$dir/out" | grep -ac 'request_type')" 1
run 2 report -stacks -db "$db" -form pprof -tier templating
has err 'they go without -tier and -n'
run 2 report -stacks -db "$db" -form difffolded
has err 'needs the other side: -versus or -against'
run 0 report -stacks -db "$db" -form difffolded -since 2026-11-21T10:01 -versus 2026-11-21T10:00,2026-11-21T10:01
same 'folded time of now' "$(awk '{ n += $NF } END { printf "%d", n / 1000 }' "$dir/out")" \
    "$(sql "select cast(sum(ms) as integer) from tier_stacks where start >= '2026-11-21T10:01'")"
same 'of each stack two numbers' "$(grep -cv ' [0-9][0-9]* [0-9][0-9]*$' "$dir/out")" 0
run 0 report -stacks -db "$db" -tier templating -n 0
has out 'tpl:render/1:9'
if grep -q gen_tcp "$dir/out"; then
	fail 'another tier is shown'
else
	pass
fi
run 0 report -stacks -db "$db" -tier _other
has out 'no sample is in this tier'
run 2 report -stacks -db "$db" -tier templatin
has err "-tier 'templatin': no such tier: did you mean 'templating'?"
run 2 report -stacks -db "$db" -tier nosuch
has err "-tier 'nosuch': no such tier; kprof report shows them"
run 0 report -stacks -db "$db" -identity 'nosuch*'
has out 'no request type with sampled stacks matches'
run 0 report -stacks -db "$db" -since 2026-11-21T11:00
has out 'add {stacks, {per_second, 20}} to tiers.conf'
run 0 report -stacks -db "$db" -identity create -against types
has out 'of these'
has out 'all functions '
has out "of these: 2026-11-21 10:00:00 to 10:02:00 UTC (2m), ~$(sql "select
    sum(requests) from tier_stats where tier = '_total' and identity = 'create'") requests"
has out 'estimated from samples; 99.9 %'
has out 'functions not shown: they differ less'
run 0 report -stacks -db "$db" -since 2026-11-21T10:01 -versus 2026-11-21T10:00,2026-11-21T10:01 -waits -n 0
has out 'then: 2026-11-21 10:00:00 to 10:01:00 UTC (1m)'
has out 'db_server:loop/1 '
has out "requests, $(sql "select
    sum(samples) from tier_stacks where start >= '2026-11-21T10:01'") samples"
run 0 report -stacks -db "$db" -node web@a -against nodes -n 0 -tier templating
has out 'here  other nodes'
if grep -q 'db:query/2\|db_server' "$dir/out"; then
	fail 'a wait, or another tier, is compared'
else
	pass
fi
run 0 report -stacks -db "$db" -node 'web@*' -against nodes
has out 'other nodes: nothing is stored of this'
run 0 report -stacks -db "$db" -node web@a -against nodes -json
is_json
same 'the other side' "$(json '$.versus.samples')" \
    "$(sql "select sum(samples) from tier_stacks where node = 'web@b'")"
run 0 report -stacks -db "$db" -took 15625us -against durations -n 0
has out 'of these  '
has out 'db:rows/1 (list comprehension)  database '
has out 'requests that took over 16 ms (limits are powers of two of a second)'
has out "; left out: $(sql 'select sum(samples) from tier_stacks where over_ms is
    null') samples of requests whose duration is not known"
run 0 report -stacks -db "$db" -took 15625us,1s -json
is_json
same 'their samples' "$(json '$.samples')" \
    "$(sql 'select sum(samples) from tier_stacks where over_ms between 15.6 and 500')"
same 'their ends' "$(json '$.took.to_ms')" 1000
run 0 report -stacks -db "$db" -took 10s
has out 'no sample is of a request of this duration'
run 0 slow -db "$db" -took 250ms,500ms
has out '300 ms'
run 0 slow -db "$db" -took 1s -json
same 'none' "$(json '$.requests[0]')" ''
run 2 report -stacks -db "$db" -against durations
has err '-against durations: -took says which'
run 2 report -stacks -db "$db" -took 1s,250ms
has err "-took '1s,250ms': FROM is not less than TO"
run 2 slow -db "$db" -took soon
has err "-took 'soon': give FROM,TO as 250ms,1s, or FROM alone"
run 2 report -db "$db" -took 1s
has err 'go with -stacks'
run 2 report -stacks -db "$db" -against nodes
has err '-against nodes: -node says which'
run 2 report -stacks -db "$db" -against types
has err '-against types: -identity says which'
run 2 report -db "$db" -against types
has err 'go with -stacks'
run 2 report -stacks -db "$db" -waits
has err '-waits goes with -versus or -against'
run 2 report -stacks -db "$db" -versus -2h,-1h -form folded
has err 'they go without -form, or with -form difffolded'
run 2 report -stacks -db "$db" -csv
has err '-stacks goes with'
run 2 report -db "$db" -tier http
has err '-waits go with -stacks'
run 2 report -stacks -db "$db" -json -n 3
has err '-json has all stacks'

# ---- slow, tree

run 0 slow -db "$db" -n 0 -json
same 'all slow requests' "$(sqlite3 :memory: \
    "select count(*) from json_each(readfile('$dir/out'), '\$.requests')")" \
    "$(sql 'select count(*) from slow_requests')"
run 0 slow -db "$db" -n 0 -json -sort -total
same 'the other way round' "$(json '$.requests[1].total_ms')" \
    "$(sql 'select cast(min(total_ms) as integer) from slow_requests')"
run 0 report -db "$db" -n 1 -sort -name
has out 'request types (see -n)'
run 0 report -db "$db" -n 1 -json
same 'two rows' "$(json '$.rows[2]')" ''
run 0 slow -db "$db" -n 2 -json
is_json
same slowest "$(json '$.requests[0].total_ms')" \
    "$(sql 'select cast(max(total_ms) as integer) from slow_requests')"
same limit "$(json '$.requests[2]')" ''
run 0 slow -db "$db" -sort time
same 'order of time' "$(awk 'NR > 2 && !NF { exit } NR > 2 { print $1 }' "$dir/out" | xargs)" \
    "$(sql "select group_concat(request, ' ') from slow_requests")"
run 0 slow -db "$db" -since 2026-11-21T11:00
has out 'no slow requests'
run 0 slow -db "$db" -json
same 'losses below slow requests' "$(json '$.windows.losses[0].lost')" \
    "$(sql "select sum(lost) from losses where cause = 'sampled_out'")"
run 0 slow -db "$db"
has out '       2 871 requests  passed over by sampling'
run 0 slow -db "$db" -identity 'u*' -json
same 'chosen by identity' "$(json '$.requests[0].identity')" update
run 0 tree 1 -db "$db"
has out 'after: 1 call began after the request had ended'
has out '  tpl:render/1'
run 0 tree 1 -db "$db" -json
is_json
same 'a call' "$(json '$.tree[4].call')" \
    "$(sql 'select trim(call) from slow_calls where request = 1 and seq = 4')"
same 'its window' "$(json '$.windows.start')" 2026-11-21T10:00:00.000Z
same 'and no other' "$(json '$.windows.n')" 1
run 0 tree 1 -db "$db"
has out 'its window: 2026-11-21 10:00:00 to 10:00:10 UTC (10s)'
for form in chrome speedscope otlp; do
	run 0 tree 1 -form "$form" -db "$db"
	is_json
done
same 'the id of its trace is the one that -otlp sends' \
    "$(json '$.resourceSpans[0].scopeSpans[0].spans[1].parentSpanId')" \
    "$(json '$.resourceSpans[0].scopeSpans[0].spans[0].spanId')"
run 2 tree 1 -form json -db "$db"
has err 'choose one of tree,chrome,speedscope,otlp'
run 2 tree 1 -form otlp -json -db "$db"
has err '-json is for the tree'
run 1 tree 99 -form chrome -db "$db"
has err 'no request 99'
run 1 tree 99 -db "$db"
has err 'no request 99'
# new ones, as they are stored; the copies have no calls
cp "$db" "$dir/new.db"
"$kprof" tree new -json -db "$dir/new.db" >"$dir/new" 2>"$dir/err" &
server=$!
store() {
	sqlite3 -cmd ".timeout 9000" "$dir/new.db" "insert into request select max(id) + $1, (select max(id) from run), node_id,
	    identity_id, start_ns, total_ns, label, null, 1, 1, null from request"
}
for _ in $(seq 60); do
	store 1
	sleep 0.5
	[ ! -s "$dir/new" ] || break
done
till -s "$dir/new"
first=$(sed -n '1s/^{"request":\([0-9]*\).*/\1/p' "$dir/new")
last=$(sqlite3 "$dir/new.db" 'select max(id) from request')
# two of three are deleted before it looks again
store 3
for _ in $(seq 60); do
	! grep -q "^{\"request\":$((last + 3))," "$dir/new" || break
	sleep 0.5
done
same 'each once, in order' "$(sed 's/^{"request":\([0-9]*\).*/\1/' "$dir/new")" \
    "$(seq "$first" "$last"; echo $((last + 3)))"
has err 'deleted before they were read: 2'
kill "$server"
wait "$server" 2>/dev/null
server=''
# it does not wait for a request to notice that nobody reads
(timeout 60 "$kprof" tree new -json -db "$dir/new.db"; echo $? >"$dir/status") | true
till -s "$dir/status"
same 'the status without a reader' "$(cat "$dir/status")" 0
run 2 tree new -json -db "$dir/new.db" -db "$db"
has err 'new is of one database'
run 2 tree x -db "$db"
has err "the ID 'x' is not a number"
run 2 tree -db "$db"
has err 'the ID is missing'

# ---- status and the daemon

# it shows what there is, and says to scripts that no daemon runs
run 1 status -db "$db"
has out 'does not answer'
has out 'is it running?'
has out 'ended well'
has out 'queue of 20123 messages \x1b[2J'
run 1 status -db "$db" -json
is_json
same 'the reason' "$(json '$.why' | grep -c 'is it running')" 1
# a daemon that ends closes a short window: the one before is not added to it
newest='(select max(start_ns) from time_window)'
cp "$db" "$dir/short.db"
sqlite3 "$dir/short.db" "update time_window set end_ns = start_ns + 4000000000
    where start_ns = $newest"
run 1 status -db "$dir/short.db" -json
same 'the last window alone' "$(json '$.last_sampled')" \
    "$(sql "select sum(sampled) from time_window where start_ns = $newest")"
run 1 status -db "$dir/short.db" -node 'none@*'
same 'no window of that node' "$(grep -c 'last window' "$dir/out")" 0
run 1 status -db "$dir/none.db"
run 1 pause -db "$db"
has err "cannot reach kprofd at '$db.sock': is it running?"
answer 'ok 7\npaused\n'
run 0 pause -db "$db"
has out paused
asked pause
# one that was stopped is not waited for: it used to be for half a minute
answer 'ok 7\npaused\n'
stopped=$(ps -o pid= --ppid "$server" | tr -d ' ')
kill -STOP "$stopped"
run 1 pause -db "$db"
has err "does not answer: its process $stopped is stopped ('kill -CONT $stopped' lets it go on)"
kill -CONT "$stopped"
asked pause
answer 'ok 7\npaused\n'
run 0 pause -db "$db" -node 'web@*'
asked 'pause node=web@*'
answer 'ok 7\nmarked\n'
run 0 mark -db "$db" -node 'web@*' 'deploy of 1.4.2, näher an text=x'
has out marked
asked 'mark node=web@* text=deploy of 1.4.2, näher an text=x'
answer 'ok 7\nmarked\n'
run 0 mark -db "$db" -- "-$(printf '%255s' x)"
asked "mark text=-$(printf '%255s' x)"
run 2 mark -db "$db"
has err 'the TEXT is missing'
run 2 mark -db "$db" '  '
has err 'the TEXT is empty'
run 2 mark -db "$db" "$(printf '%257s' x)"
has err 'the TEXT is longer than 256 bytes'
run 2 mark -db "$db" "$(printf 'a\nb')"
has err 'the TEXT has a control character'
run 2 mark -db "$db" "$(printf 'a\377')"
has err 'the TEXT is not UTF-8'
answer 'ok 0\n'
run 0 status -db "$db" -json -node b@h
asked 'status json node=b@h'
answer 'ok 0\n'
run 0 resume -db "$db" -node b@h -node 'c@*'
asked 'resume node=b@h node=c@*'
long=$(printf '%0200d' 0)
run 2 resume -db "$db" -node "a$long" -node "b$long" -node "c$long" \
    -node "d$long" -node "e$long"
has err '-node is given too often'
run 2 resume -db "$db" -node 'a b'
has err "-node 'a b' can match no node"
run 2 resume -db "$db" -node "$(printf '%0256d' 0)"
has err 'more than 255 bytes'
run 2 dump -db "$db" -node 'web@*'
has err "unknown option '-node'"
run 2 clear-tokens -node 'web@*' -target a@h
has err 'choose one'
answer 'note 4\nhalfok 12\nall good \0033!\n'
run 0 dump -db "$db"
has err half
has out 'all good \x1b!'
asked dump
answer 'note 35\ntiers.conf:2:3: error: no\n  x\n  ^\n\nerror 7\nrefused'
run 1 reload -db "$db"
has err 'tiers.conf:2:3: error: no'
has err 'kprof: refused'
asked reload
answer 'error 9\nnot armed'
run 1 resume -control "$db.sock"
has err 'kprof: not armed'
asked resume
answer 'ok 9\n{"a": 1}\n'
run 0 status -db "$db" -json
same 'JSON of the daemon' "$(json '$.a')" 1
asked 'status json'
answer 'ok 5\nfine\n'
run 0 status -db "$db"
has out fine
asked status
answer 'ok 0\n'
run 0 clear-tokens -db "$db"
asked clear-tokens
for bad in '' 'ok 5\nabc' 'ok 99999999999999999999\n' 'ok -1\n' 'ok\n' \
    'ok 2000000\n' 'maybe 1\nx' 'ok 1x\n' \
    '1234567890123456789012345678901234567890123456789012345678901234567890'; do
	answer "$bad"
	run 1 dump -db "$db"
	has err "kprofd at '$db.sock' "
	asked dump
done
run 1 dump -control "/tmp/$(printf '%0120d' 0)"
has err 'is longer than'
run 2 clear-tokens -name x
has err 'goes with -target'

# ---- check

cat >"$dir/good.conf" <<'EOF'
[{web, {web, handle, 2}}, {db, [{db, query, '_'}, {db, get, 1}]}].
EOF
run 0 check "$dir/good.conf"
has out ': ok: 2 tiers, 3 function patterns'
run 0 check - <"$dir/good.conf"
cat >"$dir/slo.conf" <<'EOF'
{tiers, [{web, {web, handle, 2}}, {db, {db, query, '_'}}]}.
{identity, fun ({web, handle, [_, P]}) when is_binary(P) -> {get, P} end}.
{slo, [{"get /\"a\\b", 200, 99.9}, {db, 0.5, 90}]}.
EOF
run 0 check "$dir/slo.conf"
has out 'objective: 99.9 % of get /"a\b within 200 ms'
has out 'objective: 90 % of tier db within 0.5 ms'
run 0 check "$dir/slo.conf" -json
is_json
run 0 check "$dir/slo.conf" -rules
has out 'kprof_slo_missed_total{objective="get /\"a\\b within 200 ms"}[5m]'
has out '> 14.4 * 0.001'
has out '# no SloBurnsFast: more than all would have to miss it'
same 'alerts' "$(grep -c 'alert: ' "$dir/out")" 3
run 1 check "$dir/good.conf" -rules
has err 'has no objectives: {slo, [{"GET /orders", 200, 99.9}]} sets one'
run 2 check "$dir/slo.conf" -rules -json
has err '-rules is of a file alone'
run 0 check "$dir/slo.conf" -json
same 'an objective' "$(json '$.objectives[1].of') $(json '$.objectives[1].limit_ms')" 'tier 0.5'
echo '[{web, {web, handle, x}}].' >"$dir/bad.conf"
run 1 check "$dir/bad.conf"
has err "$dir/bad.conf:1:"
has err ': error: '
has err '^'
run 1 check "$dir/bad.conf" -json
is_json
same ok "$(json '$.ok')" 0
run 1 check "$dir/none.conf"
has err 'cannot open'
head -c 2000000 /dev/zero >"$dir/large.conf"
run 1 check "$dir/large.conf"
has err 'larger than'
# one error, not one for every byte that is no letter
printf '[{web, \0\377\200}].' >"$dir/binary.conf"
run 1 check "$dir/binary.conf"
has err "'$dir/binary.conf' is not text (byte 8 is 0)"
same 'lines about it' "$(wc -l <"$dir/err")" 1

# ---- what is not a file is never replaced, and nobody waits for it

special() {
	same "$1" "$(stat -c %F "$dir/$1" 2>&1)" "$2"
}

cp "$db" "$dir/in.db"
mkfifo "$dir/fifo"
mkdir "$dir/folder"
ln -s folder "$dir/folder_link"
ln -s nowhere.db "$dir/nowhere"
things='fifo:fifo folder:directory folder_link:symbolic_link nowhere:symbolic_link'
if mknod "$dir/null" c 1 3 2>/dev/null; then
	things="$things null:character_special_file"
fi
for t in $things; do
	name=${t%%:*} kind=$(echo "${t#*:}" | tr _ ' ')
	run 1 merge "$dir/$name" "$dir/in.db"
	has err "'$dir/$name'"
	special "$name" "$kind"
	# beside OUT, a copy of a merge that was killed
	rm -f "$dir/out.db.merging" "$dir/out.db"
	mv "$dir/$name" "$dir/out.db.merging"
	if [ "$kind" != 'symbolic link' ]; then
		run 1 merge "$dir/out.db" "$dir/in.db"
		special out.db.merging "$kind"
	fi
	mv "$dir/out.db.merging" "$dir/$name"
done
same 'the merged file' "$(ls "$dir/out.db" "$dir/nowhere.db" 2>/dev/null)" ''
# the file that a link leads to is replaced, not the link
cp "$dir/in.db" "$dir/real.db"
ln -s real.db "$dir/link"
run 0 merge "$dir/link" "$db"
special link 'symbolic link'
special real.db 'regular file'
for name in :memory: file:x.db; do
	run 1 merge "$name" "$dir/in.db"
	has err "cannot merge into '$name': "
done
for name in fifo null; do
	[ -e "$dir/$name" ] || continue
	timeout 60 "$kprof" report -db "$dir/$name" >"$dir/out" 2>"$dir/err"
	same "the status of a report of $name" $? 1
	has err ', not a file (see -db)'
done
# commands that connect to a node look at their files before
for c in 'suggest -o' 'count lists -o' 'count lists -db' 'trace lists -o' 'trace lists -db'; do
	# shellcheck disable=SC2086
	run 1 $c "$dir/none/x" -target nobody@127.0.0.1
	has err "directory $dir/none does not exist"
done
for name in :memory: file:x "$dir/fifo" "$dir/null"; do
	case $name in /*) [ -e "$name" ] || continue ;; esac
	for c in count trace; do
		run 1 $c lists -db "$name" -target nobody@127.0.0.1
		has err "cannot write '$name': "
	done
done
special fifo fifo
run 1 suggest -o "$dir/nowhere" -target nobody@127.0.0.1
has err 'is there already'

# ---- usage

for c in status report slow tree dump mark pause resume reload check clear-tokens; do
	run 0 $c -h
	has out 'example: kprof '
	run 2 $c -nonsense
	has err "unknown option '-nonsense'"
	run 0 -h
	has out "  $c"
done
run 0 -version
run 2
run 2 reprot
has err "did you mean 'report'?"
run 2 report -percentile
has err "did you mean '-percentiles'?"
run 2 report extra -db "$db"
has err "unexpected argument 'extra'"
run 2 report -db "$db" -sort htpp
has err "did you mean 'http'?"
run 2 report -since lately
has err "-since 'lately': give a length of time such as 30m"
run 2 report -since 1m -until 2m
has err 'not before -until'
# of -until, a time of day that lies ahead is meant where the last one was before -since
an_hour_ago=$(date -d '1 hour ago' +%H:%M) in_an_hour=$(date -d '1 hour' +%H:%M)
run 0 report -db "$db" -since "$an_hour_ago" -until "$in_an_hour"
run 0 report -db "$db" -until "$in_an_hour" -since "$an_hour_ago"
run 2 report -what bsy
has err 'choose one of busy,self,total,calls,async,gc,out'
run 2 report -json -csv
run 2 report -db
has err 'needs a value'
run 2 slow -n x
has err 'not a number from 0'
run 2 slow -sort size
has err 'choose one of total,time (-KEY is the other way round)'
run 1 report -db "$dir/none.db"
has err 'no such file'
run 1 report -db "$dir/good.conf"
if [ -w /dev/full ]; then
	"$kprof" report -db "$db" >/dev/full 2>"$dir/err"
	same 'the status on a full disk' $? 1
	has err 'cannot write'
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
