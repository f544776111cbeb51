%% kprof_sampler_looks - the status of many processes, without waiting for any of them.
%%
%% process_info/2 waits for a process in native code or in a garbage collection that has signals
%% waiting, even if it asks for the status only. So a worker asks; one that stays with a process for
%% longer than ?ANSWER_MS is killed, and another goes on behind it. Such a process is asked again
%% later and later.
-module(kprof_sampler_looks).

-export([looker/0, statuses/2, looker_stop/1, looker_of/1]).
-export_type([looker/0]).

-import(kprof_ask, [status_of/1]).
-import(kprof_injected, [now_ms/0, process_label/2]).

-define(ANSWER_MS, 5).
-define(AGAIN_MS, 25).          % until it is asked again; doubled each time,
-define(AGAIN_MOST_MS, 10000).  % up to this
-define(MUTE_MAX, 1000).        % such processes; what is forgotten is asked too early
-define(STATUSES, {running, runnable, garbage_collecting, waiting}).
-define(GONE, 9).
-define(OTHER, 4).              % counts as waiting

-record(looker, {
    worker = none :: none | {pid(), reference()},
    mute = #{} :: #{pid() => {AgainAtMs :: integer(), WaitMs :: pos_integer()}}
}).
-opaque looker() :: #looker{}.

-spec looker() -> looker().
looker() -> #looker{}.

-spec looker_stop(looker()) -> ok.
looker_stop(#looker{worker = none}) -> ok;
looker_stop(#looker{worker = Worker}) -> looker_kill(Worker).

%% The process that looks, if there is one. It would always find itself running.
-spec looker_of(looker()) -> none | pid().
looker_of(#looker{worker = none}) -> none;
looker_of(#looker{worker = {Pid, _}}) -> Pid.

%% Processes that have ended are left out; not_seen: it does not answer.
-spec statuses([pid()], looker()) -> {#{pid() => atom()}, looker()}.
statuses(Pids, #looker{mute = Mute} = L0) ->
    Now = now_ms(),
    Is = fun(P) -> case Mute of #{P := {At, _}} -> At > Now; #{} -> false end end,
    {Unasked, Asked} = lists:partition(Is, Pids),
    Codes = atomics:new(max(1, length(Asked)), []),
    Tuple = list_to_tuple(Asked),
    {Stuck, L} = look_from(1, Tuple, Codes, [], L0),
    Found = maps:from_list([{P, status_text(Code)}
                            || {P, Code} <- codes(tuple_size(Tuple), Tuple, Codes, []),
                            Code =/= ?GONE]),
    {maps:merge(Found, maps:from_keys(Stuck ++ Unasked, not_seen)),
     L#looker{mute = muted(Stuck, Found, Now, L#looker.mute)}}.

status_text(Code) -> element(Code, ?STATUSES).

codes(0, _, _, Acc) -> Acc;
codes(I, Tuple, Codes, Acc) ->
    case atomics:get(Codes, I) of
        0 -> codes(I - 1, Tuple, Codes, Acc);
        Code -> codes(I - 1, Tuple, Codes, [{element(I, Tuple), Code} | Acc])
    end.

look_from(From, Tuple, _, Stuck, L) when From > tuple_size(Tuple) ->
    {Stuck, L};
look_from(From, Tuple, Codes, Stuck, L0) ->
    L = with_looker(L0),
    {Pid, Monitor} = L#looker.worker,
    Ref = make_ref(),
    Pid ! {look, Ref, self(), From, Tuple, Codes},
    case look_await(From, Tuple, Codes, Ref, Monitor) of
        done -> {Stuck, L};
        {stuck, At} ->
            looker_kill(L#looker.worker),
            receive {Ref, done} -> ok after 0 -> ok end,
            look_from(At + 1, Tuple, Codes, [element(At, Tuple) | Stuck], L#looker{worker = none})
    end.

%% A worker that is only slow is waited for.
look_await(At, Tuple, Codes, Ref, Monitor) ->
    receive
        {Ref, done} -> done;
        {'DOWN', Monitor, process, _, _} -> {stuck, look_at(At, Tuple, Codes)}
    after ?ANSWER_MS ->
            case look_at(At, Tuple, Codes) of
                At when At =< tuple_size(Tuple) -> {stuck, At};
                Further -> look_await(Further, Tuple, Codes, Ref, Monitor)
            end
    end.

%% The first that has no status yet.
look_at(At, Tuple, Codes) when At =< tuple_size(Tuple) ->
    case atomics:get(Codes, At) of
        0 -> At;
        _ -> look_at(At + 1, Tuple, Codes)
    end;
look_at(At, _, _) -> At.

muted(Stuck, Found, Now, Mute0) ->
    Mute = maps:without(maps:keys(maps:with(maps:keys(Mute0), Found)), Mute0),
    lists:foldl(fun(P, M) ->
                        Wait = case Mute0 of
                                   #{P := {_, Ms}} -> min(2 * Ms, ?AGAIN_MOST_MS);
                                   #{} -> ?AGAIN_MS
                               end,
                        Kept = if map_size(M) < ?MUTE_MAX -> M; true -> #{} end,
                        Kept#{P => {Now + Wait, Wait}}
                end, Mute, Stuck).

%% ------------------------------------------------------------ the worker ----

%% Linked, so that it ends with the server also where it waits for an answer.
with_looker(#looker{worker = none} = L) ->
    Owner = self(),
    L#looker{worker = spawn_opt(fun() ->
                                        process_label(kprof_sampler, looker),
                                        looker_loop(erlang:monitor(process, Owner))
                                end, [link, monitor, {priority, high}])};
with_looker(L) -> L.

looker_kill({Pid, Monitor}) ->
    unlink(Pid),
    exit(Pid, kill),
    erlang:demonitor(Monitor, [flush]),
    ok.

looker_loop(Monitor) ->
    receive
        {look, Ref, Server, From, Tuple, Codes} ->
            looker_look(From, Tuple, Codes),
            Server ! {Ref, done},
            looker_loop(Monitor);
        {'DOWN', Monitor, process, _, _} -> ok
    end.

looker_look(I, Tuple, _) when I > tuple_size(Tuple) -> ok;
looker_look(I, Tuple, Codes) ->
    atomics:put(Codes, I, case status_of(element(I, Tuple)) of
                              undefined -> ?GONE;
                              running -> 1;
                              runnable -> 2;
                              garbage_collecting -> 3;
                              _ -> ?OTHER
                          end),
    looker_look(I + 1, Tuple, Codes).
