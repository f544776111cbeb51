-module(kprof_tracer_early_tests).

-include_lib("eunit/include/eunit.hrl").
-include("kprof_tracer.hrl").

-define(EPOCH, (?LABEL_TRACE bsl (?KIND_BITS - ?WORD_BITS) bor 7)).
-define(OF(N), (?EPOCH bsl ?WORD_BITS bor N)).
-define(HANDLE, {m, handle, 1}).
-define(ANSWER, {m, answer, 0}).

tracing() ->
    #s{stage = tracing, events = #events{max = 1 bsl 30}, queue = #queue{max = 1 bsl 30, weighed = {1 bsl 30, 1 bsl 60}}, requests = #requests{epoch = ?EPOCH, attached = false, named = all, max = 10, entries = #{?HANDLE => []}}}.

%% With requests that may have an identity.
identified() ->
    S = #s{requests = R} = tracing(),
    S#s{requests = R#requests{named = #{}}}.

token(Label) -> {0, Label, 0, self(), 0}.

entered(P, Label, Ts) ->
    {trace_ts, P, call, ?HANDLE, {entry, token(Label), [], {}, true, [], {m, caller, 0}}, Ts}.

called(P, Label, Ts) ->
    {trace_ts, P, call, ?ANSWER, {token(Label), {m, serve, 0}}, Ts}.

%% In this order.
told(Events, S) ->
    lists:foldl(fun(E, Acc) -> kprof_tracer_early:in_turn(element(2, E), E, Acc) end, S, Events).

%% What the client is sent of a process.
sent(P, #s{events = #events{batch = Batch}}) ->
    [{What, X} || {_, Q, What, X, _, _} <- lists:reverse(Batch), Q =:= P] ++
        [{What, X} || {_, Q, What, X, _} <- lists:reverse(Batch), Q =:= P, What =/= request].

waiting(#s{requests = #requests{early = Early, early_n = N}}) -> {maps:size(Early), N}.

client() -> list_to_pid("<0.1000.0>").
server() -> list_to_pid("<0.1001.0>").

waits_for_its_request_test() ->
    S = told([called(server(), ?OF(1), 2), {trace_ts, server(), return_to, {m, serve, 0}, 3}], tracing()),
    ?assertEqual([], sent(server(), S)),
    ?assertEqual({1, 2}, waiting(S)),
    S1 = told([entered(client(), ?OF(1), 1)], S),
    ?assertEqual([{call, ?ANSWER}, {return_to, {m, serve, 0}}], sent(server(), S1)),
    ?assertEqual({0, 0}, waiting(S1)).

%% What is asked later is not seen before what was asked first.
stays_in_order_test() ->
    S = told([entered(client(), ?OF(2), 1), called(server(), ?OF(1), 2), called(server(), ?OF(2), 3)], tracing()),
    ?assertEqual([], sent(server(), S)),
    ?assertEqual([{call, ?ANSWER}, {call, ?ANSWER}], sent(server(), told([entered(client(), ?OF(1), 1)], S))).

%% That of a trace of before, whose epoch is another.
other_tokens_wait_for_nothing_test() ->
    S = told([called(server(), ?OF(1) + (1 bsl ?WORD_BITS), 1)], tracing()),
    ?assertEqual({0, 0}, waiting(S)).

%% Which constant part is ours is known from the first request on.
other_constants_wait_for_nothing_test() ->
    Ours = ?LABEL_TRACE bsl ?KIND_BITS bor (5 bsl ?CONST_BITS),
    Others = ?LABEL_TRACE bsl ?KIND_BITS bor (6 bsl ?CONST_BITS),
    S = kprof_tracer_early:early_over(Ours bor 1, identified()),
    ?assertEqual({0, 0}, waiting(told([called(server(), Others bor 1, 1)], S))),
    ?assertEqual({1, 1}, waiting(told([called(server(), Ours bor 2, 1)], S))).

%% As much work as there are events.
ends_in_time_test() ->
    Many = 20000,
    S = told([called(server(), ?OF(1), N) || N <- lists:seq(1, Many)], tracing()),
    ?assertEqual({1, Many}, waiting(S)),
    {_, Before} = process_info(self(), reductions),
    ?assertEqual({0, 0}, waiting(kprof_tracer_early:early_end(S))),
    {_, After} = process_info(self(), reductions),
    ?assert(After - Before < 200 * Many).

%% Neither a message nor the reason of an exit.
keeps_nothing_large_test() ->
    Large = lists:seq(1, 10000),
    Send = {seq_trace, ?OF(1), {send, {0, 1}, server(), client(), Large}, 1},
    S0 = kprof_tracer_early:in_turn(server(), Send, tracing()),
    S = kprof_tracer_early:in_turn(server(), {trace_ts, server(), exit, Large, 2}, S0),
    ?assertEqual({1, 2}, waiting(S)),
    ?assert(erts_debug:flat_size(S#s.requests) < 1000).
