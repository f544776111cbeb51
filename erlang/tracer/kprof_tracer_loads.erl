%% kprof_tracer_loads - code that is loaded while it is traced: armed again, and where all modules
%% were asked for, new modules too. For kprof_tracer.
%%
%% Where all modules were asked for, the VM arms new ones itself, before their first call (on_load).
%% On OTP 25 and 26 it has one such setting for everybody, so somebody else's is left alone. It
%% knows no limit and no exclusion: past -max-functions it is taken back, and beside -exclude, and
%% -args, whose match specs depend on arities, it is not used. New modules are armed a moment after
%% their load then, and the client is told that calls are missing, and why.
%%
%% A load takes a module's patterns away. A meta pattern on a function of the VM reports the end
%% of each load. With the native probe it needs a session of its own, because the pattern
%% would report to the probe. All the same the modules are checked once a second: somebody
%% else may have that pattern (OTP 25 and 26), and an on_load function may run after it.
%%
%% The report does not name the module, so all are checked, but for no more than a part of the
%% time where many are loaded one after the other. Patterns take long on a busy node: they are
%% set in steps, between which the server does the rest of its work. By request nothing is
%% armed again, only reported: entries and marks have match specs of their own.
-module(kprof_tracer_loads).

-export([loads_new/2, loads_ahead/1, ahead_clear/2, loads_last/1, loads_watched/1, loads_watch/1,
         loads_end/1, loads_tick/1, loads_loaded/1, loads_arm/1, loads_send/1]).

-import(kprof_injected, [functions/1, now_ms/0]).
-import(kprof_oneshot, [tell_sentry/1]).
-import(kprof_tracer_end, [in_session/3]).
-import(kprof_tracer_patterns, [pattern/3, pattern_meta/3, spec_bytes/2]).
-import(kprof_tracing, [on_load_free/1, on_load_unset/3, session_create/2, trace_read/3,
         trace_set/4]).
-import(kprof_wanted, [by_module/1, is_covered/2, whole_modules/1]).

-include("kprof_tracer.hrl").

-define(LOADS_MS, 1000).
-define(LOADS_PART, 4).         % pause between two checks, as a multiple of the last one
-define(STEP_MS, 50).           % time that one step of arming may take

loads_new(Functions, #{patterns := Patterns, max_functions := Max} = Opts) ->
    Any = lists:any(fun({M, _, _}) -> M =:= <<"_">> end, Patterns),
    #loads{asked = maps:with([patterns, exclude], Opts), room = Max - length(Functions),
           looked = now_ms(),
           mods = maps:from_list([{M, {hd(Of), length(Of)}}
                                  || {M, Of} <- by_module(Functions)]),
           seen = case Any of true -> loads_current(); false -> all end}.

%% Called when the guards of match specs are known. The sentry is told first.
loads_ahead(#state{loads = #loads{seen = all}} = S) -> S;
loads_ahead(#state{requests = R} = S) when R =/= undefined -> use_ahead(requests, S);
loads_ahead(#state{args_max = Args} = S) when Args > 0 -> use_ahead(args, S);
loads_ahead(#state{loads = #loads{asked = #{exclude := [_ | _]}}} = S) ->
    use_ahead(exclude, S);
loads_ahead(#state{profile = #profile{session = Session, armed = Armed} = P, loads = L} = S0) ->
    case on_load_free(Session) of
        true ->
            Spec = ahead_spec(S0),
            Item = [{on_load, {Spec, maps:keys(L#loads.seen)}} || Session =:= legacy],
            {Patterns, S1} = loads_meanwhile(S0),
            S = S1#state{profile = P#profile{armed = Item ++ Patterns ++ Armed}, ours = all},
            tell_sentry(S#state.profile),
            trace_set(Session, on_load, Spec, [local]),
            use_ahead(true, S);
        false -> use_ahead(others, S0)
    end.

%% Those that were loaded while the trace began, to be armed with the others.
loads_meanwhile(S0) ->
    {New, #state{loads = L} = S} = loads_new_ones(S0),
    Of = [{M, Fns} || M <- New, [_ | _] = Fns <- [wanted_of(M, L#loads.asked)]],
    Mods = maps:from_list([{M, {hd(Fns), length(Fns)}} || {M, Fns} <- Of]),
    {[{M, '_', '_'} || {M, _} <- Of],
     S#state{loads = L#loads{mods = maps:merge(L#loads.mods, Mods),
                             room = L#loads.room - lists:sum([length(Fns) || {_, Fns} <- Of])}}}.

use_ahead(Ahead, #state{loads = L} = S) -> S#state{loads = L#loads{ahead = Ahead}}.

ahead_spec(S) -> kprof_tracer_patterns:spec({'_', '_', '_'}, S).

%% Past a limit. Other modules are armed one by one, as far as there is room.
ahead_end(#state{profile = #profile{session = Session}, loads = #loads{ahead = true}} = S) ->
    on_load_unset(Session, ahead_spec(S), local),
    use_ahead(limit, S);
ahead_end(S) -> S.

%% In a VM without sessions. Modules that were looked at are among the patterns; Known were there
%% before.
-spec ahead_clear(list(), [module()]) -> ok.
ahead_clear(Spec, Known) ->
    on_load_unset(legacy, Spec, local),
    [erlang:trace_pattern(MFA, false, [local])
     || M <- erlang:loaded() -- Known, {F, A} <- functions(M), MFA <- [{M, F, A}],
        erlang:trace_info(MFA, match_spec) =:= {match_spec, Spec}],
    ok.

%% Before the patterns go: modules that came since the last look.
loads_last(#state{loads = #loads{ahead = true}} = S0) ->
    {New, #state{loads = L} = S} = loads_new_ones(S0),
    S#state{loads = L#loads{whole = [M || M <- New, is_ahead(M, S)] ++ L#loads.whole}};
loads_last(S) -> S.

%% Did the VM arm it?
is_ahead(M, #state{profile = #profile{session = Session}, loads = #loads{ahead = true}}) ->
    case functions(M) of
        [{F, A} | _] -> loads_traced(Session, {M, F, A}) =:= local;
        [] -> false
    end;
is_ahead(_, _) -> false.

%% Modules that are being purged, or whose on_load has not run, have no functions.
loads_current() ->
    maps:from_list([{M, []} || M <- erlang:loaded(), erlang:module_loaded(M)]).

%% The pattern for loads, where it has to be taken back by itself.
loads_watched(legacy) ->
    case erlang:trace_info(?LOADED, meta) of
        {meta, No} when No =:= false; No =:= []; No =:= undefined -> [{meta, ?LOADED}];
        _ -> []
    end;
loads_watched(_) -> [].

loads_watch(#state{profile = #profile{session = legacy, armed = Armed} = P} = S) ->
    Watched = [W || W <- loads_watched(legacy), lists:member(W, Armed)],
    [pattern_meta(legacy, ?LOADED, loads_spec()) || Watched =/= []],
    %% Somebody may watch for it since it was looked at.
    S#state{profile = P#profile{armed = Watched ++ lists:delete({meta, ?LOADED}, Armed)}};
loads_watch(#state{loads = L} = S) ->
    Watcher = session_create(kprof_tracer, self()),
    pattern_meta(Watcher, ?LOADED, loads_spec()),
    S#state{loads = L#loads{watcher = Watcher}}.

loads_spec() ->
    [{'_', [], [{message, false}, {return_trace}]}].

loads_end(#state{profile = #profile{session = Session}, loads = #loads{watcher = Watcher}})
  when Session =/= legacy, Watcher =/= undefined ->
    trace:session_destroy(Watcher);
loads_end(_) -> ok.

loads_tick(#state{loads = #loads{looked = At, due = Due}} = S) ->
    case Due orelse now_ms() - At > ?LOADS_MS of
        true -> loads_look(S);
        false -> S
    end.

loads_loaded(#state{loads = #loads{looked = At, took = Took} = L} = S) ->
    case now_ms() - At >= ?LOADS_PART * Took of
        true -> loads_look(S);
        false -> S#state{loads = L#loads{due = true}}
    end.

loads_look(#state{stage = tracing, loads = #loads{mods = Mods, todo = []}} = S0) ->
    Began = now_ms(),
    Bare = [M || {M, {MFA, _}} <- maps:to_list(Mods),
                 loads_traced(S0#state.profile#profile.session, MFA) =/= local],
    {New, S1} = loads_new_ones(S0),
    S2 = lists:foldl(fun({Why, M}, S) -> loads_want(Why, M, S) end, S1,
                     [{again, M} || M <- Bare] ++
                         [{case is_ahead(M, S1) of true -> whole; false -> came end, M}
                          || M <- New]),
    Now = now_ms(),
    loads_put(S2#state{loads =
                           S2#state.loads#loads{looked = Now, took = Now - Began, due = false}});
loads_look(#state{loads = L} = S) -> S#state{loads = L#loads{due = true}}.

loads_traced(Session, MFA) ->
    Look = fun() -> trace_read(Session, MFA, traced) end,
    element(2, in_session(Session, Look, {traced, local})).

loads_new_ones(#state{loads = #loads{seen = all}} = S) -> {[], S};
loads_new_ones(#state{loads = #loads{seen = Seen, mods = Mods} = L} = S) ->
    Current = loads_current(),
    New = [M || M <- maps:keys(Current), not is_map_key(M, Seen), not is_map_key(M, Mods)],
    {Kprofs, Others} = lists:partition(fun(M) -> lists:member(M, kprof_injected:kprofs()) end, New),
    [loads_bare(M, S) || M <- Kprofs, is_ahead(M, S)],
    {Others, S#state{loads = L#loads{seen = Current}}}.

%% Takes back what the VM armed.
loads_bare(M, #state{profile = #profile{session = Session}}) ->
    pattern(Session, {M, '_', '_'}, false).

%% A module that was deleted is remembered: it may be loaded again.
loads_want(Why, M, #state{requests = R, loads = L0, ours = Ours} = S) ->
    Most = S#state.profile#profile.memory_max,
    #loads{room = Room, mods = Mods, bytes = Sum, each = Of} = L = loads_give(M, L0),
    Functions = wanted_of(M, L#loads.asked),
    N = length(Functions),
    Patterns = whole_modules(Functions),
    Bytes = if R =:= undefined, N =< Room -> loads_bytes(Patterns, S); true -> 0 end,
    if
        N =:= 0 -> S#state{loads = L};
        R =/= undefined; N > Room; Sum + Bytes > Most ->
            Why =:= whole andalso loads_bare(M, S),
            ahead_end(S#state{loads = L#loads{mods = maps:remove(M, Mods),
                                              missed = lists:usort([M | L#loads.missed])}});
        true ->
            S#state{ours = loads_ours(Ours, Functions),
                    loads = L#loads{mods = Mods#{M => {hd(Functions), N}}, room = Room - N,
                                    bytes = Sum + Bytes,
                                    each = Of#{M => Bytes},
                                    todo = [{Why, M, Patterns} | L#loads.todo]}}
    end.

%% Returns what the module used of the limits.
loads_give(M, #loads{mods = Mods, room = Room, bytes = Sum, each = Of} = L)
  when is_map_key(M, Mods) ->
    {MFA, N} = map_get(M, Mods),
    L#loads{mods = Mods#{M := {MFA, 0}}, room = Room + N, bytes = Sum - maps:get(M, Of, 0),
            each = maps:remove(M, Of)};
loads_give(_, L) -> L.

%% Match specs of one arity are of one size.
loads_bytes(_, #state{args_max = 0}) -> 0;
loads_bytes(Patterns, S) ->
    Arities = [A || P <- Patterns, A <- kprof_tracer_patterns:arities(P)],
    Of = fun(A) ->
                 spec_bytes(kprof_tracer_patterns:spec({'_', '_', A}, S), S)
         end,
    Bytes = maps:from_list([{A, Of(A)} || A <- lists:usort(Arities)]),
    lists:sum([map_get(A, Bytes) || A <- Arities]).

%% The sentry is told of all of them first.
loads_put(#state{loads = #loads{todo = []}} = S) -> S;
loads_put(#state{profile = #profile{armed = Armed}, loads = #loads{todo = Todo}} = S) ->
    Anew = maps:from_list([{M, []} || {_, M, _} <- Todo]),
    Kept = [P || P <- Armed, tuple_size(P) =/= 3 orelse not is_map_key(element(1, P), Anew)],
    New = lists:append([Patterns || {_, _, Patterns} <- Todo]),
    S1 = S#state{profile = S#state.profile#profile{armed = New ++ Kept}},
    tell_sentry(S1#state.profile),
    loads_arm(S1).

%% Takes a step of the arming.
loads_arm(S) ->
    loads_arm(now_ms() + ?STEP_MS, S).

loads_arm(Until,
          #state{stage = tracing, loads = #loads{todo = [{Why, M, Patterns} | Todo]} = L} = S) ->
    Now = now_ms(),
    case {Patterns, Why} of
        {[], again} ->
            loads_arm(Until, S#state{loads = L#loads{todo = Todo, again = [M | L#loads.again]}});
        {[], came} ->
            loads_arm(Until, S#state{loads = L#loads{todo = Todo, came = [M | L#loads.came]}});
        {_, whole} ->
            loads_arm(Until, S#state{loads = L#loads{todo = Todo, whole = [M | L#loads.whole]}});
        {[P | More], _} when Now < Until ->
            pattern(S#state.profile#profile.session, P, kprof_tracer_patterns:spec(P, S)),
            loads_arm(Until, S#state{loads = L#loads{todo = [{Why, M, More} | Todo]}});
        _ ->
            self() ! loads_arm,
            S
    end;
loads_arm(_, S) -> S.

%% The functions of a new module that were asked for.
wanted_of(M, #{patterns := Patterns, exclude := Exclude}) ->
    Wanted = [case P of
                  {<<"_">>, _, _} -> {'_', '_', -1};
                  {Mod, F, A} -> {kprof_wanted:existing(Mod), kprof_wanted:existing(F), A}
              end || P <- Patterns],
    IsWanted = fun(MFA) ->
                       lists:any(fun(W) -> is_covered(MFA, W) end, Wanted)
               end,
    All = [{M, F, A} || {F, A} <- functions(M)],
    kprof_wanted:without(Exclude, lists:filter(IsWanted, All)).

loads_ours(all, _) -> all;
loads_ours(Ours, Functions) -> maps:merge(Ours, maps:from_keys(Functions, [])).

%% Reports loads to the client before the end, and why new modules were not armed with their load.
%% Modules that were still to be armed count as missed.
loads_send(#state{loads = #loads{again = Again, came = Came, missed = Missed, todo = Todo,
                                 whole = Whole,
                                 ahead = Ahead}} = S) ->
    Late = [M || {Why, M, _} <- Todo, Why =/= whole],
    case [length(lists:usort(Ms)) || Ms <- [Again, Came, Missed ++ Late, Whole]] of
        [0, 0, 0, 0] -> S;
        Counts ->
            kprof_tracer_events:send(list_to_tuple([kprof_calls_loads | Counts] ++ [Ahead]), S)
    end.
