-- schema.sql - kprofd's database, schema 1.
--
-- Base tables are for programs: durations, and times since 1970-01-01 UTC, are
-- integer ns.  The views below them are for people: ms rounded to the us (a
-- traced call costs about one), ISO 8601 times, percentiles:
--
--     sqlite3 kprofd.db 'select * from tier_stats'
--
-- A new schema is a new file in priv/schema/, never a change of this one; 6.sql,
-- 7.sql and 9.sql have the current views.

pragma application_id = 1802531430;	-- "kprf"
pragma user_version = 1;

create table node (
	id	integer primary key,
	name	text not null unique	-- '' is the daemon itself
);

create table tier (
	id	integer primary key,
	name	text not null unique,
	position integer		-- in tiers.conf, from 1; 0 is _total,
					-- null: in the file no longer
);

create table identity (
	id	integer primary key,
	name	text not null unique
);

create table function (
	id	integer primary key,
	name	text not null unique	-- db:query/2
);

create table cause (			-- of loss
	id	integer primary key,
	name	text not null unique,	-- sampled_out
	unit	text not null,		-- requests
	help	text not null
);

create table run (			-- of the daemon
	id	integer primary key,
	started_ns integer not null,
	ended_ns integer,		-- null: runs still, or its end is unknown
	clean	integer,		-- 1 ended well, 0 did not, null runs still
	version	text not null,
	interval_ns integer not null,
	tiers_conf text not null	-- as it was in force
);

create table time_window (
	id	integer primary key,
	run_id	integer not null references run,
	node_id	integer not null references node,
	level	integer not null,	-- 0 as measured; more: rolled up
	start_ns integer not null,
	end_ns	integer not null,
	entry_calls integer not null,	-- the VM's own count; 0: unknown
	sampled	integer not null	-- requests assembled
);
create index time_window_start on time_window (start_ns, node_id);

-- One cell: window x tier x identity (the request type).  Plain figures count
-- what was sampled; w_ figures multiply each request by its weight, and so
-- estimate the truth.
create table stat (
	window_id integer not null references time_window on delete cascade,
	tier_id	integer not null references tier,
	identity_id integer not null references identity,
	requests integer not null,	-- with a call of the tier at least
	calls	integer not null,	-- within the request, all outcomes
	raised	integer not null,
	unfinished integer not null,
	ambiguous integer not null,
	async_calls integer not null,	-- not among calls
	timed	integer not null,	-- calls that total, min, max, hist hold
	total_ns integer not null,
	self_ns	integer not null,
	busy_ns	integer not null,
	async_ns integer not null,
	w_requests integer not null,
	w_calls	integer not null,
	w_raised integer not null,
	w_unfinished integer not null,
	w_ambiguous integer not null,
	w_async_calls integer not null,
	w_timed	integer not null,
	w_total_ns integer not null,
	w_self_ns integer not null,
	w_busy_ns integer not null,
	w_async_ns integer not null,
	min_ns	integer,		-- null, as are those below: none timed
	max_ns	integer,
	p50_ns	integer,
	p90_ns	integer,
	p95_ns	integer,
	p99_ns	integer,
	hist	blob,			-- weighted; format: include/kprofd/hist.h
	primary key (window_id, tier_id, identity_id)
) without rowid;

create table loss (
	window_id integer not null references time_window on delete cascade,
	cause_id integer not null references cause,
	n	integer not null,	-- in the cause's unit
	primary key (window_id, cause_id)
) without rowid;

create table request (			-- a slow one, kept as a tree
	id	integer primary key,
	run_id	integer not null references run,
	node_id	integer not null references node,
	identity_id integer not null references identity,
	start_ns integer not null,
	total_ns integer,		-- null: no end seen
	label	integer not null,
	parent_label integer,		-- the request it was started inside
	weight	integer not null,
	outcome	integer not null	-- 1 returned, 2 raised, 3 unfinished,
					-- 4 ambiguous
);
create index request_start on request (start_ns);

create table call (
	request_id integer not null references request on delete cascade,
	seq	integer not null,	-- from 0; parents before their children
	parent	integer,		-- its seq
	depth	integer not null,
	function_id integer not null references function,
	tier_id	integer references tier,	-- null: in no tier
	pid	text not null,
	start_ns integer not null,	-- since the request's start
	total_ns integer,		-- null: no duration
	self_ns	integer,
	outcome	integer not null,
	async	integer not null,	-- 1: after the request had ended
	primary key (request_id, seq)
) without rowid;

create table event (
	id	integer primary key,
	run_id	integer not null references run,
	node_id	integer not null references node,
	at_ns	integer not null,
	kind	text not null,		-- trip
	text	text not null
);
create index event_at on event (at_ns);

-- The views follow.

-- This view estimates the figures of all requests: it multiplies sampled ones
-- by their weight.  The columns sampled_ have the measured counts.
-- busy_per_request is per request of that type, even if it had no call in this
-- tier, so that the tiers of one type can be compared.
create view tier_stats as
select	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node,
	t.name as tier,
	i.name as identity,
	s.w_requests as requests,
	s.w_calls as calls,
	s.w_raised as raised,
	s.w_unfinished as unfinished,
	s.w_ambiguous as ambiguous,
	s.w_async_calls as async_calls,
	round(s.w_total_ns / 1e6, 3) as total_ms,
	round(s.w_total_ns / 1e6 / nullif(s.w_timed, 0), 3) as mean_ms,
	round(s.w_self_ns / 1e6, 3) as self_ms,
	round(s.w_busy_ns / 1e6, 3) as busy_ms,
	round(s.w_busy_ns / 1e6 / nullif(r.w_requests, 0), 3)
	    as busy_per_request_ms,
	round(s.w_async_ns / 1e6, 3) as async_ms,
	round(s.min_ns / 1e6, 3) as min_ms,
	round(s.p50_ns / 1e6, 3) as p50_ms,
	round(s.p90_ns / 1e6, 3) as p90_ms,
	round(s.p95_ns / 1e6, 3) as p95_ms,
	round(s.p99_ns / 1e6, 3) as p99_ms,
	round(s.max_ns / 1e6, 3) as max_ms,
	s.requests as sampled_requests,
	s.calls as sampled_calls
from	time_window w
	cross join stat s on s.window_id = w.id	-- in this order: no great sort
	join node n on n.id = w.node_id
	join tier t on t.id = s.tier_id
	join identity i on i.id = s.identity_id
	left join stat r on r.window_id = s.window_id
	    and r.tier_id = (select id from tier where name = '_total')
	    and r.identity_id = s.identity_id
order by w.start_ns, n.name, t.position is null, t.position, t.name, i.name;

-- This view has whole requests by type.  self is time outside all tiers; async
-- is work that requests caused but did not wait for.
create view request_stats as
select	start, end, node, identity, requests,
	raised as errors, unfinished, ambiguous,
	mean_ms, min_ms, p50_ms, p90_ms, p95_ms, p99_ms, max_ms,
	total_ms, self_ms, async_calls, async_ms,
	sampled_requests
from	tier_stats
where	tier = '_total';

create view slow_requests as
select	q.id as request,
	strftime('%Y-%m-%dT%H:%M:%S', q.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', q.start_ns / 1000000 % 1000) as start,
	n.name as node,
	i.name as identity,
	round(q.total_ns / 1e6, 3) as total_ms,
	case q.outcome when 1 then 'returned' when 2 then 'raised'
	    when 3 then 'unfinished' when 4 then 'ambiguous' end as outcome,
	(select count(*) from call c where c.request_id = q.id) as calls,
	q.label,
	q.parent_label,
	q.weight
from	request q
	join node n on n.id = q.node_id
	join identity i on i.id = q.identity_id
order by q.start_ns, q.id;

-- This view shows trees: a call follows its parent and is indented below it.
create view slow_calls as
select	c.request_id as request,
	c.seq,
	c.depth,
	round(c.start_ns / 1e6, 3) as start_ms,
	round(c.total_ns / 1e6, 3) as total_ms,
	round(c.self_ns / 1e6, 3) as self_ms,
	coalesce(t.name, '') as tier,
	printf('%*s', 2 * min(c.depth, 50), '') || f.name as call,
	c.pid,
	case c.outcome when 1 then 'returned' when 2 then 'raised'
	    when 3 then 'unfinished' when 4 then 'ambiguous' end as outcome,
	case c.async when 1 then 'async' else '' end as async,
	c.parent
from	call c
	join function f on f.id = c.function_id
	left join tier t on t.id = c.tier_id
order by c.request_id, c.seq;

create view losses as
select	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node,
	c.name as cause,
	l.n as lost,
	c.unit,
	c.help
from	time_window w
	join loss l on l.window_id = w.id
	join node n on n.id = w.node_id
	join cause c on c.id = l.cause_id
order by w.start_ns, n.name, c.id;

create view events as
select	strftime('%Y-%m-%dT%H:%M:%S', e.at_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', e.at_ns / 1000000 % 1000) as at,
	n.name as node,
	e.kind,
	e.text
from	event e
	join node n on n.id = e.node_id
order by e.at_ns, e.id;

create view runs as
select	r.id as run,
	strftime('%Y-%m-%dT%H:%M:%S', r.started_ns / 1000000000, 'unixepoch')
	    || 'Z' as started,
	strftime('%Y-%m-%dT%H:%M:%S', r.ended_ns / 1000000000, 'unixepoch')
	    || 'Z' as ended,
	case r.clean when 1 then 'clean' when 0 then 'unclean'
	    else 'running' end as state,
	r.version,
	r.interval_ns / 1e9 as interval_s
from	run r
order by r.id;
