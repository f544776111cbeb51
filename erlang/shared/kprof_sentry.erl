%% kprof_sentry - how a module that was loaded into a target starts, and the process that takes back
%% what it set there, however it ended. For kprof_agent, and by kprof_oneshot for the others.
%%
%% A sentry knows what to take back without the server's help, but no session: that dies with the
%% server's handle. When all is taken back, a process that runs none of this code purges the module.
-module(kprof_sentry).

-export([host_start/5, sentry_start/5]).

-import(kprof_injected, [disabled/0, is_connected/1, purger_start/3, spawn_monitored/3]).

-define(LOOKS, 8).      % without a sign of life between them, before the server is killed

-record(sentry, {
    name :: module(),
    loaded :: [module()],       % go with it
    clean :: fun((term(), pid(), term()) -> term()),
    own :: term(),
    server :: pid(),
    monitor :: reference(),
    every :: timeout(),         % ms between two looks for a sign of life
    silent = 0 :: non_neg_integer() | killed    % looks in a row that found none
}).

%% Called over rex: runs Init in a process, which sends {self(), Info} to its starter. If it does
%% not start within Ms, nothing stays, the modules included.
-spec host_start(module(), [module()], pid(), fun(() -> no_return()), pos_integer()) ->
          {ok, pid(), term()} | {error, disabled | gone | timeout | {ended, term()}}.
host_start(Name, Loaded, Client, Init, Ms) ->
    Result = case {disabled(), is_connected(node(Client))} of
                 {true, _} -> {error, disabled};
                 {_, false} -> {error, gone};
                 _ -> server_start(Init, Ms)
             end,
    element(1, Result) =:= ok orelse purger_start(Name, Loaded, [self()]),
    Result.

server_start(Init, Ms) ->
    {Pid, Ref} = spawn_monitor(Init),
    receive
        {Pid, Info} ->
            erlang:demonitor(Ref, [flush]),
            {ok, Pid, Info};
        {'DOWN', Ref, process, Pid, Reason} -> {error, {ended, Reason}}
    after Ms ->
            exit(Pid, kill),
            {error, timeout}
    end.

%% The sentry of the calling process. Clean(Reason, Server, Own) takes back Own, which the last
%% {own, Own} told of; none: nothing is to be done. Reason: `silent` where it has killed the server,
%% which gave no sign of life for two of its leases (infinity: it need not). Who has to has high
%% priority, and so has the sentry.
-spec sentry_start(module(), [module()], timeout(), term(),
                   fun((Reason :: term(), pid(), Own :: term()) -> term())) -> {pid(), reference()}.
sentry_start(Name, Loaded, LeaseMs, Own, Clean) ->
    Server = self(),
    spawn_monitored(
      Name, sentry,
      fun() ->
              _ = LeaseMs =:= infinity orelse process_flag(priority, high),
              sentry(#sentry{name = Name, loaded = Loaded, clean = Clean, own = Own,
                             server = Server,
                             monitor = erlang:monitor(process, Server), every = every(LeaseMs)})
      end).

every(infinity) -> infinity;
every(LeaseMs) -> max(1, 2 * LeaseMs div ?LOOKS).

%% Looks are counted, since the whole node may have been stopped for some time.
sentry(#sentry{silent = ?LOOKS, server = Server} = S) ->
    exit(Server, kill),
    sentry(S#sentry{silent = killed});
sentry(#sentry{monitor = Ref, server = Server, silent = Silent} = S) ->
    receive
        {own, Own} -> sentry(heard(S#sentry{own = Own}));
        alive -> sentry(heard(S));
        {alive, LeaseMs} -> sentry(heard(S#sentry{every = every(LeaseMs)}));
        {heir, Heir} ->
            %% Also where the server was killed as it gave way: the heir is another process.
            erlang:demonitor(Ref, [flush]),
            sentry(S#sentry{monitor = erlang:monitor(process, Heir), server = Heir, silent = 0});
        {'DOWN', Ref, process, Server, Reason} ->
            sentry_clean(if Silent =:= killed -> silent; true -> Reason end, S)
    after if Silent =:= killed -> infinity; true -> S#sentry.every end ->
            sentry(S#sentry{silent = Silent + 1})
    end.

heard(#sentry{silent = killed} = S) -> S;
heard(S) -> S#sentry{silent = 0}.

sentry_clean(_, #sentry{own = none}) -> ok;
sentry_clean(Reason, #sentry{name = Name, loaded = Loaded, server = Server, own = Own} = S) ->
    (S#sentry.clean)(Reason, Server, Own),
    purger_start(Name, Loaded, [Server, self()]).
