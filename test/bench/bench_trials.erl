%% bench_trials - do the intervals of a report hold the truth?
%%
%% One node for each kind of sampling, each with an application of layers: pages and orders, by
%% a pool of workers before a process of the database, with parts rendered by tasks; orders come in
%% bursts, and fail more than others; a batch begins with each second; and an export goes on for a
%% second, which is many slices. Each request writes down what it took. kprofd measures them in
%% windows of a second, and every SECONDS of them are a trial: of each figure that `kprof report -csv`
%% gives an interval for, is the true one in it?
-module(bench_trials).

-export([main/0]).
-export([start/0, truth/0, handle/2, query/1, take/0, part/1]).

-define(KINDS, [{"slices", "{slices, 8}"}, {"one_in", "{one_in, 8}"}, {"per_second", "{per_second, 15}"}]).
-define(WORKERS, 3).

main() ->
    [Build] = init:get_plain_arguments(),
    [Trials, Seconds] = [list_to_integer(os:getenv(V, D)) || {V, D} <- [{"TRIALS", "200"}, {"SECONDS", "20"}]],
    Cookie = integer_to_list(rand:uniform(1 bsl 60)),
    _ = os:cmd("epmd -daemon"),
    {ok, _} = net_kernel:start([list_to_atom("bench_trials_" ++ os:getpid() ++ "@127.0.0.1"), longnames]),
    erlang:set_cookie(list_to_atom(Cookie)),
    Runs = [begin_one(filename:absname(Build), Cookie, K) || K <- ?KINDS],
    timer:sleep((Trials + 1) * Seconds * 1000),
    [end_one(filename:absname(Build), Trials, Seconds, R) || R <- Runs],
    halt(0).

begin_one(Build, Cookie, {Name, Sampling}) ->
    Dir = filename:join([Build, "bench_trials", Name]),
    _ = file:del_dir_r(Dir),
    ok = filelib:ensure_path(Dir),
    [CookieFile, Conf, Db] = [filename:join(Dir, F) || F <- ["cookie", "tiers.conf", "kprofd.db"]],
    ok = file:write_file(CookieFile, Cookie),
    ok = file:change_mode(CookieFile, 8#600),
    ok = file:write_file(Conf, ["{entry, {bench_trials, handle, 2}}.\n"
                                "{identity, fun ({bench_trials, handle, [Type, _]}) -> Type end}.\n"
                                "{tiers, [{db, {bench_trials, query, 1}}, {pool, {bench_trials, take, 0}}, "
                                "{html, {bench_trials, part, 1}}]}.\n{sampling, ", Sampling, "}.\n"]),
    {ok, Peer, Node} = peer:start(#{name => "bench_trials_" ++ Name ++ os:getpid(), host => "127.0.0.1", longnames => true,
                                    args => ["-setcookie", Cookie, "-connect_all", "false", "-pa", filename:dirname(code:which(?MODULE))]}),
    ok = rpc:call(Node, ?MODULE, start, []),
    Port = open_port({spawn_executable, os:find_executable("setpriv")},
                     [{args, ["--pdeathsig", "KILL", "--", filename:join(Build, "kprofd"), "-target", atom_to_list(Node),
                              "-tiers", Conf, "-cookie-file", CookieFile, "-db", Db, "-interval", "1s", "-retain", "1s:1d",
                              "-log-file", filename:join(Dir, "log")]}, exit_status, stderr_to_stdout]),
    {Name, Db, Peer, Node, Port, erlang:system_time(second)}.

end_one(Build, N, Seconds, {Name, Db, Peer, Node, Port, Began}) ->
    Truth = array:from_list(rpc:call(Node, ?MODULE, truth, [], infinity)),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    _ = os:cmd("kill " ++ integer_to_list(Pid)),
    receive {Port, {exit_status, S}} -> 0 = S after 30000 -> error(kprofd_does_not_end) end,
    peer:stop(Peer),
    Got = lists:append([trial(Build, Db, Truth, Began + I * Seconds, Seconds) || I <- lists:seq(1, N)]),
    Figures = lists:usort([K || {K, _, _} <- Got]),
    io:format("~s, OTP ~s, ~b trials of ~b s: figures whose interval held the truth~n",
              [Name, erlang:system_info(otp_release), N, Seconds]),
    [told(K, [{H, W} || {F, H, W} <- Got, F =:= K]) || K <- Figures].

%% P: how often so few or fewer would hold if each did in 95 of 100 cases.
told({Type, Tier, Figure}, L) ->
    {N, Held} = {length(L), length([1 || {true, _} <- L])},
    Wide = lists:sort([W || {_, W} <- L]),
    io:format("~-8s ~-7s ~-20s ~4b of ~4b = ~5.1f %  within ~5.1f %  P ~.3f~n",
              [Type, Tier, Figure, Held, N, 100 * Held / N, 100 * lists:nth((N + 1) div 2, Wide), at_most(Held, N)]).

at_most(K, N) ->
    min(1.0, lists:sum([math:exp(lgamma(N + 1) - lgamma(I + 1) - lgamma(N - I + 1) + I * math:log(0.95) +
                                     (N - I) * math:log(0.05)) || I <- lists:seq(0, K)])).

lgamma(N) -> lists:sum([math:log(I) || I <- lists:seq(1, N - 1)]).

%% ----------------------------------------------------------- one trial ----

trial(Build, Db, Truth, At, Seconds) ->
    Time = fun(T) -> calendar:system_time_to_rfc3339(T, [{offset, "Z"}]) end,
    Csv = os:cmd(lists:join(" ", [filename:join(Build, "kprof"), "report -csv -db", Db, "-since", Time(At),
                                  "-until", Time(At + Seconds)])),
    [Head | Rows] = [string:split(L, ",", all) || L <- string:lexemes(Csv, "\n")],
    Said = [maps:from_list(lists:zip(Head, R)) || R <- Rows],
    [#{"start" := S, "end" := E} | _] = Said,
    [From, To] = [calendar:rfc3339_to_system_time(T, [{unit, nanosecond}]) || T <- [S, E]],
    True = in_range(Truth, From, To),
    lists:append([judged(True, Row) || #{"identity" := T} = Row <- Said, T =/= "_not_measured"]).

%% Requests in the order of their ends.
in_range(Truth, From, To) ->
    First = first(Truth, From, 0, array:size(Truth)),
    [array:get(I, Truth) || I <- lists:seq(First, first(Truth, To, 0, array:size(Truth)) - 1)].

first(_, _, N, N) -> N;
first(Truth, At, A, B) ->
    Mid = (A + B) div 2,
    case element(1, array:get(Mid, Truth)) < At of
        true -> first(Truth, At, Mid + 1, B);
        false -> first(Truth, At, A, Mid)
    end.

judged(True, #{"identity" := Type, "tier" := Tier} = Row) ->
    Of = [R || R <- True, Type =:= "_total" orelse atom_to_list(element(2, R)) =:= Type],
    [judged({Type, Tier, F}, V, list_to_number(Low), list_to_number(High))
     || {F, V} <- figures(Of, True, Tier), {Low, High} <- [ends(F, Row)], High =/= ""].

ends(F, Row) -> {maps:get(F ++ "_low", Row), maps:get(F ++ "_high", Row)}.

judged(Key, True, Low, High) ->
    {Key, Low =< True andalso True =< High, math:sqrt(High / Low) - 1}.

list_to_number(S) ->
    case string:to_float(S) of
        {error, no_float} -> element(1, string:to_float(lists:append(string:replace(S ++ case lists:member($e, S) of
                                                                                        true -> "";
                                                                                        false -> ".0"
                                                                                    end, "e", ".0e"))));
        {F, _} -> F
    end.

figures([], _, _) -> [];
figures(Of, All, Tier) ->
    N = length(Of),
    Times = lists:sort(lists:append([times(Tier, R) || R <- Of])),
    {Calls, Sum} = {length(Times), lists:sum(Times)},
    Ms = fun(Ns) -> Ns / 1.0e6 end,
    P = fun(Q) -> Ms(lists:nth(max(1, ceil(Q * Calls)), Times)) end,
    case {Calls, Tier} of
        {0, _} -> [];
        {_, "_total"} ->
            [{"requests", N}, {"mean_ms", Ms(Sum / Calls)}, {"p50_ms", P(0.5)}, {"p90_ms", P(0.9)}, {"p99_ms", P(0.99)},
             {"raised_share", length([1 || R <- Of, element(5, R)]) / N},
             {"share", Sum / lists:sum([element(3, R) || R <- All])}];
        _ ->
            [{"mean_ms", Ms(Sum / Calls)}, {"p50_ms", P(0.5)}, {"p90_ms", P(0.9)}, {"p99_ms", P(0.99)},
             {"calls_per_request", Calls / N}, {"self_per_request_ms", Ms(Sum / N)}]
    end.

times("_total", {_, _, Time, _, _}) -> [Time];
times(Tier, {_, _, _, Calls, _}) -> [T || {Of, T} <- Calls, atom_to_list(Of) =:= Tier].

%% -------------------------------------------------------- in the target ----

start() ->
    Asks = self(),
    spawn(fun() ->
                  ets:new(?MODULE, [named_table, public, duplicate_bag, {write_concurrency, true}]),
                  register(bench_trials_db, spawn_link(fun db/0)),
                  register(bench_trials_pool, spawn_link(fun() -> pool(?WORKERS, queue:new()) end)),
                  spawn_link(fun() -> pages(0, erlang:monotonic_time(millisecond)) end),
                  spawn_link(fun batches/0),
                  spawn_link(fun exports/0),
                  Asks ! started,
                  receive stop -> ok end
          end),
    receive started -> ok end.

%% {End, Type, Time, [{Tier, Time}], Raised}, by their ends; times in ns.
truth() -> lists:keysort(1, ets:tab2list(?MODULE)).

wait(MeanMs) -> timer:sleep(round(-MeanMs * math:log(rand:uniform()))).

request(Type, Errors) ->
    spawn(fun() -> catch ?MODULE:handle(Type, rand:uniform() < Errors) end).

%% A rate that swings, and bursts of orders: Until is the end of one, or before now.
pages(Until, Now0) ->
    Now = erlang:monotonic_time(millisecond),
    Burst = Now < Until,
    case Burst andalso rand:uniform(10) < 8 of
        true -> request(order, 0.2);
        false -> request(page, 0.02)
    end,
    wait(if Burst -> 5; true -> 16 / (1 + 0.5 * math:sin(Now / 4000)) end),
    case Burst orelse rand:uniform(120) > 1 of
        true -> pages(Until, Now0);
        false -> pages(Now + 100 + rand:uniform(400), Now0)
    end.

batches() ->
    timer:sleep(1000 - erlang:system_time(millisecond) rem 1000),
    _ = [request(batch, 0.02) || _ <- lists:seq(1, 8)],
    batches().

exports() ->
    wait(600),
    request(export, 0.05),
    exports().

handle(Type, Raises) ->
    T0 = erlang:monotonic_time(),
    Calls = lists:append(work(Type)),
    Time = erlang:convert_time_unit(erlang:monotonic_time() - T0, native, nanosecond),
    ets:insert(?MODULE, {erlang:system_time(nanosecond), Type, Time, Calls, Raises}),
    Raises andalso error(raised),
    ok.

work(export) -> [timed(db, fun() -> ?MODULE:query(50) end) || _ <- lists:seq(1, 20)];
work(batch) -> [pooled(10) || _ <- lists:seq(1, 3)] ++ [parts(2)];
work(order) -> [pooled(4), pooled(4), parts(3)];
work(page) -> [pooled(3) || _ <- lists:seq(1, rand:uniform(3))] ++ [parts(1 + rand:uniform(2))].

timed(Tier, Fun) ->
    T0 = erlang:monotonic_time(),
    _ = Fun(),
    [{Tier, erlang:convert_time_unit(erlang:monotonic_time() - T0, native, nanosecond)}].

pooled(MeanMs) ->
    Took = timed(pool, fun() -> ?MODULE:take() end),
    Queried = timed(db, fun() -> ?MODULE:query(MeanMs) end),
    bench_trials_pool ! give,
    Took ++ Queried.

%% At the same time, each in a task.
parts(N) ->
    Self = self(),
    Tasks = [spawn(fun() -> Self ! {self(), timed(html, fun() -> ?MODULE:part(1) end)} end) || _ <- lists:seq(1, N)],
    lists:append([receive {T, Took} -> Took end || T <- Tasks]).

part(MeanMs) -> wait(MeanMs), ok.

take() ->
    bench_trials_pool ! {take, self()},
    receive taken -> ok end.

query(MeanMs) ->
    Ref = make_ref(),
    bench_trials_db ! {self(), Ref},
    receive Ref -> wait(MeanMs) end,
    ok.

db() -> receive {From, Ref} -> From ! Ref, db() end.

%% So many may work at a time.
pool(Free, Waiting) ->
    receive
        {take, P} when Free > 0 -> P ! taken, pool(Free - 1, Waiting);
        {take, P} -> pool(0, queue:in(P, Waiting));
        give ->
            case queue:out(Waiting) of
                {{value, P}, Rest} -> P ! taken, pool(0, Rest);
                {empty, _} -> pool(Free + 1, Waiting)
            end
    end.
