%% What a test asks over HTTP, outside the measured requests, where it has no
%% Erlang of its own to ask with:
%%
%%     GET  /admin/truth     a line for each layer and operation, numbers in ns
%%     POST /admin/reset     forget them
%%     POST /admin/config    the body is a map of settings, as for sample_app:configure/1
-module(sample_admin).

-export([answer/3, truth_table/1]).

-define(COLUMNS, [returned, returned_ns, raised, raised_ns, unfinished, busy_ns]).

%% {Status, Body}
answer('GET', <<"truth">>, _Body) ->
    {200, truth_table(sample_truth:details())};
answer('POST', <<"reset">>, _Body) ->
    ok = sample_truth:reset(),
    {200, <<"ok\n">>};
answer('POST', <<"config">>, Body) ->
    try
        {ok, Tokens, _} = erl_scan:string(binary_to_list(Body) ++ "."),
        {ok, Changes} = erl_parse:parse_term(Tokens),
        sample_app:configure(Changes)
    of
        _ -> {200, <<"ok\n">>}
    catch
        error:Reason -> {400, io_lib:format("~0p~n", [Reason])}
    end;
answer(_, _, _) ->
    {404, <<"no such page\n">>}.

truth_table(Rows) ->
    [io_lib:format("~-14s ~-11s ~10s ~16s ~10s ~14s ~10s ~16s~n", [layer, op | ?COLUMNS]),
     [io_lib:format("~-14s ~-11s ~10b ~16b ~10b ~14b ~10b ~16b~n",
                    [Layer, Op | [maps:get(Column, Row) || Column <- ?COLUMNS]])
      || #{layer := Layer, op := Op} = Row <- Rows]].
