%% bench_rival - what else one would use in a target to see where time goes, all
%% of it in OTP: started and stopped around a load of bench_node's.
%%
%% All but fprof and eprof look at the same six calls of a request that kprofd
%% is told of. fprof traces whatever a process calls; eprof takes one module.
-module(bench_rival).

-export([start/2, stop/1]).

-define(FNS, [{bench_node, handle, 2}, {bench_node, parse, 1},
              {bench_node, store, 1}, {bench_node, render, 1},
              {bench_node, count, 1}]).
-define(RETURNS, [{'_', [], [{return_trace}]}]).

%% Arg: a port's number or a file's name, where it takes one. `missing` where
%% this Erlang is without it.
start(process, _) ->
    Tracer = spawn(fun() -> process_flag(message_queue_data, off_heap),
                            tally(#{}, #{})
                   end),
    register(?MODULE, Tracer),
    [erlang:trace_pattern(F, ?RETURNS, [local]) || F <- ?FNS],
    [erlang:trace(P, true, [call, monotonic_timestamp, {tracer, Tracer}])
     || P <- workers()],
    ok;
start(call_time, _) ->
    [erlang:trace_pattern(F, true, [local, call_time]) || F <- ?FNS],
    [erlang:trace(P, true, [call]) || P <- workers()],
    ok;
start(dbg_ip, Port) ->
    dbg(ip, Port);
start(dbg_file, File) ->
    dbg(file, File);
start(fprof, File) ->
    with(fprof, fun() ->
                        fprof:trace([start, {procs, workers()}, {file, File}])
                end);
start(eprof, _) ->
    with(eprof, fun() ->
                        {ok, _} = eprof:start(),
                        profiling = eprof:start_profiling(
                                      workers(), {bench_node, '_', '_'})
                end).

stop(process) ->
    clear(),
    exit(whereis(?MODULE), kill);
stop(call_time) ->
    clear(),
    [erlang:trace_pattern(F, false, [local, call_time]) || F <- ?FNS];
stop(fprof) ->
    fprof:trace(stop),
    fprof:stop();
stop(eprof) ->
    eprof:stop_profiling(),
    eprof:stop();
stop(_) ->
    clear(),
    dbg:stop().

clear() ->
    [erlang:trace(P, false, [call, monotonic_timestamp, timestamp])
     || P <- workers()],
    [erlang:trace_pattern(F, false, [local]) || F <- ?FNS].

dbg(How, Where) ->
    with(dbg, fun() ->
                      {ok, _} = dbg:tracer(port, dbg:trace_port(How, Where)),
                      [{ok, _} = dbg:p(P, [call, timestamp]) || P <- workers()],
                      [{ok, _} = dbg:tpl(M, F, A, ?RETURNS)
                       || {M, F, A} <- ?FNS]
              end).

with(Module, Fun) ->
    case code:ensure_loaded(Module) of
        {module, _} -> Fun(), ok;
        {error, _} -> missing
    end.

%% Those that serve and their partners.
workers() ->
    Serve = persistent_term:get({bench_node, load}),
    Serve ++ lists:append([element(2, process_info(P, links)) || P <- Serve]).

%% Calls and their time by function, as one would write it.
tally(Open, Sums) ->
    receive
        {trace_ts, Pid, call, {M, F, Args}, At} ->
            Call = {{M, F, length(Args)}, At},
            Stack = maps:get(Pid, Open, []),
            tally(Open#{Pid => [Call | Stack]}, Sums);
        {trace_ts, Pid, return_from, MFA, _, At} ->
            case Open of
                #{Pid := [{MFA, From} | Stack]} ->
                    {N, Ns} = maps:get(MFA, Sums, {0, 0}),
                    tally(Open#{Pid => Stack},
                          Sums#{MFA => {N + 1, Ns + At - From}});
                _ ->
                    tally(Open, Sums)
            end
    end.
