%% kprof_tracer_rings - full traces by the native probe: loads it, and empties its rings until the
%% trace ends. For kprof_tracer, which sends the chunks instead of events of its own.
-module(kprof_tracer_rings).

-export([probe/2, tracer_of/1, legacy_tracer/1, flag_all/1, drain/1, drain_all/1]).

-import(kprof_probes, [probe_load/4, probe_purge/1]).
-import(kprof_text, [refuse/2, text/2]).
-import(kprof_tracer_end, [disarm/2]).

-include("kprof_tracer.hrl").

-define(PROBE, kprof_calls_probe).
-define(DRAIN_RECORDS, 8192).   % at once: well below a millisecond
-define(RINGS_MS, 5).
-define(RINGS_IDLE_MS, 10).     % where there was nothing

%% Returns {Probe, Why}: native, or relay with the reason if the native probe was wanted. The
%% native probe cannot trace by request, since these events are looked at in the node as they
%% come; nor arguments, which only a match spec can describe, whose message the probe does not
%% read.
probe(_, #{probe := native, args := Bytes}) when Bytes > 0 ->
    refuse("the native probe takes no arguments: -args goes with -probe relay or"
           " auto", []);
probe(ByRequest, #{probe := auto, args := Bytes} = Opts) when Bytes > 0 ->
    probe(ByRequest, Opts#{probe := relay});
probe(_, #{probe := relay}) ->
    probe_purge(?PROBE),
    {relay, <<>>};
probe(true, #{probe := native}) ->
    refuse("the native probe does not trace by request: -entry goes with -probe"
           " relay or auto", []);
probe(true, Opts) ->
    probe(true, Opts#{probe := relay});
probe(false,
      #{probe := Wanted, probe_beam := Beam, probe_library := Path, max_memory := MaxMemory}) ->
    case probe_load(?PROBE, Beam, Path, MaxMemory) of
        ok -> {native, <<>>};
        {error, Why} when Wanted =:= native ->
            refuse("the native probe cannot load '~ts': ~ts", [Path, probe_why(Why)]);
        {error, Why} -> {relay, text("cannot load '~ts': ~ts", [Path, probe_why(Why)])}
    end.

probe_why({_, Text}) when is_list(Text) -> Text;
probe_why(Why) -> io_lib:format("~0tP", [Why, 12]).

%% The tracer of this kind of probe.
tracer_of(relay) -> self();
tracer_of(native) -> ?PROBE:tracer().

%% The tracer whose flags processes have now. The sentry asks for it, too.
legacy_tracer(Server) ->
    case erlang:module_loaded(?PROBE) of
        true -> ?PROBE:tracer();
        false -> Server
    end.

%% We are not traced ourselves, since a walk leaves out its owner. The probe reads the clock
%% itself.
-spec flag_all(#state{}) -> #state{}.
flag_all(#state{probe = relay, chosen = Chosen, flags = Flags} = S) ->
    S#state{profile = kprof_oneshot:flag(Chosen, self(), Flags, S#state.profile)};
flag_all(#state{chosen = Chosen, flags = Flags} = S) ->
    S#state{profile = kprof_oneshot:flag(Chosen, ?PROBE:tracer(), Flags -- [monotonic_timestamp],
                                         S#state.profile)}.

%% Takes what is in the rings, and has itself called again: at once while there is much.
-spec drain(#state{}) -> #state{}.
drain(#state{stage = tracing} = S0) ->
    {N, More, S} = drain_once(S0),
    if More -> self() ! drain;
       N > 0 -> erlang:send_after(?RINGS_MS, self(), drain);
       true -> erlang:send_after(?RINGS_IDLE_MS, self(), drain)
    end,
    S;
drain(S) ->
    S.

%% {Events, AreThereMore, State}
drain_once(S0) ->
    {_, _, Waiting, Dropped, _, N, More, Chunks} = ?PROBE:drain(?DRAIN_RECORDS),
    S = rings_look(N + Waiting, Dropped, chunks_send(N, Chunks, S0)),
    {N, More, S#state{events = S#state.events#events{dropped = Dropped}}}.

%% Sends no more once the limit is passed; the client cuts the last chunk.
chunks_send(0, _, S) ->
    S;
chunks_send(_, _, #state{events = #events{count = Sent, max = Max}} = S) when Sent > Max ->
    S;
chunks_send(N, Chunks, #state{events = #events{seq = Seq, count = Sent}} = S0) ->
    S = kprof_tracer_events:send({kprof_calls, Seq, Chunks}, S0),
    S#state{events = S#state.events#events{seq = Seq + 1, count = Sent + N}}.

rings_look(_, _, #state{events = #events{count = N, max = Max}} = S) when N > Max ->
    disarm({events, 0}, S);
rings_look(_, Dropped, S) when Dropped > 0 -> disarm({queue, 0}, S);
rings_look(Waiting, _, #state{queue = #queue{max = Max}} = S) when Waiting > Max ->
    disarm({queue, 0}, S);
rings_look(_, _, S) -> S.

%% Sends what is left when no more events come.
-spec drain_all(#state{}) -> #state{}.
drain_all(#state{probe = relay} = S) ->
    S;
drain_all(S0) ->
    case drain_once(S0) of
        {_, true, S} -> drain_all(S);
        {N, false, S} when N > 0 -> drain_all(S);
        {_, _, S} -> kprof_tracer_events:send({kprof_calls_lost, S#state.events#events.dropped}, S)
    end.
