%% More than can be followed: the agent disarms by itself, what was missed is
%% counted, and profiling goes on after the pause. The target's own work never
%% suffers more than that.
-module(overload_tests).

-export([tests/0]).

-define(MFAS, [{requests, handle_request, 2}, {network_server, parse_request, 1},
               {formatter, format_response, 1}, {db, network_request, 1}, {db, transaction, 1},
               {db, transaction, 2}, {accounting, incr_reqs, 1}]).

%% Some calls cost so little that tracing them is most of what the target does:
%% a mistake that is easily made.
-define(HOT, "{tiers, [{handle, {requests, handle_request, 2}},\n"
        " {hot, [{sample_layer, '_', '_'}, {sample_truth, '_', '_'}, {sample_config, get, 1},\n"
        "        {sample_pool, pick, 1}, {formatter, '_', '_'}, {db, '_', '_'}]}]}.\n"
        "{entry, {requests, handle_request, 2}}.\n{sampling, all}.\n{budget, none}.\n{hot_share, none}.\n").
-define(MIB, 1048576).

tests() ->
    [{"full speed, every request traced: queue", 120, alone,
      fun(T) -> full_speed(T, "{max_queue, 1000}", fun(_, _) -> ok end) end},
     {"full speed, every request traced: kprofd hangs", 120, alone, fun(T) -> full_speed(T, "", fun hang/2) end},
     {"a trip where many modules have tiers", 120, alone, fun many_modules/1},
     {"trips by age", 90, fun(T) -> trips(T, "{max_age_ms, 1}", "max_age_ms", fun(_) -> ok end) end},
     {"trips by queue", 90, fun(T) -> trips(T, "{max_queue, 100}", "max_queue", fun held_up/1) end},
     {"trips by memory", 90, fun by_memory/1},
     {"trips by kprofd's memory", 90, fun memory/1},
     {"trips by kprofd's lag", 90, fun late/1},
     {"trips by what waits for the disk", 120, fun backlog/1}].

%% With the native probe what waits is in rings, which cannot grow: they overflow.
by_memory(T) ->
    trips(T, "{max_memory_mb, 1}, {max_queue, 10000000}",
          case it:is_native() of true -> "rings"; false -> "max_memory_mb" end, fun held_up/1).

%% By the agent's own clock nothing is armed after the trip and its queue is
%% empty; the target's memory has grown by no more than may be; and every request
%% is accounted for, those made while it rests as what they are.
full_speed(T, Limit, Provoke) ->
    Target = it:target(T),
    Peak0 = peak(Target, fun() -> drive(Target, fun() -> receive after 2000 -> ok end end) end),
    Before = it:settled(Target),
    Limits = lists:join(", ", [L || L <- [Limit, "{pause_s, 60}"], L =/= ""]),
    P = it:kprofd(T, Target, #{tiers => [?HOT, "{overload, [", Limits, "]}.\n"], args => ["-interval", "1s"]}),
    it:armed(P),
    Plan = maps:get(armed, it:call(Target, it_stub, agent, [])),
    it:check(length(Plan) > 30, "~b functions are armed", [length(Plan)]),
    {Peak1, {Handled, Trip}} =
        peak_of(Target, fun() ->
                                drive(Target, fun() ->
                                                      Provoke(Target, P),
                                                      it:until("it has tripped", fun() -> trip_of(Target) end),
                                                      rests(Target, Plan)
                                              end)
                        end),
    it:check(Peak1 - Peak0 < (64 + 32) * ?MIB, "the target grew by ~b bytes", [Peak1 - Peak0]),
    it:saw(P, "tracing is paused for 60 s: (events|kprofd) .*; then 1 request in 4 is sampled"),
    %% What was called is known exactly, and so is what is called while it rests.
    it:until("all of it is counted", fun() -> status(P, "entry_calls") =:= Handled end),
    Unseen = settled_unseen(P, Handled),
    300 = it:call(Target, it_driver, handle, [300]),
    it:until("and what comes now", fun() -> status(P, "entry_calls") =:= Handled + 300 end),
    it:until("as unseen", fun() -> status(P, "unseen") =:= Unseen + 300 end),
    {ok, Text} = it:control(P, "status"),
    it:check(re:run(Text, "^overload +1 so far, the last [0-9]+ s ago: .*; tracing is paused$",
                    [multiline]) =/= nomatch, "the trip in ~ts", [Text]),
    {ok, _} = it:control(P, "resume"),
    it:saw(P, "tracing was paused for [0-9]+ s: .*; now .*Lost: "),
    20 = it:call(Target, it_driver, handle, [20]),
    it:terminate(P),
    it:audit(Target, Before, [processes]),
    it:equal("entry calls", Handled + 320, it:balance(P)),
    Losses = it:losses(P),
    it:equal("unseen", Unseen + 300, maps:get(unseen, Losses)),
    it:equal("requests cut, of none that is inside another", 0, maps:get(cut, Losses, 0)),
    it:equal("events", [[<<"resume">>], [<<"trip">>]],
             it:sql(P, "select kind from events where kind in ('trip', 'rest', 'resume') order by kind")),
    #{tripped_at := At, disarmed_at := Disarmed, emptied_at := Emptied} = Trip,
    Last = maps:get(last_call_at, Trip, At),
    {note, io_lib:format("memory grew by ~.1f MiB; after the trip the last call came in ~b ms, nothing was armed in ~b,"
                         " the queue was empty in ~b~n~0p",
                         [(Peak1 - Peak0) / ?MIB, (Last - At) div 1000000, (Disarmed - At) div 1000000,
                          (Emptied - At) div 1000000, Losses])}.

%% Many patterns take long to take back on a node that is busy: where there are no
%% sessions, events end before that all the same, with the processes' flags, which
%% are there again when it rests, and go when kprofd does.
many_modules(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    Many = [io_lib:format("{~w, module_info, 0}", [M])
            || M <- lists:sort([M || {M, Path} <- it:call(Target, code, all_loaded, []), is_list(Path),
                                     string:find(Path, "sample_app") =:= nomatch]),
               not lists:prefix("it", atom_to_list(M))],
    it:check(length(Many) > 40, "~b modules are loaded", [length(Many)]),
    P = it:kprofd(T, Target, #{tiers => [string:replace(?HOT, "}]}.", "},\n {many, [" ++ lists:join(", ", Many) ++ "]}]}."),
                                         "{overload, [{max_queue, 1000}, {pause_s, 60}]}.\n"],
                               args => ["-interval", "1s"]}),
    it:armed(P),
    Plan = maps:get(armed, it:call(Target, it_stub, agent, [])),
    {_, Trip} = drive(Target, fun() ->
                                      it:until("it has tripped", fun() -> trip_of(Target) end),
                                      rests(Target, Plan)
                              end),
    case it:otp(Target) < 27 of
        true -> quiet_first(Trip);
        false -> it:check(not is_map_key(quiet_at, Trip), "a session goes at once: ~0p", [Trip])
    end,
    it:equal("processes with its flags", all, it:do(Target, fun flagged/0)),
    it:terminate(P),
    it:audit(Target, Before, [processes]).

%% With the native probe events have no time here.
quiet_first(#{tripped_at := At, quiet_at := Quiet, disarmed_at := Disarmed} = Trip) ->
    it:check(At =< Quiet andalso Quiet =< Disarmed andalso maps:get(last_call_at, Trip, At) =< Quiet,
             "flags went before the patterns: ~0p", [Trip]).

%% In a session they cannot be asked for.
flagged() ->
    Flags = fun(P) -> {flags, L} = erlang:trace_info(P, flags), lists:member(call, L) end,
    Legacy = not erlang:function_exported(trace, session_create, 3),
    case [P || Legacy, P <- [new_processes, whereis(kernel_sup), whereis(requests_sup)], P =/= undefined, not Flags(P)] of
        [] -> all;
        Not -> Not
    end.

%% Nothing is armed but the counter, and no call was traced since then.
rests(Target, Plan) ->
    #{tripped_at := At, disarmed_at := Disarmed, emptied_at := Emptied} = Trip0 = tripped(Target),
    it:check(At =< Disarmed andalso Disarmed =< Emptied, "the times of ~0p", [Trip0]),
    it:equal("armed", [{{requests, handle_request, 2}, call_count}],
             [{MFA, Key} || {MFA, _, Key, _} <- it:call(Target, it_stub, armed, [Plan])]),
    receive after 1000 -> ok end,
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    it:until("its queue is empty", fun() ->
                                           {message_queue_len, 0} =:=
                                               it:call(Target, erlang, process_info, [Agent, message_queue_len])
                                   end),
    it:equal("state", tripped, it:agent_state(Target)),
    Trip = tripped(Target),
    no_call_since(Trip, Target),
    Trip.

%% Rings that were empty a second ago are it still.
no_call_since(#{last_call_at := Last, disarmed_at := Disarmed} = Trip, _) ->
    it:check(Last =< Disarmed, "no call since then: ~0p", [Trip]);
no_call_since(Trip, Target) ->
    it:check(it:is_native(), "the newest call in ~0p", [Trip]),
    it:equal("events in rings", 0, maps:get(waiting, it:call(Target, kprof_probe, info, []))).

%% An agent that is at work answers later.
tripped(Target) ->
    it:until("it says that it has tripped", fun() -> trip_of(Target) end).

trip_of(Target) ->
    case it:call(Target, it_stub, agent, []) of
        #{state := {tripped, _}, last_trip := Trip} -> Trip;
        _ -> false
    end.

%% More than the connection takes; it goes on before the lease ends. The agent may
%% be quicker to trip than to send.
hang(Target, P) ->
    it:until("events come", fun() -> it:sent(Target) > 1000 orelse trip_of(Target) end),
    it:signal(P, "STOP"),
    it:until("it has tripped", fun() -> trip_of(Target) end),
    it:signal(P, "CONT").

%% The most memory that the target had meanwhile, by the kernel's account.
peak(Target, Fun) -> element(1, peak_of(Target, Fun)).

peak_of(#{pid := Pid}, Fun) ->
    ok = file:write_file(io_lib:format("/proc/~b/clear_refs", [Pid]), "5"),
    Result = Fun(),
    {ok, Text} = file:read_file(io_lib:format("/proc/~b/status", [Pid])),
    {match, [Kb]} = re:run(Text, "VmHWM:\\s+([0-9]+)", [{capture, [1], list}]),
    {list_to_integer(Kb) * 1024, Result}.

%% What is handled while Fun runs, with what it gives.
drive(Target, Fun) ->
    Pids = it:call(Target, it_driver, start, [16]),
    Result = Fun(),
    {it:call(Target, it_driver, stop, [Pids]), Result}.

status(P, Key) ->
    {ok, Text} = it:control(P, "status json"),
    {match, [N]} = re:run(Text, ["\"", Key, "\":([0-9]+)"], [{capture, [1], list}]),
    list_to_integer(N).

%% With nothing in flight all is said of what was called.
settled_unseen(P, Handled) ->
    it:until("all of it is said",
             fun() ->
                     Said = lists:sum([status(P, K) || K <- ["requests", "dropped_entries", "tripped", "unseen",
                                                             "sampled_out", "expired"]]),
                     Said =:= Handled andalso {unseen, status(P, "unseen")}
             end),
    status(P, "unseen").

%% More comes than the agent takes: messages of no meaning, or, where events come in
%% rings, all that comes while it does not run. (OTP 29 loses the timeout of a
%% process that is suspended in `receive after`, where the agent is with the relay
%% probe: it would never run again.)
held_up(Target) ->
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    case it:is_native() of
        true -> suspend(Target, Agent);
        false -> flood(Target, Agent)
    end.

flood(Target, Agent) ->
    it:do(Target, fun() ->
                          Ps = [spawn_monitor(fun() -> [Agent ! nothing || _ <- lists:seq(1, 200000)] end)
                                || _ <- lists:seq(1, 4)],
                          [receive {'DOWN', Ref, process, _, _} -> ok end || {_, Ref} <- Ps],
                          ok
                  end).

suspend(Target, Agent) ->
    it:do(Target, fun() ->
                          true = erlang:suspend_process(Agent),
                          receive after 500 -> ok end,
                          erlang:resume_process(Agent)
                  end).

trips(T, Limit, Word, Provoke) ->
    {Target, Before} = target(T),
    Load = it:load(T, Target, ["64", "600s"]),
    P = it:kprofd(T, Target, #{tiers => tiers(Limit), args => ["-interval", "1s"]}),
    it:armed(P),
    %% "trips by age" may have none before that.
    it:until("events come", fun() -> it:sent(Target) > 0 orelse it:agent_state(Target) =:= tripped end),
    Provoke(Target),
    it:until("the agent trips", fun() -> it:agent_state(Target) =:= tripped end),
    %% But for the counter of requests nothing is armed. It may have gone on
    %% meanwhile, and even have tripped again: then this look says nothing.
    Trips = it:count(P, "tracing is paused for"),
    Armed = it:call(Target, it_stub, armed, [?MFAS]),
    it:agent_state(Target) =:= tripped andalso it:times_armed(P) =< Trips andalso
        it:count(P, "tracing is paused for") =:= Trips andalso
        it:equal("armed while tripped", [{{requests, handle_request, 2}, call_count}],
                 [{MFA, Key} || {MFA, _, Key, _} <- Armed]),
    it:saw(P, "tracing is paused for .*" ++ Word),
    says(P, ["\"last_cause\":\"" ++ Word]),
    it:until("it goes on", fun() -> it:times_armed(P) >= 2 end),
    it:terminate(P),
    it:check(it:is_running(Load), "the load goes on"),
    it:kill(Load),
    it:check(it:number(P, "select count(*) from events where kind = 'trip'") >= 1, "an event for the trip"),
    Losses = it:losses(P),
    it:check(maps:get(dropped, Losses, 0) > 0, "dropped events in ~0p", [Losses]),
    it:check(maps:get(unseen, Losses, 0) > 0, "unseen requests in ~0p", [Losses]),
    it:equal("requests cut, of none that is inside another", 0, maps:get(cut, Losses, 0)),
    it:audit(Target, Before, [processes]),
    it:balance(P),
    {note, io_lib:format("~0p", [Losses])}.

%% It has more than it may, and so never goes on: rests get longer.
memory(T) ->
    {Target, Before} = target(T),
    Load = it:load(T, Target, ["8", "600s"]),
    P = it:kprofd(T, Target, #{tiers => tiers("{max_kprofd_mb, 1}"), args => ["-interval", "1s"]}),
    it:saw(P, "tracing is paused for 1 s: kprofd had [0-9]+ MiB of memory, more than max_kprofd_mb, 1; "),
    it:saw(P, "tracing is paused for 2 s more: kprofd had "),
    it:saw(P, "tracing is paused for 4 s more: "),
    it:equal("times armed", 1, it:times_armed(P)),
    resting(P, Target, max_kprofd_mb),
    it:terminate(P),
    it:kill(Load),
    it:equal("trips", 1, it:number(P, "select count(*) from events where kind = 'trip'")),
    it:check(it:number(P, "select count(*) from events where kind = 'rest'") >= 2, "events for what came after it"),
    unseen(P),
    it:audit(Target, Before, [processes]),
    it:balance(P).

late(T) ->
    {Target, Before} = target(T),
    Lib = filename:absname(it:build(T) ++ "/test/slow_reader.so"),
    File = it:path(T, "slow"),
    Load = it:load(T, Target, ["8", "600s"]),
    P = it:kprofd(T, Target, #{tiers => tiers("{max_lag_ms, 200}"), args => ["-interval", "1s"],
                               env => [{"LD_PRELOAD", Lib}, {"SLOW_READER", File}]}),
    it:armed(P),
    it:until("events come", fun() -> it:sent(Target) > 1000 end),
    ok = file:write_file(File, ""),
    it:saw(P, "tracing is paused for 1 s: .* [0-9]+ ms behind, more than max_lag_ms, 200; then 1 request in"),
    ok = file:delete(File),
    it:saw(P, "tracing was paused for [0-9]+ s: .*; now .*Lost: "),
    it:until("events come again", fun() -> it:number(P, "select count(*) from events where kind = 'resume'") >= 1 end),
    says(P, ["\"trips\":[1-9]", "\"cut\":[2-9]"]),
    it:terminate(P),
    it:kill(Load),
    unseen(P),
    it:audit(Target, Before, [processes]),
    it:balance(P).

%% While another program holds the database's lock windows wait; when too many
%% do, nothing more is measured that could not be kept.
backlog(T) ->
    {Target, Before} = target(T),
    Load = it:load(T, Target, ["8", "600s"]),
    P = it:kprofd(T, Target, #{tiers => tiers("{max_backlog_percent, 1}"), args => ["-interval", "1s"]}),
    it:armed(P),
    it:until("a window is written", fun() -> it:number(P, "select count(*) from time_window") >= 1 end),
    Locker = open_port({spawn_executable, os:find_executable("sqlite3")},
                       [{args, ["-batch", it:db(P)]}, exit_status, hide]),
    port_command(Locker, ".timeout 10000\nbegin immediate;\n"),
    it:until("it trips", 60000, fun() -> it:count(P, "figures came faster than they were written: they filled [0-9]+ %") > 0 end),
    it:saw(P, "tracing is paused for 2 s more: figures came"),
    resting(P, Target, max_backlog_percent),
    port_close(Locker),
    it:saw(P, "tracing was paused for"),
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    it:terminate(P),
    it:kill(Load),
    it:equal("rows lost", 0, maps:get(store, it:losses(P), 0)),
    unseen(P),
    it:audit(Target, Before, [processes]),
    it:balance(P).

%% Nothing but the counter of requests is armed, and kprof status says why.
resting(P, Target, Cause) ->
    says(P, ["\"state\":\"tripped\"", "\"resting\":true", ["\"last_cause\":\"", atom_to_list(Cause), "\""]]),
    it:equal("armed while it rests", [{{requests, handle_request, 2}, call_count}],
             [{MFA, Key} || {MFA, _, Key, _} <- it:call(Target, it_stub, armed, [?MFAS])]).

unseen(P) ->
    Losses = it:losses(P),
    it:check(maps:get(unseen, Losses, 0) > 0, "unseen requests in ~0p", [Losses]).

says(P, Patterns) ->
    {ok, Text} = it:control(P, "status json"),
    [it:check(re:run(Text, Pattern) =/= nomatch, "'~s' in ~ts", [Pattern, Text]) || Pattern <- Patterns].

target(T) ->
    Target = it:target(T, #{config => "#{handle => #{wait_ms => 1}}"}),
    {Target, it:settled(Target)}.

tiers(Limit) ->
    {ok, Text} = file:read_file(it:tiers()),
    [Text, "{overload, [", Limit, ", {pause_s, 1}]}.\n"].
