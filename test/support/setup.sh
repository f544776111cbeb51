#!/bin/sh
# Installs the Debian packages that are missing, and lists them first: those for
# building and `make demo`, for `make check` too, or for `make test` too; for `make
# deb`, or for `make deb-test` too.  Leaves in build/setup.done how many that were and
# how long it took.
# usage: setup.sh build|check|test|deb|deb-test [MORE-PACKAGES]
set -eu

build="gcc libc6-dev make xxd erlang-base erlang-dev libevent-dev
libcurl4-openssl-dev libsqlite3-dev libssl-dev libjs-dygraphs zlib1g-dev"
check="libcmocka-dev erlang-eunit sqlite3 patch"
test="erlang-dialyzer erlang-ssl util-linux elixir mandoc
systemd libpopt0 jq less chromium iproute2 openssl zsh fish musl-tools"
deb="debhelper dpkg-dev"
deb_test="lintian mmdebstrap util-linux"
# Any node and npm will do, not only Debian's.
command -v npm >/dev/null || test="$test nodejs npm"

case $1 in
build) packages=$build ;;
check) packages="$build $check" ;;
test) packages="$build $check $test" ;;
deb) packages="$build $deb" ;;
deb-test) packages="$build $deb $deb_test" ;;
*) echo "usage: setup.sh build|check|test|deb|deb-test [MORE-PACKAGES]" >&2; exit 2 ;;
esac
all_tests=$([ "$1" != test ] || echo yes)
shift
packages="$packages $*"

mkdir -p build
log=build/setup.log
rm -f build/setup.done
# logrotate's package would bring a cron with it and set it going: only its
# program is wanted, which goes here.
tools=build/tools

missing=
for p in $packages; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null |
	    grep -q 'install ok installed' || missing="$missing $p"
done
rotate=
[ -z "$all_tests" ] || command -v logrotate >/dev/null ||
    [ -x $tools/usr/sbin/logrotate ] || rotate=logrotate
[ -n "$missing$rotate" ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "setup: this is not a Debian machine; needed:$missing $rotate" >&2
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
until $sudo apt-get -qq -o Acquire::Retries=5 update; do
	[ $tries -lt 20 ] || exit 1
	echo "setup: trying that again" >&2
	tries=$((tries + 1))
	sleep 15
done

# Installs what is missing, or only looks, with other options.  What it prints goes
# into the log, and is shown if it fails.
apt_install() {
	# shellcheck disable=SC2086
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
	    -o DPkg::Lock::Timeout=600 -o Acquire::Retries=5 -o Dpkg::Use-Pty=0 \
	    --no-install-recommends "$@" install $missing > $log 2>&1 || {
		cat $log >&2
		echo "setup: apt-get did not install:$missing" >&2
		exit 1
	}
}

if [ -n "$missing" ]; then
	apt_install -s
	names=$(sed -n 's/^Inst \([^ ]*\).*/\1/p' $log)
	n=$(echo "$names" | wc -l)
	apt_install --print-uris
	mb=$(awk '{ n += $3 } END { printf "%.0f", n / 1e6 }' $log)
	echo "setup: installs $n packages, $mb MB to download:"
	# shellcheck disable=SC2086
	echo $names | fold -s -w 76 | sed 's/^/  /; s/ *$//'
	began=$(date +%s)
	apt_install --download-only
	there=$(date +%s)
	apt_install
	took="downloaded in $((there - began)) s, installed in $(($(date +%s) - there)) s"
	echo "setup: $n packages installed ($took)"
	echo "$n packages $took" > build/setup.done
fi
if [ -n "$rotate" ]; then
	echo "setup: unpacking logrotate into $tools"
	mkdir -p $tools
	(cd $tools && apt-get -q -o Acquire::Retries=5 download logrotate &&
	    dpkg -x logrotate_*.deb . && rm logrotate_*.deb)
fi
