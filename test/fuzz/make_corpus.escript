#!/usr/bin/env escript
%% -*- coding: utf-8 -*-
%% Makes the seeds in test/fuzz/corpus/{term,trace,frame} with a real VM:
%%     escript test/fuzz/make_corpus.escript test/fuzz/corpus
%% The unit tests know what is in them.
-mode(compile).

main([Dir]) ->
    terms(filename:join(Dir, "term")).

terms(Dir) ->
    Port = open_port({spawn, "true"}, []),
    Put = fun(Name, T) -> put_file(Dir, Name, term_to_binary(T)) end,
    Put("atoms", [ok, 'hello world', 'été', '日本', 'end', '']),
    Put("ints", [0, 255, 256, -1, 2147483647, -2147483648, 2147483648,
                 9223372036854775807, -9223372036854775808,
                 9223372036854775808]),
    Put("hugeint", 1 bsl 2100),
    Put("floats", [0.0, 1.5, -1.0e-7, 0.1]),
    Put("binaries", [<<>>, <<"text">>, <<1,2,3>>, <<5:3>>, <<255, 1:1>>]),
    Put("strings", ["abc", [1,2,3], [1000], [1,2|3]]),
    Put("map", #{a => 1, <<"k">> => #{}}),
    Put("bigtuple", list_to_tuple(lists:seq(1, 300))),
    Put("idents", [pid(0, 0), Port, make_ref(), fun erlang:self/0,
                   fun() -> Port end]).

%% A pid of this node with numbers that are always the same.
pid(Id, Serial) ->
    list_to_pid(lists:flatten(io_lib:format("<0.~b.~b>", [Id, Serial]))).

put_file(Dir, Name, Bytes) ->
    Path = filename:join(Dir, Name),
    ok = filelib:ensure_dir(Path),
    ok = file:write_file(Path, Bytes).
