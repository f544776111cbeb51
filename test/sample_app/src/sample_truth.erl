%% The application's own measure of its layers, to hold a profiler's against.
%%
%% It measures calls from their caller: it takes the time before, makes the call
%% (never in tail position), and stores the difference. Layers have the
%% names of the tiers in tiers.conf; those which are in no tier there are
%%
%%     parsing_front   parse_request/1 on a request's head: before the entry
%%     query           db:query/2
%%     db_async        database calls made after the request was answered (`audit`)
%%     db_server       db:handle_call/3, from its first line to its last
%%     task            sample_pattern:task/2, which begins before a request's end and ends after
%%     task_after      what of that is after the end
%%
%% and delegate, fault and queue, which are in patterns.conf alone (sample_pattern).
%%
%% The counters are per scheduler, so that counting costs little and processes do
%% not meet in it; read them when the application is at rest.
-module(sample_truth).

-export([init/0, reset/0, get/0, details/0, print/0]).
-export([start/0, elapsed/1, returned/3, returned_after/3, raised/3, returned_within/3, raised_within/3]).
-export([busy/3, unfinished/2]).

-define(RETURNED, 1).
-define(RETURNED_NS, 2).
-define(RAISED, 3).
-define(RAISED_NS, 4).
-define(UNFINISHED, 5).
-define(BUSY_NS, 6).
-define(FIELDS, 6).
-define(OPS, 23).
-define(LAYERS, 14).

layers() ->
    [parsing, parsing_front, handle, formatter, db, db_async, db_server, query, accounting,
     task, task_after, delegate, fault, queue].

ops() ->
    [create, read, update, delete, raise, raise_deep, crash, retry, retry_deep, die, slow,
     wrapped, parallel, spawned, tasked, casted, delegated, forwarded, thrown, exited, linked,
     queued, other].

%% Counted on through restarts of the application, until reset/0.
init() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            Counters = counters:new(?LAYERS * ?OPS * ?FIELDS, [write_concurrency]),
            persistent_term:put(?MODULE, Counters);
        _ ->
            ok
    end.

reset() ->
    C = persistent_term:get(?MODULE),
    lists:foreach(fun(I) -> counters:put(C, I, 0) end, lists:seq(1, ?LAYERS * ?OPS * ?FIELDS)).

%% [{Layer, Op, Calls, TotalNs}] of the calls that ended, one way or another, and
%% of the unfinished ones, which add to Calls only.
get() ->
    [{Layer, Op, Returned + Raised + Unfinished, ReturnedNs + RaisedNs}
     || #{layer := Layer, op := Op, returned := Returned, returned_ns := ReturnedNs, raised := Raised,
          raised_ns := RaisedNs, unfinished := Unfinished} <- details()].

%% A map for each pair of layer and operation that was met. `busy_ns` is the time
%% in which at least one call of the layer was open, summed over the requests.
details() ->
    C = persistent_term:get(?MODULE),
    [Row || {Layer, L} <- numbered(layers()), {Op, O} <- numbered(ops()),
            #{returned := A, raised := B, unfinished := U} = Row <- [row(C, Layer, Op, cell(L, O))],
            A + B + U > 0].

row(C, Layer, Op, Cell) ->
    Count = fun(Field) -> counters:get(C, Cell + Field) end,
    Ns = fun(Field) -> erlang:convert_time_unit(Count(Field), native, nanosecond) end,
    #{layer => Layer, op => Op,
      returned => Count(?RETURNED), returned_ns => Ns(?RETURNED_NS),
      raised => Count(?RAISED), raised_ns => Ns(?RAISED_NS),
      unfinished => Count(?UNFINISHED), busy_ns => Ns(?BUSY_NS)}.

print() ->
    io:put_chars(sample_admin:truth_table(details())).

%% What the callers use.

start() ->
    erlang:monotonic_time().

elapsed(Start) ->
    erlang:monotonic_time() - Start.

%% The call begun at Start has returned, or raised.
returned(Layer, Op, Start) ->
    returned_after(Layer, Op, elapsed(Start)).

raised(Layer, Op, Start) ->
    Took = elapsed(Start),
    count(Layer, Op, [{?RAISED, 1}, {?RAISED_NS, Took}, {?BUSY_NS, Took}]).

%% The call returned after this time; for a caller that learns the operation from it.
returned_after(Layer, Op, Took) ->
    count(Layer, Op, [{?RETURNED, 1}, {?RETURNED_NS, Took}, {?BUSY_NS, Took}]).

%% The same for a call made while another of the same layer was open.
returned_within(Layer, Op, Start) ->
    count(Layer, Op, [{?RETURNED, 1}, {?RETURNED_NS, elapsed(Start)}]).

raised_within(Layer, Op, Start) ->
    count(Layer, Op, [{?RAISED, 1}, {?RAISED_NS, elapsed(Start)}]).

%% Time since Start in which several such calls were open.
busy(Layer, Op, Start) ->
    count(Layer, Op, [{?BUSY_NS, elapsed(Start)}]).

%% A call that will not end, because its process is about to.
unfinished(Layer, Op) ->
    count(Layer, Op, [{?UNFINISHED, 1}]).

count(Layer, Op, Fields) ->
    C = persistent_term:get(?MODULE),
    Cell = cell(layer(Layer), op(Op)),
    lists:foreach(fun({Field, N}) -> counters:add(C, Cell + Field, N) end, Fields).

cell(L, O) ->
    ((L - 1) * ?OPS + (O - 1)) * ?FIELDS.

numbered(Names) ->
    lists:zip(Names, lists:seq(1, length(Names))).

%% In the order of layers/0 and ops/0.
layer(parsing) -> 1;
layer(parsing_front) -> 2;
layer(handle) -> 3;
layer(formatter) -> 4;
layer(db) -> 5;
layer(db_async) -> 6;
layer(db_server) -> 7;
layer(query) -> 8;
layer(accounting) -> 9;
layer(task) -> 10;
layer(task_after) -> 11;
layer(delegate) -> 12;
layer(fault) -> 13;
layer(queue) -> 14.

op(create) -> 1;
op(read) -> 2;
op(update) -> 3;
op(delete) -> 4;
op(raise) -> 5;
op(raise_deep) -> 6;
op(crash) -> 7;
op(retry) -> 8;
op(retry_deep) -> 9;
op(die) -> 10;
op(slow) -> 11;
op(wrapped) -> 12;
op(parallel) -> 13;
op(spawned) -> 14;
op(tasked) -> 15;
op(casted) -> 16;
op(delegated) -> 17;
op(forwarded) -> 18;
op(thrown) -> 19;
op(exited) -> 20;
op(linked) -> 21;
op(queued) -> 22;
op(_) -> 23.
