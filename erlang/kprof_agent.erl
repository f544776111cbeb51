%% kprof_agent - what kprofd puts into a node it profiles.
%%
%% Loaded over the distribution, started for one daemon, and gone with it.
%% For an operator of the node:
%%
%%   kprof_agent:status().   % who attached, what is armed, what it cost
%%   kprof_agent:stop().     % end it now: everything is taken back
%%
%% and {kprof, [{disabled, true}]} in the node's configuration keeps it out.
%%
%% What is safe about it: it obeys only the process it was started for; it
%% arms nothing but the functions that it is given; no argument and no return
%% value leaves the node unless the user asked for it; it limits its own
%% queue, memory and lag and disarms by itself, at once, when a limit is
%% passed; it monitors the daemon and holds a lease, and when either ends it
%% takes back what it armed.
%%
%% Code that is loaded anew, deleted or there at last is seen when it happens,
%% and armed again here, in place.
%%
%% Two processes. The agent is the tracer and the batcher; with the native probe
%% (kprof_probe) that is the tracer, and the agent empties its rings. The
%% sentry, which does nothing while the agent lives, cleans up behind it however
%% it ended, kill included, and then has these modules purged by a process that
%% runs none of their code. From OTP 27 on all tracing is in one trace session whose
%% only handle is in the agent's state, so that it cannot outlive it.
-module(kprof_agent).

-export([start/2, status/0, stop/0]).

-define(GUESTS, [kprof_probe, ?MODULE]).
-include("kprof_guest.hrl").

-define(PROTOCOL, 3).
-define(BATCH_EVENTS, 500).     % most events in one message
-define(BATCH_MS, 15).          % longest wait for a batch to fill: with the way
                                % to the daemon an event is there within 20
-define(BATCH_LEAST_MS, 5).     % where events may not be much older
-define(TICK_MS, 500).          % how often the lease is looked at
-define(PROBE_MS, 200).         % how long a call rate is measured
-define(LOAD_MS, 8000).         % how long modules have to be loaded
-define(DRAIN_MS, 1000).        % longest stay after the end, to hand over
-define(NEAR_MODULES, 20000).   % module names sent for "did you mean"
-define(STACK_SHOWN, 8).        % frames that the VM shows, if not told other
-define(NEIGHBOURS, 5).         % processes of others that are named
-define(EXACT_WORDS, 512).      % mean size of values that 'exact' may copy
-define(EXACT_CALLS, 1000).     % of about so many calls, the last ones
-define(LOOK_US, 5000).         % how often code is looked at when behind
-define(DRAIN_RECORDS, 8192).   % taken from the rings at once, about
-define(RINGS_MS, 10).          % how often rings are looked at that fill
-define(RINGS_IDLE_MS, 15).     % and others
-define(TCW_MASK, 16#FFFFFFF).  % the counter in the trace control word

%% For an entry: who calls it has no token any more.
-define(TAKE_TOKEN, [{'_', [], [{message, false},
                                {set_seq_token, sequential_trace_token, []}]}]).
%% What returns when code was loaded or deleted.
-define(CODE_CHANGES, [{erlang, finish_loading, 1},
                       {erlang, finish_after_on_load, 2},
                       {erlang, delete_module, 1}]).
%% Only meta tracing, which is for these, has time stamps of this form.
-define(CODE_CHANGED(At), {trace_ts, _, return_from, _, _, {_, _, _} = At}).

%% kind: entry | tier; gone: the target has no such function now
-record(item, {mfa, kind, spec, fallback, gone = false}).

-record(s, {
    daemon,             % the only process that is obeyed
    daemon_ref,         % monitor
    sentry,             % {Pid, MonitorRef}
    who,                % binary: who attached, for the log and status/0
    since,              % erlang:system_time(second)
    lease_ms,
    lease_at,           % monotonic ms of the last renewal
    lease_ref = 0,      % its reference: which of them a status answers
    max_queue, max_memory, max_age_ns,
    session,            % trace session (OTP 27+) or legacy
    watcher,            % the session that watches for code, if another
    probe = relay,      % relay | native
    rings = {0, 0},     % events that found their ring full, and entries
    tcw,                % trace control word as it was found
    plan = [],          % [#item{}], what to arm
    state = idle,       % idle | armed | paused | {tripped | ended, Reason}
    exact = #{},        % MFA => {Events, Words}: sizes of values seen
    seq = 0,            % batches sent
    sent = 0,           % events sent
    busy = 0,           % ns spent on batches
    dropped = 0,        % events dropped
    dropped_entries = 0,
    entry_base = 0,     % entry calls counted under earlier plans
    unarmed = 0,        % entry calls while nothing was armed
    unarmed_from = 0,   % counter when disarmed last
    changing,           % {DeliveredRef, Ref}: a change is answered then
    loading,            % {Ref, Modules, Loader}: a check is answered then
    rating,             % the probe of call rates that runs: see rates/4
    last_trip = none,   % see trip/3
    counted = #{},      % entry MFA => its counter when it was read last
    counted_at = 0,     % monotonic ms of that
    mods = [],          % [{Module, Version}] of tiers.conf, when looked at
    looked_at = 0,      % microseconds of system time; never: it is over
    watching = [],      % those of CODE_CHANGES that tell us
    changes = 0,        % modules that were loaded anew, deleted, there at last
    gap_us = 0,         % from those loads to the arming, in all
    unsent = []         % notices that found the connection busy, oldest last
}).

%% ---------------------------------------------------------------- start ----

%% Called over rex. Opts: protocol, who, lease_ms, max_queue, max_memory
%% (bytes), max_age_ms.
%% Where it does not start, nothing stays, this module included.
start(Daemon, Opts) when is_pid(Daemon), is_map(Opts) ->
    Result = case {disabled(), is_connected(node(Daemon))} of
                 {true, _} -> {error, disabled};
                 {_, false} -> {error, daemon_gone};
                 _ -> start_agent(Daemon, Opts)
             end,
    element(1, Result) =:= ok orelse purger_start([self()]),
    Result.

start_agent(_Daemon, #{protocol := P}) when P =/= ?PROTOCOL ->
    {error, {protocol, ?PROTOCOL}};
start_agent(Daemon, Opts) ->
    Starter = self(),
    {Agent, Ref} = spawn_monitor(fun() -> init(Starter, Daemon, Opts) end),
    receive
        {Agent, Hello} ->
            erlang:demonitor(Ref, [flush]),
            Hello;
        {'DOWN', Ref, process, Agent, Reason} ->
            {error, Reason}
    after 5000 ->
            exit(Agent, kill),
            {error, timeout}
    end.

init(Starter, Daemon, #{who := Who, lease_ms := Lease,
                        max_queue := MaxQueue, max_memory := MaxMemory,
                        max_age_ms := MaxAge}) ->
    try register(?MODULE, self()) of
        true -> ok
    catch
        error:badarg -> exit(already)
    end,
    process_flag(message_queue_data, off_heap),
    process_flag(priority, high),
    %% Batches are built, sent and dropped: a roomy young heap lets most of
    %% them die before a collection.
    process_flag(min_heap_size, 64 * 1024),
    process_flag(fullsweep_after, 8),
    Session = session_new(kprofd),
    case foreign_tracing(Session) of
        false -> ok;
        Why -> exit(Why)
    end,
    Tcw = erlang:system_info(trace_control_word),
    S = watch(#s{daemon = Daemon,
                 daemon_ref = erlang:monitor(process, Daemon),
                 sentry = sentry_start(Session, Tcw),
                 who = Who,
                 since = erlang:system_time(second),
                 lease_ms = Lease,
                 lease_at = now_ms(),
                 max_queue = MaxQueue, max_memory = MaxMemory,
                 max_age_ns = MaxAge * 1000000,
                 session = Session,
                 tcw = Tcw}),
    %% Somewhere random, so that labels of an earlier run rarely come again.
    erlang:system_flag(trace_control_word,
                       rand:uniform(?TCW_MASK)),
    logger:notice("kprofd attached: ~ts (kprof_agent:stop() ends it)", [Who]),
    Starter ! {self(), {ok, self(), hello(S)}},
    tick(),
    loop(S).

hello(#s{session = Session}) ->
    #{protocol => ?PROTOCOL,
      node => node(),
      otp => erlang:system_info(otp_release),
      time_offset => erlang:time_offset(nanosecond),
      session => Session =/= legacy}.

%% ------------------------------------------------------ operator's calls ----

status() ->
    ask(status).

stop() ->
    ask(stop).

ask(What) ->
    case whereis(?MODULE) of
        undefined ->
            not_attached;
        Pid ->
            Ref = erlang:monitor(process, Pid),
            Pid ! {?MODULE, What, self(), Ref},
            receive
                {Ref, Answer} ->
                    erlang:demonitor(Ref, [flush]),
                    Answer;
                {'DOWN', Ref, process, Pid, _} ->
                    not_attached
            after 5000 ->
                    erlang:demonitor(Ref, [flush]),
                    timeout
            end
    end.

summary(S) ->
    #{who => S#s.who,
      since => calendar:system_time_to_rfc3339(S#s.since, [{offset, "Z"}]),
      state => S#s.state,
      probe => S#s.probe,
      armed => [I#item.mfa || I <- S#s.plan, not I#item.gone],
      missing => [I#item.mfa || I <- S#s.plan, I#item.gone],
      code_changes => S#s.changes,
      code_gap_us => S#s.gap_us,
      last_trip => S#s.last_trip,
      events_sent => S#s.sent,
      events_dropped => S#s.dropped,
      busy_ms => S#s.busy div 1000000,
      entry_calls => entry_calls(read_counters(S))}.

%% ----------------------------------------------------------------- loop ----

loop(S) ->
    receive
        ?CODE_CHANGED(At) ->
            loop(look_anew(micros(At), S));
        Ev when element(1, Ev) =:= trace_ts ->
            loop(event(Ev, S));
        {kprof, Daemon, Ref, Cmd} when Daemon =:= S#s.daemon ->
            S1 = command(Cmd, Ref, S),
            %% Afterwards: what took us long was not the daemon's silence.
            loop(S1#s{lease_at = now_ms()});
        tick ->
            tick(),
            loop(lease(flush_unsent(S)));
        drain ->
            loop(drain(S));
        {'DOWN', Ref, process, _, Reason} when Ref =:= S#s.daemon_ref ->
            finish({daemon_gone, Reason}, S);
        {'DOWN', Ref, process, _, _} when Ref =:= element(2, S#s.sentry) ->
            S1 = S#s{sentry = sentry_start(S#s.session, S#s.tcw)},
            own([], S1),
            loop(S1);
        {trace_delivered, _, Delivered}
          when Delivered =:= element(1, S#s.changing) ->
            {_, Ref} = S#s.changing,
            loop(reply(Ref, ok, S#s{changing = undefined}));
        {loaded, Ref, Tried} ->
            loop(loaded(Ref, Tried, S));
        {rated, Ref, Loops} ->
            loop(rated(Ref, Loops, S));
        {neighbours, Traced} ->
            loop(tell_neighbours(Traced, S));
        {?MODULE, status, From, Ref} ->
            From ! {Ref, summary(S)},
            loop(S);
        {?MODULE, stop, From, Ref} ->
            From ! {Ref, ok},
            finish(stopped_by_operator, S);
        _ ->
            loop(S)
    end.

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

lease(S) ->
    case now_ms() - S#s.lease_at > S#s.lease_ms of
        true -> finish(lease_expired, S);
        false -> S
    end.

%% --------------------------------------------------------------- events ----

%% While armed: gather what comes within the wait, look at the limits, send.
%% Otherwise what still trickles in is dropped and counted.
event(Ev, #s{state = armed} = S0) ->
    S = case process_info(self(), message_queue_len) of
            {_, Len} when Len < ?BATCH_EVENTS - 1 ->
                receive after wait_ms(S0) -> S0 end;
            _ ->
                look_ahead(S0)
        end,
    T0 = now_ns(),
    {First, N, Evs, S1} = gather(?BATCH_EVENTS - 1, Ev, [], S),
    S2 = batch(First, N, Evs, S1),
    S2#s{busy = S2#s.busy + now_ns() - T0};
event(Ev, S) ->
    drop(Ev, S).

%% Each batch costs both sides far more than an event; and a quarter of the age
%% that events may have is no overload yet.
wait_ms(#s{max_age_ns = Ns}) ->
    max(?BATCH_LEAST_MS, min(?BATCH_MS, Ns div 4000000)).

%% Returns the time of the oldest event, their number, and them in order.
gather(Left, Ev, Acc, S) ->
    {Stripped, S1} = strip(Ev, S),
    gather_more(Left, [Stripped | Acc], element(tuple_size(Ev), Ev), S1).

gather_more(0, Acc, First, S) ->
    {First, ?BATCH_EVENTS, lists:reverse(Acc), S};
gather_more(Left, Acc, First, S) ->
    receive
        ?CODE_CHANGED(At) ->
            gather_more(Left, Acc, First, look_anew(micros(At), S));
        {trace_ts, _, Kind, _, _, _} = Ev
          when Kind =:= return_from; Kind =:= exception_from ->
            {Stripped, S1} = strip(Ev, S),
            gather_more(Left - 1, [Stripped | Acc], First, S1);
        Ev when element(1, Ev) =:= trace_ts ->
            gather_more(Left - 1, [Ev | Acc], First, S)
    after 0 ->
            {First, ?BATCH_EVENTS - Left, lists:reverse(Acc), S}
    end.

batch(First, N, Evs, S) ->
    Now = now_ns(),
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    case over_limit(Now - First, Queue, S) of
        false ->
            Seq = S#s.seq + 1,
            Msg = {kprof_events, Seq, Now, Queue, S#s.dropped, Evs},
            case send(Msg, S) of
                ok ->
                    S#s{seq = Seq, sent = S#s.sent + N};
                Busy ->
                    trip(Busy, Queue, lists:foldl(fun drop/2, S, Evs))
            end;
        Reason ->
            trip(Reason, Queue, lists:foldl(fun drop/2, S, Evs))
    end.

over_limit(Age, _, S) when Age > S#s.max_age_ns ->
    {age_ms, Age div 1000000};
over_limit(_, Queue, S) when Queue > S#s.max_queue ->
    {queue, Queue};
over_limit(_, _, S) ->
    %% Counts the messages outside the heap too.
    {memory, Bytes} = process_info(self(), memory),
    Bytes > S#s.max_memory andalso {memory, Bytes}.

send(Msg, S) ->
    erlang:send(S#s.daemon, Msg, [noconnect, nosuspend]).

drop(?CODE_CHANGED(_), S) ->
    S;                          % seen with the next lease
drop({trace_ts, _, call, _, X, At}, S0) ->
    S = late_call(At, S0),
    Entries = if tuple_size(X) =:= 7 -> 1; true -> 0 end,
    S#s{dropped = S#s.dropped + 1,
        dropped_entries = S#s.dropped_entries + Entries};
drop(_, S) ->
    S#s{dropped = S#s.dropped + 1}.

late_call(At, #s{state = {tripped, _},
                 last_trip = #{last_call_at := Last} = Trip} = S)
  when At > Last ->
    S#s{last_trip = Trip#{last_call_at := At}};
late_call(_, S) ->
    S.

%% Values never leave. Their sizes are watched: 'exact' is taken back from a
%% function that returns large ones, however long they were small before.
strip({trace_ts, P, Kind, MFA, Value, Ts}, S)
  when Kind =:= return_from; Kind =:= exception_from ->
    {{trace_ts, P, Kind, MFA, Ts}, weigh(MFA, Value, S)};
strip(Ev, S) ->
    {Ev, S}.

weigh(MFA, Value, #s{exact = Exact} = S) ->
    case Exact of
        #{MFA := {N, Words}} ->
            Now = {N + 1, Words + erts_debug:flat_size(Value)},
            case Now of
                {_, W} when W > ?EXACT_WORDS * (N + 100) ->
                    unexact(MFA, W, N + 1, S);
                {?EXACT_CALLS, W} ->
                    S#s{exact = Exact#{MFA := {?EXACT_CALLS div 2, W div 2}}};
                _ ->
                    S#s{exact = Exact#{MFA := Now}}
            end;
        _ ->
            S
    end.

unexact(MFA, Words, N, S) ->
    [#item{fallback = Spec} = I] =
        [I || I <- S#s.plan, I#item.mfa =:= MFA],
    pattern(S#s.session, MFA, Spec),
    notice({kprof_notice, unexact, MFA, Words div N * 8},
           S#s{exact = maps:remove(MFA, S#s.exact),
               plan = lists:keyreplace(MFA, #item.mfa, S#s.plan,
                                       I#item{spec = Spec})}).

%% --------------------------------------------------------- native probe ----

%% {probe, Beam, Path, MaxBytes}: from now on the tracer is kprof_probe, whose
%% library is found at Path; or all is as before.
probe_start(Beam, Path, MaxBytes, #s{probe = relay, plan = []} = S) ->
    Threads = lists:sum([erlang:system_info(K)
                         || K <- [schedulers, dirty_cpu_schedulers,
                                  dirty_io_schedulers]]),
    probe_purge(),
    try
        {module, kprof_probe} =
            code:load_binary(kprof_probe, "kprof_probe.beam", Beam),
        ok = kprof_probe:load(Path, Threads, MaxBytes),
        ok = kprof_probe:start(),
        Session = session_new(S#s.session, kprof_probe:tracer()),
        self() ! drain,         % from here on nothing fails
        {{ok, kprof_probe:info()},
         S#s{probe = native, session = Session, watcher = S#s.session}}
    catch
        error:{badmatch, {error, Why}} ->
            probe_purge(),
            {{error, Why}, S};
        error:Why ->
            probe_purge(),
            {{error, Why}, S}
    end;
probe_start(_, _, _, S) ->
    {{error, too_late}, S}.

probe_purge() ->
    [begin code:purge(kprof_probe), code:delete(kprof_probe),
           code:purge(kprof_probe)
     end || erlang:module_loaded(kprof_probe)].

%% It ends by itself where rings are full and nobody empties them for long: if
%% that was us, held up, it is to be there again before anything is armed.
probe_wake(#s{probe = native}) ->
    #{active := Active} = kprof_probe:info(),
    Active orelse kprof_probe:start();
probe_wake(_) ->
    true.

%% Takes what is in the rings, again and again: at once while there is much.
drain(S0) ->
    T0 = now_ns(),
    {N, _, More, S} = drain_once(S0),
    if More -> self() ! drain;
       N > 0 -> erlang:send_after(?RINGS_MS, self(), drain);
       true -> erlang:send_after(?RINGS_IDLE_MS, self(), drain)
    end,
    case N of
        0 -> S;
        _ -> S#s{busy = S#s.busy + now_ns() - T0}
    end.

drain_once(S0) ->
    {Now, Oldest, Waiting, Dropped, Entries, N, More, Chunks} =
        kprof_probe:drain(?DRAIN_RECORDS),
    {Lost, S} = ring_losses(Dropped, Entries, S0),
    {N, Oldest, More, drained(Lost, Now, Oldest, Waiting, N, Chunks, S)}.

%% Counters since the rings were there; Lost: events since the last look.
ring_losses(D, E, #s{rings = {D0, E0}} = S) ->
    {D - D0, S#s{rings = {D, E}, dropped = S#s.dropped + D - D0,
                 dropped_entries = S#s.dropped_entries + E - E0}}.

drained(0, _, _, _, 0, _, S) ->
    S;
drained(Lost, Now, Oldest, Waiting, N, Chunks, #s{state = armed} = S) ->
    case rings_over_limit(Lost, Now - Oldest, Waiting, S) of
        false ->
            case send_chunks(Now, Waiting, N, Chunks, S) of
                {ok, S1} -> S1;
                Busy -> trip(Busy, Waiting, keep_definitions(Chunks, S))
            end;
        Reason ->
            trip(Reason, Waiting, keep_definitions(Chunks, S))
    end;
drained(_, _, _, _, _, Chunks, S) ->
    keep_definitions(Chunks, S).

rings_over_limit(Lost, _, _, _) when Lost > 0 ->
    {rings_full, Lost};
rings_over_limit(_, Age, Waiting, S) ->
    over_limit(Age, Waiting, S).

%% Nothing overtakes definitions that wait: what follows may need them.
send_chunks(_, _, _, _, #s{unsent = [_ | _]}) ->
    nosuspend;
send_chunks(Now, Waiting, N, Chunks, S) ->
    Seq = S#s.seq + 1,
    case send({kprof_events, Seq, Now, Waiting, S#s.dropped, Chunks}, S) of
        ok -> {ok, S#s{seq = Seq, sent = S#s.sent + N}};
        Busy -> Busy
    end.

%% Events are dropped, but not what they define: later ones use it.
keep_definitions(Chunks, S) ->
    {Events, Entries, Kept} = kprof_probe:definitions(Chunks),
    S1 = S#s{dropped = S#s.dropped + Events,
             dropped_entries = S#s.dropped_entries + Entries},
    case Kept of
        [] ->
            S1;
        _ ->
            Seq = S#s.seq + 1,
            notice({kprof_events, Seq, now_ns(), 0, S1#s.dropped, Kept},
                   S1#s{seq = Seq})
    end.

%% All that is there already, sent or, when disarmed, dropped; not what comes
%% meanwhile. Each part is older than the next.
drain_all(S) ->
    drain_all(now_ns(), S).

drain_all(Until, S0) ->
    case drain_once(S0) of
        {_, Oldest, true, S} when Oldest =< Until -> drain_all(Until, S);
        {_, _, _, S} -> S
    end.

hand_over_rings(Deadline, S0) ->
    case drain_once(S0) of
        {0, _, false, S} -> S;
        {_, _, _, S} ->
            case now_ms() < Deadline of
                true -> hand_over_rings(Deadline, S);
                false -> flush(S#s{state = idle})
            end
    end.

%% ------------------------------------------------------------- the trip ----

%% Disarm first, then empty the queue, then tell. The returns of calls that
%% are still under way trickle in afterwards: event/2 drops them.
%%
%% Of the last one status/0 shows, in ns of the node's monotonic time: when it
%% was, since when nothing is armed, when the queue was empty, and how much was
%% in it then; and, of the relay, the time of the newest call of those dropped,
%% which no call can pass that was made while nothing was armed.
trip(Reason, Queue, S) ->
    At = now_ns(),
    Began = #{reason => Reason, queue => Queue, tripped_at => At},
    S1 = disarm({tripped, Reason},
                S#s{last_trip = case S#s.probe of
                                    relay -> Began#{last_call_at => At};
                                    native -> Began
                                end}),
    Disarmed = now_ns(),
    #s{last_trip = Trip} = S2 = flush(S1),
    {message_queue_len, Left} = process_info(self(), message_queue_len),
    Done = Trip#{disarmed_at => Disarmed, emptied_at => now_ns(),
                 left => Left},
    %% Nothing comes now that would make the VM collect what was queued.
    true = erlang:garbage_collect(),
    %% On a busy node this takes a while: the daemon was not silent.
    notice({kprof_notice, trip, Reason, Queue},
           S2#s{last_trip = Done, lease_at = now_ms()}).

flush(#s{probe = native} = S) ->
    drain_all(S);
flush(S) ->
    flush(infinity, S).

%% While something is armed only what is there already: many processors may
%% send events faster than one drops them.
flush_some(#s{probe = native, state = State} = S) ->
    Dropped = drain_all(S#s{state = idle}),
    Dropped#s{state = State};
flush_some(S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    flush(Queue, S).

flush(0, S) ->
    S;
flush(Left, S) ->
    receive
        Ev when element(1, Ev) =:= trace_ts ->
            flush(if Left =:= infinity -> Left; true -> Left - 1 end,
                  drop(Ev, S))
    after 0 ->
            S
    end.

%% Notices are few, and must arrive: they wait while the connection is busy.
notice(Msg, S) ->
    flush_unsent(S#s{unsent = [Msg | S#s.unsent]}).

flush_unsent(#s{unsent = []} = S) ->
    S;
flush_unsent(#s{unsent = Unsent} = S) ->
    S#s{unsent = lists:reverse(send_notices(lists:reverse(Unsent), S))}.

send_notices([], _) ->
    [];
send_notices([Msg | More] = All, S) ->
    case send(Msg, S) of
        ok -> send_notices(More, S);
        _ -> All
    end.

%% ------------------------------------------------------------- commands ----

command(lease, Ref, S) ->
    S1 = read_counters(look_anew(S#s.looked_at, S#s{lease_ref = Ref})),
    _ = send(state_msg(S1), S1),
    S1;
command({check, Mods}, Ref, S) ->
    load(Mods, Ref, S);
command({look, Mods}, Ref, S) ->
    reply(Ref, [check(M, not_loaded) || M <- Mods], named(Mods, S));
command({probe, Beam, Path, MaxBytes}, Ref, S) ->
    {Result, S1} = probe_start(Beam, Path, MaxBytes, S),
    reply(Ref, Result, S1);
command({may, MFAs}, Ref, S) ->
    %% What a change would be refused for, before any of several nodes has it.
    reply(Ref, case taken(MFAs, S) of
                   [] -> ok;
                   Taken -> {error, {traced_by_others, Taken}}
               end, S);
command(nodes, Ref, S) ->
    reply(Ref, [node() | nodes(visible)], S);
command({rates, MFAs, MaybeLoops}, Ref, S) ->
    rates(MFAs, MaybeLoops, Ref, S);
command({arm, Items, Limits}, Ref, S) ->
    {Result, S1} = arm_plan(Items, limits(Limits, S)),
    _ = find_neighbours(S1),
    reply(Ref, Result, S1);
command({change, Take, Items, Limits}, Ref, S) ->
    case change_plan(Take, items(Items), S) of
        {ok, S1} -> changing(Ref, limits(Limits, S1));
        {Error, S1} -> reply(Ref, Error, S1)
    end;
command({spec, MFA, Spec}, Ref, S) ->
    {Result, S1} = respec(MFA, Spec, S),
    reply(Ref, Result, S1);
command(pause, Ref, S) ->
    reply(Ref, ok, flush(disarm(paused, S)));
command(resume, Ref, S) ->
    {Result, S1} = rearm(look_anew(S#s.looked_at, S)),
    reply(Ref, Result, S1);
command(clear_tokens, Ref, S) ->
    seq_trace:reset_trace(),
    reply(Ref, ok, S);
command(stop, _, S) ->
    finish(stopped_by_daemon, S);
command(_, Ref, S) ->
    reply(Ref, {error, unknown_command}, S).

reply(Ref, Result, S) ->
    notice({kprof_reply, Ref, Result}, S).

limits(#{max_queue := Q, max_memory := M, max_age_ms := A}, S) ->
    S#s{max_queue = Q, max_memory = M, max_age_ns = A * 1000000}.

state_msg(S) ->
    Queue = waiting(S),
    {memory, Bytes} = process_info(self(), memory),
    {Name, Reason} = case S#s.state of
                         {What, Why} -> {What, Why};
                         Other -> {Other, []}
                     end,
    {kprof_status, now_ns(), erlang:time_offset(nanosecond),
     Name, Reason, S#s.seq, Queue, Bytes, S#s.sent, S#s.dropped,
     S#s.dropped_entries, entry_calls(S), unarmed(S), S#s.busy,
     S#s.lease_ref}.

%% Events that the daemon cannot have seen yet, at most.
waiting(#s{probe = native}) ->
    maps:get(waiting, kprof_probe:info());
waiting(_) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Queue.

%% ------------------------------------------------------ before the arming ----

%% Another process waits for the code server: a module may be far away, and its
%% on_load function may never end, while events are coming. What is not there in
%% time is not there; when it is at last, that is seen.
load(Mods, Ref, S0) ->
    S = load_end(S0),
    Agent = self(),
    Loader = spawn(fun() ->
                           Tried = [{M, code:ensure_loaded(M)} || M <- Mods],
                           Agent ! {loaded, Ref, maps:from_list(Tried)}
                   end),
    erlang:send_after(?LOAD_MS, Agent, {loaded, Ref, #{}}),
    S#s{loading = {Ref, Mods, Loader}}.

loaded(Ref, Tried, #s{loading = {Ref, Mods, _}} = S0) ->
    S = load_end(S0),
    Answer = [check(M, Why)
              || M <- Mods, {_, Why} <- [maps:get(M, Tried, {error, timeout})]],
    %% What is armed is watched till another plan is: a look follows that.
    reply(Ref, Answer, if S#s.plan =:= [] -> named(Mods, S); true -> S end);
loaded(_, _, S) ->
    S.

load_end(#s{loading = undefined} = S) ->
    S;
load_end(#s{loading = {_, _, Loader}} = S) ->
    exit(Loader, kill),
    S#s{loading = undefined}.

%% Loads nothing: what the target's operator has deleted stays deleted. Asks the
%% VM only: the code server may be busy.
check(Mod, Why) ->
    try
        {Mod, ok, erlang:get_module_info(Mod, exports),
         [F || {Name, _} = F <- erlang:get_module_info(Mod, functions),
               not lists:prefix("-", atom_to_list(Name))],
         behaviours(erlang:get_module_info(Mod, attributes))}
    catch
        error:badarg ->
            {Mod, error, Why, lists:sublist(erlang:loaded(), ?NEAR_MODULES)}
    end.

behaviours(Attributes) ->
    lists:append([Names || {Key, Names} <- Attributes,
                           Key =:= behaviour orelse Key =:= behavior]).

%% Calls a second, from call_count over a short time; -1: somebody else
%% counts that function, and is left alone. Entries that are armed are counted
%% anyway. A loop has processes that are in it, and in nothing above it, at the
%% beginning and at the end: another process looks for them, since events may
%% be coming meanwhile.
rates(MFAs, MaybeLoops, Ref, S0) ->
    #s{session = Session} = S = rates_end(S0),
    Ours = entries(S#s.plan),
    Mine = [MFA || MFA <- MFAs, counter(Session, MFA) =:= false],
    S1 = S#s{rating = {Ref, MFAs, Mine, 0, []}},
    own([], S1),
    [count(Session, MFA, true) || MFA <- Mine],
    Before = [{MFA, counter(Session, MFA)}
              || MFA <- MFAs,
                 lists:member(MFA, Mine) orelse lists:member(MFA, Ours)],
    Agent = self(),
    spawn(fun() ->
                  Inside = inside(MaybeLoops),
                  receive after ?PROBE_MS -> ok end,
                  Loops = [F || {P, F} <- Inside, outermost(P) =:= F],
                  Agent ! {rated, Ref, Loops}
          end),
    S1#s{rating = {Ref, MFAs, Mine, now_ns(), Before}}.

inside([]) ->
    [];
inside(MaybeLoops) ->
    [{P, F} || P <- processes(), F <- [outermost(P)],
               lists:member(F, MaybeLoops)].

rated(Ref, Loops, #s{rating = {Ref, MFAs, _, T0, Before}} = S) ->
    Ns = max(1, now_ns() - T0),
    Rates = [{MFA, rate(MFA, Before, Ns, S), lists:member(MFA, Loops)}
             || MFA <- MFAs],
    reply(Ref, Rates, rates_end(S));
rated(_, _, S) ->
    S.

rate(MFA, Before, Ns, #s{session = Session}) ->
    case {lists:keyfind(MFA, 1, Before), counter(Session, MFA)} of
        {{_, N0}, N} when is_integer(N0), is_integer(N), N >= N0 ->
            (N - N0) * 1000000000 div Ns;
        _ ->
            -1
    end.

%% What is an entry by now stays counted.
rates_end(#s{rating = undefined} = S) ->
    S;
rates_end(#s{rating = {_, _, Mine, _, _}, session = Session} = S) ->
    [count(Session, MFA, false) || MFA <- Mine -- entries(S#s.plan)],
    S1 = S#s{rating = undefined},
    own([], S1),
    S1.

%% The function that a process runs, as far as its stack is shown.
outermost(P) ->
    case process_info(P, current_stacktrace) of
        {_, Stack} when length(Stack) < ?STACK_SHOWN ->
            case lists:dropwhile(fun({M, _, _, _}) -> M =:= proc_lib end,
                                 lists:reverse(Stack)) of
                [{M, F, A, _} | _] -> {M, F, A};
                [] -> none
            end;
        _ ->
            none
    end.

%% --------------------------------------------------------------- arming ----

%% Items: [{MFA, Kind, Spec, Fallback}], Fallback [] but for exact tiers.
arm_plan(Items, S0) ->
    S = disarm(idle, S0),
    Plan = items(Items),
    case taken([I#item.mfa || I <- Plan], S) of
        [] ->
            own(patterns(Plan), S),
            S1 = retire_counters(S),
            S2 = S1#s{plan = Plan, exact = exacts(Plan, S1#s.probe)},
            count_entries(S2, true),
            rearm(S2#s{unarmed_from = entry_calls(S2)});
        Taken ->
            {{error, {traced_by_others, Taken}}, S}
    end.

items(Items) ->
    [#item{mfa = MFA, kind = Kind, spec = Spec, fallback = Fallback}
     || {MFA, Kind, Spec, Fallback} <- Items].

%% Their sizes, which matter only to who copies them.
exacts(_, native) ->
    #{};
exacts(Plan, relay) ->
    maps:from_list([{MFA, {0, 0}}
                    || #item{mfa = MFA, fallback = F} <- Plan, F =/= []]).

%% Tiers first and entries last, so that no request starts half armed. But
%% tokens of before are still about: entries take them first, or else what
%% processes do with them is traced for as long as the arming takes.
rearm(#s{plan = []} = S) ->
    {{error, no_plan}, S};
rearm(#s{state = armed} = S) ->
    {ok, S};
rearm(#s{plan = Plan} = S) ->
    case [I#item.mfa || is_resting(S), I <- Plan, is_others_now(I, S)] of
        [] -> rearm_all(S#s{state = idle});
        Taken -> {{error, {traced_by_others, Taken}}, S}
    end.

rearm_all(S0) ->
    own([], S0),
    {Entries, Tiers} = by_kind([I || I <- S0#s.plan, not I#item.gone]),
    [pattern(S0#s.session, I#item.mfa, ?TAKE_TOKEN) || I <- Entries],
    case arm_tiers(Tiers, S0) of
        {[], S} ->
            _ = probe_wake(S),
            processes_trace(S),
            S1 = read_counters(S),
            case set_patterns(Entries, S) of
                [] ->
                    {ok, S1#s{state = armed, unarmed = unarmed(S1)}};
                Failed ->
                    {{error, {not_armed, Failed}}, disarm(idle, S)}
            end;
        {Failed, S} ->
            {{error, {not_armed, Failed}}, disarm(idle, S)}
    end.

arm_tiers(Items, S) ->
    lists:foldl(fun(I, {Failed, S1}) ->
                        {set_patterns([I], S1) ++ Failed, breathe(S1)}
                end, {[], S}, Items).

%% Many patterns take long on a busy node: between any two the daemon has its
%% answer, and events do not pile up. Those of old tokens, on the way to being
%% armed, are nobody's; in a change no more of them wait than may.
breathe(#s{state = armed} = S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    answer_lease(case over_limit(0, Queue, S) of
                     false -> S;
                     _ -> flush_some(S)
                 end);
breathe(S) ->
    answer_lease(flush_some(S)).

answer_lease(#s{daemon = Daemon} = S) ->
    receive
        {kprof, Daemon, Ref, lease} ->
            S1 = S#s{lease_at = now_ms(), lease_ref = Ref},
            _ = send(state_msg(S1), S1),
            S1
    after 0 ->
            S
    end.

by_kind(Items) ->
    lists:partition(fun(#item{kind = K}) -> K =:= entry end, Items).

%% Those that are not there any more, or not to be traced, with the reason.
set_patterns(Items, #s{session = Session}) ->
    [{I#item.mfa, R} || I <- Items,
                        R <- [pattern(Session, I#item.mfa, I#item.spec)],
                        R =/= 1].

%% A pattern takes effect only after every scheduler has been through a few
%% turns: some milliseconds each on a node that is busy, and many of them on
%% one without processor time of its own. Events go on meanwhile. So first the
%% entries take the token of who calls them, and give none: what processes
%% still have of tokens goes with their next request. Then nothing at all: a
%% session's patterns at once, others by the module; and what comes meanwhile
%% is dropped, but for the end, when it is handed over. Takes the patterns
%% only: flags cost nothing without them, and going through all processes is
%% not for a moment of overload. While it rests none are ours.
disarm(State, S) ->
    case is_resting(S) of
        true -> S#s{state = State};
        false -> disarm_all(State, S)
    end.

disarm_all(State, #s{session = Session, state = Was} = S) ->
    {Entries, Tiers} = by_kind(S#s.plan),
    [pattern(Session, I#item.mfa, ?TAKE_TOKEN)
     || I <- Entries, Was =:= armed],
    S1 = case Was of
             armed ->
                 Now = read_counters(S#s{state = State}),
                 Now#s{unarmed_from = entry_calls(Now)};
             _ -> S#s{state = State}
         end,
    S2 = clear_patterns(Tiers, Entries, S1),
    own([], S2),
    S2.

is_resting(#s{state = paused}) -> true;
is_resting(#s{state = {tripped, _}}) -> true;
is_resting(_) -> false.

clear_patterns(Tiers, Entries, #s{session = legacy} = S) ->
    clear_modules(Entries, clear_modules(Tiers, S));
clear_patterns(_, _, S) ->
    pattern(S#s.session, {'_', '_', '_'}, false),
    relieve(S).

clear_modules(Items, S) ->
    ByModule = maps:groups_from_list(
                 fun(#item{mfa = {M, _, _}}) -> M end,
                 fun(I) -> I#item.mfa end, Items),
    maps:fold(fun(M, MFAs, S1) ->
                      [pattern(legacy, What, false)
                       || What <- all_or_each(M, MFAs, S)],
                      relieve(S1)
              end, S, ByModule).

relieve(#s{state = idle} = S) -> S;
relieve(S) -> flush_some(S).

%% Of a module with nothing of anybody else's, all functions at once.
all_or_each(_, [MFA], _) ->
    [MFA];
all_or_each(M, MFAs, S) ->
    Plan = [I#item.mfa || I <- S#s.plan],
    case lists:all(fun({F, A}) ->
                           traced(legacy, {M, F, A}) =:= false orelse
                               lists:member({M, F, A}, Plan)
                   end, functions(M)) of
        true -> [{M, '_', '_'}];
        false -> MFAs
    end.

%% Another match spec for one armed function (a new sampling rate).
respec(MFA, Spec, S) ->
    case lists:keyfind(MFA, #item.mfa, S#s.plan) of
        #item{} = I ->
            Plan = lists:keyreplace(MFA, #item.mfa, S#s.plan,
                                    I#item{spec = Spec}),
            case S#s.state of
                armed -> pattern(S#s.session, MFA, Spec);
                _ -> ok
            end,
            {ok, S#s{plan = Plan}};
        false ->
            {{error, not_in_plan}, S}
    end.

%% Another plan, by its difference to this one: what is not in Take nor in
%% Put stays as it is, its pattern and its counter. All of it, or nothing.
change_plan(Take, Put, #s{plan = Old} = S) ->
    Is = fun(MFA, Items) -> lists:keymember(MFA, #item.mfa, Items) end,
    case taken([I#item.mfa || I <- Put], S) of
        [] ->
            own(patterns(Put), S),
            {Kept, Gone} = lists:partition(
                             fun(#item{mfa = MFA}) ->
                                     not lists:member(MFA, Take) andalso
                                         not Is(MFA, Put)
                             end, Old),
            change_plan(Gone, Kept, Put, S);
        Taken ->
            {{error, {traced_by_others, Taken}}, S}
    end.

change_plan(Gone, Kept, Put, #s{session = Session} = S) ->
    Were = entries(Gone),
    Are = entries(Put),
    [count(Session, MFA, true) || MFA <- Are -- Were],
    case change_patterns(Gone, Put, Are -- Were, S) of
        {ok, S1} ->
            Calls = counted(Were -- Are, S1),
            [count(Session, MFA, false) || MFA <- Were -- Are],
            MFAs = [MFA || #item{mfa = MFA} <- Gone],
            S2 = read_counters(
                   S1#s{plan = Kept ++ Put,
                        entry_base = S1#s.entry_base + Calls,
                        exact = maps:merge(maps:without(MFAs, S1#s.exact),
                                           exacts(Put, S1#s.probe))}),
            own([], S2),
            S2#s.state =/= armed orelse processes_trace(S2),
            {ok, S2};
        {Error, S1} ->
            [count(Session, MFA, false) || MFA <- Are -- Were],
            own([], S1),
            {Error, S1}
    end.

entries(Items) ->
    [MFA || #item{mfa = MFA, kind = entry} <- Items].

%% No request starts half armed: what is gone goes first, entries come last.
change_patterns(Gone, Put, New, #s{state = armed, session = Session} = S0) ->
    {Entries, Tiers} = by_kind(Put),
    S1 = lists:foldl(fun(MFA, S) ->
                             pattern(Session, MFA, false),
                             breathe(S)
                     end, S0,
                     [MFA || #item{mfa = MFA} <- Gone,
                             not lists:keymember(MFA, #item.mfa, Put)]),
    case arm_tiers(Tiers, S1) of
        {[], S2} ->
            Calls = counted(New, S2),
            case set_patterns(Entries, S2) of
                [] -> {ok, S2#s{unarmed = S2#s.unarmed + Calls}};
                Failed -> change_undo(Gone, Put, Failed, S2)
            end;
        {Failed, S2} ->
            change_undo(Gone, Put, Failed, S2)
    end;
change_patterns(_, _, _, S) ->
    {ok, S}.

change_undo(Gone, Put, Failed, #s{session = Session} = S) ->
    [pattern(Session, MFA, false)
     || #item{mfa = MFA} <- Put, not lists:keymember(MFA, #item.mfa, Gone)],
    _ = set_patterns(Gone, S),
    {{error, {not_armed, Failed}}, S}.

%% The answer comes behind every event of before.
changing(Ref, #s{probe = native} = S) ->
    reply(Ref, ok, drain_all(S));
changing(Ref, #s{state = armed, session = legacy} = S) ->
    S#s{changing = {erlang:trace_delivered(all), Ref}};
changing(Ref, #s{state = armed, session = Session} = S) ->
    S#s{changing = {trace:delivered(Session, all), Ref}};
changing(Ref, S) ->
    reply(Ref, ok, S).

%% How often entries had been called, armed or not, when that was read last:
%% of a counter that goes with its code no more is known. Never falls.
entry_calls(#s{counted = Counted, entry_base = Base}) ->
    lists:sum([Base | maps:values(Counted)]).

counted(MFAs, S) ->
    lists:sum([calls(MFA, S) || MFA <- MFAs]).

calls(MFA, #s{session = Session, counted = Counted}) ->
    case counter(Session, MFA) of
        N when is_integer(N) -> N;
        _ -> maps:get(MFA, Counted, 0)
    end.

read_counters(S) ->
    S#s{counted_at = now_ms(),
        counted = maps:from_list([{MFA, calls(MFA, S)}
                                  || #item{mfa = MFA, kind = entry}
                                         <- S#s.plan])}.

unarmed(#s{state = armed} = S) -> S#s.unarmed;
unarmed(S) -> S#s.unarmed + entry_calls(S) - S#s.unarmed_from.

count_entries(#s{session = Session, plan = Plan}, On) ->
    [count(Session, I#item.mfa, On) || I <- Plan, I#item.kind =:= entry].

retire_counters(S0) ->
    S = read_counters(S0),
    count_entries(S, false),
    S#s{plan = [], entry_base = entry_calls(S), counted = #{}}.

%% ------------------------------------------------------------- hot code ----

%% Loading or deleting a module takes its patterns and counters with it, and
%% so does a load that its on_load function refuses, though the code of before
%% stays. Where somebody else watches for that (OTP 25 and 26, one for each
%% function), it is seen with the next lease only.
watch(#s{session = Session} = S) ->
    S1 = S#s{watching = [MFA || MFA <- ?CODE_CHANGES,
                                not is_watched(Session, MFA)]},
    own([], S1),
    [pattern(Session, MFA, [{'_', [], [{message, false}, {return_trace}]}],
             meta) || MFA <- S1#s.watching],
    S1.

%% The modules that tiers.conf names.
named(Mods, S) ->
    S#s{mods = [{M, version(M)} || M <- Mods],
        looked_at = erlang:system_time(microsecond)}.

version(Mod) ->
    try erlang:get_module_info(Mod, md5)
    catch error:badarg -> none
    end.

micros({Mega, Sec, Us}) ->
    (Mega * 1000000 + Sec) * 1000000 + Us.

%% At: when code was changed, or that it was not changed before then, in
%% microseconds of system time. Many loads are of modules that are none of
%% ours: of each module one function is asked for.
look_anew(_, #s{looked_at = never} = S) ->
    S;
look_anew(At, #s{mods = Mods} = S0) ->
    S = named([M || {M, _} <- Mods], S0),
    Changes = [{M, change(Old, New)}
               || {{M, Old}, {M, New}} <- lists:zip(Mods, S#s.mods),
                  Old =/= New],
    Again = [{M, reloaded} || M <- bare_modules(S),
                              not lists:keymember(M, 1, Changes)],
    lists:foldl(fun(Change, S1) -> changed(Change, At, S1) end, S,
                Changes ++ Again).

%% The word that code has changed may wait behind many events.
look_ahead(S) ->
    case erlang:system_time(microsecond) - S#s.looked_at of
        Us when Us > ?LOOK_US -> look_anew(S#s.looked_at, S);
        _ -> S
    end.

change(none, _) -> loaded;
change(_, none) -> deleted;
change(_, _) -> reloaded.

bare_modules(#s{plan = Plan} = S) ->
    One = maps:from_list([{M, I} || #item{mfa = {M, _, _}} = I <- Plan,
                                    is_wanted(I, S)]),
    [M || {M, I} <- maps:to_list(One), is_bare(I, S)].

is_wanted(#item{gone = true}, _) -> false;
is_wanted(#item{kind = entry}, _) -> true;
is_wanted(#item{spec = Spec}, #s{state = State}) ->
    State =:= armed andalso Spec =/= false.

is_bare(#item{mfa = MFA, kind = entry}, #s{session = Session}) ->
    not is_integer(counter(Session, MFA));
is_bare(#item{mfa = MFA}, #s{session = Session}) ->
    traced(Session, MFA) =/= local.

changed({Mod, What}, At, S) ->
    {Mine, Others} = lists:partition(
                       fun(#item{mfa = {M, _, _}}) -> M =:= Mod end,
                       S#s.plan),
    {Uncounted, S1} = forget_counters(Mine, S),
    {Entries, Tiers} = by_kind(Mine),
    Again = [arm_again(I, S1) || I <- Tiers ++ Entries],
    Gap = case lists:keymember(false, #item.gone, Again) of
              true -> max(0, erlang:system_time(microsecond) - At);
              false -> 0
          end,
    notice({kprof_notice, code, {Mod, What, Gap, Uncounted},
            length([I || #item{gone = true} = I <- Again])},
           S1#s{plan = Again ++ Others, changes = S#s.changes + 1,
                gap_us = S#s.gap_us + Gap}).

%% What was counted since the last reading is not known to anybody: returns
%% how long that was, in microseconds.
forget_counters(Items, #s{session = Session, counted = Counted} = S) ->
    Gone = [MFA || #item{mfa = MFA, kind = entry, gone = false} <- Items,
                   not is_integer(counter(Session, MFA))],
    Sum = lists:sum([maps:get(MFA, Counted, 0) || MFA <- Gone]),
    {case Gone of
         [] -> 0;
         _ -> (now_ms() - S#s.counted_at) * 1000
     end,
     S#s{entry_base = S#s.entry_base + Sum,
         counted = maps:without(Gone, Counted)}}.

arm_again(#item{mfa = MFA} = I, #s{session = Session} = S) ->
    Gone = traced(Session, MFA) =:= undefined,
    Gone orelse I#item.kind =/= entry orelse
        is_integer(counter(Session, MFA)) orelse count(Session, MFA, true),
    Gone orelse S#s.state =/= armed orelse
        pattern(Session, MFA, I#item.spec),
    I#item{gone = Gone}.

%% ------------------------------------------------------------------ end ----

%% Disarm, hand over what is queued, take everything back. The sentry does
%% the rest when this process is gone.
finish(Reason, S) ->
    S1 = disarm(idle, load_end(rates_end(S))),
    S2 = case Reason of
             stopped_by_daemon ->
                 %% From here on nothing is armed again: neither 'exact'
                 %% nor code is watched.
                 hand_over(now_ms() + ?DRAIN_MS,
                           S1#s{state = S#s.state, exact = #{},
                                looked_at = never});
             _ ->
                 S1
         end,
    Bye = state_msg(read_counters(S2#s{state = {ended, Reason}})),
    _ = send(setelement(1, Bye, kprof_bye), S2),
    count_entries(S2, false),
    _ = S2#s.probe =:= native andalso kprof_probe:stop(),
    clear_processes(S2#s.session, tracer(S2)),
    logger:notice("kprofd detached: ~ts: ~ts, ~b events sent, ~b dropped",
                  [S2#s.who, reason_text(Reason), S2#s.sent, S2#s.dropped]),
    exit(normal).

%% Every traced process has delivered before the last batch goes.
hand_over(Deadline, #s{state = armed, probe = native} = S) ->
    hand_over_rings(Deadline, S);
hand_over(Deadline, #s{state = armed} = S) ->
    Ref = case S#s.session of
              legacy -> erlang:trace_delivered(all);
              Session -> trace:delivered(Session, all)
          end,
    hand_over(Ref, Deadline, S);
hand_over(_, S) ->
    flush(S).

%% Waits for Ref, then takes what is there: what arrived before the delivery
%% was confirmed is all there is. Other messages stay in the queue.
hand_over(Ref, Deadline, S) ->
    Left = max(0, Deadline - now_ms()),
    Wait = if Ref =:= delivered -> 0; true -> Left end,
    receive
        ?CODE_CHANGED(_) ->
            hand_over(Ref, Deadline, S);
        Ev when element(1, Ev) =:= trace_ts, Left > 0 ->
            {First, N, Evs, S1} = gather(?BATCH_EVENTS - 1, Ev, [], S),
            case over_limit(now_ns() - First, 0, S1) of
                {memory, _} -> flush(lists:foldl(fun drop/2, S1, Evs));
                _ -> hand_over_batch(Ref, Deadline, N, Evs, S1)
            end;
        {trace_delivered, _, Ref} ->
            hand_over(delivered, Deadline, S)
    after Wait ->
            flush(S)
    end.

hand_over_batch(Ref, Deadline, N, Evs, S) ->
    Seq = S#s.seq + 1,
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Msg = {kprof_events, Seq, now_ns(), Queue, S#s.dropped,
           Evs},
    case send(Msg, S) of
        ok -> hand_over(Ref, Deadline, S#s{seq = Seq, sent = S#s.sent + N});
        _ -> flush(lists:foldl(fun drop/2, S, Evs))
    end.

reason_text(stopped_by_daemon) -> "it ended";
reason_text(stopped_by_operator) -> "stopped by kprof_agent:stop()";
reason_text(lease_expired) -> "its lease ran out";
reason_text({daemon_gone, _}) -> "the connection is gone".

%% --------------------------------------------------------------- sentry ----

%% Knows what to take back without the agent's help; runs when it is dead.
sentry_start(Session, Tcw) ->
    Agent = self(),
    Legacy = Session =:= legacy,
    spawn_monitor(fun() ->
                          Ref = erlang:monitor(process, Agent),
                          sentry(Ref, Agent, Legacy, Tcw, [])
                  end).

sentry(Ref, Agent, Legacy, Tcw, Own) ->
    receive
        {own, New} ->
            sentry(Ref, Agent, Legacy, Tcw, New);
        {'DOWN', Ref, process, Agent, Reason} ->
            sentry_clean(Legacy, Agent, Own),
            erlang:system_flag(trace_control_word, Tcw),
            Reason =:= normal orelse
                logger:warning("kprofd's agent died (~0tp); everything it "
                               "armed is taken back", [Reason]),
            purger_start([Agent, self()])
    end.

%% A session dies with the agent's handle. Legacy patterns stay armed when
%% their tracer dies, and so may flags of processes that ran no code since.
sentry_clean(Legacy, Agent, Own) ->
    Tracers = [Agent | [kprof_probe:tracer()
                        || erlang:module_loaded(kprof_probe), probe_stopped()]],
    Legacy andalso
        begin
            [pattern(legacy, MFA, false, How) || {How, MFA} <- Own],
            [clear_processes(legacy, T) || T <- Tracers]
        end,
    ok.

%% Not where the agent died before its library was there.
probe_stopped() ->
    try kprof_probe:stop() =:= ok
    catch error:_ -> false
    end.

%% Tells the sentry what is ours, and More that is about to be: before it is.
own(More, S) ->
    Rated = case S#s.rating of
                undefined -> [];
                {_, _, Mine, _, _} -> [{call_count, MFA} || MFA <- Mine]
            end,
    Plan = [P || P <- patterns(S#s.plan),
                 not is_resting(S) orelse element(1, P) =:= call_count],
    element(1, S#s.sentry) ! {own, More ++ Rated ++ Plan ++
                                  [{meta, MFA} || MFA <- S#s.watching]}.

patterns(Plan) ->
    [{local, I#item.mfa} || I <- Plan] ++
        [{call_count, I#item.mfa} || I <- Plan, I#item.kind =:= entry].

%% ------------------------------------------------- the two trace back ends ----

%% One more, with another tracer.
session_new(legacy, _) -> legacy;
session_new(_, Tracer) -> trace:session_create(kprofd, Tracer, []).

tracer(#s{probe = native}) -> kprof_probe:tracer();
tracer(_) -> self().

%% On OTP 25 and 26 there is one tracer for new processes, for everybody.
foreign_tracing(legacy) ->
    case erlang:trace_info(new_processes, tracer) of
        {tracer, []} -> false;
        {tracer, Who} -> {new_processes_traced_by, Who}
    end;
foreign_tracing(_) ->
    false.

taken(MFAs, S) ->
    [MFA || MFA <- MFAs, somebody_elses(S#s.session, MFA, S)].

somebody_elses(legacy, MFA, S) ->
    not lists:keymember(MFA, #item.mfa, S#s.plan) andalso
        has_any([traced, meta, call_count], MFA);
somebody_elses(_, _, _) ->
    false.

%% Of one that is ours: while we rest, so may they.
is_others_now(#item{mfa = MFA}, #s{session = legacy}) ->
    has_any([traced, meta], MFA);
is_others_now(_, _) ->
    false.

%% A function with a counter says [] of its meta tracer where it has none.
has_any(Kinds, MFA) ->
    lists:any(fun(Kind) ->
                      {Kind, V} = erlang:trace_info(MFA, Kind),
                      not lists:member(V, [false, undefined, []])
              end, Kinds).

%% On OTP 25 and 26 a process has one tracer, and 'all' passes over those that
%% are somebody else's, without a word. Another process looks for them: where
%% there are some 100,000 processes that takes seconds, and events are coming.
find_neighbours(#s{session = legacy, state = armed} = S) ->
    Agent = self(),
    Ours = tracer(S),
    spawn(fun() -> Agent ! {neighbours, neighbours(Ours)} end);
find_neighbours(_) ->
    none.

neighbours(Agent) ->
    [{P, T} || P <- processes(), {tracer, T} <- [erlang:trace_info(P, tracer)],
               T =/= [], T =/= Agent].

tell_neighbours([], S) ->
    S;
tell_neighbours(Traced, S) ->
    Some = [{name(P), name(T)} || {P, T} <- lists:sublist(Traced, ?NEIGHBOURS)],
    notice({kprof_notice, neighbours, Some, length(Traced)}, S).

pattern(Session, MFA, Spec) ->
    pattern(Session, MFA, Spec, local).

pattern(legacy, MFA, Spec, How) ->
    try erlang:trace_pattern(MFA, Spec, [case How of
                                             meta when Spec =/= false ->
                                                 {meta, self()};
                                             _ -> How
                                         end])
    catch error:Why -> Why
    end;
pattern(Session, MFA, Spec, How) ->
    try trace:function(Session, MFA, Spec, [How])
    catch error:Why -> Why
    end.

count(Session, MFA, On) ->
    pattern(Session, MFA, On, call_count).

is_watched(legacy, MFA) ->
    has_any([meta], MFA);
is_watched(_, _) ->
    false.

%% An integer, or false where nobody counts.
counter(legacy, MFA) ->
    {call_count, N} = erlang:trace_info(MFA, call_count),
    N;
counter(Session, MFA) ->
    {call_count, N} = trace:info(Session, MFA, call_count),
    N.

traced(legacy, MFA) ->
    {traced, How} = erlang:trace_info(MFA, traced),
    How;
traced(Session, MFA) ->
    {traced, How} = trace:info(Session, MFA, traced),
    How.

processes_trace(#s{session = legacy} = S) ->
    Tracer = [{tracer, Module, State} || {Module, State} <- [tracer(S)]],
    erlang:trace(all, true, Tracer ++ trace_flags(S));
processes_trace(#s{session = Session} = S) ->
    trace:process(Session, all, true, trace_flags(S)).

%% The native probe looks at the clock itself, and is told of the end of calls
%% traced 'exactly', which have a fallback, without return_to.
trace_flags(#s{probe = relay}) ->
    [call, arity, return_to, monotonic_timestamp];
trace_flags(#s{plan = Plan}) ->
    [call, arity | [return_to || lists:any(fun(#item{fallback = F}) ->
                                                   F =:= []
                                           end, Plan)]].

%% A session goes as a whole.
clear_processes(legacy, Tracer) ->
    clear_flags(Tracer);
clear_processes(Session, _) ->
    trace:session_destroy(Session),
    ok.
