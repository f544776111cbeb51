%% recorder - runs every program of the catalogue on a node, and puts what the
%% node's agent sent (test/support/record.c) and the program's truth into one
%% file for each: otp27/nesting.rec and so on.
%%
%%     erl -noinput -pa EBIN -s recorder main -extra BUILD OUT [-root DIR] [PROGRAM ...]
%%
%% With -root the node runs in the Erlang of that root file system.
-module(recorder).

-export([main/0]).

-define(NODE, "rec@127.0.0.1").
-define(SIZE, 20).      % requests, of programs that have many

main() ->
    Code = try run(options(init:get_plain_arguments(), #{root => none, app => "sample_app", only => []})), 0
           catch throw:{check, Text} -> io:format("~ts~n", [Text]), 1;
                 Class:Reason:Stack -> io:format("~p: ~p~n~p~n", [Class, Reason, Stack]), 1
           end,
    halt(Code).

options([Build, Out | More], O) when not is_map_key(build, O) -> options(More, O#{build => Build, out => Out});
options(["-root", Dir | More], O) -> options(More, O#{root := filename:absname(Dir)});
options(More, O) -> O#{only := [list_to_atom(P) || P <- More]}.

run(#{only := Only, out := Out} = O) ->
    ets:new(it_processes, [named_table, public, bag]),
    Env = it:prepare(O),
    try
        T = it:context("recorder: all", Env),
        Target = it:target(T, #{kind => plain, node => ?NODE}),
        Dir = filename:join(Out, "otp" ++ integer_to_list(it:otp(Target))),
        ok = filelib:ensure_path(Dir),
        [record(T, Target, P, filename:join(Dir, atom_to_list(P) ++ ".rec"))
         || P <- programs(it:otp(Target)), Only =:= [] orelse lists:member(P, Only)]
    after
        it:tidy(Env)
    end,
    it:forget(Env).

programs(Otp) ->
    lists:append([[case P of {_, Name} -> Name; Name -> Name end || P <- Ps]
                  || {_, Ps} <- catalogue:programs(Otp)]).

record(#{build := Build, cookie := Cookie} = T, Target, Program, File) ->
    Conf = lists:concat(["test/recordings/", catalogue:conf(Program), ".conf"]),
    P = it:start(T, atom_to_list(Program), [filename:join(Build, "test/record"), ?NODE, Conf, Cookie, File], []),
    it:saw(P, "^record: recording"),
    Truth = it:call(Target, catalogue, run, [Program, ?SIZE]),
    it:terminate(P),
    {ok, Text} = file:read_file(Conf),
    Told = told:tell(it:otp(Target), told:conf(binary_to_list(Text)), Truth),
    ok = file:write_file(File, told:lines(Told), [append]),
    io:format("~s ~b bytes~n", [File, filelib:file_size(File)]).
