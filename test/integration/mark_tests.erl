%% Requests that a program marks by hand, with kprof's functions: every call is
%% there, under its name and in its place, and nothing is left behind.
-module(mark_tests).

-export([tests/0]).

%% Trees are kept of 200 requests in a window.
-define(N, 30).

tests() ->
    [{"with nobody profiling", 60, fun alone/1},
     {"set_token and clear_token", 60, fun cleared/1},
     {"set_token again", 60, fun uncleared/1},
     {"do_apply and run", 60, fun applied/1},
     {"wrap", 60, fun wrapped/1},
     {"a connection that is kept", 60, fun kept/1},
     {"two requests in one process", 60, fun streams/1},
     {"a request inside another", 60, fun nested/1},
     {"set and cleared elsewhere", 60, fun far_apart/1},
     {"a server that answers later", 60, fun deferred/1},
     {"exceptions", 60, fun raising/1},
     {"clear_token alone, and processes that die", 60, fun loose_ends/1},
     {"sampled", 120, fun sampled/1},
     {"sampled and never cleared", 120, fun sampled_uncleared/1},
     {"the application kprof can keep kprofd out", 60, fun disabled/1},
     {"kprofd goes, and marks do nothing again", 60, fun gone/1}].

%% Every request is kept as a tree.
tiers(Entries) ->
    [layers(Entries), "{sampling, all}.\n{budget, none}.\n{slow_ms, 0}.\n"].

layers(Entries) ->
    [it:calm(), "{tiers, [{db, {it_marks, db, 1}}, {render, {it_marks, render, 1}}, {parse, {it_marks, parse, 1}}]}.\n"
     "{entry, [", lists:join(", ", Entries), "]}.\n"
     "{identity, fun\n"
     "  ({kprof, set_token, [Kind]}) -> Kind;\n"
     "  ({kprof, do_apply, [M, F, _]}) -> {M, F};\n"
     "  ({kprof, do_apply, [Kind, _, _, _]}) -> Kind;\n"
     "  ({kprof, run, [Kind, _, _]}) -> Kind\n"
     "end}.\n"].

target(T) ->
    it:target(T, #{kind => plain}).

%% Runs one program under kprofd, to a clean end.
profile(T, Entries, Program) ->
    profiled(T, tiers(Entries), Program).

profiled(T, Tiers, {F, A}) ->
    Target = target(T),
    Before = it:settled(Target),
    P = it:kprofd(T, Target, #{tiers => Tiers}),
    it:armed(P),
    it:call(Target, it_marks, F, A),
    it:terminate(P),
    it:audit(Target, Before, [processes]),
    it:stop_target(Target),
    P.

exact(P, N, Requests, Calls) ->
    it:equal("requests", lists:sort(Requests), it:requests_by_identity(P)),
    it:equal("calls", lists:sort(Calls), it:calls_by_tier(P)),
    it:equal("entry calls", N, it:balance(P)),
    it:equal("losses", #{}, it:lost(P)).

%% In trees: outcomes, and self times that add up to the whole.
whole(P, Outcome) ->
    Trees = it:number(P, "select count(*) from slow_requests"),
    it:check(Trees > 0, "trees are kept"),
    it:equal("outcomes", [[O] || O <- lists:flatten([Outcome])],
             it:sql(P, "select distinct outcome from slow_requests order by outcome")),
    it:equal("self times that do not add up", 0,
             it:number(P, "select count(*) from request r where abs(r.total_ns - (select sum(self_ns) from call"
                       " where request_id = r.id and not async)) > 1000")).

%% The shape of requests with this identity: what was called, and by whom.
%% What is set and cleared has ended well; of the rest the relay sees that it ended.
seen(Shape) ->
    re:replace(Shape, "(it_marks:\\w+/\\d 0|do_apply/\\d -) returned", "\\1 " ++ it:outcome(), [global, {return, list}]).

shape(P, Identity) ->
    [binary_to_list(S)
     || [S] <- it:sql(P, ["select distinct s from (select group_concat(trim(call) || ' ' || coalesce(parent, '-')"
                          " || ' ' || outcome, ', ') s from (select c.* from slow_calls c join slow_requests r"
                          " on r.request = c.request where r.identity = '", Identity, "' order by"
                          " c.request, c.seq) group by request) order by s"])].

alone(T) ->
    Target = target(T),
    Before = it:settled(Target),
    it:equal("the token at the end", [], it:call(Target, it_marks, alone, [])),
    it:audit(Target, Before).

cleared(T) ->
    P = profile(T, ["{kprof, set_token, 1}"], {cleared, [?N]}),
    Half = ?N div 2,
    exact(P, ?N, [{"read", Half}, {"write", Half}],
          [{Tier, I, C * Half, 0} || {Tier, C} <- [{"db", 2}, {"render", 1}], I <- ["read", "write"]]),
    whole(P, <<"returned">>),
    it:equal("shape", [seen("kprof:set_token/1 - returned, it_marks:db/1 0 returned, it_marks:db/1 0 returned, "
                       "it_marks:render/1 0 returned")], shape(P, "read")),
    it:equal("busy is not more than the request", 0,
             it:number(P, "select count(*) from tier_stats t join request_stats r on r.start = t.start and"
                       " r.identity = t.identity where t.tier <> '_total' and t.busy_ms > r.total_ms + 0.001")).

uncleared(T) ->
    P = profile(T, ["{kprof, set_token, '_'}"], {uncleared, [?N]}),
    Half = ?N div 2,
    exact(P, ?N, [{"read", Half}, {"write", Half}], [{"db", "read", Half, 0}, {"db", "write", Half, 0}]),
    whole(P, <<"returned">>).

applied(T) ->
    P = profile(T, ["\"kprof\""], {applied, [?N]}),
    exact(P, 5 * ?N, [{"it_marks page", ?N}, {"it_marks render", ?N}, {"undefined", ?N}, {"read", ?N},
                      {"write", ?N}],
          [{Tier, I, ?N, 0} || Tier <- ["db", "render"], I <- ["it_marks page", "undefined", "read", "write"]] ++
              [{"render", "it_marks render", ?N, 0}]),
    whole(P, list_to_binary(it:outcome())),
    it:equal("shape", [seen("kprof:do_apply/3 - returned, it_marks:db/1 0 returned, it_marks:render/1 0 returned")],
             shape(P, "it_marks page")),
    it:equal("shape", [seen("kprof:do_apply/3 - returned, it_marks:render/1 0 returned")],
             shape(P, "it_marks render")).

wrapped(T) ->
    P = profile(T, ["{kprof, run, 2}", "{kprof, run, 3}"], {wrapped, [?N]}),
    exact(P, 2 * ?N, [{"named", ?N}, {"undefined", ?N}],
          [{Tier, I, ?N, 0} || Tier <- ["db", "render"], I <- ["named", "undefined"]]),
    whole(P, list_to_binary(it:outcome())).

%% Uncleared, the parsing of each request but the first is async work of the
%% one before; cleared, it is nobody's.
kept(T) ->
    Without = profile(T, ["{kprof, run, 2}"], {kept, [?N, false]}),
    exact(Without, ?N, [{"undefined", ?N}],
          [{"db", "undefined", ?N, 0}, {"parse", "undefined", 0, ?N - 1}, {"render", "undefined", ?N, 0}]),
    With = profile(T, ["{kprof, run, 2}"], {kept, [?N, true]}),
    exact(With, ?N, [{"undefined", ?N}], [{"db", "undefined", ?N, 0}, {"render", "undefined", ?N, 0}]),
    whole(With, list_to_binary(it:outcome())).

streams(T) ->
    P = profile(T, ["{kprof, set_token, 1}"], {streams, [?N]}),
    exact(P, 2 * ?N, [{"read", ?N}, {"write", ?N}],
          [{Tier, I, ?N, 0} || Tier <- ["db", "render"], I <- ["read", "write"]]),
    whole(P, <<"returned">>).

nested(T) ->
    P = profile(T, ["{kprof, set_token, 1}", "{kprof, run, 3}"], {nested, [?N]}),
    exact(P, 2 * ?N, [{"inner", ?N}, {"outer", ?N}],
          [{"db", "inner", ?N, 0}, {"db", "outer", 2 * ?N, 0}, {"render", "inner", ?N, 0}]),
    it:equal("inner ones that know their outer one", ?N,
             it:number(P, "select count(*) from slow_requests i join slow_requests o on i.parent_label = o.label"
                       " where i.identity = 'inner' and o.identity = 'outer'")),
    it:equal("shape", [seen("kprof:set_token/1 - returned, it_marks:db/1 0 returned, it_marks:db/1 0 returned")],
             shape(P, "outer")).

far_apart(T) ->
    P = profile(T, ["{kprof, set_token, 0}"], {deep_end, [?N]}),
    exact(P, ?N, [{"undefined", ?N}], [{"db", "undefined", ?N, 0}, {"render", "undefined", ?N, 0}]),
    whole(P, <<"returned">>),
    Q = profile(T, ["{kprof, set_token, 1}"], {elsewhere, [?N]}),
    Half = ?N div 2,
    exact(Q, ?N, [{"read", Half}, {"write", Half}], [{"db", "read", Half, 0}, {"db", "write", Half, 0}]),
    whole(Q, <<"returned">>).

%% Each request's calls are its own, though the server works for all of them
%% in turn.
deferred(T) ->
    P = profile(T, ["{kprof, set_token, 1}", "{kprof, do_apply, 4}"], {deferred, [?N]}),
    Half = ?N div 2,
    exact(P, 2 * ?N, [{"read", Half}, {"simple", ?N}, {"write", Half}],
          [{Tier, I, Half, 0} || Tier <- ["db", "render"], I <- ["read", "write"]] ++ [{"db", "simple", ?N, 0}]),
    whole(P, [<<"returned">> | [list_to_binary(it:outcome()) || not it:is_native()]]),
    it:equal("shape", [seen("kprof:set_token/1 - returned, it_marks:db/1 0 returned, it_marks:render/1 0 returned")],
             shape(P, "write")).

%% With exact every release tells them apart, the direct catcher or not.
raising(T) ->
    Tiers = [it:calm(), "{tiers, [{marked, [{kprof, do_apply, '_'}, {kprof, run, '_'}], [exact]},\n"
             "  {raise, {it_marks, raise, 1}, [exact]}]}.\n{entry, \"kprof\"}.\n{sampling, all}.\n"
             "{budget, none}.\n{slow_ms, 0}.\n"],
    P = profiled(T, Tiers, {raising, [?N]}),
    exact(P, 4 * ?N, [{"undefined", 4 * ?N}],
          [{"marked", "undefined", 4 * ?N, 0}, {"raise", "undefined", 2 * ?N, 0}]),
    it:equal("raised", [[<<"marked">>, integer_to_binary(4 * ?N)], [<<"raise">>, integer_to_binary(2 * ?N)]],
             it:sql(P, "select tier, sum(raised) from tier_stats where identity = 'undefined' and tier <> '_total'"
                    " group by tier order by tier")),
    it:equal("requests that raised", 4 * ?N,
             it:number(P, "select sum(errors) from request_stats where identity = '_total'")),
    %% Without, one that its direct caller catches looks like a return.
    Q = profile(T, ["\"kprof\""], {raising, [?N]}),
    it:equal("entry calls", 4 * ?N, it:balance(Q)),
    it:equal("losses", #{}, it:lost(Q)).

%% A process that dies ends nothing, and neither does clearing what is not set.
loose_ends(T) ->
    Target = target(T),
    P = it:kprofd(T, Target, #{tiers => tiers(["{kprof, set_token, 1}"])}),
    it:armed(P),
    it:call(Target, it_marks, unmarked, []),
    it:call(Target, it_marks, dying, [5]),
    it:call(Target, it_marks, unmarked, []),
    it:terminate(P),
    it:equal("entry calls", 5, it:balance(P)),
    it:equal("losses", #{running => 5, with_request => 5}, it:losses(P)).

sampled(T) ->
    N = 600,
    P = profiled(T, [layers(["\"kprof\""]), "{sampling, {one_in, 4}}.\n{budget, none}.\n"], {mixed, [N]}),
    %% cleared and uncleared N each, applied five times N, wrapped twice
    sampled(P, 9 * N, 4),
    [begin
         Requests = it:number(P, raw("s.requests", ["t.name = '_total' and i.name = '", Identity, "'"])),
         it:check(Requests > 0, "some ~s", [Identity]),
         it:equal([Tier, " of ", Identity], Requests,
                  it:number(P, raw("s.calls", ["t.name = '", Tier, "' and i.name = '", Identity, "'"])))
     end || Identity <- ["it_marks page", "named", "undefined"], Tier <- ["db", "render"]].

raw(What, Where) ->
    ["select sum(", What, ") from stat s join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id"
     " where i.name <> '_total' and ", Where].

sampled(P, Calls, OneIn) ->
    it:equal("entry calls", Calls, it:balance(P)),
    Sampled = it:number(P, "select sum(sampled) from time_window"),
    %% By chance less than once in 10^9 runs.
    it:check(abs(Sampled * OneIn - Calls) < 6.2 * math:sqrt(Calls * (OneIn - 1)), "~b of ~b sampled", [Sampled, Calls]),
    it:equal("estimate", Sampled * OneIn,
             it:number(P, "select sum(requests) from request_stats where identity = '_total'")),
    it:equal("losses", [sampled_out], maps:keys(it:lost(P))),
    it:equal("ends that were not seen", 0, it:number(P, "select sum(unfinished + ambiguous) from tier_stats")),
    Sampled.

%% The call that sampling passes over ends the request before it all the same.
sampled_uncleared(T) ->
    N = 8000,
    P = profiled(T, [layers(["{kprof, set_token, 1}"]), "{sampling, {one_in, 10}}.\n{budget, none}.\n"], {uncleared, [N]}),
    Sampled = sampled(P, N, 10),
    it:equal("one call for each", Sampled, it:number(P, raw("s.calls", "t.name = 'db'"))).

disabled(T) ->
    Target = it:target(T, #{kind => plain, args => ["-kprof", "disabled", "true"]}),
    Out = fun() ->
                  {Status, Errors, _} = it:run_kprofd(T, Target, #{tiers => tiers(["{kprof, set_token, 1}"])}),
                  it:check(Status =/= 0 andalso re:run(Errors, "keeps kprofd out") =/= nomatch, "kept out:~n~ts",
                           [Errors])
          end,
    Out(),
    ok = it:call(Target, application, load, [kprof]),
    Out(),
    it:equal("still there", {ok, true}, it:call(Target, application, get_env, [kprof, disabled])),
    ok = it:call(Target, application, set_env, [kprof, disabled, false]),
    P = it:kprofd(T, Target, #{tiers => tiers(["{kprof, set_token, 1}"])}),
    it:armed(P),
    it:terminate(P),
    it:check(lists:keymember(kprof, 1, it:call(Target, application, loaded_applications, [])),
             "the application is still loaded").

gone(T) ->
    Target = target(T),
    P = it:kprofd(T, Target, #{tiers => tiers(["\"kprof\""])}),
    it:armed(P),
    it:call(Target, it_marks, cleared, [5]),
    it:terminate(P),
    it:equal("the token at the end", [], it:call(Target, it_marks, alone, [])).
