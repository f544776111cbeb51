%% bench_table - what it costs an application to be looked at, by kprofd and by
%% what OTP has for that, in one run.
%%
%% One node serves requests of 200 us of work and six calls of five functions, in
%% two processes, as fast as it can. Each way has its turn in each of the
%% rounds, and is set against the same node untraced right before and after it,
%% so that whatever else the machine does hits both alike. Those that slow it by
%% factors have fewer turns. Intervals are those of medians, by the sign test.
-module(bench_table).

-export([run/3]).

-define(FEW, 6).
-define(MS, 1000).
-define(SETTLE_MS, 300).
-define(SLICES_MS, {8000, 5000}).       % until they are of their size, and some of them
-define(EVENTS, 12).            % of a request: six calls, and their returns

%% Profiled(Probe, Conf, Run) runs kprofd around Run and says what that gives.
run(Node, Rivals, Profiled) ->
    Spins = rpc:call(Node, bench_node, calibrate, []),
    Rounds = list_to_integer(os:getenv("ROUNDS", "20")),
    Workers = 2 * rpc:call(Node, erlang, system_info, [schedulers_online]),
    ok = rpc:call(Node, bench_node, load, [Workers, Spins]),
    io:format("OTP ~s, ~b schedulers, load ~s; requests of 200 us and 6 calls, ~b workers; "
              "medians of ~b rounds of ~b ms, and what holds them in 95 of 100 cases~n~n",
              [rpc:call(Node, erlang, system_info, [otp_release]),
               Workers div 2, load_average(), Workers, Rounds, ?MS]),
    Ways = kprofd_ways(Profiled) ++ [rival(R, Node) || R <- Rivals],
    Turns = lists:append([[{Name, turn(Node, Name, Way)} || {Name, Way} <- Ways,
                                                      Round =< rounds(Name, Rounds)]
                          || Round <- lists:seq(1, Rounds)]),
    io:format("| way | throughput, % | CPU of a request, us more than untraced | by event, us |~n"
              "| --- | --- | --- | --- |~n"),
    [tell(Name, proplists:get_all_values(Name, Turns)) || {Name, _} <- Ways],
    ok = rpc:call(Node, bench_node, stop, []),
    io:format("~nload ~s at the end~n", [load_average()]).

rounds("eprof" ++ _, Rounds) -> min(?FEW, Rounds);
rounds("fprof" ++ _, Rounds) -> min(?FEW, Rounds);
rounds(_, Rounds) -> Rounds.

load_average() ->
    {ok, Text} = file:read_file("/proc/loadavg"),
    lists:join(" ", lists:sublist(string:split(binary_to_list(Text), " ", all), 2)).

%% With it, between two times untraced.
turn(Node, Name, Way) ->
    {RateA, CpuA} = rpc:call(Node, bench_node, over, [?MS]),
    {SettleMs, Ms} = case lists:suffix("defaults", Name) of
                         true -> ?SLICES_MS;
                         false -> {?SETTLE_MS, ?MS}
                     end,
    case Way(fun() ->
                     timer:sleep(SettleMs),
                     rpc:call(Node, bench_node, over, [Ms])
             end) of
        missing -> missing;
        {Rate, Cpu} ->
            {RateB, CpuB} = rpc:call(Node, bench_node, over, [?MS]),
            {2 * Rate / (RateA + RateB), (CpuA + CpuB) / 2, Cpu}
    end.

%% The limits are those of no production: all is to be measured that there is.
conf(defaults) ->
    "{tiers, [{web, {bench_node, handle, 2}}, {parse, {bench_node, parse, 1}}, "
        "{db, {bench_node, store, 1}}, {html, {bench_node, render, 1}}, "
        "{count, {bench_node, count, 1}}]}.\n";
conf(Sampling) ->
    [conf(defaults), "{overload, [{max_queue, 1000000}, {max_memory_mb, 1024}, {max_age_ms, 30000}]}.\n"
     "{budget, none}.\n{hot_share, none}.\n{sampling, ", Sampling, "}.\n"].

kprofd_ways(Profiled) ->
    [{"untraced", fun(Run) -> Run() end} |
     [{Probe ++ ", " ++ What,
       fun(Run) -> Profiled(Probe, conf(Sampling), Run) end}
      || Probe <- ["relay", "native"],
         {What, Sampling} <- [{"the defaults", defaults}, {"1 request in 100", "{one_in, 100}"},
                              {"every request", "all"}]]].

rival({Name, Way}, Node) ->
    File = "/tmp/bench.trace." ++ os:getpid(),   % in the target's root
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
    _ = rpc:call(Node, file, delete, [File]),
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
    io:format("| ~s | not in this Erlang | | |~n", [Name]);
tell(Name, Turns) ->
    More = [C - C0 || {_, C0, C} <- Turns],
    io:format("| ~s | ~s | ~s | ~s |~n",
              [Name, interval([100 * (R - 1) || {R, _, _} <- Turns]), interval(More),
               event(Name, [Us / ?EVENTS || Us <- More])]).

%% Only where each request has all of them.
event(Name, Each) ->
    case lists:suffix("every request", Name) orelse
        lists:prefix("dbg", Name) orelse lists:prefix("process", Name) of
        true -> interval(Each);
        false -> ""
    end.

interval(L) ->
    S = lists:sort(L),
    {Low, High} = bench_shop:interval(S),
    io_lib:format("~s (~s to ~s)", [signed(X) || X <- [lists:nth((length(S) + 1) div 2, S), Low, High]]).

signed(X) when abs(X) < 10 -> [[$+ || X > 0], io_lib:format("~.2f", [X])];
signed(X) -> [[$+ || X > 0], io_lib:format("~.1f", [X])].
