%% kprof_agent_cost - what tracing costs the node: counts calls of tiers' functions, in a request or
%% not, and disarms those that are called too often to be traced; measures what it adds to a call.
%%
%% A call without a token sends no event, and yet its caller pays for the match spec. So the VM
%% counts the calls of all armed functions (call_count: 6 to 12 ns a call; reading 2,000
%% counters takes less than a millisecond). The counters of tiers exist only while the tiers
%% are armed, and are set and taken together with the match specs, by the same BIF call
%% wherever many change.
%%
%% Two limits, in calls a second, come from tiers.conf: hot_share bounds one function, budget
%% bounds all of them. A tier's function over the first is disarmed within about a second.
%% Where all together are over the second for ?OVER_WINDOWS seconds, the hottest are disarmed,
%% until the rest fits. An entry cannot be disarmed without losing its requests: where entries
%% alone are over a limit, the agent trips.
%%
%% On OTP 25 and 26 everybody shares one counter, and setting it resets it: a function that
%% somebody else counts is not counted here.
-module(kprof_agent_cost).

-export([counting/2, arm_tier/2, count_tiers/1, read_tiers/1, send_counts/1, check_rates/1,
         window_begin/1, judge_rates/1, uncount_tiers/1, with_counters/3, cost_tick/1, cost_clear/1,
         count_switches/1]).

-import(kprof_agent_arming, [counter/2, entries/1, entry_calls/1, pattern/3, pattern/4,
         read_counters/1, relieve/1, set_counter/3, unarmed/1]).
-import(kprof_agent_events, [add_busy/3, notice/2, trip/3]).
-import(kprof_agent_foreign, [is_calm/1]).
-import(kprof_agent_messages, [armed_spec/2]).
-import(kprof_agent_sentry, [tell_sentry/2]).
-import(kprof_injected, [functions/1, now_ms/0, now_ns/0, spawn_labelled/3]).
-import(kprof_word, [word_number/0]).

-include("kprof_agent.hrl").

-define(WINDOW_MS, 1000).       % one function's calls in this time are limited
-define(WINDOW_SLACK_MS, 100).  % a tick may come early
-define(OVER_WINDOWS, 10).      % fewer windows in a row are a peak
-define(OVER_AIM, 80).          % percent of the budget to be left in use

-define(MEASURE_MS, 60000).     % interval
-define(PAIRS, 32).             % the daemon takes their median
-define(MEASURING_LABEL(Word),
        ((?LABEL_KPROFD bsl ?KIND_BITS) bor (?MEASURING bsl ?CONST_BITS) bor (Word))).

%% Counters that are about to be set, for the sentry to take.
-spec counting([#item{}], #state{}) -> [{call_count, mfa()}].
counting(Items, S) ->
    [{call_count, I#item.mfa} || I <- Items, to_be_counted(I, S)].

to_be_counted(#item{mfa = MFA} = I, #state{session = Session, hot = #hot{counters = Tiers}} = S) ->
    is_counted(I) andalso not is_map_key(MFA, Tiers) andalso
        (counter(Session, MFA) =:= false orelse
         lists:member(MFA, rated_by_us(S))).

rated_by_us(#state{checks = #checks{rating = {_, _, Counted, _, _}}}) -> Counted;
rated_by_us(_) -> [].

is_counted(#item{kind = tier, gone = false, spec = [_ | _]}) -> true;
is_counted(_) -> false.

%% Arms a tier's function for the first time, with a counter unless somebody else has one.
-spec arm_tier(#item{}, #state{}) -> {Failed :: [{mfa(), term()}], #state{}}.
arm_tier(_, #state{entry_calls = #entry_calls{closed = watched}} = S) -> {[], S};
arm_tier(#item{mfa = MFA} = I, #state{session = Session, hot = #hot{counters = Tiers} = H} = S) ->
    {How, S1} = case to_be_counted(I, S) of
                    true -> {counted, S#state{hot = H#hot{counters = Tiers#{MFA => {0, 0}}}}};
                    false -> {local, S}
                end,
    Spec = armed_spec(I, S1),
    case pattern(Session, MFA, Spec, How) of
        1 -> {[], S1};
        Why -> {[{MFA, Why}], S1}
    end.

%% Sets the counters of what is armed now, and no others: after a change of the plan, of a
%% match spec or of code.
count_tiers(#state{entry_calls = #entry_calls{closed = watched}} = S) -> S;
count_tiers(#state{state = armed, plan = Plan, hot = #hot{counters = Tiers}} = S) ->
    Armed = maps:from_list([{MFA, []} || #item{mfa = MFA} = I <- Plan, is_counted(I)]),
    case maps:keys(Armed) =:= maps:keys(Tiers) of
        true -> report_uncounted([], S);
        false -> count_tiers(Armed, S)
    end;
count_tiers(S) -> S.

%% A function that was in a tier and is an entry now has the entry's counter.
count_tiers(Armed, #state{session = Session, plan = Plan, hot = #hot{counters = Tiers} = H} = S0) ->
    Entries = entries(Plan),
    [set_counter(Session, MFA, false)
     || MFA <- maps:keys(Tiers), not is_map_key(MFA, Armed), not lists:member(MFA, Entries)],
    Kept = maps:with(maps:keys(Armed), Tiers),
    S = S0#state{hot = H#hot{counters = Kept}},
    New = counting(Plan, S),
    New =:= [] andalso map_size(Kept) =:= map_size(Tiers) orelse tell_sentry(New, S),
    [set_counter(Session, MFA, true) || {_, MFA} <- New],
    All = lists:foldl(fun({_, MFA}, Acc) -> Acc#{MFA => {0, 0}} end, Kept, New),
    Others = [MFA || MFA <- maps:keys(Armed) -- maps:keys(All),
                     is_integer(counter(Session, MFA))],
    report_uncounted(lists:sort(Others), S#state{hot = H#hot{counters = All}}).

%% Notifies the daemon of functions that somebody else counts, each time that they change.
report_uncounted(Same, #state{hot = #hot{uncounted = Same}} = S) -> S;
report_uncounted([], #state{hot = H} = S) -> S#state{hot = H#hot{uncounted = []}};
report_uncounted(Now, #state{hot = H} = S) ->
    Notice = {kprof_notice, uncounted, lists:sublist(Now, ?NEIGHBOURS), length(Now)},
    notice(Notice, S#state{hot = H#hot{uncounted = Now}}).

%% A counter that has gone is left out, and count_tiers/1 sets it again. A counter that has
%% fallen was reset by somebody else.
read_tiers(#state{session = Session, hot = #hot{counters = Tiers} = H,
                  entry_calls = #entry_calls{closed = Closed}} = S) ->
    S#state{hot = maps:fold(
                fun(MFA, {Base, Last}, Acc) ->
                        case counter(Session, MFA) of
                            N when is_integer(N), N >= Last ->
                                tier_read(MFA, {Base, N}, N - Last, Closed =/= false, Acc);
                            N when is_integer(N) ->
                                tier_read(MFA, {Base - Last, N}, N, Closed =/= false, Acc);
                            _ -> Acc
                        end
                end, H#hot{counters = #{}}, Tiers)}.

%% What is called while no request begins is compared with no request.
tier_read(MFA, Now, 0, _, #hot{counters = Tiers} = H) ->
    H#hot{counters = Tiers#{MFA => Now}};
tier_read(MFA, Now, More, true, #hot{counters = Tiers, calls = Calls} = H) ->
    H#hot{counters = Tiers#{MFA => Now}, calls = Calls + More};
tier_read(MFA, Now, More, false, #hot{counters = Tiers, calls = Calls, unsent = Unsent} = H) ->
    H#hot{counters = Tiers#{MFA => Now}, calls = Calls + More,
          unsent = maps:update_with(MFA, fun(N) -> N + More end, More, Unsent)}.

%% Sends what has been counted since the last time, as it was read last: calls of each function
%% of a tier, and of all entries, while they were armed.
send_counts(#state{hot = #hot{unsent = Unsent, sent_entries = Sent} = H} = S) ->
    Entries = entry_calls(S) - unarmed(S),
    case max(0, Entries - Sent) of
        0 when map_size(Unsent) =:= 0 -> S;
        More ->
            Notice = {kprof_notice, calls, maps:to_list(Unsent), More},
            notice(Notice, S#state{hot = H#hot{unsent = #{}, sent_entries = Entries}})
    end.

%% ------------------------------------------------------- what is too hot ----

%% With each tick, so that it does not depend on the daemon.
check_rates(#state{state = armed, limits = #limits{function_rate = One, total_rate = All}} = S)
  when One =/= infinity; All =/= infinity ->
    case is_calm(S) of
        true ->
            T0 = now_ns(),
            S1 = count_tiers(read_counters(S)),
            add_busy(counters, T0, judge_rates(S1));
        false -> S
    end;
check_rates(S) -> S.

window_begin(#state{hot = #hot{counters = Tiers} = H, entry_calls = Calls} = S) ->
    S#state{hot = H#hot{window = {now_ms(), Calls#entry_calls.read},
                        counters = maps:map(fun(_, {_, Last}) -> {Last, Last} end, Tiers)}}.

%% Compares the counters as just read with the limits: one function as soon as it has had the
%% calls of a second, all of them at the end of each second.
judge_rates(#state{state = armed, hot = #hot{window = {Since, _}},
                   limits = #limits{function_rate = Limit}} = S) ->
    Ms = max(1, now_ms() - Since),
    {Entries, Tiers} = window_calls(S),
    IsHot = fun({_, N}) -> is_over(N, max(Ms, ?WINDOW_MS), Limit) end,
    case lists:filter(IsHot, Entries) of
        [{MFA, N} | _] -> trip({hot, MFA, a_second(N, Ms)}, S);
        [] ->
            {TooHot, Rest} = lists:partition(IsHot, Tiers),
            S1 = lists:foldl(fun(F, Acc) -> disarm_one(hot, F, Ms, Acc) end, S, TooHot),
            if Ms >= ?WINDOW_MS - ?WINDOW_SLACK_MS ->
                    window_begin(judge_all(Entries, Rest, Ms, S1));
               true ->
                    S1
            end
    end;
judge_rates(S) -> S.

trip(Reason, S) ->
    trip(Reason, kprof_agent_server:waiting(S), S).

%% {Entries, Tiers}, [{MFA, Calls}] each.
window_calls(#state{hot = #hot{window = {_, Then}, counters = Tiers},
                    entry_calls = #entry_calls{read = Read}}) ->
    {[{MFA, max(0, N - maps:get(MFA, Then, N))} || {MFA, N} <- maps:to_list(Read)],
     [{MFA, Last - Base} || {MFA, {Base, Last}} <- maps:to_list(Tiers)]}.

judge_all(Entries, Tiers, Ms, #state{hot = #hot{over = Over} = H,
                                     limits = #limits{total_rate = Limit}} = S0) ->
    ForEntries = calls_of(Entries),
    All = ForEntries + calls_of(Tiers),
    S = S0#state{hot = H#hot{over = 0}},
    case is_over(All, Ms, Limit) of
        false -> S;
        true when Over + 1 < ?OVER_WINDOWS ->
            S0#state{hot = H#hot{over = Over + 1}};
        true ->
            case is_over(ForEntries, Ms, Limit) of
                true -> trip({budget, entries, a_second(ForEntries, Ms)}, S);
                false -> disarm_hottest(lists:reverse(lists:keysort(2, Tiers)), All, Ms, S)
            end
    end.

%% The hottest first, until the rest leaves some room for events.
disarm_hottest([{_, N} = Hottest | Tiers], All, Ms,
               #state{limits = #limits{total_rate = Limit}} = S) when N > 0 ->
    case is_over(All, Ms, Limit * ?OVER_AIM div 100) of
        true -> disarm_hottest(Tiers, All - N, Ms, disarm_one(budget, Hottest, Ms, S));
        false -> S
    end;
disarm_hottest(_, _, _, S) -> S.

calls_of(Functions) ->
    lists:sum([N || {_, N} <- Functions]).

is_over(_, _, infinity) -> false;
is_over(N, Ms, Limit) -> N * 1000 > Limit * Ms.

a_second(N, Ms) ->
    N * 1000 div Ms.

%% Disarms one function for good: until another tiers.conf arms it.
disarm_one(Limit, {MFA, N}, Ms, #state{session = Session, plan = Plan, hot = H, events = E} = S0) ->
    pattern(Session, MFA, false, counted),
    I = lists:keyfind(MFA, #item.mfa, Plan),
    S = S0#state{plan = lists:keyreplace(MFA, #item.mfa, Plan, I#item{spec = false}),
                 hot = H#hot{counters = maps:remove(MFA, H#hot.counters)},
                 events = E#events{value_sizes = maps:remove(MFA, E#events.value_sizes)}},
    tell_sentry([], S),
    notice({kprof_notice, Limit, MFA, a_second(N, Ms)}, S).

%% -------------------------------------------------------- and taken back ----

%% Takes the counters of disarmed tiers in a session, while entries are still counted. Nobody
%% else has counters there, so all of a module go at once unless it has an entry.
uncount_tiers(#state{leaving = false, session = Session, hot = #hot{counters = Tiers}} = S0)
  when Session =/= legacy ->
    WithEntries = [M || {M, _, _} <- entries(S0#state.plan)],
    ByModule = maps:groups_from_list(fun({M, _, _}) -> M end, maps:keys(Tiers)),
    S = maps:fold(fun(M, MFAs, S1) ->
                          What = case lists:member(M, WithEntries) of
                                     true -> MFAs;
                                     false -> [{M, '_', '_'}]
                                 end,
                          [set_counter(Session, W, false) || W <- What],
                          relieve(S1)
                  end, S0, ByModule),
    no_counters(S);
uncount_tiers(S) ->
    no_counters(S).             % the session goes as a whole

no_counters(#state{hot = H} = S) ->
    S#state{hot = H#hot{counters = #{}}}.

%% {What, How} of trace_pattern: the match specs to be taken, with the counters that go along.
-spec with_counters([mfa() | {module(), '_', '_'}], [mfa()], #state{}) ->
          [{mfa() | {module(), '_', '_'}, local | counted | call_count}].
with_counters([{M, '_', '_'} = All], MFAs, #state{session = Session,
                                                  hot = #hot{counters = Tiers}}) ->
    case [F || {F, A} <- functions(M), not is_map_key({M, F, A}, Tiers),
               is_integer(counter(Session, {M, F, A}))] of
        [] -> [{All, counted}];
        _ -> [{All, local} | [{MFA, call_count} || MFA <- MFAs, is_map_key(MFA, Tiers)]]
    end;
with_counters(MFAs, _, #state{hot = #hot{counters = Tiers}}) ->
    [{MFA, case is_map_key(MFA, Tiers) of true -> counted; false -> local end} || MFA <- MFAs].

%% --------------------------------------------------------- what tracing adds ----

%% Once a minute a process of ours calls two functions of ours that do nothing, one inside the
%% other. They are armed like the functions of tiers, by a match spec that the daemon made for
%% them, and their events take the way of all events. The daemon recognises them by their
%% label, and takes the differences of their times (src/guard/cost.c). These are
%% ?PAIRS pairs of calls: some 100 us of one scheduler.
%%
%% Nobody else calls these functions, so between two measurements they cost nothing.

%% Where somebody else traces new processes in our place, ours would be traced by them: then
%% nothing is measured.
cost_tick(#state{state = armed, cost = #cost{spec = Spec, due = Due} = Cost,
                 entry_calls = #entry_calls{closed = Closed},
                 intact = #intact{new_tracer = none}} = S)
  when Spec =/= none, Closed =/= watched ->
    Now = now_ms(),
    case Due =:= now orelse Now >= Due of
        true ->
            Put = [pattern(S#state.session, MFA, Spec) || MFA <- ?MEASURED],
            _ = Put =:= [1, 1] andalso measure(),
            S#state{cost = Cost#cost{measured_at = Now, due = Now + ?MEASURE_MS}};
        false -> S
    end;
cost_tick(S) -> S.

%% The process has the flags of all new processes. It calls the BIF, because the module
%% seq_trace may not be loaded.
measure() ->
    Label = ?MEASURING_LABEL(word_number()),
    spawn_labelled(
      kprof_agent, traced_pairs,
      fun() ->
              erlang:seq_trace(label, Label),
              traced_pairs(?PAIRS),
              erlang:seq_trace(sequential_trace_token, [])
      end).

traced_pairs(0) -> ok;
traced_pairs(N) -> traced_around(N), traced_pairs(N - 1).

%% Neither is a tail call: each returns to its caller.
traced_around(N) -> _ = traced_inside(), N.

traced_inside() -> ok.

%% Before OTP 27; a session's patterns go all together.
cost_clear(#state{cost = #cost{measured_at = never}} = S) -> S;
cost_clear(#state{session = Session, cost = Cost} = S) ->
    [pattern(Session, MFA, false) || MFA <- ?MEASURED],
    S#state{cost = Cost#cost{measured_at = never}}.

%% Each time that a process with trace flags is scheduled, in or out, the VM looks at them: that
%% costs every process of the node something, whether its functions are traced or not, and the
%% more, the more processes a request has. With each lease, while processes have our flags.
count_switches(#state{process_flags = #process_flags{set = Set}, cost = Cost} = S) ->
    #cost{switches = Sum, switches_read = Last} = Cost,
    {Now, _} = erlang:statistics(context_switches),
    More = if Set =:= []; Last =:= 0 -> 0; true -> max(0, Now - Last) end,
    S#state{cost = Cost#cost{switches = Sum + More, switches_read = Now}}.
