#!/bin/sh
# `make install` puts everything where it belongs, what is installed runs, and
# `make uninstall` takes it away.
# usage: install_test.sh BUILD_DIR MAKE
set -u

b=$1 make=$2
dir=$(mktemp -d "${TMPDIR:-/tmp}/install_test.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
. "$(dirname "$0")/lib.sh"

dest=$dir/dest
files() {
	(cd "$1" && find . -type f | sed 's,^\./,,' | sort)
}

version=$(sed -n 's/^VERSION := //p' Makefile)
lib=kprof-$version
umask 022
ok 'make install' "$make" -s B="$b" DESTDIR="$dest" PREFIX=/usr install
same 'files' "$(files "$dest")" "usr/bin/kprof
usr/bin/kprofd
usr/lib/erlang/lib/$lib/ebin/kprof.app
usr/lib/erlang/lib/$lib/ebin/kprof.beam
usr/lib/erlang/lib/$lib/ebin/kprof_cowboy_middleware.beam
usr/lib/erlang/lib/$lib/ebin/kprof_cowboy_stream.beam
usr/lib/erlang/lib/$lib/src/kprof.erl
usr/lib/erlang/lib/$lib/src/kprof_cowboy_middleware.erl
usr/lib/erlang/lib/$lib/src/kprof_cowboy_stream.erl
usr/lib/kprofd/kprof_calls_probe.so
usr/lib/kprofd/kprof_probe.so
usr/lib/kprofd/kprof_sqlite.so
usr/lib/systemd/system/kprofd.service
usr/lib/systemd/system/kprofd@.service
usr/lib/sysusers.d/kprofd.conf
usr/share/bash-completion/completions/kprof
usr/share/bash-completion/completions/kprofd
usr/share/doc/kprofd/architecture.md
usr/share/doc/kprofd/clusters.md
usr/share/doc/kprofd/containers.md
usr/share/doc/kprofd/contributing.md
usr/share/doc/kprofd/cost.md
usr/share/doc/kprofd/dashboard.md
usr/share/doc/kprofd/dashboard.png
usr/share/doc/kprofd/elixir.md
usr/share/doc/kprofd/erlang-library.md
usr/share/doc/kprofd/examples/crontab
usr/share/doc/kprofd/examples/kprofd.env
usr/share/doc/kprofd/examples/logrotate
usr/share/doc/kprofd/functions.md
usr/share/doc/kprofd/glossary.md
usr/share/doc/kprofd/limits.md
usr/share/doc/kprofd/losses.md
usr/share/doc/kprofd/opentelemetry.md
usr/share/doc/kprofd/pprof.md
usr/share/doc/kprofd/pprof.png
usr/share/doc/kprofd/prometheus.md
usr/share/doc/kprofd/pyroscope.md
usr/share/doc/kprofd/reaching.md
usr/share/doc/kprofd/reading-figures.md
usr/share/doc/kprofd/requests.md
usr/share/doc/kprofd/safety.md
usr/share/doc/kprofd/service.md
usr/share/doc/kprofd/speedscope.png
usr/share/doc/kprofd/sql.md
usr/share/doc/kprofd/stacks.md
usr/share/doc/kprofd/troubleshooting.md
usr/share/doc/kprofd/viewers.md
usr/share/fish/vendor_completions.d/kprof.fish
usr/share/fish/vendor_completions.d/kprofd.fish
usr/share/kprofd/deploy/daemonset.yaml
usr/share/kprofd/deploy/sidecar.yaml
usr/share/kprofd/examples/cowboy.conf
usr/share/kprofd/examples/ejabberd.conf
usr/share/kprofd/examples/phoenix.conf
usr/share/kprofd/examples/phoenix_endpoint.conf
usr/share/kprofd/examples/phoenix_queries.conf
usr/share/kprofd/examples/phoenix_status.conf
usr/share/kprofd/examples/rabbitmq.conf
usr/share/kprofd/grafana/kprofd-fleet.json
usr/share/kprofd/grafana/kprofd-itself.json
usr/share/kprofd/grafana/kprofd-node.json
usr/share/kprofd/grafana/kprofd-overview.json
usr/share/kprofd/grafana/kprofd-request.json
usr/share/kprofd/prometheus/kprofd.rules.yml
usr/share/kprofd/prometheus/prometheus.yml
usr/share/kprofd/schema.sql
usr/share/kprofd/tiers.conf
usr/share/man/man1/kprof.1
usr/share/man/man5/tiers.conf.5
usr/share/man/man8/kprofd.8
usr/share/zsh/site-functions/_kprof
usr/share/zsh/site-functions/_kprofd"
same 'documents that name places of another prefix' \
    "$(grep -rl /usr/local/ "$dest/usr/share" || true)" ''
same 'what may be run' "$(cd "$dest" && find . -type f -perm /111 | sort)" \
    "./usr/bin/kprof
./usr/bin/kprofd"
same 'what others may write' \
    "$(find "$dest" ! -type l -perm /022 | head -n 5)" ''

for p in kprof kprofd; do
	same "$p -version" "$("$dest/usr/bin/$p" -version)" "$p $version"
done
same 'the library, found by ERL_LIBS' "$(ERL_LIBS=$dest/usr/lib/erlang/lib \
    erl -noinput -eval 'ok = application:start(kprof), io:format("~p", [kprof:set_token()]), halt().')" ok
for f in "$dest/usr/share/kprofd/tiers.conf" \
    "$dest"/usr/share/kprofd/examples/*.conf; do
	ok "the example ${f##*/}" "$dest/usr/bin/kprofd" -check -tiers "$f"
done
sqlite3 "$dir/k.db" <"$dest/usr/share/kprofd/schema.sql" >/dev/null
ok 'the schema' "$dest/usr/bin/kprof" report -db "$dir/k.db"
same 'the extension' "$(sqlite3 -cmd ".load $dest/usr/lib/kprofd/kprof_sqlite" \
    "$dir/k.db" 'select kprof_merge(hist) is null from stat')" 1
for u in kprofd kprofd@; do
	same "the program of $u.service" \
	    "$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' \
	    "$dest/usr/lib/systemd/system/$u.service")" /usr/bin/kprofd
	same "what is left to put in, in $u.service" \
	    "$(grep -n '@[A-Z]*@' "$dest/usr/lib/systemd/system/$u.service")" ''
done
same 'the state of an instance' "$(sed -n 's/^StateDirectory=//p' \
    "$dest/usr/lib/systemd/system/kprofd@.service")" kprofd/%i

# Somebody else's files stay.
: >"$dest/usr/share/kprofd/mine"
ok 'make uninstall' "$make" -s B="$b" DESTDIR="$dest" PREFIX=/usr uninstall
same 'files that are left' "$(files "$dest")" usr/share/kprofd/mine
same 'directories that are left' \
    "$(cd "$dest/usr" && ls share/doc lib/erlang/lib | grep kprof)" ''

finish
