%% What kprofd does to a target, and that nothing of it stays: however it ends,
%% within five seconds the node is as it was.
-module(attach_tests).

-export([tests/0]).

-define(CONTROL_WORD, 123456789).
-define(MFAS, [{requests, handle_request, 2}, {network_server, parse_request, 1},
               {formatter, format_response, 1}, {db, network_request, 1}, {db, transaction, 1},
               {db, transaction, 2}, {accounting, incr_reqs, 1}, {erlang, finish_loading, 1},
               {erlang, delete_module, 1}]).

tests() ->
    [{"armed as it should be", 30, fun armed/1}] ++
    [{"clean after " ++ Name, 40, fun(T) -> clean_after(T, Load, End) end}
     || {Name, End} <- [{"SIGTERM", fun sigterm/3}, {"SIGINT", fun sigint/3},
                        {"SIGKILL", fun sigkill/3}, {"stop() in the target", fun stopped/3}],
        Load <- [idle]] ++
    [{"clean after " ++ Name ++ ", under load", 60, fun(T) -> clean_after(T, busy, End) end}
     || {Name, End} <- [{"SIGTERM", fun sigterm/3}, {"SIGKILL", fun sigkill/3}]] ++
    [{"the agent killed: clean, and armed again", 60, fun agent_killed/1},
     {"disconnected: clean, and armed again", 60, fun disconnected/1},
     {"killed while the agent is on its way in", 60, fun killed_half_way/1},
     {"the agent killed while it measures call rates", 60, fun killed_in_probe/1},
     {"the sentry killed", 60, fun sentry_killed/1},
     {"ends while others ask for its status", 60, fun ends_when_asked/1}].

%% The audit would see what it looks for: this is what it looks like.
armed(T) ->
    {Target, Before} = quiet(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    alone(Target),
    Now = it:snapshot(Target),
    it:check(hd(maps:get(module, Now)) =/= false, "the agent is loaded"),
    it:equal("registered", [kprof_agent], maps:get(registered, Now) -- maps:get(registered, Before)),
    it:check(maps:get(control_word, Now) =/= ?CONTROL_WORD, "the control word is in use"),
    Armed = lists:usort([MFA || {MFA, _, _, _} <- it:call(Target, it_stub, armed, [?MFAS])]),
    it:equal("armed functions", lists:sort(lists:sublist(?MFAS, 7)), Armed -- lists:nthtail(7, ?MFAS)),
    case it:otp(Target) of
        Otp when Otp >= 27 ->
            it:equal("sessions", sessions(Target), maps:get(sessions, Now)),
            it:equal("patterns outside of the session", [], maps:get(patterns, Now));
        _ ->
            it:check(maps:get(flags, Now) =/= [], "processes are traced"),
            it:check(maps:get(new_processes, Now) =/= none, "new processes are traced")
    end,
    #{state := armed, who := Who} = it:call(Target, kprof_agent, status, []),
    it:check(binary:match(Who, <<"kprofd">>) =/= nomatch, "status/0 says who: ~s", [Who]),
    logged(Target, ["kprofd attached: ", Who, " (kprof_agent:stop() ends it)"]),
    it:terminate(P),
    logged(Target, ["kprofd detached: ", Who, ": it ended, "]),
    clean(Target, Before).

%% Whoever looks for neighbours has gone.
alone(Target) ->
    it:until("the agent and its sentry", fun() -> length(it:call(Target, it_stub, ours, [])) =:= 2 end).

%% For the target's operator.
logged(Target, Text) ->
    it:until(["the target's log has '", Text, "'"],
             fun() -> binary:match(it:output(Target), iolist_to_binary(Text)) =/= nomatch end).

clean_after(T, Load, End) ->
    {Target, Before} = quiet(T),
    Work = [it:load(T, Target, ["16", "600s"]) || Load =:= busy],
    P = it:kprofd(T, Target),
    it:armed(P),
    Load =:= busy andalso
        it:until("events come", fun() -> it:sent(Target) > 5000 end),
    End(T, Target, P),
    %% Under load there are processes that come and go.
    it:audit(Target, Before, [processes || Load =:= busy] ++ [registered || Load =:= busy]),
    [it:kill(W) || W <- Work],
    clean(Target, Before).

sigterm(_, _, P) -> it:terminate(P).

sigint(_, _, P) ->
    it:signal(P, "INT"),
    it:ended(P, 0).

sigkill(_, _, P) -> it:kill(P).

stopped(_, Target, P) ->
    ok = it:call(Target, kprof_agent, stop, []),
    %% Not to be started again by a service manager.
    it:ended(P, 3, "stopped in the target").

%% It is clean with no help from outside; and the daemon notices, which has no
%% monitor, and comes again.
agent_killed(T) ->
    {Target, Before} = quiet(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    it:signal(P, "STOP"),
    exit_kill(Target, Agent),
    it:audit(Target, Before, [nodes, processes]),
    it:signal(P, "CONT"),
    again(Target, P, Agent),
    it:terminate(P),
    clean(Target, Before).

disconnected(T) ->
    {Target, Before} = quiet(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    [Node] = it:call(Target, erlang, nodes, [connected]),
    true = it:call(Target, erlang, disconnect_node, [Node]),
    it:saw(P, "lost '"),
    again(Target, P, Agent),
    it:terminate(P),
    it:equal("losses of an idle target, but time", #{}, maps:without([unarmed, uncounted], it:losses(P))),
    clean(Target, Before).

%% Another agent is there, armed, and what the first one had armed went with it.
again(Target, P, Agent) ->
    it:until("armed again",
             fun() ->
                     case it:call(Target, it_stub, agent, []) of
                         #{state := armed} ->
                             it:call(Target, erlang, whereis, [kprof_agent]) =/= Agent;
                         _ -> false
                     end
             end),
    it:check(it:is_running(P), "kprofd goes on"),
    it:equal("sessions", sessions(Target), maps:get(sessions, it:snapshot(Target))).

%% With the native probe, which is the tracer of one, code is watched in another.
sessions(Target) ->
    [kprofd || it:otp(Target) >= 27, _ <- [1 | [2 || it:is_native()]]].

%% The agent's module was loaded by one call and started by another: a kprofd
%% killed between the two left the module in the target for good. Now the
%% target loads and starts it after kprofd was killed, and has to be rid of it
%% all the same.
killed_half_way(T) ->
    {Target, _} = quiet(T),
    %% The node will look for kprofd's to give it its answer, for which it
    %% starts its resolver: that is not ours.
    it:call(Target, inet, gethostbyname, ["no.such.host.invalid"]),
    Before = it:settled(Target),
    it:call(Target, it_stub, hold_attach, []),
    P = it:kprofd(T, Target),
    it:until("kprofd asks for its agent", fun() -> it:call(Target, it_stub, held_attach, []) end),
    it:equal("the module so far", false, it:call(Target, code, is_loaded, [kprof_agent])),
    it:kill(P),
    it:until("it is gone", fun() -> it:call(Target, erlang, nodes, [connected]) =:= [] end),
    Loads = count_loads(Target),
    it:call(Target, it_stub, release_attach, []),
    it:until("the module was loaded", fun() -> it:do(Target, Loads) > 0 end),
    it:until("the module is gone",
             fun() -> it:call(Target, code, is_loaded, [kprof_agent]) =:= false end),
    it:do(Target, fun() -> erlang:trace_pattern({erlang, finish_loading, 1}, false, [call_count]) end),
    clean(Target, Before).

%% Gives what tells how many modules were loaded since.
count_loads(Target) ->
    it:do(Target, fun() -> erlang:trace_pattern({erlang, finish_loading, 1}, true, [call_count]) end),
    fun() -> element(2, erlang:trace_info({erlang, finish_loading, 1}, call_count)) end.

%% The counters of the 200 ms before the arming were nobody's to take back. On a
%% busy machine nobody may come in time: another kprofd has such a time, too.
killed_in_probe(T) ->
    {Target, Before} = quiet(T),
    it:until("it is killed while call rates are measured", 50000, fun() -> killed_in_probe(T, Target) end),
    clean(Target, Before).

killed_in_probe(T, Target) ->
    P = it:kprofd(T, Target),
    Killed = it:do(Target, fun() -> wait_for_probe(2000) end),
    it:kill(P),
    it:until("no agent is there", fun() -> it:agent_state(Target) =:= gone end),
    Killed.

%% In the target, from where it is not missed as easily as from without; until
%% it is armed, or so many looks.
wait_for_probe(Looks) ->
    case it_stub:armed([{db, transaction, 1}]) of
        [{_, _, call_count, _}] -> exit(whereis(kprof_agent), kill);
        [] when Looks > 0 -> receive after 5 -> wait_for_probe(Looks - 1) end;
        _ -> false
    end.

%% The agent starts another, which knows what there is to take back.
sentry_killed(T) ->
    {Target, Before} = quiet(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    alone(Target),
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    [Sentry] = [Pid || {Pid, _} <- it:call(Target, it_stub, ours, []), Pid =/= Agent],
    exit_kill(Target, Sentry),
    it:until("another sentry",
             fun() -> length([Pid || {Pid, _} <- it:call(Target, it_stub, ours, []), Pid =/= Agent,
                                     Pid =/= Sentry]) =:= 1 end),
    exit_kill(Target, Agent),
    it:kill(P),
    clean(Target, Before).

%% While it handed over its last events, the agent waited for its queue to be
%% empty but for one message; a lease or a question that came meanwhile kept it
%% there, busy and at high priority, for ever.
ends_when_asked(T) ->
    {Target, Before} = quiet(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:do(Target, fun() ->
                          [spawn(fun Ask() -> kprof_agent:status() =:= not_attached orelse Ask() end)
                           || _ <- lists:seq(1, 20)]
                  end),
    it:terminate(P),
    it:equal("how it ended", nomatch, re:run(it:errors(P), "no answer")),
    clean(Target, Before).

exit_kill(Target, Pid) ->
    it:call(Target, erlang, exit, [Pid, kill]).

%% A target at rest, with a control word that is somebody's.
quiet(T) ->
    Target = it:target(T),
    it:call(Target, erlang, system_flag, [trace_control_word, ?CONTROL_WORD]),
    Before = it:settled(Target),
    it:equal("the control word", ?CONTROL_WORD, maps:get(control_word, Before)),
    {Target, Before}.

clean(Target, Before) ->
    it:audit(Target, Before),
    it:equal("what is armed", [], it:call(Target, it_stub, armed, [?MFAS])).
