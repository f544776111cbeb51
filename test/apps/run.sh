#!/bin/sh
# Runs the tests of the example configurations, with the servers in the root
# file system ROOT.  They have namespaces of their own for processes and
# mounts: whatever happens, no process and no mount outlives this script, and
# ROOT stays as it was.
# usage: run.sh BUILD_DIR ROOT [PART-OF-A-TEST'S-NAME ...]
set -eu

[ "$(id -u)" = 0 ] || {
	echo "run.sh: needs to be run by root" >&2
	exit 1
}
# shellcheck disable=SC2016
exec unshare --mount --pid --fork --kill-child --mount-proc sh -euc '
	mount -t proc proc "$2/proc"
	mount -t tmpfs tmpfs "$2/tmp"
	b=$1 root=$2
	shift 2
	erl -noinput -pa "$b/integration/ebin" -pa "$b/apps/ebin" -s it_run main \
	    -extra "$b" -root "$root" -jobs 1 -app apps -modules \
	    cowboy_tests,rabbitmq_tests,ejabberd_tests,phoenix_tests,kiosk_tests,suggest_tests "$@"
' sh "$@"
