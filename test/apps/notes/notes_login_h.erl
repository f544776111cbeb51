-module(notes_login_h).
-export([init/2]).

init(#{method := <<"POST">>} = Req0, State) ->
    {ok, Form, Req} = cowboy_req:read_urlencoded_body(Req0),
    Get = fun(Key) -> proplists:get_value(Key, Form, <<>>) end,
    Answer = case notes_auth:login(Get(<<"user">>), Get(<<"password">>)) of
                 {ok, Token} -> cowboy_req:reply(200, #{<<"content-type">> => <<"text/plain">>}, Token, Req);
                 {error, denied} -> cowboy_req:reply(403, Req)
             end,
    {ok, Answer, State};
init(Req, State) ->
    {ok, cowboy_req:reply(405, #{<<"allow">> => <<"POST">>}, Req), State}.
