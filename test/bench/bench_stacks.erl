%% bench_stacks - what it costs a busy node that its stacks are sampled, by `kprof stacks` and by
%% kprofd, beside eprof, fprof and a full trace of the same work, in one run.
%%
%% One node serves requests as fast as it can. Each way has its turn in each of the rounds, between
%% two turns without it, so that whatever else the machine does hits both alike. What kprofd's
%% stacks cost is set against the same kprofd without them. Then a node of many processes, and
%% how long one of them is held up that wants to run every millisecond.
-module(bench_stacks).

-export([run/5, rank/1]).

-define(ROUNDS, 15).
-define(FEW, 3).                % of what slows it by factors
-define(MS, 500).
-define(SETTLE_MS, 500).
-define(RATE_MS, 2500).         % kprofd's sampling has found its rate by then
-define(WORKERS, 4).            % of a scheduler
-define(SHARE, "10").           % the most that `kprof stacks` may take
-define(LIMITS, " -max-queue 1000000 -max-memory 4096 -max-events 1000000").
-define(CROWD, 300000).
-define(CROWD_TURNS, 5).
-define(CROWD_FOR, "5s").

%% Kprof(Command): its line for this node; Status(): what kprofd says; Reload(Conf) has kprofd read
%% it; Profiled(Conf, Run) has kprofd there while Run() runs; Library: the native probe's option.
run(Node, Dir, Library, Kprof, #{status := Status, reload := Reload, profiled := Profiled}) ->
    Spins = rpc:call(Node, bench_node, calibrate, []),
    Workers = ?WORKERS * rpc:call(Node, erlang, system_info, [schedulers_online]),
    ok = rpc:call(Node, bench_node, load, [Workers, Spins]),
    io:format("OTP ~s, ~b schedulers, load ~s; requests of 200 us and 6 calls, ~b workers; turns of ~b ms, ~b rounds"
              " (~b of eprof, fprof and traces);~nmedians, and what holds them in 95 of 100 cases "
              "(of ~b rounds: the least and the most)~n~n"
              "| way | stacks a second, of a scheduler | throughput | between | CPU of a request | between |~n"
              "| --- | --- | --- | --- | --- | --- |~n",
              [rpc:call(Node, erlang, system_info, [otp_release]), Workers div ?WORKERS, load_average(),
               Workers, ?MS, ?ROUNDS, ?FEW, ?FEW]),
    Base = fun() -> measured(Node) end,
    rounds(?ROUNDS, Base, [{"nothing", fun() -> {measured(Node), none} end} | sampled(Node, Kprof)]),
    kprofd(Node, Status, Reload, Profiled),
    rounds(?FEW, Base, full(Node, Dir, Library, Kprof, [Workers, Spins])),
    ok = rpc:call(Node, bench_node, stop, []),
    io:format("~nload ~s at the end~n", [load_average()]),
    crowd(Node, Kprof).

load_average() ->
    {ok, Text} = file:read_file("/proc/loadavg"),
    lists:join(" ", lists:sublist(string:split(binary_to_list(Text), " ", all), 2)).

%% Each way between two turns of Base, which it shares with its neighbours.
rounds(N, Base, Ways) ->
    {Turns, _} = lists:mapfoldl(fun({Name, Way}, Before) ->
                                        {With, Stacks} = Way(),
                                        After = Base(),
                                        {{Name, {more(With, Before, After), Stacks}}, After}
                                end, Base(), lists:append(lists:duplicate(N, Ways))),
    [tell(Name, proplists:get_all_values(Name, Turns)) || {Name, _} <- Ways].

%% Of throughput, and of the CPU time of a request, in percent.
more(early, _, _) ->
    early;
more({Rate, Cpu}, {RateA, CpuA}, {RateB, CpuB}) ->
    {100 * (2 * Rate / (RateA + RateB) - 1), 100 * (2 * Cpu / (CpuA + CpuB) - 1)}.

measured(Node) ->
    timer:sleep(?SETTLE_MS),
    rpc:call(Node, bench_node, over, [?MS]).

tell(Name, Turns) ->
    case lists:keymember(early, 1, Turns) of
        true -> io:format("| ~s | - | ended early, by its limits | | | |~n", [Name]);
        false -> tell_figures(Name, Turns)
    end.

tell_figures(Name, Turns) ->
    {Rates, Cpus} = lists:unzip([More || {More, _} <- Turns]),
    Stacks = case [S || {_, S} <- Turns] of
                 [none | _] -> "-";
                 Each -> {PerSecond, Percent} = lists:unzip(Each),
                         io_lib:format("~b, ~.2f %", [round(mean(PerSecond)), mean(Percent)])
             end,
    io:format("| ~s | ~s | ~s | ~s |~n", [Name, Stacks, spread(Rates), spread(Cpus)]).

spread(Values) ->
    Sorted = lists:sort(Values),
    K = rank(length(Values)),
    io_lib:format("~s % | ~s to ~s", [signed(median(Sorted)), signed(lists:nth(K, Sorted)),
                                      signed(lists:nth(length(Values) + 1 - K, Sorted))]).

%% The k-th and the k-th last of N hold the median in at least 95 of 100 cases: as often as of N
%% throws of a coin neither fewer than k nor more than N - k show its head.
rank(N) -> rank(N, 1, 1 / math:pow(2, N)).

rank(N, K, Below) ->
    More = Below + binomial(N, K) / math:pow(2, N),
    if More > 0.025 -> K;
       true -> rank(N, K + 1, More)
    end.

binomial(_, 0) -> 1;
binomial(N, K) -> binomial(N - 1, K - 1) * N div K.

signed(X) ->
    [[$+ || X > 0], io_lib:format("~.1f", [float(X)])].

median(Sorted) ->
    lists:nth((length(Sorted) + 1) div 2, Sorted).

mean(L) ->
    lists:sum(L) / length(L).

%% -------------------------------------------------------- kprof stacks ----

sampled(Node, Kprof) ->
    [{["`kprof stacks`, ", PerSecond, " a second", Said],
      fun() ->
              {Got, Json} = during(Kprof("stacks") ++ " -json -per-second " ++ PerSecond ++ Share, Node),
              {Got, taken(Json)}
      end}
     || {PerSecond, Share, Said} <- [{N, " -share " ++ ?SHARE, ""} || N <- ["10", "100", "1000"]] ++
            [{"1000", "", ", default share"}]].

%% While the command is at work; early: it ended before, for its limits.
during(Line, Node) ->
    Port = open_port({spawn, lists:flatten(Line)}, [exit_status, stderr_to_stdout, binary]),
    Begun = begun(Port, <<>>),
    Got = measured(Node),
    case erlang:port_info(Port, os_pid) of
        {os_pid, Pid} ->
            "" = os:cmd("kill -INT " ++ integer_to_list(Pid)),
            {Got, ended(Port, [Begun])};
        undefined ->
            {early, ended(Port, [Begun])}
    end.

begun(Port, Said) ->
    case binary:match(Said, <<"Ctrl-C ends it">>) of
        nomatch ->
            receive
                {Port, {data, Data}} -> begun(Port, <<Said/binary, Data/binary>>);
                {Port, {exit_status, Status}} -> error({kprof, Status, Said})
            end;
        _ -> Said
    end.

ended(Port, Said) ->
    receive
        {Port, {data, Data}} -> ended(Port, [Said, Data]);
        {Port, {exit_status, _}} -> iolist_to_binary(Said)
    end.

%% Stacks a second, and percent of one scheduler, as kprof says.
taken(Json) ->
    Ms = number(Json, "elapsed_ms"),
    {1000 * number(Json, "samples") / Ms, 100 * number(Json, "sampling_ms") / Ms}.

%% The first of that name.
number(Json, Name) ->
    {match, [Digits]} = re:run(Json, "\"" ++ Name ++ "\": *([0-9.]+)", [{capture, all_but_first, list}]),
    {Number, _} = string:to_float(case lists:member($., Digits) of true -> Digits; false -> Digits ++ ".0" end),
    Number.

%% -------------------------------------------------------------- kprofd ----

%% Nothing but the stacks is to change it: no limit, and no overload.
conf(Stacks) ->
    ["{tiers, [{web, {bench_node, handle, 2}}, {parse, {bench_node, parse, 1}}, "
     "{db, {bench_node, store, 1}}, {html, {bench_node, render, 1}}, {count, {bench_node, count, 1}}]}.\n"
     "{overload, [{max_queue, 1000000}, {max_memory_mb, 1024}, {max_age_ms, 30000}]}.\n"
     "{budget, none}.\n{hot_share, none}.\n{sampling, {one_in, 4}}.\n{stacks, ", Stacks, "}.\n"].

kprofd(Node, Status, Reload, Profiled) ->
    rounds(?ROUNDS, fun() -> measured(Node) end,
           [{"kprofd, one request in 4, no stacks",
             fun() -> {Profiled(conf("none"), fun() -> timer:sleep(?RATE_MS), measured(Node) end), none} end}]),
    io:format("| *against that kprofd:* | | | | | |~n"),
    Way = fun(Stacks) ->
                  fun() ->
                          {_, _, Old} = counted(Status),
                          Reload(conf(Stacks)),
                          timer:sleep(?SETTLE_MS),
                          {Ms0, N0, Us0} = counted_anew(Old, Status, 250),
                          Got = measured(Node),
                          {Ms1, N1, Us1} = counted(Status),
                          {Got, {1000 * (N1 - N0) / (Ms1 - Ms0), (Us1 - Us0) / (10 * (Ms1 - Ms0))}}
                  end
          end,
    Ways = [{["with stacks, ", N, " a second"], Way(["[{per_second, ", N, "}, {percent, ", ?SHARE, "}]"])}
            || N <- ["10", "100", "1000"]] ++
        [{"with stacks, 1000 a second, default share", Way("{per_second, 1000}")}],
    Profiled(conf("none"),
             fun() ->
                     timer:sleep(?RATE_MS),
                     rounds(?ROUNDS, fun() -> Reload(conf("none")), timer:sleep(?SETTLE_MS), measured(Node) end, Ways)
             end).

counted(Status) ->
    Said = Status(),
    {erlang:monotonic_time(millisecond), number(Said, "taken"), number(Said, "busy_us")}.

%% Until a new sampler reports, the figures are those of the one before it.
counted_anew(Old, Status, Looks) ->
    case counted(Status) of
        {_, _, Old} when Looks > 0 -> timer:sleep(20), counted_anew(Old, Status, Looks - 1);
        {_, _, Us} = New when Us =/= Old -> New
    end.

%% -------------------------------------------------------- full profiles ----

%% eprof has the functions of one module, fprof all that the processes call. kprof trace has the six
%% calls of a request: with each turn of the loop in them, which is one, too, it has as many events
%% as a trace may have before anything could be measured.
full(Node, Dir, Library, Kprof, Load) ->
    File = filename:join(Dir, "bench.trace"),
    Trace = fun(Probe) ->
                    fun() ->
                            {Got, _} = during([Kprof("trace"), ?LIMITS, " -o ", File, Probe,
                                               " -exclude bench_node:turn/2 bench_node"], Node),
                            {Got, none}
                    end
            end,
    [{"eprof", rival(eprof, Node, File, Load)},
     {"`kprof trace`, native", Trace([" -probe native ", Library])},
     {"`kprof trace`, relay", Trace(" -probe relay")},
     {"fprof", rival(fprof, Node, File, Load)}].

%% The load is over before they stop: under it fprof takes minutes for that, and gigabytes.
rival(Way, Node, File, Load) ->
    fun() ->
            ok = rpc:call(Node, bench_rival, start, [Way, File]),
            Got = measured(Node),
            ok = rpc:call(Node, bench_node, stop, []),
            _ = rpc:call(Node, bench_rival, stop, [Way]),
            ok = rpc:call(Node, bench_node, load, Load),
            _ = file:delete(File),
            {Got, none}
    end.

%% -------------------------------------------------------------- a crowd ----

crowd(Node, Kprof) ->
    Crowd = rpc:call(Node, it_ticker, crowd, [?CROWD]),
    _ = rpc:call(Node, it_ticker, start, []),
    Turns = [crowd_turn(Node, Kprof("stacks")) || _ <- lists:seq(1, ?CROWD_TURNS)],
    {With, Without} = lists:unzip(Turns),
    io:format("~n~b processes; longest gaps of a ticker of 1 ms, in ~b turns, ms~n"
              "    with `kprof stacks -for ~s`  ~s~n    without, for as long         ~s~n",
              [?CROWD, ?CROWD_TURNS, ?CROWD_FOR, ms(With), ms(Without)]),
    ok = rpc:call(Node, it_ticker, stop, []),
    _ = rpc:call(Node, it_ticker, disperse, [Crowd]).

ms(Gaps) ->
    lists:join(" ", [io_lib:format("~.1f", [Us / 1000]) || Us <- lists:sort(Gaps)]).

%% From before it connects until it is gone.
crowd_turn(Node, Kprof) ->
    _ = rpc:call(Node, it_ticker, longest_us, []),
    Begin = erlang:monotonic_time(millisecond),
    Said = os:cmd(lists:flatten([Kprof, " -for ", ?CROWD_FOR, "; echo status $?"])),
    string:find(Said, "status 0") =/= nomatch orelse error({kprof, Said}),
    With = rpc:call(Node, it_ticker, longest_us, []),
    timer:sleep(erlang:monotonic_time(millisecond) - Begin),
    {With, rpc:call(Node, it_ticker, longest_us, [])}.
