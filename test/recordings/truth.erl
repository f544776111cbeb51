%% truth - what a program of the catalogue writes down of itself while it runs.
%%
%% Each call of a traced function has four times of the target's monotonic
%% clock: just before it and as its first act (the VM's event of the call lies
%% between them), as its last act and just after it (so does that of its end).
%% The catalogue's macros take them. What is written goes to a table, never
%% to another process: a message would carry a token, or clear one.
%%
%% The stack of open calls is in the process dictionary; it says which call was
%% made from which, and for which request. A process that works for another
%% one's request is told so in the program's own words: context/0, adopt/1.
-module(truth).

-export([new/0, take/0]).
-export([request/2, request_instead/3, begun/1, tail/1, tail_request/2, entered/0, left/2, ended/2]).
-export([here/0, raising/1, caught/2, token_lost/1]).
-export([context/0, adopt/1, aside/0, go_on/1, is/1, await/1]).

-include("truth.hrl").

-define(TABLE, ?MODULE).

new() ->
    ?TABLE = ets:new(?TABLE, [named_table, public, ordered_set, {keypos, 2}]),
    true = ets:insert(?TABLE, {counter, id, 0}).

%% {Calls, Requests}, by when they began.
take() ->
    All = ets:tab2list(?TABLE),
    true = ets:delete(?TABLE),
    {[C || #call{} = C <- All], [R || #request{} = R <- All]}.

now_ns() ->
    erlang:monotonic_time(nanosecond).

%% ---- a call: request or begun; entered; left; ended ----

%% Text: the call as it is written in the source, whose name is taken.
begun(Text) ->
    {Request, _} = context(),
    open(Text, Request).

%% A call that starts a request of its own.
request(Identity, Text) ->
    {Outer, _} = context(),
    Request = ets:update_counter(?TABLE, id, {3, 1}),
    ets:insert(?TABLE, #request{id = Request, identity = Identity, outer = Outer}),
    open(Text, Request).

%% The same, where the event of the new one ends that of the running call.
request_instead(Identity, Text, Begin) ->
    [{_, Id} = Old | Rest] = stack(),
    left(Id, ok),
    put(?TABLE, Rest),
    New = request(Identity, Text),
    Begin(),
    over(Old, returned, ets:lookup_element(?TABLE, Id, #call.last), now_ns()),
    entered(),
    New.

%% The running call is about to end in one of this function.
tail(Text) ->
    tail_in(fun() -> begun(Text) end).

tail_request(Identity, Text) ->
    tail_in(fun() -> request(Identity, Text) end).

tail_in(Begin) ->
    [{_, Ending} = Call | _] = stack(),
    set(Call, #call.tail, true),
    _ = Begin(),
    set(hd(stack()), #call.tail_of, Ending).

open(Text, Request) ->
    {_, Parent} = context(),
    Id = ets:update_counter(?TABLE, id, {3, 1}),
    put(?TABLE, [{Request, Id} | stack()]),
    [Name | _] = string:lexemes(Text, " ("),
    ets:insert(?TABLE, #call{id = Id, request = Request, name = list_to_atom(Name),
                             pid = pid_to_list(self()),
                             parent = Parent, unseen = get(token_lost), before = now_ns()}),
    Id.

entered() ->
    set(hd(stack()), #call.first, now_ns()).

%% Result goes through, as it does in ended/2.
left(_, Result) ->
    set(hd(stack()), #call.last, now_ns()),
    Result.

ended(Id, Result) ->
    Now = now_ns(),
    {Tail, [{_, Id} = Own | Rest]} = lists:splitwith(fun({_, I}) -> I =/= Id end, stack()),
    Chain = [{_, Top} | _] = Tail ++ [Own],
    Last = ets:lookup_element(?TABLE, Top, #call.last),
    [over(C, returned, Last, Now) || C <- Chain],
    put(?TABLE, Rest),
    Result.

over(Call, How, Last, After) ->
    set(Call, #call.how, How),
    set(Call, #call.last, Last),
    set(Call, #call.later, After).

set({_, Id}, Field, Value) ->
    ets:update_element(?TABLE, Id, {Field, Value}).

stack() ->
    case get(?TABLE) of
        undefined -> [];
        Stack -> Stack
    end.

%% ---- exceptions ----

%% How many calls are open, for caught/2.
here() ->
    length(stack()).

%% The last act of a call that raises, or any before that. The class goes
%% through, and the compiler does not know it: calls of a function that cannot
%% but raise would be compiled to tail calls.
raising(Class) ->
    put(raising, now_ns()),
    Class.

%% An exception was caught that left all calls above Here. How: `direct` where
%% the function that catches called the lowest of them itself, `between` where
%% an untraced function stands between them.
caught(Here, How) ->
    Now = now_ns(),
    {Left, Rest} = lists:split(length(stack()) - Here, stack()),
    Last = get(raising),
    %% A chain of tail calls is one frame.
    {Chain, Above} = lowest(lists:reverse(Left)),
    Alone = case Above of [] -> alone; _ -> passed end,
    [over(C, {raised, How, lowest, Alone}, Last, Now) || C <- Chain],
    [over(C, {raised, How, above, Alone}, Last, Now) || C <- Above],
    put(?TABLE, Rest),
    ok.

lowest([{_, Id} = Call | More]) ->
    case ets:lookup_element(?TABLE, Id, #call.tail) of
        true ->
            {Chain, Above} = lowest(More),
            {[Call | Chain], Above};
        false -> {[Call], More}
    end.

%% Up to this release (or on any) the VM has just taken this process's token.
token_lost(Release) ->
    put(token_lost, Release).

%% ---- other processes ----

%% {Request, Call} that runs in this process, or that it works for.
context() ->
    case {stack(), get(context)} of
        {[Top | _], _} -> Top;
        {[], undefined} -> {none, none};
        {[], Context} -> Context
    end.

adopt(Context) ->
    put(context, Context).

%% This process turns to something else, and goes on later.
aside() ->
    Calls = stack(),
    put(?TABLE, []),
    Calls.

go_on(Calls) ->
    put(?TABLE, Calls).

%% Something has come about, and another process waits for it: without a
%% message, which would bring a token.
is(What) ->
    ets:insert(?TABLE, {is, {is, What}}).

await(What) ->
    case ets:member(?TABLE, {is, What}) of
        true -> ok;
        false ->
            receive after 1 -> await(What) end
    end.
