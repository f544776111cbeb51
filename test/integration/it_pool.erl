%% it_pool - requests that meet: clients that wait for a worker of a pool, whose worker asks a
%% second server, and for a state machine that postpones. Each function knows for which type
%% of request it is called, and counts that: counts/0 is the truth.
%%
%% A client that waits is answered because another gives its worker back (gen_server:reply/2), so
%% that the answer carries the other's token.
-module(it_pool).
-behaviour(gen_server).

-export([start/1, start/2, at/1, run/3, halt/0, stop/0, counts/0, per_request/1]).
-export([request/1, checkout/0, checkin/1, query/2, fetch/1, admit/2, render/1]).
-export([init/1, handle_call/3, handle_cast/2, callback_mode/0, handle_event/4, start_link/1]).

-define(BOY, it_pool_boy).
-define(WAIT, 60000).

%% A pool of so many workers: its own, or poolboy's.
start(Workers) ->
    start(own, Workers).

start(Kind, Workers) ->
    Me = self(),
    Owner = spawn(fun() ->
                          it_pool = ets:new(it_pool, [named_table, public, {write_concurrency, true}]),
                          {ok, _} = gen_server:start_link({local, it_pool_store}, ?MODULE, store, []),
                          {ok, _} = gen_statem:start_link({local, it_pool_gate}, ?MODULE, gate, []),
                          {ok, _} = pool(Kind, Workers),
                          Me ! {self(), started},
                          receive stop -> ok end,
                          exit(shutdown)
                  end),
    register(it_pool_owner, Owner),
    receive {Owner, started} -> ok end.

%% From now on clients here use the servers there, which stop/0 forgets.
at(Node) ->
    persistent_term:put(it_pool_at, Node).

there(Name) ->
    {Name, persistent_term:get(it_pool_at, node())}.

pool(own, N) ->
    gen_server:start_link({local, it_pool_own}, ?MODULE, {pool, N}, []);
pool(poolboy, N) ->
    poolboy:start_link([{name, {local, ?BOY}}, {worker_module, ?MODULE}, {size, N}, {max_overflow, 0}], worker).

start_link(What) ->
    gen_server:start_link(?MODULE, What, []).

stop() ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({counts, counts()}) end),
    Counts = receive {'DOWN', Ref, process, Pid, {counts, C}} -> C end,
    _ = persistent_term:erase(it_pool_at),
    Owner = erlang:monitor(process, it_pool_owner),
    it_pool_owner ! stop,
    receive {'DOWN', Owner, process, _, _} -> Counts end.

%% So many clients at a time, each of which makes so many requests, of these types in turn, or any
%% number until halt/0. Returns how many requests there were.
run(Clients, Each, Types) ->
    Ps = [spawn_monitor(fun() -> client(I, I + min(Each, 1 bsl 50), Types) end) || I <- lists:seq(1, Clients)],
    [receive {'DOWN', Ref, process, Pid, normal} -> ok end || {Pid, Ref} <- Ps],
    _ = persistent_term:erase(it_pool_goes_on),
    is_integer(Each) andalso Clients * Each.

halt() ->
    persistent_term:put(it_pool_goes_on, false).

client(N, N, _) ->
    ok;
client(I, N, Types) ->
    persistent_term:get(it_pool_goes_on, true) andalso client_asks(I, N, Types).

client_asks(I, N, Types) ->
    Type = lists:nth(I rem length(Types) + 1, Types),
    done = ?MODULE:request(Type),
    receive after I rem 3 -> ok end,
    client(I + 1, N, Types).

%% {Function, Type} => Calls
counts() ->
    maps:from_list(ets:tab2list(it_pool)).

count(Function, Type) ->
    _ = ets:update_counter(it_pool, {Function, Type}, 1, {{Function, Type}, 0}),
    ok.

%% What a request of this type calls.
per_request(fast) -> #{request => 1, checkout => 1, query => 1, render => 1};
per_request(slow) -> #{request => 1, checkout => 1, query => 3, render => 1};
per_request(hop) -> #{request => 1, checkout => 1, query => 2, fetch => 2, render => 1};
per_request(gate) -> #{request => 1, admit => 1, render => 1}.

%% ------------------------------------------------------------ measured ----

%% The entry. No call that is counted is in tail position.
request(Type) ->
    count(request, Type),
    work(Type),
    ok = ?MODULE:render(Type),
    done.

work(fast) -> transaction(fun(W) -> ask(W, fast, 100) end);
work(slow) -> transaction(fun(W) -> [ask(W, slow, 500) || _ <- [1, 2, 3]] end);
work(hop) -> transaction(fun(W) -> [ask(W, hop, 100) || _ <- [1, 2]] end);
work(gate) ->
    ok = gen_statem:call(there(it_pool_gate), {take, gate}, ?WAIT),
    spin(200),
    ok = gen_statem:call(there(it_pool_gate), give, ?WAIT).

ask(Worker, Type, Us) ->
    Type = gen_server:call(Worker, {query, Type, Us}, ?WAIT).

transaction(Fun) ->
    W = ?MODULE:checkout(),
    count(checkout, try Fun(W) of [Type | _] -> Type; Type -> Type
                    after ok = ?MODULE:checkin(W)
                    end).

checkout() ->
    Worker = case whereis(?BOY) of
                 undefined -> gen_server:call(there(it_pool_own), checkout, ?WAIT);
                 _ -> poolboy:checkout(?BOY, true, ?WAIT)
             end,
    true = is_pid(Worker),
    Worker.

checkin(Worker) ->
    case whereis(?BOY) of
        undefined -> gen_server:cast(there(it_pool_own), {checkin, Worker});
        _ -> poolboy:checkin(?BOY, Worker)
    end.

query(Type, Us) ->
    count(query, Type),
    spin(Us),
    Type = case Type of
               hop -> gen_server:call(it_pool_store, {fetch, hop}, ?WAIT);
               _ -> Type
           end.

fetch(Type) ->
    count(fetch, Type),
    spin(50),
    Type.

admit(Type, _From) ->
    count(admit, Type),
    spin(50),
    ok.

render(Type) ->
    count(render, Type),
    ok.

spin(Us) ->
    spin_until(erlang:monotonic_time(microsecond) + Us).

spin_until(End) ->
    case erlang:monotonic_time(microsecond) < End of
        true -> spin_until(End);
        false -> ok
    end.

%% ------------------------------------------------------------- servers ----

init({pool, N}) ->
    {ok, {pool, [element(2, {ok, _} = start_link(worker)) || _ <- lists:seq(1, N)], queue:new()}};
init(gate) ->
    {ok, free, none};
init(What) ->
    {ok, What}.

handle_call(checkout, _, {pool, [W | Ws], Waits}) -> {reply, W, {pool, Ws, Waits}};
handle_call(checkout, From, {pool, [], Waits}) -> {noreply, {pool, [], queue:in(From, Waits)}};
handle_call({query, Type, Us}, _, worker) -> {reply, ?MODULE:query(Type, Us), worker};
handle_call({fetch, Type}, _, store) -> {reply, ?MODULE:fetch(Type), store}.

handle_cast({checkin, W}, {pool, Ws, Waits}) ->
    case queue:out(Waits) of
        {{value, From}, Rest} ->
            gen_server:reply(From, W),
            {noreply, {pool, Ws, Rest}};
        {empty, _} -> {noreply, {pool, [W | Ws], Waits}}
    end.

%% The state machine admits one client at a time; what others ask for is postponed.
callback_mode() ->
    handle_event_function.

handle_event({call, From}, {take, Type}, free, none) ->
    Answer = ?MODULE:admit(Type, From),
    {next_state, taken, none, [{reply, From, Answer}]};
handle_event({call, _}, {take, _}, taken, none) ->
    {keep_state_and_data, postpone};
handle_event({call, From}, give, taken, none) ->
    {next_state, free, none, [{reply, From, ok}]}.
