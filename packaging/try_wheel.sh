#!/bin/sh
# try_wheel.sh FILE.whl - the program of a wheel serves in a Debian 12 with Python and nothing that memplan is built with: as root,
# with debootstrap and a mirror (MIRROR=).
set -e
wheel=$(realpath "$1")
[ "$(id -u)" = 0 ] && command -v debootstrap > /dev/null || { echo "try_wheel: left out: it takes root and debootstrap"; exit 0; }
root=$(mktemp -d)
trap 'umount "$root/proc" 2> /dev/null || true; rm -rf "$root"' EXIT
debootstrap --variant=minbase --include=python3-pip bookworm "$root" ${MIRROR:+"$MIRROR"} > "$root.log" 2>&1 \
    || { tail -5 "$root.log"; echo "try_wheel: no clean root could be made"; exit 1; }
rm -f "$root.log"
mount -t proc proc "$root/proc" # where programs find what lies beside them
cp "$wheel" "$(dirname "$0")/../examples/fashion_cnn.onnx" "$root"
in_root() { chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin "$@"; }
in_root pip install -q --no-deps --break-system-packages --root-user-action=ignore "/$(basename "$wheel")"
in_root memplan version
in_root memplan plan /fashion_cnn.onnx --batch 16 --device cpu --budget 80% -o /plan.json | head -1
in_root memplan timeline /fashion_cnn.onnx --batch 16 --plan /plan.json -o /timeline.svg
in_root memplan train /fashion_cnn.onnx --plan /plan.json --steps 2 | grep 'bit for bit'
echo "try_wheel: in order"
