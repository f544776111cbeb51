-- 5.sql - from schema 4 to 5.
--
-- Slow requests are found by one index, and by the time in a tier.
create index request_found on request (start_ns, total_ns,
	node_id, identity_id);
drop index request_start;

create table request_time (	-- slow requests are sorted by it
	request_id integer not null references request
	    on delete cascade,
	tier_id integer not null,	-- 0: self time of the entry call
	self_ns integer not null,
	primary key (request_id, tier_id)) without rowid;
insert into request_time select request_id, tier_id, sum(self_ns)
	from call
	where tier_id is not null and self_ns is not null and async = 0
	group by request_id, tier_id
	union all select request_id, 0, self_ns from call
	where seq = 0 and self_ns is not null;
pragma user_version = 5;
