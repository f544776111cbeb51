%% it_run - runs the integration tests and says how they went.
%%
%%     erl -noinput -pa EBIN -s it_run main -extra BUILD [-root DIR] [-oldest | -newest | -tracing]
%%         [-jobs N] [-lock FILE] [-app NAME] [-modules M,M] [TEST ...]
%%
%% BUILD is where kprofd and the sample application were built. With -root the
%% targets (not kprofd, not the load) run in the Erlang of that root file
%% system. With -oldest and -newest, of which one is of no use without the other, tests
%% that depend little on the release of their targets run with one of these; with
%% -tracing only those of tracing in the VM.
%% NAME is another application below BUILD for the targets, in place of
%% the sample; M are modules with tests, in place of those below. TEST is a part
%% of a name: only tests that have it run.
%%
%% A test is {Name, Seconds, Fun} or {Name, Seconds, alone, Fun}: Fun is called
%% with a context and passes by returning; Seconds are more than it takes, and
%% three times as many end it. Each has a process, a directory and
%% node names of its own; whatever it started is killed when it ends, in
%% whichever way. Tests run JOBS at a time, those marked `alone` by themselves
%% at the end, also of what other runners with the same FILE do. Where many run, one of 75
%% that fails has a second chance, alone; those that pass then are counted apart, as
%% unsteady, and named in a last line.
-module(it_run).

-export([main/0]).

-define(MODULES, [attach_tests, error_tests, reload_tests, connection_tests, transport_tests, tls_tests, idle_tests, fault_tests, code_tests, daemon_tests, progress_tests,
                  usage_tests, top_tests, odd_tests, check_tests, ctl_check_tests, suggest_tests,
                  outcome_tests, traced_tests, drain_tests, pool_tests, catalogue_tests, mark_tests, token_tests, probe_tests, mail_tests, cowboy_tests, cluster_tests, port_tests, container_tests,
                   crossing_tests, hostile_tests, hostile_tls_tests, agent_tests, adversary_tests, stacks_tests, stack_shares_tests, overload_tests, crowd_tests, sampling_tests, slices_tests, hot_tests,
                   footprint_tests, figure_tests, views_tests, counters_tests, sampler_tests, pause_tests, apply_tests, live_tests, requests_tests, limits_tests, background_tests,
                  trace_tests, trace_pool_tests, trace_nodes_tests, next_tests, spans_tests, truth_tests]).

%% Their targets are stand-ins, or do nothing in particular, or what they do was seen to be
%% the same on all releases.
-define(OLDEST_ALONE, [idle_tests, daemon_tests, progress_tests, usage_tests, top_tests, odd_tests,
                       hostile_tests, hostile_tls_tests, views_tests, background_tests,
                       check_tests, ctl_check_tests, port_tests, container_tests, cluster_tests]).
-define(NEWEST_ALONE, [suggest_tests, transport_tests]).
%% They take long, or need what is not there.
-define(BY_NAME, [refused_tests, soak_tests, viewer_tests]).
-define(TRACING, [attach_tests, reload_tests, code_tests, outcome_tests, drain_tests, catalogue_tests,
                  mark_tests, token_tests, probe_tests, mail_tests, agent_tests, adversary_tests,
                  overload_tests, hot_tests, footprint_tests, counters_tests, apply_tests]).

-define(PATIENCE, 3).
-define(MANY, 10).
-define(AGAIN_MAX, 8).

main() ->
    Code = try run(options(init:get_plain_arguments(), #{root => none, jobs => 3, lock => none, app => "sample_app",
                                                              modules => ?MODULES, only => []}))
           catch Class:Reason:Stack ->
                   io:format("the runner failed: ~p:~0p~n~p~n", [Class, Reason, Stack]),
                   3
           end,
    halt(Code).

options(["-root", Dir | More], O) -> options(More, O#{root := filename:absname(Dir)});
options(["-oldest" | More], O) -> options(More, O#{modules := ?MODULES -- ?NEWEST_ALONE});
options(["-newest" | More], O) -> options(More, O#{modules := ?MODULES -- ?OLDEST_ALONE});
options(["-tracing" | More], O) -> options(More, O#{modules := ?TRACING});
options(["-jobs", N | More], O) -> options(More, O#{jobs := list_to_integer(N)});
options(["-lock", File | More], O) -> options(More, O#{lock := File});
options(["-app", Name | More], O) -> options(More, O#{app := Name});
options(["-modules", Names | More], O) ->
    options(More, O#{modules := [list_to_atom(N) || N <- string:lexemes(Names, ",")]});
options([Build | More], O) when not is_map_key(build, O) ->
    options(More, O#{build => Build});
options(More, O) -> O#{only := More}.

%% A module in neither list would never run.
unlisted() ->
    There = filelib:wildcard("*_tests.beam", filename:dirname(code:which(?MODULE))),
    [list_to_atom(filename:basename(F, ".beam")) || F <- There] -- (?MODULES ++ ?BY_NAME).

run(O) ->
    process_flag(trap_exit, true),
    unlisted() =:= [] orelse error({in_no_list, unlisted()}),
    ets:new(it_processes, [named_table, public, bag]),
    Env = it:prepare(O),
    Tests = [T || M <- maps:get(modules, O), T0 <- M:tests(), T <- [full(M, T0)],
                  wanted(element(1, T), maps:get(only, O))],
    {Alone, Together} = lists:partition(fun({_, _, How, _}) -> How =:= alone end, Tests),
    Start = now_s(),
    Lock = maps:get(lock, O),
    Results = try
                  Beside = locked(Lock, "-s", fun() -> together(Together, maps:get(jobs, O), Env, #{}, []) end),
                  case Alone =/= [] orelse lists:keymember(failed, 2, Beside) of
                      true -> locked(Lock, "-x", fun() -> again(Beside ++ together(Alone, 1, Env, #{}, []), Tests, Env) end);
                      false -> Beside
                  end
              after
                  it:tidy(Env)
              end,
    Count = fun(What) -> length([R || {_, R} <- Results, R =:= What]) end,
    %% What failed is kept to be looked at.
    Count(failed) + Count(unsteady) =:= 0 andalso it:forget(Env),
    Some = fun(What) -> case Count(What) of 0 -> ""; N -> io_lib:format(", ~b ~s", [N, What]) end end,
    Summary = io_lib:format("~b passed, ~b failed~s~s in ~.1f s",
                            [Count(passed), Count(failed), Some(unsteady), Some(skipped), now_s() - Start]),
    io:format("~s~n", [Summary]),
    [io:format("unsteady: ~ts~n", [Name]) || {Name, unsteady} <- Results],
    it:record(Env, Summary),
    case Count(failed) of
        0 when Tests =/= [] -> 0;
        _ -> 1
    end.

%% On a busy machine a few of all may fail for want of time: these run once
%% more, by themselves. They are counted apart, and what they said stays.
again(Results, Tests, Env) when length(Tests) >= ?MANY ->
    Most = min(?AGAIN_MAX, max(2, length(Tests) div 75)),
    case [T || {Name, failed} <- Results, T <- Tests, element(1, T) =:= Name] of
        Failed when length(Failed) =< Most, Failed =/= [] ->
            Second = together(Failed, 1, Env, #{}, []),
            [case lists:member({Name, passed}, Second) of
                 true when Result =:= failed -> {Name, unsteady};
                 _ -> {Name, Result}
             end || {Name, Result} <- Results];
        _ ->
            Results
    end;
again(Results, _, _) ->
    Results.

%% A process holds the lock until its input ends.
locked(none, _, Fun) ->
    Fun();
locked(File, How, Fun) ->
    Flock = open_port({spawn_executable, os:find_executable("flock")},
                      [{args, [How, File, "sh", "-c", "echo; exec cat"]}]),
    receive
        {Flock, {data, _}} -> ok;
        {'EXIT', Flock, Why} -> error({flock, File, Why})
    end,
    Result = Fun(),
    catch port_close(Flock),
    Result.

full(M, {Name, Seconds, Fun}) -> full(M, {Name, Seconds, together, Fun});
full(M, {Name, Seconds, How, Fun}) ->
    Area = hd(string:split(atom_to_list(M), "_")),
    {lists:flatten([Area, ": ", Name]), Seconds, How, Fun}.

wanted(_, []) -> true;
wanted(Name, Only) -> lists:any(fun(Part) -> string:find(Name, Part) =/= nomatch end, Only).

now_s() ->
    erlang:monotonic_time(millisecond) / 1000.

%% Running: process => {monitor, name, start, timer}.
together([], _, _, Running, Results) when map_size(Running) =:= 0 ->
    Results;
together([{Name, Usual, _, Fun} | More], Jobs, Env, Running, Results)
  when map_size(Running) < Jobs ->
    Seconds = ?PATIENCE * Usual,
    {Pid, _} = spawn_monitor(fun() -> test(Name, Fun, Env) end),
    Timer = erlang:send_after(Seconds * 1000, self(), {late, Pid, Seconds}),
    together(More, Jobs, Env, Running#{Pid => {Name, now_s(), Timer}}, Results);
together(Tests, Jobs, Env, Running, Results) ->
    receive
        {late, Pid, Seconds} when is_map_key(Pid, Running) ->
            Where = case process_info(Pid, current_stacktrace) of
                        {_, Stack} -> Stack;
                        undefined -> []
                    end,
            _ = catch it:keep_states(Pid),
            exit(Pid, kill),
            receive {'DOWN', _, process, Pid, _} -> ok end,
            Result = {failed, io_lib:format("not done after ~b s, in ~p", [Seconds, Where])},
            together(Tests, Jobs, Env, maps:remove(Pid, Running),
                     [ended(Pid, Result, Running) | Results]);
        {'DOWN', _, process, Pid, Reason} when is_map_key(Pid, Running) ->
            Result = case Reason of
                         {it, R} -> R;
                         _ -> {failed, io_lib:format("~p", [Reason])}
                     end,
            together(Tests, Jobs, Env, maps:remove(Pid, Running),
                     [ended(Pid, Result, Running) | Results]);
        _ ->
            together(Tests, Jobs, Env, Running, Results)
    end.

test(Name, Fun, Env) ->
    T = it:context(Name, Env),
    try Fun(T) of
        {skipped, Why} -> exit({it, {skipped, Why}});
        {note, Text} -> exit({it, {passed, Text}});
        _ -> exit({it, {passed, ""}})
    catch
        throw:{check, Text} -> exit({it, {failed, [Text, it:evidence(T)]}});
        exit:{it, _} = R -> exit(R);
        Class:Reason:Stack ->
            exit({it, {failed, [io_lib:format("~p: ~p~n~p", [Class, Reason, Stack]),
                                it:evidence(T)]}})
    end.

ended(Pid, {Result, Text}, Running) ->
    {Name, Start, Timer} = maps:get(Pid, Running),
    erlang:cancel_timer(Timer),
    it:kill_all(Pid),
    Word = case Result of passed -> "ok  "; failed -> "FAIL"; skipped -> "skip" end,
    io:format("~s ~6.1f s  ~s~n", [Word, now_s() - Start, Name]),
    case string:trim(unicode:characters_to_list(Text)) of
        "" -> ok;
        Detail -> [io:format("       ~ts~n", [L]) || L <- string:split(Detail, "\n", all)]
    end,
    {Name, Result}.
