%% kprof_tracer_patterns - the patterns of traced functions, and their match specs, by either way
%% of tracing; and which arguments these show.
-module(kprof_tracer_patterns).

-export([arm/1, spec_bytes/2, spec/2, caller/1, legacy_clear/1, pattern/3, pattern_meta/3, calls/4,
         arities/1]).

-import(kprof_injected, [functions/1]).
-import(kprof_oneshot, [arm_look/2]).
-import(kprof_text, [refuse/2]).
-import(kprof_tracer_end, [in_session/3]).
-import(kprof_tracer_loads, [ahead_clear/2]).
-import(kprof_tracing, [trace_set/4]).

-include("kprof_tracer.hrl").

-define(ARGS_MAX, 8).           % arguments of a call that are shown
-define(INT_MAX, (1 bsl 63)).
-define(ELEMENTS, 5).           % of a tuple, and of one in something
-define(ELEMENTS_IN, 3).
-define(CELLS, 12).             % of a list, the first of them as a whole
-define(CELLS_WHOLE, 3).
-define(CELLS_IN, 3).
-define(PREFIX_OF, 65536).      % a larger binary is not kept for its beginning

%% A match spec that shows arguments takes some 125 KB.
arm(#state{profile = #profile{armed = All}, loads = L} = S) ->
    Patterns = [P || P <- All, tuple_size(P) =:= 3],
    {_, Sum, Each} = lists:foldl(fun(P, Sums) -> arm(P, Sums, S) end, {1, 0, #{}}, Patterns),
    S#state{loads = L#loads{bytes = Sum, each = Each}}.

arm({M, _, _} = P, {N, Sum0, Each}, #state{profile = Profile} = S) ->
    Spec = spec(P, S),
    Bytes = spec_bytes(Spec, S),
    Sum = Sum0 + Bytes,
    specs_fit(Sum, S),
    pattern(Profile#profile.session, P, Spec),
    arm_look(N, Profile),
    kprof_oneshot:heed(0, Profile),
    {N + 1, Sum, Each#{M => maps:get(M, Each, 0) + Bytes}}.

spec_bytes(_, #state{args_max = 0}) -> 0;
spec_bytes(Spec, _) -> erts_debug:flat_size(Spec) * erlang:system_info(wordsize).

specs_fit(Sum, #state{profile = #profile{memory_max = Max}}) when Sum > Max ->
    refuse("showing the arguments of these functions takes more memory than"
           " -max-memory: name fewer, or leave out -args", []);
specs_fit(_, _) -> ok.

spec(_, #state{probe = native, guards = Guards}) ->
    [{'_', Guards, [{message, {{kprof_calls, {caller}}}}]}];
spec(P, #state{requests = undefined, guards = Guards, args_max = Args}) ->
    calls(P, Guards, fun(Caller) -> [{message, Caller}] end, Args);
spec(P, #state{guards = Guards, args_max = Args} = S) ->
    Body = fun(Caller) ->
                   [kprof_tracer_server:runs(S), {message, {{{get_seq_token}, Caller}}}]
           end,
    calls(P, [{is_seq_trace} | Guards], Body, Args).

%% The caller in a message with arguments or without.
caller({Caller, _}) -> Caller;
caller(Caller) -> Caller.

legacy_clear({meta, P}) -> pattern_meta(legacy, P, false);
legacy_clear({on_load, {Spec, Known}}) -> ahead_clear(Spec, Known);
legacy_clear(P) -> pattern(legacy, P, false).

%% A local pattern, since return_to needs one.
pattern(Session, MFA, Spec) ->
    in_session(Session, fun() -> trace_set(Session, MFA, Spec, [local]) end, 0).

%% A meta pattern: for all processes, with or without flags.
pattern_meta(Session, MFA, Spec) ->
    trace_set(Session, MFA, Spec, [meta]).

%% ----------------------------------------------------------------- arguments ----

%% A trace message copies what is in it, so it contains only what a guard has shown to be small:
%% atoms, integers of 64 bits, floats, pids, ports, and binaries up to a number of bytes; of
%% tuples and lists the first elements, and the first small elements of these; of maps and
%% larger binaries the size (and the struct, and the beginning). Nothing is taken of funs, which
%% have what they close over, and of references, which keep what they stand for. No more is
%% looked at, however large the argument is; no length is taken.
%%
%% 'andalso' has the value of its last part, which is evaluated only where the others are true
%% (25 to 29; 'orelse' wants booleans). So no expression fails, and the parts that are not
%% false describe the argument; src/calls/decode.c reads them. A part that is used twice is
%% there twice, so expressions grow with the square of what is looked at.

%% A clause for each arity, whose message Body makes of the caller and the arguments; and one
%% without arguments for all other calls. Bytes 0: only the last.
-spec calls({module(), atom(), arity() | '_'}, [term()], fun((term()) -> [term()]),
            non_neg_integer()) -> [tuple()].
calls(_, Guards, Body, 0) -> [{'_', Guards, Body({caller})}];
calls(Pattern, Guards, Body, Bytes) ->
    [args_clause(A, Guards, Body, Bytes) || A <- arities(Pattern)] ++
        calls(Pattern, Guards, Body, 0).

-spec arities({module(), atom(), arity() | '_'}) -> [arity()].
arities({M, '_', '_'}) -> lists:usort([A || {_, A} <- functions(M)]);
arities({_, _, A}) -> [A].

args_clause(Arity, Guards, Body, Bytes) ->
    Vars = [list_to_atom("$" ++ integer_to_list(I)) || I <- lists:seq(1, min(Arity, ?ARGS_MAX))],
    More = Arity - length(Vars),
    Args = list_to_tuple([whole(V, outer, Bytes) || V <- Vars] ++ [more || More > 0]),
    {Vars ++ lists:duplicate(More, '_'), Guards, Body({{ {caller}, {Args} }})}.

%% X if it is small, else what it is. Where: outer, or inner for an element of something.
whole(X, Where, Bytes) ->
    Small = small(X, Bytes),
    {{ {'andalso', Small, {{X}}}, {'andalso', {'not', Small}, large(X, Where, Bytes)} }}.

%% The innermost elements.
bare(X, Bytes) ->
    {'andalso', small(X, Bytes), {{X}}}.

%% An element of a text.
tiny(X) ->
    {'andalso', {'orelse', {is_atom, X}, is_word(X)}, {{X}}}.

small(X, Bytes) ->
    {'orelse', {is_atom, X}, is_word(X), {is_pid, X},
     {'andalso', {is_binary, X}, {'=<', {byte_size, X}, Bytes}},
     {'=:=', X, []}, {is_float, X}, {is_port, X}}.

is_word(X) ->
    {'andalso', {is_integer, X}, {'<', X, ?INT_MAX}, {'>=', X, -?INT_MAX}}.

large(X, Where, Bytes) ->
    Struct = {map_get, '__struct__', X},
    {{ {'andalso', {is_tuple, X}, {list_to_tuple([{size, X} | elements(X, Where, Bytes)])}},
       {'andalso', {is_list, X}, cell(X, 1, Where, Bytes)},
       {'andalso', {is_map, X}, {{ {map_size, X},
                                   {'andalso', {is_map_key, '__struct__', X}, {is_atom, Struct},
                                    Struct} }}},
       {'andalso', {is_binary, X}, {{ {byte_size, X},
                                      {'andalso', {'=<', {byte_size, X}, ?PREFIX_OF},
                                       {binary_part, X, 0, Bytes}} }}},
       {is_function, X}, {is_reference, X}, {is_integer, X} }}.

elements(X, outer, Bytes) ->
    [{'andalso', {'>=', {size, X}, I}, whole({element, I, X}, inner, Bytes)}
     || I <- lists:seq(1, ?ELEMENTS)];
elements(X, inner, Bytes) ->
    [{'andalso', {'>=', {size, X}, I}, bare({element, I, X}, Bytes)}
     || I <- lists:seq(1, ?ELEMENTS_IN)].

%% X is a non-empty list.
cell(_, N, outer, _) when N > ?CELLS -> true;
cell(_, N, inner, _) when N > ?CELLS_IN -> true;
cell(X, N, Where, Bytes) ->
    Head = {hd, X},
    Tail = {tl, X},
    First = if Where =:= inner -> bare(Head, Bytes);
               N =< ?CELLS_WHOLE -> whole(Head, inner, Bytes);
               true -> tiny(Head)
            end,
    {{ First,
       {'andalso', {'=/=', Tail, []},
        {{ {'andalso', {is_list, Tail}, cell(Tail, N + 1, Where, Bytes)} }}} }}.
