%% kprof_tracer_events - events on their way to the client, in batches, within limits; with the
%% native probe as chunks of its rings.
-module(kprof_tracer_events).

-export([call/2, in_request/3, add_short/2, add/2, flush/1, pass_over/2, send/2, probe/2,
         tracer_of/1, legacy_tracer/1, flag_all/1, drain/1, drain_all/1]).

-import(kprof_injected, [now_ms/0]).
-import(kprof_oneshot, [send_try/4]).
-import(kprof_probes, [probe_load/4, probe_purge/1]).
-import(kprof_text, [refuse/2, text/2]).
-import(kprof_tracer_early, [early_over/2]).
-import(kprof_tracer_end, [disarm/2]).
-import(kprof_tracer_limits, [is_held/2]).
-import(kprof_tracer_owner, [runs_on/2]).
-import(kprof_tracer_requests, [called_in/7, tell_news/1]).

-include("kprof_tracer.hrl").

-define(RETRY_MS, 5).           % between two tries where the connection takes nothing
-define(WEIGH_MS, 1000).

-define(PROBE, kprof_calls_probe).
-define(DRAIN_RECORDS, 8192).   % at once: well below a millisecond
-define(RINGS_MS, 5).
-define(RINGS_IDLE_MS, 10).     % where there was nothing

%% By request: a call of an entry, or of another function.
-spec call(tuple(), #state{}) -> #state{}.
call({_, P, call, MFA, X, Ts}, S) ->
    case X of
        {entry, From} -> kprof_tracer_requests:passes(P, From, Ts, S);
        {entry, New, _, Old, From} -> begun(P, New, Old, From, [], MFA, Ts, S);
        {_, _, 1, false, _, [], _} -> kprof_tracer_requests:leaves(P, Ts, S);
        {Identity, Caller, 1, New, _, [], Old} ->
            begun(P, New, Old, Caller, Identity, MFA, Ts, S);
        {Identity, Token, Caller} ->
            called_in(P, Token, Caller, Identity, MFA, Ts, S);
        {Token, From} -> called_in(P, Token, From, [], MFA, Ts, S);
        _ -> pass_over(1, S)
    end.

begun(P, New, Old, From, Identity, MFA, Ts, S0) ->
    Label = kprof_tracer_requests:label(New),
    OldLabel = kprof_tracer_requests:label(Old),
    S = kprof_tracer_requests:begins(P, Label, OldLabel, From, Identity, MFA, Ts, S0),
    early_over(Label, S).

%% An event of a process that works, or has worked, for one of the requests, or is inside an entry.
-spec in_request(pid(), tuple(), #state{}) -> #state{}.
in_request(P, Event, #state{requests = #requests{working = At}} = S) when is_map_key(P, At) ->
    over_when(P, Event, add_short(Event, S));
in_request(P, Event, S) ->
    case is_held(P, S) of
        true -> kprof_tracer_limits:hold(P, Event, S);
        false -> over_when(P, Event, pass_over(1, S))
    end.

over_when(P, {_, _, return_to, MFA, _}, S) -> kprof_tracer_requests:returned(P, MFA, S);
over_when(P, {_, _, in, _, _}, S) -> runs_on(P, S);
over_when(P, {_, _, out_exited, _, _}, S) -> kprof_tracer_requests:gone(P, S);
over_when(P, {_, _, out, {kprof_tracer, told, _}, _}, S) -> kprof_tracer_requests:gone(P, S);
over_when(_, _, S) -> S.

%% Adds an event without what may be large in it.
-spec add_short(tuple(), #state{}) -> #state{}.
add_short({_, _, out_exited, _, _}, #state{requests = undefined} = S) ->
    pass_over(1, S);                    % the exit was reported before
add_short({_, P, What, Where, Ts} = Event, S) ->
    case kind(What) of
        same -> add(Event, S);
        none -> pass_over(1, S);
        exit -> add({trace_ts, P, exit, 0, Ts}, pass_over(?LARGE, S));
        Kind when Kind =:= in; Kind =:= out -> add({trace_ts, P, Kind, Where, Ts}, S);
        Kind -> add({trace_ts, P, Kind, 0, Ts}, S)
    end.

kind(return_to) -> same;
kind(in) -> same;
kind(out) -> same;
kind(in_exiting) -> in;
kind(out_exiting) -> out;
kind(gc_minor_start) -> gc_start;
kind(gc_major_start) -> gc_start;
kind(gc_minor_end) -> gc_end;
kind(gc_major_end) -> gc_end;
kind(exit) -> exit;
kind(out_exited) -> exit;
kind(_) -> none.

-spec add(tuple(), #state{}) -> #state{}.
add(Event, #state{events = #events{count = N, max = Max}} = S) when N < Max ->
    S#state{events = S#state.events#events{batch = [Event | S#state.events#events.batch],
                                           n = S#state.events#events.n + 1, count = N + 1}};
add(_, S) -> disarm({events, 0}, S).

flush(#state{stage = Stage, events = #events{seq = 0}} = S) when Stage =/= ready ->
    flush(kprof_tracer_server:begun(S));
flush(#state{events = #events{n = 0}} = S) -> tell_news(S);
flush(#state{events = #events{batch = Batch, seq = Seq}} = S0) ->
    S = send({kprof_calls, Seq, lists:reverse(Batch)}, queue(tell_news(S0))),
    S#state{events = S#state.events#events{batch = [], n = 0, seq = Seq + 1}}.

%% Counts messages that are in no batch. They arrive as fast as others and may be large, but fill
%% no batch that would have the queue checked. Checking takes time in proportion to the queue.
-spec pass_over(pos_integer(), #state{}) -> #state{}.
pass_over(Size, #state{queue = #queue{passed_over = N}} = S) when N < ?BATCH ->
    S#state{queue = S#state.queue#queue{passed_over = N + Size}};
pass_over(_, S) -> queue(S#state{queue = S#state.queue#queue{passed_over = 0}}).

%% Switches tracing off if the queue is too long. Its length is known; the VM adds up its memory
%% message by message, so that is asked when there are a quarter more, and once a second.
queue(#state{stage = tracing, queue = #queue{max = Max, weighed = {Most, At}}} = S) ->
    case process_info(self(), message_queue_len) of
        {_, N} when N > Max -> disarm({queue, 0}, S);
        {_, N} when N > Most -> weigh(N, now_ms(), S);
        {_, N} ->
            case now_ms() of
                Now when Now > At -> weigh(N, Now, S);
                _ -> S
            end
    end;
queue(S) -> S.

weigh(N, Now, #state{profile = #profile{memory_max = Max}} = S) ->
    case process_info(self(), memory) of
        {_, Own} when Own > Max -> disarm({memory, 0}, S);
        _ -> S#state{queue = S#state.queue#queue{weighed = {N + N div 4, Now + ?WEIGH_MS}}}
    end.

%% Waits while the connection is busy, and checks the queue meanwhile.
-spec send(tuple(), #state{}) -> #state{}.
send(Msg, S) ->
    send(Msg, now_ms() + S#state.profile#profile.lease_ms, S).

send(Msg, Deadline, S) ->
    case send_try(Msg, Deadline, ?RETRY_MS, S#state.profile) of
        ok -> S;
        busy -> send(Msg, Deadline, queue(S))
    end.

%% ---------------------------------------------------------- the native probe ----

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
probe(true, Opts) -> probe(true, Opts#{probe := relay});
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
flag_all(#state{probe = relay, chosen = Chosen, flags = Flags} = S) ->
    S#state{profile = kprof_oneshot:flag(Chosen, self(), Flags, S#state.profile)};
flag_all(#state{chosen = Chosen, flags = Flags} = S) ->
    S#state{profile = kprof_oneshot:flag(Chosen, ?PROBE:tracer(), Flags -- [monotonic_timestamp],
                                         S#state.profile)}.

%% Takes what is in the rings, and has itself called again: at once while there is much.
drain(#state{stage = tracing} = S0) ->
    {N, More, S} = drain_once(S0),
    if More -> self() ! drain;
       N > 0 -> erlang:send_after(?RINGS_MS, self(), drain);
       true -> erlang:send_after(?RINGS_IDLE_MS, self(), drain)
    end,
    S;
drain(S) -> S.

%% {Events, AreThereMore, State}
drain_once(S0) ->
    {_, _, Waiting, Dropped, _, N, More, Chunks} = ?PROBE:drain(?DRAIN_RECORDS),
    S = rings_look(N + Waiting, Dropped, chunks_send(N, Chunks, S0)),
    {N, More, S#state{events = S#state.events#events{dropped = Dropped}}}.

%% Sends no more once the limit is passed; the client cuts the last chunk.
chunks_send(0, _, S) -> S;
chunks_send(_, _, #state{events = #events{count = Sent, max = Max}} = S) when Sent > Max -> S;
chunks_send(N, Chunks, #state{events = #events{seq = Seq, count = Sent}} = S0) ->
    S = send({kprof_calls, Seq, Chunks}, S0),
    S#state{events = S#state.events#events{seq = Seq + 1, count = Sent + N}}.

rings_look(_, _, #state{events = #events{count = N, max = Max}} = S) when N > Max ->
    disarm({events, 0}, S);
rings_look(_, Dropped, S) when Dropped > 0 -> disarm({queue, 0}, S);
rings_look(Waiting, _, #state{queue = #queue{max = Max}} = S) when Waiting > Max ->
    disarm({queue, 0}, S);
rings_look(_, _, S) -> S.

%% Sends what is left when no more events come.
drain_all(#state{probe = relay} = S) -> S;
drain_all(S0) ->
    case drain_once(S0) of
        {_, true, S} -> drain_all(S);
        {N, false, S} when N > 0 -> drain_all(S);
        {_, _, S} -> send({kprof_calls_lost, S#state.events#events.dropped}, S)
    end.
