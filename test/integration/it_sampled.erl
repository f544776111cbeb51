%% it_sampled - work for tests of sampled stacks, in the target: functions whose shares of it are
%% known, processes that live briefly, and one that answers nobody.
-module(it_sampled).

-export([start/0, stop/0, shares/0, brief/1, brief_end/1, life/0, silent/0, unsilent/0, both_killed/0]).

%% Each round takes the functions as many reductions as their share says, in a process that never
%% waits.
start() ->
    Me = self(),
    Pid = spawn(fun() -> register(it_sampled, self()), Me ! {self(), ready}, rounds() end),
    receive {Pid, ready} -> ok end.

stop() ->
    Ref = erlang:monitor(process, it_sampled),
    exit(whereis(it_sampled), kill),
    receive {'DOWN', Ref, process, _, _} -> ok end.

shares() ->
    [{lists:concat(["it_sampled:f", N, "/1"]), N / 55} || N <- lists:seq(1, 10)].

rounds() ->
    f1(100), f2(200), f3(300), f4(400), f5(500), f6(600), f7(700), f8(800), f9(900), f10(1000),
    rounds().

f1(0) -> ok; f1(N) -> f1(N - 1).
f2(0) -> ok; f2(N) -> f2(N - 1).
f3(0) -> ok; f3(N) -> f3(N - 1).
f4(0) -> ok; f4(N) -> f4(N - 1).
f5(0) -> ok; f5(N) -> f5(N - 1).
f6(0) -> ok; f6(N) -> f6(N - 1).
f7(0) -> ok; f7(N) -> f7(N - 1).
f8(0) -> ok; f8(N) -> f8(N - 1).
f9(0) -> ok; f9(N) -> f9(N - 1).
f10(0) -> ok; f10(N) -> f10(N - 1).

%% N processes at any time, each of which waits for 20 ms and is replaced.
brief(N) ->
    spawn(fun() -> process_flag(trap_exit, true), [born() || _ <- lists:seq(1, N)], replace() end).

replace() ->
    receive
        {'EXIT', _, normal} -> born(), replace();
        {'EXIT', _, killed} -> replace();
        stop -> ok
    end.

born() -> spawn_link(?MODULE, life, []).

life() -> receive stop -> ok after 20 -> ok end.

brief_end(Pid) ->
    Ref = erlang:monitor(process, Pid),
    Pid ! stop,
    receive {'DOWN', Ref, process, _, _} -> ok end.

%% A process that collects a large heap, again and again.
silent() ->
    Me = self(),
    Pid = spawn(fun() ->
                        register(it_silent, self()),
                        Big = lists:seq(1, 10000000),
                        Me ! {self(), ready},
                        collect(Big)
                end),
    receive {Pid, ready} -> ok end.

collect(Big) ->
    garbage_collect(),
    receive stop -> length(Big) after 0 -> collect(Big) end.

unsilent() ->
    Ref = erlang:monitor(process, it_silent),
    it_silent ! stop,
    receive {'DOWN', Ref, process, _, _} -> ok end.

%% The sampler and its sentry, at once: the sentry knows what the server's monitors do not.
both_killed() ->
    Server = whereis(kprof_sampler),
    %% The sentry first, which would take everything back; and the server makes no other meanwhile.
    true = erlang:suspend_process(Server),
    [begin
         Ref = erlang:monitor(process, P),
         exit(P, kill),
         receive {'DOWN', Ref, process, _, _} -> ok end
     end || P <- watching(Server) ++ [Server]],
    ok.

%% The server monitors its sentry from its birth on; the sentry begins to watch a moment later.
watching(Server) ->
    [{monitors, Watched}, {monitored_by, By}] = process_info(Server, [monitors, monitored_by]),
    [P || P <- lists:usort([P || {process, P} <- Watched] ++ By), is_pid(P), node(P) =:= node()].
