%% shop_price - a sum that calls itself, article by article, and has more to do after it.
-module(shop_price).

-export([sum/2]).

sum([], Sum) -> Sum;
sum([{article, _, _, Price} | More], Sum) -> 1 + sum(More, Sum + Price) - 1.
