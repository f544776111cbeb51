%% What tracing adds to a traced call: times of functions of a few microseconds
%% held it (1.8 us read as 9.3), and nothing said so. It is measured while kprofd
%% is attached, shown beside such tiers, and subtracted where that is asked for;
%% nobody's figures hold the calls that measure it.
-module(traced_tests).

-export([tests/0]).

-define(REQUESTS, 500).
-define(CALLS, 20).             % of small in each

tests() ->
    [{"what tracing adds is measured, shown, and subtracted", 30, fun measured/1},
     {"calls that measure are in nobody's figures", 30, fun apart/1},
     {"measured again after a pause", 30, fun paused/1}].

tiers() ->
    ["{tiers, [{around, {it_traced, around, 0}}, {small, {it_traced, small, 1}}]}.\n{sampling, all}.\n"
     "{budget, none}.\n", it:calm()].

profile(T, Target) ->
    P = it:kprofd(T, Target, #{tiers => tiers(), args => ["-interval", "1s"]}),
    it:armed(P),
    P.

known(P) ->
    it:until("what tracing adds is known",
             fun() ->
                     {ok, Metrics} = it:control(P, "metrics"),
                     binary:match(Metrics, <<"kprof_traced_call_seconds">>) =/= nomatch
             end).

report(T, P, Args) ->
    {0, Out, _} = it_kprof:kprof(T, ["report", "-db", it:db(P) | Args]),
    Out.

has(Text, What) ->
    string:find(Text, What) =/= nomatch.

%% us of [around, small], of the totals.
means(T, P, Args) ->
    [Head | Lines] = [string:split(L, ",", all) || L <- string:lexemes(report(T, P, ["-csv" | Args]), "\n")],
    Rows = [maps:from_list(lists:zip(Head, L)) || L <- Lines],
    [number(Mean) * 1000
     || Tier <- ["around", "small"], #{"tier" := Of, "identity" := "_total", "mean_ms" := Mean} <- Rows, Of =:= Tier].

%% What tracing adds can be all of a mean: then that is 0.
number("0") -> 0.0;
number(Text) -> list_to_float(Text).

measured(T) ->
    Target = it:target(T, #{kind => plain}),
    Before = it:settled(Target),
    [Small, Around] = it:call(Target, it_traced, truth, []),
    P = profile(T, Target),
    known(P),
    %% All at once would be 40,000 events, which a busy machine trips over.
    [begin
         ok = it:call(Target, it_traced, request, [25]),
         it:assembled(P, N)
     end || N <- lists:seq(25, ?REQUESTS, 25)],
    it:terminate(P),
    it:audit(Target, Before, [processes]),
    it:equal("entry calls", ?REQUESTS, it:balance(P)),
    it:equal("losses", #{}, it:losses(P)),
    Adds = it:number(P, "select max(traced_call_ns) from cost"),
    it:check(Adds > 0 andalso Adds < 1000000, "it adds ~b ns", [Adds]),
    Text = report(T, P, []),
    it:check(has(Text, "tracing adds to each call of "), "the report says so: ~ts", [Text]),
    it:check(has(Text, "small about"), "and names the tier: ~ts", [Text]),
    it:check(not has(Text, "~"), "what was measured is not estimated: ~ts", [Text]),
    Less = report(T, P, ["-less-tracing"]),
    it:check(has(Less, "~ estimated: less what tracing adds"), "what is subtracted is said: ~ts", [Less]),
    [Around1, Small1] = means(T, P, []),
    [Around2, Small2] = means(T, P, ["-less-tracing"]),
    Note = io_lib:format("truth ~.1f and ~.2f us; as traced ~.1f and ~.2f; less tracing ~.1f and ~.2f; it adds ~b ns",
                         [Around / 1000, Small / 1000, Around1, Small1, Around2, Small2, Adds]),
    it:check(closer(Small / 1000, Small1, Small2), "closer to the truth: ~ts", [Note]),
    it:check(closer(Around / 1000, Around1, Around2), "and its caller, too: ~ts", [Note]),
    {note, Note}.

closer(Truth, Before, After) ->
    abs(After - Truth) < abs(Before - Truth).

%% Nothing but the measurement has run: no request, no call, no loss.
apart(T) ->
    Target = it:target(T, #{kind => plain}),
    P = profile(T, Target),
    known(P),
    it:terminate(P),
    it:equal("entry calls", 0, it:balance(P)),
    it:equal("losses", #{}, it:losses(P)),
    it:equal("figures", 0, it:number(P, "select count(*) from stat")),
    it:equal("functions", 0, it:number(P, "select count(*) from function")),
    it:check(it:number(P, "select count(*) from cost where traced_call_ns > 0") > 0, "a window has it").

paused(T) ->
    Target = it:target(T, #{kind => plain}),
    Before = it:settled(Target),
    P = profile(T, Target),
    known(P),
    it:equal("paused", {ok, <<"paused\n">>}, it:control(P, "pause")),
    it:equal("patterns of a pause", [false, false],
             [element(2, it:call(Target, erlang, trace_info, [MFA, traced]))
              || MFA <- [{kprof_agent, traced_around, 1}, {kprof_agent, traced_inside, 0}]]),
    Sent = it:sent(Target),
    it:equal("resumed", {ok, <<"resumed\n">>}, it:control(P, "resume")),
    it:until("it is measured again", fun() -> it:sent(Target) > Sent end),
    ok = it:call(Target, it_traced, request, [10]),
    it:assembled(P, 10),
    it:terminate(P),
    it:audit(Target, Before, [processes]),
    it:balance(P).
