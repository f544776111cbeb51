%% kprof_trace.hrl - the two trace back ends: trace sessions (OTP 27 and later),
%% and the one tracer that a node has before.

%% One more, with another tracer.
session_new(legacy, _) -> legacy;
session_new(_, Tracer) -> trace:session_create(kprofd, Tracer, []).

tracer(#s{probe = native}) -> kprof_probe:tracer();
tracer(_) -> self().

%% On OTP 25 and 26 there is one tracer for new processes, for everybody.
foreign_tracing(legacy) ->
    case erlang:trace_info(new_processes, tracer) of
        {tracer, []} -> false;
        {tracer, Who} -> {new_processes_traced_by, name(Who)}
    end;
foreign_tracing(_) ->
    false.

taken(MFAs, S) ->
    [MFA || MFA <- MFAs, somebody_elses(S#s.session, MFA, S)].

somebody_elses(legacy, MFA, S) ->
    not lists:keymember(MFA, #item.mfa, S#s.plan) andalso
        has_any([traced, meta, call_count], MFA);
somebody_elses(_, _, _) ->
    false.

%% Of one that is ours: while we rest, so may they.
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

%% On OTP 25 and 26 a process has one tracer, and 'all' passes over those that
%% are somebody else's, without a word. Another process looks for them: where
%% there are some 100,000 processes that takes seconds, and events are coming.
find_neighbours(#s{session = legacy, state = armed} = S) ->
    Agent = self(),
    Ours = tracer(S),
    spawn(fun() -> Agent ! {neighbours, neighbours(Ours)} end);
find_neighbours(_) ->
    none.

neighbours(Agent) ->
    [{P, T} || P <- processes(), {tracer, T} <- [erlang:trace_info(P, tracer)],
               T =/= [], T =/= Agent].

tell_neighbours([], S) ->
    S;
tell_neighbours(Traced, S) ->
    Some = [{name(P), name(T)} || {P, T} <- lists:sublist(Traced, ?NEIGHBOURS)],
    notice({kprof_notice, neighbours, Some, length(Traced)}, S).

pattern(Session, MFA, Spec) ->
    pattern(Session, MFA, Spec, local).

pattern(legacy, MFA, Spec, How) ->
    try erlang:trace_pattern(MFA, Spec, [case How of
                                             meta when Spec =/= false ->
                                                 {meta, self()};
                                             _ -> How
                                         end])
    catch error:Why -> Why
    end;
pattern(Session, MFA, Spec, How) ->
    try trace:function(Session, MFA, Spec, [How])
    catch error:Why -> Why
    end.

count(Session, MFA, On) ->
    pattern(Session, MFA, On, call_count).

is_watched(legacy, MFA) ->
    has_any([meta], MFA);
is_watched(_, _) ->
    false.

%% An integer, or false where nobody counts.
counter(legacy, MFA) ->
    {call_count, N} = erlang:trace_info(MFA, call_count),
    N;
counter(Session, MFA) ->
    {call_count, N} = trace:info(Session, MFA, call_count),
    N.

traced(legacy, MFA) ->
    {traced, How} = erlang:trace_info(MFA, traced),
    How;
traced(Session, MFA) ->
    {traced, How} = trace:info(Session, MFA, traced),
    How.

processes_trace(#s{session = legacy} = S) ->
    Tracer = [{tracer, Module, State} || {Module, State} <- [tracer(S)]],
    erlang:trace(all, true, Tracer ++ trace_flags(S));
processes_trace(#s{session = Session} = S) ->
    trace:process(Session, all, true, trace_flags(S)).

%% The native probe looks at the clock itself, and is told of the end of calls
%% traced 'exactly', which have a fallback, without return_to.
trace_flags(#s{probe = relay}) ->
    [call, arity, return_to, monotonic_timestamp];
trace_flags(#s{plan = Plan}) ->
    [call, arity | [return_to || lists:any(fun(#item{fallback = F}) ->
                                                   F =:= []
                                           end, Plan)]].

%% A session goes as a whole.
clear_processes(legacy, Tracer) ->
    clear_flags(Tracer);
clear_processes(Session, _) ->
    trace:session_destroy(Session),
    ok.
