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
-define(DOES, "traces").
-include("kprof_guest.hrl").
-include("kprof_wanted.hrl").
-compile({nowarn_unused_function, [{now_ns, 0}]}).

-define(TICK_MS, 200).          % how often lease and memory are looked at
-define(RETRY_MS, 5).           % where the connection takes nothing
-define(OTHERS, 20).            % processes that somebody else traces
-define(BATCH, 500).            % events of one message
-define(BATCH_MS, 20).          % how long the first of them waits

-record(s, {
    client, client_ref,
    sentry,             % {Pid, MonitorRef}
    who,                % binary, for the log
    session,            % trace session (OTP 27+) or legacy
    lease_ms, lease_at,
    armed = [],         % {M, '_', '_'} or {M, F, A}: what patterns were set
    ours,               % #{{M, F, A} => []}, or all: whose calls we take for ours
    chosen, flags,      % of processes, set by go
    stage = ready,      % ready | tracing | draining: no more events are made
    why,                % the reason that it ended for, and what was said of it
    delivered,          % reference: after it no event comes
    applied,            % undefined | {Pid, MonitorRef, Ms | overran} | done
    memory_max, memory, % bytes of the VM's own, past those at the start
    events = 0, events_max,
    queue_max,
    batch = [], n = 0,  % events not yet sent, the last first
    seq = 0
}).

-include("kprof_oneshot.hrl").

init(Starter, Client, #{who := Who, lease_ms := Lease, apply := Apply, apply_ms := ApplyMs, processes := Which,
                        max_memory := MaxMemory, max_events := MaxEvents, max_queue := MaxQueue} = Opts) ->
    take_name(),
    process_flag(message_queue_data, off_heap),
    process_flag(priority, high),
    Call = call_of(Apply),
    Session = session_new(?MODULE),
    {Armed, Functions} = wanted(Opts),
    untraced(Session, Functions),
    S0 = #s{client = Client, client_ref = erlang:monitor(process, Client), sentry = sentry_start(), who = Who,
            session = Session, lease_ms = Lease, armed = Armed, ours = ours(Session, Functions), flags = flags(Opts),
            memory_max = MaxMemory, events_max = MaxEvents, queue_max = MaxQueue},
    tell_sentry(S0),
    S1 = S0#s{applied = prepare(Call, ApplyMs)},
    tell_sentry(S1),
    Chosen = chosen(whose(Which, Call), Opts, S1#s.applied),
    S = S1#s{chosen = Chosen},
    Foreign = foreign(Session, Chosen),
    Spec = [{'_', guards(Foreign), [{message, {caller}}]}],
    say_begin(S),
    [begin pattern(Session, P, Spec), heed(0, S) end || P <- Armed],
    Starter ! {self(), #{functions => length(Functions), processes => processes_in(Chosen),
                         otp => erlang:system_info(otp_release), skipped => map_size(Foreign),
                         offset => erlang:time_offset(nanosecond)}},
    tick(),
    loop(S#s{lease_at = now_ms(), memory = own_memory()}).

%% On OTP 25 and 26 patterns of somebody else's have the processes that we trace
%% tell us of their functions too.
ours(legacy, Functions) -> maps:from_list([{MFA, []} || MFA <- Functions]);
ours(_, _) -> all.

%% And ours would have the processes that somebody else traces tell him of our
%% functions: these are left out one by one.
guards(Foreign) ->
    Told = [P || P <- maps:keys(Foreign), {flags, Flags} <- [erlang:trace_info(P, flags)], lists:member(call, Flags)],
    length(Told) > ?OTHERS andalso
        refuse("calls of ~b processes are traced by somebody else, who would be told of these too (kprofd? OTP 27 has"
               " sessions)", [length(Told)]),
    [{'=/=', {self}, P} || P <- Told].

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

message({trace_ts, _, call, _, _, _} = Event, #s{ours = all} = S) -> loop(add(Event, S));
message({trace_ts, _, call, MFA, _, _} = Event, #s{ours = Ours} = S) when is_map_key(MFA, Ours) -> loop(add(Event, S));
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
    {kprof_ended, Outcome, Text} = outcome(Reason, S#s.applied),
    loop(disarm({Outcome, Text}, S1));
message({overran, Ref}, #s{applied = {Pid, Ref, _}} = S) ->
    exit(Pid, kill),
    loop(S#s{applied = {Pid, Ref, overran}});
message({'DOWN', Ref, process, _, Reason}, #s{client_ref = Ref} = S) ->
    finish({gone, Reason}, S);
message({'DOWN', Ref, process, _, _}, #s{sentry = {_, Ref}} = S) ->
    loop(new_sentry(S));
message({?MODULE, stop}, S) ->
    finish(stopped, S);
message(_, S) ->
    loop(S).

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

look(#s{stage = tracing, memory = Memory, memory_max = Max} = S) ->
    {memory, Own} = process_info(self(), memory),
    case own_memory() - Memory + Own of
        More when More > Max -> loop(disarm({memory, 0}, S));
        _ -> loop(look_lease(S))
    end;
look(S) ->
    loop(look_lease(S)).

command(go, #s{stage = ready} = S0) ->
    %% Without events: it says that it traces.
    flag(S0#s.chosen, S0#s.flags, S0#s.session),
    S = send({kprof_calls, 0, []}, S0#s{stage = tracing, seq = 1}),
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
    S#s{stage = draining, why = Why, delivered = unarm(S), armed = []};
disarm(_, S) ->
    S.

%% The client says when it has had enough.
ended(#s{why = {Why, Text}} = S) ->
    send({kprof_calls_end, Why, Text, names()}, S).

legacy_armed(#s{armed = Armed}) ->
    Armed.

legacy_clear(P) ->
    pattern(legacy, P, false).

%% ------------------------------------------------- the two trace back ends ----

%% Local, since return_to is for local calls only.
pattern(legacy, MFA, Spec) ->
    erlang:trace_pattern(MFA, Spec, [local]);
pattern(Session, MFA, Spec) ->
    trace:function(Session, MFA, Spec, [local]).

%% Returns what comes when all events have come.
unarm(#s{session = legacy} = S) ->
    clear(legacy, self(), legacy_armed(S)),
    erlang:trace_delivered(all);
unarm(#s{session = Session}) ->
    trace:process(Session, all, false, [all]),
    trace:delivered(Session, all).
