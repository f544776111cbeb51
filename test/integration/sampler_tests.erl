%% kprof stacks: its shares are those of known work, a crowd is not held up, what it cannot see is
%% counted, and nothing stays behind, however it ends and whoever else traces.
-module(sampler_tests).

-export([tests/0]).

-import(it_kprof, [background/4, ends/1, interrupt/1, kprof/2, run/4, says/2, start/4]).

-define(MANY, 300000).

tests() ->
    [{"shares of known work", 60, fun shares/1},
     {"what it takes, and the forms", 60, fun forms/1},
     {"processes that live briefly", 60, fun brief/1},
     {"a process that answers nobody", 60, fun not_seen/1},
     {"some processes only", 60, fun processes/1},
     {"beside a kprofd that traces", 60, fun beside_kprofd/1},
     {"beside a full trace", 60, fun beside_trace/1},
     {"what cannot be", 60, fun refusals/1},
     {"kept out, and ended by the operator", 60, fun operator/1},
     {"kprof killed", 90, fun killed/1},
     {"kprof that hangs", 60, fun hung/1},
     {"its server in the node killed", 60, fun server_killed/1},
     {"both of its processes killed", 60, fun both_killed/1},
     {"300,000 processes are not held up", 180, alone, fun many/1}].

%% ------------------------------------------------------------ figures ----

%% Where a process is when its time slice ends is where its reductions go. Within five standard
%% deviations of as many samples, and a part in ten of the share.
shares(T) ->
    Target = it:target(T, #{kind => plain}),
    ok = it:call(Target, it_sampled, start, []),
    {0, Json, _} = run(T, Target, "stacks", ["-for", "10s", "-share", "5", "-per-second", "500", "-processes", "it_sampled",
                                             "-json"]),
    Counts = innermost(Json),
    N = lists:sum([V || {_, V} <- Counts]),
    it:check(N > 20, "only ~b samples: ~ts", [N, Json]),
    Found = [{F, Share, lists:sum([V || {G, V} <- Counts, G =:= F]) / N} || {F, Share} <- it_sampled:shares()],
    [it:check(abs(Is - Share) < 5 * math:sqrt(Share * (1 - Share) / N) + 0.1 * Share,
              "~s has ~.3f of ~b samples, not ~.3f", [F, Is, N, Share]) || {F, Share, Is} <- Found],
    ok = it:call(Target, it_sampled, stop, []),
    {note, io_lib:format("~b samples: ~0p", [N, [{round(1000 * S), round(1000 * I)} || {_, S, I} <- Found]])}.

%% [{Innermost function, samples}] of those that were seen.
innermost(Json) ->
    {match, All} = re:run(Json, "\"frames\":\\[[^]]*\"([^\"]*):[0-9]+\"\\],\"samples\":([0-9]+)",
                          [global, {capture, all_but_first, list}]),
    [{F, list_to_integer(N)} || [F, N] <- All].

%% {Innermost function, us}
folded(Line) ->
    [Stack, Us] = string:split(Line, " ", trailing),
    {lists:last(string:lexemes(Stack, ";")), list_to_integer(Us)}.

forms(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    ok = it:call(Target, it_sampled, start, []),
    {0, Table, _} = run(T, Target, "stacks", ["-for", "2s"]),
    says(Table, "^it_sampled:f[0-9]+/1 +[0-9.]+ % "),
    says(Table, "^it_sampled  +1 "),
    says(Table, "sampling took [0-9.]+ % of one scheduler"),
    says(Table, "^code_server +kernel +1 +[0-9.]+ kB"),
    says(Table, "^ETS TABLE +OWNER +TABLES +OBJECTS +MEMORY$"),
    says(Table, "^total +[0-9.]+ MB$"),
    one_process(T, Target),
    says(Table, "the VM shows the 8 innermost frames"),
    {0, Tree, Notes} = run(T, Target, "stacks", ["-for", "1s", "-form", "tree", "-least", "0"]),
    says(Tree, "^ +100 % .*  it_sampled$|^ +9[0-9] % .*  it_sampled$"),
    says(Tree, "  it_sampled:rounds/0$"),
    says(Notes, "samples of .* looks at processes"),
    {0, Speedscope, _} = run(T, Target, "stacks", ["-for", "1s", "-form", "speedscope", "-by", "none", "-quiet"]),
    %% Which of its ten functions a second shows is left to chance, on a machine that others use too.
    says(Speedscope, "\"name\":\"it_sampled:rounds/0\".*\"name\":\"it_sampled:f[0-9]+/1\""),
    {0, Json, ""} = run(T, Target, "stacks", ["-for", "1s", "-json", "-quiet"]),
    says(Json, "\"group\":\"it_sampled\",\"application\":null,\"state\":\"run.*\"frames\":\\[.*\"it_sampled:f[0-9]*/1:[0-9]+\"\\]"),
    {0, Live, _} = run(T, Target, "stacks", ["-for", "2500ms", "-every", "500ms"]),
    it:check(length(string:split(Live, "FUNCTION", all)) > 3, "it shows what was sampled so far: ~ts", [Live]),
    P = start(T, Target, "stacks", []),
    {0, Interrupted, _} = interrupt(P),
    says(Interrupted, "samples? of "),
    ok = it:call(Target, it_sampled, stop, []),
    it:audit(Target, Before).

%% A process that waits is asked seldom, and its sample stands for others: what has a registered name
%% had 4.18 processes that wait.
one_process(T, Target) ->
    {0, All, _} = run(T, Target, "stacks", ["-for", "3s", "-per-second", "8"]),
    [_, Below] = string:split(All, "SEEN"),
    [Table | _] = string:split(Below, "\n\n"),
    Names = [atom_to_list(N) || N <- it:call(Target, erlang, registered, [])],
    Rows = [{Name, Rest} || L <- string:lexemes(Table, "\n"), Name <- [hd(string:lexemes(L, " ") ++ [""])],
                            lists:member(Name, Names),
                            {match, [Rest]} <- [re:run(L, "^\\S+ +([a-z_]+ +)?1 +(.*)$", [{capture, [2], list}])]],
    it:check(Rows =/= [], "groups of one process: ~ts", [Table]),
    [it:check(lists:all(fun(X) -> X =< 1.0 end, [list_to_float(X) || X <- string:lexemes(Rest, " to<"), lists:member($., X)]),
              "~s: ~ts", [Name, Table])
     || {Name, Rest} <- Rows].

%% Their number in all is known, however long each of them lives: none is older than the list of
%% processes, so where that is made rarely they are said not to be looked at.
brief(T) ->
    Target = it:target(T, #{kind => plain}),
    Pid = it:call(Target, it_sampled, brief, [200]),
    {0, Out, Notes} = run(T, Target, "stacks", ["-for", "5s", "-share", "5", "-form", "folded", "-states", "all", "-by", "none"]),
    Us = lists:sum([V || L <- string:lexemes(Out, "\n"), {F, V} <- [folded(L)], lists:prefix("it_sampled:life", F)]),
    Found = Us / 5.0e6,
    it:check(Found > 100 andalso Found < 300, "on average ~.1f of 200 processes: ~ts~ts", [Found, Out, Notes]),
    it:call(Target, it_sampled, brief_end, [Pid]),
    {note, io_lib:format("~.1f of 200", [Found])}.

not_seen(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    ok = it:call(Target, it_sampled, silent, []),
    {0, Out, _} = run(T, Target, "stacks", ["-for", "5s", "-processes", "it_silent"]),
    says(Out, "NOT SEEN"),
    says(Out, "not seen: [0-9]+ samples?; the process did not answer within 5 ms"),
    ok = it:call(Target, it_sampled, unsilent, []),
    it:audit(Target, Before).

processes(T) ->
    Target = it:target(T, #{kind => plain}),
    ok = it:call(Target, it_sampled, start, []),
    {0, Out, _} = run(T, Target, "stacks", ["-for", "1s", "-processes", "it_sampled,supervisor:kernel_sup", "-states", "all", "-json", "-quiet"]),
    says(Out, "\"group\":\"it_sampled\""),
    it:check(re:run(Out, "\"group\":\"init\"") =:= nomatch, "init is not one of them: ~ts", [Out]),
    ok = it:call(Target, it_sampled, stop, []).

%% ------------------------------------------------ beside others' tracing ----

beside_kprofd(T) ->
    Target = it:target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    {0, Out, _} = run(T, Target, "stacks", ["-for", "1s"]),
    says(Out, "samples? of "),
    it:equal("kprofd goes on", armed, it:agent_state(Target)),
    it:terminate(P).

beside_trace(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    {module, it_counted} = it:call(Target, code, ensure_loaded, [it_counted]),
    P = start(T, Target, "trace", ["it_counted"]),
    {0, Out, _} = run(T, Target, "stacks", ["-for", "1s"]),
    says(Out, "samples? of "),
    {0, _, _} = interrupt(P),
    it:audit(Target, Before).

%% ------------------------------------------------------- every way out ----

refusals(T) ->
    Target = it:target(T, #{kind => plain}),
    fails(T, Target, ["-processes", "nobody_here"], "no process is registered as 'nobody_here'"),
    fails(T, Target, ["-processes", "new"], "stacks are of all processes, or of some by name"),
    usage(T, ["stacks"], "-target NODE is missing"),
    usage(T, ["stacks", "-target", "a@b", "-states", "running,walking"], "-states 'running,walking': give running"),
    usage(T, ["stacks", "-target", "a@b", "-share", "50"], "-share '50': give a percentage from 0.01 to 10"),
    usage(T, ["stacks", "-target", "a@b", "-per-second", "5000"], "-per-second 5000: at most 2000"),
    usage(T, ["stacks", "-target", "a@b", "-every", "2s", "-json"], "-every goes with -form table or tree"),
    usage(T, ["stacks", "-target", "a@b", "-json", "-form", "tree"], "-json and -form: choose one").

operator(T) ->
    {Target, Mark} = it_audit:begins(T),
    P = start(T, Target, "stacks", []),
    fails(T, Target, ["-for", "1s"], "another kprof samples stacks there already"),
    ok = it:call(Target, kprof_sampler, stop, []),
    it:equal("it ends", 1, it:exited(P)),
    says(it:errors(P), "samples no more: stopped by kprof_sampler:stop\\(\\)"),
    it_audit:during(Target, Mark),
    it:call(Target, application, set_env, [kprof, disabled, true]),
    fails(T, Target, ["-for", "1s"], "it keeps kprof out: \\{kprof, \\[\\{disabled, true\\}\\]\\}"),
    it:call(Target, application, unset_env, [kprof, disabled]),
    it_audit:ends(Target, Mark),
    gone(Target).

killed(T) ->
    {Target, Mark} = it_audit:begins(T),
    [begin
         P = background(T, Target, "stacks", ["-per-second", "1000", "-share", "5"]),
         receive after Ms -> ok end,
         it:kill(P),
         it_audit:during(Target, Mark),
         gone(Target)
     end || Ms <- [3, 11, 23, 47, 300, 1500]],
    it_audit:ends(Target, Mark).

hung(T) ->
    {Target, Mark} = it_audit:begins(T),
    P = start(T, Target, "stacks", []),
    it:signal(P, "STOP"),
    it:until("its lease runs out", fun() -> it:call(Target, erlang, whereis, [kprof_sampler]) =:= undefined end),
    it_audit:during(Target, Mark),
    it:signal(P, "CONT"),
    it:signal(P, "INT"),
    it:equal("it cannot read", 1, it:exited(P)),
    says(it:errors(P), "samples no more: its lease ran out"),
    it_audit:ends(Target, Mark),
    gone(Target).

server_killed(T) ->
    {Target, Mark} = it_audit:begins(T),
    P = start(T, Target, "stacks", []),
    it:do(Target, fun() -> exit(whereis(kprof_sampler), kill), ok end),
    it_audit:during(Target, Mark),
    it:equal("it says so", 1, it:exited(P)),
    says(it:errors(P), "samples no more: it died: killed"),
    it_audit:ends(Target, Mark),
    gone(Target).

both_killed(T) ->
    {Target, Mark} = it_audit:begins(T),
    P = start(T, Target, "stacks", []),
    ok = it:call(Target, it_sampled, both_killed, []),
    it:kill(P),
    ok = it:call(Target, kprof_sampler, stop, []),
    gone(Target),
    it_audit:ends(Target, Mark),
    {0, _, _} = run(T, Target, "stacks", ["-for", "500ms"]),
    it_audit:ends(Target, Mark).

gone(Target) ->
    it:until("its module goes", fun() -> not it:call(Target, erlang, module_loaded, [kprof_sampler]) end).

%% ---------------------------------------------------------------- crowd ----

%% No assertion on the machine's speed: the longest gap is compared with that without sampling.
many(T) ->
    Target = it:target(T, #{args => ["+P", "1000000"]}),
    Before = it:settled(Target),
    Crowd = it:call(Target, it_ticker, crowd, [?MANY]),
    it:call(Target, it_ticker, start, []),
    receive after 10000 -> ok end,
    Without = it:call(Target, it_ticker, longest_us, []),
    {0, Out, _} = run(T, Target, "stacks", ["-for", "10s", "-states", "all"]),
    With = it:call(Target, it_ticker, longest_us, []),
    says(Out, "samples? of "),
    it:call(Target, it_ticker, stop, []),
    it:call(Target, it_ticker, disperse, [Crowd]),
    it:audit(Target, Before, [processes]),
    {match, [Taken]} = re:run(Out, "(took .*)", [{capture, all_but_first, list}]),
    {note, io_lib:format("longest gaps of a ticker: ~b us, ~b us without; ~ts", [With, Without, Taken])}.

%% -------------------------------------------------------------- helpers ----

fails(T, #{node := Node} = Target, Args, Text) ->
    {Status, Out, Errors} = run(T, Target, "stacks", Args),
    it:equal(["exit status of ", lists:join(" ", Args)], {1, ""}, {Status, Out}),
    says(Errors, ["^kprof: '", Node, "': "]),
    says(Errors, Text).

usage(T, Args, Text) ->
    {Status, _, Errors} = kprof(T, Args),
    it:equal("wrong usage", 2, Status),
    says(Errors, Text).
