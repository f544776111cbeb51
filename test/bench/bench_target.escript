#!/usr/bin/env escript
%% bench_target.escript BUILD_DIR - what kprofd costs a target, in CPU time.
%%
%% One node, the same work again and again: without kprofd, with every
%% function armed and next to nothing sampled, and with every request traced, by
%% either probe.
%% What is compared is CPU time of the node's process in one run, so that a
%% noisy machine blurs the figures but does not bend them.
-mode(compile).

-define(ROUNDS, 5).
-define(REQUESTS, 40000).
-define(WORKERS, 4).
-define(BURST, 10).
-define(MARKS, 10000000).

main([Build]) ->
    Dir = filename:join(Build, "bench_target"),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    Cookie = integer_to_list(rand:uniform(1 bsl 60)),
    CookieFile = filename:join(Dir, "cookie"),
    ok = file:write_file(CookieFile, Cookie),
    ok = file:change_mode(CookieFile, 8#600),
    Node = list_to_atom("kprof_bench_" ++ os:getpid() ++ "@127.0.0.1"),
    {0, _} = sh("erlc -o " ++ Dir ++ " test/bench/bench_node.erl "
                "erlang/kprof/src/kprof.erl"),
    Port = open_port({spawn_executable, os:find_executable("erl")},
                     [{args, ["-noinput", "-name", atom_to_list(Node),
                              "-setcookie", Cookie, "-hidden", "-pa", Dir]},
                      exit_status, binary]),
    {ok, _} = net_kernel:start(['kprof_bench_ctl@127.0.0.1',
                                longnames]),
    erlang:set_cookie(list_to_atom(Cookie)),
    connect(Node, 100),
    try
        bench(Node, Build, Dir, CookieFile),
        bench_marks(Node, Build, Dir, CookieFile)
    after
        rpc:call(Node, erlang, halt, [0]),
        catch port_close(Port)
    end.

connect(Node, 0) ->
    error({cannot_connect, Node});
connect(Node, N) ->
    case net_kernel:hidden_connect_node(Node) of
        true -> ok;
        _ -> timer:sleep(100), connect(Node, N - 1)
    end.

bench(Node, Build, Dir, CookieFile) ->
    io:format("target: OTP ~s, ~b requests of ~b calls a round, ~b rounds, "
              "medians of CPU time~n",
              [rpc:call(Node, erlang, system_info, [otp_release]), ?REQUESTS,
               rpc:call(Node, bench_node, calls_per_request, []), ?ROUNDS]),
    run(Node),
    Rounds = [round(Node, Build, Dir, CookieFile)
              || _ <- lists:seq(1, ?ROUNDS)],
    [Plain | Traced] = columns(Rounds),
    io:format("untraced                 ~8.2f us a request~n",
              [Plain / ?REQUESTS]),
    {Relay, Native} = lists:split(4, Traced),
    EachRelay = told("relay", Plain, Relay),
    EachNative = told("native", Plain, Native),
    io:format("an event, native to relay: ~.2f~n", [EachNative / EachRelay]).

told(Probe, Plain, [Armed, All, Daemon, Events]) ->
    Each = (All - Plain) / Events,
    io:format("~s~n", [Probe]),
    io:format("  armed, 1 in 65536      ~8.2f us a request, ratio ~.2f, "
              "~.2f us an armed call~n",
              [Armed / ?REQUESTS, Armed / Plain,
               (Armed - Plain) / (?REQUESTS * 10)]),
    io:format("  every request traced   ~8.2f us a request, ratio ~.2f, "
              "~.2f us an event~n", [All / ?REQUESTS, All / Plain, Each]),
    io:format("  kprofd itself          ~8.2f us a request, ~.2f us an "
              "event~n", [Daemon / ?REQUESTS, Daemon / Events]),
    Each.

%% kprof:set_token/0 by itself, and with kprof:clear_token/0 after it; less what
%% the loop around them costs.
bench_marks(Node, Build, Dir, CookieFile) ->
    Run = fun(N, Burst, Clear) ->
                  median([rpc:call(Node, bench_node, marks, [N, Burst, Clear])
                          || _ <- lists:seq(1, ?ROUNDS)])
          end,
    Ns = fun(N, Burst, Clear) ->
                 (Run(N, Burst, Clear) - Run(N, Burst, none)) * 1000 / N
         end,
    Under = fun(Sampling, N, Burst, Clear) ->
                    Conf = ["[{marked, \"kprof\"}]. {sampling, ", Sampling,
                            "}.\n"],
                    {Cost, _, _} = profiled("relay", Node, Build, Dir,
                                            CookieFile, Conf,
                                            fun() -> Ns(N, Burst, Clear) end),
                    Cost
            end,
    Once = fun(Clear) -> Ns(?MARKS, ?MARKS, Clear) end,
    Few = fun(Clear) -> Under("{one_in, 65536}", ?MARKS div 10, ?MARKS div 10,
                              Clear)
          end,
    io:format("kprof:set_token/0        nobody profiling ~.1f ns, with "
              "clear_token ~.1f ns~n", [Once(false), Once(true)]),
    io:format("                         not sampled ~.1f ns, with clear_token "
              "~.1f ns~n", [Few(false), Few(true)]),
    io:format("                         sampled, with clear_token ~.1f ns "
              "(four events)~n",
              [Under("all", ?REQUESTS div 4, 50, true)]).

columns(Rounds) ->
    [median([lists:nth(I, R) || R <- Rounds])
     || I <- lists:seq(1, length(hd(Rounds)))].

median(L) ->
    lists:nth((length(L) + 1) div 2, lists:sort(L)).

run(Node) ->
    rpc:call(Node, bench_node, run, [?WORKERS, ?REQUESTS, ?BURST]).

%% All in turn, so that a slow minute hits them alike.
round(Node, Build, Dir, CookieFile) ->
    Plain = run(Node),
    Run = fun() -> run(Node) end,
    [Plain | lists:append(
               [begin
                    {Armed, _, _} = profiled(Probe, Node, Build, Dir, CookieFile,
                                             tiers("{one_in, 65536}"), Run),
                    {All, Daemon, Events} = profiled(Probe, Node, Build, Dir,
                                                     CookieFile, tiers("all"),
                                                     Run),
                    [Armed, All, Daemon, Events]
                end || Probe <- ["relay", "native"]])].

profiled(Probe, Node, Build, Dir, CookieFile, Conf, Run) ->
    Tiers = filename:join(Dir, "tiers.conf"),
    Db = filename:join(Dir, "bench.db"),
    ok = file:write_file(Tiers, Conf),
    _ = [file:delete(Db ++ E) || E <- ["", "-wal", "-shm", ".sock"]],
    Port = open_port({spawn_executable, filename:join(Build, "kprofd")},
                     [{args, ["-target", atom_to_list(Node), "-tiers", Tiers,
                              "-cookie-file", CookieFile, "-db", Db,
                              "-probe", Probe]},
                      exit_status, stderr_to_stdout, {line, 1000}, binary]),
    wait_line(Port, <<"profiling">>),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    {Before, Sent0} = {daemon_us(Node, Pid), events(Node)},
    Cpu = Run(),
    timer:sleep(300),
    {After, Sent1} = {daemon_us(Node, Pid), events(Node)},
    {0, _} = sh("kill -TERM " ++ integer_to_list(Pid)),
    wait_exit(Port),
    {Cpu, After - Before, max(1, Sent1 - Sent0)}.

%% Read by the target, which is on this machine and has the code for it.
daemon_us(Node, Pid) ->
    rpc:call(Node, bench_node, cpu_us, [integer_to_list(Pid)]).

events(Node) ->
    #{events_sent := N, events_dropped := 0} =
        rpc:call(Node, kprof_agent, status, []),
    N.

tiers(Sampling) ->
    ["{tiers, [",
     lists:join(", ", ["{entry, {bench_node, entry, 1}}" |
                       [io_lib:format("{~c, {bench_node, tier_~c, 1}}",
                                      [C, C]) || C <- lists:seq($a, $i)]]),
     "]}.\n{sampling, ", Sampling, "}.\n"].

wait_line(Port, What) ->
    receive
        {Port, {data, {_, Line}}} ->
            case binary:match(Line, What) of
                nomatch -> wait_line(Port, What);
                _ -> ok
            end;
        {Port, {exit_status, S}} ->
            error({kprofd_ended, S})
    after 20000 ->
            error({no_line, What})
    end.

wait_exit(Port) ->
    receive
        {Port, {exit_status, 0}} -> ok;
        {Port, {exit_status, S}} -> error({kprofd_ended, S});
        {Port, _} -> wait_exit(Port)
    after 20000 ->
            error(kprofd_does_not_end)
    end.

sh(Cmd) ->
    Port = open_port({spawn, Cmd}, [exit_status, stderr_to_stdout, binary]),
    sh_wait(Port, []).

sh_wait(Port, Acc) ->
    receive
        {Port, {data, D}} -> sh_wait(Port, [Acc, D]);
        {Port, {exit_status, S}} -> {S, iolist_to_binary(Acc)}
    end.
