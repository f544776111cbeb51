%% kprof trace in several nodes: a request that crosses them is one request, by
%% one clock, whose tree, waits and critical path are those that it has; and
%% nothing stays behind in any of them, however it ends. Where the targets'
%% release is not the host's, one of the nodes is of the host's.
-module(trace_nodes_tests).

-export([tests/0]).

-import(it_kprof, [ends/1, kprof/2, says/2]).

tests() ->
    [{"the way of a request over three nodes", 90, fun way/1},
     {"requests that begin in any of two nodes", 90, fun begins/1},
     {"requests that wait for another node's pool", 120, fun pool/1},
     {"processes of two nodes", 90, fun processes/1},
     {"arguments in two nodes", 90, fun arguments/1},
     {"tokens that another node made", 90, fun tokens_after/1},
     {"what not every node has", 90, fun absent/1},
     {"a limit in one of two nodes", 90, fun limit/1},
     {"a node killed in the middle of a trace", 90, fun node_killed/1},
     {"kprof killed while it traces in two nodes", 120, fun killed/1}].

%% The first server is busy when it is asked, the second waits: each on a node
%% of its own.
way(T) ->
    [{A, _}, {B, _}, {C, _}] = Targets = connected(T, [a, b, c]),
    [it:call(N, it_layers, start, []) || N <- [B, C]],
    File = it:path(T, "way.trace"),
    P = start(T, [A, B, C], ["-entry", "it_layers:request/2", "-o", File, "it_layers"]),
    [done] = it:call(A, it_layers, request, [node_of(B), node_of(C)]),
    {0, _, _} = ends(P),
    [it:call(N, it_layers, stop, []) || N <- [B, C]],
    {0, Out, Remarks} = kprof(T, ["analyse", "-form", "requests", File]),
    [NA, NB, NC] = [atom_to_list(node_of(N)) || {N, _} <- Targets],
    [says(Remarks, "the clock of '" ++ N ++ "' is known to that of '" ++ NA ++ "' to within [0-9.]+ ms")
     || N <- [NB, NC]],
    says(Out, "^request 1: it_layers:request/2 in " ++ NA ++ " <[0-9.]+>, "),
    [{NA, "<" ++ _, 0, _, _, _}, {NB, "it_layer_a", 1, _, _, Busy}, {NC, "it_layer_b", 2, _, Waits, _}] =
        [{Node, Name, length(Indent) div 2, ms(Own), ms(Was), ms(Box)}
         || [Own, Was, _, Box, Indent, Node, Name] <- rows(Out, "[0-9]+  ( *)([^ ]+@[^ ]+) ([^ ]+)")],
    it:check(Busy >= 30, "its mailbox: ~p ms", [Busy]),
    it:check(Waits >= 30, "its wait: ~p ms", [Waits]),
    Steps = [{Node, ms(Was), ms(Box), ms(Own), ms(Gc), ms(At)}
             || [Own, Was, Gc, Box, At, Node] <- rows(Out, "[+]([0-9.]+)  ([^ ]+@[^ ]+) ")],
    it:equal("the critical path", [NA, NB, NB, NC, NC, NB, NB, NA, NA], [element(1, S) || S <- Steps]),
    [it:check(element(I, lists:nth(N, Steps)) >= 30, "step ~b: ~p", [N, Steps]) || {N, I} <- [{2, 3}, {5, 2}]],
    [it:check(Was >= 0 andalso Box >= 0 andalso Own >= 0 andalso Gc >= 0, "no time is less than none: ~p", [Steps])
     || {_, Was, Box, Own, Gc, _} <- Steps],
    %% Each begins where the one before has ended: together they are the request.
    adds_up([{At, Was + Box + Own + Gc} || {_, Was, Box, Own, Gc, At} <- Steps]),
    {match, [Total]} = re:run(Out, "^request 1: .*, ([0-9.]+) ms$", [multiline, {capture, all_but_first, list}]),
    Sum = lists:sum([Was + Box + Own + Gc || {_, Was, Box, Own, Gc, _} <- Steps]),
    it:check(abs(Sum - ms(Total)) < 0.1, "steps make ~p of ~s ms", [Sum, Total]),
    forms(T, File, [NA, NB, NC]),
    gone(Targets).

adds_up([{At, Took}, {Next, _} = Step | More]) ->
    it:check(abs(At + Took - Next) < 0.02, "~p + ~p is not ~p", [At, Took, Next]),
    adds_up([Step | More]);
adds_up([_]) ->
    ok.

%% Each names the node.
forms(T, File, [NA, NB, NC]) ->
    [begin
         {0, Out, _} = kprof(T, ["analyse", "-form", Form, File]),
         says(Out, Text)
     end || {Form, Text} <- [{"tree", NB ++ " it_layer_a <"}, {"callgrind", "ob=" ++ NB ++ " it_layer_a <"},
                             {"callgrind", "cmd: " ++ NA ++ ", " ++ NB ++ ", " ++ NC},
                             {"folded", "^" ++ NC ++ " it_layer_b <[0-9.]+>;it_layers:"},
                             {"speedscope", "\"" ++ NC ++ " it_layer_b <"},
                             {"analysis", "\"" ++ NB ++ " <"},
                             {"events", NB ++ " <[0-9.]+> receive 1[.][0-9]+ " ++ NA ++ " <"}]],
    {0, Events, _} = kprof(T, ["analyse", "-form", "events", File]),
    {match, Times} = re:run(Events, "^(-?[0-9]+) ", [multiline, global, {capture, all_but_first, list}]),
    in_order(messages(Events)),
    it:check(length(Times) > 20, "events: ~ts", [Events]),
    Db = it:path(T, "way.db"),
    {0, "", _} = kprof(T, ["analyse", "-db", Db, File]),
    it:equal("nodes of processes", [[list_to_binary(N)] || N <- [NA, NB, NC]],
             it:sql(#{db => Db, name => "sqlite3", out => Db ++ ".out"},
                    "select distinct n.name from process p join node n on n.id = p.node order by n.id")).

%% None is taken before it was sent.
in_order(Messages) ->
    it:check(length(Messages) >= 4, "messages: ~p", [Messages]),
    [it:check(Sent < Taken, "taken at ~b, and sent at ~b", [Taken, Sent]) || {Sent, Taken} <- Messages].

messages(Events) ->
    {match, Sends} = re:run(Events, "^(-?[0-9]+) ([^ ]+ <[0-9.]+>) send (1[.][0-9]+)$",
                            [multiline, global, {capture, all_but_first, list}]),
    Sent = maps:from_list([{{From, Id}, list_to_integer(At)} || [At, From, Id] <- Sends]),
    {match, Takes} = re:run(Events, "^(-?[0-9]+) [^ ]+ <[0-9.]+> receive (1[.][0-9]+) ([^ ]+ <[0-9.]+>)$",
                            [multiline, global, {capture, all_but_first, list}]),
    [{maps:get({From, Id}, Sent), list_to_integer(At)} || [At, Id, From] <- Takes, is_map_key({From, Id}, Sent)].

%% Clients of both nodes are answered with each other's tokens: what the workers do for each, and
%% the server that these ask, is its own.
pool(T) ->
    [{A, _}, {B, _}] = Targets = connected(T, [a, b]),
    [begin
         {module, it_pool} = it:call(N, code, ensure_loaded, [it_pool]),
         ok = it:call(N, it_pool, start, [2])
     end || N <- [A, B]],
    ok = it:call(A, it_pool, at, [node_of(B)]),
    P = start(T, [A, B], ["-entry", "it_pool:request/1", "-requests", "20", "-form", "events", "it_pool"]),
    Loads = [it:do(N, fun() ->
                              spawn(fun Loop() ->
                                            _ = it_pool:run(6, 20, [hop]),
                                            receive stop -> ok after 0 -> Loop() end
                                    end)
                      end) || N <- [A, B]],
    {0, Out, Remarks} = ends(P),
    [it:do(N, fun() ->
                      Ref = erlang:monitor(process, Load),
                      Load ! stop,
                      receive {'DOWN', Ref, process, _, _} -> ok end
              end) || {N, Load} <- lists:zip([A, B], Loads)],
    [it:call(N, it_pool, stop, []) || N <- [A, B]],
    Calls = maps:map(fun(F, _) ->
                             {match, Found} = re:run(Out, ["call it_pool:", atom_to_list(F), "/"], [global]),
                             length(Found)
                     end, it_pool:per_request(hop)),
    it:equal(["calls: ", Remarks], maps:map(fun(_, N) -> 20 * N end, it_pool:per_request(hop)), Calls),
    gone(Targets).

%% What a node does for a request of the other is part of that, though it calls
%% the entry there too; what it begins itself is its own. As many as were asked
%% for are shown, of both together.
begins(T) ->
    [{A, _}, {B, _}] = Targets = connected(T, [a, b]),
    P = start(T, [A, B], ["-entry", "it_layers:bounce/2", "-requests", "6", "-form", "events", "it_layers"]),
    [begin
         it:equal("answer", [3], it:call(X, it_layers, bounce, [node_of(Y), 3])),
         %% So far apart that the other node knows that it has ended.
         receive after 300 -> ok end
     end || {X, Y} <- [{A, B}, {B, A}, {A, B}, {B, A}]],
    [it:equal("answer", [3], it:call(X, it_layers, bounce, [node_of(Y), {node_of(X), 3}]))
     || {X, Y} <- [{A, B}, {B, A}]],
    {0, Out, _} = ends(P),
    [NA, NB] = [atom_to_list(node_of(N)) || N <- [A, B]],
    %% By request: where it began, and how often what was called where.
    Calls = calls(Out),
    [it:equal(io_lib:format("request ~b", [N]),
              lists:sort([{X, "bounce/2", 1}, {Y, "chain/2", 1}, {Y, "ponder/0", 3}]), maps:get(N, Calls, none))
     || {N, {X, Y}} <- [{1, {NA, NB}}, {2, {NB, NA}}, {3, {NA, NB}}, {4, {NB, NA}}]],
    [it:equal(io_lib:format("request ~b, which comes back", [N]),
              lists:sort([{X, "bounce/2", 1}, {Y, "chain/2", 1}, {Y, "bounce/2", 1}, {X, "chain/2", 1},
                          {X, "ponder/0", 3}]), maps:get(N, Calls, none))
     || {N, {X, Y}} <- [{5, {NA, NB}}, {6, {NB, NA}}]],
    it:equal("requests", lists:seq(1, 6), lists:sort(maps:keys(Calls))),
    in_order(messages(Out)),
    gone(Targets).

%% {Request => [{Node, Function, HowOften}]}, of what processes last worked for.
calls(Out) ->
    {match, Rows} = re:run(Out, "^-?[0-9]+ ([^ ]+) (<[0-9.]+>) (request|call) (?:it_layers:)?([a-z0-9][^: \n]*)(?: by|$)",
                           [multiline, global, {capture, all_but_first, list}]),
    Of = fun([Node, P, "request", N], {Found, At}) ->
                 {Found, At#{{Node, P} => list_to_integer(N)}};
            ([Node, P, "call", F], {Found, At}) ->
                 {[{maps:get({Node, P}, At), {Node, F}} | Found], At}
         end,
    {Calls, _} = lists:foldl(Of, {[], #{}}, Rows),
    maps:map(fun(_, Fs) -> [{Node, F, length([x || G <- Fs, G =:= {Node, F}])} || {Node, F} <- lists:usort(Fs)] end,
             maps:groups_from_list(fun({N, _}) -> N end, fun({_, F}) -> F end, Calls)).

%% Not by request: what processes of both do, each with its node, whoever is told
%% of it. A node of another file system may not have the library.
processes(T) ->
    [{A, _}, {B, _}] = Targets = connected(T, [a, b]),
    [begin
         P = start(T, [A, B], Args ++ ["it_counted"]),
         [it:call(N, it_counted, spin, [5]) || N <- [A, B]],
         it:signal(P, "INT"),
         {0, Out, Errors} = ends(P),
         [begin
              Name = atom_to_list(node_of(N)),
              says(Out, Name ++ " <[0-9.]+>"),
              it:equal([Name, " says why with ", Args], Says,
                       re:run(Errors, "'" ++ Name ++ "': not by the native probe: cannot load '", [{capture, none}]))
          end || {N, Says} <- Each]
     end || {Args, Each} <- [{["-probe", "relay"], [{A, nomatch}, {B, nomatch}]},
                             {["-probe-library", "/nowhere/x.so"], [{A, match}, {B, match}]},
                             {[], [{N, nomatch} || N <- case T of #{root := none} -> [A, B]; _ -> [B] end]}]],
    {0, _, Twice} = run(T, [A, A], ["-for", "100ms", "it_counted"]),
    it:equal("one that is given twice is one", nomatch, re:run(Twice, "the clock of")),
    {2, _, Apply} = run(T, [A, B], ["-apply", "it_counted:work(1)", "it_counted"]),
    says(Apply, "-apply goes with one -target"),
    gone(Targets).

%% What is kept has them too: each call its own, in whichever node.
arguments(T) ->
    [{A, _}, {B, _}] = Targets = connected(T, [a, b]),
    [NA, NB] = [atom_to_list(node_of(N)) || N <- [A, B]],
    File = it:path(T, "args.trace"),
    P = start(T, [A, B], ["-entry", "it_layers:bounce/2", "-requests", "2", "-args", "-o", File, "-form", "events",
                          "it_layers"]),
    it:equal("answer", [3], it:call(A, it_layers, bounce, [node_of(B), 3])),
    it:equal("answer", [2], it:call(B, it_layers, bounce, [node_of(A), 2])),
    {0, Out, _} = ends(P),
    [says(Out, "^-?[0-9]+ " ++ Node ++ " <[0-9.]+> call it_layers:" ++ Call ++ "\\) by ")
     || {Node, Call} <- [{NA, "bounce/2 \\('" ++ NB ++ "', 3"}, {NB, "chain/2 \\(.*, 3"},
                         {NB, "bounce/2 \\('" ++ NA ++ "', 2"}, {NA, "chain/2 \\(.*, 2"}]],
    {0, Out, _} = kprof(T, ["analyse", "-form", "events", File]),
    {0, Requests, _} = kprof(T, ["analyse", "-form", "requests", File]),
    says(Requests, "^request 1: it_layers:bounce/2 \\('" ++ NB ++ "', 3\\) in " ++ NA ++ " <"),
    says(Requests, "^request 2: it_layers:bounce/2 \\('" ++ NA ++ "', 2\\) in " ++ NB ++ " <"),
    gone(Targets).

%% A process that has worked for a request of the other node, and goes on, loses
%% its token when the trace ends.
tokens_after(T) ->
    [{A, _}, {B, _}] = Targets = connected(T, [a, b]),
    [begin
         P = start(T, [A, B], ["-entry", "it_layers:leave/2", "-form", "events", "it_layers:ponder/0"]),
         it:equal("it has begun", ok, it:call(X, it_layers, leave, [node_of(Y), it_left])),
         {0, Out, _} = ends(P),
         says(Out, "^-?[0-9]+ " ++ atom_to_list(node_of(Y)) ++ " <[0-9.]+> call it_layers:ponder/0 "),
         it:equal("its token", {sequential_trace_token, []},
                  it:do(Y, fun() -> process_info(whereis(it_left), sequential_trace_token) end)),
         it:do(Y, fun() -> exit(whereis(it_left), kill) end)
     end || {X, Y} <- [{A, B}, {B, A}]],
    gone(Targets).

%% Each node has only some of the functions; what none has is refused.
absent(T) ->
    [{A, _}, {B, _}] = Targets = connected(T, [a, b]),
    it:do(A, fun() ->
                     {ok, only_a, Beam} = compile:forms(only_a()),
                     {module, only_a} = code:load_binary(only_a, "only_a.beam", Beam),
                     ok
             end),
    P = start(T, [B, A], ["-entry", "only_a:go/1", "-form", "events", "it_layers"]),
    [2] = it:call(A, only_a, go, [node_of(B)]),
    {0, Out, _} = ends(P),
    says(Out, atom_to_list(node_of(B)) ++ " <[0-9.]+> call it_layers:chain/2 "),
    says(Out, atom_to_list(node_of(A)) ++ " <[0-9.]+> call only_a:go/1 "),
    {1, _, Errors} = run(T, [A, B], ["-entry", "only_a:go/1", "it_layers", "no_such:thing/3"]),
    says(Errors, "no target has a function 'no_such:thing/3'"),
    it:do(A, fun() -> code:purge(only_a), code:delete(only_a), code:purge(only_a), ok end),
    gone(Targets).

%% go(N) -> it_layers:bounce(N, 2).
only_a() ->
    Bounce = {call, 1, {remote, 1, {atom, 1, it_layers}, {atom, 1, bounce}}, [{var, 1, 'N'}, {integer, 1, 2}]},
    [{attribute, 1, module, only_a}, {attribute, 1, export, [{go, 1}]},
     {function, 1, go, 1, [{clause, 1, [{var, 1, 'N'}], [], [Bounce]}]}].

%% The other node's part is there, and it is said which has ended it.
limit(T) ->
    [{A, _}, {B, _}] = Targets = connected(T, [a, b]),
    P = start(T, [A, B], ["-entry", "it_layers:bounce/2", "-requests", "50", "-max-events", "200", "it_layers"]),
    it:equal("answer", [100], it:call(A, it_layers, bounce, [node_of(B), 100])),
    {1, Out, Errors} = ends(P),
    says(Errors, "'" ++ atom_to_list(node_of(B)) ++ "' ended early: as many events as were allowed"),
    says(Errors, "of 50 requests 1 had begun"),
    says(Out, "it_layers:bounce/2"),
    gone(Targets).

node_killed(T) ->
    [{A, _} = First, {B, _}] = connected(T, [a, b]),
    P = start(T, [A, B], ["-entry", "it_layers:bounce/2", "-requests", "50", "it_layers"]),
    it:equal("answer", [3], it:call(A, it_layers, bounce, [node_of(B), 3])),
    receive after 100 -> ok end,
    it:stop_target(B),
    {1, Out, Errors} = ends(P),
    says(Errors, "'" ++ atom_to_list(node_of(B)) ++ "': the connection is over"),
    says(Errors, "'" ++ atom_to_list(node_of(B)) ++ "' ended early: the connection to the node"),
    says(Errors, "of 50 requests 1 had begun, and 1 ended"),
    says(Out, "it_layers:bounce/2"),
    says(Out, "it_layers:chain/2"),
    gone([First]).

%% In the middle of requests that cross, again and again.
killed(T) ->
    [{A, _}, {B, _}] = Targets = connected(T, [a, b]),
    Other = node_of(B),
    it:do(A, fun() -> spawn(fun() -> register(it_bouncer, self()), bounce(Other) end), ok end),
    [begin
         P = it_kprof:started(T, command(T, [A, B], Args ++ ["it_layers", "it_counted", "maps"])),
         receive after Ms -> ok end,
         it:kill(P),
         [it:audit(N, Before, [processes, nodes, registered]) || {N, Before} <- Targets]
     end || Args <- [["-for", "20s"], ["-entry", "it_layers:bounce/2", "-requests", "100000"]],
            Ms <- [60, 200, 700, 1500]],
    it:do(A, fun() -> exit(whereis(it_bouncer), kill), ok end),
    gone(Targets).

bounce(Other) ->
    it_layers:bounce(Other, 2),
    bounce(Other).

%% ------------------------------------------------------------ helpers ----

%% With what each is like; connected, so that no request is about that.
connected(T, Names) ->
    Of = lists:zip(Names, [T, host(T) | lists:duplicate(length(Names) - 2, T)]),
    Targets = [First | Others] =
        [it:target(E, #{kind => plain, node => name(N), name => "target_" ++ atom_to_list(N)}) || {N, E} <- Of],
    [true = it:call(First, net_kernel, connect_node, [node_of(N)]) || N <- Others],
    it:until("all know each other",
             fun() -> lists:all(fun(N) -> length(it:call(N, erlang, nodes, [])) =:= length(Others) end, Targets) end),
    [{module, M} = it:call(N, code, ensure_loaded, [M]) || N <- Targets, M <- [it_layers, it_counted]],
    %% What a node does when it first needs it is not ours.
    [it:call(N, inet, gethostbyname, ["no.such.host.invalid"]) || N <- Targets],
    [it:equal("answer", [1], it:call(X, it_layers, bounce, [node_of(Y), 1])) || X <- Targets, Y <- Targets, X =/= Y],
    [{N, it:settled(N)} || N <- Targets].

host(#{root := none} = T) -> T;
host(#{build := Build} = T) ->
    T#{path := os:getenv("PATH"), ebins := [filename:join([Build, "integration", "ebin"]), ""]}.

gone(Targets) ->
    [it:audit(N, Before, [processes, nodes]) || {N, Before} <- Targets].

%% Of this test alone: tests run at the same time.
name(Name) ->
    lists:concat(["tn_", Name, "_", os:getpid(), [D || D <- pid_to_list(self()), D >= $0, D =< $9], "@127.0.0.1"]).

node_of(#{node := Node}) -> list_to_atom(Node).

command(#{build := Build, cookie := Cookie}, Targets, Args) ->
    [filename:join(Build, "kprof"), "trace", "-cookie-file", Cookie]
        ++ lists:append([["-target", N] || #{node := N} <- Targets]) ++ Args.

start(T, Targets, Args) ->
    P = it_kprof:started(T, command(T, Targets, Args)),
    it:saw(P, "Ctrl-C ends it"),
    P.

run(T, Targets, Args) ->
    ends(it_kprof:started(T, command(T, Targets, Args))).

%% Thousands are grouped.
rows(Out, Rest) ->
    Text = re:replace(Out, "([0-9]) ([0-9]{3})", "\\1\\2", [global, {return, list}]),
    case re:run(Text, "^ +([0-9.]+) +([0-9.]+) +([0-9.]+) +([0-9.]+) +" ++ Rest,
                [multiline, global, {capture, all_but_first, list}]) of
        {match, Rows} -> Rows;
        nomatch -> it:fail("no rows of ~s in~n~ts", [Rest, Out])
    end.

ms(Text) ->
    list_to_float(Text).
