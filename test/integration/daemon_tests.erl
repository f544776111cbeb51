%% The daemon by itself: what lies at its socket's and its database's place, what
%% its files turn out to be, its limits and its clock. Nothing of it is the target's.
-module(daemon_tests).

-export([tests/0]).

tests() ->
    [{"another user's socket", 60, fun others_socket/1},
     {"a socket that is left over", 60, fun left_over/1},
     {"a socket whose owner does not accept", 60, fun hung_owner/1},
     {"clients that ask nothing, and too many that wait", 90, fun crowded/1},
     {"a limit of the size of files", 90, fun file_limit/1},
     {"windows end on boundaries", 90, fun boundaries/1},
     {"a clock that is set back", 90, fun clock_back/1},
     {"a clock that is set ten years on", 90, fun clock_on/1}].

%% In a directory that it could write, as another user, kprofd took every socket
%% that it could not connect to for left over, and deleted it.
others_socket(T) ->
    Target = it:target(T),
    Shared = shared(T),
    P = it:kprofd(T, Target, #{control => filename:join(Shared, "s")}),
    it:armed(P),
    Q = it:kprofd(T, "it_nobody@127.0.0.1", nobody(Shared, #{control => filename:join(Shared, "s")})),
    it:ended(Q, 1, "cannot tell whether another kprofd answers at '.*/s': Permission denied"),
    {ok, _} = it:control(P, "status"),
    %% Its own is taken away with it, and nobody else's.
    ok = file:delete(filename:join(Shared, "s")),
    R = it:kprofd(T, Target, #{control => filename:join(Shared, "s")}),
    it:ended(R, 1, "is being profiled already"),
    {ok, L} = gen_tcp:listen(0, [{ifaddr, {local, filename:join(Shared, "s")}}]),
    it:terminate(P),
    it:check(element(1, file:read_file_info(filename:join(Shared, "s"))) =:= ok, "another's socket is there"),
    gen_tcp:close(L).

%% Of a kprofd that was killed, and what is no socket.
left_over(T) ->
    Target = it:target(T),
    Socket = filename:join(shared(T), "s"),
    P = it:kprofd(T, Target, #{control => Socket}),
    it:armed(P),
    it:kill(P),
    it:until("the agent has gone", fun() -> it:agent_state(Target) =:= gone end),
    Q = it:kprofd(T, Target, #{control => Socket}),
    it:armed(Q),
    {ok, _} = it:control(Q, "status"),
    R = it:kprofd(T, Target, #{control => Socket}),
    it:ended(R, 1, "another kprofd answers at"),
    it:terminate(Q),
    ok = file:write_file(Socket, "mine"),
    S = it:kprofd(T, Target, #{control => Socket}),
    it:ended(S, 1, "cannot make the control socket '.*': Address already in use"),
    {ok, <<"mine">>} = file:read_file(Socket).

%% Its queue is full: who asks by connect() alone would wait for it for ever.
hung_owner(T) ->
    Socket = filename:join(shared(T), "s"),
    {ok, L} = gen_tcp:listen(0, [{ifaddr, {local, Socket}}, {backlog, 1}]),
    _ = [gen_tcp:connect({local, Socket}, 0, [], 200) || _ <- lists:seq(1, 10)],
    P = it:kprofd(T, "it_nobody@127.0.0.1", #{control => Socket}),
    it:ended(P, 1, "another kprofd answers at"),
    it:check(element(1, file:read_file_info(Socket)) =:= ok, "it is there"),
    gen_tcp:close(L).

%% Clients that take all places of the control socket: the next one was cut off without a word,
%% and page and `kprof status` took that for a kprofd that does not run.
crowded(T) ->
    Target = it:target(T),
    Port = it:free_port(),
    P = it:kprofd(T, Target, #{args => ["-interval", "2s", "-http", integer_to_list(Port)]}),
    it:armed(P),
    Idle = [client(P, Bytes) || Bytes <- ["", "stat", "check bytes=100\nten bytes.", ""], _ <- lists:seq(1, 5)],
    [{ok, _} = it:control(P, "status") || _ <- lists:seq(1, 3)],
    it:check(binary:match(status(Port), <<"\"armed\":1">>) =/= nomatch, "the page has its status"),
    %% All of them wait for an answer: nobody is cut off, and the next one is told.
    it:signal(Target, "STOP"),
    Waiting = [waits(P) || _ <- lists:seq(1, 16)],
    Page = status(Port),
    it:check(binary:match(Page, <<"kprofd is busy">>) =/= nomatch andalso binary:match(Page, <<"running">>) =:= nomatch,
             "the page says ~ts", [Page]),
    {1, Said, _} = it_kprof:kprof(T, ["status", "-db", it:db(P)]),
    it_kprof:says(Said, "^kprofd +does not answer: kprofd is busy"),
    it:signal(Target, "CONT"),
    [it:until("an answer", fun() -> gen_tcp:recv(S, 0, 60000) =/= {error, timeout} end) || S <- Waiting],
    [gen_tcp:close(S) || S <- Idle ++ Waiting],
    {ok, _} = it:control(P, "status"),
    it:terminate(P).

client(#{control := Socket}, Bytes) ->
    {ok, S} = gen_tcp:connect({local, Socket}, 0, [local, binary, {active, false}]),
    _ = gen_tcp:send(S, Bytes),
    S.

%% Comes again if it is refused.
waits(P) ->
    S = client(P, "pause\n"),
    case gen_tcp:recv(S, 0, 200) of
        {error, timeout} -> S;
        _ -> gen_tcp:close(S), waits(P)
    end.

status(Port) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(S, ["GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:", integer_to_list(Port),
                          "\r\nConnection: close\r\n\r\n"]),
    all(S, <<>>).

all(S, Got) ->
    case gen_tcp:recv(S, 0, 60000) of
        {ok, More} -> all(S, <<Got/binary, More/binary>>);
        {error, closed} -> Got
    end.

%% SIGXFSZ ended kprofd, without a word; it is a disk that is full.
file_limit(T) ->
    Target = it:target(T),
    P = it:kprofd(T, Target, #{args => ["-interval", "1s"],
                               wrap => ["env", "--default-signal=XFSZ"]}),
    it:armed(P),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    limit(P, "65536"),
    it:saw(P, "warning: the database cannot be written: database or disk is full: a file may not be larger .ulimit -f."),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    limit(P, "unlimited"),
    it:saw(P, "the database is written again"),
    it:terminate(P),
    it:equal("entry calls", 200, it:balance(P)),
    it:equal("losses", #{}, it:lost(P)).

limit(#{pid := Pid}, Bytes) ->
    [] = os:cmd(lists:concat(["prlimit --pid ", Pid, " --fsize=", Bytes, ":unlimited"])).

%% A timer that fired some ms early ended a window there, and one of those ms
%% followed: the next one fell into the slot of the one before, and charts had a
%% hole. Windows end on whole intervals of the clock, of all targets, but for the
%% last ones and what is dumped.
boundaries(T) ->
    Target = it:target(T),
    Other = it:target(T, #{kind => plain, name => "other", node => "it_bound" ++ os:getpid() ++ "@127.0.0.1"}),
    P = it:kprofd(T, [Target, Other], #{args => ["-interval", "1s"],
                                        tiers => ["{tiers, [{handle, {requests, handle_request, 2}}]}.\n", it:calm()]}),
    it:until("both", fun() -> it:times_armed(P) >= 2 end),
    Windows = fun(N) -> fun() -> it:number(P, "select count(*) from time_window") >= N end end,
    it:until("windows", Windows(24)),
    {ok, _} = it:control(P, "dump"),
    it:until("more", Windows(36)),
    it:terminate(P),
    it:equal("ends between: of the dump, and the last", 4, it:number(P, "select count(*) from time_window where end_ns % 1000000000 <> 0")),
    it:check(it:number(P, "select count(*) from time_window where start_ns % 1000000000 <> 0") =< 4, "beginnings between: the first, and after the dump"),
    it:equal("windows that do not begin where the one before ends", 2,
             it:number(P, "select count(*) from time_window w where not exists"
                       " (select 1 from time_window v where v.node_id = w.node_id and v.end_ns = w.start_ns)")),
    it:equal("ends that both have not", 0,
             it:number(P, "select count(*) from (select end_ns from time_window"
                       " where end_ns between (select min(start_ns) + 2000000000 from time_window)"
                       " and (select max(end_ns) - 2000000000 from time_window) group by 1 having count(*) <> 2)")).

%% Windows ended before they had begun, and slow requests were an hour from theirs.
clock_back(T) ->
    {P, Target} = clock(T, []),
    jump(T, -3600),
    requests(T, Target, P, 200),
    it:terminate(P),
    windows(P, 1),
    it:ended_said(P, "warning: the clock was set back by 3[56][0-9][0-9] s"),
    it:equal("entry calls", 200, it:balance(P)).

%% All that there was went at once, a minute or ten years later, without a word.
clock_on(T) ->
    {P, Target} = clock(T, ["-retain", "1s:1h,1m:1d"]),
    Before = it:number(P, "select count(*) from time_window where level = 0 and sampled > 0"),
    jump(T, 3652 * 86400),
    requests(T, Target, P, 200),
    it:saw(P, "warning: the clock was set forward by 3155[0-9]+ s"),
    it:saw(P, "warning: the database keeps what it has: the clock is 365[0-9].[0-9] days ahead of the last windows"),
    jump(T, 0),
    it:saw(P, "the database is deleted from and rolled up by the clock again"),
    it:terminate(P),
    windows(P, 2),
    it:check(it:number(P, "select count(*) from time_window where level = 0 and sampled > 0") >= Before, "its windows"),
    it:equal("entry calls", 200, it:balance(P)),
    it:check(it:number(P, "select count(*) from events where kind = 'clock'") >= 3, "events").

%% With windows of before.
clock(T, More) ->
    Lib = filename:absname(it:build(T) ++ "/test/clock_jump.so"),
    {ok, _} = file:read_file_info(Lib),
    jump(T, 0),
    Target = it:target(T),
    P = it:kprofd(T, Target, #{args => ["-interval", "1s" | More],
                               tiers => ["{tiers, [{handle, {requests, handle_request, 2}},"
                                         " {db, {db, network_request, 1}}]}.\n"
                                         "{sampling, all}.\n{budget, none}.\n{slow_ms, 0}.\n", it:calm()],
                               env => [{"LD_PRELOAD", Lib}, {"CLOCK_JUMP", filename:absname(it:path(T, "jump"))}]}),
    it:armed(P),
    requests(T, Target, P, 100),
    {P, Target}.

jump(T, Seconds) ->
    File = it:path(T, "jump"),
    ok = file:write_file(File ++ ".new", <<Seconds:64/signed-native>>),
    ok = file:rename(File ++ ".new", File).

%% All that there are till now are in the database.
requests(T, Target, P, Sum) ->
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:until("they are written", fun() -> it:requests(P) =:= Sum end).

%% None ends before it starts or is longer than it was; and each slow request is
%% within one of its node's, or begins in the one before, which may have been of the
%% clock of before: a few seconds, where jumps are an hour or more. All but the last
%% one and those that a jump was in end on boundaries.
windows(P, Jumps) ->
    it:check(it:number(P, "select count(*) from time_window where level = 0 and end_ns % 1000000000 <> 0") =< 1 + Jumps,
             "windows that end elsewhere"),
    it:equal("windows that end before they start", 0,
             it:number(P, "select count(*) from time_window where end_ns < start_ns")),
    it:equal("windows of more than a minute", 0,
             it:number(P, "select count(*) from time_window where end_ns - start_ns > 60000000000")),
    it:check(it:number(P, "select count(*) from request") > 0, "slow requests"),
    it:equal("slow requests that are in no window", 0,
             it:number(P, "select count(*) from request r where not exists (select 1 from time_window w"
                       " where r.start_ns between w.start_ns - 10000000000 and w.end_ns)")).

%% ---------------------------------------------------------------------------

%% A directory that everybody may write, with a short name: a socket's path is short.
shared(T) ->
    Dir = it:path(T, "shared"),
    ok = file:make_dir(Dir),
    ok = file:change_mode(Dir, 8#777),
    Dir.

%% As another user, with files of its own: SQLite wants a way to the database from
%% the root on, which there is none of below a home that is its owner's alone.
nobody(Dir, Opts) ->
    Cookie = filename:join(Dir, "cookie"),
    ok = file:write_file(Cookie, it:cookie()),
    ok = file:change_mode(Cookie, 8#600),
    ok = file:change_owner(Cookie, 65534, 65534),
    Opts#{cookie => Cookie, db => "/tmp/kprofd-nobody." ++ os:getpid() ++ ".db", args => ["-interval", "2s"],
          wrap => ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]}.
