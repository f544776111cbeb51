%% catalogue - small programs whose truth is known.
%%
%% Each does one thing that is hard to measure, and writes down with truth.erl
%% what it did. They are recorded on real nodes (make record) and replayed in
%% the unit tests, and run under kprofd in the integration tests.
%%
%% A program is a name in programs/0 and a clause of work/2, which is the body
%% of its request; one that is more than one request has a clause of start/2.
%% How calls are written:
%%
%%     ?CALL(leaf(1))                           a call of a traced function
%%     ?REQUEST(nesting, request(nesting, 1))   one that is an entry
%%     leaf(Ms) -> ?BODY(...)                   a traced function
%%     hop(X) -> ?TAIL(hop2(X))                 one whose last act is a traced call
%%     ?RAISE(throw, again)                     where an exception comes from
%%     truth:caught(Here, direct)               where it is caught: see truth.erl
%%
%% Traced are the functions that the .conf files beside this one name; the
%% others are as untraced as most code is.
%%
%% The file is long because it is a list: programs share no more than the
%% functions that they call.
-module(catalogue).

-export([programs/1, conf/1, run/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export([applied/1]).

-define(CALL(Call), truth:ended(truth:begun(??Call), Call)).
-define(REQUEST(Identity, Call), truth:ended(truth:request(Identity, ??Call), Call)).
-define(BODY(Body), truth:left(truth:entered(), Body)).
-define(TAIL(Call), truth:entered(), truth:tail(??Call), Call).
-define(TAIL_REQUEST(Identity, Call), truth:entered(), truth:tail_request(Identity, ??Call), Call).
-define(RAISE(Class, Reason), erlang:(truth:raising(Class))(Reason)).
%% Called by span/1 itself.
-define(SPAN(Call), truth:ended(truth:begun(??Call), span(fun() -> Call end))).
%% The end of one that marked/1 began.
-define(CLEAR(Id), truth:left(Id, ok), kprof:clear_token(), truth:ended(Id, ok)).
-define(APPLY(Identity, Arg),
        truth:ended(truth:request(Identity, "do_apply"), kprof:do_apply(Identity, ?MODULE, applied, [Arg]))).
-define(OFTEN, 5).

%% {Conf, Programs} for a release: what is measured is in CONF.conf. Those of
%% `recorded` are not run under kprofd: they take long, or leave something in
%% flight.
programs(Otp) ->
    [{Conf, [P || P <- Programs, since(P) =< Otp]} || {Conf, Programs} <- programs()].

%% Up to OTP 26 an entry that is called again from the same place looks as if
%% an exception had ended it unseen (priv/doc/limits.md).
since(reenter_deep) -> 27;
since(_) -> 25.

programs() ->
    [{layers,
      [nesting, recursion, mutual, walk, span, undefined_first,
       tail, tail_loop, tail_entry, tail_raise, tail_deep,
       raise_direct, raise_deep, raise_between, raise_around, raise_out, raise_out_deep,
       retry, retry_traced, classes, after_clause,
       children, parallel, task, task_down, linked_crash, exit_child, kill_child, straddle,
       started, reenter, reenter_deep, reenter_other, reenter_child,
       deferred, delayed, timers, socket, cast, cast_later, cast_on, late_tick, two_in_a_row, pool, crowd,
       checkout, server_crash, linked_term, down_late, hibernate, chain, chain_crowd, call_timeout,
       reenter_raise, raise_recursive, rethrow, tail_into_entry, outside, local_erpc, plain_message,
       worker_raise, raise_out_between, tick_other]},
     {overlap, [two_tiers, two_tiers_parallel]},
     {exact, [exact_direct, exact_between, exact_retry, exact_tail, exact_out]},
     {mixed, [mixed_tail, mixed_deep, mixed_around, mixed_below]},
     {finish, [finish_elsewhere, finish_here, finish_twice, finish_many]},
     {marks, [mark_clear, mark_again, mark_around, mark_aside, mark_apply, mark_raise]},
     {recorded, [{layers, kill_entry}, {layers, linked_death}, {layers, exit_entry}, {layers, stale},
                {finish, finish_never}, {marks, mark_never}]}].

conf(Program) ->
    [Conf] = [C || {recorded, All} <- programs(), {C, P} <- All, P =:= Program] ++
        [C || {C, All} <- programs(), lists:member(Program, All)],
    Conf.

%% Runs it to its end; gives truth:take(). Size: how many requests, where it
%% can be said.
run(Program, Size) ->
    truth:new(),
    {_, Ref} = spawn_monitor(fun() -> start(Program, Size) end),
    normal = down(Ref),
    truth:take().

%% ------------------------------------------------------ traced functions ----

request(Program, Arg) -> ?BODY(work(Program, Arg)).

tail_request(Ms) -> ?TAIL(hop3(Ms)).

leaf(Ms) -> ?BODY(receive after Ms -> ok end).
named(_Name) -> ?BODY(ok).
middle(Ms) -> ?BODY(begin ?CALL(leaf(Ms)), ?CALL(leaf(Ms)) end).
outer(Ms) -> ?BODY(begin ?CALL(middle(Ms)), ?CALL(leaf(Ms)) end).

in_span(Ms) -> ?BODY(begin ?SPAN(middle(Ms)), ok end).
in_span_on(Ms) -> ?BODY(begin ?SPAN(leaf(Ms)), ?CALL(leaf(Ms)), ?SPAN(leaf(Ms)), ok end).

factorial(0) -> ?BODY(begin ?CALL(leaf(1)), 1 end);
factorial(N) -> ?BODY(N * ?CALL(factorial(N - 1))).

even(0) -> ?BODY(true);
even(N) -> ?BODY(?CALL(odd(N - 1))).
odd(0) -> ?BODY(false);
odd(N) -> ?BODY(?CALL(even(N - 1))).

dig(0) -> truth:entered(), ?RAISE(throw, bottom);
dig(N) -> ?BODY(begin ?CALL(dig(N - 1)), ok end).
rethrow(0) -> truth:entered(), ?RAISE(throw, bottom);
rethrow(N) ->
    truth:entered(),
    Here = truth:here(),
    try ?CALL(rethrow(N - 1))
    catch throw:bottom ->
            truth:caught(Here, direct),
            ?RAISE(throw, bottom)
    end.

visit(N) -> ?BODY(begin walk(N), ok end).

hop1(Ms) -> ?TAIL(hop2(Ms)).
hop2(Ms) -> truth:entered(), ?CALL(leaf(Ms)), truth:tail("hop3"), hop3(Ms).
hop3(Ms) -> ?BODY(begin ?CALL(leaf(Ms)), ok end).

hop_in(N) -> ?TAIL_REQUEST(inner, request(inner, N)).

loop(0) -> ?BODY(ok);
loop(N) -> truth:entered(), ?CALL(leaf(1)), truth:tail("loop"), loop(N - 1).

boom(Class) -> truth:entered(), receive after 1 -> ok end, ?RAISE(Class, boom).
boom_below(Class) -> ?BODY(begin ?CALL(boom(Class)), ok end).
boom_deep(Class) -> ?BODY(begin ?CALL(boom_below(Class)), ok end).
boom_between(Class) -> ?BODY(begin between(Class), ok end).
boom_tail(Class) -> ?TAIL(boom(Class)).
unless(0) -> ?BODY(ok);
unless(_) -> truth:entered(), ?RAISE(throw, again).

%% Runs until it is killed, or ends its process itself.
hang() -> ?BODY(begin truth:is(hanging), receive never -> ok end end).
quit(Reason) -> ?BODY(exit(Reason)).

%% One child of each kind, one after the other.
children() ->
    ?BODY(begin
              Context = truth:context(),
              spawned(Context, fun(F) -> spawn(F) end),
              spawned(Context, fun(F) -> spawn_link(F) end),
              spawned(Context, fun(F) -> proc_lib:spawn(F) end),
              ok
          end).
%% Three at once, in a time that is theirs.
parallel(Ms) ->
    ?BODY(begin
              Context = truth:context(),
              All = [child(Context, fun() -> ?CALL(leaf(Ms)) end) || _ <- [1, 2, 3]],
              [done(Child) || Child <- All],
              ok
          end).

ask(Server, What) ->
    ?BODY(gen_server:call(Server, {What, truth:context()})).
ask_briefly(Server, What, Ms) ->
    ?BODY(gen_server:call(Server, {What, truth:context()}, Ms)).
say(Server, What) ->
    ?BODY(gen_server:cast(Server, {What, truth:context()})).

finish() -> ?BODY(receive after 1 -> ok end).

%% ---------------------------------------------------- untraced functions ----

between(Class) ->
    ?CALL(boom(Class)),
    ok.

%% A recursion of which every second function is traced.
walk(0) ->
    ?CALL(leaf(1)),
    ok;
walk(N) ->
    ?CALL(leaf(1)),
    ?CALL(visit(N - 1)),
    ?CALL(visit(0)),
    ok.

%% telemetry:span/3: whatever it calls is called from the same place.
span(Fun) ->
    Result = Fun(),
    {ok, Result}.

%% Tries until it goes well.
attempts(N) ->
    Here = truth:here(),
    try attempt(N)
    catch throw:again ->
            truth:caught(Here, between),
            attempts(N - 1)
    end.

attempt(N) ->
    ok = ?CALL(unless(N)),
    done.

attempts_traced(N) ->
    Here = truth:here(),
    try ?CALL(attempt_traced(N))
    catch throw:again ->
            truth:caught(Here, direct),
            attempts_traced(N - 1)
    end.

attempt_traced(N) -> ?BODY(begin ?CALL(unless(N)), ok end).

with_after() ->
    Here = truth:here(),
    try ?CALL(boom(throw))
    after truth:caught(Here, direct)
    end.

again(N) ->
    ?REQUEST(reenter_deep, request(reenter_deep, N)),
    ok.

serve_one(Fails) ->
    ?REQUEST(raise_out_between, request(raise_out_between, Fails)),
    ok.

guarded() ->
    Here = truth:here(),
    try ?REQUEST(inner_raises, request(inner_raises, 1))
    catch throw:boom -> truth:caught(Here, direct)
    end.

%% By kprof:do_apply, whose time this is.
applied(boom) -> truth:entered(), ?RAISE(throw, boom);
applied(Ms) -> ?BODY(?CALL(leaf(Ms))).

%% A request marked by hand: the call of set_token lasts as long as it does.
marked(Identity) ->
    Id = truth:request(Identity, "set_token"),
    kprof:set_token(Identity),
    truth:entered(),
    Id.

aside() ->
    {kprof:detach(), truth:aside()}.

again_for({Token, Calls}) ->
    kprof:attach(Token),
    truth:go_on(Calls).

child(Context, Work) ->
    Parent = self(),
    spawn(fun() -> truth:adopt(Context), Work(), Parent ! {done, self()} end).

spawned(Context, Spawn) ->
    Parent = self(),
    done(Spawn(fun() -> truth:adopt(Context), ?CALL(leaf(1)), Parent ! {done, self()} end)).

done(Child) ->
    receive {done, Child} -> ok end.

down(Ref) ->
    receive {'DOWN', Ref, process, _, Reason} -> Reason end.

server() ->
    {ok, Server} = gen_server:start(?MODULE, [], []),
    Server.

%% -------------------------------------------------------------- programs ----

%% In a process without a token.
start(tail_entry, _) ->
    ?REQUEST(tail_entry, tail_request(1));
start(two_in_a_row, _) ->
    ?REQUEST(two_in_a_row, request(two_in_a_row, 1)),
    ?REQUEST(two_in_a_row, request(two_in_a_row, 2));
start(pool, Size) ->
    Server = server(),
    [?REQUEST(pool, request(pool, Server)) || _ <- lists:seq(1, Size)];
start(crowd, Size) ->
    crowd(crowd, server(), Size);
start(chain_crowd, Size) ->
    crowd(chain_crowd, {server(), server()}, Size);
%% A client waits until another one gives back what both want: the answer comes
%% with that one's token.
start(checkout, _) ->
    Pool = server(),
    First = child({none, none}, fun() -> ?REQUEST(holder, request(holder, Pool)) end),
    truth:await(held),
    Second = child({none, none}, fun() -> ?REQUEST(waiter, request(waiter, Pool)) end),
    done(First),
    done(Second);
start(hibernate, _) ->
    Server = server(),
    ?REQUEST(hibernate, request(hibernate, Server)),
    ?REQUEST(hibernate, request(hibernate, Server));
start(worker_raise, _) ->
    Server = server(),
    [?REQUEST(worker_raise, request(worker_raise, Server)) || _ <- [1, 2, 3]];
%% Requests that crash, and one that does not, from the same place.
start(raise_out_between, _) ->
    Here = truth:here(),
    [try serve_one(Fails)
     catch throw:boom -> truth:caught(Here, between)
     end || Fails <- [true, true, false]];
start(tick_other, _) ->
    Server = server(),
    ?REQUEST(tick_first, request(tick_first, Server)),
    ?REQUEST(tick_other, request(tick_other, Server)),
    truth:await(served);
%% Each ends when the process has long begun others.
start(finish_many, _) ->
    [?REQUEST(finish_many, request(finish_many, N)) || N <- [1, 2, 3]],
    truth:is(answered),
    [truth:await({served, N}) || N <- [1, 2, 3]];
start(plain_message, _) ->
    Other = spawn(fun() -> receive {tell, Pid} -> seq_trace:set_token([]), Pid ! plain end end),
    ?REQUEST(plain_message, request(plain_message, Other));
start(chain, _) ->
    ?REQUEST(chain, request(chain, {server(), server()}));
start(kill_entry, _) ->
    {Pid, Ref} = spawn_monitor(fun() -> ?REQUEST(kill_entry, request(kill_entry, 1)) end),
    truth:await(hanging),
    exit(Pid, kill),
    killed = down(Ref);
%% Two in a row, each with a child that works for it.
start(mark_clear, _) ->
    [begin
         Id = marked(mark_clear),
         ?CALL(leaf(1)),
         Context = truth:context(),
         done(child(Context, fun() -> ?CALL(leaf(1)) end)),
         ?CLEAR(Id),
         [] = seq_trace:get_token()
     end || _ <- [1, 2]];
%% Ends the one before it.
start(mark_again, _) ->
    marked(mark_first),
    ?CALL(leaf(1)),
    Id = truth:request_instead(mark_second, "set_token", fun() -> kprof:set_token(mark_second) end),
    ?CALL(leaf(1)),
    ?CLEAR(Id);
start(mark_around, _) ->
    Id = marked(mark_around),
    ?CALL(leaf(1)),
    ?APPLY(mark_inside, 1),
    ?CALL(leaf(1)),
    ?CLEAR(Id);
%% One process with two of them, in turn.
start(mark_aside, _) ->
    A = marked(mark_one),
    First = aside(),
    B = marked(mark_other),
    ?CALL(leaf(1)),
    Second = aside(),
    again_for(First),
    ?CALL(leaf(1)),
    ?CLEAR(A),
    again_for(Second),
    ?CALL(leaf(1)),
    ?CLEAR(B);
start(mark_apply, _) ->
    [ok = ?APPLY(mark_apply, 1) || _ <- [1, 2]];
start(mark_raise, _) ->
    Here = truth:here(),
    try ?APPLY(mark_raise, boom) catch throw:boom -> truth:caught(Here, direct) end,
    ok = ?APPLY(mark_apply, 1);
start(mark_never, _) ->
    marked(mark_never),
    ?CALL(leaf(1));
start(Program, Size) ->
    start(kind(Program), Program, Size).

kind(P) when P =:= reenter_other; P =:= deferred; P =:= delayed; P =:= cast; P =:= server_crash;
             P =:= down_late -> with_server;
kind(P) when P =:= cast_later; P =:= cast_on; P =:= late_tick; P =:= timers; P =:= stale;
             P =:= call_timeout -> server_goes_on;
kind(P) when P =:= straddle; P =:= finish_elsewhere -> child_goes_on;
kind(P) when P =:= raise_out; P =:= raise_out_deep; P =:= exact_out -> raises;
kind(P) when P =:= linked_death; P =:= exit_entry -> dies;
kind(_) -> alone.

start(alone, Program, Size) ->
    ?REQUEST(Program, request(Program, Size));
start(with_server, Program, _) ->
    ?REQUEST(Program, request(Program, server()));
%% At work when the request has ended.
start(server_goes_on, Program, _) ->
    start(with_server, Program, 1),
    truth:is(answered),
    truth:await(served);
start(child_goes_on, Program, _) ->
    start(alone, Program, 1),
    truth:is(answered),
    truth:await(served);
start(raises, Program, _) ->
    Here = truth:here(),
    try ?REQUEST(Program, request(Program, 1))
    catch throw:boom -> truth:caught(Here, direct)
    end;
start(dies, Program, _) ->
    {_, Ref} = spawn_monitor(fun() -> start(alone, Program, 1) end),
    crash = down(Ref).

%% Clients that come at once.
crowd(Program, Server, Size) ->
    All = [child({none, none}, fun() -> ?REQUEST(Program, request(Program, Server)) end)
           || _ <- lists:seq(1, Size)],
    [done(C) || C <- All].

%% The body of a request, called by request/2.
work(nesting, _) ->
    ?CALL(outer(1)),
    ?CALL(leaf(1));
work(recursion, _) ->
    120 = ?CALL(factorial(5)),
    ok;
work(mutual, _) ->
    false = ?CALL(even(5)),
    true = ?CALL(odd(5)),
    ok;
work(walk, _) ->
    walk(3),
    ?CALL(leaf(1)),
    ok;
work(span, _) ->
    ?SPAN(leaf(1)),
    ?SPAN(in_span(1)),
    ?SPAN(in_span_on(1)),
    ?CALL(leaf(1)),
    ok;
work(undefined_first, _) ->
    ?CALL(leaf(1)),
    ?CALL(named(undefined_first)),
    ?CALL(named(too_late)),
    ok;

work(tail, _) ->
    ?CALL(hop1(1)),
    ?CALL(leaf(1)),
    ?CALL(hop2(1)),
    ok;
work(tail_loop, _) ->
    ?CALL(loop(?OFTEN)),
    ?CALL(leaf(1)),
    ok;
work(tail_raise, _) ->
    Here = truth:here(),
    try ?CALL(boom_tail(throw)) catch throw:boom -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
%% The tail chain is inside another call, which goes on after it.
work(tail_deep, _) ->
    ?CALL(tail_inside(1)),
    ok;

work(raise_direct, _) ->
    Here = truth:here(),
    try ?CALL(boom(throw)) catch throw:boom -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
work(raise_deep, _) ->
    Here = truth:here(),
    try ?CALL(boom_deep(error)) catch error:boom -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
work(raise_between, _) ->
    Here = truth:here(),
    try between(exit) catch exit:boom -> truth:caught(Here, between) end,
    ?CALL(leaf(1)),
    ok;
work(raise_around, _) ->
    Here = truth:here(),
    try ?CALL(boom_between(throw)) catch throw:boom -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
work(raise_out, _) ->
    ?CALL(leaf(1)),
    ?RAISE(throw, boom);
work(raise_out_deep, _) ->
    ?CALL(leaf(1)),
    ?CALL(boom_deep(throw)),
    ok;
work(retry, _) ->
    attempts(2),
    ?CALL(leaf(1)),
    ok;
work(retry_traced, _) ->
    attempts_traced(2),
    ?CALL(leaf(1)),
    ok;
work(classes, _) ->
    Here = truth:here(),
    try ?CALL(boom(throw)) catch throw:boom -> truth:caught(Here, direct) end,
    try ?CALL(boom(error)) catch error:boom -> truth:caught(Here, direct) end,
    try ?CALL(boom(exit)) catch exit:boom -> truth:caught(Here, direct) end,
    {'EXIT', boom} = (catch ?CALL(boom(exit))),
    truth:caught(Here, direct),
    ok;
work(after_clause, _) ->
    try with_after() catch throw:boom -> ok end,
    ?CALL(leaf(1)),
    ok;

work(children, _) ->
    ?CALL(children()),
    ?CALL(leaf(1)),
    ok;
work(parallel, _) ->
    ?CALL(parallel(2)),
    ?CALL(leaf(1)),
    ok;
%% As Elixir's Task does: the result comes in a message, the monitor is for
%% accidents.
work(task, _) ->
    Context = truth:context(),
    Parent = self(),
    Ref = make_ref(),
    {_, Monitor} = spawn_monitor(fun() ->
                                         truth:adopt(Context),
                                         Parent ! {Ref, ?CALL(leaf(1))}
                                 end),
    receive {Ref, ok} -> erlang:demonitor(Monitor, [flush]) end,
    ?CALL(leaf(1)),
    ok;
%% The result is the reason.
work(task_down, _) ->
    Context = truth:context(),
    {_, Ref} = spawn_monitor(fun() -> truth:adopt(Context), exit({result, ?CALL(leaf(1))}) end),
    {result, ok} = down(Ref),
    truth:token_lost(25),
    ?CALL(leaf(1)),
    ok;
work(linked_crash, _) ->
    process_flag(trap_exit, true),
    Context = truth:context(),
    Child = spawn_link(fun() -> truth:adopt(Context), ?CALL(quit(crash)) end),
    receive {'EXIT', Child, crash} -> ok end,
    ?CALL(leaf(1)),
    ok;
work(exit_child, _) ->
    Context = truth:context(),
    {_, Ref} = spawn_monitor(fun() -> truth:adopt(Context), ?CALL(quit(normal)) end),
    normal = down(Ref),
    ?CALL(leaf(1)),
    ok;
work(kill_child, _) ->
    Context = truth:context(),
    {Pid, Ref} = spawn_monitor(fun() -> truth:adopt(Context), ?CALL(hang()) end),
    truth:await(hanging),
    exit(Pid, kill),
    killed = down(Ref),
    ?CALL(leaf(1)),
    ok;
work(kill_entry, _) ->
    ?CALL(leaf(1)),
    ?CALL(hang());
%% It dies with a child.
work(linked_death, _) ->
    Context = truth:context(),
    spawn_link(fun() -> truth:adopt(Context), ?CALL(quit(crash)) end),
    receive never -> ok end;
work(exit_entry, _) ->
    ?CALL(leaf(1)),
    ?CALL(quit(crash));
%% The child is at work when the request ends.
work(straddle, _) ->
    Context = truth:context(),
    spawn(fun() -> truth:adopt(Context), ?CALL(long()), truth:is(served) end),
    truth:await(begun),
    ok;
work(started, _) ->
    {ok, Server} = gen_server:start(?MODULE, {started, truth:context()}, []),
    ?CALL(ask(Server, serve)),
    ok;

work(reenter, _) ->
    ?CALL(leaf(1)),
    ?REQUEST(inner, request(inner, 1)),
    ?CALL(leaf(1)),
    ok;
work(reenter_deep, 0) ->
    ?CALL(leaf(1)),
    ok;
work(reenter_deep, N) ->
    ?CALL(leaf(1)),
    again(min(N, 3) - 1),
    ?CALL(leaf(1)),
    ok;
work(reenter_other, Server) ->
    ?CALL(ask(Server, enter)),
    ?CALL(leaf(1)),
    ok;
work(reenter_child, _) ->
    done(child(truth:context(), fun() -> ?REQUEST(inner, request(inner, 1)) end)),
    ?CALL(leaf(1)),
    ok;
work(inner, _) ->
    ?CALL(leaf(1)),
    ok;

work(deferred, Server) ->
    ?CALL(ask(Server, defer)),
    ?CALL(leaf(1)),
    ok;
%% A timer in the midst, in the server and in the client.
work(delayed, Server) ->
    ?CALL(ask(Server, delay)),
    erlang:send_after(2, self(), tick),
    receive tick -> ok end,
    ?CALL(leaf(1)),
    erlang:start_timer(2, self(), tock),
    receive {timeout, _, tock} -> ok end,
    ?CALL(leaf(1)),
    ok;
%% A gen_server's timeout, after the answer.
work(timers, Server) ->
    ?CALL(ask(Server, timeout)),
    ok;
work(socket, _) ->
    Port = echo(),
    ?CALL(leaf(1)),
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, 1}, {active, false}]),
    ?CALL(query(S)),
    ok = inet:setopts(S, [{active, once}]),
    ok = gen_tcp:send(S, <<"again">>),
    receive {tcp, S, <<"again">>} -> ok end,
    ?CALL(leaf(1)),
    ok = gen_tcp:close(S);
%% Served before the request ends.
work(cast, Server) ->
    ?CALL(say(Server, served)),
    truth:await(served),
    ok;
work(cast_later, Server) ->
    ?CALL(say(Server, later)),
    ok;
%% To a server that sends it on.
work(cast_on, Server) ->
    ?CALL(say(Server, on)),
    ok;
work(late_tick, Server) ->
    ?CALL(ask(Server, {tick, 300})),
    ok;
%% Its token is older than what is remembered of requests.
work(stale, Server) ->
    ?CALL(ask(Server, {tick, 31000})),
    ok;
work(two_in_a_row, N) ->
    ?CALL(leaf(N)),
    ok;
work(pool, Server) ->
    ?CALL(ask(Server, serve)),
    ok;
work(crowd, Server) ->
    ?CALL(ask(Server, serve)),
    ok;

work(holder, Pool) ->
    ?CALL(ask(Pool, checkout)),
    truth:is(held),
    ?CALL(leaf(1)),
    truth:await(wanted),
    ?CALL(say(Pool, checkin)),
    ?CALL(leaf(1)),
    ok;
work(waiter, Pool) ->
    ?CALL(ask(Pool, checkout)),
    ?CALL(leaf(1)),
    ?CALL(middle(1)),
    ?CALL(say(Pool, checkin)),
    ok;
%% A server that ends in the midst of a call: gen_server:call/2 exits.
work(server_crash, Server) ->
    Here = truth:here(),
    _ = truth:raising(exit),
    try ?CALL(ask(Server, crash)) catch exit:_ -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
work(linked_term, _) ->
    process_flag(trap_exit, true),
    Context = truth:context(),
    Child = spawn_link(fun() -> truth:adopt(Context), ?CALL(quit({crash, here})) end),
    receive {'EXIT', Child, {crash, here}} -> ok end,
    ?CALL(leaf(1)),
    ok;
%% The answer, and then the end of who gave it.
work(down_late, Server) ->
    Ref = monitor(process, Server),
    ?CALL(ask(Server, serve)),
    exit(Server, {no, atom}),
    {no, atom} = down(Ref),
    truth:token_lost(25),
    ?CALL(leaf(1)),
    ok;
work(hibernate, Server) ->
    ?CALL(ask(Server, hibernate)),
    ?CALL(leaf(1)),
    ok;

%% A server that asks another one.
work(chain, {Server, Next}) ->
    ?CALL(ask(Server, {pass, Next})),
    ?CALL(leaf(1)),
    ok;
work(chain_crowd, {Server, Next}) ->
    ?CALL(ask(Server, {pass, Next})),
    ?CALL(leaf(1)),
    ok;
%% The server is at work still when the request ends.
work(call_timeout, Server) ->
    Here = truth:here(),
    _ = truth:raising(exit),
    try ?CALL(ask_briefly(Server, dawdle, 5)) catch exit:{timeout, _} -> truth:caught(Here, direct) end,
    truth:await(begun),
    ok;
work(reenter_raise, _) ->
    guarded(),
    ?CALL(leaf(1)),
    ok;
work(inner_raises, _) ->
    ?CALL(boom_deep(throw)),
    ok;
work(raise_recursive, _) ->
    Here = truth:here(),
    try ?CALL(dig(3)) catch throw:bottom -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
work(rethrow, _) ->
    Here = truth:here(),
    try ?CALL(rethrow(3)) catch throw:bottom -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
work(tail_into_entry, _) ->
    ?CALL(hop_in(1)),
    ?CALL(leaf(1)),
    ok;
%% Ports, files, output: everything that answers does so with the token.
work(outside, _) ->
    "x" = os:cmd("printf x"),
    ?CALL(leaf(1)),
    {ok, _} = file:read_file(code:which(lists)),
    ?CALL(leaf(1)),
    _ = io:columns(),
    ?CALL(leaf(1)),
    ok;
work(local_erpc, _) ->
    Context = truth:context(),
    ok = erpc:call(node(), fun() -> truth:adopt(Context), ?CALL(leaf(1)) end),
    ?CALL(leaf(1)),
    ok;
%% A message without a token takes the token of who receives it.
work(plain_message, Other) ->
    ?CALL(leaf(1)),
    Other ! {tell, self()},
    receive plain -> ok end,
    truth:token_lost(any),
    ?CALL(leaf(1)),
    ok;

%% The worker has caught what it raised, and has nothing more to do.
work(worker_raise, Server) ->
    ?CALL(ask(Server, raise)),
    ?CALL(leaf(1)),
    ok;
work(raise_out_between, false) ->
    ?CALL(leaf(1)),
    ok;
work(raise_out_between, true) ->
    ?CALL(leaf(1)),
    ?RAISE(throw, boom);
%% What a timer sets off is done with the token of who was served last.
work(tick_first, Server) ->
    ?CALL(ask(Server, {tock, 100})),
    ok;
work(tick_other, Server) ->
    ?CALL(ask(Server, serve)),
    ok;

work(two_tiers, _) ->
    ?CALL(outer(1)),
    ?CALL(leaf(1)),
    ok;
work(two_tiers_parallel, _) ->
    ?CALL(parallel(2)),
    ?CALL(outer(1)),
    ok;

work(exact_direct, _) ->
    Here = truth:here(),
    try ?CALL(boom(throw)) catch throw:boom -> truth:caught(Here, direct) end,
    try ?CALL(boom_deep(exit)) catch exit:boom -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
work(exact_between, _) ->
    Here = truth:here(),
    try between(throw) catch throw:boom -> truth:caught(Here, between) end,
    ?CALL(leaf(1)),
    ok;
work(exact_retry, _) ->
    attempts(2),
    ?CALL(leaf(1)),
    ok;
work(exact_tail, _) ->
    ?CALL(hop1(1)),
    ?CALL(leaf(1)),
    ok;
work(exact_out, _) ->
    ?CALL(boom_deep(throw)),
    ok;

work(mixed_tail, _) ->
    ?CALL(hop1(1)),
    ?CALL(leaf(1)),
    ok;
work(mixed_deep, _) ->
    Here = truth:here(),
    try ?CALL(boom_deep(throw)) catch throw:boom -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
work(mixed_around, _) ->
    Here = truth:here(),
    try ?CALL(boom_between(throw)) catch throw:boom -> truth:caught(Here, direct) end,
    ?CALL(leaf(1)),
    ok;
work(mixed_below, _) ->
    Here = truth:here(),
    try between(exit) catch exit:boom -> truth:caught(Here, between) end,
    try ?CALL(boom(exit)) catch exit:boom -> truth:caught(Here, direct) end,
    ?CALL(outer(1)),
    ok;

%% A child ends the request, after the entry has returned.
work(finish_elsewhere, _) ->
    child(truth:context(), fun() ->
                                   truth:await(answered),
                                   ?CALL(leaf(1)),
                                   ?CALL(finish()),
                                   ?CALL(leaf(1)),
                                   truth:is(served)
                           end),
    ?CALL(leaf(1)),
    ok;
%% What comes after the finish was not waited for.
work(finish_here, _) ->
    ?CALL(leaf(1)),
    ?CALL(finish()),
    ?CALL(leaf(1)),
    ok;
work(finish_twice, _) ->
    ?CALL(finish()),
    ?CALL(leaf(1)),
    ?CALL(finish()),
    ok;
work(finish_many, N) ->
    child(truth:context(), fun() ->
                                   truth:await(answered),
                                   ?CALL(leaf(4 - N)),
                                   ?CALL(finish()),
                                   truth:is({served, N})
                           end),
    ?CALL(leaf(1)),
    ok;
work(finish_never, _) ->
    ?CALL(leaf(1)),
    ok.

tail_inside(Ms) ->
    ?BODY(begin ?CALL(hop1(Ms)), ?CALL(leaf(Ms)), ok end).

long() ->
    ?BODY(begin truth:is(begun), receive after 30 -> ok end end).

query(S) ->
    ?BODY(begin
              ok = gen_tcp:send(S, <<"question">>),
              {ok, <<"question">>} = gen_tcp:recv(S, 0),
              ok
          end).

%% The port of a server that sends back what it gets, in a process of nobody's.
echo() ->
    {ok, L} = gen_tcp:listen(0, [binary, {packet, 1}, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(L),
    Echo = spawn(fun() ->
                         {ok, S} = gen_tcp:accept(L),
                         echo(S)
                 end),
    ok = gen_tcp:controlling_process(L, Echo),
    Port.

echo(S) ->
    case gen_tcp:recv(S, 0) of
        {ok, Bytes} ->
            ok = gen_tcp:send(S, Bytes),
            echo(S);
        {error, closed} -> ok
    end.

%% --------------------------------------------------------------- servers ----

init({started, Context}) ->
    truth:adopt(Context),
    ?CALL(leaf(1)),
    {ok, free};
init([]) ->
    {ok, free}.

%% What is asked comes with the asker's context.
handle_call({What, Context}, From, S) ->
    truth:adopt(Context),
    serve(What, From, S).

serve(serve, _, S) ->
    ?CALL(leaf(1)),
    {reply, ok, S};
serve(enter, _, S) ->
    ?REQUEST(inner, request(inner, 1)),
    {reply, ok, S};
serve(defer, From, S) ->
    Context = truth:context(),
    spawn(fun() -> truth:adopt(Context), ?CALL(leaf(2)), gen_server:reply(From, ok) end),
    ?CALL(leaf(1)),
    {noreply, S};
serve(delay, From, S) ->
    erlang:send_after(2, self(), {reply, From}),
    {noreply, S};
serve(timeout, _, S) ->
    {reply, ok, S, 5};
serve({pass, Next}, _, S) ->
    ?CALL(leaf(1)),
    ?CALL(ask(Next, serve)),
    {reply, ok, S};
serve(raise, _, S) ->
    Here = truth:here(),
    try between(throw) catch throw:boom -> truth:caught(Here, between) end,
    {reply, ok, S};
serve(dawdle, _, S) ->
    ?CALL(long()),
    truth:is(served),
    {reply, ok, S};
serve(crash, _, _) ->
    ?CALL(leaf(1)),
    exit(crash);
serve(hibernate, _, S) ->
    ?CALL(leaf(1)),
    {reply, ok, S, hibernate};
serve(checkout, _, free) ->
    {reply, ok, taken};
serve(checkout, From, taken) ->
    truth:is(wanted),
    {noreply, {wanted, From}};
serve({Tick, Ms}, _, S) when Tick =:= tick; Tick =:= tock ->
    erlang:send_after(Ms, self(), Tick),
    {reply, ok, S}.

handle_cast({checkin, _}, {wanted, From}) ->
    gen_server:reply(From, ok),
    {noreply, taken};
handle_cast({checkin, _}, taken) ->
    {noreply, free};
handle_cast({What, Context}, S) ->
    truth:adopt(Context),
    case What of
        served -> ?CALL(leaf(1));
        later -> truth:await(answered), ?CALL(leaf(1));
        on -> truth:await(answered), ?CALL(say(server(), later)), truth:await(served)
    end,
    truth:is(served),
    {noreply, S}.

handle_info({reply, From}, S) ->
    ?CALL(leaf(1)),
    gen_server:reply(From, ok),
    {noreply, S};
handle_info(Timer, S) ->
    Timer =:= tock orelse truth:await(answered),
    ?CALL(leaf(1)),
    truth:is(served),
    {noreply, S}.
