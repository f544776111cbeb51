%% kprof_agent_tokens - the trace control word, which shows how old tokens are; and the
%% removal of tokens before the agent leaves.
-module(kprof_agent_tokens).

-export([word_advance/1, take_tokens/1]).

-include("kprof_agent.hrl").

%% As in include/kprofd/label.h: the word follows a schedule that is faster than requests
%% begin, so that the age of a token is the difference of two words.
-define(WORD_HZ, (1 bsl 19)).
%% Reading the word and writing it are two steps. The writing undoes what entries count in
%% between, which are some requests, and their numbers would come again if the word moved by
%% less. So it moves by what an eighth of a second is worth, or not at all.
-define(WORD_LEAST, (?WORD_HZ div 8)).
-define(LEAVE_MS, 300).         % for processes to run into a pattern that takes their token
-define(LEAVE_FUNCTIONS, 50).   % such patterns: setting each takes some ms

%% Never moves the word back: a word that is ahead has counted more requests than the schedule
%% has room for, or somebody has set it.
-spec word_advance(#s{}) -> non_neg_integer().
word_advance(#s{word = #word{schedule = {Start, At}}}) ->
    Is = erlang:system_info(trace_control_word),
    Due = (Start + (kprof_injected:now_ms() - At) * ?WORD_HZ div 1000) band ?WORD_MASK,
    case (Due - Is) band ?WORD_MASK of
        Short when Short >= ?WORD_LEAST, Short < 1 bsl (?WORD_BITS - 1) ->
            erlang:system_flag(trace_control_word, Due);
        _ ->
            Is
    end.

%% Tokens that ask for events of messages would go on asking, and the next system tracer,
%% whoever sets it, would be sent the messages. So the tokens are taken from processes that call one
%% of our functions. A process that waits keeps its token: nothing in the VM takes that but
%% seq_trace:reset_trace(), which takes everybody's. A node that was in trouble is left alone.
-spec take_tokens(#s{}) -> #s{}.
take_tokens(#s{messages = #messages{asked = true}, state = State} = S)
  when State =:= armed; State =:= paused ->
    Takers = lists:sublist(takers(S), ?LEAVE_FUNCTIONS),
    kprof_agent_sentry:own(kprof_agent_sentry:patterns(Takers), S),
    patterns(Takers, ?TAKE_TOKEN, S),
    receive after ?LEAVE_MS -> ok end,
    State =:= paused andalso patterns(Takers, false, S),
    kprof_agent_sentry:own([], S),
    S;
take_tokens(S) ->
    S.

takers(#s{state = State, plan = Plan} = S) ->
    {Entries, Tiers} = kprof_agent_arming:by_kind(
                         [I || I <- Plan, not I#item.gone,
                               State =:= armed orelse
                                   not kprof_agent_patterns:is_others_now(I, S)]),
    Entries ++ Tiers.

patterns(Items, Spec, #s{session = Session}) ->
    [kprof_agent_patterns:pattern(Session, I#item.mfa, Spec) || I <- Items].
