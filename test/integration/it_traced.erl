%% it_traced - a request of calls that take about a microsecond, and what they take
%% by its own account, for traced_tests.
-module(it_traced).

-export([request/1, around/0, small/1, truth/0]).

-define(CALLS, 20).             % of small/1 in a request

%% From a process of its own for each: nothing keeps a token.
request(N) ->
    Me = self(),
    [begin
         P = spawn(fun() -> ?MODULE:around(), Me ! {self(), done} end),
         receive {P, done} -> ok end
     end || _ <- lists:seq(1, N)],
    ok.

around() ->
    [?MODULE:small(50) || _ <- lists:seq(1, ?CALLS)],
    ok.

small(0) -> 0;
small(N) -> spin(N, 0).

spin(0, Acc) -> Acc;
spin(N, Acc) -> spin(N - 1, (Acc + N) band 16#FFFF).

%% ns of one call and of one request, while nothing is traced: the median of many.
truth() ->
    [mean(fun() -> ?MODULE:small(50) end), mean(fun ?MODULE:around/0)].

mean(F) ->
    Runs = lists:sort([begin
                           T0 = erlang:monotonic_time(nanosecond),
                           [F() || _ <- lists:seq(1, 100)],
                           (erlang:monotonic_time(nanosecond) - T0) / 100
                       end || _ <- lists:seq(1, 51)]),
    lists:nth(26, Runs).
