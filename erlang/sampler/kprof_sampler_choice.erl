%% kprof_sampler_choice - which processes are looked at in a tick, and which of these are asked for
%% their stack; and for how much time of processes each of them stands.
%%
%% A process is looked at with a probability that is known before its status is: so the sum of
%% what samples stand for estimates the time of all processes without bias, whichever were taken
%% (Horvitz and Thompson). There are two strata:
%%   - warm: processes that were not waiting when they were looked at lately. All of them are
%%     looked at in each tick, since a few processes do most of a node's work;
%%   - the others, of the list of processes: evenly spaced ones, from a random place on.
%% Of what was looked at, those that do not wait go first; of those that wait, a few are asked.
%%
%% Listing the processes takes a large node long (some 40 ms at 300,000), so a list serves as long
%% as the budget wants it to. Processes that are younger than the list cannot be chosen: how many
%% they are is estimated.
-module(kprof_sampler_choice).

-export([new/1, listed/1, list_of/1, look/3, totals/1]).
-export_type([choice/0]).

-import(kprof_ask, [processes_list/0, spread/2]).

-define(WARM_MAX, 100).         % more would take a tick's budget
-define(WARM_TICKS, 40).        % a process that has waited for as many is warm no more
-define(WAITING_PART, 5).       % one of as many stacks is left to processes that wait

-record(choice, {
    from :: all | [pid()],      % or those that were named
    list = {} :: tuple(),
    step = 1 :: pos_integer(),  % each in the list stands for as many
    is_new = false :: boolean(),        % listed in this tick
    warm = #{} :: #{pid() => non_neg_integer()},        % the tick in which it last worked
    ticks = 0 :: non_neg_integer(),
    looked = 0 :: non_neg_integer(),
    time = 0 :: non_neg_integer(),      % ns of all processes
    young = 0 :: integer()      % of these, of processes younger than the list
}).
-opaque choice() :: #choice{}.
-type status() :: atom().

-spec new(all | [pid()]) -> choice().
new(From) ->
    #choice{from = From}.

%% Lists the processes again.
-spec listed(choice()) -> choice().
listed(#choice{from = all} = C) ->
    {Step, List} = processes_list(),
    C#choice{list = List, step = Step, is_new = true};
listed(#choice{from = From} = C) -> C#choice{list = list_to_tuple(From), is_new = true}.

%% The last list.
-spec list_of(choice()) -> tuple().
list_of(#choice{list = List}) -> List.

%% Looks at up to Looks processes, and at the warm ones, but not at Own; the sample of a tick stands
%% for Elapsed ns. Returns whom to ask, at most Stacks of them: {Process, Status, ns that it stands
%% for}. The status not_seen is that of one that does not answer: it may well work.
-spec look(#{elapsed := pos_integer(), looks := pos_integer(), stacks := pos_integer(),
             own := [pid() | none]},
           fun(([pid()]) -> {#{pid() => status()}, Looker}), choice()) ->
          {[{pid(), status(), non_neg_integer()}], Looker, choice()}.
look(#{elapsed := Elapsed, looks := Looks, stacks := Stacks, own := Own}, StatusesOf,
     #choice{warm = Warm, ticks = Ticks, looked = Looked} = C0) ->
    C1 = C0#choice{ticks = Ticks + 1, looked = Looked + map_size(Warm)},
    Passed = maps:merge(Warm, maps:from_keys(Own, [])),
    Cold = case C1#choice.list of
               {} -> [];
               List -> spread(max(1, Looks - map_size(Warm)), List)
           end,
    {Statuses, Looker} = StatusesOf(maps:keys(Warm) ++ [P || P <- Cold, not is_map_key(P, Passed)]),
    StatusOf = fun(P) -> maps:get(P, Statuses, undefined) end,
    Seen0 = maps:fold(fun(P, _, Acc) -> seen(P, StatusOf(P), Elapsed, Acc) end, {[], []}, Warm),
    {Seen, C} = look_cold(Cold, Elapsed, {Passed, StatusOf}, Seen0, C1),
    {Working, Waiting} = Seen,
    {asked(Stacks, Working, Waiting), Looker,
     C#choice{warm = warm(Working, C), is_new = false}}.

%% Where only one can be asked, it is by chance one that works or one that waits, and stands for
%% what neither would else stand for.
asked(1, [_ | _] = Working, [_ | _] = Waiting) ->
    case rand:uniform(?WAITING_PART) of
        1 -> [{P, Status, Each * ?WAITING_PART} || {P, Status, Each} <- some(1, Waiting)];
        _ -> [{P, Status, Each * ?WAITING_PART div (?WAITING_PART - 1)}
              || {P, Status, Each} <- some(1, Working)]
    end;
asked(Stacks, Working, Waiting) ->
    Left = case Waiting of [] -> 0; _ -> min(Stacks - 1, (Stacks - 1) div ?WAITING_PART + 1) end,
    Asked = some(Stacks - Left, Working),
    Asked ++ some(Stacks - length(Asked), Waiting).

look_cold([], Elapsed, _, Seen, C) -> {Seen, count(Elapsed, 0, 0, C)};
look_cold(Chosen, Elapsed, {Passed, StatusOf}, Seen0, #choice{list = List} = C0) ->
    N = length(Chosen),
    Each = Elapsed * tuple_size(List) * C0#choice.step div N,
    {Seen, Alive} =
        lists:foldl(fun(P, {Seen, Alive}) when is_map_key(P, Passed) -> {Seen, Alive + 1};
                       (P, {Seen, Alive}) ->
                            case StatusOf(P) of
                                undefined -> {Seen, Alive};
                                Status -> {seen(P, Status, Each, Seen), Alive + 1}
                            end
                    end, {Seen0, 0}, Chosen),
    {Seen, count(Elapsed, Each * Alive, N, C0)}.

%% The time of processes that have come since the list was made is that of all, less that of the
%% list's. An estimate may be too small or too great, their sum is not.
count(Elapsed, Of, N, #choice{looked = Looked, time = Time, young = Young} = C) ->
    All = if C#choice.from =:= all -> Elapsed * erlang:system_info(process_count); true -> Of end,
    More = if C#choice.is_new -> 0; true -> All - Of end,
    C#choice{looked = Looked + N, time = Time + All, young = Young + More}.

seen(_, undefined, _, Seen) -> Seen;
seen(P, Status, Each, {Working, Waiting}) when Status =:= running; Status =:= runnable;
                                               Status =:= garbage_collecting; Status =:= not_seen ->
    {[{P, Status, Each} | Working], Waiting};
seen(P, Status, Each, {Working, Waiting}) -> {Working, [{P, Status, Each} | Waiting]}.

%% Up to N of them, each of which stands for more the fewer are taken.
some(N, Seen) when N =< 0; Seen =:= [] -> [];
some(N, Seen) ->
    case length(Seen) of
        All when All =< N -> Seen;
        All ->
            [{P, Status, Each * All div N} || {P, Status, Each} <- spread(N, list_to_tuple(Seen))]
    end.

%% Whom to look at in each of the next ticks: decided by what was seen before them.
warm(Working, #choice{warm = Warm0, ticks = Ticks}) ->
    Recent = maps:filter(fun(_, At) -> Ticks - At < ?WARM_TICKS end, Warm0),
    lists:foldl(fun({P, _, _}, Warm) when map_size(Warm) < ?WARM_MAX; is_map_key(P, Warm) ->
                        Warm#{P => Ticks};
                   (_, Warm) -> Warm
                end, Recent, Working).

%% young: ns of processes that could not be chosen, of time.
-spec totals(choice()) -> #{ticks := non_neg_integer(), looked := non_neg_integer(),
                            time := non_neg_integer(), young := non_neg_integer()}.
totals(#choice{ticks = Ticks, looked = Looked, time = Time, young = Young}) ->
    #{ticks => Ticks, looked => Looked, time => Time, young => max(0, Young)}.
