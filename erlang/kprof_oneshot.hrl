%% kprof_oneshot.hrl - a guest that is there for one profile and one client: how
%% it starts, which processes are chosen, the call that it makes, and how it
%% ends. For kprof_counters and kprof_tracer; more of the kind have
%% - DOES, what it does, a word for people, before this is included;
%% - a record s with client, client_ref, sentry, who, session, lease_ms,
%%   lease_at, memory (its own, before it was armed), memory_max, applied, word and
%%   walk, of the flags of processes: none | wanted | what flags_start/4 gave |
%%   cleared;
%% - init/3, which tells the starter {self(), Info} when it is armed, or exits
%%   with refuse/2;
%% - legacy_tracer/1: whose the flags are in a VM without sessions, of the
%%   server that it is given;
%% - legacy_armed/1 and legacy_clear/1: what patterns it sets in a VM without
%%   sessions, a list, and how one of these is taken back.

-define(START_MS, 60000).       % arming, on a node that is busy
-define(SUPERVISOR_MS, 5000).   % a supervisor's answer
-define(NAMED, 5).              % functions that an error names
-define(NAMES, 10000).          % registered names in an answer
-define(KEEP_MS, 5000).         % the application controller's answer
-define(ARM_LOOK, 8).           % patterns between two looks at the memory
-define(VALUE_MAX, 4096).       % bytes of what an expression gave, as text,
-define(REASON_MAX, 900).       % and of what it raised
-define(VALUE_MS, 5000).        % to make that text, on a node that is busy



%% ---------------------------------------------------------------- start ----

%% Called over rex. Where it does not start, nothing stays, this module included.
%% {ok, Pid, Info} or {error, Text}, a binary for people.
start(Client, Opts) when is_pid(Client), is_map(Opts) ->
    Result = case {kprof_injected:disabled(), kprof_injected:is_connected(node(Client))} of
                 {true, _} -> kprof_refusal:refusal("it keeps kprof out: {kprof, [{disabled, true}]} is in its configuration", []);
                 {_, false} -> kprof_refusal:refusal("the client has gone", []);
                 _ -> start_server(Client, Opts)
             end,
    element(1, Result) =:= ok orelse kprof_injected:purger_start(?MODULE, ?GUESTS, [self()]),
    Result.

%% The operator's way to end it; and where both of its processes were killed, to
%% take back what they have left.
stop() ->
    case {whereis(?MODULE), application:get_env(kprof, ?MODULE)} of
        {undefined, undefined} -> not_attached;
        {undefined, {ok, {Server, Own}}} ->
            take_back(killed, Server, Own),
            kprof_injected:purger_start(?MODULE, ?GUESTS, []),
            ok;
        {Pid, _} -> Pid ! {?MODULE, stop}, ok
    end.

start_server(Client, Opts) ->
    Starter = self(),
    {Pid, Ref} = spawn_monitor(fun() -> init(Starter, Client, Opts) end),
    receive
        {Pid, Info} ->
            erlang:demonitor(Ref, [flush]),
            {ok, Pid, Info};
        {'DOWN', Ref, process, Pid, {error, _} = Refusal} ->
            Refusal;
        {'DOWN', Ref, process, Pid, {kprof, Reason}} ->
            kprof_refusal:refusal("~ts", [reason_text(Reason)]);
        {'DOWN', Ref, process, Pid, Reason} ->
            kprof_refusal:refusal("~s failed there: ~0tP", [?MODULE_STRING, Reason, 20])
    after ?START_MS ->
            exit(Pid, kill),
            kprof_refusal:refusal("it was not armed within ~b s (fewer functions?)", [?START_MS div 1000])
    end.

%% Of those that do the same there is one at a time.
take_name() ->
    try register(?MODULE, self()) of
        true -> ok
    catch
        error:badarg -> kprof_refusal:refuse("somebody ~s there already (~s:stop() there ends it)", [?DOES, ?MODULE_STRING])
    end.

say_begin(S) ->
    logger:notice("kprof ~s calls for ~ts (~s:stop() ends it)", [?DOES, S#s.who, ?MODULE_STRING]).

%% ------------------------------------------------------------ processes ----

%% Which ones are meant. Of a call that is made for us its own, if no others are
%% named.
whose(<<>>, none) -> <<"all">>;
whose(<<>>, _) -> applied;
whose(Which, _) -> Which.

%% all, existing, new or a list; no more than are allowed.
chosen(applied, _, {Pid, _, _}) ->
    [Pid];
chosen(Which, #{max_processes := Max}, Applied) ->
    Chosen = selected(Which, Max, Applied),
    N = if is_list(Chosen) -> length(Chosen);
           Chosen =:= new -> 0;
           true -> erlang:system_info(process_count)
        end,
    N > Max andalso too_many("these are", [], N, Max),
    Chosen.

-spec too_many(string(), list(), pos_integer(), pos_integer()) -> no_return().
too_many(What, Args, N, Max) ->
    kprof_refusal:refuse(What ++ " ~b processes, more than ~b (choose with -processes, or see -max-processes)", Args ++ [N, Max]).

selected(<<"all">>, _, _) -> all;
selected(<<"existing">>, _, _) -> existing;
selected(<<"new">>, _, _) -> new;
selected(Names, Max, Applied) ->
    lists:usort(lists:append([case {N, Applied} of
                                  {"caller", {Pid, _, _}} -> [Pid];
                                  _ -> processes_of(N, Max)
                              end || N <- string:lexemes(unicode:characters_to_list(Names), ",")])).

%% Of strings: what OTP 25 compiles for a match of a binary does not load in 29.
processes_of("application:" ++ Name, _) ->
    case application_controller:get_master(kprof_wanted:existing(unicode:characters_to_binary(Name))) of
        undefined -> kprof_refusal:refuse("no application '~ts' is running", [Name]);
        Master -> [P || P <- processes(), process_info(P, group_leader) =:= {group_leader, Master}]
    end;
processes_of("supervisor:" ++ Name, Max) -> descendants([registered_as(Name)], #{}, Max);
processes_of("children:" ++ Name, Max) ->
    Parent = process_of(Name),
    case is_supervisor(Parent) of
        true -> [P || {P, _} <- children(Parent, 0, Max)];
        false -> maps:get(Parent, spawned_by(), [])
    end;
processes_of("descendants:" ++ Name, _) -> spawned_from([process_of(Name)], spawned_by());
processes_of(Name, _) -> [process_of(Name)].

process_of("<" ++ _ = Text) ->
    Pid = try list_to_pid(Text)
          catch error:badarg -> kprof_refusal:refuse("'~ts' is no process (see -processes)", [Text])
          end,
    node(Pid) =:= node() andalso is_process_alive(Pid) orelse kprof_refusal:refuse("there is no process ~ts", [Text]),
    Pid;
process_of(Name) -> registered_as(Name).

registered_as(Name) ->
    Atom = kprof_wanted:existing(unicode:characters_to_binary(Name)),
    case is_atom(Atom) andalso whereis(Atom) of
        Pid when is_pid(Pid) -> Pid;
        _ -> kprof_refusal:refuse("no process is registered as '~ts' (see -processes)", [Name])
    end.

%% A supervisor is none of its own descendants. A child may be declared a supervisor
%% that is none of OTP's, such as kernel's user_sup, a bridge: who its children are
%% cannot be asked.
descendants([Sup | More], Found, Max) ->
    Children = children(Sup, map_size(Found), Max),
    descendants([P || {P, supervisor} <- Children, not is_map_key(P, Found), is_supervisor(P)] ++ More,
                maps:merge(Found, maps:from_list(Children)), Max);
descendants([], Found, _) -> maps:keys(Found).

%% A list of very many children takes the supervisor long, and memory of it and of
%% ours: they are counted first. Those found Before add to them, so that a whole
%% tree has a bound.
children(Sup, Before, Max) ->
    is_supervisor(Sup) orelse kprof_refusal:refuse("~tw is no supervisor", [kprof_injected:name(Sup)]),
    #{supervisors := Supervisors, workers := Workers} = maps:from_list(ask(Sup, count_children)),
    case Supervisors + Workers of
        N when Before + N > Max -> too_many("with the ~b children of ~tw these are", [N, kprof_injected:name(Sup)], Before + N, Max);
        _ -> [{P, Type} || {_, P, Type, _} <- ask(Sup, which_children), is_pid(P)]
    end.

%% #{Process => those alive that it has spawned}, of whatever kind it is.
spawned_by() ->
    maps:groups_from_list(fun({Parent, _}) -> Parent end, fun({_, P}) -> P end,
                          [{Parent, P} || P <- processes(), {parent, Parent} <- [process_info(P, parent)]]).

spawned_from([P | More], By) ->
    case maps:take(P, By) of
        {Own, Others} -> Own ++ spawned_from(Own ++ More, Others);
        error -> spawned_from(More, By)
    end;
spawned_from([], _) ->
    [].

%% Another server might fail for being asked what supervisors are.
is_supervisor(P) ->
    case proc_lib:translate_initial_call(P) of
        {supervisor, _, _} -> true;
        _ -> false
    end.

ask(Sup, What) ->
    try gen_server:call(Sup, What, ?SUPERVISOR_MS)
    catch exit:_ -> kprof_refusal:refuse("the supervisor ~tw does not answer", [kprof_injected:name(Sup)])
    end.

%% On OTP 25 and 26 a process has one tracer, and the one for new processes is
%% one setting for all. Refuses where that is in the way; else those to pass over.
foreign(legacy, Chosen) when Chosen =/= unflagged ->
    {tracer, New} = erlang:trace_info(new_processes, tracer),
    is_list(Chosen) orelse Chosen =:= existing orelse New =:= [] orelse
        kprof_refusal:refuse("new processes are traced by ~tw there (kprofd? kprof count without -processes needs no processes, and"
                             " OTP 27 has sessions)", [New]),
    Traced = traced_by_others(none),
    Both = [P || is_list(Chosen), P <- Chosen, is_map_key(P, Traced)],
    Both =:= [] orelse kprof_refusal:refuse("~tw is traced by somebody else (kprofd? OTP 27 has sessions)", [kprof_injected:name(hd(Both))]),
    Traced;
foreign(_, _) ->
    #{}.

%% #{Process => is its tracer told of calls?}, but for those of one tracer.
traced_by_others(But) ->
    {N, Found} = kprof_flagger:walk_found(fun(P) ->
                                                  case erlang:trace_info(P, tracer) of
                                                      {tracer, T} when T =/= [], T =/= But -> {found, {P, is_told_of_calls(P)}};
                                                      _ -> skip
                                                  end
                                          end),
    N > length(Found) andalso kprof_refusal:refuse("~b processes are traced by somebody else (OTP 27 has sessions)", [N]),
    maps:from_list(Found).

is_told_of_calls(P) ->
    case erlang:trace_info(P, flags) of
        {flags, Flags} -> lists:member(call, Flags);
        undefined -> false
    end.

%% The sentry knows of it before. What runs native code has its flags when it lets
%% the walk in, which goes on until they are taken.
flag(Chosen, Tracer, Flags, #s{session = Session} = S0) ->
    S = S0#s{walk = wanted},
    tell_sentry(S),
    S#s{walk = kprof_flagger:flags_start(Session, Tracer, [{true, Flags}], Chosen)}.

%% It has come to its end by itself.
walk_over(_, #s{walk = Walk} = S) when is_atom(Walk) -> S;
walk_over(Pid, #s{walk = Walk} = S) ->
    case kprof_flagger:walk_pid(Walk) of
        Pid -> S#s{walk = wanted};
        _ -> S
    end.

unflag(#s{walk = Walk}) when is_atom(Walk) -> ok;
unflag(#s{walk = Walk}) -> kprof_flagger:walk_stop(Walk).

%% ------------------------------------------------- a call made for us ----

%% none, {M, F, Args} of a plain call, whose arguments are made before it is
%% counted, or {exprs, Exprs}.
call_of(<<>>) ->
    none;
call_of(Text) ->
    Chars = unicode:characters_to_list(Text),
    is_list(Chars) orelse kprof_refusal:refuse("what -apply has is no UTF-8", []),
    case erl_scan:string(Chars, {1, 1}) of
        {ok, Tokens, End} ->
            case erl_parse:parse_exprs(dotted(Tokens, End)) of
                {ok, Exprs} ->
                    %% `_` is what is loaded.
                    _ = [code:ensure_loaded(M) || M <- modules_in(Tokens)],
                    plain_call(Exprs);
                {error, Why} -> no_expression(Why)
            end;
        {error, Why, _} -> no_expression(Why)
    end.

%% The parser passes over what comes after a dot.
dotted([{dot, At}, _ | _], _) -> no_expression({At, erl_parse, ["words after '.' (',' separates expressions)", []]});
dotted([{dot, _}] = Last, _) -> Last;
dotted([Token | More], End) -> [Token | dotted(More, End)];
dotted([], End) -> [{dot, End}].

modules_in([{atom, _, M} | [{':', _} | _] = More]) -> [M | modules_in(More)];
modules_in([_ | More]) -> modules_in(More);
modules_in([]) -> [].

plain_call([{call, _, {remote, _, {atom, _, M}, {atom, _, F}}, Args}]) -> {M, F, Args};
plain_call(Exprs) -> {exprs, Exprs}.

-spec no_expression({{pos_integer(), pos_integer()}, module(), term()}) -> no_return().
no_expression({{Line, Column}, Module, Why}) ->
    kprof_refusal:refuse("what -apply has is no expression: ~ts in line ~b, column ~b", [Module:format_error(Why), Line, Column]).

is_evaluated({exprs, _}) -> true;
is_evaluated(_) -> false.

%% The process waits to be counted, and before it ends: what it gave is made into
%% text when nothing is counted any more.
-dialyzer({nowarn_function, prepare/2}).     % its process always exits
prepare(none, _) ->
    undefined;
prepare(Call, Ms) ->
    Server = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       Ready = ready(Call),
                                       Server ! {prepared, self()},
                                       receive go -> ok end,
                                       Result = applied(Ready),
                                       Server ! {evaluated, self()},
                                       told(Server, Result)
                               end),
    {Pid, Ref, Ms}.

%% To a trace it ends here (src/profile/trace/call_term.c).
told(Server, Result) ->
    receive {tell, Server} -> exit({applied, result_text(Result)}) end.

%% The sentry knows of it before its arguments, which may take long, are made.
prepared(#s{applied = Applied} = S) ->
    tell_sentry(S),
    Applied =:= undefined orelse await_prepared(Applied),
    S.

await_prepared({Pid, Ref, Ms}) ->
    receive
        {prepared, Pid} -> ok;
        {'DOWN', Ref, process, Pid, {arguments, Why}} -> kprof_refusal:refuse("the call's arguments: ~ts", [Why])
    after Ms ->
            exit(Pid, kill),
            kprof_refusal:refuse("the call's arguments were not made within ~b ms", [Ms])
    end.

ready({exprs, _} = Exprs) ->
    Exprs;
ready({M, F, Exprs}) ->
    try
        {M, F, [begin {value, V, _} = erl_eval:expr(E, []), V end || E <- Exprs]}
    catch
        _:Why -> exit({arguments, kprof_term_text:value_text(Why, ?REASON_MAX)})
    end.

%% Nothing but the call: whatever else ran in this process would be counted. Of
%% other expressions the evaluator is.
applied(Ready) ->
    try
        case Ready of
            {exprs, Exprs} -> element(2, erl_eval:exprs(Exprs, []));
            {M, F, Args} -> apply(M, F, Args)
        end
    of
        Value -> {returned, Value}
    catch
        Class:Reason -> {Class, Reason}
    end.

result_text({returned, Value}) -> {returned, kprof_term_text:value_text(Value, ?VALUE_MAX)};
result_text({Class, Reason}) -> {raised, kprof_refusal:text("~w:~ts", [Class, kprof_term_text:value_text(Reason, ?REASON_MAX)])}.

%% It has its value, and is not counted any more.
tell_value({Pid, _, _}) ->
    Pid ! {tell, self()},
    ok.

%% What is told of what has become of the call, by the reason that its process
%% ended for.
outcome({applied, {returned, Value}}, _) -> [{kprof_value, Value}, {kprof_ended, returned, 0}];
outcome({applied, {raised, Text}}, _) -> [{kprof_ended, raised, Text}];
outcome(killed, {_, _, overran}) -> [{kprof_ended, overran, 0}];
outcome(Reason, _) -> [{kprof_ended, exited, kprof_refusal:text("~0tP", [Reason, 8])}].

stop_call({Pid, _, _}) -> exit(Pid, kill);
stop_call(_) -> ok.

%% --------------------------------------------------- sessions and flags ----

%% On OTP 25 and 26 a counter is everybody's, and setting it sets it back.
untraced(legacy, Functions) ->
    case [MFA || MFA <- Functions, is_traced(MFA)] of
        [] -> ok;
        Taken ->
            kprof_refusal:refuse("somebody else traces or counts ~ts: -exclude ~ts leaves it out (OTP 27 has sessions of their own)",
                                 [lists:join(", ", [mfa_text(F) || F <- lists:sublist(Taken, ?NAMED)]), mfa_text(hd(Taken))])
    end;
untraced(_, _) ->
    ok.

%% For all of it, which stops the schedulers for a moment: to ask for less goes
%% through somebody's tables of times, if there are any, while they change.
is_traced(MFA) ->
    case erlang:trace_info(MFA, all) of
        {all, Items} when is_list(Items) ->
            lists:any(fun({Item, V}) -> V =/= false andalso V =/= undefined andalso Item =/= match_spec end, Items);
        _ -> false
    end.

mfa_text({M, F, A}) ->
    case atom_to_list(M) of
        "Elixir." ++ Alias -> io_lib:format("~ts.~ts/~b", [Alias, F, A]);
        _ -> io_lib:format("~tw:~tw/~b", [M, F, A])
    end.

%% ----------------------------------------------------- while it is there ----

%% What is armed is in this; what the node's work keeps in tables and binaries, and
%% lets go of, is not.
own_memory() ->
    [{system, All}, {ets, Tables}, {binary, Binaries}] = erlang:memory([system, ets, binary]),
    All - Tables - Binaries.

%% When N patterns are set: before OTP 29 a counter of time or memory takes a
%% table for each scheduler, 800 bytes or more, so that 20,000 functions take 50 MiB
%% with 2 schedulers and 1 GiB with 64.
arm_look(N, #s{memory = Memory, memory_max = Max}) when N rem ?ARM_LOOK =:= 0 ->
    own_memory() - Memory > Max andalso
        kprof_refusal:refuse("to arm so many functions takes the node more than ~b MiB: name fewer, or see -max-memory", [Max bsr 20]);
arm_look(_, _) ->
    ok.

%% Between two steps of what takes long: for so long only what ends it is heard.
heed(Ms, #s{client = Client, client_ref = Ref} = S) ->
    receive
        {'DOWN', Ref, process, _, Reason} -> finish({gone, Reason}, S);
        {kprof, Client, _, stop} -> finish(done, S);
        {?MODULE, stop} -> finish(stopped, S)
    after Ms -> ok
    end.

%% What took us long was not the client's silence: its word may wait behind a
%% tick, or behind events.
look_lease(#s{client = Client} = S) ->
    Expired = kprof_injected:now_ms() - S#s.lease_at > S#s.lease_ms,
    receive
        {kprof, Client, _, lease} when Expired -> S#s{lease_at = kprof_injected:now_ms()}
    after 0 ->
            Expired andalso finish(lease, S),
            S
    end.

%% ------------------------------------------------------------------ end ----

%% The sentry does what is left, and has the module purged.
-spec finish(term(), #s{}) -> no_return().
finish(Reason, S) ->
    stop_call(S#s.applied),
    clear(S),
    word_restore(S#s.word),
    logger:notice("kprof ~s no more for ~ts: ~ts", [?DOES, S#s.who, reason_text(Reason)]),
    exit({kprof, Reason}).

reason_text(done) -> "it is done";
reason_text(stopped) -> "stopped by " ?MODULE_STRING ":stop()";
reason_text(collected) -> "somebody else has begun to trace garbage collection, and two would crash this VM (erlang/otp#11624)";
reason_text(lease) -> "its lease ran out";
reason_text({gone, _}) -> "the connection is gone".

%% What the sentry tells the client.
end_text({kprof, Reason}) -> kprof_refusal:text("~ts", [reason_text(Reason)]);
end_text(Reason) -> kprof_refusal:text("it died: ~0tP", [Reason, 8]).

%% Flags first: without them no event is made while many patterns go, one by one.
clear(#s{session = legacy} = S) ->
    unflag(S),
    clear_legacy(legacy_tracer(self()), S#s.walk =/= none andalso S#s.walk =/= cleared, legacy_armed(S));
clear(#s{session = Session} = S) ->
    unflag(S),
    trace:session_destroy(Session),
    ok.

clear_legacy(Tracer, Flagged, Armed) ->
    Flagged andalso kprof_flagger:flags_clear(legacy, Tracer, ?CLEAR_MS),
    lists:foreach(fun legacy_clear/1, Armed),
    Flagged andalso kprof_flagger:flags_clear(legacy, Tracer, ?CLEAR_MS),
    ok.

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

sentry(Ref, Server, {Client, _, _, _, _} = Own) ->
    receive
        {own, New} ->
            sentry(Ref, Server, New);
        {'DOWN', Ref, process, Server, Reason} ->
            take_back(Reason, Server, Own),
            erlang:send(Client, {kprof_ended, gone, end_text(Reason)}, [noconnect, nosuspend]),
            kprof_injected:purger_start(?MODULE, ?GUESTS, [Server, self()]);
        _ ->
            sentry(Ref, Server, Own)
    end.

take_back(Reason, Server, {_, Legacy, Armed, Applied, Word}) ->
    stop_call(Applied),
    Legacy =:= no orelse clear_legacy(legacy_tracer(Server), Legacy =:= flagged, still_armed(Reason, Armed)),
    word_restore(still(Reason, Word)),
    keep(fun(Opts) -> application:unset_env(kprof, ?MODULE, Opts) end).

%% For stop/0, where nobody is left who knows. It can do without.
keep(Change) ->
    try Change([{timeout, ?KEEP_MS}]) catch _:_ -> ok end.

%% All but flags that were inherited just then is taken back by finish/2.
still_armed({kprof, _}, _) -> [];
still_armed(_, Armed) -> Armed.

still({kprof, _}, _) -> undefined;
still(_, Word) -> Word.

%% Requests are numbered by the trace control word, which is one for the node,
%% as the system tracer is, which goes when it is dead. A kprofd that has come
%% meanwhile counts with the word, and would count some numbers twice.
word_restore(undefined) -> ok;
word_restore(Word) ->
    seq_trace:get_system_tracer() =:= self() andalso seq_trace:set_system_tracer(false),
    whereis(kprof_agent) =:= undefined andalso erlang:system_flag(trace_control_word, Word).

%% Before it is so.
tell_sentry(#s{session = Session} = S) ->
    Legacy = if Session =/= legacy -> no;
                S#s.walk =:= none -> unflagged;
                true -> flagged
             end,
    Own = {S#s.client, Legacy, legacy_armed(S), S#s.applied, S#s.word},
    element(1, S#s.sentry) ! {own, Own},
    keep(fun(Opts) -> application:set_env(kprof, ?MODULE, {self(), Own}, Opts) end).

%% In the place of one that was killed.
new_sentry(S0) ->
    S = S0#s{sentry = sentry_start()},
    tell_sentry(S),
    S.

%% ---------------------------------------------------------------- small ----

names() ->
    [{P, N} || N <- lists:sublist(registered(), ?NAMES), P <- [whereis(N)], is_pid(P)].
