%% kprof_tracer_server - the tracer's process: it arms the functions, obeys the client, passes on
%% events, and takes back what it armed.
-module(kprof_tracer_server).

-export([host/0, runs/1, loop/1, begun/1]).

-import(kprof_call, [call_of/1, is_evaluated/1, make_call/1]).
-import(kprof_flagger, [walk_pid/1]).
-import(kprof_injected, [now_ms/0, now_ns/0]).
-import(kprof_oneshot, [look_lease/1, own_memory/0, profile_handle/2, profile_new/5, say_begin/1,
         take_name/1, tell_sentry/1]).
-import(kprof_text, [one_tracer/0, refuse/2]).
-import(kprof_tracer_early, [early_end/1, early_look/1, in_turn/3]).
-import(kprof_tracer_end, [disarm/2, ended/1, evaluated/1, exited/2, span_begin/1, span_ready/1,
         sweep/1]).
-import(kprof_tracer_events, [add/2, add_short/2, drain/1, drain_all/1, flag_all/1, flush/1,
         pass_over/2, send/2, tracer_of/1]).
-import(kprof_tracer_limits, [entry_arm/1, held_look/1, held_no_more/2, named_arm/2, released_all/1,
         with_entry/2]).
-import(kprof_tracer_loads, [loads_ahead/1, loads_arm/1, loads_loaded/1, loads_new/2, loads_tick/1,
         loads_watch/1, loads_watched/1]).
-import(kprof_tracer_owner, [messages_look/1]).
-import(kprof_tracer_requests, [ended_elsewhere/2, full_look/1, full_soon/1, is_alone/1,
         passed_by/1, unwanted_elsewhere/2, warm/1, warm_look/2, word_tick/1]).
-import(kprof_tracing, [session_create/2]).
-import(kprof_vm_bugs, [collected_by_others/1, gc_shared/0]).
-import(kprof_wanted, [how_many/1]).

-include("kprof_tracer.hrl").

-define(TICK_MS, 200).          % interval of the checks of lease and memory
-define(OTHERS, 20).            % processes that somebody else traces, and that guards leave out
-define(BATCH_MS, 20).          % longest wait for a batch to fill

host() ->
    #host{name = kprof_tracer, verb = "traces", loaded = [kprof_calls_probe, kprof_tracer],
          init = fun init/3,
          legacy_tracer = fun kprof_tracer_events:legacy_tracer/1,
          legacy_clear = fun kprof_tracer_patterns:legacy_clear/1}.

init(Starter, Client, #{apply := Apply, apply_ms := ApplyMs, processes := Which, args := Args,
                        max_events := MaxEvents, max_queue := MaxQueue,
                        span_ms := SpanMs} = Opts0) ->
    take_name(host()),
    process_flag(message_queue_data, off_heap),
    process_flag(priority, high),
    Call = call_of(Apply),
    {Absent, Opts} = kprof_tracer_requests:there(Opts0),
    {Entry, Must, Wanted} = kprof_tracer_limits:entry(Opts),
    {Probe, Why} = kprof_tracer_events:probe(Entry =/= undefined, Opts),
    Session = session_create(kprof_tracer, tracer_of(Probe)),
    {Armed, Functions} = kprof_wanted:wanted(Wanted),
    kprof_oneshot:untraced(Session, Functions),
    Gc = collected(Session),
    Ours = ours(Session, Functions),
    ToArm = loads_watched(Session) ++
        with_entry(Must, Armed),
    S0 = #state{profile = profile_new(host(), Client, Session, ToArm, Opts),
                probe = Probe, loads = loads_new(Functions, Wanted), ours = Ours,
                flags = flags(Entry, Gc, Opts), requests = Entry, args_max = Args, gc = Gc,
                span_ms = SpanMs, events = #events{max = MaxEvents},
                queue = #queue{max = MaxQueue}},
    tell_sentry(S0#state.profile),
    Applied = kprof_call:prepare(Call, ApplyMs),
    S1 = S0#state{profile = kprof_oneshot:prepared(S0#state.profile#profile{applied = Applied})},
    Chosen = kprof_wanted:chosen(kprof_wanted:whose(Which, Call), Opts, Applied),
    S = kprof_tracer_requests:numbered(S1#state{chosen = Chosen}),
    Foreign = kprof_wanted:foreign(Session, Chosen),
    say_begin(S#state.profile),
    Watched = loads_watch(S#state{guards = guards(Foreign)}),
    S2 = kprof_tracer_patterns:arm(loads_ahead(Watched)),
    is_alone(S2) andalso entry_arm(S2),
    Starter ! {self(),
               #{absent => list_to_tuple(Absent), functions => length(Functions),
                 processes => how_many(Chosen),
                 evaluated => is_evaluated(Call),
                 otp => erlang:system_info(otp_release), probe => Probe, probe_why => Why,
                 collected => Gc =/= [], skipped => map_size(Foreign),
                 offset => erlang:time_offset(nanosecond)}},
    tick(),
    loop(S2#state{profile = S2#state.profile#profile{lease_at = now_ms()},
                  queue = S2#state.queue#queue{binaries = erlang:memory(binary)}}).

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

%% By request, match specs give a process the other flags while it works for a request.
flags(undefined, Gc, #{spawned := Spawned}) ->
    Gc ++ [call, return_to, arity, running, procs, monotonic_timestamp | [set_on_spawn || Spawned]];
flags(_, _, #{spawned := Spawned}) ->
    [call, return_to, arity, monotonic_timestamp | [set_on_spawn || Spawned]].

runs(#state{gc = Gc}) ->
    {trace, [], [running, exiting | Gc]}.

%% The flag for garbage collection, unless somebody else may trace that too.
collected(legacy) -> [garbage_collection];
collected(_) ->
    case gc_shared() orelse
        not (collected_by_kprofd() orelse
             collected_by_others(kprof_tracer) =/= {0, []}) of
        true -> [garbage_collection];
        false -> []
    end.

%% Before the flags are set, which may be long after they were chosen: has another tracer come
%% meanwhile?
still_collected(#state{gc = []}) -> true;
still_collected(#state{profile = #profile{session = Session}}) -> collected(Session) =/= [].

%% A kprofd's match specs give that flag to processes at any time.
collected_by_kprofd() ->
    is_pid(whereis(kprof_agent)) andalso
        case kprof_agent:status() of
            #{flags := Flags} -> lists:member(garbage_collection, Flags);
            _ -> true
        end.

%% ----------------------------------------------------------------- loop ----

-spec loop(#state{}) -> no_return().
%% One message may have released many events that waited.
loop(#state{events = #events{n = N}} = S) when N >= ?BATCH -> loop(flush(S));
loop(#state{events = #events{kept = [Event | More]}} = S) ->
    loop(message(Event, S#state{events = S#state.events#events{kept = More}}));
loop(#state{events = #events{n = 0}} = S) ->
    receive Msg -> loop(message(Msg, S)) end;
loop(S) ->
    receive Msg -> loop(message(Msg, S))
    after ?BATCH_MS -> loop(flush(S))
    end.

message(Event, S) when element(1, Event) =:= trace_ts; element(1, Event) =:= seq_trace ->
    event(Event, S);
message({kprof, Client, _, Cmd}, #state{profile = #profile{client = Client} = P} = S) ->
    command(Cmd, S#state{profile = P#profile{lease_at = now_ms()}});
message(tick, S) ->
    tick(),
    on_tick(S);
message(drain, S) -> drain(S);
message({walk, Walk, {walked, _, _, _}}, S) -> flagged(Walk, S);
message(loads_arm, S) -> loads_arm(S);
message({warm, Was}, #state{stage = tracing} = S) -> warmed(warm_look(Was, S));
message({held_no_more, Ps}, S) -> held_no_more(Ps, S);
message(Over, S) when Over =:= requests_ended; Over =:= span_over -> disarm({returned, 0}, S);
message({evaluated, Pid}, #state{profile = #profile{applied = {Pid, _, _}}, stage = tracing} = S) ->
    evaluated(disarm({returned, 0}, S));
message({trace_delivered, _, Ref}, #state{delivered = Ref} = S) ->
    sweep(drain_all(flush(released_all(early_end(S)))));
message(swept, S) -> ended(S);
message({'DOWN', Ref, process, _, Reason}, #state{profile = #profile{applied = {_, Ref, _}}} = S) ->
    exited(Reason, S);
message({'DOWN', Ref, process, _, _}, #state{requests = #requests{kprofd = Ref}} = S) ->
    disarm({returned, <<"the kprofd there, which marks requests, has gone">>}, S);
message(Msg, #state{profile = P} = S)
  when element(1, Msg) =:= 'DOWN'; element(1, Msg) =:= overran; element(1, Msg) =:= kprof_tracer ->
    S#state{profile = profile_handle(Msg, P)};
message(_, S) -> pass_over(?LARGE, S).

event({trace_ts, _, return_from, ?LOADED, _, _}, S) -> loads_loaded(S);
event({trace_ts, P, call, _, _, _} = Event, #state{requests = #requests{}} = S) ->
    in_turn(P, Event, S);
event({trace_ts, P, _, _, _} = Event, #state{requests = #requests{}} = S) -> in_turn(P, Event, S);
event({seq_trace, _, What, _} = Event, #state{requests = #requests{}} = S) ->
    in_turn(passed_by(What), Event, pass_over(?LARGE, S));
event({trace_ts, _, call, MFA, _, _} = Event, #state{ours = Ours} = S)
  when Ours =:= all; is_map_key(MFA, Ours) ->
    add(Event, S);
event({trace_ts, P, spawn, Child, {M, F, Args}, Ts}, S)
  when node(Child) =:= node(), is_list(Args) ->
    add({trace_ts, P, spawn, Child, {M, F, length(Args)}, Ts}, pass_over(?LARGE, S));
event({trace_ts, _, _, _, _} = Event, S) -> add_short(Event, S);
event(_, S) -> pass_over(?LARGE, S).

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

on_tick(S0) ->
    S = word_tick(S0),
    held_look(S),
    look(full_look(messages_look(early_look(loads_tick(S))))).

look(#state{profile = #profile{memory = Memory, memory_max = Max}, stage = tracing} = S) ->
    {memory, Own} = process_info(self(), memory),
    {Kept, S1} = kept_binaries(S),
    case own_memory() - Memory + Own + Kept of
        More when More > Max -> disarm({memory, 0}, S1);
        _ -> S1#state{profile = look_lease(S1#state.profile)}
    end;
look(S) -> S#state{profile = look_lease(S#state.profile)}.

%% A small binary among arguments may be part of a large one, which is kept as long as the small
%% one waits here. Binaries that existed when few events waited were not kept by us.
kept_binaries(#state{args_max = 0} = S) -> {0, S};
kept_binaries(S) ->
    Now = erlang:memory(binary),
    case process_info(self(), message_queue_len) of
        {_, N} when N > ?BATCH -> {max(0, Now - S#state.queue#queue.binaries), S};
        _ -> {0, S#state{queue = S#state.queue#queue{binaries = Now}}}
    end.

command(go, #state{stage = ready} = S0) ->
    still_collected(S0) orelse kprof_oneshot:finish(collected, S0#state.profile),
    S = flag_all(span_ready(S0#state{stage = tracing})),
    S#state.probe =:= native andalso (self() ! drain),
    S;
%% The request began in another node. Its label may not have been seen here yet.
command({ended, Label}, #state{requests = #requests{}} = S) -> ended_elsewhere(Label, S);
command({unwanted, Label}, #state{requests = #requests{}} = S) -> unwanted_elsewhere(Label, S);
command(entries, #state{stage = tracing} = S0) ->
    is_alone(S0) orelse entry_arm(S0),
    warmed(warm(S0));
%% With several nodes, the others would report each request that begins.
command(full, #state{stage = tracing, requests = #requests{}} = S) -> full_soon(S);
command(clock, S) -> send({kprof_clock, now_ns()}, S);
command(read, #state{stage = tracing} = S) -> disarm({returned, 0}, S);
command(marked,
        #state{requests = #requests{entries = Entries, marks = Marks, inside = Inside}} = S) ->
    send({kprof_marked, maps:keys(Entries), Marks, Inside}, S);
command({specs, Specs}, #state{stage = ready, requests = #requests{}} = S) -> named_arm(Specs, S);
command({identity, Id, IsWanted}, #state{requests = #requests{}} = S0) ->
    S = kprof_tracer_limits:answered(Id, IsWanted, S0),
    case S#state.delivered of
        all -> ended(S);
        _ -> S
    end;
command(stop, S) -> kprof_oneshot:finish(done, S#state.profile);
command(_, S) -> S.

%% All chosen processes have their flags now, except those in native code; events may have come
%% already.
flagged(Walk, #state{profile = #profile{walk = Ours}, stage = tracing} = S0)
  when not is_atom(Ours) ->
    case walk_pid(Ours) of
        Walk ->
            case is_alone(S0) of
                true -> warmed(warm(S0));
                false -> warmed({false, S0})
            end;
        _ -> S0
    end;
flagged(_, S) -> S.

%% With several nodes the client learns once more, when entries mark requests.
warmed({true, S}) -> S;
warmed({false, #state{events = #events{seq = 0}} = S0}) ->
    S = begun(S0),
    span_begin(S),
    make_call(S#state.profile#profile.applied),
    S;
warmed({false, S}) -> send({kprof_entries}, S).

%% The first message, without events, tells the client that tracing is on.
begun(#state{events = #events{seq = 0}} = S) ->
    send({kprof_calls, 0, []},
                             S#state{events = S#state.events#events{seq = 1}});
begun(S) -> S.
