%% make soak MINUTES=N: kprofd on a busy target, with all that happens in weeks
%% happening in minutes: sampling that follows the load, trees kept, windows
%% rolled up and deleted, traced code loaded anew, pauses, reloads of the
%% configuration, and an agent that is killed, so that kprofd attaches again.
%%
%% After the first minute nothing may grow, in kprofd or in the target. Growth
%% is a robust line's (Theil-Sen: the median slope of all pairs) over the time
%% looked at, so that single peaks do not count and a slow leak does; what is
%% allowed is for the whole run, however long it was.
-module(soak_tests).

-export([tests/0]).

-define(MIB, 1048576).
-define(SETTLE_S, 60).
-define(EVERY_MS, 2000).

%% What is looked at, what it may grow by, and in which unit it is shown.
-define(LOOKED_AT, [{kprofd_rss, 4 * ?MIB, mib}, {kprofd_descriptors, 2, one}, {kprofd_threads, 1, one},
                    {target_atoms, 8, one}, {target_processes, 5, one}, {target_ports, 3, one}, {target_ets, 1, one},
                    {target_code, ?MIB div 4, mib}, {agent_memory, ?MIB, mib}]).

%% What happens, and every how many seconds; primes, so that all meet all.
-define(HAPPENS, [{17, fun load_code/2}, {37, fun pause/2}, {53, fun reload/2}, {71, fun kill_agent/2}]).

-define(TIERS, "{tiers, [{handle, {requests, handle_request, 2}}, {format, {formatter, format_response, 1}},\n"
        "         {db, [{db, network_request, 1}, {db, transaction, '_'}]}]}.\n"
        "{identity, fun({requests, handle_request, [Op, _]}) when is_atom(Op) -> Op end}.\n"
        "{sampling, {per_second, 200}}.\n{keep_slowest, 3}.\n{slow_ms, ~b}.\n").

tests() ->
    [{lists:concat(["for ", minutes(), " minutes"]), 60 * minutes() + 300, alone, fun soak/1}].

minutes() -> list_to_integer(os:getenv("KPROFD_SOAK_MINUTES", "10")).

soak(T) ->
    Target = it:target(T),
    P = it:kprofd(T, Target, #{tiers => io_lib:format(?TIERS, [100]),
                               args => ["-interval", "1s", "-retain", "1s:30s,10s:2m,1m:1h,slow:2m,events:2m"]}),
    it:armed(P),
    Load = it:load(T, Target, ["16", "36000s", "10"]),
    Start = now_ms(),
    %% All of it once at the start: what is loaded and named for the first time.
    Samples = samples(Target, P, Start, Start + 60000 * minutes(), [], maps:from_list([{Every, -1} || {Every, _} <- ?HAPPENS])),
    it:check(it:is_running(Load), "the load goes on"),
    it:kill(Load),
    it:terminate(P),
    it:equal("integrity", [[<<"ok">>]], it:sql(P, "pragma integrity_check")),
    Kinds = it:sql(P, "select kind, count(*) from events group by kind"),
    [it:check(lists:keymember([Kind], 1, [{[K], N} || [K, N] <- Kinds]), "no event '~s' in the last minutes", [Kind])
     || Kind <- [<<"reloaded">>, <<"paused">>, <<"attach">>], minutes() >= 5],
    table(Samples).

now_ms() -> erlang:monotonic_time(millisecond).

samples(Target, P, Start, End, Samples, Done) ->
    Now = now_ms(),
    Done1 = lists:foldl(fun({Every, Do}, Acc) ->
                                case (Now - Start) div (1000 * Every) of
                                    N when N > map_get(Every, Acc) -> Do(Target, P), Acc#{Every => N};
                                    _ -> Acc
                                end
                        end, Done, ?HAPPENS),
    it:check(it:is_running(P), "kprofd runs"),
    Samples1 = case Now - Start >= 1000 * ?SETTLE_S of
                   true -> [{(Now - Start) / 1000, sample(Target, P)} | Samples];
                   false -> Samples
               end,
    receive after ?EVERY_MS -> ok end,
    case now_ms() < End of
        true -> samples(Target, P, Start, End, Samples1, Done1);
        false -> lists:reverse(Samples1)
    end.

%% Waits for what is under way: a sample has an agent at work.
sample(Target, #{pid := Pid} = P) ->
    Agent = it:until("an agent is armed",
                     fun() ->
                             it:call(Target, it_stub, agent, []) =/= gone andalso
                                 it:do(Target, fun() -> process_info(whereis(kprof_agent), memory) end)
                     end),
    {memory, Memory} = Agent,
    Count = fun(What) -> length(filelib:wildcard(lists:concat(["/proc/", Pid, "/", What, "/*"]))) end,
    [Atoms, Processes, Ports] = [it:call(Target, erlang, system_info, [K]) || K <- [atom_count, process_count, port_count]],
    #{kprofd_rss => it:rss(P), kprofd_descriptors => Count("fd"), kprofd_threads => Count("task"),
      target_atoms => Atoms, target_processes => Processes, target_ports => Ports,
      target_ets => length(it:call(Target, ets, all, [])), target_code => it:call(Target, erlang, memory, [code]),
      agent_memory => Memory}.

%% ------------------------------------------------------- what happens ----

%% As a release handler does; nobody runs the code before.
load_code(Target, _) ->
    it:do(Target, fun() -> code:purge(db), {module, db} = code:load_file(db), code:purge(db), ok end).

pause(_, P) ->
    {ok, _} = it:control(P, "pause"),
    {ok, _} = it:control(P, "resume").

%% Another limit each time.
reload(_, #{name := Name} = P) ->
    Tiers = filename:join(filename:dirname(it:db(P)), "tiers" ++ lists:nthtail(length("kprofd"), Name) ++ ".conf"),
    ok = file:write_file(Tiers, io_lib:format(?TIERS, [50 + rand:uniform(100)])),
    {ok, _} = it:control(P, "reload").

kill_agent(Target, _) ->
    it:do(Target, fun() -> is_pid(whereis(kprof_agent)) andalso exit(whereis(kprof_agent), kill) end).

%% ------------------------------------------------------------ figures ----

table(Samples) ->
    Rows = [row(Key, Most, Unit, [{At, maps:get(Key, S)} || {At, S} <- Samples]) || {Key, Most, Unit} <- ?LOOKED_AT],
    Text = [io_lib:format("~-19s ~10s ~10s ~10s ~10s ~10s ~10s~n",
                          ["after a minute", "least", "median", "most", "last third", "grows", "may"]),
            [Line || {_, Line} <- Rows]],
    it:check(lists:all(fun({Good, _}) -> Good end, Rows), "something grows:~n~ts", [Text]),
    {note, Text}.

row(Key, Most, Unit, Points) ->
    Values = [V || {_, V} <- Points],
    {From, _} = hd(Points),
    {To, _} = lists:last(Points),
    Grows = slope(Points) * (To - From),
    Last = median(lists:nthtail(2 * length(Values) div 3, Values)),
    Good = Grows =< Most,
    Line = io_lib:format("~-19s ~10s ~10s ~10s ~10s ~10s ~10s~s~n",
                         [Key | [shown(V, Unit) || V <- [lists:min(Values), median(Values), lists:max(Values), Last, Grows, Most]]]
                         ++ [case Good of true -> ""; false -> "  <--" end]),
    {Good, Line}.

slope(Points) ->
    median([(V2 - V1) / (At2 - At1) || {At1, V1} <- Points, {At2, V2} <- Points, At2 > At1]).

median(Values) ->
    lists:nth((length(Values) + 1) div 2, lists:sort(Values)).

shown(V, mib) -> io_lib:format("~.2f MiB", [V / ?MIB]);
shown(V, one) when is_integer(V) -> integer_to_list(V);
shown(V, one) -> io_lib:format("~.2f", [V]).
