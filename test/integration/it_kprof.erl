%% it_kprof - kprof's count, time, memory and trace, for tests: run, started and
%% talked to; and what the node has to be like after counters.
-module(it_kprof).

-export([plain/1, load/1, unarmed/1]).
-export([command/4, background/4, start/4, interrupt/1, run/4, counted/4, kprof/2, started/2, tell/2, ends/1, says/2]).

-define(REST, "Ctrl-C ends it").

plain(T) ->
    Target = it:target(T, #{kind => plain}),
    load(Target),
    Target.

load(Target) ->
    {module, it_counted} = it:call(Target, code, ensure_loaded, [it_counted]),
    ok.

%% Snapshots leave out these, since to look stops all schedulers.
unarmed(Target) ->
    it:until("its process is gone", fun() -> it:call(Target, erlang, whereis, [kprof_counters]) =:= undefined end),
    Armed = it:do(Target, fun() ->
                                  [{M, F, A, K} || M <- [it_counted, lists, maps], {F, A} <- M:module_info(functions),
                                                   K <- [call_time, call_memory | [call_count || M =:= it_counted]],
                                                   V <- [try erlang:trace_info({M, F, A}, K)
                                                         catch error:badarg -> {K, false}
                                                         end], V =/= {K, false}]
                          end),
    it:equal("what is counted still", [], Armed),
    it:until("no session of ours is left",
             fun() -> not lists:member(kprof_counters, it:call(Target, it_stub, sessions, [])) end).

%% Starts it, and goes on at once.
background(T, Target, Cmd, Args) ->
    started(T, command(T, Target, Cmd, Args)).

command(#{build := Build, cookie := Cookie}, Target, Cmd, Args) ->
    [filename:join(Build, "kprof"), Cmd, "-cookie-file", Cookie]
        ++ it_reach:targets(Target) ++ it_reach:options(Target) ++ whole_tree(Cmd, Args).

%% A tree leaves out what has next to no time, which on a busy machine is any
%% function but the one that waited: here it has all.
whole_tree(Cmd, Args) when Cmd =:= "trace"; Cmd =:= "analyse" ->
    case lists:member("-least", Args) of
        true -> Args;
        false -> ["-least", "0" | Args]
    end;
whole_tree(_, Args) ->
    Args.

%% Starts it, and waits until it counts.
start(T, Target, Cmd, Args) ->
    P = background(T, Target, Cmd, Args),
    it:saw(P, ?REST),
    P.

interrupt(P) ->
    it:signal(P, "INT"),
    ends(P).

run(T, Target, Cmd, Args) ->
    ends(background(T, Target, Cmd, Args)).

%% [{Function, Calls, Value}] of one that has to be good, by name.
counted(T, Target, Cmd, Args) ->
    case run(T, Target, Cmd, ["-csv" | Args]) of
        {0, Out, _} -> lists:sort(it_csv:rows(Out));
        {Status, _, Errors} -> it:fail("kprof ~s ended with ~b: ~ts", [Cmd, Status, Errors])
    end.

kprof(#{build := Build} = T, [Cmd | Args]) ->
    ends(started(T, [filename:join(Build, "kprof"), Cmd | whole_tree(Cmd, Args)])).

started(#{last := Last} = T, Command) ->
    it:start(T, "kprof" ++ integer_to_list(atomics:add_get(Last, 1, 1)), Command, []).

%% On its standard input.
tell(#{port := Port}, Text) ->
    true = port_command(Port, Text),
    ok.

%% Its exit status, output and errors.
ends(P) ->
    Status = it:exited(P),
    {Status, unicode:characters_to_list(it:output(P)), unicode:characters_to_list(it:errors(P))}.

says(Text, Pattern) ->
    re:run(Text, Pattern, [unicode, multiline, {capture, none}]) =:= match orelse
        it:fail("'~ts' is not in:~n~ts", [Pattern, Text]).
