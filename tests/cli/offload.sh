# offload.sh - copies to the host and to a disk: links, budgets of tiers, a plan's report of its copies, refusals.
cp "$root/examples/mlp4.onnx" .
mkdir -p scratch
copies="mlp4.onnx --batch 65536 --budget 80% --solver exact"
try offload_plan plan $copies --offload host:8GiB --link c2c -o offloaded.json
try offload_check check mlp4.onnx offloaded.json
holds offload_keeps_the_order sh -c "'$memplan' plan mlp4.onnx --batch 65536 --budget 80% --offload host --keep-order -q -o kept.json && '$memplan' check mlp4.onnx kept.json | grep -q holds"
FILTER="grep -v planning_seconds" try offload_plan_json plan $copies --offload host:8GiB --link c2c --json
FILTER="sed -n /activation/,/^$/p" try offload_plan_disk plan $copies --offload scratch --link nvme5 --device cpu
FILTER="sed -n /activation/,/found/p" try offload_plan_both plan $copies --offload scratch:1TB --offload host --link nvme5 --link 40GB/s --device cpu
try offload_plan_no_room plan mlp4.onnx --batch 65536 --budget 80% --offload host:200MiB --link c2c -q
holds offload_is_in_the_graph sh -c "'$memplan' graph mlp4.onnx --batch 65536 --offload host --offload scratch -o offload_graph.json && grep -q '\"disk\"' offload_graph.json && grep -q '\"link\"' offload_graph.json && exit 1; grep -q '\"/r1/Relu_output_0 to disk\"' offload_graph.json"
holds offload_is_drawn sh -c "'$memplan' timeline mlp4.onnx --plan offloaded.json -o offloaded.svg && '$memplan' draw mlp4.onnx --plan offloaded.json -o offload_draw.svg && grep -q 'copied and brought back: 256' offload_draw.svg"
# A picture shows operators, and copies by the colour of their tensors: as many boxes as without a tier, and no recomputation.
holds offload_draws_no_copies sh -c "'$memplan' draw mlp4.onnx --batch 65536 -o plain_draw.svg && '$memplan' draw mlp4.onnx --batch 65536 --offload host -o idle_draw.svg &&
    '$memplan' draw mlp4.onnx --plan offloaded.json --training -o offload_training.svg && for drawn in plain idle offload; do
        grep -q '>17 operators in 17 boxes' \${drawn}_draw.svg && ! grep -q '>Copy<' \${drawn}_draw.svg || exit 1; done
    ! grep -q '>Copy<' offload_training.svg && ! grep -q '>again<' offload_training.svg && grep -q '>copied and brought back<' offload_training.svg"
try offload_sweep sweep mlp4.onnx --batch 65536 --offload host --link c2c --solvers exact --budgets 70%,80%
try offload_sweep_three sweep mlp4.onnx --batch 65536 --offload host:300MiB --link c2c --effort quick --budgets 65%,80%
tight="mlp4.onnx --batch 65536 --budget 62% --link c2c"
FILTER="sed -n /activation/,/found/p" try offload_plan_worth plan $tight --offload host:300MiB
try offload_plan_host_too_small plan $tight --offload host:200MiB
FILTER="grep -v planning_seconds" try offload_plan_host_too_small_json plan $tight --offload host:200MiB --json
# A plan without offsets in its tier, as older ones are, is read, holds, and says so.
holds offload_check_without_tier_offsets sh -c "
    python3 -c \"
import json
plan = json.load(open('offloaded.json'))
assert len(plan.pop('tier_offsets')) == 1 and plan['tiers'][0].pop('arena_bytes') == 268435456
json.dump(plan, open('older.json', 'w'))\" && '$memplan' check mlp4.onnx older.json > older.txt && grep -q 'host 268,435,456 bytes (at its peak, without offsets)' older.txt"
# Optimizer state in the host's memory: a model whose floor is too high because of it, and the message.
state="mlp4.onnx --batch 64 --budget 36MiB"
try offload_state_stays plan $state -q
try offload_state plan $state --offload host --offload-state -o state.json
try offload_state_check check mlp4.onnx state.json --prove-bound
holds offload_state_json sh -c "'$memplan' plan $state --offload scratch --offload-state --json | python3 -c '
import json, sys
offload = json.load(sys.stdin)[\"offload\"]
assert offload[\"state_bytes\"] == offload[\"tiers\"][0][\"floor_bytes\"] == offload[\"bytes_out\"] == offload[\"bytes_in\"] > 23000000'"
holds offload_state_is_in_the_graph sh -c "'$memplan' graph mlp4.onnx --batch 64 --offload host --offload-state -o state_graph.json && '$memplan' plan state_graph.json --budget 36MiB -o state_plan.json -q && '$memplan' check state_graph.json state_plan.json"
holds offload_state_is_drawn sh -c "'$memplan' timeline mlp4.onnx --plan state.json -o state.svg && grep -q 'optimizer state of fc1.weight to the host' state.svg && grep -q '6 copy, 18 backward, 8 update' state.svg && '$memplan' draw mlp4.onnx --plan state.json -o state_draw.svg && '$memplan' report $state --fuse backward --offload host --offload-state -o state.html"
try offload_state_sweep sweep mlp4.onnx --batch 64 --offload host --offload-state --solvers lagrange,anneal --budgets 36MiB,40MiB
try offload_state_alone plan $state --offload-state
try offload_state_no_room plan $state --offload host:16MiB --offload-state
try offload_state_small plan mlp4.onnx --batch 64 --budget 36MiB --optimizer sgd --offload host --offload-state
# A plan for another device is not run, and none with copies is put into a framework's words yet.
try offload_train train mlp4.onnx --plan offloaded.json --steps 1
try offload_apply apply mlp4.onnx offloaded.json --for deepspeed
try offload_wrong_nowhere plan $copies --offload no/such/folder
try offload_wrong_zero plan $copies --offload host:0
try offload_wrong_share plan $copies --offload host:50%
try offload_wrong_unit plan $copies --offload host:12XB
try offload_wrong_twice plan $copies --offload host --offload host:3GiB
try offload_wrong_link plan $copies --offload host --link pcie9
try offload_wrong_rate plan $copies --offload host --link 12GB
try offload_wrong_latency plan $copies --offload host --link 3GB/s,4GB/s,12ms
FILTER="sed -n /activation/,/^$/p" try offload_plan_measured plan $copies --offload host:8GiB --link 350GB/s,300GB/s,20us,turns
try offload_wrong_links plan $copies --offload host --link pcie4 --link pcie4
try offload_wrong_link_alone plan $copies --link pcie4
try offload_wrong_modules plan mlp4.onnx --batch 65536 --budget 80% --offload host --granularity module
try offload_wrong_small plan mlp4.onnx --batch 2 --budget 80% --offload host
try offload_wrong_estimate estimate mlp4.onnx --offload host
try offload_wrong_graph plan chain.json --budget 350 --offload host
