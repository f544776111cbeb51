%% bench_rival - what else one would use in a target to see where time goes: started and
%% stopped around a load of bench_node's.
%%
%% All but fprof and eprof look at the same six calls of a request that kprofd
%% is told of. fprof traces whatever a process calls; eprof takes one module. Spans are code of the
%% application: by hand, which go to a table that is emptied, or OpenTelemetry's, whose exporter
%% here drops them.
-module(bench_rival).

-export([start/2, stop/1]).
-export([handle/2, stored/2]).
-export([init/1, export/4, shutdown/1]).

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
start(spans, _) ->
    Asks = self(),
    register(?MODULE, spawn(fun() ->
                                    _ = ets:new(?MODULE, [named_table, public, {write_concurrency, true}]),
                                    Asks ! table,
                                    emptied()
                            end)),
    receive table -> ok end,
    instrument(hand);
start({otel, Ratio}, _) ->
    _ = application:load(opentelemetry),
    [ok = application:set_env(opentelemetry, K, V)
     || {K, V} <- [{sampler, {parent_based, #{root => {trace_id_ratio_based, Ratio}}}},
                   {processors, [{otel_batch_processor, #{exporter => {?MODULE, none}}}]}]],
    case application:ensure_all_started(opentelemetry) of
        {ok, _} -> instrument(otel);
        {error, _} -> missing
    end;
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
stop(spans) ->
    instrument(none),
    exit(whereis(?MODULE), kill);
stop({otel, _}) ->
    instrument(none),
    [application:stop(A) || A <- [opentelemetry, opentelemetry_api]];
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

%% ------------------------------------------------- the application's own ----

instrument(none) ->
    _ = persistent_term:erase({bench_node, handles}),
    timer:sleep(100);           % requests under way
instrument(How) ->
    persistent_term:put(?MODULE, How),
    persistent_term:put({bench_node, handles}, ?MODULE),
    ok.

%% As bench_node has it.
handle(Partner, Turns) ->
    within(handle, fun() ->
                           A = within(parse, fun() -> bench_node:parse(Turns) end),
                           Ref = make_ref(),
                           Partner ! {self(), Ref, Turns, context()},
                           B = receive {Ref, Stored} -> Stored end,
                           C = within(count, fun() -> bench_node:count(Turns) end),
                           A + B + C
                   end).

stored(Turns, Context) ->
    Was = attach(Context),
    A = within(store, fun() -> bench_node:store(Turns) end),
    B = within(store, fun() -> bench_node:store(Turns) end),
    C = within(render, fun() -> bench_node:render(Turns) end),
    detach(Was),
    A + B + C.

context() ->
    case persistent_term:get(?MODULE) of
        hand -> get(span);
        otel -> otel_ctx:get_current()
    end.

attach(Context) ->
    case persistent_term:get(?MODULE) of
        hand -> put(span, Context);
        otel -> otel_ctx:attach(Context)
    end.

detach(Was) ->
    case persistent_term:get(?MODULE) of
        hand -> put(span, Was);
        otel -> otel_ctx:detach(Was)
    end.

within(Name, Fun) ->
    case persistent_term:get(?MODULE) of
        hand -> by_hand(Name, Fun);
        otel -> otel_tracer:with_span(opentelemetry:get_tracer(?MODULE), Name, #{}, fun(_) -> Fun() end)
    end.

by_hand(Name, Fun) ->
    Id = rand:uniform(1 bsl 63),
    {Trace, _} = Parent = case get(span) of undefined -> {Id, none}; P -> P end,
    put(span, {Trace, Id}),
    From = erlang:monotonic_time(),
    try Fun()
    after
        ets:insert(?MODULE, {Id, Trace, Parent, Name, From, erlang:monotonic_time()}),
        case Parent of {_, none} -> erase(span); _ -> put(span, Parent) end
    end.

emptied() ->
    receive after 100 -> ets:delete_all_objects(?MODULE), emptied() end.

%% otel_exporter.
init(_) -> {ok, none}.
export(_, _, _, _) -> ok.
shutdown(_) -> ok.
