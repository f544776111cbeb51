%% The text of a page: paragraphs, with *emphasis*, and [[names of pages]].
-module(wiki_markup).

-export([to_html/2, links/1, escape/1]).

%% Exists says whether there is a page of that name.
to_html(Text, Exists) ->
    [[<<"<p>">>, inline(escape(P), Exists), <<"</p>\n">>] || P <- binary:split(Text, <<"\n\n">>, [global, trim_all])].

inline(Text, Exists) ->
    Parts = re:split(Text, <<"\\[\\[([A-Za-z0-9]+)\\]\\]">>),
    link_up(Parts, Exists).

link_up([Plain, Name | More], Exists) ->
    Class = case Exists(Name) of
                true -> <<"page">>;
                false -> <<"missing">>
            end,
    [emphasis(Plain), <<"<a class=\"">>, Class, <<"\" href=\"/wiki/">>, Name, <<"\">">>, Name, <<"</a>">> | link_up(More, Exists)];
link_up([Plain], _) ->
    [emphasis(Plain)].

emphasis(Text) ->
    re:replace(Text, <<"\\*([^*]+)\\*">>, <<"<em>\\1</em>">>, [global]).

links(Text) ->
    case re:run(Text, <<"\\[\\[([A-Za-z0-9]+)\\]\\]">>, [global, {capture, [1], binary}]) of
        {match, Names} -> lists:usort([N || [N] <- Names]);
        nomatch -> []
    end.

escape(Text) ->
    << <<(case C of $< -> <<"&lt;">>; $> -> <<"&gt;">>; $& -> <<"&amp;">>; _ -> <<C>> end)/binary>> || <<C>> <= Text >>.
