%% kprofd -check with a target: what is wrong with a tiers.conf that is valid.
-module(check_tests).

-export([tests/0]).

-define(ITEM, "{tiers, [{item, {it_check, item, 1}}]}.\n").

tests() ->
    [{"a tiers.conf that fits", 60, fun fits/1},
     {"an entry that never returns", 60, fun never_returns/1},
     {"an entry that calls itself", 60, fun calls_itself/1},
     {"an entry that is not called", 60, fun not_called/1},
     {"a tier in a loop", 60, fun in_a_loop/1},
     {"options that it does not use", 60, fun options/1},
     {"it is interrupted", 60, fun interrupted/1}].

%% What it costs, and nothing else to say. An entry that is called once a second is seen.
fits(T) ->
    {Target, Before} = target(T, request, 1000),
    {0, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, request, 2}}.\n"], []),
    says(Out, "^it_check:request/2 +1 +entry"),
    says(Out, "^about [0-9]+ events/s, less than 0.01 % of a scheduler$"),
    says(Out, "^ok, 0 warnings\n\\z"),
    says_not(Err, "warning|error"),
    left(Target, Before).

never_returns(T) ->
    {Target, Before} = target(T, loop, 3),
    {1, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, loop, 1}}.\n"], []),
    says(Err, "tiers1.conf:2:9: error: it_check:loop/1 never returns: .*name the function that handles one message"),
    says(Err, "'.*tiers1.conf' does not fit '.*': see the errors above"),
    says_not(Out, "^ok"),
    left(Target, Before).

calls_itself(T) ->
    {Target, Before} = target(T, walk, 3),
    {1, _, Err} = check(T, Target, [?ITEM, "{entry, {it_check, walk, 2}}.\n"], []),
    says(Err, "tiers1.conf:2:9: error: it_check:walk/2 calls itself: .*name a function around it"),
    left(Target, Before).

not_called(T) ->
    {Target, Before} = target(T, request, 10),
    {0, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, idle, 1}}.\n"], ["-duration", "300ms"]),
    says(Err, "tiers1.conf:2:9: warning: it_check:idle/1 was not called in 0.3 s: .*-duration"),
    says(Out, "^ok, 1 warning\n\\z"),
    left(Target, Before).

in_a_loop(T) ->
    {Target, Before} = target(T, crowd, 5),
    {0, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, crowd, 2}}.\n"], []),
    says(Err, "tiers1.conf:1:17: warning: it_check:item/1 is called 1[0-9]{2} times for each request: it is in a loop"),
    says(Out, "^ok, 1 warning\n\\z"),
    left(Target, Before).

options(T) ->
    Kprofd = it:build(T) ++ "/kprofd",
    [begin
         P = it:start(T, "options", [Kprofd, "-check", "-tiers", it:tiers() | Args], []),
         it:equal(Args, 2, it:exited(P)),
         says(it:errors(P), Words)
     end || {Args, Words} <- [{["-target", "a@b", "-db", "x.db"], "-check does not use -db"},
                              {["-requests", "5"], "-check does not use -requests"},
                              {["-control", "x.sock", "-cookie-file", "c"], "-check -control does not use -cookie-file: it asks"},
                              {["-duration", "5s"], "-check uses -duration with a target only"},
                              {["-target", "a@b", "-duration", "5ms"], "-duration of -check: from 100ms to 10m"}]].

interrupted(T) ->
    {Target, Before} = target(T, request, 10),
    P = it:kprofd(T, Target, #{tiers => [?ITEM], args => ["-check", "-duration", "60s"]}),
    it:saw(P, "measuring call rates"),
    it:signal(P, "INT"),
    it:ended(P, 1),
    says_not(it:output(P), "^ok"),
    left(Target, Before).

%% ---------------------------------------------------------------------------

%% A target in which processes make calls of this kind, one every Ms each.
target(T, Kind, Ms) ->
    Target = it:target(T, #{kind => plain}),
    {module, it_check} = it:call(Target, code, ensure_loaded, [it_check]),
    _ = it:call(Target, it_check, start, [Kind, Ms]),
    {Target, it:settled(Target)}.

check(T, Target, Tiers, Args) ->
    {Status, Err, P} = it:run_kprofd(T, Target, #{tiers => Tiers, args => ["-check" | Args]}),
    {Status, it:output(P), Err}.

left(Target, Before) ->
    it:audit(Target, Before, [processes]),
    it:equal("patterns and counters", [], it:call(Target, it_check, patterns, [])).

says(Text, Pattern) ->
    re:run(Text, Pattern, [multiline]) =/= nomatch orelse it:fail("it said~n~ts~nnot '~ts'", [Text, Pattern]).

says_not(Text, Pattern) ->
    re:run(Text, Pattern, [multiline]) =:= nomatch orelse it:fail("it said~n~ts~nwith '~ts'", [Text, Pattern]).
