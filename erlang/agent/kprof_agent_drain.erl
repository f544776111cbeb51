%% kprof_agent_drain - the agent's part of the native probe: brings it in, empties
%% its rings, and holds what they give to the same limits.
-module(kprof_agent_drain).

-export([probe_start/4, probe_wake/1, drain/1, drain_all/1, drain_meanwhile/1, hand_over_rings/2]).

-include("kprof_agent.hrl").

-define(DRAIN_RECORDS, 4096).   % taken from the rings at once: well below 1 ms
-define(RINGS_MS, 10).          % how often rings are looked at that fill
-define(RINGS_IDLE_MS, 15).     % and others

%% {probe, Beam, Path, MaxBytes}: from now on the tracer is kprof_probe, whose
%% library is found at Path; or all is as before.
-spec probe_start(binary(), file:filename_all(), pos_integer(), #s{}) -> {{ok, map()} | {error, term()}, #s{}}.
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
        Session = kprof_agent_patterns:session_new(S#s.session, kprof_probe:tracer()),
        self() ! drain,         % from here on nothing fails
        {{ok, kprof_probe:info()},
         S#s{probe = native, known = all, session = Session, watcher = S#s.session}}
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
%% that was us, held up, it is to be there again before anything is armed. The VM
%% takes the flags of processes that run meanwhile: they are set again.
-spec probe_wake(#s{}) -> #s{}.
probe_wake(#s{probe = native} = S) ->
    case kprof_probe:info() of
        #{active := true} -> S;
        _ ->
            kprof_probe:start(),
            kprof_agent_process_flags:flags_lost(S)
    end;
probe_wake(S) ->
    S.

%% Takes what is in the rings, again and again: at once while there is much.
-spec drain(#s{}) -> #s{}.
drain(S0) ->
    T0 = kprof_injected:now_ns(),
    {N, _, More, S} = drain_once(S0),
    if More -> self() ! drain;
       N > 0 -> erlang:send_after(?RINGS_MS, self(), drain);
       true -> erlang:send_after(?RINGS_IDLE_MS, self(), drain)
    end,
    case N of
        0 -> S;
        _ -> S#s{busy = S#s.busy + kprof_injected:now_ns() - T0}
    end.

%% {Events, TimeOfTheOldest, AreThereMore, State}
drain_once(S) ->
    drain_once(fun drained/7, S).

drain_once(Then, S0) ->
    {Now, Oldest, Waiting, Dropped, Entries, N, More, Chunks} =
        kprof_probe:drain(?DRAIN_RECORDS),
    {Lost, S} = ring_losses(Dropped, Entries, S0),
    {N, Oldest, More, Then(Lost, Now, Oldest, Waiting, N, Chunks, S)}.

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
                Busy -> kprof_agent_events:trip(Busy, Waiting, keep_definitions(Chunks, S))
            end;
        Reason ->
            kprof_agent_events:trip(Reason, Waiting, keep_definitions(Chunks, S))
    end;
drained(_, _, _, _, _, Chunks, S) ->
    keep_definitions(Chunks, S).

rings_over_limit(Lost, _, _, _) when Lost > 0 ->
    {rings_full, Lost};
rings_over_limit(_, Age, Waiting, S) ->
    kprof_agent_events:over_limit(Age, Waiting, S).

%% Nothing overtakes definitions that wait: what follows may need them.
send_chunks(_, _, _, _, #s{unsent = [_ | _]}) ->
    nosuspend;
send_chunks(Now, Waiting, N, Chunks, S) ->
    Seq = S#s.seq + 1,
    case kprof_agent_events:send({kprof_events, Seq, Now, Waiting, S#s.dropped, Chunks}, S) of
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
            kprof_agent_events:notice({kprof_events, Seq, kprof_injected:now_ns(), 0, S1#s.dropped, Kept},
                                      S1#s{seq = Seq})
    end.

%% All that is there already, sent or, when disarmed, dropped; not what comes
%% meanwhile. Each part is older than the next.
-spec drain_all(#s{}) -> #s{}.
drain_all(S) ->
    drain_all(kprof_injected:now_ns(), S).

drain_all(Until, S0) ->
    case drain_once(S0) of
        {_, Oldest, true, S} when Oldest =< Until -> drain_all(Until, S);
        {_, _, _, S} -> S
    end.

%% In the midst of a change, which is no place to trip at. What waits to be sent
%% goes first: no tick comes before the end, and nothing would overtake it. While
%% the connection takes nothing events stay in the rings, which are bounded, as
%% what would have to be kept of them here is not; they drop and count exactly.
-spec drain_meanwhile(#s{}) -> #s{}.
drain_meanwhile(S0) ->
    T0 = kprof_injected:now_ns(),
    S = drain_taken(T0, kprof_agent_events:flush_unsent(S0)),
    S#s{busy = S#s.busy + kprof_injected:now_ns() - T0}.

drain_taken(_, #s{unsent = [_ | _]} = S) ->
    S;
drain_taken(Until, S0) ->
    case drain_once(fun sent_or_dropped/7, S0) of
        {_, Oldest, true, S} when Oldest =< Until -> drain_taken(Until, S);
        {_, _, _, S} -> S
    end.

sent_or_dropped(_, _, _, _, 0, _, S) ->
    S;
sent_or_dropped(_, Now, _, Waiting, N, Chunks, S) ->
    case send_chunks(Now, Waiting, N, Chunks, S) of
        {ok, S1} -> S1;
        _ -> keep_definitions(Chunks, S)
    end.

-spec hand_over_rings(Deadline :: integer(), #s{}) -> #s{}.
hand_over_rings(Deadline, S0) ->
    case drain_once(S0) of
        {0, _, false, S} -> S;
        {_, _, _, S} ->
            case kprof_injected:now_ms() < Deadline of
                true -> hand_over_rings(Deadline, S);
                false -> kprof_agent_events:flush(S#s{state = idle})
            end
    end.
