%% What profiling adds to the target's memory when its servers hold much and
%% return it from every callback: their states are not copied, not even once.
-module(footprint_tests).

-export([tests/0]).

-define(MB, 1048576).
-define(STATE, 10000000).       % bytes in each worker
-define(ADDED, 16 * ?MB).       % the most that profiling may add
-define(CONFIG, "#{db => #{state_bytes => 10000000, workers => 16, wait_ms => 1},"
        " formatter => #{state_bytes => 10000000, workers => 4},"
        " handle => #{state_bytes => 10000000, workers => 8},"
        " accounting => #{state_bytes => 10000000}}").

%% Tiers on the callbacks themselves.
-define(TIERS, "{tiers, [{handle, {requests, handle_request, 2}}, {db, {db, handle_call, 3}~s},\n"
        " {formatter, {formatter, handle_call, 3}}, {accounting, {accounting, handle_call, 3}}]}.\n"
        "{entry, {requests, handle_request, 2}}.\n{sampling, all}.\n{budget, none}.\n").

tests() ->
    [{"callbacks that return 10 MB", 120, alone, fun callbacks/1},
     {"exact on them is taken back", 120, alone, fun exact/1},
     {"exact on values that become large is taken back", 60, fun grown/1},
     {"code and names that stay when kprofd has gone", 120, fun stays/1},
     {"names that stay when kprof has gone", 120, fun stays_of_kprof/1}].

callbacks(T) ->
    {Target, P, Note} = measure(T, io_lib:format(?TIERS, [""])),
    it:equal("losses", #{}, it:lost(P)),
    [#{returned := N}] = [Row || #{layer := db_server, op := read} = Row
                                     <- it:call(Target, sample_truth, details, [])],
    %% Those before the arming are not among kprofd's.
    Got = it:number(P, "select sum(calls) from tier_stats where tier = 'db'"
                    " and identity <> '_total'"),
    it:check(Got > 1000 andalso Got < N, "~b calls of ~b", [Got, N]),
    {note, Note}.

%% The user asked for values to be copied, and must not pay for that like this.
exact(T) -> of_relay(fun taken_back/1, T).

of_relay(Test, T) ->
    case it:is_native() of
        true -> {skipped, "the native probe copies no values"};
        false -> Test(T)
    end.

taken_back(T) ->
    Target = it:target(T, #{config => ?CONFIG}),
    P = it:kprofd(T, Target, #{tiers => io_lib:format(?TIERS, [", [{exact, force}]"])}),
    it:armed(P),
    it:check(it:call(Target, it_stub, is_exact, [{db, handle_call, 3}]), "exact, as it was asked for"),
    %% Each value is 10 MB: where memory is slow, kprofd loses the agent first, and attaches
    %% again.
    it:until("'exact' is taken back",
             fun() ->
                     it:loaded(it:load(T, Target, ["2", "400", "1", "read=1"])),
                     re:run(it:errors(P), "'exact' taken back from .*db.*handle_call") =/= nomatch
             end),
    it:equal("exact", false, it:call(Target, it_stub, is_exact, [{db, handle_call, 3}])),
    it:terminate(P),
    it:check(it:number(P, "select count(*) from events where kind = 'unexact'") >= 1, "an event says so").

%% Twenty thousand small ones gave a right to 80 MB of large ones: the mean was
%% of all calls since the arming.
grown(T) -> of_relay(fun large_at_last/1, T).

large_at_last(T) ->
    Target = it:target(T, #{kind => plain}),
    Value = {it_driver, value, 1},
    P = it:kprofd(T, Target, #{tiers => "{tiers, [{values, {it_driver, values, 2}},\n"
                               "         {value, {it_driver, value, 1}, [{exact, force}]}]}.\n"
                               "{sampling, all}.\n{budget, none}.\n{overload, [{max_age_ms, 60000}, {max_queue, 1000000},"
                               " {max_lag_ms, 60000}]}.\n"}),
    it:armed(P),
    Sent = it:sent(Target),
    [begin
         ok = it:call(Target, it_driver, values, [1000, 1]),
         it:until("calls and returns are seen", fun() -> it:sent(Target) >= Sent + I * 2000 end)
     end || I <- lists:seq(1, 20)],
    it:check(it:call(Target, it_stub, is_exact, [Value]), "exact while they are small"),
    ok = it:call(Target, it_driver, values, [300, 4096]),
    it:saw(P, "'exact' taken back from .*it_driver.*value"),
    it:equal("exact", false, it:call(Target, it_stub, is_exact, [Value])),
    it:terminate(P),
    it:equal("requests", 21, it:requests(P)),
    it:balance(P).

%% The same load twice: first alone, then profiled.
measure(T, Tiers) ->
    Target = it:target(T, #{config => ?CONFIG}),
    _ = peak(T, Target),
    {Total0, Rss0} = peak(T, Target),
    it:check(Total0 > 29 * ?STATE, "the workers' states are there: ~b bytes", [Total0]),
    P = it:kprofd(T, Target, #{tiers => Tiers}),
    it:armed(P),
    {Total1, Rss1} = peak(T, Target),
    it:terminate(P),
    Note = io_lib:format("~b MiB; added: ~.1f MiB by the VM's account, ~.1f MiB by the kernel's",
                         [Total0 div ?MB, (Total1 - Total0) / ?MB, (Rss1 - Rss0) / ?MB]),
    it:check(Total1 - Total0 < ?ADDED andalso Rss1 - Rss0 < ?ADDED, "~s", [Note]),
    {Target, P, Note}.

%% The most memory, by both accounts, while 4000 requests are made.
peak(T, Target) ->
    Load = it:load(T, Target, ["16", "4000", "0", "read=1"]),
    Peak = sample(Target, Load, {0, 0}),
    #{errors := 0} = it:loaded(Load),
    Peak.

sample(Target, Load, {Total, Rss}) ->
    Now = {max(Total, it:call(Target, erlang, memory, [total])), max(Rss, it:rss(Target))},
    case it:is_running(Load) of
        true ->
            receive after 10 -> ok end,
            sample(Target, Load, Now);
        false -> Now
    end.

%% "Nothing but tokens" stayed, it said. What does: modules that tiers.conf names and
%% that were not loaded, with what their on_load functions did, some of OTP's own,
%% and atoms. And that once: no kprofd that comes later adds to it.
stays(T) ->
    Target = it:target(T, #{kind => plain}),
    Before = kept(Target),
    P = cycle(T, Target),
    After = kept(Target),
    Brought = brought(Before, After),
    it:equal("those that are not OTP's", [db, it_onload], not_otps(Target, Brought)),
    it:ended_said(P, "modules: 2 that tiers.conf names were not loaded there, and are now, to stay: (it_onload, db|db, it_onload)"),
    it:equal("an event of it", 1, it:number(P, "select count(*) from events where kind = 'modules'")),
    it:check(length(Brought) =< 2 + 16, "OTP's: ~0p", [Brought]),
    Last = [cycle(T, Target) || _ <- [1, 2, 3]],
    it:equal("after three more", {[], 0}, added(After, kept(Target))),
    it:equal("told of it again", [0, 0, 0], [it:count(Q, "modules: ") || Q <- Last]),
    it:equal("runs of the on_load function", 1, it:call(Target, it_onload, times, [])),
    %% Where all is loaded from the start: a release in embedded mode.
    Embedded = it:target(T, #{kind => plain, name => "embedded", node => "embedded_" ++ maps:get(node, Target)}),
    it:do(Embedded, fun() -> [{module, M} = code:ensure_loaded(M) || M <- Brought], ok end),
    Loaded = kept(Embedded),
    _ = cycle(T, Embedded),
    {[], Atoms} = added(Loaded, kept(Embedded)),
    it:check(Atoms > 0 andalso Atoms < 700, "~b atoms of its own", [Atoms]),
    {note, io_lib:format("~b atoms and ~b modules of OTP's; ~b atoms where all is loaded",
                         [element(2, added(Before, After)), length(Brought) - 2, Atoms])}.

cycle(T, Target) ->
    P = it:kprofd(T, Target, #{tiers => ["{tiers, [{on, {it_onload, work, 1}}, {db, {db, '_', '_'}}]}.\n", it:calm()]}),
    it:armed(P),
    it:terminate(P),
    gone(Target, kprof_agent),
    P.

%% Of count and of trace, each by itself.
stays_of_kprof(T) ->
    Notes = [begin
                 Target = it:target(T, #{kind => plain, name => Cmd, node => lists:concat([Cmd, "_", os:getpid(), "@127.0.0.1"])}),
                 Run = fun() ->
                               {0, _, _} = it_kprof:run(T, Target, Cmd, ["-apply", "it_counted:work(50)", "it_counted"]),
                               gone(Target, Module)
                       end,
                 Before = kept(Target),
                 Run(),
                 After = kept(Target),
                 it:equal("those that are not OTP's", [it_counted], not_otps(Target, brought(Before, After))),
                 [Run() || _ <- [1, 2, 3]],
                 it:equal("after three more", {[], 0}, added(After, kept(Target))),
                 {_, Atoms} = added(Before, After),
                 it:check(Atoms < 1650, "~b atoms", [Atoms]),
                 io_lib:format("~s: ~b atoms; ", [Cmd, Atoms])
             end || {Cmd, Module} <- [{"count", kprof_counters}, {"trace", kprof_tracer}]],
    {note, Notes}.

%% Its old code too.
gone(Target, Module) ->
    it:until("it is purged", fun() -> not lists:member(Module, it:call(Target, erlang, loaded, [])) end).

%% Asked for twice: whatever the question itself brings is there then.
kept(Target) ->
    Ask = fun() -> it:do(Target, fun() -> {lists:sort(erlang:loaded()), erlang:system_info(atom_count)} end) end,
    _ = Ask(),
    Ask().

added({Modules0, Atoms0}, {Modules, Atoms}) ->
    {Modules -- Modules0, Atoms - Atoms0}.

brought(Before, After) ->
    element(1, added(Before, After)).

not_otps(Target, Modules) ->
    lists:sort([M || M <- Modules,
                     not it:do(Target, fun() -> lists:prefix(code:lib_dir(), filename:absname(code:which(M))) end)]).
