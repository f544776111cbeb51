#!/usr/bin/env escript
%% Makes seeds for fuzz_native with a real VM and the probe, from the top of
%% the tree:
%%     escript test/fuzz/make_native.escript build test/fuzz/corpus/native
-module(make_native).
-mode(compile).
-export([handle/2, query/2, fail/1, deep/1, wide/1]).

main([Build, Dir]) ->
    true = code:add_patha(filename:join(Build, "gen")),
    ok = kprof_probe:load(filename:absname(filename:join(Build, "kprof_probe")), 8, 4 bsl 20),
    ok = kprof_probe:start(),
    Label = {'bor', {'band', {set_tcw, {'+', {get_tcw}, 1}}, 16#FFFF}, 16#1000000000000},
    pattern(handle, 2, [{['$1', '_'], [], [{message, {{ {{'$1', <<"/a">>}}, {caller}, 4, {get_seq_token},
                                                     {set_seq_token, label, Label}, [], {get_seq_token}}}},
                                          {exception_trace}]}]),
    Message = {message, {{[], {get_seq_token}, {caller}}}},
    [pattern(F, A, [{'_', [{is_seq_trace}], [Message, {exception_trace}]}])
     || {F, A} <- [{query, 2}, {fail, 1}, {deep, 1}]],
    pattern(wide, 1, [{['$1'], [{is_seq_trace}], [{message, {{'$1', {get_seq_token}, {caller}}}}]}]),
    {Module, State} = kprof_probe:tracer(),
    erlang:trace(new_processes, true, [call, arity, return_to, {tracer, Module, State}]),
    Run = fun(Op) -> {_, Ref} = spawn_monitor(fun() -> ?MODULE:handle(Op, 3) end),
                     receive {'DOWN', Ref, _, _, _} -> ok end
          end,
    Run(create),
    put_seed(Dir, "one_request", [chunks()]),
    [Run(Op) || Op <- [read, <<"update">>, {get, 7}, "list", 1.5, 1 bsl 40, create]],
    put_seed(Dir, "identities", [chunks()]),
    [?MODULE:handle(create, N) || N <- [1, 2]],
    First = chunks(),
    Run(delete),
    put_seed(Dir, "two_batches", [First, chunks()]),
    %% With all messages of theirs.
    pattern(handle, 2, [{'_', [], [{message, {{ [], {caller}, 1, {get_seq_token}, {set_seq_token, label, Label}, [],
                                                {get_seq_token}}}},
                                   {set_seq_token, send, true}, {set_seq_token, 'receive', true}]}]),
    seq_trace:set_system_tracer({Module, State}),
    Run(create),
    Run(read),
    seq_trace:set_system_tracer(false),
    put_seed(Dir, "messages", [chunks()]).
    full_trace(Build, Dir).

%% Of a process that spawns others, with all that happens to it.
full_trace(Build, Dir) ->
    erlang:trace(all, false, [all]),
    ok = kprof_calls_probe:load(filename:absname(filename:join(Build, "kprof_calls_probe")), 8, 4 bsl 20),
    ok = kprof_calls_probe:start(),
    [pattern(F, A, [{'_', [], [{message, {{kprof_calls, {caller}}}}]}]) || {F, A} <- [{handle, 2}, {query, 2}, {deep, 1}]],
    {Module, State} = kprof_calls_probe:tracer(),
    erlang:trace(new_processes, true, [call, arity, return_to, running, procs, garbage_collection, set_on_spawn,
                                       {tracer, Module, State}]),
    {_, Ref} = spawn_monitor(fun() -> ?MODULE:handle(read, 3), garbage_collect() end),
    receive {'DOWN', Ref, _, _, _} -> ok end,
    put_seed(Dir, "full_trace", [element(8, kprof_calls_probe:drain(8192))]).

pattern(F, A, Spec) ->
    1 = erlang:trace_pattern({?MODULE, F, A}, Spec, [local]).

handle(Op, N) ->
    Self = self(),
    spawn(fun() -> ?MODULE:query(Op, N), ?MODULE:wide({Op, N}), Self ! done end),
    receive done -> ok end,
    catch ?MODULE:deep(N),
    ok.

query(_, 0) -> ok;
query(Op, N) -> ?MODULE:query(Op, N - 1).
deep(N) -> ?MODULE:fail(N) + 1.
fail(N) -> error(N).
wide(X) -> X.

chunks() ->
    element(8, kprof_probe:drain(8192)).

%% The byte, the length and the chunk; the last of a batch ends it.
put_seed(Dir, Name, Batches) ->
    Path = filename:join(Dir, Name),
    ok = filelib:ensure_dir(Path),
    ok = file:write_file(Path, [seed(Batch) || Batch <- Batches, Batch =/= []]).

seed(Chunks) ->
    [[case N of 1 -> 2; _ -> 0 end, <<(byte_size(C)):16>>, C]
     || {N, C} <- lists:zip(lists:seq(length(Chunks), 1, -1), Chunks)].
