%% kprof count and time limited to an identity, to a tier, and to the requests of a
%% kprofd that is there: calls of which each number is known.
-module(limits_tests).

-export([tests/0]).

-import(it_kprof, [background/4, ends/1, interrupt/1, load/1, plain/1, says/2, start/4]).

tests() ->
    [{"requests of one identity", 90, fun identity/1},
     {"requests of one identity, many at once", 90, fun many/1},
     {"calls within a tier", 90, fun tier/1},
     {"requests that a kprofd marks", 120, fun attached/1},
     {"a kprofd that has just ended", 60, fun leaving/1},
     {"many that call an entry, and end", 120, fun many_ended/1},
     {"tokens after requests of one identity", 60, fun tokens_after/1},
     {"what a profile was limited to", 60, fun shown/1},
     {"limits that cannot be", 60, fun refusals/1},
     {"limited, and killed", 90, fun killed/1}].

-define(SQUARES, "it_counted:squares/1").
-define(HANDLE, "it_counted:handle/2").
-define(ANSWER, "it_counted:answer/1").
-define(STORE, "it_counted:store/1").

%% The kind `late` is known in the store only.
conf(T) ->
    it:write(T, "kinds.conf",
             "{tiers, [{store, {it_counted, store, 1}}, {answers, {it_counted, answer, 1}}]}.\n"
             "{entry, {it_counted, handle, 2}}.\n"
             "{identity, fun\n"
             "    ({it_counted, handle, [late, _]})                  -> undefined;\n"
             "    ({it_counted, handle, [Op, _]}) when is_atom(Op)   -> {kind, Op};\n"
             "    ({it_counted, store, [late]})                      -> \"stored late\";\n"
             "    (_)                                                -> undefined\n"
             "end}.\n"
             "{rewrite, [{\"kind create\", \"creation\"}]}.\n").

%% Somebody else works for nobody meanwhile, and so does the server.
identity(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Conf = conf(T),
    Server = server(Target),
    Kinds = [delete, create, late, delete, create, create, late],
    [begin
         P = start(T, Target, Cmd, ["-csv", "-requests", integer_to_list(N), "-tiers", Conf, "-identity", Name, "it_counted"]),
         asked(Target, Server, Kinds),
         {0, Out, Errors} = ends(P),
         it:equal(["of ", Name, ": ", Errors], [{?ANSWER, N}, {?HANDLE, N}, {?SQUARES, Squares}, {?STORE, N}],
                  counts(Out, [?ANSWER, ?HANDLE, ?SQUARES, ?STORE])),
         it:equal("what was no request", [], counts(Out, ["it_counted:fib/1"])),
         it_audit:during(Target, Mark)
     end || {Cmd, Name, N, Squares} <- [{"count", "creation", 3, 39}, {"time", "kind delete", 2, 20},
                                        {"count", "stored late", 2, 26}, {"count", "creation", 2, 26}]],
    gone(Target, Server),
    it_audit:ends(Target, Mark).

%% One server works for all of them in turn. It may be seen to work for one whose
%% beginning is told of later.
many(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Conf = conf(T),
    Server = server(Target),
    P = start(T, Target, "count", ["-csv", "-requests", "1500", "-tiers", Conf, "-identity", "creation", "it_counted"]),
    it:do(Target, fun() ->
                          Ps = [spawn_monitor(it_counted, handle, [lists:nth(1 + I rem 2, [delete, create]), Server])
                                || I <- lists:seq(1, 3000)],
                          [receive {'DOWN', Ref, process, _, normal} -> ok end || {_, Ref} <- Ps],
                          ok
                  end),
    {0, Out, _} = ends(P),
    it:equal("of 1,500", [{?ANSWER, 1500}, {?HANDLE, 1500}, {?SQUARES, 1500 * 13}, {?STORE, 1500}],
             counts(Out, [?ANSWER, ?HANDLE, ?SQUARES, ?STORE])),
    gone(Target, Server),
    it_audit:ends(Target, Mark).

%% The same functions are called in the tier and out of it, in two processes.
tier(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Conf = conf(T),
    Server = server(Target),
    [begin
         P = start(T, Target, Cmd, ["-csv", "-requests", "3", "-tiers", Conf, "-tier", Tier | Args] ++ ["it_counted"]),
         asked(Target, Server, [delete, create, late, delete, create]),
         {0, Out, _} = ends(P),
         it:equal(["in ", Tier], Calls, counts(Out, [?ANSWER, ?HANDLE, ?SQUARES, ?STORE])),
         it_audit:during(Target, Mark)
     end || {Cmd, Tier, Args, Calls} <-
                [{"count", "store", [], [{?SQUARES, 15}, {?STORE, 3}]},
                 {"time", "answers", [], [{?ANSWER, 3}, {?SQUARES, 9}]},
                 {"count", "store", ["-entry", ?HANDLE], [{?SQUARES, 15}, {?STORE, 3}]}]],
    Both = start(T, Target, "count", ["-csv", "-requests", "2", "-tiers", Conf, "-tier", "store", "-identity", "creation",
                                      "it_counted"]),
    asked(Target, Server, [delete, create, late, create]),
    {0, Out, _} = ends(Both),
    it:equal("of both", [{?SQUARES, 12}, {?STORE, 2}], counts(Out, [?ANSWER, ?HANDLE, ?SQUARES, ?STORE])),
    gone(Target, Server),
    it_audit:ends(Target, Mark).

%% Its tokens, its figures, its state stay as they are.
attached(T) ->
    Target = it:target(T),
    load(Target),
    Conf = conf(T),
    Server = server(Target),
    D = it:kprofd(T, Target, #{tiers => {file, Conf}}),
    it:armed(D),
    case it:otp(Target) < 27 of
        true ->
            {1, "", Errors} = ends(background(T, Target, "count", ["-attached", "it_counted"])),
            says(Errors, "-attached is for OTP 27 on, and this is 2[56]: before that a process has one tracer"),
            it:equal("it goes on", armed, it:agent_state(Target));
        false ->
            beside(T, Target, Conf, Server),
            measured(T, Target, D),
            leaves(T, Target, D)
    end,
    it:is_running(D) andalso it:terminate(D),
    gone(Target, Server).

%% More than are held at a time: nobody waits for those that have ended.
many_ended(T) ->
    Target = it:target(T),
    load(Target),
    it:otp(Target) < 27 orelse many_ended(T, Target).

many_ended(T, Target) ->
    Server = server(Target),
    D = it:kprofd(T, Target, #{tiers => {file, it:write(T, "ended.conf",
                                                        "{tiers, [{answers, {it_counted, answer, 1}}]}.\n"
                                                        "{entry, [{it_counted, handle, 2}, {it_counted, leave, 1}]}.\n{budget, none}.\n")}}),
    it:armed(D),
    P = start(T, Target, "count", ["-csv", "-attached", "it_counted"]),
    it:do(Target, fun() ->
                          [begin
                               {Pid, Ref} = spawn_monitor(fun() -> it_counted:leave(self()) end),
                               receive {'DOWN', Ref, process, Pid, normal} -> ok end
                           end || _ <- lists:seq(1, 21000)],
                          ok
                  end),
    %% Few of them have a token at first, after so many.
    [begin
         asked(Target, Server, [create]),
         receive after 10 -> ok end
     end || _ <- lists:seq(1, 300)],
    {0, Out, _} = interrupt(P),
    Counted = counts(Out, [?HANDLE, ?STORE]),
    it:check(length(Counted) =:= 2, "~0p", [Counted]),
    it:terminate(D),
    gone(Target, Server).

%% Who goes on calling the entry has none, and nor has who works for him.
tokens_after(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Conf = conf(T),
    Server = server(Target),
    Asking = it:do(Target, fun() -> spawn(fun() -> asks(Server) end) end),
    {0, _, _} = ends(start(T, Target, "count", ["-requests", "2", "-tiers", Conf, "-identity", "creation", "it_counted"])),
    it:equal("tokens", [[], []], it:do(Target, fun() ->
                                                       [begin
                                                            {_, Token} = process_info(P, sequential_trace_token),
                                                            Token
                                                        end || P <- [Asking, Server]]
                                               end)),
    it:do(Target, fun() -> exit(Asking, kill), ok end),
    gone(Target, Server),
    it_audit:ends(Target, Mark).

asks(Server) ->
    it_counted:handle(create, Server),
    receive after 5 -> asks(Server) end.

%% While it counts; then there is none.
leaves(T, Target, D) ->
    P = start(T, Target, "count", ["-attached", "it_counted"]),
    it:terminate(D),
    {1, Out, _} = ends(P),
    says(Out, "the kprofd there, which marks requests, has gone"),
    {1, "", Errors} = ends(background(T, Target, "count", ["-attached", "it_counted"])),
    says(Errors, "no kprofd is attached there").

beside(T, Target, Conf, Server) ->
    [begin
         P = start(T, Target, Cmd, ["-csv", "-attached" | Args] ++ ["it_counted"]),
         asked(Target, Server, [delete, create, late, delete, create]),
         {0, Out, Errors} = interrupt(P),
         it:equal(["beside a kprofd ", lists:join(" ", Args), Errors], Calls, counts(Out, [?ANSWER, ?HANDLE, ?SQUARES, ?STORE])),
         it:equal("what was no request", [], counts(Out, ["it_counted:fib/1"])),
         it:equal("it goes on", armed, it:agent_state(Target))
     end || {Cmd, Args, Calls} <-
                [{"count", [], [{?ANSWER, 5}, {?HANDLE, 5}, {?SQUARES, 59}, {?STORE, 5}]},
                 {"time", ["-tiers", Conf, "-identity", "creation"], [{?ANSWER, 2}, {?HANDLE, 2}, {?SQUARES, 26}, {?STORE, 2}]},
                 {"count", ["-tiers", Conf, "-tier", "store"], [{?SQUARES, 24}, {?STORE, 5}]}]],
    {1, "", Own} = ends(background(T, Target, "count", ["-entry", ?HANDLE, "it_counted"])),
    says(Own, "a kprofd is attached there.*kprof count -attached").

%% Its agent takes back flags for a while, and answers nobody: here it is held up.
leaving(T) ->
    Target = it:target(T),
    load(Target),
    P = it:kprofd(T, Target),
    it:armed(P),
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    it:do(Target, fun() -> true = erlang:suspend_process(Agent) end),
    it:kill(P),
    it:until("kprofd has gone", fun() -> not lists:any(fun is_kprofd/1, it:call(Target, erlang, nodes, [hidden])) end),
    Waiting = waiting(Target, Agent),
    Count = background(T, Target, "count", ["-for", "200ms", "-entry", ?HANDLE, "it_counted"]),
    it:until("it is asked", fun() -> waiting(Target, Agent) > Waiting end),
    it:do(Target, fun() -> erlang:resume_process(Agent) end),
    {1, _, Said} = ends(Count),
    says(Said, "of 1 request 0 had begun").

is_kprofd(Node) -> lists:prefix("kprofd", atom_to_list(Node)).

%% The messages themselves are hidden from OTP 27 on.
waiting(Target, Pid) ->
    {message_queue_len, N} = it:call(Target, erlang, process_info, [Pid, message_queue_len]),
    N.

%% What kprofd calls to measure itself has a label of the same kind; once a minute, and
%% whenever it is armed. And it is no work of the node's own.
measured(T, Target, D) ->
    Inside = {kprof_agent, traced_inside, 0},
    P = start(T, Target, "count", ["-csv", "-attached", "it_counted", "kprof_agent"]),
    it:do(Target, fun() -> 1 = erlang:trace_pattern(Inside, true, [call_count]) end),
    [{ok, _} = it:control(D, Cmd) || Cmd <- ["pause", "resume"]],
    it:until("it is measured", fun() ->
                                       {call_count, 32} =:= it:do(Target, fun() -> erlang:trace_info(Inside, call_count) end)
                               end),
    it:do(Target, fun() -> erlang:trace_pattern(Inside, false, [call_count]) end),
    {0, Out, _} = interrupt(P),
    it:equal("what measures", [], counts(Out, ["kprof_agent:traced_around/1", "kprof_agent:traced_inside/0"])),
    {0, All, _} = ends(background(T, Target, "count", ["-csv", "-for", "2s", "-max-functions", "200000", "_"])),
    it:check(re:run(All, "^kprof_agent:", [multiline]) =:= nomatch, "kprofd's own code is left out of `_`").

%% In each of its forms.
shown(T) ->
    Target = plain(T),
    Conf = conf(T),
    Server = server(Target),
    File = it:path(T, "limits.db"),
    Counted = fun(Args) ->
                      P = start(T, Target, "count", ["-tiers", Conf, "-identity", "creation", "-tier", "store"] ++ Args
                                ++ [?SQUARES]),
                      asked(Target, Server, [create]),
                      {0, Out, _} = ends(P),
                      Out
              end,
    Words = "only in requests that it_counted:handle/2 begins, of type 'creation', while in a call of the tier 'store'",
    says(flat(Counted(["-db", File])), Words),
    says(Counted(["-json"]), "\"limit\":\\{\"entries\":\\[\"it_counted:handle/2\"\\],\"attached\":false,"
         "\"identity\":\"creation\",\"tier\":\"store\"\\}"),
    Csv = Counted(["-csv"]),
    says(Csv, "^function,calls,percent,limit$"),
    says(Csv, ["^it_counted:squares/1,6,.*,\"", Words, "\"$"]),
    it:equal("in the database", [[list_to_binary(Words)]], it:sql(#{db => File, out => File}, "select limited from profile")),
    {0, Table, _} = it_kprof:kprof(T, ["diff", it:write(T, "limits.csv", Csv), File]),
    says(Table, "^it_counted:squares/1 +6 +6 "),
    gone(Target, Server).

refusals(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Conf = conf(T),
    Fixed = it:write(T, "fixed.conf", "{tiers, [{store, {it_counted, store, 1}}]}.\n"
                     "{identity, fun ({it_counted, store, [create]}) -> create; (_) -> rest end}.\n"),
    Elsewhere = it:write(T, "elsewhere.conf", "[{nobody, {it_nobody, at_all, 1}}].\n"),
    [begin
         {Status, "", Errors} = ends(background(T, Target, Cmd, Args ++ ["it_counted"])),
         says(Errors, Says)
     end || {Status, Cmd, Args, Says} <-
                [{1, "count", ["-tiers", Conf, "-tier", "stores"], "has no tier 'stores': did you mean 'store'\\? there are store, answers"},
                 {1, "time", ["-tiers", Fixed, "-identity", "creat"], "has no identity 'creat': did you mean 'create'\\? there are create, rest"},
                 {1, "count", ["-tiers", Elsewhere], "there is no module 'it_nobody'"},
                 {1, "count", ["-tiers", Elsewhere, "-identity", "a"], "has no identity fun"},
                 {1, "count", ["-tiers", "no/such.conf"], "no/such.conf"},
                 {2, "count", ["-tier", "store"], "-tier NAME goes with -tiers FILE"},
                 {2, "count", ["-identity", "a"], "-identity NAME goes with -tiers FILE"},
                 {2, "count", ["-attached", "-entry", ?HANDLE], "choose one"},
                 {2, "count", ["-attached", "-requests", "2"], "-attached goes without -requests"},
                 {2, "memory", ["-attached"], "memory cannot"},
                 {2, "count", ["-tiers", Conf, "-every", "1s"], "-tiers goes without -every"}]],
    Server = server(Target),
    P = start(T, Target, "count", ["-tiers", Conf, "-identity", "kind delet", "it_counted"]),
    asked(Target, Server, [create, delete]),
    receive after 300 -> ok end,
    {1, Out, _} = interrupt(P),
    says(flat(Out), "no request was of type 'kind delet': did you mean 'kind delete'\\?"),
    gone(Target, Server),
    it_audit:ends(Target, Mark).

killed(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Conf = conf(T),
    Server = server(Target),
    P = start(T, Target, "count", ["-requests", "9", "-tiers", Conf, "-identity", "creation", "-tier", "store", "it_counted"]),
    asked(Target, Server, [create, delete]),
    it:kill(P),
    it_audit:during(Target, Mark),
    [begin
         Q = background(T, Target, "time", ["-tiers", Conf, "-identity", "creation", "it_counted", "maps"]),
         receive after Ms -> ok end,
         it:kill(Q),
         it_audit:during(Target, Mark)
     end || Ms <- lists:seq(5, 65, 12)],
    gone(Target, Server),
    it_audit:ends(Target, Mark).

%% ------------------------------------------------------------ helpers ----

server(Target) ->
    it:do(Target, fun() -> spawn(it_counted, serve_kinds, []) end).

%% Each in a process of its own: in one that asks again a token would stay. What is
%% done for nobody comes between.
asked(Target, Server, Kinds) ->
    it:do(Target, fun() ->
                          [begin
                               {P, Ref} = spawn_monitor(it_counted, F, A),
                               receive {'DOWN', Ref, process, P, normal} -> ok end
                           end || Kind <- Kinds, {F, A} <- [{handle, [Kind, Server]}, {work, [5]}]],
                          ok
                  end).

gone(Target, Server) ->
    it:do(Target, fun() -> exit(Server, kill), ok end).

counts(Out, Names) ->
    Rows = it_csv:rows(Out),
    [{Name, N} || Name <- Names, {Row, N, _} <- Rows, Row =:= Name].

%% Notes are broken at the width of the terminal, if there is one.
flat(Text) ->
    re:replace(Text, "\\s+", " ", [global, unicode, {return, list}]).
