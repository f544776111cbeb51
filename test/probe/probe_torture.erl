%% probe_torture - the native probe by itself, in a VM that it must not hurt.
%%
%%     erl -noinput -pa GEN -s probe_torture main -extra LIBRARY CYCLES
%%
%% GEN has kprof_probe.beam; LIBRARY is the probe's, without .so, however it
%% was built: with sanitizers, or for valgrind. CYCLES: how often it is loaded
%% and unloaded while processes are inside traced functions. SEED=N in the
%% environment has the same random moments again.
-module(probe_torture).

-export([main/0]).
-export([entry/1, tier/1, raise/1, long/1, dirty/0]).

-define(CALLS, 2000).
-define(SMALL, 1).              % bytes: rings as small as they come
%% Cycles that get what all others need; and what may be more at their end. The
%% VM itself keeps 1 to 2 KB of each module that is loaded, by the kernel's account.
-define(WARM, 20).
-define(TELL, 1000).
-define(MAPS, 20).
-define(CLOCKS_APART, 1000000).  % ns, by a machine that is busy
-define(WAIT_MS, 60000).        % for what comes by itself, on a machine that is busy
-define(GROWN, (4 bsl 20)).
-define(GROWN_RSS, (24 bsl 20)).

main() ->
    [Library, Cycles] = init:get_plain_arguments(),
    Code = try
               put(library, filename:absname(Library)),
               io:format("OTP ~s, ~ts, SEED=~b~n", [erlang:system_info(otp_release), Library, seed()]),
               [test(Name, Fun) || {Name, Fun} <- tests(list_to_integer(Cycles))],
               0
           catch Class:Reason:Stack ->
                   io:format("~p: ~0P~n~P~n", [Class, Reason, 40, Stack, 60]),
                   1
           end,
    halt(Code).

seed() ->
    Seed = case os:getenv("SEED", "") of
               "" -> erlang:system_time(second) rem 100000;
               Text -> list_to_integer(Text)
           end,
    _ = rand:seed(exsss, {Seed, 1, 1}),
    Seed.

tests(Cycles) ->
    [{"every event is drained, in order", fun in_order/0},
     {"times are the VM's", fun times/0},
     {"full rings drop, and count exactly", fun full/0},
     {"a drain takes no more than it may", fun bounded/0},
     {"who called lately, the newest if not all", fun recent/0},
     {"definitions outlive the events that are dropped", fun definitions/0},
     {"dirty schedulers", fun dirty_schedulers/0},
     {"schedulers come and go", fun churn/0},
     {"more threads than rings", fun ringless/0},
     {"only the owner drains", fun owner/0},
     {"nobody drains: it ends by itself", fun orphan/0},
     {"an event wakes the one who drains", fun sleeper/0},
     {"one who sleeps is killed, or stops", fun sleeper_ends/0},
     {"the one who drains is killed", fun killed/0},
     {"loaded over itself", fun upgraded/0},
     {"what cannot be loaded is refused", fun refused/0},
     {"rings are emptied in a long change", fun long_change/0},
     {"loaded and unloaded while calls go on", fun() -> cycles(Cycles) end}].

test(Name, Fun) ->
    Fun(),
    unload(),
    io:format("ok    ~s~n", [Name]).

%% ---- what is traced ----

entry(N) ->
    [?MODULE:tier(I) || I <- lists:seq(1, N)],
    ok.

tier(I) -> {I, lists:seq(1, 50)}.
raise(I) -> error(I).
long(Us) -> timer:sleep(Us), ok.
dirty() -> file:read_file(code:which(?MODULE)), ok.

%% ---- who drains sleeps ----

%% Woken once, by the first event, and again only if it sleeps again.
sleeper() ->
    load(1 bsl 20),
    arm(),
    [begin
         true = kprof_probe:sleep(),
         true = kprof_probe:sleep(),
         receive {select, _, _, _} -> error(nothing_came) after 20 -> ok end,
         in_process(fun() -> entry(10) end),
         in_process(fun() -> entry(10) end),
         receive {select, _, undefined, ready_input} -> ok after ?WAIT_MS -> error(not_woken) end,
         receive {select, _, _, _} -> error(woken_again) after 20 -> ok end,
         {0, 0, 44, _} = drain()
     end || _ <- lists:seq(1, 20)],
    disarm(),
    ok = kprof_probe:stop(),
    false = kprof_probe:sleep().

%% No descriptor is left, also where events wake it meanwhile.
sleeper_ends() ->
    Open = fun() -> length(element(2, file:list_dir("/proc/self/fd"))) end,
    Library = get(library),
    ends_asleep(Library, true),         % the VM opens its own when it first waits
    Before = Open(),
    [ends_asleep(Library, I rem 2 =:= 0) || I <- lists:seq(1, 20)],
    %% The last one may not be gone yet, here and before.
    wait_for(fun() -> erlang:garbage_collect(), Open() =< Before end).

ends_asleep(Library, KillFirst) ->
    unload(),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       put(library, Library),
                                       load(1 bsl 20),
                                       true = kprof_probe:sleep(),
                                       arm(),
                                       receive never -> ok end
                               end),
    wait_for(fun() -> erlang:function_exported(kprof_probe, sleep, 0) andalso
                          erlang:trace_info({?MODULE, tier, 1}, traced) =:= {traced, local} end),
    KillFirst andalso exit(Pid, kill),
    in_process(fun() -> entry(10) end),
    KillFirst orelse exit(Pid, kill),
    receive {'DOWN', Ref, process, Pid, killed} -> ok end,
    unload().

wait_for(Fun) -> wait_for(Fun, erlang:monotonic_time(millisecond) + ?WAIT_MS).

wait_for(Fun, Until) ->
    case Fun() of
        true -> ok;
        _ -> true = erlang:monotonic_time(millisecond) < Until, timer:sleep(10), wait_for(Fun, Until)
    end.

%% ---- the probe ----

load(MaxBytes) -> load(MaxBytes, 16).

load(MaxBytes, Threads) ->
    unload(),
    {module, kprof_probe} = code:load_binary(kprof_probe, "kprof_probe.beam", beam()),
    ok = kprof_probe:load(get(library), Threads, MaxBytes),
    ok = kprof_probe:start().

beam() ->
    {ok, Beam} = file:read_file(code:where_is_file("kprof_probe.beam")),
    Beam.

unload() ->
    disarm(),
    [begin stop(), code:purge(kprof_probe), code:delete(kprof_probe),
           true = code:purge(kprof_probe) =:= false
     end || erlang:module_loaded(kprof_probe), erlang:function_exported(kprof_probe, stop, 0)],
    ok.

%% One who was killed between the two steps of load/2 left a module without its library.
stop() ->
    try kprof_probe:stop()
    catch error:not_loaded -> ok
    end.

%% Calls of entry/1 set a token; what they call is traced because of it.
arm() ->
    Label = {'bor', {'band', {set_tcw, {'+', {get_tcw}, 1}}, 16#FFFF}, 16#1000000000000},
    pattern(entry, 1, [{'_', [], [{message, {{ {{entry, <<"one">>}}, {caller}, 1, {get_seq_token},
                                              {set_seq_token, label, Label}, [], {get_seq_token}}}},
                                  {exception_trace}]}]),
    [pattern(F, A, tier_spec()) || {F, A} <- [{tier, 1}, {raise, 1}, {long, 1}, {dirty, 0}]],
    {Module, State} = kprof_probe:tracer(),
    erlang:trace(all, true, [call, arity, {tracer, Module, State}]),
    ok.

tier_spec() ->
    [{'_', [{is_seq_trace}], [{message, {{ [], {get_seq_token}, {caller}}}}, {exception_trace}]}].

pattern(F, A, Spec) ->
    1 = erlang:trace_pattern({?MODULE, F, A}, Spec, [local]).

disarm() ->
    [erlang:trace_pattern({M, '_', '_'}, false, [local]) || M <- [?MODULE, prim_file]],
    erlang:trace(all, false, [all]),
    seq_trace:reset_trace().

%% {Dropped, DroppedEntries, Events, Chunks} of all there is.
drain() -> drain(0, []).

drain(Events, Chunks) ->
    {_, _, _, Dropped, Entries, N, More, New} = kprof_probe:drain(8192),
    case More of
        true -> drain(Events + N, Chunks ++ New);
        false -> {Dropped, Entries, Events + N, Chunks ++ New}
    end.

in_process(Fun) ->
    {Pid, Ref} = spawn_monitor(Fun),
    receive {'DOWN', Ref, process, Pid, Reason} -> Reason end.

%% [{Kind, Time}] of a chunk's events, definitions left out.
events(<<_:8/binary, Records/binary>>) -> records(Records).

records(<<>>) -> [];
records(<<Kind, _:24, Bytes:16/little, _/binary>> = All) when Kind =:= 9; Kind =:= 10 ->
    N = (8 + Bytes + 47) div 48 * 48,
    <<_:N/binary, More/binary>> = All,
    records(More);
records(<<Setting, _:47/binary, More/binary>>) when Setting =:= 7; Setting =:= 8 -> records(More);
records(<<Kind, _:7/binary, Time:64/signed-little, _:32/binary, More/binary>>) ->
    [{Kind, Time} | records(More)].

equal(Same, Same) -> ok;
equal(Want, Got) -> error({wanted, Want, got, Got}).

%% ---- tests ----

in_order() ->
    load(32 bsl 20),
    arm(),
    normal = in_process(fun() -> ?MODULE:entry(?CALLS), exit(normal) end),
    {0, 0, N, Chunks} = drain(),
    equal(2 * (?CALLS + 1), N),
    All = lists:append([events(C) || C <- Chunks]),
    equal(N, length(All)),
    [begin
         Times = [T || {_, T} <- events(C)],
         equal(lists:sort(Times), Times)
     end || C <- Chunks],
    %% By time, as kprofd reads them: a call, then its return.
    [{1, _} | Tiers] = lists:keysort(2, All),
    equal(lists:append(lists:duplicate(?CALLS, [2, 5])) ++ [5], [K || {K, _} <- Tiers]).

%% Which the probe does not ask for them: they come between two looks at its clock,
%% whatever was drained in between, but for what two clocks cannot be compared by.
times() ->
    load(32 bsl 20),
    arm(),
    [begin
         Before = erlang:monotonic_time(nanosecond),
         normal = in_process(fun() -> ?MODULE:entry(10), exit(normal) end),
         After = erlang:monotonic_time(nanosecond),
         I rem 3 =:= 0 andalso timer:sleep(I),
         {Now, Oldest, _, 0, 0, 22, false, Chunks} = kprof_probe:drain(8192),
         Times = [T || C <- Chunks, {_, T} <- events(C)],
         equal(Oldest, lists:min(Times)),
         [true = T > Before - ?CLOCKS_APART andalso T < After + ?CLOCKS_APART || T <- Times],
         true = Now > After - ?CLOCKS_APART
     end || I <- lists:seq(1, 20)].

full() ->
    load(?SMALL),
    arm(),
    #{records := 1024} = kprof_probe:info(),
    Runs = 5,
    Drained = [begin
                   normal = in_process(fun() -> ?MODULE:entry(?CALLS), exit(normal) end),
                   drain()
               end || _ <- lists:seq(1, Runs)],
    {Dropped, Entries, _, _} = lists:last(Drained),
    equal(Runs * 2 * (?CALLS + 1), Dropped + lists:sum([N || {_, _, N, _} <- Drained])),
    true = Dropped > 0,
    Seen = [K || {_, _, _, Chunks} <- Drained, C <- Chunks, {K, _} <- events(C), K =:= 1],
    equal(Runs, length(Seen) + Entries).

%% However many rings have how much; and all of it is there in the end. The first
%% event of a ring has definitions with it.
bounded() ->
    load(32 bsl 20),
    arm(),
    Run = fun() -> ?MODULE:entry(?CALLS), exit(done) end,
    Workers = [spawn_opt(Run, [monitor, {scheduler, S}]) || S <- lists:seq(1, erlang:system_info(schedulers_online))],
    [receive {'DOWN', Ref, process, Pid, Reason} -> equal(done, Reason) end || {Pid, Ref} <- Workers],
    Some = [bounded(Max) || Max <- [1, 10, 100, 1000]],
    {0, 0, N, _} = drain(),
    equal(length(Workers) * 2 * (?CALLS + 1), N + lists:sum(Some)).

bounded(Max) ->
    {_, _, Waiting, 0, 0, N, true, Chunks} = kprof_probe:drain(Max),
    true = Waiting > 0 andalso N > 0 andalso N =< Max,
    true = lists:sum([(size(C) - 8) div 48 || C <- Chunks]) =< max(Max, 30),
    N.

%% More than there is room for: the oldest are left out.
recent() ->
    load(32 bsl 20),
    arm(),
    Called = fun(N) ->
                     lists:foldl(fun(I, Pids) ->
                                         Pid = called(),
                                         I rem 100 =:= 0 andalso ({0, 0, _, _} = drain()),
                                         [Pid | Pids]
                                 end, [], lists:seq(1, N))
             end,
    Few = Called(100),
    equal(lists:sort(Few), lists:usort(kprof_probe:recent())),
    equal([], kprof_probe:recent()),
    Last = lists:sublist(Called(6000), 3000),
    Recent = kprof_probe:recent(),
    equal(4096, length(Recent)),
    equal([], Last -- Recent).

called() ->
    {P, Ref} = spawn_monitor(fun() -> ?MODULE:entry(1), exit(normal) end),
    receive {'DOWN', Ref, process, P, normal} -> P end.

%% Of chunks that cannot be sent, what later ones need.
definitions() ->
    load(32 bsl 20),
    arm(),
    normal = in_process(fun() -> ?MODULE:entry(10), exit(normal) end),
    {0, 0, N, Chunks} = drain(),
    {N, 1, Kept} = kprof_probe:definitions(Chunks),
    true = Kept =/= [],
    [[] = events(C) || C <- Kept],
    {0, 0, Kept} = kprof_probe:definitions(Kept),
    {0, 0, []} = kprof_probe:definitions([]),
    [{'EXIT', {badarg, _}} = (catch kprof_probe:definitions(Bad)) || Bad <- [[x], [<<1, 2>>], [<<0:72>>]]],
    ok.

dirty_schedulers() ->
    load(32 bsl 20),
    arm(),
    [erlang:trace_pattern({prim_file, F, '_'}, tier_spec(), [local])
     || F <- [open_nif, read_nif, close_nif, get_handle_nif, read_file, open, read, close]],
    normal = in_process(fun() ->
                                ?MODULE:entry(1),
                                [?MODULE:dirty() || _ <- lists:seq(1, 200)],
                                [erlang:garbage_collect() || _ <- lists:seq(1, 20)],
                                exit(normal)
                        end),
    {0, 0, N, _} = drain(),
    true = N > 2 * 200.

%% Threads sleep and others take over what they did: each event is there once, or
%% is counted where its ring was full.
churn() ->
    load(64 bsl 20),
    arm(),
    Online = erlang:system_info(schedulers_online),
    Dirty = erlang:system_info(dirty_cpu_schedulers_online),
    All = erlang:system_info(schedulers),
    Workers = [spawn_monitor(fun() -> [?MODULE:entry(?CALLS div 10) || _ <- lists:seq(1, 10)], exit(done) end)
               || _ <- lists:seq(1, 8)],
    Events = [begin
                  erlang:system_flag(schedulers_online, I rem All + 1),
                  %% There cannot be more of these.
                  erlang:system_flag(dirty_cpu_schedulers_online,
                                     min(I rem All + 1, erlang:system_info(dirty_cpu_schedulers))),
                  {_, _, Some, _} = drain(),
                  Some
              end || I <- lists:seq(1, 20)],
    {Dropped, N} = drained_until_done(Workers, lists:sum(Events)),
    erlang:system_flag(schedulers_online, Online),
    erlang:system_flag(dirty_cpu_schedulers_online, Dirty),
    equal(8 * 10 * 2 * (?CALLS div 10 + 1), N + Dropped).

drained_until_done([], N) ->
    {Dropped, _, More, _} = drain(),
    {Dropped, N + More};
drained_until_done([{Pid, Ref} | More] = Workers, N) ->
    {_, _, Now, _} = drain(),
    receive
        {'DOWN', Ref, process, Pid, Reason} ->
            equal(done, Reason),
            drained_until_done(More, N + Now)
    after 10 ->
            drained_until_done(Workers, N + Now)
    end.

%% The first that has an event gets the only one: what others have is counted.
ringless() ->
    load(32 bsl 20, 1),
    arm(),
    Run = fun() -> [?MODULE:entry(100) || _ <- lists:seq(1, 20)], exit(done) end,
    Workers = [spawn_opt(Run, [monitor, {scheduler, S}])
               || S <- lists:seq(1, erlang:system_info(schedulers_online)), _ <- [1, 2]],
    [receive {'DOWN', Ref, process, Pid, Reason} -> equal(done, Reason) end || {Pid, Ref} <- Workers],
    {Dropped, Entries, N, Chunks} = drain(),
    equal(length(Workers) * 20 * 2 * 101, N + Dropped),
    Seen = [K || C <- Chunks, {K, _} <- events(C), K =:= 1],
    equal(length(Workers) * 20, length(Seen) + Entries),
    io:format("      ~b of ~b events had a ring~n", [N, N + Dropped]).

owner() ->
    load(32 bsl 20),
    [{'EXIT', {badarg, _}} = in_process(fun() -> exit(catch Fun()) end)
     || Fun <- [fun() -> kprof_probe:drain(100) end, fun kprof_probe:start/0]],
    {'EXIT', {badarg, _}} = (catch kprof_probe:drain(none)),
    {0, 0, 0, []} = drain().

%% Rings fill, and after ten seconds the process flags go, too. Who begins again,
%% as one that was only held up does, has events again.
orphan() ->
    Self = self(),
    unload(),
    in_process(fun() -> put(library, library(Self)), load(?SMALL), arm() end),
    Worker = spawn_link(fun() -> forever() end),
    until(fun() -> not maps:get(active, kprof_probe:info()) end),
    %% They go with the next event, when it runs.
    until(fun() -> {flags, []} =:= erlang:trace_info(Worker, flags) end),
    ok = kprof_probe:start(),
    {'EXIT', {badarg, _}} = (catch kprof_probe:start()),
    #{active := true} = kprof_probe:info(),
    {_, _, _, _} = drain(),
    arm(),
    until(fun() -> {_, _, N, _} = drain(), N > 0 end),
    unlink(Worker),
    exit(Worker, kill).

library(Pid) ->
    {dictionary, D} = process_info(Pid, dictionary),
    proplists:get_value(library, D).

until(Fun) ->
    until_before(erlang:monotonic_time(millisecond) + ?WAIT_MS, Fun).

until_before(Deadline, Fun) ->
    case Fun() of
        true -> ok;
        false ->
            erlang:monotonic_time(millisecond) < Deadline orelse error(waited_in_vain),
            timer:sleep(20),
            until_before(Deadline, Fun)
    end.

forever() ->
    ?MODULE:entry(3),
    _ = (catch ?MODULE:raise(1)),
    forever().

killed() ->
    Library = get(library),
    Workers = [spawn_link(fun() -> forever() end) || _ <- [1, 2, 3]],
    [begin
         {Pid, Ref} = spawn_monitor(fun() -> put(library, Library), load(1 bsl 20), arm(), drain_forever() end),
         timer:sleep(rand:uniform(12) - 1),     % 0: while it loads
         exit(Pid, kill),
         receive {'DOWN', Ref, process, Pid, _} -> ok end,
         unload()
     end || _ <- lists:seq(1, 20)],
    [begin unlink(W), exit(W, kill) end || W <- Workers],
    ok.

drain_forever() ->
    kprof_probe:drain(8192),
    drain_forever().

%% The old code's probe is there until it is purged.
upgraded() ->
    load(32 bsl 20),
    arm(),
    Worker = spawn_link(fun() -> forever() end),
    [begin
         {module, kprof_probe} = code:load_binary(kprof_probe, "kprof_probe.beam", beam()),
         ok = kprof_probe:load(get(library), 16, 1 bsl 20),
         ok = kprof_probe:start(),
         true = kprof_probe:sleep(),
         timer:sleep(5),
         {_, _, _, _} = drain(),
         false = code:purge(kprof_probe)
     end || _ <- lists:seq(1, 10)],
    unlink(Worker),
    exit(Worker, kill).

refused() ->
    unload(),
    Load = fun(Path, Opts) ->
                   {module, kprof_probe} = code:load_binary(kprof_probe, "kprof_probe.beam", beam()),
                   Result = case Opts of
                                {Threads, Bytes} -> catch kprof_probe:load(Path, Threads, Bytes)
                            end,
                   code:purge(kprof_probe), code:delete(kprof_probe), code:purge(kprof_probe),
                   Result
           end,
    {error, {load_failed, _}} = Load("/nowhere/kprof_probe", {1, 1}),
    {error, {load, _}} = Load(get(library), {100000, 1}),
    ok.

%% The agent armed some hundred functions more, one by one, and rings were not looked
%% at before it had done so: one batch came, or two. We are its daemon.
long_change() ->
    unload(),
    Limits = #{max_queue => 1000000, max_memory => 1 bsl 30, max_age_ms => 600000,
               messages => true},
    {module, kprof_agent} = code:ensure_loaded(kprof_agent),
    {error, {protocol, Protocol}} = kprof_agent:start(self(), #{protocol => none}),
    {ok, Agent, _} = kprof_agent:start(self(), Limits#{protocol => Protocol, who => <<"torture">>, lease_ms => 600000,
                                                    word => 1}),
    Ref = erlang:monitor(process, Agent),
    {{ok, _}, _} = ask(Agent, {probe, beam(), get(library), 32 bsl 20}),
    {ok, _} = ask(Agent, {arm, [{{?MODULE, tier, 1}, tier, tier_spec(), []}], Limits}),
    Workers = [spawn_link(fun sampled/0) || _ <- lists:seq(1, 4)],
    [receive {kprof_events, _, _, _, _, [_ | _]} -> ok end || _ <- lists:seq(1, 3)],
    Added = [{{M, F, A}, tier, tier_spec(), []}
             || M <- [dict, gb_sets, gb_trees, orddict, ordsets, sets, queue, array, digraph, digraph_utils, string,
                      calendar, base64, uri_string, erl_pp, erl_scan, zip, sofs, qlc, rand, proplists],
                {module, _} <- [code:ensure_loaded(M)],
                {F, A} <- M:module_info(exports), F =/= module_info],
    true = length(Added) > 500,
    true = lists:any(fun(_) -> changed(Agent, Added, Limits) >= 4 end, lists:seq(1, 5)),
    ended(Agent, {change, [], [], Limits}, fun({ok, _}) -> ok end),
    ended(Agent, {change, [], [{{?MODULE, none, 0}, tier, tier_spec(), []}], Limits}, fun({{error, _}, _}) -> ok end),
    [begin unlink(W), exit(W, kill) end || W <- Workers],
    Agent ! {kprof, self(), make_ref(), stop},
    receive {'DOWN', Ref, process, Agent, Reason} -> equal(normal, Reason) end,
    until(fun() -> not lists:any(fun erlang:module_loaded/1, [kprof_agent, kprof_probe]) end).

%% The probe ends by itself where nobody drains for long, as in a change that is held
%% up. What was dropped did not trip then, and so nothing came any more.
ended(Agent, Change, IsExpected) ->
    kprof_probe:stop(),
    timer:sleep(100),           % its flags go where processes run
    IsExpected(ask(Agent, Change)),
    until(fun() -> maps:get(active, kprof_probe:info()) end),
    drop_events(),
    receive {kprof_events, _, _, _, _, [_ | _]} -> ok after ?WAIT_MS -> error(no_events) end.

%% There and back; how many batches came on the way there.
changed(Agent, Added, Limits) ->
    {ok, Batches} = ask(Agent, {change, [], Added, Limits}),
    {ok, _} = ask(Agent, {change, [MFA || {MFA, _, _, _} <- Added], [], Limits}),
    io:format("      ~b functions, ~b batches meanwhile~n", [length(Added), Batches]),
    Batches.

%% Its answer, and how many batches of events came before that.
ask(Agent, Command) ->
    Ref = make_ref(),
    drop_events(),
    Agent ! {kprof, self(), Ref, Command},
    answer(Ref, 0).

answer(Ref, Batches) ->
    receive
        {kprof_events, _, _, _, _, Chunks} -> answer(Ref, Batches + length([x || Chunks =/= []]));
        {kprof_reply, Ref, Answer} -> {Answer, Batches}
    end.

drop_events() ->
    receive {kprof_events, _, _, _, _, _} -> drop_events() after 0 -> ok end.

sampled() ->
    seq_trace:set_token(label, 16#1000000000001),
    [?MODULE:tier(I) || I <- lists:seq(1, 5)],
    timer:sleep(1),
    sampled().

%% Inside traced functions when it comes, and still when it goes. What the first
%% cycles got is there for the rest of them.
cycles(N) ->
    Busy = [spawn_link(fun() -> bursts() end) || _ <- [1, 2]],
    Sleepers = [spawn_link(fun() -> sleepers() end) || _ <- [1, 2, 3]],
    Began = now_s(),
    told(0, Began),
    [cycle(I) || I <- lists:seq(1, ?WARM)],
    Before = figures(),
    [begin cycle(I), I rem ?TELL =:= 0 andalso told(I, Began) end || I <- lists:seq(1, N)],
    After = figures(),
    [begin unlink(P), exit(P, kill) end || P <- Busy ++ Sleepers],
    io:format("      ~b cycles: before ~0p~n      after ~0p~n", [N, Before, After]),
    [begin
         Grown = maps:get(Key, After) - maps:get(Key, Before),
         Grown =< Most orelse error({grown, Key, Grown})
     end || {Key, Most} <- [{atoms, 0}, {files, 0}, {maps, ?MAPS}, {vm, ?GROWN}, {rss, ?GROWN_RSS}]].

told(I, Began) ->
    io:format("      ~b cycles, ~b s: ~0p~n", [I, now_s() - Began, figures()]).

now_s() -> erlang:monotonic_time(second).

%% maps: of its memory, as the kernel has it.
figures() ->
    [erlang:garbage_collect(P) || P <- processes()],
    {ok, Files} = file:list_dir("/proc/self/fd"),
    {ok, Maps} = file:read_file("/proc/self/maps"),
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Kb]} = re:run(Status, "VmRSS:\\s+([0-9]+)", [{capture, [1], list}]),
    #{atoms => erlang:system_info(atom_count), files => length(Files), maps => length(binary:matches(Maps, <<"\n">>)),
      vm => erlang:memory(total), rss => list_to_integer(Kb) * 1024}.

cycle(I) ->
    load(case I rem 2 of 0 -> ?SMALL; 1 -> 8 bsl 20 end),
    arm(),
    I rem 3 =:= 0 andalso timer:sleep(1),
    {_, _, _, _} = drain(),
    I rem 5 =:= 0 andalso disarm(),
    unload().

%% Schedulers that are busy all the time would be waited for most of the time.
bursts() ->
    [begin ?MODULE:entry(3), catch ?MODULE:raise(1) end || _ <- lists:seq(1, 50)],
    timer:sleep(1),
    bursts().

sleepers() ->
    ?MODULE:entry(1),
    ?MODULE:long(2),
    sleepers().
