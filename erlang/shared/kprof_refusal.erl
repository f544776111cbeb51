%% kprof_refusal - what keeps kprof out of a node, or a profile from being had, as a
%% text for people.
-module(kprof_refusal).

-export([refusal/2, refuse/2, text/2]).

%% What start/2 of a module that is loaded gives where it does not start.
-spec refusal(io:format(), [term()]) -> {error, binary()}.
refusal(Format, Args) ->
    {error, text(Format, Args)}.

%% For the process that is being started: start/2 has it from the reason of its exit.
-spec refuse(io:format(), [term()]) -> no_return().
refuse(Format, Args) ->
    exit(refusal(Format, Args)).

-spec text(io:format(), [term()]) -> binary().
text(Format, Args) ->
    unicode:characters_to_binary(io_lib:format(Format, Args)).
