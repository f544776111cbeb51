%% kprof_agent_process_flags - the trace flags of processes.
%%
%% Set once, by a walk (kprof_flagger), and remembered: they stay while nothing
%% is armed, and processes that are spawned have them. Only where other flags are
%% wanted, or somebody has taken ours, there is another walk.
%%
%%   processes_trace(S) -> {ok | {error, Why}, S}   all have them: waits for it
%%   flags_ensure(S)     sees to it, and does not wait; flags_await(S) does
%%   flags_trim(S)       takes what is not wanted any more; does not wait
%%   flags_lost(S)       forgets what was set, and sets it again; does not wait
%%   flags_drop(S)       takes all of them; does not wait
-module(kprof_agent_process_flags).

-export([processes_trace/1, flags_ensure/1, flags_trim/1, flags_lost/1, flags_drop/1, walk_told/3,
         walk_ended/3, flags_await/1, flags_end/1]).

-include("kprof_agent.hrl").

-define(FLAGS_MS, 20000).       % for flags to be set, on a node that is busy
-define(FLAGS_LOOK_MS, 5).      % between two looks at the daemon meanwhile

-spec processes_trace(#s{}) -> {ok | {error, term()}, #s{}}.
processes_trace(S) ->
    flags_await(flags_ensure(S)).

-spec flags_ensure(#s{}) -> #s{}.
flags_ensure(#s{flagged = Has} = S) ->
    case trace_flags(S) -- Has of
        [] -> S;
        _ -> flags_begin(S)
    end.

-spec flags_trim(#s{}) -> #s{}.
flags_trim(#s{flagged = Has} = S) ->
    case Has -- trace_flags(S) of
        [] -> S;
        _ -> flags_begin(S)
    end.

-spec flags_lost(#s{}) -> #s{}.
flags_lost(#s{flagged = []} = S) -> S;
flags_lost(S) -> flags_begin(S#s{flagged = []}).

-spec flags_drop(#s{}) -> #s{}.
flags_drop(S) ->
    S1 = flags_stop(S),
    Walk = kprof_flagger:flags_start(S#s.session, kprof_agent_patterns:tracer(S), [{false, [all]}], all),
    S1#s{walk = {Walk, walking}, flagged = []}.

%% The sentry knows before anything is set.
flags_begin(#s{session = Session, flagged = Has} = S) ->
    Wanted = trace_flags(S),
    S1 = flags_stop(S#s{flagged = Wanted}),
    kprof_agent_sentry:own([], S1),
    Drop = Has -- Wanted,
    Walk = kprof_flagger:flags_start(Session, kprof_agent_patterns:tracer(S), [{true, Wanted} | [{false, Drop} || Drop =/= []]], all),
    S1#s{walk = {Walk, walking}}.

flags_stop(#s{walk = none} = S) ->
    S;
flags_stop(#s{walk = {Walk, _}} = S) ->
    kprof_flagger:walk_stop(Walk),
    S#s{walk = none}.

%% What a walk says: see kprof_flagger.
-spec walk_told(pid(), tuple(), #s{}) -> #s{}.
walk_told(Pid, What, #s{walk = {{Pid, _} = Walk, _}} = S) ->
    case What of
        {walked, Left, N, Found} ->
            tell_untraced(Left, tell_neighbours(N, Found, S#s{walk = {Walk, walked}}));
        {left, Left} ->
            tell_untraced(Left, S)
    end;
walk_told(_, _, S) ->
    S.

-spec walk_ended(pid(), term(), #s{}) -> #s{}.
walk_ended(Pid, Reason, #s{walk = {{Pid, _}, _}} = S) ->
    case Reason of
        done -> S#s{walk = none};
        _ -> flags_lost(S#s{walk = none})       % somebody has killed it
    end;
walk_ended(Pid, _, #s{broom = {{Pid, _}, _}} = S) ->
    S#s{broom = none};
walk_ended(_, _, S) ->
    S.

%% Processes that are in native code, and are waited for: told when there are some,
%% and when there are none any more. Of flags that are taken nobody need know.
tell_untraced(_, #s{flagged = []} = S) ->
    S#s{untraced = 0};
tell_untraced(Left, #s{untraced = Was} = S) when (Left =:= 0) =:= (Was =:= 0) ->
    S#s{untraced = Left};
tell_untraced(Left, S) ->
    kprof_agent_events:notice({kprof_notice, untraced, [], Left}, S#s{untraced = Left}).

%% On OTP 25 and 26 a process has one tracer; the VM refuses to change flags of
%% those that are somebody else's.
tell_neighbours(N, [_ | _] = Traced, #s{flagged = [_ | _]} = S) ->
    Some = [{kprof_injected:name(P), kprof_injected:name(T)} || {P, T} <- lists:sublist(Traced, ?NEIGHBOURS)],
    kprof_agent_events:notice({kprof_notice, neighbours, Some, N}, S);
tell_neighbours(_, _, S) ->
    S.

%% Until every process that lets us has its flags: no request is seen by half. The
%% daemon has its answers meanwhile, and whoever may end it is heard.
-spec flags_await(#s{}) -> {ok | {error, term()}, #s{}}.
flags_await(S) ->
    flags_await(kprof_injected:now_ms() + ?FLAGS_MS, S).

flags_await(Until, #s{walk = {{Pid, Ref}, walking}, daemon = Daemon} = S) ->
    receive
        {walk, Pid, What} ->
            flags_await(Until, walk_told(Pid, What, S));
        {'DOWN', Ref, process, Pid, Reason} ->
            flags_await(Until, walk_ended(Pid, Reason, S));
        {'DOWN', Gone, process, _, Reason} when Gone =:= S#s.daemon_ref ->
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
            case kprof_injected:now_ms() > Until of
                true -> {{error, {flags_not_set, ?FLAGS_MS}}, S};
                false -> flags_await(Until, kprof_agent_server:lease(kprof_agent_arming:breathe(S)))
            end
    end;
flags_await(_, S) ->
    {ok, S}.

%% The native probe looks at the clock itself, and is told of the end of calls
%% traced 'exactly', which have a fallback, without return_to.
trace_flags(#s{probe = relay}) ->
    [call, arity, return_to, monotonic_timestamp];
trace_flags(#s{plan = Plan}) ->
    [call, arity | [return_to || lists:any(fun(#item{fallback = F}) ->
                                                   F =:= []
                                           end, Plan)]].

%% Taken one by one even where a session goes as a whole, since that would
%% visit them all at once. Patterns and counters have gone before.
-spec flags_end(#s{}) -> #s{}.
flags_end(S0) ->
    S = flags_stop(S0),
    _ = S#s.flagged =:= [] orelse kprof_flagger:flags_clear(S#s.session, kprof_agent_patterns:tracer(S), ?CLEAR_MS),
    S#s.session =:= legacy orelse trace:session_destroy(S#s.session),
    element(1, S#s.sentry) ! {own, [{meta, MFA} || MFA <- S#s.watching]},
    S#s{flagged = []}.
