%% kprof_tracer_span - ends a trace after a fixed time. For kprof_tracer.
%%
%% A timer's message could wait long in the tracer's queue, behind a million events while more
%% arrive. So another process watches the clock, takes away what makes events, and then sends
%% its message, behind the last of them. It starts before processes have their flags, and
%% ends with the tracer.
-module(kprof_tracer_span).

-export([span_ready/1, span_begin/1, in_session/3]).

-import(kprof_flagger, [flags_clear/3]).
-import(kprof_injected, [process_label/2]).
-import(kprof_tracer_rings, [tracer_of/1]).

-include("kprof_tracer.hrl").

-spec span_ready(#s{}) -> #s{}.
span_ready(#s{span_ms = 0} = S) ->
    S;
span_ready(#s{profile = #profile{session = Session}, span_ms = Ms, probe = Probe} = S) ->
    Server = self(),
    Tracer = tracer_of(Probe),
    S#s{span = spawn_opt(fun() ->
                                 process_label(kprof_tracer, span),
                                 Ref = erlang:monitor(process, Server),
                                 receive
                                     go -> span(Server, Ref, Session, Tracer, Ms);
                                     {'DOWN', Ref, process, _, _} -> gone
                                 end
                         end, [{priority, high}])}.

%% The time begins now.
span_begin(#s{span = Pid}) when is_pid(Pid) -> Pid ! go;
span_begin(_) -> none.

span(Server, Ref, Session, Tracer, Ms) ->
    receive {'DOWN', Ref, process, _, _} -> gone
    after Ms ->
            span_end(Session, Tracer),
            Server ! span_over
    end.

span_end(legacy, Tracer) -> flags_clear(legacy, Tracer, ?CLEAR_MS);
span_end(Session, _) -> trace:session_destroy(Session).

%% Does something in the session, which may be gone without the tracer knowing it yet: then
%% returns Gone.
in_session(Session, Do, Gone) ->
    try Do()
    catch
        error:badarg:Stack ->
            lists:member(element(2, Session), trace:session_info(all)) andalso
                erlang:raise(error, badarg, Stack),
            Gone
    end.
