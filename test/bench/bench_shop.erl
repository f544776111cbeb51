%% bench_shop - what profiling costs an application of the shape of a web shop.
%%
%% In the target: a process for each connection, one for each request, which makes three
%% queries by a pool of workers, each before a process of the database, has a part rendered by a
%% task, and tells a process that counts. Clients send one request after another: the node has
%% all the load that it can bear. What would be a socket is a process here: a system call takes
%% longer than what is measured, and another time on each machine.
%%
%% Tracing is set and taken as the agent does, by the match specs of kprofd, in short turns
%% of the same work, each after one without it: what else the machine does hits both alike. Every row
%% has one term more, and its figure is the median of what a request took more than in the turn
%% before. Events go to a process that drops them: what the agent pays is in its own account.
-module(bench_shop).

-export([run/3]).
-export([start/0, load/0, over/1, interval/1, work/2, never/1]).
-export([handle/2, authorize/1, query/2, total/1, render/2, part/1, price/1, tax/1, stock/1,
         label/1, format/1]).

-define(CLIENTS, 16).
-define(WORKERS, 5).
-define(REQUESTS, 100).         % of each client in a turn
-define(FLAGS, [call, arity, return_to, monotonic_timestamp]).
-define(SIX, [{authorize, 1}, {query, 2}, {total, 1}, {render, 2}, {part, 1}, {format, 1}]).
-define(TEN, [{price, 1}, {tax, 1}, {stock, 1}, {label, 1} | ?SIX]).

%% ------------------------------------------------------------ measuring ----

%% Entry(N): the match spec of an entry that samples one in N. Runs in the target. Returns
%% what each row took: {Row, Us more, {From, To}, Us without, a request's switches, calls, events}.
run(Entry, Tier, Rounds) ->
    Tracer = spawn_opt(fun drop/0, [link, {priority, high}, {message_queue_data, off_heap}]),
    Was = erlang:system_info(trace_control_word),
    ok = start(),
    _ = [measure(Tracer) || _ <- lists:seq(1, 5)],
    Rows = [{"flags alone", false, []}, {"entry", 65536, []}, {"entry, 6 functions", 65536, ?SIX},
            {"entry, 10 functions", 65536, ?TEN}, {"entry, 1 in 4", 4, []},
            {"6 functions, 1 in 4", 4, ?SIX}, {"10 functions, 1 in 4", 4, ?TEN}],
    Got = [[{Name, {measure(Tracer), traced(Tracer, Entry, Tier, OneIn, Fs)}} || {Name, OneIn, Fs} <- Rows]
           || _ <- lists:seq(1, Rounds)],
    erlang:system_flag(trace_control_word, Was),
    unlink(Tracer),
    exit(Tracer, kill),
    [row(Name, [proplists:get_value(Name, R) || R <- Got]) || {Name, _, _} <- Rows].

traced(Tracer, Entry, Tier, OneIn, Fs) ->
    Session = session(Tracer),
    [1 = pattern(Session, {?MODULE, F, A}, Tier) || {F, A} <- Fs],
    OneIn =:= false orelse (1 = pattern(Session, {?MODULE, handle, 2}, maps:get(OneIn, Entry))),
    flags(Session, Tracer),
    Got = measure(Tracer),
    untraced(Session, [{handle, 2} | Fs]),
    Got.

%% As the agent has it: a session from OTP 27 on.
session(Tracer) ->
    case erlang:function_exported(trace, session_create, 3) of
        true -> trace:session_create(?MODULE, Tracer, []);
        false -> none
    end.

pattern(none, MFA, Spec) -> erlang:trace_pattern(MFA, Spec, [local, call_count]);
pattern(Session, MFA, Spec) -> trace:function(Session, MFA, Spec, [local, call_count]).

flags(none, Tracer) -> erlang:trace(processes, true, [{tracer, Tracer} | ?FLAGS]);
flags(Session, _) -> trace:process(Session, all, true, ?FLAGS).

untraced(none, Fs) ->
    [erlang:trace_pattern({?MODULE, F, A}, false, [local, call_count]) || {F, A} <- Fs],
    erlang:trace(processes, false, [all]);
untraced(Session, _) ->
    trace:session_destroy(Session).

drop() ->
    receive
        {count, P} -> P ! {counted, get(n)};
        Ev when element(1, Ev) =:= trace_ts -> put(n, case get(n) of undefined -> 1; N -> N + 1 end)
    end,
    drop().

count(Tracer) ->
    Tracer ! {count, self()},
    receive {counted, N} when is_integer(N) -> N; {counted, undefined} -> 0 end.

%% The same work each time: a turn of so much time would end amid requests. Nothing of it is left
%% when the CPU time is read.
measure(Tracer) ->
    A = sample(Tracer),
    Clients = persistent_term:get({?MODULE, clients}),
    [C ! {ask, self(), ?REQUESTS} || C <- Clients],
    [receive {asked, C} -> ok end || C <- Clients],
    B = sample(Tracer),
    maps:map(fun(K, V) -> V - maps:get(K, A) end, B).

%% First, so that all events are counted that there are.
sample(Tracer) ->
    Events = count(Tracer),
    {Switches, _} = erlang:statistics(context_switches),
    #{requests => counters:get(persistent_term:get(?MODULE), 1),
      cpu_us => bench_node:cpu_us("self"), switches => Switches, events => Events}.

row(Name, Turns) ->
    More = lists:sort([each(cpu_us, B) - each(cpu_us, A) || {A, B} <- Turns]),
    M = fun(K) -> median([each(K, B) || {_, B} <- Turns]) end,
    {Name, median(More), interval(More), median([each(cpu_us, A) || {A, _} <- Turns]), M(switches), M(events)}.

each(Key, B) -> maps:get(Key, B) / max(1, maps:get(requests, B)).

median(L) -> lists:nth((length(L) + 1) div 2, lists:sort(L)).

%% Holds the median in 95 of 100 cases, by the sign test.
interval(Sorted) ->
    N = length(Sorted),
    K = max(1, low_rank(N, 0, 0.0)),
    {lists:nth(K, Sorted), lists:nth(N + 1 - K, Sorted)}.

low_rank(N, K, Sum) ->
    Next = Sum + choose(N, K) / math:pow(2, N),
    if Next > 0.025 -> K; true -> low_rank(N, K + 1, Next) end.

choose(_, 0) -> 1;
choose(N, K) -> choose(N, K - 1) * (N - K + 1) div K.

%% -------------------------------------------------------- in the target ----

start() ->
    Asks = self(),
    spawn(fun() ->
                  persistent_term:put(?MODULE, counters:new(1, [write_concurrency])),
                  ets:new(?MODULE, [named_table, public, {read_concurrency, true}]),
                  [ets:insert(?MODULE, {N, N * 7}) || N <- lists:seq(0, 996)],
                  register(bench_shop_pool, spawn_link(fun() -> pool([], queue:new()) end)),
                  register(bench_shop_metrics, spawn_link(fun metrics/0)),
                  _ = [spawn_link(fun worker/0) || _ <- lists:seq(1, ?WORKERS)],
                  persistent_term:put({?MODULE, clients}, [spawn_link(fun client/0) || _ <- lists:seq(1, ?CLIENTS)]),
                  Asks ! started,
                  receive stop -> ok end
          end),
    receive started -> ok end.

%% All that the node can bear, until it ends.
load() ->
    [C ! {ask, self(), 1 bsl 59} || C <- persistent_term:get({?MODULE, clients})],
    ok.

%% As bench_node:over/1.
over(Ms) ->
    Done = persistent_term:get(?MODULE),
    {N0, T0, Cpu0} = {counters:get(Done, 1), erlang:monotonic_time(nanosecond), bench_node:cpu_us("self")},
    receive after Ms -> ok end,
    {N1, T1, Cpu1} = {counters:get(Done, 1), erlang:monotonic_time(nanosecond), bench_node:cpu_us("self")},
    {(N1 - N0) * 1.0e9 / (T1 - T0), (Cpu1 - Cpu0) / max(1, N1 - N0)}.

client() ->
    Self = self(),
    asked(spawn_link(fun() -> connection(Self) end)).

asked(Connection) ->
    receive
        {ask, From, N} ->
            asks(Connection, N),
            From ! {asked, self()},
            asked(Connection)
    end.

asks(_, 0) ->
    ok;
asks(Connection, N) ->
    Connection ! {get, N rem 997},
    receive {page, _} -> asks(Connection, N - 1) end.

database() ->
    receive {From, Id} -> From ! {row, integer_to_binary(Id)} end,
    database().

connection(Client) ->
    receive
        {get, Id} ->
            Self = self(),
            {Pid, Ref} = spawn_monitor(fun() -> Self ! {answer, self(), ?MODULE:handle(get, Id)} end),
            receive {answer, Pid, Page} -> Client ! {page, Page} end,
            receive {'DOWN', Ref, process, Pid, normal} -> ok end,
            connection(Client)
    end.

handle(get, Id) ->
    true = ?MODULE:authorize(Id),
    Rows = [binary_to_integer(?MODULE:query(Table, Id)) || Table <- [1, 2, 3]],
    Self = self(),
    {Task, Ref} = spawn_monitor(fun() -> Self ! {part, self(), ?MODULE:part(Id)} end),
    Sum = ?MODULE:total(Rows),
    Page = ?MODULE:render(Id, Rows),
    Part = receive {part, Task, P} -> P end,
    receive {'DOWN', Ref, process, Task, normal} -> ok end,
    bench_shop_metrics ! {done, Id},
    ?MODULE:format([Page, Part, integer_to_binary(Sum)]).

authorize(Id) ->
    [{_, _}] = ets:lookup(?MODULE, Id rem 997),
    work(20, Id) >= 0.

query(Table, Id) ->
    Worker = checkout(),
    Ref = make_ref(),
    Worker ! {query, self(), Ref, Table * 1000 + Id},
    Row = receive {Ref, R} -> R end,
    bench_shop_pool ! {checkin, Worker},
    Row.

total(Rows) -> lists:sum([?MODULE:price(R) || R <- Rows]).
price(R) -> ?MODULE:tax(R) + R.
tax(R) -> work(20, R).
stock(R) -> work(20, R).
label(R) -> integer_to_binary(R).

render(Id, Rows) ->
    work(400, Id),
    [[?MODULE:label(R), " ", integer_to_binary(?MODULE:stock(R)), ";"] || R <- Rows].

part(Id) -> integer_to_binary(work(400, Id)).

format(Parts) -> iolist_to_binary(lists:join(" ", Parts)).

never(X) -> X.

work(0, X) -> X;
work(N, X) -> work(N - 1, (X * 7 + N) band 16#FFFFFF).

checkout() ->
    Ref = make_ref(),
    bench_shop_pool ! {checkout, self(), Ref},
    receive {Ref, Worker} -> Worker end.

pool([], Waiting) ->
    receive
        {checkin, W} ->
            case queue:out(Waiting) of
                {{value, {From, Ref}}, Rest} -> From ! {Ref, W}, pool([], Rest);
                {empty, _} -> pool([W], Waiting)
            end;
        {checkout, From, Ref} -> pool([], queue:in({From, Ref}, Waiting))
    end;
pool([W | Free], Waiting) ->
    receive
        {checkin, Other} -> pool([Other, W | Free], Waiting);
        {checkout, From, Ref} -> From ! {Ref, W}, pool(Free, Waiting)
    end.

worker() ->
    Database = spawn_link(fun database/0),
    bench_shop_pool ! {checkin, self()},
    works(Database).

works(Database) ->
    receive
        {query, From, Ref, Id} ->
            Database ! {self(), Id},
            receive {row, Row} -> From ! {Ref, Row} end,
            works(Database)
    end.

metrics() ->
    receive {done, _} -> counters:add(persistent_term:get(?MODULE), 1, 1) end,
    metrics().
