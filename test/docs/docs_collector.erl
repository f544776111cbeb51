%% docs_collector - takes what `kprofd -otlp' sends, as any collector does, and
%% counts it. What is in it, `make export-test' looks at.
-module(docs_collector).

-export([start/0, url/1, taken/1]).

-define(ANSWER, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}").

start() ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {packet, http_bin}, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listener),
    Taken = counters:new(1, []),
    spawn(fun() -> accept(Listener, Taken) end),
    #{port => Port, taken => Taken, listener => Listener}.

url(#{port := Port}) ->
    "http://127.0.0.1:" ++ integer_to_list(Port).

taken(#{taken := Taken}) ->
    counters:get(Taken, 1).

accept(Listener, Taken) ->
    case gen_tcp:accept(Listener) of
        {ok, Socket} ->
            take(Socket, Taken),
            gen_tcp:close(Socket),
            accept(Listener, Taken);
        {error, closed} -> ok
    end.

%% Only one that is whole and for a collector counts.
take(Socket, Taken) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_request, 'POST', {abs_path, <<"/v1/", _/binary>>}, _}} ->
            Length = content_length(Socket, 0),
            ok = inet:setopts(Socket, [{packet, raw}]),
            {ok, Body} = gen_tcp:recv(Socket, Length),
            <<"{", _/binary>> = zlib:gunzip(Body),
            counters:add(Taken, 1, 1),
            gen_tcp:send(Socket, ?ANSWER);
        _ -> ok
    end.

content_length(Socket, Length) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_header, _, 'Content-Length', _, Value}} -> content_length(Socket, binary_to_integer(Value));
        {ok, {http_header, _, _, _, _}} -> content_length(Socket, Length);
        {ok, http_eoh} -> Length
    end.
