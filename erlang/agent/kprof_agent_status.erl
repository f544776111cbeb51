%% kprof_agent_status - what the agent says of itself: to the daemon with each lease, and
%% to an operator.
-module(kprof_agent_status).

-export([summary/1, state_msg/1, waiting/1]).

-include("kprof_agent.hrl").

summary(S0) ->
    S = kprof_agent_arming:read_counters(S0),
    #{who => S#s.who,
      since => calendar:system_time_to_rfc3339(S#s.since, [{offset, "Z"}]),
      state => S#s.state,
      probe => S#s.probe,
      messages => S#s.mail,
      flags => S#s.flags,
      untraced => S#s.untraced,
      armed => [I#item.mfa || I <- S#s.plan, not I#item.gone, I#item.spec =/= false],
      disarmed => [I#item.mfa || I <- S#s.plan, I#item.spec =:= false],
      entries => [I#item.mfa || I <- S#s.plan, I#item.kind =:= entry, not I#item.gone],
      missing => [I#item.mfa || I <- S#s.plan, I#item.gone],
      code_changes => S#s.changes,
      code_gap_us => S#s.gap_us,
      last_trip => S#s.last_trip,
      tracing_measured => S#s.traced_at =/= never,
      events_sent => S#s.sent,
      events_dropped => S#s.dropped,
      events_foreign => S#s.foreign,
      ceded => maps:keys(S#s.ceded),
      busy_ms => S#s.busy div 1000000,
      entry_calls => kprof_agent_arming:entry_calls(S),
      tier_calls => S#s.tier_calls}.

state_msg(S) ->
    Queue = waiting(S),
    {memory, Bytes} = process_info(self(), memory),
    {Name, Reason} = case S#s.state of
                         {What, Why} -> {What, Why};
                         Other -> {Other, []}
                     end,
    {kprof_status, kprof_injected:now_ns(), erlang:time_offset(nanosecond),
     Name, Reason, S#s.seq, Queue, Bytes, S#s.sent, S#s.dropped,
     S#s.dropped_entries, kprof_agent_arming:entry_calls(S), kprof_agent_arming:unarmed(S), S#s.busy,
     S#s.tier_calls, S#s.lease_ref, S#s.foreign, map_size(S#s.ceded)}.

%% Events that the daemon cannot have seen yet, at most.
waiting(#s{probe = native}) ->
    maps:get(waiting, kprof_probe:info());
waiting(_) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Queue.
