%% kprof_sweep.hrl - tokens of a trace by request that are still there when it has
%% ended, and are taken back. For kprof_tracer.

-define(SWEEP_MS, 300).         % for tokens to be taken back, where they are seen
-define(SWEPT, 50).             % patterns, at most, of functions that are looked at for it

%% All events have come. Of tokens that we gave, and of no others, processes lose
%% theirs when they call the entry, or another of the functions, within some time:
%% what had a request at its end would have its token as long as it gets no message
%% without one, and give it to whom it sends. There is nothing that does this for a
%% process that is not running. Where the node was in trouble we leave it alone.
sweep(#s{r = R, why = {Why, _}} = S) when R =:= undefined; Why =:= queue; Why =:= memory ->
    loop(ended(S));
sweep(#s{r = #r{attached = true}} = S) ->
    loop(ended(S));
sweep(#s{session = Session, r = #r{entries = Entries, swept = Functions} = R} = S) ->
    First = maps:keys(Entries),
    Swept = [P || P <- lists:sublist(First ++ (Functions -- First), ?SWEPT), is_free(Session, P)],
    S1 = S#s{armed = [{meta, P} || P <- Swept]},
    tell_sentry(S1),
    Take = [{'_', [{is_seq_trace}], [{message, false},
                                     {'andalso', is_ours(R), {set_seq_token, sequential_trace_token, []}}]}],
    [begin pattern_meta(Session, P, Take), heed(0, S1) end || P <- Swept],
    erlang:send_after(?SWEEP_MS, self(), swept),
    loop(S1).

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
is_free(legacy, MFA) -> not is_traced(MFA);
is_free(_, _) -> true.

%% Which these are.
swept(#s{r = undefined}) -> undefined;
swept(#s{r = R, armed = Armed}) -> R#r{swept = [P || {_, _, _} = P <- Armed]}.
