-module(kprof_wanted_tests).

-include_lib("eunit/include/eunit.hrl").

wanted(Patterns, Exclude) ->
    kprof_wanted:wanted(#{patterns => Patterns, exclude => Exclude, max_functions => 1000}).

one_function_test() ->
    ?assertEqual({[{lists, seq, 2}], [{lists, seq, 2}]}, wanted([{<<"lists">>, <<"seq">>, 2}], [])).

any_arity_test() ->
    {_, Functions} = wanted([{<<"lists">>, <<"seq">>, -1}], []),
    ?assertEqual([{lists, seq, 2}, {lists, seq, 3}], Functions).

%% One pattern of the VM for all of a module.
whole_module_test() ->
    {Patterns, Functions} = wanted([{<<"kprof_wanted">>, <<"_">>, -1}], []),
    ?assertEqual([{kprof_wanted, '_', '_'}], Patterns),
    ?assert(lists:member({kprof_wanted, wanted, 1}, Functions)).

excluded_test() ->
    {Patterns, _} = wanted([{<<"lists">>, <<"seq">>, -1}], [{<<"lists">>, <<"seq">>, 3}]),
    ?assertEqual([{lists, seq, 2}], Patterns).

own_modules_are_not_the_nodes_test() ->
    {module, _} = code:ensure_loaded(kprof_agent),
    {_, Functions} = kprof_wanted:wanted(#{patterns => [{<<"_">>, <<"_">>, -1}], exclude => [], max_functions => 1 bsl 20}),
    ?assertEqual([], [F || {M, _, _} = F <- Functions, lists:member(M, kprof_injected:kprofs())]).

refused_test_() ->
    [?_assertEqual(Text, refusal(fun() -> wanted(Patterns, Exclude) end))
     || {Text, Patterns, Exclude} <-
            [{"no function matches 'lists:sek/2' (the module has seq/2, seq/3, sum/1)", [{<<"lists">>, <<"sek">>, 2}], []},
             {"there is no module 'listz' (did you mean lists?)", [{<<"listz">>, <<"seq">>, 2}], []},
             {"the exclusions leave no function", [{<<"lists">>, <<"seq">>, 2}], [{<<"lists">>, <<"_">>, -1}]}]].

%% Names of what does not exist become no atoms.
no_atoms_test() ->
    Name = <<"kprof_nowhere_", (integer_to_binary(rand:uniform(1 bsl 60)))/binary>>,
    ?assert(is_list(refusal(fun() -> wanted([{Name, Name, 0}], []) end))),
    ?assertError(badarg, binary_to_existing_atom(Name)).

refusal(Do) ->
    try Do()
    catch exit:{error, Text} -> unicode:characters_to_list(Text)
    end.
