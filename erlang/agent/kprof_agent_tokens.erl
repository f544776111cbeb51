%% kprof_agent_tokens - the trace control word, which tells how old tokens are; and
%% tokens that are taken before the agent leaves. For kprof_agent.
-module(kprof_agent_tokens).

-export([word_advance/1, tokens_leave/1]).

-include("kprof_agent.hrl").

%% As in include/kprofd/label.h: the word is on a schedule that is faster than
%% requests begin, so that the age of a token is a difference of two words.
-define(WORD_HZ, (1 bsl 19)).
%% Reading the word and writing it are two steps. What entries count in between,
%% which are some requests, is taken back with the second: these numbers would
%% come again if the word were moved by less than that. So it is moved by as much
%% as an eighth of a second is, at least, or later.
-define(WORD_LEAST, (?WORD_HZ div 8)).
-define(LEAVE_MS, 300).         % for tokens to be taken, where they are seen
-define(LEAVE_FUNCTIONS, 50).   % that take them: setting each takes some ms

%% Never back: one that is ahead has counted more requests than the schedule has
%% room for, or somebody has set it.
word_advance(#s{word = {Start, At}}) ->
    Is = erlang:system_info(trace_control_word),
    Due = (Start + (kprof_injected:now_ms() - At) * ?WORD_HZ div 1000) band ?WORD_MASK,
    case (Due - Is) band ?WORD_MASK of
        Short when Short >= ?WORD_LEAST, Short < 1 bsl (?WORD_BITS - 1) ->
            erlang:system_flag(trace_control_word, Due);
        _ ->
            Is
    end.

%% Tokens that ask for events of messages would do so for whoever is the system
%% tracer next, and he would be sent the messages. Of processes that call one of
%% our functions they can be taken; a process that waits keeps its own, and nothing
%% in the VM takes that but seq_trace:reset_trace(), which takes everybody's. A
%% node that was in trouble is left alone.
-spec tokens_leave(#s{}) -> #s{}.
tokens_leave(#s{mailed = true, state = State, plan = Plan} = S) when State =:= armed; State =:= paused ->
    {Entries, Tiers} = kprof_agent_arming:by_kind([I || I <- Plan, not I#item.gone, State =:= armed orelse not kprof_agent_patterns:is_others_now(I, S)]),
    Takers = lists:sublist(Entries ++ Tiers, ?LEAVE_FUNCTIONS),
    kprof_agent_sentry:own(kprof_agent_sentry:patterns(Takers), S),
    [kprof_agent_patterns:pattern(S#s.session, I#item.mfa, ?TAKE_TOKEN) || I <- Takers],
    receive after ?LEAVE_MS -> ok end,
    case State of
        paused -> [kprof_agent_patterns:pattern(S#s.session, I#item.mfa, false) || I <- Takers];
        armed -> ok
    end,
    kprof_agent_sentry:own([], S),
    S;
tokens_leave(S) ->
    S.
