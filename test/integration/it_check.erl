%% it_check - functions that a tiers.conf may name by mistake, and some that are right.
-module(it_check).

-export([start/2, spin/0, patterns/0, counting/0]).
-export([request/2, loop/1, walk/2, idle/1, item/1, sum/2, crowd/2, down/1, slow/1, push/1]).

%% A process that makes a call of each kind every Ms, until it is killed.
start(Kind, Ms) ->
    spawn(fun() -> run(Kind, Ms) end).

run(loop, Ms) -> ?MODULE:loop(Ms);
run(Kind, Ms) ->
    receive after Ms -> ok end,
    _ = work(Kind),
    run(Kind, Ms).

work(request) -> ?MODULE:request(#{method => <<"GET">>, path => <<"/secret">>, more => 1}, {opts, self(), 4711});
work(walk) -> ?MODULE:walk(20, 0);
work(crowd) -> ?MODULE:crowd(150, 0);
work(sum) -> ?MODULE:request(sum, 10);
work(down) -> {?MODULE:down(5)};
work(push) -> ?MODULE:push(1);
work(long) -> spawn(?MODULE, slow, [3000]);
%% Its caller is below it on the stack: it is no server.
work(slow) -> spawn(fun() -> {?MODULE:slow(20000)} end).

spin() -> spin().

%% What anybody has set on these functions, where there are no sessions.
patterns() ->
    [{F, How} || {F, A} <- ?MODULE:module_info(functions), How <- [traced, meta, call_count],
                 {_, Is} <- [erlang:trace_info({?MODULE, F, A}, How)], not lists:member(Is, [false, []])].

%% Is an agent counting calls for a check?  A process of its own waits for the end of that.
counting() ->
    lists:any(fun(P) ->
                      case process_info(P, current_stacktrace) of
                          {_, Stack} -> [F || {kprof_agent, F, _, _} <- Stack, re:run(atom_to_list(F), "loops") =/= nomatch] =/= [];
                          undefined -> false
                      end
              end, processes()).

%% A request with one call of a tier; of a kind that has a recursive one.
request(sum, N) -> ?MODULE:sum(N, 1) + 1;
request(_, _) -> ?MODULE:item(1) + 1.

%% Only hands on.
push(N) ->
    spawn(fun() -> receive after 5 -> ?MODULE:item(N) end end),
    ok.

%% A server: never returns.
loop(Ms) ->
    receive stop -> ok
    after Ms -> ?MODULE:loop(Ms)
    end.

%% Calls itself, and returns.
walk(0, Sum) -> receive after 10 -> Sum end;
walk(N, Sum) -> ?MODULE:walk(N - 1, Sum) + N.

%% A request whose tier is in a loop.
crowd(0, Sum) -> Sum;
crowd(N, Sum) -> items(N, Sum).

items(0, Sum) -> Sum;
items(N, Sum) -> items(N - 1, Sum + ?MODULE:item(N)).

item(N) -> N * 2.

sum(0, Sum) -> Sum;
sum(N, Sum) -> ?MODULE:sum(N - 1, Sum) + 1.

%% Calls itself by tail calls.
down(0) -> ok;
down(N) -> ?MODULE:down(N - 1).

%% A request that lasts longer than anybody looks.
slow(Ms) ->
    receive stop -> ok
    after Ms -> ok
    end.

idle(X) -> X.
