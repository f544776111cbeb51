%% kprof_waits - finds servers that take a message and answer it later, such as pools whose
%% workers are all taken: who waits for them gets an answer when somebody else is done.
%%
%% A server that answers each message before it takes the next one has all those who wait for it in
%% its mailbox, but one. So it answers later if two more wait for it than messages do, or if one
%% waits for it and the server itself waits for a message. Who has waited all the time of a look has
%% used no reductions meanwhile.
%%
%% It calls other processes' process_info/2, so it is to be run in a process of its own.
-module(kprof_waits).

-export([waits/1, waits_calls/1, waits_server/1]).
-export_type([found/0, server/0]).

-import(kprof_ask, [is_idle/1]).
-import(kprof_injected, [process_began/2]).

-define(PROCESSES_MAX, 200).    % asked: 1 ms of a scheduler
-define(SERVERS_MAX, 8).        % looked at: those that most wait for
-define(ANSWERS_COST, 2).       % reductions that answering our questions takes
%% Who waits in these monitors the server, and waits for that.
-define(CALLS, [gen, 'Elixir.DBConnection.Holder', 'Elixir.NimblePool']).
-define(PLUMBING,
        [gen, gen_server, gen_statem, gen_event, proc_lib, 'Elixir.GenServer', 'Elixir.Agent']).

%% [] where it has no registered name, or what it began with is not known, or it has ended.
-type server() :: {Registered :: atom() | [], Began :: mfa() | []}.
%% Asks: the function in which most of them wait; []: their stacks do not show it.
-type found() :: {server(), Waiting :: pos_integer(), Asks :: mfa() | []}.

%% Of the servers of this node for which some of these processes wait, those that answer later.
-spec waits([pid()]) -> [found()].
waits(Pids) ->
    {Answers, Asker0} =
        kprof_ask:take([{P, P} || P <- lists:sublist(Pids, ?PROCESSES_MAX)], kprof_ask:start()),
    Waits = [W || {P, _, _, waiting, _, [{M, _, _, _} | _]} <- Answers, waits_calls(M),
             W <- waits_of(P)],
    ByServer = maps:to_list(maps:groups_from_list(fun hd/1, Waits)),
    Most = lists:reverse(lists:sort([{length(Of), Server, Of} || {Server, Of} <- ByServer])),
    {Found, Asker} = lists:mapfoldl(fun waits_look/2, Asker0, lists:sublist(Most, ?SERVERS_MAX)),
    kprof_ask:stop(Asker),
    lists:append(Found).

%% Does a process in a function of this module wait for the answer of a server?
-spec waits_calls(module()) -> boolean().
waits_calls(M) -> lists:member(M, ?CALLS).

%% Asks for both at once, since the process may go on between two questions. A process that monitors
%% several others may wait for any of them, so it counts for none.
waits_of(P) ->
    case process_info(P, [monitors, reductions, current_stacktrace]) of
        [{_, [{process, Of}]}, {_, Reductions}, {_, [{M, _, _, _} | _] = Stack}] ->
            Server = case Of of
                         {Name, Node} when Node =:= node() -> whereis(Name);
                         _ -> Of
                     end,
            [[Server, P, Reductions, waits_in(Stack)]
             || waits_calls(M), is_pid(Server), node(Server) =:= node()];
        _ -> []
    end.

%% The innermost function that is not there for every call of a server.
waits_in([{M, F, A, _} | More]) when is_integer(A) ->
    case lists:member(M, ?PLUMBING)
        orelse (M =:= 'Elixir.DBConnection.Holder' andalso not erlang:function_exported(M, F, A)) of
        true -> waits_in(More);
        false -> {M, F, A}
    end;
waits_in(_) -> [].

waits_look({_, Server, Of}, Asker0) ->
    {Answers, Asker} = kprof_ask:take([{Server, Server}], Asker0),
    {case Answers of
         [{_, _, _, Status, _, [_ | _] = Frames}] ->
             Queued = case process_info(Server, message_queue_len) of
                          {_, N} -> N;
                          undefined -> infinity
                      end,
             IsIdle = Status =:= waiting andalso is_idle(Frames) andalso Queued =:= 0,
             Asks = [In || [_, P, Before, In] <- Of, {_, Now} <- [process_info(P, reductions)],
                     Now - Before =< ?ANSWERS_COST],
             {_, Most} = lists:max([{0, []} | [{length([A || A <- Asks, A =:= In]), In}
                                               || In <- lists:usort(Asks)]]),
             [{waits_server(Server), length(Asks), Most}
              || is_integer(Queued), length(Asks) - Queued > 1 orelse (IsIdle andalso Asks =/= [])];
         _ -> []
     end, Asker}.

-spec waits_server(pid()) -> server().
waits_server(P) ->
    case process_info(P, [registered_name, initial_call]) of
        undefined -> {[], []};
        [{_, Name}, {_, {proc_lib, init_p, _} = Initial}] -> {Name, process_began(P, Initial)};
        [{_, Name}, {_, Initial}] -> {Name, Initial}
    end.
