%% kprof_agent_arming - arms the plan, changes it and takes it back; and the entries'
%% counters, which go on counting while tracing is off. At its end: how a pattern or counter is set.
-module(kprof_agent_arming).

-export([use_plan/3, items/1, rearm/1, wait/1, ready/1, open/1, close/3, watch_entries/1,
         is_watching/1, disarm_wholly/2, flags_rest/1, breathe/1, answer_lease/1, by_kind/1,
         set_patterns/2, disarm/2, is_resting/1, relieve/1, respec/3, respec_tiers/2,
         change_plan/3, entries/1, reply_to_change/2, entry_calls/1, read_counters/1,
         counters_now/1, unarmed/1, count_entries/2, tracer/1, foreign_tracing/1, taken/2,
         is_others_now/2, pattern/3, pattern/4, set_counter/3, is_watched/2, counter/2,
         traced/2]).

-import(kprof_agent_cost, [arm_tier/2, cost_clear/1, count_tiers/1, counting/2, read_tiers/1,
         uncount_tiers/1, window_begin/1, with_counters/3]).
-import(kprof_agent_events, [drain_all/1, drain_meanwhile/1, flush_some/1, notice/2, over_limit/3,
         probe_wake/1]).
-import(kprof_agent_flags, [flags_await/1, flags_drop/1, flags_ensure/1, flags_lent/1, flags_set/1,
         flags_trim/1, monitor_start/1, sweep_less/1, walk_progress/3]).
-import(kprof_agent_foreign, [all_traced/1, know_plan/2, unceded/1]).
-import(kprof_agent_intact, [canary_put/1, trace_info/3, watch_put/1, watch_trim/1]).
-import(kprof_agent_messages, [armed_spec/2, messages_begin/1, messages_end/1]).
-import(kprof_agent_sentry, [alive/0, alive/1, tell_sentry/2]).
-import(kprof_agent_server, [reply/3, send_state/1]).
-import(kprof_agent_stacks, [stacks_sleep/1, stacks_wake/1]).
-import(kprof_injected, [functions/1, now_ms/0, now_ns/0]).
-import(kprof_tracing, [trace_delivered/1, trace_set/4]).

-include("kprof_agent.hrl").

-define(FEW_MODULES, 8).        % whose patterns are gone at once
-define(FEW_PROCESSES, 20000).  % whose flags go between two slices: some 30 ms of CPU time
-define(QUIET_MS, 100).         % longest wait for flags to be taken before patterns

%% Items: [{MFA, Kind, Spec, Fallback}]; Fallback is [] except for exact tiers.
-spec use_plan([tuple()], fun((#state{}) -> Result), #state{}) -> Result when
      Result :: {ok | {error, term()}, #state{}}.
use_plan(Items, Then, S0) ->
    S = disarm(idle, S0),
    Plan = items(Items),
    case taken([I#item.mfa || I <- Plan], S) of
        [] ->
            tell_sentry(kprof_agent_sentry:patterns(Plan), S),
            S1 = plan(Plan, retire_counters(S)),
            count_entries(S1, true),
            Then(S1#state{entry_calls = disarmed_now(S1)});
        Taken -> {traced_by_others(Taken, S), S}
    end.

traced_by_others(Taken, #state{session = Session}) ->
    {error, {traced_by_others, case all_traced(Session) of
                                   true -> all;
                                   false -> Taken
                               end}}.

plan(Plan, #state{events = Events, probe = Probe} = S) ->
    Sizes = value_sizes(Plan, Probe),
    know_plan(Plan, S#state{plan = Plan, events = Events#events{value_sizes = Sizes}}).

-spec items([tuple()]) -> [#item{}].
items(Items) ->
    [#item{mfa = MFA, kind = Kind, spec = Spec, fallback = Fallback}
     || {MFA, Kind, Spec, Fallback} <- Items].

%% Only the relay copies values, so only there their sizes matter.
value_sizes(_, native) -> #{};
value_sizes(Plan, relay) ->
    maps:from_list([{MFA, {0, 0}}
                    || #item{mfa = MFA, fallback = F} <- Plan, F =/= []]).

%% Arms tiers first and entries last, when all processes have their flags, so that no
%% request starts half armed. Old tokens may still be in processes. Entries take them
%% away first, or else the tiers' functions would be traced for them while the arming
%% goes on.
-spec rearm(#state{}) -> {ok | {error, term()}, #state{}}.
rearm(S0) ->
    case ready(S0) of
        {ok, S} -> open(S);
        Failed -> Failed
    end.

%% A slice of time in which all requests are measured has these steps, the last of which leaves
%% as little in the node as can be:
%%
%%   ready   tiers are armed; entries take tokens, or are timed as they were
%%   open    requests begin
%%   close   no request begins any more; those that have begun go on
%%   rest    nothing is armed, and no process has flags (disarm_wholly/2); or
%%   watch   nothing but entries is armed: as from close on, their events have no tokens, and show
%%           how long each takes
-spec ready(#state{}) -> {ok | {error, term()}, #state{}}.
ready(#state{plan = []} = S) -> {{error, no_plan}, S};
ready(#state{state = armed, entry_calls = #entry_calls{closed = watched} = Calls} = S) ->
    ready_all(S#state{entry_calls = Calls#entry_calls{closed = timed}});
ready(#state{state = armed} = S) -> {ok, S};
ready(#state{plan = Plan} = S) ->
    case [I#item.mfa || is_resting(S), I <- Plan, is_others_now(I, S)] of
        [] -> ready_all(S#state{state = idle});
        Taken -> {traced_by_others(Taken, S), S}
    end.

ready_all(S0) ->
    Monitored = monitor_start(sweep_less(canary_put(unceded(S0)))),
    S = flags_trim(flags_ensure(Monitored)),
    tell_sentry(counting(S#state.plan, S), S),
    {Entries, Tiers} = by_kind([I || I <- S#state.plan, not I#item.gone]),
    [pattern(S#state.session, I#item.mfa, ?TAKE_TOKEN) || not is_timed(S), I <- Entries],
    case arm_tiers(Tiers, S) of
        {[], Armed} -> entries_ready(flags_await(probe_wake(Armed)));
        {Failed, Armed} -> {{error, {not_armed, Failed}}, disarm(idle, Armed)}
    end.

entries_ready({ok, S0}) ->
    S1 = messages_begin(read_counters(watch_put(watch_trim(S0)))),
    #state{entry_calls = Calls, hot = Hot} = S1,
    Closed = not is_timed(S1) orelse timed,
    Ready = S1#state{state = armed, entry_calls = Calls#entry_calls{closed = Closed},
                    hot = Hot#hot{over = 0}},
    {ok, count_tiers(window_begin(stacks_wake(Ready)))};
entries_ready({Error, S}) -> {Error, disarm(idle, S)}.

-spec open(#state{}) -> {ok | {error, term()}, #state{}}.
open(#state{state = armed, entry_calls = #entry_calls{closed = false}} = S) -> {ok, S};
open(#state{state = armed} = S0) ->
    #state{entry_calls = Calls} = S = read_counters(S0),
    Open = S#state{entry_calls = Calls#entry_calls{closed = false, unarmed = unarmed(S)}},
    case set_patterns(to_arm(entries_of(Open)), Open) of
        [] -> {ok, Open};
        Failed -> {{error, {not_armed, Failed}}, disarm(idle, Open)}
    end;
open(S) -> {{error, not_ready}, S}.

%% Answers when all events from before have been sent. Timed: entries with the match specs by
%% which their calls are timed from now on; [] if they only take tokens.
-spec close([#item{}], reference(), #state{}) -> #state{}.
close(Timed, Ref, #state{state = armed, entry_calls = #entry_calls{closed = false}} = S0) ->
    #state{entry_calls = Calls, plan = Plan} = S1 = read_counters(S0),
    Specs = maps:from_list([{MFA, Spec} || #item{mfa = MFA, spec = Spec} <- Timed]),
    %% One that a change has just added begins no request until the daemon knows of it.
    Other = fun(#item{kind = entry, spec = [_ | _]}) when Timed =/= [] -> ?TAKE_TOKEN;
               (#item{spec = Spec}) -> Spec
            end,
    S2 = S1#state{plan = [I#item{spec = maps:get(I#item.mfa, Specs, Other(I))} || I <- Plan],
                  entry_calls = Calls#entry_calls{closed = Timed =:= [] orelse timed}},
    _ = set_patterns(to_arm(entries_of(S2)), S2),
    S = read_counters(S2),
    reply_to_change(Ref, S#state{entry_calls = disarmed_now(S)});
close(_, Ref, S) -> reply_to_change(Ref, S).

%% Tiers are taken before entries are armed again. Flags of processes stay.
-spec watch_entries(#state{}) -> {ok | {error, term()}, #state{}}.
watch_entries(#state{state = armed, entry_calls = #entry_calls{closed = timed}} = S0) ->
    {Entries, Tiers} = by_kind(to_arm(S0#state.plan)),
    Quiet = messages_end(cost_clear(stacks_sleep(read_counters(S0)))),
    #state{entry_calls = Calls, cost = Cost} = S1 = clear_patterns(Tiers, [], Quiet),
    S = canary_put(S1#state{entry_calls = Calls#entry_calls{closed = watched},
                            cost = Cost#cost{measured_at = never}}),
    Cleared = [I || I <- Entries, traced(S#state.session, I#item.mfa) =/= local],
    case set_patterns(Cleared, S) of
        [] -> {ok, S};
        Failed -> {{error, {not_armed, Failed}}, disarm(idle, S)}
    end;
watch_entries(S) -> {{error, not_timed}, S}.

is_timed(#state{state = State, entry_calls = #entry_calls{closed = Closed}}) ->
    State =:= armed andalso Closed =:= timed.

-spec is_watching(#state{}) -> boolean().
is_watching(#state{state = State, entry_calls = #entry_calls{closed = Closed}}) ->
    State =:= armed andalso Closed =:= watched.

%% For the first slice.
-spec wait(#state{}) -> {ok, #state{}}.
wait(#state{state = armed} = S) -> {ok, disarm(waiting, S)};
wait(S) -> {ok, S#state{state = waiting}}.

%% For the next slice (waiting), or until it is resumed. Flags of many processes take longer than
%% they cost while they stand.
-spec disarm_wholly(waiting | paused, #state{}) -> #state{}.
disarm_wholly(State, S) ->
    flags_rest(disarm(State, S)).

%% Called at each tick, too: a kprof that counted by the flags may have ended meanwhile.
-spec flags_rest(#state{}) -> #state{}.
flags_rest(#state{state = State, process_flags = #process_flags{set = [_ | _]}} = S)
  when State =:= waiting; State =:= paused ->
    case erlang:system_info(process_count) =< ?FEW_PROCESSES andalso not flags_lent(S) of
        true -> flags_drop(S);
        false -> S
    end;
flags_rest(S) -> S.

to_arm(Items) -> [I || I <- Items, not I#item.gone].

entries_of(#state{plan = Plan}) -> element(1, by_kind(Plan)).

arm_tiers(Items, S) ->
    lists:foldl(fun(I, {Failed, S1}) ->
                        {Why, S2} = arm_tier(I, S1),
                        {Why ++ Failed, breathe(S2)}
                end, {[], S}, Items).

%% Called between any two patterns, since many of them take long on a busy node: answers the
%% daemon, and keeps events from piling up. While the plan is being armed, events are of old
%% tokens and are dropped. While it is being changed, no more of them wait than the limits
%% allow, and rings are emptied as always.
breathe(#state{state = armed, probe = native} = S) -> answer_lease(drain_meanwhile(S));
breathe(#state{state = armed} = S) ->
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    answer_lease(case over_limit(0, Queue, S) of
                     false -> S;
                     _ -> flush_some(S)
                 end);
breathe(S) -> answer_lease(flush_some(S)).

%% Takes one renewal of the lease from the queue, if there is one. Events go on meanwhile: a count
%% from before them would look as if the VM had forgotten calls.
answer_lease(#state{lease = #lease{daemon = Daemon} = Lease} = S) ->
    alive(S),
    receive
        {kprof, Daemon, Ref, lease} ->
            S0 = S#state{lease = Lease#lease{renewed_at = now_ms(), ref = Ref}},
            S1 = case S0#state.state of armed -> read_counters(S0); _ -> S0 end,
            send_state(S1)
    after 0 ->
            S
    end.

-spec by_kind([#item{}]) -> {Entries :: [#item{}], Tiers :: [#item{}]}.
by_kind(Items) ->
    lists:partition(fun(#item{kind = K}) -> K =:= entry end, Items).

%% Returns the functions that could not be armed, with the reason.
-spec set_patterns([#item{}], #state{}) -> [{mfa(), term()}].
set_patterns(Items, #state{session = Session} = S) ->
    Set = [{MFA, pattern(Session, MFA, armed_spec(I, S))} || #item{mfa = MFA} = I <- Items],
    [Failed || {_, R} = Failed <- Set, R =/= 1].

%% Switches tracing off, in this order.
%%
%% A pattern changes only after every scheduler has passed through: some
%% milliseconds for each pattern on a busy node, during which events go on. So
%% first the entries' patterns take their callers' tokens and give no new ones;
%% a token that a process still has goes with its next request. Then all patterns
%% are removed: those of a session at once, others module by module. Events that
%% come meanwhile are dropped, except at the end, when they are handed over.
%%
%% The processes' trace flags stay; disarm_wholly/2 takes them after that. The exception is
%% a node without sessions and with many patterns: it would make events for seconds, so there
%% the flags are removed first. They are set again when all patterns are gone, because
%% kprof_counters counts by them. While tracing is off, no pattern in the node is ours.
-spec disarm(State :: term(), #state{}) -> #state{}.
disarm(State, S) ->
    case is_resting(S) of
        true -> S#state{state = State};
        false -> disarm_all(State, S)
    end.

disarm_all(State, #state{session = Session, state = Was} = S0) ->
    {Entries, Tiers} = by_kind(S0#state.plan),
    [pattern(Session, I#item.mfa, ?TAKE_TOKEN)
     || Was =:= armed, S0#state.entry_calls#entry_calls.closed =:= false, I <- Entries],
    Off = no_longer_armed(Was, stacks_sleep(S0#state{state = State})),
    Quiet = messages_end(cost_clear(Off#state{unfinished = disarm})),
    #state{events = Events} = Cleared = clear_patterns(Tiers, Entries, Quiet),
    S = measured_again(State, Cleared#state{unfinished = none,
                                            events = Events#events{disarmed_at = now_ns()}}),
    tell_sentry([], S),
    case Was of
        armed -> kprof_agent_flags:sweep(S#state.sched_gc#sched_gc.flags, S);
        _ -> S
    end.

%% What tracing adds to a call is measured after a pause, not in each slice.
measured_again(waiting, S) -> S;
measured_again(_, #state{cost = Cost} = S) -> S#state{cost = Cost#cost{due = now}}.

no_longer_armed(armed, S0) ->
    case read_counters(S0) of
        #state{entry_calls = #entry_calls{closed = false}} = S ->
            S#state{entry_calls = disarmed_now(S)};
        #state{entry_calls = Calls} = S ->
            S#state{entry_calls = Calls#entry_calls{closed = false}}
    end;
no_longer_armed(_, S) -> S.

disarmed_now(#state{entry_calls = Calls} = S) ->
    Calls#entry_calls{unarmed_from = entry_calls(S)}.

-spec is_resting(#state{}) -> boolean().
is_resting(#state{unfinished = disarm}) -> false;
is_resting(#state{state = paused}) -> true;
is_resting(#state{state = waiting}) -> true;
is_resting(#state{state = {tripped, _}}) -> true;
is_resting(_) -> false.

clear_patterns(Tiers, Entries, #state{session = legacy} = S) ->
    case takes_flags_first(S) of
        true ->
            S1 = clear_legacy(Tiers, Entries, flags_away(S)),
            if S1#state.leaving -> S1;
               true -> flags_ensure(S1)
            end;
        false -> clear_legacy(Tiers, Entries, S)
    end;
clear_patterns(_, _, #state{cost = Cost} = S) ->
    pattern(S#state.session, {'_', '_', '_'}, false),
    uncount_tiers(relieve(S#state{cost = Cost#cost{measured_at = never}})).

clear_legacy(Tiers, Entries, S0) ->
    #state{hot = Hot} = S = clear_modules(Entries, clear_modules(Tiers, S0)),
    S#state{hot = Hot#hot{counters = #{}}}.

%% On a busy node a pattern takes as long as some hundred processes. kprof_counters must not
%% notice a pause.
takes_flags_first(#state{process_flags = #process_flags{set = []}}) -> false;
takes_flags_first(#state{plan = Plan, state = State, leaving = Leaving} = S) ->
    N = length(lists:usort([M || #item{mfa = {M, _, _}} <- Plan])),
    (Leaving orelse is_tuple(State) andalso not flags_lent(S)) andalso
        N > ?FEW_MODULES andalso N * 500 > erlang:system_info(process_count).

%% Takes the flags of all processes that let us; drops events meanwhile.
flags_away(S) ->
    flags_away(now_ms() + ?QUIET_MS, flags_drop(S)).

flags_away(Until, #state{process_flags = #process_flags{walk = {{Pid, _}, walking}}} = S) ->
    receive
        {walk, Pid, What} -> flags_away(Until, walk_progress(Pid, What, S))
    after 1 ->
            case now_ms() < Until of
                true -> flags_away(Until, relieve(S));
                false -> S
            end
    end;
flags_away(_, #state{last_trip = #{} = Trip, state = {tripped, _}} = S) ->
    S#state{last_trip = Trip#{quiet_at => now_ns()}};
flags_away(_, S) -> S.

clear_modules(Items, S) ->
    ByModule = maps:groups_from_list(
                 fun(#item{mfa = {M, _, _}}) -> M end,
                 fun(I) -> I#item.mfa end, Items),
    maps:fold(fun(M, MFAs, S1) ->
                      clear_module(M, MFAs, S1),
                      relieve(S1)
              end, S, ByModule).

clear_module(M, MFAs, S) ->
    Patterns = with_counters(all_or_each(M, MFAs, S), MFAs, S),
    [pattern(legacy, What, false, How) || {What, How} <- Patterns].

relieve(S) ->
    alive(S),
    case S of
        #state{state = idle} -> S;
        #state{state = armed} -> breathe(S);
        _ -> flush_some(S)
    end.

%% One pattern for all functions of a module in which nobody else traces anything.
all_or_each(_, [MFA], _) -> [MFA];
all_or_each(M, MFAs, S) ->
    Plan = [I#item.mfa || I <- S#state.plan],
    IsOurs = fun({F, A}) ->
                     traced(legacy, {M, F, A}) =:= false orelse
                         lists:member({M, F, A}, Plan)
             end,
    case lists:all(IsOurs, functions(M)) of
        true -> [{M, '_', '_'}];
        false -> MFAs
    end.

%% Another match spec for one armed function (a new sampling rate).
-spec respec(mfa(), [tuple()] | false, #state{}) -> {ok | {error, term()}, #state{}}.
respec(MFA, Spec, S) ->
    case lists:keyfind(MFA, #item.mfa, S#state.plan) of
        #item{} = Old ->
            I = Old#item{spec = Spec},
            Plan = lists:keyreplace(MFA, #item.mfa, S#state.plan, I),
            %% That of an entry is for the next step of a slice.
            S#state.state =:= armed andalso
                (I#item.kind =:= tier orelse Spec =:= false orelse
                 S#state.entry_calls#entry_calls.closed =:= false) andalso set_patterns([I], S),
            {ok, count_tiers(S#state{plan = Plan})};
        false -> {{error, not_in_plan}, S}
    end.

%% Other match specs for these tiers, which stay armed. Those that are not armed stay as they are,
%% and so does one that is not traced 'exactly' any more.
-spec respec_tiers([#item{}], #state{}) -> #state{}.
respec_tiers(Items, #state{plan = Old} = S) ->
    New = maps:from_list([{I#item.mfa, I} || I <- Items]),
    Plan = [respecced(I, maps:get(I#item.mfa, New, none)) || I <- Old],
    {_, S1} = case S#state.state of
                  armed -> arm_tiers(Plan -- Old, S#state{plan = Plan});
                  _ -> {[], S#state{plan = Plan}}
              end,
    S1.

respecced(#item{kind = tier, gone = false, spec = [_ | _] = Spec} = I, #item{} = New) ->
    #item{spec = Exact, fallback = Fallback} = New,
    I#item{spec = case I#item.fallback of Spec -> Fallback; _ -> Exact end, fallback = Fallback};
respecced(I, _) -> I.

%% Replaces the plan by its difference to another one: Take and Put. A function that is in
%% neither stays as it is, with its pattern and its counter. Makes all of the change or none.
-spec change_plan([mfa()], [#item{}], #state{}) -> {ok | {error, term()}, #state{}}.
change_plan(Take, Put, #state{plan = Old} = S) ->
    Changes = fun(#item{mfa = MFA}) ->
                      lists:member(MFA, Take) orelse lists:keymember(MFA, #item.mfa, Put)
              end,
    case taken([I#item.mfa || I <- Put], S) of
        [] ->
            {Gone, Kept} = lists:partition(Changes, Old),
            change_plan(Gone, Kept, Put, know_plan(Put, S));
        Taken -> {{error, {traced_by_others, Taken}}, S}
    end.

%% Flags that either plan needs are set before the change; flags that the new plan does not
%% need are taken after it.
change_plan(Gone, Kept, Put, #state{plan = Old} = S0) ->
    case flags_for(Kept ++ Put ++ Old, S0) of
        {ok, S} -> change_plan_now(Gone, Kept, Put, S);
        Failed -> Failed
    end.

flags_for(Plan, #state{state = armed, plan = Old} = S0) ->
    {Result, S} = flags_set(S0#state{plan = Plan}),
    {Result, S#state{plan = Old}};
flags_for(_, S) -> {ok, S}.

change_plan_now(Gone, Kept, Put, #state{session = Session} = S0) ->
    Were = entries(Gone),
    Are = entries(Put),
    tell_sentry(kprof_agent_sentry:patterns(Put) ++ counting(Put, S0),
                           S0),
    [set_counter(Session, MFA, true) || MFA <- Are -- Were],
    {Result, S1} = change_patterns(Gone, Put, Are -- Were, S0#state{unfinished = {change, Put}}),
    S2 = S1#state{unfinished = none},
    S = case Result of
            ok -> changed_plan(Gone, Kept, Put, Were -- Are, S2);
            _ ->
                [set_counter(Session, MFA, false) || MFA <- Are -- Were],
                S2
        end,
    tell_sentry([], S),
    {Result, count_tiers(trace_on(S))}.

changed_plan(Gone, Kept, Put, NoEntries, #state{session = Session, events = Events} = S0) ->
    #state{entry_calls = #entry_calls{read = Read}} = S = read_counters(S0),
    Calls = lists:sum([maps:get(MFA, Read, 0) || MFA <- NoEntries]),
    [set_counter(Session, MFA, false) || MFA <- NoEntries],
    Sizes = maps:without([I#item.mfa || I <- Gone], Events#events.value_sizes),
    AllSizes = maps:merge(Sizes, value_sizes(Put, S#state.probe)),
    read_counters(S#state{plan = Kept ++ Put, events = Events#events{value_sizes = AllSizes},
                          entry_calls = add_base(Calls, S#state.entry_calls)}).

add_base(N, #entry_calls{base = Base} = Calls) ->
    Calls#entry_calls{base = Base + N}.

%% Losses during a change do not trip. So if the probe has ended itself meanwhile, this is
%% the only place that starts it again.
trace_on(#state{state = armed} = S) -> flags_trim(probe_wake(S));
trace_on(S) -> S.

-spec entries([#item{}]) -> [mfa()].
entries(Items) ->
    [MFA || #item{mfa = MFA, kind = entry} <- Items].

%% Old patterns are cleared first and entries set last, so that no request starts half armed.
change_patterns(Gone, Put, New, #state{state = armed, session = Session} = S0) ->
    {Entries, Tiers} = by_kind(Put),
    S1 = lists:foldl(fun(MFA, S) ->
                             pattern(Session, MFA, false),
                             breathe(S)
                     end, S0, [MFA || #item{mfa = MFA} <- Gone,
                                      not lists:keymember(MFA, #item.mfa, Put)]),
    case arm_tiers(Tiers, S1) of
        {[], S2} ->
            Calls = counted(New, S2),
            case set_patterns(Entries, S2) of
                [] -> {ok, S2#state{entry_calls = add_unarmed(Calls, S2#state.entry_calls)}};
                Failed -> change_undo(Gone, Put, Failed, S2)
            end;
        {Failed, S2} -> change_undo(Gone, Put, Failed, S2)
    end;
change_patterns(_, _, _, S) -> {ok, S}.

%% Between slices they are among all that no request can begin with.
add_unarmed(N, #entry_calls{closed = false, unarmed = Unarmed} = Calls) ->
    Calls#entry_calls{unarmed = Unarmed + N};
add_unarmed(_, Calls) -> Calls.

change_undo(Gone, Put, Failed, #state{session = Session} = S) ->
    [pattern(Session, MFA, false)
     || #item{mfa = MFA} <- Put, not lists:keymember(MFA, #item.mfa, Gone)],
    _ = set_patterns(Gone, S),
    {{error, {not_armed, Failed}}, S}.

%% Answers a change after all events from before it.
-spec reply_to_change(reference(), #state{}) -> #state{}.
reply_to_change(Ref, #state{probe = native} = S) -> reply(Ref, ok, drain_all(S));
reply_to_change(Ref, #state{state = armed, session = Session} = S) ->
    S#state{changing = [{trace_delivered(Session), Ref} | S#state.changing]};
reply_to_change(Ref, S) -> reply(Ref, ok, S).

%% ------------------------------------------------- calls of the entries ----

%% How often entries had been called, armed or not, when the counters were last read. Never
%% falls: of a counter that went with its code, or that somebody set back, the last reading
%% counts.
-spec entry_calls(#state{}) -> integer().
entry_calls(#state{entry_calls = #entry_calls{read = Read, base = Base}}) ->
    lists:sum([Base | maps:values(Read)]).

counted(MFAs, S) ->
    lists:sum([calls(MFA, S) || MFA <- MFAs]).

calls(MFA, #state{session = Session, entry_calls = #entry_calls{read = Read}}) ->
    case counter(Session, MFA) of
        N when is_integer(N) -> N;
        _ -> maps:get(MFA, Read, 0)
    end.

%% Notifies the daemon of counters that were set back, as cprof:restart/0 does it to everybody's
%% on OTP 25 and 26: what they had counted since the last reading is not known.
read_counters(#state{entry_calls = #entry_calls{read_at = Then}} = S0) ->
    case counters_now(S0) of
        {0, S} -> S;
        {SetBack, #state{entry_calls = #entry_calls{read_at = Now}} = S} ->
            notice({kprof_notice, set_back, Now - Then, SetBack}, S)
    end.

%% Returns how many counters of entries were set back by somebody else.
-spec counters_now(#state{}) -> {non_neg_integer(), #state{}}.
counters_now(S0) ->
    #state{plan = Plan, entry_calls = Calls} = S = read_tiers(S0),
    Read = maps:from_list([{MFA, calls(MFA, S)} || MFA <- entries(Plan)]),
    SetBack = [Last || {MFA, Last} <- maps:to_list(Calls#entry_calls.read),
                       maps:get(MFA, Read, Last) < Last],
    {length(SetBack),
     S#state{entry_calls = add_base(lists:sum(SetBack),
                                    Calls#entry_calls{read_at = now_ms(), read = Read})}}.

-spec unarmed(#state{}) -> integer().
unarmed(#state{state = armed, entry_calls = #entry_calls{closed = false, unarmed = Unarmed}}) ->
    Unarmed;
unarmed(#state{entry_calls = #entry_calls{unarmed = Unarmed, unarmed_from = From}} = S) ->
    Unarmed + entry_calls(S) - From.

-spec count_entries(#state{}, boolean()) -> term().
count_entries(#state{session = Session, plan = Plan}, On) ->
    [set_counter(Session, MFA, On) || MFA <- entries(Plan)].

retire_counters(S0) ->
    #state{entry_calls = Calls} = S = read_counters(S0),
    count_entries(S, false),
    S#state{plan = [], entry_calls = Calls#entry_calls{base = entry_calls(S), read = #{}}}.

%% ----------------------------------------------------- patterns and counters ----

-spec tracer(#state{}) -> kprof_flagger:tracer().
tracer(#state{probe = native}) -> kprof_probe:tracer();
tracer(_) -> self().

%% On OTP 25 and 26 everybody shares one tracer for new processes.
-spec foreign_tracing(kprof_flagger:session()) -> false | {new_processes_traced_by, term()}.
foreign_tracing(legacy) ->
    case erlang:trace_info(new_processes, tracer) of
        {tracer, []} -> false;
        {tracer, Who} -> {new_processes_traced_by, kprof_injected:name(Who)}
    end;
foreign_tracing(_) -> false.

%% Returns the functions that somebody else traces, and that we do not.
-spec taken([mfa()], #state{}) -> [mfa()].
taken(MFAs, S) ->
    [MFA || MFA <- MFAs, somebody_elses(S#state.session, MFA, S)].

somebody_elses(legacy, MFA, S) ->
    not lists:keymember(MFA, #item.mfa, S#state.plan) andalso
        has_any([traced, meta, call_count], MFA);
somebody_elses(_, _, _) -> false.

%% While our tracing is off, somebody else may trace a function of our plan.
-spec is_others_now(#item{}, #state{}) -> boolean().
is_others_now(#item{mfa = MFA}, #state{session = legacy}) -> has_any([traced, meta], MFA);
is_others_now(_, _) -> false.

%% The meta tracer of a function that only has a counter is [].
has_any(Kinds, MFA) ->
    lists:any(fun(Kind) ->
                      {Kind, V} = erlang:trace_info(MFA, Kind),
                      not lists:member(V, [false, undefined, []])
              end, Kinds).

%% Returns how many functions match (0 or 1), or the reason of an error.
-spec pattern(kprof_flagger:session(), mfa() | {module() | '_', '_', '_'}, term()) -> term().
pattern(Session, MFA, Spec) ->
    pattern(Session, MFA, Spec, local).

-spec pattern(kprof_flagger:session(), mfa() | {module() | '_', '_', '_'}, term(),
              local | meta | call_count | counted) -> term().
pattern(Session, MFA, Spec, How) ->
    alive(),
    try trace_set(Session, MFA, Spec, case How of
                                          counted -> [local, call_count];
                                          _ -> [How]
                                      end)
    catch error:Why -> Why
    end.

-spec set_counter(kprof_flagger:session(), mfa() | {module(), '_', '_'}, boolean()) -> term().
set_counter(Session, MFA, On) ->
    pattern(Session, MFA, On, call_count).

-spec is_watched(kprof_flagger:session(), mfa()) -> boolean().
is_watched(legacy, MFA) -> has_any([meta], MFA);
is_watched(_, _) -> false.

%% An integer, or false where nobody counts.
-spec counter(kprof_flagger:session(), mfa()) -> integer() | false | undefined.
counter(Session, MFA) ->
    {call_count, N} = trace_info(Session, MFA, call_count),
    N.

-spec traced(kprof_flagger:session(), mfa()) -> false | local | global | undefined.
traced(Session, MFA) ->
    {traced, How} = trace_info(Session, MFA, traced),
    How.
