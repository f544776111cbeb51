-module(kprof_tracer_events_tests).

-include_lib("eunit/include/eunit.hrl").
-include("kprof_tracer.hrl").

-define(ENDS, [{trace_ts, self(), exit, normal, 1}, {trace_ts, self(), out_exited, 0, 2}]).

told(Events, R) ->
    #state{events = #events{batch = Batch}} = lists:foldl(fun kprof_tracer_events:add_short/2, #state{events = #events{max = 10}, requests = R}, Events),
    lists:reverse(Batch).

%% The VM may tell of it twice.
ends_once_test() ->
    ?assertEqual([{trace_ts, self(), exit, 0, 1}], told(?ENDS, undefined)).

%% By request nothing else tells of it.
ends_by_request_test() ->
    ?assertEqual([{trace_ts, self(), exit, 0, 2}], told(tl(?ENDS), #requests{})).

%% One message may release many events that waited. A batch that was past its size by then grew for
%% as long as the node was busy, up to what the client refuses. It is sent before the next message.
large_batch_test() ->
    Client = self(),
    Ref = make_ref(),
    Events = [{trace_ts, Client, in, 0, N} || N <- lists:seq(1, ?BATCH + 1)],
    S = #state{stage = draining, events = #events{max = 10000, n = length(Events), batch = Events, seq = 1},
               profile = #profile{client = Client, client_ref = Ref, lease_ms = 1000}},
    {Server, Monitor} = spawn_monitor(fun() ->
                                              self() ! {'DOWN', Ref, process, Client, ended},
                                              try kprof_tracer_server:loop(S) catch _:_ -> ok end
                                      end),
    receive {'DOWN', Monitor, process, Server, _} -> ok end,
    ?assertEqual([length(Events)], [length(Sent) || {kprof_calls, 1, Sent} <- received()]).

received() ->
    receive Msg -> [Msg | received()] after 0 -> [] end.
