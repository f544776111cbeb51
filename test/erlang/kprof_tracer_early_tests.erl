-module(kprof_tracer_early_tests).

-include_lib("eunit/include/eunit.hrl").
-include("kprof_tracer.hrl").

-define(EPOCH, (?LABEL_TRACE bsl (?KIND_BITS - ?WORD_BITS) bor 7)).
-define(OF(N), (?EPOCH bsl ?WORD_BITS bor N)).
-define(HANDLE, {m, handle, 1}).
-define(ANSWER, {m, answer, 0}).

tracing() ->
    #state{stage = tracing, events = #events{max = 1 bsl 30}, queue = #queue{max = 1 bsl 30, weighed = {1 bsl 30, 1 bsl 60}}, requests = #requests{epoch = ?EPOCH, attached = false, named = all, max = 10, entries = #{?HANDLE => []}}}.

%% With requests that may have an identity.
identified() ->
    S = #state{requests = R} = tracing(),
    S#state{requests = R#requests{named = #{}}}.

token(Label) -> {0, Label, 0, self(), 0}.

entered(P, Label, Ts) ->
    {trace_ts, P, call, ?HANDLE, {entry, token(Label), true, [], {m, caller, 0}}, Ts}.

called(P, Label, Ts) ->
    {trace_ts, P, call, ?ANSWER, {token(Label), {m, serve, 0}}, Ts}.

%% In this order.
told(Events, S) ->
    lists:foldl(fun(E, Acc) -> kprof_tracer_early:in_turn(element(2, E), E, Acc) end, S, Events).

%% What the client is sent of a process.
sent(P, #state{events = #events{batch = Batch}}) ->
    [{What, X} || {_, Q, What, X, _, _} <- lists:reverse(Batch), Q =:= P] ++
        [{What, X} || {_, Q, What, X, _} <- lists:reverse(Batch), Q =:= P, What =/= request].

waiting(#state{requests = #requests{early = Early, early_n = N}}) -> {maps:size(Early), N}.

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

%% Of entries that may know an identity the epoch is a constant, and the bits below are the label's.
other_constants_wait_for_nothing_test() ->
    Ours = ?LABEL_TRACE bsl ?KIND_BITS bor (5 bsl ?CONST_BITS),
    Others = ?LABEL_TRACE bsl ?KIND_BITS bor (6 bsl ?CONST_BITS),
    #state{requests = R} = S0 = identified(),
    S = S0#state{requests = R#requests{epoch = Ours bsr ?WORD_BITS}},
    ?assertEqual({0, 0}, waiting(told([called(server(), Others bor 1, 1)], S))),
    ?assertEqual({1, 1}, waiting(told([called(server(), Ours bor 2, 1)], S))),
    ?assertEqual({1, 1}, waiting(told([called(server(), Ours bor (1 bsl 41) bor 2, 1)], S))).

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
    ?assert(erts_debug:flat_size(S#state.requests) < 1000).

%% ------------------------------------------------------------ requests that meet ----

other() -> list_to_pid("<0.1002.0>").
pool() -> list_to_pid("<0.1003.0>").

told_messages() ->
    S = #state{requests = R} = tracing(),
    S#state{requests = R#requests{messages = true}}.

send(P, Serial, Label, Ts) -> {seq_trace, Label, {send, {0, Serial}, P, to, []}, Ts}.
take(P, From, Serial, Label, Ts) -> {seq_trace, Label, {'receive', {0, Serial}, From, P, []}, Ts}.

called_with(P, From, Serial, Label, Ts) ->
    {trace_ts, P, call, ?ANSWER, {{0, Label, Serial, From, 0}, {m, serve, 0}}, Ts}.

passed(Events, S) ->
    lists:foldl(fun({seq_trace, _, What, _} = E, Acc) ->
                        kprof_tracer_early:in_turn(kprof_tracer_requests:passed_by(What), E, Acc);
                   (E, Acc) -> told([E], Acc)
                end, S, Events).

%% The requests that it works for, in turn.
works(P, #state{events = #events{batch = Batch}}) ->
    [N || {_, Q, request, N, _} <- lists:reverse(Batch), Q =:= P].

%% The first request gives back what the second one waits for; that asks a server.
meet() ->
    [entered(client(), ?OF(1), 1), entered(other(), ?OF(2), 2),
     send(client(), 1, ?OF(1), 3), take(pool(), client(), 1, ?OF(1), 4),
     send(pool(), 2, ?OF(1), 5), take(other(), pool(), 2, ?OF(1), 6),
     called_with(other(), pool(), 2, ?OF(1), 7), send(other(), 3, ?OF(1), 8)].

asked() ->
    [take(server(), other(), 3, ?OF(1), 9), called_with(server(), other(), 3, ?OF(1), 10)].

works_for_its_own_test() ->
    S = passed(meet() ++ asked(), told_messages()),
    ?assertEqual([1], works(client(), S)),
    ?assertEqual([2], works(other(), S)),
    ?assertEqual([2], works(server(), S)).

%% What its token stands for does not change with the end of the request, until the next message.
after_its_end_test() ->
    S = passed(meet() ++ [{trace_ts, other(), return_to, {m, caller, 0}, 11} | asked()], told_messages()),
    ?assertEqual([2], works(server(), S)),
    Next = [send(client(), 4, ?OF(1), 12), take(server(), client(), 4, ?OF(1), 13),
            called_with(server(), client(), 4, ?OF(1), 14)],
    ?assertEqual([2, 1], works(server(), passed(Next, S))).

%% The sender's event may come last, and a call before the message that brought its token.
in_order_test() ->
    Meet = meet(),
    Before = lists:droplast(Meet),
    S = passed(Before ++ asked(), told_messages()),
    ?assertEqual({[], {1, 2}}, {works(server(), S), waiting(S)}),
    S1 = passed([lists:last(Meet)], S),
    ?assertEqual({[2], {0, 0}}, {works(server(), S1), waiting(S1)}),
    S2 = passed(Meet ++ lists:reverse(asked()), told_messages()),
    ?assertEqual({[2], {0, 0}}, {works(server(), S2), waiting(S2)}).

%% A message that is never reported does not stop its process.
not_reported_test() ->
    S = passed(meet() ++ [called_with(server(), other(), 3, ?OF(1), 10), send(server(), 9, ?OF(1), 11)], told_messages()),
    ?assertEqual({[1], {0, 0}}, {works(server(), S), waiting(S)}).

%% Whoever has no token when it calls the entry again had lost it, if it had waited since it showed one.
lost_tokens_test() ->
    Waited = {trace_ts, client(), in, {gen, do_call, 4}, 3},
    Again = {trace_ts, client(), call, ?HANDLE, {entry, token(?OF(5)), true, [], {m, caller, 0}}, 9},
    Back = {trace_ts, client(), return_to, {m, caller, 0}, 8},
    Unsure = fun(Events) ->
                     #state{requests = #requests{unsure = N}} = passed(Events, told_messages()),
                     N
             end,
    ?assertEqual(1, Unsure([entered(client(), ?OF(1), 1), Waited, Back, Again])),
    ?assertEqual(0, Unsure([entered(client(), ?OF(1), 1), Back, Again])),
    ?assertEqual(0, Unsure([entered(client(), ?OF(1), 1), Waited, send(client(), 1, ?OF(1), 4), Back, Again])).
