%% kprof_usage - what a node's processes and tables use: how many messages wait for groups of
%% processes (kprof_names), the longest queue, their memory, binaries and reductions; ETS tables;
%% and the memory of the node.
%%
%% A process of its own walks over all processes, a slice at a time, and rests after each slice for
%% as long as it takes to stay below a share of one scheduler. The length of a queue is read in
%% some 0.5 us, from every process. Sizes are the answer of the process itself, and cost some 5 us:
%% where these are too many for one walk, a process is asked in one of several, and the sizes are
%% complete after that *round*. Names are asked for once, and kept. Slices are evenly spread over
%% the list, so that a part of a walk is a sample. No value leaves a process but its size, and the
%% names of its group.
%%
%% All its time is accounted, as measured. The clock also counts what others do meanwhile on a busy
%% node, so no step counts for more than its questions take where nothing disturbs them.
%%
%% The walk goes on when its owner says so (usage_go/1), which ticks: it stands still with tracing.
%% A process that does not answer, as in native code, is in the group "(not seen)", and is asked
%% again more and more seldom. The VM goes through the messages of a long queue to tell the memory:
%% such a process is asked for none, and is in the group "(not sized)".
%%
%% Between the process and its owner: {usage, Pid, ask}, for usage_go, and after a slice of the
%% first walk, and after each walk, {usage, Pid, {part | walk, Usage, BusyNs}}; BusyNs: what it took
%% since the last one.
-module(kprof_usage).

-export([usage_start/4, usage_go/1, usage_handle/2, usage_stop/1]).
-export_type([usage/0, walker/0]).

-import(kprof_ask, [ask_each/4, ask_later/3, is_silent/3, processes_list/0, spread/2]).
-import(kprof_injected, [fell/1, hide/0, may_again/1, now_ms/0, now_ns/0, process_label/2]).
-import(kprof_names, [application_of/1, atom_text/1, group_of/2, group_text/1]).

-define(WALK_MS, 8000).         % from the beginning of a walk to the next: a window has one
-define(SLICE, 1000).           % processes
-define(TABLES_SLICE, 200).
-define(LIMIT_MS, 1000).        % for a slice: what had no time for an answer is not seen
-define(TABLES_MAX, 10000).
%% What something takes, in ns: at first, at least and at most.
-define(PRICES, #{list => {100, 30, 300},       % a process of a list
                  queue => {800, 300, 2000},    % a question for it
                  sizes => {6000, 2000, 12000},
                  name => {15000, 5000, 60000},
                  table => {2000, 500, 6000},
                  sum => {1500, 200, 5000},     % a process that has messages, or sizes
                  report => {200000, 10000, 4000000}}).
-define(ASK_NS, 50000).         % to begin to ask
-define(LEARN, 20).             % questions, which tell what one takes
-define(SILENT_MS, {2 * ?WALK_MS, 600000}).     % until a process that did not answer is asked again
-define(LONG, 10000).           % messages: the VM would go through them for sizes
-define(GROUPS_MAX, 1000).      % different ones; the rest is one
-define(TEXTS_MAX, 2000).       % names, and applications, that are kept
-define(SPAN, 1048576).
-define(ROWS, 20).              % sent: those with most memory,
-define(ROWS_BUSY, 8).          % and with most messages, or reductions
-define(TABLES, 12).
-define(KNOWN_MAX, 50000).      % processes, of which name and reductions are kept
-define(RENAMED, 60).           % rounds, after which a name is asked for again
-define(WORDS_MAX, 16000000).   % of memory
-define(OTHERS, {<<"_other">>, undefined}).

-type key() :: {kprof_names:name(), Application :: atom()}.
%% Processes, bytes, bytes of binaries that they refer to; of how many the reductions a second are
%% known, and these.
-type sizes() :: {non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer(),
                  float()}.
-type queue() :: {non_neg_integer(), Longest :: non_neg_integer(), pid() | none}.
%% At: when the walk began, in monotonic ns. Of: processes that there were; Looked: those that
%% answered. Sized of SizedOf: of these the sizes are; RoundNs: the time in which they were asked
%% for. Reductions: in RoundNs; -1: not known. One: the group is a registered process.
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

-type known() :: #{pid() => {key(), Reductions :: non_neg_integer() | none, AtNs :: integer()}}.

-record(round, {
    began :: integer(),         % monotonic ns
    from = 0 :: non_neg_integer(),      % a walk asks a part of the processes for sizes,
    upto = 0 :: non_neg_integer(),      % of ?SPAN
    sized = 0 :: non_neg_integer(),
    sizes = #{} :: #{key() => sizes()},
    known = #{} :: known()
}).

-type sized() :: {#{key() => sizes()}, Sized :: non_neg_integer(), Of :: non_neg_integer(),
                  Ns :: non_neg_integer()}.

-record(usage, {
    module :: module(),         % whose process it is
    owner :: pid(),
    monitor :: reference(),
    from :: all | [pid()],
    ppm :: pos_integer(),       % of one scheduler
    depth :: pos_integer(),
    round :: #round{},
    rounds = 0 :: non_neg_integer(),
    known = #{} :: known(),     % of the last round
    texts = #{} :: #{kprof_names:raw_name() => kprof_names:name()},
    leaders = #{} :: #{pid() => atom()},        % their applications, in this walk
    silent = #{} :: kprof_ask:silent(),
    done = none :: none | sized(),      % the last round
    step = 1 :: pos_integer(),  % each in the list of this walk stands for as many
    queues = #{} :: #{key() => queue()},        % of this walk, as the next five
    looked = 0 :: non_neg_integer(),
    ended = 0 :: non_neg_integer(),
    long = 0 :: non_neg_integer(),
    began = -1 bsl 63 :: integer(),     % monotonic ns
    tables = [] :: list(),
    large = [] :: [ets:tid() | atom()], % the tables that had most memory
    memory = [] :: list(),
    prices = ?PRICES :: #{atom() => {pos_integer(), pos_integer(), pos_integer()}},
    since = 0 :: integer(),     % monotonic ns: the time from then on is not accounted yet
    owed = 0 :: non_neg_integer(),      % ns that it did not rest for yet
    busy = 0 :: integer()       % ns that were not reported yet, but for those owed
}).

%% What its owner keeps of the process. It is started again where it ends, later each time.
-record(walker, {
    start :: fun(() -> {pid(), reference()}),
    process :: none | {pid(), reference()},
    asks = false :: boolean(),  % it waits for usage_go
    falls = {0, 0} :: kprof_injected:falls()
}).
-opaque walker() :: #walker{}.

%% Starts the process. Module: whose it is. Depth: the frames that a stack shows.
-spec usage_start(module(), all | [pid()], pos_integer(), pos_integer()) -> walker().
usage_start(Module, From, Ppm, Depth) ->
    Owner = self(),
    Run = fun() ->
                  process_label(Module, usage),
                  hide(),
                  walks(#usage{module = Module, owner = Owner, from = From, ppm = Ppm,
                               depth = Depth, monitor = erlang:monitor(process, Owner),
                               round = round_new()})
          end,
    Start = fun() ->
                    spawn_opt(Run, [monitor, {max_heap_size, #{size => ?WORDS_MAX, kill => true,
                                                               error_logger => false}}])
            end,
    #walker{start = Start, process = Start()}.

%% At each tick of the owner.
-spec usage_go(walker()) -> walker().
usage_go(#walker{process = none, start = Start, falls = Falls} = W) ->
    case may_again(Falls) of
        true -> W#walker{process = Start(), asks = false};
        false -> W
    end;
usage_go(#walker{process = {Pid, _}, asks = true} = W) ->
    Pid ! usage_go,
    W#walker{asks = false};
usage_go(W) -> W.

%% A message that begins with `usage`, or with 'DOWN'.
-spec usage_handle(tuple(), walker()) ->
          {none | {part | walk, usage(), BusyNs :: non_neg_integer()}, walker()}.
usage_handle({usage, Pid, ask}, #walker{process = {Pid, _}} = W) -> {none, W#walker{asks = true}};
usage_handle({usage, Pid, Found}, #walker{process = {Pid, _}} = W) -> {Found, W};
usage_handle({'DOWN', Ref, _, _, _}, #walker{process = {_, Ref}, falls = Falls} = W) ->
    {none, W#walker{process = none, falls = fell(Falls)}};
usage_handle(_, W) -> {none, W}.

-spec usage_stop(walker()) -> true.
usage_stop(#walker{process = none}) -> true;
usage_stop(#walker{process = {Pid, _}}) -> exit(Pid, kill).

-spec walks(#usage{}) -> no_return().
walks(U) ->
    rest(max(0, U#usage.began div 1000000 + ?WALK_MS - now_ms()), U),
    walks(walk(U)).

%% Rests for Ms, then asks the owner for the next tick, and waits for that.
rest(Ms, #usage{monitor = Monitor, owner = Owner}) ->
    receive {'DOWN', Monitor, _, _, _} -> exit(shutdown) after Ms -> ok end,
    Owner ! {usage, self(), ask},
    receive
        usage_go -> ok;
        {'DOWN', Monitor, _, _, _} -> exit(shutdown)
    end.

%% ----------------------------------------------------------- what it takes ----

%% The time since the last step was for N of this kind. A price goes up and down by the same part,
%% and so to the middle of what they take.
took(Kind, N, #usage{since = Since, prices = Prices, owed = Owed} = U) ->
    Now = now_ns(),
    {Before, Least, Most} = map_get(Kind, Prices),
    Each = (Now - Since - ?ASK_NS div 2) div max(1, N),
    Price = if N < ?LEARN, Kind =/= report -> Before;
               Each < Before -> max(Least, Before - Before div 16);
               true -> min(Most, Before + Before div 16)
            end,
    U#usage{since = Now, prices = Prices#{Kind := {Price, Least, Most}},
            owed = Owed + min(Now - Since, 2 * N * Price + ?ASK_NS)}.

price(Kind, #usage{prices = Prices}) -> element(1, map_get(Kind, Prices)).

%% Rests for what was done.
pay(#usage{ppm = Ppm, owed = Owed, busy = Busy} = U) ->
    rest(Owed div Ppm, U),
    U#usage{owed = 0, busy = Busy + Owed, since = now_ns()}.

%% {Answers, U}: of those that do not answer, none. The first element of what is asked about, or
%% all of it, is a process, or a table.
each_asked(Kind, All, Question, #usage{module = Module, monitor = Monitor, silent = Silent} = U) ->
    {Answers, Mute} = ask_each(Module, All, Question, {Monitor, now_ms() + ?LIMIT_MS}),
    {Answers, took(Kind, length(All),
                   U#usage{silent = lists:foldl(fun(P, S) -> ask_later(P, ?SILENT_MS, S) end,
                                                Silent, [P || P <- Mute, is_pid(P)])})}.

%% ------------------------------------------------------------- a walk ----

walk(#usage{from = From} = U0) ->
    Began = now_ns(),
    {Step, List} = case From of
                       all -> processes_list();
                       _ -> {1, list_to_tuple(From)}
                   end,
    N = tuple_size(List),
    Listed = took(list, N, U0#usage{step = Step, queues = #{}, looked = 0, ended = 0, long = 0,
                                    leaders = #{}, began = Began, since = Began}),
    Memory = took(report, 1, Listed#usage{memory = memory()}),
    U1 = turn(N, tables(Memory)),
    Slices = max(1, (N + ?SLICE - 1) div ?SLICE),
    U = lists:foldl(fun(I, Acc) ->
                            slice([element(K, List) || K <- lists:seq(I, N, Slices)], N, Acc)
                    end, U1, lists:seq(1, Slices)),
    usage_report(walk, N, turn_end(Step * (N - U#usage.ended), U)).

round_new() -> #round{began = now_ns()}.

%% The part of the processes whose sizes this walk has time for: what the queues leave of it, or
%% half of what they take.
turn(N, #usage{round = #round{from = From} = Round, ppm = Ppm, known = Known} = U) ->
    Queues = N * price(queue, U),
    Time = ?WALK_MS * Ppm,
    Sizes = N * price(sizes, U) + max(0, N - map_size(Known)) * price(name, U),
    Part = max(1, ?SPAN * max(Time - Queues, max(Time, Queues) div 2) div max(1, Sizes)),
    U#usage{round = Round#round{upto = min(?SPAN, From + Part)}}.

turn_end(Of, #usage{round = #round{upto = ?SPAN} = Round, rounds = Rounds} = U) ->
    #round{sizes = Sizes, sized = Sized, known = Known, began = Began} = Round,
    U#usage{done = {Sizes, Sized, Of, now_ns() - Began}, known = Known, rounds = Rounds + 1,
            round = round_new()};
turn_end(_, #usage{round = #round{upto = Upto} = Round} = U) ->
    U#usage{round = Round#round{from = Upto}}.

%% The lengths of all queues, then the sizes of those whose turn it is, then the names of both.
slice(All, N, #usage{round = Round, silent = Silent} = U0) ->
    Now = now_ms(),
    Pids = [P || P <- All, not is_silent(P, Now, Silent)],
    {Lengths, U1} = each_asked(queue, Pids, fun queue_of/1, U0),
    Waiting = [Some || {_, _} = Some <- Lengths],
    Gone = length([gone || gone <- Lengths]),
    Long = maps:from_list([Some || {_, Messages} = Some <- Waiting, Messages >= ?LONG]),
    Turn = [P || P <- Pids, is_turn(P, Round), not is_map_key(P, Long),
                 not is_silent(P, Now, U1#usage.silent)],
    {Sizes, U2} = each_asked(sizes, Turn, fun sizes_of/1, U1),
    Sized = [Some || {_, _, _, _, _} = Some <- Sizes],
    {Keys, U3} = names([P || {P, _} <- Waiting], false,
                       names([P || {P, _, _, _, _} <- Sized], true, {#{}, U2})),
    U4 = lists:foldl(fun(S, U) -> add_sizes(S, Keys, U) end, U3, Sized),
    U5 = took(sum, length(Waiting) + length(Sized),
              U4#usage{queues = lists:foldl(fun(Q, Acc) -> add_queue(Q, Keys, Acc) end,
                                            U4#usage.queues, Waiting),
                       looked = U4#usage.looked + length(Lengths) - Gone,
                       ended = U4#usage.ended + Gone, long = U4#usage.long + map_size(Long),
                       silent = maps:filter(fun(P, Again) ->
                                                    not answered(P, Again, Now, Silent)
                                            end, U4#usage.silent)}),
    pay(if U5#usage.done =:= none -> usage_report(part, N, U5); true -> U5 end).

%% One that was to be asked again, and has answered.
answered(P, Again, Now, Before) ->
    element(1, Again) =< Now andalso maps:get(P, Before, none) =:= Again.

is_turn(_, #round{from = 0, upto = ?SPAN}) -> true;
is_turn(P, #round{from = From, upto = Upto}) ->
    Is = erlang:phash2(P, ?SPAN),
    Is >= From andalso Is < Upto.

queue_of(P) ->
    case process_info(P, message_queue_len) of
        {_, 0} -> empty;
        {_, N} -> {P, N};
        undefined -> gone
    end.

sizes_of(P) ->
    case process_info(P, [memory, reductions, garbage_collection_info]) of
        [{_, Memory}, {_, Reductions}, {_, Gc}] -> {P, Memory, binaries(Gc), Reductions, now_ns()};
        undefined -> gone
    end.

%% Bytes of binaries outside heaps that it refers to; one that several refer to counts for each.
binaries(Gc) ->
    (proplists:get_value(bin_vheap_size, Gc, 0) + proplists:get_value(bin_old_vheap_size, Gc, 0))
        * erlang:system_info(wordsize).

%% ---------------------------------------------------------------- names ----

%% {#{pid() => key()}, U}: adds these. Those that are known stay so in this round; others are asked
%% for. May: a process may have got another name meanwhile.
names(Pids, May, {Keys, #usage{depth = Depth, rounds = Rounds} = U0}) ->
    {Found, Asked} = lists:partition(fun(P) ->
                                             known(P, U0) =/= none
                                                 andalso not (May andalso is_renamed(P, Rounds))
                                     end, [P || P <- Pids, not is_map_key(P, Keys)]),
    Kept = lists:foldl(fun(P, {Acc, U}) ->
                               {Key, _, _} = Known = known(P, U),
                               {Acc#{P => Key}, keep(P, Known, U)}
                       end, {Keys, U0}, Found),
    case {Asked, Kept} of
        {[], _} -> Kept;
        {_, {Keys1, U1}} ->
            {Raw, U2} = each_asked(name, Asked, fun(P) -> {P, group_of(P, Depth)} end, U1),
            lists:foldl(fun named/2, {Keys1, U2}, Raw)
    end.

is_renamed(P, Rounds) -> erlang:phash2(P, ?RENAMED) =:= Rounds rem ?RENAMED.

named({P, {Raw, Leader}}, {Keys, U0}) ->
    {Name, U1} = kept(Raw, fun(R) -> group_text(R) end, #usage.texts, U0),
    {App, U} = kept(Leader, fun(L) -> application_of(L) end, #usage.leaders, U1),
    Key = {Name, App},
    Known = case known(P, U) of
                none -> {Key, none, 0};
                Before -> setelement(1, Before, Key)
            end,
    {Keys#{P => Key}, keep(P, Known, U)};
named(_, All) -> All.

%% To make a text takes as long as to ask for it.
kept(Of, Make, Field, U) ->
    case element(Field, U) of
        #{Of := Made} -> {Made, U};
        Some when map_size(Some) < ?TEXTS_MAX ->
            Made = Make(Of),
            {Made, setelement(Field, U, Some#{Of => Made})};
        _ -> {Make(Of), setelement(Field, U, #{})}
    end.

known(P, #usage{round = #round{known = Now}, known = Before}) ->
    case Now of
        #{P := Known} -> Known;
        _ -> maps:get(P, Before, none)
    end.

keep(P, Known, #usage{round = #round{known = All} = Round} = U)
  when map_size(All) < ?KNOWN_MAX; is_map_key(P, All) ->
    U#usage{round = Round#round{known = All#{P => Known}}};
keep(_, _, U) -> U.

%% ----------------------------------------------------------------- sums ----

add_queue({P, N}, Keys, Queues) when is_map_key(P, Keys) ->
    Key = with_room(map_get(P, Keys), Queues),
    case maps:get(Key, Queues, {0, 0, none}) of
        {Sum, Longest, _} when N > Longest -> Queues#{Key => {Sum + N, N, P}};
        {Sum, Longest, Of} -> Queues#{Key => {Sum + N, Longest, Of}}
    end;
add_queue(_, _, Queues) -> Queues.

%% Of reductions, what each has done a second since it was asked last.
add_sizes({P, Memory, Binaries, Reductions, At}, Keys, U0) when is_map_key(P, Keys) ->
    Key = map_get(P, Keys),
    {Rated, Rate} = case known(P, U0) of
                        {_, Then, Before} when is_integer(Then), At > Before ->
                            {1, (Reductions - Then) * 1.0e9 / (At - Before)};
                        _ -> {0, 0.0}
                    end,
    #usage{round = #round{sized = Sized, sizes = All} = Round} = U =
        keep(P, {Key, Reductions, At}, U0),
    Group = with_room(Key, All),
    {N, M, B, K, R} = maps:get(Group, All, {0, 0, 0, 0, 0.0}),
    U#usage{round = Round#round{sized = Sized + 1,
                                sizes = All#{Group => {N + 1, M + Memory, B + Binaries,
                                                       K + Rated, R + Rate}}}};
add_sizes(_, _, U) -> U.

with_room(Key, Map) when is_map_key(Key, Map); map_size(Map) < ?GROUPS_MAX -> Key;
with_room(_, _) -> ?OTHERS.

%% ----------------------------------------------------------- ETS tables ----

%% Tables of one name are one, in the name of the owner of the largest. Where there are too many,
%% named ones and those that were large are asked for, and some of the others.
tables(U0) ->
    {Tables, Left} = tables_chosen(ets:all(), U0#usage.large),
    {Sums, U1} = table_slices(Tables, #{}, pay(took(list, length(Tables) + Left, U0))),
    Most = lists:sublist(lists:reverse(lists:keysort(2, [{Name, Words, N, Objects, Largest}
                                                        || {Name, {N, Words, Objects, Largest}}
                                                               <- maps:to_list(Sums)])), ?TABLES),
    {Keys, U2} = names(lists:usort([Owner || {_, _, _, _, {_, _, Owner}} <- Most]), false,
                       {#{}, U1}),
    Rows = [{atom_text(Name), key_text(maps:get(Owner, Keys, none)), N,
             Words * erlang:system_info(wordsize), Objects}
            || {Name, Words, N, Objects, {_, _, Owner}} <- Most],
    pay(took(table, 0,
             U2#usage{tables = Rows ++ [{<<"(not seen)">>, <<>>, Left, 0, 0} || Left > 0],
                      large = [Table || {_, _, _, _, {_, Table, _}} <- Most]})).

tables_chosen(All, Large) ->
    case length(All) - ?TABLES_MAX of
        Left when Left =< 0 -> {All, 0};
        Left ->
            {First, Others} = lists:partition(fun(Table) ->
                                                      is_atom(Table)
                                                          orelse lists:member(Table, Large)
                                              end, All),
            Room = max(1, ?TABLES_MAX - length(First)),
            {lists:sublist(First, ?TABLES_MAX - 1) ++ spread(Room, list_to_tuple(Others)), Left}
    end.

table_slices([], Sums, U) -> {Sums, U};
table_slices(Tables, Sums0, U0) ->
    {Now, Later} = lists:split(min(?TABLES_SLICE, length(Tables)), Tables),
    {Answers, U} = each_asked(table, Now, fun table_use/1, U0),
    Sums = lists:foldl(fun add_table/2, Sums0, Answers),
    table_slices(Later, Sums, pay(took(table, 0, U))).

table_use(Table) ->
    case {ets:info(Table, name), ets:info(Table, memory), ets:info(Table, size),
          ets:info(Table, owner)} of
        {Name, Words, Objects, Owner} when is_integer(Words), is_integer(Objects), is_pid(Owner) ->
            {Table, Name, Words, Objects, Owner};
        _ -> gone
    end.

add_table(gone, Sums) -> Sums;
add_table({Table, Name, Words, Objects, Owner}, Sums) ->
    {N, W, O, Largest} = maps:get(Name, Sums, {0, 0, 0, {0, none, none}}),
    Sums#{Name => {N + 1, W + Words, O + Objects, max(Largest, {Words, Table, Owner})}}.

key_text(none) -> <<>>;
key_text({{registered, Name}, _}) -> Name;
key_text({Name, _}) -> Name.

%% -------------------------------------------------------------- reports ----

%% Kinds of erlang:memory/0, with how many of them there are, and may be; 0: not known. None where
%% an allocator does not count.
memory() ->
    Counts = #{processes => {erlang:system_info(process_count),
                             erlang:system_info(process_limit)},
               atom => {erlang:system_info(atom_count), erlang:system_info(atom_limit)},
               ets => {erlang:system_info(ets_count), 0}},
    Known = try erlang:memory() catch error:notsup -> [] end,
    [begin
         {Count, Limit} = maps:get(Kind, Counts, {0, 0}),
         {Kind, Bytes, Count, Limit}
     end || {Kind, Bytes} <- Known,
            lists:member(Kind, [total, processes, system, atom, binary, code, ets])].

usage_report(What, N, #usage{owner = Owner, busy = Busy, owed = Owed, step = Step,
                             looked = Looked, ended = Ended, long = Long} = U) ->
    Now = now_ns(),
    {Sizes, Sized, SizedOf, RoundNs} =
        case U#usage.done of
            none ->
                #round{began = Began, sizes = So, sized = Far} = U#usage.round,
                {So, Far, Step * (N - Ended), Now - Began};
            Done -> Done
        end,
    Rows = [row(Key, Sizes, U#usage.queues, RoundNs)
            || Key <- lists:usort(maps:keys(Sizes) ++ maps:keys(U#usage.queues))],
    Counts = {Looked, Step * (N - Ended), Sized, SizedOf, Now - U#usage.began, RoundNs},
    Unseen = if What =:= walk -> N - Ended - Looked; true -> 0 end,
    Groups = [{Name, undefined, Some, 0, 0, -1, 0, 0, none}
              || {Name, Some} <- [{<<"(not seen)">>, Unseen}, {<<"(not sized)">>, Long}], Some > 0],
    Usage = {U#usage.began, Counts, [sent(Row) || Row <- most(Rows)] ++ Groups, U#usage.tables,
             U#usage.memory},
    Owner ! {usage, self(), {What, Usage, Busy + Owed}},
    took(report, 1, U#usage{busy = -Owed}).

sent(Row) when is_binary(element(1, Row)) -> Row;
sent({{registered, Name}, App, N, Memory, Binaries, Reductions, Messages, Longest, Of}) ->
    {Name, App, N, Memory, Binaries, Reductions, Messages, Longest, Of, one}.

%% Reductions: at their rate, in the time of a round.
row({Name, App} = Key, Sizes, Queues, RoundNs) ->
    {N, Memory, Binaries, Rated, Rate} = maps:get(Key, Sizes, {0, 0, 0, 0, 0.0}),
    {Messages, Longest, Of} = maps:get(Key, Queues, {0, 0, none}),
    Reductions = if Rated > 0 -> round(Rate * RoundNs / 1.0e9); true -> -1 end,
    {Name, App, N, Memory, Binaries, Reductions, Messages, Longest, Of}.

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
    Reductions = if R < 0 -> R0; R0 < 0 -> R; true -> R + R0 end,
    {Name, App, N + N0, M + M0, B + B0, Reductions, Q + Q0, Longest, Of}.
