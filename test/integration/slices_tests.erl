%% Requests in slices of time: all that begin in a slice, whole, where pools and bursts are;
%% nothing between slices but the counters of entries; and pauses, reloads, overloads and long
%% requests, each with them.
-module(slices_tests).

-export([tests/0]).
%% In the target.
-export([armed_there/1, holds/3, hold/1]).

-define(TYPES, [fast, slow, hop]).
-define(SLICES, "{sampling, {slices, 4}}.\n").
-define(ALWAYS, "{slow, always}.\n").

tests() ->
    [{lists:concat(["a pool: ", Kind, ", ", N, " clients", What]), 90, fun(T) -> pool(T, Kind, N, ?SLICES ++ Slow) end}
     || {Kind, N, What, Slow} <- [{own, 12, "", []}, {poolboy, 60, "", []}, {own, 24, ", the others timed", ?ALWAYS}]]
        ++ [{"nothing is armed between them", 60, fun rests/1},
            {"a pause, a reload, another sampling", 120, fun commands/1},
            {"requests longer than a slice", 90, fun long/1},
            {"slow requests between them", 120, fun always/1},
            {"an overload", 90, fun overload/1},
            {"requests of two nodes", 90, fun nodes/1},
            {"auto: where all would cost too much", 120, fun auto/1},
            {"a check of another file counts between them", 90, fun check/1},
            {"kill -9 of kprofd and of the agent", 120, fun killed/1}].

tiers(Sampling) ->
    ["{tiers, [{request, {it_pool, request, 1}}, {checkout, {it_pool, checkout, 0}}, {query, {it_pool, query, 2}},\n"
     " {fetch, {it_pool, fetch, 1}}, {render, {it_pool, render, 1}}]}.\n"
     "{entry, {it_pool, request, 1}}.\n"
     "{identity, fun({it_pool, request, [T]}) when is_atom(T) -> T end}.\n",
     Sampling, "{hot_share, none}. {slow_ms, 60000}.\n", it:calm()].

none() -> "{budget, none}.\n".

start(T, Targets, Tiers) ->
    P = it:kprofd(T, Targets, #{tiers => Tiers, args => ["-interval", "1s", "-verbose"]}),
    it:armed(P),
    P.

loaded(Target, Kind, Clients) ->
    ok = it:call(Target, it_pool, start, [Kind, 2]),
    _ = it:call(Target, erlang, spawn, [it_pool, run, [Clients, forever, ?TYPES]]),
    Target.

%% What a type calls in each request is what was measured, but at the edges of slices, where some
%% wait for a worker that a request without a token gives back.
pool(T, Kind, Clients, Slices) ->
    Target = loaded(it:target(T, #{kind => plain}), Kind, Clients),
    P = start(T, Target, tiers([Slices, none()])),
    it:until("some slices", fun() -> slices(P) >= 8 end),
    it:terminate(P),
    Truth = it:call(Target, it_pool, stop, []),
    _ = it:balance(P),
    Seen = per_request(P),
    Apart = [{Type, Tier, N, Due} || Type <- ?TYPES, {Tier, Due} <- maps:to_list(it_pool:per_request(Type)),
                                     N <- [maps:get({Tier, Type}, Seen, 0.0)], abs(N - Due) > 0.05 * Due],
    it:equal("calls a request that are apart from what requests make", [], Apart),
    Part = it:requests(P) / lists:sum([N || {{request, _}, N} <- maps:to_list(Truth)]),
    it:check(Part > 0.08 andalso Part < 0.6, "~.2f of the requests were measured", [Part]),
    {note, io_lib:format("~b of ~0p; a request's: ~0p; losses ~0p", [it:requests(P), Truth, Seen, it:losses(P)])}.

%% Windows in which requests were measured: a slice has them in one or two.
slices(P) ->
    it:number(P, "select count(*) from time_window where sampled > 0").

%% {Tier, Type} => calls, in a request and after.
per_request(P) ->
    Requests = maps:from_list(it:requests_by_identity(P)),
    maps:from_list([{{list_to_atom(Tier), list_to_atom(Type)}, (N + Late) / maps:get(Type, Requests)}
                    || {Tier, Type, N, Late} <- it:calls_by_tier(P)]).

%% In the target: {Patterns, FlaggedProcesses, Counters} of these functions, of a kprofd or of nobody.
armed_there(Functions) ->
    Sessions = case erlang:function_exported(trace, session_info, 1) of
                   true -> [S || {kprofd, _} = S <- trace:session_info(all)];
                   false -> [legacy]
               end,
    {[F || S <- Sessions, F <- Functions, {traced, local} <- [trace_info(S, F, traced)]],
     length([P || S <- Sessions, P <- processes(), {flags, [_ | _]} <- [trace_info(S, P, flags)]]),
     [N || S <- Sessions, F <- Functions, {call_count, N} <- [trace_info(S, F, call_count)], is_integer(N)]}.

trace_info(legacy, What, Key) -> erlang:trace_info(What, Key);
trace_info(Session, What, Key) ->
    try trace:info(Session, What, Key)
    catch error:badarg -> gone
    end.

rests(T) ->
    Target = loaded(it:target(T, #{kind => plain}), own, 6),
    Before = it:call(Target, it_stub, agent, []),
    it:equal("no agent", gone, Before),
    P = start(T, Target, tiers([?SLICES, none()])),
    it:until("some slices", fun() -> slices(P) >= 3 end),
    it:until("nothing is armed while it waits",
             fun() -> it:agent_state(Target) =:= waiting andalso
                          quiet(Target, it:agent_state(Target))
             end),
    it:until("and the next slice comes", fun() -> is_armed(armed_functions(Target)) end),
    {ok, Text} = it:control(P, "status"),
    it_kprof:says(unicode:characters_to_list(Text), "\nsampling +one request in 4, all of some slices of time"),
    it:terminate(P),
    ok = it:call(Target, it_pool, halt, []),
    _ = it:balance(P),
    it:until("nothing is left", fun() -> it:agent_state(Target) =:= gone end),
    it:equal("what was lost", [], [L || {L, _} <- maps:to_list(it:lost(P)),
                                        not lists:member(L, [sampled_out, unseen, crossed, stale, running, tripped])]).

%% A slice may begin between the two looks.
quiet(Target, waiting) ->
    case armed_functions(Target) of
        {[], 0, [_]} -> it:agent_state(Target) =:= waiting;
        _ -> false
    end;
quiet(_, _) -> false.

%% The entry alone has a counter between slices.
armed_functions(Target) ->
    it:call(Target, ?MODULE, armed_there, [[{it_pool, F, A} || {F, A} <- [{request, 1}, {query, 2}, {render, 1}]]]).

is_armed({Patterns, Flagged, _}) -> length(Patterns) =:= 3 andalso Flagged > 0.

commands(T) ->
    Target = loaded(it:target(T, #{kind => plain}), poolboy, 6),
    P = start(T, Target, tiers([?SLICES, none()])),
    goes_on(P),
    {ok, _} = it:control(P, "pause"),
    it:equal("paused", paused, it:agent_state(Target)),
    {ok, _} = it:control(P, "resume"),
    goes_on(P),
    it:write(T, "tiers1.conf", tiers(["{sampling, {slices, 8}}.\n", none()])),
    {ok, _} = it:control(P, "reload"),
    goes_on(P),
    it:write(T, "tiers1.conf", tiers(["{sampling, all}.\n", none()])),
    {ok, _} = it:control(P, "reload"),
    it:until("all are measured",
             fun() -> it:number(P, "select count(*) from (select entry_calls e, sampled s from time_window"
                                " order by start_ns desc limit 2) where e > 0 and s > 0.95 * e") =:= 2 end),
    it:write(T, "tiers1.conf", tiers([?SLICES, none()])),
    {ok, _} = it:control(P, "reload"),
    it:until("it waits for slices", fun() -> it:agent_state(Target) =:= waiting end),
    goes_on(P),
    it:terminate(P),
    ok = it:call(Target, it_pool, halt, []),
    it:balance(P).

%% Requests of new slices are written.
goes_on(P) ->
    N = it:requests(P),
    it:until("another slice", fun() -> it:requests(P) > N + 10 end),
    it:until("and another", fun() -> it:requests(P) > N + 30 end).

%% In the target: N requests of Ms ms each, one every Each ms.
holds(N, Each, Ms) ->
    spawn(fun() -> [begin
                        spawn(?MODULE, hold, [Ms]),
                        timer:sleep(Each)
                    end || _ <- lists:seq(1, N)]
          end).

hold(Ms) ->
    timer:sleep(Ms),
    held.

%% One that ends soon after its slice is measured whole. One that does not is counted as cut off.
long(T) ->
    Target = it:target(T, #{kind => plain}),
    P = start(T, Target, ["{tiers, [{hold, {slices_tests, hold, 1}}]}.\n{entry, {slices_tests, hold, 1}}.\n"
                          "{identity, fun ({slices_tests, hold, [Ms]}) -> Ms end}.\n",
                          ?SLICES, none(), "{slow_ms, 60000}.\n", it:calm()]),
    [it:call(Target, ?MODULE, holds, [6000, Each, Ms]) || {Each, Ms} <- [{20, 1500}, {50, 9000}]],
    it:until("some are measured", fun() -> it:number(P, "select count(*) from tier_stats where identity = '1500'") >= 3 end),
    it:until("some are cut off", fun() -> maps:get(slice, it:losses(P), 0) > 0 end),
    it:terminate(P),
    _ = it:balance(P),
    [[Mean, Least]] = it:sql(P, "select sum(w_total_ns) / sum(w_timed), min(min_ns) from stat s join identity i on i.id = s.identity_id"
                             " join tier t on t.id = s.tier_id where i.name = '1500' and t.name = '_total'"),
    it:check(binary_to_integer(Least) >= 1500000000, "~s ns is the least of those that take 1.5 s", [Least]),
    it:equal("none of 9 s has a time", 0, it:number(P, "select coalesce(sum(w_timed), 0) from stat s join identity i"
                                                    " on i.id = s.identity_id where i.name = '9000'")),
    {note, io_lib:format("1.5 s: ~s ns; losses ~0p", [Mean, it:losses(P)])}.

%% With {slow, always} nearly all are kept, long ones too, which slices and their ends meet; those
%% between slices stand for none in other figures.
always(T) ->
    Target = it:target(T, #{kind => plain}),
    P = start(T, Target, ["{tiers, [{hold, {slices_tests, hold, 1}}, {sleep, {timer, sleep, 1}}]}.\n"
                          "{entry, {slices_tests, hold, 1}}.\n"
                          "{identity, fun ({slices_tests, hold, [Ms]}) -> Ms end}.\n",
                          ?SLICES, ?ALWAYS, none(), "{slow_ms, 100}. {hot_share, none}.\n", it:calm()]),
    it:until("the entry alone is armed",
             fun() -> it:call(Target, ?MODULE, armed_there, [[{?MODULE, hold, 1}, {timer, sleep, 1}]])
                          =:= {[{?MODULE, hold, 1}], flagged(Target), [0]} end),
    Made = [{"200", 20, 200, 600}, {"3000", 400, 3000, 30}, {"5", 10, 5, 600}],
    [it:call(Target, ?MODULE, holds, [N, Each, Ms]) || {_, Each, Ms, N} <- Made],
    it:until("the last ones are kept", fun() -> slow(P, "3000", "weight = 0") + slow(P, "3000", "weight > 0") >= 28 end),
    timer:sleep(4000),
    K = it:start(T, "kprof", [it:build(T) ++ "/kprof", "slow", "-db", it:db(P)], []),
    it:equal("kprof slow ends", 0, it:exited(K)),
    it_kprof:says(it:output(K), " requests whose time is known, which are [0-9.]+ % of all 1.{1,3}230"),
    it_kprof:says(it:output(K), " -\n"),
    it_kprof:says(it:output(K), "- calls: outside of slices of time, so tiers were not traced"),
    it:terminate(P),
    _ = it:balance(P),
    Kept = [{Type, slow(P, Type, "1"), slow(P, Type, "weight = 0"), N} || {Type, _, Ms, N} <- Made, Ms >= 100],
    [it:check(10 * All > 9 * N andalso Outside > N div 4, "~s: ~b of ~b, ~b of them between slices", [Type, All, N, Outside])
     || {Type, All, Outside, N} <- Kept],
    it:equal("none is too short", [], it:sql(P, "select identity, total_ms from slow_requests where total_ms < cast(identity as integer)"
                                             " or total_ms > cast(identity as integer) + 1500 or (weight = 0) <> (calls = 1)")),
    %% All of it was shown as the entry's own time.
    it:equal("self times of those whose tiers were not traced", 0,
             it:number(P, "select count(*) from request q left join request_time t on t.request_id = q.id"
                       " left join call c on c.request_id = q.id where q.weight = 0"
                       " and (t.self_ns is not null or c.self_ns is not null)")),
    {note, io_lib:format("{Type, Kept, BetweenSlices, Made}: ~0p; losses ~0p", [Kept, it:losses(P)])}.

flagged(Target) ->
    element(2, it:call(Target, ?MODULE, armed_there, [[]])).

slow(P, Type, Which) ->
    it:number(P, ["select count(*) from slow_requests where identity = '", Type, "' and ", Which]).

%% Slices begin again after the pause.
overload(T) ->
    Target = loaded(it:target(T, #{kind => plain}), own, 12),
    Strict = string:replace(lists:flatten(tiers([?SLICES, none()])), it:calm(), "{overload, [{max_queue, 100}, {pause_s, 1}]}.\n"),
    P = it:kprofd(T, Target, #{tiers => Strict,
                               args => ["-interval", "1s", "-verbose"]}),
    it:saw(P, "tracing is paused for [0-9]+ s: .*then 1 request in [0-9]+ is sampled, in slices of time"),
    it:until("it goes on", fun() -> it:agent_state(Target) =:= waiting end),
    it:terminate(P),
    ok = it:call(Target, it_pool, halt, []),
    it:balance(P).

%% Slices of both fall together: calls that one asks the other for are seen.
nodes(T) ->
    Targets = [Pool, Other] = [it:target(T, #{kind => plain, name => Name, node => name(Name)}) || Name <- ["pool", "other"]],
    ok = it:call(Pool, it_pool, start, [own, 2]),
    ok = it:call(Other, it_pool, start, [own, 1]),
    ok = it:call(Other, it_pool, at, [it:call(Pool, erlang, node, [])]),
    [it:call(Target, erlang, spawn, [it_pool, run, [6, forever, ?TYPES]]) || Target <- Targets],
    P = it:kprofd(T, Targets, #{tiers => tiers([?SLICES, none()]), args => ["-interval", "1s"]}),
    it:until("both are armed", fun() -> it:times_armed(P) >= 2 end),
    it:until("some slices", fun() -> slices(P) >= 10 end),
    it:terminate(P),
    [it:call(Target, it_pool, stop, []) || Target <- [Other, Pool]],
    Seen = per_request(P),
    Apart = [{Type, Tier, N, Due} || Type <- ?TYPES, {Tier, Due} <- maps:to_list(it_pool:per_request(Type)),
                                     N <- [maps:get({Tier, Type}, Seen, 0.0)], abs(N - Due) > 0.2 * Due],
    it:equal("calls a request that are apart from what requests make", [], Apart),
    {note, io_lib:format("~0p; losses ~0p", [Seen, it:losses(P)])}.

name(Name) ->
    lists:concat(["slices_", Name, "_", os:getpid(), [D || D <- pid_to_list(self()), D >= $0, D =< $9], "@127.0.0.1"]).

%% All while that is cheap; slices under load; all again.
auto(T) ->
    Target = it:target(T, #{kind => plain}),
    ok = it:call(Target, it_pool, start, [own, 2]),
    P = start(T, Target, tiers("{sampling, auto}.\n{budget, 1}.\n")),
    30 = it:call(Target, it_pool, run, [1, 30, ?TYPES]),
    it:assembled(P, 30),
    _ = it:call(Target, erlang, spawn, [it_pool, run, [12, forever, ?TYPES]]),
    it:saw(P, "now 1 request in [0-9]+ is sampled, in slices of time, to keep to the budget"),
    it:until("slices", fun() -> it:agent_state(Target) =:= waiting end),
    goes_on(P),
    ok = it:call(Target, it_pool, halt, []),
    it:until("all the time again", fun() -> says_all(P) end),
    it:saw(P, "requests are measured all the time"),
    N = it:requests(P),
    30 = it:call(Target, it_pool, run, [1, 30, ?TYPES]),
    it:until("all of these", fun() -> it:requests(P) >= N + 30 end),
    it:terminate(P),
    it:balance(P).

%% Slices that began and ended while it counted took tiers' counters with them, so that it said less
%% or nothing of them; the entry has its own all the time.
check(T) ->
    Target = loaded(it:target(T, #{kind => plain}), own, 6),
    P = start(T, Target, tiers([?SLICES, none()])),
    goes_on(P),
    File = it:write(T, "asked.conf", tiers("{sampling, all}.\n")),
    Apart = [X || N <- lists:seq(1, 4), X <- apart(T, P, File, N)],
    it:equal("calls a request that are apart from what requests make", [], Apart),
    goes_on(P),
    it:terminate(P),
    ok = it:call(Target, it_pool, halt, []),
    it:balance(P).

apart(T, P, File, N) ->
    K = it:start(T, lists:concat(["check", N]), [it:build(T) ++ "/kprof", "check", File, "-control",
                                                 maps:get(control, P), "-for", "1500ms"], []),
    it:equal("it ends", 0, it:exited(K)),
    Rate = fun(F) ->
                   {match, [R]} = re:run(it:output(K), ["^it_pool:", F, " +([0-9?]+) "], [multiline, {capture, [1], binary}]),
                   R
           end,
    Requests = binary_to_integer(Rate("request/1")),
    %% types come in turn
    Due = [{"query/2", 2.0}, {"render/1", 1.0}, {"fetch/1", 2 / 3}],
    [{F, R, Requests} || {F, Each} <- Due, R <- [Rate(F)],
                         R =:= <<"?">> orelse abs(binary_to_integer(R) / Requests - Each) > 0.1 * Each].

says_all(P) ->
    {ok, Text} = it:control(P, "status"),
    re:run(Text, "^sampling +every request$", [multiline, {capture, none}]) =:= match.

killed(T) ->
    Target = loaded(it:target(T, #{kind => plain}), own, 6),
    P = start(T, Target, tiers([?SLICES, ?ALWAYS, none()])),
    goes_on(P),
    it:do(Target, fun() -> exit(whereis(kprof_agent), kill), ok end),
    goes_on(P),
    it:signal(P, "KILL"),
    it:until("the agent has gone", fun() -> it:agent_state(Target) =:= gone end),
    it:equal("what is left", {[], 0, []},
             it:call(Target, ?MODULE, armed_there, [[{it_pool, request, 1}, {it_pool, query, 2}]])),
    ok = it:call(Target, it_pool, halt, []).
