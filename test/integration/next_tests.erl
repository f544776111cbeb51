%% The next request of one type, traced whole, while a kprofd profiles its nodes: calls of
%% which each number is known, in all processes and nodes; kprofd is away for that time,
%% says so, and is back; and nothing stays, whoever is killed meanwhile.
-module(next_tests).

-export([tests/0]).

-import(it_kprof, [ends/1, kprof/2, says/2]).

-define(TIERS, "{tiers, [{handle, {it_counted, handle, 2}}, {store, {it_counted, store, 1}}, {answers, {it_counted, answer, 1}}]}.\n"
        "{entry, {it_counted, handle, 2}}.\n"
        "{identity, fun\n"
        "    ({it_counted, handle, [late, _]})                  -> undefined;\n"
        "    ({it_counted, handle, [Op, _]}) when is_atom(Op)   -> {kind, Op};\n"
        "    ({it_counted, store, [late]})                      -> \"stored late\";\n"
        "    (_)                                                -> undefined\n"
        "end}.\n"
        "{rewrite, [{\"kind create\", \"creation\"}]}.\n").

tests() ->
    [{"every function of the next one, and kprofd is back", 120, fun whole/1},
     {"kprof trace of one type", 90, fun command/1},
     {"a type that is known later; one that does not come", 120, fun late/1},
     {"one at a time, and what cannot be traced", 90, fun refusals/1},
     {"too many events", 90, fun limited/1},
     {"kprof pause, before it and meanwhile", 120, fun paused/1},
     {"a request that crosses two nodes", 120, fun crossing/1},
     {"a kprofd that attaches ends kprof trace, and restores what there was before both", 120, fun word/1},
     {"kill -9 of kprof, of kprofd, and an end meanwhile", 180, fun killed/1}].

target(T) ->
    Target = it:target(T, #{kind => plain}),
    it_kprof:load(Target),
    Target.

%% Requests of three kinds, one after the other, without an end.
asks(Target) ->
    it:do(Target, fun() ->
                          spawn(fun() ->
                                        Server = spawn_link(it_counted, serve_kinds, []),
                                        register(it_asks, self()),
                                        asks_on([delete, create, late], Server)
                                end),
                          ok
                  end).

asks_on(Kinds, Server) ->
    [begin it_counted:handle(Kind, Server), receive after 20 -> ok end end || Kind <- Kinds],
    asks_on(Kinds, Server).

asks_no_more(Target) ->
    it:do(Target, fun() -> exit(whereis(it_asks), kill), ok end).

kprofd(T, Target) ->
    P = it:kprofd(T, Target, #{tiers => [?TIERS, it:calm()]}),
    it:armed(P),
    P.

trace(P, Line) ->
    {ok, Text} = it:control(P, ["trace ", Line]),
    {match, [Id]} = re:run(Text, "^{\"id\":([0-9]+),", [{capture, all_but_first, list}]),
    Id.

%% Its state, when it is over.
over(P, Id) ->
    it:until("the trace is over", 90000, fun() ->
                                                 {ok, Text} = it:control(P, ["traces id=", Id]),
                                                 re:run(Text, "\"state\":\"(done|failed)\"") =/= nomatch
                                         end),
    {ok, Text} = it:control(P, ["traces id=", Id]),
    Text.

%% Calls of a function.
function(Text, Name) ->
    case re:run(Text, "{\"function\":\"" ++ Name ++ "\",\"calls\":([0-9]+),\"acc_ms\":([0-9.]+),\"own_ms\":([0-9.]+)}",
                [{capture, all_but_first, list}]) of
        {match, [Calls | _]} -> list_to_integer(Calls);
        nomatch -> none
    end.

calls(Text) ->
    [function(Text, "it_counted:" ++ F) || F <- ["handle/2", "answer/1", "squares/1", "store/1"]].

%% Armed so many times, since it has come back.
back(P, Times) ->
    it:until("kprofd is back", 60000, fun() -> it:times_armed(P) >= Times end).

%% 13 calls of squares: 4 before, 6 of the store, 3 of the server. Functions of OTP are there, too.
whole(T) ->
    Target = target(T),
    Before = it:settled(Target),
    P = kprofd(T, Target),
    asks(Target),
    it:assembled(P, 3),
    Id = trace(P, "for=30s text=creation"),
    Text = over(P, Id),
    says(Text, "\"identity\":\"creation\",\"nodes\":\\[\"[^\"]+\"\\],\"state\":\"done\""),
    says(Text, "\"requests\":1,\"begun\":1,\"ended\":1"),
    it:equal("calls", [1, 1, 13, 1], calls(Text)),
    says(Text, "\"processes\":\\[[^]]+,[^]]+\\]"),
    back(P, 2),
    it:assembles(P, 3),
    it:until("no tracer is left", fun() -> not it:call(Target, erlang, module_loaded, [kprof_tracer]) end),
    asks_no_more(Target),
    %% Calls of the agent that came back were shown beside the requests of both.
    it:until("calls of both agents",
             fun() -> it:said(P, "had counted ([0-9]+) calls") >= it:said(P, "([0-9]+) assembled") end),
    it:terminate(P),
    it:audit(Target, Before),
    Lost = it:losses(P),
    it:check(maps:get(unarmed, Lost) > 0 andalso maps:get(uncounted, Lost) > 0, "the pause is a loss: ~p", [Lost]),
    it:equal("its cause, and what came of it", 2,
             it:number(P, "select count(*) from events where kind = 'trace' and (text ="
                       " 'tracing is paused: one request of type ''creation'' is traced whole (trace 1)' or text like"
                       " 'traced one request of type ''creation'': kprofd was away for % s (trace 1)')")).

%% Without a kprofd; a kept trace has the others' events, which no form shows.
command(T) ->
    Target = target(T),
    Before = it:settled(Target),
    Conf = it:write(T, "kinds.conf", ?TIERS),
    asks(Target),
    File = it:path(T, "one.trace"),
    [begin
         {0, _, _} = it_kprof:run(T, Target, "trace", ["-tiers", Conf, "-identity", Name, "-requests", N, "-o", File, "-quiet", "it_counted"]),
         {0, Out, _} = kprof(T, ["analyse", "-form", "json", File]),
         it:equal(["of ", Name], Calls, calls(Out)),
         {0, Events, _} = kprof(T, ["analyse", "-form", "requests", File]),
         it:equal("requests", list_to_integer(N), length(re:split(Events, "^request ", [multiline])) - 1)
     end || {Name, N, Calls} <- [{"creation", "1", [1, 1, 13, 1]}, {"kind delete", "2", [2, 2, 20, 2]},
                                 {"stored late", "1", [1, 1, 13, 1]}]],
    {0, Any, _} = it_kprof:run(T, Target, "trace", ["-tiers", Conf, "-requests", "3", "-form", "json", "it_counted"]),
    it:equal("of any type", [3, 3, 36, 3], calls(Any)),
    {1, _, Errors} = it_kprof:run(T, Target, "trace", ["-tiers", Conf, "-identity", "creatoin", "-for", "1s", "it_counted"]),
    says(Errors, "no request was of type 'creatoin': did you mean 'creation'[?]"),
    {2, _, Needs} = it_kprof:run(T, Target, "trace", ["-identity", "creation", "it_counted"]),
    says(Needs, "-identity NAME goes with -tiers FILE"),
    asks_no_more(Target),
    it:audit(Target, Before).

%% The type of one is known when its store is called: what came before is there all the same.
late(T) ->
    Target = target(T),
    Before = it:settled(Target),
    %% as long as a type may be: of more than 200 bytes none could be traced
    Name = lists:duplicate(255, $n),
    P = it:kprofd(T, Target, #{tiers => [string:replace(?TIERS, "\"stored late\"", ["<<\"", Name, "\">>"]), it:calm()]}),
    it:armed(P),
    asks(Target),
    Late = over(P, trace(P, ["for=30s text=", Name])),
    says(Late, ["\"identity\":\"", Name, "\""]),
    it:equal("calls", [1, 1, 13, 1], calls(Late)),
    back(P, 2),
    None = over(P, trace(P, "for=1s text=kind nothing")),
    says(None, "\"requests\":1,\"begun\":0,\"ended\":0"),
    says(None, "\"nodes\":\\[\\]"),
    says(None, "no request was of type 'kind nothing': there were [^\"]*creation"),
    back(P, 3),
    asks_no_more(Target),
    it:terminate(P),
    it:audit(Target, Before).

refusals(T) ->
    Target = target(T),
    P = kprofd(T, Target),
    Id = trace(P, "for=20s events=1000 text=kind nobody"),
    {error, Busy} = it:control(P, "trace text=creation"),
    says(Busy, "a request of type 'kind nobody' is being traced [(]trace 1, on [^ ]+, since .*, until .* at the latest[)]: one at a time"),
    [begin
         {error, Text} = it:control(P, Line),
         says(Text, Why)
     end || {Line, Why} <- [{"trace", "the name of the request type is empty"},
                            {"trace for=2m text=a", "a trace waits for 60 s at most"},
                            {"trace events=2000000 text=a", "1 to 1000000 events"},
                            {["trace text=", lists:duplicate(300, $x)], "is longer than 256 bytes"},
                            {"trace for=soon text=a", "unknown command"},
                            {"traces id=7", "there is no trace 7: kprofd keeps the last 4"},
                            {"traces", "there is no trace 0"}]],
    asks(Target),
    _ = over(P, Id),
    back(P, 2),
    {error, None} = it:control(P, "trace node=nobody@* text=creation"),
    says(None, "no target of these is attached"),
    asks_no_more(Target),
    it:terminate(P).

%% A paused node is traced, and is paused again. A pause while agents leave was refused: "kprofd is
%% ending".
paused(T) ->
    Target = target(T),
    Before = it:settled(Target),
    P = kprofd(T, Target),
    asks(Target),
    it:assembled(P, 3),
    {ok, _} = it:control(P, "pause"),
    it:until("it is paused, and no request is open", 60000,
             fun() -> it:agent_state(Target) =:= paused andalso it:said(P, "assembled, ([0-9]+) in flight") =:= 0 end),
    N = it:said(P, "([0-9]+) assembled"),
    Text = over(P, trace(P, "for=30s text=creation")),
    says(Text, "\"begun\":1,\"ended\":1"),
    it:until("it is paused again", 60000, fun() -> it:agent_state(Target) =:= paused end),
    it:equal("requests, meanwhile", N, it:said(P, "([0-9]+) assembled")),
    {ok, _} = it:control(P, "resume"),
    it:assembles(P, 3),
    held(Target, 1500),
    Id = trace(P, "for=1s text=kind nothing"),
    {ok, Later} = it:control(P, "pause"),
    says(Later, "it will pause as soon as it is"),
    _ = over(P, Id),
    it:until("it is paused", 60000, fun() -> it:agent_state(Target) =:= paused end),
    {ok, _} = it:control(P, "resume"),
    it:assembles(P, 3),
    asks_no_more(Target),
    it:terminate(P),
    it:audit(Target, Before).

%% kprofd's agent takes so long to leave.
held(Target, Ms) ->
    it:do(Target, fun() ->
                          Me = self(),
                          spawn(fun() ->
                                        Agent = whereis(kprof_agent),
                                        true = erlang:suspend_process(Agent),
                                        Me ! held,
                                        receive after Ms -> ok end,
                                        erlang:resume_process(Agent)
                                end),
                          receive held -> ok end
                  end).

%% What was sent by then is shown, and why it ended.
limited(T) ->
    Target = target(T),
    Before = it:settled(Target),
    P = kprofd(T, Target),
    asks(Target),
    Text = over(P, trace(P, "for=30s events=20 text=creation")),
    says(Text, "\"state\":\"done\""),
    says(Text, "ended early: as many events as were allowed"),
    back(P, 2),
    asks_no_more(Target),
    it:terminate(P),
    it:audit(Target, Before).

%% Both nodes trace it, and kprofd is away from both.
crossing(T) ->
    Targets = [A, B] =
        [it:target(T, #{kind => plain, node => name(N), name => "target_" ++ N}) || N <- ["a", "b"]],
    true = it:call(A, net_kernel, connect_node, [node_of(B)]),
    [{module, M} = it:call(N, code, ensure_loaded, [M]) || N <- Targets, M <- [it_layers, it_counted]],
    [it:equal("answer", [1], it:call(X, it_layers, bounce, [node_of(Y), 1])) || {X, Y} <- [{A, B}, {B, A}]],
    Befores = [it:settled(N) || N <- Targets],
    P = it:kprofd(T, Targets, #{tiers => "{tiers, [{bounce, {it_layers, bounce, 2}}]}.\n"
                                "{identity, fun ({it_layers, bounce, [_, N]}) when is_integer(N) -> {n, N}; (_) -> undefined end}.\n"}),
    it:until("both are armed", fun() -> it:times_armed(P) >= 2 end),
    Other = node_of(B),
    it:do(A, fun() -> spawn(fun() -> register(it_asks, self()), bounce(Other) end), ok end),
    Text = over(P, trace(P, "for=30s text=n 3")),
    says(Text, "\"requests\":1,\"begun\":1,\"ended\":1"),
    it:equal("calls", [1, 1, 3], [function(Text, "it_layers:" ++ F) || F <- ["bounce/2", "chain/2", "ponder/0"]]),
    says(Text, "\"processes\":\\[[^]]*" ++ atom_to_list(node_of(A)) ++ "[^]]*" ++ atom_to_list(Other)),
    it:until("kprofd is back", 60000, fun() -> it:times_armed(P) >= 4 end),
    asks_no_more(A),
    it:terminate(P),
    [it:audit(N, Before, [processes, nodes]) || {N, Before} <- lists:zip(Targets, Befores)].

bounce(Other) ->
    [it_layers:bounce(Other, N) || N <- [2, 3, 4]],
    receive after 20 -> ok end,
    bounce(Other).

%% Of this test alone: tests run at the same time.
name(Name) ->
    lists:concat(["nt_", Name, "_", os:getpid(), [D || D <- pid_to_list(self()), D >= $0, D =< $9], "@127.0.0.1"]).

node_of(#{node := Node}) -> list_to_atom(Node).

killed(T) ->
    Target = target(T),
    Before = it:settled(Target),
    P = kprofd(T, Target),
    Failed = trace(P, "for=50s text=kind nobody"),
    tracing(P, Failed),
    os:cmd("kill -9 " ++ child(P)),
    Text = over(P, Failed),
    says(Text, "\"state\":\"failed\""),
    back(P, 2),
    tracing(P, trace(P, "for=50s text=kind nobody")),
    it:terminate(P),
    it:audit(Target, Before),
    Q = kprofd(T, Target),
    tracing(Q, trace(Q, "for=50s text=kind nobody")),
    it:kill(Q),
    it:audit(Target, Before).

word(T) ->
    Target = target(T),
    case it:otp(Target) < 27 of
        true -> {skipped, "a process has one tracer there"};
        false -> word(T, Target)
    end.

word(T, Target) ->
    it:call(Target, erlang, system_flag, [trace_control_word, 123456789]),
    Before = it:settled(Target),
    asks(Target),
    Conf = it:write(T, "kinds.conf", ?TIERS),
    Trace = it_kprof:background(T, Target, "trace", ["-tiers", Conf, "-identity", "kind nobody", "-for", "60s", "it_counted"]),
    it:until("it has the word", fun() -> it:call(Target, erlang, system_info, [trace_control_word]) bsr 31 =:= 1 end),
    P = kprofd(T, Target),
    {1, _, Errors} = ends(Trace),
    says(Errors, "a kprofd has attached there, which marks requests"),
    it:until("no tracer is left", fun() -> not it:call(Target, erlang, module_loaded, [kprof_tracer]) end),
    it:assembles(P, 3),
    asks_no_more(Target),
    it:terminate(P),
    it:audit(Target, Before).

tracing(P, Id) ->
    it:until("it traces", fun() ->
                                  {ok, Text} = it:control(P, ["traces id=", Id]),
                                  re:run(Text, "\"state\":\"tracing\"") =/= nomatch andalso child(P) =/= ""
                          end).

child(#{pid := Pid}) ->
    string:trim(os:cmd(lists:concat(["pgrep -P ", Pid, " kprof"]))).
