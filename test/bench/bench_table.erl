%% bench_table - what it costs an application to be looked at, by kprofd and by
%% what OTP has for that, in one run.
%%
%% One node serves requests of 50 us of work and six calls of five functions, in
%% two processes, as fast as it can. Each way has its turn in each of the
%% rounds, and is set against the same node untraced right before and after it,
%% so that whatever else the machine does hits both alike. Those that slow it by
%% factors have fewer turns.
-module(bench_table).

-export([run/4]).

-define(ROUNDS, 11).
-define(FEW, 3).
-define(MS, 400).
-define(SETTLE_MS, 300).
-define(EVENTS, 12).            % of a request: six calls, and their returns
-define(WORK, 4).               % parts of 200 us

%% Profiled(Probe, Conf, Run) runs kprofd around Run and says what that gives.
run(Node, Dir, Rivals, Profiled) ->
    Spins = rpc:call(Node, bench_node, calibrate, []) div ?WORK,
    Workers = 2 * rpc:call(Node, erlang, system_info, [schedulers_online]),
    ok = rpc:call(Node, bench_node, load, [Workers, Spins]),
    io:format("OTP ~s, ~b schedulers, load ~s; requests of 50 us and 6 calls, ~b workers; "
              "medians of ~b rounds of ~b ms, and what half of them are between~n~n",
              [rpc:call(Node, erlang, system_info, [otp_release]),
               Workers div 2, load_average(), Workers, ?ROUNDS, ?MS]),
    Ways = kprofd_ways(Profiled) ++ [rival(R, Node, Dir) || R <- Rivals],
    Turns = lists:append([[{Name, turn(Node, Way)} || {Name, Way} <- Ways,
                                                      Round =< rounds(Name)]
                          || Round <- lists:seq(1, ?ROUNDS)]),
    io:format("| way | throughput | half between | CPU of a request | "
              "more than untraced | by event |~n"
              "| --- | --- | --- | --- | --- | --- |~n"),
    [tell(Name, proplists:get_all_values(Name, Turns)) || {Name, _} <- Ways],
    ok = rpc:call(Node, bench_node, stop, []),
    io:format("~nload ~s at the end~n", [load_average()]).

rounds("eprof" ++ _) -> ?FEW;
rounds("fprof" ++ _) -> ?FEW;
rounds(_) -> ?ROUNDS.

load_average() ->
    {ok, Text} = file:read_file("/proc/loadavg"),
    lists:join(" ", lists:sublist(string:split(binary_to_list(Text), " ", all), 2)).

%% With it, between two times untraced.
turn(Node, Way) ->
    {RateA, CpuA} = rpc:call(Node, bench_node, over, [?MS]),
    case Way(fun() ->
                     timer:sleep(?SETTLE_MS),
                     rpc:call(Node, bench_node, over, [?MS])
             end) of
        missing -> missing;
        {Rate, Cpu} ->
            {RateB, CpuB} = rpc:call(Node, bench_node, over, [?MS]),
            {2 * Rate / (RateA + RateB), (CpuA + CpuB) / 2, Cpu}
    end.

%% The limits are those of no production: all is to be measured that there is.
conf(Sampling) ->
    ["{tiers, [{web, {bench_node, handle, 2}}, {parse, {bench_node, parse, 1}}, "
     "{db, {bench_node, store, 1}}, {html, {bench_node, render, 1}}, "
     "{count, {bench_node, count, 1}}]}.\n"
     "{overload, [{max_queue, 1000000}, {max_memory_mb, 1024}, {max_age_ms, 30000}]}.\n"
     "{sampling, ", Sampling, "}.\n"].

kprofd_ways(Profiled) ->
    [{"untraced", fun(Run) -> Run() end} |
     [{Probe ++ ", " ++ What,
       fun(Run) -> Profiled(Probe, conf(Sampling), Run) end}
      || Probe <- ["relay", "native"],
         {What, Sampling} <- [{"1 in 65536", "{one_in, 65536}"},
                              {"1 in 100", "{one_in, 100}"},
                              {"1 in 10", "{one_in, 10}"},
                              {"every request", "all"}]]].

rival({Name, Way}, Node, Dir) ->
    File = filename:join(Dir, "bench.trace"),
    {Name, fun(Run) -> rival_turn(Way, Node, File, Run) end}.

rival_turn(dbg_ip, Node, _, Run) ->
    {ok, Free} = gen_tcp:listen(0, []),
    {ok, Port} = inet:port(Free),
    gen_tcp:close(Free),
    around(dbg_ip, Node, Port,
           fun() ->
                   Reader = spawn_link(fun() -> discard(Port) end),
                   Got = Run(),
                   unlink(Reader),
                   exit(Reader, kill),
                   Got
           end);
rival_turn(Way, Node, File, Run) ->
    Got = around(Way, Node, File, Run),
    _ = file:delete(File),
    Got.

around(Way, Node, Arg, Run) ->
    case rpc:call(Node, bench_rival, start, [Way, Arg]) of
        ok ->
            Got = Run(),
            _ = rpc:call(Node, bench_rival, stop, [Way]),
            timer:sleep(?SETTLE_MS),
            Got;
        missing ->
            missing
    end.

%% What listens for the trace port.
discard(Port) ->
    {ok, S} = gen_tcp:connect("127.0.0.1", Port, [binary, {active, false}]),
    discard_all(S).

discard_all(S) ->
    case gen_tcp:recv(S, 0) of
        {ok, _} -> discard_all(S);
        {error, _} -> ok
    end.

tell(Name, [missing | _]) ->
    io:format("| ~s | not in this Erlang | | | | |~n", [Name]);
tell(Name, Turns) ->
    Rates = lists:sort([100 * (R - 1) || {R, _, _} <- Turns]),
    Cpus = lists:sort([C || {_, _, C} <- Turns]),
    More = lists:sort([C - C0 || {_, C0, C} <- Turns]),
    io:format("| ~s | ~s % | ~s to ~s | ~.1f us | ~s us | ~s |~n",
              [Name, signed(median(Rates)), signed(part(Rates, 1)),
               signed(part(Rates, 3)), median(Cpus), signed(median(More)),
               event(Name, More)]).

%% Only where each request has all of them.
event(Name, More) ->
    case lists:suffix("every request", Name) orelse
        lists:prefix("dbg", Name) orelse lists:prefix("process", Name) of
        true -> io_lib:format("~.2f us (~.2f to ~.2f)",
                              [Us / ?EVENTS || Us <- [median(More), part(More, 1),
                                                      part(More, 3)]]);
        false -> ""
    end.

signed(X) ->
    [[$+ || X > 0], io_lib:format("~.1f", [X])].

median(L) ->
    part(L, 2).

%% Of a sorted list, by quarters.
part(L, Quarter) ->
    lists:nth(1 + (length(L) - 1) * Quarter div 4, L).
