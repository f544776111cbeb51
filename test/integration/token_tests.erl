%% Whose tokens are followed, and for how long: a process that keeps one makes no
%% events for ever, and the tokens of an application's own seq_trace are left as
%% they are, with what they are for.
-module(token_tests).

-export([tests/0]).

-define(HZ, (1 bsl 19)).        % of the trace control word (include/kprofd/label.h)
-define(AGE_S, 62).
-define(CROWD, 20000).          % requests
-define(WORD, 16#7FFFFFFF).     % the number in it, and
-define(FREE, 16#80000000).     % that it can be taken

tests() ->
    [{"one token, kept and woken by a timer", 120, fun kept/1},
     {"given, and taken when calls are many", 90, fun given/1},
     {"the word goes with the time", 150, fun word/1},
     {"the end of the trace control word", 90, fun wraps/1},
     {"no two requests have a label", 240, fun unique/1},
     {"no two requests have a label, one in 32", 240, fun unique_sampled/1},
     {"the word, set by another tool", 120, fun set_by_others/1},
     {"an agent that is killed while the word is taken", 120, fun killed_while_taken/1},
     {"a token that is somebody else's", 90, fun foreign/1},
     {"an application's own trace sees all its sends", 120, fun own_trace/1},
     {"foreign tokens, replaced", 90, fun replaced/1},
     {"left by a kprofd that was killed", 90, fun left_by_killed/1},
     {"a long request keeps its calls", 90, fun long/1},
     {"a request from another node, late", 90, fun crossing/1},
     {"the first message to a node that is not connected", 90, fun unconnected/1},
     {"messages: nothing asks for them later", 90, fun messages/1},
     {"tokens lost to requests that are not sampled", 240, fun lost/1},
     {"no token is lost outside of requests", 120, fun outside/1}].

tiers(More) ->
    ["{tiers, [{work, {it_token, work, 1}}]}.\n{entry, {it_token, request, 2}}.\n{sampling, all}.\n{budget, none}.\n{slow_ms, 0}.\n",
     it:calm() | More].

%% A function of a tier is called so often that tiers give no tokens: then a process keeps
%% what it has, or has none.
rushed(Targets, Begin) ->
    [do(Target, rush, [1000]) || Target <- Targets],
    Begin(rush_tiers()).

rush_tiers() ->
    ["{hot_share, none}.\n" | string:replace(lists:flatten(tiers([])), "[{work", "[{rush, {it_token, rushed, 0}}, {work")].

target(T) -> it:target(T, #{kind => plain}).

%% Of this test alone: tests run at the same time.
two(T) ->
    [it:target(T, #{kind => plain, name => "target_" ++ N, node => lists:concat(
        ["to_", N, "_", os:getpid(), [D || D <- pid_to_list(self()), D >= $0, D =< $9], "@127.0.0.1"])})
     || N <- ["a", "b"]].

profile(T, Targets, Tiers) ->
    profile(T, Targets, Tiers, #{}).

profile(T, Targets, Tiers, Opts) ->
    P = it:kprofd(T, Targets, Opts#{tiers => Tiers, args => ["-interval", "1s" | maps:get(args, Opts, [])]}),
    it:armed(P),
    P.

do(Target, F, A) -> it:call(Target, it_token, F, A).

%% As if it were so many seconds later.
later(Target, Seconds) ->
    Word = it:call(Target, erlang, system_info, [trace_control_word]),
    it:call(Target, erlang, system_flag, [trace_control_word, (Word + Seconds * ?HZ) band ?WORD bor ?FREE]).

%% Events of calls and returns, till now: a process that keeps its token.
events(Target, Fun) ->
    measured(Target),
    Before = it:sent(Target),
    Fun(),
    receive after 1000 -> ok end,
    it:sent(Target) - Before.

%% The calls by which the agent measures what tracing adds have been made, and their
%% events are sent.
measured(Target) ->
    it:until("tracing is measured", fun() ->
                                            Sent = it:sent(Target),
                                            receive after 100 -> ok end,
                                            #{tracing_measured := Done} = it:call(Target, it_stub, agent, []),
                                            Done andalso it:sent(Target) =:= Sent
                                    end).

%% It arrives without the token, whose label has more than 32 bits, and the answer takes the
%% asker's: the asker's next call of a tier gives it one.
unconnected(T) ->
    [A, #{node := Node} = B] = two(T),
    [{module, it_drain} = it:call(X, code, ensure_loaded, [it_drain]) || X <- [A, B]],
    ok = it:call(B, it_drain, start, [plain]),
    P = profile(T, A, ["{tiers, [{later, {it_drain, after_it, 1}}]}.\n{entry, {it_drain, request, 2}}.\n{sampling, all}.\n"
                       "{budget, none}.\n", it:calm()]),
    On = list_to_atom(Node),
    [begin
         _ = it:call(A, erlang, disconnect_node, [On]),
         it:until("not connected", fun() -> not lists:member(On, it:call(A, erlang, nodes, [])) end),
         ok = it:call(A, it_drain, once, [{plain, On}])
     end || _ <- lists:seq(1, 8)],
    it:assembled(P, 8),
    pong = it:call(A, net_adm, ping, [On]),
    [ok = it:call(A, it_drain, once, [{plain, On}]) || _ <- lists:seq(1, 8)],
    it:assembled(P, 16),
    it:terminate(P),
    it:equal("losses", #{}, maps:remove(connecting, it:losses(P))),
    it:equal("calls", 32, it:number(P, "select sum(calls) from tier_stats where identity = '_total' and tier = 'later'")).

%% It had a request, waits, and works whenever a timer says so: till its token is
%% too old. Then that is gone.
kept(T) ->
    Target = target(T),
    P = rushed([Target], fun(Tiers) -> profile(T, Target, Tiers) end),
    Kept = do(Target, keep, []),
    it:check(do(Target, label, [Kept]) =/= none, "it keeps its token"),
    Young = events(Target, fun() -> do(Target, wake, [Kept, 1000]) end),
    it:check(Young >= 2000, "~b events of 1000 calls with a young token", [Young]),
    it:check(do(Target, label, [Kept]) =/= none, "a young one stays"),
    later(Target, ?AGE_S + 1),
    Old = events(Target, fun() -> do(Target, wake, [Kept, 20000]) end),
    it:equal("events of an old one", 0, Old),
    it:equal("its token", none, do(Target, label, [Kept])),
    it:equal("paused and resumed", {ok, <<"paused\n">>}, it:control(P, "pause")),
    it:equal("paused and resumed", {ok, <<"resumed\n">>}, it:control(P, "resume")),
    it:equal("events after that", 0, events(Target, fun() -> do(Target, wake, [Kept, 20000]) end)),
    %% And it is sampled again.
    do(Target, again, [Kept]),
    it:assembled(P, 2),
    it:terminate(P),
    it:balance(P).

%% A process of no request has a token, and makes events, till tiers are called too often. Then it
%% has none, for what it calls may be what is too often.
given(T) ->
    Target = target(T),
    P = profile(T, Target, rush_tiers()),
    Idle = do(Target, idle, []),
    it:check(events(Target, fun() -> do(Target, wake, [Idle, 10]) end) >= 20, "its calls make events"),
    it:check(do(Target, label, [Idle]) =/= none, "it has a token"),
    do(Target, rush, [80]),
    it:until("it has none", fun() -> do(Target, wake, [Idle, 1]), do(Target, label, [Idle]) =:= none end),
    it:equal("events", 0, events(Target, fun() -> do(Target, wake, [Idle, 1000]) end)),
    it:equal("a request", done, do(Target, alone, [])),
    it:assembled(P, 1),
    it:terminate(P),
    it:equal("calls", [{"work", "undefined", 1, 0}], it:calls_by_tier(P)).

%% On a node where nothing happens, too: on a schedule, that all nodes have. After
%% a minute of that a token is too old.
word(T) ->
    [A, B] = Targets = two(T),
    P = rushed(Targets, fun(Tiers) ->
                                Q = it:kprofd(T, Targets, #{tiers => Tiers}),
                                it:until("both are profiled", fun() -> it:times_armed(Q) =:= 2 end),
                                Q
                        end),
    Word = fun(Target) -> it:call(Target, erlang, system_info, [trace_control_word]) end,
    Kept = do(A, keep, []),
    T0 = erlang:monotonic_time(millisecond),
    W0 = Word(A),
    receive after 5000 -> ok end,
    W1 = Word(A),
    Ms = erlang:monotonic_time(millisecond) - T0,
    Went = ((W1 - W0) band ?WORD) * 1000 div ?HZ,
    %% It is moved twice a second, by a node that may have to wait for a processor.
    it:check(abs(Went - Ms) =< 2000, "the word went on by ~b ms in ~b", [Went, Ms]),
    Apart = (Word(B) - Word(A) + (1 bsl 30)) band ?WORD - (1 bsl 30),
    it:check(abs(Apart) =< 3 * ?HZ, "two nodes are ~b apart", [Apart]),
    it:check(events(A, fun() -> do(A, wake, [Kept, 10]) end) >= 20, "it is followed till then"),
    receive after T0 + (?AGE_S + 3) * 1000 - erlang:monotonic_time(millisecond) -> ok end,
    it:equal("events of an old one", 0, events(A, fun() -> do(A, wake, [Kept, 20000]) end)),
    it:terminate(P).

%% Requests begin before its end, and go on behind it.
wraps(T) ->
    Target = target(T),
    P = profile(T, Target, tiers([])),
    it:call(Target, erlang, suspend_process, [do(Target, agent, [])]),
    it:call(Target, erlang, system_flag, [trace_control_word, (?WORD - 50) bor ?FREE]),
    do(Target, overlapping, [100]),
    After = it:call(Target, erlang, system_info, [trace_control_word]) band ?WORD,
    %% A call that finds no number may move it on by as much as 2^18.
    it:check(After < 1 bsl 20, "the word is ~b", [After]),
    it:call(Target, erlang, resume_process, [do(Target, agent, [])]),
    it:assembled(P, 100),
    it:terminate(P),
    it:equal("losses", #{}, it:lost(P)),
    it:equal("calls", [{"work", "undefined", 300, 0}], it:calls_by_tier(P)).

%% Many clients at once, past the end of the word, lose nothing. (Labels that were read and written in two steps came twice here.)
unique(T) ->
    Target = target(T),
    P = crowded(T, Target, "{sampling, all}.\n", ?CROWD, 5),
    it:equal("losses", #{}, it:lost(P)),
    it:equal("entry calls", ?CROWD, it:balance(P)),
    it:equal("requests", ?CROWD, it:requests(P)),
    it:equal("calls", [{"work", "undefined", ?CROWD, 0}], it:calls_by_tier(P)).

%% Calls that are not sampled move the word on, too. Where all processors do nothing but call
%% the entry, some calls find no number of their own; of their labels a few repeat.
unique_sampled(T) ->
    Target = target(T),
    P = crowded(T, Target, "{sampling, {one_in, 32}}.\n", 20 * ?CROWD, ?CROWD),
    it:equal("losses", #{}, maps:without([sampled_out, collided, with_request], it:lost(P))),
    it:equal("entry calls", 20 * ?CROWD, it:balance(P)),
    Sampled = it:requests(P),
    Collided = maps:get(collided, it:losses(P), 0),
    it:check(Collided =< ?CROWD div 40, "~b collided", [Collided]),
    it:check(abs(Sampled - 20 * ?CROWD div 32) < 20 * ?CROWD div 160, "~b of ~b were sampled", [Sampled, 20 * ?CROWD]),
    {note, io_lib:format("~b of ~b sampled requests had another's label", [Collided, Sampled])}.

crowded(T, Target, Sampling, N, Burst) ->
    Tiers = ["{tiers, [{work, {it_token, work, 1}}]}.\n{entry, {it_token, request, 2}}.\n{budget, none}.\n{hot_share, none}.\n",
             Sampling, "{overload, [{max_age_ms, 60000}, {max_queue, 1000000}, {max_lag_ms, 60000}, {max_memory_mb, 1024}]}.\n"],
    P = profile(T, Target, Tiers),
    it:call(Target, erlang, suspend_process, [do(Target, agent, [])]),
    it:call(Target, erlang, system_flag, [trace_control_word, (?WORD - N div 8) bor ?FREE]),
    it:call(Target, erlang, resume_process, [do(Target, agent, [])]),
    ok = do(Target, crowd, [100, N div 100, Burst]),
    Seen = fun() -> it:said(P, "([0-9]+) assembled") end,
    it:until("all events have come", 120000,
             fun() -> Then = Seen(), receive after 3000 -> ok end, Then > 0 andalso Seen() =:= Then end),
    it:terminate(P),
    P.

%% Whatever it sets, the agent notices. Till then requests have labels without a number of their own.
set_by_others(T) ->
    Target = target(T),
    Before = it:settled(Target),
    P = profile(T, Target, tiers([])),
    Has = fun() -> it:call(Target, erlang, system_info, [trace_control_word]) >= ?FREE end,
    [begin
         it:until("there is a number", Has),
         it:call(Target, erlang, suspend_process, [do(Target, agent, [])]),
         it:call(Target, erlang, system_flag, [trace_control_word, Word]),
         do(Target, overlapping, [20]),
         it:call(Target, erlang, resume_process, [do(Target, agent, [])])
     end || Word <- [0, 17, ?WORD, ?FREE bor 4711]],
    it:until("there is a number", Has),
    do(Target, overlapping, [20]),
    it:assembled(P, 100),
    it:terminate(P),
    it:equal("losses", #{}, it:lost(P)),
    it:equal("requests", 100, it:requests(P)),
    it:equal("entry calls", 100, it:balance(P)),
    it:audit(Target, Before, [processes]).

%% As if the agent had gone between taking a number and putting back the next. Nothing of that is
%% left: the word is what it was before, and the next agent has numbers.
killed_while_taken(T) ->
    Target = target(T),
    Before = it:settled(Target),
    P = profile(T, Target, tiers([])),
    do(Target, overlapping, [20]),
    it:assembled(P, 20),
    Agent = do(Target, agent, []),
    it:call(Target, erlang, suspend_process, [Agent]),
    Word = it:call(Target, erlang, system_info, [trace_control_word]),
    it:call(Target, erlang, system_flag, [trace_control_word, Word band ?WORD]),
    it:call(Target, erlang, exit, [Agent, kill]),
    it:until("another agent", fun() -> not lists:member(do(Target, agent, []), [Agent, undefined]) end),
    it:until("armed again", fun() -> it:times_armed(P) >= 2 end),
    do(Target, overlapping, [20]),
    it:assembled(P, 40),
    it:terminate(P),
    it:equal("losses of requests", 0, maps:get(collided, it:losses(P), 0)),
    it:audit(Target, Before, [processes]).

%% It makes no event at a tier, and its entry begins no request, and says so.
foreign(T) ->
    Target = target(T),
    P = profile(T, Target, tiers([])),
    Kept = do(Target, keep_other, [{"their", own}]),
    it:equal("events", 0, events(Target, fun() -> do(Target, wake, [Kept, 1000]) end)),
    it:equal("its label", {"their", own}, do(Target, label, [Kept])),
    [do(Target, again, [Kept]) || _ <- lists:seq(1, 7)],
    it:equal("its label after its entry was called", {"their", own}, do(Target, label, [Kept])),
    do(Target, keep, []),
    it:assembled(P, 1),
    it:terminate(P),
    it:equal("losses", #{foreign_token => 7}, it:lost(P)),
    it:equal("calls of the entry", 8, it:balance(P)).

%% The system tracer is a process of the application; the request of theirs goes
%% through an entry and a tier, while kprofd comes, samples next to nothing, and goes.
own_trace(T) ->
    Target = target(T),
    do(Target, trace_begin, []),
    Alone = do(Target, trace_run, []),
    it:check(Alone >= 5, "~b sends without kprofd", [Alone]),
    [begin
         P = profile(T, Target, [tiers([]), []], #{db => Db}),
         [it:equal(["sends seen ", Db], Alone, do(Target, trace_run, [])) || _ <- [1, 2, 3]],
         it:equal("paused", {ok, <<"paused\n">>}, it:control(P, "pause")),
         it:equal("resumed", {ok, <<"resumed\n">>}, it:control(P, "resume")),
         it:equal("sends of what began before", Alone, do(Target, trace_run, [])),
         do(Target, trace_hold, []),
         it:terminate(P),
         it:equal("sends when kprofd left in the middle", Alone, do(Target, trace_go, []))
     end || Db <- ["all.db"]],
    Sampled = ["{tiers, [{work, {it_token, work, 1}}]}.\n{entry, {it_token, request, 2}}.\n{sampling, {one_in, 10000}}.\n",
               it:calm()],
    do(Target, trace_hold, []),
    P = profile(T, Target, Sampled, #{db => "few.db"}),
    it:equal("sends when kprofd came in the middle", Alone, do(Target, trace_go, [])),
    [it:equal("sends seen where little is sampled", Alone, do(Target, trace_run, [])) || _ <- lists:seq(1, 20)],
    it:terminate(P),
    it:equal("sends afterwards", Alone, do(Target, trace_run, [])).

%% What an entry did before.
replaced(T) ->
    Target = target(T),
    P = profile(T, Target, tiers(["{foreign_tokens, replace}.\n"])),
    Kept = do(Target, keep_other, [their]),
    do(Target, again, [Kept]),
    it:assembled(P, 1),
    it:check(do(Target, label, [Kept]) =/= their, "the entry took it"),
    it:terminate(P),
    it:equal("losses", #{}, it:lost(P)),
    it:balance(P).

%% Ours, though nobody knows of it any more: it is taken, and its process sampled
%% again.
left_by_killed(T) ->
    Target = target(T),
    P1 = profile(T, Target, tiers([]), #{db => "killed.db"}),
    [Kept, Entered] = [do(Target, keep, []) || _ <- [1, 2]],
    it:kill(P1),
    it:until("the agent has gone", fun() -> it:agent_state(Target) =:= gone end),
    it:check(do(Target, label, [Kept]) =/= none, "it keeps its token"),
    P2 = rushed([Target], fun(Tiers) -> profile(T, Target, Tiers) end),
    later(Target, ?AGE_S + 1),
    it:equal("events", 0, events(Target, fun() -> do(Target, wake, [Kept, 1000]) end)),
    it:equal("its token", none, do(Target, label, [Kept])),
    do(Target, again, [Entered]),
    it:assembled(P2, 1),
    it:terminate(P2),
    it:equal("losses", #{}, it:lost(P2)).

%% Nearly a minute, which is what is followed.
long(T) ->
    Target = target(T),
    P = profile(T, Target, tiers([])),
    Long = do(Target, long, []),
    later(Target, 58),
    do(Target, wake, [Long, 10]),
    do(Target, finish, [Long]),
    it:assembled(P, 1),
    it:terminate(P),
    it:equal("calls", [{"work", "undefined", 11, 0}], it:calls_by_tier(P)).

%% A label of one node is as old as it is by the word of another.
crossing(T) ->
    [A, B] = Targets = two(T),
    it:check(it:call(A, net_kernel, connect_node, [list_to_atom(maps:get(node, B))]), "they are connected"),
    P = rushed(Targets, fun(Tiers) ->
                                Q = it:kprofd(T, Targets, #{tiers => Tiers, args => ["-interval", "1s"]}),
                                it:until("both are profiled", fun() -> it:times_armed(Q) =:= 2 end),
                                Q
                        end),
    [it:equal("a request on two nodes", done, do(A, across, [list_to_atom(maps:get(node, B))])) || _ <- lists:seq(1, 20)],
    it:assembled(P, 20),
    Far = do(A, keep_far, [list_to_atom(maps:get(node, B))]),
    it:check(do(B, label, [Far]) =/= none, "it keeps its token"),
    later(B, ?AGE_S + 2),
    it:equal("events of an old one", 0, events(B, fun() -> do(B, wake, [Far, 1000]) end)),
    it:equal("its token", none, do(B, label, [Far])),
    it:terminate(P),
    it:equal("losses", #{}, it:lost(P)),
    it:equal("calls", 3 * 20, lists:sum([N || {"work", _, N, _} <- it:calls_by_tier(P)])).

%% Whoever is the system tracer later is sent nothing of processes that work.
messages(T) ->
    Target = target(T),
    P = profile(T, Target, tiers(["{messages, true}.\n"]),
                #{args => ["-probe", "native" | it:probe_library(T)]}),
    it:saw(P, "messages of '.*' are timed$"),
    Busy = do(Target, keep_busy, []),
    it:check(do(Target, label, [Busy]) =/= none, "it works with its token"),
    it:terminate(P),
    it:until("the agent has gone", fun() -> it:agent_state(Target) =:= gone end),
    it:equal("its token", none, do(Target, label, [Busy])),
    it:equal("messages shown to another system tracer", 0, do(Target, shown, [])).

%% ----------------------------------------------------- lost to sampling ----

pool(Sampling) ->
    ["{tiers, [{checkout, {it_pool, checkout, 0}}, {render, {it_pool, render, 1}}, {codec, {it_hot, encode, 1}}]}.\n"
     "{entry, {it_pool, request, 1}}.\n{sampling, ", Sampling, "}.\n{budget, none}. {hot_share, none}.\n", it:calm()].

%% Clients wait for one of two workers, and are answered when another request gives it back: two of
%% three answers come without a token, and render, which each request calls once, showed a third
%% of it, with "losses: none" but for sampling. With all sampled nothing is lost, and a check
%% says beforehand what sampling would lose.
lost(T) ->
    [Target, Other] = two(T),
    ok = it:call(Target, it_pool, start, [2]),
    ok = it:call(Other, it_pool, start, [2]),
    Run = fun(Clients, Each) -> it:call(Target, it_pool, run, [Clients, Each, [fast, slow]]) end,
    {Text, Json, Csv} = reported(T, Target, "{one_in, 3}", fun() -> Run(4, 250) end),
    has(Text, "render !"),
    has(Text, "^! render: 0\\.[0-9]+ calls per request.*, where the VM counted 1.000, 1\\.00 per request; about 0\\.[0-9]+ per"
        " request are missing: "),
    has(Json, "\"missing\":\\[{\"tier\":\"render\",\"counted_calls\":1000,\"counted_requests\":1000,\"calls\":[0-9]+,"
        "\"async_calls\":[0-9]+,\"missed_calls\":[1-9]"),
    has(Csv, ",_total,render,.*,1000,[1-9][0-9]*,1,"),
    %% Where all workers are always taken, no token comes back. On a busy machine they are not.
    {AllTaken, _, _} = reported(T, Target, "{one_in, 4}", fun() -> Run(12, 60) end),
    has(AllTaken, "^(not in requests: 720 calls of render, 1\\.00 per request: |! render: 0\\.|all requests .* (0\\.9[5-9]|1\\.0.) +-$)"),
    {AllText, AllJson, _} = reported(T, Target, "all", fun() -> Run(4, 100) end),
    it:equal("with all sampled", nomatch, re:run(AllText, "!|not in requests")),
    has(AllJson, "\"missing\":\\[\\]"),
    Tiers = it:write(T, "pool.conf", pool("{one_in, 10}")),
    checked(T, Target, Tiers, 4, ": [0-9]+ % of its calls in traced requests came with another request's token, from an answer that"
            " another request set off .*: where one request in 10 is sampled, about [0-9]+ % of its calls would not be seen"),
    checked(T, Other, Tiers, 12, "(: [0-9]+ % of its calls| is called [0-9.]+ times for each request, as the VM counts, and traced"
            " requests have hardly any)").

checked(T, Target, Tiers, Clients, Words) ->
    it:do(Target, fun() -> spawn(fun() -> it_pool:run(Clients, 1000000, [fast, slow]) end), ok end),
    {Status, Said, _} = it:run_kprofd(T, Target, #{tiers => {file, Tiers}, args => ["-check", "-duration", "4s"]}),
    it:stop_target(Target),
    it:equal("status of the check", 0, Status),
    has(Said, "pool.conf:1:[0-9]+: warning: it_pool:render/1" ++ Words).

has(Text, Pattern) ->
    it:check(re:run(Text, Pattern, [multiline]) =/= nomatch, "~ts~ndoes not have '~ts'", [Text, Pattern]).

%% The report as text, JSON and CSV.
reported(T, Target, Sampling, Fun) ->
    P = profile(T, [Target], pool(Sampling)),
    Requests = Fun(),
    it:until("all are counted", fun() -> it:said(P, "counted ([0-9]+) calls of entries") >= Requests end),
    it:terminate(P),
    [{0, Text, _}, {0, Json, _}, {0, Csv, _}] =
        [it_kprof:kprof(T, ["report", "-db", it:db(P)] ++ As) || As <- [["-what", "calls"], ["-json"], ["-csv"]]],
    {Text, Json, Csv}.

%% Most calls of a tier are made outside of requests, and requests that wait for nobody make the
%% others: the VM counts far more than measured requests hold, and no token was lost.
outside(T) ->
    Target = target(T),
    {module, it_hot} = it:call(Target, code, ensure_loaded, [it_hot]),
    Tiers = ["{tiers, [{step, {it_hot, step, 1}}, {codec, {it_hot, encode, 1}}]}.\n{entry, {it_hot, request, 1}}.\n"
             "{sampling, {one_in, 4}}.\n{budget, none}. {hot_share, none}.\n", it:calm()],
    P = profile(T, [Target], Tiers),
    it:do(Target, fun() -> spawn(fun() -> [it_hot:step(N) || N <- lists:seq(1, 20000)] end), ok end),
    it:call(Target, it_hot, paced, [encode, 3000]),
    it:call(Target, it_hot, requests, [2000]),
    it:until("all are counted", fun() -> it:said(P, "counted ([0-9]+) calls of entries") >= 2000 end),
    it:terminate(P),
    {0, Text, _} = it_kprof:kprof(T, ["report", "-db", it:db(P), "-what", "calls"]),
    {0, Json, _} = it_kprof:kprof(T, ["report", "-db", it:db(P), "-json"]),
    it:equal("no tier is marked", nomatch, re:run(Text, "!")),
    has(Text, "^not in requests: 3.000 calls of codec, 1\\.50 per request: the VM counted them"),
    has(Json, "\"missing\":\\[{\"tier\":\"codec\",\"counted_calls\":3000,\"counted_requests\":2000,\"calls\":0,\"async_calls\":0,"
        "\"missed_calls\":null}\\]"),
    it:equal("counted by the VM", [[<<"22000">>]],
             it:sql(P, "select sum(counted) from stat s join tier t on t.id = s.tier_id where t.name = 'step'")),
    it:equal("of entries", [[<<"2000">>]],
             it:sql(P, "select sum(counted) from stat s join tier t on t.id = s.tier_id where t.name = '_total'")).
