%% kprof_text - texts for people: refusals, functions as kprofd and kprof write them
%% (src/text/fn_name.c), and terms, at a cost that does not depend on their size.
-module(kprof_text).

-export([refusal/2, refuse/2, text/2, one_tracer/0, fn_text/1, fn_text/3, fn_local/2, fn_process/1,
         value_text/2]).

-define(OPERATORS, ["+", "-", "*", "/", "**", "!", "^", "~~~", "++", "--", "+++", "---", "<>",
                    "|>", "<<<", ">>>", "<<~", "~>>", "<~", "~>", "<~>", "<|>", "<", ">", "<=",
                    ">=", "==", "!=", "=~", "===", "!==", "&&", "&&&", "||", "|||", "^^^", "&",
                    "=", "@", "|", "<-"]).

-define(VALUE_PARTS, 4096).     % elements in all that are looked at; each is a character
-define(VALUE_DEPTH, 50).
-define(VALUE_WORDS, 200).      % of a number: some 3800 digits

%% The result of start/2 of a loaded module that does not start.
-spec refusal(io:format(), [term()]) -> {error, binary()}.
refusal(Format, Args) ->
    {error, text(Format, Args)}.

%% For the process that is being started: start/2 takes the refusal from its exit reason.
-spec refuse(io:format(), [term()]) -> no_return().
refuse(Format, Args) ->
    exit(refusal(Format, Args)).

-spec text(io:format(), [term()]) -> binary().
text(Format, Args) ->
    unicode:characters_to_binary(io_lib:format(Format, Args)).

%% Ends the refusals that a node of OTP 25 or 26 gives because it has one tracer.
-spec one_tracer() -> string().
one_tracer() ->
    case whereis(kprof_agent) of
        undefined -> "OTP 27 has sessions of their own";
        _ -> "a kprofd is attached there: end that kprofd, or call kprof_agent:stop() there"
    end.

%% ----------------------------------------------------------------- functions ----

-spec fn_text(mfa()) -> iolist().
fn_text({M, F, A}) ->
    fn_text(atom_to_list(M), atom_to_list(F), integer_to_list(A)).

%% Arity may be _.
-spec fn_text(string(), string(), string()) -> iolist().
fn_text(Module, Function, Arity) ->
    case fn_alias(Module) of
        none -> [io_lib:format("~tw:~tw/", [list_to_atom(Module), list_to_atom(Function)]), Arity];
        Alias -> fn_elixir(Alias, fn_closure(Function), Function, Arity)
    end.

%% A function where its module is known.
-spec fn_local(module(), {atom(), arity()}) -> iolist().
fn_local(M, {F, A}) ->
    case {fn_alias(atom_to_list(M)), fn_closure(atom_to_list(F))} of
        {none, _} -> io_lib:format("~tw/~b", [F, A]);
        {_, none} -> [fn_unquoted(atom_to_list(F)), $/, integer_to_list(A)];
        _ -> fn_text({M, F, A})
    end.

%% The name that a process is registered by, or the process.
-spec fn_process(atom() | pid()) -> iolist().
fn_process(Name) when is_atom(Name) ->
    case fn_alias(atom_to_list(Name)) of
        none -> io_lib:format("~tw", [Name]);
        Alias -> Alias
    end;
fn_process(Pid) -> pid_to_list(Pid).

fn_elixir(Alias, none, Function, Arity) -> [Alias, $., fn_unquoted(Function), $/, Arity];
fn_elixir(Alias, {In, InArity, Which}, _, Arity) ->
    ["anonymous fn/", Arity, [[" (fun-", Which, ")"] || Which =/= "0"], " in ", Alias, $.,
     fn_unquoted(In), $/, InArity].

%% Without its prefix; none: it is not an alias of Elixir's.
fn_alias(Module) ->
    case re:run(Module, "^Elixir((?:\\.[A-Z][A-Za-z0-9_]*)+)$",
                [dollar_endonly, {capture, [1], list}]) of
        {match, ["." ++ Alias]} when Alias =/= "Elixir" ->
            case Alias of
                "Elixir." ++ _ -> none;
                _ -> Alias
            end;
        _ -> none
    end.

%% What the compiler calls -all/2-fun-0-: which function it is in, and which one there.
fn_closure(Function) ->
    case re:run(Function,
                "^-(.+)/(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])-fun-(0|[1-9][0-9]{0,3})-$",
                [unicode, dotall, dollar_endonly, {capture, all_but_first, list}]) of
        {match, ["_", _, _]} -> none;
        {match, [In, Arity, Which]} -> {In, Arity, Which};
        nomatch -> none
    end.

fn_unquoted(Function) ->
    case re:run(Function, "^(?!_$)[a-z_][A-Za-z0-9_]*[?!]?$",
                [unicode, dollar_endonly, {capture, none}]) =:= match
        orelse lists:member(Function, ?OPERATORS) of
        true -> Function;
        false -> io_lib:write_string(Function, $")
    end.

%% --------------------------------------------------------------------- terms ----

%% io_lib has a limit of characters, but takes 6 s for a number of a million bits, and 6 minutes
%% for a list a million deep: a term is cut before it is formatted.

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
part(_, Left, Depth) when Left =< 0; Depth =:= 0 -> {'...', Left - 1};
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
part([_ | _] = T, Left, Depth) -> part_of_list(T, Left - 1, Depth - 1, []);
part(T, Left, Depth) when is_tuple(T) -> part_of_tuple(T, 1, Left - 1, Depth - 1, []);
part(T, Left, Depth) when is_map(T) ->
    part_of_map(maps:next(maps:iterator(T)), Left - 1, Depth - 1, []);
part(T, Left, _) -> {T, Left - 1}.

part_of_list([H | T], Left, Depth, Acc) when Left > 0 ->
    {X, Left1} = part(H, Left, Depth),
    part_of_list(T, Left1, Depth, [X | Acc]);
part_of_list([], Left, _, Acc) -> {lists:reverse(Acc), Left};
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
part_of_map(none, Left, _, Acc) -> {maps:from_list(Acc), Left};
part_of_map(_, Left, _, Acc) -> {maps:from_list([{'...', '...'} | Acc]), Left}.
