#!/bin/sh
# Run by deb_test.sh in a bare root: the packages are installed, kprofd is set up
# as kprofd.env says and started against real nodes, upgraded while it runs,
# removed and purged, and leaves nothing but what others have written.
# usage: deb_service.sh systemd|alone
set -u

how=$1
here=/kprofd
dir=$(mktemp -d)
nodes=
. $here/lib.sh
trap '[ -z "$nodes" ] || kill $nodes 2>/dev/null; rm -rf "$dir"' EXIT

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
	    -o Dpkg::Use-Pty=0 "$@" >"$dir/apt" 2>&1 ||
	    { cat "$dir/apt" >&2; return 1; }
}

# Everything there is, but for what dpkg, apt, systemd and the accounts' tools
# keep of their own.
files() {
	find / -xdev \( -path /kprofd -o -path /tmp -o -path /var/tmp -o -path /var/cache \
	    -o -path /var/log/journal -o -path /var/log/apt -o -path /var/lib/apt \
	    \) -prune -o -print | grep -v -E '^(/etc/(passwd|shadow|group|gshadow)-|/var/lib/dpkg/[^/]*|/var/log/dpkg.log|/var/lib/systemd/(random-seed|timers.*|linger))$' |
	    sort
}

is() {
	same "$1 of $2" "$(systemctl "$1" "$2")" "$3"
}

pid_of() {
	systemctl show -p MainPID --value "$1"
}

# ---- installed, and not started
files >"$dir/before"
ok 'installing' apt install $here/kprofd_*.deb $here/erlang-kprof_*.deb
same 'files that differ from the packages' "$(dpkg -V kprofd erlang-kprof)" ''
same 'the user' "$(getent passwd kprofd | cut -d: -f1,5-)" \
    'kprofd:Erlang profiler:/var/lib/kprofd:/usr/sbin/nologin'
is is-enabled kprofd disabled
[ "$how" != systemd ] || is is-active kprofd inactive
same 'the library, without a path to it' "$(HOME=/tmp erl -noinput -eval \
    'ok = application:start(kprof), io:format("~p", [kprof:set_token()]), halt().')" ok

# ---- set up, for two nodes that somebody else runs
cookie=cookie$$
start_node() {
	HOME=/tmp runuser -u daemon -- sh $here/run "$1@localhost" $here/ebin 0 \
	    -setcookie $cookie >"$dir/$1" 2>&1 &
	nodes="$nodes $!"
	until_ok "the node $1" grep -q '^ready' "$dir/$1"
}
load() {
	HOME=/tmp sh $here/load $here/ebin "$(sed -n 's/^ready //p' "$dir/$1")" 2 200
}
start_node one$$
start_node two$$
(umask 077; printf %s $cookie >/etc/kprofd/kprofd.cookie)
cp $here/tiers.conf /etc/kprofd/
cp -p /etc/kprofd/kprofd.cookie /etc/kprofd/two.cookie
sed "s/^KPROFD_TARGET=.*/KPROFD_TARGET=two$$@localhost/" \
    /etc/kprofd/kprofd.env >/etc/kprofd/two.env
sed -i "s/^KPROFD_TARGET=.*/KPROFD_TARGET=one$$@localhost/" /etc/kprofd/kprofd.env

# ---- started
as_kprofd() {
	runuser -u kprofd -- "$@"
}
start_alone() {
	command=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/kprofd.service |
	    sed 's,%S,/var/lib,')
	install -d -o kprofd -g kprofd -m 750 /var/lib/kprofd /var/log/kprofd
	install -o kprofd -m 400 /etc/kprofd/kprofd.cookie "$dir/cookie"
	chmod 755 "$dir"
	as_kprofd env KPROFD_COOKIE_FILE="$dir/cookie" sh -c \
	    "set -a; . /etc/kprofd/kprofd.env; exec $command" >"$dir/kprofd" 2>&1 &
	alone=$!
	until_ok 'kprofd' grep -q profiling "$dir/kprofd" || cat "$dir/kprofd" >&2
}
case $how in
systemd)
	ok 'starting' systemctl enable --now kprofd
	ok 'starting an instance' systemctl start kprofd@two
	[ "$failed" = 0 ] ||
	    journalctl --no-pager -u kprofd -u kprofd@two | tail -n 20 >&2
	is is-active kprofd active
	is is-active kprofd@two active
	first=$(pid_of kprofd) second=$(pid_of kprofd@two)
	same 'whose processes they are' "$(stat -c %U /proc/"$first" /proc/"$second")" \
	    "kprofd
kprofd"
	;;
alone) start_alone ;;
esac
same 'modes' "$(stat -c '%n %a %U:%G' /var/lib/kprofd /var/log/kprofd)" \
    '/var/lib/kprofd 750 kprofd:kprofd
/var/log/kprofd 750 kprofd:kprofd'
ok 'load' load one$$
db=/var/lib/kprofd/kprofd.db
# A request is counted some time after its end.
counted() {
	as_kprofd kprof dump -db $db >/dev/null && as_kprofd kprof report -db $db |
	    grep -q '^all requests  *200 '
}
until_ok '200 requests in the report' counted || as_kprofd kprof report -db $db >&2

# ---- upgraded
if [ "$how" = systemd ]; then
	ok 'installing again' apt install --reinstall $here/kprofd_*.deb
	is is-active kprofd active
	is is-active kprofd@two active
	for u in kprofd:$first kprofd@two:$second; do
		[ "$(pid_of "${u%:*}")" != "${u#*:}" ] ||
		    fail "${u%:*} was not restarted by the upgrade"
	done
fi

# ---- removed, with what it has written kept
ok 'removing' apt remove kprofd erlang-kprof
if [ "$how" = systemd ]; then
	is is-active kprofd inactive
	is is-active kprofd@two inactive
else
	kill "$alone"
	wait "$alone" 2>/dev/null
fi
ok 'the node goes on' load one$$
ok 'what is kept' ls $db /etc/kprofd/kprofd.env /etc/logrotate.d/kprofd

# ---- purged
ok 'purging' apt purge kprofd erlang-kprof
same 'what purging reports' "$(grep '^kprofd:' "$dir/apt")" \
    'kprofd: removing /var/lib/kprofd
kprofd: removing /var/log/kprofd'
same "what is the operator's" "$(ls /etc/kprofd)" "kprofd.cookie
tiers.conf
two.cookie
two.env"
rm -r /etc/kprofd
# shellcheck disable=SC2086
kill $nodes
nodes=
files >"$dir/after"
same 'files that are left' "$(comm -13 "$dir/before" "$dir/after")" ''
same 'files that are gone' "$(comm -23 "$dir/before" "$dir/after")" ''
same 'the user stays' "$(id -un kprofd)" kprofd

finish
