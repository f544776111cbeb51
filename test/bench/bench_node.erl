%% bench_node - work for a target that is measured: requests of ten tier
%% calls over two processes, at a steady pace, and the CPU the node used.
%%
%% A request: entry/1 calls tier_a/1 to tier_d/1 itself and asks a server
%% process, which calls tier_e/1 to tier_i/1.  Nothing waits but between
%% bursts, so that one relay can follow; CPU time is what is compared, not
%% throughput.
-module(bench_node).

-export([run/3, marks/3, cpu_us/1, calls_per_request/0]).
-export([calibrate/0, load/2, stop/0, over/1, watch/1, watched/0]).
-export([handle/2, parse/1, store/1, render/1, count/1, partner/0]).
-export([entry/1, tier_a/1, tier_b/1, tier_c/1, tier_d/1, tier_e/1, tier_f/1,
         tier_g/1, tier_h/1, tier_i/1]).

calls_per_request() -> 10.

%% Runs Requests requests on Workers workers, each in bursts of Burst with a
%% pause of 5 ms between.  Returns the CPU time of the whole VM in us.
run(Workers, Requests, Burst) ->
    Server = spawn_link(fun server/0),
    Before = cpu_us(),
    Each = Requests div Workers,
    Pids = [spawn_monitor(fun() -> worker(Server, Each, Burst) end)
            || _ <- lists:seq(1, Workers)],
    [receive {'DOWN', Ref, process, Pid, normal} -> ok end
     || {Pid, Ref} <- Pids],
    unlink(Server),
    exit(Server, kill),
    cpu_us() - Before.

worker(_, 0, _) ->
    ok;
worker(Server, N, Burst) ->
    Now = min(N, Burst),
    burst(Server, Now),
    receive after 5 -> ok end,
    worker(Server, N - Now, Burst).

%% Marks this many requests: kprof:set_token/0, and clear_token/0 where Clear;
%% in bursts, with a pause of 5 ms between. Returns the CPU time of the whole VM
%% in us.
marks(N, Burst, Clear) ->
    Before = cpu_us(),
    marks_bursts(N, Burst, Clear),
    cpu_us() - Before.

marks_bursts(N, Burst, _) when N < Burst ->
    ok;
marks_bursts(N, Burst, Clear) ->
    case Clear of
        none -> nothing(Burst);
        false -> marks_set(Burst);
        true -> marks_both(Burst)
    end,
    receive after 5 -> ok end,
    marks_bursts(N - Burst, Burst, Clear).

marks_set(0) -> ok;
marks_set(N) -> kprof:set_token(), marks_set(N - 1).

marks_both(0) -> ok;
marks_both(N) -> kprof:set_token(), kprof:clear_token(), marks_both(N - 1).

%% What the loop costs by itself.
nothing(0) -> ok;
nothing(N) -> nothing(N - 1).

burst(_, 0) ->
    ok;
burst(Server, N) ->
    Value = entry(Server),
    true = is_integer(Value),
    burst(Server, N - 1).

server() ->
    receive
        {From, Ref, N} ->
            A = tier_e(N), B = tier_f(A), C = tier_g(B), D = tier_h(C),
            E = tier_i(D),
            From ! {Ref, E},
            server()
    end.

entry(Server) ->
    A = tier_a(1), B = tier_b(A), C = tier_c(B), D = tier_d(C),
    Ref = make_ref(),
    Server ! {self(), Ref, D},
    receive {Ref, E} -> E + 1 end.

tier_a(N) -> N + 1.
tier_b(N) -> N + 2.
tier_c(N) -> N + 3.
tier_d(N) -> N + 4.
tier_e(N) -> N + 5.
tier_f(N) -> N + 6.
tier_g(N) -> N + 7.
tier_h(N) -> N + 8.
tier_i(N) -> N + 9.

%% ---------------------------------------------------------- full load ----

%% Requests such as the sample application's, one after another and without an
%% end: an entry and five calls of tiers, two of these in another process; and
%% so many turns of a loop in all, as work. A turn is a turn, however often the
%% processor is lost.
load(Workers, Turns) ->
    Counters = counters:new(Workers, [write_concurrency]),
    persistent_term:put(?MODULE, Counters),
    Pids = [spawn(fun() ->
                          Partner = spawn_link(fun partner/0),
                          serve(Partner, Turns div 5, Counters, I)
                  end) || I <- lists:seq(1, Workers)],
    persistent_term:put({?MODULE, load}, Pids),
    ok.

stop() ->
    [exit(P, kill) || P <- persistent_term:get({?MODULE, load})],
    ok.

%% Instrumented, where that is measured: bench_rival.
serve(Partner, Turns, Counters, I) ->
    _ = (persistent_term:get({?MODULE, handles}, ?MODULE)):handle(Partner, Turns),
    counters:add(Counters, I, 1),
    serve(Partner, Turns, Counters, I).

handle(Partner, Turns) ->
    A = ?MODULE:parse(Turns),
    Ref = make_ref(),
    Partner ! {self(), Ref, Turns},
    B = receive {Ref, Stored} -> Stored end,
    C = ?MODULE:count(Turns),
    A + B + C.

partner() ->
    receive
        {From, Ref, Turns} ->
            A = ?MODULE:store(Turns), B = ?MODULE:store(Turns),
            C = ?MODULE:render(Turns),
            From ! {Ref, A + B + C},
            partner();
        {From, Ref, Turns, Within} ->
            From ! {Ref, bench_rival:stored(Turns, Within)},
            partner()
    end.

parse(Turns) -> turn(Turns, 1).
store(Turns) -> turn(Turns, 2).
render(Turns) -> turn(Turns, 3).
count(Turns) -> turn(Turns, 4).

turn(0, X) -> X;
turn(N, X) -> turn(N - 1, (X * 7 + N) band 16#FFFFFF).

%% Turns in 200 us, of the best of several tries.
calibrate() ->
    N = 1000000,
    Us = lists:min([element(1, timer:tc(fun() -> turn(N, 1) end))
                    || _ <- lists:seq(1, 20)]),
    N * 200 div Us.

done() ->
    C = persistent_term:get(?MODULE),
    lists:sum([counters:get(C, I)
               || I <- lists:seq(1, map_get(size, counters:info(C)))]).

%% Requests a second, and the CPU time of one in us.
over(Ms) ->
    {N0, T0, Cpu0} = {done(), now_ns(), cpu_us()},
    receive after Ms -> ok end,
    {N1, T1, Cpu1} = {done(), now_ns(), cpu_us()},
    {(N1 - N0) * 1.0e9 / (T1 - T0), (Cpu1 - Cpu0) / max(1, N1 - N0)}.

now_ns() -> erlang:monotonic_time(nanosecond).

%% Notes how many requests were done by when, until it is asked.
watch(EveryMs) ->
    Pid = spawn(fun() ->
                        process_flag(priority, max),
                        note(EveryMs, [])
                end),
    true = register(?MODULE, Pid),
    ok.

note(EveryMs, Notes) ->
    receive
        {watched, From} -> From ! {watched, lists:reverse(Notes)}
    after EveryMs ->
            note(EveryMs, [{now_ns(), done()} | Notes])
    end.

watched() ->
    ?MODULE ! {watched, self()},
    receive {watched, Notes} -> Notes end.

%% CPU time of this operating system process: the sum over its threads, which
%% the kernel counts in ns where /proc/PID/stat has ticks of 10 ms.
cpu_us() ->
    cpu_us("self").

cpu_us(Pid) ->
    lists:sum([task_ns(F) || F <- filelib:wildcard(
                                    "/proc/" ++ Pid ++ "/task/*/schedstat")])
        div 1000.

task_ns(File) ->
    case file:read_file(File) of
        {ok, Text} -> binary_to_integer(hd(string:split(Text, " ")));
        {error, _} -> 0
    end.
