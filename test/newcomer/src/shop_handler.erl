%% shop_handler - one request, from its head to its answer.
-module(shop_handler).

-export([init/2]).

init(#{method := Method, path := Path} = Request, State) ->
    Articles = 'Elixir.Shop.Repo':all(article, [{path, Path}]),
    Body = answer(Method, Path, Articles),
    {ok, Request#{body => Body}, State}.

answer(<<"GET">>, _, Articles) ->
    shop_text:page(Articles);
answer(<<"POST">>, <<"/basket">>, Articles) ->
    ok = shop_stock:reserve(hd(Articles)),
    shop_text:page([hd(Articles)]);
answer(<<"POST">>, <<"/order">>, Articles) ->
    Sum = shop_price:sum(Articles, 0),
    ok = shop_stock:reserve(lists:last(Articles)),
    integer_to_binary(Sum).
