%% A node before OTP 25 is refused by name, whatever connects to it, and none of it
%% is left there: it has seen a name. `make refused` runs this with OTP 23, whose
%% root file system nothing else needs.
-module(refused_tests).

-export([tests/0]).

%% In place of it_stub, whose code such a node does not load.
-define(STUB, "spawn(fun() -> {ok, S} = gen_tcp:connect({127,0,0,1}, ~s, [binary, {packet,4}, {active,false}]),"
        "ok = gen_tcp:send(S, term_to_binary({hello, #{otp => list_to_integer(erlang:system_info(otp_release)),"
        " node => node()}})),"
        "Loop = fun Again() -> case gen_tcp:recv(S, 0) of {ok, B} -> {M, F, A} = binary_to_term(B),"
        " ok = gen_tcp:send(S, term_to_binary({ok, apply(M, F, A)})), Again(); _ -> halt() end end,"
        "Loop() end).").
-define(SAYS, "cannot connect to '.*': it runs OTP 23, and kprofd needs OTP 25 or later$").

tests() ->
    [{"every command that connects", 60, fun commands/1}].

commands(T) ->
    Target = old(T),
    it:equal("release", 23, it:otp(Target)),
    Before = state(Target),
    Tiers = "[{work, {lists, seq, 2}}].\n",
    [it:ended(it:kprofd(T, Target, #{tiers => Tiers, args => Args}), 1, ?SAYS)
     || Args <- [["-interval", "2s"], ["-check"]]],
    [begin
         {1, "", Error} = it_kprof:run(T, Target, Cmd, Args),
         it_kprof:says(Error, ?SAYS)
     end || {Cmd, Args} <- [{"count", ["lists:seq/2", "-for", "1s"]}, {"time", ["lists", "-for", "1s"]},
                            {"memory", ["lists", "-for", "1s"]}, {"stacks", ["-for", "1s"]},
                            {"trace", ["lists", "-for", "1s"]}, {"suggest", []}, {"clear-tokens", []}]],
    it:equal("the node", Before, state(Target)),
    it:equal("what it logged", <<>>, it:output(Target)).

old(#{path := Path, n := N} = T) ->
    Node = lists:flatten(io_lib:format("it~s_~b@127.0.0.1", [os:getpid(), N])),
    it:server(T, "target", Node,
              fun(["-s", "it_stub", "start", Port | _]) ->
                      ["erl", "-noinput", "-name", Node, "-setcookie", it:cookie(), "-eval",
                       lists:flatten(io_lib:format(?STUB, [Port]))]
              end, [{"PATH", Path}]).

%% A connection that was refused may not have gone yet.
state(Target) ->
    it:until("no connection is left", fun() -> it:call(Target, erlang, nodes, [connected]) =:= [] end),
    #{loaded => [it:call(Target, code, is_loaded, [M]) || M <- [kprof_agent, kprof_counters, kprof_sampler, kprof_tracer]],
      registered => lists:sort(it:call(Target, erlang, registered, [])),
      processes => length(it:call(Target, erlang, processes, [])),
      ports => length(it:call(Target, erlang, ports, []))}.
