-- 3.sql - from schema 2 to 3.
--
-- What profiling cost the target; see include/kprofd/cost.h.
create table cost (
	window_id integer primary key references time_window
	    on delete cascade,
	events integer not null, armed_calls integer not null,
	agent_ns integer not null,	-- of cost_ns, measured
	cost_ns integer not null);
pragma user_version = 3;
