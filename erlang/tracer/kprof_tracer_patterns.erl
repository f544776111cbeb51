%% kprof_tracer_patterns - the patterns of functions that are traced, and their match specs, in
%% the two trace back ends.
-module(kprof_tracer_patterns).

-export([arm/1, spec_bytes/2, spec/2, caller/1, legacy_clear/1, pattern/3, pattern_meta/3]).

-include("kprof_tracer.hrl").

%% What describes arguments takes some 125 KB for each.
-spec arm(#s{}) -> #s{}.
arm(#s{p = #profile{armed = All}, loads = L} = S) ->
    {_, Sum, Of} = lists:foldl(fun(P, {N, Sum0, Of0}) ->
                                       Spec = spec(P, S),
                                       Bytes = spec_bytes(Spec, S),
                                       specs_fit(Sum0 + Bytes, S),
                                       pattern((S#s.p)#profile.session, P, Spec),
                                       kprof_oneshot:arm_look(N, S#s.p),
                                       kprof_oneshot:heed(0, S#s.p),
                                       {N + 1, Sum0 + Bytes,
                                        maps:update_with(element(1, P), fun(B) -> B + Bytes end, Bytes, Of0)}
                               end, {1, 0, #{}}, [P || P <- All, tuple_size(P) =:= 3]),
    S#s{loads = L#loads{bytes = Sum, each = Of}}.

spec_bytes(_, #s{args = 0}) -> 0;
spec_bytes(Spec, _) -> erts_debug:flat_size(Spec) * erlang:system_info(wordsize).

specs_fit(Sum, #s{p = #profile{memory_max = Max}}) when Sum > Max ->
    kprof_refusal:refuse("to show the arguments of so many functions takes more memory than -max-memory: name fewer, or leave out -args",
                         []);
specs_fit(_, _) ->
    ok.

spec(_, #s{probe = native, guards = Guards}) ->
    [{'_', Guards, [{message, {{kprof_calls, {caller}}}}]}];
spec(P, #s{r = undefined, guards = Guards, args = Args}) ->
    kprof_tracer_args:calls(P, Guards, fun(Caller) -> [{message, Caller}] end, Args);
spec(P, #s{guards = Guards, args = Args} = S) ->
    kprof_tracer_args:calls(P, [{is_seq_trace} | Guards], fun(Caller) -> [kprof_tracer_server:runs(S), {message, {{{get_seq_token}, Caller}}}] end, Args).

%% With arguments, or without.
caller({Caller, _}) -> Caller;
caller(Caller) -> Caller.

legacy_clear({meta, P}) ->
    pattern_meta(legacy, P, false);
legacy_clear(P) ->
    pattern(legacy, P, false).

%% Local, since return_to is for local calls only.
pattern(legacy, MFA, Spec) ->
    erlang:trace_pattern(MFA, Spec, [local]);
pattern(Session, MFA, Spec) ->
    kprof_tracer_span:in_session(Session, fun() -> trace:function(Session, MFA, Spec, [local]) end, 0).

%% Of any process, flags or none.
pattern_meta(legacy, MFA, Spec) ->
    erlang:trace_pattern(MFA, Spec, [if Spec =:= false -> meta; true -> {meta, self()} end]);
pattern_meta(Session, MFA, Spec) ->
    trace:function(Session, MFA, Spec, [meta]).
