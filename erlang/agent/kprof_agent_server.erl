%% kprof_agent_server - the agent's process: it obeys the daemon's commands, passes on trace
%% events, and takes back what it armed when it ends.
-module(kprof_agent_server).

-export([init/3, process_setup/1, loop/1, tick/0, lease/1, reply/3, waiting/1, asked/4,
         send_state/1, finish/2]).

-import(kprof_agent_arming, [answer_lease/1, change_plan/3, close/3, count_entries/2,
         counters_now/1, disarm/2, disarm_wholly/2, entry_calls/1, flags_rest/1,
         foreign_tracing/1, items/1, is_watching/1, open/1, read_counters/1, ready/1, rearm/1,
         reply_to_change/2, respec/3, respec_tiers/2, taken/2, unarmed/1, use_plan/3, wait/1,
         watch_entries/1]).
-import(kprof_agent_checks, [check/2, checks_handle/2, load/3, load_end/1, rates/5, rates_end/1]).
-import(kprof_agent_cost, [check_rates/1, cost_tick/1, count_switches/1, count_tiers/1,
         judge_rates/1, send_counts/1]).
-import(kprof_agent_events, [add_busy/3, check_limits/1, drain/1, drain_all/1, drain_now/1,
         drain_woken/1, drop_rest/2, event/2, flush/1, flush_unsent/1, gather/4,
         hand_over_rings/2, notice/2, over_limit/3, probe_start/4, send/2, send_batch/5]).
-import(kprof_agent_flags, [add_flags/2, flags_end/1, flags_handle/2, flags_set/1, monitor_stop/1,
         sweep_stop/1, use_flags/2, walk_down/3, walk_progress/3]).
-import(kprof_agent_foreign, [count_end/1, foreign_tick/1, is_calm/1, may_resume/1,
         patterns_set/2]).
-import(kprof_agent_intact, [check_intact/1, code_changed/2, look_loads/1, put_back_disarmed/1,
         recheck/2, session_check/1, use_modules/2, watch/1]).
-import(kprof_agent_library, [library_accepts/1]).
-import(kprof_agent_messages, [messages_settle/1, receiver_names/3, take_tokens/1]).
-import(kprof_agent_sentry, [agent_sentry/3, alive/1, tell_sentry/2]).
-import(kprof_agent_stacks, [sampler_down/1, stacks_due/2, stacks_handle/2, stacks_of/3,
         stacks_settle/1, stacks_stop/1, stacks_use/2, waits_for/4]).
-import(kprof_injected, [hide/0, kept_set/2, now_ms/0, now_ns/0, process_label/2]).
-import(kprof_tracing, [session_create/2, trace_delivered/1]).
-import(kprof_vm_bugs, [gc_shared/0, queue_data/0]).
-import(kprof_word, [word_advance/1, word_begin/1, word_found/0]).

-include("kprof_agent.hrl").

-define(TICK_MS, 500).          % interval of the checks of lease, limits and sessions
-define(DRAIN_MS, 1000).        % longest stay after the end, to hand over
-define(HEAP_LEAST, 32 bsl 20). % bytes that a small max_memory_mb does not limit

-spec init(pid(), pid(), map()) -> no_return().
init(_, _, #{protocol := P}) when P =/= ?PROTOCOL -> exit({protocol, ?PROTOCOL});
init(Starter, Daemon, #{who := Who, word := Word} = Opts) ->
    process_label(kprof_agent, init),
    hide(),
    Found = word_found(),
    try register(kprof_agent, self()) of
        true -> ok
    catch
        error:badarg -> exit(already)
    end,
    Session = session_create(kprofd, self()),
    case foreign_tracing(Session) of
        false -> ok;
        Why -> exit(Why)
    end,
    S0 = new_state(Daemon, Session, Found, Opts),
    process_setup(S0#state.limits),
    S = watch(S0),
    kept_set(kprof_agent_word, Found),
    S1 = S#state{word = S#state.word#word{clock = word_begin(Word)}},
    logger:notice("kprofd attached: ~ts (kprof_agent:stop() ends it)", [Who]),
    Starter ! {self(), hello(S1)},
    tick(),
    loop(S1).

new_state(Daemon, Session, Found, #{who := Who, lease_ms := LeaseMs, max_queue := MaxQueue,
                             max_memory := MaxMemory, max_age_ms := MaxAge}) ->
    Now = now_ms(),
    #state{lease = #lease{daemon = Daemon, monitor = erlang:monitor(process, Daemon), who = Who,
                          since = erlang:system_time(second), ms = LeaseMs, renewed_at = Now},
           limits = #limits{queue = MaxQueue, memory = MaxMemory, age_ns = MaxAge * 1000000},
           sentry = agent_sentry(Session, Found, LeaseMs),
           session = Session,
           word = #word{found = Found},
           foreign = #foreign{known = case Session of legacy -> #{}; _ -> all end}}.

-spec process_setup(#limits{}) -> term().
process_setup(Limits) ->
    process_flag(message_queue_data, queue_data()),
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
    queue_data() =:= on_heap andalso
        process_flag(max_heap_size, #{size => Words, kill => true, error_logger => true}).

hello(#state{session = Session}) ->
    #{protocol => ?PROTOCOL,
      node => node(),
      otp => erlang:system_info(otp_release),
      time_offset => erlang:time_offset(nanosecond),
      session => Session =/= legacy,
      gc_shared => gc_shared()}.

%% ----------------------------------------------------------------- loop ----

-spec loop(#state{}) -> no_return().
loop(#state{lease = #lease{daemon = Daemon}} = S) ->
    receive
        ?CODE_CHANGED(At) -> loop(code_changed(At, S));
        ?PATTERN_SET(Args) -> loop(patterns_set(Args, S));
        Ev when element(1, Ev) =:= trace_ts -> loop(event(Ev, S));
        {kprof, Daemon, Ref, Cmd} ->
            S1 = obey(Cmd, Ref, S),
            %% Only now: the time that the command took was not the daemon's silence.
            loop(renewed(S1));
        {kprof_agent, What, From, Ref} -> loop(asked(What, From, Ref, S));
        {'DOWN', Ref, process, Pid, Reason} -> loop(down(Ref, Pid, Reason, S));
        tick -> tick(), loop(on_tick(S));
        drain -> loop(drain(S));
        {select, _, _, ready_input} -> loop(drain_woken(S));
        {walk, Pid, What} -> loop(walk_progress(Pid, What, S));
        {nodeup, Node} -> loop(connected(Node, S));
        {trace_delivered, _, Delivered} -> loop(changed(Delivered, S));
        {checks, What} -> loop(checks_handle(What, S));
        {flags, What} -> loop(flags_handle(What, S));
        {stacks, What} -> loop(stacks_handle(What, S));
        {timeout, Timer, stacks} -> loop(stacks_due(Timer, S));
        {reply, Ref, Result} -> loop(reply(Ref, Result, S));
        _ -> loop(S)
    end.

%% Somebody calls kprof_agent:status() or stop(); or a kprof counts by the flags that processes
%% have, and asks for them (kprof_counters).
-spec asked(term(), pid(), reference(), #state{}) -> #state{}.
asked(status, From, Ref, S) ->
    From ! {Ref, summary(S)},
    S;
asked(stop, From, Ref, S) ->
    From ! {Ref, ok},
    finish(stopped_by_operator, S);
asked(flags, From, Ref, S0) ->
    {_, S} = flags_set(S0),
    From ! {Ref, ok},
    S;
asked(_, _, _, S) -> S.

%% As the relay has sent what came before a command.
rings_sent(#state{state = armed, probe = native} = S) -> drain_all(S);
rings_sent(S) -> S.

down(Ref, _, Reason, #state{lease = #lease{monitor = Ref}} = S) ->
    finish({daemon_gone, Reason}, S);
down(Ref, _, _, #state{sentry = {_, Ref}} = S) -> new_sentry(S);
down(Ref, _, _, #state{stacks = #stacks{sampler = {_, Ref}}} = S) -> sampler_down(S);
down(_, Pid, Reason, S) -> walk_down(Pid, Reason, S).

%% All events from before the change are here.
changed(Delivered, #state{changing = Changing} = S) ->
    case lists:keytake(Delivered, 1, Changing) of
        {value, {_, Ref}, More} -> reply(Ref, ok, S#state{changing = More});
        false -> S
    end.

%% What was sent while the connection was set up has no token. Before the daemon counts requests in
%% flight it has to know of them.
connected(Node, #state{state = armed} = S) ->
    notice({kprof_notice, connected, Node, 0}, drain_now(S));
connected(_, S) -> S.

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

on_tick(S0) ->
    alive(S0),
    S = flags_rest(session_check(flush_unsent(check_limits(word_tick(S0))))),
    cost_tick(check_rates(stacks_settle(lease(messages_settle(S))))).

word_tick(#state{word = #word{clock = Clock} = Word} = S) ->
    S#state{word = Word#word{clock = word_advance(Clock)}}.

%% A renewal may wait behind the tick that looks for it, if the agent was at work for long.
lease(S0) ->
    S = case is_expired(S0) of
            true -> answer_lease(S0);
            false -> S0
        end,
    case is_expired(S) of
        true -> finish(lease_expired, S);
        false -> S
    end.

is_expired(#state{lease = #lease{renewed_at = At, ms = Ms}}) ->
    now_ms() - At > Ms.

renewed(#state{lease = Lease} = S) ->
    S#state{lease = Lease#lease{renewed_at = now_ms()}}.

new_sentry(#state{session = Session, word = #word{found = Found}, lease = #lease{ms = Ms}} = S0) ->
    S = S0#state{sentry = agent_sentry(Session, Found, Ms)},
    tell_sentry([], S),
    S.

%% ------------------------------------------------------------- commands ----

%% A command has a result, or none: it comes later, or another message is the answer.
obey(Cmd, Ref, S0) ->
    case command(Cmd, Ref, S0) of
        #state{} = S -> S;
        {Result, S} -> reply(Ref, Result, S)
    end.

command(lease, Ref, #state{lease = Lease} = S0) ->
    S = S0#state{lease = Lease#lease{ref = Ref}},
    case is_calm(S) of
        true ->
            T0 = now_ns(),
            Intact = look_loads(check_intact(session_check(S))),
            Counted = send_counts(count_tiers(read_counters(Intact))),
            judge_rates(send_state(add_busy(lease, T0, count_switches(Counted))));
        false -> foreign_tick(send_state(S))
    end;
command({check, Mods}, Ref, S) -> load(Mods, Ref, S);
command({look, Mods}, _, S) -> {[check(M, not_loaded) || M <- Mods], use_modules(Mods, S)};
command({accepts, Machine}, _, S) -> {library_accepts(Machine), S};
command({probe, Beam, Library, MaxBytes}, _, S) -> probe_start(Beam, Library, MaxBytes, S);
command({may, MFAs}, _, S) ->
    %% Asks whether a change would be refused, before the first of several nodes makes it.
    {case taken(MFAs, S) of
         [] -> ok;
         Taken -> {error, {traced_by_others, Taken}}
     end, S};
command(nodes, _, S) -> {[node() | nodes(visible)], S};
command({rates, MFAs, MaybeLoops, Ms}, Ref, S) -> rates(MFAs, MaybeLoops, Ms, Ref, S);
command({names, Pids}, Ref, S) -> receiver_names(Pids, Ref, S);
command({stacks, Pids}, Ref, S) -> stacks_of(Pids, Ref, S);
command({waits, Pids, Servers}, Ref, S) -> waits_for(Pids, Servers, Ref, S);
command({arm, Items, Limits}, _, S) -> use_plan(Items, fun(S1) -> rearm(S1) end, limits(Limits, S));
command({plan, Items, Limits}, _, S) -> use_plan(Items, fun(S1) -> wait(S1) end, limits(Limits, S));
command({change, Take, Items, Limits}, Ref, S) ->
    case change_plan(Take, items(Items), add_flags(Limits, S)) of
        {ok, S1} -> reply_to_change(Ref, messages_settle(limits(Limits, S1)));
        {Error, S1} -> {Error, use_flags(S#state.sched_gc#sched_gc.flags, S1)}
    end;
command({spec, MFA, Spec}, _, S) -> respec(MFA, Spec, S);
command({tiers, Items}, _, S) -> {ok, respec_tiers(items(Items), S)};
command(pause, _, S) -> {ok, flush(disarm_wholly(paused, rings_sent(S)))};
command(resume, _, S) -> again(fun(S1) -> rearm(S1) end, S);
command(wait, _, S) -> wait(S);
command(ready, _, S) ->
    case is_watching(S) of
        true -> ready(S);
        false -> again(fun(S1) -> ready(S1) end, S)
    end;
command(open, _, S) -> open(S);
command({close, Timed}, Ref, S) -> close(items(Timed), Ref, S);
command(rest, _, S) -> {ok, flush(disarm_wholly(waiting, S))};
command(watch, Ref, S) ->
    case watch_entries(rings_sent(S)) of
        {ok, S1} -> reply_to_change(Ref, S1);
        Failed -> Failed
    end;
command(clear_tokens, _, S) ->
    seq_trace:reset_trace(),
    {ok, S};
command(stop, _, S) -> finish(stopped_by_daemon, S);
command(_, _, S) -> {{error, unknown_command}, S}.

%% Where another tool's patterns copy values, the daemon is told to wait.
again(Arm, S0) ->
    case may_resume(session_check(S0)) of
        {true, S} ->
            Arm(put_back_disarmed(recheck(S#state.code#code.checked_at, S)));
        {{false, MFA}, S} ->
            notice({kprof_notice, rest, {foreign, pattern, MFA}, 0}, S)
    end.

-spec reply(reference(), term(), #state{}) -> #state{}.
reply(Ref, Result, S) ->
    notice({kprof_reply, Ref, Result}, S).

limits(#{max_queue := Queue, max_memory := Memory, max_age_ms := AgeMs} = Limits,
       #state{messages = Messages, cost = Cost} = S0) ->
    S = stacks_use(maps:get(stacks, Limits, none), S0),
    New = #limits{queue = Queue, memory = Memory, age_ns = AgeMs * 1000000,
                  function_rate = maps:get(hot, Limits, infinity),
                  total_rate = maps:get(calls, Limits, infinity)},
    heap_limit(New),
    use_flags(
      maps:get(flags, Limits, []),
      S#state{limits = New,
              messages = Messages#messages{wanted = maps:get(messages, Limits, false)},
              cost = Cost#cost{spec = maps:get(traced, Limits, none)}}).

%% ------------------------------------------------------------------ end ----

%% Switches tracing off, hands over the queued events and takes everything back. The sentry
%% does the rest when this process is gone.
-spec finish(term(), #state{}) -> no_return().
finish(Reason, S0) ->
    S = handed_over(Reason, S0, put_down(S0#state{leaving = true})),
    Last = send_counts(read_counters(S#state{state = {ended, Reason}})),
    Bye = setelement(1, state_msg(Last), kprof_bye),
    _ = send(Bye, S),
    count_entries(S, false),
    _ = S#state.probe =:= native andalso kprof_probe:stop(),
    _ = flags_end(S),
    #events{sent = Sent, dropped = Dropped} = S#state.events,
    logger:notice("kprofd detached: ~ts: ~ts, ~b events sent, ~b dropped",
                  [S#state.lease#lease.who, reason_text(Reason), Sent, Dropped]),
    exit(normal).

put_down(S) ->
    Disarmed = disarm(idle, take_tokens(load_end(rates_end(stacks_stop(S))))),
    monitor_stop(sweep_stop(count_end(Disarmed))).

%% From here on nothing is armed again: neither sizes of values nor code are watched.
handed_over(stopped_by_daemon, #state{state = Before}, #state{events = Events, code = Code} = S) ->
    hand_over(now_ms() + ?DRAIN_MS,
              S#state{state = Before, events = Events#events{value_sizes = #{}},
                      code = Code#code{checked_at = never}});
handed_over(_, _, S) -> S.

%% Every traced process has delivered before the last batch is sent.
hand_over(Deadline, #state{state = armed, probe = native} = S) ->
    hand_over_rings(Deadline, S);
hand_over(Deadline, #state{state = armed} = S) ->
    hand_over(trace_delivered(S#state.session), Deadline, S);
hand_over(_, S) -> flush(S).

%% Waits for Ref, then takes what has arrived: that is all there is once the delivery is
%% confirmed. Other messages stay in the queue.
hand_over(Ref, Deadline, S) ->
    Left = max(0, Deadline - now_ms()),
    Wait = if Ref =:= delivered -> 0; true -> Left end,
    receive
        ?CODE_CHANGED(_) -> hand_over(Ref, Deadline, S);
        ?PATTERN_SET(Args) -> hand_over(Ref, Deadline, patterns_set(Args, S));
        Ev when element(1, Ev) =:= trace_ts, Left > 0 ->
            {First, N, Evs, S1} = gather(?BATCH_EVENTS - 1, Ev, [], S),
            case over_limit(now_ns() - First, 0, S1) of
                {memory, _} -> drop_rest(Evs, S1);
                _ -> hand_over_batch(Ref, Deadline, N, Evs, S1)
            end;
        Noise when ?IS_NOISE(Noise), Left > 0 -> hand_over(Ref, Deadline, S);
        {trace_delivered, _, Ref} -> hand_over(delivered, Deadline, S)
    after Wait ->
            flush(S)
    end.

hand_over_batch(Ref, Deadline, N, Evs, S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    case send_batch(now_ns(), Queue, N, Evs, S) of
        {ok, S1} -> hand_over(Ref, Deadline, S1);
        _ -> drop_rest(Evs, S)
    end.

reason_text(stopped_by_daemon) -> "it ended";
reason_text(stopped_by_operator) -> "stopped by kprof_agent:stop()";
reason_text(session_destroyed) -> "its trace session was destroyed by somebody else";
reason_text(lease_expired) -> "its lease ran out";
reason_text({daemon_gone, _}) -> "the connection is gone".

%% -------------------------------------------------------------------- status ----

%% What kprof_agent:status/0 returns.
-spec summary(#state{}) -> map().
summary(S0) ->
    {_, #state{lease = Lease, plan = Plan, events = Events, code = Code, foreign = Foreign} = S} =
        counters_now(S0),
    #{who => Lease#lease.who,
      since => calendar:system_time_to_rfc3339(Lease#lease.since, [{offset, "Z"}]),
      state => S#state.state,
      probe => S#state.probe,
      messages => S#state.messages#messages.state,
      flags => S#state.sched_gc#sched_gc.flags,
      untraced => S#state.process_flags#process_flags.untraced,
      armed => [I#item.mfa || I <- Plan, not I#item.gone, I#item.spec =/= false],
      disarmed => [I#item.mfa || I <- Plan, I#item.spec =:= false],
      entries => [I#item.mfa || I <- Plan, I#item.kind =:= entry, not I#item.gone],
      missing => [I#item.mfa || I <- Plan, I#item.gone],
      code_changes => Code#code.changes,
      code_gap_us => Code#code.gap_us,
      last_trip => S#state.last_trip,
      tracing_measured => S#state.cost#cost.measured_at =/= never,
      events_sent => Events#events.sent,
      events_dropped => Events#events.dropped,
      events_foreign => Foreign#foreign.dropped,
      ceded => maps:keys(Foreign#foreign.ceded),
      busy_ms => Events#events.busy_ns div 1000000,
      held_ms => Events#events.held_ns div 1000000,
      switches => S#state.cost#cost.switches,
      entry_calls => entry_calls(S),
      tier_calls => S#state.hot#hot.calls}.

send_state(S) ->
    _ = send(state_msg(S), S),
    S.

%% The message for the daemon (src/agent/agent_msg.c).
-spec state_msg(#state{}) -> tuple().
state_msg(#state{lease = Lease, events = Events, foreign = Foreign} = S) ->
    {memory, Bytes} = process_info(self(), memory),
    {Name, Reason} = case S#state.state of
                         {_, _} = State -> State;
                         State -> {State, []}
                     end,
    {kprof_status, now_ns(), erlang:time_offset(nanosecond),
     Name, Reason, Events#events.seq, waiting(S), Bytes, Events#events.sent,
     Events#events.dropped, Events#events.dropped_entries,
     entry_calls(S), unarmed(S), Events#events.busy_ns,
     S#state.hot#hot.calls, Lease#lease.ref, Foreign#foreign.dropped,
     map_size(Foreign#foreign.ceded), Events#events.held_ns, S#state.cost#cost.switches}.

%% An upper limit of the events that the daemon cannot have seen yet.
-spec waiting(#state{}) -> non_neg_integer().
waiting(#state{probe = native}) -> maps:get(waiting, kprof_probe:info());
waiting(_) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Queue.
