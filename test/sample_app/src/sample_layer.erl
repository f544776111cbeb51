%% What each layer costs: `work_us` of processor time and `wait_ms` of sleep,
%% spent inside the layer; and the ballast that makes a worker's state big.
-module(sample_layer).

-export([set/2, spend/1, wait/1, ballast/1]).

set(Layer, #{work_us := WorkUs, wait_ms := WaitMs}) ->
    persistent_term:put({?MODULE, Layer}, {WorkUs, WaitMs}).

%% Spend in the calling process what this layer costs.
spend(Layer) ->
    {WorkUs, WaitMs} = persistent_term:get({?MODULE, Layer}),
    work(WorkUs),
    wait(WaitMs).

work(0) ->
    ok;
work(WorkUs) ->
    spin(erlang:monotonic_time() + erlang:convert_time_unit(WorkUs, microsecond, native)).

spin(Until) ->
    case erlang:monotonic_time() of
        Now when Now < Until -> spin(Until);
        _ -> ok
    end.

%% The VM's timers count in ms, so a part of a ms is waited as a whole one by
%% that part of the calls: the mean is as asked, and no wait is made by spinning.
wait(0) ->
    ok;
wait(Ms) when is_integer(Ms) ->
    receive after Ms -> ok end;
wait(Ms) ->
    Whole = trunc(Ms),
    case rand:uniform() < Ms - Whole of
        true -> wait(Whole + 1);
        false -> wait(Whole)
    end.

%% A term of about this layer's `state_bytes` made of small terms on the heap: a
%% big binary would be shared when it is sent, which would hide a costly copy.
ballast(Layer) ->
    #{state_bytes := Bytes} = sample_config:get(Layer),
    lists:seq(1, Bytes div (2 * erlang:system_info(wordsize))).
