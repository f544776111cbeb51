%% kprof_counters - what `kprof count`, `time` and `memory` load into a node.
%%
%% It is loaded over the distribution, serves one client, and is gone with it. The VM counts
%% calls of the functions that it is given, and their time or memory, until the client has it
%% read the counters. For an operator of the node: kprof_counters:stop() ends it, and
%% {kprof, [{disabled, true}]} in the node's configuration keeps it out.
%%
%% Why it is safe:
%%   - it uses only the VM's own counters: no event is sent and no argument is looked at;
%%   - no value is sent except that of an expression that the user gave, as a text of bounded
%%     size;
%%   - functions, processes, memory and rows of an answer are limited;
%%   - where reading stops the schedulers, it rests as long as it has read;
%%   - it monitors the client and holds a lease, and when either ends it takes back what it
%%     armed.
%%
%% There are two processes, as in kprof_agent: the server, and a sentry that cleans up however
%% the server ended. From OTP 27 on all tracing is in a trace session, whose only handle is the
%% server's. On 25 and 26 counters and flags are shared by everybody: functions that somebody
%% else traces or counts are refused, and processes that somebody else traces are left alone.
%% A kprofd's processes are counted, by the flags that it has set.
%%
%% Where all modules were asked for, the VM gives counters to new ones as it loads them (on_load).
%% On OTP 25 and 26 it has one such setting for everybody: somebody else's is left alone, and new
%% modules are not counted, which the answer says.
-module(kprof_counters).

-export([start/2, stop/0]).

-import(kprof_call, [call_of/1, is_evaluated/1, make_call/1, tell_value/1]).
-import(kprof_flagger, [walk_await/2]).
-import(kprof_injected, [functions/1, now_ms/0, now_ns/0]).
-import(kprof_oneshot, [arm_look/2, look_lease/1, own_memory/0, profile_handle/2, profile_new/5,
         say_begin/1, send_try/4, stop_host/1, take_name/1, tell_sentry/1]).
-import(kprof_text, [refuse/2]).
-import(kprof_tracing, [on_load_free/1, on_load_unset/3, session_create/2, trace_read/3,
         trace_set/4]).
-import(kprof_wanted, [how_many/1, traced_by_others/1]).

-include("kprof_oneshot.hrl").

-define(TICK_MS, 500).          % interval of the checks of lease and memory
-define(FLAGS_MS, 5000).         % for a kprofd to set the flags that its processes have
-define(RETRY_MS, 20).          % between two tries where the connection takes nothing
-define(CHUNK, 200).            % functions that are read between two looks at messages

-record(state, {
    p :: #profile{},
    kind :: call_count | call_time | call_memory | none,        % none: lists functions
    by :: total | process,
    patterns = [] :: [kprof_wanted:mfa_pattern()],      % that were set
    functions = [] :: [mfa()],          % of these patterns
    all = none :: none | [module()],    % modules of the node, where all of them are armed
    foreign = #{} :: #{pid() => boolean()},     % that somebody else traces (legacy)
    lender = none :: none | kprof_flagger:tracer(),     % a kprofd whose flags we use (legacy)
    only = all :: all | #{pid() => []}, % whose counters are read then
    since :: undefined | integer(),     % monotonic ns
    paused :: undefined | integer(),    % monotonic ns; undefined while it counts
    %% Are new modules counted, or why not? no: nobody asked for them.
    ahead = no :: no | true | others | exclude,
    known = [] :: [module()],           % those that are no new ones, sorted
    room = 0 :: integer(),              % functions that may still be counted
    came = 0 :: non_neg_integer(),      % new modules that are counted,
    missed = 0 :: non_neg_integer(),    % and that are not
    stretch = 1 :: pos_integer(),       % how many times it has begun to count
    over = false :: boolean(),          % it has ended and counts no more
    rows_max :: non_neg_integer()
}).

%% ---------------------------------------------------------------- start ----

-spec start(pid(), map()) -> {ok, pid(), map()} | {error, binary()}.
start(Client, Opts) ->
    kprof_oneshot:start(host(), Client, Opts).

-spec stop() -> ok | not_attached.
stop() ->
    stop_host(host()).

host() ->
    #host{name = ?MODULE, verb = "counts", loaded = [?MODULE], init = fun init/3,
          legacy_clear = fun legacy_clear/1}.

init(Starter, Client, #{type := Type, by := By, apply := Apply, apply_ms := ApplyMs,
                        processes := Which, max_rows := MaxRows, span_ms := Span} = Opts) ->
    take_name(host()),
    supports(Type),
    Call = call_of(Apply),
    Session = session_create(?MODULE, self()),
    Loaded = erlang:loaded(),
    {Patterns, Functions} = kprof_wanted:wanted(Opts),
    kprof_oneshot:untraced(Session, Functions),
    Armed = if Type =:= list -> []; true -> Patterns end,
    Counted = kprof_wanted:whose(Which, Call),
    Kind = kind(Type, By, Counted),
    Ahead = ahead(Kind, Session, Opts),
    ToArm = legacy_armed(Armed, none, Kind, Ahead, Loaded),
    S0 = #state{p = profile_new(host(), Client, Session, ToArm, Opts),
                kind = Kind, by = By, patterns = Armed, functions = Functions, rows_max = MaxRows,
                ahead = Ahead, known = lists:usort(Loaded),
                room = maps:get(max_functions, Opts) - length(Functions)},
    tell_sentry(S0#state.p),
    Applied = kprof_call:prepare(Call, ApplyMs),
    S1 = S0#state{p = kprof_oneshot:prepared(S0#state.p#profile{applied = Applied})},
    Chosen = counted(Counted, Opts, S1),
    S = flags_of(lender(Session, Chosen), Chosen, Opts, S1),
    say_begin(S#state.p),
    %% Flags last: by process, all functions count from the same moment on.
    Ahead =:= true andalso trace_set(Session, on_load, true, [Kind]),
    SA = (new_ones(S))#state{came = 0, missed = 0},
    arm(SA),
    {Processes, S2} = flag_counted(Chosen, Opts, SA),
    process_flag(priority, high),
    All = all_modules(Loaded, Armed),
    P = (S2#state.p)#profile{lease_at = now_ms(),
                             armed = legacy_armed(Armed, All, Kind, Ahead, Loaded)},
    %% Before it counts: what this calls would be counted too.
    tell_sentry(P),
    S3 = begins(Span, S2#state{p = P, all = All}),
    Starter ! {self(), #{functions => length(Functions), processes => Processes,
                         evaluated => is_evaluated(Call),
                         otp => erlang:system_info(otp_release),
                         skipped => map_size(S#state.foreign)}},
    tick(),
    loop(S3).

supports(memory) ->
    case list_to_integer(erlang:system_info(otp_release)) of
        Otp when Otp < 26 ->
            refuse("memory is counted from OTP 26 on, and this is ~b (kprof count and"
                   " kprof time work there)", [Otp]);
        _ -> ok
    end;
supports(_) -> ok.

%% call_count counts all processes in one sum, and costs least.
kind(list, _, _) -> none;
kind(memory, _, _) -> call_memory;
kind(time, _, _) -> call_time;
kind(count, total, <<"all">>) -> call_count;
kind(count, _, _) -> call_time.

%% ---------------------------------------------------------- new modules ----

ahead(none, _, _) -> no;
ahead(_, Session, #{patterns := Patterns, exclude := Exclude}) ->
    case {lists:any(fun({M, _, _}) -> M =:= <<"_">> end, Patterns), Exclude} of
        {false, _} -> no;
        {true, [_ | _]} -> exclude;
        {true, []} ->
            case on_load_free(Session) of true -> true; false -> others end
    end.

%% Takes in the modules that were loaded since the last time.
new_ones(#state{ahead = no} = S) -> S;
new_ones(#state{known = Known} = S0) ->
    Now = lists:usort([M || M <- erlang:loaded(), erlang:module_loaded(M)]),
    New = (Now -- Known) -- kprof_injected:kprofs(),
    lists:foldl(fun new_one/2, S0#state{known = lists:umerge(Known, Now)}, New).

%% Those that were loaded while the profile began have no counters, but are among the patterns then,
%% which are to be armed.
new_one(M, #state{ahead = Ahead, room = Room, p = #profile{session = Session}, kind = Kind} = S) ->
    case [{M, F, A} || {F, A} <- functions(M)] of
        [] -> S;
        Of when Ahead =:= true, length(Of) =< Room ->
            S#state{patterns = [{M, '_', '_'} | S#state.patterns],
                    functions = Of ++ S#state.functions,
                    room = Room - length(Of), came = S#state.came + 1};
        _ ->
            Ahead =:= true andalso pattern(Session, {M, '_', '_'}, false, Kind),
            S#state{missed = S#state.missed + 1}
    end.

%% ------------------------------------------------------------ processes ----

%% One counter for all processes needs no flags.
counted(_, _, #state{kind = Kind}) when Kind =:= call_count; Kind =:= none -> unflagged;
counted(Which, Opts, S) -> kprof_wanted:chosen(Which, Opts, S#state.p#profile.applied).

%% Silent, or else somebody else's patterns would have these processes send us their calls, with
%% arguments. A session has no patterns of others.
flags(legacy, Opts) -> [silent | flags(session, Opts)];
flags(_, #{spawned := true}) -> [call, set_on_spawn];
flags(_, _) -> [call].

%% Returns how many processes are counted; without flags it is all of them.
flag_counted(unflagged, _, S) -> {erlang:system_info(process_count), S};
flag_counted(_, _, #state{lender = Lender, only = Only} = S) when Lender =/= none ->
    {if Only =:= all -> erlang:system_info(process_count); true -> map_size(Only) end, S};
flag_counted(Chosen, Opts, #state{p = #profile{session = Session}} = S0) ->
    S = S0#state{p = kprof_oneshot:flag(Chosen, self(), flags(Session, Opts), S0#state.p)},
    case walk_await(S#state.p#profile.walk, infinity) of
        {walked, Left, Others, _} -> {max(0, how_many(Chosen) - Left - Others), S};
        timeout -> refuse("somebody has killed what sets flags of processes", [])
    end.

%% On OTP 25 and 26 a process has one tracer. Where that is a kprofd's, every process is flagged
%% for calls already, and counters use these flags until the kprofd goes.
lender(legacy, Chosen) when Chosen =/= unflagged ->
    flags_wanted(whereis(kprof_agent)),
    {tracer, Tracer} = erlang:trace_info(new_processes, tracer),
    case is_kprofd(Tracer) andalso flags_serve(Tracer) of
        true -> Tracer;
        false -> none
    end;
lender(_, _) -> none.

%% Between slices of time a kprofd has no flags, unless a kprof counts.
flags_wanted(undefined) -> ok;
flags_wanted(Agent) ->
    Ref = make_ref(),
    Agent ! {kprof_agent, flags, self(), Ref},
    receive {Ref, ok} -> ok
    after ?FLAGS_MS -> refuse("the kprofd there does not answer (try again)", [])
    end.

%% OTP 25 declares no tracers that are modules.
-dialyzer({nowarn_function, is_kprofd/1}).
is_kprofd({Module, _}) -> Module =:= kprof_probe;
is_kprofd(Tracer) -> is_pid(Tracer) andalso Tracer =:= whereis(kprof_agent).

flags_serve(Tracer) ->
    erlang:trace_info(new_processes, tracer) =:= {tracer, Tracer} andalso
        lists:member(call, element(2, erlang:trace_info(new_processes, flags))).

%% With the flags of a kprofd, processes that the chosen ones spawn cannot be told from others.
flags_of(none, Chosen, _, #state{p = #profile{session = Session}} = S) ->
    S#state{foreign = kprof_wanted:foreign(Session, Chosen)};
flags_of(Lender, Chosen, Opts, S) ->
    Chosen =:= all orelse (is_list(Chosen) andalso not maps:get(spawned, Opts)) orelse
        refuse("a kprofd is there, and before OTP 27 counts go by its flags: of all"
               " processes, or of some with -processes LIST and -not-spawned; for"
               " others end that kprofd, or call kprof_agent:stop() there", []),
    Only = if Chosen =:= all -> all; true -> maps:from_keys(Chosen, []) end,
    S#state{lender = Lender, only = Only, foreign = traced_by_others(Lender)}.

is_counted(P, #state{foreign = Foreign, only = Only}) ->
    not is_map_key(P, Foreign) andalso (Only =:= all orelse is_map_key(P, Only)).

%% ----------------------------------------------------------------- loop ----

loop(S) ->
    receive
        {kprof, Client, Ref, Cmd} when Client =:= S#state.p#profile.client ->
            S1 = command(Cmd, Ref, S),
            %% Only now: the time that the command took was not the client's silence.
            loop(S1#state{p = S1#state.p#profile{lease_at = now_ms()}});
        tick ->
            tick(),
            loop(look(S));
        {span_over, Stretch} ->
            loop(if Stretch =:= S#state.stretch -> pause(S); true -> S end);
        {evaluated, Pid} when Pid =:= element(1, S#state.p#profile.applied) ->
            loop(evaluated(S));
        {'DOWN', Ref, process, _, Reason} when Ref =:= element(2, S#state.p#profile.applied) ->
            loop(ended(Reason, S));
        Msg -> loop(S#state{p = profile_handle(Msg, S#state.p)})
    end.

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

look(#state{p = #profile{memory = Memory, memory_max = Max}, paused = undefined,
            lender = Lender} = S) ->
    case own_memory() - Memory =< Max of
        false -> over(memory, S);
        true when Lender =:= none -> lease(S);
        true ->
            case flags_serve(Lender) of
                true -> lease(S);
                false -> over(disarmed, S)
            end
    end;
look(S) -> lease(S).

lease(S) ->
    S#state{p = look_lease(S#state.p)}.

over(Why, S0) ->
    S = (pause(S0))#state{over = true},
    send({kprof_ended, Why, 0}, S),
    S.

command(lease, _, S) -> S;
command(go, _, S) ->
    make_call(S#state.p#profile.applied),
    S;
command(peek, Ref, #state{paused = undefined} = S0) ->
    S = new_ones(S0),
    read(Ref, S#state{paused = now_ns()}),
    S;
command(Read, Ref, S0) when Read =:= read; Read =:= peek ->
    S = new_ones(pause(S0)),
    read(Ref, S),
    S;
%% Counts from zero: the client has what was counted, or does not want it. A profile that has
%% ended stays ended.
command({continue, _}, _, #state{over = true} = S) -> S;
command({continue, Span}, _, S0) ->
    S = new_ones(S0),
    again(S),
    begins(Span, S#state{paused = undefined, stretch = S#state.stretch + 1});
command(stop, _, S) -> kprof_oneshot:finish(done, S#state.p).

%% The call has returned: nothing is counted any more.
evaluated(S0) ->
    S = (pause(S0))#state{over = true},
    tell_value(S#state.p#profile.applied),
    S.

ended(Reason, S0) ->
    S = pause(S0),
    [send(Msg, S) || Msg <- kprof_call:outcome(Reason, S0#state.p#profile.applied)],
    S1 = S#state{p = S#state.p#profile{applied = done}, over = true},
    tell_sentry(S1#state.p),
    S1.

%% ------------------------------------------------------------- counters ----

%% All functions count from the same moment on, until the same moment Span ms later (0: until a
%% command). A counter of calls is one word, which restart zeroes in place. Counters of time and
%% memory need no restart, since no process has flags while they are set, and must not have one:
%% see again/1.
begins(Span, #state{stretch = Stretch, kind = Kind} = S) ->
    _ = Kind =:= call_count andalso at_once(restart, S),
    Since = now_ns(),
    Span > 0 andalso erlang:send_after(Span, self(), {span_over, Stretch}),
    S#state{since = Since}.

pause(#state{paused = undefined} = S0) ->
    S = new_ones(S0),
    at_once(pause, S) orelse each(pause, S),
    S#state{paused = now_ns()};
pause(S) -> S.

%% Counts from zero. `restart`, and `true` where there is a counter, free a table that other
%% schedulers write to, even while it is paused, and the VM crashes. So each counter of time and
%% memory is taken away and set again.
again(#state{kind = call_count} = S) -> at_once(restart, S) orelse each(true, S);
again(S) ->
    each(false, S),
    each(true, S).

arm(#state{p = #profile{session = Session}, kind = Kind, patterns = Armed} = S) ->
    lists:foldl(fun(P, N) ->
                        pattern(Session, P, true, Kind),
                        arm_look(N, S#state.p),
                        kprof_oneshot:heed(0, S#state.p),
                        N + 1
                end, 1, Armed).

%% One pattern for all functions. One by one they take 5 ms each where the node is busy, and up to
%% 40. On OTP 25 and 26 others may have counters of functions that are not armed: there it is used
%% only if all modules are armed, and none was loaded since except with our counters.
at_once(What, #state{p = #profile{session = Session}, kind = Kind, patterns = Armed, all = All,
                     ahead = Ahead}) ->
    length(Armed) > 1 andalso
        (Session =/= legacy orelse is_all(All) orelse (All =/= none andalso Ahead =:= true)) andalso
        is_integer(pattern(Session, {'_', '_', '_'}, What, Kind)).

is_all(All) -> All =:= lists:sort(erlang:loaded()).

all_modules(Before, Armed) ->
    case Before -- [M || {M, '_', '_'} <- Armed] of
        [?MODULE] -> lists:sort(erlang:loaded());
        _ -> none
    end.

each(What, #state{p = #profile{session = Session}, kind = Kind, patterns = Armed} = S) ->
    [begin pattern(Session, P, What, Kind), kprof_oneshot:heed(0, S#state.p) end || P <- Armed],
    ok.

%% High priority is for what ends the profile in time; reading has none.
read(Ref, #state{functions = Functions, rows_max = Max} = S) ->
    process_flag(priority, normal),
    read(Functions, Ref, #{gone => 0, deleted => 0, merged => 0, left => Max}, S),
    process_flag(priority, high).

%% Rows are sent as they are read. Reading time or memory stops all schedulers once for each
%% function, so the node gets as much time in between as that took.
read([], Ref, #{gone := Gone, deleted := Deleted, merged := Merged}, S) ->
    reply(Ref,
          #{elapsed => S#state.paused - S#state.since, gone => Gone, deleted => Deleted,
            merged => Merged, names => names(S),
            stretch => S#state.stretch, came => S#state.came, missed => S#state.missed,
            ahead => S#state.ahead}, S);
read(Functions, Ref, Sums0, S) ->
    Began = now_ms(),
    {Now, Later} = lists:split(min(?CHUNK, length(Functions)), Functions),
    {Rows, Sums} = lists:foldl(fun(MFA, Acc) -> row(MFA, Acc, S) end, {[], Sums0}, Now),
    Rows =:= [] orelse send({kprof_rows, Ref, Rows}, S),
    kprof_oneshot:heed(now_ms() - Began, S#state.p),
    read(Later, Ref, Sums, S).

row({M, F, A}, {Rows, Sums}, #state{kind = none}) -> {[{M, F, A, 0, 0, []} | Rows], Sums};
row({M, F, A} = MFA, {Rows, #{gone := Gone, deleted := Deleted} = Sums},
    #state{p = #profile{session = Session}, kind = Kind} = S) ->
    case counter(Session, MFA, Kind) of
        0 -> {Rows, Sums};
        [] -> {Rows, Sums};
        N when is_integer(N) -> {[{M, F, A, N, 0, []} | Rows], Sums};
        All when is_list(All) ->
            case [sum(P) || P <- All, is_counted(element(1, P), S)] of
                [] -> {Rows, Sums};
                Ps ->
                    {Calls, Value} = total(Ps),
                    {Shown, Sums1} = shown(Ps, Sums, S),
                    {[{M, F, A, Calls, Value, Shown} | Rows], Sums1}
            end;
        _ ->
            Is = case erlang:module_loaded(M) of true -> 0; false -> 1 end,
            {Rows, Sums#{gone := Gone + 1, deleted := Deleted + Is}}
    end.

sum({Pid, Calls, S, Us}) -> {Pid, Calls, S * 1000000 + Us};
sum({Pid, Calls, Words}) -> {Pid, Calls, max(0, Words)}.        % signed in the VM

total(Ps) ->
    lists:foldl(fun({_, C, V}, {Calls, Value}) -> {Calls + C, Value + V} end, {0, 0}, Ps).

%% As many rows as the client wants: the greatest, and the rest in one.
shown(_, Sums, #state{by = total}) -> {[], Sums};
shown(Ps, #{left := Left, merged := Merged} = Sums, _) ->
    case length(Ps) of
        N when N =< Left -> {Ps, Sums#{left := Left - N}};
        N ->
            {Most, Rest} = lists:split(Left, lists:reverse(lists:keysort(3, Ps))),
            {Calls, Value} = total(Rest),
            {Most ++ [{others, Calls, Value}], Sums#{left := 0, merged := Merged + N - Left}}
    end.

names(#state{by = total}) -> [];
names(_) -> kprof_oneshot:names().

reply(Ref, Result, S) ->
    send({kprof_reply, Ref, Result}, S).

send(Msg, S) ->
    send(Msg, now_ms() + S#state.p#profile.lease_ms, S).

send(Msg, Deadline, S) ->
    send_try(Msg, Deadline, ?RETRY_MS, S#state.p) =:= ok orelse send(Msg, Deadline, S).

%% ------------------------------------------------------------------ end ----

%% Known: the modules that have no counters by on_load.
legacy_armed(Armed, All, Kind, true, Known) -> [{Armed, All, Kind, Known}];
legacy_armed(Armed, All, Kind, _, _) -> [{Armed, All, Kind, none}].

%% By one pattern where that is the same: one by one takes seconds on a busy node, and the next
%% count is refused meanwhile.
legacy_clear({Armed, All, Kind, Known}) ->
    Known =:= none orelse on_load_unset(legacy, true, Kind),
    case is_all(All) orelse (All =/= none andalso Known =/= none) of
        true -> pattern(legacy, {'_', '_', '_'}, false, Kind);
        false ->
            New = if Known =:= none -> []; true -> erlang:loaded() -- Known end,
            [pattern(legacy, P, false, Kind) || P <- Armed ++ [{M, '_', '_'} || M <- New]]
    end.

%% ------------------------------------------------- the two trace back ends ----

pattern(Session, MFA, What, Kind) ->
    trace_set(Session, MFA, What, [Kind]).

%% An integer or a list; anything else means that it is not counted (any more).
counter(Session, MFA, Kind) ->
    {Kind, V} = trace_read(Session, MFA, Kind),
    V.
