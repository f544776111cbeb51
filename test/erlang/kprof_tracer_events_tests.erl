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

%% A call of the entry that found no number for a label begins no request, and its process works for
%% none.
begins_without_label_test() ->
    Call = fun(New, Ts) -> {trace_ts, self(), call, {m, f, 0}, {entry, New, New =/= [], [], {m, c, 0}}, Ts} end,
    New = #s{stage = tracing, events = #events{max = 10}, requests = #requests{entries = #{{m, f, 0} => []}, max = 5}},
    S = lists:foldl(fun kprof_tracer_events:call/2, New, [Call([], 1), Call({0, 7, 0, self(), 0}, 2), Call([], 3)]),
    ?assertMatch(#requests{begun = 1, unlabelled = 2, working = At} when map_size(At) =:= 0, S#s.requests).
