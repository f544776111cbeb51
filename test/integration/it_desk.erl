%% An order desk as somebody writes it who has just begun: one module does it all, in
%% functions that it does not export.
-module(it_desk).

-export([run/1, order/2, rush/1, sell/2]).

%% So many clients, which order without end.
run(Clients) ->
    [spawn(fun() -> client(0) end) || _ <- lists:seq(1, Clients)],
    ok.

client(N) ->
    {ok, _} = order(element(N rem 3 + 1, {book, lamp, chair}), N),
    receive after 5 -> client(N + 1) end.

order(Item, N) ->
    Price = price(Item, N rem 7 + 1),
    {ok, bill(Item, Price)}.

price(Item, Pieces) ->
    Pieces * spent(1000, erlang:phash2(Item)).

bill(Item, Price) ->
    {Item, Price, spent(500, Price)}.

spent(0, Sum) -> Sum;
spent(N, Sum) -> spent(N - 1, (Sum * 31 + N) rem 1000003).

%% Each sale calls 40 functions: more events than a busy node can send.
rush(Clients) ->
    [spawn(fun Again() -> {_, _} = sell(book, self()), receive after 1 -> Again() end end)
     || _ <- lists:seq(1, Clients)],
    ok.

sell(Item, Who) ->
    {it_desk_store:take(Item, erlang:phash2(Who)), spent(500, 1)}.
