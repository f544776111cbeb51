%% kprof_agent_foreign - events of other people's patterns, where a node has one tracer for each
%% process (OTP 25 and 26). With the relay that tracer is the agent, so anybody's patterns send
%% their events to it, with whatever values these copy.
%%
%% Nothing foreign is sent on. An event is ours if its function is, or was, in the plan and its
%% message has the shape that spec.c gives it. A value is ours only where the function was
%% planned 'exact'. All others are dropped unread and counted.
%%
%% Before a pattern takes effect the agent learns of it: it watches the BIF that sets patterns, and
%% the VM first has all schedulers pass through. Where the pattern copies values or arguments, the
%% agent gives way at once (see below), and the VM copies nothing. Tracing rests while the pattern
%% stands, except where the counters of its functions show that these are seldom called: then what
%% follows is enough. Patterns that stood before, or that somebody sets in place of the watch, are
%% met by that alone.
%%
%% Three things are done about their events, by what they cost the node:
%%   - a call is reported, once for each function (REPORTED at most);
%%   - where an event copies values or messages, or comes while nothing is armed, our flags are
%%     taken from its process as soon as that waits. (To ask for this while the process runs
%%     would block the agent, and on a node that copies gigabytes a second it would block the
%%     VM's lock for tracing too, for seconds);
%%   - where that does not end it, or memory is over its limit, the agent hands over to an heir
%%     and exits. Only this ends the copying at once, because the VM asks at each event
%%     whether the tracer lives. Then no process has flags of ours; resuming sets them again.
%%
%% Nobody can bound what the VM copies before the agent runs even once: a process copies until
%% its time slice ends; 250 to 1,600 MB were seen, where the agent was not told before.
-module(kprof_agent_foreign).

-export([patterns_set/2, may_resume/1, counted/1, count_end/1, all_traced/1, know_plan/2, is_ours/2,
         foreign_event/2, idle_event/2, unceded/1, await_batch/2, is_calm/1, foreign_tick/1]).

-import(kprof_agent_arming, [counter/2, disarm/2, pattern/4, set_counter/3, tracer/1]).
-import(kprof_agent_checks, [rates_end/1]).
-import(kprof_agent_events, [count_dropped/3, notice/2]).
-import(kprof_agent_intact, [watch_put/1]).
-import(kprof_agent_sentry, [tell_sentry/2]).
-import(kprof_agent_server, [finish/2, loop/1, process_setup/1, reply/3, tick/0]).
-import(kprof_agent_stacks, [stacks_inherited/1]).
-import(kprof_flagger, [flags_start/4]).
-import(kprof_injected, [functions/1, hide/0, now_ms/0, now_ns/0, spawn_labelled/3]).

-include("kprof_agent.hrl").

-define(REPORTED, 16).          % functions of others that the daemon is notified of
-define(CEDED, 64).             % processes without our flags, before all lose them
-define(FOREIGN, 2000).         % foreign copies in a second: not an accident
-define(FOREIGN_LOOK, 16).      % foreign copies between two looks at memory
-define(LATE, 20000).           % events of ours in a second while nothing is armed
-define(CEDED_MS, 2000).        % for a process to wait, and its events to arrive
-define(CALM_PART, 4).          % of the memory limit: less than this part is not a flood
-define(AWAIT_MS, 2).           % between two looks at memory while a batch is waited for
-define(COPYING, 200).          % functions of others that we count at most
-define(SELDOM, 100).           % calls a second of all of them that are no danger

%% ------------------------------------------------- patterns of others ----

%% Somebody calls ?SETS_PATTERN with Args. May not return: see give_way/2.
-spec patterns_set([term()], #state{}) -> #state{}.
patterns_set(_, #state{foreign = #foreign{known = all}} = S) -> S;
patterns_set([MFA, Spec, Flags], #state{foreign = #foreign{copying = Before} = F} = S0) ->
    case is_copying(Spec) andalso (Flags =:= [] orelse lists:any(fun is_event/1, Flags)) of
        true ->
            New = functions_of(MFA) -- Before,
            S = S0#state{foreign = F#foreign{copying = lists:sublist(New ++ Before, ?COPYING)}},
            case S#state.process_flags#process_flags.set of
                [] -> S;
                _ -> give_way({pattern, MFA}, S)
            end;
        false -> S0
    end;
patterns_set(_, S) -> S.

is_event(Flag) -> Flag =:= local orelse Flag =:= global.

%% Our flags include arity, so that the VM sends no arguments by itself.
is_copying(Clauses) when is_list(Clauses) ->
    lists:any(fun({_, _, Actions}) -> copies(Actions);
                 (_) -> false
              end, Clauses);
is_copying(_) -> false.

copies(Term) when is_tuple(Term) -> lists:any(fun copies/1, tuple_to_list(Term));
copies([First | More]) -> copies(First) orelse copies(More);
copies(Map) when is_map(Map) -> copies(maps:to_list(Map));
copies(Atom) when is_atom(Atom) ->
    lists:member(Atom, [return_trace, exception_trace, process_dump, '$_', '$$']) orelse
        case atom_to_list(Atom) of
            [$$, Digit | _] -> Digit >= $0 andalso Digit =< $9;
            _ -> false
        end;
copies(_) -> false.

%% Those that the pattern is of, as far as they are loaded; of all modules, two stand for all.
functions_of(on_load) -> [on_load];
functions_of({M, F, A}) when M =:= '_' -> functions_of({lists, F, A}) ++ [{gen_server, call, 2}];
functions_of({M, F, A}) ->
    lists:sublist([{M, F1, A1} || {F1, A1} <- functions(M),
                                  F =:= '_' orelse F =:= F1, A =:= '_' orelse A =:= A1], ?COPYING);
functions_of(_) -> [].

%% Looks for such a call while events are awaited.
-spec await_set(#state{}) -> term().
await_set(S) ->
    receive
        ?PATTERN_SET(Args) -> patterns_set(Args, S)
    after 0 -> ok
    end.

%% false: a pattern stands that would copy too much.
-spec may_resume(#state{}) -> {true, #state{}} | {{false, mfa() | on_load}, #state{}}.
may_resume(#state{foreign = #foreign{copying = Before} = F} = S) ->
    case [MFA || MFA <- Before, stands(MFA)] of
        [] -> {true, count_end(S#state{foreign = F#foreign{copying = []}})};
        [First | _] = Standing ->
            case is_seldom(Standing, F) of
                true -> {true, count_end(S#state{foreign = F#foreign{copying = []}})};
                false -> {{false, First}, count_begin(Standing, S)}
            end
    end.

stands(MFA) ->
    {match_spec, Spec} = erlang:trace_info(MFA, match_spec),
    is_copying(Spec).

is_seldom(MFAs, #foreign{counted = {From, Counted}}) ->
    Calls = [counter(legacy, MFA) || MFA <- Counted],
    MFAs -- Counted =:= [] andalso lists:all(fun is_integer/1, Calls) andalso
        lists:sum(Calls) * 1000 =< ?SELDOM * (now_ms() - From).

%% A counter that somebody else has is left alone.
count_begin(MFAs, S0) ->
    #state{foreign = F} = S = count_end(S0),
    Ours = [MFA || MFA <- MFAs, MFA =/= on_load,
                   counter(legacy, MFA) =:= false],
    Counting = S#state{foreign = F#foreign{copying = MFAs, counted = {now_ms(), Ours}}},
    tell_sentry([], Counting),
    [set_counter(legacy, MFA, true) || MFA <- Ours],
    Counting.

count_end(#state{foreign = #foreign{counted = {_, Counted}} = F} = S) ->
    [set_counter(legacy, MFA, false) || MFA <- Counted],
    S#state{foreign = F#foreign{counted = {0, []}}}.

%% Counters of ours on functions that others trace, for the sentry.
-spec counted(#state{}) -> [mfa()].
counted(#state{foreign = #foreign{counted = {_, Counted}}}) -> Counted.

%% Extends what an event may be. Events of an earlier plan may still come.
-spec know_plan([#item{}], #state{}) -> #state{}.
know_plan(Plan,
          #state{session = legacy, probe = relay, foreign = #foreign{known = Known} = F} = S) ->
    Before = maps:merge(maps:from_keys(?MEASURED, plain), Known),
    S#state{foreign = F#foreign{known = lists:foldl(fun know_item/2, Before, Plan)}};
know_plan(_, S) -> S.

know_item(#item{mfa = MFA, fallback = []}, Known) -> maps:merge(#{MFA => plain}, Known);
know_item(#item{mfa = MFA}, Known) -> Known#{MFA => exact}.

%% Sessions (OTP 27 and later) have events of their own only.
-spec is_ours(tuple(), #state{}) -> boolean().
is_ours(_, #state{foreign = #foreign{known = all}}) -> true;
is_ours({trace_ts, _, return_to, _, _}, _) -> true;
is_ours({trace_ts, _, call, MFA, X, _}, #state{foreign = #foreign{known = Known}}) ->
    is_map_key(MFA, Known) andalso is_message(X);
is_ours({trace_ts, _, Kind, MFA, _, _}, #state{foreign = #foreign{known = Known}})
  when Kind =:= return_from; Kind =:= exception_from ->
    case Known of #{MFA := exact} -> true; _ -> false end;
is_ours({trace_ts, _, Kind, _, _}, #state{sched_gc = #sched_gc{flags = Flags, sweep = Sweep}})
  when Kind =:= in; Kind =:= out ->
    lists:member(running, Flags) orelse Sweep =/= none;
is_ours({trace_ts, _, Kind, Info, _}, _) when is_list(Info) ->
    lists:member(Kind, [gc_minor_start, gc_minor_end, gc_major_start, gc_major_end]);
is_ours(_, _) -> false.

%% The messages of a tier, of an entry, and of a token that was taken: see spec.c.
is_message({_, Token, Caller}) -> is_token(Token) andalso is_caller(Caller);
is_message({[], Token, Caller, []}) -> is_token(Token) andalso is_caller(Caller);
is_message({_, Caller, OneIn, New, _, [], Old}) ->
    is_caller(Caller) andalso is_integer(OneIn) andalso is_token(New) andalso is_token(Old);
is_message(_) -> false.

is_token([]) -> true;
is_token(false) -> true;        % a token that is not ours and is left alone
is_token({Flags, _, Serial, From, Last}) ->
    is_integer(Flags) andalso is_integer(Serial) andalso is_pid(From) andalso is_integer(Last);
is_token(_) -> false.

is_caller(undefined) -> true;
is_caller({M, F, A}) -> is_atom(M) andalso is_atom(F) andalso is_integer(A);
is_caller(_) -> false.

%% Drops an event unread, while armed or just after it. May not return: see give_way/2.
-spec foreign_event(tuple(), #state{}) -> #state{}.
foreign_event(Ev, S0) ->
    #state{foreign = #foreign{dropped = N}} = S = count_foreign(S0),
    case element(3, Ev) of
        call when N rem ?FOREIGN_LOOK =:= 1 ->
            report(what(Ev), dropped, foreign_weigh(what(Ev), S));
        call -> report(what(Ev), dropped, S);
        _ -> foreign_copy(element(2, Ev), what(Ev), S)
    end.

count_foreign(#state{foreign = #foreign{dropped = N} = F} = S) ->
    S#state{foreign = F#foreign{dropped = N + 1}}.

count_copy(#state{foreign = #foreign{copies = N} = F} = S) ->
    S#state{foreign = F#foreign{copies = N + 1}}.

%% While nothing is armed, two kinds of our events arrive: all that were made before, late; and
%% those of calls that end now, which are never many.
-spec idle_event(tuple(), #state{}) -> #state{}.
idle_event(Ev, #state{foreign = F, events = Events} = S) ->
    case is_ours(Ev, S) of
        true when element(tuple_size(Ev), Ev) =< Events#events.disarmed_at ->
            kprof_agent_events:drop(Ev, S);
        true when F#foreign.known =:= all; F#foreign.copies < ?LATE ->
            kprof_agent_events:drop(Ev, count_copy(S));
        true -> give_way(what(Ev), S);
        false -> foreign_copy(element(2, Ev), what(Ev), count_foreign(S))
    end.

%% {Kind, Function | none}
what(Ev) ->
    case element(4, Ev) of
        {M, F, A} when is_atom(M), is_atom(F), is_list(A) -> {element(3, Ev), {M, F, length(A)}};
        {M, F, A} when is_atom(M), is_atom(F), is_integer(A) -> {element(3, Ev), {M, F, A}};
        _ -> {element(3, Ev), none}
    end.

report(_, _, #state{foreign = #foreign{reported = Reported}} = S)
  when map_size(Reported) >= ?REPORTED ->
    S;
report({_, MFA}, How, #state{foreign = #foreign{reported = Reported}} = S)
  when is_map_key({MFA, How}, Reported); is_map_key({all, How}, Reported) ->
    S;
report({Kind, Function}, How,
       #state{foreign = #foreign{reported = Reported, dropped = N} = F} = S) ->
    MFA = case all_traced(S#state.session) of
              true -> all;
              false -> Function
          end,
    notice(
      {kprof_notice, foreign, {Kind, MFA, How}, N},
      S#state{foreign = F#foreign{reported = Reported#{{MFA, How} => true}}}).

%% Does somebody trace every function, as eflambe does, and leaves it so where it fails? Then those
%% that are loaded later are traced as well, or some that no plan has.
-spec all_traced(kprof_flagger:session()) -> boolean().
all_traced(legacy) ->
    IsTraced = fun(What) -> erlang:trace_info(What, traced) =/= {traced, false} end,
    IsTraced(on_load) orelse
        lists:all(IsTraced,
                  [{erl_eval, exprs, 2}, {proc_lib, init_p, 5}, {gen_server, init_it, 6}]);
all_traced(_) -> false.

foreign_copy(P, What, #state{foreign = #foreign{ceded = Ceded, copies = N}} = S0) ->
    S = count_copy(S0),
    Now = now_ms(),
    case Ceded of
        _ when N >= ?FOREIGN -> give_way(What, S);
        #{P := Since} when Now - Since > ?CEDED_MS -> give_way(What, S);
        #{P := _} when N rem ?FOREIGN_LOOK =/= 0 -> S;
        #{P := _} -> foreign_weigh(What, S);
        _ when map_size(Ceded) >= ?CEDED -> give_way(What, S);
        _ ->
            #state{foreign = F} = S1 = foreign_weigh(What, S),
            _ = is_pid(P) andalso cede(P, S1),
            report(What, ceded, S1#state{foreign = F#foreign{ceded = Ceded#{P => Now}}})
    end.

foreign_weigh(What, S) ->
    case is_heavy(S) of
        true -> give_way(What, S);
        false -> S
    end.

is_heavy(#state{limits = #limits{memory = Max}}) ->
    {memory, Bytes} = process_info(self(), memory),
    Bytes > Max.

%% Takes our flags from P, by a process of its own. Where all schedulers copy, that process
%% comes to run only after a second, and the agent must not wait for it.
cede(P, #state{session = Session}) ->
    Agent = self(),
    spawn_labelled(
      kprof_agent, cede,
      fun() ->
              Ref = erlang:monitor(process, Agent),
              {_, Walk} = flags_start(Session, Agent, [{false, [all]}], [P]),
              receive {'DOWN', R, process, _, _} when R =:= Ref; R =:= Walk -> ok end
      end).

%% With the next resume all ceded processes are traced again.
unceded(#state{foreign = #foreign{ceded = Ceded}} = S) when map_size(Ceded) =:= 0 -> S;
unceded(#state{foreign = #foreign{ceded = Ceded} = F} = S) ->
    Set = S#state.process_flags#process_flags.set,
    _ = Set =:= [] orelse
        flags_start(S#state.session, tracer(S), [{true, Set}],
                    maps:keys(Ceded)),
    S#state{foreign = F#foreign{ceded = #{}, reported = #{}}}.

%% Waits for a batch to fill up, and looks at memory meanwhile: 15 ms are 150 MB of copies.
-spec await_batch(non_neg_integer(), #state{}) -> term().
await_batch(Ms, #state{foreign = #foreign{known = Known}}) when Known =:= all; Ms =< ?AWAIT_MS ->
    receive after Ms -> ok end;
await_batch(Ms, S) ->
    receive after ?AWAIT_MS -> ok end,
    await_set(S),
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Queue >= ?BATCH_EVENTS orelse is_heavy(S) orelse await_batch(Ms - ?AWAIT_MS, S).

%% True if no foreign copies have come since the last lease, and nothing large waits. Only then
%% may the agent look at patterns and counters. Each look needs the VM's lock for tracing, and
%% whoever sets a pattern keeps that until all schedulers have been through a few turns. Where
%% they copy, that takes seconds, and an agent that waits cannot give way.
-spec is_calm(#state{}) -> boolean().
is_calm(#state{foreign = #foreign{known = all}}) -> true;
is_calm(#state{foreign = #foreign{copies = N}, limits = #limits{memory = Max}}) ->
    [{memory, Bytes}, {total_heap_size, Words}] =
        process_info(self(), [memory, total_heap_size]),
    Waiting = Bytes - Words * erlang:system_info(wordsize),     % without the plan
    N =:= 0 andalso Waiting < Max div ?CALM_PART.

%% Called with each lease, that is every second: begins a new count of copies.
foreign_tick(#state{foreign = F} = S) ->
    S#state{foreign = F#foreign{copies = 0}}.

%% ------------------------------------------------------------- the heir ----

%% Starts the heir and exits. Nothing that the VM would wait for may come before the exit.
-spec give_way({atom(), mfa() | none}, #state{}) -> no_return().
give_way(What, S) ->
    Agent = self(),
    {message_queue_len, Queue} = process_info(self(), message_queue_len),
    Heir = spawn(fun() -> heir(Agent, What, Queue, S) end),
    element(1, S#state.sentry) ! {heir, Heir},
    exit({moved, Heir}).

%% The heir monitors what the agent had monitored. What other processes did for the agent ends,
%% except for a change that is done: the daemon asks again, or gives it up.
heir(Agent, {Kind, MFA} = What, Queue, S0) ->
    hide(),
    process_setup(S0#state.limits),
    Ref = erlang:monitor(process, Agent),
    receive {'DOWN', Ref, process, Agent, _} -> ok end,
    true = register(kprof_agent, self()),
    S1 = inherited(Queue, S0),
    logger:warning("kprofd's agent began again: somebody else traces ~0tp, and ~0tp of that"
                   " was too much for it", [MFA, Kind]),
    tick(),
    S2 = watch_put(notice({kprof_moved, self()}, S1)),
    S = undo_change(answer_change(rates_end(S2))),
    heir_begins(What, Queue, S).

inherited(Queue, #state{lease = Lease, sentry = {Sentry, _}, foreign = F, checks = Checks} = S0) ->
    S = count_dropped(Queue, 0, stacks_inherited(S0)),
    kprof_agent_sentry:inherited(Sentry),
    S#state{lease = Lease#lease{monitor = erlang:monitor(process, Lease#lease.daemon),
                                renewed_at = now_ms()},
            sentry = {Sentry, erlang:monitor(process, Sentry)},
            process_flags = #process_flags{},
            sched_gc = #sched_gc{flags = S#state.sched_gc#sched_gc.flags, alone = unknown},
            checks = Checks#checks{loading = undefined},
            foreign = F#foreign{ceded = #{}, copies = 0, reported = #{}}}.

heir_begins(_, _, #state{leaving = true} = S) -> finish(stopped_by_daemon, S);
heir_begins(What, _, #state{state = State} = S0) when State =:= paused; State =:= waiting ->
    S = disarm(State, S0),
    loop(report(What, ceded, count_begin(S#state.foreign#foreign.copying, S)));
heir_begins({Kind, MFA}, Queue, S0) ->
    Trip = #{reason => {foreign, MFA}, queue => Queue, tripped_at => now_ns()},
    S1 = disarm({tripped, foreign}, S0#state{last_trip = Trip}),
    S = count_begin(S1#state.foreign#foreign.copying, S1),
    loop(notice({kprof_notice, rest, {foreign, Kind, MFA}, Queue}, S)).

%% The agent may have given way in the middle of a change, which nobody completes now: patterns
%% of functions that were not in the plan go. A disarming is begun again.
undo_change(#state{unfinished = {change, Put}, plan = Plan, hot = H} = S) ->
    Tiers = H#hot.counters,
    New = [I || #item{mfa = MFA} = I <- Put, not lists:keymember(MFA, #item.mfa, Plan)],
    [pattern(legacy, MFA, false,
             case Kind =:= entry orelse is_map_key(MFA, Tiers) of
                 true -> counted;
                 false -> local
             end) || #item{mfa = MFA, kind = Kind} <- New],
    Left = maps:without([MFA || #item{mfa = MFA} <- New], Tiers),
    S#state{unfinished = none, hot = H#hot{counters = Left}};
undo_change(S) -> S.

answer_change(#state{changing = [{_, Ref} | More]} = S) ->
    answer_change(reply(Ref, ok, S#state{changing = More}));
answer_change(S) -> S.
