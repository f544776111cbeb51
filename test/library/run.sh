#!/bin/sh
# The library as applications use it: as a dependency by path of a rebar3 and
# of a mix project, without the network, and with warnings as errors; and its
# Plug module, on a stand-in for Plug (mix_app/lib/plug.ex).
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
export REBAR_OFFLINE=1 LC_ALL=C.UTF-8

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

echo "== rebar3"
cp -r "$here/rebar_app" "$work/"
mkdir "$work/rebar_app/_checkouts"
ln -s "$library" "$work/rebar_app/_checkouts/kprof"
(cd "$work/rebar_app" && "$rebar3" compile)
ebin=$work/rebar_app/_build/default/checkouts/kprof/ebin
[ "$(modules "$ebin")" = "$erlang" ] ||
    fail "rebar3 made $(modules "$ebin")"
erl -noinput -pa "$ebin" -pa "$work/rebar_app/_build/default/lib/rebar_app/ebin" \
    -eval '{ok, _} = application:ensure_all_started(rebar_app), ok = rebar_app:check(), halt().'

echo "== mix"
cp -r "$here/mix_app" "$work/"
KPROF=$library
export KPROF
(cd "$work/mix_app" && mix compile --warnings-as-errors && mix test)
ebin=$work/mix_app/_build/dev/lib/kprof/ebin
[ "$(modules "$ebin")" = "Elixir.Kprof.Plug $erlang" ] ||
    fail "mix made $(modules "$ebin")"

# They compile where they are, and leave nothing there.
[ ! -e "$library/_build" ] || fail "$library/_build was made"
echo "library: passed"
