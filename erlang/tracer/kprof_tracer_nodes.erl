%% kprof_tracer_nodes - one of several nodes that are traced together. For kprof_tracer.
%%
%% Labels have an epoch, which differs from node to node, so that a request which began in
%% another node is known by its label, before or after the client knows of it. The client is
%% told which label has which number here, and tells us when a request has ended elsewhere.
-module(kprof_tracer_nodes).

-export([there/1, epochs/1, is_alone/1, seen/2, labelled/3, ended_elsewhere/2, news/2,
         tell_news/1]).

-import(kprof_refusal, [refuse/2]).

-include("kprof_tracer.hrl").

-define(EPOCHS, (1 bsl (?KIND_BITS - ?WORD_BITS) - 1)).

%% A node need not have all functions: the client is told which are missing, by their position;
%% the entry has 0.
there(#{epochs := [_, _ | _], entry := Entry, patterns := Patterns} = Opts) ->
    {There, Absent} = lists:partition(fun({_, P}) -> is_there(P) end,
                                      lists:enumerate(Entry ++ Patterns)),
    There =:= [] andalso refuse("none of these functions is there", []),
    Has = [P || {_, P} <- There],
    {[I - length(Entry) || {I, _} <- Absent],
     Opts#{patterns := [P || P <- Patterns, lists:member(P, Has)]}};
there(Opts) ->
    {[], Opts}.

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

%% With several nodes requests begin when all nodes trace, which the client knows.
-spec is_alone(#s{}) -> boolean().
is_alone(#s{requests = #requests{other_epochs = Others}}) -> map_size(Others) =:= 0;
is_alone(_) -> true.

%% Gives a label that another node has made a number when it is first seen.
-spec seen(term(), #s{}) -> #s{}.
seen(Label,
     #s{requests = #requests{labels = Labels, other_epochs = Others, numbers = Given,
                             elsewhere = Elsewhere} = R} = S)
  when is_map_key(Label bsr ?WORD_BITS, Others), not is_map_key(Label, Labels),
       Given < ?NUMBERS - 1 ->
    N = Given + 1,
    labelled(Label, N, S#s{requests = R#requests{numbers = N, elsewhere = Elsewhere#{N => []}}});
seen(_, S) ->
    S.

-spec labelled(term(), non_neg_integer(), #s{}) -> #s{}.
labelled(Label, N, #s{requests = #requests{labels = Labels} = R} = S) ->
    news({label, N, Label}, S#s{requests = R#requests{labels = Labels#{Label => N}}}).

-spec ended_elsewhere(term(), #s{}) -> #s{}.
ended_elsewhere(Label, S0) ->
    case seen(Label, S0) of
        #s{requests = #requests{labels = #{Label := N}, elsewhere = Elsewhere} = R} = S ->
            S#s{requests = R#requests{elsewhere = maps:remove(N, Elsewhere)}};
        S -> S
    end.

-spec news(tuple(), #s{}) -> #s{}.
news(What, #s{requests = #requests{news = News} = R} = S) ->
    case is_alone(S) of
        true -> S;
        false -> S#s{requests = R#requests{news = [What | News]}}
    end.

%% Numbers are sent before the events that use them.
-spec tell_news(#s{}) -> #s{}.
tell_news(#s{requests = #requests{news = [_ | _] = News} = R} = S) ->
    kprof_tracer_events:send({kprof_requests, lists:reverse(News)},
                             S#s{requests = R#requests{news = []}});
tell_news(S) ->
    S.
