%% bench_tls - what it costs kprofd and a target that the distribution between them is
%% encrypted, by event.
%%
%% Each round starts six nodes: with TLS and without, and of both one that nobody profiles,
%% one profiled by the relay and one by the native probe. They run the same requests in turn,
%% the two of a pair one right after the other and each first in every second round, so that
%% whatever else the machine does hits both alike. The nodes of the next round are new ones:
%% two that run the same code may differ by themselves. The pair that nobody profiles shows
%% how much of a difference the machine makes.
%%
%% The nodes are told what to do over a connection of it_stub's, which is not encrypted, so
%% that all that their distribution carries is kprofd's.
-module(bench_tls).

-export([main/0, sent/0, done/0]).

-define(ROUNDS, 11).
-define(FULL_MS, 800).
-define(SETTLE_MS, 300).
-define(TRIES, 3).
-define(WAIT_MS, 60000).
-define(COOKIE, "kprof_bench_tls").

%% erl -s bench_tls main -extra BUILD_DIR [ROOT]
main() ->
    try
        bench(init:get_plain_arguments()),
        halt(0)
    catch Class:Why:Stack ->
            io:format("~p~n", [{Class, Why, Stack}]),
            halt(1)
    end.

bench([Build]) -> bench([Build, none]);
bench([Build, Root]) ->
    Here = filename:absname(filename:join(Build, "bench_tls")),
    _ = file:del_dir_r(filename:join(Here, "certs")),
    T = place(Root, #{build => filename:absname(Build), dir => Here}),
    ok = conf(filename:join(Here, "tiers.conf")),
    ok = file:write_file(filename:join(Here, "cookie"), ?COOKIE),
    ok = file:change_mode(filename:join(Here, "cookie"), 8#600),
    Turns = bench_node:calibrate() div 4,
    try
        tell([round(T#{turns => Turns}, I) || I <- lists:seq(1, ?ROUNDS)])
    after
        Root =:= none orelse file:del_dir_r(Root ++ maps:get(place, T))
    end.

%% Where a target finds its code, the native probe and its certificates.
place(none, #{dir := Dir, build := Build} = T) ->
    Certs = filename:join(Dir, "certs"),
    T#{erl => ["erl"], place => Dir, library => filename:join(Build, "kprof_probe.so"),
       certs => #{here => Certs, there => Certs}};
place(Root, #{dir := Dir, build := Build} = T) ->
    Place = "/tmp/kprof_bench_tls." ++ os:getpid(),
    ok = filelib:ensure_path(Root ++ Place),
    [{ok, _} = file:copy(F, Root ++ Place ++ "/" ++ filename:basename(F))
     || F <- [filename:join(Build, "kprof_probe.so") | filelib:wildcard(Dir ++ "/*.beam")]],
    T#{erl => ["chroot", Root, "erl"], place => Place, library => Place ++ "/kprof_probe.so",
       certs => #{here => Root ++ Place ++ "/certs", there => Place ++ "/certs"}}.

%% Every request is traced, and nothing ends that.
conf(File) ->
    Tiers = [io_lib:format("{~c, {bench_node, tier_~c, 1}}", [C, C]) || C <- lists:seq($a, $i)]
        ++ [io_lib:format("{~s, {bench_node, ~s, 1}}", [F, F]) || F <- ["parse", "store", "render", "count"]],
    file:write_file(File, ["{entry, [{bench_node, entry, 1}, {bench_node, handle, 2}]}.\n"
                           "{tiers, [", lists:join(", ", Tiers), "]}.\n"
                           "{overload, [{max_queue, 10000000}, {max_memory_mb, 4096}, {max_age_ms, 60000}]}.\n"
                           "{budget, none}.\n{hot_share, none}.\n{sampling, all}.\n"]).

%% ---------------------------------------------------------- one round ----

probes() -> [none, relay, native].

loads() -> [bursts, full, few].

round(T, I) ->
    Nodes = maps:from_list([{{Probe, Transport}, start(T, Probe, Transport)}
                            || Probe <- probes(), Transport <- [tcp, tls]]),
    [warm_up(N) || N <- maps:values(Nodes)],
    I > 1 orelse first(Nodes),
    Order = case I rem 2 of 0 -> [tcp, tls]; 1 -> [tls, tcp] end,
    {Got, Left} = lists:mapfoldl(fun({Load, Probe, Transport} = Key, Old) ->
                                         Node = map_get({Probe, Transport}, Old),
                                         {Figures, New} = turn(Load, T, Node, []),
                                         {{Key, Figures}, Old#{{Probe, Transport} := New}}
                                 end, Nodes, [{L, P, O} || L <- loads(), P <- probes(), O <- Order]),
    [stop(N) || N <- maps:values(Left)],
    maps:from_list(Got).

first(Nodes) ->
    Node = map_get({none, tls}, Nodes),
    io:format("OTP ~s, ~b schedulers, ~b rounds, load ~s~n",
              [call(Node, erlang, system_info, [otp_release]),
               call(Node, erlang, system_info, [schedulers_online]), ?ROUNDS, load_average()]).

load_average() ->
    {ok, Text} = file:read_file("/proc/loadavg"),
    hd(string:lexemes(Text, " ")).

%% All code is loaded, and kprofd has seen its first requests.
warm_up(Node) ->
    _ = call(Node, bench_node, run, [2, 1000, 10]),
    drained(Node).

%% What the turn cost, from its start until kprofd has all of its events. A connection that
%% cannot carry them makes the agent pause, and sample fewer after that: such a turn is
%% counted, and there is another one with a new kprofd; after some the round has no figures.
turn(_, _, Node, Overloads) when length(Overloads) =:= ?TRIES -> {#{overloads => Overloads}, Node};
turn(Load, T, Node, Overloads) ->
    Before = counters(Node),
    {Requests, Rate} = load(Load, T, Node),
    drained(Node),
    case maps:map(fun(K, V) -> V - map_get(K, Before) end, counters(Node)) of
        #{dropped := 0} = Spent -> {Spent#{requests => Requests, rate => Rate, overloads => Overloads}, Node};
        _ ->
            #{last_trip := #{reason := Reason}} = call(Node, kprof_agent, status, []),
            turn(Load, T, again(T, Node), [Reason | Overloads])
    end.

again(T, #{side := {Probe, Transport, Name}} = Node) ->
    end_kprofd(Node),
    New = profiled(T, Probe, Transport, Name, Node),
    warm_up(New),
    New.

%% bench_node's requests of ten calls that do next to nothing: in bursts of ten, and one
%% every 5 ms; and requests of 50 us and six calls, one after another, as fast as they go.
load(bursts, _, Node) ->
    _ = call(Node, bench_node, run, [4, 10000, 10]),
    {10000, none};
load(few, _, Node) ->
    _ = call(Node, bench_node, run, [1, 400, 1]),
    {400, none};
load(full, #{turns := Turns}, Node) ->
    Workers = 2 * call(Node, erlang, system_info, [schedulers_online]),
    ok = call(Node, bench_node, load, [Workers, Turns]),
    timer:sleep(?SETTLE_MS),
    {Rate, _} = call(Node, bench_node, over, [?FULL_MS]),
    ok = call(Node, bench_node, stop, []),
    {call(Node, ?MODULE, done, []), Rate}.

%% In the target: how many requests were done under full load.
done() ->
    C = persistent_term:get(bench_node),
    lists:sum([counters:get(C, I) || I <- lists:seq(1, map_get(size, counters:info(C)))]).

counters(#{pid := Pid} = Node) ->
    {Events, Dropped} = events(Node),
    #{target => bench_node:cpu_us(integer_to_list(Pid)), kprofd => kprofd_us(Node), events => Events,
      dropped => Dropped, bytes => call(Node, ?MODULE, sent, [])}.

kprofd_us(#{kprofd := {_, Pid}}) -> bench_node:cpu_us(integer_to_list(Pid));
kprofd_us(_) -> 0.

events(#{kprofd := _} = Node) ->
    #{events_sent := Sent, events_dropped := Dropped} = call(Node, kprof_agent, status, []),
    {Sent, Dropped};
events(_) -> {0, 0}.

%% In the target: the bytes that its sockets sent, but for that of this process.
sent() ->
    lists:sum([Octets || P <- erlang:ports(), {name, "tcp_inet"} <- [erlang:port_info(P, name)],
                         {connected, Pid} <- [erlang:port_info(P, connected)], Pid =/= self(),
                         {ok, [{send_oct, Octets}]} <- [inet:getstat(P, [send_oct])]]).

drained(Node) ->
    Before = events(Node),
    timer:sleep(?SETTLE_MS),
    case events(Node) of
        Before -> ok;
        _ -> drained(Node)
    end.

%% ------------------------------------------------------ nodes, kprofd ----

start(T, Probe, Transport) ->
    %% Names of one length: each event of the relay has it in a pid.
    Name = lists:concat(["kprof_tls_", os:getpid(), "_", Probe, "_", Transport, "@127.0.0.1"]),
    {ok, L} = gen_tcp:listen(0, [binary, {packet, 4}, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(L),
    Place = maps:get(place, T),
    {P, Pid} = program(maps:get(erl, T) ++ ["-noinput", "-name", Name, "-setcookie", ?COOKIE, "-hidden", "-pa", Place]
                       ++ distribution(T, Transport) ++ ["-s", "it_stub", "start", integer_to_list(Port)]),
    {ok, S} = gen_tcp:accept(L, ?WAIT_MS),
    gen_tcp:close(L),
    {ok, _} = gen_tcp:recv(S, 0, ?WAIT_MS),
    profiled(T, Probe, Transport, Name, #{socket => S, port => P, pid => Pid, side => {Probe, Transport, Name}}).

distribution(_, tcp) -> [];
distribution(T, tls) -> ["-proto_dist", "inet_tls", "-ssl_dist_optfile", it_certs:conf(T, "node", #{})].

profiled(_, none, _, _, Node) -> Node;
profiled(#{build := Build, dir := Dir} = T, Probe, Transport, Name, Node) ->
    Db = filename:join(Dir, lists:concat([Probe, "_", Transport, ".db"])),
    _ = [file:delete(Db ++ E) || E <- ["", "-wal", "-shm", ".sock"]],
    {Port, Pid} = program([filename:join(Build, "kprofd"), "-target", Name, "-tiers", filename:join(Dir, "tiers.conf"),
                           "-cookie-file", filename:join(Dir, "cookie"), "-db", Db, "-probe", atom_to_list(Probe),
                           "-probe-library", maps:get(library, T)] ++ reach(T, Transport)),
    said(Port, <<"profiling">>, []),
    Node#{kprofd => {Port, Pid}}.

reach(_, tcp) -> [];
reach(T, tls) -> it_certs:options(T).

%% It ends with this process at the latest.
program(Command) ->
    Port = open_port({spawn_executable, os:find_executable("setpriv")},
                     [{args, ["--pdeathsig", "KILL", "--" | Command]}, {env, [{"ERL_CRASH_DUMP_BYTES", "0"}]},
                      exit_status, stderr_to_stdout, {line, 1000}, binary]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    {Port, Pid}.

said(Port, What, Said) ->
    receive
        {Port, {data, {_, Line}}} ->
            case binary:match(Line, What) of
                nomatch -> said(Port, What, [Line | Said]);
                _ -> ok
            end;
        {Port, {exit_status, Status}} -> error({ended, Status, lists:reverse(Said)})
    after ?WAIT_MS -> error({did_not_say, What, lists:reverse(Said)})
    end.

%% it_stub halts its node when the connection goes.
stop(#{socket := S, port := P} = Node) ->
    end_kprofd(Node),
    gen_tcp:close(S),
    exited(P).

end_kprofd(#{kprofd := {Port, Pid}}) ->
    "" = os:cmd("kill -TERM " ++ integer_to_list(Pid)),
    exited(Port);
end_kprofd(_) -> ok.

exited(Port) ->
    receive
        {Port, {exit_status, 0}} -> ok;
        {Port, {exit_status, Status}} -> error({ended, Status});
        {Port, _} -> exited(Port)
    after ?WAIT_MS -> error(does_not_end)
    end.

call(#{socket := S}, M, F, A) ->
    ok = gen_tcp:send(S, term_to_binary({M, F, A})),
    {ok, Bytes} = gen_tcp:recv(S, 0, ?WAIT_MS),
    {ok, Result} = binary_to_term(Bytes),
    Result.

%% ------------------------------------------------------------ figures ----

tell(Rounds) ->
    io:format("medians; of TLS to plain what holds it in 95 of 100 cases (of fewer than six rounds: the least and the"
              " most), and the least and the most; load ~s at the end~n~n"
              "| load | probe | what | plain | TLS | TLS to plain | between | least, most | rounds |~n"
              "| --- | --- | --- | --- | --- | --- | --- | --- | --- |~n", [load_average()]),
    [tell(Load, Probe, What, [{Of(R, tcp), Of(R, tls)} || R <- Rounds, has_figures(Load, Probe, R)])
     || Load <- loads(), Probe <- probes(), {What, Of} <- figures(Load, Probe)],
    io:format("~nturns that ended by an overload, beside the ~b of each:~n", [?ROUNDS]),
    [io:format("~s, ~s, ~s: ~b ~0p~n", [Load, Probe, Transport, length(Reasons), lists:usort(Reasons)])
     || Load <- loads(), Probe <- probes(), Transport <- [tcp, tls],
        [_ | _] = Reasons <- [lists:append([map_get(overloads, map_get({Load, Probe, Transport}, R)) || R <- Rounds])]],
    ok.

has_figures(Load, Probe, R) ->
    lists:all(fun(Transport) -> is_map_key(requests, map_get({Load, Probe, Transport}, R)) end, [tcp, tls]).

tell(Load, Probe, What, []) ->
    io:format("| ~s | ~s | ~s | no round without overload | | | | | |~n", [Load, Probe, What]);
tell(Load, Probe, What, Pairs) ->
    {Plain, Tls} = lists:unzip(Pairs),
    Ratios = lists:sort([B / A || {A, B} <- Pairs]),
    N = length(Ratios),
    K = bench_stacks:rank(N),
    At = fun(I) -> lists:nth(I, Ratios) end,
    io:format("| ~s | ~s | ~s | ~s | ~s | ~.2f | ~.2f to ~.2f | ~.2f, ~.2f | ~b |~n",
              [Load, Probe, What, figure(median(Plain)), figure(median(Tls)), median(Ratios),
               At(K), At(N + 1 - K), At(1), At(N), N]).

figure(X) when X >= 100 -> io_lib:format("~b", [round(X)]);
figure(X) -> io_lib:format("~.3f", [float(X)]).

median(L) ->
    lists:nth((length(L) + 1) div 2, lists:sort(L)).

figures(Load, none) ->
    [{"target, us a request", fun(R, Transport) -> request_us(R, Load, none, Transport) end} | rates(Load, none)];
figures(Load, Probe) ->
    Of = fun(Get) -> fun(R, Transport) -> Get(map_get({Load, Probe, Transport}, R)) end end,
    [{"kprofd, us an event", Of(fun(#{kprofd := Us, events := N}) -> Us / N end)},
     {"target, us an event", fun(R, Transport) -> event_us(R, Load, Probe, Transport) end},
     {"bytes an event", Of(fun(#{bytes := Bytes, events := N}) -> Bytes / N end)} | rates(Load, Probe)].

rates(full, Probe) ->
    [{"requests a second", fun(R, Transport) -> map_get(rate, map_get({full, Probe, Transport}, R)) end}];
rates(_, _) -> [].

request_us(R, Load, Probe, Transport) ->
    #{target := Us, requests := N} = map_get({Load, Probe, Transport}, R),
    Us / N.

%% What the target takes for an event: more than a request takes that nobody traces.
event_us(R, Load, Probe, Transport) ->
    #{events := Events, requests := N} = map_get({Load, Probe, Transport}, R),
    Plain = (request_us(R, Load, none, tcp) + request_us(R, Load, none, tls)) / 2,
    (request_us(R, Load, Probe, Transport) - Plain) * N / Events.
