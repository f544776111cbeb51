%% kprof_usage - what a node's processes and tables use: how many messages wait for groups of
%% processes (kprof_names), the longest queue, their memory, binaries and reductions; ETS tables;
%% and the memory of the node.
%%
%% A process of its own walks over all processes, a slice at a time, and rests after each slice for
%% as long as it takes to stay below a share of one scheduler. The length of a queue is read in some
%% 0.1 us, from every process. Sizes are the answer of the process itself, and cost some 4 us: where
%% these are too many for one walk, a process is asked in one of several, and the sizes are complete
%% after that *round*. Slices are evenly spread over the list, so that a part of a walk is a sample.
%% No value leaves a process but its size, and the names of its group.
%%
%% The walk goes on when its owner says so (usage_go/1), which ticks: it stands still with tracing.
%% A process that does not answer, as in native code, is in the group "(not seen)".
%%
%% The owner gets {usage, Pid, ask}, and after a slice of the first walk, and after each walk,
%% {usage, Pid, {part | walk, Usage, BusyNs}}; BusyNs: what it took since the last one.
-module(kprof_usage).

-export([usage_start/4, usage_go/1]).
-export_type([usage/0]).

-import(kprof_ask, [ask_each/4, processes_list/0]).
-import(kprof_injected, [hide/0, now_ms/0, now_ns/0, process_label/2]).
-import(kprof_names, [atom_text/1, group_of/2]).

-define(WALK_MS, 8000).         % from the beginning of a walk to the next: a window has one
-define(SLICE, 1000).           % processes
-define(TABLES_SLICE, 200).
-define(LIMIT_MS, 1000).        % for a slice: what had no time for an answer is not seen
-define(TABLES_MAX, 10000).
-define(LISTED_NS, 150).        % a process of a list
-define(QUEUE_NS, 500).         % a question costs no more, however long its answer takes: others
-define(SIZES_NS, 6000).        % work meanwhile
-define(TYPICAL_NS, 4000).
-define(LONG, 50000).           % messages: the VM goes through them for each size
-define(GROUPS_MAX, 1000).      % different ones; the rest is one
-define(ROWS, 20).              % sent: those with most memory,
-define(ROWS_BUSY, 8).          % and with most messages, or reductions
-define(TABLES, 12).
-define(KNOWN_MAX, 20000).      % processes, of which name and reductions are kept
-define(RENAMED, 20).           % rounds, after which names are asked for again
-define(WORDS_MAX, 16000000).   % of memory
-define(OTHERS, {<<"_other">>, undefined}).

-type key() :: {kprof_names:name(), Application :: atom()}.
%% Processes, bytes, bytes of binaries that they refer to, reductions since the last round.
-type sizes() :: {non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer()}.
-type queue() :: {non_neg_integer(), Longest :: non_neg_integer(), pid() | none}.
%% At: when the walk began, in monotonic ns. Of: processes that there were; Looked: those that
%% answered. Sized of SizedOf: of these the sizes are; RoundNs: the time in which they were asked
%% for. Reductions -1: not known. One: the group is a registered process.
-type usage() :: {At :: integer(),
                  {Looked :: non_neg_integer(), Of :: non_neg_integer(),
                   Sized :: non_neg_integer(), SizedOf :: non_neg_integer(),
                   WalkNs :: non_neg_integer(), RoundNs :: non_neg_integer()},
                  [{Name :: binary(), Application :: atom(), Processes :: non_neg_integer(),
                    Memory :: non_neg_integer(), Binaries :: non_neg_integer(),
                    Reductions :: integer(), Messages :: non_neg_integer(),
                    Longest :: non_neg_integer(), pid() | none}
                   | {binary(), atom(), non_neg_integer(), non_neg_integer(), non_neg_integer(),
                      integer(), non_neg_integer(), non_neg_integer(), pid() | none, one}],
                  [{Name :: binary(), Owner :: binary(), Tables :: pos_integer(),
                    Memory :: non_neg_integer(), Objects :: non_neg_integer()}],
                  [{Kind :: atom(), Memory :: non_neg_integer(), Count :: non_neg_integer(),
                    Limit :: non_neg_integer()}]}.

-record(round, {
    began :: integer(),         % monotonic ns
    walks :: pos_integer(),     % it takes so many
    walk = 0 :: non_neg_integer(),
    sized = 0 :: non_neg_integer(),
    sizes = #{} :: #{key() => sizes()},
    known = #{} :: #{pid() => {key(), Reductions :: non_neg_integer()}}
}).

-type sized() :: {#{key() => sizes()}, Sized :: non_neg_integer(), Of :: non_neg_integer(),
                  Ns :: non_neg_integer(), HasReductions :: boolean()}.

-record(usage, {
    module :: module(),         % whose process it is
    owner :: pid(),
    monitor :: reference(),
    from :: all | [pid()],
    ppm :: pos_integer(),       % of one scheduler
    depth :: pos_integer(),
    round :: #round{},
    rounds = 0 :: non_neg_integer(),
    known = none :: none | #{pid() => {key(), non_neg_integer()}},      % of the last round
    done = none :: none | sized(),      % the last round
    step = 1 :: pos_integer(),  % each in the list of this walk stands for as many
    queues = #{} :: #{key() => queue()},        % of this walk, as the next three
    looked = 0 :: non_neg_integer(),
    ended = 0 :: non_neg_integer(),
    began = -1 bsl 63 :: integer(),     % monotonic ns
    tables = [] :: list(),
    memory = [] :: list(),
    busy = 0 :: non_neg_integer()       % ns that were not reported yet
}).

%% Starts the process, with a monitor. Module: whose it is. Depth: the frames that a stack shows.
-spec usage_start(module(), all | [pid()], pos_integer(), pos_integer()) -> {pid(), reference()}.
usage_start(Module, From, Ppm, Depth) ->
    Owner = self(),
    spawn_opt(fun() ->
                      process_label(Module, usage),
                      hide(),
                      walks(#usage{module = Module, owner = Owner, from = From, ppm = Ppm,
                                   depth = Depth, monitor = erlang:monitor(process, Owner),
                                   round = round_new(1)})
              end,
              [monitor, {max_heap_size,
                         #{size => ?WORDS_MAX, kill => true, error_logger => false}}]).

%% The answer to {usage, Pid, ask}.
-spec usage_go(pid()) -> usage_go.
usage_go(Pid) ->
    Pid ! usage_go.

-spec walks(#usage{}) -> no_return().
walks(U) ->
    rest(max(0, U#usage.began div 1000000 + ?WALK_MS - now_ms()), U),
    walks(walk(U)).

%% Waits for so long, and then for the owner.
rest(Ms, #usage{monitor = Monitor, owner = Owner}) ->
    receive {'DOWN', Monitor, _, _, _} -> exit(shutdown) after Ms -> ok end,
    Owner ! {usage, self(), ask},
    receive
        usage_go -> ok;
        {'DOWN', Monitor, _, _, _} -> exit(shutdown)
    end.

%% What took so long, of which others may have taken a part: rests accordingly.
pay(Ns, Most, #usage{ppm = Ppm, busy = Busy} = U) ->
    Took = min(Ns, Most),
    rest(Took div Ppm, U),
    U#usage{busy = Busy + Took}.

%% ------------------------------------------------------------- a walk ----

walk(#usage{from = From} = U0) ->
    Began = now_ns(),
    {Step, List} = case From of
                       all -> processes_list();
                       _ -> {1, list_to_tuple(From)}
                   end,
    N = tuple_size(List),
    U1 = tables(pay(now_ns() - Began, N * ?LISTED_NS,
                    U0#usage{step = Step, queues = #{}, looked = 0, ended = 0, began = Began})),
    U2 = begin_round(N, U1#usage{memory = memory()}),
    Slices = max(1, (N + ?SLICE - 1) div ?SLICE),
    U = lists:foldl(fun(I, Acc) ->
                            slice([element(K, List) || K <- lists:seq(I, N, Slices)], N, Acc)
                    end, U2, lists:seq(1, Slices)),
    #usage{round = #round{walk = Walk} = Round, ended = Ended} = U,
    Walked = U#usage{round = Round#round{walk = Walk + 1}},
    usage_report(walk, N, end_round(Step * (N - Ended), Walked)).

round_new(Walks) -> #round{began = now_ns(), walks = Walks}.

%% So many walks that one of them has time for its part of the processes: that of a walk, or half of
%% what the queues of many processes take.
begin_round(N, #usage{round = #round{walk = 0}, ppm = Ppm} = U) ->
    Walks = (N * ?TYPICAL_NS - 1) div (?WALK_MS * Ppm + N * ?QUEUE_NS div 2) + 1,
    U#usage{round = round_new(max(1, Walks))};
begin_round(_, U) -> U.

end_round(Of, #usage{round = #round{walks = N, walk = N} = Round, rounds = Rounds} = U) ->
    #round{sizes = Sizes, sized = Sized, known = Known, began = Began} = Round,
    U#usage{done = {Sizes, Sized, Of, now_ns() - Began, is_map(U#usage.known)},
            known = if map_size(Known) >= ?KNOWN_MAX -> none; true -> Known end,
            rounds = Rounds + 1, round = round_new(1)};
end_round(_, U) -> U.

slice(Pids, N, #usage{module = Module, monitor = Monitor, depth = Depth} = U0) ->
    #usage{round = #round{walks = Walks, walk = Walk}, known = Known} = U0,
    Began = now_ns(),
    Asked = [case is_turn(P, Walk, Walks) of
                 true -> {P, name_known(P, Known, U0)};
                 false -> P
             end || P <- Pids],
    Answers = ask_each(Module, Asked, fun(Of) -> process_use(Of, Depth) end,
                       {Monitor, now_ms() + ?LIMIT_MS}),
    Took = now_ns() - Began,
    U = lists:foldl(fun add/2, U0, Answers),
    Sized = length([x || {_, _} <- Asked]),
    Paid = pay(Took, length(Asked) * ?QUEUE_NS + Sized * ?SIZES_NS, U),
    if U0#usage.done =:= none -> usage_report(part, N, Paid); true -> Paid end.

is_turn(_, _, 1) -> true;
is_turn(P, Walk, Walks) -> erlang:phash2(P, Walks) =:= Walk.

%% A process may have got another name.
name_known(_, _, #usage{rounds = Rounds}) when Rounds rem ?RENAMED =:= 0 -> none;
name_known(P, Known, _) when is_map_key(P, Known) -> element(1, map_get(P, Known));
name_known(_, _, _) -> none.

%% Its messages and group; of {Process, Name}, also its sizes.
process_use({P, Known}, Depth) ->
    case process_info(P, message_queue_len) of
        {_, N} ->
            named(P, N, if Known =:= none -> group_of(P, Depth); true -> Known end,
                  process_info(P, [memory, reductions | [garbage_collection_info || N < ?LONG]]));
        undefined -> gone
    end;
process_use(P, Depth) ->
    case process_info(P, message_queue_len) of
        {_, 0} -> empty;
        {_, N} -> named(P, N, group_of(P, Depth), none);
        undefined -> gone
    end.

named(_, _, Key, Sizes) when Key =:= none; Sizes =:= undefined -> gone;
named(P, N, Key, none) -> {P, N, Key, none};
named(P, N, Key, [{_, Memory}, {_, Reductions} | Gc]) ->
    {P, N, Key, {Memory, binaries(Gc), Reductions}}.

%% Bytes of binaries outside heaps that it refers to; one that several refer to counts for each.
binaries([]) -> 0;
binaries([{_, Gc}]) ->
    (proplists:get_value(bin_vheap_size, Gc, 0) + proplists:get_value(bin_old_vheap_size, Gc, 0))
        * erlang:system_info(wordsize).

add(gone, #usage{ended = Ended} = U) -> U#usage{ended = Ended + 1};
add(empty, #usage{looked = Looked} = U) -> U#usage{looked = Looked + 1};
add({P, N, Key, Sizes}, #usage{looked = Looked, queues = Queues} = U) ->
    add_sizes(P, Key, Sizes, U#usage{looked = Looked + 1, queues = add_queue(P, N, Key, Queues)}).

add_queue(_, 0, _, Queues) -> Queues;
add_queue(P, N, Key0, Queues) ->
    Key = with_room(Key0, Queues),
    case maps:get(Key, Queues, {0, 0, none}) of
        {Sum, Longest, _} when N > Longest -> Queues#{Key => {Sum + N, N, P}};
        {Sum, Longest, Of} -> Queues#{Key => {Sum + N, Longest, Of}}
    end.

add_sizes(_, _, none, U) -> U;
add_sizes(P, Key, {Memory, Binaries, Reductions}, #usage{round = Round, known = Before} = U) ->
    #round{sized = Sized, sizes = All, known = Known} = Round,
    Group = with_room(Key, All),
    {N, M, B, R} = maps:get(Group, All, {0, 0, 0, 0}),
    Since = case Before of
                #{P := {_, Then}} -> max(0, Reductions - Then);
                _ -> Reductions
            end,
    Keep = if map_size(Known) < ?KNOWN_MAX -> Known#{P => {Key, Reductions}}; true -> Known end,
    U#usage{round = Round#round{sized = Sized + 1, known = Keep,
                                sizes = All#{Group => {N + 1, M + Memory, B + Binaries,
                                                       R + Since}}}}.

with_room(Key, Map) when is_map_key(Key, Map); map_size(Map) < ?GROUPS_MAX -> Key;
with_room(_, _) -> ?OTHERS.

%% ----------------------------------------------------------- ETS tables ----

%% Tables of one name are one, in the name of the owner of the largest.
tables(#usage{module = Module, monitor = Monitor, depth = Depth} = U0) ->
    {Sums, U} = table_slices(lists:sublist(ets:all(), ?TABLES_MAX), #{}, U0),
    Most = lists:sublist(lists:reverse(lists:keysort(2, [{Name, Words, N, Objects, Largest}
                                                        || {Name, {N, Words, Objects, Largest}}
                                                               <- maps:to_list(Sums)])), ?TABLES),
    Asked = [{Table, Depth} || {_, _, _, _, {_, Table}} <- Most],
    Owners = maps:from_list(ask_each(Module, Asked, fun table_owner/1,
                                     {Monitor, now_ms() + ?LIMIT_MS})),
    U#usage{tables = [{atom_text(Name), maps:get(Table, Owners, <<>>), N,
                       Words * erlang:system_info(wordsize), Objects}
                      || {Name, Words, N, Objects, {_, Table}} <- Most]}.

table_slices([], Sums, U) -> {Sums, U};
table_slices(Tables, Sums0, #usage{module = Module, monitor = Monitor} = U) ->
    {Now, Later} = lists:split(min(?TABLES_SLICE, length(Tables)), Tables),
    Began = now_ns(),
    Answers = ask_each(Module, Now, fun table_use/1, {Monitor, now_ms() + ?LIMIT_MS}),
    Sums = lists:foldl(fun add_table/2, Sums0, Answers),
    table_slices(Later, Sums, pay(now_ns() - Began, length(Now) * ?SIZES_NS, U)).

table_use(Table) ->
    case {ets:info(Table, name), ets:info(Table, memory), ets:info(Table, size)} of
        {Name, Words, Objects} when is_integer(Words), is_integer(Objects) ->
            {Table, Name, Words, Objects};
        _ -> gone
    end.

add_table(gone, Sums) -> Sums;
add_table({Table, Name, Words, Objects}, Sums) ->
    {N, W, O, Largest} = maps:get(Name, Sums, {0, 0, 0, {0, none}}),
    Sums#{Name => {N + 1, W + Words, O + Objects, max(Largest, {Words, Table})}}.

table_owner({Table, Depth}) ->
    case ets:info(Table, owner) of
        Owner when is_pid(Owner) -> {Table, key_text(group_of(Owner, Depth))};
        _ -> {Table, <<>>}
    end.

key_text(none) -> <<>>;
key_text({{registered, Name}, _}) -> Name;
key_text({Name, _}) -> Name.

%% -------------------------------------------------------------- reports ----

%% Kinds of erlang:memory/0, with how many of them there are, and may be; 0: not known.
memory() ->
    Counts = #{processes => {erlang:system_info(process_count),
                             erlang:system_info(process_limit)},
               atom => {erlang:system_info(atom_count), erlang:system_info(atom_limit)},
               ets => {erlang:system_info(ets_count), erlang:system_info(ets_limit)}},
    [begin
         {Count, Limit} = maps:get(Kind, Counts, {0, 0}),
         {Kind, Bytes, Count, Limit}
     end || {Kind, Bytes} <- erlang:memory(),
            lists:member(Kind, [total, processes, system, atom, binary, code, ets])].

usage_report(What, N, #usage{owner = Owner, busy = Busy, step = Step, looked = Looked,
                               ended = Ended} = U) ->
    Now = now_ns(),
    {Sizes, Sized, SizedOf, RoundNs, HasReductions} =
        case U#usage.done of
            none ->
                #round{began = Began, sizes = So, sized = Far} = U#usage.round,
                {So, Far, Step * (N - Ended), Now - Began, false};
            Done -> Done
        end,
    Rows = [row(Key, Sizes, U#usage.queues, HasReductions)
            || Key <- lists:usort(maps:keys(Sizes) ++ maps:keys(U#usage.queues))],
    Counts = {Looked, Step * (N - Ended), Sized, SizedOf, Now - U#usage.began, RoundNs},
    Unseen = if What =:= walk -> N - Ended - Looked; true -> 0 end,
    Groups = [{<<"(not seen)">>, undefined, Unseen, 0, 0, -1, 0, 0, none} || Unseen > 0],
    Usage = {U#usage.began, Counts, [sent(Row) || Row <- most(Rows)] ++ Groups, U#usage.tables,
             U#usage.memory},
    Owner ! {usage, self(), {What, Usage, Busy}},
    U#usage{busy = 0}.

sent(Row) when is_binary(element(1, Row)) -> Row;
sent({{registered, Name}, App, N, Memory, Binaries, Reductions, Messages, Longest, Of}) ->
    {Name, App, N, Memory, Binaries, Reductions, Messages, Longest, Of, one}.

row({_, App} = Key, Sizes, Queues, HasReductions) ->
    {N, Memory, Binaries, Reductions} = maps:get(Key, Sizes, {0, 0, 0, 0}),
    {Messages, Longest, Of} = maps:get(Key, Queues, {0, 0, none}),
    {element(1, Key), App, N, Memory, Binaries, if HasReductions -> Reductions; true -> -1 end,
     Messages, Longest, Of}.

%% The others are added up.
most(Rows) ->
    {Name, App} = ?OTHERS,
    Sent = lists:usort(largest(?ROWS, 4, Rows) ++ largest(?ROWS_BUSY, 5, Rows)
                       ++ largest(?ROWS_BUSY, 6, Rows) ++ largest(?ROWS_BUSY, 7, Rows)),
    case [Row || Row <- Rows, element(1, Row) =:= Name orelse not lists:member(Row, Sent)] of
        [] -> Sent;
        [First | Others] ->
            Other = lists:foldl(fun both/2, First, Others),
            [setelement(1, setelement(2, Other, App), Name)
             | [Row || Row <- Sent, element(1, Row) =/= Name]]
    end.

largest(N, Of, Rows) ->
    lists:sublist(lists:reverse(lists:keysort(Of, Rows)), N).

both({_, _, N, M, B, R, Q, L, P}, {Name, App, N0, M0, B0, R0, Q0, L0, P0}) ->
    {Longest, Of} = max({L, P}, {L0, P0}),
    {Name, App, N + N0, M + M0, B + B0, if R < 0 -> -1; true -> R + R0 end, Q + Q0, Longest, Of}.
