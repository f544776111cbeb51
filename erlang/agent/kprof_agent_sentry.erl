%% kprof_agent_sentry - the process that takes back what the agent armed, however the agent
%% ended, and that ends an agent which does nothing any more.
-module(kprof_agent_sentry).

-export([sentry_start/3, inherited/1, own/2, patterns/1, alive/0, alive/1]).

-import(kprof_agent_arming, [is_resting/1]).
-import(kprof_agent_messages, [leave_system_tracer/0]).
-import(kprof_agent_patterns, [pattern/4]).
-import(kprof_flagger, [flags_clear/3]).
-import(kprof_injected, [purger_start/3, spawn_monitored/3]).

-include("kprof_agent.hrl").

-define(LOOKS, 8).      % without a sign of life between them, before the agent is killed

-record(sentry, {
    monitor :: reference(),
    agent :: pid(),
    legacy :: boolean(),
    word :: non_neg_integer(),
    own = [] :: [{atom(), mfa()} | flags],
    every :: pos_integer(),     % ms between two looks for a sign of life
    silent = 0 :: non_neg_integer() | killed    % looks in a row that found none
}).

%% Word: the trace control word to restore. The agent looks at its lease itself; one that cannot
%% is killed when two leases have passed without a sign of life. The agent's priority is high, so
%% the sentry's is.
-spec sentry_start(kprof_flagger:session(), non_neg_integer(), pos_integer()) ->
          {pid(), reference()}.
sentry_start(Session, Word, LeaseMs) ->
    Agent = self(),
    IsLegacy = Session =:= legacy,
    {Sentry, _} = Started = spawn_monitored(
          kprof_agent, sentry,
          fun() ->
                  process_flag(priority, high),
                  sentry(#sentry{monitor = erlang:monitor(process, Agent), agent = Agent,
                                 legacy = IsLegacy, word = Word, every = every(LeaseMs)})
          end),
    inherited(Sentry),
    Started.

%% The sentry of the calling process, for alive/0.
-spec inherited(pid()) -> term().
inherited(Sentry) ->
    put(sentry, Sentry).

every(LeaseMs) -> max(1, 2 * LeaseMs div ?LOOKS).

%% Knows what to take back without the agent's help. Looks are counted, since the whole node may
%% have been stopped for some time.
sentry(#sentry{silent = ?LOOKS, agent = Agent} = S) ->
    exit(Agent, kill),
    sentry(S#sentry{silent = killed});
sentry(#sentry{monitor = Ref, agent = Agent, silent = Silent} = S) ->
    receive
        {own, New} ->
            sentry(heard(S#sentry{own = New}));
        alive ->
            sentry(heard(S));
        {alive, LeaseMs} ->
            sentry(heard(S#sentry{every = every(LeaseMs)}));
        {heir, Heir} ->
            %% Also where the agent was killed as it gave way: the heir is another process.
            erlang:demonitor(Ref, [flush]),
            sentry(S#sentry{monitor = erlang:monitor(process, Heir), agent = Heir, silent = 0});
        {'DOWN', Ref, process, Agent, Reason} ->
            sentry_clean(S#sentry.legacy, Agent, S#sentry.own),
            erlang:system_flag(trace_control_word, S#sentry.word),
            Reason =:= normal orelse
                logger:warning("kprofd's agent ~ts; everything it armed is taken back",
                               [died(Silent, Reason)]),
            purger_start(kprof_agent, ?LOADED, [Agent, self()])
    after wait(S) ->
            sentry(S#sentry{silent = Silent + 1})
    end.

wait(#sentry{silent = killed}) -> infinity;
wait(#sentry{every = Ms}) -> Ms.

heard(#sentry{silent = killed} = S) -> S;
heard(S) -> S#sentry{silent = 0}.

died(killed, _) -> "did nothing for two of its leases and was ended";
died(_, Reason) -> io_lib:format("died (~0tp)", [Reason]).

%% A session dies with the agent's handle. Legacy patterns stay armed when their tracer dies,
%% and so may flags of processes that have run no code since.
sentry_clean(IsLegacy, Agent, Own) ->
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
-spec own([{atom(), mfa()} | flags], #state{}) -> term().
own(More, #state{checks = Checks, hot = Hot, code = Code, process_flags = Flags} = S) ->
    Rated = case Checks#checks.rating of
                undefined -> [];
                {_, _, Counted, _, _} -> [{call_count, MFA} || MFA <- Counted]
            end,
    Plan = [P || P <- patterns(S#state.plan),
                 not is_resting(S) orelse element(1, P) =:= call_count],
    Tiers = [{call_count, MFA}
             || MFA <- maps:keys(Hot#hot.counters) ++ kprof_agent_foreign:counted(S)],
    Watch = [{meta, MFA} || MFA <- Code#code.watched],
    AnyFlags = [flags || Flags#process_flags.set =/= []],
    element(1, S#state.sentry) ! {own, More ++ Rated ++ Plan ++ Tiers ++ Watch ++ AnyFlags}.

-spec patterns([#item{}]) -> [{local | call_count, mfa()}].
patterns(Plan) ->
    [{local, I#item.mfa} || I <- Plan] ++
        [{call_count, I#item.mfa} || I <- Plan, I#item.kind =:= entry].
