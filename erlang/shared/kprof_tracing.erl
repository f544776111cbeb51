%% kprof_tracing - patterns and counters of functions by either way of tracing: in a trace session
%% (OTP 27 and later), or in the tracing that everybody shares (legacy).
-module(kprof_tracing).

-export([session_create/2, trace_set/4, trace_read/3, trace_delivered/1, is_traced/1,
         on_load_free/1, on_load_unset/3]).

-spec session_create(atom(), kprof_flagger:tracer()) -> kprof_flagger:session().
session_create(Name, Tracer) ->
    _ = code:ensure_loaded(trace),
    case erlang:function_exported(trace, session_create, 3) of
        true -> trace:session_create(Name, Tracer, []);
        false -> legacy
    end.

%% A meta pattern reports to the calling process in legacy tracing, in a session to its tracer.
-spec trace_set(kprof_flagger:session(), tuple() | on_load, atom() | list(), [atom()]) ->
          non_neg_integer().
trace_set(legacy, MFA, Spec, [meta]) when Spec =/= false ->
    erlang:trace_pattern(MFA, Spec, [{meta, self()}]);
trace_set(legacy, MFA, Spec, How) -> erlang:trace_pattern(MFA, Spec, How);
trace_set(Session, MFA, Spec, How) -> trace:function(Session, MFA, Spec, How).

-spec trace_read(kprof_flagger:session(), pid() | new_processes | mfa(), atom()) ->
          {atom(), term()} | undefined.
trace_read(legacy, What, Key) -> erlang:trace_info(What, Key);
trace_read(Session, What, Key) -> trace:info(Session, What, Key).

%% {trace_delivered, all, Reference} comes behind all events from before this.
-spec trace_delivered(kprof_flagger:session()) -> reference().
trace_delivered(legacy) -> erlang:trace_delivered(all);
trace_delivered(Session) -> trace:delivered(Session, all).

%% In legacy tracing. Asks for `all`, which stops the schedulers for a moment. To ask for less would
%% read somebody's tables of times, if there are any, while they change.
-spec is_traced(mfa()) -> boolean().
is_traced(MFA) ->
    case erlang:trace_info(MFA, all) of
        {all, Items} when is_list(Items) ->
            lists:any(fun({Item, V}) ->
                              V =/= false andalso V =/= undefined andalso Item =/= match_spec
                      end, Items);
        _ -> false
    end.

%% The pattern `on_load` is that of every function of code that is loaded, from its first call on.
%% On OTP 25 and 26 there is one for everybody: one that is there is somebody else's.
-spec on_load_free(kprof_flagger:session()) -> boolean().
on_load_free(legacy) -> erlang:trace_info(on_load, all) =:= {all, false};
on_load_free(_) -> true.

%% Takes it back, unless somebody has replaced it meanwhile.
-spec on_load_unset(kprof_flagger:session(), true | list(), atom()) -> term().
on_load_unset(Session, What, Kind) ->
    Item = if Kind =:= local -> match_spec; true -> Kind end,
    (Session =/= legacy orelse erlang:trace_info(on_load, Item) =:= {Item, What}) andalso
        trace_set(Session, on_load, false, [Kind]).
