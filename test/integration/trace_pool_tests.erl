%% kprof trace and count by request where requests meet (it_pool). A client that waited for a
%% worker of a pool was answered with the token of the request that gave one back: its calls
%% counted for that one, and of 20 requests 4 ended.
-module(trace_pool_tests).

-export([tests/0]).

-import(it_kprof, [ends/1, start/4]).

-define(ENTRY, ["-entry", "it_pool:request/1"]).
-define(CLIENTS, 12).

tests() ->
    [{"requests that wait for a pool: " ++ Title, 120, fun(T) -> Fun(T, Kind) end}
     || {Title, Kind, Fun} <- [{"all calls are theirs", own, fun whole/2},
                               {"all calls are theirs, poolboy", poolboy, fun whole/2},
                               {"the way of each", own, fun ways/2},
                               {"those of a type", own, fun types/2},
                               {"those of a type, poolboy", poolboy, fun types/2},
                               {"under load from before", own, fun saturated/2},
                               {"those of a kprofd", own, fun attached/2}]].

%% Twenty of many that all do the same.
whole(T, Kind) ->
    pooled(T, Kind, fun(Target) ->
                            {Status, Out, Errors} = counted(T, Target, [hop], ["-requests", "20" | ?ENTRY]),
                            it:equal(["calls: ", Errors], times(20, it_pool:per_request(hop)), called(Out)),
                            it:equal("status", 0, Status)
                    end).

%% Every request has its client, the pool, a worker and the store, with the messages that these
%% were sent for it.
ways(T, Kind) ->
    pooled(T, Kind, fun(Target) ->
                            P = start(T, Target, "trace", ["-form", "requests", "-requests", "20", "it_pool" | ?ENTRY]),
                            {Status, Out, Errors} = loaded(Target, [hop], fun() -> ends(P) end),
                            it:equal(["requests: ", Errors], {0, 20}, {Status, length(requests(Out))}),
                            [it:equal(["messages of a request in ", R], [2, 2, 3, 4], messages(R)) || R <- requests(Out)]
                    end).

requests(Out) ->
    tl(re:split(Out, "^request ", [multiline, {return, list}])).

%% Of each process, before the critical path.
messages(Request) ->
    {match, Ns} = re:run(hd(string:split(Request, "  critical path")), "^( +[0-9]+\\.[0-9]+){4} +([0-9]+)  ",
                         [multiline, global, {capture, [2], list}]),
    lists:sort([list_to_integer(N) || [N] <- Ns]).

%% The other types wait for the same workers.
types(T, Kind) ->
    Conf = it:write(T, "pool.conf", tiers()),
    pooled(T, Kind, fun(Target) ->
                            [begin
                                 Args = ["-requests", "40", "-tiers", Conf, "-identity", atom_to_list(Type)],
                                 {Status, Out, Errors} = counted(T, Target, [fast, slow, hop], Args),
                                 it:equal(["calls of ", atom_to_list(Type), ": ", Errors],
                                          times(40, it_pool:per_request(Type)), called(Out)),
                                 it:equal("status", 0, Status)
                             end || Type <- [slow, hop, fast]]
                    end).

%% Whoever began before has no token, and an answer takes that away, from one to the next as long
%% as all workers are taken. Such requests are counted, and no call is another request's. That its
%% token was lost shows when a client calls the entry again: they go on.
saturated(T, Kind) ->
    pooled(T, Kind,
           fun(Target) ->
                   {Status, Out, Errors} =
                       loaded(Target, [hop], infinity,
                              fun() ->
                                      receive after 500 -> ok end,
                                      ends(start(T, Target, "count", ["-csv", "-requests", "20", "it_pool" | ?ENTRY]))
                              end),
                   Most = times(20, it_pool:per_request(hop)),
                   Called = called(Out),
                   it:check([F || {F, N} <- maps:to_list(Called), N > map_get(F, Most)] =:= [], "of ~0p: ~ts", [Called, Errors]),
                   it:equal(["what is said, of ", io_lib:format("~0p", [Called])],
                            case 20 - maps:get(render, Called, 0) of
                                0 -> {0, nomatch};
                                1 -> {1, ["1 request may lack calls"]};
                                N -> {1, [integer_to_list(N) ++ " requests may lack calls"]}
                            end,
                            {Status, case re:run(Errors, "[0-9]+ requests? may lack calls", [{capture, first, list}]) of
                                         {match, Said} -> Said;
                                         nomatch -> nomatch
                                     end})
           end).

tiers() ->
    ["{tiers, [{query, {it_pool, query, 2}}, {fetch, {it_pool, fetch, 1}}, {render, {it_pool, render, 1}}]}.\n"
     "{entry, {it_pool, request, 1}}.\n"
     "{identity, fun({it_pool, request, [K]}) when is_atom(K) -> K end}.\n"
     "{sampling, all}.\n{budget, none}.\n", it:calm()].

%% Its tokens are seen, and no message. What the clients that go on are in the middle of is not
%% known; all else belongs to some request.
attached(T, Kind) ->
    Target = it:target(T, #{kind => plain}),
    case it:otp(Target) >= 27 of
        true -> attached(T, Kind, Target);
        false -> {skipped, "-attached is for OTP 27 on"}
    end.

attached(T, Kind, Target) ->
    {module, it_pool} = it:call(Target, code, ensure_loaded, [it_pool]),
    ok = it:call(Target, it_pool, start, [Kind, 2]),
    Conf = it:write(T, "pool.conf", tiers()),
    D = it:kprofd(T, Target, #{tiers => {file, Conf}}),
    it:armed(D),
    P = start(T, Target, "count", ["-csv", "-attached", "-tiers", Conf, "-identity", "hop", "it_pool"]),
    480 = it:call(Target, it_pool, run, [?CLIENTS, 40, [fast, slow, hop]]),
    receive after 1000 -> ok end,
    {0, Out, _} = it_kprof:interrupt(P),
    %% The work of a sender that has begun another request meanwhile counts for that one
    %% (priv/doc/functions.md): 1 to 3 of 320 queries.
    Found = called(Out),
    Due = times(160, it_pool:per_request(hop)),
    it:equal("functions", lists:sort(maps:keys(Due)), lists:sort(maps:keys(Found))),
    it:check(lists:all(fun({F, N}) -> abs(maps:get(F, Found) - N) * 20 =< N end, maps:to_list(Due)), "of ~0p there are ~0p", [Due, Found]),
    it:terminate(D).

%% ------------------------------------------------------------- helpers ----

pooled(T, Kind, Fun) ->
    {Target, Mark} = it_audit:begins(T),
    {module, it_pool} = it:call(Target, code, ensure_loaded, [it_pool]),
    case Kind =:= own orelse it:call(Target, code, ensure_loaded, [poolboy]) of
        {error, Why} -> {skipped, io_lib:format("the target cannot load poolboy: ~0tp", [Why])};
        _ ->
            ok = it:call(Target, it_pool, start, [Kind, 2]),
            Fun(Target),
            _ = it:call(Target, it_pool, stop, []),
            it_audit:ends(Target, Mark)
    end.

counted(T, Target, Types, Args) ->
    P = start(T, Target, "count", ["-csv", "it_pool" | Args]),
    loaded(Target, Types, fun() -> ends(P) end).

%% While clients make requests of these types, each so many.
loaded(Target, Types, Fun) ->
    loaded(Target, Types, 20, Fun).

loaded(Target, Types, Each, Fun) ->
    Load = it:do(Target, fun() ->
                                 spawn(fun Loop() ->
                                               _ = it_pool:run(?CLIENTS, Each, Types),
                                               receive stop -> ok after 0 -> Loop() end
                                       end)
                         end),
    Result = Fun(),
    it:do(Target, fun() ->
                          Ref = erlang:monitor(process, Load),
                          Load ! stop,
                          Each =:= infinity andalso it_pool:halt(),
                          receive {'DOWN', Ref, process, _, _} -> ok end
                  end),
    Result.

times(N, Calls) -> maps:map(fun(_, C) -> N * C end, Calls).

%% {Function => Calls} of those that are counted.
called(Csv) ->
    maps:from_list([{F, Calls} || {"it_pool:" ++ Name, Calls, _} <- it_csv:rows(Csv),
                                  F <- [list_to_atom(hd(string:lexemes(Name, "/")))],
                                  lists:member(F, [request, checkout, query, fetch, admit, render])]).
