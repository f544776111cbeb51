%% Nodes that are named with a port: it makes no other node of one, and it is where
%% kprofd connects, also later.
-module(port_tests).

-export([tests/0]).

tests() ->
    [{"a port of the file, in a cluster", 90, fun listed/1},
     {"options of the connection are passed on", 90, fun passed_on/1}].

%% The cluster knows no port, the file has one: one target.  The port of a file that
%% is read again is for the next connection.
listed(T) ->
    #{node := Node} = Target = it:target(T),
    Before = it:settled(Target),
    Port = port(Target),
    Listed = fun(P) -> it:write(T, "nodes", ["# with its port\n", it_reach:with_port(Node, P), "\n"]) end,
    Args = ["-target-file", Listed(Port), "-cluster", Node, "-match", Node, "-interval", "1s"],
    P = it:kprofd(T, [], #{args => Args}),
    it:armed(P),
    it:equal("armed", [{Node, armed, Port}], states(P)),
    Other = it:free_port(),
    _ = Listed(Other),
    {ok, Said} = it:control(P, "reload"),
    it:check(string:find(Said, "targets: 0 added, 0 removed, 1 at another port") =/= nomatch, "~ts", [Said]),
    it:equal("goes on", [{Node, armed, Port}], states(P)),
    cut(Target),
    it:saw(P, "cannot connect to '" ++ Node ++ "': .* port " ++ integer_to_list(Other)),
    _ = Listed(Port),
    it:signal(P, "HUP"),
    it:until("it is armed again", fun() -> states(P) =:= [{Node, armed, Port}] end),
    it:loaded(it:load(T, Target, ["2", "50"])),
    it:until("requests closed", fun() -> it:assembled(P, 50) end),
    %% What was typed is found by a glob of the name.
    {ok, Status} = it:control(P, "status node=" ++ Node),
    it:check(string:find(Status, "connection  127.0.0.1:" ++ integer_to_list(Port)) =/= nomatch, "~ts", [Status]),
    it:terminate(P),
    it:equal("nodes of the database", [[list_to_binary(Node)]], it:sql(P, "select distinct node from tier_stats")),
    it:audit(Target, Before, [processes, nodes]).

%% Neither kprofd nor the programs that it runs for a proposal could reach it without:
%% it has no epmd, and takes nothing but TLS.
passed_on(T) ->
    #{node := Node} = Target = it:target(T, #{transport => tls, port => free}),
    Before = it:settled(Target),
    Alias = "it_alias@" ++ lists:last(string:split(Node, "@")),
    Port = integer_to_list(port(Target)),
    Reach = ["-dist-port", Port, "-cookie-file", filename:absname(maps:get(cookie, T)) | it_reach:options(Target)],
    Load = it:load(T, Target, ["2", "100000s", "5"]),
    Said = in_directory(T, ["-target", Node, "-propose", "-quiet", "-duration", "1s" | Reach], 0),
    it:check(filelib:is_regular(it:path(T, Node ++ ".tiers.conf")), "a proposal: ~ts", [Said]),
    %% A node that answers at the port of another one is told.
    Wrong = in_directory(T, ["-target", Alias, "-tiers", Node ++ ".tiers.conf", "-resolve", Alias ++ "=127.0.0.1:" ++ Port
                             | tl(tl(Reach))], 1),
    it:check(string:find(Wrong, "is '" ++ Node ++ "', not '" ++ Alias ++ "'") =/= nomatch, "~ts", [Wrong]),
    it:kill(Load),
    %% With its first connection the node's own ssl starts a process.
    it:audit(Target, Before, [nodes, processes, registered]).

%% kprofd in the test's directory, without an epmd that it could ask.
in_directory(T, Args, Status) ->
    P = it:start(T, "kprofd" ++ integer_to_list(Status),
                 ["env", "-C", it:path(T, ""), filename:absname(filename:join(it:build(T), "kprofd")) | Args],
                 [{"ERL_EPMD_PORT", integer_to_list(it:free_port())}]),
    it:equal("status", Status, it:exited(P)),
    unicode:characters_to_list([it:output(P), it:errors(P)]).

port(#{node := Node} = Target) ->
    [Alive, Host] = string:split(Node, "@"),
    {port, Port, _} = it:call(Target, erl_epmd, port_please, [Alive, Host]),
    Port.

cut(Target) ->
    [it:call(Target, erlang, disconnect_node, [N]) || N <- it:call(Target, erlang, nodes, [hidden])].

%% {Node, State, Port} of each target.
states(P) ->
    {ok, Json} = it:control(P, "status json"),
    {match, Found} = re:run(Json, "\"target\":\"([^\"]*)\",\"state\":\"([^\"]*)\",.*?\"address\":\"[^\"]*?:?(\\d*)\"",
                            [global, {capture, all_but_first, list}]),
    [{Node, list_to_atom(State), case Port of "" -> none; _ -> list_to_integer(Port) end} || [Node, State, Port] <- Found].
