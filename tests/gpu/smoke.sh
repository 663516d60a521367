# shellcheck shell=sh disable=SC2154
# smoke.sh - the section to run first: it finds basic faults. About four minutes.
libraries_row

# Four steps with everything kept: a_step LABEL MODEL ARGUMENT...
a_step() {
    label=$1
    shift
    enough 5 "$label" || return
    case "$device $*" in cpu*--tf32*) note "$label" "left out" "on a GPU only" && return ;; esac
    if train "$(echo "step_$label" | tr -c 'a-zA-Z0-9\n' '_')" "$@" --budget 100% --steps 4 --no-before; then
        note "$label" ok "loss $(losses "$answer" | tail -n 1), $(value "$answer" recordings) captured, weights $(value "$answer" weights_hash)$(attention_in "$answer")"
    else
        note "$label" FAILED "$(reason "$said")"
    fi
}
a_step "mlp, call by call" tests/gradients/mlp.onnx --no-graph
a_step "mlp, captured" tests/gradients/mlp.onnx

for name in cuda_graphs cuda_attention products convolutions attention recording streams; do run_test $name; done

a_step "cnn fp32" tests/gradients/cnn.onnx
a_step "cnn tf32" tests/gradients/cnn.onnx --tf32
a_step "cnn bf16" tests/gradients/cnn.onnx --dtype bf16
a_step "bert bf16" tests/gradients/bert.onnx --dtype bf16
a_step "gpt bf16" tests/gradients/gpt.onnx --dtype bf16

batch=128
[ -z "$rehearsed" ] || batch=2
ours_row resnet50 $batch bf16 memplan --budget 100%
operator_times resnet50 $batch
torch_row 90 resnet50 $batch bf16 "PyTorch eager"
