%% it_drain - servers that a request asks: one that drains its mailbox into a queue
%% of its own before it handles anything, as RabbitMQ's gen_server2 does, and
%% ordinary ones. For drain_tests.
-module(it_drain).

-export([start/1, load/3, once/1, request/2, ask/2, work/1, after_it/1]).

%% Kind: drains | plain | pool | casts
start(Kind) ->
    register(Kind, spawn(fun() -> server(Kind) end)),
    ok.

server(drains) -> drains(queue:new());
server(pool) -> pool([spawn(fun() -> server(plain) end) || _ <- [1, 2]]);
server(Kind) -> plain(Kind).

%% All there is first: it carries the token of what it took last.
drains(Q0) ->
    Q = drain(Q0, case queue:is_empty(Q0) of true -> infinity; false -> 0 end),
    {{value, {From, N}}, Q1} = queue:out(Q),
    From ! {answer, ?MODULE:work(N)},
    drains(Q1).

drain(Q, Wait) ->
    receive {_, _} = Ask -> drain(queue:in(Ask, Q), 0)
    after Wait -> Q
    end.

plain(Kind) ->
    receive
        {From, N} ->
            R = ?MODULE:work(N),
            _ = [?MODULE:work(N) || Kind =:= casts],
            From ! {answer, R},
            plain(Kind)
    end.

%% Hands on to its workers in turn, who answer.
pool([W | Ws]) ->
    receive {_, _} = Ask -> W ! Ask, pool(Ws ++ [W]) end.

%% So many clients at a time, and so many requests of each.
load(Kind, Clients, Each) ->
    Me = self(),
    Ps = [spawn(fun() ->
                        [begin ?MODULE:request(Kind, C), receive after 0 -> ok end end || _ <- lists:seq(1, Each)],
                        Me ! {self(), done}
                end) || C <- lists:seq(1, Clients)],
    [receive {P, done} -> ok end || P <- Ps],
    ok.

%% In a process of its own; a call before the answer has come, and one after it.
once(Server) ->
    {P, Ref} = spawn_monitor(fun() -> ?MODULE:request(Server, twice) end),
    receive {'DOWN', Ref, process, P, normal} -> ok end.

request(Server, twice) ->
    Server ! {self(), 1},
    _ = ?MODULE:after_it(1),
    receive {answer, R} -> _ = ?MODULE:after_it(R) end,
    ok;
request(Kind, N) ->
    R = ?MODULE:ask(Kind, N),
    ?MODULE:after_it(R).

ask(Kind, N) ->
    Kind ! {self(), N},
    receive {answer, R} -> R end.

work(N) ->
    T = erlang:monotonic_time(microsecond),
    spin(T + 100),
    N.

spin(Until) ->
    case erlang:monotonic_time(microsecond) < Until of
        true -> spin(Until);
        false -> ok
    end.

after_it(R) -> R.
