%% kprof count and time while they count: paused, continued and begun anew, by
%% lines on standard input and by keys on a terminal. What was counted before a
%% pause is in the figures after it, and what was called meanwhile is not.
-module(live_tests).

-export([tests/0]).

-import(it_kprof, [background/4, ends/1, plain/1, says/2, start/4, tell/2, unarmed/1]).

-define(FIB, "it_counted:fib/1").
-define(FIBS, 465).             % of work(50)

tests() ->
    [{"counters paused, continued, begun anew", 60, fun paused/1},
     {"counters by process over pauses", 60, fun by_process/1},
     {"a call that ends while counters are paused", 60, fun ended_paused/1},
     {"counters and what comes on standard input", 60, fun input/1},
     {"counters paused for longer than the time", 60, fun clock_stands/1},
     {"counters and keys on a terminal", 60, fun terminal/1}].

paused(T) ->
    {Target, Mark} = it_audit:begins(T),
    it_kprof:load(Target),
    [begin
         P = start(T, Target, Cmd, ["-stdin", "-json", ?FIB]),
         it:equal("nothing yet", {0, false}, says_now(P, "show")),
         work(Target),
         it:equal("at the pause", {?FIBS, true}, says_now(P, "pause")),
         work(Target),
         it:equal("while it is paused", {?FIBS, true}, says_now(P, "show")),
         tell(P, "pause\ncontinue\n"),
         it:equal("it goes on", {?FIBS, false}, says_now(P, "show")),
         work(Target),
         it:equal("after it", {2 * ?FIBS, true}, says_now(P, "pause")),
         tell(P, "continue\n"),
         it:equal("once more", {2 * ?FIBS, false}, says_now(P, "show")),
         work(Target),
         it:equal("three times", {3 * ?FIBS, false}, says_now(P, "show")),
         tell(P, "restart\n"),
         it:equal("anew", {0, false}, says_now(P, "show")),
         work(Target),
         tell(P, "end\n"),
         {0, Out, _} = ends(P),
         it:equal("at last", {?FIBS, false}, figures(lists:last(lines(Out)))),
         it_audit:during(Target, Mark),
         unarmed(Target)
     end || Cmd <- ["count", "time"]],
    it_audit:ends(Target, Mark).

%% Each process is one row, however often there was a pause.
by_process(T) ->
    Target = plain(T),
    Servers = [it:do(Target, fun() -> spawn(it_counted, serve, []) end) || _ <- [1, 2]],
    Ask = fun() -> [it:call(Target, it_counted, ask, [S, 10]) || S <- Servers] end,
    P = start(T, Target, "count", ["-stdin", "-json", "-by", "process", "it_counted:squares/1"]),
    Ask(),
    it:equal("before", {22, true}, says_now(P, "pause")),
    tell(P, "continue\n"),
    it:equal("it goes on", {22, false}, says_now(P, "show")),
    Ask(),
    tell(P, "end\n"),
    {0, Out, _} = ends(P),
    Last = lists:last(lines(Out)),
    it:equal("all", {44, false}, figures(Last)),
    it:equal("processes", ["22", "22"], matches(Last, "\"arity\":1,\"process\":\"<[0-9.]+>\",\"name\":null,\"calls\":([0-9]+)")),
    unarmed(Target).

%% It was paused, its call ends, and only then the word comes that it goes on:
%% nothing counts twice.
ended_paused(T) ->
    Target = plain(T),
    [begin
         P = background(T, Target, Cmd, ["-stdin", "-json", "-apply", "it_counted:held(it_counted_held)", ?FIB]),
         it:until("it has worked", fun() -> it:call(Target, erlang, whereis, [it_counted_held]) =/= undefined end),
         it:equal("paused", {?FIBS, true}, says_now(P, "pause")),
         it:signal(P, "STOP"),
         ok = it:call(Target, it_counted, leave, [it_counted_held]),
         it:until("it has ended", fun() -> it:call(Target, erlang, whereis, [it_counted_held]) =:= undefined end),
         tell(P, Words),
         it:signal(P, "CONT"),
         {0, Out, _} = ends(P),
         it:equal(["figures after ", Words], {?FIBS, false}, figures(lists:last(lines(Out))))
     end || Cmd <- ["count", "time"], Words <- ["", "continue\n"]],
    unarmed(Target).

%% A program that talks to it has gone, or says what it does not know.
input(T) ->
    {Target, Mark} = it_audit:begins(T),
    it_kprof:load(Target),
    Command = it_kprof:command(T, Target, "count", ["-stdin", ?FIB]),
    Run = fun(Shell) -> ends(it_kprof:started(T, ["sh", "-c", Shell, "sh" | Command])) end,
    {0, Out, Errors} = Run("{ echo pause; echo paus; printf '%0200d' 0; echo pause; } | \"$@\""),
    says(Out, "functions? counted; paused$"),
    says(Errors, "'paus' is not one of pause, continue, restart, show, end"),
    it:equal("too long is nothing", nomatch, string:find(Errors, "0000000000")),
    {1, "", File} = Run("exec \"$@\" < /etc/passwd"),
    says(File, "standard input cannot be waited for \\(a file\\?\\)"),
    it_audit:ends(Target, Mark),
    unarmed(Target).

%% -for is the time that is counted: it has begun to be paused before it could
%% be over.
clock_stands(T) ->
    Target = plain(T),
    P = background(T, Target, "count", ["-stdin", "-json", "-for", "300ms", ?FIB]),
    it:equal("paused", {0, true}, says_now(P, "pause")),
    receive after 600 -> ok end,
    it:equal("still", {0, true}, says_now(P, "show")),
    [[Before], [Now]] = [matches(L, "\"elapsed_ms\":([0-9.]+)") || L <- lines(it:output(P))],
    it:equal("the time that was counted", Before, Now),
    tell(P, "continue\n"),
    it:equal("it ends by itself", 0, it:exited(P)),
    unarmed(Target).

%% script(1) has it run on one, and passes our input on as keys.
terminal(T) ->
    {Target, Mark} = it_audit:begins(T),
    it_kprof:load(Target),
    Command = lists:join(" ", ["'" ++ W ++ "'" || W <- it_kprof:command(T, Target, "time", ["-every", "500ms", ?FIB])]),
    P = it_kprof:started(T, ["script", "-qec", lists:append(["stty; echo begins; ", Command, "; echo ends $?; stty"]), "/dev/null"]),
    shows(P, "p pause, c continue, r restart, s show, q end"),
    work(Target),
    tell(P, "p"),
    shows(P, "(?s)  465 .*counted; paused"),
    tell(P, "xcs"),
    shows(P, "(?s)counted; paused.* functions? counted\r\n"),
    work(Target),
    shows(P, " 930 "),
    tell(P, "rq"),
    it:equal("script", 0, it:exited(P)),
    [Before, Rest] = string:split(unicode:characters_to_list(it:output(P)), "begins"),
    [_, After] = string:split(Rest, "ends 0"),
    it:equal("the terminal is as it was", string:trim(Before), string:trim(After)),
    it_audit:ends(Target, Mark),
    unarmed(Target).

%% ------------------------------------------------------------ helpers ----

work(Target) ->
    it:call(Target, it_counted, work, [50]).

shows(P, Pattern) ->
    it:until(["it shows ", Pattern], fun() -> re:run(it:output(P), Pattern, [{capture, none}]) =:= match end).

%% Says it, and waits for what is shown then: calls, and whether it is paused.
says_now(P, Word) ->
    N = length(lines(it:output(P))),
    tell(P, Word ++ "\n"),
    it:until(["an answer to ", Word], fun() -> length(lines(it:output(P))) > N end),
    figures(lists:last(lines(it:output(P)))).

figures(Line) ->
    [Calls] = matches(Line, "\"all\":\\{\"calls\":([0-9]+)"),
    {list_to_integer(Calls), string:find(Line, "\"paused\":true") =/= nomatch}.

matches(Line, Pattern) ->
    case re:run(Line, Pattern, [global, {capture, [1], list}]) of
        {match, Found} -> lists:append(Found);
        nomatch -> []
    end.

%% Whole ones only.
lines(Text) ->
    lists:droplast(string:split(unicode:characters_to_list(Text), "\n", all)).
