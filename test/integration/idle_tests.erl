%% A target in which nothing happens: a lease a second goes there, and what it
%% answers comes back; nothing else goes over the connection, either way.
-module(idle_tests).

-export([tests/0]).

-define(SECONDS, 10).

tests() ->
    [{"idle: one message a second, each way", 60, fun idle/1}].

idle(T) ->
    Target = it:target(T),
    P = it:kprofd(T, Target),
    it:armed(P),
    %% The first leases go as fast as they are answered, for the clock's sake.
    it:until("it has come to rest", fun() -> is_at_rest(Target) end),
    {Got0, Sent0, At0} = frames(Target),
    receive after ?SECONDS * 1000 -> ok end,
    {Got1, Sent1, At1} = frames(Target),
    it:terminate(P),
    %% Some that were late may come together with the next.
    Most = (At1 - At0) div 1000 + 2,
    {Got, Sent} = {Got1 - Got0, Sent1 - Sent0},
    it:check(Got >= 1 andalso Sent >= 1, "it is seen what comes (~b) and goes (~b)", [Got, Sent]),
    it:check(Got =< Most andalso Sent =< Most, "~b came and ~b went, of ~b at most", [Got, Sent, Most]),
    {note, io_lib:format("~b came, ~b went in ~b ms", [Got, Sent, At1 - At0])}.

%% Fewer in two seconds than go while the clock is looked at.
is_at_rest(Target) ->
    {Got0, _, _} = frames(Target),
    receive after 2000 -> ok end,
    {Got1, _, _} = frames(Target),
    Got1 - Got0 =< 3.

%% Of the connection with kprofd, as the target's kernel has them.
frames(Target) ->
    [Port] = [Port || {Node, Port} <- it:call(Target, erlang, system_info, [dist_ctrl]),
                      lists:prefix("kprofd", atom_to_list(Node))],
    {ok, Counts} = it:call(Target, inet, getstat, [Port, [recv_cnt, send_cnt]]),
    {proplists:get_value(recv_cnt, Counts), proplists:get_value(send_cnt, Counts),
     it:call(Target, erlang, monotonic_time, [millisecond])}.
