%% A target is profiled the same however it is reached: over IPv6, without an epmd. The figures are exact; it is clean after
%% kprofd was killed, after the network was cut, and in the end.
-module(transport_tests).

-export([tests/0]).

-define(REQUESTS, 20000).
-define(FEW, 200).
-define(ARGS, ["-interval", "1s"]).
-define(TIERS, ["formatter", "db", "accounting"]).

tests() ->
    [{"every request, kprofd killed, the connection lost: " ++ Name, 120, with(Way, fun life/1)}
     || {Name, Way} <- [{"plain", #{}}, {"IPv6", #{transport => inet6}}, {"no epmd", #{port => free}},
                        {"IPv6, no epmd", #{transport => inet6, port => free}}]] ++
    [{"network cut, " ++ Name, 120, with(Way, fun(T) -> cut(T, Side) end)}
     || {Name, Way, Side} <- [{"in silence, over IPv6", #{transport => inet6}, both}]].

with(Way, Test) ->
    fun(T) -> Test(maps:merge(T, Way)) end.

%% ------------------------------------------------------------ life ----

life(T) ->
    {Target, Mark} = it_audit:begins(T, roomy()),
    P = it:kprofd(T, Target, #{db => "one.db", args => ?ARGS}),
    it:armed(P),
    every(Target, P),
    killed(T, Target, Mark, P),
    Next = it:kprofd(T, Target, #{db => "one.db", args => ?ARGS}),
    it:armed(Next),
    few(Target, Next),
    [Node] = it:call(Target, erlang, nodes, [connected]),
    true = it:call(Target, erlang, disconnect_node, [Node]),
    it:saw(Next, "lost '"),
    it:until("armed again", fun() -> it:times_armed(Next) >= 2 end),
    few(Target, Next),
    it:terminate(Next),
    it_audit:ends(Target, Mark),
    it_audit:database(Next, 1),
    {note, io_lib:format("~0p", [it:losses(Next)])}.

%% A connection that is busy would pause tracing: so much may wait, in KiB.
roomy() -> #{args => ["+zdbbl", "262144"]}.

%% All of them, and of each other tier all calls, but for requests that share a label by
%% chance, which are counted.
every(Target, P) ->
    Before = truth(Target),
    ?REQUESTS = it:call(Target, it_driver, paced, [?REQUESTS]),
    it:until("all are in the database", fun() -> entry_calls(P) >= ?REQUESTS end),
    it:until("all have ended", fun() -> it:requests(P) >= ?REQUESTS end),
    it:equal("entry calls", ?REQUESTS, it:balance(P)),
    it:equal("lost", #{}, maps:remove(tree, it:lost(P))),
    it:equal("requests", ?REQUESTS, it:requests(P)),
    Collided = maps:get(collided, it:losses(P), 0),
    Made = made(Before, truth(Target)),
    [it:check(N > 0, "calls of ~s", [Tier]) || {Tier, N} <- maps:to_list(Made)],
    Calls = [{Tier, N, calls(P, Tier)} || {Tier, N} <- [{"handle", ?REQUESTS} | maps:to_list(Made)]],
    [it:check(Got =< N andalso Got >= N - Collided * 8, "~s: ~b calls of ~b, and ~b collided", [Tier, Got, N, Collided])
     || {Tier, N, Got} <- Calls].

entry_calls(P) ->
    try it:number(P, "select sum(entry_calls) from time_window")
    catch throw:{check, _} -> 0         % there is no file yet
    end.

truth(Target) ->
    Truth = [{atom_to_list(Layer), N} || {Layer, _, N, _} <- it:call(Target, sample_truth, get, [])],
    maps:from_list([{Tier, lists:sum([N || {Layer, N} <- Truth, Layer =:= Tier])} || Tier <- ?TIERS]).

made(Before, After) ->
    maps:map(fun(Tier, N) -> N - maps:get(Tier, Before) end, After).

calls(P, Tier) ->
    lists:sum([N || {Name, _, N, _} <- it:calls_by_tier(P), Name =:= Tier]).

%% Under load, and whatever is under way then is counted in what comes after it.
killed(T, Target, Mark, P) ->
    Load = it:load(T, Target, ["8", "600s"]),
    it:assembles(P, 100),
    it:kill(P),
    it_audit:during(Target, Mark),
    it:kill(Load).

few(Target, P) ->
    Then = seen(P),
    ?FEW = it:call(Target, it_driver, handle, [?FEW]),
    it:until("requests", fun() -> seen(P) - Then >= ?FEW end).

seen(P) ->
    it:said(P, "([0-9]+) assembled") + it:said(P, "collided ([0-9]+)").

%% ------------------------------------------------------------- cut ----

cut(T, Side) ->
    connection_tests:cut(T, Side).
