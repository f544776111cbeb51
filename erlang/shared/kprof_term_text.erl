%% kprof_term_text - a term as text for people, at a cost that does not depend on its size.
%% io_lib has a limit of characters, but takes 6 s for a number of a million bits, and 6 minutes
%% for a list a million deep: a term is cut before it is formatted. For kprof_counters and
%% kprof_tracer.
-module(kprof_term_text).

-export([value_text/2]).

-define(VALUE_PARTS, 4096).     % elements in all that are looked at; each is a character
-define(VALUE_DEPTH, 50).
-define(VALUE_WORDS, 200).      % of a number: some 3800 digits

%% A binary of at most Max bytes, whatever the term is.
-spec value_text(term(), pos_integer()) -> binary().
value_text(Term, Max) ->
    {Part, _} = part(Term, ?VALUE_PARTS, ?VALUE_DEPTH),
    Text = string:replace(io_lib:format("~0tp", [Part], [{chars_limit, Max}]), "'...'", "...", all),
    case unicode:characters_to_binary(Text) of
        Bin when byte_size(Bin) =< Max -> Bin;
        Bin -> unicode:characters_to_binary([whole(binary_part(Bin, 0, Max - 3)), "..."])
    end.

%% Without a character that was cut in two.
whole(Bin) ->
    case unicode:characters_to_binary(Bin) of
        {incomplete, Good, _} -> Good;
        _ -> Bin
    end.

%% {The part of the term that is shown, how many elements may follow}.
part(_, Left, Depth) when Left =< 0; Depth =:= 0 ->
    {'...', Left - 1};
part(T, Left, _) when is_integer(T) ->
    {case erts_debug:flat_size(T) of
         Words when Words > ?VALUE_WORDS -> '...';
         _ -> T
     end, Left - 1};
%% More bytes than are ever shown, so that the text shows that it is cut.
part(T, Left, _) when is_binary(T), byte_size(T) > 5 * ?VALUE_PARTS ->
    {whole(binary_part(T, 0, 5 * ?VALUE_PARTS)), Left - 1};
part(T, Left, _) when is_bitstring(T), not is_binary(T), bit_size(T) > 8 * ?VALUE_PARTS ->
    {'...', Left - 1};
part([_ | _] = T, Left, Depth) ->
    part_of_list(T, Left - 1, Depth - 1, []);
part(T, Left, Depth) when is_tuple(T) ->
    part_of_tuple(T, 1, Left - 1, Depth - 1, []);
part(T, Left, Depth) when is_map(T) ->
    part_of_map(maps:next(maps:iterator(T)), Left - 1, Depth - 1, []);
part(T, Left, _) ->
    {T, Left - 1}.

part_of_list([H | T], Left, Depth, Acc) when Left > 0 ->
    {X, Left1} = part(H, Left, Depth),
    part_of_list(T, Left1, Depth, [X | Acc]);
part_of_list([], Left, _, Acc) ->
    {lists:reverse(Acc), Left};
part_of_list([_ | _], Left, _, Acc) ->
    {lists:reverse(Acc, case io_lib:printable_list(Acc) of
                            true -> "...";
                            false -> '...'
                        end), Left};
part_of_list(T, Left, Depth, Acc) ->
    {X, Left1} = part(T, Left, Depth),
    {lists:reverse(Acc, X), Left1}.

part_of_tuple(T, I, Left, Depth, Acc) when I =< tuple_size(T), Left > 0 ->
    {X, Left1} = part(element(I, T), Left, Depth),
    part_of_tuple(T, I + 1, Left1, Depth, [X | Acc]);
part_of_tuple(T, I, Left, _, Acc) ->
    {list_to_tuple(lists:reverse(Acc, ['...' || I =< tuple_size(T)])), Left}.

part_of_map({K, V, More}, Left, Depth, Acc) when Left > 0 ->
    {K1, Left1} = part(K, Left, Depth),
    {V1, Left2} = part(V, Left1, Depth),
    part_of_map(maps:next(More), Left2, Depth, [{K1, V1} | Acc]);
part_of_map(none, Left, _, Acc) ->
    {maps:from_list(Acc), Left};
part_of_map(_, Left, _, Acc) ->
    {maps:from_list([{'...', '...'} | Acc]), Left}.
