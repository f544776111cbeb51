%% docs_table - all that docs-test takes for granted, with its reasons.
%%
%% Whatever is in a document and not in here has to work as it is printed.
-module(docs_table).

-export([documents/0, placeholders/0, grammar/0, commands/0, make_runs/0, newer/0, allowed/0, quiet/0, ends_kprofd/0]).

%% Texts that hold examples. A file below priv/, or a *.md anywhere, that fits
%% none of these is an error. elsewhere: `make packaging` and `make deb-test` run them.
documents() ->
    [{"README.md", markdown},
     {"erlang/*/README.md", markdown},
     {"test/README.md", markdown},
     {"test/*/README.md", markdown},
     {"priv/doc/*.md", markdown},
     {"priv/doc/*.png", elsewhere},
     {"priv/man/*", mdoc},
     {"priv/*.conf", tiers},
     {"priv/examples/*.conf", tiers},
     {"priv/schema.sql", comments},
     {"priv/openapi.json", elsewhere},
     {"priv/{install,debian}.mk", elsewhere},
     {"priv/debian/[a-rt-z]*", elsewhere},
     {"priv/debian/source/*", elsewhere},
     {"priv/web/*", elsewhere},
     {"priv/deploy/*", elsewhere},
     {"priv/{grafana,prometheus}/*", elsewhere},
     {"priv/{completion,cron,logrotate,systemd}/*", elsewhere}].

%% What stands in a command or SQL for something of the reader's. A value is found by
%% docs_world:value/2.
placeholders() ->
    [{"(?<=-target )app@host(?=.* -tls-)", tls_node},
     {"(?<=-tls-optfile )\\S+", tls_optfile},
     {"(?<=-tls-cert )\\S+", tls_cert},
     {"(?<=-tls-key )\\S+", tls_key},
     {"(?<=-tls-ca )\\S+", tls_ca},
     {"(?<=-target )app@host:4370\\b", node_and_port},
     {"(?<=-target )app@::1(?= )", node},
     {"(?<=-resolve )app@pod=10\\.0\\.0\\.7:4370\\b", resolved},
     {"(?<=-dist-port )4370\\b", port},
     {"(?<=-target )\\w+@\\w+\\b(?!.* -tls-)", node},
     {"(?<=-cluster )\\w+@\\w+\\b", node},
     {"(?<=\\bkprof tree)(?: ID\\b| 42\\b|$)", slow_request},
     {"(?<=\\bkprof check)$", tiers},
     {"(?<=\\bkprof suggest)$", target},
     {"(?<= -o )tiers\\.conf$", proposal},
     {"\\b20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d\\b", hour_ago},
     {"(?<=-otlp )http://127\\.0\\.0\\.1:4318\\b", collector},
     {"/var/lib/kprofd/", scratch},
     {"(?<![\\w/])/usr/local/", installed}].

%% The words of tiers.conf(5) for what a form takes.
grammar() ->
    [{"\\bmodule, function, Arity\\b", "requests, handle_request, 2"},
     {"\\bFunction\\b", "{requests, handle_request, 2}"},
     {"\\{Name, Functions, Options\\b", "{other, {requests, handle_request, 2}, [exact]"},
     {"\\bFunctions\\b", "{requests, handle_request, 2}"},
     {"\\{Name\\b", "{layer"},
     {"\\bN\\b", "10"},
     {"\\{label, \\.\\.\\.", "{label, fun ({db, _, [#{op := Op} | _]}) when is_atom(Op) -> Op end"},
     {", \\.\\.\\.", ""}].

%% A line that starts with one of these is a command; any other is something
%% that a command printed.
commands() ->
    ["kprofd", "kprof", "sqlite3", "make", "sh"].

%% Of the others `make` is only asked whether it has them: they are tests of their own,
%% figures of this machine, or take minutes.
make_runs() ->
    ["make demo", "make install", "make uninstall", "make help-dev"].

%% {How a command begins, the first release that has it, what others are told}
newer() ->
    [{"kprof memory", 26, "memory is counted from OTP 26 on"},
     {"kprof count -target app@host -attached", 27, "-attached is for OTP 27 on"},
     {"kprof time -target app@host -attached", 27, "-attached is for OTP 27 on"}].

%% {Document, how the piece begins, why it is no example}; or sample, for all
%% that commands printed there.
allowed() ->
    [{"README.md", "git clone ", "the checkout is here"},
     {"priv/doc/reaching.md", "install -m 600 releases/COOKIE", "of a release that is not here"},
     {"priv/doc/pprof.md", "go tool pprof ", "of Go, which is not installed: `make export-test` runs it"},
     {"priv/doc/stacks.md", "perf record ", "of perf, which is not installed"},
     {"priv/doc/elixir.md", "install -m 600 releases/COOKIE", "of a release that is not here"},
     {"priv/doc/elixir.md", sample, "of a shop that is not here"},
     {"priv/doc/requests.md", "tiers.conf -> config -> plan", "a picture"},
     {"priv/doc/limits.md", "telemetry:span/3", "of a library that is not installed here"},
     {"erlang/kprof/README.md", "{deps, ", "of rebar.config"},
     {"priv/doc/architecture.md", "target ", "a picture"},
     {"priv/man/kprofd.8", "example: shop_handler", "a call of an application that is not here"},
     {"priv/man/kprofd.8", "{kprof, [{disabled, true}]}", "the target's own configuration"},
     {"priv/man/kprofd.8", "{kprof, [{accept_library, false}]}", "the target's own configuration"},
     {"priv/doc/containers.md", "{kprof, [{accept_library, false}]}", "the target's own configuration"},
     {"priv/man/tiers.conf.5", "{identity, fun ({Module", "the form's grammar; examples follow it there"},
     {"priv/man/tiers.conf.5", "{trace_id, fun ({Module", "the form's grammar; examples follow it there"},
     {"priv/doc/requests.md", "kprof slow -trace ", "of a trace that is not here"},
     {"priv/doc/dashboard.md", "curl --compressed ", "of a server that runs: `make api-test` asks it"},
     {"priv/doc/dashboard.md", "{\"type\":", "what the API answers: `make api-test` has it"},
     {"priv/doc/prometheus.md", "apiVersion: 1", "what Grafana reads, which is not installed"},
     {"priv/doc/prometheus.md", "prometheus --enable-feature", "of Prometheus, which is not installed: `make export-test` runs it"},
     {"priv/doc/viewers.md", "kprof tree new ", "it runs on: `make client-test` has it"},
     {"priv/man/tiers.conf.5", "{label, fun ({Module", "the form's grammar; examples follow it there"},
     {"priv/doc/service.md", "kprofd: profiling shop@vm", "the log of a node that is not here"},
     {"priv/doc/service.md", "apt install ./build/kprofd_", "`make deb-test` does the same"},
     {"priv/doc/service.md", "systemd-sysusers ", "needs root, and systemd"},
     {"priv/doc/service.md", "useradd ", "needs root, and makes a user"},
     {"priv/doc/service.md", "install -m 644 kprofd.pem", "needs root, and certificates"},
     {"priv/doc/service.md", "KPROFD_OPTIONS=", "of kprofd.env"},
     {"priv/doc/service.md", "cp /etc/kprofd/kprofd.env", "`make deb-test` does the same"},
     {"test/recordings/README.md", sample, "lines of a file, with the names of what stands in them"}].

%% Commands that print nothing when all is well.
quiet() ->
    ["make uninstall"].

%% What makes an attached kprofd end with an error, as the man page says.
ends_kprofd() ->
    ["kprof_agent:stop()"].
