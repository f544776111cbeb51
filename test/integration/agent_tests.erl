%% The agent by itself: what commands kprofd at the moment that matters, or lets it
%% wait meanwhile, is a process of the target. So it is met in the midst of things.
-module(agent_tests).

-export([tests/0]).
%% In the target.
-export([request/1, one/1, two/1, exact/1, theirs/1]).
-export([too_hot/0, large/0, dropped/0, flooded/0, idle/0, heir_stuck/0, stuck/0, slow/0, spin/0, late/0, amid/1, asked/0, destroyed/1, crowd/0]).

-define(OURS, [request, one, two, exact]).
-define(THEIRS, {?MODULE, theirs, 1}).
-define(NOISE, 200000).

tests() ->
    [{"a function that was too hot, and somebody traces", 60, fun(T) -> run(T, too_hot, []) end},
     {"a function that is too hot, in a large plan", 60, fun(T) -> run(T, large, []) end},
     {"exact returns, dropped", 60, fun(T) -> run(T, dropped, []) end},
     {"a flood of messages that nobody waits for", 60, fun(T) -> run(T, flooded, []) end},
     {"a flood of messages, and no event", 60, fun(T) -> run(T, idle, []) end},
     {"its heir does nothing any more", 60, fun(T) -> run(T, heir_stuck, []) end},
     {"it does nothing any more", 60, fun(T) -> run(T, stuck, [], #{lease_ms => 1000}) end},
     {"it is at work for longer than two leases", 60, fun(T) -> run(T, slow, [], #{lease_ms => 500}) end},
     {"it was held up, and its lease waits behind a tick", 60, fun(T) -> run(T, late, [], #{lease_ms => 1000}) end},
     {"it gives way amid a pause", 60, fun(T) -> run(T, amid, [pause]) end},
     {"it gives way amid a change", 60, fun(T) -> run(T, amid, [change]) end},
     {"stop() while it gives way", 60, fun(T) -> run(T, asked, []) end},
     {"its session is destroyed before an arming", 60, fun(T) -> run(T, destroyed, [arm]) end},
     {"its session is destroyed before its end", 60, fun(T) -> run(T, destroyed, [stop]) end},
     {"a crowd that somebody else traces", 60, fun(T) -> run(T, crowd, []) end}].

%% Whatever happens, it is as if it had not been there.
run(T, Case, Args) -> run(T, Case, Args, #{}).

run(T, Case, Args, Opts) ->
    Target = it:target(T, #{kind => plain}),
    {ok, Beam} = file:read_file(filename:join([it:build(T), "gen", "kprof_agent.beam"])),
    Before = it:settled(Target),
    Result = it:do(Target, fun() ->
                                   {module, _} = code:load_binary(kprof_agent, "kprof_agent.beam", Beam),
                                   {ok, _, _} = kprof_agent:start(self(), maps:merge(options(), Opts)),
                                   R = apply(?MODULE, Case, Args),
                                   ended(whereis(kprof_agent)),
                                   R
                           end),
    it:audit(Target, Before),
    Result.

%% ------------------------------------------------------- in the target ----

request(X) -> X.
one(X) -> X.
two(X) -> X.
exact(X) -> X.
theirs(X) -> X.

options() ->
    #{protocol => it:protocol(), who => <<"a test">>, lease_ms => 60000, word => 1, max_queue => 100000, max_memory => 64 bsl 20,
      max_age_ms => 60000}.

limits(More) ->
    maps:merge(maps:with([max_queue, max_memory, max_age_ms], options()), More).

command(What) ->
    Ref = send(What),
    receive {kprof_reply, Ref, Answer} -> Answer after 10000 -> timeout end.

send(What) ->
    Ref = make_ref(),
    whereis(kprof_agent) ! {kprof, self(), Ref, What},
    Ref.

ended(undefined) -> ok;
ended(Agent) ->
    Ref = erlang:monitor(process, Agent),
    Agent ! {kprof, self(), make_ref(), stop},
    receive {'DOWN', Ref, process, Agent, normal} -> ok end.

entry() ->
    {{?MODULE, request, 1}, entry, [{'_', [], [{message, {{[], {caller}, 1, true, true, [], []}}}]}], []}.

tier(F, Actions) ->
    {{?MODULE, F, 1}, tier, [{'_', [{is_seq_trace}], [{message, {{[], {get_seq_token}, {caller}}}} | Actions]}], []}.

exactly(F) ->
    {{?MODULE, F, 1}, tier, [{'_', [], [{message, {{[], [], {caller}}}}, {exception_trace}]}],
     [{'_', [], [{message, {{[], [], {caller}}}}]}]}.

state() -> maps:get(state, kprof_agent:status()).

%% Before anything is armed: later the agent would give way at once.
they_trace() ->
    1 = erlang:trace_pattern(?THEIRS, [{'_', [], [{return_trace}]}], [local]).

%% Others' events, more than are an accident, wait behind what Before sends to the
%% agent, and before what After does.
foreign(Before, After) ->
    Agent = whereis(kprof_agent),
    erlang:suspend_process(Agent),
    Result = Before(),
    {Pid, Ref} = spawn_monitor(fun() -> [?MODULE:theirs(X) || X <- lists:seq(1, 20000)] end),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end,
    After(),
    erlang:resume_process(Agent),
    Result.

nothing() -> ok.

%% Its heir, if it had to give way; sessions have events of their own only. On a busy machine
%% it takes seconds until the agent has read enough of them.
moved() ->
    receive {kprof_moved, Heir} -> Heir
    after case is_legacy() of true -> 20000; false -> 2000 end ->
            false = is_legacy(),
            none
    end.

is_legacy() -> not erlang:function_exported(trace, session_create, 3).

quiet_again() -> 1 = erlang:trace_pattern(?THEIRS, false, [local]).

too_hot() ->
    ok = command({arm, [tier(one, [{trace, [], [running]}]), entry()], limits(#{flags => [running], hot => 1000})}),
    heat(),
    Agent = whereis(kprof_agent),
    [Tracer, Traced] = [spawn(fun() -> receive stop -> ok end end) || _ <- [1, 2]],
    _ = erlang:trace(Traced, false, [all]),
    1 = erlang:trace(Traced, true, [procs, {tracer, Tracer}]),
    Told = receive {kprof_notice, others, _, _} -> true after 3000 -> false end,
    Told = is_legacy(),
    ok = command(pause),
    ok = command(resume),
    Agent = whereis(kprof_agent),
    [exit(P, kill) || P <- [Tracer, Traced]],
    ok.

%% By more calls than a second may have.
heat() ->
    [?MODULE:one(X) || X <- lists:seq(1, 100000)],
    ok = wait(fun() -> maps:get(disarmed, kprof_agent:status()) =:= [{?MODULE, one, 1}] end).

%% Its match specs take more than a quarter of the memory that it may have.
large() ->
    Guards = [{is_seq_trace} | lists:duplicate(100, {'=:=', 1, 1})],
    Large = {{?MODULE, two, 1}, tier, [{'_', Guards, [{message, false}]} || _ <- lists:seq(1, 300)], []},
    ok = command({arm, [Large, tier(one, []), entry()], limits(#{hot => 1000, max_memory => 8 bsl 20})}),
    heat().

dropped() ->
    ok = command({arm, [exactly(exact), entry()], limits(#{max_queue => 5})}),
    Agent = whereis(kprof_agent),
    erlang:suspend_process(Agent),
    Caller = spawn(fun() -> [?MODULE:exact(X) || X <- lists:seq(1, 1000)], receive stop -> ok end end),
    receive after 300 -> ok end,
    erlang:resume_process(Agent),
    ok = wait(fun() -> element(1, state()) =:= tripped end),
    #{events_foreign := 0, ceded := [], events_dropped := N} = kprof_agent:status(),
    exit(Caller, kill),
    %% A return_to as well, where a call has no other around it.
    true = N >= 2000,
    ok.

%% To pass over all of them for each event would take a thousand times as many reductions.
flooded() ->
    ok = command({arm, [exactly(exact), entry()], limits(#{max_queue => 5})}),
    Agent = whereis(kprof_agent),
    erlang:suspend_process(Agent),
    Callers = [begin
                   Caller = spawn(fun() -> [?MODULE:exact(X) || X <- lists:seq(1, 1000)], receive stop -> ok end end),
                   ok = wait(fun() -> queued(Agent) >= N + 2000 end),
                   [Agent ! Noise || _ <- lists:seq(1, ?NOISE div 4), Noise <- [nothing, {}, {nothing, here}, <<>>]],
                   Caller
               end || N <- [0, ?NOISE + 2000]],
    Before = reductions(Agent),
    erlang:resume_process(Agent),
    ok = wait(fun() -> element(1, state()) =:= tripped end),
    true = queued(Agent) < 100,
    Took = reductions(Agent) - Before,
    true = Took < 100 * ?NOISE orelse {reductions, Took},
    [exit(P, kill) || P <- Callers],
    ok.

%% Its limits held for batches of events alone, and it stayed armed.
idle() ->
    ok = command({arm, [exactly(exact), entry()], limits(#{max_queue => 1000})}),
    Agent = whereis(kprof_agent),
    erlang:suspend_process(Agent),
    [Agent ! Noise || Noise <- [tick | lists:duplicate(?NOISE, nothing)]],
    erlang:resume_process(Agent),
    {tripped, {queue, N}} = state(),
    true = N > 1000,
    ok.

%% The sentry may kill an agent that gives way at this moment: it learns of the heir after that, and
%% watched it no more. The first heir here has a large table, which the VM takes apart before it
%% reports the end of its owner.
heir_stuck() ->
    Agent = whereis(kprof_agent),
    [Sentry] = [P || P <- processes(), {dictionary, Dict} <- [process_info(P, dictionary)],
                     lists:member({'$initial_call', {kprof_agent, sentry, 0}}, Dict)],
    process_flag(priority, high),
    Self = self(),
    First = spawn(fun() ->
                          Table = ets:new(?MODULE, [ordered_set]),
                          [ets:insert(Table, {N}) || N <- lists:seq(1, 1000000)],
                          Self ! filled,
                          receive stop -> ok end
                  end),
    receive filled -> ok end,
    {Heir, Ref} = spawn_monitor(fun() -> receive stop -> ok end end),
    erlang:trace(Sentry, true, [call]),
    erlang:trace_pattern({erlang, exit, 2}, true, []),
    erlang:suspend_process(Agent),
    [Sentry ! Msg || Msg <- [{alive, 400}, {heir, First}]],     % a look each 100 ms
    receive {trace, Sentry, call, {erlang, exit, [First, kill]}} -> Sentry ! {heir, Heir} end,
    erlang:trace_pattern({erlang, exit, 2}, false, []),
    erlang:trace(Sentry, false, [all]),
    process_flag(priority, normal),
    receive {'DOWN', Ref, process, Heir, Reason} -> killed = Reason after 20000 -> error(heir_lives) end,
    erlang:resume_process(Agent),
    ok.

queued(P) -> element(2, process_info(P, message_queue_len)).

reductions(P) -> element(2, process_info(P, reductions)).

%% It cannot even see that its lease has ended.
stuck() ->
    ok = command({arm, [exactly(exact), entry()], limits(#{})}),
    Agent = whereis(kprof_agent),
    Ref = erlang:monitor(process, Agent),
    erlang:suspend_process(Agent),
    receive {'DOWN', Ref, process, Agent, Reason} -> killed = Reason end,
    ok = wait(fun() -> erlang:trace_info({?MODULE, exact, 1}, traced) =:= {traced, false} end),
    ok.

%% The sentry killed an agent that was setting some hundred counters on a busy node: each takes up
%% to 25 ms there. So many are set that it takes longer than two leases here, too.
slow() ->
    Daemon = self(),
    Renewer = spawn_opt(fun() -> renew(whereis(kprof_agent), Daemon) end, [{priority, high}]),
    MFAs = lists:append([[{M, F, A} || {F, A} <- M:module_info(functions)]
                         || M <- [erl_lint, erl_parse, epp, erl_scan, erl_eval, unicode_util, erl_pp]]),
    Spinners = [spawn(fun spin/0) || _ <- lists:seq(1, 4 * erlang:system_info(schedulers))],
    true = lists:any(fun(N) -> rated(lists:sublist(MFAs, N)) > 1000 end, [200, 400, 800, length(MFAs)]),
    [exit(P, kill) || P <- [Renewer | Spinners]],
    ok.

%% How long it takes the agent, in ms.
rated(MFAs) ->
    Watch = erlang:monitor(process, whereis(kprof_agent)),
    T0 = erlang:monotonic_time(millisecond),
    Ref = send({rates, MFAs, [], 1}),
    Answer = receive
                 {kprof_reply, Ref, Rates} -> length(Rates);
                 {'DOWN', Watch, process, _, Why} -> Why
             end,
    Answer = length(MFAs),
    erlang:demonitor(Watch, [flush]),
    erlang:monotonic_time(millisecond) - T0.

renew(Agent, Daemon) ->
    Agent ! {kprof, Daemon, make_ref(), lease},
    receive after 100 -> renew(Agent, Daemon) end.

%% It ended, though kprofd had renewed the lease all the time.
late() ->
    Agent = whereis(kprof_agent),
    erlang:suspend_process(Agent),
    Agent ! tick,
    _ = send(lease),
    receive after 1100 -> ok end,
    erlang:resume_process(Agent),
    receive after 300 -> ok end,
    Agent = whereis(kprof_agent),
    ok.

spin() ->
    lists:seq(1, 1000),
    spin().

amid(pause) ->
    they_trace(),
    ok = command({arm, [tier(F, []) || F <- ?OURS -- [request]] ++ [entry()], limits(#{})}),
    _ = foreign(fun() -> send(pause) end, fun nothing/0),
    _ = moved(),
    quiet_again(),
    ok = wait(fun() -> state() =:= paused end),
    [] = [F || F <- ?OURS, is_legacy(), erlang:trace_info({?MODULE, F, 1}, traced) =/= {traced, false}],
    command(resume);
amid(change) ->
    they_trace(),
    ok = command({arm, [tier(one, []), entry()], limits(#{})}),
    Put = {change, [], [tier(two, []), tier(exact, [])], limits(#{max_queue => 100})},
    Ref = foreign(fun() -> send(Put) end, fun nothing/0),
    _ = moved(),
    quiet_again(),
    receive {kprof_reply, Ref, _} -> ok after 0 -> ok end,
    [] = [F || F <- [two, exact], is_legacy(),
               {_, V} <- [erlang:trace_info({?MODULE, F, 1}, K) || K <- [traced, call_count]], V =/= false],
    ok = command(Put).

asked() ->
    they_trace(),
    ok = command({arm, [tier(one, []), entry()], limits(#{})}),
    Self = self(),
    foreign(fun nothing/0, fun() ->
                                   spawn(fun() -> Self ! {stopped, kprof_agent:stop()} end),
                                   receive after 100 -> ok end
                           end),
    ok = receive {stopped, What} -> What end,
    quiet_again(),
    wait(fun() -> whereis(kprof_agent) =:= undefined end).

destroyed(How) ->
    is_legacy() orelse destroyed(How, whereis(kprof_agent)),
    ok.

%% At once, before the agent looks whether its session is there.
destroyed(How, Agent) ->
    How =:= arm orelse (ok = command({arm, [entry()], limits(#{})})),
    Ref = erlang:monitor(process, Agent),
    [trace:session_destroy(S) || {kprofd, _} = S <- trace:session_info(all)],
    send(case How of stop -> stop; arm -> {arm, [tier(one, []), entry()], limits(#{})} end),
    receive {'DOWN', Ref, process, Agent, Reason} -> normal = Reason end.

%% The VM reports each process that it refuses to trace.
crowd() ->
    Tracer = spawn(fun Loop() -> receive stop -> ok; _ -> Loop() end end),
    Ps = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 100)],
    [1 = erlang:trace(P, true, [procs, {tracer, Tracer}]) || P <- Ps],
    Self = self(),
    ok = logger:add_primary_filter(?MODULE, {fun(#{msg := Msg}, _) ->
                                                     string:find(io_lib:format("~p", [Msg]), "only have one tracer") =:= nomatch
                                                         orelse begin Self ! refused, stop end,
                                                     ignore
                                             end, []}),
    ok = command({arm, [entry()], limits(#{})}),
    ended(whereis(kprof_agent)),
    receive after 300 -> ok end,
    ok = logger:remove_primary_filter(?MODULE),
    Walks = 2,
    true = refused(0) =< Walks,
    100 = length([P || P <- Ps, erlang:trace_info(P, tracer) =:= {tracer, Tracer}]),
    [exit(P, kill) || P <- [Tracer | Ps]],
    ok.

refused(N) -> receive refused -> refused(N + 1) after 0 -> N end.

wait(Fun) -> wait(Fun, 1000).

wait(Fun, N) when N > 0 ->
    case catch Fun() of
        true -> ok;
        _ -> receive after 5 -> wait(Fun, N - 1) end
    end.
