%% kprof_agent_stacks - samples the stacks of processes that work for requests.
%%
%% The sampler is a process of its own, because asking other processes takes time. At a tick the
%% agent gives it the processes of calls that it has seen since the last tick: they and those that
%% had a token of ours when they were looked at are the candidates. The sampler looks at them, or
%% at a random part of them, and sends the stacks of those with a token of ours to the daemon:
%%
%%   {kprof_stacks, SentAt, Counts, [Sample]}
%%   Counts: {Ticks, Looked, Taken, NotSeen, Unsent, BusyNs, Crowded, Late}
%%   Sample: {Pid, Label, At, Took, StandsFor, Status, Frames | not_seen, 0}, times in ns
%%
%% Ticks are at random intervals, and a sample stands for the time since the tick before, times
%% candidates per process looked at: sums of it estimate times at any rate. The agent has the tick,
%% and not the sampler, so that the tick sees events that have arrived and wait for a batch to
%% fill: a process may live for no more than some ms.
%%
%% What it costs is limited: the sampler adds its own time and a measured one for each process that
%% it asked, and makes the intervals longer when that is more than its share of a scheduler.
-module(kprof_agent_stacks).

-export([stacks_use/2, stacks_settle/1, stacks_sleep/1, stacks_wake/1, stacks_stop/1, stacks_seen/2,
         stacks_wait_ms/2, sampler_down/1, stacks_inherited/1, stacks_of/3, waits_for/4,
         stacks_due/2, stacks_handle/2, pids/1]).
%% For the tests.
-export([stack_candidates/3, stack_crowd/2]).

-import(kprof_agent_arming, [is_watching/1]).
-import(kprof_agent_events, [drain_now/1, send/2]).
-import(kprof_agent_server, [reply/3]).
-import(kprof_ask, [is_idle/1, spread/2, take_ours/2]).
-import(kprof_injected, [fell/1, hide/0, may_again/1, now_ms/0, now_ns/0, spawn_labelled/3,
                         spawn_monitored/3]).
-import(kprof_names, [stack_depth/0]).
-import(kprof_usage, [usage_go/1, usage_handle/2, usage_start/4]).
-import(kprof_waits, [waits_server/1]).

-include("kprof_agent.hrl").

-define(SEEN_MAX, 10000).       % processes noted between two ticks; the newest count
-define(CANDIDATES_MAX, 4000).  % in the sampler: 100 us to look through
-define(CANDIDATE_MS, 1000).    % after its last call, if it has no token of ours
-define(TICK_LEAST_NS, 5000000).        % mean interval of ticks: 200 a second
-define(TICK_MOST_NS, 2000000000).
-define(AT_ONCE, 4).            % stacks at one tick, in the mean
-define(SEEK, 20).              % processes looked through for tokens, at one tick: 10 us
-define(SEEK_NS, 500000000).    % least time for all
-define(SEEK_PROCESSES_MAX, 20000).     % to list more takes too long
-define(LOOKS_MAX, 500).        % candidates looked at, at one tick
-define(LATE_NS, 500000000).    % since the tick before: a tick stands for no more
-define(REPORT_NS, 1000000000). % longest time between two messages: counts stay fresh
-define(LOOK_NS, 500).          % least cost of a look, and of a stack: the processes of a busy
-define(STACK_NS, 4000).        % node are not in the caches
-define(CALIBRATIONS, 50).
-define(OF_PROCESSES_MAX, 200). % asked for by one command
-define(WAITS_WORDS, 2000000).  % of memory, of a process that looks what others wait for

-record(sampler, {
    agent :: pid(),
    monitor :: reference(),
    daemon :: pid(),
    per_second :: pos_integer(),
    ppm :: pos_integer(),
    asker :: kprof_ask:asker(),
    look_ns :: pos_integer(),
    stack_ns :: pos_integer(),
    others = {[], -1 bsl 63} :: {[pid()], ListedAtNs :: integer()},     % to be sought through
    candidates = #{} :: #{pid() => {AtMs :: integer(), Label :: non_neg_integer()}},
    ticked_at :: integer(),     % ns
    mean_ns :: pos_integer(),   % of the interval that ends with the next tick
    taken_mean = 1.0 :: float(),        % per tick; these three are moving averages
    ours_mean = 1.0 :: float(),         % ... per look
    cost_mean = 0.0 :: float(), % ns per tick
    reported_at :: integer(),   % ns
    ticks = 0 :: non_neg_integer(),
    looked = 0 :: non_neg_integer(),
    taken = 0 :: non_neg_integer(),
    not_seen = 0 :: non_neg_integer(),
    unsent = 0 :: non_neg_integer(),
    crowded = 0 :: non_neg_integer(),   % processes that had no room among the candidates
    late = 0 :: non_neg_integer(),      % ticks that stand for less than the time since the last
    busy_ns = 0 :: non_neg_integer(),
    usage :: kprof_usage:walker()
}).

%% ------------------------------------------------------------ the agent ----

%% Wanted: {StacksPerSecond, PartsOfAMillion of one scheduler}, or none.
-spec stacks_use(none | {pos_integer(), pos_integer()}, #state{}) -> #state{}.
stacks_use(Wanted, #state{stacks = #stacks{wanted = Wanted}} = S) -> S;
stacks_use(Wanted, #state{stacks = Stacks} = S) ->
    stacks_settle(stacks_stop(S#state{stacks = Stacks#stacks{wanted = Wanted, falls = {0, 0}}})).

%% Starts the sampler where it is wanted and is not there.
stacks_settle(#state{state = armed, stacks = #stacks{sampler = none} = Stacks} = S) ->
    case Stacks#stacks.wanted =/= none andalso not is_watching(S) andalso
        may_again(Stacks#stacks.falls) of
        true -> S#state{stacks = Stacks#stacks{sampler = sampler_start(S), busy_ns = 0}};
        false -> S
    end;
stacks_settle(S) -> S.

%% While tracing is off, no tick comes.
stacks_sleep(#state{stacks = #stacks{due = none}} = S) -> S;
stacks_sleep(#state{stacks = #stacks{due = {Timer, _}} = Stacks} = S) ->
    _ = erlang:cancel_timer(Timer),
    S#state{stacks = Stacks#stacks{due = none, seen = {0, []}}}.

stacks_wake(#state{stacks = #stacks{sampler = {Pid, _}, due = none}} = S) ->
    Pid ! wake,
    S;
stacks_wake(S) -> stacks_settle(S).

stacks_stop(#state{stacks = #stacks{sampler = none}} = S) -> S;
stacks_stop(S0) ->
    #state{stacks = #stacks{sampler = {Pid, Monitor}} = Stacks} = S = stacks_sleep(S0),
    erlang:demonitor(Monitor, [flush]),
    exit(Pid, kill),
    S#state{stacks = Stacks#stacks{sampler = none}}.

%% The next tick of the agent starts another, if it may.
sampler_down(S0) ->
    #state{stacks = #stacks{falls = Falls} = Stacks} = S = stacks_sleep(S0),
    S#state{stacks = Stacks#stacks{sampler = none, falls = fell(Falls)}}.

%% The sampler of an agent that gave way ends with it.
stacks_inherited(#state{stacks = #stacks{wanted = Wanted}} = S) ->
    S#state{stacks = #stacks{wanted = Wanted}}.

%% Notes the processes of calls in a batch.
-spec stacks_seen([tuple()], #state{}) -> #state{}.
stacks_seen(_, #state{stacks = #stacks{due = none}} = S) -> S;
stacks_seen(Evs, #state{stacks = #stacks{seen = {N, Pids}} = Stacks} = S) when N < ?SEEN_MAX ->
    S#state{stacks = Stacks#stacks{seen = {N + ?BATCH_EVENTS, callers(Evs, Pids)}}};
stacks_seen(Evs, #state{stacks = Stacks} = S) ->
    S#state{stacks = Stacks#stacks{seen = {0, callers(Evs, [])}}}.

callers([{trace_ts, P, call, _, _, _} | More], [P | _] = Pids) -> callers(More, Pids);
callers([{trace_ts, P, call, _, _, _} | More], Pids) -> callers(More, [P | Pids]);
callers([_ | More], Pids) -> callers(More, Pids);
callers([], Pids) -> Pids.

%% A batch is not waited for beyond the next tick.
-spec stacks_wait_ms(non_neg_integer(), #state{}) -> non_neg_integer().
stacks_wait_ms(Ms, #state{stacks = #stacks{due = none}}) -> Ms;
stacks_wait_ms(Ms, #state{stacks = #stacks{due = {_, At}}}) ->
    min(Ms, max(0, At - now_ms())).

%% A message of the sampler, or of another process that was asked for something here.
-spec stacks_handle(tuple(), #state{}) -> #state{}.
stacks_handle({next, Pid, InMs, BusyNs}, S) -> stacks_next(Pid, InMs, BusyNs, S);
stacks_handle({answer, Ref, Message}, S) -> stacks_answer(Ref, Message, S);
stacks_handle({waits, Ref, Asked, Found}, S) -> reply(Ref, Found, waits_asked(Asked, S));
stacks_handle(_, S) -> S.

%% The sampler asks for its next tick, and reports its cost so far.
stacks_next(Pid, InMs, BusyNs,
            #state{stacks = #stacks{sampler = {Pid, _}} = Stacks, events = E} = S0) ->
    Cost = BusyNs - Stacks#stacks.busy_ns,
    S = S0#state{stacks = Stacks#stacks{busy_ns = BusyNs},
                 events = E#events{busy_ns = E#events.busy_ns + Cost}},
    case S of
        #state{state = armed, stacks = #stacks{due = none} = Stacks1,
               entry_calls = #entry_calls{closed = Closed}} when Closed =/= watched ->
            Timer = erlang:start_timer(InMs, self(), stacks),
            S#state{stacks = Stacks1#stacks{due = {Timer, now_ms() + InMs}}};
        _ -> S
    end;
stacks_next(_, _, _, S) -> S.

%% The timer: all events that came before it have been seen, or are in the rings.
-spec stacks_due(reference(), #state{}) -> #state{}.
stacks_due(Timer, #state{probe = relay, stacks = #stacks{due = {Timer, _}, seen = Seen}} = S) ->
    given(element(2, Seen), S);
stacks_due(Timer, #state{stacks = #stacks{due = {Timer, _}}} = S) ->
    Drained = drain_now(S),
    given(kprof_probe:recent(), Drained);
stacks_due(_, S) -> S.

given(Pids, #state{stacks = #stacks{sampler = {Pid, _}} = Stacks, state = armed} = S) ->
    Pid ! {candidates, Pids},
    S#state{stacks = Stacks#stacks{due = none, seen = {0, []}}};
given(_, S) -> S.

%% Replies with a message as above about [{Number, Serial}], of whatever request; those that have
%% ended are left out. Another process asks, since that takes time. Its answer goes by way of the
%% agent, behind all events from before the stacks were read: they show which calls had ended by
%% then. Tracing may be off.
-spec stacks_of([{non_neg_integer(), non_neg_integer()}], integer(), #state{}) -> #state{}.
stacks_of(Pids, Ref, S) ->
    Agent = self(),
    spawn_labelled(
      kprof_agent, stacks,
      fun() ->
              process_flag(priority, high),
              Message = stacks_now(pids(Pids)),
              Agent ! {stacks, {answer, Ref, Message}}
      end),
    S.

%% Those of this node with these {Number, Serial}, OF_PROCESSES_MAX at most.
-spec pids([{non_neg_integer(), non_neg_integer()}]) -> [pid()].
pids(Pids) ->
    [list_to_pid(lists:concat(["<0.", N, ".", Serial, ">"]))
     || {N, Serial} <- lists:sublist(Pids, ?OF_PROCESSES_MAX)].

%% Replies with {[kprof_waits:found()], [kprof_waits:server()]}: what some of these processes wait
%% for, and the names of Servers. Another process asks.
-spec waits_for([Number], [Number], reference(), #state{}) -> #state{} when
      Number :: {non_neg_integer(), non_neg_integer()}.
waits_for(Pids, Servers, Ref, S) ->
    Agent = self(),
    spawn_labelled(
      kprof_agent, waits,
      fun() ->
              hide(),
              _ = process_flag(max_heap_size,
                               #{size => ?WAITS_WORDS, kill => true, error_logger => false}),
              Found = {kprof_waits:waits(pids(Pids)), [waits_server(P) || P <- pids(Servers)]},
              Agent ! {stacks, {waits, Ref, length(Pids) + length(Servers), Found}}
      end),
    S.

%% So many processes were asked, which is a part of what the agent costs.
waits_asked(N, #state{events = #events{busy_ns = Ns} = E} = S) ->
    S#state{events = E#events{busy_ns = Ns + N * (?LOOK_NS + ?STACK_NS)}}.

stacks_answer(Ref, Message, S0) ->
    S = drain_now(S0),
    _ = send({kprof_reply, Ref, Message}, S),
    S.

stacks_now(Pids) ->
    {Answers, Asker} = kprof_ask:take([{P, P} || P <- Pids], kprof_ask:start()),
    kprof_ask:stop(Asker),
    NotSeen = length([x || {_, _, _, _, _, not_seen} <- Answers]),
    {kprof_stacks, now_ns(), {1, length(Pids), length(Answers), NotSeen, 0, 0},
     [{P, Label, At, Took, 0, Status, Frames, 0}
      || {P, At, Took, Status, Label, Frames} <- Answers]}.

%% ----------------------------------------------------------- the sampler ----

sampler_start(#state{lease = #lease{daemon = Daemon},
                     stacks = #stacks{wanted = {PerSecond, Ppm}}}) ->
    Agent = self(),
    spawn_monitored(
      kprof_agent, stack_sampler,
      fun() ->
              hide(),
              process_flag(priority, high),
              Monitor = erlang:monitor(process, Agent),
              {LookNs, StackNs} = calibrated(),
              Now = now_ns(),
              Ours = max(1, Ppm div 2),         % the other half is for kprof_usage
              sampler(ask_next(#sampler{agent = Agent, monitor = Monitor, daemon = Daemon,
                                        per_second = PerSecond, ppm = Ours,
                                        usage = usage_start(kprof_agent, all, Ours,
                                                            stack_depth()),
                                        asker = kprof_ask:start(), look_ns = LookNs,
                                        stack_ns = StackNs, ticked_at = Now, reported_at = Now,
                                        mean_ns = 1000000000 div PerSecond}))
      end).

sampler(#sampler{monitor = Monitor} = S) ->
    receive
        {candidates, Pids} ->
            sampler(ask_next(tick(Pids, S#sampler{usage = usage_go(S#sampler.usage)})));
        wake ->
            sampler(ask_next(S#sampler{candidates = #{}, ticked_at = now_ns()}));
        {'DOWN', Monitor, process, _, _} -> kprof_ask:stop(S#sampler.asker);
        Message when is_tuple(Message) -> sampler(used(usage_handle(Message, S#sampler.usage), S));
        _ -> sampler(S)
    end.

%% From the process of kprof_usage. It walks only while ticks come.
used({none, Usage}, S) -> S#sampler{usage = Usage};
used({{What, Found, BusyNs}, Usage}, #sampler{daemon = Daemon, busy_ns = Busy} = S) ->
    _ = What =:= walk andalso
        erlang:send(Daemon, {kprof_groups, [], Found}, [noconnect, nosuspend]),
    S#sampler{usage = Usage, busy_ns = Busy + BusyNs}.

%% Uniform from half to one and a half of the mean, so that ticks do not beat with what the node
%% does periodically.
ask_next(#sampler{agent = Agent, busy_ns = Busy} = S0) ->
    #sampler{mean_ns = Mean} = S = S0#sampler{mean_ns = interval(S0)},
    Agent ! {stacks, {next, self(), round(Mean * (0.5 + rand:uniform())) div 1000000, Busy}},
    S.

%% As many stacks a second as are wanted, unless that costs too much.
interval(#sampler{per_second = N, ppm = Ppm, taken_mean = Taken, cost_mean = Cost}) ->
    Wanted = max(1.0, Taken) * 1.0e9 / N,
    max(?TICK_LEAST_NS, min(?TICK_MOST_NS, round(max(Wanted, Cost * 1.0e6 / Ppm)))).

tick(Pids, Last) ->
    {Found, Sought, #sampler{candidates = Before} = S0} = sought(now_ns(), Last),
    T0 = now_ns(),
    All = stack_candidates(Found ++ Pids, T0 div 1000000, Before),
    S = S0#sampler{candidates = All, crowded = S0#sampler.crowded + stack_crowd(Found ++ Pids, All),
                   late = S0#sampler.late + late(T0, S0)},
    Looked = spread(looks(S), list_to_tuple(maps:keys(All))),
    T1 = now_ns(),
    {Answers, Stacks, Ended, Asker} = take_ours([{P, P} || P <- Looked], S#sampler.asker),
    T2 = now_ns(),
    N = length(Looked),
    StandsFor = stands_for(T0, map_size(All), N, S),
    Samples = [sample(A, StandsFor, All) || A <- Answers, is_work(A)],
    S1 = counted(Samples, N, S#sampler{asker = Asker}),
    Left = left(Looked, Answers, Ended, T0 div 1000000, All),
    S2 = stacks_report(Samples, T2, S1#sampler{candidates = Left, ticked_at = T0}),
    T3 = now_ns(),
    costs(T1 - T0 + T3 - T2 + (N + Sought) * S#sampler.look_ns + Stacks * S#sampler.stack_ns, S2).

%% A process that works for requests without calling a traced function, such as the server that a
%% tier asks, is found by the token that it keeps. Some are looked at in each tick.
sought(Now, #sampler{others = {[], ListedAt}} = S) ->
    Few = erlang:system_info(process_count) =< ?SEEK_PROCESSES_MAX,
    if Few, Now - ListedAt > ?SEEK_NS -> sought(Now, S#sampler{others = {processes(), Now}});
       true -> {[], 0, S}
    end;
sought(_, #sampler{others = {Others, ListedAt}, candidates = Candidates} = S) ->
    {Some, Left} = lists:split(min(?SEEK, length(Others)), Others),
    New = [{P, P} || P <- Some, not is_map_key(P, Candidates)],
    {Found, Asker} = kprof_ask:seek(New, S#sampler.asker),
    {Found, length(New), S#sampler{asker = Asker, others = {Left, ListedAt}}}.

%% Where there is no room, those make some that were not seen with a token: most of them have ended.
%% What is above the cap then is left out, and counted; the time of the others is not theirs.
-spec stack_candidates([pid()], integer(), Candidates) -> Candidates when
      Candidates :: #{pid() => {AtMs :: integer(), Label :: non_neg_integer()}}.
stack_candidates(Pids, Now, Before) ->
    case noted(Pids, Now, Before) of
        Full when map_size(Full) >= ?CANDIDATES_MAX ->
            noted(Pids, Now, maps:filter(fun(_, {_, Label}) -> Label =/= 0 end, Before));
        All -> All
    end.

%% How many of these had no room.
-spec stack_crowd([pid()], #{pid() => _}) -> non_neg_integer().
stack_crowd(_, All) when map_size(All) < ?CANDIDATES_MAX -> 0;
stack_crowd(Pids, All) -> length([P || P <- lists:usort(Pids), not is_map_key(P, All)]).

noted(Pids, Now, Before) ->
    lists:foldl(fun(P, All) when is_map_key(P, All) ->
                        {_, Label} = map_get(P, All),
                        All#{P := {Now, Label}};
                   (P, All) when map_size(All) < ?CANDIDATES_MAX ->
                        All#{P => {Now, 0}};
                   (_, All) ->
                        All
                end, Before, Pids).

%% So many that some stacks are taken.
looks(#sampler{ours_mean = Ours}) ->
    max(?AT_ONCE, min(?LOOKS_MAX, round(?AT_ONCE / max(Ours, 0.001)))).

stands_for(_, _, 0, _) -> 0;
stands_for(Now, All, Looked, #sampler{ticked_at = Before} = S) ->
    min(Now - Before, longest(S)) * All div Looked.

%% A tick that came much too late does not show what was done all that time.
longest(#sampler{mean_ns = Mean}) -> max(?LATE_NS, 4 * Mean).

late(Now, #sampler{ticked_at = Before} = S) ->
    case Now - Before > longest(S) of
        true -> 1;
        false -> 0
    end.

%% One that does not answer works: the daemon knows which call it has open. A server that waits for
%% its next message keeps the token of the last one.
is_work({_, _, _, _, _, not_seen}) -> true;
is_work({_, _, _, _, 0, _}) -> false;
is_work({_, _, _, waiting, _, Frames}) -> not is_idle(Frames);
is_work(_) -> true.

%% The label that it had before may be of an earlier request.
sample({P, At, Took, Status, 0, not_seen}, StandsFor, All) ->
    {P, element(2, map_get(P, All)), At, Took, StandsFor, Status, not_seen, 0};
sample({P, At, Took, Status, Label, Frames}, StandsFor, _) ->
    {P, Label, At, Took, StandsFor, Status, Frames, 0}.

counted(Samples, N, #sampler{ticks = Ticks, looked = Looked, taken = Taken, not_seen = NotSeen,
                             taken_mean = TakenMean, ours_mean = OursMean} = S) ->
    Some = length(Samples),
    Missed = length([x || {_, _, _, _, _, _, not_seen, _} <- Samples]),
    S#sampler{ticks = Ticks + 1, looked = Looked + N, taken = Taken + Some,
              not_seen = NotSeen + Missed, taken_mean = moved(TakenMean, Some),
              ours_mean = if N > 0 -> moved(OursMean, Some / N); true -> OursMean end}.

moved(Mean, Value) -> Mean + (Value - Mean) / 8.

costs(Ns, #sampler{busy_ns = Busy, cost_mean = Mean} = S) ->
    S#sampler{busy_ns = Busy + Ns, cost_mean = moved(Mean, Ns)}.

%% Those that had neither a call lately nor a token are no candidates any more. What does not
%% answer has the token that it had.
left(Looked, Answers, Ended, Now, All) ->
    Labelled = lists:foldl(fun({P, _, _, _, 0, not_seen}, Left) ->
                                   labelled(P, element(2, map_get(P, Left)), Now, Left);
                              ({P, _, _, _, Label, _}, Left) ->
                                   labelled(P, Label, Now, Left)
                           end, maps:without(Ended, All), Answers),
    lists:foldl(fun(P, Left) ->
                        case Left of
                            #{P := {At, _}} when Now - At > ?CANDIDATE_MS -> maps:remove(P, Left);
                            #{} -> Left
                        end
                end, Labelled, Looked).

labelled(_, 0, _, Left) -> Left;
labelled(P, Label, Now, Left) -> Left#{P := {Now, Label}}.

stacks_report([], Now, #sampler{reported_at = At} = S) when Now - At < ?REPORT_NS -> S;
stacks_report(Samples, Now, #sampler{daemon = Daemon, unsent = Unsent} = S) ->
    Counts = {S#sampler.ticks, S#sampler.looked, S#sampler.taken, S#sampler.not_seen, Unsent,
              S#sampler.busy_ns, S#sampler.crowded, S#sampler.late},
    case erlang:send(Daemon, {kprof_stacks, now_ns(), Counts, Samples},
                     [noconnect, nosuspend]) of
        ok -> S#sampler{reported_at = Now};
        _ -> S#sampler{unsent = Unsent + length(Samples)}
    end.

%% What a look and a stack of a process that waits cost here: the median of some.
calibrated() ->
    P = spawn_link(fun() -> receive stop -> ok end end),
    Costs = [median([took(P, Items) || _ <- lists:seq(1, ?CALIBRATIONS)])
             || Items <- [[status, sequential_trace_token, reductions],
                          [sequential_trace_token, current_stacktrace, reductions]]],
    P ! stop,
    [Look, Stack] = Costs,
    {max(?LOOK_NS, Look), max(?STACK_NS, Stack)}.

took(P, Items) ->
    T0 = now_ns(),
    _ = process_info(P, Items),
    now_ns() - T0.

median(Ns) -> lists:nth(length(Ns) div 2, lists:sort(Ns)).
