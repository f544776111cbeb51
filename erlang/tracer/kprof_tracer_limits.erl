%% kprof_tracer_limits - restricts a trace by request: to several entries, to a request type, and
%% to the requests of an attached kprofd. For kprof_tracer.
%%
%% The client knows the name of a request type (identity) and whether it is wanted: it is asked
%% once for each. Until it has answered it gets the events of the request, and drops them if
%% the type is not wanted.
%%
%% A kprofd's entries set the token. A session that came later sees the same call before that,
%% with the old token or none. So the call is held, together with what else the process does,
%% until the process shows the new token. If it shows none, the call was not sampled, or
%% nothing follows it. (The VM asks a function's first session last, as long as that has
%% anything set there: the agent counts calls of entries also while it is paused.)
-module(kprof_tracer_limits).

-export([entry/1, is_attached/0, unattached/0, with_entry/2, entry_arm/1, named_arm/2,
         identified/3, answered/3, named/3, is_asked/1, is_wanted/2, is_unwanted/2, is_kprofds/1,
         numbered_by/2, entered/7, hold/3, held_look/1, held_no_more/2, is_held/2, shown/3,
         released_all/1]).

-import(kprof_text, [refuse/2]).
-import(kprof_tracer_events, [in_request/3]).
-import(kprof_tracer_owner, [is_taken/2]).
-import(kprof_tracer_patterns, [pattern/3]).
-import(kprof_tracer_requests, [entry_spec/2, full_soon/1, is_alone/1, messages_told/0, news/2,
         one_ended/1]).

-include("kprof_tracer.hrl").

-define(IDENTITIES, 1000).      % request types that the client is asked about
-define(HELD, 50).              % events held of one process
-define(HOLDERS, 20000).        % processes with held events

%% ---------------------------------------------------------- what is armed ----

%% Returns the record or undefined, the functions that are armed whatever else is wanted, and the
%% options with these added.
entry(#{entry := [], attached := false} = Opts) -> {undefined, [], Opts};
entry(#{entry := Entry, attached := Attached, marks := Marks, inside := Inside, named := Named,
        requests := Max, patterns := Patterns, exclude := Exclude, epochs := Epochs} = Opts) ->
    {Epoch, Others} = kprof_tracer_requests:epochs(Epochs),
    Entries = case Attached of
                  true -> kprofds_entries();
                  false -> own_entries(Entry, Others)
              end,
    Candidates = marked(Marks, some) -- Entries,
    Tier = marked(Inside, needed),
    Must = lists:usort(Entries ++ Candidates ++ Tier),
    MustBe = [{atom_to_binary(M), atom_to_binary(F), A} || {M, F, A} <- Must],
    {#requests{entries = maps:from_keys(Entries, []), marks = Candidates, inside = Tier,
               attached = Attached, max = Max, epoch = Epoch, other_epochs = Others,
               kprofd = if Attached -> erlang:monitor(process, kprof_agent);
                            true -> undefined
                         end,
               named = if Named -> #{}; true -> all end},
     Must, Opts#{patterns := MustBe ++ Patterns, exclude := Exclude -- MustBe}}.

%% One of several nodes may have no entry.
own_entries(Entry, Others) ->
    unattached(),
    marked(Entry, case map_size(Others) of 0 -> needed; _ -> some end).

-spec unattached() -> ok.
unattached() ->
    is_attached() andalso
        refuse("a kprofd is attached there, whose requests these would be (~ts)",
               [instead(otp())]),
    ok.

%% An agent that leaves answers nobody, and goes. Its kprofd may have ended: it waits for what was
%% armed to be taken back, not for flags and the process.
-spec is_attached() -> boolean().
is_attached() ->
    is_pid(whereis(kprof_agent)) andalso
        try kprof_agent:status() =/= not_attached
        catch error:undef -> false              % it has gone just now
        end.

%% Suggests nothing that would be refused there.
instead(Otp) when Otp >= 27 -> "kprof count -attached counts in those, and kprof slow has them";
instead(_) ->
    "kprof slow has them; to trace your own, end that kprofd, or call kprof_agent:stop() there".

otp() ->
    list_to_integer(erlang:system_info(otp_release)).

%% The entries of the attached kprofd, from its agent's status.
kprofds_entries() ->
    Otp = otp(),
    Otp >= 27 orelse
        refuse("-attached is for OTP 27 on, and this is ~b: before that a process has"
               " one tracer, which is the kprofd's"
               " (where none is attached, -tiers FILE counts in the same requests)",
               [Otp]),
    is_pid(whereis(kprof_agent)) orelse
        refuse("no kprofd is attached there, which would mark requests (-entry"
               " FUNCTION marks one's own)", []),
    case kprof_agent:status() of
        #{entries := Entries} -> Entries;
        _ ->
            refuse("the kprofd that is attached there is another version, or does"
                   " not answer", [])
    end.

%% The functions that exist, of patterns of tiers.conf, where _ stands for what a module exports.
%% A missing one may be loaded later; if all are missing, something is wrong.
marked(Patterns, Need) ->
    Tried = [try marked_by(P) catch exit:{error, _} = Why -> Why end || P <- Patterns],
    case {lists:usort(lists:append([L || L <- Tried, is_list(L)])), Tried} of
        {[], [Why | _]} when Need =:= needed -> exit(Why);
        {Found, _} -> Found
    end.

marked_by({Module, <<"_">>, -1}) ->
    M = kprof_wanted:module(Module),
    [{M, F, A} || {F, A} <- M:module_info(exports),
                  not lists:member(F, [module_info, behaviour_info, '__info__'])];
marked_by(Pattern) -> kprof_wanted:matching(Pattern).

%% Adds the functions that must be armed, even if their module is excluded. Their own patterns
%% replace that of the module.
with_entry(Must, Armed) ->
    (Armed -- Must) ++ Must.

entry_arm(#state{requests = undefined}) -> ok;
entry_arm(#state{profile = #profile{session = Session}, guards = Guards,
                 requests = #requests{entries = Entries, attached = true}}) ->
    Spec = [{'_', Guards, [{message, {{{get_seq_token}, {caller}}}}]}],
    [pattern(Session, MFA, Spec) || MFA <- maps:keys(Entries)];
entry_arm(#state{profile = Profile, requests = #requests{entries = Entries}} = S) ->
    [pattern(Profile#profile.session, MFA, entry_spec_now(MFA, S)) || MFA <- maps:keys(Entries)].

entry_spec_now(MFA, #state{requests = #requests{full = Full, specs = Specs}})
  when Full =/= full, is_map_key(MFA, Specs) ->
    map_get(MFA, Specs);
entry_spec_now(MFA, S) -> entry_spec(MFA, S).

%% Arms functions that may give a request its identity. {MFA, Spec} are as kprofd makes them
%% (src/config/spec.c). With several nodes entries are armed later, when all nodes trace.
-spec named_arm([{mfa(), [tuple()]}], #state{}) -> #state{}.
named_arm(Given,
          #state{profile = #profile{session = Session},
                 requests = #requests{entries = Entries, marks = Marks} = R} = S) ->
    Specs = [{MFA, [named_clause(C, is_map_key(MFA, Entries), S) || C <- Spec]}
             || {MFA, Spec} <- Given],
    {OfEntries, Others} = lists:partition(fun({MFA, _}) -> is_map_key(MFA, Entries) end, Specs),
    [begin
         pattern(Session, MFA, Spec),
         kprof_oneshot:heed(0, S#state.profile)
     end || {MFA, Spec} <- Others, lists:member(MFA, Marks)],
    [pattern(Session, MFA, Spec) || is_alone(S), {MFA, Spec} <- OfEntries],
    S#state{requests = R#requests{specs = maps:from_list(OfEntries)}}.

named_clause({Head, Tests, Actions}, true,
             #state{guards = Guards, requests = #requests{attached = true}}) ->
    {Head, (Tests -- [{is_seq_trace}]) ++ Guards, Actions};
named_clause({Head, Tests, Actions}, IsEntry, #state{guards = Guards} = S) ->
    Told = [{'andalso', {is_seq_trace}, ?IS_OURS, Flag} || IsEntry, Flag <- messages_told()],
    {Head, Tests ++ Guards, [kprof_tracer_server:runs(S) | Actions] ++ Told}.

%% -------------------------------------------------------------- identities ----

%% The first identity that is known names a request.
-spec identified(non_neg_integer(), Identity :: term(), #state{}) -> #state{}.
identified(_, _, #state{requests = #requests{named = all}} = S) -> S;
identified(_, [], S) -> S;
identified(N, _, #state{requests = #requests{named = Named}} = S) when is_map_key(N, Named) -> S;
identified(N, Identity, #state{requests = #requests{known = Known} = R} = S) ->
    case Known of
        #{Identity := {_, wanted}} -> wanted(N, S);
        #{Identity := {_, unwanted}} -> unwanted(N, S);
        #{Identity := {Id, asked}} -> named(N, Id, S);
        _ when map_size(Known) < ?IDENTITIES ->
            Id = map_size(Known) + 1,
            R1 = R#requests{known = Known#{Identity => {Id, asked}}},
            S1 = kprof_tracer_events:send({kprof_identity, Id, Identity}, S#state{requests = R1}),
            named(N, Id, S1);
        _ -> unwanted(N, S)
    end.

-spec named(pos_integer(), pos_integer() | wanted | unwanted, #state{}) -> #state{}.
named(N, What, #state{requests = #requests{named = Named} = R} = S) ->
    S#state{requests = R#requests{named = Named#{N => What}}}.

%% The end of such a request is not looked for: the next call of its entry begins another.
unwanted(N, S0) ->
    #state{requests = #requests{open = Open} = R} = S = named(N, unwanted, S0),
    news({unwanted, N}, S#state{requests = R#requests{open = maps:remove(N, Open)}}).

%% The client's answer.
-spec answered(pos_integer(), IsWanted :: boolean(), #state{}) -> #state{}.
answered(Id, IsWanted, #state{requests = #requests{known = Known, named = Named} = R} = S)
  when is_map(Named) ->
    case [Identity || {Identity, {I, asked}} <- maps:to_list(Known), I =:= Id] of
        [Identity] ->
            What = case IsWanted of true -> wanted; false -> unwanted end,
            S1 = S#state{requests = R#requests{known = Known#{Identity := {Id, What}}}},
            Waiting = lists:sort([N || {N, I} <- maps:to_list(Named), I =:= Id]),
            lists:foldl(fun(N, Acc) when IsWanted -> wanted(N, Acc);
                           (N, Acc) -> unwanted(N, Acc)
                        end, S1, Waiting);
        [] -> S
    end;
answered(_, _, S) -> S.

%% Counts the request, unless enough have begun.
wanted(N, #state{requests = #requests{begun = Begun, max = Max}} = S) when Max > 0, Begun >= Max ->
    unwanted(N, S);
wanted(N, S0) ->
    #state{requests = #requests{begun = Begun, open = Open, attached = Attached} = R} = S =
        named(N, wanted, told_wanted(N, S0)),
    S1 = begun_enough(S#state{requests = R#requests{begun = Begun + 1}}),
    case Attached orelse is_map_key(N, Open) of
        true -> S1;
        false -> one_ended(S1)
    end.

%% With several nodes the client counts, and has to know the label before.
told_wanted(N, S) ->
    case is_alone(S) of
        true -> kprof_tracer_events:send({kprof_request, N}, S);
        false -> news({wanted, N}, S)
    end.

begun_enough(#state{requests = #requests{begun = Max, max = Max}} = S) ->
    case is_alone(S) of
        true -> full_soon(S);
        false -> S
    end;
begun_enough(S) -> S.

%% Is an answer of the client still to come?
-spec is_asked(#requests{}) -> boolean().
is_asked(#requests{known = Known}) ->
    lists:any(fun({_, What}) -> What =:= asked end, maps:values(Known)).

-spec is_wanted(non_neg_integer(), #requests{}) -> boolean().
is_wanted(_, #requests{named = all}) -> true;
is_wanted(N, #requests{named = Named}) -> maps:get(N, Named, unknown) =:= wanted.

-spec is_unwanted(non_neg_integer(), #requests{}) -> boolean().
is_unwanted(_, #requests{named = all}) -> false;
is_unwanted(N, #requests{named = Named}) -> maps:get(N, Named, unknown) =:= unwanted.

%% --------------------------------------------- requests of a kprofd that is there ----

%% Is it a label of a kprofd's request? Its calls that measure the cost of tracing do not count.
-spec is_kprofds(term()) -> boolean().
is_kprofds(Label) ->
    is_integer(Label) andalso Label bsr ?KIND_BITS =:= ?LABEL_KPROFD andalso not ?MEASURES(Label).

%% Numbers a request. One that began before we came, or on another node, begins for us here.
numbered_by(Label, #state{requests = #requests{labels = Labels, numbers = Given} = R} = S) ->
    N = Given + 1,
    Begun = case R#requests.named of all -> R#requests.begun + 1; _ -> R#requests.begun end,
    {N, S#state{requests = R#requests{labels = Labels#{Label => N}, numbers = N, begun = Begun}}}.

%% A call of an entry, with the label from before.
-spec entered(pid(), Old :: term(), Caller :: term(), Identity :: term(), mfa(), integer(),
              #state{}) ->
          #state{}.
entered(P, Old, Caller, Identity, MFA, Ts, S0) ->
    S1 = kprof_tracer_owner:outside(P, shown(P, Old, S0)),
    S2 = case S1#state.requests of
             #requests{working = At} when is_map_key(P, At) ->
                 kprof_tracer_requests:leaves(P, Ts, S1);
             _ -> S1
         end,
    hold(P, {call, Old, Caller, Identity, MFA, Ts}, S2).

-spec hold(pid(), tuple(), #state{}) -> #state{}.
hold(P, Event, #state{requests = #requests{held = Held} = R} = S) ->
    case Held of
        #{P := Events} when length(Events) < ?HELD ->
            S#state{requests = R#requests{held = Held#{P := [Event | Events]}}};
        #{P := _} -> S#state{requests = R#requests{held = maps:remove(P, Held)}};
        _ when map_size(Held) < ?HOLDERS ->
            S#state{requests = R#requests{held = Held#{P => [Event]}}};
        _ -> S
    end.

%% A process that has ended shows no label any more. Its last events are in the queue by now, and
%% our message to forget it is behind them.
held_look(#state{requests = #requests{held = Held}}) when map_size(Held) > ?HOLDERS div 2 ->
    self() ! {held_no_more, [P || P <- maps:keys(Held), not is_process_alive(P)]};
held_look(#state{requests = #requests{} = R}) ->
    case kprof_tracer_owner:dead(R) of
        [] -> ok;
        Dead -> self() ! {held_no_more, Dead}
    end;
held_look(_) -> ok.

-spec held_no_more([pid()], #state{}) -> #state{}.
held_no_more(Ps, #state{requests = #requests{held = Held} = R} = S) ->
    kprof_tracer_owner:forget(Ps, S#state{requests = R#requests{held = maps:without(Ps, Held)}}).

-spec is_held(pid(), #state{}) -> boolean().
is_held(P, #state{requests = #requests{held = Held}}) ->
    is_map_key(P, Held).

%% The process shows this label now: what was held belongs to that request, or to none. A label
%% that another process began a request with came with an answer of that one.
-spec shown(pid(), term(), #state{}) -> #state{}.
shown(P, Label, #state{requests = #requests{held = Held} = R} = S) when is_map_key(P, Held) ->
    S1 = S#state{requests = R#requests{held = maps:remove(P, Held)}},
    Events = lists:reverse(map_get(P, Held)),
    case is_kprofds(Label) andalso not is_taken(Label, R) of
        true -> lists:foldl(fun(E, Acc) -> released(P, Label, E, Acc) end, S1, Events);
        false -> unsampled(P, Events, S1)
    end;
shown(_, _, S) -> S.

released(P, Label, {call, _, From, Identity, MFA, Ts}, S0) ->
    #state{requests = #requests{labels = Labels}} = S =
        kprof_tracer_requests:called(P, Label, From, Identity, MFA, Ts, S0),
    kprof_tracer_owner:enters(P, maps:get(Label, Labels, 0), kprof_tracer_patterns:caller(From), S);
released(P, _, Event, S) -> in_request(P, Event, S).

%% The process is inside the entry of a request that is not traced, unless that has returned.
unsampled(P, [{call, _, From, _, _, _} | Events], S) ->
    Caller = kprof_tracer_patterns:caller(From),
    case [E || {_, _, return_to, By, _} = E <- Events, By =:= Caller] of
        [] -> kprof_tracer_owner:enters(P, 0, Caller, S);
        _ -> S
    end;
unsampled(_, _, S) -> S.

%% At the end: tokens of living processes can be read.
released_all(#state{requests = #requests{attached = true, held = Held}} = S) ->
    lists:foldl(fun(P, Acc) -> shown(P, label_of(P), Acc) end, S, maps:keys(Held));
released_all(S) -> S.

label_of(P) ->
    case process_info(P, sequential_trace_token) of
        {_, Token} -> kprof_tracer_requests:label(Token);
        undefined -> none
    end.
