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
