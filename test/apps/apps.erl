%% apps - what the tests of the example configurations have in common: run
%% kprofd with an example, without its budget, on a server while a client works, and look
%% at what is left in that server afterwards.
-module(apps).

-export([profile/5, edit/2, thinned/1, run/4, inside/3, requests/1, calls/1, kind/2, cost/1, ready/3]).
-export([node_name/2, erl/6, placed/3, compiled/5, plugins/1, cowboy/1, elixir/0]).

-define(EXAMPLES, "priv/examples").
-define(MB, 1048576).
%% What a busy server's memory varies by anyway, and then some: copies of its
%% processes' states would be ten times as much.
-define(GROWTH, 48 * ?MB).

%% Of a live server these change by themselves.
-define(LIVELY, [processes, registered, ets, persistent_terms, environment]).

%% Work is done twice: unprofiled, to warm the server up and see how much memory
%% that takes, and profiled. Gives kprofd's process, whose database can be
%% asked, and what Work gave the second time. Name is for the report. Example
%% may be {Example, Edit}, for what a comment in it says that one can do, or a file.
profile(T, Server, Example, Name, Work) ->
    File = file(T, Example),
    fits(T, Server, File),
    {_, Alone} = peak(Server, Work),
    Before = it:settled(Server),
    %% Every request is compared, so that no budget may leave some out.
    {ok, Text} = file:read_file(File),
    P = it:kprofd(T, Server, #{tiers => [Text, "{budget, none}.\n"], args => ["-interval", "2s"]}),
    it:armed(P),
    {Result, Profiled} = peak(Server, Work),
    it:terminate(P),
    it:audit(Server, Before, ?LIVELY),
    it:equal("trips, and the like", [],
             it:sql(P, "select kind, text from events where kind in ('trip', 'unexact', 'loop')")),
    Grown = Profiled - Alone,
    it:check(Grown < ?GROWTH, "the server took ~b MiB, and ~b MiB while profiled",
             [Alone div ?MB, Profiled div ?MB]),
    report(T, P, Name),
    timed(P),
    {P#{grown => Grown}, Result}.

file(_, {file, File}) ->
    File;
file(T, {Example, Edit}) ->
    {ok, Text} = file:read_file(file(T, Example)),
    it:write(T, Example ++ ".conf", Edit(Text));
file(_, Example) ->
    filename:join(?EXAMPLES, Example ++ ".conf").

%% Each of these regular expressions has to be in the text, and is replaced once.
edit(Text, Edits) ->
    lists:foldl(fun({From, To}, T) ->
                        New = re:replace(T, From, To, [{return, binary}]),
                        it:check(New =/= T, "~s is in the example", [From]),
                        New
                end, Text, Edits).

%% At most so many requests a second, whatever they cost.
thinned(Text) ->
    edit(Text, [{"{sampling, auto}", "{sampling, {per_second, 1000}}"}]).

%% A function that mostly ends by a tail call has no time on OTP 25, and is no
%% good in an example; unless it calls another one of the same tier.
timed(P) ->
    [it:check(binary_to_integer(Unsure) * 2 =< binary_to_integer(Calls), "~s: ~s of ~s calls have no time",
              [Tier, Unsure, Calls])
     || [Tier, Calls, Unsure] <- it:sql(P, "select t.name, sum(s.calls), sum(s.ambiguous + s.unfinished) from stat s"
                                       " join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id"
                                       " where i.name = '_total' group by t.id having sum(s.calls) > 0")].

%% kprofd -check says that every function is there, and warns of nothing.
fits(#{build := Build} = T, #{node := Node}, File) ->
    P = it:start(T, "check", [filename:join(Build, "kprofd"), "-check", "-tiers", File,
                              "-target", Node, "-cookie-file", maps:get(cookie, T)], []),
    it:equal(["kprofd -check: ", it:errors(P), it:output(P)], 0, it:exited(P)).

peak(Server, Work) ->
    ok = it:call(Server, apps_probe, start, []),
    Result = Work(),
    {Result, it:call(Server, apps_probe, peak, [])}.

%% What an operator would see; kept to be looked at.
report(#{build := Build} = T, P, Name) ->
    Dir = filename:join(Build, "apps"),
    Texts = [begin
                 R = it:start(T, Out, [filename:join(Build, "kprof") | Args ++ ["-db", it:db(P)]], []),
                 it:equal(["kprof ", hd(Args)], 0, it:exited(R)),
                 ["$ kprof ", lists:join(" ", Args), "\n", it:output(R), "\n"]
             end || {Out, Args} <- [{"report", ["report"]},
                                    {"report-async", ["report", "-what", "async"]},
                                    {"report-calls", ["report", "-what", "calls"]}]],
    ok = filelib:ensure_path(Dir),
    ok = file:write_file(filename:join(Dir, Name ++ ".txt"), Texts).

%% Runs a command in the servers' file system to its end; gives its output.
run(T, Name, Command, Env) ->
    Unique = Name ++ integer_to_list(erlang:unique_integer([positive])),
    P = it:start(T, Unique, inside(T, Command, Env), []),
    it:equal([Name, " ends with ", it:errors(P)], 0, it:exited(P)),
    it:output(P).

inside(#{root := Root}, Command, Env) ->
    ["chroot", Root, "env", "HOME=/tmp" | [K ++ "=" ++ V || {K, V} <- Env] ++ Command].

ready(Server, What, {M, F, A}) ->
    it:until(What, 60000, fun() -> it:call(Server, M, F, A) end).

%% #{Identity => how many requests}, without those that kprofd knows it lost to
%% labels that were given twice.
requests(P) ->
    it:equal("losses", #{}, it:lost(P)),
    _ = it:balance(P),
    maps:from_list([{Identity, binary_to_integer(N)}
                    || [Identity, N] <- it:sql(P, "select i.name, sum(s.requests) from stat s"
                           " join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id"
                           " where t.name = '_total' and i.name <> '_total' group by i.id")]).

%% #{Tier => {calls within requests, calls after their end}}
calls(P) ->
    maps:from_list([{Tier, {binary_to_integer(N), binary_to_integer(Async)}}
                    || [Tier, N, Async] <- it:sql(P, "select t.name, sum(s.calls), sum(s.async_calls) from stat s"
                           " join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id"
                           " where t.name <> '_total' and i.name = '_total' group by t.id")]).

kind(Tier, Calls) ->
    {In, Async} = maps:get(Tier, Calls, {0, 0}),
    In + Async.

%% For a test's note: how many trace events a request causes, in the mean (an end
%% for each call), and by how much more memory the server took.
cost(#{grown := Grown} = P) ->
    All = maps:fold(fun(_, {In, Async}, Sum) -> Sum + In + Async end, 0, calls(P)),
    io_lib:format("~.1f events a request, ~.1f MiB",
                  [2 * All / max(1, it:number(P, "select sum(sampled) from time_window")), Grown / ?MB]).

%% ------------------------------------------------ servers that tests make ----

node_name(#{n := N}, Name) ->
    lists:flatten(io_lib:format("~s_~s_~b@127.0.0.1", [Name, os:getpid(), N])).

%% The server's erl, in Debian's root; what it starts is told last.
erl(#{ebins := [Ours, Apps]} = T, Node, Paths, Args, Stub, Start) ->
    inside(T, ["erl", "-noinput", "-name", Node, "-setcookie", it:cookie(), "-pa", Ours, Apps | Paths] ++ Args ++
                    Stub ++ ["-s" | Start], []).

%% Files of ours, in the servers' file system; gives where they are there.
placed(#{place := Place, root := Root}, Name, Files) ->
    Dir = lists:concat(["/tmp/", filename:basename(Place), "/", Name]),
    ok = filelib:ensure_path(Root ++ Dir),
    [{ok, _} = file:copy(F, Root ++ Dir ++ "/" ++ filename:basename(F)) || F <- Files],
    Dir.

%% Compiled there too, against what is there.
compiled(T, Name, Compiler, Sources, Env) ->
    Files = filelib:wildcard(Sources),
    Dir = placed(T, Name, Files ++ filelib:wildcard(filename:join(filename:dirname(Sources), "*.app"))),
    Include = [A || Compiler =:= "erlc", A <- ["-I", "/usr/lib/yaws/include"]],
    _ = run(T, Compiler, [Compiler | Include] ++ ["-o", Dir | [Dir ++ "/" ++ filename:basename(F) || F <- Files]],
                 [{"ERL_EPMD_PORT", "1"} | Env]),
    Dir.

plugins(#{root := Root}) ->
    [Dir | _] = filelib:wildcard(Root ++ "/usr/lib/rabbitmq/lib/*/plugins"),
    lists:nthtail(length(Root), Dir).

%% cowboy and what it needs, of Debian's RabbitMQ.
cowboy(#{root := Root} = T) ->
    [lists:nthtail(length(Root), Dir) || Lib <- ["cowboy", "cowlib", "ranch"],
                                         Dir <- filelib:wildcard(Root ++ plugins(T) ++ "/" ++ Lib ++ "-[0-9]*")].

elixir() ->
    ["/usr/lib/elixir/lib/" ++ Lib || Lib <- ["elixir", "logger", "eex"]].
