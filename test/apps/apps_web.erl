%% apps_web - a web server on cowboy, with a handler of each kind, that counts
%% its requests by itself: in cowboy_metrics_h, by what its own routes call them;
%% and in a middleware, which is the first that a request's process does: cowboy
%% may kill that process before it runs at all.
-module(apps_web).

-export([start/0, port/0, counts/0, begun/0, reset/0]).
-export([execute/2, init/2]).
-export([allowed_methods/2, content_types_provided/2, content_types_accepted/2,
         resource_exists/2, delete_resource/2, to_json/2, from_json/2]).

-define(COUNTS, apps_web_counts).
-define(ANSWER, #{<<"content-type">> => <<"text/plain">>}).

start() ->
    spawn(fun() ->
                  ?COUNTS = ets:new(?COUNTS, [named_table, public, {write_concurrency, true}]),
                  {ok, _} = application:ensure_all_started(cowboy),
                  {ok, _} = cowboy:start_clear(?MODULE, [{ip, {127, 0, 0, 1}}, {port, 0}],
                                               #{env => #{dispatch => cowboy_router:compile([{'_', routes()}])},
                                                 middlewares => [?MODULE, cowboy_router, cowboy_handler],
                                                 stream_handlers => [cowboy_metrics_h, cowboy_stream_h],
                                                 metrics_callback => fun count/1,
                                                 max_keepalive => infinity}),
                  receive stop -> ok end
          end).

routes() ->
    [{"/", ?MODULE, plain},
     {"/users/:id", ?MODULE, rest},
     {"/users/:id/posts/:post", ?MODULE, plain},
     {"/orders/:uuid", ?MODULE, plain},
     {"/upload", ?MODULE, upload},
     {"/stream", ?MODULE, stream},
     {"/slow", ?MODULE, slow},
     {"/long", ?MODULE, long},
     {"/crash", ?MODULE, crash},
     {"/assets/[...]", cowboy_static, {dir, "/usr/share/common-licenses"}}].

port() ->
    ranch:get_port(?MODULE).

%% -------------------------------------------------------------- truth ----

count(#{req := #{method := Method, path := Path}}) ->
    Key = <<Method/binary, " ", (named(binary:split(Path, <<"/">>, [global])))/binary>>,
    ets:update_counter(?COUNTS, Key, 1, {Key, 0});
%% Refused before it was a request.
count(_) ->
    ok.

named([<<>>, <<"users">>, _]) -> <<"/users/:id">>;
named([<<>>, <<"users">>, _, <<"posts">>, _]) -> <<"/users/:id/posts/:id">>;
named([<<>>, <<"orders">>, _]) -> <<"/orders/:uuid">>;
named(Path) -> iolist_to_binary(lists:join("/", Path)).

%% #{<<"GET /users/:id">> => N}
counts() -> maps:from_list([C || {<<_/binary>>, _} = C <- ets:tab2list(?COUNTS)]).
%% How many request processes began to work.
begun() -> ets:lookup_element(?COUNTS, begun, 2).
reset() -> ets:delete_all_objects(?COUNTS).

execute(Req, Env) ->
    ets:update_counter(?COUNTS, begun, 1, {begun, 0}),
    {ok, Req, Env}.

%% ----------------------------------------------------------- handlers ----

init(Req, rest = State) ->
    {cowboy_rest, Req, State};
init(Req, plain = State) ->
    {ok, cowboy_req:reply(200, ?ANSWER, <<"here\n">>, Req), State};
init(Req0, upload = State) ->
    {Bytes, Req} = read(Req0, 0),
    {ok, cowboy_req:reply(200, ?ANSWER, integer_to_binary(Bytes), Req), State};
init(Req0, stream = State) ->
    Req = cowboy_req:stream_reply(200, ?ANSWER, Req0),
    ok = cowboy_req:stream_body(<<"one\n">>, nofin, Req),
    ok = cowboy_req:stream_body(<<"two\n">>, fin, Req),
    {ok, Req, State};
init(Req, slow = State) ->
    receive after 20 -> ok end,
    {ok, cowboy_req:reply(204, Req), State};
init(Req, long = State) ->
    receive after 20000 -> ok end,
    {ok, cowboy_req:reply(204, Req), State};
init(_, crash) ->
    exit(on_purpose).

read(Req0, Sum) ->
    case cowboy_req:read_body(Req0, #{length => 10000}) of
        {ok, Part, Req} -> {Sum + byte_size(Part), Req};
        {more, Part, Req} -> read(Req, Sum + byte_size(Part))
    end.

%% A user, as cowboy_rest wants it.
allowed_methods(Req, State) -> {[<<"GET">>, <<"PUT">>, <<"DELETE">>], Req, State}.
content_types_provided(Req, State) -> {[{<<"application/json">>, to_json}], Req, State}.
content_types_accepted(Req, State) -> {[{'*', from_json}], Req, State}.
resource_exists(Req, State) -> {true, Req, State}.
delete_resource(Req, State) -> {true, Req, State}.
to_json(Req, State) -> {<<"{}">>, Req, State}.
from_json(Req0, State) ->
    {ok, _, Req} = cowboy_req:read_body(Req0),
    {true, Req, State}.
