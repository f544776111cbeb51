#!/bin/sh
# The OCI image: what its configuration says, its size, and that what is in it profiles a
# node as the image's user, with a root that is only read, in namespaces of its own but
# for the network.  Needs root, umoci and skopeo.
# usage: image_test.sh BUILD_DIR IMAGE.tar
set -u

b=$(cd "$1" && pwd) image=$2
here=$(dirname "$0")
dir=$(mktemp -d "${TMPDIR:-/tmp}/image_test.XXXXXX")
node=image_test_$$@127.0.0.1
cookie=image$$cookie
app='' daemon=''
. "$here/lib.sh"

cleanup() {
	for pid in $app $daemon; do
		kill "$pid" 2>/dev/null
	done
	rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

version=$(sed -n 's/^VERSION := //p' Makefile)
size=$(stat -c %s "$image")
ok "$size bytes are less than 40 MB" [ "$size" -lt 40000000 ]

mkdir "$dir/oci"
tar -C "$dir/oci" -xf "$image"
skopeo inspect --config "oci:$dir/oci:kprofd:$version" >"$dir/config" || fail 'skopeo'
of() {
	sqlite3 :memory: "select json_extract(readfile('$dir/config'), '$1')"
}
same 'its user' "$(of '$.config.User')" 10001:10001
same 'what it runs' "$(of '$.config.Entrypoint')" '["/usr/bin/kprofd"]'
same 'its volume' "$(of '$.config.Volumes')" '{"/var/lib/kprofd":{}}'
same 'its machine' "$(of '$.architecture')" "$(dpkg --print-architecture)"
same 'its version' "$(of '$.config.Labels."org.opencontainers.image.version"')" "$version"

umoci unpack --image "$dir/oci:kprofd:$version" "$dir/bundle" >"$dir/log" 2>&1 || {
	fail 'umoci unpack'
	cat "$dir/log" >&2
}
root=$dir/bundle/rootfs
same 'programs' "$(find "$root" -xdev -type f -perm /111 ! -name '*.so*' | sed "s,^$root,," | sort)" \
    "/usr/bin/kprof
/usr/bin/kprofd"
same 'files that change who one is' "$(find "$root" -xdev -perm /6000)" ''
same 'files of others' "$(find "$root" -xdev ! -user 0 | sed "s,^$root,,")" /var/lib/kprofd
ok 'licences' [ -s "$root/usr/share/doc/kprofd/copyright" ]

# in_image COMMAND...: as a container runtime would run it
mkdir "$dir/figures" "$dir/run"
chown 10001:10001 "$dir/figures"
printf '%s' "$cookie" >"$dir/run/cookie"
cp test/sample_app/tiers.conf "$dir/run/"
chown -R 0:10001 "$dir/run"
chmod 750 "$dir/run"
chmod 440 "$dir/run/"*
in_image() {
	# shellcheck disable=SC2016
	ROOT=$root DIR=$dir unshare --mount --pid --ipc --uts --fork --kill-child sh -euc '
		mount --make-rslave /
		mount --bind "$ROOT" "$ROOT"
		mount --bind "$DIR/run" "$ROOT/run"
		mount --bind "$DIR/figures" "$ROOT/var/lib/kprofd"
		mount -t proc proc "$ROOT/proc"
		mount -o remount,bind,ro "$ROOT/run"
		mount -o remount,bind,ro "$ROOT"
		exec env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin setpriv --inh-caps=-all \
		    --bounding-set=-all,+sys_chroot,+setuid,+setgid chroot --userspec=10001:10001 \
		    --groups=10001 "$ROOT" "$@"
	' sh "$@"
}

test/sample_app/run "$node" "$b/sample_app/ebin" 0 -setcookie "$cookie" >"$dir/app" 2>&1 &
app=$!
until_ok 'the application' grep -q '^ready' "$dir/app"
port=$(sed -n 's/^ready //p' "$dir/app")
touch "$dir/stamp"
in_image kprofd -target "$node" -tiers /run/tiers.conf -cookie-file /run/cookie \
    -db /var/lib/kprofd/kprofd.db -interval 1s -requests 50 -duration 60s \
    -http 127.0.0.1:0 >"$dir/log" 2>&1 &
daemon=$!
until_ok 'it profiles' grep -q 'profiling' "$dir/log"
same 'it says it is well' "$(in_image kprof status -db /var/lib/kprofd/kprofd.db >"$dir/status" 2>&1
	echo $?)" 0
ok 'requests' test/sample_app/load "$b/sample_app/ebin" "$port" 1 50
wait "$daemon"
same 'kprofd ends' $? 0
in_image kprof report -json -db /var/lib/kprofd/kprofd.db >"$dir/report" || fail 'kprof report'
same 'requests in the report' \
    "$(sqlite3 :memory: "select json_extract(readfile('$dir/report'), '$.rows[0].requests')")" 50
in_image kprof trace -target "$node" -cookie-file /run/cookie -apply 'lists:seq(1, 9)' lists \
    >"$dir/trace" 2>&1 || fail "kprof trace: $(cat "$dir/trace")"
ok 'a trace without a file' grep -q 'lists:seq' "$dir/trace"
same 'it wrote only there' "$(find "$root" -xdev -newer "$dir/stamp")" ''
[ "$failed" -eq 0 ] || cat "$dir/log" >&2
finish
