%% A peer that lies in place of a target (it_peer), an epmd that lies, and
%% clients of the control socket that mean harm. Whatever they send, kprofd
%% does not crash, stays within a bound of memory, names the node and what was
%% wrong with it, tries again or gives up, answers its control socket
%% meanwhile, and ends when it is told to.
%%
%% KPROFD_HOSTILE=whole (make hostile) sends ten million of everything; else a
%% hundredth of that, so that it takes some seconds.
-module(hostile_tests).

-export([tests/0]).
%% For a peer that speaks TLS.
-export([handshake/1, before_armed/1, attempts/1, nonsense/1, slowly/1, silent/1, unread/1, labels/1]).
-export([all_fail/2, armed/3, attacked/0, said/3, survived/3, truth/1, gone/1]).

-define(MIB, 1048576).
%% Before events are taken in nothing is kept but one frame, 32 MiB at most
%% (KP_FRAME_MAX), and what is made of it: an answer's table of functions has
%% 24 bytes for 6 of the frame.
-define(QUIET_MIB, 192).
%% With events: max_kprofd_mb, at which nothing more is taken in, and what may
%% come before that is looked at again, within 100 ms or a frame.
-define(LIMIT_MIB, 128).
-define(FLOOD_MIB, 128 + 160).
-define(LOG_BYTES, 262144).

%% An identity that is whatever the peer says; trees of everything.
-define(TIERS, "{tiers, [{handle, {a, entry, 1}}, {db, {b, query, 1}}]}.\n{entry, {a, entry, 1}}.\n"
        "{identity, fun({a, entry, [X]}) -> X end}.\n{sampling, all}.\n{budget, none}.\n{slow_ms, 1}.\n"
        "{overload, [{max_kprofd_mb, 128}, {pause_s, 1}]}.\n").

tests() ->
    [{"lies in the handshake", 90, fun handshake/1},
     {"lies before anything is armed", 120, fun before_armed/1},
     {"answers about a library that are none", 90, fun library/1},
     {"an epmd that lies", 90, fun epmd/1},
     {"another lie at each attempt", 120, fun attempts/1},
     {"nonsense once armed", 120, fun nonsense/1},
     {"frames one byte at a time", 90, fun slowly/1},
     {"counters, times and sequence numbers that lie", 90, fun numbers/1},
     {"a peer that falls silent", 90, fun silent/1},
     {"nothing but ticks", 120, fun ticks/1},
     {"a peer that does not read", 90, fun unread/1},
     {"a reload that is not answered", 90, fun reload_unanswered/1},
     {"a reload while one leaves slowly", 90, fun reload_leaving/1},
     {"nodes that are seen by turns", 90, fun by_turns/1},
     {"notices without end", 90, fun notices/1},
     {"names of hostile text", 90, fun names/1},
     {"a flood of labels", 600, fun labels/1},
     {"a flood of labels, and no time passes", 600, fun(T) -> flood(T, fun frozen/2, 100000) end},
     {"a flood of entries from the last to the first", 600, fun(T) -> flood(T, fun backwards/2, 100000) end},
     {"a flood of processes", 600, fun(T) -> flood(T, fun processes/2, 100000) end},
     {"a flood of identities", 600, fun(T) -> flood(T, fun identities/2, 100000) end},
     {"identities of a megabyte", 600, fun(T) -> flood(T, fun large_identities/2, 0) end},
     {"a flood of functions", 600, fun(T) -> flood(T, fun functions/2, 100000) end},
     {"one request of all calls", 600, fun(T) -> flood(T, fun calls/2, 100000) end},
     {"clients of the control socket", 90, fun control/1}].

whole() -> os:getenv("KPROFD_HOSTILE") =:= "whole".

%% In place of N when all of it is asked for: a hundred times as many.
many(N) -> case whole() of true -> 100 * N; false -> N end.

%% ------------------------------------------------------------ harness ----

%% A sanitizer's own memory comes on top: its shadow, and what was freed.
sanitized(T) -> string:find(it:build(T), "san") =/= nomatch.

bound(T, MiB) ->
    case sanitized(T) of
        true -> (4 * MiB + 256) * ?MIB;
        false -> MiB * ?MIB
    end.

start(T, Peer, Opts) ->
    it:kprofd(T, Peer, maps:merge(#{tiers => ?TIERS, env => [{"ASAN_OPTIONS", "quarantine_size_mb=16"}]}, Opts)).

%% The most memory it ever had; 0: it has ended.
peak(#{pid := Pid}) ->
    case file:read_file(io_lib:format("/proc/~b/status", [Pid])) of
        {ok, Text} ->
            case re:run(Text, "VmHWM:\\s+([0-9]+)", [{capture, [1], list}]) of
                {match, [Kb]} -> list_to_integer(Kb) * 1024;
                nomatch -> 0
            end;
        {error, _} -> 0
    end.

within(T, P, MiB) ->
    Peak = peak(P),
    it:check(Peak =< bound(T, MiB), "~s had ~b MiB, more than ~b", [maps:get(name, P), Peak div ?MIB, bound(T, MiB) div ?MIB]),
    Peak.

%% Each lie to a kprofd of its own, all at once: they give up on the first
%% attempt, with words that name the node.
all_fail(T, Lies) ->
    Started = [begin
                   Peer = it_peer:start(T, fun(_) -> Lie end),
                   {What, Pattern, Peer, start(T, Peer, #{})}
               end || {What, Lie, Pattern} <- Lies],
    note(T, [{What, "", Pattern, Peer, P} || {What, Pattern, Peer, P} <- Started]).

note(T, Started) ->
    Peak = until_ended(T, [P || {_, _, _, _, P} <- Started], 0),
    Wrong = lists:append([unlike(One) || One <- Started]),
    it:check(Wrong =:= [], "~ts", [Wrong]),
    [sane(P) || {_, _, _, _, P} <- Started],
    {note, io_lib:format("~b lies, ~b MiB at most", [length(Started), Peak div ?MIB])}.

%% It gave up, with words that begin so, name the node, and say that.
unlike({What, Begin, Pattern, #{node := Node}, P}) ->
    Text = it:errors(P),
    Line = case Pattern of
               {unnamed, Other} -> ["^kprofd: ", Other];
               _ -> ["^kprofd: ", Begin, "(?=[^\n]*'", Node, "')[^\n]*(", Pattern, ")"]
           end,
    case {it:exited(P), re:run(Text, Line, [multiline])} of
        {1, {match, _}} -> [];
        {Status, _} -> io_lib:format("~ts: ~b and no '~ts' in~n~ts~n", [What, Status, Line, Text])
    end.

until_ended(T, Ps, Peak) ->
    Now = lists:max([Peak | [within(T, P, ?QUIET_MIB) || P <- Ps]]),
    case lists:any(fun it:is_running/1, Ps) of
        true ->
            receive after 20 -> ok end,
            until_ended(T, Ps, Now);
        false -> Now
    end.

%% Nothing of a sanitizer or of a crash in what it said, and not too much of it.
sane(P) ->
    Text = it:errors(P),
    it:check(re:run(Text, "Sanitizer|runtime error|core dumped") =:= nomatch, "~ts", [Text]),
    it:check(byte_size(Text) =< ?LOG_BYTES, "~b bytes of log", [byte_size(Text)]).

%% It is there, answers, ends as it is told to, and its database is whole.
survived(T, P, quiet) -> survived(T, P, ?QUIET_MIB);
survived(T, P, MiB) ->
    {ok, _} = it:control(P, "status"),
    {ok, _} = it:control(P, "status json"),
    Peak = within(T, P, MiB),
    it:terminate(P),
    sane(P),
    it:equal("integrity", [[<<"ok">>]], it:sql(P, "pragma integrity_check")),
    %% Sums that overflow are errors there.
    _ = it:losses(P),
    it:equal("negative figures", [], it:sql(P, "select * from losses where lost < 0")),
    Report = it:start(T, "report", [filename:join(it:build(T), "kprof"), "report", "-db", it:db(P)], []),
    it:equal(["kprof report: ", it:errors(Report)], 0, it:exited(Report)),
    Peak.

%% Once armed, Attack does what it does in the peer, to its end.
armed(T, Lies, Attack) ->
    Test = self(),
    Armed = fun(Conn) ->
                    try Attack(Conn) after Test ! {attacked, self()} end
            end,
    Peer = it_peer:start(T, fun(N) -> (Lies(N))#{armed => Armed} end),
    P = start(T, Peer, #{}),
    it:armed(P),
    {Peer, P}.

attacked() ->
    receive {attacked, _} -> ok end.

truth(_) -> #{}.

said(P, #{node := Node}, What) ->
    it:saw(P, ["^kprofd: [^\n]*'", Node, "'[^\n]*", What]).

%% ---------------------------------------------------------- handshake ----

handshake(T) ->
    Bytes = fun(Text) -> fun(S, _) -> it_peer:raw(#{socket => S}, Text), gone(S) end end,
    Message = fun(Text) -> fun(S, _) -> it_peer:raw(#{socket => S}, it_peer:packet(S, Text)), gone(S) end end,
    %% Its length says something else.
    Long = fun(Length, Text) -> fun(S, _) -> it_peer:raw(#{socket => S}, [it_peer:length_of(S, Length), Text]), gone(S) end end,
    Cut = fun(N) -> fun(S, Whole) -> it_peer:raw(#{socket => S}, binary:part(Whole, 0, N)), gone(S) end end,
    Slow = fun(S, Whole) -> [begin it_peer:raw(#{socket => S}, <<B>>), receive after 5 -> ok end end || <<B>> <= Whole] end,
    Mute = fun(_, _) -> receive after infinity -> ok end end,
    Wrong = fun(S, _) -> it_peer:raw(#{socket => S}, it_peer:packet(S, <<$a, 0:128>>)) end,
    Closed = "closed the connection during the handshake",
    Other = "does not speak the distribution protocol",
    Old = "it runs OTP 22 or earlier",
    all_fail(T, [{"status cut " ++ integer_to_list(N), #{status => Cut(N)}, Closed} || N <- [0, 1, 2, 4]] ++
                 [{"challenge cut " ++ integer_to_list(N), #{challenge => Cut(N)}, Closed} || N <- [0, 1, 3, 12, 30]] ++
                 [{"ack cut " ++ integer_to_list(N), #{ack => Cut(N)}, "cookie refused"} || N <- [0, 2, 10]] ++
                 [{"name in use", #{status => Message("snok")}, "in use there"},
                  {"not allowed", #{status => Message("snot_allowed")}, "not allowed"},
                  {"alive", #{status => Message("salive")}, "in use there"},
                  {"another protocol", #{status => Bytes("HTTP/1.1 400 Bad Request\r\n\r\n")}, [Closed, "|", Other]},
                  {"status of 64 KB", #{status => Message(binary:copy(<<"s">>, 16#FFFF))}, Closed},
                  {"status that names another", #{status => Message(["snamed:", binary:copy(<<"x">>, 23)])}, Closed},
                  {"nothing", #{status => Message("")}, Other},
                  {"a status that is longer than it is", #{status => Long(16#7FFFFFFF, "sok")}, [Closed, "|", Other]},
                  {"challenge of 64 KB", #{challenge => Message([$N, binary:copy(<<255>>, 16#FFFE)])}, Other},
                  {"challenge of another version", #{challenge => Message(<<$n, 1:16, 0:32, 7:32, "a@b.c">>)}, Old},
                  {"challenge without capabilities", #{challenge => Message(<<$N, 0:64, 7:32, 1:32, 5:16, "a@b.c">>)}, Old},
                  {"challenge that lies about its name",
                   #{challenge => Message(<<$N, 16#D07DF7FBD:64, 7:32, 1:32, 16#FFFF:16, "a@b.c">>)}, Other},
                  {"digest of another cookie", #{ack => Wrong}, "cookie refused"},
                  {"cookie of another", #{cookie => "another"}, "cookie refused"},
                  {"silence at once", #{status => Mute}, "no answer within 7 s"},
                  {"silence then", #{challenge => Mute}, "no answer within 7 s"},
                  {"silence at last", #{ack => Mute}, "no answer within 7 s"},
                  {"all of it slowly, then the end", #{status => Slow, challenge => Slow, ack => Slow,
                                                       whereis => fun(Conn, _, _) -> gone(Conn) end},
                   "closed the connection"}]).

gone(#{socket := S}) -> gone(S);
gone(S) ->
    it_peer:close(#{socket => S}),
    throw(over).

%% -------------------------------------------------- on the way to armed ----

before_armed(T) ->
    Say = fun(Term) -> fun(Conn, _, _) -> it_peer:say(Conn, Term) end end,
    Rex = fun(Term) -> Say({rex, Term}) end,
    Answer = fun(Term) -> fun(Conn, Ref, _) -> it_peer:answer(Conn, Ref, Term) end end,
    Frame = fun(Bytes) -> fun(Conn, _, _) -> it_peer:frame(Conn, Bytes) end end,
    Raw = fun(Bytes) -> fun(Conn, _, _) -> it_peer:raw(Conn, Bytes) end end,
    Hello = fun(Other) ->
                    fun(Conn, _, _) ->
                            it_peer:say(Conn, {rex, {ok, it_peer:pid(Conn, 77), maps:merge(it_peer:hello(Conn), Other)}})
                    end
            end,
    Hostile = hostile_text(),
    Many = lists:seq(1, many(1000)),
    Protocol = ["speaks protocol 3, not ", integer_to_list(it:protocol()), ".*install"],
    NoStart = "the agent does not start in",
    NoSense = "makes no sense",
    Functions = [{list_to_atom("f" ++ integer_to_list(I)), 1} || I <- lists:seq(1, 19000)],
    Modules = binary:copy(part(it_peer:term([{x, ok, Functions, Functions, []}])), 60),
    all_fail(T, [{"a frame of 4 GiB", #{whereis => Raw(<<16#FFFFFFFF:32>>)}, "frame that is too large"},
                 {"a frame of 32 MiB and a byte", #{whereis => Raw(<<(32 * ?MIB + 1):32>>)}, "frame that is too large"},
                 {"who is there, in a megabyte",
                  #{whereis => fun(#{agent := Agent} = Conn, _, _) -> it_peer:say(Conn, {rex, Agent}) end,
                    occupant => Rex(#{who => binary:copy(Hostile, 10000), since => lists:duplicate(60000, 7)})},
                  "is being profiled already"},
                 {"who is there, as no map",
                  #{whereis => fun(#{agent := Agent} = Conn, _, _) -> it_peer:say(Conn, {rex, Agent}) end,
                    occupant => Rex(deep(200))}, "is being profiled already"},
                 {"an agent that is always leaving", #{module_loaded => Rex(true), start => Rex({error, already})}, NoStart},
                 {"a name that is taken for a second", #{start => taken(Rex({error, already}), Rex({error, {protocol, 3}}))},
                  Protocol},
                 {"another protocol", #{start => Hello(#{protocol => 3})}, Protocol},
                 {"another protocol's refusal", #{start => Rex({error, {protocol, 3}})}, Protocol},
                 {"no protocol", #{start => Hello(#{protocol => none})}, NoStart},
                 {"a protocol past all numbers", #{start => Hello(#{protocol => 1 bsl 70})}, NoStart},
                 {"no release", #{start => Hello(#{otp => "never"})}, NoStart},
                 {"a release past all numbers", #{start => Hello(#{otp => "99999999"})}, NoStart},
                 {"a release of 64 KB", #{start => Hello(#{otp => lists:duplicate(65000, $9)})}, NoStart},
                 {"a clock beyond time", #{start => Hello(#{time_offset => 16#7FFFFFFFFFFFFFFF})}, NoStart},
                 {"an agent that is no process", #{start => Rex({ok, 7, #{}})}, NoStart},
                 {"many fields", #{start => Hello(maps:from_list([{I, I} || I <- Many]))}, NoStart},
                 {"a refusal of hostile text", #{start => Rex({error, binary:copy(Hostile, 100000)})}, NoStart},
                 {"not loaded", #{start => Rex({error, {not_loaded, badfile}})}, "OTP 25 or later"},
                 {"no answer", #{start => fun(_, _, _) -> ok end}, "no answer"},
                 {"an answer that cannot be read", #{check => Frame(<<131, 104, 255>>)}, "no answer|" ++ NoSense},
                 {"a list that lies about its length", #{check => lying(<<108, 16#FFFFFFFF:32>>)}, NoSense},
                 {"a tuple that lies about its size", #{check => lying(<<105, 16#FFFFFFFF:32>>)}, NoSense},
                 {"modules as a number", #{check => Answer(7)}, NoSense},
                 {"deep nesting", #{check => lying([binary:copy(<<104, 1>>, many(100000)), 106])}, NoSense},
                 {"functions of modules that nobody asked for, and many",
                  #{check => lying([<<108, 60:32>>, Modules, 106])}, {unnamed, ".*tiers.*' names what the target does not have"}},
                 {"modules' names, and many", #{check => lying([<<108, 2:32>>, others(<<"a">>), others(<<"b">>), 106])},
                  {unnamed, ".*tiers.*' names what the target does not have"}},
                 {"rates of functions that nobody asked for",
                  #{rates => Answer([{{x, list_to_atom("f" ++ integer_to_list(I rem 1000)), 1}, I, false, false}
                                     || I <- Many ++ lists:seq(1, 3000)])}, NoSense},
                 {"rates that are none", #{rates => Answer([{{a, entry, 1}, fast, false, false}])}, NoSense},
                 {"hostile text for an error", #{arm => Answer({error, binary:copy(Hostile, 100000)})}, "cannot be traced"},
                 {"the end in the midst of an answer",
                  #{arm => fun(Conn, Ref, _) ->
                                   Whole = iolist_to_binary(it_peer:message(Conn, it_peer:term({kprof_reply, Ref, ok}))),
                                   it_peer:raw(Conn, binary:part(Whole, 0, 20)),
                                   gone(Conn)
                           end}, "closed the connection|Connection reset"}]).   % by what it left unread

%% Answers in one way for a second, then in another: kprofd asks again all that time.
taken(First, Then) ->
    Begun = atomics:new(1, []),
    fun(Conn, Ref, Args) ->
            Now = erlang:monotonic_time(millisecond),
            _ = atomics:compare_exchange(Begun, 1, 0, Now),
            case Now - atomics:get(Begun, 1) < 1000 of
                true -> First(Conn, Ref, Args);
                false -> Then(Conn, Ref, Args)
            end
    end.

%% A reply whose result are these bytes, whole or not.
lying(Bytes) ->
    fun(Conn, Ref, _) ->
            {Head, _} = split_binary(it_peer:term({kprof_reply, Ref, 0}), -2 + byte_size(it_peer:term({kprof_reply, Ref, 0}))),
            it_peer:frame(Conn, [Head, Bytes])
    end.

%% The elements of a list of one, as bytes.
part(Term) ->
    <<131, 108, 1:32, Rest/binary>> = Term,
    binary:part(Rest, 0, byte_size(Rest) - 1).

%% A module that is not there, in a node with very many others.
others(Name) ->
    N = many(10000),
    [<<104, 4, 119, 1>>, Name, <<119, 5, "error", 119, 7, "nofile!", 108, N:32>>, binary:copy(<<119, 4, "eprx">>, N), 106].

deep(0) -> [];
deep(N) -> {deep(N - 1)}.

%% Terminal escapes, an end of line, a NUL, a character that turns text around,
%% and bytes that are no text at all.
hostile_text() -> <<"\e[2J\e]0;x\a\r\nkprofd: all is well", 0, 16#202E/utf8, 255, 254, 16#C0, 16#80>>.

%% Of one that it cannot load, may be sent, or was sent.
library(#{build := Build} = T) ->
    {ok, Ours} = file:read_file(filename:join(Build, "kprof_probe.so")),
    Answer = fun(Term) -> fun(Conn, Ref, _) -> it_peer:answer(Conn, Ref, Term) end end,
    Hostile = binary:copy(hostile_text(), 10000),
    Not = [{error, Hostile}, {error, {load_failed, Hostile}}, {error, 7}, {error}, {}, 7, <<>>, Hostile, deep(200), [ok]],
    %% Refused at the first question, and then what was sent is.
    Lie = fun(I) when I =< length(Not) -> #{accepts => Answer(lists:nth(I, Not))};
             (I) -> #{sent => Answer(lists:nth(I - length(Not), Not))}
          end,
    Lies = fun(N) ->
                   L = Lie((N - 1) rem (2 * length(Not)) + 1),
                   L#{probe => fun(Conn, Ref, {probe, _, {sent, Bytes}, _}) ->
                                       it:equal("its bytes", Ours, Bytes),
                                       (maps:get(sent, L))(Conn, Ref, sent);
                                  (Conn, Ref, _) ->
                                       it_peer:answer(Conn, Ref, {error, {load_failed, "none is here"}})
                               end}
           end,
    Targets = [it_peer:start(T, fun(_) -> Lies(I) end) || I <- lists:seq(1, 2 * length(Not))],
    P = start(T, Targets, #{args => ["-interval", "1s", "-probe", "auto", "-probe-send"]}),
    it:until("all take the relay", fun() -> it:count(P, "probe of '.*': relay: .*none is here.*; nor ") =:= length(Targets) end),
    it:until("all are armed", fun() -> it:times_armed(P) =:= length(Targets) end),
    it:equal("text that is none", nomatch, re:run(it:errors(P), "[\\x00-\\x09\\x0b-\\x1f]")),
    survived(T, P, ?QUIET_MIB).

%% --------------------------------------------------------------- epmd ----

epmd(T) ->
    {ok, L} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Silent} = inet:port(L),        % takes connections and says nothing
    Say = fun(Bytes) -> fun(S) -> gen_tcp:send(S, Bytes), gen_tcp:close(S) end end,
    Port = fun(N) -> Say(<<119, 0, N:16, 77, 0, 6:16, 5:16, 1:16, "x", 0:16>>) end,
    Slow = fun(S) -> [begin gen_tcp:send(S, <<B>>), receive after 700 -> ok end end || <<B>> <= binary:copy(<<119, 0>>, 50)] end,
    None = "no epmd answers at '127.0.0.1' port [0-9]+: something else does",
    Cases = [{"the port of nobody", Port(1), "Connection refused"},
             {"port 0", Port(0), ".*"},
             {"the port of a mute", Port(Silent), "no answer within 7 s"},
             {"garbage", Say(binary:copy(<<255>>, 100000)), None},
             {"a part", Say(<<119>>), None},
             {"a name of 64 KB", Say([<<119, 0, Silent:16, 77, 0, 6:16, 5:16, 16#FFFF:16>>, binary:copy(<<"x">>, 16#FFFF)]), "no answer within"},
             {"versions of tomorrow", Say(<<119, 0, Silent:16, 77, 0, 99:16, 98:16, 1:16, "x", 0:16>>), "version|closed|no such node|no answer"},
             {"nothing", fun(_) -> receive after infinity -> ok end end, "no answer within"},
             {"byte after byte", Slow, "port 30464: Connection refused|no answer within"},
             {"the end", fun gen_tcp:close/1, None}],
    Started = [begin
                   Epmd = it_peer:epmd(T, Answer),
                   {What, Pattern, Epmd, start(T#{epmd := maps:get(port, Epmd)}, Epmd, #{})}
               end || {What, Answer, Pattern} <- Cases],
    Note = note(T, [{What, "cannot connect to ", Pattern, Epmd, P} || {What, Pattern, Epmd, P} <- Started]),
    gen_tcp:close(L),
    Note.

%% ----------------------------------------------------- again and again ----

%% A target that was attached is waited for whatever is in its place meanwhile.
attempts(T) ->
    Mid = fun(S, Whole) -> it_peer:raw(#{socket => S}, binary:part(Whole, 0, byte_size(Whole) div 2)), gone(S) end,
    Lies = #{2 => #{status => Mid}, 3 => #{ack => Mid}, 4 => #{start => fun(Conn, _, _) -> it_peer:raw(Conn, <<-1:32>>) end}},
    {Peer, P} = armed(T, fun(N) -> maps:get(N, Lies, #{}) end, fun(Conn) -> receive after 100 -> it_peer:close(Conn) end end),
    [said(P, Peer, What) || What <- ["it closed the connection; trying again", "during the handshake", "cookie refused",
                                     "frame that is too large"]],
    it:until("attached again", fun() -> length(binary:matches(it:errors(P), <<"kprofd: profiling ">>)) >= 2 end),
    survived(T, P, ?QUIET_MIB).

%% ----------------------------------------------------------- once armed ----

nonsense(T) ->
    rand:seed(exsss, 4),
    Random = [rand:bytes(1 + rand:uniform(2000)) || _ <- lists:seq(1, many(200))],
    Stranger = it_peer:pid(#{node => "stranger@127.0.0.1"}, 3),
    Big = binary:copy(<<97, 1>>, 15 * ?MIB),
    {Peer, P} = armed(T, fun truth/1,
        fun(#{daemon := Daemon} = Conn) ->
                Payloads = [<<>>, <<131>>, <<130, 97, 1>>, <<131, 108, 16#FFFFFFFF:32>>, <<131, 104, 255>>,
                            <<131, 109, 16#FFFFFFFF:32, "x">>, <<131, 116, 16#FFFFFFFF:32>>,
                            <<131, 110, 255, 0, 1>>, <<131, 111, 16#FFFFFFFF:32, 0>>, <<131, 80, 1000:32, "zip">>,
                            <<131, 118, 16#FFFF:16>>, [<<131, 118, 16#FFFF:16>>, binary:copy(<<"a">>, 16#FFFF)],
                            [<<131>>, binary:copy(<<104, 1>>, ?MIB), 106],
                            [<<131>>, binary:copy(<<108, 1:32>>, ?MIB), 106],
                            [<<131, 108, (15 * ?MIB):32>>, Big, 106],
                            it_peer:term({kprof_events, 1, 2}), it_peer:term({kprof_events, a, b, c, d, e}),
                            it_peer:term({kprof_events, 1, 2, 3, 4, [a, {}, [], {trace_ts, 1, 2, 3, 4, 5}]}),
                            it_peer:term({kprof_status}), it_peer:term({kprof_notice, trip}),
                            it_peer:term({unknown, 1})],
                [it_peer:frame(Conn, Payload) || Payload <- Payloads ++ Random],
                Body = fun(Bytes) -> it_peer:raw(Conn, [<<(iolist_size(Bytes)):32>>, Bytes]) end,
                %% Distribution headers and fragments, which kprofd has not offered.
                Body([<<131, 68, 0>>, it_peer:term({2, '', Daemon}), it_peer:term(hello)]),
                [Body(<<131, 69, 7:64, N:64, 0, "part">>) || N <- [900, 899, 17, 900, 3]],
                [Body(<<131, 70, 7:64, N:64, "part">>) || N <- [900, 2, 16#FFFFFFFF, 1]],
                [Body([112, it_peer:term(Control), it_peer:term(hello)])
                 || Control <- [{}, {0}, {2}, {2, '', 7}, {2, '', Stranger}, {6, Stranger, '', kprofd}, {6, 7, 7, 7},
                                {99, a}, {1, Daemon, Daemon}, {3, Daemon, Daemon, kill}, {8, Daemon, Daemon, kill}, [2],
                                {1 bsl 80}]],
                [Body(Bytes) || Bytes <- [<<0>>, <<112>>, <<112, 131>>, <<112, 131, 104>> | Random]],
                %% Answers to what nobody asked.
                [it_peer:answer(Conn, Ref, Result) || Ref <- [-1, 0, 1, 7, 1 bsl 40 - 1, 1 bsl 40, 1 bsl 40 + 1, 1 bsl 41 + 1, 1 bsl 63, foo],
                                                      Result <- [ok, [], foo, [{a, ok, [], [], []}]]],
                [it_peer:say(Conn, {rex, Result}) || Result <- [undefined, false, {ok, Daemon, it_peer:hello(Conn)}, foo]]
        end),
    attacked(),
    said(P, Peer, "makes? no sense"),
    Peak = survived(T, P, ?QUIET_MIB),
    {note, io_lib:format("~b MiB at most", [Peak div ?MIB])}.

%% What one byte a turn makes up is taken as it is; a frame that takes longer
%% than an answer may is not.
slowly(T) ->
    %% An answer in the midst of a frame would be part of it.
    Slow = atomics:new(1, []),
    Quiet = fun(_) ->
                    #{lease => fun(Conn, _, _) ->
                                       atomics:get(Slow, 1) =:= 1 orelse it_peer:default(lease, 0, lease, Conn)
                               end}
            end,
    {Peer, P} = armed(T, Quiet,
        fun(Conn) ->
                ok = atomics:put(Slow, 1, 1),
                Now = erlang:monotonic_time(nanosecond),
                {Event, _} = entries(Conn, <<"slow">>),
                Message = it_peer:message(Conn, batch(1, Now, 1, Event([pid_bytes(1), label_bytes(5), time_bytes(Now)]))),
                %% Slowly, but before its lease has run out on a busy machine.
                Soon = Now + 1000000000,
                [begin it_peer:raw(Conn, <<B>>), clock() < Soon andalso receive after 1 -> ok end end
                 || <<B>> <= iolist_to_binary(Message)],
                it_peer:raw(Conn, <<1000:32>>),
                [begin it_peer:raw(Conn, <<0>>), receive after 100 -> ok end end || _ <- lists:seq(1, 900)]
        end),
    said(P, Peer, "the agent does not answer"),
    survived(T, P, ?QUIET_MIB),
    it:check(it:number(P, "select sum(entry_calls) from time_window") >= 1, "the entry that came slowly").

numbers(T) ->
    Max = 16#7FFFFFFFFFFFFFFF,
    Min = -Max - 1,
    {Peer, P} = armed(T, fun truth/1,
        fun(Conn) ->
                Now = erlang:monotonic_time(nanosecond),
                {Event, Return} = entries(Conn, <<"numbers">>),
                One = fun(Seq, At, I, Start) ->
                              it_peer:raw(Conn, it_peer:message(Conn, batch(Seq, At, 2,
                                  [Event([pid_bytes(I), label_bytes(I), time_bytes(Start)]),
                                   Return([pid_bytes(I), time_bytes(Start + 1000000)])])))
                      end,
                %% Backwards, again, and past everything.
                [One(Seq, Now, I, Now) || {I, Seq} <- lists:enumerate([1, 2, 2, 1, 0, 7, 1 bsl 40, 3, Max, 4, Max - 1, Max])],
                [One(1, At, 100 + I, Start) || {I, At} <- lists:enumerate([Now, Min, Max, 0, 1 bsl 62 - 1, -(1 bsl 62) + 1, Now]),
                                               Start <- [Now, Min, Max - 1000000, 0, 1 bsl 62 - 1, -(1 bsl 62) + 1]],
                Status = fun(Other) -> it_peer:say(Conn, it_peer:status(Other)) end,
                [Status(#{K => V}) || K <- [seq, queue, memory, sent, dropped, dropped_entries, entry_calls, unarmed],
                                      V <- [1000, 10, 0, 1 bsl 40]],
                [Status(#{now => V}) || V <- [Now, 0, 1 bsl 62 - 1, -(1 bsl 62) + 1, Now]],
                [Status(#{busy => V}) || V <- [1000, 0, -1000]],
                %% None of these can be: it is another agent then.
                Status(#{entry_calls => Max, sent => Max})
        end),
    attacked(),
    said(P, Peer, "makes no sense; trying again"),
    survived(T, P, ?QUIET_MIB).

%% Each was answered, and as long as they came no time limit was looked at.
ticks(T) ->
    Flood = fun(Conn, _, _) -> flood_of_ticks(Conn, binary:copy(<<0:32>>, 16384)) end,
    Peer = it_peer:start(T, fun(_) -> #{room => Flood, start => Flood} end),
    P = start(T, Peer, #{args => ["-interval", "1s"]}),
    Kprof = it_kprof:background(T, Peer, "stacks", ["-for", "1s"]),
    Peak = until_quiet(T, [P, Kprof], 0),
    it:ended(P, 1, "no answer from the target"),
    {1, "", Error} = it_kprof:ends(Kprof),
    it_kprof:says(Error, "no answer from the node"),
    {note, io_lib:format("~b MiB at most", [Peak div ?MIB])}.

flood_of_ticks(Conn, Ticks) ->
    it_peer:raw(Conn, Ticks),
    flood_of_ticks(Conn, Ticks).

until_quiet(T, Ps, Peak0) ->
    Peak = lists:max([Peak0 | [within(T, P, 64) || P <- Ps]]),
    case lists:any(fun it:is_running/1, Ps) of
        true -> receive after 50 -> until_quiet(T, Ps, Peak) end;
        false -> Peak
    end.


%% Each alone ends the connection; all are tried.
silent(T) ->
    Mute = fun(_) -> #{lease => fun(_, _, _) -> ok end} end,
    {Peer, P} = armed(T, Mute, fun(_) -> receive after infinity -> ok end end),
    said(P, Peer, "the agent does not answer"),
    survived(T, P, ?QUIET_MIB).

%% Asks for an answer, over and over, and takes none of them. A tick is answered once at a
%% time, so what waits for such a peer is little.
unread(T) ->
    Deaf = fun(_) ->
                   #{arm => fun(Conn, Ref, Arm) -> put(armed, true), it_peer:default(arm, Ref, Arm, Conn) end,
                     lease => fun(Conn, Ref, Lease) ->
                                      get(armed) =:= true andalso receive after infinity -> ok end,
                                      it_peer:default(lease, Ref, Lease, Conn)
                              end}
           end,
    Ticks = binary:copy(<<0:32>>, 100000),
    {Peer, P} = armed(T, Deaf,
        fun(#{port := Port} = Conn) ->
                ok = inet:setopts(Port, [{recbuf, 4096}]),
                [it_peer:raw(Conn, Ticks) || _ <- lists:seq(1, 200)]
        end),
    said(P, Peer, "(the agent does not answer|does not read what we send)"),
    survived(T, P, ?QUIET_MIB).

%% Its lease is answered as ever. All would wait for it, nodes that come and go
%% too: it is lost, in every step, and has the new file when it is back.
reload_unanswered(T) ->
    Started = [begin
                   Peer = it_peer:start(T, fun(1) -> #{Question => mute_after(Answers)}; (_) -> #{} end),
                   {Question, Peer, start(T, Peer, #{})}
               end || {Question, Answers} <- [{check, 1}, {rates, 1}, {may, 0}, {change, 0}]],
    [begin
         it:armed(P),
         it:write(T, lists:concat(["tiers", N, ".conf"]), [?TIERS, "{finish, {b, entry, 1}}.\n"])
     end || {N, {_, _, P}} <- lists:enumerate(Started)],
    Test = self(),
    Asked = [spawn_link(fun() -> Test ! {self(), it:control(P, "reload")} end) || {_, _, P} <- Started],
    Answers = [receive {Pid, Answer} -> Answer end || Pid <- Asked],
    [begin
         {ok, Text} = Answer,
         it:check(re:run(Text, "not attached to the target just now") =/= nomatch, "~s: ~ts", [Question, Text]),
         said(P, Peer, "no answer from the target; trying again"),
         it:until("armed again", fun() -> it:times_armed(P) =:= 2 end),
         survived(T, P, ?QUIET_MIB)
     end || {{Question, Peer, P}, Answer} <- lists:zip(Started, Answers)].

%% So many answers, then none.
mute_after(N) ->
    fun(Conn, Ref, Command) ->
            Tag = element(1, Command),
            Said = case get(Tag) of undefined -> 0; More -> More end,
            put(Tag, Said + 1),
            Said < N andalso it_peer:default(Tag, Ref, Command, Conn)
    end.

%% Who is no target any more has no say in what comes, though he stays awhile.
reload_leaving(T) ->
    [Stays, Leaves] = [it_peer:start(T, fun(_) -> Lies end) || Lies <- [#{}, #{stop => fun(_, _, _) -> ok end}]],
    File = it:write(T, "nodes", [[Node, "\n"] || #{node := Node} <- [Stays, Leaves]]),
    P = start(T, [], #{args => ["-target-file", File, "-interval", "1s"]}),
    it:until("both are armed", fun() -> it:times_armed(P) =:= 2 end),
    it:write(T, "nodes", [maps:get(node, Stays), "\n"]),
    {ok, First} = it:control(P, "reload"),
    it:check(re:run(First, "0 added, 1 removed") =/= nomatch, "~ts", [First]),
    it:write(T, "tiers1.conf", [?TIERS, "{finish, {b, entry, 1}}.\n"]),
    {ok, Second} = it:control(P, "reload"),
    it:check(re:run(Second, "is in force: 1 function added") =/= nomatch, "~ts", [Second]),
    said(P, Leaves, "was not detached cleanly"),
    survived(T, P, ?QUIET_MIB).

%% There is room for 64. Who sees how many more is another one each second.
by_turns(T) ->
    Asked = counters:new(1, []),
    Many = [list_to_atom(lists:concat(["turns", I, "@127.0.0.1"])) || I <- lists:seq(1, 70)],
    Nodes = fun(Conn, Ref, nodes) ->
                    counters:add(Asked, 1, 1),
                    it_peer:answer(Conn, Ref, case counters:get(Asked, 1) rem 2 of 0 -> []; 1 -> Many end)
            end,
    Peer = it_peer:start(T, fun(_) -> #{nodes => Nodes} end),
    P = start(T, [], #{args => ["-cluster", maps:get(node, Peer), "-match", "*", "-interval", "1s"]}),
    it:saw(P, "warning: 7 more nodes are wanted"),
    it:until("they are seen by turns", fun() -> counters:get(Asked, 1) >= 7 end),
    survived(T, P, ?QUIET_MIB),
    it:equal("told", 1, it:number(P, "select count(*) from events where kind = 'too_many'")).

%% Each would be a line of the log and a row of the database.
notices(T) ->
    Text = binary:copy(hostile_text(), 20),
    N = many(5000),
    {Peer, P} = armed(T, fun truth/1,
        fun(Conn) ->
                Notices = [it_peer:message(Conn, it_peer:term(Notice))
                           || Notice <- [{kprof_notice, trip, {queue, 7}, 1 bsl 60},
                                         {kprof_notice, neighbours, [{Text, Text}], 1 bsl 60},
                                         {kprof_notice, unexact, {a, entry, 1}, 1 bsl 60},
                                         {kprof_notice, code, {a, reloaded, 16#7FFFFFFFFFFFFFFF, -5}, -1 bsl 62},
                                         {kprof_notice, code, {Text, deleted, 1, 1}, 1},
                                         {kprof_notice, Text, Text, 1}, {kprof_notice, trip, Text, 0}]],
                Many = lists:duplicate(100, Notices),
                [it_peer:raw(Conn, Many) || _ <- lists:seq(1, N div 100)]
        end),
    attacked(),
    said(P, Peer, "not logged"),
    survived(T, P, ?QUIET_MIB),
    Rows = it:number(P, "select count(*) from events"),
    it:check(Rows > 10 andalso Rows < 2000, "~b events of ~b notices", [Rows, 7 * N]).

%% Names of all kinds that a target gives end in the log, the database and the
%% reports: without what a terminal would obey, and as text.
names(T) ->
    Hostile = hostile_text(),
    Bad = <<"e", Hostile/binary>>,
    {_, P} = armed(T, fun truth/1,
        fun(Conn) ->
                Now = erlang:monotonic_time(nanosecond),
                [begin
                     {Event, Return} = entries(Conn, Name),
                     Start = Now - 400000000 + I * 1000000,
                     it_peer:raw(Conn, it_peer:message(Conn, batch(I, Now, 2,
                         [Event([pid_bytes(I), label_bytes(I), time_bytes(Start)]),
                          Return([pid_bytes(I), time_bytes(Start + 50000000)])])))
                 end || {I, Name} <- lists:enumerate([Hostile, Bad, {Hostile, Bad}, [Bad | Hostile], "list", [16#10FFFF, 16#D800, -1, 1 bsl 70],
                                                      deep(250), 1 bsl 1000, 1.5, #{Hostile => Bad}, self(), make_ref(), <<1:3>>,
                                                      fun hostile_tests:tests/0, binary:copy(<<16#202E/utf8>>, 1000)])],
                {Entry, End} = entries(Conn, <<"calls">>),
                Call = fn_call(Conn, <<"f", Hostile/binary>>),
                it_peer:raw(Conn, it_peer:message(Conn, batch(100, Now, 3,
                    [Entry([pid_bytes(99), label_bytes(99), time_bytes(Now - 400000000)]),
                     Call([pid_bytes(99), label_bytes(99), time_bytes(Now - 300000000)]),
                     End([pid_bytes(99), time_bytes(Now - 200000000)])])))
        end),
    attacked(),
    it:until("requests are there", fun() -> assembled(P) >= 10 end),
    {ok, _} = it:control(P, "dump"),
    survived(T, P, ?QUIET_MIB),
    Columns = [{"identity", "name"}, {"function", "name"}, {"event", "text"}],
    Texts = [Row || {Table, Column} <- Columns, [Row] <- it:sql(P, ["select hex(", Column, ") from ", Table])],
    it:check(length(Texts) > 10, "~b texts", [length(Texts)]),
    [it:check(is_clean(binary:decode_hex(Hex)), "~s", [Hex]) || Hex <- Texts],
    Tree = it:sql(P, "select hex(name) from function where name like '%f%'"),
    it:check(Tree =/= [], "a function of that name").

is_clean(Text) ->
    case unicode:characters_to_list(Text) of
        Chars when is_list(Chars) -> lists:all(fun(C) -> C >= 16#20 andalso (C < 16#7F orelse C > 16#9F) end, Chars);
        _ -> false
    end.

assembled(P) ->
    {ok, Text} = it:control(P, "status"),
    {match, [N]} = re:run(Text, "([0-9]+) assembled", [{capture, [1], list}]),
    list_to_integer(N).

%% ------------------------------------------------------------- floods ----

%% Send(Conn, N) sends events of N of what the flood is of. kprofd answers in
%% the midst of it, and at the end.
flood(T, Send, N) ->
    {_, P} = armed(T, fun truth/1, fun(Conn) -> Send(Conn, many(N)) end),
    Asked = until_attacked(P, 0),
    Peak = survived(T, P, ?FLOOD_MIB),
    {note, io_lib:format("~b MiB at most; asked ~b times", [Peak div ?MIB, Asked])}.

until_attacked(P, N) ->
    receive {attacked, _} -> N
    after 200 ->
            {ok, _} = it:control(P, "status"),
            until_attacked(P, N + 1)
    end.

%% Messages of 2000 events with numbers From, From + 1, ...; Make(I, Now) gives
%% the bytes of all events of number I, Each of them.
send_all(Conn, N, Each, Clock, Make) ->
    send_all(Conn, 0, N, 1, 2000 div Each, Each, Clock, Make).

send_all(_, N, N, _, _, _, _, _) -> ok;
send_all(Conn, From, N, Seq, Step, Each, Clock, Make) ->
    To = min(From + Step, N),
    Now = Clock(),
    Events = [Make(I, Now) || I <- lists:seq(From, To - 1)],
    it_peer:raw(Conn, it_peer:message(Conn, batch(Seq, Now, (To - From) * Each, Events))),
    send_all(Conn, To, N, Seq + 1, Step, Each, Clock, Make).

clock() -> erlang:monotonic_time(nanosecond).

labels(T) -> flood(T, fun labels/2, 100000).

labels(Conn, N) ->
    {Entry, _} = entries(Conn, <<"label">>),
    send_all(Conn, N, 1, fun clock/0,
             fun(I, Now) -> Entry([pid_bytes(I rem 200000), label_bytes(I), time_bytes(Now)]) end).

%% Nothing is ever due.
frozen(Conn, N) ->
    Then = clock(),
    {Entry, _} = entries(Conn, <<"frozen">>),
    Call = call(Conn),
    send_all(Conn, N, 2, fun() -> Then end,
             fun(I, Now) ->
                     [Entry([pid_bytes(I), label_bytes(I), time_bytes(Now)]),
                      Call([pid_bytes(I), label_bytes(I + 1 bsl 40), time_bytes(Now)])]
             end).

backwards(Conn, N) ->
    {Entry, _} = entries(Conn, <<"back">>),
    send_all(Conn, N, 1, fun clock/0,
             fun(I, Now) -> Entry([pid_bytes(I), label_bytes(I), time_bytes(Now - I * 1000)]) end).

processes(Conn, N) ->
    Call = call(Conn),
    send_all(Conn, N, 1, fun clock/0,
             fun(I, Now) -> Call([pid_bytes(I), label_bytes(1 + I rem 1000), time_bytes(Now)]) end).

identities(Conn, N) ->
    {Entry, Return} = entries(Conn, <<"ID_ID_ID">>, [<<"ID_ID_ID">>]),
    send_all(Conn, N, 2, fun clock/0,
             fun(I, Now) ->
                     [Entry([pid_bytes(I rem 1000), <<I:64>>, label_bytes(I), time_bytes(Now - 2000)]),
                      Return([pid_bytes(I rem 1000), time_bytes(Now - 1000)])]
             end).

%% They differ at their ends only; more of them than are remembered.
large_identities(Conn, _) ->
    N = case whole() of true -> 10000; false -> 400 end,
    {Entry, Return} = entries(Conn, <<(binary:copy(<<"a">>, ?MIB))/binary, "ID_ID_ID">>, [<<"ID_ID_ID">>]),
    [send_all(Conn, 1, 2, fun clock/0,
              fun(_, Now) ->
                      [Entry([pid_bytes(I rem 1000), <<I:64>>, label_bytes(I), time_bytes(Now - 2000)]),
                       Return([pid_bytes(I rem 1000), time_bytes(Now - 1000)])]
              end) || I <- lists:seq(1, N)].

functions(Conn, N) ->
    Mark = list_to_atom(lists:duplicate(200, $f) ++ "FN_FN_FN"),
    Call = it_peer:pack({trace_ts, it_peer:pid(Conn, mark_pid()), call, {a, Mark, 1}, {[], token(Conn), {a, Mark, 2}}, mark_time()},
                        [pid_mark(), <<"FN_FN_FN">>, label_mark(), <<"FN_FN_FN">>, time_mark()]),
    {Entry, _} = entries(Conn, <<"functions">>),
    send_all(Conn, N, 2, fun clock/0,
             fun(I, Now) ->
                     Fn = io_lib:format("~8.16.0B", [I]),
                     [Entry([pid_bytes(I rem 1000), label_bytes(I), time_bytes(Now)]),
                      Call([pid_bytes(I rem 1000), Fn, label_bytes(I), Fn, time_bytes(Now)])]
             end).

calls(Conn, N) ->
    {Entry, _} = entries(Conn, <<"one">>),
    Call = call(Conn),
    it_peer:raw(Conn, it_peer:message(Conn, batch(1, clock(), 1, Entry([pid_bytes(1), label_bytes(7), time_bytes(clock())])))),
    send_all(Conn, N, 1, fun clock/0,
             fun(I, Now) -> Call([pid_bytes(I rem 1000), label_bytes(7), time_bytes(Now - I rem 100000)]) end).

%% Events as bytes: what differs from one to the next is put in by marks, in
%% the order in which it stands in an event.
entries(Conn, Identity) -> entries(Conn, Identity, []).

entries(Conn, Identity, Marks) ->
    Pid = it_peer:pid(Conn, mark_pid()),
    {it_peer:pack({trace_ts, Pid, call, {a, entry, 1}, {Identity, {a, caller, 0}, 1, token(Conn), true, [], []}, mark_time()},
                  [pid_mark()] ++ Marks ++ [label_mark(), time_mark()]),
     it_peer:pack({trace_ts, Pid, return_to, {a, caller, 0}, mark_time()}, [pid_mark(), time_mark()])}.

call(Conn) -> fn_call(Conn, <<"query">>).

%% The name as bytes, since atoms of this node's are text.
fn_call(Conn, Name) ->
    Pack = it_peer:pack({trace_ts, it_peer:pid(Conn, mark_pid()), call, {b, 'FN_FN_FN', 1}, {[], token(Conn), {b, caller, 0}}, mark_time()},
                        [pid_mark(), <<119, 8, "FN_FN_FN">>, label_mark(), time_mark()]),
    fun([P, L, At]) -> Pack([P, [119, byte_size(Name), Name], L, At]) end.

token(Conn) -> {0, mark_label(), 0, it_peer:pid(Conn, 1), 0}.

mark_pid() -> 16#51525354.
mark_label() -> 16#A1A2A3A4A5A6A7.
mark_time() -> -16#5172737475767778.
pid_mark() -> <<(mark_pid()):32>>.
label_mark() -> <<110, 7, 0, (mark_label()):56/little>>.
time_mark() -> <<110, 8, 1, (-mark_time()):64/little>>.

pid_bytes(I) -> <<(I + 1):32>>.
label_bytes(I) -> <<110, 7, 0, (I + 1):56/little>>.
time_bytes(Ns) -> <<110, 8, (if Ns < 0 -> 1; true -> 0 end), (abs(Ns)):64/little>>.

batch(Seq, At, Count, Events) ->
    Term = it_peer:term({kprof_events, Seq, At, 0, 0, []}),
    [binary:part(Term, 0, byte_size(Term) - 1), <<108, Count:32>>, Events, 106].

%% ----------------------------------------------------- control socket ----

%% They take all places, for as long as they may; when they have gone, whoever
%% means well is answered as ever.
control(T) ->
    {Peer, P} = armed(T, fun truth/1, fun(_) -> receive after infinity -> ok end end),
    Connect = fun() ->
                      case gen_tcp:connect({local, it:db(P) ++ ".sock"}, 0, [local, binary, {active, false}]) of
                          {ok, S} -> [S];
                          {error, _} -> []
                      end
              end,
    Crowd = fun(Text) ->
                    Ss = lists:append([Connect() || _ <- lists:seq(1, 64)]),
                    it:check(length(Ss) >= 16, "~b connections", [length(Ss)]),
                    [gen_tcp:send(S, Text) || S <- Ss],
                    Ss
            end,
    Gone = fun(Ss) ->
                   [gen_tcp:close(S) || S <- Ss],
                   it:until("kprofd answers again", fun() -> answers(P) end)
           end,
    [Gone(Crowd(Text)) || Text <- ["", "stat", "status json\n", "status\nstatus\n", binary:copy(<<"x">>, 1023), "dump\n", "reload\n",
                                   "clear-tokens\n", <<0, 255, 10>>, "pause\n", "resume\n"]],
    %% More than fits, to one who reads it as far as that.
    [begin
         [S] = Connect(),
         [gen_tcp:send(S, binary:copy(Byte, ?MIB)) || _ <- lists:seq(1, 20)],
         Gone([S])
     end || Byte <- [<<"x">>, <<0>>, <<10>>]],
    [S] = Connect(),
    ok = gen_tcp:send(S, binary:copy(<<"y">>, 2000)),
    {ok, Answer} = gen_tcp:recv(S, 0, 30000),
    it:check(re:run(Answer, "the command is too long") =/= nomatch, "~ts", [Answer]),
    Gone([S]),
    %% The last ones stay while it ends.
    _ = Crowd("status\n"),
    Peak = within(T, P, ?QUIET_MIB),
    it:terminate(P),
    sane(P),
    it:check(it_peer:connections(Peer) =:= 1, "one connection to the target"),
    {note, io_lib:format("~b MiB at most", [Peak div ?MIB])}.

answers(P) ->
    try it:control(P, "status") of
        {ok, _} -> true;
        {error, <<"kprofd is busy", _/binary>>} -> false
    catch
        _:_ -> false
    end.
