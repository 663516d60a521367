#!/bin/sh
# gpu_bench.sh BUILD [MODELS] - training steps on a GPU, ours and PyTorch's of the same nets at the same batches: TF32 and bf16; everything
# kept, and with less memory (a plan; torch.utils.checkpoint; torch.compile with a memory budget); where updates run; the largest batch in
# 16 GB. Times are medians of a step without the making of its inputs. Bytes are what was asked for at most (ours: always live + arena;
# PyTorch's: max_memory_allocated), and behind them what the process or the caching allocator holds. Ends with the tables. Runs for 9
# minutes at most and leaves out what it has no time for.
cd "$(dirname "$0")/../.." || exit 2
build=$(realpath "$1") models=${2:-../shared/models}
. tests/gpu/gpu_machine.sh
[ -d "$models" ] || { echo "gpu_bench: the models are not here: $models" >&2; exit 2; }
started=$(date +%s)
left() { echo $((${SECONDS_IN_ALL:-540} - $(date +%s) + started)); }
has_torch=0
"$python" -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null && has_torch=1
: > "$work/table"

row() { # NET BATCH PRECISION WHO SECONDS BYTES HELD
    echo "$@" | awk '{ printf "%-13s %5s %5s  %-24s %9.2f ms %9.2f GiB %9.2f GiB\n", $1, $2, $3, $4, 1000 * $5, $6 / 2^30, $7 / 2^30 }' | tee -a "$work/table"
}
missing() { printf '%-13s %5s %5s  %-24s %s\n' "$1" "$2" "$3" "$4" "$5" | tee -a "$work/table"; }

ours() { # NET BATCH PRECISION WHAT ARGUMENT...
    net=$1 batch=$2 precision=$3 what=$4
    shift 4
    case $precision in tf32) set -- "$@" --tf32 ;; bf16) set -- "$@" --dtype bf16 ;; esac
    [ "$(left)" -gt 20 ] || { missing "$net" "$batch" "$precision" "$what" "left out: no time"; return; }
    if timeout 60 "$build/memplan" train "$models/$net.onnx" --device cuda --batch "$batch" --steps 12 --no-before --json "$@" > "$work/ours.json" 2> "$work/ours.err" < /dev/null; then
        row "$net" "$batch" "$precision" "$what" "$(awk "BEGIN { print $(value "$work/ours.json" step_seconds) - $(value "$work/ours.json" input_seconds) }")" \
            $(($(value "$work/ours.json" static_bytes) + $(value "$work/ours.json" arena_bytes))) "$(value "$work/ours.json" bytes)"
    else
        why=$(head -n 1 "$work/ours.err" | cut -c 1-90)
        missing "$net" "$batch" "$precision" "$what" "${why:-not done within 60 s}"
    fi
}
torch() { # NET BATCH PRECISION HOW
    [ $has_torch = 1 ] || return
    [ "$(left)" -gt 20 ] || { missing "$1" "$2" "$3" "PyTorch-$4" "left out: no time"; return; }
    if timeout "${5:-60}" "$python" tests/bench/bench_torch.py "$1" "$2" 10 cuda "$3" "$4" > "$work/torch.out" 2> "$work/torch.err" < /dev/null; then
        read -r seconds bytes _ held < "$work/torch.out"
        row "$1" "$2" "$3" "PyTorch-$4" "$seconds" "$bytes" "$held"
    else
        missing "$1" "$2" "$3" "PyTorch-$4" "failed: $(tail -n 1 "$work/torch.err" | cut -c 1-80)"
    fi
}

nets='resnet50 128
mobilenet_v2 32
bert_base 32
gpt2_small 8'

# What matters most comes first; the table is put in order at the end.
for precision in tf32 bf16; do
    echo "$nets" | while read -r net batch; do
        ours "$net" "$batch" "$precision" memplan --budget 100%
        torch "$net" "$batch" "$precision" eager
    done
done
echo "$nets" | while read -r net batch; do
    ours "$net" "$batch" bf16 memplan-60% --budget 60% --time-limit 15
    torch "$net" "$batch" bf16 checkpoint
done

# ---- where updates run
echo >> "$work/table"
timeout 60 "$build/tests/bench_updates" "$models/mobilenet_v2.onnx" 32 21 cuda > "$work/updates" 2>&1 || echo "bench_updates: failed: $(tail -n 1 "$work/updates")" > "$work/updates"
for how in forloop foreach eager backward; do torch mobilenet_v2 32 fp32 $how; done

# ---- the largest batch in 16 GB
largest() { # NET
    [ "$(left)" -gt 60 ] || { echo "$1: left out: no time"; return; }
    timeout 60 "$build/memplan" fit "$models/$1.onnx" --device cuda --memory 16GB --overhead 20% --moves 300 --json > "$work/fit.json" 2> "$work/fit.err" ||
        { echo "$1: $(head -n 1 "$work/fit.err")"; return; }
    keep=$(value "$work/fit.json" batch_keep_all) with=$(value "$work/fit.json" batch_recompute)
    echo "$1, fp32: batch $keep with everything kept, $with with 20 % of recomputation"
    [ "$with" -gt 0 ] && ours "$1" "$with" fp32 memplan-16GB --budget 16GB --time-limit 15
    [ "$keep" -gt 0 ] && torch "$1" "$keep" fp32 eager
}
{ largest resnet50; } > "$work/largest" 2>&1

# ---- the compiler, which takes its time
echo "$nets" | while read -r net batch; do
    torch "$net" "$batch" bf16 compile 100
    torch "$net" "$batch" bf16 budget=0.5 100
done
echo "$nets" | while read -r net batch; do torch "$net" "$batch" tf32 compile 100; done

echo
echo "==== $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -n 1), PyTorch $("$python" -c 'import torch; print(torch.__version__)' 2> /dev/null || echo 'is not here')"
printf '%-13s %5s %5s  %-24s %12s %13s %13s\n' net batch '' '' step 'asked for' held
grep . "$work/table" | sort -s -k 1,3
echo
cat "$work/updates" "$work/largest"
echo "in $(($(date +%s) - started)) s"
