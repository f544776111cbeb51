-- 6.sql - from schema 5 to 6.
--
-- Garbage collection and time scheduled out, as parts of self times; how long
-- messages waited in mailboxes, by receiver (struct kp_wait_cell), and for slow
-- requests by receiving process.

alter table stat add column gc_ns integer;
alter table stat add column w_gc_ns integer;
alter table stat add column out_ns integer;
alter table stat add column w_out_ns integer;

-- Of _total they are those of all calls, which its self time is not.
create view pause_stats as select
	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node, t.name as tier, i.name as identity,
	s.w_requests as requests, s.w_timed as calls,
	case when t.name <> '_total' then round(s.w_self_ns / 1e6, 3) end
	as self_ms,
	case when t.name <> '_total' then round((s.w_self_ns -
	ifnull(s.w_gc_ns, 0) - ifnull(s.w_out_ns, 0)) / 1e6, 3) end
	as work_ms,
	round(s.w_gc_ns / 1e6, 3) as gc_ms,
	round(s.w_out_ns / 1e6, 3) as out_ms
	from time_window w cross join stat s on s.window_id = w.id
	join node n on n.id = w.node_id
	join tier t on t.id = s.tier_id
	join identity i on i.id = s.identity_id
	where s.gc_ns is not null or s.out_ns is not null
	order by w.start_ns, n.name, t.position is null, t.position,
	t.name, i.name;

create table receiver (id integer primary key,
	name text not null unique);	-- db_server, db:init/1
create table message_stat (
	window_id integer not null references time_window
	    on delete cascade,
	receiver_id integer not null references receiver,
	identity_id integer not null references identity,
	messages integer not null, w_messages integer not null,
	away integer not null, w_away integer not null,
	wait_ns integer not null, w_wait_ns integer not null,
	min_ns integer, max_ns integer, p50_ns integer,
	p90_ns integer, p95_ns integer, p99_ns integer, hist blob,
	primary key (window_id, receiver_id, identity_id))
	without rowid;

create table request_wait (
	request_id integer not null references request
	    on delete cascade,
	seq integer not null,	-- longest waits first
	receiver_id integer not null references receiver,
	pid text not null,
	node_id integer references node,	-- null: the request's
	messages integer not null, away integer not null,
	wait_ns integer not null, max_ns integer not null,
	primary key (request_id, seq)) without rowid;

create view message_stats as select
	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node, r.name as receiver, i.name as identity,
	m.w_messages as messages, m.w_away as away,
	round(m.w_wait_ns / 1e6, 3) as total_ms,
	round(m.w_wait_ns / 1e6 / nullif(m.w_messages, 0), 3)
	as mean_ms,
	round(m.min_ns / 1e6, 3) as min_ms,
	round(m.p50_ns / 1e6, 3) as p50_ms,
	round(m.p90_ns / 1e6, 3) as p90_ms,
	round(m.p95_ns / 1e6, 3) as p95_ms,
	round(m.p99_ns / 1e6, 3) as p99_ms,
	round(m.max_ns / 1e6, 3) as max_ms,
	m.messages as sampled_messages
	from time_window w cross join message_stat m
	on m.window_id = w.id
	join node n on n.id = w.node_id
	join receiver r on r.id = m.receiver_id
	join identity i on i.id = m.identity_id
	order by w.start_ns, n.name, r.name, i.name;

create view slow_waits as select t.request_id as request, t.seq,
	r.name as receiver, t.pid, coalesce(n.name, '') as node,
	t.messages, t.away, round(t.wait_ns / 1e6, 3) as total_ms,
	round(t.wait_ns / 1e6 / t.messages, 3) as mean_ms,
	round(t.max_ns / 1e6, 3) as max_ms
	from request_wait t join receiver r on r.id = t.receiver_id
	left join node n on n.id = t.node_id
	order by t.request_id, t.seq;
pragma user_version = 6;
