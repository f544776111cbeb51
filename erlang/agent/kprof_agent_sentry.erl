%% kprof_agent_sentry - what the agent's sentry (kprof_sentry) is told, and what it takes back.
-module(kprof_agent_sentry).

-export([agent_sentry/3, inherited/1, tell_sentry/2, patterns/1, alive/0, alive/1]).

-import(kprof_agent_arming, [is_resting/1, pattern/4]).
-import(kprof_agent_foreign, [counted/1]).
-import(kprof_agent_messages, [leave_system_tracer/0]).
-import(kprof_flagger, [flags_clear/3]).
-import(kprof_injected, [kept_drop/1]).
-import(kprof_sentry, [sentry_start/5]).

-include("kprof_agent.hrl").

%% Word: the trace control word to restore. The agent looks at its lease itself; one that cannot is
%% killed.
-spec agent_sentry(kprof_flagger:session(), non_neg_integer(), pos_integer()) ->
          {pid(), reference()}.
agent_sentry(Session, Word, LeaseMs) ->
    IsLegacy = Session =:= legacy,
    Clean = fun(Reason, Agent, Own) ->
                    agent_clean(IsLegacy, Agent, Own),
                    erlang:system_flag(trace_control_word, Word),
                    kept_drop(kprof_agent_word),
                    Reason =:= normal orelse
                        logger:warning("kprofd's agent ~ts; everything it armed is taken back",
                                       [died(Reason)])
            end,
    {Sentry, _} = Started = sentry_start(kprof_agent, ?LOADED, LeaseMs, [], Clean),
    inherited(Sentry),
    Started.

%% The sentry of the calling process, for alive/0.
-spec inherited(pid()) -> term().
inherited(Sentry) ->
    put(sentry, Sentry).

died(silent) -> "did nothing for two of its leases and was ended";
died(Reason) -> io_lib:format("died (~0tp)", [Reason]).

%% A session dies with the agent's handle. Legacy patterns stay armed when their tracer dies,
%% and so may flags of processes that have run no code since.
agent_clean(IsLegacy, Agent, Own) ->
    leave_system_tracer(),
    Tracers = [Agent | [kprof_probe:tracer()
                        || erlang:module_loaded(kprof_probe), probe_stopped()]],
    IsLegacy andalso
        begin
            [pattern(legacy, MFA, false, How) || {How, MFA} <- Own],
            [flags_clear(legacy, T, ?CLEAR_MS) || lists:member(flags, Own), T <- Tracers]
        end,
    ok.

%% false where the agent died before the probe's library was loaded.
probe_stopped() ->
    try kprof_probe:stop() =:= ok
    catch error:_ -> false
    end.

%% Called before each pattern or counter is set: each takes 15 to 25 ms on a busy node, and a plan
%% has up to 2,000 functions. Does nothing in a process that has no sentry.
-spec alive() -> term().
alive() ->
    case get(sentry) of
        undefined -> ok;
        Sentry -> Sentry ! alive
    end.

%% Called between any two other steps that may take long. What is taken back last takes longest.
-spec alive(#state{}) -> term().
alive(#state{leaving = true, lease = #lease{ms = Ms}} = S) -> alive(Ms + ?CLEAR_MS, S);
alive(#state{lease = #lease{ms = Ms}} = S) -> alive(Ms, S).

alive(Ms, #state{sentry = {Sentry, _}}) ->
    Sentry ! {alive, Ms}.

%% Tells the sentry what is ours, and More that is about to be: before it is set.
-spec tell_sentry([{atom(), mfa()} | flags], #state{}) -> term().
tell_sentry(More, #state{checks = Checks, hot = Hot, code = Code, process_flags = Flags} = S) ->
    Rated = case Checks#checks.rating of
                undefined -> [];
                {_, _, Counted, _, _} -> [{call_count, MFA} || MFA <- Counted]
            end,
    Plan = [P || P <- patterns(S#state.plan),
                 not is_resting(S) orelse element(1, P) =:= call_count],
    Tiers = [{call_count, MFA}
             || MFA <- maps:keys(Hot#hot.counters) ++ counted(S)],
    Watch = [{meta, MFA} || MFA <- Code#code.watched],
    AnyFlags = [flags || Flags#process_flags.set =/= [] orelse Flags#process_flags.walk =/= none],
    element(1, S#state.sentry) ! {own, More ++ Rated ++ Plan ++ Tiers ++ Watch ++ AnyFlags}.

-spec patterns([#item{}]) -> [{local | call_count, mfa()}].
patterns(Plan) ->
    [{local, I#item.mfa} || I <- Plan] ++
        [{call_count, I#item.mfa} || I <- Plan, I#item.kind =:= entry].
