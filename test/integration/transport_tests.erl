%% A target is profiled the same however it is reached: over IPv6, over TLS, without
%% an epmd, where its name is no address. The figures are exact; it is clean after
%% kprofd was killed, after the network was cut, and in the end.
%%
%% tls_tests has what is wrong with certificates, and what changes during a connection.
-module(transport_tests).

-export([tests/0]).

-define(REQUESTS, 20000).
-define(FEW, 200).
-define(ARGS, ["-interval", "1s"]).
-define(TIERS, ["formatter", "db", "accounting"]).

tests() ->
    [{"every request, kprofd killed, the connection lost: " ++ Name, 120, with(Way, fun life/1)}
     || {Name, Way} <- [{"plain", #{transport => plain}}, {"IPv6", #{transport => inet6}}, {"TLS", #{transport => tls}},
                        {"TLS and IPv6", #{transport => tls6}}, {"no epmd", #{transport => plain, port => free}},
                        {"TLS, IPv6, no epmd", #{transport => tls6, port => free}}]] ++
    [{"network cut, " ++ Name, 120, with(Way, fun(T) -> connection_tests:cut(T, Side) end)}
     || {Name, Way, Side} <- [{"in silence, over TLS", #{transport => tls}, both},
                              {"towards kprofd, over TLS", #{transport => tls}, back},
                              {"towards the target, over TLS and IPv6", #{transport => tls6}, there},
                              {"in silence, over IPv6", #{transport => inet6}, both}]] ++
    [{"the native probe over TLS", 60, with(#{transport => tls}, fun native/1)},
     {"a cluster over TLS, followed from one node", 60, with(#{transport => tls}, fun cluster/1)},
     {"what goes with -dist-port, -epmd and -resolve", 90, fun places/1},
     {"each command over TLS, with a port", 120, with(#{transport => tls, port => free}, fun commands/1)}].

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

%% All of them, and of each other tier all calls, but for requests without a label,
%% which are counted.
every(Target, P) ->
    Before = truth(Target),
    ?REQUESTS = it:call(Target, it_driver, paced, [?REQUESTS]),
    it:until("all are in the database", fun() -> entry_calls(P) >= ?REQUESTS end),
    it:until("all have ended", fun() -> it:requests(P) >= ?REQUESTS end),
    it:equal("entry calls", ?REQUESTS, it:balance(P)),
    it:equal("lost", #{}, maps:remove(tree, it:lost(P))),
    it:equal("requests", ?REQUESTS, it:requests(P)),
    Made = made(Before, truth(Target)),
    [it:check(N > 0, "calls of ~s", [Tier]) || {Tier, N} <- maps:to_list(Made)],
    Calls = [{Tier, N, calls(P, Tier)} || {Tier, N} <- [{"handle", ?REQUESTS} | maps:to_list(Made)]],
    [it:equal([Tier, ": calls"], N, Got) || {Tier, N, Got} <- Calls].

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
    it:said(P, "([0-9]+) assembled").

%% ---------------------------------------------------------- native ----

native(T) ->
    Target = it:target(T, roomy()),
    Before = it:settled(Target),
    P = it:kprofd(T#{probe => default}, Target, #{args => ["-probe", "native" | it:probe_library(T)] ++ ?ARGS}),
    it:armed(P),
    ?REQUESTS = it:call(Target, it_driver, paced, [?REQUESTS]),
    it:until("all have ended", fun() -> seen(P) >= ?REQUESTS end),
    it:terminate(P),
    it:equal("entry calls", ?REQUESTS, it:balance(P)),
    it:equal("requests", ?REQUESTS, it:requests(P)),
    it:audit(Target, Before).

%% --------------------------------------------------------- cluster ----

%% The other one is found by the first, and reached in the same way.
cluster(#{n := N} = T) ->
    First = it:target(T, #{name => "first"}),
    Other = it:target(T#{n := N + 1000}, #{name => "other"}),
    pong = it:call(First, net_adm, ping, [list_to_atom(maps:get(node, Other))]),
    Before = [{Target, it:settled(Target)} || Target <- [First, Other]],
    P = it:kprofd(T, [], #{args => ["-cluster", maps:get(node, First), "-match", "it*"] ++ it_reach:options(First) ++ ?ARGS}),
    it:until("both are armed", fun() -> it:times_armed(P) >= 2 end),
    [?FEW = it:call(Target, it_driver, handle, [?FEW]) || Target <- [First, Other]],
    it:until("requests of both", fun() -> it:requests(P) >= 2 * ?FEW end),
    it:terminate(P),
    %% A process that set up the connection between the nodes stays for a while.
    [it:audit(Target, Was, [processes]) || {Target, Was} <- Before].

%% ---------------------------------------------------------- places ----

%% A pod's name is no address outside of the cluster, and what its certificate is for.
places(T) ->
    N = maps:get(n, T),
    Pod = lists:concat(["pod", os:getpid(), "_", N, "@pod-", N, ".invalid"]),
    [_, PodHost] = string:split(Pod, "@"),
    it_certs:leaf(T, "pod", #{hosts => [PodHost]}),
    Nowhere = T#{epmd := it:free_port()},
    Known = it:target(T, #{name => "known"}),
    Fixed = it:target(T#{n := N + 1000}, #{name => "fixed", port => free}),
    Away = it:target(T, #{name => "pod", node => Pod, port => free, transport => tls, tls => #{cert => "pod"}}),
    At = fun(Target) -> integer_to_list(it_reach:port(T, Target)) end,
    Epmd = integer_to_list(it:epmd_port(T)),
    [attached(Nowhere, Target#{typed := maps:get(node, Target)}, Args)
     || {Target, Args} <- [{Known, ["-epmd", Epmd]},
                           {Known, ["-epmd", "127.0.0.1:" ++ Epmd]},
                           {Known, ["-epmd", integer_to_list(it:free_port()), "-resolve",
                                    maps:get(node, Known) ++ "=127.0.0.1:" ++ integer_to_list(it_reach:port(T, Known))]},
                           {Fixed, ["-dist-port", At(Fixed)]},
                           {Away, ["-resolve", Pod ++ "=127.0.0.1:" ++ At(Away)]},
                           {Away, ["-dist-port", At(Away), "-resolve", PodHost ++ "=127.0.0.1"]}]].

attached(T, Target, Args) ->
    Before = it:settled(Target),
    P = it:kprofd(T, Target, #{args => ?ARGS ++ Args}),
    it:armed(P),
    few(Target, P),
    it:terminate(P),
    it:audit(Target, Before).

%% -------------------------------------------------------- commands ----

commands(T) ->
    Target = it:target(T),
    it_kprof:load(Target),
    Before = it:settled(Target),
    File = it:path(T, "proposed.conf"),
    Load = it:load(T, Target, ["4", "600s", "5"]),
    [begin
         {Status, Out, Said} = it_kprof:run(T, Target, Cmd, Args),
         it:equal([Cmd, ": ", Said], 0, Status),
         it_kprof:says(Out, Pattern)
     end || {Cmd, Args, Pattern} <- [{"suggest", ["-for", "1s", "-o", File], ""},
                                     {"stacks", ["-for", "500ms"], "requests:handle_request/2|sample|worker|pool"},
                                     {"count", ["-apply", "it_counted:work(50)", "it_counted"], "it_counted:fib/1"},
                                     {"time", ["-apply", "it_counted:work(50)", "it_counted"], "it_counted:fib/1"},
                                     {"trace", ["-apply", "it_counted:work(5)", "it_counted"], "it_counted:work/1"},
                                     {"clear-tokens", [], ""}]],
    {ok, Tiers} = file:read_file(File),
    it_kprof:says(Tiers, "^\\{entry, \\{"),
    it:kill(Load),
    it:audit(Target, Before, [ets, persistent_terms]).
