-module(notes_list_h).
-export([init/2]).

init(Req, State) ->
    Answer = case notes_auth:user(Req) of
                 {ok, User} -> cowboy_req:reply(200, #{<<"content-type">> => <<"text/html">>}, list(User), Req);
                 {error, denied} -> cowboy_req:reply(401, #{<<"www-authenticate">> => <<"Bearer">>}, Req)
             end,
    {ok, Answer, State}.

list(User) ->
    Notes = notes_store:list(User),
    notes_text:page([<<"Notes of ">>, User],
                    [[<<"<article><h1>">>, Id, <<"</h1>">>, notes_text:html(Text), <<"</article>">>] || {Id, Text} <- Notes]).
