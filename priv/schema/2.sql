-- 2.sql - from schema 1 to 2.
--
-- Roll-up.  level is the length in seconds of the interval whose windows were
-- added up, 0 for windows as they were measured.  The oldest window of a level is
-- looked up often.
create index time_window_level on time_window (level, start_ns);
pragma user_version = 2;
