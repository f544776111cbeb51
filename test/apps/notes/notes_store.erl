%% Keeps notes: in some servers, by the note's owner, each of which writes a
%% journal of what it is told.
-module(notes_store).
-behaviour(gen_server).

-export([start_link/2, shards/0, read/2, write/3, delete/2, list/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(SHARDS, 4).

start_link(N, Dir) ->
    gen_server:start_link({local, name(N)}, ?MODULE, filename:join(Dir, name(N)), []).

shards() ->
    lists:seq(1, ?SHARDS).

read(User, Id) -> call(User, {read, {User, Id}}).
write(User, Id, Text) -> call(User, {write, {User, Id}, Text}).
delete(User, Id) -> call(User, {delete, {User, Id}}).
%% [{Id, Text}], sorted by Id.
list(User) -> call(User, {list, User}).

call(User, Request) ->
    gen_server:call(name(erlang:phash2(User, ?SHARDS) + 1), Request).

name(N) ->
    list_to_atom("notes_store_" ++ integer_to_list(N)).

init(File) ->
    {ok, Journal} = file:open(File, [append, raw, binary]),
    {ok, {Journal, #{}}}.

handle_call({read, Key}, _From, {_, Notes} = State) ->
    {reply, maps:find(Key, Notes), State};
handle_call({write, Key, Text}, _From, {Journal, Notes}) ->
    ok = journal(Journal, {write, Key, Text}),
    {reply, ok, {Journal, Notes#{Key => Text}}};
handle_call({delete, Key}, _From, {Journal, Notes}) ->
    ok = journal(Journal, {delete, Key}),
    {reply, ok, {Journal, maps:remove(Key, Notes)}};
handle_call({list, User}, _From, {_, Notes} = State) ->
    {reply, lists:sort([{Id, Text} || {{U, Id}, Text} <- maps:to_list(Notes), U =:= User]), State}.

handle_cast(_, State) ->
    {noreply, State}.

%% On the disk when it returns.
journal(Journal, Entry) ->
    Bytes = term_to_binary(Entry),
    ok = file:write(Journal, [<<(byte_size(Bytes)):32>>, Bytes]),
    file:datasync(Journal).
