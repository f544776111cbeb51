%% kprof_gc_fixed - may two tracers be told of garbage collection?
%%
%% From OTP 27 on the VM crashes when a process collects garbage on which two
%% tracers have the flag for that, be they sessions or the legacy tracer:
%% erlang/otp#11624. This is the only place that knows which VMs do; kprofd has it
%% from what its agent says when it starts.
-module(kprof_gc_fixed).

-export([gc_shared/0, gc_shared/2]).

%% ERTS versions with the fix, the first of each major version, such as "15.2.9". None is released
%% yet. A major version that is not listed counts as not fixed, though the fix may be in it from
%% the start.
-define(GC_FIXED, []).

%% May two tracers have the flag on one process?
-spec gc_shared() -> boolean().
gc_shared() ->
    gc_shared(erlang:system_info(version), ?GC_FIXED).

%% Before ERTS 15, of OTP 27, a process has one tracer.
-spec gc_shared(string(), [string()]) -> boolean().
gc_shared(Version, Fixed) ->
    case erts(Version) of
        [Major | _] when Major < 15 -> true;
        [Major | _] = V ->
            lists:any(fun(F) -> hd(erts(F)) =:= Major andalso V >= erts(F) end, Fixed);
        unknown -> false
    end.

%% A list of numbers, which sort as versions do; unknown for a release candidate.
erts(Version) ->
    try [list_to_integer(N) || N <- string:lexemes(Version, ".")]
    catch error:badarg -> unknown
    end.
