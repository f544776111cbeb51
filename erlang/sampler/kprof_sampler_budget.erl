%% kprof_sampler_budget - how much a tick may do, so that sampling takes at most a share of one
%% scheduler.
%%
%% Time is put aside as it passes, and taken away as it is spent. What is spent is measured by the
%% clock; only where something takes much longer than it usually does, because the operating system
%% ran something else meanwhile, it is counted as what it usually takes. What an asked process
%% spends on its answer cannot be measured there: it is taken to be what it was with a process of
%% our own, at the start. A list of processes is paid from a purse of its own, which gets half until
%% there is enough for the next list. Only the first list is on credit.
-module(kprof_sampler_budget).

-export([new/4, grant/2, may_list/1, spent/3, busy/1, stack_cost/1]).
-export_type([budget/0]).

-define(LOOKS_MIN, 8).
-define(LOOKS_MAX, 2000).       % 1 ms or so at a time, with high priority
-define(LOOK_NS, 1000).         % at first
-define(STACK_NS, 20000).       % where it cannot be learnt, on a node that is busy
-define(CENSUS_NS, 8000).       % for each process, with what some of them wait for
-define(LISTED_NS, 150).        % for each process of a list
-define(TICK_NS, 20000).        % timer, messages: at first
-define(KEPT_NS, 1000000000).   % what was not spent in a second is given up
-define(STEP, 16).              % a part by which a median moves
-define(INTERRUPTED, 4).        % times as long as usual
-define(STANDS_MAX, 1000000000).        % ns that a tick stands for, also where the node stood still

-record(budget, {
    ppm :: pos_integer(),       % of one scheduler
    per_second :: pos_integer(),        % stacks
    purse = 0 :: integer(),     % ns
    list_purse = 0 :: integer(),
    look_ns = ?LOOK_NS :: pos_integer(),
    stack_ns :: pos_integer(),
    tick_ns = ?TICK_NS :: pos_integer(),
    list_ns = 0 :: non_neg_integer(),
    busy = 0 :: non_neg_integer(),
    paid_at :: integer(),       % monotonic ns
    ticked_at :: integer()      % the last tick that was not a rest
}).
-opaque budget() :: #budget{}.

%% Stack: ns that asking for one takes on both sides; Now: monotonic ns.
-spec new(pos_integer(), pos_integer(), pos_integer(), integer()) -> budget().
new(Ppm, PerSecond, Stack, Now) ->
    #budget{ppm = Ppm, per_second = PerSecond, stack_ns = max(1, Stack), paid_at = Now,
            ticked_at = Now}.

%% What a stack takes, of some that were asked for: the median of those that were seen. One that was
%% not took nothing, or as long as is waited for it.
-spec stack_cost([{non_neg_integer(), IsSeen :: boolean()}]) -> pos_integer().
stack_cost(Tried) ->
    case lists:sort([Ns || {Ns, true} <- Tried]) of
        [] -> ?STACK_NS;
        Seen -> max(1, lists:nth((length(Seen) + 1) div 2, Seen))
    end.

%% What a tick at this time may do: how many looks, and how many stacks. It stands for the ns that
%% have elapsed since the last tick that was not a rest.
-spec grant(integer(), budget()) ->
          {rest | #{elapsed := pos_integer(), looks := pos_integer(), stacks := pos_integer()},
           budget()}.
grant(Now, #budget{look_ns = Look, stack_ns = Stack, tick_ns = Tick} = B0) ->
    B = #budget{purse = Purse} = paid(Now - B0#budget.paid_at, B0#budget{paid_at = Now}),
    case Purse < Tick + ?LOOKS_MIN * Look + Stack of
        true -> {rest, B};
        false ->
            Elapsed = max(1, min(?STANDS_MAX, Now - B#budget.ticked_at)),
            Wanted = max(1, Elapsed * B#budget.per_second div 1000000000),
            Stacks = max(1, min(Wanted, (Purse - Tick) div (2 * Stack))),
            Looks = (Purse - Tick - Stacks * Stack) div Look,
            {#{elapsed => Elapsed, looks => max(?LOOKS_MIN, min(?LOOKS_MAX, Looks)),
               stacks => Stacks},
             B#budget{ticked_at = Now}}
    end.

paid(Elapsed, #budget{ppm = Ppm, purse = Purse, list_purse = Saved, list_ns = List} = B) ->
    Kept = Ppm * (?KEPT_NS div 1000000),
    New = Ppm * Elapsed div 1000000,
    ForList = max(0, min(New div 2, List - Saved)),
    B#budget{purse = min(Kept, Purse + New - ForList), list_purse = Saved + ForList}.

%% Is there enough for a new list?
-spec may_list(budget()) -> boolean().
may_list(#budget{list_purse = Saved, list_ns = List}) ->
    Saved >= List.

%% What was done, and the ns that it took; of stacks and names how many they were. A name is asked
%% for twice. Flush: to send what was taken.
-spec spent(list | stacks | names | census | usage | {looks, pos_integer()} | tick | flush,
            non_neg_integer(), budget()) -> budget().
spent(list, Ns, #budget{list_purse = Saved, list_ns = List, busy = Busy} = B) ->
    Took = usual(Ns, max(List, erlang:system_info(process_count) * ?LISTED_NS)),
    B#budget{list_purse = Saved - Took, list_ns = max(1, (List + Took) div (1 + min(1, List))),
             busy = Busy + Took};
spent(stacks, N, B) -> pay(N * B#budget.stack_ns, B);
spent(names, N, B) -> pay(2 * N * B#budget.stack_ns, B);
%% Processes that were asked what they are for: that comes once, and samples have no less for it.
spent(census, N, #budget{busy = Busy} = B) -> B#budget{busy = Busy + N * ?CENSUS_NS};
%% It keeps to a share of its own.
spent(usage, Ns, #budget{busy = Busy} = B) -> B#budget{busy = Busy + Ns};
spent(flush, Ns, B) -> pay(Ns, B);
spent({looks, N}, Ns, #budget{look_ns = Look} = B) ->
    pay(usual(Ns, N * Look), B#budget{look_ns = median(Look, Ns div N)});
%% What else a tick took.
spent(tick, Ns, #budget{tick_ns = Tick} = B) ->
    pay(usual(Ns, Tick), B#budget{tick_ns = median(Tick, Ns)}).

%% ns so far.
-spec busy(budget()) -> non_neg_integer().
busy(#budget{busy = Busy}) -> Busy.

pay(Ns, #budget{purse = Purse, busy = Busy} = B) ->
    B#budget{purse = Purse - Ns, busy = Busy + Ns}.

usual(Ns, Usual) when Ns > ?INTERRUPTED * Usual -> Usual;
usual(Ns, _) -> Ns.

%% Goes up and down by the same part, and so to the middle of what comes.
median(Old, New) when New > Old -> Old + Old div ?STEP + 1;
median(Old, _) -> max(1, Old - Old div ?STEP).
