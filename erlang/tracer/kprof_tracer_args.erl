%% kprof_tracer_args - arguments of calls, as far as they are small: expressions of match specs
%% that describe them. For kprof_tracer.
%%
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
-module(kprof_tracer_args).

-export([calls/4, arities/1]).

-import(kprof_injected, [functions/1]).

-define(ARGS_MAX, 8).           % arguments of a call that are shown
-define(INT_MAX, (1 bsl 63)).
-define(ELEMENTS, 5).           % of a tuple, and of one in something
-define(ELEMENTS_IN, 3).
-define(CELLS, 12).             % of a list, the first of them as a whole
-define(CELLS_WHOLE, 3).
-define(CELLS_IN, 3).
-define(PREFIX_OF, 65536).      % a larger binary is not kept for its beginning

%% A clause for each arity, whose message Body makes of the caller and the arguments; and one
%% without arguments for all other calls. Bytes 0: only the last.
-spec calls({module(), atom(), arity() | '_'}, [term()], fun((term()) -> [term()]),
            non_neg_integer()) -> [tuple()].
calls(_, Guards, Body, 0) ->
    [{'_', Guards, Body({caller})}];
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
