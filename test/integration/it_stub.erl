%% it_stub - a test's hands and eyes inside the target.
%%
%% It connects to the test runner over TCP, not over the distribution, so that
%% looking does not disturb what is looked at; and the node halts when that
%% connection goes, so that no target outlives its test.
-module(it_stub).

-export([start/1, snapshot/0, armed/1, is_exact/1, sessions/0, ours/0, agent/0, state/0, runs/1]).
-export([hold_attach/0, held_attach/0, release_attach/0]).

-define(AGENT, kprof_agent).
-define(COUNTERS, kprof_counters).
-define(STATE, [registered_name, status, current_stacktrace, message_queue_len, message_queue_data, memory,
                total_heap_size, reductions, priority, garbage_collection, dictionary]).

%% From the command line: -s it_stub start PORT [ADDRESS]
%% Two connections: the second is for a look at a node whose first one is at work, or hangs.
start([Port]) -> start([Port, '127.0.0.1']);
start([Port, Address]) ->
    spawn(fun() ->
                  S = connected(Port, Address),
                  hello(S),
                  spawn(fun() -> serve(connected(Port, Address)) end),
                  serve(S)
          end).

connected(Port, Address) ->
    {ok, S} = gen_tcp:connect(atom_to_list(Address), list_to_integer(atom_to_list(Port)),
                              [binary, {packet, 4}, {active, false}]),
    S.

hello(S) ->
    send(S, {hello, #{otp => list_to_integer(erlang:system_info(otp_release)),
                      erts => erlang:system_info(version), node => node(), pid => os:getpid()}}).

%% Each request runs in this process: those it looks for are never its own.
serve(S) ->
    case gen_tcp:recv(S, 0) of
        {ok, Bytes} ->
            Answer = try {ok, do(binary_to_term(Bytes))}
                     catch Class:Reason:Stack -> {raised, {Class, Reason, Stack}}
                     end,
            send(S, Answer),
            serve(S);
        {error, _} ->
            erlang:halt(0, [{flush, false}])
    end.

send(S, Term) ->
    ok = gen_tcp:send(S, term_to_binary(Term)).

do({M, F, A}) -> apply(M, F, A);
do(Fun) when is_function(Fun, 0) -> Fun().

%% All that a profiler could leave behind, so that two of them can be compared.
snapshot() ->
    #{module => [code:is_loaded(M) || M <- [?AGENT, ?COUNTERS]],
      old_code => [erlang:check_old_code(M) || M <- [?AGENT, ?COUNTERS]],
      registered => lists:sort(registered()),
      processes => lists:sort([what(P) || P <- processes(), P =/= self()]),
      ours => ours(),
      patterns => patterns(),
      on_load => erlang:trace_info(on_load, all),
      flags => [{P, F} || P <- processes() ++ erlang:ports(),
                          (F = trace_flags(P)) =/= none],
      new_processes => trace_flags(new_processes),
      new_ports => trace_flags(new_ports),
      system_tracer => seq_trace:get_system_tracer(),
      sessions => sessions(),
      control_word => erlang:system_info(trace_control_word),
      ets => length([T || T <- ets:all(), is_of_node(ets:info(T, name))]),
      persistent_terms => maps:get(count, persistent_term:info()),
      environment => [lists:sort(application:get_all_env(A)) || A <- [kernel, stdlib, kprof, kprof_kept]],
      logger => {logger:get_primary_config(), logger:get_handler_ids()},
      nodes => nodes(connected)}.

%% On OTP 29 each connection of TLS has a table, as long as it is there.
is_of_node(tls_socket) -> false;
is_of_node(_) -> true.

%% Enough to tell one kind of process from another; pids differ and go.
what(P) ->
    case process_info(P, [registered_name, initial_call, dictionary, priority]) of
        undefined -> gone;
        [{_, Name}, {_, Init}, {_, Dict}, {_, Priority}] ->
            {Name, proplists:get_value('$initial_call', Dict, Init), Priority}
    end.

%% Processes that run code of ours or were started by it.
ours() ->
    [{P, Info} || P <- processes(), P =/= self(),
                  Info <- [process_info(P, [initial_call, current_stacktrace])],
                  is_ours(Info)].

is_ours(undefined) -> false;
is_ours([{_, Init}, {_, Stack}]) ->
    Mods = [element(1, Init) | [M || {M, _, _, _} <- Stack]],
    lists:any(fun(M) -> lists:member(M, Mods) end, [?AGENT, ?COUNTERS, erl_eval]).

%% What the agent says of itself, or gone.
agent() ->
    try kprof_agent:status() of
        #{} = Status -> Status;
        _ -> gone
    catch
        error:undef -> gone
    end.

%% What there is to know of a node whose test has failed: the agent, its sentry and its other
%% processes, by the VM's own account first, which wakes nobody, then twice by questions, which
%% the processes have to answer and may never answer.
state() ->
    Silent = erlang:system_info(procs),
    Ours = ours_by_name(),
    Asked = [begin
                 receive after Ms -> ok end,
                 {look, [{P, asked(fun() -> process_info(P, ?STATE) end)} || P <- Ours]}
             end || Ms <- [0, 1000]],
    [{processes, [paragraph(P, Silent) || P <- Ours]} | Asked] ++
        [{status, asked(fun agent/0)},
         {run_queues, erlang:statistics(run_queue_lengths_all)},
         {processes, erlang:system_info(process_count)},
         {memory, erlang:memory()},
         {nodes, nodes(connected)},
         {control_word, erlang:system_info(trace_control_word)},
         {new_processes, trace_flags(new_processes)}].

ours_by_name() ->
    lists:usort([P || Name <- [?AGENT, ?COUNTERS, kprof_tracer, kprof_sampler], P <- [whereis(Name)], is_pid(P)] ++
                    [P || P <- processes(), P =/= self(), {M, _} <- [asked(fun() -> runs(P) end)],
                          lists:prefix("kprof", atom_to_list(M))]).

%% {M, F} by which a process of ours shows: some hide their dictionary where there are labels.
runs(P) ->
    case {try process_info(P, label) catch error:badarg -> none end, process_info(P, dictionary)} of
        {{label, {M, F}}, _} when is_atom(M), is_atom(F) -> {M, F};
        {_, {dictionary, Dict}} ->
            case proplists:get_value('$initial_call', Dict) of
                {M, F, _} -> {M, F};
                _ -> none
            end;
        _ -> none
    end.

%% That of a process in what system_info(procs) prints.
paragraph(P, Text) ->
    case binary:split(iolist_to_binary(Text), iolist_to_binary(["=proc:", pid_to_list(P), "\n"])) of
        [_, More] -> {P, string:split(hd(binary:split(More, <<"\n=proc">>)), "\n", all)};
        _ -> {P, none}
    end.

asked(Fun) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({answer, Fun()}) end),
    receive
        {'DOWN', Ref, process, Pid, {answer, Answer}} -> Answer;
        {'DOWN', Ref, process, Pid, Why} -> {failed, Why}
    after 2000 ->
            exit(Pid, kill),
            erlang:demonitor(Ref, [flush]),
            no_answer
    end.

%% Holds the call by which kprofd loads and starts its agent, as a node might
%% that is short of time: a process in rex's place passes everything else on.
hold_attach() ->
    Rex = whereis(rex),
    Holder = spawn(fun() ->
                           unregister(rex),
                           register(rex, self()),
                           hold(Rex, none)
                   end),
    hold_wait(fun() -> whereis(rex) =:= Holder end).

hold(Rex, Held) ->
    receive
        {_, {call, erl_eval, expr, _, _}} = Attach when Held =:= none ->
            hold(Rex, Attach);
        {it_held, From} ->
            From ! {it_held, Held =/= none},
            hold(Rex, Held);
        it_release ->
            unregister(rex),
            register(rex, Rex),
            Held =:= none orelse (Rex ! Held);
        Other ->
            Rex ! Other,
            hold(Rex, Held)
    end.

held_attach() ->
    rex ! {it_held, self()},
    receive {it_held, Held} -> Held end.

release_attach() ->
    Holder = whereis(rex),
    Holder ! it_release,
    hold_wait(fun() -> not is_process_alive(Holder) end).

hold_wait(Fun) ->
    Fun() orelse begin receive after 5 -> ok end, hold_wait(Fun) end.

%% Every function of every loaded module that is traced or counted by anybody
%% outside sessions. (Not `all` and not `call_time`: these stop all schedulers.)
patterns() ->
    [{M, F, A} || {M, _} <- code:all_loaded(), erlang:module_loaded(M),
                  {F, A} <- functions(M), is_armed({M, F, A})].

functions(M) ->
    try M:module_info(functions) catch error:_ -> [] end.

is_armed(MFA) ->
    lists:any(fun(Key) ->
                      {Key, V} = erlang:trace_info(MFA, Key),
                      V =/= false andalso V =/= undefined andalso V =/= []
              end, [traced, meta, call_count]).

%% What these functions are armed with, by anybody, in sessions too.
armed(MFAs) ->
    [{MFA, Session, Key, V}
     || Sessions <- [[legacy | [S || {S, _} <- live_sessions()]]], MFA <- MFAs, Session <- Sessions,
        {Key, V} <- info(Session, MFA), V =/= false, V =/= undefined,
        {Key, V} =/= {meta, []}].

%% Is any match spec of it, of anybody's, one that reports returns?
is_exact(MFA) ->
    Specs = [erlang:trace_info(MFA, match_spec) | [session_info(S, MFA, match_spec) || {S, _} <- live_sessions()]],
    lists:any(fun({match_spec, Clauses}) when is_list(Clauses) ->
                      lists:any(fun({_, _, Actions}) -> lists:any(fun has_exact/1, Actions) end, Clauses);
                 (_) -> false
              end, Specs).

%% By itself, or behind tests.
has_exact({exception_trace}) -> true;
has_exact(Action) when element(1, Action) =:= 'andalso' -> element(tuple_size(Action), Action) =:= {exception_trace};
has_exact(_) -> false.

info(legacy, MFA) ->
    [erlang:trace_info(MFA, K) || K <- [traced, meta, call_count]];
info(Session, MFA) ->
    [session_info(Session, MFA, K) || K <- [traced, call_count]].

%% One that has ended since it was listed has nothing armed.
session_info(Session, MFA, Key) ->
    try
        trace:info(Session, MFA, Key)
    catch
        error:badarg -> {Key, undefined}
    end.

trace_flags(What) ->
    case {erlang:trace_info(What, flags), erlang:trace_info(What, tracer)} of
        {{flags, []}, {tracer, []}} -> none;
        {undefined, _} -> none;
        {_, undefined} -> none;
        {{flags, Flags}, {tracer, Tracer}} -> {Flags, Tracer}
    end.

sessions() ->
    lists:sort([Name || {_, Name} <- live_sessions()]).

%% Up to OTP 26 there is no such module: it is not looked for all the time.
live_sessions() ->
    case list_to_integer(erlang:system_info(otp_release)) >= 27 of
        true -> [{S, name(S)} || S <- trace:session_info(all), name(S) =/= default];
        false -> []
    end.

name({legacy, Name}) -> Name;
name({Name, _}) -> Name.
