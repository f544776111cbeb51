%% kprof_agent_mail - how long messages wait in mailboxes: the agent's part.
%%
%% The native probe is the node's system tracer then, of which there is one for
%% everybody, and tokens that entries give ask for its events. As a tracer module
%% it is shown messages where they are; a process would be sent a copy of each.
%% Where somebody else is the system tracer, or becomes it, tokens of ours ask
%% for nothing, since that would be his to read: this is looked at twice a
%% second, and the other way round.
-module(kprof_agent_mail).

-export([mail_begin/1, mail_end/1, mail_leave/0, mail_settle/1, spec/2, names/3]).

-include("kprof_agent.hrl").

%% OTP 25 declares neither system tracers that are modules, nor one key of a dictionary.
-dialyzer({nowarn_function, [mail_begin/1, mail_leave/0, began/3]}).

-define(NAMES_MAX, 200).        % processes asked for at once
-define(DICTIONARY_WORDS, 10000).       % of a process whose whole one is read

%% mail: off | on | {others, Tracer}, as the daemon was told last. Tokens that
%% have asked once are about from then on.
-spec mail_begin(#s{}) -> #s{}.
mail_begin(#s{messages = true, probe = native} = S) ->
    Ours = kprof_probe:tracer(),
    case seq_trace:get_system_tracer() of
        Ours -> mail_is(on, S);
        false -> mail_is(mail_take(Ours), S);
        Other -> mail_is({others, kprof_injected:name(Other)}, S)
    end;
mail_begin(S) ->
    S.

%% Somebody may come between the look and this: then it is his. A probe that has
%% ended is no tracer.
mail_take(Ours) ->
    try seq_trace:set_system_tracer(Ours) of
        Old when Old =:= false; Old =:= Ours -> on;
        Other ->
            _ = seq_trace:set_system_tracer(Other),
            {others, kprof_injected:name(Other)}
    catch
        error:badarg -> off
    end.

mail_is(Mail, #s{mail = Mail} = S) ->
    S;
mail_is(Mail, S) ->
    kprof_agent_events:notice({kprof_notice, messages, Mail, 0}, S#s{mail = Mail, mailed = S#s.mailed orelse Mail =:= on}).

%% Nobody's events are asked for any more.
-spec mail_end(#s{}) -> #s{}.
mail_end(#s{mail = on} = S) ->
    mail_leave(),
    S#s{mail = off};
mail_end(S) ->
    S#s{mail = off}.

%% Of this node, if it is ours. The sentry's, too.
mail_leave() ->
    case seq_trace:get_system_tracer() of
        {kprof_probe, _} -> seq_trace:set_system_tracer(false);
        _ -> false
    end.

%% Armed with a wish that may be another one, or a tracer that may be.
-spec mail_settle(#s{}) -> #s{}.
mail_settle(#s{state = armed, messages = true, mail = Was} = S) ->
    case mail_begin(S) of
        #s{mail = Was} = S1 -> S1;
        S1 -> mail_patterns(S1)
    end;
mail_settle(#s{state = armed, mail = Was} = S) when Was =/= off ->
    S1 = mail_patterns(mail_is(off, S)),
    mail_leave(),
    S1;
mail_settle(S) ->
    S.

mail_patterns(S) ->
    _ = kprof_agent_arming:set_patterns(kprof_agent_flags:tiers_first(S), S),
    S.

%% An entry's clauses that give a token ask for events of its messages. When
%% these are not ours any more, tokens of before stop asking where they are seen.
spec(#item{kind = entry, spec = [_ | _] = Spec}, #s{mail = on} = S) ->
    kprof_agent_flags:flagged([case lists:any(fun gives_token/1, Actions) of
                                   true -> {Head, Guards, Actions ++ [asks(true)]};
                                   false -> Clause
                               end || {Head, Guards, Actions} = Clause <- Spec], S);
spec(#item{spec = [_ | _] = Spec}, #s{mailed = true, messages = Wanted, mail = Mail} = S)
  when not Wanted; is_tuple(Mail) ->
    kprof_agent_flags:flagged([{Head, Guards, Actions ++ [asks(false)]} || {Head, Guards, Actions} <- Spec], S);
spec(#item{spec = Spec}, S) ->
    kprof_agent_flags:flagged(Spec, S).

asks(Whether) ->
    {'andalso', {is_seq_trace}, ?IS_OURS, {set_seq_token, send, Whether}, {set_seq_token, 'receive', Whether}}.

%% The message of a call that sampling takes: see spec.c.
gives_token({message, {{_, _, _, New, true, [], _}}}) -> element(1, New) =:= 'andalso';
gives_token(_) -> false.

%% ---- who takes them ----

%% Of [{Number, Serial}], in that order. Another process asks: the answer of one
%% that is busy takes long.
-spec names(term(), reference(), #s{}) -> #s{}.
names(Pids, Ref, S) ->
    Agent = self(),
    spawn(fun() ->
                  Agent ! {names, Ref, [receiver(P) || P <- lists:sublist(Pids, ?NAMES_MAX)]}
          end),
    S.

%% Its registered name, else the function that it began with; [] is gone.
receiver({Number, Serial}) ->
    P = list_to_pid(lists:concat(["<0.", Number, ".", Serial, ">"])),
    case process_info(P, [registered_name, initial_call, total_heap_size]) of
        undefined -> [];
        [{_, []}, {_, {proc_lib, init_p, _} = MFA}, {_, Words}] -> began(P, Words, MFA);
        [{_, []}, {_, MFA}, _] -> MFA;
        [{_, Name} | _] -> Name
    end.

%% One of proc_lib's has it in its dictionary, of which OTP 26 and older give all
%% or nothing.
began(P, Words, Else) ->
    Dictionary = try [process_info(P, {dictionary, '$initial_call'})]
                 catch error:badarg when Words =< ?DICTIONARY_WORDS -> [process_info(P, dictionary)];
                       error:badarg -> []
                 end,
    case Dictionary of
        [{dictionary, All}] -> began(proplists:get_value('$initial_call', All), Else);
        [{_, Call}] -> began(Call, Else);
        _ -> Else
    end.

began({M, F, A}, _) when is_list(A) -> {M, F, length(A)};
began({M, F, A}, _) when is_integer(A) -> {M, F, A};
began(_, Else) -> Else.
