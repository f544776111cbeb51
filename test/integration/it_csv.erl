%% it_csv - what kprof count, time and memory print with -csv.
-module(it_csv).

-export([rows/1]).

%% {Function or [Function, Process], Calls, Value}; no value in counts.
rows(Text) ->
    [Head | Lines] = string:lexemes(unicode:characters_to_list(Text), "\n"),
    Columns = fields(Head),
    [row(Columns, fields(Line)) || Line <- Lines].

fields("\"" ++ Line) -> quoted(Line, []);
fields(Line) ->
    case string:split(Line, ",") of
        [Field, More] -> [Field | fields(More)];
        [Field] -> [Field]
    end.

quoted("\"\"" ++ Line, Field) -> quoted(Line, [$" | Field]);
quoted("\"," ++ Line, Field) -> [lists:reverse(Field) | fields(Line)];
quoted("\"", Field) -> [lists:reverse(Field)];
quoted([C | Line], Field) -> quoted(Line, [C | Field]).

row(["function", "process", "calls" | Columns], [F, P, N | More]) -> {[F, P], list_to_integer(N), value(Columns, More)};
row(["function", "calls" | Columns], [F, N | More]) -> {F, list_to_integer(N), value(Columns, More)}.

value(["percent" | _], _) -> 0;
value(_, [V | _]) -> list_to_integer(V).
