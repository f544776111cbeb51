%% What a browser is shown.
-module(wiki_page).

-export([index/1, show/1, found/2, history/2, missing/1]).

index(Names) ->
    page(<<"All pages">>, list(Names)).

show({Name, Version, Text}) ->
    page(Name, [wiki_markup:to_html(Text, fun wiki_store:exists/1),
                io_lib:format("<small>version ~b</small>", [Version])]).

found(Text, Names) ->
    page([<<"Pages with ">>, wiki_markup:escape(Text)], list(Names)).

missing(Name) ->
    page(Name, <<"There is no such page yet.">>).

history(Name, Versions) ->
    page([Name, <<": history">>], [changes(Versions)]).

%% What each version has that the one before had not, by line.
changes([{V, New}, {_, Old} = Before | More]) ->
    [io_lib:format("<h2>~b</h2>", [V]), difference(lines(Old), lines(New)) | changes([Before | More])];
changes([{V, _}]) ->
    [io_lib:format("<h2>~b</h2>the first", [V])];
changes([]) ->
    [].

difference(Old, New) ->
    [[<<"<del>">>, wiki_markup:escape(L), <<"</del>">>] || L <- Old -- New] ++
        [[<<"<ins>">>, wiki_markup:escape(L), <<"</ins>">>] || L <- New -- Old].

lines(Text) -> binary:split(Text, <<"\n">>, [global]).

list(Names) ->
    [<<"<ul>">>, [[<<"<li><a href=\"/wiki/">>, N, <<"\">">>, N, <<"</a></li>">>] || N <- Names], <<"</ul>">>].

page(Title, Body) ->
    [<<"<html><head><title>">>, Title, <<"</title></head><body><h1>">>, Title, <<"</h1>">>, Body, <<"</body></html>">>].
