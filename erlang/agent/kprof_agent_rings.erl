%% kprof_agent_rings - the agent's part of the native probe: loads it, empties its rings, and
%% applies the same limits to what they hold.
-module(kprof_agent_rings).

-export([probe_start/4, probe_wake/1, drain/1, drain_now/1, drain_all/1, drain_meanwhile/1,
         hand_over_rings/2]).

-import(kprof_agent_events, [add_busy/3, count_dropped/3, flush_unsent/1, notice/2, over_limit/3,
         send_batch/5, trip/3]).
-import(kprof_agent_flags, [flags_lost/1]).
-import(kprof_agent_library, [library_load/2]).
-import(kprof_injected, [now_ms/0, now_ns/0]).
-import(kprof_probes, [probe_load/4, probe_purge/1]).
-import(kprof_tracing, [session_create/2]).

-include("kprof_agent.hrl").

-define(DRAIN_RECORDS, 4096).   % taken from the rings at once: well below 1 ms
-define(RINGS_MS, 10).          % between two looks at rings that fill
-define(RINGS_IDLE_MS, 15).     % between two looks at others

%% From now on the tracer is kprof_probe, whose library is the file at Path, or has been sent. On
%% an error the agent remains the tracer.
-spec probe_start(binary(), file:filename_all() | {sent, binary()}, pos_integer(), #state{}) ->
          {{ok, map()} | {error, term()}, #state{}}.
probe_start(Beam, {sent, Bytes}, MaxBytes, #state{probe = relay, plan = []} = S) ->
    Load = fun(Path) -> probe_load(kprof_probe, Beam, Path, MaxBytes) end,
    probe_loaded(library_load(Bytes, Load), S);
probe_start(Beam, Path, MaxBytes, #state{probe = relay, plan = []} = S) ->
    probe_loaded(probe_load(kprof_probe, Beam, Path, MaxBytes), S);
probe_start(_, _, _, S) ->
    {{error, too_late}, S}.

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
probe_loaded({error, _} = Error, S) ->
    {Error, S}.

use_probe(Session, #state{session = First, foreign = Foreign, code = Code} = S) ->
    S#state{probe = native, session = Session, foreign = Foreign#foreign{known = all},
            code = Code#code{session = First}}.

%% The probe ends by itself where rings are full and nobody empties them for long. If that
%% was because the agent was held up, it has to start again before anything is armed. The VM
%% has taken the flags of processes that ran meanwhile, so these are set again.
-spec probe_wake(#state{}) -> #state{}.
probe_wake(#state{probe = native} = S) ->
    case kprof_probe:info() of
        #{active := true} -> S;
        _ ->
            kprof_probe:start(),
            flags_lost(S)
    end;
probe_wake(S) ->
    S.

%% Takes what is in the rings, and has itself called again: at once while there is much.
-spec drain(#state{}) -> #state{}.
drain(S0) ->
    {N, More, S} = drain_timed(S0),
    if More -> self() ! drain;
       N > 0 -> erlang:send_after(?RINGS_MS, self(), drain);
       true -> erlang:send_after(?RINGS_IDLE_MS, self(), drain)
    end,
    S.

%% The same between two of these.
-spec drain_now(#state{}) -> #state{}.
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

drained(0, _, _, _, 0, _, S) ->
    S;
drained(Lost, Now, Oldest, Waiting, N, Chunks, #state{state = armed} = S) ->
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

%% Nothing overtakes unsent definitions, because later events may need them.
send_chunks(_, _, _, _, #state{events = #events{unsent = [_ | _]}}) ->
    nosuspend;
send_chunks(Now, Waiting, N, Chunks, S) ->
    send_batch(Now, Waiting, N, Chunks, S).

%% Drops the events, but not their definitions: later events use these.
keep_definitions(Chunks, S0) ->
    {Events, Entries, Kept} = kprof_probe:definitions(Chunks),
    #state{events = E} = S = count_dropped(Events, Entries, S0),
    case Kept of
        [] ->
            S;
        _ ->
            Seq = E#events.seq + 1,
            Now = now_ns(),
            notice({kprof_events, Seq, Now, 0, E#events.dropped, Kept},
                   S#state{events = E#events{seq = Seq}})
    end.

%% Takes all that is in the rings now, but not what arrives meanwhile: it is sent or, when
%% disarmed, dropped. Each part is older than the next.
-spec drain_all(#state{}) -> #state{}.
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
-spec drain_meanwhile(#state{}) -> #state{}.
drain_meanwhile(S0) ->
    T0 = now_ns(),
    Sent = fun(#state{events = #events{sent = N, dropped = D}}) -> N + D end,
    S = drain_until(T0, flush_unsent(S0)),
    add_busy(Sent(S) - Sent(S0), T0, S).

drain_until(_, #state{events = #events{unsent = [_ | _]}} = S) ->
    S;
drain_until(Until, S0) ->
    case drain_once(fun sent_or_dropped/7, S0) of
        {_, Oldest, true, S} when Oldest =< Until -> drain_until(Until, S);
        {_, _, _, S} -> S
    end.

sent_or_dropped(_, _, _, _, 0, _, S) ->
    S;
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
                false -> kprof_agent_events:flush(S#state{state = idle})
            end
    end.
