-module(kprof_tracer_events_tests).

-include_lib("eunit/include/eunit.hrl").
-include("kprof_tracer.hrl").

-define(ENDS, [{trace_ts, self(), exit, normal, 1}, {trace_ts, self(), out_exited, 0, 2}]).

told(Events, R) ->
    #s{events = #events{batch = Batch}} = lists:foldl(fun kprof_tracer_events:add_short/2, #s{events = #events{max = 10}, requests = R}, Events),
    lists:reverse(Batch).

%% The VM may tell of it twice.
ends_once_test() ->
    ?assertEqual([{trace_ts, self(), exit, 0, 1}], told(?ENDS, undefined)).

%% By request nothing else tells of it.
ends_by_request_test() ->
    ?assertEqual([{trace_ts, self(), exit, 0, 2}], told(tl(?ENDS), #requests{})).
