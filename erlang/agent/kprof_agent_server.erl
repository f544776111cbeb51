%% kprof_agent_server - the agent's process: it obeys the daemon's commands, hands on what
%% it is told of, and at its end takes back what it armed.
-module(kprof_agent_server).

-export([init/3, agent_flags/0, loop/1, tick/0, lease/1, reply/3, finish/2]).

-include("kprof_agent.hrl").

-define(TICK_MS, 500).          % how often the lease is looked at
-define(DRAIN_MS, 1000).        % longest stay after the end, to hand over

init(Starter, Daemon, #{who := Who, lease_ms := Lease,
                        max_queue := MaxQueue, max_memory := MaxMemory,
                        max_age_ms := MaxAge, word := Word}) ->
    try register(kprof_agent, self()) of
        true -> ok
    catch
        error:badarg -> exit(already)
    end,
    agent_flags(),
    Session = kprof_injected:session_new(kprofd),
    case kprof_agent_patterns:foreign_tracing(Session) of
        false -> ok;
        Why -> exit(Why)
    end,
    Tcw = erlang:system_info(trace_control_word),
    S = kprof_agent_code:watch(#s{daemon = Daemon,
                                  daemon_ref = erlang:monitor(process, Daemon),
                                  sentry = kprof_agent_sentry:sentry_start(Session, Tcw),
                                  who = Who,
                                  since = erlang:system_time(second),
                                  lease_ms = Lease,
                                  lease_at = kprof_injected:now_ms(),
                                  max_queue = MaxQueue, max_memory = MaxMemory,
                                  max_age_ns = MaxAge * 1000000,
                                  session = Session,
                                  known = case Session of legacy -> #{}; _ -> all end,
                                  tcw = Tcw,
                                  word = {Word, kprof_injected:now_ms()}}),
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
      gc_shared => kprof_gc_fixed:gc_shared()}.

%% ----------------------------------------------------------------- loop ----

-spec loop(#s{}) -> no_return().
loop(S) ->
    receive
        ?CODE_CHANGED(At) ->
            loop(kprof_agent_code:recheck(kprof_agent_code:micros(At), S));
        Ev when element(1, Ev) =:= trace_ts ->
            loop(kprof_agent_events:event(Ev, S));
        {kprof, Daemon, Ref, Cmd} when Daemon =:= S#s.daemon ->
            S1 = command(Cmd, Ref, S),
            %% Afterwards: what took us long was not the daemon's silence.
            loop(S1#s{lease_at = kprof_injected:now_ms()});
        tick ->
            tick(),
            kprof_agent_tokens:word_advance(S),
            loop(kprof_agent_traced:traced_look(kprof_agent_hot:look_hot(lease(kprof_agent_mail:mail_settle(kprof_agent_intact:session_look(kprof_agent_events:flush_unsent(S)))))));
        drain ->
            loop(kprof_agent_drain:drain(S));
        {'DOWN', Ref, process, _, Reason} when Ref =:= S#s.daemon_ref ->
            finish({daemon_gone, Reason}, S);
        {'DOWN', Ref, process, _, _} when Ref =:= element(2, S#s.sentry) ->
            S1 = S#s{sentry = kprof_agent_sentry:sentry_start(S#s.session, S#s.tcw)},
            kprof_agent_sentry:own([], S1),
            loop(S1);
        {trace_delivered, _, Delivered}
          when Delivered =:= element(1, S#s.changing) ->
            {_, Ref} = S#s.changing,
            loop(reply(Ref, ok, S#s{changing = undefined}));
        {loaded, Ref, Tried} ->
            loop(kprof_agent_checks:loaded(Ref, Tried, S));
        {rated, Ref, Loops} ->
            loop(kprof_agent_checks:rated(Ref, Loops, S));
        {names, Ref, Names} ->
            loop(reply(Ref, Names, S));
        {others, Lookout, N, Others} ->
            loop(kprof_agent_flags:others_seen(Lookout, N, Others, S));
        {walk, Pid, What} ->
            loop(kprof_agent_process_flags:walk_told(Pid, What, S));
        {'DOWN', _, process, Pid, Reason} ->
            loop(kprof_agent_process_flags:walk_ended(Pid, Reason, S));
        {kprof_agent, status, From, Ref} ->
            From ! {Ref, kprof_agent_status:summary(S)},
            loop(S);
        {kprof_agent, stop, From, Ref} ->
            From ! {Ref, ok},
            finish(stopped_by_operator, S);
        _ ->
            loop(S)
    end.

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

-spec lease(#s{}) -> #s{}.
lease(S) ->
    case kprof_injected:now_ms() - S#s.lease_at > S#s.lease_ms of
        true -> finish(lease_expired, S);
        false -> S
    end.

%% ------------------------------------------------------------- commands ----

command(lease, Ref, S0) ->
    S = S0#s{lease_ref = Ref},
    case kprof_agent_foreign:is_calm(S) of
        true ->
            S1 = kprof_agent_hot:count_tiers(kprof_agent_arming:read_counters(kprof_agent_intact:intact(kprof_agent_intact:session_look(S)))),
            _ = kprof_agent_events:send(kprof_agent_status:state_msg(S1), S1),
            kprof_agent_hot:judge_hot(S1);
        false ->
            _ = kprof_agent_events:send(kprof_agent_status:state_msg(S), S),
            kprof_agent_foreign:foreign_tick(S)
    end;
command({check, Mods}, Ref, S) ->
    kprof_agent_checks:load(Mods, Ref, S);
command({look, Mods}, Ref, S) ->
    reply(Ref, [kprof_agent_checks:check(M, not_loaded) || M <- Mods], kprof_agent_code:named(Mods, S));
command({probe, Beam, Path, MaxBytes}, Ref, S) ->
    {Result, S1} = kprof_agent_drain:probe_start(Beam, Path, MaxBytes, S),
    reply(Ref, Result, S1);
command({may, MFAs}, Ref, S) ->
    %% What a change would be refused for, before any of several nodes has it.
    reply(Ref, case kprof_agent_patterns:taken(MFAs, S) of
                   [] -> ok;
                   Taken -> {error, {traced_by_others, Taken}}
               end, S);
command(nodes, Ref, S) ->
    reply(Ref, [node() | nodes(visible)], S);
command({rates, MFAs, MaybeLoops}, Ref, S) ->
    kprof_agent_checks:rates(MFAs, MaybeLoops, Ref, S);
command({names, Pids}, Ref, S) ->
    kprof_agent_mail:names(Pids, Ref, S);
command({arm, Items, Limits}, Ref, S) ->
    {Result, S1} = kprof_agent_arming:arm_plan(Items, limits(Limits, S)),
    reply(Ref, Result, S1);
command({change, Take, Items, Limits}, Ref, S) ->
    case kprof_agent_arming:change_plan(Take, kprof_agent_arming:items(Items), kprof_agent_flags:flags_too(Limits, S)) of
        {ok, S1} -> kprof_agent_arming:changing(Ref, kprof_agent_mail:mail_settle(limits(Limits, S1)));
        {Error, S1} -> reply(Ref, Error, kprof_agent_flags:flags(S#s.flags, S1))
    end;
command({spec, MFA, Spec}, Ref, S) ->
    {Result, S1} = kprof_agent_arming:respec(MFA, Spec, S),
    reply(Ref, Result, S1);
command(pause, Ref, S) ->
    reply(Ref, ok, kprof_agent_events:flush(kprof_agent_arming:disarm(paused, S)));
command(resume, Ref, S) ->
    {Result, S1} = kprof_agent_arming:rearm(kprof_agent_intact:put_back_rested(kprof_agent_code:recheck(S#s.looked_at, kprof_agent_intact:session_look(S)))),
    reply(Ref, Result, S1);
command(clear_tokens, Ref, S) ->
    seq_trace:reset_trace(),
    reply(Ref, ok, S);
command(stop, _, S) ->
    finish(stopped_by_daemon, S);
command(_, Ref, S) ->
    reply(Ref, {error, unknown_command}, S).

-spec reply(reference(), term(), #s{}) -> #s{}.
reply(Ref, Result, S) ->
    kprof_agent_events:notice({kprof_reply, Ref, Result}, S).

limits(#{max_queue := Q, max_memory := M, max_age_ms := A} = Limits, S) ->
    kprof_agent_flags:flags(maps:get(flags, Limits, []),
                            S#s{max_queue = Q, max_memory = M, max_age_ns = A * 1000000,
                                hot = maps:get(hot, Limits, infinity),
                                calls = maps:get(calls, Limits, infinity),
                                messages = maps:get(messages, Limits, false),
                                traced = maps:get(traced, Limits, none)}).

%% ------------------------------------------------------------------ end ----

%% Disarm, hand over what is queued, take everything back. The sentry does
%% the rest when this process is gone.
-spec finish(term(), #s{}) -> no_return().
finish(Reason, S) ->
    S1 = kprof_agent_flags:lookout_stop(kprof_agent_flags:sweep_stop(kprof_agent_arming:disarm(idle, kprof_agent_tokens:tokens_leave(kprof_agent_checks:load_end(kprof_agent_checks:rates_end(S#s{leaving = true})))))),
    S2 = case Reason of
             stopped_by_daemon ->
                 %% From here on nothing is armed again: neither 'exact'
                 %% nor code is watched.
                 hand_over(kprof_injected:now_ms() + ?DRAIN_MS,
                           S1#s{state = S#s.state, exact = #{},
                                looked_at = never});
             _ ->
                 S1
         end,
    Bye = kprof_agent_status:state_msg(kprof_agent_arming:read_counters(S2#s{state = {ended, Reason}})),
    _ = kprof_agent_events:send(setelement(1, Bye, kprof_bye), S2),
    kprof_agent_arming:count_entries(S2, false),
    _ = S2#s.probe =:= native andalso kprof_probe:stop(),
    _ = kprof_agent_process_flags:flags_end(S2),
    logger:notice("kprofd detached: ~ts: ~ts, ~b events sent, ~b dropped",
                  [S2#s.who, reason_text(Reason), S2#s.sent, S2#s.dropped]),
    exit(normal).

%% Every traced process has delivered before the last batch goes.
hand_over(Deadline, #s{state = armed, probe = native} = S) ->
    kprof_agent_drain:hand_over_rings(Deadline, S);
hand_over(Deadline, #s{state = armed} = S) ->
    Ref = case S#s.session of
              legacy -> erlang:trace_delivered(all);
              Session -> trace:delivered(Session, all)
          end,
    hand_over(Ref, Deadline, S);
hand_over(_, S) ->
    kprof_agent_events:flush(S).

%% Waits for Ref, then takes what is there: what arrived before the delivery
%% was confirmed is all there is. Other messages stay in the queue.
hand_over(Ref, Deadline, S) ->
    Left = max(0, Deadline - kprof_injected:now_ms()),
    Wait = if Ref =:= delivered -> 0; true -> Left end,
    receive
        ?CODE_CHANGED(_) ->
            hand_over(Ref, Deadline, S);
        Ev when element(1, Ev) =:= trace_ts, Left > 0 ->
            {First, N, Evs, S1} = kprof_agent_events:gather(?BATCH_EVENTS - 1, Ev, [], S),
            case kprof_agent_events:over_limit(kprof_injected:now_ns() - First, 0, S1) of
                {memory, _} -> kprof_agent_events:flush(kprof_agent_events:drop_stripped(Evs, S1));
                _ -> hand_over_batch(Ref, Deadline, N, Evs, S1)
            end;
        {trace_delivered, _, Ref} ->
            hand_over(delivered, Deadline, S)
    after Wait ->
            kprof_agent_events:flush(S)
    end.

hand_over_batch(Ref, Deadline, N, Evs, S) ->
    Seq = S#s.seq + 1,
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Msg = {kprof_events, Seq, kprof_injected:now_ns(), Queue, S#s.dropped,
           Evs},
    case kprof_agent_events:send(Msg, S) of
        ok -> hand_over(Ref, Deadline, S#s{seq = Seq, sent = S#s.sent + N});
        _ -> kprof_agent_events:flush(kprof_agent_events:drop_stripped(Evs, S))
    end.

reason_text(stopped_by_daemon) -> "it ended";
reason_text(stopped_by_operator) -> "stopped by kprof_agent:stop()";
reason_text(session_destroyed) -> "its trace session was destroyed by somebody else";
reason_text(lease_expired) -> "its lease ran out";
reason_text({daemon_gone, _}) -> "the connection is gone".
