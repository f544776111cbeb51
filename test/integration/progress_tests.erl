%% What kprofd says without being asked: a line for each target, one for the
%% database, hints in the first minute, and the sum at the end.
-module(progress_tests).

-export([tests/0]).

tests() ->
    [{"the lines of a run", 60, fun lines/1},
     {"the lines of a run with two targets", 60, fun two/1},
     {"a loss, as reports show it", 60, fun lost/1},
     {"an entry that nobody calls", 60, fun uncalled/1},
     {"an entry that never returns", 60, fun endless/1},
     {"a target that is not there", 60, fun absent/1}].

lines(T) ->
    Target = it:target(T),
    P = #{db := Db} = it:kprofd(T, Target, #{}),
    it:armed(P),
    %% One at a time.
    it:loaded(it:load(T, Target, ["1", "100"])),
    it:assembled(P, 100),
    it:terminate(P),
    Otp = integer_to_list(it:otp(Target)),
    in_order(P,
        ["profiling " ++ maps:get(node, Target) ++ " \\(OTP " ++ Otp ++ "\\): [1-9][0-9]* functions, entry "
         "requests:handle_request/2$",
         "writing " ++ Db ++ "; first figures in 2 s\\. Look: kprof report -db " ++ Db ++ ", kprof top -db " ++ Db ++ "$",
         "done: 100 requests in [0-9]+ s, nothing lost\\. See: kprof report -db " ++ Db ++ "$"]).

%% One line about the database, after those of all targets.
two(T) ->
    Targets = [it:target(T), it:target(T, #{kind => plain, name => "other", node => "it_two" ++ os:getpid() ++ "@127.0.0.1"})],
    P = it:kprofd(T, Targets, #{tiers => "{tiers, [{handle, {requests, handle_request, 2}}]}.\n"}),
    it:saw(P, "^kprofd: writing "),
    it:terminate(P),
    it:equal("lines of targets", 2, it:times_armed(P)),
    in_order(P, ["profiling ", "profiling ", "writing ", "done: 0 requests in "]).

%% It said "1 requests".
lost(T) ->
    Target = it:target(T, #{kind => plain}),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{serve, {it_stub, serve, 1}}]}.\n{entry, {it_stub, serve, 1}}.\n"
                                        "{sampling, all}.\n"}),
    it:armed(P),
    _ = it:call(Target, erlang, node, []),
    {ok, _} = it:control(P, "pause"),
    it:terminate(P),
    in_order(P, ["done: 0 requests in [0-9]+ s, 1 request cut off: tracing was paused, by overload, kprof pause or a trace of one request "
                 "\\(tripped\\), and 1 other loss\\. See: "]).

uncalled(T) ->
    Target = it:target(T),
    P = it:kprofd(T, Target, #{}),
    it:saw(P, "no call yet of the entry requests:handle_request/2: is there load, "),
    it:terminate(P),
    it:equal("times", 1, it:count(P, "no call yet")).

endless(T) ->
    Target = it:target(T, #{kind => plain}),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{serve, {it_stub, serve, 1}}]}.\n{entry, {it_stub, serve, 1}}.\n"
                                        "{sampling, all}.\n"}),
    it:armed(P),
    [it:call(Target, erlang, node, []) || _ <- lists:seq(1, 5)],
    it:saw(P, "5 calls of the entry it_stub:serve/1, and none has returned: is it a server's loop\\?"),
    it:terminate(P),
    it:equal("times", 1, it:count(P, "none has returned")).

%% In a cluster kprofd waits for nodes.
absent(T) ->
    #{node := Seed} = it:target(T),
    P = it:kprofd(T, [], #{args => ["-cluster", Seed, "-match", "nobody@*"]}),
    it:saw(P, "no target is attached yet"),
    it:terminate(P),
    in_order(P, ["done: no target was attached"]),
    it:equal("times", 1, it:count(P, "no target is attached yet")).

%% These lines were logged, in this order.
in_order(P, Patterns) ->
    Said = it:errors(P),
    lists:foldl(fun(Pattern, At) ->
                        case re:run(Said, "^kprofd: " ++ Pattern, [multiline, {offset, At}]) of
                            {match, [{Start, N} | _]} -> Start + N;
                            nomatch -> it:fail("after byte ~b no '~s':~n~ts", [At, Pattern, Said])
                        end
                end, 0, Patterns).
