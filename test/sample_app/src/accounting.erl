%% Counts requests by operation, in one server: the layer through which all
%% requests pass one after another.
-module(accounting).
-behaviour(gen_server).

-export([start_link/0, incr_reqs/1, incr_reqs_later/1, totals/0]).
-export([init/1, handle_call/3, handle_cast/2]).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, accounting, []).

%% Count one request, and wait until it is counted.
incr_reqs(Op) ->
    gen_server:call(?MODULE, {incr, Op}, infinity).

%% Count one request some time.
incr_reqs_later(Op) ->
    gen_server:cast(?MODULE, {incr, Op}).

totals() ->
    gen_server:call(?MODULE, totals, infinity).

init(Layer) ->
    {ok, {#{}, sample_layer:ballast(Layer)}}.

handle_call({incr, Op}, _From, {Totals, Ballast}) ->
    {reply, ok, {count(Op, Totals), Ballast}};
handle_call(totals, _From, {Totals, _} = State) ->
    {reply, Totals, State}.

handle_cast({incr, Op}, {Totals, Ballast}) ->
    {noreply, {count(Op, Totals), Ballast}}.

count(Op, Totals) ->
    sample_layer:spend(accounting),
    maps:update_with(Op, fun(N) -> N + 1 end, 1, Totals).
