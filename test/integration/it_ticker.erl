%% it_ticker - what a process notices that wants to run every millisecond, in the
%% target: the longest time that it did not. And a crowd of processes that wait.
-module(it_ticker).

-export([start/0, longest_us/0, stop/0, crowd/1, disperse/1]).

start() ->
    Pid = spawn(fun() -> tick(now_us(), 0) end),
    true = register(?MODULE, Pid),
    Pid.

%% Since it was asked last, or began.
longest_us() ->
    ?MODULE ! {longest, self()},
    receive {?MODULE, Us} -> Us end.

stop() ->
    Ref = erlang:monitor(process, ?MODULE),
    ?MODULE ! stop,
    receive {'DOWN', Ref, process, _, _} -> ok end.

tick(Last, Longest) ->
    receive
        {longest, From} ->
            From ! {?MODULE, max(Longest, now_us() - Last)},
            tick(now_us(), 0);
        stop -> ok
    after 1 ->
            Now = now_us(),
            tick(Now, max(Longest, Now - Last))
    end.

now_us() ->
    erlang:monotonic_time(microsecond).

%% N processes that wait for a word; gives who has them.
crowd(N) ->
    Me = self(),
    Holder = spawn(fun() ->
                           Ps = [spawn_opt(fun() -> receive stop -> ok end end, [{min_heap_size, 34}])
                                 || _ <- lists:seq(1, N)],
                           Me ! {self(), there},
                           receive stop -> [P ! stop || P <- Ps] end
                   end),
    receive {Holder, there} -> Holder end.

disperse(Holder) ->
    Before = erlang:system_info(process_count),
    Ref = erlang:monitor(process, Holder),
    Holder ! stop,
    receive {'DOWN', Ref, process, _, _} -> ok end,
    gone(Before div 2).

gone(Most) ->
    erlang:system_info(process_count) =< Most orelse begin receive after 10 -> ok end, gone(Most) end.
