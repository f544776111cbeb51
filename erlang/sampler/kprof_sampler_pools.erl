%% kprof_sampler_pools - what processes are there for: the supervisors of applications, and pools,
%% which are children of one parent that began with the same function.
%%
%% No supervisor is asked to do anything, since one that starts a child answers nobody: the VM
%% knows the parent of a process. The first ?PROCESSES_MAX processes of a list are asked, the oldest
%% of most nodes, which are the trees of its applications; the rest is counted as not seen, and so
%% is what does not answer, or was not asked in time. Children are looked at again ?AGAIN_MS later:
%% those of a pool are still there, those that live for one request are not. Both times it is
%% looked for whose answers some of them wait (kprof_waits).
%%
%% It runs in a process of its own, which asks by another one (kprof_ask). It makes no atoms. Sent
%% are functions, registered names and the atoms of labels only.
-module(kprof_sampler_pools).

-export([census_start/2, census_size/1, census_stop/1, census_found/2]).
-export_type([census/0]).

-import(kprof_ask, [spread/2]).
-import(kprof_injected, [now_ms/0, process_label/2]).
-import(kprof_names, [application_of/1, atom_text/1, dictionary_of/1, function_text/1,
         outermost_function/2]).
-import(kprof_waits, [waits_calls/1]).

-define(PROCESSES_MAX, 10000).  % some 60 ms of a scheduler
-define(LIMIT_MS, 1000).        % for all of them
-define(AGAIN_MS, 300).
-define(POOLS_MAX, 60).         % a person reads fewer
-define(MEMBERS_MAX, 100).      % of a pool, that are named
-define(LINKS_OF, 10).          % members whose links are looked at
-define(CALLERS_OF, 2000).      % processes of which those that wait for an answer are looked for
-define(LOOKS, 10).             % at what they wait for, each time
-define(LOOK_MS, 5).            % between two
-define(APPS_MAX, 100).
-define(SUPERVISORS_MAX, 8).    % of an application, that are named
-define(WORDS_MAX, 8000000).    % of memory

-type row() :: {pid(), Parent :: pid() | undefined, Registered :: atom() | [], Leader :: pid(),
                Began :: mfa() | none}.
-type pool() :: {App :: atom(), Parent :: binary(), Owner :: module() | undefined,
                 Child :: binary(),
                 Parents :: pos_integer(), Count :: pos_integer(), Gone :: non_neg_integer(),
                 HasPorts :: boolean(), Members :: [pid()]}.
-type result() :: {{Seen :: non_neg_integer(), NotSeen :: non_neg_integer()},
                   [{App :: atom(), Processes :: pos_integer(), Supervisors :: non_neg_integer(),
                     Different :: [binary()]}], [pool()], [kprof_waits:found()]}.
-opaque census() :: {pid(), Processes :: non_neg_integer()}.

%% Asks processes of a list of the node's. The result is the reason with which the process ends that
%% is monitored. Depth: the frames that a node shows, at most.
-spec census_start(tuple(), pos_integer()) -> {reference(), census()}.
census_start(List, Depth) ->
    Asked = [element(I, List) || I <- lists:seq(1, census_size(List))],
    All = max(tuple_size(List), erlang:system_info(process_count)),
    Server = self(),
    {Pid, Ref} = spawn_opt(fun() ->
                                   process_label(kprof_sampler, census),
                                   exit({census, census(Server, Asked, All, Depth)})
                           end,
                           [monitor, {max_heap_size,
                                      #{size => ?WORDS_MAX, kill => true, error_logger => false}}]),
    {Ref, {Pid, All}}.

%% How many of a list are asked.
-spec census_size(tuple()) -> non_neg_integer().
census_size(List) -> min(?PROCESSES_MAX, tuple_size(List)).

-spec census_stop(none | census()) -> true.
census_stop(none) -> true;
census_stop({Pid, _}) -> exit(Pid, kill).

%% Of the reason with which the process ended, whatever that is.
-spec census_found(term(), census()) -> result().
census_found({census, Result}, _) -> Result;
census_found(_, {_, All}) -> {{0, All}, [], [], []}.

%% -------------------------------------------------------------- the census ----

-spec census(pid(), [pid()], non_neg_integer(), pos_integer()) -> result().
census(Server, Asked, All, Depth) ->
    Ours = erlang:monitor(process, Server),
    Rows = answers(Asked, fun(P) -> row(P, Depth) end, {Ours, now_ms() + ?LIMIT_MS}),
    Known = maps:from_list([{P, Row} || {P, _, _, _, _} = Row <- Rows]),
    Apps = maps:from_list([{L, application_of(L)}
                           || L <- lists:usort([L || {_, _, _, L, _} <- Rows])]),
    Some = spread(?CALLERS_OF, list_to_tuple(Asked)),
    Waits = waited_for(Some, Ours),
    receive {'DOWN', Ours, _, _, _} -> exit(shutdown) after ?AGAIN_MS -> ok end,
    Until = now_ms() + ?LIMIT_MS,
    Pools = [again(Pool, {Ours, Until}) || Pool <- pools(Rows, Known, Apps)],
    {{length(Rows), max(0, All - length(Rows))}, applications(Rows, Apps), Pools,
     lists:ukeysort(1, Waits ++ waited_for(Some, Ours))}.

%% Servers that answer later than they take messages, for which several of these processes wait: one
%% alone may have asked for what takes long. Who waits briefly may go on while it is looked at.
waited_for(Pids, Ours) ->
    looks(answers(Pids, fun caller/1, {Ours, now_ms() + ?LIMIT_MS}), ?LOOKS).

looks(Callers, N) ->
    case [Found || {_, Waiting, _} = Found <- kprof_waits:waits(Callers), Waiting > 1] of
        [] when N > 1, length(Callers) > 1 ->
            receive after ?LOOK_MS -> looks(Callers, N - 1) end;
        Found -> Found
    end.

caller(P) ->
    case process_info(P, current_function) of
        {_, {M, _, _}} -> case waits_calls(M) of true -> P; false -> gone end;
        _ -> gone
    end.

%% Those of processes that have not ended.
answers(Pids, Question, Limit) ->
    {Answers, _} = kprof_ask:ask_each(kprof_sampler, Pids, Question, Limit),
    [A || A <- Answers, A =/= gone].

%% The children of parents that have several of a kind. Parents of the same name have one pool.
pools(Rows, Known, Apps) ->
    ByParent = lists:foldl(fun add_child/2, #{}, Rows),
    ByName = maps:fold(fun({Parent, Began}, [_, _ | _] = Pids, Acc) ->
                               Key = key(Parent, Began, hd(Pids), Known, Apps),
                               {N, Of} = maps:get(Key, Acc, {0, []}),
                               Acc#{Key => {N + 1, Pids ++ Of}};
                          (_, _, Acc) -> Acc
                       end, #{}, ByParent),
    Largest = lists:sort([{-length(Pids), Key, Parents, Pids}
                          || {Key, {Parents, Pids}} <- maps:to_list(ByName)]),
    [{App, parent_text(Parent), Owner, function_text(Began), Parents, length(Pids), 0, false,
      spread(?MEMBERS_MAX, list_to_tuple(Pids))}
     || {_, {App, Parent, Owner, Began}, Parents, Pids} <- lists:sublist(Largest, ?POOLS_MAX)].

add_child({P, Parent, _, _, {_, _, _} = Began}, Acc) when is_pid(Parent) ->
    case supervises(Began) of
        true -> Acc;
        false -> maps:update_with({Parent, Began}, fun(Ps) -> [P | Ps] end, [P], Acc)
    end;
add_child(_, Acc) -> Acc.

%% Owner: the module of who started the supervisor, where that is a server: poolboy's own does.
key(Parent, Began, Child, Known, Apps) ->
    #{Child := {_, _, _, Leader, _}} = Known,
    App = maps:get(Leader, Apps, undefined),
    case Known of
        #{Parent := {_, Above, Registered, _, ParentBegan}} ->
            {App, {Registered, ParentBegan}, owner(ParentBegan, Above, Known), Began};
        #{} -> {App, {[], none}, undefined, Began}
    end.

owner(ParentBegan, Above, Known) ->
    case supervises(ParentBegan) andalso Known of
        #{Above := {_, _, _, _, {M, _, _} = Began}} ->
            case supervises(Began) of true -> undefined; false -> M end;
        _ -> undefined
    end.

%% Which of the members have ended, and do those that have not own ports?
again({App, Parent, Owner, Child, Parents, Count, _, _, Members}, Limit) ->
    Statuses = answers(Members, fun(P) -> {P, process_info(P, status)} end, Limit),
    Gone = [P || {P, undefined} <- Statuses],
    Links = answers(lists:sublist(Members -- Gone, ?LINKS_OF), fun has_ports/1, Limit),
    {App, Parent, Owner, Child, Parents, Count, length(Gone), lists:member(true, Links), Members}.

has_ports(P) ->
    case process_info(P, links) of
        {links, Links} -> lists:any(fun is_port/1, Links);
        undefined -> false
    end.

applications(Rows, Apps) ->
    Sums = lists:foldl(fun({_, _, Registered, Leader, Began}, Acc) ->
                               App = maps:get(Leader, Apps),
                               {N, Sups, Names} = maps:get(App, Acc, {0, 0, []}),
                               case supervises(Began) of
                                   true when length(Names) < ?SUPERVISORS_MAX ->
                                       Name = parent_text({Registered, Began}),
                                       Acc#{App => {N + 1, Sups + 1, [Name | Names -- [Name]]}};
                                   true -> Acc#{App => {N + 1, Sups + 1, Names}};
                                   false -> Acc#{App => {N + 1, Sups, Names}}
                               end
                       end, #{}, Rows),
    All = [{App, N, Sups, lists:reverse(Names)} || {App, {N, Sups, Names}} <- maps:to_list(Sums)],
    lists:sublist(lists:reverse(lists:keysort(2, All)), ?APPS_MAX).

%% OTP's, Elixir's, and those that others have written, by their names.
supervises({M, _, _}) ->
    Name = atom_to_list(M),
    lists:prefix("supervisor", Name) orelse lists:suffix("_sup", Name) orelse
        lists:suffix("Supervisor", Name);
supervises(none) -> false.

%% A registered name, or the function that it began with; the module of a supervisor.
parent_text({Registered, _}) when is_atom(Registered) -> atom_text(Registered);
parent_text({_, {supervisor, M, _}}) -> atom_text(M);
parent_text({_, {_, _, _} = Began}) -> function_text(Began);
parent_text({_, none}) -> <<>>.

%% ------------------------------------------------------------------- a row ----

%% gone: it has ended.
-spec row(pid(), pos_integer()) -> row() | gone.
row(P, Depth) ->
    case process_info(P, [parent, registered_name, group_leader, initial_call]) of
        undefined -> gone;
        [{_, Parent}, {_, Registered}, {_, Leader}, {_, Initial}] ->
            {P, Parent, Registered, Leader, began(P, Initial, Depth)}
    end.

began(P, {proc_lib, _, _}, Depth) ->
    case dictionary_of(P) of
        {_, {M, F, A} = Began} when is_atom(M), is_atom(F), is_integer(A) -> Began;
        _ -> began_by_stack(P, Depth)
    end;
began(P, {erlang, apply, _}, Depth) -> began_by_stack(P, Depth);
began(_, Initial, _) -> Initial.

began_by_stack(P, Depth) ->
    case process_info(P, current_stacktrace) of
        {_, Stack} -> outermost_function(Stack, Depth);
        undefined -> none
    end.
