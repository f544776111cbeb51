%% shop_mail - a process that never ends: it sorts what it has to send, over and over.
-module(shop_mail).

-export([loop/1]).

loop(Letters) ->
    receive
        {letter, Letter} -> loop([Letter | Letters])
    after 5 ->
        loop(lists:sort(Letters))
    end.
