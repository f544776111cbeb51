%% kprof_agent_checks - checks before anything is armed: does a function exist, how often is it
%% called, and is it a server's loop.
-module(kprof_agent_checks).

-export([load/3, load_end/1, check/2, rates/5, rates_end/1, checks_handle/2]).

-import(kprof_agent_arming, [breathe/1, counter/2, entries/1, set_counter/3]).
-import(kprof_agent_events, [notice/2]).
-import(kprof_agent_intact, [use_modules/2]).
-import(kprof_agent_sentry, [tell_sentry/2]).
-import(kprof_agent_server, [reply/3]).
-import(kprof_flagger, [walk_await/2, walk_start/3, walk_stop/1]).
-import(kprof_injected, [now_ns/0, spawn_labelled/3]).

-include("kprof_agent.hrl").

-define(INSIDE_MS, 4000).       % time limit for asking all processes where they are; twice
-define(LOAD_MS, 8000).         % time limit for loading modules
-define(NEAR_MODULES, 20000).   % module names sent for "did you mean"
-define(STACK_SHOWN, 8).        % frames that the VM shows by default
-define(BROUGHT, 20).           % modules that a notice names

%% A message of a process that works on a command.
-spec checks_handle(tuple(), #state{}) -> #state{}.
checks_handle({loaded, Ref, Tried}, S) -> loaded(Ref, Tried, S);
checks_handle({rated, Ref, Loops}, S) -> rated(Ref, Loops, S);
checks_handle(_, S) -> S.

%% Another process waits for the code server: a module may be far away, and its on_load
%% function may never end, while events are coming. A module that is not loaded in time counts
%% as missing; that it is loaded later is noticed. Modules that are loaded for this stay when
%% we go, and so does what their on_load functions did: so they are reported.
-spec load([module()], reference(), #state{}) -> #state{}.
load(Mods, Ref, S0) ->
    #state{checks = Checks} = S = load_end(S0),
    Agent = self(),
    Absent = absent(Mods),
    Loader = spawn_labelled(
               kprof_agent, load,
               fun() ->
                       Tried = [{M, code:ensure_loaded(M)} || M <- Mods],
                       Agent ! {checks, {loaded, Ref, maps:from_list(Tried)}}
               end),
    erlang:send_after(?LOAD_MS, Agent, {checks, {loaded, Ref, #{}}}),
    S#state{checks = Checks#checks{loading = {Ref, Mods, Loader, Absent}}}.

loaded(Ref, Tried, #state{checks = #checks{loading = {Ref, Mods, _, Absent}}} = S0) ->
    S = report_brought(Absent -- absent(Absent), load_end(S0)),
    Answer = [check(M, Why)
              || M <- Mods, {_, Why} <- [maps:get(M, Tried, {error, timeout})]],
    %% With a plan, its modules are watched until there is another one, which a 'look' precedes.
    reply(Ref, Answer,
          if S#state.plan =:= [] -> use_modules(Mods, S);
             true -> S
          end);
loaded(_, _, S) -> S.

load_end(#state{checks = #checks{loading = undefined}} = S) -> S;
load_end(#state{checks = #checks{loading = {_, _, Loader, _}} = Checks} = S) ->
    exit(Loader, kill),
    S#state{checks = Checks#checks{loading = undefined}}.

absent(Mods) ->
    [M || M <- Mods, not erlang:module_loaded(M)].

report_brought([], S) -> S;
report_brought(Mods, S) ->
    Notice = {kprof_notice, brought, lists:sublist(Mods, ?BROUGHT), length(Mods)},
    notice(Notice, S).

%% Loads nothing: what the target's operator has deleted stays deleted. Asks only the VM: the
%% code server may be busy.
-spec check(module(), Why :: term()) -> tuple().
check(Mod, Why) ->
    try
        {Mod, ok, erlang:get_module_info(Mod, exports),
         [F || {Name, _} = F <- erlang:get_module_info(Mod, functions),
               not lists:prefix("-inlined-", atom_to_list(Name))],
         behaviours(erlang:get_module_info(Mod, attributes))}
    catch
        error:badarg ->
            {Mod, error, Why, lists:sublist(erlang:loaded(), ?NEAR_MODULES)}
    end.

behaviours(Attributes) ->
    lists:append([Names || {Key, Names} <- Attributes,
                           Key =:= behaviour orelse Key =:= behavior]).

%% Counts calls for this time, with call_count; -1: somebody else counts that function, and is
%% left alone. What is armed is counted anyway. A function is a loop if it was the outermost
%% function of some process at the beginning and at the end, and requests that take long do not
%% explain that: there were no calls, or more than processes in it at the end. A function calls
%% itself if it is on a stack more than once. Another process looks at stacks, since events may
%% be coming.
-spec rates([mfa()], MaybeLoops :: [mfa()], pos_integer(), reference(), #state{}) -> #state{}.
rates(MFAs, MaybeLoops, Ms, Ref, S0) ->
    #state{session = Session, checks = Checks} = S1 = rates_end(S0),
    Armed = armed_counters(S1),
    Mine = [MFA || MFA <- MFAs, counter(Session, MFA) =:= false],
    tell_sentry([], S1#state{checks = Checks#checks{rating = {Ref, MFAs, Mine, 0, []}}}),
    S = count_each(Mine, true, S1),
    Before = [{MFA, counter(Session, MFA)}
              || MFA <- MFAs, lists:member(MFA, Mine ++ Armed)],
    Agent = self(),
    Finder = spawn_labelled(
               kprof_agent, loops,
               fun() -> Agent ! {checks, {rated, Ref, loops(MaybeLoops, Ms)}} end),
    Rating = {Ref, MFAs, Mine, now_ns(), Before},
    S#state{checks = Checks#checks{rating = Rating, loop_finder = Finder}}.

%% Requests may be traced meanwhile.
count_each(MFAs, On, S) ->
    lists:foldl(fun(MFA, S1) ->
                        set_counter(S1#state.session, MFA, On),
                        breathe(S1)
                end, S, MFAs).

armed_counters(#state{plan = Plan, hot = #hot{counters = Tiers}}) ->
    entries(Plan) ++ maps:keys(Tiers).

%% {#{Function => how many processes it is the outermost one of at the end}, of those that some
%% process was in all the while; [Function that is on a stack more than once]}
loops([], Ms) ->
    receive after Ms -> {#{}, []} end;
loops(MaybeLoops, Ms) ->
    Asked = maps:from_list([{F, []} || F <- MaybeLoops]),
    Before = inside(all, Asked),
    receive after Ms -> ok end,
    After = case Before of
                [] -> [];
                _ -> inside(all, Asked)
            end,
    Still = [F || {_, F, outermost} = X <- Before, lists:member(X, After)],
    {maps:from_list([{F, length([P || {P, G, outermost} <- After, G =:= F])} || F <- Still]),
     [F || {_, F, repeated} <- Before ++ After]}.

%% [{Process, Function, How}] of processes that answer in time. One that runs native code all
%% the while is in no loop that we could see.
inside(Which, Asked) ->
    Visit = fun(P) ->
                    case on_stack(P, Asked) of
                        [] -> skip;
                        Found -> {found, [{P, F, How} || {F, How} <- Found]}
                    end
            end,
    Walk = walk_start(Visit, ask, Which),
    Found = case walk_await(Walk, ?INSIDE_MS) of
                {walked, _, _, Some} -> lists:append(Some);
                timeout -> []
            end,
    walk_stop(Walk),
    Found.

rated(Ref, {InIt, Repeated}, #state{checks = #checks{rating = {Ref, MFAs, _, T0, Before}}} = S) ->
    Ns = max(1, now_ns() - T0),
    Rates = [begin
                 Calls = calls(MFA, Before, S),
                 {MFA, rate(Calls, Ns), is_loop(Calls, maps:get(MFA, InIt, 0)),
                  lists:member(MFA, Repeated)}
             end || MFA <- MFAs],
    reply(Ref, Rates, rates_end(count_each(mine(S), false, S)));
rated(_, _, S) -> S.

%% -1: not known.
calls(MFA, Before, #state{session = Session}) ->
    case {lists:keyfind(MFA, 1, Before), counter(Session, MFA)} of
        {{_, N0}, N} when is_integer(N0), is_integer(N), N >= N0 -> N - N0;
        _ -> -1
    end.

%% Calls a second, rounded up: a function that was called has not 0.
rate(-1, _) -> -1;
rate(Calls, Ns) -> (Calls * 1000000000 + Ns - 1) div Ns.

is_loop(Calls, InIt) ->
    InIt > 0 andalso (Calls =< 0 orelse Calls > InIt).

%% Takes the counters away, except those of functions that have been armed meanwhile.
rates_end(#state{checks = #checks{rating = undefined}} = S) -> S;
rates_end(#state{session = Session, checks = #checks{loop_finder = Finder} = Checks} = S0) ->
    [set_counter(Session, MFA, false) || MFA <- mine(S0)],
    exit(Finder, kill),
    S = S0#state{checks = Checks#checks{rating = undefined, loop_finder = undefined}},
    tell_sentry([], S),
    S.

mine(#state{checks = #checks{rating = {_, _, Mine, _, _}}} = S) ->
    Mine -- armed_counters(S).

%% Which of these functions a process is in: the one that it runs, as far as its stack is shown,
%% and those that are there more than once.
on_stack(P, Asked) ->
    case process_info(P, current_stacktrace) of
        {_, Stack} ->
            Functions = [{M, F, A} || {M, F, A, _} <- Stack, is_map_key({M, F, A}, Asked)],
            [{F, outermost} || F <- outermost(Stack), is_map_key(F, Asked)] ++
                [{F, repeated} || F <- lists:usort(Functions -- lists:usort(Functions))];
        undefined -> []
    end.

outermost(Stack) when length(Stack) < ?STACK_SHOWN ->
    IsStart = fun({M, _, _, _}) -> M =:= proc_lib end,
    Below = lists:dropwhile(IsStart, lists:reverse(Stack)),
    [{M, F, A} || {M, F, A, _} <- lists:sublist(Below, 1)];
outermost(_) -> [].
