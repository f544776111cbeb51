%% The trace control word is one for the node, so these tests run one after the other.
-module(kprof_word_tests).

-export([called/1]).
-include_lib("eunit/include/eunit.hrl").

-define(FREE, (1 bsl 31)).
-define(MASK, (?FREE - 1)).
-define(HZ, (1 bsl 19)).
-define(BEGINS, ((16#5B bsl 52) bor (1 bsl 32))).

set(Word) -> erlang:system_flag(trace_control_word, Word).
is() -> erlang:system_info(trace_control_word).

begins_free_test() ->
    [begin kprof_word:word_begin(Word), ?assertEqual(Number bor ?FREE, is()),
           ?assertEqual(Number, kprof_word:word_number()) end
     || {Word, Number} <- [{0, 0}, {17, 17}, {?FREE, 0}, {16#FFFFFFFF, ?MASK}, {?MASK, ?MASK}]].

%% It goes with the time, and past its end.
follows_the_time_test() ->
    [begin
         Clock = kprof_word:word_begin(Word),
         receive after 100 -> ok end,
         kprof_word:word_advance(Clock),
         Went = (is() - Word) band ?MASK,
         ?assertEqual(?FREE, is() band ?FREE),
         ?assert(Went >= ?HZ div 10 andalso Went < 100 * ?HZ)
     end || Word <- [0, ?MASK - 10, ?FREE div 2]].

%% One that is ahead stays, the number that is there.
never_back_test() ->
    Clock = kprof_word:word_begin(1000),
    [begin set(Number bor ?FREE), kprof_word:word_advance(Clock), ?assertEqual(Number bor ?FREE, is()) end
     || Number <- [1000 + (1 bsl 29), 1000 + (1 bsl 30) - 1]].

%% Whatever somebody has set there: twice in a row without a number, and it has one, which is
%% past those that may have been given out.
heals_test() ->
    [begin
         Clock = kprof_word:word_begin(1 bsl 20),
         set(Word),
         Clock1 = kprof_word:word_advance(Clock),
         ?assertEqual(Word, is()),
         kprof_word:word_advance(Clock1),
         ?assertEqual(?FREE, is() band ?FREE),
         ?assert((is() band ?MASK) - (1 bsl 20) >= ?HZ)
     end || Word <- [0, 17, 1 bsl 20, ?MASK]].

%% A thread that had the number just now, and lost its processor: it puts back its own.
waits_for_its_holder_test() ->
    Clock = kprof_word:word_begin(1000),
    set(1000),
    Clock1 = kprof_word:word_advance(Clock),
    set(1001 bor ?FREE),
    Clock2 = kprof_word:word_advance(Clock1),
    ?assert(is() >= 1001 bor ?FREE),
    set(1001),
    kprof_word:word_advance(Clock2),
    ?assertEqual(1001, is()).

called(_) -> ok.

%% Many processes at once, while the word is moved on: no label comes twice, also past the end.
%% Where a thread lost its processor some have one without a number of their own.
labels_differ_test_() ->
    {timeout, 120, fun() -> [labels(Word) || Word <- [0, ?MASK - 5000]] end}.

labels(Word) ->
    Spec = [{'_', [], [{message, {{{'andalso', {set_seq_token, sequential_trace_token, []},
                                    kprof_word:word_label(?BEGINS)}, {get_seq_token}}}}]}],
    Clock = kprof_word:word_begin(Word),
    {module, ?MODULE} = code:ensure_loaded(?MODULE),
    erlang:trace_pattern({?MODULE, called, 1}, Spec, [local]),
    Ps = [spawn_monitor(fun() -> receive go -> [?MODULE:called(x) || _ <- lists:seq(1, 5000)] end end)
          || _ <- lists:seq(1, 8)],
    [erlang:trace(P, true, [call, arity]) || {P, _} <- Ps],
    [P ! go || {P, _} <- Ps],
    moved(Clock, length(Ps)),
    Delivered = erlang:trace_delivered(all),
    receive {trace_delivered, all, Delivered} -> ok end,
    erlang:trace_pattern({?MODULE, called, 1}, false, [local]),
    %% Parts are evaluated last to first, so each has the label of the call before.
    Seen = seen(),
    ?assertEqual(8 * 5000, length(Seen)),
    {Spare, Labels} = lists:partition(fun(L) -> L band ?FREE =/= 0 end, [L || {true, {_, L, _, _, _}} <- Seen]),
    ?assertEqual(length(Labels), length(lists:usort(Labels))),
    ?assertEqual([], [L || L <- Spare ++ Labels, L bsr 32 =/= ?BEGINS bsr 32]),
    ?assertEqual(8 * (5000 - 1), length(Spare) + length(Labels)),
    ?assert(length(Spare) < length(Seen) div 2),
    %% They may repeat while a thread that has the number is off its processor for long.
    ?assert(length(Spare) - length(lists:usort(Spare)) =< length(Spare) div 4 + 2).

moved(_, 0) -> ok;
moved(Clock, N) ->
    receive {'DOWN', _, process, _, normal} -> moved(Clock, N - 1)
    after 1 -> moved(kprof_word:word_advance(Clock), N)
    end.

seen() ->
    receive {trace, _, call, _, X} -> [X | seen()] after 0 -> [] end.

%% Whoever comes while another of ours has the word finds what there was before both.
found_before_both_test() ->
    [begin
         set(17),
         kprof_injected:kept_set(Key, kprof_word:word_found()),
         kprof_word:word_begin(17),
         ?assertEqual(17, kprof_word:word_found()),
         kprof_injected:kept_drop(Key),
         ?assertEqual(is(), kprof_word:word_found())
     end || Key <- [kprof_agent_word, kprof_tracer_word]].
