%% kprof_tracer_server - the tracer's process: it is started and armed, obeys the client, hands
%% on what it is told of, and takes back what it armed.
-module(kprof_tracer_server).

-export([host/0, runs/1, loop/1, begun/1, disarm/2, ended/1]).

-include("kprof_tracer.hrl").

-define(TICK_MS, 200).          % how often lease and memory are looked at
-define(OTHERS, 20).            % processes that somebody else traces
-define(BATCH_MS, 20).          % how long the first of them waits

host() ->
    #host{name = kprof_tracer, does = "traces", loaded = [kprof_calls_probe, kprof_tracer], init = fun init/3,
          legacy_tracer = fun kprof_tracer_rings:legacy_tracer/1, legacy_clear = fun kprof_tracer_patterns:legacy_clear/1}.

init(Starter, Client, #{who := Who, lease_ms := Lease, apply := Apply, apply_ms := ApplyMs, processes := Which,
                        max_memory := MaxMemory, max_events := MaxEvents, max_queue := MaxQueue, args := Args, span_ms := SpanMs} = Opts0) ->
    Host = host(),
    kprof_oneshot:take_name(Host),
    process_flag(message_queue_data, off_heap),
    process_flag(priority, high),
    Call = kprof_call:call_of(Apply),
    {Absent, Opts} = kprof_tracer_nodes:there(Opts0),
    {Entry, Must, Wanted} = kprof_tracer_limits:entry(Opts),
    {Probe, Why} = kprof_tracer_rings:probe(Entry =/= undefined, Opts),
    Session = kprof_injected:session_create(kprof_tracer, kprof_tracer_rings:tracer_of(Probe)),
    {Armed, Functions} = kprof_wanted:wanted(Wanted),
    kprof_oneshot:untraced(Session, Functions),
    Gc = collected(Session),
    Ours = ours(Session, Functions),
    S0 = #s{p = #profile{host = Host, client = Client, client_ref = erlang:monitor(process, Client),
                         sentry = kprof_oneshot:sentry_start(Host), who = Who, session = Session, lease_ms = Lease,
                         armed = kprof_tracer_loads:loads_watched(Session) ++ kprof_tracer_limits:with_entry(Must, Armed),
                         memory = kprof_oneshot:own_memory(), memory_max = MaxMemory},
            probe = Probe, loads = kprof_tracer_loads:loads_new(Functions, Wanted), ours = Ours, flags = flags(Entry, Gc, Opts),
            r = Entry, args = Args, gc = Gc, span_ms = SpanMs, events_max = MaxEvents, queue_max = MaxQueue},
    kprof_oneshot:tell_sentry(S0#s.p),
    S1 = S0#s{p = kprof_oneshot:prepared((S0#s.p)#profile{applied = kprof_call:prepare(Call, ApplyMs)})},
    Chosen = kprof_processes:chosen(kprof_processes:whose(Which, Call), Opts, (S1#s.p)#profile.applied),
    S = kprof_tracer_requests:numbered(S1#s{chosen = Chosen}),
    Foreign = kprof_processes:foreign(Session, Chosen),
    kprof_oneshot:say_begin(S#s.p),
    S2 = kprof_tracer_patterns:arm(kprof_tracer_loads:loads_watch(S#s{guards = guards(Foreign)})),
    kprof_tracer_nodes:is_alone(S2) andalso kprof_tracer_limits:entry_arm(S2),
    Starter ! {self(), #{absent => list_to_tuple(Absent), functions => length(Functions), processes => processes_in(Chosen),
                         evaluated => kprof_call:is_evaluated(Call),
                         otp => erlang:system_info(otp_release), probe => Probe, probe_why => Why, collected => Gc =/= [], skipped => map_size(Foreign),
                         offset => erlang:time_offset(nanosecond)}},
    tick(),
    loop(S2#s{p = (S2#s.p)#profile{lease_at = kprof_injected:now_ms()}, binaries = erlang:memory(binary)}).

%% On OTP 25 and 26 patterns of somebody else's have the processes that we trace
%% tell us of their functions too.
ours(legacy, Functions) -> maps:from_list([{MFA, []} || MFA <- Functions]);
ours(_, _) -> all.

%% And ours would have the processes that somebody else traces tell him of our
%% functions: these are left out one by one.
guards(Foreign) ->
    Told = [P || {P, true} <- maps:to_list(Foreign)],
    length(Told) > ?OTHERS andalso
        kprof_refusal:refuse("another tool traces calls of ~b processes, and would get these too (~ts)",
                             [length(Told), kprof_refusal:one_tracer()]),
    [{'=/=', {self}, P} || P <- Told].

processes_in(Chosen) when is_list(Chosen) -> length(Chosen);
processes_in(new) -> 0;
processes_in(_) -> erlang:system_info(process_count).

%% By request a process has the others while it works for one.
flags(undefined, Gc, #{spawned := Spawned}) ->
    Gc ++ [call, return_to, arity, running, procs, monotonic_timestamp | [set_on_spawn || Spawned]];
flags(_, _, #{spawned := Spawned}) ->
    [call, return_to, arity, monotonic_timestamp | [set_on_spawn || Spawned]].

runs(#s{gc = Gc}) ->
    {trace, [], [running, exiting | Gc]}.

%% The flag, unless somebody else may be told of the same.
collected(legacy) ->
    [garbage_collection];
collected(_) ->
    case kprof_gc_fixed:gc_shared() orelse not (collected_by_kprofd() orelse kprof_collected:collected_by_others(kprof_tracer) =/= {0, []}) of
        true -> [garbage_collection];
        false -> []
    end.

%% Before the flags are set, which may be long after they were chosen: has nobody
%% come meanwhile?
still_collected(#s{gc = []}) -> true;
still_collected(#s{p = #profile{session = Session}}) -> collected(Session) =/= [].

%% Its match specs give that to processes at any time.
collected_by_kprofd() ->
    is_pid(whereis(kprof_agent)) andalso
        case kprof_agent:status() of
            #{flags := Flags} -> lists:member(garbage_collection, Flags);
            _ -> true
        end.

%% ----------------------------------------------------------------- loop ----

-spec loop(#s{}) -> no_return().
loop(#s{n = ?BATCH} = S) ->
    loop(kprof_tracer_events:flush(S));
loop(#s{kept = [Event | More]} = S) ->
    message(Event, S#s{kept = More});
loop(#s{n = 0} = S) ->
    receive Msg -> message(Msg, S) end;
loop(S) ->
    receive Msg -> message(Msg, S)
    after ?BATCH_MS -> loop(kprof_tracer_events:flush(S))
    end.

message({trace_ts, _, return_from, ?LOADED, _, _}, S) ->
    loop(kprof_tracer_loads:loads_loaded(S));
message(loads_arm, S) ->
    loop(kprof_tracer_loads:loads_arm(S));
message({trace_ts, P, _, _, _} = Event, #s{r = #r{}} = S) ->
    loop(kprof_tracer_early:in_turn(P, Event, S));
message({trace_ts, P, call, _, _, _} = Event, #s{r = #r{}} = S) ->
    loop(kprof_tracer_early:in_turn(P, Event, S));
message({seq_trace, _, What, _} = Event, #s{r = #r{}} = S) ->
    loop(kprof_tracer_early:in_turn(kprof_tracer_requests:passed_by(What), Event, kprof_tracer_events:pass_over(?LARGE, S)));
message(Over, S) when Over =:= requests_ended; Over =:= span_over ->
    loop(disarm({returned, 0}, S));
message({trace_ts, _, call, _, _, _} = Event, #s{ours = all} = S) -> loop(kprof_tracer_events:add(Event, S));
message({trace_ts, _, call, MFA, _, _} = Event, #s{ours = Ours} = S) when is_map_key(MFA, Ours) -> loop(kprof_tracer_events:add(Event, S));
message({trace_ts, P, spawn, Child, {M, F, Args}, Ts}, S) when node(Child) =:= node(), is_list(Args) ->
    loop(kprof_tracer_events:add({trace_ts, P, spawn, Child, {M, F, length(Args)}, Ts}, kprof_tracer_events:pass_over(?LARGE, S)));
message({trace_ts, _, _, _, _} = Event, S) ->
    loop(kprof_tracer_events:add_short(Event, S));
message({walk, Walk, {walked, _, _, _}}, S) ->
    loop(flagged(Walk, S));
message(drain, S) ->
    loop(kprof_tracer_rings:drain(S));
message({kprof, Client, _, Cmd}, #s{p = #profile{client = Client}} = S) ->
    loop(command(Cmd, S#s{p = (S#s.p)#profile{lease_at = kprof_injected:now_ms()}}));
message({held_no_more, Ps}, S) ->
    loop(kprof_tracer_limits:held_no_more(Ps, S));
message(tick, S) ->
    tick(),
    kprof_tracer_limits:held_look(S),
    look(kprof_tracer_early:early_look(kprof_tracer_loads:loads_tick(S)));
message({trace_delivered, _, Ref}, #s{delivered = Ref} = S) ->
    kprof_tracer_sweep:sweep(kprof_tracer_rings:drain_all(kprof_tracer_events:flush(kprof_tracer_limits:released_all(kprof_tracer_early:early_end(S)))));
message(swept, S) ->
    loop(ended(S));
message({evaluated, Pid}, #s{p = #profile{applied = {Pid, _, _}}, stage = tracing} = S) ->
    loop(evaluated(disarm({returned, 0}, S)));
message({'DOWN', Ref, process, _, Reason}, #s{p = #profile{applied = {_, Ref, _}}} = S) ->
    S1 = S#s{p = (S#s.p)#profile{applied = done}},
    kprof_oneshot:tell_sentry(S1#s.p),
    [{kprof_ended, Outcome, Text}] = kprof_call:outcome(Reason, (S#s.p)#profile.applied),
    loop(disarm({Outcome, Text}, S1));
message({overran, Ref}, #s{p = #profile{applied = {Pid, Ref, _}}} = S) ->
    exit(Pid, kill),
    loop(S#s{p = (S#s.p)#profile{applied = {Pid, Ref, overran}}});
message({'DOWN', Ref, process, _, Reason}, #s{p = #profile{client_ref = Ref}} = S) ->
    kprof_oneshot:finish({gone, Reason}, S#s.p);
message({'DOWN', Ref, process, _, _}, #s{r = #r{kprofd = Ref}} = S) ->
    loop(disarm({returned, <<"the kprofd there, which marks requests, has gone">>}, S));
message({'DOWN', Ref, process, _, _}, #s{p = #profile{sentry = {_, Ref}}} = S) ->
    loop(S#s{p = kprof_oneshot:new_sentry(S#s.p)});
message({'DOWN', _, process, Pid, _}, S) ->
    loop(S#s{p = kprof_oneshot:walk_over(Pid, S#s.p)});
message({kprof_tracer, stop}, S) ->
    kprof_oneshot:finish(stopped, S#s.p);
message(_, S) ->
    loop(kprof_tracer_events:pass_over(?LARGE, S)).

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

look(#s{p = #profile{memory = Memory, memory_max = Max}, stage = tracing} = S) ->
    {memory, Own} = process_info(self(), memory),
    {Kept, S1} = kept_binaries(S),
    case kprof_oneshot:own_memory() - Memory + Own + Kept of
        More when More > Max -> loop(disarm({memory, 0}, S1));
        _ -> loop(S1#s{p = kprof_oneshot:look_lease(S1#s.p)})
    end;
look(S) ->
    loop(S#s{p = kprof_oneshot:look_lease(S#s.p)}).

%% Small ones among arguments may be parts of large ones, which are kept as long as
%% they wait here. What there was when few waited was not kept by us.
kept_binaries(#s{args = 0} = S) ->
    {0, S};
kept_binaries(S) ->
    Now = erlang:memory(binary),
    case process_info(self(), message_queue_len) of
        {_, N} when N > ?BATCH -> {max(0, Now - S#s.binaries), S};
        _ -> {0, S#s{binaries = Now}}
    end.

command(go, #s{stage = ready} = S0) ->
    still_collected(S0) orelse kprof_oneshot:finish(collected, S0#s.p),
    S = kprof_tracer_rings:flag_all(kprof_tracer_span:span_ready(S0#s{stage = tracing})),
    S#s.probe =:= native andalso (self() ! drain),
    S;
%% It began in another node. That of a label nobody has seen here yet may come.
command({ended, Label}, #s{r = #r{}} = S) ->
    kprof_tracer_nodes:ended_elsewhere(Label, S);
command(entries, #s{stage = tracing} = S) ->
    kprof_tracer_nodes:is_alone(S) orelse kprof_tracer_limits:entry_arm(S),
    kprof_tracer_events:send({kprof_entries}, S);
%% The other nodes would tell of each that begins.
command(full, #s{stage = tracing, r = #r{}} = S) ->
    kprof_tracer_requests:entry_full(S),
    S;
command(clock, S) ->
    kprof_tracer_events:send({kprof_clock, kprof_injected:now_ns()}, S);
command(read, #s{stage = tracing} = S) ->
    disarm({returned, 0}, S);
command(marked, #s{r = #r{entries = Entries, marks = Marks, inside = Inside}} = S) ->
    kprof_tracer_events:send({kprof_marked, maps:keys(Entries), Marks, Inside}, S);
command({specs, Specs}, #s{stage = ready, r = #r{}} = S) ->
    kprof_tracer_limits:named_arm(Specs, S);
command({identity, Id, IsWanted}, #s{r = #r{}} = S0) ->
    S = kprof_tracer_limits:answered(Id, IsWanted, S0),
    case S#s.delivered of
        all -> ended(S);
        _ -> S
    end;
command(stop, S) ->
    kprof_oneshot:finish(done, S#s.p);
command(_, S) ->
    S.

%% All processes that were to be have their flags, but for those in native code; of
%% some events may have come by now.
flagged(Walk, #s{p = #profile{walk = Ours}, stage = tracing} = S0) when not is_atom(Ours) ->
    case kprof_flagger:walk_pid(Ours) of
        Walk ->
            S = begun(S0),
            kprof_tracer_span:span_begin(S),
            case (S#s.p)#profile.applied of
                {Pid, Ref, Ms} ->
                    erlang:send_after(Ms, self(), {overran, Ref}),
                    Pid ! go;
                _ -> ok
            end,
            S;
        _ -> S0
    end;
flagged(_, S) ->
    S.

%% The first message, without events, says that it traces.
-spec begun(#s{}) -> #s{}.
begun(#s{seq = 0} = S) -> kprof_tracer_events:send({kprof_calls, 0, []}, S#s{seq = 1});
begun(S) -> S.

%% ------------------------------------------------------------------ end ----

%% From now on no event is made; those that were, are still to come.
-spec disarm(Why :: {atom(), term()}, #s{}) -> #s{}.
disarm(Why, #s{stage = tracing} = S) ->
    kprof_tracer_requests:is_told() andalso seq_trace:set_system_tracer(false),
    unarm(S#s{stage = draining, why = Why, r = kprof_tracer_sweep:swept(S)});
disarm(_, S) ->
    S.

%% Its process makes a text of what the call gave, which nobody traces any more.
evaluated(#s{p = #profile{applied = {Pid, Ref, _} = Applied}} = S0) ->
    kprof_call:tell_value(Applied),
    Reason = receive {'DOWN', Ref, process, _, Why} -> Why
             after ?VALUE_MS -> exit(Pid, kill), overran
             end,
    S = S0#s{p = (S0#s.p)#profile{applied = done}},
    kprof_oneshot:tell_sentry(S#s.p),
    lists:foldl(fun({kprof_ended, Outcome, Text}, S1) -> S1#s{why = {Outcome, Text}};
                   (Value, S1) -> kprof_tracer_events:send(Value, S1)
                end, S, kprof_call:outcome(Reason, Applied)).

%% The client says when it has had enough. First it says what is wanted of what
%% has been sent.
-spec ended(#s{}) -> #s{}.
ended(#s{r = R} = S) when is_record(R, r) ->
    case kprof_tracer_limits:is_asked(R) of
        true -> S#s{delivered = all};
        false -> all_sent(S)
    end;
ended(S) ->
    all_sent(S).

all_sent(#s{why = {Why, Text}} = S0) ->
    S = kprof_tracer_loads:loads_send(S0),
    {Begun, Ended} = case S#s.r of
                         undefined -> {0, 0};
                         R -> {R#r.begun, R#r.ended}
                     end,
    kprof_tracer_events:send({kprof_calls_end, Why, Text, kprof_oneshot:names(), Begun, Ended}, S).

%% What comes when all events have come. To destroy a session takes 2 to 15 ms at
%% 200,000 processes and stops nobody; another one is for tokens that are taken
%% back.
unarm(#s{p = #profile{session = legacy}, probe = relay} = S0) ->
    kprof_oneshot:unflag(S0#s.p),
    S = lists:foldl(fun(P, S1) -> kprof_tracer_patterns:legacy_clear(P), hush(S1) end, hush(S0), (S0#s.p)#profile.armed),
    _ = kprof_flagger:flags_clear(legacy, self(), ?CLEAR_MS),
    unarmed(S);
unarm(#s{p = #profile{session = legacy}} = S) ->
    kprof_oneshot:clear(S#s.p),
    unarmed(S);
unarm(#s{probe = Probe} = S) ->
    kprof_tracer_loads:loads_end(S),
    kprof_oneshot:clear(S#s.p),
    Session = kprof_injected:session_create(kprof_tracer, kprof_tracer_rings:tracer_of(Probe)),
    S#s{p = (S#s.p)#profile{session = Session, armed = [], walk = cleared}, delivered = trace:delivered(Session, all)}.

unarmed(S) ->
    S#s{p = (S#s.p)#profile{armed = [], walk = cleared}, delivered = erlang:trace_delivered(all)}.

%% A walk, and patterns, take their time where many processes want to run, and what
%% waits for us grows by a million events a second meanwhile. Whoever made one that
%% waits has run Erlang code just now, and loses its flags at once; events are kept,
%% in order.
hush(S) -> hush(#{}, [], S).

hush(Hushed, Kept, S) ->
    receive
        Event when element(1, Event) =:= trace_ts, is_map_key(element(2, Event), Hushed) ->
            hush(Hushed, [Event | Kept], S);
        Event when element(1, Event) =:= trace_ts ->
            P = element(2, Event),
            _ = try erlang:trace(P, false, [{tracer, self()}, all]) catch error:_ -> gone end,
            hush(Hushed#{P => []}, [Event | Kept], S)
    after 0 ->
            S#s{kept = S#s.kept ++ lists:reverse(Kept)}
    end.
