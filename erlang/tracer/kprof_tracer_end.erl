%% kprof_tracer_end - how a trace ends: after a fixed time, by the client or past a limit; and what
%% is taken back then, tokens last. For kprof_tracer.
-module(kprof_tracer_end).

-export([disarm/2, evaluated/1, ended/1, sweep/1, span_ready/1, span_begin/1, in_session/3,
         exited/2]).

-import(kprof_call, [tell_value/1]).
-import(kprof_flagger, [flags_clear/3]).
-import(kprof_injected, [process_label/2]).
-import(kprof_oneshot, [tell_sentry/1]).
-import(kprof_tracer_events, [tracer_of/1]).
-import(kprof_tracer_limits, [is_asked/1]).
-import(kprof_tracer_loads, [loads_end/1, loads_last/1, loads_send/1]).
-import(kprof_tracer_patterns, [pattern_meta/3]).
-import(kprof_tracing, [is_traced/1, session_create/2, trace_delivered/1]).

-include("kprof_tracer.hrl").

-define(SWEEP_MS, 300).         % for processes to run into a pattern that takes their token
-define(SWEPT, 50).             % most such patterns

%% From now on no event is made; earlier ones are still to come.
-spec disarm(Why :: {atom(), term()}, #state{}) -> #state{}.
disarm(Why, #state{stage = tracing} = S0) ->
    S = loads_last(S0),
    unarm(S#state{stage = draining, why = Why,
                  requests = kprof_tracer_requests:ends(swept(S))});
disarm(_, S) -> S.

%% The process of the call has ended before it returned.
-spec exited(term(), #state{}) -> #state{}.
exited(Reason, #state{profile = #profile{applied = Applied} = P} = S) ->
    [{kprof_ended, Outcome, Text}] = kprof_call:outcome(Reason, Applied),
    tell_sentry(P#profile{applied = done}),
    disarm({Outcome, Text}, S#state{profile = P#profile{applied = done}}).

%% The process of the call, which nobody traces any more, makes a text of its result.
evaluated(#state{profile = #profile{applied = {Pid, Ref, _} = Applied}} = S0) ->
    tell_value(Applied),
    Reason = receive {'DOWN', Ref, process, _, Why} -> Why
             after ?VALUE_MS -> exit(Pid, kill), overran
             end,
    S = S0#state{profile = S0#state.profile#profile{applied = done}},
    tell_sentry(S#state.profile),
    lists:foldl(fun({kprof_ended, Outcome, Text}, S1) -> S1#state{why = {Outcome, Text}};
                   (Value, S1) -> kprof_tracer_events:send(Value, S1)
                end, S, kprof_call:outcome(Reason, Applied)).

%% The client ends the profile when it has all it wants. Before that it answers which request
%% types are wanted.
ended(#state{requests = R} = S) when is_record(R, requests) ->
    case is_asked(R) of
        true -> S#state{delivered = all};
        false -> all_sent(S)
    end;
ended(S) -> all_sent(S).

all_sent(#state{why = {Why, Text}} = S0) ->
    S = loads_send(S0),
    {Begun, Ended, Unsure} =
        case S#state.requests of
            undefined -> {0, 0, 0};
            R -> {R#requests.begun, R#requests.ended, R#requests.unsure}
        end,
    kprof_tracer_events:send({kprof_calls_end, Why, Text, kprof_oneshot:names(), Begun, Ended,
                              Unsure}, S).

%% Takes patterns and flags away. Destroying a session takes 2 to 15 ms at 200,000 processes and
%% stops nobody; another session is needed for taking tokens back.
unarm(#state{profile = #profile{session = legacy}, probe = relay} = S0) ->
    kprof_oneshot:unflag(S0#state.profile),
    S = lists:foldl(fun(P, S1) ->
                            kprof_tracer_patterns:legacy_clear(P),
                            quieten(S1)
                    end, quieten(S0), S0#state.profile#profile.armed),
    _ = flags_clear(legacy, self(), ?CLEAR_MS),
    unarmed(legacy, S);
unarm(#state{profile = #profile{session = legacy}} = S) ->
    kprof_oneshot:clear(S#state.profile),
    unarmed(legacy, S);
unarm(#state{probe = Probe} = S) ->
    loads_end(S),
    kprof_oneshot:clear(S#state.profile),
    unarmed(session_create(kprof_tracer, tracer_of(Probe)), S).

unarmed(Session, #state{profile = Profile0} = S) ->
    Profile = Profile0#profile{session = Session, armed = [], walk = cleared},
    tell_sentry(Profile),
    S#state{profile = Profile, delivered = trace_delivered(Session)}.

%% A walk, and taking patterns, last long where many processes want to run, and our queue grows by
%% a million events a second meanwhile. The process of an event in the queue has run Erlang code
%% just now, so its flags can be taken at once. Events are kept, in order.
quieten(S) -> quieten(#{}, [], S).

quieten(Quiet, Kept, S) ->
    receive
        Event when element(1, Event) =:= seq_trace -> quieten(Quiet, [Event | Kept], S);
        Event when element(1, Event) =:= trace_ts, is_map_key(element(2, Event), Quiet) ->
            quieten(Quiet, [Event | Kept], S);
        Event when element(1, Event) =:= trace_ts ->
            P = element(2, Event),
            _ = try erlang:trace(P, false, [{tracer, self()}, all]) catch error:_ -> gone end,
            quieten(Quiet#{P => []}, [Event | Kept], S)
    after 0 ->
            #state{events = #events{kept = Before} = Events} = S,
            S#state{events = Events#events{kept = Before ++ lists:reverse(Kept)}}
    end.

%% ---------------------------------------------------------- tokens ----

%% Called when all events have come. For a while, processes that call the entry or another of the
%% functions lose tokens that we gave, and no others. A process with a request at the end of the
%% trace would keep its token as long as it gets no message without one, and pass it on with what
%% it sends. Nothing can do this for a process that does not run. A node that was in trouble is
%% left alone.
sweep(#state{requests = R, why = {Why, _}} = S)
  when R =:= undefined; Why =:= queue; Why =:= memory ->
    ended(S);
sweep(#state{requests = #requests{attached = true}} = S) -> ended(S);
sweep(#state{profile = #profile{session = Session},
             requests = #requests{entries = Entries, swept = Functions} = R} = S) ->
    First = maps:keys(Entries),
    Swept = [P || P <- lists:sublist(First ++ (Functions -- First), ?SWEPT), is_free(Session, P)],
    S1 = S#state{profile = S#state.profile#profile{armed = [{meta, P} || P <- Swept]}},
    tell_sentry(S1#state.profile),
    Take = [{'_', [{is_seq_trace}], [{message, false},
                                     {'andalso', is_ours(R),
                                      {set_seq_token, sequential_trace_token, []}}]}],
    [begin pattern_meta(Session, P, Take),
     kprof_oneshot:heed(0, S1#state.profile) end || P <- Swept],
    erlang:send_after(?SWEEP_MS, self(), swept),
    S1.

%% In a match spec: is the label of this trace, whichever node made it? See epoch_of/2.
is_ours(#requests{epoch = Epoch, other_epochs = Others, named = Named}) ->
    list_to_tuple(['orelse' | [is_of(E, Named) || E <- [Epoch | maps:keys(Others)]]]).

is_of(Epoch, all) -> ?LABEL_BEGINS(?WORD_BITS, Epoch);
is_of(Epoch, _) -> ?LABEL_BEGINS(?CONST_BITS, Epoch bsr (?CONST_BITS - ?WORD_BITS)).

%% Before OTP 27 a function has one meta tracer for everybody.
is_free(legacy, {_, '_', _}) -> false;
is_free(legacy, MFA) -> not is_traced(MFA);
is_free(_, _) -> true.

%% Remembers the armed functions for the sweep.
swept(#state{requests = undefined}) -> undefined;
swept(#state{profile = #profile{armed = Armed}, requests = R}) ->
    R#requests{swept = [P || {_, _, _} = P <- Armed]}.

%% -------------------------------------------------------------- a fixed time ----

%% A timer's message could wait long in the tracer's queue, behind a million events while more
%% arrive. So another process watches the clock, takes away what makes events, and then sends
%% its message, behind the last of them. It starts before processes have their flags, and
%% ends with the tracer.

span_ready(#state{span_ms = 0} = S) -> S;
span_ready(#state{profile = #profile{session = Session}, span_ms = Ms, probe = Probe} = S) ->
    Server = self(),
    Tracer = tracer_of(Probe),
    S#state{span = spawn_opt(fun() ->
                                     process_label(kprof_tracer, span),
                                     Ref = erlang:monitor(process, Server),
                                     receive
                                         go -> span(Server, Ref, Session, Tracer, Ms);
                                         {'DOWN', Ref, process, _, _} -> gone
                                     end
                             end, [{priority, high}])}.

%% The time begins now.
span_begin(#state{span = Pid}) when is_pid(Pid) -> Pid ! go;
span_begin(_) -> none.

span(Server, Ref, Session, Tracer, Ms) ->
    receive {'DOWN', Ref, process, _, _} -> gone
    after Ms ->
            span_end(Session, Tracer),
            Server ! span_over
    end.

span_end(legacy, Tracer) -> flags_clear(legacy, Tracer, ?CLEAR_MS);
span_end(Session, _) -> trace:session_destroy(Session).

%% Does something in the session, which may be gone without the tracer knowing it yet: then
%% returns Gone.
in_session(legacy, Do, _) -> Do();
in_session(Session, Do, Gone) ->
    try Do()
    catch
        error:badarg:Stack ->
            lists:member(element(2, Session), trace:session_info(all)) andalso
                erlang:raise(error, badarg, Stack),
            Gone
    end.
