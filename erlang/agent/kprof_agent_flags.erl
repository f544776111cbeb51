%% kprof_agent_flags - the trace flags of processes: first those for scheduling and garbage
%% collection, then those that all processes have.
%%
%% Match specs give the first to a process that calls with a token, and take them at its next
%% call without one. A process that makes no such call any more keeps them: when tracing is
%% switched off, or other flags are wanted, a sweep takes them away. That is a walk
%% (kprof_flagger), which ends when every process has let it in.
%%
%% On OTP 25 and 26 a match spec's {trace, _, _} would change flags that somebody else has
%% set on a process of theirs. So there match specs have no such action until a monitor
%% process has seen that nobody else traces a process, and lose it as soon as somebody does.
%% From OTP 27 on each session has flags of its own. But where two sessions trace garbage
%% collection of one process the VM crashes, unless that is fixed in it (kprof_vm_bugs):
%% there the monitor looks for such a session.
-module(kprof_agent_flags).

-export([use_flags/2, add_flags/2, with_flags/2, sweep/2, sweep_stop/1, sweep_less/1,
         monitor_start/1, monitor_stop/1, tiers_first/1, flags_set/1, flags_ensure/1, flags_trim/1,
         flags_lost/1, flags_drop/1, flags_lent/1,
         walk_progress/3, walk_down/3, flags_await/1, flags_end/1,
         flags_handle/2]).

-import(kprof_agent_arming, [breathe/1, by_kind/1, set_patterns/2, tracer/1]).
-import(kprof_agent_events, [notice/2]).
-import(kprof_agent_sentry, [alive/1, tell_sentry/2]).
-import(kprof_agent_server, [asked/4, finish/2, lease/1]).
-import(kprof_flagger, [flags_clear/3, flags_start/4, walk_found/1, walk_stop/1]).
-import(kprof_injected, [now_ms/0, pair_names/1, spawn_labelled/3]).
-import(kprof_vm_bugs, [collected_by_others/1, gc_shared/0]).

-include("kprof_agent.hrl").

-define(MONITOR_MS, 1000).      % least time between two looks for other tracers, and
-define(MONITOR_SHARE, 50).     % least time as a multiple of what the last look took

-define(WALK_NS, 800).          % to set or take the flags of a process
-define(FLAGS_MS, 20000).       % time limit for setting flags, on a busy node
-define(FLAGS_LOOK_MS, 5).      % between two looks at the daemon's messages meanwhile

%% Sets which flags the plan's match specs give from now on.
-spec use_flags([atom()], #state{}) -> #state{}.
use_flags(Flags, #state{sched_gc = #sched_gc{flags = Old} = G} = S0) ->
    S = sweep(Old -- Flags, S0#state{sched_gc = G#sched_gc{flags = Flags}}),
    case needs_monitor(S) of
        true -> S;
        false -> monitor_stop(S)
    end.

needs_monitor(#state{session = legacy, sched_gc = #sched_gc{flags = Flags}}) ->
    Flags =/= [];
needs_monitor(#state{sched_gc = #sched_gc{flags = Flags}}) ->
    lists:member(garbage_collection, Flags) andalso not gc_shared().

%% During a change both the old and the new flags are in use.
-spec add_flags(map(), #state{}) -> #state{}.
add_flags(Limits, #state{sched_gc = #sched_gc{flags = Old} = G} = S0) ->
    S = S0#state{sched_gc = G#sched_gc{flags = Old ++ (maps:get(flags, Limits, []) -- Old)}},
    case S#state.state of
        armed -> monitor_start(S);
        _ -> S
    end.

%% The match spec as it may be armed now. false stands for a function that is disarmed,
%% because it is called too often.
-spec with_flags([tuple()] | false, #state{}) -> [tuple()] | false.
with_flags(Spec, #state{sched_gc = #sched_gc{alone = Alone}}) when Alone =:= true; Spec =:= false ->
    Spec;
with_flags(Spec, #state{session = Session}) ->
    [{Head, Guards, lists:flatmap(fun(A) -> action(A, Session) end, Body)}
     || {Head, Guards, Body} <- Spec].

action({'orelse', {'andalso', HasToken, IsOurs, {'orelse', On, true}}, Off}, Session) ->
    [{'orelse', {'andalso', HasToken, IsOurs, {'orelse', On1, true}}, Off1}
     || On1 <- action(On, Session), Off1 <- action(Off, Session)];
action({trace, _, _}, legacy) -> [];
action({trace, Off, On}, _) ->
    [{trace, Off -- [garbage_collection], On -- [garbage_collection]}];
action(Action, _) -> [Action].

%% ---------------------------------------------------------------- sweep ----

%% Takes these flags from all processes, together with those of a sweep under way.
-spec sweep([atom()], #state{}) -> #state{}.
sweep([], S) -> S;
sweep(Flags, #state{session = Session, sched_gc = #sched_gc{sweep = Was}} = S0) ->
    #state{sched_gc = G} = S = sweep_stop(S0),
    All = case Was of
              none -> Flags;
              {_, Before} -> lists:usort(Flags ++ Before)
          end,
    Walk = flags_start(Session, tracer(S), [{false, All}], existing),
    S#state{sched_gc = G#sched_gc{sweep = {Walk, All}}}.

sweep_stop(#state{sched_gc = #sched_gc{sweep = none}} = S) -> S;
sweep_stop(#state{sched_gc = #sched_gc{sweep = {Walk, _}} = G} = S) ->
    walk_stop(Walk),
    S#state{sched_gc = G#sched_gc{sweep = none}}.

%% Goes on sweeping, without the flags that are wanted again.
sweep_less(#state{sched_gc = #sched_gc{sweep = {_, Sweeping}, flags = Wanted}} = S) ->
    sweep(Sweeping -- Wanted, sweep_stop(S));
sweep_less(S) -> S.

%% ------------------------------------------ the monitor of other tracers ----

monitor_start(#state{sched_gc = #sched_gc{monitor = none} = G} = S) ->
    case needs_monitor(S) of
        true ->
            Agent = self(),
            IsLegacy = S#state.session =:= legacy,
            Tracer = tracer(S),
            Pid = spawn_labelled(
                    kprof_agent, monitor_tracers,
                    fun() ->
                            Ref = erlang:monitor(process, Agent),
                            monitor_tracers(Ref, Agent, IsLegacy, Tracer)
                    end),
            S#state{sched_gc = G#sched_gc{alone = unknown, monitor = Pid}};
        false -> S
    end;
monitor_start(S) -> S.

monitor_tracers(Ref, Agent, IsLegacy, Tracer) ->
    T0 = now_ms(),
    {N, Others} = other_tracers(IsLegacy, Tracer),
    Agent ! {flags, {others, self(), N, Others}},
    Pause = max(?MONITOR_MS, ?MONITOR_SHARE * (now_ms() - T0)),
    receive {'DOWN', Ref, process, _, _} -> ok
    after Pause -> monitor_tracers(Ref, Agent, IsLegacy, Tracer)
    end.

%% Asks those processes that let us.
other_tracers(true, Tracer) ->
    walk_found(fun(P) ->
                       case erlang:trace_info(P, tracer) of
                           {tracer, T} when T =/= [], T =/= Tracer -> {found, {P, T}};
                           _ -> skip
                       end
               end);
other_tracers(false, _) ->
    case whereis(kprof_tracer) of
        undefined -> collected_by_others(kprofd);
        %% Its match specs give the flag to processes at any time.
        Pid -> {1, [{Pid, kprof_tracer}]}
    end.

monitor_stop(#state{sched_gc = #sched_gc{monitor = none} = G} = S) ->
    S#state{sched_gc = G#sched_gc{alone = true}};
monitor_stop(#state{sched_gc = #sched_gc{monitor = Pid} = G} = S) ->
    exit(Pid, kill),
    S#state{sched_gc = G#sched_gc{monitor = none, alone = true}}.

%% The monitor's message: the match specs follow what it has seen.
-spec flags_handle(tuple(), #state{}) -> #state{}.
flags_handle({others, Pid, N, Others},
             #state{sched_gc = #sched_gc{monitor = Pid, alone = Was} = G} = S0)
  when (N =:= 0) =/= Was ->
    S = S0#state{sched_gc = G#sched_gc{alone = N =:= 0}},
    S#state.state =:= armed andalso set_patterns(tiers_first(S), S),
    case Others of
        [] -> S;
        _ ->
            Some = pair_names(lists:sublist(Others, ?NEIGHBOURS)),
            notice({kprof_notice, others, Some, N}, sweep(endangered(S), S))
    end;
flags_handle(_, S) -> S.

%% Flags that others may have on the same processes.
endangered(#state{session = legacy, sched_gc = #sched_gc{flags = Flags}}) -> Flags;
endangered(_) -> [garbage_collection].

-spec tiers_first(#state{}) -> [#item{}].
tiers_first(#state{plan = Plan}) ->
    {Entries, Tiers} = by_kind([I || I <- Plan, not I#item.gone]),
    Tiers ++ Entries.

%% ---------------------------------------------------- flags of all processes ----

%% A walk over the processes (kprof_flagger) sets them once. They stay while tracing is off,
%% and new processes inherit the setting. There is another walk only where other flags are
%% needed, or somebody has taken ours.
%%
%%   flags_set(S) -> {ok | {error, Why}, S}         sets what is missing, and waits for it
%%   flags_ensure(S)     sets what is missing and does not wait; flags_await(S) does
%%   flags_trim(S)       takes what the plan does not need any more; does not wait
%%   flags_lost(S)       forgets what was set, and sets it again; does not wait
%%   flags_drop(S)       takes all of them; does not wait
%%   flags_lent(S)       does a kprof count by them? It may ask for them (legacy)

-spec flags_set(#state{}) -> {ok | {error, term()}, #state{}}.
flags_set(S) ->
    flags_await(flags_ensure(S)).

flags_ensure(#state{process_flags = #process_flags{set = Set}} = S) ->
    case trace_flags(S) -- Set of
        [] -> S;
        _ -> flags_begin(S)
    end.

flags_trim(#state{process_flags = #process_flags{set = Set}} = S) ->
    case Set -- trace_flags(S) of
        [] -> S;
        _ -> flags_begin(S)
    end.

flags_lost(#state{process_flags = #process_flags{set = []}} = S) -> S;
flags_lost(#state{process_flags = P} = S) ->
    flags_begin(S#state{process_flags = P#process_flags{set = []}}).

flags_drop(S0) ->
    #state{session = Session, process_flags = P} = S = walk_charge(walk_end(S0)),
    Walk = flags_start(Session, tracer(S), [{false, [all]}], all),
    S#state{process_flags = P#process_flags{walk = {Walk, walking}, set = []}}.

-spec flags_lent(#state{}) -> boolean().
flags_lent(#state{session = legacy}) -> is_pid(whereis(kprof_counters));
flags_lent(_) -> false.

%% The sentry is told before anything is set.
flags_begin(#state{session = Session, process_flags = #process_flags{set = Set} = P} = S0) ->
    Wanted = trace_flags(S0),
    S = walk_charge(walk_end(S0#state{process_flags = P#process_flags{set = Wanted}})),
    tell_sentry([], S),
    Drop = Set -- Wanted,
    Changes = [{true, Wanted} | [{false, Drop} || Drop =/= []]],
    Walk = flags_start(Session, tracer(S), Changes, all),
    S#state{process_flags = (S#state.process_flags)#process_flags{walk = {Walk, walking}}}.

%% Other processes walk: 0.4 to 0.8 us for each process.
walk_charge(#state{events = #events{busy_ns = Ns} = E} = S) ->
    S#state{events = E#events{busy_ns = Ns + ?WALK_NS * erlang:system_info(process_count)}}.

walk_end(#state{process_flags = #process_flags{walk = none}} = S) -> S;
walk_end(#state{process_flags = #process_flags{walk = {Walk, _}} = P} = S) ->
    walk_stop(Walk),
    S#state{process_flags = P#process_flags{walk = none}}.

%% A message of a walk, as in kprof_flagger.
-spec walk_progress(pid(), tuple(), #state{}) -> #state{}.
walk_progress(Pid, What,
              #state{process_flags = #process_flags{walk = {{Pid, _} = Walk, _}} = P} = S) ->
    case What of
        {walked, Left, N, Found} ->
            S1 = S#state{process_flags = P#process_flags{walk = {Walk, walked}}},
            report_untraced(Left, report_neighbours(N, Found, S1));
        {left, Left} -> report_untraced(Left, S)
    end;
walk_progress(_, _, S) -> S.

-spec walk_down(pid(), term(), #state{}) -> #state{}.
walk_down(Pid, Reason, #state{process_flags = #process_flags{walk = {{Pid, _}, _}} = P} = S0) ->
    S = S0#state{process_flags = P#process_flags{walk = none}},
    case Reason of
        done -> S;
        _ -> flags_lost(S)      % somebody has killed the walk
    end;
walk_down(Pid, _, #state{sched_gc = #sched_gc{sweep = {{Pid, _}, _}} = G} = S) ->
    S#state{sched_gc = G#sched_gc{sweep = none}};
walk_down(_, _, S) -> S.

%% Processes in native code get their flags later. The daemon is notified when there are
%% some, and when there are none any more; it need not know of flags that are being taken.
report_untraced(_, #state{process_flags = #process_flags{set = []}} = S) -> S;
report_untraced(Left, #state{process_flags = #process_flags{untraced = Was} = P} = S0) ->
    S = S0#state{process_flags = P#process_flags{untraced = Left}},
    case (Left =:= 0) =:= (Was =:= 0) of
        true -> S;
        false -> notice({kprof_notice, untraced, [], Left}, S)
    end.

%% On OTP 25 and 26 a process has one tracer, and the VM refuses to change flags of processes
%% that somebody else traces.
report_neighbours(N, [_ | _] = Traced,
                  #state{process_flags = #process_flags{set = [_ | _], others = Was} = P} = S)
  when N =/= Was ->
    Some = pair_names(lists:sublist(Traced, ?NEIGHBOURS)),
    notice({kprof_notice, neighbours, Some, N},
           S#state{process_flags = P#process_flags{others = N}});
report_neighbours(0, _, #state{process_flags = #process_flags{set = [_ | _]} = P} = S) ->
    S#state{process_flags = P#process_flags{others = 0}};
report_neighbours(_, _, S) -> S.

%% Waits until every process that lets us has its flags, so that no request is half traced.
%% The daemon gets its answers meanwhile, and messages that end the agent are obeyed.
-spec flags_await(#state{}) -> {ok | {error, term()}, #state{}}.
flags_await(S) ->
    flags_await(now_ms() + ?FLAGS_MS, S).

flags_await(Until, #state{process_flags = #process_flags{walk = {{Pid, Ref}, walking}},
                          lease = #lease{daemon = Daemon, monitor = Monitor}} = S) ->
    receive
        {walk, Pid, What} -> flags_await(Until, walk_progress(Pid, What, S));
        {'DOWN', Ref, process, Pid, Reason} ->
            flags_await(Until, walk_down(Pid, Reason, S));
        {'DOWN', Monitor, process, _, Reason} ->
            finish({daemon_gone, Reason}, S);
        {kprof, Daemon, _, stop} -> finish(stopped_by_daemon, S);
        {kprof_agent, What, From, Asked} ->
            flags_await(Until, asked(What, From, Asked, S))
    after ?FLAGS_LOOK_MS ->
            case now_ms() > Until of
                true -> {{error, {flags_not_set, ?FLAGS_MS}}, S};
                false -> flags_await(Until, lease(breathe(S)))
            end
    end;
flags_await(_, S) -> {ok, S}.

%% The native probe reads the clock itself. Functions traced 'exactly' (with a fallback) need
%% no return_to, since the VM reports the end of their calls.
trace_flags(#state{probe = relay}) -> [call, arity, return_to, monotonic_timestamp];
trace_flags(#state{plan = Plan}) ->
    IsExact = fun(#item{fallback = Fallback}) -> Fallback =/= [] end,
    [call, arity | [return_to || not lists:all(IsExact, Plan)]].

%% Takes flags one by one even where a session goes as a whole, because that would visit all
%% processes at once. Patterns and counters are gone by now.
flags_end(S0) ->
    #state{session = Session, process_flags = P} = S = walk_end(S0),
    alive(S),
    Under = S0#state.process_flags#process_flags.walk =/= none,
    _ = P#process_flags.set =:= [] andalso not Under orelse
        flags_clear(Session, tracer(S), ?CLEAR_MS),
    Session =:= legacy orelse trace:session_destroy(Session),
    element(1, S#state.sentry) ! {own, [{meta, MFA} || MFA <- S#state.code#code.watched]},
    S#state{process_flags = P#process_flags{set = []}}.
