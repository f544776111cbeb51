%% kprof_tracer_patterns - the patterns of traced functions, and their match specs, by either way
%% of tracing.
-module(kprof_tracer_patterns).

-export([arm/1, spec_bytes/2, spec/2, caller/1, legacy_clear/1, pattern/3, pattern_meta/3]).

-import(kprof_oneshot, [arm_look/2]).
-import(kprof_refusal, [refuse/2]).
-import(kprof_tracer_loads, [ahead_clear/2]).
-import(kprof_tracer_span, [in_session/3]).

-include("kprof_tracer.hrl").

%% A match spec that shows arguments takes some 125 KB.
-spec arm(#s{}) -> #s{}.
arm(#s{profile = #profile{armed = All}, loads = L} = S) ->
    Patterns = [P || P <- All, tuple_size(P) =:= 3],
    {_, Sum, Each} = lists:foldl(fun(P, Sums) -> arm(P, Sums, S) end, {1, 0, #{}}, Patterns),
    S#s{loads = L#loads{bytes = Sum, each = Each}}.

arm({M, _, _} = P, {N, Sum0, Each}, #s{profile = Profile} = S) ->
    Spec = spec(P, S),
    Bytes = spec_bytes(Spec, S),
    Sum = Sum0 + Bytes,
    specs_fit(Sum, S),
    pattern(Profile#profile.session, P, Spec),
    arm_look(N, Profile),
    kprof_oneshot:heed(0, Profile),
    {N + 1, Sum, Each#{M => maps:get(M, Each, 0) + Bytes}}.

spec_bytes(_, #s{args_max = 0}) -> 0;
spec_bytes(Spec, _) -> erts_debug:flat_size(Spec) * erlang:system_info(wordsize).

specs_fit(Sum, #s{profile = #profile{memory_max = Max}}) when Sum > Max ->
    refuse("showing the arguments of these functions takes more memory than"
           " -max-memory: name fewer, or leave out -args", []);
specs_fit(_, _) ->
    ok.

spec(_, #s{probe = native, guards = Guards}) ->
    [{'_', Guards, [{message, {{kprof_calls, {caller}}}}]}];
spec(P, #s{requests = undefined, guards = Guards, args_max = Args}) ->
    kprof_tracer_args:calls(P, Guards, fun(Caller) -> [{message, Caller}] end, Args);
spec(P, #s{guards = Guards, args_max = Args} = S) ->
    Body = fun(Caller) ->
                   [kprof_tracer_server:runs(S), {message, {{{get_seq_token}, Caller}}}]
           end,
    kprof_tracer_args:calls(P, [{is_seq_trace} | Guards], Body, Args).

%% The caller in a message with arguments or without.
caller({Caller, _}) -> Caller;
caller(Caller) -> Caller.

legacy_clear({meta, P}) ->
    pattern_meta(legacy, P, false);
legacy_clear({on_load, {Spec, Known}}) ->
    ahead_clear(Spec, Known);
legacy_clear(P) ->
    pattern(legacy, P, false).

%% A local pattern, since return_to needs one.
pattern(legacy, MFA, Spec) ->
    erlang:trace_pattern(MFA, Spec, [local]);
pattern(Session, MFA, Spec) ->
    Set = fun() -> trace:function(Session, MFA, Spec, [local]) end,
    in_session(Session, Set, 0).

%% A meta pattern: for all processes, with or without flags.
pattern_meta(legacy, MFA, Spec) ->
    erlang:trace_pattern(MFA, Spec, [if Spec =:= false -> meta; true -> {meta, self()} end]);
pattern_meta(Session, MFA, Spec) ->
    trace:function(Session, MFA, Spec, [meta]).
