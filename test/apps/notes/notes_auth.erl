%% Who asks: passwords, and the tokens that stand for them for an hour.
-module(notes_auth).
-behaviour(gen_server).

-export([start_link/0, login/2, user/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(ROUNDS, 2000).
-define(HOUR_S, 3600).
-define(SALT, <<"salt of this service">>).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% {ok, Token}; whoever comes for the first time is registered.
login(User, Password) ->
    Hash = crypto:pbkdf2_hmac(sha256, Password, <<?SALT/binary, User/binary>>, ?ROUNDS, 32),
    case ets:lookup(notes_users, User) of
        [{_, Hash}] -> {ok, new_token(User)};
        [_] -> {error, denied};
        [] ->
            ok = gen_server:call(?MODULE, {register, User, Hash}),
            {ok, new_token(User)}
    end.

new_token(User) ->
    Token = binary:encode_hex(crypto:strong_rand_bytes(16)),
    true = ets:insert(notes_tokens, {Token, User, erlang:monotonic_time(second) + ?HOUR_S}),
    Token.

%% {ok, User} of a request.
user(Req) ->
    case cowboy_req:parse_header(<<"authorization">>, Req) of
        {bearer, Token} -> lookup(Token);
        _ -> {error, denied}
    end.

lookup(Token) ->
    Now = erlang:monotonic_time(second),
    case ets:lookup(notes_tokens, Token) of
        [{_, User, Until}] when Until > Now -> {ok, User};
        _ -> {error, denied}
    end.

init([]) ->
    notes_users = ets:new(notes_users, [named_table, {read_concurrency, true}]),
    notes_tokens = ets:new(notes_tokens, [named_table, public, {read_concurrency, true}]),
    _ = erlang:send_after(60000, self(), sweep),
    {ok, []}.

handle_call({register, User, Hash}, _From, State) ->
    _ = ets:insert_new(notes_users, {User, Hash}),
    {reply, ok, State}.

handle_cast(_, State) ->
    {noreply, State}.

handle_info(sweep, State) ->
    Now = erlang:monotonic_time(second),
    _ = ets:select_delete(notes_tokens, [{{'_', '_', '$1'}, [{'<', '$1', Now}], [true]}]),
    _ = erlang:send_after(60000, self(), sweep),
    {noreply, State}.
