# shellcheck shell=sh disable=SC2154
# package.sh - read by first.sh and second.sh: checks of the PyTorch package by the Python that has PyTorch. Nothing is installed:
# the package's folder and its library are in the pack.
library=$build/package/libmemplan.so
package_why=$torch_why
[ -e "$library" ] || package_why="$library is not built"

# A program with the package, for so many seconds at most: with_package SECONDS FILE ARGUMENT...
with_package() {
    most=$1
    shift
    within "$most" env PYTHONPATH="$PWD/python/src" MEMPLAN_LIBRARY="$library" MEMPLAN_CACHE="$work/cache" PYTHONDONTWRITEBYTECODE=1 \
        ${spare:+LD_LIBRARY_PATH="$spare"} "$python" "$@" < /dev/null
}

# Features of the package that depend on a GPU, beside each other: nothing is measured, and most of the time goes to imports.
package_features() { # SECONDS
    title="PyTorch package"
    if [ -n "$package_why" ]; then note "$title" "left out" "no PyTorch: $package_why"; return; fi
    running=''
    for name in copies explain_oom ddp fsdp tp; do
        enough 10 "$title: $name" || continue
        with_package "$1" python/bench/gpu_features.py $name "$device" > "$work/logs/feature_$name.txt" 2> "$work/logs/feature_$name.err" &
        running="$running $name:$!"
    done
    for one in $running; do
        wait "${one#*:}"
        status=$? name=${one%:*}
        text=$(tail -n 1 "$work/logs/feature_$name.txt" | cut -c 1-150)
        case $status in
        0) note "$title: $name" ok "$text" ;;
        77) note "$title: $name" "left out" "$text" ;;
        124) note "$title: $name" FAILED "not done within $1 s" ;;
        *) note "$title: $name" FAILED "${text:-$(tail -n 1 "$work/logs/feature_$name.err" | cut -c 1-150)}" ;;
        esac
    done
}

# The table of networks, with bits, bytes and times; rows are written by the program as they are measured.
package_table() { # SECONDS
    title="PyTorch package: table of networks"
    if [ -n "$package_why" ]; then note "$title" "left out" "no PyTorch: $package_why"; return; fi
    # shellcheck disable=SC2086 # several names
    with_package "$1" python/bench/bench_gpu.py --device "$device" --seconds $(($1 - 5)) --rows "$out/$section.jsonl" $package_networks \
        > "$work/logs/package.txt" 2> "$work/logs/package.err"
    status=$?
    say "$(cat "$work/logs/package.txt")"
    case $status in
    0) note "$title" ok "$(grep -c 'same bits' "$work/logs/package.txt") rows with the same bits" ;;
    124) note "$title" FAILED "not done within $1 s" ;;
    *) note "$title" FAILED "$(reason "$work/logs/package.txt" FAILED || tail -n 1 "$work/logs/package.err")" ;;
    esac
}
