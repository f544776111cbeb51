%% kprof_oneshot.hrl - a guest that is there for one profile and one client: how
%% it starts, which processes are chosen, and the call that it makes. A module that includes it has init/3, which tells the
%% starter {self(), Info} when it is armed, or exits with refuse/2; and
%% sentry/3, which cleans up when the server is dead.

-define(START_MS, 60000).       % arming, on a node that is busy
-define(SUPERVISOR_MS, 5000).   % a supervisor's answer
-define(NAMED, 5).              % functions that an error names
-define(NAMES, 10000).          % registered names in an answer

%% ---------------------------------------------------------------- start ----

%% Called over rex. Where it does not start, nothing stays, this module included.
%% {ok, Pid, Info} or {error, Text}, a binary for people.
start(Client, Opts) when is_pid(Client), is_map(Opts) ->
    Result = case {disabled(), is_connected(node(Client))} of
                 {true, _} -> refusal("it keeps kprof out: {kprof, [{disabled, true}]} is in its configuration", []);
                 {_, false} -> refusal("the client has gone", []);
                 _ -> start_server(Client, Opts)
             end,
    element(1, Result) =:= ok orelse purger_start([self()]),
    Result.

%% The operator's way to end it.
stop() ->
    case whereis(?MODULE) of
        undefined -> not_attached;
        Pid -> Pid ! {?MODULE, stop}, ok
    end.

refusal(Format, Args) ->
    {error, unicode:characters_to_binary(io_lib:format(Format, Args))}.

-spec refuse(string(), list()) -> no_return().
refuse(Format, Args) ->
    exit(refusal(Format, Args)).

start_server(Client, Opts) ->
    Starter = self(),
    {Pid, Ref} = spawn_monitor(fun() -> init(Starter, Client, Opts) end),
    receive
        {Pid, Info} ->
            erlang:demonitor(Ref, [flush]),
            {ok, Pid, Info};
        {'DOWN', Ref, process, Pid, {error, _} = Refusal} ->
            Refusal;
        {'DOWN', Ref, process, Pid, Reason} ->
            refusal("~s failed there: ~0tP", [?MODULE_STRING, Reason, 20])
    after ?START_MS ->
            exit(Pid, kill),
            refusal("it was not armed within ~b s (fewer functions?)", [?START_MS div 1000])
    end.

%% ------------------------------------------------------------ processes ----

chosen(<<"all">>) -> all;
chosen(<<"existing">>) -> existing;
chosen(<<"new">>) -> new;
chosen(Names) ->
    lists:usort(lists:append([processes_of(N) || N <- string:lexemes(unicode:characters_to_list(Names), ",")])).

%% Of strings: what OTP 25 compiles for a match of a binary does not load in 29.
processes_of("<" ++ _ = Text) ->
    Pid = try list_to_pid(Text)
          catch error:badarg -> refuse("'~ts' is no process (see -processes)", [Text])
          end,
    node(Pid) =:= node() andalso is_process_alive(Pid) orelse refuse("there is no process ~ts", [Text]),
    [Pid];
processes_of("application:" ++ Name) ->
    case application_controller:get_master(existing(unicode:characters_to_binary(Name))) of
        undefined -> refuse("no application '~ts' is running", [Name]);
        Master -> [P || P <- processes(), process_info(P, group_leader) =:= {group_leader, Master}]
    end;
processes_of("supervisor:" ++ Name) -> descendants([registered_as(Name)], []);
processes_of("children:" ++ Name) -> [P || {_, P, _, _} <- children(registered_as(Name)), is_pid(P)];
processes_of(Name) -> [registered_as(Name)].

registered_as(Name) ->
    Atom = existing(unicode:characters_to_binary(Name)),
    case is_atom(Atom) andalso whereis(Atom) of
        Pid when is_pid(Pid) -> Pid;
        _ -> refuse("no process is registered as '~ts' (see -processes)", [Name])
    end.

%% A supervisor is none of its own descendants.
descendants([Sup | More], Found) ->
    Children = [{P, Type} || {_, P, Type, _} <- children(Sup), is_pid(P)],
    descendants([P || {P, supervisor} <- Children, not lists:member(P, Found)] ++ More,
                [P || {P, _} <- Children] ++ Found);
descendants([], Found) -> Found.

%% Another server might fail for being asked this.
children(Sup) ->
    case proc_lib:translate_initial_call(Sup) of
        {supervisor, _, _} -> ok;
        _ -> refuse("~tw is no supervisor", [name(Sup)])
    end,
    try gen_server:call(Sup, which_children, ?SUPERVISOR_MS)
    catch exit:_ -> refuse("the supervisor ~tw does not answer", [name(Sup)])
    end.

%% One that has ended meanwhile counts nothing.
flag_each(Set, Chosen) when is_list(Chosen) ->
    lists:sum([try Set(P) catch error:badarg -> 0 end || P <- Chosen]);
flag_each(Set, Chosen) ->
    Set(Chosen).

%% Without sessions: processes that somebody else traces, which stay theirs.
foreign(Chosen) ->
    {tracer, New} = erlang:trace_info(new_processes, tracer),
    is_list(Chosen) orelse Chosen =:= existing orelse New =:= [] orelse
        refuse("new processes are traced by ~tw there (kprofd? kprof count without -processes needs no processes, and"
               " OTP 27 has sessions)", [New]),
    Traced = [P || P <- processes(), {tracer, T} <- [erlang:trace_info(P, tracer)], T =/= []],
    Both = [P || is_list(Chosen), P <- Chosen, lists:member(P, Traced)],
    Both =:= [] orelse refuse("~tw is traced by somebody else (kprofd? OTP 27 has sessions)", [name(hd(Both))]),
    Traced.

names() ->
    [{P, N} || N <- lists:sublist(registered(), ?NAMES), P <- [whereis(N)], is_pid(P)].

%% ------------------------------------------------- a call made for us ----

call_of(<<>>) ->
    none;
call_of(Text) ->
    Bad = fun() -> refuse("'~ts' is no call such as \"lists:seq(1, 10)\" or \"'Elixir.MyApp':run()\"", [Text]) end,
    case erl_scan:string(unicode:characters_to_list(Text) ++ ".") of
        {ok, Tokens, _} ->
            case erl_parse:parse_exprs(Tokens) of
                {ok, [{call, _, {remote, _, {atom, _, M}, {atom, _, F}}, Args}]} ->
                    %% `_` is what is loaded.
                    _ = code:ensure_loaded(M),
                    {M, F, Args};
                _ -> Bad()
            end;
        _ -> Bad()
    end.

%% The process waits to be counted. Its arguments are made before that.
prepare(none, _) ->
    undefined;
prepare({M, F, Exprs}, Ms) ->
    Server = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       Args = arguments(Exprs),
                                       Server ! {prepared, self()},
                                       receive go -> exit(applied(M, F, Args)) end
                               end),
    receive
        {prepared, Pid} -> {Pid, Ref, Ms};
        {'DOWN', Ref, process, Pid, {arguments, Why}} -> refuse("the call's arguments: ~0tP", [Why, 12])
    after Ms ->
            exit(Pid, kill),
            refuse("the call's arguments were not made within ~b ms", [Ms])
    end.

arguments(Exprs) ->
    try
        [begin {value, V, _} = erl_eval:expr(E, []), V end || E <- Exprs]
    catch
        _:Why -> exit({arguments, short(Why)})
    end.

%% Nothing but the call: whatever else ran in this process would be counted.
applied(M, F, Args) ->
    try apply(M, F, Args) of
        _ -> {applied, returned}
    catch
        Class:Reason -> {applied, {Class, short(Reason)}}
    end.

short(Reason) when is_atom(Reason) -> Reason;
short(Reason) when is_tuple(Reason), tuple_size(Reason) > 0, is_atom(element(1, Reason)) -> element(1, Reason);
short(_) -> other.

%% What has become of the call, by the reason that its process ended for.
outcome({applied, returned}) -> {kprof_ended, returned, 0};
outcome({applied, {Class, Why}}) -> {kprof_ended, raised, text("~w:~tw", [Class, Why])};
outcome(killed) -> {kprof_ended, overran, 0};
outcome(Reason) -> {kprof_ended, exited, text("~0tP", [Reason, 8])}.

stop_call({Pid, _, _}) -> exit(Pid, kill);
stop_call(_) -> ok.

%% --------------------------------------------------- sessions and flags ----

%% On OTP 25 and 26 a counter is everybody's, and setting it sets it back.
untraced(legacy, Functions) ->
    case [MFA || MFA <- Functions, is_traced(MFA)] of
        [] -> ok;
        Taken ->
            refuse("somebody else traces or counts ~ts: -exclude ~ts leaves it out (OTP 27 has sessions of their own)",
                   [lists:join(", ", [mfa_text(F) || F <- lists:sublist(Taken, ?NAMED)]), mfa_text(hd(Taken))])
    end;
untraced(_, _) ->
    ok.

is_traced(MFA) ->
    case erlang:trace_info(MFA, all) of
        {all, Items} when is_list(Items) ->
            lists:any(fun({Item, V}) -> V =/= false andalso V =/= undefined andalso Item =/= match_spec end, Items);
        _ -> false
    end.

mfa_text({M, F, A}) ->
    io_lib:format("~tw:~tw/~b", [M, F, A]).

%% --------------------------------------------------------------- sentry ----

%% Knows what to take back without the server's help; runs when it is dead. It
%% does not know a session, which dies with the server's handle.
sentry_start() ->
    Server = self(),
    spawn_monitor(fun() ->
                          Ref = erlang:monitor(process, Server),
                          receive {own, Own} -> sentry(Ref, Server, Own)
                          after ?START_MS -> ok
                          end
                  end).

%% ---------------------------------------------------------------- small ----

text(Format, Args) ->
    unicode:characters_to_binary(io_lib:format(Format, Args)).
