%% kprof_tracer - what `kprof trace` loads into a node.
%%
%% It is loaded over the distribution, serves one client, and is gone with it. The VM reports
%% every call of the functions that it is given, and when the chosen processes run, wait and
%% collect garbage; it sends these events to the client. For an operator of the node:
%% kprof_tracer:stop() ends it, and {kprof, [{disabled, true}]} in the node's configuration
%% keeps it out.
%%
%% Why it is safe:
%%   - no argument and no return value is sent, except the value of an expression that the user
%%     gave, as a text of bounded size; where requests are to be of one type, the types that
%%     the user's fun makes; and where the user asked for arguments, those that are small
%%     (kprof_tracer_patterns);
%%   - nothing large is copied, except what a process is spawned with, the reason that it ends
%%     for, and by request the messages of a request;
%%   - events, its queue and the memory that the node grows by are limited: past a limit it
%%     takes back at once what it armed, and sends what is there;
%%   - it monitors the client and holds a lease; when either ends it is gone.
%%
%% There are two processes: the server, which is the tracer, and a sentry that cleans up
%% however the server ended. A third ends a trace of fixed length. With the native probe the
%% tracer is a module of native code, whose rings the server empties (kprof_tracer_events). From
%% OTP 27 on all tracing is in a trace session, whose only handle is the server's. On 25 and 26
%% functions that somebody else traces are refused, and such processes are left alone.
-module(kprof_tracer).

-export([start/2, stop/0]).

-import(kprof_oneshot, [stop_host/1]).

-spec start(pid(), map()) -> {ok, pid(), map()} | {error, binary()}.
start(Client, Opts) ->
    kprof_oneshot:start(kprof_tracer_server:host(), Client, Opts).

-spec stop() -> ok | not_attached.
stop() ->
    stop_host(kprof_tracer_server:host()).
