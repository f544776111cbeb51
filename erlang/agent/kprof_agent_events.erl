%% kprof_agent_events - trace messages on their way through the agent: gathered, checked,
%% stripped of values and sent in batches; and the trip, which switches tracing off where a
%% limit is passed.
-module(kprof_agent_events).

-export([event/2, gather/4, check_limits/1, over_limit/3, send/2, send_batch/5, add_busy/3,
         charge/3, count_dropped/3, drop/2, drop_rest/2, trip/3, flush/1, flush_some/1, notice/2,
         flush_unsent/1]).
-export_type([work/0]).

-import(kprof_agent_arming, [disarm/2, set_patterns/2]).
-import(kprof_agent_foreign, [await_batch/2, foreign_event/2, idle_event/2, is_ours/2,
         patterns_set/2]).
-import(kprof_agent_intact, [code_changed/2, look_ahead/1]).
-import(kprof_agent_rings, [drain_all/1]).
-import(kprof_agent_stacks, [stacks_seen/2, stacks_wait_ms/2]).
-import(kprof_injected, [now_ms/0, now_ns/0]).

-include("kprof_agent.hrl").

%% Work that has one price each time: a batch of so many events, up to the next power of two.
-type work() :: {batch, Bits :: non_neg_integer()} | counters | lease.

-define(BATCH_MS, 15).          % longest wait for a batch to fill: an event reaches
                                % the daemon within 20 ms
-define(BATCH_LEAST_MS, 5).     % the same where events may not be much older
-define(EXACT_WORDS, 512).      % mean size of values that 'exact' may copy
-define(EXACT_CALLS, 1000).     % about as many of the last calls count in the mean

%% While armed: gathers what comes within the wait, checks the limits and sends. Otherwise
%% drops and counts late events. Foreign events are recognised before anything is waited for.
-spec event(tuple(), #state{}) -> #state{}.
event(Ev, #state{state = armed} = S0) ->
    S = case is_ours(Ev, S0) of
            true -> wait(Ev, S0);
            false -> S0
        end,
    T0 = now_ns(),
    {First, N, Evs, S1} = gather(?BATCH_EVENTS - 1, Ev, [], S),
    add_busy(N, T0, batch(First, N, Evs, stacks_seen(Evs, S1)));
event(Ev, S) ->
    idle_event(Ev, S).

wait(Ev, S) ->
    case process_info(self(), message_queue_len) of
        {_, Len} when Len < ?BATCH_EVENTS - 1 ->
            await_batch(batch_ms(Ev, S), S),
            S;
        _ ->
            look_ahead(S)
    end.

%% Each batch costs both sides far more than an event, and a quarter of the age that events
%% may have is not an overload yet. What the last batch had no room for has waited already.
batch_ms(Ev, #state{limits = #limits{age_ns = Ns}} = S) ->
    Age = now_ns() - element(tuple_size(Ev), Ev),
    Longest = max(?BATCH_LEAST_MS, min(?BATCH_MS, Ns div 4000000)),
    stacks_wait_ms(max(0, Longest - Age div 1000000), S).

%% Returns the time of the oldest event, their number, and the events in order.
-spec gather(non_neg_integer(), tuple(), [tuple()], #state{}) ->
          {integer(), non_neg_integer(), [tuple()], #state{}}.
gather(Left, Ev, Acc, S) ->
    First = element(tuple_size(Ev), Ev),
    {Evs, S1} = gather_more(Left, gathered(Ev, Acc, S)),
    {First, length(Evs), lists:reverse(Evs), S1}.

gathered(Ev, Acc, S) ->
    case is_ours(Ev, S) of
        true ->
            {Stripped, S1} = strip(Ev, S),
            {[Stripped | Acc], S1};
        false ->
            {Acc, foreign_event(Ev, S)}
    end.

gather_more(0, Gathered) ->
    Gathered;
gather_more(Left, {Acc, S}) ->
    receive
        ?CODE_CHANGED(At) ->
            gather_more(Left, {Acc, code_changed(At, S)});
        ?PATTERN_SET(Args) ->
            gather_more(Left, {Acc, patterns_set(Args, S)});
        Ev when element(1, Ev) =:= trace_ts ->
            gather_more(Left - 1, gathered(Ev, Acc, S));
        Noise when ?IS_NOISE(Noise) ->
            gather_more(Left - 1, {Acc, S})
    after 0 ->
            {Acc, S}
    end.

batch(First, N, Evs, S) ->
    Now = now_ns(),
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    case over_limit(Now - First, Queue, S) of
        false when Evs =:= [] ->
            S;
        false ->
            case send_batch(Now, Queue, N, Evs, S) of
                {ok, S1} -> S1;
                Busy -> trip(Busy, Queue, drop_stripped(Evs, S))
            end;
        Reason ->
            trip(Reason, Queue, drop_stripped(Evs, S))
    end.

%% Called at each tick: messages that are no events make no batch. Where there is an event, the
%% batch that begins with it looks at the limits, and at whose events they are.
-spec check_limits(#state{}) -> #state{}.
check_limits(#state{state = armed} = S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    case over_limit(0, Queue, S) of
        false ->
            S;
        Reason ->
            receive
                Ev when element(1, Ev) =:= trace_ts, is_integer(element(tuple_size(Ev), Ev)) ->
                    event(Ev, S)
            after 0 -> trip(Reason, Queue, S)
            end
    end;
check_limits(S) ->
    S.

%% Returns false, or which limit is passed and by what.
-spec over_limit(AgeNs :: integer(), Queue :: non_neg_integer(), #state{}) ->
          false | {age_ms | queue | memory, integer()}.
over_limit(Age, _, #state{limits = #limits{age_ns = Max}}) when Age > Max ->
    {age_ms, Age div 1000000};
over_limit(_, Queue, #state{limits = #limits{queue = Max}}) when Queue > Max ->
    {queue, Queue};
over_limit(_, _, #state{limits = #limits{memory = Max}}) ->
    %% This counts the messages outside the heap too.
    {memory, Bytes} = process_info(self(), memory),
    Bytes > Max andalso {memory, Bytes}.

-spec send(tuple(), #state{}) -> ok | noconnect | nosuspend.
send(Msg, #state{lease = #lease{daemon = Daemon}}) ->
    erlang:send(Daemon, Msg, [noconnect, nosuspend]).

%% Batch: events of the relay, or chunks of the native probe.
-spec send_batch(NowNs :: integer(), Waiting :: non_neg_integer(), N :: non_neg_integer(),
                 Batch :: [term()], #state{}) -> {ok, #state{}} | noconnect | nosuspend.
send_batch(Now, Waiting, N, Batch, #state{events = Events} = S) ->
    Seq = Events#events.seq + 1,
    case send({kprof_events, Seq, Now, Waiting, Events#events.dropped, Batch}, S) of
        ok -> {ok, S#state{events = Events#events{seq = Seq, sent = Events#events.sent + N}}};
        Busy -> Busy
    end.

%% Adds what this work, done since T0, has cost: N events, or what else.
-spec add_busy(non_neg_integer() | counters | lease, integer(), #state{}) -> #state{}.
add_busy(N, T0, S) when is_integer(N) ->
    add_work({batch, bits(N)}, T0, S);
add_busy(Work, T0, S) ->
    add_work(Work, T0, S).

add_work(Work, T0,
         #state{events = #events{busy_ns = Ns, held_ns = Held, prices = Prices0} = E} = S) ->
    Took = max(0, now_ns() - T0),
    {Cost, Prices} = charge(Work, Took, Prices0),
    S#state{events = E#events{busy_ns = Ns + Cost, held_ns = Held + Took - Cost, prices = Prices}}.

bits(0) -> 0;
bits(N) -> 1 + bits(N bsr 1).

%% The clock goes on while the agent has no processor: on a busy host a batch of 50 us may take
%% 10 ms. So the price of each kind of work is followed, at the lower quartile of what it takes,
%% which interruptions do not move; work that takes more than twice its price was interrupted,
%% and costs the price. The first time is no evidence, so it is bounded by what is dear anywhere.
-spec charge(work(), Ns, Prices) -> {Ns, Prices} when
      Ns :: non_neg_integer(), Prices :: #{work() => non_neg_integer()}.
charge(Work, Took, Prices) ->
    Price = maps:get(Work, Prices, min(Took, dear(Work))),
    Next = if Took < Price -> max(Took, Price - Price div 8 - 1);
              Took > Price -> min(Took, Price + Price div 24 + 1);
              true -> Price
           end,
    {if Took > 2 * Price -> Price; true -> Took end, Prices#{Work => Next}}.

dear({batch, Bits}) -> 100000 + (3000 bsl Bits);
dear(_) -> 2000000.

-spec count_dropped(non_neg_integer(), non_neg_integer(), #state{}) -> #state{}.
count_dropped(N, Entries, #state{events = Events} = S) ->
    #events{dropped = Dropped, dropped_entries = DroppedEntries} = Events,
    S#state{events = Events#events{dropped = Dropped + N,
                                   dropped_entries = DroppedEntries + Entries}}.

-spec drop(tuple(), #state{}) -> #state{}.
drop(?CODE_CHANGED(_), S) ->
    S;                          % the next lease notices the change
drop(?PATTERN_SET(Args), S) ->
    patterns_set(Args, S);
drop(Ev, S) ->
    case is_ours(Ev, S) of
        true -> drop_ours(Ev, S);
        false -> foreign_event(Ev, S)
    end.

%% Drops these, which were gathered, and what is in the queue.
-spec drop_rest([tuple()], #state{}) -> #state{}.
drop_rest(Evs, S) ->
    flush(drop_stripped(Evs, S)).

%% Gathered events are all ours, but without their values they do not look like it.
drop_stripped(Evs, S) ->
    lists:foldl(fun drop_ours/2, S, Evs).

drop_ours({trace_ts, _, call, _, X, At}, S) ->
    count_dropped(1, if tuple_size(X) =:= 7 -> 1; true -> 0 end, late_call(At, S));
drop_ours({trace_ts, _, Kind, What, _}, S)
  when Kind =:= in; Kind =:= out; is_list(What) ->
    S;                          % of scheduling and garbage collection
drop_ours(_, S) ->
    count_dropped(1, 0, S).

late_call(At, #state{state = {tripped, _}, last_trip = #{last_call_at := Last} = Trip} = S)
  when At > Last ->
    S#state{last_trip = Trip#{last_call_at := At}};
late_call(_, S) ->
    S.

%% Values never leave the node. Their sizes are watched: 'exact' is taken back from a function
%% that returns large values, however long they were small before.
strip({trace_ts, P, Kind, MFA, Value, Ts}, S)
  when Kind =:= return_from; Kind =:= exception_from ->
    {{trace_ts, P, Kind, MFA, Ts}, weigh(MFA, Value, S)};
strip({trace_ts, P, Kind, Info, Ts}, S) when is_list(Info) ->
    {{trace_ts, P, Kind, [], Ts}, S};   % sizes, of a garbage collection
strip(Ev, S) ->
    {Ev, S}.

weigh(MFA, Value, #state{events = #events{value_sizes = Sizes}} = S) when is_map_key(MFA, Sizes) ->
    {N, Words} = map_get(MFA, Sizes),
    case {N + 1, Words + erts_debug:flat_size(Value)} of
        {Calls, Sum} when Sum > ?EXACT_WORDS * (N + 100) ->
            no_longer_exact(MFA, Sum div Calls * 8, S);
        {?EXACT_CALLS, Sum} ->
            use_sizes(Sizes#{MFA := {?EXACT_CALLS div 2, Sum div 2}}, S);
        Size ->
            use_sizes(Sizes#{MFA := Size}, S)
    end;
weigh(_, _, S) ->
    S.

use_sizes(Sizes, #state{events = Events} = S) ->
    S#state{events = Events#events{value_sizes = Sizes}}.

no_longer_exact(MFA, MeanBytes, #state{plan = Plan, events = Events} = S) ->
    #item{fallback = Spec} = Exact = lists:keyfind(MFA, #item.mfa, Plan),
    Item = Exact#item{spec = Spec},
    _ = set_patterns([Item], S),
    notice({kprof_notice, unexact, MFA, MeanBytes},
           use_sizes(maps:remove(MFA, Events#events.value_sizes),
                     S#state{plan = lists:keyreplace(MFA, #item.mfa, Plan, Item)})).

%% ------------------------------------------------------------- the trip ----

%% Disarms first, then empties the queue, then notifies the daemon. Returns of calls that are
%% still under way arrive afterwards: event/2 drops them.
%%
%% status/0 shows the last trip in last_trip, in ns of the node's monotonic time:
%%   tripped_at      when it began
%%   quiet_at        when no process had flags of ours, where these were taken first
%%   disarmed_at     when nothing was armed any more
%%   emptied_at      when the queue was empty; left: what was in it then
%%   last_call_at    of the relay: the newest call among those dropped. No call passes it
%%                   that was made while nothing was armed.
-spec trip(Reason :: term(), Queue :: non_neg_integer(), #state{}) -> #state{}.
trip(Reason, Queue, S) ->
    At = now_ns(),
    Began = #{reason => Reason, queue => Queue, tripped_at => At},
    Trip0 = case S#state.probe of
                relay -> Began#{last_call_at => At};
                native -> Began
            end,
    S1 = disarm({tripped, Reason}, S#state{last_trip = Trip0}),
    Disarmed = now_ns(),
    #state{last_trip = Trip, lease = Lease} = S2 = flush(S1),
    {message_queue_len, Left} = process_info(self(), message_queue_len),
    Done = Trip#{disarmed_at => Disarmed, emptied_at => now_ns(), left => Left},
    %% No event comes now that would make the VM collect what was queued.
    true = erlang:garbage_collect(),
    %% On a busy node this takes a while: the daemon was not silent.
    notice({kprof_notice, trip, Reason, Queue},
           S2#state{last_trip = Done, lease = Lease#lease{renewed_at = now_ms()}}).

%% Drops what is in the queue. Other people's events and messages may never end, so it drops a
%% limited number.
-spec flush(#state{}) -> #state{}.
flush(#state{probe = native} = S) ->
    drain_all(S);
flush(S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    flush(2 * Queue + ?BATCH_EVENTS, S).

%% While something is armed it drops only what is there already: many processors may send
%% events faster than one process drops them.
-spec flush_some(#state{}) -> #state{}.
flush_some(#state{probe = native, state = State} = S) ->
    Dropped = drain_all(S#state{state = idle}),
    Dropped#state{state = State};
flush_some(S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    flush(Queue, S).

flush(0, S) ->
    S;
flush(Left, S) ->
    receive
        Ev when element(1, Ev) =:= trace_ts ->
            flush(Left - 1, drop(Ev, S));
        Noise when ?IS_NOISE(Noise) ->
            flush(Left - 1, S)
    after 0 ->
            S
    end.

%% Notices are few, and must arrive: they wait while the connection is busy.
-spec notice(tuple(), #state{}) -> #state{}.
notice(Msg, #state{events = #events{unsent = Unsent} = Events} = S) ->
    flush_unsent(S#state{events = Events#events{unsent = [Msg | Unsent]}}).

-spec flush_unsent(#state{}) -> #state{}.
flush_unsent(#state{events = #events{unsent = []}} = S) ->
    S;
flush_unsent(#state{events = #events{unsent = Unsent} = Events} = S) ->
    Left = lists:reverse(send_notices(lists:reverse(Unsent), S)),
    S#state{events = Events#events{unsent = Left}}.

send_notices([], _) ->
    [];
send_notices([Msg | More] = All, S) ->
    case send(Msg, S) of
        ok -> send_notices(More, S);
        _ -> All
    end.
