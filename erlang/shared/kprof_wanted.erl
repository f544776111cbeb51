%% kprof_wanted - which functions are to be profiled: those of the node that patterns match, or a
%% refusal that shows similar names. No name becomes an atom here unless it is one of a module.
%% For kprof_counters and kprof_tracer.
-module(kprof_wanted).

-export([kprofs/0, wanted/1, without/2, matching/1, is_covered/2, existing/1, module/1,
         whole_modules/1, by_module/1]).
-export_type([pattern/0, mfa_pattern/0]).

-import(kprof_injected, [functions/1]).
-import(kprof_text, [fn_local/2, fn_text/3, refuse/2]).

%% As the client writes it, and as the VM takes it.
-type pattern() :: {Module :: binary(), Function :: binary(), arity() | -1}.
-type mfa_pattern() :: mfa() | {module(), '_', '_'}.

%% The modules of kprof itself, which `_` leaves out.
-spec kprofs() -> [module()].
kprofs() ->
    [kprof_agent, kprof_probe, kprof_counters, kprof_tracer, kprof_calls_probe, kprof_sampler].

%% Patterns are {Module, Function, Arity}, binaries, _ and -1 for any. Names
%% become atoms only where there is such a thing.
-spec wanted(#{patterns := [pattern()], exclude := [pattern()], max_functions := pos_integer(),
               _ => _}) ->
          {Patterns :: [mfa_pattern()], Functions :: [mfa()]}.
wanted(#{patterns := Patterns, exclude := Exclude, max_functions := Max}) ->
    All = lists:usort(lists:append([matching(P) || P <- Patterns])),
    Functions = without(Exclude, All),
    Functions =:= [] andalso refuse("the exclusions leave no function", []),
    length(Functions) > Max andalso
        refuse("these are ~b functions, more than ~b (name fewer, or see"
               " -max-functions)", [length(Functions), Max]),
    {whole_modules(Functions), Functions}.

-spec without([pattern()], [mfa()]) -> [mfa()].
without(Exclude, Functions) ->
    Excluded = [{existing(M), existing(F), A} || {M, F, A} <- Exclude],
    [MFA || MFA <- Functions, not lists:any(fun(E) -> is_covered(MFA, E) end, Excluded)].

-spec matching(pattern()) -> [mfa()].
matching({<<"_">>, _, _}) ->
    [{M, F, A} || {M, _} <- code:all_loaded(), not lists:member(M, kprofs()),
                  {F, A} <- functions(M)];
matching({Module, Fun, Arity} = Pattern) ->
    Mod = module(Module),
    All = functions(Mod),
    Name = existing(Fun),
    case [{Mod, F, A} || {F, A} <- All, is_covered({Mod, F, A}, {Mod, Name, Arity})] of
        [] ->
            refuse("no function matches '~ts' (~ts)",
                   [pattern_text(Pattern), near(Mod, Fun, All)]);
        Found -> Found
    end.

-spec is_covered(mfa(), {module() | {absent}, atom() | {absent}, arity() | -1}) -> boolean().
is_covered({M, F, A}, {Mod, Fun, Arity}) ->
    (Mod =:= '_' orelse M =:= Mod) andalso (Fun =:= '_' orelse F =:= Fun) andalso
        (Arity =:= -1 orelse A =:= Arity).

%% {absent} if no such atom exists.
-spec existing(binary()) -> atom() | {absent}.
existing(Name) ->
    try binary_to_existing_atom(Name) catch error:badarg -> {absent} end.

-spec module(binary()) -> module().
module(Name) ->
    existing(Name) =/= {absent} orelse is_file(unicode:characters_to_list(Name)) orelse
        no_module(Name),
    Mod = binary_to_atom(Name),
    case code:ensure_loaded(Mod) of
        {module, Mod} -> Mod;
        _ -> no_module(Name)
    end.

is_file(Module) ->
    is_list(code:where_is_file(Module ++ ".beam")).

-spec no_module(binary()) -> no_return().
no_module(Name) ->
    Text = unicode:characters_to_list(Name),
    refuse("there is no module '~ts'~ts",
           [module_text(Text),
            [io_lib:format(" (did you mean ~ts?)", [M]) || M <- near_module(Text)]]).

%% One name or none. In Erlang an Elixir module has a prefix that users leave out.
near_module(Text) ->
    Elixir = "Elixir." ++ Text,
    Loaded = [atom_to_list(M) || {M, _} <- code:all_loaded()],
    case lists:member(Elixir, Loaded) orelse is_file(Elixir) of
        true -> [["'", Elixir, "'"]];
        false ->
            Near = lists:sort([{distance(Text, M), M} || M <- Loaded]),
            lists:sublist([module_text(M) || {D, M} <- Near, D =< 2], 1)
    end.

near(Mod, Fun, All) ->
    Text = unicode:characters_to_list(Fun),
    Near = lists:sort([{distance(Text, atom_to_list(F)), F, A} || {F, A} <- All]),
    ["the module has ",
     lists:join(", ", [fn_local(Mod, {F, A}) || {_, F, A} <- lists:sublist(Near, 3)])].

%% Edits from one text to the other (Levenshtein), row by row.
distance(A, B) ->
    lists:last(lists:foldl(fun(C, [First | _] = Row) -> distance_row(C, B, Row, First + 1, []) end,
                           lists:seq(0, length(B)), A)).

distance_row(C, [D | B], [Diagonal, Above | Row], Left, Done) ->
    Least = lists:min([Above + 1, Left + 1, Diagonal + if C =:= D -> 0; true -> 1 end]),
    distance_row(C, B, [Above | Row], Least, [Left | Done]);
distance_row(_, [], _, Left, Done) ->
    lists:reverse(Done, [Left]).

pattern_text({<<"Elixir.", _/bits>> = M, <<"_">>, A}) ->
    [module_text(unicode:characters_to_list(M)), "._/", arity_text(A)];
pattern_text({<<"Elixir.", _/bits>> = M, F, A}) ->
    fn_text(unicode:characters_to_list(M), unicode:characters_to_list(F), arity_text(A));
pattern_text({M, F, A}) -> [M, $:, F, $/, arity_text(A)].

arity_text(-1) -> "_";
arity_text(A) -> integer_to_list(A).

module_text("Elixir." ++ Alias) -> Alias;
module_text(Name) -> Name.

%% One pattern for a module of which all functions are wanted, since each pattern stops the
%% schedulers.
-spec whole_modules([mfa()]) -> [mfa_pattern()].
whole_modules(Functions) ->
    lists:append([case length(Of) =:= length(functions(M)) of
                      true -> [{M, '_', '_'}];
                      false -> Of
                  end || {M, Of} <- by_module(Functions)]).

-spec by_module([mfa()]) -> [{module(), [mfa(), ...]}].
by_module(Functions) ->
    maps:to_list(maps:groups_from_list(fun({M, _, _}) -> M end, Functions)).
