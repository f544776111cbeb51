#!/bin/sh
# The library as applications use it: as a dependency of a rebar3 project, from
# a directory and from a repository's subdirectory, and of a mix project, by
# path; without the network, and with warnings as errors.  And its Plug module,
# on a stand-in for Plug (mix_app/lib/plug.ex), and the examples of its README.
# usage: run.sh BUILD VERSION REBAR3
set -eu

build=$(cd "$1" && pwd)
version=$2 rebar3=$3
here=$(cd "$(dirname "$0")" && pwd)
library=$(cd "$here/../../erlang/kprof" && pwd)
work=$build/library
rm -rf "$work"
mkdir -p "$work/home"
export HOME="$work/home" MIX_HOME="$work/home/mix" HEX_OFFLINE=1
export LC_ALL=C.UTF-8

fail() {
	echo "library: $*" >&2
	exit 1
}

# What an application gets: these and nothing else, the agent least of all.
modules() {
	find "$1" -name '*.beam' -exec basename {} .beam \; | sort | tr '\n' ' '
}
erlang="kprof kprof_cowboy_middleware kprof_cowboy_stream "

for f in src/kprof.app.src mix.exs; do
	grep -q "\"$version\"" "$library/$f" ||
	    fail "$f has another version than $version"
done

# $1: where rebar3 puts the library; $2: rebar_app's rebar.config
rebar3_check() {
	(cd "$work/rebar_app" && rm -rf _build rebar.lock &&
	    printf '{deps, [%s]}.\n{erl_opts, [warnings_as_errors]}.\n' "$2" \
	    > rebar.config && "$rebar3" compile)
	ebin=$work/rebar_app/_build/default/$1/ebin
	[ "$(modules "$ebin")" = "$erlang" ] ||
	    fail "rebar3 made $(modules "$ebin")"
	erl -noinput -pa "$ebin" \
	    -pa "$work/rebar_app/_build/default/lib/rebar_app/ebin" \
	    -eval '{ok, _} = application:ensure_all_started(rebar_app), ok = rebar_app:check(), halt().'
}

[ -x "$rebar3" ] || echo "== rebar3: skipped: it cannot be had"
cp -r "$here/rebar_app" "$work/"
if [ -x "$rebar3" ] && command -v git >/dev/null; then
	echo "== rebar3, a repository's subdirectory"
	mkdir -p "$work/repo/erlang"
	cp -r "$library" "$work/repo/erlang/"
	(cd "$work/repo" && git init -q -b main && git add . &&
	    git -c user.name=test -c user.email=test@localhost commit -qm test)
	rebar3_check lib/kprof/erlang/kprof "{kprof, {git_subdir,
	    \"file://$work/repo\", {branch, \"main\"}, \"erlang/kprof\"}}"
fi
if [ -x "$rebar3" ]; then
	echo "== rebar3, a checkout"
	mkdir "$work/rebar_app/_checkouts"
	ln -s "$library" "$work/rebar_app/_checkouts/kprof"
	rebar3_check checkouts/kprof kprof
fi

echo "== mix"
cp -r "$here/mix_app" "$work/"
KPROF=$library
export KPROF
(cd "$work/mix_app" && mix compile --warnings-as-errors && mix test)
ebin=$work/mix_app/_build/dev/lib/kprof/ebin
[ "$(modules "$ebin")" = "Elixir.Kprof.Plug $erlang" ] ||
    fail "mix made $(modules "$ebin")"

echo "== README"
awk -v dir="$work" '
	/^```/ { n += /^```erlang/; on = 0; first = /^```erlang/; next }
	first { on = /^%% tiers.conf/; first = 0 }
	on { print > (dir "/example" n ".conf") }
' "$library/README.md"
for f in "$work"/example*.conf; do
	"$build/kprofd" -check -tiers "$f" 2> "$f.err" && ! [ -s "$f.err" ] || {
		cat "$f" "$f.err" >&2
		fail "an example of README.md is not good"
	}
done

# They compile where they are, and leave nothing there.
[ ! -e "$library/_build" ] || fail "$library/_build was made"
echo "library: passed"
