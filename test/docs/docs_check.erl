%% docs_check - does an example hold?  Each check returns, or throws as it:fail.
-module(docs_check).

-export([in_world/2, still/2, is_attaching/1, is_counting/1]).

%% ----------------------------------------------- what has to be run ----

in_world({shell, Commands}, World) ->
    lists:foreach(fun({Command, Printed}) -> command(Command, Printed, World) end, Commands);
in_world({sql, Text}, World) ->
    sql(statements(docs_world:fill(Text, World)), "", World);
in_world({tiers, Text}, World) ->
    docs_world:write(World, "example.conf", docs_terms:with_tiers(Text)),
    %% messages are of the native probe alone
    Err = passes("kprof check example.conf -for 500ms -target app@host -probe native 2>&1", World),
    %% How often its functions are called there is another matter.
    re:run(Err, "warning: (?!\\S+ (was not called|did not return|is called|calls itself)|this clause matched none|no clause gave)", [unicode, {capture, none}]) =:= nomatch orelse it:fail("kprofd warns:~n~ts", [Err]);
in_world({terms, Text}, World) ->
    terms(docs_kind:fill(Text, docs_table:grammar(), fun(What) -> What end), World);
in_world({diagnostic, Text}, World) ->
    diagnostic(Text, World);
in_world({elixir, Text}, World) ->
    docs_world:write(World, "snippet.exs", Text),
    passes("elixir -e 'IO.inspect(Code.string_to_quoted!(File.read!(\"snippet.exs\")))'", World);
in_world({eval, Text}, World) ->
    {ok, Tokens, _} = erl_scan:string(Text ++ "."),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    {value, _, _} = docs_world:call(World, erl_eval, exprs, [Exprs, []]),
    lists:member(Text, docs_table:ends_kprofd()) andalso docs_world:daemon_fails(World).

%% Does it attach a kprofd of its own to the target?
is_attaching(Command) ->
    re:run(Command, "\\bkprofd .*-(?:target|cluster)|\\bkprof check .*-target", [unicode, {capture, none}]) =:= match.

%% On OTP 25 and 26 there is one tracer for all that is new, which a kprofd is.
is_counting(Command) ->
    re:run(Command, "\\bkprof (?:(?:count|time|memory|trace) (?!.*-attached)|suggest\\b)", [unicode, {capture, none}]) =:= match.

%% The command, and the other one that a comment offers.
command(Line, Printed, World) ->
    Both = re:split(Line, "  # ", [{return, list}, unicode, {parts, 2}]),
    [run(string:trim(C), P, World)
     || {C, P} <- [{hd(Both), Printed} | [{Other, ""} || [Comment] <- [tl(Both)], Other <- offered(Comment)]]].

offered(Comment) ->
    case string:split(Comment, "or: ") of
        [_, Other] -> docs_kind:is_shell(Other) orelse it:fail("no command: ~ts", [Other]), [Other];
        _ -> []
    end.

run(Shown, Printed, World) ->
    Command = docs_world:fill(Shown, World),
    no_placeholder(Command),
    Newer = [N || {Start, Otp, _} = N <- docs_table:newer(), lists:prefix(Start, Shown),
                  it:otp(maps:get(target, World)) < Otp],
    case {is_only_named(Shown), Newer, goes_on(Command)} of
        {true, _, _} -> is_target(target_only(Command));
        {false, [_ | _], _} -> is_told(hd(Newer), Command, World);
        {false, [], true} -> profile(Command, World);
        {false, [], false} ->
            Out = by_itself(Command, fun() -> passes(ended(Command), World) end),
            Printed =:= "" orelse looks_like(Printed, [Out])
    end.

is_only_named("make" ++ _ = Shown) -> not lists:member(target_only(Shown), docs_table:make_runs());
is_only_named(_) -> false.

%% It is told what is needed, and by how much the target is older.
is_told({_, Otp, Words}, Command, World) ->
    case docs_world:run(World, Command) of
        {1, _, Err} -> string:find(Err, Words) =/= nomatch orelse it:fail("not told '~ts':~n~ts", [Words, Err]);
        {Status, Out, Err} -> it:fail("'~ts' ended with ~b, but needs OTP ~b:~n~ts~ts", [Command, Status, Otp, Out, Err])
    end.

%% Examples run side by side, and those that serve have one port.
by_itself("kprof web" ++ _, Run) -> global:trans({?MODULE, self()}, Run, [node()]);
by_itself(_, Run) -> Run().

%% What serves until it is told to end is told so, and has to end well.
ended("kprof web" ++ _ = Command) -> "timeout --preserve-status 10 " ++ Command;
%% And what waits for more is killed.
ended("kprof tree new" ++ _ = Command) -> "timeout 5 " ++ Command ++ " || [ $? = 124 ]";
ended(Command) -> Command.

%% A variable makes no other target: `make test-apps APPS_ROOT=apps13'.
target_only(Command) ->
    re:replace(Command, " +[A-Z_]+=('[^']*'|\\S+)", "", [global, unicode, {return, list}]).

%% Does make know it? make -n would run what speaks of $(MAKE).
is_target("make") -> ok;
is_target("make " ++ Target) ->
    lists:member(string:trim(Target), targets()) orelse it:fail("make does not know it", []).

%% It is asked once, which takes it seconds.
targets() ->
    case persistent_term:get({?MODULE, targets}, none) of
        none ->
            Known = os:cmd("env -u MAKEFLAGS -u MAKELEVEL make -npq .DEFAULT 2>/dev/null"),
            {match, Targets} = re:run(Known, "^([^\\s:#=]+):(?!=)", [multiline, global, {capture, all_but_first, list}]),
            Names = lists:usort(lists:append(Targets)),
            persistent_term:put({?MODULE, targets}, Names),
            Names;
        Names -> Names
    end.

%% Capitals outside of quotes are the reader's own, but for VARIABLE=.
no_placeholder(Command) ->
    Bare = re:replace(Command, "'[^']*'|\"[^\"]*\"", "", [global, unicode, {return, list}]),
    case re:run(Bare, "(?<![$\\w/.-])[A-Z]+\\b(?!=)", [unicode, {capture, first, list}]) of
        {match, [Word]} -> it:fail("no value for ~s: see docs_table:placeholders/0", [Word]);
        nomatch -> ok
    end.

goes_on(Command) ->
    is_attaching(Command) andalso
        re:run(Command, "\\bkprof check |-(?:check|duration|requests|version|h)\\b", [unicode, {capture, none}]) =:= nomatch.

profile(Command, World) ->
    case docs_world:profile(World, Command) of
        {0, true, _} -> passes("kprof report", World);
        {0, false, _} -> ok;
        {Status, _, Err} -> it:fail("'~ts' ended with ~b:~n~ts", [Command, Status, Err])
    end.

%% Ends with 0 and has an answer; gives that.
passes(Shown, World) ->
    Command = docs_world:fill(Shown, World),
    case docs_world:run(World, Command) of
        {0, Out, Err} ->
            Answer = answer(Command, Out, Err, World),
            is_empty(Answer) andalso not lists:member(Shown, docs_table:quiet()) andalso
                it:fail("'~ts' has no answer:~n~ts~ts", [Command, Out, Err]),
            put(printed, [Answer | get(printed)]),
            Answer;
        {Status, Out, Err} ->
            it:fail("'~ts' ended with ~b:~n~ts~ts", [Command, Status, Out, Err])
    end.

%% kprofd tells what it does on standard error, or in a file.
answer("kprofd" ++ _ = Command, Out, Err, World) ->
    case re:run(Command, "-(?:log|dump)-file (\\S+)", [unicode, {capture, all_but_first, list}]) of
        {match, [File]} -> docs_world:read(World, File);
        nomatch -> Out ++ Err
    end;
answer(Command, Out, _, World) ->
    case re:run(Command, "(?: >|-o )(\\S+\\.(?:conf|folded|json|pb\\.gz))$", [unicode, {capture, all_but_first, list}]) of
        {match, [File]} -> Out ++ docs_world:read(World, File);
        nomatch -> Out
    end.

%% kprof says why it has nothing to show, and ends with 0.
is_empty(Answer) ->
    string:trim(Answer) =:= "" orelse
        re:run(Answer, "^(?:no (?:request type matches|node matches|request was|slow requests)|"
                       "nothing was measured|the database holds no )", [unicode, multiline, {capture, none}]) =:= match.

%% ---------------------------------------------------------------- SQL ----

%% Each ends with a semicolon at a line's end; a line that starts with a dot is
%% for the shell.
statements(Text) ->
    statements(string:split(Text, "\n", all), "").

statements([], "") -> [];
statements([], Rest) -> string:trim(Rest) =/= "" andalso it:fail("no semicolon at the end: ~ts", [Rest]), [];
statements(["." ++ _ = Line | More], "") -> [Line ++ "\n" | statements(More, "")];
statements([Line | More], Got) ->
    Whole = Got ++ Line ++ "\n",
    case re:run(Line, ";\\s*(?:--.*)?$", [unicode, {capture, none}]) of
        match -> [Whole | statements(More, "")];
        nomatch -> statements(More, Whole)
    end.

%% Each runs after what came before it and gives no rows.
sql([], _, _) -> ok;
sql([Statement | More], Before, World) ->
    case re:run(Statement, "^(?:\\s*--.*\n)*\\s*(?:select|with|values)\\b", [unicode, caseless, {capture, none}]) of
        match ->
            docs_world:write(World, "statement.sql", Before ++ Statement),
            try passes("sqlite3 kprofd.db < statement.sql", World)
            catch throw:{check, Why} -> it:fail("~ts~n~ts", [Why, Statement])
            end,
            sql(More, Before, World);
        nomatch -> sql(More, Before ++ Statement, World)
    end.

%% --------------------------------------------------------- tiers.conf ----

%% A form, or what may stand in one.
terms(Text0, World) ->
    Text = string:trim(Text0, trailing, "."),
    Base = docs_terms:base(),
    Places = [Base ++ Text ++ ".\n", Text ++ ".\n", "{tiers, [" ++ Text ++ "]}.\n",
              "{tiers, [{layer, " ++ Text ++ "}]}.\n", Base ++ "{sampling, " ++ Text ++ "}.\n"],
    Tries = [begin
                 docs_world:write(World, "term.conf", Place),
                 docs_world:run(World, "kprof check term.conf")
             end || Place <- Places],
    lists:any(fun({Status, _, _}) -> Status =:= 0 end, Tries) orelse
        it:fail("kprofd takes it nowhere in a tiers.conf:~n~ts", [[Err || {_, _, Err} <- Tries]]).

%% An error and the line that it is about: a file with that line says so.
diagnostic(Text, World) ->
    {match, [Line, Content]} = re:run(Text, "^tiers.conf:(\\d+):.*\n  (.*)", [unicode, {capture, all_but_first, list}]),
    docs_world:write(World, "wrong/tiers.conf",
                     docs_terms:base() ++ lists:duplicate(list_to_integer(Line) - 2, $\n) ++ Content ++ "\n"),
    {1, _, Err} = docs_world:run(World, "cd wrong && kprof check tiers.conf"),
    string:find(Err, Text) =/= nomatch orelse it:fail("kprofd says:~n~ts", [Err]).

%% -------------------------------------------- what needs no running ----

still({ignored}, _) -> ok;
still({allowed, _}, _) -> ok;
still({unknown, Why}, _) ->
    it:fail("~ts", [Why]);
still({code, Text}, _) ->
    case docs_terms:compile(Text) of
        ok -> ok;
        {error, Why} -> it:fail("~ts", [Why])
    end;
still({option, Name}, #{options := Options}) ->
    lists:member(Name, ["h", "version" | lists:append(maps:values(Options))]) orelse
        it:fail("no -h knows -~s", [Name]);
still({target, Command}, _) ->
    is_target(Command);
still({path, Path}, _) ->
    filelib:wildcard(Path) =/= [] orelse filelib:wildcard("**/" ++ Path) =/= [] orelse
        it:fail("there is no '~s'", [Path]);
still({heading, File, Link}, _) ->
    {ok, Text} = file:read_file(File),
    {match, Headings} = re:run(Text, "^#+ (.*)$", [unicode, global, multiline, {capture, all_but_first, list}]),
    lists:member(Link, [docs_text:anchor(H) || [H] <- Headings]) orelse it:fail("no heading of that name", []);
still({message, Text}, #{strings := Strings}) ->
    [string:find(Strings, Words) =/= nomatch orelse it:fail("no program says '~ts'", [Words])
     || Part <- re:split(Text, " ?'[^']*'|\\.\\.\\.", [unicode, {return, list}]), (Words = string:trim(Part, both, ": ")) =/= ""];
still({installed, Path}, #{install := Root}) ->
    filelib:is_file(Root ++ Path) orelse it:fail("'make install' does not make it", []);
still({function, MF, Arity}, _) ->
    docs_terms:is_function_there(MF, Arity) orelse it:fail("there is no such function", []);
still({defined, Name}, #{defined := Defined}) ->
    sets:is_element(Name, Defined) orelse it:fail("no function of the source has that name", []);
still({sample, Text}, #{printed := Printed}) ->
    looks_like(Text, Printed).

%% ------------------------------------------------------------- shapes ----

%% Some output has every line of this, whatever its figures. Where the first ends
%% with three dots, the right of the output is left out.
looks_like(Text, Printed) ->
    [First | More] = string:split(lists:flatten(Text), "\n", all),
    {Wanted, Same} = case lists:suffix(" ...", First) of
                         true -> {lists:sublist(First, length(First) - 4), fun lists:prefix/2};
                         false -> {First, fun(A, B) -> A =:= B end}
                     end,
    Missing = [[W || W <- shapes([Wanted | More]), not lists:any(fun(S) -> Same(W, S) end, Got)]
               || P <- Printed, Got <- [shapes(string:split(lists:flatten(P), "\n", all))]],
    case lists:sort(fun(A, B) -> length(A) =< length(B) end, Missing) of
        [[] | _] -> ok;
        [Least | _] -> it:fail("nothing that was run prints such lines:~n~ts", [lists:join("\n", Least)]);
        [] -> it:fail("nothing was printed", [])
    end.

shapes(Lines) ->
    lists:usort([shape(L) || L <- Lines, string:trim(L) =/= ""]).

%% A line without its figures, and with one space between its columns.
shape(Line) ->
    lists:foldl(fun({Pattern, With}, L) -> re:replace(L, Pattern, With, [global, unicode, {return, list}]) end,
                string:trim(Line),
                [{"\\S+@\\S+", "@"},
                 {"\\d{4}-\\d\\d-\\d\\d[ T]\\d\\d:\\d\\d(:\\d\\d)?(\\.\\d+)?", "T"},
                 {"(?<![\\w.])\\d+(?:[ .]\\d+)*(?: ?(?:ns|us|ms|s|m|h|%|KiB|MiB)\\b| %)?", "#"},
                 {"(?<= )-(?= |$)|~?[+-]#", "#"}, {"---+", "---"}, {"\\s+", " "},
                 {"(?<=^# )(request|call)(?= )", "\\1s"}]).
