#!/bin/sh
# Makes an OCI image of kprofd from its Debian package, without a container engine: what
# the package depends on, the certificates of the authorities that Debian trusts, and no
# shell.  It runs as user 10001, with a file system that is only read but for
# /var/lib/kprofd.  Needs root, mmdebstrap and umoci.
# usage: image.sh kprofd_VERSION_ARCH.deb IMAGE.tar
set -eu

deb=$1 image=$2
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
version=$(dpkg-deb -f "$deb" Version)
arch=$(dpkg-deb -f "$deb" Architecture)
# Not what only the package's scripts need, to make a user.
depends=$(dpkg-deb -f "$deb" Depends | tr ',' '\n' | sed 's/[|(].*//; s/ //g; /^systemd/d' |
    paste -sd ,)
dir=$(mktemp -d "${TMPDIR:-/tmp}/image.XXXXXX")
trap 'rm -rf --one-file-system "$dir"' EXIT
trap 'exit 1' INT TERM
root=$dir/root

# Packages are unpacked, and their scripts do not run: none of these needs them to.
mmdebstrap --quiet --mode=root --variant=extract --architectures="$arch" \
    --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "5"' \
    --include="$depends" "$suite" "$root"
dpkg-deb -x "$deb" "$root"
(cd "$dir" && apt-get -qq -o APT::Sandbox::User=root download ca-certificates &&
    dpkg-deb -x ca-certificates_*.deb certificates)
cat "$dir"/certificates/usr/share/ca-certificates/mozilla/*.crt >"$dir/authorities"

# Licences stay; what only people read, or only the scripts of packages, does not.
find "$root/usr/share/doc" -type f ! -name 'copyright*' -delete
find "$root/usr/share/doc" -type d -empty -delete
find "$root/usr/share" -mindepth 1 -maxdepth 1 ! -name doc ! -name kprofd \
    ! -name common-licenses -exec rm -rf {} +
# Programs of the packages are not run by kprofd.
for d in usr/bin usr/sbin bin sbin; do
	[ ! -d "$root/$d" ] || find "$root/$d/" ! -type d ! -name kprof ! -name kprofd -delete
done
rm -rf "$root"/usr/lib/*/gconv "$root/var" "$root/etc" "$root/run" \
    "$root"/usr/lib/sysusers.d "$root"/usr/lib/systemd "$root"/lib/systemd

mkdir -p "$root/etc/ssl/certs" "$root/var/lib/kprofd" "$root/tmp" \
    "$root/proc" "$root/dev" "$root/run"
chmod 1777 "$root/tmp"
mv "$dir/authorities" "$root/etc/ssl/certs/ca-certificates.crt"
echo 'kprofd:x:10001:10001::/var/lib/kprofd:/nonexistent' >"$root/etc/passwd"
echo 'kprofd:x:10001:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chown 10001:10001 "$root/var/lib/kprofd"
ldconfig -r "$root"

umoci init --layout "$dir/oci"
umoci new --image "$dir/oci:kprofd:$version"
umoci insert --image "$dir/oci:kprofd:$version" "$root" /
umoci config --image "$dir/oci:kprofd:$version" --no-history --architecture "$arch" --os linux \
    --config.user 10001:10001 --config.workingdir /var/lib/kprofd \
    --config.volume /var/lib/kprofd --config.entrypoint /usr/bin/kprofd \
    --config.env PATH=/usr/bin --config.env LANG=C.UTF-8 \
    --config.label org.opencontainers.image.title=kprofd \
    --config.label "org.opencontainers.image.version=$version" \
    --config.label org.opencontainers.image.licenses=Apache-2.0
umoci gc --layout "$dir/oci"
tar -C "$dir/oci" --owner=0 --group=0 --numeric-owner -cf "$image.new" .
mv "$image.new" "$image"
