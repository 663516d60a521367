# parallel.sh - meshes of many devices: the best ones, and why every other one is not among them.
try parallel parallel gpt2-small --devices 8 --global-batch 64
try parallel_json parallel mlp.onnx --devices 2 --global-batch 64 --device a100 --json
try parallel_pipeline parallel gpt2-small --devices 4 --mesh pp=4 --global-batch 16 --memory 4GiB
try parallel_none parallel gpt2-small --devices 2 --global-batch 2 --memory 100MiB
try parallel_explain parallel gpt2-small --devices 8 --global-batch 64 --explain dp=8
try parallel_explain_no_mesh parallel gpt2-small --devices 8 --global-batch 64 --explain dp=3
try parallel_batch_that_does_not_divide parallel gpt2-small --devices 7 --mesh dp=7 --global-batch 8
try parallel_without_devices parallel gpt2-small
try parallel_share parallel gpt2-small --devices 8 --memory 50%
try parallel_graph parallel chain.json --devices 8
try parallel_no_mesh parallel gpt2-small --devices 8 --mesh dp=x
holds parallel_agrees_with_its_own_set_aside sh -c "
    '$memplan' parallel gpt2-small --devices 8 --global-batch 64 --json > meshes.json; python3 -c '
import json
a = json.load(open(\"meshes.json\"))
best = a[\"best\"][0][\"seconds\"]
for c in a[\"set_aside\"]:
    assert c[\"reason\"] != \"slower\" or c[\"seconds\"] >= best
    assert c[\"reason\"] != \"bound\" or c[\"bound_seconds\"] >= best
    assert c[\"reason\"] != \"floor\" or c[\"floor_bytes\"] > a[\"memory_bytes\"]
    assert c[\"reason\"] != \"over-memory\" or c[\"peak_bytes\"] > a[\"memory_bytes\"]
'"
