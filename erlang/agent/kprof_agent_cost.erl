%% kprof_agent_cost - measures what tracing adds to a traced call, in the target itself.
%%
%% Once a minute a process of ours calls two functions of ours that do nothing, one inside the
%% other. They are armed like the functions of tiers, by a match spec that the daemon made for
%% them, and their events take the way of all events. The daemon recognises them by their
%% label, and takes the differences of their times (src/guard/cost.c). These are
%% ?PAIRS pairs of calls: some 100 us of one scheduler.
%%
%% Nobody else calls these functions, so between two measurements they cost nothing.
-module(kprof_agent_cost).

-export([cost_tick/1, cost_clear/1, count_switches/1]).

-import(kprof_agent_patterns, [pattern/3]).
-import(kprof_injected, [now_ms/0, spawn_labelled/3]).
-import(kprof_word, [word_number/0]).

-include("kprof_agent.hrl").

-define(MEASURE_MS, 60000).     % interval
-define(PAIRS, 32).             % the daemon takes their median
-define(MEASURING_LABEL(Word),
        ((?LABEL_KPROFD bsl ?KIND_BITS) bor (?MEASURING bsl ?CONST_BITS) bor (Word))).

%% Where somebody else traces new processes in our place, ours would be traced by them: then
%% nothing is measured.
-spec cost_tick(#state{}) -> #state{}.
cost_tick(#state{state = armed, cost = #cost{spec = Spec, measured_at = At} = Cost,
                 intact = #intact{new_tracer = none}} = S) when Spec =/= none ->
    Now = now_ms(),
    case At =:= never orelse Now - At >= ?MEASURE_MS of
        true ->
            Put = [pattern(S#state.session, MFA, Spec) || MFA <- ?MEASURED],
            _ = Put =:= [1, 1] andalso measure(),
            S#state{cost = Cost#cost{measured_at = Now}};
        false -> S
    end;
cost_tick(S) ->
    S.

%% The process has the flags of all new processes. It calls the BIF, because the module
%% seq_trace may not be loaded.
measure() ->
    Label = ?MEASURING_LABEL(word_number()),
    spawn_labelled(
      kprof_agent, traced_pairs,
      fun() ->
              erlang:seq_trace(label, Label),
              traced_pairs(?PAIRS),
              erlang:seq_trace(sequential_trace_token, [])
      end).

traced_pairs(0) -> ok;
traced_pairs(N) -> traced_around(N), traced_pairs(N - 1).

%% Neither is a tail call: each returns to its caller.
traced_around(N) -> _ = traced_inside(), N.

traced_inside() -> ok.

%% Before OTP 27; a session's patterns go all together.
-spec cost_clear(#state{}) -> #state{}.
cost_clear(#state{cost = #cost{measured_at = never}} = S) ->
    S;
cost_clear(#state{session = Session, cost = Cost} = S) ->
    [pattern(Session, MFA, false) || MFA <- ?MEASURED],
    S#state{cost = Cost#cost{measured_at = never}}.

%% Each time that a process with trace flags is scheduled, in or out, the VM looks at them: that
%% costs every process of the node something, whether its functions are traced or not, and the
%% more, the more processes a request has. With each lease, while processes have our flags.
-spec count_switches(#state{}) -> #state{}.
count_switches(#state{process_flags = #process_flags{set = Set}, cost = Cost} = S) ->
    #cost{switches = Sum, switches_read = Last} = Cost,
    {Now, _} = erlang:statistics(context_switches),
    More = if Set =:= []; Last =:= 0 -> 0; true -> max(0, Now - Last) end,
    S#state{cost = Cost#cost{switches = Sum + More, switches_read = Now}}.
