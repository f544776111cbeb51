%% kprof top on a pseudo-terminal, of a kprofd that profiles.
-module(top_tests).

-export([tests/0]).

tests() ->
    [{"kprof top shows the target, its figures, and pauses it", 120, fun top/1}].

top(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    P = it:kprofd(T, Target, #{args => ["-interval", "1s"]}),
    it:armed(P),
    Load = it:load(T, Target, ["4", "100000s", "5"]),
    Node = maps:get(node, Target),
    Script = it:write(T, "script",
                      ["see ", Node, ": armed\n",
                       "see all requests\n"
                       "see formatter\n"
                       "see in flight\n"
                       %% of one node, and what it is told
                       "key n\n"
                       "see kprof top  ", Node, "\n"
                       "key p\n"
                       "see pause: \n"
                       "see ", Node, ": paused\n"
                       "key c\n"
                       "see resume: \n"
                       "see ", Node, ": armed\n"
                       "size 60 20\n"
                       "see all requests\n"
                       "key 3\n"
                       "see without tracing\n"
                       "key q\n"
                       "exit 0\n"]),
    #{db := Db} = P,
    Top = it:start(T, "top", ["sh", "-c", "exec \"$0\" \"$@\" <'" ++ Script ++ "'",
                              it:build(T) ++ "/test/pty_run", "160", "40", it:build(T) ++ "/kprof", "top",
                              "-every", "1", "-db", Db], []),
    it:ended(Top, 0),
    it:kill(Load),
    it:terminate(P),
    it:audit(Target, Before, [processes]).
