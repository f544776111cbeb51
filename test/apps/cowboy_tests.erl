%% cowboy.conf on the cowboy that Debian ships within RabbitMQ.
-module(cowboy_tests).

-export([tests/0]).

-define(HANG_UPS, 3).

tests() ->
    [{"requests by method and path", 90, fun requests/1},
     {"requests by method and handler", 90, fun handlers/1},
     {"clients that hang up", 90, fun hang_up/1},
     {"full speed, sampled", 90, fun sampled/1}].

server(#{root := Root, ebins := Ebins, n := N} = T) ->
    Node = lists:flatten(io_lib:format("apps_web_~s_~b@127.0.0.1", [os:getpid(), N])),
    Libs = [Dir || Lib <- ["cowboy", "cowlib", "ranch"],
                   Dir <- filelib:wildcard(Root ++ "/usr/lib/rabbitmq/lib/*/plugins/" ++ Lib ++ "-[0-9]*/ebin")],
    it:equal("cowboy, cowlib and ranch", 3, length(Libs)),
    Command = fun(Stub) ->
                      apps:inside(T, ["erl", "-noinput", "-name", Node, "-setcookie", it:cookie(), "-pa" |
                                      Ebins ++ [lists:nthtail(length(Root), L) || L <- Libs]] ++
                                      Stub ++ ["-s", "apps_web", "start"], [])
              end,
    Server = it:server(T, "web", Node, Command, []),
    apps:ready(Server, "cowboy listens", {erlang, whereis, [ranch_server]}),
    Port = it:until("it has a port", fun() -> try it:call(Server, apps_web, port, []) catch throw:_ -> false end end),
    Server#{url => "http://127.0.0.1:" ++ integer_to_list(Port)}.

%% Everything that curl can ask for, by HTTP/1.1 and by HTTP/2, one after the
%% other, so that it is less than is sampled.
requests(T) ->
    Server = server(T),
    {P, Truth} = apps:profile(T, Server, "cowboy", "cowboy", fun() -> work(T, Server) end),
    Counts = apps:requests(P),
    it:equal("requests", Truth, Counts),
    Calls = apps:calls(P),
    Sum = lists:sum(maps:values(Truth)),
    it:equal("calls of the router", Sum, apps:kind(<<"router">>, Calls)),
    it:equal("crashes", maps:get(<<"GET /crash">>, Truth), raised(P, "GET /crash")),
    {note, io_lib:format("~b requests of ~b kinds; ~s", [Sum, maps:size(Truth), apps:cost(P)])}.

work(T, #{url := Url} = Server) ->
    true = it:call(Server, apps_web, reset, []),
    Body = "@/usr/share/common-licenses/GPL-3",
    Plain = [{[], "/?page=[1-20]", 20},
             {[], "/users/[1-100]", 100},
             {["-X", "DELETE"], "/users/[1-25]", 25},
             {["-X", "POST"], "/users/[1-5]", 5},
             {[], "/users/[1-10]/posts/[1000-1009]", 100},
             {[], "/orders/7d444840-9dc0-11d1-b245-5ffdce74fa[10-39]", 30},
             {[], "/stream?[1-20]", 20},
             {[], "/slow?[1-10]", 10},
             {[], "/crash?[1-7]", 7},
             {[], "/nowhere?[1-9]", 9},
             {[], "/assets/GPL-2?[1-10]", 10}],
    %% curl does not upgrade to HTTP/2 with a request that has a body.
    WithBody = [{["-X", "PUT", "-d", "{}"], "/users/[1-50]", 50},
                {["--data-binary", Body], "/upload?[1-20]", 20}],
    Sums = [begin
                _ = apps:run(T, "curl", ["curl", "-sS", "--rate", "400/s", "-o", "/dev/null", Http | Args] ++ [Url ++ Path], []),
                N
            end || {Http, Urls} <- [{"--http1.1", Plain ++ WithBody}, {"--http2", Plain}],
                   {Args, Path, N} <- Urls],
    %% No request, and none for kprofd.
    _ = apps:run(T, "garbage", ["sh", "-c", "printf 'no HTTP\\r\\n\\r\\n' | curl -s telnet://" ++
                                    lists:nthtail(length("http://"), Url)], []),
    %% The last one is counted when its connection's process has ended it.
    Sum = lists:sum(Sums),
    it:until("cowboy has counted all",
             fun() ->
                     Counts = it:call(Server, apps_web, counts, []),
                     lists:sum(maps:values(Counts)) =:= Sum andalso Counts
             end).

%% The other clause, which the example has in a comment, in place of its first.
handlers(T) ->
    Server = server(T),
    {P, Truth} = apps:profile(T, Server, {"cowboy", fun by_handler/1}, "cowboy-handlers", fun() -> work(T, Server) end),
    Static = maps:get(<<"GET /assets/GPL-2">>, Truth),
    Nowhere = maps:get(<<"GET /nowhere">>, Truth),
    Methods = maps:fold(fun(Name, N, Sums) ->
                                [Method, _] = binary:split(Name, <<" ">>),
                                Key = <<Method/binary, " apps_web">>,
                                Sums#{Key => N + maps:get(Key, Sums, 0)}
                        end, #{}, Truth),
    it:equal("requests",
             (maps:update_with(<<"GET apps_web">>, fun(N) -> N - Static - Nowhere end, Methods))
             #{<<"GET cowboy_static">> => Static, <<"undefined">> => Nowhere},
             apps:requests(P)).

by_handler(Text) ->
    apps:edit(Text, [{"    \\({cowboy_stream_h, request_process, .*\n.*\n", ""},
                     {"%% (\\({cowboy_handler)", "\\1"},
                     {"%% (    when is_binary\\(M\\), is_atom)", "\\1"}]).

%% Cowboy kills the handler of a client that has gone. On OTP 25 'exact' sees it;
%% on 27 and 29 the VM tells nothing, and such a request is in flight for ever.
hang_up(T) ->
    #{url := Url} = Server = server(T),
    Curl = fun(How, Path) -> ["curl -sS -o /dev/null ", How, " ", Url, Path, "; "] end,
    Script = lists:flatten([[Curl("", "/"), Curl("-m 2", "/long 2>/dev/null")] || _ <- lists:seq(1, ?HANG_UPS)] ++ ["true"]),
    {P, Truth} = apps:profile(T, Server, "cowboy", "cowboy-hang-up",
                              fun() ->
                                      true = it:call(Server, apps_web, reset, []),
                                      _ = apps:run(T, "curls", ["sh", "-c", Script], []),
                                      it:until("cowboy has counted all",
                                               fun() ->
                                                       Counts = it:call(Server, apps_web, counts, []),
                                                       lists:sum(maps:values(Counts)) =:= 2 * ?HANG_UPS andalso Counts
                                               end)
                              end),
    it:equal("requests", #{<<"GET /">> => ?HANG_UPS, <<"GET /long">> => ?HANG_UPS}, Truth),
    it:equal("entry calls", 2 * ?HANG_UPS, it:balance(P)),
    case it:otp(Server) of
        25 -> it:equal("raised, lost", {?HANG_UPS, #{}}, {raised(P, "GET /long"), it:lost(P)});
        _ -> it:equal("raised, lost", {0, #{disconnected => ?HANG_UPS}}, {raised(P, "GET /long"), it:lost(P)})
    end.

raised(P, Identity) ->
    it:number(P, ["select sum(raised) from tier_stats where tier = 'request' and identity = '", Identity, "'"]).

%% Faster than is sampled: the counts are estimates then, but of every request
%% it is known that it was there.
sampled(T) ->
    #{url := Url} = Server = server(T),
    {P, Sum} = apps:profile(T, Server, {"cowboy", fun apps:thinned/1}, "cowboy-wrk",
                              fun() ->
                                      true = it:call(Server, apps_web, reset, []),
                                      apps:run(T, "wrk", ["wrk", "-t", "1", "-c", "8", "-d", "5s", Url ++ "/users/1"], []),
                                      receive after 500 -> ok end,
                                      it:call(Server, apps_web, begun, [])
                              end),
    it:equal("requests", Sum, it:balance(P)),
    Sampled = it:number(P, "select sum(sampled) from time_window"),
    it:check(Sampled < Sum, "some were left out"),
    {note, io_lib:format("~b requests, ~b of them traced; ~s", [Sum, Sampled, apps:cost(P)])}.
