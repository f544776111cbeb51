%% apps_probe - looks at the server's memory from within, twenty times a second.
-module(apps_probe).

-export([start/0, peak/0, runs/1, ours/0]).

-define(EVERY_MS, 50).

start() ->
    [erlang:garbage_collect(P) || P <- processes()],
    Probe = spawn(fun() -> watch(0) end),
    true = register(?MODULE, Probe),
    ok.

watch(Peak) ->
    receive
        {peak, From} -> From ! {?MODULE, Peak}
    after ?EVERY_MS ->
            watch(max(Peak, erlang:memory(total)))
    end.

%% The most so far, in bytes, and the end of the watch.
peak() ->
    Ref = monitor(process, ?MODULE),
    ?MODULE ! {peak, self()},
    receive {?MODULE, Peak} ->
            receive {'DOWN', Ref, _, _, _} -> Peak end
    end.

%% An application runs, with all that its start does behind it.
runs(App) ->
    lists:keymember(App, 1, application:which_applications()).

%% What there is of kprofd and kprof, whatever they call their parts: modules,
%% names, and processes that were started by these modules or run them.
ours() ->
    Modules = [M || {M, _} <- code:all_loaded(), lists:prefix("kprof", atom_to_list(M))],
    #{modules => lists:sort(Modules),
      registered => [N || N <- registered(), lists:prefix("kprof", atom_to_list(N))],
      processes => [Info || P <- processes(), Info <- [process_info(P, [initial_call, current_function])], Info =/= undefined,
                            lists:any(fun({_, {M, _, _}}) -> lists:member(M, Modules) end, Info)]}.
