%% kprof_tracer_span - a trace that ends when it is to. For kprof_tracer.
%%
%% What ends it may wait for long in the tracer's queue, behind a million events
%% and more of them meanwhile. So another process looks at the clock, takes away
%% what makes events, and says so then, behind the last of them. It is there before
%% processes have their flags, and gone with the tracer.
-module(kprof_tracer_span).

-export([span_ready/1, span_begin/1, in_session/3]).

-include("kprof_tracer.hrl").

-spec span_ready(#s{}) -> #s{}.
span_ready(#s{span_ms = 0} = S) ->
    S;
span_ready(#s{p = #profile{session = Session}, span_ms = Ms, probe = Probe} = S) ->
    Server = self(),
    Tracer = kprof_tracer_rings:tracer_of(Probe),
    S#s{span = spawn_opt(fun() ->
                                 kprof_injected:process_label(kprof_tracer, span),
                                 Ref = erlang:monitor(process, Server),
                                 receive
                                     go -> span(Server, Ref, Session, Tracer, Ms);
                                     {'DOWN', Ref, process, _, _} -> gone
                                 end
                         end, [{priority, high}])}.

%% From now on.
span_begin(#s{span = Pid}) when is_pid(Pid) -> Pid ! go;
span_begin(_) -> none.

span(Server, Ref, Session, Tracer, Ms) ->
    receive {'DOWN', Ref, process, _, _} -> gone
    after Ms ->
            span_end(Session, Tracer),
            Server ! span_over
    end.

span_end(legacy, Tracer) -> kprof_flagger:flags_clear(legacy, Tracer, ?CLEAR_MS);
span_end(Session, _) -> trace:session_destroy(Session).

%% The session may be gone by then, and the tracer not know of it yet.
in_session(Session, Do, Gone) ->
    try Do()
    catch
        error:badarg:Stack ->
            lists:member(element(2, Session), trace:session_info(all)) andalso erlang:raise(error, badarg, Stack),
            Gone
    end.
