-- 4.sql - from schema 3 to 4.
--
-- Requests of several nodes.  The shares are what adds up over nodes (see
-- include/kprofd/stats.h); null where they equal requests, w_requests, busy_ns and
-- w_busy_ns, as in all rows of earlier schemas.

alter table stat add column share_requests integer;
alter table stat add column w_share_requests integer;
alter table stat add column share_busy_ns integer;
alter table stat add column w_share_busy_ns integer;
-- where the call ran; null: where its request began
alter table call add column node_id integer references node;
pragma user_version = 4;
