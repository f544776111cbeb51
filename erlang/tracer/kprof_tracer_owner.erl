%% kprof_tracer_owner - which request a process works for, whatever its token says. For
%% kprof_tracer.
%%
%% Whoever waits for a worker of a pool is answered because another request gives one back, and
%% the answer carries that one's token. A state machine that postpones and any deferred reply do
%% the same. So the label of a token does not say whose work it is:
%%   - a process that is inside its own entry works for that request, and so does who takes what
%%     it sends;
%%   - whoever takes a message works for the request that its sender worked for when it sent it.
%% So messages are kept while they are on their way, and which label a process has that stands for
%% another request than its own. 0 is a request that is not traced.
%%
%% An answer from a request without a token (it began before the trace, or nobody marked it) takes
%% the token away, and then no call and no message is seen: such requests are counted.
%%
%% The VM reports every message that carries a token, with its sender and a serial, to the system
%% tracer. Where that is somebody else, or tokens are a kprofd's, a token's sender counts with
%% the request that it works for when the call arrives here.
-module(kprof_tracer_owner).

-export([works_for/3, enters/4, over/4, left/3, outside/2, is_taken/2, sent/4, taken/5, heard/3,
         was_sent/3, is_behind/3, had/4, messages_look/1, runs_on/2, shows/3, forget/2, dead/1]).

-import(kprof_injected, [now_ms/0]).
-import(kprof_tracer_early, [is_ours/2]).

-include("kprof_tracer.hrl").

-define(MESSAGES, 100000).      % messages on their way, or
-define(MESSAGES_MS, 10000).    % for so long: then those of the time before are forgotten
-define(PROCESSES, 20000).      % until those that have ended are looked for

-spec works_for(pid(), Label :: term(), #state{}) -> non_neg_integer().
works_for(P, Label, #state{requests = #requests{own = Own, meant = Meant} = R}) ->
    case {Own, Meant} of
        {#{P := {N, _}}, _} -> N;
        {_, #{P := {Label, N}}} -> N;
        _ -> stands_for(Label, R)
    end.

stands_for(Label, #requests{labels = Labels}) ->
    maps:get(Label, Labels, 0).

%% The process is inside an entry that this function called. An inner entry changes nothing.
-spec enters(pid(), non_neg_integer(), Caller :: term(), #state{}) -> #state{}.
enters(P, _, _, #state{requests = #requests{own = Own}} = S) when is_map_key(P, Own) -> S;
enters(P, N, Caller, #state{requests = #requests{own = Own} = R} = S) ->
    S#state{requests = R#requests{own = Own#{P => {N, Caller}}}}.

%% Returns the request that was over before this call of an entry, or none. Its end was not seen
%% if the same function calls again; before OTP 27 also if the process has no token any more, as
%% an exception may have ended it.
-spec over(pid(), Old :: term(), Caller :: term(), #state{}) -> none | non_neg_integer().
over(P, Old, Caller, #state{profile = Profile, requests = #requests{own = Own}}) ->
    case Own of
        #{P := {N, Caller}} -> N;
        #{P := {N, _}} when Old =:= none, Profile#profile.session =:= legacy -> N;
        _ -> none
    end.

%% The process has left its entry. What its token means stays.
-spec left(pid(), Caller :: term(), #state{}) -> none | {non_neg_integer(), #state{}}.
left(P, Caller, #state{requests = #requests{own = Own} = R} = S) ->
    case Own of
        #{P := {N, By}} when By =:= Caller; Caller =:= any ->
            {N, S#state{requests = R#requests{own = maps:remove(P, Own)}}};
        _ -> none
    end.

%% The process calls another entry, so the one before is over, or goes on without us.
-spec outside(pid(), #state{}) -> #state{}.
outside(P, S0) ->
    case left(P, any, S0) of
        {_, S} -> S;
        none -> S0
    end.

%% Is a process inside the entry that began the request with this label?
-spec is_taken(term(), #requests{}) -> boolean().
is_taken(Label, #requests{own = Own} = R) ->
    case stands_for(Label, R) of
        0 -> false;
        N -> lists:keymember(N, 1, maps:values(Own))
    end.

%% ---------------------------------------------------------------- messages ----

%% A message that the process has sent: returns the request that it is part of.
-spec sent(pid(), Serial :: integer(), Label :: term(), #state{}) -> {non_neg_integer(), #state{}}.
sent(P, Serial, Label, #state{requests = #requests{sent = Sent} = R} = S)
  when map_size(Sent) < ?MESSAGES ->
    N = works_for(P, Label, S),
    {N, shows(P, Label, S#state{requests = R#requests{sent = Sent#{{P, Serial} => N}}})};
sent(P, Serial, Label, S) -> sent(P, Serial, Label, older(S)).

%% A message that the process has taken.
-spec taken(pid(), From :: pid(), Serial :: integer(), Label :: term(), #state{}) ->
          {non_neg_integer(), #state{}}.
taken(P, From, Serial, Label, #state{requests = #requests{own = Own} = R0} = S) ->
    {Sent, R} = take({From, Serial}, stands_for(Label, R0), R0),
    N = case Own of
            #{P := {Inside, _}} -> Inside;
            _ -> Sent
        end,
    {N, means(P, Label, N, shows(P, Label, had(P, From, Serial, S#state{requests = R})))}.

had(P, From, Serial, #state{requests = #requests{last = Last} = R} = S) ->
    S#state{requests = R#requests{last = Last#{P => {From, Serial}}}}.

%% Does the process have the token of a message that we have not seen it take? Its calls and its
%% messages are reported in two ways: the order of these is not certain.
-spec is_behind(pid(), Token :: term(), #state{}) -> boolean().
is_behind(P, {_, Label, Serial, From, _}, #state{requests = #requests{messages = true} = R} = S)
  when is_pid(From), From =/= P ->
    case R#requests.last of
        #{P := {From, Serial}} -> false;
        _ -> is_ours(Label, S)
    end;
is_behind(_, _, _) -> false.

take(Key, Else, #requests{sent = Sent, sent_before = Before} = R) ->
    case {Sent, Before} of
        {#{Key := N}, _} -> {N, R#requests{sent = maps:remove(Key, Sent)}};
        {_, #{Key := N}} -> {N, R#requests{sent_before = maps:remove(Key, Before)}};
        _ -> {Else, R}
    end.

%% From now on the process has a token with this label, which stands for that request.
means(P, Label, N, #state{requests = #requests{meant = Meant} = R} = S) ->
    case stands_for(Label, R) of
        N when not is_map_key(P, Meant) -> S;
        N -> S#state{requests = R#requests{meant = maps:remove(P, Meant)}};
        _ -> S#state{requests = R#requests{meant = Meant#{P => {Label, N}}}}
    end.

%% The token of a call, where messages are not seen.
-spec heard(pid(), Token :: term(), #state{}) -> #state{}.
heard(P, {_, Label, _, From, _}, #state{requests = #requests{messages = false, own = Own}} = S)
  when is_pid(From), From =/= P, not is_map_key(P, Own) ->
    means(P, Label, works_for(From, Label, S), S);
heard(_, _, S) -> S.

%% Is it known that this message was sent?
-spec was_sent(pid(), Serial :: integer(), #state{}) -> boolean().
was_sent(From, Serial, #state{requests = #requests{sent = Sent, sent_before = Before}}) ->
    is_map_key({From, Serial}, Sent) orelse is_map_key({From, Serial}, Before).

%% Some messages are never taken: they are forgotten in time.
messages_look(#state{requests = #requests{sent = Sent, sent_since = Since}} = S)
  when map_size(Sent) > 0 ->
    case Since =:= never orelse now_ms() - Since > ?MESSAGES_MS of
        true -> older(S);
        false -> S
    end;
messages_look(S) -> S.

older(#state{requests = #requests{sent = Sent} = R} = S) ->
    S#state{requests = R#requests{sent = #{}, sent_before = Sent, sent_since = now_ms()}}.

%% ----------------------------------------------------------- lost tokens ----

%% The process was scheduled in: it may have taken a message without a token.
-spec runs_on(pid(), #state{}) -> #state{}.
runs_on(P, #state{requests = #requests{own = Own, silent = Silent} = R} = S) ->
    case Own of
        #{P := {N, _}} when N > 0 -> S#state{requests = R#requests{silent = Silent#{P => []}}};
        _ -> S
    end.

%% The process shows its token, or at an entry that it has none. If it had shown none before, since
%% it waited inside the last entry, that request lost its token.
-spec shows(pid(), Label :: term(), #state{}) -> #state{}.
shows(P, Label, #state{requests = #requests{silent = Silent, unsure = Unsure} = R} = S)
  when is_map_key(P, Silent) ->
    Lost = if Label =:= none -> 1;
              true -> 0
           end,
    S#state{requests = R#requests{silent = maps:remove(P, Silent), unsure = Unsure + Lost}};
shows(_, _, S) -> S.

%% ------------------------------------------------------ processes that end ----

-spec forget([pid()], #state{}) -> #state{}.
forget(Ps, #state{requests = R} = S) ->
    #requests{own = Own, meant = Meant, last = Last, silent = Silent} = R,
    S#state{requests = R#requests{own = maps:without(Ps, Own), meant = maps:without(Ps, Meant),
                                  last = maps:without(Ps, Last),
                                  silent = maps:without(Ps, Silent)}}.

%% Processes that have ended, where many are kept.
-spec dead(#requests{}) -> [pid()].
dead(#requests{own = Own, meant = Meant, last = Last})
  when map_size(Own) + map_size(Meant) + map_size(Last) > ?PROCESSES ->
    [P || P <- lists:usort(maps:keys(Own) ++ maps:keys(Meant) ++ maps:keys(Last)),
          not is_process_alive(P)];
dead(_) -> [].
