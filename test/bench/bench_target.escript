#!/usr/bin/env escript
%% bench_target.escript BUILD_DIR [ROOT] - what kprofd costs a target.
%% bench_target.escript -table BUILD_DIR [ROOT] - and what others cost it.
%% bench_target.escript -calls BUILD_DIR [ROOT] - kprof's counters and full traces.
%% bench_target.escript -stacks BUILD_DIR [ROOT] - what sampled stacks cost.
%% bench_target.escript -crowd BUILD_DIR [ROOT] - a node of 300,000 processes.
%% bench_target.escript -shop BUILD_DIR [ROOT] - what kprofd costs a web shop.
%% bench_target.escript -full BUILD_DIR [ROOT] - what the defaults cost at full load; other ways by name.
%% bench_target.escript -token BUILD_DIR [ROOT] - what the test of a token costs, alone.
%%
%% One node, the same work again and again: without kprofd, with every
%% function armed and next to nothing sampled, and with every request traced, by
%% either probe.
%% What is compared is CPU time of the node's process in one run, so that a
%% noisy machine blurs the figures but does not bend them. Then the same node
%% under all the load that it can bear, and what it does when that is too much.
%%
%% With ROOT the target runs in the Erlang of that root file system.
-mode(compile).

-define(ROUNDS, 5).
-define(REQUESTS, 40000).
-define(WORKERS, 4).
-define(BURST, 10).
-define(MARKS, 10000000).
-define(AGES_S, 6).

main(["-table", Build]) ->
    main(["-table", Build, none]);
main(["-table", Build, Root]) ->
    with_node(Build, Root, fun table/4);
main(["-calls", Build]) ->
    main(["-calls", Build, none]);
main(["-calls", Build, Root]) ->
    with_node(Build, Root, fun(Node, B, Dir, CookieFile) -> calls(Node, B, Dir, CookieFile, Root) end);
main(["-stacks", Build]) ->
    main(["-stacks", Build, none]);
main(["-stacks", Build, Root]) ->
    with_node(Build, Root, fun(Node, B, Dir, CookieFile) -> stacks(Node, B, Dir, CookieFile, Root) end);
main(["-crowd", Build]) ->
    main(["-crowd", Build, none]);
main(["-crowd", Build, Root]) ->
    with_node(Build, Root, fun crowd/4);
main(["-full", Build]) ->
    main(["-full", Build, none]);
main(["-full", Build, Root]) ->
    with_node(Build, Root, fun bench_full/4);
main(["-token", Build]) ->
    main(["-token", Build, none]);
main(["-token", Build, Root]) ->
    with_node(Build, Root, fun bench_token/4);
main(["-shop", Build]) ->
    main(["-shop", Build, none]);
main(["-shop", Build, Root]) ->
    with_node(Build, Root, fun shop/4);
main([Build]) ->
    main([Build, none]);
main([Build, Root]) ->
    with_node(Build, Root,
              fun(Node, B, Dir, CookieFile) ->
                      bench(Node, B, Dir, CookieFile),
                      bench_marks(Node, B, Dir, CookieFile),
                      bench_token(Node, B, Dir, CookieFile),
                      bench_full(Node, B, Dir, CookieFile),
                      bench_ages(Node, B, Dir, CookieFile),
                      bench_trip(Node, B, Dir, CookieFile)
              end).

table(Node, Build, Dir, CookieFile) ->
    true = code:add_patha(Dir),
    Rivals = [{"process tracer that adds up", process},
              {"dbg, IP trace port", dbg_ip},
              {"dbg, file port", dbg_file},
              {"call_time (tprof)", call_time},
              {"spans by hand, each", spans},
              {"OpenTelemetry, 1 % of traces", {otel, 0.01}}, {"OpenTelemetry, each span", {otel, 1.0}},
              {"eprof, the module", eprof}, {"fprof", fprof}],
    Profiled = fun(Probe, Conf, Run) ->
                       {Got, _, _} = profiled(Probe, Node, Build, Dir,
                                              CookieFile, Conf, Run),
                       Got
               end,
    bench_table:run(Node, Rivals, Profiled).

calls(Node, Build, Dir, CookieFile, Root) ->
    true = code:add_patha(Dir),
    bench_calls:run(Node, Dir, kprof_line(Node, Build, CookieFile), library_option(Build, Root)).

%% A web shop with each term of what tracing costs, one after the other.
shop(Node, Build, Dir, _) ->
    Conf = filename:join(Dir, "shop.conf"),
    ok = file:write_file(Conf, "{entry, {bench_shop, handle, 2}}.\n{tiers, [{t, {bench_shop, authorize, 1}}]}.\n"),
    Entry = maps:from_list([{N, spec(Build, ["entry ", Conf, " bench_shop handle 2 ", integer_to_list(N)], Conf)}
                            || N <- [4, 65536]]),
    Tier = spec(Build, ["tier ", Conf, " bench_shop authorize 1"], Conf),
    Rounds = list_to_integer(os:getenv("ROUNDS", "40")),
    Rows = rpc:call(Node, bench_shop, run, [Entry, Tier, Rounds], infinity),
    io:format("target: OTP ~s, a web shop, ~b rounds: CPU time of a request more than without tracing, us~n",
              [rpc:call(Node, erlang, system_info, [otp_release]), Rounds]),
    [io:format("~-22s ~7.2f (~.2f to ~.2f) of ~.1f; ~.1f switches, ~.2f events~n",
               [Name, More, From, To, Of, Switches, Events])
     || {Name, More, {From, To}, Of, Switches, Events} <- Rows].

%% The shell's line for a command of kprof that is about this node.
kprof_line(Node, Build, CookieFile) ->
    fun(Command) ->
            lists:join(" ", [filename:join(Build, "kprof"), Command, "-target", atom_to_list(Node),
                             "-cookie-file", CookieFile])
    end.

%% Where the node finds the native probe of kprof trace.
library_option(Build, none) ->
    "-probe-library " ++ filename:absname(Build) ++ "/kprof_calls_probe.so";
library_option(_, _) ->
    "-probe-library " ++ place() ++ "/kprof_calls_probe.so".

stacks(Node, Build, Dir, CookieFile, Root) ->
    true = code:add_patha(Dir),
    Kprofd = fun(Command) ->
                     {0, Said} = sh(Build ++ "/kprof " ++ Command ++ " -db " ++ filename:join(Dir, "bench.db")),
                     Said
             end,
    bench_stacks:run(Node, Dir, library_option(Build, Root), kprof_line(Node, Build, CookieFile),
                     #{status => fun() -> Kprofd("status -json") end,
                       reload => fun(Conf) ->
                                         ok = file:write_file(filename:join(Dir, "tiers.conf"), Conf),
                                         Kprofd("reload")
                                 end,
                       profiled => fun(Conf, Run) ->
                                           {Got, _, _} = profiled("relay", Node, Build, Dir, CookieFile, Conf, Run),
                                           Got
                                   end}).

crowd(Node, Build, Dir, CookieFile) ->
    true = code:add_patha(Dir),
    Limits = "{overload, [{max_queue, 100}, {pause_s, 600}]}.\n",
    Reloaded = fun(Sampling) ->
                       ok = file:write_file(filename:join(Dir, "tiers.conf"),
                                            ["{tiers, [{entry, {bench_node, entry, 1}}, "
                                             "{a, {bench_node, tier_a, 1}}]}.\n{sampling, ", Sampling, "}.\n", Limits])
               end,
    Kprof = fun(Command) ->
                    {0, _} = sh(Build ++ "/kprof " ++ Command ++ " -db " ++ filename:join(Dir, "bench.db"))
            end,
    bench_crowd:run(Node, [tiers("all"), Limits], Reloaded, Kprof,
                    fun(Conf, Run) -> profiled("relay", Node, Build, Dir, CookieFile, Conf, Run) end).

with_node(Build, Root, Bench) ->
    Root =:= none orelse os:putenv("BENCH_ROOT", Root),
    Dir = filename:join(Build, "bench_target"),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    Cookie = integer_to_list(rand:uniform(1 bsl 60)),
    CookieFile = filename:join(Dir, "cookie"),
    ok = file:write_file(CookieFile, Cookie),
    ok = file:change_mode(CookieFile, 8#600),
    Node = list_to_atom("kprof_bench_" ++ os:getpid() ++ "@127.0.0.1"),
    {0, _} = sh("erlc -o " ++ Dir ++ " test/bench/bench_node.erl "
                "test/bench/bench_table.erl test/bench/bench_rival.erl "
                "test/bench/bench_work.erl test/bench/bench_calls.erl "
                "test/bench/bench_crowd.erl test/bench/bench_stacks.erl test/integration/it_ticker.erl "
                "test/bench/bench_token.erl test/bench/bench_shop.erl "
                "erlang/kprof/src/kprof.erl"),
    [{ok, _} = file:copy(F, filename:join(Dir, filename:basename(F)))
     || Libs <- [os:getenv("OPENTELEMETRY")], Libs =/= false, F <- filelib:wildcard(Libs ++ "/*/ebin/*")],
    {[Erl | Args], Place} = erl(Root, Build, Dir),
    Port = open_port({spawn_executable, os:find_executable("setpriv")},
                     [{args, ["--pdeathsig", "KILL", "--", Erl | Args] ++ ["-noinput", "-name", atom_to_list(Node),
                                      "-setcookie", Cookie, "-hidden", "+P", "1000000"] ++
                                      string:lexemes(os:getenv("BENCH_ERL", ""), " ") ++ ["-pa",
                                      Place]},
                      exit_status, binary]),
    Ctl = list_to_atom("kprof_bench_ctl_" ++ os:getpid() ++ "@127.0.0.1"),
    %% The target starts one as well, but maybe too late for us.
    {0, _} = sh("epmd -daemon"),
    {ok, _} = net_kernel:start([Ctl, longnames]),
    erlang:set_cookie(list_to_atom(Cookie)),
    connect(Node, 100),
    try
        Bench(Node, Build, Dir, CookieFile)
    after
        rpc:call(Node, erlang, halt, [0]),
        catch port_close(Port),
        Root =:= none orelse file:del_dir_r(Root ++ Place)
    end.

%% What starts the target's erl, and where it finds the code.
erl(none, _, Dir) ->
    {["erl"], Dir};
erl(Root, Build, Dir) ->
    Place = place(),
    ok = filelib:ensure_path(Root ++ Place),
    [{ok, _} = file:copy(F, Root ++ Place ++ "/" ++ filename:basename(F))
     || F <- [filename:join(Build, "kprof_calls_probe.so") | filelib:wildcard(Dir ++ "/*.{beam,app}")]],
    {["chroot", Root, "erl"], Place}.

place() ->
    "/tmp/kprof_bench." ++ os:getpid().

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
    {Relay, Native} = lists:split(7, Traced),
    EachRelay = told("relay", Plain, Relay),
    EachNative = told("native", Plain, Native),
    io:format("an event, native to relay: ~.2f~n", [EachNative / EachRelay]).

told(Probe, Plain, [Armed, All, Daemon, Events, Said, Some, SaidSome]) ->
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
    io:format("  kprofd's estimate      ~8.2f of what it was where every "
              "request is traced, ~.2f where one in 20 is~n",
              [Said / (All - Plain), SaidSome / (Some - Plain)]),
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

%% Of an event, and of calls that make none.
bench_token(Node, Build, Dir, _) ->
    Conf = filename:join(Dir, "token.conf"),
    ok = file:write_file(Conf, "[{t, \"bench_token\"}].\n"),
    Specs = maps:from_list([{Name, spec(Build, [Kind, " ", Conf, " bench_token tier 1 ", OneIn], Conf)}
                            || {Name, Kind, OneIn} <- [{tested, "tier", "1"}, {untested, "untested", "1"},
                                                       {entry, "entry", "1"}, {passed, "entry", "1000000"}]]),
    Label = (16#5A bsl 52) bor (1 bsl 42) bor 1000,
    Ns = rpc:call(Node, bench_token, run, [Specs, Label], infinity),
    [Plain, With, Foreign, None, Entry, Passed, Never] =
        [proplists:get_value(K, Ns) || K <- [untested, tested, foreign, none, entry, passed, never]],
    io:format("the test of a token      ~8b ns an event and its return, of ~b with it~n", [With - Plain, With]),
    io:format("                         a call with another's token ~b ns, without one ~b ns~n", [Foreign, None]),
    io:format("an entry's call          ~8b ns with its event and return, ~b not sampled, ~b if no clause matches~n",
              [Entry, Passed, Never]).

spec(Build, Args, Conf) ->
    Out = Conf ++ ".spec",
    {0, _} = sh(lists:flatten(["sh -c '", filename:join(Build, "test/specdump"), " ", Args, " > ", Out, "'"])),
    {ok, Bin} = file:read_file(Out),
    binary_to_term(Bin).

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
    [Plain | lists:append([traced(Probe, Node, Build, Dir, CookieFile, Run)
                           || Probe <- ["relay", "native"]])].

traced(Probe, Node, Build, Dir, CookieFile, Run) ->
    Profiled = fun(Sampling) ->
                       profiled(Probe, Node, Build, Dir, CookieFile,
                                tiers(Sampling), Run)
               end,
    {Armed, _, _} = Profiled("{one_in, 65536}"),
    {Some, _, _} = Profiled("{one_in, 20}"),
    SaidSome = estimate(Dir),
    {All, Daemon, Events} = Profiled("all"),
    [Armed, All, Daemon, Events, estimate(Dir), Some, SaidSome].

%% What kprofd reckons that the target paid in the last run, in us.
estimate(Dir) ->
    query(Dir, "sum(cost_ns) / 1e3").

query(Dir, What) ->
    {0, Text} = sh("sqlite3 " ++ filename:join(Dir, "bench.db") ++
                       " 'select " ++ What ++ " from cost'"),
    binary_to_float(string:trim(Text)).

%% The limits are those of no production: it is not to trip.
load_all() ->
    "{overload, [{max_queue, 1000000}, {max_memory_mb, 1024}, "
        "{max_age_ms, 30000}]}.\n{sampling, all}.\n".

load_tiers() ->
    "{tiers, [{web, {bench_node, handle, 2}}, {parse, {bench_node, parse, 1}}, "
        "{db, {bench_node, store, 1}}, {html, {bench_node, render, 1}}, "
        "{count, {bench_node, count, 1}}]}.\n".

%% What it costs is what is measured.
no_limits() ->
    "{budget, none}.\n{hot_share, none}.\n".

%% With and without in turn, now one first and now the other, so that whatever else the machine
%% does hits both alike. Without is paused: but for a counter on the entry, some 20 ns a request,
%% nothing is armed then.
pair(Node, Build, Dir, I, Load, Ms) ->
    Over = fun(Command) ->
                   {0, _} = sh(Build ++ "/kprof " ++ Command ++ " -db " ++
                                   filename:join(Dir, "bench.db")),
                   rpc:call(Node, Load, over, [Ms], infinity)
           end,
    case I rem 2 of
        0 -> A = Over("pause"), {A, Over("resume")};
        1 -> B = Over("resume"), {Over("pause"), B}
    end.

%% The defaults, and every request, under all the load that the node can bear: of a loop of 200 us
%% of work and six calls, and of a web shop (bench_shop). A turn has some slices of time, so it is
%% long; between two turns kprofd is paused, which leaves a counter of the entry.
bench_full(Node, Build, Dir, CookieFile) ->
    true = code:add_patha(Dir),
    Pairs = list_to_integer(os:getenv("PAIRS", "20")),
    Ms = list_to_integer(os:getenv("TURN_MS", "12000")),
    Probes = string:lexemes(os:getenv("BENCH_PROBES", "relay native"), " "),
    Turns = rpc:call(Node, bench_node, calibrate, []),
    Workers = 2 * rpc:call(Node, erlang, system_info, [schedulers_online]),
    ok = rpc:call(Node, bench_node, load, [Workers, Turns]),
    full(bench_node, "200 us of work, 6 calls", load_tiers(), Pairs, Ms, Probes, Node, Build, Dir, CookieFile),
    ok = rpc:call(Node, bench_node, stop, []),
    ok = rpc:call(Node, bench_shop, start, []),
    ok = rpc:call(Node, bench_shop, load, []),
    full(bench_shop, "a web shop", shop_tiers(), Pairs, Ms, Probes, Node, Build, Dir, CookieFile).

full(Load, Name, Tiers, Pairs, Ms, Probes, Node, Build, Dir, CookieFile) ->
    io:format("~s: OTP ~s, ~b pairs of ~b ms~n", [Name, rpc:call(Node, erlang, system_info, [otp_release]), Pairs, Ms]),
    [begin
         {Got, _, _} = profiled(Probe, Node, Build, Dir, CookieFile, [Tiers, Sampling],
                                fun() ->
                                        timer:sleep(Ms),
                                        [pair(Node, Build, Dir, I, Load, Ms) || I <- lists:seq(1, Pairs)]
                                end),
         Rates = [100 * (R1 / R0 - 1) || {{R0, _}, {R1, _}} <- Got],
         Cpus = [100 * (C1 / C0 - 1) || {{_, C0}, {_, C1}} <- Got],
         Plain = median([R || {{R, _}, _} <- Got]),
         Paid = lists:sum([(C1 - C0) * R1 * Ms / 1000 || {{_, C0}, {R1, C1}} <- Got]),
         io:format("~s untraced ~8b requests a second~n"
                   "                         throughput            ~s~n"
                   "                         CPU time of a request ~s~n",
                   [string:pad(What ++ ", " ++ Probe, 24), round(Plain), interval(Rates), interval(Cpus)]),
         %% of the turn before the first pair, too
         What =:= "every request" andalso
             io:format("                         kprofd's estimate     ~8.2f of what that is~n",
                       [estimate(Dir) * Pairs / (Pairs + 1) / Paid])
     end || {What, Sampling} <- [{"the defaults", ""}, {"every request", load_all() ++ no_limits()},
                                 {"one in 1000", "{sampling, {slices, 1000}}.\n" ++ no_limits()},
                                 {"and timed", "{sampling, {slices, 1000}}.\n{slow, always}.\n" ++ no_limits()}],
            lists:member(What, string:lexemes(os:getenv("WAYS", "the defaults,every request"), ",")),
            Probe <- Probes].

shop_tiers() ->
    "{entry, {bench_shop, handle, 2}}.\n"
        "{tiers, [{auth, {bench_shop, authorize, 1}}, {db, {bench_shop, query, 2}}, {total, {bench_shop, total, 1}},\n"
        " {html, [{bench_shop, render, 2}, {bench_shop, part, 1}, {bench_shop, format, 1}]}]}.\n".

%% The median, and what holds it in 95 of 100 cases.
interval(L) ->
    S = lists:sort(L),
    {From, To} = bench_shop:interval(S),
    io_lib:format("~8.2f % (~.2f to ~.2f)", [median(L), From, To]).

%% How old events are when they come to a daemon, under all the load that the node
%% can bear; build/test/record is one that looks at nothing else.
bench_ages(Node, Build, Dir, CookieFile) ->
    Turns = rpc:call(Node, bench_node, calibrate, []),
    Workers = 2 * rpc:call(Node, erlang, system_info, [schedulers_online]),
    ok = rpc:call(Node, bench_node, load, [Workers, Turns]),
    io:format("from an event to the daemon, the same load~n"),
    [io:format("  ~s, ~s~s", [Probe, string:pad(Sampled, 15), ages(Node, Build, Dir, CookieFile, How, Sampling)])
     || {Sampled, Sampling} <- [{"1 in 20:", "{one_in, 20}"}, {"every request:", "all"}],
        {Probe, How} <- [{"relay ", "relay"}, {"native", filename:absname(Build ++ "/kprof_probe.so")}]],
    ok = rpc:call(Node, bench_node, stop, []).

ages(Node, Build, Dir, CookieFile, How, Sampling) ->
    Tiers = filename:join(Dir, "tiers.conf"),
    ok = file:write_file(Tiers, [load_tiers(), no_limits(), "{sampling, ", Sampling, "}.\n"
                                 "{overload, [{max_queue, 1000000}, {max_age_ms, 60000}]}.\n"]),
    {0, Said} = sh("timeout --preserve-status " ++ integer_to_list(?AGES_S) ++ " " ++ Build ++ "/test/record -ages " ++
                       atom_to_list(Node) ++ " " ++ Tiers ++ " " ++ CookieFile ++ " " ++ How ++ " 2>/dev/null"),
    Said.

%% Requests of which tracing is most, until it is too much.
bench_trip(Node, Build, Dir, CookieFile) ->
    Workers = 2 * rpc:call(Node, erlang, system_info, [schedulers_online]),
    ok = rpc:call(Node, bench_node, load, [Workers, 50]),
    ok = rpc:call(Node, bench_node, watch, [10]),
    timer:sleep(3000),
    Conf = "{tiers, [{web, {bench_node, handle, 2}}, "
        "{all, {bench_node, '_', '_'}}]}.\n{sampling, all}.\n"
        "{overload, [{max_queue, 2000}]}.\n" ++ no_limits(),
    {Trip, _, _} = profiled("relay", Node, Build, Dir, CookieFile, Conf,
                            fun() -> trip(Node, 3000) end),
    Notes = rpc:call(Node, bench_node, watched, []),
    ok = rpc:call(Node, bench_node, stop, []),
    tell_trip(Notes, Trip).

trip(_, 0) ->
    none;
trip(Node, Left) ->
    case rpc:call(Node, kprof_agent, status, []) of
        #{last_trip := #{} = Trip} -> timer:sleep(3000), Trip;
        _ -> timer:sleep(10), trip(Node, Left - 1)
    end.

tell_trip(_, none) ->
    io:format("every call traced        no trip: the agent keeps up~n");
tell_trip(Notes, #{tripped_at := At, disarmed_at := Disarmed,
                   reason := Reason}) ->
    Rates = rates(Notes),
    [{Start, _} | _] = Notes,
    Plain = median([R || {T, R} <- Rates, T < Start + 2000000000]),
    During = median([R || {T, R} <- Rates, T > At - 200000000, T < At]),
    Back = [T || {T, R} <- Rates, T > At, R >= 0.95 * Plain],
    io:format("every call traced        trips by ~0p at ~b % of the throughput; "
              "disarmed after ~b ms; 95 % again after ~s~n",
              [Reason, round(100 * During / Plain), (Disarmed - At) div 1000000,
               case Back of
                   [] ->
                       Last = [R || {_, R} <- lists:nthtail(
                                                length(Rates) - 100, Rates)],
                       io_lib:format("more than 3 s, ~b % in the last of them",
                                     [round(100 * median(Last) / Plain)]);
                   [T | _] -> io_lib:format("~b ms", [(T - At) div 1000000])
               end]).

%% Over 100 ms each, by their ends.
rates(Notes) ->
    [{T1, (N1 - N0) * 1.0e9 / (T1 - T0)}
     || {{T0, N0}, {T1, N1}} <- lists:zip(lists:sublist(Notes, length(Notes) - 10),
                                          lists:nthtail(10, Notes))].

profiled(Probe, Node, Build, Dir, CookieFile, Conf, Run) ->
    Tiers = filename:join(Dir, "tiers.conf"),
    Db = filename:join(Dir, "bench.db"),
    ok = file:write_file(Tiers, Conf),
    _ = [file:delete(Db ++ E) || E <- ["", "-wal", "-shm", ".sock"]],
    Port = open_port({spawn_executable, os:find_executable("setpriv")},
                     [{args, ["--pdeathsig", "KILL", "--",
                              filename:join(Build, "kprofd"),
                              "-target", atom_to_list(Node), "-tiers", Tiers,
                              "-cookie-file", CookieFile, "-db", Db,
                              "-probe", Probe | sent(Probe, Build)]},
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

%% In a root file system of its own the target has no library.
sent(Probe, Build) ->
    case os:getenv("BENCH_ROOT") of
        Root when Root =:= false; Probe =:= "relay" -> [];
        _ -> ["-probe-library", filename:absname(Build) ++ "/kprof_probe.so", "-probe-send"]
    end.

%% Read by the target, which is on this machine and has the code for it.
daemon_us(Node, Pid) ->
    rpc:call(Node, bench_node, cpu_us, [integer_to_list(Pid)]).

events(Node) ->
    case rpc:call(Node, kprof_agent, status, []) of
        #{events_sent := N} -> N;
        not_attached -> error({kprofd_lost_it, said()})
    end.

said() ->
    receive {_, {data, {_, Line}}} -> [Line | said()] after 0 -> [] end.

tiers(Sampling) ->
    ["{tiers, [",
     lists:join(", ", ["{entry, {bench_node, entry, 1}}" |
                       [io_lib:format("{~c, {bench_node, tier_~c, 1}}",
                                      [C, C]) || C <- lists:seq($a, $i)]]),
     "]}.\n{sampling, ", Sampling, "}.\n", no_limits()].

wait_line(Port, What) ->
    wait_line(Port, What, []).

wait_line(Port, What, Said) ->
    receive
        {Port, {data, {_, Line}}} ->
            case binary:match(Line, What) of
                nomatch -> wait_line(Port, What, [Line | Said]);
                _ -> ok
            end;
        {Port, {exit_status, S}} ->
            error({kprofd_ended, S, Said})
    after 20000 ->
            error({no_line, What, Said})
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
