%% it_known - requests of two types in the target, whose functions each do one thing for a known
%% time: they compute, give way to others, ask another process, wait for a message or a socket.
%% Each measures itself.
-module(it_known).

-export([start/0, work/1, truth/0]).
-export([handle/1, query/1, render/1]).
-export([auth/0, total/0, fetch/0, lookup/0, template/0, markup/0, validate/0, lock/0, socket/0, pdf/0]).
-export([init/1, handle_call/3, handle_cast/2]).

-behaviour(gen_server).

-define(SOCKET, [binary, {packet, 1}, {active, false}]).

start() ->
    persistent_term:put(?MODULE, turns()),
    {ok, _} = gen_server:start({local, it_known_db}, ?MODULE, none, []),
    {ok, L} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}} | ?SOCKET]),
    {ok, Port} = inet:port(L),
    spawn(fun() ->
                  {ok, S} = gen_tcp:accept(L),
                  peer(S)
          end),
    true = register(it_known_page, spawn(fun() -> server() end)),
    true = register(it_known_order, spawn(fun() ->
                                                  {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, ?SOCKET),
                                                  put(socket, S),
                                                  server()
                                          end)),
    ok.

%% A socket that answers after 8 ms.
peer(S) ->
    {ok, _} = gen_tcp:recv(S, 0),
    timer:sleep(8),
    ok = gen_tcp:send(S, <<"answer">>),
    peer(S).

%% So many requests of both types, at the same time; without tokens.
work(N) ->
    Drivers = [spawn_monitor(fun() -> [ask(Server, Kind) || _ <- lists:seq(1, N)] end)
               || {Server, Kind} <- [{it_known_page, page}, {it_known_order, order}]],
    [receive {'DOWN', M, process, _, Why} -> normal = Why end || {_, M} <- Drivers],
    ok.

ask(Server, Kind) ->
    Ref = make_ref(),
    Server ! {self(), Ref, Kind},
    receive {Ref, done} -> ok end.

%% [{Function, Ns}]
truth() -> ets:tab2list(?MODULE).

server() ->
    receive
        {From, Ref, Kind} ->
            ok = ?MODULE:handle(Kind),
            From ! {Ref, done},
            server()
    end.

handle(page) ->
    {done, ok} = ?MODULE:auth(),
    ok = ?MODULE:query(users),
    ok = ?MODULE:render(page),
    {done, ok} = ?MODULE:total(),
    ok;
handle(order) ->
    {done, ok} = ?MODULE:validate(),
    ok = ?MODULE:query(order),
    ok = ?MODULE:render(order),
    ok.

query(users) ->
    {done, ok} = ?MODULE:fetch(),
    ok;
query(order) ->
    {done, ok} = ?MODULE:lock(),
    {done, ok} = ?MODULE:socket(),
    ok.

render(page) ->
    {done, ok} = ?MODULE:template(),
    {done, ok} = ?MODULE:markup(),
    ok;
render(order) ->
    {done, ok} = ?MODULE:pdf(),
    ok.

%% None of them ends in a call, so that all are on the stack meanwhile.
auth() -> {done, timed(auth, fun() -> compute(3) end)}.
total() -> {done, timed(total, fun() -> compute(2) end)}.
template() -> {done, timed(template, fun() -> compute(8) end)}.
markup() -> {done, timed(markup, fun() -> compute(5) end)}.
validate() -> {done, timed(validate, fun() -> compute(4) end)}.
lookup() -> {done, timed(lookup, fun() -> compute(10) end)}.
fetch() -> {done, timed(fetch, fun() -> ok = gen_server:call(it_known_db, lookup) end)}.
lock() -> {done, timed(lock, fun() -> receive after 12 -> ok end end)}.

socket() ->
    {done, timed(socket, fun() ->
                                 ok = gen_tcp:send(get(socket), <<"question">>),
                                 {ok, _} = gen_tcp:recv(get(socket), 0),
                                 ok
                         end)}.

%% It gives its turn to others all the time.
pdf() -> {done, timed(pdf, fun() -> yield(120) end)}.

timed(Name, Do) ->
    T0 = monotonic(),
    ok = Do(),
    _ = ets:update_counter(?MODULE, Name, monotonic() - T0, {Name, 0}),
    ok.

%% Of work and not of time: where the machine is busy, the work goes on after the wait for a
%% processor, as an application's does.
compute(Ms) -> spin(Ms * persistent_term:get(?MODULE)).

spin(0) -> ok;
spin(N) -> spin(N - 1).

yield(0) -> ok;
yield(N) ->
    erlang:yield(),
    spin(persistent_term:get(?MODULE) div 20),
    yield(N - 1).

%% Turns of spin/1 in a millisecond, where nothing else runs.
turns() ->
    1000000 * 1000000 div lists:min([begin
                                         T0 = monotonic(),
                                         spin(1000000),
                                         monotonic() - T0
                                     end || _ <- lists:seq(1, 20)]).

monotonic() -> erlang:monotonic_time(nanosecond).

%% ------------------------------------------------- the other process ----

init(none) ->
    ?MODULE = ets:new(?MODULE, [named_table, public]),
    {ok, none}.

handle_call(lookup, _, none) ->
    {done, ok} = ?MODULE:lookup(),
    {reply, ok, none}.

handle_cast(_, none) -> {noreply, none}.
