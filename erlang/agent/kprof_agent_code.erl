%% kprof_agent_code - notices when a module is loaded, reloaded or deleted, and sets the
%% patterns that the change took away.
-module(kprof_agent_code).

-export([watch/1, watch_put/1, watch_session/1, use_modules/2, micros/1, recheck/2,
         look_changes/2, look_ahead/1, forget_counters/2]).

-import(kprof_agent_arming, [by_kind/1, set_patterns/2]).
-import(kprof_agent_events, [notice/2]).
-import(kprof_agent_hot, [count_tiers/1]).
-import(kprof_agent_intact, [is_cleared/1]).
-import(kprof_agent_patterns, [is_watched/2, pattern/4, traced/2]).
-import(kprof_injected, [now_ms/0]).

-include("kprof_agent.hrl").

-define(LOOK_US, 5000).         % interval of looks at code while events are behind

%% Loading or deleting a module takes its patterns and counters with it, and so does a load
%% that its on_load function refuses, though the old code stays. Where somebody else watches
%% for that (OTP 25 and 26, one for each function), the next lease notices it.
-spec watch(#s{}) -> #s{}.
watch(#s{session = Session, code = Code} = S0) ->
    Watched = [MFA || MFA <- ?CODE_CHANGES ++ [?SETS_PATTERN || Session =:= legacy],
                      not is_watched(Session, MFA)],
    S = S0#s{code = Code#code{watched = Watched}},
    kprof_agent_sentry:own([], S),
    watch_put(S).

-spec watch_put(#s{}) -> #s{}.
watch_put(#s{code = #code{watched = Watched}} = S) ->
    [pattern(watch_session(S), MFA, watch_spec(MFA), meta) || MFA <- Watched],
    S.

watch_spec(?SETS_PATTERN) -> [{'_', [{'=/=', {self}, self()}], []}];
watch_spec(_) -> [{'_', [], [{message, false}, {return_trace}]}].

%% The session with the watch. With the native probe that is not the session of the plan.
-spec watch_session(#s{}) -> kprof_flagger:session().
watch_session(#s{code = #code{session = undefined}, session = Session}) -> Session;
watch_session(#s{code = #code{session = Session}}) -> Session.

%% Sets the modules that tiers.conf names.
-spec use_modules([module()], #s{}) -> #s{}.
use_modules(Mods, #s{code = Code} = S) ->
    S#s{code = Code#code{modules = [{M, version(M)} || M <- Mods],
                         checked_at = erlang:system_time(microsecond)}}.

version(Mod) ->
    try erlang:get_module_info(Mod, md5)
    catch error:badarg -> none
    end.

-spec micros(erlang:timestamp()) -> integer().
micros({Mega, Sec, Us}) ->
    (Mega * 1000000 + Sec) * 1000000 + Us.

%% At: when code was changed, or a time before which it was not, in microseconds of system
%% time. Many loads are of modules that are not ours, so only one function of each of our
%% modules is looked at.
-spec recheck(integer() | never, #s{}) -> #s{}.
recheck(_, #s{code = #code{checked_at = never}} = S) ->
    S;
recheck(At, S0) ->
    {Changes, S} = changes(S0),
    Again = [{M, reloaded} || not is_cleared(S), M <- bare_modules(S),
                              not lists:keymember(M, 1, Changes)],
    all_changed(Changes ++ Again, At, S).

%% The same where no load was reported: a module with the same version was not loaded.
-spec look_changes(integer() | never, #s{}) -> #s{}.
look_changes(_, #s{code = #code{checked_at = never}} = S) ->
    S;
look_changes(At, S0) ->
    {Changes, S} = changes(S0),
    all_changed(Changes, At, S).

changes(#s{code = #code{modules = Before}} = S0) ->
    S = use_modules([M || {M, _} <- Before], S0),
    After = S#s.code#code.modules,
    {[{M, change(Old, New)} || {{M, Old}, {M, New}} <- lists:zip(Before, After), Old =/= New], S}.

all_changed(Changes, At, S) ->
    lists:foldl(fun(Change, S1) -> changed(Change, At, S1) end, S, Changes).

%% The report that code has changed may wait behind many events.
-spec look_ahead(#s{}) -> #s{}.
look_ahead(#s{code = #code{checked_at = At}} = S) ->
    case erlang:system_time(microsecond) - At of
        Us when Us > ?LOOK_US -> recheck(At, S);
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
    traced(Session, MFA) =/= local.

changed({Mod, What}, At, #s{plan = Plan} = S0) ->
    {Mine, Others} = lists:partition(fun(#item{mfa = {M, _, _}}) -> M =:= Mod end, Plan),
    {Uncounted, S1} = forget_counters(Mine, S0),
    {Entries, Tiers} = by_kind(Mine),
    Again = [arm_again(I, S1) || I <- Tiers ++ Entries],
    Gone = [I || #item{gone = true} = I <- Again],
    Gap = if length(Gone) < length(Again) -> max(0, erlang:system_time(microsecond) - At);
             true -> 0
          end,
    #code{changes = N, gap_us = GapUs} = Code = S1#s.code,
    S = count_tiers(
          S1#s{plan = Again ++ Others,
               code = Code#code{changes = N + 1, gap_us = GapUs + Gap}}),
    notice({kprof_notice, code, {Mod, What, Gap, Uncounted}, length(Gone)}, S).

%% Nobody knows what was counted since the last reading. Returns how long that was, in
%% microseconds.
-spec forget_counters([#item{}], #s{}) -> {non_neg_integer(), #s{}}.
forget_counters(Items, #s{session = Session, entry_calls = Calls, hot = Hot} = S) ->
    #entry_calls{read = Read, read_at = At, base = Base} = Calls,
    IsCounted = fun(MFA) -> is_integer(kprof_agent_patterns:counter(Session, MFA)) end,
    Gone = [MFA || #item{mfa = MFA, kind = entry, gone = false} <- Items, not IsCounted(MFA)],
    Sum = lists:sum([maps:get(MFA, Read, 0) || MFA <- Gone]),
    Uncounted = case Gone of
                    [] -> 0;
                    _ -> (now_ms() - At) * 1000
                end,
    Tiers = maps:filter(fun(MFA, _) -> IsCounted(MFA) end, Hot#hot.counters),
    {Uncounted,
     S#s{entry_calls = Calls#entry_calls{base = Base + Sum, read = maps:without(Gone, Read)},
         hot = Hot#hot{counters = Tiers}}}.

arm_again(#item{mfa = MFA} = I, #s{session = Session} = S) ->
    Gone = traced(Session, MFA) =:= undefined,
    Gone orelse I#item.kind =/= entry orelse
        is_integer(kprof_agent_patterns:counter(Session, MFA)) orelse
        kprof_agent_patterns:count(Session, MFA, true),
    Gone orelse S#s.state =/= armed orelse set_patterns([I], S),
    I#item{gone = Gone}.
