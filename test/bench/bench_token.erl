%% bench_token - what the test of a token, and a label, cost: calls of a function with
%% match specs as kprofd arms them, in turn: a tier's, and that without the test;
%% an entry's, for a call that is sampled and for one that is not, and that of a function
%% whose calls never match. By the lowest of rounds, in ns of the node's CPU time for a
%% call. Events go to a process that drops them.
-module(bench_token).

-export([run/2, tier/1]).

-define(ROUNDS, 21).
-define(CALLS, 100000).
-define(BURST, 1000).

tier(X) -> X.

%% Specs by name. Label: one of a kprofd's.
run(#{tested := Tested, untested := Untested, entry := Entry, passed := Passed}, Label) ->
    Cases = [{untested, Untested, Label}, {tested, Tested, Label}, {foreign, Tested, 17}, {none, Tested, none},
             {entry, Entry, none}, {passed, Passed, none}, {never, [{[never], [], []}], none}],
    Tracer = spawn_link(fun drop/0),
    Was = erlang:system_info(trace_control_word),
    erlang:system_flag(trace_control_word, Label band 16#7FFFFFFF bor 16#80000000),
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
