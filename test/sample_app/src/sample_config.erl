%% The settings: their defaults, their checks, and where the hot paths read them.
%%
%%     #{port => 0, acceptors => 4, state_bytes => 0,          at start only
%%       audit => false,
%%       faults => #{raise => 0.0, ...},                       see sample_fault
%%       Layer => #{work_us => 0, wait_ms => 0,
%%                  workers => 16, state_bytes => 0}}          these two at start only
%%
%% Layers are parsing, handle, formatter, db and accounting. Parsing has no
%% process of its own, and accounting has one; accounting also takes
%% `mode => call | cast`.
%%
%% They are kept as persistent terms: reading costs some tens of nanoseconds and
%% copies nothing, and changing them is rare.
-module(sample_config).

-export([init/1, change/1, get/1, layers/0]).

-define(START_ONLY, [port, acceptors, state_bytes]).
-define(START_ONLY_IN_LAYER, [workers, state_bytes]).

layers() ->
    [parsing, handle, formatter, db, accounting].

%% Check and install the settings given at start, over the defaults.
init(Given) ->
    Defaults = defaults(maps:get(state_bytes, Given, 0)),
    install(merge(Defaults, Given)).

%% Change some settings while running. Nothing changes if any one is wrong.
change(Changes) ->
    maps:foreach(fun refuse_start_only/2, Changes),
    install(merge(persistent_term:get(?MODULE), Changes)).

%% One top-level setting; a layer's is its whole map.
get(Key) ->
    maps:get(Key, persistent_term:get(?MODULE)).

defaults(StateBytes) ->
    Layer = #{work_us => 0, wait_ms => 0},
    Pool = Layer#{workers => 16, state_bytes => StateBytes},
    #{port => 0,
      acceptors => 4,
      state_bytes => 0,
      audit => false,
      faults => maps:from_list([{Fault, 0.0} || Fault <- sample_fault:random_kinds()]),
      parsing => Layer,
      handle => Pool,
      formatter => Pool,
      db => Pool,
      accounting => Layer#{mode => call, state_bytes => StateBytes}}.

merge(Old, Changes) ->
    maps:fold(fun merge_one/3, Old, Changes).

merge_one(Key, Value, Config) ->
    case Config of
        #{Key := Old} when is_map(Old), is_map(Value) ->
            Config#{Key := maps:fold(merge_in(Key), Old, Value)};
        #{Key := Old} when not is_map(Old) ->
            check(Key, Value),
            Config#{Key := Value};
        _ ->
            wrong(Key, Value)
    end.

merge_in(Key) ->
    fun(Sub, Value, Map) ->
        is_map_key(Sub, Map) orelse wrong({Key, Sub}, Value),
        check(if Key =:= faults -> ratio; true -> Sub end, Value),
        Map#{Sub := Value}
    end.

check(work_us, V) when is_integer(V), V >= 0 -> ok;
check(wait_ms, V) when is_number(V), V >= 0 -> ok;
check(workers, V) when is_integer(V), V > 0 -> ok;
check(acceptors, V) when is_integer(V), V > 0 -> ok;
check(state_bytes, V) when is_integer(V), V >= 0 -> ok;
check(port, V) when is_integer(V), V >= 0, V < 65536 -> ok;
check(audit, V) when is_boolean(V) -> ok;
check(mode, V) when V =:= call; V =:= cast -> ok;
check(ratio, V) when is_number(V), V >= 0, V =< 1 -> ok;
check(Key, V) -> wrong(Key, V).

wrong(Key, Value) ->
    error({bad_setting, Key, Value}).

refuse_start_only(Key, Value) when is_map(Value) ->
    [error({only_at_start, {Key, Sub}}) || Sub <- maps:keys(Value), lists:member(Sub, ?START_ONLY_IN_LAYER)];
refuse_start_only(Key, _Value) ->
    lists:member(Key, ?START_ONLY) andalso error({only_at_start, Key}).

install(Config) ->
    persistent_term:put(?MODULE, Config),
    [sample_layer:set(Layer, maps:get(Layer, Config)) || Layer <- layers()],
    sample_fault:set(maps:get(faults, Config)).
