%% kprof_flags.hrl - the flags for scheduling and garbage collection.
%%
%% Match specs give them to a process that calls with a token, and take them at
%% its next call without one. Elsewhere nobody sees that they are ours to take: a
%% process that is passed over, or that makes no such call any more, is swept
%% when nothing is armed, or other flags are.
%%
%% To ask for or change the flags of a process that runs waits until it is
%% scheduled out, with the scheduler of who asks: a NIF's length, at worst. So a
%% scout asks each process for its status, which it answers by itself, and only
%% of those that wait the broom takes flags; of the others it does in the end.
%%
%% On OTP 25 and 26 a match spec's {trace, _, _} would change flags that somebody
%% else has set on a process of theirs. There it stays out of match specs until
%% a lookout has seen that nobody else traces a process, and as soon as somebody
%% does. From OTP 27 on each session has flags of its own, but where two of them
%% have the one for garbage collection on one process the VM crashes: there the
%% lookout looks for that.

-define(SWEEPS, 20).            % of processes that always run
-define(SWEEP_MS, 250).         % between two of them
-define(LOOKOUT_MS, 1000).      % between two looks, at least,
-define(LOOKOUT_SHARE, 50).     % and so many times as long as one took

%% Which of them are wanted from now on; the plan's match specs set them.
flags(Flags, #s{flags = Old} = S) ->
    S1 = sweep(Old -- Flags, S#s{flags = Flags}),
    case needs_lookout(S1) of
        true -> S1;
        false -> lookout_stop(S1)
    end.

needs_lookout(#s{session = legacy, flags = Flags}) -> Flags =/= [];
needs_lookout(#s{flags = Flags}) -> lists:member(garbage_collection, Flags).

%% In a change those of before and those to come.
flags_too(Limits, #s{flags = Old} = S) ->
    More = maps:get(flags, Limits, []) -- Old,
    S1 = S#s{flags = Old ++ More},
    case S1#s.state of
        armed -> lookout(S1);
        _ -> S1
    end.

%% As it may be armed now.
flagged(Spec, #s{alone = true}) ->
    Spec;
flagged(Spec, S) when is_list(Spec) ->
    [{Head, Guards, lists:flatmap(fun(A) -> action(A, S) end, Body)}
     || {Head, Guards, Body} <- Spec].

action({trace, _, _}, #s{session = legacy}) ->
    [];
action({trace, Off, On}, _) ->
    [{trace, Off -- [garbage_collection], On -- [garbage_collection]}];
action(Action, _) ->
    [Action].

%% ---------------------------------------------------------------- sweep ----

sweep([], S) ->
    S;
sweep(Flags, #s{session = Session} = S0) ->
    S = sweep_stop(S0),
    Agent = self(),
    Tracer = tracer(S),
    All = case S0#s.broom of
              none -> Flags;
              {_, Before} -> lists:usort(Flags ++ Before)
          end,
    Broom = spawn(fun() ->
                          Ref = erlang:monitor(process, Agent),
                          Self = self(),
                          spawn(fun() -> scout(Self) end),
                          broom(Ref, Agent, Session, Tracer, All)
                  end),
    S#s{broom = {Broom, All}}.

sweep_stop(#s{broom = none} = S) ->
    S;
sweep_stop(#s{broom = {Broom, _}} = S) ->
    exit(Broom, kill),
    S#s{broom = none}.

%% What is wanted now is not taken any more.
sweep_rest(#s{broom = {_, Flags}} = S) ->
    sweep(Flags -- S#s.flags, sweep_stop(S));
sweep_rest(S) ->
    S.

%% Has the session's handle, and so must not outlive the agent.
broom(Ref, Agent, Session, Tracer, Flags) ->
    receive
        {'DOWN', Ref, process, _, _} ->
            ok;
        {take, P} ->
            _ = catch take_flags(Session, Tracer, P, Flags),
            broom(Ref, Agent, Session, Tracer, Flags);
        done ->
            Agent ! {swept, self()}
    end.

take_flags(legacy, Tracer, P, Flags) ->
    {tracer, Tracer} = erlang:trace_info(P, tracer),
    {flags, Has} = erlang:trace_info(P, flags),
    Has -- Flags =:= Has orelse
        erlang:trace(P, false, [tracer_flag(Tracer) | Flags]);
take_flags(Session, _, P, Flags) ->
    {flags, Has} = trace:info(Session, P, flags),
    Has -- Flags =:= Has orelse trace:process(Session, P, false, Flags).

tracer_flag({Module, State}) -> {tracer, Module, State};
tracer_flag(Pid) -> {tracer, Pid}.

scout(Broom) ->
    Ref = erlang:monitor(process, Broom),
    scout(?SWEEPS, processes(), Broom, Ref),
    Broom ! done.

scout(_, [], _, _) ->
    ok;
scout(0, Running, Broom, _) ->
    [Broom ! {take, P} || P <- Running];
scout(Left, Ps, Broom, Ref) ->
    Running = [P || P <- Ps, P =/= self(), P =/= Broom, runs(P, Broom)],
    Running =:= [] orelse
        receive {'DOWN', Ref, process, _, _} -> exit(normal)
        after ?SWEEP_MS -> ok
        end,
    scout(Left - 1, Running, Broom, Ref).

runs(P, Broom) ->
    case process_info(P, status) of
        {status, waiting} ->
            Broom ! {take, P},
            false;
        {status, _} ->
            true;
        undefined ->
            false
    end.

%% -------------------------------------------------------------- lookout ----

lookout(#s{lookout = none} = S) ->
    case needs_lookout(S) of
        true ->
            Agent = self(),
            Legacy = S#s.session =:= legacy,
            Tracer = tracer(S),
            Lookout = spawn(fun() ->
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
    T0 = now_ms(),
    Agent ! {others, self(), others(Legacy, Tracer)},
    receive {'DOWN', Ref, process, _, _} -> ok
    after max(?LOOKOUT_MS, ?LOOKOUT_SHARE * (now_ms() - T0)) ->
            lookout(Ref, Agent, Legacy, Tracer)
    end.

%% They answer for their status themselves, which no NIF is in then.
others(true, Tracer) ->
    [{P, T} || P <- processes(), process_info(P, status) =/= undefined,
               {tracer, T} <- [erlang:trace_info(P, tracer)],
               T =/= [], T =/= Tracer];
others(false, _) ->
    collected_by_others(kprofd).

lookout_stop(#s{lookout = none} = S) ->
    S#s{alone = true};
lookout_stop(#s{lookout = Lookout} = S) ->
    exit(Lookout, kill),
    S#s{lookout = none, alone = true}.

%% What the lookout saw.
others_seen(Lookout, Others, #s{lookout = Lookout, alone = Was} = S)
  when (Others =:= []) =/= Was ->
    Now = S#s{alone = Others =:= []},
    S#s.state =:= armed andalso set_patterns(tiers_first(Now), Now),
    case Others of
        [] -> Now;
        _ -> tell_others(Others, sweep(endangered(Now), Now))
    end;
others_seen(_, _, S) ->
    S.

endangered(#s{session = legacy, flags = Flags}) -> Flags;
endangered(_) -> [garbage_collection].

tiers_first(S) ->
    {Entries, Tiers} = by_kind([I || I <- S#s.plan, not I#item.gone]),
    Tiers ++ Entries.

tell_others(Others, S) ->
    Some = [{name(P), name(T)} || {P, T} <- lists:sublist(Others, ?NEIGHBOURS)],
    notice({kprof_notice, others, Some, length(Others)}, S).
