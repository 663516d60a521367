# shellcheck shell=sh disable=SC2154
# ranks.sh - the section of several GPUs, a process for each, joined by NCCL: the bits of one GPU, from run to run, captured and call
# by call; state shared out; sums of NCCL's own; steps. It wants two GPUs; with four the smallest net runs on all of them.
n_gpus=$(within 20 nvidia-smi --query-gpu=index --format=csv,noheader 2> /dev/null | wc -l)
[ -z "$CUDA_VISIBLE_DEVICES" ] || n_gpus=$(echo "$CUDA_VISIBLE_DEVICES" | tr ',' '\n' | wc -l)
[ -z "$rehearsed" ] || n_gpus=4
missing=''
[ "$n_gpus" -ge 2 ] || missing="wants two GPUs, and there is one"
[ -e "$build/memplan_mpi.so" ] || missing="was packed without MPI (libopenmpi-dev, openmpi-bin)"
command -v mpirun > /dev/null || missing="wants mpirun, of Open MPI as the pack was built with"

# A training of many processes; as train: many NAME RANKS MODEL ARGUMENT... writes $answer and $said.
many() {
    answer=$work/logs/$1.json said=$work/logs/$1.txt n_ranks=$2 many_model=$3
    shift 3
    ours 120 mpirun --allow-run-as-root --oversubscribe -n "$n_ranks" "$build/memplan" train "$many_model" --device "$device" --steps 4 --json "$@" \
        > "$answer" 2> "$said"
}
# Conditions on all of these trainings: the used arena is at most the planned one, and the sent bytes are the planned ones; else fills $wrong.
as_planned() {
    [ "$(value "$answer" sent_bytes)" = "$(value "$answer" planned_sent_bytes)" ] ||
        wrong="$(value "$answer" sent_bytes) bytes sent, planned $(value "$answer" planned_sent_bytes)"
    [ "$(value "$answer" measured_arena_bytes)" -le "$(value "$answer" arena_bytes)" ] || wrong="more used of the arena than is planned"
}
# One mesh, its losses beside those of one GPU that accumulates as many micro-batches (the first is the same, bit for bit, all of them
# where $exact is set), and its bits again, call by call: ranks_bits NET RANKS MESH ARGUMENT...
ranks_bits() {
    net=$1 n=$2 mesh=$3
    shift 3
    title="$net, $mesh${*:+ $*}"
    enough 20 "$title" || return
    log=$(echo "ranks_$title" | tr -c 'a-zA-Z0-9\n' '_') wrong=''
    if many "$log" "$n" "tests/gradients/$net.onnx" --mesh "$mesh" --budget 100% --no-before "$@"; then
        as_planned
        losses "$answer" > "$work/many"
        hash=$(value "$answer" weights_hash)
        network=$(value "$answer" network) sent=$(value "$answer" sent_bytes)
        many "${log}_by_call" "$n" "tests/gradients/$net.onnx" --mesh "$mesh" --budget 100% --no-before --no-graph "$@" || wrong=$(reason "$said")
        losses "$answer" | cmp -s - "$work/many" || wrong="other losses call by call"
        [ "$(value "$answer" weights_hash)" = "$hash" ] || wrong="other weights call by call"
        train "${log}_one" "tests/gradients/$net.onnx" --budget 100% --no-before --steps 4 --accumulate "$n" || wrong=$(reason "$said")
        losses "$answer" > "$work/alone"
        if [ -n "$exact" ]; then cmp -s "$work/alone" "$work/many" || wrong="other losses than one GPU"; fi
        [ "$(head -n 1 "$work/alone")" = "$(head -n 1 "$work/many")" ] || wrong="another first loss than one GPU"
    else
        wrong=$(reason "$said")
    fi
    if [ -n "$wrong" ]; then note "$title" FAILED "$wrong"; else note "$title" ok "same bits, $sent bytes sent, $network"; fi
}

if [ -n "$missing" ]; then
    note "several GPUs" "left out" "this section $missing"
else
    exact=1
    ranks_bits mlp 2 dp=2
    [ "$n_gpus" -lt 4 ] || ranks_bits mlp 4 dp=4
    ranks_bits mlp 2 shard=2,zero=1
    ranks_bits mlp 2 shard=2
    exact=''
    for net in cnn bert gpt; do ranks_bits $net 2 dp=2; done
    ranks_bits gpt 2 shard=2 --bucket 16KiB

    # ---- sums as NCCL makes them: near those in the order of the ranks
    title="cnn, dp=2: sums of the library's own"
    if enough 20 "$title"; then
        many fast_ordered 2 tests/gradients/cnn.onnx --mesh dp=2 --budget 100% --no-before
        ordered=$answer
        many fast 2 tests/gradients/cnn.onnx --mesh dp=2 --budget 100% --no-before --reduce fast
        off=$(losses_off "$answer" "$ordered")
        if awk "BEGIN { exit !($off <= 1e-4) }"; then note "$title" ok "losses off by $off"; else note "$title" FAILED "losses off by $off: $(reason "$said")"; fi
    fi

    # ---- steps, each rank with as large a batch
    batch=128 precision=bf16
    [ -z "$rehearsed" ] || batch=1 precision=fp32
    for reduce in ordered fast; do
        title="resnet50, batch $batch on each of 2, $reduce"
        enough 30 "$title" || continue
        path=$(model resnet50) || { note "$title" "left out" "the model is not here"; continue; }
        if many "steps_$reduce" 2 "$path" --batch $batch --dtype $precision --mesh dp=2 --budget 100% --no-before --reduce $reduce; then
            note "$title" ok "$(value "$answer" step_seconds) s a step, $(value "$answer" sent_bytes) bytes sent"
        else
            note "$title" FAILED "$(reason "$said")"
        fi
    done
fi
