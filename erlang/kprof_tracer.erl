%% kprof_tracer - what `kprof trace` puts into a node.
%%
%% Loaded over the distribution, started for one client, and gone with it. It
%% has the VM tell it of every call of the functions that it is given, and when
%% the chosen processes run, wait and collect garbage, and sends that on. For an
%% operator of the node: kprof_tracer:stop() ends it, and
%% {kprof, [{disabled, true}]} in the node's configuration keeps it out.
%%
%% What is safe about it: no argument and no return value is in what it sends,
%% and none is copied but what a process is spawned with and the reason that it
%% ends for. Events, its queue and what the node grows by are bounded: past a
%% limit it takes back what it armed at once, and sends what is there. It
%% monitors the client and holds a lease; when either ends it is gone.
%%
%% Two processes: the server, which is the tracer, and a sentry that cleans up
%% behind it however it ended. From OTP 27 on all is in one trace session, whose
%% only handle is the server's. On 25 and 26 functions and processes that
%% somebody else traces are refused or left alone.
-module(kprof_tracer).

-export([start/2, stop/0]).

-define(GUESTS, [?MODULE]).
-include("kprof_guest.hrl").
-include("kprof_wanted.hrl").
-include("kprof_oneshot.hrl").
-compile({nowarn_unused_function, [{now_ns, 0}]}).

-define(TICK_MS, 200).          % how often lease and memory are looked at
-define(RETRY_MS, 5).           % where the connection takes nothing
-define(BATCH, 500).            % events of one message
-define(BATCH_MS, 20).          % how long the first of them waits

-record(s, {
    client, client_ref,
    sentry,             % {Pid, MonitorRef}
    who,                % binary, for the log
    session,            % trace session (OTP 27+) or legacy
    lease_ms, lease_at,
    armed = [],         % {M, '_', '_'} or {M, F, A}: what patterns were set
    chosen, flags,      % of processes, set by go
    stage = ready,      % ready | tracing | draining: no more events are made
    why,                % the reason that it ended for, and what was said of it
    delivered,          % reference: after it no event comes
    applied,            % undefined | {Pid, MonitorRef, Deadline} | done
    memory_max, memory, % bytes of the VM's own, past those at the start
    events = 0, events_max,
    queue_max,
    batch = [], n = 0,  % events not yet sent, the last first
    seq = 0
}).

init(Starter, Client, #{who := Who, lease_ms := Lease, apply := Apply, apply_ms := ApplyMs, processes := Which,
                        max_memory := MaxMemory, max_events := MaxEvents, max_queue := MaxQueue} = Opts) ->
    try register(?MODULE, self()) of
        true -> ok
    catch
        error:badarg -> refuse("somebody traces there already (kprof_tracer:stop() there ends it)", [])
    end,
    process_flag(message_queue_data, off_heap),
    process_flag(priority, high),
    Call = call_of(Apply),
    Session = session_new(?MODULE),
    {Armed, Functions} = wanted(Opts),
    untraced(Session, Functions),
    S0 = #s{client = Client, client_ref = erlang:monitor(process, Client), sentry = sentry_start(), who = Who,
            session = Session, lease_ms = Lease, armed = Armed, flags = flags(Opts),
            memory_max = MaxMemory, events_max = MaxEvents, queue_max = MaxQueue},
    tell_sentry(S0),
    Applied = prepare(Call, ApplyMs),
    S = S0#s{applied = Applied, chosen = chosen_of(Which, Applied, Opts)},
    tell_sentry(S),
    logger:notice("kprof traces calls for ~ts (kprof_tracer:stop() ends it)", [Who]),
    Foreign = case Session of legacy -> foreign(S#s.chosen); _ -> [] end,
    [pattern(Session, P, [{'_', [], [{message, {caller}}]}]) || P <- Armed],
    Starter ! {self(), #{functions => length(Functions), processes => processes_in(S#s.chosen),
                         otp => erlang:system_info(otp_release), skipped => length(Foreign),
                         offset => erlang:time_offset(nanosecond)}},
    tick(),
    loop(S#s{lease_at = now_ms(), memory = erlang:memory(system)}).

%% The process of a call that is made for us, if nobody else is named.
chosen_of(<<>>, {Pid, _, _}, _) -> [Pid];
chosen_of(<<>>, undefined, Opts) -> chosen_of(<<"all">>, undefined, Opts);
chosen_of(Which, _, #{max_processes := Max}) ->
    Chosen = chosen(Which),
    N = processes_in(Chosen),
    N > Max andalso refuse("these are ~b processes, more than ~b (choose with -processes, or see -max-processes)",
                           [N, Max]),
    Chosen.

processes_in(Chosen) when is_list(Chosen) -> length(Chosen);
processes_in(new) -> 0;
processes_in(_) -> erlang:system_info(process_count).

flags(#{spawned := Spawned}) ->
    [call, return_to, arity, running, procs, garbage_collection, monotonic_timestamp | [set_on_spawn || Spawned]].

%% ----------------------------------------------------------------- loop ----

loop(#s{n = 0} = S) ->
    receive Msg -> message(Msg, S) end;
loop(#s{n = ?BATCH} = S) ->
    loop(flush(S));
loop(S) ->
    receive Msg -> message(Msg, S)
    after ?BATCH_MS -> loop(flush(S))
    end.

message({trace_ts, _, call, _, _, _} = Event, S) -> loop(add(Event, S));
message({trace_ts, _, return_to, _, _} = Event, S) -> loop(add(Event, S));
message({trace_ts, _, in, _, _} = Event, S) -> loop(add(Event, S));
message({trace_ts, _, out, _, _} = Event, S) -> loop(add(Event, S));
message({trace_ts, P, Gc, _, Ts}, S) when Gc =:= gc_minor_start; Gc =:= gc_major_start ->
    loop(add({trace_ts, P, gc_start, 0, Ts}, S));
message({trace_ts, P, Gc, _, Ts}, S) when Gc =:= gc_minor_end; Gc =:= gc_major_end ->
    loop(add({trace_ts, P, gc_end, 0, Ts}, S));
message({trace_ts, P, spawn, Child, {M, F, Args}, Ts}, S) when node(Child) =:= node(), is_list(Args) ->
    loop(add({trace_ts, P, spawn, Child, {M, F, length(Args)}, Ts}, S));
message({trace_ts, P, exit, _, Ts}, S) ->
    loop(add({trace_ts, P, exit, 0, Ts}, S));
message({kprof, Client, _, Cmd}, #s{client = Client} = S) ->
    loop(command(Cmd, S#s{lease_at = now_ms()}));
message(tick, S) ->
    tick(),
    look(S);
message({trace_delivered, _, Ref}, #s{delivered = Ref} = S) ->
    loop(ended(flush(S)));
message({'DOWN', Ref, process, _, Reason}, #s{applied = {_, Ref, _}} = S) ->
    S1 = S#s{applied = done},
    tell_sentry(S1),
    {kprof_ended, Outcome, Text} = outcome(Reason),
    loop(disarm({Outcome, Text}, S1));
message({overran, Ref}, #s{applied = {Pid, Ref, _}} = S) ->
    exit(Pid, kill),
    loop(S);
message({'DOWN', Ref, process, _, Reason}, #s{client_ref = Ref} = S) ->
    finish({gone, Reason}, S);
message({'DOWN', Ref, process, _, _}, #s{sentry = {_, Ref}} = S) ->
    S1 = S#s{sentry = sentry_start()},
    tell_sentry(S1),
    loop(S1);
message({?MODULE, stop}, S) ->
    finish(stopped, S);
message(_, S) ->
    loop(S).

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

look(#s{stage = tracing, memory = Memory, memory_max = Max} = S) ->
    {memory, Own} = process_info(self(), memory),
    case erlang:memory(system) - Memory + Own of
        More when More > Max -> loop(disarm({memory, 0}, S));
        _ -> look_lease(S)
    end;
look(S) ->
    look_lease(S).

look_lease(S) ->
    now_ms() - S#s.lease_at > S#s.lease_ms andalso finish(lease, S),
    loop(S).

command(go, #s{stage = ready} = S0) ->
    %% Without events: it says that it traces.
    S = send({kprof_calls, 0, []}, arm(S0#s{stage = tracing, seq = 1})),
    case S#s.applied of
        {Pid, Ref, Ms} ->
            erlang:send_after(Ms, self(), {overran, Ref}),
            Pid ! go;
        undefined -> ok
    end,
    S;
command(read, #s{stage = tracing} = S) ->
    disarm({returned, 0}, S);
command(stop, S) ->
    finish(done, S);
command(_, S) ->
    S.

%% --------------------------------------------------------------- events ----

add(Event, #s{events = N, events_max = Max} = S) when N < Max ->
    S#s{batch = [Event | S#s.batch], n = S#s.n + 1, events = N + 1};
add(_, S) ->
    disarm({events, 0}, S).

flush(#s{n = 0} = S) ->
    S;
flush(#s{batch = Batch, seq = Seq} = S0) ->
    S = send({kprof_calls, Seq, lists:reverse(Batch)}, queue(S0)),
    S#s{batch = [], n = 0, seq = Seq + 1}.

%% More than it can send: no more of them.
queue(#s{stage = tracing, queue_max = Max} = S) ->
    case process_info(self(), message_queue_len) of
        {_, N} when N > Max -> disarm({queue, 0}, S);
        _ -> S
    end;
queue(S) ->
    S.

%% Waits while the connection is busy, but not for a client that has gone or
%% hangs; and looks at the queue meanwhile.
send(Msg, S) ->
    send(Msg, now_ms() + S#s.lease_ms, S).

send(Msg, Deadline, #s{client_ref = Ref} = S) ->
    case erlang:send(S#s.client, Msg, [noconnect, nosuspend]) of
        ok -> S;
        _ ->
            now_ms() > Deadline andalso finish(lease, S),
            receive {'DOWN', Ref, process, _, Reason} -> finish({gone, Reason}, S)
            after ?RETRY_MS -> send(Msg, Deadline, queue(S))
            end
    end.

%% ------------------------------------------------------------------ end ----

%% From now on no event is made; those that were, are still to come.
disarm(Why, #s{stage = tracing} = S) ->
    S#s{stage = draining, why = Why, delivered = unarm(S)};
disarm(_, S) ->
    S.

%% The client says when it has had enough.
ended(#s{why = {Why, Text}} = S) ->
    send({kprof_calls_end, Why, Text, names()}, S).

%% The sentry does what is left, and has the module purged.
-spec finish(term(), #s{}) -> no_return().
finish(Reason, S) ->
    stop_call(S#s.applied),
    clear(S#s.session, self(), S#s.armed),
    logger:notice("kprof traces no more for ~ts: ~ts", [S#s.who, reason_text(Reason)]),
    exit({kprof, Reason}).

reason_text(done) -> "it is done";
reason_text(stopped) -> "stopped by kprof_tracer:stop()";
reason_text(lease) -> "its lease ran out";
reason_text({gone, _}) -> "the connection is gone".

%% What the sentry tells the client.
end_text({kprof, Reason}) -> text("~ts", [reason_text(Reason)]);
end_text(Reason) -> text("it died: ~0tP", [Reason, 8]).

clear(legacy, Server, Armed) ->
    clear_flags(Server),
    [pattern(legacy, P, false) || P <- Armed],
    ok;
clear(Session, _, _) ->
    trace:session_destroy(Session),
    ok.

sentry(Ref, Server, {Client, Legacy, Armed, Applied} = Own) ->
    receive
        {own, New} ->
            sentry(Ref, Server, New);
        {'DOWN', Ref, process, Server, Reason} ->
            stop_call(Applied),
            Legacy andalso clear(legacy, Server, Armed),
            erlang:send(Client, {kprof_ended, gone, end_text(Reason)}, [noconnect, nosuspend]),
            purger_start([Server, self()]);
        _ ->
            sentry(Ref, Server, Own)
    end.

%% Before it is so.
tell_sentry(#s{session = Session} = S) ->
    element(1, S#s.sentry) ! {own, {S#s.client, Session =:= legacy, S#s.armed, S#s.applied}},
    ok.

%% ------------------------------------------------- the two trace back ends ----

arm(#s{session = legacy, chosen = Chosen, flags = Flags} = S) ->
    flag_each(fun(P) -> erlang:trace(P, true, Flags) end, Chosen),
    S;
arm(#s{session = Session, chosen = Chosen, flags = Flags} = S) ->
    flag_each(fun(P) -> trace:process(Session, P, true, Flags) end, Chosen),
    S.

%% Local, since return_to is for local calls only.
pattern(legacy, MFA, Spec) ->
    erlang:trace_pattern(MFA, Spec, [local]);
pattern(Session, MFA, Spec) ->
    trace:function(Session, MFA, Spec, [local]).

%% Returns what comes when all events have come.
unarm(#s{session = legacy, armed = Armed}) ->
    clear(legacy, self(), Armed),
    erlang:trace_delivered(all);
unarm(#s{session = Session}) ->
    trace:process(Session, all, false, [all]),
    trace:delivered(Session, all).
