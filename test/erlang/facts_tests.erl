%% What kprof suggest asks a node, evaluated here: erlang/facts.exprs.
-module(facts_tests).

-include_lib("eunit/include/eunit.hrl").

-export([init/1, handle_call/3, handle_cast/2, terminate/2, behaviour_info/1]).

%% It is a server without saying so, and a behaviour of servers.
init(_) -> {ok, none}.
handle_call(_, _, State) -> {reply, ok, State}.
handle_cast(_, State) -> {noreply, State}.
terminate(_, _) -> ok.
behaviour_info(callbacks) -> [{terminate, 2}, {start, 0}, {init, 1}].

ask(Ask) ->
    {ok, Text} = file:read_file("erlang/facts.exprs"),
    {ok, Tokens, _} = erl_scan:string(binary_to_list(Text)),
    {ok, [Expr]} = erl_parse:parse_exprs(Tokens),
    erl_eval:expr(Expr, [{'Ask', Ask}], none, none, value).

all_test() ->
    {Apps, Others} = ask(all),
    {kernel, true, _, Kernel} = lists:keyfind(kernel, 1, Apps),
    ?assert(lists:member(application, Kernel)),
    ?assertEqual({erlang, true}, lists:keyfind(erlang, 1, Others)),
    ?assertEqual({?MODULE, false}, lists:keyfind(?MODULE, 1, Others)),
    ?assertEqual(lists:sort(erlang:loaded()),
                 lists:sort(lists:append([Ms || {_, _, _, Ms} <- Apps]) ++ [M || {M, _} <- Others])).

%% Of applications that are loaded, those of which another depends that is not of the platform.
needed_test() ->
    [ok = application:load({application, A, [{vsn, "1"}, {modules, Ms}, {applications, [kernel | As]}]})
     || {A, Ms, As} <- [{facts_a, [?MODULE, no_such], [facts_b]}, {facts_b, [?MODULE], []}]],
    {Apps, _} = ask(all),
    ?assertEqual({facts_b, false, true}, erlang:delete_element(4, lists:keyfind(facts_b, 1, Apps))),
    ?assertMatch({facts_a, false, false, _}, lists:keyfind(facts_a, 1, Apps)),
    ?assertEqual([[?MODULE]], [Ms || {A, _, _, Ms} <- Apps, A =:= facts_a orelse A =:= facts_b, Ms =/= []]),
    [ok = application:unload(A) || A <- [facts_a, facts_b]].

modules_test() ->
    made(made_server, ?MODULE, [{init, 1}, {f, 3}]),
    made(made_statem, gen_statem, [{init, 1}, {idle, 3}, {busy, 2}, {f, 1}]),
    {module, gen_statem} = code:ensure_loaded(gen_statem),
    [Lists, None, Mine, Server, Behaviour, Statem] =
        ask({modules, [lists, no_such, ?MODULE, made_server, gen_statem, made_statem]}),
    ?assertEqual({length(lists:module_info(functions)), 0, lists:module_info(exports), []}, Lists),
    ?assertEqual({0, 0, [], []}, None),
    ?assertMatch({_, 2, _, [{init, 1}, {handle_call, 3}, {handle_cast, 2}, {terminate, 2}]}, Mine),
    ?assertMatch({4, 1, _, [{init, 1}]}, Server),
    ?assertMatch({_, 2, _, []}, Behaviour),
    ?assertMatch({6, 1, _, [_, _, {init, 1}]}, Statem),
    ?assertEqual([{busy, 2}, {idle, 3}], lists:sort(lists:droplast(element(4, Statem)))),
    [begin code:purge(M), code:delete(M) end || M <- [made_server, made_statem]].

%% Its attribute is no proper list: it says nothing of itself, and the others do.
odd_test() ->
    {ok, made_odd, Plain} = compile:forms([{attribute, 1, module, made_odd}]),
    {ok, made_odd, Chunks} = beam_lib:all_chunks(Plain),
    Odd = term_to_binary([{behaviour, [gen_server | tail]}]),
    {ok, Beam} = beam_lib:build_module(lists:keystore("Attr", 1, Chunks, {"Attr", Odd})),
    {module, made_odd} = code:load_binary(made_odd, "made.erl", Beam),
    [{0, 0, [], []}, {N, 0, _, []}] = ask({modules, [made_odd, lists]}),
    ?assert(N > 0),
    code:purge(made_odd), code:delete(made_odd).

%% A module that was made at run time.
made(Name, Behaviour, Exports) ->
    {ok, Name, Beam} =
        compile:forms([{attribute, 1, module, Name}, {attribute, 1, behaviour, Behaviour},
                       {attribute, 1, export, Exports} |
                       [{function, 1, F, A, [{clause, 1, [{var, 1, '_'} || _ <- lists:seq(1, A)], [], [{atom, 1, ok}]}]}
                        || {F, A} <- Exports]], [nowarn]),
    {module, Name} = code:load_binary(Name, "made.erl", Beam).
