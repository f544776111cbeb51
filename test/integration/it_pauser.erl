%% it_pauser - a server in the target whose layers each do one thing: collect
%% garbage, wait, or compute; and what it knows of that by itself.
-module(it_pauser).

-export([start/0, ask/2, truth/0, flags/1, pauses/0, trace_somebody/0, trace_more/0, forget_somebody/0, somebody/0]).
-export([handle/1, collect/0, wait/0, wait_below/0, compute/0, call_below/0, below/0, bare/0]).

-define(PAUSES, [running, garbage_collection]).
-define(WAIT_MS, 20).
-define(COMPUTE_MS, 30).

start() ->
    true = register(it_pauser_below, spawn(fun() -> below_loop() end)),
    true = register(it_pauser_partner, spawn(fun() -> partner() end)),
    Bystander = spawn(fun() -> receive stop -> ok end end),
    true = register(it_pauser_bystander, Bystander),
    true = register(it_pauser, spawn(fun() -> loop(#{}, [lists:seq(1, 100), lists:duplicate(300000, a)]) end)),
    ok.

%% A request of this kind; or a call without a token. No token comes with it.
ask(Server, What) ->
    seq_trace:set_token([]),
    Ref = make_ref(),
    Server ! {ask, self(), Ref, What},
    receive {Ref, Answer} -> Answer end.

%% {ns, how often} by what was done.
truth() -> ask(it_pauser, truth).

loop(Truth, Heap) ->
    receive
        {ask, From, Ref, truth} ->
            From ! {Ref, Truth},
            loop(Truth, Heap);
        {ask, From, Ref, bare} ->
            ?MODULE:bare(),
            From ! {Ref, ok},
            loop(Truth, Heap);
        {ask, From, Ref, {do, Fun}} ->
            From ! {Ref, Fun()},
            loop(Truth, Heap);
        {ask, From, Ref, What} ->
            {Ns, _} = ?MODULE:handle(What),
            From ! {Ref, ok},
            {Was, N} = maps:get(What, Truth, {0, 0}),
            loop(Truth#{What => {Was + Ns, N + 1}}, Heap)
    end.

handle(What) ->
    Result = ?MODULE:What(),
    {Result, erlang:unique_integer()}.

collect() ->
    timed(fun() -> erlang:garbage_collect() end).

wait() ->
    timed(fun() -> receive after ?WAIT_MS -> ok end end).

wait_below() -> wait().

%% What a turn is long of: comparing counts as nothing, and leaves no garbage.
compute() ->
    [A, B] = [list_to_tuple(lists:seq(1, 20000)) || _ <- [1, 2]],
    Start = erlang:monotonic_time(nanosecond),
    compute(A, B, Start + ?COMPUTE_MS * 1000000),
    erlang:monotonic_time(nanosecond) - Start.

compute(A, B, Until) ->
    true = A =:= B,
    case erlang:monotonic_time(nanosecond) < Until of
        true -> compute(A, B, Until);
        false -> ok
    end.

%% Waits for another process, whose layer waits in its turn.
call_below() ->
    timed(fun() ->
                  Ref = make_ref(),
                  it_pauser_below ! {self(), Ref},
                  receive Ref -> ok end
          end).

below_loop() ->
    receive
        {From, Ref} ->
            ?MODULE:below(),
            From ! Ref,
            below_loop();
        {ask, From, Ref, {do, Fun}} ->
            From ! {Ref, Fun()},
            below_loop()
    end.

below() ->
    it_pauser_partner ! {self(), now},
    receive now -> ok end,
    ok.

partner() ->
    receive {From, What} -> receive after ?WAIT_MS -> From ! What end end,
    partner().

bare() -> ok.

timed(Fun) ->
    Start = erlang:monotonic_time(nanosecond),
    Fun(),
    erlang:monotonic_time(nanosecond) - Start.

%% Which of the two flags a process has, by anybody.
flags(Name) when is_atom(Name) ->
    flags(whereis(Name));
flags(P) ->
    [F || F <- ?PAUSES, lists:member(F, legacy(P) ++ session(P))].

%% The processes that have one.
pauses() ->
    [{P, F} || P <- processes(), P =/= self(), F <- [flags(P)], F =/= []].

legacy(P) ->
    case erlang:trace_info(P, flags) of
        {flags, Flags} -> Flags;
        undefined -> []
    end.

session(P) ->
    case erlang:function_exported(trace, session_info, 1) of
        true ->
            lists:append([Flags || Session <- sessions(P),
                                   {flags, Flags} <- [catch trace:info(Session, P, flags)]]);
        false ->
            []
    end.

sessions(P) ->
    case trace:session_info(P) of
        undefined -> [];
        Sessions -> Sessions
    end.

%% ------------------------------------------------------ somebody's own ----

%% A process that calls layers and is traced by somebody else, with such flags.
trace_somebody() ->
    Tracer = spawn(fun() -> drop() end),
    P = case whereis(it_pauser_somebody) of
            undefined -> spawn(fun() -> somebody_loop() end);
            There -> There
        end,
    true = register(it_pauser_tracer, Tracer),
    P =:= whereis(it_pauser_somebody) orelse register(it_pauser_somebody, P),
    _ = erlang:trace(P, false, [all]),
    trace_more().

%% On the way to be left alone it may have lost some.
trace_more() ->
    1 = erlang:trace(it_pauser_somebody_pid(), true,
                     [call, running, garbage_collection, {tracer, whereis(it_pauser_tracer)}]),
    ok.

forget_somebody() ->
    1 = erlang:trace(it_pauser_somebody_pid(), false, [all, {tracer, whereis(it_pauser_tracer)}]),
    exit(whereis(it_pauser_tracer), kill),
    ok.

it_pauser_somebody_pid() -> whereis(it_pauser_somebody).

%% Its flags, after it has called a layer with and without a token.
somebody() ->
    ask(it_pauser_somebody, call),
    {flags, Flags} = erlang:trace_info(it_pauser_somebody_pid(), flags),
    lists:sort(Flags).

somebody_loop() ->
    receive
        {ask, From, Ref, call} ->
            seq_trace:set_token([]),
            ?MODULE:bare(),
            ?MODULE:handle(bare),
            ?MODULE:bare(),
            seq_trace:set_token([]),
            ?MODULE:bare(),
            From ! {Ref, ok},
            somebody_loop()
    end.

drop() -> receive _ -> drop() end.
