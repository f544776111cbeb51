%% shop_text - pages, with a small function that is called for every byte.
-module(shop_text).

-export([page/1, escape/1]).

page(Articles) ->
    Text = lists:append(lists:duplicate(200, [C || {article, _, Name, _} <- Articles, <<C>> <= Name])),
    << <<(?MODULE:escape(C))/binary>> || C <- Text >>.

escape($<) -> <<"&lt;">>;
escape($&) -> <<"&amp;">>;
escape(C) -> <<C>>.
