%% bench_crowd - what a node with 300,000 processes notices of kprofd: the longest
%% gap of a process that wants to run every millisecond, by what kprofd does
%% meanwhile. Beside it the longest gap of the same process in as much time without
%% kprofd: on a machine that does other things as well that is not small.
-module(bench_crowd).

-export([run/5]).

-define(CROWD, 300000).
-define(CYCLES, 3).
-define(BURST, [4, 20000, 100]).
-define(TRICKLE, [1, 5000, 5]).

%% Profiled(Conf, Run) has kprofd there while Run() runs; Kprof(Command) asks it.
run(Node, Tiers, Reloaded, Kprof, Profiled) ->
    Crowd = rpc:call(Node, it_ticker, crowd, [?CROWD]),
    _ = rpc:call(Node, it_ticker, start, []),
    io:format("~b processes, ~b cycles; longest gap of a ticker of 1 ms, in ms~n"
              "                      with kprofd    without~n", [?CROWD, ?CYCLES]),
    Cycles = [cycle(Node, Tiers, Reloaded, Kprof, Profiled) || _ <- lists:seq(1, ?CYCLES)],
    [tell(What, [lists:keyfind(What, 1, C) || C <- Cycles])
     || What <- ["arms", "pauses", "resumes", "rests: every call traced", "resumes after that", "reloads", "slices, 5 s", "leaves"]],
    Gone = [Ms || C <- Cycles, {gone, Ms} <- C],
    io:format("gone after ~s ms~n", [lists:join(", ", [integer_to_list(Ms) || Ms <- Gone])]),
    ok = rpc:call(Node, it_ticker, stop, []),
    _ = rpc:call(Node, it_ticker, disperse, [Crowd]).

tell(What, Gaps) ->
    io:format("~s ~s  ~s~n", [string:pad(What, 24), ms([G || {_, G, _} <- Gaps]), ms([G || {_, _, G} <- Gaps])]).

ms(Gaps) ->
    string:pad(lists:join(" ", [io_lib:format("~b", [G div 1000]) || G <- lists:sort(Gaps)]), 14).

cycle(Node, Tiers, Reloaded, Kprof, Profiled) ->
    Begin = now_ms(),
    _ = longest(Node),
    {Run, _, _} =
        Profiled(Tiers,
                 fun() ->
                         Armed = {"arms", longest(Node), quiet(Node, now_ms() - Begin)},
                         [Armed,
                          during("pauses", Node, fun() -> Kprof("pause"), await(Node, paused) end),
                          during("resumes", Node, fun() -> Kprof("resume"), await(Node, armed) end),
                          burst(Node),
                          during("resumes after that", Node, fun() -> resume(Node, Kprof) end),
                          during("reloads", Node, fun() -> Reloaded("{slices, 4}"), Kprof("reload"), timer:sleep(500) end),
                          during("slices, 5 s", Node, fun() -> rpc:call(Node, bench_node, run, ?TRICKLE) end),
                          {left, now_ms(), longest(Node)}]
                 end),
    {value, {left, From, _}, Gaps} = lists:keytake(left, 1, Run),
    gone(Node),
    Ms = now_ms() - From,
    Leaves = {"leaves", longest(Node), quiet(Node, Ms)},
    Gaps ++ [Leaves, {gone, Ms}].

during(What, Node, Fun) ->
    Begin = now_ms(),
    _ = longest(Node),
    Fun(),
    Gap = longest(Node),
    {What, Gap, quiet(Node, now_ms() - Begin)}.

%% Requests as fast as they go, traced and then not: that is what it rests for.
burst(Node) ->
    {_, Gap, _} = during("", Node, fun() -> until_tripped(Node) end),
    {_, Without, _} = during("", Node, fun() -> rpc:call(Node, bench_node, run, ?BURST) end),
    {"rests: every call traced", Gap, Without}.

until_tripped(Node) ->
    _ = rpc:call(Node, bench_node, run, ?BURST),
    case rpc:call(Node, kprof_agent, status, []) of
        #{state := {tripped, _}} -> ok;
        _ -> until_tripped(Node)
    end.

%% Once kprofd knows of it.
resume(Node, Kprof) ->
    timer:sleep(200),
    Kprof("resume"),
    await(Node, armed).

quiet(Node, Ms) ->
    _ = longest(Node),
    timer:sleep(Ms),
    longest(Node).

longest(Node) ->
    rpc:call(Node, it_ticker, longest_us, []).

await(Node, State) ->
    case rpc:call(Node, kprof_agent, status, []) of
        #{state := State} -> ok;
        #{state := {State, _}} -> ok;
        _ -> timer:sleep(10), await(Node, State)
    end.

gone(Node) ->
    (rpc:call(Node, erlang, module_loaded, [kprof_agent]) orelse
     rpc:call(Node, erlang, check_old_code, [kprof_agent])) andalso begin timer:sleep(10), gone(Node) end.

now_ms() ->
    erlang:monotonic_time(millisecond).
