%% kprof_agent_events - trace messages on their way through the agent: gathered, checked,
%% stripped of values and sent in batches; and the trip, which switches tracing off where a
%% limit is passed. With the native probe they are chunks of its rings.
-module(kprof_agent_events).

-export([event/2, gather/4, check_limits/1, over_limit/3, send/2, send_batch/5, add_busy/3,
         charge/3, count_dropped/3, drop/2, drop_rest/2, trip/3, flush/1, flush_some/1, notice/2,
         flush_unsent/1, probe_start/4, probe_wake/1, drain/1, drain_woken/1, drain_now/1,
         drain_all/1, drain_meanwhile/1, hand_over_rings/2]).
-export_type([work/0]).

-import(kprof_agent_arming, [disarm/2, set_patterns/2]).
-import(kprof_agent_flags, [flags_lost/1]).
-import(kprof_agent_foreign, [await_batch/2, foreign_event/2, idle_event/2, is_ours/2,
         patterns_set/2]).
-import(kprof_agent_intact, [code_changed/2, look_ahead/1]).
-import(kprof_agent_library, [library_load/2]).
-import(kprof_agent_stacks, [stacks_seen/2, stacks_wait_ms/2]).
-import(kprof_injected, [now_ms/0, now_ns/0]).
-import(kprof_probes, [probe_load/4, probe_purge/1]).
-import(kprof_tracing, [session_create/2]).

-include("kprof_agent.hrl").

%% Work that has one price each time: a batch of so many events, up to the next power of two.
-type work() :: {batch, Bits :: non_neg_integer()} | counters | lease.

-define(BATCH_MS, 15).          % longest wait for a batch to fill: an event reaches
                                % the daemon within 20 ms
-define(BATCH_LEAST_MS, 5).     % the same where events may not be much older

-define(EXACT_WORDS, 512).      % mean size of values that 'exact' may copy
-define(EXACT_CALLS, 1000).     % about as many of the last calls count in the mean

-define(DRAIN_RECORDS, 4096).   % taken from the rings at once: well below 1 ms
-define(RINGS_MS, 10).          % between two looks at rings that fill
-define(RINGS_QUIET_MS, 25).    % and after one in which there was nothing: the probe will
                                % tell of the next event, but maybe not of one under way
-define(RINGS_OFF_MS, 500).     % and while nothing comes

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
event(Ev, S) -> idle_event(Ev, S).

wait(Ev, S) ->
    case process_info(self(), message_queue_len) of
        {_, Len} when Len < ?BATCH_EVENTS - 1 ->
            await_batch(batch_ms(Ev, S), S),
            S;
        _ -> look_ahead(S)
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
        false -> {Acc, foreign_event(Ev, S)}
    end.

gather_more(0, Gathered) -> Gathered;
gather_more(Left, {Acc, S}) ->
    receive
        ?CODE_CHANGED(At) -> gather_more(Left, {Acc, code_changed(At, S)});
        ?PATTERN_SET(Args) -> gather_more(Left, {Acc, patterns_set(Args, S)});
        Ev when element(1, Ev) =:= trace_ts ->
            gather_more(Left - 1, gathered(Ev, Acc, S));
        Noise when ?IS_NOISE(Noise) -> gather_more(Left - 1, {Acc, S})
    after 0 ->
            {Acc, S}
    end.

batch(First, N, Evs, S) ->
    Now = now_ns(),
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    case over_limit(Now - First, Queue, S) of
        false when Evs =:= [] -> S;
        false ->
            case send_batch(Now, Queue, N, Evs, S) of
                {ok, S1} -> S1;
                Busy -> trip(Busy, Queue, drop_stripped(Evs, S))
            end;
        Reason -> trip(Reason, Queue, drop_stripped(Evs, S))
    end.

%% Called at each tick: messages that are no events make no batch. Where there is an event, the
%% batch that begins with it looks at the limits, and at whose events they are.
check_limits(#state{state = armed} = S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    case over_limit(0, Queue, S) of
        false -> S;
        Reason ->
            receive
                Ev when element(1, Ev) =:= trace_ts, is_integer(element(tuple_size(Ev), Ev)) ->
                    event(Ev, S)
            after 0 -> trip(Reason, Queue, S)
            end
    end;
check_limits(S) -> S.

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
add_busy(N, T0, S) when is_integer(N) -> add_work({batch, bits(N)}, T0, S);
add_busy(Work, T0, S) -> add_work(Work, T0, S).

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
drop(?PATTERN_SET(Args), S) -> patterns_set(Args, S);
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

%% An entry without a token begins no request that counts.
drop_ours({trace_ts, _, call, _, X, At}, S) ->
    Begins = tuple_size(X) =:= 7 andalso element(4, X) =/= [],
    count_dropped(1, if Begins -> 1; true -> 0 end, late_call(At, S));
drop_ours({trace_ts, _, Kind, What, _}, S)
  when Kind =:= in; Kind =:= out; is_list(What) ->
    S;                          % of scheduling and garbage collection
drop_ours(_, S) ->
    count_dropped(1, 0, S).

late_call(At, #state{state = {tripped, _}, last_trip = #{last_call_at := Last} = Trip} = S)
  when At > Last ->
    S#state{last_trip = Trip#{last_call_at := At}};
late_call(_, S) -> S.

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
        Size -> use_sizes(Sizes#{MFA := Size}, S)
    end;
weigh(_, _, S) -> S.

use_sizes(Sizes, #state{events = Events} = S) ->
    S#state{events = Events#events{value_sizes = Sizes}}.

no_longer_exact(MFA, MeanBytes, #state{plan = Plan, events = Events} = S) ->
    Exact = lists:keyfind(MFA, #item.mfa, Plan),
    Item = Exact#item{spec = without_values(Exact, S)},
    _ = set_patterns([Item], S),
    notice({kprof_notice, unexact, MFA, MeanBytes},
           use_sizes(maps:remove(MFA, Events#events.value_sizes),
                     S#state{plan = lists:keyreplace(MFA, #item.mfa, Plan, Item)})).

%% The fallback of an entry gives tokens, as between slices none does.
without_values(#item{kind = entry, spec = Spec},
               #state{entry_calls = #entry_calls{closed = Closed}})
  when Closed =:= timed; Closed =:= watched ->
    [{Head, Guards, Actions -- [{exception_trace}]} || {Head, Guards, Actions} <- Spec];
without_values(#item{fallback = Fallback}, _) -> Fallback.

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
flush(#state{probe = native} = S) -> drain_all(S);
flush(S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    flush(2 * Queue + ?BATCH_EVENTS, S).

%% While something is armed it drops only what is there already: many processors may send
%% events faster than one process drops them.
flush_some(#state{probe = native, state = State} = S) ->
    Dropped = drain_all(S#state{state = idle}),
    Dropped#state{state = State};
flush_some(S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    flush(Queue, S).

flush(0, S) -> S;
flush(Left, S) ->
    receive
        Ev when element(1, Ev) =:= trace_ts -> flush(Left - 1, drop(Ev, S));
        Noise when ?IS_NOISE(Noise) -> flush(Left - 1, S)
    after 0 ->
            S
    end.

%% Notices are few, and must arrive: they wait while the connection is busy.
-spec notice(tuple(), #state{}) -> #state{}.
notice(Msg, #state{events = #events{unsent = Unsent} = Events} = S) ->
    flush_unsent(S#state{events = Events#events{unsent = [Msg | Unsent]}}).

flush_unsent(#state{events = #events{unsent = []}} = S) -> S;
flush_unsent(#state{events = #events{unsent = Unsent} = Events} = S) ->
    Left = lists:reverse(send_notices(lists:reverse(Unsent), S)),
    S#state{events = Events#events{unsent = Left}}.

send_notices([], _) -> [];
send_notices([Msg | More] = All, S) ->
    case send(Msg, S) of
        ok -> send_notices(More, S);
        _ -> All
    end.

%% ---------------------------------------------------------- the native probe ----

%% From now on the tracer is kprof_probe, whose library is the file at Path, or has been sent. On
%% an error the agent remains the tracer.
-spec probe_start(binary(), file:filename_all() | {sent, binary()}, pos_integer(), #state{}) ->
          {{ok, map()} | {error, term()}, #state{}}.
probe_start(Beam, {sent, Bytes}, MaxBytes, #state{probe = relay, plan = []} = S) ->
    Load = fun(Path) -> probe_load(kprof_probe, Beam, Path, MaxBytes) end,
    probe_loaded(library_load(Bytes, Load), S);
probe_start(Beam, Path, MaxBytes, #state{probe = relay, plan = []} = S) ->
    probe_loaded(probe_load(kprof_probe, Beam, Path, MaxBytes), S);
probe_start(_, _, _, S) -> {{error, too_late}, S}.

probe_loaded(ok, S) ->
    try session_create(kprofd, kprof_probe:tracer()) of
        Session ->
            self() ! drain,         % from here on nothing fails
            {{ok, kprof_probe:info()}, use_probe(Session, S)}
    catch
        error:Why ->
            probe_purge(kprof_probe),
            {{error, Why}, S}
    end;
probe_loaded({error, _} = Error, S) -> {Error, S}.

use_probe(Session, #state{session = First, foreign = Foreign, code = Code} = S) ->
    S#state{probe = native, session = Session, foreign = Foreign#foreign{known = all},
            code = Code#code{session = First}}.

%% The probe ends by itself where rings are full and nobody empties them for long. If that
%% was because the agent was held up, it has to start again before anything is armed. The VM
%% has taken the flags of processes that ran meanwhile, so these are set again.
probe_wake(#state{probe = native} = S0) ->
    S = drain_soon(S0),
    case kprof_probe:info() of
        #{active := true} -> S;
        _ ->
            kprof_probe:start(),
            flags_lost(S)
    end;
probe_wake(S) -> S.

%% Takes what is in the rings, and has itself called again: at once while there is much. A look
%% takes some 50 us, most of it because a scheduler wakes up for it: so where there is nothing
%% the next event wakes the agent.
drain(S0) ->
    {N, More, #state{events = E, state = State} = S} = drain_timed(S0),
    Asleep = N =:= 0 andalso State =:= armed andalso (E#events.asleep orelse kprof_probe:sleep()),
    Ms = if More -> 0;
            Asleep, not E#events.asleep; N =:= 0, State =:= armed, not Asleep -> ?RINGS_QUIET_MS;
            N =:= 0 -> ?RINGS_OFF_MS;
            true -> ?RINGS_MS
         end,
    drain_in(Ms, S#state{events = E#events{asleep = Asleep}}).

drain_in(Ms, #state{events = E} = S) ->
    S#state{events = E#events{drains = erlang:send_after(Ms, self(), drain)}}.

drain_soon(S) -> drain_within(0, S).

%% An event has come: others may follow, which are taken with it.
drain_woken(#state{events = #events{asleep = true}} = S) -> drain_within(?RINGS_MS, S);
drain_woken(S) -> S.

drain_within(Ms, #state{events = #events{drains = Timer} = E} = S) ->
    Next = S#state{events = E#events{asleep = false}},
    case Timer =/= none andalso erlang:cancel_timer(Timer) =/= false of
        true -> drain_in(Ms, Next);
        false -> Next
    end.

%% The same between two of these.
drain_now(#state{probe = native} = S) -> element(3, drain_timed(S));
drain_now(S) -> S.

drain_timed(S0) ->
    T0 = now_ns(),
    case drain_once(S0) of
        {N, _, More, S} -> {N, More, add_busy(N, T0, S)}
    end.

%% {Events, TimeOfTheOldest, AreThereMore, State}
drain_once(S) ->
    drain_once(fun drained/7, S).

drain_once(Then, S0) ->
    {Now, Oldest, Waiting, Dropped, Entries, N, More, Chunks} =
        kprof_probe:drain(?DRAIN_RECORDS),
    {Lost, S} = ring_losses(Dropped, Entries, S0),
    {N, Oldest, More, Then(Lost, Now, Oldest, Waiting, N, Chunks, S)}.

%% The probe counts drops since it was loaded; Lost are the events since the last drain.
ring_losses(D, E, #state{events = #events{ring_drops = {D0, E0}} = Events} = S) ->
    Now = S#state{events = Events#events{ring_drops = {D, E}}},
    {D - D0, count_dropped(D - D0, E - E0, Now)}.

drained(0, _, _, _, 0, _, S) -> S;
drained(Lost, Now, Oldest, Waiting, N, Chunks, #state{state = armed} = S) ->
    case rings_over_limit(Lost, Now - Oldest, Waiting, S) of
        false ->
            case send_chunks(Now, Waiting, N, Chunks, S) of
                {ok, S1} -> S1;
                Busy -> trip(Busy, Waiting, keep_definitions(Chunks, S))
            end;
        Reason -> trip(Reason, Waiting, keep_definitions(Chunks, S))
    end;
drained(_, _, _, _, _, Chunks, S) -> keep_definitions(Chunks, S).

rings_over_limit(Lost, _, _, _) when Lost > 0 -> {rings_full, Lost};
rings_over_limit(_, Age, Waiting, S) -> over_limit(Age, Waiting, S).

%% Nothing overtakes unsent definitions, because later events may need them.
send_chunks(_, _, _, _, #state{events = #events{unsent = [_ | _]}}) -> nosuspend;
send_chunks(Now, Waiting, N, Chunks, S) -> send_batch(Now, Waiting, N, Chunks, S).

%% Drops the events, but not their definitions: later events use these.
keep_definitions(Chunks, S0) ->
    {Events, Entries, Kept} = kprof_probe:definitions(Chunks),
    #state{events = E} = S = count_dropped(Events, Entries, S0),
    case Kept of
        [] -> S;
        _ ->
            Seq = E#events.seq + 1,
            Now = now_ns(),
            notice({kprof_events, Seq, Now, 0, E#events.dropped, Kept},
                   S#state{events = E#events{seq = Seq}})
    end.

%% Takes all that is in the rings now, but not what arrives meanwhile: it is sent or, when
%% disarmed, dropped. Each part is older than the next.
drain_all(S) ->
    drain_all(now_ns(), S).

drain_all(Until, S0) ->
    case drain_once(S0) of
        {_, Oldest, true, S} when Oldest =< Until -> drain_all(Until, S);
        {_, _, _, S} -> S
    end.

%% Called during a change, which must not trip half way. Unsent notices go first: no tick
%% comes before the end of the change, and nothing may overtake them. While the connection
%% takes nothing, events stay in the rings: these are bounded, and count exactly what they
%% drop. Definitions kept here would not be bounded.
drain_meanwhile(S0) ->
    T0 = now_ns(),
    Sent = fun(#state{events = #events{sent = N, dropped = D}}) -> N + D end,
    S = drain_until(T0, flush_unsent(S0)),
    add_busy(Sent(S) - Sent(S0), T0, S).

drain_until(_, #state{events = #events{unsent = [_ | _]}} = S) -> S;
drain_until(Until, S0) ->
    case drain_once(fun sent_or_dropped/7, S0) of
        {_, Oldest, true, S} when Oldest =< Until -> drain_until(Until, S);
        {_, _, _, S} -> S
    end.

sent_or_dropped(_, _, _, _, 0, _, S) -> S;
sent_or_dropped(_, Now, _, Waiting, N, Chunks, S) ->
    case send_chunks(Now, Waiting, N, Chunks, S) of
        {ok, S1} -> S1;
        _ -> keep_definitions(Chunks, S)
    end.

-spec hand_over_rings(Deadline :: integer(), #state{}) -> #state{}.
hand_over_rings(Deadline, S0) ->
    case drain_once(S0) of
        {0, _, false, S} -> S;
        {_, _, _, S} ->
            case now_ms() < Deadline of
                true -> hand_over_rings(Deadline, S);
                false -> flush(S#state{state = idle})
            end
    end.
