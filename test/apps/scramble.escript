#!/usr/bin/env escript
%% Compiles an application with all its names replaced by random words: modules,
%% functions, registered names, the application's own. What nobody can read a
%% meaning from is to be understood from how it behaves.
%%
%% Callbacks of OTP keep their names, and so do atoms that name nothing of these
%% (messages, options, operations). The names are in OUT/names, to be read with
%% file:consult/1: {seed, N}, {atom, Old, New}, {function, M, F, A, Module, Function}.
%%
%% usage: scramble.escript SRC OUT [SEED]
-mode(compile).

%% Atoms that become names at run time: sample_pool registers sample_LAYER_N.
-define(LAYERS, [handle]).
-define(PREFIXES, ["sample_"]).

-define(CALLBACKS, #{application => [{start, 2}, {stop, 1}, {prep_stop, 1}, {config_change, 3}],
                     supervisor => [{init, 1}],
                     gen_server => [{init, 1}, {handle_call, 3}, {handle_cast, 2}, {handle_info, 2},
                                    {handle_continue, 2}, {terminate, 2}, {code_change, 3}, {format_status, 2}]}).

main([Src, Out]) ->
    main([Src, Out, integer_to_list(erlang:system_time(microsecond) band 16#FFFFFFF)]);
main([Src, Out, Seed]) ->
    _ = rand:seed(exsss, list_to_integer(Seed)),
    ok = filelib:ensure_path(Out),
    Modules = [parsed(F) || F <- lists:sort(filelib:wildcard(filename:join(Src, "*.erl")))],
    [AppFile] = filelib:wildcard(filename:join(Src, "*.app.src")),
    {ok, [{application, App, Props} = AppTerm]} = file:consult(AppFile),
    Names = names(Modules, [App | proplists:get_value(registered, Props) ++ ?LAYERS]),
    [compiled(M, Names, Out) || M <- Modules],
    NewApp = atom(App, Names),
    %% No description: it would tell what this is.
    {application, App, _} = AppTerm,
    New = {application, NewApp, [{K, case K of description -> ""; _ -> term(V, Names) end} || {K, V} <- Props]},
    ok = file:write_file(filename:join(Out, [atom_to_list(NewApp), ".app"]), io_lib:format("~p.~n", [New])),
    #{atoms := Atoms, functions := Functions} = Names,
    Lines = [{seed, list_to_integer(Seed)}] ++ [{atom, A, B} || {A, B} <- maps:to_list(Atoms)] ++
        [{function, M, F, A, maps:get(M, Atoms), G} || {{M, F, A}, G} <- maps:to_list(Functions)],
    ok = file:write_file(filename:join(Out, "names"), [io_lib:format("~p.~n", [L]) || L <- Lines]);
main(_) ->
    io:format(standard_error, "usage: scramble.escript SRC OUT [SEED]~n", []),
    halt(2).

%% {Module, Forms, callbacks}
parsed(File) ->
    {ok, Forms} = epp:parse_file(File, []),
    [] = [F || {error, _} = F <- Forms],
    {value, {attribute, _, module, M}} = lists:search(fun(F) -> element(1, F) =:= attribute andalso element(3, F) =:= module end, Forms),
    Kept = lists:append([maps:get(B, ?CALLBACKS) || {attribute, _, behaviour, B} <- Forms]),
    {M, Forms, Kept}.

%% A word for each name; functions of one name have one word, whichever module
%% they are in, as behaviours of an application's own have it.
names(Modules, More) ->
    Atoms = maps:from_list(words(lists:usort([M || {M, _, _} <- Modules] ++ More), [])),
    Defined = [{M, F, A, lists:member({F, A}, Kept)} || {M, Forms, Kept} <- Modules, {function, _, F, A, _} <- Forms],
    Words = maps:from_list(words(lists:usort([F || {_, F, _, false} <- Defined]), maps:values(Atoms))),
    #{atoms => Atoms, prefixes => words(?PREFIXES, maps:values(Atoms) ++ maps:values(Words)),
      functions => maps:from_list([{{M, F, A}, case Kept of true -> F; false -> maps:get(F, Words) end}
                                   || {M, F, A, Kept} <- Defined])}.

words(Names, Taken) ->
    {Pairs, _} = lists:mapfoldl(fun(Name, T) -> W = word(T), {{Name, W}, [W | T]} end, Taken, Names),
    Pairs.

%% Two to four syllables, of no language.
word(Taken) ->
    Letter = fun(Letters) -> lists:nth(rand:uniform(length(Letters)), Letters) end,
    Word = list_to_atom(lists:append([[Letter("bdfgklmnprstvz"), Letter("aeiou")] || _ <- lists:seq(1, 1 + rand:uniform(3))])),
    case lists:member(Word, Taken) orelse code:which(Word) =/= non_existing of
        true -> word(Taken);
        false -> Word
    end.

compiled({M, Forms, _}, Names, Out) ->
    New = atom(M, Names),
    Renamed = [form(F, M, Names) || F <- Forms],
    {ok, New, Beam} = compile:forms(Renamed, [report, debug_info, {source, atom_to_list(New) ++ ".erl"}]),
    ok = file:write_file(filename:join(Out, [atom_to_list(New), ".beam"]), Beam).

form({attribute, L, file, {_, Line}}, M, Names) ->
    {attribute, L, file, {atom_to_list(atom(M, Names)) ++ ".erl", Line}};
form({attribute, L, module, M}, M, Names) ->
    {attribute, L, module, atom(M, Names)};
form({attribute, L, export, Functions}, M, Names) ->
    {attribute, L, export, [{function(M, F, A, Names), A} || {F, A} <- Functions]};
form({attribute, _, _, _} = Attribute, _, _) ->
    Attribute;
form({function, L, F, A, Clauses}, M, Names) ->
    {function, L, function(M, F, A, Names), A, expr(Clauses, M, Names)};
form(Other, _, _) ->
    Other.

%% Any part of a function, in abstract format.
expr({call, L, {atom, LF, F}, Args}, M, Names) ->
    {call, L, {atom, LF, function(M, F, length(Args), Names)}, expr(Args, M, Names)};
expr({call, L, {remote, LR, {atom, LM, Of}, {atom, LF, F}}, Args}, M, Names) ->
    {call, L, {remote, LR, {atom, LM, atom(Of, Names)}, {atom, LF, function(Of, F, length(Args), Names)}}, expr(Args, M, Names)};
expr({'fun', L, {clauses, Clauses}}, M, Names) ->
    {'fun', L, {clauses, expr(Clauses, M, Names)}};
expr({'fun', L, {function, F, A}}, M, Names) ->
    {'fun', L, {function, function(M, F, A, Names), A}};
expr({'fun', L, {function, {atom, LM, Of}, {atom, LF, F}, {integer, LA, A}}}, _, Names) ->
    {'fun', L, {function, {atom, LM, atom(Of, Names)}, {atom, LF, function(Of, F, A, Names)}, {integer, LA, A}}};
expr({string, L, Text}, _, #{prefixes := Prefixes}) ->
    case lists:keyfind(Text, 1, Prefixes) of
        {_, Word} -> {string, L, atom_to_list(Word) ++ "_"};
        false -> {string, L, Text}
    end;
expr({atom, L, A}, _, Names) ->
    {atom, L, atom(A, Names)};
%% Module, Function, [Arg, ...]: of a supervisor's child, of proc_lib:start_link/3.
expr([{atom, LM, Of}, {atom, LF, F}, Args | More], M, #{functions := Functions} = Names) ->
    As = case [G || {{O, N, _}, G} <- maps:to_list(Functions), O =:= Of, N =:= F] of
             [G | _] -> G;
             [] -> atom(F, Names)
         end,
    [{atom, LM, atom(Of, Names)}, {atom, LF, As} | expr([Args | More], M, Names)];
expr([E | More], M, Names) ->
    [expr(E, M, Names) | expr(More, M, Names)];
expr(Tuple, M, Names) when is_tuple(Tuple) ->
    expr_parts(Tuple, M, Names);
expr(Other, _, _) ->
    Other.

%% The first is the kind of expression, the second its line.
expr_parts(Tuple, M, Names) ->
    [Kind, Line | Parts] = tuple_to_list(Tuple),
    list_to_tuple([Kind, Line | expr(Parts, M, Names)]).

function(M, F, A, #{functions := Functions}) ->
    maps:get({M, F, A}, Functions, F).

atom(A, #{atoms := Atoms}) ->
    maps:get(A, Atoms, A).

term(A, Names) when is_atom(A) -> atom(A, Names);
term(L, Names) when is_list(L) -> [term(T, Names) || T <- L];
term(T, Names) when is_tuple(T) -> list_to_tuple([term(E, Names) || E <- tuple_to_list(T)]);
term(T, _) -> T.
