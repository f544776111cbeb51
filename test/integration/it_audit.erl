%% it_audit - what is true at the end of every test of faults, whatever went
%% wrong: of the target, of its memory, and of the database.
%%
%% The target of such a test is somebody's already: it has a trace control
%% word, and a tracer with patterns, counters and flags, which must be as they
%% were, and at work.
-module(it_audit).

-export([begins/1, begins/2, mark/2, during/2, ends/2, database/1, database/2, sound/1, crashed/4, copy/3, written/1]).
-export([footprint/1, grew/3]).
%% In the target.
-export([theirs/0, bonds/0, count_traces/1, traces_seen/0]).

-define(CONTROL_WORD, 123456789).
-define(MB, 1048576).
%% Functions that somebody traces or counts; none that a request runs.
-define(THEIRS, [{string, casefold, 1}, {lists, nth, 2}, {lists, last, 1}]).
%% What comes and goes with the load's connections.
-define(BUSY, [processes, registered, nodes]).

begins(T) ->
    begins(T, #{}).

%% A target with somebody's tracing in it, and what it is like.
begins(T, Opts) ->
    Target = it:target(T, Opts),
    {Target, mark(T, Target)}.

mark(T, Target) ->
    %% It starts its resolver when it first needs it, and the sample its doors.
    it:call(Target, inet, gethostbyname, ["no.such.host.invalid"]),
    it:loaded(it:load(T, Target, ["4", "40"])),
    it:do(Target, fun trace_for_somebody/0),
    it:call(Target, erlang, system_flag, [trace_control_word, ?CONTROL_WORD]),
    Snapshot = it:settled(Target),
    it:equal("the control word", ?CONTROL_WORD, maps:get(control_word, Snapshot)),
    #{snapshot => Snapshot, theirs => it:call(Target, ?MODULE, theirs, []),
      bonds => it:call(Target, ?MODULE, bonds, [])}.

%% Nothing of ours is there, and nothing of theirs has gone, within five
%% seconds and while the load goes on.
during(Target, #{snapshot := Snapshot} = Mark) ->
    it:audit(Target, Snapshot, ?BUSY),
    theirs_are_there(Target, Mark).

%% The same at rest, when processes can be compared as well.
ends(Target, #{snapshot := Snapshot, bonds := Bonds} = Mark) ->
    it:audit(Target, Snapshot),
    theirs_are_there(Target, Mark),
    same("links and monitors", Bonds, Target, fun() -> it:call(Target, ?MODULE, bonds, []) end, it:patience(Target)).

theirs_are_there(Target, #{theirs := Theirs}) ->
    it:equal("somebody else's tracing", Theirs, it:call(Target, ?MODULE, theirs, [])),
    Seen = it:do(Target, fun traces_seen/0),
    it:do(Target, fun() -> it_traced ! word, ok end),
    it:until("somebody else's tracer sees events", fun() -> it:do(Target, fun traces_seen/0) > Seen end).

same(What, Want, Target, Fun, Patience) ->
    case Fun() of
        Want -> ok;
        Got ->
            it:is_over(Target, Patience) andalso
                it:fail("~s: was ~0tp~n  is  ~0tp", [What, Want -- Got, Got -- Want]),
            receive after 20 -> ok end,
            same(What, Want, Target, Fun, Patience)
    end.

%% ------------------------------------------------------ in the target ----

trace_for_somebody() ->
    Tracer = spawn(fun() -> count_traces(0) end),
    register(it_tracer, Tracer),
    register(it_traced, spawn(fun Wait() -> receive _ -> Wait() end end)),
    [Local, Meta, Counted] = ?THEIRS,
    [{module, M} = code:ensure_loaded(M) || {M, _, _} <- ?THEIRS],
    1 = erlang:trace_pattern(Local, [{'_', [], [{return_trace}]}], [local]),
    1 = erlang:trace_pattern(Meta, [], [{meta, Tracer}]),
    1 = erlang:trace_pattern(Counted, true, [call_count]),
    [1 = erlang:trace(whereis(P), true, ['receive', call, {tracer, Tracer}]) || P <- traced()],
    ok.

traced() -> [it_traced, application_controller].

%% Somebody's tracer, called it_tracer.
count_traces(N) ->
    receive
        {how_many, From} -> From ! {traces, N}, count_traces(N);
        _ -> count_traces(N + 1)
    end.

traces_seen() ->
    it_tracer ! {how_many, self()},
    receive {traces, N} -> N end.

theirs() ->
    [{F, K, V} || F <- ?THEIRS, K <- [traced, match_spec, meta, meta_match_spec], {_, V} <- [erlang:trace_info(F, K)]] ++
        [{P, erlang:trace_info(whereis(P), K)} || P <- traced(), K <- [flags, tracer]].

%% How many links and monitors there are at the processes that have names.
bonds() ->
    lists:sort([{Name, [{K, length(L)} || {K, L} <- Bonds]}
                || Name <- registered(), P <- [whereis(Name)], is_pid(P),
                   Bonds <- [process_info(P, [links, monitors, monitored_by])], Bonds =/= undefined]).

%% ------------------------------------------------------ its memory ----

%% What a target has of everything that can leak, at rest: the least of some
%% looks, since heaps shrink when they like.
footprint(Target) ->
    it:settled(Target),
    Least = fun(_, A, B) -> min(A, B) end,
    lists:foldl(fun(_, So) ->
                        receive after 100 -> ok end,
                        maps:merge_with(Least, So, footprint_now(Target))
                end, footprint_now(Target), lists:seq(1, 5)).

footprint_now(Target) ->
    it:do(Target, fun() ->
                          [erlang:garbage_collect(P) || P <- processes()],
                          %% First: the VM makes atoms to answer that.
                          Kinds = maps:from_list(erlang:memory([total, system, processes_used, binary, code, ets])),
                          Kinds#{processes => length(processes()), ports => length(erlang:ports()),
                            tables => length(ets:all()), atoms => erlang:system_info(atom_count)}
                  end).

%% Names: how many kprofd has for itself, each of which may have come to be an
%% atom meanwhile.
grew(Target, Before, Names) ->
    More = maps:map(fun(K, N) -> N - maps:get(K, Before) end, footprint(Target)),
    Most = #{processes => 0, ports => 0, tables => 0, atoms => Names, code => 65536},
    [it:check(N =< maps:get(K, Most, ?MB), "the target has ~b more ~s: ~0p", [N, K, More])
     || {K, N} <- maps:to_list(More)],
    More.

%% ------------------------------------------------------ the database ----

database(P) ->
    database(P, 0).

%% Killed: how many runs did not end well. Those are balanced up to the last
%% window: crashed/4 has seen to it.
database(P, Killed) ->
    sound(P),
    Unclean = unclean(P),
    it:equal("runs that did not end well", Killed, length(Unclean)),
    [it:check(lists:member(Run, Unclean) orelse open(R) =:= 0, "run ~b: ~0p, ~0p", [Run, R, it:losses(P)])
     || #{run := Run} = R <- it:balances(P)],
    [unclean_end(P, Run) || Run <- Unclean],
    ok.

%% Right after kprofd was killed: a copy of its database is sound, is balanced
%% up to the last window, and has all that was written before. Gives what is
%% written now. The load's clients have one request each.
crashed(T, P, Clients, Before) ->
    case filelib:is_file(it:db(P)) of
        false ->
            Before;
        true ->
            Copy = copy(T, P, "copy.db"),
            case it:sql(Copy, "select count(*) from sqlite_schema where name = 'time_window'") of
                [[<<"0">>]] ->
                    Before;
                _ ->
                    sound(Copy),
                    Runs = it:balances(Copy),
                    %% Killed before it began a run, it left that of another as the last one.
                    [underway(R, Clients, Copy) || #{run := Run} = R <- lists:nthtail(max(0, length(Runs) - 1), Runs),
                                                   not is_written(Run, Before)],
                    Now = written(Copy),
                    it:equal("what was written", [], Before -- Now),
                    Now
            end
    end.

is_written(Run, Written) ->
    lists:keymember(integer_to_binary(Run), 1, [list_to_tuple(Row) || Row <- Written]).

%% Of a file that nobody writes; its WAL is part of it.
copy(T, P, Name) ->
    To = it:path(T, Name),
    [file:delete(To ++ Suffix) || Suffix <- ["", "-wal", "-shm", "-journal"]],
    [{ok, _} = file:copy(it:db(P) ++ Suffix, To ++ Suffix)
     || Suffix <- ["", "-wal", "-journal"], filelib:is_file(it:db(P) ++ Suffix)],
    %% Recovered, as the next start does it: a reader may not.
    [] = os:cmd("sqlite3 '" ++ To ++ "' 'pragma wal_checkpoint(truncate)' >/dev/null"),
    P#{db := To, out := To}.

%% What was written of each run: windows that were apart may be one later.
written(P) ->
    it:sql(P, "select run_id, node_id, min(start_ns), max(end_ns), sum(entry_calls), sum(sampled) from time_window"
           " group by run_id, node_id").

sound(P) ->
    it:equal("pragma integrity_check", [[<<"ok">>]], it:sql(P, "pragma integrity_check")),
    it:equal("pragma foreign_key_check", [], it:sql(P, "pragma foreign_key_check")),
    it:equal("windows of a run with none behind them", [],
             it:sql(P, "select run_id, count(*) from time_window a where not exists (select 1 from time_window b"
                    " where b.run_id = a.run_id and b.node_id = a.node_id and b.start_ns = a.end_ns)"
                    " group by run_id having count(*) > 1")),
    it:equal("what was not understood", #{}, maps:with([bad_event, gap], it:losses(P))).

open(#{calls := Calls, sampled := Sampled, lost := Lost}) ->
    Calls - Sampled - Lost.

%% Calls that the last window explains nothing of are requests that kprofd had
%% begun, as it said in its log, and what was on its way to it.
underway(R, Clients, P) ->
    Begun = case re:run(it:errors(P), "requests in the last .* ([0-9]+) in flight", [global, {capture, [1], list}]) of
                {match, Said} -> lists:max([list_to_integer(N) || [N] <- Said]);
                nomatch -> 0
            end,
    it:check(open(R) >= 0 andalso open(R) =< Begun + Clients, "~b on their way, of at most ~b and ~b: ~0p, ~0p",
             [open(R), Begun, Clients, R, it:losses(P)]).

unclean(P) ->
    [binary_to_integer(Run) || [Run] <- it:sql(P, "select run from runs where state = 'unclean' order by run")].

%% The event names the run, and its last window.
unclean_end(P, Run) ->
    Last = it:sql(P, io_lib:format("select 'ended ' || strftime('%Y-%m-%dT%H:%M:%SZ', max(end_ns) / 1000000000,"
                                   " 'unixepoch') from time_window where run_id = ~b", [Run])),
    Says = case Last of
               [] -> "is missing";
               [[Text]] -> Text
           end,
    it:equal("events of its end", [[iolist_to_binary(io_lib:format("run ~b of kprofd did not end well; its last window"
                                                                   " ~s", [Run, Says]))]],
             it:sql(P, io_lib:format("select text from events where kind = 'unclean_end'"
                                     " and text like 'run ~b of %'", [Run]))).
