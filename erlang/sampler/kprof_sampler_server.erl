%% kprof_sampler_server - the sampler's server: ticks, and messages to and from the client.
%%
%% Ticks come at random intervals, 0.5 to 1.5 of their mean, so that they do not beat with work
%% that is periodic. Samples are sent half a second after they were taken, when the processes have
%% told their names.
-module(kprof_sampler_server).

-export([host/0]).

-import(kprof_ask, [looker_of/1, looker_stop/1, worker_of/1]).
-import(kprof_injected, [now_ms/0, now_ns/0, process_label/2]).
-import(kprof_oneshot, [look_lease/1, new_sentry/1, profile_new/5, say_begin/1, take_name/1,
         tell_sentry/1]).
-import(kprof_sampler_budget, [may_list/1, stack_cost/1]).
-import(kprof_sampler_choice, [list_of/1]).
-import(kprof_sampler_groups, [asked_for/1, name_all/2, namer_of/1, namer_stop/1, new_names/1]).
-import(kprof_names, [stack_depth/0]).
-import(kprof_sampler_pools, [census_found/2, census_size/1, census_start/2, census_stop/1]).
-import(kprof_text, [refuse/2]).
-import(kprof_usage, [usage_go/1, usage_handle/2, usage_start/4, usage_stop/1]).

-include("kprof_oneshot.hrl").

-define(TICKS_MAX, 100).        % a second
-define(PER_TICK, 5).           % stacks, if ticks can be as many
-define(USAGE_PART, 4).         % one of as many parts of the share is for kprof_usage
-define(FLUSH_MS, 500).
-define(SAMPLES_MAX, 5000).     % that wait to be sent
-define(RETRY_MS, 20).          % between two tries where the connection takes nothing
-define(TRIED, 20).             % asking a process of our own, to learn what that takes

-record(state, {
    p :: #profile{},
    choice :: kprof_sampler_choice:choice(),
    budget :: kprof_sampler_budget:budget(),
    groups :: kprof_sampler_groups:groups(),
    asker :: kprof_ask:asker(),
    looker :: kprof_ask:looker(),
    depth :: pos_integer(),     % backtrace_depth
    mean_ms :: pos_integer(),   % between two ticks
    began :: integer(),         % monotonic ns
    %% Its monitor, and the command that it answers.
    census = none :: none | {reference(), kprof_sampler_pools:census(), pos_integer()},
    over = false :: boolean(),  % the client has the last samples
    new = [] :: [tuple()],      % samples since the last flush
    old = [] :: [tuple()],      % those before it, which are sent at the next
    taken = 0 :: non_neg_integer(),
    not_seen = 0 :: non_neg_integer(),
    unsent = 0 :: non_neg_integer(),
    uses = none :: none | kprof_usage:walker(),
    usage = none :: none | kprof_usage:usage()  % what it found last
}).

-spec host() -> #host{}.
host() ->
    #host{name = kprof_sampler, verb = "samples", noun = "stacks", loaded = [kprof_sampler],
          init = fun init/3}.

init(Starter, Client, #{processes := Which, per_second := PerSecond, share_ppm := Ppm} = Opts) ->
    take_name(host()),
    process_label(kprof_sampler, server),
    From = chosen(kprof_wanted:whose(Which, none), Opts),
    %% `legacy` with nothing armed: there is no session, and nothing to take back.
    P = profile_new(host(), Client, legacy, [], Opts),
    tell_sentry(P),
    say_begin(P),
    process_flag(priority, high),
    {StackNs, Asker} = stack_ns(kprof_ask:start()),
    Now = now_ns(),
    Depth = stack_depth(),
    ForUsage = case Opts of #{usage := true} -> Ppm div ?USAGE_PART; _ -> 0 end,
    S = #state{p = P#profile{lease_at = now_ms()},
               choice = kprof_sampler_choice:new(From), groups = kprof_sampler_groups:new(),
               budget = kprof_sampler_budget:new(Ppm - ForUsage, PerSecond, StackNs, Now),
               asker = Asker, looker = kprof_ask:looker(), depth = Depth,
               mean_ms = mean_ms(PerSecond), began = Now,
               uses = if ForUsage > 0 -> usage_start(kprof_sampler, From, ForUsage, Depth);
                         true -> none
                      end},
    Starter ! {self(), #{processes => if From =:= all -> erlang:system_info(process_count);
                                         true -> length(From)
                                      end,
                         depth => S#state.depth,
                         schedulers => erlang:system_info(schedulers_online),
                         otp => erlang:system_info(otp_release)}},
    tick(S),
    erlang:send_after(?FLUSH_MS, self(), flush),
    loop(S).

%% Those that are there now; all: also those that come.
chosen(Which, _) when Which =:= <<"existing">>; Which =:= <<"new">> ->
    refuse("stacks are of all processes, or of some by name (see -processes)", []);
chosen(<<"all">>, _) -> all;
chosen(Which, Opts) ->
    case kprof_wanted:chosen(Which, Opts, undefined) of
        [] -> refuse("there are no such processes (see -processes)", []);
        Pids -> Pids
    end.

mean_ms(PerSecond) ->
    1000 div max(1, min(?TICKS_MAX, PerSecond div ?PER_TICK)).

%% What asking for a stack takes, with an idle process: its part and ours.
stack_ns(Asker0) ->
    {Idle, Ref} = spawn_opt(fun() -> receive stop -> ok end end, [link, monitor]),
    {Times, Asker} =
        lists:mapfoldl(fun(_, Acc) -> timed(fun() -> kprof_ask:take([{Idle, 1}], Acc) end) end,
                                    Asker0, lists:seq(1, ?TRIED)),
    Idle ! stop,
    receive {'DOWN', Ref, process, Idle, _} -> ok end,
    {stack_cost(Times), Asker}.

timed(Ask) ->
    Began = now_ns(),
    {Answers, Asker} = Ask(),
    IsSeen = [x || {_, _, _, _, _, Frames} <- Answers, is_list(Frames)] =/= [],
    {{now_ns() - Began, IsSeen}, Asker}.

%% ----------------------------------------------------------------- loop ----

loop(S) ->
    receive
        {kprof, Client, Ref, Cmd} when Client =:= S#state.p#profile.client ->
            S1 = command(Cmd, Ref, S),
            loop(S1#state{p = S1#state.p#profile{lease_at = now_ms()}});
        tick ->
            loop(if S#state.over -> S; true -> tick(S), sample(may_walk(S)) end);
        flush ->
            erlang:send_after(?FLUSH_MS, self(), flush),
            S1 = S#state{p = look_lease(S#state.p),
                         groups = kprof_sampler_groups:look(S#state.groups)},
            Began = now_ns(),
            #state{budget = B} = S2 = flush(S1),
            loop(S2#state{budget = kprof_sampler_budget:spent(flush, now_ns() - Began, B)});
        {reply, Ref} ->
            reply(Ref, S),
            loop(S);
        {kprof_named, Pid, Name} ->
            loop(S#state{groups = kprof_sampler_groups:named(Pid, Name, S#state.groups)});
        {'DOWN', Ref, process, _, Reason} when element(1, S#state.census) =:= Ref ->
            loop(pools(Reason, S));
        {pools, Ref, Found} ->
            send_pools(Ref, Found, S),
            loop(S);
        {'DOWN', Ref, process, _, Reason} when Ref =:= S#state.p#profile.client_ref ->
            leave({gone, Reason}, S);
        {'DOWN', Ref, process, _, _} when Ref =:= element(2, S#state.p#profile.sentry) ->
            loop(S#state{p = new_sentry(S#state.p)});
        {kprof_sampler, stop} -> leave(stopped, S);
        Message when is_tuple(Message), S#state.uses =/= none ->
            loop(used(usage_handle(Message, S#state.uses), S));
        _ -> loop(S)
    end.

%% From the process of kprof_usage.
used({none, Uses}, S) -> S#state{uses = Uses};
used({{_, Usage, BusyNs}, Uses}, #state{budget = B} = S) ->
    S#state{uses = Uses, usage = Usage, budget = kprof_sampler_budget:spent(usage, BusyNs, B)}.

may_walk(#state{uses = none} = S) -> S;
may_walk(#state{uses = Uses} = S) -> S#state{uses = usage_go(Uses)}.

%% From half the mean to one and a half.
tick(#state{mean_ms = Mean}) ->
    erlang:send_after(Mean div 2 + rand:uniform(Mean), self(), tick).

command(lease, _, S) -> S;
command(peek, Ref, S0) ->
    S = flush(flush(S0)),
    reply(Ref, S),
    S;
%% What processes are there for: the answer takes a while.
command(pools, Ref, #state{census = none, choice = Choice, depth = Depth, budget = B} = S) ->
    List = case list_of(Choice) of
               {} -> list_of(kprof_sampler_choice:listed(Choice));
               Listed -> Listed
           end,
    {Monitor, Census} = census_start(List, Depth),
    S#state{census = {Monitor, Census, Ref},
            budget = kprof_sampler_budget:spent(census, census_size(List), B)};
command(pools, _, S) -> S;
%% These were the last samples.
command(read, Ref, S) -> command(peek, Ref, S#state{over = true});
command(stop, _, S) -> leave(done, S).

-spec leave(term(), #state{}) -> no_return().
leave(Reason, S) ->
    namer_stop(S#state.groups),
    census_stop(case S#state.census of none -> none; {_, Census, _} -> Census end),
    kprof_ask:stop(S#state.asker),
    looker_stop(S#state.looker),
    _ = S#state.uses =/= none andalso usage_stop(S#state.uses),
    kprof_oneshot:finish(Reason, S#state.p).

%% -------------------------------------------------------------- samples ----

sample(#state{budget = B0} = S) ->
    Began = now_ns(),
    case kprof_sampler_budget:grant(Began, B0) of
        {rest, B} -> S#state{budget = B};
        {Grant, B} -> sample(Grant, list(S#state{budget = B}))
    end.

list(#state{budget = B, choice = Choice} = S) ->
    case may_list(B) of
        true ->
            Began = now_ns(),
            Listed = kprof_sampler_choice:listed(Choice),
            Took = now_ns() - Began,
            S#state{choice = Listed, budget = kprof_sampler_budget:spent(list, Took, B)};
        false -> S
    end.

sample(Grant, #state{choice = C0, budget = B0, asker = Asker0, looker = Looker0} = S) ->
    Began = now_ns(),
    StatusesOf = fun(Pids) -> kprof_ask:statuses(Pids, Looker0) end,
    {Chosen, Looker, C} = kprof_sampler_choice:look(Grant#{own => own(S)}, StatusesOf, C0),
    Looked = now_ns(),
    {Mute, ToAsk} = lists:partition(fun({_, Status, _}) -> Status =:= not_seen end, Chosen),
    {Answers, Asker} = kprof_ask:take([{P, One} || {P, _, _} = One <- ToAsk], Asker0),
    Asked = now_ns(),
    Samples = [Sample || Sample <- [sample_of(A) || A <- Answers], not is_own(Sample)] ++
        [{P, 0, Asked, 0, StandsFor, undefined, not_seen, 0} || {P, _, StandsFor} <- Mute],
    S1 = keep(Samples, S#state{choice = C, asker = Asker, looker = Looker}),
    N = looked(C) - looked(C0),
    B1 = kprof_sampler_budget:spent({looks, max(1, N)}, Looked - Began, B0),
    B2 = kprof_sampler_budget:spent(stacks, length(ToAsk), B1),
    Names = named(S1) - named(S),
    B3 = kprof_sampler_budget:spent(names, Names, B2),
    S1#state{budget = kprof_sampler_budget:spent(tick, now_ns() - Asked, B3)}.

named(#state{groups = Groups}) ->
    asked_for(Groups).

looked(Choice) ->
    maps:get(looked, kprof_sampler_choice:totals(Choice)).

own(#state{p = #profile{sentry = {Sentry, _}}, groups = Groups, asker = Asker, looker = Looker}) ->
    [self(), Sentry, namer_of(Groups), worker_of(Asker), looker_of(Looker)].

%% With the status that it was chosen for: it may be another when it is asked.
sample_of({{P, Status, StandsFor}, At, Took, _, Label, Frames}) ->
    {P, Label, At, Took, StandsFor, Status, Frames, 0}.

%% A process that asks others, of kprof_ask.
is_own({_, _, _, _, _, _, [_ | _] = Frames, _}) -> lists:keymember(kprof_sampler, 1, Frames);
is_own(_) -> false.

keep(Samples, #state{new = New, taken = Taken, not_seen = NotSeen, unsent = Unsent} = S) ->
    Seen = [P || {P, _, _, _, _, _, Frames, _} <- Samples, Frames =/= not_seen],
    Room = max(0, ?SAMPLES_MAX - length(New)),
    S#state{new = lists:sublist(Samples, Room) ++ New, taken = Taken + length(Samples),
            not_seen = NotSeen + length(Samples) - length(Seen),
            unsent = Unsent + max(0, length(Samples) - Room),
            groups = name_all(Seen, S#state.groups)}.

%% Sends the samples of before the last flush.
flush(#state{old = Old, new = New} = S0) ->
    {Samples, Groups} = lists:mapfoldl(fun(Sample, G) -> grouped(Sample, S0#state.depth, G) end,
                                       S0#state.groups, Old),
    S = send_names(S0#state{groups = Groups, old = New, new = []}),
    case send({kprof_stacks, now_ns(), counts(S), Samples}, S) of
        ok -> S;
        _ -> S#state{unsent = S#state.unsent + length(Samples)}
    end.

grouped({P, _, _, _, _, _, Frames, _} = Sample, Depth, G0) ->
    Stack = if is_list(Frames) -> {Frames, Depth}; true -> not_seen end,
    {N, G} = kprof_sampler_groups:number(P, Stack, G0),
    {setelement(8, Sample, N), G}.

send_names(S) ->
    case new_names(S#state.groups) of
        {[], _} -> S;
        {Names, Groups} ->
            case send({kprof_groups, Names}, S) of
                ok -> S#state{groups = Groups};
                _ -> S
            end
    end.

counts(#state{choice = Choice} = S) ->
    #{ticks := Ticks, looked := Looked} = kprof_sampler_choice:totals(Choice),
    {Ticks, Looked, S#state.taken, S#state.not_seen, S#state.unsent,
     kprof_sampler_budget:busy(S#state.budget)}.

%% What samples stand for, and what they cannot: the ns of all processes, and of those that were
%% too young to be chosen.
reply(Ref, #state{choice = Choice, began = Began} = S) ->
    #{time := Time, young := Young} = kprof_sampler_choice:totals(Choice),
    Totals = #{elapsed => now_ns() - Began, time => Time, young => Young},
    _ = S#state.usage =/= none andalso send({kprof_groups, [], S#state.usage}, S),
    send({kprof_reply, Ref, Totals}, S) =:= ok orelse
        erlang:send_after(?RETRY_MS, self(), {reply, Ref}).

pools(Reason, #state{census = {_, Census, Ref}} = S) ->
    send_pools(Ref, census_found(Reason, Census), S),
    S#state{census = none}.

send_pools(Ref, {Seen, Apps, Pools, Waits} = Found, S) ->
    send({kprof_pools, Ref, Seen, Apps, Pools, Waits}, S) =:= ok orelse
        erlang:send_after(?RETRY_MS, self(), {pools, Ref, Found}).

%% Does not wait for a connection that is busy: sampling would stand still, and what is not sent
%% is counted.
send(Msg, #state{p = #profile{client = Client}}) ->
    erlang:send(Client, Msg, [noconnect, nosuspend]).
