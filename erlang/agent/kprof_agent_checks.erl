%% kprof_agent_checks - before anything is armed: is there such a function, how
%% often is it called, is it a server's loop, who else traces here.
-module(kprof_agent_checks).

-export([load/3, loaded/3, load_end/1, check/2, rates/4, rated/3, rates_end/1]).

-include("kprof_agent.hrl").

-define(PROBE_MS, 200).         % how long a call rate is measured
-define(INSIDE_MS, 4000).       % how long all are asked where they are, twice
-define(LOAD_MS, 8000).         % how long modules have to be loaded
-define(NEAR_MODULES, 20000).   % module names sent for "did you mean"
-define(STACK_SHOWN, 8).        % frames that the VM shows, if not told other
-define(BROUGHT, 20).           % modules that are named

%% Another process waits for the code server: a module may be far away, and its
%% on_load function may never end, while events are coming. What is not there in
%% time is not there; when it is at last, that is seen. What was loaded for this
%% stays when we go, and what its on_load function did: so it is told of.
-spec load([module()], reference(), #s{}) -> #s{}.
load(Mods, Ref, S0) ->
    S = load_end(S0),
    Agent = self(),
    Absent = absent(Mods),
    Loader = spawn(fun() ->
                           kprof_injected:process_label(kprof_agent, loader),
                           Tried = [{M, code:ensure_loaded(M)} || M <- Mods],
                           Agent ! {loaded, Ref, maps:from_list(Tried)}
                   end),
    erlang:send_after(?LOAD_MS, Agent, {loaded, Ref, #{}}),
    S#s{loading = {Ref, Mods, Loader, Absent}}.

-spec loaded(reference(), #{module() => term()}, #s{}) -> #s{}.
loaded(Ref, Tried, #s{loading = {Ref, Mods, _, Absent}} = S0) ->
    S = tell_brought(Absent -- absent(Absent), load_end(S0)),
    Answer = [check(M, Why)
              || M <- Mods, {_, Why} <- [maps:get(M, Tried, {error, timeout})]],
    %% What is armed is watched till another plan is: a look follows that.
    kprof_agent_server:reply(Ref, Answer, if S#s.plan =:= [] -> kprof_agent_code:named(Mods, S); true -> S end);
loaded(_, _, S) ->
    S.

-spec load_end(#s{}) -> #s{}.
load_end(#s{loading = undefined} = S) ->
    S;
load_end(#s{loading = {_, _, Loader, _}} = S) ->
    exit(Loader, kill),
    S#s{loading = undefined}.

absent(Mods) ->
    [M || M <- Mods, not erlang:module_loaded(M)].

tell_brought([], S) ->
    S;
tell_brought(Mods, S) ->
    kprof_agent_events:notice({kprof_notice, brought, lists:sublist(Mods, ?BROUGHT), length(Mods)}, S).

%% Loads nothing: what the target's operator has deleted stays deleted. Asks the
%% VM only: the code server may be busy.
check(Mod, Why) ->
    try
        {Mod, ok, erlang:get_module_info(Mod, exports),
         [F || {Name, _} = F <- erlang:get_module_info(Mod, functions),
               not lists:prefix("-", atom_to_list(Name))],
         behaviours(erlang:get_module_info(Mod, attributes))}
    catch
        error:badarg ->
            {Mod, error, Why, lists:sublist(erlang:loaded(), ?NEAR_MODULES)}
    end.

behaviours(Attributes) ->
    lists:append([Names || {Key, Names} <- Attributes,
                           Key =:= behaviour orelse Key =:= behavior]).

%% Calls a second, from call_count over a short time; -1: somebody else
%% counts that function, and is left alone. What is armed is counted
%% anyway. A loop has processes that are in it, and in nothing above it, at the
%% beginning and at the end: another process looks for them, since events may
%% be coming meanwhile.
-spec rates([mfa()], MaybeLoops :: [mfa()], reference(), #s{}) -> #s{}.
rates(MFAs, MaybeLoops, Ref, S0) ->
    #s{session = Session} = S = rates_end(S0),
    Ours = kprof_agent_arming:entries(S#s.plan) ++ maps:keys(S#s.tiers),
    Mine = [MFA || MFA <- MFAs, kprof_agent_patterns:counter(Session, MFA) =:= false],
    S1 = S#s{rating = {Ref, MFAs, Mine, 0, []}},
    kprof_agent_sentry:own([], S1),
    [kprof_agent_patterns:count(Session, MFA, true) || MFA <- Mine],
    Before = [{MFA, kprof_agent_patterns:counter(Session, MFA)}
              || MFA <- MFAs,
                 lists:member(MFA, Mine) orelse lists:member(MFA, Ours)],
    Agent = self(),
    Looker = spawn(fun() -> Agent ! {rated, Ref, loops(MaybeLoops)} end),
    S1#s{rating = {Ref, MFAs, Mine, kprof_injected:now_ns(), Before}, looker = Looker}.

loops([]) ->
    receive after ?PROBE_MS -> [] end;
loops(MaybeLoops) ->
    Inside = inside(all, fun(_, F) -> lists:member(F, MaybeLoops) end),
    receive after ?PROBE_MS -> ok end,
    Before = maps:from_list(Inside),
    lists:usort([F || {_, F} <- inside(maps:keys(Before), fun(P, F) -> maps:get(P, Before) =:= F end)]).

%% Of those that answer in time; one that is in native code all the while is in no
%% loop that we could see.
inside(Which, Is) ->
    Walk = kprof_flagger:walk_start(fun(P) ->
                                            F = outermost(P),
                                            case Is(P, F) of
                                                true -> {found, {P, F}};
                                                false -> skip
                                            end
                                    end, ask, Which),
    Found = case kprof_flagger:walk_await(Walk, ?INSIDE_MS) of
                {walked, _, _, Some} -> Some;
                timeout -> []
            end,
    kprof_flagger:walk_stop(Walk),
    Found.

-spec rated(reference(), term(), #s{}) -> #s{}.
rated(Ref, Loops, #s{rating = {Ref, MFAs, _, T0, Before}} = S) ->
    Ns = max(1, kprof_injected:now_ns() - T0),
    Rates = [{MFA, rate(MFA, Before, Ns, S), lists:member(MFA, Loops)}
             || MFA <- MFAs],
    kprof_agent_server:reply(Ref, Rates, rates_end(S));
rated(_, _, S) ->
    S.

rate(MFA, Before, Ns, #s{session = Session}) ->
    case {lists:keyfind(MFA, 1, Before), kprof_agent_patterns:counter(Session, MFA)} of
        {{_, N0}, N} when is_integer(N0), is_integer(N), N >= N0 ->
            (N - N0) * 1000000000 div Ns;
        _ ->
            -1
    end.

%% What is armed by now stays counted.
-spec rates_end(#s{}) -> #s{}.
rates_end(#s{rating = undefined} = S) ->
    S;
rates_end(#s{rating = {_, _, Mine, _, _}, session = Session} = S) ->
    [kprof_agent_patterns:count(Session, MFA, false) || MFA <- (Mine -- kprof_agent_arming:entries(S#s.plan)) -- maps:keys(S#s.tiers)],
    exit(S#s.looker, kill),
    S1 = S#s{rating = undefined, looker = undefined},
    kprof_agent_sentry:own([], S1),
    S1.

%% The function that a process runs, as far as its stack is shown.
outermost(P) ->
    case process_info(P, current_stacktrace) of
        {_, Stack} when length(Stack) < ?STACK_SHOWN ->
            case lists:dropwhile(fun({M, _, _, _}) -> M =:= proc_lib end,
                                 lists:reverse(Stack)) of
                [{M, F, A, _} | _] -> {M, F, A};
                [] -> none
            end;
        _ ->
            none
    end.
