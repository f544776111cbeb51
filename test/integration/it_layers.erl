%% it_layers - a request through two servers, of which it is known where its
%% time goes: the first is busy when it is asked, the second waits.
-module(it_layers).

-export([start/0, request/0, request/2, stop/0]).
-export([bounce/2, chain/2, ponder/0]).
-export([leave/2, go_on/2]).

-define(MS, 30).

start() ->
    register(it_layer_a, spawn(fun serve_a/0)),
    register(it_layer_b, spawn(fun serve_b/0)),
    ok.

stop() ->
    [exit(whereis(Name), kill) || Name <- [it_layer_a, it_layer_b]],
    ok.

request() ->
    it_layer_a ! {self(), {ask, it_layer_b}},
    receive {it_layer_a, Answer} -> Answer end.

%% The same with its servers on two nodes.
request(A, B) ->
    {it_layer_a, A} ! {self(), {ask, {it_layer_b, B}}},
    receive {it_layer_a, Answer} -> Answer end.

%% A process of the other node does part of it, and what it begins there too,
%% which is a request where nothing is asked for.
bounce(Node, N) ->
    Me = self(),
    Pid = spawn(Node, ?MODULE, chain, [Me, N]),
    receive {Pid, Answer} -> [Answer] end.

chain(From, {Node, N}) ->
    [Answer] = ?MODULE:bounce(Node, N),
    From ! {self(), Answer};
chain(From, N) ->
    Answers = [ponder() || _ <- lists:seq(1, N)],
    From ! {self(), length(Answers)}.

ponder() ->
    receive after 1 -> done end.

%% Leaves a process of the other node behind, which takes no messages.
leave(Node, Name) ->
    spawn(Node, ?MODULE, go_on, [Name, self()]),
    receive Name -> ok end.

go_on(Name, From) ->
    register(Name, self()),
    ponder(),
    From ! Name,
    go_on().

go_on() ->
    ponder(),
    go_on().

%% It takes the next request ?MS later than that has come.
serve_a() ->
    case process_info(self(), message_queue_len) of
        {_, 0} -> receive after 1 -> serve_a() end;
        _ ->
            receive after ?MS -> ok end,
            receive {From, {ask, B}} -> From ! {it_layer_a, front(B)} end,
            serve_a()
    end.

front(B) ->
    B ! {self(), ask},
    receive {it_layer_b, Answer} -> [Answer] end.

serve_b() ->
    receive {From, ask} -> From ! {it_layer_b, back()} end,
    serve_b().

back() ->
    receive after ?MS -> done end.
