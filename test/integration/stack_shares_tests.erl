%% Sampled stacks: functions that compute, give way, ask another process or wait are seen in their
%% tiers and in their states, and those that wait have the times that the application measures.
-module(stack_shares_tests).

-export([tests/0]).

-define(TIERS, "{tiers, [{web, {it_known, handle, 1}}, {db, {it_known, query, 1}}, {view, {it_known, render, 1}}]}.\n"
        "{identity, fun ({it_known, handle, [Kind]}) -> Kind end}.\n"
        "{sampling, all}.\n{budget, none}.\n").
-define(REQUESTS, 400).
%% Of a function's time this part is in its tier and states. The answer of a process that runs is
%% read late on a busy machine, and then seems to be of the next tier.
-define(IN_PLACE, 0.4).

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

%% Function, type, path, states that it may be seen in. The process of lookup/0 makes no traced
%% call, and is not sampled.
known() ->
    Runs = ["running", "runnable", "collecting"],
    [{auth, "page", "web", Runs}, {total, "page", "web", Runs}, {fetch, "page", "web;db", ["in a call" | Runs]},
     {template, "page", "web;view", Runs}, {markup, "page", "web;view", Runs},
     {validate, "order", "web", Runs}, {lock, "order", "web;db", ["waiting" | Runs]},
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
    it:equal("losses", #{}, maps:without([tree], it:lost(P))),
    Shown = [in_place(F, Cells, Truth) || F <- known()],
    {note, lists:join(", ", Shown)}.

in_place({Name, Type, Path, States}, Cells, Truth) ->
    Frame = "it_known:" ++ atom_to_list(Name) ++ "/0:",
    Seen = [C || {_, _, _, Frames, _, _} = C <- Cells, string:find(Frames, Frame) =/= nomatch],
    All = lists:sum([Ns || {_, _, _, _, _, Ns} <- Seen]),
    Here = lists:sum([Ns || {I, At, State, _, _, Ns} <- Seen, I =:= Type, At =:= Path, lists:member(State, States)]),
    {_, True} = lists:keyfind(Name, 1, Truth),
    it:check(All > 0, "~s was never seen", [Name]),
    it:check(Here >= ?IN_PLACE * All, "~s: ~.3f of its time in ~s of ~s", [Name, Here / All, Path, Type]),
    io_lib:format("~s ~.2f", [Name, All / True]).

%% [{Type, Path, State, Frames, Samples, Ns}]
cells(P) ->
    [{binary_to_list(I), binary_to_list(Path), binary_to_list(State), binary_to_list(Frames),
      binary_to_integer(N), binary_to_integer(Ns)}
     || [I, Path, State, Frames, N, Ns]
            <- it:sql(P, "select identity, path, state, frames, sum(samples), cast(round(sum(ms * 1e6)) as integer)"
                      " from tier_stacks group by 1, 2, 3, 4")].
