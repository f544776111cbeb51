%% kprof_agent_sentry - the process that takes back what the agent armed, however the agent
%% ended.
-module(kprof_agent_sentry).

-export([sentry_start/2, own/2, patterns/1]).

-include("kprof_agent.hrl").

%% Word: the trace control word to restore.
-spec sentry_start(kprof_flagger:session(), non_neg_integer()) -> {pid(), reference()}.
sentry_start(Session, Word) ->
    Agent = self(),
    IsLegacy = Session =:= legacy,
    kprof_injected:spawn_monitored(
      kprof_agent, sentry,
      fun() ->
              Ref = erlang:monitor(process, Agent),
              sentry(Ref, Agent, IsLegacy, Word, [])
      end).

%% Knows what to take back without the agent's help, and sleeps until the agent is dead.
sentry(Ref, Agent, IsLegacy, Word, Own) ->
    receive
        {own, New} ->
            sentry(Ref, Agent, IsLegacy, Word, New);
        {heir, Heir} ->
            erlang:demonitor(Ref, [flush]),
            sentry(erlang:monitor(process, Heir), Heir, IsLegacy, Word, Own);
        {'DOWN', Ref, process, Agent, Reason} ->
            sentry_clean(IsLegacy, Agent, Own),
            erlang:system_flag(trace_control_word, Word),
            Reason =:= normal orelse
                logger:warning("kprofd's agent died (~0tp); everything it "
                               "armed is taken back", [Reason]),
            kprof_injected:purger_start(kprof_agent, ?LOADED, [Agent, self()])
    end.

%% A session dies with the agent's handle. Legacy patterns stay armed when their tracer dies,
%% and so may flags of processes that have run no code since.
sentry_clean(IsLegacy, Agent, Own) ->
    kprof_agent_messages:leave_system_tracer(),
    Tracers = [Agent | [kprof_probe:tracer()
                        || erlang:module_loaded(kprof_probe), probe_stopped()]],
    IsLegacy andalso
        begin
            [kprof_agent_patterns:pattern(legacy, MFA, false, How) || {How, MFA} <- Own],
            [kprof_flagger:flags_clear(legacy, T, ?CLEAR_MS)
             || lists:member(flags, Own), T <- Tracers]
        end,
    ok.

%% false where the agent died before the probe's library was loaded.
probe_stopped() ->
    try kprof_probe:stop() =:= ok
    catch error:_ -> false
    end.

%% Tells the sentry what is ours, and More that is about to be: before it is set.
-spec own([{atom(), mfa()} | flags], #s{}) -> term().
own(More, #s{checks = Checks, hot = Hot, code = Code, process_flags = Flags} = S) ->
    Rated = case Checks#checks.rating of
                undefined -> [];
                {_, _, Counted, _, _} -> [{call_count, MFA} || MFA <- Counted]
            end,
    Plan = [P || P <- patterns(S#s.plan),
                 not kprof_agent_arming:is_resting(S) orelse element(1, P) =:= call_count],
    Tiers = [{call_count, MFA} || MFA <- maps:keys(Hot#hot.counters)],
    Watch = [{meta, MFA} || MFA <- Code#code.watched],
    AnyFlags = [flags || Flags#process_flags.set =/= []],
    element(1, S#s.sentry) ! {own, More ++ Rated ++ Plan ++ Tiers ++ Watch ++ AnyFlags}.

-spec patterns([#item{}]) -> [{local | call_count, mfa()}].
patterns(Plan) ->
    [{local, I#item.mfa} || I <- Plan] ++
        [{call_count, I#item.mfa} || I <- Plan, I#item.kind =:= entry].
