-- 10.sql - from schema 9 to 10.
--
-- The times of calls that began after their request (async_calls), which hist and
-- the columns beside it do not have: the histogram, weighted, the longest, and
-- percentiles.  All are null where no such call has a time, and in rows of earlier
-- schemas.
--
-- raised is the name of what ended with an exception, everywhere: request_stats has
-- it beside errors, and slow_requests counts the calls that did (raised_calls).

alter table stat add column async_max_ns integer;
alter table stat add column async_p50_ns integer;
alter table stat add column async_p90_ns integer;
alter table stat add column async_p95_ns integer;
alter table stat add column async_p99_ns integer;
alter table stat add column async_hist blob;
alter table level_stat add column async_max_ns integer;
alter table level_stat add column async_p50_ns integer;
alter table level_stat add column async_p90_ns integer;
alter table level_stat add column async_p95_ns integer;
alter table level_stat add column async_p99_ns integer;
alter table level_stat add column async_hist blob;
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
	s.w_async_unfinished as async_unfinished,
	round(s.async_p50_ns / 1e6, 3) as async_p50_ms,
	round(s.async_p90_ns / 1e6, 3) as async_p90_ms,
	round(s.async_p95_ns / 1e6, 3) as async_p95_ms,
	round(s.async_p99_ns / 1e6, 3) as async_p99_ms,
	round(s.async_max_ns / 1e6, 3) as async_max_ms
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
	outlasting, unknown_outcomes, raised, async_p50_ms,
	async_p90_ms, async_p95_ms, async_p99_ms, async_max_ms
	from tier_stats where tier = '_total';
drop view if exists slow_requests;
create view slow_requests as select q.id as request,
	strftime('%Y-%m-%dT%H:%M:%S', q.start_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', q.start_ns / 1000000 % 1000) as start, n.name as node,
	i.name as identity, round(q.total_ns / 1e6, 3) as total_ms,
	case q.outcome when 1 then 'returned' when 2 then 'raised'
	when 3 then 'unfinished' when 4 then 'ambiguous'
	when 5 then 'unknown' end as outcome,
	(select count(*) from call c where c.request_id = q.id) as calls,
	q.label, q.parent_label, q.weight,
	(select count(*) from call c where c.request_id = q.id
	and c.outcome = 2) as raised_calls from request q
	join node n on n.id = q.node_id
	join identity i on i.id = q.identity_id order by q.start_ns, q.id;
-- Tokens that were lost.  counted: calls of the tier, or of entries in _total, that
-- the VM counted while it was traced, in requests or not; of all request types only.
-- strayed: calls of requests that sampling picked for others as well, whose token was
-- another request's.  missed: an estimate of the calls that lost their token to
-- requests that sampling passed over (include/kprofd/stats.h).  All are null in rows
-- of earlier schemas.

alter table stat add column counted integer;
alter table stat add column strayed integer;
alter table stat add column missed integer;
alter table level_stat add column counted integer;
alter table level_stat add column strayed integer;
alter table level_stat add column missed integer;

-- What cost_ns is made of beside events and armed calls: how often processes with
-- trace flags were scheduled, and sampled requests.  Null in rows of earlier schemas.

alter table cost add column scheduled integer;
alter table cost add column sampled integer;
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
	as scheduler_percent, c.traced_call_ns, c.traced_caller_ns,
	c.scheduled, c.sampled
	from time_window w join cost c on c.window_id = w.id
	join node n on n.id = w.node_id
	order by w.start_ns, n.name;
pragma user_version = 10;
