%% kprof_agent_arming - the plan, armed, changed, taken back; the entries' counters,
%% which count on without it.
-module(kprof_agent_arming).

-export([arm_plan/2, items/1, rearm/1, breathe/1, by_kind/1, set_patterns/2, disarm/2,
         is_resting/1, relieve/1, respec/3, change_plan/3, entries/1, changing/2, entry_calls/1,
         read_counters/1, unarmed/1, count_entries/2]).

-include("kprof_agent.hrl").

-define(FEW_MODULES, 8).        % whose patterns are gone at once
-define(QUIET_MS, 100).         % longest wait for flags to be taken before them

%% Items: [{MFA, Kind, Spec, Fallback}], Fallback [] but for exact tiers.
-spec arm_plan([#item{}], #s{}) -> {ok | {error, term()}, #s{}}.
arm_plan(Items, S0) ->
    S = disarm(idle, S0),
    Plan = items(Items),
    case kprof_agent_patterns:taken([I#item.mfa || I <- Plan], S) of
        [] ->
            kprof_agent_sentry:own(kprof_agent_sentry:patterns(Plan), S),
            S1 = retire_counters(S),
            S2 = kprof_agent_foreign:know(Plan, S1#s{plan = Plan, exact = exacts(Plan, S1#s.probe)}),
            count_entries(S2, true),
            rearm(S2#s{unarmed_from = entry_calls(S2)});
        Taken ->
            {{error, {traced_by_others, Taken}}, S}
    end.

-spec items([#item{}]) -> [#item{}].
items(Items) ->
    [#item{mfa = MFA, kind = Kind, spec = Spec, fallback = Fallback}
     || {MFA, Kind, Spec, Fallback} <- Items].

%% Their sizes, which matter only to who copies them.
exacts(_, native) ->
    #{};
exacts(Plan, relay) ->
    maps:from_list([{MFA, {0, 0}}
                    || #item{mfa = MFA, fallback = F} <- Plan, F =/= []]).

%% Tiers first, and entries last, when all processes have their flags, so that no
%% request starts half armed. But
%% tokens of before are still about: entries take them first, or else what
%% processes do with them is traced for as long as the arming takes.
-spec rearm(#s{}) -> {ok | {error, term()}, #s{}}.
rearm(#s{plan = []} = S) ->
    {{error, no_plan}, S};
rearm(#s{state = armed} = S) ->
    {ok, S};
rearm(#s{plan = Plan} = S) ->
    case [I#item.mfa || is_resting(S), I <- Plan, kprof_agent_patterns:is_others_now(I, S)] of
        [] -> rearm_all(S#s{state = idle});
        Taken -> {{error, {traced_by_others, Taken}}, S}
    end.

rearm_all(S00) ->
    S0 = kprof_agent_process_flags:flags_trim(kprof_agent_process_flags:flags_ensure(kprof_agent_flags:lookout(kprof_agent_flags:sweep_rest(kprof_agent_intact:canary_put(kprof_agent_foreign:unceded(S00)))))),
    kprof_agent_sentry:own(kprof_agent_hot:counting(S0#s.plan, S0), S0),
    {Entries, Tiers} = by_kind([I || I <- S0#s.plan, not I#item.gone]),
    [kprof_agent_patterns:pattern(S0#s.session, I#item.mfa, ?TAKE_TOKEN) || I <- Entries],
    case arm_tiers(Tiers, S0) of
        {[], S} ->
            rearm_entries(Entries, kprof_agent_process_flags:flags_await(kprof_agent_drain:probe_wake(S)));
        {Failed, S} ->
            {{error, {not_armed, Failed}}, disarm(idle, S)}
    end.

%% When all processes have their flags.
rearm_entries(Entries, {ok, S}) ->
    S1 = kprof_agent_mail:mail_begin(read_counters(kprof_agent_code:watch_put(kprof_agent_intact:watch_left(S)))),
    case set_patterns(Entries, S1) of
        [] ->
            S2 = S1#s{state = armed, unarmed = unarmed(S1), over = 0},
            {ok, kprof_agent_hot:count_tiers(kprof_agent_hot:window_begin(S2))};
        Failed ->
            {{error, {not_armed, Failed}}, disarm(idle, S1)}
    end;
rearm_entries(_, {Error, S}) ->
    {Error, disarm(idle, S)}.

arm_tiers(Items, S) ->
    lists:foldl(fun(I, {Failed, S1}) ->
                        {Why, S2} = kprof_agent_hot:arm_tier(I, S1),
                        {Why ++ Failed, breathe(S2)}
                end, {[], S}, Items).

%% Many patterns take long on a busy node: between any two the daemon has its
%% answer, and events do not pile up. Those of old tokens, on the way to being
%% armed, are nobody's; in a change no more of them wait than may, and rings are
%% emptied as ever.
-spec breathe(#s{}) -> #s{}.
breathe(#s{state = armed, probe = native} = S) ->
    answer_lease(kprof_agent_drain:drain_meanwhile(S));
breathe(#s{state = armed} = S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    answer_lease(case kprof_agent_events:over_limit(0, Queue, S) of
                     false -> S;
                     _ -> kprof_agent_events:flush_some(S)
                 end);
breathe(S) ->
    answer_lease(kprof_agent_events:flush_some(S)).

answer_lease(#s{daemon = Daemon} = S) ->
    receive
        {kprof, Daemon, Ref, lease} ->
            S1 = S#s{lease_at = kprof_injected:now_ms(), lease_ref = Ref},
            _ = kprof_agent_events:send(kprof_agent_status:state_msg(S1), S1),
            S1
    after 0 ->
            S
    end.

-spec by_kind([#item{}]) -> {Entries :: [#item{}], Tiers :: [#item{}]}.
by_kind(Items) ->
    lists:partition(fun(#item{kind = K}) -> K =:= entry end, Items).

%% Those that are not there any more, or not to be traced, with the reason.
-spec set_patterns([#item{}], #s{}) -> [{mfa(), term()}].
set_patterns(Items, #s{session = Session} = S) ->
    [{I#item.mfa, R} || I <- Items,
                        R <- [kprof_agent_patterns:pattern(Session, I#item.mfa, kprof_agent_mail:spec(I, S))],
                        R =/= 1].

%% Switches tracing off, in this order.
%%
%% A pattern changes only after every scheduler has passed through: some
%% milliseconds for each pattern on a busy node, during which events go on. So
%% first the entries' patterns take their callers' tokens and give no new ones;
%% a token that a process still has goes with its next request. Then all patterns
%% are removed: those of a session at once, others module by module. Events that
%% come meanwhile are dropped, except at the end, when they are handed over.
%%
%% The processes' trace flags stay, since without patterns they cost nothing. The
%% exception is a node without sessions and with many patterns: it would make
%% events for seconds, so there the flags are removed first. They are set again
%% when all patterns are gone, because kprof_counters counts by them. While tracing
%% is off, no pattern in the node is ours.
-spec disarm(State :: term(), #s{}) -> #s{}.
disarm(State, S) ->
    case is_resting(S) of
        true -> S#s{state = State};
        false -> disarm_all(State, S)
    end.

disarm_all(State, #s{session = Session, state = Was} = S) ->
    {Entries, Tiers} = by_kind(S#s.plan),
    [kprof_agent_patterns:pattern(Session, I#item.mfa, ?TAKE_TOKEN)
     || I <- Entries, Was =:= armed],
    S1 = case Was of
             armed ->
                 Now = read_counters(S#s{state = State}),
                 Now#s{unarmed_from = entry_calls(Now)};
             _ -> S#s{state = State}
         end,
    S2 = (clear_patterns(Tiers, Entries, kprof_agent_mail:mail_end(kprof_agent_traced:traced_clear(S1#s{amid = disarm}))))#s{amid = none},
    kprof_agent_sentry:own([], S2),
    S3 = S2#s{disarmed_at = kprof_injected:now_ns()},
    case Was of
        armed -> kprof_agent_flags:sweep(S3#s.flags, S3);
        _ -> S3
    end.

-spec is_resting(#s{}) -> boolean().
is_resting(#s{amid = disarm}) -> false;
is_resting(#s{state = paused}) -> true;
is_resting(#s{state = {tripped, _}}) -> true;
is_resting(_) -> false.

clear_patterns(Tiers, Entries, #s{session = legacy} = S) ->
    case is_quieter(S) of
        true ->
            S1 = clear_modules(Entries, clear_modules(Tiers, quiet(S))),
            S2 = if S1#s.leaving -> S1; true -> kprof_agent_process_flags:flags_ensure(S1) end,
            S2#s{tiers = #{}};
        false ->
            S1 = clear_modules(Entries, clear_modules(Tiers, S)),
            S1#s{tiers = #{}}
    end;
clear_patterns(_, _, S) ->
    kprof_agent_patterns:pattern(S#s.session, {'_', '_', '_'}, false),
    kprof_agent_hot:uncount_tiers(relieve(S#s{traced_at = never})).

%% On a busy node a pattern takes as long as some hundred processes. Of a pause
%% kprof_counters is to see nothing.
is_quieter(#s{flagged = []}) ->
    false;
is_quieter(#s{plan = Plan, state = State, leaving = Leaving}) ->
    N = length(lists:usort([M || #item{mfa = {M, _, _}} <- Plan])),
    (Leaving orelse is_tuple(State)) andalso
        N > ?FEW_MODULES andalso N * 500 > erlang:system_info(process_count).

%% Of all that let us; events of others do not pile up meanwhile.
quiet(S) ->
    quiet(kprof_injected:now_ms() + ?QUIET_MS, kprof_agent_process_flags:flags_drop(S)).

quiet(Until, #s{walk = {{Pid, _}, walking}} = S) ->
    receive
        {walk, Pid, What} -> quiet(Until, kprof_agent_process_flags:walk_told(Pid, What, S))
    after 1 ->
            case kprof_injected:now_ms() < Until of
                true -> quiet(Until, relieve(S));
                false -> S
            end
    end;
quiet(_, #s{last_trip = #{} = Trip, state = {tripped, _}} = S) ->
    S#s{last_trip = Trip#{quiet_at => kprof_injected:now_ns()}};
quiet(_, S) ->
    S.

clear_modules(Items, S) ->
    ByModule = maps:groups_from_list(
                 fun(#item{mfa = {M, _, _}}) -> M end,
                 fun(I) -> I#item.mfa end, Items),
    maps:fold(fun(M, MFAs, S1) ->
                      [kprof_agent_patterns:pattern(legacy, What, false, How)
                       || {What, How} <- kprof_agent_hot:with_counters(all_or_each(M, MFAs, S), MFAs, S)],
                      relieve(S1)
              end, S, ByModule).

-spec relieve(#s{}) -> #s{}.
relieve(#s{state = idle} = S) -> S;
relieve(S) -> kprof_agent_events:flush_some(S).

%% Of a module with nothing of anybody else's, all functions at once.
all_or_each(_, [MFA], _) ->
    [MFA];
all_or_each(M, MFAs, S) ->
    Plan = [I#item.mfa || I <- S#s.plan],
    case lists:all(fun({F, A}) ->
                           kprof_agent_patterns:traced(legacy, {M, F, A}) =:= false orelse
                               lists:member({M, F, A}, Plan)
                   end, kprof_injected:functions(M)) of
        true -> [{M, '_', '_'}];
        false -> MFAs
    end.

%% Another match spec for one armed function (a new sampling rate).
-spec respec(mfa(), [tuple()] | false, #s{}) -> {ok | {error, term()}, #s{}}.
respec(MFA, Spec, S) ->
    case lists:keyfind(MFA, #item.mfa, S#s.plan) of
        #item{} = Old ->
            I = Old#item{spec = Spec},
            Plan = lists:keyreplace(MFA, #item.mfa, S#s.plan, I),
            case S#s.state of
                armed -> kprof_agent_patterns:pattern(S#s.session, MFA, kprof_agent_mail:spec(I, S));
                _ -> ok
            end,
            {ok, kprof_agent_hot:count_tiers(S#s{plan = Plan})};
        false ->
            {{error, not_in_plan}, S}
    end.

%% Another plan, by its difference to this one: what is not in Take nor in
%% Put stays as it is, its pattern and its counter. All of it, or nothing.
-spec change_plan([mfa()], [#item{}], #s{}) -> {ok | {error, term()}, #s{}}.
change_plan(Take, Put, #s{plan = Old} = S) ->
    Is = fun(MFA, Items) -> lists:keymember(MFA, #item.mfa, Items) end,
    case kprof_agent_patterns:taken([I#item.mfa || I <- Put], S) of
        [] ->
            {Kept, Gone} = lists:partition(
                             fun(#item{mfa = MFA}) ->
                                     not lists:member(MFA, Take) andalso
                                         not Is(MFA, Put)
                             end, Old),
            change_plan(Gone, Kept, Put, kprof_agent_foreign:know(Put, S));
        Taken ->
            {{error, {traced_by_others, Taken}}, S}
    end.

%% What the flags are to be for both is there before, what is for neither goes
%% afterwards.
change_plan(Gone, Kept, Put, #s{plan = Old} = S0) ->
    case flags_for(Kept ++ Put ++ Old, S0) of
        {ok, S} -> change_plan_now(Gone, Kept, Put, S);
        Failed -> Failed
    end.

flags_for(Plan, #s{state = armed, plan = Old} = S0) ->
    {Result, S} = kprof_agent_process_flags:processes_trace(S0#s{plan = Plan}),
    {Result, S#s{plan = Old}};
flags_for(_, S) ->
    {ok, S}.

change_plan_now(Gone, Kept, Put, #s{session = Session} = S) ->
    Were = entries(Gone),
    Are = entries(Put),
    kprof_agent_sentry:own(kprof_agent_sentry:patterns(Put) ++ kprof_agent_hot:counting(Put, S), S),
    [kprof_agent_patterns:count(Session, MFA, true) || MFA <- Are -- Were],
    {Result, S0} = change_patterns(Gone, Put, Are -- Were, S#s{amid = {change, Put}}),
    S1 = S0#s{amid = none},
    case Result of
        ok ->
            Calls = counted(Were -- Are, S1),
            [kprof_agent_patterns:count(Session, MFA, false) || MFA <- Were -- Are],
            MFAs = [MFA || #item{mfa = MFA} <- Gone],
            S2 = read_counters(
                   S1#s{plan = Kept ++ Put,
                        entry_base = S1#s.entry_base + Calls,
                        exact = maps:merge(maps:without(MFAs, S1#s.exact),
                                           exacts(Put, S1#s.probe))}),
            kprof_agent_sentry:own([], S2),
            {ok, kprof_agent_hot:count_tiers(trace_on(S2))};
        Error ->
            [kprof_agent_patterns:count(Session, MFA, false) || MFA <- Are -- Were],
            kprof_agent_sentry:own([], S1),
            {Error, kprof_agent_hot:count_tiers(trace_on(S1))}
    end.

%% What was lost in a change has not tripped: so if the probe has ended itself
%% meanwhile, nobody else would begin it again.
trace_on(#s{state = armed} = S) ->
    kprof_agent_process_flags:flags_trim(kprof_agent_drain:probe_wake(S));
trace_on(S) ->
    S.

-spec entries([#item{}]) -> [mfa()].
entries(Items) ->
    [MFA || #item{mfa = MFA, kind = entry} <- Items].

%% No request starts half armed: what is gone goes first, entries come last.
change_patterns(Gone, Put, New, #s{state = armed, session = Session} = S0) ->
    {Entries, Tiers} = by_kind(Put),
    S1 = lists:foldl(fun(MFA, S) ->
                             kprof_agent_patterns:pattern(Session, MFA, false),
                             breathe(S)
                     end, S0,
                     [MFA || #item{mfa = MFA} <- Gone,
                             not lists:keymember(MFA, #item.mfa, Put)]),
    case arm_tiers(Tiers, S1) of
        {[], S2} ->
            Calls = counted(New, S2),
            case set_patterns(Entries, S2) of
                [] -> {ok, S2#s{unarmed = S2#s.unarmed + Calls}};
                Failed -> change_undo(Gone, Put, Failed, S2)
            end;
        {Failed, S2} ->
            change_undo(Gone, Put, Failed, S2)
    end;
change_patterns(_, _, _, S) ->
    {ok, S}.

change_undo(Gone, Put, Failed, #s{session = Session} = S) ->
    [kprof_agent_patterns:pattern(Session, MFA, false)
     || #item{mfa = MFA} <- Put, not lists:keymember(MFA, #item.mfa, Gone)],
    _ = set_patterns(Gone, S),
    {{error, {not_armed, Failed}}, S}.

%% The answer comes behind every event of before.
-spec changing(reference(), #s{}) -> #s{}.
changing(Ref, #s{probe = native} = S) ->
    kprof_agent_server:reply(Ref, ok, kprof_agent_drain:drain_all(S));
changing(Ref, #s{state = armed, session = legacy} = S) ->
    S#s{changing = {erlang:trace_delivered(all), Ref}};
changing(Ref, #s{state = armed, session = Session} = S) ->
    S#s{changing = {trace:delivered(Session, all), Ref}};
changing(Ref, S) ->
    kprof_agent_server:reply(Ref, ok, S).

%% How often entries had been called, armed or not, when that was read last:
%% of a counter that goes with its code no more is known. Never falls.
-spec entry_calls(#s{}) -> integer().
entry_calls(#s{counted = Counted, entry_base = Base}) ->
    lists:sum([Base | maps:values(Counted)]).

counted(MFAs, S) ->
    lists:sum([calls(MFA, S) || MFA <- MFAs]).

calls(MFA, #s{session = Session, counted = Counted}) ->
    case kprof_agent_patterns:counter(Session, MFA) of
        N when is_integer(N) -> N;
        _ -> maps:get(MFA, Counted, 0)
    end.

-spec read_counters(#s{}) -> #s{}.
read_counters(S0) ->
    S = kprof_agent_hot:read_tiers(S0),
    S#s{counted_at = kprof_injected:now_ms(),
        counted = maps:from_list([{MFA, calls(MFA, S)}
                                  || #item{mfa = MFA, kind = entry}
                                         <- S#s.plan])}.

-spec unarmed(#s{}) -> integer().
unarmed(#s{state = armed} = S) -> S#s.unarmed;
unarmed(S) -> S#s.unarmed + entry_calls(S) - S#s.unarmed_from.

count_entries(#s{session = Session, plan = Plan}, On) ->
    [kprof_agent_patterns:count(Session, I#item.mfa, On) || I <- Plan, I#item.kind =:= entry].

retire_counters(S0) ->
    S = read_counters(S0),
    count_entries(S, false),
    S#s{plan = [], entry_base = entry_calls(S), counted = #{}}.
