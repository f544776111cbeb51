%% kprof_agent_sentry - the process that takes back what the agent armed, however the agent
%% ended.
-module(kprof_agent_sentry).

-export([sentry_start/2, own/2, patterns/1]).

-include("kprof_agent.hrl").

%% Knows what to take back without the agent's help; runs when it is dead.
sentry_start(Session, Tcw) ->
    Agent = self(),
    Legacy = Session =:= legacy,
    spawn_monitor(fun() ->
                          kprof_injected:process_label(kprof_agent, sentry),
                          Ref = erlang:monitor(process, Agent),
                          sentry(Ref, Agent, Legacy, Tcw, [])
                  end).

sentry(Ref, Agent, Legacy, Tcw, Own) ->
    receive
        {own, New} ->
            sentry(Ref, Agent, Legacy, Tcw, New);
        {heir, Heir} ->
            erlang:demonitor(Ref, [flush]),
            sentry(erlang:monitor(process, Heir), Heir, Legacy, Tcw, Own);
        {'DOWN', Ref, process, Agent, Reason} ->
            sentry_clean(Legacy, Agent, Own),
            erlang:system_flag(trace_control_word, Tcw),
            Reason =:= normal orelse
                logger:warning("kprofd's agent died (~0tp); everything it "
                               "armed is taken back", [Reason]),
            kprof_injected:purger_start(kprof_agent, ?LOADED, [Agent, self()])
    end.

%% A session dies with the agent's handle. Legacy patterns stay armed when
%% their tracer dies, and so may flags of processes that ran no code since.
sentry_clean(Legacy, Agent, Own) ->
    kprof_agent_mail:mail_leave(),
    Tracers = [Agent | [kprof_probe:tracer()
                        || erlang:module_loaded(kprof_probe), probe_stopped()]],
    Legacy andalso
        begin
            [kprof_agent_patterns:pattern(legacy, MFA, false, How) || {How, MFA} <- Own],
            [kprof_flagger:flags_clear(legacy, T, ?CLEAR_MS) || lists:member(flags, Own), T <- Tracers]
        end,
    ok.

%% Not where the agent died before its library was there.
probe_stopped() ->
    try kprof_probe:stop() =:= ok
    catch error:_ -> false
    end.

%% Tells the sentry what is ours, and More that is about to be: before it is.
-spec own([{atom(), mfa()} | flags], #s{}) -> term().
own(More, S) ->
    Rated = case S#s.rating of
                undefined -> [];
                {_, _, Mine, _, _} -> [{call_count, MFA} || MFA <- Mine]
            end,
    Plan = [P || P <- patterns(S#s.plan),
                 not kprof_agent_arming:is_resting(S) orelse element(1, P) =:= call_count],
    Tiers = [{call_count, MFA} || MFA <- maps:keys(S#s.tiers)],
    element(1, S#s.sentry) ! {own, More ++ Rated ++ Plan ++ Tiers ++
                                  [{meta, MFA} || MFA <- S#s.watching] ++
                                  [flags || S#s.flagged =/= []]}.

-spec patterns([#item{}]) -> [{local | call_count, mfa()}].
patterns(Plan) ->
    [{local, I#item.mfa} || I <- Plan] ++
        [{call_count, I#item.mfa} || I <- Plan, I#item.kind =:= entry].
