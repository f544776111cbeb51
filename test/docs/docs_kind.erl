%% docs_kind - what a piece of a document is, and so what has to hold for it.
%%
%% A block that is nothing known is an error: no example may escape.
-module(docs_kind).

-export([kind/1, fill/3, is_shell/1]).

-type kind() :: {ignored}
              | {allowed, Entry :: tuple()}
              | {unknown, Why :: string()}
              | {shell, [{Command :: string(), Printed :: string()}]}
              | {sql | tiers | terms | diagnostic | eval | code | elixir, string()}
              | {sample | option | target | path | installed | message, string()}
              | {heading, File :: string(), string()}
              | {function, {module(), atom()}, arity() | any}
              | {defined, string()}.

-spec kind(map()) -> kind().
kind(#{file := File, text := Text} = Piece) ->
    Kind = of_form(Piece),
    case [Entry || {F, Start, _} = Entry <- docs_table:allowed(), F =:= File, is_meant(Start, Text, Kind)] of
        [Entry | _] -> {allowed, Entry};
        [] -> Kind
    end.

is_meant(sample, _, Kind) -> element(1, Kind) =:= sample;
is_meant(Start, Text, _) -> lists:prefix(Start, Text).

of_form(#{form := option, text := Name}) -> {option, Name};
of_form(#{form := target, text := Command}) -> {target, Command};
of_form(#{form := installed, text := Path}) -> {installed, Path};
of_form(#{form := message, text := Text}) -> {message, Text};
of_form(#{form := link, text := "http" ++ _}) -> {ignored};
of_form(#{form := link, file := File, text := "#" ++ Heading}) -> {heading, File, Heading};
of_form(#{form := link, file := File, text := Link}) ->
    [Path | Heading] = string:split(Link, "#"),
    There = filename:join(filename:dirname(File), Path),
    case Heading of
        [] -> {path, There};
        [Name] -> {heading, There, Name}
    end;
of_form(#{form := inline, text := Text}) -> inline(Text);
of_form(#{form := block, lang := Lang, text := Text}) -> block(Lang, Text).

%% ------------------------------------------------------------- blocks ----

block("erlang", Text) ->
    case docs_terms:kind(Text) of
        tiers -> {tiers, Text};
        {error, Why} -> {unknown, Why};
        _ -> {code, Text}
    end;
block("elixir", Text) -> {elixir, Text};
block("sql", Text) -> {sql, Text};
block("", Text) ->
    Lines = commands(Text),
    case {lists:any(fun is_prompt/1, Lines), lists:partition(fun is_shell/1, Lines)} of
        {true, _} -> {shell, dialogue(Lines)};
        {_, {Lines, []}} -> {shell, [{L, ""} || L <- Lines]};
        {_, {[], Lines}} -> unmarked(Text);
        {_, {_, [Other | _]}} -> {unknown, "no command: " ++ Other}
    end;
block(Sh, Text) when Sh =:= "sh"; Sh =:= "bash"; Sh =:= "console" ->
    case block("", Text) of
        {shell, _} = Shell -> Shell;
        _ -> {unknown, "no command in it"}
    end;
block(Lang, _) ->
    {unknown, "no rule for blocks of '" ++ Lang ++ "'"}.

%% A man page does not say what language its blocks are in.
unmarked("{" ++ _ = Text) -> block("erlang", Text);
unmarked("[" ++ _ = Text) -> block("erlang", Text);
unmarked(Text) ->
    case re:run(Text, "^tiers\\.conf:\\d+:\\d+: ", [unicode, {capture, none}]) of
        match -> {diagnostic, Text};
        nomatch -> {sample, Text}
    end.

%% A line that ends in a backslash goes on.
commands(Text) ->
    Whole = string:replace(Text, "\\\n", " ", all),
    [L || L <- string:split(lists:flatten(Whole), "\n", all), string:trim(L) =/= "", not lists:prefix("# ", L)].

is_prompt(Line) -> lists:prefix("$ ", Line).

%% Commands with what they printed.
dialogue(["$ " ++ Command | More]) ->
    {Printed, Rest} = lists:splitwith(fun(L) -> not is_prompt(L) end, More),
    [{Command, lists:flatten(lists:join("\n", Printed))} | dialogue(Rest)];
dialogue([_ | More]) -> dialogue(More);
dialogue([]) -> [].

is_shell(Line) ->
    case string:lexemes(Line, " ") of
        [First | _] -> lists:member(First, docs_table:commands());
        [] -> false
    end.

%% ------------------------------------------------------ in a sentence ----

inline("{" ++ _ = Text) -> {terms, Text};
inline([$-, C | _] = Text) when C >= $a, C =< $z ->
    [Option | _] = string:lexemes(Text, " "),
    {option, tl(Option)};
inline(Text) ->
    case is_shell(Text) andalso lists:member($\s, Text) of
        true -> {shell, [{Text, ""}]};
        false -> first_of([fun eval/1, fun function/1, fun defined/1, fun path/1], Text)
    end.

first_of([], _) -> {ignored};
first_of([Rule | Rules], Text) ->
    case Rule(Text) of
        no -> first_of(Rules, Text);
        Kind -> Kind
    end.

%% For the target's shell.
eval(Text) ->
    matches(Text, "^(kprof_agent:\\w+\\(\\))\\.?$", fun([Call]) -> {eval, Call} end).

function(Text) ->
    matches(Text, "^([a-z]\\w*):([a-z]\\w*)(?:/(\\d+)|\\(.*\\))$",
            fun([M, F]) -> {function, {list_to_atom(M), list_to_atom(F)}, any};
               ([M, F, A]) -> {function, {list_to_atom(M), list_to_atom(F)}, list_to_integer(A)}
            end).

%% A function of the source, of C or of Erlang.
defined(Text) ->
    matches(Text, "^([a-z]\\w*)\\(\\)$", fun([Name]) -> {defined, Name} end).

path(Text) ->
    matches(Text, "^(?:(?:src|include|erlang|priv|test)/\\S*|[\\w-]+\\.(?:c|h|erl|sh))$", fun([]) -> {path, Text} end).

matches(Text, Pattern, Found) ->
    case re:run(Text, Pattern, [unicode, {capture, all_but_first, list}]) of
        {match, Parts} -> Found(Parts);
        nomatch -> no
    end.

%% ------------------------------------------------------- placeholders ----

%% The text with the reader's own things in it.
fill(Text, Table, Value) ->
    lists:foldl(fun({Pattern, What}, T) ->
                        case re:run(T, Pattern, [unicode, {capture, none}]) of
                            match -> re:replace(T, Pattern, Value(What), [global, unicode, {return, list}]);
                            nomatch -> T
                        end
                end, Text, Table).
