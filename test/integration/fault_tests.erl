%% Faults: what can go wrong on either side goes wrong, under load, and each test
%% ends with the same audit of the target and of the database (it_audit).
%%
%% Random moments come from a seed that is printed: SEED=N has the same ones
%% again. KPROFD_FAULTS=whole makes many more of them; RELOADS is how many.
%% README.md has what each test protects, and how it has failed without that.
-module(fault_tests).

-export([tests/0]).

-define(CLIENTS, 8).
-define(NAMES, 16).             % that kprofd takes turns with

tests() ->
    Seed = case os:getenv("SEED", "") of
               "" -> erlang:system_time(second) rem 100000;
               Text -> list_to_integer(Text)
           end,
    io:format("faults: SEED=~b has the same moments again~n", [Seed]),
    [{Name, Limit, fun(T) ->
                           _ = rand:seed(exsss, {Seed, erlang:phash2(Name), 1}),
                           Fun(T)
                   end} || {Name, Limit, Fun} <- all()].

all() ->
    [{"kprofd killed at random moments, under load", many(120, 1200), fun kills/1},
     {"kprofd killed at every message on its way in", 180, fun kills_on_the_way/1},
     {"kprofd killed while it reloads, and while it leaves", 120, fun kills_at_work/1},
     {"agent and sentry killed, under load", many(120, 900), fun agents/1},
     {"kprofd stopped for 2 s under load", 90, fun(T) -> stopped(T, 2000) end},
     {"kprofd stopped for longer than its lease", 120, fun(T) -> stopped(T, 10000) end},
     {"disk full", 120, fun(T) -> disk_full(T, fun(_, _) -> ok end, 0) end},
     {"disk full, and the agent killed", 120, fun(T) -> disk_full(T, fun kill_agent/2, 1) end},
     {"disk full, and kprofd killed", 120, fun disk_full_killed/1},
     {"database truncated", 120, fun truncated/1},
     {"disk full to the end", 120, fun disk_full_to_the_end/1},
     {"database deleted", 90, fun(T) -> moved(T, fun deleted/2) end},
     {"database deleted, with what belongs to it", 90, fun(T) -> moved(T, fun deleted_all/2) end},
     {"database replaced", 90, fun(T) -> moved(T, fun replaced/2) end},
     {"a tier's module, loaded anew under load, again and again", many(180, 900), fun(T) -> loads(T, [db]) end},
     {"the entry's module too", many(180, 900), fun(T) -> loads(T, [requests, formatter]) end},
     {"tiers.conf reloaded amid faults", many(180, 900), fun reloads/1}].

many(Few, Many) ->
    case os:getenv("KPROFD_FAULTS", "") of
        "whole" -> Many;
        _ -> Few
    end.

wait(Most) ->
    receive after rand:uniform(Most) -> ok end.

one_of(List) ->
    lists:nth(rand:uniform(length(List)), List).

%% Requests take a while, so that some are in flight at any time.
slow() -> #{config => "#{handle => #{wait_ms => 20}}"}.

start(T) -> start(T, #{}).

start(T, Opts) ->
    {Target, Mark} = it_audit:begins(T, slow()),
    P = it:kprofd(T, Target, Opts#{args => ["-interval", "1s"]}),
    it:armed(P),
    {Target, Mark, P}.

load(T, Target) ->
    it:load(T, Target, [integer_to_list(?CLIENTS), "3600s", "5"]).

%% Nothing is under way when it is told to end. Gives how many it has assembled.
ends(P, Load) ->
    it:check(it:is_running(Load), "the load goes on"),
    it:kill(Load),
    it:until("nothing in flight", fun() -> it:said(P, "([0-9]+) in flight") =:= 0 end),
    %% The last of them wait for stragglers, and for what says that a tail call was none.
    it:until("all are assembled", fun() ->
        Assembled = assembled(P),
        receive after 2000 -> assembled(P) =:= Assembled end
    end),
    Assembled = assembled(P),
    it:terminate(P),
    Assembled.

assembled(P) -> it:said(P, "([0-9]+) assembled").

%% ------------------------------------------------------ kprofd killed ----

%% From its start on: on its way in, at work, while it writes. The next one
%% starts at once, on the same database.
kills(T) ->
    {Target, Mark} = it_audit:begins(T, slow()),
    %% What a target loads for the first one stays.
    First = one(T, Target, #{}),
    it:armed(First),
    it:terminate(First),
    Some = killed_often(T, Target, Mark, many(3, 10), []),
    Size = it_audit:footprint(Target),
    N = many(7, 90),
    Written = killed_often(T, Target, Mark, N, Some),
    it_audit:ends(Target, Mark),
    More = it_audit:grew(Target, Size, ?NAMES),
    P = one(T, Target, #{}),
    it:armed(P),
    Load = load(T, Target),
    it:assembles(P, 100),
    ends(P, Load),
    it_audit:ends(Target, Mark),
    it_audit:database(P, length(it:sql(P, "select id from run")) - 2),
    it:equal("what was written", [], Written -- it_audit:written(P)),
    {note, io_lib:format("~b of ~b runs came to windows; after ~b more kills the target has more: ~0p",
                         [length(Written), it:number(P, "select count(*) from run"), N, More])}.

killed_often(T, Target, Mark, Times, Written0) ->
    Load = load(T, Target),
    Written = lists:foldl(fun(_, Written) ->
                                  P = one(T, Target, #{}),
                                  wait(3000),
                                  it:check(it:is_running(P), "it ended by itself: ~ts", [it:errors(P)]),
                                  it:kill(P),
                                  it_audit:during(Target, Mark),
                                  it_audit:crashed(T, P, ?CLIENTS, Written)
                          end, Written0, lists:seq(1, Times)),
    it:kill(Load),
    Written.

one(T, Target, Opts) ->
    it:kprofd(T, Target, Opts#{db => "one.db", args => ["-interval", "1s"]}).

%% Every message that it sends is its last, or half of it is.
kills_on_the_way(T) ->
    {Target, Mark} = it_audit:begins(T),
    Steps = [{N, Half} || N <- lists:seq(1, 10), Half <- many([rand:uniform(2) - 1], [0, 1])],
    [begin
         P = one(T, Target, last_words(T, "way" ++ integer_to_list(N * 2 + Half))),
         last_message(T, "way" ++ integer_to_list(N * 2 + Half), N, Half),
         it:ended(P, 137),
         it_audit:ends(Target, Mark)
     end || {N, Half} <- Steps],
    ends_well(T, Target, Mark, length(Steps)).

kills_at_work(T) ->
    {Target, Mark} = it_audit:begins(T),
    Steps = [{What, N, Half} || {What, Last} <- [{fun reload/2, 3}, {fun leave/2, 1}], N <- lists:seq(1, Last),
                                Half <- [0, 1]],
    [begin
         Name = "work" ++ integer_to_list(I),
         P = one(T, Target, (last_words(T, Name))#{tiers => tiers(db())}),
         it:armed(P),
         last_message(T, Name, N, Half),
         What(T, P),
         it:ended(P, 137),
         it_audit:ends(Target, Mark)
     end || {I, {What, N, Half}} <- lists:zip(lists:seq(1, length(Steps)), Steps)],
    ends_well(T, Target, Mark, length(Steps)).

ends_well(T, Target, Mark, Killed) ->
    P = one(T, Target, #{}),
    it:armed(P),
    #{requests := 50} = it:loaded(it:load(T, Target, ["4", "50"])),
    it:terminate(P),
    it_audit:ends(Target, Mark),
    it_audit:database(P, Killed).

%% Preloaded: it is killed at the N-th message after the file says so.
last_words(T, Name) ->
    Lib = filename:absname(it:build(T) ++ "/test/last_words.so"),
    {ok, _} = file:read_file_info(Lib),
    #{env => [{"LD_PRELOAD", Lib}, {"LAST_WORDS", it:path(T, Name)}]}.

last_message(T, Name, N, Half) ->
    New = it:write(T, Name ++ ".new", io_lib:format("~b ~b\n", [N, Half])),
    ok = file:rename(New, it:path(T, Name)).

reload(T, P) ->
    File = lists:last(filelib:wildcard(it:path(T, "tiers*.conf"))),
    ok = file:write_file(File, tiers(format())),
    kprof_reload(T, P).

leave(_, P) -> it:signal(P, "TERM").

%% ------------------------------------------------------ agent killed ----

%% Each of the two processes in the target, and both, one after the other.
agents(T) ->
    {Target, Mark, P} = start(T),
    Load = load(T, Target),
    Whom = many([agent, sentry, both], lists:append(lists:duplicate(10, [agent, sentry, both]))),
    [begin
         it:assembles(P, 50),
         wait(1000),
         agent_killed(Who, Target, P)
     end || Who <- Whom],
    it:assembles(P, 50),
    ends(P, Load),
    it_audit:ends(Target, Mark),
    it_audit:database(P),
    it:equal("times lost", length([W || W <- Whom, W =/= sentry]),
             it:number(P, "select count(*) from events where kind = 'lost'")),
    it:check(maps:get(disconnected, it:losses(P), 0) > 0, "requests in flight in ~0p", [it:losses(P)]),
    {note, io_lib:format("~0p", [it:losses(P)])}.

agent_killed(sentry, Target, _) ->
    kill_sentry(Target);
agent_killed(both, Target, P) ->
    kill_sentry(Target),
    agent_killed(agent, Target, P);
agent_killed(agent, Target, P) ->
    Times = it:times_armed(P),
    kill_agent(Target, P),
    it:until("armed again", 60000, fun() -> it:times_armed(P) > Times end).

kill_agent(Target, _) ->
    it:do(Target, fun() -> exit(whereis(kprof_agent), kill) end).

kill_sentry(Target) ->
    [Sentry] = sentries(Target),
    it:call(Target, erlang, exit, [Sentry, kill]),
    it:until("another sentry", fun() ->
                                       case sentries(Target) of
                                           [Other] -> Other =/= Sentry;
                                           _ -> false
                                       end
                               end).

sentries(Target) ->
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    [Pid || {Pid, _} <- it:call(Target, it_stub, ours, []), Pid =/= Agent].

%% ------------------------------------------------------ kprofd stopped ----

%% Buffers fill, small as they are here, the agent's sends find the connection
%% busy, and after the lease it leaves.
stopped(T, Ms) ->
    Small = ["+zdbbl", "64", "-kernel", "inet_dist_listen_options", "[{sndbuf,8192}]"],
    {Target, Mark} = it_audit:begins(T, #{config => "#{handle => #{wait_ms => 1}}", args => Small}),
    {ok, Text} = file:read_file(it:tiers()),
    P = it:kprofd(T, Target, #{tiers => [Text, "{overload, [{max_queue, 20000}, {pause_s, 1}]}.\n"],
                               args => ["-interval", "1s"]}),
    it:armed(P),
    Load = it:load(T, Target, ["32", "600s"]),
    it:until("events come", fun() -> it:sent(Target) > 10000 end),
    Worst0 = it:call(Target, erlang, memory, [total]),
    it:signal(P, "STOP"),
    receive after Ms -> ok end,
    Worst1 = it:call(Target, erlang, memory, [total]),
    it:check(Worst1 - Worst0 < 128 * 1048576, "the target grew by ~b bytes", [Worst1 - Worst0]),
    Ms > 5000 andalso it_audit:during(Target, Mark),
    it:signal(P, "CONT"),
    it:until("armed and at work", fun() -> it:agent_state(Target) =:= armed end),
    Sent = it:sent(Target),
    it:until("events come again", fun() -> it:agent_state(Target) =/= armed orelse it:sent(Target) > Sent end),
    ends(P, Load),
    it_audit:ends(Target, Mark),
    it_audit:database(P),
    Ms > 5000 andalso
        it:check(it:number(P, "select count(*) from events where kind = 'attach'") >= 2, "attached again"),
    {note, io_lib:format("~0p", [it:losses(P)])}.

%% ------------------------------------------------------ disk full ----

%% At work for a while, with windows on the disk, which has just become full.
on_full_disk(T) ->
    Disk = disk(T),
    {Target, Mark} = it_audit:begins(T, slow()),
    P = on_disk(T, Disk, Target),
    it:armed(P),
    Load = load(T, Target),
    it:assembles(P, 300),
    fill(Disk),
    it:saw(P, "the database cannot be written: database or disk is full"),
    {Disk, Target, Mark, P, Load}.

%% Profiling goes on; the windows wait, and are all written when there is room.
disk_full(T, Also, Lost) ->
    {Disk, Target, Mark, P, Load} = on_full_disk(T),
    Also(Target, P),
    it:assembles(P, 300),
    it:until("windows wait", fun() -> waiting(P) >= 3 end),
    empty(Disk),
    it:saw(P, "the database is written again"),
    it:assembles(P, 100),
    Assembled = ends(P, Load),
    it_audit:ends(Target, Mark),
    Db = out_of(T, Disk, P),
    it_audit:database(Db),
    it:equal("lost by the disk", #{}, maps:with([store, unwritten], it:losses(Db))),
    it:equal("times lost", Lost, it:number(Db, "select count(*) from events where kind = 'lost'")),
    it:equal("requests in its windows", Assembled, it:number(Db, "select sum(sampled) from time_window")),
    {note, io_lib:format("~0p", [it:losses(Db)])}.

%% What was written stays whole; the next one does not start there, says why,
%% and leaves the target alone, until there is room.
disk_full_killed(T) ->
    {Disk, Target, Mark, P, Load} = on_full_disk(T),
    it:until("windows wait", fun() -> waiting(P) >= 2 end),
    it:kill(P),
    it_audit:during(Target, Mark),
    Written = written(T, Disk, P),
    it:ended(on_disk(T, Disk, Target), 1, "one.db.*full"),
    it_audit:during(Target, Mark),
    empty(Disk),
    Next = on_disk(T, Disk, Target),
    it:armed(Next),
    it:assembles(Next, 100),
    ends(Next, Load),
    it_audit:ends(Target, Mark),
    Db = out_of(T, Disk, Next),
    it_audit:database(Db, 1),
    it:equal("what was written", [], Written -- it_audit:written(Db)).

%% What waits then is lost, which nothing but the log can tell; the next run
%% tells that this one did not end well.
disk_full_to_the_end(T) ->
    {Disk, Target, Mark, P, Load} = on_full_disk(T),
    it:until("windows wait", fun() -> waiting(P) >= 2 end),
    %% What kprofd reports, how it ends, and what one who looks meanwhile reads, named no disk.
    {ok, Status} = it:control(P, "status"),
    it_kprof:says(Status, "cannot be written: database or disk is full"),
    {0, Report, _} = report(T, Disk),
    it_kprof:says(Report, "^the disk of '.*one.db' is full"),
    it:signal(P, "TERM"),
    it:equal("status of its end", 1, it:exited(P)),
    it:kill(Load),
    it:ended_said(P, "the last of this run is not in the database: [0-9]+ rows? could not be written"),
    it:ended_said(P, "done: .*; not in .*disk/one.db: [0-9]+ rows? \\([0-9]+ disk full\\)"),
    it_audit:ends(Target, Mark),
    Written = written(T, Disk, P),
    empty(Disk),
    Next = on_disk(T, Disk, Target),
    it:armed(Next),
    it:terminate(Next),
    Db = out_of(T, Disk, Next),
    it_audit:database(Db, 1),
    it:equal("what was written", [], Written -- it_audit:written(Db)).

%% Of a database that only that name space has.
report(#{build := Build} = T, #{pid := Pid}) ->
    {ok, Here} = file:get_cwd(),
    it_kprof:ends(it:start(T, "report", ["nsenter", "-t", integer_to_list(Pid), "-m", "sh", "-c", "cd \"$0\" && exec \"$@\"", Here,
                                         filename:join(Build, "kprof"), "report", "-db", it:path(T, "disk/one.db")], [])).

%% What is whole on the disk of a run that did not end well.
written(T, Disk, P) ->
    Written = it_audit:crashed(T, out_of(T, Disk, P), ?CLIENTS, []),
    it:check(Written =/= [], "windows from before"),
    Written.

%% A file system of 2 MiB in a mount namespace of its own, which goes with the
%% process that holds it, and that with this test.
disk(T) ->
    Dir = filename:absname(it:path(T, "disk")),
    ok = filelib:ensure_path(Dir),
    Script = "mount -t tmpfs -o size=2m kprofd-test \"$0\" && echo ready && exec sleep 3600",
    #{pid := Pid} = P = it:start(T, "disk", ["unshare", "-m", "sh", "-c", Script, Dir], []),
    it:until("a small disk", fun() ->
                                     it:is_running(P) orelse it:fail("no small disk: ~ts", [it:errors(P)]),
                                     it:output(P) =:= <<"ready\n">>
                             end),
    #{pid => Pid, dir => lists:concat(["/proc/", Pid, "/root", Dir])}.

on_disk(T, #{pid := Pid}, Target) ->
    {ok, Here} = file:get_cwd(),
    Into = ["nsenter", "-t", integer_to_list(Pid), "-m", "sh", "-c", "cd \"$0\" && exec \"$@\"", Here],
    it:kprofd(T, Target, #{db => "disk/one.db", control => it:path(T, "control.sock"), wrap => Into,
                           args => ["-interval", "1s"]}).

fill(#{dir := Dir}) ->
    {ok, F} = file:open(filename:join(Dir, "filler"), [write, raw]),
    fill(F, binary:copy(<<0>>, 4096)),
    file:close(F).

fill(F, Bytes) ->
    case file:write(F, Bytes) of
        ok -> fill(F, Bytes);
        {error, enospc} -> ok
    end.

empty(#{dir := Dir}) ->
    ok = file:delete(filename:join(Dir, "filler")).

waiting(P) ->
    {ok, Text} = it:control(P, "status json"),
    {match, [N]} = re:run(Text, "\"windows_waiting\":([0-9]+)", [{capture, [1], list}]),
    list_to_integer(N).

out_of(T, #{dir := Dir}, P) ->
    it_audit:copy(T, P#{db := filename:join(Dir, "one.db")}, "out.db").

%% ------------------------------------------- database deleted, replaced ----

%% What was written is in the old file, what came after it in the new one, and
%% together they have every window.
moved(T, Move) ->
    {Target, Mark} = it_audit:begins(T, slow()),
    Other = it:kprofd(T, Target, #{db => "other.db", args => ["-interval", "1s"]}),
    it:armed(Other),
    it:terminate(Other),
    P = it:kprofd(T, Target, #{db => "one.db", args => ["-interval", "1s"]}),
    it:armed(P),
    Load = load(T, Target),
    Two = fun() -> it:number(P, "select count(*) from time_window where sampled > 0") >= 2 end,
    it:until("windows are written", Two),
    Old = P#{db := it:path(T, "old.db")},
    ok = file:make_link(it:db(P), it:db(Old)),
    Move(P, Other),
    it:until("there is another file", fun() -> filelib:is_file(it:db(P)) end),
    it:until("the next file", fun() -> moved_to(P) end),
    it:saw(P, "the database was moved, deleted or replaced while it was written: begun again under its name"),
    it:until("windows are written there", Two),
    ends(P, Load),
    it_audit:ends(Target, Mark),
    [it_audit:sound(Db) || Db <- [Old, P]],
    it:equal("how the runs ended", [<<"clean">>], lists:usort([S || Db <- [Old, P],
                                                                    [S] <- it:sql(Db, "select state from runs")])),
    Open = lists:sum([C - S - L || Db <- [Old, P], #{calls := C, sampled := S, lost := L} <- it:balances(Db)]),
    it:equal("calls that neither file explains", 0, Open),
    it:equal("the next window begins where the last one ends",
             it:sql(Old, "select max(end_ns) from time_window"),
             it:sql(P, "select min(w.start_ns) from time_window w join run r on r.id = w.run_id where r.id ="
                    " (select max(id) from run)")).

%% As by a log rotation that copies: kprofd wrote on, ended with 0 and left an empty
%% file, while status said that nothing was lost.
truncated(T) ->
    {Target, Mark} = it_audit:begins(T, slow()),
    P = it:kprofd(T, Target, #{db => "one.db", args => ["-interval", "1s"]}),
    it:armed(P),
    Load = load(T, Target),
    Two = fun() -> it:number(P, "select count(*) from time_window where sampled > 0") >= 2 end,
    it:until("windows are written", Two),
    {ok, F} = file:open(it:db(P), [read, write]),
    ok = file:truncate(F),
    ok = file:close(F),
    it:saw(P, "warning: the database was truncated while it was written: [0-9]+ windows of this run are lost: "
           "begun again under its name"),
    it:until("windows are written there", fun() -> try Two() catch throw:{check, _} -> false end end),
    {ok, Text} = it:control(P, "status"),
    it:check(re:run(Text, "not written: [0-9]+ rows .*[0-9]+ truncated") =/= nomatch, Text),
    ends(P, Load),
    it_audit:ends(Target, Mark),
    it_audit:sound(P),
    it:equal("events", 1, it:number(P, "select count(*) from events where kind = 'db_truncated'")),
    it:check(it:requests(P) > 0, "windows in it").

moved_to(P) ->
    try it:number(P, "select count(*) from events where kind = 'db_moved'") >= 1
    catch throw:{check, _} -> false     % it is being made
    end.

deleted(P, _) -> ok = file:delete(it:db(P)).

deleted_all(P, _) ->
    [file:delete(it:db(P) ++ Suffix) || Suffix <- ["", "-wal", "-shm"]].

replaced(P, Other) -> ok = file:rename(it:db(Other), it:db(P)).

%% ------------------------------------------------------ code loaded anew ----

%% In the ways that releases and people do it.
loads(T, Mods) ->
    {Target, Mark} = it_audit:begins(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    Load = it:load(T, Target, ["8", "600s", "2"]),
    it:until("requests come", fun() -> code_tests:agent(Target, entry_calls) > 200 end),
    N = list_to_integer(os:getenv("KPROFD_RELOADS", "20")),
    [begin
         load_anew(I, Target, M),
         it:until("armed again", fun() -> code_tests:all_armed(Target, M) end),
         Calls = code_tests:agent(Target, entry_calls),
         it:until("requests come", fun() -> code_tests:agent(Target, entry_calls) > Calls + 20 end)
     end || I <- lists:seq(1, N), M <- Mods],
    it:equal("loads seen", N * length(Mods), code_tests:agent(Target, code_changes)),
    ends(P, Load),
    it:equal("attached once", 1, it:number(P, "select count(*) from events where kind = 'attach'")),
    it_audit:ends(Target, Mark),
    it_audit:database(P),
    [[Gap]] = it:sql(P, "select text from events where kind = 'reloaded' order by length(text) desc limit 1"),
    {note, Gap}.

load_anew(I, Target, Mod) when I rem 2 =:= 0 ->
    {module, Mod} = it:call(Target, c, l, [Mod]);
load_anew(_, Target, Mod) ->
    {Mod, Code, File} = it:call(Target, code, get_object_code, [Mod]),
    it:call(Target, code, purge, [Mod]),
    {module, Mod} = it:call(Target, code, load_binary, [Mod, File, Code]).

%% ------------------------------------------------------ tiers.conf ----

%% Asked for while something goes wrong: whoever asks is told, and what is
%% armed at last is what the file says.
reloads(T) ->
    {Target, Mark, P} = start(T, #{tiers => tiers(db())}),
    Load = load(T, Target),
    Faults = [{fun kill_agent/2, format()}, {fun disconnect/2, db()}, {fun hang/2, format()}, {fun freeze/2, db()}],
    [begin
         it:assembles(P, 50),
         it:write(T, "tiers1.conf", tiers(Tier)),
         Fault(Target, P),
         wait(200),
         reloaded(T, P),
         it:until("armed as the file says", 60000, fun() -> plan(Target) =:= planned(Tier) end)
     end || {Fault, Tier} <- many(Faults, lists:append(lists:duplicate(6, Faults)))],
    it:assembles(P, 50),
    ends(P, Load),
    it_audit:ends(Target, Mark),
    it_audit:database(P),
    {note, io_lib:format("~0p", [it:losses(P)])}.

%% One that is stopped is said to be; then it is asked again.
reloaded(T, P) ->
    K = kprof_reload(T, P),
    case it:exited(K) of
        0 -> ok;
        Exit ->
            it:equal("kprof reload", 1, Exit),
            it:check(string:find(it:errors(K), "is stopped ('kill -CONT") =/= nomatch, "said why"),
            wait(500),
            reloaded(T, P)
    end.

disconnect(Target, _) ->
    [true = it:call(Target, erlang, disconnect_node, [N]) || N <- it:call(Target, erlang, nodes, [connected])].

hang(Target, _) -> stop_for(Target, one_of([500, 1500])).

freeze(_, P) -> stop_for(P, one_of([500, 2000])).

%% Goes on by itself, whatever this test does.
stop_for(#{pid := Pid} = P, Ms) ->
    it:signal(P, "STOP"),
    spawn(fun() ->
                  receive after Ms -> ok end,
                  os:cmd(io_lib:format("kill -CONT ~b", [Pid]))
          end).

kprof_reload(T, P) ->
    it:start(T, "kprof" ++ integer_to_list(erlang:unique_integer([positive])),
             [it:build(T) ++ "/kprof", "reload", "-db", it:db(P)], []).

tiers(Tier) ->
    ["{tiers, [{handle, {requests, handle_request, 2}}, ", Tier, "]}.\n"
     "{entry, {requests, handle_request, 2}}.\n{sampling, all}.\n{budget, none}.\n"].

db() -> "{db, {db, network_request, 1}}".
format() -> "{formatter, {formatter, format_response, 1}}".

planned(Tier) ->
    {ok, Tokens, _} = erl_scan:string(Tier ++ "."),
    {ok, {_, MFA}} = erl_parse:parse_term(Tokens),
    lists:sort([{requests, handle_request, 2}, MFA]).

plan(Target) ->
    case it:call(Target, it_stub, agent, []) of
        #{armed := MFAs} -> lists:sort(MFAs);
        gone -> []
    end.
