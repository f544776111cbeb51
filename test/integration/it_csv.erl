%% it_csv - what kprof count, time and memory print with -csv.
-module(it_csv).

-export([rows/1]).

%% {Function or [Function, Process], Calls, Value}; no value in counts.
rows(Text) ->
    [Head | Lines] = string:lexemes(unicode:characters_to_list(Text), "\n"),
    Columns = string:lexemes(Head, ","),
    [row(Columns, string:lexemes(Line, ",")) || Line <- Lines].

row(["function", "process", "calls" | Columns], [F, P, N | More]) -> {[F, P], list_to_integer(N), value(Columns, More)};
row(["function", "calls" | Columns], [F, N | More]) -> {F, list_to_integer(N), value(Columns, More)}.

value(["percent" | _], _) -> 0;
value(_, [V | _]) -> list_to_integer(V).
