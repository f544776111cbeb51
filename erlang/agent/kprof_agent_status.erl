%% kprof_agent_status - the agent's state: for the daemon with each lease, and for an operator.
-module(kprof_agent_status).

-export([summary/1, state_msg/1, waiting/1]).

-import(kprof_agent_arming, [counters_now/1, entry_calls/1, unarmed/1]).
-import(kprof_injected, [now_ns/0]).

-include("kprof_agent.hrl").

%% What kprof_agent:status/0 returns.
-spec summary(#s{}) -> map().
summary(S0) ->
    {_, #s{lease = Lease, plan = Plan, events = Events, code = Code, foreign = Foreign} = S} =
        counters_now(S0),
    #{who => Lease#lease.who,
      since => calendar:system_time_to_rfc3339(Lease#lease.since, [{offset, "Z"}]),
      state => S#s.state,
      probe => S#s.probe,
      messages => S#s.messages#messages.state,
      flags => S#s.sched_gc#sched_gc.flags,
      untraced => S#s.process_flags#process_flags.untraced,
      armed => [I#item.mfa || I <- Plan, not I#item.gone, I#item.spec =/= false],
      disarmed => [I#item.mfa || I <- Plan, I#item.spec =:= false],
      entries => [I#item.mfa || I <- Plan, I#item.kind =:= entry, not I#item.gone],
      missing => [I#item.mfa || I <- Plan, I#item.gone],
      code_changes => Code#code.changes,
      code_gap_us => Code#code.gap_us,
      last_trip => S#s.last_trip,
      tracing_measured => S#s.cost#cost.measured_at =/= never,
      events_sent => Events#events.sent,
      events_dropped => Events#events.dropped,
      events_foreign => Foreign#foreign.dropped,
      ceded => maps:keys(Foreign#foreign.ceded),
      busy_ms => Events#events.busy_ns div 1000000,
      held_ms => Events#events.held_ns div 1000000,
      switches => S#s.cost#cost.switches,
      entry_calls => entry_calls(S),
      tier_calls => S#s.hot#hot.calls}.

%% The message for the daemon (src/agent/agent_msg.c).
-spec state_msg(#s{}) -> tuple().
state_msg(#s{lease = Lease, events = Events, foreign = Foreign} = S) ->
    {memory, Bytes} = process_info(self(), memory),
    {Name, Reason} = case S#s.state of
                         {_, _} = State -> State;
                         State -> {State, []}
                     end,
    {kprof_status, now_ns(), erlang:time_offset(nanosecond),
     Name, Reason, Events#events.seq, waiting(S), Bytes, Events#events.sent,
     Events#events.dropped, Events#events.dropped_entries,
     entry_calls(S), unarmed(S), Events#events.busy_ns,
     S#s.hot#hot.calls, Lease#lease.ref, Foreign#foreign.dropped,
     map_size(Foreign#foreign.ceded), Events#events.held_ns, S#s.cost#cost.switches}.

%% An upper limit of the events that the daemon cannot have seen yet.
-spec waiting(#s{}) -> non_neg_integer().
waiting(#s{probe = native}) ->
    maps:get(waiting, kprof_probe:info());
waiting(_) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Queue.
