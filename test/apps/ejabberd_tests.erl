%% ejabberd.conf on Debian's ejabberd, with slixmpp as the client.
-module(ejabberd_tests).

-export([tests/0]).

-define(HOST, "localhost").
-define(ROUNDS, 100).

tests() ->
    [{"stanzas", 180, fun stanzas/1}].

server(#{place := Place, root := Root, ebins := [Ours, Apps], n := N} = T) ->
    Node = lists:flatten(io_lib:format("apps_ejabberd_~s_~b@127.0.0.1", [os:getpid(), N])),
    Dir = "/tmp/" ++ filename:basename(Place) ++ "/ejabberd" ++ integer_to_list(N),
    ok = filelib:ensure_path(Root ++ Dir),
    Port = integer_to_list(it:free_port()),
    ok = file:write_file(Root ++ Dir ++ "/ejabberd.yml", config(Port, Dir)),
    [Libs | _] = [filename:dirname(D) || D <- filelib:wildcard(Root ++ "/usr/lib/*/ejabberd-[0-9]*")],
    Env = [{"EJABBERD_CONFIG_PATH", Dir ++ "/ejabberd.yml"}, {"EJABBERD_LOG_PATH", Dir ++ "/ejabberd.log"},
           {"ERL_LIBS", lists:nthtail(length(Root), Libs)}],
    Command = fun(Stub) ->
                      apps:inside(T, ["erl", "-noinput", "-name", Node, "-setcookie", it:cookie(), "-pa", Ours, Apps,
                                      "-mnesia", "dir", "\"" ++ Dir ++ "/mnesia\""] ++ Stub ++ ["-s", "ejabberd"], Env)
              end,
    Server = it:server(T, "ejabberd", Node, Command, []),
    apps:ready(Server, "ejabberd runs", {apps_probe, runs, [ejabberd]}),
    [ok = it:call(Server, ejabberd_auth, try_register, [User, <<?HOST>>, <<"secret">>])
     || User <- [<<"ann">>, <<"bob">>, <<"cyd">>]],
    ok = it:call(Server, apps_stanzas, start, [<<?HOST>>]),
    Server#{xmpp => Port}.

config(Port, _Dir) ->
    ["hosts: [", ?HOST, "]\nloglevel: warning\nauth_method: internal\n"
     "listen:\n  - port: ", Port, "\n    ip: 127.0.0.1\n    module: ejabberd_c2s\n"
     "modules:\n"
     "  mod_blocking: {}\n  mod_carboncopy: {}\n  mod_disco: {}\n"
     "  mod_mam:\n    default: always\n"
     "  mod_muc:\n    default_room_options:\n      persistent: true\n"
     "  mod_offline: {}\n  mod_ping: {}\n  mod_privacy: {}\n  mod_roster: {}\n"
     "  mod_stats: {}\n  mod_vcard: {}\n"].

stanzas(#{place := Place, root := Root} = T) ->
    Server = server(T),
    Script = "/tmp/" ++ filename:basename(Place) ++ "/xmpp_client.py",
    {ok, _} = file:copy("test/apps/xmpp_client.py", Root ++ Script),
    {P, {Client, Server1, Rows}} =
        apps:profile(T, Server, "ejabberd",
                     fun() ->
                             true = it:call(Server, apps_stanzas, reset, []),
                             Before = rows(Server),
                             Sent = client(T, Server, Script),
                             {Sent, it:call(Server, apps_stanzas, counts, []), rows(Server) - Before}
                     end),
    io:format("~p~n~p~n~p~n~p~n~p~n", [Client, Server1, Rows, apps:requests(P), apps:calls(P)]),
    {note, io_lib:format("~.1f events a request", [apps:per_request(P)])}.

rows(Server) ->
    it:call(Server, mnesia, table_info, [archive_msg, size]).

%% #{<<"iq get urn:xmpp:ping">> => N}
client(T, #{xmpp := Port}, Script) ->
    maps:from_list([{Kind, binary_to_integer(N)}
                    || Line <- string:lexemes(apps:run(T, "client", ["python3", Script, ?HOST, Port,
                                                                     integer_to_list(?ROUNDS)], []), "\n"),
                       [N, Kind] <- [string:split(Line, " ")]]).
