%% bench_token - what the test of a token costs an event: calls of a function with
%% a tier's match spec, as kprofd arms it and without the test, in turn; by the
%% lowest of rounds, in ns of the node's CPU time for a call. Events go to a
%% process that drops them.
-module(bench_token).

-export([run/3, tier/1]).

-define(ROUNDS, 21).
-define(CALLS, 100000).
-define(BURST, 1000).

tier(X) -> X.

%% Specs: tested, and not. Label: one of a kprofd's.
run(Tested, Untested, Label) ->
    Cases = [{untested, Untested, Label}, {tested, Tested, Label}, {foreign, Tested, 17}, {none, Tested, none}],
    Tracer = spawn_link(fun drop/0),
    Was = erlang:system_info(trace_control_word),
    erlang:system_flag(trace_control_word, Label band 16#FFFFFFFF),
    Rounds = [[{Name, round(Tracer, Spec, Of)} || {Name, Spec, Of} <- Cases] || _ <- lists:seq(1, ?ROUNDS)],
    erlang:system_flag(trace_control_word, Was),
    erlang:trace_pattern({?MODULE, tier, 1}, false, [local]),
    unlink(Tracer),
    exit(Tracer, kill),
    [{Name, lists:min([proplists:get_value(Name, R) || R <- Rounds])} || {Name, _, _} <- Cases].

drop() ->
    receive
        {said, P} -> P ! said, drop();
        _ -> drop()
    end.

round(Tracer, Spec, Label) ->
    1 = erlang:trace_pattern({?MODULE, tier, 1}, Spec, [local]),
    {P, Ref} = spawn_monitor(fun() ->
                                     receive go -> ok end,
                                     Label =:= none orelse seq_trace:set_token(label, Label),
                                     calls(?CALLS, Tracer)
                             end),
    erlang:trace(P, true, [call, arity, return_to, monotonic_timestamp, {tracer, Tracer}]),
    Before = cpu_ns(),
    P ! go,
    receive {'DOWN', Ref, process, P, normal} -> ok end,
    (cpu_ns() - Before) div ?CALLS.

%% No more than the tracer takes.
calls(0, _) -> ok;
calls(N, Tracer) ->
    burst(?BURST),
    Tracer ! {said, self()},
    receive said -> ok end,
    calls(N - ?BURST, Tracer).

burst(0) -> ok;
burst(N) -> tier(N), burst(N - 1).

%% Of all threads of the node.
cpu_ns() ->
    {Ms, _} = erlang:statistics(runtime),
    Ms * 1000000.
