-module(kprof_vm_bugs_tests).

-include_lib("eunit/include/eunit.hrl").

-define(VERSIONS, ["13.1.5", "14.2", "15.2.7", "15.2.8", "15.2.8.1", "15.2.10", "15.3", "16.0", "16.0.1", "17.1",
                   "18.0-rc1", "x"]).

%% No version has the fix, so that the table is empty; here it is another one.
shared(Fixed) ->
    [V || V <- ?VERSIONS, kprof_vm_bugs:gc_shared(V, Fixed)].

none_is_fixed_test() ->
    ?assertEqual(["13.1.5", "14.2"], shared([])).

two_are_fixed_test() ->
    ?assertEqual(["13.1.5", "14.2", "15.2.8", "15.2.8.1", "15.2.10", "15.3", "16.0.1"], shared(["15.2.8", "16.0.1"])).

candidate_test() ->
    ?assertNot(kprof_vm_bugs:gc_shared("18.0-rc1", ["18.0"])).

this_version_test() ->
    {Major, _} = string:to_integer(erlang:system_info(version)),
    ?assertEqual(Major < 15, kprof_vm_bugs:gc_shared()).

%% Of each version with lost wake-ups the agent keeps its queue on the heap.
queue_test() ->
    Versions = ["13.0", "13.1.5", "13.2.2.3", "13.2.2.6", "14.0.2", "14.1", "14.2", "14.2.2"],
    ?assertEqual(Versions, [V || V <- Versions ++ ["13.2.2.7", "13.2.2.18", "14.2.3", "14.2.5.11", "15.0", "15.2.7", "17.1",
                                                   "18.0-rc1"],
                                 kprof_vm_bugs:queue_data(V) =:= on_heap]).
