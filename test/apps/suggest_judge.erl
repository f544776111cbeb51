%% suggest_judge - how good are the tiers that `kprof suggest` proposes? They are
%% held against rules that were written before, and against tiers written by hand
%% by somebody who knows the system, under the same load.
%%
%% Rules: entry       [Pattern]: each is one that an engineer would choose
%%        layers      [{Name, [Pattern]}]: where the time goes, as far as a tier can show
%%        some        how many of these layers have to have a tier
%%        must        names of those that have to have one
%%        only        true: nothing else than these layers may be a tier
%%        outer       names of layers that enclose the others: that a tier of theirs
%%                    has all the time of a request explains nothing
%%        by_hand     the file written by hand
%%        share       the least part of what that file explains, for the proposal
%% A pattern is {M, F, A} with '_', or a module. A tier with functions of several
%% layers is of none, and explains nothing: its time may be anywhere.
-module(suggest_judge).

-export([judge/3]).

-define(PROFILED, "10s").
-define(REST_MS, 5000).
-define(TICKS, 100).            % a second, in /proc (USER_HZ)
-define(NAMED, 90).             % percent of requests which have a name
-define(NAMES_MAX, 100).        % which is no more than a report can show
%% Of a live server these change by themselves.
-define(LIVELY, [processes, registered, ets, persistent_terms, environment]).

judge(T, Server, #{name := Name} = Rules) ->
    Before = it:snapshot(Server),
    Ours = it:call(Server, apps_probe, ours, []),
    #{file := File} = Suggested = suggested(T, Server),
    Proposal = proposal(File),
    kept(T, Name, File),
    Check = check(T, Server, File),
    Figures = profiled(T, Server, "proposed", Rules, File),
    ByHand = profiled(T, Server, "by_hand", Rules, maps:get(by_hand, Rules)),
    it:audit(Server, Before, ?LIVELY),
    it:equal("what is of kprofd in the server", Ours, it:call(Server, apps_probe, ours, [])),
    Line = line(Name, Proposal, Figures, ByHand, Suggested),
    noted(T, Line),
    it:equal([Line, "; rules that it breaks"], [], Check ++ broken(Rules, Proposal, Figures, ByHand)),
    {note, Line}.

%% ------------------------------------------------------ what is done ----

%% What it cost is processor time of the node above what the load takes.
suggested(#{build := Build} = T, #{node := Node} = Server) ->
    Rest = processor_s(Server),
    receive after ?REST_MS -> ok end,
    Start = erlang:monotonic_time(millisecond),
    Before = processor_s(Server),
    P = it:start(T, "suggest", [filename:join(Build, "kprof"), "suggest", "-target", Node,
                                "-cookie-file", maps:get(cookie, T)], []),
    it:equal(["kprof suggest: ", it:errors(P)], 0, it:exited(P)),
    Took = (erlang:monotonic_time(millisecond) - Start) / 1000,
    Alone = (Before - Rest) / (?REST_MS / 1000),
    {match, [Said]} = re:run(it:errors(P), "of processor time, (.*?) of a scheduler:",
                             [unicode, {capture, all_but_first, list}]),
    #{file => it:write(T, "proposed.conf", it:output(P)), seconds => Took, alone => 100 * Alone, said => Said,
      cost => 100 * ((processor_s(Server) - Before) / Took - Alone)}.

%% Processor time of a node so far.
processor_s(Server) ->
    {ok, Text} = file:read_file(["/proc/", it:call(Server, os, getpid, []), "/stat"]),
    Fields = string:lexemes(lists:last(string:split(Text, ")", trailing)), " "),
    (binary_to_integer(lists:nth(12, Fields)) + binary_to_integer(lists:nth(13, Fields))) / ?TICKS.

%% Nothing is wrong, and nothing is warned of but clauses for requests that do not
%% come within the two seconds of a check.
check(#{build := Build} = T, #{node := Node}, File) ->
    P = it:start(T, "check", [filename:join(Build, "kprofd"), "-check", "-tiers", File, "-target", Node,
                              "-cookie-file", maps:get(cookie, T) | it:probe_library(T)], []),
    Status = it:exited(P),
    case re:run(it:errors(P), "warning: (?!this clause matched none of)[^\n]*", [global, {capture, first, binary}]) of
        nomatch when Status =:= 0 -> [];
        nomatch -> [{check_ends_with, Status, it:errors(P)}];
        {match, Warnings} -> [{check_warns, W} || [W] <- Warnings]
    end.

%% As its users run it: with the probe that it takes by itself.
profiled(T, Server, Db, Rules, File) ->
    P = it:kprofd(T#{probe => default}, Server, #{tiers => {file, File}, db => Db ++ ".db",
                                                  args => ["-interval", "2s", "-duration", ?PROFILED | it:probe_library(T)]}),
    it:ended(P, 0),
    reported(T, P, [maps:get(name, Rules), "-", Db]),
    figures(P, proposal(File), Rules).

%% Of the time of all requests, what part is the own time of tiers other than
%% the entry's, those that enclose others, and those that mix layers? And how
%% many requests have a name, of how many names?
figures(P, #{entry := Entry, tiers := Tiers}, Rules) ->
    Outer = [Pattern || {Name, Patterns} <- maps:get(layers, Rules), lists:member(Name, maps:get(outer, Rules, [])),
                        Pattern <- Patterns],
    Enclose = ["_total" | [atom_to_list(Tier) || {Tier, Functions} <- Tiers,
                                                 Functions -- Entry =/= Functions
                                                     orelse lists:all(fun(F) -> fits(F, Outer) end, Functions)
                                                     orelse length(layers(Functions, Rules)) > 1]],
    Sum = fun(What, Where) ->
                  it:number(P, ["select coalesce(sum(", What, "), 0.0) from stat s join tier t on t.id = s.tier_id"
                                " join identity i on i.id = s.identity_id where ", Where])
          end,
    Total = Sum("s.w_total_ns", "t.name = '_total' and i.name = '_total'"),
    it:check(Total > 0, "there are requests"),
    Inner = Sum("s.w_self_ns", ["i.name = '_total' and t.name not in (",
                                lists:join(", ", [["'", Name, "'"] || Name <- Enclose]), ")"]),
    Requests = Sum("s.w_requests", "t.name = '_total' and i.name = '_total'"),
    Nameless = Sum("s.w_requests", "t.name = '_total' and i.name in ('undefined', '_other')"),
    Names = it:number(P, "select count(distinct i.name) from stat s join identity i on i.id = s.identity_id"
                      " where i.name not in ('_total', 'undefined', '_other')"),
    #{explained => 100 * Inner / Total, named => 100 * (Requests - Nameless) / Requests, names => Names,
      requests => round(Requests), mean_ms => Total / Requests / 1.0e6}.

%% ------------------------------------------------------ what is read ----

%% #{entry => [MFA], tiers => [{Name, [MFA]}]} of a tiers.conf.
proposal(File) ->
    {ok, Text} = file:read_file(File),
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Text)),
    Terms = maps:from_list([term(F) || F <- forms(Tokens, [])]),
    #{entry => functions(maps:get(entry, Terms)),
      tiers => [{element(1, Tier), functions(element(2, Tier))} || Tier <- maps:get(tiers, Terms)]}.

forms([], []) -> [];
forms([{dot, _} = Dot | More], Form) -> [lists:reverse([Dot | Form]) | forms(More, [])];
forms([Token | More], Form) -> forms(More, [Token | Form]).

%% All but the identity's fun are terms.
term([{'{', _}, {atom, _, identity} | _]) ->
    {identity, a_fun};
term(Form) ->
    {ok, {Key, Value}} = erl_parse:parse_term(Form),
    {Key, Value}.

functions(Functions) when is_list(Functions) ->
    case io_lib:printable_unicode_list(Functions) andalso Functions =/= [] of
        true -> [function(Functions)];
        false -> [function(F) || F <- Functions]
    end;
functions(Function) ->
    [function(Function)].

%% {M, F, A}, or a text: "m:f/1", "My.Module.f/1".
function({M, F, A}) ->
    {M, F, A};
function(Text) ->
    {match, [M, Between, F, A]} = re:run(Text, "^(.*)([:.])([^:./]+)/([0-9_]+)$", [{capture, all_but_first, list}]),
    Module = case {M, Between} of
                 {":" ++ Erlang, _} -> Erlang;
                 {[C | _], "."} when C >= $A, C =< $Z -> "Elixir." ++ M;
                 _ -> M
             end,
    {list_to_atom(Module), list_to_atom(F), case A of "_" -> '_'; _ -> list_to_integer(A) end}.

%% ----------------------------------------------------- what is judged ----

%% What is not as it should be.
broken(#{entry := Good, layers := Layers, some := Some, share := Share} = Rules, #{entry := Entry, tiers := Tiers},
       #{explained := Explained, named := Named, names := Names}, #{explained := Hand}) ->
    Inner = [{Tier, Functions} || {Tier, Functions} <- Tiers, Functions -- Entry =:= Functions],
    Seen = lists:usort([Name || {_, Functions} <- Inner, [Name] <- [layers(Functions, Rules)]]),
    All = lists:append([Patterns || {_, Patterns} <- Layers]),
    [{no_entry, E} || E <- Entry, not fits(E, Good)] ++
        [{no_layer, Tier} || maps:get(only, Rules, false), {_, Functions} = Tier <- Inner,
                             not lists:all(fun(F) -> fits(F, All) end, Functions)] ++
        [{has_no_tier, Name} || Name <- maps:get(must, Rules, []) -- Seen] ++
        [{layers, Seen, less_than, Some} || length(Seen) < Some] ++
        [{explains, Explained, of_what_is_by_hand, Hand} || Explained < Share * Hand] ++
        [{percent_with_a_name, Named} || Named < ?NAMED] ++
        [{names, Names} || Names < 2 orelse Names > ?NAMES_MAX].

%% Those that any of the functions is of.
layers(Functions, #{layers := Layers}) ->
    [Name || {Name, Patterns} <- Layers, lists:any(fun(F) -> fits(F, Patterns) end, Functions)].

fits(MFA, Patterns) ->
    lists:any(fun(P) -> fit(MFA, P) end, Patterns).

fit({M, _, _}, M) when is_atom(M) -> true;
fit({M, F, A}, {M, F, B}) -> A =:= B orelse A =:= '_' orelse B =:= '_';
fit(_, _) -> false.

%% ---------------------------------------------------- what is written ----

line(Name, #{entry := Entry, tiers := Tiers}, #{explained := Explained, named := Named, names := Names, mean_ms := Mean},
     #{explained := Hand, requests := Requests, mean_ms := HandMean}, #{alone := Alone, cost := Cost, said := Said, seconds := Seconds}) ->
    lists:flatten(io_lib:format("~s | ~s | ~s | ~.1f % (by hand ~.1f %) | ~.1f % (~b) | ~.1f % (it said ~s; the load ~.1f %) | ~.1f s"
                                " | ~b requests, ~.3f ms (by hand ~.3f ms)",
                                [Name, written(Entry), lists:join(", ", [atom_to_list(Tier) || {Tier, F} <- Tiers, F -- Entry =:= F]),
                                 Explained, Hand, Named, Names, Cost, Said, Alone, Seconds, Requests, Mean, HandMean])).

written(Functions) ->
    lists:join(", ", [io_lib:format("~s:~s/~w", [M, F, A]) || {M, F, A} <- Functions]).

%% What its user sees, to be looked at.
reported(#{build := Build} = T, P, Name) ->
    R = it:start(T, "report-" ++ filename:basename(it:db(P)), [filename:join(Build, "kprof"), "report", "-db", it:db(P)], []),
    it:equal("kprof report", 0, it:exited(R)),
    ok = file:write_file(filename:join([Build, "apps", ["report-", Name, ".txt"]]), it:output(R)).

%% A row of a table; and the proposal as it was.
noted(#{build := Build}, Line) ->
    ok = file:write_file(filename:join([Build, "apps", "suggested.txt"]), [Line, $\n], [append]).

kept(#{build := Build}, Name, File) ->
    {ok, _} = file:copy(File, filename:join([Build, "apps", ["suggested-", Name, ".conf"]])).
