%% kprof_word - the trace control word, from which entries take the numbers of requests.
%%
%% The node has one word. Bit 31 says that a number is there, bits 0 to 30 are it. An entry's match
%% spec takes the number, that is it exchanges the word for one without bit 31, and puts back a
%% higher one (src/config/spec_label.c). We do the same, so that no number is given out twice. Only
%% word_begin/1, and restoring what was there, do not ask what the word is.
%%
%% The word also shows how old tokens are: it follows a schedule that is faster than requests
%% begin, so the age of a token is the difference of two numbers.
-module(kprof_word).

-export([word_found/0, word_number/0, word_begin/1, word_advance/1, word_label/1]).
-export_type([clock/0]).

-import(kprof_injected, [kept/1, now_ms/0]).

-include("kprof_label.hrl").

%% Kept by the agent and the tracer before they change it, until they restore it.
-define(KEPT, [kprof_agent_word, kprof_tracer_word]).

-define(HZ, (1 bsl 19)).        % as in include/kprofd/label.h
-define(FREE, (1 bsl 31)).
-define(MASK, (?FREE - 1)).
-define(TRIES, 100).            % one takes some 100 ns
-define(SPEC_TRIES, 8).         % as in spec_label.c
-define(TRIED, (1 bsl 18)).     % as there

-record(clock, {
    begun :: {Number :: non_neg_integer(), AtMs :: integer()},
    last :: non_neg_integer(),          % number that we put there
    taken = false :: boolean()          % there was none the last time
}).
-opaque clock() :: #clock{}.

%% What it was before any module of kprof used it, for whoever restores it. A kprofd may attach
%% while a kprof trace ends, or the other way round: then the word is the other's, who has kept what
%% it was. Called by the agent before it takes its name: a tracer that ends then has either kept it
%% still, or seen no agent and put it back.
-spec word_found() -> non_neg_integer().
word_found() ->
    case word_kept() of
        none ->
            Now = erlang:system_info(trace_control_word),
            case word_kept() of         % the other may have taken it just now
                none -> Now;
                Word -> Word
            end;
        Word -> Word
    end.

word_kept() ->
    case [Word || Key <- ?KEPT, {ok, Word} <- [kept(Key)]] of
        [Word | _] -> Word;
        [] -> none
    end.

%% What it shows, whoever has that.
-spec word_number() -> non_neg_integer().
word_number() ->
    erlang:system_info(trace_control_word) band ?MASK.

-spec word_begin(non_neg_integer()) -> clock().
word_begin(Word) ->
    Number = Word band ?MASK,
    put_back(Number, #clock{begun = {Number, now_ms()}, last = Number}).

%% Called twice a second or more often. Never moves the number back: one that is ahead has counted
%% more requests than the schedule has room for, or somebody has set it.
%%
%% An entry may have the number just now, and its thread may have lost its processor. If there is
%% none twice in a row somebody has set the word, and we put a number there: one that is past
%% all that can have been given out since. So even an entry that puts back its own afterwards
%% repeats none.
-spec word_advance(clock()) -> clock().
word_advance(#clock{begun = {Begun, At}, last = Last, taken = Taken} = C) ->
    Due = (Begun + (now_ms() - At) * ?HZ div 1000) band ?MASK,
    %% The VM does not take us off our scheduler between taking a number and putting it back.
    erlang:yield(),
    case take(?TRIES) of
        none when Taken -> put_back(later(Due, (Last + ?HZ) band ?MASK), C);
        none -> C#clock{taken = true};
        Number -> put_back(later(Due, Number), C)
    end.

put_back(Number, C) ->
    erlang:system_flag(trace_control_word, Number bor ?FREE),
    C#clock{last = Number, taken = false}.

take(0) -> none;
take(Tries) ->
    Now = erlang:system_info(trace_control_word),
    case erlang:system_flag(trace_control_word, Now band ?MASK) of
        Was when Was >= ?FREE -> Was band ?MASK;
        _ -> take(Tries - 1)
    end.

later(A, B) when (A - B) band ?MASK < ?FREE div 2 -> A;
later(_, B) -> B.

%% In a match spec: sets a token with a label that begins with Begins; true. The process may have
%% none before. The label ends with a number of its own, or, if none was free, with the word that
%% the last try found: that label has bit 31, and may repeat.
-spec word_label(integer()) -> tuple().
word_label(Begins) ->
    Label = {element, 2, {get_seq_token}},
    Take = {set_tcw, {'band', {'+', {get_tcw}, 1}, ?MASK}},
    Try = {'andalso', {set_seq_token, label, Take}, {'>', Label, ?MASK}},
    Tried = {'band', {'-', {'-', {get_tcw}, Label}, 1}, ?TRIED - 1},
    PutBack = {set_tcw, {'bor', {'band', {'+', {'+', Label, 1}, Tried}, ?MASK}, ?FREE}},
    {'orelse',
     {'andalso', list_to_tuple(['orelse' | lists:duplicate(?SPEC_TRIES, Try)]),
      {is_integer, PutBack}, {set_seq_token, label, {'bxor', Label, Begins bor ?FREE}}},
     {set_seq_token, label, {'bor', Label, Begins bor ?FREE}}}.
