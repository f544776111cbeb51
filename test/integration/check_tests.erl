%% kprofd -check with a target: what is wrong with a tiers.conf that is valid.
-module(check_tests).

-export([tests/0]).

-define(ITEM, "{tiers, [{item, {it_check, item, 1}}]}.\n").
-define(ITEMS, "{tiers, [{item, [{it_check, item, 1}, {it_check, idle, 1}]}]}.\n").
-define(REQUEST, "{entry, {it_check, request, 2}}.\n").
%% Two clauses that fit no call, one for a function that nobody calls, and the rest.
-define(WRONG, "{identity, fun({it_check, request, [#{verb := V}, _]}) -> V;\n"
               "  ({it_check, idle, [X]}) when is_atom(X) -> X;\n"
               "  ({it_check, item, [{N, _}]}) when is_integer(N) -> N;\n"
               "  (_) -> undefined end}.\n").

tests() ->
    [{"a tiers.conf that fits", 60, fun fits/1},
     {"an entry that never returns", 60, fun never_returns/1},
     {"an entry that calls itself", 60, fun calls_itself/1},
     {"an entry that calls itself too fast to be found on a stack", 60, fun calls_itself_fast/1},
     {"an entry that calls itself by tail calls", 60, fun tail_calls/1},
     {"an entry that does not return", 60, fun does_not_return/1},
     {"an entry that does not return, in processes of their own", 60, fun long_requests/1},
     {"an entry that only hands on", 60, fun hands_on/1},
     {"an entry that is not called", 60, fun not_called/1},
     {"functions whose calls are instructions", 60, fun instructions/1},
     {"a tier in a loop", 60, fun in_a_loop/1},
     {"a tier that calls itself", 60, fun tier_calls_itself/1},
     {"clauses that match no call", 60, fun clauses/1},
     {"clauses of labels that match no call", 60, fun labels/1},
     {"an example of a call", 60, fun example/1},
     {"every request is undefined", 60, fun all_undefined/1},
     {"no more than 1,000 calls", 60, fun limit/1},
     {"options that it refuses", 60, fun options/1},
     {"it is interrupted", 60, fun interrupted/1},
     {"it is interrupted while it traces", 60, fun interrupted_tracing/1},
     {"it is killed while it traces", 60, fun killed_tracing/1},
     {"the node dies while it is traced", 60, fun node_dies/1}].

%% What it costs, and nothing else to say. An entry that is called once a second is seen.
fits(T) ->
    {Target, Before} = target(T, request, 1000),
    {0, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, request, 2}}.\n"], []),
    says(Out, "^it_check:request/2 +1 +entry"),
    says(Out, "^about [0-9]+ events/s, less than 0.01 % of a scheduler$"),
    says(Out, "^ok, 0 warnings\n\\z"),
    says(Err, "tracing 1.000 calls of entries at most, for 2 s at most"),
    says_not(Err, "warning|error"),
    left(Target, Before).

never_returns(T) ->
    {Target, Before} = target(T, loop, 3),
    {1, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, loop, 1}}.\n"], []),
    says(Err, "tiers[0-9]+.conf:2:9: error: it_check:loop/1 never returns: .*name the function that handles one message"),
    says(Err, "'.*tiers1.conf' does not fit '.*': see the errors above"),
    says_not(Out, "^ok"),
    says_not(Err, "tracing 1.000"),
    left(Target, Before).

calls_itself(T) ->
    {Target, Before} = target(T, walk, 3),
    {1, _, Err} = check(T, Target, [?ITEM, "{entry, {it_check, walk, 2}}.\n"], []),
    says(Err, "tiers[0-9]+.conf:2:9: error: it_check:walk/2 calls itself: .*name a function around it"),
    left(Target, Before).

calls_itself_fast(T) ->
    {Target, Before} = target(T, sum, 10),
    [begin
         {1, _, Err} = check(T, Target, [?ITEM, "{entry, {it_check, sum, 2}}.\n"], ["-probe", Probe]),
         says(Err, "tracing 1.000"),
         says(Err, "tiers[0-9]+.conf:2:9: error: it_check:sum/2 calls itself: .*name a function around it"),
         left(Target, Before)
     end || Probe <- ["native", "relay"]].

tail_calls(T) ->
    {Target, Before} = target(T, down, 10),
    [begin
         {Status, _, Err} = check(T, Target, [?ITEM, "{entry, {it_check, down, 1}}.\n"], ["-probe", Probe]),
         says(Err, ["tiers[0-9]+.conf:2:9: ", Words]),
         lists:member(Status, Statuses) orelse it:fail("status ~b", [Status]),
         left(Target, Before)
     end || {Probe, Statuses, Words} <- [{"native", [1], "error: it_check:down/1 calls itself: "},
                                         %% In OTP 25 it may be exceptions, too.
                                         {"relay", [0, 1], "[a-z]+: it_check:down/1 calls itself"}]].

does_not_return(T) ->
    {Target, Before} = target(T, slow, 300),
    {0, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, slow, 1}}.\n"], ["-duration", "1s"]),
    says(Err, "tiers[0-9]+.conf:2:9: warning: it_check:slow/1 did not return from any of the [0-9]+ calls traced in 1 s: "),
    says(Out, "^ok, 1 warning\n\\z"),
    left(Target, Before).

%% Processes that were in it all the while made one call each: it was said to be a server.
long_requests(T) ->
    {Target, Before} = target(T, long, 100),
    {0, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, slow, 1}}.\n"], []),
    says(Err, "tiers[0-9]+.conf:2:9: warning: it_check:slow/1 did not return from any of the [0-9]+ calls"),
    says_not(Err, "error"),
    says(Out, "^ok, 1 warning\n\\z"),
    left(Target, Before).

hands_on(T) ->
    {Target, Before} = target(T, push, 10),
    {0, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, push, 1}}.\n"], []),
    says(Err, "tiers[0-9]+.conf:2:9: warning: it_check:push/1 only hands on: in [0-9]+ of [0-9]+ traced requests .*"
              "such as it_check:item/1"),
    says(Out, "^ok, 1 warning\n\\z"),
    left(Target, Before).

not_called(T) ->
    {Target, Before} = target(T, request, 10),
    {0, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, idle, 1}}.\n"], ["-duration", "300ms"]),
    says(Err, "tiers[0-9]+.conf:2:9: warning: it_check:idle/1 was not called in 0.3 s: .*kprof check -for 20s"),
    says(Out, "^ok, 1 warning\n\\z"),
    left(Target, Before).

%% An entry was not called, and a tier of nothing but such functions was right.
instructions(T) ->
    {Target, Before} = target(T, request, 10),
    Only = " compiled to instructions: only those by apply or of a fun are traced ",
    Tiers = ["{tiers, [{item, {it_check, item, 1}}, {get, {maps, get, 2}}]}.\n", "{entry, {erlang, node, 0}}.\n"],
    {0, Out, Err} = check(T, Target, Tiers, ["-duration", "300ms"]),
    says(Err, ["tiers[0-9]+.conf:1:45: warning: calls of maps:get/2 are", Only]),
    says(Err, ["tiers[0-9]+.conf:2:9: warning: calls of erlang:node/0 are", Only]),
    says_not(Err, "was not called"),
    says(Out, "^maps:get/2 +\\? "),
    says(Out, "^erlang:node/0 +\\? +entry"),
    says(Out, "^ok, 2 warnings\n\\z"),
    left(Target, Before),
    Path = it:write(T, "alone.conf", Tiers),
    {0, Json, _} = it_kprof:kprof(T, ["check", "-json", Path]),
    says(Json, ["\"line\":1,\"col\":45,\"kind\":\"warning\",\"text\":\"calls of maps:get/2 are", Only]),
    P = it:kprofd(T, Target, #{tiers => [?ITEM, ?REQUEST, "{finish, {erlang, self, 0}}.\n"]}),
    it:saw(P, ["tiers[0-9]+.conf:3:10: warning: calls of erlang:self/0 are", Only]),
    it:armed(P),
    it:terminate(P),
    left(Target, Before).

in_a_loop(T) ->
    {Target, Before} = target(T, crowd, 5),
    {0, Out, Err} = check(T, Target, [?ITEM, "{entry, {it_check, crowd, 2}}.\n"], []),
    says(Err, "tiers[0-9]+.conf:1:17: warning: it_check:item/1 is called 1[0-9]{2} times for each request: it is in a loop"),
    says(Out, "^ok, 1 warning\n\\z"),
    left(Target, Before).

tier_calls_itself(T) ->
    {Target, Before} = target(T, sum, 10),
    {0, Out, Err} = check(T, Target, ["{tiers, [{sum, {it_check, sum, 2}}]}.\n", ?REQUEST], []),
    says(Err, "tiers[0-9]+.conf:1:16: warning: it_check:sum/2 calls itself, and every call of it is traced"),
    says(Out, "^ok, 1 warning\n\\z"),
    left(Target, Before).

%% The clause for a function that is not called says nothing.
clauses(T) ->
    {Target, Before} = target(T, request, 10),
    Says = "warning: this clause matched none of the [0-9]+ calls of ",
    [begin
         {0, Out, Err} = check(T, Target, [?ITEMS, ?REQUEST, ?WRONG], ["-probe", Probe]),
         says(Err, ["tiers[0-9]+.conf:3:16: ", Says, "it_check:request/2 that were seen \\(see -explain, or look longer"]),
         says(Err, ["tiers[0-9]+.conf:5:4: ", Says, "it_check:item/1 that were seen"]),
         says_not(Err, "conf:4:|conf:6:|GET"),
         says_not(Out, "GET|secret"),
         says(Out, "^ok, 2 warnings\n\\z"),
         left(Target, Before)
     end || Probe <- ["native", "relay"]].

%% Those of labels, which have to do with tiers. One that does not fit is nothing to
%% warn of where another one names all calls.
labels(T) ->
    {Target, Before} = target(T, request, 10),
    Rest = ";\n  ({it_check, item, [N]}) when is_integer(N) -> N",
    Label = ["{label, fun({it_check, item, [{N, _}]}) when is_integer(N) -> N", Rest, " end}.\n"],
    [begin
         {0, Out, Err} = check(T, Target, [?ITEMS, ?REQUEST, Label -- Without], ["-probe", Probe, "-explain"]),
         Says(Err, "tiers[0-9]+.conf:3:13: warning: this clause matched none of the [0-9]+ calls of it_check:item/1 that were seen"),
         says_not(Err, "conf:4:"),
         Says(Out, "^example: it_check:item\\(integer\\)$"),
         says(Out, ["^ok", Warned, "\n\\z"]),
         left(Target, Before)
     end || Probe <- ["native", "relay"], {Without, Says, Warned} <- [{[], fun says_not/2, ", 0 warnings"}, {[Rest], fun says/2, ", 1 warning"}]].

%% Types alone, unless values are asked for. A call that a clause names is no example.
example(T) ->
    {Target, Before} = target(T, request, 10),
    Right = "{identity, fun({it_check, request, [#{method := M}, _]}) -> M end}.\n",
    [begin
         {0, Out, Err} = check(T, Target, [?ITEMS, ?REQUEST, Identity], ["-explain" | Args]),
         says(Out, Words),
         says_not(Err, "see -explain"),
         [says_not([Out, Err], "GET|secret|4711") || Args =:= []],
         left(Target, Before)
     end || {Identity, Args, Words} <-
                [{?WRONG, [], "^example: it_check:request\\(#{method := binary, path := binary, ... 3 keys}, "
                              "{opts, pid, integer}\\)$"},
                 {?WRONG, ["-probe", "relay"], "^example: it_check:request\\(#{method := binary, path := binary, "
                                               "... 3 keys}, {opts, pid, integer}\\)$"},
                 {?WRONG, ["-values"], "^example: it_check:request\\(#{method := <<\"GET\">>, "
                                       "path := <<\"/secret\">>, ... 3 keys}, {opts, pid, 4711}\\)$"},
                 {"", [], "^example: it_check:request\\("},
                 {Right, [], "^no example: .* it_check:request/2$"}]].

all_undefined(T) ->
    {Target, Before} = target(T, request, 10),
    Identity = "{identity, fun({it_check, idle, [X]}) when is_atom(X) -> X; (_) -> undefined end}.\n",
    {0, Out, Err} = check(T, Target, [?ITEMS, ?REQUEST, Identity], ["-duration", "500ms"]),
    says(Err, "tiers[0-9]+.conf:3:16: warning: no clause gave a type to any of the [0-9]+ requests that were seen"),
    says(Out, "^ok, 1 warning\n\\z"),
    left(Target, Before).

%% Whatever tiers.conf says of sampling. It ends before its time.
limit(T) ->
    {Target, Before} = target(T, request, 1),
    [it:call(Target, it_check, start, [request, 1]) || _ <- lists:seq(1, 7)],
    From = erlang:monotonic_time(millisecond),
    {0, _, Err} = check(T, Target, [?ITEMS, ?REQUEST, ?WRONG, "{sampling, all}.\n"], ["-duration", "8s"]),
    says(Err, "none of the 1000 calls of it_check:request/2"),
    Ms = erlang:monotonic_time(millisecond) - From,
    Ms < 15000 orelse it:fail("it took ~b ms", [Ms]),
    it:audit(Target, Before, [processes]),
    it:equal("patterns and counters", [], it:call(Target, it_check, patterns, [])).

options(T) ->
    Kprofd = it:build(T) ++ "/kprofd",
    [begin
         P = it:start(T, "options", [Kprofd, "-check", "-tiers", it:tiers() | Args], []),
         it:equal(Args, 2, it:exited(P)),
         says(it:errors(P), Words)
     end || {Args, Words} <- [{["-explain"], "-explain goes with -check -target NODE"},
                              {["-target", "a@b", "-values"], "-values goes with -check -explain"},
                              {["-target", "a@b", "-control", "x.sock", "-explain"], "without -control"},
                              {["-target", "a@b", "-duration", "5ms"], "-duration of -check: from 100ms to 10m"}]].

interrupted(T) ->
    {Target, Before} = target(T, request, 10),
    P = it:kprofd(T, Target, #{tiers => [?ITEM], args => ["-check", "-duration", "60s"]}),
    it:saw(P, "measuring call rates"),
    it:signal(P, "INT"),
    it:ended(P, 1),
    says_not(it:output(P), "^ok"),
    left(Target, Before).

interrupted_tracing(T) ->
    {Target, Before} = target(T, request, 10),
    P = it:kprofd(T, Target, #{tiers => [?ITEMS, ?REQUEST, ?WRONG], args => ["-check", "-duration", "3s"]}),
    it:saw(P, "tracing 1.000 calls"),
    timer:sleep(1000),
    it:signal(P, "INT"),
    it:ended(P, 1),
    says_not(it:output(P), "^ok"),
    left(Target, Before).

killed_tracing(T) ->
    {Target, Before} = target(T, request, 10),
    P = it:kprofd(T, Target, #{tiers => [?ITEM, ?REQUEST], args => ["-check", "-explain", "-duration", "2s"]}),
    it:saw(P, "tracing 1.000 calls"),
    timer:sleep(500),
    it:kill(P),
    left(Target, Before).

node_dies(T) ->
    {Target, _} = target(T, request, 10),
    P = it:kprofd(T, Target, #{tiers => [?ITEM, ?REQUEST], args => ["-check", "-duration", "5s"]}),
    it:saw(P, "tracing 1.000 calls"),
    timer:sleep(500),
    it:stop_target(Target),
    it:ended(P, 1, "the connection was lost while requests were traced"),
    says_not(it:output(P), "^ok").

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
