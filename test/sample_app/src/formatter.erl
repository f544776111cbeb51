%% Writes HTTP responses, in a pool of its own. Unlike the database's, the
%% measured function runs on the far side, in the pool's worker.
-module(formatter).
-behaviour(gen_server).

-export([format/1, format_response/1, bytes/2]).
-export([init/1, handle_call/3, handle_cast/2]).

%% Have a worker format this result, #{op, status, body}.
format(Result) ->
    gen_server:call(sample_pool:pick(formatter), {format, Result}, infinity).

%% The bytes of the response.
format_response(#{status := Status, body := Body}) ->
    sample_layer:spend(formatter),
    bytes(Status, Body).

%% The same with no work of the layer's, and in no one's account.
bytes(Status, Body) ->
    iolist_to_binary([<<"HTTP/1.1 ">>, status_line(Status),
                      <<"\r\nserver: sample\r\ncontent-type: text/plain\r\ncontent-length: ">>,
                      integer_to_binary(iolist_size(Body)), <<"\r\n\r\n">>, Body]).

init(Layer) ->
    {ok, sample_layer:ballast(Layer)}.

handle_call({format, #{op := Op} = Result}, _From, State) ->
    Start = sample_truth:start(),
    Response = formatter:format_response(Result),
    sample_truth:returned(formatter, Op, Start),
    {reply, Response, State}.

handle_cast(_, State) ->
    {noreply, State}.

status_line(200) -> <<"200 OK">>;
status_line(201) -> <<"201 Created">>;
status_line(400) -> <<"400 Bad Request">>;
status_line(404) -> <<"404 Not Found">>;
status_line(500) -> <<"500 Internal Server Error">>.
