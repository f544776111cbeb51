%% kprof_injected - what every module needs that is loaded into a target: may
%% it come, in which trace session, and how it goes.
-module(kprof_injected).

-export([process_label/2, is_connected/1, disabled/0, purger_start/3, now_ms/0, now_ns/0, functions/1, name/1,
         session_new/1, session_create/2]).

%% A monitor would make the node look for one that has gone.
-spec is_connected(node()) -> boolean().
is_connected(Node) ->
    lists:member(Node, [node() | nodes(connected)]).

-spec disabled() -> boolean().
disabled() ->
    case application:get_env(kprof, disabled) of
        undefined -> configured_disabled();
        {ok, Value} -> Value =:= true
    end.

%% What a configuration file says about an application shows when that is
%% loaded, and there need not be one called kprof.
%% To unload it drops what other guests keep there.
configured_disabled() ->
    Kept = application:get_all_env(kprof),
    Loaded = application:load({application, kprof, [{vsn, "0"}]}),
    Value = application:get_env(kprof, disabled),
    _ = Loaded =:= ok andalso application:unload(kprof),
    [application:set_env(kprof, K, V) || {K, V} <- Kept, Loaded =:= ok],
    Value =:= {ok, true}.

%% Has Modules purged when the processes Pids have ended, unless a process is registered
%% as Name then. It runs outside these modules, or the purge would kill its own process: the
%% text is parsed here and evaluated by stdlib. It leaves a module alone
%% that a new process has been registered for. A sentry that is not done yet,
%% as where a start failed half-way, has a minute: a purge would kill it. To ask
%% is to look at every process, so that is done twice a second.
-spec purger_start(atom(), [module()], [pid()]) -> pid().
purger_start(Name, Modules, Pids) ->
    Text = "[begin R = erlang:monitor(process, P),"
           " receive {'DOWN', R, process, P, _} -> ok after 5000 -> ok end"
           " end || P <- Ps],"
           "erlang:whereis(Name) =:= undefined andalso begin"
           " Unused = fun Unused(_, 0) -> false;"
           " Unused(M, N) -> code:soft_purge(M) orelse"
           " begin receive after 500 -> ok end, Unused(M, N - 1) end end,"
           " [begin code:purge(M), code:delete(M), Unused(M, 120), code:purge(M) end"
           " || M <- Ms, erlang:module_loaded(M)]"
           " end.",
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    spawn(erl_eval, exprs,
          [Exprs, [{'Name', Name}, {'Ms', Modules}, {'Ps', Pids}]]).

%% What observer and a crash dump call a process without a name, from OTP 27 on. The label
%% is made here: a literal would be a part of the code, which is not purged before the
%% process is gone for good.
-dialyzer({no_missing_calls, process_label/2}).
-spec process_label(atom(), atom()) -> ok.
process_label(Of, What) ->
    _ = erlang:function_exported(proc_lib, set_label, 1) andalso proc_lib:set_label({Of, What}),
    ok.

-spec now_ms() -> integer().
now_ms() ->
    erlang:monotonic_time(millisecond).

%% The unit of time stamps in trace events, whatever the node's own is.
-spec now_ns() -> integer().
now_ns() ->
    erlang:monotonic_time(nanosecond).

%% Local functions too; asks the VM only, since the code server may be busy.
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
name(Other) ->
    Other.

%% From OTP 27 on; before that tracing is everybody's.
-spec session_new(atom()) -> kprof_flagger:session().
session_new(Name) ->
    session_create(Name, self()).

-spec session_create(atom(), kprof_flagger:tracer()) -> kprof_flagger:session().
session_create(Name, Tracer) ->
    _ = code:ensure_loaded(trace),
    case erlang:function_exported(trace, session_create, 3) of
        true -> trace:session_create(Name, Tracer, []);
        false -> legacy
    end.
