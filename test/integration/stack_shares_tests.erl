%% Sampled stacks: functions that compute, give way, ask another process or wait are seen in their
%% tiers and in their states, and those that wait have the times that the application measures.
-module(stack_shares_tests).

-export([tests/0]).

-define(TIERS, "{tiers, [{web, {it_known, handle, 1}}, {db, {it_known, query, 1}}, {view, {it_known, render, 1}}]}.\n"
        "{identity, fun ({it_known, handle, [Kind]}) -> Kind end}.\n"
        "{sampling, all}.\n{budget, none}.\n").
-define(REQUESTS, 400).
%% Samples of one request depend on each other, and stand for different times.
-define(DESIGN, 2).
%% A tick is late while a scheduler waits for a processor.
-define(BIAS, 0.05).

tests() ->
    [{"functions are seen in their tiers and states", 300, fun functions/1}].

target(T) ->
    Target = it:target(T, #{kind => plain}),
    it:call(Target, it_known, start, []),
    Target.

kprofd(T, Target, Text) ->
    P = it:kprofd(T, Target, #{tiers => [?TIERS, Text, it:calm()]}),
    it:armed(P),
    P.

%% Function, type, path, states that it may be seen in. The server of lookup/0 makes no traced
%% call: it is found by its token.
known() ->
    Runs = ["running", "runnable", "collecting"],
    [{auth, "page", "web", Runs}, {total, "page", "web", Runs}, {fetch, "page", "web;db", ["in a call" | Runs]},
     {template, "page", "web;view", Runs}, {markup, "page", "web;view", Runs},
     {lookup, "page", "web;db", Runs}, {validate, "order", "web", Runs}, {lock, "order", "web;db", ["waiting" | Runs]},
     {socket, "order", "web;db", ["on a port" | Runs]}, {pdf, "order", "web;view", Runs}].

functions(T) ->
    Target = target(T),
    Before = it:settled(Target),
    P = kprofd(T, Target, "{stacks, [{per_second, 200}, {percent, 5}]}.\n"),
    it:call(Target, it_known, work, [?REQUESTS]),
    Truth = it:call(Target, it_known, truth, []),
    it:assembled(P, 2 * ?REQUESTS),
    it:terminate(P),
    it:audit(Target, Before),
    Cells = cells(P),
    Lost = it:lost(P),
    it:equal("losses", #{}, maps:without([tree, sample_gone, sample_late], Lost)),
    it:check(maps:get(sample_gone, Lost, 0) < 10, "~b samples came after their request had closed",
             [maps:get(sample_gone, Lost, 0)]),
    Shares = shares(Cells, own_times(P)),
    Shown = [in_place(F, Cells, Truth) || F <- known()],
    {note, ["share/truth: ", lists:join(", ", Shares), "; functions' estimate/truth: ", lists:join(", ", Shown)]}.

%% The trace knows how long each type was in each tier itself: the shares that samples show are
%% right within what chance allows, and a bias.
shares(Cells, Own) ->
    %% The server that a tier asks works at the same time as the tier waits.
    Inside = [C || {_, [_ | _] = Path, _, Frames, _, _} = C <- Cells, Path =/= "_after",
                   string:find(Frames, "it_known:lookup/0") =:= nomatch, string:find(Frames, "gen_server:loop") =:= nomatch],
    N = lists:sum([Samples || {_, _, _, _, Samples, _} <- Inside]),
    Sampled = lists:sum([Ns || {_, _, _, _, _, Ns} <- Inside]),
    Timed = lists:sum([Ns || {_, _, Ns} <- Own]),
    it:check(N > 300, "~b samples", [N]),
    [share(Type, Tier, Ns / Timed, lists:sum([T || {I, Path, _, _, _, T} <- Inside, I =:= Type,
                                                   lists:last(string:lexemes(Path, ";")) =:= Tier]) / Sampled, N)
     || {Type, Tier, Ns} <- Own].

share(Type, Tier, True, Seen, N) ->
    May = 4 * math:sqrt(?DESIGN * True * (1 - True) / N) + ?BIAS,
    it:check(abs(Seen - True) =< May, "~s in ~s: ~.3f of the time, and ~.3f in samples (~b)",
             [Type, Tier, True, Seen, N]),
    io_lib:format("~s/~s ~.2f", [Type, Tier, Seen / True]).

own_times(P) ->
    [{binary_to_list(I), binary_to_list(Tier), binary_to_integer(Ns)}
     || [I, Tier, Ns] <- it:sql(P, "select identity, tier, cast(sum(self_ms * 1e6) as integer) from tier_stats"
                                " where tier <> '_total' and identity <> '_total' group by 1, 2")].

in_place({Name, Type, Path, States}, Cells, Truth) ->
    Frame = "it_known:" ++ atom_to_list(Name) ++ "/0:",
    Seen = [C || {_, _, _, Frames, _, _} = C <- Cells, string:find(Frames, Frame) =/= nomatch],
    All = lists:sum([Ns || {_, _, _, _, _, Ns} <- Seen]),
    Here = lists:sum([Ns || {I, At, State, _, _, Ns} <- Seen, I =:= Type, At =:= Path, lists:member(State, States)]),
    {_, True} = lists:keyfind(Name, 1, Truth),
    it:check(All > 0, "~s was never seen", [Name]),
    it:check(Here >= 0.8 * All, "~s: ~.3f of its time in ~s of ~s", [Name, Here / All, Path, Type]),
    io_lib:format("~s ~.2f", [Name, All / True]).

%% [{Type, Path, State, Frames, Samples, Ns}]
cells(P) ->
    [{binary_to_list(I), binary_to_list(Path), binary_to_list(State), binary_to_list(Frames),
      binary_to_integer(N), binary_to_integer(Ns)}
     || [I, Path, State, Frames, N, Ns]
            <- it:sql(P, "select identity, path, state, frames, sum(samples), cast(round(sum(ms * 1e6)) as integer)"
                      " from tier_stacks group by 1, 2, 3, 4")].
