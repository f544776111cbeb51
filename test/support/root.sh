#!/bin/sh
# Makes a root file system with one release of Erlang, as Debian has it; or
# `apps`: with servers written in Erlang, and clients for them.  DIR/made says
# that it is whole; what is there without that is made anew.
# usage: root.sh RELEASE|apps|apps13 DIR
set -eu

packages=erlang-base,erlang-runtime-tools,erlang-tools,erlang-ssl
case $1 in
23) suite=bullseye ;;
25) suite=bookworm ;;
27) suite=trixie ;;
29) suite=forky ;;
apps | apps13)
	suite=bookworm
	[ "$1" = apps ] || suite=trixie
	packages=rabbitmq-server,ejabberd,erlang-p1-sqlite3,elixir,yaws
	packages=$packages,curl,wrk,amqp-tools,python3-pika,python3-slixmpp ;;
*) echo "root.sh: no Debian release has OTP $1" >&2; exit 2 ;;
esac

command -v mmdebstrap >/dev/null || {
	echo "root.sh: needs mmdebstrap, and to be run by root" >&2
	exit 1
}
rm -rf --one-file-system "$2"
mkdir -p "$2"
mmdebstrap --mode=root --variant=minbase \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --aptopt='Acquire::Retries "5"' \
    --include="$packages" "$suite" "$2"
# Short node names need the name of this host in there.
cp /etc/hosts "$2/etc/hosts"

# Of 23 only the refusal is tested.
case $1 in apps* | 23) touch "$2/made"; exit 0 ;; esac

# cowboy as that release compiled it, for tests: within RabbitMQ.
chroot "$2" sh -c '
	set -e
	apt-get -q -o Acquire::Check-Valid-Until=false update
	cd /tmp
	apt-get -q -o APT::Sandbox::User=root download rabbitmq-server
	dpkg-deb -x rabbitmq-server_*.deb rabbitmq
	mkdir -p /opt/cowboy
	for a in cowboy cowlib ranch; do
		mv rabbitmq/usr/lib/rabbitmq/lib/*/plugins/$a-* /opt/cowboy/
	done
	rm -rf rabbitmq rabbitmq-server_*.deb
	apt-get clean
	rm -rf /var/lib/apt/lists/*'
touch "$2/made"
