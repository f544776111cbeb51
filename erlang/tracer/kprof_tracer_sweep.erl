%% kprof_tracer_sweep - tokens of a trace by request that are still there when it has
%% ended, and are taken back. For kprof_tracer.
-module(kprof_tracer_sweep).

-export([sweep/1, swept/1]).

-include("kprof_tracer.hrl").

-define(SWEEP_MS, 300).         % for tokens to be taken back, where they are seen
-define(SWEPT, 50).             % patterns, at most, of functions that are looked at for it

%% All events have come. Of tokens that we gave, and of no others, processes lose
%% theirs when they call the entry, or another of the functions, within some time:
%% what had a request at its end would have its token as long as it gets no message
%% without one, and give it to whom it sends. There is nothing that does this for a
%% process that is not running. Where the node was in trouble we leave it alone.
-spec sweep(#s{}) -> no_return().
sweep(#s{r = R, why = {Why, _}} = S) when R =:= undefined; Why =:= queue; Why =:= memory ->
    kprof_tracer_server:loop(kprof_tracer_server:ended(S));
sweep(#s{r = #r{attached = true}} = S) ->
    kprof_tracer_server:loop(kprof_tracer_server:ended(S));
sweep(#s{p = #profile{session = Session}, r = #r{entries = Entries, swept = Functions} = R} = S) ->
    First = maps:keys(Entries),
    Swept = [P || P <- lists:sublist(First ++ (Functions -- First), ?SWEPT), is_free(Session, P)],
    S1 = S#s{p = (S#s.p)#profile{armed = [{meta, P} || P <- Swept]}},
    kprof_oneshot:tell_sentry(S1#s.p),
    Take = [{'_', [{is_seq_trace}], [{message, false},
                                     {'andalso', is_ours(R), {set_seq_token, sequential_trace_token, []}}]}],
    [begin kprof_tracer_patterns:pattern_meta(Session, P, Take), kprof_oneshot:heed(0, S1#s.p) end || P <- Swept],
    erlang:send_after(?SWEEP_MS, self(), swept),
    kprof_tracer_server:loop(S1).

%% In a match spec: is the label one of this trace, whichever of its nodes made it?
%% Those of entries that may know an identity have a constant part, which
%% the client has made (src/profile/target/tracer_marks.c): that of what was seen.
is_ours(#r{epoch = Epoch, others = Others} = R) ->
    list_to_tuple(['orelse' | [?LABEL_BEGINS(?WORD_BITS, E) || E <- [Epoch | maps:keys(Others)]] ++
                       [?LABEL_BEGINS(?CONST_BITS, C) || C <- constants(R)]]).

constants(#r{named = all}) -> [];
constants(#r{labels = Labels}) -> lists:usort([L bsr ?CONST_BITS || L <- maps:keys(Labels), is_integer(L)]).

%% Before OTP 27 one meta tracer is there for everybody.
is_free(legacy, {_, '_', _}) -> false;
is_free(legacy, MFA) -> not kprof_oneshot:is_traced(MFA);
is_free(_, _) -> true.

%% Which these are.
swept(#s{r = undefined}) -> undefined;
swept(#s{p = #profile{armed = Armed}, r = R}) -> R#r{swept = [P || {_, _, _} = P <- Armed]}.
