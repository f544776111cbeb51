%% kprof_agent_traced - what tracing adds to a traced call: measured where it is paid.
%%
%% Once a minute a process of ours calls two functions of ours that do nothing, one
%% inside the other. They are armed as the functions of tiers are, by a match spec
%% that the daemon made for them, and their events go the way of all events; it
%% knows them by their label, and takes the differences of their times
%% (src/guard/tracing_cost.c). They are ?TRACED_CALLS calls: some 100 us of one scheduler.
%%
%% Nobody else calls these functions, so between two measurements they cost nothing.
-module(kprof_agent_traced).

-export([traced_look/1, traced_clear/1]).

-include("kprof_agent.hrl").

-define(TRACED_MS, 60000).
-define(TRACED_CALLS, 32).      % pairs; the daemon takes the median of so many
-define(LABEL_MEASURES(Word), ((?LABEL_KPROFD bsl ?KIND_BITS) bor (?MEASURING bsl ?CONST_BITS) bor (Word))).

%% With each tick. Where somebody else traces new processes in our place, ours
%% would be his.
-spec traced_look(#s{}) -> #s{}.
traced_look(#s{state = armed, traced = Spec, lent = none, traced_at = At} = S) when Spec =/= none ->
    Now = kprof_injected:now_ms(),
    case At =:= never orelse Now - At >= ?TRACED_MS of
        true ->
            Put = [kprof_agent_patterns:pattern(S#s.session, MFA, Spec) || MFA <- ?TRACED],
            _ = Put =:= [1, 1] andalso traced_start(),
            S#s{traced_at = Now};
        false -> S
    end;
traced_look(S) ->
    S.

%% It has the flags of all new processes. seq_trace/2 as a BIF: the module may not
%% be loaded.
traced_start() ->
    Label = ?LABEL_MEASURES(erlang:system_info(trace_control_word)),
    spawn(fun() ->
                  erlang:seq_trace(label, Label),
                  traced_pairs(?TRACED_CALLS),
                  erlang:seq_trace(sequential_trace_token, [])
          end).

traced_pairs(0) -> ok;
traced_pairs(N) -> traced_around(N), traced_pairs(N - 1).

%% Neither is a tail call: each comes back to where it was called.
traced_around(N) -> _ = traced_inside(), N.

traced_inside() -> ok.

%% Before OTP 27; a session's patterns go all together.
-spec traced_clear(#s{}) -> #s{}.
traced_clear(#s{traced_at = never} = S) ->
    S;
traced_clear(#s{session = Session} = S) ->
    [kprof_agent_patterns:pattern(Session, MFA, false) || MFA <- ?TRACED],
    S#s{traced_at = never}.
