%% What kprof_sampler chooses and what that stands for, what it may spend, and how it names groups.
-module(kprof_sampler_tests).

-include_lib("eunit/include/eunit.hrl").

%% Servers and a supervisor of the tests.
-export([init/1, handle_call/3, handle_cast/2]).

-define(MS, 1000000).

%% ------------------------------------------------------------ choosing ----

spread_test() ->
    T = list_to_tuple(lists:seq(1, 10)),
    ?assertEqual(lists:seq(1, 10), kprof_ask:spread(10, T)),
    ?assertEqual(lists:seq(1, 10), kprof_ask:spread(99, T)),
    [begin
         Some = kprof_ask:spread(N, T),
         ?assertEqual(N, length(Some)),
         ?assertEqual(Some, lists:usort(Some))
     end || N <- lists:seq(1, 9), _ <- lists:seq(1, 50)].

%% Each element comes as often as any other: within five standard deviations.
spread_is_fair_test() ->
    T = list_to_tuple(lists:seq(1, 7)),
    Taken = lists:append([kprof_ask:spread(3, T) || _ <- lists:seq(1, 7000)]),
    [begin
         N = length([I || I <- Taken, I =:= X]),
         ?assert(abs(N - 3000) < 5 * math:sqrt(7000 * 3 / 7 * 4 / 7))
     end || X <- lists:seq(1, 7)].

%% A process runs one tick of four, or all the time, or never. What samples stand for adds up to
%% the time in each state, whatever part of them is looked at and asked.
unbiased_test_() ->
    {timeout, 60, [fun() -> unbiased(Looks, Stacks) end || {Looks, Stacks} <- [{300, 300}, {300, 5}, {60, 20}, {40, 2}, {300, 1}]]}.

unbiased(Looks, Stacks) ->
    Pids = pids(200),
    Kinds = maps:from_list(lists:zip(Pids, [element(I rem 40 + 1, kinds()) || I <- lists:seq(1, 200)])),
    StatusOf = fun(P) -> status(map_get(P, Kinds)) end,
    Ticks = 4000,
    {Sums, _} =
        lists:foldl(fun(_, {Sums, C0}) ->
                            {Chosen, C} = look(Looks, Stacks, StatusOf, C0),
                            ?assert(length(Chosen) =< Stacks),
                            {lists:foldl(fun({_, S, For}, Acc) -> add(S, For, Acc) end, Sums, Chosen), C}
                    end, {#{}, listed(Pids)}, lists:seq(1, Ticks)),
    %% Of 40: one always runs, four run a quarter of the time; the others wait.
    near(200 / 40 * 2 * Ticks * ?MS, map_get(running, Sums), 0.15),
    near(200 / 40 * 38 * Ticks * ?MS, map_get(waiting, Sums), if Stacks =:= 1 -> 0.2; true -> 0.1 end),
    [exit(P, kill) || P <- Pids].

kinds() ->
    list_to_tuple([always | lists:duplicate(4, sometimes) ++ lists:duplicate(35, never)]).

status(always) -> running;
status(never) -> waiting;
status(sometimes) -> case rand:uniform(4) of 1 -> running; _ -> waiting end.

near(Expected, Is, Part) ->
    ?assert(abs(Is - Expected) < Part * Expected, {Expected, Is}).

%% A process that works is looked at in each tick from then on, until it has waited for long.
warm_test() ->
    Pids = [Busy | _] = pids(100),
    StatusOf = fun(P) when P =:= Busy -> running; (_) -> waiting end,
    {_, C1} = look(100, 5, StatusOf, listed(Pids)),
    lists:foldl(fun(_, C0) ->
                        {Chosen, C} = look(2, 5, StatusOf, C0),
                        ?assertMatch([{Busy, running, ?MS}], [One || {P, _, _} = One <- Chosen, P =:= Busy]),
                        C
                end, C1, lists:seq(1, 100)),
    Waits = fun(_) -> waiting end,
    {_, C2} = lists:foldl(fun(_, {_, C}) -> look(1, 5, Waits, C) end, {[], C1}, lists:seq(1, 100)),
    %% Only those of the list are looked at.
    #{looked := Before} = kprof_sampler_choice:totals(C2),
    {_, C3} = look(1, 5, Waits, C2),
    ?assertMatch(#{looked := After} when After =:= Before + 1, kprof_sampler_choice:totals(C3)),
    [exit(P, kill) || P <- Pids].

%% Those that work go first, but some of those that wait are asked too.
working_first_test() ->
    Pids = pids(100),
    {Working, _} = lists:split(50, Pids),
    StatusOf = fun(P) -> case lists:member(P, Working) of true -> runnable; false -> waiting end end,
    {Chosen, _} = look(100, 10, StatusOf, listed(Pids)),
    ?assertEqual(8, length([P || {P, runnable, For} <- Chosen, For =:= ?MS * 50 div 8])),
    ?assertEqual(2, length([P || {P, waiting, For} <- Chosen, For =:= ?MS * 50 div 2])),
    [exit(P, kill) || P <- Pids].

own_test() ->
    Pids = [Own | _] = pids(10),
    {Chosen, none, _} = kprof_sampler_choice:look(#{elapsed => ?MS, looks => 10, stacks => 10, own => [Own]},
                                            all_of(fun(_) -> running end), listed(Pids)),
    ?assertEqual(lists:sort(Pids -- [Own]), lists:sort([P || {P, _, _} <- Chosen])),
    [exit(P, kill) || P <- Pids].

%% Processes that ended since they were listed, and those that came, which cannot be chosen.
young_test() ->
    C0 = kprof_sampler_choice:listed(kprof_sampler_choice:new(all)),
    {_, C1} = look(100000, 1, fun(_) -> waiting end, C0),
    ?assertMatch(#{young := 0}, kprof_sampler_choice:totals(C1)),
    Pids = pids(1000),
    {_, C2} = look(100000, 1, fun(_) -> waiting end, C1),
    #{young := Young, time := Time} = kprof_sampler_choice:totals(C2),
    near(1000 * ?MS, Young, 0.05),
    ?assert(Time > Young),
    {Chosen, _} = look(100, 10, fun(_) -> undefined end, C2),
    ?assertEqual([], Chosen),
    [exit(P, kill) || P <- Pids].

nobody_test() ->
    ?assertMatch({[], _}, look(10, 10, fun(_) -> running end, listed([]))).

look(Looks, Stacks, StatusOf, C) ->
    {Chosen, none, C1} = kprof_sampler_choice:look(#{elapsed => ?MS, looks => Looks, stacks => Stacks, own => []},
                                                   all_of(StatusOf), C),
    {Chosen, C1}.

all_of(StatusOf) ->
    fun(Pids) -> {maps:from_list([{P, Status} || P <- Pids, Status <- [StatusOf(P)], Status =/= undefined]), none} end.

listed(Pids) -> kprof_sampler_choice:listed(kprof_sampler_choice:new(Pids)).

pids(N) -> [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, N)].

add(K, V, M) -> M#{K => V + maps:get(K, M, 0)}.

%% A process that does not answer holds up nobody: the others have their status.
mute_test() ->
    [First | _] = Pids = pids(5),
    Gone = spawn(fun() -> ok end),
    wait(Pids),
    {Found, L0} = kprof_ask:statuses([Gone | Pids], kprof_ask:looker()),
    ?assertEqual(maps:from_keys(Pids, waiting), Found),
    Busy = spawn(fun() -> mute(lists:seq(1, 3000000)) end),
    {All, L} = lists:foldl(fun(_, {Seen, L1}) ->
                                   Busy ! signal,
                                   {#{First := waiting} = New, L2} = kprof_ask:statuses([Busy | Pids], L1),
                                   ?assertEqual(6, map_size(New)),
                                   {[map_get(Busy, New) | Seen], L2}
                           end, {[], L0}, lists:seq(1, 200)),
    ?assert(lists:all(fun(S) -> lists:member(S, [running, runnable, garbage_collecting, waiting, not_seen]) end, All)),
    ok = kprof_ask:looker_stop(L),
    [exit(P, kill) || P <- [Busy | Pids]].

mute(Big) -> garbage_collect(), mute(Big).

wait(Pids) ->
    lists:all(fun(P) -> process_info(P, status) =:= {status, waiting} end, Pids) orelse
        receive after 1 -> wait(Pids) end.

%% -------------------------------------------------------------- budget ----

%% Whatever things cost, what is spent stays near the share; the first list is on credit.
budget_test_() ->
    [fun() -> budget(Ppm, Look, Stack, List) end || Ppm <- [5000, 100000], Look <- [200, 20000],
                                                    Stack <- [5000, 100000], List <- [10000, 30 * ?MS]].

budget(Ppm, Look, Stack, List) ->
    Second = 1000000000,
    Spend = fun(Now, {B0, Rests}) ->
                    case kprof_sampler_budget:grant(Now, B0) of
                        {rest, B} -> {B, Rests + 1};
                        {#{looks := L, stacks := S}, B} ->
                            ?assert(L > 0 andalso S > 0),
                            B1 = case kprof_sampler_budget:may_list(B) of
                                     true -> kprof_sampler_budget:spent(list, List, B);
                                     false -> B
                                 end,
                            B2 = kprof_sampler_budget:spent({looks, L}, L * Look, B1),
                            B3 = kprof_sampler_budget:spent(stacks, S, B2),
                            {kprof_sampler_budget:spent(tick, 20000, B3), Rests}
                    end
            end,
    {B, Rests} = lists:foldl(Spend, {kprof_sampler_budget:new(Ppm, 100, Stack, 0), 0},
                             lists:seq(0, 60 * Second, Second div 20)),
    Allowed = 60 * Second div 1000000 * Ppm,
    ?assert(kprof_sampler_budget:busy(B) < 1.15 * Allowed + List),
    ?assert(Rests < 1200).

%% Names and sending are spent too.
all_is_spent_test() ->
    B0 = kprof_sampler_budget:new(5000, 100, 5000, 0),
    B1 = kprof_sampler_budget:spent(names, 3, B0),
    ?assertEqual(30000, kprof_sampler_budget:busy(B1)),
    ?assertEqual(30700, kprof_sampler_budget:busy(kprof_sampler_budget:spent(flush, 700, B1))).

%% A process that was not seen is no measure of what a stack takes.
stack_cost_test() ->
    Quick = lists:duplicate(19, {300, false}),
    ?assertEqual(9000, kprof_sampler_budget:stack_cost([{5000000, false}, {9000, true} | Quick])),
    ?assertEqual(7, kprof_sampler_budget:stack_cost([{N, true} || N <- [9, 7, 2, 30, 5]])),
    ?assert(kprof_sampler_budget:stack_cost(Quick) > 1000).

%% What the operating system interrupts is counted as what it takes else.
interrupted_test() ->
    B0 = kprof_sampler_budget:new(5000, 100, 5000, 0),
    B1 = lists:foldl(fun(_, B) -> kprof_sampler_budget:spent({looks, 100}, 30000, B) end, B0, lists:seq(1, 100)),
    B2 = kprof_sampler_budget:spent({looks, 100}, 20 * ?MS, B1),
    ?assert(kprof_sampler_budget:busy(B2) - kprof_sampler_budget:busy(B1) < 40000).

%% -------------------------------------------------------------- groups ----

general_test_() ->
    [?_assertEqual(Text, kprof_names:general(Label)) ||
        {Label, Text} <- [{undefined, none}, {"a string", none}, {<<"key">>, none}, {17, none}, {{1, 2}, none},
                          {worker, <<"worker">>}, {'Elixir.My.App', <<"My.App">>},
                          {{conn, 17, <<"secret">>}, <<"{conn,_,_}">>},
                          {{conn, {tls, self()}}, <<"{conn,{tls,_}}">>},
                          {{a, [b]}, <<"{a,_}">>}, {list_to_tuple(lists:duplicate(9, a)), none}]].

outermost_test() ->
    Frames = [{lists, foldl, 3, 0}, {app, work, 1, 7}, {proc_lib, init_p_do_apply, 3, 240}],
    ?assertEqual(<<"app:work/1">>, kprof_names:outermost(Frames, 8)),
    ?assertEqual(<<"proc_lib:init_p/3">>, kprof_names:outermost([{proc_lib, init_p, 3, 1}], 8)),
    ?assertEqual(none, kprof_names:outermost(Frames, 3)),
    ?assertEqual(none, kprof_names:outermost([], 8)).

%% By their registered name, or the function that they began with; one that has ended, by its stack.
named_test() ->
    register(kprof_it_named, Named = spawn(fun() -> receive stop -> ok end end)),
    Plain = proc_lib:spawn(timer, sleep, [infinity]),
    Gone = spawn(fun() -> ok end),
    G = answers(3, kprof_sampler_groups:name_all([Named, Plain, Gone], kprof_sampler_groups:new())),
    Stack = {[{app, f, 0, 1}], 8},
    {A, G1} = kprof_sampler_groups:number(Named, Stack, G),
    {B, G2} = kprof_sampler_groups:number(Plain, Stack, G1),
    {C, G3} = kprof_sampler_groups:number(Gone, Stack, G2),
    {A, G4} = kprof_sampler_groups:number(Named, not_seen, G3),
    {0, G5} = kprof_sampler_groups:number(Gone, not_seen, G4),
    {News, G6} = kprof_sampler_groups:new_names(G5),
    ?assertMatch([{A, <<"kprof_it_named">>, _, one}, {B, <<"timer:sleep/1">>, _}, {C, <<"app:f/0">>, undefined}], News),
    ?assertMatch({[], _}, kprof_sampler_groups:new_names(G6)),
    kprof_sampler_groups:namer_stop(G6),
    [exit(P, kill) || P <- [Named, Plain]].

%% One kind of process was two: on OTP 25 those with more than a small heap were named after the
%% loop that they were in.
large_test() ->
    Test = self(),
    Worker = fun(N) ->
                     proc_lib:spawn(fun() ->
                                            put(large_test, lists:seq(1, N)),
                                            Test ! {up, self()},
                                            forever()
                                    end)
             end,
    Pids = [Worker(N) || N <- [1, 100000]],
    [receive {up, P} -> ok end || P <- Pids],
    {_, Words} = process_info(lists:last(Pids), total_heap_size),
    ?assert(Words > 200000),
    G = answers(2, kprof_sampler_groups:name_all(Pids, kprof_sampler_groups:new())),
    {Numbers, G1} = lists:mapfoldl(fun(P, G0) ->
                                           kprof_sampler_groups:number(P, {[{app, f, 0, 1}], 8}, G0)
                                   end, G, Pids),
    ?assertMatch([N, N], Numbers),
    {[{_, Name, _}], G2} = kprof_sampler_groups:new_names(G1),
    ?assertMatch({match, _}, re:run(Name, "large_test")),
    kprof_sampler_groups:namer_stop(G2),
    [exit(P, kill) || P <- Pids].

answers(0, G) -> G;
answers(N, G) ->
    receive {kprof_named, P, Name} -> answers(N - 1, kprof_sampler_groups:named(P, Name, G)) end.

%% A process that answers nobody holds up the namer until the second look.
stuck_test() ->
    Stuck = spawn(fun() -> receive stop -> ok end end),
    Other = proc_lib:spawn(timer, sleep, [infinity]),
    G0 = kprof_sampler_groups:new(),
    erlang:suspend_process(kprof_sampler_groups:namer_of(G0)),
    G1 = kprof_sampler_groups:name_all([Stuck, Other], G0),
    G2 = kprof_sampler_groups:look(kprof_sampler_groups:look(G1)),
    ?assertNotEqual(kprof_sampler_groups:namer_of(G1), kprof_sampler_groups:namer_of(G2)),
    G3 = answers(1, G2),
    ?assertMatch({0, _}, kprof_sampler_groups:number(Stuck, not_seen, G3)),
    {N, G4} = kprof_sampler_groups:number(Other, not_seen, G3),
    ?assertMatch({[{N, <<"timer:sleep/1">>, _}], _}, kprof_sampler_groups:new_names(G4)),
    kprof_sampler_groups:namer_stop(G4),
    [exit(P, kill) || P <- [Stuck, Other]].

%% Past the last group there is one for the rest.
capped_test() ->
    G = lists:foldl(fun(I, G0) ->
                            F = list_to_atom("f" ++ integer_to_list(I)),
                            {_, G1} = kprof_sampler_groups:number(self(), {[{m, F, 0, 0}], 8}, G0),
                            G1
                    end, kprof_sampler_groups:new(), lists:seq(1, 1100)),
    {1, G2} = kprof_sampler_groups:number(self(), {[{m, more, 0, 0}], 8}, G),
    {News, G3} = kprof_sampler_groups:new_names(G2),
    ?assertEqual(1001, length(News)),
    ?assert(lists:keymember(<<"(past 1000 groups)">>, 2, News)),
    kprof_sampler_groups:namer_stop(G3).

%% --------------------------------------------------------------- pools ----

census(Pids) ->
    {Ref, Census} = kprof_sampler_pools:census_start(list_to_tuple(Pids), 8),
    receive {'DOWN', Ref, process, _, Reason} -> kprof_sampler_pools:census_found(Reason, Census) end.

%% A parent of two kinds of children, of which one comes and goes; and one that has ended.
pools_test_() ->
    {timeout, 30, fun pools/0}.

pools() ->
    Ended = spawn(fun() -> ok end),
    Parent = parent(lists:duplicate(3, fun pool_worker/1) ++ lists:duplicate(2, fun pool_brief/1) ++ [fun pool_one/1]),
    register(kprof_it_parent, Parent),
    Children = [P || P <- processes(), process_info(P, parent) =:= {parent, Parent}],
    {{Seen, NotSeen}, _, Pools, _} = census([Parent, Ended | Children]),
    ?assertEqual(7, Seen),
    ?assert(NotSeen >= erlang:system_info(process_count) - 20),
    {[Workers], [Brief]} = lists:partition(fun(P) -> element(6, P) =:= 3 end, Pools),
    ?assertMatch({_, <<"kprof_it_parent">>, undefined, <<"kprof_sampler_tests:pool_worker/1">>, 1, 3, 0, true, [_, _, _]},
                 Workers),
    ?assertMatch({_, <<"kprof_it_parent">>, undefined, <<"kprof_sampler_tests:pool_brief/1">>, 1, 2, 2, false, _}, Brief),
    Atoms = erlang:system_info(atom_count),
    _ = census([Parent | Children]),
    ?assertEqual(Atoms, erlang:system_info(atom_count)),
    exit(Parent, kill).

parent(Kinds) ->
    Test = self(),
    Parent = spawn(fun() ->
                           [spawn_link(fun() -> Kind(Test) end) || Kind <- Kinds],
                           forever()
                   end),
    [receive {child, _} -> ok end || _ <- Kinds],
    Parent.

%% The frame has to stay.
pool_worker(Test) ->
    {ok, Socket} = gen_udp:open(0, [{ip, {127, 0, 0, 1}}]),
    Test ! {child, self()},
    forever(),
    Socket.

pool_brief(Test) ->
    Test ! {child, self()},
    receive after 250 -> ok end,
    Test.

pool_one(Test) ->
    Test ! {child, self()},
    forever(),
    Test.

forever() -> receive stop -> ok end.

%% A supervisor that answers nobody is not asked; and who owns it is known where that is a server.
pools_of_supervisors_test_() ->
    {timeout, 30, fun pools_of_supervisors/0}.

pools_of_supervisors() ->
    {ok, Owner} = gen_server:start(?MODULE, owner, []),
    {links, [Sup]} = process_info(Owner, links),
    {ok, _} = supervisor:start_child(Sup, []),
    {ok, _} = supervisor:start_child(Sup, []),
    ok = sys:suspend(Sup),
    {{_, 0}, Apps, Pools, _} = census(processes()),
    ?assertMatch([{_, <<"kprof_sampler_tests">>, ?MODULE, <<"kprof_sampler_tests:init/1">>, 1, 2, 0, false, [_, _]}],
                 [P || P <- Pools, element(3, P) =:= ?MODULE]),
    {kernel, Many, Sups, Names} = lists:keyfind(kernel, 1, Apps),
    ?assert(Many > Sups andalso Sups >= 2),
    ?assert(lists:member(<<"kernel_sup">>, Names)),
    exit(Owner, kill),
    exit(Sup, kill).

%% Clients of a server that answers later; with them others, which wait for messages.
pools_waited_for_test_() ->
    {timeout, 30, fun pools_waited_for/0}.

pools_waited_for() ->
    {ok, Server} = gen_server:start({local, kprof_it_pool}, ?MODULE, worker, []),
    Clients = [spawn(fun() -> ok = gen_server:call(Server, later, infinity), exit(done) end) || _ <- lists:seq(1, 5)],
    {_, _, _, Waits} = census([spawn(fun forever/0) | Clients]),
    ?assertMatch([{{kprof_it_pool, {?MODULE, init, 1}}, 5, {?MODULE, _, _}}], Waits),
    exit(Server, kill).

handle_call(later, _, S) -> {noreply, S}.

handle_cast(_, S) -> {noreply, S}.

init(owner) -> {ok, _} = supervisor:start_link(?MODULE, sup);
init(sup) ->
    {ok, {#{strategy => simple_one_for_one}, [#{id => worker, start => {gen_server, start_link, [?MODULE, worker, []]}}]}};
init(worker) -> {ok, worker}.

%% More than are asked are counted, and one in native code holds up nobody for long.
pools_past_the_cap_test_() ->
    {timeout, 60, fun pools_past_the_cap/0}.

pools_past_the_cap() ->
    Stuck = spawn(fun forever/0),
    erlang:suspend_process(Stuck),
    Pids = [Stuck | [spawn(fun forever/0) || _ <- lists:seq(1, 10500)]],
    {{Seen, NotSeen}, _, [{_, _, _, _, 1, Count, 0, false, Members}], _} = census(Pids),
    ?assert(Seen =< 10000),
    ?assert(NotSeen >= length(Pids) - Seen),
    ?assert(Count =< 10000),
    ?assertEqual(100, length(Members)),
    [exit(P, kill) || P <- Pids].
