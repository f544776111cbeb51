%% How many requests are measured, by rate and by what that costs the target:
%% as bounds that hold on any machine, not as speeds.
-module(sampling_tests).

-export([tests/0]).

tests() ->
    [{"a load that sets in", 60, fun sets_in/1},
     {"what it costs, and a budget", 90, fun budget/1},
     {"a change of sampling is an event", 90, fun recorded/1},
     {"an agent that gets no processor", 120, fun no_processor/1},
     {"requests cut by an inner one, here", 90, fun(T) -> cut(T, here) end},
     {"requests cut by an inner one, elsewhere", 90, fun(T) -> cut(T, elsewhere) end}].

-define(PAIRS, 20000).
-define(FEW, 300).
-define(ONE_IN, 4).

%% An entry that is passed over takes the token of the request that it is called
%% in, without a word; inner ones that are sampled tell how often that is.
%%
%% With p = 1/n a pair is cut with p (1 - p), and has both with p p, for which
%% n - 1 are counted: the same on average. The variance of the difference is
%% (n - 1)^2 p^2 + p (1 - p) = (n - 1) / n for each pair: 6.2 times its root is
%% exceeded by chance in less than one of 10^9 runs.
cut(T, Where) ->
    Target = it:target(T, #{kind => plain}),
    Before = it:settled(Target),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{nested, [{it_driver, outer, 2}, {it_driver, inner, 1}]}]}.\n"
                               "{entry, [{it_driver, outer, 2}, {it_driver, inner, 1}]}.\n"
                               "{identity, fun ({it_driver, outer, _}) -> outer; ({it_driver, inner, _}) -> inner"
                               " end}.\n{sampling, {one_in, 4}}.\n{budget, none}.\n"
                               "{overload, [{max_age_ms, 60000}, {max_queue, 1000000}, {max_lag_ms, 60000}]}.\n"}),
    it:armed(P),
    #{outer := Outer, inner := Inner, both := Both, cut := Cut} = Truth =
        it:call(Target, it_driver, nested, [?PAIRS, Where]),
    it:terminate(P),
    it:audit(Target, Before, [processes]),
    it:equal("entry calls", 2 * ?PAIRS, it:balance(P)),
    Losses = it:losses(P),
    it:equal("sampled", Outer + Inner, it:requests(P)),
    it:equal("sampled out", 2 * ?PAIRS - Outer - Inner, maps:get(sampled_out, Losses)),
    Lost = maps:get(cut, Losses),
    it:equal("counted as cut", (?ONE_IN - 1) * Both, Lost),
    it:equal("cut, to the program", Outer - Both, Cut),
    Bound = 6.2 * math:sqrt(?PAIRS * (?ONE_IN - 1) / ?ONE_IN),
    it:check(abs(Lost - Cut) < Bound, "~b are counted as cut, and ~b were: more than ~.1f apart", [Lost, Cut, Bound]),
    {note, io_lib:format("~b counted; ~0p", [Lost, Truth])}.

%% Nothing was called before the arming: the rate is found by what comes.
sets_in(T) ->
    Target = target(T),
    P = it:kprofd(T, Target, #{tiers => tiers("{sampling, {per_second, 50}}. {budget, none}."), args => ["-interval", "1s"]}),
    it:armed(P),
    Load = it:load(T, Target, ["16", "600s"]),
    it:saw(P, "sampling one request in [0-9]+"),
    it:until("four windows under load",
             fun() -> it:number(P, "select count(*) from time_window where entry_calls > 0") >= 4 end),
    it:terminate(P),
    it:kill(Load),
    %% But for the second in which it began, 50 a second: twice that is out of
    %% reach of chance, though not of a machine that stands still and catches up.
    [_, _ | Later] = [binary_to_integer(N)
                      || [N] <- it:sql(P, "select sampled from time_window where entry_calls > 0 order by start_ns")],
    it:check(median(Later) < 100, "requests measured in each second: ~w", [Later]),
    it:check(it:number(P, "select sum(w_requests) from stat s join tier t on t.id = s.tier_id join identity i"
                       " on i.id = s.identity_id where t.name = '_total' and i.name = '_total'")
             > it:number(P, "select sum(sampled) from time_window"), "weighted"),
    it:balance(P),
    {note, io_lib:format("measured in each second: ~w", [Later])}.

%% Sampling fell to keep to the budget, and nothing said so but a line in the log, if it fell
%% far enough for more than a minute: what was measured, why, and what it cost then.
recorded(T) ->
    Target = target(T),
    Load = it:load(T, Target, ["16", "600s", "4"]),
    P = it:kprofd(T, Target, #{tiers => tiers("{sampling, all}. {budget, 0.2}."), args => ["-interval", "1s"]}),
    it:armed(P),
    it:saw(P, ": now 1 request in [0-9]+ is sampled, to keep to the budget; profiling costs [0-9.]+ % of a scheduler "),
    it:until("fewer are measured", fun() -> it:number(P, "select coalesce(sum(entry_calls) > 2 * sum(sampled)"
                                                      " and sum(sampled) > 0, 0) from time_window") =:= 1 end),
    {ok, Text} = it:control(P, "status"),
    it_kprof:says(unicode:characters_to_list(Text), "\nsampling +one request in [0-9]+, to keep to the budget\n"
                  " +changed last at "),
    {0, Report, _} = it_kprof:kprof(T, ["report", "-db", it:db(P)]),
    it_kprof:says(Report, "sampling\\s+changed\\s+(once|several\\s+times)\\s+in\\s+this\\s+time:\\s+from\\s+"
                  "[-0-9]+\\s+[:0-9]+[^\n]*\\s+on\\s+now\\s+1\\s+request\\s+in"),
    it:terminate(P),
    it:kill(Load),
    [[_, Event] | _] = it:sql(P, "select at_ns, text from event where kind = 'sampling' order by at_ns"),
    it_kprof:says(binary_to_list(Event), "^now 1 request in [0-9]+ is sampled, to keep to the budget; profiling costs "
                  "[0-9.]+ % of a scheduler \\(agent [0-9.]+, events of sampled requests [0-9.]+, armed calls [0-9.]+, "
                  "scheduling of processes with trace flags [0-9.]+\\), of a budget of 0.2$"),
    %% Not each second that the rate follows the load.
    it:check(it:number(P, "select count(*) from event where kind = 'sampling'") =< 9, "many events", []),
    it:balance(P).

%% The clock goes on while the target's host gives it no processor. By that the agent of a node
%% with 50 requests a second cost more than the budget, and every second request was not measured.
no_processor(T) ->
    Target = target(T),
    P = it:kprofd(T, Target, #{tiers => tiers("{sampling, all}. {budget, 2}. {overload, [{max_age_ms, 60000}]}."),
                               args => ["-interval", "1s"]}),
    it:armed(P),
    Self = self(),
    Host = spawn_link(fun() -> starves(Target, Self) end),
    [begin
         1 = it:call(Target, it_driver, handle, [1]),
         timer:sleep(15)
     end || _ <- lists:seq(1, ?FEW)],
    Host ! stop,
    receive {Host, stopped} -> ok end,
    it:until("all are seen", fun() -> it:said(P, "([0-9]+) assembled") >= ?FEW end),
    it:terminate(P),
    it:equal("entry calls", ?FEW, it:balance(P)),
    it:equal("measured", ?FEW, it:requests(P)),
    {note, io_lib:format("~b % of a scheduler at most", [it:number(P, "select cast(max(scheduler_percent) as integer) from costs")])}.

starves(Target, Test) ->
    receive
        stop -> Test ! {self(), stopped}
    after 3 ->
            it:signal(Target, "STOP"),
            timer:sleep(60),
            it:signal(Target, "CONT"),
            starves(Target, Test)
    end.

%% Every request traced, if it were not for the budget: a part of that, which
%% is known from a first run. Armed calls of requests that are not sampled, and the
%% scheduling of processes with flags, cost time, too, which no rate of sampling makes less:
%% 16 clients that wait 5 ms for each answer can call no more than takes three quarters of the
%% budget.
budget(T) ->
    Target = target(T),
    Load = it:load(T, Target, ["16", "600s", "4"]),
    {Free, _} = percents(T, Target, "{sampling, all}. {budget, none}."),
    it:check(median(Free) > 0, "cost without a budget: ~0p %", [Free]),
    {Held, Counted} = percents(T, Target, "{sampling, all}. {budget, 4}."),
    it:kill(Load),
    [_, _ | Later] = Held,
    %% Events and calls are what they are: that part is under it on any machine.
    [_, _ | LaterCounted] = Counted,
    it:check(median(LaterCounted) < 4.0, "what is counted is ~0p % with {budget, 4}", [Counted]),
    it:check(median(Later) < max(5.0, median(Free) / 2), "cost with a budget: ~0p %, without ~0p %",
             [Held, Free]),
    {note, io_lib:format("percent of one scheduler: ~0p without, ~0p with {budget, 4}", [Free, Held])}.

percents(T, Target, Sampling) ->
    P = it:kprofd(T, Target, #{tiers => tiers(Sampling), args => ["-interval", "1s"]}),
    it:armed(P),
    it:until("seven windows", fun() -> it:number(P, "select count(*) from costs") >= 7 end),
    {ok, Text} = it:control(P, "status"),
    it:check(re:run(Text, "^cost +[0-9.]+ % of a scheduler \\(agent [0-9.]+, events of sampled requests [0-9.]+, "
                    "armed calls [0-9.]+, scheduling of processes with trace flags [0-9.]+\\); budget [0-9]\n"
                    " +[1-9][0-9]* us/s, of which the agent [1-9]"
                    "[0-9]*; [1-9][0-9]* events/s, [1-9][0-9]* armed calls/s, [1-9][0-9]* processes scheduled/s$",
                    [multiline]) =/= nomatch, "the cost in ~ts", [Text]),
    it:terminate(P),
    it:balance(P),
    Event = case it:is_native() of true -> "250"; false -> "1000" end,
    it:equal("it is the sum of its parts", [],
             it:sql(P, "select * from cost where cost_ns not between events * " ++ Event ++
                        " + armed_calls * 350 + scheduled * 130 + agent_ns and events * " ++ Event ++
                        " + armed_calls * 350 + scheduled * 280 + agent_ns")),
    it:check(it:number(P, "select min(sum(scheduled), sum(sampled)) from cost") > 0, "all parts are there"),
    Agent = it:number(P, "select sum(agent_ns) / sum(events) from cost"),
    it:check(Agent > 0, "time of the agent's own for an event: ~b ns", [Agent]),
    %% the first and the last window are no whole seconds
    Rows = tl(lists:droplast(it:sql(P, "select 1e2 * c.cost_ns / (w.end_ns - w.start_ns),"
                                    " 1e2 * (c.cost_ns - c.agent_ns) / (w.end_ns - w.start_ns) from cost c"
                                    " join time_window w on w.id = c.window_id order by w.start_ns"))),
    lists:unzip([{binary_to_float(All), binary_to_float(Counted)} || [All, Counted] <- Rows]).

median(L) -> lists:nth((length(L) + 1) div 2, lists:sort(L)).

target(T) -> it:target(T, #{config => "#{handle => #{wait_ms => 1}}"}).

tiers(More) ->
    {ok, Text} = file:read_file(it:tiers()),
    [re:replace(Text, "^\\{(sampling|budget).*\\n", "", [multiline, global]), More, "\n"].
