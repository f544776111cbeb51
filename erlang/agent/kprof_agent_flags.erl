%% kprof_agent_flags - the flags for scheduling and garbage collection.
%%
%% Match specs give them to a process that calls with a token, and take them at
%% its next call without one. Elsewhere nobody sees that they are ours to take: a
%% process that is passed over, or that makes no such call any more, is swept
%% when nothing is armed, or other flags are.
%%
%% That is a walk (kprof_flagger), which is over when every process has let it
%% in.
%%
%% On OTP 25 and 26 a match spec's {trace, _, _} would change flags that somebody
%% else has set on a process of theirs. There it stays out of match specs until
%% a lookout has seen that nobody else traces a process, and as soon as somebody
%% does. From OTP 27 on each session has flags of its own, but where two of them
%% have the one for garbage collection on one process the VM crashes, unless that
%% is fixed in it (kprof_gc_fixed): there the lookout looks for that.
-module(kprof_agent_flags).

-export([flags/2, flags_too/2, flagged/2, sweep/2, sweep_stop/1, sweep_rest/1, lookout/1,
         lookout_stop/1, others_seen/4, tiers_first/1]).

-include("kprof_agent.hrl").

-define(LOOKOUT_MS, 1000).      % between two looks, at least,
-define(LOOKOUT_SHARE, 50).     % and so many times as long as one took

%% Which of them are wanted from now on; the plan's match specs set them.
-spec flags([atom()], #s{}) -> #s{}.
flags(Flags, #s{flags = Old} = S) ->
    S1 = sweep(Old -- Flags, S#s{flags = Flags}),
    case needs_lookout(S1) of
        true -> S1;
        false -> lookout_stop(S1)
    end.

needs_lookout(#s{session = legacy, flags = Flags}) -> Flags =/= [];
needs_lookout(#s{flags = Flags}) -> lists:member(garbage_collection, Flags) andalso not kprof_gc_fixed:gc_shared().

%% In a change those of before and those to come.
-spec flags_too(map(), #s{}) -> #s{}.
flags_too(Limits, #s{flags = Old} = S) ->
    More = maps:get(flags, Limits, []) -- Old,
    S1 = S#s{flags = Old ++ More},
    case S1#s.state of
        armed -> lookout(S1);
        _ -> S1
    end.

%% As it may be armed now; false is that of a function that was too hot.
flagged(Spec, #s{alone = Alone}) when Alone =:= true; Spec =:= false ->
    Spec;
flagged(Spec, S) ->
    [{Head, Guards, lists:flatmap(fun(A) -> action(A, S) end, Body)}
     || {Head, Guards, Body} <- Spec].

action({'orelse', {'andalso', HasToken, IsOurs, {'orelse', On, true}}, Off}, S) ->
    [{'orelse', {'andalso', HasToken, IsOurs, {'orelse', On1, true}}, Off1} || On1 <- action(On, S), Off1 <- action(Off, S)];
action({trace, _, _}, #s{session = legacy}) ->
    [];
action({trace, Off, On}, _) ->
    [{trace, Off -- [garbage_collection], On -- [garbage_collection]}];
action(Action, _) ->
    [Action].

%% ---------------------------------------------------------------- sweep ----

-spec sweep([atom()], #s{}) -> #s{}.
sweep([], S) ->
    S;
sweep(Flags, #s{session = Session} = S0) ->
    S = sweep_stop(S0),
    All = case S0#s.broom of
              none -> Flags;
              {_, Before} -> lists:usort(Flags ++ Before)
          end,
    S#s{broom = {kprof_flagger:flags_start(Session, kprof_agent_patterns:tracer(S), [{false, All}], existing), All}}.

-spec sweep_stop(#s{}) -> #s{}.
sweep_stop(#s{broom = none} = S) ->
    S;
sweep_stop(#s{broom = {Walk, _}} = S) ->
    kprof_flagger:walk_stop(Walk),
    S#s{broom = none}.

%% What is wanted now is not taken any more.
-spec sweep_rest(#s{}) -> #s{}.
sweep_rest(#s{broom = {_, Flags}} = S) ->
    sweep(Flags -- S#s.flags, sweep_stop(S));
sweep_rest(S) ->
    S.

%% -------------------------------------------------------------- lookout ----

-spec lookout(#s{}) -> #s{}.
lookout(#s{lookout = none} = S) ->
    case needs_lookout(S) of
        true ->
            Agent = self(),
            Legacy = S#s.session =:= legacy,
            Tracer = kprof_agent_patterns:tracer(S),
            Lookout = spawn(fun() ->
                                    kprof_injected:process_label(kprof_agent, lookout),
                                    Ref = erlang:monitor(process, Agent),
                                    lookout(Ref, Agent, Legacy, Tracer)
                            end),
            S#s{alone = unknown, lookout = Lookout};
        false ->
            S
    end;
lookout(S) ->
    S.

lookout(Ref, Agent, Legacy, Tracer) ->
    T0 = kprof_injected:now_ms(),
    {N, Others} = others(Legacy, Tracer),
    Agent ! {others, self(), N, Others},
    receive {'DOWN', Ref, process, _, _} -> ok
    after max(?LOOKOUT_MS, ?LOOKOUT_SHARE * (kprof_injected:now_ms() - T0)) ->
            lookout(Ref, Agent, Legacy, Tracer)
    end.

%% Those that let us ask them.
others(true, Tracer) ->
    kprof_flagger:walk_found(fun(P) ->
                                     case erlang:trace_info(P, tracer) of
                                         {tracer, T} when T =/= [], T =/= Tracer -> {found, {P, T}};
                                         _ -> skip
                                     end
                             end);
others(false, _) ->
    kprof_collected:collected_by_others(kprofd).

-spec lookout_stop(#s{}) -> #s{}.
lookout_stop(#s{lookout = none} = S) ->
    S#s{alone = true};
lookout_stop(#s{lookout = Lookout} = S) ->
    exit(Lookout, kill),
    S#s{lookout = none, alone = true}.

%% What the lookout saw.
-spec others_seen(pid(), non_neg_integer(), [term()], #s{}) -> #s{}.
others_seen(Lookout, N, Others, #s{lookout = Lookout, alone = Was} = S)
  when (N =:= 0) =/= Was ->
    Now = S#s{alone = N =:= 0},
    S#s.state =:= armed andalso kprof_agent_arming:set_patterns(tiers_first(Now), Now),
    case Others of
        [] -> Now;
        _ -> tell_others(N, Others, sweep(endangered(Now), Now))
    end;
others_seen(_, _, _, S) ->
    S.

endangered(#s{session = legacy, flags = Flags}) -> Flags;
endangered(_) -> [garbage_collection].

tiers_first(S) ->
    {Entries, Tiers} = kprof_agent_arming:by_kind([I || I <- S#s.plan, not I#item.gone]),
    Tiers ++ Entries.

tell_others(N, Others, S) ->
    Some = [{kprof_injected:name(P), kprof_injected:name(T)} || {P, T} <- lists:sublist(Others, ?NEIGHBOURS)],
    kprof_agent_events:notice({kprof_notice, others, Some, N}, S).
