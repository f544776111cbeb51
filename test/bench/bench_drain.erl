%% bench_drain - how long a drain of full rings holds a scheduler, as the agent
%% drains: that has to be well below a millisecond.
%%
%%     erl +S 64:64 -noinput -pa GEN -s bench_drain main -extra LIBRARY RECORDS
%%
%% Processes fill the rings of all schedulers, then one takes what is there,
%% RECORDS at a time; microseconds of each call that gave as many.
-module(bench_drain).

-export([main/0, called/1]).

-define(ROUNDS, 5).

main() ->
    [Library, Records] = init:get_plain_arguments(),
    Schedulers = erlang:system_info(schedulers_online),
    ok = kprof_probe:load(filename:absname(Library), Schedulers + 64, 1 bsl 40),
    ok = kprof_probe:start(),
    {Module, State} = kprof_probe:tracer(),
    Spec = [{'_', [{is_seq_trace}], [{message, {{[], {get_seq_token}, {caller}}}}, {exception_trace}]}],
    1 = erlang:trace_pattern({?MODULE, called, 1}, Spec, [local]),
    erlang:trace(new_processes, true, [call, arity, {tracer, Module, State}]),
    #{records := Ring} = kprof_probe:info(),
    process_flag(priority, high),
    [told(What, Schedulers, Ring, Calls, list_to_integer(Records))
     || {What, Calls} <- [{"of one process in each", Ring div 2}, {"each call of another process", 1}]],
    halt().

called(I) -> I.

told(What, Schedulers, Ring, Calls, Records) ->
    Times = lists:sort(lists:append([round_of(Schedulers, Ring, Calls, Records) || _ <- lists:seq(1, ?ROUNDS)])),
    At = fun(Part) -> lists:nth(1 + trunc(Part * (length(Times) - 1)), Times) end,
    io:format("~b rings, ~s: ~b drains of ~b records, us: median ~b, 99 % below ~b, most ~b~n",
              [Schedulers, What, length(Times), Records, At(0.5), At(0.99), At(1)]).

round_of(Schedulers, Ring, Calls, Records) ->
    Fillers = [spawn_opt(fun() -> fill(S, Ring div 2 div Calls, Calls) end, [monitor, {scheduler, S}])
               || S <- lists:seq(1, Schedulers)],
    [receive {'DOWN', Ref, process, Pid, normal} -> ok end || {Pid, Ref} <- Fillers],
    drain(Records).

fill(Scheduler, Processes, Calls) ->
    [begin
         {Pid, Ref} = spawn_opt(fun() -> calls(Calls) end, [monitor, {scheduler, Scheduler}]),
         receive {'DOWN', Ref, process, Pid, normal} -> ok end
     end || _ <- lists:seq(1, Processes)].

calls(N) ->
    seq_trace:set_token(label, 1),
    [?MODULE:called(I) || I <- lists:seq(1, N)],
    seq_trace:set_token([]).

drain(Records) ->
    Before = erlang:monotonic_time(),
    {_, _, _, _, _, N, More, _} = kprof_probe:drain(Records),
    Us = erlang:convert_time_unit(erlang:monotonic_time() - Before, native, microsecond),
    Times = [Us || N > Records div 2],
    case More of
        true -> Times ++ drain(Records);
        false -> Times
    end.
