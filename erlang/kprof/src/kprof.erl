%% kprof - marks requests by hand, where no function of an application is one.
%%
%% kprofd finds requests by tracing: the call of an entry starts one and its
%% return ends it, with no change to the code. Some code has no such function:
%% a server that never returns, a request that begins in one callback and ends
%% in another, a fun. There it calls these:
%%
%%   kprof:set_token()            % a request begins in this process
%%   kprof:clear_token()          % and has ended
%%   kprof:do_apply(M, F, Args)   % this call is a request
%%   kprof:run(Fun, Args)         % this one too
%%   kprof:wrap(Fun)              % a fun whose every call is a request
%%
%% and tiers.conf says that they are entries:
%%
%%   {entry, [{kprof, set_token, 0}, {kprof, run, 2}]}.     % or all: "kprof"
%%
%% What is safe about it: the functions do nothing but look at two keys of the process
%% dictionary (in_trace/0). They ask no process, read
%% no table and send nothing; kprofd traces their calls where it traces any
%% entry's, and the match spec does what they are named for, sampling
%% included. With nobody profiling a mark costs a function call. What they run
%% gets its arguments as they are; its value and its exceptions, with their
%% stack trace, come back as they are.
%%
%% A request that kprofd measures is in the application's own trace, where the
%% process has one (trace_id/1): only then is that looked up.
%%
%% The guide, with cowboy, Plug, Phoenix, Ecto and servers: README.md.
-module(kprof).

-export([set_token/0, set_token/1, clear_token/0, clear_token/1]).
-export([do_apply/3, do_apply/4, run/2, run/3, wrap/1, wrap/2]).
-export([detach/0, attach/1, trace_id/1]).
-export_type([token/0]).

%% What a process carries, to be put aside with detach/0. [] is none.
-opaque token() :: [] | tuple().

%% ------------------------------------------------- from here to there ----

%% A request begins: this process works for it from here on, and so does
%% whoever has a message from it. It ends with clear_token/0 in any process
%% that works for it, or with the next set_token in this one while it still
%% works for the first. Where neither comes within a minute it is counted as
%% expired. A process that has a trace token of your own (seq_trace) keeps that,
%% and no request begins, unless tiers.conf says {foreign_tokens, replace}.
-spec set_token() -> ok.
set_token() ->
    in_trace().

%% The same with a name for the kind of request, for the identity fun of
%% tiers.conf: ({kprof, set_token, [Kind]}) -> Kind.
-spec set_token(Identity :: term()) -> ok.
set_token(_Identity) ->
    in_trace().

%% The request that this process works for has ended, if set_token began it;
%% in any case the process works for none from here on. A trace token of your own
%% (seq_trace) stays, unless tiers.conf says {foreign_tokens, replace}.
-spec clear_token() -> ok.
clear_token() ->
    ok.

%% Ends the request whose token was put aside.
-spec clear_token(token()) -> ok.
clear_token([]) ->
    ok;
clear_token(Token) ->
    Other = detach(),
    attach(Token),
    clear_token(),
    attach(Other).

%% ------------------------------------------------------ calls and funs ----

%% apply(Module, Function, Args) is a request. Tell what kind with
%%   ({kprof, do_apply, [Module, Function, _]}) -> {Module, Function}
-spec do_apply(module(), atom(), [term()]) -> term().
do_apply(Module, Function, Args) ->
    in_trace(),
    returned(apply(Module, Function, Args)).

-spec do_apply(Identity :: term(), module(), atom(), [term()]) -> term().
do_apply(_Identity, Module, Function, Args) ->
    in_trace(),
    returned(apply(Module, Function, Args)).

%% apply(Fun, Args) is a request.
-spec run(fun(), [term()]) -> term().
run(Fun, Args) ->
    in_trace(),
    returned(apply(Fun, Args)).

-spec run(Identity :: term(), fun(), [term()]) -> term().
run(_Identity, Fun, Args) ->
    in_trace(),
    returned(apply(Fun, Args)).

%% A call back into this module, so that what is applied above is no tail
%% call: the return of a function that ends in another's is not told apart
%% from that one's, and on OTP 25 and 26 not believed.
returned(Value) ->
    Value.

%% A fun of the same arity, up to 5, each of whose calls is a request: for
%% loops and servers that take a fun.
-spec wrap(fun()) -> fun().
wrap(F) when is_function(F, 0) -> fun() -> run(F, []) end;
wrap(F) when is_function(F, 1) -> fun(A) -> run(F, [A]) end;
wrap(F) when is_function(F, 2) -> fun(A, B) -> run(F, [A, B]) end;
wrap(F) when is_function(F, 3) -> fun(A, B, C) -> run(F, [A, B, C]) end;
wrap(F) when is_function(F, 4) -> fun(A, B, C, D) -> run(F, [A, B, C, D]) end;
wrap(F) when is_function(F, 5) ->
    fun(A, B, C, D, E) -> run(F, [A, B, C, D, E]) end.

-spec wrap(Identity :: term(), fun()) -> fun().
wrap(I, F) when is_function(F, 0) -> fun() -> run(I, F, []) end;
wrap(I, F) when is_function(F, 1) -> fun(A) -> run(I, F, [A]) end;
wrap(I, F) when is_function(F, 2) -> fun(A, B) -> run(I, F, [A, B]) end;
wrap(I, F) when is_function(F, 3) -> fun(A, B, C) -> run(I, F, [A, B, C]) end;
wrap(I, F) when is_function(F, 4) ->
    fun(A, B, C, D) -> run(I, F, [A, B, C, D]) end;
wrap(I, F) when is_function(F, 5) ->
    fun(A, B, C, D, E) -> run(I, F, [A, B, C, D, E]) end.

%% --------------------------------------------------------- put aside ----

%% For a process that works for several requests in turn, or that keeps their
%% messages in a queue of its own: takes the token from it, whoever gave it,
%% and gives it back when the process goes on with that request. Without this
%% it works for the request of the last message that it took.
%%
%% Read without seq_trace: a process that waits for that module to be loaded
%% may have the code server's answer without its token.
-spec detach() -> token().
detach() ->
    case process_info(self(), sequential_trace_token) of
        {_, []} -> [];
        {_, Token} -> seq_trace:set_token([]), Token
    end.

-spec attach(token()) -> ok.
attach([]) ->
    _ = detach(),
    ok;
attach(Token) ->
    seq_trace:set_token(Token),
    ok.

%% ------------------------------------------- the application's own trace ----

%% The request that this process works for is in this trace of the application, below
%% this span: a W3C traceparent, <<"00-TRACE-SPAN-FLAGS">>. The first one of a
%% request counts. The functions above call it with what the process has: the current
%% span of OpenTelemetry, or what Logger's metadata say. tiers.conf asks for it:
%%   {trace_id, fun ({kprof, trace_id, [T]}) -> T end}.
-spec trace_id(Traceparent :: binary()) -> ok.
trace_id(_Traceparent) ->
    ok.

-define(OTEL_CTX, '$__current_otel_ctx').       % of otel_ctx,
-define(LOGGER, '$logger_metadata$').           % and of logger, in the dictionary

%% The entry, which has just been called, gave the process a token if kprofd measures
%% this request: else nothing is made of what the process has.
in_trace() ->
    case context(get(?OTEL_CTX), get(?LOGGER)) of
        none -> ok;
        Context -> in_trace(process_info(self(), sequential_trace_token), Context)
    end.

context(#{{otel_tracer, span_ctx} := Span}, _) when element(1, Span) =:= span_ctx -> Span;
context(_, #{otel_trace_id := _, otel_span_id := _} = Metadata) -> Metadata;
context(_, #{traceparent := Traceparent}) -> Traceparent;
context(_, _) -> none.

in_trace({_, []}, _) ->
    ok;
in_trace(_, Context) ->
    try traceparent(Context) of
        Traceparent -> ok = trace_id(Traceparent)
    catch
        _:_ -> ok                               % it is of another form
    end.

%% The record span_ctx begins with the ids, as numbers; in later releases of
%% OpenTelemetry's API the text of each follows it.
traceparent(Span) when is_integer(element(3, Span)) ->
    written(element(2, Span), element(3, Span), element(4, Span));
traceparent(Span) when is_tuple(Span) ->
    written(element(2, Span), element(4, Span), element(6, Span));
traceparent(#{otel_trace_id := Trace, otel_span_id := Span} = Metadata) ->
    Flags = maps:get(otel_trace_flags, Metadata, <<"00">>),
    iolist_to_binary(["00-", Trace, $-, Span, $-, Flags]);
traceparent(Traceparent) ->
    iolist_to_binary(Traceparent).

written(Trace, Span, Flags) ->
    iolist_to_binary(io_lib:format("00-~32.16.0b-~16.16.0b-~2.16.0b", [Trace, Span, Flags band 1])).
