#!/bin/sh
# bench_limits.sh MEMPLAN [SHARED] [SECONDS ...] - the spread of what plan answers, offsets included, under time limits (default: 1, 2
# and 3 seconds): the least, the median and the highest extra time in % of a step of RUNS runs (50), by how many % of the median
# the highest is above it, and how many runs were refused. Six rows whose arenas are hard to fit. ONLY: a pattern of row names.
memplan=$1 shared=${2:-$(dirname "$0")/../../../shared}
[ $# -ge 1 ] && [ -d "$shared" ] || { sed -n 2,4p "$0" >&2; exit 2; }
shift $(($# > 1 ? 2 : 1))
runs=${RUNS:-50}
printf '%-14s %-10s %8s %8s %8s %8s %8s %8s\n' graph budget seconds least median highest 'over %' refused
extra() { # the extra time of a plan in % of a step; nothing: there is none
    "$memplan" plan "$@" --json 2> /dev/null | awk -F'[:,]' '/^ *"seconds"/ { s = $2 } /^ *"baseline_seconds"/ { b = $2 }
        END { if (s && b) printf "%.4f\n", 100 * (s / b - 1) }'
}
row() { # NAME FILE BUDGET OPTION ...
    name=$1 file=$2 budget=$3
    shift 3
    case $name in ${ONLY:-*}) ;; *) return ;; esac
    for limit in $limits; do
        for _ in $(seq "$runs"); do extra "$file" --budget "$budget" --time-limit "$limit" "$@"; done | sort -n | awk -v n="$runs" \
            -v name="$name" -v budget="$budget" -v limit="$limit" '{ x[NR] = $1 }
            END {
                median = x[int((NR + 1) / 2)]
                printf "%-14s %-10s %8s %8.2f %8.2f %8.2f %8.1f %8d\n", name, budget, limit, x[1], median, x[NR],
                    median ? 100 * (x[NR] / median - 1) : 0, n - NR
            }'
    done
}
limits=${*:-1 2 3}
row densenet "$shared/bench/graphs/kusumoto_densenet.json" '30%'
row resnet50 "$shared/bench/graphs/kusumoto_resnet50.json" '30%'
row convnext_tiny "$shared/models/convnext_tiny.onnx" 'floor+50%' --batch 2
row inception_v3 "$shared/models/inception_v3.onnx" 'floor+50%' --batch 2
row resnet152 "$shared/models/resnet152.onnx" 'floor+50%' --batch 2
row vit_b_16 "$shared/models/vit_b_16.onnx" 'floor+50%' --batch 2
