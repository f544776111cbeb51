%% kprof_agent_messages - how long messages wait in mailboxes: the agent's part; and
%% tokens, which are taken before it leaves.
%%
%% The native probe is the node's system tracer then, and tokens that entries give ask for its
%% events. The VM allows one system tracer; a tracer module is shown messages in place, where
%% a process would be sent a copy of each. Where somebody else is the system tracer, or becomes
%% it, our tokens must not ask for events, because these messages would be theirs to read. Who
%% it is, is checked twice a second.
-module(kprof_agent_messages).

-export([messages_begin/1, messages_end/1, leave_system_tracer/0, messages_settle/1, armed_spec/2,
         receiver_names/3, take_tokens/1]).

-import(kprof_agent_arming, [by_kind/1, is_others_now/2, pattern/3, set_patterns/2]).
-import(kprof_agent_events, [notice/2]).
-import(kprof_agent_flags, [tiers_first/1, with_flags/2]).
-import(kprof_agent_sentry, [tell_sentry/2]).
-import(kprof_agent_stacks, [pids/1]).
-import(kprof_injected, [name/1, spawn_labelled/3]).
-import(kprof_waits, [waits_server/1]).

-include("kprof_agent.hrl").

%% A request that kprof:set_token() began ends with the next one, sampled or not.
-define(END_REQUEST,
        [{'_', [{is_seq_trace}],
          [{message, {'andalso', ?IS_OURS, {{[], {get_seq_token}, {caller}, []}}}},
           {'andalso', ?IS_OURS, {set_seq_token, sequential_trace_token, []}}]}]).

-define(LEAVE_MS, 300).         % for processes to run into a pattern that takes their token
-define(LEAVE_FUNCTIONS, 50).   % such patterns: setting each takes some ms

%% OTP 25 declares no system tracers that are modules.
-dialyzer({nowarn_function, [messages_begin/1, leave_system_tracer/0]}).

%% From here on tokens may ask for events of messages.
messages_begin(#state{messages = #messages{wanted = true}, probe = native} = S) ->
    Ours = kprof_probe:tracer(),
    case seq_trace:get_system_tracer() of
        Ours -> use_state(on, S);
        false -> use_state(take_system_tracer(Ours), S);
        Other -> use_state({others, kprof_injected:name(Other)}, S)
    end;
messages_begin(S) -> S.

%% Somebody may set theirs between the look and this: then it is given back. A probe that has
%% ended is refused as a tracer.
take_system_tracer(Ours) ->
    try seq_trace:set_system_tracer(Ours) of
        Old when Old =:= false; Old =:= Ours -> on;
        Other ->
            _ = seq_trace:set_system_tracer(Other),
            {others, kprof_injected:name(Other)}
    catch
        error:badarg -> off
    end.

use_state(State, #state{messages = #messages{state = State}} = S) -> S;
use_state(State, #state{messages = #messages{asked = Asked} = M} = S) ->
    notice(
      {kprof_notice, messages, State, 0},
      S#state{messages = M#messages{state = State, asked = Asked orelse State =:= on}}).

messages_end(#state{messages = #messages{state = State} = M} = S) ->
    _ = State =:= on andalso leave_system_tracer(),
    S#state{messages = M#messages{state = off}}.

%% Gives the node's system tracer up, if it is ours. The sentry calls this, too.
-spec leave_system_tracer() -> term().
leave_system_tracer() ->
    case seq_trace:get_system_tracer() of
        {kprof_probe, _} -> seq_trace:set_system_tracer(false);
        _ -> false
    end.

%% While tiers are armed: the wish or the system tracer may have changed.
messages_settle(#state{entry_calls = #entry_calls{closed = watched}} = S) -> S;
messages_settle(#state{state = armed, messages = #messages{wanted = true, state = Was}} = S) ->
    case messages_begin(S) of
        #state{messages = #messages{state = Was}} = S1 -> S1;
        S1 -> set_all_patterns(S1)
    end;
messages_settle(#state{state = armed, messages = #messages{state = Was}} = S) when Was =/= off ->
    S1 = set_all_patterns(use_state(off, S)),
    leave_system_tracer(),
    S1;
messages_settle(S) -> S.

set_all_patterns(S) ->
    _ = set_patterns(tiers_first(S), S),
    S.

%% The match spec to arm: clauses of an entry that give a token make it ask for events of its
%% messages. When these events are not ours any more, older tokens stop asking at the next
%% traced call.
-spec armed_spec(#item{}, #state{}) -> [tuple()] | false.
armed_spec(#item{kind = entry, mfa = MFA}, #state{entry_calls = #entry_calls{closed = true}}) ->
    case MFA of
        {kprof, set_token, _} -> ?END_REQUEST;
        _ -> ?TAKE_TOKEN
    end;
armed_spec(#item{kind = entry, mfa = {kprof, set_token, _}},
           #state{entry_calls = #entry_calls{closed = timed}}) ->
    ?END_REQUEST;               % whose end is another call: it is not timed
armed_spec(#item{kind = entry, spec = Spec}, #state{entry_calls = #entry_calls{closed = timed}}) ->
    Spec;
armed_spec(#item{kind = Kind, mfa = MFA, spec = Spec},
           #state{entry_calls = #entry_calls{closed = watched}}) ->
    Kind =:= entry andalso {element(1, MFA), element(2, MFA)} =/= {kprof, set_token} andalso Spec;
armed_spec(#item{kind = entry, spec = [_ | _] = Spec},
           #state{messages = #messages{state = on}} = S) ->
    with_flags([asking(Clause) || Clause <- Spec], S);
armed_spec(#item{spec = [_ | _] = Spec},
           #state{messages = #messages{asked = true, wanted = Wanted, state = State}} = S)
  when not Wanted; is_tuple(State) ->
    NotAsking = [{Head, Guards, Actions ++ [asks(false)]} || {Head, Guards, Actions} <- Spec],
    with_flags(NotAsking, S);
armed_spec(#item{spec = Spec}, S) -> with_flags(Spec, S).

asking({Head, Guards, Actions} = Clause) ->
    case lists:any(fun gives_token/1, Actions) of
        true -> {Head, Guards, Actions ++ [asks(true)]};
        false -> Clause
    end.

asks(Whether) ->
    {'andalso', {is_seq_trace}, ?IS_OURS,
     {set_seq_token, send, Whether}, {set_seq_token, 'receive', Whether}}.

%% The message of a call that sampling takes: see spec.c.
gives_token({message, {{_, _, _, New, true, [], _}}}) -> element(1, New) =:= 'andalso';
gives_token(_) -> false.

%% ------------------------------------------------- names of receivers ----

%% Replies with the names of [{Number, Serial}], in that order. Another process asks for them,
%% because the answer of a busy process takes long.
-spec receiver_names([{non_neg_integer(), non_neg_integer()}], reference(), #state{}) -> #state{}.
receiver_names(Pids, Ref, S) ->
    Agent = self(),
    spawn_labelled(
      kprof_agent, receiver,
      fun() ->
              Agent ! {reply, Ref, [receiver(P) || P <- pids(Pids)]}
      end),
    S.

%% The process's registered name, else the function that it began with; [] if it has ended.
%% What a process that has a name began with is not asked: see kprof_injected:dictionary/2.
receiver(P) ->
    case name(P) of
        P -> element(2, waits_server(P));
        Name -> Name
    end.

%% --------------------------------------------------------- tokens at the end ----

%% Tokens that ask for events of messages would go on asking, and the next system tracer,
%% whoever sets it, would be sent the messages. So the tokens are taken from processes that call one
%% of our functions. A process that waits keeps its token: nothing in the VM takes that but
%% seq_trace:reset_trace(), which takes everybody's. A node that was in trouble is left alone.
take_tokens(#state{messages = #messages{asked = true}, state = State} = S)
  when State =:= armed; State =:= paused; State =:= waiting ->
    Takers = lists:sublist(takers(S), ?LEAVE_FUNCTIONS),
    tell_sentry(kprof_agent_sentry:patterns(Takers), S),
    patterns(Takers, ?TAKE_TOKEN, S),
    receive after ?LEAVE_MS -> ok end,
    State =:= armed orelse patterns(Takers, false, S),
    tell_sentry([], S),
    S;
take_tokens(S) -> S.

takers(#state{state = State, plan = Plan} = S) ->
    {Entries, Tiers} = by_kind(
                         [I || I <- Plan, not I#item.gone,
                               State =:= armed orelse
                                   not is_others_now(I, S)]),
    Entries ++ Tiers.

patterns(Items, Spec, #state{session = Session}) ->
    [pattern(Session, I#item.mfa, Spec) || I <- Items].
