%% apps_load - HTTP clients in the tests' own node: each has a connection, asks
%% for one thing of a mix, waits for the answer, thinks, and asks again, until
%% it is told to stop.
-module(apps_load).

-export([start/2, stop/1, answered/1, get/1, post/2, put/2, header/2]).

-define(WAIT_MS, 30000).

%% Port and mix: #{port, clients, think_ms, mix => [{Share, fun(Client) -> Request}]};
%% begins => fun(N) -> Client, a map which the mix's functions are given, and in
%% which `cookie` and `last`, the answer's body, are put; asks => [fun(Client) ->
%% Request] are the first that each client asks for, and begun => fun(Client) ->
%% Client is called after these.
start(Port, #{clients := Clients} = Load) ->
    Done = counters:new(5, [write_concurrency]),
    {Pid, _} = spawn_monitor(fun() ->
                                     process_flag(trap_exit, true),
                                     All = [spawn_link(fun() -> client(N, Port, Load, Done) end) || N <- lists:seq(1, Clients)],
                                     watch(All)
                             end),
    Test = self(),
    spawn(fun() ->
                  M = monitor(process, Test),
                  receive {'DOWN', M, _, _, _} -> exit(Pid, kill) end
          end),
    #{pid => Pid, done => Done}.

watch(All) ->
    receive
        stop -> [exit(P, kill) || P <- All], ok;
        {'EXIT', P, Why} when Why =/= killed -> exit({client, P, Why})
    end.

%% How many were answered with 2xx, 3xx ... since the start; fails if a client did.
stop(#{pid := Pid} = Load) ->
    Pid ! stop,
    receive {'DOWN', _, process, Pid, Why} -> it:equal("the load ended", normal, Why) end,
    answered(Load).

answered(#{done := Done}) ->
    maps:from_list([{C * 100, N} || C <- lists:seq(1, 5), N <- [counters:get(Done, C)], N > 0]).

client(N, Port, #{mix := Mix, think_ms := Think} = Load, Done) ->
    Client0 = (maps:get(begins, Load, fun(Number) -> #{n => Number} end))(N),
    S = connect(Port),
    Asked = lists:foldl(fun(Ask, C) -> ask(S, Ask(C), C, Done) end, Client0, maps:get(asks, Load, [])),
    Client = (maps:get(begun, Load, fun(C) -> C end))(Asked),
    work(S, Mix, lists:sum([Share || {Share, _} <- Mix]), Think, Client, Done).

connect(Port) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {packet, http_bin}, {nodelay, true}]),
    S.

work(S, Mix, Sum, Think, Client, Done) ->
    Request = (pick(rand:uniform(Sum), Mix))(Client),
    Next = ask(S, Request, Client, Done),
    receive after rand:uniform(2 * Think) -> ok end,
    work(S, Mix, Sum, Think, Next, Done).

pick(X, [{Share, Fun} | _]) when X =< Share -> Fun;
pick(X, [{Share, _} | More]) -> pick(X - Share, More).

%% ------------------------------------------------------ its requests ----

get(Path) -> {<<"GET">>, Path, [], <<>>}.
post(Path, Body) -> {<<"POST">>, Path, [{"content-type", "application/x-www-form-urlencoded"}], iolist_to_binary(Body)}.
put(Path, Body) -> {<<"PUT">>, Path, [{"content-type", "text/plain"}], iolist_to_binary(Body)}.
header({Method, Path, Headers, Body}, Header) -> {Method, Path, [Header | Headers], Body}.

ask(S, {Method, Path, Headers, Body}, Client, Done) ->
    ok = gen_tcp:send(S, [Method, " ", Path, " HTTP/1.1\r\nhost: localhost\r\n",
                          [[K, ": ", V, "\r\n"] || {K, V} <- Headers ++ cookie(Client)],
                          "content-length: ", integer_to_list(byte_size(Body)), "\r\n\r\n", Body]),
    {ok, {http_response, _, Status, _}} = gen_tcp:recv(S, 0, ?WAIT_MS),
    {Length, Next} = headers(S, none, Client),
    Answer = body(S, Length),
    counters:add(Done, Status div 100, 1),
    Next#{last => Answer}.

cookie(#{cookie := Cookie}) -> [{"cookie", Cookie}];
cookie(_) -> [].

headers(S, Length, Client) ->
    case gen_tcp:recv(S, 0, ?WAIT_MS) of
        {ok, {http_header, _, 'Content-Length', _, Value}} -> headers(S, binary_to_integer(Value), Client);
        {ok, {http_header, _, 'Transfer-Encoding', _, <<"chunked">>}} -> headers(S, chunked, Client);
        {ok, {http_header, _, 'Set-Cookie', _, Value}} -> headers(S, Length, Client#{cookie => hd(binary:split(Value, <<";">>))});
        {ok, {http_header, _, _, _, _}} -> headers(S, Length, Client);
        {ok, http_eoh} -> {Length, Client}
    end.

body(_, none) -> <<>>;
body(_, 0) -> <<>>;
body(S, chunked) ->
    ok = inet:setopts(S, [{packet, line}]),
    Body = chunks(S, []),
    ok = inet:setopts(S, [{packet, http_bin}]),
    Body;
body(S, Length) ->
    ok = inet:setopts(S, [{packet, raw}]),
    {ok, Body} = gen_tcp:recv(S, Length, ?WAIT_MS),
    ok = inet:setopts(S, [{packet, http_bin}]),
    Body.

chunks(S, Got) ->
    {ok, Line} = gen_tcp:recv(S, 0, ?WAIT_MS),
    case binary_to_integer(hd(string:lexemes(string:trim(Line), "; ")), 16) of
        0 ->
            {ok, <<"\r\n">>} = gen_tcp:recv(S, 0, ?WAIT_MS),
            iolist_to_binary(lists:reverse(Got));
        Size ->
            ok = inet:setopts(S, [{packet, raw}]),
            {ok, <<Chunk:Size/binary, "\r\n">>} = gen_tcp:recv(S, Size + 2, ?WAIT_MS),
            ok = inet:setopts(S, [{packet, line}]),
            chunks(S, [Chunk | Got])
    end.
