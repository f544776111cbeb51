%% kprof_tracer_sweep - takes back tokens that remain after a trace by request. For kprof_tracer.
-module(kprof_tracer_sweep).

-export([sweep/1, swept/1]).

-import(kprof_oneshot, [is_traced/1, tell_sentry/1]).
-import(kprof_tracer_patterns, [pattern_meta/3]).

-include("kprof_tracer.hrl").

-define(SWEEP_MS, 300).         % for processes to run into a pattern that takes their token
-define(SWEPT, 50).             % most such patterns

%% Called when all events have come. For a while, processes that call the entry or another of the
%% functions lose tokens that we gave, and no others. A process with a request at the end of the
%% trace would keep its token as long as it gets no message without one, and pass it on with what
%% it sends. Nothing can do this for a process that does not run. A node that was in trouble is
%% left alone.
-spec sweep(#s{}) -> no_return().
sweep(#s{requests = R, why = {Why, _}} = S) when R =:= undefined; Why =:= queue; Why =:= memory ->
    kprof_tracer_server:loop(kprof_tracer_server:ended(S));
sweep(#s{requests = #requests{attached = true}} = S) ->
    kprof_tracer_server:loop(kprof_tracer_server:ended(S));
sweep(#s{profile = #profile{session = Session},
         requests = #requests{entries = Entries, swept = Functions} = R} = S) ->
    First = maps:keys(Entries),
    Swept = [P || P <- lists:sublist(First ++ (Functions -- First), ?SWEPT), is_free(Session, P)],
    S1 = S#s{profile = S#s.profile#profile{armed = [{meta, P} || P <- Swept]}},
    tell_sentry(S1#s.profile),
    Take = [{'_', [{is_seq_trace}], [{message, false},
                                     {'andalso', is_ours(R),
                                      {set_seq_token, sequential_trace_token, []}}]}],
    [begin pattern_meta(Session, P, Take),
     kprof_oneshot:heed(0, S1#s.profile) end || P <- Swept],
    erlang:send_after(?SWEEP_MS, self(), swept),
    kprof_tracer_server:loop(S1).

%% In a match spec: is the label of this trace, whichever node made it? Labels of entries that may
%% know an identity have a constant part, which the client has made
%% (src/profile/node/tracer_limits.c); it is taken from the labels that were seen.
is_ours(#requests{epoch = Epoch, other_epochs = Others} = R) ->
    list_to_tuple(['orelse' | [?LABEL_BEGINS(?WORD_BITS, E) || E <- [Epoch | maps:keys(Others)]] ++
                       [?LABEL_BEGINS(?CONST_BITS, C) || C <- constants(R)]]).

constants(#requests{named = all}) -> [];
constants(#requests{labels = Labels}) ->
    lists:usort([L bsr ?CONST_BITS || L <- maps:keys(Labels), is_integer(L)]).

%% Before OTP 27 a function has one meta tracer for everybody.
is_free(legacy, {_, '_', _}) -> false;
is_free(legacy, MFA) -> not is_traced(MFA);
is_free(_, _) -> true.

%% Remembers the armed functions for the sweep.
swept(#s{requests = undefined}) -> undefined;
swept(#s{profile = #profile{armed = Armed}, requests = R}) ->
    R#requests{swept = [P || {_, _, _} = P <- Armed]}.
