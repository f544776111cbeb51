%% What a walk over processes and tables finds, and how it goes on.
-module(kprof_usage_tests).

-include_lib("eunit/include/eunit.hrl").

%% A share that makes no walk wait for long.
-define(ALL, 1000000).

%% Gives what is found: the next part, or walk; {Usage, BusyNs} of `paid`.
walks(From, Ppm) ->
    Test = self(),
    {Pid, Ref} = spawn_monitor(fun() -> owner(Test, kprof_usage:usage_start(?MODULE, From, Ppm, 8)) end),
    fun(stop) ->
            exit(Pid, kill),
            receive {'DOWN', Ref, process, Pid, _} -> flush(Pid) end;
       (What) -> found(Pid, What)
    end.

owner(Test, W0) ->
    {Found, W} = receive Message -> kprof_usage:usage_handle(Message, W0)
                 after 5 -> {none, W0}
                 end,
    _ = Found =/= none andalso (Test ! {self(), Found}),
    owner(Test, kprof_usage:usage_go(W)).

found(Pid, What) ->
    receive
        {Pid, {What, Usage, Busy}} when Busy >= 0 -> Usage;
        {Pid, {_, _, _}} -> found(Pid, What)
    after 30000 -> exit(no_walk)
    end.

flush(Pid) -> receive {Pid, _} -> flush(Pid) after 0 -> ok end.

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

%% From the second walk on the rate at which each works.
reductions_test_() -> {timeout, 120, fun reductions/0}.

reductions() ->
    [P] = held(1, fun() -> register(usage_worker, self()) end),
    Work = fun Loop() -> lists:seq(1, 2000), receive stop -> ok after 1 -> Loop() end end,
    W = spawn(fun() -> register(usage_burner, self()), Work() end),
    Next = walks([W, P], ?ALL),
    {_, R0} = process_info(W, reductions),
    T0 = erlang:monotonic_time(),
    ?assertMatch({_, _, 1, _, _, -1, 0, 0, none, one}, row(<<"usage_worker">>, Next(walk))),
    {Shown, Idle} = rates(Next),
    {_, R1} = process_info(W, reductions),
    Ns = erlang:convert_time_unit(erlang:monotonic_time() - T0, native, nanosecond),
    True = (R1 - R0) * 1.0e9 / Ns,
    ?assertMatch({T, S} when S > T / 3 andalso S < T * 3, {True, Shown}),
    ?assert(Idle < 100),
    [exit(Q, kill) || Q <- [W, P]],
    Next(stop).

%% Reductions a second, as the daemon reads them, once they are known.
rates(Next) ->
    {_, {_, _, _, _, _, RoundNs}, _, _, _} = Usage = Next(walk),
    case {row(<<"usage_burner">>, Usage), row(<<"usage_worker">>, Usage)} of
        {{_, _, 1, _, _, Burnt, _, _, _, one}, {_, _, 1, _, _, Idle, _, _, _, one}} when Burnt >= 0, Idle >= 0 ->
            {Burnt * 1.0e9 / RoundNs, Idle * 1.0e9 / RoundNs};
        _ -> rates(Next)
    end.

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
    Next = walks(Ps, 7000),
    {_, {Looked, Of, Sized, SizedOf, _, _}, [{_, _, N, _, _, -1, Messages, 1, _}], _, _} = Next(walk),
    ?assertEqual({4000, 4000, 4000, 4000}, {Looked, Of, SizedOf, Messages}),
    ?assert(Sized > 2000 andalso Sized < 3000),
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

%% The VM goes through all messages of a process to tell its memory. One with many is asked for its
%% queue only.
long_test() ->
    [Long, Short] = Ps = held(2, fun() -> put('$initial_call', {shop, init, 1}) end),
    [Long ! N || N <- lists:seq(1, 10000)],
    Before = settled(Long, 0),
    Next = walks(Ps, ?ALL),
    {_, Counts, Groups, _, _} = Next(walk),
    ?assertMatch({2, 2, 1, 2, _, _}, Counts),
    ?assertMatch([{<<"shop:init/1">>, _, 1, _, _, -1, 10000, 10000, Long},
                  {<<"(not sized)">>, undefined, 1, 0, 0, -1, 0, 0, none}], Groups),
    {_, After} = process_info(Long, reductions),
    ?assert(After - Before < 1000),
    [exit(P, kill) || P <- [Long, Short]],
    Next(stop).

%% The messages that it was sent cost it something, too, until it has them in its queue.
settled(P, Before) ->
    case process_info(P, reductions) of
        {_, Now} when Now - Before < 100 -> Now;
        {_, Now} -> timer:sleep(10), settled(P, Now)
    end.

%% One that does not answer holds nobody up, and neither does a question that fails. What asked it
%% stays in its queue, so it is asked again later each time.
unanswered_test() ->
    Ours = erlang:monitor(process, self()),
    Question = fun(silent) -> receive never -> never end;
                  (fails) -> error(fails);
                  (One) -> {One}
               end,
    ?assertEqual({[{a}, gone, {b}, {c}], [silent]},
                 kprof_ask:ask_each(?MODULE, [a, silent, fails, b, c], Question,
                                    {Ours, erlang:monotonic_time(millisecond) + 60000})),
    {Waits, _} = lists:mapfoldl(fun(_, Silent0) ->
                                        Silent = kprof_ask:ask_later(self(), {1000, 6000}, Silent0),
                                        {element(2, map_get(self(), Silent)), Silent}
                                end, #{}, [1, 2, 3, 4, 5]),
    ?assertEqual([1000, 2000, 4000, 6000, 6000], Waits).

%% Named tables, and those that were large, are always among those that are looked at.
many_tables_test_() -> {timeout, 60, fun many_tables/0}.

many_tables() ->
    [Owner] = held(1, fun() ->
                              [ets:new(usage_small, []) || _ <- lists:seq(1, 11000)],
                              _ = ets:new(usage_named, [named_table]),
                              ets:insert(usage_named, {1, lists:seq(1, 50000)})
                      end),
    Next = walks([Owner], ?ALL),
    {_, _, _, Tables, Memory} = Next(walk),
    ?assertMatch({_, _, 1, _, 1}, lists:keyfind(<<"usage_named">>, 1, Tables)),
    {_, _, Left, 0, 0} = lists:keyfind(<<"(not seen)">>, 1, Tables),
    ?assert(Left > 1000 andalso Left < 2000),
    ?assertMatch({ets, _, N, 0} when N > 11000, lists:keyfind(ets, 1, Memory)),
    exit(Owner, kill),
    Next(stop).

%% One that has ended is started again.
again_test() ->
    [P] = held(1, fun() -> ok end),
    Walker = kprof_usage:usage_start(?MODULE, [P], ?ALL, 8),
    {Pid, _} = element(3, Walker),
    exit(Pid, kill),
    Fallen = receive {'DOWN', _, _, Pid, _} = Down -> element(2, kprof_usage:usage_handle(Down, Walker)) end,
    Again = kprof_usage:usage_go(Fallen),
    {Second, _} = element(3, Again),
    exit(Second, kill),
    Twice = receive {'DOWN', _, _, Second, _} = Down2 -> element(2, kprof_usage:usage_handle(Down2, Again)) end,
    ?assertEqual(none, element(3, kprof_usage:usage_go(Twice))),
    exit(P, kill).
