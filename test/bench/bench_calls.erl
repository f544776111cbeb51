%% bench_calls - what it costs work that is looked at call by call, by kprof and
%% by what OTP has for that, in one run: how much slower it is, and how much
%% processor the node takes.
%%
%% Each way has its turn in each of the rounds, and is set against the same work
%% untraced right before it. Counters, and full traces, to the end: what has not
%% taken all is no figure. Those of calls are of all processes, as tprof's; of
%% time, and traces, of those of the work.
-module(bench_calls).

-export([run/4]).

-define(ROUNDS, 5).
-define(PARTS, 120).            % of bench_work: fewer events than a trace may have
-define(LIMITS, "-max-queue 1000000 -max-memory 4096 -max-events 1000000").

%% Kprof: the program, with its options for this node; Library: the option for
%% the native probe's, as the node sees it.
run(Node, Dir, Kprof, Library) ->
    Calls = bench_work:calls(?PARTS),
    io:format("OTP ~s, ~b schedulers, load ~s; ~b calls of functions that do next to nothing; medians of ~b rounds~n",
              [rpc:call(Node, erlang, system_info, [otp_release]),
               rpc:call(Node, erlang, system_info, [schedulers_online]), load_average(), Calls, ?ROUNDS]),
    [in_processes(N, Node, Dir, ways(Kprof, Library), Calls) || N <- [1, 4]],
    io:format("~nload ~s at the end~n", [load_average()]).

load_average() ->
    {ok, Text} = file:read_file("/proc/loadavg"),
    lists:join(" ", lists:sublist(string:split(binary_to_list(Text), " ", all), 2)).

ways(Kprof, Library) ->
    Trace = fun(Probe) -> {kprof, [Kprof("trace"), " ", ?LIMITS, " -quiet -probe ", Probe]} end,
    [{"untraced", untraced},
     {"kprof count", {kprof, [Kprof("count"), " -processes all"]}},
     {"tprof, call_count", {tprof, call_count}},
     {"kprof time", {kprof, Kprof("time")}},
     {"tprof, call_time", {tprof, call_time}},
     {"eprof", eprof},
     {"kprof trace, native", Trace(["native ", Library])},
     {"kprof trace, relay", Trace("relay")},
     {"fprof", fprof}].

in_processes(N, Node, Dir, Ways, Calls) ->
    Rounds = [[{Name, turn(Way, N, Node, Dir)} || {Name, Way} <- Ways] || _ <- lists:seq(1, ?ROUNDS)],
    io:format("~n~s~n~n| way | the work takes | from and to | ns more a call | CPU, ns more a call | "
              "fprof: the work | fprof: CPU |~n| --- | --- | --- | --- | --- | --- | --- |~n",
              [case N of 1 -> "one process"; _ -> integer_to_list(N) ++ " processes" end]),
    Of = fun(Name) -> summary([proplists:get_value(Name, R) || R <- Rounds], Calls) end,
    Fprof = Of("fprof"),
    [tell(Name, Of(Name), Fprof) || {Name, _} <- Ways].

%% {Ns, Ms} untraced, and so looked at.
turn(Way, N, Node, Dir) ->
    Plain = by(untraced, N, Node, Dir),
    case by(Way, N, Node, Dir) of
        missing -> missing;
        Got -> {Plain, Got}
    end.

by({kprof, Command}, N, Node, Dir) ->
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() -> Self ! {self(), rpc_by(kprof, N, Node, Dir)} end),
    Waits = awaited(Node, 500),
    Out = filename:join(Dir, "bench.calls"),
    Line = lists:flatten([Command, " -apply 'bench_work:run(", integer_to_list(N), ",", integer_to_list(?PARTS), ")' -o ",
                          Out, " bench_work; echo status $?"]),
    Said = os:cmd(Line),
    string:find(Said, "status 0") =/= nomatch orelse error({kprof, Line, Said}),
    Waits ! over,
    _ = file:delete(Out),
    receive
        {Pid, Got} -> erlang:demonitor(Ref, [flush]), Got;
        {'DOWN', Ref, process, Pid, Why} -> error(Why)
    end;
by(Way, N, Node, Dir) ->
    rpc_by(Way, N, Node, Dir).

rpc_by(Way, N, Node, Dir) ->
    case rpc:call(Node, bench_work, by, [Way, "/tmp/" ++ filename:basename(Dir) ++ "." ++ os:getpid(), N, ?PARTS]) of
        {Ns, Ms} -> {Ns, Ms};
        missing -> missing;
        Wrong -> error({Way, Wrong})
    end.

%% The process that waits there for kprof to be over.
awaited(Node, Looks) ->
    case rpc:call(Node, erlang, whereis, [bench_work]) of
        Keeper when is_pid(Keeper) -> waiting(Node, Looks);
        _ when Looks > 0 -> receive after 10 -> awaited(Node, Looks - 1) end
    end.

waiting(Node, Looks) ->
    case [P || P <- rpc:call(Node, erlang, processes, []),
               rpc:call(Node, erlang, process_info, [P, current_function]) =:= {current_function, {bench_work, way, 3}}] of
        [P] -> P;
        _ when Looks > 0 -> receive after 10 -> waiting(Node, Looks - 1) end
    end.

%% Of all rounds: how many times as long, least, most; ns more a call; CPU.
summary([missing | _], _) ->
    missing;
summary(Turns, Calls) ->
    Slower = lists:sort([Ns / Plain || {{Plain, _}, {Ns, _}} <- Turns]),
    {median(Slower), hd(Slower), lists:last(Slower),
     median([(Ns - Plain) / Calls || {{Plain, _}, {Ns, _}} <- Turns]),
     median([(Ms - Plain) * 1.0e6 / Calls || {{_, Plain}, {_, Ms}} <- Turns])}.

tell(Name, missing, _) ->
    io:format("| ~s | not in this Erlang | | | | | |~n", [Name]);
tell(Name, {Slower, Least, Most, Ns, Cpu}, {_, _, _, FprofNs, FprofCpu}) ->
    Ratio = fun(_, X) when Name =:= "untraced"; X =< 0 -> "";
               (F, X) -> io_lib:format("~.1f", [F / X])
            end,
    io:format("| ~s | ~.1f times | ~.1f to ~.1f | ~b | ~b | ~s | ~s |~n",
              [Name, Slower, Least, Most, round(Ns), round(Cpu), Ratio(FprofNs, Ns), Ratio(FprofCpu, Cpu)]).

median(L) ->
    lists:nth((length(L) + 1) div 2, lists:sort(L)).
