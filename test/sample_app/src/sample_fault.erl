%% The faults a request can meet, and the choice of one.
%%
%%     raise         the database call raises, and its direct caller catches it
%%     raise_deep    the same, caught two frames up, past a frame that no profiler watches
%%     crash         handle_request/2 itself raises
%%     retry         the database call raises, is caught, and called again
%%     retry_deep    the same, caught two frames up
%%     die           the worker is killed in the middle of the request
%%     slow          the database takes 150 ms more
%%
%% Each can be asked for by its path (`/fault/raise`), where its name is the
%% operation too, or be given to a share of the ordinary operations by the
%% `faults` setting. Two more operations are no faults but shapes of calls:
%% `wrapped` (every measured call goes through one common wrapper, as with
%% instrumentation libraries) and `parallel` (two database calls at once). Those of
%% sample_pattern come in the same way.
-module(sample_fault).

-export([random_kinds/0, ops/0, set/1, choose/1]).

random_kinds() ->
    [raise, raise_deep, crash, retry, retry_deep, die, slow].

%% The operations that are asked for under /fault/.
ops() ->
    random_kinds() ++ [wrapped, parallel] ++ sample_pattern:ops().

%% Ratios are kept as running sums, so that one random number chooses.
set(Ratios) ->
    Add = fun({Fault, Ratio}, Sum) -> {{Fault, Sum + Ratio}, Sum + Ratio} end,
    {Sums, _} = lists:mapfoldl(Add, 0, [R || {_, Ratio} = R <- maps:to_list(Ratios), Ratio > 0]),
    persistent_term:put(?MODULE, Sums).

%% The fault for a request of this operation.
choose(Op) when Op =:= create; Op =:= read; Op =:= update; Op =:= delete ->
    case persistent_term:get(?MODULE) of
        [] -> none;
        Sums -> choose(rand:uniform(), Sums)
    end;
choose(Op) ->
    case lists:member(Op, random_kinds()) of
        true -> Op;
        false -> none
    end.

choose(_X, []) -> none;
choose(X, [{Fault, Sum} | _]) when X < Sum -> Fault;
choose(X, [_ | Sums]) -> choose(X, Sums).
