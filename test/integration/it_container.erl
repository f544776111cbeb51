%% it_container - a target as containers have it: with networks, mounts, processes and a
%% host name of its own.
%%
%% The network namespace outlives the target, as that of a pod does, and ends with
%% the process that holds it; all others end with the target, which is process 1 there.
%% Of this machine's files the target has those of Erlang, and a copy of its own code:
%% neither this checkout nor this /tmp.
-module(it_container).

-export([network/1, beside/1, target/3, file/2]).

%% root checkout tmp-options host code ... -- command ...
-define(SCRIPT,
        "root=$1 checkout=$2 options=$3\n"
        "hostname \"$4\"\n"
        "mount -t tmpfs tmpfs \"$root/mnt\"\n"
        "echo 127.0.0.1 localhost \"$4\" > \"$root/mnt/hosts\"\n"
        "mount --bind \"$root/mnt/hosts\" \"$root/etc/hosts\"\n"
        "shift 4\n"
        "while [ \"$1\" != -- ]; do cp -r \"$1\" \"$root/mnt\"; shift; done\n"
        "shift\n"
        %% Other tests make files under the checkout's path in the root of another release.
        "checkout=${root%/}$checkout\n"
        "! [ -d \"$checkout\" ] || mount -t tmpfs tmpfs \"$checkout\"\n"
        "mount -t tmpfs -o \"$options\" tmpfs \"$root/tmp\"\n"
        "mkdir -p \"$root/dev/shm\"\n"
        %% As containers have it.
        "mount -t tmpfs -o noexec tmpfs \"$root/dev/shm\"\n"
        "mount -t proc proc \"$root/proc\"\n"
        "exec chroot \"$root\" \"$@\"\n").

%% Addresses of both ends, #{here, there}, and the process that holds it.
network(T) ->
    Net = it_net:net(T),
    Holder = it:start(T, "network", ["unshare", "--net", "sleep", "3600"], []),
    it_net:connect(Net, Holder),
    Net#{holder => Holder}.

%% Runs a command in the network of the target, and nowhere else: as a sidecar.
beside(#{holder := #{pid := Pid}}) ->
    ["nsenter", "-t", integer_to_list(Pid), "-n", "--"].

%% The sample application.
%% node    its name
%% config  its settings, as text
%% tmp     options of the mount of /tmp
%% args    more arguments of erl
target(#{root := Root, ebins := Ebins} = T, #{here := Here} = Net, #{node := Node} = Opts) ->
    Places = ["/mnt/" ++ filename:basename(E) ++ integer_to_list(I)
              || {I, E} <- lists:zip(lists:seq(1, length(Ebins)), Ebins)],
    {ok, Checkout} = file:get_cwd(),
    Inside = case Root of none -> "/"; _ -> Root end,
    Naming = case string:find(Node, ".") of nomatch -> "-sname"; _ -> "-name" end,
    Host = lists:last(string:split(Node, "@")),
    Command = fun(Stub) ->
                      Copies = ["sh", "-euc", ?SCRIPT, "sh", Inside, Checkout, maps:get(tmp, Opts, "mode=1777"), Host]
                          ++ sources(T, Ebins, Places) ++ ["--"],
                      beside(Net) ++ ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child"] ++ Copies
                          ++ ["erl", "-noinput", "-setcookie", it:cookie(), Naming, Node]
                          ++ lists:append([["-pa", P] || P <- Places])
                          ++ ["-sample_app", "config", maps:get(config, Opts, "#{}"), "-sample_app", "port", "0",
                              "-s", "sample_app", "main" | Stub] ++ maps:get(args, Opts, [])
              end,
    Target = it:server(T#{address => Here}, maps:get(name, Opts, "target"), Node, Command, []),
    it:until("the sample application is ready",
             fun() -> re:run(it:output(Target), "^ready", [multiline]) =/= nomatch end),
    Target#{pid := inner(Target), beside => beside(Net), http => it:call(Target, sample_app, port, [])}.

%% Copied under the names that they have there.
sources(T, Ebins, Places) ->
    [begin
         Dir = filename:absname(it:path(T, filename:basename(Place))),
         ok = filelib:ensure_path(Dir),
         [{ok, _} = file:copy(F, filename:join(Dir, filename:basename(F)))
          || F <- filelib:wildcard(filename:join(outside(T, E), "*.{beam,app}"))],
         Dir
     end || {E, Place} <- lists:zip(Ebins, Places)].

outside(#{root := none}, Ebin) -> Ebin;
outside(#{root := Root}, Ebin) -> Root ++ Ebin.

%% Process 1 of the container, as it is numbered here.
inner(#{pid := Pid}) ->
    {ok, Text} = file:read_file(io_lib:format("/proc/~b/task/~b/children", [Pid, Pid])),
    [Child] = string:lexemes(Text, " \n"),
    binary_to_integer(Child).

%% A file of the target's, as it is named here.
file(#{pid := Pid}, Name) ->
    lists:concat(["/proc/", Pid, "/root", Name]).
