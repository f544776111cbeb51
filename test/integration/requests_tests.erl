%% kprof count and time by request: what works for the requests is counted, in
%% whichever process, and nothing else.
-module(requests_tests).

-export([tests/0]).

-import(it_kprof, [background/4, ends/1, interrupt/1, load/1, plain/1, says/2, start/4]).

-define(ENTRY, ["-entry", "it_counted:ask/2"]).

tests() ->
    [{"counts by request", 60, fun counts/1},
     {"counts by request and process, into a database", 60, fun database/1},
     {"counts by request that end early", 60, fun early/1},
     {"what is waited for, and how long", 60, fun waited/1},
     {"beside a kprofd nothing is named that is refused", 60, fun not_in_circles/1}].

%% Somebody else works all the time. (In the process that asks a token would stay.)
counts(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Server = server(Target),
    Other = it:do(Target, fun() -> spawn(fun Loop() ->
                                                 it_counted:work(50),
                                                 receive stop -> ok after 5 -> Loop() end
                                         end)
                          end),
    [begin
         P = start(T, Target, Cmd, ["-csv", "-requests", "3", "it_counted" | ?ENTRY]),
         [ask(Target, Server) || _ <- lists:seq(1, 4)],
         {0, Out, _} = ends(P),
         Rows = it_csv:rows(Out),
         Calls = fun(F) -> [N || {Name, N, _} <- Rows, Name =:= F] end,
         it:equal("requests", {ok, [3]}, {ok, Calls("it_counted:ask/2")}),
         it:equal("what the server did for them", {ok, [33]}, {ok, Calls("it_counted:squares/1")}),
         it:equal("what was no request", [], Calls("it_counted:fib/1")),
         it_audit:during(Target, Mark)
     end || Cmd <- ["count", "time"]],
    gone(Target, Other),
    gone(Target, Server),
    it_audit:ends(Target, Mark).

database(T) ->
    Target = plain(T),
    Server = server(Target),
    File = it:path(T, "requests.db"),
    P = start(T, Target, "time", ["-by", "process", "-db", File, "-requests", "2", "it_counted:squares/1" | ?ENTRY]),
    [ask(Target, Server) || _ <- [1, 2]],
    {0, Table, _} = ends(P),
    says(Table, "^<0[.0-9]+> it_counted_served +22 .*\n  it_counted:squares/1 +22 "),
    it:equal("in the database", [[<<"22">>, <<"it_counted_served">>]],
             it:sql(#{db => File, out => File},
                    "select calls, name from counted join process using (profile, pid) where function like '%squares%'")),
    gone(Target, Server).

%% By a limit, or by Ctrl-C: what there is is shown, and that it is not all.
early(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Server = server(Target),
    Limited = start(T, Target, "count", ["-max-events", "20", "-requests", "9", "it_counted" | ?ENTRY]),
    ask(Target, Server),
    {1, Few, _} = ends(Limited),
    says(Few, "ended early: as many events as were allowed"),
    P = start(T, Target, "count", ["-json", "-requests", "9", "it_counted" | ?ENTRY]),
    ask(Target, Server),
    %% A batch of events is on its way for some milliseconds.
    receive after 200 -> ok end,
    {1, Out, _} = interrupt(P),
    says(Out, "ended early: of 9 requests 1 had begun, and 1 ended"),
    says(Out, "\"function\":\"squares\",\"arity\":1,\"calls\":11,"),
    Killed = start(T, Target, "time", ["-requests", "9", "it_counted" | ?ENTRY]),
    ask(Target, Server),
    it:kill(Killed),
    it_audit:during(Target, Mark),
    [begin
         {2, "", Text} = ends(background(T, Target, Cmd, Args ++ ["it_counted"])),
         says(Text, Says)
     end || {Cmd, Args, Says} <- [{"memory", ?ENTRY, "memory cannot"},
                                  {"count", ["-every", "1s" | ?ENTRY], "-entry goes without -every"},
                                  {"count", ["-requests", "2"], "-requests N goes with -entry"},
                                  {"count", ["-entry", "it_counted"], "give one function, such as"}]],
    gone(Target, Server),
    it_audit:ends(Target, Mark).

waited(T) ->
    Target = plain(T),
    [begin
         P = start(T, Target, Cmd, ["-requests", "9", "it_counted" | ?ENTRY]),
         {1, _, Errors} = interrupt(P),
         says(Errors, "9 requests in '.*', which it_counted:ask/2 begins, for 5m at most \\(see -for\\)")
     end || Cmd <- ["count", "time", "trace"]].

%% What one error says to do instead is not refused by another.
not_in_circles(T) ->
    Target = it:target(T),
    load(Target),
    P = it:kprofd(T, Target),
    it:armed(P),
    {1, _, Errors} = ends(background(T, Target, "count", ["it_counted" | ?ENTRY])),
    says(Errors, "a kprofd is attached there"),
    case {it:otp(Target) >= 27, string:find(Errors, "-attached")} of
        {false, nomatch} -> ok;
        {true, Hint} when is_list(Hint) -> ok;
        _ -> it:fail("~ts", [Errors])
    end,
    it:terminate(P).

%% ------------------------------------------------------------ helpers ----

server(Target) ->
    it:do(Target, fun() ->
                          Pid = spawn(it_counted, serve, []),
                          register(it_counted_served, Pid),
                          Pid
                  end).

ask(Target, Server) ->
    10 = it:call(Target, it_counted, ask, [Server, 10]).

gone(Target, Server) ->
    it:do(Target, fun() -> exit(Server, kill), ok end).
