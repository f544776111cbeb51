-- 7.sql - from schema 6 to 7.
--
-- What requests leave behind.  async_ns, which was the time of calls that began
-- after their request, is now all time after a request's end, with the part after
-- it of calls that began inside and outlast it, which outlasting counts.
-- unknown_outcomes: calls with an end whose outcome could not be seen.
-- async_raised, async_unknown, async_unfinished: the same for async_calls.
-- w_inside and w_made: traced calls inside the timed ones, at any depth and made
-- by them.  All of these are null in rows of earlier schemas.

alter table stat add column outlasting integer;
alter table stat add column w_outlasting integer;
alter table stat add column unknown_outcomes integer;
alter table stat add column w_unknown_outcomes integer;
alter table stat add column async_raised integer;
alter table stat add column w_async_raised integer;
alter table stat add column async_unknown integer;
alter table stat add column w_async_unknown integer;
alter table stat add column async_unfinished integer;
alter table stat add column w_async_unfinished integer;
-- why it measured nothing; null: it started
alter table run add column failed text;
-- of one call, as measured there; null: not measured
alter table cost add column traced_call_ns integer;
alter table cost add column traced_caller_ns integer;
alter table stat add column w_inside integer;
alter table stat add column w_made integer;
-- 1: it still ran when its request was kept; else null
alter table call add column outlasts integer;
drop view if exists request_stats;
drop view if exists tier_stats;
create view tier_stats as select
	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node, t.name as tier, i.name as identity,
	s.w_requests as requests, s.w_calls as calls,
	-- 0 only where nothing is unseen: kp_cell_unseen()
	case when t.name = '_total' then
	case when s.w_raised = 0 and (coalesce(s.w_unknown_outcomes,
	s.w_calls) + s.w_ambiguous > 0 or s.w_unfinished =
	nullif(s.w_calls, 0)) then null else s.w_raised end
	when s.w_raised + ifnull(s.w_async_raised, 0) = 0 and
	(coalesce(s.w_unknown_outcomes + s.w_async_unknown,
	s.w_calls + s.w_async_calls) + s.w_ambiguous > 0 or
	s.w_unfinished + s.w_async_unfinished =
	nullif(s.w_calls + s.w_async_calls, 0)) then null
	else s.w_raised + ifnull(s.w_async_raised, 0) end
	as raised, s.w_unfinished as unfinished,
	s.w_ambiguous as ambiguous, s.w_async_calls as async_calls,
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
	s.requests as sampled_requests, s.calls as sampled_calls,
	round(s.w_async_ns / 1e6, 3) as after_ms,
	round(s.w_async_ns / 1e6 / nullif(r.w_requests, 0), 3)
	as after_per_request_ms,
	s.w_outlasting as outlasting,
	s.w_unknown_outcomes as unknown_outcomes,
	s.w_async_raised as async_raised,
	s.w_async_unknown as async_unknown,
	s.w_async_unfinished as async_unfinished
	from time_window w cross join stat s on s.window_id = w.id
	join node n on n.id = w.node_id
	join tier t on t.id = s.tier_id
	join identity i on i.id = s.identity_id
	left join stat r on r.window_id = s.window_id
	and r.tier_id = (select id from tier where name = '_total')
	and r.identity_id = s.identity_id
	order by w.start_ns, n.name, t.position is null, t.position,
	t.name, i.name;

create view request_stats as select start, end, node, identity,
	requests, raised as errors, unfinished, ambiguous, mean_ms,
	min_ms, p50_ms, p90_ms, p95_ms, p99_ms, max_ms, total_ms,
	self_ms, async_calls, async_ms, sampled_requests, after_ms,
	outlasting, unknown_outcomes from tier_stats
	where tier = '_total';
drop view if exists runs;
create view runs as select r.id as run,
	strftime('%Y-%m-%dT%H:%M:%S', r.started_ns / 1000000000,
	'unixepoch') || 'Z' as started,
	strftime('%Y-%m-%dT%H:%M:%S', r.ended_ns / 1000000000,
	'unixepoch') || 'Z' as ended,
	case r.clean when 1 then 'clean' when 0 then 'unclean'
	else 'running' end as state,
	r.version, r.interval_ns / 1e9 as interval_s, r.failed
	from run r order by r.id;
drop view if exists costs;
create view costs as select
	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node, c.events, c.armed_calls,
	round(c.agent_ns / 1e6, 3) as agent_ms,
	round(c.cost_ns / 1e6, 3) as cost_ms,
	round(100.0 * c.cost_ns / nullif(w.end_ns - w.start_ns, 0), 3)
	as scheduler_percent, c.traced_call_ns, c.traced_caller_ns
	from time_window w join cost c on c.window_id = w.id
	join node n on n.id = w.node_id
	order by w.start_ns, n.name;
drop view if exists slow_requests;
create view slow_requests as select q.id as request,
	strftime('%Y-%m-%dT%H:%M:%S', q.start_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', q.start_ns / 1000000 % 1000) as start, n.name as node,
	i.name as identity, round(q.total_ns / 1e6, 3) as total_ms,
	case q.outcome when 1 then 'returned' when 2 then 'raised'
	when 3 then 'unfinished' when 4 then 'ambiguous'
	when 5 then 'unknown' end as outcome,
	(select count(*) from call c where c.request_id = q.id) as calls,
	q.label, q.parent_label, q.weight from request q
	join node n on n.id = q.node_id
	join identity i on i.id = q.identity_id order by q.start_ns, q.id;
drop view if exists slow_calls;
create view slow_calls as select c.request_id as request, c.seq,
	c.depth, round(c.start_ns / 1e6, 3) as start_ms,
	round(c.total_ns / 1e6, 3) as total_ms,
	round(c.self_ns / 1e6, 3) as self_ms,
	coalesce(t.name, '') as tier,
	printf('%*s', 2 * min(c.depth, 50), '') || f.name as call, c.pid,
	case c.outcome when 1 then 'returned' when 2 then 'raised'
	when 3 then 'unfinished' when 4 then 'ambiguous'
	when 5 then 'unknown' end as outcome,
	case c.async when 1 then 'async' else '' end as async, c.parent,
	coalesce(n.name, '') as node,
	case c.outlasts when 1 then 'outlasts' else '' end as outlasts
	from call c join function f on f.id = c.function_id
	left join tier t on t.id = c.tier_id
	left join node n on n.id = c.node_id
	order by c.request_id, c.seq;
pragma user_version = 7;
