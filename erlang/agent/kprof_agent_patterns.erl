%% kprof_agent_patterns - patterns and counters of functions, by either way of tracing: a trace
%% session (OTP 27 and later), or legacy tracing, where the node has one tracer.
-module(kprof_agent_patterns).

-export([tracer/1, foreign_tracing/1, taken/2, is_others_now/2, pattern/3, pattern/4, set_counter/3,
         is_watched/2, counter/2, traced/2]).

-import(kprof_agent_intact, [trace_info/3]).
-import(kprof_agent_sentry, [alive/0]).
-import(kprof_tracing, [trace_set/4]).

-include("kprof_agent.hrl").

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
foreign_tracing(_) ->
    false.

%% Returns the functions that somebody else traces, and that we do not.
-spec taken([mfa()], #state{}) -> [mfa()].
taken(MFAs, S) ->
    [MFA || MFA <- MFAs, somebody_elses(S#state.session, MFA, S)].

somebody_elses(legacy, MFA, S) ->
    not lists:keymember(MFA, #item.mfa, S#state.plan) andalso
        has_any([traced, meta, call_count], MFA);
somebody_elses(_, _, _) ->
    false.

%% While our tracing is off, somebody else may trace a function of our plan.
-spec is_others_now(#item{}, #state{}) -> boolean().
is_others_now(#item{mfa = MFA}, #state{session = legacy}) ->
    has_any([traced, meta], MFA);
is_others_now(_, _) ->
    false.

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
is_watched(legacy, MFA) ->
    has_any([meta], MFA);
is_watched(_, _) ->
    false.

%% An integer, or false where nobody counts.
-spec counter(kprof_flagger:session(), mfa()) -> integer() | false | undefined.
counter(Session, MFA) ->
    {call_count, N} = trace_info(Session, MFA, call_count),
    N.

-spec traced(kprof_flagger:session(), mfa()) -> false | local | global | undefined.
traced(Session, MFA) ->
    {traced, How} = trace_info(Session, MFA, traced),
    How.
