%% it_counted - work whose calls, and whose words, are the same every time: in
%% one process, in processes that it spawns, and in ones that run already.
-module(it_counted).

-export([work/1, spin/1, raise/0, wait/1, serve/0, ask/2, leave/1]).

%% Recursion, a tail-recursive loop, terms on the heap, children.
work(N) ->
    Sum = lists:sum(squares(N)),
    Fib = fib(12),
    Tree = insert_all(upto(N, []), nil),
    Size = size_of(Tree),
    Sums = [child(I) || I <- [1, 2, 3]],
    {Sum, Fib, Size, Sums}.

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

%% A server that squares when asked.
serve() ->
    receive {From, N} -> From ! {self(), squares(N)}, serve() end.

ask(Server, N) ->
    Server ! {self(), N},
    receive {Server, Squares} -> length(Squares) end.

leave(Name) ->
    Name ! stop,
    ok.
