%% docs_find - the documents, and what has to hold for each as a whole.
-module(docs_find).

-export([pieces/1, options/1, strings/0, defined/0, whole/2]).

%% All pieces of all documents, in order.
pieces(Build) ->
    Files = [{File, How} || {Pattern, How} <- docs_table:documents(), File <- lists:sort(filelib:wildcard(Pattern))],
    lists:append([read(How, File, text(File)) || {File, How} <- Files])
        ++ lists:append([docs_text:help(Command ++ " -h", Help) || {Command, Help} <- helps(Build)])
        ++ [P || {_, Help} <- [{make, shell("make -s help help-dev")}], P <- docs_text:targets("make help help-dev", Help)].

text(File) ->
    {ok, Text} = file:read_file(File),
    Text.

read(markdown, File, Text) -> docs_text:markdown(File, Text);
read(mdoc, File, Text) -> docs_text:mdoc(File, Text);
read(comments, File, Text) -> docs_text:comments(File, Text);
read(elsewhere, _, _) -> [];
read(tiers, File, Text) ->
    [#{file => File, line => 1, form => block, lang => "erlang", text => unicode:characters_to_list(Text)}
     | docs_text:comments(File, Text)].

shell(Command) ->
    os:cmd(Command).

%% {"kprof report", what its -h prints}
helps(Build) ->
    Kprof = shell(Build ++ "/kprof -h"),
    {match, Names} = re:run(Kprof, "^  ([a-z][a-z-]*) ", [global, multiline, {capture, all_but_first, list}]),
    [{"kprofd", shell(Build ++ "/kprofd -h")} |
     [{"kprof " ++ Name, shell(Build ++ "/kprof " ++ Name ++ " -h")} || [Name] <- Names]].

%% #{"kprof report" => ["since", ...]}
options(Build) ->
    maps:from_list([{Command, options_in(Help)} || {Command, Help} <- helps(Build)]).

options_in(Help) ->
    case re:run(Help, "^  -([a-z][a-z-]*)", [unicode, global, multiline, {capture, all_but_first, list}]) of
        {match, Found} -> [O || [O] <- Found];
        nomatch -> []
    end.

%% All that the programs can say, in one line where the source takes several.
strings() ->
    Sources = [text(File) || File <- filelib:wildcard("src/**/*.c")],
    re:replace(unicode:characters_to_list(Sources), "\"\\s*\n\\s*\"", "", [global, unicode, {return, list}]).

%% The functions of the source: each begins a line, in C as in Erlang.
defined() ->
    Files = lists:append([filelib:wildcard(P) || P <- ["src/**/*.[ch]", "include/**/*.h", "erlang/**/*.{erl,hrl}",
                                                       "test/**/*.{c,h,erl}"]]),
    sets:from_list([Name || File <- Files, Name <- functions(text(File))]).

functions(Text) ->
    case re:run(Text, "^([a-z]\\w*)\\(", [global, multiline, {capture, all_but_first, list}]) of
        {match, Found} -> [Name || [Name] <- Found];
        nomatch -> []
    end.

%% ----------------------------------------- each document as a whole ----

%% {Piece, check}: they speak of no line in particular.
whole(Build, Kinds) ->
    [{#{file => "test/docs/docs_table.erl", line => 1, text => element(3, Entry)}, fun() -> used(Entry, Kinds) end}
     || {File, _, _} = Entry <- docs_table:allowed(), filelib:is_file(File)]
        ++ [{#{file => File, line => 1, text => "read by somebody"}, fun() -> known(File) end}
            || File <- lists:sort(filelib:wildcard("priv/**") ++ filelib:wildcard("*.md") ++
                                      filelib:wildcard("{erlang,include,src,test}/**/*.md")),
               filelib:is_regular(File)]
        ++ [{#{file => Command ++ " -h", line => 1, text => "has an example"}, fun() -> example(Command, Help) end}
            || {Command, Help} <- helps(Build)]
        ++ [{#{file => "priv/man/kprof.1", line => 1, text => "its commands"}, fun() -> commands(Build) end}].

%% A table that grows and never shrinks hides what it was for.
used({File, Start, _} = Entry, Kinds) ->
    lists:any(fun({_, Kind}) -> Kind =:= {allowed, Entry} end, Kinds)
        orelse it:fail("nothing in ~s is so any more: ~p", [File, Start]).

known(File) ->
    lists:any(fun({Pattern, _}) -> lists:member(File, filelib:wildcard(Pattern)) end, docs_table:documents())
        orelse it:fail("no rule says how to read it: see docs_table:documents/0", []).

example(Command, Help) ->
    docs_text:help(Command, Help) =/= [] orelse it:fail("it shows no example:~n~ts", [Help]).

%% The SYNOPSIS has every command. (`make packaging` compares the options.)
commands(Build) ->
    Shown = docs_text:commands(text("priv/man/kprof.1")),
    Known = ["help" | [Name || {"kprof " ++ Name, _} <- helps(Build)]],
    it:equal("commands", lists:usort(Known), lists:usort(Shown)).
