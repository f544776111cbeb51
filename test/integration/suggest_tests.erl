%% kprof suggest, and kprofd without -tiers: on the sample application the tiers are
%% those that its author wrote, and nothing stays behind, however it ends.
-module(suggest_tests).

-export([tests/0]).

-import(it_kprof, [background/4, ends/1, interrupt/1, run/4, says/2, tell/2]).

%% Each layer does something, as in a real application; a machine that is busy with other
%% tests may add to it.
-define(WORK, "#{parsing => #{work_us => 200}, handle => #{work_us => 200}, db => #{wait_ms => 3},"
              " formatter => #{work_us => 200}, accounting => #{work_us => 100}}").
-define(REST, [processes, registered, ets]).

tests() ->
    [{"the tiers that the author wrote", 180, fun author/1},
     {"where requests wait for a pool", 240, fun pool/1},
     {"one module that does it all is a guess", 180, fun guess/1},
     {"a node that has more to report than it can send", 240, fun rush/1},
     {"a file that is there", 60, fun is_there/1},
     {"a node that does nothing", 90, fun idle/1},
     {"a node of OTP's applications alone", 60, fun plain/1},
     {"interrupted", 90, fun interrupted/1},
     {"killed", 90, fun killed/1},
     {"what it refuses", 60, fun refusals/1},
     {"kprofd without tiers: -propose", 180, fun yes/1},
     {"kprofd without tiers: a question", 180, fun question/1},
     {"keys take a proposal, or leave it", 180, fun keys/1},
     {"a digit takes another entry", 300, fun digit/1}].

target(T) ->
    Target = it:target(T, #{config => ?WORK}),
    {Target, it:load(T, Target, ["4", "120s", "5"])}.

%% The text passes kprofd -check, which it has run; entry and functions are those of
%% test/sample_app/tiers.conf, whatever else is there.
author(T) ->
    {Target, Load} = target(T),
    Before = it:settled(Target),
    File = it:path(T, "app.conf"),
    {0, "", Err} = run(T, Target, "suggest", ["-o", File]),
    says(Err, "requests are calls of requests:handle_request/2; [0-9]+ tiers, in which [0-9.]+ % of their time"),
    says(Err, "this took .*; in the node it used at most .* of a scheduler: .* to sample stacks \\(measured\\), and by "
              "an upper estimate .* to count calls, .* to trace, .* for kprofd -check and .* for questions"),
    {ok, Text} = file:read_file(File),
    Terms = terms(Text),
    it:equal("entry", {requests, handle_request, 2}, proplists:get_value(entry, Terms)),
    Tiers = lists:append([Fs || {_, Fs} <- functions(proplists:get_value(tiers, Terms))]),
    [it:check(lists:member(F, Tiers), "~p is in a tier:~n~ts", [F, Text])
     || F <- [{requests, handle_request, 2}, {db, network_request, 1}, {network_server, parse_request, 1},
              {accounting, incr_reqs, 1}, {formatter, format_response, 1}]],
    [it:check(not lists:keymember(M, 1, Tiers), "~p is in no tier:~n~ts", [M, Text])
     || M <- [sample_layer, sample_config, gen_server]],
    says(Text, "\\(\\{requests, handle_request, \\[A, _\\]\\}\\)\n        when is_atom\\(A\\) -> A;"),
    says(Text, "sample_layer:spend/1 .*its time is in its callers"),
    says(Text, "%% ok\n"),
    says(Text, "%% sample_app: [0-9]+ processes, [0-9]+ supervisors \\(sample_sup, sample_tasks, sample_pool\\)\\.\n"),
    [says(Text, "%% sample_pool: [0-9]+ of " ++ Worker ++ " \\(a pool\\): [0-9.]+ at work on average\\.\n")
     || Worker <- ["requests:init/1", "db:init/1", "formatter:init/1"]],
    says(Text, "%% network_server: [0-9]+ of network_server:.* \\(a pool, with sockets or"),
    says(Text, "%% .*; the way to a pool of processes\\.\n    \\{db, "),
    it:check(re:run(Text, "the way to a pool of processes\\.\n    \\{network_server") =:= nomatch, "~ts", [Text]),
    it:kill(Load),
    it:audit(Target, Before, ?REST).

%% Three quarters of the time was in no tier, or in one that is called like the work: the wait for a
%% worker, in the clients' own processes.
pool(T) ->
    Target = it:target(T, #{kind => plain}),
    ok = it:call(Target, it_pool, start, [poolboy, 1]),
    _ = it:call(Target, erlang, spawn, [it_pool, run, [6, forever, [fast, slow, hop]]]),
    File = it:path(T, "pool.conf"),
    {0, "", _} = run(T, Target, "suggest", ["-o", File]),
    ok = it:call(Target, it_pool, halt, []),
    {ok, Text} = file:read_file(File),
    says(Text, "%% it_pool_boy \\(poolboy:init/1\\) answers later than it takes messages, as a pool does\n"
         "%% whose workers are all taken: [0-9]+ processes waited for it at once in poolboy:checkout/3\\."),
    says(Text, "%% .* of the requests' time; it waits for a worker of a pool\\.\n    \\{checkout, \\{poolboy, checkout, 3\\}\\}").

%% Nothing was printed, of a function that had been traced 500 times.
guess(T) ->
    Target = it:target(T, #{kind => plain}),
    ok = it:call(Target, it_desk, run, [4]),
    File = it:path(T, "desk.conf"),
    {0, "", Err} = run(T, Target, "suggest", ["-o", File]),
    says(Err, "warning: this is a guess, since no function was found that surely begins requests: of it_desk:order/2, "),
    {ok, Text} = file:read_file(File),
    says(Text, "%% THIS IS A GUESS: "),
    it:equal("entry", {it_desk, order, 2}, proplists:get_value(entry, terms(Text))),
    says(Text, "\\(\\{it_desk, order, \\[A, _\\]\\}\\)\n        when is_atom\\(A\\) -> A;").

%% So many events waited there that none of a request was seen, and it ended with 'was not called again'.
rush(T) ->
    Target = it:target(T, #{kind => plain}),
    ok = it:call(Target, it_desk, rush, [60]),
    File = it:path(T, "rush.conf"),
    {0, "", _} = run(T, Target, "suggest", ["-o", File]),
    {ok, Text} = file:read_file(File),
    it:equal("entry", {it_desk, sell, 2}, proplists:get_value(entry, terms(Text))),
    says(Text, "\\(\\{it_desk, sell, \\[A, _\\]\\}\\)\n        when is_atom\\(A\\) -> A;").

%% Before the work, which takes half a minute.
is_there(T) ->
    Target = it:target(T),
    {1, "", No} = run(T, Target, "suggest", ["-o", it:path(T, "none/desk.conf")]),
    says(No, "^kprof: cannot write '.*none/desk.conf': directory .*none does not exist$"),
    File = it:write(T, "mine.conf", "mine"),
    {1, "", Err} = run(T, Target, "suggest", ["-o", File]),
    says(Err, "'.*mine.conf' is there already, and is left as it is: give another -o, or use it"),
    it:equal("the file", {ok, <<"mine">>}, file:read_file(File)).

idle(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    {1, "", Err} = run(T, Target, "suggest", ["-for", "1s"]),
    says(Err, "is it idle\\?  Put load on it and try again, or look for longer: -for 60s"),
    it:audit(Target, Before, ?REST).

plain(T) ->
    Target = it:target(T, #{kind => plain}),
    {1, "", _} = run(T, Target, "suggest", ["-for", "1s"]).

interrupted(T) ->
    {Target, Load} = target(T),
    Before = it:settled(Target),
    [begin
         P = background(T, Target, "suggest", []),
         it:saw(P, Step),
         {1, "", Err} = interrupt(P),
         says(Err, "interrupted; what was set there is taken back")
     end || Step <- ["sampling stacks", "counting the calls", "tracing .* requests of", "checking the draft"]],
    it:kill(Load),
    it:audit(Target, Before, ?REST).

killed(T) ->
    {Target, Load} = target(T),
    Before = it:settled(Target),
    P = background(T, Target, "suggest", []),
    it:saw(P, "counting the calls"),
    it:signal(P, "KILL"),
    _ = it:exited(P),
    it:kill(Load),
    it:audit(Target, Before, ?REST).

refusals(T) ->
    Target = it:target(T),
    [begin
         {2, "", Err} = run(T, Target, "suggest", Args),
         says(Err, What)
     end || {Args, What} <- [{["-for", "1ms"], "-for '1ms': give a time from 500ms to 10m"},
                             {["-o"], "-o"}]].

yes(#{build := Build, cookie := Cookie} = T) ->
    {#{node := Node} = Target, Load} = target(T),
    Before = it:settled(Target),
    Dir = it:path(T, "yes"),
    ok = file:make_dir(Dir),
    Run = fun(Name, Args) ->
                  P = it:start(T, Name, ["sh", "-c", "cd '" ++ Dir ++ "' && exec \"$@\"", "sh",
                                         filename:absname(filename:join(Build, "kprofd")),
                                         "-target", Node, "-cookie-file", filename:absname(Cookie) | Args], []),
                  {it:exited(P), it:output(P), it:errors(P)}
          end,
    {2, _, Usage} = Run("no-terminal", []),
    says(Usage, "no tiers.conf given: -tiers FILE is needed \\(kprof suggest -target NODE proposes one, -propose takes that\\)"),
    {0, Out, Err} = Run("yes", ["-propose", "-duration", "2s"]),
    says(Out, "\\{entry, \\{requests, handle_request, 2\\}\\}"),
    says(Err, "done: .* requests .*in [0-9]+ s"),
    {1, _, Again} = Run("again", ["-yes"]),
    says(Again, "^kprofd: -yes is called -propose now$"),
    says(Again, "no -tiers given, and '.*\\.tiers\\.conf' is there already: use it \\(-tiers "),
    {2, _, Both} = Run("both", ["-propose", "-tiers", "x"]),
    says(Both, "-propose goes without -tiers"),
    it:kill(Load),
    it:audit(Target, Before, ?REST).

%% No: the file stays, and nothing is profiled.  The terminal is higher than the file is
%% long: pty_run looks at the screen's lines alone, and waits a minute for each.
question(#{build := Build, cookie := Cookie} = T) ->
    {#{node := Node} = Target, Load} = target(T),
    Before = it:settled(Target),
    Dir = it:path(T, "asked"),
    ok = file:make_dir(Dir),
    Script = filename:absname(it:write(T, "question.keys", "see sampling stacks\nsee checking the proposal\n"
                                                "see profile with these tiers? [y/N]\nkey n\nexit 0\n")),
    P = it:start(T, "question", ["sh", "-c", "cd '" ++ Dir ++ "' && exec \"$@\" <'" ++ Script ++ "'", "sh",
                                 filename:absname(it:build(T) ++ "/test/pty_run"), "200", "250",
                                 filename:absname(filename:join(Build, "kprofd")),
                                 "-target", Node, "-cookie-file", filename:absname(Cookie)], []),
    it:equal(it:errors(P), 0, it:exited(P)),
    it:equal("the files", {ok, [Node ++ ".tiers.conf"]}, file:list_dir(Dir)),
    it:kill(Load),
    it:audit(Target, Before, ?REST).

%% A key that says nothing is left out.
keys(T) ->
    {Target, Load} = target(T),
    Before = it:settled(Target),
    {0, Quit} = pressed(T, Target, "quit", "key q\nsee nothing is written\nexit 0\n"),
    it:equal("no file", {error, enoent}, file:read_file(Quit)),
    {0, Taken} = pressed(T, Target, "taken", "key 9\nkey y\nexit 0\n"),
    {ok, Text} = file:read_file(Taken),
    says(Text, "\\{entry, \\{requests, handle_request, 2\\}\\}"),
    it:kill(Load),
    it:audit(Target, Before, ?REST).

pressed(#{build := Build, cookie := Cookie} = T, #{node := Node}, Name, Keys) ->
    File = it:path(T, Name ++ ".conf"),
    Script = it:write(T, Name ++ ".keys", "see checking the proposal\nsee another entry; q: quit\n" ++ Keys),
    P = it:start(T, Name, ["sh", "-c", "exec \"$@\" <'" ++ Script ++ "'", "sh", it:build(T) ++ "/test/pty_run", "200", "250",
                           filename:join(Build, "kprof"), "suggest", "-target", Node, "-cookie-file", Cookie, "-o", File], []),
    Status = it:exited(P),
    it:equal(it:errors(P), 0, Status),
    {Status, File}.

%% Which entries there are depends on the samples, and not all of them are good: a digit takes one,
%% or says why not, and then the one before stays. The file has the one that was marked last.
digit(T) ->
    {Target, Load} = target(T),
    Before = it:settled(Target),
    File = it:path(T, "digit.conf"),
    Command = lists:join(" ", ["'" ++ W ++ "'" || W <- it_kprof:command(T, Target, "suggest", ["-o", File])]),
    P = it_kprof:started(T, ["script", "-qec", lists:append(["stty rows 200 cols 250; ", Command]), "/dev/null"]),
    [{1, "requests:handle_request/2", true} | Others] = question_shown(P, 1),
    Taken = others(P, [{N, Name} || {N, Name, false} <- Others], 1, "requests:handle_request/2"),
    tell(P, "y"),
    it:equal("script", 0, it:exited(P)),
    {ok, Text} = file:read_file(File),
    {M, F, A} = proplists:get_value(entry, terms(Text)),
    it:equal("the entry in the file", Taken, lists:flatten(io_lib:format("~s:~s/~b", [M, F, A]))),
    it:kill(Load),
    it:audit(Target, Before, ?REST).

others(P, [{N, Name} | Others], Asked, First) ->
    tell(P, integer_to_list(N)),
    Shown = question_shown(P, Asked + 1),
    case [Marked || {_, Marked, true} <- Shown] of
        [Name] -> Name;
        [First] ->
            says(it:output(P), "not " ++ re:replace(Name, "[-'/.]", "\\\\&", [global, {return, list}]) ++ ": "),
            others(P, Others, Asked + 1, First)
    end;
others(P, [], _, _) ->
    it:fail("no other entry was taken:~n~ts", [it:output(P)]).

%% The entries of the last question: {Digit, Name, Is it the chosen one}.
question_shown(P, Asked) ->
    it:until(["question ", integer_to_list(Asked)],
             fun() -> it:is_running(P) orelse it:fail("it ended:~n~ts", [it:output(P)]),
                      length(questions(P)) > Asked
             end),
    Question = lists:nth(Asked, questions(P)),
    {match, Lines} = re:run(Question, "^([* ]) ([1-9])  ([^\r\n]+)\r?$", [multiline, global, {capture, all_but_first, list}]),
    [{Digit - $0, Name, Mark =:= "*"} || [Mark, [Digit], Name] <- Lines].

questions(P) ->
    string:split(unicode:characters_to_list(it:output(P)), "another entry; q: quit", all).

%% Without the identity, which is a fun.
terms(Text) ->
    Plain = re:replace(Text, "\\{identity.*?\nend\\}\\.", "", [dotall, {return, list}]),
    {ok, Tokens, _} = erl_scan:string(Plain),
    terms(Tokens, [], []).

terms([], [], Terms) -> lists:reverse(Terms);
terms([{dot, _} = Dot | Tokens], Form, Terms) ->
    {ok, Term} = erl_parse:parse_term(lists:reverse([Dot | Form])),
    terms(Tokens, [], [Term | Terms]);
terms([Token | Tokens], Form, Terms) -> terms(Tokens, [Token | Form], Terms).

functions(Tiers) ->
    [{Name, if is_list(F) -> F; true -> [F] end} || {Name, F} <- Tiers].
