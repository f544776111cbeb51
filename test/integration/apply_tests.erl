%% -apply with any expression: its value is shown, what the node makes of a huge one
%% costs it nothing and is in no figure, and what is wrong with one is said. And
%% processes by who has spawned them, with those that they spawn meanwhile.
-module(apply_tests).

-export([tests/0]).

-import(it_kprof, [plain/1, load/1, unarmed/1, background/4, start/4, interrupt/1, run/4, counted/4, says/2]).

-define(COMMANDS, ["count", "time", "trace"]).

tests() ->
    [{"the value of an expression", 60, fun value/1},
     {"what makes a text of a value is not in the figures", 60, fun apart/1},
     {"a huge value is cut in the node", 120, fun huge/1},
     {"an expression that is none", 60, fun none/1},
     {"an expression that raises, or takes too long", 60, fun raises/1},
     {"children and descendants of a plain process", 120, fun kin/1},
     {"what a process spawns while it is profiled", 120, fun spawned/1}].

value(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    [begin
         {0, Out, Said} = run(T, Target, Cmd, ["-apply", Expr, "it_counted", "lists:seq/2"]),
         says(Said, "^kprof: value: " ++ Value ++ "$"),
         says(Out, Fun),
         it:equal([Expr, ": is its evaluator named?"], ByEval, re:run(Said, "erl_eval", [{capture, none}]))
     end || Cmd <- ?COMMANDS,
            {Expr, Value, Fun, ByEval} <-
                [{"lists:seq(1, 5)", "\\[1,2,3,4,5\\]", "lists:seq/2", nomatch},
                 {"lists:seq(1, 5).", "\\[1,2,3,4,5\\]", "lists:seq/2", nomatch},
                 {"X = lists:seq(1, 3), F = fun(Y) -> Y * 2 end, {lists:map(F, X), self() =:= self()} % so",
                  "{\\[2,4,6\\],true}", "lists:seq/2", match},
                 {"{ok, #{\"k\" => it_counted:work(1), b => <<\"text\">>}}.",
                  "{ok,#{.*\"k\" => {1,144,1,\\[385,2870,9455\\]}.*", "it_counted:squares/1", match}]],
    {0, Json, Quiet} = run(T, Target, "count", ["-json", "-apply", "{\"a\", 'B'}, #{c => 1.5}", "it_counted"]),
    says(Json, "\"value\": ?\"#{c => 1.5}\""),
    it:equal("it is said once", nomatch, re:run(Quiet, "value", [{capture, none}])),
    {0, Without, _} = run(T, Target, "count", ["-json", "-for", "100ms", "it_counted"]),
    says(Without, "\"value\": ?null"),
    {0, Csv, Beside} = run(T, Target, "count", ["-csv", "-apply", "it_counted:work(1)", "it_counted"]),
    it:equal("no value in CSV", nomatch, re:run(Csv, "385", [{capture, none}])),
    says(Beside, "value: {1,144,1,"),
    {0, _, ByRequest} = run(T, Target, "count", ["-entry", "it_counted:work/1", "-apply", "it_counted:work(1)", "it_counted"]),
    says(ByRequest, "value: {1,144,1,"),
    it_audit:ends(Target, Mark),
    unarmed(Target).

apart(T) ->
    Target = plain(T),
    Makers = ["io_lib", "io_lib_format", "io_lib_pretty", "unicode", "string", "maps"],
    [it:equal([Cmd, " of what makes the text"], [],
              counted(T, Target, Cmd, ["-apply", "it_counted:work(1)" | Makers])) || Cmd <- ["count", "time"]],
    {0, Out, _} = run(T, Target, "trace", ["-form", "events", "-apply", "it_counted:work(1)" | Makers]),
    it:equal("calls of it in a trace", nomatch, re:run(Out, "call (io_lib|unicode|string|maps)", [{capture, none}])),
    unarmed(Target).

%% To format the number took the node 6 s, and the list 6 minutes.
huge(T) ->
    Target = plain(T),
    [begin
         {0, _, Said} = run(T, Target, Cmd, ["-for", "20s", "-apply", Expr, "maps:keys/1"]),
         {match, [Text]} = re:run(Said, "value: (.*)", [unicode, {capture, [1], list}]),
         it:check(byte_size(unicode:characters_to_binary(Text)) =< 4096, "~ts is long: ~b", [Expr, length(Text)]),
         says(Text, "\\.\\.\\.")
     end || Cmd <- ["count", "trace"],
            Expr <- ["1 bsl 4000000", "{1 bsl 1000000}",
                     "lists:foldl(fun(_, L) -> [L] end, [], lists:seq(1, 100000))",
                     "lists:seq(1, 1000000)", "lists:duplicate(1000000, $a)",
                     "list_to_tuple(lists:seq(1, 100000))",
                     "maps:from_list([{I, I} || I <- lists:seq(1, 100000)])",
                     "lists:duplicate(4096, binary:copy(<<\"abc\">>, 1000000))",
                     "binary:copy(<<1087/utf8>>, 1000000)"]],
    unarmed(Target).

none(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    [begin
         {1, "", Said} = run(T, Target, Cmd, ["-for", "1s", "-apply", Expr, "maps"]),
         says(Said, "what -apply has is not " ++ Words)
     end || Cmd <- ["count", "trace"],
            {Expr, Words} <- [{"lists:seq(1,, 2)", "an expression: syntax error before: ',' in line 1, column 13"},
                              {"lists:seq(1,\n 2", "an expression: syntax error before: .* in line 2, column 3"},
                              {"a. b", "an expression: words after '.' \\(',' separates expressions\\) in line 1, column 2"},
                              {"\"abc", "an expression: unterminated string.* in line 1, column [12]"},
                              {".", "an expression: "},
                              {<<255, 254>>, "UTF-8"}]],
    {2, "", Long} = run(T, Target, "count", ["-apply", lists:duplicate(5000, $1), "maps"]),
    says(Long, "-apply has 5000 bytes, more than 4096"),
    it_audit:ends(Target, Mark),
    unarmed(Target).

raises(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    [begin
         {1, _, Said} = run(T, Target, Cmd, ["-for", "1s", "-apply", Expr, "it_counted"]),
         says(Said, Words)
     end || Cmd <- ?COMMANDS,
            {Expr, Words} <- [{"X = 1, X / 0", "the call raised error:badarith"},
                              {"{ok, _} = {error, enoent}", "the call raised error:{badmatch,{error,enoent}}"},
                              {"it_counted:spin(1), Nope", "the call raised error:{unbound(_var)?,'Nope'}"},
                              {"throw(1 bsl 1000000)", "the call raised throw:\\.\\.\\."},
                              {"A = 60000, timer:sleep(A)", "the call was stopped"}]],
    it_audit:ends(Target, Mark),
    unarmed(Target).

%% -------------------------------------------------------- processes ----

kin(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Names = family(Target),
    Pid = it:do(Target, fun() -> pid_to_list(whereis(it_kin)) end),
    [begin
         P = start(T, Target, Cmd, ["-processes", Which, "-csv" | Args] ++ ["it_counted:child/1", "it_counted:squares/1"]),
         [385 = it:call(Target, it_counted, asked, [N, 1]) || N <- Names],
         {0, Out, _} = interrupt(P),
         Of = fun(F) -> lists:sum([N || {Fun, N, _} <- it_csv:rows(Out), Fun =:= F]) end,
         it:equal([Cmd, " ", Which, Args], {Own, Spawned}, {Of("it_counted:child/1"), Of("it_counted:squares/1")})
     end || Cmd <- ["count", "time"],
            {Which, Args, Own, Spawned} <- [{"it_kin", [], 1, 11}, {"it_kin", ["-not-spawned"], 1, 0},
                                            {"children:it_kin", [], 2, 22}, {"children:" ++ Pid, [], 2, 22},
                                            {"descendants:it_kin", [], 3, 33}, {"descendants:it_kin_b", [], 1, 11},
                                            {"it_kin,descendants:it_kin", ["-not-spawned"], 4, 0}]],
    [begin
         {1, "", Said} = run(T, Target, Cmd, ["-for", "1s", "-processes", Which | Args] ++ ["maps"]),
         says(Said, Words)
     end || Cmd <- ["count", "trace"],
            {Which, Args, Words} <- [{"descendants:it_kin", ["-max-processes", "2"], "these are 3 processes, more than 2"},
                                     {"descendants:nobody", [], "no process is registered as 'nobody'"},
                                     {"children:<0.999.999>", [], "process <0.999.999> does not exist"}]],
    leave(Target, Names),
    it_audit:ends(Target, Mark),
    unarmed(Target).

%% It lives on, and has no flags left, however the profile ends.
spawned(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Names = family(Target),
    [begin
         P = start(T, Target, Cmd, ["-processes", "it_kin_a" | Args]),
         ok = it:call(Target, it_counted, asked, [it_kin_a, it_kin_new]),
         385 = it:call(Target, it_counted, asked, [it_kin_new, 1]),
         case End of
             interrupted ->
                 {0, Out, _} = interrupt(P),
                 says(Out, "it_counted:child/1");
             killed ->
                 it:kill(P)
         end,
         it_audit:during(Target, Mark),
         it:until("it has no flags", fun() -> it:do(Target, fun() -> flags(it_kin_new) end) =:= [] end),
         leave(Target, [it_kin_new])
     end || End <- [interrupted, killed],
            {Cmd, Args} <- [{"count", ["it_counted"]}, {"time", ["it_counted"]}, {"trace", ["it_counted"]}]],
    leave(Target, Names),
    it_audit:ends(Target, Mark),
    unarmed(Target).

flags(Name) ->
    {flags, Flags} = erlang:trace_info(whereis(Name), flags),
    Flags.

%% it_kin has spawned it_kin_a and it_kin_b, which has spawned it_kin_c.
family(Target) ->
    ok = it:call(Target, it_counted, kin, [it_kin, [{it_kin_a, []}, {it_kin_b, [{it_kin_c, []}]}]]),
    [it_kin, it_kin_a, it_kin_b, it_kin_c].

leave(Target, Names) ->
    [ok = it:call(Target, it_counted, leave, [N]) || N <- Names].
