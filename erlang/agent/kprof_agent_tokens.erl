%% kprof_agent_tokens - the removal of tokens before the agent leaves.
-module(kprof_agent_tokens).

-export([take_tokens/1]).

-import(kprof_agent_arming, [by_kind/1]).
-import(kprof_agent_patterns, [is_others_now/2, pattern/3]).

-include("kprof_agent.hrl").

-define(LEAVE_MS, 300).         % for processes to run into a pattern that takes their token
-define(LEAVE_FUNCTIONS, 50).   % such patterns: setting each takes some ms

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
    {Entries, Tiers} = by_kind(
                         [I || I <- Plan, not I#item.gone,
                               State =:= armed orelse
                                   not is_others_now(I, S)]),
    Entries ++ Tiers.

patterns(Items, Spec, #s{session = Session}) ->
    [pattern(Session, I#item.mfa, Spec) || I <- Items].
