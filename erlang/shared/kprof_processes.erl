%% kprof_processes - which processes are to be profiled, by what the user names; and which of them
%% somebody else traces.
-module(kprof_processes).

-export([whose/2, chosen/3, foreign/2, traced_by_others/1, how_many/1]).

-import(kprof_flagger, [walk_found/1]).
-import(kprof_text, [fn_process/1, one_tracer/0, refuse/2]).

-define(SUPERVISOR_MS, 5000).   % a supervisor's answer

%% The processes that -processes names. With -apply the default is the process of that call.
-spec whose(binary(), kprof_call:call()) -> binary() | applied.
whose(<<>>, none) -> <<"all">>;
whose(<<>>, _) -> applied;
whose(Which, _) -> Which.

%% Returns all, existing, new or a list; refuses more than are allowed.
-spec chosen(binary() | applied, #{max_processes := pos_integer(), _ => _}, kprof_call:applied()) ->
          all | existing | new | [pid()].
chosen(applied, _, {Pid, _, _}) ->
    [Pid];
chosen(Which, #{max_processes := Max}, Applied) ->
    Chosen = selected(Which, Max, Applied),
    N = how_many(Chosen),
    N > Max andalso too_many("these are", [], N, Max),
    Chosen.

%% New ones come later.
-spec how_many(all | existing | new | [pid()]) -> non_neg_integer().
how_many(Chosen) when is_list(Chosen) -> length(Chosen);
how_many(new) -> 0;
how_many(_) -> erlang:system_info(process_count).

-spec too_many(string(), list(), pos_integer(), pos_integer()) -> no_return().
too_many(What, Args, N, Max) ->
    refuse(What ++ " ~b processes, more than ~b (choose with -processes, or see"
           " -max-processes)", Args ++ [N, Max]).

selected(<<"all">>, _, _) -> all;
selected(<<"existing">>, _, _) -> existing;
selected(<<"new">>, _, _) -> new;
selected(Names, Max, Applied) ->
    lists:usort(lists:append([case {N, Applied} of
                                  {"caller", {Pid, _, _}} -> [Pid];
                                  _ -> processes_of(N, Max)
                              end || N <- string:lexemes(unicode:characters_to_list(Names), ",")])).

%% Matches strings, since what OTP 25 compiles for a match of a binary does not load in 29.
processes_of("application:" ++ Name, _) ->
    Application = kprof_wanted:existing(unicode:characters_to_binary(Name)),
    case application_controller:get_master(Application) of
        undefined -> refuse("no application '~ts' is running", [Name]);
        Master -> [P || P <- processes(), process_info(P, group_leader) =:= {group_leader, Master}]
    end;
processes_of("supervisor:" ++ Name, Max) -> descendants([registered_as(Name)], #{}, Max);
processes_of("children:" ++ Name, Max) ->
    Parent = process_of(Name),
    case is_supervisor(Parent) of
        true -> [P || {P, _} <- children(Parent, 0, Max)];
        false -> maps:get(Parent, spawned_by(), [])
    end;
processes_of("descendants:" ++ Name, _) -> spawned_from([process_of(Name)], spawned_by());
processes_of(Name, _) -> [process_of(Name)].

process_of("<" ++ _ = Text) ->
    Pid = try list_to_pid(Text)
          catch error:badarg -> refuse("'~ts' is not a process (see -processes)", [Text])
          end,
    node(Pid) =:= node() andalso is_process_alive(Pid) orelse
        refuse("process ~ts does not exist", [Text]),
    Pid;
process_of(Name) -> registered_as(Name).

%% A module of Elixir has a prefix that users leave out, and that reports do not show.
registered_as(Name) ->
    case [Pid || Text <- [Name, "Elixir." ++ Name],
                 Atom <- [kprof_wanted:existing(unicode:characters_to_binary(Text))], is_atom(Atom),
                 Pid <- [whereis(Atom)], is_pid(Pid)] of
        [Pid | _] -> Pid;
        [] -> refuse("no process is registered as '~ts' (see -processes)", [Name])
    end.

%% A supervisor is not its own descendant. A child may be declared a supervisor and not be one of
%% OTP's, such as kernel's user_sup, a bridge: that cannot be asked for its children.
descendants([Sup | More], Found, Max) ->
    Children = children(Sup, map_size(Found), Max),
    Below = [P || {P, supervisor} <- Children, not is_map_key(P, Found), is_supervisor(P)],
    descendants(Below ++ More, maps:merge(Found, maps:from_list(Children)), Max);
descendants([], Found, _) -> maps:keys(Found).

%% Listing very many children takes the supervisor long, and takes memory on both sides, so they
%% are counted first. Those found Before are added, so that a whole tree has a limit.
children(Sup, Before, Max) ->
    is_supervisor(Sup) orelse
        refuse("~ts is not a supervisor", [name_text(Sup)]),
    #{supervisors := Supervisors, workers := Workers} = maps:from_list(ask(Sup, count_children)),
    case Supervisors + Workers of
        N when Before + N > Max ->
            too_many("with the ~b children of ~ts these are", [N, name_text(Sup)],
                     Before + N, Max);
        _ -> [{P, Type} || {_, P, Type, _} <- ask(Sup, which_children), is_pid(P)]
    end.

name_text(Process) ->
    fn_process(kprof_injected:name(Process)).

%% #{Process => living processes that it has spawned}.
spawned_by() ->
    maps:groups_from_list(fun({Parent, _}) -> Parent end, fun({_, P}) -> P end,
                          [{Parent, P} || P <- processes(),
                                          {parent, Parent} <- [process_info(P, parent)]]).

spawned_from([P | More], By) ->
    case maps:take(P, By) of
        {Own, Others} -> Own ++ spawned_from(Own ++ More, Others);
        error -> spawned_from(More, By)
    end;
spawned_from([], _) ->
    [].

%% Another kind of server might crash on a supervisor's messages.
is_supervisor(P) ->
    case proc_lib:translate_initial_call(P) of
        {supervisor, _, _} -> true;
        _ -> false
    end.

ask(Sup, What) ->
    try gen_server:call(Sup, What, ?SUPERVISOR_MS)
    catch
        exit:_ ->
            refuse("the supervisor ~ts does not answer", [name_text(Sup)])
    end.

%% On OTP 25 and 26 a process has one tracer, and there is one setting for new processes. Refuses
%% if that is in the way, else returns the processes to leave out.
-spec foreign(kprof_flagger:session(), unflagged | all | existing | new | [pid()]) ->
          #{pid() => boolean()}.
foreign(legacy, Chosen) when Chosen =/= unflagged ->
    {tracer, New} = erlang:trace_info(new_processes, tracer),
    is_list(Chosen) orelse Chosen =:= existing orelse New =:= [] orelse
        refuse("new processes are traced by ~tw there (~ts; kprof count without"
               " -processes needs no processes)",
               [New, one_tracer()]),
    Traced = traced_by_others(none),
    Both = [P || is_list(Chosen), P <- Chosen, is_map_key(P, Traced)],
    Both =:= [] orelse
        refuse("another tool traces ~ts (~ts)", [name_text(hd(Both)), one_tracer()]),
    Traced;
foreign(_, _) ->
    #{}.

%% #{Process => does its tracer get calls?}, without the processes of one tracer.
-spec traced_by_others(kprof_flagger:tracer() | none) -> #{pid() => boolean()}.
traced_by_others(But) ->
    {N, Found} = walk_found(fun(P) ->
                                    case erlang:trace_info(P, tracer) of
                                        {tracer, T} when T =/= [], T =/= But ->
                                            {found, {P, traces_calls(P)}};
                                        _ -> skip
                                    end
                            end),
    N > length(Found) andalso
        refuse("another tool traces ~b processes (~ts)", [N, one_tracer()]),
    maps:from_list(Found).

traces_calls(P) ->
    case erlang:trace_info(P, flags) of
        {flags, Flags} -> lists:member(call, Flags);
        undefined -> false
    end.
