%% it_token - a program of a target's: processes that keep tokens, and a trace of
%% its own.
-module(it_token).

-export([request/2, work/1, agent/0]).
-export([rushed/0, rush/1, idle/0, alone/0]).
-export([keep/0, keep_other/1, keep_busy/0, keep_far/1, label/1, wake/2, again/1, long/0, finish/1]).
-export([overlapping/1, crowd/3, across/1, trace_begin/0, trace_run/0, trace_hold/0, trace_go/0, shown/0]).

%% The entry, and a tier.
request(Fun, X) -> returned(Fun(X)).
work(N) -> returned(N).
returned(X) -> X.

agent() -> whereis(kprof_agent).

%% A tier that is called outside of requests, 200 times N a second at most.
rushed() -> ok.
rush(N) -> spawn(fun Loop() -> [?MODULE:rushed() || _ <- lists:seq(1, N)], receive after 5 -> Loop() end end).

%% One that had a request, and has its token still.
keep() -> kept(fun() -> request(fun work/1, 1) end).
idle() -> kept(fun() -> ok end).
alone() -> request(fun work/1, 1), done.
keep_other(Label) -> kept(fun() -> seq_trace:set_token(label, Label), seq_trace:set_token(send, true) end).

kept(Begin) ->
    Ready = make_ref(),
    P = spawn(fun() -> Begin(), put(ready, Ready), kept_loop() end),
    until(fun() -> {_, D} = process_info(P, dictionary), lists:member({ready, Ready}, D) end),
    P.

%% Messages would bring tokens, or take them: a timer's do neither.
kept_loop() ->
    receive
        {timeout, _, {wake, N}} -> worked(N), put(woken, N), kept_loop();
        {timeout, _, again} -> request(fun work/1, 1), put(woken, again), kept_loop();
        {timeout, _, finish} -> put(woken, finish), ok
    end.

worked(0) -> ok;
worked(N) -> work(N), worked(N - 1).

wake(P, N) -> tell(P, {wake, N}, N).
again(P) -> tell(P, again, again).

tell(P, What, Done) ->
    erlang:start_timer(0, P, What),
    until(fun() -> {_, D} = process_info(P, dictionary), lists:member({woken, Done}, D) end),
    cleared(P).

%% The next one is to be seen as well.
cleared(P) ->
    erlang:start_timer(0, P, {wake, 0}),
    until(fun() -> {_, D} = process_info(P, dictionary), lists:member({woken, 0}, D) end).

label(P) ->
    case process_info(P, sequential_trace_token) of
        {_, []} -> none;
        {_, {_, Label, _, _, _}} -> Label
    end.

%% A request that is at work till it is told.
long() ->
    P = spawn(fun() -> request(fun(_) -> work(1), put(ready, true), kept_loop() end, 1), put(woken, over),
                       receive never -> ok end end),
    until(fun() -> {_, D} = process_info(P, dictionary), lists:member({ready, true}, D) end),
    P.

finish(P) ->
    erlang:start_timer(0, P, finish),
    until(fun() -> {_, D} = process_info(P, dictionary), lists:member({woken, over}, D) end).

%% Many at once, of which each works three times, in turn.
overlapping(N) ->
    Ps = [spawn_monitor(fun() ->
                                request(fun(_) -> work(1), receive after 5 -> ok end, work(2), erlang:yield(), work(3) end, 1)
                        end) || _ <- lists:seq(1, N)],
    [receive {'DOWN', Ref, process, P, normal} -> ok end || {P, Ref} <- Ps],
    ok.

%% So many clients, each with so many requests as fast as they go, but for a pause after every
%% Burst.
crowd(Clients, Each, Burst) ->
    Ps = [spawn_monitor(fun() -> receive go -> bursts(Each, Burst) end end) || _ <- lists:seq(1, Clients)],
    [P ! go || {P, _} <- Ps],
    [receive {'DOWN', Ref, process, P, normal} -> ok end || {P, Ref} <- Ps],
    ok.

bursts(Each, Burst) ->
    [begin
         request(fun work/1, 1),
         N rem Burst =:= 0 andalso receive after 100 -> ok end
     end || N <- lists:seq(1, Each)].

%% Work here, there, and here again.
across(Node) ->
    {P, Ref} = spawn_monitor(fun() ->
        request(fun(_) ->
                        work(1),
                        Me = self(),
                        spawn(Node, fun() -> work(2), Me ! done end),
                        receive done -> ok end,
                        work(3)
                end, 1)
    end),
    receive {'DOWN', Ref, process, P, normal} -> done end.

%% One on another node with a token from here.
keep_far(Node) ->
    Me = self(),
    spawn(fun() ->
        request(fun(_) -> Me ! {far, spawn(Node, fun() -> kept_loop() end)} end, 1)
    end),
    receive {far, P} -> P end.

%% Works all the time, with its token, and sends messages that nobody waits for.
keep_busy() ->
    Sink = spawn(fun sink/0),
    register(it_token_sink, Sink),
    P = spawn(fun() -> request(fun work/1, 1), busy(Sink) end),
    register(it_token_busy, P),
    until(fun() -> label(P) =/= none end),
    P.

sink() -> receive _ -> sink() end.

busy(Sink) ->
    work(1),
    Sink ! {work, lists:seq(1, 10)},
    receive after 2 -> busy(Sink) end.

%% What a system tracer is sent in half a second.
shown() ->
    Me = self(),
    Tracer = spawn(fun() -> count(Me, 0) end),
    false = seq_trace:set_system_tracer(Tracer),
    receive after 500 -> ok end,
    seq_trace:set_system_tracer(false),
    Tracer ! stop,
    receive {shown, N} -> N end.

count(To, N) ->
    receive
        {seq_trace, _, _} -> count(To, N + 1);
        {seq_trace, _, _, _} -> count(To, N + 1);
        stop -> To ! {shown, N}
    end.

%% ---- a trace of the application's own ----

trace_begin() ->
    Holder = spawn(fun() -> trace_tracer([]) end),
    register(it_token_tracer, Holder),
    false = seq_trace:set_system_tracer(Holder),
    register(it_token_server, spawn(fun server/0)),
    ok.

trace_tracer(Seen) ->
    receive
        {seq_trace, {theirs, Ref}, {send, _, _, _, _}} -> trace_tracer([Ref | Seen]);
        {seen, Ref, From} -> From ! {seen, length([R || R <- Seen, R =:= Ref])}, trace_tracer(Seen);
        _ -> trace_tracer(Seen)
    end.

%% Its way goes through the entry here, and a tier in a server.
trace_run() ->
    trace_hold(),
    trace_go().

trace_hold() ->
    Ref = make_ref(),
    P = spawn(fun() ->
                      seq_trace:set_token(label, {theirs, Ref}),
                      seq_trace:set_token(send, true),
                      ask(first),
                      receive {timeout, _, go} -> ok end,
                      request(fun(X) -> work(X), ask(second) end, 1),
                      ask(third),
                      put(over, true),
                      receive never -> ok end
              end),
    until(fun() -> {status, waiting} =:= process_info(P, status) end),
    persistent_term:put(it_token_held, {P, Ref}),
    ok.

trace_go() ->
    {P, Ref} = persistent_term:get(it_token_held),
    erlang:start_timer(0, P, go),
    until(fun() -> {_, D} = process_info(P, dictionary), lists:member({over, true}, D) end),
    persistent_term:erase(it_token_held),
    exit(P, kill),
    it_token_tracer ! {seen, Ref, self()},
    receive {seen, N} -> N end.

ask(What) ->
    Me = self(),
    it_token_server ! {ask, What, Me},
    receive {answer, What} -> ok end.

server() ->
    receive {ask, What, From} -> request(fun work/1, What), From ! {answer, What}, server() end.

until(Fun) ->
    case Fun() of
        true -> ok;
        false -> receive after 2 -> ok end, until(Fun)
    end.
