%% kprof_agent_intact - checks with each lease that nobody has taken what the agent set.
%%
%% Before OTP 27 tracing is shared by everybody: recon_trace:clear(), dbg:stop() or a
%% trace(all, false, [all]) take patterns, counters, flags, the setting for new processes and
%% the watch for code, and somebody's trace_pattern/3 replaces ours. From OTP 27 on a session
%% can be found in trace:session_info(all), and anybody can change or destroy it.
%%
%% What is missing is reported and put back. The third time within a minute the agent switches
%% tracing off for a while: somebody is at work there, and needs what we have.
-module(kprof_agent_intact).

-export([check_intact/1, canary_put/1, is_cleared/1, watch_trim/1, put_back_disarmed/1,
         session_check/1, trace_info/3]).

-import(kprof_agent_arming, [disarm/2, set_patterns/2]).
-import(kprof_agent_code, [forget_counters/2, watch_put/1, watch_session/1]).
-import(kprof_agent_events, [notice/2]).
-import(kprof_agent_messages, [armed_spec/2]).
-import(kprof_agent_patterns, [is_watched/2, pattern/3, traced/2]).
-import(kprof_agent_process_flags, [flags_await/1, flags_lost/1]).
-import(kprof_agent_sched_gc, [tiers_first/1]).
-import(kprof_injected, [now_ms/0, now_ns/0]).

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

-spec check_intact(#s{}) -> #s{}.
check_intact(#s{plan = []} = S) ->
    S;
check_intact(S0) ->
    S1 = check_new_tracer(S0),
    case missing(S1) of
        [] ->
            look_changes(all_there(S1));
        _ ->
            S = await_code(S1),
            case missing(S) of
                [] -> all_there(S);
                Missing -> something_missing(Missing, S)
            end
    end.

all_there(#s{intact = I} = S) ->
    S#s{intact = I#intact{intact_at = now_ms(), missing_since = never}}.

%% A load takes patterns and counters before it is reported, on a busy node long before. What
%% is still missing some time later was taken by somebody.
something_missing(Missing, #s{intact = #intact{missing_since = never} = I} = S) ->
    something_missing(Missing,
                      S#s{intact = I#intact{missing_since = now_ms()}});
something_missing(Missing, #s{intact = #intact{missing_since = Since}} = S) ->
    IsOther = fun({What, _}) -> What =/= patterns andalso What =/= counters end,
    case now_ms() - Since >= ?SUSPECT_MS orelse is_cleared(S) orelse
        lists:any(IsOther, Missing) of
        true -> all_there(somebody_took(Missing, S));
        false -> S
    end.

%% Finds modules that were deleted or replaced. One that was loaded again unchanged lost its
%% patterns, which is noticed when it happens, unless somebody else watches loads.
look_changes(S) ->
    kprof_agent_code:look_changes(S#s.code#code.checked_at, S).

%% Nobody else takes single patterns of a session: where they are gone, code was loaded. (On 27
%% the report of the first load was seen to be missing.)
await_code(#s{code = #code{watched = Watched, checked_at = At}, session = Session} = S) ->
    case {is_cleared(S), ?CODE_CHANGES -- Watched} of
        {true, _} -> look_changes(S);
        {false, Unwatched} when Session =/= legacy; Unwatched =/= [] ->
            kprof_agent_code:recheck(At, S);
        {false, []} ->
            receive
                ?CODE_CHANGED(Loaded) ->
                    kprof_agent_code:recheck(kprof_agent_code:micros(Loaded), S)
            after ?CODE_WAIT_MS -> look_changes(S)
            end
    end.

-spec canary_put(#s{}) -> #s{}.
canary_put(#s{session = Session} = S) ->
    _ = kprof_agent_patterns:count(Session, ?CANARY, true),
    _ = pattern(Session, ?CANARY, [{'_', [], [{message, false}]}]),
    S.

-spec is_cleared(#s{}) -> boolean().
is_cleared(#s{session = Session, state = State}) ->
    not is_integer(kprof_agent_patterns:counter(Session, ?CANARY)) orelse
        State =:= armed andalso traced(Session, ?CANARY) =/= local.

%% [{What, HowMany}] of what has to be there always, and of what has to be while armed.
missing(#s{state = State} = S) ->
    Armed = case State of armed -> missing_armed(S); _ -> [] end,
    Counters = [MFA || #item{mfa = MFA, kind = entry, gone = false} <- S#s.plan,
                       exists(MFA, S), not has_counter(MFA, S)],
    Watch = [MFA || MFA <- S#s.code#code.watched, not is_watch(S, MFA)],
    Armed ++ [{counters, length(Counters)} || Counters =/= []] ++
        [{watch, length(Watch)} || Watch =/= []].

missing_armed(#s{plan = Plan} = S) ->
    Patterns = [MFA || #item{mfa = MFA, gone = false, spec = Spec} = I <- Plan,
                       Spec =/= false, exists(MFA, S), not has_pattern(I, S)],
    [{patterns, length(Patterns)} || Patterns =/= []] ++
        [{flags, 1} || not has_flags(element(1, S#s.sentry), S)] ++
        [{new_processes, 1} || not has_new(S)].

exists(MFA, #s{session = Session}) ->
    traced(Session, MFA) =/= undefined.

has_counter(MFA, #s{session = Session}) ->
    is_integer(kprof_agent_patterns:counter(Session, MFA)).

has_pattern(#item{mfa = MFA} = I, #s{session = Session} = S) ->
    trace_info(Session, MFA, match_spec) =:=
        {match_spec, armed_spec(I, S)}.

%% The sentry has the flags that all processes have: if it lost them, others did.
has_flags(_, #s{process_flags = #process_flags{set = []}}) ->
    true;
has_flags(P, #s{session = legacy, process_flags = #process_flags{set = Set}} = S) ->
    erlang:trace_info(P, tracer) =:= {tracer, kprof_agent_patterns:tracer(S)} andalso
        has_all(Set, erlang:trace_info(P, flags));
has_flags(P, #s{session = Session, process_flags = #process_flags{set = Set}}) ->
    has_all(Set, trace_info(Session, P, flags)).

%% Before OTP 27 there is one tracer for new processes. Where somebody has made that theirs, as
%% dbg:p(all, _) does, it is theirs until they end: the VM would not give it back, and we do
%% not take it. The daemon is notified once.
has_new(#s{intact = #intact{new_tracer = none}} = S) -> has_flags(new_processes, S);
has_new(_) -> true.

check_new_tracer(#s{session = legacy, process_flags = #process_flags{set = [_ | _]},
                    intact = #intact{new_tracer = Was} = I} = S) ->
    Ours = kprof_agent_patterns:tracer(S),
    case erlang:trace_info(new_processes, tracer) of
        {tracer, T} when T =:= Ours; T =:= [] ->
            S#s{intact = I#intact{new_tracer = none}};
        {tracer, Was} ->
            S;
        {tracer, T} ->
            notice({kprof_notice, lent, at_work(S), 0}, S#s{intact = I#intact{new_tracer = T}})
    end;
check_new_tracer(#s{intact = I} = S) ->
    S#s{intact = I#intact{new_tracer = none}}.

has_all(Set, {flags, Has}) when is_list(Has) -> Set -- Has =:= [];
has_all(_, _) -> false.

is_watch(S, MFA) ->
    trace_info(watch_session(S), MFA, meta) =:= {meta, self()}.

%% ---- what to do about it ----

somebody_took(Missing, #s{intact = #intact{taken = Before, intact_at = At} = I} = S) ->
    Now = now_ms(),
    Times = [Now | [Then || Then <- Before, Now - Then < ?TAKEN_MS]],
    Who = at_work(S),
    case length(Times) < ?TAKEN_MAX orelse S#s.state =/= armed of
        true ->
            Gap = case At of never -> 0; _ -> Now - At end,
            Notice = {kprof_notice, taken, {Missing, Who, Gap}, min(length(Times), ?TAKEN_MAX)},
            put_back(notice(Notice, S#s{intact = I#intact{taken = Times}}));
        false ->
            give_up(Missing, Who, S#s{intact = I#intact{taken = []}})
    end.

give_up(Missing, Who, S0) ->
    Began = #{reason => {taken, Missing}, queue => 0, tripped_at => now_ns()},
    #s{last_trip = Trip, lease = Lease} = S = disarm({tripped, taken}, S0#s{last_trip = Began}),
    notice(
      {kprof_notice, rest, {taken, Missing, Who}, 0},
      S#s{last_trip = Trip#{disarmed_at => now_ns()},
          lease = Lease#lease{renewed_at = now_ms()}}).

%% The tools and tracers that may have done it, as far as their names show.
at_work(#s{session = Session, sentry = {Sentry, _}} = S) ->
    Ours = kprof_agent_patterns:tracer(S),
    Tracers = [T || Session =:= legacy, P <- [new_processes, Sentry],
                    {tracer, T} <- [erlang:trace_info(P, tracer)], T =/= [], T =/= Ours],
    lists:usort([N || N <- ?TRACERS, is_pid(whereis(N))] ++
                    [kprof_injected:name(T) || T <- Tracers]).

put_back(S0) ->
    Entries = [I || #item{kind = entry, gone = false} = I <- S0#s.plan],
    {_, #s{session = Session} = S} = forget_counters(Entries, S0),
    [kprof_agent_patterns:count(Session, MFA, true)
     || #item{mfa = MFA} <- Entries, kprof_agent_patterns:counter(Session, MFA) =:= false],
    S1 = canary_put(watch_put(watch_trim(S))),
    case {S1#s.state, have_flags(S1)} of
        {armed, false} ->
            {_, S2} = flags_await(flags_lost(S1)),
            put_patterns(S2);
        {armed, true} -> put_patterns(S1);
        _ -> S1
    end.

%% Gives up watches for code that somebody else has set by now: there is one meta tracer for
%% everybody. Without a watch, code is checked with each lease.
-spec watch_trim(#s{}) -> #s{}.
watch_trim(#s{code = #code{watched = Watched} = Code, session = Session} = S) ->
    Left = [MFA || MFA <- Watched,
                   is_watch(S, MFA) orelse not is_watched(Session, MFA)],
    S#s{code = Code#code{watched = Left}}.

put_patterns(S) ->
    Missing = [I || I <- tiers_first(S), not has_pattern(I, S)],
    _ = set_patterns(Missing, S),
    S.

%% With a resume: what was taken while nothing was armed.
-spec put_back_disarmed(#s{}) -> #s{}.
put_back_disarmed(#s{plan = []} = S) ->
    S;
put_back_disarmed(S0) ->
    S = case missing(S0#s{state = idle}) of
            [] -> S0;
            _ -> put_back(S0)
        end,
    case have_flags(S) of
        true -> S;
        false -> flags_lost(S)
    end.

have_flags(#s{sentry = {Sentry, _}} = S) ->
    has_flags(Sentry, S) andalso has_new(S).

%% ------------------------------------------------------------- sessions ----

%% Ends the agent if somebody has destroyed its session, which trace:session_info/1 shows to
%% anybody. With the native probe there are two sessions.
-spec session_check(#s{}) -> #s{}.
session_check(#s{session = Session, process_flags = P} = S) ->
    case {is_session(Session), is_session(watch_session(S))} of
        {true, true} ->
            S;
        {true, false} ->
            kprof_agent_server:finish(session_destroyed, S);
        {false, _} ->
            kprof_agent_server:finish(session_destroyed,
                                      S#s{process_flags = P#process_flags{set = []}})
    end.

is_session(legacy) ->
    true;
is_session(Session) ->
    try trace:info(Session, new_processes, flags) of _ -> true
    catch error:badarg -> false
    end.

%% {Key, undefined} if the session was destroyed meanwhile.
-spec trace_info(kprof_flagger:session(), pid() | new_processes | mfa(), atom()) ->
          {atom(), term()} | undefined.
trace_info(legacy, What, Key) ->
    erlang:trace_info(What, Key);
trace_info(Session, What, Key) ->
    try trace:info(Session, What, Key)
    catch error:badarg -> {Key, undefined}
    end.
