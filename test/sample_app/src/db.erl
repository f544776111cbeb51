%% The database: a table, and a pool of servers that every access goes through.
%%
%% The client functions run in the caller's process and make a round trip to a
%% server of the pool. They raise where the database reports an error. An access
%% spends the layer's work and wait once, in the server.
-module(db).
-behaviour(gen_server).

-export([create_table/0, network_request/1, transaction/1, transaction/2, query/2]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(SLOW_MS, 150).

create_table() ->
    db = ets:new(db, [named_table, public, {read_concurrency, true}, {write_concurrency, true}]),
    ok.

%% One access: what Req's `op` asks for. Gives {ok, Value} or not_found.
network_request(Req) ->
    result(access(Req)).

%% One access that changes the table.
transaction(Req) ->
    result(access(Req)).

%% Read, change by Fun and write: two accesses inside one call, each a
%% network_request/1 of its own.
transaction(Req, Fun) ->
    case within(Req#{op := read}, Req) of
        {ok, Value} -> within(Req#{op := create, value := Fun(Value), fault := none}, Req);
        not_found -> within(Req#{op := create, fault := none}, Req)
    end.

%% Is there a value for Key? Op says for which operation.
query(Key, Op) ->
    result(access(#{op => read, key => Key, fault => none, for => Op})) =/= not_found.

%% The inner call of transaction/2, measured for the operation of the outer one.
within(Inner, #{op := Op}) ->
    Start = sample_truth:start(),
    try db:network_request(Inner#{for => Op}) of
        Result ->
            sample_truth:returned_within(db, Op, Start),
            Result
    catch
        Class:Reason:Stack ->
            sample_truth:raised_within(db, Op, Start),
            erlang:raise(Class, Reason, Stack)
    end.

access(Req) ->
    gen_server:call(sample_pool:pick(db), Req, infinity).

result({error, Reason}) -> error(Reason);
result(Result) -> Result.

%% The server. handle_call/3 returns the state, as every gen_server's does: a
%% profiler that copies return values pays for all of it.

init(Layer) ->
    {ok, sample_layer:ballast(Layer)}.

handle_call(Req, _From, State) ->
    Start = sample_truth:start(),
    sample_layer:spend(db),
    Result = execute(Req),
    sample_truth:returned(db_server, maps:get(for, Req, maps:get(op, Req)), Start),
    {reply, Result, State}.

handle_cast(_, State) ->
    {noreply, State}.

execute(#{fault := Fault}) when Fault =:= raise; Fault =:= raise_deep; Fault =:= retry; Fault =:= retry_deep ->
    {error, {fault, Fault}};
execute(#{fault := slow} = Req) ->
    sample_layer:wait(?SLOW_MS),
    execute(Req#{fault := none});
execute(#{op := Op, key := Key}) when Op =:= read; Op =:= wrapped; Op =:= parallel ->
    case ets:lookup(db, Key) of
        [{_, Value}] -> {ok, Value};
        [] -> not_found
    end;
execute(#{op := delete, key := Key}) ->
    ets:delete(db, Key),
    {ok, <<>>};
execute(#{key := Key, value := Value}) ->
    ets:insert(db, {Key, Value}),
    {ok, Value}.
