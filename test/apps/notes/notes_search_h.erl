-module(notes_search_h).
-export([init/2]).

init(Req, State) ->
    Answer = case notes_auth:user(Req) of
                 {ok, User} ->
                     #{q := Text} = cowboy_req:match_qs([{q, [], <<>>}], Req),
                     cowboy_req:reply(200, #{<<"content-type">> => <<"text/html">>}, found(User, Text), Req);
                 {error, denied} ->
                     cowboy_req:reply(401, #{<<"www-authenticate">> => <<"Bearer">>}, Req)
             end,
    {ok, Answer, State}.

found(User, Text) ->
    Notes = [{Id, Note} || Id <- lists:sublist(notes_index:find(User, Text), 10), {ok, Note} <- [notes_store:read(User, Id)]],
    notes_text:page(<<"Found">>, [[<<"<p>">>, Id, <<": ">>, notes_text:excerpt(Note, Text), <<"</p>">>] || {Id, Note} <- Notes]).
