%% it_counted - work whose calls, and whose words, are the same every time: in
%% one process, in processes that it spawns, and in ones that run already.
-module(it_counted).

-export([work/1, instructions/1, applied/1, squares/1, spin/1, raise/0, wait/1, held/1, serve/0, ask/2, leave/1]).
-export([handle/2, store/1, answer/1, serve_kinds/0]).
-export([kin/2, asked/2]).
-export([in_turn/0, suspended/3, many/1, their_events/0, sentry_killed/0, both_killed/0, elixir/0, cyrillic/0, wide/1,
         others/1]).

%% Recursion, a tail-recursive loop, terms on the heap, children.
work(N) ->
    Sum = lists:sum(squares(N)),
    Fib = fib(12),
    Tree = insert_all(upto(N, []), nil),
    Size = size_of(Tree),
    Sums = [child(I) || I <- [1, 2, 3]],
    {Sum, Fib, Size, Sums}.

%% Calls that the compiler makes instructions of, and calls of these functions that it cannot.
instructions(Map) ->
    Self = self(),
    Get = maps:get(a, Map),
    {Self, Get, is_map(Map), maps:size(Map) + Get}.

applied(Map) ->
    {lists:map(fun erlang:is_map/1, [Map, Map]), instructions(Map)}.

squares(0) -> [];
squares(N) -> [N * N | squares(N - 1)].

upto(0, Acc) -> Acc;
upto(N, Acc) -> upto(N - 1, [(N * 7919) rem 1000 | Acc]).

fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).

insert_all([], T) -> T;
insert_all([X | Xs], T) -> insert_all(Xs, insert(X, T)).

insert(X, nil) -> {nil, X, nil};
insert(X, {L, Y, R}) when X < Y -> {insert(X, L), Y, R};
insert(X, {L, Y, R}) -> {L, Y, insert(X, R)}.

size_of(nil) -> 0;
size_of({L, _, R}) -> size_of(L) + 1 + size_of(R).

%% It has come to its end when this returns.
child(I) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({sum, add(squares(10 * I), 0)}) end),
    receive {'DOWN', Ref, process, Pid, {sum, Sum}} -> Sum end.

add([], Sum) -> Sum;
add([X | Xs], Sum) -> add(Xs, Sum + X).

%% So many milliseconds of work.
spin(Ms) ->
    spin_until(erlang:monotonic_time(millisecond) + Ms, 0).

spin_until(End, N) ->
    case erlang:monotonic_time(millisecond) >= End of
        true -> N;
        false -> spin_until(End, N + fib(8))
    end.

raise() ->
    error({badness, make_ref()}).

%% Does not end; its child outlives it.
wait(Name) ->
    register(Name, spawn(fun() -> receive stop -> ok end end)),
    receive never -> ok end.

%% Works, and does not return before it is let.
held(Name) ->
    work(50),
    register(Name, self()),
    receive stop -> ok end.

%% A server that squares when asked.
serve() ->
    receive {From, N} -> From ! {self(), squares(N)}, serve() end.

ask(Server, N) ->
    Server ! {self(), N},
    receive {Server, Squares} -> length(Squares) end.

%% A request of some kind: 4 calls of squares/1 before, those of the store, and
%% those of a server that is asked, 3 of them within its answer/1.
handle(Kind, Server) ->
    Before = squares(3),
    Stored = store(Kind),
    Server ! {self(), 2},
    receive {Server, N} -> length(Before) + Stored + N end.

%% 6 calls of squares/1 or 3.
store(Kind) when Kind =:= create; Kind =:= late ->
    length(squares(5));
store(_) ->
    length(squares(2)).

serve_kinds() ->
    receive {From, N} -> From ! {self(), answer(N)}, serve_kinds() end.

answer(N) ->
    length(squares(N)).

%% A function of one module and one of another, again and again.
in_turn() ->
    Set = sofs:set([a]),
    spawn(fun() -> in_turn(Set) end).

in_turn(Set) ->
    _ = array:is_array(Set),
    _ = sofs:type(Set),
    in_turn(Set).

%% A server does nothing for so long, from when somebody traces a process on.
suspended(Name, Traced, Ms) ->
    case is_pid(whereis(Name)) andalso is_traced(Traced) of
        true ->
            Server = whereis(Name),
            receive after 300 -> ok end,
            true = erlang:suspend_process(Server),
            receive after Ms -> ok end,
            true = erlang:resume_process(Server),
            ok;
        false ->
            receive after 5 -> suspended(Name, Traced, Ms) end
    end.

is_traced(P) ->
    case erlang:function_exported(trace, session_info, 1) of
        true -> trace:session_info(P) =/= [] andalso trace:session_info(P) =/= undefined;
        false -> erlang:trace_info(P, tracer) =/= {tracer, []}
    end.

leave(Name) ->
    Name ! stop,
    ok.

%% Plain processes that have spawned others, each with a name: when asked they have a
%% process of their own work, or spawn one that stays.
kin(Name, Children) ->
    From = self(),
    Pid = spawn(fun() ->
                        register(Name, self()),
                        [kin(N, C) || {N, C} <- Children],
                        From ! {self(), ready},
                        kin()
                end),
    receive {Pid, ready} -> ok end.

kin() ->
    receive
        {From, Name} when is_atom(Name) -> kin(Name, []), From ! {self(), ok}, kin();
        {From, N} -> From ! {self(), child(N)}, kin();
        stop -> ok
    end.

asked(Name, What) ->
    Pid = whereis(Name),
    Pid ! {self(), What},
    receive {Pid, Answer} -> Answer end.

%% So many processes, one after the other, each with calls.
many(0) -> ok;
many(N) ->
    {_, Ref} = spawn_monitor(?MODULE, spin, [0]),
    receive {'DOWN', Ref, process, _, _} -> many(N - 1) end.

%% What comes to kprof_counters of functions that somebody else traces, when they
%% are called by a process with its flags, such as this one.
their_events() ->
    Server = whereis(kprof_counters),
    true = erlang:suspend_process(Server),
    1 = erlang:trace_pattern({?MODULE, fib, 1}, [{'_', [], [{return_trace}]}], [local]),
    work(50),
    Ref = erlang:trace_delivered(self()),
    receive {trace_delivered, _, Ref} -> ok end,
    {messages, Messages} = process_info(Server, messages),
    1 = erlang:trace_pattern({?MODULE, fib, 1}, false, [local]),
    true = erlang:resume_process(Server),
    [M || M <- Messages, element(1, M) =:= trace].

%% Who is to clean up behind kprof_counters; there is another one when this is back.
sentry_killed() ->
    [Sentry] = Before = watched(),
    exit(Sentry, kill),
    sentry_is_back(Before).

%% Nobody is left who cleans up.
both_killed() ->
    [Sentry] = watched(),
    true = erlang:suspend_process(Sentry),
    Server = whereis(kprof_counters),
    exit(Server, kill),
    exit(Sentry, kill),
    [begin
         Ref = erlang:monitor(process, P),
         receive {'DOWN', Ref, process, P, _} -> ok end
     end || P <- [Server, Sentry]],
    ok.

sentry_is_back(Before) ->
    case watched() of
        [_] = Now when Now =/= Before -> ok;
        _ -> receive after 5 -> sentry_is_back(Before) end
    end.

watched() ->
    {monitors, Monitors} = process_info(whereis(kprof_counters), monitors),
    [P || {process, P} <- Monitors, is_pid(P), node(P) =:= node()].

%% A module with a name of Elixir's, compiled.
elixir() ->
    compiled(["-module('Elixir.MyApp.Repo')", "-export([all/2])", "all(A, _) -> A"]).

%% A function's name may have characters that are not in Latin-1, a module's not.
cyrillic() ->
    compiled(["-module(it_store)", "-export(['облік'/1])",
              "'облік'(0) -> 0; 'облік'(N) -> 1 + 'облік'(N - 1)"]).

%% So many functions, f1/1 and on.
wide(N) ->
    compiled(["-module(it_wide)", "-compile(export_all)" |
              [io_lib:format("f~b(X) -> X", [I]) || I <- lists:seq(1, N)]]).

%% So many modules.
others(N) ->
    [compiled([io_lib:format("-module(it_other~b)", [I]), "-export([f/0])", "f() -> ok"]) || I <- lists:seq(1, N)].

compiled(Lines) ->
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(lists:flatten(Line) ++ "."),
                 {ok, Parsed} = erl_parse:parse_form(Tokens),
                 Parsed
             end || Line <- Lines],
    {ok, Module, Beam} = compile:forms(Forms, []),
    {Module, Beam}.
