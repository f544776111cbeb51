%% apps_stanzas - counts within ejabberd what its clients send, by the hook that
%% ejabberd has for that: user_send_packet.
-module(apps_stanzas).

-export([start/1, counts/0, reset/0, count/1]).

start(Host) ->
    Self = self(),
    spawn(fun() ->
                  ?MODULE = ets:new(?MODULE, [named_table, public]),
                  ok = ejabberd_hooks:add(user_send_packet, Host, ?MODULE, count, 0),
                  Self ! ?MODULE,
                  receive stop -> ok end
          end),
    receive ?MODULE -> ok end.

%% Records of xmpp.hrl: {iq, Id, Type, ...}, {message, Id, Type, ...} ...
count({Packet, _} = Acc) ->
    Key = {element(1, Packet), element(3, Packet)},
    _ = ets:update_counter(?MODULE, Key, 1, {Key, 0}),
    Acc.

counts() -> maps:from_list(ets:tab2list(?MODULE)).
reset() -> ets:delete_all_objects(?MODULE).
