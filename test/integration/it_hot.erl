%% it_hot - calls of tiers' functions that no request makes, as many as a process
%% can or a known number; and requests, of which each has one step.
-module(it_hot).

-export([spin/1, stop/1, paced/2, requests/1, spin_requests/0]).
-export([request/1, step/1, encode/1, decode/1, loop/2]).
-export([reload/0, counted/1, patterns/0]).

request(N) -> ?MODULE:step(N) + 1.

%% Not one after the other as tail calls, whose ends are ambiguous.
step(N) -> N * 2.
encode(N) -> N + 1.
decode(N) -> N - 1.

%% As fast as it goes; until stop/1, which tells how often.
spin(F) ->
    spawn(?MODULE, loop, [F, 0]).

loop(F, N) ->
    receive
        {stop, From} -> From ! {self(), N}
    after 0 ->
            ?MODULE:loop(F, hundred(100, F, N))
    end.

hundred(0, _, N) -> N;
hundred(Left, F, N) ->
    _ = ?MODULE:F(N),
    hundred(Left - 1, F, N + 1).

stop(Pid) ->
    Pid ! {stop, self()},
    receive {Pid, N} -> N end.

%% So many calls, a hundred at a time.
paced(F, N) when N > 0 ->
    hundred(100, F, 0),
    receive after 2 -> ok end,
    paced(F, N - 100);
paced(_, _) ->
    ok.

requests(0) -> ok;
requests(N) ->
    _ = ?MODULE:request(N) + 1,
    N rem 20 =:= 0 andalso receive after 2 -> ok end,
    requests(N - 1).

spin_requests() ->
    spin(request).

reload() ->
    code:purge(?MODULE),
    {module, ?MODULE} = code:load_file(?MODULE),
    ok.

%% As anybody may look who has no session of his own.
counted(F) ->
    erlang:trace_info({?MODULE, F, 1}, call_count).

patterns() ->
    [{F, K, V} || F <- [request, step, encode, decode], K <- [traced, call_count],
                  {_, V} <- [erlang:trace_info({?MODULE, F, 1}, K)], V =/= false].
