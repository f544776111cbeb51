%% it_layers - a request through two servers, of which it is known where its
%% time goes: the first is busy when it is asked, the second waits.
-module(it_layers).

-export([start/0, request/0, stop/0]).

-define(MS, 30).

start() ->
    register(it_layer_a, spawn(fun serve_a/0)),
    register(it_layer_b, spawn(fun serve_b/0)),
    ok.

stop() ->
    [exit(whereis(Name), kill) || Name <- [it_layer_a, it_layer_b]],
    ok.

request() ->
    it_layer_a ! {self(), ask},
    receive {it_layer_a, Answer} -> Answer end.

%% It takes the next request ?MS later than that has come.
serve_a() ->
    case process_info(self(), message_queue_len) of
        {_, 0} -> receive after 1 -> serve_a() end;
        _ ->
            receive after ?MS -> ok end,
            receive {From, ask} -> From ! {it_layer_a, front()} end,
            serve_a()
    end.

front() ->
    it_layer_b ! {self(), ask},
    receive {it_layer_b, Answer} -> [Answer] end.

serve_b() ->
    receive {From, ask} -> From ! {it_layer_b, back()} end,
    serve_b().

back() ->
    receive after ?MS -> done end.
