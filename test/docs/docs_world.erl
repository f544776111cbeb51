%% docs_world - where examples run: a node app@HOST with the sample application
%% under load, a directory with a tiers.conf in it, a home with the cookie, and
%% kprofd and kprof as `make install` leaves them.
%%
%% Node names are those of the documents; an epmd of its own keeps them apart
%% from all other nodes of the machine.
-module(docs_world).

-export([open/2, history/1, with_daemon/1, daemon_fails/1, causes/1]).
-export([run/2, profile/2, fill/2, call/4, write/3, read/2]).

-define(COMMAND_MS, 600000).
-define(KINDS, 5).      % of requests in test/docs/tiers.conf, and _total

%% Work that a reader would have: some requests are slow, some raise.
-define(CONFIG, "#{db => #{work_us => 50, wait_ms => 2}, formatter => #{work_us => 30},"
                "  faults => #{raise => 0.01, slow => 0.02}}").

%% Install is what `make install` was given as DESTDIR, Stubs a directory of modules.
open(Name, #{env := Env, install := Install, stubs := Stubs}) ->
    T = it:context(Name ++ ": world", Env),
    Dir = filename:absname(it:path(T, "")),
    [ok = filelib:ensure_path(filename:join(Dir, D)) || D <- ["here/var/lib", "here/wrong", "home", "run"]],
    ok = file:make_symlink(filename:absname("priv"), filename:join(Dir, "here/priv")),
    ok = file:make_symlink("../..", filename:join(Dir, "here/var/lib/kprofd")),
    Cookie = filename:join(Dir, "home/.erlang.cookie"),
    {ok, _} = file:copy(maps:get(cookie, T), Cookie),
    ok = file:change_mode(Cookie, 8#600),
    [{ok, _} = file:copy(File, filename:join([Dir, "here", filename:basename(File)]))
     || File <- filelib:wildcard("priv/**/*.conf") ++ ["test/docs/tiers.conf"]],
    Host = it:short_host(),
    ok = file:write_file(filename:join(Dir, "here/nodes.txt"), ["app@", Host, "  # the only one\n"]),
    {ok, _} = file:copy(Cookie, filename:join(Dir, "here/cookie")),
    ok = file:change_mode(filename:join(Dir, "here/cookie"), 8#600),
    Target = it:target(T, #{node => "app@" ++ Host, config => ?CONFIG, args => ["-pa", Stubs]}),
    _ = it:load(T, Target, ["4", "100000s", "10"]),
    Here = filename:join(Dir, "here"),
    #{t => T, target => Target, here => Here, install => Install, daemon => none, n => counters:new(1, []),
      collector => docs_collector:start(),
      env => [{"PATH", Install ++ "/usr/local/bin:" ++ os:getenv("PATH")},
              {"HOME", filename:join(Dir, "home")}, {"XDG_RUNTIME_DIR", filename:join(Dir, "run")},
              {"DESTDIR", filename:join(Here, "destdir")}, {"TZ", "UTC"} |
              [{V, false} || V <- ["COLUMNS", "KPROFD_COOKIE_FILE", "KPROFD_TLS_OPTFILE", "ERL_DIST_PORT",
                                   "MAKEFLAGS", "MAKELEVEL", "MFLAGS"]]]}.

%% A file in the directory where commands run.
write(#{here := Here}, Name, Text) ->
    ok = file:write_file(filename:join(Here, Name), unicode:characters_to_binary(Text)).

read(#{here := Here}, Name) ->
    {ok, Text} = file:read_file(filename:join(Here, Name)),
    case filename:extension(Name) of
        ".gz" -> binary_to_list(zlib:gunzip(Text));
        _ -> unicode:characters_to_list(Text)
    end.

call(#{target := Target}, M, F, A) ->
    it:call(Target, M, F, A).

%% ----------------------------------------------------------- commands ----

%% {Exit status, standard output, standard error}
run(World, Command) ->
    P = start(World, Command),
    Status = ended(P, Command),
    {Status, unicode:characters_to_list(it:output(P)), unicode:characters_to_list(it:errors(P))}.

start(#{t := T, n := N, env := Env} = World, Command) ->
    counters:add(N, 1, 1),
    Name = "command" ++ integer_to_list(counters:get(N, 1)),
    it:start(T, Name, ["env", "-C", directory(World, Command), "sh", "-c", lists:flatten(Command)], Env).

%% make is run where the Makefile is, all else where the reader's files are.
directory(_, "make" ++ _) -> ".";
directory(#{here := Here}, _) -> Here.

ended(#{port := Port} = P, Command) ->
    receive {Port, {exit_status, Status}} -> Status
    after ?COMMAND_MS ->
            %% A port's process leads a process group.
            os:cmd(io_lib:format("kill -s KILL -- -~b 2>&1", [maps:get(pid, P)])),
            it:fail("'~ts' does not end", [Command])
    end.

%% A kprofd that goes on until it is told to end: here, when it has measured
%% something, and sent it to where it should; or if tiers.conf is for an
%% application that is not here, when it is armed.
%% {Exit status, whether it measured, standard error}
profile(#{collector := Collector} = World, Command) ->
    file:delete(filename:join(maps:get(here, World), "kprofd.db")),
    P = start(World, "exec " ++ Command),
    it:armed(P),
    IsHere = re:run(Command, " tiers\\.conf", [unicode, {capture, none}]) =:= match,
    IsHere andalso measured(World),
    string:find(Command, "-otlp ") =/= nomatch andalso
        it:until("the collector has figures", fun() -> docs_collector:taken(Collector) > 0 end),
    it:signal(P, "TERM"),
    {ended(P, Command), IsHere, unicode:characters_to_list(it:errors(P))}.

measured(World) ->
    it:until("requests of every kind are in the database",
             fun() ->
                     query(World, ["select count(distinct identity) from request_stats where ", recent("start")]) >= ?KINDS
             end).

%% Not what history/1 made.
recent(Column) ->
    Column ++ " > strftime('%Y-%m-%dT%H:%M', 'now', '-10 minutes')".

query(World, Sql) ->
    case run(World, ["sqlite3 kprofd.db \"", Sql, "\""]) of
        {0, Out, _} -> list_to_integer(string:trim(Out));
        _ -> 0
    end.

%% ------------------------------------------------------------- daemon ----

%% Two runs of some time ago, for what compares: they are made now and put back.
history(World) ->
    [begin
         {0, _, _} = run(World, fill("kprofd -target app@host -tiers tiers.conf -interval 1s -duration 3s", World)),
         {0, _, _} = run(World, io_lib:format("sqlite3 kprofd.db 'update time_window set"
                                              " start_ns = start_ns - ~b, end_ns = end_ns - ~b'", [Ns, Ns]))
     end || Minutes <- [23 * 60, 90], Ns <- [Minutes * 60 * 1000000000]].

%% A kprofd is attached, and its database has something of everything in it:
%% a pause, and so requests that were not seen, slow requests, what tiers did
%% besides, and how long messages waited, of which only the native probe tells.
with_daemon(#{daemon := none} = World) ->
    write(World, "everything.conf", read(World, "tiers.conf") ++ "{scheduling, true}.\n{messages, true}.\n"
          "{stacks, {per_second, 100}}.\n"),
    P = start(World, "exec " ++ fill("kprofd -target app@host -tiers everything.conf -interval 1s -probe native", World)),
    it:armed(P),
    [{0, _, _} = run(World, C) || C <- ["kprof pause", "sleep 1", "kprof resume"]],
    measured(World),
    [it:until(View ++ " has rows",
              fun() -> query(World, ["select count(*) from ", View, " where ", recent(Column)]) > 0 end)
     || {View, Column} <- [{"slow_requests", "start"}, {"losses", "start"}, {"events", "at"},
                                {"pause_stats", "start"}, {"message_stats", "start"}, {"tier_stacks", "start"},
                                {"process_stats", "start"}, {"memory_stats", "start"}]],
    World#{daemon := P};
with_daemon(#{daemon := P} = World) ->
    case it:is_running(P) of
        true -> World;
        false -> with_daemon(World#{daemon := none})
    end.

daemon_fails(#{daemon := P}) ->
    ended(P, "kprofd") =/= 0 orelse it:fail("kprofd ended as if all were well", []).

%% Every line about losses that a report could have.
causes(World) ->
    {_, Out, _} = run(World, "sqlite3 kprofd.db \"select name, 1, unit, help from cause\" | tr '|' ' '"),
    "losses:\n" ++ Out.

%% A second node, whose distribution is encrypted, from the first example on that
%% needs it.
tls_node(#{t := T}) ->
    case get(tls_node) of
        undefined ->
            #{node := Node} = it:target(T, #{transport => tls, name => "tls", config => ?CONFIG}),
            put(tls_node, Node),
            Node;
        Node -> Node
    end.

%% ------------------------------------------------------- placeholders ----

%% The text with the reader's own things in it.
fill(Command, World) ->
    docs_kind:fill(Command, docs_table:placeholders(), fun(What) -> value(What, World) end).

value(node, #{target := #{node := Node}}) -> Node;
value(port, #{target := Target}) ->
    {port, Port, _} = it:call(Target, erl_epmd, port_please, ["app", "localhost"]),
    integer_to_list(Port);
value(node_and_port, World) -> value(node, World) ++ ":" ++ value(port, World);
value(resolved, World) -> value(node, World) ++ "=127.0.0.1:" ++ value(port, World);
value(tls_node, World) -> tls_node(World);
value(tls_optfile, #{t := T}) -> it_certs:conf(T, "docs", #{cert => "kprofd"});
value(tls_cert, #{t := T}) -> it_certs:here(T, "kprofd.pem");
value(tls_key, #{t := T}) -> it_certs:here(T, "kprofd.key");
value(tls_ca, #{t := T}) -> it_certs:here(T, "ca.pem");
value(collector, #{collector := Collector}) -> docs_collector:url(Collector);
value(scratch, #{here := Here}) -> Here ++ "/";
value(slow_request, World) ->
    " " ++ integer_to_list(query(World, "select max(request) from slow_requests"));
value(installed, #{install := Install}) -> Install ++ "/usr/local/";
value(target, World) -> " -target " ++ value(node, World);
value(tiers, _) -> " tiers.conf";
%% Of the world's own there is one already.
value(proposal, _) -> "proposal.conf";
value(hour_ago, _) ->
    {{Y, Mo, D}, {H, Mi, _}} = calendar:system_time_to_universal_time(erlang:system_time(second) - 3600, second),
    lists:flatten(io_lib:format("~4..0b-~2..0b-~2..0bT~2..0b:~2..0b", [Y, Mo, D, H, Mi])).
