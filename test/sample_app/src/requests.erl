%% Handles requests, in a pool of workers: handle_request/2 is where a request
%% begins, for a profiler, and its return is where it ends.
%%
%% Every measured call is made from a function of its own, and not in tail
%% position: so the caller is there to see it return, and the functions that the
%% VM names as callers differ. The `wrapped` operation is the exception, on purpose.
-module(requests).
-behaviour(gen_server).

-export([call/2, handle_request/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_continue/2]).

%% Far more deaths than a request can meet by chance, and yet an end.
-define(TRIES, 1000).

%% Have a worker handle the request: {ok, Response} or {error, Reason}.
%%
%% A worker that dies takes with it the requests in its queue. Those had not begun,
%% so they go to another one; only the request that killed it fails, which leaves
%% its mark first: so the requests answered are the requests handled, exactly.
call(Op, #{fault := die} = Req) ->
    call(Op, Req#{mark => atomics:new(1, [])}, ?TRIES);
call(Op, Req) ->
    call(Op, Req, ?TRIES).

call(_Op, _Req, 0) ->
    {error, no_worker};
call(Op, Req, Tries) ->
    try
        {ok, gen_server:call(sample_pool:pick(handle), {handle, Op, Req}, infinity)}
    catch
        exit:{killed, _} ->
            case killed_by(Req) of
                true -> {error, died};
                false -> call(Op, Req, Tries - 1)
            end;
        exit:{noproc, _} ->
            receive after 1 -> call(Op, Req, Tries - 1) end
    end.

killed_by(#{mark := Mark}) -> atomics:get(Mark, 1) =:= 1;
killed_by(_Req) -> false.

%% Do what Req asks for: #{op, key, body, fault}. Gives the response's bytes.
handle_request(delegated, Req) ->
    sample_layer:spend(handle),
    sample_pattern:finish(decode_body(delegated, Req));
handle_request(Op, Req0) ->
    sample_layer:spend(handle),
    Req = decode_body(Op, Req0),
    die_if_asked(Op, Req),
    Result = store(Op, Req),
    crash_if_asked(Req),
    account(Op),
    formatter:format(Result#{op => Op}).

decode_body(Op, #{body := Body} = Req) ->
    Start = sample_truth:start(),
    Fields = network_server:parse_request({body, Body}),
    sample_truth:returned(parsing, Op, Start),
    Req#{value => maps:get(<<"value">>, Fields, <<>>)}.

account(Op) ->
    case sample_config:get(accounting) of
        #{mode := call} ->
            Start = sample_truth:start(),
            accounting:incr_reqs(Op),
            sample_truth:returned(accounting, Op, Start);
        #{mode := cast} ->
            accounting:incr_reqs_later(Op)
    end.

%% Killed, not exited: no handler of any class may see it.
die_if_asked(Op, #{mark := Mark}) ->
    sample_truth:unfinished(handle, Op),
    atomics:put(Mark, 1, 1),
    exit(self(), kill),
    receive after infinity -> ok end;
die_if_asked(_Op, _Req) ->
    ok.

crash_if_asked(#{fault := crash}) -> error({fault, crash});
crash_if_asked(_Req) -> ok.

%% The database's part of a request, and its answer: #{status, body}.

store(Op, #{fault := retry} = Req) ->
    again(attempt(Op, Req), Op, Req);
store(Op, #{fault := retry_deep} = Req) ->
    again(attempt_deep(Op, Req), Op, Req);
store(Op, #{fault := raise_deep} = Req) ->
    answer(Op, attempt_deep(Op, Req));
store(delete, #{key := Key} = Req) ->
    Start = sample_truth:start(),
    Found = db:query(Key, delete),
    sample_truth:returned(query, delete, Start),
    case {answer(delete, attempt(delete, Req)), Found} of
        {#{status := 200}, false} -> answer(delete, not_found);
        {Answer, _} -> Answer
    end;
store(parallel, Req) ->
    answer(parallel, parallel(Req));
store(Op, Req) ->
    case lists:member(Op, sample_pattern:ops()) of
        true -> answer(Op, sample_pattern:run(Op, Req));
        false -> answer(Op, attempt(Op, Req))
    end.

again(raised, Op, #{fault := retry} = Req) ->
    answer(Op, attempt(Op, Req#{fault := none}));
again(raised, Op, #{fault := retry_deep} = Req) ->
    answer(Op, attempt_deep(Op, Req#{fault := none})).

%% The database call, with a handler in its direct caller.
attempt(Op, Req) ->
    Start = sample_truth:start(),
    try
        case Op of
            read -> db:network_request(Req);
            update -> db:transaction(Req, fun(_Old) -> maps:get(value, Req) end);
            wrapped -> element(1, span(fun() -> db:network_request(Req) end));
            _ -> db:transaction(Req)
        end
    of
        Result ->
            sample_truth:returned(db, Op, Start),
            Result
    catch
        error:{fault, _} ->
            sample_truth:raised(db, Op, Start),
            raised
    end.

%% The database call, with a handler one frame further up.
attempt_deep(Op, Req) ->
    Start = sample_truth:start(),
    try
        attempt_bare(Op, Req)
    catch
        error:{fault, _} ->
            sample_truth:raised(db, Op, Start),
            raised
    end.

attempt_bare(Op, Req) ->
    Start = sample_truth:start(),
    Result = db:transaction(Req),
    sample_truth:returned(db, Op, Start),
    Result.

%% Two database calls at the same time, each in a process of its own. They answer
%% by message: in OTP 25 an exit reason that is no atom would end the request's trace.
parallel(Req) ->
    Start = sample_truth:start(),
    Worker = self(),
    Branches = [spawn_link(fun() -> branch(Worker, Req) end) || _ <- [1, 2]],
    Results = [receive {Pid, Result} -> Result end || Pid <- Branches],
    sample_truth:busy(db, parallel, Start),
    hd(Results).

branch(Worker, Req) ->
    Start = sample_truth:start(),
    Result = db:network_request(Req),
    sample_truth:returned_within(db, parallel, Start),
    Worker ! {self(), Result}.

answer(_Op, raised) -> #{status => 500, body => <<"the database failed\n">>};
answer(_Op, not_found) -> #{status => 404, body => <<"not found\n">>};
answer(create, {ok, _}) -> #{status => 201, body => <<"created\n">>};
answer(_Op, {ok, Value}) -> #{status => 200, body => [Value, $\n]}.

%% What instrumentation libraries do: one function around every interesting call,
%% to which all of them, nested or not, return.
span(Fun) ->
    Start = erlang:monotonic_time(),
    Result = Fun(),
    {Result, erlang:monotonic_time() - Start}.

%% The worker.

init(Layer) ->
    {ok, sample_layer:ballast(Layer)}.

handle_call({handle, Op, Req}, From, State) ->
    Start = sample_truth:start(),
    Response =
        try
            case Op of
                wrapped -> element(1, span(fun() -> requests:handle_request(Op, Req) end));
                _ -> requests:handle_request(Op, Req)
            end
        of
            Bytes ->
                sample_truth:returned(handle, Op, Start),
                Bytes
        catch
            error:{fault, _} ->
                sample_truth:raised(handle, Op, Start),
                formatter:bytes(500, <<"the request failed\n">>)
        end,
    sample_pattern:returned(),
    case sample_config:get(audit) of
        false ->
            {reply, Response, State};
        true ->
            gen_server:reply(From, Response),
            {noreply, State, {continue, {audit, Op, Req}}}
    end.

handle_cast(_, State) ->
    {noreply, State}.

%% Work that the request causes and its client does not wait for: it begins after
%% handle_request/2 has returned, in the same process.
handle_continue({audit, Op, Req}, State) ->
    Start = sample_truth:start(),
    _ = db:network_request(Req#{op := read, fault := none, for => Op}),
    sample_truth:returned(db_async, Op, Start),
    {noreply, State}.
