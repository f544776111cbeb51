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
-export([work/2, make/2, worker/1, rounds/2, served/0, our_sessions/0, session_destroyed/1, callers/1, callers_of/1, keep/2]).

-define(WORK, {?MODULE, work, 2}).
-define(ARGUMENTS, [{'_', [], [{message, '$_'}]}]).
-define(LIKE_OURS, [{['$1', '_'], [], [{message, {{'$1', '$1', '$1'}}}]}]).
-define(VALUES, [{'_', [], [{message, false}, {exception_trace}]}]).

tests() ->
    [{"large values of somebody's pattern, by who does nothing else", 60, alone,
      fun(T) -> flood(T, work, ?VALUES, #{}) end},
     {"large arguments of somebody's pattern, by who does nothing else", 60, alone,
      fun(T) -> flood(T, work, ?ARGUMENTS, #{}) end},
     {"a tracer of somebody's beside ours", 60, fun(T) -> attack(T, #{}, fun beside/3) end},
     {"what the agent does is not in somebody's trace", 60, fun(T) -> attack(T, #{}, fun unseen/3) end},
     {"sessions come and go beside ours", 60, fun(T) -> attack(T, #{}, fun sessions/3) end},
     {"arguments of somebody's pattern, in processes that are ours", 60, fun(T) -> attack(T, #{tiers => impatient()}, fun arguments/3) end},
     {"values of somebody's pattern, in processes that are ours", 60, fun(T) -> attack(T, #{tiers => impatient()}, fun values/3) end},
     {"somebody's pattern goes on while we rest", 90, fun(T) -> attack(T, #{}, fun while_paused/3) end},
     {"large values of somebody's pattern", 60, alone, fun(T) -> flood(T, make, ?VALUES, #{}) end},
     {"a pattern on every function, left by somebody", 90, fun every/1},
     {"recon_trace:clear()", 60, fun recon/1},
     {"dbg:stop()", 60, fun(T) -> takes(T, fun dbg_stop/0, "trace patterns of functions .7.") end},
     {"dbg:p(all, clear)", 60, fun(T) -> takes(T, fun dbg_clear/0, "setting for new processes") end},
     {"dbg:p(all, c), and its end", 60, fun(T) -> attack(T, #{theirs => false}, fun dbg_all/3) end},
     {"trace(all, false, [all])", 60, fun(T) -> takes(T, fun all_flags/0, "flags of processes, the setting for new") end},
     {"trace_pattern('_', false, [local])", 60, fun(T) -> takes(T, fun all_patterns/0, "trace patterns of functions .7.") end},
     {"trace_pattern('_', false, [call_count])", 60, fun(T) -> takes(T, fun all_counters/0, "counters of entries .1.") end},
     {"a watch in the place of ours", 60, fun(T) -> attack(T, #{theirs => false}, fun watched/3) end},
     {"a pattern in the place of ours", 60, fun(T) -> takes(T, fun replaced/0, "trace patterns of functions .1.") end},
     {"taken again and again", 90, fun(T) -> attack(T, #{theirs => false, tiers => impatient()}, fun again/3) end},
     {"our session destroyed", 90, fun(T) -> attack(T, #{theirs => false}, fun(Target, P, _) -> destroyed(Target, P, 1) end) end},
     {"our other session destroyed", 90, fun(T) -> attack(T, #{theirs => false}, fun(Target, P, _) -> destroyed(Target, P, 2) end) end}].

%% --------------------------------------------------------------- frame ----

%% tiers   text of a tiers.conf, or the sample application's
%% theirs  false: the case is about all tracing there is, and takes somebody else's too
attack(T, Opts, Case) ->
    {Target, Mark} = begins(T, Opts),
    P = it:kprofd(T, Target, maps:with([tiers, args], Opts)),
    it:armed(P),
    Marker = it_health:marker(),
    Health = it_health:begins(Target),
    Result = Case(Target, P, Marker),
    Text = it_health:ends(Target, Health),
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

%% Requests are made in the target, and seen; after an overload one in four.
sees(Target, P) ->
    Then = it:said(P, "([0-9]+) assembled"),
    it:until("requests are seen",
             fun() ->
                     20 = it:call(Target, it_driver, handle, [20]),
                     it:said(P, "([0-9]+) assembled") >= Then + 20
             end).

%% ------------------------------------------------------- in the target ----

%% What somebody traces: called with an argument, which it also returns.
work(Argument, forever) ->
    _ = ?MODULE:work(Argument, once),
    ?MODULE:work(Argument, forever);
work(Argument, _) ->
    Argument.

%% Its value is made each time.
make(Large, forever) ->
    _ = ?MODULE:make(Large, once),
    ?MODULE:make(Large, forever);
make(Large, once) ->
    lists:reverse(lists:reverse(lists:map(fun(X) -> X end, Large))).

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

%% Nobody is asked which process is whose: on OTP 25 and 26 they have one tracer,
%% us. A pattern that copies is met before it takes effect. Another's events come, and
%% are dropped.
arguments(Target, P, Marker) ->
    Rounds = it_health:many(100, 10000),
    %% And of a function that is ours as well.
    Ours = {formatter, format_response, 1},
    [begin
         it:do(Target, fun() ->
                               1 = erlang:trace_pattern(?WORK, Spec, [local]),
                               in_worker(Marker, fun(Worker) -> worked(Worker, Rounds) end)
                       end),
         it:do(Target, fun() -> erlang:trace_pattern(?WORK, false, [local]) end),
         it:until("armed", fun() -> it:agent_state(Target) =:= armed end)
     end || Spec <- [?ARGUMENTS, ?LIKE_OURS]],
    receive after 500 -> ok end,        % what is sent has come
    it_health:keeps_out(P, Marker),
    met(Target, P),
    it:otp(Target) >= 27 orelse it:is_native() orelse
        it:equal("events of others", 0, it:do(Target, fun foreign/0)),
    it:do(Target, fun() ->
                          1 = erlang:trace_pattern(?WORK, [], [local]),
                          in_worker(Marker, fun(Worker) -> worked(Worker, Rounds) end)
                  end),
    told_of(Target, P, "another tool traces .*adversary_tests.*work.* call events"),
    sees(Target, P),
    it:do(Target, fun() ->
                          1 = erlang:trace_pattern(Ours, ?LIKE_OURS, [local]),
                          spawn_monitor(fun() -> catch formatter:format_response({Marker, lists:duplicate(10, Marker)}) end),
                          receive {'DOWN', _, _, _, _} -> erlang:trace_pattern(?WORK, false, [local]) end
                  end),
    it_health:keeps_out(P, Marker),
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    end_of(Ours, Target).

%% Tracing was paused before the pattern took effect.
met(Target, P) ->
    it:otp(Target) >= 27 orelse it:is_native() orelse
        it_health:told_of(P, trip, "another tool has a trace pattern on .*work.* that copies").

%% With sessions it is somebody's own, and stays.
end_of(Ours, Target) ->
    it:otp(Target) < 27 orelse it:call(Target, erlang, trace_pattern, [Ours, false, [local]]),
    ok.

%% While its function is called often, nothing is traced; once it is called seldom it is, though the
%% pattern stands. Then a worker that waits between its rounds loses our flags; others do not.
values(Target, P, Marker) ->
    Rounds = it_health:many(20, 500),
    Busy = it:do(Target, fun() ->
                                 1 = erlang:trace_pattern(?WORK, ?VALUES, [local]),
                                 spawn(fun() -> often(Marker) end)
                         end),
    met(Target, P),
    receive after 3000 -> ok end,       % three pauses
    it:otp(Target) >= 27 orelse it:is_native() orelse
        it:check(it:agent_state(Target) =/= armed, "armed while the pattern's function is called often"),
    it:do(Target, fun() -> exit(Busy, kill) end),
    it:until("armed", 120000, fun() -> it:agent_state(Target) =:= armed end),
    Foreign = it:do(Target,
                    fun() ->
                            N = in_worker(Marker, fun(Worker) ->
                                                          [begin worked(Worker, 5), receive after 5 -> ok end end
                                                           || _ <- lists:seq(1, Rounds)],
                                                          quiet(Worker)
                                                  end),
                            erlang:trace_pattern(?WORK, false, [local]),
                            N
                    end),
    told_of(Target, P, "another tool traces .*work.* (return|exception)_from events .* not traced until the next resume"),
    it:equal("state", armed, it:agent_state(Target)),
    sees(Target, P),
    {ok, _} = it:control(P, "pause"),
    it:until("paused", fun() -> it:agent_state(Target) =:= paused end),
    {ok, _} = it:control(P, "resume"),
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    sees(Target, P),
    Foreign.

often(Marker) ->
    rounds(10, Marker),
    receive after 5 -> often(Marker) end.

%% Whatever it does now, the agent is not told.
quiet(Worker) ->
    case foreign() of
        none -> ok;
        _ ->
            worked(Worker, 10),
            Before = settled_foreign(foreign()),
            worked(Worker, 10),
            Before = settled_foreign(foreign())
    end.

settled_foreign(N) ->
    receive after 200 -> ok end,
    case foreign() of
        N -> N;
        More -> settled_foreign(More)
    end.

%% Events of others that the agent was sent; none: it can be sent none.
foreign() ->
    case kprof_agent:status() of
        #{probe := native} -> none;
        not_attached -> receive after 5 -> foreign() end;       % the heir is on its way
        #{} = Status ->
            case erlang:function_exported(trace, session_create, 3) of
                true -> none;
                false -> maps:get(events_foreign, Status, 0)
            end
    end.

in_worker(Marker, Fun) ->
    Worker = spawn(?MODULE, worker, [Marker]),
    Result = Fun(Worker),
    exit(Worker, kill),
    Result.

told_of(Target, P, Pattern) ->
    it:otp(Target) >= 27 orelse it:is_native() orelse it_health:told_of(P, foreign, Pattern).

%% Nothing is armed, and events come all the same.
while_paused(Target, P, Marker) ->
    {ok, _} = it:control(P, "pause"),
    it:until("paused", fun() -> it:agent_state(Target) =:= paused end),
    it:do(Target, fun() ->
                          1 = erlang:trace_pattern(?WORK, ?ARGUMENTS, [local]),
                          in_worker(Marker, fun(Worker) ->
                                                    worked(Worker, 10),
                                                    receive after 50 -> ok end,
                                                    quiet(Worker)
                                            end),
                          %% And some that never wait.
                          Busy = [spawn(?MODULE, rounds, [1000000000, Marker]) || _ <- lists:seq(1, 4)],
                          Is = fun(P1) -> erlang:trace_info(P1, tracer) =:= {tracer, []} end,
                          [wait_until(fun() -> foreign() =:= none orelse Is(B) end) || B <- Busy],
                          erlang:trace_pattern(?WORK, false, [local]),
                          [exit(B, kill) || B <- Busy],
                          ok
                  end),
    it:equal("state", false, armed =:= it:agent_state(Target)),
    {ok, _} = it:control(P, "resume"),
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    sees(Target, P).

wait_until(Fun) ->
    Fun() orelse begin receive after 5 -> ok end, wait_until(Fun) end.

impatient() ->
    {ok, Text} = file:read_file(it:tiers()),
    [Text, "{overload, [{max_age_ms, 60000}, {max_lag_ms, 60000}, {pause_s, 1}]}.\n"].

flood(T, Function, Spec, Opts) ->
    attack(T, Opts#{tiers => impatient()}, fun(Target, P, Marker) -> flood(Target, P, Marker, Function, Spec) end).

%% A process that calls and does nothing else copies 8 GB/s until its time slice
%% ends, of 4000 calls: what it copies before the agent runs even once nobody can
%% bound. So the agent has to give way before it begins.
flood(Target, P, Marker, Function, Spec) ->
    it:do(Target, fun() ->
                          Large = [Marker | lists:duplicate(20000, x)],
                          Busy = [spawn(?MODULE, Function, [Large, forever]) || _ <- lists:seq(1, 4)],
                          receive after 100 -> ok end,
                          1 = erlang:trace_pattern({?MODULE, Function, 2}, Spec, [local]),
                          receive after 500 -> ok end,
                          erlang:trace_pattern({?MODULE, Function, 2}, false, [local]),
                          [exit(B, kill) || B <- Busy],
                          ok
                  end),
    it:otp(Target) >= 27 orelse it:is_native() orelse
        it:saw(P, "^kprofd: .* another tool (traces|has a trace pattern on) .*adversary_tests"),
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    sees(Target, P).

%% As eflambe leaves it where it fails: one sentence with the line that clears it, at the start and
%% later, and not one for each function.
every(T) ->
    Target = it:target(T),
    case it:otp(Target) >= 27 of
        true -> {skipped, "legacy tracing alone"};
        false -> every(T, Target, it:settled(Target))
    end.

every(T, Target, Before) ->
    Way = "this clears them, in the node's shell.*: erlang:trace_pattern.{'_','_','_'}, false, .local.., erlang:trace_pattern.on_load, false, .local..",
    it:do(Target, fun trace_all/0),
    {1, Said, _} = it:run_kprofd(T, Target, #{}),
    it:check(re:run(Said, Way) =/= nomatch, "the way out in ~ts", [Said]),
    it:do(Target, fun untrace_all/0),
    P = it:kprofd(T, Target, #{}),
    it:armed(P),
    it:do(Target, fun trace_all/0),
    _ = it:call(Target, it_driver, handle, [20]),
    it:is_native() orelse it_health:told_of(P, foreign, ["every function, .*", Way]),
    receive after 2000 -> ok end,
    it:check(it:number(P, "select count(*) from events where kind = 'foreign'") =< 1, "a notice for each function"),
    it:do(Target, fun untrace_all/0),
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    it:terminate(P),
    it:audit(Target, Before).

trace_all() -> [erlang:trace_pattern(What, [{'_', [], [{message, {{cp, {caller}}}}]}], [local]) || What <- [on_load, {'_', '_', '_'}]], ok.

untrace_all() -> [erlang:trace_pattern(What, false, [local]) || What <- [on_load, {'_', '_', '_'}]], ok.

%% Whoever traced a common function in all processes had the agent's calls of it among the
%% application's, at each tick. Requests are sampled and stacks taken meanwhile.
unseen(Target, P, _) ->
    Traced = [{lists, '_', '_'}, {maps, '_', '_'}, {queue, '_', '_'}, {?MODULE, work, 2}],
    Agent = it:do(Target, fun() -> whereis(kprof_agent) end),
    case it:otp(Target) >= 27 of
        true ->
            Tracer = it:do(Target, fun() ->
                                           Tracer = spawn(?MODULE, callers, [#{}]),
                                           S = trace:session_create(somebody, Tracer, []),
                                           [trace:function(S, F, true, [local]) || F <- Traced],
                                           trace:process(S, all, true, [call]),
                                           spawn(?MODULE, keep, [S, Tracer]),
                                           Tracer
                                   end),
            it:call(Target, ?MODULE, work, [1, 2]),
            sees(Target, P),
            Then = it:call(Target, erlang, monotonic_time, [second]),
            it:until("three seconds have passed", fun() -> it:call(Target, erlang, monotonic_time, [second]) > Then + 3 end),
            Seen = it:call(Target, ?MODULE, callers_of, [Tracer]),
            it:check(lists:append(maps:values(Seen)) =/= [], "nobody's calls are seen"),
            it:equal("calls of the agent", [], maps:get(Agent, Seen, [])),
            it:do(Target, fun() -> exit(Tracer, kill), ok end);
        false ->
            {skipped, "a process has one tracer before OTP 27"}
    end.

callers(Seen) ->
    receive
        {trace, P, call, {M, F, As}} -> callers(maps:update_with(P, fun(L) -> lists:usort([{M, F, length(As)} | L]) end, [{M, F, length(As)}], Seen));
        {seen, To} -> To ! {seen, Seen}, callers(Seen)
    end.

callers_of(Tracer) ->
    Tracer ! {seen, self()},
    receive {seen, Seen} -> Seen end.

%% A session ends with its handle.
keep(Session, Tracer) ->
    Ref = monitor(process, Tracer),
    receive {'DOWN', Ref, _, _, _} -> trace:session_destroy(Session) end.

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

%% ---- what is ours is taken ----

%% Before OTP 27 it is told of, and put back; a session is nobody else's.
takes(T, Take, Says) ->
    attack(T, #{theirs => false}, fun(Target, P, _) -> taken(Target, P, Take, Says) end).

taken(Target, P, Take, Says) ->
    sees(Target, P),
    it:do(Target, Take),
    case it:otp(Target) < 27 of
        true ->
            it_health:told_of(P, taken, ["another tool took or replaced .*", Says]),
            it:equal("told as loads", 0, code_tests:agent(Target, code_changes));
        false -> ok
    end,
    seen_again(Target, P),
    it:otp(Target) < 27 orelse
        it:equal("what was taken", [], it:sql(P, "select text from events where kind in ('taken', 'trip')")),
    %% A session leaves theirs alone.
    it:otp(Target) < 27 orelse it:call(Target, erlang, trace_pattern, [{db, transaction, 1}, false, [local]]).

%% By a process that was there, and by one that comes.
seen_again(Target, P) ->
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    sees(Target, P),
    Then = it:said(P, "([0-9]+) assembled"),
    it:do(Target, fun() ->
                          {_, Ref} = spawn_monitor(fun() -> it_driver:handle(20) end),
                          receive {'DOWN', Ref, _, _, normal} -> ok end
                  end),
    it:until("requests of a new process", fun() -> it:said(P, "([0-9]+) assembled") >= Then + 5 end).

recon(T) ->
    case code:which(recon_trace) of
        non_existing -> {skipped, "there is no recon"};
        _ -> takes(T, fun recon_clear/0, "trace patterns of functions .7., the flags .*, the setting .*, the counters.*, the watch")
    end.

recon_clear() ->
    recon_trace:calls({lists, last, 1}, 10),
    recon_trace:clear(),
    ok.

dbg_stop() ->
    {ok, _} = dbg:tracer(process, {fun(_, N) -> N end, 0}),
    {ok, _} = dbg:tp(lists, last, 1, []),
    {ok, _} = dbg:p(self(), [c]),
    dbg:stop(),
    ok.

dbg_clear() ->
    {ok, _} = dbg:tracer(process, {fun(_, N) -> N end, 0}),
    {ok, _} = dbg:p(all, clear),
    dbg:stop(),
    ok.

%% There is one meta tracer of a function before OTP 27: who takes that has it, and
%% what code is loaded is seen all the same.
watched(Target, P, _) ->
    Loading = {erlang, finish_loading, 1},
    Theirs = it:do(Target, fun() ->
                                   Tracer = spawn(fun() -> it_audit:count_traces(0) end),
                                   1 = erlang:trace_pattern(Loading, [{'_', [], []}], [{meta, Tracer}]),
                                   Tracer
                           end),
    it:otp(Target) >= 27 orelse it_health:told_of(P, taken, "the watch for code"),
    it:equal("who watches", {meta, Theirs}, it:call(Target, erlang, trace_info, [Loading, meta])),
    it:do(Target, fun() -> {module, db} = code:load_file(db), ok end),
    seen_again(Target, P),
    it:equal("who watches then", {meta, Theirs}, it:call(Target, erlang, trace_info, [Loading, meta])),
    it:do(Target, fun() ->
                          erlang:trace_pattern(Loading, false, [meta]),
                          exit(Theirs, kill),
                          ok
                  end).

%% New processes are dbg's as long as it traces: told of once, and it is not taken for
%% a taking each second. What was there before goes on to be ours.
dbg_all(Target, P, _) ->
    Before = it:do(Target, fun() -> spawn(?MODULE, served, []) end),
    sees(Target, P),
    it:do(Target, fun() ->
                          {ok, _} = dbg:tracer(process, {fun(_, N) -> N end, 0}),
                          {ok, _} = dbg:p(all, c),
                          ok
                  end),
    case it:otp(Target) < 27 of
        true ->
            it_health:told_of(P, taken, "another tool traces new processes now, in kprofd's place .at work there: dbg"),
            %% Time for five looks more.
            Then = it:call(Target, erlang, monotonic_time, [second]),
            it:until("five seconds have passed", fun() -> it:call(Target, erlang, monotonic_time, [second]) > Then + 5 end),
            it:equal("told", 1, told_times(P)),
            it:equal("state", armed, it:agent_state(Target)),
            Seen = it:said(P, "([0-9]+) assembled"),
            it:do(Target, fun() -> Before ! 20, ok end),
            it:until("requests of an old process", fun() -> it:said(P, "([0-9]+) assembled") >= Seen + 20 end),
            it:do(Target, fun() -> dbg:stop() end),
            it_health:told_of(P, taken, "the trace patterns of functions .7., the setting for new processes");
        false ->
            it:do(Target, fun() -> dbg:stop() end)
    end,
    seen_again(Target, P),
    it:do(Target, fun() -> exit(Before, kill), ok end).

served() ->
    receive N -> it_driver:handle(N), served() end.

all_flags() ->
    erlang:trace(all, false, [all]),
    ok.

all_patterns() ->
    erlang:trace_pattern({'_', '_', '_'}, false, [local]),
    ok.

all_counters() ->
    erlang:trace_pattern({'_', '_', '_'}, false, [call_count]),
    ok.

replaced() ->
    1 = erlang:trace_pattern({db, transaction, 1}, [{'_', [], []}], [local]),
    ok.

again(Target, P, _) ->
    [begin
         it:do(Target, fun all_flags/0),
         it:otp(Target) >= 27 orelse it:until("it is seen", fun() -> told_times(P) >= N end),
         it:otp(Target) >= 27 orelse it:until("armed", fun() -> it:agent_state(Target) =:= armed end)
     end || N <- [1, 2]],
    it:do(Target, fun all_flags/0),
    it:otp(Target) >= 27 orelse it_health:told_of(P, trip, "another tool took .*flags.* three times in a minute"),
    it:otp(Target) >= 27 orelse it:saw(P, "tracing was paused for"),
    sees(Target, P).

told_times(P) ->
    it:number(P, "select count(*) from events where kind = 'taken'").

%% Through the reference that anybody gets: it leaves with a reason, nobody's
%% supervisor hears of a crash, and comes again.
destroyed(Target, P, Nth) ->
    Ours = fun() -> it:otp(Target) >= 27 andalso it:call(Target, ?MODULE, our_sessions, []) end,
    case Ours() of
        false ->
            {skipped, "trace sessions came with OTP 27"};
        Sessions when length(Sessions) < Nth ->
            {skipped, "there is one with the relay"};
        _ ->
            sees(Target, P),
            true = it:call(Target, ?MODULE, session_destroyed, [Nth]),
            it:saw(P, "its trace session was destroyed by another tool.*trying again"),
            it:until("armed again", fun() -> it:times_armed(P) >= 2 end),
            sees(Target, P),
            Said = [it:output(Target), it:errors(Target)],
            it:check(re:run(Said, "kprofd detached: .* destroyed by somebody else") =/= nomatch, "why it left in ~ts", [Said]),
            it:check(re:run(Said, "Error in process|died|crash|badarg") =:= nomatch, "a crash in ~ts", [Said])
    end.

our_sessions() ->
    [S || {kprofd, _} = S <- trace:session_info(all)].

session_destroyed(Nth) ->
    trace:session_destroy(lists:nth(Nth, our_sessions())).
