%% What reports say of requests as a whole: how many there were, by the VM's
%% own count, in every window; how many are running; and how functions of
%% Elixir's are named.
-module(views_tests).

-export([tests/0, modules/0, slow/1]).

-define(REQUESTS, 40).

tests() ->
    [{"no window has more requests than calls", 60, fun windows/1},
     {"all requests are as many as the VM counted", 60, fun counted/1},
     {"requests that run, and those that wait for stragglers", 60, fun running/1},
     {"functions of Elixir's have one name", 60, fun elixir/1}].

%% Requests that take longer than a window end in another one than they began in.
windows(T) ->
    {Target, P} = run(T),
    [served(Target, 700) || _ <- lists:seq(1, 3)],
    Many = [begun(Target, 400) || _ <- lists:seq(1, ?REQUESTS)],
    wait(Target, Many),
    it:assembled(P, 3 + ?REQUESTS),
    it:terminate(P),
    it:equal("windows with more requests than calls", [],
             it:sql(P, "select start_ns, entry_calls, sampled from time_window where sampled > entry_calls")),
    it:equal("calls of the entry", 3 + ?REQUESTS, it:balance(P)),
    it:equal("losses", #{}, it:lost(P)).

%% One in ten is measured: how many there were is known all the same.
counted(T) ->
    {Target, P} = run(T, "{sampling, {one_in, 10}}.\n"),
    it:do(Target, fun() -> [{done, _} = 'Elixir.MyApp.Web':call(0) || _ <- lists:seq(1, 500)], ok end),
    it:terminate(P),
    it:check(it:number(P, "select sum(sampled) from time_window") < 200, "sampling"),
    Table = kprof(T, ["report", "-db", it:db(P)]),
    it:check(re:run(Table, "^all requests +500 ", [multiline]) =/= nomatch
             andalso re:run(Table, "^undefined +~[0-9]", [multiline]) =/= nomatch, "~ts", [Table]).

running(T) ->
    {Target, P} = run(T),
    Held = [begun(Target, infinity) || _ <- lists:seq(1, 3)],
    it:until("they run", fun() -> it:said(P, "([0-9]+) in flight") =:= 3 end),
    [served(Target, 0) || _ <- lists:seq(1, 100)],
    %% Of the last 200 ms: they ended, and are kept for what may come late.
    it:equal("in flight", 3, it:said(P, "([0-9]+) in flight")),
    {ok, Flight} = it:control(P, "flight"),
    it:check(re:run(Flight, "^3 in flight, the oldest 3 are shown\n$", [multiline]) =/= nomatch, "~ts", [Flight]),
    [it:check(re:run(kprof(T, ["flight", "-db", it:db(P) | Args]), Want, [multiline]) =/= nomatch, "~p", [Args])
     || {Args, Want} <- [{["-n", "2"], "^3 in flight, the oldest 2 are shown \\(see -n\\)$"},
                         {["-n", "0"], "^3 in flight, the oldest 3 are shown$"},
                         {["-n", "1", "-json"], "^{\"in_flight\":3,\"requests\":\\[{[^}]*}\\]}$"}]],
    it:do(Target, fun() -> [Pid ! go || Pid <- Held], ok end),
    wait(Target, Held),
    it:assembled(P, 103),
    it:terminate(P),
    it:equal("calls of the entry", 103, it:balance(P)).

elixir(T) ->
    {Target, P} = run(T),
    Held = begun(Target, infinity),
    it:until("it runs", fun() -> it:said(P, "([0-9]+) in flight") =:= 1 end),
    {ok, Flight} = it:control(P, "flight"),
    named("kprof flight", Flight),
    it:do(Target, fun() -> Held ! go, ok end),
    wait(Target, [Held]),
    it:assembled(P, 1),
    it:terminate(P),
    [[Id]] = it:sql(P, "select id from request"),
    named("kprof tree", kprof(T, ["tree", "-db", it:db(P), binary_to_list(Id)])),
    Bad = ["{tiers, [{web, \"MyApp.Web.call/1\"}, {db, \"MyApp.Repo.al/2\"}]}.\n"],
    K = it:kprofd(T, Target, #{tiers => Bad, args => ["-check"]}),
    it:ended(K, 1),
    named("an error", it:errors(K)),
    it:check(re:run(it:errors(K), "no function MyApp.Repo.al/2: did you mean MyApp.Repo.all/2") =/= nomatch,
             "~ts", [it:errors(K)]).

named(What, Text) ->
    it:check(re:run(Text, "Elixir\\.") =:= nomatch andalso re:run(Text, "MyApp\\.(Web|Repo)\\.") =/= nomatch,
             "~s: ~ts", [What, Text]).

kprof(T, Args) ->
    K = it:start(T, "kprof", [it:build(T) ++ "/kprof" | Args], []),
    it:ended(K, 0),
    it:output(K).

%% ------------------------------------------------------------ requests ----

run(T) ->
    run(T, "{sampling, all}.\n").

run(T, Sampling) ->
    Target = it:target(T, #{kind => plain}),
    it:do(Target, fun() -> [{module, M} = code:load_binary(M, "", Beam) || {M, Beam} <- views_tests:modules()], ok end),
    P = it:kprofd(T, Target, #{tiers => tiers(Sampling), args => ["-interval", "1s"]}),
    it:armed(P),
    {Target, P}.

tiers(Sampling) ->
    ["{tiers, [{web, \"MyApp.Web.call/1\"}, {db, \"MyApp.Repo.all/2\"}]}.\n"
     "{budget, none}.\n{slow_ms, 1}.\n", Sampling, it:calm()].

%% MyApp.Web.call/1 is a request, which calls MyApp.Repo.all/2 for all of its time.
modules() ->
    [compiled(["-module('Elixir.MyApp.Web')", "-export([call/1])",
               "call(How) -> R = 'Elixir.MyApp.Repo':all(How, 1), {done, R}"]),
     compiled(["-module('Elixir.MyApp.Repo')", "-export([all/2])",
               "all(How, _) -> R = views_tests:slow(How), {all, R}"])].

compiled(Texts) ->
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(Text ++ "."),
                 {ok, Parsed} = erl_parse:parse_form(Tokens),
                 Parsed
             end || Text <- Texts],
    {ok, Module, Beam} = compile:forms(Forms, []),
    {Module, Beam}.

slow(infinity) -> receive go -> ok end;
slow(Ms) -> timer:sleep(Ms).

served(Target, Ms) ->
    it:call(Target, 'Elixir.MyApp.Web', call, [Ms]).

begun(Target, Ms) ->
    it:do(Target, fun() -> spawn(fun() -> 'Elixir.MyApp.Web':call(Ms) end) end).

wait(Target, Pids) ->
    it:until("they end", fun() ->
                                 it:do(Target, fun() -> not lists:any(fun is_process_alive/1, Pids) end)
                         end).
