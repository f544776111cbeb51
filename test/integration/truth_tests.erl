%% What has fooled profilers, done by the sample application (sample_pattern), which
%% keeps its own account: what kprofd says it knows is what the application knows,
%% and what it cannot see it does not claim.
-module(truth_tests).

-export([tests/0]).

-define(REQUESTS, 200).
-define(TASK_MS, 2).
-define(CONFIG, "#{db => #{wait_ms => 1}}").

tests() ->
    [{"work that is begun after its request", 60, fun after_it/1},
     {"work that outlasts its request", 60, fun outlasting/1},
     {"a call that is another's last act", 60, fun delegated/1},
     {"ends by throw, error and exit", 60, fun ends/1},
     {"a server that drains its mailbox", 60, fun drained/1},
     {"labels of calls", 60, fun labels/1},
     {"clauses that name nothing, in the report", 60, fun hints/1}].

%% Spawned, and cast to a server: counted beside the requests, not in them.
after_it(T) ->
    {Target, P} = run(T, ["spawned=1,casted=1"], "4"),
    [begin
         N = calls(Target, db_async, Op),
         it:equal(["asked for by ", atom_to_list(Op)], calls(Target, handle, Op), N),
         it:equal(["database calls after the end, ", atom_to_list(Op)], N, sum(P, async_calls, db, Op)),
         it:equal(["within, ", atom_to_list(Op)], 0, sum(P, calls, db, Op)),
         times(Target, P, db, Op, db_async, "async_ns")
     end || Op <- [spawned, casted]],
    requests(Target, P).

%% Begun within the request: it is one of its calls, with all of its time.
outlasting(T) ->
    {Target, P} = run(T, ["tasked=1"], "2"),
    N = calls(Target, task, tasked),
    it:equal("tasks", ?REQUESTS, N),
    it:equal("calls", N, sum(P, calls, task, tasked) + sum(P, async_calls, task, tasked)),
    it:equal("begun after the end", 0, sum(P, async_calls, task, tasked)),
    times(Target, P, task, tasked, task, "total_ns"),
    claims(Target, P, task, tasked),
    %% Its client did not wait for it: the request's own time is not that of the task.
    it:check(sum(P, total_ns, '_total', tasked) =< ns(Target, handle, tasked) * 1.01 + 1000 * N,
             "the requests have taken ~p ns, and not ~p", [ns(Target, handle, tasked), sum(P, total_ns, '_total', tasked)]),
    outlasted(N, ns(Target, task_after, tasked), P),
    requests(Target, P).

%% Each ended at least so long after the request, and no longer than was measured
%% from where that had returned.
outlasted(N, After, P) ->
    it:equal("outlast their request", N, sum(P, outlasting, task, tasked)),
    Got = sum(P, async_ns, task, tasked),
    it:check(Got >= N * ?TASK_MS * 1000000, "after the end they took ~p ns at least, and not ~p",
             [N * ?TASK_MS * 1000000, Got]),
    it:check(Got =< sum(P, total_ns, task, tasked), "no more than their time: ~p ns", [Got]),
    it:check(After > 0, "the application measured it, too").

%% One event closes both.
delegated(T) ->
    {Target, P} = run(T, ["delegated=1,forwarded=1"], "2"),
    [begin
         it:equal(["calls of ", atom_to_list(Tier), ", ", atom_to_list(Op)], calls(Target, Tier, Op),
                  sum(P, calls, Tier, Op)),
         claims(Target, P, Tier, Op),
         timed(P, Tier, Op) andalso times(Target, P, Tier, Op, Tier, "total_ns")
     end || Op <- [delegated, forwarded], Tier <- [delegate, db]],
    requests(Target, P).

ends(T) ->
    Ops = [thrown, exited, linked, raise, raise_deep, retry_deep, crash],
    {Target, P} = run(T, [lists:join(",", [atom_to_list(Op) ++ "=1" || Op <- Ops])], "4"),
    [begin
         it:equal(["calls of ", atom_to_list(Tier), ", ", atom_to_list(Op)], calls(Target, Tier, Op),
                  sum(P, calls, Tier, Op)),
         claims(Target, P, Tier, Op)
     end || {Tier, Op} <- [{fault, Op} || Op <- [thrown, exited, linked]]
                ++ [{db, Op} || Op <- [raise, raise_deep, retry_deep]]],
    claims(Target, P, '_total', crash),
    %% What could not be seen is no 0 in the view either.
    it:equal("throws that are said to be none", 0,
             it:number(P, "select count(*) from tier_stats where tier = 'fault' and identity = 'thrown'"
                       " and calls > 0 and raised = 0")),
    requests(Target, P).

%% Alone its requests have their calls. Together they may have each other's, and no
%% call is missing or there twice: what may be another request's is counted as lost.
drained(T) ->
    {Target, One} = run(T, ["queued=1"], "1"),
    it:equal("alone", calls(Target, queue, queued), sum(One, calls, queue, queued)),
    times(Target, One, queue, queued, queue, "total_ns"),
    ok = it:call(Target, sample_truth, reset, []),
    P = profiled(T, Target, ["queued=1"], "16", tiers()),
    it:equal("told, with one client", 0, drains(One)),
    it:check(drains(P) > 0, "an event says it"),
    it:equal("calls of all requests", calls(Target, queue, queued), sum(P, calls, queue, queued)
             + sum(P, async_calls, queue, queued) + maps:get(crossed, it:losses(P), 0)),
    requests(Target, P).

drains(P) -> it:number(P, "select count(*) from events where kind = 'drains' and text like '%sample_queue%'").

%% What a call is about is told by its label: an update reads, then creates, within itself.
labels(T) ->
    Tiers = "{tiers, [{handle, {requests, handle_request, 2}},\n"
        "         {db, [{db, network_request, 1}, {db, transaction, '_'}]}]}.\n{entry, {requests, handle_request, 2}}.\n"
        "{identity, fun ({requests, handle_request, [Op, _]}) when is_atom(Op) -> Op; (_) -> undefined end}.\n"
        "{label, fun ({db, _, [#{op := Op} | _]}) when is_atom(Op) -> Op end}.\n"
        "{sampling, all}.\n{budget, none}.\n{slow_ms, 1}.\n",
    {Target, P} = run(T, ["read=1,update=1"], "2", Tiers),
    N = calls(Target, db, read),
    it:equal("of reads", {N, N, 0}, {sum(P, calls, db, read), sum(P, calls, 'db: read', read),
                                     sum(P, calls, 'db: update', read)}),
    M = sum(P, calls, 'db: update', update),
    it:equal("of updates", {M, M, 3 * M}, {sum(P, calls, 'db: read', update), sum(P, calls, 'db: create', update),
                                           sum(P, calls, db, update)}),
    it:equal("time of reads", sum(P, total_ns, db, read), sum(P, total_ns, 'db: read', read)),
    it:equal("in trees", [<<"db:network_request/1 [read]">>],
             lists:usort([F || [F] <- it:sql(P, "select distinct trim(call) from slow_calls c join slow_requests r"
                                             " on r.request = c.request where r.identity = 'read' and c.tier = 'db'")])),
    K = it:start(T, "report", [it:build(T) ++ "/kprof", "report", "-db", it:db(P)], []),
    it:ended(K, 0),
    it:check(re:run(it:output(K), "^db, by label .*^update +create +1\\.0.*^ +read +1\\.0", [multiline, dotall]) =/= nomatch,
             "~ts", [it:output(K)]),
    requests(Target, P).

%% The last clause takes what is left, the first what there is; between them are
%% one that no call fits and one about a function that is not called.
hints(T) ->
    Tiers = "{tiers, [{handle, {requests, handle_request, 2}}, {db, {db, network_request, 1}},\n"
        "         {queue, {sample_queue, work, 1}}]}.\n{entry, {requests, handle_request, 2}}.\n"
        "{identity, fun\n"
        "  ({requests, handle_request, [read, _]})    -> read;\n"
        "  ({requests, handle_request, [\"read\", _]})  -> text;\n"
        "  ({sample_queue, work, [Op]})               -> Op;\n"
        "  (_)                                        -> undefined\nend}.\n{sampling, all}.\n",
    {_, P} = run(T, ["read=1"], "2", Tiers),
    {0, Report, _} = it_kprof:kprof(T, ["report", "-db", it:db(P)]),
    it_kprof:says(Report, "identity clauses 2 \\(line 6\\), 3 \\(line 7\\) of tiers.conf matched none of 200 requests"),
    {0, Json, _} = it_kprof:kprof(T, ["report", "-json", "-db", it:db(P)]),
    it_kprof:says(Json, "\"hints\":\\[\"identity clauses 2 ").

%% ----------------------------------------------------------------------------

run(T, Mix, Clients) -> run(T, Mix, Clients, tiers()).

run(T, Mix, Clients, Tiers) ->
    Target = it:target(T, #{config => ?CONFIG}),
    {Target, profiled(T, Target, Mix, Clients, Tiers)}.

tiers() ->
    {ok, Tiers} = file:read_file("test/sample_app/patterns.conf"),
    Tiers.

%% ?REQUESTS of the mix, to the end of all that they left behind.
profiled(T, Target, Mix, Clients, Tiers) ->
    P = it:kprofd(T, Target, #{tiers => [Tiers, it:calm()]}),
    it:armed(P),
    #{requests := ?REQUESTS} = it:loaded(it:load(T, Target, [Clients, integer_to_list(?REQUESTS), "0" | Mix])),
    it:until("what is left behind is done", fun() -> is_done(Target) end),
    it:assembled(P, ?REQUESTS),
    it:terminate(P),
    P.

is_done(Target) ->
    lists:all(fun({Layer, Op}) -> calls(Target, Layer, Op) =:= calls(Target, handle, Op) end,
              [{db_async, spawned}, {db_async, casted}, {task_after, tasked}]).

%% All are there, and no more.
requests(Target, P) ->
    Own = lists:sum([N || {handle, _, N, _} <- it:call(Target, sample_truth, get, [])]),
    it:equal("entry calls", Own, it:balance(P)),
    it:equal("requests", Own, it:requests(P)).

row(Target, '_total', Op) -> row(Target, handle, Op);
row(Target, Layer, Op) ->
    None = #{returned => 0, raised => 0, unfinished => 0, returned_ns => 0, raised_ns => 0},
    hd([Row || #{layer := L, op := O} = Row <- it:call(Target, sample_truth, details, []), L =:= Layer, O =:= Op]
       ++ [None]).

calls(Target, Layer, Op) ->
    #{returned := A, raised := B, unfinished := C} = row(Target, Layer, Op),
    A + B + C.

ns(Target, Layer, Op) ->
    #{returned_ns := A, raised_ns := B} = row(Target, Layer, Op),
    A + B.

%% Of the base table; 0 where there is no row, null where it is not known.
sum(P, Column, Tier, Op) ->
    Query = ["select case when count(*) = count(s.", atom_to_list(Column), ") then coalesce(sum(s.",
             atom_to_list(Column), "), 0) else 'null' end from stat s join tier t on t.id = s.tier_id"
             " join identity i on i.id = s.identity_id where t.name = '", atom_to_list(Tier),
             "' and i.name = '", atom_to_list(Op), "'"],
    case it:sql(P, Query) of
        [[<<"null">>]] -> null;
        [[N]] -> binary_to_integer(N)
    end.

%% Calls whose return is claimed did return, and none that did not is left out of
%% what is not known, but where it was seen: raised. Nothing is 0 that is not.
claims(Target, P, Tier, Op) ->
    #{returned := Returned, raised := Raised, unfinished := Unfinished} = row(Target, Tier, Op),
    [Calls, SaysRaised, SaysUnfinished, Ambiguous, Unknown] =
        [sum(P, C, Tier, Op) || C <- [calls, raised, unfinished, ambiguous, unknown_outcomes]],
    What = {Tier, Op, #{calls => Calls, raised => SaysRaised, unfinished => SaysUnfinished,
                        ambiguous => Ambiguous, unknown => Unknown}, #{own => {Returned, Raised, Unfinished}}},
    it:check(SaysRaised =< Raised + Unfinished, "more is raised than was: ~p", [What]),
    it:check(Calls - SaysRaised - SaysUnfinished - Ambiguous - Unknown =< Returned,
             "what did not return is claimed to: ~p", [What]).

%% The application's measure is taken around the call: kprofd's is no longer.
times(Target, P, Tier, Op, Layer, Column) ->
    Own = ns(Target, Layer, Op),
    Got = sum(P, list_to_atom(Column), Tier, Op),
    it:check(Got > 0 andalso Got =< Own * 1.01 + 1000 * calls(Target, Layer, Op),
             "~p: the application says ~b ns, kprofd ~b", [{Tier, Op}, Own, Got]).

timed(P, Tier, Op) ->
    sum(P, timed, Tier, Op) =:= sum(P, calls, Tier, Op).
