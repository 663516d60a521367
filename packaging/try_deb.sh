#!/bin/sh
# try_deb.sh FILE.deb - the package installs into a clean Debian 12 and serves there: as root, with debootstrap and a mirror (MIRROR=).
set -e
deb=$(realpath "$1")
[ "$(id -u)" = 0 ] && command -v debootstrap > /dev/null || { echo "try_deb: left out: it takes root and debootstrap"; exit 0; }
root=$(mktemp -d)
trap 'umount "$root/proc" 2> /dev/null || true; rm -rf "$root"' EXIT
debootstrap --variant=minbase bookworm "$root" ${MIRROR:+"$MIRROR"} > "$root.log" 2>&1 || { tail -5 "$root.log"; echo "try_deb: no clean root could be made"; exit 1; }
rm -f "$root.log"
cp "$deb" "$root/memplan.deb"
chroot "$root" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends /memplan.deb > /dev/null'
in_root() { chroot "$root" "$@"; }
examples=/usr/share/doc/memplan/examples
in_root memplan version
in_root memplan plan $examples/fashion_cnn.onnx --batch 16 --device cpu --budget 80% -o /plan.json | head -1
in_root memplan check $examples/fashion_cnn.onnx /plan.json
in_root memplan train $examples/fashion_cnn.onnx --plan /plan.json --steps 2 | grep 'bit for bit'
echo "try_deb: in order"
