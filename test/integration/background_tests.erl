%% Work that a request leaves behind: it has all its time, the part inside and
%% the part after, as the program measured them of itself.
-module(background_tests).

-export([tests/0]).

-define(TIMES, [250, 400, 700, 1500]).
-define(ROUNDS, 2).

tests() ->
    [{"work that outlasts its request", 90, fun measured/1},
     {"work that begins after its request raises", 60, fun late/1},
     {"what runs at the end was running", 60, fun running/1}].

tiers() ->
    ["{tiers, [{web, {it_background, request, 4}}, {work, [{it_background, work, 2}, {it_background, late_work, 1}]}]}.\n"
     "{identity, fun({it_background, request, [Name, _, _, _]}) -> Name end}.\n"
     "{sampling, all}.\n{budget, none}.\n{slow_ms, 0}.\n", it:calm()].

begin_run(T) ->
    Target = it:target(T, #{kind => plain}),
    P = it:kprofd(T, Target, #{tiers => tiers(), args => ["-interval", "1s"]}),
    it:armed(P),
    {Target, P}.

measured(T) ->
    {Target, P} = begin_run(T),
    Done = lists:append([it:call(Target, it_background, run, [?TIMES]) || _ <- lists:seq(1, ?ROUNDS)]),
    it:terminate(P),
    it:equal("losses", #{}, it:losses(P)),
    it:equal("entry calls", length(Done), it:balance(P)),
    [compare(P, Name, [D || {N, _, _} = D <- Done, N =:= Name]) || Name <- lists:usort([N || {N, _, _} <- Done])],
    it:equal("all time after", it:number(P, sum("async_ns", work, '_total')),
             it:number(P, sum("async_ns", '_total', '_total'))),
    %% By a second nobody waits for stragglers any more.
    it:equal("calls in trees that go on", length([N || {N, _, _} <- Done, lists:suffix("_1500", atom_to_list(N))]),
             it:number(P, "select count(*) from slow_calls c join slow_requests r on r.request = c.request"
                       " where trim(call) = 'it_background:work/2' and r.identity like '%_1500'"
                       " and c.outcome = 'unfinished' and c.total_ms is null and outlasts = 'outlasts'")).

compare(P, Name, Done) ->
    N = length(Done),
    [it:equal(io_lib:format("~s of ~s", [Column, Name]), Want, it:number(P, sum(Column, work, Name)))
     || {Column, Want} <- [{"requests", N}, {"calls", N}, {"timed", N}, {"outlasting", N}, {"unfinished", 0},
                           {"ambiguous", 0}, {"async_calls", 0}]],
    it:equal("those of all tiers", N, it:number(P, sum("outlasting", '_total', Name))),
    [within(io_lib:format("~s of ~s", [Column, Name]), it:number(P, sum(Column, work, Name)),
            lists:sum([Least || {Least, _} <- Spans]), lists:sum([Most || {_, Most} <- Spans]))
     || {Column, Span} <- [{"total_ns", fun total/1}, {"self_ns", fun total/1}, {"busy_ns", fun inside/1},
                           {"async_ns", fun outside/1}],
        Spans <- [[Span(D) || D <- Done]]].

total({_, _, {Before, First, Last, After}}) -> {Last - First, After - Before}.

inside({_, {EndLast, EndLater}, {Before, First, _, _}}) -> {EndLast - First, EndLater - Before}.

outside({_, {EndLast, EndLater}, {_, _, Last, After}}) -> {Last - EndLater, After - EndLast}.

within(What, Got, Least, Most) ->
    it:check(Got >= Least andalso Got =< Most, "~ts: ~b ns, but it was ~b to ~b", [What, Got, Least, Most]).

sum(Column, Tier, Identity) ->
    io_lib:format("select sum(~s) from stat s join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id"
                  " where t.name = '~s' and i.name = '~s'", [Column, Tier, Identity]).

%% Known, or not seen: never 0.
late(T) ->
    {Target, P} = begin_run(T),
    ok = it:call(Target, it_background, late, [lists:append(lists:duplicate(5, [returns, returns, returns, raises]))]),
    it:assembled(P, 20),
    it:terminate(P),
    it:equal("begun after the end", 20, it:number(P, sum("async_calls", work, late))),
    it:equal("inside", 0, it:number(P, sum("calls", work, late))),
    Raised = it:sql(P, "select sum(raised) from tier_stats where tier = 'work' and identity = 'late'"),
    it:check(Raised =:= [[<<"5">>]] orelse (Raised =:= [] andalso not it:is_native()),
             "raised after the end: ~p", [Raised]),
    it:equal("requests that raised", 0, it:number(P, "select count(*) from request_stats where errors > 0")),
    it:check(it:number(P, sum("async_unfinished", work, late)) =:= maps:get(running_calls, it:losses(P), 0),
             "without a time and not lost: ~p", [it:losses(P)]).

%% Profiling ends: nothing was disconnected.
running(T) ->
    {Target, P} = begin_run(T),
    ok = it:call(Target, it_background, hang, [60000]),
    ok = it:call(Target, it_background, sleep, [60000]),
    it:assembled(P, 1),
    it:terminate(P),
    it:equal("losses", #{running => 1, running_calls => 1}, it:losses(P)),
    it:equal("unfinished", 1, it:number(P, sum("unfinished", work, hanging))),
    it:equal("entry calls", 2, it:balance(P)).
