#!/usr/bin/env escript
%% -*- coding: utf-8 -*-
%% Makes seeds for the decoders with a real VM:
%%     escript test/fuzz/make_corpus.escript test/fuzz
%% The terms are known to test_term.c.  The traces are real trace messages,
%% different in each run; what is in them is written by Erlang itself to
%% expect/, and test_trace.c compares that with what it reads.
-module(sample).
-mode(compile).
-export([handle/2, query/2, render/1, worker/0, exact/1, raise/1, clear/0,
         set/0]).

main([Dir]) ->
    terms(filename:join([Dir, "corpus", "term"])),
    profiles(filename:join([Dir, "corpus", "profile"])),
    shapes(filename:join([Dir, "corpus", "shape"])),
    stacks(filename:join([Dir, "corpus", "stacks"])),
    lists:foreach(fun(T) -> trace(Dir, T) end, traces()).

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

%% A byte for the arity, and what src/config/spec.h describes.
shapes(Dir) ->
    Bare = fun(T) -> <<131, Bytes/binary>> = term_to_binary(T), Bytes end,
    Put = fun(Name, Arity, Args) -> put_file(Dir, Name, [Arity, Bare(list_to_tuple(Args))]) end,
    Leaf = fun(Type) -> {Type, false, false, false} end,
    Some = fun(N, First) -> list_to_tuple(First ++ lists:duplicate(N - length(First), false)) end,
    Plain = fun(Type) -> {Leaf(Type), false, false, false, false, false} end,
    Put("none", 0, []),
    Put("plain", 12, [Plain(T) || T <- [0, 1, 2, 3, 4, 7, 11, 12]]),
    Put("tuple", 1, [{{5, 7, false, false}, user, Some(5, [Leaf(1), {4, false, false, {<<"a\e">>}}]), false, false, false}]),
    Put("list", 2, [{Leaf(11), false, false, false, {5, 2, false, false}, false}, Plain(12)]),
    %% 2 keys of the file, and 20 others
    Put("map", 1, [{{6, false, 9, false}, false, false, 'Elixir.Plug.Conn', false,
                    Some(22, [{1, false, false, {get}}, {6, false, 3, false}])}]).

%% Two bytes: how it is shown, and where the rows end (fuzz_profile.c).
profiles(Dir) ->
    Bare = fun(T) -> <<131, Bytes/binary>> = term_to_binary(T), Bytes end,
    Put = fun(Name, How, Rows, End) ->
                  R = Bare(Rows),
                  put_file(Dir, Name, [How, byte_size(R), R, Bare(End)])
          end,
    [P, Q] = [pid(7, 0), pid(8, 2)],
    Put("total", 4, [{lists, seq, 2, 10, 40, []},
                     {'Elixir.A.B', all, 0, 1, 7, []}],
        #{elapsed => 1000000000, gone => 0, merged => 0, names => []}),
    Put("process", 16#11, [{m, f, 1, 6, 100,
                            [{P, 1, 50}, {Q, 3, 30}, {others, 2, 20}]}],
        #{elapsed => 5, gone => 1, merged => 2, names => [{Q, server}]}),
    Put("memory", 16#6a, [{m, '\e[2J', 255, 6, 100, [{P, 1, 50}]},
                          {m, g, 0, 0, 0, []}], #{names => [{P, 'été'}]}),
    Put("nothing", 0, [], #{}).

%% What include/kprofd/stacks.h describes.
stacks(Dir) ->
    Put = fun(Name, T) -> put_file(Dir, Name, term_to_binary(T)) end,
    Sample = fun(Status, Frames) ->
                     {pid(7, 1), (1 bsl 58) + 77, -576460752303423488, 70000, 5000000, Status,
                      Frames, 3}
             end,
    Put("states", {kprof_stacks, -576460751000000000, {10, 40, 5, 1, 0, 123456},
                   [Sample(running, [{lists, seq, 2, 12}, {'Elixir.My.Repo', 'all!', 1, 0}]),
                    Sample(waiting, [{gen, do_call, 4, 237}, {gen_server, call, 3, 0}, {db, query, 2, 9}]),
                    Sample(waiting, [{prim_inet, recv0, 3, 0}, {'it is', 'a;b', 255, 1}]),
                    Sample(garbage_collecting, []),
                    Sample(runnable, not_seen)]}),
    Put("none", {kprof_stacks, 0, {0, 0, 0, 0, 0, 0}, []}),
    Put("deep", {kprof_stacks, 1, {1, 1, 1, 0, 0, 1},
                 [Sample(exiting, [{m, f, N, N} || N <- lists:seq(1, 64)])]}),
    Put("too_deep", {kprof_stacks, 1, {1, 1, 1, 0, 0, 1},
                     [Sample(exiting, [{m, f, N, N} || N <- lists:seq(1, 65)])]}),
    Put("groups", {kprof_groups, [{1, <<"kernel_sup">>, kernel}, {2, <<"été\e[2J"/utf8>>, undefined}]}),
    Put("no_group", {kprof_groups, [{0, <<"x">>, kernel}]}),
    Put("another", {kprof_events, 1, 2, 3, 4, []}).

%% A pid of this node with numbers that are always the same.
pid(Id, Serial) ->
    list_to_pid(lists:flatten(io_lib:format("<0.~b.~b>", [Id, Serial]))).

put_file(Dir, Name, Bytes) ->
    Path = filename:join(Dir, Name),
    ok = filelib:ensure_dir(Path),
    ok = file:write_file(Path, Bytes).

%% An application: a request is handled by one process, which asks another.
handle(Op, Worker) ->
    Worker ! {self(), Op},
    Res = receive {Worker, R} -> R end,
    Page = ?MODULE:render(Res),
    catch ?MODULE:raise(Page),
    {page, Page}.

worker() ->
    receive
        {From, Op} ->
            Res = ?MODULE:query(Op, 1),
            From ! {self(), Res},
            worker()
    end.

query(Op, N) -> {Op, N + length(pid_to_list(self()))}.
render(Res) -> tuple_size(Res).
raise(P) -> error({bad, P}).
exact(0) -> error(zero);
exact(N) -> N * 2.

clear() -> ok.
set() -> ok.

tier() ->
    [{[create, '_'], [{is_seq_trace}],
      [{message, {{create, {get_seq_token}, {caller}}}}]},
     {'_', [{is_seq_trace}], [{message, {{[], {get_seq_token}, {caller}}}}]}].

entry(Label) ->
    Set = fun(Id) ->
        [{message, {{Id, {caller}, 10, {get_seq_token},
                     {set_seq_token, label, Label},
                     {set_seq_token, sequential_trace_token, []},
                     {get_seq_token}}}},
         {set_seq_token, send, true}]
    end,
    [{['$1', '_'], [{is_atom, '$1'}], Set('$1')},
     {'_', [], Set(undefined)}].

traces() ->
    [{"small_labels", fun() -> request(1000) end},
     {"wide_labels", fun() -> request((1 bsl 57) + 12345) end},
     {"exact", fun exact_calls/0},
     {"foreign_tokens", fun foreign_tokens/0},
     {"clears", fun clears/0},
     {"empty", fun() -> ok end}].

request(Label) ->
    W = worker_of(Label),
    lists:foreach(fun(Op) -> handle_and_go_on(Op, W) end,
                  [create, {odd, <<"op">>}, update]).

worker_of(Label) ->
    pattern(handle, 2, entry(Label)),
    pattern(query, 2, tier()),
    pattern(render, 1, tier()),
    pattern(raise, 1, tier()),
    W = spawn(?MODULE, worker, []),
    flags(W),
    W.

handle_and_go_on(Op, W) ->
    {page, _} = ?MODULE:handle(Op, W),
    ok.

exact_calls() ->
    pattern(exact, 1, [{'_', [], [{exception_trace},
        {message, {{exact, {get_seq_token}, {caller}}}}]}]),
    10 = ?MODULE:exact(5),
    catch ?MODULE:exact(0),
    ok.

%% Tokens that are somebody else's: no labels of ours.
foreign_tokens() ->
    pattern(render, 1, tier()),
    lists:foreach(fun(L) ->
        seq_trace:set_token(label, L),
        ?MODULE:render({L})
    end, [0, -1, foo, {a, b}, 1 bsl 59, (1 bsl 59) - 1, 1 bsl 70]),
    seq_trace:set_token([]).

%% As kprof:clear_token/0 and a kprof:set_token/0 that is not sampled.
clears() ->
    Cleared = {{[], {get_seq_token}, {caller}, []}},
    Clear = {set_seq_token, sequential_trace_token, []},
    pattern(clear, 0, [{'_', [{is_seq_trace}], [{message, Cleared}, Clear]}]),
    pattern(set, 0, [{'_', [], [{message, {element, {map_get, {is_seq_trace},
        {const, #{true => 1, false => 2}}}, {{Cleared, false}}}}, Clear]}]),
    lists:foreach(fun(L) ->
        seq_trace:set_token(label, L),
        ?MODULE:clear(),
        ?MODULE:set(),
        ?MODULE:clear(),
        seq_trace:set_token(label, L),
        ?MODULE:set()
    end, [1, (1 bsl 57) + 12345, foo]),
    seq_trace:set_token([]).

pattern(F, A, Spec) ->
    1 = erlang:trace_pattern({?MODULE, F, A}, Spec, [local]).

flags(P) ->
    1 = erlang:trace(P, true, [call, arity, monotonic_timestamp, return_to,
                               {tracer, whereis(tracer)}]).

trace(Dir, {Name, Fun}) ->
    Self = self(),
    register(tracer, spawn(fun() -> collect([]) end)),
    {P, Ref} = spawn_monitor(fun() ->
        receive go -> ok end,
        Fun()
    end),
    flags(P),
    P ! go,
    receive {'DOWN', Ref, process, P, normal} -> ok end,
    erlang:trace_pattern({?MODULE, '_', '_'}, false, [local]),
    timer:sleep(50),
    tracer ! {stop, Self},
    Events = receive {events, Es} -> [without_value(E) || E <- Es] end,
    Batch = {kprof_events, 7, erlang:monotonic_time(), 3, 0,
             Events},
    put_file(filename:join([Dir, "corpus", "trace"]), Name,
             term_to_binary(Batch, [{minor_version, minor(Name)}])),
    put_file(filename:join([Dir, "expect", "trace"]), Name,
             unicode:characters_to_binary([line(E) || E <- Events])).

collect(Es) ->
    receive
        {stop, To} -> unregister(tracer), To ! {events, lists:reverse(Es)};
        E -> collect([E | Es])
    end.

%% 2 is how terms travel between nodes: with UTF-8 atoms.
minor("exact") -> 1;
minor(_) -> 2.

%% As the agent does: return values stay in the target.
without_value({trace_ts, P, F, MFA, _, Ts})
  when F =:= return_from; F =:= exception_from ->
    {trace_ts, P, F, MFA, Ts};
without_value(E) ->
    E.

line({trace_ts, P, call, MFA, {Id, Caller, Weight, New, true, true, Old}, Ts}) ->
    io_lib:format("entry ~s ~b ~s caller=~s id=~s label=~b old=~b w=~b~n",
                  [p(P), Ts, mfa(MFA), mfa(Caller), id(Id), label(New),
                   label(Old), Weight]);
line({trace_ts, P, call, MFA, {[], Token, Caller, []}, Ts}) ->
    ["clear" | string:prefix(line({trace_ts, P, call, MFA,
                                   {[], Token, Caller}, Ts}), "call")];
line({trace_ts, P, call, MFA, {Id, Token, Caller}, Ts}) ->
    io_lib:format("call ~s ~b ~s caller=~s id=~s label=~b from=~s~n",
                  [p(P), Ts, mfa(MFA), mfa(Caller), id(Id), label(Token),
                   from(Token)]);
line({trace_ts, P, Kind, MFA, Ts}) ->
    io_lib:format("~s ~s ~b ~s~n", [Kind, p(P), Ts, mfa(MFA)]).

mfa(undefined) -> "-";
mfa(MFA) -> io_lib:format("~0tp", [MFA]).
id(Id) when Id =:= []; Id =:= undefined -> "-";
id(Id) -> io_lib:format("~0tp", [Id]).
label([]) -> 0;
label({_, L, _, _, _}) when is_integer(L), L > 0, L < 1 bsl 59 -> L;
label(_) -> 0.
from([]) -> "-";
from({_, _, _, From, _}) when is_pid(From) -> p(From);
from(_) -> "-".

p(P) ->
    <<131, 88, 119, N, Node:N/binary, Id:32, Serial:32, Creation:32>> =
        term_to_binary(P, [{minor_version, 2}]),
    io_lib:format("~s.~b.~b.~b", [Node, Id, Serial, Creation]).
