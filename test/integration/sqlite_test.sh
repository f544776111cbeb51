#!/bin/sh
# The SQLite extension in the sqlite3 shell (and in Python, where there is
# one), on a database made for it: against the client, against the durations
# themselves, and against the SQL of priv/doc/sql.md that does without.
# usage: sqlite_test.sh BUILD_DIR
set -u

b=$1
dir=$(mktemp -d "${TMPDIR:-/tmp}/sqlite_test.XXXXXX")
db=$dir/k.db
passed=0 failed=0
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

# A sanitizer's library has to be there before the program that loads us.
preload=
case $b in
*san*) preload=$(${CC:-cc} -print-file-name=libasan.so) ;;
esac

same() {
	if [ "$2" = "$3" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED: %s: got\n%s\nexpected\n%s\n' "$1" "$2" "$3" >&2
	fi
}

# what SQL says, with the extension
sql() {
	LD_PRELOAD=$preload sqlite3 -cmd ".load $b/kprof_sqlite" "$db" "$1" 2>&1
}

"$b/test/mkdb" "$db" 1795255200 "$dir/raw" || exit 1
"$b/kprof" report -db "$db" -json >"$dir/json" || exit 1

# ---- the client's percentiles, to the last ns

# A bucket's middle may lie outside of what was seen: the client cuts it off.
merged="select t.name tier, i.name identity,
    min(max(kprof_quantile(kprof_merge(hist), Q), min(min_ns)), max(max_ns)) v
    from stat s join tier t on t.id = s.tier_id
    join identity i on i.id = s.identity_id group by 1, 2"
for q in 50 90 95 99; do
	same "p$q" "$(sql "with m as ($(echo "$merged" | sed "s/Q/0.$q/"))
	    select group_concat(tier || ' ' || v) from
	    (select * from m order by tier, v)")" \
	    "$(sqlite3 :memory: "with tiers as (select c.value from
	    json_each(readfile('$dir/json'), '\$.rows') r,
	    json_each(r.value, '\$.tiers') c), cells as (
	    select value ->> '\$.tier' tier, value from tiers union all
	    select t.value ->> '\$.tier' || ': ' || (c.value ->> '\$.label'), c.value
	    from tiers t, json_each(t.value, '\$.labels') c)
	    select group_concat(tier || ' ' || v) from (select tier,
	    cast(round(1e6 * json_extract(value, '\$.p${q}_ms')) as integer) v
	    from cells order by tier, v)")"
done

# ---- the durations themselves: nearest rank, by weight

sqlite3 "$db" "create table raw (tier, identity, ns integer, weight integer)" \
    '.mode csv' ".import $dir/raw raw"
for q in 0.01 0.5 0.9 0.99 0.999 1; do
	same "quantile $q of what was measured" "$(sql "
	with r as (select *, sum(weight) over (partition by tier order by ns
	    rows unbounded preceding) upto,
	    sum(weight) over (partition by tier) total from raw),
	brute as (select tier, min(ns) ns, max(total) n from r
	    where upto >= $q * total - 1e-9 group by tier),
	ours as (select t.name tier, kprof_merge(hist) h from stat s
	    join tier t on t.id = s.tier_id where s.identity_id =
	    (select id from identity where name = '_total') group by 1)
	select count(*), sum(abs(kprof_quantile(h, $q) - ns) <= 0.011 * ns),
	    sum(kprof_count(h) = n) from ours join brute using (tier)")" '6|6|6'
done

same 'the standard deviation of what was measured' "$(sql "
    with brute as (select tier, sqrt(sum(weight * 1.0 * ns * ns) / sum(weight) -
    pow(sum(weight * 1.0 * ns) / sum(weight), 2)) sd from raw group by tier),
    ours as (select t.name tier, kprof_merge(hist) h from stat s
    join tier t on t.id = s.tier_id where s.identity_id =
    (select id from identity where name = '_total') group by 1)
    select count(*), sum(abs(kprof_stddev(h) - sd) <= 0.02 * sd)
    from ours join brute using (tier)")" '6|6'

# ---- how sure they are: as the client has it where calls are not so few that how these
# differ decides there

within="kprof_within(start_ns, end_ns, s.requests, w_requests, w_total_ns, w_timed)"
of="from stat s join time_window w on w.id = s.window_id join tier t on t.id = s.tier_id
    join identity i on i.id = s.identity_id"
same 'intervals of means' "$(sql "select group_concat(v) from (select printf('%s %s %.3f',
    t.name, i.name, $within) v $of where t.name in ('_total', 'http', 'database')
    and i.name in ('_total', 'create', 'undefined', 'update')
    group by t.name, i.name order by 1)")" \
    "$(sqlite3 :memory: "select group_concat(v) from (select printf('%s %s %.3f',
    t.value ->> '\$.tier', r.value ->> '\$.identity', (t.value ->> '\$.intervals.mean_ms[1]')
    / (t.value ->> '\$.mean_ms') - 1) v from json_each(readfile('$dir/json'), '\$.rows') r,
    json_each(r.value, '\$.tiers') t
    where t.value ->> '\$.tier' in ('_total', 'http', 'database')
    and r.value ->> '\$.identity' in ('_total', 'create', 'undefined', 'update') order by 1)")"
same 'and of the number of requests' "$(sql "select printf('%.3f', kprof_within(start_ns,
    end_ns, s.requests, w_requests, w_requests, end_ns - start_ns)) $of
    where t.name = '_total' and i.name = 'create'")" \
    "$(sqlite3 :memory: "select printf('%.3f', (t ->> '\$.intervals.requests[1]') /
    (t ->> '\$.requests') - 1) from (select value ->> '\$.tiers[0]' t
    from json_each(readfile('$dir/json'), '\$.rows')
    where value ->> '\$.identity' = 'create')")"
same 'none of all, of few, of two windows, of no time, of nothing' "$(sql "select
    max(v) is null from (
    select $within v $of where i.name = '_total' and w_requests = s.requests
    group by t.name union all
    select $within $of where i.name = 'create' and start_ns > 1795255310000000000
    union all select $within $of where i.name = '_total'
    and start_ns >= 1795255300000000000 union all
    select kprof_within(start_ns, start_ns, s.requests, w_requests, w_total_ns, w_timed) $of
    union all select kprof_within(0, 0, null, 0, 0, 0))")" 1
same 'what is far or wrong does no harm' "$(sql "select count(*) from (select
    kprof_within(9223372036854775807 - start_ns * 9, end_ns, 100, 1e300, -1e300, 'x') $of
    union all select kprof_within(-9223372036854775807 - 1, 9223372036854775807, 40, 80,
    calls, calls) from stat)")" 2

# ---- nothing, NULL and nonsense

same 'no rows' "$(sql 'select kprof_merge(hist) is null from stat where 0')" 1
same 'groups of none' "$(sql 'select count(*) from (select kprof_merge(hist)
    from stat where 0 group by tier_id)')" 0
same 'text made of a blob' "$(sql "select kprof_merge(x'02' || hist) from stat" |
    sed 's/.*kprof_merge/kprof_merge/')" \
    "kprof_merge: a text is not a histogram (those are blobs, such as the column hist of the table stat)"
same 'a newer version' \
    "$(sql "select kprof_count(cast(x'02' || hist as blob)) from stat" |
    sed 's/.*kprof_count/kprof_count/; s/ (a newer.*//')" \
    "kprof_count: no histogram that this version can read: it begins with byte 2, not 1"
same 'a wrong column' "$(sql 'select kprof_merge(w_total_ns) from stat' |
    sed 's/.*kprof_merge/kprof_merge/; s/ (those.*//')" \
    "kprof_merge: an integer is not a histogram"

# ---- a window function, and the recipes of priv/doc/sql.md

page_sql() {	# the page's block of SQL that holds this
	awk -v has="$1" '/^```sql/ { text = ""; on = 1; next }
	    /^```/ { if (on && index(text, has)) printf "%s", text; on = 0 }
	    on { text = text $0 "\n" }' priv/doc/sql.md
}

page_sql 'create temp view cells' |
    sed "/^.load/d; s/'now', '-30 minutes'/'2026-11-21'/" >"$dir/with.sql"
same 'the recipes with the extension' \
    "$(LD_PRELOAD=$preload sqlite3 -separator ' <> ' \
    -cmd ".load $b/kprof_sqlite" "$db" \
    <"$dir/with.sql" 2>&1 | awk -F' <> ' '{ n[NF]++ } END { print n[9], n[3] }')" \
    '42 25'
same 'the moving percentile, at its end' "$(sql "$(sed -n '1,/^  join id/p' \
    "$dir/with.sql")
    select (select kprof_quantile(kprof_merge(hist) over (order by start
        rows 5 preceding), 0.99) from cells where tier = '_total' and
        identity = '_total' and node = 'web@a' order by start desc limit 1)
    = (select kprof_quantile(kprof_merge(hist), 0.99) from (select * from cells
        where tier = '_total' and identity = '_total' and node = 'web@a'
        order by start desc limit 6))")" 1

page_sql 'recursive' | sed "s/'db'/'database'/" >"$dir/plain.sql"
same 'the recipe without it' "$(sqlite3 "$db" <"$dir/plain.sql" |
    cut -d'|' -f1-3)" "$(sql "select kprof_count(h),
    round(kprof_quantile(h, 0.5) / 1e6, 3),
    round(kprof_quantile(h, 0.99) / 1e6, 3) from (select kprof_merge(hist) h
    from stat where tier_id = (select id from tier where name = 'database')
    and identity_id = (select id from identity where name = '_total'))")"
same 'its part within a limit' "$(sqlite3 "$db" <"$dir/plain.sql" |
    cut -d'|' -f4)" "$(sqlite3 "$db" "select round(100.0 *
    sum(weight * (ns <= 9927110)) / sum(weight), 1)
    from raw where tier = 'database'")"
same 'a percentile lies between those of its windows' "$(sql "
    select sum(q < lo * 0.989 or q > hi * 1.011) from (select tier_id,
    kprof_quantile(kprof_merge(hist), 0.99) q, min(p99_ns) lo, max(p99_ns) hi
    from stat group by tier_id, identity_id)")" 0

# ---- Python

python=
for p in python3 /usr/bin/python3; do
	if $p -c 'import sqlite3
sqlite3.connect(":memory:").enable_load_extension(True)' 2>/dev/null; then
		python=$p
		break
	fi
done
if [ -n "$python" ]; then
	same Python "$(LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 \
	    $python -c "
import sqlite3
db = sqlite3.connect('$db')
db.enable_load_extension(True)
db.load_extension('$b/kprof_sqlite')
print(db.execute('select kprof_count(kprof_merge(hist)) from stat').fetchone()[0])
try:
	db.execute('select kprof_merge(?)', (b'\\x01\\x00',)).fetchall()
except sqlite3.OperationalError as e:
	print(e)")" \
	    "$(sqlite3 "$db" 'select sum(w_timed) from stat')
kprof_merge: damaged histogram: 2 bytes that end in the middle of it"
else
	echo 'no Python that loads extensions: not tried there'
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
