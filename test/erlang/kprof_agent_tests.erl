-module(kprof_agent_tests).

-include_lib("eunit/include/eunit.hrl").
-include("kprof_agent.hrl").

-define(HANDLE, {shop, handle, 2}).
-define(QUERY, {shop_db, query, 1}).
-define(CALLER, {shop_web, serve, 3}).
-define(TOKEN, {0, 17, 1, self(), 0}).

%% One that ended between two questions was taken for proc_lib:init_p/5.
dictionary_test() ->
    Test = self(),
    {P, Ref} = spawn_monitor(fun() -> put(a, 1), Test ! put, receive stop -> ok end end),
    receive put -> ok end,
    ?assertEqual([1, undefined], kprof_injected:dictionary(P, [a, b])),
    P ! stop,
    receive {'DOWN', Ref, process, P, _} -> ok end,
    ?assertEqual(gone, kprof_injected:dictionary(P, [a, b])).

%% No process, session or pattern is behind it.
state() ->
    #state{lease = #lease{daemon = self(), monitor = make_ref(), who = "test", since = 0, ms = 1000,
                          renewed_at = 0},
           limits = #limits{queue = 100, memory = 1 bsl 40, age_ns = 5000000},
           sentry = {self(), make_ref()}, session = legacy,
           word = #word{found = 0}}.

knows(Items) ->
    kprof_agent_foreign:know_plan(Items, (state())#state{foreign = #foreign{known = #{}}}).

item(MFA, Kind, Fallback) ->
    #item{mfa = MFA, kind = Kind, spec = [{'_', [], [true]}], fallback = Fallback}.

call(MFA, Message) -> {trace_ts, self(), call, MFA, Message, 1}.

is_ours(Ev) ->
    Exact = item(?QUERY, tier, [{'_', [], [true]}]),
    kprof_agent_foreign:is_ours(Ev, knows([item(?HANDLE, entry, []), Exact])).

%% ---- which events are ours on OTP 25 and 26

messages_of_specs_are_ours_test() ->
    Tier = {<<"GET">>, ?TOKEN, ?CALLER},
    Entry = {[], undefined, 1, ?TOKEN, true, [], []},
    Taken = {[], ?TOKEN, ?CALLER, []},
    [?assert(is_ours(call(?HANDLE, X))) || X <- [Tier, Entry, Taken]].

other_shapes_are_not_test() ->
    Shapes = [true, ?CALLER, {args, [secret], ?CALLER}, {[], ?TOKEN, nobody},
              {[], ?CALLER, often, ?TOKEN, true, [], []}, {[], {1, 2}, ?CALLER}],
    [?assertNot(is_ours(call(?HANDLE, X))) || X <- Shapes].

functions_of_others_are_not_test() ->
    ?assertNot(is_ours(call({shop, other, 0}, {[], ?TOKEN, ?CALLER}))),
    ?assertNot(is_ours({trace_ts, self(), send, message, to, 1})).

values_are_ours_where_planned_test() ->
    ?assert(is_ours({trace_ts, self(), return_from, ?QUERY, [row], 1})),
    ?assertNot(is_ours({trace_ts, self(), return_from, ?HANDLE, [row], 1})).

all_are_ours_in_a_session_test() ->
    ?assert(kprof_agent_foreign:is_ours(call({shop, other, 0}, true), state())).

%% A function stays exact: its values may still come when the plan has changed.
exact_is_not_forgotten_test() ->
    #state{foreign = F} = S = knows([item(?QUERY, tier, [{'_', [], [true]}])]),
    Again = kprof_agent_foreign:know_plan([item(?QUERY, tier, [])], S#state{foreign = F}),
    ?assertMatch(#state{foreign = #foreign{known = #{?QUERY := exact}}}, Again).

%% ---- match specs

-define(ON, {trace, [], [running, garbage_collection]}).
-define(SPEC, [{'_', [{is_seq_trace}], [?ON, {message, x}]}]).

with_flags(Session, Alone) ->
    S = (state())#state{session = Session, sched_gc = #sched_gc{alone = Alone}},
    kprof_agent_flags:with_flags(?SPEC, S).

flags_stay_where_nobody_else_traces_test() ->
    ?assertEqual(?SPEC, with_flags(legacy, true)).

no_flags_beside_another_tracer_test() ->
    [?assertEqual([{'_', [{is_seq_trace}], [{message, x}]}], with_flags(legacy, Alone))
     || Alone <- [false, unknown]].

no_gc_beside_another_session_test() ->
    ?assertEqual([{'_', [{is_seq_trace}], [{trace, [], [running]}, {message, x}]}],
                 with_flags({session}, false)).

entry() ->
    Gives = {message, {{[], {caller}, 1, {'andalso', x, y}, true, [], z}}},
    #item{mfa = ?HANDLE, kind = entry, fallback = [],
          spec = [{'_', [], [{message, false}]}, {'_', [], [Gives]}]}.

asked(Messages) ->
    #item{spec = Spec} = I = entry(),
    Armed = kprof_agent_messages:armed_spec(I, (state())#state{messages = Messages}),
    [After -- Before || {{_, _, Before}, {_, _, After}} <- lists:zip(Spec, Armed)].

tokens_ask_for_messages_where_given_test() ->
    ?assertMatch([[], [{'andalso', {is_seq_trace}, _, {set_seq_token, send, true}, _}]],
                 asked(#messages{wanted = true, state = on, asked = true})).

tokens_stop_asking_test() ->
    ?assertMatch([[{'andalso', _, _, {set_seq_token, send, false}, _}], [_]],
                 asked(#messages{wanted = true, state = {others, dbg}, asked = true})).

tokens_never_asked_test() ->
    ?assertEqual([[], []], asked(#messages{})).

%% ---- names of receivers

%% Before OTP 26.2 a dictionary is to be had as a whole only, and its process copies it.
named_keep_their_dictionary_test() ->
    P = proc_lib:spawn(fun() ->
                               put(large, lists:seq(1, 400000)),
                               erlang:garbage_collect(),
                               register(kprof_agent_tests_named, self()),
                               receive stop -> ok end
                       end),
    named_wait(P),
    {ok, [0, Number, Serial], []} = io_lib:fread("<~d.~d.~d>", pid_to_list(P)),
    Ref = make_ref(),
    kprof_agent_messages:receiver_names(lists:duplicate(200, {Number, Serial}), Ref, state()),
    receive {reply, Ref, Names} -> ?assertEqual([kprof_agent_tests_named], lists:usort(Names))
    after 500 -> ?assert(false)
    end,
    P ! stop.

named_wait(P) ->
    whereis(kprof_agent_tests_named) =:= P andalso
        process_info(P, status) =:= {status, waiting} orelse
        receive after 1 -> named_wait(P) end.

%% ---- limits

over_limit_test() ->
    S = state(),
    ?assertEqual(false, kprof_agent_events:over_limit(5000000, 100, S)),
    ?assertEqual({age_ms, 6}, kprof_agent_events:over_limit(6000000, 0, S)),
    ?assertEqual({queue, 101}, kprof_agent_events:over_limit(0, 101, S)),
    Small = S#state{limits = (S#state.limits)#limits{memory = 1}},
    ?assertMatch({memory, _}, kprof_agent_events:over_limit(0, 0, Small)).

late_entries_are_counted_test() ->
    Entry = call(?HANDLE, {[], undefined, 1, ?TOKEN, true, [], []}),
    Tier = call(?QUERY, {[], ?TOKEN, ?CALLER}),
    Running = {trace_ts, self(), in, ?CALLER, 1},
    S = lists:foldl(fun kprof_agent_events:drop/2, state(), [Entry, Tier, Running]),
    ?assertMatch(#state{events = #events{dropped = 2, dropped_entries = 1}}, S).

lease_test() ->
    #state{lease = Lease} = S = state(),
    Renewed = S#state{lease = Lease#lease{renewed_at = kprof_injected:now_ms()}},
    ?assertEqual(Renewed, kprof_agent_server:lease(Renewed)).

micros_test() ->
    ?assertEqual(1000002000003, kprof_agent_intact:micros({1, 2, 3})).

%% ---- the sampler of stacks

%% A sampler that dies again and again is started more and more seldom; one that was wanted anew
%% is started at once.
sampler_falls_test() ->
    S0 = (state())#state{state = armed},
    First = kprof_agent_stacks:stacks_use({100, 5000}, S0),
    Second = kprof_agent_stacks:stacks_settle(fallen(First)),
    ?assertMatch({_, _}, sampler(Second)),
    Third = kprof_agent_stacks:stacks_settle(fallen(Second)),
    ?assertEqual(none, sampler(Third)),
    Later = fun(Ms, #state{stacks = #stacks{falls = {N, At}} = T} = S) ->
                    S#state{stacks = T#stacks{falls = {N, At - Ms}}}
            end,
    Fourth = kprof_agent_stacks:stacks_settle(Later(1000, Third)),
    ?assertMatch({_, _}, sampler(Fourth)),
    Fifth = fallen(Fourth),
    ?assertEqual(none, sampler(kprof_agent_stacks:stacks_settle(Later(1000, Fifth)))),
    Anew = kprof_agent_stacks:stacks_use({50, 5000}, Fifth),
    ?assertMatch({_, _}, sampler(Anew)),
    ?assertEqual(none, sampler(kprof_agent_stacks:stacks_stop(Anew))),
    %% After a long time it is as if it were the first.
    Old = fallen(Later(600000, Fourth)),
    Stopped = kprof_agent_stacks:stacks_stop(kprof_agent_stacks:stacks_settle(Old)),
    ?assertMatch({1, _}, Stopped#state.stacks#stacks.falls).

sampler(#state{stacks = #stacks{sampler = Sampler}}) -> Sampler.

%% New processes have room among many that have ended; those with a token stay.
candidates_test() ->
    [Labelled, New | Old] = [spawn(fun() -> ok end) || _ <- lists:seq(1, 6000)],
    Before = kprof_agent_stacks:stack_candidates(Old, 1, #{Labelled => {1, 17}}),
    ?assertEqual(4000, map_size(Before)),
    ?assertEqual(5998 - 3999, kprof_agent_stacks:stack_crowd(Old ++ Old, Before)),
    ?assertEqual(0, kprof_agent_stacks:stack_crowd([New], #{New => {2, 0}})),
    ?assertEqual(#{Labelled => {1, 17}, New => {2, 0}},
                 kprof_agent_stacks:stack_candidates([New], 2, Before)),
    [Known | _] = Old,
    Few = #{Known => {1, 0}, Labelled => {1, 17}},
    ?assertEqual(Few#{New => {2, 0}}, kprof_agent_stacks:stack_candidates([New], 2, Few)).

fallen(#state{stacks = #stacks{sampler = {Pid, Monitor}}} = S) ->
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, _, _} -> ok after 100 -> ok end,
    kprof_agent_stacks:sampler_down(S).

%% It leaves no process of its own, whenever it is killed.
sampler_leaves_nothing_test() ->
    Before = erlang:system_info(process_count),
    S0 = (state())#state{state = armed},
    [begin
         S = kprof_agent_stacks:stacks_use({100, 5000}, S0),
         {Pid, _} = sampler(S),
         spins(N),
         Links = case process_info(Pid, links) of {links, Ls} -> Ls; undefined -> [] end,
         Refs = [erlang:monitor(process, P) || P <- [Pid | Links]],
         kprof_agent_stacks:stacks_stop(S),
         [receive {'DOWN', R, process, _, _} -> ok after 1000 -> error(stays) end || R <- Refs]
     end || N <- lists:seq(0, 50)],
    timer:sleep(50),
    ?assert(erlang:system_info(process_count) =< Before + 3).

spins(0) -> ok;
spins(N) -> erlang:yield(), spins(N - 1).

%% ---- what the agent itself costs

%% Batches of 50 us on a host so busy that each third of them loses its processor for 10 ms. By
%% the clock they cost 3.4 s, by which kprofd measured every second request to keep to a budget.
interrupted_batches_cost_their_price_test() ->
    Took = fun(I) when I rem 3 =:= 0 -> 10000000;
              (I) -> 45000 + I rem 11 * 1000
           end,
    Cost = charged([{{batch, 4}, Took(I)} || I <- lists:seq(1, 1000)]),
    ?assert(Cost > 40000000),
    ?assert(Cost < 60000000).

%% Not only what is interrupted first: what each kind of work takes is its own price.
quiet_batches_cost_what_they_take_test() ->
    Works = [{{batch, B}, 20000 + (1000 bsl B)} || _ <- lists:seq(1, 200), B <- lists:seq(1, 9)],
    ?assertEqual(lists:sum([T || {_, T} <- Works]), charged(Works)).

%% Work that has become dearer for good, as with larger values, is charged in full soon.
dearer_batches_are_noticed_test() ->
    Then = [{{batch, 4}, 50000} || _ <- lists:seq(1, 100)],
    Now = [{{batch, 4}, 200000} || _ <- lists:seq(1, 400)],
    Cost = charged(Then ++ Now),
    ?assert(Cost > 0.9 * (100 * 50000 + 400 * 200000)).

charged(Works) ->
    {Sum, _} = lists:foldl(fun({Work, Took}, {Sum, Prices0}) ->
                                   {Cost, Prices} = kprof_agent_events:charge(Work, Took, Prices0),
                                   {Sum + Cost, Prices}
                           end, {0, #{}}, Works),
    Sum.
