%% it_peer - plays a target to kprofd, and lies.
%%
%% A node as far as kprofd can see: registered with epmd, it goes through the
%% real handshake with the cookie, answers what kprofd asks of rex and of its
%% agent, and says what it likes. Written out byte by byte, since a node of
%% Erlang's own would not send what is tried here.
%%
%% What a connection does otherwise than a target is a map:
%%
%%   status, challenge, ack   fun(Socket, Message): in place of sending that
%%                            message of the handshake
%%   whereis, module_loaded, room, start, probe, check, rates, arm, lease, stop, ...
%%                            fun(Conn, Ref, Command): in place of the answer
%%   armed                    fun(Conn), in a process of its own, once armed
%%   cookie                   another one
%%   tls                      fun(Port), in place of the handshake of TLS
%%   flags                    another release's, of 64 bits
%%   name                     fun(Message): is shown the name that kprofd sends
%%
%% A socket is in raw mode all the time: whoever sends sees to the lengths.
%%
%% With T#{transport => tls} all that is encrypted. Conn has the socket of TCP
%% below, too, as `port`.
-module(it_peer).

-export([start/2, connections/1, epmd/2]).
-export([default/4, hello/1, status/1, answer/3, events/5]).
-export([say/2, frame/2, message/2, raw/2, close/1, packet/2, length_of/2, term/1, pid/2, pack/2]).

-define(WAIT_MS, 60000).
-define(PASS_THROUGH, 112).
-define(FLAGS, 16#D07DF7FBD).
-define(NODE_TYPE, 77).

%% Lies: fun(N) gives the map for the N-th connection. #{node} is for it:kprofd/3.
start(#{n := N} = T, Lies) ->
    {ok, L} = gen_tcp:listen(0, [binary, {packet, raw}, {active, false}, {ip, {127, 0, 0, 1}}, {backlog, 64},
                                 {nodelay, true}]),
    {ok, Port} = inet:port(L),
    Alive = lists:concat(["it", os:getpid(), "_", N, "_", erlang:unique_integer([positive])]),
    Epmd = register(it:epmd_port(T), Alive, Port),
    Counter = counters:new(1, []),
    Peer = #{node => Alive ++ "@127.0.0.1", epmd => Epmd, connections => Counter, lies => Lies,
             reach => it_reach:options(T, T), tls => it_reach:is_tls(T) andalso tls(T)},
    Pid = spawn_link(fun() -> accept(L, Peer) end),
    ok = gen_tcp:controlling_process(L, Pid),
    Peer.

tls(T) ->
    {ok, _} = application:ensure_all_started(ssl),
    [{certfile, it_certs:here(T, "node.pem")}, {keyfile, it_certs:here(T, "node.key")},
     {cacertfile, it_certs:here(T, "ca.pem")}, {verify, verify_peer}, {fail_if_no_peer_cert, true},
     {log_level, none}, {active, false}, binary | maps:get(ssl, T, [])].

connections(#{connections := Counter}) ->
    counters:get(Counter, 1).

%% Source: "Distribution Protocol", ALIVE2_REQ. The connection is the registration.
register(EpmdPort, Alive, Port) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, EpmdPort, [binary, {packet, raw}, {active, false}]),
    Request = [120, <<Port:16, ?NODE_TYPE, 0, 6:16, 5:16, (length(Alive)):16>>, Alive, <<0:16>>],
    ok = gen_tcp:send(S, [<<(iolist_size(Request)):16>>, Request]),
    {ok, <<_, 0>>} = gen_tcp:recv(S, 2, ?WAIT_MS),
    S.

%% In place of an epmd: Answer is given the socket after a whole question.
epmd(#{n := N}, Answer) ->
    {ok, L} = gen_tcp:listen(0, [binary, {packet, raw}, {active, false}, {ip, {127, 0, 0, 1}}, {backlog, 64},
                                 {nodelay, true}]),
    {ok, Port} = inet:port(L),
    Pid = spawn_link(fun() -> epmd_accept(L, Answer) end),
    ok = gen_tcp:controlling_process(L, Pid),
    #{node => lists:concat(["it", os:getpid(), "_", N, "@127.0.0.1"]), port => Port}.

epmd_accept(L, Answer) ->
    {ok, S} = gen_tcp:accept(L),
    Pid = spawn_link(fun() ->
                             receive go -> ok end,
                             case gen_tcp:recv(S, 0, ?WAIT_MS) of
                                 {ok, _} -> Answer(S);
                                 {error, _} -> ok    % only looks whether one is there
                             end
                     end),
    ok = gen_tcp:controlling_process(S, Pid),
    Pid ! go,
    epmd_accept(L, Answer).

accept(L, #{connections := Counter, lies := Lies} = Peer) ->
    {ok, S} = gen_tcp:accept(L),
    counters:add(Counter, 1, 1),
    N = counters:get(Counter, 1),
    Pid = spawn_link(fun() ->
                             receive go -> ok end,
                             serve(#{port => S, node => maps:get(node, Peer), lies => Lies(N)}, maps:get(tls, Peer))
                     end),
    ok = gen_tcp:controlling_process(S, Pid),
    Pid ! go,
    accept(L, Peer).

%% ---------------------------------------------------------- handshake ----

%% Ends with the connection, whoever ends it and where.
serve(#{port := Port} = Conn0, Tls) ->
    try encrypted(Conn0, Tls) of
        Conn ->
            try
                ok = handshake(Conn),
                loop(Conn#{agent => pid(Conn, 77)})
            catch
                throw:over -> close(Conn)
            end
    catch
        throw:over -> gen_tcp:close(Port)
    end.

encrypted(#{port := Port} = Conn, false) ->
    Conn#{socket => Port};
encrypted(#{port := Port, lies := #{tls := Lie}}, _) ->
    Lie(Port),
    throw(over);
encrypted(#{port := Port} = Conn, Tls) ->
    case ssl:handshake(Port, Tls) of
        {ok, S} -> Conn#{socket => S};
        {error, _} -> throw(over)
    end.

handshake(#{socket := S, node := Node, lies := Lies}) ->
    Cookie = maps:get(cookie, Lies, it:cookie()),
    Mine = rand:uniform(16#FFFFFFFF),
    Name = recv(S, header(S)),
    case Lies of
        #{name := Look} -> Look(Name);
        _ -> ok
    end,
    step(status, S, "sok", Lies),
    step(challenge, S, challenge(Name, maps:get(flags, Lies, ?FLAGS), Mine, Node), Lies),
    <<$r, Theirs:32, Digest:16/binary>> = reply(S),
    Digest =:= digest(Cookie, Mine) orelse throw(over),
    _ = step(ack, S, [$a, digest(Cookie, Theirs)], Lies),
    ok.

challenge(<<$N, _/binary>>, Flags, Challenge, Node) ->
    [$N, <<Flags:64, Challenge:32, 1:32, (length(Node)):16>>, Node];
challenge(<<$n, _/binary>>, Flags, Challenge, Node) ->
    [$n, <<5:16, (Flags band 16#FFFFFFFF):32, Challenge:32>>, Node].

%% After the older form of its name comes the rest of it.
reply(S) ->
    case recv(S, header(S)) of
        <<$c, _/binary>> -> recv(S, header(S));
        Reply -> Reply
    end.

digest(Cookie, Challenge) ->
    erlang:md5([Cookie, integer_to_list(Challenge)]).

step(Name, S, Message, Lies) ->
    Whole = packet(S, Message),
    case Lies of
        #{Name := Lie} -> Lie(S, iolist_to_binary(Whole));
        _ -> raw(#{socket => S}, Whole)
    end.

%% A message of the handshake.
packet(S, Message) -> [length_of(S, iolist_size(Message)), Message].

length_of(S, Length) -> <<Length:(header(S))>>.

%% The bits of its length.
header(S) when is_port(S) -> 16;
header(_) -> 32.

recv(S, Bits) ->
    Header = Bits div 8,
    <<Length:Bits>> = recv_all(S, Header),
    recv_all(S, Length).

recv_all(_, 0) -> <<>>;
recv_all(S, N) ->
    case recv_some(S, N) of
        {ok, Bytes} -> Bytes;
        {error, _} -> throw(over)
    end.

recv_some(S, N) when is_port(S) -> gen_tcp:recv(S, N);
recv_some(S, N) -> ssl:recv(S, N).

%% ------------------------------------------------------------ answers ----

loop(#{socket := S} = Conn) ->
    case recv(S, 32) of
        <<>> ->
            raw(Conn, <<0:32>>),
            loop(Conn);
        <<?PASS_THROUGH, Terms/binary>> ->
            {Control, Used} = binary_to_term(Terms, [used]),
            {_, Rest} = split_binary(Terms, Used),
            loop(asked(Control, binary_to_term(Rest), Conn))
    end.

asked({6, _, _, rex}, {Daemon, {call, M, F, A, user}}, Conn) ->
    do(question(M, F), none, A, Conn#{daemon => Daemon});
asked({2, _, _}, {kprof, Daemon, Ref, Command}, Conn) ->
    Tag = if is_tuple(Command) -> element(1, Command); true -> Command end,
    do(Tag, Ref, Command, Conn#{daemon => Daemon}).

question(erlang, whereis) -> whereis;
question(erlang, module_loaded) -> module_loaded;
question(kprof_agent, status) -> occupant;
question(lists, map) -> room;
question(erl_eval, expr) -> start.

do(Tag, Ref, Command, #{lies := Lies} = Conn) ->
    case Lies of
        #{Tag := Lie} -> Lie(Conn, Ref, Command);
        _ -> default(Tag, Ref, Command, Conn)
    end,
    Armed = maps:get(armed, Lies, none),
    if Tag =:= arm, Armed =/= none, not is_map_key(is_armed, Conn) ->
            spawn_link(fun() -> try Armed(Conn) catch throw:over -> ok end end),
            Conn#{is_armed => true};
       true -> Conn
    end.

%% What a target and its agent would answer.
default(whereis, _, _, Conn) -> say(Conn, {rex, undefined});
default(module_loaded, _, _, Conn) -> say(Conn, {rex, false});
default(room, _, _, Conn) -> say(Conn, {rex, {badrpc, nothing_known}});
default(start, _, _, #{agent := Agent} = Conn) -> say(Conn, {rex, {ok, Agent, hello(Conn)}});
default(check, Ref, {_, Modules}, Conn) ->
    Functions = [{entry, 1}, {query, 1}],
    answer(Conn, Ref, [{M, ok, Functions, Functions, []} || M <- Modules]);
default(probe, Ref, _, Conn) -> answer(Conn, Ref, {ok, #{active => true}});
default(look, Ref, Command, Conn) -> default(check, Ref, Command, Conn);
default(rates, Ref, {_, Functions, _, _}, Conn) -> answer(Conn, Ref, [{F, 1, false, false} || F <- Functions]);
default(lease, Ref, _, Conn) -> say(Conn, status(#{lease => Ref}));
default(stop, _, _, Conn) ->
    say(Conn, setelement(1, status(#{name => ended, reason => stopped_by_daemon}), kprof_bye));
default(_, 0, _, _) -> ok;
default(_, Ref, _, Conn) -> answer(Conn, Ref, ok).

hello(#{node := Node}) ->
    #{protocol => it:protocol(), node => list_to_atom(Node), otp => "25", time_offset => erlang:time_offset(nanosecond),
      session => false}.

%% What kprof_agent's state_msg/1 sends, with some of it otherwise.
status(Other) ->
    [Now, Offset, Name, Reason, Seq, Queue, Memory, Sent, Dropped, Entries, Calls, Unarmed, Busy, Tiers, Lease] =
        [maps:get(K, Other, V) || {K, V} <- [{now, erlang:monotonic_time(nanosecond)},
                                             {time_offset, erlang:time_offset(nanosecond)}, {name, armed},
                                             {reason, []}, {seq, 0}, {queue, 0}, {memory, 100000}, {sent, 0},
                                             {dropped, 0}, {dropped_entries, 0}, {entry_calls, 0}, {unarmed, 0},
                                             {busy, 0}, {tier_calls, 0}, {lease, 0}]],
    {kprof_status, Now, Offset, Name, Reason, Seq, Queue, Memory, Sent, Dropped, Entries, Calls, Unarmed, Busy, Tiers,
     Lease, 0, 0, 0, 0}.

%% -------------------------------------------------------------- bytes ----

%% Sends, or ends this process's part where the connection is over.
raw(#{socket := S}, Bytes) ->
    case send(S, Bytes) of
        ok -> ok;
        {error, _} -> throw(over)
    end.

send(S, Bytes) when is_port(S) -> gen_tcp:send(S, Bytes);
send(S, Bytes) -> ssl:send(S, Bytes).

close(#{socket := S}) when is_port(S) -> gen_tcp:close(S);
close(#{socket := S}) -> ssl:close(S).

term(Term) ->
    term_to_binary(Term, [{minor_version, 2}]).

%% A message to kprofd's process: a term, or the bytes of one.
say(Conn, Term) -> frame(Conn, term(Term)).
frame(Conn, Payload) -> raw(Conn, message(Conn, Payload)).

message(#{daemon := Daemon}, Payload) ->
    Body = [?PASS_THROUGH, term({2, '', Daemon}), Payload],
    [<<(iolist_size(Body)):32>>, Body].

answer(Conn, Ref, Result) ->
    say(Conn, {kprof_reply, Ref, Result}).

%% A process of the peer's.
pid(#{node := Node}, Id) ->
    binary_to_term(<<131, 88, 119, (length(Node)), (list_to_binary(Node))/binary, Id:32, 0:32, 1:32>>).

%% Number Seq of the batches: Count events, whose bytes these are.
events(Conn, Seq, SentAt, Count, Events) ->
    {Head, _} = split_binary(term({kprof_events, Seq, SentAt, 0, 0, []}), -1 +
                                 byte_size(term({kprof_events, Seq, SentAt, 0, 0, []}))),
    frame(Conn, [Head, <<108, Count:32>>, Events, 106]).

%% Bytes of a term in which others go to the places of these marks, in order of
%% their places: fun([Bytes]) gives them.
pack(Term, Marks) ->
    <<131, Bytes/binary>> = term(Term),
    Parts = cut(Bytes, Marks),
    fun(Others) -> weave(Parts, Others) end.

cut(Bytes, []) -> [Bytes];
cut(Bytes, [Mark | Marks]) ->
    [Before, After] = binary:split(Bytes, Mark),
    [Before | cut(After, Marks)].

weave([Last], []) -> [Last];
weave([Part | Parts], [Other | Others]) -> [Part, Other | weave(Parts, Others)].
