%% Nodes that are not as most are: a release of the least that a node needs, one
%% and many schedulers, nodes that connect to nobody by themselves, that give up a
%% silent one soon, and nodes of releases that no package has, by their handshake.
-module(odd_tests).

-export([tests/0]).
%% In the target.
-export([make_release/3]).

-define(REQUESTS, 2000).
-define(MB, 1048576).
-define(LIVELY, [processes]).   % the load's connections

%% Flags of a node's challenge, by release ("Distribution Protocol", when each was
%% introduced; 28 added DFLAG_ALTACT_SIG).
-define(FLAGS_23, 16#101DF7FBD).
-define(FLAGS_24, 16#D03DF7FBD).
-define(FLAGS_26, 16#D07DF7FBD).
-define(FLAGS_28, 16#2D07DF7FBD).
%% What the VM demands of whoever connects: 25's, and from 26 on DFLAG_V4_NC and
%% DFLAG_UNLINK_ID too.
-define(MANDATORY_26, 16#403070F94).

tests() ->
    [{"a release of kernel and stdlib, stripped, with one scheduler", 60, fun least/1},
     {"64 schedulers, hidden, that connects to nobody", 60, fun many/1},
     {"64 schedulers: the native probe", 60, fun many_native/1},
     {"a net_ticktime of 5 s: busy, silent, back again", 60, fun ticks/1},
     {"OTP 26 and 28, by their handshake", 30, fun later/1},
     {"OTP 23 and 24, by their handshake", 30, fun earlier/1}].

%% Attached, every request exact, detached, clean.
exact(T, Target) ->
    exact(T, Target, []).

exact(T, Target, Args) ->
    Before = it:settled(Target),
    P = it:kprofd(T, Target, #{args => ["-interval", "1s" | Args]}),
    it:armed(P),
    %% A pause between requests: the rings of 64 schedulers are small, and the machine may be busy.
    #{requests := ?REQUESTS, errors := 0} = it:loaded(it:load(T, Target, ["8", integer_to_list(?REQUESTS), "4"])),
    it:terminate(P),
    it:audit(Target, Before, ?LIVELY),
    assembled(P, ?REQUESTS),
    P.

assembled(P, N) ->
    it:equal("entry calls", N, it:balance(P)),
    it:equal("losses", #{}, maps:without([tree], it:lost(P))),
    it:equal("requests", N, it:requests(P)).

%% ------------------------------------------- the least that runs ----

%% As a release is built: no code path but its own, no debug information, every
%% module loaded at the boot and none afterwards.
least(T) ->
    Target = it:target(T, #{args => ["-boot", release(T), "-mode", "embedded", "+S", "1"]}),
    it:equal("its mode", embedded, it:call(Target, code, get_mode, [])),
    it:equal("schedulers", 1, it:call(Target, erlang, system_info, [schedulers])),
    [it:equal(M, non_existing, it:call(Target, code, which, [M])) || M <- [dbg, scheduler_view, cover, eprof]],
    exact(T, Target),
    %% kprof's commands load modules of their own there.
    Before = it:settled(Target),
    Ports = fun() -> length(it:call(Target, erlang, ports, [])) end,
    Quiet = Ports(),
    Load = it:load(T, Target, ["4", "600s", "2"]),
    it:until("its clients are connected", fun() -> Ports() >= Quiet + 4 end),
    [begin
         {Status, Out, Errors} = it_kprof:run(T, Target, Cmd, Args),
         it:equal([Cmd, " ends: ", Out, Errors], 0, Status),
         it_kprof:says(Out, Says)
     end || {Cmd, Args, Says} <- [{"count", ["db:transaction/1", "-for", "1s"], "db:transaction/1"},
                                  {"time", ["db", "-for", "1s"], "db:transaction/1"},
                                  {"stacks", ["-for", "1s"], "sample_|db_server|requests"},
                                  {"trace", ["requests", "-for", "1s"], "requests:handle_request/2"},
                                  {"suggest", ["-for", "1s"], "^\\{entry, \\{requests, handle_request, 2\\}\\}"}]],
    it:kill(Load),
    it:audit(Target, Before, ?LIVELY).

%% The boot file's name without its extension, as the target's file system has it.
release(#{ebins := [Ours, Sample]} = T) ->
    Maker = it:target(T, #{kind => plain, name => "maker"}),
    Name = it:call(Maker, ?MODULE, make_release, [absolute(it:path(T, "release")), absolute(Ours), absolute(Sample)]),
    it:stop_target(Maker),
    Name.

absolute(Dir) -> filename:absname(Dir).

%% The sample application and the test's hands as two applications. Theirs are
%% loaded and not started: that is for who starts the node.
make_release(Dir, Ours, Sample) ->
    {ok, [{application, App, Keys}]} = file:consult(filename:join(Sample, "sample_app.app")),
    application(Dir, App, Keys, filelib:wildcard(filename:join(Sample, "*.beam"))),
    application(Dir, it, [{description, ""}, {vsn, "1"}, {registered, []}, {applications, [kernel, stdlib]}],
                [filename:join(Ours, M ++ ".beam") || M <- ["it_stub", "it_audit", "it", "odd_tests"]]),
    Versions = [begin
                    _ = application:load(A),
                    {ok, V} = application:get_key(A, vsn),
                    {A, V}
                end || A <- [kernel, stdlib]],
    Name = filename:join(Dir, "odd"),
    Rel = {release, {"odd", "1"}, {erts, erlang:system_info(version)},
           Versions ++ [{sample_app, proplists:get_value(vsn, Keys), load}, {it, "1", load}]},
    ok = file:write_file(Name ++ ".rel", io_lib:format("~p.~n", [Rel])),
    ok = systools:make_script(Name, [{path, [filename:join([Dir, A, "ebin"]) || A <- ["sample_app", "it"]]},
                               {outdir, Dir}, no_module_tests, no_warn_sasl]),
    Name.

application(Dir, App, Keys, Beams) ->
    Ebin = filename:join([Dir, App, "ebin"]),
    ok = filelib:ensure_path(Ebin),
    Modules = [begin
                   {ok, Whole} = file:read_file(Beam),      % a file of that name would be changed
                   {ok, {M, Stripped}} = beam_lib:strip(Whole),
                   ok = file:write_file(filename:join(Ebin, filename:basename(Beam)), Stripped),
                   M
               end || Beam <- Beams],
    Text = {application, App, lists:keystore(modules, 1, Keys, {modules, Modules})},
    ok = file:write_file(filename:join(Ebin, atom_to_list(App) ++ ".app"), io_lib:format("~p.~n", [Text])).

%% ---------------------------------------------------- many schedulers ----

many_args() -> ["+S", "64:64", "+SDcpu", "64:64", "-hidden", "-kernel", "dist_auto_connect", "never"].

many(T) ->
    Target = it:target(T, #{args => many_args()}),
    it:equal("schedulers", 64, it:call(Target, erlang, system_info, [schedulers_online])),
    grown(T, Target, []).

%% Each of its threads has a ring, and all of them one limit.
many_native(T) ->
    Target = it:target(T, #{args => many_args()}),
    grown(T#{probe => default}, Target, ["-probe", "native" | it:probe_library(T)]).

%% By the VM's account, and by the kernel's, which has the rings: half of the 64 MiB
%% that max_memory_mb allows, and 32 MiB. The load comes first without kprofd.
grown(T, Target, Args) ->
    #{requests := ?REQUESTS} = it:loaded(it:load(T, Target, ["8", integer_to_list(?REQUESTS)])),
    {Total, Rss} = {it:call(Target, erlang, memory, [total]), it:rss(Target)},
    P = exact(T, Target, Args),
    {More, Resident} = {it:call(Target, erlang, memory, [total]) - Total, it:rss(Target) - Rss},
    Note = io_lib:format("added: ~.1f MiB by the VM's account, ~.1f MiB by the kernel's", [More / ?MB, Resident / ?MB]),
    it:check(More < 16 * ?MB andalso Resident < 64 * ?MB, "~s", [Note]),
    it:check(it:count(P, "lost '") =:= 0, "one connection"),
    {note, Note}.

%% ------------------------------------------------------------- ticks ----

%% Such a node gives up whoever is silent for 5 s, also while much is sent to it;
%% and kprofd a node that is.
ticks(T) ->
    {Target, Mark} = it_audit:begins(T, #{args => ["-kernel", "net_ticktime", "5"]}),
    P = it:kprofd(T, Target, #{args => ["-interval", "1s"]}),
    it:armed(P),
    Profile = it_kprof:background(T, Target, "stacks", ["-for", "8s"]),
    #{errors := 0, requests := Busy} = it:loaded(it:load(T, Target, ["8", "8s", "1"])),
    {0, _, _} = it_kprof:ends(Profile),
    it:equal("connections", {1, 0}, {it:times_armed(P), it:count(P, "lost '")}),
    %% What a node that is stopped has not sent yet is lost.
    it:until("all of it is in windows", fun() -> try it:balance(P) =:= Busy catch throw:_ -> false end end),
    it:signal(Target, "STOP"),
    it:saw(P, "lost '"),
    it:signal(Target, "CONT"),
    it:until("armed again", fun() -> it:times_armed(P) > 1 end),
    #{requests := ?REQUESTS} = it:loaded(it:load(T, Target, ["8", integer_to_list(?REQUESTS)])),
    it:terminate(P),
    assembled(P, ?REQUESTS + Busy),
    it_audit:ends(Target, Mark).

%% ---------------------------------------------------- other releases ----

%% A peer that begins the handshake as that release does, and looks at what
%% kprofd says of itself as that one does.
peer(T, Otp, Flags) ->
    Me = self(),
    it_peer:start(T, fun(_) ->
                             #{flags => Flags,
                               name => fun(<<$N, Theirs:64, _/bits>>) -> Me ! {flags, Theirs} end,
                               start => fun(#{agent := Agent} = Conn, _, _) ->
                                                Me ! loaded,
                                                it_peer:say(Conn, {rex, {ok, Agent, (it_peer:hello(Conn))#{otp := Otp}}})
                                        end}
                     end).

later(T) ->
    [begin
         P = it:kprofd(T, peer(T, Otp, Flags), #{tiers => "[{work, {m, entry, 1}}].\n"}),
         it:saw(P, "^kprofd: profiling .*\\(OTP " ++ Otp ++ "\\)"),
         receive {flags, Theirs} -> it:equal("mandatory flags", ?MANDATORY_26, Theirs band ?MANDATORY_26) end,
         it:terminate(P)
     end || {Otp, Flags} <- [{"26", ?FLAGS_26}, {"28", ?FLAGS_28}]].

%% Nothing is sent to such a node but a name.
earlier(T) ->
    [begin
         #{node := Node} = Peer = peer(T, Otp, Flags),
         Says = ["it runs OTP ", Otp, ", and kprofd needs OTP 25 or later"],
         it:ended(it:kprofd(T, Peer, #{tiers => "[{work, {m, entry, 1}}].\n"}), 1, Says),
         {1, _, Error} = it_kprof:run(T, #{node => Node}, "count", ["lists:seq/2"]),
         it_kprof:says(Error, Says),
         receive loaded -> it:fail("a module was sent", []) after 0 -> ok end
     end || {Otp, Flags} <- [{"23", ?FLAGS_23}, {"24", ?FLAGS_24}]].
