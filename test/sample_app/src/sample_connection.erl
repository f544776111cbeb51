%% Serves one HTTP/1.1 connection until the client closes it:
%%
%%     GET, POST, PUT, DELETE /kv/KEY    read, create, update, delete; body `value=...`
%%     any method /fault/NAME            see sample_fault
%%     /admin/...                        see sample_admin
%%
%% What a client can make it hold is bounded by MAX_HEAD and MAX_BODY.
-module(sample_connection).

-export([serve/1]).

-define(MAX_HEAD, 8192).
-define(MAX_BODY, 65536).

serve(Socket) ->
    serve(Socket, <<>>).

%% Bytes are what has been read past the last request.
serve(Socket, Bytes) ->
    case read_head(Socket, Bytes) of
        {ok, Head} ->
            Start = sample_truth:start(),
            Request = network_server:parse_request(Head),
            Took = sample_truth:elapsed(Start),
            Route = route(Request),
            sample_truth:returned_after(parsing_front, element(1, Route), Took),
            serve_request(Socket, Request, Route);
        too_long ->
            refuse(Socket);
        closed ->
            ok
    end.

serve_request(Socket, #{length := Length, rest := Rest, close := Close}, Route)
        when Length >= 0, Length =< ?MAX_BODY ->
    case read_body(Socket, Rest, Length) of
        {ok, Body, Next} ->
            Sent = gen_tcp:send(Socket, respond(Route, Body)),
            case Sent =:= ok andalso not Close of
                true -> serve(Socket, Next);
                false -> gen_tcp:close(Socket)
            end;
        closed ->
            ok
    end;
serve_request(Socket, _BadRequest, _Route) ->
    refuse(Socket).

%% After a request that cannot be read nobody knows where the next one begins.
refuse(Socket) ->
    _ = gen_tcp:send(Socket, plain(400, <<"bad request\n">>)),
    gen_tcp:close(Socket).

%% {Op, Key}, {admin, Method, Page} or {other}.
route(#{method := Method, path := <<"/kv/", Key/binary>>}) ->
    case Method of
        'GET' -> {read, Key};
        'POST' -> {create, Key};
        'PUT' -> {update, Key};
        'DELETE' -> {delete, Key};
        _ -> {other}
    end;
route(#{path := <<"/fault/", Name/binary>>}) ->
    case [Op || Op <- sample_fault:ops(), atom_to_binary(Op) =:= Name] of
        [Op] -> {Op, <<"fault">>};
        [] -> {other}
    end;
route(#{method := Method, path := <<"/admin/", Page/binary>>}) ->
    {admin, Method, Page};
route(_) ->
    {other}.

respond({other}, _Body) ->
    plain(404, <<"not found\n">>);
respond({admin, Method, Page}, Body) ->
    {Status, Text} = sample_admin:answer(Method, Page, Body),
    plain(Status, Text);
respond({Op, Key}, Body) ->
    Req = #{op => Op, key => Key, body => Body, fault => sample_fault:choose(Op)},
    case requests:call(Op, Req) of
        {ok, Response} -> Response;
        {error, Reason} -> plain(500, [atom_to_binary(Reason), $\n])
    end.

%% A response for which no worker is asked.
plain(Status, Body) ->
    formatter:bytes(Status, Body).

%% The next head, up to and past its blank line, with what was read beyond it.
read_head(Socket, Bytes) ->
    case binary:match(Bytes, <<"\r\n\r\n">>) of
        {End, _} when End =< ?MAX_HEAD ->
            {ok, Bytes};
        nomatch when byte_size(Bytes) =< ?MAX_HEAD ->
            case gen_tcp:recv(Socket, 0) of
                {ok, More} -> read_head(Socket, <<Bytes/binary, More/binary>>);
                {error, _} -> closed
            end;
        _ ->
            too_long
    end.

read_body(_Socket, Bytes, Length) when byte_size(Bytes) >= Length ->
    <<Body:Length/binary, Next/binary>> = Bytes,
    {ok, Body, Next};
read_body(Socket, Bytes, Length) ->
    case gen_tcp:recv(Socket, Length - byte_size(Bytes)) of
        {ok, More} -> read_body(Socket, <<Bytes/binary, More/binary>>, Length);
        {error, _} -> closed
    end.
