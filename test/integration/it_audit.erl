%% it_audit - what is true at the end of every test of faults, whatever went
%% wrong: of the target, of its memory, and of the database.
%%
%% The target of such a test is somebody's already: it has a trace control
%% word, and a tracer with patterns, counters and flags, which must be as they
%% were, and at work.
-module(it_audit).

-export([begins/1, begins/2, during/2, ends/2, database/1, database/2, sound/1, crashed/4, copy/3, windows/1]).
-export([footprint/1, grew/3]).
%% In the target.
-export([theirs/0, bonds/0]).

-define(CONTROL_WORD, 123456789).
-define(CLEAN_MS, 5000).
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
    %% It starts its resolver when it first needs it, and the sample its doors.
    it:call(Target, inet, gethostbyname, ["no.such.host.invalid"]),
    it:loaded(it:load(T, Target, ["4", "40"])),
    it:do(Target, fun trace_for_somebody/0),
    it:call(Target, erlang, system_flag, [trace_control_word, ?CONTROL_WORD]),
    Snapshot = it:settled(Target),
    it:equal("the control word", ?CONTROL_WORD, maps:get(control_word, Snapshot)),
    {Target, #{snapshot => Snapshot, theirs => it:call(Target, ?MODULE, theirs, []),
               bonds => it:call(Target, ?MODULE, bonds, [])}}.

%% Nothing of ours is there, and nothing of theirs has gone, within five
%% seconds and while the load goes on.
during(Target, #{snapshot := Snapshot} = Mark) ->
    it:audit(Target, Snapshot, ?BUSY),
    theirs_are_there(Target, Mark).

%% The same at rest, when processes can be compared as well.
ends(Target, #{snapshot := Snapshot, bonds := Bonds} = Mark) ->
    it:audit(Target, Snapshot),
    theirs_are_there(Target, Mark),
    same("links and monitors", Bonds, fun() -> it:call(Target, ?MODULE, bonds, []) end).

theirs_are_there(Target, #{theirs := Theirs}) ->
    it:equal("somebody else's tracing", Theirs, it:call(Target, ?MODULE, theirs, [])),
    Seen = it:do(Target, fun traces_seen/0),
    it:do(Target, fun() -> it_traced ! word, ok end),
    it:until("somebody else's tracer sees events", fun() -> it:do(Target, fun traces_seen/0) > Seen end).

same(What, Want, Fun) ->
    Deadline = erlang:monotonic_time(millisecond) + ?CLEAN_MS,
    same(What, Want, Fun, Deadline).

same(What, Want, Fun, Deadline) ->
    case Fun() of
        Want -> ok;
        Got ->
            erlang:monotonic_time(millisecond) > Deadline andalso
                it:fail("~s: was ~0tp~n  is  ~0tp", [What, Want -- Got, Got -- Want]),
            receive after 20 -> ok end,
            same(What, Want, Fun, Deadline)
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

%% What a target has of everything that can leak, at rest.
footprint(Target) ->
    it:settled(Target),
    it:do(Target, fun() ->
                          [erlang:garbage_collect(P) || P <- processes()],
                          #{processes => length(processes()), ports => length(erlang:ports()),
                            ets => length(ets:all()), atoms => erlang:system_info(atom_count),
                            bytes => erlang:memory(total)}
                  end).

%% Names: how many kprofd has for itself, each of which may have come to be an
%% atom meanwhile.
grew(Target, Before, Names) ->
    More = maps:map(fun(K, N) -> N - maps:get(K, Before) end, footprint(Target)),
    Most = #{processes => 0, ports => 0, ets => 0, atoms => Names, bytes => ?MB},
    [it:check(N =< maps:get(K, Most), "the target has ~b more ~s: ~0p", [N, K, More]) || {K, N} <- maps:to_list(More)],
    More.

%% ------------------------------------------------------ the database ----

database(P) ->
    database(P, #{}).

%% unclean    runs that did not end well: 0
%% in_flight  the most requests that those had begun at their last window
database(P, Opts) ->
    sound(P),
    Unclean = unclean(P),
    it:equal("runs that did not end well", maps:get(unclean, Opts, 0), length(Unclean)),
    [it:check(lists:member(Run, Unclean) orelse balanced(R), "run ~b: ~0p, ~0p", [Run, R, it:losses(P)])
     || #{run := Run} = R <- it:balances(P)],
    [underway(R, maps:get(in_flight, Opts, 0), P) || #{run := Run} = R <- it:balances(P), lists:member(Run, Unclean)],
    [unclean_end(P, Run) || Run <- Unclean],
    ok.

%% Right after kprofd was killed: a copy of its database is sound, is balanced
%% up to the last window, and has every window that was there before. Gives
%% those of now.
crashed(T, P, InFlight, Before) ->
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
                    underway(lists:last([#{calls => 0, sampled => 0, lost => 0} | it:balances(Copy)]), InFlight, Copy),
                    Now = windows(Copy),
                    it:equal("windows that were there", [], Before -- Now),
                    Now
            end
    end.

%% Of a file that nobody writes; its WAL is part of it.
copy(T, P, Name) ->
    To = it:path(T, Name),
    [file:delete(To ++ Suffix) || Suffix <- ["", "-wal", "-shm", "-journal"]],
    [{ok, _} = file:copy(it:db(P) ++ Suffix, To ++ Suffix)
     || Suffix <- ["", "-wal", "-journal"], filelib:is_file(it:db(P) ++ Suffix)],
    %% Recovered, as the next start does it: a reader may not.
    [] = os:cmd("sqlite3 '" ++ To ++ "' 'pragma wal_checkpoint(truncate)' >/dev/null"),
    P#{db := To, out := To}.

windows(P) ->
    it:sql(P, "select run_id, node_id, start_ns, end_ns, entry_calls, sampled from time_window order by id").

sound(P) ->
    it:equal("pragma integrity_check", [[<<"ok">>]], it:sql(P, "pragma integrity_check")),
    it:equal("pragma foreign_key_check", [], it:sql(P, "pragma foreign_key_check")),
    it:equal("windows of a run with none behind them", [],
             it:sql(P, "select run_id, count(*) from time_window a where not exists (select 1 from time_window b"
                    " where b.run_id = a.run_id and b.node_id = a.node_id and b.start_ns = a.end_ns)"
                    " group by run_id having count(*) > 1")),
    it:equal("what was not understood", #{}, maps:with([bad_event, gap], it:losses(P))).

balanced(#{calls := Calls, sampled := Sampled, lost := Lost}) ->
    Calls =:= Sampled + Lost.

%% Those that were on their way have been called, and are nothing else yet.
underway(#{calls := Calls, sampled := Sampled, lost := Lost} = R, InFlight, P) ->
    Open = Calls - Sampled - Lost,
    it:check(Open >= 0 andalso Open =< InFlight, "~b on their way, of at most ~b: ~0p, ~0p",
             [Open, InFlight, R, it:losses(P)]).

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
