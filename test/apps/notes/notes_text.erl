%% Notes as HTML, with a little markup; and their words.
-module(notes_text).

-export([page/2, html/1, words/1, excerpt/2]).

-define(MOST_WORDS, 200).

page(Title, Body) ->
    [<<"<!doctype html><html><head><title>">>, escape(Title), <<"</title></head><body>">>, Body, <<"</body></html>">>].

%% Paragraphs, headings (#) and lists (-), with *emphasis*.
html(Text) ->
    [block(string:trim(Block)) || Block <- binary:split(Text, <<"\n\n">>, [global]), Block =/= <<>>].

block(<<"# ", Heading/binary>>) ->
    [<<"<h2>">>, inline(Heading), <<"</h2>">>];
block(<<"- ", _/binary>> = List) ->
    [<<"<ul>">>, [[<<"<li>">>, inline(string:prefix(Item, "- ")), <<"</li>">>]
                  || Item <- string:split(List, "\n", all), string:prefix(Item, "- ") =/= nomatch], <<"</ul>">>];
block(Text) ->
    [<<"<p>">>, inline(Text), <<"</p>">>].

inline(Text) ->
    re:replace(escape(Text), <<"\\*([^*]+)\\*">>, <<"<em>\\1</em>">>, [global]).

escape(Text) ->
    lists:foldl(fun({From, To}, T) -> binary:replace(T, From, To, [global]) end, iolist_to_binary(Text),
                [{<<"&">>, <<"&amp;">>}, {<<"<">>, <<"&lt;">>}, {<<">">>, <<"&gt;">>}]).

words(Text) ->
    Words = string:lexemes(string:lowercase(Text), " .,;:!?-*#()\n"),
    lists:usort(lists:sublist([unicode:characters_to_binary(W) || W <- Words], ?MOST_WORDS)).

%% What is around a word.
excerpt(Text, Word) ->
    case string:find(string:lowercase(Text), Word) of
        nomatch -> string:slice(Text, 0, 60);
        Found -> string:slice(Found, 0, 60)
    end.
