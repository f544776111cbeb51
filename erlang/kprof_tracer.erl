%% kprof_tracer - what `kprof trace` puts into a node.
%%
%% Loaded over the distribution, started for one client, and gone with it. It
%% has the VM tell it of every call of the functions that it is given, and when
%% the chosen processes run, wait and collect garbage, and sends that on. For an
%% operator of the node: kprof_tracer:stop() ends it, and
%% {kprof, [{disabled, true}]} in the node's configuration keeps it out.
%%
%% What is safe about it: no argument and no return value is in what it sends, but
%% for the value of an expression that the user gave, as a text of bounded size,
%% and none is copied but what a process is spawned with and the reason that it
%% ends for; by request, what is sent for one as well, and where requests are to
%% be of one identity, the identities that the user's fun makes; and of arguments,
%% where the user asked for them, what is small (kprof_tracer_args). Events, its queue
%% and what the node grows by are bounded: past a
%% limit it takes back what it armed at once, and sends what is there. It
%% monitors the client and holds a lease; when either ends it is gone.
%%
%% Two processes: the server, which is the tracer, and a sentry that cleans up
%% behind it however it ended; and a third where it is to end by the clock. Or the tracer is a module of native code, from
%% whose rings the server takes what it sends (kprof_rings.hrl). From OTP 27 on
%% all is in one trace session, whose only handle is the server's. On 25 and 26
%% functions and processes that somebody else traces are refused or left alone.
-module(kprof_tracer).

-export([start/2, stop/0]).

-define(GUESTS, [kprof_calls_probe, ?MODULE]).
-include("kprof_flagger.hrl").
-define(DOES, "traces").
-include("kprof_label.hrl").

-define(TICK_MS, 200).          % how often lease and memory are looked at
-define(RETRY_MS, 5).           % where the connection takes nothing
-define(OTHERS, 20).            % processes that somebody else traces
-define(BATCH, 500).            % events of one message
-define(WEIGH_MS, 1000).
-define(BATCH_MS, 20).          % how long the first of them waits

-define(LARGE, 10).             % one that may be large counts as so many
-define(LATE_MS, 200).          % for work that goes on after a request's end

-record(s, {
    client, client_ref,
    sentry,             % {Pid, MonitorRef}
    who,                % binary, for the log
    session,            % trace session (OTP 27+) or legacy
    probe = relay,      % or native
    dropped = 0,        % by the native one
    lease_ms, lease_at,
    armed = [],         % {M, '_', '_'} or {M, F, A}: what patterns were set
    ours,               % #{{M, F, A} => []}, or all: whose calls we take for ours
    gc,                 % [garbage_collection], or [] where we are not told of that
    chosen, flags,      % of processes, set by go,
    walk = none,        % that sets them
    args = 0,           % most bytes of a binary among arguments; 0: none of these
    guards,             % of patterns: not of processes that somebody else traces
    stage = ready,      % ready | tracing | draining: no more events are made
    why,                % the reason that it ended for, and what was said of it
    delivered,          % reference: after it no event comes
    applied,            % undefined | {Pid, MonitorRef, Ms | overran} | done
    span_ms = 0, span,  % 0: no end; who ends it then
    memory_max, memory, % bytes of the VM's own, past those at the start
    binaries,           % of all binaries, when few events waited
    events = 0, events_max,
    queue_max,
    weighed = {0, 0},   % {Messages, Ms}: what the queue takes is asked past either
    passed_over = 0,    % messages since the queue was looked at for them
    loads,              % #loads{}: code that is loaded meanwhile
    r,                  % undefined | #r{}: by request
    word,               % undefined | the trace control word as it was
    batch = [], n = 0,  % events not yet sent, the last first
    kept = [],          % those taken from the queue before it was their turn
    seq = 0
}).

%% Traces by request. The token's label names a request in the VM; here it has a
%% number. One that begins within another is part of it.
-record(r, {
    entries,            % #{{M, F, A} => []}: what begins one
    epoch,              % of labels, which are ours by that
    max,                % so many; 0: no end to them
    begun = 0, ended = 0,
    given = 0,          % numbers
    labels = #{},       % label => number
    open = #{},         % number => {pid, who the entry returns to}
    at = #{},           % pid => number: what a process last worked for
    %% kprof_sweep.hrl:
    swept = [],         % of functions, when they are armed no more
    %% kprof_nodes.hrl:
    others = #{},       % epoch => [], of other nodes
    elsewhere = #{},    % number => []: began in another node, and goes on
    news = [],          % for the client, the last first
    %% kprof_early.hrl:
    early = #{},        % pid => {Ms, the label that it waits for, events, the last first}
    early_n = 0,        % events
    %% kprof_limits.hrl:
    attached,           % a kprofd begins them:
    kprofd,             % a monitor of its agent, or undefined
    held = #{},         % pid => events, the last first: of which request?
    marks,              % functions that may say what a request's identity is
    inside,             % functions of a tier that calls are to be in
    named,              % all, or #{number => identity's number | wanted | unwanted}
    known = #{}         % identity => {number, asked | wanted | unwanted}
}).

-include("kprof_oneshot.hrl").
-include("kprof_rings.hrl").
-include("kprof_early.hrl").
-include("kprof_limits.hrl").
-include("kprof_nodes.hrl").
-include("kprof_sweep.hrl").
-include("kprof_loads.hrl").
-include("kprof_span.hrl").

init(Starter, Client, #{who := Who, lease_ms := Lease, apply := Apply, apply_ms := ApplyMs, processes := Which,
                        max_memory := MaxMemory, max_events := MaxEvents, max_queue := MaxQueue, args := Args, span_ms := SpanMs} = Opts0) ->
    take_name(),
    process_flag(message_queue_data, off_heap),
    process_flag(priority, high),
    Call = call_of(Apply),
    {Absent, Opts} = there(Opts0),
    {Entry, Must, Wanted} = entry(Opts),
    {Probe, Why} = probe(Entry =/= undefined, Opts),
    Session = kprof_injected:session_create(?MODULE, tracer_of(Probe)),
    {Armed, Functions} = kprof_wanted:wanted(Wanted),
    untraced(Session, Functions),
    Gc = collected(Session),
    S0 = #s{client = Client, client_ref = erlang:monitor(process, Client), sentry = sentry_start(), who = Who,
            session = Session, probe = Probe, lease_ms = Lease, armed = loads_watched(Session) ++ with_entry(Must, Armed),
            loads = loads_new(Functions, Wanted), ours = ours(Session, Functions), flags = flags(Entry, Gc, Opts), r = Entry,
            args = Args, gc = Gc, span_ms = SpanMs,
            memory = own_memory(), memory_max = MaxMemory, events_max = MaxEvents, queue_max = MaxQueue},
    tell_sentry(S0),
    S1 = prepared(S0#s{applied = prepare(Call, ApplyMs)}),
    Chosen = chosen(whose(Which, Call), Opts, S1#s.applied),
    S = numbered(S1#s{chosen = Chosen}),
    Foreign = foreign(Session, Chosen),
    say_begin(S),
    S2 = arm(loads_watch(S#s{guards = guards(Foreign)})),
    is_alone(S2) andalso entry_arm(S2),
    Starter ! {self(), #{absent => list_to_tuple(Absent), functions => length(Functions), processes => processes_in(Chosen),
                         evaluated => is_evaluated(Call),
                         otp => erlang:system_info(otp_release), probe => Probe, probe_why => Why, collected => Gc =/= [], skipped => map_size(Foreign),
                         offset => erlang:time_offset(nanosecond)}},
    tick(),
    loop(S2#s{lease_at = kprof_injected:now_ms(), binaries = erlang:memory(binary)}).

%% On OTP 25 and 26 patterns of somebody else's have the processes that we trace
%% tell us of their functions too.
ours(legacy, Functions) -> maps:from_list([{MFA, []} || MFA <- Functions]);
ours(_, _) -> all.

%% And ours would have the processes that somebody else traces tell him of our
%% functions: these are left out one by one.
guards(Foreign) ->
    Told = [P || {P, true} <- maps:to_list(Foreign)],
    length(Told) > ?OTHERS andalso
        kprof_refusal:refuse("calls of ~b processes are traced by somebody else, who would be told of these too (kprofd? OTP 27 has"
                             " sessions)", [length(Told)]),
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
    case kprof_gc_fixed:gc_shared() orelse not (collected_by_kprofd() orelse kprof_collected:collected_by_others(?MODULE) =/= {0, []}) of
        true -> [garbage_collection];
        false -> []
    end.

%% Before the flags are set, which may be long after they were chosen: has nobody
%% come meanwhile?
still_collected(#s{gc = []}) -> true;
still_collected(#s{session = Session}) -> collected(Session) =/= [].

%% Its match specs give that to processes at any time.
collected_by_kprofd() ->
    is_pid(whereis(kprof_agent)) andalso
        case kprof_agent:status() of
            #{flags := Flags} -> lists:member(garbage_collection, Flags);
            _ -> true
        end.

%% What describes arguments takes some 125 KB for each.
arm(#s{armed = All, loads = L} = S) ->
    {_, Sum, Of} = lists:foldl(fun(P, {N, Sum0, Of0}) ->
                                       Spec = spec(P, S),
                                       Bytes = spec_bytes(Spec, S),
                                       specs_fit(Sum0 + Bytes, S),
                                       pattern(S#s.session, P, Spec),
                                       arm_look(N, S),
                                       heed(0, S),
                                       {N + 1, Sum0 + Bytes,
                                        maps:update_with(element(1, P), fun(B) -> B + Bytes end, Bytes, Of0)}
                               end, {1, 0, #{}}, [P || P <- All, tuple_size(P) =:= 3]),
    S#s{loads = L#loads{bytes = Sum, each = Of}}.

spec_bytes(_, #s{args = 0}) -> 0;
spec_bytes(Spec, _) -> erts_debug:flat_size(Spec) * erlang:system_info(wordsize).

specs_fit(Sum, #s{memory_max = Max}) when Sum > Max ->
    kprof_refusal:refuse("to show the arguments of so many functions takes more memory than -max-memory: name fewer, or leave out -args",
                         []);
specs_fit(_, _) ->
    ok.

spec(_, #s{probe = native, guards = Guards}) ->
    [{'_', Guards, [{message, {{kprof_calls, {caller}}}}]}];
spec(P, #s{r = undefined, guards = Guards, args = Args}) ->
    kprof_tracer_args:calls(P, Guards, fun(Caller) -> [{message, Caller}] end, Args);
spec(P, #s{guards = Guards, args = Args} = S) ->
    kprof_tracer_args:calls(P, [{is_seq_trace} | Guards], fun(Caller) -> [runs(S), {message, {{{get_seq_token}, Caller}}}] end, Args).

%% With arguments, or without.
caller({Caller, _}) -> Caller;
caller(Caller) -> Caller.

%% ------------------------------------------------------------- requests ----

%% From here on the word is ours: the sentry knows it before it is changed.
numbered(#s{r = undefined} = S0) ->
    S0;
numbered(#s{r = #r{attached = true}} = S0) ->
    S0;
numbered(S0) ->
    S = S0#s{word = erlang:system_info(trace_control_word)},
    tell_sentry(S),
    tell_us(),
    S.

%% A call of it clears the token, and sets one with a number of its own: of an
%% epoch, which is ours, and the trace control word, which counts. What is
%% evaluated first is the last. An application's own token stays where it is.
entry_spec(MFA, #s{guards = Guards, args = Args, r = #r{epoch = Of}} = S) ->
    Epoch = Of bsl ?WORD_BITS,
    Next = fun(Word) -> {'band', {'+', Word, 1}, ?WORD_MASK} end,
    Label = {'bor', Epoch, Next({set_tcw, Next({get_tcw})})},
    Told = [{set_seq_token, Flag, true} || is_told(), Flag <- [send, 'receive', monotonic_timestamp]],
    Free = {'orelse', {'not', {is_seq_trace}}, ?IS_OURS},
    Begin = fun(Caller) ->
                    [{'andalso', Free, runs(S)},
                     {message, {'andalso', Free,
                                {{entry, {get_seq_token}, {list_to_tuple(Told)}, {set_seq_token, label, Label},
                                  {set_seq_token, sequential_trace_token, []}, {get_seq_token}, Caller}}}}]
            end,
    kprof_tracer_args:calls(MFA, Guards, Begin, Args).

%% Of messages with a token, which come whole: bodies go no further. There is one
%% in a node who is told of them; without that there is no way of a request.
tell_us() ->
    seq_trace:get_system_tracer() =:= false andalso seq_trace:set_system_tracer(self()).

is_told() ->
    seq_trace:get_system_tracer() =:= self().

%% Past as many as were asked for who has a token still gets a label, of nobody's:
%% else the next one in the same process would have the token of the last. Others
%% get none.
%% Called again by the same function in the same process: the end of the one
%% before was not seen, as when it raised on OTP 25.
begins(P, New, Old, From, Identity, MFA, Ts, S0) ->
    #s{r = #r{labels = Labels, max = Max, begun = Begun} = R} = S = seen(Old, S0),
    Caller = caller(From),
    case Labels of
        #{Old := N} when map_get(N, R#r.open) =:= {P, Caller} ->
            begins(P, New, none, From, Identity, MFA, Ts, request_ended(N, S));
        #{Old := N} when is_map_key(N, R#r.open); is_map_key(N, R#r.elsewhere) ->
            called(P, New, From, Identity, MFA, Ts, labelled(New, N, S));
        _ when Begun < Max, map_size(Labels) < ?NUMBERS - 1 ->
            {N, S1} = numbered_by(New, S),
            R1 = S1#s.r,
            S2 = S1#s{r = R1#r{open = (R#r.open)#{N => {P, Caller}}}},
            is_full(S2) andalso entry_full(S2),
            called(P, New, From, Identity, MFA, Ts, news({begins, N}, labelled(New, N, S2)));
        _ -> leaves(P, Ts, S)
    end.

%% As many as were asked for have begun; whether one of an identity is wanted is
%% known later. Of several nodes the client sees it.
is_full(#s{stage = tracing, r = #r{named = all, begun = Max, max = Max}} = S) -> is_alone(S);
is_full(_) -> false.

%% From now on requests only get labels, of nobody's, in the place of other ones.
entry_full(#s{guards = Guards} = S) ->
    entry_arm(S#s{guards = [{is_seq_trace} | Guards]}).

called(P, Label, From, Identity, MFA, Ts, S00) ->
    #s{r = #r{labels = Labels, attached = Attached}} = S0 = seen(Label, S00),
    case Labels of
        #{Label := N} ->
            S = identified(N, Identity, S0),
            case is_unwanted(N, S#s.r) of
                true -> leaves(P, Ts, S);
                false -> works(P, N, From, MFA, Ts, S)
            end;
        _ when Attached, map_size(Labels) < ?NUMBERS - 1 ->
            case is_kprofds(Label) of
                true ->
                    {_, S} = numbered_by(Label, S0),
                    called(P, Label, From, Identity, MFA, Ts, S);
                false -> leaves(P, Ts, S0)
            end;
        _ -> leaves(P, Ts, S0)
    end.

%% Of a kprofd's requests an entry's call comes before its token.
told(P, Label, Caller, Identity, MFA, Ts, #s{r = #r{attached = true, entries = Entries}} = S) ->
    case Entries of
        #{MFA := _} -> entered(P, Label, Caller, Identity, MFA, Ts, S);
        _ -> called(P, Label, Caller, Identity, MFA, Ts, shown(P, Label, S))
    end;
told(P, Label, Caller, Identity, MFA, Ts, S) ->
    called(P, Label, Caller, Identity, MFA, Ts, S).

works(P, N, Caller, MFA, Ts, #s{r = #r{at = At}} = S) when map_get(P, At) =:= N ->
    add({trace_ts, P, call, MFA, Caller, Ts}, S);
works(P, N, Caller, MFA, Ts, #s{r = #r{at = At} = R} = S0) ->
    S = add({trace_ts, P, request, N, Ts}, S0#s{r = R#r{at = At#{P => N}}}),
    add({trace_ts, P, call, MFA, Caller, Ts}, S).

%% It works for a request that is none of ours.
leaves(P, Ts, #s{r = #r{at = At} = R} = S) when is_map_key(P, At) ->
    add({trace_ts, P, request, 0, Ts}, S#s{r = R#r{at = maps:remove(P, At)}});
leaves(_, _, S) ->
    pass_over(1, S).

%% Its entry has returned when its process is back in what called that.
returned(P, MFA, #s{r = #r{at = At, open = Open}} = S) ->
    N = map_get(P, At),
    case Open of
        #{N := {P, MFA}} -> request_ended(N, S);
        _ -> S
    end.

request_ended(N, #s{r = #r{open = Open} = R} = S0) ->
    S = news({ends, N}, S0#s{r = R#r{open = maps:remove(N, Open)}}),
    case is_wanted(N, R) of
        true -> one_ended(S);
        false -> S
    end.

%% Of several nodes the client sees when enough have ended.
one_ended(#s{r = #r{ended = Ended, max = Max} = R} = S) ->
    is_alone(S) andalso Ended + 1 =:= Max andalso erlang:send_after(?LATE_MS, self(), requests_ended),
    S#s{r = R#r{ended = Ended + 1}}.

gone(P, #s{r = #r{at = At, open = Open} = R} = S) ->
    N = map_get(P, At),
    S1 = S#s{r = R#r{at = maps:remove(P, At)}},
    case Open of
        #{N := {P, _}} -> request_ended(N, S1);
        _ -> S1
    end.

passed_by({send, _, From, _, _}) -> From;
passed_by({_, _, _, To, _}) -> To;
passed_by(_) -> none.

passed(Label, What, Ts, S0) ->
    case seen(Label, S0) of
        #s{r = #r{labels = #{Label := N}}} = S -> passed_in(N, What, Ts, S);
        S -> S
    end.

passed_in(N, {send, {_, Serial}, From, _, _}, Ts, S) when is_pid(From), node(From) =:= node() ->
    add({trace_ts, From, send, {N, Serial}, Ts}, S);
passed_in(N, {'receive', {_, Serial}, From, To, _}, Ts, S) when is_pid(From), is_pid(To), node(To) =:= node() ->
    add({trace_ts, To, 'receive', {N, Serial, From}, Ts}, S);
passed_in(_, _, _, S) ->
    S.

%% What is no token, is of somebody else's pattern.
label({_, Label, _, _, _}) -> Label;
label(_) -> none.

%% ----------------------------------------------------------------- loop ----

loop(#s{n = ?BATCH} = S) ->
    loop(flush(S));
loop(#s{kept = [Event | More]} = S) ->
    message(Event, S#s{kept = More});
loop(#s{n = 0} = S) ->
    receive Msg -> message(Msg, S) end;
loop(S) ->
    receive Msg -> message(Msg, S)
    after ?BATCH_MS -> loop(flush(S))
    end.

message({trace_ts, _, return_from, ?LOADED, _, _}, S) ->
    loop(loads_loaded(S));
message(loads_arm, S) ->
    loop(loads_arm(S));
message({trace_ts, P, _, _, _} = Event, #s{r = #r{}} = S) ->
    loop(in_turn(P, Event, S));
message({trace_ts, P, call, _, _, _} = Event, #s{r = #r{}} = S) ->
    loop(in_turn(P, Event, S));
message({seq_trace, _, What, _} = Event, #s{r = #r{}} = S) ->
    loop(in_turn(passed_by(What), Event, pass_over(?LARGE, S)));
message(Over, S) when Over =:= requests_ended; Over =:= span_over ->
    loop(disarm({returned, 0}, S));
message({trace_ts, _, call, _, _, _} = Event, #s{ours = all} = S) -> loop(add(Event, S));
message({trace_ts, _, call, MFA, _, _} = Event, #s{ours = Ours} = S) when is_map_key(MFA, Ours) -> loop(add(Event, S));
message({trace_ts, P, spawn, Child, {M, F, Args}, Ts}, S) when node(Child) =:= node(), is_list(Args) ->
    loop(add({trace_ts, P, spawn, Child, {M, F, length(Args)}, Ts}, pass_over(?LARGE, S)));
message({trace_ts, _, _, _, _} = Event, S) ->
    loop(add_short(Event, S));
message({walk, Walk, {walked, _, _, _}}, S) ->
    loop(flagged(Walk, S));
message(drain, S) ->
    loop(drain(S));
message({kprof, Client, _, Cmd}, #s{client = Client} = S) ->
    loop(command(Cmd, S#s{lease_at = kprof_injected:now_ms()}));
message({held_no_more, Ps}, S) ->
    loop(held_no_more(Ps, S));
message(tick, S) ->
    tick(),
    held_look(S),
    look(early_look(loads_tick(S)));
message({trace_delivered, _, Ref}, #s{delivered = Ref} = S) ->
    sweep(drain_all(flush(released_all(early_end(S)))));
message(swept, S) ->
    loop(ended(S));
message({evaluated, Pid}, #s{stage = tracing, applied = {Pid, _, _}} = S) ->
    loop(evaluated(disarm({returned, 0}, S)));
message({'DOWN', Ref, process, _, Reason}, #s{applied = {_, Ref, _}} = S) ->
    S1 = S#s{applied = done},
    tell_sentry(S1),
    [{kprof_ended, Outcome, Text}] = outcome(Reason, S#s.applied),
    loop(disarm({Outcome, Text}, S1));
message({overran, Ref}, #s{applied = {Pid, Ref, _}} = S) ->
    exit(Pid, kill),
    loop(S#s{applied = {Pid, Ref, overran}});
message({'DOWN', Ref, process, _, Reason}, #s{client_ref = Ref} = S) ->
    finish({gone, Reason}, S);
message({'DOWN', Ref, process, _, _}, #s{r = #r{kprofd = Ref}} = S) ->
    loop(disarm({returned, <<"the kprofd there, which marks requests, has gone">>}, S));
message({'DOWN', Ref, process, _, _}, #s{sentry = {_, Ref}} = S) ->
    loop(new_sentry(S));
message({'DOWN', _, process, Pid, _}, S) ->
    loop(walk_over(Pid, S));
message({?MODULE, stop}, S) ->
    finish(stopped, S);
message(_, S) ->
    loop(pass_over(?LARGE, S)).

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

look(#s{stage = tracing, memory = Memory, memory_max = Max} = S) ->
    {memory, Own} = process_info(self(), memory),
    {Kept, S1} = kept_binaries(S),
    case own_memory() - Memory + Own + Kept of
        More when More > Max -> loop(disarm({memory, 0}, S1));
        _ -> loop(look_lease(S1))
    end;
look(S) ->
    loop(look_lease(S)).

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
    still_collected(S0) orelse finish(collected, S0),
    S = flag_all(span_ready(S0#s{stage = tracing})),
    S#s.probe =:= native andalso (self() ! drain),
    S;
%% It began in another node. That of a label nobody has seen here yet may come.
command({ended, Label}, #s{r = #r{}} = S) ->
    ended_elsewhere(Label, S);
command(entries, #s{stage = tracing} = S) ->
    is_alone(S) orelse entry_arm(S),
    send({kprof_entries}, S);
%% The other nodes would tell of each that begins.
command(full, #s{stage = tracing, r = #r{}} = S) ->
    entry_full(S),
    S;
command(clock, S) ->
    send({kprof_clock, kprof_injected:now_ns()}, S);
command(read, #s{stage = tracing} = S) ->
    disarm({returned, 0}, S);
command(marked, #s{r = #r{entries = Entries, marks = Marks, inside = Inside}} = S) ->
    send({kprof_marked, maps:keys(Entries), Marks, Inside}, S);
command({specs, Specs}, #s{stage = ready, r = #r{}} = S) ->
    named_arm(Specs, S);
command({identity, Id, IsWanted}, #s{r = #r{}} = S0) ->
    S = answered(Id, IsWanted, S0),
    case S#s.delivered of
        all -> ended(S);
        _ -> S
    end;
command(stop, S) ->
    finish(done, S);
command(_, S) ->
    S.

%% All processes that were to be have their flags, but for those in native code; of
%% some events may have come by now.
flagged(Walk, #s{stage = tracing, walk = Ours} = S0) when not is_atom(Ours) ->
    case kprof_flagger:walk_pid(Ours) of
        Walk ->
            S = begun(S0),
            span_begin(S),
            case S#s.applied of
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
begun(#s{seq = 0} = S) -> send({kprof_calls, 0, []}, S#s{seq = 1});
begun(S) -> S.

%% --------------------------------------------------------------- events ----

%% By request: of a function that begins one, or of another.
call({_, P, call, MFA, X, Ts}, S) ->
    case X of
        {entry, New, _, _, _, Old, From} ->
            early_over(label(New), begins(P, label(New), label(Old), From, [], MFA, Ts, S));
        {_, _, 1, false, _, [], _} -> leaves(P, Ts, S);
        {Identity, Caller, 1, New, _, [], Old} ->
            early_over(label(New), begins(P, label(New), label(Old), Caller, Identity, MFA, Ts, S));
        {Identity, Token, Caller} -> told(P, label(Token), Caller, Identity, MFA, Ts, S);
        {Token, From} -> told(P, label(Token), From, [], MFA, Ts, S);
        _ -> pass_over(1, S)
    end.

%% Of a process that works, or has worked, for one of the requests.
in_request(P, Event, #s{r = #r{at = At}} = S0) when is_map_key(P, At) ->
    S = add_short(Event, S0),
    case Event of
        {_, _, return_to, MFA, _} -> returned(P, MFA, S);
        {_, _, out_exited, _, _} -> gone(P, S);
        {_, _, out, {?MODULE, told, _}, _} -> gone(P, S);
        _ -> S
    end;
in_request(P, Event, S) ->
    case is_held(P, S) of
        true -> hold(P, Event, S);
        false -> pass_over(1, S)
    end.

%% None of those with what could be large is passed on as it is.
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

add(Event, #s{events = N, events_max = Max} = S) when N < Max ->
    S#s{batch = [Event | S#s.batch], n = S#s.n + 1, events = N + 1};
add(_, S) ->
    disarm({events, 0}, S).

flush(#s{stage = Stage, seq = 0} = S) when Stage =/= ready ->
    flush(begun(S));
flush(#s{n = 0} = S) ->
    tell_news(S);
flush(#s{batch = Batch, seq = Seq} = S0) ->
    S = send({kprof_calls, Seq, lists:reverse(Batch)}, queue(tell_news(S0))),
    S#s{batch = [], n = 0, seq = Seq + 1}.

%% What is in no batch comes as fast, and may be large: no batch that is full has
%% us look at the queue then. To look takes as long as the queue.
pass_over(Size, #s{passed_over = N} = S) when N < ?BATCH -> S#s{passed_over = N + Size};
pass_over(_, S) -> queue(S#s{passed_over = 0}).

%% More than it can send: no more of them. Their number is known; what they take
%% is added up one by one, so that is asked where there are a quarter more, and
%% once a second.
queue(#s{stage = tracing, queue_max = Max, weighed = {Most, At}} = S) ->
    case process_info(self(), message_queue_len) of
        {_, N} when N > Max -> disarm({queue, 0}, S);
        {_, N} when N > Most -> weigh(N, kprof_injected:now_ms(), S);
        {_, N} ->
            case kprof_injected:now_ms() of
                Now when Now > At -> weigh(N, Now, S);
                _ -> S
            end
    end;
queue(S) ->
    S.

weigh(N, Now, #s{memory_max = Max} = S) ->
    case process_info(self(), memory) of
        {_, Own} when Own > Max -> disarm({memory, 0}, S);
        _ -> S#s{weighed = {N + N div 4, Now + ?WEIGH_MS}}
    end.

%% Waits while the connection is busy, but not for a client that has gone or
%% hangs; and looks at the queue meanwhile.
send(Msg, S) ->
    send(Msg, kprof_injected:now_ms() + S#s.lease_ms, S).

send(Msg, Deadline, #s{client_ref = Ref} = S) ->
    case erlang:send(S#s.client, Msg, [noconnect, nosuspend]) of
        ok -> S;
        _ ->
            kprof_injected:now_ms() > Deadline andalso finish(lease, S),
            receive {'DOWN', Ref, process, _, Reason} -> finish({gone, Reason}, S)
            after ?RETRY_MS -> send(Msg, Deadline, queue(S))
            end
    end.

%% ------------------------------------------------------------------ end ----

%% From now on no event is made; those that were, are still to come.
disarm(Why, #s{stage = tracing} = S) ->
    is_told() andalso seq_trace:set_system_tracer(false),
    unarm(S#s{stage = draining, why = Why, r = swept(S)});
disarm(_, S) ->
    S.

%% Its process makes a text of what the call gave, which nobody traces any more.
evaluated(#s{applied = {Pid, Ref, _} = Applied} = S0) ->
    tell_value(Applied),
    Reason = receive {'DOWN', Ref, process, _, Why} -> Why
             after ?VALUE_MS -> exit(Pid, kill), overran
             end,
    S = S0#s{applied = done},
    tell_sentry(S),
    lists:foldl(fun({kprof_ended, Outcome, Text}, S1) -> S1#s{why = {Outcome, Text}};
                   (Value, S1) -> send(Value, S1)
                end, S, outcome(Reason, Applied)).

%% The client says when it has had enough. First it says what is wanted of what
%% has been sent.
ended(#s{r = R} = S) when is_record(R, r) ->
    case is_asked(R) of
        true -> S#s{delivered = all};
        false -> all_sent(S)
    end;
ended(S) ->
    all_sent(S).

all_sent(#s{why = {Why, Text}} = S0) ->
    S = loads_send(S0),
    {Begun, Ended} = case S#s.r of
                         undefined -> {0, 0};
                         R -> {R#r.begun, R#r.ended}
                     end,
    send({kprof_calls_end, Why, Text, names(), Begun, Ended}, S).

legacy_armed(#s{armed = Armed}) ->
    Armed.

legacy_clear({meta, P}) ->
    pattern_meta(legacy, P, false);
legacy_clear(P) ->
    pattern(legacy, P, false).

%% ------------------------------------------------- the two trace back ends ----

%% Local, since return_to is for local calls only.
pattern(legacy, MFA, Spec) ->
    erlang:trace_pattern(MFA, Spec, [local]);
pattern(Session, MFA, Spec) ->
    in_session(Session, fun() -> trace:function(Session, MFA, Spec, [local]) end, 0).

%% Of any process, flags or none.
pattern_meta(legacy, MFA, Spec) ->
    erlang:trace_pattern(MFA, Spec, [if Spec =:= false -> meta; true -> {meta, self()} end]);
pattern_meta(Session, MFA, Spec) ->
    trace:function(Session, MFA, Spec, [meta]).

%% What comes when all events have come. To destroy a session takes 2 to 15 ms at
%% 200,000 processes and stops nobody; another one is for tokens that are taken
%% back.
unarm(#s{session = legacy, probe = relay} = S0) ->
    unflag(S0),
    S = lists:foldl(fun(P, S1) -> legacy_clear(P), hush(S1) end, hush(S0), legacy_armed(S0)),
    _ = kprof_flagger:flags_clear(legacy, self(), ?CLEAR_MS),
    unarmed(S);
unarm(#s{session = legacy} = S) ->
    clear(S),
    unarmed(S);
unarm(#s{probe = Probe} = S) ->
    loads_end(S),
    clear(S),
    Session = kprof_injected:session_create(?MODULE, tracer_of(Probe)),
    S#s{session = Session, delivered = trace:delivered(Session, all), armed = [], walk = cleared}.

unarmed(S) ->
    S#s{delivered = erlang:trace_delivered(all), armed = [], walk = cleared}.

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
