%% wiki - pages that everybody may write, on yaws, in Mnesia: its appmod is this
%% module, for what is below /wiki.
-module(wiki).

-export([out/1]).
-include("yaws_api.hrl").

out(Arg) ->
    Method = (Arg#arg.req)#http_request.method,
    answer(handle(Method, path(Arg#arg.pathinfo), Arg)).

path(undefined) -> [];
path(Below) -> string:lexemes(Below, "/").

handle('GET', [], _) ->
    {200, wiki_page:index(wiki_store:all())};
handle('GET', ["search"], Arg) ->
    Text = list_to_binary(query(Arg, "q")),
    {200, wiki_page:found(Text, wiki_store:search(Text))};
handle('GET', [Name], _) ->
    case wiki_store:read(list_to_binary(Name)) of
        {ok, Page} -> {200, wiki_page:show(Page)};
        not_found -> {404, wiki_page:missing(list_to_binary(Name))}
    end;
handle('GET', [Name, "history"], _) ->
    {200, wiki_page:history(list_to_binary(Name), wiki_store:history(list_to_binary(Name)))};
handle('POST', [Name], Arg) ->
    Text = list_to_binary(posted(Arg, "text")),
    {ok, Version} = wiki_store:write(list_to_binary(Name), Text, wiki_markup:links(Text)),
    {303, {"/wiki/" ++ Name, Version}};
handle(_, _, _) ->
    {405, <<"no">>}.

query(Arg, Key) ->
    case yaws_api:queryvar(Arg, Key) of
        {ok, Value} -> Value;
        undefined -> ""
    end.

posted(Arg, Key) ->
    case yaws_api:postvar(Arg, Key) of
        {ok, Value} -> Value;
        undefined -> ""
    end.

answer({303, {Location, _}}) ->
    [{status, 303}, {header, {location, Location}}];
answer({Status, Html}) ->
    [{status, Status}, {content, "text/html", Html}].
