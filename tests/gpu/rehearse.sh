#!/bin/sh
# rehearse.sh PACK FOLDER - as root: unpacks the pack (make gpu-pack) in a clean Debian made by debootstrap in FOLDER, with no compiler, no
# development package, no CUDA and no GPU, and runs every section there: without Python, and with one that has no PyTorch. Each has to say
# that there is no GPU, with exit status 77; the tests and trainings then pass on the CPU. The output is in FOLDER/transcript.txt;
# exit status 1 if a section did otherwise.
#
# MIRROR is where debootstrap takes the packages from, if not where it does by itself.
cd "$(dirname "$0")/../.." || exit 2
pack=$(realpath "$1") folder=$(realpath -m "$2")
[ "$(id -u)" = 0 ] || { echo "rehearse: wants to be root, for debootstrap and chroot" >&2; exit 2; }
command -v debootstrap > /dev/null || { echo "rehearse: debootstrap is not installed" >&2; exit 2; }
[ -f "$pack" ] || { echo "rehearse: there is no pack at $pack (make gpu-pack)" >&2; exit 2; }
mkdir -p "$folder" || exit 2

# A clean root, made once: clean_root NAME PACKAGES.
clean_root() {
    [ -e "$folder/$1/etc/debian_version" ] && return
    debootstrap --variant=minbase ${2:+--include="$2"} bookworm "$folder/$1" ${MIRROR:+"$MIRROR"} \
        > "$folder/$1.log" 2>&1 || { tail -n 3 "$folder/$1.log" >&2; exit 2; }
}
# A section in a root: section ROOT STATUS WORD ARGUMENT...; its exit status and that word of its table are looked at.
section() {
    in=$folder/$1 wanted=$2 word=$3
    shift 3
    echo "\$ ./run $*"
    # The loader asks /proc where a program lies.
    unshare --mount sh -c "mount -t proc proc '$in/proc' && exec chroot '$in' env -i PATH=/usr/bin:/bin HOME=/root TESTS='$TESTS' \
        sh -c 'cd /opt/memplan-gpu && rm -rf results && ./run $*'" > "$folder/one.txt" 2>&1
    status=$?
    sed '1,/^$/d' "$folder/one.txt"
    echo "exit status $status"
    n_files=$(find "$in/opt/memplan-gpu/results" -type f | wc -l)
    if [ $status != "$wanted" ] || ! grep -q "$word" "$folder/one.txt" || [ "$n_files" != 2 ]; then
        echo "FAILED: $*: exit status $status, not $wanted; $n_files files" && cat "$folder/one.txt"
    fi
}
# Unpacks in a root and runs every section: rehearse ROOT.
rehearse() {
    rm -rf "$folder/$1/opt/memplan-gpu"
    tar -C "$folder/$1/opt" -xJf "$pack" || exit 2
    echo "== $1: $(chroot "$folder/$1" dpkg-query -W | wc -l) packages"
    for name in first second smoke kernels training algorithms sanitizer ranks bench-ours bench-eager bench-compile memory; do
        section "$1" 77 'no NVIDIA GPU' $name
    done
}

clean_root without-python
clean_root with-python python3
TESTS=''
{
    rehearse without-python
    rehearse with-python
    echo "== on the CPU"
    TESTS=$(tr ' ' '\n' < tests/gpu/tests.txt | grep -v '^cuda' | tr '\n' ' ')
    section with-python 0 ' passed' -r kernels
    TESTS=''
    section with-python 0 'same bits' -r training
} > "$folder/transcript.txt" 2>&1
cat "$folder/transcript.txt"
grep -q '^FAILED' "$folder/transcript.txt" && exit 1
echo "all sections say that there is no GPU, and pass on the CPU"
