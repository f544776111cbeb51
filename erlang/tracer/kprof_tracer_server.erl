%% kprof_tracer_server - the tracer's process: it arms the functions, obeys the client, passes on
%% events, and takes back what it armed.
-module(kprof_tracer_server).

-export([host/0, runs/1, loop/1, begun/1, disarm/2, ended/1]).

-import(kprof_call, [call_of/1, is_evaluated/1, tell_value/1]).
-import(kprof_collected, [collected_by_others/1]).
-import(kprof_flagger, [flags_clear/3, walk_pid/1]).
-import(kprof_injected, [now_ms/0, now_ns/0, session_create/2]).
-import(kprof_oneshot, [look_lease/1, new_sentry/1, own_memory/0, profile_new/5, say_begin/1,
         take_name/1, tell_sentry/1, walk_over/2]).
-import(kprof_refusal, [one_tracer/0, refuse/2]).
-import(kprof_tracer_early, [early_end/1, early_look/1, in_turn/3]).
-import(kprof_tracer_events, [add_short/2, pass_over/2]).
-import(kprof_tracer_limits, [entry_arm/1, held_look/1, held_no_more/2, is_asked/1, named_arm/2,
         released_all/1, with_entry/2]).
-import(kprof_tracer_loads, [loads_ahead/1, loads_arm/1, loads_end/1, loads_last/1, loads_loaded/1,
         loads_new/2, loads_send/1, loads_tick/1, loads_watch/1, loads_watched/1]).
-import(kprof_tracer_nodes, [ended_elsewhere/2, is_alone/1]).
-import(kprof_tracer_owner, [messages_look/1]).
-import(kprof_tracer_requests, [full_look/1, full_soon/1, passed_by/1, warm_look/1, word_tick/1]).
-import(kprof_tracer_rings, [drain_all/1, flag_all/1, tracer_of/1]).
-import(kprof_tracer_span, [span_begin/1, span_ready/1]).
-import(kprof_vm_bugs, [gc_shared/0]).

-include("kprof_tracer.hrl").

-define(TICK_MS, 200).          % interval of the checks of lease and memory
-define(OTHERS, 20).            % processes that somebody else traces, and that guards leave out
-define(BATCH_MS, 20).          % longest wait for a batch to fill

host() ->
    #host{name = kprof_tracer, does = "traces", loaded = [kprof_calls_probe, kprof_tracer],
          init = fun init/3,
          legacy_tracer = fun kprof_tracer_rings:legacy_tracer/1,
          legacy_clear = fun kprof_tracer_patterns:legacy_clear/1}.

init(Starter, Client, #{apply := Apply, apply_ms := ApplyMs, processes := Which, args := Args,
                        max_events := MaxEvents, max_queue := MaxQueue,
                        span_ms := SpanMs} = Opts0) ->
    take_name(host()),
    process_flag(message_queue_data, off_heap),
    process_flag(priority, high),
    Call = call_of(Apply),
    {Absent, Opts} = kprof_tracer_nodes:there(Opts0),
    {Entry, Must, Wanted} = kprof_tracer_limits:entry(Opts),
    {Probe, Why} = kprof_tracer_rings:probe(Entry =/= undefined, Opts),
    Session = session_create(kprof_tracer, tracer_of(Probe)),
    {Armed, Functions} = kprof_wanted:wanted(Wanted),
    kprof_oneshot:untraced(Session, Functions),
    Gc = collected(Session),
    Ours = ours(Session, Functions),
    ToArm = loads_watched(Session) ++
        with_entry(Must, Armed),
    S0 = #s{profile = profile_new(host(), Client, Session, ToArm, Opts),
            probe = Probe, loads = loads_new(Functions, Wanted), ours = Ours,
            flags = flags(Entry, Gc, Opts), requests = Entry, args_max = Args, gc = Gc,
            span_ms = SpanMs, events = #events{max = MaxEvents}, queue = #queue{max = MaxQueue}},
    tell_sentry(S0#s.profile),
    Applied = kprof_call:prepare(Call, ApplyMs),
    S1 = S0#s{profile = kprof_oneshot:prepared(S0#s.profile#profile{applied = Applied})},
    Chosen = kprof_processes:chosen(kprof_processes:whose(Which, Call), Opts, Applied),
    S = kprof_tracer_requests:numbered(S1#s{chosen = Chosen}),
    Foreign = kprof_processes:foreign(Session, Chosen),
    say_begin(S#s.profile),
    Watched = loads_watch(S#s{guards = guards(Foreign)}),
    S2 = kprof_tracer_patterns:arm(loads_ahead(Watched)),
    is_alone(S2) andalso entry_arm(S2),
    Starter ! {self(),
               #{absent => list_to_tuple(Absent), functions => length(Functions),
                 processes => processes_in(Chosen),
                 evaluated => is_evaluated(Call),
                 otp => erlang:system_info(otp_release), probe => Probe, probe_why => Why,
                 collected => Gc =/= [], skipped => map_size(Foreign),
                 offset => erlang:time_offset(nanosecond)}},
    tick(),
    loop(S2#s{profile = S2#s.profile#profile{lease_at = now_ms()},
              queue = S2#s.queue#queue{binaries = erlang:memory(binary)}}).

%% On OTP 25 and 26 the processes that we trace also send us events of somebody else's patterns.
ours(legacy, Functions) -> maps:from_list([{MFA, []} || MFA <- Functions]);
ours(_, _) -> all.

%% In the same way, processes that somebody else traces would send them our events: guards leave
%% these processes out one by one.
guards(Foreign) ->
    Told = [P || {P, true} <- maps:to_list(Foreign)],
    length(Told) > ?OTHERS andalso
        refuse("another tool traces calls of ~b processes, and would get these too"
               " (~ts)",
               [length(Told), one_tracer()]),
    [{'=/=', {self}, P} || P <- Told].

processes_in(Chosen) when is_list(Chosen) -> length(Chosen);
processes_in(new) -> 0;
processes_in(_) -> erlang:system_info(process_count).

%% By request, match specs give a process the other flags while it works for a request.
flags(undefined, Gc, #{spawned := Spawned}) ->
    Gc ++ [call, return_to, arity, running, procs, monotonic_timestamp | [set_on_spawn || Spawned]];
flags(_, _, #{spawned := Spawned}) ->
    [call, return_to, arity, monotonic_timestamp | [set_on_spawn || Spawned]].

runs(#s{gc = Gc}) ->
    {trace, [], [running, exiting | Gc]}.

%% The flag for garbage collection, unless somebody else may trace that too.
collected(legacy) ->
    [garbage_collection];
collected(_) ->
    case gc_shared() orelse
        not (collected_by_kprofd() orelse
             collected_by_others(kprof_tracer) =/= {0, []}) of
        true -> [garbage_collection];
        false -> []
    end.

%% Before the flags are set, which may be long after they were chosen: has another tracer come
%% meanwhile?
still_collected(#s{gc = []}) -> true;
still_collected(#s{profile = #profile{session = Session}}) -> collected(Session) =/= [].

%% A kprofd's match specs give that flag to processes at any time.
collected_by_kprofd() ->
    is_pid(whereis(kprof_agent)) andalso
        case kprof_agent:status() of
            #{flags := Flags} -> lists:member(garbage_collection, Flags);
            _ -> true
        end.

%% ----------------------------------------------------------------- loop ----

-spec loop(#s{}) -> no_return().
%% One message may have released many events that waited.
loop(#s{events = #events{n = N}} = S) when N >= ?BATCH ->
    loop(kprof_tracer_events:flush(S));
loop(#s{events = #events{kept = [Event | More]}} = S) ->
    message(Event, S#s{events = S#s.events#events{kept = More}});
loop(#s{events = #events{n = 0}} = S) ->
    receive Msg -> message(Msg, S) end;
loop(S) ->
    receive Msg -> message(Msg, S)
    after ?BATCH_MS -> loop(kprof_tracer_events:flush(S))
    end.

message({trace_ts, _, return_from, ?LOADED, _, _}, S) ->
    loop(loads_loaded(S));
message(loads_arm, S) ->
    loop(loads_arm(S));
message({trace_ts, P, _, _, _} = Event, #s{requests = #requests{}} = S) ->
    loop(in_turn(P, Event, S));
message({trace_ts, P, call, _, _, _} = Event, #s{requests = #requests{}} = S) ->
    loop(in_turn(P, Event, S));
message({seq_trace, _, What, _} = Event, #s{requests = #requests{}} = S) ->
    loop(in_turn(passed_by(What), Event,
                 pass_over(?LARGE, S)));
message(Over, S) when Over =:= requests_ended; Over =:= span_over ->
    loop(disarm({returned, 0}, S));
message({trace_ts, _, call, _, _, _} = Event, #s{ours = all} = S) ->
    loop(kprof_tracer_events:add(Event, S));
message({trace_ts, _, call, MFA, _, _} = Event, #s{ours = Ours} = S) when is_map_key(MFA, Ours) ->
    loop(kprof_tracer_events:add(Event, S));
message({trace_ts, P, spawn, Child, {M, F, Args}, Ts}, S) when node(Child) =:= node(),
is_list(Args) ->
    loop(kprof_tracer_events:add({trace_ts, P, spawn, Child, {M, F, length(Args)}, Ts},
                                 pass_over(?LARGE, S)));
message({trace_ts, _, _, _, _} = Event, S) ->
    loop(add_short(Event, S));
message({walk, Walk, {walked, _, _, _}}, S) ->
    loop(flagged(Walk, S));
message(drain, S) ->
    loop(kprof_tracer_rings:drain(S));
message({kprof, Client, _, Cmd}, #s{profile = #profile{client = Client}} = S) ->
    loop(command(Cmd, S#s{profile = S#s.profile#profile{lease_at = now_ms()}}));
message({warm, busy}, #s{stage = tracing, requests = R} = S) ->
    loop(warmed(warm_look(S#s{requests = R#requests{warm = quiet}})));
message({warm, quiet}, #s{stage = tracing} = S) ->
    loop(warmed(warm_look(S)));
message({held_no_more, Ps}, S) ->
    loop(held_no_more(Ps, S));
message(tick, S0) ->
    tick(),
    S = word_tick(S0),
    held_look(S),
    S1 = early_look(loads_tick(S)),
    look(full_look(messages_look(S1)));
message({trace_delivered, _, Ref}, #s{delivered = Ref} = S) ->
    S1 = released_all(early_end(S)),
    kprof_tracer_sweep:sweep(drain_all(kprof_tracer_events:flush(S1)));
message(swept, S) ->
    loop(ended(S));
message({evaluated, Pid}, #s{profile = #profile{applied = {Pid, _, _}}, stage = tracing} = S) ->
    loop(evaluated(disarm({returned, 0}, S)));
message({'DOWN', Ref, process, _, Reason}, #s{profile = #profile{applied = {_, Ref, _}}} = S) ->
    S1 = S#s{profile = S#s.profile#profile{applied = done}},
    tell_sentry(S1#s.profile),
    [{kprof_ended, Outcome, Text}] = kprof_call:outcome(Reason, S#s.profile#profile.applied),
    loop(disarm({Outcome, Text}, S1));
message({overran, Ref}, #s{profile = #profile{applied = {Pid, Ref, _}}} = S) ->
    exit(Pid, kill),
    loop(S#s{profile = S#s.profile#profile{applied = {Pid, Ref, overran}}});
message({'DOWN', Ref, process, _, Reason}, #s{profile = #profile{client_ref = Ref}} = S) ->
    kprof_oneshot:finish({gone, Reason}, S#s.profile);
message({'DOWN', Ref, process, _, _}, #s{requests = #requests{kprofd = Ref}} = S) ->
    loop(disarm({returned, <<"the kprofd there, which marks requests, has gone">>}, S));
message({'DOWN', Ref, process, _, _}, #s{profile = #profile{sentry = {_, Ref}}} = S) ->
    loop(S#s{profile = new_sentry(S#s.profile)});
message({'DOWN', _, process, Pid, _}, S) ->
    loop(S#s{profile = walk_over(Pid, S#s.profile)});
message({kprof_tracer, stop}, S) ->
    kprof_oneshot:finish(stopped, S#s.profile);
message(_, S) ->
    loop(pass_over(?LARGE, S)).

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

look(#s{profile = #profile{memory = Memory, memory_max = Max}, stage = tracing} = S) ->
    {memory, Own} = process_info(self(), memory),
    {Kept, S1} = kept_binaries(S),
    case own_memory() - Memory + Own + Kept of
        More when More > Max -> loop(disarm({memory, 0}, S1));
        _ -> loop(S1#s{profile = look_lease(S1#s.profile)})
    end;
look(S) ->
    loop(S#s{profile = look_lease(S#s.profile)}).

%% A small binary among arguments may be part of a large one, which is kept as long as the small
%% one waits here. Binaries that existed when few events waited were not kept by us.
kept_binaries(#s{args_max = 0} = S) ->
    {0, S};
kept_binaries(S) ->
    Now = erlang:memory(binary),
    case process_info(self(), message_queue_len) of
        {_, N} when N > ?BATCH -> {max(0, Now - S#s.queue#queue.binaries), S};
        _ -> {0, S#s{queue = S#s.queue#queue{binaries = Now}}}
    end.

command(go, #s{stage = ready} = S0) ->
    still_collected(S0) orelse kprof_oneshot:finish(collected, S0#s.profile),
    S = flag_all(span_ready(S0#s{stage = tracing})),
    S#s.probe =:= native andalso (self() ! drain),
    S;
%% The request began in another node. Its label may not have been seen here yet.
command({ended, Label}, #s{requests = #requests{}} = S) ->
    ended_elsewhere(Label, S);
command(entries, #s{stage = tracing} = S0) ->
    is_alone(S0) orelse entry_arm(S0),
    warmed(kprof_tracer_requests:warm(S0));
%% With several nodes, the others would report each request that begins.
command(full, #s{stage = tracing, requests = #requests{}} = S) ->
    full_soon(S);
command(clock, S) ->
    kprof_tracer_events:send({kprof_clock, now_ns()}, S);
command(read, #s{stage = tracing} = S) ->
    disarm({returned, 0}, S);
command(marked, #s{requests = #requests{entries = Entries, marks = Marks, inside = Inside}} = S) ->
    kprof_tracer_events:send({kprof_marked, maps:keys(Entries), Marks, Inside}, S);
command({specs, Specs}, #s{stage = ready, requests = #requests{}} = S) ->
    named_arm(Specs, S);
command({identity, Id, IsWanted}, #s{requests = #requests{}} = S0) ->
    S = kprof_tracer_limits:answered(Id, IsWanted, S0),
    case S#s.delivered of
        all -> ended(S);
        _ -> S
    end;
command(stop, S) ->
    kprof_oneshot:finish(done, S#s.profile);
command(_, S) ->
    S.

%% All chosen processes have their flags now, except those in native code; events may have come
%% already.
flagged(Walk, #s{profile = #profile{walk = Ours}, stage = tracing} = S0) when not is_atom(Ours) ->
    case walk_pid(Ours) of
        Walk ->
            case is_alone(S0) of
                true -> warmed(kprof_tracer_requests:warm(S0));
                false -> warmed({false, S0})
            end;
        _ -> S0
    end;
flagged(_, S) ->
    S.

%% With several nodes the client learns once more, when entries mark requests.
warmed({true, S}) ->
    S;
warmed({false, #s{events = #events{seq = 0}} = S0}) ->
    S = begun(S0),
    span_begin(S),
    case S#s.profile#profile.applied of
        {Pid, Ref, Ms} ->
            erlang:send_after(Ms, self(), {overran, Ref}),
            Pid ! go;
        _ -> ok
    end,
    S;
warmed({false, S}) ->
    kprof_tracer_events:send({kprof_entries}, S).

%% The first message, without events, tells the client that tracing is on.
-spec begun(#s{}) -> #s{}.
begun(#s{events = #events{seq = 0}} = S) ->
    kprof_tracer_events:send({kprof_calls, 0, []}, S#s{events = S#s.events#events{seq = 1}});
begun(S) -> S.

%% ------------------------------------------------------------------ end ----

%% From now on no event is made; earlier ones are still to come.
-spec disarm(Why :: {atom(), term()}, #s{}) -> #s{}.
disarm(Why, #s{stage = tracing} = S0) ->
    S = loads_last(S0),
    unarm(S#s{stage = draining, why = Why,
              requests = kprof_tracer_requests:ends(kprof_tracer_sweep:swept(S))});
disarm(_, S) ->
    S.

%% The process of the call, which nobody traces any more, makes a text of its result.
evaluated(#s{profile = #profile{applied = {Pid, Ref, _} = Applied}} = S0) ->
    tell_value(Applied),
    Reason = receive {'DOWN', Ref, process, _, Why} -> Why
             after ?VALUE_MS -> exit(Pid, kill), overran
             end,
    S = S0#s{profile = S0#s.profile#profile{applied = done}},
    tell_sentry(S#s.profile),
    lists:foldl(fun({kprof_ended, Outcome, Text}, S1) -> S1#s{why = {Outcome, Text}};
                   (Value, S1) -> kprof_tracer_events:send(Value, S1)
                end, S, kprof_call:outcome(Reason, Applied)).

%% The client ends the profile when it has all it wants. Before that it answers which request
%% types are wanted.
-spec ended(#s{}) -> #s{}.
ended(#s{requests = R} = S) when is_record(R, requests) ->
    case is_asked(R) of
        true -> S#s{delivered = all};
        false -> all_sent(S)
    end;
ended(S) ->
    all_sent(S).

all_sent(#s{why = {Why, Text}} = S0) ->
    S = loads_send(S0),
    {Begun, Ended, Unsure} =
        case S#s.requests of
            undefined -> {0, 0, 0};
            R -> {R#requests.begun, R#requests.ended, R#requests.unsure}
        end,
    kprof_tracer_events:send({kprof_calls_end, Why, Text, kprof_oneshot:names(), Begun, Ended,
                              Unsure}, S).

%% Takes patterns and flags away. Destroying a session takes 2 to 15 ms at 200,000 processes and
%% stops nobody; another session is needed for taking tokens back.
unarm(#s{profile = #profile{session = legacy}, probe = relay} = S0) ->
    kprof_oneshot:unflag(S0#s.profile),
    S = lists:foldl(fun(P, S1) ->
                            kprof_tracer_patterns:legacy_clear(P),
                            quieten(S1)
                    end, quieten(S0), S0#s.profile#profile.armed),
    _ = flags_clear(legacy, self(), ?CLEAR_MS),
    unarmed(S);
unarm(#s{profile = #profile{session = legacy}} = S) ->
    kprof_oneshot:clear(S#s.profile),
    unarmed(S);
unarm(#s{probe = Probe} = S) ->
    loads_end(S),
    kprof_oneshot:clear(S#s.profile),
    Session = session_create(kprof_tracer, tracer_of(Probe)),
    S#s{profile = S#s.profile#profile{session = Session, armed = [], walk = cleared},
        delivered = trace:delivered(Session, all)}.

unarmed(S) ->
    S#s{profile = S#s.profile#profile{armed = [], walk = cleared},
        delivered = erlang:trace_delivered(all)}.

%% A walk, and taking patterns, last long where many processes want to run, and our queue grows by
%% a million events a second meanwhile. The process of an event in the queue has run Erlang code
%% just now, so its flags can be taken at once. Events are kept, in order.
quieten(S) -> quieten(#{}, [], S).

quieten(Quiet, Kept, S) ->
    receive
        Event when element(1, Event) =:= seq_trace -> quieten(Quiet, [Event | Kept], S);
        Event when element(1, Event) =:= trace_ts, is_map_key(element(2, Event), Quiet) ->
            quieten(Quiet, [Event | Kept], S);
        Event when element(1, Event) =:= trace_ts ->
            P = element(2, Event),
            _ = try erlang:trace(P, false, [{tracer, self()}, all]) catch error:_ -> gone end,
            quieten(Quiet#{P => []}, [Event | Kept], S)
    after 0 ->
            S#s{events = S#s.events#events{kept = S#s.events#events.kept ++ lists:reverse(Kept)}}
    end.
