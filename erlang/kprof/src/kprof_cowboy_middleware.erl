%% kprof_cowboy_middleware - a middleware for cowboy 2 that runs others: what
%% they do together is a request.
%%
%%   cowboy:start_clear(http, TransportOpts,
%%       #{middlewares => [kprof_cowboy_middleware],
%%         env => #{dispatch => Dispatch,
%%                  kprof_middlewares => [cowboy_router, cowboy_handler]}})
%%
%%   {entry, {kprof, do_apply, 4}}.
%%   {identity, fun ({kprof, do_apply, [{M, P}, _, _, _]}) -> {M, P} end}.
%%
%% kprof_middlewares may be left out where it is what is shown. Put before it in
%% `middlewares` what is not to be measured. A handler that hibernates ends the
%% request there, and what follows counts as async.
%%
%% cowboy is not needed to compile this; its behaviour is cowboy_middleware,
%% which no attribute names, since compilers warn where they cannot find it.
-module(kprof_cowboy_middleware).

-export([execute/2]).
-export([chain/3, resume/5]).   % called by name

execute(Req, Env) ->
    Chain = maps:get(kprof_middlewares, Env, [cowboy_router, cowboy_handler]),
    kprof:do_apply(identity(Req), ?MODULE, chain, [Req, Env, Chain]).

%% As cowboy_stream_h runs them.
chain(Req, Env, []) ->
    {ok, Req, Env};
chain(Req, Env, [Middleware | More]) ->
    next(Env, More, Middleware:execute(Req, Env)).

next(_, More, {ok, Req, Env}) ->
    chain(Req, Env, More);
next(Env, More, {suspend, M, F, A}) ->
    {suspend, ?MODULE, resume, [Env, More, M, F, A]};
next(_, _, {stop, _} = Stop) ->
    Stop.

resume(Env, More, M, F, A) ->
    next(Env, More, apply(M, F, A)).

identity(#{method := Method, path := Path}) ->
    {Method, Path}.
