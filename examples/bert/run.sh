#!/bin/sh
# run.sh MEMPLAN [MEMORY] - BERT-base, fine-tuned on pairs of sentences of 128 tokens: the largest batch that fits a memory with and
# without recomputation, as `fit` says it, and then two steps of training with each, measured. Takes some minutes.
set -e
memplan=$(realpath "$1") memory=${2:-3GiB}
cd "$(dirname "$0")"
json=$(mktemp) && trap 'rm -f "$json"' EXIT
value() { sed -n "s/^ *\"$1\": *\([^,]*\),*$/\1/p" "$json" | tail -n 1; }
"$memplan" fit bert.onnx --memory "$memory" --device cpu
"$memplan" fit bert.onnx --memory "$memory" --device cpu --json > "$json"
limit=$(value memory_bytes) keep_all=$(value batch_keep_all) recompute=$(value batch_recompute)
printf '\n%-10s %6s %16s %16s %16s %10s %11s\n' trained batch 'planned bytes' 'measured bytes' 'process bytes' 'step' 'samples/s'
run() { # WHAT BATCH BUDGET
    "$memplan" train bert.onnx --batch "$2" --budget "$3" --steps 2 --lr 0.00002 --no-before --json > "$json"
    awk -v what="$1" -v batch="$2" -v limit="$limit" -v fixed="$(value static_bytes)" -v planned="$(value arena_bytes)" \
        -v measured="$(value measured_arena_bytes)" -v process="$(value process_bytes)" -v step="$(value step_seconds)" 'BEGIN {
            printf "%-10s %6d %16.0f %16.0f %16.0f %8.2f s %11.2f\n", what, batch, fixed + planned, fixed + measured, process, step, batch / step
            exit fixed + measured > limit }' || { echo "$1 takes more than $memory" >&2; exit 1; }
}
run 'keep all' "$keep_all" 100%
run recompute "$recompute" "$memory"
