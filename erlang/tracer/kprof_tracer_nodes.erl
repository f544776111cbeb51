%% kprof_tracer_nodes - one of several nodes that are traced together. For
%% kprof_tracer.
%%
%% Labels have an epoch, which one node has and no other, so that requests which
%% began in another node are known by their labels, before or after the client
%% knows of them. The client is told which label has which number here, and tells us
%% when one has ended elsewhere.
-module(kprof_tracer_nodes).

-export([there/1, epochs/1, is_alone/1, seen/2, labelled/3, ended_elsewhere/2, news/2, tell_news/1]).

-include("kprof_tracer.hrl").

-define(EPOCHS, (1 bsl (?KIND_BITS - ?WORD_BITS) - 1)).

%% Each has what it has: the client is told what is not there, by its place, the
%% entry being at 0.
there(#{epochs := [_, _ | _], entry := Entry, patterns := Patterns} = Opts) ->
    {There, Absent} = lists:partition(fun({_, P}) -> is_there(P) end, lists:enumerate(Entry ++ Patterns)),
    There =:= [] andalso kprof_refusal:refuse("none of these functions is there", []),
    Has = [P || {_, P} <- There],
    {[I - length(Entry) || {I, _} <- Absent], Opts#{patterns := [P || P <- Patterns, lists:member(P, Has)]}};
there(Opts) ->
    {[], Opts}.

is_there({<<"_">>, _, _}) -> true;
is_there(Pattern) ->
    try kprof_wanted:matching(Pattern) =/= []
    catch exit:{error, _} -> false
    end.

%% Our own first.
epochs([]) -> {epoch(rand:uniform(?EPOCHS)), #{}};
epochs([Own | Others]) -> {epoch(Own), maps:from_keys([epoch(E) || E <- Others], [])}.

%% All of a label but the word.
epoch(N) -> ?LABEL_TRACE bsl (?KIND_BITS - ?WORD_BITS) bor N.

%% Else a request begins when all nodes trace: when the client says so.
-spec is_alone(#s{}) -> boolean().
is_alone(#s{r = #r{others = Others}}) -> map_size(Others) =:= 0;
is_alone(_) -> true.

%% A label that another node has made gets a number when it is first seen.
-spec seen(term(), #s{}) -> #s{}.
seen(Label, #s{r = #r{labels = Labels, others = Others, given = Given, elsewhere = Elsewhere} = R} = S)
  when is_map_key(Label bsr ?WORD_BITS, Others), not is_map_key(Label, Labels), Given < ?NUMBERS - 1 ->
    N = Given + 1,
    labelled(Label, N, S#s{r = R#r{given = N, elsewhere = Elsewhere#{N => []}}});
seen(_, S) ->
    S.

-spec labelled(term(), non_neg_integer(), #s{}) -> #s{}.
labelled(Label, N, #s{r = #r{labels = Labels} = R} = S) ->
    news({label, N, Label}, S#s{r = R#r{labels = Labels#{Label => N}}}).

-spec ended_elsewhere(term(), #s{}) -> #s{}.
ended_elsewhere(Label, S0) ->
    case seen(Label, S0) of
        #s{r = #r{labels = #{Label := N}, elsewhere = Elsewhere} = R} = S ->
            S#s{r = R#r{elsewhere = maps:remove(N, Elsewhere)}};
        S -> S
    end.

-spec news(tuple(), #s{}) -> #s{}.
news(What, #s{r = #r{news = News} = R} = S) ->
    case is_alone(S) of
        true -> S;
        false -> S#s{r = R#r{news = [What | News]}}
    end.

%% What events speak of is told before them.
-spec tell_news(#s{}) -> #s{}.
tell_news(#s{r = #r{news = [_ | _] = News} = R} = S) ->
    kprof_tracer_events:send({kprof_requests, lists:reverse(News)}, S#s{r = R#r{news = []}});
tell_news(S) ->
    S.
