%% kprof_tracer_requests - a trace by request: which request a call is part of.
-module(kprof_tracer_requests).

-export([numbered/1, entry_spec/2, is_system_tracer/0, begins/8, entry_full/1, called/7,
         called_in/7, leaves/3,
         returned/3, one_ended/1, gone/2, passed_by/1, passed/4, label/1]).

-include("kprof_tracer.hrl").

-define(LATE_MS, 200).          % for work that goes on after a request's end

%% From here on the trace control word is ours: the sentry is told its value before it changes.
-spec numbered(#s{}) -> #s{}.
numbered(#s{requests = undefined} = S0) ->
    S0;
numbered(#s{requests = #requests{attached = true}} = S0) ->
    S0;
numbered(S0) ->
    S = S0#s{profile = S0#s.profile#profile{word = erlang:system_info(trace_control_word)}},
    kprof_oneshot:tell_sentry(S#s.profile),
    take_system_tracer(),
    S.

%% A call of an entry clears the token and sets one with a label of its own: our epoch, and the
%% trace control word, which counts. Parts of the tuple are evaluated last to first. An
%% application's own token stays in place.
entry_spec(MFA, #s{guards = Guards, args_max = Args, requests = #requests{epoch = Of}} = S) ->
    Epoch = Of bsl ?WORD_BITS,
    Next = fun(Word) -> {'band', {'+', Word, 1}, ?WORD_MASK} end,
    Label = {'bor', Epoch, Next({set_tcw, Next({get_tcw})})},
    Flags = [send, 'receive', monotonic_timestamp],
    Told = [{set_seq_token, Flag, true} || is_system_tracer(), Flag <- Flags],
    Free = {'orelse', {'not', {is_seq_trace}}, ?IS_OURS},
    Begin = fun(Caller) ->
                    [{'andalso', Free, kprof_tracer_server:runs(S)},
                     {message, {'andalso', Free,
                                {{entry, {get_seq_token}, {list_to_tuple(Told)},
                                  {set_seq_token, label, Label},
                                  {set_seq_token, sequential_trace_token, []}, {get_seq_token},
                                  Caller}}}}]
            end,
    kprof_tracer_args:calls(MFA, Guards, Begin, Args).

%% Messages with a token arrive here whole, but their bodies go no further. A node has one system
%% tracer; without being it we cannot follow requests.
take_system_tracer() ->
    seq_trace:get_system_tracer() =:= false andalso seq_trace:set_system_tracer(self()).

is_system_tracer() ->
    seq_trace:get_system_tracer() =:= self().

%% Once enough requests have begun, a process that has a token still gets a new label, of no
%% request: else its next request would have the token of the last. Other processes get none. If
%% the same function calls the entry again in the same process, the end of the request before was
%% not seen, as when it raised on OTP 25.
-spec begins(pid(), New :: term(), Old :: term(), From :: term(), Identity :: term(), mfa(),
             integer(), #s{}) -> #s{}.
begins(P, New, Old, From, Identity, MFA, Ts, S0) ->
    #s{requests = #requests{labels = Labels, max = Max, begun = Begun} = R} = S =
        kprof_tracer_nodes:seen(Old, S0),
    Caller = kprof_tracer_patterns:caller(From),
    case Labels of
        #{Old := N} when map_get(N, R#requests.open) =:= {P, Caller} ->
            begins(P, New, none, From, Identity, MFA, Ts, request_ended(N, S));
        #{Old := N} when is_map_key(N, R#requests.open); is_map_key(N, R#requests.elsewhere) ->
            called(P, New, From, Identity, MFA, Ts, kprof_tracer_nodes:labelled(New, N, S));
        _ when Begun < Max, map_size(Labels) < ?NUMBERS - 1 ->
            {N, S1} = kprof_tracer_limits:numbered_by(New, S),
            R1 = S1#s.requests,
            S2 = S1#s{requests = R1#requests{open = (R#requests.open)#{N => {P, Caller}}}},
            is_full(S2) andalso entry_full(S2),
            called(P, New, From, Identity, MFA, Ts,
                   kprof_tracer_nodes:news({begins, N}, kprof_tracer_nodes:labelled(New, N, S2)));
        _ -> leaves(P, Ts, S)
    end.

%% True if enough requests have begun. With identities, whether a request is wanted is known
%% later; with several nodes the client decides.
is_full(#s{stage = tracing, requests = #requests{named = all, begun = Max, max = Max}} = S) ->
    kprof_tracer_nodes:is_alone(S);
is_full(_) -> false.

%% From now on entries only replace tokens, by labels of no request.
entry_full(#s{guards = Guards} = S) ->
    kprof_tracer_limits:entry_arm(S#s{guards = [{is_seq_trace} | Guards]}).

-spec called(pid(), Label :: term(), From :: term(), Identity :: term(), mfa(), integer(), #s{}) ->
          #s{}.
called(P, Label, From, Identity, MFA, Ts, S00) ->
    #s{requests = #requests{labels = Labels, attached = Attached}} = S0 =
        kprof_tracer_nodes:seen(Label, S00),
    case Labels of
        #{Label := N} ->
            S = kprof_tracer_limits:identified(N, Identity, S0),
            case kprof_tracer_limits:is_unwanted(N, S#s.requests) of
                true -> leaves(P, Ts, S);
                false -> works(P, N, From, MFA, Ts, S)
            end;
        _ when Attached, map_size(Labels) < ?NUMBERS - 1 ->
            case kprof_tracer_limits:is_kprofds(Label) of
                true ->
                    {_, S} = kprof_tracer_limits:numbered_by(Label, S0),
                    called(P, Label, From, Identity, MFA, Ts, S);
                false -> leaves(P, Ts, S0)
            end;
        _ -> leaves(P, Ts, S0)
    end.

%% For a kprofd's requests, the call of an entry comes before its token.
-spec called_in(pid(), Label :: term(), Caller :: term(), Identity :: term(), mfa(), integer(),
                #s{}) ->
          #s{}.
called_in(P, Label, Caller, Identity, MFA, Ts,
     #s{requests = #requests{attached = true, entries = Entries}} = S) ->
    case Entries of
        #{MFA := _} -> kprof_tracer_limits:entered(P, Label, Caller, Identity, MFA, Ts, S);
        _ -> called(P, Label, Caller, Identity, MFA, Ts, kprof_tracer_limits:shown(P, Label, S))
    end;
called_in(P, Label, Caller, Identity, MFA, Ts, S) ->
    called(P, Label, Caller, Identity, MFA, Ts, S).

works(P, N, Caller, MFA, Ts, #s{requests = #requests{working = At}} = S)
  when map_get(P, At) =:= N ->
    kprof_tracer_events:add({trace_ts, P, call, MFA, Caller, Ts}, S);
works(P, N, Caller, MFA, Ts, #s{requests = #requests{working = At} = R} = S0) ->
    S = kprof_tracer_events:add({trace_ts, P, request, N, Ts},
                                S0#s{requests = R#requests{working = At#{P => N}}}),
    kprof_tracer_events:add({trace_ts, P, call, MFA, Caller, Ts}, S).

%% The process works for a request that is not ours.
-spec leaves(pid(), integer(), #s{}) -> #s{}.
leaves(P, Ts, #s{requests = #requests{working = At} = R} = S) when is_map_key(P, At) ->
    kprof_tracer_events:add({trace_ts, P, request, 0, Ts},
                            S#s{requests = R#requests{working = maps:remove(P, At)}});
leaves(_, _, S) ->
    kprof_tracer_events:pass_over(1, S).

%% A request has ended when its process is back in the caller of the entry.
-spec returned(pid(), mfa(), #s{}) -> #s{}.
returned(P, MFA, #s{requests = #requests{working = At, open = Open}} = S) ->
    N = map_get(P, At),
    case Open of
        #{N := {P, MFA}} -> request_ended(N, S);
        _ -> S
    end.

request_ended(N, #s{requests = #requests{open = Open} = R} = S0) ->
    S = kprof_tracer_nodes:news({ends, N},
                                S0#s{requests = R#requests{open = maps:remove(N, Open)}}),
    case kprof_tracer_limits:is_wanted(N, R) of
        true -> one_ended(S);
        false -> S
    end.

%% With several nodes the client sees when enough have ended.
-spec one_ended(#s{}) -> #s{}.
one_ended(#s{requests = #requests{ended = Ended, max = Max} = R} = S) ->
    kprof_tracer_nodes:is_alone(S) andalso Ended + 1 =:= Max andalso
        erlang:send_after(?LATE_MS, self(), requests_ended),
    S#s{requests = R#requests{ended = Ended + 1}}.

-spec gone(pid(), #s{}) -> #s{}.
gone(P, #s{requests = #requests{working = At, open = Open} = R} = S) ->
    N = map_get(P, At),
    S1 = S#s{requests = R#requests{working = maps:remove(P, At)}},
    case Open of
        #{N := {P, _}} -> request_ended(N, S1);
        _ -> S1
    end.

passed_by({send, _, From, _, _}) -> From;
passed_by({_, _, _, To, _}) -> To;
passed_by(_) -> none.

-spec passed(Label :: term(), What :: tuple(), integer(), #s{}) -> #s{}.
passed(Label, What, Ts, S0) ->
    case kprof_tracer_nodes:seen(Label, S0) of
        #s{requests = #requests{labels = #{Label := N}}} = S -> passed_in(N, What, Ts, S);
        S -> S
    end.

passed_in(N, {send, {_, Serial}, From, _, _}, Ts, S) when is_pid(From), node(From) =:= node() ->
    kprof_tracer_events:add({trace_ts, From, send, {N, Serial}, Ts}, S);
passed_in(N, {'receive', {_, Serial}, From, To, _}, Ts, S)
  when is_pid(From), is_pid(To), node(To) =:= node() ->
    kprof_tracer_events:add({trace_ts, To, 'receive', {N, Serial, From}, Ts}, S);
passed_in(_, _, _, S) ->
    S.

%% Anything but a token comes from somebody else's pattern.
label({_, Label, _, _, _}) -> Label;
label(_) -> none.
