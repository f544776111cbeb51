%% it_cowboy - a cowboy server, and clients that keep their connections, for
%% cowboy_tests. Both run in the target.
-module(it_cowboy).

-export([start/1, http1/3, http2/2, init/2]).

%% The port. Opts: more of cowboy's protocol options. All code is loaded first,
%% as in a release: from OTP 27 on, processes that wait for the same module have
%% the code server's answer without their tokens.
start(Opts) ->
    {ok, _} = application:ensure_all_started(cowboy),
    Modules = lists:append([M || App <- [cowboy, cowlib, ranch, kprof],
                                 ok <- [case application:load(App) of {error, {already_loaded, App}} -> ok; R -> R end],
                                 {ok, M} <- [application:get_key(App, modules)]]),
    ok = code:ensure_modules_loaded([it_marks | Modules]),
    Dispatch = cowboy_router:compile([{'_', [{"/:kind", ?MODULE, []}]}]),
    Env = maps:get(env, Opts, #{}),
    {ok, _} = cowboy:start_clear(?MODULE, [{ip, {127, 0, 0, 1}}],
                                 Opts#{env => Env#{dispatch => Dispatch}}),
    ranch:get_port(?MODULE).

%% The handler: db once, and once more for a body, which comes in parts.
init(Req, State) ->
    it_marks:db(1),
    Kind = cowboy_req:binding(kind, Req),
    Kind =:= <<"crash">> andalso error(crash),
    {Body, Req2} = body(cowboy_req:method(Req), Req),
    Page = [it_marks:render(binary_to_atom(Kind)), Body],
    {ok, cowboy_req:reply(200, #{<<"content-type">> => <<"text/plain">>}, Page, Req2), State}.

body(<<"GET">>, Req) ->
    {<<>>, Req};
body(<<"POST">>, Req) ->
    {ok, Body, Req2} = cowboy_req:read_body(Req),
    it_marks:db(0),
    {Body, Req2}.

%% ---------------------------------------------------------- HTTP/1.1 ----

%% N requests of [{Method, Path}] on each of some connections at once.
http1(Port, Connections, Requests) ->
    Refs = [element(2, spawn_monitor(fun() -> http1_connection(Port, Requests) end))
            || _ <- lists:seq(1, Connections)],
    [receive {'DOWN', Ref, process, _, Why} -> normal = Why end || Ref <- Refs],
    ok.

http1_connection(Port, Requests) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, http_bin}, {active, false}, {nodelay, true}]),
    [http1_request(S, R) || R <- Requests],
    gen_tcp:close(S).

http1_request(S, {Method, Path}) ->
    Body = case Method of "GET" -> []; "POST" -> ["half", "half"] end,
    ok = gen_tcp:send(S, [Method, " ", Path, " HTTP/1.1\r\nhost: localhost\r\ncontent-length: ",
                          integer_to_list(iolist_size(Body)), "\r\n\r\n"]),
    [begin receive after 2 -> ok end, ok = gen_tcp:send(S, Part) end || Part <- Body],
    {ok, {http_response, _, Status, _}} = gen_tcp:recv(S, 0),
    Length = http1_length(S, 0),
    ok = inet:setopts(S, [{packet, raw}]),
    Length > 0 andalso gen_tcp:recv(S, Length),
    ok = inet:setopts(S, [{packet, http_bin}]),
    true = Status =:= 200 orelse Path =:= "/crash".

http1_length(S, Length) ->
    case gen_tcp:recv(S, 0) of
        {ok, {http_header, _, 'Content-Length', _, N}} -> http1_length(S, binary_to_integer(N));
        {ok, {http_header, _, _, _, _}} -> http1_length(S, Length);
        {ok, http_eoh} -> Length
    end.

%% ------------------------------------------------------------ HTTP/2 ----

%% On one connection all streams at once, each with a body in two parts that
%% come in turns with the others'.
http2(Port, Paths) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {nodelay, true}]),
    ok = gen_tcp:send(S, ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", cow_http2:settings(#{})]),
    Streams = lists:zip(lists:seq(1, 2 * length(Paths), 2), Paths),
    lists:foldl(fun({Id, Path}, Hpack) ->
                        {Head, Hpack2} = cow_hpack:encode([{<<":method">>, <<"POST">>}, {<<":scheme">>, <<"http">>},
                                                           {<<":authority">>, <<"localhost">>},
                                                           {<<":path">>, list_to_binary(Path)}], Hpack),
                        ok = gen_tcp:send(S, cow_http2:headers(Id, nofin, Head)),
                        Hpack2
                end, cow_hpack:init(), Streams),
    [begin receive after 2 -> ok end, ok = gen_tcp:send(S, cow_http2:data(Id, Fin, <<"half">>)) end
     || Fin <- [nofin, fin], {Id, _} <- Streams],
    http2_answers(S, <<>>, length(Paths)),
    gen_tcp:close(S).

http2_answers(_, _, 0) ->
    ok;
http2_answers(S, Got, Left) ->
    case cow_http2:parse(Got) of
        {ok, {settings, _}, Rest} -> gen_tcp:send(S, cow_http2:settings_ack()), http2_answers(S, Rest, Left);
        {ok, {data, _, fin, _}, Rest} -> http2_answers(S, Rest, Left - 1);
        {ok, _, Rest} -> http2_answers(S, Rest, Left);
        more ->
            {ok, More} = gen_tcp:recv(S, 0, 10000),
            http2_answers(S, <<Got/binary, More/binary>>, Left)
    end.
