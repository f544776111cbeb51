%% kprof_sampler_looks - the status of many processes, without waiting for any of them.
%%
%% process_info/2 waits for a process in native code or in a garbage collection that has signals
%% waiting, even if it asks for the status only. So a worker asks; one that stays with a process for
%% longer than ?ANSWER_MS is killed, and another goes on behind it. Such a process is asked again
%% later and later.
-module(kprof_sampler_looks).

-export([looker/0, statuses/2, looker_stop/1, looker_of/1]).
-export_type([looker/0]).

-import(kprof_ask, [ask_later/2, is_silent/3, status_of/1, worker_kill/1, worker_start/3]).
-import(kprof_injected, [now_ms/0]).

-define(ANSWER_MS, 5).
-define(STATUSES, {running, runnable, garbage_collecting, waiting}).
-define(GONE, 9).
-define(OTHER, 4).              % counts as waiting

-record(looker, {
    worker = none :: none | {pid(), reference()},
    mute = #{} :: kprof_ask:silent()
}).
-opaque looker() :: #looker{}.

-spec looker() -> looker().
looker() -> #looker{}.

-spec looker_stop(looker()) -> ok.
looker_stop(#looker{worker = none}) -> ok;
looker_stop(#looker{worker = Worker}) -> worker_kill(Worker).

%% The process that looks, if there is one. It would always find itself running.
-spec looker_of(looker()) -> none | pid().
looker_of(#looker{worker = none}) -> none;
looker_of(#looker{worker = {Pid, _}}) -> Pid.

%% Processes that have ended are left out; not_seen: it does not answer.
-spec statuses([pid()], looker()) -> {#{pid() => atom()}, looker()}.
statuses(Pids, #looker{mute = Mute} = L0) ->
    Now = now_ms(),
    {Unasked, Asked} = lists:partition(fun(P) -> is_silent(P, Now, Mute) end, Pids),
    Codes = atomics:new(max(1, length(Asked)), []),
    Tuple = list_to_tuple(Asked),
    {Stuck, L} = look_from(1, Tuple, Codes, [], L0),
    Found = maps:from_list([{P, status_text(Code)}
                            || {P, Code} <- codes(tuple_size(Tuple), Tuple, Codes, []),
                            Code =/= ?GONE]),
    {maps:merge(Found, maps:from_keys(Stuck ++ Unasked, not_seen)),
     L#looker{mute = muted(Stuck, Found, L#looker.mute)}}.

status_text(Code) -> element(Code, ?STATUSES).

codes(0, _, _, Acc) -> Acc;
codes(I, Tuple, Codes, Acc) ->
    case atomics:get(Codes, I) of
        0 -> codes(I - 1, Tuple, Codes, Acc);
        Code -> codes(I - 1, Tuple, Codes, [{element(I, Tuple), Code} | Acc])
    end.

look_from(From, Tuple, _, Stuck, L) when From > tuple_size(Tuple) -> {Stuck, L};
look_from(From, Tuple, Codes, Stuck, L0) ->
    L = with_looker(L0),
    Ref = make_ref(),
    element(1, L#looker.worker) ! {look, Ref, self(), From, Tuple, Codes},
    case look_await(From, Tuple, Codes, Ref) of
        done -> {Stuck, L};
        {stuck, At} ->
            worker_kill(L#looker.worker),
            receive {Ref, done} -> ok after 0 -> ok end,
            look_from(At + 1, Tuple, Codes, [element(At, Tuple) | Stuck], L#looker{worker = none})
    end.

%% A worker that is only slow is waited for. One that somebody has killed does not go on.
look_await(At, Tuple, Codes, Ref) ->
    receive
        {Ref, done} -> done
    after ?ANSWER_MS ->
            case look_at(At, Tuple, Codes) of
                At when At =< tuple_size(Tuple) -> {stuck, At};
                Further -> look_await(Further, Tuple, Codes, Ref)
            end
    end.

%% The first that has no status yet.
look_at(At, Tuple, Codes) when At =< tuple_size(Tuple) ->
    case atomics:get(Codes, At) of
        0 -> At;
        _ -> look_at(At + 1, Tuple, Codes)
    end;
look_at(At, _, _) -> At.

muted(Stuck, Found, Mute) ->
    Left = maps:without(maps:keys(maps:with(maps:keys(Mute), Found)), Mute),
    lists:foldl(fun(P, M) -> ask_later(P, M) end, Left, Stuck).

%% ------------------------------------------------------------ the worker ----

with_looker(#looker{worker = none} = L) ->
    L#looker{worker = worker_start(kprof_sampler, looker, fun looker_loop/1)};
with_looker(L) -> L.

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
