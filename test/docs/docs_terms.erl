%% docs_terms - what the Erlang in a document is, and whether it would work.
%%
%% The documents name functions of an application that is not there. stubs/2
%% makes modules that have them, so that kprofd finds what an example names; it
%% never does so for a module that exists, whose functions have to exist too.
-module(docs_terms).

-export([kind/1, base/0, with_tiers/1, stubs/2, compile/1, is_function_there/2]).

-define(FORMS, [tiers, entry, finish, identity, label, rewrite, sampling, slow_ms, gc, scheduling, messages, stacks,
                slo, overload]).

%% tiers | module | expressions | {error, Why}
kind(Text) ->
    case groups(Text) of
        {ok, Groups} ->
            case {lists:all(fun is_tiers_form/1, Groups), parse(fun erl_parse:parse_form/1, Groups)} of
                {true, _} -> tiers;
                {_, {ok, _}} -> module;
                {_, {error, Why}} ->
                    case parse(fun erl_parse:parse_exprs/1, Groups) of
                        {ok, Parsed} -> constant(Parsed);
                        {error, _} -> {error, Why}
                    end
            end;
        {error, Why} -> {error, Why}
    end.

%% Terms that are neither of tiers.conf nor code: somebody has to say what they are.
constant(Parsed) ->
    IsTerm = fun([E]) -> try erl_parse:normalise(E), true catch error:_ -> false end;
                (_) -> false
             end,
    case lists:all(IsTerm, Parsed) of
        true -> {error, "terms that are not of tiers.conf"};
        false -> expressions
    end.

%% The tokens of each form; the last may lack its full stop.
groups(Text) ->
    case erl_scan:string(lists:flatten(string:replace(Text, "?MODULE", "snippet", all))) of
        {ok, [], _} -> {error, "nothing in it"};
        {ok, Tokens, End} ->
            Whole = case lists:last(Tokens) of
                        {dot, _} -> Tokens;
                        _ -> Tokens ++ [{dot, End}]
                    end,
            {ok, split(Whole, [])};
        {error, {Line, Module, Why}, _} ->
            {error, io_lib:format("line ~b: ~ts", [Line, Module:format_error(Why)])}
    end.

split([], _) -> [];
split([{dot, _} = Dot | More], Group) -> [lists:reverse([Dot | Group]) | split(More, [])];
split([Token | More], Group) -> split(More, [Token | Group]).

is_tiers_form([{'{', _}, {atom, _, Key} | _]) -> lists:member(Key, ?FORMS);
is_tiers_form([{'[', _}, {'{', _}, {atom, _, _}, {',', _}, T | _]) -> lists:member(element(1, T), ['{', string]);
is_tiers_form(_) -> false.

parse(Parser, Groups) ->
    lists:foldr(fun(Group, {ok, Parsed}) ->
                        case Parser(Group) of
                            {ok, P} -> {ok, [P | Parsed]};
                            {error, {Where, Module, Why}} ->
                                {error, io_lib:format("line ~p: ~ts", [Where, Module:format_error(Why)])}
                        end;
                   (_, Error) -> Error
                end, {ok, []}, Groups).

%% A file needs tiers; a snippet that shows something else leaves them out.
with_tiers(Text) ->
    {ok, Groups} = groups(Text),
    HasTiers = lists:any(fun([{'{', _}, {atom, _, tiers} | _]) -> true;
                            ([{'[', _} | _]) -> true;
                            (_) -> false
                         end, Groups),
    case HasTiers of
        true -> Text;
        false -> base() ++ Text
    end.

%% One line, for what is about something else.
base() ->
    "{tiers, [{handle, {requests, handle_request, 2}}, {web, {web, handle, 1}},"
    " {db, [{db, query, 2}, {db, transaction, '_'}]}]}.\n".

%% ------------------------------------------------------------- stubs ----

%% Modules in Dir with every function that these texts of tiers.conf name.
stubs(Dir, Texts) ->
    %% What is wrong in a text kprofd will say better.
    Functions = lists:usort(lists:append([try functions(T) catch error:_ -> [] end || T <- Texts])),
    Missing = [M || {M, _, _} <- Functions, code:which(M) =:= non_existing],
    lists:foreach(fun(M) -> stub(Dir, M, [{F, A} || {N, F, A} <- Functions, N =:= M]) end,
                  lists:usort(Missing)).

functions(Text) ->
    {ok, Groups} = groups(Text),
    lists:append([named(E) || Group <- Groups, {ok, [E]} <- [erl_parse:parse_exprs(Group)]]).

named({tuple, _, [{atom, _, tiers}, Tiers]}) -> of_tiers(erl_parse:normalise(Tiers));
named({tuple, _, [{atom, _, Key}, Function | _]}) when Key =:= entry; Key =:= finish ->
    of_functions(erl_parse:normalise(Function));
named({tuple, _, _}) -> [];
named(Tiers) -> of_tiers(erl_parse:normalise(Tiers)).

of_tiers(Tiers) ->
    lists:append([of_functions(element(2, Tier)) || Tier <- Tiers]).

of_functions({M, F, A}) -> arities(M, F, A);
of_functions([C | _] = Text) when is_integer(C) -> of_text(Text);
of_functions(Functions) -> lists:append([of_functions(F) || F <- Functions]).

%% "m:f/1", "m:f", "m:f/_", "m", "My.App.f/1", "My.App"
of_text(Text) ->
    [Name | Arity] = string:split(Text, "/"),
    A = case Arity of
            [Digits] when Digits =/= "_" -> list_to_integer(Digits);
            _ -> '_'
        end,
    case {string:split(Name, ":"), string:split(Name, ".", trailing)} of
        {[M, F], _} -> arities(list_to_atom(M), list_to_atom(F), A);
        {_, [M, [C | _] = F]} when C >= $a; C =:= $_ -> arities(list_to_atom("Elixir." ++ M), list_to_atom(F), A);
        {_, [_, _]} -> arities(list_to_atom("Elixir." ++ Name), '_', A);
        {[M], _} -> arities(list_to_atom(M), '_', A)
    end.

arities(M, '_', A) -> arities(M, any, A);
arities(M, F, '_') -> [{M, F, 1}, {M, F, 2}];
arities(M, F, A) -> [{M, F, A}].

stub(Dir, Module, Functions) ->
    Code = [{attribute, 1, module, Module}, {attribute, 1, export, Functions} |
            [function(F, A) || {F, A} <- Functions]],
    {ok, Module, Beam} = compile:forms(Code),
    ok = file:write_file(filename:join(Dir, atom_to_list(Module) ++ ".beam"), Beam).

function(F, A) ->
    {function, 1, F, A, [{clause, 1, lists:duplicate(A, {var, 1, '_'}), [], [{atom, 1, ok}]}]}.

%% ------------------------------------------------------------- code ----

%% Compiles the functions or expressions of a snippet, and looks for what they
%% call. Calls to modules that are not there are the reader's own.
compile(Text) ->
    {ok, Groups} = groups(Text),
    Forms = case kind(Text) of
                module -> {ok, Parsed} = parse(fun erl_parse:parse_form/1, Groups), whole(Parsed);
                expressions -> in_function(Groups)
            end,
    compiled(Forms).

%% Functions that a snippet calls and does not show are the reader's own too.
compiled(Forms) ->
    case compile:forms(Forms, [export_all, nowarn_export_all, return]) of
        {ok, _, Beam, _} -> calls(Beam);
        {error, Errors, _} ->
            Found = [{M, Why} || {_, InFile} <- Errors, {_, M, Why} <- InFile],
            case lists:usort([FA || {erl_lint, {undefined_function, FA}} <- Found]) of
                [] -> {error, [[M:format_error(Why), "\n"] || {M, Why} <- Found]};
                Own -> compiled(Forms ++ [function(F, A) || {F, A} <- Own])
            end
    end.

whole([{attribute, _, module, _} | _] = Forms) -> Forms;
whole(Forms) -> [{attribute, 1, module, snippet} | Forms].

%% What a snippet does not bind, its reader has.
in_function(Groups) ->
    Free = lists:usort([{var, 1, V} || Group <- Groups, {var, _, V} <- Group, V =/= '_']),
    [{attribute, 1, module, snippet} |
     [begin
          {ok, Exprs} = erl_parse:parse_exprs(Group),
          {function, 1, list_to_atom("f" ++ integer_to_list(N)), length(Free), [{clause, 1, Free, [], Exprs}]}
      end || {N, Group} <- lists:zip(lists:seq(1, length(Groups)), Groups)]].

calls(Beam) ->
    {ok, {_, [{imports, Imports}]}} = beam_lib:chunks(Beam, [imports]),
    case [io_lib:format("there is no ~s:~s/~b~n", [M, F, A])
          || {M, F, A} <- Imports, code:which(M) =/= non_existing, not exists(M, F, A)] of
        [] -> ok;
        Missing -> {error, Missing}
    end.

exists(M, F, A) ->
    erlang:is_builtin(M, F, A) orelse
        (code:ensure_loaded(M) =:= {module, M} andalso erlang:function_exported(M, F, A)).

%% Of a function that a sentence names: with its arity, or none.
is_function_there({M, F}, A) ->
    case {code:ensure_loaded(M), A} of
        {{error, _}, _} -> false;
        {_, any} -> lists:keymember(F, 1, M:module_info(exports));
        _ -> exists(M, F, A)
    end.
