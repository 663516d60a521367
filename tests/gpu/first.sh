# shellcheck shell=sh disable=SC2154
# first.sh - the section for a machine that is available for minutes only; second.sh continues it. Its parts are in the order of the
# information that they give per second. Each part has a time limit, and rows are written as they are measured.
. tests/gpu/bench.sh
. tests/gpu/package.sh
. tests/gpu/choices.sh
[ -n "$rehearsed" ] && stretch=6 speed=240 || stretch=1 speed=160 # a rehearsal has more seconds, for one or two processors

# Programs that failed on a GPU or never ran on one come first. If test_execution fails, test_first_difference names the network,
# the operator, and whether the workspace matters.
part "test programs" $((60 * stretch))
libraries_row
run_tests execution first_difference nccl_alone copies_run streams recording cuda_graphs products attention cuda_attention \
    cuda_attention_own gradients normalizations

part "bits of plans, accumulation and copies" $((70 * stretch))
same_bits tests/gradients/mlp.onnx --accumulate 2
copied_bits examples/fashion_cnn.onnx --batch 64 --accumulate 2
same_bits tests/gradients/bert.onnx --dtype bf16
same_bits tests/gradients/unet.onnx --accumulate 2
[ -n "$rehearsed" ] || ! path=$(model gpt2_small) || copied_bits "$path" --batch 1 --dtype bf16

part "features that have never run on a GPU" $((60 * stretch))
package_features $((20 * stretch))
copies_traced examples/fashion_cnn.onnx --batch 64
link_rates

part "attention: cuDNN or own kernels" $((20 * stretch))
[ -n "$rehearsed" ] || for net in bert_base gpt2_small; do inner_choices "$net" 1 bf16; done

part "speed" "$speed"
each_net ours_row $first memplan --budget 100%
each_net their_row $first 40 "PyTorch eager"
each_net ours_row $first "memplan 60%" --budget 60% --time-limit 5
[ -n "$rehearsed" ] || each_net their_row $first 60 "PyTorch compile" --how compile
differences
