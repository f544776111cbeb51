%% One note, by the rules of REST.
-module(notes_note_h).

-export([init/2, allowed_methods/2, is_authorized/2, content_types_provided/2, content_types_accepted/2,
         resource_exists/2, delete_resource/2]).
-export([to_html/2, to_text/2, from_text/2]).

init(Req, _Opts) ->
    {cowboy_rest, Req, #{id => cowboy_req:binding(id, Req)}}.

allowed_methods(Req, State) ->
    {[<<"GET">>, <<"PUT">>, <<"DELETE">>], Req, State}.

is_authorized(Req, State) ->
    case notes_auth:user(Req) of
        {ok, User} -> {true, Req, State#{user => User}};
        {error, denied} -> {{false, <<"Bearer">>}, Req, State}
    end.

content_types_provided(Req, State) ->
    {[{<<"text/html">>, to_html}, {<<"text/plain">>, to_text}], Req, State}.

content_types_accepted(Req, State) ->
    {[{{<<"text">>, <<"plain">>, '*'}, from_text}], Req, State}.

resource_exists(Req, #{user := User, id := Id} = State) ->
    case notes_store:read(User, Id) of
        {ok, Text} -> {true, Req, State#{text => Text}};
        error -> {false, Req, State}
    end.

delete_resource(Req, #{user := User, id := Id} = State) ->
    {notes_store:delete(User, Id) =:= ok, Req, State}.

to_html(Req, #{id := Id, text := Text} = State) ->
    {notes_text:page(Id, notes_text:html(Text)), Req, State}.

to_text(Req, #{text := Text} = State) ->
    {Text, Req, State}.

from_text(Req0, #{user := User, id := Id} = State) ->
    {ok, Text, Req} = cowboy_req:read_body(Req0, #{length => 100000}),
    ok = notes_store:write(User, Id, Text),
    ok = notes_index:add(User, Id, Text),
    {true, Req, State}.
