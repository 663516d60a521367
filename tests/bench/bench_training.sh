#!/bin/sh
# bench_training.sh BUILD [MODELS] - steps of training on the CPU. First, where updates run (bench_updates): one parameter at a time and
# all in one call after backward, within backward, before the next forward. Then, if PYTHON (python3) has PyTorch, the same nets at the
# same batches with the same number of threads there and here, everything kept, in turns: the median step and the peak of the process.
# A net without a model in MODELS is exported from there.
build=$1 models=${2:-${DATA:-DATA}/models}
[ -d "$models" ] || { echo "bench: no models in $models: tests/bench/export_models.py exports them from PyTorch (docs/internals/data.md)" >&2; exit 2; }
while read -r name batch steps; do
    "$build/tests/bench_updates" "$models/$name.onnx" "$batch" "$steps" || exit 1
    echo
done <<'TABLE'
mobilenet_v2 32 7
mobilenet_v2 1 15
resnet50 4 7
bert_base 1 5
TABLE
python=${PYTHON:-python3}
"$python" -c 'import torch' 2> /dev/null || { echo "bench: $python has no PyTorch to compare with (PYTHON=... names another one)"; exit 0; }
threads=${OMP_NUM_THREADS:-$(nproc)}
json=$(mktemp) && exported=$(mktemp -d) && trap 'rm -rf "$json" "$exported"' EXIT
value() { sed -n "s/^ *\"$1\": *\([^,]*\),*$/\1/p" "$json"; }
printf '%-13s %5s  %26s   %26s   %15s\n' "" batch "PyTorch: step, peak" "memplan: step, peak" "ratio of both"
while read -r name batch steps; do
    model=$models/$name.onnx
    [ -f "$model" ] || model=$exported/$name.onnx
    [ -f "$model" ] || "$python" "$(dirname "$0")/bench_torch.py" "$name" "$batch" --export "$model" 2> /dev/null || exit 1
    for round in 1 2; do
        "$python" "$(dirname "$0")/bench_torch.py" "$name" "$batch" --steps "$steps" --threads "$threads" > "$json" || exit 1
        theirs=$(value step_seconds) their_bytes=$(value bytes)
        "$build/memplan" train "$model" --batch "$batch" --budget 100% --steps "$steps" --no-before --json > "$json" || exit 1
        awk -v name="$name" -v batch="$batch" -v theirs="$theirs" -v their_bytes="$their_bytes" -v ours="$(value step_seconds)" -v our_bytes="$(value process_bytes)" \
            'BEGIN { printf "%-13s %5d  %9.3f s %10.1f MiB   %9.3f s %10.1f MiB   %6.2f, %6.2f\n", name, batch, theirs, their_bytes / 1048576,
                     ours, our_bytes / 1048576, ours / theirs, our_bytes / their_bytes }'
    done
done <<'TABLE'
resnet50 8 7
mobilenet_v2 8 9
vit_b_16 4 5
bert_base 2 5
gpt2_small 1 5
llama 2 5
TABLE
