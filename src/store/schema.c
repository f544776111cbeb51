/*
 * schema.c - opens a database for writing: locks, identifies, migrates.
 *
 * The lock is flock(2) on a descriptor of our own.  It must stay open as
 * long as SQLite has the file open: closing any descriptor of a file drops
 * all POSIX locks that the process holds on it, SQLite's among them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kprofd/clock.h"
#include "schema.h"

#include "schema_sql.h"		/* kp_schema_sql[]: priv/schema.sql and a NUL */

#define BUSY_MS 1000

/* A time for people. */
#define SCHEMA_ISO(ns) "strftime('%Y-%m-%dT%H:%M:%S', " ns " / 1000000000," \
	" 'unixepoch') || printf('.%03dZ', " ns " / 1000000 % 1000)"

/* The ids of those that hold a window. */
#define SPANS_AROUND(window) "select s.id from span_next x" \
	" cross join span s on s.level = x.level" \
	" and s.node_id in (0, " window ".node_id) and s.start_ns = " \
	window ".start_ns - " window ".start_ns % (x.level * 1000000000)"

#define PAUSE_COLUMNS(table) \
	"alter table " table " add column gc_ns integer;" \
	"alter table " table " add column w_gc_ns integer;" \
	"alter table " table " add column out_ns integer;" \
	"alter table " table " add column w_out_ns integer;"

/*
 * Of self times, what was garbage collection and what was being scheduled out;
 * null where that was not asked for.  Of _total it is that of all calls, which
 * its self time is not.
 */
#define SCHEMA_PAUSES PAUSE_COLUMNS("stat") PAUSE_COLUMNS("span_stat") \
	"create view pause_stats as select" \
	" strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000," \
	"  'unixepoch') || printf('.%03dZ', w.start_ns / 1000000 % 1000)" \
	"  as start," \
	" strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000," \
	"  'unixepoch') || printf('.%03dZ', w.end_ns / 1000000 % 1000)" \
	"  as end," \
	" n.name as node, t.name as tier, i.name as identity," \
	" s.w_requests as requests, s.w_timed as calls," \
	" case when t.name <> '_total' then round(s.w_self_ns / 1e6, 3) end" \
	"  as self_ms," \
	" case when t.name <> '_total' then round((s.w_self_ns -" \
	"  ifnull(s.w_gc_ns, 0) - ifnull(s.w_out_ns, 0)) / 1e6, 3) end" \
	"  as work_ms," \
	" round(s.w_gc_ns / 1e6, 3) as gc_ms," \
	" round(s.w_out_ns / 1e6, 3) as out_ms" \
	" from time_window w cross join stat s on s.window_id = w.id" \
	" join node n on n.id = w.node_id" \
	" join tier t on t.id = s.tier_id" \
	" join identity i on i.id = s.identity_id" \
	" where s.gc_ns is not null or s.out_ns is not null" \
	" order by w.start_ns, n.name, t.position is null, t.position," \
	" t.name, i.name;"

/* Null in rows of before: it was not recorded. */
#define AFTER_COLUMNS(table) \
	"alter table " table " add column outlasting integer;" \
	"alter table " table " add column w_outlasting integer;" \
	"alter table " table " add column unknown_outcomes integer;" \
	"alter table " table " add column w_unknown_outcomes integer;" \
	"alter table " table " add column async_raised integer;" \
	"alter table " table " add column w_async_raised integer;" \
	"alter table " table " add column async_unknown integer;" \
	"alter table " table " add column w_async_unknown integer;" \
	"alter table " table " add column async_unfinished integer;" \
	"alter table " table " add column w_async_unfinished integer;"

/*
 * Traced calls inside the timed ones: at any depth, and made by them; null in
 * rows of before.
 */
#define TRACED_COLUMNS(table) \
	"alter table " table " add column w_inside integer;" \
	"alter table " table " add column w_made integer;"

/* The columns of these three, where they are made with their table. */
#define PAUSE_LIST " gc_ns integer, w_gc_ns integer, out_ns integer," \
	" w_out_ns integer,"
#define AFTER_LIST " outlasting integer, w_outlasting integer," \
	" unknown_outcomes integer, w_unknown_outcomes integer," \
	" w_inside integer, w_made integer, async_raised integer," \
	" w_async_raised integer, async_unknown integer," \
	" w_async_unknown integer, async_unfinished integer," \
	" w_async_unfinished integer,"

/* As they were, and behind it what came later. */
#define SCHEMA_AFTER_VIEWS \
	"drop view if exists request_stats; drop view if exists tier_stats;" \
	"create view tier_stats as select" \
	" " SCHEMA_ISO("w.start_ns") " as start," \
	" " SCHEMA_ISO("w.end_ns") " as end," \
	" n.name as node, t.name as tier, i.name as identity," \
	" s.w_requests as requests, s.w_calls as calls," \
	/* 0 only where nothing is unseen: kp_cell_unseen() */ \
	" case when t.name = '_total' then" \
	"  case when s.w_raised = 0 and (coalesce(s.w_unknown_outcomes," \
	"   s.w_calls) + s.w_ambiguous > 0 or s.w_unfinished =" \
	"   nullif(s.w_calls, 0)) then null else s.w_raised end" \
	"  when s.w_raised + ifnull(s.w_async_raised, 0) = 0 and" \
	"   (coalesce(s.w_unknown_outcomes + s.w_async_unknown," \
	"   s.w_calls + s.w_async_calls) + s.w_ambiguous > 0 or" \
	"   s.w_unfinished + s.w_async_unfinished =" \
	"   nullif(s.w_calls + s.w_async_calls, 0)) then null" \
	"  else s.w_raised + ifnull(s.w_async_raised, 0) end" \
	"  as raised, s.w_unfinished as unfinished," \
	" s.w_ambiguous as ambiguous, s.w_async_calls as async_calls," \
	" round(s.w_total_ns / 1e6, 3) as total_ms," \
	" round(s.w_total_ns / 1e6 / nullif(s.w_timed, 0), 3) as mean_ms," \
	" round(s.w_self_ns / 1e6, 3) as self_ms," \
	" round(s.w_busy_ns / 1e6, 3) as busy_ms," \
	" round(s.w_busy_ns / 1e6 / nullif(r.w_requests, 0), 3)" \
	"  as busy_per_request_ms," \
	" round(s.w_async_ns / 1e6, 3) as async_ms," \
	" round(s.min_ns / 1e6, 3) as min_ms," \
	" round(s.p50_ns / 1e6, 3) as p50_ms," \
	" round(s.p90_ns / 1e6, 3) as p90_ms," \
	" round(s.p95_ns / 1e6, 3) as p95_ms," \
	" round(s.p99_ns / 1e6, 3) as p99_ms," \
	" round(s.max_ns / 1e6, 3) as max_ms," \
	" s.requests as sampled_requests, s.calls as sampled_calls," \
	" round(s.w_async_ns / 1e6, 3) as after_ms," \
	" round(s.w_async_ns / 1e6 / nullif(r.w_requests, 0), 3)" \
	"  as after_per_request_ms," \
	" s.w_outlasting as outlasting," \
	" s.w_unknown_outcomes as unknown_outcomes," \
	" s.w_async_raised as async_raised," \
	" s.w_async_unknown as async_unknown," \
	" s.w_async_unfinished as async_unfinished" \
	" from time_window w cross join stat s on s.window_id = w.id" \
	" join node n on n.id = w.node_id" \
	" join tier t on t.id = s.tier_id" \
	" join identity i on i.id = s.identity_id" \
	" left join stat r on r.window_id = s.window_id" \
	"  and r.tier_id = (select id from tier where name = '_total')" \
	"  and r.identity_id = s.identity_id" \
	" order by w.start_ns, n.name, t.position is null, t.position," \
	" t.name, i.name;" \
	"create view request_stats as select start, end, node, identity," \
	" requests, raised as errors, unfinished, ambiguous, mean_ms," \
	" min_ms, p50_ms, p90_ms, p95_ms, p99_ms, max_ms, total_ms," \
	" self_ms, async_calls, async_ms, sampled_requests, after_ms," \
	" outlasting, unknown_outcomes from tier_stats" \
	" where tier = '_total';"

/* By number: as enum kp_outcome has them. */
#define SCHEMA_OUTCOME(column) \
	" case " column " when 1 then 'returned' when 2 then 'raised'" \
	"  when 3 then 'unfinished' when 4 then 'ambiguous'" \
	"  when 5 then 'unknown' end as outcome,"

#define SCHEMA_SLOW_VIEWS \
	"drop view if exists slow_requests;" \
	"create view slow_requests as select q.id as request," \
	" " SCHEMA_ISO("q.start_ns") " as start, n.name as node," \
	" i.name as identity, round(q.total_ns / 1e6, 3) as total_ms," \
	SCHEMA_OUTCOME("q.outcome") \
	" (select count(*) from call c where c.request_id = q.id) as calls," \
	" q.label, q.parent_label, q.weight from request q" \
	" join node n on n.id = q.node_id" \
	" join identity i on i.id = q.identity_id order by q.start_ns, q.id;" \
	"drop view if exists slow_calls;" \
	"create view slow_calls as select c.request_id as request, c.seq," \
	" c.depth, round(c.start_ns / 1e6, 3) as start_ms," \
	" round(c.total_ns / 1e6, 3) as total_ms," \
	" round(c.self_ns / 1e6, 3) as self_ms," \
	" coalesce(t.name, '') as tier," \
	" printf('%*s', 2 * min(c.depth, 50), '') || f.name as call, c.pid," \
	SCHEMA_OUTCOME("c.outcome") \
	" case c.async when 1 then 'async' else '' end as async, c.parent," \
	" coalesce(n.name, '') as node," \
	" case c.outlasts when 1 then 'outlasts' else '' end as outlasts" \
	" from call c join function f on f.id = c.function_id" \
	" left join tier t on t.id = c.tier_id" \
	" left join node n on n.id = c.node_id" \
	" order by c.request_id, c.seq;"

/* The two that have a column more. */
#define SCHEMA_RUN_VIEWS \
	"drop view if exists runs;" \
	"create view runs as select r.id as run," \
	" strftime('%Y-%m-%dT%H:%M:%S', r.started_ns / 1000000000," \
	"  'unixepoch') || 'Z' as started," \
	" strftime('%Y-%m-%dT%H:%M:%S', r.ended_ns / 1000000000," \
	"  'unixepoch') || 'Z' as ended," \
	" case r.clean when 1 then 'clean' when 0 then 'unclean'" \
	"  else 'running' end as state," \
	" r.version, r.interval_ns / 1e9 as interval_s, r.failed" \
	" from run r order by r.id;" \
	"drop view if exists costs;" \
	"create view costs as select" \
	" " SCHEMA_ISO("w.start_ns") " as start," \
	" " SCHEMA_ISO("w.end_ns") " as end," \
	" n.name as node, c.events, c.armed_calls," \
	" round(c.agent_ns / 1e6, 3) as agent_ms," \
	" round(c.cost_ns / 1e6, 3) as cost_ms," \
	" round(100.0 * c.cost_ns / nullif(w.end_ns - w.start_ns, 0), 3)" \
	"  as scheduler_percent, c.traced_call_ns, c.traced_caller_ns" \
	" from time_window w join cost c on c.window_id = w.id" \
	" join node n on n.id = w.node_id" \
	" order by w.start_ns, n.name;"

static const struct schema_step steps[] = {
	{ 1, (const char *)kp_schema_sql },
	/*
	 * Roll-up: level is the length in seconds of the span whose windows
	 * were added up, 0 as measured; the oldest of each is asked for often.
	 */
	{ 2, "create index time_window_level on time_window (level, start_ns);"
	     "pragma user_version = 2" },
	/* What profiling cost the target; see include/kprofd/cost.h. */
	{ 3, "create table cost ("
	     " window_id integer primary key references time_window"
	     "  on delete cascade,"
	     " events integer not null, armed_calls integer not null,"
	     " agent_ns integer not null,"	/* of cost_ns, measured */
	     " cost_ns integer not null);"
	     "create view costs as select"
	     " strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000,"
	     "  'unixepoch') || printf('.%03dZ', w.start_ns / 1000000 % 1000)"
	     "  as start,"
	     " strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000,"
	     "  'unixepoch') || printf('.%03dZ', w.end_ns / 1000000 % 1000)"
	     "  as end,"
	     " n.name as node, c.events, c.armed_calls,"
	     " round(c.agent_ns / 1e6, 3) as agent_ms,"
	     " round(c.cost_ns / 1e6, 3) as cost_ms,"
	     " round(100.0 * c.cost_ns / nullif(w.end_ns - w.start_ns, 0), 3)"
	     "  as scheduler_percent"
	     " from time_window w join cost c on c.window_id = w.id"
	     " join node n on n.id = w.node_id"
	     " order by w.start_ns, n.name;"
	     "pragma user_version = 3" },
	/*
	 * Requests of several nodes.  What adds up over nodes: see shares in
	 * include/kprofd/stats.h; null where it is the same as requests,
	 * w_requests, busy_ns and w_busy_ns, as in all there was before.
	 */
	{ 4, "alter table stat add column share_requests integer;"
	     "alter table stat add column w_share_requests integer;"
	     "alter table stat add column share_busy_ns integer;"
	     "alter table stat add column w_share_busy_ns integer;"
	     /* where the call ran; null: where its request began */
	     "alter table call add column node_id integer references node;"
	     "drop view if exists slow_calls;"
	     "create view slow_calls as select c.request_id as request, c.seq,"
	     " c.depth, round(c.start_ns / 1e6, 3) as start_ms,"
	     " round(c.total_ns / 1e6, 3) as total_ms,"
	     " round(c.self_ns / 1e6, 3) as self_ms,"
	     " coalesce(t.name, '') as tier,"
	     " printf('%*s', 2 * min(c.depth, 50), '') || f.name as call,"
	     " c.pid, case c.outcome when 1 then 'returned' when 2 then 'raised'"
	     "  when 3 then 'unfinished' when 4 then 'ambiguous' end as outcome,"
	     " case c.async when 1 then 'async' else '' end as async, c.parent,"
	     " coalesce(n.name, '') as node"	/* '': the request's */
	     " from call c join function f on f.id = c.function_id"
	     " left join tier t on t.id = c.tier_id"
	     " left join node n on n.id = c.node_id"
	     " order by c.request_id, c.seq;"
	     "pragma user_version = 4" },
	/*
	 * Sums over spans of time, for long ranges; schema 8 has others.  Rows of a
	 * window that comes or goes make those spans wrong that it starts in;
	 * level -1 is one that is being rolled up, which moves no figures.
	 * Who finds slow requests reads no more than one index.
	 */
	{ 5, "create table span (id integer primary key,"
	     " level integer not null,"		/* its length in s */
	     " node_id integer not null,"	/* 0: all nodes */
	     " start_ns integer not null);"
	     "create unique index span_at on span (level, node_id, start_ns);"
	     "create table span_stat (span_id integer not null,"
	     " tier_id integer not null, identity_id integer not null,"
	     " requests integer not null, w_requests integer not null,"
	     " calls integer not null, w_calls integer not null,"
	     " raised integer not null, w_raised integer not null,"
	     " unfinished integer not null, w_unfinished integer not null,"
	     " ambiguous integer not null, w_ambiguous integer not null,"
	     " async_calls integer not null, w_async_calls integer not null,"
	     " timed integer not null, w_timed integer not null,"
	     " total_ns integer not null, w_total_ns integer not null,"
	     " self_ns integer not null, w_self_ns integer not null,"
	     " busy_ns integer not null, w_busy_ns integer not null,"
	     " async_ns integer not null, w_async_ns integer not null,"
	     " min_ns integer, max_ns integer, hist blob,"
	     " share_requests integer, w_share_requests integer,"
	     " share_busy_ns integer, w_share_busy_ns integer,"
	     " primary key (span_id, tier_id, identity_id)) without rowid;"
	     /* summed up to there: the next span, and its nodes from this on */
	     "create table span_next (level integer primary key,"
	     " start_ns integer not null, node_id integer not null);"
	     "insert into span_next values (60, 0, 0), (600, 0, 0),"
	     " (3600, 0, 0), (21600, 0, 0), (86400, 0, 0);"
	     "create trigger span_gone after delete on span begin"
	     " delete from span_stat where span_id = old.id; end;"
	     "create trigger window_new after insert on time_window"
	     " when new.level >= 0 begin delete from span where id in ("
	     SPANS_AROUND("new") "); end;"
	     "create trigger window_gone after delete on time_window"
	     " when old.level >= 0 begin delete from span where id in ("
	     SPANS_AROUND("old") "); end;"
	     "create index request_found on request (start_ns, total_ns,"
	     " node_id, identity_id);"
	     "drop index request_start;"
	     "create table request_time ("	/* what slow ones go by */
	     " request_id integer not null references request"
	     "  on delete cascade,"
	     " tier_id integer not null,"	/* 0: its entry call's own */
	     " self_ns integer not null,"
	     " primary key (request_id, tier_id)) without rowid;"
	     "insert into request_time " SCHEMA_REQUEST_TIMES("", "") ";"
	     "pragma user_version = 5" },
	/*
	 * How much of tiers was no work; sums over weeks; and what messages
	 * waited in mailboxes, by receiver: see struct kp_wait_cell.  Of slow
	 * requests, by receiving process.
	 */
	{ 6, SCHEMA_PAUSES
	     "insert into span_next values (604800, 0, 0);"
	     "create table receiver (id integer primary key,"
	     " name text not null unique);"	/* db_server, db:init/1 */
	     "create table message_stat ("
	     " window_id integer not null references time_window"
	     "  on delete cascade,"
	     " receiver_id integer not null references receiver,"
	     " identity_id integer not null references identity,"
	     " messages integer not null, w_messages integer not null,"
	     " away integer not null, w_away integer not null,"
	     " wait_ns integer not null, w_wait_ns integer not null,"
	     " min_ns integer, max_ns integer, p50_ns integer,"
	     " p90_ns integer, p95_ns integer, p99_ns integer, hist blob,"
	     " primary key (window_id, receiver_id, identity_id))"
	     " without rowid;"
	     "create table request_wait ("
	     " request_id integer not null references request"
	     "  on delete cascade,"
	     " seq integer not null,"		/* longest waits first */
	     " receiver_id integer not null references receiver,"
	     " pid text not null,"
	     " node_id integer references node,"	/* null: the request's */
	     " messages integer not null, away integer not null,"
	     " wait_ns integer not null, max_ns integer not null,"
	     " primary key (request_id, seq)) without rowid;"
	     "create view message_stats as select"
	     " " SCHEMA_ISO("w.start_ns") " as start,"
	     " " SCHEMA_ISO("w.end_ns") " as end,"
	     " n.name as node, r.name as receiver, i.name as identity,"
	     " m.w_messages as messages, m.w_away as away,"
	     " round(m.w_wait_ns / 1e6, 3) as total_ms,"
	     " round(m.w_wait_ns / 1e6 / nullif(m.w_messages, 0), 3)"
	     "  as mean_ms,"
	     " round(m.min_ns / 1e6, 3) as min_ms,"
	     " round(m.p50_ns / 1e6, 3) as p50_ms,"
	     " round(m.p90_ns / 1e6, 3) as p90_ms,"
	     " round(m.p95_ns / 1e6, 3) as p95_ms,"
	     " round(m.p99_ns / 1e6, 3) as p99_ms,"
	     " round(m.max_ns / 1e6, 3) as max_ms,"
	     " m.messages as sampled_messages"
	     " from time_window w cross join message_stat m"
	     "  on m.window_id = w.id"
	     " join node n on n.id = w.node_id"
	     " join receiver r on r.id = m.receiver_id"
	     " join identity i on i.id = m.identity_id"
	     " order by w.start_ns, n.name, r.name, i.name;"
	     "create view slow_waits as select t.request_id as request, t.seq,"
	     " r.name as receiver, t.pid, coalesce(n.name, '') as node,"
	     " t.messages, t.away, round(t.wait_ns / 1e6, 3) as total_ms,"
	     " round(t.wait_ns / 1e6 / t.messages, 3) as mean_ms,"
	     " round(t.max_ns / 1e6, 3) as max_ms"
	     " from request_wait t join receiver r on r.id = t.receiver_id"
	     " left join node n on n.id = t.node_id"
	     " order by t.request_id, t.seq;"
	     "pragma user_version = 6" },
	/*
	 * What requests leave behind.  async_ns, which was the time of calls
	 * that began after their request, is from here on all time after a
	 * request's end: with the part after it of calls that began inside and
	 * outlast it, which outlasting counts.  unknown_outcomes: calls with
	 * an end, of which it could not be seen how they ended.  async_raised,
	 * async_unknown, async_unfinished: the same of async_calls.
	 */
	{ 7, AFTER_COLUMNS("stat") AFTER_COLUMNS("span_stat")
	     /* null: it started; else why it measured nothing */
	     "alter table run add column failed text;"
	     /* of one, as it was measured there; null: it was not */
	     "alter table cost add column traced_call_ns integer;"
	     "alter table cost add column traced_caller_ns integer;"
	     TRACED_COLUMNS("stat") TRACED_COLUMNS("span_stat")
	     /* 1: it ran on when its request was kept; null: it did not */
	     "alter table call add column outlasts integer;"
	     SCHEMA_AFTER_VIEWS SCHEMA_RUN_VIEWS SCHEMA_SLOW_VIEWS
	     "pragma user_version = 7" },
	/*
	 * Windows of coarser levels, written before they are shown: see
	 * rollup/levels.h.  Each is a window of before in another table, or the
	 * sum of all nodes; these take the place of spans.
	 */
	{ 8, "drop trigger span_gone; drop trigger window_new;"
	     "drop trigger window_gone; drop table span_stat;"
	     "drop table span; drop table span_next;"
	     "create table level_sum (id integer primary key,"
	     " level integer not null,"		/* its length in s */
	     " node_id integer not null,"	/* 0: all nodes, */
	     " run_id integer not null,"	/* and then 0 */
	     " start_ns integer not null);"
	     "create unique index level_sum_at on level_sum (level, node_id,"
	     " start_ns, run_id);"
	     "create index level_sum_start on level_sum (start_ns);"
	     "create table level_stat (sum_id integer not null"
	     "  references level_sum on delete cascade,"
	     " tier_id integer not null, identity_id integer not null,"
	     " requests integer not null, w_requests integer not null,"
	     " calls integer not null, w_calls integer not null,"
	     " raised integer not null, w_raised integer not null,"
	     " unfinished integer not null, w_unfinished integer not null,"
	     " ambiguous integer not null, w_ambiguous integer not null,"
	     " async_calls integer not null, w_async_calls integer not null,"
	     " timed integer not null, w_timed integer not null,"
	     " total_ns integer not null, w_total_ns integer not null,"
	     " self_ns integer not null, w_self_ns integer not null,"
	     " busy_ns integer not null, w_busy_ns integer not null,"
	     " async_ns integer not null, w_async_ns integer not null,"
	     " min_ns integer, max_ns integer, p50_ns integer, p90_ns integer,"
	     " p95_ns integer, p99_ns integer, hist blob,"
	     " share_requests integer, w_share_requests integer,"
	     " share_busy_ns integer, w_share_busy_ns integer,"
	     PAUSE_LIST AFTER_LIST
	     " primary key (sum_id, tier_id, identity_id)) without rowid;"
	     /* written up to there: the next slot, its nodes from this on */
	     "create table level_next (level integer primary key,"
	     " start_ns integer not null, node_id integer not null);"
	     "insert into level_next values (60, 0, 0), (600, 0, 0),"
	     " (3600, 0, 0), (21600, 0, 0), (86400, 0, 0), (604800, 0, 0);"
	     "pragma user_version = 8" },
};

void
schema_why(char **why, const char *fmt, ...)
{
	va_list ap;

	if (why == NULL)
		return;
	va_start(ap, fmt);
	if (vasprintf(why, fmt, ap) < 0)
		*why = NULL;
	va_end(ap);
}

enum kp_err
schema_explain(sqlite3 *db, int rc, const char *path, char **why)
{
	switch (rc & 0xff) {
	case SQLITE_NOTADB:
		schema_why(why, "cannot open '%s': not a database (move it "
		    "away or choose another with -db)", path);
		return KP_EFORMAT;
	case SQLITE_CORRUPT:
		schema_why(why, "cannot open '%s': damaged (move it away or "
		    "choose another with -db; \"sqlite3 '%s' .recover\" may "
		    "save what is in it)", path, path);
		return KP_EFORMAT;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		schema_why(why, "cannot open '%s': locked by another program "
		    "(close that, or choose another file with -db)", path);
		return KP_EBUSY;
	case SQLITE_FULL:
		schema_why(why, "cannot write '%s': disk full (make room or "
		    "choose another place with -db)", path);
		return KP_EIO;
	case SQLITE_NOMEM:
		schema_why(why, "cannot open '%s': out of memory", path);
		return KP_ENOMEM;
	case SQLITE_READONLY:
		schema_why(why, "cannot write '%s' or its directory (change "
		    "their mode or choose another file with -db)", path);
		return KP_EIO;
	default:
		schema_why(why, "cannot open '%s': %s (see -db)", path,
		    db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
		return KP_EIO;
	}
}

/* Why open(2) failed. */
static enum kp_err
explain_errno(const char *path, char **why)
{
	int e = errno;

	if (e == ENOENT || e == ENOTDIR)
		schema_why(why, "cannot make '%s': no such directory (make it "
		    "or choose another with -db)", path);
	else if (e == EISDIR)
		schema_why(why, "cannot open '%s': it is a directory (name a "
		    "file in it with -db)", path);
	else
		schema_why(why, "cannot write '%s': %s (change that or choose "
		    "another file with -db)", path, strerror(e));
	return e == ENOENT ? KP_ENOENT : KP_EIO;
}

/* Opens or makes the file itself, and locks it against other daemons. */
static enum kp_err
file_open(int *fd, bool *made, const char *path, char **why)
{
	enum kp_err err;

	*made = true;
	*fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	if (*fd < 0 && errno == EEXIST) {
		*made = false;
		*fd = open(path, O_RDWR | O_CLOEXEC);
	}
	/* a symbolic link whose file is gone, or is still to be */
	if (*fd < 0 && errno == ENOENT) {
		*made = true;
		*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	}
	if (*fd < 0)
		return explain_errno(path, why);
	/* whatever the umask: WAL and shm take their mode from it */
	if (*made && fchmod(*fd, 0640) != 0) {
		err = explain_errno(path, why);
		close(*fd);
		unlink(path);
		return err;
	}
	if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
		schema_why(why, "cannot open '%s': another kprofd writes it "
		    "(stop that one or choose another with -db)", path);
		close(*fd);
		return KP_EBUSY;
	}
	return KP_OK;
}

/* The first column of the first row; 0 if there is none. */
static int
read_int(sqlite3 *db, const char *sql, int *out)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	*out = 0;
	if (rc != SQLITE_OK)
		return rc;
	if (sqlite3_step(st) == SQLITE_ROW)
		*out = sqlite3_column_int(st, 0);
	return sqlite3_finalize(st);
}

enum kp_err
schema_version(sqlite3 *db, const char *path, int *version, char **why)
{
	int app, tables, rc;

	rc = read_int(db, "select count(*) from sqlite_master", &tables);
	if (rc == SQLITE_OK)
		rc = read_int(db, "pragma application_id", &app);
	if (rc == SQLITE_OK)
		rc = read_int(db, "pragma user_version", version);
	if (rc != SQLITE_OK)
		return schema_explain(db, rc, path, why);
	if (app == 0 && tables == 0 && *version == 0)
		return KP_OK;
	if (app != SCHEMA_APP_ID || *version < 1) {
		schema_why(why, "cannot open '%s': not a kprofd database (move "
		    "it away or choose another with -db)", path);
		return KP_EFORMAT;
	}
	if (*version > SCHEMA_VERSION) {
		schema_why(why, "cannot open '%s': written by a newer kprofd "
		    "(its schema is %d, this program knows %d; update it or "
		    "choose another file with -db)", path, *version,
		    SCHEMA_VERSION);
		return KP_EFORMAT;
	}
	return KP_OK;
}

enum kp_err
schema_migrate(sqlite3 *db, const char *path, int version,
    const struct schema_step *step, size_t n, char **why)
{
	enum kp_err err;
	int rc;

	for (size_t i = 0; i < n; i++) {
		if (step[i].version <= version)
			continue;
		rc = sqlite3_exec(db, "begin exclusive", NULL, NULL, NULL);
		if (rc == SQLITE_OK)
			rc = sqlite3_exec(db, step[i].sql, NULL, NULL, NULL);
		if (rc == SQLITE_OK)
			rc = sqlite3_exec(db, "commit", NULL, NULL, NULL);
		if (rc == SQLITE_OK)
			continue;
		err = schema_explain(db, rc, path, why);
		sqlite3_exec(db, "rollback", NULL, NULL, NULL);
		return err;
	}
	return KP_OK;
}

static void
report_start(schema_report report, const char *path, int version)
{
	char line[512];

	snprintf(line, sizeof(line), "%.400s: migrating from schema %d to %d, "
	    "this can take a minute for a large file", path, version,
	    SCHEMA_VERSION);
	report(line);
}

static void
report_end(schema_report report, const char *path, kp_dur_ns took)
{
	char line[512];

	snprintf(line, sizeof(line), "%.400s: migrated to schema %d in %.1f s",
	    path, SCHEMA_VERSION, (double)took / KP_NS_PER_S);
	report(line);
}

enum kp_err
schema_bring_up(sqlite3 *db, const char *path, schema_report report,
    char **why)
{
	/*
	 * auto_vacuum can only be chosen before the first table is made;
	 * retention needs it to give pages back.
	 */
	static const char fresh[] = "pragma auto_vacuum = incremental";
	kp_mono_ns since = kp_mono_now();
	int version, rc = SQLITE_OK;
	enum kp_err err;

	err = schema_version(db, path, &version, why);
	if (err != KP_OK)
		return err;
	if (version == 0 || version == SCHEMA_VERSION)
		report = NULL;
	if (report != NULL)
		report_start(report, path, version);
	if (version == 0)
		rc = sqlite3_exec(db, fresh, NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return schema_explain(db, rc, path, why);
	err = schema_migrate(db, path, version, steps,
	    sizeof(steps) / sizeof(steps[0]), why);
	if (err == KP_OK && report != NULL)
		report_end(report, path, kp_mono_now() - since);
	return err;
}

/* Identifies, migrates and sets up; db is open. */
static enum kp_err
bring_up(sqlite3 *db, const char *path, schema_report report, char **why)
{
	static const char ready[] = "pragma journal_mode = wal;"
				    "pragma synchronous = normal;"
				    "pragma foreign_keys = on;"
				    /* bytes kept of a WAL that has grown */
				    "pragma journal_size_limit = 16777216;";
	enum kp_err err;
	int rc;

	sqlite3_busy_timeout(db, BUSY_MS);
	err = schema_bring_up(db, path, report, why);
	if (err != KP_OK)
		return err;
	rc = sqlite3_exec(db, ready, NULL, NULL, NULL);
	return rc == SQLITE_OK ? KP_OK : schema_explain(db, rc, path, why);
}

enum kp_err
schema_open(sqlite3 **out, int *lock, bool *made, const char *path,
    schema_report report, char **why)
{
	sqlite3 *db = NULL;
	enum kp_err err;
	int rc;

	err = file_open(lock, made, path, why);
	if (err != KP_OK)
		return err;
	/* one thread at a time: SQLite need not lock for us */
	rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE |
	    SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK)
		err = bring_up(db, path, report, why);
	else
		err = schema_explain(db, rc, path, why);
	if (err == KP_OK) {
		*out = db;
		return KP_OK;
	}
	sqlite3_close(db);
	if (*made)
		unlink(path);
	close(*lock);
	return err;
}
