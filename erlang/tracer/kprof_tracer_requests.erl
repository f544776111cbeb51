%% kprof_tracer_requests - a trace by request: which request a call is part of; and what differs
%% where several nodes are traced together.
-module(kprof_tracer_requests).

-export([numbered/1, word_tick/1, entry_spec/2, ends/1, messages_told/0, begins/8, warm/1,
         full_soon/1, full_look/1, passes/4, called/7, called_in/7, leaves/3, returned/3,
         one_ended/1, gone/2, passed_by/1, passed/4, label/1, there/1, epochs/1, epoch_of/2,
         is_alone/1, news/2, ended_elsewhere/2, unwanted_elsewhere/2, tell_news/1, warm_look/2]).

-import(kprof_injected, [kept_set/2, now_ms/0, now_ns/0]).
-import(kprof_oneshot, [tell_sentry/1]).
-import(kprof_text, [refuse/2]).
-import(kprof_tracer_early, [early_over/2, is_ours/2]).
-import(kprof_tracer_end, [disarm/2]).
-import(kprof_tracer_events, [pass_over/2]).
-import(kprof_tracer_limits, [entry_arm/1, is_attached/0, is_kprofds/1, is_unwanted/2, is_wanted/2,
         named/3, numbered_by/2, unattached/0]).
-import(kprof_tracer_owner, [works_for/3]).
-import(kprof_word, [word_advance/1, word_begin/1, word_found/0, word_label/1,
         word_number/0]).

-include("kprof_tracer.hrl").

-define(LATE_MS, 200).          % for work that goes on after a request's end
-define(FULL_MS, 2000).         % entries mark for so long after the last one that counts
-define(QUIET_MS, 100).         % before the first one, if none is called
-define(WARM_MS, 1000).         % else

-define(EPOCHS, (1 bsl (?KIND_BITS - ?WORD_BITS) - 1)).

%% From here on the trace control word is ours: the sentry is told its value before it changes. A
%% kprofd may have attached since that was looked at.
numbered(#state{requests = undefined} = S0) -> S0;
numbered(#state{requests = #requests{attached = true}} = S0) -> S0;
numbered(S0) ->
    unattached(),
    Found = word_found(),
    S = S0#state{profile = S0#state.profile#profile{word = Found}},
    tell_sentry(S#state.profile),
    kept_set(kprof_tracer_word, Found),
    take_system_tracer(),
    #state{requests = R} = S,
    S#state{requests = R#requests{messages = is_system_tracer()},
            clock = word_begin(word_number())}.

%% A kprofd that has attached meanwhile keeps the word. Its entries and ours would take each other's
%% tokens, so the trace ends.
word_tick(#state{clock = undefined} = S) -> S;
word_tick(#state{clock = Clock, stage = Stage} = S) ->
    case is_pid(whereis(kprof_agent)) of
        false -> S#state{clock = word_advance(Clock)};
        true when Stage =:= tracing ->
            case is_attached() of
                true ->
                    disarm({returned, <<"a kprofd has attached there, which marks requests">>}, S);
                false -> S
            end;
        true -> S
    end.

%% A call of an entry clears the token and sets one with a label of its own: our epoch, and a
%% number from the trace control word. Parts of the tuple are
%% evaluated last to first. An application's own token stays in place.
entry_spec(MFA, #state{guards = Guards, requests = #requests{full = full} = R} = S) ->
    %% Enough have begun: a process without a token gets none, but what it works for is known.
    Marks = entry_spec(MFA, S#state{guards = [{is_seq_trace} | Guards],
                                    requests = R#requests{full = undefined}}),
    Marks ++ [{'_', Guards, [{message, {{entry, {caller}}}}]}];
entry_spec(MFA, #state{guards = Guards, args_max = Args, requests = #requests{epoch = Of}} = S) ->
    New = list_to_tuple(['andalso', {set_seq_token, sequential_trace_token, []},
                         word_label(Of bsl ?WORD_BITS) | messages_told()]),
    Free = {'orelse', {'not', {is_seq_trace}}, ?IS_OURS},
    Begin = fun(Caller) ->
                    [{'andalso', Free, kprof_tracer_server:runs(S)},
                     {message, {'andalso', Free,
                                {{entry, {get_seq_token}, New, {get_seq_token}, Caller}}}}]
            end,
    kprof_tracer_patterns:calls(MFA, Guards, Begin, Args).

%% In a match spec: have messages with the token reported.
-spec messages_told() -> [tuple()].
messages_told() ->
    [{set_seq_token, Flag, true}
     || is_system_tracer(), Flag <- [send, 'receive', monotonic_timestamp]].

%% Messages with a token arrive here whole, but their bodies go no further. A node has one system
%% tracer; without being it we cannot follow requests.
take_system_tracer() ->
    seq_trace:get_system_tracer() =:= false andalso seq_trace:set_system_tracer(self()).

is_system_tracer() ->
    seq_trace:get_system_tracer() =:= self().

%% Messages are reported no more.
-spec ends(undefined | #requests{}) -> undefined | #requests{}.
ends(undefined) -> undefined;
ends(R) ->
    Now = now_ns(),
    is_system_tracer() andalso seq_trace:set_system_tracer(false),
    R#requests{until = Now}.

%% Once enough requests have begun, a process that has a token still gets a new label, of no
%% request: else its next request would have the token of the last.
-spec begins(pid(), New :: term(), Old :: term(), From :: term(), Identity :: term(), mfa(),
             integer(), #state{}) -> #state{}.
begins(P, New, Old, From, Identity, MFA, Ts, S00) ->
    S0 = kprof_tracer_owner:shows(P, Old, seen(Old, S00)),
    Caller = kprof_tracer_patterns:caller(From),
    case kprof_tracer_owner:over(P, Old, Caller, S0) of
        none ->
            N = works_for(P, Old, S0),
            case is_inside(P, N, S0) of
                true -> begins_in(N, P, New, From, Identity, MFA, Ts, S0);
                false -> begins_new(P, New, From, Identity, MFA, Ts, S0)
            end;
        _ -> begins_new(P, New, From, Identity, MFA, Ts, entry_left(P, any, S0))
    end.

%% Is the process inside its own entry, or does it work for a request that goes on?
is_inside(P, N, #state{requests = #requests{own = Own, open = Open, elsewhere = Elsewhere}}) ->
    is_map_key(P, Own) orelse is_map_key(N, Open) orelse is_map_key(N, Elsewhere).

begins_in(0, P, New, _, _, _, Ts, S) -> leaves(P, Ts, unnumbered(New, S));
begins_in(N, P, New, From, Identity, MFA, Ts, S) ->
    called(P, New, From, Identity, MFA, Ts,
           kprof_tracer_owner:enters(P, N, kprof_tracer_patterns:caller(From),
                                     labelled(New, N, S))).

begins_new(P, New, From, Identity, MFA, Ts,
           #state{requests = #requests{labels = Labels, max = Max, begun = Begun}} = S)
  when S#state.requests#requests.warm =:= no, Begun < Max, map_size(Labels) < ?NUMBERS - 1 ->
    Caller = kprof_tracer_patterns:caller(From),
    {N, #state{requests = #requests{open = Open} = R} = S1} = numbered_by(New, S),
    S2 = kprof_tracer_owner:enters(P, N, Caller,
                                   S1#state{requests = R#requests{open = Open#{N => {P, Caller}}}}),
    S3 = case is_full(S2) of
             true -> full_soon(S2);
             false -> S2
         end,
    called(P, New, From, Identity, MFA, Ts,
           news({begins, N}, labelled(New, N, S3)));
begins_new(P, New, From, _, _, Ts, S0) ->
    #state{requests = R} = S =
        kprof_tracer_owner:enters(P, 0, kprof_tracer_patterns:caller(From), unnumbered(New, S0)),
    case R#requests.warm of
        no -> leaves(P, Ts, S);
        _ -> leaves(P, Ts, S#state{requests = R#requests{warm = busy}})
    end.

%% As long as requests may begin, nothing waits for this one.
unnumbered(New, #state{requests = #requests{labels = Labels, max = Max, begun = Begun} = R} = S)
  when Begun < Max, map_size(Labels) < ?NUMBERS - 1 ->
    S#state{requests = R#requests{labels = Labels#{New => 0}}};
unnumbered(_, S) -> S.

%% Requests that began before have no token. One that they answer, as by giving back a worker that
%% it waits for, would lose its own. So entries mark requests for a while before the first that is
%% traced. True if that is still to come.
-spec warm(#state{}) -> {boolean(), #state{}}.
warm(#state{requests = #requests{attached = false} = R} = S) ->
    erlang:send_after(?QUIET_MS, self(), {warm, quiet}),
    {true, S#state{requests = R#requests{warm = quiet}}};
warm(S) -> {false, S}.

%% The time for which it was to be quiet, or then busy, is over.
-spec warm_look(quiet | busy, #state{}) -> {boolean(), #state{}}.
warm_look(quiet, #state{requests = #requests{warm = busy}} = S) ->
    erlang:send_after(?WARM_MS - ?QUIET_MS, self(), {warm, busy}),
    {true, S};
warm_look(_, #state{requests = R} = S) ->
    {false, S#state{requests = R#requests{warm = no}}}.

%% A call of an entry that got no label, of a request that is not traced.
-spec passes(pid(), From :: term(), integer(), #state{}) -> #state{}.
passes(P, From, Ts, S00) ->
    S0 = kprof_tracer_owner:shows(P, none, S00),
    Caller = kprof_tracer_patterns:caller(From),
    S = case kprof_tracer_owner:over(P, none, Caller, S0) of
            none -> S0;
            _ -> entry_left(P, any, S0)
        end,
    case S of
        #state{requests = #requests{own = Own}} when is_map_key(P, Own) ->
            pass_over(1, S);
        _ -> leaves(P, Ts, kprof_tracer_owner:enters(P, 0, Caller, S))
    end.

%% True if enough requests have begun. With identities, whether a request is wanted is known
%% later; with several nodes the client decides.
is_full(#state{stage = tracing, requests = #requests{named = all, begun = Max, max = Max}} = S) ->
    is_alone(S);
is_full(_) -> false.

%% A request that counts may be answered by one that does not, and loses its token if that has
%% none. So for a while entries go on to mark all, as they did.
full_soon(#state{requests = #requests{full = undefined} = R} = S) ->
    S#state{requests = R#requests{full = now_ms() + ?FULL_MS}};
full_soon(S) -> S.

%% Where the queue grows meanwhile, that time is over.
full_look(#state{stage = tracing, queue = #queue{max = Max},
                 requests = #requests{full = At} = R} = S0) when is_integer(At) ->
    {_, Waiting} = process_info(self(), message_queue_len),
    case now_ms() > At orelse Waiting > Max div 4 of
        true ->
            S = S0#state{requests = R#requests{full = full}},
            _ = entry_arm(S),
            S;
        false -> S0
    end;
full_look(S) -> S.

-spec called(pid(), Label :: term(), From :: term(), Identity :: term(), mfa(), integer(),
             #state{}) ->
          #state{}.
called(P, Label, From, Identity, MFA, Ts, S00) ->
    S0 = kprof_tracer_owner:shows(P, Label, seen(Label, S00)),
    case works_for(P, Label, S0) of
        0 -> called_new(P, Label, From, Identity, MFA, Ts, S0);
        N ->
            S = kprof_tracer_limits:identified(N, Identity, S0),
            case is_unwanted(N, S#state.requests) of
                true -> leaves(P, Ts, S);
                false -> works(P, N, From, MFA, Ts, S)
            end
    end.

%% A kprofd's request may have a label that was not seen before.
called_new(P, Label, From, Identity, MFA, Ts,
           #state{requests = #requests{attached = true, labels = Labels, own = Own}} = S0)
  when not is_map_key(Label, Labels), not is_map_key(P, Own), map_size(Labels) < ?NUMBERS - 1 ->
    case is_kprofds(Label) of
        true ->
            {_, S} = numbered_by(Label, S0),
            called(P, Label, From, Identity, MFA, Ts, S);
        false -> leaves(P, Ts, S0)
    end;
called_new(P, _, _, _, _, Ts, S) -> leaves(P, Ts, S).

%% For a kprofd's requests, the call of an entry comes before its token.
-spec called_in(pid(), Token :: term(), Caller :: term(), Identity :: term(), mfa(), integer(),
                #state{}) ->
          #state{}.
called_in(P, Token, Caller, Identity, MFA, Ts,
          #state{requests = #requests{attached = true, entries = Entries}} = S0) ->
    Label = label(Token),
    case Entries of
        #{MFA := _} -> kprof_tracer_limits:entered(P, Label, Caller, Identity, MFA, Ts, S0);
        _ ->
            S = kprof_tracer_limits:shown(P, Label, S0),
            called(P, Label, Caller, Identity, MFA, Ts, kprof_tracer_owner:heard(P, Token, S))
    end;
called_in(P, Token, Caller, Identity, MFA, Ts, S) ->
    called(P, label(Token), Caller, Identity, MFA, Ts, kprof_tracer_owner:heard(P, Token, S)).

works(P, N, Caller, MFA, Ts, #state{requests = #requests{working = At}} = S)
  when map_get(P, At) =:= N ->
    kprof_tracer_events:add({trace_ts, P, call, MFA, Caller, Ts}, S);
works(P, N, Caller, MFA, Ts, #state{requests = #requests{working = At} = R} = S0) ->
    S = kprof_tracer_events:add({trace_ts, P, request, N, Ts},
                                S0#state{requests = R#requests{working = At#{P => N}}}),
    kprof_tracer_events:add({trace_ts, P, call, MFA, Caller, Ts}, S).

%% The process works for a request that is not ours.
-spec leaves(pid(), integer(), #state{}) -> #state{}.
leaves(P, Ts, #state{requests = #requests{working = At} = R} = S) when is_map_key(P, At) ->
    kprof_tracer_events:add({trace_ts, P, request, 0, Ts},
                            S#state{requests = R#requests{working = maps:remove(P, At)}});
leaves(_, _, S) -> pass_over(1, S).

%% A request has ended when its process is back in the caller of the entry.
-spec returned(pid(), mfa(), #state{}) -> #state{}.
returned(P, MFA, S) ->
    entry_left(P, MFA, S).

%% By any caller, or this one.
entry_left(P, Caller, S0) ->
    case kprof_tracer_owner:left(P, Caller, S0) of
        {N, #state{requests = #requests{open = Open}} = S} ->
            case Open of
                #{N := {P, _}} -> request_ended(N, S);
                _ -> S
            end;
        none -> S0
    end.

request_ended(N, #state{requests = #requests{open = Open} = R} = S0) ->
    S = news({ends, N},
                                S0#state{requests = R#requests{open = maps:remove(N, Open)}}),
    case is_wanted(N, R) of
        true -> one_ended(S);
        false -> S
    end.

%% With several nodes the client sees when enough have ended.
one_ended(#state{requests = #requests{ended = Ended, max = Max} = R} = S) ->
    is_alone(S) andalso Ended + 1 =:= Max andalso
        erlang:send_after(?LATE_MS, self(), requests_ended),
    S#state{requests = R#requests{ended = Ended + 1}}.

-spec gone(pid(), #state{}) -> #state{}.
gone(P, #state{requests = #requests{working = At} = R} = S) ->
    entry_left(P, any, S#state{requests = R#requests{working = maps:remove(P, At)}}).

passed_by({send, _, From, _, _}) -> From;
passed_by({_, _, _, To, _}) -> To;
passed_by(_) -> none.

%% A message with one of our tokens, which may be that of a request that is not traced.
-spec passed(Label :: term(), What :: tuple(), integer(), #state{}) -> #state{}.
passed(Label, What, Ts, S0) ->
    S = seen(Label, S0),
    case is_ours(Label, S) of
        true -> passed_in(Label, What, Ts, S);
        false -> S
    end.

passed_in(Label, {send, {_, Serial}, From, _, _}, Ts, S0)
  when is_pid(From), node(From) =:= node() ->
    {N, S} = kprof_tracer_owner:sent(From, Serial, Label, S0),
    early_over({From, Serial},
               message(N, {trace_ts, From, send, {N, Serial}, Ts}, S));
passed_in(Label, {'receive', {_, Serial}, From, To, _}, Ts, S0)
  when is_pid(From), is_pid(To), node(To) =:= node() ->
    {N, S} = kprof_tracer_owner:taken(To, From, Serial, Label, S0),
    message(N, {trace_ts, To, 'receive', {N, Serial, From}, Ts}, S);
passed_in(_, _, _, S) -> S.

message(0, _, S) -> S;
message(_, Event, S) -> kprof_tracer_events:add(Event, S).

%% Anything but a token comes from somebody else's pattern.
label({_, Label, _, _, _}) -> Label;
label(_) -> none.

%% ------------------------------------------------------------- several nodes ----

%% Labels have an epoch, which differs from node to node, so that a request which began in
%% another node is known by its label, before or after the client knows of it. The client is
%% told which label has which number here, and tells us when a request has ended elsewhere.

%% A node need not have all functions: the client is told which are missing, by their position;
%% the entry has 0.
there(#{epochs := [_, _ | _], entry := Entry, patterns := Patterns} = Opts) ->
    {There, Absent} = lists:partition(fun({_, P}) -> is_there(P) end,
                                      lists:enumerate(Entry ++ Patterns)),
    There =:= [] andalso refuse("none of these functions is there", []),
    Has = [P || {_, P} <- There],
    {[I - length(Entry) || {I, _} <- Absent],
     Opts#{patterns := [P || P <- Patterns, lists:member(P, Has)]}};
there(Opts) -> {[], Opts}.

is_there({<<"_">>, _, _}) -> true;
is_there(Pattern) ->
    try kprof_wanted:matching(Pattern) =/= []
    catch exit:{error, _} -> false
    end.

%% Our own epoch, and those of other nodes.
epochs([]) -> {epoch(rand:uniform(?EPOCHS)), #{}};
epochs([Own | Others]) -> {epoch(Own), maps:from_keys([epoch(E) || E <- Others], [])}.

%% The label without the word.
epoch(N) -> ?LABEL_TRACE bsl (?KIND_BITS - ?WORD_BITS) bor N.

%% Entries that give identities make labels with a constant part, and may use the bits below it
%% (KP_LABEL_SPARE): then the client chooses epochs that are such a constant.
-spec epoch_of(integer(), #requests{}) -> integer().
epoch_of(Label, #requests{named = all}) -> Label bsr ?WORD_BITS;
epoch_of(Label, _) -> Label bsr ?CONST_BITS bsl (?CONST_BITS - ?WORD_BITS).

%% With several nodes requests begin when all nodes trace, which the client knows.
-spec is_alone(#state{}) -> boolean().
is_alone(#state{requests = #requests{other_epochs = Others}}) -> map_size(Others) =:= 0;
is_alone(_) -> true.

%% Gives a label that another node has made a number when it is first seen.
-spec seen(term(), #state{}) -> #state{}.
seen(Label,
     #state{requests = #requests{labels = Labels, other_epochs = Others, numbers = Given,
                                 elsewhere = Elsewhere} = R} = S)
  when is_integer(Label), map_size(Others) > 0, not is_map_key(Label, Labels),
       Given < ?NUMBERS - 1 ->
    case is_map_key(epoch_of(Label, R), Others) of
        true ->
            N = Given + 1,
            labelled(Label, N,
                     S#state{requests = R#requests{numbers = N, elsewhere = Elsewhere#{N => []}}});
        false -> S
    end;
seen(_, S) -> S.

-spec labelled(term(), non_neg_integer(), #state{}) -> #state{}.
labelled(Label, N, #state{requests = #requests{labels = Labels} = R} = S) ->
    news({label, N, Label}, S#state{requests = R#requests{labels = Labels#{Label => N}}}).

-spec ended_elsewhere(term(), #state{}) -> #state{}.
ended_elsewhere(Label, S0) ->
    case seen(Label, S0) of
        #state{requests = #requests{labels = #{Label := N}, elsewhere = Elsewhere} = R} = S ->
            S#state{requests = R#requests{elsewhere = maps:remove(N, Elsewhere)}};
        S -> S
    end.

%% Its node knows that it is not of the type that is wanted, or enough of these have begun.
-spec unwanted_elsewhere(term(), #state{}) -> #state{}.
unwanted_elsewhere(Label, S0) ->
    S = ended_elsewhere(Label, S0),
    case S#state.requests of
        #requests{labels = #{Label := N}, named = #{}} when N > 0 -> named(N, unwanted, S);
        _ -> S
    end.

-spec news(tuple(), #state{}) -> #state{}.
news(What, #state{requests = #requests{news = News} = R} = S) ->
    case is_alone(S) of
        true -> S;
        false -> S#state{requests = R#requests{news = [What | News]}}
    end.

%% Numbers are sent before the events that use them.
tell_news(#state{requests = #requests{news = [_ | _] = News} = R} = S) ->
    kprof_tracer_events:send({kprof_requests, lists:reverse(News)},
                             S#state{requests = R#requests{news = []}});
tell_news(S) -> S.
