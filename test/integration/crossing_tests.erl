%% Requests that go from node to node, which one kprofd profiles: each is one
%% request, its tree names the nodes, and figures are of the node where the
%% calls ran.  Each VM's monotonic clock begins anew, so that those of one host
%% differ by as much as the VMs' ages.
-module(crossing_tests).

-export([tests/0]).

-define(N, 60).
-define(M, 40).

tests() ->
    [{"one request over three nodes", 90, fun crossing/1},
     {"nodes that meet for the first time", 60, fun meeting/1},
     {"a request inside another node's", 90, fun inside/1},
     {"a node killed in the middle of a request", 90, fun killed/1},
     {"an entry of one node alone", 60, fun entry_of_one/1},
     {"clocks of nodes", 60, fun clocks/1},
     {"a reload with requests under way", 90, fun reload/1}].

tiers(More) ->
    ["{tiers, [{here, {it_cross, here, 1}}, {query, {it_cross, query, 1}}, {index, {it_cross, index, 1}},\n"
     "         {task, {it_cross, child, 1}}, {later, {it_cross, later, 1}}, {wait, {it_cross, wait, 1}}]}.\n"
     "{entry, {it_cross, request, 3}}.\n"
     "{identity, fun({it_cross, request, [Kind, _, _]}) -> Kind; (_) -> undefined end}.\n"
     "{sampling, all}.\n{budget, none}.\n{slow_ms, 1}.\n", it:calm() | More].

%% N requests that begin at A and M that begin at B. What each of them calls,
%% and where, is told in it_cross.
crossing(T) ->
    [A, B, C] = Targets = connected(T, [a, b, c]),
    Befores = [it:settled(Target) || Target <- Targets],
    P = it:kprofd(T, Targets, #{tiers => tiers([]), args => ["-interval", "1s"]}),
    armed(P, 3),
    ?N = run(A, ?N, read, B, C),
    ?M = run(B, ?M, write, C, A),
    it:until("requests closed", fun() -> assembled(T, P) =:= [?N, ?M, 0] end),
    it:terminate(P),
    Nodes = [NA, NB, NC] = [node_of(Target) || Target <- Targets],
    it:equal("losses", #{}, it:lost(P)),
    it:equal("entry calls by node", [{NA, ?N, ?N}, {NB, ?M, ?M}, {NC, 0, 0}],
             [{binary_to_list(Node), binary_to_integer(Calls), binary_to_integer(Sampled)}
              || [Node, Calls, Sampled] <-
                     it:sql(P, "select n.name, sum(entry_calls), sum(sampled) from time_window w"
                            " join node n on n.id = w.node_id group by n.name order by n.name")]),
    it:equal("calls by node", calls(Nodes), by_node(P)),
    Shares = it:sql(P, "select sum(coalesce(share_requests, requests)), sum(requests) from stat s"
                    " join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id"
                    " where t.name = 'here' and i.name = '_total'"),
    it:equal("requests with a call of 'here', and by node",
             [[integer_to_binary(?N + ?M), integer_to_binary(2 * (?N + ?M))]], Shares),
    reports(T, P, Nodes),
    trees(P, Nodes),
    [it:audit(Target, Before, [processes, nodes]) || {Target, Before} <- lists:zip(Targets, Befores)].

%% The others have calls of its requests. (They were refused: "every entry is too hot".)
entry_of_one(T) ->
    [A, B, C] = Targets = connected(T, [a, b, c]),
    Befores = [it:settled(Target) || Target <- Targets],
    Tiers = string:replace(tiers([]), "{entry, {it_cross, request, 3}}.", ["{entry, {it_cross, request, 3}, [{nodes, ['", node_of(A), "']}]}."]),
    P = it:kprofd(T, Targets, #{tiers => Tiers, args => ["-interval", "1s"]}),
    armed(P, 3),
    [it:saw(P, ["warning: .*", node_of(N), ".*no entry is for this node"]) || N <- [B, C]],
    ?N = run(A, ?N, read, B, C),
    it:until("requests closed", fun() -> assembled(T, P) =:= [?N, 0, 0] end),
    ?M = run(B, ?M, write, C, A),
    it:terminate(P),
    it:equal("requests", ?N, it:requests(P)),
    it:check(lists:usort([Node || {Node, _, _, _} <- by_node(P)]) =:= lists:usort([node_of(N) || N <- Targets]), "calls on all: ~p", [by_node(P)]),
    [it:audit(Target, Before, [processes, nodes]) || {Target, Before} <- lists:zip(Targets, Befores)].

%% What these requests send to B goes without their token, and there was no word of it.
meeting(T) ->
    Targets = [A, B] = [it:target(T, #{kind => plain, node => name(N), name => "target_" ++ atom_to_list(N)}) || N <- [a, b]],
    [true = it:call(Target, it_cross, start, []) || Target <- Targets],
    P = it:kprofd(T, Targets, #{tiers => tiers([]), args => ["-interval", "1s"]}),
    armed(P, 2),
    Node = list_to_atom(node_of(B)),
    it:do(A, fun() -> [spawn(fun() -> it_cross:request(wait, Node, Node) end) || _ <- lists:seq(1, 5)], ok end),
    it:saw(P, ["^kprofd: warning: '", node_of(A), "': connected: this node connected to .*", node_of(B),
               ".* may be missing from 5 requests in flight"]),
    it:until("it is among the losses", fun() -> maps:get(connecting, it:losses(P), 0) =:= 5 end),
    it:equal("events", [[list_to_binary(node_of(N))] || N <- Targets],
             it:sql(P, "select distinct node from events where kind = 'connected' order by node")),
    it:equal("calls at the other node", 0,
             it:number(P, ["select coalesce(sum(calls), 0) from tier_stats where node = '", node_of(B), "'"])),
    it:terminate(P).

%% Node, tier, identity, calls and async ones.
calls([A, B, C]) ->
    lists:sort([{A, "here", "read", 2 * ?N}, {B, "query", "read", ?N}, {B, "index", "read", ?N},
                {B, "task", "read", ?N}, {B, "here", "read", ?N}, {C, "later", "read", ?N},
                {B, "here", "write", 2 * ?M}, {C, "query", "write", ?M}, {C, "index", "write", ?M},
                {C, "task", "write", ?M}, {C, "here", "write", ?M}, {A, "later", "write", ?M}]).

by_node(P) ->
    lists:sort([{binary_to_list(N), binary_to_list(T), binary_to_list(I), binary_to_integer(Calls)}
                || [N, T, I, Calls] <-
                       it:sql(P, "select node, tier, identity, sum(calls + async_calls) from tier_stats"
                              " where tier <> '_total' and identity <> '_total' group by node, tier, identity")]).

%% What kprof report says of all nodes is what it says of each, added up.
reports(T, P, Nodes) ->
    it:equal("requests reported", [?N + ?M, ?N, ?M, 0],
             [reported(T, P, Args) || Args <- [[] | [["-node", Node] || Node <- Nodes]]]).

reported(T, P, Args) ->
    Name = "report" ++ integer_to_list(erlang:unique_integer([positive])),
    K = it:start(T, Name, [it:build(T) ++ "/kprof", "report", "-json", "-db", it:db(P) | Args], []),
    it:ended(K, 0),
    case json(T, it:output(K), "select value ->> 'requests' from json_each(readfile($1), '$.rows') limit 1") of
        [[R]] when R =/= <<>> -> binary_to_integer(R);
        _ -> 0
    end.

%% Who called what where; nothing was lost, so all trees of a kind are alike.
trees(P, [A, B, C]) ->
    it:equal("trees", [{"read", A, ?N}, {"write", B, ?M}],
             [{binary_to_list(I), binary_to_list(N), binary_to_integer(Count)}
              || [I, N, Count] <- it:sql(P, "select identity, node, count(*) from slow_requests group by 1, 2 order by 1")]),
    it:equal("calls of a request of A", tree(A, B, C), seen(P, "read", ?N)),
    it:equal("calls of a request of B", tree(B, C, A), seen(P, "write", ?M)),
    %% Nothing of it runs at the same time but what nobody waits for, and the
    %% end of the child, which is clipped: each moment is one call's own.
    Off = it:sql(P, "select r.request, r.total_ms, sum(c.self_ms) from slow_requests r"
                 " join slow_calls c on c.request = r.request where c.async = '' and not exists (select 1 from slow_calls l"
                 "  where l.request = r.request and l.async = '' and l.tier = 'later')"
                 " group by r.request having abs(r.total_ms - sum(c.self_ms)) > 0.01"),
    it:equal("requests whose self times do not add up", [], Off),
    it:equal("requests with calls that ran at the same time", 0,
             it:number(P, "select count(*) from slow_calls where self_ms > total_ms or start_ms < 0")),
    Labels = it:sql(P, "select distinct node, label >> 42 from slow_requests"),
    it:equal("constants in labels", length(Labels), length(lists:usort([L || [_, L] <- Labels]))).

%% {Call, its node, its parent's call, how many in a request, and left over}.
%% Nobody waits for what was cast: whose it is depends on when it is done.
tree(X, Y, Z) ->
    lists:sort([{"it_cross:request/3", X, "", 1, 0}, {"it_cross:here/1", X, "it_cross:request/3", 2, 0},
                {"it_cross:query/1", Y, "it_cross:request/3", 1, 0}, {"it_cross:index/1", Y, "it_cross:query/1", 1, 0},
                {"it_cross:child/1", Y, "it_cross:request/3", 1, 0}, {"it_cross:here/1", Y, "it_cross:child/1", 1, 0},
                {"it_cross:later/1", Z, "", 1, 0}]).

seen(P, Identity, Requests) ->
    lists:sort([{string:trim(binary_to_list(F)), binary_to_list(N), string:trim(binary_to_list(Parent)),
                 binary_to_integer(Count) div Requests, binary_to_integer(Count) rem Requests}
                || [F, N, Parent, Count] <-
                       it:sql(P, "select trim(c.call), coalesce(nullif(c.node, ''), r.node),"
                              " iif(c.tier = 'later', '', coalesce(trim(p.call), '')), count(*)"
                              " from slow_requests r join slow_calls c on c.request = r.request"
                              " left join slow_calls p on p.request = c.request and p.seq = c.parent"
                              " where r.identity = '" ++ Identity ++ "' group by 1, 2, 3")]).

%% What B does for a request of A is a request, too, and knows whose.
inside(T) ->
    [A, B, C] = Targets = connected(T, [a, b, c]),
    Befores = [it:settled(Target) || Target <- Targets],
    P = it:kprofd(T, Targets, #{tiers => "{tiers, [{index, {it_cross, index, 1}}]}.\n"
                                "{entry, [{it_cross, request, 3}, {it_cross, query, 1}]}.\n"
                                "{sampling, all}.\n{budget, none}.\n{slow_ms, 1}.\n", args => ["-interval", "1s"]}),
    armed(P, 3),
    ?N = run(A, ?N, read, B, C),
    it:until("requests closed", fun() -> assembled(T, P) =:= [?N, ?N, 0] end),
    it:terminate(P),
    it:equal("entry calls", 2 * ?N, it:balance(P)),
    it:equal("losses", #{}, it:lost(P)),
    it:equal("requests by node, and by that of the one that each is inside",
             [{node_of(A), "-", ?N}, {node_of(B), node_of(A), ?N}],
             [{binary_to_list(N), binary_to_list(In), binary_to_integer(Count)}
              || [N, In, Count] <- it:sql(P, "select i.node, coalesce(o.node, '-'), count(*) from slow_requests i"
                                          " left join slow_requests o on o.label = i.parent_label group by 1, 2"
                                          " order by 1")]),
    [it:audit(Target, Before, [processes, nodes]) || {Target, Before} <- lists:zip(Targets, Befores)].

%% A's request waits for B, which is killed: it goes on without the answer, and
%% the two calls that were open there are counted. Others go on all the time.
killed(T) ->
    [A, B, C] = Targets = connected(T, [a, b, c]),
    Before = it:settled(A),
    P = it:kprofd(T, Targets, #{tiers => tiers([]), args => ["-interval", "1s"]}),
    armed(P, 3),
    [NB, NC] = [list_to_atom(node_of(N)) || N <- [B, C]],
    it:do(A, fun() ->
                     spawn(it_cross, run_till, [read, NC, NC, it_reads]),
                     spawn(it_cross, run_till, [wait, NB, NC, it_waits]),
                     ok
             end),
    it:until("two calls are open at B", fun() -> lists:nth(2, counted(T, P, "events")) =:= 2 end),
    it:stop_target(B),
    it:saw(P, "lost '" ++ node_of(B)),
    it:until("the request has gone on", fun() -> it:call(A, it_cross, failed, [it_waits]) > 0 end),
    Waits = it:call(A, it_cross, stop, [it_waits]),
    Reads = it:call(A, it_cross, stop, [it_reads]),
    it:equal("reads that failed", 0, element(2, Reads)),
    Began = element(1, Waits) + element(1, Reads),
    it:until("requests closed", fun() -> lists:sum(assembled(T, P)) =:= Began end),
    it:terminate(P),
    it:balance(P),
    it:equal("entry calls", Began, it:requests(P)),
    it:equal("losses", #{left => 2}, it:lost(P)),
    it:audit(A, Before, [processes, nodes]).

%% That is what the offset says: right to within its error.
clocks(T) ->
    Targets = connected(T, [a, b]),
    P = it:kprofd(T, Targets, #{tiers => tiers([])}),
    armed(P, 2),
    {ok, Text} = it:control(P, "status"),
    it:check(re:run(Text, "^clock +[+-][0-9.]+ s to kprofd's, known to [0-9.]+ ms$", [multiline]) =/= nomatch,
             "no clock in:~n~ts", [Text]),
    Clocks = clocks(T, P),
    it:equal("clocks that are known", [1, 1], [Known || {Known, _, _} <- Clocks]),
    [begin
         {Least, Most} = it:call(Target, it_cross, clock, []),
         it:check(Offset + Error >= Least andalso Offset - Error =< Most,
                  "~s: ~b +- ~b ns, and it is ~b to ~b", [node_of(Target), Offset, Error, Least, Most])
     end || {Target, {_, Offset, Error}} <- lists:zip(Targets, Clocks)],
    it:terminate(P).

clocks(T, P) ->
    {ok, Json} = it:control(P, "status json"),
    [{binary_to_integer(K), binary_to_integer(O), binary_to_integer(E)}
     || [K, O, E] <- json(T, Json, "select value ->> '$.clock.known', value ->> '$.clock.offset_ns',"
                          " value ->> '$.clock.error_ns' from json_each(readfile($1), '$.targets')"
                          " order by value ->> 'target'")].

%% Every target has another configuration, one after the other; afterwards
%% requests cross as before.
reload(T) ->
    [A, B, C] = Targets = connected(T, [a, b, c]),
    Befores = [it:settled(Target) || Target <- Targets],
    P = it:kprofd(T, Targets, #{tiers => tiers([]), args => ["-interval", "1s"]}),
    armed(P, 3),
    [NB, NC] = [list_to_atom(node_of(N)) || N <- [B, C]],
    it:do(A, fun() -> spawn(it_cross, run_till, [read, NB, NC, it_reads]), ok end),
    it:until("requests", fun() -> hd(assembled(T, P)) > 10 end),
    [begin
         it:write(T, "tiers1.conf", tiers(More)),
         {ok, _} = it:control(P, "reload"),
         Now = hd(assembled(T, P)),
         it:until("more requests", fun() -> hd(assembled(T, P)) > Now + 10 end)
     end || More <- [["{keep_slowest, 3}.\n"], [], ["{keep_slowest, 4}.\n"]]],
    {Began, 0} = it:call(A, it_cross, stop, [it_reads]),
    ?M = run(B, ?M, write, C, A),
    it:until("requests closed", fun() -> lists:nth(2, assembled(T, P)) =:= ?M end),
    it:terminate(P),
    it:equal("entry calls", Began + ?M, it:balance(P)),
    NA = node_of(A),
    it:equal("calls of requests that began after it",
             [Call || {_, _, "write", _} = Call <- calls([NA | [atom_to_list(N) || N <- [NB, NC]]])],
             [Call || {_, _, "write", _} = Call <- by_node(P)]),
    it:equal("losses of other kinds", [], maps:keys(it:lost(P)) -- [reloaded, with_request, left, stale, unseen]),
    [it:audit(Target, Before, [processes, nodes]) || {Target, Before} <- lists:zip(Targets, Befores)].

%% ---------------------------------------------------------------------------

%% Connected, so that no request is about connecting them.
connected(T, Names) ->
    Targets = [First | Others] =
        [it:target(T, #{kind => plain, node => name(N), name => "target_" ++ atom_to_list(N)}) || N <- Names],
    [true = it:call(First, net_kernel, connect_node, [list_to_atom(node_of(N))]) || N <- Others],
    it:until("all know each other",
             fun() -> lists:all(fun(N) -> length(it:call(N, erlang, nodes, [])) =:= length(Others) end, Targets) end),
    [true = it:call(Target, it_cross, start, []) || Target <- Targets],
    Targets.

run(Target, N, Kind, B, C) ->
    it:call(Target, it_cross, run, [N, Kind, list_to_atom(node_of(B)), list_to_atom(node_of(C))]).

%% Of this test alone: tests run at the same time.
name(Name) ->
    lists:concat(["wi_", Name, "_", os:getpid(), [D || D <- pid_to_list(self()), D >= $0, D =< $9], "@127.0.0.1"]).

node_of(#{node := Node}) -> Node.

armed(P, N) ->
    it:until(io_lib:format("~b are armed", [N]), fun() -> it:times_armed(P) >= N end).

%% Requests by the node of their entry.
assembled(T, P) -> counted(T, P, "requests").

counted(T, P, What) ->
    {ok, Json} = it:control(P, "status json"),
    [binary_to_integer(N)
     || [N] <- json(T, Json, "select value ->> '" ++ What ++ "' from json_each(readfile($1), '$.targets')"
                    " order by value ->> 'target'")].

json(T, Text, Query) ->
    File = it:write(T, "answer.json", Text),
    it:sql(#{db => ":memory:", name => "sqlite3", out => File},
           re:replace(Query, "\\$1", ["'", File, "'"], [global, {return, list}])).
