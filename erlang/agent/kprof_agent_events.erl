%% kprof_agent_events - trace messages on their way through the agent: gathered,
%% looked at, stripped of values, sent in batches; and the trip, which ends that
%% where a limit is passed.
-module(kprof_agent_events).

-export([event/2, gather/4, over_limit/3, send/2, drop/2, drop_stripped/2, trip/3, flush/1,
         flush_some/1, notice/2, flush_unsent/1]).

-include("kprof_agent.hrl").

-define(BATCH_MS, 15).          % longest wait for a batch to fill: with the way
                                % to the daemon an event is there within 20
-define(BATCH_LEAST_MS, 5).     % where events may not be much older
-define(EXACT_WORDS, 512).      % mean size of values that 'exact' may copy
-define(EXACT_CALLS, 1000).     % of about so many calls, the last ones

%% While armed: gather what comes within the wait, look at the limits, send.
%% Otherwise what still trickles in is dropped and counted.
%% Foreign ones are seen before anything is waited for.
-spec event(tuple(), #s{}) -> #s{}.
event(Ev, #s{state = armed} = S0) ->
    S = case kprof_agent_foreign:is_ours(Ev, S0) of
            true -> wait(Ev, S0);
            false -> S0
        end,
    T0 = kprof_injected:now_ns(),
    {First, N, Evs, S1} = gather(?BATCH_EVENTS - 1, Ev, [], S),
    S2 = batch(First, N, Evs, S1),
    S2#s{busy = S2#s.busy + kprof_injected:now_ns() - T0};
event(Ev, S) ->
    kprof_agent_foreign:idle_event(Ev, S).

wait(Ev, S) ->
    case process_info(self(), message_queue_len) of
        {_, Len} when Len < ?BATCH_EVENTS - 1 -> kprof_agent_foreign:await(wait_ms(Ev, S), S), S;
        _ -> kprof_agent_code:look_ahead(S)
    end.

%% Each batch costs both sides far more than an event; and a quarter of the age
%% that events may have is no overload yet. What the last batch had no room for
%% has waited already.
wait_ms(Ev, #s{max_age_ns = Ns}) ->
    Age = kprof_injected:now_ns() - element(tuple_size(Ev), Ev),
    max(0, max(?BATCH_LEAST_MS, min(?BATCH_MS, Ns div 4000000)) -
            Age div 1000000).

%% Returns the time of the oldest event, their number, and them in order.
gather(Left, Ev, Acc, S) ->
    First = element(tuple_size(Ev), Ev),
    {Evs, S1} = gather_more(Left, gathered(Ev, Acc, S)),
    {First, length(Evs), lists:reverse(Evs), S1}.

gathered(Ev, Acc, S) ->
    case kprof_agent_foreign:is_ours(Ev, S) of
        true ->
            {Stripped, S1} = strip(Ev, S),
            {[Stripped | Acc], S1};
        false ->
            {Acc, kprof_agent_foreign:foreign(Ev, S)}
    end.

gather_more(0, Gathered) ->
    Gathered;
gather_more(Left, {Acc, S}) ->
    receive
        ?CODE_CHANGED(At) ->
            gather_more(Left, {Acc, kprof_agent_code:recheck(kprof_agent_code:micros(At), S)});
        Ev when element(1, Ev) =:= trace_ts ->
            gather_more(Left - 1, gathered(Ev, Acc, S))
    after 0 ->
            {Acc, S}
    end.

batch(First, N, Evs, S) ->
    Now = kprof_injected:now_ns(),
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    case over_limit(Now - First, Queue, S) of
        false when Evs =:= [] ->
            S;
        false ->
            Seq = S#s.seq + 1,
            Msg = {kprof_events, Seq, Now, Queue, S#s.dropped, Evs},
            case send(Msg, S) of
                ok ->
                    S#s{seq = Seq, sent = S#s.sent + N};
                Busy ->
                    trip(Busy, Queue, drop_stripped(Evs, S))
            end;
        Reason ->
            trip(Reason, Queue, drop_stripped(Evs, S))
    end.

over_limit(Age, _, S) when Age > S#s.max_age_ns ->
    {age_ms, Age div 1000000};
over_limit(_, Queue, S) when Queue > S#s.max_queue ->
    {queue, Queue};
over_limit(_, _, S) ->
    %% Counts the messages outside the heap too.
    {memory, Bytes} = process_info(self(), memory),
    Bytes > S#s.max_memory andalso {memory, Bytes}.

-spec send(tuple(), #s{}) -> ok | noconnect | nosuspend.
send(Msg, S) ->
    erlang:send(S#s.daemon, Msg, [noconnect, nosuspend]).

-spec drop(tuple(), #s{}) -> #s{}.
drop(?CODE_CHANGED(_), S) ->
    S;                          % seen with the next lease
drop(Ev, S) ->
    case kprof_agent_foreign:is_ours(Ev, S) of
        true -> drop_ours(Ev, S);
        false -> kprof_agent_foreign:foreign(Ev, S)
    end.

%% Gathered, so all ours: without their values they do not look like it.
-spec drop_stripped([tuple()], #s{}) -> #s{}.
drop_stripped(Evs, S) ->
    lists:foldl(fun drop_ours/2, S, Evs).

drop_ours({trace_ts, _, call, _, X, At}, S0) ->
    S = late_call(At, S0),
    Entries = if tuple_size(X) =:= 7 -> 1; true -> 0 end,
    S#s{dropped = S#s.dropped + 1,
        dropped_entries = S#s.dropped_entries + Entries};
drop_ours({trace_ts, _, Kind, What, _}, S)
  when Kind =:= in; Kind =:= out; is_list(What) ->
    S;                          % of no call that is seen
drop_ours(_, S) ->
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
strip({trace_ts, P, Kind, Info, Ts}, S) when is_list(Info) ->
    {{trace_ts, P, Kind, [], Ts}, S};   % sizes, of a garbage collection
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
    [#item{fallback = Spec} = Exact] =
        [I || I <- S#s.plan, I#item.mfa =:= MFA],
    Item = Exact#item{spec = Spec},
    kprof_agent_patterns:pattern(S#s.session, MFA, kprof_agent_mail:spec(Item, S)),
    notice({kprof_notice, unexact, MFA, Words div N * 8},
           S#s{exact = maps:remove(MFA, S#s.exact),
               plan = lists:keyreplace(MFA, #item.mfa, S#s.plan, Item)}).

%% ------------------------------------------------------------- the trip ----

%% Disarm first, then empty the queue, then tell. The returns of calls that
%% are still under way trickle in afterwards: event/2 drops them.
%%
%% Of the last one status/0 shows, in ns of the node's monotonic time: when it
%% was, since when no process has flags of ours, where these went first, since
%% when nothing is armed, when the queue was empty, and how much was
%% in it then; and, of the relay, the time of the newest call of those dropped,
%% which no call can pass that was made while nothing was armed.
-spec trip(Reason :: term(), Queue :: non_neg_integer(), #s{}) -> #s{}.
trip(Reason, Queue, S) ->
    At = kprof_injected:now_ns(),
    Began = #{reason => Reason, queue => Queue, tripped_at => At},
    S1 = kprof_agent_arming:disarm({tripped, Reason},
                                   S#s{last_trip = case S#s.probe of
                                                       relay -> Began#{last_call_at => At};
                                                       native -> Began
                                                   end}),
    Disarmed = kprof_injected:now_ns(),
    #s{last_trip = Trip} = S2 = flush(S1),
    {message_queue_len, Left} = process_info(self(), message_queue_len),
    Done = Trip#{disarmed_at => Disarmed, emptied_at => kprof_injected:now_ns(),
                 left => Left},
    %% Nothing comes now that would make the VM collect what was queued.
    true = erlang:garbage_collect(),
    %% On a busy node this takes a while: the daemon was not silent.
    notice({kprof_notice, trip, Reason, Queue},
           S2#s{last_trip = Done, lease_at = kprof_injected:now_ms()}).

%% Where others' events come as well, they may never end: then not what comes
%% meanwhile.
-spec flush(#s{}) -> #s{}.
flush(#s{probe = native} = S) ->
    kprof_agent_drain:drain_all(S);
flush(#s{known = all} = S) ->
    flush(infinity, S);
flush(S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    flush(2 * Queue + ?BATCH_EVENTS, S).

%% While something is armed only what is there already: many processors may
%% send events faster than one drops them.
-spec flush_some(#s{}) -> #s{}.
flush_some(#s{probe = native, state = State} = S) ->
    Dropped = kprof_agent_drain:drain_all(S#s{state = idle}),
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
-spec notice(tuple(), #s{}) -> #s{}.
notice(Msg, S) ->
    flush_unsent(S#s{unsent = [Msg | S#s.unsent]}).

-spec flush_unsent(#s{}) -> #s{}.
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
