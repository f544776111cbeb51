%% docs_text - finds what the documents show as code.
%%
%% A reader for each kind of text: Markdown, mdoc, the -h of a program, and
%% comments. All give pieces:
%%
%%     #{file, line, form, lang, text}
%%
%% form is block (lines set apart), inline (a word of code in a sentence), link,
%% option, installed (a file), message (all as man pages have them), or target (of
%% make). lang is what a fence says, or "".
%% Nothing is judged here; see docs_kind.
-module(docs_text).

-export([markdown/2, anchor/1, mdoc/2, help/2, targets/2, comments/2, commands/1]).

markdown(File, Text) ->
    md(numbered(Text), File, "", []).

numbered(Text) ->
    Lines = string:split(unicode:characters_to_list(Text), "\n", all),
    lists:zip(lists:seq(1, length(Lines)), Lines).

%% Paragraph: what of a sentence's lines was read, since a word of code may go
%% over a line's end.
md([], File, Para, Pieces) ->
    lists:reverse(spans(Para, File, Pieces));
md([{N, Line} | More] = Lines, File, Para, Pieces) ->
    case re:run(Line, "^( *)```(\\w*)\\s*$", [unicode, {capture, all_but_first, list}]) of
        {match, [Indent, Lang]} ->
            {Inside, Rest} = lists:splitwith(fun({_, L}) -> string:trim(L) =/= "```" end, More),
            Text = [outdent(length(Indent), L) || {_, L} <- Inside],
            md(drop(Rest), File, "", [piece(File, N + 1, block, Lang, Text) | spans(Para, File, Pieces)]);
        nomatch when Para =:= "" ->
            case lists:splitwith(fun is_indented/1, Lines) of
                {[], _} -> md(More, File, start(N, Line), Pieces);
                {Inside, Rest} ->
                    Text = trimmed([outdent(4, L) || {_, L} <- Inside]),
                    {First, _} = hd(Inside),
                    md(Rest, File, "", [piece(File, First, block, "", Text) || Text =/= []] ++ Pieces)
            end;
        nomatch ->
            case string:trim(Line) of
                "" -> md(More, File, "", spans(Para, File, Pieces));
                _ -> md(More, File, [{N, Line} | Para], Pieces)
            end
    end.

drop([]) -> [];
drop([_ | More]) -> More.

start(N, Line) ->
    case string:trim(Line) of
        "" -> "";
        _ -> [{N, Line}]
    end.

is_indented({_, "    " ++ _}) -> true;
is_indented({_, Line}) -> string:trim(Line) =:= "".

trimmed(Lines) ->
    Blank = fun(L) -> string:trim(L) =:= "" end,
    lists:reverse(lists:dropwhile(Blank, lists:reverse(lists:dropwhile(Blank, Lines)))).

outdent(N, Line) ->
    case lists:split(min(N, length(Line)), Line) of
        {Spaces, Rest} -> string:trim(Spaces, leading) ++ Rest
    end.

%% The words of code and the links of a paragraph.
spans("", _, Pieces) ->
    Pieces;
spans(Para, File, Pieces) ->
    Lines = lists:reverse(Para),
    {First, _} = hd(Lines),
    Text = lists:flatten(lists:join("\n", [L || {_, L} <- Lines])),
    Found = [{inline, S} || S <- all(Text, "`([^`]+)`")] ++ [{link, S} || S <- all(Text, "\\]\\(([^)]+)\\)")],
    [piece(File, First + before(Text, S), Form, "", [re:replace(S, "\\s+", " ", [global, unicode, {return, list}])])
     || {Form, S} <- lists:reverse(Found)] ++ Pieces.

all(Text, Pattern) ->
    case re:run(Text, Pattern, [global, unicode, {capture, all_but_first, list}]) of
        {match, Found} -> [F || [F] <- Found];
        nomatch -> []
    end.

%% How many lines come before what is found.
before(Text, Part) ->
    [Before | _] = string:split(Text, Part),
    length([C || C <- Before, C =:= $\n]).

piece(File, Line, Form, Lang, Lines) ->
    #{file => File, line => Line, form => Form, lang => Lang, text => lists:flatten(lists:join("\n", Lines))}.

%% What links to a heading.
anchor(Heading) ->
    Words = re:replace(string:lowercase(Heading), "[^\\w -]", "", [global, unicode, {return, list}]),
    lists:flatten(string:replace(Words, " ", "-", all)).

%% --------------------------------------------------------------- mdoc ----

mdoc(File, Text) ->
    mdoc(numbered(Text), File, []).

mdoc([], _, Pieces) ->
    lists:reverse(Pieces);
mdoc([{N, ".Bd -literal" ++ _} | More], File, Pieces) ->
    {Inside, Rest} = lists:splitwith(fun({_, L}) -> L =/= ".Ed" end, More),
    mdoc(drop(Rest), File, [piece(File, N + 1, block, "", [roff(L) || {_, L} <- Inside]) | Pieces]);
mdoc([{N, ".D" ++ [C | _]} | _] = Lines, File, Pieces) when C =:= $l; C =:= $1 ->
    {Inside, Rest} = lists:splitwith(fun({_, L}) -> lists:prefix([$., $D, C, $\s], L) end, Lines),
    mdoc(Rest, File, [piece(File, N, block, "", [roff(lists:nthtail(4, L)) || {_, L} <- Inside]) | Pieces]);
mdoc([{_, ".Bl -diag" ++ _} | More], File, Pieces) ->
    {Inside, Rest} = lists:splitwith(fun({_, L}) -> L =/= ".El" end, More),
    Messages = [piece(File, N, message, "", [roff(Text)]) || {N, ".It " ++ Text} <- Inside],
    mdoc([I || {_, L} = I <- Inside, not lists:prefix(".It ", L)] ++ Rest, File, lists:reverse(Messages, Pieces));
mdoc([{N, Line} | More], File, Pieces) ->
    Found = [{inline, S} || S <- words_of_code(Line)] ++ [{option, O} || O <- options(Line)] ++
        [{installed, P} || P <- all(Line, "^\\.(?:It )?Pa (/usr/local/\\S+)")],
    mdoc(More, File, [piece(File, N, Form, "", [Text]) || {Form, Text} <- Found] ++ Pieces).

%% .Ql {one_in, N} ,   .It Li kprof_agent:stop()   .Ic kprof clear-tokens
words_of_code(Line) ->
    case re:run(Line, "^\\.(?:It )?(?:Ql|Li|Ic) (.*?)(?: [,.;:)])*$", [unicode, {capture, all_but_first, list}]) of
        {match, [Spans]} ->
            [roff(string:trim(S, both, "\""))
             || S <- re:split(Spans, " [,.] (?:Ql|Li|Ic) ", [unicode, {return, list}])];
        nomatch -> []
    end.

%% The options that a line of macros names: .Op Fl json | csv
options("." ++ Line) ->
    options(string:lexemes(Line, " "), false, []);
options(_) ->
    [].

options([], _, Found) -> lists:reverse(Found);
options([[A, B] | Words], _, Found) when A >= $A, A =< $Z, B >= $a, B =< $z ->
    options(Words, [A, B] =:= "Fl", Found);
options([[C | _] = Word | Words], true, Found) when C >= $a, C =< $z ->
    options(Words, true, [Word | Found]);
options([_ | Words], Inside, Found) -> options(Words, Inside, Found).

%% The commands of a SYNOPSIS: `.Cm count | time`.
commands(Text) ->
    [_, After] = string:split(unicode:characters_to_list(Text), ".Sh SYNOPSIS\n"),
    [Synopsis, _] = string:split(After, ".Sh "),
    lists:append([string:lexemes(L, " |") || ".Cm " ++ L <- string:split(Synopsis, "\n", all)]).

%% The escapes that stand for characters.
roff(Text) ->
    lists:foldl(fun({From, To}, T) -> lists:flatten(string:replace(T, From, To, all)) end, Text,
                [{"\\(dq", "\""}, {"\\(aq", "'"}, {"\\&", ""}, {"\\-", "-"}, {"\\e", "\\"}]).

%% ----------------------------------------------- -h, and other texts ----

%% What stands behind "example:", on that line and on those that follow.
help(File, Text) ->
    case lists:splitwith(fun({_, L}) -> not lists:prefix("example", L) end, numbered(Text)) of
        {_, []} -> [];
        {_, [{N, First} | More]} ->
            [_, Rest] = string:split(First, ":"),
            [piece(File, N, block, "", trimmed([string:trim(L) || L <- [Rest | [M || {_, M} <- More]]]))]
    end.

%% Commands in comments: two spaces or more from the words around them, or as in
%% Markdown.
comments(File, Text) ->
    [piece(File, N, Form, "", [Command])
     || {N, "%" ++ _ = Line} <- [{N, commented(L)} || {N, L} <- numbered(Text)],
        {Form, Pattern} <- [{block, " {2,}((?:kprofd|kprof|sqlite3|make) .*)$"}, {inline, "`([^`]+)`"}],
        Command <- all(Line, Pattern)].

%% A line of comment starts with % here, whatever the language has.
commented(Line) ->
    re:replace(Line, "^\\s*(?:%|--|#)", "%", [unicode, {return, list}]).

%% The targets that `make help` and `make help-dev` list.
targets(File, Text) ->
    [piece(File, N, target, "", [string:trim("make " ++ Target)])
     || {N, Line} <- numbered(Text),
        {match, [Target]} <- [re:run(Line, "^make ([a-z-]*)", [unicode, {capture, all_but_first, list}])]].
