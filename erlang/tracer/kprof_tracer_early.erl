%% kprof_tracer_early - events of a request that arrive before the call that begins it. For
%% kprof_tracer.
%%
%% Events of one process arrive in order. Of two processes, the VM may deliver the earlier event
%% later (a process keeps its events back while others write to the tracer's queue). So a
%% process that is called in a request may be seen to work for it before the call of the entry
%% is seen, or to take a message before it is seen to be sent: its events wait until then, in
%% order. So do calls of a process that has the token of a message before it is seen to take it:
%% calls and messages are reported in two ways.
-module(kprof_tracer_early).

-export([in_turn/3, is_ours/2, early_over/2, early_look/1, early_end/1]).

-import(kprof_injected, [now_ms/0]).
-import(kprof_tracer_end, [disarm/2]).
-import(kprof_tracer_events, [in_request/3, pass_over/2]).
-import(kprof_tracer_owner, [is_behind/3, was_sent/3]).
-import(kprof_tracer_requests, [epoch_of/2]).

-include("kprof_tracer.hrl").

-define(EARLY, 100000).         % events that may wait, of all processes
-define(EARLY_MS, 1000).        % longest wait: then the token is not of this trace, say

%% Is it a label that we have made, of a request that may still begin?
is_early(Label,
         #state{stage = Stage,
                requests = #requests{attached = false, labels = Labels, begun = Begun, max = Max} =
                    R})
  when is_integer(Label), not is_map_key(Label, Labels), Begun < Max ->
    Stage =/= ready andalso is_own(Label, R);
is_early(_, _) -> false.

%% Is it a label of this trace?
-spec is_ours(term(), #state{}) -> boolean().
is_ours(Label, #state{requests = #requests{labels = Labels} = R}) ->
    is_map_key(Label, Labels) orelse is_integer(Label) andalso is_own(Label, R).

%% A token of an earlier trace has another epoch.
is_own(Label, #requests{epoch = Epoch} = R) -> epoch_of(Label, R) =:= Epoch.

%% The label in an event, or none.
early_label({trace_ts, _, call, _, X, _}) -> called_label(X);
early_label({seq_trace, Label, _, _}) -> Label;
early_label(_) -> none.

called_label(X) -> kprof_tracer_requests:label(called_token(X)).

%% Of the entry, the one that it found.
called_token({entry, _, _, Old, _}) -> Old;
called_token({_, _, 1, false, _, [], _}) -> none;
called_token({_, _, 1, _, _, [], Old}) -> Old;
called_token({_, Token, _}) -> Token;
called_token({Token, _}) -> Token;
called_token(_) -> none.

%% Handles an event now, or after earlier events of the same process that wait. Once messages are
%% not seen any more, it is not known whose calls are.
-spec in_turn(pid(), tuple(), #state{}) -> #state{}.
in_turn(_, Event, #state{requests = #requests{until = Until}} = S)
  when is_integer(Until), element(tuple_size(Event), Event) > Until ->
    pass_over(1, S);
in_turn(P, Event, #state{requests = #requests{early = Early}} = S) when is_map_key(P, Early) ->
    case map_get(P, Early) of
        {_, {taken, _, _}, _} = Waits when element(1, Event) =:= seq_trace ->
            late(P, Event, Waits, S);
        {At, For, Events} -> early(P, {At, For, [short(Event) | Events]}, S)
    end;
in_turn(P, Event, S) ->
    case waits_for(Event, S) of
        none -> its_turn(P, Event, S);
        For -> early(P, {now_ms(), For, [short(Event)]}, S)
    end.

%% The message that a call tells of comes before it. If a later one comes, it was not reported.
late(P, {_, _, _, Ts} = Event, {_, {taken, From, Serial}, Events},
     #state{requests = #requests{early = Early, early_n = N} = R} = S0) ->
    S = S0#state{requests =
                     R#requests{early = maps:remove(P, Early), early_n = N - length(Events)}},
    [First | _] = Waiting = lists:reverse(Events),
    {InOrder, S1} = case element(tuple_size(First), First) < Ts of
                        true -> {Waiting ++ [Event], kprof_tracer_owner:had(P, From, Serial, S)};
                        false -> {[Event | Waiting], S}
                    end,
    lists:foldl(fun(E, Acc) -> in_turn(P, E, Acc) end, S1, InOrder).

%% A label whose request has not begun; {Sender, Serial} of a message that was not sent, or {taken,
%% Sender, Serial} that was not taken; or none.
waits_for(Event, S) ->
    Label = early_label(Event),
    case is_early(Label, S) of
        true -> Label;
        false -> unsent(Event, S)
    end.

unsent({seq_trace, Label, {'receive', {_, Serial}, From, _, _}, _}, S)
  when is_pid(From), node(From) =:= node() ->
    case is_ours(Label, S) andalso not was_sent(From, Serial, S) of
        true -> {From, Serial};
        false -> none
    end;
unsent({trace_ts, P, call, _, X, _}, S) ->
    Token = called_token(X),
    case is_behind(P, Token, S) of
        true -> {taken, element(4, Token), element(3, Token)};
        false -> none
    end;
unsent(_, _) -> none.

its_turn(_, {trace_ts, _, call, _, _, _} = Event, S) -> kprof_tracer_events:call(Event, S);
its_turn(_, {seq_trace, Label, What, Ts}, S) -> kprof_tracer_requests:passed(Label, What, Ts, S);
its_turn(P, Event, S) -> in_request(P, Event, S).

%% Removes what may be large from an event that waits.
short({seq_trace, Label, What, Ts}) ->
    {seq_trace, Label, setelement(tuple_size(What), What, []), Ts};
short({trace_ts, P, exit, _, Ts}) -> {trace_ts, P, exit, 0, Ts};
short(Event) -> Event.

%% Past the limit tracing is switched off; the events that wait are as many as the queue may hold.
early(P, Waits, #state{requests = #requests{early = Early, early_n = N} = R} = S0) ->
    S = S0#state{requests = R#requests{early = Early#{P => Waits}, early_n = N + 1}},
    if N < ?EARLY -> S;
       true -> disarm({queue, 0}, S)
    end.

%% A request with this label has begun, or will not begin; or {Sender, Serial}: it was sent.
-spec early_over(term(), #state{}) -> #state{}.
early_over(_, #state{requests = #requests{early = Early}} = S) when map_size(Early) =:= 0 -> S;
early_over(Label, #state{requests = #requests{early = Early}} = S) ->
    release([P || {P, {_, L, _}} <- maps:to_list(Early), L =:= Label], fun in_turn/3, S).

%% Gives up what has been waited for too long.
early_look(#state{requests = #requests{early = Early}} = S) when map_size(Early) > 0 ->
    Now = now_ms(),
    lists:foldl(fun({P, {taken, From, Serial}}, Acc) ->
                        release([P], fun in_turn/3, kprof_tracer_owner:had(P, From, Serial, Acc));
                   ({P, For}, Acc) -> release([P], given_up(For), Acc)
                end, S,
                [{P, For} || {P, {At, For, _}} <- maps:to_list(Early), Now - At > ?EARLY_MS]);
early_look(S) -> S.

given_up(For) ->
    fun(P, Event, S) ->
            case waits_for(Event, S) of
                For -> its_turn(P, Event, S);
                _ -> in_turn(P, Event, S)
            end
    end.

%% When all events have come, nothing waits any more.
early_end(#state{requests = #requests{early = Early}} = S) when map_size(Early) > 0 ->
    release(maps:keys(Early), fun its_turn/3, S);
early_end(S) -> S.

%% Handling the events of one process may release others of Ps, too.
release(Ps, How, S) ->
    lists:foldl(fun(P, #state{requests = #requests{early = Early, early_n = N} = R} = S0) ->
                        case Early of
                            #{P := {_, _, Events}} ->
                                S1 = S0#state{requests = R#requests{early = maps:remove(P, Early),
                                                                    early_n = N - length(Events)}},
                                lists:foldl(fun(E, Acc) -> How(P, E, Acc) end, S1,
                                            lists:reverse(Events));
                            _ -> S0
                        end
                end, S, Ps).
