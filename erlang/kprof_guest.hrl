%% kprof_guest.hrl - what every module needs that is loaded into a target: may
%% it come, and how it goes without a trace. Its name is that of its process;
%% GUESTS are the modules that go with that.

%% A monitor would make the node look for one that has gone.
is_connected(Node) ->
    lists:member(Node, [node() | nodes(connected)]).

disabled() ->
    case application:get_env(kprof, disabled) of
        undefined -> configured_disabled();
        {ok, Value} -> Value =:= true
    end.

%% What a configuration file says about an application shows when that is
%% loaded, and there need not be one called kprof.
configured_disabled() ->
    Loaded = application:load({application, kprof, [{vsn, "0"}]}),
    Value = application:get_env(kprof, disabled),
    _ = Loaded =:= ok andalso application:unload(kprof),
    Value =:= {ok, true}.

%% Runs outside this module, or the purge would kill its own process: the
%% text is parsed here and evaluated by stdlib. It leaves a module alone
%% that a new process has been registered for.
purger_start(Pids) ->
    Text = "[begin R = erlang:monitor(process, P),"
           " receive {'DOWN', R, process, P, _} -> ok after 5000 -> ok end"
           " end || P <- Ps],"
           "erlang:whereis(Name) =:= undefined andalso begin"
           " [begin code:purge(M), code:delete(M), code:purge(M) end"
           " || M <- Ms, erlang:module_loaded(M)]"
           " end.",
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    spawn(erl_eval, exprs,
          [Exprs, [{'Name', ?MODULE}, {'Ms', ?GUESTS}, {'Ps', Pids}]]).
