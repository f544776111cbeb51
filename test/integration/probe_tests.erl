%% Which probe it is, and that the native one leaves nothing behind.
-module(probe_tests).

-export([tests/0]).

tests() ->
    [{"auto takes the native one, and says so", 60, fun auto/1},
     {"what kprofd takes by itself", 60, fun default/1},
     {"auto with libraries that are not for this node", 120, fun unfit/1},
     {"auto without a library is the relay, and says why", 60, fun without/1},
     {"native without a library fails", 60, fun none/1},
     {"a library that is none", 60, fun broken/1},
     {"native: the agent is killed", 60, fun killed/1},
     {"native: stopped by the operator", 60, fun operator/1},
     {"native: kprofd is killed and comes back", 90, fun comes_back/1},
     {"native: attached and detached under load", 300, fun cycles/1},
     {"native: rings that nobody empties", 90, fun overrun/1}].

-define(REQUESTS, 100).

kprofd(T, Target, Probe, More) ->
    it:kprofd(T, Target, #{args => ["-interval", "2s", "-probe", Probe | More]}).

native(T, Target) ->
    kprofd(T, Target, "native", it:probe_library(T)).

begins(T) ->
    Target = it:target(T),
    {Target, it:settled(Target)}.

requests(T, Target) ->
    #{requests := ?REQUESTS} = it:loaded(it:load(T, Target, ["4", integer_to_list(?REQUESTS)])).

auto(T) ->
    {Target, Before} = begins(T),
    P = kprofd(T, Target, "auto", it:probe_library(T)),
    it:armed(P),
    it:saw(P, "probe of '.*': native$"),
    {ok, Status} = it:control(P, "status"),
    it:check(string:find(Status, "native probe") =/= nomatch, "status says which"),
    requests(T, Target),
    it:terminate(P),
    it:equal("requests", ?REQUESTS, it:requests(P)),
    it:equal("event", [[<<"native">>]], it:sql(P, "select text from events where kind = 'probe'")),
    it:audit(Target, Before).

-define(REMEDY, " \\(-probe-library says where the target has the library, -probe-send sends it\\)$").

%% A target with a root file system of its own has no library there.
default(T) ->
    {Target, Before} = begins(T),
    P = it:kprofd(T#{probe => default}, Target, #{}),
    it:armed(P),
    {ok, Status} = it:control(P, "status"),
    [Event, Line, Probe] =
        case T of
            #{library := _} ->
                ["relay: .* exact tiers alone: .*cannot load '.*/kprof_probe.so': Failed to load .*No such file.*" ?REMEDY,
                 "^probe +relay: .* exact tiers alone: .*cannot load ", ", relay probe$"];
            _ -> ["native$", "^sampling ", ", native probe$"]
        end,
    it:saw(P, "probe of '.*': " ++ Event),
    [match = re:run(Status, Re, [multiline, {capture, none}]) || Re <- [Line, Probe]],
    requests(T, Target),
    it:terminate(P),
    [[Text]] = it:sql(P, "select text from events where kind = 'probe'"),
    match = re:run(Text, "^" ++ Event, [{capture, none}]),
    it:equal("errors are not seen", is_map_key(library, T),
             it:number(P, "select count(*) from request_stats where errors is null") > 0),
    it:audit(Target, Before).

%% Its end is missing, which would take the node down; of another machine; and of
%% another module.
unfit(#{build := Build} = T) ->
    {ok, <<Begin:18/binary, _:16, End/binary>> = Whole} = file:read_file(filename:join(Build, "kprof_probe.so")),
    {ok, Other} = file:read_file(filename:join(Build, "kprof_calls_probe.so")),
    {Target, Before} = begins(T),
    [begin
         P = kprofd(T, Target, "auto", ["-probe-library", library(T, Bytes)]),
         it:armed(P),
         it:saw(P, "probe of '.*': relay: .*cannot load '.*': .*" ++ Why),
         requests(T, Target),
         it:terminate(P),
         it:equal(["requests, ", Why], ?REQUESTS, it:requests(P))
     end || {Bytes, Why} <- [{binary:part(Whole, 0, 4096), "its end is missing"},
                             {<<Begin/binary, 183:16/little, End/binary>>, "Failed to load"},
                             {Other, "does not match"}]],
    it:audit(Target, Before).

%% One with these bytes, as the target names it.
library(#{root := Root, library := Theirs}, Bytes) ->
    File = filename:join(filename:dirname(Theirs), "unfit.so"),
    ok = file:write_file(Root ++ File, Bytes),
    File;
library(T, Bytes) ->
    File = filename:absname(it:path(T, "unfit.so")),
    ok = file:write_file(File, Bytes),
    File.

without(T) ->
    {Target, Before} = begins(T),
    P = kprofd(T, Target, "auto", ["-probe-library", "/nowhere/kprof_probe.so"]),
    it:armed(P),
    it:saw(P, "probe of '.*': relay: .*cannot load '/nowhere/kprof_probe.so': .*No such file"),
    requests(T, Target),
    it:terminate(P),
    it:equal("requests", ?REQUESTS, it:requests(P)),
    it:equal("event", 1, it:number(P, "select count(*) from events where kind = 'probe' and text like 'relay: %'")),
    it:audit(Target, Before).

none(T) ->
    {Target, Before} = begins(T),
    P = kprofd(T, Target, "native", ["-probe-library", "/nowhere/kprof_probe.so"]),
    it:ended(P, 1, "cannot load '/nowhere/kprof_probe.so': Failed to load .*" ?REMEDY),
    it:audit(Target, Before).

%% Of another program, and no library at all.
broken(T) ->
    {Target, Before} = begins(T),
    P = kprofd(T, Target, "native", ["-probe-library", "/etc/passwd"]),
    it:ended(P, 1, "cannot load '/etc/passwd'"),
    it:audit(Target, Before).

killed(T) ->
    {Target, Before} = begins(T),
    Load = it:load(T, Target, ["4", "60s"]),
    P = native(T, Target),
    it:armed(P),
    it:until("requests come", fun() -> assembled(P) > 20 end),
    true = it:call(Target, erlang, exit, [it:call(Target, erlang, whereis, [kprof_agent]), kill]),
    it:saw(P, "lost '"),
    it:until("armed again", fun() -> length(binary:matches(it:errors(P), <<"kprofd: profiling ">>)) =:= 2 end),
    it:kill(Load),
    it:terminate(P),
    it:audit(Target, Before).

assembled(P) ->
    {ok, Text} = it:control(P, "status"),
    case re:run(Text, "requests +([0-9]+) assembled", [{capture, all_but_first, list}]) of
        {match, [N]} -> list_to_integer(N);
        nomatch -> 0
    end.

operator(T) ->
    {Target, Before} = begins(T),
    P = native(T, Target),
    it:armed(P),
    requests(T, Target),
    #{probe := native, events_dropped := 0} = it:call(Target, kprof_agent, status, []),
    ok = it:call(Target, kprof_agent, stop, []),
    it:ended(P, 3, "was stopped in the target"),
    it:audit(Target, Before).

comes_back(T) ->
    {Target, Before} = begins(T),
    Load = it:load(T, Target, ["4", "60s"]),
    [begin
         P = native(T, Target),
         it:armed(P),
         it:until("requests come", fun() -> assembled(P) > 20 end),
         it:kill(P)
     end || _ <- [1, 2]],
    P = native(T, Target),
    it:armed(P),
    it:kill(Load),
    it:terminate(P),
    it:audit(Target, Before).

%% Calls are inside the traced functions all the time.
cycles(T) ->
    {Target, Before} = begins(T),
    Load = it:load(T, Target, ["4", "280s"]),
    [begin
         P = native(T, Target),
         it:armed(P),
         it:terminate(P)
     end || _ <- lists:seq(1, 10)],
    it:kill(Load),
    it:audit(Target, Before).

%% The agent is held; rings fill, drop and count; then it trips.
overrun(T) ->
    {Target, Before} = begins(T),
    P = it:kprofd(T, Target, #{args => ["-interval", "2s", "-probe", "native" | it:probe_library(T)],
                               tiers => "{tiers, [{handle, {requests, handle_request, 2}},\n"
                                        " {db, {db, '_', '_'}}, {lists, {lists, '_', '_'}}]}.\n"
                                        "{entry, {requests, handle_request, 2}}.\n"
                                        "{overload, [{max_age_ms, 60000}, {max_memory_mb, 4}, {pause_s, 2}]}.\n"}),
    it:armed(P),
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    true = it:call(Target, erlang, suspend_process, [Agent]),
    Load = it:load(T, Target, ["4", "30s"]),
    it:until("rings are full", fun() -> maps:get(dropped, it:call(Target, kprof_probe, info, [])) > 0 end),
    true = it:call(Target, erlang, resume_process, [Agent]),
    it:saw(P, "found no room in the native probe's rings"),
    it:kill(Load),
    it:terminate(P),
    it:balance(P),
    it:audit(Target, Before).
