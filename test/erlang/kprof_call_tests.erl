-module(kprof_call_tests).

-include_lib("eunit/include/eunit.hrl").

none_test() ->
    ?assertEqual(none, kprof_call:call_of(<<>>)).

%% Its arguments are made before it is counted.
plain_test() ->
    ?assertMatch({lists, seq, [_, _]}, kprof_call:call_of(<<"lists:seq(1, 3)">>)),
    ?assertNot(kprof_call:is_evaluated(kprof_call:call_of(<<"lists:seq(1, 3).">>))).

others_are_evaluated_test() ->
    ?assert(kprof_call:is_evaluated(kprof_call:call_of(<<"X = 1, X + 1">>))).

no_expression_test_() ->
    [?_assertExit({error, _}, kprof_call:call_of(Text)) || Text <- [<<"lists:seq(">>, <<"a. b">>, <<"'">>, <<255>>]].

%% What becomes of a call: {what it does, what the client is told}.
outcome_test_() ->
    [?_assertEqual(Outcome, outcome(Text))
     || {Text, Outcome} <- [{<<"lists:seq(1, 3)">>, [{kprof_value, <<"[1,2,3]">>}, {kprof_ended, returned, 0}]},
                            {<<"X = 1, X + 1">>, [{kprof_value, <<"2">>}, {kprof_ended, returned, 0}]},
                            {<<"erlang:error(bad)">>, [{kprof_ended, raised, <<"error:bad">>}]},
                            {<<"erlang:exit(self(), kill)">>, [{kprof_ended, exited, <<"killed">>}]}]].

outcome(Text) ->
    {Pid, Ref, _} = Applied = kprof_call:prepare(kprof_call:call_of(Text), 5000),
    ok = kprof_call:await_prepared(Applied),
    Pid ! go,
    kprof_call:tell_value(Applied),
    receive {'DOWN', Ref, process, _, Reason} -> kprof_call:outcome(Reason, Applied) end.

arguments_that_fail_test() ->
    Applied = kprof_call:prepare(kprof_call:call_of(<<"lists:seq(1, hd([]))">>), 5000),
    ?assertExit({error, <<"the call's arguments: badarg">>}, kprof_call:await_prepared(Applied)).
