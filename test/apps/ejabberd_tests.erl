%% ejabberd.conf on Debian's ejabberd, with slixmpp as the client.
-module(ejabberd_tests).

-export([tests/0, server/2]).

-define(HOST, "localhost").
-define(ROUNDS, 100).

tests() ->
    [{"stanzas, with Mnesia", 120, fun(T) -> stanzas(T, mnesia) end},
     {"stanzas, with SQL", 120, fun(T) -> stanzas(T, sql) end}].

server(#{place := Place, root := Root, ebins := [Ours, Apps], n := N} = T, Db) ->
    %% A short name of this form is Debian's default.
    Node = lists:flatten(io_lib:format("apps_ejabberd_~s_~b@localhost", [os:getpid(), N])),
    Dir = "/tmp/" ++ filename:basename(Place) ++ "/ejabberd" ++ integer_to_list(N),
    ok = filelib:ensure_path(Root ++ Dir),
    Port = integer_to_list(it:free_port()),
    ok = file:write_file(Root ++ Dir ++ "/ejabberd.yml", [config(Port), database(Db, Dir)]),
    Db =:= sql andalso
        (it:equal("the schema", "", os:cmd("sqlite3 " ++ Root ++ Dir ++ "/ejabberd.db <" ++
                                               Root ++ "/usr/share/ejabberd/sql/lite.sql"))),
    [Libs | _] = [filename:dirname(D) || D <- filelib:wildcard(Root ++ "/usr/lib/*/ejabberd-[0-9]*")],
    Env = [{"EJABBERD_CONFIG_PATH", Dir ++ "/ejabberd.yml"}, {"EJABBERD_LOG_PATH", Dir ++ "/ejabberd.log"},
           {"ERL_LIBS", lists:nthtail(length(Root), Libs)}],
    Command = fun(Stub) ->
                      apps:inside(T, ["erl", "-noinput", "-sname", Node, "-setcookie", it:cookie(), "-pa", Ours, Apps,
                                      "-mnesia", "dir", "\"" ++ Dir ++ "/mnesia\""] ++ Stub ++ ["-s", "ejabberd"], Env)
              end,
    Server = it:server(T, "ejabberd", Node, Command, []),
    apps:ready(Server, "ejabberd runs", {apps_probe, runs, [ejabberd]}),
    [ok = it:call(Server, ejabberd_auth, try_register, [User, <<?HOST>>, <<"secret">>])
     || User <- [<<"ann">>, <<"bob">>, <<"cyd">>]],
    ok = it:call(Server, apps_stanzas, start, [<<?HOST>>]),
    Server#{xmpp => Port, db => Db}.

config(Port) ->
    ["hosts: [", ?HOST, "]\nloglevel: warning\nauth_method: internal\n"
     "listen:\n  - port: ", Port, "\n    ip: 127.0.0.1\n    module: ejabberd_c2s\n"
     "modules:\n"
     "  mod_blocking: {}\n  mod_carboncopy: {}\n  mod_disco: {}\n"
     "  mod_mam:\n    default: always\n"
     "  mod_muc:\n    default_room_options:\n      persistent: true\n"
     "  mod_offline: {}\n  mod_ping: {}\n  mod_privacy: {}\n  mod_roster: {}\n"
     "  mod_stats: {}\n  mod_vcard: {}\n"].

database(mnesia, _) -> "";
database(sql, Dir) -> ["default_db: sql\nsql_type: sqlite\nsql_database: ", Dir, "/ejabberd.db\n"].

stanzas(T, Db) ->
    Server = server(T, Db),
    {P, {Sent, Hook, Archived, Offline}} =
        apps:profile(T, Server, "ejabberd", "ejabberd-" ++ atom_to_list(Db),
                     fun() ->
                             true = it:call(Server, apps_stanzas, reset, []),
                             {Archived, Offline} = stored(Server),
                             Sent = client(T, Server),
                             {Archived1, Offline1} = stored(Server),
                             {Sent, it:call(Server, apps_stanzas, counts, []),
                              Archived1 - Archived, Offline1 - Offline}
                     end),
    {Room, Client} = maps:take(<<"room">>, Sent),
    Requests = apps:requests(P),
    it:equal("what the client sent", Client, Requests),
    it:equal("what ejabberd's hook saw", Hook, kinds(Requests)),
    Calls = apps:calls(P),
    it:check(Archived > ?ROUNDS, "~b messages archived", [Archived]),
    it:equal("archived messages, and queries", Archived + maps:get(<<"iq set urn:xmpp:mam:2">>, Requests),
             apps:kind(<<"archive">>, Calls)),
    it:check(Offline > 0, "~b messages kept for who is offline", [Offline]),
    it:equal("messages kept", Offline, apps:kind(<<"offline">>, Calls)),
    %% That a user is unavailable ejabberd passes on to the room by itself.
    it:equal("stanzas for the room", Room + maps:get(<<"presence unavailable">>, Requests),
             apps:kind(<<"room">>, Calls)),
    it:equal("SQL is used", Db =:= sql, apps:kind(<<"sql">>, Calls) > Archived),
    {note, io_lib:format("~b stanzas of ~b kinds; ~s",
                         [lists:sum(maps:values(Requests)), maps:size(Requests), apps:cost(P)])}.

%% #{{iq, get} => N}
kinds(Requests) ->
    maps:fold(fun(Name, N, Kinds) ->
                      [Kind, Type | _] = string:lexemes(Name, " "),
                      Key = {binary_to_atom(Kind), binary_to_atom(Type)},
                      Kinds#{Key => N + maps:get(Key, Kinds, 0)}
              end, #{}, Requests).

%% How many messages are in ejabberd's tables: archived, and kept for cyd.
stored(#{db := mnesia} = Server) ->
    {it:call(Server, mnesia, table_info, [archive_msg, size]), it:call(Server, mnesia, table_info, [offline_msg, size])};
stored(#{db := sql} = Server) ->
    {rows(Server, <<"archive">>), rows(Server, <<"spool">>)}.

rows(Server, Table) ->
    {selected, _, [[N]]} = it:call(Server, ejabberd_sql, sql_query,
                                   [<<?HOST>>, [<<"select count(*) from ">>, Table, <<";">>]]),
    binary_to_integer(N).

%% #{<<"iq get urn:xmpp:ping">> => N}
client(#{place := Place, root := Root} = T, #{xmpp := Port}) ->
    Script = "/tmp/" ++ filename:basename(Place) ++ "/xmpp_client.py",
    {ok, _} = file:copy("test/apps/xmpp_client.py", Root ++ Script),
    Output = apps:run(T, "client", ["python3", Script, ?HOST, Port, integer_to_list(?ROUNDS)], []),
    maps:from_list([{Kind, binary_to_integer(N)}
                    || Line <- string:lexemes(Output, "\n"), [N, Kind] <- [string:split(Line, " ")]]).
