%% What a walk over processes and tables finds, and how it goes on.
-module(kprof_usage_tests).

-include_lib("eunit/include/eunit.hrl").

%% A share that makes no walk wait for long.
-define(ALL, 1000000).

walks(From, Ppm) ->
    {Pid, Ref} = kprof_usage:usage_start(?MODULE, From, Ppm, 8),
    fun(stop) ->
            exit(Pid, kill),
            receive {'DOWN', Ref, process, Pid, _} -> flush(Pid) end;
       (What) -> found(Pid, What)
    end.

found(Pid, What) ->
    receive
        {usage, Pid, ask} -> kprof_usage:usage_go(Pid), found(Pid, What);
        {usage, Pid, {What, Usage, Busy}} when Busy >= 0 -> Usage;
        {usage, Pid, {_, _, _}} -> found(Pid, What)
    after 30000 -> exit(no_walk)
    end.

flush(Pid) -> receive {usage, Pid, _} -> flush(Pid) after 0 -> ok end.

%% Processes that have done this and wait.
held(N, Fun) ->
    Test = self(),
    Ps = [spawn(fun() -> Fun(), Test ! {held, self()}, receive stop -> ok end end) || _ <- lists:seq(1, N)],
    [receive {held, P} -> P end || P <- Ps].

row(Name, {_, _, Groups, _, _}) -> lists:keyfind(Name, 1, Groups).

%% Messages, sizes and groups of these and no other processes.
groups_test() ->
    Ps = [Box | _] = held(20, fun() -> put('$initial_call', {shop, init, 1}) end),
    [Box ! {mail, N} || N <- lists:seq(1, 300)],
    [P ! mail || P <- tl(Ps)],
    Next = walks(Ps, ?ALL),
    {_, Counts, Groups, _, _} = Next(walk),
    ?assertMatch({20, 20, 20, 20, _, _}, Counts),
    Memory = lists:sum([M || P <- Ps, {memory, M} <- [process_info(P, memory)]]),
    [{<<"shop:init/1">>, App, 20, Bytes, 0, -1, 319, 300, Box}] = Groups,
    ?assert(is_atom(App)),
    ?assert(abs(Bytes - Memory) < Memory div 10),
    [exit(P, kill) || P <- Ps],
    Next(stop).

%% From the second walk on what each has done since the first.
reductions_test_() -> {timeout, 60, fun reductions/0}.

reductions() ->
    [P] = held(1, fun() -> register(usage_worker, self()) end),
    Next = walks([P], ?ALL),
    ?assertMatch({_, _, 1, _, _, -1, 0, 0, none, one}, row(<<"usage_worker">>, Next(walk))),
    {_, _, 1, _, _, Since, 0, 0, none, one} = row(<<"usage_worker">>, Next(walk)),
    ?assert(Since >= 0 andalso Since < 100),
    exit(P, kill),
    Next(stop).

binaries_test() ->
    [P] = held(1, fun() -> put(kept, binary:copy(<<0>>, 3000000)) end),
    Next = walks([P], ?ALL),
    {_, _, [{_, _, 1, _, Bytes, _, _, _, _}], _, _} = Next(walk),
    ?assert(Bytes >= 3000000 andalso Bytes < 3100000),
    exit(P, kill),
    Next(stop).

%% Tables of one name are one; the memory of the node is there.
tables_test() ->
    [Owner] = held(1, fun() ->
                              register(usage_owner, self()),
                              [ets:insert(ets:new(usage_table, []), {I, lists:seq(1, 5000)}) || I <- [1, 2, 3]]
                      end),
    Next = walks([Owner], ?ALL),
    {_, _, _, Tables, Memory} = Next(walk),
    {_, <<"usage_owner">>, 3, Bytes, 3} = lists:keyfind(<<"usage_table">>, 1, Tables),
    ?assert(Bytes > 3 * 5000 * 8),
    ?assertMatch({atom, _, N, Limit} when N > 0 andalso Limit > N, lists:keyfind(atom, 1, Memory)),
    ?assertEqual(7, length(Memory)),
    exit(Owner, kill),
    Next(stop).

%% Where there are too many for one walk, a part is sized in each, and every queue is read.
parts_test_() -> {timeout, 60, fun parts/0}.

parts() ->
    Ps = held(4000, fun() -> put('$initial_call', {shop, init, 1}) end),
    [P ! mail || P <- Ps],
    Next = walks(Ps, 1000),
    {_, {Looked, Of, Sized, SizedOf, _, _}, [{_, _, N, _, _, -1, Messages, 1, _}], _, _} = Next(walk),
    ?assertEqual({4000, 4000, 4000, 4000}, {Looked, Of, SizedOf, Messages}),
    ?assert(Sized > 1000 andalso Sized < 3000),
    ?assertEqual(Sized, N),
    ?assertMatch({_, {4000, 4000, 4000, 4000, _, _}, [{_, _, 4000, _, _, _, 4000, 1, _}], _, _}, Next(walk)),
    [exit(P, kill) || P <- Ps],
    Next(stop).

%% Nobody waits for one that does not answer, as in a long garbage collection; it is counted.
silent_test_() -> {timeout, 60, fun silent/0}.

silent() ->
    Ps = held(10, fun() -> ok end),
    Silent = spawn(fun Loop() -> _ = binary:matches(binary:copy(<<"a">>, 50000000), <<"a">>), Loop() end),
    Next = walks([Silent | Ps], ?ALL),
    {_, {Looked, 11, _, _, _, _}, Groups, _, _} = Next(walk),
    ?assertEqual([{<<"(not seen)">>, undefined, 11 - Looked, 0, 0, -1, 0, 0, none} || Looked < 11],
                 [G || G <- Groups, element(1, G) =:= <<"(not seen)">>]),
    ?assert(Looked >= 10),
    [exit(P, kill) || P <- [Silent | Ps]],
    Next(stop).

%% A row of each of the largest, and one of all others.
others_test() ->
    Ps = lists:append([held(1, fun() -> put('$initial_call', {shop, list_to_atom("f" ++ integer_to_list(I)), 1}) end)
                       || I <- lists:seq(1, 100)]),
    Next = walks(Ps, ?ALL),
    {_, _, Groups, _, _} = Next(walk),
    ?assert(length(Groups) < 60),
    {_, undefined, Others, _, _, _, _, _, _} = lists:keyfind(<<"_other">>, 1, Groups),
    ?assertEqual(100, Others + length(Groups) - 1),
    [exit(P, kill) || P <- Ps],
    Next(stop).

