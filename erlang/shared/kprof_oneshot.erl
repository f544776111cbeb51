%% kprof_oneshot - a module that is loaded for one profile and one client: how it
%% starts, what ends it, and how it goes. For kprof_counters, kprof_tracer and
%% kprof_sampler.
-module(kprof_oneshot).

-export([start/3, stop_host/1, take_name/1, profile_new/5, say_begin/1, prepared/1, flag/4,
         unflag/1, untraced/2, own_memory/0, arm_look/2, heed/2, look_lease/1, finish/2, clear/1,
         tell_sentry/1, new_sentry/1, names/0, profile_handle/2, send_try/4]).

-import(kprof_call, [await_prepared/1, stop_call/1]).
-import(kprof_flagger, [flags_clear/3, flags_start/4, walk_pid/1, walk_stop/1]).
-import(kprof_injected, [kept/1, kept_drop/1, kept_set/2, now_ms/0, purger_start/3]).
-import(kprof_sentry, [host_start/5, sentry_start/5]).
-import(kprof_text, [fn_text/1, one_tracer/0, refusal/2, refuse/2]).
-import(kprof_tracing, [is_traced/1]).

-include("kprof_oneshot.hrl").

-define(START_MS, 60000).       % arming, on a node that is busy
-define(NAMED, 5).              % functions that an error names
-define(NAMES, 10000).          % registered names in an answer
-define(LAST_MS, 100).          % of the sentry's last message, this often again:
-define(LAST_TRIES, 50).
-define(ARM_LOOK, 8).           % patterns between two looks at the memory

%% ---------------------------------------------------------------- start ----

%% Called over rex. Returns {ok, Pid, Info} or {error, Text}, a binary for people.
-dialyzer({nowarn_function, start/3}).    % what it starts always exits
-spec start(#host{}, pid(), map()) -> {ok, pid(), map()} | {error, binary()}.
start(#host{name = Name, loaded = Loaded, init = Init} = Host, Client, Opts)
  when is_pid(Client), is_map(Opts) ->
    Starter = self(),
    Run = fun() -> Init(Starter, Client, Opts) end,
    case host_start(Name, Loaded, Client, Run, ?START_MS) of
        {ok, _, _} = Started -> Started;
        {error, Why} -> start_refused(Why, Host)
    end.

start_refused(disabled, _) ->
    refusal("it keeps kprof out: {kprof, [{disabled, true}]} is in its configuration", []);
start_refused(gone, _) -> refusal("the client has gone", []);
start_refused({ended, {error, _} = Refusal}, _) -> Refusal;
start_refused({ended, {kprof, Reason}}, Host) -> refusal("~ts", [reason_text(Reason, Host)]);
start_refused({ended, Reason}, #host{name = Name}) ->
    refusal("~s failed there: ~0tP", [Name, Reason, 20]);
start_refused(timeout, _) ->
    refusal("it was not armed within ~b s (fewer functions?)", [?START_MS div 1000]).

%% For an operator: ends it. If both of its processes were killed, takes back what they have left.
-spec stop_host(#host{}) -> ok | not_attached.
stop_host(#host{name = Name, loaded = Loaded} = Host) ->
    case {whereis(Name), kept(Name)} of
        {undefined, undefined} -> not_attached;
        {undefined, {ok, {Server, Own}}} ->
            take_back(killed, Server, Own, Host),
            purger_start(Name, Loaded, []),
            ok;
        {Pid, _} -> Pid ! {Name, stop}, ok
    end.

%% A node has one profile of each kind at a time.
-spec take_name(#host{}) -> ok.
take_name(#host{name = Name, verb = Verb}) ->
    try register(Name, self()) of
        true -> ok
    catch
        error:badarg ->
            refuse("somebody ~s there already (~s:stop() there ends it)", [Verb, Name])
    end.

%% The profile of the calling process, with its sentry. ToArm: as legacy_clear takes it.
-spec profile_new(#host{}, pid(), kprof_flagger:session(), [term()], map()) -> #profile{}.
profile_new(Host, Client, Session, ToArm,
            #{who := Who, lease_ms := LeaseMs, max_memory := MaxMemory}) ->
    #profile{host = Host, client = Client, client_ref = erlang:monitor(process, Client),
             sentry = sentry_of(Host), who = Who, session = Session, lease_ms = LeaseMs,
             armed = ToArm, memory = own_memory(), memory_max = MaxMemory}.

-spec say_begin(#profile{}) -> ok.
say_begin(#profile{host = #host{name = Name, verb = Verb, noun = Noun}, who = Who}) ->
    logger:notice("kprof ~s ~s for ~ts (~s:stop() ends it)", [Verb, Noun, Who, Name]).

%% The sentry is told of the call before its arguments are evaluated, which may take long.
-spec prepared(#profile{}) -> #profile{}.
prepared(#profile{applied = Applied} = S) ->
    tell_sentry(S),
    Applied =:= undefined orelse await_prepared(Applied),
    S.

%% The sentry is told before flags are set. A process in native code gets them when it lets the
%% walk in, which goes on until the flags are taken again.
-spec flag(all | existing | new | [pid()], kprof_flagger:tracer(), [atom()], #profile{}) ->
          #profile{}.
flag(Chosen, Tracer, Flags, #profile{session = Session} = S0) ->
    S = S0#profile{walk = wanted},
    tell_sentry(S),
    S#profile{walk = flags_start(Session, Tracer, [{true, Flags}], Chosen)}.

%% The walk has ended by itself.
-spec walk_over(pid(), #profile{}) -> #profile{}.
walk_over(_, #profile{walk = Walk} = S) when is_atom(Walk) -> S;
walk_over(Pid, #profile{walk = Walk} = S) ->
    case walk_pid(Walk) of
        Pid -> S#profile{walk = wanted};
        _ -> S
    end.

-spec unflag(#profile{}) -> ok.
unflag(#profile{walk = Walk}) when is_atom(Walk) -> ok;
unflag(#profile{walk = Walk}) -> walk_stop(Walk).

%% --------------------------------------------------- sessions and flags ----

%% On OTP 25 and 26 everybody shares one counter of a function, and setting it resets it.
-spec untraced(kprof_flagger:session(), [mfa()]) -> ok.
untraced(legacy, Functions) ->
    case [MFA || MFA <- Functions, is_traced(MFA)] of
        [] -> ok;
        Taken ->
            Names = [fn_text(F) || F <- lists:sublist(Taken, ?NAMED)],
            refuse("another tool traces or counts ~ts: -exclude ~ts leaves it out"
                   " (~ts)",
                   [lists:join(", ", Names), hd(Names), one_tracer()])
    end;
untraced(_, _) -> ok.

%% ----------------------------------------------------- while it is there ----

%% The memory of what is armed, without tables and binaries, which the node itself allocates and
%% frees.
-spec own_memory() -> integer().
own_memory() ->
    [{system, All}, {ets, Tables}, {binary, Binaries}] = erlang:memory([system, ets, binary]),
    All - Tables - Binaries.

%% Called when N patterns are set. Before OTP 29 a counter of time or memory takes a table for
%% each scheduler, 800 bytes or more: 20,000 functions take 50 MiB with 2 schedulers and 1 GiB
%% with 64.
-spec arm_look(pos_integer(), #profile{}) -> ok | false.
arm_look(N, #profile{memory = Memory, memory_max = Max}) when N rem ?ARM_LOOK =:= 0 ->
    own_memory() - Memory > Max andalso
        refuse("arming these functions takes the node more than ~b MiB: name fewer,"
               " or see -max-memory", [Max bsr 20]);
arm_look(_, _) -> ok.

%% Called between two steps of something long: obeys only messages that end the profile, and waits
%% Ms for them.
-spec heed(timeout(), #profile{}) -> ok.
heed(Ms, #profile{host = #host{name = Name}, client = Client, client_ref = Ref} = S) ->
    receive
        {'DOWN', Ref, process, _, Reason} -> finish({gone, Reason}, S);
        {kprof, Client, _, stop} -> finish(done, S);
        {Name, stop} -> finish(stopped, S)
    after Ms -> ok
    end.

%% Sends to the client; busy: not now, and Ms have been waited for its connection. A client that
%% has gone or hangs is not waited for.
-spec send_try(tuple(), Deadline :: integer(), timeout(), #profile{}) -> ok | busy.
send_try(Msg, Deadline, Ms, #profile{client = Client, client_ref = Ref} = S) ->
    case erlang:send(Client, Msg, [noconnect, nosuspend]) of
        ok -> ok;
        _ ->
            now_ms() > Deadline andalso finish(lease, S),
            receive {'DOWN', Ref, process, _, Reason} -> finish({gone, Reason}, S)
            after Ms -> busy
            end
    end.

%% A message to the server that concerns the profile as such, or that is nobody's.
-spec profile_handle(term(), #profile{}) -> #profile{}.
profile_handle({'DOWN', Ref, process, _, Reason}, #profile{client_ref = Ref} = S) ->
    finish({gone, Reason}, S);
profile_handle({'DOWN', Ref, process, _, _}, #profile{sentry = {_, Ref}} = S) -> new_sentry(S);
profile_handle({'DOWN', _, process, Pid, _}, S) -> walk_over(Pid, S);
profile_handle({overran, Ref}, #profile{applied = {Pid, Ref, _}} = S) ->
    exit(Pid, kill),
    S#profile{applied = {Pid, Ref, overran}};
profile_handle({Name, stop}, #profile{host = #host{name = Name}} = S) -> finish(stopped, S);
profile_handle(_, S) -> S.

%% Our own delays are not the client's silence: its message may wait behind a tick, or behind
%% events.
-spec look_lease(#profile{}) -> #profile{}.
look_lease(#profile{client = Client} = S) ->
    Expired = now_ms() - S#profile.lease_at > S#profile.lease_ms,
    receive
        {kprof, Client, _, lease} when Expired -> S#profile{lease_at = now_ms()}
    after 0 ->
            Expired andalso finish(lease, S),
            S
    end.

%% ------------------------------------------------------------------ end ----

%% Takes everything back and exits. The sentry does the rest, and has the module purged.
-spec finish(term(), #profile{}) -> no_return().
finish(Reason, #profile{host = Host} = S) ->
    stop_call(S#profile.applied),
    clear(S),
    word_restore(S#profile.word),
    logger:notice("kprof ~s no more for ~ts: ~ts",
                  [Host#host.verb, S#profile.who, reason_text(Reason, Host)]),
    exit({kprof, Reason}).

reason_text(done, _) -> "it is done";
reason_text(stopped, #host{name = Name}) -> io_lib:format("stopped by ~s:stop()", [Name]);
reason_text(collected, _) ->
    "somebody else has begun to trace garbage collection, and two would crash this VM"
        " (erlang/otp#11624)";
reason_text(lease, _) -> "its lease ran out";
reason_text({gone, _}, _) -> "the connection is gone".

%% The sentry's last message to the client.
end_text({kprof, Reason}, Host) -> kprof_text:text("~ts", [reason_text(Reason, Host)]);
end_text(Reason, _) -> kprof_text:text("it died: ~0tP", [Reason, 8]).

%% Flags first: without them no event is made while many patterns are taken, one by one.
-spec clear(#profile{}) -> ok.
clear(#profile{session = legacy, armed = Armed, host = Host} = S) ->
    unflag(S),
    clear_legacy(self(), S#profile.walk =/= none andalso S#profile.walk =/= cleared, Armed, Host);
clear(#profile{session = Session} = S) ->
    unflag(S),
    trace:session_destroy(Session),
    ok.

clear_legacy(Server, Flagged, Armed, #host{legacy_tracer = TracerOf, legacy_clear = Clear}) ->
    Tracer = TracerOf(Server),
    Flagged andalso flags_clear(legacy, Tracer, ?CLEAR_MS),
    lists:foreach(Clear, Armed),
    Flagged andalso flags_clear(legacy, Tracer, ?CLEAR_MS),
    ok.

sentry_of(#host{name = Name, loaded = Loaded} = Host) ->
    Clean = fun(Reason, Server, {Client, _, _, _, _} = Own) ->
                    take_back(Reason, Server, Own, Host),
                    send_last(Client, {kprof_ended, gone, end_text(Reason, Host)}, ?LAST_TRIES)
            end,
    sentry_start(Name, Loaded, infinity, none, Clean).

%% Its client waits for it. Events may be in the connection's way.
send_last(Client, Message, Tries) ->
    case erlang:send(Client, Message, [noconnect, nosuspend]) of
        nosuspend when Tries > 0 ->
            receive after ?LAST_MS -> send_last(Client, Message, Tries - 1) end;
        _ -> ok
    end.

take_back(Reason, Server, {_, Legacy, Armed, Applied, Word}, Host) ->
    stop_call(Applied),
    Legacy =:= no orelse clear_legacy(Server, Legacy =:= flagged, still_armed(Reason, Armed), Host),
    word_restore(still(Reason, Word)),
    kept_drop(Host#host.name).

%% finish/2 has taken back everything except flags that were inherited just then.
still_armed({kprof, _}, _) -> [];
still_armed(_, Armed) -> Armed.

still({kprof, _}, _) -> undefined;
still(_, Word) -> Word.

%% Requests are numbered by the trace control word, of which the node has one, like the system
%% tracer, which goes when it is dead. A kprofd that has attached meanwhile uses the word, and
%% would use some numbers twice.
word_restore(undefined) -> ok;
word_restore(Word) ->
    seq_trace:get_system_tracer() =:= self() andalso seq_trace:set_system_tracer(false),
    whereis(kprof_agent) =:= undefined andalso erlang:system_flag(trace_control_word, Word),
    kept_drop(kprof_tracer_word).

%% Called before the change is made.
-spec tell_sentry(#profile{}) -> term().
tell_sentry(#profile{session = Session, host = #host{name = Name}} = S) ->
    Legacy = if Session =/= legacy -> no;
                S#profile.walk =:= none -> unflagged;
                true -> flagged
             end,
    Own = {S#profile.client, Legacy, S#profile.armed, S#profile.applied, S#profile.word},
    element(1, S#profile.sentry) ! {own, Own},
    %% For stop_host/1, where no process is left to know it.
    kept_set(Name, {self(), Own}).

%% Replaces a sentry that was killed.
-spec new_sentry(#profile{}) -> #profile{}.
new_sentry(S0) ->
    S = S0#profile{sentry = sentry_of(S0#profile.host)},
    tell_sentry(S),
    S.

%% ---------------------------------------------------------------- small ----

-spec names() -> [{pid(), atom()}].
names() ->
    [{P, N} || N <- lists:sublist(registered(), ?NAMES), P <- [whereis(N)], is_pid(P)].
