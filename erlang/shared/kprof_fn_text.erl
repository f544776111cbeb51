%% kprof_fn_text - writes functions as kprofd and kprof do (src/text/fn_name.c): lists:seq/2,
%% MyApp.Repo.all/2, MyApp.Repo."odd name"/1, anonymous fn/1 in MyApp.Repo.all/2.
-module(kprof_fn_text).

-export([fn_text/1, fn_text/3, fn_local/2, fn_process/1]).

-define(OPERATORS, ["+", "-", "*", "/", "**", "!", "^", "~~~", "++", "--", "+++", "---", "<>",
                    "|>", "<<<", ">>>", "<<~", "~>>", "<~", "~>", "<~>", "<|>", "<", ">", "<=",
                    ">=", "==", "!=", "=~", "===", "!==", "&&", "&&&", "||", "|||", "^^^", "&",
                    "=", "@", "|", "<-"]).

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
fn_process(Pid) ->
    pid_to_list(Pid).

fn_elixir(Alias, none, Function, Arity) ->
    [Alias, $., fn_unquoted(Function), $/, Arity];
fn_elixir(Alias, {In, InArity, Which}, _, Arity) ->
    ["anonymous fn/", Arity, [[" (fun-", Which, ")"] || Which =/= "0"], " in ", Alias, $.,
     fn_unquoted(In), $/, InArity].

%% Without its prefix; none: it is not an alias of Elixir's.
fn_alias(Module) ->
    case re:run(Module, "^Elixir((?:\\.[A-Z][A-Za-z0-9_]*)+)$", [dollar_endonly, {capture, [1], list}]) of
        {match, ["." ++ Alias]} when Alias =/= "Elixir" ->
            case Alias of
                "Elixir." ++ _ -> none;
                _ -> Alias
            end;
        _ -> none
    end.

%% What the compiler calls -all/2-fun-0-: which function it is in, and which one there.
fn_closure(Function) ->
    case re:run(Function, "^-(.+)/(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])-fun-(0|[1-9][0-9]{0,3})-$",
                [unicode, dotall, dollar_endonly, {capture, all_but_first, list}]) of
        {match, ["_", _, _]} -> none;
        {match, [In, Arity, Which]} -> {In, Arity, Which};
        nomatch -> none
    end.

fn_unquoted(Function) ->
    case re:run(Function, "^(?!_$)[a-z_][A-Za-z0-9_]*[?!]?$", [unicode, dollar_endonly, {capture, none}]) =:= match
        orelse lists:member(Function, ?OPERATORS) of
        true -> Function;
        false -> io_lib:write_string(Function, $")
    end.
