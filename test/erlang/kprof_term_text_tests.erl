-module(kprof_term_text_tests).

-include_lib("eunit/include/eunit.hrl").

-define(MAX, 4096).

text(Term) -> kprof_text:value_text(Term, ?MAX).

small_terms_are_whole_test() ->
    [?assertEqual(unicode:characters_to_binary(io_lib:format("~0tp", [T])), text(T))
     || T <- [ok, 17, -1.5, <<"text">>, "text", {a, [b | c]}, #{k => {v}}, [], <<1:3>>]].

%% Formatting these would take seconds to minutes.
price_test_() ->
    [{timeout, 5, ?_assert(byte_size(text(T)) =< ?MAX)} || T <- [1 bsl 1000000, deep(1000000), lists:seq(1, 1000000)]].

a_number_too_long_is_not_shown_test() ->
    ?assertEqual(<<"{n,...}">>, text({n, 1 bsl 100000})).

%% No character is cut in two.
bytes_are_bounded_test() ->
    [begin
         Text = kprof_text:value_text(T, Max),
         ?assert(byte_size(Text) =< Max),
         ?assert(is_list(unicode:characters_to_list(Text)))
     end || T <- [lists:duplicate(5000, 16#1F600), binary:copy(<<"ä"/utf8>>, 30000), maps:from_keys(lists:seq(1, 5000), x)],
            Max <- [100, 101, 102, 103, 900]].

what_is_left_out_shows_test() ->
    ?assertMatch({match, _}, re:run(kprof_text:value_text(list_to_tuple(lists:seq(1, 5000)), 100000), "\\.\\.\\.}$")).

deep(0) -> [];
deep(N) -> [deep_in(N)].

deep_in(N) -> lists:foldl(fun(_, T) -> [T] end, [], lists:seq(1, N)).
