%% shop_report - what is done once a second, and once in a lifetime.
-module(shop_report).

-export([daily/0, yearly/0]).

daily() ->
    timer:sleep(20),
    ok.

yearly() ->
    ok.
