#!/bin/sh
# Unpacks one Debian package into a directory, without installing it: for
# tests that want what is in it, and not what it depends on.
# usage: deb.sh PACKAGE DIR
set -eu

mkdir -p "$2"
dir=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# As another user apt-get could not write here.
download() {
	apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=5 \
	    download "$1"
}
unpack() {
	download "$1" || {
		echo "deb.sh: looking for newer lists of packages" >&2
		apt-get -q -o Acquire::Retries=5 update
		download "$1"
	}
	dpkg-deb --fsys-tarfile "$1"_*.deb | tar -xf - -C "$dir" ${2:+--wildcards "$2"}
}
# Of Go's 330 MB the tests want one program.
if [ "$1" = golang-go ]; then
	unpack "$(apt-cache depends golang-go | sed -n 's/^ *Depends: \(golang-[0-9.]*-go\)$/\1/p')" \
	    '*/pkg/tool/*/pprof'
	exit
fi
unpack "$1"
# From Debian 13 on its tool is in a package of its own.
if [ "$1" = prometheus ] && [ ! -e "$dir/usr/bin/promtool" ]; then
	unpack promtool
fi
