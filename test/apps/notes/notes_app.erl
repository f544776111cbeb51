%% notes - people's notes over HTTP, on cowboy: written as such services are, to
%% be profiled by somebody who knows nothing of it.
-module(notes_app).
-behaviour(application).
-behaviour(supervisor).

-export([run/0, port/0]).
-export([start/2, stop/1, init/1]).

%% From the command line; notes_dir is where journals are.
run() ->
    {ok, _} = application:ensure_all_started(notes).

port() ->
    ranch:get_port(notes).

start(_Type, _Args) ->
    {ok, Sup} = supervisor:start_link({local, notes_sup}, ?MODULE, []),
    Dispatch = cowboy_router:compile([{'_', [{"/login", notes_login_h, []},
                                             {"/notes", notes_list_h, []},
                                             {"/notes/:id", notes_note_h, []},
                                             {"/search", notes_search_h, []},
                                             {"/licenses/[...]", cowboy_static, {dir, "/usr/share/common-licenses"}}]}]),
    {ok, _} = cowboy:start_clear(notes, [{ip, {127, 0, 0, 1}}, {port, 0}],
                                 #{env => #{dispatch => Dispatch}, max_keepalive => infinity}),
    {ok, Sup}.

stop(_) ->
    cowboy:stop_listener(notes).

init([]) ->
    {ok, Dir} = application:get_env(notes, dir),
    Stores = [#{id => {notes_store, N}, start => {notes_store, start_link, [N, Dir]}} || N <- notes_store:shards()],
    {ok, {#{strategy => one_for_one},
          [#{id => notes_auth, start => {notes_auth, start_link, []}},
           #{id => notes_index, start => {notes_index, start_link, []}} | Stores]}}.
