#!/bin/sh
# Installs the Debian packages that are missing: for building, and for the
# tests.  Says what it does; does nothing when all are there.
set -eu

packages="gcc libc6-dev make xxd erlang-base erlang-dev libevent-dev
libsqlite3-dev sqlite3 libcmocka-dev clang libclang-rt-dev util-linux
elixir erlang-ssl"

missing=
for p in $packages; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null |
	    grep -q 'install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "setup: this is no Debian machine; needed:$missing" >&2
	exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
	sudo=sudo
	command -v sudo >/dev/null || {
		echo "setup: needs root or sudo to install:$missing" >&2
		exit 1
	}
fi
echo "setup: installing$missing"
$sudo apt-get -q update
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
    --no-install-recommends $missing
