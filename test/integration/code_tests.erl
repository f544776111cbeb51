%% Code that changes while it is measured: loaded anew, deleted, restored, there
%% only later. kprofd stays attached, arms again what it had armed, says so, and
%% every call that the VM counted is accounted for.
-module(code_tests).

-export([tests/0]).
-export([agent/2, all_armed/2]).

-define(CHANGES, [{erlang, finish_loading, 1}, {erlang, finish_after_on_load, 2}, {erlang, delete_module, 1}]).

tests() ->
    [{"deleted and restored", 60, fun restored/1},
     {"a module that is there only later", 60, fun later/1},
     {"functions that are there only later", 60, fun new_functions/1},
     {"exact of new code is measured before it is armed", 60, fun measured/1},
     {"an on_load function that refuses", 60, fun refused/1},
     {"a module that takes long to load", 90, fun slow/1},
     {"loaded anew while paused", 60, fun paused/1},
     {"somebody else watches loads", 60, fun others_watch/1},
     {"modules of tiers that are loaded together", 60, fun together/1},
     {"code that no tier names", 90, fun others/1}].

%% While it is away its functions are missing, and nothing else is.
restored(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:loaded(it:load(T, Target, ["4", "100"])),
    {formatter, Code, File} = it:call(Target, code, get_object_code, [formatter]),
    true = it:call(Target, code, delete, [formatter]),
    it:saw(P, "deleted: module formatter was deleted; functions that are not there now: 1"),
    it:equal("missing", [{formatter, format_response, 1}], agent(Target, missing)),
    it:equal("state", armed, agent(Target, state)),
    it:call(Target, code, purge, [formatter]),
    {module, _} = it:call(Target, code, load_binary, [formatter, File, Code]),
    it:saw(P, "loaded: module formatter was loaded: traced after [0-9.]+ ms"),
    it:equal("missing, restored", [], agent(Target, missing)),
    it:check(agent(Target, code_gap_us) > 0, "time till it was armed"),
    it:check(all_armed(Target, formatter), "armed again"),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:terminate(P),
    it:equal("requests", 200, it:requests(P)),
    it:check(tier_calls(P, "formatter") >= 190, "calls of the tier"),
    it:equal("attached once", 1, events(P, "attach")),
    it:equal("what is said of its code", {1, 1, 0}, {events(P, "deleted"), events(P, "loaded"), events(P, "reloaded")}),
    it:balance(P),
    it:audit(Target, Before, [processes]).

%% tiers.conf names it, the target has it only later: a warning says so.
later(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{handle, {requests, handle_request, 2}},\n"
                                        "         {late, {it_late, '_', '_'}}]}.\n{sampling, all}.\n{budget, none}.\n"}),
    it:saw(P, "tiers1.conf:2:.*warning: the target cannot load module 'it_late'.*traced when it is loaded"),
    it:armed(P),
    load(Target, it_late, [{call, 0}], none),
    it:saw(P, "loaded: module it_late was loaded"),
    it:until("armed", fun() -> lists:member({it_late, call, 0}, agent(Target, armed)) end),
    it:check(all_armed(Target, it_late), "its function is armed"),
    it:terminate(P),
    it:equal("attached once", 1, events(P, "attach")),
    it:audit(Target, Before, [module]).

%% '_' stands for what there is, later too.
new_functions(T) ->
    {Target, _} = target(T),
    load(Target, it_late, [{call, 0}], none),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{handle, {requests, handle_request, 2}},\n"
                                        "         {late, {it_late, '_', '_'}}]}.\n{sampling, all}.\n{budget, none}.\n"}),
    it:armed(P),
    load(Target, it_late, [{call, 0}, {more, 0}], none),
    it:until("armed", fun() -> lists:member({it_late, more, 0}, agent(Target, armed)) end),
    load(Target, it_late, [{more, 0}], none),
    it:until("missing", fun() -> agent(Target, missing) =:= [{it_late, call, 0}] end),
    it:terminate(P),
    it:equal("attached once", 1, events(P, "attach")).

%% There only later; and armed so already, when other code is loaded.
measured(T) ->
    {Target, Before} = target(T),
    Tiers = "{tiers, [{handle, {requests, handle_request, 2}},\n"
        "         {late, {it_late, '_', '_'}, [exact]}]}.\n{sampling, all}.\n{budget, none}.\n{hot_share, none}.\n",
    Call = {it_late, call, 0},
    IsExact = fun() -> it:call(Target, it_stub, is_exact, [Call]) end,
    Spin = fun() -> it:do(Target, fun() -> spawn(fun L() -> catch it_late:call(), L() end) end) end,
    P = it:kprofd(T, Target, #{tiers => Tiers}),
    it:armed(P),
    load(Target, it_late, [{call, 0}], none),
    it:until("armed", fun() -> lists:member(Call, agent(Target, armed)) end),
    it:check(IsExact(), "exact while nobody calls it"),
    Spinner = Spin(),
    load(Target, it_late, [{call, 0}, {more, 0}], none),
    it:is_native() orelse
        it:saw(P, "tiers1.conf:2:.*warning: it_late:call/0 is traced without 'exact': it is called [0-9]+ times a second"),
    it:until("armed, each with its counter",
             fun() -> armed_of(Target, it_late) =:= [traced, call_count, traced, call_count] end),
    it:until("armed without, but for the native probe", fun() -> IsExact() =:= it:is_native() end),
    it:terminate(P),
    it:audit(Target, Before, [module, processes]),
    P2 = it:kprofd(T, Target, #{tiers => Tiers}),
    it:armed(P2),
    it:equal("exact from the start", it:is_native(), IsExact()),
    it:do(Target, fun() -> exit(Spinner, kill) end),
    it:terminate(P2).

%% The code of before stays, but without its patterns.
refused(T) ->
    {Target, Before} = target(T),
    load(Target, it_late, [{call, 0}], none),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{handle, {requests, handle_request, 2}},\n"
                                        "         {late, {it_late, call, 0}}]}.\n{sampling, all}.\n{budget, none}.\n"}),
    it:armed(P),
    it:equal("the load", {error, on_load_failure}, load(Target, it_late, [{call, 0}, {other, 0}], refuse)),
    it:equal("its functions", false, it:call(Target, erlang, function_exported, [it_late, other, 0])),
    it:until("armed again", fun() -> all_armed(Target, it_late) end),
    it:equal("the load", {module, it_late}, load(Target, it_late, [{call, 0}], ok)),
    it:until("armed again", fun() -> all_armed(Target, it_late) end),
    it:terminate(P),
    it:equal("attached once", 1, events(P, "attach")),
    it:audit(Target, Before, [module]).

%% The agent, armed, waited for the code server when a new tiers.conf named a
%% module that was not loaded: events piled up, and its lease was not answered.
slow(T) ->
    {Target, Before} = target(T),
    Tiers = fun(More) -> ["{tiers, [{handle, {requests, handle_request, 2}}", More, "]}.\n"
                         "{sampling, all}.\n{budget, none}.\n"] end,
    P = it:kprofd(T, Target, #{tiers => Tiers("")}),
    it:armed(P),
    Load = it:load(T, Target, ["8", "600s", "2"]),
    it:assembles(P, 200),
    it:do(Target, fun() -> true = erlang:suspend_process(whereis(code_server)) end),
    it:write(T, "tiers1.conf", Tiers(", {late, {it_late, '_', '_'}}")),
    K = it:start(T, "reload", [it:build(T) ++ "/kprof", "reload", "-db", it:db(P)], []),
    it:equal("kprof reload", 0, it:exited(K)),
    it:check(re:run([it:output(K), it:errors(K)], "cannot load module 'it_late' \\(timeout\\)") =/= nomatch,
             "what it says: ~ts~ts", [it:output(K), it:errors(K)]),
    it:assembles(P, 200),
    it:do(Target, fun() -> true = erlang:resume_process(whereis(code_server)) end),
    load(Target, it_late, [{call, 0}], none),
    it:until("armed", fun() -> all_armed(Target, it_late) end),
    it:kill(Load),
    it:terminate(P),
    it:equal("attached once", 1, events(P, "attach")),
    it:audit(Target, Before, [module, processes]).

%% Nothing is armed meanwhile, and the entry's calls are counted.
paused(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    {ok, _} = it:control(P, "pause"),
    reload(Target, requests),
    reload(Target, db),
    it:until("counted", fun() -> armed_of(Target, requests) =:= [call_count] end),
    case it:is_native() of
        %% New code is looked at for loops: it is counted for a moment.
        true -> it:until("nothing is armed while paused", fun() -> armed_of(Target, db) =:= [] end);
        false -> it:equal("armed while paused", [], armed_of(Target, db))
    end,
    #{requests := 50} = it:loaded(it:load(T, Target, ["4", "50"])),
    {ok, _} = it:control(P, "resume"),
    it:check(all_armed(Target, requests) andalso all_armed(Target, db), "armed again"),
    #{requests := 50} = it:loaded(it:load(T, Target, ["4", "50"])),
    it:terminate(P),
    it:equal("requests", 50, it:requests(P)),
    it:equal("losses", #{unseen => 50}, it:lost(P)),
    it:balance(P),
    it:audit(Target, Before, [processes]).

%% A function has one meta tracer up to OTP 26: theirs stays, and kprofd looks
%% with each lease.
others_watch(T) ->
    Target = it:target(T),
    it:do(Target, fun() ->
                          Tracer = spawn(fun Wait() -> receive _ -> Wait() end end),
                          register(it_watcher, Tracer),
                          [erlang:trace_pattern(MFA, [], [{meta, Tracer}]) || MFA <- ?CHANGES]
                  end),
    Theirs = fun() -> [{erlang:trace_info(MFA, meta), erlang:trace_info(MFA, meta_match_spec)} || MFA <- ?CHANGES] end,
    Were = it:do(Target, Theirs),
    Before = it:settled(Target),
    P = it:kprofd(T, Target),
    it:armed(P),
    reload(Target, db),
    it:until("armed again", fun() -> all_armed(Target, db) end),
    it:equal("theirs", Were, it:do(Target, Theirs)),
    Watch = fun(Spec, Pid) -> [erlang:trace_pattern(MFA, Spec, [{meta, Pid} || is_pid(Pid)] ++ [meta || not is_pid(Pid)]) || MFA <- ?CHANGES] end,
    it:do(Target, fun() -> Watch(false, none) end),
    it:otp(Target) < 27 andalso
        it:until("it watches as soon as they have ended",
                 fun() -> it:do(Target, fun() -> [{meta, whereis(kprof_agent)} =:= erlang:trace_info(MFA, meta) || MFA <- ?CHANGES] end) =:= [true, true, true] end),
    it:terminate(P),
    it:equal("attached once", 1, events(P, "attach")),
    it:do(Target, fun() -> Watch([], whereis(it_watcher)) end),
    it:audit(Target, Before),
    it:equal("theirs, at the end", Were, it:do(Target, Theirs)).

%% "What has changed since the deploy": loads that follow each other are one event. A load of the
%% same code changes nothing, and what tiers name has events of its own.
others(T) ->
    {Target, Before} = target(T),
    [load(Target, M, [{call, 0}], none) || M <- [it_late, it_twin, it_gone]],
    P = it:kprofd(T, Target),
    it:armed(P),
    %% Loads without a pause are reported as well, as soon as it knows the modules.
    it:until("it has seen a load",
             fun() ->
                     load(Target, it_often, [{list_to_atom(ref_to_list(make_ref())), 0}], none),
                     events(P, "changed") > 0
             end),
    Many = [{M, "it_many.beam", code_of(M, [{call, 0}], none)}
            || N <- lists:seq(10, 26), M <- [list_to_atom(lists:concat(["it_many", N]))]],
    ok = it:call(Target, code, atomic_load, [Many]),
    it:saw(P, "loads: 17 new modules were loaded: it_many10, .*it_many17 and 9 others \\(no tier names them\\)"),
    is_of_the_first(P, "loads"),
    load(Target, it_late, [{call, 0}, {more, 0}], none),
    load(Target, it_twin, [{call, 0}], none),
    reload(Target, db),
    it:call(Target, code, delete, [it_gone]),
    it:saw(P, "changed: 1 module was loaded with other code: it_late \\(no tier names it\\)"),
    it:saw(P, "changed: 1 module was deleted: it_gone \\(no tier names it\\)"),
    it:terminate(P),
    it:equal("what did not change, or a tier names", [],
             it:sql(P, "select text from events where kind in ('changed', 'loads') and (text like '%it_twin%' or text like '%db%')")),
    it:equal("events of tiers", {1, 0}, {events(P, "reloaded"), events(P, "loaded")}),
    it:audit(Target, Before, [module]).

%% It is reported when there was none for a second, and has the time of the first.
is_of_the_first(P, Kind) ->
    Now = os:system_time(millisecond),
    it:until("it is written", fun() -> events(P, Kind) > 0 end),
    At = it:number(P, ["select max(e.at_ns) / 1000000 from event e where e.kind = '", Kind, "'"]),
    it:check(At < Now - 900, "~s is of ~b, and was reported by ~b", [Kind, At, Now]).

%% A deploy is one event, however many modules it loads; the last one is not lost.
together(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{handle, {requests, handle_request, 2}}, {db, {db, '_', '_'}},\n"
                                        "         {formatter, {formatter, '_', '_'}}]}.\n{sampling, all}.\n{budget, none}.\n"}),
    it:armed(P),
    [reload(Target, M) || M <- [db, formatter, requests, db]],
    it:saw(P, "reloaded: 3 modules were loaded again: db, formatter, requests; traced again after at most [0-9.]+ ms"),
    is_of_the_first(P, "reloaded"),
    reload(Target, db),
    it:until("it has seen that", fun() -> agent(Target, code_changes) =:= 5 end),
    it:terminate(P),
    it:equal("events", 2, events(P, "reloaded")),
    it:saw(P, "reloaded: module db was loaded again: traced after [0-9.]+ ms"),
    it:audit(Target, Before, [processes]).

%% ---------------------------------------------------------------- tools ----

target(T) ->
    Target = it:target(T),
    {Target, it:settled(Target)}.

agent(Target, Key) ->
    maps:get(Key, it:call(Target, kprof_agent, status, [])).

events(P, Kind) ->
    it:number(P, ["select count(*) from events where kind = '", Kind, "'"]).

tier_calls(P, Tier) ->
    it:number(P, ["select sum(calls) from tier_stats where identity <> '_total' and tier = '", Tier, "'"]).

%% The same code, by the way that releases are upgraded.
reload(Target, Mod) ->
    {Mod, Code, File} = it:call(Target, code, get_object_code, [Mod]),
    it:call(Target, code, purge, [Mod]),
    {module, Mod} = it:call(Target, code, load_binary, [Mod, File, Code]).

%% A module made for it; OnLoad: none, or what its on_load function says.
load(Target, Mod, Fns, OnLoad) ->
    Code = code_of(Mod, Fns, OnLoad),
    it:call(Target, code, purge, [Mod]),
    it:call(Target, code, load_binary, [Mod, "it_late.beam", Code]).

code_of(Mod, Fns, OnLoad) ->
    On = [on || OnLoad =/= none],
    Forms = [{attribute, 1, module, Mod}, {attribute, 1, export, Fns}] ++
        [{attribute, 1, on_load, {F, 0}} || F <- On] ++
        [{function, 1, F, A, [{clause, 1, [], [], [{atom, 1, OnLoad}]}]} || {F, A} <- Fns ++ [{on, 0} || on <- On]],
    {ok, Mod, Code} = compile:forms(Forms),
    Code.

%% All that the agent has of it is armed in the VM.
all_armed(Target, Mod) ->
    MFAs = [MFA || {M, _, _} = MFA <- agent(Target, armed), M =:= Mod],
    Traced = [MFA || {MFA, _, traced, local} <- it:call(Target, it_stub, armed, [MFAs])],
    MFAs =/= [] andalso lists:sort(MFAs) =:= lists:sort(Traced).

armed_of(Target, Mod) ->
    MFAs = [MFA || {M, _, _} = MFA <- agent(Target, armed), M =:= Mod],
    [Key || {_, _, Key, _} <- it:call(Target, it_stub, armed, [MFAs])].
