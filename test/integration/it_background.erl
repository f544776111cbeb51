%% it_background - requests that leave work behind, for background_tests.  Each
%% runs in the target, and says when it did what, by the clock of its node.
-module(it_background).

-export([run/1, hang/1, sleep/1, late/1]).
-export([request/4, work/2, late_work/1, start_task/1, task/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(KINDS, [spawned, task, cast]).

%% Of each way to begin it and each of so many ms, all at the same time:
%% [{Identity, {Last, Later}, {Before, First, Last, After}}], the last moment of
%% the request and one behind it, and two around each end of the work.
run(Times) ->
    Runs = [spawn_monitor(fun() -> exit({done, one(Kind, Ms)}) end) || Kind <- ?KINDS, Ms <- Times],
    [receive {'DOWN', Ref, process, Pid, {done, Done}} -> Done end || {Pid, Ref} <- Runs].

one(Kind, Ms) ->
    Name = list_to_atom(lists:concat([Kind, "_", Ms])),
    Start = starter(Kind),
    Last = ?MODULE:request(Name, Start, Ms, self()),
    Later = now_ns(),
    receive {worked, Work} -> {Name, {Last, Later}, Work} end.

%% It returns while its work goes on.
hang(Ms) ->
    spawn(fun() -> ?MODULE:request(hanging, starter(spawned), Ms, self()), receive never -> ok end end),
    ok.

%% A request of so many ms, or longer.
sleep(Ms) ->
    spawn(fun() -> ?MODULE:request(sleeping, fun(_) -> receive after Ms -> self() ! begun end end, 0, self()) end),
    ok.

%% Each leaves work behind that begins after its end, and ends like this.
late(Ends) ->
    [begin
         Run = fun() -> receive over -> ok end, ?MODULE:late_work(End) end,
         ?MODULE:request(late, fun(_) -> self() ! {job, spawn_monitor(Run)}, self() ! begun end, 0, self()),
         receive {job, {Pid, Ref}} -> Pid ! over, receive {'DOWN', Ref, process, Pid, _} -> ok end end
     end || End <- Ends],
    ok.

late_work(returns) -> ok;
late_work(raises) -> exit(raised).

request(_Name, Start, Ms, To) ->
    Start({Ms, self(), To}),
    receive begun -> ok end,
    receive after 1 -> ok end,
    now_ns().

work(Ms, Requester) ->
    First = now_ns(),
    Requester ! begun,
    receive after Ms -> ok end,
    {First, now_ns()}.

background({Ms, Requester, To}) ->
    Before = now_ns(),
    {First, Last} = ?MODULE:work(Ms, Requester),
    To ! {worked, {Before, First, Last, now_ns()}}.

starter(spawned) ->
    fun(Job) -> spawn(fun() -> background(Job) end) end;
%% As Task.Supervisor:start_child/2 does.
starter(task) ->
    {ok, Sup} = supervisor:start_link(?MODULE, task),
    fun(Job) -> {ok, _} = supervisor:start_child(Sup, [Job]) end;
starter(cast) ->
    {ok, Server} = gen_server:start_link(?MODULE, server, []),
    fun(Job) -> gen_server:cast(Server, Job) end.

start_task(Job) -> {ok, proc_lib:spawn_link(?MODULE, task, [Job])}.

task(Job) -> background(Job).

init(task) ->
    {ok, {#{strategy => simple_one_for_one},
          [#{id => task, start => {?MODULE, start_task, []}, restart => temporary}]}};
init(server) ->
    {ok, server}.

handle_call(_, _, S) -> {reply, ok, S}.

handle_cast(Job, S) ->
    background(Job),
    {noreply, S}.

now_ns() ->
    erlang:monotonic_time(nanosecond).
