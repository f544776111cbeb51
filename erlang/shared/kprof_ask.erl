%% kprof_ask - asks processes what they do now: their status, their token and their stack.
%%
%% A stack is the answer of the process itself, when it is scheduled next: process_info/2 waits
%% for one that is in a NIF or collects garbage, and for one that has signals waiting it does so
%% whatever it asks. So it is called by a worker. A worker that waits longer than ?ANSWER_MS is
%% killed, its process counts as not seen, and another goes on with the rest. What it has asked
%% stays in the queue of that process, which is asked more and more seldom.
%%
%% The VM reads the status in 0.2 us without the process, and so the token of one that waits. Asked
%% together with the stack, the status of every process is `running`, because it answers; so the
%% status is asked first. A process that runs shows its stack where it is scheduled out or receives.
-module(kprof_ask).

-export([start/0, take/2, take_ours/2, stop/1, worker_of/1, is_idle/1, seek/2, spread/2,
         looker/0, statuses/2, looker_stop/1, looker_of/1, ask_each/4, ask_later/3, is_silent/3,
         processes_list/0]).
-export_type([asker/0, answer/0, frames/0, looker/0, silent/0]).

-import(kprof_injected, [now_ms/0, now_ns/0, process_label/2]).

-include("kprof_label.hrl").

-define(ANSWER_MS, 5).          % for an answer
-define(DIRECT_NS, 5000).       % in which the VM reads a status by itself: it takes 200
-define(SILENT_MS, {25, 10000}).        % a process that did not answer is asked again: ask_later/3
-define(SILENT_MAX, 1000).      % such processes; what is forgotten is asked too early
-define(TOGETHER, 100).         % questions of ask_each/4, some at a time
-define(EACH_MS, 50).           % for an answer to one: it may have to be scheduled
-define(LIST_MAX, 1000000).     % 8 MB; of more processes every second, third.. is listed
-define(MANY, 10000).           % processes, which take a millisecond
-define(ROOM_MAX, 8000000).     % words
-define(STILL_MAX, 2000).       % waiting processes whose stack is known; forgotten: asked again

-type frames() :: [{module(), atom(), arity(), Line :: non_neg_integer()}].
%% At: when it was asked, monotonic ns; its status is of then. Took: until its answer was read, ns;
%% 0 where its token and stack are of then, too. Label: of kprofd's token, else 0. Status: undefined
%% if that was not answered.
-type answer() :: {Tag :: term(), At :: integer(), Took :: non_neg_integer(), Status :: atom(),
                   Label :: non_neg_integer(), frames() | not_seen}.

-type silent() :: #{pid() => {AgainAtMs :: integer(), WaitMs :: pos_integer()}}.

-record(asker, {
    worker = none :: none | {pid(), reference()},
    silent = #{} :: silent(),
    still = #{} :: #{pid() => {Reductions :: non_neg_integer(), Label :: non_neg_integer(),
                               frames()}},
    stacks = 0 :: non_neg_integer()     % asked for by take_ours/2
}).
-opaque asker() :: #asker{}.

-define(STATUSES, {running, runnable, garbage_collecting, waiting}).
-define(GONE, 9).
-define(OTHER, 4).              % counts as waiting

-record(looker, {
    worker = none :: none | {pid(), reference()},
    mute = #{} :: silent()
}).
-opaque looker() :: #looker{}.

%% The worker that it starts when it is needed is linked to the calling process.
-spec start() -> asker().
start() -> #asker{}.

-spec stop(asker()) -> ok.
stop(#asker{worker = none}) -> ok;
stop(#asker{worker = Worker}) ->
    _ = worker_end(Worker, make_ref()),
    ok.

%% The process that asks, if there is one.
-spec worker_of(asker()) -> none | pid().
worker_of(#asker{worker = none}) -> none;
worker_of(#asker{worker = {Pid, _}}) -> Pid.

%% Asks all of them; leaves out those that have ended.
-spec take([{pid(), Tag :: term()}], asker()) -> {[answer()], asker()}.
take(Asked, Asker0) ->
    {Found, Asker} = ask(all, [{P, Tag, none} || {P, Tag} <- Asked], Asker0),
    {[F || F <- Found, tuple_size(F) =:= 6], Asker#asker{still = #{}}}.

%% The same of those that have a token of kprofd's; others are left out, if they answer. One that
%% waits and has not run since it was asked is not asked again. Stacks: how many were asked for.
%% Ended: the tags of those that have.
-spec take_ours([{pid(), Tag :: term()}], asker()) ->
          {[answer()], Stacks :: non_neg_integer(), Ended :: [Tag :: term()], asker()}.
take_ours(Asked, #asker{still = Still} = Asker0) ->
    {Found, Asker} =
        ask(ours, [{P, Tag, maps:get(P, Still, none)} || {P, Tag} <- Asked],
            Asker0#asker{stacks = 0}),
    {Ended, Answers} = lists:partition(fun(F) -> tuple_size(F) =:= 2 end, Found),
    {Answers, Asker#asker.stacks, [Tag || {ended, Tag} <- Ended], Asker}.

%% The tags of those that wait and have a token of kprofd's.
-spec seek([{pid(), Tag :: term()}], asker()) -> {[Tag :: term()], asker()}.
seek(Asked, Asker0) ->
    {Found, Asker} = ask(seek, [{P, Tag, none} || {P, Tag} <- Asked], Asker0),
    {[Tag || {found, Tag} <- Found], Asker}.

%% The status of a process, and not the one that it has while it answers, which is always
%% `running`. It answers where a signal waits for it, such as a message: then it is about to run.
-spec status_of(pid()) -> atom() | undefined.
status_of(P) ->
    T0 = now_ns(),
    case process_info(P, status) of
        {status, running} ->
            Took = now_ns() - T0,
            if Took > ?DIRECT_NS -> runnable; true -> running end;
        {status, Status} -> Status;
        undefined -> undefined
    end.

%% Whether the stack is that of an OTP behaviour that waits for its next message.
-spec is_idle(frames() | not_seen) -> boolean().
is_idle([{gen_server, loop, _, _} | _]) -> true;
is_idle([{gen_statem, loop_receive, _, _} | _]) -> true;
is_idle([{gen_event, fetch_msg, _, _} | _]) -> true;
is_idle([{erlang, hibernate, _, _} | _]) -> true;
is_idle([{proc_lib, hibernate, _, _} | _]) -> true;
is_idle(_) -> false.

%% ------------------------------------------------------------- the asker ----

ask(Which, Asked, #asker{silent = Silent} = Asker) ->
    Now = now_ms(),
    {Unasked, Now1} = lists:partition(fun({P, _, _}) -> is_silent(P, Now, Silent) end, Asked),
    NotSeen = [not_seen(Tag, {now_ns(), undefined, 0}) || {_, Tag, _} <- Unasked],
    ask_all(Which, Now1, NotSeen, Asker).

ask_all(_, [], Found, Asker) -> {Found, Asker};
ask_all(Which, Asked, Found, Asker0) ->
    Asker = with_worker(Asker0),
    Ref = make_ref(),
    element(1, Asker#asker.worker) ! {ask, Ref, Which, Asked},
    gather(Which, Ref, Asked, not_begun(), Found, Asker).

not_begun() -> {now_ns(), undefined, 0}.

%% The worker answers in order, once for each process; before it asks one that runs, it says so.
gather(_, _, [], _, Found, Asker) -> {Found, Asker};
gather(Which, Ref, Left, Begun, Found, #asker{worker = {_, Monitor} = Worker} = Asker) ->
    receive
        {Ref, Message} ->
            {Left1, Begun1, Found1, Asker1} = answered(Message, Left, Begun, Found, Asker),
            gather(Which, Ref, Left1, Begun1, Found1, Asker1);
        {'DOWN', Monitor, process, _, _} ->
            ask_all(Which, Left, Found, Asker#asker{worker = none})
    after ?ANSWER_MS ->
            Late = worker_end(Worker, Ref),
            unanswered(Which, lists:foldl(fun(M, {L, B, F, A}) -> answered(M, L, B, F, A) end,
                                          {Left, Begun, Found, Asker#asker{worker = none}}, Late))
    end.

answered({runs, At, Status, Label}, Left, _, Found, Asker) ->
    {Left, {At, Status, Label}, Found, Asker};
answered(Answer, [{P, Tag, Known} | Left], _, Found,
         #asker{silent = Silent, stacks = Stacks} = Asker) ->
    Heard = Asker#asker{silent = maps:remove(P, Silent),
                        stacks = Stacks + if tuple_size(Answer) =:= 6 -> 1; true -> 0 end},
    {Left, not_begun(), answer(Answer, Tag, Known, Found), remember(Answer, P, Heard)}.

answer({At, Took, Status, Label, _, Frames}, Tag, _, Found) ->
    [{Tag, At, Took, Status, Label, Frames} | Found];
answer({At, same}, Tag, {_, Label, Frames}, Found) ->
    [{Tag, At, 0, waiting, Label, Frames} | Found];
answer({ended}, Tag, _, Found) -> [{ended, Tag} | Found];
answer({found}, Tag, _, Found) -> [{found, Tag} | Found];
answer({not_ours}, _, _, Found) -> Found.

remember({_, _, waiting, Label, Reductions, Frames}, P, #asker{still = Still} = Asker)
  when is_integer(Reductions) ->
    Kept = if map_size(Still) < ?STILL_MAX -> Still; true -> #{} end,
    Asker#asker{still = Kept#{P => {Reductions, Label, Frames}}};
remember({_, same}, _, Asker) -> Asker;
remember(_, P, #asker{still = Still} = Asker) ->
    Asker#asker{still = maps:remove(P, Still)}.

unanswered(_, {[], _, Found, Asker}) -> {Found, Asker};
unanswered(Which, {[{P, Tag, _} | Left], Begun, Found, Asker}) ->
    ask_all(Which, Left, [not_seen(Tag, Begun) | Found], silent(P, Asker)).

%% As it was when it was asked.
not_seen(Tag, {At, Status, Label}) -> {Tag, At, 0, Status, Label, not_seen}.

silent(P, #asker{silent = Silent} = Asker) ->
    Asker#asker{silent = ask_later(P, ?SILENT_MS, Silent)}.

%% One that did not answer is asked again after First ms, and then after twice as long each time, up
%% to Most.
-spec ask_later(pid(), {First :: pos_integer(), Most :: pos_integer()}, silent()) -> silent().
ask_later(P, {First, Most}, Silent) ->
    Wait = case Silent of
               #{P := {_, Ms}} -> min(2 * Ms, Most);
               #{} -> First
           end,
    Kept = if map_size(Silent) < ?SILENT_MAX -> Silent; true -> #{} end,
    Kept#{P => {now_ms() + Wait, Wait}}.

%% Is it not to be asked yet?
-spec is_silent(pid(), integer(), silent()) -> boolean().
is_silent(P, NowMs, Silent) ->
    case Silent of #{P := {At, _}} -> At > NowMs; #{} -> false end.

%% Returns N different elements, evenly spaced from a random place on, so that each is taken with
%% the same probability; or all elements, if there are N or fewer.
-spec spread(pos_integer(), tuple()) -> [term()].
spread(N, Tuple) when N >= tuple_size(Tuple) -> tuple_to_list(Tuple);
spread(N, Tuple) ->
    Step = tuple_size(Tuple) / N,
    Start = rand:uniform() * Step,
    [element(min(trunc(Start + I * Step), tuple_size(Tuple) - 1) + 1, Tuple)
     || I <- lists:seq(0, N - 1)].

%% ------------------------------------------------------------ the worker ----

with_worker(#asker{worker = none} = Asker) ->
    Owner = self(),
    Module = case get('$initial_call') of {M, _, _} -> M; _ -> kprof end,
    Asker#asker{worker = worker_start(Module, asker, fun(Monitor) -> worker(Owner, Monitor) end)};
with_worker(Asker) -> Asker.

%% Linked, so that it ends with its owner also where it waits for an answer; monitored by both, so
%% that it ends when the owner ends without a failure. Run is called with its monitor.
-spec worker_start(module(), atom(), fun((reference()) -> term())) -> {pid(), reference()}.
worker_start(Module, Role, Run) ->
    Owner = self(),
    spawn_opt(fun() ->
                      process_label(Module, Role),
                      Run(erlang:monitor(process, Owner))
              end, [link, monitor, {priority, high}]).

-spec worker_kill({pid(), reference()}) -> ok.
worker_kill({Pid, Monitor}) ->
    unlink(Pid),
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, _, _} -> ok end.

%% Returns what it has sent before it ended.
worker_end(Worker, Ref) ->
    worker_kill(Worker),
    late(Ref).

late(Ref) ->
    receive {Ref, Message} -> [Message | late(Ref)] after 0 -> [] end.

worker(Owner, Monitor) ->
    receive
        {ask, Ref, Which, Asked} ->
            [Owner ! {Ref, question(Which, P, Known, Owner, Ref)} || {P, _, Known} <- Asked],
            worker(Owner, Monitor);
        {'DOWN', Monitor, process, _, _} -> ok
    end.

%% Of a process that runs only the status can be read without its answer.
question(Which, P, Known, Owner, Ref) ->
    At = now_ns(),
    case {Which, status_of(P)} of
        {_, undefined} -> {ended};
        {seek, waiting} -> has_token(P);
        {seek, _} -> {not_ours};
        {ours, waiting} -> waits(P, At, Known);
        {all, waiting} -> stack(P, At, waiting);
        {_, Status} ->
            Owner ! {Ref, {runs, At, Status, 0}},
            stack(P, At, Status)
    end.

has_token(P) ->
    case process_info(P, sequential_trace_token) of
        {_, Token} -> case label(Token) of 0 -> {not_ours}; _ -> {found} end;
        undefined -> {ended}
    end.

waits(P, At, Known) ->
    case process_info(P, [sequential_trace_token, reductions]) of
        [{_, Token}, {_, Reductions}] ->
            case {label(Token), Known} of
                {0, _} -> {not_ours};
                {Label, {Before, Label, _}} when Reductions - Before =< 1 ->
                    {At, same};                 % to answer takes one reduction
                _ -> stack(P, At, waiting)
            end;
        undefined -> {ended}
    end.

stack(P, At, Status) ->
    case process_info(P, [sequential_trace_token, current_stacktrace, reductions]) of
        [{_, Token}, {_, Stack}, {_, Reductions}] ->
            {At, answer_took(Status, At), Status, label(Token), Reductions, frames(Stack)};
        undefined -> {ended}
    end.

%% One that waits answers before it takes a message: its stack is the one that it had when it was
%% asked. The answer may be read much later, on a busy node. One that runs goes on until it answers.
answer_took(waiting, _) -> 0;
answer_took(_, At) -> max(1, now_ns() - At).

label({_, Label, _, _, _}) when is_integer(Label), Label bsr ?SIGN_BITS =:= ?LABEL_SIGN -> Label;
label(_) -> 0.

%% Functions and lines only.
frames(Stack) ->
    [{M, F, if is_integer(A) -> A; true -> length(A) end, proplists:get_value(line, At, 0)}
     || {M, F, A, At} <- Stack].

%% ---------------------------------------------------------- statuses of many ----

%% A worker writes the statuses into an array, since a message for each process would cost more
%% than the question. The array also shows how far the worker has come.

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
    Found = maps:from_list([{element(I, Tuple), element(Code, ?STATUSES)}
                            || I <- lists:seq(1, tuple_size(Tuple)),
                               Code <- [atomics:get(Codes, I)], Code > 0, Code =/= ?GONE]),
    {maps:merge(Found, maps:from_keys(Stuck ++ Unasked, not_seen)),
     L#looker{mute = muted(Stuck, Found, L#looker.mute)}}.

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
    lists:foldl(fun(P, Acc) -> ask_later(P, ?SILENT_MS, Acc) end, Left, Stuck).

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

%% ------------------------------------------------------ a question to each ----

%% Asks a question of ours about each, in order, some at a time, and returns the answers, and what
%% gave none. Of those that are asked together, one that does not answer is left out, and the
%% others are asked again. A question that fails is answered `gone`.
%% Module: whose process asks. Limit: a monitor of the server that wants to know, and until when.
-spec ask_each(module(), [Of], fun((Of) -> Answer), {reference(), UntilMs :: integer()}) ->
          {[Answer | gone], Silent :: [Of]}.
ask_each(Module, All, Question, Limit) ->
    Asks = self(),
    Place = atomics:new(1, []),
    New = fun() ->
                  spawn_opt(fun() ->
                                    process_label(Module, asker),
                                    each_asker(Asks, Question, Place)
                            end, [link, monitor])
          end,
    {Answers, Silent, Last} = each_of(All, {New, Place, Limit}, New(), {[], []}),
    asker_end(Last),
    {lists:append(Answers), Silent}.

each_of([], _, Asker, {Answers, Silent}) -> {Answers, Silent, Asker};
each_of(All, {New, Place, {_, Until} = Limit} = How, Asker, {Answers, Silent} = Found) ->
    {Now, Later} = lists:split(min(?TOGETHER, length(All)), All),
    case now_ms() < Until andalso each_now(Now, Place, Limit, Asker) of
        false -> {Answers, Silent, Asker};
        {answers, Some} -> each_of(Later, How, Asker, {[Some | Answers], Silent});
        {silent, I} ->
            asker_end(Asker),
            {Before, [One | Behind]} = lists:split(I - 1, Now),
            each_of(Before ++ Behind ++ Later, How, New(), setelement(2, Found, [One | Silent]))
    end.

each_now(Now, Place, {Server, _}, {Asker, _} = Both) ->
    atomics:put(Place, 1, 1),
    Asker ! {ask, Now},
    each_await(Place, 0, Both, Server).

%% One that is only slow is waited for.
each_await(Place, Before, {Asker, _} = Both, Server) ->
    receive
        {Asker, Answers} -> {answers, Answers};
        {'DOWN', Server, _, _, _} -> exit(shutdown)
    after ?EACH_MS ->
            case atomics:get(Place, 1) of
                Before -> {silent, Before};
                At -> each_await(Place, At, Both, Server)
            end
    end.

%% What it answered meanwhile is asked again.
asker_end({Asker, _} = Worker) ->
    worker_kill(Worker),
    receive {Asker, _} -> ok after 0 -> ok end.

each_asker(Asks, Question, Place) ->
    receive
        {ask, Now} ->
            {Answers, _} = lists:mapfoldl(fun(One, I) ->
                                                  atomics:put(Place, 1, I),
                                                  {try Question(One) catch _:_ -> gone end, I + 1}
                                          end, 1, Now),
            Asks ! {self(), Answers},
            each_asker(Asks, Question, Place)
    end.

%% -------------------------------------------------------- the node's processes ----

%% Returns {how many processes each stands for, them}.
-spec processes_list() -> {pos_integer(), tuple()}.
processes_list() ->
    case erlang:system_info(process_count) of
        Many when Many >= ?MANY -> list_apart(Many);
        _ -> list()
    end.

list() ->
    All = processes(),
    Step = (length(All) - 1) div ?LIST_MAX + 1,
    {Step, list_to_tuple(every(Step, All))}.

%% By a process of normal priority, or others would wait for all of it; with room for it, so that
%% nothing is collected. A list that is not made leaves the node unlooked at until the next one.
list_apart(Many) ->
    {Pid, Ref} = spawn_opt(fun() -> exit({listed, list()}) end,
                           [monitor, {priority, normal},
                            {min_heap_size, min(4 * Many, ?ROOM_MAX)}]),
    receive
        {'DOWN', Ref, process, Pid, {listed, Listed}} -> Listed;
        {'DOWN', Ref, process, Pid, _} -> {1, {}}
    end.

every(1, All) -> All;
every(Step, All) -> every(rand:uniform(Step), Step, All).

every(1, Step, [P | All]) -> [P | every(Step, Step, All)];
every(N, Step, [_ | All]) -> every(N - 1, Step, All);
every(_, _, []) -> [].
