%% The options, the control socket and sampling.
-module(usage_tests).

-export([tests/0]).

-define(MFAS, [{requests, handle_request, 2}, {network_server, parse_request, 1},
               {formatter, format_response, 1}, {db, network_request, 1}, {db, transaction, 1},
               {db, transaction, 2}, {accounting, incr_reqs, 1}]).

tests() ->
    [{"-check without a target", 30, fun check_file/1},
     {"-check with one counts before it arms", 60, fun check_target/1},
     {"-requests", 60, fun requests/1},
     {"-duration", 60, fun duration/1},
     {"-print-calls", 60, fun print_calls/1},
     {"long and short node names", 60, fun names/1},
     {"a name of our own", 60, fun own_name/1},
     {"several at once, on different targets", 60, fun several/1},
     {"status", 60, fun status/1},
     {"pause and resume", 60, fun pause/1},
     {"pause and resume while it attaches", 60, fun pause_early/1},
     {"pause while the target is away", 60, fun pause_away/1},
     {"a log as JSON", 60, fun log_json/1},
     {"a log for journald", 60, fun log_journal/1},
     {"a log in a file that is moved away", 60, fun log_file/1},
     {"SIGHUP without a log or a terminal", 60, fun hangup/1},
     {"SIGHUP because the terminal has gone", 60, fun terminal_gone/1},
     {"the service manager is told", 60, fun notify/1},
     {"dump", 60, fun dump/1},
     {"clear-tokens", 60, fun clear_tokens/1},
     {"the socket is its owner's alone", 60, fun socket/1},
     {"one request in ten", 60, fun one_in/1},
     {"so many requests a second", 90, fun per_second/1}].

check_file(T) ->
    P = it:start(T, "check", [it:build(T) ++ "/kprofd", "-check", "-tiers", it:tiers()], []),
    it:ended(P, 0),
    it:check(re:run(it:output(P), "tiers.conf: ok: 5 tiers") =/= nomatch, "says that it is good").

check_target(T) ->
    {Target, Before} = target(T),
    Load = it:load(T, Target, ["4", "600s"]),
    it:until("there is load", fun() -> it:call(Target, sample_truth, get, []) =/= [] end),
    P = it:kprofd(T, Target, #{args => ["-check"]}),
    watch_unarmed(Target, P),
    it:ended(P, 0),
    As = case it:is_native() of true -> "exact"; false -> "call" end,
    it:check(not filelib:is_file(it:db(P)), "no database is made"),
    [it:check(re:run(it:output(P), Pattern, [multiline]) =/= nomatch, "'~s' in:~n~ts", [Pattern, it:output(P)])
     || Pattern <- ["^FUNCTION +CALLS/S", "^requests:handle_request/2 +[1-9][0-9]* +entry +handle",
                    "^db:transaction/2 +[0-9]+ +" ++ As ++ " +db", "^accounting:incr_reqs/1 +[1-9][0-9]* +" ++ As]],
    %% kprof check is the same.
    Q = it:start(T, "kprof_check", [it:build(T) ++ "/kprof", "check", it:tiers(), "-for", "500ms",
                                    "-cookie-file", maps:get(cookie, T)
                                    | it_reach:targets(Target) ++ it_reach:options(Target) ++ it:probe_library(T)], []),
    it:ended(Q, 0),
    it:check(re:run(it:output(Q), "^FUNCTION +CALLS/S.*^ok, [0-9]+ warning", [multiline, dotall]) =/= nomatch,
             "'~s'", [it:output(Q)]),
    it:kill(Load),
    it:audit(Target, Before, [processes]).

%% No function is traced while they are counted.
watch_unarmed(Target, P) ->
    Armed = [A || {_, _, Key, _} = A <- it:call(Target, it_stub, armed, [?MFAS]), Key =/= call_count],
    case re:run(it:errors(P), "tracing 1.000 calls") of
        nomatch ->
            it:equal("armed while calls are counted", [], Armed),
            it:is_running(P) andalso watch_unarmed(Target, P);
        _ ->
            ok
    end.

requests(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target, #{args => ["-requests", "500"]}),
    it:armed(P),
    Load = it:load(T, Target, ["8", "600s"]),
    it:ended(P, 0),
    it:check(it:is_running(Load), "the load goes on"),
    it:kill(Load),
    N = it:requests(P),
    it:check(N >= 500, "~b requests", [N]),
    it:balance(P),
    it:audit(Target, Before, [processes]).

duration(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target, #{args => ["-duration", "10s"]}),
    it:armed(P),
    it:loaded(it:load(T, Target, ["2", "100"])),
    it:ended(P, 0),
    it:equal("requests", 100, it:requests(P)),
    it:audit(Target, Before).

print_calls(T) ->
    {Target, _} = target(T),
    P = it:kprofd(T, Target, #{args => ["-print-calls", "-requests", "10"]}),
    it:armed(P),
    it:loaded(it:load(T, Target, ["1", "30", "10", "read=1"])),
    it:ended(P, 0),
    Line = "^[0-9:]{8}\\.[0-9]{6}  read +~s +[0-9]+\\.[0-9]{3} ms  <[0-9.]+> +" ++ it:outcome(),
    [it:check(re:run(it:output(P), io_lib:format(Line, [Call]), [multiline]) =/= nomatch,
              "~s in:~n~ts", [Call, it:output(P)])
     || Call <- ["requests:handle_request/2", "db:network_request/1", "formatter:format_response/1"]].

names(T) ->
    [begin
         Target = it:target(T, #{naming => Naming}),
         Before = it:settled(Target),
         P = it:kprofd(T, Target),
         it:armed(P),
         it:loaded(it:load(T, Target, ["2", "50"])),
         [Name] = it:call(Target, erlang, nodes, [hidden]),
         [_, Host] = string:split(maps:get(node, Target), "@"),
         case Naming of
             long -> match = re:run(atom_to_list(Name), "^kprofd[1-4]@.*\\.", [{capture, none}]);
             short -> it:equal("our name", "kprofd1@" ++ Host, atom_to_list(Name))
         end,
         it:terminate(P),
         it:equal("requests", 50, it:requests(P)),
         it:audit(Target, Before),
         it:stop_target(Target)
     end || Naming <- [long, short]].

own_name(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target, #{args => ["-name", "mine@127.0.0.1"]}),
    it:armed(P),
    it:equal("our name", ['mine@127.0.0.1'], it:call(Target, erlang, nodes, [hidden])),
    it:equal("the others do not see it", [], it:call(Target, erlang, nodes, [])),
    it:terminate(P),
    it:audit(Target, Before).

several(T) ->
    Targets = [A, B] = [it:target(T, #{}), it:target(T, #{node => "it_b_" ++ os:getpid() ++ "@127.0.0.1"})],
    Ps = [it:kprofd(T, Target) || Target <- Targets],
    [it:armed(P) || P <- Ps],
    it:loaded(it:load(T, A, ["2", "50"])),
    it:loaded(it:load(T, B, ["2", "70"])),
    [it:terminate(P) || P <- Ps],
    it:equal("requests", [50, 70], [it:requests(P) || P <- Ps]).

status(T) ->
    {Target, _} = target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:loaded(it:load(T, Target, ["4", "200"])),
    assembled(P, 200),
    {ok, Text} = it:control(P, "status"),
    [it:check(re:run(Text, Pattern, [multiline]) =/= nomatch, "'~s' in:~n~ts", [Pattern, Text])
     || Pattern <- ["^target +" ++ maps:get(node, Target) ++ ": armed", "^sampling +every request",
                    "^losses +none", "^ +OTP " ++ integer_to_list(it:otp(Target))]],
    {ok, Json} = it:control(P, "status json"),
    [it:check(binary:match(Json, Part) =/= nomatch, "'~s' in:~n~ts", [Part, Json])
     || Part <- [<<"\"requests\"">>, <<"\"losses\"">>, <<"\"state\"">>]],
    {error, _} = it:control(P, "nonsense"),
    {error, _} = it:control(P, lists:duplicate(5000, $x)),
    it:terminate(P).

assembled(P, N) ->
    it:until("requests are assembled",
             fun() ->
                     {ok, Text} = it:control(P, "status"),
                     {match, [Got]} = re:run(Text, "([0-9]+) assembled", [{capture, [1], list}]),
                     list_to_integer(Got) >= N
             end).

%% While paused nothing is armed but the entry's counter.
pause(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:loaded(it:load(T, Target, ["4", "100"])),
    assembled(P, 100),
    {ok, _} = it:control(P, "pause"),
    it:equal("state", paused, agent_state(Target)),
    it:equal("armed while paused", [call_count],
             lists:usort([Key || {_, _, Key, _} <- it:call(Target, it_stub, armed, [?MFAS])])),
    it:loaded(it:load(T, Target, ["4", "70"])),
    {ok, _} = it:control(P, "resume"),
    it:equal("state", armed, agent_state(Target)),
    it:loaded(it:load(T, Target, ["4", "50"])),
    assembled(P, 150),
    it:terminate(P),
    it:equal("entry calls", 220, it:balance(P)),
    it:equal("sampled", 150, it:requests(P)),
    #{unseen := 70, unarmed := Ms} = it:losses(P),
    it:check(Ms > 0, "~b ms unarmed", [Ms]),
    it:audit(Target, Before, [processes]).

%% `pause` said that kprofd was not attached while it was about to be, and its
%% answer came before it was done. Both wait now.
pause_early(T) ->
    {Target, Before} = target(T),
    it:call(Target, it_stub, hold_attach, []),
    P = it:kprofd(T, Target),
    it:until("kprofd asks for its agent", fun() -> it:call(Target, it_stub, held_attach, []) end),
    Pause = ask(P, "pause"),
    it:equal("an answer before it is done", none, answer(Pause, 200)),
    it:call(Target, it_stub, release_attach, []),
    {ok, <<"paused\n">>} = answer(Pause, 30000),
    it:equal("state", paused, agent_state(Target)),
    {ok, <<"resumed\n">>} = it:control(P, "resume"),
    it:equal("state", armed, agent_state(Target)),
    {ok, <<"resumed\n">>} = it:control(P, "resume"),
    it:loaded(it:load(T, Target, ["2", "50"])),
    it:terminate(P),
    it:equal("requests", 50, it:requests(P)),
    it:audit(Target, Before, [processes]).

ask(P, Line) ->
    Me = self(),
    spawn_link(fun() -> Me ! {self(), it:control(P, Line)} end).

answer(Asked, Ms) ->
    receive {Asked, Answer} -> Answer after Ms -> none end.

%% The wish lasts: it is paused when it comes back.
pause_away(T) ->
    Target = it:target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:stop_target(Target),
    it:saw(P, "lost '"),
    {ok, Text} = it:control(P, "pause"),
    it:check(re:run(Text, "not attached .* it will pause as soon as it is") =/= nomatch, "~s", [Text]),
    Again = it:target(T, #{node => maps:get(node, Target)}),
    it:until("paused", fun() -> agent_state(Again) =:= paused end),
    it:terminate(P).

%% Names that come from a target are in it: a line stays valid whatever they are.
log_json(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target, #{args => ["-log", "json"]}),
    it:saw(P, "\"event\":\"armed\""),
    it:loaded(it:load(T, Target, ["2", "50"])),
    it:terminate(P),
    Lines = lines(P),
    it:equal("lines that are objects of the same keys", [[<<"time,level,event,target,message,fields">>]],
             lists:usort([json(T, Line, "select group_concat(key) from json_each(readfile($1))") || Line <- Lines])),
    Events = [json(T, Line, "select json_extract(readfile($1), '$.event')") || Line <- Lines],
    [it:check(lists:member([E], Events), "'~s' among ~p", [E, Events])
     || E <- [<<"attach">>, <<"armed">>, <<"state">>, <<"plan">>, <<"end">>]],
    [Attach | _] = [L || L <- Lines, binary:match(L, <<"\"attach\"">>) =/= nomatch],
    it:equal("fields", [integer_to_binary(it:otp(Target))],
             json(T, Attach, "select json_extract(readfile($1), '$.fields.otp')")),
    it:equal("target", [list_to_binary(maps:get(node, Target))],
             json(T, Attach, "select json_extract(readfile($1), '$.target')")),
    {1, Bad, _} = it:run_kprofd(T, Target, #{args => ["-log", "json"], tiers => "{tiers, [{a, {b, \"\e\", 1}}]}.\n"}),
    it:equal("a mistake in tiers.conf", [<<"config,1,error">>],
             json(T, hd(string:split(Bad, "\n")),
                  "select json_extract(j, '$.event') || ',' || json_extract(j, '$.fields.line') || ',' ||"
                  " json_extract(j, '$.level') from (select readfile($1) j)")),
    it:audit(Target, Before, [processes]).

lines(P) ->
    [L || L <- string:split(it:errors(P), "\n", all), L =/= <<>>].

%% What sqlite3 reads in one line of JSON; fails where that is none.
json(T, Line, Query) ->
    File = it:write(T, "line.json", Line),
    Text = re:replace(Query, "\\$1", ["'", File, "'"], [global, {return, list}]),
    [string:trim(Row) || Row <- it:sql(#{db => ":memory:", name => "sqlite3", out => File}, Text), Row =/= []].

%% journald reads the level in front of a line, where stderr goes to it.
log_journal(T) ->
    File = it:path(T, "kprofd1.err"),
    ok = file:write_file(File, ""),
    Stream = string:trim(os:cmd("stat -c '%d:%i' '" ++ File ++ "'")),
    P = it:kprofd(T, "it_nobody@127.0.0.1", #{env => [{"JOURNAL_STREAM", Stream}]}),
    it:ended(P, 1, "^<7>it_nobody@127.0.0.1: connecting"),
    it:ended_said(P, "^<3>cannot connect to 'it_nobody@127.0.0.1': no such node"),
    Q = it:kprofd(T, "it_nobody@127.0.0.1", #{env => [{"JOURNAL_STREAM", Stream}]}),
    it:ended(Q, 1, "^kprofd: cannot connect to").

%% As logrotate does it: moved, and told.
log_file(T) ->
    {Target, Before} = target(T),
    Log = it:path(T, "kprofd.log"),
    P = it:kprofd(T, Target, #{args => ["-log-file", Log]}),
    it:until("armed", fun() -> has(Log, "^[0-9T:.-]{23}Z kprofd: profiling ") end),
    ok = file:rename(Log, Log ++ ".1"),
    it:signal(P, "HUP"),
    it:until("a new file", fun() -> has(Log, "kprofd: opened '.*' again") end),
    it:check(it:is_running(P), "it goes on"),
    {ok, _} = it:control(P, "pause"),
    it:check(has(Log, "pausing"), "the new file is written"),
    it:equal("its mode", "640\n", os:cmd("stat -c %a " ++ Log)),
    it:terminate(P),
    it:equal("on stderr", <<>>, it:errors(P)),
    %% Whoever started it sees why it ended.
    Q = it:kprofd(T, "it_nobody@127.0.0.1", #{args => ["-log-file", Log]}),
    it:ended(Q, 1, "^kprofd: cannot connect to 'it_nobody"),
    it:check(has(Log, "kprofd: cannot connect to 'it_nobody"), "the log says it too"),
    R = it:kprofd(T, "it_nobody@127.0.0.1", #{args => ["-log-file", "/nowhere/x.log"]}),
    it:ended(R, 1, "cannot write to '/nowhere/x.log': directory /nowhere does not exist \\(see -log-file"),
    it:audit(Target, Before).

has(File, Pattern) ->
    case file:read_file(File) of
        {ok, Text} -> re:run(Text, Pattern, [multiline]) =/= nomatch;
        {error, enoent} -> false
    end.

%% A rotation of logs may tell every kprofd, those that have none too.
hangup(T) ->
    {Target, Before} = target(T),
    P = it:kprofd(T, Target, #{wrap => ["setsid", "-w"], args => ["-duration", "50s"]}),
    it:armed(P),
    #{who := Who} = it:call(Target, kprof_agent, status, []),
    {match, [Pid]} = re:run(Who, "process ([0-9]+)", [{capture, [1], list}]),
    Kprofd = P#{pid := list_to_integer(Pid)},
    it:signal(Kprofd, "HUP"),
    {ok, _} = it:control(P, "status"),
    it:loaded(it:load(T, Target, ["2", "50"])),
    it:terminate(Kprofd),
    it:equal("requests", 50, it:requests(P)),
    it:audit(Target, Before).

terminal_gone(T) ->
    {Target, Before} = target(T),
    Script = "exec script -qec \"$*\" /dev/null",
    P = it:kprofd(T, Target, #{wrap => ["sh", "-c", Script, "sh"],
                               args => ["-duration", "50s"]}),
    it:until("armed", fun() -> re:run(it:output(P), "profiling ") =/= nomatch end),
    it:kill(P),
    it:until("one plain file is left",
             fun() -> filelib:wildcard(it:db(P) ++ "*") =:= [it:db(P)] end),
    it:equal("how it ended", [[<<"clean">>]], it:sql(P, "select state from runs")),
    it:audit(Target, Before).

%% Ready only when it measures.
notify(T) ->
    {Target, _} = target(T),
    Path = it:path(T, "notify.sock"),
    {ok, S} = gen_udp:open(0, [{ifaddr, {local, Path}}, local, binary, {active, false}]),
    it:call(Target, it_stub, hold_attach, []),
    P = it:kprofd(T, Target, #{env => [{"NOTIFY_SOCKET", filename:absname(Path)}]}),
    it:until("kprofd asks for its agent", fun() -> it:call(Target, it_stub, held_attach, []) end),
    Early = told(S, <<"STATUS=starting">>),
    it:check(not lists:member(<<"READY=1">>, Early), "told too early: ~p", [Early]),
    it:call(Target, it_stub, release_attach, []),
    it:check(lists:member(<<"READY=1">>, told(S, <<"STATUS=armed">>)), "it is ready"),
    {ok, _} = it:control(P, "pause"),
    told(S, <<"STATUS=paused">>),
    it:terminate(P),
    told(S, <<"STOPPING=1">>),
    gen_udp:close(S).

%% Everything up to this message.
told(S, Last) ->
    case gen_udp:recv(S, 0, 30000) of
        {ok, {_, _, Last}} -> [Last];
        {ok, {_, _, Other}} -> [Other | told(S, Last)];
        {error, Why} -> it:fail("not told ~s: ~p", [Last, Why])
    end.

agent_state(Target) ->
    case it:call(Target, it_stub, agent, []) of
        #{state := State} -> State;
        gone -> gone
    end.

%% What is in flight in a dump is there for anybody to read at once.
dump(T) ->
    {Target, _} = target(T),
    P = it:kprofd(T, Target, #{args => ["-interval", "1h"]}),
    it:armed(P),
    it:loaded(it:load(T, Target, ["4", "100"])),
    assembled(P, 100),
    {ok, _} = it:control(P, "dump"),
    it:equal("requests in the file", 100, it:requests(P)),
    it:terminate(P).

clear_tokens(T) ->
    {Target, _} = target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    it:loaded(it:load(T, Target, ["4", "100"])),
    it:do(Target, fun() ->
                          register(it_marked, spawn(fun() -> seq_trace:set_token(label, 1),
                                                             receive after infinity -> ok end end))
                  end),
    Token = fun() -> process_info(whereis(it_marked), sequential_trace_token) end,
    it:until("a token", fun() -> it:do(Target, fun() -> element(2, Token()) =/= [] end) end),
    Agent = it:call(Target, erlang, whereis, [kprof_agent]),
    it:call(Target, erlang, suspend_process, [Agent]),
    Asked = [ask(P, "clear-tokens") || _ <- [1, 2]],
    it:equal("answers before it is done", [none, none], [answer(A, 100) || A <- Asked]),
    it:call(Target, erlang, resume_process, [Agent]),
    it:equal("answers", [{ok, <<"tokens cleared\n">>}], lists:usort([answer(A, 30000) || A <- Asked])),
    it:equal("the token", [], it:do(Target, fun() -> element(2, Token()) end)),
    it:loaded(it:load(T, Target, ["4", "100"])),
    it:terminate(P),
    it:equal("requests", 200, it:requests(P)).

socket(T) ->
    {Target, _} = target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    Socket = it:db(P) ++ ".sock",
    it:equal("the socket's mode", "600 socket\n", os:cmd("stat -c '%a %F' " ++ Socket)),
    it:equal("the database's mode", "640\n", os:cmd("stat -c %a " ++ it:db(P))),
    it:terminate(P),
    it:check(not filelib:is_file(Socket), "the socket is gone"),
    it:equal("one plain file is left", [it:db(P)], filelib:wildcard(it:db(P) ++ "*") -- [it:db(P) ++ ".query"]).

one_in(T) ->
    {Target, P} = sampled(T, "{one_in, 10}", ["32", "20000"]),
    N = it:number(P, "select sum(sampled) from time_window"),
    it:check(N > 1600 andalso N < 2400, "~b sampled of 20000", [N]),
    it:equal("entry calls", 20000, it:balance(P)),
    W = it:number(P, "select sum(requests) from request_stats where identity = '_total'"),
    it:equal("estimate", N * 10, W),
    %% Each kind of request gets its share: of n calls 10 times as many as are
    %% sampled deviate by 3 sqrt(n); 6.2 times that happens less than once in 10^9.
    [begin
         Share = it:number(P, io_lib:format("select sum(sampled_requests) from request_stats where identity = '~s'",
                                            [Op])),
         it:check(abs(Share * 10 - Calls) < 6.2 * 3 * math:sqrt(Calls), "~b sampled of ~b ~s", [Share, Calls, Op])
     end || #{layer := handle, op := Op, returned := Calls} <- it:call(Target, sample_truth, details, [])].

%% At first all are taken; then the rate is found. One in k that is sampled
%% counts k times, with a variance of k (k - 1).
per_second(T) ->
    {_, P} = sampled(T, "{per_second, 100}", ["32", "8s"]),
    Calls = it:balance(P),
    N = it:number(P, "select sum(sampled) from time_window"),
    it:check(N > 200 andalso N < Calls / 2, "~b sampled of ~b", [N, Calls]),
    W = it:number(P, "select sum(requests) from request_stats where identity = '_total'"),
    Variance = it:number(P, "select 1.0 * sum(requests * (1.0 * requests / sampled_requests - 1)) from request_stats"
                         " where identity = '_total' and sampled_requests > 0"),
    it:check(abs(W - Calls) < max(Calls * 0.2, 7 * math:sqrt(Variance)), "estimated ~b of ~b", [W, Calls]),
    {note, io_lib:format("~b of ~b sampled, estimate ~b", [N, Calls, W])}.

sampled(T, Sampling, Load) ->
    {Target, Before} = target(T),
    {ok, Text} = file:read_file(it:tiers()),
    P = it:kprofd(T, Target, #{tiers => [re:replace(Text, "{sampling, all}", "{sampling, " ++ Sampling ++ "}"), it:calm()]}),
    it:armed(P),
    #{errors := 0} = it:loaded(it:load(T, Target, Load)),
    it:terminate(P),
    it:audit(Target, Before, [processes]),
    {Target, P}.

target(T) ->
    Target = it:target(T, #{config => "#{db => #{wait_ms => 1}}"}),
    {Target, it:settled(Target)}.
