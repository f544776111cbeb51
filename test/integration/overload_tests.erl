%% More than can be followed: the agent disarms by itself, what was missed is
%% counted, and profiling goes on after the pause. The target's own work never
%% suffers more than that.
-module(overload_tests).

-export([tests/0]).

-define(MFAS, [{requests, handle_request, 2}, {network_server, parse_request, 1},
               {formatter, format_response, 1}, {db, network_request, 1}, {db, transaction, 1},
               {db, transaction, 2}, {accounting, incr_reqs, 1}]).

tests() ->
    [{"trips by age", 90, fun(T) -> trips(T, "{max_age_ms, 1}", "age_ms", fun(_) -> ok end) end},
     {"trips by queue", 90, fun(T) -> trips(T, "{max_queue, 100}", "queue", fun suspend/1) end},
     {"trips by memory", 90, fun(T) -> trips(T, "{max_memory_mb, 1}, {max_queue, 10000000}", "memory", fun suspend/1) end},
     {"trips by kprofd's memory", 90, fun memory/1},
     {"trips by kprofd's lag", 90, fun late/1},
     {"trips by what waits for the disk", 120, fun backlog/1}].

%% Events pile up while the agent does not run.
suspend(Target) ->
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
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
    Provoke(Target),
    it:until("the agent trips", fun() -> it:agent_state(Target) =:= tripped end),
    %% But for the counter of requests nothing is armed. It may have gone on
    %% meanwhile, and even have tripped again: then this look says nothing.
    Trips = it:count(P, "trip:"),
    Armed = it:call(Target, it_stub, armed, [?MFAS]),
    it:agent_state(Target) =:= tripped andalso it:times_armed(P) =< Trips andalso
        it:count(P, "trip:") =:= Trips andalso
        it:equal("armed while tripped", [{{requests, handle_request, 2}, call_count}],
                 [{MFA, Key} || {MFA, _, Key, _} <- Armed]),
    it:saw(P, "trip: .*" ++ Word),
    it:until("it goes on", fun() -> it:times_armed(P) >= 2 end),
    it:terminate(P),
    it:check(it:is_running(Load), "the load goes on"),
    it:kill(Load),
    it:check(it:number(P, "select count(*) from events where kind = 'trip'") >= 1, "an event for the trip"),
    Losses = it:losses(P),
    it:check(maps:get(dropped, Losses, 0) > 0, "dropped events in ~0p", [Losses]),
    it:check(maps:get(unseen, Losses, 0) > 0, "unseen requests in ~0p", [Losses]),
    it:audit(Target, Before, [processes]),
    it:balance(P),
    {note, io_lib:format("~0p", [Losses])}.

%% It has more than it may, and so never goes on: rests get longer.
memory(T) ->
    {Target, Before} = target(T),
    Load = it:load(T, Target, ["8", "600s"]),
    P = it:kprofd(T, Target, #{tiers => tiers("{max_kprofd_mb, 1}"), args => ["-interval", "1s"]}),
    it:saw(P, "trip: kprofd has [0-9]+ MiB of memory, more than max_kprofd_mb, 1; rests for 1 s"),
    it:saw(P, "rest: for 2 s more: kprofd has "),
    it:saw(P, "rest: for 4 s more: "),
    it:equal("times armed", 1, it:times_armed(P)),
    resting(P, Target, kprofd_memory),
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
    it:saw(P, "trip: kprofd is [0-9]+ ms behind, more than max_lag_ms, 200; rests for 1 s, then samples one request in"),
    ok = file:delete(File),
    it:saw(P, "is profiled again after [0-9.]+ s; lost: "),
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
    it:until("it trips", 60000, fun() -> it:count(P, "trip: what waits to be written fills [0-9]+ % of its room") > 0 end),
    it:saw(P, "rest: for 2 s more: what waits"),
    resting(P, Target, store_backlog),
    port_close(Locker),
    it:saw(P, "is profiled again after"),
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
