%% Targets with many processes, or with busy ones: tracing begins, rests and ends
%% without a stop of their world. All processes have flags of ours, which are set
%% and taken one by one, in slices; never by a BIF that visits all of them, and not
%% in a process that runs native code, whose lock would hold a scheduler.
-module(crowd_tests).

-export([tests/0]).
%% In the target.
-export([watch/0, watched/0, unwatch/0, unflagged/0, left/0, port_flags/1, collect/0, spin/1, spun/2, flagged/1]).

-define(MANY, 300000).
-define(SLICE, 100).            % of kprof_flagger.erl
-define(HOT, "{tiers, [{handle, {requests, handle_request, 2}},\n"
        " {hot, [{sample_layer, '_', '_'}, {sample_truth, '_', '_'}, {formatter, '_', '_'}]}]}.\n"
        "{entry, {requests, handle_request, 2}}.\n{sampling, all}.\n").
-define(FEW, "{tiers, [{handle, {requests, handle_request, 2}}, {format, {formatter, format_response, 1}}]}.\n").

tests() ->
    [{"no call that stops the world", 90, fun one_by_one/1},
     {"the same after a kill", 60, fun killed/1},
     {"a port that somebody traces", 30, fun ports/1},
     {"a process in native code", 90, fun native_code/1},
     {"busy processes are traced from the first request on", 60, fun busy/1},
     {"leaves 300,000 processes in time", 180, alone, fun many/1}].

%% From the way in to the way out, with a trip, a rest, a resume and a reload in
%% between, erlang:trace and trace:process are called for one process each, and as
%% often as need be: flags that are there are not set again.
one_by_one(T) ->
    Target = it:target(T),
    Crowd = it:call(Target, it_ticker, crowd, [3000]),
    Before = it:settled(Target),
    it:call(Target, ?MODULE, watch, []),
    P = it:kprofd(T, Target, #{tiers => [?HOT, "{overload, [{max_queue, 1000}, {pause_s, 600}]}.\n"]}),
    it:armed(P),
    #{true := Armed} = calls(Target),
    it:check(Armed > 3000, "flags of ~b processes were set", [Armed]),
    Drivers = it:call(Target, it_driver, start, [16]),
    it:saw(P, "tracing is paused for 600 s"),
    it:call(Target, it_driver, stop, [Drivers]),
    {ok, _} = it:control(P, "resume"),
    it:until("it goes on", fun() -> it:agent_state(Target) =:= armed end),
    {ok, _} = it:control(P, "pause"),
    {ok, _} = it:control(P, "resume"),
    it:until("it goes on again", fun() -> it:agent_state(Target) =:= armed end),
    Tiers = iolist_to_binary([?FEW, "{sampling, all}.\n", it:calm()]),
    ok = file:write_file(it:path(T, "tiers1.conf"), Tiers),
    {ok, _} = it:control(P, "reload"),
    it:until("it has reloaded", fun() -> length(maps:get(armed, it:call(Target, it_stub, agent, []))) =:= 2 end),
    %% Of so few processes a pause takes the flags, an overload does not.
    Again = maps:get(true, calls(Target)),
    it:check(abs(Again - 2 * Armed) < 100, "flags were set ~b times, first of ~b processes", [Again, Armed]),
    it:terminate(P),
    it:until("it has gone", fun() -> not is_there(Target) end),
    #{false := Taken, most := Most} = calls(Target),
    it:check(Taken > 3000, "flags of ~b processes were taken", [Taken]),
    it:check(Most =< ?SLICE, "~b calls between two rests", [Most]),
    it:call(Target, ?MODULE, unwatch, []),
    it:audit(Target, Before),
    it:call(Target, it_ticker, disperse, [Crowd]),
    {note, io_lib:format("~b set, ~b taken, ~b at a time", [Armed, Taken, Most])}.

%% What the sentry does then. Sessions go with their handle.
killed(T) ->
    Target = it:target(T),
    Crowd = it:call(Target, it_ticker, crowd, [3000]),
    Before = it:settled(Target),
    it:call(Target, ?MODULE, watch, []),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:do(Target, fun() -> exit(whereis(kprof_agent), kill) end),
    it:saw(P, "lost "),
    it:terminate(P),
    it:until("it has gone", fun() -> not is_there(Target) end),
    _ = calls(Target),
    it:call(Target, ?MODULE, unwatch, []),
    it:audit(Target, Before),
    it:call(Target, it_ticker, disperse, [Crowd]).

%% `all` means ports as well: before sessions they became ours, and their owners'
%% tracer, who had them, was told no more.
ports(T) ->
    Target = it:target(T),
    {Traced, Free} =
        it:do(Target, fun() ->
                              Me = self(),
                              register(it_owner, spawn(fun() ->
                                                               Ps = [open_port({spawn, "cat"}, []) || _ <- [1, 2]],
                                                               Me ! {ports, Ps},
                                                               receive stop -> ok end
                                                       end)),
                              receive {ports, [Traced, Free]} -> ok end,
                              Tracer = spawn(fun() -> receive stop -> ok end end),
                              register(it_tracer, Tracer),
                              1 = erlang:trace(Traced, true, [send, 'receive', {tracer, Tracer}]),
                              {Traced, Free}
                      end),
    Before = it:settled(Target),
    Were = it:call(Target, ?MODULE, port_flags, [[Traced, Free]]),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:equal("flags of ports, and who has them", Were, it:call(Target, ?MODULE, port_flags, [[Traced, Free]])),
    it:equal("the setting for new ports", {flags, []}, it:call(Target, erlang, trace_info, [new_ports, flags])),
    it:terminate(P),
    it:audit(Target, Before, [processes]),
    it:equal("flags of ports afterwards", Were, it:call(Target, ?MODULE, port_flags, [[Traced, Free]])).

%% A process that is in a NIF or collects garbage has its main lock, for which the
%% scheduler of whoever sets a flag would wait. It is not touched while it does,
%% holds up nobody, is told of, and is traced afterwards. (A NIF on one of a few
%% schedulers holds up code loading and patterns as well.)
native_code(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    it:call(Target, ?MODULE, watch, []),
    Pid = it:call(Target, ?MODULE, collect, []),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:saw(P, "1 process is not traced yet: it runs native code"),
    it:equal("processes that are not traced", #{untraced => 1},
             maps:with([untraced], it:call(Target, it_stub, agent, []))),
    it:equal("is it touched", false, lists:member(Pid, maps:get(visited, calls(Target)))),
    it:do(Target, fun() -> it_native ! leave, ok end),
    it:saw(P, "all processes are traced now"),
    it:equal("is it touched now", true, lists:member(Pid, maps:get(visited, calls(Target)))),
    it:check(it:call(Target, ?MODULE, flagged, [Pid]), "it is traced"),
    it:do(Target, fun() -> it_native ! stop, ok end),
    it:terminate(P),
    it:call(Target, ?MODULE, unwatch, []),
    it:audit(Target, Before, [processes]).

%% Processes that never wait are those that requests run in: when kprofd says that
%% it is armed they have flags, and no request that comes then is missed.
busy(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    Pids = it:call(Target, ?MODULE, spin, [6]),
    P = it:kprofd(T, Target, #{tiers => [?FEW, "{sampling, all}.\n{budget, none}.\n", it:calm()]}),
    it:armed(P),
    Before1 = it:call(Target, ?MODULE, spun, [Pids, count]),
    it:equal("busy processes without flags", [],
             it:do(Target, fun() -> [X || X <- Pids, not flagged(X)] end)),
    it:assembles(P, 500),
    Handled = it:call(Target, ?MODULE, spun, [Pids, stop]),
    it:terminate(P),
    it:audit(Target, Before, [processes]),
    Calls = it:balance(P),
    Seen = it:requests(P),
    it:check(Calls =< Handled andalso Seen >= Handled - Before1, "~b calls, ~b when it was armed; ~b counted, ~b seen",
             [Handled, Before1, Calls, Seen]),
    {note, io_lib:format("~b calls, ~b when it was armed; ~b counted, ~b seen; ~0p",
                         [Handled, Before1, Calls, Seen, it:losses(P)])}.

%% Nothing is armed at once, and within five seconds nothing is there any more.
many(T) ->
    Target = it:target(T, #{args => ["+P", "1000000"]}),
    Before = it:settled(Target),
    Crowd = it:call(Target, it_ticker, crowd, [?MANY]),
    it:call(Target, it_ticker, start, []),
    P = it:kprofd(T, Target),
    it:armed(P),
    Arming = it:call(Target, it_ticker, longest_us, []),
    it:equal("processes without flags", 0, it:call(Target, ?MODULE, unflagged, [])),
    _ = it:call(Target, it_ticker, longest_us, []),
    it:signal(P, "TERM"),
    Patience = it:patience(Target),
    gone(Target, Patience),
    Leaving = it:call(Target, it_ticker, longest_us, []),
    Ms = erlang:monotonic_time(millisecond) - element(1, Patience),
    it:ended(P, 0),
    it:equal("processes with flags", 0, it:call(Target, ?MODULE, left, [])),
    it:call(Target, it_ticker, stop, []),
    it:call(Target, it_ticker, disperse, [Crowd]),
    it:audit(Target, Before, [processes]),
    {note, io_lib:format("gone after ~b ms; longest gaps of a ticker: ~b us while it armed, ~b while it left",
                         [Ms, Arming, Leaving])}.

gone(Target, Patience) ->
    case is_there(Target) of
        false -> ok;
        true ->
            it:check(not it:is_over(Target, Patience), "it is still there after five seconds"),
            receive after 20 -> ok end,
            gone(Target, Patience)
    end.

%% Its module, or what is to be purged of it.
is_there(Target) ->
    lists:any(fun(F) -> it:call(Target, erlang, F, [kprof_agent]) end, [module_loaded, check_old_code]).

%% ------------------------------------------------------ in the target ----

%% Sees all calls that change flags, whoever makes them: meta tracing needs no flag.
%% A slice begins with a word to the walk's counter.
watch() ->
    Me = self(),
    Watcher = spawn(fun() ->
                            register(it_watcher, self()),
                            [erlang:trace_pattern(F, true, [{meta, self()}]) || F <- changes()],
                            Me ! {self(), ready},
                            watch([])
                    end),
    receive {Watcher, ready} -> ok end.

changes() ->
    [F || {M, _, _} = F <- [{erlang, trace, 3}, {trace, process, 4}, {counters, put, 3}],
          code:ensure_loaded(M) =:= {module, M}].

watch(Events) ->
    receive
        {trace_ts, P, call, Call, Ts} -> watch([{Ts, P, Call} | Events]);
        {seen, From} -> From ! {it_watcher, Events}, watch(Events);
        stop -> [erlang:trace_pattern(F, false, [meta]) || F <- changes()]
    end.

%% By their times: events of two processes may come in another order.
seen(Events) ->
    {Seen, _} = lists:foldl(fun seen/2, {#{true => 0, false => 0, wrong => [], most => 0, visited => []}, #{}},
                            lists:keysort(1, lists:reverse(Events))),
    Seen.

seen({_, _, {counters, put, [_, 1, 0]}}, {Seen, _}) ->
    {Seen, #{}};
seen({_, _, {counters, put, _}}, Acc) ->
    Acc;
seen({_, P, {_, _, Args}}, {#{most := Most} = Seen, Runs}) ->
    [What, How, _] = lists:nthtail(length(Args) - 3, Args),
    Run = maps:get(P, Runs, 0) + 1,
    {changed(What, How, Seen#{most := max(Most, Run)}), Runs#{P => Run}}.

changed(What, How, #{visited := Visited} = Seen) when is_pid(What) ->
    Seen#{How := maps:get(How, Seen) + 1, visited := [What | Visited]};
changed(new_processes, _, Seen) ->
    Seen;
changed(What, How, #{wrong := Wrong} = Seen) ->
    Seen#{wrong := [{What, How} | Wrong]}.

watched() ->
    it_watcher ! {seen, self()},
    receive {it_watcher, Events} -> seen(Events) end.

unwatch() ->
    Ref = erlang:monitor(process, it_watcher),
    it_watcher ! stop,
    receive {'DOWN', Ref, process, _, _} -> ok end.

%% Processes without any flag of anybody's.
unflagged() ->
    length([P || P <- processes(), not flagged(P), not is_own(P)]).

left() ->
    length([P || P <- processes(), flagged(P)]).

%% Of the agent's own, which it passes over.
is_own(P) ->
    case process_info(P, current_stacktrace) of
        {_, Stack} -> lists:keymember(kprof_agent, 1, Stack);
        undefined -> true
    end.

flagged(P) ->
    Sessions = case erlang:function_exported(trace, session_info, 1) of
                   true -> [S || S <- trace:session_info(all), element(1, S) =/= legacy];
                   false -> []
               end,
    has(erlang:trace_info(P, flags)) orelse lists:any(fun(S) -> has(catch trace:info(S, P, flags)) end, Sessions).

has({flags, Flags}) -> Flags =/= [];
has(_) -> false.

port_flags(Ports) ->
    [{P, flagged(P), erlang:trace_info(P, flags), erlang:trace_info(P, tracer)} || P <- Ports].

%% A process that collects garbage, for some 100 ms each time, and again at once.
collect() ->
    Me = self(),
    Pid = spawn(fun() ->
                        register(it_native, self()),
                        Big = lists:seq(1, 10000000),
                        Me ! {self(), begins},
                        collect(Big)
                end),
    receive {Pid, begins} -> Pid end.

collect(Big) ->
    garbage_collect(),
    receive leave -> receive stop -> length(Big) end
    after 0 -> collect(Big)
    end.

%% Processes that never wait, with a request now and then.
spin(N) ->
    [spawn(fun() -> spin_on(0) end) || _ <- lists:seq(1, N)].

spin_on(N) ->
    _ = lists:foldl(fun(I, Sum) -> (I * Sum) band 16#FFFF end, 1, lists:seq(1, 20000)),
    1 = it_driver:handle(1),
    receive
        {count, From} -> From ! {self(), N + 1}, spin_on(N + 1);
        {stop, From} -> From ! {self(), N + 1}
    after 0 -> spin_on(N + 1)
    end.

%% How many requests there have been.
spun(Pids, What) ->
    [P ! {What, self()} || P <- Pids],
    lists:sum([receive {P, N} -> N end || P <- Pids]).

%% ------------------------------------------------------------- in here ----

calls(Target) ->
    Seen = it:call(Target, ?MODULE, watched, []),
    it:equal("calls that stop the world", [], maps:get(wrong, Seen)),
    Seen.
