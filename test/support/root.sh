#!/bin/sh
# Makes a root file system with one release of Erlang, as Debian has it.
# usage: root.sh RELEASE DIR
set -eu

case $1 in
25) suite=bookworm ;;
27) suite=trixie ;;
29) suite=forky ;;
*) echo "root.sh: no Debian release has OTP $1" >&2; exit 2 ;;
esac

command -v mmdebstrap >/dev/null || {
	echo "root.sh: needs mmdebstrap, and to be run by root" >&2
	exit 1
}
mkdir -p "$2"
mmdebstrap --mode=root --variant=minbase \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --include=erlang-base,erlang-runtime-tools,erlang-tools,erlang-ssl "$suite" "$2"
# Short node names need the name of this host in there.
cp /etc/hosts "$2/etc/hosts"
