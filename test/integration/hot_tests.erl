%% Armed functions that are called outside of requests. Such a call sends no event,
%% and yet costs its caller some hundred nanoseconds: a function that was called 1.7
%% million times a second took most of a processor, and the cost that was shown was
%% 0.00 %. Calls are counted by the VM, and here compared with those that were made:
%% nothing depends on how fast the machine is, but for a function that is called as
%% fast as it goes, which is beyond a limit that is set low enough.
-module(hot_tests).

-export([tests/0]).

-define(TIERS, "{tiers, [{step, {it_hot, step, 1}}, {codec, [{it_hot, encode, 1}, {it_hot, decode, 1}]}]}.\n"
        "{entry, {it_hot, request, 1}}.\n{sampling, all}.\n").
-define(ENCODE, {it_hot, encode, 1}).
-define(STEP, {it_hot, step, 1}).

tests() ->
    [{"calls outside of requests are counted", 90, fun counted/1},
     {"calls are counted on when code is loaded", 90, fun reloaded/1},
     {"calls are counted while armed only", 90, fun paused/1},
     {"a function that is too hot", 120, fun too_hot/1},
     {"a function that is too hot before it is armed", 90, fun too_hot_before/1},
     {"an entry that is too hot", 90, fun hot_entry/1},
     {"all calls cost more than the budget", 120, fun over_budget/1},
     {"functions that somebody else counts", 120, fun others_count/1},
     {"counters that somebody else sets back", 120, fun set_back/1},
     {"many functions", 120, fun many/1}].

profile(T, Target, Limits) ->
    profile(T, Target, Limits, #{}).

profile(T, Target, Limits, Opts) ->
    P = it:kprofd(T, Target, Opts#{tiers => [?TIERS, Limits, it:calm()], args => ["-interval", "1s"]}),
    it:armed(P),
    P.

no_limits() -> "{budget, none}. {hot_share, none}.\n".

%% So that tiers give no tokens: otherwise calls make events till that is too much.
no_tokens() -> "{scheduling, true}.\n".

%% Whatever was armed is gone, anybody's counters included: there is nobody else's.
left(Target, Before) ->
    it:audit(Target, Before, [processes]),
    it:equal("patterns and counters", [], it:call(Target, it_hot, patterns, [])).

armed_calls(P) ->
    it:number(P, "select sum(armed_calls) from cost").

%% The VM's count is the cost's: neither more nor less.
counted(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    P = profile(T, Target, no_limits()),
    it:call(Target, it_hot, paced, [encode, 30000]),
    it:call(Target, it_hot, requests, [500]),
    it:until("status has them", fun() -> it:said(P, "counted ([0-9]+) calls of entries") =:= 500 end),
    it:terminate(P),
    it:equal("armed calls", 30000 + 500 + 500, armed_calls(P)),
    Event = case it:is_native() of true -> "250"; false -> "1000" end,
    it:equal("it is the sum of its parts", [],
             it:sql(P, "select * from cost where cost_ns not between events * " ++ Event ++
                        " + armed_calls * 350 + scheduled * 130 + agent_ns and events * " ++ Event ++
                        " + armed_calls * 350 + scheduled * 280 + agent_ns")),
    it:check(it:number(P, "select sum(cost_ns) from cost") >= 30000 * 350, "they are in the cost"),
    it:equal("entry calls", 500, it:balance(P)),
    left(Target, Before).

plain(T) ->
    Target = it:target(T, #{kind => plain}),
    {module, it_hot} = it:call(Target, code, ensure_loaded, [it_hot]),
    Target.

%% Counters go with each load, and are there again when it is armed again. What was
%% called since the last reading is not known: the calls after the last load are.
reloaded(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    P = profile(T, Target, no_limits()),
    [begin
         it:call(Target, it_hot, reload, []),
         it:until("armed again", fun() -> is_counted(Target, encode) end)
     end || _ <- lists:seq(1, 3)],
    it:call(Target, it_hot, paced, [encode, 10000]),
    it:until("they are read", fun() -> tier_calls(Target) >= 10000 end),
    it:call(Target, it_hot, requests, [200]),
    it:terminate(P),
    it:check(armed_calls(P) >= 10400, "~b armed calls", [armed_calls(P)]),
    left(Target, Before).

%% While kprofd rests or is paused its tiers are nobody's, and cost nothing.
paused(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    P = profile(T, Target, no_limits()),
    it:call(Target, it_hot, paced, [encode, 10000]),
    {ok, _} = it:control(P, "pause"),
    it:until("paused", fun() -> it:agent_state(Target) =:= paused end),
    it:equal("counters of tiers", [],
             [C || {F, call_count, _} = C <- it:call(Target, it_hot, patterns, []), F =/= request]),
    it:call(Target, it_hot, paced, [encode, 5000]),
    it:call(Target, it_hot, requests, [50]),
    {ok, _} = it:control(P, "resume"),
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    it:call(Target, it_hot, paced, [decode, 10000]),
    it:call(Target, it_hot, requests, [100]),
    it:terminate(P),
    it:equal("armed calls", 20000 + 100 + 100, armed_calls(P)),
    %% The VM counted all requests, and the report says how many of them no type has.
    {0, Report, _} = it_kprof:kprof(T, ["report", "-db", it:db(P)]),
    [says(Report, Line) || Line <- ["^all requests +150 ", "^undefined +100 ", "^not measured +50 ",
                                    "^requests: the VM counted all; each type has those that were measured; the others"]],
    left(Target, Before).

%% By the agent's own account, with what it read just now.
tier_calls(Target) ->
    maps:get(tier_calls, it:call(Target, kprof_agent, status, [])).

is_counted(Target, F) ->
    MFA = {it_hot, F, 1},
    #{armed := Armed} = it:call(Target, kprof_agent, status, []),
    lists:member(MFA, Armed) andalso
        begin
            N = tier_calls(Target),
            it:call(Target, it_hot, paced, [F, 100]),
            tier_calls(Target) > N
        end.

disarmed(Target) ->
    case it:call(Target, kprof_agent, status, []) of
        #{disarmed := MFAs} -> MFAs;
        _ -> gone
    end.

%% It is disarmed by itself, by name, and stays so; the others are measured exactly.
too_hot(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    P = profile(T, Target, ["{hot_share, 0.5}. {budget, none}.\n", no_tokens()]),
    Pid = it:call(Target, it_hot, spin, [encode]),
    it:saw(P, "it_hot:encode/1 is not traced any more: it is called [0-9]{5,} times a second or more, which costs [0-9.e+]+ % of a"
           " scheduler, more than hot_share, 0\\.5 \\(take it out of the tiers, or raise hot_share\\)"),
    it:until("disarmed", fun() -> disarmed(Target) =:= [?ENCODE] end),
    it:equal("its counter", [], [C || {encode, _, _} = C <- it:call(Target, it_hot, patterns, [])]),
    it:call(Target, it_hot, requests, [1000]),
    it:assembled(P, 1000),
    it:equal("armed", armed, it:agent_state(Target)),
    %% The file is the same, and so is what is armed.
    {ok, _} = it:control(P, "reload"),
    it:equal("after a reload", [?ENCODE], disarmed(Target)),
    %% Another agent is told nothing of it.
    it:do(Target, fun() -> exit(whereis(kprof_agent), kill), ok end),
    it:until("armed again", fun() -> it:times_armed(P) =:= 2 end),
    #{armed := Armed} = it:call(Target, kprof_agent, status, []),
    it:equal("armed by the next agent", false, lists:member(?ENCODE, Armed)),
    it:check(lists:member(?STEP, Armed), "others are armed: ~0p", [Armed]),
    it:call(Target, it_hot, stop, [Pid]),
    it:terminate(P),
    it:equal("calls of the others", [["1000"]], texts(it:sql(P, "select sum(calls) from tier_stats where tier = 'step'"
                                                            " and identity = '_total'"))),
    it:balance(P),
    it:check(maps:get(too_hot, it:losses(P), 0) > 0, "the report has it: ~0p", [it:losses(P)]),
    it:equal("events", 1, it:number(P, "select count(*) from events where kind = 'hot' and text like 'it_hot:encode/1 %'")),
    left(Target, Before).

texts(Rows) ->
    [[binary_to_list(V) || V <- Row] || Row <- Rows].

%% Not armed at all; a check says so and fails; another tiers.conf has it.
too_hot_before(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    Pid = it:call(Target, it_hot, spin, [encode]),
    Tiers = it:write(T, "hot.conf", [?TIERS, "{hot_share, 0.5}. {budget, none}.\n"]),
    Words = "it_hot:encode/1 is too hot to trace: [0-9]{5,} calls/s would take [0-9.e+]+ (% of a scheduler|schedulers),"
        " more than hot_share, 0\\.5: ",
    {Status, Said, _} = it:run_kprofd(T, Target, #{tiers => {file, Tiers}, args => ["-check"]}),
    it:equal("exit status of the check", 1, Status),
    says(Said, "hot.conf:1:[0-9]+: error: " ++ Words ++ "it would not be traced \\(name its caller instead, or raise hot_share"),
    P = it:kprofd(T, Target, #{tiers => {file, Tiers}}),
    it:armed(P),
    says(it:errors(P), "hot.conf:1:[0-9]+: warning: " ++ Words ++ "it is not traced"),
    #{armed := Armed} = it:call(Target, kprof_agent, status, []),
    it:equal("armed", false, lists:member(?ENCODE, Armed)),
    it:check(lists:member(?STEP, Armed), "armed: ~0p", [Armed]),
    ok = file:write_file(Tiers, [?TIERS, no_limits()]),
    {ok, _} = it:control(P, "reload"),
    it:until("armed with another tiers.conf",
             fun() -> lists:member(?ENCODE, maps:get(armed, it:call(Target, kprof_agent, status, []))) end),
    it:call(Target, it_hot, stop, [Pid]),
    it:terminate(P),
    it:check(maps:get(too_hot, it:losses(P), 0) > 0, "the report has it: ~0p", [it:losses(P)]),
    Again = it:call(Target, it_hot, spin, [request]),
    {1, None, _} = it:run_kprofd(T, Target, #{tiers => "{tiers, [{web, {it_hot, request, 1}}]}. {hot_share, 0.5}.\n"}),
    says(None, "every entry is too hot to trace: nothing is traced"),
    it:call(Target, it_hot, stop, [Again]),
    left(Target, Before).

says(Text, Pattern) ->
    it:check(re:run(Text, Pattern, [multiline]) =/= nomatch, "it said~n~ts~nnot '~ts'", [Text, Pattern]).

%% Without it there are no requests: kprofd rests, and says why.
hot_entry(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{web, {it_hot, request, 1}}]}.\n{sampling, {one_in, 10000}}.\n"
                               "{hot_share, 0.5}. {budget, none}.\n{overload, [{pause_s, 600}, {max_age_ms, 60000},"
                               " {max_queue, 1000000}, {max_lag_ms, 60000}]}.\n"}),
    it:armed(P),
    Pid = it:call(Target, it_hot, spin_requests, []),
    it:saw(P, "paused for .*: entry it_hot:request/1 is called [0-9]{5,} times a second or more, which costs [0-9.e+]+ % of a scheduler, more"
           " than hot_share, 0\\.5 \\(name another entry, or raise hot_share\\); then "),
    it:until("rests", fun() -> it:agent_state(Target) =:= tripped end),
    it:call(Target, it_hot, stop, [Pid]),
    it:terminate(P),
    it:balance(P),
    left(Target, Before).

%% No function is too hot by itself, and all of them are: the hottest goes.
over_budget(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    P = profile(T, Target, ["{hot_share, none}. {budget, 0.5}.\n", no_tokens()]),
    Pid = it:call(Target, it_hot, spin, [encode]),
    it:saw(P, "it_hot:encode/1 is not traced any more: calls of all functions cost more than the budget, 0\\.5, and this"
           " one, called [0-9]{5,} times a second or more, costs [0-9.e+]+ % of a scheduler \\(name fewer functions, or raise the budget\\)"),
    it:equal("disarmed", [?ENCODE], disarmed(Target)),
    it:call(Target, it_hot, stop, [Pid]),
    it:call(Target, it_hot, paced, [decode, 1000]),
    it:terminate(P),
    it:balance(P),
    left(Target, Before).

%% On OTP 25 and 26 a counter is everybody's. Somebody sets one while kprofd rests:
%% it stays his, and counts on; kprofd says that its cost has less.
others_count(T) ->
    Target = plain(T),
    P = profile(T, Target, no_limits()),
    {ok, _} = it:control(P, "pause"),
    it:until("paused", fun() -> it:agent_state(Target) =:= paused end),
    1 = it:do(Target, fun() -> erlang:trace_pattern({it_hot, encode, 1}, true, [call_count]) end),
    it:call(Target, it_hot, paced, [encode, 1000]),
    {ok, _} = it:control(P, "resume"),
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    it:call(Target, it_hot, paced, [encode, 1000]),
    it:call(Target, it_hot, paced, [decode, 500]),
    it:equal("theirs", {call_count, 2000}, it:call(Target, it_hot, counted, [encode])),
    Ours = case it:otp(Target) < 27 of
               true ->
                   it:saw(P, "another tool counts calls of 1 function of tiers: what they cost is not in the cost"),
                   %% When he has gone it is counted.
                   it:do(Target, fun() -> erlang:trace_pattern({it_hot, encode, 1}, false, [call_count]) end),
                   it:until("it is counted", fun() -> is_integer(element(2, it:call(Target, it_hot, counted, [encode]))) end),
                   500;
               false ->
                   1500
           end,
    it:terminate(P),
    it:equal("armed calls", Ours, armed_calls(P)),
    it:equal("what is left", case it:otp(Target) < 27 of true -> []; false -> [{encode, call_count, 2000}] end,
             it:call(Target, it_hot, patterns, [])).

%% On OTP 25 and 26 cprof:restart/0 sets all counters back, those of entries too. Calls that had
%% been counted were counted again, as soon as the daemon noticed that it had seen more.
set_back(T) ->
    Target = plain(T),
    P = profile(T, Target, no_limits()),
    Restart = fun() -> erlang:trace_pattern({'_', '_', '_'}, restart, [call_count]), ok end,
    Entries = fun(N) -> fun() -> it:said(P, "counted ([0-9]+) calls of entries") >= N end end,
    [begin
         it:call(Target, it_hot, requests, [500]),
         it:until("they are counted", Entries(N * 510 - 10)),
         ok = it:do(Target, Restart),
         it:call(Target, it_hot, requests, [10]),
         it:until("counted after it", Entries(N * 510))
     end || N <- [1, 2, 3]],
    it:otp(Target) >= 27 orelse
        it:saw(P, "another tool set the VM's counters of 1 entry back, as cprof:restart"),
    it:terminate(P),
    it:equal("entry calls", 1530, it:balance(P)).

%% As many as there may be, with others' counters beside them: status goes on.
many(T) ->
    Target = it:target(T, #{kind => plain}),
    Before = it:settled(Target),
    Modules = [lists, string, file, gen_server, supervisor, io_lib, io_lib_pretty, erl_eval, erl_scan, erl_lint, dict, sets,
               orddict, ordsets, gb_trees, gb_sets, queue, array, proplists, filename, filelib, ets, maps, re, epp, erl_anno,
               digraph, sofs, timer, calendar, base64, unicode, uri_string, zip, erl_tar, erl_pp, erl_parse, beam_lib],
    Tiers = ["{tiers, [{all, [{it_hot, request, 1}", [io_lib:format(", {~s, '_', '_'}", [M]) || M <- Modules], "]}]}.\n"
             "{entry, {it_hot, request, 1}}.\n", no_limits(), it:calm()],
    P = it:kprofd(T, Target, #{tiers => Tiers}),
    it:armed(P),
    it:call(Target, it_hot, requests, [100]),
    it:until("status has them", fun() -> it:said(P, "counted ([0-9]+) calls of entries") =:= 100 end),
    {ok, _} = it:control(P, "pause"),
    {ok, _} = it:control(P, "resume"),
    it:until("armed", fun() -> it:agent_state(Target) =:= armed end),
    it:terminate(P),
    %% From OTP 27 on the calls of the agent itself are not counted.
    it:check(armed_calls(P) >= 100, "~b armed calls", [armed_calls(P)]),
    it:audit(Target, Before, [processes, modules, atoms]).
