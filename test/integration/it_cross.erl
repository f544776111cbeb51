%% it_cross - requests that go from node to node, for crossing_tests. Each knows
%% which calls it makes, and where. The functions that are measured are called
%% from functions of their own, and none is in tail position.
-module(it_cross).
-behaviour(gen_server).

-export([start/0, run/4, run_till/4, failed/1, stop/1, clock/0]).
-export([request/3, here/1, query/1, index/1, later/1, child/1, wait/1]).
-export([init/1, handle_call/3, handle_cast/2]).

%% The server that others call, on this node.
start() ->
    {ok, Pid} = gen_server:start({local, ?MODULE}, ?MODULE, [], []),
    is_pid(Pid).

%% N requests one after another, each in a process of its own.
run(N, Kind, B, C) ->
    [one(Kind, B, C) || _ <- lists:seq(1, N)],
    N.

one(Kind, B, C) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit(?MODULE:request(Kind, B, C)) end),
    receive {'DOWN', Ref, process, Pid, How} -> How end.

%% Until stop/1: gives how many were begun, and how many had no answer.
run_till(Kind, B, C, Tag) ->
    register(Tag, self()),
    till(Kind, B, C, 0, 0).

till(Kind, B, C, N, Failed) ->
    receive
        {stop, From} -> From ! {ran, N, Failed};
        {failed, From} -> From ! {failed, Failed}, till(Kind, B, C, N, Failed)
    after 0 ->
        case one(Kind, B, C) of
            Kind -> till(Kind, B, C, N + 1, Failed);
            _ -> till(Kind, B, C, N + 1, Failed + 1)
        end
    end.

failed(Tag) ->
    Tag ! {failed, self()},
    receive {failed, N} -> N end.

stop(Tag) ->
    Tag ! {stop, self()},
    receive {ran, N, Failed} -> {N, Failed} end.

%% ------------------------------------------------------------ measured ----

%% The entry: one thing after another, and last what nobody waits for. The
%% child is given the time to end. `wait': the server at B takes its time, and
%% no answer is one, too.
request(wait, B, _) ->
    ok = ?MODULE:here(2),
    Answer = try gen_server:call({?MODULE, B}, {query, wait}, infinity)
             catch exit:_ -> none
             end,
    ok = ?MODULE:here(1),
    Answer;
request(Kind, B, C) ->
    ok = ?MODULE:here(2),
    {answer, Kind} = gen_server:call({?MODULE, B}, {query, Kind}, infinity),
    ok = ?MODULE:here(1),
    {ok, _} = wait_for(fun(Me) -> spawn(B, ?MODULE, child, [Me]) end),
    ok = pass(2),
    gen_server:cast({?MODULE, C}, {later, Kind}),
    Kind.

wait_for(Spawn) ->
    Pid = Spawn(self()),
    receive {Pid, Answer} -> {ok, Answer} end.

here(Ms) -> pass(Ms).

query(wait) ->
    ok = ?MODULE:wait(60000),
    {answer, wait};
query(Kind) ->
    pass(2),
    ok = ?MODULE:index(1),
    {answer, Kind}.

index(Ms) -> pass(Ms).

later(_) -> pass(1).

wait(Ms) -> pass(Ms).

%% What to add to this node's time to get that of the host's monotonic clock:
%% in ns, no less than this and no more than that.
clock() ->
    Before = erlang:monotonic_time(nanosecond),
    Host = proplists:get_value(time, erlang:system_info(os_monotonic_time_source)),
    After = erlang:monotonic_time(nanosecond),
    {Host - After, Host - Before}.

child(Parent) ->
    ok = ?MODULE:here(2),
    Parent ! {self(), done}.

pass(Ms) ->
    receive after Ms -> ok end.

%% -------------------------------------------------------------- server ----

init([]) ->
    {ok, none}.

handle_call({query, Kind}, _, S) ->
    {answer, Kind} = Answer = ?MODULE:query(Kind),
    {reply, Answer, S}.

handle_cast({later, Kind}, S) ->
    ok = ?MODULE:later(Kind),
    {noreply, S}.
