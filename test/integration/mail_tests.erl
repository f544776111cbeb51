%% How long messages wait in mailboxes: what kprofd says is what the program
%% knows, and nobody else's tracing is touched for it.
-module(mail_tests).

-export([tests/0]).

%% Requests, messages to the server of each of them, and how long it is held.
-define(N, 20).
-define(M, 5).
-define(HELD_MS, 30).
%% Two looks at a clock, and the line between two moments of it: see clock.h.
-define(SLACK_NS, 200000).

tests() ->
    [{"waits are what the program measured", 90, fun measured/1},
     {"processes of one kind are one receiver", 90, fun one_kind/1},
     {"sampled: waits are estimates of all", 90, fun sampled/1},
     {"from node to node", 90, fun across/1},
     {"what is never received is counted", 90, fun unreceived/1},
     {"the relay cannot have it, and says so", 60, fun relay/1},
     {"somebody else is the system tracer", 90, fun others/1},
     {"somebody else becomes the system tracer", 90, fun taken_over/1},
     {"kprofd is killed", 60, fun kprofd_killed/1},
     {"the agent is killed", 60, fun agent_killed/1},
     {"paused and resumed", 60, fun paused/1},
     {"a reload begins it and ends it", 90, fun reload/1}].

tiers(More) ->
    ["{tiers, [{post, {it_mail, post, 3}}]}.\n{entry, [{it_mail, request, 4}, {it_mail, listen, 1}]}.\n"
     "{identity, fun({it_mail, request, [Kind, _, _, _]}) -> Kind; ({it_mail, listen, [{Kind, _, _}]}) -> Kind end}.\n"
     "{slow_ms, 0}.\n", it:calm() | More].

all() -> tiers("{messages, true}.\n{sampling, all}.\n{budget, none}.\n").

target(T) ->
    Target = it:target(T, #{kind => plain}),
    true = it:call(Target, it_mail, start, []),
    {Target, it:settled(Target)}.

native(T, Target, Tiers) ->
    it:kprofd(T, Target, #{tiers => Tiers, args => ["-interval", "1s", "-probe", "native" | it:probe_library(T)]}).

timed(P) ->
    it:saw(P, "messages of '.*' are timed$").

run(Target, Kind, N) ->
    N = it:call(Target, it_mail, run, [Kind, N, ?M, ?HELD_MS]).

closed(P, N) ->
    it:until("requests closed", fun() -> assembled(P) >= N end).

assembled(P) ->
    {ok, Text} = it:control(P, "status"),
    lists:sum([list_to_integer(N)
               || {match, Found} <- [re:run(Text, "requests +([0-9]+) assembled", [global, {capture, all_but_first, list}])],
                  [N] <- Found]).

status(P, Pattern) ->
    it:until(["status says ", Pattern],
             fun() -> {ok, Text} = it:control(P, "status"), re:run(Text, Pattern, [multiline]) =/= nomatch end).

tracer(Target) ->
    it:call(Target, seq_trace, get_system_tracer, []).

over(Target, Before) ->
    it:equal("the system tracer at the end", false, tracer(Target)),
    it:audit(Target, Before, [processes]),
    it:call(Target, it_mail, stop, []).

%% {Receiver, Messages, SumOfWaits} of one kind.
seen(P, Kind) ->
    lists:sort([{binary_to_list(R), binary_to_integer(N), binary_to_integer(Ns)}
                || [R, N, Ns] <- it:sql(P, ["select r.name, sum(m.messages), sum(m.wait_ns) from message_stat m"
                                            " join receiver r on r.id = m.receiver_id"
                                            " join identity i on i.id = m.identity_id where i.name = '", Kind,
                                            "' group by r.name"])]).

%% The same, as the program has it: the least and the most that it can be.
known(Targets) ->
    All = [it:call(T, it_mail, waits, []) || T <- Targets],
    Sent = maps:from_list(lists:append([S || {_, S} <- All])),
    [{Who, max(0, Before - maps:get(Id, Sent)), After - At}
     || {Took, _} <- All, {Who, Id, Before, After, At} <- Took].

%% Of several names, since who has ended when it is asked for is known otherwise.
compare(Names, Who, Seen, Known) ->
    Mine = [{Least, Most} || {W, Least, Most} <- Known, W =:= Who],
    N = length(Mine),
    Sum = lists:sum([Ns || {Name, _, Ns} <- Seen, lists:member(Name, Names)]),
    it:equal(["messages of ", hd(Names)], N, lists:sum([C || {Name, C, _} <- Seen, lists:member(Name, Names)])),
    Least = lists:sum([L || {L, _} <- Mine]) - N * ?SLACK_NS,
    Most = lists:sum([M || {_, M} <- Mine]) + N * ?SLACK_NS,
    it:check(Sum >= Least andalso Sum =< Most, "~ts waited ~b ns, not ~b to ~b", [hd(Names), Sum, Least, Most]).

-define(CLIENT, ["erlang:apply/2", "_entry"]).

%% A first one, so that names are known: of who is asked while it closes.
warm(P, Target) ->
    run(Target, warm, 1),
    closed(P, 1).

measured(T) ->
    {Target, Before} = target(T),
    P = native(T, Target, all()),
    it:armed(P),
    timed(P),
    status(P, "^messages +timed$"),
    it:equal("the system tracer", {kprof_probe, []}, tracer(Target)),
    warm(P, Target),
    Warm = known([Target]),
    run(Target, work, ?N),
    closed(P, ?N + 1),
    it:terminate(P),
    Known = known([Target]) -- Warm,
    Seen = seen(P, "work"),
    it:equal("losses", #{}, it:lost(P)),
    compare(["it_mail_server"], it_mail_server, Seen, Known),
    compare(["it_mail:worker/0"], worker, Seen, Known),
    compare(?CLIENT, client, Seen, Known),
    it:equal("messages of anybody", length(Known), lists:sum([N || {_, N, _} <- Seen])),
    %% All but the last of each request lay there while the server was held.
    Held = lists:sum([L || {it_mail_server, L, _} <- Known]),
    it:check(Held >= ?N * (?M - 1) * ?HELD_MS * 900000, "they were held for ~b ns", [Held]),
    slow(P),
    reports(T, P),
    over(Target, Before).

%% Each tree has them, whole.
slow(P) ->
    it:equal("requests whose waits are not all there", 0,
             it:number(P, ["select count(*) from (select request from slow_waits group by request having sum(messages) <> ",
                           integer_to_list(?M + 3), ")"])),
    it:equal("the process that most waited for", [[<<"it_mail_server">>]],
             it:sql(P, "select distinct receiver from slow_waits where seq = 0")),
    it:equal("waits", ?N + 1, it:number(P, "select count(distinct request) from slow_waits")),
    it:equal("windows whose view differs", 0,
             it:number(P, "select count(*) from message_stats where mean_ms > max_ms or min_ms > p50_ms or p50_ms > p99_ms")).

%% What kprof report -messages says is what the rows are.
reports(T, P) ->
    Text = kprof(T, P, ["report", "-messages", "-identity", "work"]),
    it:check(re:run(Text, "it_mail_server +" ++ integer_to_list(?N * ?M) ++ " ") =/= nomatch, "the server is there:~n~ts", [Text]),
    File = it:write(T, "messages.json", kprof(T, P, ["report", "-messages", "-json"])),
    [[Json]] = it:sql(P, ["select cast(round(sum(value ->> 'total_ms') * 1e6) as integer)"
                          " from json_each(readfile('", File, "'), '$.receivers')"]),
    it:equal("sum in JSON", it:number(P, "select sum(w_wait_ns) from message_stat"), binary_to_integer(Json)),
    [[Id]] = it:sql(P, "select request from slow_requests order by request desc limit 1"),
    Tree = kprof(T, P, ["tree", binary_to_list(Id)]),
    it:check(re:run(Tree, "it_mail_server +<[0-9.]+> +" ++ integer_to_list(?M) ++ " ") =/= nomatch, "the tree has it:~n~ts", [Tree]).

kprof(T, P, [Command | Args]) ->
    K = it:start(T, "kprof" ++ integer_to_list(erlang:unique_integer([positive])),
                 [it:build(T) ++ "/kprof", Command, "-db", it:db(P) | Args], []),
    it:ended(K, 0),
    it:output(K).

%% On OTP 25 a worker with more than a small heap was proc_lib:init_p/5: its dictionary was not read.
one_kind(T) ->
    {Target, Before} = target(T),
    P = native(T, Target, all()),
    it:armed(P),
    timed(P),
    warm(P, Target),
    run(Target, one, ?N),
    Words = it:call(Target, it_mail, another_worker, [100000]),
    it:check(Words > 200000, "its heap has ~b words", [Words]),
    run(Target, one, ?N),
    closed(P, 2 * ?N + 1),
    it:terminate(P),
    it:equal("workers", [{"it_mail:worker/0", 2 * ?N}],
             [{Name, N} || {Name, N, _} <- seen(P, "one"), Name =/= "it_mail_server", not lists:member(Name, ?CLIENT)]),
    over(Target, Before).

%% One in two: each counts for two, and what the others waited is not there.
sampled(T) ->
    {Target, Before} = target(T),
    P = native(T, Target, tiers("{messages, true}.\n{sampling, {one_in, 2}}.\n{budget, none}.\n")),
    it:armed(P),
    timed(P),
    run(Target, work, 2 * ?N),
    it:until("requests closed", fun() -> {ok, S} = it:control(P, "status"), re:run(S, " 0 in flight") =/= nomatch end),
    it:terminate(P),
    Requests = it:requests(P),
    it:check(Requests > 0 andalso Requests < 2 * ?N, "~b requests are sampled", [Requests]),
    it:equal("messages", [[integer_to_binary((?M + 3) * Requests), integer_to_binary(2 * (?M + 3) * Requests)]],
             it:sql(P, "select sum(messages), sum(w_messages) from message_stat")),
    it:equal("losses", [sampled_out], maps:keys(it:lost(P))),
    over(Target, Before).

%% The request's process and the worker are on one node, the server on another:
%% what is from there has its way in it, and is marked so.
across(T) ->
    Targets = [A, B] = [it:target(T, #{kind => plain, node => name(N), name => "target_" ++ atom_to_list(N)})
                        || N <- [a, b]],
    [NA, NB] = [list_to_atom(N) || #{node := N} <- Targets],
    true = it:call(A, net_kernel, connect_node, [NB]),
    [true = it:call(X, it_mail, start, []) || X <- Targets],
    Befores = [it:settled(X) || X <- Targets],
    P = native(T, Targets, all()),
    it:until("both are timed", fun() -> it:count(P, "messages of '.*' are timed$") =:= 2 end),
    it:until("both are armed", fun() -> it:times_armed(P) >= 2 end),
    Far = it:call(B, erlang, whereis, [it_mail_server]),
    Ran = fun(Kind, N) ->
                  it:do(A, fun() ->
                                   [{worker, W}] = ets:lookup(it_mail, worker),
                                   [begin
                                        {Pid, Ref} = spawn_monitor(fun() -> it_mail:request(Kind, Far, ?M, W) end),
                                        receive {'DOWN', Ref, process, Pid, normal} -> ok end
                                    end || _ <- lists:seq(1, N)],
                                   ok
                           end)
          end,
    ok = Ran(warm, 1),
    closed(P, 1),
    ok = Ran(work, ?N),
    closed(P, ?N + 1),
    it:terminate(P),
    it:equal("losses", #{}, it:lost(P)),
    it:equal("messages to the server, by node",
             [[atom_to_binary(NB), integer_to_binary(?N * ?M), integer_to_binary(?N * ?M)]],
             it:sql(P, "select node, sum(messages), sum(away) from message_stats where receiver = 'it_mail_server'"
                    " and identity = 'work' group by node")),
    it:equal("answers at the other node, and those that came from afar",
             [[atom_to_binary(NA), integer_to_binary(2 * ?N), integer_to_binary(?N)]],
             it:sql(P, "select node, sum(messages), sum(away) from message_stats where identity = 'work'"
                    " and receiver not in ('it_mail_server', 'it_mail:worker/0') group by node")),
    far_waits(P, known(Targets)),
    [it:audit(X, Before, [processes, nodes]) || {X, Before} <- lists:zip(Targets, Befores)].

%% Right to what the offsets of two clocks are: some ms at the worst.
far_waits(P, Known) ->
    Seen = it:number(P, "select sum(wait_ns) from message_stat m join receiver r on r.id = m.receiver_id"
                     " where r.name = 'it_mail_server'"),
    Mine = [{L, M} || {it_mail_server, L, M} <- Known],
    Slack = length(Mine) * 5000000,
    Least = lists:sum([L || {L, _} <- Mine]) - Slack,
    Most = lists:sum([M || {_, M} <- Mine]) + Slack,
    it:check(Seen >= Least andalso Seen =< Most, "afar they waited ~b ns, not ~b to ~b", [Seen, Least, Most]).

name(Name) ->
    lists:concat(["mail_", Name, "_", os:getpid(), [D || D <- pid_to_list(self()), D >= $0, D =< $9], "@127.0.0.1"]).

%% Some lie there when their request closes; what is taken later is not counted a
%% second time. Of what has nobody to take it the VM says nothing.
unreceived(T) ->
    {Target, Before} = target(T),
    P = native(T, Target, all()),
    it:armed(P),
    timed(P),
    ?N = it:call(Target, it_mail, unheard, [left, ?N, ?M]),
    ?M = it:call(Target, it_mail, dead_letters, [dead, ?M]),
    closed(P, ?N + 1),
    ok = it:call(Target, it_mail, let_go, []),
    it:until("all are taken", fun() -> it:call(Target, it_mail, taken, [it_mail_server]) =:= ?N * ?M end),
    run(Target, work, 1),
    closed(P, ?N + 2),
    it:terminate(P),
    it:equal("losses", #{unreceived => ?N * ?M}, it:lost(P)),
    it:equal("messages of the one that was heard", ?M + 3, it:number(P, "select sum(messages) from message_stat")),
    over(Target, Before).

relay(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target, #{tiers => all(), args => ["-probe", "relay"]}),
    it:ended(P, 1, "{messages, true} needs the native probe"),
    Auto = it:kprofd(T, Target, #{tiers => all(), args => ["-interval", "1s", "-probe", "auto",
                                                           "-probe-library", "/nowhere/kprof_probe.so"]}),
    it:armed(Auto),
    it:saw(Auto, "messages are not timed: they need the native probe"),
    status(Auto, "^messages +not timed: they need the native probe"),
    run(Target, work, 2),
    closed(Auto, 2),
    it:equal("the system tracer", false, tracer(Target)),
    it:terminate(Auto),
    it:equal("requests", 2, it:requests(Auto)),
    it:equal("messages", 0, it:number(Auto, "select count(*) from message_stat")),
    over(Target, Before).

%% A process of somebody's, whose mailbox shows what it is sent.
somebody(Target) ->
    Pid = it:do(Target, fun() -> spawn(fun() -> receive stop -> ok end end) end),
    it:call(Target, seq_trace, set_system_tracer, [Pid]),
    Pid.

mailbox(Target, Pid) ->
    {message_queue_len, N} = it:call(Target, erlang, process_info, [Pid, message_queue_len]),
    N.

others(T) ->
    {Target, Before} = target(T),
    Pid = somebody(Target),
    P = native(T, Target, all()),
    it:armed(P),
    it:saw(P, "messages are not timed: another tool is the system tracer"),
    status(P, "^messages +not timed: another tool"),
    run(Target, work, 3),
    closed(P, 3),
    it:equal("somebody else's mailbox", 0, mailbox(Target, Pid)),
    it:equal("the system tracer", Pid, tracer(Target)),
    %% He ends: then it begins by itself.
    it:call(Target, seq_trace, set_system_tracer, [false]),
    timed(P),
    run(Target, work, 3),
    closed(P, 6),
    it:terminate(P),
    it:equal("messages", 3 * (?M + 3), it:number(P, "select sum(messages) from message_stat")),
    it:equal("events", 1, it:number(P, "select count(*) from events where kind = 'messages'")),
    over(Target, Before).

taken_over(T) ->
    {Target, Before} = target(T),
    P = native(T, Target, all()),
    it:armed(P),
    timed(P),
    Pid = somebody(Target),
    it:saw(P, "messages are not timed: another tool is the system tracer"),
    N = mailbox(Target, Pid),
    run(Target, work, 3),
    closed(P, 3),
    it:equal("what came to somebody else since", N, mailbox(Target, Pid)),
    it:terminate(P),
    it:equal("the system tracer", Pid, tracer(Target)),
    it:call(Target, seq_trace, set_system_tracer, [false]),
    over(Target, Before).

kprofd_killed(T) ->
    {Target, Before} = target(T),
    P = native(T, Target, all()),
    it:armed(P),
    timed(P),
    it:kill(P),
    it:until("no system tracer", fun() -> tracer(Target) =:= false end),
    over(Target, Before).

agent_killed(T) ->
    {Target, Before} = target(T),
    P = native(T, Target, all()),
    it:armed(P),
    timed(P),
    true = it:call(Target, erlang, exit, [it:call(Target, erlang, whereis, [kprof_agent]), kill]),
    it:saw(P, "lost '"),
    it:until("timed again", fun() -> it:count(P, "messages of '.*' are timed$") =:= 2 end),
    it:until("armed again", fun() -> it:times_armed(P) =:= 2 end),
    run(Target, work, 2),
    closed(P, 2),
    it:terminate(P),
    it:equal("messages", 2 * (?M + 3), it:number(P, "select sum(messages) from message_stat")),
    over(Target, Before).

paused(T) ->
    {Target, Before} = target(T),
    P = native(T, Target, all()),
    it:armed(P),
    timed(P),
    {ok, _} = it:control(P, "pause"),
    it:until("no system tracer", fun() -> tracer(Target) =:= false end),
    run(Target, work, 1),
    {ok, _} = it:control(P, "resume"),
    it:until("system tracer again", fun() -> tracer(Target) =:= {kprof_probe, []} end),
    it:until("armed again", fun() -> it:times_armed(P) =:= 2 end),
    run(Target, work, 2),
    closed(P, 2),
    it:terminate(P),
    it:equal("messages", 2 * (?M + 3), it:number(P, "select sum(messages) from message_stat")),
    over(Target, Before).

reload(T) ->
    {Target, Before} = target(T),
    File = it:path(T, "changing.conf"),
    Write = fun(Messages) -> ok = file:write_file(File, tiers(["{sampling, all}.\n{budget, none}.\n" | Messages])) end,
    Write(""),
    P = native(T, Target, {file, File}),
    it:armed(P),
    it:equal("the system tracer", false, tracer(Target)),
    run(Target, without, 2),
    closed(P, 2),
    Write("{messages, true}.\n"),
    {ok, _} = it:control(P, "reload"),
    timed(P),
    run(Target, with, 2),
    closed(P, 4),
    Write("{messages, false}.\n"),
    {ok, _} = it:control(P, "reload"),
    it:until("no system tracer", fun() -> tracer(Target) =:= false end),
    run(Target, without, 2),
    closed(P, 6),
    it:terminate(P),
    it:equal("messages", [[<<"with">>, integer_to_binary(2 * (?M + 3))]],
             it:sql(P, "select identity, sum(sampled_messages) from message_stats group by identity")),
    over(Target, Before).
