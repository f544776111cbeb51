%% kprof_collected - who else traces garbage collection? For the agent and the tracer: from OTP 27
%% on two tracers that do, of one process, crash the VM, unless gc_shared() (kprof_vm_bugs).
-module(kprof_collected).

-export([collected_by_others/1]).

-import(kprof_flagger, [walk_found/1]).

%% OTP's types hide what a reference to a session is, and nothing else gives its name.
-dialyzer({nowarn_function, [collected_by_others/1, collects/2, has_gc/1]}).

%% How many {Process, Session} trace it, and some of them; without sessions of this name.
-spec collected_by_others(atom()) -> {non_neg_integer(), [{pid(), atom()}]}.
collected_by_others(Ours) ->
    case [Name || {Name, _} <- trace:session_info(all), Name =/= Ours] of
        [] -> {0, []};
        _ -> walk_found(fun(P) ->
                                case [Name || {Name, _} = Session <- sessions_of(P),
                                Name =/= Ours,
                                collects(Session, P)] of
                                    [Name | _] -> {found, {P, Name}};
                                    [] -> skip
                                end
                        end)
    end.

%% A session may be gone by now.
collects({legacy, _}, P) ->
    has_gc(erlang:trace_info(P, flags));
collects(Session, P) ->
    has_gc(try trace:info(Session, P, flags) catch error:_ -> gone end).

has_gc({flags, Flags}) when is_list(Flags) ->
    lists:member(garbage_collection, Flags);
has_gc(_) ->
    false.

sessions_of(P) ->
    case trace:session_info(P) of
        undefined -> [];
        Sessions -> Sessions
    end.
