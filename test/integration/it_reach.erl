%% it_reach - how the distribution of a target is reached: what its erl is started
%% with, and what kprofd and kprof have to be told.
-module(it_reach).

-export([default/1, name/3, target/4, connected/2, port/2, targets/1, options/1, options/2, is_inet6/1, is_tls/1, with_port/2]).

%% Those of the test's; KPROFD_TRANSPORT=tls: of all tests.
default(T) ->
    maps:merge(#{transport => list_to_atom(os:getenv("KPROFD_TRANSPORT", "plain"))}, maps:with([transport, tls, port], T)).

%% transport  plain | inet6 | tls | tls6
%% tls        what it_certs:conf/3 takes
%% port       a number, or free: it listens there, and is registered with no epmd
%%
%% Gives arguments of erl, and for the target's map
%% typed  the target as kprofd and kprof are given it
%% reach  their options for it
target(T, Node, Name, Opts) ->
    Tls = is_tls(Opts),
    {Fixed, Map} = case Opts of
                       #{port := free} -> fixed(Node, it:free_port());
                       #{port := Port} -> fixed(Node, Port);
                       _ -> {[], #{typed => Node}}
                   end,
    Args = [["-proto_dist", P] || P <- protocol(transport(Opts))]
        ++ [["-ssl_dist_optfile", it_certs:conf(T, lists:concat([Name, ".", maps:get(n, T)]), maps:get(tls, Opts, #{}))] || Tls],
    {lists:append(Args) ++ Fixed, Map#{reach => options(T, Opts), transport => transport(Opts)}}.

%% What is told of a target that has these.
options(T, Opts) -> [A || is_tls(Opts), A <- it_certs:options(T)].

transport(Opts) -> maps:get(transport, Opts, plain).

protocol(plain) -> [];
protocol(inet6) -> ["inet6_tcp"];
protocol(tls) -> ["inet_tls"];
protocol(tls6) -> ["inet6_tls"].

fixed(Node, Port) ->
    {["-start_epmd", "false", "-erl_epmd_port", integer_to_list(Port)], #{typed => with_port(Node, Port), dist_port => Port}}.

%% Where it listens, which else its epmd says.
port(_, #{dist_port := Port}) ->
    Port;
port(T, #{node := Node}) ->
    [Alive, _] = string:split(Node, "@"),
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, it:epmd_port(T), [binary, {active, false}]),
    ok = gen_tcp:send(S, [<<(1 + length(Alive)):16, 122>>, Alive]),
    {ok, <<119, 0, Port:16>>} = gen_tcp:recv(S, 4, 10000),
    gen_tcp:close(S),
    Port.

%% Somebody has connected to a target with TLS: what ssl starts for the first one stays.
connected(T, #{transport := Transport} = Target) when Transport =:= tls; Transport =:= tls6 ->
    {ok, _} = application:ensure_all_started(ssl),
    Host = case is_inet6(Target) of true -> {0, 0, 0, 0, 0, 0, 0, 1}; false -> {127, 0, 0, 1} end,
    Options = [{certfile, it_certs:here(T, "kprofd.pem")}, {keyfile, it_certs:here(T, "kprofd.key")}, {verify, verify_none},
               {log_level, none}, {active, false}],
    {ok, S} = ssl:connect(Host, port(T, Target), Options, 10000),
    {ok, {_, Mine}} = ssl:sockname(S),
    [Pid] = it:do(Target, fun() -> served(Mine) end),
    ssl:close(S),
    it:until("its process there has ended", fun() -> not it:call(Target, erlang, is_process_alive, [Pid]) end);
connected(_, _) ->
    true.

%% In the target: which processes have the connections from this port.
served(From) ->
    [Pid || P <- erlang:ports(), {ok, {_, Port}} <- [inet:peername(P)], Port =:= From,
            {connected, Pid} <- [erlang:port_info(P, connected)]].

with_port(Node, Port) ->
    [Alive, Host] = string:split(Node, "@"),
    Form = case string:find(Host, ":") of
               nomatch -> "~s@~s:~b";
               _ -> "~s@[~s]:~b"
           end,
    lists:flatten(io_lib:format(Form, [Alive, Host, Port])).

name(Naming, Opts, N) ->
    lists:flatten(io_lib:format("it~s_~b@~s", [os:getpid(), N, host(Naming, Opts)])).

host(short, _) -> it:short_host();
host(long, Opts) ->
    case is_inet6(Opts) of
        true -> "::1";
        false -> "127.0.0.1"
    end.

%% As the options of a target, or a test's, say.
is_inet6(Opts) -> lists:member(transport(Opts), [inet6, tls6]).
is_tls(Opts) -> lists:member(transport(Opts), [tls, tls6]).

targets(#{typed := Typed}) -> ["-target", Typed];
targets(#{node := Node}) -> ["-target", Node];
targets([Target | More]) when is_map(Target) -> targets(Target) ++ targets(More);
targets([]) -> [];
targets(Node) -> ["-target", Node].

%% Of several targets, those of one that has some.
options(#{reach := Args}) -> Args;
options([Target | More]) when is_map(Target) ->
    case options(Target) of
        [] -> options(More);
        Args -> Args
    end;
options(_) -> [].
