%% kprof_counters - what `kprof count`, `time` and `memory` put into a node.
%%
%% Loaded over the distribution, started for one client, and gone with it. It
%% has the VM count calls, and the time or the memory of them, of the functions
%% that it is given, until it is told to read the counters. For an operator of
%% the node: kprof_counters:stop() ends it, and {kprof, [{disabled, true}]} in
%% the node's configuration keeps it out.
%%
%% What is safe about it: no event is sent and no argument looked at, only the
%% VM's own counters are used; how many functions and processes, how much memory
%% and how many rows of an answer is bounded; where to read stops the schedulers
%% it rests as long as it read; it monitors the client and holds a lease, and when
%% either ends it takes back what it armed.
%%
%% Two processes, as in kprof_agent: the server, and a sentry that cleans up
%% behind it however it ended. From OTP 27 on all is in one trace session, whose
%% only handle is the server's. On 25 and 26 counters and flags are everybody's:
%% functions that somebody else traces or counts are refused, and processes that
%% somebody else traces are left alone.
-module(kprof_counters).

-export([start/2, stop/0]).

-define(GUESTS, [?MODULE]).
-include("kprof_guest.hrl").
-include("kprof_wanted.hrl").

-define(TICK_MS, 500).          % how often lease and memory are looked at
-define(RETRY_MS, 20).          % where the connection takes nothing
-define(CHUNK, 200).            % functions that are read between two looks
-define(START_MS, 60000).       % arming, on a node that is busy
-define(NAMED, 5).              % functions that an error names
-define(NAMES, 10000).          % registered names in an answer
-define(SUPERVISOR_MS, 5000).   % a supervisor's answer

-record(s, {
    client, client_ref,
    sentry,             % {Pid, MonitorRef}
    who,                % binary, for the log
    session,            % trace session (OTP 27+) or legacy
    kind,               % call_count | call_time | call_memory
    by,                 % total | process
    lease_ms, lease_at,
    armed = [],         % {M, '_', '_'} or {M, F, A}: what patterns were set
    functions = [],     % the same, each by itself
    foreign = #{},      % processes that somebody else traces (legacy)
    applied,            % undefined | {Pid, MonitorRef, Ms | overran} | done
    memory_max, memory, % bytes of the VM's own, past those at the start
    since,              % monotonic ns
    paused,             % monotonic ns; undefined while it counts
    rows_max
}).

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
        {'DOWN', Ref, process, Pid, {kprof, Reason}} ->
            refusal("~ts", [reason_text(Reason)]);
        {'DOWN', Ref, process, Pid, Reason} ->
            refusal("kprof_counters failed there: ~0tP", [Reason, 20])
    after ?START_MS ->
            exit(Pid, kill),
            refusal("it was not armed within ~b s (fewer functions?)", [?START_MS div 1000])
    end.

init(Starter, Client, #{who := Who, type := Type, by := By, lease_ms := Lease, apply := Apply, apply_ms := ApplyMs,
                        processes := Which, max_memory := MaxMemory, max_rows := MaxRows} = Opts) ->
    try register(?MODULE, self()) of
        true -> ok
    catch
        error:badarg -> refuse("somebody counts there already (kprof_counters:stop() there ends it)", [])
    end,
    supports(Type),
    Call = call_of(Apply),
    Session = session_new(?MODULE),
    {Armed, Functions} = wanted(Opts),
    untraced(Session, Functions),
    Counted = whose(Which, Call),
    Kind = kind(Type, By, Counted),
    S0 = #s{client = Client, client_ref = erlang:monitor(process, Client), sentry = sentry_start(), who = Who,
            session = Session, kind = Kind, by = By, lease_ms = Lease, armed = Armed, functions = Functions,
            memory_max = MaxMemory, rows_max = MaxRows},
    tell_sentry(S0),
    S1 = S0#s{applied = prepare(Call, ApplyMs)},
    tell_sentry(S1),
    Chosen = chosen(Counted, Opts, S1),
    S = S1#s{foreign = foreign(Session, Chosen)},
    logger:notice("kprof counts calls for ~ts (kprof_counters:stop() ends it)", [Who]),
    %% Flags last: by process, all functions count from the same moment on.
    each(true, S),
    Processes = flag(Chosen, flags(Session, Opts), S),
    Starter ! {self(), #{functions => length(Functions), processes => Processes,
                         otp => erlang:system_info(otp_release), skipped => map_size(S#s.foreign)}},
    tick(),
    Now = now_ns(),
    loop(S#s{since = Now, lease_at = Now div 1000000, memory = own_memory()}).

supports(memory) ->
    case list_to_integer(erlang:system_info(otp_release)) of
        Otp when Otp < 26 ->
            refuse("memory is counted from OTP 26 on, and this is ~b (kprof count and kprof time work there)", [Otp]);
        _ -> ok
    end;
supports(_) -> ok.

%% The process of a call that is made for us, if nobody else is named.
whose(<<>>, none) -> <<"all">>;
whose(<<>>, _) -> applied;
whose(Which, _) -> Which.

%% call_count counts all processes in one sum, at the least price.
kind(memory, _, _) -> call_memory;
kind(time, _, _) -> call_time;
kind(count, total, <<"all">>) -> call_count;
kind(count, _, _) -> call_time.

%% ------------------------------------------------------------ processes ----

%% Whose calls count; all: one counter for all of them needs no flags.
chosen(applied, _, #s{applied = {Pid, _, _}}) ->
    [Pid];
chosen(_, _, #s{kind = call_count}) ->
    unflagged;
chosen(Which, #{max_processes := Max}, _) ->
    Chosen = named(Which),
    N = case Chosen of
            _ when is_list(Chosen) -> length(Chosen);
            new -> 0;
            _ -> erlang:system_info(process_count)
        end,
    N > Max andalso refuse("these are ~b processes, more than ~b (choose with -processes, or see -max-processes)",
                           [N, Max]),
    Chosen.

named(<<"all">>) -> all;
named(<<"existing">>) -> existing;
named(<<"new">>) -> new;
named(Names) ->
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

%% On OTP 25 and 26 a process has one tracer, and the one for new processes is
%% one setting for all. Refuses where that is in the way; else those to pass over.
foreign(legacy, Chosen) when Chosen =/= unflagged ->
    {tracer, New} = erlang:trace_info(new_processes, tracer),
    is_list(Chosen) orelse Chosen =:= existing orelse New =:= [] orelse
        refuse("new processes are traced by ~tw there (kprofd? kprof count without -processes needs no processes, and"
               " OTP 27 has sessions)", [New]),
    Traced = maps:from_list([{P, traced} || P <- processes(), {tracer, T} <- [erlang:trace_info(P, tracer)], T =/= []]),
    Both = [P || is_list(Chosen), P <- Chosen, is_map_key(P, Traced)],
    Both =:= [] orelse refuse("~tw is traced by somebody else (kprofd? OTP 27 has sessions)", [name(hd(Both))]),
    Traced;
foreign(_, _) ->
    #{}.

%% Silent: patterns of somebody else's would have these processes send us what
%% they call, with its arguments. In a session there are none.
flags(legacy, Opts) -> [silent | flags(session, Opts)];
flags(_, #{spawned := true}) -> [call, set_on_spawn];
flags(_, _) -> [call].

%% Returns how many there are now.
flag(unflagged, _, _) ->
    erlang:system_info(process_count);
flag(Chosen, Flags, S) when is_list(Chosen) ->
    lists:sum([flag_process(P, Flags, S) || P <- Chosen]);
flag(Which, Flags, S) ->
    trace_process(Which, Flags, S).

%% One that has ended meanwhile counts nothing.
flag_process(P, Flags, S) ->
    try trace_process(P, Flags, S) catch error:badarg -> 0 end.

trace_process(Which, Flags, #s{session = legacy}) -> erlang:trace(without_ports(Which), true, Flags);
trace_process(Which, Flags, #s{session = Session}) -> trace:process(Session, Which, true, Flags).

%% Ports can be silent, too.
without_ports(all) -> processes;
without_ports(existing) -> existing_processes;
without_ports(new) -> new_processes;
without_ports(Pid) -> Pid.

%% ------------------------------------------------- a call made for us ----

call_of(<<>>) ->
    none;
call_of(Text) ->
    Bad = fun() -> refuse("'~ts' is no call such as \"lists:seq(1, 10)\" or \"'Elixir.MyApp':run()\"", [Text]) end,
    case erl_scan:string(unicode:characters_to_list(Text) ++ ".") of
        {ok, Tokens, _} ->
            case erl_parse:parse_exprs(Tokens) of
                {ok, [{call, _, {remote, _, {atom, _, M}, {atom, _, F}}, Args}]} -> {M, F, Args};
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

%% ----------------------------------------------------------------- loop ----

loop(S) ->
    receive
        {kprof, Client, Ref, Cmd} when Client =:= S#s.client ->
            S1 = command(Cmd, Ref, S),
            %% Afterwards: what took us long was not the client's silence.
            loop(S1#s{lease_at = now_ms()});
        tick ->
            tick(),
            look(S);
        {'DOWN', Ref, process, _, Reason} when Ref =:= element(2, S#s.applied) ->
            loop(ended(Reason, S));
        {overran, Ref} when Ref =:= element(2, S#s.applied) ->
            exit(element(1, S#s.applied), kill),
            loop(S#s{applied = setelement(3, S#s.applied, overran)});
        {'DOWN', Ref, process, _, Reason} when Ref =:= S#s.client_ref ->
            finish({gone, Reason}, S);
        {'DOWN', Ref, process, _, _} when Ref =:= element(2, S#s.sentry) ->
            S1 = S#s{sentry = sentry_start()},
            tell_sentry(S1),
            loop(S1);
        {?MODULE, stop} ->
            finish(stopped, S);
        _ ->
            loop(S)
    end.

tick() ->
    erlang:send_after(?TICK_MS, self(), tick).

look(#s{paused = undefined, memory = Memory, memory_max = Max} = S) ->
    case own_memory() - Memory of
        More when More > Max ->
            S1 = pause(S),
            send({kprof_ended, memory, More}, S1),
            loop(S1);
        _ -> look_lease(S)
    end;
look(S) ->
    look_lease(S).

%% Counters are in this; what the node's work keeps in tables and binaries, and
%% lets go of, is not.
own_memory() ->
    [{system, All}, {ets, Tables}, {binary, Binaries}] = erlang:memory([system, ets, binary]),
    All - Tables - Binaries.

%% What took us long was not the client's silence: its word may wait behind a tick.
look_lease(#s{client = Client} = S) ->
    Expired = now_ms() - S#s.lease_at > S#s.lease_ms,
    receive
        {kprof, Client, _, lease} when Expired -> loop(S#s{lease_at = now_ms()})
    after 0 ->
            Expired andalso finish(lease, S),
            loop(S)
    end.

command(lease, _, S) ->
    S;
command(go, _, #s{applied = {Pid, Ref, Ms}} = S) ->
    erlang:send_after(Ms, self(), {overran, Ref}),
    Pid ! go,
    S;
command(go, _, S) ->
    S;
command(peek, Ref, #s{paused = undefined} = S) ->
    read(S#s.functions, Ref, #{gone => 0, merged => 0, left => S#s.rows_max}, S#s{paused = now_ns()}),
    S;
command(Read, Ref, S0) when Read =:= read; Read =:= peek ->
    S = pause(S0),
    read(S#s.functions, Ref, #{gone => 0, merged => 0, left => S#s.rows_max}, S),
    S;
command(stop, _, S) ->
    finish(done, S).

%% The call has come to its end: at once nothing is counted any more.
ended(Reason, S0) ->
    S = pause(S0),
    Outcome = case Reason of
                  {applied, returned} -> {kprof_ended, returned, 0};
                  {applied, {Class, Why}} -> {kprof_ended, raised, text("~w:~tw", [Class, Why])};
                  killed when element(3, S0#s.applied) =:= overran -> {kprof_ended, overran, 0};
                  _ -> {kprof_ended, exited, text("~0tP", [Reason, 8])}
              end,
    send(Outcome, S),
    S1 = S#s{applied = done},
    tell_sentry(S1),
    S1.

text(Format, Args) ->
    unicode:characters_to_binary(io_lib:format(Format, Args)).

%% ------------------------------------------------------------- counters ----

pause(#s{paused = undefined} = S) ->
    each(pause, S),
    S#s{paused = now_ns()};
pause(S) ->
    S.

%% Many of them take long on a busy node.
each(What, #s{session = Session, kind = Kind, armed = Armed} = S) ->
    [begin pattern(Session, P, What, Kind), heed(0, S) end || P <- Armed],
    ok.

%% Rows go as they are read. To read time or memory stops all schedulers, once for
%% each function: the node has as much time in between as that took.
read([], Ref, #{gone := Gone, merged := Merged}, S) ->
    reply(Ref, #{elapsed => S#s.paused - S#s.since, gone => Gone, merged => Merged, names => names(S)}, S);
read(Functions, Ref, Sums0, S) ->
    Began = now_ms(),
    {Now, Later} = lists:split(min(?CHUNK, length(Functions)), Functions),
    {Rows, Sums} = lists:foldl(fun(MFA, Acc) -> row(MFA, Acc, S) end, {[], Sums0}, Now),
    Rows =:= [] orelse send({kprof_rows, Ref, Rows}, S),
    heed(now_ms() - Began, S),
    read(Later, Ref, Sums, S).

%% For so long only what ends it is heard.
heed(Ms, #s{client = Client, client_ref = Ref} = S) ->
    receive
        {'DOWN', Ref, process, _, Reason} -> finish({gone, Reason}, S);
        {kprof, Client, _, stop} -> finish(done, S);
        {?MODULE, stop} -> finish(stopped, S)
    after Ms -> ok
    end.

row({M, F, A} = MFA, {Rows, #{gone := Gone} = Sums}, #s{session = Session, kind = Kind} = S) ->
    case counter(Session, MFA, Kind) of
        0 -> {Rows, Sums};
        [] -> {Rows, Sums};
        N when is_integer(N) -> {[{M, F, A, N, 0, []} | Rows], Sums};
        All when is_list(All) ->
            case [sum(P) || P <- All, not is_map_key(element(1, P), S#s.foreign)] of
                [] -> {Rows, Sums};
                Ps ->
                    {Calls, Value} = total(Ps),
                    {Shown, Sums1} = shown(Ps, Sums, S),
                    {[{M, F, A, Calls, Value, Shown} | Rows], Sums1}
            end;
        _ -> {Rows, Sums#{gone := Gone + 1}}
    end.

sum({Pid, Calls, S, Us}) -> {Pid, Calls, S * 1000000 + Us};
sum({Pid, Calls, Words}) -> {Pid, Calls, max(0, Words)}.        % signed in the VM

total(Ps) ->
    lists:foldl(fun({_, C, V}, {Calls, Value}) -> {Calls + C, Value + V} end, {0, 0}, Ps).

%% No more rows than the client wants: the greatest, and the rest in one.
shown(_, Sums, #s{by = total}) ->
    {[], Sums};
shown(Ps, #{left := Left, merged := Merged} = Sums, _) ->
    case length(Ps) of
        N when N =< Left -> {Ps, Sums#{left := Left - N}};
        N ->
            {Most, Rest} = lists:split(Left, lists:reverse(lists:keysort(3, Ps))),
            {Calls, Value} = total(Rest),
            {Most ++ [{others, Calls, Value}], Sums#{left := 0, merged := Merged + N - Left}}
    end.

names(#s{by = total}) -> [];
names(_) ->
    [{P, N} || N <- lists:sublist(registered(), ?NAMES), P <- [whereis(N)], is_pid(P)].

reply(Ref, Result, S) ->
    send({kprof_reply, Ref, Result}, S).

%% Waits while the connection is busy, but not for a client that has gone or
%% hangs.
send(Msg, S) ->
    send(Msg, now_ms() + S#s.lease_ms, S).

send(Msg, Deadline, #s{client_ref = Ref} = S) ->
    case erlang:send(S#s.client, Msg, [noconnect, nosuspend]) of
        ok -> ok;
        _ ->
            now_ms() > Deadline andalso finish(lease, S),
            receive {'DOWN', Ref, process, _, Reason} -> finish({gone, Reason}, S)
            after ?RETRY_MS -> send(Msg, Deadline, S)
            end
    end.

%% ------------------------------------------------------------------ end ----

%% The sentry does what is left, and has the module purged.
-spec finish(term(), #s{}) -> no_return().
finish(Reason, S) ->
    stop_call(S#s.applied),
    clear(S#s.session, self(), S#s.kind, S#s.armed),
    logger:notice("kprof counts no more for ~ts: ~ts", [S#s.who, reason_text(Reason)]),
    exit({kprof, Reason}).

reason_text(done) -> "it is done";
reason_text(stopped) -> "stopped by kprof_counters:stop()";
reason_text(lease) -> "its lease ran out";
reason_text({gone, _}) -> "the connection is gone".

%% What the sentry tells the client.
end_text({kprof, Reason}) -> text("~ts", [reason_text(Reason)]);
end_text(Reason) -> text("it died: ~0tP", [Reason, 8]).

stop_call({Pid, _, _}) -> exit(Pid, kill);
stop_call(_) -> ok.

clear(legacy, Server, Kind, Armed) ->
    [pattern(legacy, P, false, Kind) || P <- Armed],
    clear_flags(Server);
clear(Session, _, _, _) ->
    trace:session_destroy(Session),
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

sentry(Ref, Server, {Client, Legacy, Kind, Armed, Applied} = Own) ->
    receive
        {own, New} ->
            sentry(Ref, Server, New);
        {'DOWN', Ref, process, Server, Reason} ->
            stop_call(Applied),
            Legacy andalso clear(legacy, Server, Kind, still_armed(Reason, Armed)),
            erlang:send(Client, {kprof_ended, gone, end_text(Reason)}, [noconnect, nosuspend]),
            purger_start([Server, self()]);
        _ ->
            sentry(Ref, Server, Own)
    end.

%% All but flags that were inherited just then is taken back by finish/2.
still_armed({kprof, _}, _) -> [];
still_armed(_, Armed) -> Armed.

%% Before it is so.
tell_sentry(#s{session = Session} = S) ->
    element(1, S#s.sentry) ! {own, {S#s.client, Session =:= legacy, S#s.kind, S#s.armed, S#s.applied}},
    ok.

%% ------------------------------------------------- the two trace back ends ----

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

%% For all of it, which stops the schedulers for a moment: to ask for less goes
%% through somebody's tables of times, if there are any, while they change.
is_traced(MFA) ->
    case erlang:trace_info(MFA, all) of
        {all, Items} when is_list(Items) ->
            lists:any(fun({Item, V}) -> V =/= false andalso V =/= undefined andalso Item =/= match_spec end, Items);
        _ -> false
    end.

mfa_text({M, F, A}) ->
    io_lib:format("~tw:~tw/~b", [M, F, A]).

pattern(legacy, MFA, What, Kind) ->
    erlang:trace_pattern(MFA, What, [Kind]);
pattern(Session, MFA, What, Kind) ->
    trace:function(Session, MFA, What, [Kind]).

%% An integer or a list; else it is not counted (any more).
counter(legacy, MFA, Kind) ->
    {Kind, V} = erlang:trace_info(MFA, Kind),
    V;
counter(Session, MFA, Kind) ->
    {Kind, V} = trace:info(Session, MFA, Kind),
    V.
