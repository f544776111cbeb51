%% What goes wrong is said in words that name the thing and the way out, the
%% exit status is not 0, and the target is left as it was.
-module(error_tests).

-export([tests/0]).

-define(ENTRY, {requests, handle_request, 2}).

tests() ->
    [{"wrong cookie", 30, fun wrong_cookie/1},
     {"cookie file that others can read", 30, fun open_cookie/1},
     {"cookie that a pod has as a secret", 60, fun pod_cookie/1},
     {"cookie that systemd keeps", 30, fun credential/1},
     {"cookie file that is not there", 30, fun no_cookie/1},
     {"cookie file that is no file", 30, fun odd_cookie/1},
     {"node names that no node accepts", 60, fun bad_names/1},
     {"unknown host", 30, fun unknown_host/1},
     {"a resolver that hangs", 30, fun slow_resolver/1},
     {"no such node", 30, fun no_node/1},
     {"no epmd", 30, fun no_epmd/1},
     {"unknown function", 30, fun unknown_function/1},
     {"unknown module", 30, fun unknown_module/1},
     {"several errors in tiers.conf", 30, fun tiers_errors/1},
     {"database that cannot be written", 30, fun unwritable/1},
     {"database that is none", 30, fun no_database/1},
     {"a second kprofd on the target", 30, fun second_on_target/1},
     {"a second kprofd on the database", 30, fun second_on_database/1},
     {"kept out by the command line", 30, fun(T) -> disabled(T, ["-kprof", "disabled", "true"]) end},
     {"kept out by the configuration", 30, fun disabled_by_file/1},
     {"somebody else's trace", 30, fun others_trace/1},
     {"somebody else's trace while it is paused", 60, fun others_meanwhile/1},
     {"somebody else's trace of new processes", 30, fun others_new_processes/1},
     {"somebody else's trace of other things", 60, fun neighbours/1},
     {"exact where it would copy too much", 30, fun exact_refused/1},
     {"identity that is too long", 30, fun long_identity/1},
     {"target killed and started again", 60, fun restarted/1},
     {"target gone for good", 60, fun gone/1},
     {"a start that fails leaves nothing behind", 30, fun nothing_left/1},
     {"a start that fails is in the database that was there", 30, fun start_recorded/1},
     {"a service that does not start keeps its database", 30, fun service_recorded/1},
     {"a node has one name, whatever was typed", 30, fun one_name/1},
     {"a profile that reached nobody", 30, fun unreached/1},
     {"a node that is short of atoms", 120, fun few_atoms/1},
     {"a node that is short of processes", 120, fun few_processes/1},
     {"a node whose control group has little memory left", 120, fun little_memory/1},
     {"usage", 30, fun usage/1}].

%% It said that nothing was measured, not why, and its status was 0.
unreached(T) ->
    Target = it:target(T, #{kind => plain}),
    it:signal(Target, "STOP"),
    P = it:kprofd(T, Target, #{args => ["-duration", "2s"]}),
    it:ended(P, 1, "'" ++ maps:get(node, Target) ++ "' was not reached in that time: connecting"),
    it:signal(Target, "CONT").

%% The VM ends when it has no atom left, and the agent makes hundreds: attaching to such a node
%% ended it.
few_atoms(T) ->
    Target = it:target(T, #{kind => plain, args => ["+t", "20000"]}),
    connected_before(Target),
    it:do(Target, fun() ->
                          _ = [list_to_atom("filler_" ++ integer_to_list(I))
                               || I <- lists:seq(1, 20000 - 300 - erlang:system_info(atom_count))],
                          ok
                  end),
    refused(T, Target, "has [0-9]+ of its 20 000 atoms left, and 2 000 are needed"),
    Left = 20000 - it:call(Target, erlang, system_info, [atom_count]),
    it:check(Left > 280, "~b atoms are left of 300", [Left]).

%% The first connection loads these, whoever makes it.
connected_before(Target) ->
    [{module, M} = it:call(Target, code, ensure_loaded, [M]) || M <- [dist_util, string, unicode_util]].

%% Tracing makes a few; and a stack of Erlang's was what one was shown.
few_processes(T) ->
    Target = it:target(T, #{kind => plain, args => ["+P", "1024"]}),
    connected_before(Target),
    it:do(Target, fun() ->
                          _ = [spawn(fun() -> receive after infinity -> ok end end)
                               || _ <- lists:seq(1, 1024 - 8 - erlang:system_info(process_count))],
                          ok
                  end),
    refused(T, Target, "has [0-9]+ of its 1 024 processes left, and 100 are needed").

little_memory(T) ->
    Target = it:target(T, #{kind => plain}),
    connected_before(Target),
    Dir = "/sys/fs/cgroup/memory/kprofd-it-" ++ os:getpid(),
    %% A target in another root file system may have none.
    case it:call(Target, filelib, is_dir, [filename:dirname(Dir)]) andalso file:make_dir(Dir) of
        ok ->
            try
                ok = file:write_file(filename:join(Dir, "memory.limit_in_bytes"), "31457280"),
                ok = file:write_file(filename:join(Dir, "cgroup.procs"), it:call(Target, os, getpid, [])),
                refused(T, Target, "has [0-9]+ MiB left of the 30 MiB that its control group may have")
            after
                it:stop_target(Target),
                it:until("the group is empty", fun() -> file:del_dir(Dir) =:= ok end)
            end;
        _ ->
            {note, "no control group can be made here; unit test test_headroom has the files"}
    end.

%% By every command that loads something, before it loads anything.
refused(T, Target, Says) ->
    Before = it:call(Target, erlang, loaded, []),
    [it:ended(it:kprofd(T, Target, #{args => Args}), 1, Says) || Args <- [["-duration", "2s"], ["-check"]]],
    [begin
         {1, "", Error} = it_kprof:run(T, Target, Cmd, Args),
         it_kprof:says(Error, Says)
     end || {Cmd, Args} <- [{"count", ["lists:seq/2", "-for", "1s"]}, {"time", ["lists", "-for", "1s"]},
                            {"memory", ["lists", "-for", "1s"]}, {"stacks", ["-for", "1s"]},
                            {"trace", ["lists", "-for", "1s"]}, {"suggest", ["-o", it:path(T, "tiers")]}]],
    it:equal("modules that were loaded", [], it:call(Target, erlang, loaded, []) -- Before).

nobody() -> "nobody_" ++ os:getpid() ++ "@127.0.0.1".

files(T) ->
    {ok, Names} = file:list_dir(filename:dirname(it:path(T, "x"))),
    [N || N <- lists:sort(Names), re:run(N, "^kprofd1\\.db|dump") =/= nomatch].

%% It left a database, which said nothing of why it was empty, and had a node in
%% it that has never been there.
nothing_left(T) ->
    P = it:kprofd(T, nobody(), #{args => ["-dump-file", it:path(T, "dump")]}),
    it:ended(P, 1, "cannot connect to 'nobody_"),
    it:equal("what is left", [], files(T)),
    {1, _, Said} = it_kprof:kprof(T, ["report", "-db", it:db(P)]),
    it_kprof:says(Said, "no such file \\(name the file that kprofd writes with -db; one that did not start leaves none\\)"),
    %% nor where it is the port of the dashboard that cannot be had
    {ok, L} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(L),
    Q = it:kprofd(T, nobody(), #{db => "kprofd1.db", args => ["-http", "127.0.0.1:" ++ integer_to_list(Port)]}),
    it:ended(Q, 1),
    gen_tcp:close(L),
    it:equal("what is left", [], files(T)),
    %% what was there stays, as it was
    Dump = it:write(T, "dump", "of yesterday\n"),
    it:ended(it:kprofd(T, nobody(), #{db => "kprofd1.db", args => ["-dump-file", Dump]}), 1),
    it:equal("what is left", ["dump"], files(T)),
    {ok, <<"of yesterday\n">>} = file:read_file(Dump).

start_recorded(T) ->
    Target = it:target(T, #{kind => plain}),
    Tiers = "[{outer, {it_driver, outer, 2}}].\n",
    P = it:kprofd(T, Target, #{tiers => Tiers}),
    it:armed(P),
    it:terminate(P),
    [it:ended(it:kprofd(T, nobody(), #{db => "kprofd1.db", tiers => Tiers}), 1) || _ <- [1, 2, 3]],
    it:equal("nodes", [[list_to_binary(maps:get(node, Target))]], it:sql(P, "select name from node where name <> ''")),
    %% one row for what failed three times
    it:equal("runs", [[<<"0">>], [<<"1">>]],
             it:sql(P, "select coalesce(failed like 'cannot connect to ''nobody_%', 0) from runs order by run")),
    {1, Status, _} = it_kprof:kprof(T, ["status", "-db", it:db(P)]),
    it_kprof:says(Status, "last start  failed: cannot connect to 'nobody_"),
    it_kprof:says(Status, "failed to start"),
    {1, Json, _} = it_kprof:kprof(T, ["status", "-json", "-db", it:db(P)]),
    it_kprof:says(Json, "\"state\":\"failed to start\",\"failed\":\"cannot connect to 'nobody_").

%% Nobody reads what it says, and it is started again and again.
service_recorded(T) ->
    Opts = #{db => "kprofd1.db", env => [{"NOTIFY_SOCKET", "@it_nobody_" ++ os:getpid()}]},
    [P | _] = [begin
                   Q = it:kprofd(T, nobody(), Opts),
                   it:ended(Q, 1),
                   Q
               end || _ <- [1, 2, 3]],
    it:equal("what is left", ["kprofd1.db"], files(T)),
    it:equal("runs", 1, it:number(P, "select count(*) from runs")),
    it:equal("nodes", [], it:sql(P, "select name from node where name <> ''")),
    {0, Report, _} = it_kprof:kprof(T, ["report", "-db", it:db(P)]),
    it_kprof:says(Report, "^nothing was measured: kprofd failed to start: cannot connect to 'nobody_").

%% That which it gives itself, not a second one for each way to write its host.
one_name(T) ->
    Target = it:target(T, #{kind => plain, naming => short}),
    [Alive, Host] = string:split(maps:get(node, Target), "@"),
    [begin
         P = it:kprofd(T, Alive ++ "@" ++ Typed, #{db => "kprofd1.db", tiers => "[{outer, {it_driver, outer, 2}}].\n"}),
         it:armed(P),
         it:terminate(P)
     end || Typed <- ["127.0.0.1", "localhost", string:uppercase(Host), Host]],
    Last = it:kprofd(T, Target, #{db => "kprofd1.db", tiers => "[{outer, {it_driver, outer, 2}}].\n"}),
    it:armed(Last),
    it:terminate(Last),
    it:equal("nodes", [[list_to_binary(maps:get(node, Target))]],
             it:sql(Last, "select name from node where name <> ''")).

wrong_cookie(T) ->
    {Target, Before} = target(T),
    File = it:write(T, "wrong", "another\n"),
    ok = file:change_mode(File, 8#600),
    fails(T, Target, #{cookie => File}, "cannot connect to '.*': cookie refused, read from '" ++ File ++ "' \\(see -cookie-file\\)"),
    it:audit(Target, Before).

open_cookie(T) ->
    {Target, Before} = target(T),
    File = it:write(T, "open", "integration\n"),
    ok = file:change_mode(File, 8#644),
    fails(T, Target, #{cookie => File},
          "cookie file '.*/open' can be read by everybody \\(chmod 600 it, or copy it with install -m 600 and name"),
    it:audit(Target, Before).

%% As a pod with an fsGroup shows it: root:GROUP 0440, behind two links. It was refused.
pod_cookie(T) ->
    {Target, Before} = target(T),
    File = it:write(T, "secret", "integration\n"),
    ok = file:change_mode(File, 8#440),
    Data = filename:absname(it:path(T, "..data")),
    ok = file:make_symlink(filename:absname(filename:dirname(File)), Data),
    Link = filename:absname(it:path(T, "cookie")),
    ok = file:make_symlink(filename:join(Data, "secret"), Link),
    P = it:kprofd(T, Target, #{cookie => Link}),
    it:armed(P),
    it:terminate(P),
    %% A group that has other members, or that is none of kprofd's.
    ok = file:change_group(File, 64242),
    fails(T, Target, #{cookie => Link},
          "cookie file '.*/cookie' can be read by its group, to which this process does not belong .*"
          "if nobody else is in that group, set CREDENTIALS_DIRECTORY to its directory"),
    it:audit(Target, Before).

%% An ACL lets its user read it; the mask shows as the group's right.
credential(T) ->
    File = it:write(T, "cookie", "integration\n"),
    ok = file:change_mode(File, 8#440),
    ok = file:change_group(File, 64242),
    Dir = filename:dirname(File),
    Opts = #{cookie => File, env => [{"CREDENTIALS_DIRECTORY", Dir}]},
    fails(T, "it_nobody@127.0.0.1", Opts, "no such node"),
    ok = file:change_mode(File, 8#444),
    fails(T, "it_nobody@127.0.0.1", Opts, "can be read by everybody"),
    ok = file:change_mode(File, 8#440),
    fails(T, "it_nobody@127.0.0.1", Opts#{env := [{"CREDENTIALS_DIRECTORY", Dir ++ "/.."}]},
          "can be read by its group").

no_cookie(T) ->
    fails(T, "nobody@127.0.0.1", #{cookie => "/nowhere/cookie"},
          "cannot read the cookie file '/nowhere/cookie': No such file").

%% Of a FIFO kprofd waited for somebody to write to it, for ever.
odd_cookie(T) ->
    Fifo = it:path(T, "fifo"),
    [] = os:cmd("mkfifo -m 600 '" ++ Fifo ++ "'"),
    Socket = it:path(T, "socket"),
    {ok, L} = gen_tcp:listen(0, [{ifaddr, {local, Socket}}]),
    [fails(T, "it_nobody@127.0.0.1", #{cookie => File},
           "cannot read the cookie file '.*': it is a " ++ Kind ++ ", not a regular file \\(see -cookie-file\\)")
     || {File, Kind} <- [{Fifo, "FIFO"}, {Socket, "socket"}, {filename:dirname(Fifo), "directory"},
                         {"/dev/null", "device"}]],
    gen_tcp:close(L).

%% A node answers these as it does one that is in use, and so kprofd said. Who has
%% such a name is no node: there is no use in asking for it.
bad_names(T) ->
    {Target, Before} = target(T),
    [begin
         P = it:kprofd(T, Target, #{args => ["-name", Name]}),
         it:ended(P, 2, "-name '.*': not letters, digits, _ and -;")
     end || Name <- ["kp.x@127.0.0.1", "kp+x", "kp x", "k:p", "kp@a@b", "kp@", [16#e9]]],
    [begin
         P = it:kprofd(T, Node, #{}),
         it:ended(P, 2, "-target '.*': not the name of a node")
     end || Node <- ["a.b@127.0.0.1", "a+b@127.0.0.1"]],
    #{node := Node} = Target,
    %% Whoever leaves out the host reads which nodes there are here, with theirs.
    [it:ended(it:start(T, hd(Args), [it:build(T) ++ "/" ++ hd(Args) | tl(Args)], []), 2,
              "-(target|cluster) 'it': not the name of a node, such as app@host: epmd lists .*\\b"
              ++ lists:append(string:replace(Node, ".", "\\.", all)))
     || Args <- [["kprofd", "-target", "it", "-tiers", "x"], ["kprofd", "-cluster", "it", "-match", "*"],
                 ["kprof", "count", "-target", "it", "lists"], ["kprof", "trace", "-target", "it", "lists"],
                 ["kprof", "clear-tokens", "-target", "it"]]],
    K = it:start(T, "kprof", [it:build(T) ++ "/kprof", "clear-tokens", "-target", Node, "-name", "k.p@127.0.0.1",
                              "-cookie-file", maps:get(cookie, T)], []),
    it:ended(K, 2, "-name 'k.p@127.0.0.1': not letters, digits, _ and -; @HOST may follow"),
    %% Of a host they accept anything.
    Q = it:kprofd(T, Target, #{args => ["-name", "kp_1-x@a!b"]}),
    it:armed(Q),
    it:terminate(Q),
    it:audit(Target, Before, [nodes]).

unknown_host(T) ->
    fails(T, "app@no.such.host.invalid", #{},
          "cannot connect to 'app@no.such.host.invalid': unknown host 'no.such.host.invalid' \\(.*; see -resolve\\)"),
    fails(T, "app@pod", #{args => ["-resolve", "app@pod=no.such.host.invalid"]},
          "unknown host 'no.such.host.invalid' \\(.*; -resolve says so\\)"),
    fails(T, "app@127.0.0.1", #{args => ["-epmd", "no.such.host.invalid"]},
          "unknown host 'no.such.host.invalid' \\(.*; -epmd says so\\)").

%% The resolver's own limits may be minutes: kprofd waited as long.
slow_resolver(T) ->
    Lib = filename:absname(it:build(T) ++ "/test/slow_resolver.so"),
    {ok, _} = file:read_file_info(Lib),
    fails(T, "app@slow.host.invalid", #{env => [{"LD_PRELOAD", Lib}]},
          "cannot connect to 'app@slow.host.invalid': no answer within 8 s"
          " \\(does the name 'slow.host.invalid' resolve here").

no_node(T) ->
    {#{node := Node}, _} = target(T),
    fails(T, "it_nobody@127.0.0.1", #{},
          "no such node is registered at the epmd of '127.0.0.1' \\(epmd lists .*@127.0.0.1.*"
          "; a node without epmd needs its port: see -dist-port; .*epmd.*\\)$"),
    fails(T, "it_nobody@127.0.0.1:1", #{}, "^[^']*cannot connect to 'it_nobody@127.0.0.1': 127.0.0.1 port 1: "),
    %% One letter too many.
    Near = lists:append(string:replace(Node, "@", "x@")),
    fails(T, Near, #{}, "no such node is registered at the epmd of '127.0.0.1' \\(did you mean '" ++ Node ++ "'\\?").

no_epmd(T) ->
    Port = it:free_port(),
    fails(T#{epmd := Port}, "app@127.0.0.1", #{},
          io_lib:format("no epmd answers at '127.0.0.1' port ~b", [Port])).

unknown_function(T) ->
    {Target, Before} = target(T),
    Text = fails(T, Target, #{tiers => "{tiers, [{handle, {requests, handle_request, 2}},\n"
                                       "         {db, {db, network_reqest, 1}}]}.\n"},
                 "^kprofd: '.*tiers.*' names what the target does not have"),
    says(Text, "tiers1.conf:2:15: .*db:network_reqest/1"),
    says(Text, "network_request/1"),
    it:audit(Target, Before).

unknown_module(T) ->
    {Target, Before} = target(T),
    Text = fails(T, Target, #{tiers => "{tiers, [{handle, {reqests, handle_request, 2}}]}.\n"},
                 "^kprofd: '.*tiers.*' names what the target does not have"),
    says(Text, "tiers1.conf:1:19: .*reqests"),
    says(Text, "'?requests'?"),
    it:audit(Target, Before).

tiers_errors(T) ->
    {Target, Before} = target(T),
    Text = fails(T, Target, #{tiers => "{tiers, [{db, {db, query, 2}},\n"
                                       "         {db, {db, access, 1}}]}.\n"
                                       "{samplin, all}.\n"
                                       "{slow_ms, soon}.\n"}, ""),
    [says(Text, io_lib:format("^[^ ]*tiers1.conf:~b:[0-9]+: ", [Line])) || Line <- [2, 3, 4]],
    says(Text, "sampling"),
    it:audit(Target, Before).

unwritable(T) ->
    {Target, Before} = target(T),
    fails(T, Target, #{db => "no/such/directory/x.db"}, "no/such/directory/x.db"),
    %% Of a FIFO, SQLite and the loop waited for somebody at the other end.
    [] = os:cmd("mkfifo '" ++ it:path(T, "fifo") ++ "'"),
    fails(T, Target, #{db => "fifo"}, "fifo': it is a FIFO, not a file"),
    [fails(T, Target, #{args => [Option, it:path(T, "fifo")]}, "cannot write to '.*fifo': nobody reads from it \\(see " ++ Option)
     || Option <- ["-dump-file", "-log-file"]],
    it:equal("it is there", "fifo\n", os:cmd("stat -c %F '" ++ it:path(T, "fifo") ++ "'")),
    it:audit(Target, Before).

no_database(T) ->
    {Target, Before} = target(T),
    Text = lists:duplicate(200, "this is not a database\n"),
    File = it:write(T, "x.db", Text),
    fails(T, Target, #{db => "x.db"}, "x.db'.*not a database"),
    it:equal("the file", {ok, iolist_to_binary(Text)}, file:read_file(File)),
    it:audit(Target, Before).

second_on_target(T) ->
    {Target, Before} = target(T),
    First = it:kprofd(T, Target),
    it:armed(First),
    fails(T, Target, #{},
          io_lib:format("is being profiled already: .*process ~b", [maps:get(pid, First)])),
    armed = maps:get(state, it:call(Target, kprof_agent, status, [])),
    it:terminate(First),
    it:audit(Target, Before).

second_on_database(T) ->
    {Target, Before} = target(T),
    First = it:kprofd(T, Target, #{db => "one.db"}),
    it:armed(First),
    fails(T, Target, #{db => "one.db"}, "one.db"),
    fails(T, Target, #{db => "one.db", args => ["-control", it:path(T, "x.sock")]}, "one.db"),
    it:terminate(First),
    it:equal("runs", [[<<"clean">>]], it:sql(First, "select state from runs")),
    it:audit(Target, Before).

%% There is no application called kprof in the target: its configuration counts
%% all the same.
disabled(T, Args) ->
    Target = it:target(T, #{args => Args}),
    Before = it:settled(Target),
    P = it:kprofd(T, Target),
    it:ended(P, 3, "keeps kprofd out: {kprof, \\[{disabled, true}\\]}"),
    it:audit(Target, Before).

disabled_by_file(#{ebins := [Ebin, _], n := N} = T) ->
    %% Where the target's file system has it.
    Target = it:target(T, #{kind => plain}),
    File = lists:concat([Ebin, "/it", N]),
    ok = it:call(Target, file, write_file, [File ++ ".config", "[{kprof, [{disabled, true}]}].\n"]),
    it:stop_target(Target),
    disabled(T, ["-config", File]).

%% Up to OTP 26 there is one tracer for all; from 27 on nobody is in the way.
others_trace(T) ->
    Target = it:target(T),
    Theirs = fun() ->
                     [erlang:trace_info(?ENTRY, K) || K <- [traced, match_spec, meta, call_count]] ++
                         [erlang:trace_info(whereis(db_of_somebody), K) || K <- [flags, tracer]]
             end,
    it:do(Target, fun() ->
                          Tracer = spawn(fun Wait() -> receive _ -> Wait() end end),
                          register(db_of_somebody, spawn(fun() -> receive after infinity -> ok end end)),
                          1 = erlang:trace_pattern(?ENTRY, [{'_', [], [{return_trace}]}], [local]),
                          1 = erlang:trace(whereis(db_of_somebody), true, [call, {tracer, Tracer}])
                  end),
    Before = it:settled(Target),
    Were = it:do(Target, Theirs),
    case it:otp(Target) >= 27 of
        true ->
            P = it:kprofd(T, Target),
            it:armed(P),
            it:loaded(it:load(T, Target, ["4", "200"])),
            it:equal("theirs", Were, it:do(Target, Theirs)),
            it:terminate(P),
            it:equal("requests", 200, it:requests(P));
        false ->
            fails(T, Target, #{}, "another tool traces or counts.*requests")
    end,
    it:equal("theirs, at the end", Were, it:do(Target, Theirs)),
    %% On a node with sessions the load has left its marks among the processes.
    it:audit(Target, Before, [processes]).

%% While we rest, a function of ours may be traced by others; up to OTP 26 only
%% by them. What is theirs then is neither overwritten nor taken away.
others_meanwhile(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    P = it:kprofd(T, Target),
    it:armed(P),
    Theirs = fun() -> [erlang:trace_info(?ENTRY, K) || K <- [traced, match_spec, meta]] end,
    Put = fun(Spec) ->
                  {ok, _} = it:control(P, "pause"),
                  it:do(Target, fun() -> 1 = erlang:trace_pattern(?ENTRY, Spec, [local]) end),
                  it:do(Target, Theirs)
          end,
    Were = Put([{'_', [], [{return_trace}]}]),
    _ = it:control(P, "resume"),
    case it:otp(Target) >= 27 of
        true -> it:equal("state", armed, it:agent_state(Target));
        false -> it:saw(P, "another tool (traces or counts|has a trace pattern on) .*requests")
    end,
    it:equal("theirs, after a resume", Were, it:do(Target, Theirs)),
    it:do(Target, fun() -> 1 = erlang:trace_pattern(?ENTRY, false, [local]) end),
    it:until("armed again", fun() -> it:agent_state(Target) =:= armed end),
    Were = Put([{'_', [], [{return_trace}]}]),
    it:terminate(P),
    it:equal("theirs, at the end", Were, it:do(Target, Theirs)),
    it:do(Target, fun() -> 1 = erlang:trace_pattern(?ENTRY, false, [local]) end),
    it:audit(Target, Before, []).

others_new_processes(T) ->
    Target = it:target(T),
    it:do(Target, fun() ->
                          Tracer = spawn(fun Wait() -> receive _ -> Wait() end end),
                          erlang:trace(new_processes, true, [procs, {tracer, Tracer}])
                  end),
    Before = it:settled(Target),
    case it:otp(Target) >= 27 of
        true ->
            P = it:kprofd(T, Target),
            it:armed(P),
            it:terminate(P);
        false ->
            fails(T, Target, #{}, "new processes in .* are traced by <.*> already")
    end,
    it:audit(Target, Before, [flags, processes, ets]).

%% A debugger at work on other functions, with processes and a tracer of its own:
%% it is told of, its events go on, and nothing of it changes, whatever becomes
%% of the agent.
neighbours(T) ->
    Target = it:target(T),
    Other = {formatter, format, 1},
    it:do(Target, fun() ->
                          Tracer = spawn(fun() -> it_audit:count_traces(0) end),
                          register(it_tracer, Tracer),
                          register(it_traced, spawn(fun Wait() -> receive _ -> Wait() end end)),
                          1 = erlang:trace_pattern(Other, [{'_', [], [{return_trace}]}], [local]),
                          1 = erlang:trace_pattern({lists, nth, 2}, [], [{meta, Tracer}]),
                          1 = erlang:trace_pattern({lists, last, 1}, true, [call_count]),
                          [1 = erlang:trace(P, true, ['receive', call, {tracer, Tracer}])
                           || P <- [whereis(it_traced) | others()]]
                  end),
    Theirs = fun() ->
                     [erlang:trace_info(F, K) || F <- [Other, {lists, nth, 2}, {lists, last, 1}],
                                                 K <- [traced, match_spec, meta]] ++
                         [erlang:trace_info(P, K) || P <- [whereis(it_traced) | others()], K <- [flags, tracer]]
             end,
    Before = it:settled(Target),
    Were = it:do(Target, Theirs),
    P = it:kprofd(T, Target),
    it:armed(P),
    case it:otp(Target) >= 27 of
        true -> ok;
        false -> it:saw(P, "neighbours: other tools trace 2 processes.*{it_traced,it_tracer}")
    end,
    it:equal("theirs", Were, it:do(Target, Theirs)),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:call(Target, erlang, exit, [it:call(Target, erlang, whereis, [kprof_agent]), kill]),
    it:until("attached again",
             fun() -> length(binary:matches(it:errors(P), <<"kprofd: profiling ">>)) =:= 2 end),
    it:equal("theirs, later", Were, it:do(Target, Theirs)),
    Seen = it:call(Target, it_audit, traces_seen, []),
    it:do(Target, fun() -> it_traced ! word, ok end),
    it:until("their events go on", fun() -> it:call(Target, it_audit, traces_seen, []) > Seen end),
    it:terminate(P),
    it:equal("theirs, at the end", Were, it:do(Target, Theirs)),
    it:audit(Target, Before, [processes]).

%% In the target.
others() -> [whereis(application_controller)].

%% A server's callbacks return its state, a loop does not return: traced, but
%% without it. Whoever insists gets it.
exact_refused(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{handle, {requests, handle_request, 2}},\n"
                                        "{db, {db, handle_call, 3}, [exact]},\n"
                                        "{loop, {it_stub, serve, 1}, [exact]},\n"
                                        "{forced, {formatter, handle_call, 3}, [{exact, force}]}]}.\n"}),
    it:armed(P),
    Native = it:is_native(),            % it copies nothing
    Native orelse it:saw(P, "tiers1.conf:2:.*warning: db:handle_call/3 is traced without 'exact': a callback of"
                         " gen_server"),
    it:saw(P, "tiers1.conf:3:.*warning: it_stub:serve/1 is traced without 'exact': .*a server's loop"),
    it:equal("about the forced one", nomatch, re:run(it:errors(P), "formatter")),
    it:equal("armed with it", [db || Native] ++ [formatter],
             [M || {M, _, _} = MFA <- [{db, handle_call, 3}, {it_stub, serve, 1}, {formatter, handle_call, 3}],
                   it:call(Target, it_stub, is_exact, [MFA])]),
    it:terminate(P),
    it:audit(Target, Before).

%% Said once, with the clause's line, however many requests there are.
long_identity(T) ->
    {Target, _} = target(T),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{handle, {requests, handle_request, 2}}]}.\n"
                                        "{sampling, all}.\n{budget, none}.\n"
                                        "{identity, fun\n"
                                        "    ({requests, handle_request, [read, _]}) -> read;\n"
                                        "    ({requests, handle_request, [_, Req]}) -> Req\nend}.\n"}),
    it:armed(P),
    it:loaded(it:load(T, Target, ["4", "100"])),
    it:terminate(P),
    it:equal("warnings", 1, length(binary:matches(it:errors(P), <<"by the clause on line 6 of">>))),
    it:equal("events", 1, it:number(P, "select count(*) from events where kind = 'identity'")),
    it:check(it:number(P, "select sum(sampled_requests) from request_stats where identity = '_other'") > 0, "requests named _other").

%% kprofd survives, attaches to the new one, and goes on into the same database.
restarted(T) ->
    Target = it:target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    #{requests := 300} = it:loaded(it:load(T, Target, ["4", "300"])),
    it:until("requests closed", fun() -> assembled(P) >= 300 end),
    it:stop_target(Target),
    it:saw(P, "lost '"),
    %% Its name was right.
    it:saw(P, "no such node is registered at the epmd of '127.0.0.1' any more; trying again"),
    %% Held still, or it might have attached again before the snapshot.
    it:signal(P, "STOP"),
    Again = it:target(T, #{node => maps:get(node, Target)}),
    Before = it:settled(Again),
    it:signal(P, "CONT"),
    it:until("armed again",
             fun() -> length(binary:matches(it:errors(P), <<"kprofd: profiling ">>)) =:= 2 end),
    #{requests := 200} = it:loaded(it:load(T, Again, ["4", "200"])),
    it:terminate(P),
    it:equal("requests", 500, it:requests(P)),
    it:balance(P),
    it:equal("losses", #{}, it:lost(P)),
    it:equal("events", [[<<"attach">>], [<<"armed">>], [<<"lost">>], [<<"attach">>], [<<"armed">>],
                        [<<"detach">>]], it:sql(P, "select kind from events where kind not in ('probe', 'loads', 'changed') "
                                               "and text not like '%no such node%'")),
    it:audit(Again, Before, [processes]).

assembled(P) ->
    {ok, Text} = it:control(P, "status"),
    {match, [N]} = re:run(Text, "([0-9]+) assembled", [{capture, [1], list}]),
    list_to_integer(N).

%% It waits for the target, and can be told to end while it does.
gone(T) ->
    Target = it:target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:stop_target(Target),
    it:saw(P, "lost '"),
    it:until("it tries again", fun() -> length(binary:matches(it:errors(P), <<"connecting">>)) > 2 end),
    it:terminate(P),
    it:equal("how it ended", [[<<"clean">>]], it:sql(P, "select state from runs")).

usage(T) ->
    [begin
         P = it:start(T, "usage" ++ integer_to_list(N), [it:build(T) ++ "/kprofd" | Args], []),
         it:ended(P, 2, Pattern)
     end || {N, Args, Pattern} <- [{1, [], "no tiers.conf given: -tiers"},
                                   {2, ["-tiers", "x"], "no target given: -target"},
                                   {3, ["-tires", "x"], "unknown option '-tires': did you mean '-tiers'"},
                                   {4, ["-target", "app"], "-target 'app': not the name of a node"},
                                   {5, ["--interval"], "option '-interval' needs a value"},
                                   {6, ["stray"], "unexpected argument 'stray'"},
                                   {7, ["-target", "@host"], "-target '@host': not the name of a node"},
                                   {8, ["-target", "app@"], "-target 'app@': not the name of a node"},
                                   {9, ["-target", "app@" ++ lists:duplicate(252, $h)], "-target 'app@h+': not the name of a node"},
                                   {10, ["-interval", "2h"], "-interval '2h': not a time from 1s to 1h"},
                                   {11, ["-foo"], "unknown option '-foo' \\("}]].

target(T) ->
    Target = it:target(T),
    {Target, it:settled(Target)}.

%% Ends with 1 and says this; gives all it said.
fails(T, Target, Opts, Pattern) ->
    P = it:kprofd(T, Target, Opts),
    it:ended(P, 1, Pattern),
    it:errors(P).

says(Text, Pattern) ->
    re:run(Text, Pattern, [multiline]) =/= nomatch orelse it:fail("no '~s' in:~n~ts", [Pattern, Text]).
