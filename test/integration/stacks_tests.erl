%% Stacks of processes that work for requests: what the agent's sampler sends, what that
%% costs, that nothing of it is left; and `kprof flight -stacks`.
-module(stacks_tests).

-export([tests/0]).
%% In the target.
-export([request/1, tier/1, init/1, handle_call/3, handle_cast/2, turn/1, even/1, odd/1]).
-export([kinds/0, silent/0, share/0, off/0, tripped/0, killed/0, looks/0]).

-define(LABEL, ((16#2D bsl 53) bor (5 bsl 42))).
-define(TIERS, "{tiers, [{work, \"stacks_tests:tier/1\"}]}.\n{entry, \"stacks_tests:request/1\"}.\n").

tests() ->
    [{"requests that wait, call, run and are over soon", 120, fun(T) -> run(T, kinds) end},
     {"a process that does not answer holds nobody up", 120, fun(T) -> run(T, silent) end},
     {"sampling stays within its share", 60, fun(T) -> run(T, share) end},
     {"none while tracing is off", 60, fun(T) -> run(T, off) end},
     {"none after an overload", 60, fun(T) -> run(T, tripped) end},
     {"somebody kills the sampler", 60, fun(T) -> run(T, killed) end},
     {"nothing is left of the sampler", 120, fun ways_out/1},
     {"a mailbox that grows is an event, and has rows", 90, fun mailbox/1},
     {"whose memory grows: processes, tables and binaries", 90, fun memory/1},
     {"nothing is walked through without stacks", 60, fun no_walk/1},
     {"flight -stacks of requests that hang", 60, fun hangs/1},
     {"slow requests against fast ones", 120, fun slow_fast/1},
     {"flight -stacks shows no request the stack of another", 120, fun own_stacks/1}].

%% ------------------------------------------------- through the agent alone ----

run(T, Case) ->
    Target = it:target(T, #{kind => plain}),
    {ok, Beam} = file:read_file(gen(T, "kprof_agent.beam")),
    {ok, Probe} = file:read_file(gen(T, "kprof_probe.beam")),
    Native = it:is_native(),
    Library = filename:rootname(case it:probe_library(T) of
                                    [_, File] -> File;
                                    [] -> filename:absname(filename:join(it:build(T), "kprof_probe.so"))
                                end),
    it:do(Target, fun() -> [{module, _} = code:ensure_loaded(M) || M <- [gen_server, proc_lib, rand]], ok end),
    Before = it:settled(Target),
    it:do(Target, fun() ->
                          {module, _} = code:load_binary(kprof_agent, "kprof_agent.beam", Beam),
                          {ok, _, _} = kprof_agent:start(self(), options()),
                          [{ok, _} = command({probe, Probe, Library, 4 bsl 20}) || Native],
                          ?MODULE:Case(),
                          ended(whereis(kprof_agent))
                  end),
    it:audit(Target, Before).

gen(T, File) -> filename:join([it:build(T), "gen", File]).

%% ------------------------------------------------------- in the target ----

options() ->
    #{protocol => it:protocol(), who => <<"a test">>, lease_ms => 60000, word => 1, max_queue => 100000, max_memory => 64 bsl 20,
      max_age_ms => 60000}.

command(What) ->
    Ref = make_ref(),
    whereis(kprof_agent) ! {kprof, self(), Ref, What},
    receive {kprof_reply, Ref, Answer} -> Answer after 30000 -> timeout end.

arm(Stacks) -> arm(Stacks, #{}).

arm(Stacks, More) ->
    Entry = {{?MODULE, request, 1}, entry,
             [{'_', [], [{set_tcw, {'+', {get_tcw}, 1}},
                         {message, {{[], {caller}, 1, {'andalso', {set_seq_token, label, {'bor', ?LABEL, {get_tcw}}},
                                                       {get_seq_token}}, true, [], []}}}]}], []},
    Tier = {{?MODULE, tier, 1}, tier,
            [{'_', [{is_seq_trace}], [{message, {{[], {get_seq_token}, {caller}}}}]}], []},
    Limits = maps:with([max_queue, max_memory, max_age_ms], options()),
    ok = command({arm, [Tier, Entry], maps:merge(Limits#{stacks => Stacks}, More)}).

ended(Agent) ->
    Ref = erlang:monitor(process, Agent),
    Agent ! {kprof, self(), make_ref(), stop},
    receive {'DOWN', Ref, process, Agent, normal} -> ok end.

request(What) -> _ = tier(What), ok.

tier(What) -> _ = work(What), ok.

work({wait, Ms}) -> receive after Ms -> ok end;
work({call, Server}) -> gen_server:call(Server, wait);
work({run, Ms}) -> runs(now_ms() + Ms);
work({slow, Ms}) -> runs(now_ms() + 2), only_slow(now_ms() + Ms);
work({collect, Ms}) -> collects([[N] || N <- lists:seq(1, 1000000)], now_ms() + Ms).

runs(Until) -> now_ms() >= Until orelse begin _ = lists:seq(1, 100), runs(Until) end.

only_slow(Until) -> now_ms() >= Until orelse begin _ = lists:seq(1, 100), only_slow(Until) end.

collects(Much, Until) ->
    erlang:garbage_collect(),
    now_ms() < Until andalso collects(Much, Until),
    length(Much).

now_ms() -> erlang:monotonic_time(millisecond).

init(S) -> {ok, S}.
handle_call(wait, _, S) -> receive after 20 -> ok end, {reply, ok, S}.
handle_cast(_, S) -> {noreply, S}.

%% One request after the other, in one process.
again(What) ->
    spawn(fun Loop() -> ?MODULE:request(What), Loop() end).

%% Each in a process of its own.
soon_over(What) ->
    spawn(fun Loop() -> spawn(fun() -> ?MODULE:request(What) end), receive after 5 -> Loop() end end).

%% Samples of which Is holds, as many as that; with the counts of the last message.
samples(N, Is) -> samples(N, Is, [], none).

samples(N, _, Found, Counts) when length(Found) >= N -> {Found, Counts};
samples(N, Is, Found, Counts) ->
    receive
        {kprof_stacks, _, Now, Samples} -> samples(N, Is, [S || S <- Samples, Is(S)] ++ Found, Now)
    after 30000 ->
            exit({samples, length(Found), 'of', N, Counts})
    end.

is_in(Functions) ->
    fun({_, _, _, _, _, _, Frames, _}) -> is_list(Frames) andalso [] =:= Functions -- [{M, F} || {M, F, _, _} <- Frames] end.

right(P, Samples) ->
    [begin
         true = P =:= any orelse P =:= Pid,
         ?LABEL = Label band bnot 16#3FFFFFFFFFF,
         true = StandsFor > 0 andalso Took >= 0 andalso is_integer(At),
         true = lists:member(Status, [running, runnable, waiting, garbage_collecting]),
         true = lists:all(fun({M, F, A, L}) -> is_atom(M) andalso is_atom(F) andalso is_integer(A) andalso L >= 0 end,
                          Frames)
     end || {Pid, Label, At, Took, StandsFor, Status, Frames, 0} <- Samples],
    length(lists:usort([L || {_, L, _, _, _, _, _, _} <- Samples])).

kinds() ->
    arm({200, 100000}),
    {ok, Server} = gen_server:start(?MODULE, [], []),
    [begin
         P = Start(What),
         {Samples, _} = samples(20, is_in(Functions)),
         exit(P, kill),
         Labels = right(case Own of true -> P; false -> any end, Samples),
         true = Labels > 1
     end || {Start, What, Functions, Own} <- [{fun again/1, {wait, 20}, [{?MODULE, work}], true},
                                             {fun again/1, {call, Server}, [{gen, do_call}, {gen_server, call}], true},
                                             {fun again/1, {run, 20}, [{?MODULE, runs}], true},
                                             {fun soon_over/1, {wait, 3}, [{?MODULE, work}], false}]],
    %% It keeps the token of the last request, and has nothing to do.
    idle(Server),
    gen_server:stop(Server).

idle(Server) ->
    P = again({wait, 20}),
    {_, _} = samples(20, fun(_) -> true end),
    {Samples, _} = samples(20, fun(_) -> true end),
    [] = [S || S <- Samples, element(1, S) =:= Server],
    exit(P, kill).

silent() ->
    arm({200, 200000}),
    Silent = again({collect, 2000}),
    Waiting = again({wait, 20}),
    {_, _} = samples(3, fun({P, _, _, _, _, _, Frames, _}) -> P =:= Silent andalso Frames =:= not_seen end),
    {_, {_, _, _, NotSeen, _, _, _, _}} = samples(20, fun({P, _, _, _, _, _, Frames, _}) ->
                                                       P =:= Waiting andalso Frames =/= not_seen
                                               end),
    true = NotSeen >= 3,
    [exit(P, kill) || P <- [Waiting, Silent]],
    ok.

%% By its own account, which is a part of the agent's.
share() ->
    Ppm = 5000,
    arm({1000, Ppm}),
    Ps = [again({wait, 20}) || _ <- lists:seq(1, 50)],
    {_, {_, _, _, _, _, Before, _, _}} = samples(20, fun(_) -> true end),
    T0 = erlang:monotonic_time(nanosecond),
    receive after 3000 -> ok end,
    {last, {_, _, _, _, _, After, _, _}} = flushed(none),
    Took = erlang:monotonic_time(nanosecond) - T0,
    true = (After - Before) * 1000000 div Took < 2 * Ppm orelse exit({took, After - Before, 'of', Took}),
    #{busy_ms := Busy} = kprof_agent:status(),
    true = Busy >= Before div 1000000,
    [exit(P, kill) || P <- Ps],
    ok.

flushed(Last) -> receive {kprof_stacks, _, Counts, _} -> flushed({last, Counts}) after 0 -> Last end.

off() ->
    arm({200, 100000}),
    P = again({wait, 20}),
    {_, _} = samples(5, fun(_) -> true end),
    ok = command(pause),
    receive after 200 -> ok end,
    _ = flushed(none),
    receive {kprof_stacks, _, _, _} -> exit(while_off) after 1500 -> ok end,
    ok = command(resume),
    {_, _} = samples(5, fun(_) -> true end),
    exit(P, kill),
    ok.

tripped() ->
    arm({200, 100000}, #{max_queue => 100}),
    P = again({wait, 20}),
    {_, _} = samples(5, fun(_) -> true end),
    Agent = whereis(kprof_agent),
    %% As many as that and no more: with a queue on its heap the VM ends an agent that has not run
    %% for long in a flood.
    erlang:suspend_process(Agent),
    {Q, Ref} = spawn_monitor(fun() -> [?MODULE:request({wait, 0}) || _ <- lists:seq(1, 2000)] end),
    receive {'DOWN', Ref, process, Q, normal} -> ok end,
    erlang:resume_process(Agent),
    receive {kprof_notice, trip, _, _} -> ok end,
    #{state := {tripped, _}} = kprof_agent:status(),
    _ = flushed(none),
    receive {kprof_stacks, _, _, _} -> exit(while_off) after 1500 -> ok end,
    ok = command(resume),
    exit(P, kill),
    ok.

killed() ->
    arm({200, 100000}),
    P = again({wait, 20}),
    {_, _} = samples(5, fun(_) -> true end),
    Agent = whereis(kprof_agent),
    [Worker, Sampler] = [hd([Q || Q <- processes(), is_ours(Q, F)]) || F <- [asker, stack_sampler]],
    exit(Worker, kill),
    {_, _} = samples(5, fun(_) -> true end),
    [exit(Q, kill) || Q <- processes(), is_ours(Q, stack_sampler)],
    false = is_process_alive(Sampler),
    {_, _} = samples(5, fun(_) -> true end),
    Agent = whereis(kprof_agent),
    exit(P, kill),
    ok.

is_ours(P, F) -> it_stub:runs(P) =:= {kprof_agent, F}.

%% -------------------------------------------------------------- with kprofd ----

kprofd(T, Target, More) ->
    P = it:kprofd(T, Target, #{tiers => [?TIERS, it:calm(), More]}),
    it:armed(P),
    P.

load(Target) ->
    it:do(Target, fun() -> [spawn(fun() -> receive after 500 -> loop(600) end end) || _ <- lists:seq(1, 4)], ok end).

loop(0) -> ok;
loop(N) -> ?MODULE:request({wait, 2}), loop(N - 1).

ways_out(T) ->
    {Target, Mark} = it_audit:begins(T),
    [begin
         P = kprofd(T, Target, "{stacks, [{per_second, 200}, {percent, 10}]}.\n"),
         load(Target),
         it:until("the sampler has looked", fun() -> it:do(Target, fun looks/0) end),
         leave(Way, Target, P),
         it_audit:during(Target, Mark)
     end || Way <- [terminate, kill, agent]],
    it_audit:ends(Target, Mark).

looks() -> [Q || Q <- processes(), is_ours(Q, asker)] =/= [].

leave(terminate, _, P) -> it:terminate(P);
leave(kill, _, P) -> it:kill(P);
leave(agent, Target, P) ->
    it:signal(P, "STOP"),
    it:do(Target, fun() -> exit(whereis(kprof_agent), kill), ok end),
    it:kill(P).

%% The box gets 8 messages each 100 ms, so never more than 80 a second.
mailbox(T) ->
    Target = it:target(T),
    Pid = it:do(Target, fun() ->
                                Box = spawn(fun() -> register(box_mail, self()), box() end),
                                [Box ! {mail, N} || N <- lists:seq(1, 5000)],
                                spawn(fun() -> register(letters, self()), letters(Box) end),
                                pid_to_list(Box)
                        end),
    P = kprofd(T, Target, "{stacks, [{per_second, 20}, {percent, 10}]}.\n"),
    Event = fun(Like) ->
                    it:until(Like, 60000, fun() ->
                        it:number(P, ["select count(*) from events where kind = 'mailbox' and text glob '", Like, "'"]) > 0
                                   end)
            end,
    Event(["box_mail: * messages wait, growing * a second since *:* (process ", Pid, ")"]),
    [[Text | _] | _] = it:sql(P, "select text from events where kind = 'mailbox'"),
    {match, [Waiting, Rate]} = re:run(Text, "^box_mail: (.*) messages wait, growing (.*) a second",
                                      [{capture, all_but_first, list}]),
    [it:check(Is, "~ts", [Text]) || Is <- [digits(Waiting) > 5000, digits(Rate) =< 90]],
    it:until("its row", fun() ->
        it:sql(P, "select distinct name, messages = longest, process, longest_since like '20%Z', processes, estimated"
               " from process_stats where longest > 5000")
            =:= [[<<"box_mail">>, <<"1">>, list_to_binary(Pid), <<"1">>, <<"1">>, <<"0">>]]
                         end),
    {ok, Status} = it:control(P, "status"),
    it:check(re:run(Status, "mailboxes +box_mail: .* messages wait, growing") =/= nomatch, "~ts", [Status]),
    it:do(Target, fun() -> exit(whereis(letters), kill), box_mail ! read, ok end),
    Event("box_mail: its queue is short again; * messages waited at most, since *:* (*)"),
    it:terminate(P).

digits(Text) -> list_to_integer([C || C <- Text, C >= $0, C =< $9]).

box() -> receive read -> all_read() end.

all_read() -> receive _ -> all_read() end.

letters(Box) ->
    [Box ! {mail, more} || _ <- lists:seq(1, 8)],
    receive after 100 -> letters(Box) end.

%% What is kept grows by known sizes.
memory(T) ->
    Target = it:target(T),
    it:do(Target, fun() -> spawn(fun() -> register(hoard, self()), hoard(ets:new(shop_cache, [public, named_table]), 0, []) end), ok end),
    P = kprofd(T, Target, "{stacks, [{per_second, 20}, {percent, 10}]}.\n"),
    Rows = fun(What) ->
                   it:until(What, 60000, fun() -> it:number(P, ["select count(*) from (", What, ")"]) > 0 end)
           end,
    Rows("select * from memory_stats where kind = 'tables' and name = 'shop_cache' and owner = 'hoard' and count = 1"
         " and objects >= 2000 group by name having max(memory_mb) > 1.9 * min(memory_mb)"),
    Rows("select * from process_stats where name = 'hoard' and not estimated"
         " group by name having max(binary_mb) >= 20 and max(binary_mb) > 1.9 * min(binary_mb)"),
    Rows("select * from process_stats where name = 'hoard' and reductions_per_s > 0 and processes = 1 and messages = 0"),
    Rows("select start from memory_stats where kind = 'node' and name in ('total', 'processes', 'system', 'atom', 'binary',"
         " 'code', 'ets') and memory_mb > 0 group by start having count(*) = 7"),
    Rows("select * from memory_stats where name = 'atom' and count > 5000 and most >= count"),
    it:terminate(P).

%% 10 MB of binaries and 1000 objects each second.
hoard(Table, N, All) ->
    [ets:insert(Table, {N * 1000 + I, lists:seq(1, 20)}) || I <- lists:seq(1, 1000)],
    receive after 1000 -> hoard(Table, N + 1, [binary:copy(<<0>>, 10000000) | lists:sublist(All, 30)]) end.

no_walk(T) ->
    Target = it:target(T),
    P = kprofd(T, Target, ""),
    load(Target),
    it:until("requests are stored", fun() -> it:requests(P) > 0 end),
    it:equal("its processes", [], it:do(Target, fun() -> [Q || Q <- processes(), is_ours(Q, usage)] end)),
    it:equal("rows", 0, it:number(P, "select count(*) from usage")),
    it:terminate(P).

hangs(T) ->
    Target = it:target(T),
    P = kprofd(T, Target, ""),
    it:do(Target, fun() ->
                          {ok, Server} = gen_server:start(?MODULE, [], []),
                          sys:suspend(Server),
                          spawn(fun() -> ?MODULE:request({call, Server}) end),
                          spawn(fun() -> ?MODULE:request({wait, infinity}) end),
                          ok
                  end),
    it:until("they run", fun() -> it:said(P, "([0-9]+) in flight") =:= 2 end),
    {ok, Text} = it:control(P, "flight stacks"),
    [it:check(re:run(Text, Re, [multiline]) =/= nomatch, "~s in ~ts", [Re, Text])
     || Re <- ["^    stacks_tests:request/1 > work, for ", "^    process <0\\.[0-9]+\\.0> on .*, in a call$",
               ", waiting$", "^        gen:do_call/[0-9]:[0-9]+$", "^        stacks_tests:work/1:[0-9]+$", "^2 in flight"]],
    {ok, Json} = it:control(P, "flight json stacks"),
    [it:check(re:run(Json, Re) =/= nomatch, "~s in ~ts", [Re, Json])
     || Re <- ["\"path\":\\[\"stacks_tests:request/1\",\"work\"\\],\"state\":\"in a call\",\"frames\":\\[\"",
               "stacks_tests:work/1:[0-9]+\"\\]", "\"notes\":\\[\\]"]],
    %% No more than 200 processes of a node are asked: the others were said to have ended.
    it:do(Target, fun() ->
                          [spawn(fun() -> ?MODULE:request({wait, infinity}) end)
                           || _ <- lists:seq(1, 201)],
                          ok
                  end),
    it:until("all run", fun() -> it:said(P, "([0-9]+) in flight") =:= 203 end),
    {ok, Many} = it:control(P, "flight stacks n=1000"),
    Count = fun(Re) -> {match, Found} = re:run(Many, Re, [global, multiline]), length(Found) end,
    it:equal("asked", 200, Count("^    process .*, (waiting|in a call)$")),
    it:equal("not asked", 3, Count("^    process .*, which was not asked$")),
    it:equal("note", 1, Count(": only 200 processes were asked, those of its oldest requests$")),
    {ok, _} = it:control(P, "pause"),
    {ok, Paused} = it:control(P, "flight stacks"),
    it:check(re:run(Paused, "tracing is off there: paused") =/= nomatch, "~ts", [Paused]),
    it:terminate(P).

%% One request in ten is slow, by a function that the others do not run.
slow_fast(T) ->
    Target = it:target(T),
    P = kprofd(T, Target, "{sampling, all}.\n{budget, none}.\n{stacks, [{per_second, 200}, {percent, 10}]}.\n"),
    it:do(Target, fun() ->
                          [?MODULE:request(case N rem 10 of 0 -> {slow, 40}; _ -> {run, 2} end) || N <- lists:seq(1, 600)],
                          ok
                  end),
    it:assembled(P, 600),
    it:terminate(P),
    it:equal("requests, all with an end", 600,
             it:number(P, "select sum(requests) - sum(unfinished) from tier_stats where tier = '_total'"
                       " and identity <> '_total'")),
    %% A fast one that had to wait for a processor may have taken as long.
    Args = ["report", "-stacks", "-db", it:db(P), "-took", "20ms", "-against", "durations"],
    {0, Json, _} = it_kprof:kprof(T, Args ++ ["-json"]),
    {match, [Slow, Fast]} = re:run(Json, "\"_total\",\"requests\":([0-9]+).*\"_total\",\"requests\":([0-9]+)",
                                   [{capture, all_but_first, list}]),
    it:equal("both sides", 600, list_to_integer(Slow) + list_to_integer(Fast)),
    it:check(list_to_integer(Slow) >= 60 andalso list_to_integer(Slow) < 600, "~s slow ones", [Slow]),
    it:equal("samples of it in fast requests", 0,
             it:number(P, "select count(*) from tier_stacks where frames like '%stacks_tests:only_slow/1%'"
                       " and over_ms < 15")),
    {0, Text, _} = it_kprof:kprof(T, Args),
    [it:check(re:run(Text, Re, [multiline]) =/= nomatch, "~s in ~ts", [Re, Text])
     || Re <- ["^stacks_tests:only_slow/1 +work +~[0-9]+ ms +~0 +~\\+[0-9]+ ms",
               "requests that took over 16 ms", "^of these: .*, ~" ++ Slow ++ " requests"]].

%% A client makes one request after the other, of two kinds by turns. While the list waited for the
%% stacks of its processes, they went on to the next request, and its stack stood below the first.
own_stacks(T) ->
    Target = it:target(T),
    P = it:kprofd(T, Target,
                  #{tiers => ["{tiers, [{even, \"stacks_tests:even/1\"}, {odd, \"stacks_tests:odd/1\"}]}.\n"
                              "{entry, \"stacks_tests:turn/1\"}.\n{sampling, all}.\n{budget, none}.\n", it:calm()]}),
    it:armed(P),
    it:do(Target, fun() -> [spawn(fun() -> turns(I) end) || I <- lists:seq(1, 16)], ok end),
    it:until("they run", fun() -> it:said(P, "([0-9]+) in flight") > 0 end),
    Seen = lists:sum([own_stacks_look(P) || _ <- lists:seq(1, 60)]),
    it:check(Seen >= 20, "~b requests had a stack", [Seen]),
    it:terminate(P).

own_stacks_look(P) ->
    {ok, Json} = it:control(P, "flight json stacks"),
    {match, Found} = re:run(Json, "\"path\":\\[([^]]*)\\],\"state\":([^,]*),.*?\"frames\":\\[([^]]*)\\]",
                            [global, {capture, all_but_first, list}]),
    [it:check(string:find(Frames, "stacks_tests:" ++ Tier ++ "/1:") =/= nomatch, "~s: ~ts", [Tier, Json])
     || {Path, Frames} <- [{Path, Frames} || [Path, State, Frames] <- Found, State =/= "null", State =/= "\"not seen\""],
        Tier <- ["even", "odd"], string:find(Path, Tier) =/= nomatch],
    length([x || [_, _, Frames] <- Found, Frames =/= ""]).

turns(I) -> ?MODULE:turn(I), turns(I + 1).

turn(I) when I rem 2 =:= 0 -> ?MODULE:even(I), ok;
turn(I) -> ?MODULE:odd(I), ok.

even(I) -> receive after 5 + I rem 20 -> ok end.
odd(I) -> receive after 5 + I rem 20 -> ok end.
