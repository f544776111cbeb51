%% it_certs - certificates of TLS distribution, made at run time: a CA, that of a
%% node, that of kprofd, and, as a test asks for them, those that are to be refused.
%%
%% They are files where a target sees them, which may have a root of its own: here/2
%% is the path for this machine's processes, there/2 that for the target.
-module(it_certs).

-export([here/2, there/2, leaf/3, put/3, conf/3, options/1, options/2, optfile/1, optfile/2]).

-include_lib("public_key/include/public_key.hrl").

%% Of elliptic curves OTP 25 makes certificates that OTP 29 does not read.
-define(KEY, {key, {rsa, 2048, 65537}}).
%% An address as a name, too: so a node looks for that of another one.
-define(HOSTS, ["127.0.0.1", "::1", "localhost", {dns, "127.0.0.1"}, {dns, "::1"}]).

here(T, Name) -> filename:join(element(1, made(T)), Name).
there(T, Name) -> filename:join(element(2, made(T)), Name).

%% The first test that needs them makes what all tests share.
made(#{certs := #{here := Here, there := There}}) ->
    global:trans({?MODULE, self()}, fun() -> filelib:is_dir(Here) orelse make(Here) end),
    {Here, There}.

make(Here) ->
    {ok, _} = application:ensure_all_started(public_key),
    New = Here ++ ".new",
    ok = filelib:ensure_path(New),
    [begin
         Root = root(Name, []),
         write(New, Name, Root),
         ok = file:write_file(filename:join(New, Name ++ ".root"), term_to_binary(Root))
     end || Name <- ["ca", "other"]],
    [leaf_in(New, Name, #{}) || Name <- ["node", "kprofd"]],
    ok = file:rename(New, Here).

root(Name, Extensions) ->
    public_key:pkix_test_root_cert("kprofd test " ++ Name, [?KEY, {digest, sha256}, {extensions, Extensions}]).

%% Makes NAME.pem and NAME.key, for:
%% hosts     its addresses and names, {dns, Text}; else those of this machine
%% validity  {Date, Date}; else it is valid
%% by        "ca"; "other", which nobody trusts; self
leaf(T, Name, Opts) ->
    leaf_in(element(1, made(T)), Name, Opts).

leaf_in(Dir, Name, #{by := self} = Opts) ->
    Usage = #'Extension'{extnID = ?'id-ce-keyUsage', critical = false, extnValue = [digitalSignature, keyCertSign]},
    write(Dir, Name, root("self", [Usage, alternatives(maps:get(hosts, Opts, ?HOSTS))]));
leaf_in(Dir, Name, Opts) ->
    {ok, Bytes} = file:read_file(filename:join(Dir, maps:get(by, Opts, "ca") ++ ".root")),
    Peer = [?KEY, {digest, sha256}, {extensions, [alternatives(maps:get(hosts, Opts, ?HOSTS))]}]
        ++ [{validity, V} || #{validity := V} <- [Opts]],
    Made = public_key:pkix_test_data(#{root => binary_to_term(Bytes), intermediates => [], peer => Peer}),
    write(Dir, Name, maps:from_list(Made)).

alternatives(Hosts) ->
    #'Extension'{extnID = ?'id-ce-subjectAltName', critical = false, extnValue = [alternative(H) || H <- Hosts]}.

alternative({dns, Name}) -> {dNSName, Name};
alternative(Host) ->
    case inet:parse_address(Host) of
        {ok, {A, B, C, D}} -> {iPAddress, <<A, B, C, D>>};
        {ok, V6} -> {iPAddress, << <<Part:16>> || Part <- tuple_to_list(V6) >>};
        {error, _} -> {dNSName, Host}
    end.

write(Dir, Name, #{cert := Cert, key := Key}) ->
    {Type, Der} = case Key of
                      {_, Bytes} when is_binary(Bytes) -> Key;
                      _ -> {'RSAPrivateKey', public_key:der_encode('RSAPrivateKey', Key)}
                  end,
    File = filename:join(Dir, Name),
    ok = file:write_file(File ++ ".pem", public_key:pem_encode([{'Certificate', Cert, not_encrypted}])),
    ok = file:write_file(File ++ ".key", public_key:pem_encode([{Type, Der, not_encrypted}])),
    ok = file:change_mode(File ++ ".key", 8#600).

%% From now on the files of To are those of From, as when one is renewed.
put(T, From, To) ->
    [begin
         {ok, _} = file:copy(here(T, From ++ Suffix), here(T, To ++ ".new")),
         ok = file:change_mode(here(T, To ++ ".new"), 8#600),
         ok = file:rename(here(T, To ++ ".new"), here(T, To ++ Suffix))
     end || Suffix <- [".pem", ".key"]],
    ok.

%% Writes NAME.conf, the ssl_dist.conf of a node, and gives the target's path of it.
%% cert            whose files it has; else "node"
%% ca              whom it trusts; else "ca"
%% server, client  more of these options, before the others
conf(T, Name, Opts) ->
    File = here(T, Name ++ ".conf"),
    ok = file:write_file(File, conf_text(fun(Of) -> there(T, Of) end, Opts)),
    there(T, Name ++ ".conf").

conf_text(Path, Opts) ->
    Cert = maps:get(cert, Opts, "node"),
    Files = [{certfile, Path(Cert ++ ".pem")}, {keyfile, Path(Cert ++ ".key")},
             {cacertfile, Path(maps:get(ca, Opts, "ca") ++ ".pem")}, {verify, verify_peer}],
    io_lib:format("~p.~n", [[{server, maps:get(server, Opts, []) ++ [{fail_if_no_peer_cert, true} | Files]},
                             {client, maps:get(client, Opts, []) ++ Files}]]).

%% What kprofd and kprof are told to take, by themselves good.
options(T) -> options(T, "kprofd").

options(T, Name) ->
    ["-tls-cert", here(T, Name ++ ".pem"), "-tls-key", here(T, Name ++ ".key"), "-tls-ca", here(T, "ca.pem")].

%% The same as a file of a node's.
optfile(T) -> optfile(T, []).

%% With more of the client's options.
optfile(T, Client) ->
    File = here(T, "kprofd" ++ integer_to_list(erlang:phash2({maps:get(n, T), Client})) ++ ".conf"),
    ok = file:write_file(File, conf_text(fun(Of) -> here(T, Of) end, #{cert => "kprofd", client => Client})),
    File.
