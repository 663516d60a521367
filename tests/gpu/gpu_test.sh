#!/bin/sh
# gpu_test.sh BUILD [MODELS] - what can only be tested on a GPU: the kernels through the CPU's tests, gradients and losses against the
# CPU's, the arena as planned and as measured, plans against everything kept in all three places of the updates, captured steps against
# steps call by call, and small models under compute-sanitizer. Ends with a table; exit status 1 if anything failed. Within 10 minutes.
cd "$(dirname "$0")/../.." || exit 2
build=$(realpath "$1") models=${2:-../shared/models}
. tests/gpu/gpu_machine.sh

failed=0
: > "$work/table"
note() { # LABEL VERDICT...
    label=$1
    shift
    printf '%-44s %s\n' "$label" "$*" | tee -a "$work/table"
    case $1 in FAILED) failed=$((failed + 1)) ;; esac
}
train() { # OUT MODEL ARGUMENT...
    out=$1 model=$2
    shift 2
    timeout 120 "$build/memplan" train "$model" --device cuda --steps 4 --no-before --json "$@" > "$out" 2> "$out.err"
}
losses() { sed -n '/"losses"/,/]/p' "$1"; }

# ---- the tests of kernels and of whole steps
for name in $TESTS unaries binaries randoms kernels convolutions pools normalizations softmaxes reductions products attention gathers \
    sources samplings moves optimizer gradients execution algorithm_runs recording streams accuracy cuda_graphs cuda_attention; do
    test=$build/tests/test_$name
    [ -x "$test" ] || continue
    MEMPLAN_TEST_BACKEND=cuda timeout 120 "$test" > "$work/$name.log" 2>&1
    status=$?
    count() { sed -n "s/^\[  *$1  *\] \([0-9][0-9]*\) test(s).*/\1/p" "$work/$name.log" | awk '{ n += $1 } END { print n + 0 }'; }
    if [ $status = 0 ]; then note "test_$name" "$(count PASSED) passed"; else
        note "test_$name" FAILED "$(count PASSED) passed, $(count FAILED) not (status $status)"
        grep -E '^(\[  FAILED  \]|\[  ERROR)' -A 2 "$work/$name.log" | head -n 12
    fi
done

# ---- whole trainings: MODEL ARGUMENT...
check() {
    model=$1
    shift
    title="$(basename "$model" .onnx) $*"
    [ -e "$model" ] || return
    if ! train "$work/all.json" "$model" --budget 100% "$@"; then
        note "$title" FAILED "$(head -n 1 "$work/all.json.err")"
        return
    fi
    hash=$(value "$work/all.json" weights_hash) worst=
    for fuse in none backward forward; do
        for budget in 100% floor+60%; do
            train "$work/one.json" "$model" --budget "$budget" --fuse "$fuse" "$@" || {
                grep -q 'no plan was found' "$work/one.json.err" || worst="$fuse, $budget: $(head -n 1 "$work/one.json.err")"
                continue # in the smallest nets there is none
            }
            [ "$(value "$work/one.json" weights_hash)" = "$hash" ] || worst="$fuse, $budget: other weights"
            [ "$(losses "$work/one.json")" = "$(losses "$work/all.json")" ] || worst="$fuse, $budget: other losses"
            planned=$(value "$work/one.json" arena_bytes) measured=$(value "$work/one.json" measured_arena_bytes)
            [ "$measured" -le "$planned" ] && [ "$measured" -gt $((planned * 3 / 4)) ] || worst="$fuse, $budget: $measured bytes of an arena of $planned"
            [ "$(value "$work/one.json" recordings)" -gt 0 ] || worst="$fuse, $budget: no step was captured"
        done
    done
    train "$work/calls.json" "$model" --budget 100% --no-graph "$@" || worst="--no-graph: $(head -n 1 "$work/calls.json.err")"
    [ "$(value "$work/calls.json" weights_hash)" = "$hash" ] || worst="call by call: other weights"
    for how in "" --no-graph; do
        train "$work/beside.json" "$model" --budget 100% --fuse backward --second-stream $how "$@" ||
            worst="--second-stream $how: $(head -n 1 "$work/beside.json.err")"
        [ "$(value "$work/beside.json" weights_hash)" = "$hash" ] || worst="--second-stream $how: other weights"
    done
    if [ -z "$worst" ]; then note "$title" "same bits: 3 x fuse, 2 plans, 2 streams, call by call"; else note "$title" FAILED "$worst"; fi
}
for net in mlp cnn unet bert gpt; do check "tests/gradients/$net.onnx"; done
check tests/gradients/bert.onnx --dtype bf16
check tests/gradients/cnn.onnx --accumulate 3
check "$models/mobilenet_v2.onnx" --batch 8
check "$models/resnet50.onnx" --batch 8 --dtype bf16
check "$models/gpt2_small.onnx" --batch 1

# ---- algorithms of convolutions: measured, planned with, and the bits of everything kept with the same ones: MODEL BATCH
algorithms() {
    title="algorithms of $(basename "$1" .onnx)"
    [ -e "$1" ] || return
    if ! timeout 300 "$build/memplan" profile "$1" --device cuda --batch "$2" --steps 4 --tf32 -o "$work/costs.json" > "$work/profile.out" 2>&1; then
        note "$title" FAILED "$(tail -n 1 "$work/profile.out" | cut -c 1-100)"
        return
    fi
    for budget in 100% floor+50%; do
        timeout 120 "$build/memplan" train "$1" --device cuda --batch "$2" --steps 4 --tf32 --costs "$work/costs.json" --budget $budget \
            > "$work/chosen.out" 2>&1 || { note "$title, $budget" FAILED "$(tail -n 1 "$work/chosen.out" | cut -c 1-100)"; return; }
    done
    note "$title" "$(sed -n 's/^\([0-9]* nodes can be computed.*\)/\1/p' "$work/profile.out")"
}
algorithms "$models/resnet18.onnx" 8
algorithms "$models/mobilenet_v2.onnx" 8

# ---- the losses of the CPU
for net in mlp cnn unet bert gpt; do
    train "$work/gpu.json" "tests/gradients/$net.onnx" --budget 100%
    "$build/memplan" train "tests/gradients/$net.onnx" --device cpu --steps 4 --no-before --json --budget 100% > "$work/cpu.json" 2> /dev/null
    losses "$work/gpu.json" > "$work/gpu.losses"
    losses "$work/cpu.json" > "$work/cpu.losses"
    off=$(paste "$work/gpu.losses" "$work/cpu.losses" | tr -d ',' | awk '$1 + 0 { d = $1 / $2 - 1; if (d < 0) d = -d; if (d > most) most = d; n++ } END { print n ? most : 1 }')
    if awk "BEGIN { exit !($off < 1e-4) }"; then note "$net: losses off the CPU's by" "$off"; else note "$net: losses off the CPU's by" FAILED "$off"; fi
done

# ---- no room: a sentence, exit status 1, and what was saved stays
train "$work/saved.json" tests/gradients/mlp.onnx --budget 100% --save "$work/kept.st"
cp "$work/kept.st" "$work/before.st" 2> /dev/null
if [ -e "$models/resnet50.onnx" ]; then
    timeout 120 "$build/memplan" train "$models/resnet50.onnx" --device cuda --batch 100000 --budget 100% --steps 1 --no-before --save "$work/kept.st" > "$work/full.out" 2>&1
    status=$?
    if [ $status = 1 ] && grep -q 'there is no memory for' "$work/full.out" && cmp -s "$work/kept.st" "$work/before.st"; then
        note "out of memory" "$(tail -n 1 "$work/full.out" | cut -c 1-100)"
    else
        note "out of memory" FAILED "status $status, $(tail -n 1 "$work/full.out" | cut -c 1-100)"
    fi
fi

# ---- compute-sanitizer
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null)
for net in mlp cnn bert; do
    [ -n "$sanitizer" ] || { note "compute-sanitizer" "not here"; break; }
    for tool in memcheck racecheck; do
        timeout 100 "$sanitizer" --tool $tool --error-exitcode 9 "$build/memplan" train "tests/gradients/$net.onnx" --device cuda --budget floor+40% --steps 2 \
            --no-before > "$work/sanitizer.log" 2>&1
        status=$?
        case $status in
        0) note "$tool $net" "no errors" ;;
        124) note "$tool $net" "not done within 100 s" ;;
        *) note "$tool $net" FAILED "$(grep -m 1 -E 'Invalid|Race|ERROR SUMMARY|memplan:' "$work/sanitizer.log" | cut -c 1-120)" ;;
        esac
    done
done

echo
echo "==== $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -n 1)"
cat "$work/table"
echo "$(wc -l < "$work/table") checks, $failed failed"
[ $failed = 0 ]
