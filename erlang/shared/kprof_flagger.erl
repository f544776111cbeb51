%% kprof_flagger - sets and takes trace flags of many processes without stopping the world. For
%% every module that is loaded into a target.
%%
%% erlang:trace(all | existing, ..) stops all schedulers while it visits each process: 140 to
%% 230 ms where there are 300,000. One by one it takes 0.3 to 1 us of CPU time for each process,
%% and nobody waits. But the VM needs the process's main lock for that, which the process holds
%% while it runs a NIF or collects garbage: the caller then waits with its whole scheduler. So
%% each process is asked for its status first. A process that waits answers at once. One that
%% runs answers when it is scheduled, or at the end of a NIF: only the process that asks waits
%% for that, and it is another one.
%%
%%   walker -------- slices of SLICE processes -------> worker
%%      |                                               asks for the status, and visits
%%      |                                               processes that wait
%%      +----- one for each that runs, ASKERS at most --> asker
%%                                                      asks again after 1, 2, 4 .. 250 ms;
%%                                                      visits when it waits, or after GOOD
%%                                                      answers that show that it runs Erlang
%%                                                      code
%%
%% A process that only runs native code stays with its asker for as long as it lives. All
%% processes of a walk end with their owner, who may be killed. They must not be traced by
%% the owner's own flags, so the walk leaves them out.
%%
%% Flags:
%%   flags_start(Session, Tracer, Changes, Which) -> Walk
%%       Changes: [{true | false, Flags}], made in this order, for each process of Which:
%%       all | existing | new | [Pid]. The caller changes the setting for new processes
%%       before this returns (all, new). Never touches ports.
%%       Legacy: changes only processes whose tracer is Tracer, or that have none.
%%   flags_clear(Session, Tracer, Ms) -> Left
%%       Takes all flags of all processes and of new ones; waits for it, Ms at most.
%%       Returns how many processes still have them: those run native code.
%%
%% Walks, for any question or change (Walk is opaque):
%%   walk_start(Visit, How, Which) -> Walk
%%       Visit(Pid) -> skip | {found, Term}, called for each process: when it waits or runs
%%       Erlang code (How = wait), or at once (How = ask: Visit only asks, and may have to
%%       wait for the answer; after a while the process is left out).
%%   walk_found(Visit) -> {N, Found}     of all processes that let us; waits for it
%%   walk_await(Walk, Ms) -> {walked, Left, N, Found} | timeout
%%   walk_stop(Walk) -> ok      ends it, wherever it is
%%   walk_pid(Walk) -> Pid
%%       in the messages that the owner gets:
%%         {walk, Pid, {walked, Left, N, Found}}  every process was visited except Left,
%%                   which have not answered for SETTLE_MS; N were found, and Found are
%%                   FOUND of them at most
%%         {walk, Pid, {left, Left}}    there are fewer now; the last message has 0
%%         {'DOWN', _, process, Pid, done}        that was all; any other reason:
%%                   somebody has killed it
-module(kprof_flagger).

-export([flags_start/4, flags_clear/3, walk_start/3, walk_pid/1, walk_await/2, walk_found/1,
         walk_stop/1]).
-export_type([session/0, tracer/0, walk/0]).

-import(kprof_injected, [now_ms/0, process_label/2]).

-type session() :: legacy | tuple().                    % a trace session: OTP 27 and later
-type tracer() :: pid() | {module(), term()}.
-type walk() :: {pid(), reference()}.

-define(SLICE, 100).            % processes between two yields: well below 1 ms
-define(ASK_MS, 5).             % an asker waits for an answer that takes longer
-define(PROMPT_US, 5000).       % a prompt answer, on a node with time to spare
-define(MUCH, 200).             % reductions in a millisecond: much Erlang code
-define(LARGE_WORDS, 1000000).  % of a heap that takes some ms to collect
-define(GOOD, 3).               % excess of good answers over others
-define(ASKERS, 200).           % processes that are waited for at a time
-define(AGAIN_MS, 250).         % longest wait between two questions; then other
                                % processes have their turn
-define(SETTLE_MS, 500).        % time for processes that run, before they count as Left
-define(FOUND, 1000).           % found terms in a message

-record(walk, {
    owner :: pid(),
    owner_ref :: reference(),
    visit :: fun((pid()) -> skip | {found, term()}),
    how :: wait | ask,
    index :: counters:counters_ref(),   % the worker's position in its slice
    worker :: undefined | pid(),
    askers = #{} :: #{Asker :: pid() => pid()},
    queue = [] :: [pid()],              % processes that run, and have no asker
    n = 0 :: non_neg_integer(),         % found
    found = [] :: [term()],
    left :: undefined | non_neg_integer()       % in the last message
}).

%% ---------------------------------------------------------------- flags ----

-spec flags_start(session(), tracer(), [{boolean(), [atom()]}], all | existing | new | [pid()]) ->
          walk().
flags_start(Session, Tracer, Changes, Which) ->
    Visit = fun(P) -> flags_visit(P, Session, Tracer, Changes) end,
    Walk = walk_ready(Visit, wait, Which),
    [flags_new(Session, Tracer, C) || C <- Changes, Which =:= all orelse Which =:= new],
    walk_go(Walk, case Which of new -> []; _ -> Which end).

-spec flags_clear(session(), tracer(), timeout()) -> non_neg_integer() | unknown.
flags_clear(Session, Tracer, Ms) ->
    Walk = flags_start(Session, Tracer, [{false, [all]}], all),
    Left = case walk_await(Walk, Ms) of
               {walked, Some, _, _} -> Some;
               timeout -> unknown
           end,
    walk_stop(Walk),
    Left.

%% Before OTP 27 there is one setting for everybody. From then on trace:process/4 takes
%% new_processes, but its type leaves that out.
-dialyzer({nowarn_function, flags_new/3}).
flags_new(legacy, Tracer, {How, Flags}) ->
    case erlang:trace_info(new_processes, tracer) of
        {tracer, T} when T =:= Tracer; T =:= [], How ->
            erlang:trace(new_processes, How, [tracer_flag(Tracer) || How] ++ Flags);
        _ -> 0
    end;
flags_new(Session, _, {How, Flags}) ->
    try trace:process(Session, new_processes, How, Flags)
    catch error:badarg -> 0     % somebody has destroyed it
    end.

%% With the tracer named, the VM refuses to change a process that another one traces, and each
%% time puts an error report into the target's log. Asking first costs ten times as much, and
%% wakes the process. So a walk does not ask until the first refusal; processes that run are
%% always asked.
flags_visit(P, legacy, Tracer, Changes) ->
    case get(unchecked) =:= true andalso flags_change(legacy, Tracer, P, Changes) of
        ok -> skip;
        _ ->
            case erlang:trace_info(P, tracer) of
                {tracer, T} when T =/= [], T =/= Tracer ->
                    erase(unchecked),
                    case lists:keymember(true, 1, Changes) of
                        true -> {found, {P, T}};
                        false -> skip
                    end;
                {tracer, _} -> _ = flags_change(legacy, Tracer, P, Changes), skip;
                undefined -> skip
            end
    end;
flags_visit(P, Session, Tracer, Changes) ->
    _ = flags_change(Session, Tracer, P, Changes),
    skip.

%% One change after the other until one is refused, as also happens where the process has ended.
flags_change(_, _, _, []) -> ok;
flags_change(Session, Tracer, P, [{How, Flags} | More]) ->
    try
        case Session of
            legacy -> erlang:trace(P, How, [tracer_flag(Tracer) | Flags]);
            _ -> trace:process(Session, P, How, Flags)
        end
    of _ -> flags_change(Session, Tracer, P, More)
    catch error:badarg -> refused
    end.

tracer_flag({Module, State}) -> {tracer, Module, State};
tracer_flag(Pid) -> {tracer, Pid}.

%% ---------------------------------------------------------------- walks ----

-spec walk_start(fun((pid()) -> skip | {found, term()}), wait | ask, all | existing | [pid()]) ->
          walk().
walk_start(Visit, How, Which) ->
    walk_go(walk_ready(Visit, How, Which), Which).

%% Started before the setting for new processes is changed, so that it is not traced itself.
walk_ready(Visit, How, Which) ->
    Owner = self(),
    {Pid, Ref} = spawn_opt(fun() -> walk(Owner, Visit, How) end,
                           [monitor, {min_heap_size, walk_words(Which)}]),
    receive
        {walk, Pid, ready} -> ok;
        {'DOWN', Ref, process, Pid, _} = Down -> self() ! Down
    end,
    {Pid, Ref}.

%% A process takes two words in the list, and two in a slice: so nothing is garbage collected,
%% which would take some 20 ms of a list that long.
walk_words(Ps) when is_list(Ps) -> 4096 + 5 * length(Ps);
walk_words(new) -> 4096;
walk_words(_) -> 4096 + 5 * erlang:system_info(process_count).

walk_go({Pid, _} = Walk, Which) ->
    Pid ! {go, Which},
    Walk.

-spec walk_pid(walk()) -> pid().
walk_pid({Pid, _}) -> Pid.

-spec walk_await(walk(), timeout()) ->
          {walked, non_neg_integer(), non_neg_integer(), [term()]} | timeout.
walk_await({Pid, Ref}, Ms) ->
    receive
        {walk, Pid, {walked, _, _, _} = Walked} -> Walked;
        {'DOWN', Ref, process, Pid, _} = Down -> self() ! Down, timeout
    after Ms -> timeout
    end.

-spec walk_found(fun((pid()) -> skip | {found, term()})) -> {non_neg_integer(), [term()]}.
walk_found(Visit) ->
    Walk = walk_start(Visit, wait, all),
    Found = case walk_await(Walk, infinity) of
                {walked, _, N, Some} -> {N, Some};
                timeout -> {0, []}
            end,
    walk_stop(Walk),
    Found.

-spec walk_stop(walk()) -> ok.
walk_stop({Pid, Ref}) ->
    exit(Pid, kill),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% The processes of the walk are linked to it, so that none of them outlives it.
walk(Owner, Visit, How) ->
    process_flag(trap_exit, true),
    process_label(kprof, walk),
    W0 = #walk{owner = Owner, owner_ref = erlang:monitor(process, Owner), visit = Visit, how = How,
               index = counters:new(1, [atomics])},
    W = W0#walk{worker = walk_worker(W0)},
    Owner ! {walk, self(), ready},
    receive
        {go, Which} -> walk_slices(walked(Which), W);
        {'DOWN', _, process, Owner, _} -> exit(gone)
    end.

walked(Ps) when is_list(Ps) -> Ps;
walked(_) -> processes().

walk_slices([], W) -> walk_last(now_ms() + ?SETTLE_MS, W);
walk_slices(Ps, #walk{worker = Worker, index = Index} = W) ->
    {Slice, More} = walk_split(?SLICE, Ps, []),
    counters:put(Index, 1, 0),
    Worker ! {slice, Slice},
    {Rest, W1} = walk_slice(Slice, 0, now_ms() + ?ASK_MS, W),
    walk_slices(Rest ++ More, W1).

walk_split(N, [P | Ps], Slice) when N > 0 -> walk_split(N - 1, Ps, [P | Slice]);
walk_split(_, Ps, Slice) -> {lists:reverse(Slice), Ps}.

%% Returns what the worker has not come to, if it was stuck and had to be replaced.
walk_slice(Slice, At, Until, #walk{worker = Worker, index = Index} = W) ->
    receive
        {visited, Worker} -> {[], W};
        {'EXIT', Worker, _} -> walk_without(Slice, W);  % somebody has killed it
        Msg -> walk_slice(Slice, At, Until, walk_message(Msg, W))
    after max(0, Until - now_ms()) ->
            case counters:get(Index, 1) of
                At when At > 0 -> walk_stuck(Slice, W);
                Now -> walk_slice(Slice, Now, now_ms() + ?ASK_MS, W)
            end
    end.

walk_stuck(Slice, #walk{worker = Worker} = W) ->
    exit(Worker, kill),
    receive {'EXIT', Worker, _} -> ok end,
    walk_without(Slice, W).

%% An asker waits for the process that it was at.
walk_without(Slice, #walk{index = Index} = W) ->
    {_, [P | Rest]} = lists:split(max(0, counters:get(Index, 1) - 1), Slice),
    W1 = W#walk{worker = walk_worker(W)},
    {Rest, walk_ask(P, W1)}.

walk_message({found, Term}, #walk{n = N, found = Found} = W) ->
    W#walk{n = N + 1, found = if N < ?FOUND -> [Term | Found]; true -> Found end};
walk_message({busy, P}, W) -> walk_ask(P, W);
walk_message({'EXIT', Pid, _}, W) -> walk_ended(Pid, W);
walk_message({'DOWN', Ref, process, _, _}, #walk{owner_ref = Ref}) -> exit(gone);
walk_message(_, W) -> W.

walk_ask(_, #walk{how = ask} = W) -> W;
walk_ask(P, #walk{queue = Queue} = W) -> walk_askers(W#walk{queue = [P | Queue]}).

walk_askers(#walk{queue = [P | Queue], askers = Askers} = W) when map_size(Askers) < ?ASKERS ->
    Walker = self(),
    #walk{visit = Visit} = W,
    Asker = spawn_link(fun() ->
                               process_label(kprof, asker),
                               asker(P, 0, 1, none, Visit, Walker)
                       end),
    walk_askers(W#walk{queue = Queue, askers = Askers#{Asker => P}});
walk_askers(W) -> W.

walk_ended(Pid, #walk{askers = Askers} = W) when is_map_key(Pid, Askers) ->
    walk_askers(W#walk{askers = maps:remove(Pid, Askers)});
walk_ended(_, W) -> W.

%% Every process was asked once.
walk_last(_, #walk{askers = Askers} = W) when map_size(Askers) =:= 0 ->
    _ = walk_report(0, W),
    exit(done);
walk_last(Until, W) ->
    receive Msg -> walk_last(Until, walk_message(Msg, W))
    after max(0, min(?AGAIN_MS, Until - now_ms())) ->
            case now_ms() >= Until of
                true ->
                    Again = now_ms() + ?AGAIN_MS,
                    walk_last(Again, walk_rotate(walk_report(walk_left(W), W)));
                false -> walk_last(Until, W)
            end
    end.

walk_left(#walk{askers = Askers, queue = Queue}) ->
    map_size(Askers) + length(Queue).

walk_report(Left, #walk{left = Left} = W) -> W;
walk_report(Left, #walk{owner = Owner, left = Was, n = N, found = Found} = W) ->
    Owner ! {walk, self(), case Was of
                               undefined -> {walked, Left, N, lists:reverse(Found)};
                               _ -> {left, Left}
                           end},
    W#walk{left = Left}.

%% Askers give up their processes in favour of those that have had no turn.
walk_rotate(#walk{queue = []} = W) -> W;
walk_rotate(#walk{askers = Askers, queue = Queue} = W) ->
    [begin exit(A, kill), receive {'EXIT', A, _} -> ok end end || A <- maps:keys(Askers)],
    walk_askers(W#walk{askers = #{}, queue = Queue ++ maps:values(Askers)}).

walk_worker(#walk{owner = Owner} = W) ->
    Walker = self(),
    spawn_link(fun() ->
                       process_label(kprof, worker),
                       put(unchecked, true),
                       worker(Walker, [Owner, Walker, self()], W)
               end).

worker(Walker, Own, W) ->
    receive
        {slice, Ps} ->
            worker_slice(Ps, 1, Walker, Own, W),
            Walker ! {visited, self()},
            worker(Walker, Own, W)
    end.

worker_slice([], _, _, _, _) -> ok;
worker_slice([P | Ps], I, Walker, Own, #walk{index = Index, visit = Visit, how = How} = W) ->
    counters:put(Index, 1, I),
    case may_visit(P, How, Own) of
        true -> visit(P, Visit, Walker);
        false -> Walker ! {busy, P};
        none -> ok
    end,
    worker_slice(Ps, I + 1, Walker, Own, W).

may_visit(P, How, Own) ->
    case lists:member(P, Own) of
        true -> none;
        false when How =:= ask -> true;
        false ->
            case process_info(P, status) of
                {status, Status} -> Status =:= waiting orelse Status =:= suspended;
                undefined -> none
            end
    end.

visit(P, Visit, Walker) ->
    case Visit(P) of
        {found, _} = Found -> Walker ! Found;
        skip -> ok
    end.

%% A good answer is prompt. On a busy node it may take as long as a turn of our own takes, if much
%% Erlang code was run since the last answer: each call counts as a reduction, a NIF as one or
%% few. A garbage collection counts as many: where the heap is large, which makes it long, only
%% prompt answers are good.
asker(P, Good, Wait, Before, Visit, Walker) ->
    T0 = now_us(),
    erlang:yield(),
    T1 = now_us(),
    Answer = process_info(P, [status, reductions, total_heap_size]),
    Now = now_us(),
    case Answer of
        undefined -> ok;
        [{status, Status} | _] when Status =:= waiting; Status =:= suspended ->
            visit(P, Visit, Walker);
        [_, {reductions, N}, {_, Words}] ->
            Took = Now - T1,
            IsBusy = Words < ?LARGE_WORDS andalso Took =< 3 * (T1 - T0) andalso
                is_much({Now, N}, Before),
            case Took =< ?PROMPT_US orelse IsBusy of
                true when Good + 1 =:= ?GOOD -> visit(P, Visit, Walker);
                IsGood ->
                    receive after Wait -> ok end,
                    More = if IsGood -> Good + 1; true -> max(0, Good - 1) end,
                    asker(P, More, min(2 * Wait, ?AGAIN_MS), {Now, N}, Visit, Walker)
            end
    end.

is_much({Now, N1}, {Then, N0}) -> (N1 - N0) * 1000 >= ?MUCH * (Now - Then);
is_much(_, none) -> false.

now_us() ->
    erlang:monotonic_time(microsecond).
