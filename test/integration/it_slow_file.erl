%% it_slow_file - the work that the manual of fprof takes for its example: a
%% file of numbers, the first 256 of them at once, the others one by one.
-module(it_slow_file).

-export([create_file_slow/2]).

create_file_slow(Name, N) when is_integer(N), N >= 0 ->
    {ok, File} = file:open(Name, [raw, write, delayed_write, binary]),
    if
        N > 256 ->
            ok = file:write(File, lists:map(fun(X) -> <<X:32>> end, lists:seq(0, 255))),
            ok = create_file_slow(File, 256, N);
        true ->
            ok = create_file_slow(File, 0, N)
    end,
    ok = file:close(File).

create_file_slow(_, N, N) ->
    ok;
create_file_slow(File, I, N) ->
    ok = file:write(File, <<I:32>>),
    create_file_slow(File, I + 1, N).
