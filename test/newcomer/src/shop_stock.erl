%% shop_stock - the server that knows what is left of each article.
-module(shop_stock).
-behaviour(gen_server).

-export([start_link/0, reserve/1]).
-export([init/1, handle_call/3, handle_cast/2]).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

reserve(Article) ->
    gen_server:call(?MODULE, {reserve, Article}).

init([]) ->
    {ok, #{}}.

handle_call({reserve, Article}, _From, Reserved) ->
    timer:sleep(2),
    {reply, ok, maps:update_with(Article, fun(N) -> N + 1 end, 1, Reserved)}.

handle_cast(_, Reserved) ->
    {noreply, Reserved}.
