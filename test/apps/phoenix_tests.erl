%% phoenix.conf, not on Phoenix, which Debian does not have, but on modules that
%% are called and call alike (test/apps/phoenix), with Debian's Elixir.
-module(phoenix_tests).

-export([tests/0]).

-define(CLIENTS, 4).
-define(REQUESTS, 150).

tests() ->
    [{"requests by method and route", 90, fun requests/1},
     {"requests by controller and action", 90, fun actions/1},
     {"a proposal is this file and the application's own tiers", 90, fun proposed/1}].

server(#{place := Place, root := Root, ebins := Ebins, n := N} = T) ->
    Node = lists:flatten(io_lib:format("apps_phoenix_~s_~b@127.0.0.1", [os:getpid(), N])),
    Dir = "/tmp/" ++ filename:basename(Place) ++ "/phoenix",
    ok = filelib:ensure_path(Root ++ Dir),
    Sources = [begin
                   To = filename:join(Dir, filename:basename(F)),
                   {ok, _} = file:copy(F, Root ++ To),
                   To
               end || F <- ["test/apps/phoenix/standin.ex", "test/apps/phoenix/app.ex"]],
    _ = apps:run(T, "elixirc", ["elixirc", "-o", Dir | Sources], [{"ERL_EPMD_PORT", "1"}, {"LC_ALL", "C.UTF-8"}]),
    Command = fun(Stub) ->
                      apps:inside(T, ["erl", "-noinput", "-name", Node, "-setcookie", it:cookie(), "-pa" | Ebins] ++
                                      [Dir, "/usr/lib/elixir/lib/elixir/ebin" | Stub], [])
              end,
    Server = it:server(T, "phoenix", Node, Command, []),
    {ok, _} = it:call(Server, application, ensure_all_started, [elixir]),
    true = it:call(Server, 'Elixir.MyApp', start, []),
    Server.

requests(T) ->
    Server = server(T),
    {P, Truth} = apps:profile(T, Server, "phoenix", "phoenix",
                              fun() -> it:call(Server, 'Elixir.MyApp', work, [?CLIENTS, ?REQUESTS]) end),
    {ByQuery, Routes} = queries(Truth),
    Queries = lists:sum(maps:values(ByQuery)),
    it:equal("requests", Routes, apps:requests(P)),
    it:equal("queries by label", ByQuery,
             maps:from_list([{Label, apps:kind(Tier, apps:calls(P))}
                             || <<"ecto: ", Label/binary>> = Tier <- maps:keys(apps:calls(P))])),
    Calls = apps:calls(P),
    it:equal("pools by label", #{<<"pool: MyApp.Repo pool of 4">> => Queries},
             maps:from_list([{Pool, apps:kind(Pool, Calls)} || <<"pool: ", _/binary>> = Pool <- maps:keys(Calls)])),
    %% Of the others it is not known.
    Jobs = maps:get(<<"job MyApp.Mailer">>, Routes) div 2,
    it:equal("their time in queue", [[<<"job MyApp.Mailer">>, Jobs, 3499500000 * Jobs]],
             [[Type, binary_to_integer(N), binary_to_integer(Ns)]
              || [Type, N, Ns] <- it:sql(P, "select i.name, sum(m.messages), sum(m.wait_ns) from message_stat m"
                                         " join identity i on i.id = m.identity_id join receiver r on r.id ="
                                         " m.receiver_id where r.name = '_queue' group by i.name")]),
    it:equal("raised", maps:get(<<"GET /fail">>, Routes),
             it:number(P, "select sum(raised) from tier_stats where tier = 'router' and identity = 'GET /fail'")),
    [it:equal(["calls of ", Tier], Queries, apps:kind(Tier, Calls)) || Tier <- [<<"ecto">>, <<"db">>, <<"pool">>]],
    it:equal("after the end", 0, lists:sum([Async || {_, Async} <- maps:values(Calls)])),
    {note, io_lib:format("~b requests, ~b queries; ~s",
                         [lists:sum(maps:values(Routes)), Queries, apps:cost(P)])}.

queries(Truth) ->
    {maps:from_list([{Query, N} || {{query, Query}, N} <- maps:to_list(Truth)]),
     maps:filter(fun(K, _) -> is_binary(K) end, Truth)}.

%% The other clause, which the example has in a comment, in place of its first.
actions(T) ->
    Server = server(T),
    {P, Truth} = apps:profile(T, Server, {"phoenix", fun by_action/1}, "phoenix-actions",
                              fun() -> it:call(Server, 'Elixir.MyApp', work, [?CLIENTS, ?REQUESTS]) end),
    %% It is for 1.7 and later: every other request is of that form.
    Controller = fun(<<"MyAppWeb.UserController ", _/binary>>, _) -> true; (_, _) -> false end,
    Requests = maps:filter(Controller, apps:requests(P)),
    {_, Routes} = queries(Truth),
    Http = maps:filter(fun(Route, _) -> re:run(Route, "^[A-Z]+ ") =/= nomatch end, Routes),
    it:equal("names", [<<"MyAppWeb.UserController ", A/binary>>
                       || A <- [<<"create">>, <<"fail">>, <<"index">>, <<"show">>, <<"update">>]],
             lists:sort(maps:keys(Requests))),
    it:equal("requests", lists:sum(maps:values(Http)), 2 * lists:sum(maps:values(Requests))).

%% What is proposed has all that phoenix.conf names, and tiers of the application's
%% modules.
proposed(#{build := Build} = T) ->
    #{node := Node} = Server = server(T),
    true = it:call(Server, 'Elixir.MyApp', load, [?CLIENTS]),
    S = it:start(T, "suggest", [filename:join(Build, "kprof"), "suggest", "-target", Node, "-for", "3s",
                                "-cookie-file", maps:get(cookie, T)], []),
    it:equal(["kprof suggest: ", it:errors(S)], 0, it:exited(S)),
    it_kprof:says(it:output(S), "sed\n%% s/MyAppWeb/MyAppWeb/ phoenix_endpoint.conf, or phoenix_status.conf\\."),
    P = it:kprofd(T, Server, #{tiers => {file, it:write(T, "proposed.conf", it:output(S))},
                               args => ["-interval", "2s", "-duration", "5s"]}),
    it:ended(P, 0),
    Names = lists:append(it:sql(P, "select distinct identity from tier_stats where identity not in ('_total', 'undefined')")),
    it:equal("names of requests",
             [<<"GET /fail">>, <<"GET /users">>, <<"GET /users/:id">>, <<"PATCH /users/:id">>, <<"POST /users">>],
             lists:sort(Names)),
    Tiers = lists:append(it:sql(P, "select distinct tier from tier_stats where calls > 0")),
    it:equal("tiers of the file", [], [<<"router">>, <<"ecto">>, <<"pool">>, <<"db">>, <<"send">>] -- Tiers),
    it:check(lists:member(<<"repo">>, Tiers), "the repo, which controllers call, has a tier: ~p", [Tiers]).

by_action(Text) ->
    apps:edit(Text, [{"    \\({'Elixir.Phoenix.Router', '__call__', \\[#.*\n.*\n", ""},
                     {"    \\({'Elixir.Phoenix.Router', '__call__', \\[#.*\n.*\n", ""},
                     {"    \\({'Elixir.Phoenix.Router', '__call__', \\[#.*\n.*\n", ""},
                     {"%% (\\({'Elixir.Phoenix.Router')", "\\1"},
                     {"%% (    when is_atom\\(C\\))", "\\1"}]).
