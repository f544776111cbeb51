%% Somebody else at work in the target, who knows nothing of kprofd or means it
%% harm: tracers, patterns, sessions, tokens, processes. Whatever they do, the
%% target stays well (it_health), their tracing is as they left it and at work
%% (it_audit), nothing of theirs comes to kprofd, and what kprofd does not see
%% meanwhile it counts.
%%
%% A case is a function of the target, kprofd, and a marker, which it puts into
%% every argument and value that is not kprofd's business. KPROFD_HOSTILE=whole
%% (make hostile) has more of each: it_health:many/2.
-module(adversary_tests).

-export([tests/0]).
%% In the target.
-export([work/2, worker/1]).

tests() ->
    [{"a tracer of somebody's beside ours", 60, fun(T) -> attack(T, #{}, fun beside/3) end},
     {"sessions come and go beside ours", 60, fun(T) -> attack(T, #{}, fun sessions/3) end}].

%% --------------------------------------------------------------- frame ----

%% tiers   text of a tiers.conf, or the sample application's
%% theirs  false: the case is about all tracing there is, and takes somebody else's too
%% grows   MiB that the target may have more meanwhile, where that is not max_memory_mb + 32
attack(T, Opts, Case) ->
    {Target, Mark} = begins(T, Opts),
    P = it:kprofd(T, Target, maps:with([tiers, args], Opts)),
    it:armed(P),
    Marker = it_health:marker(),
    Health = it_health:begins(Target),
    Result = Case(Target, P, Marker),
    Text = case Opts of
               #{grows := MiB} -> it_health:ends(Target, Health, MiB);
               _ -> it_health:ends(Target, Health)
           end,
    it_health:keeps_out(P, Marker),
    it:terminate(P),
    ends(Target, Mark),
    it_audit:database(P),
    case Result of
        {skipped, _} -> Result;
        _ -> {note, Text}
    end.

begins(T, #{theirs := false}) ->
    Target = it:target(T),
    {Target, {snapshot, it:settled(Target)}};
begins(T, _) ->
    it_audit:begins(T).

ends(Target, {snapshot, Snapshot}) -> it:audit(Target, Snapshot);
ends(Target, Mark) -> it_audit:ends(Target, Mark).

%% Requests are made in the target, and seen.
sees(Target, P) ->
    Then = it:said(P, "([0-9]+) assembled"),
    20 = it:call(Target, it_driver, handle, [20]),
    it:until("requests are seen", fun() -> it:said(P, "([0-9]+) assembled") >= Then + 20 end).

%% ------------------------------------------------------- in the target ----

%% What somebody traces: called with an argument, which it also returns.
work(Argument, _) ->
    Argument.

worker(Argument) ->
    receive
        {work, N, From} -> rounds(N, Argument), From ! {self(), worked}, worker(Argument);
        stop -> ok
    end.

rounds(0, _) -> ok;
rounds(N, Argument) ->
    ?MODULE:work(Argument, N),
    rounds(N - 1, Argument).

worked(Worker, N) ->
    Worker ! {work, N, self()},
    receive {Worker, worked} -> ok end.

%% Events of Worker's rounds, as its tracer was sent them.
seen_by(Tracer, Worker, N) ->
    worked(Worker, N),
    Ref = erlang:trace_delivered(Worker),
    receive {trace_delivered, _, Ref} -> ok end,
    Tracer ! {how_many, self()},
    receive {traces, Seen} -> Seen end.

%% --------------------------------------------------------------- cases ----

%% With arguments and values, on a process that is theirs.
beside(Target, P, Marker) ->
    Rounds = it_health:many(100, 10000),
    Seen = it:do(Target,
                 fun() ->
                         Tracer = spawn(fun() -> it_audit:count_traces(0) end),
                         Worker = spawn(?MODULE, worker, [Marker]),
                         %% On OTP 25 and 26 it began as one of ours.
                         _ = erlang:trace(Worker, false, [all]),
                         1 = erlang:trace(Worker, true, [call, {tracer, Tracer}]),
                         1 = erlang:trace_pattern({?MODULE, work, 2}, [{'_', [], [{return_trace}]}], [local]),
                         N = seen_by(Tracer, Worker, Rounds),
                         erlang:trace_pattern({?MODULE, work, 2}, false, [local]),
                         [exit(Pid, kill) || Pid <- [Worker, Tracer]],
                         N
                 end),
    it:equal("what the other tracer saw", 2 * Rounds, Seen),
    sees(Target, P).

%% Made with patterns of everything in a module, and gone with their handles.
sessions(Target, P, Marker) ->
    case it:otp(Target) >= 27 of
        true ->
            it:do(Target, fun() -> [session(Marker) || _ <- lists:seq(1, it_health:many(5, 100))], ok end),
            sees(Target, P);
        false ->
            {skipped, "trace sessions came with OTP 27"}
    end.

session(Marker) ->
    Tracer = spawn(fun() -> it_audit:count_traces(0) end),
    Worker = spawn(?MODULE, worker, [Marker]),
    S = trace:session_create(somebody, Tracer, []),
    1 = trace:process(S, Worker, true, [call]),
    true = trace:function(S, {?MODULE, '_', '_'}, [{'_', [], [{return_trace}]}], [local]) > 0,
    worked(Worker, 10),
    trace:session_destroy(S),
    [exit(Pid, kill) || Pid <- [Worker, Tracer]].
