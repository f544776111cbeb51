%% Garbage collection and scheduling by tier: as much as the application itself
%% knows of, in the tier where it was; and the flags that tell of it are where a
%% token is, and nowhere when all is over.
-module(pause_tests).

-export([tests/0]).

-define(TIERS, "{tiers, [{handle, {it_pauser, handle, 1}}, {collect, {it_pauser, collect, 0}},"
        " {wait, {it_pauser, wait, 0}}, {compute, {it_pauser, compute, 0}},"
        " {call_below, {it_pauser, call_below, 0}}, {below, {it_pauser, below, 0}}, {bare, {it_pauser, bare, 0}}]}.\n"
        "{identity, fun ({it_pauser, handle, [W]}) -> W end}.\n"
        "{sampling, all}.\n{budget, none}.\n{slow_ms, 0}.\n").

tests() ->
    [{"figures by tier are the application's own", 120, fun figures/1},
     {"either alone", 60, fun either/1},
     {"garbage collection from OTP 27 on", 60, fun unforced/1},
     {"off unless asked for", 60, fun off/1},
     {"flags are where tokens are", 60, fun flags/1},
     {"a pause takes the flags", 60, fun paused/1},
     {"a reload gives and takes the flags", 60, fun reloaded/1},
     {"kill -9 of kprofd, of the agent", 120, fun killed/1},
     {"another tracer's processes are left alone", 60, fun others/1},
     {"kprof trace gives the flag at any time, also where no process has it", 60, fun traced/1}].

target(T) ->
    Target = it:target(T, #{kind => plain}),
    it:call(Target, it_pauser, start, []),
    Target.

%% From OTP 27 on it has to be insisted on.
gc(Target) ->
    case it:otp(Target) >= 27 of
        true -> "{gc, force}.\n";
        false -> "{gc, true}.\n"
    end.

both(Target) -> gc(Target) ++ "{scheduling, true}.\n".

kprofd(T, Target, Text) ->
    P = it:kprofd(T, Target, #{tiers => [?TIERS, Text, it:calm()]}),
    it:armed(P),
    P.

%% On OTP 25 flags are given when it was seen that nobody else traces.
asks(Target, What, N) ->
    [it:call(Target, it_pauser, ask, [it_pauser, What]) || _ <- lists:seq(1, N)].

flagged(Target) ->
    flagged(Target, [running, garbage_collection]).

flagged(Target, Want) ->
    it:until("a request's process has the flags",
             fun() ->
                     asks(Target, bare, 1),
                     asks(Target, wait, 1),
                     Flags = it:call(Target, it_pauser, flags, [it_pauser]),
                     lists:sort(Flags) =:= lists:sort(Want)
             end).

figures(T) ->
    Target = target(T),
    Before = it:settled(Target),
    P = kprofd(T, Target, both(Target)),
    flagged(Target),
    #{wait := {Waited0, Waits0}} = it:call(Target, it_pauser, truth, []),
    [asks(Target, What, 20) || What <- [collect, wait, compute, call_below]],
    Truth = it:call(Target, it_pauser, truth, []),
    it:assembled(P, 80 + Waits0),
    it:terminate(P),
    it:audit(Target, Before),
    it:equal("losses", #{}, it:lost(P)),
    Rows = rows(P),
    it:equal("what the calls of all requests have", maps:without(["_total", "bare"], Rows), call_rows(P)),
    [it:check(Gc >= 0 andalso Out >= 0 andalso Gc + Out =< Self, "~s: ~b + ~b in ~b ns", [Tier, Gc, Out, Self])
     || {Tier, {Self, Gc, Out}} <- maps:to_list(Rows), Tier =/= "_total"],
    %% All that the layer does is to collect garbage; where that is done on another
    %% thread the process is scheduled out on the way.
    {Collected, 20} = maps:get(collect, Truth),
    {CollectSelf, CollectGc, CollectOut} = maps:get("collect", Rows),
    within("garbage collection", CollectGc + CollectOut, 0.8, Collected, CollectSelf),
    it:check(CollectGc > 0, "some of it is known as such"),
    %% What the layer waits it is scheduled out; of that it did all but the first.
    {Waited, _} = maps:get(wait, Truth),
    {WaitSelf, WaitGc, WaitOut} = maps:get("wait", Rows),
    within("waiting", WaitOut, 0.9, Waited - Waited0, WaitSelf),
    it:check(WaitGc * 10 < WaitOut, "hardly any garbage"),
    %% A process that computes gives its turn to others at times.
    {ComputeSelf, ComputeGc, ComputeOut} = maps:get("compute", Rows),
    it:check((ComputeGc + ComputeOut) * 4 < ComputeSelf, "computed: ~b + ~b of ~b ns",
             [ComputeGc, ComputeOut, ComputeSelf]),
    %% Who waits for another tier's call is scheduled out, but that is the other's
    %% time, which waits itself.
    {BelowSelf, _, BelowOut} = maps:get("below", Rows),
    {_, _, AboveOut} = maps:get("call_below", Rows),
    {Called, 20} = maps:get(call_below, Truth),
    within("below", BelowOut, 0.8, 20 * 20000000, BelowSelf),
    it:check(AboveOut * 2 < Called, "above: ~b of ~b ns", [AboveOut, Called]),
    {note, io_lib:format("collect ~.3f gc + ~.3f out, wait ~.3f out, compute ~.3f out, call_below ~.3f out of all that"
                         " they took",
                         [CollectGc / CollectSelf, CollectOut / CollectSelf, WaitOut / WaitSelf,
                          ComputeOut / ComputeSelf, AboveOut / Called])}.

%% At least this part of what the application knows of, and no more than all.
within(What, Got, Part, Truth, Self) ->
    it:check(Got >= Part * Truth andalso Got =< Self, "~s: ~b of ~b ns, self ~b ns", [What, Got, round(Truth), Self]).

rows(P) ->
    maps:from_list([{binary_to_list(Tier), {int(Self), int(Gc), int(Out)}}
                    || [Tier, Self, Gc, Out]
                           <- it:sql(P, "select t.name, sum(s.self_ns), sum(s.gc_ns), sum(s.out_ns) from stat s"
                                     " join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id"
                                     " where i.name = '_total' group by t.id")]).

%% The same by kept requests, which all of them are.
call_rows(P) ->
    maps:from_list([{binary_to_list(Tier), {int(Self), int(Gc), int(Out)}}
                    || [Tier, Self, Gc, Out]
                           <- it:sql(P, "select t.name, sum(c.self_ns), sum(c.gc_ns), sum(c.out_ns) from call c"
                                     " join tier t on t.id = c.tier_id group by t.id")]).

int(<<>>) -> null;
int(B) -> binary_to_integer(B).

either(T) ->
    Target = target(T),
    [begin
         P = kprofd(T, Target, Text),
         flagged(Target, [Flag]),
         it:assembled(P, 1),
         it:terminate(P),
         #{"wait" := {_, Gc, Out}} = rows(P),
         it:equal(Text, {HasGc, HasOut}, {Gc =/= null, Out =/= null}),
         #{"wait" := {_, CallGc, CallOut}} = call_rows(P),
         it:equal("of calls", {HasGc, HasOut}, {CallGc =/= null, CallOut =/= null})
     end || {Text, Flag, HasGc, HasOut} <- [{gc(Target), garbage_collection, true, false},
                                           {"{scheduling, true}.\n", running, false, true}]].

off(T) ->
    Target = target(T),
    P = kprofd(T, Target, "{gc, false}.\n"),
    asks(Target, wait, 5),
    it:equal("flags", [], it:call(Target, it_pauser, pauses, [])),
    it:assembled(P, 5),
    it:terminate(P),
    #{"wait" := Row} = rows(P),
    it:equal("columns", {null, null}, {element(2, Row), element(3, Row)}),
    it:equal("of calls", Row, maps:get("wait", call_rows(P))),
    it:equal("view", 0, it:number(P, "select count(*) from pause_stats")).

%% With it at work, and then not.
flags(T) ->
    Target = target(T),
    P = kprofd(T, Target, both(Target)),
    flagged(Target),
    asks(Target, call_below, 5),
    Have = it:do(Target, fun() -> [whereis(N) || N <- [it_pauser, it_pauser_below]] end),
    it:equal("who has flags", lists:sort(Have),
             lists:sort([Pid || {Pid, _} <- it:call(Target, it_pauser, pauses, [])])),
    it:equal("who stands by", [], it:call(Target, it_pauser, flags, [it_pauser_bystander])),
    %% A call without a token.
    asks(Target, bare, 1),
    it:call(Target, it_pauser, ask, [it_pauser_below, {do, fun it_pauser:bare/0}]),
    it:equal("who has flags", [], it:call(Target, it_pauser, pauses, [])),
    it:terminate(P),
    it:equal("flags at the end", [], it:call(Target, it_pauser, pauses, [])).

gone(Target, When) ->
    it:until("no flags " ++ When, fun() -> it:call(Target, it_pauser, pauses, []) =:= [] end).

paused(T) ->
    Target = target(T),
    P = kprofd(T, Target, both(Target)),
    flagged(Target),
    asks(Target, call_below, 2),
    {ok, _} = it:control(P, "pause"),
    gone(Target, "in a pause"),
    {ok, _} = it:control(P, "resume"),
    flagged(Target),
    it:terminate(P),
    gone(Target, "at the end").

reloaded(T) ->
    Target = target(T),
    P = kprofd(T, Target, ""),
    asks(Target, wait, 1),
    it:equal("flags", [], it:call(Target, it_pauser, pauses, [])),
    File = "tiers1.conf",
    _ = it:write(T, File, [?TIERS, both(Target), it:calm()]),
    {ok, _} = it:control(P, "reload"),
    flagged(Target),
    _ = it:write(T, File, [?TIERS, gc(Target), it:calm()]),
    {ok, _} = it:control(P, "reload"),
    it:until("one of them", fun() ->
                                    asks(Target, wait, 1),
                                    it:call(Target, it_pauser, flags, [it_pauser]) =:= [garbage_collection]
                            end),
    _ = it:write(T, File, [?TIERS, it:calm()]),
    {ok, _} = it:control(P, "reload"),
    gone(Target, "where they are not asked for"),
    it:terminate(P).

killed(T) ->
    Target = target(T),
    Before = it:settled(Target),
    P = kprofd(T, Target, both(Target)),
    flagged(Target),
    it:kill(P),
    it:audit(Target, Before),
    it:equal("flags after kprofd", [], it:call(Target, it_pauser, pauses, [])),
    P2 = kprofd(T, Target, both(Target)),
    flagged(Target),
    it:do(Target, fun() -> exit(whereis(kprof_agent), kill) end),
    it:until("armed again", fun() -> it:times_armed(P2) >= 2 end),
    flagged(Target),
    it:terminate(P2),
    it:audit(Target, Before).

others(T) ->
    Target = target(T),
    it:call(Target, it_pauser, trace_somebody, []),
    Theirs = it:call(Target, it_pauser, somebody, []),
    it:equal("theirs", [call, garbage_collection, running], Theirs),
    P = kprofd(T, Target, both(Target)),
    [it:equal("theirs", Theirs, it:call(Target, it_pauser, somebody, [])) || _ <- lists:seq(1, 20)],
    case it:otp(Target) >= 27 of
        true ->
            %% Two of these in one process crash the VM.
            flagged(Target, [running]);
        false ->
            %% Not where it would change what is somebody else's.
            asks(Target, wait, 1),
            it:equal("flags", [], it:call(Target, it_pauser, flags, [it_pauser]))
    end,
    it:saw(P, "not measured while other tools trace"),
    it:equal("theirs", Theirs, it:call(Target, it_pauser, somebody, [])),
    it:call(Target, it_pauser, forget_somebody, []),
    flagged(Target),
    case it:otp(Target) >= 27 of
        true -> ok;
        false -> again(Target, Theirs)
    end,
    it:terminate(P),
    gone(Target, "at the end").

%% Somebody begins while it is at work.
again(Target, Theirs) ->
    it:call(Target, it_pauser, trace_somebody, []),
    it:until("that is seen", fun() ->
                                     it:call(Target, it_pauser, trace_more, []),
                                     it:call(Target, it_pauser, somebody, []) =:= Theirs
                             end),
    [it:equal("theirs", Theirs, it:call(Target, it_pauser, somebody, [])) || _ <- lists:seq(1, 20)],
    it:call(Target, it_pauser, forget_somebody, []).

traced(T) ->
    Target = target(T),
    case it:otp(Target) < 27 of
        true -> {skipped, "it is refused there"};
        false -> traced(T, Target)
    end.

traced(T, Target) ->
    it_kprof:load(Target),
    Trace = it_kprof:background(T, Target, "trace", ["-entry", "it_counted:handle/2", "-requests", "1", "-for", "60s", "it_counted"]),
    it:until("it waits for a request", fun() -> it:call(Target, erlang, system_info, [trace_control_word]) bsr 31 =:= 1 end),
    %% It would end, since there is a kprofd.
    it:do(Target, fun() -> spawn(fun() ->
                                         true = erlang:suspend_process(whereis(kprof_tracer)),
                                         register(it_holds, self()),
                                         receive go -> ok end
                                 end), ok end),
    it:until("it is held", fun() -> is_pid(it:call(Target, erlang, whereis, [it_holds])) end),
    P = kprofd(T, Target, both(Target)),
    flagged(Target, [running]),
    it:saw(P, "garbage collection is not measured while other tools trace"),
    it:do(Target, fun() -> it_holds ! go, ok end),
    _ = it_kprof:ends(Trace),
    flagged(Target),
    it:terminate(P).

%% What would endanger the node is not done unless that is insisted on.
unforced(T) ->
    Target = target(T),
    P = kprofd(T, Target, "{gc, true}.\n{scheduling, true}.\n"),
    Has = it:otp(Target) < 27,
    flagged(Target, [running | [garbage_collection || Has]]),
    it:assembled(P, 1),
    it:terminate(P),
    #{"wait" := {_, Gc, Out}} = rows(P),
    it:equal("measured", {Has, true}, {Gc =/= null, Out =/= null}),
    it:equal("said", not Has, it:count(P, "erlang/otp#11624; \\{gc, force\\} insists") > 0).
