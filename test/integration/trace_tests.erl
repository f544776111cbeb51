%% kprof trace and analyse: calls, callers and callees are those that fprof
%% finds for the same work; limits end a trace early, with what there is; and
%% nothing stays behind, however it ends.
-module(trace_tests).

-export([tests/0]).

-import(it_kprof, [ends/1, kprof/2, load/1, plain/1, says/2]).

-define(WORK, "it_counted:work(50)").
-define(ALL, ["-max-functions", "200000", "_"]).
-define(TRACER_TICK, 500).     % ms: twice as long, and some more

%% What both probes do the same, with either; by request there is one way.
tests() ->
    [{Name ++ ", " ++ Probe, S, fun(T) -> Fun(T#{trace_probe => Probe}) end}
     || {Name, S, Fun} <- alike(), Probe <- ["relay", "native"]] ++
    [{"the same events by both probes", 60, fun same_events/1},
     {"a trace ends in time, however late its tracer is", 60, fun in_time/1},
     {"what is there where a trace is to be kept", 60, fun in_place/1},
     {"quietly", 60, fun quietly/1},
     {"traces with the probe that serves", 60, fun serves/1},
     {"traces beside a kprofd with its own native probe", 120, fun beside/1},
     {"a trace where somebody else traces garbage collection", 60, fun collected_by_others/1},
     {"rings that are full end a trace", 60, fun rings_full/1},
     {"traces by request", 60, fun by_request/1},
     {"traces by request, under load", 60, fun by_request_loaded/1},
     {"the way of a request", 60, fun way/1},
     {"a trace by request that ends early", 60, fun by_request_early/1},
     {"tokens after a trace by request", 60, fun tokens_after/1},
     {"arguments of calls", 60, fun arguments/1},
     {"arguments that are huge", 120, fun huge_arguments/1},
     {"loaded code that takes too much to arm", 60, fun loaded_wide/1},
     {"arguments by request", 60, fun request_arguments/1},
     {"kprof trace by request killed", 120, fun killed_by_request/1},
     {"its tracer killed, by request", 60, fun tracer_killed_by_request/1}].

alike() ->
    [{"traces as fprof does", 120, fun fprof/1},
     {"the example of fprof's manual", 120, fun manual/1},
     {"only what is traced has calls, and nothing of kprof is there", 60, fun only_traced/1},
     {"processes of one kind are one root", 60, fun roots/1},
     {"a trace that is kept", 60, fun kept/1},
     {"a module that is loaded anew while it is traced", 60, fun loaded_anew/1},
     {"a module that is deleted while it is traced, and loaded later", 60, fun comes_back/1},
     {"a module that is loaded while somebody else watches", 60, fun loads_watched/1},
     {"modules that come while all are traced", 60, fun come/1},
     {"calls of a module from the first on", 60, fun cold/1},
     {"new modules past a limit", 60, fun cold_past_limit/1},
     {"new modules, and the tracer killed", 60, fun cold_killed/1},
     {"new modules, while somebody else has their setting", 60, fun cold_of_others/1},
     {"names with any characters", 60, fun cyrillic/1},
     {"traces for some time", 60, fun for_some_time/1},
     {"a trace until it is interrupted", 60, fun interrupted/1},
     {"a trace past its limits", 60, fun limits/1},
     {"a flood where much is armed", 120, fun flood/1},
     {"a trace of what raises or overruns", 60, fun raises/1},
     {"kprof trace killed", 120, fun killed/1},
     {"kprof trace that hangs", 60, fun hung/1},
     {"its tracer killed", 60, fun tracer_killed/1},
     {"its tracer killed while it starts", 60, fun start_killed/1}].

%% Everything is traced by both. What differs is who makes the call.
fprof(T) ->
    Target = plain(T),
    Theirs = functions(it_counted, consult(T, by_fprof(Target, it_counted, work, [50]))),
    Terms = consult(T, analysis(T, Target, ["-apply", ?WORK | ?ALL])),
    adds_up(Terms),
    Ours = functions(it_counted, Terms),
    it:check(map_size(Theirs) > 10, "fprof finds functions: ~0p", [Theirs]),
    same(Theirs, Ours).

%% fprof's suite checks its own analysis so: the rows of callers add up to the marked row.
adds_up(Terms) ->
    Whole = fun(X) -> round(X * 1000) end,
    Sum = fun(Rows) -> lists:sum([Whole(Own) || {_, _, _, Own} <- Rows]) end,
    Fns = [F || {Callers, _, _} = F <- Terms, is_list(Callers)],
    it:check(length(Fns) > 10, "functions: ~0p", [Fns]),
    [begin
         it:equal(io_lib:format("calls of ~w", [F]), N, lists:sum([C || {_, C, _, _} <- Callers])),
         it:equal(io_lib:format("own time of ~w", [F]), Whole(Own), Sum(Callers)),
         it:equal(io_lib:format("time of ~w", [F]), Whole(Acc), lists:sum([Whole(A) || {_, _, A, _} <- Callers]))
     end || {[_ | _] = Callers, {F, N, Acc, Own}, _} <- Fns].

%% Whoever calls it, and is not traced, has no call.
only_traced(T) ->
    Target = plain(T),
    Work = "lists:map(fun(X) -> lists:reverse([X]) end, lists:seq(1, 10))",
    {0, Out, _} = run(T, Target, ["-apply", Work, "lists:reverse/1", "lists:map"]),
    Rows = [{lists:last(Words), list_to_integer(hd(Words))}
            || [_ | _] = Words <- [string:lexemes(L, " ") || L <- tl(string:lexemes(Out, "\n"))], lists:last(Words) =/= "garbage_collect",
               lists:all(fun(C) -> C >= $0 andalso C =< $9 end, hd(Words))],
    it:equal("of kprof", nomatch, string:find(Out, "kprof_")),
    [{_, Calls, _}] = it_kprof:counted(T, Target, "count", ["-apply", Work, "lists:reverse/1"]),
    it:equal("calls of reverse", Calls, lists:sum([N || {"lists:reverse/1", N} <- Rows])),
    it:equal("calls of what is not traced", [],
             [R || {F, N} = R <- Rows, N > 0, F =/= "lists:reverse/1", F =/= "lists:map/2", F =/= "suspend"]).

%% By default; each its own where that is asked for, with the same sums.
roots(T) ->
    Target = plain(T),
    File = it:path(T, "crowd"),
    {0, Tree, _} = run(T, Target, ["-apply", "it_counted:many(200)", "-o", File, "it_counted"]),
    says(Tree, "^ +[0-9. ]+ +it_counted:spin/1 \\(200 processes\\)$"),
    By = fun(Key) ->
                 {0, Out, _} = kprof(T, ["analyse", "-form", "callgrind", "-by", Key, File]),
                 {length(re:split(Out, "^ob=", [multiline])) - 1, costs(string:lexemes(Out, "\n"), none, #{})}
         end,
    {Few, Sums} = By("name"),
    {Many, Parts} = By("process"),
    it:check(Few < 5 andalso Many > 200, "roots: ~b and ~b", [Few, Many]),
    it:equal("sums", Parts, Sums),
    {0, Folded, _} = kprof(T, ["analyse", "-form", "folded", File]),
    says(Folded, "^it_counted:spin/1 \\(200 processes\\);it_counted:spin/1;"),
    {0, Scope, _} = kprof(T, ["analyse", "-form", "speedscope", File]),
    says(Scope, "\"name\":\"it_counted:spin/1 \\(200 processes\\)\"").

%% Nanoseconds of each function, and calls.
costs(["fn=" ++ F, "0 " ++ Ns | More], _, Sums) ->
    costs(More, F, maps:update_with(F, fun(N) -> N + list_to_integer(Ns) end, list_to_integer(Ns), Sums));
costs(["calls=" ++ Calls, _ | More], F, Sums) ->
    N = list_to_integer(hd(string:lexemes(Calls, " "))),
    costs(More, F, maps:update_with({calls_by, F}, fun(M) -> M + N end, N, Sums));
costs([_ | More], F, Sums) -> costs(More, F, Sums);
costs([], _, Sums) -> Sums.

%% The example of fprof's manual, and what that says of it: of 1024 numbers 768
%% are written one by one. Its lines are ours, but for the figures.
manual(T) ->
    Target = plain(T),
    {module, _} = it:call(Target, code, ensure_loaded, [it_slow_file]),
    TheirText = by_fprof(Target, it_slow_file, create_file_slow, ["/dev/null", 1024]),
    OurText = analysis(T, Target, ["-apply", "it_slow_file:create_file_slow(\"/dev/null\", 1024)" | ?ALL]),
    Ours = functions(it_slow_file, consult(T, OurText)),
    same(functions(it_slow_file, consult(T, TheirText)), Ours),
    it:equal("one by one",
             {769, [{{it_slow_file, create_file_slow, 2}, 1}, {{it_slow_file, create_file_slow, 3}, 768}],
              [{{file, write, 2}, 768}, {{it_slow_file, create_file_slow, 3}, 768}]},
             maps:get({it_slow_file, create_file_slow, 3}, Ours)),
    Lines = shapes(TheirText),
    it:check(length(Lines) > 10, "lines of fprof: ~ts", [TheirText]),
    it:equal("lines", lists:usort(Lines), lists:usort(shapes(OurText))).

same(Theirs, Ours) ->
    it:equal("functions", lists:sort(maps:keys(Theirs)), lists:sort(maps:keys(Ours))),
    [it:equal(io_lib:format("callers and callees of ~w", [F]), maps:get(F, Theirs), maps:get(F, Ours))
     || F <- maps:keys(Theirs)].

%% What fprof writes. Its files are the target's, which may have another root.
by_fprof(Target, M, F, Args) ->
    it:do(Target, fun() ->
                          Trace = "/tmp/kprof_" ++ atom_to_list(node()) ++ ".fprof",
                          Dest = Trace ++ ".analysis",
                          fprof:apply(M, F, Args, [{file, Trace}]),
                          ok = fprof:profile([{file, Trace}]),
                          ok = fprof:analyse([{dest, Dest}, {totals, true}]),
                          fprof:stop(),
                          {ok, Text} = file:read_file(Dest),
                          [ok = file:delete(Name) || Name <- [Trace, Dest]],
                          unicode:characters_to_list(Text)
                  end).

analysis(T, Target, Args) ->
    {0, Out, _} = run(T, Target, ["-form", "analysis", "-analysis", "totals" | Args]),
    Out.

consult(T, Out) ->
    File = it:path(T, "kprof.analysis"),
    ok = file:write_file(File, unicode:characters_to_binary(Out)),
    {ok, Terms} = file:consult(File),
    Terms.

%% The options, the headings and the rows of the example's own functions, blanks
%% for figures. Not of callers and callees: whose row is the first and the last
%% of them depends on times.
shapes(Text) ->
    [re:replace(Line, "[0-9.]", " ", [global, {return, list}])
     || Line <- string:split(Text, "\n", all),
        re:run(Line, "^%|^.{0,3}(callers|sort|totals|details)|analysis_options|^ { {it_slow_file,",
               [{capture, none}]) =:= match].

%% Of all processes together: a module's functions, how often they were called
%% by each other, and what they called how often.
functions(Module, Terms) ->
    {_, [[{totals, _, _, _}] | Rest]} = lists:splitwith(fun(X) -> not is_list(X) end, Terms),
    Rows = lists:takewhile(fun(X) -> not is_list(X) end, Rest),
    maps:from_list([{F, {N, counts(Callers), counts(Called)}}
                    || {Callers, {{M, _, _} = F, N, _, _}, Called} <- Rows, M =:= Module]).

counts(Rows) ->
    lists:sort([{F, N} || {F, N, _, _} <- Rows, is_tuple(F), element(1, F) =/= kprof_tracer, element(1, F) =/= fprof,
                          F =/= {erlang, apply, 2}]).

kept(T) ->
    Target = plain(T),
    File = it:path(T, "a.trace"),
    {0, "", _} = run(T, Target, ["-apply", ?WORK, "-o", File, "-quiet", "it_counted"]),
    {0, Now, _} = kprof(T, ["analyse", "-form", "analysis", "-analysis", "totals", File]),
    it:check(map_size(functions(it_counted, consult(T, Now))) > 5, "functions: ~ts", [Now]),
    [begin
         {0, Out, ""} = kprof(T, ["analyse", "-form", Form, File]),
         says(Out, Text)
     end || {Form, Text} <- [{"tree", "it_counted:fib/1"}, {"callgrind", "fn=it_counted:fib/1"},
                             {"folded", ";it_counted:fib/1"}, {"speedscope", "speedscope.app"},
                             {"chrome", "\"ph\":\"B\",\"name\":\"it_counted:fib/1\""},
                             {"events", "call it_counted:work/1 by "}]],
    {0, Events, ""} = kprof(T, ["analyse", "-form", "events", File]),
    [First | Times] = [list_to_integer(hd(string:lexemes(L, " "))) || L <- string:lexemes(Events, "\n")],
    it:equal("times since the first event", 0, First),
    it:check(lists:all(fun(At) -> At >= 0 andalso At < 60000000000 end, Times), "times: ~w", [Times]),
    {1, "", Errors} = kprof(T, ["analyse", "/dev/null"]),
    says(Errors, "it is not a trace that kprof has kept").

%% FILE was emptied before it was known whether there would be a trace: of a name with
%% a typo, or one that could not be traced, nothing was left of what it had been.
in_place(T0) ->
    T = T0#{trace_probe => "relay"},
    Target = plain(T),
    Notes = it:write(T, "notes.txt", "not to be lost\n"),
    {1, "", Refused} = run(T, Target, ["-apply", ?WORK, "-o", Notes, "it_counted"]),
    says(Refused, "'.*notes.txt' is there, and is not a trace: give another name, or take it away"),
    it:equal("what was no trace", {ok, <<"not to be lost\n">>}, file:read_file(Notes)),
    File = it:path(T, "b.trace"),
    {0, "", ""} = run(T, Target, ["-apply", ?WORK, "-o", File, "-quiet", "it_counted"]),
    {ok, Kept} = file:read_file(File),
    ok = file:change_mode(File, 8#600),
    {1, "", _} = run(T, Target, ["-apply", ?WORK, "-o", File, "no_such_module"]),
    it:equal("where it could not trace", {ok, Kept}, file:read_file(File)),
    {0, "", ""} = run(T, Target, ["-apply", "it_counted:spin(5)", "-o", File, "-quiet", "it_counted"]),
    {ok, New} = file:read_file(File),
    it:check(New =/= Kept, "it was replaced", []),
    {ok, Info} = file:read_file_info(File),
    it:equal("its mode", 8#600, element(8, Info) band 8#777),
    {1, "", Nowhere} = run(T, Target, ["-apply", ?WORK, "-o", "no/such/file", "it_counted"]),
    says(Nowhere, "cannot write 'no/such/file': directory no/such does not exist"),
    it:equal("what is beside them", [], filelib:wildcard(it:path(T, "*.part"))).

%% Where a limit was reached -quiet ended with 1 and without a word.
quietly(T0) ->
    T = T0#{trace_probe => "relay"},
    Target = plain(T),
    File = it:path(T, "c.trace"),
    {1, "", Errors} = run(T, Target, ["-apply", "it_counted:spin(500)", "-max-events", "1000", "-o", File, "-quiet",
                                      "it_counted"]),
    says(Errors, "^kprof: ended early: as many events as were allowed [(]see -max-events[)]$"),
    {1, "", Raised} = run(T, Target, ["-apply", "it_counted:nope(1)", "-o", File, "-quiet", "it_counted"]),
    says(Raised, "the call raised error:undef"),
    {0, Shown, ""} = run(T, Target, ["-apply", ?WORK, "-quiet", "it_counted"]),
    says(Shown, "it_counted:work/1"),
    Other = it:path(T, "d.trace"),
    P = background(T, Target, ["-o", Other, "-quiet", "it_counted"]),
    it:until("it traces", fun() -> filelib:file_size(Other) > 0 end),
    {0, "", ""} = it_kprof:interrupt(P),
    Csv = it:path(T, "c.csv"),
    {1, "", Grown} = it_kprof:run(T, Target, "time", ["-apply", "it_counted:nope(1)", "-o", Csv, "-quiet", "it_counted"]),
    says(Grown, "the call raised error:undef"),
    {1, _, Reason} = it_kprof:run(T, Target, "time", ["-apply", "it_counted:nope(1)", "-csv", "it_counted"]),
    says(Reason, "the call raised error:undef"),
    {0, Table, ""} = it_kprof:run(T, Target, "time", ["-apply", ?WORK, "-quiet", "it_counted"]),
    says(Table, "it_counted:work/1").

%% A load took the module's patterns with it, and the trace ended well without the
%% calls that followed.
loaded_anew(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    P = start(T, Target, ["-processes", "new", "-form", "events", "it_counted"]),
    spawned(Target, it_counted, work, [1]),
    [begin
         it:do(Target, fun() ->
                               code:purge(it_counted),
                               {module, it_counted} = code:load_file(it_counted),
                               ok
                       end),
         heard(Target),
         spawned(Target, it_counted, work, [1])
     end || _ <- [1, 2]],
    {0, Out, Errors} = it_kprof:interrupt(P),
    says(Errors, "1 module loaded again meanwhile and traced again: calls of a moment in between are missing"),
    {match, Calls} = re:run(Out, " call it_counted:work/1 by ", [global]),
    it:equal("calls", 3, length(Calls)),
    it_audit:ends(Target, Mark).

%% The tracer has heard of the load and armed what came: the code server, whose trace
%% messages go out when it is scheduled out, waits; then the tracer does, and still
%% does after a tick, since a load soon after another waits for that.
heard(Target) ->
    idle(Target, code_server),
    idle(Target, kprof_tracer),
    receive after ?TRACER_TICK -> ok end,
    idle(Target, kprof_tracer).

idle(Target, Name) ->
    it:until(lists:concat([Name, " has nothing to do"]),
             fun() ->
                     it:do(Target, fun() ->
                                           process_info(whereis(Name), [message_queue_len, status]) =:=
                                               [{message_queue_len, 0}, {status, waiting}]
                                   end)
             end).

%% By a process that is new: no other one is traced, who asks the tracer least of all.
spawned(Target, M, F, Args) ->
    it:do(Target, fun() ->
                          {_, Ref} = spawn_monitor(M, F, Args),
                          receive {'DOWN', Ref, _, _, _} -> ok end
                  end).

%% On OTP 25 and 26 nobody else is told of loads then: they show when it looks.
loads_watched(T) ->
    Target = plain(T),
    it:do(Target, fun() ->
                          Pid = spawn(fun() -> receive after infinity -> ok end end),
                          1 = erlang:trace_pattern({erlang, finish_loading, 1}, [{'_', [], [{message, false}]}], [{meta, Pid}])
                  end),
    P = start(T, Target, ["-processes", "new", "-form", "events", "it_counted"]),
    deleted(Target, it_counted),
    {module, it_counted} = it:call(Target, code, load_file, [it_counted]),
    it:do(Target, fun() -> receive after 2500 -> ok end end),
    spawned(Target, it_counted, work, [1]),
    {0, Out, Errors} = it_kprof:interrupt(P),
    says(Errors, "1 module loaded again meanwhile and traced again"),
    says(Out, " call it_counted:work/1 by ").

%% In between there is nothing to arm, which the tracer sees when it looks. What the
%% module had of -max-functions is there for it again.
comes_back(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    N = length(it:call(Target, it_counted, module_info, [functions])),
    P = start(T, Target, ["-processes", "new", "-form", "events", "-max-functions", integer_to_list(N), "it_counted"]),
    [begin
         spawned(Target, it_counted, work, [1]),
         deleted(Target, it_counted),
         {module, it_counted} = it:call(Target, code, load_file, [it_counted]),
         heard(Target)
     end || _ <- [1, 2]],
    spawned(Target, it_counted, work, [1]),
    {0, Out, Errors} = it_kprof:interrupt(P),
    says(Errors, "1 module loaded again meanwhile and traced again"),
    {match, Calls} = re:run(Out, " call it_counted:work/1 by ", [global]),
    it:equal("calls", 3, length(Calls)),
    it_audit:ends(Target, Mark).

%% As `recompile` does; for longer than the tracer takes between two looks.
deleted(Target, Module) ->
    it:do(Target, fun() ->
                          code:purge(Module),
                          code:delete(Module),
                          code:purge(Module),
                          receive after 2500 -> ok end
                  end).

%% To describe their arguments would take more than -max-memory, which bounds what is
%% armed at the start as well.
loaded_wide(T) ->
    Target = plain(T),
    Load = fun(N) ->
                   {Module, Beam} = it_counted:wide(N),
                   {module, Module} = it:call(Target, code, load_binary, [Module, "wide.beam", Beam])
           end,
    Load(2),
    P = start(T, Target, ["-processes", "new", "-args", "-max-memory", "32", "-exclude", "it_wide:f1/1", "it_wide"]),
    spawned(Target, it_wide, f2, [1]),
    Load(600),
    heard(Target),
    spawned(Target, it_wide, f2, [1]),
    {1, _, Errors} = it_kprof:interrupt(P),
    says(Errors, "1 module loaded meanwhile and not traced .see -max-functions and -max-memory"),
    it:check(re:run(Errors, "by more than") =:= nomatch, "the node has not grown past the limit").

%% Of modules that come at once the sentry is told at once.
come(T) ->
    Target = plain(T),
    Told = {application, set_env, 4},
    it:do(Target, fun() -> 1 = erlang:trace_pattern(Told, true, [call_count]) end),
    P = start(T, Target, ["-processes", "new", "-form", "events", "-max-functions", "200000", "-exclude", "application", "_"]),
    {Module, Beam} = it_counted:cyrillic(),
    Modules = [{Module, "store.beam", Beam} | [{M, "other.beam", B} || {M, B} <- it_counted:others(20)]],
    Tells = fun() -> it:do(Target, fun() -> element(2, erlang:trace_info(Told, call_count)) end) end,
    Before = Tells(),
    ok = it:call(Target, code, atomic_load, [Modules]),
    heard(Target),
    it:check(Tells() - Before < 10, "the sentry is told of all at once"),
    spawned(Target, Module, binary_to_atom(<<"облік"/utf8>>), [10]),
    deleted(Target, Module),
    {module, Module} = it:call(Target, code, load_binary, [Module, "store.beam", Beam]),
    heard(Target),
    spawned(Target, Module, binary_to_atom(<<"облік"/utf8>>), [10]),
    {0, Out, Errors} = it_kprof:interrupt(P),
    says(Errors, "modules? loaded meanwhile, traced from some moment after that: .* \\(with -exclude the"),
    says(Errors, "1 module loaded again meanwhile and traced again"),
    {match, Calls} = re:run(Out, " call it_store:'?облік'?/1 by ", [unicode, global]),
    it:equal("calls", 22, length(Calls)).

%% Its calls before the tracer had seen that it was loaded were missing: often all of them.
cold(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    it:equal("loaded", false, it:call(Target, code, is_loaded, [it_slow_file])),
    {0, Out, Errors} = run(T, Target, ["-form", "analysis", "-analysis", "totals", "-apply",
                                       "erlang:apply(it_slow_file, create_file_slow, [\"/dev/null\", 1024])" | ?ALL]),
    {Calls, _, _} = maps:get({it_slow_file, create_file_slow, 3}, functions(it_slow_file, consult(T, Out)),
                             {0, [], []}),
    it:equal("calls", 769, Calls),
    says(Errors, "modules? loaded meanwhile, traced from the first call"),
    it:equal("traced", {traced, false}, it:call(Target, erlang, trace_info, [{it_slow_file, create_file_slow, 3}, traced])),
    it:audit(Target, Before).

%% It ends what the VM arms by itself, and what that has armed is taken back.
cold_past_limit(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    N = functions_there(T, Target),
    P = start(T, Target, ["-processes", "new", "-form", "events", "-max-functions", integer_to_list(N + 4), "_"]),
    Modules = it_counted:others(5),
    [begin
         {module, M} = it:call(Target, code, load_binary, [M, "other.beam", Beam]),
         heard(Target)
     end || {M, Beam} <- Modules],
    Legacy = not it:call(Target, erlang, function_exported, [trace, session_create, 3]),
    [it:equal("on_load", {all, false}, it:call(Target, erlang, trace_info, [on_load, all])) || Legacy],
    {M, _} = lists:last(Modules),
    it:equal("its calls", {traced, false}, it:call(Target, erlang, trace_info, [{M, f, 0}, traced])),
    {1, _, Errors} = it_kprof:interrupt(P),
    says(Errors, "modules? loaded meanwhile and not traced \\(see -max-functions"),
    it:audit(Target, Before).

%% As a trace says that is refused. The first one has the node load code.
functions_there(T, Target) ->
    [_, Refused] = [run(T, Target, ["-for", "1s", "-max-functions", "1", "_"]) || _ <- [1, 2]],
    {match, [N]} = re:run(element(3, Refused), "these are ([0-9]+) functions", [{capture, all_but_first, list}]),
    list_to_integer(N).

cold_killed(T) ->
    Target = plain(T),
    Before = it:settled(Target),
    P = start(T, Target, ["-processes", "new" | ?ALL]),
    {module, it_slow_file} = it:call(Target, code, ensure_loaded, [it_slow_file]),
    it:do(Target, fun() -> exit(whereis(kprof_tracer), kill), ok end),
    it:equal("it says so", 1, it:exited(P)),
    it:audit(Target, Before),
    it:equal("traced", {traced, false}, it:call(Target, erlang, trace_info, [{it_slow_file, create_file_slow, 3}, traced])).

%% Before OTP 27 there is one for everybody.
cold_of_others(T) ->
    Target = plain(T),
    _ = functions_there(T, Target),
    it:do(Target, fun() -> erlang:trace_pattern(on_load, true, [call_count]), ok end),
    Theirs = it:call(Target, erlang, trace_info, [on_load, all]),
    {0, _, Errors} = run(T, Target, ["-apply", "erlang:apply(it_slow_file, create_file_slow, [\"/dev/null\", 64])" | ?ALL]),
    case it:call(Target, erlang, function_exported, [trace, session_create, 3]) of
        true -> says(Errors, "modules? loaded meanwhile, traced from the first call");
        false -> says(Errors, "earlier calls are missing, since another tool has the node's setting for new code")
    end,
    it:equal("theirs", Theirs, it:call(Target, erlang, trace_info, [on_load, all])),
    it:equal("and it counts", {call_count, 1},
             it:call(Target, erlang, trace_info, [{it_slow_file, create_file_slow, 2}, call_count])).

%% The native probe wrote no name that has a character above Latin-1: calls of such
%% functions were lost, in silence.
cyrillic(T) ->
    Target = plain(T),
    {Module, Beam} = it_counted:cyrillic(),
    {module, Module} = it:call(Target, code, load_binary, [Module, "store.beam", Beam]),
    {0, Out, ""} = run(T, Target, ["-quiet", "-apply", "it_store:'облік'(10)", "-form", "events", "it_store"]),
    {match, Calls} = re:run(Out, " call it_store:'?облік'?/1 by ", [unicode, global]),
    it:equal("calls", 11, length(Calls)).

%% A load runs meanwhile, and makes calls in the sample's processes.
for_some_time(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    P = background(T, Target, ["-for", "4s", "-form", "events", "-processes", "application:sample_app",
                               "db", "requests"]),
    it:until("it traces", fun() -> it:call(Target, erlang, whereis, [kprof_tracer]) =/= undefined end),
    it:loaded(it:load(T, Target, ["4", "40"])),
    {0, Out, _} = ends(P),
    says(Out, "call requests:handle_request/2 by "),
    it_audit:ends(Target, Mark).

interrupted(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    P = start(T, Target, ["it_counted"]),
    it:call(Target, it_counted, work, [50]),
    it:signal(P, "INT"),
    {0, Out, _} = ends(P),
    says(Out, "it_counted:work/1"),
    it_audit:ends(Target, Mark).

limits(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    {1, Out, Errors} = run(T, Target, ["-apply", "it_counted:spin(500)", "-max-events", "1000", "-form", "events",
                                       "it_counted"]),
    says(Errors, "ended early: as many events as were allowed"),
    it:equal("events", 1000, length(string:lexemes(Out, "\n"))),
    it_audit:during(Target, Mark),
    {1, _, Busy} = run(T, Target, ["-apply", "it_counted:spin(5000)", "-max-queue", "100", "it_counted"]),
    says(Busy, "ended early: the node made more events than it could send"),
    it_audit:ends(Target, Mark).

%% Thousands of patterns take long to take back, where there are no sessions: the
%% last are those that make the events, which end before that all the same.
flood(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Modules = ["beam_ssa_opt", "beam_validator", "dets", "epp", "erl_eval", "erl_lint", "erl_parse", "io_lib_pretty"],
    P = start(T, Target, lists:append([["-exclude", M ++ ":module_info/0"] || M <- Modules]) ++
                  ["-max-queue", "1000" | Modules] ++ ["it_counted"]),
    Longest = it:do(Target, fun longest_queue/0),
    it:equal(lists:concat(["the longest queue, ", Longest, ", is short"]), true, Longest < 2000000),
    it:equal("it says so", 1, it:exited(P)),
    says(it:errors(P), "ended early: the node made more events than it could send"),
    it_audit:ends(Target, Mark).

%% While four processes call what is traced, for as long as there is a tracer.
longest_queue() ->
    Ps = [spawn(fun() -> it_counted:spin(30000) end) || _ <- [1, 2, 3, 4]],
    Longest = longest(whereis(kprof_tracer), 0),
    [exit(P, kill) || P <- Ps],
    Longest.

longest(Server, Most) when Most < 2000000 ->
    case is_pid(Server) andalso process_info(Server, message_queue_len) of
        {_, N} -> receive after 5 -> longest(Server, max(N, Most)) end;
        _ -> Most
    end;
longest(_, Most) ->
    Most.

%% What ends it waits behind its events no more. The tracer stands still for 3 s, from
%% 0.3 s on, of a trace of 1 s.
in_time(T) ->
    Target = plain(T),
    Serve = it:do(Target, fun() -> spawn(fun Ask() -> it_counted:squares(3), receive after 2 -> Ask() end end) end),
    P = background(T, Target, ["-for", "1s", "-probe", "relay", "-form", "events", "it_counted:squares/1"]),
    ok = it:call(Target, it_counted, suspended, [kprof_tracer, Serve, 3000]),
    {0, Out, _} = ends(P),
    Times = [list_to_integer(hd(string:lexemes(L, " "))) || L <- string:lexemes(Out, "\n"), string:find(L, " call ") =/= nomatch],
    Span = (lists:last(Times) - hd(Times)) / 1.0e9,
    it:check(Span > 0.5 andalso Span < 2.5, "so many seconds from the first call to the last: ~.3f", [Span]),
    it:do(Target, fun() -> exit(Serve, kill) end),
    it_kprof:unarmed(Target).

%% Calls, returns, processes that begin and end: of each process, in its order.
same_events(T) ->
    Target = plain(T),
    [Relay, Native] = [events(T#{trace_probe => Probe}, Target) || Probe <- ["relay", "native"]],
    it:check(length(Relay) =:= 4 andalso lists:sum([length(L) || L <- Relay]) > 2000, "events: ~p", [Relay]),
    it:equal("events", Relay, Native).

%% Names of processes, and when they had to wait, are different every time.
events(T, Target) ->
    {0, Out, _} = run(T, Target, ["-apply", ?WORK, "-form", "events", "it_counted"]),
    {match, Lines} = re:run(Out, "^-?[0-9]+ (<[0-9.]+>) ((?:call|return_to|spawn|exit).*)$",
                            [multiline, global, {capture, all_but_first, list}]),
    Events = [{P, re:replace(What, "<[0-9.]+>", "process", [global, {return, list}])} || [P, What] <- Lines],
    lists:sort([[What || {P, What} <- Events, P =:= Of] || Of <- lists:usort([P || {P, _} <- Events])]).

%% auto: native where its library can be loaded; a reason is said.
serves(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Modules = fun() -> it:call(Target, erlang, module_loaded, [kprof_calls_probe]) end,
    [begin
         P = start(T#{trace_probe => "auto"}, Target, Args ++ ["it_counted"]),
         it:equal("the native probe is there", Is, Modules()),
         it:call(Target, it_counted, work, [50]),
         it:signal(P, "INT"),
         {0, Out, Errors} = ends(P),
         says(Out, "it_counted:work/1"),
         says(Errors, Said),
         it_audit:during(Target, Mark),
         it:equal("it is gone", false, Modules())
     end || {Args, Is, Said} <- [{[], true, "^"},
                                 {["-probe-library", "/nowhere/x.so"], false, "cannot load '/nowhere/x': .*No such file"},
                                 {["-probe-library", "/etc/passwd"], false, "not by the native probe: cannot load"},
                                 {["-probe", "relay"], false, "^"}]],
    [begin
         {1, _, Errors} = run(T, Target, Args ++ ["it_counted"]),
         says(Errors, Said),
         it_audit:during(Target, Mark)
     end || {Args, Said} <- [{["-probe", "native", "-probe-library", "/nowhere/x.so"],
                              "the native probe cannot load '/nowhere/x'"},
                             {["-probe", "native", "-entry", "it_counted:work/1"],
                              "the native probe does not trace by request"}]],
    it_audit:ends(Target, Mark).

%% Each has a module and a library of its own. Before OTP 27 kprofd's tracer has
%% the processes.
beside(T) ->
    Target = it:target(T),
    load(Target),
    P = it:kprofd(T, Target, #{args => ["-interval", "2s", "-probe", "native" | it:probe_library(T)]}),
    it:armed(P),
    {Status, Out, Errors} = run(T#{trace_probe => "native"}, Target, ["-apply", ?WORK, "-form", "analysis", "-analysis", "totals",
                                                                     "it_counted"]),
    case it:otp(Target) < 27 of
        true -> says(Errors, "another tool traces ");
        false ->
            it:equal("status", 0, Status),
            it:check(map_size(functions(it_counted, consult(T, Out))) > 5, "functions: ~ts", [Out])
    end,
    it:loaded(it:load(T, Target, ["4", "40"])),
    it:until("kprofd's probe is there still", fun() -> maps:get(active, it:call(Target, kprof_probe, info, [])) end),
    it:signal(P, "TERM"),
    it:equal("kprofd ends", 0, it:exited(P)).

%% Two who are told of it of one process crash the VM.
collected_by_others(T) ->
    Target = plain(T),
    case it:otp(Target) < 27 of
        true -> {skipped, "a process has one tracer there"};
        false ->
            Somebody = it:do(Target, fun() -> collector(self()) end),
            [begin
                 {0, Out, Errors} = run(T#{trace_probe => Probe}, Target, ["-apply", ?WORK, "-form", "analysis", "-analysis", "totals",
                                                                           "it_counted"]),
                 says(Errors, "without garbage collection: another tool traces that, .* \\(erlang/otp#11624\\)$"),
                 it:check(map_size(functions(it_counted, consult(T, Out))) > 5, "functions: ~ts", [Out])
             end || Probe <- ["relay", "native"]],
            it:do(Target, fun() ->
                                  Ref = erlang:monitor(process, Somebody),
                                  Somebody ! over,
                                  receive {'DOWN', Ref, _, _, _} -> ok end
                          end),
            {0, _, Silent} = run(T#{trace_probe => "relay"}, Target, ["-apply", ?WORK, "-form", "events", "it_counted"]),
            it:equal("told of it again", nomatch, re:run(Silent, "without garbage collection"))
    end.

%% A session is there as long as somebody has it.
collector(From) ->
    P = spawn(fun() ->
                      S = trace:session_create(somebody, self(), []),
                      1 = trace:process(S, whereis(init), true, [garbage_collection]),
                      From ! {self(), collects},
                      receive over -> trace:session_destroy(S) end
              end),
    receive {P, collects} -> P end.

%% What came before is there, and has no gap; how many did not fit is said.
rings_full(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    File = it:path(T, "full.trace"),
    P = start(T#{trace_probe => "native"}, Target, ["-o", File, "-max-events", "1000000", "-max-memory", "16", "-form", "events", "it_counted"]),
    true = it:do(Target, fun() ->
                                 Server = whereis(kprof_tracer),
                                 true = erlang:suspend_process(Server),
                                 overflow(spawn(fun() -> it_counted:spin(60000) end)),
                                 erlang:resume_process(Server)
                         end),
    {1, Out, Errors} = ends(P),
    says(Errors, "ended early: the node made more events than it could send"),
    says(Errors, "1 events were lost|[2-9] events were lost"),
    it:check(length(string:lexemes(Out, "\n")) > 1000, "events: ~ts", [string:slice(Out, 0, 1000)]),
    it_audit:ends(Target, Mark).

overflow(Spinning) ->
    case kprof_calls_probe:info() of
        #{active := false, dropped := 1} -> exit(Spinning, kill);
        _ -> receive after 5 -> overflow(Spinning) end
    end.

%% Two of three, and what they have done in processes of their own too; what
%% the same functions do otherwise is not there.
by_request(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    %% One process asks a server three times, and has work done in between.
    Asked = counted_requests(T, Target, "it_counted:ask/2",
                             fun() ->
                                     Server = spawn(it_counted, serve, []),
                                     [begin
                                          it_counted:spin(0),
                                          Asks = fun() -> it_counted:ask(Server, 10), ok end,
                                          Asks()
                                      end || _ <- [1, 2, 3]],
                                     exit(Server, kill),
                                     ok
                             end),
    it:equal("asked", #{{ask, 2} => 2, {squares, 1} => 2 * 11}, maps:with([{ask, 2}, {squares, 1}, {work, 1}], Asked)),
    %% Before 27 the message that a child has ended, with a reason that is no
    %% atom, takes the token away.
    Worked = counted_requests(T, Target, "it_counted:work/1",
                              fun() -> [it_counted:work(50) || _ <- [1, 2, 3]], ok end),
    Children = case it:otp(Target) of Otp when Otp < 27 -> 1; _ -> 3 end,
    it:equal("worked", #{{work, 1} => 2, {fib, 1} => 2 * 465, {child, 1} => 2 * Children},
             maps:with([{work, 1}, {fib, 1}, {child, 1}], Worked)),
    it_audit:ends(Target, Mark).

%% Processes that go on calling the entry have none soon after a trace of it; one
%% that was given a token by somebody else keeps that.
tokens_after(T) ->
    {Target, Mark} = it_audit:begins(T),
    {module, _} = it:call(Target, code, ensure_loaded, [it_args]),
    it:do(Target, fun() ->
                          Seen = atomics:new(8, []),
                          persistent_term:put(it_tokens, Seen),
                          [register(list_to_atom("it_tokens" ++ integer_to_list(I)),
                                    spawn(fun() -> keep_asking(I, Seen) end)) || I <- lists:seq(1, 8)],
                          ok
                  end),
    [begin
         {_, Out, _} = run(T, Target, Args ++ ["-entry", "it_args:request/2", "it_args"]),
         says(Out, "it_args:take/1"),
         %% Each of them has looked twice since.
         Looked = it:do(Target, fun looks/0),
         it:until("they go on", fun() -> lists:all(fun({Was, Is}) -> Is >= Was + 2 end,
                                                   lists:zip(Looked, it:do(Target, fun looks/0))) end),
         it:equal(["tokens after ", Args], [none, none, none, none, none, none, none, theirs],
                  it:do(Target, fun tokens/0))
     end || Args <- [["-requests", "5"], ["-requests", "100000", "-for", "300ms"], ["-requests", "1"]]],
    it:do(Target, fun() ->
                          [exit(whereis(list_to_atom("it_tokens" ++ integer_to_list(I))), kill) || I <- lists:seq(1, 8)],
                          persistent_term:erase(it_tokens),
                          ok
                  end),
    it_audit:ends(Target, Mark).

%% No message is taken, which would take the token, too. What the last one calls is
%% no entry.
keep_asking(8, Seen) ->
    seq_trace:set_token(label, 17),
    asks(fun() -> it_args:take(8), ok end, 8, Seen);
keep_asking(I, Seen) ->
    asks(fun() -> it_args:request(ask, I), ok end, I, Seen).

asks(Fun, I, Seen) ->
    receive after 5 -> ok end,
    Fun(),
    Token = case seq_trace:get_token() of
                [] -> 0;
                {_, 17, _, _, _} -> 1;
                _ -> 2
            end,
    Looks = atomics:get(Seen, I) bsr 2,
    atomics:put(Seen, I, (Looks + 1) bsl 2 bor Token),
    asks(Fun, I, Seen).

looks() ->
    [atomics:get(persistent_term:get(it_tokens), I) bsr 2 || I <- lists:seq(1, 8)].

tokens() ->
    [element(1 + atomics:get(persistent_term:get(it_tokens), I) band 3, {none, theirs, ours}) || I <- lists:seq(1, 8)].

counted_requests(T, Target, Entry, Fun) ->
    P = start(T, Target, ["-entry", Entry, "-requests", "2", "-form", "analysis", "-analysis", "totals",
                          "it_counted"]),
    it:do(Target, Fun),
    {0, Out, _} = ends(P),
    maps:from_list([{{F, A}, N} || {{_, F, A}, {N, _, _}} <- maps:to_list(functions(it_counted, consult(T, Out)))]).

%% Each of them has a number, and its entry a call.
by_request_loaded(T) ->
    {Target, Mark} = it_audit:begins(T),
    P = start(T, Target, ["-entry", "requests:handle_request/2", "-requests", "20", "-form", "events",
                          "requests", "db", "formatter"]),
    it:loaded(it:load(T, Target, ["4", "40"])),
    {0, Out, _} = ends(P),
    it:equal("requests", lists:seq(1, 20),
             lists:usort([list_to_integer(N) || N <- matches(Out, " request ([1-9][0-9]*)$")])),
    it:equal("entries", 20, length(matches(Out, "call (requests:handle_request/2) "))),
    says(Out, "call db:"),
    it_audit:ends(Target, Mark).

%% Its true way is known: two servers, the first of which is busy when it is
%% asked, while the second waits.
way(T) ->
    {Target, Mark} = it_audit:begins(T),
    it:call(Target, it_layers, start, []),
    P = start(T, Target, ["-entry", "it_layers:request/0", "-form", "requests", "it_layers"]),
    [done] = it:call(Target, it_layers, request, []),
    {0, Out, _} = ends(P),
    it:call(Target, it_layers, stop, []),
    says(Out, "^request 1: it_layers:request/0 in <[0-9.]+>, "),
    %% {Process, depth, own, out, gc, mailbox}: who was sent to by whom.
    [{"<" ++ _, 0, _, _, _, _}, {"it_layer_a" ++ _, 1, _, _, _, Busy}, {"it_layer_b" ++ _, 2, _, Waits, _, _}] =
        [{Name, length(Indent) div 2, ms(Own), ms(Was), ms(Gc), ms(Box)}
         || [Own, Was, Gc, Box, Indent, Name] <- rows(Out, "[0-9]+  ( *)([^ ].*)$")],
    it:check(Busy >= 30, "its mailbox: ~p ms", [Busy]),
    it:check(Waits >= 30, "its wait: ~p ms", [Waits]),
    Steps = [{hd(string:lexemes(Name, " <")), ms(Was), ms(Box)}
             || [_, Was, _, Box, Name] <- rows(Out, "[+][0-9.]+  ([^ ].*)$")],
    Layers = [Name || {"it_layer_" ++ _ = Name, _, _} <- Steps],
    it:equal("the critical path", ["it_layer_a", "it_layer_a", "it_layer_b", "it_layer_b", "it_layer_a", "it_layer_a"],
             Layers),
    it:check(lists:any(fun({Name, _, Box}) -> Name =:= "it_layer_a" andalso Box >= 30 end, Steps),
             "a's mailbox is on it: ~p", [Steps]),
    it:check(lists:any(fun({Name, Was, _}) -> Name =:= "it_layer_b" andalso Was >= 30 end, Steps),
             "b's wait is on it: ~p", [Steps]),
    it_audit:ends(Target, Mark).

%% Thousands are grouped.
rows(Out, Rest) ->
    Text = re:replace(Out, "([0-9]) ([0-9]{3})", "\\1\\2", [global, {return, list}]),
    {match, Rows} = re:run(Text, "^ +([0-9.]+) +([0-9.]+) +([0-9.]+) +([0-9.]+) +" ++ Rest,
                           [multiline, global, {capture, all_but_first, list}]),
    Rows.

ms(Text) ->
    list_to_float(Text).

by_request_early(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Args = ["-entry", "it_counted:ask/2", "-requests", "5", "it_counted"],
    {1, _, None} = run(T, Target, ["-for", "200ms" | Args]),
    says(None, "ended early: of 5 requests 0 had begun, and 0 ended"),
    P = background(T, Target, ["-max-events", "10" | Args]),
    it:saw(P, "Ctrl-C ends it"),
    it:do(Target, fun() ->
                          Server = spawn(it_counted, serve, []),
                          it_counted:ask(Server, 20),
                          exit(Server, kill),
                          ok
                  end),
    {1, _, Errors} = ends(P),
    says(Errors, "ended early: as many events as were allowed"),
    says(Errors, "of 5 requests 1 had begun"),
    it_audit:ends(Target, Mark).

%% Of each kind what is shown; and without -args nothing.
arguments(T) ->
    {Target, Mark} = it_audit:begins(T),
    {module, _} = it:call(Target, code, ensure_loaded, [it_args]),
    Call = ["-apply", "it_args:call_all()", "-form", "events", "it_args"],
    {0, None, _} = run(T, Target, Call),
    it:equal("arguments that nobody asked for", [], [L || L <- string:split(None, "\n", all), re:run(L, "\\((?!list comp|fun )") =/= nomatch]),
    {0, Out, _} = run(T, Target, ["-args" | Call]),
    X200 = lists:duplicate(200, $x),
    %% It is in the text's 200 bytes, too.
    Cut = "<<\"" ++ lists:sublist(X200, 194) ++ "...",
    it:equal("arguments", ["an_atom", "'An atom'", "false", "true", "-7", "4611686018427387904", "#Integer", "1.5",
                           "<<\"text\">>", "...", Cut, "<<\"xxxxx\">>", "[]", "\"a string\"", "\"a string tha\"...",
                           "[1,a,<<\"b\">>]", "[a|...]", "[{k,1},{k,...},[...],a]", "{}", "{a,{b,...},[x,...],#{}}",
                           "{1,2,3,4,5,...}", "#{1 key}", "#my_struct{2 keys}", "#{2 keys}", "#Fun", "#Ref",
                           "<<100000 bytes>>", "[27,91,51,49,109]", "<<\"a\\nb\">>", [$', $N, 16#20ac, $']],
             matches(Out, "call it_args:take/1 \\((.*)\\) by ")),
    says(Out, "call it_args:three/3 \\(1, {<0[.][0-9.]+>,\\[alias\\]}, #Port<.*>\\) by "),
    says(Out, "call it_args:nine/9 \\(1, 2, 3, 4, 5, 6, 7, 8, [.]{3}\\) by "),
    says(Out, "call it_args:none/0 by "),
    %% A tree has those of a single call, or of several that had the same; what is kept is shown as well.
    File = it:path(T, "args.trace"),
    {0, Tree, _} = run(T, Target, ["-args", "-apply", "it_args:call_all()", "-o", File, "it_args"]),
    says(Tree, "it_args:nine/9 \\(1, 2, 3, 4, 5, 6, 7, 8, [.]{3}\\)$"),
    says(Tree, "it_args:take/1$"),
    {0, Tree, _} = kprof(T, ["analyse", File]),
    {2, "", Gone} = run(T, Target, ["-args-bytes", "100" | Call]),
    says(Gone, "there is no option -args-bytes any more"),
    {2, "", Form} = run(T, Target, ["-args", "-form", "folded", "it_args"]),
    says(Form, "-args goes with -form tree, events or requests, or with -o FILE"),
    {1, _, Many} = run(T, Target, ["-args", "-max-memory", "1", "-for", "1s", "erl_lint"]),
    says(Many, "the arguments of these functions takes more memory"),
    it_audit:ends(Target, Mark).

%% A list of ten million, a quarter of a GB in a binary, terms that are deep or
%% that sharing alone keeps small: none is copied, and none is gone through.
huge_arguments(T) ->
    Target = plain(T),
    {module, _} = it:call(Target, code, ensure_loaded, [it_args]),
    {0, Out, _} = run(T, Target, ["-args", "-apply", "it_args:hostile()", "-form", "events", "it_args:take/1",
                                  "it_args:three/3"]),
    [it:equal(["calls with ", Text], N, length([x || X <- matches(Out, "call it_args:take/1 \\((.*)\\) by "), X =:= Text]))
     || {Text, N} <- [{"[1,2,3,4,5,6,7,8,9,10,11,12,...]", 200}, {"<<268435456 bytes>>", 200}, {"#Fun", 400},
                      {"{1,2,3,4,5,...}", 200}, {"#{100000 keys}", 200}, {"#Integer", 200}]],
    {Bytes, Tracer} = it:call(Target, it_args, grew, []),
    it:check(Bytes < 64000000 andalso Tracer < 64000000, "it grew by ~b bytes, the tracer had ~b", [Bytes, Tracer]),
    %% 2 GB in all, of which each hundred bytes are shown.
    {_, Parts, _} = run(T, Target, ["-args", "-apply", "it_args:parts()", "-form", "events", "it_args:take/1"]),
    says(Parts, "call it_args:take/1 \\(<<\"x{100}\">>\\) by "),
    {Kept, _} = it:call(Target, it_args, grew, []),
    it:check(Kept < 1000000000, "with the rest of them ~b bytes were kept", [Kept]).

request_arguments(T) ->
    {Target, Mark} = it_audit:begins(T),
    {module, _} = it:call(Target, code, ensure_loaded, [it_args]),
    [begin
         P = start(T, Target, ["-entry", "it_args:request/2", "-requests", "2", "-args", "-form", Form, "it_args"]),
         it:do(Target, fun() ->
                               Asks = fun(Id) -> it_args:request(create, Id), ok end,
                               [Asks(Id) || Id <- [1, 2, 3]],
                               ok
                       end),
         {0, Out, _} = ends(P),
         [says(Out, Text) || Text <- Texts]
     end || {Form, Texts} <- [{"requests", ["^request 1: it_args:request/2 \\(create, 1\\) in <",
                                            "^request 2: it_args:request/2 \\(create, 2\\) in <"]},
                              {"events", ["call it_args:request/2 \\(create, 2\\) by ",
                                          "call it_args:take/1 \\({create,2}\\) by "]}]],
    it_audit:ends(Target, Mark).

raises(T) ->
    Target = plain(T),
    {1, Out, Errors} = run(T, Target, ["-apply", "it_counted:raise()", "it_counted"]),
    says(Errors, "the call raised error:\\{badness,#Ref<[0-9.]+>\\}"),
    says(Out, "it_counted:raise/0"),
    {1, _, Over} = run(T, Target, ["-apply", "it_counted:wait(it_traced_child)", "-for", "300ms", "it_counted"]),
    says(Over, "the call was stopped after [0-9]+ ms, without an end"),
    ok = it:call(Target, it_counted, leave, [it_traced_child]).

killed(T) ->
    killed(T, ["-for", "20s"]).

killed_by_request(T) ->
    killed(T, ["-entry", "requests:handle_request/2", "-requests", "100000"]).

killed(T, Args) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    Load = it:load(T, Target, ["4", "6s", "10"]),
    [begin
         P = background(T, Target, Args ++ ["it_counted", "requests", "db", "maps"]),
         receive after Ms -> ok end,
         it:kill(P),
         it_audit:during(Target, Mark)
     end || Ms <- [20, 60, 200, 1000]],
    it:loaded(Load),
    it_audit:ends(Target, Mark).

hung(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    P = start(T, Target, ["it_counted"]),
    it:signal(P, "STOP"),
    it:until("its lease runs out", fun() -> it:call(Target, erlang, whereis, [kprof_tracer]) =:= undefined end),
    it_audit:during(Target, Mark),
    it:signal(P, "CONT"),
    it:equal("it says so", 1, it:exited(P)),
    says(it:errors(P), "its lease ran out"),
    it_audit:ends(Target, Mark).

tracer_killed(T) ->
    tracer_killed(T, []).

tracer_killed_by_request(T) ->
    tracer_killed(T, ["-entry", "it_counted:work/1", "-requests", "100"]).

tracer_killed(T, Args) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    P = start(T, Target, Args ++ ["it_counted"]),
    it:do(Target, fun() -> it_counted:work(10), exit(whereis(kprof_tracer), kill), ok end),
    it_audit:during(Target, Mark),
    it:equal("it says so", 1, it:exited(P)),
    says(it:errors(P), "it died: killed"),
    it_audit:ends(Target, Mark).

%% While the call's arguments are made. What the sentry has to take back may take
%% it longer than the client is told that nothing was started: a purge of the
%% module must not kill it meanwhile.
start_killed(T) ->
    {Target, Mark} = it_audit:begins(T),
    load(Target),
    P = background(T, Target, ["-apply", "it_counted:work(timer:sleep(60000))", "-for", "50s", "it_counted"]),
    it:until("there is a sentry", fun() -> it:do(Target, fun sentries/0) =/= [] end),
    it:equal("it lives until it is done", true, it:do(Target, fun slow_sentry/0)),
    it:equal("it says so", 1, it:exited(P)),
    says(it:errors(P), "failed there: killed"),
    it_audit:ends(Target, Mark).

sentries() ->
    {monitored_by, By} = case whereis(kprof_tracer) of
                             undefined -> {monitored_by, []};
                             Server -> process_info(Server, monitored_by)
                         end,
    [P || P <- By, process_info(P, current_function) =:= {current_function, {kprof_tracer, sentry, 1}}].

%% The module is deleted by a process that was started when the server was dead.
slow_sentry() ->
    [Sentry] = sentries(),
    true = erlang:suspend_process(Sentry),
    exit(whereis(kprof_tracer), kill),
    deleted(kprof_tracer),
    receive after 500 -> ok end,
    Alive = is_process_alive(Sentry),
    _ = catch erlang:resume_process(Sentry),
    Alive.

deleted(Module) ->
    erlang:module_loaded(Module) andalso begin receive after 10 -> ok end, deleted(Module) end.

%% ------------------------------------------------------------ helpers ----

background(T, Target, Args) ->
    it_kprof:background(T, Target, "trace", it:unless(Args, probe(T)) ++ Args).

start(T, Target, Args) ->
    it_kprof:start(T, Target, "trace", it:unless(Args, probe(T)) ++ Args).

run(T, Target, Args) ->
    it_kprof:run(T, Target, "trace", it:unless(Args, probe(T)) ++ Args).

probe(#{trace_probe := Probe} = T) -> ["-probe", Probe | it:calls_library(T)];
probe(_) -> [].

matches(Text, Pattern) ->
    {match, Found} = re:run(Text, Pattern, [unicode, multiline, global, {capture, all_but_first, list}]),
    lists:append(Found).
