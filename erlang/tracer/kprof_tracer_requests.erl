%% kprof_tracer_requests - a trace by request: which request a call is part of.
-module(kprof_tracer_requests).

-export([numbered/1, entry_spec/2, is_told/0, begins/8, entry_full/1, called/7, told/7, leaves/3,
         returned/3, one_ended/1, gone/2, passed_by/1, passed/4, label/1]).

-include("kprof_tracer.hrl").

-define(LATE_MS, 200).          % for work that goes on after a request's end

%% From here on the word is ours: the sentry knows it before it is changed.
-spec numbered(#s{}) -> #s{}.
numbered(#s{r = undefined} = S0) ->
    S0;
numbered(#s{r = #r{attached = true}} = S0) ->
    S0;
numbered(S0) ->
    S = S0#s{p = (S0#s.p)#profile{word = erlang:system_info(trace_control_word)}},
    kprof_oneshot:tell_sentry(S#s.p),
    tell_us(),
    S.

%% A call of it clears the token, and sets one with a number of its own: of an
%% epoch, which is ours, and the trace control word, which counts. What is
%% evaluated first is the last. An application's own token stays where it is.
entry_spec(MFA, #s{guards = Guards, args = Args, r = #r{epoch = Of}} = S) ->
    Epoch = Of bsl ?WORD_BITS,
    Next = fun(Word) -> {'band', {'+', Word, 1}, ?WORD_MASK} end,
    Label = {'bor', Epoch, Next({set_tcw, Next({get_tcw})})},
    Told = [{set_seq_token, Flag, true} || is_told(), Flag <- [send, 'receive', monotonic_timestamp]],
    Free = {'orelse', {'not', {is_seq_trace}}, ?IS_OURS},
    Begin = fun(Caller) ->
                    [{'andalso', Free, kprof_tracer_server:runs(S)},
                     {message, {'andalso', Free,
                                {{entry, {get_seq_token}, {list_to_tuple(Told)}, {set_seq_token, label, Label},
                                  {set_seq_token, sequential_trace_token, []}, {get_seq_token}, Caller}}}}]
            end,
    kprof_tracer_args:calls(MFA, Guards, Begin, Args).

%% Of messages with a token, which come whole: bodies go no further. There is one
%% in a node who is told of them; without that there is no way of a request.
tell_us() ->
    seq_trace:get_system_tracer() =:= false andalso seq_trace:set_system_tracer(self()).

is_told() ->
    seq_trace:get_system_tracer() =:= self().

%% Past as many as were asked for who has a token still gets a label, of nobody's:
%% else the next one in the same process would have the token of the last. Others
%% get none.
%% Called again by the same function in the same process: the end of the one
%% before was not seen, as when it raised on OTP 25.
-spec begins(pid(), New :: term(), Old :: term(), From :: term(), Identity :: term(), mfa(), integer(), #s{}) -> #s{}.
begins(P, New, Old, From, Identity, MFA, Ts, S0) ->
    #s{r = #r{labels = Labels, max = Max, begun = Begun} = R} = S = kprof_tracer_nodes:seen(Old, S0),
    Caller = kprof_tracer_patterns:caller(From),
    case Labels of
        #{Old := N} when map_get(N, R#r.open) =:= {P, Caller} ->
            begins(P, New, none, From, Identity, MFA, Ts, request_ended(N, S));
        #{Old := N} when is_map_key(N, R#r.open); is_map_key(N, R#r.elsewhere) ->
            called(P, New, From, Identity, MFA, Ts, kprof_tracer_nodes:labelled(New, N, S));
        _ when Begun < Max, map_size(Labels) < ?NUMBERS - 1 ->
            {N, S1} = kprof_tracer_limits:numbered_by(New, S),
            R1 = S1#s.r,
            S2 = S1#s{r = R1#r{open = (R#r.open)#{N => {P, Caller}}}},
            is_full(S2) andalso entry_full(S2),
            called(P, New, From, Identity, MFA, Ts, kprof_tracer_nodes:news({begins, N}, kprof_tracer_nodes:labelled(New, N, S2)));
        _ -> leaves(P, Ts, S)
    end.

%% As many as were asked for have begun; whether one of an identity is wanted is
%% known later. Of several nodes the client sees it.
is_full(#s{stage = tracing, r = #r{named = all, begun = Max, max = Max}} = S) -> kprof_tracer_nodes:is_alone(S);
is_full(_) -> false.

%% From now on requests only get labels, of nobody's, in the place of other ones.
entry_full(#s{guards = Guards} = S) ->
    kprof_tracer_limits:entry_arm(S#s{guards = [{is_seq_trace} | Guards]}).

-spec called(pid(), Label :: term(), From :: term(), Identity :: term(), mfa(), integer(), #s{}) -> #s{}.
called(P, Label, From, Identity, MFA, Ts, S00) ->
    #s{r = #r{labels = Labels, attached = Attached}} = S0 = kprof_tracer_nodes:seen(Label, S00),
    case Labels of
        #{Label := N} ->
            S = kprof_tracer_limits:identified(N, Identity, S0),
            case kprof_tracer_limits:is_unwanted(N, S#s.r) of
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

%% Of a kprofd's requests an entry's call comes before its token.
-spec told(pid(), Label :: term(), Caller :: term(), Identity :: term(), mfa(), integer(), #s{}) -> #s{}.
told(P, Label, Caller, Identity, MFA, Ts, #s{r = #r{attached = true, entries = Entries}} = S) ->
    case Entries of
        #{MFA := _} -> kprof_tracer_limits:entered(P, Label, Caller, Identity, MFA, Ts, S);
        _ -> called(P, Label, Caller, Identity, MFA, Ts, kprof_tracer_limits:shown(P, Label, S))
    end;
told(P, Label, Caller, Identity, MFA, Ts, S) ->
    called(P, Label, Caller, Identity, MFA, Ts, S).

works(P, N, Caller, MFA, Ts, #s{r = #r{at = At}} = S) when map_get(P, At) =:= N ->
    kprof_tracer_events:add({trace_ts, P, call, MFA, Caller, Ts}, S);
works(P, N, Caller, MFA, Ts, #s{r = #r{at = At} = R} = S0) ->
    S = kprof_tracer_events:add({trace_ts, P, request, N, Ts}, S0#s{r = R#r{at = At#{P => N}}}),
    kprof_tracer_events:add({trace_ts, P, call, MFA, Caller, Ts}, S).

%% It works for a request that is none of ours.
-spec leaves(pid(), integer(), #s{}) -> #s{}.
leaves(P, Ts, #s{r = #r{at = At} = R} = S) when is_map_key(P, At) ->
    kprof_tracer_events:add({trace_ts, P, request, 0, Ts}, S#s{r = R#r{at = maps:remove(P, At)}});
leaves(_, _, S) ->
    kprof_tracer_events:pass_over(1, S).

%% Its entry has returned when its process is back in what called that.
-spec returned(pid(), mfa(), #s{}) -> #s{}.
returned(P, MFA, #s{r = #r{at = At, open = Open}} = S) ->
    N = map_get(P, At),
    case Open of
        #{N := {P, MFA}} -> request_ended(N, S);
        _ -> S
    end.

request_ended(N, #s{r = #r{open = Open} = R} = S0) ->
    S = kprof_tracer_nodes:news({ends, N}, S0#s{r = R#r{open = maps:remove(N, Open)}}),
    case kprof_tracer_limits:is_wanted(N, R) of
        true -> one_ended(S);
        false -> S
    end.

%% Of several nodes the client sees when enough have ended.
-spec one_ended(#s{}) -> #s{}.
one_ended(#s{r = #r{ended = Ended, max = Max} = R} = S) ->
    kprof_tracer_nodes:is_alone(S) andalso Ended + 1 =:= Max andalso erlang:send_after(?LATE_MS, self(), requests_ended),
    S#s{r = R#r{ended = Ended + 1}}.

-spec gone(pid(), #s{}) -> #s{}.
gone(P, #s{r = #r{at = At, open = Open} = R} = S) ->
    N = map_get(P, At),
    S1 = S#s{r = R#r{at = maps:remove(P, At)}},
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
        #s{r = #r{labels = #{Label := N}}} = S -> passed_in(N, What, Ts, S);
        S -> S
    end.

passed_in(N, {send, {_, Serial}, From, _, _}, Ts, S) when is_pid(From), node(From) =:= node() ->
    kprof_tracer_events:add({trace_ts, From, send, {N, Serial}, Ts}, S);
passed_in(N, {'receive', {_, Serial}, From, To, _}, Ts, S) when is_pid(From), is_pid(To), node(To) =:= node() ->
    kprof_tracer_events:add({trace_ts, To, 'receive', {N, Serial, From}, Ts}, S);
passed_in(_, _, _, S) ->
    S.

%% What is no token, is of somebody else's pattern.
label({_, Label, _, _, _}) -> Label;
label(_) -> none.
