-- schema.sql - kprofd's database, schema 12.
--
-- Base tables are for programs: durations, and times since 1970-01-01 UTC, are
-- integer ns.  The views below them are for people: ms rounded to the us (a
-- traced call costs about one), ISO 8601 times, percentiles:
--
--     sqlite3 kprofd.db 'select * from tier_stats'

pragma application_id = 1802531430;	-- "kprf"
pragma user_version = 12;		-- SCHEMA_VERSION

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

create table receiver (			-- of messages
	id	integer primary key,
	name	text not null unique	-- db_server, db:init/1
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
	tiers_conf text not null,	-- as it was in force
	failed	text			-- why it measured nothing; null: it started
);

-- level is the length in seconds of the interval whose windows were added up,
-- 0 for windows as they were measured.
create table time_window (
	id	integer primary key,
	run_id	integer not null references run,
	node_id	integer not null references node,
	level	integer not null,
	start_ns integer not null,
	end_ns	integer not null,
	entry_calls integer not null,	-- the VM's own count; 0: unknown
	sampled	integer not null	-- requests assembled
);
create index time_window_start on time_window (start_ns, node_id);
-- the oldest window of a level is looked up often
create index time_window_level on time_window (level, start_ns);

-- One cell: window x tier x identity (the request type).  Plain figures count
-- what was sampled; w_ figures multiply each request by its weight, and so
-- estimate the truth.
--
-- async_ns is all time after a request's end: of calls that began after it
-- (async_calls), and the part after it of calls that began inside and outlast it
-- (outlasting).  async_raised, async_unknown, async_unfinished, and the times
-- async_max_ns to async_hist, are of async_calls.
--
-- The shares are what adds up over nodes (see include/kprofd/stats.h); they are
-- null where they equal requests, w_requests, busy_ns and w_busy_ns.  gc_ns and
-- out_ns are null where they were not measured.
--
-- counted: calls of the tier, or of entries in _total, that the VM counted while it
-- was traced, in requests or not; of all request types only.  Tokens that were lost:
-- strayed counts calls of requests that sampling picked for others as well, whose
-- token was another request's; missed estimates the calls that lost their token to
-- requests that sampling passed over; both also have calls of which nobody can tell
-- the request (crossed; include/kprofd/stats.h).
create table stat (
	window_id integer not null references time_window on delete cascade,
	tier_id	integer not null references tier,
	identity_id integer not null references identity,
	requests integer not null,	-- with a call of the tier at least
	calls	integer not null,	-- within the request, all outcomes
	raised	integer not null,
	unfinished integer not null,
	ambiguous integer not null,
	unknown_outcomes integer not null,	-- ended, but how was not seen
	outlasting integer not null,
	async_calls integer not null,	-- not among calls
	async_raised integer not null,
	async_unknown integer not null,
	async_unfinished integer not null,
	timed	integer not null,	-- calls that total, min, max, hist hold
	total_ns integer not null,
	self_ns	integer not null,
	busy_ns	integer not null,
	async_ns integer not null,
	gc_ns	integer,		-- of self_ns: collecting garbage
	out_ns	integer,		-- of self_ns: scheduled out
	share_requests integer,
	share_busy_ns integer,
	w_requests integer not null,
	w_calls	integer not null,
	w_raised integer not null,
	w_unfinished integer not null,
	w_ambiguous integer not null,
	w_unknown_outcomes integer not null,
	w_outlasting integer not null,
	w_async_calls integer not null,
	w_async_raised integer not null,
	w_async_unknown integer not null,
	w_async_unfinished integer not null,
	w_timed	integer not null,
	w_total_ns integer not null,
	w_self_ns integer not null,
	w_busy_ns integer not null,
	w_async_ns integer not null,
	w_gc_ns	integer,
	w_out_ns integer,
	w_share_requests integer,
	w_share_busy_ns integer,
	w_inside integer not null,	-- traced calls inside the timed ones,
	w_made	integer not null,	-- and those of them that these made
	counted	integer not null,
	strayed	integer not null,
	missed	integer not null,
	min_ns	integer,		-- null, as are those below: none timed
	max_ns	integer,
	p50_ns	integer,
	p90_ns	integer,
	p95_ns	integer,
	p99_ns	integer,
	async_max_ns integer,		-- null, as are those below: none has a time
	async_p50_ns integer,
	async_p90_ns integer,
	async_p95_ns integer,
	async_p99_ns integer,
	hist	blob,			-- weighted; format: include/kprofd/hist.h
	async_hist blob,
	primary key (window_id, tier_id, identity_id)
) without rowid;

create table loss (
	window_id integer not null references time_window on delete cascade,
	cause_id integer not null references cause,
	n	integer not null,	-- in the cause's unit
	primary key (window_id, cause_id)
) without rowid;

create table cost (			-- of profiling: include/kprofd/cost.h
	window_id integer primary key references time_window on delete cascade,
	events	integer not null,
	armed_calls integer not null,
	agent_ns integer not null,	-- of cost_ns, measured
	cost_ns	integer not null,
	traced_call_ns integer,		-- tracing adds it to one traced call,
	traced_caller_ns integer,	-- and to its caller; null: not measured
	scheduled integer not null,	-- processes with trace flags: so often
	sampled	integer not null	-- requests
);

-- How long messages waited in mailboxes (struct kp_wait_cell).
create table message_stat (
	window_id integer not null references time_window on delete cascade,
	receiver_id integer not null references receiver,
	identity_id integer not null references identity,
	messages integer not null,
	w_messages integer not null,
	away	integer not null,	-- of these, sent on another node
	w_away	integer not null,
	wait_ns	integer not null,
	w_wait_ns integer not null,
	min_ns	integer,
	max_ns	integer,
	p50_ns	integer,
	p90_ns	integer,
	p95_ns	integer,
	p99_ns	integer,
	hist	blob,
	primary key (window_id, receiver_id, identity_id)
) without rowid;

-- What processes and ETS tables use, and the memory of the node, as last seen in
-- the window (include/kprofd/usage.h); means where windows were rolled up.  kind:
--   processes	a group of them; owner: its application.  binary_bytes: what they
--		refer to outside their heaps, which counts for each of them
--   tables	ETS tables of one name; owner: the process that has the largest
--   node	total, processes, system, atom, binary, code, ets
create table usage (
	window_id integer not null references time_window on delete cascade,
	kind	text not null,
	name	text not null,
	owner	text not null,		-- '': none
	estimated integer not null,	-- 1: from a part of the processes
	count	integer not null,	-- processes, tables, atoms
	most	integer not null,	-- the node's limit of these; 0: none
	memory_bytes integer,		-- null: not seen
	binary_bytes integer,
	reductions_per_s integer,
	messages integer,		-- that wait
	objects	integer,
	longest	integer,		-- of these queues, in messages
	process	text,			-- that has it
	longest_since_ns integer,	-- null: it is shorter than 100
	primary key (window_id, kind, name, owner)
) without rowid;

create table stack (
	id	integer primary key,
	frames	text not null unique	-- outermost;...;innermost: mod:fun/2:31
);

create table stack_path (
	id	integer primary key,
	path	text not null unique	-- tiers: http;database
);

-- Sampled stacks (struct kp_stack_cell).  state: 0 running, 1 runnable,
-- 2 collecting garbage, 3 in a call, 4 on a port, 5 waiting, 6 not seen.
-- octave: how long the request took: n > 0 is from 2^(n-31) s up to 2^(n-30) s,
-- as (1 << n - 1) / (1 << 30) in SQL; 0: no end of it was seen.
-- Times are of processes, estimated from the samples; w_time_ns multiplies
-- each by the weight of its request.  A window has 3007 rows at most, one that
-- was rolled up 1507: stacks beyond that are in the row "_other" of their path.
-- stack_id and path_id have no "references": to delete a text SQLite would
-- search all rows for it, and upkeep does that for many at a time.
create table stack_stat (
	window_id integer not null references time_window on delete cascade,
	identity_id integer not null,
	path_id	integer not null,
	stack_id integer not null,
	state	integer not null,
	octave	integer not null,	-- of the request's duration
	samples	integer not null,
	time_ns	integer not null,
	w_time_ns integer not null,
	primary key (window_id, identity_id, path_id, stack_id, state, octave)
) without rowid;

-- Sums for long ranges, of one level: of a window of that level that is not shown
-- yet, or of all nodes (src/store/levels.c).
create table level_sum (
	id	integer primary key,
	level	integer not null,	-- its length in s
	node_id	integer not null,	-- 0: all nodes
	run_id	integer not null,	-- 0: all nodes
	start_ns integer not null
);
create unique index level_sum_at on level_sum (level, node_id, start_ns, run_id);
create index level_sum_start on level_sum (start_ns);

create table level_stat (		-- as stat
	sum_id	integer not null references level_sum on delete cascade,
	tier_id	integer not null,
	identity_id integer not null,
	requests integer not null, calls integer not null,
	raised integer not null, unfinished integer not null,
	ambiguous integer not null, unknown_outcomes integer not null,
	outlasting integer not null, async_calls integer not null,
	async_raised integer not null, async_unknown integer not null,
	async_unfinished integer not null, timed integer not null,
	total_ns integer not null, self_ns integer not null,
	busy_ns integer not null, async_ns integer not null, gc_ns integer,
	out_ns integer, share_requests integer, share_busy_ns integer,
	w_requests integer not null, w_calls integer not null,
	w_raised integer not null, w_unfinished integer not null,
	w_ambiguous integer not null, w_unknown_outcomes integer not null,
	w_outlasting integer not null, w_async_calls integer not null,
	w_async_raised integer not null, w_async_unknown integer not null,
	w_async_unfinished integer not null, w_timed integer not null,
	w_total_ns integer not null, w_self_ns integer not null,
	w_busy_ns integer not null, w_async_ns integer not null,
	w_gc_ns integer, w_out_ns integer, w_share_requests integer,
	w_share_busy_ns integer, w_inside integer not null,
	w_made integer not null, counted integer not null,
	strayed integer not null, missed integer not null, min_ns integer,
	max_ns integer, p50_ns integer, p90_ns integer, p95_ns integer,
	p99_ns integer, async_max_ns integer, async_p50_ns integer,
	async_p90_ns integer, async_p95_ns integer, async_p99_ns integer,
	hist blob, async_hist blob,
	primary key (sum_id, tier_id, identity_id)
) without rowid;

-- Sums of one node; those of all nodes have none, as rows name their node.
create table level_stack (		-- as stack_stat
	sum_id	integer not null references level_sum on delete cascade,
	identity_id integer not null,
	path_id	integer not null,
	stack_id integer not null,
	state	integer not null,
	octave	integer not null,	-- of the request's duration
	samples	integer not null,
	time_ns	integer not null,
	w_time_ns integer not null,
	primary key (sum_id, identity_id, path_id, stack_id, state, octave)
) without rowid;

create table level_next (		-- where each level goes on
	level	integer primary key,
	start_ns integer not null,	-- the next slot
	node_id	integer not null	-- its first node
);
insert into level_next values (60, 0, 0), (600, 0, 0), (3600, 0, 0),
	(21600, 0, 0), (86400, 0, 0), (604800, 0, 0);

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
	outcome	integer not null,	-- 1 returned, 2 raised, 3 unfinished,
					-- 4 ambiguous, 5 unknown
	traceparent text		-- 00-TRACE-SPAN-FLAGS of the application,
					-- whose child it is; null: not seen
);
create index request_found on request (start_ns, total_ns, node_id, identity_id);
create index request_traced on request (traceparent) where traceparent is not null;

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
	node_id	integer references node,	-- null: where its request began
	outlasts integer,		-- 1: it still ran when its request was
					-- kept; else null
	gc_ns	integer,		-- parts of self_ns: in garbage collection,
	out_ns	integer,		-- and scheduled out; null: not measured
	primary key (request_id, seq)
) without rowid;

create table request_time (		-- slow requests are sorted by it
	request_id integer not null references request on delete cascade,
	tier_id	integer not null,	-- 0: self time of the entry call
	self_ns	integer not null,
	primary key (request_id, tier_id)
) without rowid;

create table request_wait (		-- of messages, by receiving process
	request_id integer not null references request on delete cascade,
	seq	integer not null,	-- longest waits first
	receiver_id integer not null references receiver,
	pid	text not null,
	node_id	integer references node,	-- null: the request's
	messages integer not null,
	away	integer not null,
	wait_ns	integer not null,
	max_ns	integer not null,
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
-- by their weight.  The columns sampled_ have the measured counts.  One window does not
-- show how sure they are: kprof_within() of the extension does, of many (priv/doc/sql.md).
-- busy_per_request is per request of that type, even if it had no call in this
-- tier, so that the tiers of one type can be compared.  raised is the name of what
-- ended with an exception, everywhere.
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
	-- 0 only where nothing is unseen: kp_cell_unseen()
	case when t.name = '_total' then
	    case when s.w_raised = 0
	        and (s.w_unknown_outcomes + s.w_ambiguous > 0
	        or s.w_unfinished = nullif(s.w_calls, 0))
	    then null else s.w_raised end
	when s.w_raised + s.w_async_raised = 0
	    and (s.w_unknown_outcomes + s.w_async_unknown + s.w_ambiguous > 0
	    or s.w_unfinished + s.w_async_unfinished =
	    nullif(s.w_calls + s.w_async_calls, 0))
	then null else s.w_raised + s.w_async_raised end as raised,
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
	s.calls as sampled_calls,
	round(s.w_async_ns / 1e6, 3) as after_ms,
	round(s.w_async_ns / 1e6 / nullif(r.w_requests, 0), 3)
	    as after_per_request_ms,
	s.w_outlasting as outlasting,
	s.w_unknown_outcomes as unknown_outcomes,
	s.w_async_raised as async_raised,
	s.w_async_unknown as async_unknown,
	s.w_async_unfinished as async_unfinished,
	round(s.async_p50_ns / 1e6, 3) as async_p50_ms,
	round(s.async_p90_ns / 1e6, 3) as async_p90_ms,
	round(s.async_p95_ns / 1e6, 3) as async_p95_ms,
	round(s.async_p99_ns / 1e6, 3) as async_p99_ms,
	round(s.async_max_ns / 1e6, 3) as async_max_ms
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
	sampled_requests, after_ms, outlasting, unknown_outcomes, raised,
	async_p50_ms, async_p90_ms, async_p95_ms, async_p99_ms, async_max_ms
from	tier_stats
where	tier = '_total';

-- Garbage collection and time scheduled out, as parts of self times.  Of _total
-- they are those of all calls, which its self time is not.
create view pause_stats as
select	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node,
	t.name as tier,
	i.name as identity,
	s.w_requests as requests,
	s.w_timed as calls,
	case when t.name <> '_total' then round(s.w_self_ns / 1e6, 3) end
	    as self_ms,
	case when t.name <> '_total' then round((s.w_self_ns
	    - ifnull(s.w_gc_ns, 0) - ifnull(s.w_out_ns, 0)) / 1e6, 3) end
	    as work_ms,
	round(s.w_gc_ns / 1e6, 3) as gc_ms,
	round(s.w_out_ns / 1e6, 3) as out_ms
from	time_window w
	cross join stat s on s.window_id = w.id
	join node n on n.id = w.node_id
	join tier t on t.id = s.tier_id
	join identity i on i.id = s.identity_id
where	s.gc_ns is not null or s.out_ns is not null
order by w.start_ns, n.name, t.position is null, t.position, t.name, i.name;

create view message_stats as
select	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node,
	r.name as receiver,
	i.name as identity,
	m.w_messages as messages,
	m.w_away as away,
	round(m.w_wait_ns / 1e6, 3) as total_ms,
	round(m.w_wait_ns / 1e6 / nullif(m.w_messages, 0), 3) as mean_ms,
	round(m.min_ns / 1e6, 3) as min_ms,
	round(m.p50_ns / 1e6, 3) as p50_ms,
	round(m.p90_ns / 1e6, 3) as p90_ms,
	round(m.p95_ns / 1e6, 3) as p95_ms,
	round(m.p99_ns / 1e6, 3) as p99_ms,
	round(m.max_ns / 1e6, 3) as max_ms,
	m.messages as sampled_messages
from	time_window w
	cross join message_stat m on m.window_id = w.id
	join node n on n.id = w.node_id
	join receiver r on r.id = m.receiver_id
	join identity i on i.id = m.identity_id
order by w.start_ns, n.name, r.name, i.name;

create view tier_stacks as
select	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node,
	i.name as identity,
	p.path,
	case s.state when 0 then 'running' when 1 then 'runnable'
	    when 2 then 'collecting' when 3 then 'in a call'
	    when 4 then 'on a port' when 5 then 'waiting'
	    when 6 then 'not seen' end as state,
	t.frames,
	s.samples,
	round(s.w_time_ns / 1e6, 3) as ms,
	-- of requests that took longer than this, up to that; null: not known
	case when s.octave > 0 then round(1e3 * (1 << s.octave - 1) / (1 << 30), 3)
	    end as over_ms,
	case when s.octave > 0 then round(1e3 * (1 << s.octave) / (1 << 30), 3)
	    end as to_ms
from	time_window w
	cross join stack_stat s on s.window_id = w.id
	join node n on n.id = w.node_id
	join identity i on i.id = s.identity_id
	join stack_path p on p.id = s.path_id
	join stack t on t.id = s.stack_id
order by w.start_ns, n.name, i.name, p.path, s.w_time_ns desc;

-- The innermost function of each stack, without its line, and the innermost
-- tier of its path.  rtrim() takes off what follows the last ';', and a line.
create view stack_functions as
select	start, end, node, identity,
	substr(tier, 1, instr(tier || ': ', ': ') - 1) as tier,
	case when rtrim(frame, '0123456789') glob '*/*[0-9]:'
	then substr(rtrim(frame, '0123456789'), 1,
	    length(rtrim(frame, '0123456789')) - 1)
	else frame end as function,
	state,
	sum(samples) as samples,
	round(sum(ms), 3) as ms,
	substr(tier, instr(tier || ': ', ': ') + 2) as label	-- of the call
from	(select start, end, node, identity, state, samples, ms,
	substr(path, 1 + length(rtrim(path, replace(path, ';', ''))))
	    as tier,
	substr(frames, 1 + length(rtrim(frames, replace(frames, ';', ''))))
	    as frame
	from tier_stacks)
group by start, end, node, identity, tier, label, function, state
order by start, node, identity, ms desc;

-- Groups of processes: messages that wait for them, and what they use.
create view process_stats as
select	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node,
	u.name,
	u.owner as application,
	u.count as processes,
	u.messages,
	u.longest,
	u.process,
	strftime('%Y-%m-%dT%H:%M:%SZ', u.longest_since_ns / 1000000000,
	    'unixepoch') as longest_since,
	round(u.memory_bytes / 1e6, 3) as memory_mb,
	round(u.binary_bytes / 1e6, 3) as binary_mb,
	u.reductions_per_s,
	u.estimated
from	time_window w
	cross join usage u on u.window_id = w.id and u.kind = 'processes'
	join node n on n.id = w.node_id
order by w.start_ns, n.name, u.memory_bytes desc;

-- ETS tables, and the kinds of memory of the node.
create view memory_stats as
select	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node,
	u.kind,
	u.name,
	u.owner,
	round(u.memory_bytes / 1e6, 3) as memory_mb,
	nullif(u.count, 0) as count,
	nullif(u.most, 0) as most,
	u.objects
from	time_window w
	cross join usage u on u.window_id = w.id and u.kind <> 'processes'
	join node n on n.id = w.node_id
order by w.start_ns, n.name, u.kind, u.memory_bytes desc;

create view costs as
select	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node,
	c.events,
	c.armed_calls,
	round(c.agent_ns / 1e6, 3) as agent_ms,
	round(c.cost_ns / 1e6, 3) as cost_ms,
	round(100.0 * c.cost_ns / nullif(w.end_ns - w.start_ns, 0), 3)
	    as scheduler_percent,
	c.traced_call_ns,
	c.traced_caller_ns,
	c.scheduled,
	c.sampled
from	time_window w
	join cost c on c.window_id = w.id
	join node n on n.id = w.node_id
order by w.start_ns, n.name;

create view slow_requests as
select	q.id as request,
	strftime('%Y-%m-%dT%H:%M:%S', q.start_ns / 1000000000, 'unixepoch')
	    || printf('.%03dZ', q.start_ns / 1000000 % 1000) as start,
	n.name as node,
	i.name as identity,
	round(q.total_ns / 1e6, 3) as total_ms,
	case q.outcome when 1 then 'returned' when 2 then 'raised'
	    when 3 then 'unfinished' when 4 then 'ambiguous'
	    when 5 then 'unknown' end as outcome,
	(select count(*) from call c where c.request_id = q.id) as calls,
	q.label,
	q.parent_label,
	q.weight,
	(select count(*) from call c where c.request_id = q.id
	    and c.outcome = 2) as raised_calls,
	substr(q.traceparent, 4, 32) as trace_id
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
	    when 3 then 'unfinished' when 4 then 'ambiguous'
	    when 5 then 'unknown' end as outcome,
	case c.async when 1 then 'async' else '' end as async,
	c.parent,
	coalesce(n.name, '') as node,
	case c.outlasts when 1 then 'outlasts' else '' end as outlasts,
	round(c.gc_ns / 1e6, 3) as gc_ms,
	round(c.out_ns / 1e6, 3) as out_ms
from	call c
	join function f on f.id = c.function_id
	left join tier t on t.id = c.tier_id
	left join node n on n.id = c.node_id
order by c.request_id, c.seq;

create view slow_waits as
select	t.request_id as request,
	t.seq,
	r.name as receiver,
	t.pid,
	coalesce(n.name, '') as node,
	t.messages,
	t.away,
	round(t.wait_ns / 1e6, 3) as total_ms,
	round(t.wait_ns / 1e6 / t.messages, 3) as mean_ms,
	round(t.max_ns / 1e6, 3) as max_ms
from	request_wait t
	join receiver r on r.id = t.receiver_id
	left join node n on n.id = t.node_id
order by t.request_id, t.seq;

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
	r.interval_ns / 1e9 as interval_s,
	r.failed
from	run r
order by r.id;
