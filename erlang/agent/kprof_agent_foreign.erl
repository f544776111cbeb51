%% kprof_agent_foreign - events that are none of ours, where a node has one tracer
%% for each process (OTP 25 and 26): with the relay that is the agent, so that
%% anybody's patterns send their events to it, with whatever these copy.
%%
%% Nothing foreign is sent on. An event is ours if its function is, or was, in the
%% plan and its message has the shape that spec.c gives it; and a value only
%% where the function was planned 'exact'. All others are dropped unread and
%% counted.
%%
%% Three things are done about them, by what they cost the node:
%%   - a call is told of, once for each function (NAMED at most);
%%   - what copies values or messages, and what comes while nothing is armed,
%%     takes our flags from the process it comes from, as soon as that waits
%%     (to ask for them while it runs would block us, and on a node that copies
%%     gigabytes a second the VM's lock for tracing too, for seconds);
%%   - where that does not end it, or memory is over its limit, the agent hands
%%     over to an heir and ends. That is the only thing that ends copying at
%%     once: the VM asks at each event whether the tracer lives. Then no process
%%     has flags of ours; they are set again when it resumes.
%%
%% What the VM can copy before the agent runs even once, nobody can bound: a
%% process copies until its time slice ends, 380 to 740 MB were seen.
-module(kprof_agent_foreign).

-export([know/2, is_ours/2, foreign/2, idle_event/2, unceded/1, await/2, is_calm/1, foreign_tick/1]).

-include("kprof_agent.hrl").

-define(NAMED, 16).             % functions of others that are told of
-define(CEDED, 64).             % processes without our flags, before all are
-define(FOREIGN, 2000).         % foreign copies in a second: no accident
-define(FOREIGN_LOOK, 16).      % of those between two looks at memory
-define(LATE, 20000).           % events of ours in a second while nothing is armed
-define(CEDED_MS, 2000).        % for a process to wait, and its events to come
-define(CALM_PART, 4).          % of max_memory: what is still no flood
-define(AWAIT_MS, 2).           % the same, while a batch is waited for

%% What an event may be from now on; what was planned once may still come.
-spec know([#item{}], #s{}) -> #s{}.
know(Plan, #s{session = legacy, probe = relay, known = Known} = S) ->
    S#s{known = lists:foldl(fun know_item/2, maps:merge(maps:from_keys(?TRACED, plain), Known), Plan)};
know(_, S) ->
    S.

know_item(#item{mfa = MFA, fallback = []}, Known) ->
    maps:merge(#{MFA => plain}, Known);
know_item(#item{mfa = MFA}, Known) ->
    Known#{MFA => exact}.

%% Sessions (OTP 27 and later) have events of their own only.
-spec is_ours(tuple(), #s{}) -> boolean().
is_ours(_, #s{known = all}) ->
    true;
is_ours({trace_ts, _, return_to, _, _}, _) ->
    true;
is_ours({trace_ts, _, call, MFA, X, _}, #s{known = Known}) ->
    is_map_key(MFA, Known) andalso is_message(X);
is_ours({trace_ts, _, Kind, MFA, _, _}, #s{known = Known})
  when Kind =:= return_from; Kind =:= exception_from ->
    case Known of #{MFA := exact} -> true; _ -> false end;
is_ours({trace_ts, _, Kind, _, _}, S) when Kind =:= in; Kind =:= out ->
    lists:member(running, S#s.flags) orelse S#s.broom =/= none;
is_ours({trace_ts, _, Kind, Info, _}, _) when is_list(Info) ->
    lists:member(Kind, [gc_minor_start, gc_minor_end, gc_major_start, gc_major_end]);
is_ours(_, _) ->
    false.

%% A tier's, an entry's, and that of a token that was taken: see spec.c.
is_message({_, Token, Caller}) ->
    is_token(Token) andalso is_caller(Caller);
is_message({[], Token, Caller, []}) ->
    is_token(Token) andalso is_caller(Caller);
is_message({_, Caller, OneIn, New, _, [], Old}) ->
    is_caller(Caller) andalso is_integer(OneIn) andalso is_token(New) andalso is_token(Old);
is_message(_) ->
    false.

is_token([]) -> true;
is_token(false) -> true;        % another's, which is left alone
is_token({Flags, _, Serial, From, Last}) ->
    is_integer(Flags) andalso is_integer(Serial) andalso is_pid(From) andalso is_integer(Last);
is_token(_) -> false.

is_caller(undefined) -> true;
is_caller({M, F, A}) -> is_atom(M) andalso is_atom(F) andalso is_integer(A);
is_caller(_) -> false.

%% Dropped unread, while armed or just after it. May not return: give_way/2.
-spec foreign(tuple(), #s{}) -> #s{}.
foreign(Ev, S0) ->
    S = S0#s{foreign = S0#s.foreign + 1},
    case element(3, Ev) of
        call when S#s.foreign rem ?FOREIGN_LOOK =:= 1 ->
            foreign_told(what(Ev), dropped, foreign_weigh(what(Ev), S));
        call -> foreign_told(what(Ev), dropped, S);
        _ -> foreign_copy(element(2, Ev), what(Ev), S)
    end.

%% While nothing is armed: what was made before that comes late, all of it; what is
%% made then is of calls that end now. That is never much.
-spec idle_event(tuple(), #s{}) -> #s{}.
idle_event(Ev, S0) ->
    case is_ours(Ev, S0) of
        true when element(tuple_size(Ev), Ev) =< S0#s.disarmed_at ->
            kprof_agent_events:drop(Ev, S0);
        true when S0#s.known =:= all; S0#s.copies < ?LATE ->
            kprof_agent_events:drop(Ev, S0#s{copies = S0#s.copies + 1});
        true ->
            give_way(what(Ev), S0);
        false ->
            foreign_copy(element(2, Ev), what(Ev), S0#s{foreign = S0#s.foreign + 1})
    end.

what(Ev) ->
    case element(4, Ev) of
        {M, F, A} when is_atom(M), is_atom(F), is_list(A) -> {element(3, Ev), {M, F, length(A)}};
        {M, F, A} when is_atom(M), is_atom(F), is_integer(A) -> {element(3, Ev), {M, F, A}};
        _ -> {element(3, Ev), none}
    end.

foreign_told(_, _, #s{named = Named} = S) when map_size(Named) >= ?NAMED ->
    S;
foreign_told({Kind, MFA}, How, #s{named = Named} = S) ->
    case Named of
        #{{MFA, How} := _} -> S;
        _ -> kprof_agent_events:notice({kprof_notice, foreign, {Kind, MFA, How}, S#s.foreign}, S#s{named = Named#{{MFA, How} => true}})
    end.

foreign_copy(P, What, #s{ceded = Ceded, copies = N} = S0) ->
    S = S0#s{copies = N + 1},
    Now = kprof_injected:now_ms(),
    case Ceded of
        _ when N >= ?FOREIGN -> give_way(What, S);
        #{P := Since} when Now - Since > ?CEDED_MS -> give_way(What, S);
        #{P := _} when N rem ?FOREIGN_LOOK =/= 0 -> S;
        #{P := _} -> foreign_weigh(What, S);
        _ when map_size(Ceded) >= ?CEDED -> give_way(What, S);
        _ ->
            S1 = foreign_weigh(What, S),
            _ = is_pid(P) andalso cede(P, S1),
            foreign_told(What, ceded, S1#s{ceded = Ceded#{P => Now}})
    end.

foreign_weigh(What, S) ->
    case is_heavy(S) of
        true -> give_way(What, S);
        false -> S
    end.

is_heavy(S) ->
    {memory, Bytes} = process_info(self(), memory),
    Bytes > S#s.max_memory.

%% By a process that waits for it: where all schedulers copy, one that is begun
%% comes to run only after a second.
cede(P, #s{session = Session}) ->
    Agent = self(),
    spawn(fun() ->
                  Ref = erlang:monitor(process, Agent),
                  {_, Walk} = kprof_flagger:flags_start(Session, Agent, [{false, [all]}], [P]),
                  receive {'DOWN', R, process, _, _} when R =:= Ref; R =:= Walk -> ok end
          end).

%% With the next resume, when all those that were ceded may be traced again.
-spec unceded(#s{}) -> #s{}.
unceded(#s{ceded = Ceded} = S) when map_size(Ceded) =:= 0 ->
    S;
unceded(#s{ceded = Ceded} = S) ->
    _ = S#s.flagged =:= [] orelse
        kprof_flagger:flags_start(S#s.session, kprof_agent_patterns:tracer(S), [{true, S#s.flagged}], maps:keys(Ceded)),
    S#s{ceded = #{}, named = #{}}.

%% While a batch fills up, memory is looked at: 15 ms are 150 MB of copies.
await(Ms, S) when S#s.known =:= all; Ms =< ?AWAIT_MS ->
    receive after Ms -> ok end;
await(Ms, S) ->
    receive after ?AWAIT_MS -> ok end,
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Queue >= ?BATCH_EVENTS orelse is_heavy(S) orelse await(Ms - ?AWAIT_MS, S).

%% No copies of others have come since the last lease, and nothing large waits. Only
%% then may the agent look at patterns and counters: each look needs the VM's lock for
%% tracing, which whoever sets a pattern keeps until all schedulers have been through
%% a few turns. Where they copy that takes seconds, and an agent that waits cannot
%% give way.
-spec is_calm(#s{}) -> boolean().
is_calm(#s{known = all}) ->
    true;
is_calm(#s{copies = N, max_memory = Max}) ->
    [{memory, Bytes}, {total_heap_size, Words}] = process_info(self(), [memory, total_heap_size]),
    Waiting = Bytes - Words * erlang:system_info(wordsize),     % not what the plan takes
    N =:= 0 andalso Waiting < Max div ?CALM_PART.

%% With each lease: copies are counted by the second.
-spec foreign_tick(#s{}) -> #s{}.
foreign_tick(S) ->
    S#s{copies = 0}.

%% ------------------------------------------------------------- the heir ----

%% Nothing that the VM would wait for comes before the end of this process.
-spec give_way({atom(), mfa() | none}, #s{}) -> no_return().
give_way(What, S) ->
    Agent = self(),
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Heir = spawn(fun() -> heir(Agent, What, Queue, S) end),
    element(1, S#s.sentry) ! {heir, Heir},
    exit({moved, Heir}).

%% What the agent had monitored is monitored again. What others did for it ends,
%% but for a change that is done: the daemon asks again, or gives it up.
heir(Agent, {Kind, MFA}, Queue, #s{sentry = {Sentry, _}} = S0) ->
    kprof_agent_server:agent_flags(),
    Ref = erlang:monitor(process, Agent),
    receive {'DOWN', Ref, process, Agent, _} -> ok end,
    true = register(kprof_agent, self()),
    S1 = S0#s{daemon_ref = erlang:monitor(process, S0#s.daemon),
              sentry = {Sentry, erlang:monitor(process, Sentry)},
              flagged = [], walk = none, untraced = 0, broom = none, lookout = none,
              alone = unknown, loading = undefined, ceded = #{}, copies = 0, named = #{}, lease_at = kprof_injected:now_ms(),
              dropped = S0#s.dropped + Queue},
    logger:warning("kprofd's agent began again: somebody else traces ~0tp, and ~0tp of that was too much for it",
                   [MFA, Kind]),
    kprof_agent_server:tick(),
    S2 = heir_undoes(heir_answers(kprof_agent_checks:rates_end(kprof_agent_code:watch_put(kprof_agent_events:notice({kprof_moved, self()}, S1))))),
    Trip = #{reason => {foreign, MFA}, queue => Queue, tripped_at => kprof_injected:now_ns()},
    case S2 of
        #s{leaving = true} -> kprof_agent_server:finish(stopped_by_daemon, S2);
        #s{state = paused} -> kprof_agent_server:loop(foreign_told({Kind, MFA}, ceded, kprof_agent_arming:disarm(paused, S2)));
        _ -> kprof_agent_server:loop(kprof_agent_events:notice({kprof_notice, rest, {foreign, Kind, MFA}, Queue},
                                                               kprof_agent_arming:disarm({tripped, foreign}, S2#s{last_trip = Trip})))
    end.

%% The agent may have given way in the midst of a change, which nobody ends now: what
%% it put in the place of nothing goes. A disarming is begun again.
heir_undoes(#s{amid = {change, Put}, plan = Plan, tiers = Tiers} = S) ->
    New = [I || #item{mfa = MFA} = I <- Put, not lists:keymember(MFA, #item.mfa, Plan)],
    [kprof_agent_patterns:pattern(legacy, MFA, false, case Kind =:= entry orelse is_map_key(MFA, Tiers) of
                                                          true -> counted;
                                                          false -> local
                                                      end) || #item{mfa = MFA, kind = Kind} <- New],
    S#s{amid = none, tiers = maps:without([MFA || #item{mfa = MFA} <- New], Tiers)};
heir_undoes(S) ->
    S.

heir_answers(#s{changing = {_, Ref}} = S) ->
    kprof_agent_server:reply(Ref, ok, S#s{changing = undefined});
heir_answers(S) ->
    S.
