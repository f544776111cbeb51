%% Connections that are lost, in every way: kprofd goes on by itself, attaches
%% again when it can, loses no window, and accounts for every request; the
%% agent leaves the target clean meanwhile.
%%
%% For a cut network kprofd runs in a network namespace of its own (it_net).
-module(connection_tests).

-export([tests/0]).
%% For other kinds of distribution.
-export([cut/2]).

tests() ->
    [{"kprofd stopped: the time without an agent", 90, fun stopped/1},
     {"target killed and started again, under load", 90, fun killed/1},
     {"target hung", 90, fun hung/1},
     {"epmd down", 90, fun no_epmd/1}] ++
    [{"network cut, " ++ Name, 120, fun(T) -> cut(T, Way) end}
     || {Name, Way} <- [{"in silence", both}, {"towards the target", there}, {"towards kprofd", back}]].

%% Its lease ends meanwhile. That the agent has left is read when kprofd goes on: what
%% was lost was counted from then, 535 ms of 15 s. What is called without an agent
%% nobody counts, so that there is a time and no number.
stopped(T) ->
    {Target, Mark, P} = start(T),
    Stopped = now_ms(),
    it:signal(P, "STOP"),
    Left = left(Target),
    Load = it:load(T, Target, ["4", "50"]),
    #{requests := 50} = it:loaded(Load),
    receive after 3000 -> ok end,
    Gone = now_ms() - Left,
    it:signal(P, "CONT"),
    it:until("armed again", 60000, fun() -> it:times_armed(P) >= 2 end),
    Back = now_ms(),
    work(T, Target, P),
    ends(P),
    without_an_agent(P, Gone, Back - Stopped),
    it:equal("those that nobody counted", 100, it:balance(P)),
    it_audit:ends(Target, Mark),
    {note, io_lib:format("~0p, gone for ~b ms at least", [it:losses(P), Gone])}.

%% The agent has left, as it is seen here: soon after.
left(Target) ->
    it:until("the agent has gone", fun() -> it:call(Target, it_stub, agent, []) =:= gone end),
    now_ms().

%% Its last word, where it said no goodbye, is of the last second.
without_an_agent(P, Least, Most) ->
    #{unarmed := Unarmed, uncounted := Uncounted} = Losses = it:losses(P),
    it:check(Least =< Uncounted andalso Uncounted =< Unarmed andalso Unarmed =< Most + 1500,
             "~b to ~b ms without an agent: ~0p", [Least, Most, Losses]).

now_ms() ->
    erlang:monotonic_time(millisecond).

%% What is in flight is lost with the connection, the rest is in the figures.
killed(T) ->
    {Target, _, P} = start(T),
    Times = case os:getenv("KPROFD_FAULTS", "") of "whole" -> 5; _ -> 1 end,
    {Last, Mark} = lists:foldl(fun(_, {At, _}) -> killed(T, At, P) end, {Target, none}, lists:seq(1, Times)),
    work(T, Last, P),
    ends(P),
    it:check(maps:get(disconnected, it:losses(P), 0) > 0, "requests in flight in ~0p", [it:losses(P)]),
    it_audit:ends(Last, Mark).

%% Gives the next one of its name, as it is without kprofd, which is held still
%% meanwhile.
killed(T, Target, P) ->
    Times = it:times_armed(P),
    Load = it:load(T, Target, ["16", "600s"]),
    it:assembles(P, 200),
    it:stop_target(Target),
    it:kill(Load),
    it:saw(P, "lost '"),
    it:signal(P, "STOP"),
    {Again, Mark} = it_audit:begins(T, (slow())#{node => maps:get(node, Target)}),
    it:signal(P, "CONT"),
    it:until("armed again", 60000, fun() -> it:times_armed(P) > Times end),
    More = it:load(T, Again, ["16", "600s"]),
    it:assembles(P, 200),
    it:kill(More),
    {Again, Mark}.

%% A node that does not answer is away, and there again when it does.
hung(T) ->
    {Target, Mark, P} = start(T),
    it:signal(Target, "STOP"),
    it:saw(P, "lost '.*: the agent does not answer; trying again"),
    it:until("a connection that is not answered",
             fun() -> failed(P, "no answer") end),
    it:signal(Target, "CONT"),
    goes_on(T, Target, P, 2),
    ends(P),
    it_audit:ends(Target, Mark).

%% epmd is needed to connect, and for nothing else.
no_epmd(T0) ->
    Port = it:free_port(),
    T = T0#{epmd := Port},
    Epmd = epmd(T, Port, "epmd1"),
    {Target, Mark, P} = start(T),
    it:kill(Epmd),
    work(T, Target, P),
    [Node] = it:call(Target, erlang, nodes, [connected]),
    true = it:call(Target, erlang, disconnect_node, [Node]),
    it:saw(P, "lost '"),
    it:until("it tries", fun() -> failed(P, "no epmd answers at '127.0.0.1'") end),
    epmd(T, Port, "epmd2"),
    %% The node comes back to it by itself, within seconds.
    goes_on(T, Target, P, 2),
    ends(P),
    it_audit:ends(Target, Mark).

%% Nobody says that it is cut: both sides notice by what does not come.
cut(T, Way) ->
    Net = it_net:net(T),
    {Target, Mark} = it_audit:begins(T, maps:merge(slow(), it_net:target(T, Net))),
    P = it:kprofd(T, Target, #{args => ["-interval", "1s"], wrap => it_net:wrap(Net)}),
    it_net:connect(Net, P),
    it:armed(P),
    work(T, Target, P),
    Load = it:load(T, Target, ["8", "600s", "5"]),
    it:assembles(P, 100),
    Cut = now_ms(),
    it_net:route(add, Way, Net, P),
    Left = left(Target),
    it_audit:during(Target, Mark),
    it:saw(P, "lost '"),
    it:until("it tries again", fun() -> it:count(P, ": connecting") > 1 end),
    Gone = now_ms() - Left,
    it_net:route(del, Way, Net, P),
    it:kill(Load),
    it:until("armed again", 60000, fun() -> it:times_armed(P) >= 2 end),
    Back = now_ms(),
    work(T, Target, P),
    %% That the old connection is none any more, the node hears when its kernel sends
    %% again; and not at all once kprofd's network is gone.
    it:until("one connection is left", fun() -> length(it:call(Target, erlang, nodes, [connected])) =:= 1 end),
    ends(P),
    without_an_agent(P, Gone, Back - Cut),
    it_audit:ends(Target, Mark),
    {note, io_lib:format("~0p", [it:losses(P)])}.

%% ---------------------------------------------------------------------------

%% Requests take a while, so that some are in flight at any time.
slow() -> #{config => "#{handle => #{wait_ms => 20}}"}.

start(T) ->
    {Target, Mark} = it_audit:begins(T, slow()),
    P = it:kprofd(T, Target, #{args => ["-interval", "1s"]}),
    it:armed(P),
    work(T, Target, P),
    {Target, Mark, P}.

work(T, Target, P) ->
    Then = it:said(P, "([0-9]+) assembled"),
    #{requests := 50} = it:loaded(it:load(T, Target, ["4", "50"])),
    it:until("requests closed",
             fun() -> it:said(P, "([0-9]+) assembled") - Then >= 50 end).

%% Armed for so many times, and at work.
goes_on(T, Target, P, Times) ->
    it:until("armed again", 60000, fun() -> it:times_armed(P) >= Times end),
    work(T, Target, P).

ends(P) ->
    it:until("nothing in flight", fun() -> it:said(P, "([0-9]+) in flight") =:= 0 end),
    it:terminate(P),
    it:check(it:number(P, "select count(*) from events where kind = 'lost'") >= 1, "an event"),
    it_audit:database(P).

%% An attempt to attach again came to nothing, for this reason.
failed(P, Pattern) -> re:run(it:errors(P), ": lost cannot connect.*" ++ Pattern) =/= nomatch.

epmd(T, Port, Name) ->
    Epmd = it:start(T, Name, ["epmd", "-port", integer_to_list(Port)], []),
    it:until("epmd answers", fun() ->
                                     case gen_tcp:connect({127, 0, 0, 1}, Port, []) of
                                         {ok, S} -> gen_tcp:close(S), true;
                                         _ -> false
                                     end
                             end),
    Epmd.
