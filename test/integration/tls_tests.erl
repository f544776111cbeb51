%% TLS distribution: certificates that are wrong on either side, sides of which only
%% one is encrypted, versions, keys that change during a connection, certificates that
%% are renewed. What is refused is said in a sentence that names what is wrong, with
%% status 1; and nothing of it is left in the node.
-module(tls_tests).

-export([tests/0]).
-define(REQUESTS, 5000).
-define(FEW, 50).
-define(PAST, {{2020, 1, 1}, {2021, 1, 1}}).
-define(FUTURE, {{2045, 1, 1}, {2046, 1, 1}}).

tests() ->
    [{Name, Limit, fun(T) -> Test(T#{transport => tls}) end}
     || {Name, Limit, Test} <- [{"certificates that the node refuses", 90, fun ours_refused/1},
                                {"certificates of the node that are refused", 120, fun theirs_refused/1},
                                {"certificates are read at each connection", 90, fun renewed/1},
                                {"the node's own options, and -tls-verify none", 90, fun verified/1}]] ++
    [{"one side is encrypted", 90, fun one_side/1}] ++
    [{"groups and signatures of the node's own file, TLS 1." ++ integer_to_list(N), 120, fun(T) -> algorithms(T, N) end}
     || N <- [2, 3]] ++
    [{"requests over " ++ Name, 90, fun(T) -> requests(T, Options, How, Changed) end}
     || {Name, Options, How, Changed} <-
            [{"TLS 1.2, renegotiated", [{versions, ['tlsv1.2']}, {renegotiate_at, 20}], "TLSv1.2", renegotiate},
             {"TLS 1.3, with new keys", [{versions, ['tlsv1.3']}, {key_update_at, 20000}], "TLSv1.3", key_update}]].

%% Starts kprofd with these options, which ends with status 1, and words that name the
%% node and what is wrong.
refused(T, Target, Cases) ->
    Started = [{What, Pattern, it:kprofd(T, Target#{reach := Options}, #{})} || {What, Options, Pattern} <- Cases],
    Wrong = lists:append([unlike(Target, One) || One <- Started]),
    it:check(Wrong =:= [], "~ts", [Wrong]).

unlike(#{node := Node}, {What, Pattern, P}) ->
    Text = it:errors(P),
    Line = ["^kprofd: [^\n]*'", Node, "'[^\n]*(", Pattern, ")"],
    case {it:exited(P), re:run(it:errors(P), Line, [multiline, caseless])} of
        {1, {match, _}} -> [];
        {Status, _} -> io_lib:format("~ts: ~b and no '~ts' in~n~ts~n", [What, Status, Line, Text])
    end.

%% A target that has been connected to once, and has refused one: what ssl and the
%% logger make then stays.
target(T, Opts) ->
    Target = it:target(T, Opts),
    P = it:kprofd(T, Target, #{}),
    it:armed(P),
    it:terminate(P),
    it_certs:leaf(T, "first", #{by => "other"}),
    refused(T, Target, [{"the first", it_certs:options(T, "first"), "certificate"}]),
    {Target, it:settled(Target)}.

%% For each module that logs something for the first time, of ssl here, the logger
%% makes a persistent term.
is_clean(Target, Before) ->
    it:audit(Target, Before, [persistent_terms]).

few(Target, P) ->
    Then = seen(P),
    ?FEW = it:call(Target, it_driver, handle, [?FEW]),
    it:until("requests", fun() -> seen(P) - Then >= ?FEW end).

seen(P) ->
    it:said(P, "([0-9]+) assembled").

%% ------------------------------------------------------- certificates ----

ours_refused(T) ->
    {Target, Before} = target(T, #{kind => plain}),
    it_certs:leaf(T, "expired", #{validity => ?PAST}),
    it_certs:leaf(T, "early", #{validity => ?FUTURE}),
    it_certs:leaf(T, "stranger", #{by => "other"}),
    it_certs:leaf(T, "alone", #{by => self}),
    ok = file:write_file(it_certs:here(T, "garbage.pem"), "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n"),
    File = fun(Name) -> it_certs:here(T, Name) end,
    Ca = ["-tls-ca", File("ca.pem")],
    Mine = fun(Cert, Key) -> ["-tls-cert", File(Cert), "-tls-key", File(Key) | Ca] end,
    refused(T, Target,
            [{"expired", it_certs:options(T, "expired"), "our certificate .*expired.pem' expired on 2021-01-01"},
             {"not yet valid", it_certs:options(T, "early"), "our certificate .*early.pem' is not valid before 2045-01-01"},
             {"of a CA that the node does not know", it_certs:options(T, "stranger"),
              "the node refused our certificate '.*stranger.pem': it does not know its CA"},
             {"signed by itself", it_certs:options(T, "alone"), "the node refused our certificate '.*alone.pem'"},
             {"none", Ca, "requires a certificate of us"},
             {"another's key", Mine("kprofd.pem", "ca.key"),
              "the key '.*ca.key' does not belong to the certificate '.*kprofd.pem'"},
             {"no file", Mine("nowhere.pem", "kprofd.key"), "nowhere.pem.*No such file"},
             {"no key file", Mine("kprofd.pem", "nowhere.key"), "nowhere.key.*No such file"},
             {"no CA file", ["-tls-cert", File("kprofd.pem"), "-tls-key", File("kprofd.key"), "-tls-ca", File("nowhere.pem")],
              "nowhere.pem.*No such file"},
             {"no certificate", Mine("garbage.pem", "kprofd.key"), "garbage.pem"},
             {"a key for a certificate", Mine("kprofd.key", "kprofd.key"), "kprofd.key"}]),
    %% kprof's commands say the same.
    {1, "", Said} = it_kprof:run(T, Target#{reach := it_certs:options(T, "expired")}, "count", ["-for", "1s", "lists"]),
    it_kprof:says(Said, "(?i)expired"),
    is_clean(Target, Before).

%% One node, whose certificate is another one each time.
theirs_refused(T) ->
    it_certs:leaf(T, "served", #{}),
    {Target, Before} = target(T, #{tls => #{cert => "served"}}),
    [begin
         it_certs:leaf(T, "served", Opts),
         forget(Target),
         refused(T, Target, [{What, it_certs:options(T), Pattern}])
     end || {What, Opts, Pattern} <- [{"expired", #{validity => ?PAST}, "the node's certificate expired on 2021-01-01"},
                                      {"not yet valid", #{validity => ?FUTURE},
                                       "the node's certificate is not valid before 2045-01-01"},
                                      {"of another host", #{hosts => ["elsewhere.invalid", "10.1.2.3"]},
                                       "the node's certificate is for .*elsewhere.invalid.*, not for '127.0.0.1'"},
                                      {"of a CA that nobody knows", #{by => "other"},
                                       "is signed by 'kprofd test other', which is not in '.*ca.pem'|"
                                       "the CA of the node's certificate, 'kprofd test other', is not in '.*ca.pem'"},
                                      {"signed by itself", #{by => self}, "the node's certificate is signed by itself"}]],
    %% It connects all the same where it is told to.
    it_certs:leaf(T, "served", #{validity => ?PAST, by => "other", hosts => ["elsewhere.invalid"]}),
    forget(Target),
    Any = it:kprofd(T, Target, #{args => ["-interval", "1s", "-tls-verify", "none"]}),
    it:armed(Any),
    few(Target, Any),
    status_says(Any, "not verified"),
    it:terminate(Any),
    %% Of addresses OTP 25 has names alone, later ones addresses.
    [begin
         it_certs:leaf(T, "served", #{hosts => [Host]}),
         forget(Target),
         P = it:kprofd(T, Target, #{}),
         it:armed(P),
         it:terminate(P)
     end || Host <- ["127.0.0.1", {dns, "127.0.0.1"}]],
    is_clean(Target, Before).

%% A node keeps what it has read of a file for two minutes; for its distribution that
%% is not what ssl:clear_pem_cache() clears.
forget(Target) ->
    ok = it:do(Target, fun() -> gen_server:call(ssl_pem_cache_dist, {unconditionally_clear_pem_cache, self()}) end).

status_says(P, Pattern) ->
    {ok, Text} = it:control(P, "status"),
    it_kprof:says(unicode:characters_to_list(Text), Pattern).

%% The connection goes on with what it began with; the next one has what is there then.
renewed(T) ->
    {Target, Before} = target(T, #{}),
    it_certs:leaf(T, "mine", #{}),
    it_certs:leaf(T, "good", #{}),
    it_certs:leaf(T, "bad", #{by => "other"}),
    P = it:kprofd(T, Target#{reach := it_certs:options(T, "mine")}, #{args => ["-interval", "1s"]}),
    it:armed(P),
    it_certs:put(T, "bad", "mine"),
    few(Target, P),
    [Node] = it:call(Target, erlang, nodes, [connected]),
    true = it:call(Target, erlang, disconnect_node, [Node]),
    it:saw(P, "lost '"),
    it:saw(P, ": lost cannot connect.*the node refused our certificate"),
    it_certs:put(T, "good", "mine"),
    it:until("armed again", fun() -> it:times_armed(P) >= 2 end),
    few(Target, P),
    it:terminate(P),
    is_clean(Target, Before).

%% The file that the node has.
verified(T) ->
    {Target, Before} = target(T, #{}),
    P = it:kprofd(T, Target#{reach := ["-tls-optfile", it_certs:optfile(T)]}, #{}),
    it:armed(P),
    few(Target, P),
    status_says(P, "TLSv1\\.[23], the node verified"),
    it:terminate(P),
    None = it:kprofd(T, Target, #{args => ["-tls-verify", "none"]}),
    it:armed(None),
    status_says(None, "TLSv1\\.[23], not verified"),
    it:saw(None, "unverified: its certificate is not verified"),
    it:terminate(None),
    [begin
         {0, _, Said} = it_kprof:run(T, Target, Cmd, Verify ++ ["-for", "200ms" | Of]),
         it:equal([Cmd | Verify], Verify =/= [], string:find(Said, "unverified: its certificate is not verified") =/= nomatch)
     end || {Cmd, Of} <- [{"stacks", []}, {"count", ["it_stub"]}, {"trace", ["it_stub"]}], Verify <- [[], ["-tls-verify", "none"]]],
    ok = file:write_file(it_certs:here(T, "broken.conf"), "[{server, [{certfile, \"x\"}]}, {client, [{certfile, "),
    refused(T, Target, [{"a file that is cut", ["-tls-optfile", it_certs:here(T, "broken.conf")], "broken.conf"},
                        {"no file", ["-tls-optfile", it_certs:here(T, "nowhere.conf")], "nowhere.conf.*No such file"}]),
    is_clean(Target, Before).

%% Nodes whose file narrows down how keys are agreed on, and who may sign: kprofd does
%% as the file says, which the node's own rules show. The options were refused.
algorithms(T0, N) ->
    T = T0#{transport => tls},
    {Mine, Other, Groups} = case N of
                                2 -> {secp384r1, secp521r1, eccs};
                                3 -> {secp384r1, secp521r1, supported_groups}
                            end,
    Signatures = [{signature_algs, [rsa_pss_rsae_sha256, {sha256, rsa}]}
                  | [{signature_algs_cert, [rsa_pkcs1_sha256]} || N =:= 3]],
    Versions = [{versions, [list_to_atom("tlsv1." ++ integer_to_list(N))]}],
    Rules = [{Groups, [Mine]} | Signatures ++ Versions],
    {Target, Before} = target(T, #{kind => plain, tls => #{server => Rules, client => Rules}}),
    P = it:kprofd(T, Target#{reach := ["-tls-optfile", it_certs:optfile(T, Rules)]}, #{}),
    it:armed(P),
    status_says(P, "TLSv1\\." ++ integer_to_list(N) ++ ", the node verified"),
    it:terminate(P),
    File = fun(Options) -> ["-tls-optfile", it_certs:optfile(T, Options ++ Versions)] end,
    refused(T, Target, [{"another group", File([{Groups, [Other]} | Signatures]), "no cipher, group or signature in common"},
                        {"no group that there is", File([{Groups, [no_such_group]}]),
                         "none of the groups in the options file: no_such_group"},
                        {"another signature", File([{signature_algs, [ecdsa_secp521r1_sha512]}]),
                         "no cipher, group or signature in common"}
                        | [{"another signature of certificates", File([{signature_algs_cert, [ecdsa_secp521r1_sha512]}]),
                            "the signature sha256WithRSAEncryption, which signature_algs_cert in the options file leaves out"} || N =:= 3]]),
    is_clean(Target, Before).

%% ------------------------------------------------------------- sides ----

one_side(T) ->
    {Tls, TlsBefore} = target(T#{transport => tls}, #{kind => plain}),
    Plain = it:target(T#{n := 1000 + maps:get(n, T)}, #{kind => plain, name => "plain", transport => plain}),
    [begin
         Kprof = it_kprof:background(T, Target#{reach := element(2, Case)}, "count", ["-for", "1s", "lists"]),
         refused(T, Target, [Case]),
         {1, "", Said} = it_kprof:ends(Kprof),
         it_kprof:says(Said, element(3, Case)),
         is_clean(Target, Before)
     end || {Target, Before, Case} <- [{Plain, it:settled(Plain),
                                        {"the node is not encrypted", it_certs:options(T), "inet_tls\\? then leave out -tls-optfile"}},
                                       {Tls, TlsBefore, {"the node is encrypted", [], "it uses TLS"}}]].

%% ---------------------------------------------------------- versions ----

%% How often keys were changed is what the node has called.
requests(T, Options, How, Changed) ->
    {Target, Before} = target(T#{transport => tls},
                              #{args => ["+zdbbl", "262144"], tls => #{server => Options, client => Options}}),
    MFA = changes(Changed),
    it:do(Target, fun() ->
                          {module, _} = code:ensure_loaded(element(1, MFA)),
                          1 = erlang:trace_pattern(MFA, true, [call_count])
                  end),
    P = it:kprofd(T, Target, #{args => ["-interval", "1s"]}),
    it:armed(P),
    ?REQUESTS = it:call(Target, it_driver, paced, [?REQUESTS]),
    it:until("all have ended", fun() -> seen(P) >= ?REQUESTS end),
    status_says(P, How ++ ", the node verified"),
    it:terminate(P),
    it:equal("entry calls", ?REQUESTS, it:balance(P)),
    it:equal("requests", ?REQUESTS, it:requests(P)),
    it:equal("times attached", 1, it:times_armed(P)),
    {call_count, Times} = it:call(Target, erlang, trace_info, [MFA, call_count]),
    it:check(Times > 3, "keys were changed ~b times", [Times]),
    it:call(Target, erlang, trace_pattern, [MFA, false, [call_count]]),
    is_clean(Target, Before),
    {note, io_lib:format("keys changed ~b times", [Times])}.

%% Once for each of its handshakes; once for each of its new keys.
changes(renegotiate) -> {ssl_handshake, server_hello, 4};
changes(key_update) -> {tls_handshake_1_3, key_update, 1}.
