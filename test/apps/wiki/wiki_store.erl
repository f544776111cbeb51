%% Pages, their older versions, and which page names which.
-module(wiki_store).

-export([start/0, read/1, exists/1, write/3, history/1, all/0, search/1]).

-record(wiki_page, {name, version, text}).
-record(wiki_old, {key, text}).         % {Name, Version}
-record(wiki_link, {from, to}).

-define(MOST_OLD, 20).

%% yaws calls it at its start (runmod).
start() ->
    _ = mnesia:create_schema([node()]),
    ok = mnesia:start(),
    Tables = [{wiki_page, record_info(fields, wiki_page), set}, {wiki_old, record_info(fields, wiki_old), ordered_set},
              {wiki_link, record_info(fields, wiki_link), bag}],
    [mnesia:create_table(Name, [{attributes, Fields}, {type, Type} | copies(Type)]) || {Name, Fields, Type} <- Tables],
    ok = mnesia:wait_for_tables([wiki_page, wiki_old, wiki_link], 20000).

%% Mnesia has no ordered sets on the disk alone; the others are there too.
copies(_) -> [{disc_copies, [node()]}].

read(Name) ->
    case mnesia:activity(transaction, fun() -> mnesia:read(wiki_page, Name) end) of
        [#wiki_page{text = Text, version = Version}] -> {ok, {Name, Version, Text}};
        [] -> not_found
    end.

exists(Name) ->
    mnesia:dirty_read(wiki_page, Name) =/= [].

write(Name, Text, Links) ->
    mnesia:activity(transaction, fun() -> write_all(Name, Text, Links) end).

write_all(Name, Text, Links) ->
    Version = case mnesia:wread({wiki_page, Name}) of
                  [#wiki_page{version = Last, text = Old}] ->
                      ok = mnesia:write(#wiki_old{key = {Name, Last}, text = Old}),
                      ok = mnesia:delete({wiki_old, {Name, Last - ?MOST_OLD}}),
                      Last + 1;
                  [] -> 1
              end,
    ok = mnesia:delete({wiki_link, Name}),
    [ok = mnesia:write(#wiki_link{from = Name, to = To}) || To <- Links],
    ok = mnesia:write(#wiki_page{name = Name, version = Version, text = Text}),
    {ok, Version}.

%% [{Version, Text}], the newest first.
history(Name) ->
    Fun = fun() ->
                  Now = [{V, T} || #wiki_page{version = V, text = T} <- mnesia:read(wiki_page, Name)],
                  Old = mnesia:select(wiki_old, [{#wiki_old{key = {Name, '$1'}, text = '$2'}, [], [{{'$1', '$2'}}]}]),
                  Now ++ lists:reverse(lists:sort(Old))
          end,
    mnesia:activity(transaction, Fun).

all() ->
    lists:sort(mnesia:dirty_all_keys(wiki_page)).

%% Names of the pages that have it.
search(Text) ->
    Fun = fun(#wiki_page{name = Name, text = T}, Found) ->
                  case binary:match(T, Text) of
                      nomatch -> Found;
                      _ -> [Name | Found]
                  end
          end,
    mnesia:activity(transaction, fun() -> mnesia:foldl(Fun, [], wiki_page) end).
