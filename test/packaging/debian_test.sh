#!/bin/sh
# priv/debian/ says what the rest of the tree says, which needs no Debian tools.
set -u

. "$(dirname "$0")/lib.sh"

same 'the version of priv/debian/changelog' \
    "$(sed -n '1s/^kprofd (\([^)]*\)).*/\1/p' priv/debian/changelog)" \
    "$(sed -n 's/^VERSION := //p' Makefile)"

same 'other versions in the documents' "$(grep -o 'kprofd_[0-9.]*_amd64' README.md \
    priv/doc/service.md | grep -v -F "kprofd_$(sed -n 's/^VERSION := //p' Makefile)_")" ''

# build-essential, which Debian installs for every build, brings the first three.
eval "$(sed -n '/^build="/,/"$/p' test/support/setup.sh)"
# shellcheck disable=SC2086,SC2154
same 'Build-Depends, beside what setup.sh installs for building' \
    "$(sed -n '/^Build-Depends:/,/^[^ B]/p' priv/debian/control |
    sed -n 's/^\(Build-Depends:\)\{0,1\} *\([a-z0-9][^ ,]*\).*/\2/p' | sort)" \
    "$(printf '%s\n' $build debhelper-compat | grep -v -x -e gcc -e libc6-dev -e make |
    sort)"

finish
