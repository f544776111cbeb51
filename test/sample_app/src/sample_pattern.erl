%% What has fooled profilers: work that outlives its request, calls that are the
%% last act of others, ends that nobody is told of, and a server that answers in
%% another order than it was asked.
%%
%%     spawned      a process, which calls the database when the request is over
%%     tasked       a supervised task, begun just before the return and over after it
%%     casted       a cast, whose server calls the database when the request is over
%%     delegated    handle_request/2 ends in a call of another layer's function
%%     forwarded    a layer's function ends in a call of the database
%%     thrown       a throw, which the direct caller catches
%%     exited       a process that ends in the midst of a call, and is monitored
%%     linked       the same, linked
%%     queued       a server that drains its mailbox first (sample_queue)
%%
%% All are asked for under /fault/, and none comes by itself. Nothing is left to
%% chance: what is to begin after the return waits until it is told of that
%% (returned/0), and what is to begin before it is waited for.
-module(sample_pattern).
-behaviour(gen_server).

-export([ops/0, run/2, returned/0, start_link/0, start_tasks/0, start_task/3]).
-export([finish/1, forward/1, throws/0, exits/0, task/2]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(TASK_MS, 2).

ops() ->
    [spawned, tasked, casted, delegated, forwarded, thrown, exited, linked, queued].

%% The request's work for the database, one of the above: {ok, Value} or raised.
run(spawned, Req) ->
    told(spawn(fun() -> later(spawned, Req) end)),
    {ok, <<"spawned">>};
run(casted, Req) ->
    Ref = make_ref(),
    gen_server:cast(?MODULE, {job, Ref, Req}),
    told({?MODULE, Ref}),
    {ok, <<"casted">>};
run(tasked, _Req) ->
    {ok, Task} = supervisor:start_child(sample_tasks, [self(), tasked]),
    receive {begun, Task} -> told(Task) end,
    {ok, <<"tasked">>};
run(forwarded, Req) ->
    Start = sample_truth:start(),
    Result = sample_pattern:forward(Req),
    sample_truth:returned(delegate, forwarded, Start),
    sample_truth:returned(db, forwarded, Start),
    Result;
run(thrown, _Req) ->
    Start = sample_truth:start(),
    try sample_pattern:throws() of
        Never -> {ok, Never}
    catch
        throw:thrown -> sample_truth:raised(fault, thrown, Start), raised
    end;
run(exited, _Req) ->
    {Pid, Ref} = spawn_monitor(fun() -> ended(exited) end),
    receive {'DOWN', Ref, process, Pid, gone} -> raised end;
run(linked, _Req) ->
    Before = process_flag(trap_exit, true),
    Pid = spawn_link(fun() -> ended(linked) end),
    receive {'EXIT', Pid, gone} -> ok end,
    process_flag(trap_exit, Before),
    raised;
run(queued, _Req) ->
    {ok, sample_queue:ask(queued)}.

%% What another layer's function does, as the last act of the first one's.
forward(Req) ->
    db:network_request(Req#{op => read, fault => none, for => forwarded}).

%% The end of handle_request/2: the response's bytes. Nobody sees it return but
%% whoever called that, so it is measured from within.
finish(Req) ->
    Start = sample_truth:start(),
    Result = access(delegated, Req),
    Response = formatter:format(Result#{op => delegated}),
    sample_truth:returned(delegate, delegated, Start),
    Response.

access(Op, Req) ->
    Start = sample_truth:start(),
    _ = db:network_request(Req#{op => read, fault => none, for => Op}),
    sample_truth:returned(db, Op, Start),
    #{status => 200, body => <<"delegated\n">>}.

throws() -> throw(thrown).

exits() -> exit(gone).

ended(Op) ->
    sample_truth:unfinished(fault, Op),
    ok = sample_pattern:exits().

%% ------------------------------------------------ after the request ----

%% Called when handle_request/2 has returned: tells who waits for that, and when
%% it was.
returned() ->
    case erase(?MODULE) of
        undefined -> ok;
        {Server, Ref} -> Server ! {returned, Ref}, ok;
        Pid -> Pid ! {returned, sample_truth:start()}, ok
    end.

told(Whom) -> put(?MODULE, Whom).

later(Op, Req) ->
    receive {returned, _} -> ok end,
    after_return(Op, Req).

after_return(Op, Req) ->
    Start = sample_truth:start(),
    _ = db:network_request(Req#{op => read, fault => none, for => Op}),
    sample_truth:returned(db_async, Op, Start).

%% The task, of which a part is before the request's end and at least TASK_MS after.
start_task(Parent, Worker, Op) ->
    {ok, proc_lib:spawn_link(fun() -> run_task(Parent, Worker, Op) end)}.

run_task(_Parent, Worker, Op) ->
    Start = sample_truth:start(),
    Returned = sample_pattern:task(Worker, ?TASK_MS),
    sample_truth:returned(task, Op, Start),
    sample_truth:returned(task_after, Op, Returned).

task(Worker, Ms) ->
    Worker ! {begun, self()},
    receive {returned, At} -> At end,
    sample_layer:wait(Ms),
    At.

%% The server of casts.

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, jobs, []).

start_tasks() ->
    supervisor:start_link({local, sample_tasks}, ?MODULE, tasks).

init(jobs) ->
    {ok, jobs};
init(tasks) ->
    {ok, {#{strategy => simple_one_for_one},
          [#{id => task, restart => temporary, start => {?MODULE, start_task, [sample_tasks]}}]}}.

handle_call(_, _From, State) ->
    {reply, ok, State}.

handle_cast({job, Ref, Req}, State) ->
    receive {returned, Ref} -> ok end,
    after_return(casted, Req),
    {noreply, State}.
