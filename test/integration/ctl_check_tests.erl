%% kprofd -check -control: the kprofd that is attached checks another tiers.conf. The profile
%% that it makes goes on, and has every call.
-module(ctl_check_tests).

-export([tests/0]).

-define(ITEM, "{tiers, [{item, {it_check, item, 1}}]}.\n").
-define(GOOD, [?ITEM, "{entry, {it_check, request, 2}}.\n"]).

tests() ->
    [{"a good file, and the profile goes on", 60, fun good/1},
     {"what a check without -control prints", 60, fun same/1},
     {"a file with a warning, and one with errors", 60, fun bad/1},
     {"answers for programs", 60, fun json/1},
     {"objectives of types that nobody has", 60, fun objectives/1},
     {"a kprofd that is busy", 60, fun busy/1},
     {"whoever asks goes away", 60, fun gone/1},
     {"many go away", 120, fun many_gone/1},
     {"many functions, and the profile goes on", 120, fun many_functions/1},
     {"the target goes away", 60, fun away/1},
     {"paused, and away", 60, fun paused/1},
     {"two targets", 60, fun several/1},
     {"a check that finds a kprofd", 60, fun attached/1},
     {"commands that make no sense", 60, fun nonsense/1}].

good(T) ->
    {Target, Before, P} = profile(T, request, 100),
    Was = armed(Target),
    assembles(P, 10),
    {0, Out, Err} = ask(T, P, Target, [?ITEM, "{entry, {it_check, idle, 1}}.\n"], []),
    says(Err, "asked.conf:2:9: warning: it_check:idle/1 was not called in 2 s"),
    says(Out, "^ok, 1 warning\n\\z"),
    {0, Again, <<>>} = ask(T, P, Target, ?GOOD, ["-for", "1500ms"]),
    says(Again, "^it_check:request/2 +1[01] +entry"),
    says(Again, "^it_check:item/1 +1[01] +call +item"),
    says(Again, "^about [0-9]+ events/s, "),
    says(Again, "^counted only: "),
    says(Again, "^ok, 0 warnings\n\\z"),
    it:equal("armed", Was, armed(Target)),
    assembles(P, 10),
    exact(Target, Before, P).

%% Apart from the line that says that it only counted.
same(T) ->
    {Target, _, P} = profile(T, crowd, 20),
    Tiers = [?ITEM, "{entry, {it_check, crowd, 2}}.\n"],
    {0, Asked, AskedErr} = ask(T, P, Target, Tiers, []),
    it:terminate(P),
    {0, Err, Q} = it:run_kprofd(T, Target, #{tiers => Tiers, args => ["-check"]}),
    Plain = fun(Text) -> re:replace(Text, "[0-9]+", "N", [global, {return, list}]) end,
    Lines = fun(Text) -> [L || L <- string:split(Plain(Text), "\n", all), L =/= "",
                               not lists:prefix("counted only", L)]
            end,
    [it:check(lists:member(L, Lines(it:output(Q))), "~ts is only of -control", [L]) || L <- Lines(Asked)],
    says(AskedErr, "asked.conf:1:17: warning: it_check:item/1 is called 1[0-9]{2} times for each request"),
    says(Err, "conf:1:17: warning: it_check:item/1 is called 1[0-9]{2} times for each request").

bad(T) ->
    {Target, Before, P} = profile(T, loop, 3),
    Was = armed(Target),
    {1, Out, Err} = ask(T, P, Target, [?ITEM, "{entry, {it_check, loop, 1}}.\n"], []),
    says(Err, "asked.conf:2:9: error: it_check:loop/1 never returns: "),
    says(Err, "'.*asked.conf' does not fit '.*': see the errors above"),
    says(Out, "^it_check:loop/1 "),
    says_not(Out, "^ok"),
    {1, <<>>, Missing} = ask(T, P, Target, ["{tiers, [{item, {it_check, itme, 1}}]}.\n"], []),
    says(Missing, "asked.conf:1:17: error: the target has no function it_check:itme/1: did you mean it_check:item/1"),
    says(Missing, "'.*asked.conf' names what the target does not have"),
    {1, <<>>, Syntax} = ask(T, P, Target, "{tiers, [{item, {it_check, item}}]}.\n", []),
    says(Syntax, "asked.conf:1:[0-9]+: error: "),
    {1, <<>>, Other} = ask(T, P, "nobody@nowhere", ?GOOD, []),
    says(Other, "does not check it: 'nobody@nowhere' is not one of its targets .*it profiles it"),
    it:equal("armed", Was, armed(Target)),
    it:terminate(P),
    left(Target, Before).

%% Each line of standard output is one object; it was the table for people.
json(T) ->
    {Target, _, P} = profile(T, request, 50),
    {0, Out, <<>>} = ask(T, P, Target, ?GOOD, ["-for", "1s", "-json"]),
    [says(Line, "^{.*}$") || Line <- binary:split(Out, <<"\n">>, [global, trim])],
    says(Out, ["^{\"target\":\"", maps:get(node, Target), "\",\"functions\":\\["]),
    says(Out, "{\"function\":\"it_check:request/2\",\"calls_per_s\":(19|20|21),\"as\":\"entry\",\"optional\":false,\"tiers\":\\[\\]}"),
    says(Out, "\"tiers\":\\[\"item\"\\]}"),
    says(Out, ",\"events_per_s\":[0-9.]+,\"scheduler_percent\":[0-9.]+,\"counted_only\":true}$"),
    says(Out, "^{\"ok\":true,\"warnings\":0}\n\\z"),
    it:terminate(P),
    {0, _, Q} = it:run_kprofd(T, Target, #{tiers => ?GOOD, args => ["-check", "-json"]}),
    says(it:output(Q), ",\"counted_only\":false}$"),
    says(it:output(Q), "^{\"ok\":true,\"warnings\":0}\n\\z").

%% A type that the fun makes of an argument was believed, whatever its name.
objectives(T) ->
    Identity = "{identity, fun({it_check, request, [#{method := M}, _]}) -> M end}.\n",
    Target = it:target(T, #{kind => plain}),
    {module, it_check} = it:call(Target, code, ensure_loaded, [it_check]),
    _ = it:call(Target, it_check, start, [request, 50]),
    P = it:kprofd(T, Target, #{tiers => [?GOOD, Identity, "{sampling, all}.\n{budget, none}.\n", it:calm()]}),
    it:armed(P),
    it:until("some are stored", fun() -> it:requests(P) > 20 end),
    [[Type] | _] = it:sql(P, "select name from identity where name not like '\\_%' escape '\\'"),
    Slo = fun(Names) -> [?GOOD, Identity, "{slo, [", lists:join(", ", [["{\"", N, "\", 100, 99}"] || N <- Names]), "]}.\n"] end,
    {0, Out, Err} = ask(T, P, Target, Slo([Type, [Type, "x"], "GET /orders"]), ["-for", "300ms"]),
    says(Err, ["asked.conf:4:[0-9]+: warning: the objective '", Type, "x within 100 ms' is of a type that none of the "
               "requests that are measured has had: did you mean '", Type, "'\\?"]),
    says(Err, "the objective 'GET /orders within 100 ms' is of a type that none .* has had so far"),
    says_not(Err, ["'", Type, " within"]),
    says(Out, "^ok, 2 warnings\n\\z"),
    it:terminate(P).

%% A second check and a reload are refused; SIGHUP goes first.
busy(T) ->
    {Target, Before, P} = profile(T, request, 50),
    First = asking(T, P, Target, ?GOOD, ["-for", "20s"]),
    counts(Target),
    {1, <<>>, Second} = ask(T, P, Target, ?GOOD, []),
    says(Second, "does not check it: another check is under way"),
    {error, Reload} = it:control(P, "reload"),
    says(Reload, "a file is being checked just now .*try again"),
    {ok, _} = it:control(P, "status"),
    it:signal(P, "HUP"),
    it:equal("the first", 1, it:exited(First)),
    says(it:errors(First), "does not check it: tiers.conf is being reloaded"),
    it:saw(P, "is as it was: nothing to change"),
    {0, _, _} = ask(T, P, Target, ?GOOD, ["-for", "300ms"]),
    assembles(P, 10),
    exact(Target, Before, P).

%% The target need not count for nobody: counters of what is not armed go at once.
gone(T) ->
    {Target, Before, P} = profile(T, request, 50),
    Asks = asking(T, P, Target, [?ITEM, "{entry, {it_check, walk, 2}}.\n"], ["-for", "10m"]),
    counts(Target),
    it:kill(Asks),
    it:until("it counts no more",
             fun() -> not it:call(Target, it_check, counting, []) end),
    {0, _, _} = ask(T, P, Target, ?GOOD, ["-for", "300ms"]),
    exact(Target, Before, P).

%% Each had kept one of the 16 places of clients for ever.
many_gone(T) ->
    {Target, Before, P} = profile(T, request, 50),
    [begin
         Asks = asking(T, P, Target, ?GOOD, ["-for", "10m"]),
         counts(Target),
         it:kill(Asks),
         it:until("it counts no more", fun() -> not it:call(Target, it_check, counting, []) end)
     end || _ <- lists:seq(1, 17)],
    {ok, _} = it:control(P, "status"),
    exact(Target, Before, P).

%% To set the counters takes long where the node is busy. It neither loses the agent nor trips.
many_functions(T) ->
    {Target, Before, P} = profile(T, request, 1),
    Busy = [it:call(Target, erlang, spawn, [it_check, spin, []]) || _ <- lists:seq(1, 4)],
    {_, Out, _} = ask(T, P, Target, ["{tiers, [{all, [{lists, '_', '_'}, {maps, '_', '_'}, {string, '_', '_'}, {unicode, '_', '_'}, "
                                     "{queue, '_', '_'}, {dict, '_', '_'}]}]}.\n{entry, {it_check, request, 2}}.\n"], ["-for", "500ms"]),
    says(Out, "^lists:map/2 "),
    [it:call(Target, erlang, exit, [B, kill]) || B <- Busy],
    it:equal("agents lost", 0, it:count(P, ": lost")),
    it:equal("overloads", 0, it:count(P, "tracing (is|was) paused")),
    assembles(P, 10),
    it:terminate(P),
    left(Target, Before).

away(T) ->
    {Target, _, P} = profile(T, request, 50),
    Asks = asking(T, P, Target, ?GOOD, ["-for", "60s"]),
    counts(Target),
    it:kill(Target),
    it:equal("it ends", 1, it:exited(Asks)),
    says(it:errors(Asks), "'it.*': not attached just now"),
    says_not(it:output(Asks), "^ok"),
    {1, <<>>, Err} = ask(T, P, Target, ?GOOD, []),
    says(Err, "not attached just now"),
    it:terminate(P).

paused(T) ->
    {Target, Before, P} = profile(T, request, 50),
    {ok, _} = it:control(P, "pause"),
    {0, Out, <<>>} = ask(T, P, Target, ?GOOD, ["-for", "1s"]),
    says(Out, "^it_check:request/2 +(19|20|21) +entry"),
    {ok, _} = it:control(P, "resume"),
    assembles(P, 10),
    Asks = asking(T, P, Target, ?GOOD, ["-for", "60s"]),
    counts(Target),
    it:terminate(P),
    it:equal("it ends", 1, it:exited(Asks)),
    says(it:errors(Asks), "kprofd is ending"),
    left(Target, Before).

%% What one lacks, the other has; each table has its node's name.
several(T) ->
    A = it:target(T, #{kind => plain}),
    B = it:target(T, #{kind => plain, name => "second", node => "second" ++ os:getpid() ++ "@127.0.0.1"}),
    [begin
         {module, it_check} = it:call(N, code, ensure_loaded, [it_check]),
         it:call(N, it_check, start, [request, 50])
     end || N <- [A, B]],
    P = it:kprofd(T, [A, B], #{tiers => ?GOOD}),
    it:armed(P),
    it:until("both armed", fun() -> it:said(P, "targets +([0-9]+) of 2 armed") =:= 2 end),
    {0, Both, <<>>} = ask(T, P, [], ?GOOD, ["-for", "300ms"]),
    [says(Both, ["^", maps:get(node, N), ":$"]) || N <- [A, B]],
    {0, One, <<>>} = ask(T, P, B, ?GOOD, ["-for", "300ms"]),
    says_not(One, "^it.*:$"),
    {1, _, Missing} = ask(T, P, [], ["{tiers, [{item, {it_check, itme, 1}}]}.\n"], []),
    [says(Missing, ["'", maps:get(node, N), "': .* names what the target does not have"]) || N <- [A, B]],
    {1, _, Json} = ask(T, P, [], ["{tiers, [{item, {it_check, itme, 1}}]}.\n"], ["-json"]),
    [says(Json, ["\"target\":\"", maps:get(node, N), "\".*\"line\":1.*\"column\":17"]) || N <- [A, B]],
    it:terminate(P).

attached(T) ->
    {Target, _, P} = profile(T, request, 50),
    {1, Err, _} = it:run_kprofd(T, Target, #{tiers => ?GOOD, args => ["-check"]}),
    says(Err, "is being profiled already: by .*\\(-check -control SOCKET asks it; kprof_agent:stop\\(\\) there ends it\\)"),
    {1, <<>>, Nobody} = ask(T, P#{control => "nothing.sock"}, Target, ?GOOD, []),
    says(Nobody, "cannot reach kprofd at 'nothing.sock': is it running\\? \\(see -control\\)"),
    it:terminate(P).

nonsense(T) ->
    {Target, Before, P} = profile(T, request, 50),
    Refused = fun(Line, Words) ->
                      {error, Text} = it:control(P, Line),
                      says(Text, Words)
              end,
    Refused("check", "needs the text"),
    Refused("check bytes=0", "needs the text"),
    Refused("check bytes=99999999", "needs the text"),
    Refused("check bytes=x", "unknown command"),
    Refused("status bytes=5", "unknown command"),
    Refused("check bytes=4\nabcd", "makes no sense"),
    Refused("check bytes=12\n500 a b\n\nxyz", "cannot be used"),
    Refused("check bytes=9\n50 a\n\nxyz", "makes no sense"),
    Refused("check bytes=12\n500 a\nx y\n\nz", "makes no sense"),
    %% Half a text, and away.
    {ok, S} = gen_tcp:connect({local, maps:get(control, P)}, 0, [local, binary, {active, false}]),
    ok = gen_tcp:send(S, "check bytes=1000\n500 a\n"),
    ok = gen_tcp:shutdown(S, write),
    {error, closed} = gen_tcp:recv(S, 0, 5000),
    {0, _, <<>>} = ask(T, P, Target, ?GOOD, ["-for", "300ms"]),
    exact(Target, Before, P).

%% ---------------------------------------------------------------------------

%% A target that makes a request every Ms, profiled.
profile(T, Kind, Ms) ->
    Target = it:target(T, #{kind => plain}),
    {module, it_check} = it:call(Target, code, ensure_loaded, [it_check]),
    _ = it:call(Target, it_check, start, [Kind, Ms]),
    Before = it:settled(Target),
    P = it:kprofd(T, Target, #{tiers => [?GOOD, "{sampling, all}.\n{budget, none}.\n", it:calm()]}),
    it:armed(P),
    {Target, Before, P}.

ask(T, P, Target, Tiers, Args) ->
    K = asking(T, P, Target, Tiers, Args),
    Status = it:exited(K),
    {Status, it:output(K), it:errors(K)}.

asking(T, #{control := Socket}, Target, Tiers, Args) ->
    File = it:write(T, "asked.conf", Tiers),
    Nodes = case Target of
                #{node := Node} -> ["-target", Node];
                [] -> [];
                Node -> ["-target", Node]
            end,
    it:start(T, "ask" ++ integer_to_list(erlang:unique_integer([positive])),
             [it:build(T) ++ "/kprof", "check", File, "-control", Socket | Nodes ++ Args], []).

assembles(P, More) ->
    Then = it:said(P, "([0-9]+) assembled"),
    it:until("requests come", fun() -> it:said(P, "([0-9]+) assembled") >= Then + More end).

counts(Target) ->
    it:until("it counts", fun() -> it:call(Target, it_check, counting, []) end).

armed(Target) ->
    #{armed := MFAs} = it:call(Target, it_stub, agent, []),
    lists:sort(MFAs).

%% The calls that were made, as the VM counted them, are all in the database.
exact(Target, Before, P) ->
    it:terminate(P),
    it:equal("losses", #{}, maps:without([unseen, running], it:lost(P))),
    it:check(it:requests(P) > 0, "requests"),
    it:balance(P),
    left(Target, Before).

left(Target, Before) ->
    it:audit(Target, Before, [processes]),
    it:equal("patterns and counters", [], it:call(Target, it_check, patterns, [])).

says(Text, Pattern) ->
    re:run(Text, Pattern, [multiline]) =/= nomatch orelse it:fail("it said~n~ts~nnot '~ts'", [Text, Pattern]).

says_not(Text, Pattern) ->
    re:run(Text, Pattern, [multiline]) =:= nomatch orelse it:fail("it said~n~ts~nwith '~ts'", [Text, Pattern]).
