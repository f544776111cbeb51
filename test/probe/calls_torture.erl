%% calls_torture - the probe of full traces by itself, in a VM that it must not
%% hurt. What it shares with kprofd's is in probe_torture.
%%
%%     erl -noinput -pa GEN -s calls_torture main -extra LIBRARY CYCLES
-module(calls_torture).

-export([main/0]).
-export([work/1, leaf/1, tail/1]).

-define(P, kprof_calls_probe).
-define(FLAGS, [call, return_to, arity, running, procs, garbage_collection, set_on_spawn]).
-define(SPEC, [{'_', [], [{message, {{kprof_calls, {caller}}}}]}]).
%% Kinds of records.
-define(CALL, 17).
-define(RETURN_TO, 18).
-define(IN, 19).
-define(OUT, 20).
-define(GC_START, 21).
-define(GC_END, 22).
-define(SPAWN, 23).
-define(EXIT, 24).

main() ->
    [Library, Cycles] = init:get_plain_arguments(),
    put(library, filename:absname(Library)),
    Code = try
               [begin Fun(), unload(), io:format("ok    ~s~n", [Name]) end || {Name, Fun} <- tests(list_to_integer(Cycles))],
               0
           catch Class:Reason:Stack ->
                   io:format("~p: ~0P~n~P~n", [Class, Reason, 40, Stack, 60]),
                   1
           end,
    halt(Code).

tests(Cycles) ->
    [{"full traces: every event, in order", fun in_order/0},
     {"full traces: the one who drains is not in them", fun owner/0},
     {"full traces: other people's patterns are not in them", fun theirs/0},
     {"full traces: a full ring ends them, for all", fun full/0},
     {"full traces: more threads than rings", fun ringless/0},
     {"full traces: more functions than have a slot", fun many_functions/0},
     {"full traces: beside kprofd's probe", fun beside/0},
     {"full traces: the one who drains is killed", fun killed/0},
     {"full traces: loaded and unloaded while calls go on", fun() -> cycles(Cycles) end}].

%% ---- what is traced ----

work(0) -> done;
work(N) -> {leaf(N), work(N - 1)}.

leaf(N) -> tail(N).

tail(N) -> lists:seq(1, N rem 20).

forever() ->
    work(100),
    {Pid, Ref} = spawn_monitor(fun() -> work(3) end),
    receive {'DOWN', Ref, process, Pid, _} -> forever() end.

%% ---- the probe ----

load(MaxBytes) -> load(MaxBytes, 16).

load(MaxBytes, Threads) ->
    unload(),
    {module, ?P} = code:load_binary(?P, "kprof_calls_probe.beam", beam(?P)),
    ok = ?P:load(get(library), Threads, MaxBytes),
    ok = ?P:start().

beam(Module) ->
    {ok, Beam} = file:read_file(code:where_is_file(atom_to_list(Module) ++ ".beam")),
    Beam.

unload() ->
    disarm(),
    [begin code:purge(?P), code:delete(?P), code:purge(?P) end || erlang:module_loaded(?P)],
    ok.

arm() -> arm(new_processes).

arm(Which) ->
    {Module, State} = ?P:tracer(),
    erlang:trace_pattern({?MODULE, '_', '_'}, ?SPEC, [local]),
    erlang:trace(Which, true, [{tracer, Module, State} | ?FLAGS]),
    ok.

disarm() ->
    erlang:trace_pattern({'_', '_', '_'}, false, [local]),
    erlang:trace(all, false, [all]).

%% {Dropped, [{Kind, Fn, Caller, Time, Pid, Other}], by time} of all there is; Fn
%% and Caller are binaries of the external format.
drain() -> drain([]).

drain(Got) ->
    {_, _, _, Dropped, _, _, More, Chunks} = ?P:drain(8192),
    case More of
        true -> drain(Got ++ Chunks);
        false -> {Dropped, lists:keysort(4, lists:append(rings(Got ++ Chunks, #{})))}
    end.

%% What slots stand for is kept from chunk to chunk, for each ring.
rings([], _) -> [];
rings([<<16#6C, 3, Ring:16/little, Words:32/little, Records/binary>> | More], Slots) ->
    equal(8 * Words, byte_size(Records)),
    {Events, Now} = records(Records, maps:get(Ring, Slots, #{}), []),
    [Events | rings(More, Slots#{Ring => Now})].

records(<<>>, Slots, Events) ->
    {lists:reverse(Events), Slots};
records(<<9, 0, Slot:16/little, Bytes:16/little, _:16, _/binary>> = All, Slots, Events) ->
    N = (8 + Bytes + 47) div 48 * 48,
    <<Definition:N/binary, More/binary>> = All,
    Term = binary_to_term(<<131, (binary:part(Definition, 8, Bytes))/binary>>),
    records(More, Slots#{Slot => Term}, Events);
records(<<?SPAWN, 1, Fn:16/little, _:32, Time:64/signed-little, Pid:64/little, _:64, Child:64/little, _:64, More/binary>>,
        Slots, Events) ->
    records(More, Slots, [{?SPAWN, map_get(Fn, Slots), none, Time, Pid, Child} | Events]);
records(<<Kind, 4, Fn:16/little, Caller:16/little, _:16, Time:64/signed-little, Pid:64/little, More/binary>>,
        Slots, Events) when Kind >= ?CALL, Kind =< ?EXIT ->
    Name = fun(0) -> none; (Slot) -> map_get(Slot, Slots) end,
    records(More, Slots, [{Kind, Name(Fn), Name(Caller), Time, Pid, 0} | Events]).

in_process(Fun) ->
    {Pid, Ref} = spawn_monitor(Fun),
    receive {'DOWN', Ref, process, Pid, Reason} -> {Pid, Reason} end.

equal(Same, Same) -> ok;
equal(Want, Got) -> error({wanted, Want, got, Got}).

kinds(Kinds, Events) ->
    [{K, F, C} || {K, F, C, _, _, _} <- Events, lists:member(K, Kinds)].

number(Pid) ->
    [_, Number, Serial] = string:lexemes(pid_to_list(Pid), "<.>"),
    list_to_integer(Serial) bsl 32 bor list_to_integer(Number).

%% ---- tests ----

in_order() ->
    load(64 bsl 20),
    arm(),
    Self = self(),
    {Parent, done} = in_process(fun() ->
                                        work(2),
                                        {Child, done} = in_process(fun() -> garbage_collect(), leaf(1), exit(done) end),
                                        Self ! {child, Child},
                                        exit(done)
                                end),
    Child = receive {child, Pid} -> Pid end,
    disarm(),
    {0, Events} = drain(),
    Of = fun(P) -> [E || E <- Events, element(5, E) =:= number(P)] end,
    Fn = fun(F, A) -> {?MODULE, F, A} end,
    {Work, Leaf, Tail} = {Fn(work, 1), Fn(leaf, 1), Fn(tail, 1)},
    [{?CALL, _, _}, {?CALL, Work, Begins} | Rest] = kinds([?CALL, ?RETURN_TO], Of(Parent)),
    equal([{?CALL, Leaf, Work}, {?CALL, Tail, Work}, {?RETURN_TO, Work, none},
           {?CALL, Work, Work},
           {?CALL, Leaf, Work}, {?CALL, Tail, Work}, {?RETURN_TO, Work, none},
           {?CALL, Work, Work}, {?RETURN_TO, Work, none}, {?RETURN_TO, Work, none}, {?RETURN_TO, Begins, none}],
          lists:sublist(Rest, 11)),
    equal([number(Child)], [Other || {?SPAWN, {erlang, apply, 2}, _, _, _, Other} <- Of(Parent)]),
    [[{?EXIT, _, _, _, _, _}] = [E || {?EXIT, _, _, _, _, _} = E <- Of(P)] || P <- [Parent, Child]],
    equal([], kinds([?SPAWN], Of(Child))),
    Gc = kinds([?GC_START, ?GC_END], Of(Child)),
    true = length(Gc) >= 2 andalso length(Gc) rem 2 =:= 0,
    [{?IN, _, _} | _] = kinds([?IN, ?OUT], Of(Child)).

owner() ->
    load(64 bsl 20),
    arm(all),
    work(100),
    {_, done} = in_process(fun() -> work(10), exit(done) end),
    disarm(),
    {0, Events} = drain(),
    equal([], [E || E <- Events, element(5, E) =:= number(self())]),
    true = length(kinds([?CALL], Events)) >= 31.

%% All events of a process go to its tracer, whoever had the function traced.
theirs() ->
    load(64 bsl 20),
    arm(),
    [erlang:trace_pattern({lists, seq, 2}, [{'_', [], Spec}], [local])
     || Spec <- [[], [{message, {caller}}], [{message, {{caller, {caller}}}}]]],
    {_, done} = in_process(fun() -> work(10), exit(done) end),
    {0, Events} = drain(),
    equal([], [E || {?CALL, {lists, _, _}, _} = E <- kinds([?CALL], Events)]).

%% What is there has no gap: all of it is older than all that is missing.
full() ->
    load(1),
    #{records := 1024} = ?P:info(),
    arm(),
    Workers = [spawn_monitor(fun() -> [work(100) || _ <- lists:seq(1, 100)], exit(done) end) || _ <- lists:seq(1, 4)],
    [receive {'DOWN', Ref, process, Pid, done} -> ok end || {Pid, Ref} <- Workers],
    {Dropped, Events} = drain(),
    true = Dropped >= 1 andalso Dropped =< erlang:system_info(schedulers_online),
    #{active := false, dropped := Dropped} = ?P:info(),
    true = length(Events) > 900,
    [no_gap([E || {K, _, _, _, P, _} = E <- Events, P =:= number(Pid), K < ?IN]) || {Pid, _} <- Workers],
    {Dropped, []} = drain().

%% leaf calls tail, which returns to work.
no_gap([{?CALL, {_, leaf, 1}, _, _, _, _} | Rest]) ->
    case Rest of
        [{?CALL, {_, tail, 1}, _, _, _, _}, {?RETURN_TO, {_, work, 1}, _, _, _, _} | More] -> no_gap(More);
        Short -> true = length(Short) =< 1
    end;
no_gap([_ | More]) -> no_gap(More);
no_gap([]) -> ok.

ringless() ->
    load(64 bsl 20, 1),
    arm(),
    Online = erlang:system_info(schedulers_online),
    Workers = [spawn_opt(fun() -> work(100), exit(done) end, [monitor, {scheduler, S}]) || S <- lists:seq(1, Online)],
    [receive {'DOWN', Ref, process, Pid, done} -> ok end || {Pid, Ref} <- Workers],
    {Dropped, _} = drain(),
    equal(Online > 1, Dropped > 0),
    equal(Dropped =:= 0, maps:get(active, ?P:info())).

%% Slots change their meaning, again and again.
many_functions() ->
    load(64 bsl 20),
    Modules = [begin
                   Name = list_to_atom("calls_torture_" ++ integer_to_list(I)),
                   Forms = [{attribute, 1, module, Name}, {attribute, 1, compile, export_all}
                            | [{function, 1, f(N), 0, [{clause, 1, [], [], [{atom, 1, f(N)}]}]} || N <- lists:seq(1, 500)]],
                   {ok, Name, Beam} = compile:forms(Forms, [nowarn_export_all]),
                   {module, Name} = code:load_binary(Name, "none", Beam),
                   Name
               end || I <- lists:seq(1, 5)],
    {Module, State} = ?P:tracer(),
    [erlang:trace_pattern({M, '_', '_'}, ?SPEC, [local]) || M <- Modules],
    erlang:trace(new_processes, true, [call, arity, {tracer, Module, State}]),
    {_, done} = in_process(fun() -> [M:F() || _ <- [1, 2], M <- Modules, F <- [f(N) || N <- lists:seq(1, 500)]],
                                    exit(done)
                           end),
    {0, Events} = drain(),
    equal([{M, f(N), 0} || _ <- [1, 2], M <- Modules, N <- lists:seq(1, 500)], [F || {?CALL, F, _} <- kinds([?CALL], Events)]),
    [begin code:purge(M), code:delete(M), code:purge(M) end || M <- Modules].

f(N) -> list_to_atom("f" ++ integer_to_list(N)).

beside() ->
    load(16 bsl 20),
    Other = filename:join(filename:dirname(get(library)), "kprof_probe"),
    {module, kprof_probe} = code:load_binary(kprof_probe, "kprof_probe.beam", beam(kprof_probe)),
    ok = kprof_probe:load(Other, 16, 1 bsl 20),
    ok = kprof_probe:start(),
    arm(),
    {_, done} = in_process(fun() -> work(10), exit(done) end),
    {0, [_ | _]} = drain(),
    {_, _, 0, 0, 0, 0, false, []} = kprof_probe:drain(100),
    unload(),
    #{active := true} = kprof_probe:info(),
    code:purge(kprof_probe), code:delete(kprof_probe), code:purge(kprof_probe).

killed() ->
    Library = get(library),
    Workers = [spawn_link(fun forever/0) || _ <- [1, 2, 3]],
    [begin
         {Pid, Ref} = spawn_monitor(fun() ->
                                            put(library, Library),
                                            load(1 bsl 20),
                                            [arm(W) || W <- Workers],
                                            drain_forever()
                                    end),
         timer:sleep(I rem 12),
         exit(Pid, kill),
         receive {'DOWN', Ref, process, Pid, _} -> ok end,
         unload()
     end || I <- lists:seq(1, 20)],
    [begin unlink(W), exit(W, kill) end || W <- Workers],
    ok.

drain_forever() ->
    ?P:drain(8192),
    drain_forever().

%% Half of the times flags are left to the VM, which finds no tracer any more.
cycles(N) ->
    Workers = [spawn_link(fun forever/0) || _ <- [1, 2, 3, 4]],
    [begin
         load(1 bsl 20),
         [arm(W) || W <- Workers],
         timer:sleep(I rem 4),
         {_, _} = drain(),
         I rem 2 =:= 0 andalso begin code:purge(?P), code:delete(?P), code:purge(?P) end,
         unload()
     end || I <- lists:seq(1, N)],
    [begin unlink(W), exit(W, kill) end || W <- Workers],
    ok.
