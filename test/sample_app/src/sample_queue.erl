%% A server that first takes all that is in its mailbox into a queue of its own,
%% and then does one thing of that, as RabbitMQ's gen_server2 does. By then the
%% VM has given it the token of the last message that it took: whoever follows
%% tokens takes the work of one request for another's.
-module(sample_queue).

-export([start_link/0, ask/1, work/1]).
-export([init/1]).

start_link() ->
    proc_lib:start_link(?MODULE, init, [self()]).

%% Waits until it is done.
ask(Op) ->
    Ref = monitor(process, ?MODULE),
    ?MODULE ! {ask, self(), Ref, Op},
    receive
        {Ref, Answer} -> demonitor(Ref, [flush]), Answer;
        {'DOWN', Ref, process, _, Reason} -> exit(Reason)
    end.

work(_Op) ->
    sample_layer:wait(1),
    <<"queued">>.

init(Parent) ->
    register(?MODULE, self()),
    proc_lib:init_ack(Parent, {ok, self()}),
    loop(queue:new()).

loop(Queue0) ->
    Queue = drain(Queue0),
    case queue:out(Queue) of
        {{value, {From, Ref, Op}}, Rest} ->
            Start = sample_truth:start(),
            Answer = sample_queue:work(Op),
            sample_truth:returned(queue, Op, Start),
            From ! {Ref, Answer},
            loop(Rest);
        {empty, Empty} ->
            receive {ask, From, Ref, Op} -> loop(queue:in({From, Ref, Op}, Empty)) end
    end.

drain(Queue) ->
    receive {ask, From, Ref, Op} -> drain(queue:in({From, Ref, Op}, Queue))
    after 0 -> Queue
    end.
