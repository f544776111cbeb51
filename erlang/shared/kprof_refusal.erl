%% kprof_refusal - why kprof may not come into a node, or a profile cannot be made, as a text for
%% people.
-module(kprof_refusal).

-export([refusal/2, refuse/2, text/2, one_tracer/0]).

%% The result of start/2 of a loaded module that does not start.
-spec refusal(io:format(), [term()]) -> {error, binary()}.
refusal(Format, Args) ->
    {error, text(Format, Args)}.

%% For the process that is being started: start/2 takes the refusal from its exit reason.
-spec refuse(io:format(), [term()]) -> no_return().
refuse(Format, Args) ->
    exit(refusal(Format, Args)).

-spec text(io:format(), [term()]) -> binary().
text(Format, Args) ->
    unicode:characters_to_binary(io_lib:format(Format, Args)).

%% Ends the refusals that a node of OTP 25 or 26 gives because it has one tracer.
-spec one_tracer() -> string().
one_tracer() ->
    case whereis(kprof_agent) of
        undefined -> "OTP 27 has sessions of their own";
        _ -> "a kprofd is attached there: end that kprofd, or call kprof_agent:stop() there"
    end.
