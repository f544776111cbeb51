%% Targets in containers: their network, files and processes are their own. The relay
%% needs nothing there; the native probe needs its library, which is there or is sent.
-module(container_tests).

-export([tests/0]).

-define(REQUESTS, 2000).
-define(CLIENTS, 8).

tests() ->
    [{"the relay, and either side killed", 180, fun relay/1},
     {"kprofd as a sidecar, and the native probe's library in the container", 120, fun sidecar/1},
     {"a pod of two, whose name means nothing here", 120, fun pod/1},
     {"a pod without an epmd", 60, fun without_epmd/1},
     {"a library that is sent, and kept out by the operator", 120, fun sent/1},
     {"a library that is sent, and nothing may be executed", 120, fun noexec/1},
     {"a library that is sent, and is not for this node", 120, fun unfit/1},
     {"a library that is sent, and a file system that hangs", 120, fun hangs/1},
     {"a library that is sent, and either side killed meanwhile", 180, fun sent_killed/1}].

%% Its own idea of its address is right here.
name(#{there := There}) ->
    lists:concat(["app_", os:getpid(), "@", There]).

requests(T, Target, N) ->
    #{requests := N} = it:loaded(it:load(T, Target, [integer_to_list(?CLIENTS), integer_to_list(N)])).

relay(T) ->
    Net = it_container:network(T),
    Opts = #{node => name(Net)},
    Target = it_container:target(T, Net, Opts),
    Mark = it_audit:mark(T, Target),
    is_apart(Target),
    Exact = kprofd(T, Target, #{}),
    it:armed(Exact),
    requests(T, Target, ?REQUESTS),
    it:terminate(Exact),
    it:equal("requests", ?REQUESTS, it:requests(Exact)),
    it:balance(Exact),
    it_audit:ends(Target, Mark),
    it_audit:database(Exact),
    %% kprofd is killed; then the target, with all that is in its namespaces.
    Killed = kprofd(T, Target, #{db => "one.db"}),
    it:armed(Killed),
    Load = it:load(T, Target, [integer_to_list(?CLIENTS), "600s", "5"]),
    it:assembles(Killed, 200),
    it:kill(Killed),
    it_audit:during(Target, Mark),
    Written = it_audit:crashed(T, Killed, ?CLIENTS, []),
    it:kill(Load),
    it_audit:ends(Target, Mark),
    P = kprofd(T, Target, #{db => "one.db"}),
    it:armed(P),
    requests(T, Target, 100),
    it:assembled(P, 100),
    it:kill(Target),
    it:saw(P, "lost '"),
    Again = it_container:target(T, Net, Opts#{name => "again"}),
    it:until("armed again", fun() -> it:times_armed(P) >= 2 end),
    requests(T, Again, 100),
    it:assembled(P, 200),
    it:terminate(P),
    nothing_is_left(Again),
    it_audit:database(P, 1),
    it:equal("what was written", [], Written -- it_audit:written(P)).

kprofd(T, Target, Opts) ->
    it:kprofd(T, Target, Opts#{args => ["-interval", "1s" | maps:get(args, Opts, ["-probe", "relay"])]}).

%% It has other namespaces than this process, and no file of kprofd's.
is_apart(#{pid := Pid} = Target) ->
    [it:check(file:read_link_all(lists:concat(["/proc/", Pid, "/ns/", Of]))
              =/= file:read_link_all("/proc/self/ns/" ++ Of), "its own ~s", [Of])
     || Of <- ["net", "mnt", "pid", "uts"]],
    it:equal("its number there", "1", it:call(Target, os, getpid, [])),
    it:equal("files of kprofd's", [], it:call(Target, filelib, wildcard, [filename:absname("build/*")])).

%% Of a target that nobody else traces.
nothing_is_left(Target) ->
    Clean = #{module => [false, false], old_code => [false, false], ours => [], patterns => [], flags => [],
              sessions => [], nodes => []},
    it:audit(it:patience(Target), Target, Clean, maps:keys(it:snapshot(Target)) -- maps:keys(Clean)),
    it:equal("files", [], files(Target)).

files(Target) ->
    lists:append([it:call(Target, filelib, wildcard, [Dir ++ "/*"]) || Dir <- ["/tmp", "/dev/shm"]]).

%% It has the target's network, so the name may be one that means something else elsewhere.
sidecar(#{build := Build} = T) ->
    Net = it_container:network(T),
    Target = it_container:target(T, Net, #{node => "app@127.0.0.1"}),
    Mark = it_audit:mark(T, Target),
    Run = fun(Args) -> kprofd(T, Target, #{wrap => it_container:beside(Net), args => Args}) end,
    Relay = Run(["-probe", "auto"]),
    it:armed(Relay),
    it:saw(Relay, "probe of '.*': relay: .*cannot load '.*/kprof_probe.so': .*No such file"),
    it:terminate(Relay),
    {ok, _} = file:copy(filename:join(Build, "kprof_probe.so"), it_container:file(Target, "/tmp/kprof_probe.so")),
    Native = Run(["-probe", "native", "-probe-library", "/tmp/kprof_probe.so"]),
    it:armed(Native),
    requests(T, Target, ?REQUESTS),
    it:terminate(Native),
    it:equal("requests", ?REQUESTS, it:requests(Native)),
    it:balance(Native),
    it_audit:ends(Target, Mark),
    it_audit:database(Native).

%% ------------------------------------------------------------------ pods ----

%% Two containers share a network. The second one is found by the first, under a
%% name that resolves in there alone.
pod(T) ->
    Net = it_container:network(T),
    [One, _] = Targets = [it_container:target(T, Net, #{node => pod_name(Name), name => Name}) || Name <- ["one", "two"]],
    pong = it:call(One, net_adm, ping, [list_to_atom(pod_name("two"))]),
    Marks = [it_audit:mark(T, Target) || Target <- Targets],
    it:ended(kprofd(T, One, #{}), 1, "unknown host|does not resolve"),
    P = kprofd(T, [], #{args => ["-cluster", pod_name("one"), "-match", "*", "-resolve", "pod-0=" ++ maps:get(there, Net),
                                 "-probe", "auto", "-probe-send"]}),
    it:until("both are armed", fun() -> it:times_armed(P) >= 2 end),
    [requests(T, Target, 500) || Target <- Targets],
    it:until("all are assembled", fun() ->
        {ok, Status} = it:control(P, "status"),
        {match, Each} = re:run(Status, "([0-9]+) assembled", [global, {capture, [1], list}]),
        lists:sum([list_to_integer(N) || [N] <- Each]) >= 1000
    end),
    it:terminate(P),
    it:equal("requests", 1000, it:requests(P)),
    it:equal("probes", 2, it:number(P, "select count(*) from events where kind = 'probe' and text like 'native: its library was sent%'")),
    [it_audit:ends(Target, Mark) || {Target, Mark} <- lists:zip(Targets, Marks)],
    it:equal("files", [], lists:append([files(Target) || Target <- Targets])).

pod_name(Name) ->
    lists:concat([Name, "_", os:getpid(), "@pod-0"]).

without_epmd(T) ->
    Net = it_container:network(T),
    Node = pod_name("alone"),
    Target = it_container:target(T, Net, #{node => Node, args => ["-start_epmd", "false", "-erl_epmd_port", "4370"]}),
    Mark = it_audit:mark(T, Target),
    P = kprofd(T, Target, #{args => ["-probe", "relay", "-resolve", Node ++ "=" ++ maps:get(there, Net) ++ ":4370"]}),
    it:armed(P),
    requests(T, Target, ?REQUESTS),
    it:terminate(P),
    it:equal("requests", ?REQUESTS, it:requests(P)),
    it:balance(P),
    it_audit:ends(Target, Mark),
    it_audit:database(P).

%% ------------------------------------------------- a library that is sent ----

-define(SEND, ["-probe", "auto", "-probe-send"]).

%% Its file is gone before anything is traced.
sent(T) ->
    Net = it_container:network(T),
    Target = it_container:target(T, Net, #{node => name(Net)}),
    Mark = it_audit:mark(T, Target),
    P = kprofd(T, Target, #{args => ?SEND}),
    it:armed(P),
    it:saw(P, "probe of '.*': native: its library was sent, since '.*' cannot load '[^']*': Failed to load .*No such file"),
    it:equal("files", [], files(Target)),
    requests(T, Target, ?REQUESTS),
    it:terminate(P),
    it:equal("requests", ?REQUESTS, it:requests(P)),
    it:balance(P),
    it:equal("errors are seen", 0, it:number(P, "select count(*) from request_stats where errors is null")),
    it_audit:ends(Target, Mark),
    it_audit:database(P),
    it:call(Target, application, set_env, [kprof, accept_library, false]),
    Kept = kprofd(T, Target, #{args => ?SEND}),
    it:armed(Kept),
    it:saw(Kept, "relay: .*; nor is one sent: it accepts no library: {kprof, \\[{accept_library, false}\\]} is in its"),
    {ok, Status} = it:control(Kept, "status"),
    it:check(string:find(Status, "it accepts no library") =/= nomatch, Status),
    it:terminate(Kept),
    it:call(Target, application, unset_env, [kprof, accept_library]),
    it_audit:ends(Target, Mark),
    it:equal("files at the end", [], files(Target)).

%% The other place is not executable in any of these; that of TMPDIR is.
noexec(T) ->
    Net = it_container:network(T),
    [begin
         Target = it_container:target(T, Net, #{node => name(Net), tmp => Options, name => Name, args => Args}),
         Mark = it_audit:mark(T, Target),
         P = kprofd(T, Target, #{args => ?SEND}),
         it:armed(P),
         it:saw(P, Says),
         it:terminate(P),
         it_audit:ends(Target, Mark),
         it:equal("files", [], files(Target)),
         it:stop_target(Target)
     end || {Name, Options, Args, Says}
                <- [{"noexec", "noexec,mode=1777", [],
                     "relay: .*; nor the one that was sent: /tmp: nothing there may be executed .*; /dev/shm: nothing"},
                    {"ro", "ro", [], "relay: .*was sent: /tmp: it is mounted read-only; /dev/shm: nothing there"},
                    {"full", "size=64k", [], "relay: .*was sent: /tmp: no space is left there; /dev/shm: nothing there"},
                    {"tmpdir", "noexec", ["-env", "TMPDIR", "/mnt"], "native: its library was sent"}]],
    Target = it_container:target(T, Net, #{node => name(Net), tmp => "noexec", name => "native"}),
    P = kprofd(T, Target, #{args => ["-probe", "native", "-probe-send"]}),
    it:ended(P, 1, "/dev/shm: nothing there may be executed.* \\(-probe-library says where the target has the library\\)$"),
    it:equal("files", [], files(Target)).

%% kprofd sends the library beside it: of another machine, without its end, of another
%% module, and none.
unfit(#{build := Build} = T) ->
    {ok, <<Begin:18/binary, _:16, End/binary>> = Whole} = file:read_file(filename:join(Build, "kprof_probe.so")),
    {ok, Other} = file:read_file(filename:join(Build, "kprof_calls_probe.so")),
    Net = it_container:network(T),
    Target = it_container:target(T, Net, #{node => name(Net)}),
    Mark = it_audit:mark(T, Target),
    Dir = filename:absname(it:path(T, "bin")),
    ok = filelib:ensure_path(Dir),
    {ok, _} = file:copy(filename:join(Build, "kprofd"), filename:join(Dir, "kprofd")),
    ok = file:change_mode(filename:join(Dir, "kprofd"), 8#755),
    [begin
         ok = file:write_file(filename:join(Dir, "kprof_probe.so"), Bytes),
         P = kprofd(T#{build := Dir}, Target, #{args => ["-probe-library", "/nowhere/kprof_probe.so" | ?SEND]}),
         it:armed(P),
         it:saw(P, "probe of '.*': relay: .*cannot load '/nowhere/kprof_probe.so': .*; " ++ Why),
         it:terminate(P),
         it:equal("files", [], files(Target))
     end || {Bytes, Why} <- [{<<Begin/binary, 22:16/little, End/binary>>, "nor can kprofd send '.*': it is not a library"},
                             {<<Begin/binary, 243:16/little, End/binary>>,
                              "nor is one sent: it is on .* with linux, and kprofd's library is for riscv64 with linux"},
                             {binary:part(Whole, 0, 4096), "nor can kprofd send '.*': its end is missing"},
                             {Other, "nor the one that was sent: /tmp: .*does not match"},
                             {<<"#!/bin/sh\n">>, "nor can kprofd send '.*': it is not a library"}]],
    it_audit:ends(Target, Mark).

%% kprofd goes on with the relay, and the file goes when that is possible again.
hangs(T) ->
    Net = it_container:network(T),
    Target = it_container:target(T, Net, #{node => name(Net)}),
    Mark = it_audit:mark(T, Target),
    hold(Target, file_server_2),
    P = kprofd(T, Target, #{tiers => tiers(), args => ?SEND}),
    it:saw(P, "relay: .*; nor the one that was sent: its file could not be written within 5 s"),
    release(Target, file_server_2),
    it:armed(P),
    it:until("the keeper has gone", fun() -> keepers(Target) =:= [] end),
    it:equal("files", [], files(Target)),
    it:terminate(P),
    it_audit:ends(Target, Mark).

%% The agent, when nothing is written yet and when all is; kprofd; and the agent and
%% the process that would delete the file, which the next one does.
sent_killed(T) ->
    Net = it_container:network(T),
    Target = it_container:target(T, Net, #{node => name(Net)}),
    Mark = it_audit:mark(T, Target),
    P = sending(T, Target),
    it:kill(P),
    release(Target, kprof_agent),
    it_audit:ends(Target, Mark),
    it:equal("files of a killed kprofd", [], files(Target)),
    Agent = sending(T, Target),
    kill_there(Target, [kprof_agent]),
    it:until("the keeper has gone", fun() -> keepers(Target) =:= [] end),
    it:equal("files of a killed agent", [], files(Target)),
    it:kill(Agent),
    it_audit:ends(Target, Mark),
    Both = sending(T, Target),
    %% Before it could hear of the agent's end.
    kill_there(Target, keepers(Target) ++ [kprof_agent]),
    it:kill(Both),
    it_audit:ends(Target, Mark),
    [Left] = files(Target),
    %% An hour later.
    Ago = calendar:system_time_to_local_time(erlang:system_time(second) - 3600, second),
    ok = it:call(Target, file, change_time, [Left, Ago]),
    After = kprofd(T, Target, #{tiers => tiers(), args => ?SEND}),
    it:armed(After),
    it:saw(After, "native: its library was sent"),
    it:equal("files of both", [], files(Target)),
    it:terminate(After),
    it_audit:ends(Target, Mark).

%% A kprofd whose agent was held when the file was whole, and nobody has loaded it yet.
sending(T, Target) ->
    hold(Target, file_server_2),
    P = kprofd(T, Target, #{tiers => tiers(), args => ?SEND}),
    it:until("the file is to be written", fun() -> keepers(Target) =/= [] end),
    hold(Target, kprof_agent),
    release(Target, file_server_2),
    [Keeper] = keepers(Target),
    it:until("the file is written", fun() ->
        it:call(Target, erlang, process_info, [Keeper, current_function]) =:= {current_function, {kprof_agent, library_keep_in, 5}}
    end),
    [Dir] = files(Target),
    it:equal("modes", [8#700, 8#600],
             [element(8, Info) band 8#777
              || F <- [Dir, Dir ++ "/kprof_probe.so"], {ok, Info} <- [it:call(Target, file, read_file_info, [F])]]),
    P.

kill_there(Target, Whom) ->
    it:do(Target, fun() -> [exit(if is_pid(W) -> W; true -> whereis(W) end, kill) || W <- Whom] end).

keepers(Target) ->
    [Pid || {Pid, _} <- it:call(Target, it_stub, ours, []),
            {dictionary, Dict} <- [it:call(Target, erlang, process_info, [Pid, dictionary])],
            lists:member({'$initial_call', {kprof_agent, library, 0}}, Dict)].

%% The process that has this name does nothing until it is released.
hold(Target, Name) ->
    true = it:do(Target, fun() -> erlang:suspend_process(whereis(Name)) end).

release(Target, Name) ->
    true = it:do(Target, fun() -> erlang:resume_process(whereis(Name)) end).

%% Whose module is loaded already: the file server may be held.
tiers() ->
    "{tiers, [{handle, {requests, handle_request, 2}}]}.\n{sampling, all}.\n" ++ it:calm().
