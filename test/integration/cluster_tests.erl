%% Many targets of one kprofd: named, listed in a file, or found in a cluster.
%% Each goes its own way, what one does is not the others' end, and all are left
%% as they were.
-module(cluster_tests).

-export([tests/0]).

-define(DB, {db, network_request, 1}).
-define(HANDLE, {requests, handle_request, 2}).
-define(ACCOUNT, {accounting, incr_reqs, 1}).

tests() ->
    [{"three targets", 60, fun three/1},
     {"three targets, short names", 60, fun short/1},
     {"three targets, and kprofd killed", 60, fun killed/1},
     {"one comes late, one ends, one refuses", 90, fun fates/1},
     {"none is there", 60, fun none/1},
     {"-wait", 60, fun wait/1},
     {"kept out one by one", 60, fun kept_out/1},
     {"pause, resume and clear-tokens by node", 60, fun by_node/1},
     {"marks, of kprofd, by node, and by HTTP", 60, fun marks/1},
     {"requests are counted over all, and so told", 60, fun counted/1},
     {"a file of targets", 90, fun file/1},
     {"more than there is room for", 60, fun too_many/1},
     {"a reload that one refuses", 60, fun refused/1},
     {"a function that one does not have", 60, fun lacking/1},
     {"a function that one does not have, and then it is another", 60, fun lacking_anew/1},
     {"-check of several", 60, fun check/1},
     {"a cluster that is followed", 120, fun follow/1},
     {"a cluster whose seed does not match", 90, fun other_seed/1},
     {"a seed that restarts before any target is there", 120, fun seed_restarts/1},
     {"a cluster's node that failed and is started anew", 60, fun anew/1},
     {"a seed that lets nobody in for a while", 60, fun seed_refuses/1},
     {"-check of a cluster", 60, fun check_cluster/1}].

%% Figures are of each node, and add up over all.
three(T) ->
    Targets = [A, B, C] = [target(T, N) || N <- [a, b, c]],
    Befores = [it:settled(Target) || Target <- Targets],
    P = it:kprofd(T, Targets, #{tiers => tiers(["{slow_ms, 1}.\n"])}),
    all_armed(P, 3),
    [#{requests := N} = it:loaded(it:load(T, Target, ["4", integer_to_list(N)]))
     || {Target, N} <- [{A, 100}, {B, 200}, {C, 300}]],
    {ok, Text} = it:control(P, "status"),
    says(Text, "^targets +3 of 3 armed"),
    [says(Text, "^target +" ++ node_of(Target) ++ ": armed") || Target <- Targets],
    one_name(Targets),
    it:until("requests closed", fun() -> assembled(P) =:= 600 end),
    it:terminate(P),
    it:equal("requests by node", lists:sort([{node_of(A), 100}, {node_of(B), 200}, {node_of(C), 300}]),
             [{binary_to_list(N), binary_to_integer(R)}
              || [N, R] <- it:sql(P, "select node, sum(calls) from tier_stats where tier = '_total' and"
                                  " identity = '_total' group by node order by node")]),
    it:equal("entry calls", 600, it:balance(P)),
    it:equal("losses", #{}, it:lost(P)),
    %% Windows of all nodes begin and end together.
    it:equal("windows that others do not have", 0,
             it:number(P, "select count(*) from (select end_ns from time_window where start_ns >"
                       " (select max(f) from (select min(start_ns) f from time_window group by node_id))"
                       " group by end_ns having count(*) <> 3)")),
    report(T, P, [], 600),
    report(T, P, ["-node", node_of(B)], 200),
    report(T, P, ["-node", "tg_[ab]_*"], 300),
    Slow = kprof(T, P, ["slow", "-n", "1000", "-node", node_of(C), "-json"]),
    it:check(binary:match(Slow, list_to_binary(node_of(C))) =/= nomatch, "slow ones of ~s", [node_of(C)]),
    it:check(binary:match(Slow, list_to_binary(node_of(A))) =:= nomatch, "and of no other"),
    labels(P, 3),
    [it:audit(Target, Before, [processes]) || {Target, Before} <- lists:zip(Targets, Befores)].

%% Bits 48 to 57 of a label are its target's alone.
labels(P, N) ->
    Consts = it:sql(P, "select distinct node_id, label >> 42 from request"),
    it:equal("nodes with slow requests", N, length(lists:usort([Node || [Node, _] <- Consts]))),
    it:equal("constants", length(Consts), length(lists:usort([C || [_, C] <- Consts]))),
    it:equal("constants that are 0", [], [C || [_, C] <- Consts, C =:= <<"0">>]).

%% To all nodes kprofd has the same name: one atom in each.
one_name(Targets) ->
    Names = [[N || N <- it:call(Target, erlang, nodes, [hidden])] || Target <- Targets],
    it:equal("hidden nodes", 1, length(lists:usort(Names))),
    it:equal("hidden nodes of one", 1, length(hd(Names))).

short(T) ->
    Targets = [target(T, N, #{node => short_name(N)}) || N <- [a, b, c]],
    Befores = [it:settled(Target) || Target <- Targets],
    P = it:kprofd(T, Targets),
    all_armed(P, 3),
    one_name(Targets),
    it:terminate(P),
    [it:audit(Target, Before) || {Target, Before} <- lists:zip(Targets, Befores)].

killed(T) ->
    Targets = [A | _] = [target(T, N) || N <- [a, b, c]],
    joined(Targets),
    Befores = [it:settled(Target) || Target <- Targets],
    P = it:kprofd(T, Targets),
    all_armed(P, 3),
    #{requests := 100} = it:loaded(it:load(T, A, ["4", "100"])),
    it:kill(P),
    [it:audit(Target, Before, [processes]) || {Target, Before} <- lists:zip(Targets, Befores)].

%% B starts later than kprofd, A is killed and started again, C has another
%% cookie, D goes for good: none of that ends kprofd, and all of it is told.
fates(T) ->
    A = target(T, a),
    C = target(T, c),
    D = target(T, d),
    true = it:call(C, erlang, set_cookie, [other]),
    Before = it:settled(A),
    P = it:kprofd(T, [A, #{node => name(b)}, C, D], #{args => ["-interval", "1s"]}),
    it:saw(P, "cannot connect to '" ++ node_of(C) ++ "': cookie refused"),
    it:saw(P, "warning: cannot connect to '" ++ name(b) ++ "': no such node is registered.*; trying again"),
    all_armed(P, 2),
    {ok, Text} = it:control(P, "status"),
    says(Text, "^targets +2 of 4 armed"),
    says(Text, "^target +" ++ node_of(C) ++ ": failed: .*cookie refused"),
    says(Text, "^target +" ++ name(b) ++ ": (lost|connecting)"),
    B = target(T, b),
    all_armed(P, 3),
    it:stop_target(D),
    it:saw(P, "lost '" ++ node_of(D)),
    it:stop_target(A),
    it:saw(P, "lost '" ++ node_of(A)),
    Again = target(T, a),
    all_armed(P, 2),
    [#{requests := 50} = it:loaded(it:load(T, Target, ["2", "50"])) || Target <- [B, Again]],
    it:until("requests closed", fun() -> assembled(P) =:= 100 end),
    it:terminate(P),
    %% b was not there yet, c never: of these the name is in the text.
    it:equal("events", [{"", "absent"}, {"", "failed"}, {name(a), "lost"}, {name(d), "lost"}],
             [{binary_to_list(N), binary_to_list(K)}
              || [N, K] <- it:sql(P, "select distinct node, kind from events where kind in ('lost', 'absent', 'failed')"
                                  " order by node, kind")]),
    [it:equal(["events that name ", name(N)], 1,
              it:number(P, ["select count(*) from events where node = '' and kind = '", Kind,
                            "' and text like '%", name(N), "%'"]))
     || {N, Kind} <- [{b, "absent"}, {c, "failed"}]],
    it:balance(P),
    it:audit(Again, Before, [processes, nodes]).

%% As one that is not there: kprofd does not wait for what may never come.
none(T) ->
    P = it:kprofd(T, [#{node => name(x)}, #{node => name(y)}]),
    it:ended(P, 1, "no such node is registered"),
    C = target(T, c),
    true = it:call(C, erlang, set_cookie, [other]),
    Q = it:kprofd(T, [C, #{node => name(y)}]),
    it:ended(Q, 1, "cookie refused"),
    R = it:kprofd(T, [], #{args => ["-cluster", name(x), "-match", "tg_*"]}),
    it:ended(R, 1, "no such node is registered"),
    S = it:kprofd(T, [], #{args => ["-cluster", name(x), "-match", "other@*"]}),
    it:ended(S, 1, "no such node is registered").

%% Beside a node that begins later, and that does not want it.
wait(T) ->
    P = it:kprofd(T, [#{node => name(x)}], #{args => ["-wait"]}),
    it:saw(P, "warning: cannot connect to '" ++ name(x) ++ "': no such node is registered.*; trying again"),
    {ok, Waiting} = it:control(P, "status"),
    says(Waiting, "^target +" ++ name(x) ++ ": (lost|connecting)"),
    X = target(T, x),
    all_armed(P, 1),
    ok = it:call(X, kprof_agent, stop, []),
    it:saw(P, "stopped in the target"),
    timer:sleep(2000),
    it:equal("no agent", gone, it:agent_state(X)),
    {ok, Stopped} = it:control(P, "status"),
    says(Stopped, "^target +" ++ name(x) ++ ": failed"),
    {ok, _} = it:control(P, "resume"),
    timer:sleep(2000),
    it:equal("still none", gone, it:agent_state(X)),
    it:equal("said", <<"what had failed is tried again\n">>, kprof(T, P, ["resume", "-node", "tg_x_*"])),
    it:until("armed again", fun() -> it:agent_state(X) =:= armed end),
    it:terminate(P),
    S = it:kprofd(T, [], #{args => ["-wait", "-cluster", name(z), "-match", "nobody@*"]}),
    it:saw(S, "the seed cannot be asked .*; trying again"),
    it:terminate(S),
    Q = it:kprofd(T, [#{node => name(y)}], #{args => ["-wait", "-duration", "1s"]}),
    it:ended(Q, 1, "'" ++ name(y) ++ "' was not reached in that time").

%% The last one ends it, with the status that says that nobody wants it.
kept_out(T) ->
    [A, B] = Targets = [target(T, N) || N <- [a, b]],
    P = it:kprofd(T, Targets),
    all_armed(P, 2),
    ok = it:call(A, kprof_agent, stop, []),
    it:saw(P, "stopped in the target"),
    it:until("one is left", fun() -> {ok, Text} = it:control(P, "status"), has(Text, "1 of 2 armed") end),
    it:check(it:is_running(P), "kprofd goes on"),
    ok = it:call(B, kprof_agent, stop, []),
    it:ended(P, 3).

by_node(T) ->
    [A, B] = Targets = [target(T, N) || N <- [a, b]],
    P = it:kprofd(T, Targets),
    all_armed(P, 2),
    it:equal("one", {ok, <<"paused\n">>}, it:control(P, ["pause node=", node_of(A)])),
    it:equal("states", [paused, armed], states(Targets)),
    it:equal("all", {ok, <<"paused on 2 targets\n">>}, it:control(P, "pause")),
    it:equal("states", [paused, paused], states(Targets)),
    it:equal("by a glob", <<"resumed\n">>, kprof(T, P, ["resume", "-node", "tg_b_*"])),
    it:equal("states", [paused, armed], states(Targets)),
    it:equal("all", {ok, <<"resumed on 2 targets\n">>}, it:control(P, "resume")),
    it:equal("states", [armed, armed], states(Targets)),
    {error, None} = it:control(P, "pause node=nobody@*"),
    says(None, "no target matches 'nobody@\\*'"),
    it:equal("tokens", {ok, <<"tokens cleared on 2 targets\n">>}, it:control(P, "clear-tokens")),
    it:equal("tokens of one", <<"tokens cleared\n">>, kprof(T, P, ["clear-tokens", "-node", node_of(B)])),
    it:stop_target(A),
    it:saw(P, "lost '" ++ node_of(A)),
    {error, Away} = it:control(P, "clear-tokens"),
    says(Away, "tokens cleared on 1 of 2 targets; '" ++ node_of(A) ++ "': not attached"),
    {ok, Later} = it:control(P, "pause"),
    says(Later, "paused on 2 targets; '" ++ node_of(A) ++ "': not attached .* it will pause"),
    Status = kprof(T, P, ["status", "-node", node_of(B)]),
    says(Status, "^target +" ++ node_of(B) ++ ": paused"),
    it:check(binary:match(Status, list_to_binary("target      " ++ node_of(A))) =:= nomatch, "no other in~n~ts", [Status]),
    {ok, Json} = it:control(P, "status json"),
    it:equal("as JSON", [[list_to_binary(node_of(A)), <<"lost">>], [list_to_binary(node_of(B)), <<"paused">>]],
             json(T, Json, "select value ->> 'target', value ->> 'state' from json_each(readfile($1), '$.targets')"
                  " order by 1")),
    it:terminate(P).

%% A mark is in the database when its command has ended.
marks(T) ->
    [A, B] = Targets = [target(T, N) || N <- [a, b]],
    Port = it:free_port(),
    P = it:kprofd(T, Targets, #{args => ["-http", integer_to_list(Port)]}),
    all_armed(P, 2),
    Marks = fun() -> it:sql(P, "select node, text from events where kind = 'mark' order by at, node") end,
    Begun = erlang:system_time(millisecond),
    it:equal("kprofd's", <<"marked\n">>, kprof(T, P, ["mark", "deploy of 1.4.2  node=x"])),
    it:equal("its event", [[<<>>, <<"deploy of 1.4.2  node=x">>]], Marks()),
    At = it:number(P, "select at_ns / 1000000 from event where kind = 'mark'"),
    it:check(At >= Begun andalso At =< erlang:system_time(millisecond), "its time: ~b", [At - Begun]),
    it:equal("of one", <<"marked\n">>, kprof(T, P, ["mark", "b alone", "-node", node_of(B)])),
    it:equal("of all", {ok, <<"marked\n">>}, it:control(P, "mark node=* text=both")),
    it:equal("their events",
             [[list_to_binary(node_of(B)), <<"b alone">>] | [[list_to_binary(node_of(N)), <<"both">>] || N <- [A, B]]],
             tl(Marks())),
    it:equal("by HTTP", {200, <<"{\"done\":\"marked\"}\n">>}, post(Port, "text=by+HTTP&node=tg_a_*")),
    it:equal("its event", [list_to_binary(node_of(A)), <<"by HTTP">>], lists:last(Marks())),
    {409, _} = post(Port, "text=x&node=nobody@*"),
    it:saw(P, "mark: deploy of 1.4.2"),
    it:saw(P, "mark of '" ++ node_of(B) ++ "': b alone"),
    {error, None} = it:control(P, "mark node=nobody@* text=x"),
    says(None, "no target matches 'nobody@\\*' \\(kprof status lists them\\)"),
    [{error, _} = it:control(P, Line)
     || Line <- ["mark", "mark text=", "mark text=  ", ["mark text=", lists:duplicate(257, $x)], "mark text=a\tb",
                 "mark text=\xff", "mark json text=x", "dump text=x"]],
    it:equal("those alone", 5, length(Marks())),
    it:terminate(P).

%% {Status, Body}
post(Port, Query) ->
    Host = "127.0.0.1:" ++ integer_to_list(Port),
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {packet, http_bin}]),
    ok = gen_tcp:send(S, ["POST /api/v1/events?", Query, " HTTP/1.1\r\nHost: ", Host, "\r\nOrigin: http://", Host,
                          "\r\nX-Kprofd: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]),
    {ok, {http_response, _, Status, _}} = gen_tcp:recv(S, 0, 10000),
    {Status, post_body(S)}.

post_body(S) ->
    case gen_tcp:recv(S, 0, 10000) of
        {ok, http_eoh} ->
            ok = inet:setopts(S, [{packet, raw}]),
            {ok, Body} = gen_tcp:recv(S, 0, 10000),
            Body;
        {ok, _} -> post_body(S)
    end.

%% Neither target alone has so many.
counted(T) ->
    [A, B] = Targets = [target(T, N) || N <- [a, b]],
    {S, Notify} = manager(T),
    P = it:kprofd(T, Targets, #{args => ["-requests", "9", "-print-calls"], env => Notify}),
    [First | _] = [M || M <- told(S, <<"STATUS=2 of 2 armed">>), M =:= <<"READY=1">> orelse M =:= <<"STATUS=2 of 2 armed">>],
    it:equal("ready before all are armed", <<"READY=1">>, First),
    [#{requests := 6} = it:loaded(it:load(T, Target, ["2", "6"])) || Target <- [A, B]],
    it:ended(P, 0),
    gen_udp:close(S),
    it:check(it:requests(P) >= 9, "~b requests", [it:requests(P)]),
    %% Fewer than the hundred calls of a second that are printed.
    [says(it:output(P), " " ++ it:outcome() ++ "  " ++ node_of(Target) ++ "$") || Target <- [A, B]].

%% What systemd is told goes there.
manager(T) ->
    Path = it:path(T, "notify.sock"),
    {ok, S} = gen_udp:open(0, [{ifaddr, {local, Path}}, local, binary, {active, false}]),
    {S, [{"NOTIFY_SOCKET", filename:absname(Path)}]}.

%% Everything up to this message.
told(S, Last) ->
    case gen_udp:recv(S, 0, 30000) of
        {ok, {_, _, Last}} -> [Last];
        {ok, {_, _, Other}} -> [Other | told(S, Last)];
        {error, Why} -> it:fail("not told ~s: ~p", [Last, Why])
    end.

%% Nodes that came are attached, those that went are detached, others are left
%% alone; and a file that is no good changes nothing.
file(T) ->
    [A, B] = Targets = [target(T, N) || N <- [a, b]],
    Befores = [it:settled(Target) || Target <- Targets],
    File = it:write(T, "nodes", ["# of the test\n", node_of(A), "  # the first\n"]),
    P = it:kprofd(T, [], #{args => ["-target-file", File, "-interval", "1s"]}),
    it:armed(P),
    Agent = it:call(A, erlang, whereis, [kprof_agent]),
    it:write(T, "nodes", [node_of(A), "\n", node_of(B), "\n"]),
    says(kprof(T, P, ["reload"]), "nothing to change; targets: 1 added, 0 removed"),
    all_armed(P, 2),
    it:equal("the first one's agent", Agent, it:call(A, erlang, whereis, [kprof_agent])),
    it:write(T, "nodes", [node_of(B), "\nno name\n"]),
    {error, Bad} = it:control(P, "reload"),
    says(Bad, "nodes', line 2: not the name of a node, such as app@host; nothing has changed"),
    it:equal("states", [armed, armed], states(Targets)),
    #{requests := 50} = it:loaded(it:load(T, A, ["2", "50"])),
    it:until("requests closed", fun() -> assembled(P) =:= 50 end),
    it:write(T, "nodes", [node_of(B), "\n"]),
    it:signal(P, "HUP"),
    it:saw(P, "'" ++ node_of(A) ++ "' is no longer a target: it is not in the file any more"),
    it:audit(A, hd(Befores), [processes]),
    it:until("one is left", fun() -> {ok, Text} = it:control(P, "status"), has(Text, "1 of 1 armed") end),
    it:write(T, "nodes", [node_of(A), "\n", node_of(B), "\n"]),
    {ok, _} = it:control(P, "reload"),
    all_armed(P, 2),
    #{requests := 70} = it:loaded(it:load(T, A, ["2", "70"])),
    #{requests := 30} = it:loaded(it:load(T, B, ["2", "30"])),
    it:until("requests closed", fun() -> assembled(P) =:= 100 end),
    it:terminate(P),
    it:equal("requests", 150, it:requests(P)),
    it:equal("entry calls", 150, it:balance(P)),
    it:equal("events", [[<<"added">>, <<"2">>], [<<"removed">>, <<"1">>]],
             it:sql(P, "select kind, count(*) from events where kind in ('added', 'removed') group by kind")),
    [it:audit(Target, Before, [processes]) || {Target, Before} <- lists:zip(Targets, Befores)].

too_many(T) ->
    A = target(T, a),
    File = it:write(T, "nodes", [[node_of(A), "\n"] | [[name(N), "\n"] || N <- lists:seq(1, 70)]]),
    P = it:kprofd(T, [], #{args => ["-target-file", File]}),
    it:saw(P, "warning: 7 more nodes are wanted: no more than 64 are profiled by one kprofd"),
    it:armed(P),
    {ok, Text} = it:control(P, "status"),
    says(Text, "^targets +1 of 64 armed\n +7 more have no room"),
    %% Who comes as another goes has no room yet, and is not said to have come.
    it:write(T, "nodes", [[node_of(A), "\n"] | [[name(N), "\n"] || N <- lists:seq(2, 64)]]),
    {ok, First} = it:control(P, "reload"),
    says(First, "; targets: 0 added, 1 removed$"),
    {ok, Second} = it:control(P, "reload"),
    says(Second, "; targets: 1 added, 0 removed$"),
    it:terminate(P),
    it:equal("events", 1, it:number(P, "select count(*) from events where kind = 'too_many'")).

%% On the second node somebody else counts a function, or it is not there at
%% all: what the first one could have had is not armed there either.
refused(T) ->
    [_, B] = Targets = [target(T, N) || N <- [a, b]],
    P = it:kprofd(T, Targets, #{tiers => tiers([])}),
    all_armed(P, 2),
    it:equal("armed", [[?DB, ?HANDLE], [?DB, ?HANDLE]], [armed(Target) || Target <- Targets]),
    Refused = fun(Text, Pattern) ->
                      it:write(T, "tiers1.conf", Text),
                      {error, Said} = it:control(P, "reload"),
                      says(Said, Pattern ++ ".*; nothing has changed"),
                      it:equal("armed", [[?DB, ?HANDLE], [?DB, ?HANDLE]], [armed(Target) || Target <- Targets])
              end,
    Refused("{tiers, [{handle, {requests, handle_request, 2}}, {db, {db, no_such, 7}}]}.\n",
            "it names what the target does not have"),
    it:otp(B) < 27 andalso
        begin
            it:do(B, fun() -> 1 = erlang:trace_pattern(?ACCOUNT, true, [call_count]) end),
            Refused(tiers(["{finish, {accounting, incr_reqs, 1}}.\n"]),
                    "'" ++ node_of(B) ++ "': the target refuses these functions: .*traced_by_others"),
            it:do(B, fun() -> 1 = erlang:trace_pattern(?ACCOUNT, false, [call_count]) end)
        end,
    it:write(T, "tiers1.conf", tiers(["{finish, {accounting, incr_reqs, 1}}.\n"])),
    {ok, Done} = it:control(P, "reload"),
    says(Done, "is in force: 2 functions added"),
    it:equal("armed", [[?ACCOUNT, ?DB, ?HANDLE], [?ACCOUNT, ?DB, ?HANDLE]], [armed(Target) || Target <- Targets]),
    [#{requests := 20} = it:loaded(it:load(T, Target, ["2", "20"])) || Target <- Targets],
    it:terminate(P),
    it:check(it:number(P, "select tiers_conf like '%finish%' from run") =:= 1, "the text of the run").

%% A plain node has none of the sample application's modules loaded, but can
%% load them; a module that is nowhere is what it takes.
lacking(T) ->
    [A, B] = Targets = [target(T, N) || N <- [a, b]],
    Befores = [it:settled(Target) || Target <- Targets],
    only_here(A),
    Text = tiers(["{finish, {it_only_here, f, 1}}.\n"]),
    P = it:kprofd(T, Targets, #{tiers => Text}),
    all_armed(P, 2),
    it:saw(P, "warning: '" ++ node_of(B) ++ "': the target cannot load module 'it_only_here'"),
    it:terminate(P),
    %% A function is an error where a module might come later.
    Function = tiers(["{finish, {it_only_here, g, 1}}.\n"]),
    only_here(B),
    Q = it:kprofd(T, Targets, #{tiers => Function}),
    it:ended(Q, 1, "error: '" ++ node_of(B) ++ "': the target has no function it_only_here:g/1"),
    it:ended_said(Q, "error: '" ++ node_of(A) ++ "': the target has no function it_only_here:g/1"),
    it:equal("armed", nomatch, re:run(it:errors(Q), "profiling ")),
    here_too(A),
    R = it:kprofd(T, Targets, #{tiers => Function}),
    all_armed(R, 2),
    it:saw(R, "warning: '" ++ node_of(B) ++ "': the target has no function it_only_here:g/1"),
    it:write(T, "tiers3.conf", [Function, "{slow_ms, 7}.\n"]),
    {0, _, Said} = kprof_said(T, R, ["reload"]),
    says(Said, "warning: '" ++ node_of(B) ++ "': the target has no function it_only_here:g/1"),
    it:check(binary:match(Said, <<"error">>) =:= nomatch, "no error in~n~ts", [Said]),
    it:terminate(R),
    [it:do(Target, fun() -> code:purge(it_only_here), code:delete(it_only_here), code:purge(it_only_here) end)
     || Target <- Targets],
    [it:audit(Target, Before, [processes]) || {Target, Before} <- lists:zip(Targets, Befores)].

%% Who comes is judged by what the others lack of the file in force, not of one
%% before, in which something else stood in that place.
lacking_anew(T) ->
    [A, B, C] = [target(T, N) || N <- [a, b, c]],
    here_too(A),
    [only_here(Target) || Target <- [B, C]],
    Nodes = fun(Targets) -> it:write(T, "nodes", [[node_of(Target), "\n"] || Target <- Targets]) end,
    Naming = fun(Name) -> tiers(["{finish, {it_only_here, ", Name, ", 1}}.\n"]) end,
    P = it:kprofd(T, [], #{tiers => Naming("g"), args => ["-target-file", Nodes([A, B])]}),
    all_armed(P, 2),
    Nodes([B]),
    {ok, _} = it:control(P, "reload"),
    load(B, [f, h]),
    it:write(T, "tiers1.conf", Naming("h")),
    {ok, Text} = it:control(P, "reload"),
    says(Text, "is in force"),
    Nodes([B, C]),
    {ok, _} = it:control(P, "reload"),
    it:saw(P, "warning: '" ++ node_of(C) ++ "': the target has no function it_only_here:h/1"),
    all_armed(P, 2),
    it:terminate(P).

only_here(Target) -> load(Target, [f]).
here_too(Target) -> load(Target, [f, g]).

load(Target, Names) ->
    Forms = [{attribute, 1, module, it_only_here}, {attribute, 1, export, [{N, 1} || N <- Names]} |
             [{function, 1, N, 1, [{clause, 1, [{var, 1, 'X'}], [], [{var, 1, 'X'}]}]} || N <- Names]],
    {ok, Mod, Beam} = compile:forms(Forms),
    {module, Mod} = it:call(Target, code, load_binary, [Mod, "it_only_here", Beam]).

check(T) ->
    [A, B] = Targets = [target(T, N) || N <- [a, b]],
    Befores = [it:settled(Target) || Target <- Targets],
    P = it:kprofd(T, Targets, #{args => ["-check"]}),
    it:ended(P, 0),
    Out = it:output(P),
    [says(Out, "^" ++ node_of(Target) ++ ":\nFUNCTION") || Target <- Targets],
    Q = it:kprofd(T, [A, #{node => name(x)}, B], #{args => ["-check"]}),
    it:ended(Q, 1, "cannot connect to '" ++ name(x) ++ "': no such node"),
    [says(it:output(Q), "^" ++ node_of(Target) ++ ":\nFUNCTION") || Target <- Targets],
    [it:audit(Target, Before) || {Target, Before} <- lists:zip(Targets, Befores)].

%% The seed is one of them; nodes come, one leaves for good, the seed is killed,
%% and one more comes that only the others can tell of. Hidden nodes and those
%% of other names are none of them.
follow(T) ->
    [A, B] = [target(T, N) || N <- [a, b]],
    Other = it:target(T, #{kind => plain, name => "other", node => "other" ++ name(o)}),
    Hidden = it:target(T, #{kind => plain, name => "hidden", node => name(h), args => ["-hidden"]}),
    joined([A, B, Other]),
    true = it:call(A, net_kernel, connect_node, [list_to_atom(node_of(Hidden))]),
    Before = it:settled(B),
    P = it:kprofd(T, [], #{args => ["-interval", "1s", "-forget", "2s", "-cluster", node_of(A), "-match", "tg_*"]}),
    all_armed(P, 2),
    it:saw(P, "'" ++ node_of(B) ++ "' is a target now: it is in the cluster"),
    C = target(T, c),
    true = it:call(C, net_kernel, connect_node, [list_to_atom(node_of(B))]),
    all_armed(P, 3),
    it:equal("targets", lists:sort([node_of(N) || N <- [A, B, C]]), targets(T, P)),
    it:stop_target(C),
    it:saw(P, "lost '" ++ node_of(C)),
    it:saw(P, "'" ++ node_of(C) ++ "' is no longer a target: it has left the cluster"),
    it:until("it is gone", fun() -> targets(T, P) =:= lists:sort([node_of(A), node_of(B)]) end),
    it:stop_target(A),
    it:saw(P, "lost '" ++ node_of(A)),
    D = target(T, d),
    true = it:call(D, net_kernel, connect_node, [list_to_atom(node_of(B))]),
    it:until("the new one is armed", fun() -> states([D]) =:= [armed] end),
    #{requests := 50} = it:loaded(it:load(T, D, ["2", "50"])),
    it:until("requests closed", fun() -> assembled(P) =:= 50 end),
    %% It is named, so it is waited for.
    Again = target(T, a),
    it:until("the seed is armed again", fun() -> states([Again]) =:= [armed] end),
    it:terminate(P),
    it:equal("requests", 50, it:requests(P)),
    it:equal("nodes with windows", lists:sort([node_of(N) || N <- [A, B, C, D]]),
             [binary_to_list(N) || [N] <- it:sql(P, "select distinct n.name from time_window w join node n on"
                                                 " n.id = w.node_id order by n.name")]),
    it:audit(B, Before, [processes, nodes]),
    [it:equal("an agent", gone, it:call(N, it_stub, agent, [])) || N <- [D, Again, Other, Hidden]].

%% What it has then is what counts.
anew(T) ->
    A = target(T, a),
    Out = it:target(T, #{kind => plain, name => "out", node => name(b), args => ["-kprof", "disabled", "true"]}),
    joined([A, Out]),
    P = it:kprofd(T, [], #{args => ["-forget", "1h", "-cluster", node_of(A), "-match", "tg_*"]}),
    it:saw(P, "'" ++ node_of(Out) ++ "' keeps kprofd out"),
    all_armed(P, 1),
    it:stop_target(Out),
    timer:sleep(5000),
    B = target(T, b),
    joined([A, B]),
    it:until("it is armed", fun() -> states([B]) =:= [armed] end),
    it:terminate(P).

%% It is asked by a connection of its own, and nothing is loaded there.
other_seed(T) ->
    Seed = it:target(T, #{kind => plain, name => "seed", node => "other" ++ name(s)}),
    %% It starts its resolver to know other nodes, which is not ours.
    it:call(Seed, inet, gethostbyname, ["no.such.host.invalid"]),
    Before = it:settled(Seed),
    {S, Notify} = manager(T),
    P = it:kprofd(T, [], #{args => ["-interval", "1s", "-cluster", node_of(Seed), "-match", "tg_x*", "-match", "tg_a*"],
                           env => Notify}),
    %% It would be ended, and started again, for as long as nobody comes.
    _ = told(S, <<"READY=1">>),
    gen_udp:close(S),
    all_armed(P, 0),
    {ok, Nobody} = it:control(P, "pause"),
    says(Nobody, "there is no target just now: those that come will pause"),
    {error, _} = it:control(P, "clear-tokens"),
    {ok, Reloaded} = it:control(P, "reload"),
    says(Reloaded, "nothing to change"),
    A = target(T, a),
    B = target(T, b),
    joined([Seed, A, B]),
    %% Whoever pauses all means those that come, too.
    it:until("it is paused", fun() -> states([A]) =:= [paused] end),
    {ok, <<"resumed\n">>} = it:control(P, "resume"),
    all_armed(P, 1),
    it:equal("targets", [node_of(A)], targets(T, P)),
    it:equal("an agent in the seed", gone, it:call(Seed, it_stub, agent, [])),
    it:terminate(P),
    it:audit(Seed, Before, [processes, nodes]),
    it:equal("an agent", gone, it:call(A, it_stub, agent, [])).

%% It had answered, so kprofd was at work, and ended with "it closed the connection".
%% What comes later and cannot be profiled is no end either.
seed_restarts(T) ->
    Name = "other" ++ name(s),
    Seed = it:target(T, #{kind => plain, name => "seed", node => Name}),
    {S, Notify} = manager(T),
    P = it:kprofd(T, [], #{args => ["-interval", "1s", "-cluster", Name, "-match", "tg_*"], env => Notify}),
    _ = told(S, <<"READY=1">>),
    gen_udp:close(S),
    it:stop_target(Seed),
    it:saw(P, "the seed cannot be asked for the nodes of its cluster: .*; trying again"),
    it:check(it:is_running(P), "kprofd goes on"),
    Again = it:target(T, #{kind => plain, name => "seed2", node => Name}),
    Out = it:target(T, #{kind => plain, name => "out", node => name(b), args => ["-kprof", "disabled", "true"]}),
    joined([Again, Out]),
    it:saw(P, "'" ++ node_of(Out) ++ "' keeps kprofd out"),
    A = target(T, a),
    joined([Again, A]),
    it:until("it is armed", fun() -> states([A]) =:= [armed] end),
    it:terminate(P).

%% It is asked again, as any other: who comes is known to nobody else.
seed_refuses(T) ->
    Seed = it:target(T, #{kind => plain, name => "seed", node => "other" ++ name(s)}),
    [A, B] = [target(T, N) || N <- [a, b]],
    joined([Seed, B]),
    true = it:call(Seed, erlang, set_cookie, [other]),
    P = it:kprofd(T, A, #{args => ["-interval", "1s", "-cluster", node_of(Seed), "-match", "tg_b*"]}),
    it:saw(P, "the seed cannot be asked .*cookie refused.*; trying again"),
    all_armed(P, 1),
    true = it:call(Seed, erlang, set_cookie, [list_to_atom(it:cookie())]),
    all_armed(P, 2),
    it:equal("targets", lists:sort([node_of(A), node_of(B)]), targets(T, P)),
    it:terminate(P).

check_cluster(T) ->
    [A, B] = [target(T, N) || N <- [a, b]],
    joined([A, B]),
    P = it:kprofd(T, [], #{args => ["-check", "-cluster", node_of(A), "-match", "tg_*"]}),
    it:ended(P, 0),
    [says(it:output(P), "^" ++ node_of(Target) ++ ":\nFUNCTION") || Target <- [A, B]],
    Q = it:kprofd(T, [], #{args => ["-check", "-cluster", node_of(A), "-match", "nobody@*"]}),
    it:ended(Q, 1, "no node that is visible in the cluster of '" ++ node_of(A) ++ "' matches").

%% ---------------------------------------------------------------------------

target(T, Name) -> target(T, Name, #{}).

target(T, Name, Opts) ->
    it:target(T, maps:merge(#{node => name(Name), name => lists:concat([target_, Name, "_", erlang:unique_integer([positive])])},
                            Opts)).

%% Of this test alone: tests run at the same time.
name(Name) -> lists:concat(["tg_", Name, "_", os:getpid(), pid_text(), "@127.0.0.1"]).

short_name(Name) ->
    lists:concat(["tg_", Name, "_", os:getpid(), pid_text(), "@", it:short_host()]).

pid_text() ->
    [C || C <- pid_to_list(self()), C >= $0, C =< $9].

node_of(#{node := Node}) -> Node.

joined([First | Others]) ->
    [true = it:call(First, net_kernel, connect_node, [list_to_atom(node_of(N))]) || N <- Others],
    N = length(Others),
    it:until("all know each other",
             fun() -> lists:all(fun(T) -> length(it:call(T, erlang, nodes, [])) >= N end, [First | Others]) end).

tiers(More) ->
    ["{tiers, [{handle, {requests, handle_request, 2}}, {db, {db, network_request, 1}}]}.\n"
     "{sampling, all}.\n{budget, none}.\n" | More].

all_armed(P, N) ->
    it:until(io_lib:format("~b are armed", [N]),
             fun() ->
                     it:is_running(P) orelse it:fail("kprofd has ended:~n~ts", [it:errors(P)]),
                     try it:control(P, "status") of
                         {ok, Text} ->
                             has(Text, io_lib:format("(?m)^targets +~b of", [N])) orelse
                                 (N =:= 1 andalso has(Text, ": armed$"));
                         _ -> false
                     catch error:_ -> false
                     end
             end).

states(Targets) ->
    [case it:call(Target, it_stub, agent, []) of
         #{state := State} -> State;
         gone -> gone
     end || Target <- Targets].

armed(Target) ->
    lists:sort([MFA || {MFA, _, traced, _} <- it:call(Target, it_stub, armed, [[?DB, ?HANDLE, ?ACCOUNT]])]).

targets(T, P) ->
    {ok, Json} = it:control(P, "status json"),
    [binary_to_list(N) || [N] <- json(T, Json, "select value ->> 'target' from json_each(readfile($1), '$.targets') order by 1")].

assembled(P) ->
    {ok, Text} = it:control(P, "status"),
    {match, Counts} = re:run(Text, "([0-9]+) assembled", [global, {capture, [1], binary}]),
    lists:sum([binary_to_integer(N) || [N] <- Counts]).

%% What the first row of a report says, as JSON.
report(T, P, Args, Requests) ->
    Json = kprof(T, P, ["report", "-json" | Args]),
    it:equal(io_lib:format("requests of ~p", [Args]), [[integer_to_binary(Requests)]],
             json(T, Json, "select value ->> 'requests' from json_each(readfile($1), '$.rows') limit 1")).

kprof(T, P, Command) ->
    {0, Out, _} = kprof_said(T, P, Command),
    Out.

kprof_said(T, P, [Command | Args]) ->
    Name = "kprof" ++ integer_to_list(erlang:unique_integer([positive])),
    K = it:start(T, Name, [it:build(T) ++ "/kprof", Command, "-db", it:db(P) | Args], []),
    {it:exited(K), it:output(K), it:errors(K)}.

json(T, Text, Query) ->
    File = it:write(T, "answer.json", Text),
    Sql = re:replace(Query, "\\$1", ["'", File, "'"], [global, {return, list}]),
    it:sql(#{db => ":memory:", name => "sqlite3", out => File}, Sql).

has(Text, Pattern) -> re:run(Text, Pattern, [multiline]) =/= nomatch.

says(Text, Pattern) ->
    has(Text, Pattern) orelse it:fail("no '~ts' in:~n~ts", [Pattern, Text]).
