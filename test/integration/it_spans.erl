%% it_spans - an application that has a trace of its own, for spans_tests: each
%% request carries a traceparent, as an argument or as OpenTelemetry's libraries
%% keep it in the process, and works in processes, a server and on another node.
-module(it_spans).
-behaviour(gen_server).

-export([start/0, run/3, in_process/1, many/1, nested/1, post/2]).
-export([handle/2, task/1, query/1, inner/1, plain/1, as_string/2, render/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(CTX, '$__current_otel_ctx').

%% The server on this node.
start() ->
    {ok, Pid} = gen_server:start({local, ?MODULE}, ?MODULE, [], []),
    is_pid(Pid).

%% Requests one after another, each with one of these traceparents.
run(Traceparents, Local, Far) ->
    [apart(fun() -> ?MODULE:handle(#{headers => #{<<"traceparent">> => T}}, {Local, Far}) end) || T <- Traceparents],
    ok.

%% One of each kind of context that a process may have: a span of OpenTelemetry's API, as
%% two of its releases have it, what Logger's metadata say, and none.
in_process(Contexts) ->
    [apart(fun() ->
                   case Context of
                       {span, Span} -> put(?CTX, #{{otel_tracer, span_ctx} => Span});
                       {metadata, Metadata} -> logger:set_process_metadata(Metadata);
                       none -> ok
                   end,
                   Kind = kprof:do_apply(Kind, ?MODULE, plain, [Kind])
           end) || {Kind, Context} <- Contexts],
    ok.

%% Arguments of all kinds, where a traceparent was to be.
many(Terms) ->
    [apart(fun() -> ?MODULE:as_string(Kind, Term) end) || {Kind, Term} <- Terms],
    ok.

nested(Traceparent) ->
    apart(fun() -> ?MODULE:handle(#{headers => #{<<"traceparent">> => Traceparent}}, inner) end),
    ok.

apart(Fun) ->
    {Pid, Ref} = spawn_monitor(fun() -> _ = Fun(), exit(done) end),
    receive {'DOWN', Ref, process, Pid, done} -> ok end.

%% ------------------------------------------------------------ measured ----

handle(#{headers := _}, inner) ->
    inner = ?MODULE:inner(inner),
    ok = ?MODULE:render(1),
    ok;
handle(#{headers := _}, {Local, Far}) ->
    ok = awaited(fun() -> spawn_link(fun() -> child(?MODULE:task(1)) end) end),
    {ok, here} = gen_server:call({?MODULE, Local}, here),
    {ok, far} = gen_server:call({?MODULE, Far}, far),
    ok = ?MODULE:render(1),
    ok.

%% As Task.async and await do it.
awaited(Spawn) ->
    Ref = monitor(process, Spawn()),
    receive {'DOWN', Ref, process, _, normal} -> ok end.

child(ok) -> ok.

task(Ms) -> receive after Ms -> ok end.
query(Where) -> receive after 1 -> Where end.
render(Ms) -> receive after Ms -> ok end.
inner(Kind) -> receive after 1 -> Kind end.
plain(Kind) -> receive after 1 -> Kind end.
as_string(Kind, _) -> receive after 1 -> Kind end.

%% ------------------------------------------------------------ exported ----

%% Sends the application's own spans, as its exporter would.
post(Port, Body) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, ["POST /v1/traces HTTP/1.1\r\nHost: collector\r\nContent-Type: application/json\r\n"
                               "Content-Length: ", integer_to_list(iolist_size(Body)), "\r\n\r\n", Body]),
    {ok, Answer} = gen_tcp:recv(Socket, 0),
    %% OTP 29 loads no match of a long text that OTP 25 has compiled.
    true = lists:prefix("HTTP/1.1 200", binary_to_list(Answer)),
    gen_tcp:close(Socket).

%% -------------------------------------------------------------- server ----

init([]) -> {ok, none}.

handle_call(Where, _, State) ->
    Where = ?MODULE:query(Where),
    {reply, {ok, Where}, State}.

handle_cast(_, State) -> {noreply, State}.
