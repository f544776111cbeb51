%% shop - an application that its developer wants to profile: a small web shop with
%% customers.  It is what a newcomer has at hand, with the traps that such code has.
-module(shop).

-export([main/0]).

-define(CUSTOMERS, 4).

%% Prints `ready`, and sells until the node is stopped.
main() ->
    {ok, _} = shop_stock:start_link(),
    [spawn_link(fun() -> customer(N) end) || N <- lists:seq(1, ?CUSTOMERS)],
    spawn_link(fun() -> shop_mail:loop([]) end),
    spawn_link(fun accountant/0),
    io:format("ready~n"),
    receive after infinity -> ok end.

%% Some forty requests a second in all.
customer(N) ->
    {ok, _, _} = shop_handler:init(request(N rem 3), []),
    timer:sleep(100),
    customer(N + 1).

request(0) -> #{method => <<"GET">>, path => <<"/articles">>, peer => {{127, 0, 0, 1}, 4000}};
request(1) -> #{method => <<"POST">>, path => <<"/basket">>, peer => {{127, 0, 0, 1}, 4001}};
request(2) -> #{method => <<"POST">>, path => <<"/order">>, peer => {{127, 0, 0, 1}, 4002}}.

accountant() ->
    shop_report:daily(),
    timer:sleep(1000),
    accountant().
