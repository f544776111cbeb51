#!/usr/bin/env escript
%% -*- erlang -*-
%%! -disable-feature maybe_expr
%% merge.escript - merges modules that belong together into the one module that is loaded into
%% a target.
%%
%%     merge.escript OUT.beam HOST.erl
%%
%% The source is many modules, since that is how one reads, tests and checks them. A target
%% gets one, because to take a module out again the VM looks at every process: at 300,000
%% processes one purge costs a second of CPU time.
%%
%% A module next to this script is a host: it is loaded, under its name. A module in one of the
%% folders here is a part: it becomes part of each host that calls it, directly or through
%% other parts. In the source a call of another module is qualified, or its name is
%% imported; here both are local.
%% What cannot be merged without a change of meaning is an error:
%%   - a function, or a record, that two of the modules define;
%%   - a call of a function that its module does not export, or of a kprof module
%%     that does not exist; an import from a module that is not merged;
%%   - a part's name as a value (?MODULE, apply/3): in a target there is no such module;
%%   - an attribute that is not in a list below, such as on_load or compile.
%%
%% Only what the host exports is exported. Specs and types are left out: dialyzer has
%% checked them in the source. A part calls its host through another part.
-mode(compile).

main([Out, Host]) ->
    Dir = filename:dirname(Host),
    Parts = maps:from_list([{module_of(F), F}
                            || F <- filelib:wildcard(filename:join(Dir, "*/*.erl"))]),
    Hosts = [module_of(F) || F <- filelib:wildcard(filename:join(Dir, "*.erl"))],
    Name = module_of(Host),
    Merged = closure([Name], Parts#{Name => Host}, include_path(Dir), #{}),
    Order = [Name | lists:sort(maps:keys(Merged) -- [Name])],
    check_defined_once(Order, Merged),
    [check_attributes(M =:= Name, map_get(M, Merged)) || M <- Order],
    [check_calls(map_get(M, Merged), Merged, Hosts) || M <- Order],
    write(Out, compiled([map_get(M, Merged) || M <- Order], Merged));
main(_) ->
    fail("usage: merge.escript OUT.beam HOST.erl", []).

module_of(File) ->
    list_to_atom(filename:basename(File, ".erl")).

%% The folders with headers.
include_path(Dir) ->
    lists:usort([filename:dirname(F) || F <- filelib:wildcard(filename:join(Dir, "*/*.hrl"))]).

%% ------------------------------------------------------- reading ----

%% #{Module => #{forms, exports, calls}} of these and of all parts they call.
closure([], _, _, Read) ->
    Read;
closure([M | More], Files, Path, Read) when is_map_key(M, Read); not is_map_key(M, Files) ->
    closure(More, Files, Path, Read);
closure([M | More], Files, Path, Read) ->
    Module = read(M, map_get(M, Files), Path),
    closure([Called || {_, {Called, _, _}} <- maps:get(calls, Module)] ++ More, Files, Path,
            Read#{M => Module}).

read(M, File, Path) ->
    {ok, Forms} = epp:parse_file(File, [{includes, Path}]),
    [fail("~ts:~b: ~ts", [File, line(At), By:format_error(What)])
     || {error, {At, By, What}} <- Forms],
    Imports = [{line(At), {From, F, A}} || {attribute, At, import, {From, L}} <- Forms, {F, A} <- L],
    #{name => M, file => File, forms => Forms,
      exports => lists:append([L || {attribute, _, export, L} <- Forms]),
      imports => Imports, calls => Imports ++ calls(Forms)}.

%% [{Line, {Module, Function, Arity}}] that the source names.
calls(Forms) ->
    {_, Calls} = walk(fun(Node, Acc) ->
                              case qualified(Node) of
                                  {At, MFA, _} -> {Node, [{At, MFA} | Acc]};
                                  none -> {Node, Acc}
                              end
                      end, [], functions(Forms)),
    lists:reverse(Calls).

%% {Line, MFA, the same as a local call} of what calls, or makes a fun of, a function
%% of a module that it names.
qualified({call, At, {remote, _, {atom, _, M}, {atom, _, F} = Fun}, Args}) ->
    {line(At), {M, F, length(Args)}, {call, At, Fun, Args}};
qualified({'fun', At, {function, {atom, _, M}, {atom, _, F}, {integer, _, A}}}) ->
    {line(At), {M, F, A}, {'fun', At, {function, F, A}}};
qualified(_) ->
    none.

functions(Forms) ->
    [F || {function, _, _, _, _} = F <- Forms].

%% ----------------------------------------------------------- checks ----

check_defined_once(Order, Merged) ->
    Defined = [{{F, A}, M} || M <- Order, {function, _, F, A, _} <- forms(M, Merged)],
    maps:foreach(fun({F, A}, [_, _ | _] = Ms) -> fail("~tw/~b is defined in ~s", [F, A, names(Ms)]);
                    (_, _) -> ok
                 end, groups(Defined)),
    Records =
        lists:usort([{R, plain(Fields)} || M <- Order,
                                           {R, Fields, _} <- records(forms(M, Merged))]),
    maps:foreach(fun(R, [_, _ | _]) ->
                         fail("record ~tw is not the same in ~s",
                              [R, names([M || M <- Order,
                                              lists:keymember(R, 1, records(forms(M, Merged)))])]);
                    (_, _) -> ok
                 end, groups(Records)).

check_calls(#{name := Own, file := File, forms := Forms, imports := Imports, calls := Calls},
            Merged, Hosts) ->
    [is_map_key(M, Merged) orelse fail("~ts:~b: cannot import from ~tw", [File, Line, M])
     || {Line, {M, _, _}} <- Imports],
    [case Merged of
         #{M := _} when M =:= Own -> fail("~ts:~b: ~tw calls itself by its name", [File, Line, M]);
         #{M := #{exports := Exports}} ->
             lists:member({F, A}, Exports) orelse
                 fail("~ts:~b: ~tw does not export ~tw/~b", [File, Line, M, F, A]);
         #{} ->
             is_kprofs(M) andalso not lists:member(M, Hosts) andalso
                 fail("~ts:~b: there is no module ~tw", [File, Line, M])
     end || {Line, {M, F, A}} <- Calls],
    Parts = maps:keys(Merged) -- Hosts,
    walk(fun({atom, At, Atom} = Node, Acc) ->
                 lists:member(Atom, Parts) andalso
                     fail("~ts:~b: ~tw is a name that no module has in a target",
                          [File, line(At), Atom]),
                 {Node, Acc};
            (Node, Acc) -> {Node, Acc}
         end, ok, local(functions(Forms), Merged)).

%% What a host's attributes make of the module, and what only the source needs.
-define(KEPT, [file, module, export, nifs]).
-define(LEFT_OUT, [import, record, type, opaque, export_type, spec, dialyzer]).

check_attributes(IsHost, #{file := File, forms := Forms}) ->
    Known = ?LEFT_OUT ++ (if IsHost -> ?KEPT; true -> ?KEPT -- [nifs] end),
    [lists:member(A, Known) orelse fail("~ts:~b: cannot merge -~ts", [File, line(At), A])
     || {attribute, At, A, _} <- Forms].

is_kprofs(M) -> lists:prefix("kprof_", atom_to_list(M)).

%% ----------------------------------------------------------- the merged module ----

%% The host's attributes, each record once, and the functions of all, which keep the
%% names of their files for stack traces.
compiled([#{name := Name} = Host | _] = All, Merged) ->
    Attributes = [F || {attribute, _, Which, _} = F <- maps:get(forms, Host),
                       lists:member(Which, ?KEPT)],
    Records = lists:foldl(fun({R, Fields, At}, Acc) ->
                                  lists:keystore(R, 1, Acc, {R, Fields, At})
                          end, [], lists:append([records(maps:get(forms, M)) || M <- All])),
    Bodies = [[{attribute, 1, file, {File, 1}} | local(functions(Forms), Merged)]
              || #{file := File, forms := Forms} <- All],
    Forms = Attributes ++ [{attribute, At, record, {R, Fields}} || {R, Fields, At} <- Records] ++
        lists:append(Bodies) ++ [{eof, 1}],
    Options = [deterministic, report, return, nowarn_unused_function,
               nowarn_unused_record | for_otp_25()],
    {ok, Name, Code, _} = done(compile:forms(Forms, [to_asm, binary | Options])),
    {ok, Name, Beam, _} = done(compile:forms(plain_names(Code), [from_asm | Options])),
    Beam.

done({ok, _, _, _} = Done) -> Done;
done(_) -> halt(1).

%% Each name of a function is an atom, which a target keeps for ever. A third of them are names
%% that the compiler makes for funs and comprehensions, such as '-arm/3-fun-0-': these functions
%% take the name of the one that they are in, here arm. Several may have the same name and arity,
%% since code refers to places; a stack trace has file and line beside the name.
plain_names({_, _, _, Functions, _} = Code) ->
    Made = maps:from_list([{F, outer(Name)} || {function, F, _, _, _} <- Functions,
                                               "-" ++ Name <- [atom_to_list(F)]]),
    renamed(Code, Made).

renamed(Tree, Names) when is_tuple(Tree) -> list_to_tuple(renamed(tuple_to_list(Tree), Names));
renamed([H | T], Names) -> [renamed(H, Names) | renamed(T, Names)];
renamed(#{} = Map, Names) -> maps:map(fun(_, V) -> renamed(V, Names) end, Map);
renamed(Leaf, Names) -> maps:get(Leaf, Names, Leaf).

outer("-" ++ Name) -> outer(Name);
outer(Name) -> list_to_atom(hd(string:split(Name, "/"))).

%% The agent must load on OTP 25: newer compilers have to be told.
for_otp_25() ->
    [r25 || list_to_integer(erlang:system_info(otp_release)) > 25].

%% Calls between merged modules, made local.
local(Forms, Merged) ->
    {Local, _} = walk(fun(Node, Acc) ->
                              case qualified(Node) of
                                  {_, {M, _, _}, Local} when is_map_key(M, Merged) -> {Local, Acc};
                                  _ -> {Node, Acc}
                              end
                      end, ok, Forms),
    Local.

%% [{Name, Fields, Where}] without types.
records(Forms) ->
    [{R, [case F of {typed_record_field, Field, _} -> Field; _ -> F end || F <- Fields], At}
     || {attribute, At, record, {R, Fields}} <- Forms].

%% ---------------------------------------------------------------- helpers ----

forms(M, Merged) -> maps:get(forms, map_get(M, Merged)).

%% Every tuple of a tree, from the top down; Visit may give another in its place.
walk(Visit, Acc0, Tree) when is_tuple(Tree) ->
    {Node, Acc1} = Visit(Tree, Acc0),
    {List, Acc} = walk(Visit, Acc1, tuple_to_list(Node)),
    {list_to_tuple(List), Acc};
walk(Visit, Acc0, [H0 | T0]) ->
    {H, Acc1} = walk(Visit, Acc0, H0),
    {T, Acc} = walk(Visit, Acc1, T0),
    {[H | T], Acc};
walk(_, Acc, Leaf) ->
    {Leaf, Acc}.

%% Without places in the source.
plain(Fields) ->
    [setelement(2, erl_parse:map_anno(fun(_) -> 0 end, F), 0) || F <- Fields].

groups(Pairs) ->
    maps:groups_from_list(fun({K, _}) -> K end, fun({_, V}) -> V end, Pairs).

names(Ms) -> lists:join(" and ", [atom_to_list(M) || M <- lists:usort(Ms)]).

line(At) -> erl_anno:line(At).

%% Without what only tools read: the names of local functions, and an empty place for the source.
write(Out, Beam) ->
    {ok, _, Chunks} = beam_lib:all_chunks(Beam),
    {ok, Plain} = beam_lib:build_module([C || {Id, _} = C <- Chunks, Id =/= "LocT", Id =/= "Dbgi"]),
    case file:write_file(Out, Plain) of
        ok -> ok;
        {error, Why} -> fail("~ts: ~ts", [Out, file:format_error(Why)])
    end.

-spec fail(string(), list()) -> no_return().
fail(Format, Args) ->
    io:format(standard_error, "merge: " ++ Format ++ "~n", Args),
    halt(1).
