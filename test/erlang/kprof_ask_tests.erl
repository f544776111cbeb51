-module(kprof_ask_tests).

-include_lib("eunit/include/eunit.hrl").
-include("kprof_label.hrl").

-export([waits/0, runs/1]).

-define(LABEL, ((?LABEL_KPROFD bsl ?KIND_BITS) bor 7)).

waits() ->
    receive
        {From, again} -> From ! done, waits();
        stop -> ok
    end.

runs(N) -> runs(N + 1).

%% Makes the process's stack deeper than the function that it waits in.
started(Token, Run) ->
    Self = self(),
    P = spawn(fun() ->
                      [seq_trace:set_token(label, Token) || is_integer(Token)],
                      Self ! {self(), ready},
                      Run()
              end),
    receive {P, ready} -> ok end,
    wait(fun() -> is_there(process_info(P, current_function)) end),
    P.

is_there({current_function, {?MODULE, F, _}}) -> lists:member(F, [waits, runs]);
is_there(_) -> false.

wait(Is) -> Is() orelse begin timer:sleep(1), wait(Is) end.

ended(Ps) -> [exit(P, kill) || P <- Ps].

one(P) ->
    {Answers, Asker} = kprof_ask:take([{P, here}], kprof_ask:start()),
    kprof_ask:stop(Asker),
    Answers.

one_of_ours(P) ->
    {Answers, Stacks, Ended, Asker} = kprof_ask:take_ours([{P, here}], kprof_ask:start()),
    kprof_ask:stop(Asker),
    {Answers, Stacks, Ended}.

waiting_test() ->
    P = started(none, fun waits/0),
    Before = erlang:monotonic_time(nanosecond),
    [{here, At, 0, waiting, 0, [{?MODULE, waits, 0, Line} | _]}] = one(P),
    ?assert(At >= Before andalso At =< erlang:monotonic_time(nanosecond)),
    ?assert(Line > 0),
    ended([P]).

%% It is told apart, though a process that answers runs.
running_test() ->
    P = started(none, fun() -> runs(0) end),
    [{here, _, _, Status, 0, [{?MODULE, runs, 1, _} | _]}] = one(P),
    ?assert(lists:member(Status, [running, runnable])),
    ended([P]).

label_test() ->
    P = started(?LABEL, fun waits/0),
    Foreign = started(17, fun waits/0),
    ?assertMatch([{here, _, 0, waiting, ?LABEL, [_ | _]}], one(P)),
    ?assertMatch([{here, _, 0, waiting, 0, [_ | _]}], one(Foreign)),
    ?assertMatch({[{here, _, 0, waiting, ?LABEL, [_ | _]}], 1, []}, one_of_ours(P)),
    ?assertEqual({[], 0, []}, one_of_ours(Foreign)),
    ended([P, Foreign]).

ended_test() ->
    {P, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, P, _} -> ok end,
    ?assertEqual([], one(P)),
    ?assertEqual({[], 0, [here]}, one_of_ours(P)).

%% What has not run is not asked again, and what has is.
still_test() ->
    P = started(?LABEL, fun waits/0),
    Asked = [{P, here}],
    {[{_, At1, 0, _, _, Frames}], 1, [], A1} = kprof_ask:take_ours(Asked, kprof_ask:start()),
    {reductions, R} = process_info(P, reductions),
    {[{here, At2, 0, waiting, ?LABEL, Frames}], 0, [], A2} = kprof_ask:take_ours(Asked, A1),
    ?assertEqual({reductions, R}, process_info(P, reductions)),
    ?assert(At2 >= At1),
    seq_trace:set_token(label, ?LABEL + 1),
    P ! {self(), again},
    receive done -> seq_trace:set_token([]) end,
    wait(fun() -> process_info(P, status) =:= {status, waiting} end),
    {[{here, _, 0, waiting, Label, Frames}], 1, [], A3} = kprof_ask:take_ours(Asked, A2),
    ?assertEqual(?LABEL + 1, Label),
    ?assertNotEqual({reductions, R}, process_info(P, reductions)),
    kprof_ask:stop(A3),
    ended([P]).

%% One collects garbage again and again, each time for longer than is waited for.
not_seen_test_() -> {timeout, 60, fun not_seen/0}.

not_seen() ->
    Waiting = [started(none, fun waits/0) || _ <- [1, 2]],
    Silent = spawn(fun() -> collects([[N] || N <- lists:seq(1, 1000000)]) end),
    A = not_seen(Silent, kprof_ask:start()),
    %% It is not asked again at once, and does not hold up the others.
    {Next, A1} = kprof_ask:take([{hd(Waiting), first}, {Silent, silent}, {lists:last(Waiting), last}], A),
    ?assertMatch([{first, _, 0, waiting, 0, [_ | _]}, {last, _, 0, waiting, 0, [_ | _]},
                  {silent, _, 0, undefined, 0, not_seen}], lists:sort(Next)),
    Silent ! stop,
    wait(fun() -> process_info(Silent, status) =:= {status, waiting} end),
    timer:sleep(100),
    {[{silent, _, 0, waiting, 0, [{?MODULE, waits, 0, _} | _]}], A2} =
        kprof_ask:take([{Silent, silent}], A1),
    kprof_ask:stop(A2),
    ended([Silent | Waiting]).

not_seen(P, A) ->
    case kprof_ask:take([{P, silent}], A) of
        {[{silent, _, 0, _, 0, not_seen}], A1} -> A1;
        {_, A1} -> not_seen(P, A1)
    end.

collects(Much) ->
    erlang:garbage_collect(),
    receive stop -> Much, waits() after 0 -> collects(Much) end.

%% Its workers end with it, however it ends.
worker_ends_test_() ->
    [fun() ->
             Self = self(),
             P = started(none, fun waits/0),
             {Owner, Ref} = spawn_monitor(fun() ->
                                                  {_, _} = kprof_ask:take([{P, here}], kprof_ask:start()),
                                                  Self ! {links, process_info(self(), links)},
                                                  receive Why -> exit(Why) end
                                          end),
             Worker = receive {links, {links, [W]}} -> W end,
             Gone = erlang:monitor(process, Worker),
             case Way of kill -> exit(Owner, kill); _ -> Owner ! Way end,
             receive {'DOWN', Ref, process, Owner, _} -> ok end,
             receive {'DOWN', Gone, process, Worker, _} -> ok end,
             ended([P])
     end || Way <- [normal, failed, kill]].

idle_test() ->
    {ok, P} = gen_event:start(),
    [{here, _, 0, waiting, 0, Frames}] = one(P),
    ?assert(kprof_ask:is_idle(Frames)),
    ?assertNot(kprof_ask:is_idle([{gen, do_call, 4, 0}, {gen_server, loop, 7, 0}])),
    ?assertNot(kprof_ask:is_idle(not_seen)),
    gen_event:stop(P).
