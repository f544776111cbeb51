-module(kprof_waits_tests).
-behaviour(gen_server).

-include_lib("eunit/include/eunit.hrl").

-export([init/1, handle_call/3, handle_cast/2, ask/1, asks/2]).

%% A server that keeps those who ask it `later`, and is busy for those who ask it `now`.
init(Test) -> {ok, {Test, []}}.

handle_call(later, From, {Test, Waits}) ->
    {noreply, {Test, [From | Waits]}};
handle_call({now, Go}, _, S) ->
    element(1, S) ! busy,
    receive Go -> {reply, ok, S} end.

handle_cast(answer, {Test, Waits}) ->
    [gen_server:reply(W, ok) || W <- Waits],
    {noreply, {Test, []}}.

ask(Server) -> asks(Server, later).

asks(Server, What) ->
    ok = gen_server:call(Server, What, infinity),
    done.

clients(N, Run) ->
    Ps = [spawn(Run) || _ <- lists:seq(1, N)],
    [wait(fun() -> is_waiting(P) end) || P <- Ps],
    Ps.

is_waiting(P) ->
    {_, F} = process_info(P, current_function),
    lists:member(F, [{gen, do_call, 4}, {'Elixir.DBConnection.Holder', held, 1}]).

wait(Is) -> Is() orelse begin timer:sleep(1), wait(Is) end.

ended(Ps) -> [exit(P, kill) || P <- Ps].

%% Two or one: the server waits for messages, and they for it. Who waits in a function's tail call is
%% named by the function around that.
later_test() ->
    {ok, Server} = gen_server:start({local, waits_pool}, ?MODULE, self(), []),
    Two = clients(2, fun() -> ?MODULE:ask(Server) end),
    Named = {waits_pool, {?MODULE, init, 1}},
    ?assertEqual([{Named, 2, {?MODULE, asks, 2}}], kprof_waits:waits(Two)),
    ?assertEqual([{Named, 1, {?MODULE, asks, 2}}], kprof_waits:waits(tl(Two))),
    Tail = clients(1, fun() -> gen_server:call(Server, later, infinity) end),
    ?assertEqual([{Named, 2, {?MODULE, asks, 2}}], kprof_waits:waits(Two)),
    ?assertMatch([{Named, 1, []}], kprof_waits:waits(Tail)),
    ?assertEqual(Named, kprof_waits:waits_server(Server)),
    gen_server:cast(Server, answer),
    ?assertEqual([], kprof_waits:waits(Two)),
    ended([Server | Two]).

%% By name, and without a registered one.
names_test() ->
    {ok, Server} = gen_server:start({local, waits_pool}, ?MODULE, self(), []),
    By = clients(2, fun() -> ?MODULE:ask(waits_pool) end),
    ?assertMatch([{{waits_pool, _}, 2, _}], kprof_waits:waits(By)),
    {ok, Other} = gen_server:start(?MODULE, self(), []),
    With = clients(3, fun() -> ?MODULE:ask(Other) end),
    ?assertMatch([{{[], {?MODULE, init, 1}}, 3, _}, {{waits_pool, _}, 2, _}], kprof_waits:waits(By ++ With)),
    ended([Server, Other | By ++ With]),
    wait(fun() -> not is_process_alive(Other) end),
    ?assertEqual({[], []}, kprof_waits:waits_server(Other)).

%% A server that answers each in its turn, however many wait for it.
busy_test() ->
    {ok, Server} = gen_server:start(?MODULE, self(), []),
    Ps = clients(5, fun() -> ?MODULE:asks(Server, {now, go}) end),
    receive busy -> ok end,
    ?assertEqual([], kprof_waits:waits(Ps)),
    ended([Server | Ps]).

%% DBConnection's clients monitor the server and wait by themselves, in a function that is not exported.
%% Of one that monitors several nobody knows for which it waits.
monitors_test() ->
    [One, Other] = [element(2, gen_server:start(?MODULE, self(), [])) || _ <- [1, 2]],
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(Form),
                 {ok, Parsed} = erl_parse:parse_form(Tokens),
                 Parsed
             end || Form <- ["-module('Elixir.DBConnection.Holder').", "-export([checkout/1]).",
                             "checkout(Pools) -> done = held(Pools), ok.",
                             "held(Pools) -> [erlang:monitor(process, P) || P <- Pools], receive stop -> done end."]],
    {ok, Holder, Beam} = compile:forms(Forms),
    {module, Holder} = code:load_binary(Holder, "holder", Beam),
    Ps = clients(2, fun() -> Holder:checkout([One]) end),
    ?assertMatch([{_, 2, {Holder, checkout, 1}}], kprof_waits:waits(Ps)),
    Both = clients(2, fun() -> Holder:checkout([One, Other]) end),
    ?assertEqual([], kprof_waits:waits(Both)),
    ended([One, Other | Ps ++ Both]),
    true = code:delete(Holder).
