%% kprof_tracer_early - events of a request that come before the call that begins
%% it. For kprof_tracer.
%%
%% What one process does comes in order; of two, the VM may hand on what was done
%% first later (a process keeps its events back while others write to the tracer's
%% queue). So who is asked in a request may be seen to work for it before the entry
%% is seen to be called: what that process does waits until it is, in order.
-module(kprof_tracer_early).

-export([in_turn/3, early_over/2, early_look/1, early_end/1]).

-include("kprof_tracer.hrl").

-define(EARLY, 100000).         % events, of all processes
-define(EARLY_MS, 1000).        % then it is a token of somebody else's

%% Is it a label that we have made, of a request that may still be ours?
is_early(Label, #s{stage = Stage, r = #r{attached = false, labels = Labels, begun = Begun, max = Max} = R})
  when is_integer(Label), not is_map_key(Label, Labels), Begun < Max ->
    Stage =/= ready andalso is_own(Label, R);
is_early(_, _) ->
    false.

%% An entry that may know an identity makes labels with a constant part of the client's:
%% that of the first one that is seen to begin. A token of an earlier trace has another.
is_own(Label, #r{epoch = Epoch}) when Label bsr ?WORD_BITS =:= Epoch -> true;
is_own(_, #r{named = all}) -> false;
is_own(Label, #r{constant = unknown}) -> Label bsr ?KIND_BITS =:= ?LABEL_TRACE;
is_own(Label, #r{constant = Constant}) -> Label bsr ?CONST_BITS =:= Constant.

%% The label that an event speaks of, or none.
early_label({trace_ts, _, call, _, X, _}) -> called_label(X);
early_label({seq_trace, Label, _, _}) -> Label;
early_label(_) -> none.

called_label({entry, _, _, _, _, Old, _}) -> kprof_tracer_requests:label(Old);
called_label({_, _, 1, false, _, [], _}) -> none;
called_label({_, _, 1, _, _, [], Old}) -> kprof_tracer_requests:label(Old);
called_label({_, Token, _}) -> kprof_tracer_requests:label(Token);
called_label({Token, _}) -> kprof_tracer_requests:label(Token);
called_label(_) -> none.

%% What a process does is looked at now, or after what it did before.
-spec in_turn(pid(), tuple(), #s{}) -> #s{}.
in_turn(P, Event, #s{r = #r{early = Early}} = S) when is_map_key(P, Early) ->
    {At, Label, Events} = map_get(P, Early),
    early(P, {At, Label, [short(Event) | Events]}, S);
in_turn(P, Event, S) ->
    Label = early_label(Event),
    case is_early(Label, S) of
        true -> early(P, {kprof_injected:now_ms(), Label, [short(Event)]}, S);
        false -> its_turn(P, Event, S)
    end.

its_turn(_, {trace_ts, _, call, _, _, _} = Event, S) -> kprof_tracer_events:call(Event, S);
its_turn(_, {seq_trace, Label, What, Ts}, S) -> kprof_tracer_requests:passed(Label, What, Ts, S);
its_turn(P, Event, S) -> kprof_tracer_events:in_request(P, Event, S).

%% Nothing that could be large waits here.
short({seq_trace, Label, What, Ts}) -> {seq_trace, Label, setelement(tuple_size(What), What, []), Ts};
short({trace_ts, P, exit, _, Ts}) -> {trace_ts, P, exit, 0, Ts};
short(Event) -> Event.

%% Past the limit no more events are made; those that were, are as many as the queue may have.
early(P, Waits, #s{r = #r{early = Early, early_n = N} = R} = S0) ->
    S = S0#s{r = R#r{early = Early#{P => Waits}, early_n = N + 1}},
    if N < ?EARLY -> S;
       true -> kprof_tracer_server:disarm({queue, 0}, S)
    end.

%% A request with this label has begun, or will not.
-spec early_over(term(), #s{}) -> #s{}.
early_over(Label, #s{r = #r{constant = unknown, epoch = Epoch} = R} = S) when Label bsr ?WORD_BITS =/= Epoch ->
    early_over(Label, S#s{r = R#r{constant = Label bsr ?CONST_BITS}});
early_over(_, #s{r = #r{early = Early}} = S) when map_size(Early) =:= 0 ->
    S;
early_over(Label, #s{r = #r{early = Early}} = S) ->
    release([P || {P, {_, L, _}} <- maps:to_list(Early), L =:= Label], fun in_turn/3, S).

%% Those that have waited for long wait for a label that nobody tells of.
-spec early_look(#s{}) -> #s{}.
early_look(#s{r = #r{early = Early}} = S) when map_size(Early) > 0 ->
    Now = kprof_injected:now_ms(),
    lists:foldl(fun({P, Label}, Acc) -> release([P], given_up(Label), Acc) end, S,
                [{P, Label} || {P, {At, Label, _}} <- maps:to_list(Early), Now - At > ?EARLY_MS]);
early_look(S) ->
    S.

given_up(Label) ->
    fun(P, Event, S) ->
            case early_label(Event) of
                Label -> its_turn(P, Event, S);
                _ -> in_turn(P, Event, S)
            end
    end.

%% When all events have come, nothing is waited for any more.
-spec early_end(#s{}) -> #s{}.
early_end(#s{r = #r{early = Early}} = S) when map_size(Early) > 0 ->
    release(maps:keys(Early), fun its_turn/3, S);
early_end(S) ->
    S.

%% What one does may have others go on, of those that are listed too.
release(Ps, How, S) ->
    lists:foldl(fun(P, #s{r = #r{early = Early, early_n = N} = R} = S0) ->
                        case Early of
                            #{P := {_, _, Events}} ->
                                S1 = S0#s{r = R#r{early = maps:remove(P, Early), early_n = N - length(Events)}},
                                lists:foldl(fun(E, Acc) -> How(P, E, Acc) end, S1, lists:reverse(Events));
                            _ -> S0
                        end
                end, S, Ps).
