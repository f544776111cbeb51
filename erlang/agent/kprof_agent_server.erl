%% kprof_agent_server - the agent's process: it obeys the daemon's commands, passes on trace
%% events, and takes back what it armed when it ends.
-module(kprof_agent_server).

-export([init/3, process_setup/1, loop/1, tick/0, lease/1, reply/3, finish/2]).

-include("kprof_agent.hrl").

-define(TICK_MS, 500).          % interval of the checks of lease, limits and sessions
-define(DRAIN_MS, 1000).        % longest stay after the end, to hand over
-define(HEAP_LEAST, 32 bsl 20). % bytes that a small max_memory_mb does not limit

-spec init(pid(), pid(), map()) -> no_return().
init(Starter, Daemon, #{who := Who, word := Word} = Opts) ->
    kprof_injected:hide(),
    try register(kprof_agent, self()) of
        true -> ok
    catch
        error:badarg -> exit(already)
    end,
    Session = kprof_injected:session_new(kprofd),
    case kprof_agent_patterns:foreign_tracing(Session) of
        false -> ok;
        Why -> exit(Why)
    end,
    S0 = new_state(Daemon, Session, Opts),
    process_setup(S0#s.limits),
    S = kprof_agent_code:watch(S0),
    S1 = S#s{word = S#s.word#word{clock = kprof_word:word_begin(Word)}},
    logger:notice("kprofd attached: ~ts (kprof_agent:stop() ends it)", [Who]),
    Starter ! {self(), {ok, self(), hello(S1)}},
    tick(),
    loop(S1).

new_state(Daemon, Session, #{who := Who, lease_ms := LeaseMs, max_queue := MaxQueue,
                             max_memory := MaxMemory, max_age_ms := MaxAge}) ->
    Found = kprof_word:word_found(),
    Now = kprof_injected:now_ms(),
    #s{lease = #lease{daemon = Daemon, monitor = erlang:monitor(process, Daemon), who = Who,
                      since = erlang:system_time(second), ms = LeaseMs, renewed_at = Now},
       limits = #limits{queue = MaxQueue, memory = MaxMemory, age_ns = MaxAge * 1000000},
       sentry = kprof_agent_sentry:sentry_start(Session, Found, LeaseMs),
       session = Session,
       word = #word{found = Found},
       foreign = #foreign{known = case Session of legacy -> #{}; _ -> all end}}.

-spec process_setup(#limits{}) -> term().
process_setup(Limits) ->
    process_flag(message_queue_data, kprof_vm_bugs:queue_data()),
    heap_limit(Limits),
    process_flag(priority, high),
    _ = net_kernel:monitor_nodes(true),
    %% Batches are built, sent and dropped: a roomy young heap lets most of
    %% them die before a collection.
    process_flag(min_heap_size, 64 * 1024),
    process_flag(fullsweep_after, 8).

%% What waits on the heap is copied when garbage is collected: of gigabytes, which only large values
%% can be, that would take a minute. The VM ends the agent before that, and the sentry clears up.
heap_limit(#limits{memory = Bytes}) ->
    Words = max(2 * Bytes, ?HEAP_LEAST) div erlang:system_info(wordsize),
    kprof_vm_bugs:queue_data() =:= on_heap andalso
        process_flag(max_heap_size, #{size => Words, kill => true, error_logger => true}).

hello(#s{session = Session}) ->
    #{protocol => ?PROTOCOL,
      node => node(),
      otp => erlang:system_info(otp_release),
      time_offset => erlang:time_offset(nanosecond),
      session => Session =/= legacy,
      gc_shared => kprof_vm_bugs:gc_shared()}.

%% ----------------------------------------------------------------- loop ----

-spec loop(#s{}) -> no_return().
loop(#s{lease = #lease{daemon = Daemon, monitor = Monitor}, sentry = {_, SentryRef}} = S) ->
    receive
        ?CODE_CHANGED(At) ->
            loop(kprof_agent_code:recheck(kprof_agent_code:micros(At), S));
        ?PATTERN_SET(Args) ->
            loop(kprof_agent_foreign:patterns_set(Args, S));
        Ev when element(1, Ev) =:= trace_ts ->
            loop(kprof_agent_events:event(Ev, S));
        {kprof, Daemon, Ref, Cmd} ->
            S1 = command(Cmd, Ref, S),
            %% Only now: the time that the command took was not the daemon's silence.
            loop(renewed(S1));
        tick ->
            tick(),
            loop(on_tick(S));
        drain ->
            loop(kprof_agent_rings:drain(S));
        {'DOWN', Monitor, process, _, Reason} ->
            finish({daemon_gone, Reason}, S);
        {stacks, Next, BusyNs} ->
            loop(kprof_agent_stacks:stacks_next(Next, BusyNs, S));
        {stacks_of, Ref, Message} when is_integer(Ref) ->
            loop(kprof_agent_stacks:stacks_answer(Ref, Message, S));
        {waits, Ref, Asked, Found} when is_integer(Asked) ->
            loop(reply(Ref, Found, kprof_agent_stacks:waits_asked(Asked, S)));
        {timeout, Timer, stacks} when Timer =:= element(1, S#s.stacks#stacks.due) ->
            loop(kprof_agent_stacks:stacks_due(S));
        {'DOWN', Ref, process, _, _} when Ref =:= element(2, S#s.stacks#stacks.sampler) ->
            loop(kprof_agent_stacks:sampler_down(S));
        {'DOWN', SentryRef, process, _, _} ->
            loop(new_sentry(S));
        {trace_delivered, _, Delivered} when Delivered =:= element(1, S#s.changing) ->
            {_, Ref} = S#s.changing,
            loop(reply(Ref, ok, S#s{changing = undefined}));
        {loaded, Ref, Tried} ->
            loop(kprof_agent_checks:loaded(Ref, Tried, S));
        {rated, Ref, Loops} ->
            loop(kprof_agent_checks:rated(Ref, Loops, S));
        {names, Ref, Names} ->
            loop(reply(Ref, Names, S));
        {others, TracerMonitor, N, Others} ->
            loop(kprof_agent_sched_gc:tracers_seen(TracerMonitor, N, Others, S));
        {nodeup, Node} ->
            loop(connected(Node, S));
        {walk, Pid, What} ->
            loop(kprof_agent_process_flags:walk_progress(Pid, What, S));
        {'DOWN', _, process, Pid, Reason} ->
            loop(kprof_agent_process_flags:walk_down(Pid, Reason, S));
        {kprof_agent, status, From, Ref} ->
            From ! {Ref, kprof_agent_status:summary(S)},
            loop(S);
        {kprof_agent, stop, From, Ref} ->
            From ! {Ref, ok},
            finish(stopped_by_operator, S);
        _ ->
            loop(S)
    end.

%% What was sent while the connection was set up has no token. Before the daemon counts requests in
%% flight it has to know of them.
connected(Node, #s{state = armed, probe = Probe} = S0) ->
    S = case Probe of
            native -> kprof_agent_rings:drain_now(S0);
            relay -> S0
        end,
    kprof_agent_events:notice({kprof_notice, connected, Node, 0}, S);
connected(_, S) ->
    S.

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

on_tick(S0) ->
    kprof_agent_sentry:alive(S0),
    Limited = kprof_agent_events:check_limits(word_tick(S0)),
    S1 = kprof_agent_intact:session_check(kprof_agent_events:flush_unsent(Limited)),
    S2 = kprof_agent_stacks:stacks_settle(lease(kprof_agent_messages:messages_settle(S1))),
    kprof_agent_cost:cost_tick(kprof_agent_hot:check_rates(S2)).

word_tick(#s{word = #word{clock = Clock} = Word} = S) ->
    S#s{word = Word#word{clock = kprof_word:word_advance(Clock)}}.

%% A renewal may wait behind the tick that looks for it, if the agent was at work for long.
-spec lease(#s{}) -> #s{}.
lease(S0) ->
    S = case is_expired(S0) of
            true -> kprof_agent_arming:answer_lease(S0);
            false -> S0
        end,
    case is_expired(S) of
        true -> finish(lease_expired, S);
        false -> S
    end.

is_expired(#s{lease = #lease{renewed_at = At, ms = Ms}}) ->
    kprof_injected:now_ms() - At > Ms.

renewed(#s{lease = Lease} = S) ->
    S#s{lease = Lease#lease{renewed_at = kprof_injected:now_ms()}}.

new_sentry(#s{session = Session, word = #word{found = Found}, lease = #lease{ms = Ms}} = S0) ->
    S = S0#s{sentry = kprof_agent_sentry:sentry_start(Session, Found, Ms)},
    kprof_agent_sentry:own([], S),
    S.

%% ------------------------------------------------------------- commands ----

command(lease, Ref, #s{lease = Lease} = S0) ->
    S = S0#s{lease = Lease#lease{ref = Ref}},
    case kprof_agent_foreign:is_calm(S) of
        true ->
            T0 = kprof_injected:now_ns(),
            S1 = kprof_agent_intact:check_intact(kprof_agent_intact:session_check(S)),
            S2 = kprof_agent_hot:send_counts(
                   kprof_agent_hot:count_tiers(kprof_agent_arming:read_counters(S1))),
            S3 = kprof_agent_events:add_busy(lease, T0, kprof_agent_cost:count_switches(S2)),
            _ = kprof_agent_events:send(kprof_agent_status:state_msg(S3), S3),
            kprof_agent_hot:judge_rates(S3);
        false ->
            _ = kprof_agent_events:send(kprof_agent_status:state_msg(S), S),
            kprof_agent_foreign:foreign_tick(S)
    end;
command({check, Mods}, Ref, S) ->
    kprof_agent_checks:load(Mods, Ref, S);
command({look, Mods}, Ref, S) ->
    Found = [kprof_agent_checks:check(M, not_loaded) || M <- Mods],
    reply(Ref, Found, kprof_agent_code:use_modules(Mods, S));
command({accepts, Machine, Libc}, Ref, S) ->
    reply(Ref, kprof_agent_library:library_accepts(Machine, Libc), S);
command({probe, Beam, Library, MaxBytes}, Ref, S) ->
    {Result, S1} = kprof_agent_rings:probe_start(Beam, Library, MaxBytes, S),
    reply(Ref, Result, S1);
command({may, MFAs}, Ref, S) ->
    %% Asks whether a change would be refused, before the first of several nodes makes it.
    reply(Ref, case kprof_agent_patterns:taken(MFAs, S) of
                   [] -> ok;
                   Taken -> {error, {traced_by_others, Taken}}
               end, S);
command(nodes, Ref, S) ->
    reply(Ref, [node() | nodes(visible)], S);
command({rates, MFAs, MaybeLoops, Ms}, Ref, S) ->
    kprof_agent_checks:rates(MFAs, MaybeLoops, Ms, Ref, S);
command({names, Pids}, Ref, S) ->
    kprof_agent_messages:receiver_names(Pids, Ref, S);
command({stacks, Pids}, Ref, S) ->
    kprof_agent_stacks:stacks_of(Pids, Ref, S);
command({waits, Pids, Servers}, Ref, S) ->
    kprof_agent_stacks:waits_for(Pids, Servers, Ref, S);
command({arm, Items, Limits}, Ref, S) ->
    {Result, S1} = kprof_agent_arming:arm_plan(Items, limits(Limits, S)),
    reply(Ref, Result, S1);
command({change, Take, Items, Limits}, Ref, S) ->
    Put = kprof_agent_arming:items(Items),
    case kprof_agent_arming:change_plan(Take, Put, kprof_agent_sched_gc:add_flags(Limits, S)) of
        {ok, S1} ->
            S2 = kprof_agent_messages:messages_settle(limits(Limits, S1)),
            kprof_agent_arming:reply_to_change(Ref, S2);
        {Error, S1} ->
            Before = S#s.sched_gc#sched_gc.flags,
            reply(Ref, Error, kprof_agent_sched_gc:use_flags(Before, S1))
    end;
command({spec, MFA, Spec}, Ref, S) ->
    {Result, S1} = kprof_agent_arming:respec(MFA, Spec, S),
    reply(Ref, Result, S1);
command({tiers, Items}, Ref, S) ->
    reply(Ref, ok, kprof_agent_arming:respec_tiers(kprof_agent_arming:items(Items), S));
command(pause, Ref, S) ->
    reply(Ref, ok, kprof_agent_events:flush(kprof_agent_arming:disarm(paused, S)));
command(resume, Ref, S) ->
    resume(Ref, kprof_agent_foreign:may_resume(kprof_agent_intact:session_check(S)));
command(clear_tokens, Ref, S) ->
    seq_trace:reset_trace(),
    reply(Ref, ok, S);
command(stop, _, S) ->
    finish(stopped_by_daemon, S);
command(_, Ref, S) ->
    reply(Ref, {error, unknown_command}, S).

resume(Ref, {true, S1}) ->
    S2 = kprof_agent_code:recheck(S1#s.code#code.checked_at, S1),
    {Result, S} = kprof_agent_arming:rearm(kprof_agent_intact:put_back_disarmed(S2)),
    reply(Ref, Result, S);
resume(_, {{false, MFA}, S}) ->
    %% In place of an answer.
    kprof_agent_events:notice({kprof_notice, rest, {foreign, pattern, MFA}, 0}, S).

-spec reply(reference(), term(), #s{}) -> #s{}.
reply(Ref, Result, S) ->
    kprof_agent_events:notice({kprof_reply, Ref, Result}, S).

limits(#{max_queue := Queue, max_memory := Memory, max_age_ms := AgeMs} = Limits,
       #s{messages = Messages, cost = Cost} = S0) ->
    S = kprof_agent_stacks:stacks_use(maps:get(stacks, Limits, none), S0),
    New = #limits{queue = Queue, memory = Memory, age_ns = AgeMs * 1000000,
                  function_rate = maps:get(hot, Limits, infinity),
                  total_rate = maps:get(calls, Limits, infinity)},
    heap_limit(New),
    kprof_agent_sched_gc:use_flags(
      maps:get(flags, Limits, []),
      S#s{limits = New,
          messages = Messages#messages{wanted = maps:get(messages, Limits, false)},
          cost = Cost#cost{spec = maps:get(traced, Limits, none)}}).

%% ------------------------------------------------------------------ end ----

%% Switches tracing off, hands over the queued events and takes everything back. The sentry
%% does the rest when this process is gone.
-spec finish(term(), #s{}) -> no_return().
finish(Reason, S0) ->
    S = handed_over(Reason, S0, put_down(S0#s{leaving = true})),
    Last = kprof_agent_hot:send_counts(
             kprof_agent_arming:read_counters(S#s{state = {ended, Reason}})),
    Bye = setelement(1, kprof_agent_status:state_msg(Last), kprof_bye),
    _ = kprof_agent_events:send(Bye, S),
    kprof_agent_arming:count_entries(S, false),
    _ = S#s.probe =:= native andalso kprof_probe:stop(),
    _ = kprof_agent_process_flags:flags_end(S),
    #events{sent = Sent, dropped = Dropped} = S#s.events,
    logger:notice("kprofd detached: ~ts: ~ts, ~b events sent, ~b dropped",
                  [S#s.lease#lease.who, reason_text(Reason), Sent, Dropped]),
    exit(normal).

put_down(S0) ->
    S1 = kprof_agent_checks:load_end(kprof_agent_checks:rates_end(kprof_agent_stacks:stacks_stop(S0))),
    S2 = kprof_agent_foreign:count_end(
           kprof_agent_arming:disarm(idle, kprof_agent_tokens:take_tokens(S1))),
    kprof_agent_sched_gc:monitor_stop(kprof_agent_sched_gc:sweep_stop(S2)).

%% From here on nothing is armed again: neither sizes of values nor code are watched.
handed_over(stopped_by_daemon, #s{state = Before}, #s{events = Events, code = Code} = S) ->
    hand_over(kprof_injected:now_ms() + ?DRAIN_MS,
              S#s{state = Before, events = Events#events{value_sizes = #{}},
                  code = Code#code{checked_at = never}});
handed_over(_, _, S) ->
    S.

%% Every traced process has delivered before the last batch is sent.
hand_over(Deadline, #s{state = armed, probe = native} = S) ->
    kprof_agent_rings:hand_over_rings(Deadline, S);
hand_over(Deadline, #s{state = armed} = S) ->
    Ref = case S#s.session of
              legacy -> erlang:trace_delivered(all);
              Session -> trace:delivered(Session, all)
          end,
    hand_over(Ref, Deadline, S);
hand_over(_, S) ->
    kprof_agent_events:flush(S).

%% Waits for Ref, then takes what has arrived: that is all there is once the delivery is
%% confirmed. Other messages stay in the queue.
hand_over(Ref, Deadline, S) ->
    Left = max(0, Deadline - kprof_injected:now_ms()),
    Wait = if Ref =:= delivered -> 0; true -> Left end,
    receive
        ?CODE_CHANGED(_) ->
            hand_over(Ref, Deadline, S);
        ?PATTERN_SET(Args) ->
            hand_over(Ref, Deadline, kprof_agent_foreign:patterns_set(Args, S));
        Ev when element(1, Ev) =:= trace_ts, Left > 0 ->
            {First, N, Evs, S1} = kprof_agent_events:gather(?BATCH_EVENTS - 1, Ev, [], S),
            case kprof_agent_events:over_limit(kprof_injected:now_ns() - First, 0, S1) of
                {memory, _} -> kprof_agent_events:drop_rest(Evs, S1);
                _ -> hand_over_batch(Ref, Deadline, N, Evs, S1)
            end;
        Noise when ?IS_NOISE(Noise), Left > 0 ->
            hand_over(Ref, Deadline, S);
        {trace_delivered, _, Ref} ->
            hand_over(delivered, Deadline, S)
    after Wait ->
            kprof_agent_events:flush(S)
    end.

hand_over_batch(Ref, Deadline, N, Evs, S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    case kprof_agent_events:send_batch(kprof_injected:now_ns(), Queue, N, Evs, S) of
        {ok, S1} -> hand_over(Ref, Deadline, S1);
        _ -> kprof_agent_events:drop_rest(Evs, S)
    end.

reason_text(stopped_by_daemon) -> "it ended";
reason_text(stopped_by_operator) -> "stopped by kprof_agent:stop()";
reason_text(session_destroyed) -> "its trace session was destroyed by somebody else";
reason_text(lease_expired) -> "its lease ran out";
reason_text({daemon_gone, _}) -> "the connection is gone".
