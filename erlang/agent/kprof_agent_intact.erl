%% kprof_agent_intact - sets again what is gone of what the agent set: others take it, which each
%% lease checks, and loads of code do.
%%
%% Before OTP 27 tracing is shared by everybody: recon_trace:clear(), dbg:stop() or a
%% trace(all, false, [all]) take patterns, counters, flags, the setting for new processes and
%% the watch for code, and somebody's trace_pattern/3 replaces ours. From OTP 27 on a session
%% can be found in trace:session_info(all), and anybody can change or destroy it.
%%
%% What is missing is reported and put back. The third time within a minute the agent switches
%% tracing off for a while: somebody is at work there, and needs what we have.
-module(kprof_agent_intact).

-export([check_intact/1, canary_put/1, watch_trim/1, put_back_disarmed/1, session_check/1,
         trace_info/3, watch/1, watch_put/1, use_modules/2, micros/1, recheck/2, look_ahead/1,
         code_changed/2, look_loads/1]).

-import(kprof_agent_arming, [by_kind/1, counter/2, disarm/2, is_watched/2, pattern/3, pattern/4,
         set_counter/3, set_patterns/2, traced/2, tracer/1]).
-import(kprof_agent_cost, [count_tiers/1]).
-import(kprof_agent_events, [notice/2]).
-import(kprof_agent_flags, [flags_await/1, flags_lost/1, tiers_first/1]).
-import(kprof_agent_messages, [armed_spec/2]).
-import(kprof_agent_sentry, [tell_sentry/2]).
-import(kprof_agent_server, [finish/2]).
-import(kprof_injected, [kprofs/0, now_ms/0, now_ns/0]).
-import(kprof_tracing, [trace_read/3]).

-include("kprof_agent.hrl").

%% A function that is never reloaded: its pattern is gone only where somebody has cleared the
%% patterns of all functions.
-define(CANARY, {kprof_agent, status, 0}).
-define(TAKEN_MS, 60000).
-define(TAKEN_MAX, 3).
-define(SUSPECT_MS, 800).       % less than between two leases
-define(CODE_WAIT_MS, 50).      % for the report that code was loaded
%% Registered names of tools that use these.
-define(TRACERS, [dbg, ttb, recon_trace_tracer, recon_trace_formatter, redbug, xprof_tracer,
                  fprof, eprof, observer, etop_server]).

-define(LOOK_US, 5000).         % interval of looks at code while events are behind

-define(LOADS_QUIET_MS, 1000).  % without another load: these were all, of a release say
-define(LOADS_LAST_MS, 10000).  % loads without such a pause are reported by then
-define(LOADS_UNWATCHED_MS, 60000).     % interval of looks while somebody else watches loads
-define(LOADS_NAMED, 8).        % modules that a notice names

check_intact(#state{plan = []} = S) -> S;
check_intact(S0) ->
    S1 = check_new_tracer(S0),
    case missing(S1) of
        [] -> look_changes(all_there(S1));
        _ ->
            S = await_code(S1),
            case missing(S) of
                [] -> all_there(S);
                Missing -> something_missing(Missing, S)
            end
    end.

all_there(S0) ->
    #state{intact = I} = S = watch_again(S0),
    S#state{intact = I#intact{intact_at = now_ms(), missing_since = never}}.

%% A load takes patterns and counters before it is reported, on a busy node long before. What
%% is still missing some time later was taken by somebody.
something_missing(Missing, #state{intact = #intact{missing_since = never} = I} = S) ->
    something_missing(Missing,
                      S#state{intact = I#intact{missing_since = now_ms()}});
something_missing(Missing, #state{intact = #intact{missing_since = Since}} = S) ->
    IsOther = fun({What, _}) -> What =/= patterns andalso What =/= counters end,
    case now_ms() - Since >= ?SUSPECT_MS orelse is_cleared(S) orelse
        lists:any(IsOther, Missing) of
        true -> all_there(somebody_took(Missing, S));
        false -> S
    end.

%% Finds modules that were deleted or replaced. One that was loaded again unchanged lost its
%% patterns, which is noticed when it happens, unless somebody else watches loads.
look_changes(S) ->
    look_changes(S#state.code#code.checked_at, S).

%% Nobody else takes single patterns of a session: where they are gone, code was loaded. (On 27
%% the report of the first load was seen to be missing.)
await_code(#state{code = #code{watched = Watched, checked_at = At}, session = Session} = S) ->
    case {is_cleared(S), ?CODE_CHANGES -- Watched} of
        {true, _} -> look_changes(S);
        {false, Unwatched} when Session =/= legacy; Unwatched =/= [] ->
            recheck(At, S);
        {false, []} ->
            receive
                ?CODE_CHANGED(Loaded) -> code_changed(Loaded, S)
            after ?CODE_WAIT_MS -> look_changes(S)
            end
    end.

canary_put(#state{session = Session} = S) ->
    _ = set_counter(Session, ?CANARY, true),
    _ = pattern(Session, ?CANARY, [{'_', [], [{message, false}]}]),
    S.

-spec is_cleared(#state{}) -> boolean().
is_cleared(#state{session = Session, state = State}) ->
    not is_integer(counter(Session, ?CANARY)) orelse
        State =:= armed andalso traced(Session, ?CANARY) =/= local.

%% [{What, HowMany}] of what has to be there always, and of what has to be while armed.
missing(#state{state = State} = S) ->
    Armed = case State of armed -> missing_armed(S); _ -> [] end,
    Counters = [MFA || #item{mfa = MFA, kind = entry, gone = false} <- S#state.plan,
                       exists(MFA, S), not has_counter(MFA, S)],
    Watch = [MFA || MFA <- S#state.code#code.watched, not is_watch(S, MFA)],
    Armed ++ [{counters, length(Counters)} || Counters =/= []] ++
        [{watch, length(Watch)} || Watch =/= []].

missing_armed(#state{plan = Plan} = S) ->
    Patterns = [MFA || #item{mfa = MFA, gone = false, spec = Spec} = I <- Plan,
                       Spec =/= false, exists(MFA, S), not has_pattern(I, S)],
    [{patterns, length(Patterns)} || Patterns =/= []] ++
        [{flags, 1} || not has_flags(element(1, S#state.sentry), S)] ++
        [{new_processes, 1} || not has_new(S)].

exists(MFA, #state{session = Session}) ->
    traced(Session, MFA) =/= undefined.

has_counter(MFA, #state{session = Session}) ->
    is_integer(counter(Session, MFA)).

has_pattern(#item{mfa = MFA} = I, #state{session = Session} = S) ->
    trace_info(Session, MFA, match_spec) =:=
        {match_spec, armed_spec(I, S)}.

%% The sentry has the flags that all processes have: if it lost them, others did.
has_flags(_, #state{process_flags = #process_flags{set = []}}) -> true;
has_flags(P, #state{session = legacy, process_flags = #process_flags{set = Set}} = S) ->
    erlang:trace_info(P, tracer) =:= {tracer, tracer(S)} andalso
        has_all(Set, erlang:trace_info(P, flags));
has_flags(P, #state{session = Session, process_flags = #process_flags{set = Set}}) ->
    has_all(Set, trace_info(Session, P, flags)).

%% Before OTP 27 there is one tracer for new processes. Where somebody has made that theirs, as
%% dbg:p(all, _) does, it is theirs until they end: the VM would not give it back, and we do
%% not take it. The daemon is notified once.
has_new(#state{intact = #intact{new_tracer = none}} = S) -> has_flags(new_processes, S);
has_new(_) -> true.

check_new_tracer(#state{session = legacy, process_flags = #process_flags{set = [_ | _]},
                        intact = #intact{new_tracer = Was} = I} = S) ->
    Ours = tracer(S),
    case erlang:trace_info(new_processes, tracer) of
        {tracer, T} when T =:= Ours; T =:= [] ->
            S#state{intact = I#intact{new_tracer = none}};
        {tracer, Was} -> S;
        {tracer, T} ->
            notice({kprof_notice, lent, at_work(S), 0}, S#state{intact = I#intact{new_tracer = T}})
    end;
check_new_tracer(S) -> S.         % it has no flags now, or a session of its own

has_all(Set, {flags, Has}) when is_list(Has) -> Set -- Has =:= [];
has_all(_, _) -> false.

is_watch(S, MFA) ->
    trace_info(watch_session(S), MFA, meta) =:= {meta, self()}.

%% ---- what to do about it ----

somebody_took(Missing, #state{intact = #intact{taken = Before, intact_at = At} = I} = S) ->
    Now = now_ms(),
    Times = [Now | [Then || Then <- Before, Now - Then < ?TAKEN_MS]],
    Who = at_work(S),
    case length(Times) < ?TAKEN_MAX orelse S#state.state =/= armed of
        true ->
            Gap = case At of never -> 0; _ -> Now - At end,
            Notice = {kprof_notice, taken, {Missing, Who, Gap}, min(length(Times), ?TAKEN_MAX)},
            put_back(notice(Notice, S#state{intact = I#intact{taken = Times}}));
        false -> give_up(Missing, Who, S#state{intact = I#intact{taken = []}})
    end.

give_up(Missing, Who, S0) ->
    Began = #{reason => {taken, Missing}, queue => 0, tripped_at => now_ns()},
    #state{last_trip = Trip, lease = Lease} = S =
        disarm({tripped, taken}, S0#state{last_trip = Began}),
    notice(
      {kprof_notice, rest, {taken, Missing, Who}, 0},
      S#state{last_trip = Trip#{disarmed_at => now_ns()},
              lease = Lease#lease{renewed_at = now_ms()}}).

%% The tools and tracers that may have done it, as far as their names show.
at_work(#state{session = Session, sentry = {Sentry, _}} = S) ->
    Ours = tracer(S),
    Tracers = [T || Session =:= legacy, P <- [new_processes, Sentry],
                    {tracer, T} <- [erlang:trace_info(P, tracer)], T =/= [], T =/= Ours],
    lists:usort([N || N <- ?TRACERS, is_pid(whereis(N))] ++
                    [kprof_injected:name(T) || T <- Tracers]).

put_back(S0) ->
    Entries = [I || #item{kind = entry, gone = false} = I <- S0#state.plan],
    {_, #state{session = Session} = S} = forget_counters(Entries, S0),
    [set_counter(Session, MFA, true)
     || #item{mfa = MFA} <- Entries, counter(Session, MFA) =:= false],
    S1 = canary_put(watch_put(watch_trim(S))),
    case {S1#state.state, have_flags(S1)} of
        {armed, false} ->
            {_, S2} = flags_await(flags_lost(S1)),
            put_patterns(S2);
        {armed, true} -> put_patterns(S1);
        _ -> S1
    end.

%% Gives up watches for code that somebody else has set by now: there is one meta tracer for
%% everybody. Without a watch, code is checked with each lease.
watch_trim(#state{code = #code{watched = Watched} = Code, session = Session} = S) ->
    Left = [MFA || MFA <- Watched,
                   is_watch(S, MFA) orelse not is_watched(Session, MFA)],
    S#state{code = Code#code{watched = Left}}.

put_patterns(S) ->
    Missing = [I || I <- tiers_first(S), not has_pattern(I, S)],
    _ = set_patterns(Missing, S),
    S.

%% With a resume: what was taken while nothing was armed.
put_back_disarmed(#state{plan = []} = S) -> S;
put_back_disarmed(S0) ->
    S = case missing(S0#state{state = idle}) of
            [] -> S0;
            _ -> put_back(S0)
        end,
    case have_flags(S) of
        true -> S;
        false -> flags_lost(S)
    end.

have_flags(#state{sentry = {Sentry, _}} = S) ->
    has_flags(Sentry, S) andalso has_new(S).

%% ------------------------------------------------------------- sessions ----

%% Ends the agent if somebody has destroyed its session, which trace:session_info/1 shows to
%% anybody. With the native probe there are two sessions.
session_check(#state{session = Session, process_flags = P} = S) ->
    case {is_session(Session), is_session(watch_session(S))} of
        {true, true} -> S;
        {true, false} -> finish(session_destroyed, S);
        {false, _} ->
            finish(session_destroyed,
                                      S#state{process_flags = P#process_flags{set = []}})
    end.

is_session(legacy) -> true;
is_session(Session) -> trace_info(Session, new_processes, flags) =/= {flags, undefined}.

%% {Key, undefined} if the session was destroyed meanwhile.
-spec trace_info(kprof_flagger:session(), pid() | new_processes | mfa(), atom()) ->
          {atom(), term()} | undefined.
trace_info(Session, What, Key) ->
    try trace_read(Session, What, Key)
    catch error:badarg -> {Key, undefined}
    end.

%% ---------------------------------------------------------------------- code ----

%% Loading or deleting a module takes its patterns and counters with it, and so does a load
%% that its on_load function refuses, though the old code stays. Where somebody else watches
%% for that (OTP 25 and 26, one for each function), the next lease notices it.
watch(#state{session = Session, code = Code} = S0) ->
    Watched = watches(Session, []),
    %% A look is due, as after a load: it finds what the node loaded because kprofd attached, and
    %% reports nothing, since it is the first.
    S = S0#state{code = Code#code{watched = Watched, loads = {now_ms(), now_ms()}}},
    tell_sentry([], S),
    watch_put(S).

%% Whoever watched for it on OTP 25 or 26 may have ended.
watch_again(#state{session = Session, code = #code{watched = Watched} = Code} = S0) ->
    case watches(Session, Watched) of
        [] -> S0;
        Free ->
            S = S0#state{code = Code#code{watched = Watched ++ Free}},
            tell_sentry([], S),
            watch_put(S)
    end.

%% Those that nobody watches.
watches(Session, Ours) ->
    [MFA || MFA <- (?CODE_CHANGES ++ [?SETS_PATTERN || Session =:= legacy]) -- Ours,
            not is_watched(Session, MFA)].

watch_put(#state{code = #code{watched = Watched}} = S) ->
    [pattern(watch_session(S), MFA, watch_spec(MFA), meta) || MFA <- Watched],
    S.

watch_spec(?SETS_PATTERN) -> [{'_', [{'=/=', {self}, self()}], []}];
watch_spec(_) -> [{'_', [], [{message, false}, {return_trace}]}].

%% The session with the watch. With the native probe that is not the session of the plan.
-spec watch_session(#state{}) -> kprof_flagger:session().
watch_session(#state{code = #code{session = undefined}, session = Session}) -> Session;
watch_session(#state{code = #code{session = Session}}) -> Session.

%% Sets the modules that tiers.conf names.
-spec use_modules([module()], #state{}) -> #state{}.
use_modules(Mods, #state{code = Code} = S) ->
    S#state{code = Code#code{modules = [{M, version(M)} || M <- Mods],
                             checked_at = erlang:system_time(microsecond)}}.

version(Mod) ->
    try erlang:get_module_info(Mod, md5)
    catch error:badarg -> none
    end.

%% The VM has reported a change.
-spec code_changed(erlang:timestamp(), #state{}) -> #state{}.
code_changed(At, #state{code = #code{loads = Loads} = Code} = S) ->
    Now = now_ms(),
    First = case Loads of none -> Now; {Then, _} -> Then end,
    recheck(micros(At), S#state{code = Code#code{loads = {First, Now}}}).

micros({Mega, Sec, Us}) ->
    (Mega * 1000000 + Sec) * 1000000 + Us.

%% At: when code was changed, or a time before which it was not, in microseconds of system
%% time. Many loads are of modules that are not ours, so only one function of each of our
%% modules is looked at.
-spec recheck(integer() | never, #state{}) -> #state{}.
recheck(_, #state{code = #code{checked_at = never}} = S) -> S;
recheck(At, S0) ->
    {Changes, S} = changes(S0),
    Again = [{M, reloaded} || not is_cleared(S), M <- bare_modules(S),
                              not lists:keymember(M, 1, Changes)],
    all_changed(Changes ++ Again, At, S).

%% The same where no load was reported: a module with the same version was not loaded.
-spec look_changes(integer() | never, #state{}) -> #state{}.
look_changes(_, #state{code = #code{checked_at = never}} = S) -> S;
look_changes(At, S0) ->
    {Changes, S} = changes(S0),
    all_changed(Changes, At, S).

changes(#state{code = #code{modules = Before}} = S0) ->
    S = use_modules([M || {M, _} <- Before], S0),
    After = S#state.code#code.modules,
    {[{M, change(Old, New)} || {{M, Old}, {M, New}} <- lists:zip(Before, After), Old =/= New], S}.

all_changed(Changes, At, S) ->
    lists:foldl(fun(Change, S1) -> changed(Change, At, S1) end, S, Changes).

%% The report that code has changed may wait behind many events.
look_ahead(#state{code = #code{checked_at = At}} = S) ->
    case erlang:system_time(microsecond) - At of
        Us when Us > ?LOOK_US -> recheck(At, S);
        _ -> S
    end.

change(none, _) -> loaded;
change(_, none) -> deleted;
change(_, _) -> reloaded.

bare_modules(#state{plan = Plan} = S) ->
    One = maps:from_list([{M, I} || #item{mfa = {M, _, _}} = I <- Plan,
                                    is_wanted(I, S)]),
    [M || {M, I} <- maps:to_list(One), is_bare(I, S)].

is_wanted(#item{gone = true}, _) -> false;
is_wanted(#item{kind = entry}, _) -> true;
is_wanted(I, #state{state = State} = S) ->
    State =:= armed andalso armed_spec(I, S) =/= false.

is_bare(#item{mfa = MFA, kind = entry}, #state{session = Session}) ->
    not is_integer(counter(Session, MFA));
is_bare(#item{mfa = MFA}, #state{session = Session}) -> traced(Session, MFA) =/= local.

changed({Mod, What}, At, #state{plan = Plan} = S0) ->
    {Mine, Others} = lists:partition(fun(#item{mfa = {M, _, _}}) -> M =:= Mod end, Plan),
    {Uncounted, S1} = forget_counters(Mine, S0),
    {Entries, Tiers} = by_kind(Mine),
    Again = [arm_again(I, S1) || I <- Tiers ++ Entries],
    Gone = [I || #item{gone = true} = I <- Again],
    Gap = if length(Gone) < length(Again) -> max(0, erlang:system_time(microsecond) - At);
             true -> 0
          end,
    #code{changes = N, gap_us = GapUs} = Code = S1#state.code,
    S = count_tiers(
          S1#state{plan = Again ++ Others,
                   code = Code#code{changes = N + 1, gap_us = GapUs + Gap}}),
    notice({kprof_notice, code, {Mod, What, Gap, Uncounted}, length(Gone)}, S).

%% Nobody knows what was counted since the last reading. Returns how long that was, in
%% microseconds.
-spec forget_counters([#item{}], #state{}) -> {non_neg_integer(), #state{}}.
forget_counters(Items, #state{session = Session, entry_calls = Calls, hot = Hot} = S) ->
    #entry_calls{read = Read, read_at = At, base = Base} = Calls,
    IsCounted = fun(MFA) -> is_integer(counter(Session, MFA)) end,
    Gone = [MFA || #item{mfa = MFA, kind = entry, gone = false} <- Items, not IsCounted(MFA)],
    Sum = lists:sum([maps:get(MFA, Read, 0) || MFA <- Gone]),
    Uncounted = case Gone of
                    [] -> 0;
                    _ -> (now_ms() - At) * 1000
                end,
    Tiers = maps:filter(fun(MFA, _) -> IsCounted(MFA) end, Hot#hot.counters),
    {Uncounted,
     S#state{entry_calls = Calls#entry_calls{base = Base + Sum, read = maps:without(Gone, Read)},
             hot = Hot#hot{counters = Tiers}}}.

arm_again(#item{mfa = MFA} = I, #state{session = Session} = S) ->
    Gone = traced(Session, MFA) =:= undefined,
    Gone orelse I#item.kind =/= entry orelse
        is_integer(counter(Session, MFA)) orelse
        set_counter(Session, MFA, true),
    Gone orelse S#state.state =/= armed orelse set_patterns([I], S),
    I#item{gone = Gone}.

%% ---- modules that no tier names ----

%% "What has changed since then?" The VM does not report which module was loaded, so the versions
%% of all are compared: 0.2 us each, of 65,536 at most. That is done once for loads that follow
%% each other closely, never without a load, and for no more than a thousandth of the time. A
%% module that was loaded again with the same code has not changed.
look_loads(#state{code = #code{loads = Loads, look_from = From} = Code} = S) ->
    Now = now_ms(),
    case Now >= From andalso is_look_due(Now, Loads, S) of
        true ->
            Began = now_ns(),
            Versions = versions(),
            Pause = (now_ns() - Began) * 1000 div 1000000,
            report_loads(Code#code.versions, Versions, Now - first(Loads, Now),
                         S#state{code = Code#code{loads = none, versions = Versions,
                                                  look_from = Now + Pause}});
        false -> S
    end.

is_look_due(Now, none, #state{code = #code{watched = Watched, look_from = From}}) ->
    ?CODE_CHANGES -- Watched =/= [] andalso Now - From >= ?LOADS_UNWATCHED_MS;
is_look_due(Now, {First, Last}, _) ->
    Now - Last >= ?LOADS_QUIET_MS orelse Now - First >= ?LOADS_LAST_MS.

%% A small integer is as good as the checksum that it begins.
versions() ->
    maps:from_list([{M, V} || M <- erlang:loaded(), <<V:56, _/bits>> <- [version(M)]]).

first(none, Now) -> Now;
first({First, _}, _) -> First.

%% Ago: ms since the first load.
report_loads(none, _, _, S) -> S;
report_loads(Before, After, Ago, #state{code = #code{modules = Modules}} = S0) ->
    Reported = [M || {M, _} <- Modules] ++ kprofs(),
    Changes = [{change(maps:get(M, Before, none), maps:get(M, After, none)), M}
               || M <- maps:keys(maps:merge(Before, After)),
                  maps:get(M, Before, none) =/= maps:get(M, After, none),
                  not lists:member(M, Reported)],
    lists:foldl(fun(How, S) -> loads_notice(How, [M || {H, M} <- Changes, H =:= How], Ago, S) end,
                S0, [reloaded, loaded, deleted]).

loads_notice(_, [], _, S) -> S;
loads_notice(How, Modules, Ago, S) ->
    Named = lists:sublist(lists:sort(Modules), ?LOADS_NAMED),
    notice({kprof_notice, loads, {How, Ago, Named}, length(Modules)}, S).
