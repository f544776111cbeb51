%% kprof_agent_code - notices when a module is loaded, reloaded or deleted, and sets the
%% patterns that the change took away.
-module(kprof_agent_code).

-export([watch/1, watch_put/1, watcher/1, named/2, micros/1, recheck/2, look_changes/2,
         look_ahead/1, forget_counters/2]).

-include("kprof_agent.hrl").

-define(LOOK_US, 5000).         % how often code is looked at when behind

%% Loading or deleting a module takes its patterns and counters with it, and
%% so does a load that its on_load function refuses, though the code of before
%% stays. Where somebody else watches for that (OTP 25 and 26, one for each
%% function), it is seen with the next lease only.
-spec watch(#s{}) -> #s{}.
watch(#s{session = Session} = S) ->
    S1 = S#s{watching = [MFA || MFA <- ?CODE_CHANGES,
                                not kprof_agent_patterns:is_watched(Session, MFA)]},
    kprof_agent_sentry:own([], S1),
    watch_put(S1).

-spec watch_put(#s{}) -> #s{}.
watch_put(#s{watching = MFAs} = S) ->
    [kprof_agent_patterns:pattern(watcher(S), MFA, [{'_', [], [{message, false}, {return_trace}]}],
                                  meta) || MFA <- MFAs],
    S.

watcher(#s{watcher = undefined, session = Session}) -> Session;
watcher(#s{watcher = Watcher}) -> Watcher.

%% The modules that tiers.conf names.
-spec named([module()], #s{}) -> #s{}.
named(Mods, S) ->
    S#s{mods = [{M, version(M)} || M <- Mods],
        looked_at = erlang:system_time(microsecond)}.

version(Mod) ->
    try erlang:get_module_info(Mod, md5)
    catch error:badarg -> none
    end.

micros({Mega, Sec, Us}) ->
    (Mega * 1000000 + Sec) * 1000000 + Us.

%% At: when code was changed, or that it was not changed before then, in
%% microseconds of system time. Many loads are of modules that are none of
%% ours: of each module one function is asked for.
-spec recheck(integer(), #s{}) -> #s{}.
recheck(_, #s{looked_at = never} = S) ->
    S;
recheck(At, S0) ->
    {Changes, S} = changes(S0),
    Again = [{M, reloaded} || not kprof_agent_intact:is_cleared(S), M <- bare_modules(S),
                              not lists:keymember(M, 1, Changes)],
    all_changed(Changes ++ Again, At, S).

%% Where no word came that code was loaded: one that is as it was has not been.
-spec look_changes(integer(), #s{}) -> #s{}.
look_changes(_, #s{looked_at = never} = S) ->
    S;
look_changes(At, S0) ->
    {Changes, S} = changes(S0),
    all_changed(Changes, At, S).

changes(#s{mods = Mods} = S0) ->
    S = named([M || {M, _} <- Mods], S0),
    {[{M, change(Old, New)} || {{M, Old}, {M, New}} <- lists:zip(Mods, S#s.mods), Old =/= New], S}.

all_changed(Changes, At, S) ->
    lists:foldl(fun(Change, S1) -> changed(Change, At, S1) end, S, Changes).

%% The word that code has changed may wait behind many events.
-spec look_ahead(#s{}) -> #s{}.
look_ahead(S) ->
    case erlang:system_time(microsecond) - S#s.looked_at of
        Us when Us > ?LOOK_US -> recheck(S#s.looked_at, S);
        _ -> S
    end.

change(none, _) -> loaded;
change(_, none) -> deleted;
change(_, _) -> reloaded.

bare_modules(#s{plan = Plan} = S) ->
    One = maps:from_list([{M, I} || #item{mfa = {M, _, _}} = I <- Plan,
                                    is_wanted(I, S)]),
    [M || {M, I} <- maps:to_list(One), is_bare(I, S)].

is_wanted(#item{gone = true}, _) -> false;
is_wanted(#item{kind = entry}, _) -> true;
is_wanted(#item{spec = Spec}, #s{state = State}) ->
    State =:= armed andalso Spec =/= false.

is_bare(#item{mfa = MFA, kind = entry}, #s{session = Session}) ->
    not is_integer(kprof_agent_patterns:counter(Session, MFA));
is_bare(#item{mfa = MFA}, #s{session = Session}) ->
    kprof_agent_patterns:traced(Session, MFA) =/= local.

changed({Mod, What}, At, S) ->
    {Mine, Others} = lists:partition(
                       fun(#item{mfa = {M, _, _}}) -> M =:= Mod end,
                       S#s.plan),
    {Uncounted, S1} = forget_counters(Mine, S),
    {Entries, Tiers} = kprof_agent_arming:by_kind(Mine),
    Again = [arm_again(I, S1) || I <- Tiers ++ Entries],
    Gap = case lists:keymember(false, #item.gone, Again) of
              true -> max(0, erlang:system_time(microsecond) - At);
              false -> 0
          end,
    kprof_agent_events:notice({kprof_notice, code, {Mod, What, Gap, Uncounted},
                               length([I || #item{gone = true} = I <- Again])},
                              kprof_agent_hot:count_tiers(S1#s{plan = Again ++ Others, changes = S#s.changes + 1,
                                                               gap_us = S#s.gap_us + Gap})).

%% What was counted since the last reading is not known to anybody: returns
%% how long that was, in microseconds.
forget_counters(Items, #s{session = Session, counted = Counted} = S) ->
    Gone = [MFA || #item{mfa = MFA, kind = entry, gone = false} <- Items,
                   not is_integer(kprof_agent_patterns:counter(Session, MFA))],
    Sum = lists:sum([maps:get(MFA, Counted, 0) || MFA <- Gone]),
    {case Gone of
         [] -> 0;
         _ -> (kprof_injected:now_ms() - S#s.counted_at) * 1000
     end,
     S#s{entry_base = S#s.entry_base + Sum,
         counted = maps:without(Gone, Counted),
         tiers = maps:filter(fun(MFA, _) -> is_integer(kprof_agent_patterns:counter(Session, MFA)) end, S#s.tiers)}}.

arm_again(#item{mfa = MFA} = I, #s{session = Session} = S) ->
    Gone = kprof_agent_patterns:traced(Session, MFA) =:= undefined,
    Gone orelse I#item.kind =/= entry orelse
        is_integer(kprof_agent_patterns:counter(Session, MFA)) orelse kprof_agent_patterns:count(Session, MFA, true),
    Gone orelse S#s.state =/= armed orelse
        kprof_agent_patterns:pattern(Session, MFA, kprof_agent_mail:spec(I, S)),
    I#item{gone = Gone}.
