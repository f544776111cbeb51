%% kprof_agent_patterns - patterns and counters of functions, in the two trace back
%% ends: trace sessions (OTP 27 and later), and the one tracer that a node has before.
-module(kprof_agent_patterns).

-export([session_new/2, tracer/1, foreign_tracing/1, taken/2, is_others_now/2, pattern/3,
         pattern/4, count/3, is_watched/2, counter/2, traced/2]).

-include("kprof_agent.hrl").

%% One more, with another tracer.
session_new(legacy, _) -> legacy;
session_new(_, Tracer) -> trace:session_create(kprofd, Tracer, []).

tracer(#s{probe = native}) -> kprof_probe:tracer();
tracer(_) -> self().

%% On OTP 25 and 26 there is one tracer for new processes, for everybody.
foreign_tracing(legacy) ->
    case erlang:trace_info(new_processes, tracer) of
        {tracer, []} -> false;
        {tracer, Who} -> {new_processes_traced_by, kprof_injected:name(Who)}
    end;
foreign_tracing(_) ->
    false.

-spec taken([mfa()], #s{}) -> [mfa()].
taken(MFAs, S) ->
    [MFA || MFA <- MFAs, somebody_elses(S#s.session, MFA, S)].

somebody_elses(legacy, MFA, S) ->
    not lists:keymember(MFA, #item.mfa, S#s.plan) andalso
        has_any([traced, meta, call_count], MFA);
somebody_elses(_, _, _) ->
    false.

%% Of one that is ours: while we rest, so may they.
-spec is_others_now(#item{}, #s{}) -> boolean().
is_others_now(#item{mfa = MFA}, #s{session = legacy}) ->
    has_any([traced, meta], MFA);
is_others_now(_, _) ->
    false.

%% A function with a counter says [] of its meta tracer where it has none.
has_any(Kinds, MFA) ->
    lists:any(fun(Kind) ->
                      {Kind, V} = erlang:trace_info(MFA, Kind),
                      not lists:member(V, [false, undefined, []])
              end, Kinds).

pattern(Session, MFA, Spec) ->
    pattern(Session, MFA, Spec, local).

pattern(legacy, MFA, Spec, How) ->
    try erlang:trace_pattern(MFA, Spec, case How of
                                            meta when Spec =/= false -> [{meta, self()}];
                                            counted -> [local, call_count];
                                            _ -> [How]
                                        end)
    catch error:Why -> Why
    end;
pattern(Session, MFA, Spec, How) ->
    try trace:function(Session, MFA, Spec, case How of
                                               counted -> [local, call_count];
                                               _ -> [How]
                                           end)
    catch error:Why -> Why
    end.

count(Session, MFA, On) ->
    pattern(Session, MFA, On, call_count).

-spec is_watched(kprof_flagger:session(), mfa()) -> boolean().
is_watched(legacy, MFA) ->
    has_any([meta], MFA);
is_watched(_, _) ->
    false.

%% An integer, or false where nobody counts.
counter(Session, MFA) ->
    {call_count, N} = kprof_agent_intact:trace_info(Session, MFA, call_count),
    N.

traced(Session, MFA) ->
    {traced, How} = kprof_agent_intact:trace_info(Session, MFA, traced),
    How.
