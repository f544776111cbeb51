%% Shop.Repo - what a module written in Elixir is to the VM.
-module('Elixir.Shop.Repo').

-export([all/2]).

all(article, _Options) ->
    timer:sleep(3),
    [{article, N, <<"a thing">>, 100 + N} || N <- lists:seq(1, 20)].
