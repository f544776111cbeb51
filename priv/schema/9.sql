-- 9.sql - from schema 8 to 9.
--
-- Sampled stacks (struct kp_stack_cell).  state: 0 running, 1 runnable,
-- 2 collecting garbage, 3 in a call, 4 on a port, 5 waiting, 6 not seen.
-- Times are of processes, estimated from the samples; w_time_ns multiplies
-- each by the weight of its request.  A window has 3007 rows at most, one that
-- was rolled up 1507: stacks beyond that are in the row "_other" of their path.
-- stack_id and path_id have no "references": to delete a text SQLite would
-- search all rows for it, and upkeep does that for many at a time.

create table stack (id integer primary key,
	frames text not null unique);	-- outermost;...;innermost: mod:fun/2:31
create table stack_path (id integer primary key,
	path text not null unique);	-- tiers: http;database
create table stack_stat (
	window_id integer not null references time_window
	    on delete cascade,
	identity_id integer not null, path_id integer not null,
	stack_id integer not null, state integer not null,
	samples integer not null, time_ns integer not null,
	w_time_ns integer not null,
	primary key (window_id, identity_id, path_id, stack_id, state))
	without rowid;
-- sums of one node; those of all nodes have none, as rows name their node
create table level_stack (
	sum_id integer not null references level_sum on delete cascade,
	identity_id integer not null, path_id integer not null,
	stack_id integer not null, state integer not null,
	samples integer not null, time_ns integer not null,
	w_time_ns integer not null,
	primary key (sum_id, identity_id, path_id, stack_id, state))
	without rowid;

create view tier_stacks as select
	strftime('%Y-%m-%dT%H:%M:%S', w.start_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.start_ns / 1000000 % 1000) as start,
	strftime('%Y-%m-%dT%H:%M:%S', w.end_ns / 1000000000,
	'unixepoch') || printf('.%03dZ', w.end_ns / 1000000 % 1000) as end,
	n.name as node, i.name as identity, p.path,
	case s.state when 0 then 'running' when 1 then 'runnable'
	when 2 then 'collecting' when 3 then 'in a call'
	when 4 then 'on a port' when 5 then 'waiting'
	when 6 then 'not seen' end as state,
	t.frames, s.samples, round(s.w_time_ns / 1e6, 3) as ms
	from time_window w cross join stack_stat s on s.window_id = w.id
	join node n on n.id = w.node_id
	join identity i on i.id = s.identity_id
	join stack_path p on p.id = s.path_id
	join stack t on t.id = s.stack_id
	order by w.start_ns, n.name, i.name, p.path, s.w_time_ns desc;

-- The innermost function of each stack, without its line, and the innermost
-- tier of its path.  rtrim() takes off what follows the last ';', and a line.
create view stack_functions as select start, end, node, identity, tier,
	case when rtrim(frame, '0123456789') glob '*/*[0-9]:'
	then substr(rtrim(frame, '0123456789'), 1,
	length(rtrim(frame, '0123456789')) - 1) else frame end as function,
	state, sum(samples) as samples, round(sum(ms), 3) as ms
	from (select start, end, node, identity, state, samples, ms,
	substr(path, 1 + length(rtrim(path, replace(path, ';', ''))))
	as tier,
	substr(frames, 1 + length(rtrim(frames, replace(frames, ';', ''))))
	as frame from tier_stacks)
	group by start, end, node, identity, tier, function, state
	order by start, node, identity, ms desc;
pragma user_version = 9;
