-- 8.sql - from schema 7 to 8.
--
-- Coarser levels: each level_sum is a window of that level that is not shown
-- yet, or the sum of all nodes (src/store/rollup/levels.h).  They replace the
-- spans of schemas 5 to 7.

drop trigger if exists span_gone;
drop trigger if exists window_new;
drop trigger if exists window_gone;
drop table if exists span_stat;
drop table if exists span;
drop table if exists span_next;

create table level_sum (id integer primary key,
	level integer not null,	-- its length in s
	node_id integer not null,	-- 0: all nodes
	run_id integer not null,	-- 0: all nodes
	start_ns integer not null);
create unique index level_sum_at on level_sum (level, node_id,
	start_ns, run_id);
create index level_sum_start on level_sum (start_ns);

create table level_stat (sum_id integer not null
	references level_sum on delete cascade,
	tier_id integer not null, identity_id integer not null,
	requests integer not null, w_requests integer not null,
	calls integer not null, w_calls integer not null,
	raised integer not null, w_raised integer not null,
	unfinished integer not null, w_unfinished integer not null,
	ambiguous integer not null, w_ambiguous integer not null,
	async_calls integer not null, w_async_calls integer not null,
	timed integer not null, w_timed integer not null,
	total_ns integer not null, w_total_ns integer not null,
	self_ns integer not null, w_self_ns integer not null,
	busy_ns integer not null, w_busy_ns integer not null,
	async_ns integer not null, w_async_ns integer not null,
	min_ns integer, max_ns integer, p50_ns integer, p90_ns integer,
	p95_ns integer, p99_ns integer, hist blob,
	share_requests integer, w_share_requests integer,
	share_busy_ns integer, w_share_busy_ns integer,
	gc_ns integer, w_gc_ns integer, out_ns integer,
	w_out_ns integer, outlasting integer, w_outlasting integer,
	unknown_outcomes integer, w_unknown_outcomes integer,
	w_inside integer, w_made integer, async_raised integer,
	w_async_raised integer, async_unknown integer,
	w_async_unknown integer, async_unfinished integer,
	w_async_unfinished integer,
	primary key (sum_id, tier_id, identity_id)) without rowid;
-- where each level goes on: the next slot, and its first node
create table level_next (level integer primary key,
	start_ns integer not null, node_id integer not null);
insert into level_next values (60, 0, 0), (600, 0, 0),
	(3600, 0, 0), (21600, 0, 0), (86400, 0, 0), (604800, 0, 0);
pragma user_version = 8;
