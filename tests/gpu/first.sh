# shellcheck shell=sh disable=SC2154
# first.sh - the section for a machine that is available for minutes only. Its parts are in the order of the information that they
# give per second. Each part has a time limit, and rows are written as they are measured.
. tests/gpu/bench.sh
if [ -n "$rehearsed" ]; then quick=20 middle=30 long=60; else quick=60 middle=90 long=240; fi

# Programs that failed on a GPU or never ran on one come first.
part "test programs" $quick
for name in execution cuda_graphs products attention cuda_attention copies_run streams recording gradients normalizations; do
    run_test $name
done

part "bits of plans, accumulation and copies" $middle
same_bits tests/gradients/mlp.onnx --accumulate 2
same_bits tests/gradients/unet.onnx --accumulate 2
same_bits tests/gradients/bert.onnx --dtype bf16
copied_bits tests/gradients/gpt.onnx
copied_bits tests/gradients/cnn.onnx --accumulate 2

part "speed" $long
each_net ours_row $first memplan --budget 100%
each_net their_row $first 40 "PyTorch eager"
each_net ours_row $first "memplan 60%" --budget 60% --time-limit 5
each_net their_row $first 60 "PyTorch compile" --how compile

part "links and operators" $quick
link_rates
while read -r net batch; do operator_times "$net" "$batch"; done << END
$nets
END
differences
