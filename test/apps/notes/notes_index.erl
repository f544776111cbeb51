%% Which notes of a user have a word in them.
-module(notes_index).
-behaviour(gen_server).

-export([start_link/0, add/3, find/2]).
-export([init/1, handle_call/3, handle_cast/2]).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% Some time soon.
add(User, Id, Text) ->
    gen_server:cast(?MODULE, {add, User, Id, Text}).

find(User, Text) ->
    Sets = [ordsets:from_list([Id || {_, Id} <- ets:lookup(?MODULE, {User, Word})]) || Word <- notes_text:words(Text)],
    case Sets of
        [] -> [];
        _ -> ordsets:intersection(Sets)
    end.

init([]) ->
    ?MODULE = ets:new(?MODULE, [named_table, bag, {read_concurrency, true}]),
    {ok, []}.

handle_call(_, _From, State) ->
    {reply, ok, State}.

handle_cast({add, User, Id, Text}, State) ->
    true = ets:insert(?MODULE, [{{User, Word}, Id} || Word <- notes_text:words(Text)]),
    {noreply, State}.
