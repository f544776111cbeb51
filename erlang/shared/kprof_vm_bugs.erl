%% kprof_vm_bugs - which errors of the VM that concern us this VM has, by its ERTS version. This is
%% the only place that knows. And who else does what would crash it.
-module(kprof_vm_bugs).

-export([gc_shared/0, gc_shared/2, queue_data/0, queue_data/1, collected_by_others/1]).

-import(kprof_flagger, [walk_found/1]).

%% From OTP 27 on the VM crashes when a process collects garbage on which two tracers have the
%% flag for that, be they sessions or the legacy tracer: erlang/otp#11624. These are the versions
%% with the fix, the first of each major version, such as "15.2.9". None is released yet. A major
%% version that is not listed counts as not fixed, though the fix may be in it from the start.
-define(GC_FIXED, []).

%% From OTP 25 on many senders write at once to the queue of a process with message_queue_data
%% off_heap, and the VM may forget to wake it: for a while (OTP-18647, OTP-19008), or, where
%% somebody asks for message_queue_len, for ever (OTP-18838). The first versions with all fixes:
%% OTP 25.3.2.10 and 26.2.3. OTP 27 never had these errors.
-define(WAKEUPS_FIXED, ["13.2.2.7", "14.2.3"]).

%% May two tracers have the flag on one process? kprofd has it from what its agent says when it
%% starts.
-spec gc_shared() -> boolean().
gc_shared() ->
    gc_shared(erlang:system_info(version), ?GC_FIXED).

%% Before ERTS 15, of OTP 27, a process has one tracer.
-spec gc_shared(string(), [string()]) -> boolean().
gc_shared(Version, Fixed) ->
    is_before(15, Version) orelse is_fixed(Version, Fixed).

%% How a tracer may keep its queue. Off the heap is better: the garbage collector leaves the
%% events alone. On the heap it copies those that wait: in a flood of all that two schedulers can
%% send, a node grew by 16 to 22 MiB (7 to 11), and had nothing armed after 0.8 to 1.0 s
%% (0.2 to 0.3).
-spec queue_data() -> off_heap | on_heap.
queue_data() ->
    queue_data(erlang:system_info(version)).

-spec queue_data(string()) -> off_heap | on_heap.
queue_data(Version) ->
    case erts(Version) =:= unknown orelse not is_before(15, Version) orelse
        is_fixed(Version, ?WAKEUPS_FIXED) of
        true -> off_heap;
        false -> on_heap
    end.

is_before(Major, Version) ->
    case erts(Version) of
        unknown -> false;
        [M | _] -> M < Major
    end.

is_fixed(Version, Fixed) ->
    case erts(Version) of
        unknown -> false;
        [Major | _] = V ->
            lists:any(fun(F) -> hd(erts(F)) =:= Major andalso V >= erts(F) end, Fixed)
    end.

%% A list of numbers, which sort as versions do; unknown for a release candidate.
erts(Version) ->
    try [list_to_integer(N) || N <- string:lexemes(Version, ".")]
    catch error:badarg -> unknown
    end.

%% ---------------------------------------- who else traces garbage collection ----

%% OTP's types hide what a reference to a session is, and nothing else gives its name.
-dialyzer({nowarn_function, [collected_by_others/1, collects/2, has_gc/1]}).

%% How many {Process, Session} trace it, and some of them; without sessions of this name.
-spec collected_by_others(atom()) -> {non_neg_integer(), [{pid(), atom()}]}.
collected_by_others(Ours) ->
    case [Name || {Name, _} <- trace:session_info(all), Name =/= Ours] of
        [] -> {0, []};
        _ -> walk_found(fun(P) ->
                                case [Name || {Name, _} = Session <- sessions_of(P),
                                      Name =/= Ours,
                                      collects(Session, P)] of
                                    [Name | _] -> {found, {P, Name}};
                                    [] -> skip
                                end
                        end)
    end.

%% A session may be gone by now.
collects({legacy, _}, P) -> has_gc(erlang:trace_info(P, flags));
collects(Session, P) ->
    has_gc(try trace:info(Session, P, flags) catch error:_ -> gone end).

has_gc({flags, Flags}) when is_list(Flags) -> lists:member(garbage_collection, Flags);
has_gc(_) -> false.

sessions_of(P) ->
    case trace:session_info(P) of
        undefined -> [];
        Sessions -> Sessions
    end.
