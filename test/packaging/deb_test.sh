#!/bin/sh
# The Debian packages: lintian finds nothing, what `make install` installs is in
# them, and in a bare root of this release of Debian deb_service.sh installs,
# starts, upgrades and purges the service.  systemd is process 1 of that root;
# where it cannot be, the maintainer scripts and the unit's command have to do
# (KPROFD_SYSTEMD=no: anyway).  Needs root.
# usage: deb_test.sh BUILD_DIR MAKE
set -u

b=$1 make=$2
here=$(dirname "$0")
began=$(date +%s)
[ "$(id -u)" = 0 ] || { echo "deb_test.sh: needs root, to make a root file system" >&2; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/deb_test.XXXXXX")
roots=$(mkdir -p "$b/roots" && cd "$b/roots" && pwd)
root=$(mktemp -d "$roots/fresh.XXXXXX")
container=''
cgroup=kprofd-test.$$
. "$here/lib.sh"

# unshare waits for the root's process 1, and with that everything else in it ends.
stop_container() {
	[ -n "$container" ] || return 0
	kill -KILL "$(cat "$root/kprofd/pid")"
	wait "$container"
	container=
} 2>/dev/null
cleanup() {
	stop_container
	unshare --mount sh -c 'mount -t cgroup2 cgroup2 "$1" && cd "$1" || exit 0
		for _ in $(seq 50); do
			[ -d "$2" ] || exit 0
			find "$2" -depth -type d -exec rmdir {} +
			sleep 0.1
		done' sh "$root/mnt" "$cgroup" 2>/dev/null
	rm -rf --one-file-system "$dir" "$root"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

version=$(sed -n 's/^VERSION := //p' Makefile)
arch=$(dpkg --print-architecture)
debs="$b/kprofd_${version}_$arch.deb $b/erlang-kprof_${version}_all.deb"

(lintian --allow-root --fail-on error,warning --pedantic \
    "$b/package/kprofd_${version}_$arch.changes" >"$dir/lintian" 2>&1
echo $? >"$dir/lintian.rc") &
lintian=$!

# What make install installs, where Debian has it.
dest=$dir/dest
"$make" -s B="$b" DESTDIR="$dest" PREFIX=/usr install >/dev/null ||
    fail 'make install'
(cd "$dest" && find . -type f) | sed 's,^\./,/,
s,^/usr/lib/systemd/,/lib/systemd/,
s,/zsh/site-functions/,/zsh/vendor-completions/,
s,^/usr/share/man/.*,&.gz,' | sort >"$dir/wanted"
for d in $debs; do
	dpkg-deb --fsys-tarfile "$d" | tar -t
done | sed -n 's,^\./usr/lib/systemd/,./lib/systemd/,; s,^\.\(/.*[^/]\)$,\1,p' |
    sort >"$dir/packaged"
same 'what is installed but not packaged' \
    "$(comm -23 "$dir/wanted" "$dir/packaged")" ''
same 'what is packaged beyond that' "$(comm -13 "$dir/wanted" "$dir/packaged" |
    grep -v '/usr/share/doc/erlang-kprof/')" "/etc/kprofd/kprofd.env
/etc/logrotate.d/kprofd
/usr/share/doc/kprofd/changelog.gz
/usr/share/doc/kprofd/copyright
/usr/share/doc/kprofd/copyright.dygraphs
/usr/share/lintian/overrides/kprofd"

# A root with what the packages depend on, and no more, beside a node's Erlang.
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
packages=$(for d in $debs; do dpkg-deb -f "$d" Depends; done | tr ',' '\n' |
    sed 's/[|(].*//; s/ //g' | sort -u | tr '\n' ,)
packages=${packages}erlang-base,systemd-sysv
bare=$roots/package-$suite
if [ "$(cat "$bare/made" 2>/dev/null)" != "$packages" ]; then
	rm -rf --one-file-system "$bare"
	ok 'a bare root' timeout 300 mmdebstrap --mode=root --variant=minbase \
	    --aptopt='Acquire::Check-Valid-Until "false"' \
	    --aptopt='Acquire::Retries "5"' --dpkgopt=force-unsafe-io \
	    --include="$packages" "$suite" "$bare"
	[ "$failed" = 0 ] || exit 1
	echo '127.0.0.1 localhost' >"$bare/etc/hosts"
	echo "$packages" >"$bare/made"
fi
cp -a "$bare/." "$root"
mkdir "$root/kprofd"
# shellcheck disable=SC2086
cp -r $debs "$here/lib.sh" "$here/deb_service.sh" test/sample_app/run \
    test/sample_app/load test/sample_app/tiers.conf "$b/sample_app/ebin" \
    "$root/kprofd"
chmod -R go+rX "$root" 2>/dev/null
ready=$(($(date +%s) - began))

# in_root NETWORK COMMAND...: runs it as process 1 of the root, which is in namespaces
# and a control group of its own.
in_root() {
	network=$1
	shift
	# shellcheck disable=SC2016
	ROOT=$root CGROUP=$cgroup exec unshare --mount sh -euc '
	if mount -t cgroup2 cgroup2 "$ROOT/mnt"; then
		mkdir "$ROOT/mnt/$CGROUP" &&
		    echo $$ >"$ROOT/mnt/$CGROUP/cgroup.procs"
		umount "$ROOT/mnt"
	fi
	exec unshare --mount --pid --ipc --uts --cgroup $0 --fork --kill-child sh -euc "$@"
	' "$network" '
	# As this shell sees itself before there is another /proc.
	read -r pid _ </proc/self/stat
	echo "$pid" >"$ROOT/kprofd/pid"
	hostname bare
	mount --make-rslave /
	mount --bind "$ROOT" "$ROOT"
	cd "$ROOT"
	mount -t proc proc proc
	mount -t sysfs -o ro sysfs sys
	! mount -t cgroup2 cgroup2 sys/fs/cgroup || :
	mount -t tmpfs -o mode=755 dev dev
	for d in null zero full random urandom tty; do
		: >dev/$d
		mount --bind /dev/$d dev/$d
	done
	mkdir dev/shm dev/pts
	mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
	ln -s pts/ptmx dev/ptmx
	mount -t tmpfs -o mode=1777 shm dev/shm
	mount -t tmpfs -o mode=755 run run
	mkdir .host
	pivot_root . .host
	umount -l /.host
	rmdir /.host
	# systemd mounts credentials in a child, for all to see.
	mount --make-rshared /
	exec env -i container=kprofd-test LANG=C.UTF-8 \
	    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	    "$@"' sh "$@"
}

# Boots, which takes two seconds where it can be done.
boot() {
	[ "${KPROFD_SYSTEMD:-}" != no ] || return 1
	in_root --net /lib/systemd/systemd --log-target=null \
	    </dev/null >"$dir/boot" 2>&1 &
	container=$!
	for _ in $(seq 60); do
		sleep 0.5
		kill -0 $container 2>/dev/null || break
		init=$(cat "$root/kprofd/pid" 2>/dev/null) || continue
		case $(nsenter -t "$init" -a systemctl is-system-running 2>/dev/null) in
		running | degraded) return 0 ;;
		esac
	done
	sed 's/^/  /' "$dir/boot" >&2
	stop_container
	return 1
}

if boot; then
	echo 'systemd is process 1 of the root'
	timeout 150 nsenter -t "$init" -a env -i LANG=C.UTF-8 \
	    PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	    sh /kprofd/deb_service.sh systemd </dev/null
else
	echo 'systemd cannot be process 1 here: maintainer scripts, and the command of the unit'
	(in_root '' timeout 150 sh /kprofd/deb_service.sh alone </dev/null)
fi
same 'deb_service.sh' $? 0

wait "$lintian"
same 'lintian' "$(cat "$dir/lintian.rc")" 0
[ "$(cat "$dir/lintian.rc")" = 0 ] || cat "$dir/lintian" >&2
echo "the packages and a bare root were ready after $ready s, all took $(($(date +%s) - began)) s"
finish
