%% kprof_agent_process_flags - the trace flags that all processes have.
%%
%% A walk over the processes (kprof_flagger) sets them once. They stay while tracing is off,
%% and new processes inherit the setting. There is another walk only where other flags are
%% needed, or somebody has taken ours.
%%
%%   flags_set(S) -> {ok | {error, Why}, S}         sets what is missing, and waits for it
%%   flags_ensure(S)     sets what is missing and does not wait; flags_await(S) does
%%   flags_trim(S)       takes what the plan does not need any more; does not wait
%%   flags_lost(S)       forgets what was set, and sets it again; does not wait
%%   flags_drop(S)       takes all of them; does not wait
-module(kprof_agent_process_flags).

-export([flags_set/1, flags_ensure/1, flags_trim/1, flags_lost/1, flags_drop/1,
         walk_progress/3, walk_down/3, flags_await/1, flags_end/1]).

-import(kprof_agent_arming, [breathe/1]).
-import(kprof_agent_events, [notice/2]).
-import(kprof_flagger, [flags_clear/3, flags_start/4, walk_stop/1]).
-import(kprof_injected, [now_ms/0, pair_names/1]).

-include("kprof_agent.hrl").

-define(FLAGS_MS, 20000).       % time limit for setting flags, on a busy node
-define(FLAGS_LOOK_MS, 5).      % between two looks at the daemon's messages meanwhile

-spec flags_set(#s{}) -> {ok | {error, term()}, #s{}}.
flags_set(S) ->
    flags_await(flags_ensure(S)).

-spec flags_ensure(#s{}) -> #s{}.
flags_ensure(#s{process_flags = #process_flags{set = Set}} = S) ->
    case trace_flags(S) -- Set of
        [] -> S;
        _ -> flags_begin(S)
    end.

-spec flags_trim(#s{}) -> #s{}.
flags_trim(#s{process_flags = #process_flags{set = Set}} = S) ->
    case Set -- trace_flags(S) of
        [] -> S;
        _ -> flags_begin(S)
    end.

-spec flags_lost(#s{}) -> #s{}.
flags_lost(#s{process_flags = #process_flags{set = []}} = S) -> S;
flags_lost(#s{process_flags = P} = S) ->
    flags_begin(S#s{process_flags = P#process_flags{set = []}}).

-spec flags_drop(#s{}) -> #s{}.
flags_drop(S0) ->
    #s{session = Session, process_flags = P} = S = walk_end(S0),
    Walk = flags_start(Session, kprof_agent_patterns:tracer(S), [{false, [all]}], all),
    S#s{process_flags = P#process_flags{walk = {Walk, walking}, set = []}}.

%% The sentry is told before anything is set.
flags_begin(#s{session = Session, process_flags = #process_flags{set = Set} = P} = S0) ->
    Wanted = trace_flags(S0),
    S = walk_end(S0#s{process_flags = P#process_flags{set = Wanted}}),
    kprof_agent_sentry:own([], S),
    Drop = Set -- Wanted,
    Changes = [{true, Wanted} | [{false, Drop} || Drop =/= []]],
    Walk = flags_start(Session, kprof_agent_patterns:tracer(S), Changes, all),
    S#s{process_flags = (S#s.process_flags)#process_flags{walk = {Walk, walking}}}.

walk_end(#s{process_flags = #process_flags{walk = none}} = S) ->
    S;
walk_end(#s{process_flags = #process_flags{walk = {Walk, _}} = P} = S) ->
    walk_stop(Walk),
    S#s{process_flags = P#process_flags{walk = none}}.

%% A message of a walk, as in kprof_flagger.
-spec walk_progress(pid(), tuple(), #s{}) -> #s{}.
walk_progress(Pid, What, #s{process_flags = #process_flags{walk = {{Pid, _} = Walk, _}} = P} = S) ->
    case What of
        {walked, Left, N, Found} ->
            S1 = S#s{process_flags = P#process_flags{walk = {Walk, walked}}},
            report_untraced(Left, report_neighbours(N, Found, S1));
        {left, Left} ->
            report_untraced(Left, S)
    end;
walk_progress(_, _, S) ->
    S.

-spec walk_down(pid(), term(), #s{}) -> #s{}.
walk_down(Pid, Reason, #s{process_flags = #process_flags{walk = {{Pid, _}, _}} = P} = S0) ->
    S = S0#s{process_flags = P#process_flags{walk = none}},
    case Reason of
        done -> S;
        _ -> flags_lost(S)      % somebody has killed the walk
    end;
walk_down(Pid, _, #s{sched_gc = #sched_gc{sweep = {{Pid, _}, _}} = G} = S) ->
    S#s{sched_gc = G#sched_gc{sweep = none}};
walk_down(_, _, S) ->
    S.

%% Processes in native code get their flags later. The daemon is notified when there are
%% some, and when there are none any more; it need not know of flags that are being taken.
report_untraced(_, #s{process_flags = #process_flags{set = []} = P} = S) ->
    S#s{process_flags = P#process_flags{untraced = 0}};
report_untraced(Left, #s{process_flags = #process_flags{untraced = Was} = P} = S0) ->
    S = S0#s{process_flags = P#process_flags{untraced = Left}},
    case (Left =:= 0) =:= (Was =:= 0) of
        true -> S;
        false -> notice({kprof_notice, untraced, [], Left}, S)
    end.

%% On OTP 25 and 26 a process has one tracer, and the VM refuses to change flags of processes
%% that somebody else traces.
report_neighbours(N, [_ | _] = Traced, #s{process_flags = #process_flags{set = [_ | _]}} = S) ->
    Some = pair_names(lists:sublist(Traced, ?NEIGHBOURS)),
    notice({kprof_notice, neighbours, Some, N}, S);
report_neighbours(_, _, S) ->
    S.

%% Waits until every process that lets us has its flags, so that no request is half traced.
%% The daemon gets its answers meanwhile, and messages that end the agent are obeyed.
-spec flags_await(#s{}) -> {ok | {error, term()}, #s{}}.
flags_await(S) ->
    flags_await(now_ms() + ?FLAGS_MS, S).

flags_await(Until, #s{process_flags = #process_flags{walk = {{Pid, Ref}, walking}},
                      lease = #lease{daemon = Daemon, monitor = Monitor}} = S) ->
    receive
        {walk, Pid, What} ->
            flags_await(Until, walk_progress(Pid, What, S));
        {'DOWN', Ref, process, Pid, Reason} ->
            flags_await(Until, walk_down(Pid, Reason, S));
        {'DOWN', Monitor, process, _, Reason} ->
            kprof_agent_server:finish({daemon_gone, Reason}, S);
        {kprof, Daemon, _, stop} ->
            kprof_agent_server:finish(stopped_by_daemon, S);
        {kprof_agent, stop, From, Asked} ->
            From ! {Asked, ok},
            kprof_agent_server:finish(stopped_by_operator, S);
        {kprof_agent, status, From, Asked} ->
            From ! {Asked, kprof_agent_status:summary(S)},
            flags_await(Until, S)
    after ?FLAGS_LOOK_MS ->
            case now_ms() > Until of
                true -> {{error, {flags_not_set, ?FLAGS_MS}}, S};
                false -> flags_await(Until, kprof_agent_server:lease(breathe(S)))
            end
    end;
flags_await(_, S) ->
    {ok, S}.

%% The native probe reads the clock itself. Functions traced 'exactly' (with a fallback) need
%% no return_to, since the VM reports the end of their calls.
trace_flags(#s{probe = relay}) ->
    [call, arity, return_to, monotonic_timestamp];
trace_flags(#s{plan = Plan}) ->
    IsExact = fun(#item{fallback = Fallback}) -> Fallback =/= [] end,
    [call, arity | [return_to || not lists:all(IsExact, Plan)]].

%% Takes flags one by one even where a session goes as a whole, because that would visit all
%% processes at once. Patterns and counters are gone by now.
-spec flags_end(#s{}) -> #s{}.
flags_end(S0) ->
    #s{session = Session, process_flags = P} = S = walk_end(S0),
    kprof_agent_sentry:alive(S),
    _ = P#process_flags.set =:= [] orelse
        flags_clear(Session, kprof_agent_patterns:tracer(S), ?CLEAR_MS),
    Session =:= legacy orelse trace:session_destroy(Session),
    element(1, S#s.sentry) ! {own, [{meta, MFA} || MFA <- S#s.code#code.watched]},
    S#s{process_flags = P#process_flags{set = []}}.
