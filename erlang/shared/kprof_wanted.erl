%% kprof_wanted - which functions are to be profiled: those of the node that patterns match, or a
%% refusal that shows similar names. No name becomes an atom here unless it is one of a module. And
%% which processes, by what the user names; and which of them somebody else traces.
-module(kprof_wanted).

-export([wanted/1, without/2, matching/1, is_covered/2, existing/1, module/1,
         whole_modules/1, by_module/1, whose/2, chosen/3, foreign/2, traced_by_others/1,
         how_many/1]).
-export_type([pattern/0, mfa_pattern/0]).

-import(kprof_flagger, [walk_found/1]).
-import(kprof_injected, [functions/1, kprofs/0]).
-import(kprof_text, [fn_local/2, fn_process/1, fn_text/3, one_tracer/0, refuse/2]).

%% As the client writes it, and as the VM takes it.
-type pattern() :: {Module :: binary(), Function :: binary(), arity() | -1}.
-type mfa_pattern() :: mfa() | {module(), '_', '_'}.

-define(SUPERVISOR_MS, 5000).   % a supervisor's answer

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
distance_row(_, [], _, Left, Done) -> lists:reverse(Done, [Left]).

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

%% ----------------------------------------------------------------- processes ----

%% The processes that -processes names. With -apply the default is the process of that call.
-spec whose(binary(), kprof_call:call()) -> binary() | applied.
whose(<<>>, none) -> <<"all">>;
whose(<<>>, _) -> applied;
whose(Which, _) -> Which.

%% Returns all, existing, new or a list; refuses more than are allowed.
-spec chosen(binary() | applied, #{max_processes := pos_integer(), _ => _}, kprof_call:applied()) ->
          all | existing | new | [pid()].
chosen(applied, _, {Pid, _, _}) -> [Pid];
chosen(Which, #{max_processes := Max}, Applied) ->
    Chosen = selected(Which, Max, Applied),
    N = how_many(Chosen),
    N > Max andalso too_many("these are", [], N, Max),
    Chosen.

%% New ones come later.
-spec how_many(all | existing | new | [pid()]) -> non_neg_integer().
how_many(Chosen) when is_list(Chosen) -> length(Chosen);
how_many(new) -> 0;
how_many(_) -> erlang:system_info(process_count).

-spec too_many(string(), list(), pos_integer(), pos_integer()) -> no_return().
too_many(What, Args, N, Max) ->
    refuse(What ++ " ~b processes, more than ~b (choose with -processes, or see"
           " -max-processes)", Args ++ [N, Max]).

selected(<<"all">>, _, _) -> all;
selected(<<"existing">>, _, _) -> existing;
selected(<<"new">>, _, _) -> new;
selected(Names, Max, Applied) ->
    lists:usort(lists:append([case {N, Applied} of
                                  {"caller", {Pid, _, _}} -> [Pid];
                                  _ -> processes_of(N, Max)
                              end || N <- string:lexemes(unicode:characters_to_list(Names), ",")])).

%% Matches strings, since what OTP 25 compiles for a match of a binary does not load in 29.
processes_of("application:" ++ Name, _) ->
    Application = existing(unicode:characters_to_binary(Name)),
    case application_controller:get_master(Application) of
        undefined -> refuse("no application '~ts' is running", [Name]);
        Master -> [P || P <- processes(), process_info(P, group_leader) =:= {group_leader, Master}]
    end;
processes_of("supervisor:" ++ Name, Max) -> descendants([registered_as(Name)], #{}, Max);
processes_of("children:" ++ Name, Max) ->
    Parent = process_of(Name),
    case is_supervisor(Parent) of
        true -> [P || {P, _} <- children(Parent, 0, Max)];
        false -> maps:get(Parent, spawned_by(), [])
    end;
processes_of("descendants:" ++ Name, _) -> spawned_from([process_of(Name)], spawned_by());
processes_of(Name, _) -> [process_of(Name)].

process_of("<" ++ _ = Text) ->
    Pid = try list_to_pid(Text)
          catch error:badarg -> refuse("'~ts' is not a process (see -processes)", [Text])
          end,
    node(Pid) =:= node() andalso is_process_alive(Pid) orelse
        refuse("process ~ts does not exist", [Text]),
    Pid;
process_of(Name) -> registered_as(Name).

%% A module of Elixir has a prefix that users leave out, and that reports do not show.
registered_as(Name) ->
    case [Pid || Text <- [Name, "Elixir." ++ Name],
                 Atom <- [existing(unicode:characters_to_binary(Text))], is_atom(Atom),
                 Pid <- [whereis(Atom)], is_pid(Pid)] of
        [Pid | _] -> Pid;
        [] -> refuse("no process is registered as '~ts' (see -processes)", [Name])
    end.

%% A supervisor is not its own descendant. A child may be declared a supervisor and not be one of
%% OTP's, such as kernel's user_sup, a bridge: that cannot be asked for its children.
descendants([Sup | More], Found, Max) ->
    Children = children(Sup, map_size(Found), Max),
    Below = [P || {P, supervisor} <- Children, not is_map_key(P, Found), is_supervisor(P)],
    descendants(Below ++ More, maps:merge(Found, maps:from_list(Children)), Max);
descendants([], Found, _) -> maps:keys(Found).

%% Listing very many children takes the supervisor long, and takes memory on both sides, so they
%% are counted first. Those found Before are added, so that a whole tree has a limit.
children(Sup, Before, Max) ->
    is_supervisor(Sup) orelse
        refuse("~ts is not a supervisor", [name_text(Sup)]),
    #{supervisors := Supervisors, workers := Workers} = maps:from_list(ask(Sup, count_children)),
    case Supervisors + Workers of
        N when Before + N > Max ->
            too_many("with the ~b children of ~ts these are", [N, name_text(Sup)],
                     Before + N, Max);
        _ -> [{P, Type} || {_, P, Type, _} <- ask(Sup, which_children), is_pid(P)]
    end.

name_text(Process) ->
    fn_process(kprof_injected:name(Process)).

%% #{Process => living processes that it has spawned}.
spawned_by() ->
    maps:groups_from_list(fun({Parent, _}) -> Parent end, fun({_, P}) -> P end,
                          [{Parent, P} || P <- processes(),
                                          {parent, Parent} <- [process_info(P, parent)]]).

spawned_from([P | More], By) ->
    case maps:take(P, By) of
        {Own, Others} -> Own ++ spawned_from(Own ++ More, Others);
        error -> spawned_from(More, By)
    end;
spawned_from([], _) -> [].

%% Another kind of server might crash on a supervisor's messages.
is_supervisor(P) ->
    case proc_lib:translate_initial_call(P) of
        {supervisor, _, _} -> true;
        _ -> false
    end.

ask(Sup, What) ->
    try gen_server:call(Sup, What, ?SUPERVISOR_MS)
    catch
        exit:_ -> refuse("the supervisor ~ts does not answer", [name_text(Sup)])
    end.

%% On OTP 25 and 26 a process has one tracer, and there is one setting for new processes. Refuses
%% if that is in the way, else returns the processes to leave out.
-spec foreign(kprof_flagger:session(), unflagged | all | existing | new | [pid()]) ->
          #{pid() => boolean()}.
foreign(legacy, Chosen) when Chosen =/= unflagged ->
    has_slices() andalso
        refuse("a kprofd traces slices of time there, and a process has one tracer (~ts)",
               [one_tracer()]),
    {tracer, New} = erlang:trace_info(new_processes, tracer),
    is_list(Chosen) orelse Chosen =:= existing orelse New =:= [] orelse
        refuse("new processes are traced by ~tw there (~ts; kprof count without"
               " -processes needs no processes)",
               [New, one_tracer()]),
    Traced = traced_by_others(none),
    Both = [P || is_list(Chosen), P <- Chosen, is_map_key(P, Traced)],
    Both =:= [] orelse
        refuse("another tool traces ~ts (~ts)", [name_text(hd(Both)), one_tracer()]),
    Traced;
foreign(_, _) -> #{}.

%% Between two slices of time a kprofd's agent traces no process, and seems not to be there.
has_slices() ->
    is_pid(whereis(kprof_agent)) andalso
        case try kprof_agent:status() catch error:undef -> not_attached end of
            #{state := State} -> State =:= waiting;
            _ -> false
        end.

%% #{Process => does its tracer get calls?}, without the processes of one tracer.
-spec traced_by_others(kprof_flagger:tracer() | none) -> #{pid() => boolean()}.
traced_by_others(But) ->
    {N, Found} = walk_found(fun(P) ->
                                    case erlang:trace_info(P, tracer) of
                                        {tracer, T} when T =/= [], T =/= But ->
                                            {found, {P, traces_calls(P)}};
                                        _ -> skip
                                    end
                            end),
    N > length(Found) andalso
        refuse("another tool traces ~b processes (~ts)", [N, one_tracer()]),
    maps:from_list(Found).

traces_calls(P) ->
    case erlang:trace_info(P, flags) of
        {flags, Flags} -> lists:member(call, Flags);
        undefined -> false
    end.
