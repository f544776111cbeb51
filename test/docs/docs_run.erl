%% docs_run - every example of the documents, as it is printed.
%%
%%     erl -noinput -pa ... -s docs_run main -extra BUILD DESTDIR
%%
%% Reads README files, man pages, the -h of every command and what is below
%% priv/, and does what they show: commands have to end with 0 and to answer
%% with something, SQL has to give rows, a tiers.conf has to fit a node, tables
%% have to look like what is really printed. Commands that attach a kprofd of
%% their own run in one world, all others in another that has one attached, both
%% at the same time.
-module(docs_run).

-export([main/0]).

-define(AGAIN_MAX, 2).          % in each lane
-define(PARTS, 3).      % of those that attach a kprofd of their own

main() ->
    [Build, Install] = init:get_plain_arguments(),
    halt(try run(Build, filename:absname(Install))
         catch Class:Reason:Stack ->
                 io:format("the runner failed: ~p:~0p~n~p~n", [Class, Reason, Stack]),
                 3
         end).

run(Build, Install) ->
    process_flag(trap_exit, true),
    ets:new(it_processes, [named_table, public, bag]),
    Kinds = [{P, docs_kind:kind(P)} || P <- docs_find:pieces(Build)],
    {There, Here} = lists:partition(fun needs_world/1, Kinds),
    {Done, Printed} = in_worlds(There, #{build => Build, install => Install, stubs => stubs(Build, Kinds)}),
    Facts = #{printed => Printed, options => docs_find:options(Build), install => Install,
              strings => docs_find:strings(), defined => docs_find:defined()},
    Still = [report(E, fun() -> docs_check:still(Kind, Facts) end) || {_, Kind} = E <- Here],
    Whole = [report({P, whole}, Check) || {P, Check} <- docs_find:whole(Build, Kinds)],
    Results = [R || R <- Done ++ Still ++ Whole, R =/= ignored],
    Failed = length([R || R <- Results, R =:= failed]),
    io:format("~b passed, ~b failed~n", [length(Results) - Failed, Failed]),
    case Failed of
        0 when Results =/= [] -> 0;
        _ -> 1
    end.

%% A directory of modules that have what examples of tiers.conf name.
stubs(Build, Kinds) ->
    Dir = filename:absname(filename:join(Build, "docs/stubs")),
    ok = filelib:ensure_path(Dir),
    docs_terms:stubs(Dir, [docs_terms:with_tiers(T) || {_, {tiers, T}} <- Kinds]),
    true = code:add_pathz(Dir),
    Dir.

in_worlds(Examples, #{build := Build} = Opts) ->
    {Own, Shared} = lists:partition(fun({_, Kind}) -> attaches(Kind) end, Examples),
    Lanes = [lane(Name, Of, Opts#{env => it:prepare(#{build => Build, root => none, app => "sample_app"})})
             || {Name, Of} <- [{"attached", Shared} | [{"attach", Part} || Part <- by_file(Own)]]],
    {Done, Printed} = lists:unzip([result(L) || L <- Lanes]),
    [#{env := Env} | _] = Envs = [O || {_, _, O} <- Lanes],
    it:tidy(Env),
    %% What failed is kept to be looked at.
    lists:member(failed, lists:append(Done)) orelse [it:forget(E) || #{env := E} <- Envs],
    {lists:append(Done), lists:append(Printed)}.

%% Parts of about a size; what one document shows may need what it showed before.
by_file(Examples) ->
    Files = maps:to_list(maps:groups_from_list(fun({#{file := File}, _}) -> File end, Examples)),
    Largest = lists:sort(fun({_, A}, {_, B}) -> length(A) >= length(B) end, Files),
    lists:foldl(fun({_, Of}, Parts) ->
                        [Least | More] = lists:sort(fun(A, B) -> length(A) =< length(B) end, Parts),
                        [Least ++ Of | More]
                end, lists:duplicate(?PARTS, []), Largest).

needs_world({_, {Kind, _}}) -> lists:member(Kind, [shell, sql, tiers, terms, diagnostic, eval, elixir]);
needs_world(_) -> false.

%% kprofd refuses a target that has one.
attaches({tiers, _}) -> true;
attaches({shell, Commands}) ->
    lists:any(fun({C, _}) -> docs_check:is_attaching(C) orelse docs_check:is_counting(C) end, Commands);
attaches(_) -> false.

%% ------------------------------------------------------------- lanes ----

lane(Name, Examples, Opts) ->
    Collector = self(),
    {Pid, _} = spawn_monitor(fun() -> Collector ! {self(), in_world(Name, Examples, Opts)} end),
    {Pid, length(Examples), Opts}.

result({Pid, N, _}) ->
    receive
        {Pid, Result} -> Result;
        {'DOWN', _, process, Pid, Why} ->
            io:format("FAIL  ~b examples were not run: ~p~n", [N, Why]),
            {lists:duplicate(max(N, 1), failed), []}
    end.

in_world(Name, Examples, Opts) ->
    put(printed, []),
    put(again, 0),
    World = try docs_world:open(Name, Opts)
            catch throw:{check, Why} -> exit(unicode:characters_to_list(Why))
            end,
    Shared = Name =:= "attached",
    try
        Shared andalso docs_world:history(World),
        {Results, _} = lists:mapfoldl(fun one/2, #{world => World, shared => Shared, done => #{}}, Examples),
        {Results, [[P, docs_world:causes(World)] || P <- get(printed)]}
    after
        it:kill_all(self())
    end.

%% What several documents show is done once.
one({_, Kind} = Example, #{done := Done} = State) when is_map_key(Kind, Done) ->
    {report(Example, maps:get(Kind, Done)), State};
one({_, Kind} = Example, #{world := World0, shared := Shared, done := Done} = State) ->
    World = case Shared of
                true -> docs_world:with_daemon(World0);
                false -> World0
            end,
    Outcome = steady(Kind, fun() -> docs_check:in_world(Kind, World) end),
    {report(Example, Outcome), State#{world := World, done := Done#{Kind => Outcome}}}.

%% ------------------------------------------------------------- report ----

%% As in the tests on real nodes, one in a hundred that fails runs again, and is reported.
steady(Kind, Fun) ->
    case {outcome(Fun), get(again)} of
        {passed, _} -> passed;
        {Failed, ?AGAIN_MAX} -> Failed;
        {{failed, Why}, N} ->
            put(again, N + 1),
            io:format("~ts~n", [Why]),
            Second = outcome(Fun),
            Second =:= passed andalso io:format("unsteady: docs: an example of a ~p~n", [element(1, Kind)]),
            Second
    end.

outcome(Fun) ->
    try Fun(), passed
    catch throw:{check, Text} -> {failed, Text};
          Class:Reason:Stack -> {failed, io_lib:format("~p: ~p~n~p", [Class, Reason, Stack])}
    end.

report(Example, Fun) when is_function(Fun) -> report(Example, outcome(Fun));
report({_, {ignored}}, passed) -> ignored;
report({_, {allowed, _}}, passed) -> ignored;
report({Piece, _} = Example, passed) ->
    %% Options and names of files are many.
    needs_world(Example) andalso io:format("ok    ~ts~n", [where(Piece)]),
    passed;
report({Piece, _}, {failed, Why}) ->
    Text = unicode:characters_to_list(Why),
    io:format("FAIL  ~ts~n", [where(Piece)]),
    [io:format("      ~ts~n", [L]) || L <- string:split(string:trim(Text), "\n", all)],
    failed.

where(#{file := File, line := Line, text := Text}) ->
    [First | More] = string:split(Text, "\n"),
    io_lib:format("~ts:~b: ~ts~ts", [File, Line, First, [" ..." || More =/= []]]).
