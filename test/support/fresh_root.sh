#!/bin/sh
# Runs a command in a bare Debian root, in a copy of this checkout's HEAD: what
# passes there needs nothing of this machine.  The root has make, git and the
# certificates that npm and git need; it has this host's network, and its own
# mount, pid, ipc and host name namespaces, so whatever the command starts or
# mounts ends with it.  The bare root is kept as an archive in build/roots, and
# each run starts from it again.  A root of arm64 runs in an emulator, to which the
# kernel gives its programs meanwhile.  Needs root; installs mmdebstrap.
# usage: fresh_root.sh [-s SUITE] [-a arm64] COMMAND [ARGUMENT ...]
set -eu

suite=bookworm arch=
while getopts s:a: option; do
	case $option in
	s) suite=$OPTARG ;;
	a) arch=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
if [ $# = 0 ]; then
	echo "usage: fresh_root.sh [-s SUITE] [-a arm64] COMMAND [ARGUMENT ...]" >&2
	exit 2
fi
if [ "$(id -u)" != 0 ]; then
	echo "fresh_root.sh: needs root, to make a root file system" >&2
	exit 1
fi
top=$(cd "$(dirname "$0")/../.." && pwd)
roots=${KPROFD_ROOTS:-$top/build/roots}
case $roots in /*) ;; *) roots=$top/$roots ;; esac
bare=$roots/bare-$suite${arch:+-$arch}.tar
formats=/proc/sys/fs/binfmt_misc
root=
registered=
finish() {
	[ -z "$root" ] || rm -rf --one-file-system "$root"
	[ -z "$registered" ] || echo -1 > "$formats/$registered"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

case $arch in
'' | arm64) ;;
*) echo "fresh_root.sh: no emulator for $arch" >&2; exit 2 ;;
esac
if [ "$arch" = arm64 ] && [ "$(dpkg --print-architecture)" != arm64 ]; then
	sh "$top/test/support/setup.sh" build mmdebstrap arch-test qemu-user-static
	[ -e $formats/register ] || mount -t binfmt_misc none $formats
	# ELF, 64 bits, little endian, EM_AARCH64; F: the emulator is found in any root
	elf='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
	grep -qs '^flags:.*F' $formats/qemu-aarch64 || {
		printf '%s' ":kprofd-$$:M::$elf:/usr/bin/qemu-aarch64-static:F" > $formats/register
		registered=kprofd-$$
	}
fi
if [ ! -e "$bare" ]; then
	command -v mmdebstrap >/dev/null || {
		apt-get -q -o Acquire::Retries=5 update
		DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
		    -o DPkg::Lock::Timeout=600 -o Acquire::Retries=5 \
		    --no-install-recommends mmdebstrap
	} >&2
	mkdir -p "$roots"
	# The suffix of the name is what mmdebstrap takes the format from.
	mmdebstrap --mode=root --variant=minbase \
	    --aptopt='Acquire::Check-Valid-Until "false"' \
	    --aptopt='Acquire::Retries "5"' \
	    ${arch:+--architectures=$arch} \
	    --include=make,git,ca-certificates "$suite" "$bare.new.tar" >&2
	mv "$bare.new.tar" "$bare"
fi

root=$(mktemp -d "$roots/fresh.XXXXXX")
tar -C "$root" -xf "$bare"
mkdir "$root/root/kprofd"
# git takes no orders of a checkout that is another user's, but for this.
git -C "$top" -c safe.directory="$top" archive HEAD |
    tar -C "$root/root/kprofd" -xf -

# What a network gives to whoever is in it: how names are found, whom to trust,
# and where npm's packages come from.
cat /etc/resolv.conf > "$root/etc/resolv.conf"
cat /etc/ssl/certs/ca-certificates.crt > "$root/etc/ssl/certs/ca-certificates.crt"
if [ -e "${HOME:-/root}/.npmrc" ]; then
	cp "${HOME:-/root}/.npmrc" "$root/root/.npmrc"
fi
echo 'cafile=/etc/ssl/certs/ca-certificates.crt' >> "$root/root/.npmrc"
printf '127.0.0.1\tlocalhost\n127.0.1.1\tfresh\n' > "$root/etc/hosts"

# The shell stays, as process 1, to wait for orphans: make would not, and a
# test that waits for a daemon to be gone would wait for ever.
# shellcheck disable=SC2016
ROOT=$root unshare --mount --pid --ipc --uts --fork --kill-child sh -euc '
	hostname fresh
	mount --make-rslave /
	mount --bind "$ROOT" "$ROOT"
	cd "$ROOT"
	mount -t proc proc proc
	mount --rbind /sys sys
	mount --rbind /dev dev
	mount -t tmpfs tmpfs dev/shm
	mkdir .host
	pivot_root . .host
	umount -l /.host
	rmdir /.host
	cd /root/kprofd
	env -i HOME=/root LANG=C.UTF-8 ${CI:+CI=$CI} \
	    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	    "$@" || exit
	exit 0
' sh "$@" </dev/null
