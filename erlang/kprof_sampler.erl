%% kprof_sampler - what `kprof stacks` loads into a node.
%%
%% It is loaded over the distribution, serves one client, and is gone with it. At random moments
%% it looks at some processes, asks those that it chooses for their stack, and sends the functions
%% and lines of it. For an operator of the node: kprof_sampler:stop() ends it, and
%% {kprof, [{disabled, true}]} in the node's configuration keeps it out.
%%
%% Why it is safe:
%%   - it uses no tracing, so it meets nobody else's, and code runs at its full speed;
%%   - no argument and no value is sent, and nothing is copied from a process but its stack, its
%%     name and its label;
%%   - what it takes is measured, and limited to a share of one scheduler (kprof_sampler_budget);
%%   - it waits for no process: one that has not answered within 5 ms is not seen (kprof_ask);
%%   - what it keeps is bounded, and what it drops is counted;
%%   - it monitors the client and holds a lease, and when either ends it is gone.
%%
%% There are a server, processes that wait for others' answers in its place (kprof_ask,
%% kprof_sampler_groups), and a sentry that cleans up however the server ended.
-module(kprof_sampler).

-export([start/2, stop/0]).

-import(kprof_oneshot, [stop_host/1]).

-spec start(pid(), map()) -> {ok, pid(), map()} | {error, binary()}.
start(Client, Opts) ->
    kprof_oneshot:start(kprof_sampler_server:host(), Client, Opts).

-spec stop() -> ok | not_attached.
stop() ->
    stop_host(kprof_sampler_server:host()).
