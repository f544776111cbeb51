%% Another tiers.conf while kprofd runs: what is the same stays armed, no row
%% mixes two configurations, every request is accounted for; and a file that is
%% no good changes nothing and says why.
-module(reload_tests).

-export([tests/0]).

-define(PARSE, {network_server, parse_request, 1}).
-define(HANDLE, {requests, handle_request, 2}).
-define(FORMAT, {formatter, format_response, 1}).
-define(DB, {db, network_request, 1}).
-define(ACCOUNT, {accounting, incr_reqs, 1}).

tests() ->
    [{"only the difference, under load", 60, fun difference/1},
     {"another entry, under load", 60, fun entry/1},
     {"another identity and other numbers", 60, fun identity/1},
     {"a bad file changes nothing", 60, fun bad/1},
     {"a function that somebody else traces", 60, fun others/1},
     {"exact is measured before it is armed", 60, fun measured/1},
     {"while the target is away", 60, fun away/1},
     {"while it is being armed", 60, fun arming/1},
     {"while paused", 60, fun paused/1},
     {"while tripped", 60, fun tripped/1},
     {"many at once, and many in a row", 60, fun many/1},
     {"SIGHUP", 60, fun hangup/1},
     {"the dashboard's certificate", 60, fun certificate/1}].

%% The entry and the database are the same; parsing goes, accounting comes.
difference(T) ->
    {Target, Before, P} = start(T, tiers(["{parsing, {network_server, parse_request, 1}}", db()])),
    it:equal("armed", [?DB, ?PARSE, ?HANDLE], armed(Target)),
    Load = it:load(T, Target, ["8", "600s", "2"]),
    it:until("requests come", fun() -> assembled(P) > 200 end),
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    Text = reload(T, P, tiers([db(), "{accounting, \"accounting:incr_reqs/1\"}"])),
    says(Text, "is in force: 1 function added, 1 removed, 0 changed, 2 kept"),
    it:equal("armed then", [?ACCOUNT, ?DB, ?HANDLE], armed(Target)),
    it:equal("the agent", Agent, it:call(Target, erlang, whereis, [kprof_agent])),
    Then = assembled(P),
    it:until("requests come", fun() -> assembled(P) > Then + 200 end),
    it:kill(Load),
    it:until("they end", fun() -> it:said(P, "([0-9]+) in flight") =:= 0 end),
    it:terminate(P),
    it:balance(P),
    [[At]] = it:sql(P, "select at_ns from event where kind = 'reload'"),
    Rows = fun(Tier, When) ->
                   it:number(P, lists:concat(["select count(*) from stat s join time_window w on w.id = s.window_id"
                                              " join tier t on t.id = s.tier_id where t.name = '", Tier, "' and w.",
                                              When, binary_to_list(At)]))
           end,
    it:equal("rows of parsing since", 0, Rows("parsing", "start_ns >= ")),
    it:equal("rows of accounting before", 0, Rows("accounting", "end_ns <= ")),
    it:check(Rows("parsing", "end_ns <= ") > 0, "rows of parsing before"),
    it:check(Rows("accounting", "end_ns > ") > 0, "rows of accounting since"),
    it:equal("order of tiers", [[<<"_total">>], [<<"handle">>], [<<"db">>], [<<"accounting">>]],
             it:sql(P, "select name from tier where position is not null order by position")),
    it:check(it:number(P, "select tiers_conf like '%accounting%' from run") =:= 1, "the text of the run"),
    %% An entry that had been touched would have missed calls.
    it:equal("lost but for what was in flight", [],
             maps:keys(maps:without([reloaded, with_request, stale], it:lost(P)))),
    it:audit(Target, Before, [processes]).

%% The counter of the one that goes is kept, that of the new one begins.
entry(T) ->
    {Target, Before, P} = start(T, tiers([db()])),
    Load = it:load(T, Target, ["8", "600s", "2"]),
    it:until("requests come", fun() -> assembled(P) > 200 end),
    Text = reload(T, P, ["{tiers, [{handle, {requests, handle_request, 2}}, ", db(), "]}.\n"
                         "{entry, {db, network_request, 1}}.\n{sampling, all}.\n{budget, none}.\n"]),
    says(Text, "0 functions added, 0 removed, 2 changed, 0 kept"),
    Then = assembled(P),
    it:until("requests come", fun() -> assembled(P) > Then + 200 end),
    it:terminate(P),
    it:kill(Load),
    it:balance(P),
    it:audit(Target, Before, [processes]).

%% With nothing in flight nothing is lost; the old identity is in no later row.
identity(T) ->
    {Target, Before, P} = start(T, [tiers([db()]), identity_fun("Op")]),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:until("requests closed", fun() -> assembled(P) >= 100 end),
    says(reload(T, P, [tiers([db()]), identity_fun("renamed"), "{slow_ms, 1}.\n"
                       "{overload, [{max_age_ms, 2000}]}.\n{rewrite, [{\"renamed\", \"rewritten\"}]}.\n"]),
         "0 functions added, 0 removed, 1 changed, 1 kept"),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:until("requests closed", fun() -> assembled(P) >= 200 end),
    %% No function shows whether stacks are sampled.
    Stacks = fun(Wanted) ->
                     reload(T, P, [tiers([db()]), identity_fun("renamed"), "{slow_ms, 1}.\n"
                                   "{overload, [{max_age_ms, 2000}]}.\n{rewrite, [{\"renamed\", \"rewritten\"}]}.\n", Wanted])
             end,
    says(Stacks("{stacks, {per_second, 50}}.\n"), "kept; stacks: 50 a second, for at most 0.5 % of a scheduler$"),
    says(Stacks("{stacks, [{per_second, 50}, {percent, 1}]}.\n"), "kept; stacks: 50 a second, for at most 1 % of a scheduler$"),
    says(Stacks("{stacks, none}.\n"), "kept; stacks are not sampled any more$"),
    it:terminate(P),
    it:equal("losses", #{}, it:lost(P)),
    it:equal("requests", 200, it:requests(P)),
    it:equal("by the new name", 100,
             it:number(P, "select sum(calls) from tier_stats where tier = '_total' and identity = 'rewritten'")),
    it:balance(P),
    it:audit(Target, Before, [processes]).

%% What kprofd -check says, and the profile goes on as if nothing had been.
bad(T) ->
    {Target, Before, P} = start(T, tiers([db()])),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    Was = armed(Target),
    Refused = fun(Text, Patterns) ->
                      it:write(T, "tiers1.conf", Text),
                      {1, Said} = kprof(T, P),
                      [says(Said, Pattern) || Pattern <- ["nothing has changed" | Patterns]],
                      it:equal("armed", Was, armed(Target))
              end,
    Refused("{tiers, [{db, {db, query, 2}},\n         {db, {db, access, 1}}]}.\n{slow_ms, soon}.\n",
            ["tiers1.conf:2:[0-9]+: error: ", "tiers1.conf:3:[0-9]+: error: ", "^ +\\^"]),
    Refused("{tiers, [{handle, {requests, handle_request, 2}},\n         {db, {db, network_reqest, 1}}]}.\n",
            ["tiers1.conf:2:15: error: .*db:network_reqest/1", "it names what the target does not have"]),
    Refused("", []),
    ok = file:delete(it:path(T, "tiers1.conf")),
    {1, Gone} = kprof(T, P),
    says(Gone, "cannot open '.*tiers1.conf': no such file"),
    ok = file:make_dir(it:path(T, "tiers1.conf")),
    {1, Unreadable} = kprof(T, P),
    says(Unreadable, "cannot read '.*tiers1.conf': Is a directory"),
    ok = file:del_dir(it:path(T, "tiers1.conf")),
    says(reload(T, P, tiers([db()])), "is as it was: nothing to change"),
    it:equal("armed", Was, armed(Target)),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:terminate(P),
    it:equal("losses", #{}, it:lost(P)),
    it:equal("requests", 200, it:requests(P)),
    it:balance(P),
    it:equal("events", 5, it:number(P, "select count(*) from events where kind = 'reload'"
                                    " and text like 'refused: %tiers1.conf%'")),
    it:audit(Target, Before, [processes]).

%% Up to OTP 26: it is theirs, and what we had armed stays armed.
others(T) ->
    {Target, _, P} = start(T, tiers([db()])),
    it:do(Target, fun() -> 1 = erlang:trace_pattern(?ACCOUNT, [{'_', [], [{return_trace}]}], [local]) end),
    it:write(T, "tiers1.conf", tiers([db(), "{accounting, \"accounting:incr_reqs/1\"}"])),
    {Status, Said} = kprof(T, P),
    case it:otp(Target) >= 27 of
        true -> it:equal("status", 0, Status);
        false ->
            it:equal("status", 1, Status),
            says(Said, "the target refuses these functions: .*traced_by_others.*accounting"),
            it:equal("armed", [?DB, ?HANDLE], armed(Target))
    end,
    it:equal("theirs", {match_spec, [{'_', [], [{return_trace}]}]},
             it:do(Target, fun() -> erlang:trace_info(?ACCOUNT, match_spec) end)),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:terminate(P),
    %% Processes whose values their pattern copies are not ours any more.
    Ceded = it:otp(Target) < 27 andalso not it:is_native(),
    Ceded orelse it:equal("requests", 100, it:requests(P)),
    it:equal("entry calls", 100, it:balance(P)).

%% As at the start: no server's loop, and nothing that is called all the time.
%% The native probe copies nothing: only loops cannot be exact with it.
measured(T) ->
    {Target, Before, P} = start(T, tiers([db()])),
    Spin = it:do(Target, fun() -> spawn(fun L() -> sample_config:get(port), L() end) end),
    Loop = {it_stub, serve, 1},
    Hot = {sample_config, get, 1},
    Forced = {sample_pool, pick, 1},
    Text = reload(T, P, tiers([db(), "{loop, {it_stub, serve, 1}, [exact]}", "{hot, {sample_config, get, 1}, [exact]}",
                               "{forced, {sample_pool, pick, 1}, [{exact, force}]}"])),
    says(Text, "tiers1.conf:1:[0-9]+: warning: it_stub:serve/1 is traced without 'exact': .*a server's loop"),
    it:is_native() orelse
        says(Text, "warning: sample_config:get/1 is traced without 'exact': it is called [0-9]+ times a second"),
    says(Text, "is in force: 3 functions added, 0 removed, 0 changed, 2 kept"),
    MFAs = [Loop, Hot, Forced],
    it:equal("exact", [Hot || it:is_native()] ++ [Forced],
             [F || F <- MFAs, it:call(Target, it_stub, is_exact, [F])]),
    it:until("armed, each with its counter",
             fun() -> [{F, K} || F <- MFAs, K <- [traced, call_count]] =:= keys(Target, MFAs) end),
    it:do(Target, fun() -> exit(Spin, kill) end),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:terminate(P),
    it:equal("requests", 100, it:requests(P)),
    it:balance(P),
    it:audit(Target, Before, [processes]).

keys(Target, MFAs) ->
    [{F, Key} || {F, _, Key, _} <- it:call(Target, it_stub, armed, [MFAs])].

away(T) ->
    {Target, _, P} = start(T, tiers([db()])),
    it:stop_target(Target),
    it:saw(P, "lost '"),
    says(reload(T, P, tiers([format()])), "not attached to the target just now"),
    Again = it:target(T, #{node => maps:get(node, Target)}),
    it:until("armed again", fun() -> armed(Again) =:= [?FORMAT, ?HANDLE] end),
    #{requests := 100} = it:loaded(it:load(T, Again, ["4", "100"])),
    it:terminate(P),
    it:equal("requests", 100, it:requests(P)),
    it:balance(P).

%% Asked for before it is attached, and at every step on the way.
arming(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    P = it:kprofd(T, Target, #{tiers => tiers([db()])}),
    it:until("the control socket", fun() -> filelib:last_modified(it:db(P) ++ ".sock") =/= 0 end),
    it:write(T, "tiers1.conf", tiers([format()])),
    [ok = element(1, it:control(P, "reload")) || _ <- lists:seq(1, 10)],
    it:until("armed", fun() -> armed(Target) =:= [?FORMAT, ?HANDLE] end),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:terminate(P),
    it:equal("requests", 100, it:requests(P)),
    it:balance(P),
    it:audit(Target, Before, [processes]).

paused(T) ->
    {Target, Before, P} = start(T, tiers([db()])),
    {ok, _} = it:control(P, "pause"),
    says(reload(T, P, tiers([format()])), "1 function added, 1 removed, 0 changed, 1 kept"),
    %% What is exact may just be measured: with the native probe that is all.
    it:until("armed while paused", fun() -> keys(Target, [?HANDLE, ?DB, ?FORMAT]) =:= [{?HANDLE, call_count}] end),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    {ok, _} = it:control(P, "resume"),
    it:equal("plan", [?FORMAT, ?HANDLE], armed(Target)),
    #{requests := 100} = it:loaded(it:load(T, Target, ["4", "100"])),
    it:terminate(P),
    it:equal("requests", 100, it:requests(P)),
    it:equal("losses", #{unseen => 100}, it:lost(P)),
    it:balance(P),
    it:audit(Target, Before, [processes]).

%% It rests on, and what comes back is the new plan.
tripped(T) ->
    Rest = "{overload, [{max_age_ms, 1000}, {pause_s, 5}]}.\n",
    {Target, Before, P} = start(T, [tiers([db()]), Rest]),
    Load = it:load(T, Target, ["16", "600s"]),
    it:until("requests come", fun() -> assembled(P) > 200 end),
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    it:do(Target, fun() ->
                          true = erlang:suspend_process(Agent),
                          receive after 3000 -> ok end,
                          erlang:resume_process(Agent)
                  end),
    it:saw(P, "tracing is paused for "),
    says(reload(T, P, [tiers([format()]), Rest]), "1 function added, 1 removed, 0 changed, 1 kept"),
    {ok, _} = it:control(P, "resume"),
    it:equal("plan", [?FORMAT, ?HANDLE], armed(Target)),
    Then = assembled(P),
    it:until("requests come", fun() -> assembled(P) > Then + 200 end),
    it:terminate(P),
    it:kill(Load),
    it:balance(P),
    it:audit(Target, Before, [processes]).

%% Whoever asks has an answer, and the last file is in force; the texts of
%% those before are given back while it runs.
many(T) ->
    {Target, Before, P} = start(T, tiers([db()])),
    Load = it:load(T, Target, ["4", "600s", "2"]),
    it:write(T, "tiers1.conf", tiers([format()])),
    Asked = [it:start(T, "kprof" ++ integer_to_list(I),
                      [it:build(T) ++ "/kprof", "reload", "-db", it:db(P)], []) || I <- lists:seq(1, 8)],
    [it:equal("status", 0, it:exited(K)) || K <- Asked],
    it:equal("armed", [?FORMAT, ?HANDLE], armed(Target)),
    [reload(T, P, tiers([element(1 + I rem 2, {format(), db()})])) || I <- lists:seq(1, 21)],
    it:equal("armed then", [?DB, ?HANDLE], armed(Target)),
    it:until("requests come", fun() -> assembled(P) > 200 end),
    it:terminate(P),
    it:kill(Load),
    it:balance(P),
    it:equal("events", 22, it:number(P, "select count(*) from events where kind = 'reload'")),
    it:equal("written", 0, maps:get(store, it:losses(P), 0)),
    it:audit(Target, Before, [processes]).

%% It opens the log anew as well.
hangup(T) ->
    Target = it:target(T),
    Before = it:settled(Target),
    Log = it:path(T, "log"),
    P = it:kprofd(T, Target, #{tiers => tiers([db()]), args => ["-interval", "2s", "-log-file", Log]}),
    it:until("armed", fun() -> armed(Target) =:= [?DB, ?HANDLE] end),
    ok = file:rename(Log, Log ++ ".1"),
    it:write(T, "tiers1.conf", tiers([format()])),
    it:signal(P, "HUP"),
    it:until("armed then", fun() -> armed(Target) =:= [?FORMAT, ?HANDLE] end),
    it:until("the new log tells of it",
             fun() ->
                     {ok, Text} = file:read_file(Log),
                     re:run(Text, "is in force: 1 function added") =/= nomatch
             end),
    it:write(T, "tiers1.conf", "{tiers, soon}.\n"),
    it:signal(P, "HUP"),
    it:until("the log says what is wrong",
             fun() ->
                     {ok, Text} = file:read_file(Log),
                     re:run(Text, "tiers1.conf:1:9: error: ") =/= nomatch
             end),
    it:equal("armed", [?FORMAT, ?HANDLE], armed(Target)),
    it:terminate(P),
    it:audit(Target, Before, [processes]).

%% ---------------------------------------------------------------------------

start(T, Tiers) ->
    Target = it:target(T, #{config => "#{handle => #{wait_ms => 1}}"}),
    Before = it:settled(Target),
    %% Windows that were added up might be of before a reload and of after it.
    P = it:kprofd(T, Target, #{tiers => Tiers, args => ["-interval", "2s", "-retain", "2s:1h"]}),
    it:armed(P),
    {Target, Before, P}.

tiers(More) ->
    ["{tiers, [", lists:join(", ", ["{handle, {requests, handle_request, 2}}" | More]), "]}.\n"
     "{entry, {requests, handle_request, 2}}.\n{sampling, all}.\n{budget, none}.\n{hot_share, none}.\n"].

db() -> "{db, {db, network_request, 1}}".
format() -> "{formatter, {formatter, format_response, 1}}".

identity_fun(Name) ->
    ["{identity, fun({requests, handle_request, [Op, _]}) when is_atom(Op) -> ", Name,
     "; (_) -> undefined end}.\n"].

%% One that was renewed is shown to who connects then; one that is not good is not, and
%% kprof and the log say why.
certificate(T) ->
    {ok, _} = application:ensure_all_started(ssl),
    [it_certs:leaf(T, Name, #{}) || Name <- ["page", "page2", "page3"]],
    Port = it:free_port(),
    File = it_certs:here(T, "page.pem"),
    it:write(T, "tiers1.conf", tiers([db()])),
    P = it:kprofd(T, it:target(T), #{args => ["-http", integer_to_list(Port), "-http-tls-cert", File,
                                              "-http-tls-key", it_certs:here(T, "page.key")]}),
    it:armed(P),
    First = shown(Port),
    it_certs:put(T, "page2", "page"),
    it:equal("before the reload", First, shown(Port)),
    {0, _} = kprof(T, P),
    Second = shown(Port),
    it:check(Second =/= First, "the renewed one"),
    ok = file:write_file(File, "none"),
    {0, Said} = kprof(T, P),
    says(Said, "no certificate in PEM format in '.*page.pem' \\(see -http-tls-cert\\); the certificate before it stays"),
    it:saw(P, "warning: there is no certificate in PEM format"),
    it:equal("after one that is not good", Second, shown(Port)),
    it_certs:put(T, "page3", "page"),
    it:signal(P, "HUP"),
    it:until("that of SIGHUP", fun() -> not lists:member(shown(Port), [First, Second]) end),
    it:terminate(P).

shown(Port) ->
    {ok, S} = ssl:connect("127.0.0.1", Port, [{verify, verify_none}]),
    {ok, Der} = ssl:peercert(S),
    ssl:close(S),
    Der.

%% kprofd reads the file that it was started with.
reload(T, P, Text) ->
    it:write(T, "tiers1.conf", Text),
    {0, Said} = kprof(T, P),
    Said.

kprof(T, P) ->
    K = it:start(T, "kprof" ++ integer_to_list(erlang:unique_integer([positive])),
                 [it:build(T) ++ "/kprof", "reload", "-db", it:db(P)], []),
    Status = it:exited(K),
    {Status, [it:output(K), it:errors(K)]}.

%% What the agent's plan holds.
armed(Target) ->
    case it:call(Target, it_stub, agent, []) of
        #{armed := MFAs} -> lists:sort(MFAs);
        gone -> []
    end.

assembled(P) -> it:said(P, "([0-9]+) assembled").

says(Text, Pattern) ->
    re:run(Text, Pattern, [multiline]) =/= nomatch orelse it:fail("no '~s' in:~n~ts", [Pattern, Text]).
