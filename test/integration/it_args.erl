%% it_args - functions whose arguments are looked at, and arguments that nobody
%% would want to have copied.
-module(it_args).

-export([call_all/0, take/1, three/3, nine/9, none/0, request/2, hostile/0, grew/0, parts/0]).

-define(HUGE, 10000000).        % elements
-define(BYTES, 268435456).

take(_) -> ok.
three(_, _, _) -> ok.
nine(_, _, _, _, _, _, _, _, _) -> ok.
none() -> ok.

request(What, Id) -> take({What, Id}), ok.

%% One of each kind; what is shown of them is in trace_tests.
call_all() ->
    Text = list_to_binary(lists:duplicate(300, $x)),
    [take(V) || V <- [an_atom, 'An atom', false, true, -7, 1 bsl 62, 1 bsl 100, 1.5, <<"text">>, <<1:3>>, Text,
                      binary:part(Text, 1, 5), [], "a string", "a string that is long", [1, a, <<"b">>], [a | b],
                      [{k, 1}, {k, {2, 3}}, [[x]], a], {}, {a, {b, {c}}, [x, {y}], #{}}, {1, 2, 3, 4, 5, 6}, #{a => 1},
                      #{'__struct__' => my_struct, a => 1}, #{'__struct__' => [no], a => 1}, fun() -> Text end,
                      make_ref(), <<0:(8 * 100000)>>, "\e[31m", <<"a\nb">>, 'N\x{20ac}']],
    three(1, {self(), [alias]}, hd(erlang:ports())),
    nine(1, 2, 3, 4, 5, 6, 7, 8, 9),
    none().

%% Each of them many times, without a copy of any; how much more memory there was
%% meanwhile is kept for grew/0.
hostile() ->
    List = lists:seq(1, ?HUGE),
    Binary = binary:copy(<<"x">>, ?BYTES),
    Values = [List, Binary, binary:part(Binary, 5, 20), deep(1000000, []), fun() -> List end, fun() -> Binary end,
              list_to_tuple(List), {List, {List, [List | List]}}, maps:from_keys(lists:seq(1, 100000), List),
              [Binary, {Binary, Binary}, Binary], bushy(60, []), 1 bsl 1000000, make_ref(), binary:part(Binary, 1, 60000),
              <<Binary:1000/binary, 1:1>>, #{'__struct__' => List}],
    watched(),
    [begin take(V), three(V, V, V) end || _ <- lists:seq(1, 200), V <- Values],
    length(Values).

watched() ->
    [unregister(it_args_watcher) || whereis(it_args_watcher) =/= undefined],
    Before = memory(),
    register(it_args_watcher, spawn(fun() -> watch(Before, Before, 0) end)).

deep(0, X) -> X;
deep(N, X) -> deep(N - 1, {[X]}).

%% Two words each time it is shared, and without end if it is not.
bushy(0, X) -> X;
bushy(N, X) -> bushy(N - 1, [X | X]).

memory() -> erlang:memory(total).

watch(Before, Most, MostTracer) ->
    Tracer = case whereis(kprof_tracer) of
                 undefined -> 0;
                 P -> case process_info(P, memory) of {memory, M} -> M; _ -> 0 end
             end,
    receive {grew, From} -> From ! {grew, Most - Before, MostTracer}
    after 2 -> watch(Before, max(Most, memory()), max(MostTracer, Tracer))
    end.

grew() ->
    it_args_watcher ! {grew, self()},
    receive {grew, Bytes, Tracer} -> {Bytes, Tracer} end.

%% Small parts of large binaries, which are kept as long as these wait.
parts() ->
    watched(),
    Large = binary:copy(<<"x">>, 1000000),
    [take(binary:part(binary:copy(Large), 7, 100)) || _ <- lists:seq(1, 2000)],
    ok.
