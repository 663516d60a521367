#!/bin/sh
# run.sh MEMPLAN [MEMORY] - Checkmate's experiment (Jain et al. 2020, figure 6): the largest batch of six networks within 16 GB when
# recomputation may take at most one more forward pass, beside what they published. Takes some minutes.
#
# As there, parameters and their gradients count twice the parameters' bytes (plain SGD, all updates after backward), and 16 GB are
# 16e9 bytes. Otherwise than there, seconds come from a roofline of an A100 instead of counts of operations, a step needs addresses
# for everything, not only a sum of bytes, and any node may run at any time that the data allow.
set -e
memplan=$(realpath "$1") memory=${2:-16e9}
cd "$(dirname "$0")"
json=$(mktemp) && trap 'rm -f "$json"' EXIT
value() { sed -n "s/^ *\"$1\": *\([^,]*\),*$/\1/p" "$json" | head -n 1; }
printf '%-10s %9s %9s %8s %10s %10s %9s\n' network 'keep all' recompute extra allowed Checkmate seconds
row() { # NETWORK PUBLISHED
    "$memplan" estimate "$1.onnx" --batch 16 --optimizer sgd --json > "$json"
    share=$(awk -v f="$(value forward_seconds)" -v b="$(value backward_seconds)" 'BEGIN { printf "%.2f", 100 * f / (f + b) }')
    start=$(date +%s)
    "$memplan" fit "$1.onnx" --memory "$memory" --rules executor --optimizer sgd --overhead "$share%" --json > "$json"
    extra=$(sed -n '/"recompute": {/,/}/s/^ *"overhead": *\([^,]*\),*$/\1/p' "$json" | head -n 1)
    awk -v name="$1" -v keep="$(value batch_keep_all)" -v some="$(value batch_recompute)" -v extra="$extra" -v share="$share" \
        -v theirs="$2" -v took="$(($(date +%s) - start))" \
        'BEGIN { printf "%-10s %9d %9d %+6.1f %% %8.1f %% %10s %9d\n", name, keep, some, 100 * extra, share, theirs, took }'
}
row vgg19 289
row fcn8 60
row segnet 62
row resnet50 193
row mobilenet 1105
row unet 61
