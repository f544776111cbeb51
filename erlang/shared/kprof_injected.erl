%% kprof_injected - what every module needs that is loaded into a target: whether it may come,
%% the processes that it starts, its trace session, and how it goes.
-module(kprof_injected).

-export([kprofs/0, is_connected/1, disabled/0, configured/1, kept/1, kept_set/2, kept_drop/1,
         purger_start/3, spawn_labelled/3, spawn_monitored/3, process_label/2, dictionary/2,
         process_began/2, hide/0, now_ms/0, now_ns/0, fell/1, may_again/1, functions/1, name/1,
         pair_names/1]).
-export_type([falls/0]).

%% The heap of a process whose whole dictionary is copied: at most 8 MB, some ms of its time.
-define(DICTIONARY_WORDS, 1000000).
-define(DICTIONARY_MESSAGES, 200000).  % of its queue: as long
-define(KEEP_MS, 5000).         % the application controller's answer
-define(AGAIN_MS, 500).         % from a second fall of a process of ours until another; it
-define(AGAIN_MOST_MS, 60000).  % doubles each time, up to this: the VM logs what died of a fault

%% How many, each soon after the one before, and when the last one was.
-type falls() :: {non_neg_integer(), AtMs :: integer()}.

%% The modules of kprof itself, which are not the node's.
-spec kprofs() -> [module()].
kprofs() ->
    [kprof_agent, kprof_probe, kprof_counters, kprof_tracer, kprof_calls_probe, kprof_sampler].

%% A monitor would make the node try to connect to a node that has gone.
-spec is_connected(node()) -> boolean().
is_connected(Node) ->
    lists:member(Node, [node() | nodes(connected)]).

-spec disabled() -> boolean().
disabled() ->
    configured(disabled) =:= {ok, true}.

%% A setting of the application kprof, by the node's operator.
-spec configured(atom()) -> {ok, term()} | undefined.
configured(Key) ->
    case application:get_env(kprof, Key) of
        undefined -> configured_by_file(Key);
        Set -> Set
    end.

%% The configuration file's setting of an application shows once the application is loaded,
%% and there need not be one called kprof. Unloading it drops what the operator has set in its
%% environment, so that is put back.
configured_by_file(Key) ->
    Kept = application:get_all_env(kprof),
    Loaded = application:load({application, kprof, [{vsn, "0"}]}),
    Value = application:get_env(kprof, Key),
    _ = Loaded =:= ok andalso application:unload(kprof),
    [application:set_env(kprof, K, V) || {K, V} <- Kept, Loaded =:= ok],
    Value.

%% What other modules of kprof may have to know, even if no process is left to ask. It is in the
%% environment of an application that nobody loads or unloads. The application controller may not
%% answer; a failure is ignored.
-spec kept(atom()) -> {ok, term()} | undefined.
kept(Key) ->
    application:get_env(kprof_kept, Key).

-spec kept_set(atom(), term()) -> term().
kept_set(Key, Value) ->
    try application:set_env(kprof_kept, Key, Value, [{timeout, ?KEEP_MS}]) catch _:_ -> ok end.

-spec kept_drop(atom()) -> term().
kept_drop(Key) ->
    try application:unset_env(kprof_kept, Key, [{timeout, ?KEEP_MS}]) catch _:_ -> ok end.

%% Has Modules purged when the processes Pids have ended, unless a process is registered as Name
%% by then. The purger runs outside these modules, or the purge would kill it: the text is
%% parsed here and evaluated by stdlib. A sentry that is still at work, as after a start that
%% failed half way, has a minute: a purge would kill it. Whether code is in use is asked twice
%% a second, because the VM looks at every process for it.
%% There are two purgers after a start that failed half way, the sentry's as well. So nothing is
%% deleted while another module of this name is loaded and started: who does either is
%% registered as Name_load (load.exprs). A purger that waits a minute for that in vain leaves it
%% to the one that has it.
-spec purger_start(atom(), [module()], [pid()]) -> pid().
purger_start(Name, Modules, Pids) ->
    Text = "[begin R = erlang:monitor(process, P),"
           " receive {'DOWN', R, process, P, _} -> ok after 5000 -> ok end"
           " end || P <- Ps],"
           "Alone = fun Alone(0) -> false;"
           " Alone(N) -> try erlang:register(Load, self())"
           " catch error:badarg -> receive after 50 -> Alone(N - 1) end end end,"
           "Unused = fun Unused(_, 0) -> false;"
           " Unused(M, N) -> code:soft_purge(M) orelse"
           " begin receive after 500 -> ok end, Unused(M, N - 1) end end,"
           "Alone(1200) andalso begin"
           " Deleted = [begin code:purge(M), code:delete(M), M end || M <- Ms,"
           " erlang:whereis(Name) =:= undefined, erlang:module_loaded(M)],"
           " erlang:unregister(Load),"
           " [Unused(M, 120) orelse code:purge(M) || M <- Deleted]"
           " end.",
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    spawn(erl_eval, exprs,
          [Exprs, [{'Load', list_to_atom(atom_to_list(Name) ++ "_load")}, {'Ms', Modules},
                   {'Name', Name}, {'Ps', Pids}]]).         % in order, as erl_eval needs them

%% Starts a process that runs a function of this module of ours, for people who look at the
%% node: see process_label/2.
%%
%% Not proc_lib:spawn/1. On 25, 27 and 29 its crash report prints the whole message queue of
%% the process: ours holds up to a million trace events, on 25 and 26 with values of the
%% application that other people's patterns copied, and the report would put them into the
%% node's log. It would also report each exit that carries an answer, such as a refusal. The VM
%% logs a real crash of a plain process in a few lines, and the sentry logs that it took
%% everything back.
-spec spawn_labelled(module(), atom(), fun(() -> term())) -> pid().
spawn_labelled(Module, Function, Run) ->
    spawn(labelled_run(Module, Function, Run)).

%% The same with a monitor from the start: one that is set later misses the exit reason of a
%% process that ends at once.
-spec spawn_monitored(module(), atom(), fun(() -> term())) -> {pid(), reference()}.
spawn_monitored(Module, Function, Run) ->
    spawn_monitor(labelled_run(Module, Function, Run)).

labelled_run(Module, Function, Run) ->
    fun() ->
            process_label(Module, Function),
            Run()
    end.

%% Gives the calling process what observer, i() and crash dumps show: the function that it runs,
%% as proc_lib would, and from OTP 27 on a label. The terms are made here: literals would be a
%% part of the code, which is not purged while a process refers to them.
-dialyzer({no_missing_calls, process_label/2}).
-spec process_label(module(), atom()) -> ok.
process_label(Module, Function) ->
    put('$initial_call', {Module, Function, 0}),
    _ = erlang:function_exported(proc_lib, set_label, 1) andalso
        proc_lib:set_label({Module, Function}),
    ok.

%% What a process has under Keys in its dictionary. Before OTP 26.2 that can be had as a whole or
%% not at all, which is `unknown` where it may be large: its size cannot be asked for, and it is a
%% part of the heap, whose size the VM looks for in all messages of a long queue.
-dialyzer({nowarn_function, dictionary/2}).
-spec dictionary(pid(), [atom()]) -> [term()] | unknown | gone.
dictionary(P, Keys) ->
    try process_info(P, [{dictionary, K} || K <- Keys]) of
        undefined -> gone;
        Items -> [V || {_, V} <- Items]
    catch
        error:badarg -> of_whole_dictionary(P, Keys)
    end.

of_whole_dictionary(P, Keys) ->
    case is_short(P) andalso process_info(P, total_heap_size) of
        false -> unknown;
        {_, Words} when Words =< ?DICTIONARY_WORDS ->
            case process_info(P, dictionary) of
                {_, All} -> [proplists:get_value(K, All) || K <- Keys];
                undefined -> gone
            end;
        {_, _} -> unknown;
        undefined -> gone
    end.

is_short(P) ->
    case process_info(P, message_queue_len) of
        {_, N} -> N < ?DICTIONARY_MESSAGES;
        undefined -> true
    end.

%% The function that a process of proc_lib's began with, from its dictionary; [] if it has ended.
-spec process_began(pid(), mfa()) -> mfa() | [].
process_began(P, Else) ->
    case dictionary(P, ['$initial_call']) of
        gone -> [];
        [{M, F, A}] when is_atom(M), is_atom(F), is_list(A) -> {M, F, length(A)};
        [{M, F, A} = MFA] when is_atom(M), is_atom(F), is_integer(A) -> MFA;
        _ -> Else
    end.

%% Keeps what the calling process calls, sends and receives out of others' traces: whoever traces
%% lists:sort/1 in all processes wants those of the application. The VM then also hides its
%% messages and its dictionary, but not its name, label, stack, memory or queue length. Before
%% OTP 27 a node has one tracer, and processes have no label. Not for a process whose calls we
%% trace ourselves (kprof_agent_cost).
-spec hide() -> ok.
hide() ->
    _ = erlang:function_exported(proc_lib, set_label, 1) andalso process_flag(sensitive, true),
    ok.

-spec now_ms() -> integer().
now_ms() ->
    erlang:monotonic_time(millisecond).

%% The unit of time stamps in trace events, whatever the node's native unit is.
-spec now_ns() -> integer().
now_ns() ->
    erlang:monotonic_time(nanosecond).

%% Somebody has killed a process of ours, or it has failed: another is started at once; later, where
%% that has happened just before.
-spec fell(falls()) -> falls().
fell({Falls, At}) ->
    Now = now_ms(),
    {if Falls > 0, Now - At < 2 * ?AGAIN_MOST_MS -> Falls + 1; true -> 1 end, Now}.

-spec may_again(falls()) -> boolean().
may_again({Falls, _}) when Falls =< 1 -> true;
may_again({Falls, At}) ->
    now_ms() - At >= min(?AGAIN_MOST_MS, ?AGAIN_MS bsl min(Falls - 1, 10)).

%% Local functions too. Asks only the VM, since the code server may be busy.
-spec functions(module()) -> [{atom(), arity()}].
functions(M) ->
    try erlang:get_module_info(M, functions)
    catch error:badarg -> []
    end.

-spec name(term()) -> term().
name(P) when is_pid(P), node(P) =:= node() ->
    case process_info(P, registered_name) of
        {registered_name, Name} -> Name;
        _ -> P
    end;
name(Other) -> Other.

%% [{Process, Tracer}] for a notice.
-spec pair_names([{term(), term()}]) -> [{term(), term()}].
pair_names(Pairs) ->
    [{name(P), name(T)} || {P, T} <- Pairs].
