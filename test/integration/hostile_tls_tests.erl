%% The peers that lie (hostile_tests), behind TLS: the same lies in an encrypted
%% channel, and lies of the channel itself. kprofd does not crash, stays within a
%% bound of memory, and says which node it was and what was wrong.
-module(hostile_tls_tests).

-export([tests/0]).

-define(ALERT, 21).
-define(HANDSHAKE, 22).
-define(DATA, 23).

tests() ->
    [{Name ++ ", over TLS", Limit, fun(T) -> Test(T#{transport => tls}) end}
     || {Name, Limit, Test} <- [{"lies in the handshake", 90, fun hostile_tests:handshake/1},
                                {"lies before anything is armed", 120, fun hostile_tests:before_armed/1},
                                {"another lie at each attempt", 120, fun hostile_tests:attempts/1},
                                {"nonsense once armed", 120, fun hostile_tests:nonsense/1},
                                {"frames one byte at a time", 90, fun hostile_tests:slowly/1},
                                {"a peer that falls silent", 90, fun hostile_tests:silent/1},
                                {"a peer that does not read", 90, fun hostile_tests:unread/1},
                                {"a flood of labels", 600, fun hostile_tests:labels/1}]] ++
    [{Name, 90, fun(T) -> Test(T#{transport => tls}) end}
     || {Name, Test} <- [{"in place of TLS", fun instead/1}, {"the end of an encrypted channel", fun ends/1},
                         {"keys that change all the time", fun keys/1}]].

%% ----------------------------------------------- in place of the handshake ----

%% Bytes in place of the handshake of TLS; then the end, or silence.
instead(T) ->
    Bytes = fun(Text) -> fun(Port) -> heard(Port), _ = gen_tcp:send(Port, Text), left(Port) end end,
    Mute = fun(Text) -> fun(Port) -> heard(Port), _ = gen_tcp:send(Port, Text), receive after infinity -> ok end end end,
    Late = "no answer to the TLS handshake in time",
    Closed = "closed the connection during the TLS handshake",
    Other = "does not speak TLS",
    hostile_tests:all_fail(T, [{What, #{tls => Lie}, Pattern}
        || {What, Lie, Pattern} <-
               [{"the end", Bytes(""), Closed},
                {"another protocol", Bytes("HTTP/1.1 400 Bad Request\r\n\r\n"), Other},
                {"a node that is not encrypted", Bytes(<<3:16, "sok">>), [Other, "|", Closed]},
                {"much that is nothing", Bytes(binary:copy(<<255>>, 200000)), Other},
                {"a record of 64 KB", Bytes([<<?HANDSHAKE, 3, 3, 16#FFFF:16>>, binary:copy(<<2>>, 16#FFFF)]), Other},
                {"a message that lies about its length", Bytes(record(?HANDSHAKE, <<2, 16#FFFFFF:24, 3, 3, 0:256>>)),
                 "TLS failed: excessive message size"},
                {"data before anything", Bytes(record(?DATA, <<"sok">>)), "TLS failed: unexpected message"},
                {"warnings without end", Bytes(lists:duplicate(10000, record(?ALERT, <<1, 112>>))),
                 "TLS failed: too many warn alerts"},
                {"an alert", Bytes(record(?ALERT, <<2, 40>>)), "the node ended the TLS handshake"},
                {"an alert that there is not", Bytes(record(?ALERT, <<2, 255>>)), "TLS failed"},
                {"a part of a record, then the end", Bytes(<<?HANDSHAKE, 3, 3, 100:16, 2, 0>>), Closed},
                {"a part of a record, then silence", Mute(<<?HANDSHAKE, 3, 3, 100:16, 2, 0>>), Late},
                {"silence", Mute(""), Late},
                {"a byte a second", fun slow/1, Late}]]).

record(Type, Bytes) -> <<Type, 3, 3, (byte_size(Bytes)):16, Bytes/binary>>.

%% The client's first words are read: else they would be what the end is about.
heard(Port) ->
    {ok, _} = gen_tcp:recv(Port, 0, 60000).

left(Port) ->
    gen_tcp:close(Port).

slow(Port) ->
    heard(Port),
    [case gen_tcp:send(Port, <<B>>) of
         ok -> receive after 1000 -> ok end;
         {error, _} -> ok
     end || <<B>> <= record(?HANDSHAKE, binary:copy(<<2>>, 60))],
    left(Port).

%% --------------------------------------------------- below what is armed ----

%% Each of them ends the connection of a kprofd, which comes again.
ends(T) ->
    Attacks = [{"closes, which TLS did not say", fun close/1, "it closed the connection"},
               {"ends in a record", fun(#{port := Port} = Conn) -> part(Port), close(Conn) end, "it closed the connection"},
               {"a record of another's key", fun(#{port := Port}) -> send(Port, record(?DATA, binary:copy(<<7>>, 100))) end,
                "TLS failed|record"},
               {"what is no record", fun(#{port := Port}) -> send(Port, binary:copy(<<255>>, 100000)) end, "TLS"},
               {"a record that is never whole", fun(#{port := Port}) -> part(Port) end, "the agent does not answer"}],
    Test = self(),
    Started = [begin
                   First = counters:new(1, []),
                   {Peer, P} = hostile_tests:armed(T, fun hostile_tests:truth/1,
                       fun(Conn) ->
                               counters:add(First, 1, 1),
                               counters:get(First, 1) =:= 1 andalso begin
                                   Test ! {First, self()},
                                   receive First -> Attack(Conn) end
                               end
                       end),
                   %% A connection that ends before kprofd profiles is not made again.
                   receive {First, Attacker} -> Attacker ! First end,
                   {What, Peer, P, Pattern}
               end || {What, Attack, Pattern} <- Attacks],
    [begin
         hostile_tests:said(P, Peer, Pattern),
         it:until([What, ": armed again"], fun() -> it:times_armed(P) >= 2 end),
         it:equal([What, ": times lost"], 1, it:count(P, "^kprofd: warning: lost '")),
         hostile_tests:survived(T, P, quiet)
     end || {What, Peer, P, Pattern} <- Started].

close(#{port := Port}) -> ok = gen_tcp:shutdown(Port, read_write).

part(Port) -> send(Port, <<?DATA, 3, 3, 1000:16, "a part">>).

send(Port, Bytes) -> ok = gen_tcp:send(Port, Bytes).

%% ------------------------------------------------------------- keys ----

%% Whatever makes work without an end: kprofd answers meanwhile, and goes on or gives
%% that connection up.
keys(T) ->
    [begin
         {_, P} = hostile_tests:armed(T#{ssl => [{versions, [Version]}]}, fun hostile_tests:truth/1,
             fun(#{socket := S}) -> [ok = Change(S) || _ <- lists:seq(1, 1000)] end),
         hostile_tests:attacked(),
         hostile_tests:survived(T, P, quiet)
     end || {Version, Change} <- [{'tlsv1.3', fun(S) -> ssl:update_keys(S, write) end},
                                  {'tlsv1.2', fun renegotiated/1}]].

%% An error is that the other side has had enough.
renegotiated(S) ->
    case get(over) of
        true -> ok;
        _ ->
            case ssl:renegotiate(S) of
                ok -> ok;
                {error, _} -> put(over, true), ok
            end
    end.
