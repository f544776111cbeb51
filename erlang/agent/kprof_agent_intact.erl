%% kprof_agent_intact - is all that is ours still there? Asked with each lease.
%%
%% Before OTP 27 tracing is everybody's: recon_trace:clear(), dbg:stop() or a
%% trace(all, false, [all]) take patterns, counters, flags, the setting for new
%% processes and the watch for code, and somebody's trace_pattern/3 takes the place
%% of ours. From OTP 27 on a session can be found in trace:session_info(all), and
%% be changed or destroyed by whoever does.
%%
%% What is missing is told of in words, and put back. The third time within a
%% minute the target rests: somebody is at work there, and needs what we have.
-module(kprof_agent_intact).

-export([intact/1, canary_put/1, is_cleared/1, watch_left/1, put_back_rested/1, session_look/1,
         trace_info/3]).

-include("kprof_agent.hrl").

%% A function that no code load takes patterns from: its are gone where somebody
%% has cleared those of all functions.
-define(CANARY, {kprof_agent, status, 0}).
-define(TAKEN_MS, 60000).
-define(TAKEN_MAX, 3).
-define(SUSPECT_MS, 800).       % less than between two leases
-define(CODE_WAIT_MS, 50).      % for the word that code was loaded
%% Who uses these: their processes' names.
-define(TRACERS, [dbg, ttb, recon_trace_tracer, recon_trace_formatter, redbug, xprof_tracer, fprof, eprof,
                  observer, etop_server]).

-spec intact(#s{}) -> #s{}.
intact(#s{plan = []} = S) ->
    S;
intact(S0) ->
    S1 = new_lent(S0),
    case missing(S1) of
        [] -> code_looked(S1#s{intact_at = kprof_injected:now_ms(), suspected = never});
        _ ->
            S = code_waited(S1),
            case missing(S) of
                [] -> S#s{intact_at = kprof_injected:now_ms(), suspected = never};
                Missing -> missed(Missing, S)
            end
    end.

%% A load that is under way has taken patterns and counters before it tells of
%% itself, on a busy node long before: what is still missing some time later was
%% taken.
missed(Missing, #s{suspected = never} = S) ->
    missed(Missing, S#s{suspected = kprof_injected:now_ms()});
missed(Missing, #s{suspected = Since} = S) ->
    case kprof_injected:now_ms() - Since >= ?SUSPECT_MS orelse is_cleared(S) orelse
        lists:any(fun({What, _}) -> What =/= patterns andalso What =/= counters end, Missing) of
        true -> (somebody_took(Missing, S))#s{intact_at = kprof_injected:now_ms(), suspected = never};
        false -> S
    end.

%% A module that was deleted or is another now; one that was loaded as it is has
%% no patterns, which is seen when it happens, unless somebody else watches that.
code_looked(S) ->
    kprof_agent_code:look_changes(S#s.looked_at, S).

%% A session's patterns are nobody else's to take, short of all at once: where they
%% are gone code was loaded. (On 27 the word of the first load was seen to be missing.)
code_waited(#s{watching = Watching, session = Session} = S) ->
    case is_cleared(S) of
        true -> code_looked(S);
        false when Session =/= legacy -> kprof_agent_code:recheck(S#s.looked_at, S);
        false when length(Watching) < length(?CODE_CHANGES) -> kprof_agent_code:recheck(S#s.looked_at, S);
        false ->
            receive ?CODE_CHANGED(At) -> kprof_agent_code:recheck(kprof_agent_code:micros(At), S)
            after ?CODE_WAIT_MS -> code_looked(S)
            end
    end.

-spec canary_put(#s{}) -> #s{}.
canary_put(#s{session = Session} = S) ->
    _ = kprof_agent_patterns:count(Session, ?CANARY, true),
    _ = kprof_agent_patterns:pattern(Session, ?CANARY, [{'_', [], [{message, false}]}]),
    S.

-spec is_cleared(#s{}) -> boolean().
is_cleared(#s{session = Session, state = State}) ->
    not is_integer(kprof_agent_patterns:counter(Session, ?CANARY)) orelse
        State =:= armed andalso kprof_agent_patterns:traced(Session, ?CANARY) =/= local.

%% [{What, HowMany}], of what is there as long as an agent is, or while armed.
missing(#s{state = State} = S) ->
    Armed = case State of armed -> missing_armed(S); _ -> [] end,
    Counters = [MFA || #item{mfa = MFA, kind = entry, gone = false} <- S#s.plan,
                       is_there(MFA, S), not is_integer(kprof_agent_patterns:counter(S#s.session, MFA))],
    Watch = [MFA || MFA <- S#s.watching, not is_watch(S, MFA)],
    Armed ++ [{What, length(MFAs)} || {What, [_ | _] = MFAs} <- [{counters, Counters}, {watch, Watch}]].

missing_armed(S) ->
    Patterns = [MFA || #item{mfa = MFA, gone = false, spec = Spec} = I <- S#s.plan,
                       Spec =/= false, is_there(MFA, S), match_spec(S#s.session, MFA) =/= kprof_agent_mail:spec(I, S)],
    [{patterns, length(Patterns)} || Patterns =/= []] ++
        [{flags, 1} || not has_flags(element(1, S#s.sentry), S)] ++
        [{new_processes, 1} || not has_new(S)].

is_there(MFA, #s{session = Session}) ->
    kprof_agent_patterns:traced(Session, MFA) =/= undefined.

%% The sentry has the flags that all processes have: what is gone there is gone.
has_flags(_, #s{flagged = []}) ->
    true;
has_flags(P, #s{session = legacy, flagged = Flagged} = S) ->
    erlang:trace_info(P, tracer) =:= {tracer, kprof_agent_patterns:tracer(S)} andalso has_all(Flagged, erlang:trace_info(P, flags));
has_flags(P, #s{session = Session, flagged = Flagged}) ->
    has_all(Flagged, trace_info(Session, P, flags)).

%% Before OTP 27 new processes have one tracer. Where somebody has made that theirs,
%% as dbg:p(all, _) does, it is theirs until they end: the VM would not give it back,
%% and we do not take it. They are told of once.
has_new(#s{lent = none} = S) -> has_flags(new_processes, S);
has_new(_) -> true.

new_lent(#s{session = legacy, flagged = [_ | _], lent = Was} = S) ->
    Ours = kprof_agent_patterns:tracer(S),
    case erlang:trace_info(new_processes, tracer) of
        {tracer, T} when T =:= Ours; T =:= [] -> S#s{lent = none};
        {tracer, Was} -> S;
        {tracer, T} -> kprof_agent_events:notice({kprof_notice, lent, at_work(S), 0}, S#s{lent = T})
    end;
new_lent(S) ->
    S#s{lent = none}.

has_all(Flagged, {flags, Has}) when is_list(Has) -> Flagged -- Has =:= [];
has_all(_, _) -> false.

is_watch(S, MFA) ->
    trace_info(kprof_agent_code:watcher(S), MFA, meta) =:= {meta, self()}.

match_spec(Session, MFA) ->
    {match_spec, Spec} = trace_info(Session, MFA, match_spec),
    Spec.

%% ---- what to do about it ----

somebody_took(Missing, #s{taken = Before} = S) ->
    Now = kprof_injected:now_ms(),
    Times = [Now | [Then || Then <- Before, Now - Then < ?TAKEN_MS]],
    Who = at_work(S),
    case length(Times) < ?TAKEN_MAX orelse S#s.state =/= armed of
        true ->
            Gap = case S#s.intact_at of never -> 0; At -> Now - At end,
            put_back(kprof_agent_events:notice({kprof_notice, taken, {Missing, Who, Gap}, min(length(Times), ?TAKEN_MAX)}, S#s{taken = Times}));
        false ->
            #s{last_trip = Trip} = S1 =
                kprof_agent_arming:disarm({tripped, taken},
                                          S#s{taken = [], last_trip = #{reason => {taken, Missing}, queue => 0, tripped_at => kprof_injected:now_ns()}}),
            kprof_agent_events:notice({kprof_notice, rest, {taken, Missing, Who}, 0},
                                      S1#s{last_trip = Trip#{disarmed_at => kprof_injected:now_ns()}, lease_at = kprof_injected:now_ms()})
    end.

%% As far as names tell.
at_work(S) ->
    lists:usort([N || N <- ?TRACERS, is_pid(whereis(N))] ++
                    [kprof_injected:name(T) || S#s.session =:= legacy, P <- [new_processes, element(1, S#s.sentry)],
                                {tracer, T} <- [erlang:trace_info(P, tracer)], T =/= [], T =/= kprof_agent_patterns:tracer(S)]).

put_back(S0) ->
    Entries = [I || #item{kind = entry, gone = false} = I <- S0#s.plan],
    {_, S} = kprof_agent_code:forget_counters(Entries, S0),
    [kprof_agent_patterns:count(S#s.session, MFA, true) || #item{mfa = MFA} <- Entries, kprof_agent_patterns:counter(S#s.session, MFA) =:= false],
    S1 = canary_put(kprof_agent_code:watch_put(watch_left(S))),
    case {S1#s.state, have_flags(S1)} of
        {armed, false} ->
            {_, S2} = kprof_agent_process_flags:flags_await(kprof_agent_process_flags:flags_lost(S1)),
            put_patterns(S2);
        {armed, true} -> put_patterns(S1);
        _ -> S1
    end.

%% Of the watch for code what nobody else watches by now: one meta tracer is there
%% for everybody, and without it code is looked at with each lease.
-spec watch_left(#s{}) -> #s{}.
watch_left(#s{watching = Watching, session = Session} = S) ->
    S#s{watching = [MFA || MFA <- Watching, is_watch(S, MFA) orelse not kprof_agent_patterns:is_watched(Session, MFA)]}.

put_patterns(S) ->
    _ = kprof_agent_arming:set_patterns([I || I <- kprof_agent_flags:tiers_first(S), match_spec(S#s.session, I#item.mfa) =/= kprof_agent_mail:spec(I, S)], S),
    S.

%% With a resume: what was taken while nothing was armed.
-spec put_back_rested(#s{}) -> #s{}.
put_back_rested(#s{plan = []} = S) ->
    S;
put_back_rested(S0) ->
    S = case missing(S0#s{state = idle}) of
            [] -> S0;
            _ -> put_back(S0)
        end,
    case have_flags(S) of
        true -> S;
        false -> kprof_agent_process_flags:flags_lost(S)
    end.

have_flags(S) ->
    has_flags(element(1, S#s.sentry), S) andalso has_new(S).

%% ------------------------------------------------------------- sessions ----

%% Destroyed through a reference that trace:session_info/1 gives to anybody. With the
%% native probe there are two.
-spec session_look(#s{}) -> #s{}.
session_look(#s{session = Session} = S) ->
    case {is_session(Session), is_session(kprof_agent_code:watcher(S))} of
        {true, true} -> S;
        {true, false} -> kprof_agent_server:finish(session_destroyed, S);
        {false, _} -> kprof_agent_server:finish(session_destroyed, S#s{flagged = []})
    end.

is_session(legacy) ->
    true;
is_session(Session) ->
    try trace:info(Session, new_processes, flags) of _ -> true
    catch error:badarg -> false
    end.

%% Of a session that was destroyed meanwhile there is nothing to tell.
trace_info(legacy, What, Key) ->
    erlang:trace_info(What, Key);
trace_info(Session, What, Key) ->
    try trace:info(Session, What, Key)
    catch error:badarg -> {Key, undefined}
    end.
