%% kprof_call - the call that a profile is of, where it makes one itself (-apply).
-module(kprof_call).

-export([call_of/1, is_evaluated/1, prepare/2, await_prepared/1, tell_value/1, outcome/2,
         stop_call/1, make_call/1]).
-export_type([call/0, applied/0]).

-import(kprof_text, [refuse/2, value_text/2]).

-type call() :: none
              | {module(), atom(), [erl_parse:abstract_expr()]}
              | {exprs, [erl_parse:abstract_expr()]}.
-type applied() :: undefined | {pid(), reference(), non_neg_integer() | overran} | done.

-define(VALUE_MAX, 4096).       % bytes of what an expression gave, as text,
-define(REASON_MAX, 900).       % and of what it raised

%% none, {M, F, Args} of a plain call, whose arguments are evaluated before anything is counted,
%% or {exprs, Exprs}.
-spec call_of(binary()) -> call().
call_of(<<>>) -> none;
call_of(Text) ->
    Chars = unicode:characters_to_list(Text),
    is_list(Chars) orelse refuse("what -apply has is not UTF-8", []),
    case erl_scan:string(Chars, {1, 1}) of
        {ok, Tokens, End} ->
            case erl_parse:parse_exprs(dotted(Tokens, End)) of
                {ok, Exprs} ->
                    %% `_` stands for all loaded modules.
                    _ = [code:ensure_loaded(M) || M <- modules_in(Tokens)],
                    plain_call(Exprs);
                {error, Why} -> no_expression(Why)
            end;
        {error, Why, _} -> no_expression(Why)
    end.

%% The parser ignores what comes after a dot.
dotted([{dot, At}, _ | _], _) ->
    no_expression({At, erl_parse, ["words after '.' (',' separates expressions)", []]});
dotted([{dot, _}] = Last, _) -> Last;
dotted([Token | More], End) -> [Token | dotted(More, End)];
dotted([], End) -> [{dot, End}].

modules_in([{atom, _, M} | [{':', _} | _] = More]) -> [M | modules_in(More)];
modules_in([_ | More]) -> modules_in(More);
modules_in([]) -> [].

plain_call([{call, _, {remote, _, {atom, _, M}, {atom, _, F}}, Args}]) -> {M, F, Args};
plain_call(Exprs) -> {exprs, Exprs}.

-spec no_expression({{pos_integer(), pos_integer()}, module(), term()}) -> no_return().
no_expression({{Line, Column}, Module, Why}) ->
    refuse("what -apply has is not an expression: ~ts in line ~b, column ~b",
           [Module:format_error(Why), Line, Column]).

-spec is_evaluated(call()) -> boolean().
is_evaluated({exprs, _}) -> true;
is_evaluated(_) -> false.

%% The process waits until it is counted, and again before it ends: its result is made into text
%% when nothing is counted any more.
-dialyzer({nowarn_function, prepare/2}).     % its process always exits
-spec prepare(call(), non_neg_integer()) -> applied().
prepare(none, _) -> undefined;
prepare(Call, Ms) ->
    Server = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       Ready = ready(Call),
                                       Server ! {prepared, self()},
                                       receive go -> ok end,
                                       Result = applied(Ready),
                                       Server ! {evaluated, self()},
                                       told(Server, Result)
                               end),
    {Pid, Ref, Ms}.

%% In a trace the process ends here (src/calls/decode.c).
told(Server, Result) ->
    receive {tell, Server} -> exit({applied, result_text(Result)}) end.

%% Has it make the call, for which it has some time.
-spec make_call(applied()) -> term().
make_call({Pid, Ref, Ms}) ->
    erlang:send_after(Ms, self(), {overran, Ref}),
    Pid ! go;
make_call(_) -> none.

-spec await_prepared({pid(), reference(), non_neg_integer()}) -> ok.
await_prepared({Pid, Ref, Ms}) ->
    receive
        {prepared, Pid} -> ok;
        {'DOWN', Ref, process, Pid, {arguments, Why}} ->
            refuse("the call's arguments: ~ts", [Why])
    after Ms ->
            exit(Pid, kill),
            refuse("the call's arguments were not made within ~b ms", [Ms])
    end.

ready({exprs, _} = Exprs) -> Exprs;
ready({M, F, Exprs}) ->
    try
        {M, F, [begin {value, V, _} = erl_eval:expr(E, []), V end || E <- Exprs]}
    catch
        _:Why -> exit({arguments, value_text(Why, ?REASON_MAX)})
    end.

%% Makes only the call: whatever else ran in this process would be counted. With other expressions
%% the evaluator is counted too.
applied(Ready) ->
    try
        case Ready of
            {exprs, Exprs} -> element(2, erl_eval:exprs(Exprs, []));
            {M, F, Args} -> apply(M, F, Args)
        end
    of
        Value -> {returned, Value}
    catch
        Class:Reason -> {Class, Reason}
    end.

result_text({returned, Value}) -> {returned, value_text(Value, ?VALUE_MAX)};
result_text({Class, Reason}) ->
    {raised, kprof_text:text("~w:~ts", [Class, value_text(Reason, ?REASON_MAX)])}.

%% The call has returned and is not counted any more: has the process send its value.
-spec tell_value({pid(), reference(), term()}) -> ok.
tell_value({Pid, _, _}) ->
    Pid ! {tell, self()},
    ok.

%% The messages for the client about the end of the call, by the exit reason of its process.
-spec outcome(term(), applied()) ->
          [{kprof_value, binary()} | {kprof_ended, atom(), 0 | binary()}, ...].
outcome({applied, {returned, Value}}, _) -> [{kprof_value, Value}, {kprof_ended, returned, 0}];
outcome({applied, {raised, Text}}, _) -> [{kprof_ended, raised, Text}];
outcome(killed, {_, _, overran}) -> [{kprof_ended, overran, 0}];
outcome(Reason, _) -> [{kprof_ended, exited, kprof_text:text("~0tP", [Reason, 8])}].

-spec stop_call(applied()) -> term().
stop_call({Pid, _, _}) -> exit(Pid, kill);
stop_call(_) -> ok.
