%% What `kprof suggest` proposes for real systems under load, of whose names and
%% ways it knows nothing (suggest_judge). The rules below were written before
%% there was a proposal: which entries an engineer would choose, and which layers
%% there are.
-module(suggest_tests).

-export([tests/0]).

-define(COWBOY, [{cowboy_stream_h, request_process, 3}, {cowboy_stream_h, execute, 3}, {cowboy_handler, execute, 2}]).
%% A proposal explains at least two thirds of what tiers written by hand do: a
%% report by it leads to the same layer.
-define(SHARE, 0.67).
-define(ROUNDS, "100000").      % of a client that is killed in the end
-define(WARM_MS, 3000).

tests() ->
    [{"a proposal for names that say nothing", 120, alone, fun scrambled/1},
     {"a proposal for a shop in Elixir", 120, alone, fun shop/1},
     {"a proposal for a cowboy service", 120, alone, fun notes/1},
     {"a proposal for yaws", 120, alone, fun wiki/1},
     {"a proposal for RabbitMQ", 180, alone, fun rabbitmq/1},
     {"a proposal for ejabberd", 180, alone, fun ejabberd/1}].

%% ------------------------------------ the sample, its names replaced ----

scrambled(#{build := Build} = T) ->
    {ok, Names} = file:consult(filename:join(Build, "apps/scrambled/names")),
    io:format("names: scramble.escript with the seed ~b~n", [proplists:get_value(seed, Names)]),
    Server = scrambled_server(T, Names),
    {M, F, 0} = as(Names, {network_server, port, 0}),
    Load = it:load(T, #{http => it:call(Server, M, F, [])}, ["8", "600s", "60"]),
    warm(),
    Result = suggest_judge:judge(T, Server, scrambled_rules(T, Names)),
    it:check(it:is_running(Load), "the load worked to the end"),
    it:kill(Load),
    Result.

scrambled_server(#{build := Build} = T, Names) ->
    Ebin = apps:placed(T, "scrambled", filelib:wildcard(filename:join(Build, "apps/scrambled/*.{beam,app}"))),
    Config = io_lib:format("#{~s => #{work_us => 100, wait_ms => 3}, ~s => #{work_us => 300}, ~s => #{work_us => 200},"
                           " parsing => #{work_us => 50}, faults => #{raise => 0.01, slow => 0.001}}",
                           [as(Names, Layer) || Layer <- [db, formatter, accounting]]),
    {App, Start, 0} = as(Names, {sample_app, start, 0}),
    Node = apps:node_name(T, "apps_scrambled"),
    Server = it:server(T, "scrambled", Node,
                       fun(Stub) -> apps:erl(T, Node, [Ebin], ["-" ++ atom_to_list(App), "config", lists:flatten(Config)], Stub,
                                        [atom_to_list(App), atom_to_list(Start)]) end, []),
    apps:ready(Server, "the application runs", {apps_probe, runs, [App]}),
    Server.

%% The layers are the author's. Of the formatter also what its callers call, and
%% of the database the one call that the author left out.
scrambled_rules(T, Names) ->
    Of = fun(Functions) -> [as(Names, F) || F <- Functions] end,
    [{M, F, _}] = Entry = Of([{requests, handle_request, 2}]),
    Db = Of([{db, network_request, 1}, {db, transaction, 1}, {db, transaction, 2}]),
    Parsing = Of([{network_server, parse_request, 1}]),
    Accounting = Of([{accounting, incr_reqs, 1}]),
    Formatter = Of([{formatter, format_response, 1}]),
    ByHand = io_lib:format("~p.~n~p.~n{identity, fun ({~s, ~s, [Op, _]}) when is_atom(Op) -> Op; (_) -> undefined end}.~n",
                           [{tiers, [{handle, Entry}, {parsing, Parsing}, {formatter, Formatter}, {db, Db}, {accounting, Accounting}]},
                            {entry, hd(Entry)}, M, F]),
    #{name => "scrambled", entry => Entry, some => 4, must => [db, formatter, accounting], only => true,
      layers => [{parsing, Parsing}, {formatter, Formatter ++ Of([{formatter, format, 1}])},
                 {db, Db ++ Of([{db, query, 2}])}, {accounting, Accounting}],
      share => ?SHARE, by_hand => it:write(T, "by_hand.conf", ByHand)}.

%% What a module, a registered name or a function is called there.
as(Names, {M, F, A}) ->
    [{Module, Function, A}] = [{X, Y, A} || {function, O, P, Q, X, Y} <- Names, {O, P, Q} =:= {M, F, A}],
    {Module, Function, A};
as(Names, Atom) ->
    [New] = [N || {atom, A, N} <- Names, A =:= Atom],
    New.

%% ------------------------------------------------------------ the shop ----

shop(T) ->
    Dir = apps:compiled(T, "shop", "elixirc", "test/apps/shop/*.ex", [{"LC_ALL", "C.UTF-8"}, {"ERL_LIBS", apps:plugins(T)}]),
    Node = apps:node_name(T, "apps_shop"),
    Server = it:server(T, "shop", Node,
                       fun(Stub) -> apps:erl(T, Node, [Dir | [D ++ "/ebin" || D <- apps:elixir() ++ apps:cowboy(T)]],
                                        ["-shop", "database_port", integer_to_list(apps_backend:database()),
                                         "-shop", "payments_port", integer_to_list(apps_backend:payments())],
                                        Stub, ["Elixir.Shop", "run"]) end, []),
    apps:ready(Server, "the shop runs", {apps_probe, runs, [shop]}),
    Id = fun() -> integer_to_list(rand:uniform(300)) end,
    Add = fun(_) -> apps_load:post("/cart/items", ["product=", Id(), "&quantity=", integer_to_list(rand:uniform(3))]) end,
    Load = apps_load:start(it:call(Server, 'Elixir.Shop.Web', port, []),
                           #{clients => 10, think_ms => 60, asks => [Add],
                             mix => [{25, fun(_) -> apps_load:get("/") end},
                                     {30, fun(_) -> apps_load:get(["/products/", Id()]) end},
                                     {8, fun(_) -> apps_load:get(["/api/products/", Id()]) end},
                                     {8, fun(_) -> apps_load:get(["/search?q=", pick(["lamp", "bowl", "table", "shelf"])]) end},
                                     {10, fun(_) -> apps_load:get("/cart") end},
                                     {14, Add},
                                     {5, fun(_) -> apps_load:post("/checkout", "") end}]}),
    warm(),
    Result = suggest_judge:judge(
               T, Server,
               #{name => "shop", share => ?SHARE, by_hand => "test/apps/shop/tiers.conf",
                 entry => ?COWBOY ++ [{'Elixir.Shop.Web.Endpoint', init, 2}, {'Elixir.Shop.Web.Router', call, 1}],
                 some => 4, must => [repo, payments], outer => [web],
                 layers => [{web, ['Elixir.Shop.Web.Router', 'Elixir.Shop.Web.ProductController', 'Elixir.Shop.Web.CartController',
                                   'Elixir.Shop.Web.CheckoutController', 'Elixir.Shop.Web.Endpoint', 'Elixir.Shop.Web.Session']},
                            {contexts, ['Elixir.Shop.Catalog', 'Elixir.Shop.Carts', 'Elixir.Shop.Orders']},
                            {payments, ['Elixir.Shop.Payments', 'Elixir.Shop.Payments.Client']},
                            {repo, ['Elixir.Shop.Repo', 'Elixir.Shop.Repo.Connection', 'Elixir.Shop.Repo.Pool']},
                            {cache, ['Elixir.Shop.Cache']},
                            {view, ['Elixir.Shop.Web.View', 'Elixir.Shop.Web.JSON']}]}),
    answered(Load, 500),
    Result.

%% ----------------------------------------------------------- the notes ----

notes(#{place := Place, root := Root, n := N} = T) ->
    Dir = apps:compiled(T, "notes", "erlc", "test/apps/notes/*.erl", []),
    Journals = lists:concat(["/tmp/", filename:basename(Place), "/journals", N]),
    ok = filelib:ensure_path(Root ++ Journals),
    Node = apps:node_name(T, "apps_notes"),
    Server = it:server(T, "notes", Node,
                       fun(Stub) -> apps:erl(T, Node, [Dir | [D ++ "/ebin" || D <- apps:cowboy(T)]], ["-notes", "dir", "\"" ++ Journals ++ "\""],
                                        Stub, ["notes_app", "run"]) end, []),
    apps:ready(Server, "the service runs", {apps_probe, runs, [notes]}),
    Note = fun() -> ["/notes/", integer_to_list(rand:uniform(30))] end,
    Login = fun(#{user := User}) -> apps_load:post("/login", ["user=", User, "&password=secret"]) end,
    Load = apps_load:start(it:call(Server, notes_app, port, []),
                           #{clients => 8, think_ms => 60,
                             begins => fun(C) -> #{n => C, user => ["user", integer_to_list(C)]} end,
                             asks => [Login], begun => fun(#{last := Token} = C) -> C#{token => Token} end,
                             mix => [{3, Login},
                                     {45, fun(C) -> authorized(C, apps_load:get(Note())) end},
                                     {25, fun(C) -> authorized(C, apps_load:put(Note(), text())) end},
                                     {4, fun(C) -> authorized(C, {<<"DELETE">>, Note(), [], <<>>}) end},
                                     {8, fun(C) -> authorized(C, apps_load:get("/notes")) end},
                                     {10, fun(C) -> authorized(C, apps_load:get(["/search?q=", word()])) end},
                                     {5, fun(_) -> apps_load:get("/licenses/GPL-3") end}]}),
    warm(),
    Result = suggest_judge:judge(
               T, Server,
               #{name => "notes", share => ?SHARE, by_hand => "test/apps/notes/tiers.conf", entry => ?COWBOY,
                 some => 3, must => [store], outer => [handler],
                 layers => [{handler, [{cowboy_handler, execute, 2}, {cowboy_rest, upgrade, '_'}, notes_note_h, notes_list_h,
                                       notes_login_h, notes_search_h]},
                            {auth, [notes_auth]}, {store, [notes_store]}, {index, [notes_index]}, {text, [notes_text]},
                            {cowboy, [cowboy_req, cowboy_router]}]}),
    answered(Load, 500),
    Result.

authorized(#{token := Token}, Request) ->
    apps_load:header(Request, {"authorization", ["Bearer ", Token]}).

text() ->
    iolist_to_binary(["# ", word(), "\n\n", [[word(), pick([" ", " ", " ", "\n\n", " *well* "])] || _ <- lists:seq(1, 60)]]).

word() ->
    pick(["apples", "bread", "milk", "paint", "nails", "tickets", "letters", "stamps", "garden", "roses", "repair", "call"]).

%% ------------------------------------------------------------ the wiki ----

wiki(#{place := Place, root := Root, n := N} = T) ->
    it:check(filelib:is_dir(Root ++ "/usr/lib/yaws"), "yaws is in ~s: delete that, and it is made again", [Root]),
    Dir = apps:compiled(T, "wiki", "erlc", "test/apps/wiki/*.erl", []),
    Own = lists:concat(["/tmp/", filename:basename(Place), "/wiki", N]),
    ok = filelib:ensure_path(Root ++ Own ++ "/www"),
    [{ok, _} = file:copy(F, Root ++ Own ++ "/www/" ++ filename:basename(F)) || F <- filelib:wildcard("test/apps/wiki/www/*")],
    Port = it:free_port(),
    ok = file:write_file(Root ++ Own ++ "/yaws.conf",
                         ["logdir = ", Own, "\nebin_dir = ", Dir, "\nkeepalive_timeout = 30000\nrunmod = wiki_store\n"
                          "<server localhost>\n port = ", integer_to_list(Port), "\n listen = 127.0.0.1\n docroot = ", Own,
                          "/www\n appmods = </wiki, wiki>\n</server>\n"]),
    Node = apps:node_name(T, "apps_wiki"),
    Server = it:server(T, "wiki", Node,
                       fun(Stub) -> apps:erl(T, Node, [Dir, "/usr/lib/yaws/ebin"],
                                        ["-mnesia", "dir", "\"" ++ Own ++ "/mnesia\"", "-conf", Own ++ "/yaws.conf"], Stub, ["yaws"]) end, []),
    apps:ready(Server, "yaws runs", {apps_probe, runs, [yaws]}),
    Page = fun() -> ["/wiki/", page_name()] end,
    Write = fun(_) -> apps_load:post(Page(), ["text=", wiki_text()]) end,
    it:until("yaws listens", fun() -> case gen_tcp:connect({127, 0, 0, 1}, Port, []) of
                                          {ok, S} -> gen_tcp:close(S), true;
                                          _ -> false
                                      end end),
    Load = apps_load:start(Port, #{clients => 8, think_ms => 60, asks => [Write, Write, Write],
                                   mix => [{50, fun(_) -> apps_load:get(Page()) end},
                                           {12, Write},
                                           {8, fun(_) -> apps_load:get([Page(), "/history"]) end},
                                           {6, fun(_) -> apps_load:get("/wiki") end},
                                           {6, fun(_) -> apps_load:get(["/wiki/search?q=", word()]) end},
                                           {5, fun(_) -> apps_load:get("/status.yaws") end},
                                           {13, fun(_) -> apps_load:get("/index.html") end}]}),
    warm(),
    Result = suggest_judge:judge(
               T, Server,
               #{name => "wiki", share => ?SHARE, by_hand => "test/apps/wiki/tiers.conf",
                 entry => [{wiki, out, 1} | [{yaws_server, F, A} || {F, A} <- [{call_method, 5}, {handle_request, 3},
                                                                               {handle_normal_request, 5}, {deliver_dyn_part, 8}]]],
                 some => 2, must => [store], outer => [handler],
                 layers => [{handler, [wiki, yaws_server]}, {store, [wiki_store, mnesia, mnesia_tm]}, {page, [wiki_page, wiki_markup]},
                            {yaws, [yaws_api, yaws, gen_tcp, yaws_revproxy, yaws_log]}]}),
    answered(Load, 500),
    Result.

page_name() ->
    "Page" ++ integer_to_list(rand:uniform(40)).

wiki_text() ->
    [[word(), pick(["+", "+", "+", "%0A%0A", "+*so*+", ["+[[", page_name(), "]]+"]])] || _ <- lists:seq(1, 120)].

%% ------------------------------------------------------------ RabbitMQ ----

rabbitmq(T) ->
    Server = rabbitmq_tests:server(T),
    Client = python(T, "amqp_client.py", [maps:get(amqp, Server), ?ROUNDS]),
    warm(),
    Result = suggest_judge:judge(
               T, Server,
               #{name => "rabbitmq", share => ?SHARE, by_hand => "priv/examples/rabbitmq.conf",
                 %% The channel's work for one method or delivery.
                 entry => [{rabbit_channel, handle_method, '_'}, {rabbit_channel, handle_deliver0, 4},
                           {rabbit_channel, handle_deliver, 2}, {rabbit_channel, handle_cast, 2}],
                 some => 3,
                 layers => [{access, [rabbit_access_control]},
                            {route, [rabbit_exchange, rabbit_exchange_type_topic, rabbit_exchange_type_direct, rabbit_router]},
                            {hand_on, [rabbit_queue_type, rabbit_classic_queue, rabbit_quorum_queue, rabbit_fifo_client, delegate,
                                       {rabbit_amqqueue, deliver, '_'}, {rabbit_channel, deliver_to_queues, '_'}]},
                            {queue, [rabbit_amqqueue_process, rabbit_amqqueue, rabbit_fifo]},
                            {store, [rabbit_variable_queue, rabbit_priority_queue]},
                            {disk, [rabbit_msg_store, rabbit_queue_index, rabbit_classic_queue_index_v2, rabbit_classic_queue_store_v2,
                                    file_handle_cache, ra_log, ra_log_wal]},
                            {socket, [rabbit_writer, rabbit_net]}]}),
    it:check(it:is_running(Client), "the client worked to the end"),
    it:kill(Client),
    Result.

%% ------------------------------------------------------------ ejabberd ----

ejabberd(T) ->
    Server = ejabberd_tests:server(T, mnesia),
    Client = python(T, "xmpp_client.py", ["localhost", maps:get(xmpp, Server), ?ROUNDS]),
    warm(),
    Result = suggest_judge:judge(
               T, Server,
               #{name => "ejabberd", share => ?SHARE, by_hand => "priv/examples/ejabberd.conf",
                 %% The sender's process, from an element of the stream down to the stanza.
                 entry => [{ejabberd_c2s, handle_authenticated_packet, 2}, {xmpp_stream_in, process_authenticated_packet, 2},
                           {xmpp_stream_in, process_element, 2}, {xmpp_stream_in, handle_info, 2}],
                 some => 3, outer => [c2s],
                 layers => [{router, [ejabberd_router, ejabberd_local, ejabberd_sm]},
                            {hooks, [ejabberd_hooks]},
                            {archive, [mod_mam, mod_mam_mnesia]},
                            {privacy, [mod_privacy, mod_blocking, {ejabberd_c2s, privacy_check_packet, 3}]},
                            {roster, [mod_roster, mod_roster_mnesia]},
                            {iq, [gen_iq_handler, mod_ping, mod_vcard, mod_disco, ejabberd_iq]},
                            {room, [mod_muc, mod_muc_room]},
                            {offline, [mod_offline]},
                            {db, [mnesia, mnesia_tm, ejabberd_sql]},
                            {codec, [xmpp, xmpp_codec, fxml, fxml_stream]},
                            {socket, [xmpp_socket]},
                            {c2s, [xmpp_stream_in, ejabberd_c2s]}]}),
    it:check(it:is_running(Client), "the client worked to the end"),
    it:kill(Client),
    Result.

%% ------------------------------------------------------- what they share ----

warm() ->
    receive after ?WARM_MS -> ok end.

%% It ran all the time, and was served.
answered(Load, AtLeast) ->
    Answers = #{200 := Good} = apps_load:stop(Load),
    it:check(Good > AtLeast andalso not is_map_key(500, Answers), "answers: ~0p", [Answers]).

python(T, Script, Args) ->
    Dir = apps:placed(T, "clients", ["test/apps/" ++ Script]),
    it:start(T, "client", apps:inside(T, ["python3", Dir ++ "/" ++ Script | Args], []), []).

pick(List) ->
    lists:nth(rand:uniform(length(List)), List).
