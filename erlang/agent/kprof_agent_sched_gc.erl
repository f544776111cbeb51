%% kprof_agent_sched_gc - the flags for scheduling and garbage collection.
%%
%% Match specs give them to a process that calls with a token, and take them at its next
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
-module(kprof_agent_sched_gc).

-export([use_flags/2, add_flags/2, with_flags/2, sweep/2, sweep_stop/1, sweep_less/1,
         monitor_start/1, monitor_stop/1, tracers_seen/4, tiers_first/1]).

-import(kprof_agent_arming, [by_kind/1, set_patterns/2]).
-import(kprof_agent_events, [notice/2]).
-import(kprof_collected, [collected_by_others/1]).
-import(kprof_flagger, [flags_start/4, walk_found/1, walk_stop/1]).
-import(kprof_injected, [now_ms/0, pair_names/1, spawn_labelled/3]).
-import(kprof_vm_bugs, [gc_shared/0]).

-include("kprof_agent.hrl").

-define(MONITOR_MS, 1000).      % least time between two looks for other tracers, and
-define(MONITOR_SHARE, 50).     % least time as a multiple of what the last look took

%% Sets which flags the plan's match specs give from now on.
-spec use_flags([atom()], #s{}) -> #s{}.
use_flags(Flags, #s{sched_gc = #sched_gc{flags = Old} = G} = S0) ->
    S = sweep(Old -- Flags, S0#s{sched_gc = G#sched_gc{flags = Flags}}),
    case needs_monitor(S) of
        true -> S;
        false -> monitor_stop(S)
    end.

needs_monitor(#s{session = legacy, sched_gc = #sched_gc{flags = Flags}}) ->
    Flags =/= [];
needs_monitor(#s{sched_gc = #sched_gc{flags = Flags}}) ->
    lists:member(garbage_collection, Flags) andalso not gc_shared().

%% During a change both the old and the new flags are in use.
-spec add_flags(map(), #s{}) -> #s{}.
add_flags(Limits, #s{sched_gc = #sched_gc{flags = Old} = G} = S0) ->
    S = S0#s{sched_gc = G#sched_gc{flags = Old ++ (maps:get(flags, Limits, []) -- Old)}},
    case S#s.state of
        armed -> monitor_start(S);
        _ -> S
    end.

%% The match spec as it may be armed now. false stands for a function that is disarmed,
%% because it is called too often.
-spec with_flags([tuple()] | false, #s{}) -> [tuple()] | false.
with_flags(Spec, #s{sched_gc = #sched_gc{alone = Alone}}) when Alone =:= true; Spec =:= false ->
    Spec;
with_flags(Spec, #s{session = Session}) ->
    [{Head, Guards, lists:flatmap(fun(A) -> action(A, Session) end, Body)}
     || {Head, Guards, Body} <- Spec].

action({'orelse', {'andalso', HasToken, IsOurs, {'orelse', On, true}}, Off}, Session) ->
    [{'orelse', {'andalso', HasToken, IsOurs, {'orelse', On1, true}}, Off1}
     || On1 <- action(On, Session), Off1 <- action(Off, Session)];
action({trace, _, _}, legacy) ->
    [];
action({trace, Off, On}, _) ->
    [{trace, Off -- [garbage_collection], On -- [garbage_collection]}];
action(Action, _) ->
    [Action].

%% ---------------------------------------------------------------- sweep ----

%% Takes these flags from all processes, together with those of a sweep under way.
-spec sweep([atom()], #s{}) -> #s{}.
sweep([], S) ->
    S;
sweep(Flags, #s{session = Session, sched_gc = #sched_gc{sweep = Was}} = S0) ->
    #s{sched_gc = G} = S = sweep_stop(S0),
    All = case Was of
              none -> Flags;
              {_, Before} -> lists:usort(Flags ++ Before)
          end,
    Walk = flags_start(Session, kprof_agent_patterns:tracer(S), [{false, All}], existing),
    S#s{sched_gc = G#sched_gc{sweep = {Walk, All}}}.

-spec sweep_stop(#s{}) -> #s{}.
sweep_stop(#s{sched_gc = #sched_gc{sweep = none}} = S) ->
    S;
sweep_stop(#s{sched_gc = #sched_gc{sweep = {Walk, _}} = G} = S) ->
    walk_stop(Walk),
    S#s{sched_gc = G#sched_gc{sweep = none}}.

%% Goes on sweeping, without the flags that are wanted again.
-spec sweep_less(#s{}) -> #s{}.
sweep_less(#s{sched_gc = #sched_gc{sweep = {_, Sweeping}, flags = Wanted}} = S) ->
    sweep(Sweeping -- Wanted, sweep_stop(S));
sweep_less(S) ->
    S.

%% ------------------------------------------ the monitor of other tracers ----

-spec monitor_start(#s{}) -> #s{}.
monitor_start(#s{sched_gc = #sched_gc{monitor = none} = G} = S) ->
    case needs_monitor(S) of
        true ->
            Agent = self(),
            IsLegacy = S#s.session =:= legacy,
            Tracer = kprof_agent_patterns:tracer(S),
            Pid = spawn_labelled(
                    kprof_agent, monitor_tracers,
                    fun() ->
                            Ref = erlang:monitor(process, Agent),
                            monitor_tracers(Ref, Agent, IsLegacy, Tracer)
                    end),
            S#s{sched_gc = G#sched_gc{alone = unknown, monitor = Pid}};
        false ->
            S
    end;
monitor_start(S) ->
    S.

monitor_tracers(Ref, Agent, IsLegacy, Tracer) ->
    T0 = now_ms(),
    {N, Others} = other_tracers(IsLegacy, Tracer),
    Agent ! {others, self(), N, Others},
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
    collected_by_others(kprofd).

-spec monitor_stop(#s{}) -> #s{}.
monitor_stop(#s{sched_gc = #sched_gc{monitor = none} = G} = S) ->
    S#s{sched_gc = G#sched_gc{alone = true}};
monitor_stop(#s{sched_gc = #sched_gc{monitor = Pid} = G} = S) ->
    exit(Pid, kill),
    S#s{sched_gc = G#sched_gc{monitor = none, alone = true}}.

%% The monitor's message: the match specs follow what it has seen.
-spec tracers_seen(pid(), non_neg_integer(), [term()], #s{}) -> #s{}.
tracers_seen(Pid, N, Others, #s{sched_gc = #sched_gc{monitor = Pid, alone = Was} = G} = S0)
  when (N =:= 0) =/= Was ->
    S = S0#s{sched_gc = G#sched_gc{alone = N =:= 0}},
    S#s.state =:= armed andalso set_patterns(tiers_first(S), S),
    case Others of
        [] -> S;
        _ ->
            Some = pair_names(lists:sublist(Others, ?NEIGHBOURS)),
            notice({kprof_notice, others, Some, N}, sweep(endangered(S), S))
    end;
tracers_seen(_, _, _, S) ->
    S.

%% Flags that others may have on the same processes.
endangered(#s{session = legacy, sched_gc = #sched_gc{flags = Flags}}) -> Flags;
endangered(_) -> [garbage_collection].

-spec tiers_first(#s{}) -> [#item{}].
tiers_first(#s{plan = Plan}) ->
    {Entries, Tiers} = by_kind([I || I <- Plan, not I#item.gone]),
    Tiers ++ Entries.
