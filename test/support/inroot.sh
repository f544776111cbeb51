#!/bin/sh
# Runs a command whose programs go into the root file system ROOT by chroot(8)
# and want /proc there.  The mount is the command's alone, and goes with it.
# usage: inroot.sh ROOT COMMAND [ARGUMENT ...]
set -eu

# shellcheck disable=SC2016
exec unshare --mount sh -euc '
	mountpoint -q "$1/proc" || mount -t proc proc "$1/proc"
	shift
	exec "$@"
' sh "$@"
