%% it_mail - requests that send messages, for mail_tests. Of each message it is
%% known, from times that the program took itself, between which two lengths its
%% wait was: looks at the clock before and after the send, and before and after
%% the receive. The host's clock, so that nodes of it can be compared.
%%
%% A server is held while messages are sent to it, and let go by somebody who
%% carries no token.
-module(it_mail).

-export([start/0, stop/0, another_worker/1, run/4, unheard/3, let_go/0, taken/1, waits/0, dead_letters/2]).
-export([server/0, worker/0, request/4, post/3, listen/1]).

-define(TABLE, it_mail).

%% ------------------------------------------------------- the processes ----

%% it_mail_server has a name; the worker has none, but was begun by proc_lib.
start() ->
    Me = self(),
    spawn(fun() ->
                  register(it_mail_keeper, self()),
                  ets:new(?TABLE, [named_table, public, ordered_set]),
                  register(it_mail_server, spawn(?MODULE, server, [])),
                  Worker = proc_lib:spawn(?MODULE, worker, []),
                  ets:insert(?TABLE, {worker, Worker}),
                  Me ! started,
                  receive stop -> exit(whereis(it_mail_server), kill), exit(Worker, kill) end
          end),
    receive started -> true end.

stop() ->
    it_mail_keeper ! stop,
    ok.

%% From here on requests ask a worker of the same kind that keeps N numbers in its dictionary.
another_worker(N) ->
    Worker = proc_lib:spawn(?MODULE, worker, []),
    Worker ! {keep, N, self()},
    receive kept -> ok end,
    true = ets:insert(?TABLE, {worker, Worker}),
    {_, Words} = process_info(Worker, total_heap_size),
    Words.

server() ->
    receive
        {hold, From} ->
            From ! held,
            receive let_go -> ok end
    after 0 -> ok
    end,
    take(it_mail_server),
    server().

worker() ->
    take(worker),
    worker().

%% One message, of a kind that is measured; whoever waits for it is answered.
take(Who) ->
    Before = now_ns(),
    receive
        {hold, _} = Hold ->
            self() ! Hold,
            seq_trace:set_token([]);
        {keep, N, From} ->
            put(kept, lists:seq(1, N)),
            From ! kept;
        {work, Id, Sent} ->
            took(Id, Who, Before, Sent);
        {ask, Id, Sent, From} ->
            took(Id, Who, Before, Sent),
            send(From, answer, self())
    end.

took(Id, Who, Before, Sent) ->
    After = now_ns(),
    true = ets:insert(?TABLE, {{took, Id}, Who, Before, After, Sent}).

send(To, What, From) ->
    Id = {node(), erlang:unique_integer()},
    Sent = now_ns(),
    case What of
        work -> To ! {work, Id, Sent};
        ask -> To ! {ask, Id, Sent, From};
        answer -> To ! {answer, Id, Sent}
    end,
    true = ets:insert(?TABLE, {{sent, Id}, now_ns()}).

now_ns() ->
    os:perf_counter(nanosecond).

%% ------------------------------------------------------------- requests ----

%% The entry: M messages to the server, one question to the worker; the last
%% message to the server is a question, too.
request(Kind, Server, M, Worker) ->
    [?MODULE:post(Kind, Server, work) || _ <- lists:seq(2, M)],
    ask(Worker),
    ask(Server),
    ok.

post(_, To, What) ->
    send(To, What, self()).

ask(To) ->
    send(To, ask, self()),
    Before = now_ns(),
    receive {answer, Id, Sent} -> took(Id, client, Before, Sent) end.

%% N requests, each in a process of its own, which stays till all are done: the
%% server is held until M messages wait, and for Ms more.
run(Kind, N, M, Ms) ->
    [{worker, Worker}] = ets:lookup(?TABLE, worker),
    Clients = [one(Kind, it_mail_server, M, Worker, Ms) || _ <- lists:seq(1, N)],
    [exit(C, kill) || C <- Clients],
    N.

one(Kind, Server, M, Worker, Ms) ->
    hold(Server),
    Me = self(),
    {Client, Ref} = spawn_monitor(fun() ->
                                          ?MODULE:request(Kind, Server, M, Worker),
                                          ets:insert(?TABLE, {{done, self()}}),
                                          receive after infinity -> Me end
                                  end),
    wait(fun() -> queue(Server) >= M end),
    receive after Ms -> ok end,
    Server ! let_go,
    wait(fun() -> ets:member(?TABLE, {done, Client}) end),
    erlang:demonitor(Ref, [flush]),
    Client.

hold(Server) ->
    Server ! {hold, self()},
    receive held -> ok end.

queue(Server) ->
    {_, N} = process_info(whereis(Server), message_queue_len),
    N.

wait(Fun) ->
    Fun() orelse begin receive after 1 -> ok end, wait(Fun) end.

%% N requests that leave M messages each in the mailbox of a server that is held
%% on: it is let go when somebody says so.
unheard(Kind, N, M) ->
    hold(it_mail_server),
    [begin
         {Pid, Ref} = spawn_monitor(fun() -> ?MODULE:listen({Kind, it_mail_server, M}) end),
         receive {'DOWN', Ref, process, Pid, normal} -> ok end
     end || _ <- lists:seq(1, N)],
    N.

listen({Kind, To, M}) ->
    [?MODULE:post(Kind, To, work) || _ <- lists:seq(1, M)],
    ok.

let_go() ->
    it_mail_server ! let_go,
    ok.

%% To one who is dead.
dead_letters(Kind, M) ->
    {Dead, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, Dead, _} -> ok end,
    {Pid, Ref1} = spawn_monitor(fun() -> ?MODULE:listen({Kind, Dead, M}) end),
    receive {'DOWN', Ref1, process, Pid, normal} -> ok end,
    M.

%% ---------------------------------------------------------- what is true ----

taken(Who) ->
    length([1 || {{took, _}, W, _, _, _} <- ets:tab2list(?TABLE), W =:= Who]).

%% On this node: {Receiver, Id, NotBefore, NotAfter, Sent}; of what was sent
%% elsewhere the end of the send is known there.
waits() ->
    {[{Who, Id, Before, After, Sent} || {{took, Id}, Who, Before, After, Sent} <- ets:tab2list(?TABLE)],
     [{Id, At} || {{sent, Id}, At} <- ets:tab2list(?TABLE)]}.
