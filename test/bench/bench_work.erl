%% bench_work - work that is nothing but calls, the same every time, in one
%% process or in several; and what OTP has to look at it.
%%
%% A part is 2978 calls: a recursion, a loop of tail calls, a list that is built.
%% They do next to nothing, so that what is measured is the profiler.
-module(bench_work).

-export([calls/1, run/2, by/4]).
-export([keep/0, parts/1]).

-define(FIB, 15).               % 1973 calls
-define(LOOP, 500).
-define(ALL, {?MODULE, '_', '_'}).

calls(Parts) -> 2978 * Parts.

%% Each of the processes has as many of the parts as the others.
run(1, Parts) ->
    begins(),
    parts(Parts),
    ended();
run(Processes, Parts) ->
    begins(),
    Refs = [spawn_monitor(?MODULE, parts, [Parts div Processes]) || _ <- lists:seq(1, Processes)],
    [receive {'DOWN', Ref, process, Pid, normal} -> ok end || {Pid, Ref} <- Refs],
    ended().

parts(0) -> ok;
parts(N) -> part(), parts(N - 1).

part() ->
    fib(?FIB),
    loop(?LOOP),
    build(?LOOP).

fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).

loop(0) -> ok;
loop(N) -> loop(N - 1).

build(0) -> [];
build(N) -> [N | build(N - 1)].

%% What the clock says, and what the VM has had of the processors.
begins() -> ?MODULE ! {begins, erlang:monotonic_time(nanosecond), element(1, erlang:statistics(runtime))}.
ended() -> ?MODULE ! {ended, erlang:monotonic_time(nanosecond)}.

%% One by one, from another node: {ns by the clock, ms of processors}. What a
%% profiler did meanwhile, and after it till it was over, is in the latter.
by(Way, File, Processes, Parts) ->
    Keeper = keeper(),
    Got = case way(Way, File, [Processes, Parts]) of
              missing -> missing;
              _ -> kept()
          end,
    Ref = erlang:monitor(process, Keeper),
    Keeper ! stop,
    receive {'DOWN', Ref, process, _, _} -> Got end.

keeper() ->
    Asks = self(),
    Keeper = spawn(fun() -> register(?MODULE, self()), Asks ! {self(), ready}, keep() end),
    receive {Keeper, ready} -> Keeper end.

keep() ->
    receive
        {begins, Ns, Ms} ->
            receive {ended, End} -> kept(End - Ns, Ms) end;
        stop -> ok
    end.

kept(Ns, Ms) ->
    receive
        {From, kept} -> From ! {kept, Ns, element(1, erlang:statistics(runtime)) - Ms}, keep();
        stop -> ok
    end.

kept() ->
    ?MODULE ! {self(), kept},
    receive {kept, Ns, Ms} -> {Ns, Ms} after 1000 -> missing end.

%% kprof makes the call itself, and says when it is over.
way(kprof, _, _) ->
    receive over -> ok end;
way(untraced, _, Args) ->
    apply(?MODULE, run, Args);
way({tprof, Type}, _, Args) ->
    case code:ensure_loaded(tprof) of
        {module, _} -> tprof:profile(?MODULE, run, Args, #{type => Type, report => return, pattern => ?ALL,
                                                           set_on_spawn => true});
        _ -> missing
    end;
way(eprof, _, Args) ->
    {ok, _} = eprof:start(),
    {ok, _} = eprof:profile([], ?MODULE, run, Args, ?ALL),
    eprof:stop();
way(fprof, File, Args) ->
    fprof:apply(?MODULE, run, Args, [{file, File}]),
    fprof:stop(),
    file:delete(File).
