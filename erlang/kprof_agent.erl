%% kprof_agent - what kprofd loads into a node that it profiles.
%%
%% It is loaded over the distribution, serves one daemon, and is gone with it. For an operator
%% of the node:
%%
%%   kprof_agent:status().   % who attached, what is armed, what it cost
%%   kprof_agent:stop().     % ends it now: everything is taken back
%%
%% and {kprof, [{disabled, true}]} in the node's configuration keeps it out;
%% {kprof, [{accept_library, false}]} only keeps out libraries that kprofd sends (-probe-send).
%%
%% Why it is safe:
%%   - it obeys only the process that it was started for, and arms only the functions that it
%%     is given;
%%   - no argument and no return value leaves the node unless the user asked for it;
%%   - it limits its own queue, memory and lag, and switches tracing off by itself, at once,
%%     when a limit is passed;
%%   - it monitors the daemon and holds a lease, and when either ends it takes back what it
%%     armed;
%%   - if it does nothing any more, another process ends it and takes back what it armed.
%%
%% When code is loaded or deleted the agent notices, and sets the patterns of new code again.
%%
%% There are two processes. The agent is the tracer and sends batches; with the native probe
%% (kprof_probe) that is the tracer, and the agent empties its rings. The sentry only
%% looks for signs of life while the agent lives, and kills an agent that gives none. It cleans
%% up however the agent ended, kill included, and then has these modules purged by a process that
%% runs none of their code. From OTP 27 on all tracing is in a trace session whose only handle is
%% in the agent's state, so that the session cannot outlive it.
-module(kprof_agent).

-export([start/2, status/0, stop/0]).

-import(kprof_sentry, [host_start/5]).

-include("kprof_agent.hrl").

%% ---------------------------------------------------------------- start ----

%% Called over rex. Opts: protocol, who, lease_ms, max_queue, max_memory (bytes), max_age_ms,
%% word (the value that the trace control word is to have now). If it does not start, nothing
%% stays, this module included.
-spec start(pid(), map()) -> {ok, pid(), map()} | {error, term()}.
start(Daemon, Opts) when is_pid(Daemon), is_map(Opts) ->
    Starter = self(),
    Init = fun() -> kprof_agent_server:init(Starter, Daemon, Opts) end,
    case host_start(?MODULE, ?LOADED, Daemon, Init, 5000) of
        {error, {ended, Why}} -> {error, Why};
        {error, gone} -> {error, daemon_gone};
        Result -> Result
    end.

%% ------------------------------------------------------ operator's calls ----

-spec status() -> map() | not_attached | timeout.
status() ->
    ask(status).

-spec stop() -> ok | not_attached | timeout.
stop() ->
    ask(stop).

ask(What) ->
    case whereis(?MODULE) of
        undefined -> not_attached;
        Pid -> ask(Pid, What)
    end.

%% An agent that gives way (kprof_agent_foreign) has an heir, which is asked then.
ask(Pid, What) ->
    Ref = erlang:monitor(process, Pid),
    Pid ! {?MODULE, What, self(), Ref},
    receive
        {Ref, Answer} ->
            erlang:demonitor(Ref, [flush]),
            Answer;
        {'DOWN', Ref, process, Pid, {moved, Heir}} -> ask(Heir, What);
        {'DOWN', Ref, process, Pid, _} -> not_attached
    after 5000 ->
            erlang:demonitor(Ref, [flush]),
            timeout
    end.
