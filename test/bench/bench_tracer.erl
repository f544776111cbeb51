%% bench_tracer - what one call of a traced function costs, by who is the tracer.
%%
%%     erl -noinput -pa GEN -s bench_tracer main -extra LIBRARY
%%
%% One process calls a function that does nothing; ns of the VM's CPU time a
%% call, its return included, of five rounds: the median, least and most.
-module(bench_tracer).

-export([main/0, called/1, loop/1]).

-define(CALLS, 1000000).

main() ->
    [Library] = init:get_plain_arguments(),
    ok = kprof_probe:load(filename:absname(Library), 16, 32 bsl 20),
    Self = self(),
    _ = spawn_link(fun() -> ok = kprof_probe:start(), Self ! started, drain() end),
    receive started -> ok end,
    {Module, State} = kprof_probe:tracer(),
    Sink = spawn_link(fun sink/0),
    Native = {[call, arity, {tracer, Module, State}], spec()},
    Relay = {[call, arity, return_to, monotonic_timestamp, {tracer, Sink}], spec()},
    [told(Name, How, Token)
     || {Name, How, Token} <- [{"untraced", none, []},
                               {"call_time", call_time, []},
                               {"call_count", call_count, []},
                               {"armed, not sampled: to a process", Relay, []},
                               {"the same with call_count", {counted, Relay}, []},
                               {"armed, not sampled: native", Native, []},
                               {"the same with call_count", {counted, Native}, []},
                               {"a call and its return: native", Native, 1}]],
    halt().

called(I) -> I.

loop(0) -> ok;
loop(N) -> ?MODULE:called(N), loop(N - 1).

spec() ->
    [{'_', [{is_seq_trace}], [{message, {{[], {get_seq_token}, {caller}}}}, {exception_trace}]}].

told(Name, How, Token) ->
    arm(How),
    [seq_trace:set_token(label, Token) || Token =/= []],
    loop(1000),
    [Least, _, Median, _, Most] = lists:sort([round_of() || _ <- lists:seq(1, 5)]),
    io:format("~-34s ~5b ns a call (~b to ~b)~n", [Name, Median, Least, Most]),
    seq_trace:set_token([]),
    erlang:trace_pattern({?MODULE, called, 1}, false, [local, call_count, call_time]),
    erlang:trace(self(), false, [all]).

arm(none) -> ok;
arm(call_time) ->
    1 = erlang:trace_pattern({?MODULE, called, 1}, true, [call_time]),
    erlang:trace(self(), true, [call]);
arm(call_count) ->
    1 = erlang:trace_pattern({?MODULE, called, 1}, true, [call_count]);
arm({counted, {Flags, Spec}}) ->
    1 = erlang:trace_pattern({?MODULE, called, 1}, Spec, [local, call_count]),
    erlang:trace(self(), true, Flags);
arm({Flags, Spec}) ->
    1 = erlang:trace_pattern({?MODULE, called, 1}, Spec, [local]),
    erlang:trace(self(), true, Flags).

round_of() ->
    {Before, _} = erlang:statistics(runtime),
    loop(?CALLS),
    {After, _} = erlang:statistics(runtime),
    round((After - Before) * 1.0e6 / ?CALLS).

sink() ->
    receive _ -> sink() end.

drain() ->
    _ = kprof_probe:drain(65536),
    receive after 2 -> drain() end.
