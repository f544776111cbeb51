%% rabbitmq.conf on Debian's RabbitMQ, with pika and amqp-tools as clients; and
%% cowboy.conf on its management pages.
-module(rabbitmq_tests).

-export([tests/0, server/1]).

-define(BIN, "/usr/lib/rabbitmq/bin/").
-define(ROUNDS, 150).
-define(FLOOD, 1000).
-define(CONFIRMED, 20).
%% What its command line clients do here, besides a connection and a channel each.
-define(TOOLS, #{<<"channel.open">> => 10, <<"channel.close">> => 10, <<"queue.declare">> => 1,
                 <<"basic.publish">> => 6, <<"basic.get">> => 1, <<"basic.qos">> => 1, <<"basic.consume">> => 1,
                 <<"basic.deliver">> => 5, <<"basic.ack">> => 5, <<"queue.delete">> => 1}).

tests() ->
    [{"methods and deliveries", 180, fun methods/1},
     {"a flood, sampled", 180, fun flood/1},
     {"the management pages, with cowboy.conf", 120, fun management/1}].

server(#{place := Place, root := Root, ebins := [Ours, Apps], n := N} = T) ->
    Node = lists:flatten(io_lib:format("apps_rabbit_~s_~b@localhost", [os:getpid(), N])),
    Dir = "/tmp/" ++ filename:basename(Place) ++ "/rabbit" ++ integer_to_list(N),
    ok = filelib:ensure_path(Root ++ Dir),
    write(Root, Dir ++ "/plugins", "[rabbitmq_management]."),
    [Amqp, Http, Dist] = Ports = [integer_to_list(it:free_port()) || _ <- [1, 2, 3]],
    3 = length(lists:usort(Ports)),
    write(Root, Dir ++ "/rabbitmq.conf",
          ["listeners.tcp.default = 127.0.0.1:", Amqp, "\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = ", Http,
           "\nmanagement.http_log_dir = ", Dir, "/http\ncollect_statistics_interval = 1000\n"]),
    Env = [{"RABBITMQ_ALLOW_INPUT", "1"}, {"RABBITMQ_NODENAME", Node},
           {"RABBITMQ_MNESIA_BASE", Dir}, {"RABBITMQ_LOG_BASE", Dir}, {"RABBITMQ_DIST_PORT", Dist},
           {"RABBITMQ_CONFIG_FILE", Dir ++ "/rabbitmq.conf"}, {"RABBITMQ_ENABLED_PLUGINS_FILE", Dir ++ "/plugins"},
           {"HOME", Dir}],
    Command = fun(Stub) ->
                      Args = ["-noinput", "-setcookie", it:cookie(), "-pa", Ours, "-pa", Apps | Stub],
                      apps:inside(T, [?BIN ++ "rabbitmq-server"],
                                  [{"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", lists:flatten(lists:join(" ", Args))} | Env])
              end,
    Server = it:server(T, "rabbit", Node, Command, []),
    apps:ready(Server, "RabbitMQ runs", {rabbit, is_running, []}),
    Server#{amqp => Amqp, http => Http, log => Dir ++ "/http"}.

write(Root, Path, Text) ->
    ok = file:write_file(Root ++ Path, Text).

methods(T) ->
    Server = server(T),
    {P, {Client, Counted}} =
        apps:profile(T, Server, "rabbitmq", "rabbitmq",
                     fun() ->
                             Before = counters(Server),
                             Client = client(T, Server, [integer_to_list(?ROUNDS)]),
                             ok = tools(T, Server),
                             {Client, minus(counters(Server), Before)}
                     end),
    Requests = apps:requests(P),
    it:equal("what was asked for", sum(Client, ?TOOLS), Requests),
    it:equal("what RabbitMQ counted", Counted, in_its_words(Requests, Client)),
    Calls = apps:calls(P),
    it:equal("messages handed on", maps:get(messages_routed_total, Counted), apps:kind(<<"hand_on">>, Calls)),
    it:equal("and routed", maps:get(messages_received_total, Counted), apps:kind(<<"route">>, Calls)),
    published(Server, 2 * maps:get(messages_received_total, Counted)),
    {note, io_lib:format("~b requests of ~b kinds; ~s",
                         [lists:sum(maps:values(Requests)), maps:size(Requests), apps:cost(P)])}.

%% rabbit_global_counters, from kprofd's counts; messages without a queue, got
%% and confirmed are known only to the client.
in_its_words(Requests, Client) ->
    Of = fun(Method) -> maps:get(Method, Requests) end,
    Empty = maps:get(<<"get_empty">>, Client),
    Unroutable = ?ROUNDS,
    #{messages_received_total => Of(<<"basic.publish">>),
      messages_received_confirm_total => ?CONFIRMED,
      messages_confirmed_total => ?CONFIRMED,
      messages_unroutable_dropped_total => Unroutable,
      messages_routed_total => Of(<<"basic.publish">>) - Unroutable,
      messages_delivered_total => Of(<<"basic.deliver">>) + Of(<<"basic.get">>) - Empty,
      messages_delivered_consume_manual_ack_total => Of(<<"basic.deliver">>),
      messages_delivered_get_manual_ack_total => Of(<<"basic.get">>) - Empty - 1,
      messages_delivered_get_auto_ack_total => 1,      % of amqp-get
      messages_get_empty_total => Empty,
      messages_acknowledged_total => Of(<<"basic.ack">>),
      messages_dead_lettered_rejected_total => Of(<<"basic.reject">>)}.

%% The same by the management's own account, which is some seconds late; over
%% both times that the work was done.
published(#{http := Port}, Want) ->
    Url = "http://127.0.0.1:" ++ Port ++ "/api/overview",
    {ok, _} = application:ensure_all_started(inets),
    Auth = "Basic " ++ base64:encode_to_string("guest:guest"),
    it:until(["the management says ", integer_to_list(Want), " published"],
             fun() ->
                     {ok, {{_, 200, _}, _, Body}} = httpc:request(get, {Url, [{"authorization", Auth}]}, [], []),
                     re:run(Body, "\"publish\":" ++ integer_to_list(Want) ++ "[,}]") =/= nomatch
             end).

%% More than is sampled, four clients as fast as they can: nothing is lost from
%% the balance, and the broker keeps its memory.
flood(T) ->
    Server = server(T),
    {P, {Client, Counted}} =
        apps:profile(T, Server, {"rabbitmq", fun apps:thinned/1}, "rabbitmq-flood",
                     fun() ->
                             Before = counters(Server),
                             Client = client(T, Server, [integer_to_list(?FLOOD), "flood"]),
                             {Client, minus(counters(Server), Before)}
                     end),
    Sum = lists:sum(maps:values(maps:remove(<<"get_empty">>, Client))),
    it:equal("published", maps:get(<<"basic.publish">>, Client), maps:get(messages_received_total, Counted)),
    it:equal("methods and deliveries", Sum, it:balance(P)),
    {note, io_lib:format("~b requests, ~b of them traced; ~s",
                         [Sum, it:number(P, "select sum(sampled) from time_window"), apps:cost(P)])}.

%% Requests as RabbitMQ's access log has them.
management(#{root := Root} = T) ->
    #{http := Port, log := Log} = Server = server(T),
    Url = "http://127.0.0.1:" ++ Port,
    Get = fun(Path) -> _ = apps:run(T, "curl", ["curl", "-sS", "-u", "guest:guest", "-o", "/dev/null", Url ++ Path], []) end,
    Logged = fun() -> logged(filelib:wildcard(Root ++ Log ++ "/*")) end,
    {P, Truth} =
        apps:profile(T, Server, "cowboy", "cowboy-management",
                     fun() ->
                             Before = Logged(),
                             [Get(Path) || Path <- ["/api/overview?[1-5]", "/api/nodes", "/api/queues/%2F/[1-9]",
                                                    "/js/main.js", "/", "/nowhere", "/api/queues/%2F/apps"]],
                             it:until("the log has all", fun() -> N = minus(Logged(), Before),
                                                                  lists:sum(maps:values(N)) =:= 19 andalso N end)
                     end),
    it:equal("requests", Truth, apps:requests(P)),
    {note, io_lib:format("~b requests", [lists:sum(maps:values(Truth))])}.

%% #{<<"GET /api/overview">> => N}, from lines of the common log format.
logged(Files) ->
    Lines = [L || F <- Files, {ok, Text} <- [file:read_file(F)], L <- string:lexemes(Text, "\n")],
    lists:foldl(fun(L, Sums) ->
                        {match, [Line]} = re:run(L, "\"([A-Z]+ [^ ?\"]+)", [{capture, [1], binary}]),
                        Kind = named(Line),
                        Sums#{Kind => maps:get(Kind, Sums, 0) + 1}
                end, #{}, Lines).

named(<<"GET /api/queues/%2F/", N>>) when N >= $0, N =< $9 -> <<"GET /api/queues/%2F/:id">>;
named(<<"GET /js/main.js">>) -> <<"GET /js/*.asset">>;
named(Line) -> Line.

%% #{<<"basic.publish">> => N}
client(#{place := Place, root := Root} = T, #{amqp := Port}, Args) ->
    Script = "/tmp/" ++ filename:basename(Place) ++ "/amqp_client.py",
    {ok, _} = file:copy("test/apps/amqp_client.py", Root ++ Script),
    maps:from_list([{Name, binary_to_integer(N)}
                    || Word <- string:lexemes(apps:run(T, "client", ["python3", Script, Port | Args], []), " \n"),
                       [Name, N] <- [string:split(Word, "=")]]).

%% The command line clients, each of which is a connection and a channel.
tools(T, #{amqp := Port}) ->
    Url = "--url=amqp://127.0.0.1:" ++ Port,
    Run = fun(Args) -> apps:run(T, "amqp", Args, []) end,
    _ = Run(["amqp-declare-queue", Url, "-q", "apps.tools"]),
    [Run(["amqp-publish", Url, "-r", "apps.tools", "-b", "hello"]) || _ <- lists:seq(1, 6)],
    <<"hello">> = Run(["amqp-get", Url, "-q", "apps.tools"]),
    _ = Run(["amqp-consume", Url, "-q", "apps.tools", "-c", "5", "cat"]),
    _ = Run(["amqp-delete-queue", Url, "-q", "apps.tools"]),
    ok.

counters(Server) ->
    maps:fold(fun(_, Counters, Sum) -> maps:merge_with(fun(_, A, B) -> A + B end, Counters, Sum) end, #{},
              it:call(Server, rabbit_global_counters, overview, [])).

%% What grew; numbers of publishers and consumers go up and down.
minus(A, B) ->
    maps:filter(fun(_, N) -> N =/= 0 end,
                maps:map(fun(K, N) -> N - maps:get(K, B, 0) end, maps:without([publishers, consumers], A))).

%% Of requests only: what the client got is no method.
sum(Client, More) ->
    maps:fold(fun(K, N, Sum) -> Sum#{K => N + maps:get(K, Sum, 0)} end, More, maps:remove(<<"get_empty">>, Client)).
