%% Where requests meet: a client that waits for a worker of a pool is answered because
%% another request gives one back, with that one's token. Its calls, and those of the
%% worker, once counted for the other request, after its end: 0.06 queries a request
%% where there were 3.00, and nothing was lost. The application counts each of its
%% functions by type of request (it_pool); kprofd has to find the same.
-module(pool_tests).

-export([tests/0]).
%% In the target.
-export([grow_old/0]).

-define(TYPES, [fast, slow, hop]).

tests() ->
    [{lists:concat([Kind, ", ", N, " clients, ", Workers, " workers"]), 60,
      fun(T) -> exact(T, Kind, N, Workers) end}
     || {Kind, N, Workers} <- [{own, 2, 2}, {own, 12, 2}, {own, 200, 3}, {poolboy, 12, 2}, {poolboy, 60, 4}]]
        ++ [{lists:concat([Kind, ", ", N, " clients, ", Sampling]), 60, fun(T) -> sampled(T, Kind, N, Sampling) end}
            || Sampling <- ["{one_in, 4}", "{per_second, 50}"], {Kind, N} <- [{own, 2}, {own, 12}, {poolboy, 12}, {own, 200}]]
        ++ [{lists:concat(["what requests wait for is named: ", Kind]), 60, fun(T) -> named(T, Kind) end} || Kind <- [own, poolboy]]
        ++ [{"what requests wait for is named: -check", 60, fun checked/1},
            {"a plain server is not named", 60, fun unnamed/1},
            {"workers that are all taken when tracing begins", 60, fun(T) -> taken(T, own, "all") end},
            {"workers that are all taken when all requests are measured", 60, fun(T) -> taken(T, poolboy, "{one_in, 4}") end},
            {"a state machine that postpones", 60, fun gate/1},
            {"all at once, with messages and sampled stacks", 60, fun mixed/1},
            {"messages are of the request that they are sent for", 60, fun messages/1},
            {"requests of two nodes, one pool", 60, fun nodes/1}].

tiers(Sampling, More) ->
    ["{tiers, [{request, {it_pool, request, 1}}, {checkout, {it_pool, checkout, 0}}, {query, {it_pool, query, 2}},\n"
     " {fetch, {it_pool, fetch, 1}}, {admit, {it_pool, admit, 2}}, {render, {it_pool, render, 1}}]}.\n"
     "{entry, {it_pool, request, 1}}.\n"
     "{identity, fun({it_pool, request, [T]}) when is_atom(T) -> T end}.\n",
     Sampling, "{budget, none}. {hot_share, none}. {slow_ms, 60000}.\n", it:calm(), More].

run(T, Kind, Clients, Workers, Types, More) ->
    Target = it:target(T, #{kind => plain}),
    P = start(T, Target, Kind, Workers, More),
    Each = max(4, 600 div Clients),
    N = it:call(Target, it_pool, run, [Clients, Each, Types]),
    it:assembled(P, N),
    timer:sleep(500),                   % calls after their requests
    Truth = it:call(Target, it_pool, stop, []),
    it:terminate(P),
    N = it:balance(P),
    {P, Truth}.

start(T, Target, Kind, Workers, More) ->
    start(T, Target, Kind, Workers, More, []).

start(T, Target, Kind, Workers, More, Args) ->
    start(T, Target, Kind, Workers, "all", More, Args).

start(T, Target, Kind, Workers, Sampling, More, Args) ->
    ok = it:call(Target, it_pool, start, [Kind, Workers]),
    P = it:kprofd(T, Target, #{tiers => tiers(["{sampling, ", Sampling, "}.\n"], More), args => ["-interval", "1s" | Args]}),
    it:armed(P),
    P.

%% {Function, Type} => Calls, inside and after, as in it_pool's own account.
found(P) ->
    maps:from_list([{{list_to_atom(Tier), list_to_atom(Type)}, N + Late} || {Tier, Type, N, Late} <- it:calls_by_tier(P)]).

%% Nothing is caused late here: what comes after a request was moved there.
late(P) ->
    [{Tier, Type, Late} || {Tier, Type, _, Late} <- it:calls_by_tier(P), Late > 0].

exact(T, Kind, Clients, Workers) ->
    {P, Truth} = run(T, Kind, Clients, Workers, ?TYPES, ""),
    same(P, Truth, found(P)),
    it:equal("calls after their request", [], late(P)).

same(P, Truth, Found) ->
    Losses = it:losses(P),
    it:equal("calls by type", Truth, Found),
    it:equal("losses", #{}, maps:remove(crossed, it:lost(P))),
    it:check(not is_map_key(crossed, Losses) orelse is_map_key({admit, gate}, Truth),
             "lost with other requests' tokens: ~p", [Losses]).

%% The pool itself makes no traced call: who waits for it is asked. The function to name is the
%% client's, in which it waits.
named(T, Kind) ->
    Target = it:target(T, #{kind => plain}),
    ok = it:call(Target, it_pool, start, [Kind, 2]),
    P = it:kprofd(T, Target, #{tiers => without_checkout(), args => ["-interval", "1s"]}),
    it:armed(P),
    _ = it:call(Target, erlang, spawn, [it_pool, run, [12, forever, ?TYPES]]),
    it:until("it is noticed", fun() -> told(P) =/= [] end),
    it:equal("status", match, re:run(element(2, it:control(P, "status")), ["waits       ", says(Kind)], [{capture, none}])),
    %% It is known to the kprofd that is attached: a check by that need not trace.
    Args = ["-check", "-control", maps:get(control, P), "-duration", "100ms"],
    {0, Asked, _} = it:run_kprofd(T, Target, #{tiers => without_checkout(), args => Args}),
    it:equal(Asked, match, re:run(Asked, ["warning: ", says(Kind)], [{capture, none}])),
    ok = it:call(Target, it_pool, halt, []),
    it:terminate(P),
    [Text] = told(P),
    it:equal(Text, match, re:run(Text, ["^", says(Kind), "$"], [{capture, none}])),
    {0, Report, _} = it_kprof:kprof(T, ["report", "-db", it:db(P)]),
    it:equal(Report, match, re:run(string:replace(Report, "\n", " ", all), says(Kind), [{capture, none}])).

without_checkout() ->
    string:replace(lists:flatten(tiers("{sampling, all}.\n", "")), "{checkout, {it_pool, checkout, 0}}, ", "").

says(Kind) ->
    {Server, Tiers} = case Kind of
                          own -> {"it_pool_own \\(it_pool:init/1\\)", "\\{checkout, \\{it_pool, checkout, 0\\}\\}"};
                          poolboy -> {"it_pool_boy \\(poolboy:init/1\\)",
                                      "\\{checkout, \\{poolboy, checkout, '_'\\}\\} and \\{transaction, \\{poolboy, transaction, '_'\\}\\}"}
                      end,
    [Server, " answers requests later than it takes their messages, as a pool does whose workers are all taken \\([0-9]+ waited"
     " for it at once\\): such an answer may have another request's token, which kprofd puts right; to see how long requests wait, add to tiers: ", Tiers].

told(P) ->
    [binary_to_list(Text) || [Text] <- it:sql(P, "select text from event where kind = 'drains'")].

%% A check says it beforehand, unless the function is in a tier.
checked(T) ->
    Target = it:target(T, #{kind => plain}),
    ok = it:call(Target, it_pool, start, [own, 2]),
    _ = it:call(Target, erlang, spawn, [it_pool, run, [12, forever, ?TYPES]]),
    {0, Said, _} = it:run_kprofd(T, Target, #{tiers => without_checkout(), args => ["-check", "-duration", "2s"]}),
    it:equal(Said, match, re:run(Said, ["warning: ", says(own)], [{capture, none}])),
    {0, Covered, _} = it:run_kprofd(T, Target, #{tiers => tiers("{sampling, all}.\n", ""), args => ["-check", "-duration", "2s"]}),
    it:equal(Covered, nomatch, re:run(Covered, "it_pool_own", [{capture, none}])),
    ok = it:call(Target, it_pool, halt, []).

%% Clients that wait for a busy server, behind others: each is answered in its turn.
unnamed(T) ->
    Target = it:target(T, #{kind => plain}),
    P = start(T, Target, own, 60, ""),
    _ = it:call(Target, erlang, spawn, [it_pool, run, [12, forever, [hop]]]),
    timer:sleep(4000),
    ok = it:call(Target, it_pool, halt, []),
    it:terminate(P),
    it:equal("warnings", [], told(P)).

%% An answer from a request that is not sampled takes the token: then calls are missing, and
%% kprof report says of which tiers. Hardly one counts for another request, and the VM counts all.
sampled(T, Kind, Clients, Sampling) ->
    Target = it:target(T, #{kind => plain}),
    P = start(T, Target, Kind, 2, Sampling, "", []),
    N = it:call(Target, it_pool, run, [Clients, max(8, 1200 div Clients), ?TYPES]),
    it:until("all are counted", fun() -> it:said(P, "counted ([0-9]+) calls of entries") >= N end),
    timer:sleep(500),
    Truth = it:call(Target, it_pool, stop, []),
    it:terminate(P),
    N = it:balance(P),
    %% No entry is called inside another, but clients begin with tokens of others.
    it:equal("cut", 0, maps:get(cut, it:losses(P), 0)),
    Found = found(P),
    Requests = maps:from_list([{list_to_atom(Type), R} || {Type, R} <- it:requests_by_identity(P)]),
    More = [{Key, Calls - Due}
            || {{Tier, Type} = Key, Calls} <- maps:to_list(Found),
               Due <- [maps:get(Tier, it_pool:per_request(Type), 0) * maps:get(Type, Requests)], Calls > Due],
    %% Before the first measured requests have met nothing shows it: mostly none is, but on a busy
    %% machine 6 % of what these few requests call were seen.
    it:check(lists:sum([N1 || {_, N1} <- More]) =< lists:sum(maps:values(Truth)) div 10, "calls of other requests: ~0p", [More]),
    Tiers = maps:keys(maps:remove(request, it_pool:per_request(hop))),
    Sum = fun(Tier, Of) -> lists:sum([Calls || {{Name, _}, Calls} <- maps:to_list(Of), Name =:= Tier]) end,
    it:equal("calls that the VM counts", [{Tier, Sum(Tier, Truth)} || Tier <- Tiers],
             [{Tier, it:number(P, ["select sum(counted) from stat s join tier t on t.id = s.tier_id where t.name = '",
                                   atom_to_list(Tier), "'"])} || Tier <- Tiers]),
    {0, Json, _} = it_kprof:kprof(T, ["report", "-db", it:db(P), "-json"]),
    Short = [{Tier, Sum(Tier, Found) / max(1, Due)}
             || Tier <- Tiers,
                Due <- [lists:sum([maps:get(Tier, it_pool:per_request(Type), 0) * R || {Type, R} <- maps:to_list(Requests)])],
                Sum(Tier, Found) < 0.8 * Due],
    Unsaid = [One || {Tier, _} = One <- Short,
                     re:run(Json, ["\"missing\":\\[[^]]*\"tier\":\"", atom_to_list(Tier), "\""]) =:= nomatch],
    it:equal("tiers that lack calls, of which nothing is said", [], Unsaid),
    {note, io_lib:format("~b of ~b requests were sampled; seen of tiers: ~0p; of other requests: ~0p", [it:requests(P), N, Short, More])}.

%% Whoever is answered by a request from before has no token, and gives none on: of such a pool
%% 0 of 3,000 queries a second were seen, for ever. All are, soon after tracing begins, begins
%% again, or measures all requests from now on; and after a minute, when a token is too old.
%% Two workers bear no more than 15,000 calls a second of these: tiers give tokens.
taken(T, Kind, First) ->
    Target = it:target(T, #{kind => plain}),
    ok = it:call(Target, it_pool, start, [Kind, 2]),
    _ = it:call(Target, erlang, spawn, [it_pool, run, [12, forever, [slow, hop]]]),
    timer:sleep(500),
    P = it:kprofd(T, Target, #{tiers => tiers(["{sampling, ", First, "}.\n"], ""), args => ["-interval", "1s"]}),
    it:armed(P),
    [begin
         timer:sleep(2000),
         it:write(T, "tiers1.conf", tiers("{sampling, all}.\n", "")),
         {ok, _} = it:control(P, "reload")
     end || First =/= "all"],
    Attached = shown_whole(P),
    {ok, _} = it:control(P, "pause"),
    timer:sleep(500),
    {ok, _} = it:control(P, "resume"),
    Resumed = shown_whole(P),
    it:do(Target, fun ?MODULE:grow_old/0),
    Old = shown_whole(P),
    ok = it:call(Target, it_pool, halt, []),
    it:terminate(P),
    {note, io_lib:format("of ~b, ~b and ~b requests", [Attached, Resumed, Old])}.

%% In the target: all tokens are 63 s older at once, as those are that go from hand to hand
%% in a pool for a minute.
grow_old() ->
    Word = erlang:system_info(trace_control_word),
    Aged = (Word band 16#7FFFFFFF + 63 bsl 19) band 16#7FFFFFFF,
    _ = erlang:system_flag(trace_control_word, Aged bor 16#80000000),
    receive after 10 -> ok end,
    %% A call of an entry may have had the number, and put its next one back.
    case (erlang:system_info(trace_control_word) - Aged) band 16#7FFFFFFF < 1 bsl 24 of
        true -> ok;
        false -> grow_old()
    end.

%% Some seconds from now on all that a request calls is seen. Returns how many requests there were.
shown_whole(P) ->
    timer:sleep(3000),
    From = erlang:system_time(nanosecond),
    Tail = [" join time_window w on w.id = window_id where start_ns > ", integer_to_list(From)],
    it:until("windows", fun() -> it:number(P, ["select count(distinct w.id) from stat", Tail]) >= 3 end),
    Found = [{list_to_atom(binary_to_list(Type)), list_to_atom(binary_to_list(Tier)), binary_to_integer(N)}
             || [Type, Tier, N] <- it:sql(P, ["select i.name, t.name, sum(calls) from stat join identity i on i.id = identity_id"
                                              " join tier t on t.id = tier_id", Tail, " and t.name <> '_total' and i.name <> '_total'"
                                              " group by 1, 2"])],
    Requests = maps:from_list([{Type, N} || {Type, request, N} <- Found]),
    Apart = [{Type, Tier, N, Due}
             || Type <- [slow, hop], {Tier, Each} <- maps:to_list(it_pool:per_request(Type)),
                Due <- [Each * maps:get(Type, Requests)],
                N <- [lists:sum([Calls || {Ty, Ti, Calls} <- Found, Ty =:= Type, Ti =:= Tier])],
                abs(N - Due) * 200 > Due],
    it:equal("calls that are apart from what requests make", [], Apart),
    lists:sum(maps:values(Requests)).

%% What it does for a client, when another one leaves, looks like that one's: that much
%% is counted as lost.
gate(T) ->
    {P, Truth} = run(T, own, 12, 2, [gate], ""),
    Found = found(P),
    Lost = maps:get(crossed, it:losses(P), 0),
    same(P, Truth, Found#{{admit, gate} => maps:get({admit, gate}, Found, 0) + Lost}),
    it:check(Lost > 0, "something is lost"),
    {0, Json, _} = it_kprof:kprof(T, ["report", "-json", "-db", it:db(P)]),
    {match, Missing} = re:run(Json, "\"missing\":\\[([^]]*)\\]", [{capture, all_but_first, list}]),
    it:equal(Missing, match, re:run(Missing, ["^\\{\"tier\":\"admit\"[^{]*\"missed_calls\":", integer_to_list(Lost), "\\}$"],
                                    [{capture, none}])),
    {note, io_lib:format("~b of ~b lost", [Lost, maps:get({admit, gate}, Truth)])}.

%% Each type has its own calls, whatever the others do; only those of the state machine
%% may be lost. A client that it answered gets its own old token back now and then, of
%% which nothing says that it is not from then: one call in 3,000 is moved.
mixed(T) ->
    {P, Truth} = run(T, own, 24, 2, [gate | ?TYPES], [["{messages, true}.\n" || it:is_native()], "{stacks, [{per_second, 50}]}.\n"]),
    Found = found(P),
    Lost = maps:get(crossed, it:losses(P), 0),
    Apart = [abs(Calls - maps:get(Key, Found, 0)) || {Key, Calls} <- maps:to_list(Truth), Key =/= {admit, gate}],
    it:check(lists:sum(Apart) =< 4, "of ~0p there are ~0p", [Truth, Found]),
    it:check(maps:get({admit, gate}, Found, 0) + Lost >= maps:get({admit, gate}, Truth) - lists:sum(Apart) - 4,
             "of ~0p there are ~0p, and ~b lost", [Truth, Found, Lost]).

%% Each request sends two messages to its pool, one for each query to a worker, and one for
%% each fetch to the store, which answers the worker. What is missing is counted.
messages(T) ->
    Target = it:target(T, #{kind => plain}),
    P = start(T, Target, own, 2, "{messages, true}.\n", ["-probe", "native" | it:probe_library(T)]),
    it:saw(P, "messages of '.*' are timed$"),
    N = it:call(Target, it_pool, run, [12, 50, ?TYPES]),
    it:assembled(P, N),
    Counts = it:call(Target, it_pool, stop, []),
    it:terminate(P),
    Calls = fun(Tier, Type) -> maps:get({Tier, Type}, Counts, 0) end,
    Truth = [{Type, Receiver, Sent}
             || Type <- ?TYPES,
                {Receiver, Sent} <- [{it_pool_own, 2 * Calls(request, Type)}, {it_pool_store, Calls(fetch, Type)},
                                     {'it_pool:init/1', Calls(query, Type) + Calls(fetch, Type)}]],
    Found = [{Type, Receiver, it:number(P, ["select coalesce(sum(messages), 0) from message_stats where identity = '", atom_to_list(Type),
                                            "' and receiver = '", atom_to_list(Receiver), "'"])}
             || {Type, Receiver, _} <- Truth],
    Lost = lists:sum([L || {Cause, L} <- maps:to_list(it:losses(P)), lists:prefix("mail_", atom_to_list(Cause)) orelse Cause =:= unreceived]),
    Apart = lists:sum([abs(Sent - F) || {{_, _, Sent}, {_, _, F}} <- lists:zip(Truth, Found)]),
    it:check(Apart =< Lost andalso 20 * Lost < lists:sum([Sent || {_, _, Sent} <- Truth]),
             "messages ~0p, and there are ~0p; losses ~0p", [Truth, Found, it:losses(P)]),
    {note, io_lib:format("~b lost, ~b apart", [Lost, Apart])}.

%% The pool is on one node, and clients are on both. What is missing is counted.
nodes(T) ->
    Targets = [Pool, Other] = [it:target(T, #{kind => plain, name => Name, node => name(Name)}) || Name <- ["pool", "other"]],
    ok = it:call(Pool, it_pool, start, [own, 2]),
    ok = it:call(Other, it_pool, start, [own, 1]),
    ok = it:call(Other, it_pool, at, [it:call(Pool, erlang, node, [])]),
    P = it:kprofd(T, Targets, #{tiers => tiers("{sampling, all}.\n", ""), args => ["-interval", "1s"]}),
    it:until("both are armed", fun() -> it:times_armed(P) >= 2 end),
    Me = self(),
    Clients = [spawn_link(fun() -> Me ! {self(), it:call(Target, it_pool, run, [10, 30, ?TYPES])} end)
               || Target <- Targets],
    N = lists:sum([receive {Pid, Some} -> Some end || Pid <- Clients]),
    Written = "select coalesce(sum(requests), 0) from request_stats where identity = '_total'",
    it:until("all are written", fun() -> it:number(P, Written) >= N end),
    Counts = [it:call(Target, it_pool, stop, []) || Target <- [Other, Pool]],
    it:terminate(P),
    Truth = maps:fold(fun(Key, Calls, Sum) -> maps:update_with(Key, fun(S) -> S + Calls end, Calls, Sum) end,
                      hd(Counts), hd(tl(Counts))),
    Found = found(P),
    Losses = it:losses(P),
    Missing = [Calls - maps:get(Key, Found, 0) || {Key, Calls} <- maps:to_list(Truth)],
    Most = maps:get(crossed, Losses, 0),
    it:check(lists:sum([abs(M) || M <- Missing]) =< Most, "of ~0p there are ~0p; losses ~0p", [Truth, Found, Losses]).

%% Of this test alone: tests run at the same time.
name(Name) ->
    lists:concat(["pool_", Name, "_", os:getpid(), [D || D <- pid_to_list(self()), D >= $0, D =< $9], "@127.0.0.1"]).
