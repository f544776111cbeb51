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
-include("kprof_label.hrl").

-define(PROTOCOL, 4).
-define(BATCH_EVENTS, 500).     % most events in one message
-define(BATCH_MS, 15).          % longest wait for a batch to fill: with the way
                                % to the daemon an event is there within 20
-define(BATCH_LEAST_MS, 5).     % where events may not be much older
-define(TICK_MS, 500).          % how often the lease is looked at
-define(PROBE_MS, 200).         % how long a call rate is measured
-define(INSIDE_MS, 4000).       % how long all are asked where they are, twice
-define(LOAD_MS, 8000).         % how long modules have to be loaded
-define(DRAIN_MS, 1000).        % longest stay after the end, to hand over
-define(NEAR_MODULES, 20000).   % module names sent for "did you mean"
-define(STACK_SHOWN, 8).        % frames that the VM shows, if not told other
-define(NEIGHBOURS, 5).         % processes of others that are named
-define(BROUGHT, 20).           % modules that are named
-define(EXACT_WORDS, 512).      % mean size of values that 'exact' may copy
-define(EXACT_CALLS, 1000).     % of about so many calls, the last ones
-define(LOOK_US, 5000).         % how often code is looked at when behind
-define(DRAIN_RECORDS, 4096).   % taken from the rings at once: well below 1 ms
-define(RINGS_MS, 10).          % how often rings are looked at that fill
-define(RINGS_IDLE_MS, 15).     % and others
-define(FEW_MODULES, 8).        % whose patterns are gone at once
-define(QUIET_MS, 100).         % longest wait for flags to be taken before them
-define(FLAGS_MS, 20000).       % for flags to be set, on a node that is busy
-define(FLAGS_LOOK_MS, 5).      % between two looks at the daemon meanwhile

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
    watcher,            % the session that watches for code, if another;
                        % it was there first
    probe = relay,      % relay | native
    rings = {0, 0},     % events that found their ring full, and entries
    tcw,                % trace control word as it was found
    word,               % {Word, AtMs}: where it is to be: kprof_tokens.hrl
    messages = false,   % waits in mailboxes are wanted
    mail = off,         % and had: see mail_begin/1
    mailed = false,     % tokens have asked for events of messages
    plan = [],          % [#item{}], what to arm
    flags = [],         % that its match specs give to processes
    broom = none,       % what takes them: none | {Walk, Flags}
    flagged = [],       % of our own flags those that processes have
    walk = none,        % what sets or takes these: none | {Walk, walking | walked}
    untraced = 0,       % processes that it waits for, which are in native code
    lookout = none,     % who looks for other tracers: none | Pid
    alone = true,       % there are none: true | false | unknown
    state = idle,       % idle | armed | paused | {tripped | ended, Reason}
    amid = none,        % what of patterns is half done: none | disarm | {change, Put}
    exact = #{},        % MFA => {Events, Words}: sizes of values seen
    seq = 0,            % batches sent
    sent = 0,           % events sent
    leaving = false,    % never to be armed again
    busy = 0,           % ns spent on batches
    dropped = 0,        % events dropped
    dropped_entries = 0,
    entry_base = 0,     % entry calls counted under earlier plans
    unarmed = 0,        % entry calls while nothing was armed
    unarmed_from = 0,   % counter when disarmed last
    changing,           % {DeliveredRef, Ref}: a change is answered then
    loading,            % {Ref, Modules, Loader, Absent}: a check is answered then
    rating,             % the probe of call rates that runs: see rates/4
    looker,             % the process that looks for loops meanwhile
    last_trip = none,   % see trip/3
    counted = #{},      % entry MFA => its counter when it was read last
    counted_at = 0,     % monotonic ms of that
    mods = [],          % [{Module, Version}] of tiers.conf, when looked at
    tiers = #{},        % counted functions of tiers => {Base, Last}: see kprof_hot.hrl
    tier_calls = 0,     % of theirs, all while armed
    uncounted = [],     % those that somebody else counts
    window = {0, #{}},  % {When it began, in ms; entry MFA => Calls by then}
    over = 0,           % windows in a row that were over the limit for all
    hot = infinity,     % limits, in calls a second: of one function
    calls = infinity,   % and of all together
    looked_at = 0,      % microseconds of system time; never: it is over
    watching = [],      % those of CODE_CHANGES that tell us
    changes = 0,        % modules that were loaded anew, deleted, there at last
    gap_us = 0,         % from those loads to the arming, in all
    taken = [],         % when somebody took what is ours, in monotonic ms
    suspected = never,  % monotonic ms: something has been missing since then
    intact_at = never,  % monotonic ms: all that is ours was there then
    lent = none,        % who is the tracer of new processes in our place
    known = all,        % functions whose events are ours, where others' come too
    foreign = 0,        % events of others, dropped
    named = #{},        % functions of others that the daemon was told of
    ceded = #{},        % processes whose flags that took => since when, in ms
    copies = 0,         % foreign events since the last lease
    disarmed_at = -1 bsl 63, % in ns: events from before that are ours, however many come late
    traced = none,      % match spec of calls that measure what tracing adds, and
    traced_at = never,  % when that was done, in ms: kprof_traced.hrl
    unsent = []         % notices that found the connection busy, oldest last
}).

%% ---------------------------------------------------------------- start ----

%% Called over rex. Opts: protocol, who, lease_ms, max_queue, max_memory
%% (bytes), max_age_ms, word (where the trace control word is to be now).
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
                        max_age_ms := MaxAge, word := Word}) ->
    try register(?MODULE, self()) of
        true -> ok
    catch
        error:badarg -> exit(already)
    end,
    agent_flags(),
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
                 known = case Session of legacy -> #{}; _ -> all end,
                 tcw = Tcw,
                 word = {Word, now_ms()}}),
    erlang:system_flag(trace_control_word, Word),
    logger:notice("kprofd attached: ~ts (kprof_agent:stop() ends it)", [Who]),
    Starter ! {self(), {ok, self(), hello(S)}},
    tick(),
    loop(S).

agent_flags() ->
    process_flag(message_queue_data, off_heap),
    process_flag(priority, high),
    %% Batches are built, sent and dropped: a roomy young heap lets most of
    %% them die before a collection.
    process_flag(min_heap_size, 64 * 1024),
    process_flag(fullsweep_after, 8).

hello(#s{session = Session}) ->
    #{protocol => ?PROTOCOL,
      node => node(),
      otp => erlang:system_info(otp_release),
      time_offset => erlang:time_offset(nanosecond),
      session => Session =/= legacy,
      gc_shared => gc_shared()}.

%% ------------------------------------------------------ operator's calls ----

status() ->
    ask(status).

stop() ->
    ask(stop).

ask(What) ->
    case whereis(?MODULE) of
        undefined -> not_attached;
        Pid -> ask(Pid, What)
    end.

%% One that gives way (kprof_foreign.hrl) has an heir.
ask(Pid, What) ->
    Ref = erlang:monitor(process, Pid),
    Pid ! {?MODULE, What, self(), Ref},
    receive
        {Ref, Answer} ->
            erlang:demonitor(Ref, [flush]),
            Answer;
        {'DOWN', Ref, process, Pid, {moved, Heir}} ->
            ask(Heir, What);
        {'DOWN', Ref, process, Pid, _} ->
            not_attached
    after 5000 ->
            erlang:demonitor(Ref, [flush]),
            timeout
    end.

summary(S0) ->
    S = read_counters(S0),
    #{who => S#s.who,
      since => calendar:system_time_to_rfc3339(S#s.since, [{offset, "Z"}]),
      state => S#s.state,
      probe => S#s.probe,
      messages => S#s.mail,
      flags => S#s.flags,
      untraced => S#s.untraced,
      armed => [I#item.mfa || I <- S#s.plan, not I#item.gone, I#item.spec =/= false],
      disarmed => [I#item.mfa || I <- S#s.plan, I#item.spec =:= false],
      entries => [I#item.mfa || I <- S#s.plan, I#item.kind =:= entry, not I#item.gone],
      missing => [I#item.mfa || I <- S#s.plan, I#item.gone],
      code_changes => S#s.changes,
      code_gap_us => S#s.gap_us,
      last_trip => S#s.last_trip,
      tracing_measured => S#s.traced_at =/= never,
      events_sent => S#s.sent,
      events_dropped => S#s.dropped,
      events_foreign => S#s.foreign,
      ceded => maps:keys(S#s.ceded),
      busy_ms => S#s.busy div 1000000,
      entry_calls => entry_calls(S),
      tier_calls => S#s.tier_calls}.

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
            word_advance(S),
            loop(traced_look(look_hot(lease(mail_settle(session_look(flush_unsent(S)))))));
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
        {names, Ref, Names} ->
            loop(reply(Ref, Names, S));
        {others, Lookout, N, Others} ->
            loop(others_seen(Lookout, N, Others, S));
        {walk, Pid, What} ->
            loop(walk_told(Pid, What, S));
        {'DOWN', _, process, Pid, Reason} ->
            loop(walk_ended(Pid, Reason, S));
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

%% ------------------------------------------------------------- commands ----

command(lease, Ref, S0) ->
    S = S0#s{lease_ref = Ref},
    case is_calm(S) of
        true ->
            S1 = count_tiers(read_counters(intact(session_look(S)))),
            _ = send(state_msg(S1), S1),
            judge_hot(S1);
        false ->
            _ = send(state_msg(S), S),
            foreign_tick(S)
    end;
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
command({names, Pids}, Ref, S) ->
    names(Pids, Ref, S);
command({arm, Items, Limits}, Ref, S) ->
    {Result, S1} = arm_plan(Items, limits(Limits, S)),
    reply(Ref, Result, S1);
command({change, Take, Items, Limits}, Ref, S) ->
    case change_plan(Take, items(Items), flags_too(Limits, S)) of
        {ok, S1} -> changing(Ref, mail_settle(limits(Limits, S1)));
        {Error, S1} -> reply(Ref, Error, flags(S#s.flags, S1))
    end;
command({spec, MFA, Spec}, Ref, S) ->
    {Result, S1} = respec(MFA, Spec, S),
    reply(Ref, Result, S1);
command(pause, Ref, S) ->
    reply(Ref, ok, flush(disarm(paused, S)));
command(resume, Ref, S) ->
    {Result, S1} = rearm(put_back_rested(look_anew(S#s.looked_at, session_look(S)))),
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

limits(#{max_queue := Q, max_memory := M, max_age_ms := A} = Limits, S) ->
    flags(maps:get(flags, Limits, []),
          S#s{max_queue = Q, max_memory = M, max_age_ns = A * 1000000,
              hot = maps:get(hot, Limits, infinity),
              calls = maps:get(calls, Limits, infinity),
              messages = maps:get(messages, Limits, false),
              traced = maps:get(traced, Limits, none)}).

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
     S#s.tier_calls, S#s.lease_ref, S#s.foreign, map_size(S#s.ceded)}.

%% Events that the daemon cannot have seen yet, at most.
waiting(#s{probe = native}) ->
    maps:get(waiting, kprof_probe:info());
waiting(_) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Queue.

%% ------------------------------------------------------------------ end ----

%% Disarm, hand over what is queued, take everything back. The sentry does
%% the rest when this process is gone.
finish(Reason, S) ->
    S1 = lookout_stop(sweep_stop(disarm(idle, tokens_leave(load_end(rates_end(S#s{leaving = true})))))),
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
    _ = flags_end(S2),
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
                {memory, _} -> flush(drop_stripped(Evs, S1));
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
        _ -> flush(drop_stripped(Evs, S))
    end.

reason_text(stopped_by_daemon) -> "it ended";
reason_text(stopped_by_operator) -> "stopped by kprof_agent:stop()";
reason_text(session_destroyed) -> "its trace session was destroyed by somebody else";
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
        {heir, Heir} ->
            erlang:demonitor(Ref, [flush]),
            sentry(erlang:monitor(process, Heir), Heir, Legacy, Tcw, Own);
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
    mail_leave(),
    Tracers = [Agent | [kprof_probe:tracer()
                        || erlang:module_loaded(kprof_probe), probe_stopped()]],
    Legacy andalso
        begin
            [pattern(legacy, MFA, false, How) || {How, MFA} <- Own],
            [flags_clear(legacy, T, ?CLEAR_MS) || lists:member(flags, Own), T <- Tracers]
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
    Tiers = [{call_count, MFA} || MFA <- maps:keys(S#s.tiers)],
    element(1, S#s.sentry) ! {own, More ++ Rated ++ Plan ++ Tiers ++
                                  [{meta, MFA} || MFA <- S#s.watching] ++
                                  [flags || S#s.flagged =/= []]}.

patterns(Plan) ->
    [{local, I#item.mfa} || I <- Plan] ++
        [{call_count, I#item.mfa} || I <- Plan, I#item.kind =:= entry].

%% What the loop hands things to.
-include("kprof_traced.hrl").
-include("kprof_events.hrl").
-include("kprof_foreign.hrl").
-include("kprof_intact.hrl").
-include("kprof_drain.hrl").
-include("kprof_checks.hrl").
-include("kprof_arming.hrl").
-include("kprof_hot.hrl").
-include("kprof_mail.hrl").
-include("kprof_tokens.hrl").
-include("kprof_code.hrl").
-include("kprof_trace.hrl").
-include("kprof_flags.hrl").
-include("kprof_collected.hrl").
