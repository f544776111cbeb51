%% A key-value service over HTTP, made to be profiled: five layers in as many
%% kinds of process, whose work, waits and faults can be set, and which keeps
%% its own account (sample_truth) to compare a profiler's figures with.
%%
%% It knows nothing of any profiler, and needs only kernel and stdlib.
%%
%%     {ok, Port} = sample_app:start(#{db => #{wait_ms => 2}}).
%%     sample_app:configure(#{db => #{work_us => 20}, faults => #{raise => 0.01}}).
%%     sample_truth:print().
-module(sample_app).
-behaviour(application).

-export([start/0, start/1, stop/0, configure/1, port/0, main/0]).
-export([start/2, stop/1]).

%% Start with what the application environment says.
start() ->
    case application:ensure_all_started(sample_app) of
        {ok, _} -> {ok, port()};
        {error, _} = Error -> Error
    end.

%% The same with these settings; see sample_config for what there is.
start(Config) when is_map(Config) ->
    case application:load(sample_app) of
        ok -> ok;
        {error, {already_loaded, sample_app}} -> ok
    end,
    ok = application:set_env(sample_app, config, Config),
    start().

stop() ->
    application:stop(sample_app).

%% Change settings of the running application; raises on a wrong one, and then changes none.
configure(Changes) when is_map(Changes) ->
    sample_config:change(Changes).

port() ->
    network_server:port().

%% For the run script: start, and say so on standard output or give up.
main() ->
    case start() of
        {ok, Port} ->
            io:format("ready ~b~n", [Port]);
        {error, Reason} ->
            io:format(standard_error, "sample_app: cannot start: ~0p~n", [Reason]),
            halt(1)
    end.

%% application

start(_Type, _Args) ->
    {ok, Config} = application:get_env(sample_app, config),
    {ok, Port} = application:get_env(sample_app, port),
    ok = sample_config:init(maps:merge(#{port => Port}, Config)),
    ok = sample_truth:init(),
    sample_sup:start_link().

stop(_State) ->
    ok.
