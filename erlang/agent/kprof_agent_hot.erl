%% kprof_agent_hot - how often the functions of tiers are called, in a request or
%% not; and which of them are called too often to be traced.
%%
%% A call without a token sends no event, and yet its caller pays for the match
%% spec. So the VM counts the calls of all armed functions (call_count: 6 to 12 ns
%% a call; 2,000 counters are read in less than a millisecond). The counters of
%% tiers are there only while the tiers are armed, and are set and taken together
%% with the match specs, by the same BIF call wherever many change.
%%
%% Two limits, in calls a second, come from tiers.conf: hot_share bounds one
%% function, budget bounds all of them. A tier's function over the first one is
%% disarmed within about a second. Where all together are over the second one for
%% ?OVER_WINDOWS seconds, the hottest are, until the rest fits. An entry cannot go
%% without its requests: where entries alone are over a limit, the agent trips.
%%
%% On OTP 25 and 26 a counter is everybody's, and setting it sets it back: a
%% function that somebody else counts is not counted here.
-module(kprof_agent_hot).

-export([counting/2, arm_tier/2, count_tiers/1, read_tiers/1, look_hot/1, window_begin/1,
         judge_hot/1, uncount_tiers/1, with_counters/3]).

-include("kprof_agent.hrl").

-define(HOT_MS, 1000).          % of which one function's calls are limited
-define(HOT_SLACK_MS, 100).     % a tick may come early
-define(OVER_WINDOWS, 10).      % so many in a row are no peak
-define(OVER_AIM, 80).          % percent of the budget, for calls passed over

%% The sentry is to take these: counters that are about to be set.
-spec counting([#item{}], #s{}) -> [{call_count, mfa()}].
counting(Items, S) ->
    [{call_count, I#item.mfa} || I <- Items, to_be_counted(I, S)].

to_be_counted(#item{mfa = MFA} = I, S) ->
    is_counted(I) andalso not is_map_key(MFA, S#s.tiers) andalso
        (kprof_agent_patterns:counter(S#s.session, MFA) =:= false orelse lists:member(MFA, rated_by_us(S))).

rated_by_us(#s{rating = {_, _, Mine, _, _}}) -> Mine;
rated_by_us(_) -> [].

is_counted(#item{kind = tier, gone = false, spec = [_ | _]}) -> true;
is_counted(_) -> false.

%% One of a tier, armed for the first time: with its counter, if nobody has one.
arm_tier(#item{mfa = MFA} = I, #s{session = Session, tiers = Tiers} = S) ->
    {How, S1} = case to_be_counted(I, S) of
                    true -> {counted, S#s{tiers = Tiers#{MFA => {0, 0}}}};
                    false -> {local, S}
                end,
    case kprof_agent_patterns:pattern(Session, MFA, kprof_agent_mail:spec(I, S1), How) of
        1 -> {[], S1};
        Why -> {[{MFA, Why}], S1}
    end.

%% The counters of what is armed now, and no others: after a change of the plan, of
%% a match spec or of code. Nothing changes where nothing has.
-spec count_tiers(#s{}) -> #s{}.
count_tiers(#s{state = armed, plan = Plan, tiers = Tiers} = S) ->
    Armed = maps:from_list([{MFA, []} || #item{mfa = MFA} = I <- Plan, is_counted(I)]),
    case maps:keys(Armed) =:= maps:keys(Tiers) of
        true -> tell_uncounted([], S);
        false -> count_tiers(Armed, kprof_agent_arming:entries(Plan), S)
    end;
count_tiers(S) ->
    S.

%% What was of a tier and is an entry now has the entry's counter.
count_tiers(Armed, Entries, #s{session = Session, plan = Plan, tiers = Tiers} = S0) ->
    [kprof_agent_patterns:count(Session, MFA, false) || MFA <- maps:keys(Tiers), not is_map_key(MFA, Armed), not lists:member(MFA, Entries)],
    S = S0#s{tiers = maps:with(maps:keys(Armed), Tiers)},
    New = counting(Plan, S),
    New =:= [] andalso map_size(S#s.tiers) =:= map_size(Tiers) orelse kprof_agent_sentry:own(New, S),
    [kprof_agent_patterns:count(Session, MFA, true) || {_, MFA} <- New],
    All = lists:foldl(fun({_, MFA}, Acc) -> Acc#{MFA => {0, 0}} end, S#s.tiers, New),
    Others = [MFA || MFA <- maps:keys(Armed) -- maps:keys(All), is_integer(kprof_agent_patterns:counter(Session, MFA))],
    tell_uncounted(lists:sort(Others), S#s{tiers = All}).

%% Somebody else counts these. Each time that they are others.
tell_uncounted(Same, #s{uncounted = Same} = S) ->
    S;
tell_uncounted([], S) ->
    S#s{uncounted = []};
tell_uncounted(Now, S) ->
    kprof_agent_events:notice({kprof_notice, uncounted, lists:sublist(Now, ?NEIGHBOURS), length(Now)}, S#s{uncounted = Now}).

%% What is not there any more, or was taken by who set it back, is set again by
%% count_tiers/1.
-spec read_tiers(#s{}) -> #s{}.
read_tiers(#s{session = Session, tiers = Tiers} = S) ->
    {Read, More} = maps:fold(fun(MFA, {Base, Last}, {Acc, Sum}) ->
                                     case kprof_agent_patterns:counter(Session, MFA) of
                                         N when is_integer(N), N >= Last -> {Acc#{MFA => {Base, N}}, Sum + N - Last};
                                         N when is_integer(N) -> {Acc#{MFA => {Base - Last, N}}, Sum + N};
                                         _ -> {Acc, Sum}
                                     end
                             end, {#{}, 0}, Tiers),
    S#s{tiers = Read, tier_calls = S#s.tier_calls + More}.

%% ------------------------------------------------------- what is too hot ----

%% With each tick, so that it does not take the daemon to see it.
-spec look_hot(#s{}) -> #s{}.
look_hot(#s{state = armed, hot = Hot, calls = Calls} = S)
  when Hot =/= infinity; Calls =/= infinity ->
    case kprof_agent_foreign:is_calm(S) of
        true ->
            T0 = kprof_injected:now_ns(),
            S1 = judge_hot(count_tiers(kprof_agent_arming:read_counters(S))),
            S1#s{busy = S1#s.busy + kprof_injected:now_ns() - T0};
        false -> S
    end;
look_hot(S) ->
    S.

-spec window_begin(#s{}) -> #s{}.
window_begin(#s{tiers = Tiers, counted = Counted} = S) ->
    S#s{window = {kprof_injected:now_ms(), Counted},
        tiers = maps:map(fun(_, {_, Last}) -> {Last, Last} end, Tiers)}.

%% What was read just now, against the limits: one function as soon as it has had
%% the calls of a second, all of them at the end of each.
-spec judge_hot(#s{}) -> #s{}.
judge_hot(#s{state = armed, window = {Since, _}, hot = Hot} = S) ->
    Ms = max(1, kprof_injected:now_ms() - Since),
    {Entries, Tiers} = window_calls(S),
    IsHot = fun({_, N}) -> is_over(N, max(Ms, ?HOT_MS), Hot) end,
    case lists:filter(IsHot, Entries) of
        [{MFA, N} | _] ->
            kprof_agent_events:trip({hot, MFA, a_second(N, Ms)}, kprof_agent_status:waiting(S), S);
        [] ->
            {TooHot, Rest} = lists:partition(IsHot, Tiers),
            S1 = lists:foldl(fun(F, Acc) -> cool(hot, F, Ms, Acc) end, S, TooHot),
            if Ms >= ?HOT_MS - ?HOT_SLACK_MS -> window_begin(judge_all(Entries, Rest, Ms, S1));
               true -> S1
            end
    end;
judge_hot(S) ->
    S.

%% {Entries, Tiers}, [{MFA, Calls}] each.
window_calls(#s{window = {_, Then}, counted = Counted, tiers = Tiers}) ->
    {[{MFA, max(0, N - maps:get(MFA, Then, N))} || {MFA, N} <- maps:to_list(Counted)],
     [{MFA, Last - Base} || {MFA, {Base, Last}} <- maps:to_list(Tiers)]}.

judge_all(Entries, Tiers, Ms, #s{calls = Calls, over = Over} = S) ->
    ForEntries = calls_of(Entries),
    All = ForEntries + calls_of(Tiers),
    case is_over(All, Ms, Calls) of
        false ->
            S#s{over = 0};
        true when Over + 1 < ?OVER_WINDOWS ->
            S#s{over = Over + 1};
        true ->
            case is_over(ForEntries, Ms, Calls) of
                true -> kprof_agent_events:trip({budget, entries, a_second(ForEntries, Ms)}, kprof_agent_status:waiting(S), S#s{over = 0});
                false -> cool_most(lists:reverse(lists:keysort(2, Tiers)), All, Ms, S#s{over = 0})
            end
    end.

%% The hottest first, until the rest leaves some room for events.
cool_most([{_, N} = Hottest | Tiers], All, Ms, #s{calls = Calls} = S) when N > 0 ->
    case is_over(All, Ms, Calls * ?OVER_AIM div 100) of
        true -> cool_most(Tiers, All - N, Ms, cool(budget, Hottest, Ms, S));
        false -> S
    end;
cool_most(_, _, _, S) ->
    S.

calls_of(Functions) ->
    lists:sum([N || {_, N} <- Functions]).

is_over(_, _, infinity) -> false;
is_over(N, Ms, ASecond) -> N * 1000 > ASecond * Ms.

a_second(N, Ms) ->
    N * 1000 div Ms.

%% Disarms one function for good: until another tiers.conf arms it.
cool(Limit, {MFA, N}, Ms, #s{session = Session, plan = Plan} = S) ->
    kprof_agent_patterns:pattern(Session, MFA, false, counted),
    I = lists:keyfind(MFA, #item.mfa, Plan),
    S1 = S#s{plan = lists:keyreplace(MFA, #item.mfa, Plan, I#item{spec = false}),
             tiers = maps:remove(MFA, S#s.tiers), exact = maps:remove(MFA, S#s.exact)},
    kprof_agent_sentry:own([], S1),
    kprof_agent_events:notice({kprof_notice, Limit, MFA, a_second(N, Ms)}, S1).

%% -------------------------------------------------------- and taken back ----

%% Of tiers that are disarmed, while entries count on. A session's match specs
%% have gone at once, and it has counters of nobody else; else they go together,
%% by the module where nothing else in it is counted.
-spec uncount_tiers(#s{}) -> #s{}.
uncount_tiers(#s{leaving = true, session = Session} = S) when Session =/= legacy ->
    S#s{tiers = #{}};           % goes as a whole
uncount_tiers(#s{session = Session, tiers = Tiers} = S0) ->
    Entries = [M || {M, _, _} <- kprof_agent_arming:entries(S0#s.plan)],
    ByModule = maps:groups_from_list(fun({M, _, _}) -> M end, maps:keys(Tiers)),
    S = maps:fold(fun(M, MFAs, S1) ->
                          [kprof_agent_patterns:count(Session, What, false)
                           || What <- case lists:member(M, Entries) of
                                          true -> MFAs;
                                          false -> [{M, '_', '_'}]
                                      end],
                          kprof_agent_arming:relieve(S1)
                  end, S0, ByModule),
    S#s{tiers = #{}}.

%% {What, How} of trace_pattern: match specs that are taken, with the counters
%% that go along.
with_counters([{M, '_', '_'} = All], MFAs, #s{session = Session, tiers = Tiers}) ->
    case [F || {F, A} <- kprof_injected:functions(M), is_integer(kprof_agent_patterns:counter(Session, {M, F, A})),
               not is_map_key({M, F, A}, Tiers)] of
        [] -> [{All, counted}];
        _ -> [{All, local} | [{MFA, call_count} || MFA <- MFAs, is_map_key(MFA, Tiers)]]
    end;
with_counters(MFAs, _, #s{tiers = Tiers}) ->
    [{MFA, case is_map_key(MFA, Tiers) of true -> counted; false -> local end} || MFA <- MFAs].
