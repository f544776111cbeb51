%% it_onload - a module that does something when it is loaded: it counts that, in
%% the node's own settings.
-module(it_onload).

-export([work/1, times/0]).
-on_load(loaded/0).

loaded() ->
    application:set_env(kernel, ?MODULE, times() + 1).

times() ->
    application:get_env(kernel, ?MODULE, 0).

work(N) ->
    N.
