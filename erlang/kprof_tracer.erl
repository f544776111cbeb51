%% kprof_tracer - what `kprof trace` puts into a node.
%%
%% Loaded over the distribution, started for one client, and gone with it. It
%% has the VM tell it of every call of the functions that it is given, and when
%% the chosen processes run, wait and collect garbage, and sends that on. For an
%% operator of the node: kprof_tracer:stop() ends it, and
%% {kprof, [{disabled, true}]} in the node's configuration keeps it out.
%%
%% What is safe about it: no argument and no return value is in what it sends, but
%% for the value of an expression that the user gave, as a text of bounded size,
%% and none is copied but what a process is spawned with and the reason that it
%% ends for; by request, what is sent for one as well, and where requests are to
%% be of one identity, the identities that the user's fun makes; and of arguments,
%% where the user asked for them, what is small (kprof_tracer_args). Events, its queue
%% and what the node grows by are bounded: past a
%% limit it takes back what it armed at once, and sends what is there. It
%% monitors the client and holds a lease; when either ends it is gone.
%%
%% Two processes: the server, which is the tracer, and a sentry that cleans up
%% behind it however it ended; and a third where it is to end by the clock. Or the tracer is a module of native code, from
%% whose rings the server takes what it sends (kprof_tracer_rings). From OTP 27 on
%% all is in one trace session, whose only handle is the server's. On 25 and 26
%% functions and processes that somebody else traces are refused or left alone.
-module(kprof_tracer).

-export([start/2, stop/0]).

-spec start(pid(), map()) -> {ok, pid(), map()} | {error, binary()}.
start(Client, Opts) ->
    kprof_oneshot:start(kprof_tracer_server:host(), Client, Opts).

-spec stop() -> ok | not_attached.
stop() ->
    kprof_oneshot:stop(kprof_tracer_server:host()).
