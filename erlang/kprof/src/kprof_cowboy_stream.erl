%% kprof_cowboy_stream - a stream handler for cowboy 2: every stream is a
%% request, from its head to the end of its answer.
%%
%%   cowboy:start_clear(http, TransportOpts,
%%       #{stream_handlers => [kprof_cowboy_stream, cowboy_stream_h], ...})
%%
%%   {entry, {kprof, set_token, 1}}.
%%   {identity, fun ({kprof, set_token, [{Method, Path}]}) -> {Method, Path} end}.
%%
%% A connection's process serves many streams, one after the other or, with
%% HTTP/2, at once. So each stream's token is put aside here while other
%% handlers do not run for it, and the process itself works for nobody:
%% otherwise the reading of the next head on a kept connection would count as
%% work of the request before, and one stream's as another's.
%%
%% cowboy is not needed to compile this; its behaviour is cowboy_stream, which
%% no attribute names, since compilers warn where they cannot find it.
-module(kprof_cowboy_stream).

-export([init/3, data/4, info/3, terminate/3, early_error/5]).

init(StreamID, Req, Opts) ->
    kprof:set_token(identity(Req)),
    {Commands, Next} = cowboy_stream:init(StreamID, Req, Opts),
    {Commands, {kprof:detach(), Next}}.

data(StreamID, IsFin, Data, State) ->
    for(State, fun(Next) -> cowboy_stream:data(StreamID, IsFin, Data, Next) end).

info(StreamID, Info, State) ->
    for(State, fun(Next) -> cowboy_stream:info(StreamID, Info, Next) end).

terminate(StreamID, Reason, {Token, Next}) ->
    kprof:attach(Token),
    Result = cowboy_stream:terminate(StreamID, Reason, Next),
    _ = kprof:detach(),
    kprof:clear_token(Token),
    Result.

early_error(StreamID, Reason, PartialReq, Resp, Opts) ->
    cowboy_stream:early_error(StreamID, Reason, PartialReq, Resp, Opts).

for({Token, Next0}, Fun) ->
    kprof:attach(Token),
    {Commands, Next} = Fun(Next0),
    _ = kprof:detach(),
    {Commands, {Token, Next}}.

identity(#{method := Method, path := Path}) ->
    {Method, Path}.
