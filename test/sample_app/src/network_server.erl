%% The HTTP front: listens on 127.0.0.1, accepts with a pool of processes, and
%% decodes what comes; sample_connection does the rest.
%%
%% The process that accepts a connection also serves it, and another is started to
%% accept the next: so the socket never changes hands.
-module(network_server).
-behaviour(gen_server).

-export([start_link/0, port/0, parse_request/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

port() ->
    gen_server:call(?MODULE, port).

%% Decode a request's head with its blank line, into its method, path, fields of
%% interest and the bytes after it; or a body, into its fields.
%%
%% The head is decoded by the connection's process before the request's entry, so
%% that call belongs to no request; the body by the worker, within it.
parse_request({body, Body}) ->
    sample_layer:spend(parsing),
    maps:from_list([split_field(Field) || Field <- binary:split(Body, <<"&">>, [global])]);
parse_request(Head) when is_binary(Head) ->
    sample_layer:spend(parsing),
    case erlang:decode_packet(http_bin, Head, []) of
        {ok, {http_request, Method, {abs_path, Path}, Version}, Rest} ->
            fields(Rest, #{method => Method, path => Path, length => 0, close => Version < {1, 1}});
        _ ->
            bad_request
    end.

fields(Bytes, Request) ->
    case erlang:decode_packet(httph_bin, Bytes, []) of
        {ok, {http_header, _, Name, _, Value}, Rest} -> fields(Rest, field(Name, Value, Request));
        {ok, http_eoh, Rest} -> Request#{rest => Rest};
        _ -> bad_request
    end.

field('Content-Length', Value, Request) ->
    try Request#{length := binary_to_integer(Value)} catch error:badarg -> Request#{length := -1} end;
field('Connection', Value, Request) ->
    case string:lowercase(Value) of
        <<"close">> -> Request#{close := true};
        <<"keep-alive">> -> Request#{close := false};
        _ -> Request
    end;
field(_, _, Request) ->
    Request.

split_field(Field) ->
    case binary:split(Field, <<"=">>) of
        [Name, Value] -> {Name, Value};
        [Name] -> {Name, <<>>}
    end.

%% The listener.

init([]) ->
    process_flag(trap_exit, true),
    Options = [binary, {active, false}, {packet, raw}, {ip, {127, 0, 0, 1}}, {reuseaddr, true},
               {nodelay, true}, {backlog, 1024}],
    case gen_tcp:listen(sample_config:get(port), Options) of
        {ok, Listener} ->
            {ok, Port} = inet:port(Listener),
            Acceptors = [acceptor(Listener) || _ <- lists:seq(1, sample_config:get(acceptors))],
            {ok, #{listener => Listener, port => Port, acceptors => maps:from_keys(Acceptors, [])}};
        {error, Reason} ->
            {stop, {listen, sample_config:get(port), Reason}}
    end.

handle_call(port, _From, #{port := Port} = State) ->
    {reply, Port, State}.

handle_cast({accepted, Pid}, State) ->
    {noreply, replace(Pid, State)}.

%% Connections end as they like; one that never came to be leaves its place.
handle_info({'EXIT', Pid, _Reason}, #{acceptors := Acceptors} = State) when is_map_key(Pid, Acceptors) ->
    {noreply, replace(Pid, State)};
handle_info(_, State) ->
    {noreply, State}.

replace(Pid, #{listener := Listener, acceptors := Acceptors} = State) ->
    Others = maps:remove(Pid, Acceptors),
    State#{acceptors := Others#{acceptor(Listener) => []}}.

acceptor(Listener) ->
    Server = self(),
    proc_lib:spawn_link(fun() -> accept(Server, Listener) end).

accept(Server, Listener) ->
    case gen_tcp:accept(Listener) of
        {ok, Socket} ->
            gen_server:cast(Server, {accepted, self()}),
            sample_connection:serve(Socket);
        {error, Reason} when Reason =:= emfile; Reason =:= enfile ->
            receive after 100 -> accept(Server, Listener) end;
        {error, _} ->
            ok
    end.
