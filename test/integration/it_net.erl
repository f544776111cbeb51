%% it_net - a network that can be cut: kprofd runs in a network namespace of its own,
%% at the other end of a veth pair; the namespace goes with it, and the pair with that.
-module(it_net).

-export([net/1, target/2, wrap/1, connect/2, route/4, sh/1]).

%% Of the range for measurements between networks (RFC 2544), or of unique local
%% addresses, as the test's targets are.
net(#{n := N} = T) ->
    Me = list_to_integer(os:getpid()),
    Link = lists:concat(["kp", Me, "n", N]),
    case it_reach:is_inet6(it_reach:default(T)) of
        false ->
            Address = fun(Last) -> lists:concat(["198.18.", Me rem 250, ".", (N rem 60) * 4 + Last]) end,
            #{here => Address(1), there => Address(2), link => Link, part => "/30", whole => "/32", more => ""};
        true ->
            Address = fun(Last) -> io_lib:format("fd6b:7072::~.16b:~.16b:~b", [1 + Me rem 65535, N, Last]) end,
            %% Without a search for duplicates, which an address waits for.
            #{here => lists:flatten(Address(1)), there => lists:flatten(Address(2)), link => Link,
              part => "/126", whole => "/128", more => " nodad"}
    end.

%% Of a target that kprofd reaches there: its name, and the certificate of its address.
target(#{n := N} = T, #{here := Here}) ->
    Name = lists:concat(["cut_", os:getpid(), "_", N]),
    case it_reach:is_tls(it_reach:default(T)) of
        true ->
            it_certs:leaf(T, Name, #{hosts => [Here]}),
            #{node => Name ++ "@" ++ Here, tls => #{cert => Name}};
        false ->
            #{node => Name ++ "@" ++ Here}
    end.

%% What starts kprofd, once it is connected.
wrap(#{there := There}) ->
    Script = "until ip -o addr show up | grep -q '" ++ There ++ "/'; do sleep 0.05; done; exec \"$@\"",
    ["unshare", "-n", "sh", "-c", Script, "sh"].

connect(#{here := Here, there := There, link := Link, part := Part, more := More}, #{pid := Pid} = P) ->
    it:until("a namespace of its own",
             fun() -> file:read_link_all("/proc/self/ns/net") =/=
                          file:read_link_all(lists:concat(["/proc/", Pid, "/ns/net"])) end),
    sh(["ip link add ", Link, " type veth peer name out netns ", integer_to_list(Pid)]),
    sh(["ip addr add ", Here, Part, " dev ", Link, More]),
    sh(["ip link set ", Link, " up"]),
    inside(P, "ip link set lo up"),
    inside(P, "ip link set out up"),
    inside(P, ["ip addr add ", There, Part, " dev out", More]).

%% A blackhole takes what is sent and says nothing.
route(What, both, Net, P) ->
    route(What, there, Net, P),
    route(What, back, Net, P);
route(What, there, #{here := Here, whole := Whole}, P) ->
    inside(P, io_lib:format("ip route ~s blackhole ~s~s", [What, Here, Whole]));
route(What, back, #{there := There, whole := Whole}, _) ->
    sh(io_lib:format("ip route ~s blackhole ~s~s", [What, There, Whole])).

inside(#{pid := Pid}, Command) ->
    sh(["nsenter -t ", integer_to_list(Pid), " -n ", Command]).

sh(Command) ->
    case os:cmd(lists:flatten([Command, " && echo done"])) of
        "done\n" -> ok;
        Said -> it:fail("~ts: ~ts", [Command, Said])
    end.
