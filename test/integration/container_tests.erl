%% Targets in containers: their network, files and processes are their own. The relay
%% needs nothing there; the native probe needs its library.
-module(container_tests).

-export([tests/0]).

-define(REQUESTS, 2000).
-define(CLIENTS, 8).

tests() ->
    [{"the relay, and either side killed", 180, fun relay/1},
     {"kprofd as a sidecar, and the native probe's library in the container", 120, fun sidecar/1}].

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
