%% kprof_tracer_limits - what limits a trace by request further: several entries, an
%% identity, and requests that are not ours but those of a kprofd that is
%% attached. For kprof_tracer.
%%
%% What an identity is called, and whether that is the one wanted, the client
%% knows: it is asked once for each. Until it has answered, what is done for a
%% request goes to it, which drops what it does not want.
%%
%% A kprofd's entries set the token. In a session that came later the same call is
%% told of before that: the token it carries is the one of before, or none. So it
%% is held until the process shows the new one, with what else the process does.
%% Where it shows none, the call was not sampled, or nothing follows it. (A
%% function's first session is the last that is asked, as long as it has anything
%% set there: the agent counts entries' calls also while it rests.)
-module(kprof_tracer_limits).

-export([entry/1, with_entry/2, entry_arm/1, named_arm/2, identified/3, answered/3, is_asked/1,
         is_wanted/2, is_unwanted/2, is_kprofds/1, numbered_by/2, entered/7, hold/3, held_look/1,
         held_no_more/2, is_held/2, shown/3, released_all/1]).

-include("kprof_tracer.hrl").

-define(IDENTITIES, 1000).      % that a client is asked about
-define(HELD, 50).              % events of one process
-define(HOLDERS, 20000).        % processes

%% ---------------------------------------------------------- what is armed ----

%% A record or undefined, and functions that are armed whatever else is wanted.
entry(#{entry := [], attached := false} = Opts) ->
    {undefined, [], Opts};
entry(#{entry := Entry, attached := Attached, marks := Marks, inside := Inside, named := Named, requests := Max,
        patterns := Patterns, exclude := Exclude, epochs := Epochs} = Opts) ->
    {Epoch, Others} = kprof_tracer_nodes:epochs(Epochs),
    Entries = case Attached of
                  true -> kprofds_entries();
                  false -> own_entries(Entry, Others)
              end,
    Candidates = marked(Marks, some) -- Entries,
    Tier = marked(Inside, needed),
    Must = lists:usort(Entries ++ Candidates ++ Tier),
    MustBe = [{atom_to_binary(M), atom_to_binary(F), A} || {M, F, A} <- Must],
    {#r{entries = maps:from_keys(Entries, []), marks = Candidates, inside = Tier, attached = Attached,
        max = Max, epoch = Epoch, others = Others,
        kprofd = case Attached of true -> erlang:monitor(process, kprof_agent); false -> undefined end,
        named = case Named of true -> #{}; false -> all end},
     Must, Opts#{patterns := MustBe ++ Patterns, exclude := Exclude -- MustBe}}.

%% One of several nodes may have none.
own_entries(Entry, Others) ->
    whereis(kprof_agent) =:= undefined orelse
        kprof_refusal:refuse("a kprofd is attached there, whose requests these would be (~ts)", [instead(otp())]),
    marked(Entry, case map_size(Others) of 0 -> needed; _ -> some end).

%% Not what would be refused there.
instead(Otp) when Otp >= 27 -> "kprof count -attached counts in those, and kprof slow has them";
instead(_) -> "kprof slow has them; to trace your own, end that kprofd, or call kprof_agent:stop() there".

otp() ->
    list_to_integer(erlang:system_info(otp_release)).

%% By that its status can be had, and the entries be known.
kprofds_entries() ->
    Otp = otp(),
    Otp >= 27 orelse
        kprof_refusal:refuse("-attached is for OTP 27 on, and this is ~b: before that a process has one tracer, which is the kprofd's"
                             " (where none is attached, -tiers FILE counts in the same requests)", [Otp]),
    is_pid(whereis(kprof_agent)) orelse
        kprof_refusal:refuse("no kprofd is attached there, which would mark requests (-entry FUNCTION marks one's own)", []),
    case kprof_agent:status() of
        #{entries := Entries} -> Entries;
        _ -> kprof_refusal:refuse("the kprofd that is attached there is another version, or does not answer", [])
    end.

%% Of tiers.conf, where _ is what a module exports: what is there. One that is not
%% there may be loaded later; if none is, something is wrong.
marked(Patterns, Need) ->
    Tried = [try marked_by(P) catch exit:{error, _} = Why -> Why end || P <- Patterns],
    case {lists:usort(lists:append([L || L <- Tried, is_list(L)])), Tried} of
        {[], [Why | _]} when Need =:= needed -> exit(Why);
        {Found, _} -> Found
    end.

marked_by({Module, <<"_">>, -1}) ->
    M = kprof_wanted:module(Module),
    [{M, F, A} || {F, A} <- M:module_info(exports), not lists:member(F, [module_info, behaviour_info, '__info__'])];
marked_by(Pattern) ->
    kprof_wanted:matching(Pattern).

%% Though its module may be excluded; its own pattern replaces that of its module.
with_entry(Must, Armed) ->
    (Armed -- Must) ++ Must.

entry_arm(#s{r = undefined}) ->
    ok;
entry_arm(#s{p = #profile{session = Session}, guards = Guards, r = #r{entries = Entries, attached = true}}) ->
    [kprof_tracer_patterns:pattern(Session, MFA, [{'_', Guards, [{message, {{{get_seq_token}, {caller}}}}]}]) || MFA <- maps:keys(Entries)];
entry_arm(#s{p = #profile{session = Session}, r = #r{entries = Entries}} = S) ->
    [kprof_tracer_patterns:pattern(Session, MFA, kprof_tracer_requests:entry_spec(MFA, S)) || MFA <- maps:keys(Entries)].

%% {MFA, Spec} as kprofd has them (src/config/spec/spec.c), of functions that may say
%% what a request's identity is.
-spec named_arm([{mfa(), [tuple()]}], #s{}) -> #s{}.
named_arm(Specs, #s{p = #profile{session = Session}, r = #r{entries = Entries, marks = Marks}} = S) ->
    [begin
         kprof_tracer_patterns:pattern(Session, MFA, [named_clause(C, is_map_key(MFA, Entries), S) || C <- Spec]),
         kprof_oneshot:heed(0, S#s.p)
     end || {MFA, Spec} <- Specs, is_map_key(MFA, Entries) orelse lists:member(MFA, Marks)],
    S.

named_clause({Head, Tests, Actions}, true, #s{guards = Guards, r = #r{attached = true}}) ->
    {Head, (Tests -- [{is_seq_trace}]) ++ Guards, Actions};
named_clause({Head, Tests, Actions}, _, #s{guards = Guards} = S) ->
    {Head, Tests ++ Guards, [kprof_tracer_server:runs(S) | Actions]}.

%% -------------------------------------------------------------- identities ----

%% The first one that is known names a request.
-spec identified(non_neg_integer(), Identity :: term(), #s{}) -> #s{}.
identified(_, _, #s{r = #r{named = all}} = S) ->
    S;
identified(_, [], S) ->
    S;
identified(N, _, #s{r = #r{named = Named}} = S) when is_map_key(N, Named) ->
    S;
identified(N, Identity, #s{r = #r{known = Known} = R} = S) ->
    case Known of
        #{Identity := {_, wanted}} -> wanted(N, S);
        #{Identity := {_, unwanted}} -> unwanted(N, S);
        #{Identity := {Id, asked}} -> named(N, Id, S);
        _ when map_size(Known) < ?IDENTITIES ->
            Id = map_size(Known) + 1,
            S1 = kprof_tracer_events:send({kprof_identity, Id, Identity}, S#s{r = R#r{known = Known#{Identity => {Id, asked}}}}),
            named(N, Id, S1);
        _ -> unwanted(N, S)
    end.

named(N, What, #s{r = #r{named = Named} = R} = S) ->
    S#s{r = R#r{named = Named#{N => What}}}.

%% Nor is its end looked for: the next call of its entry begins another one.
unwanted(N, S0) ->
    #s{r = #r{open = Open} = R} = S = named(N, unwanted, S0),
    S#s{r = R#r{open = maps:remove(N, Open)}}.

%% The client's answer.
-spec answered(pos_integer(), IsWanted :: boolean(), #s{}) -> #s{}.
answered(Id, IsWanted, #s{r = #r{known = Known, named = Named} = R} = S) when is_map(Named) ->
    case [Identity || {Identity, {I, asked}} <- maps:to_list(Known), I =:= Id] of
        [Identity] ->
            What = case IsWanted of true -> wanted; false -> unwanted end,
            S1 = S#s{r = R#r{known = Known#{Identity := {Id, What}}}},
            Waiting = lists:sort([N || {N, I} <- maps:to_list(Named), I =:= Id]),
            lists:foldl(fun(N, Acc) when IsWanted -> wanted(N, Acc);
                           (N, Acc) -> unwanted(N, Acc)
                        end, S1, Waiting);
        [] -> S
    end;
answered(_, _, S) ->
    S.

%% One of those that were asked for, unless there have been as many.
wanted(N, #s{r = #r{begun = Begun, max = Max}} = S) when Max > 0, Begun >= Max ->
    unwanted(N, S);
wanted(N, S0) ->
    #s{r = #r{begun = Begun, open = Open, attached = Attached} = R} = S = named(N, wanted, kprof_tracer_events:send({kprof_request, N}, S0)),
    S1 = S#s{r = R#r{begun = Begun + 1}},
    case Attached orelse is_map_key(N, Open) of
        true -> S1;
        false -> kprof_tracer_requests:one_ended(S1)
    end.

%% Is an answer still to come?
-spec is_asked(#r{}) -> boolean().
is_asked(#r{known = Known}) ->
    lists:any(fun({_, What}) -> What =:= asked end, maps:values(Known)).

-spec is_wanted(non_neg_integer(), #r{}) -> boolean().
is_wanted(_, #r{named = all}) -> true;
is_wanted(N, #r{named = Named}) -> maps:get(N, Named, unknown) =:= wanted.

-spec is_unwanted(non_neg_integer(), #r{}) -> boolean().
is_unwanted(_, #r{named = all}) -> false;
is_unwanted(N, #r{named = Named}) -> maps:get(N, Named, unknown) =:= unwanted.

%% --------------------------------------------- requests of a kprofd that is there ----

%% Its calls that measure what tracing adds are no request's.
-spec is_kprofds(term()) -> boolean().
is_kprofds(Label) ->
    is_integer(Label) andalso Label bsr ?KIND_BITS =:= ?LABEL_KPROFD andalso not ?MEASURES(Label).

%% What was marked before we came, or on another node, begins for us here.
numbered_by(Label, #s{r = #r{labels = Labels, given = Given} = R} = S) ->
    N = Given + 1,
    Begun = case R#r.named of all -> R#r.begun + 1; _ -> R#r.begun end,
    {N, S#s{r = R#r{labels = Labels#{Label => N}, given = N, begun = Begun}}}.

%% A call of an entry, with the label of before.
-spec entered(pid(), Old :: term(), Caller :: term(), Identity :: term(), mfa(), integer(), #s{}) -> #s{}.
entered(P, Old, Caller, Identity, MFA, Ts, S0) ->
    S1 = shown(P, Old, S0),
    S2 = case S1#s.r of
             #r{at = At} when is_map_key(P, At) -> kprof_tracer_requests:leaves(P, Ts, S1);
             _ -> S1
         end,
    hold(P, {call, Old, Caller, Identity, MFA, Ts}, S2).

-spec hold(pid(), tuple(), #s{}) -> #s{}.
hold(P, Event, #s{r = #r{held = Held} = R} = S) ->
    case Held of
        #{P := Events} when length(Events) < ?HELD -> S#s{r = R#r{held = Held#{P := [Event | Events]}}};
        #{P := _} -> S#s{r = R#r{held = maps:remove(P, Held)}};
        _ when map_size(Held) < ?HOLDERS -> S#s{r = R#r{held = Held#{P => [Event]}}};
        _ -> S
    end.

%% Who has ended shows no label any more. What it did before is in the queue by
%% then, and what is to be forgotten comes after that.
held_look(#s{r = #r{held = Held}}) when map_size(Held) > ?HOLDERS div 2 ->
    self() ! {held_no_more, [P || P <- maps:keys(Held), not is_process_alive(P)]};
held_look(_) ->
    ok.

-spec held_no_more([pid()], #s{}) -> #s{}.
held_no_more(Ps, #s{r = #r{held = Held} = R} = S) ->
    S#s{r = R#r{held = maps:without(Ps, Held)}}.

-spec is_held(pid(), #s{}) -> boolean().
is_held(P, #s{r = #r{held = Held}}) ->
    is_map_key(P, Held).

%% The process has this label now: what was held is that request's, or nobody's.
-spec shown(pid(), term(), #s{}) -> #s{}.
shown(P, Label, #s{r = #r{held = Held} = R} = S) when is_map_key(P, Held) ->
    S1 = S#s{r = R#r{held = maps:remove(P, Held)}},
    case is_kprofds(Label) of
        true -> lists:foldl(fun(E, Acc) -> released(P, Label, E, Acc) end, S1, lists:reverse(map_get(P, Held)));
        false -> S1
    end;
shown(_, _, S) ->
    S.

released(P, Label, {call, _, Caller, Identity, MFA, Ts}, S) ->
    kprof_tracer_requests:called(P, Label, Caller, Identity, MFA, Ts, S);
released(P, _, Event, S) ->
    kprof_tracer_events:in_request(P, Event, S).

%% At the end: of those that are there their tokens can be read.
-spec released_all(#s{}) -> #s{}.
released_all(#s{r = #r{attached = true, held = Held}} = S) ->
    lists:foldl(fun(P, Acc) -> shown(P, label_of(P), Acc) end, S, maps:keys(Held));
released_all(S) ->
    S.

label_of(P) ->
    case process_info(P, sequential_trace_token) of
        {_, Token} -> kprof_tracer_requests:label(Token);
        undefined -> none
    end.
