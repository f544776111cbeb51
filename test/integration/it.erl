%% it - what the integration tests are written with.
%%
%% Operating system processes are started with their output in files below the
%% test's directory, so that a test can wait for a line of it, and with
%% setpriv --pdeathsig, so that they die with the runner however it dies.
%% Nothing here asserts on wall-clock speed: waits poll, with generous limits.
-module(it).

-export([prepare/1, tidy/1, record/2, forget/1, context/2, evidence/1, keep_states/1, kill_all/1]).
-export([fail/2, equal/3, check/2, check/3, until/2, until/3]).
-export([path/2, write/3, start/4, signal/2, kill/1, exited/1, is_running/1, output/1, errors/1, saw/2]).
-export([target/1, target/2, server/5, cookie/0, stop_target/1, do/2, call/4, snapshot/1, settled/1, audit/2, audit/3, audit/4,
         agent_state/1, sent/1, rss/1, patience/1, is_over/2, short_host/0]).
-export([outcome/0, kprofd/2, kprofd/3, unless/2, probe_library/1, calls_library/1, is_native/0, run_kprofd/3, armed/1, times_armed/1, ended/2, ended/3,
         ended_said/2, terminate/1, db/1, tiers/0, calm/0]).
-export([protocol/0, load/3, loaded/1, sql/2, number/2, control/2, said/2, assembles/2, assembled/2, count/2]).
-export([balance/1, balances/1, losses/1, lost/1, requests/1, requests_by_identity/1, calls_by_tier/1]).
-export([epmd_port/1, free_port/0, otp/1, build/1]).

-define(WAIT_MS, 60000).
-define(POLL_MS, 20).
-define(CLEAN_MS, 5000).        % the agent is gone this long after its end,
                                % and what the target had no processor for
-define(COOKIE, "integration").

%% ------------------------------------------------------------- set-up ----

%% Things all tests share: an epmd on a port of its own, the compiled code
%% where the targets' file system has it, an erl that is theirs.
prepare(#{build := Build, root := Root, app := App}) ->
    %% In a process namespace numbers of processes are not unique.
    Dir = filename:join([Build, "integration", lists:concat(["run.", os:getpid(), ".", os:system_time(second), ".",
                                                             erlang:unique_integer([positive])])]),
    ok = filelib:ensure_path(Dir),
    Port = free_port(),
    Env0 = #{build => Build, dir => Dir, epmd => Port, root => Root, counter => counters:new(1, [])},
    ok = file:write_file(path(Env0, "cookie"), ?COOKIE),
    ok = file:change_mode(path(Env0, "cookie"), 8#600),
    _ = start(Env0, "epmd", ["epmd", "-port", integer_to_list(Port)], []),
    Env = inside(Env0#{ebins => [filename:join([Build, Of, "ebin"]) || Of <- ["integration", App]]}),
    until("epmd answers", fun() ->
                                  case gen_tcp:connect({127, 0, 0, 1}, Port, []) of
                                      {ok, S} -> gen_tcp:close(S), true;
                                      _ -> false
                                  end
                          end),
    Release = release(Env),
    io:format("targets: ~s~s; ~b schedulers~n",
              [Release, [[" in ", Root] || Root =/= none], erlang:system_info(schedulers_online)]),
    Env#{release => Release}.

%% As the targets' erl says itself: OTP 27.3.4.1 (ERTS 15.2.7).
release(#{path := Path} = Env) ->
    Ask = "Of = filename:join([code:root_dir(), releases, erlang:system_info(otp_release), \"OTP_VERSION\"]),"
        "{ok, V} = file:read_file(Of),"
        "io:format(\"OTP ~s (ERTS ~s)\", [string:trim(V), erlang:system_info(version)]), halt().",
    P = start(Env, "release", ["erl", "-noinput", "-eval", Ask], [{"PATH", Path}]),
    exited(P) =:= 0 orelse fail("the targets' erl does not run: ~ts", [errors(P)]),
    output(P).

%% The PATH in which a target finds its erl.
inside(#{root := none, dir := Dir} = Env) ->
    Certs = filename:absname(filename:join(Dir, "certs")),
    Env#{path => os:getenv("PATH"), certs => #{here => Certs, there => Certs}};
inside(#{root := Root, dir := Dir, ebins := Ebins, build := Build} = Env) ->
    Place = "/tmp/kprofd-integration." ++ os:getpid(),
    Copies = [begin
                  To = lists:concat([Place, "/", N]),
                  ok = filelib:ensure_path(Root ++ To),
                  [{ok, _} = file:copy(F, filename:join(Root ++ To, filename:basename(F)))
                   || F <- filelib:wildcard(filename:join(From, "*.{beam,app}"))],
                  To
              end || {N, From} <- lists:zip([integration, sample_app], Ebins)],
    Library = Place ++ "/kprof_probe.so",
    [{ok, _} = file:copy(filename:join(Build, Name), Root ++ filename:join(Place, Name))
     || Name <- ["kprof_probe.so", "kprof_calls_probe.so"]],
    Bin = filename:absname(filename:join(Dir, "bin")),
    ok = filelib:ensure_path(Bin),
    Erl = filename:join(Bin, "erl"),
    ok = file:write_file(Erl, ["#!/bin/sh\nexec chroot '", Root, "' erl \"$@\"\n"]),
    ok = file:change_mode(Erl, 8#755),
    Certs = filename:join(Place, "certs"),
    Env#{path => Bin ++ ":" ++ os:getenv("PATH"), ebins := Copies, place => Root ++ Place, library => Library,
         certs => #{here => Root ++ Certs, there => Certs}}.

tidy(Env) ->
    kill_all(self()),
    case Env of
        #{place := Place} -> ok = file:del_dir_r(Place);
        _ -> ok
    end.

%% When, with which release, and how it went.
record(#{build := Build, release := Release}, Summary) ->
    At = calendar:system_time_to_rfc3339(os:system_time(second), [{offset, "Z"}]),
    ok = file:write_file(filename:join([Build, "integration", "results.txt"]),
                         [At, "  ", Release, "  ", Summary, "\n"], [append]).

%% Databases and output of all tests.
forget(#{dir := Dir}) ->
    ok = file:del_dir_r(Dir).

context(Name, #{dir := Dir, counter := Counter} = Env) ->
    counters:add(Counter, 1, 1),
    N = counters:get(Counter, 1),
    %% Short and relative: a socket's path must fit into 107 bytes.
    [Area, _] = string:split(Name, ":"),
    Mine = filename:join(Dir, lists:flatten(io_lib:format("~3..0b-~s", [N, Area]))),
    ok = filelib:ensure_path(Mine),
    ets:insert(it_processes, {self(), dir, Mine}),
    Env#{dir := Mine, cookie => filename:join(Dir, "cookie"), n => N, last => atomics:new(1, [])}.

%% Of a failed test the state of its nodes is kept, as NODE.state in its directory.
keep_states(Test) ->
    [begin
         ok = gen_tcp:send(S, term_to_binary({it_stub, state, []})),
         Text = case gen_tcp:recv(S, 0, ?WAIT_MS) of
                    {ok, Bytes} -> io_lib:format("~tp~n", [binary_to_term(Bytes)]);
                    {error, Why} -> io_lib:format("no answer: ~tp~n", [Why])
                end,
         ok = file:write_file(filename:join(Dir, [Node, ".state"]), unicode:characters_to_binary(Text))
     end || {_, dir, Dir} <- ets:lookup(it_processes, Test), {_, look, {Node, S}} <- ets:lookup(it_processes, Test)].

%% What has ended, in the process that started it, and the last lines of what was said
%% on standard error, for a failed test.
evidence(#{dir := Dir}) ->
    _ = catch keep_states(self()),
    [["\n-- ", Name, " had ended with ", integer_to_list(Status)]
     || {_, port, {Port, Name}} <- ets:lookup(it_processes, self()), Status <- statuses(Port)] ++
    [begin
         {ok, Text} = file:read_file(F),
         Lines = string:split(string:trim(Text), "\n", all),
         ["\n-- ", F, "\n", lists:join("\n", lists:nthtail(max(0, length(Lines) - 12), Lines))]
     end || F <- lists:sort(filelib:wildcard(filename:join(Dir, "*.err"))), filelib:file_size(F) > 0].

build(#{build := Build}) -> Build.
epmd_port(#{epmd := Port}) -> Port.

free_port() ->
    {ok, S} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(S),
    ok = gen_tcp:close(S),
    Port.

%% ------------------------------------------------------------- checks ----

fail(Format, Args) ->
    throw({check, io_lib:format(Format, Args)}).

check(true, _) -> ok;
check(false, What) -> fail("~ts", [What]).

check(true, _, _) -> ok;
check(false, Format, Args) -> fail(Format, Args).

equal(_, Same, Same) -> ok;
equal(What, Want, Got) -> fail("~ts~n  wanted ~0tp~n  got    ~0tp", [What, Want, Got]).

%% Waits until Fun gives something else than false, and gives that.
until(What, Fun) ->
    until(What, ?WAIT_MS, Fun).

until(What, Ms, Fun) ->
    until_before(What, erlang:monotonic_time(millisecond) + Ms, Ms, Fun).

until_before(What, Deadline, Ms, Fun) ->
    case Fun() of
        false ->
            case erlang:monotonic_time(millisecond) > Deadline of
                true -> fail("waited ~b ms in vain: ~ts", [Ms, What]);
                false ->
                    receive after ?POLL_MS -> ok end,
                    until_before(What, Deadline, Ms, Fun)
            end;
        Result -> Result
    end.

%% ---------------------------------------- operating system processes ----

path(#{dir := Dir}, Name) ->
    filename:join(Dir, Name).

write(T, Name, Text) ->
    Path = path(T, Name),
    ok = file:write_file(Path, Text),
    Path.

%% #{pid, out, err, port}. The port's owner is this process: only it can ask
%% for the exit status.
start(T, Name, Command, Env) ->
    Out = path(T, Name ++ ".out"),
    Err = path(T, Name ++ ".err"),
    Script = "exec \"$@\" >>'" ++ Out ++ "' 2>>'" ++ Err ++ "'",
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", Script, "sh", "setpriv", "--pdeathsig", "KILL", "--" | Command]},
                      {env, [{"ERL_EPMD_PORT", integer_to_list(epmd_port(T))},
                             {"ERL_CRASH_DUMP_BYTES", "0"} | Env]},
                      exit_status, hide]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    ets:insert(it_processes, [{self(), process, {Pid, born(Pid)}}, {self(), port, {Port, Name}}]),
    #{name => Name, pid => Pid, out => Out, err => Err, port => Port}.

signal(#{pid := Pid}, Signal) ->
    os:cmd(io_lib:format("kill -~s ~b 2>&1", [Signal, Pid])).

statuses(Port) ->
    receive {Port, {exit_status, Status}} -> [Status] after 0 -> [] end.

kill(P) ->
    signal(P, "KILL"),
    exited(P).

%% When it started, which tells it from a later process with its number.
born(Pid) ->
    case file:read_file(io_lib:format("/proc/~b/stat", [Pid])) of
        {ok, Text} -> lists:nth(20, string:lexemes(lists:last(string:split(Text, ")", trailing)), " "));
        {error, _} -> gone
    end.

%% Its exit status, or 128 and the signal.
exited(#{port := Port, name := Name}) ->
    receive {Port, {exit_status, Status}} -> Status
    after ?WAIT_MS -> fail("~s does not end", [Name])
    end.

is_running(#{port := Port} = P) ->
    receive {Port, {exit_status, Status}} ->
            self() ! {Port, {exit_status, Status}},
            false
    after 0 -> filelib:is_dir(io_lib:format("/proc/~b", [maps:get(pid, P)]))
    end.

%% Whatever this test started.
kill_all(Test) ->
    Pids = [P || {_, process, {P, Born}} <- ets:lookup(it_processes, Test),
                 Born =/= gone, born(P) =:= Born],
    ets:delete(it_processes, Test),
    Pids =:= [] orelse
        os:cmd("kill -KILL" ++ [io_lib:format(" ~b", [P]) || P <- Pids] ++ " 2>/dev/null"),
    ok.

output(#{out := File}) -> read(File).
errors(#{err := File}) -> read(File).

read(File) ->
    case file:read_file(File) of
        {ok, Text} -> Text;
        {error, enoent} -> <<>>
    end.

%% Waits for something on standard error; fails at once if it ends first.
saw(#{name := Name} = P, Pattern) ->
    until([Name, " says ", Pattern],
          fun() ->
                  Running = is_running(P),
                  case re:run(errors(P), Pattern, [multiline]) of
                      {match, _} -> true;
                      nomatch when Running -> false;
                      nomatch -> fail("~s ended and had not said '~s':~n~ts",
                                      [Name, Pattern, errors(P)])
                  end
          end).

%% ------------------------------------------------------------ targets ----

target(T) -> target(T, #{}).

%% kind    sample | plain
%% config  the sample application's settings, as text
%% args    more arguments of erl
%% naming  long | short
%% node    its name, to start one again
%% name    of its output, where there are several
%% and what it_reach:target/4 takes, which a test can have for all its targets, in T
target(#{ebins := [Ours, Sample], path := Path, n := N} = T, Opts0) ->
    Opts = maps:merge(it_reach:default(T), Opts0),
    Kind = maps:get(kind, Opts, sample),
    Name = maps:get(name, Opts, "target"),
    Node = case Opts of
               #{node := Given} -> Given;
               _ -> it_reach:name(maps:get(naming, Opts, long), Opts, N)
           end,
    {Reach, Reached} = it_reach:target(T, Node, Name, Opts),
    Command = fun(Stub) ->
                      Args = ["-setcookie", ?COOKIE, "-pa", Ours | Stub ++ Reach ++ maps:get(args, Opts, [])],
                      command(Kind, T, Node, Sample, Args, maps:get(config, Opts, "#{}"))
              end,
    Target = maps:merge(server(T, Name, Node, Command, [{"PATH", Path}]), Reached),
    it_reach:connected(T, Target),
    case Kind of
        sample ->
            until("the sample application is ready",
                  fun() -> re:run(output(Target), "^ready", [multiline]) =/= nomatch end),
            Target#{http => call(Target, sample_app, port, [])};
        plain -> Target
    end.

%% A node of this name, whatever else it runs: Command is given the arguments
%% of erl that start it_stub there, which has to be in the node's code path.
%% T#{address}: ours, for a node in another network.
server(T, Name, Node, Command, Env) ->
    Address = maps:get(address, T, "127.0.0.1"),
    {ok, Ip} = inet:parse_address(Address),
    {ok, L} = gen_tcp:listen(0, [binary, {packet, 4}, {active, false}, {ip, Ip}]),
    {ok, Port} = inet:port(L),
    P = start(T, Name, Command(["-s", "it_stub", "start", integer_to_list(Port), Address]), Env),
    S = case gen_tcp:accept(L, ?WAIT_MS) of
            {ok, Accepted} -> Accepted;
            {error, Why} -> fail("the target does not come: ~p~n~ts", [Why, errors(P)])
        end,
    {ok, Hello} = gen_tcp:recv(S, 0, ?WAIT_MS),
    {ok, Look} = gen_tcp:accept(L, ?WAIT_MS),
    gen_tcp:close(L),
    ets:insert(it_processes, {self(), look, {Node, Look}}),
    {hello, #{otp := Otp, node := Started}} = binary_to_term(Hello),
    equal("the target's name", Node, atom_to_list(Started)),
    P#{socket => S, otp => Otp, node => Node}.

cookie() -> ?COOKIE.

%% For short names; not every machine knows its own.
short_host() ->
    {ok, Host} = inet:gethostname(),
    case inet:gethostbyname(Host) of
        {ok, _} -> Host;
        {error, _} -> "localhost"
    end.

command(sample, _, Node, Sample, Args, Config) ->
    ["test/sample_app/run", Node, Sample, "0", "-sample_app", "config", Config | Args];
command(plain, _, Node, Sample, Args, _) ->
    Flag = case string:find(Node, ".") =:= nomatch andalso string:find(Node, ":") =:= nomatch of
               true -> "-sname";
               false -> "-name"
           end,
    ["erl", "-noinput", "-pa", Sample, Flag, Node | Args].

stop_target(#{socket := S} = P) ->
    gen_tcp:close(S),
    kill(P).

otp(#{otp := Otp}) -> Otp.

do(#{socket := S}, What) ->
    ok = gen_tcp:send(S, term_to_binary(What)),
    case gen_tcp:recv(S, 0, 2 * ?WAIT_MS) of
        {ok, Bytes} ->
            case binary_to_term(Bytes) of
                {ok, Result} -> Result;
                {raised, Why} -> fail("in the target: ~p", [Why])
            end;
        {error, Why} -> fail("the target does not answer: ~p", [Why])
    end.

call(Target, M, F, A) ->
    do(Target, {M, F, A}).

snapshot(Target) ->
    call(Target, it_stub, snapshot, []).

%% A snapshot that stays the same: what comes and goes at a start has gone.
settled(Target) ->
    Before = snapshot(Target),
    receive after 100 -> ok end,
    case snapshot(Target) of
        Before -> Before;
        _ -> settled(Target)
    end.

%% Everything is as it was, within 5 s.
audit(Target, Before) ->
    audit(Target, Before, []).

audit(Target, Before0, Without) ->
    audit(patience(Target), Target, maps:without(Without, Before0), Without).

audit(Patience, Target, Before, Without) ->
    case maps:without(Without, snapshot(Target)) of
        Before -> ok;
        After ->
            case is_over(Target, Patience) of
                true ->
                    fail("the target is not as it was:~n~ts",
                         [[io_lib:format("  ~p was ~0tp~n  ~*s  is ~0tp~n",
                                         [K, lost(V, W), length(atom_to_list(K)), "", lost(W, V)])
                           || {K, V} <- maps:to_list(Before), W <- [maps:get(K, After)], V =/= W]]);
                false ->
                    receive after ?POLL_MS -> ok end,
                    audit(Patience, Target, Before, Without)
            end
    end.

%% 5 s from now: of a target that runs, not of one that waits for a processor.
patience(Target) ->
    {erlang:monotonic_time(millisecond), starved_ms(Target)}.

is_over(Target, {Start, Starved}) ->
    Ms = erlang:monotonic_time(millisecond) - Start,
    Ms > ?WAIT_MS orelse Ms > ?CLEAN_MS + starved_ms(Target) - Starved.

%% How long its threads were ready to run and did not, by the kernel's account.
starved_ms(#{pid := Pid}) ->
    lists:sum([binary_to_integer(Ns)
               || File <- filelib:wildcard(lists:concat(["/proc/", Pid, "/task/*/schedstat"])),
                  {ok, Text} <- [file:read_file(File)],
                  [_, Ns | _] <- [string:lexemes(Text, " ")]]) div 1000000.

lost(A, B) when is_list(A), is_list(B) -> A -- B;
lost(A, _) -> A.

%% Armed, paused, tripped; gone where there is no agent.
agent_state(Target) ->
    case call(Target, it_stub, agent, []) of
        #{state := {State, _}} -> State;
        #{state := State} -> State;
        gone -> gone
    end.

%% Events that the agent of now has sent.
sent(Target) ->
    case call(Target, it_stub, agent, []) of
        #{events_sent := N} -> N;
        gone -> 0
    end.

%% Bytes in memory, by the kernel's account.
rss(#{pid := Pid}) ->
    {ok, Text} = file:read_file(io_lib:format("/proc/~b/status", [Pid])),
    {match, [Kb]} = re:run(Text, "VmRSS:\\s+([0-9]+)", [{capture, [1], list}]),
    list_to_integer(Kb) * 1024.

%% ------------------------------------------------------------- kprofd ----

tiers() -> "test/sample_app/tiers.conf".

%% For tests that are not about the guard: a target that has had no processor for
%% a second has events of that age.
calm() -> "{overload, [{max_age_ms, 60000}, {max_queue, 1000000}, {max_lag_ms, 60000}]}.\n".

kprofd(T, Target) -> kprofd(T, Target, #{}).

%% Target: one, a list of them, or a node's name.
%% tiers   text of a tiers.conf, or {file, Path}; else the sample application's,
%%         with a guard that is calm
%% args    more arguments
%% db      the database's name in the test's directory
%% env     more environment
%% wrap    what starts it
%% control its control socket, where that is not beside the database
kprofd(#{build := Build, cookie := Cookie, last := Last} = T, Target, Opts) ->
    N = atomics:add_get(Last, 1, 1),
    Name = "kprofd" ++ integer_to_list(N),
    File = "tiers" ++ integer_to_list(N) ++ ".conf",
    Tiers = case Opts of
                #{tiers := {file, Path}} -> Path;
                #{tiers := Text} -> write(T, File, Text);
                _ ->
                    {ok, Text} = file:read_file(tiers()),
                    write(T, File, [Text, calm()])
            end,
    Db = path(T, maps:get(db, Opts, Name ++ ".db")),
    Given = maps:get(args, Opts, ["-interval", "2s"]),
    Args = it_reach:targets(Target) ++ it_reach:options(Target) ++ ["-tiers", Tiers, "-cookie-file", maps:get(cookie, Opts, Cookie),
            "-verbose" | unless(Given, probe(T)) ++ kept(Given, Db)]
        ++ [A || #{control := Socket} <- [Opts], A <- ["-control", Socket]],
    P = start(T, Name, maps:get(wrap, Opts, []) ++ [filename:join(Build, "kprofd") | Args],
              maps:get(env, Opts, [])),
    P#{db => Db, control => maps:get(control, Opts, Db ++ ".sock")}.

%% Windows that are shorter than any to be kept become one with the turn of the
%% clock: tests find them as they were measured.
kept(Args, Db) ->
    case [A || A <- Args, lists:member(A, ["-check", "-retain"])] of
        ["-check" | _] -> Args;         % writes none
        ["-retain" | _] -> Args ++ ["-db", Db];
        [] -> Args ++ ["-db", Db, "-retain", "1s:1h"]
    end.

%% Options of a value that are not given yet: kprofd takes them once.
unless(Given, [Option, Value | More]) ->
    case lists:member(Option, Given) of
        true -> unless(Given, More);
        false -> [Option, Value | unless(Given, More)]
    end;
unless(_, []) -> [].

%% The relay; KPROFD_PROBE=native: all tests with that one. What kprofd takes by
%% itself is for T#{probe => default}.
probe(#{probe := default}) -> [];
probe(T) -> ["-probe", os:getenv("KPROFD_PROBE", "relay") | probe_library(T)].

%% Where a target finds it that has another file system.
probe_library(#{library := File}) -> ["-probe-library", File];
probe_library(_) -> [].

%% That of full traces is beside it.
calls_library(#{library := File}) ->
    ["-probe-library", filename:join(filename:dirname(File), "kprof_calls_probe.so")];
calls_library(_) -> [].

%% Of calls that end: with the relay, which copies no value, it is not seen how.
outcome() ->
    case is_native() of
        true -> "returned";
        false -> "unknown"
    end.

is_native() ->
    os:getenv("KPROFD_PROBE") =:= "native".

%% Runs it to its end, and gives its exit status and all it said on standard error.
run_kprofd(T, Target, Opts) ->
    P = kprofd(T, Target, Opts),
    Status = exited(P),
    {Status, errors(P), P}.

armed(P) ->
    saw(P, "^kprofd: profiling ").

times_armed(P) ->
    count(P, "^kprofd: profiling ").

%% How often it said this.
count(P, Pattern) ->
    case re:run(errors(P), Pattern, [multiline, global]) of
        {match, Times} -> length(Times);
        nomatch -> 0
    end.

%% It ends by itself or was told to, with this status.
ended(P, Status) ->
    ended(P, Status, "").

ended(P, Status, Pattern) ->
    Got = exited(P),
    Got =:= Status orelse
        fail("~s ended with ~b, not ~b:~n~ts", [maps:get(name, P), Got, Status, errors(P)]),
    ended_said(P, Pattern).

%% It has ended, and had said this.
ended_said(P, Pattern) ->
    re:run(errors(P), Pattern, [multiline]) =/= nomatch orelse
        fail("~s did not say '~s':~n~ts", [maps:get(name, P), Pattern, errors(P)]).

terminate(P) ->
    signal(P, "TERM"),
    ended(P, 0).

db(#{db := Db}) -> Db.

%% --------------------------------------------------------------- load ----

%% Args: clients, requests or time, and what else test/sample_app/load takes.
load(#{build := Build} = T, #{http := Port} = Target, Args) ->
    Ebin = filename:join(Build, "sample_app/ebin"),
    start(T, "load" ++ integer_to_list(erlang:unique_integer([positive])),
          %% beside: what runs a program in the target's network
          maps:get(beside, Target, []) ++ ["test/sample_app/load", Ebin, integer_to_list(Port) | Args], []).

%% Waits for its end; gives what it counted.
loaded(#{port := Port} = P) ->
    receive
        {Port, {exit_status, 0}} -> ok;
        {Port, {exit_status, N}} -> fail("the load ended with ~b: ~ts", [N, errors(P)])
    end,
    maps:from_list([{binary_to_atom(K), binary_to_number(V)}
                    || Word <- string:lexemes(output(P), " \n"), [K, V] <- [string:split(Word, "=")]]).

binary_to_number(B) ->
    try binary_to_integer(B) catch error:badarg -> binary_to_float(B) end.

%% ----------------------------------------------------------- database ----

%% Rows of texts.
sql(#{db := Db} = P, Query) ->
    %% Beside its output: the database may be none that is a file.
    Base = maps:get(out, P, Db),
    Out = Base ++ ".query",
    Errors = Base ++ ".query-errors",
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", "exec sqlite3 -readonly -separator '\x1f' \"$1\" \"$2\" >\"$3\" 2>\"$4\"",
                              "sh", Db, Query, Out, Errors]}, exit_status]),
    receive
        {Port, {exit_status, 0}} ->
            [string:split(Row, "\x1f", all)
             || Row <- string:split(read(Out), "\n", all), Row =/= <<>>];
        {Port, {exit_status, _}} ->
            fail("~s: ~ts~n~ts", [maps:get(name, P), read(Errors), Query])
    end.

number(P, Query) ->
    case sql(P, Query) of
        [] -> 0;        % null
        [[N]] -> binary_to_number(N)
    end.

losses(P) ->
    maps:from_list([{binary_to_atom(Cause), binary_to_integer(N)}
                    || [Cause, N] <- sql(P, "select cause, sum(lost) from losses group by cause"
                                         " having sum(lost) > 0")]).

requests(P) ->
    number(P, "select sum(sampled) from time_window").

%% [{Identity, Requests}]
requests_by_identity(P) ->
    [{binary_to_list(I), binary_to_integer(N)}
     || [I, N] <- sql(P, "select identity, sum(requests) from request_stats where identity <> '_total'"
                      " group by identity order by identity")].

%% [{Tier, Identity, Calls, Async}]
calls_by_tier(P) ->
    [{binary_to_list(T), binary_to_list(I), binary_to_integer(N), binary_to_integer(A)}
     || [T, I, N, A] <- sql(P, "select tier, identity, sum(calls), sum(async_calls) from tier_stats"
                            " where identity <> '_total' and tier <> '_total'"
                            " group by tier, identity order by tier, identity")].

%% Requests and calls, that is: time without anything armed is none of them.
lost(P) ->
    maps:without([unarmed, uncounted], losses(P)).

%% Every call of the entry is accounted for. Gives the calls.
balance(P) ->
    Runs = balances(P),
    Sum = fun(Key) -> lists:sum([maps:get(Key, R) || R <- Runs]) end,
    Sum(calls) =:= Sum(sampled) + Sum(lost) orelse
        fail("~b entry calls, but ~b sampled and ~b lost: ~0p", [Sum(calls), Sum(sampled), Sum(lost), losses(P)]),
    Sum(calls).

%% By run: the entry's calls, those assembled, and those lost, of each of which
%% there is one cause.
balances(P) ->
    Query = "select r.id, coalesce(sum(entry_calls), 0), coalesce(sum(sampled), 0),"
        " coalesce(sum((select sum(l.n) from loss l join cause c on c.id = l.cause_id where l.window_id = w.id"
        " and c.name in ('sampled_out', 'dropped_entries', 'tripped', 'disconnected', 'running', 'reloaded', 'slice', 'unseen', 'expired',"
        " 'collided', 'request_cap', 'unwritten', 'foreign_token'))), 0)"
        " from run r left join time_window w on w.run_id = r.id group by r.id order by r.id",
    [#{run => Run, calls => Calls, sampled => Sampled, lost => Lost}
     || Row <- sql(P, Query), [Run, Calls, Sampled, Lost] <- [[binary_to_integer(N) || N <- Row]]].

%% That of kprofd and its agent: AGENT_PROTOCOL in src/agent/agent.h.
protocol() -> 9.

%% ------------------------------------------------------ control socket ----

%% {ok | error, Text}. One that is refused has its answer before it asks.
control(#{control := Socket}, Line) ->
    {ok, S} = gen_tcp:connect({local, Socket}, 0, [local, binary, {active, false}]),
    _ = gen_tcp:send(S, [Line, $\n]),
    Answer = control_answer(S, control_all(S, <<>>)),
    gen_tcp:close(S),
    Answer.

%% A number of `kprof status`; 0 where it is not told.
said(P, Pattern) ->
    {ok, Text} = control(P, "status"),
    case re:run(Text, Pattern, [{capture, [1], list}]) of
        {match, [N]} -> list_to_integer(N);
        nomatch -> 0
    end.

%% So many more requests than there are now.
assembles(P, More) ->
    Then = said(P, "([0-9]+) assembled"),
    until("requests come", 2 * ?WAIT_MS, fun() -> said(P, "([0-9]+) assembled") >= Then + More end).

%% So many requests in all.
assembled(P, N) ->
    until("so many requests", 2 * ?WAIT_MS,
          fun() -> said(P, "([0-9]+) assembled") >= N end).

control_all(S, Got) ->
    case gen_tcp:recv(S, 0, ?WAIT_MS) of
        {ok, More} -> control_all(S, <<Got/binary, More/binary>>);
        {error, closed} -> Got
    end.

control_answer(S, Bytes) ->
    [Head, Rest] = string:split(Bytes, "\n"),
    [Word, Length] = string:split(Head, " "),
    N = binary_to_integer(Length),
    <<Text:N/binary, More/binary>> = Rest,
    case Word of
        <<"ok">> -> {ok, Text};
        <<"error">> -> {error, Text};
        _ -> control_answer(S, More)
    end.
