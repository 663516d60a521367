# parallel.sh - meshes of many devices: the best ones, and why every other one is not among them.
try parallel parallel gpt2-small --devices 8 --global-batch 64
try parallel_json parallel mlp.onnx --devices 2 --global-batch 64 --device a100 --json
try parallel_pipeline parallel gpt2-small --devices 4 --mesh pp=4 --global-batch 16 --memory 4GiB
try parallel_hidden_json parallel gpt2 --dim layers=2 --dim width=64 --dim heads=4 --dim feed-forward=256 --dim vocabulary=512 --dim sequence=128 --devices 2 --mesh tp=2 --device h100 --dtype bf16 --memory 6MiB --global-batch 8 --json
holds parallel_states_the_hidden_part python3 -c "
import json
assert any(stage.get('hidden_seconds', 0) > 0 for mesh in json.load(open('parallel_hidden_json.stdout'))['best'] for stage in mesh['stages'])"
try parallel_none parallel gpt2-small --devices 2 --global-batch 2 --memory 100MiB
try parallel_explain parallel gpt2-small --devices 8 --global-batch 64 --explain dp=8
try parallel_explain_no_mesh parallel gpt2-small --devices 8 --global-batch 64 --explain dp=3
try parallel_batch_that_does_not_divide parallel gpt2-small --devices 7 --mesh dp=7 --global-batch 8
try parallel_micro_batch parallel gpt2-small --devices 4 --mesh pp=4 --global-batch 12 --micro-batch-size 3
small_bert='bert-large --dim layers=4 --device a100 --memory 2500MiB --global-batch 64'
try parallel_offload parallel $small_bert --devices 2 --offload host --offload-state
try parallel_offload_json parallel $small_bert --devices 2 --mesh pp=2 --micro-batch-size 4 --pipeline-schedule 1f1b --offload host:4GiB --link pcie5 --json
try parallel_offload_explain parallel $small_bert --devices 2 --offload host --offload-state --explain dp=2
try parallel_offload_folder parallel $small_bert --devices 2 --offload .
try parallel_offload_twice parallel $small_bert --devices 2 --offload host --offload host
try parallel_offload_state_alone parallel $small_bert --devices 2 --offload-state
try parallel_offload_no_link parallel $small_bert --devices 2 --offload host --link mpi
try parallel_chunks parallel gpt2-small --devices 4 --mesh pp=4 --global-batch 16 --pipeline-schedule interleaved --chunks 3
try parallel_without_devices parallel gpt2-small
try parallel_share parallel gpt2-small --devices 8 --memory 50%
try parallel_graph parallel chain.json --devices 8
try parallel_no_mesh parallel gpt2-small --devices 8 --mesh dp=x
# A network of which only the classifier, of 100,000 classes, is worth to be split.
protoc-c --decode=onnx.ModelProto --proto_path=/usr/include/onnx onnx.proto < resnet50.onnx | sed 's/dim_value: 1000$/dim_value: 100000/' |
    protoc-c --encode=onnx.ModelProto --proto_path=/usr/include/onnx onnx.proto > resnet50_wide.onnx
try parallel_data parallel resnet50_wide.onnx --devices 6 --device a100 --network pcie+eth100 --global-batch 192
FILTER='sed -n -e /^..peak/p -e /^..param/p -e /^One/,/[.]$/p' try parallel_data_rank estimate resnet50_wide.onnx --batch 192 --mesh tp=6,data=1
try parallel_data_odd estimate resnet50_wide.onnx --batch 100 --mesh tp=6,data=1
try parallel_data_alone estimate resnet50_wide.onnx --batch 96 --mesh dp=6,data=1 -q
holds parallel_agrees_with_its_own_set_aside sh -c "
    '$memplan' parallel gpt2-small --devices 8 --global-batch 64 --json > meshes.json; python3 -c '
import json
a = json.load(open(\"meshes.json\"))
best = a[\"best\"][0][\"seconds\"]
for c in a[\"set_aside\"]:
    assert c[\"reason\"] != \"slower\" or c[\"seconds\"] >= best / 1.03
    assert c[\"reason\"] != \"bound\" or c[\"bound_seconds\"] >= best
    assert c[\"reason\"] != \"floor\" or c[\"floor_bytes\"] > a[\"memory_bytes\"]
    assert c[\"reason\"] != \"over-memory\" or c[\"peak_bytes\"] > a[\"memory_bytes\"]
'"
# Experts: ep is tried, and named where it wins.
mixed='--dim layers=2 --dim width=256 --dim heads=4 --dim key-value-heads=2 --dim feed-forward=4096 --dim vocabulary=512 --dim sequence=128'
try parallel_experts parallel mixtral-8x7b $mixed --devices 8 --device a100 --dtype bf16 --memory 700MiB --global-batch 16
try parallel_ep_given parallel mixtral-8x7b $mixed --devices 8 --device a100 --dtype bf16 --global-batch 16 --mesh ep=4 -q
try parallel_ep_of_none parallel gpt2 --dim layers=2 --devices 8 --device a100 --global-batch 16 --mesh ep=4 -q
try parallel_zero_given parallel gpt2 --dim layers=2 --devices 8 --device a100 --global-batch 16 --mesh zero=2 -q
# Frozen weights are sharded: of LoRA a rank holds an eighth of all parameters, 2 bytes each, in both commands.
holds parallel_frozen sh -c "
    lora='gpt2 --dim layers=4 --lora 8:* --dtype bf16 --device a100'
    '$memplan' estimate \$lora --mesh shard=8 --json > frozen_estimate.json &&
    '$memplan' parallel \$lora --devices 8 --mesh shard=8,zero=3 --micro-batch-size 1 --global-batch 8 --json > frozen_parallel.json; python3 -c '
import json
a, b = json.load(open(\"frozen_estimate.json\")), json.load(open(\"frozen_parallel.json\"))
held = a[\"n_parameters\"] * 2 / 8
for bytes in (a[\"parameter_bytes\"], b[\"best\"][0][\"stages\"][0][\"memory\"][\"weights\"]):
    assert abs(bytes / held - 1) < 0.02, (bytes, held)
'"
# FSDP2 keeps no bf16 copy of a block's weight from forward to backward: 4 bytes of each part are held, and 2 bytes of each weight
# are not saved, which dp=8 saves. The root group, here both tables, stays gathered; dp=8 saves a copy of the tokens' table only.
# So 70 billion parameters fit 64 cards of 80 GB.
holds parallel_mixed_precision sh -c "
    amp='gpt2 --dim layers=4 --dim sequence=128 --amp bf16 --rules pytorch --device a100 --batch 1'
    '$memplan' estimate \$amp --mesh shard=8 --json > amp_shard.json && '$memplan' estimate \$amp --mesh dp=8 --json > amp_dp.json; python3 -c '
import json
a, b = json.load(open(\"amp_shard.json\")), json.load(open(\"amp_dp.json\"))
tokens, positions = 50257 * 768, 1024 * 768
products = a[\"n_parameters\"] - tokens - positions
assert abs(a[\"parameter_bytes\"] / (4 * a[\"n_parameters\"] / 8) - 1) < 0.01, a[\"parameter_bytes\"]
assert a[\"saved_activation_bytes\"] <= b[\"saved_activation_bytes\"] - 2 * 0.99 * (products - positions), (products, a[\"saved_activation_bytes\"], b[\"saved_activation_bytes\"])
'"
holds parallel_fits_mixed_precision "$memplan" parallel llama3-70b --devices 64 --device a100 --amp bf16 --rules pytorch --mesh shard=64 --micro-batch-size 1 -q
try parallel_help parallel -h
holds parallel_meshes python3 -B "$root/tests/cli/ranks/meshes.py" "$memplan"
# A mesh has one time: in `parallel` alone or among all, and in `estimate`.
holds parallel_one_time python3 -B "$root/tests/cli/ranks/one_time.py" "$memplan"
# The processes of the first mesh exceed the card, so the second search plans with less memory for tensors.
holds parallel_leaves_room_for_the_process sh -c "
    '$memplan' parallel gpt2-large --devices 2 --global-batch 14 --micro-batch-size 7 --device a100 --dim sequence=1072 --mesh shard=2 |
        grep \"^The ranks' processes need 3[.0-9]* GiB more than the reserve\" &&
    ! '$memplan' parallel gpt2-large --devices 2 --global-batch 14 --micro-batch-size 7 --device a100 --dim sequence=1072 --mesh shard=2 \
        --reserve 1GiB | grep 'processes need'"
