#!/bin/sh
# Installs the Debian packages that are missing: for building, and for the
# tests.  Says what it does; does nothing when all are there.
# usage: setup.sh [MORE-PACKAGES]
set -eu

packages="gcc libc6-dev make xxd erlang-base erlang-dev erlang-dialyzer
erlang-eunit libevent-dev libcurl4-openssl-dev libsqlite3-dev sqlite3 libjs-dygraphs
libcmocka-dev clang libclang-rt-dev util-linux elixir erlang-ssl mandoc systemd
libpopt0 jq patch chromium iproute2 openssl zsh fish $*"
# Any node and npm will do, not only Debian's.
command -v npm >/dev/null || packages="$packages nodejs npm"
# logrotate's package would bring a cron with it and set it going: only its
# program is wanted, which goes here.
tools=build/tools

missing=
for p in $packages; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null |
	    grep -q 'install ok installed' || missing="$missing $p"
done
rotate=
command -v logrotate >/dev/null || [ -x $tools/usr/sbin/logrotate ] ||
    rotate=logrotate
[ -n "$missing$rotate" ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "setup: this is no Debian machine; needed:$missing $rotate" >&2
	exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
	sudo=sudo
	command -v sudo >/dev/null || {
		echo "setup: needs root or sudo to install:$missing $rotate" >&2
		exit 1
	}
fi
# A machine that has just been started may be at it by itself.
tries=1
until $sudo apt-get -q -o Acquire::Retries=5 update; do
	[ $tries -lt 20 ] || exit 1
	echo "setup: trying that again" >&2
	tries=$((tries + 1))
	sleep 15
done
if [ -n "$missing" ]; then
	echo "setup: installing$missing"
	# shellcheck disable=SC2086
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
	    -o DPkg::Lock::Timeout=600 -o Acquire::Retries=5 \
	    --no-install-recommends $missing
fi
if [ -n "$rotate" ]; then
	echo "setup: unpacking logrotate into $tools"
	mkdir -p $tools
	(cd $tools && apt-get -q -o Acquire::Retries=5 download logrotate &&
	    dpkg -x logrotate_*.deb . && rm logrotate_*.deb)
fi
