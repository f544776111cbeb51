-module(kprof_tracer_args_tests).

-include_lib("eunit/include/eunit.hrl").

-define(BYTES, 16).

%% What the VM makes of these arguments, in the place of the call's message.
described(Args) ->
    Specs = kprof_tracer_patterns:calls({m, f, length(Args)}, [], fun(What) -> [{message, What}] end, ?BYTES),
    {ok, {_Caller, Described}, _, _} = erlang:match_spec_test(Args, Specs, trace),
    Described.

small_ones_are_shown_test() ->
    ?assertEqual({{{a}, false}, {{17}, false}, {{<<"text">>}, false}}, described([a, 17, <<"text">>])).

large_ones_are_sizes_test() ->
    Binary = binary:copy(<<"x">>, 1000),
    {{false, {false, false, false, {1000, Start}, _, _, _}}} = described([Binary]),
    ?assertEqual(binary:copy(<<"x">>, ?BYTES), Start).

%% Whatever is called with, what is copied is bounded.
bounded_test_() ->
    Large = [lists:seq(1, 100000), list_to_tuple(lists:seq(1, 100000)), maps:from_keys(lists:seq(1, 100000), x), 1 bsl 1000000,
             fun() -> binary:copy(<<"x">>, 100000) end, nested(1000)],
    [?_assert(erts_debug:flat_size(described([X])) < 2000) || X <- Large].

more_than_are_shown_test() ->
    ?assertEqual(more, element(9, described(lists:seq(1, 12)))).

none_wanted_test() ->
    ?assertEqual([{'_', [], [{message, {caller}}]}],
                 kprof_tracer_patterns:calls({m, f, 2}, [], fun(What) -> [{message, What}] end, 0)).

nested(0) -> [];
nested(N) -> {nested(N - 1), N, <<"between">>}.
