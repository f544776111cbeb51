%% apps_backend - what the shop (test/apps/shop) needs besides itself: a database
%% that takes some milliseconds, and a provider of payments that takes some more.
%% Both serve on the local host, from the tests' own node, as long as the test lives.
-module(apps_backend).

-export([database/0, payments/0]).

-define(PRODUCTS, 300).
-define(DECLINED_OF, 30).               % one charge of so many

%% Their ports.
database() ->
    serve([binary, {packet, 4}], fun() ->
                                         Rows = ets:new(rows, [public, {read_concurrency, true}]),
                                         [ets:insert(Rows, {{<<"products">>, integer_to_binary(N)}, product(N)})
                                          || N <- lists:seq(1, ?PRODUCTS)],
                                         fun(S) -> answer_queries(S, Rows) end
                                 end).

payments() ->
    serve([binary, {packet, http_bin}], fun() -> fun answer_charge/1 end).

%% Ready makes, in the process that stays, what serves one connection.
serve(Options, Ready) ->
    Test = self(),
    Owner = spawn(fun() ->
                          _ = monitor(process, Test),
                          {ok, L} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {active, false}, {nodelay, true}, {reuseaddr, true},
                                                       {backlog, 100} | Options]),
                          Serve = Ready(),
                          spawn_link(fun() -> accept(L, Serve) end),
                          {ok, Port} = inet:port(L),
                          Test ! {self(), Port},
                          receive {'DOWN', _, process, Test, _} -> exit(over) end
                  end),
    receive {Owner, Port} -> Port end.

accept(L, Serve) ->
    {ok, S} = gen_tcp:accept(L),
    Server = spawn_link(fun() -> receive go -> Serve(S) end end),
    ok = gen_tcp:controlling_process(S, Server),
    Server ! go,
    accept(L, Serve).

%% ----------------------------------------------------- the database ----

answer_queries(S, Rows) ->
    case gen_tcp:recv(S, 0) of
        {ok, Query} ->
            ok = gen_tcp:send(S, term_to_binary(execute(binary_to_term(Query), Rows))),
            answer_queries(S, Rows);
        {error, closed} -> ok
    end.

execute({get, Table, Key}, Rows) ->
    wait(1),
    case ets:lookup(Rows, {Table, Key}) of
        [{_, Row}] -> Row;
        [] -> nil
    end;
execute({all, Table, Field, Value}, Rows) ->
    wait(3),
    [Row || Row <- ets:select(Rows, [{{{Table, '_'}, '$1'}, [], ['$1']}]), maps:get(Field, Row) =:= Value];
execute({search, Table, Field, Text}, Rows) ->
    wait(5),
    [Row || Row <- ets:select(Rows, [{{{Table, '_'}, '$1'}, [], ['$1']}]),
            string:find(string:lowercase(maps:get(Field, Row)), Text) =/= nomatch];
execute({insert, Table, Key, Row}, Rows) ->
    wait(2),
    true = ets:insert(Rows, {{Table, Key}, Row}),
    ok;
execute({delete, Table, Key}, Rows) ->
    wait(2),
    true = ets:delete(Rows, {Table, Key}),
    ok;
execute(commit, _) -> wait(4), ok;
execute(_, _) -> wait(1), ok.

product(N) ->
    Name = <<(lists:nth(N rem 5 + 1, [<<"Lamp ">>, <<"Chair ">>, <<"Table ">>, <<"Shelf ">>, <<"Bowl & Plate ">>]))/binary,
             (integer_to_binary(N))/binary>>,
    #{id => integer_to_binary(N), name => Name, price => 500 + N * 7,
      category => if N rem 12 =:= 0 -> <<"featured">>; true -> <<"other">> end,
      text => iolist_to_binary(lists:duplicate(20, <<"A thing of use & beauty,\nmade to last. ">>))}.

%% A millisecond more or less.
wait(Ms) ->
    receive after Ms - 1 + rand:uniform(2) -> ok end.

%% ----------------------------------------------------- the provider ----

answer_charge(S) ->
    case head(S, 0) of
        {ok, Length} ->
            ok = inet:setopts(S, [{packet, raw}]),
            {ok, _} = gen_tcp:recv(S, Length),
            wait(10 + rand:uniform(10)),
            {Status, Body} = case rand:uniform(?DECLINED_OF) of
                                 1 -> {<<"402 Payment Required">>, <<"declined">>};
                                 _ -> {<<"200 OK">>, integer_to_binary(rand:uniform(1000000000))}
                             end,
            _ = gen_tcp:send(S, [<<"HTTP/1.1 ">>, Status, <<"\r\ncontent-length: ">>, integer_to_binary(byte_size(Body)),
                                 <<"\r\n\r\n">>, Body]),
            gen_tcp:close(S);
        {error, closed} -> ok
    end.

head(S, Length) ->
    case gen_tcp:recv(S, 0) of
        {ok, {http_header, _, 'Content-Length', _, Value}} -> head(S, binary_to_integer(Value));
        {ok, http_eoh} -> {ok, Length};
        {ok, _} -> head(S, Length);
        {error, _} = Error -> Error
    end.
