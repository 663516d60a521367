# ranks.sh - one rank of a mesh: what it holds and sends.
small='--dim layers=2 --dim width=64 --dim heads=4 --dim feed-forward=256 --dim vocabulary=512 --dim sequence=128 --batch 8 --device h100'
try ranks_estimate estimate gpt2 $small --mesh dp=8
try ranks_one estimate gpt2 $small --mesh dp=1 -q
for mesh in dp=8 shard=8,zero=1 shard=8,zero=2 shard=8 dp=2,shard=4 tp=4 tp=4,sp=0 dp=2,shard=4,tp=4; do
    FILTER='sed -n -e /^..peak/p -e /^..param/p -e /^..gradients/p -e /^..optim/p -e /^..saved/p -e /^One/,/[.]$/p' try "ranks_$(echo "$mesh" | tr '=,' '__')" \
        estimate gpt2 $small --mesh $mesh --dtype bf16
done
FILTER='sed -n /^One/,/^..[a-z].*Reshape/p' try ranks_gathered estimate gpt2 $small --mesh tp=8 --dtype bf16
FILTER='sed -n /"mesh"/,$p' try ranks_json estimate gpt2 $small --mesh shard=4,tp=2 --json
FILTER='sed -n /^One/,/[.]$/p' try ranks_network estimate gpt2 $small --mesh dp=16 --network nvlink3+ib200
FILTER='sed -n /^One/,/[.]$/p' try ranks_slow_network estimate gpt2 $small --mesh dp=16 --network eth10
FILTER='sed -n /stated/,/times/p' try ranks_slowdown estimate gpt2 $small --mesh dp=16 --network nvlink4+ib400,slowdown=0.19
FILTER='sed -n /^One/,/[.]$/p' try ranks_buckets estimate gpt2 $small --mesh dp=8 --bucket 64KiB
try ranks_pytorch estimate gpt2 $small --mesh shard=8 --rules pytorch -q
mixed='--dim layers=2 --dim width=64 --dim heads=4 --dim key-value-heads=2 --dim feed-forward=256 --dim vocabulary=512 --dim sequence=128 --batch 8 --device h100'
for mesh in dp=8,ep=8 dp=2,shard=4,ep=2; do
    FILTER='sed -n -e /^..peak/p -e /^..param/p -e /^..gradients/p -e /^..optim/p -e /^..saved/p -e /^One/,/[.]$/p' try "ranks_$(echo "$mesh" | tr '=,' '__')" \
        estimate mixtral-8x7b $mixed --mesh $mesh --dtype bf16
done
# A mesh of one rank equals no mesh.
holds ranks_one_is_the_same sh -c "'$memplan' graph gpt2 $small -o without.json && '$memplan' graph gpt2 $small --mesh dp=1 -o one.json &&
    test 1 = \$(grep -h '\"hash\"' without.json one.json | sort -u | wc -l)"
# A plan gathers dropped parameters again, and passes the checker.
FILTER='grep -v found.by' try ranks_plan plan gpt2 $small --mesh shard=4,tp=2 --dtype bf16 --budget 80% --effort quick -o rank.json
try ranks_check check gpt2 rank.json
holds ranks_gathers_again sh -c "'$memplan' graph gpt2 $small --rules executor --mesh shard=8 --bucket 64KiB -o sharded.json &&
    '$memplan' plan sharded.json --budget min --solver chen -o sharded_plan.json && python3 -c \"
import json
graph, plan = (json.load(open(name)) for name in ('sharded.json', 'sharded_plan.json'))
gathers = {node['id'] for node in graph['nodes'] if node['op'] == 'AllGather'}
assert len(gathers) > 5 and sum(step['node'] in gathers for step in plan['steps']) > len(gathers)\""
# No mesh, no network, nothing to share out.
try ranks_no_mesh estimate gpt2 $small --mesh 8
try ranks_unknown estimate gpt2 $small --mesh dp=2,cp=4
try ranks_twice estimate gpt2 $small --mesh dp=2,dp=4
try ranks_none estimate gpt2 $small --mesh dp=0
try ranks_zero estimate gpt2 $small --mesh dp=2,zero=1
try ranks_experts estimate gpt2 $small --mesh dp=4,ep=3
try ranks_experts_across estimate gpt2 $small --mesh dp=3,shard=4,ep=6
try ranks_no_experts estimate gpt2 $small --mesh dp=4,ep=4
try ranks_experts_share estimate mixtral-8x7b $mixed --mesh dp=3,ep=3
holds ranks_experts_on_the_cpu "$memplan" estimate mixtral-8x7b ${mixed% --device h100} --mesh dp=2,ep=2 --device cpu
try ranks_many estimate gpt2 $small --mesh dp=4294967296,tp=4294967296
try ranks_no_network estimate gpt2 $small --mesh dp=2 --network token-ring
try ranks_two_networks estimate gpt2 $small --mesh dp=2 --network ib200+ib400
try ranks_network_alone estimate gpt2 $small --network nvlink4+ib400
try ranks_bucket_alone plan gpt2 $small --bucket 1MiB --budget 80%
try ranks_server_is_removed estimate gpt2 $small --mesh dp=8 --exchange server
try ranks_no_optimizer estimate gpt2 $small --mesh shard=2 --optimizer none
try ranks_of_a_graph estimate chain.json --mesh dp=2
# A network of one's own, and files with holes.
network() { printf '{"format": "memplan-network", "version": 1%s}' "$1" > own_network.json; }
network ', "levels": [{"devices": 8, "bytes_per_second": 232e9, "latency_seconds": 1e-5}, {"devices": 0, "bytes_per_second": 22.5e9, "latency_seconds": 2e-5}]'
cp own_network.json network.json # for its schema
seconds() { "$memplan" estimate gpt2 $small --mesh dp=16 --network "$1" --json | python3 -c "import json, sys; print(round(json.load(sys.stdin)[\"ranks\"][\"collective_seconds\"], 12))"; }
holds ranks_network_file test "$(seconds nvlink3+ib200)" = "$(seconds own_network.json)" -a -n "$(seconds own_network.json)"
FILTER='sed -n /^One/,/[.]$/p' try ranks_network_of_a_file estimate gpt2 $small --mesh dp=16 --network own_network.json
network ''
try ranks_network_no_levels estimate gpt2 $small --mesh dp=2 --network own_network.json
network ', "levels": []'
try ranks_network_empty estimate gpt2 $small --mesh dp=2 --network own_network.json
network ', "levels": [{"devices": 8, "latency_seconds": 1e-5}]'
try ranks_network_no_rate plan gpt2 $small --mesh dp=2 --network own_network.json
network ', "levels": [{"devices": 8, "latency_seconds": 1e-5, "bytes_per_second": 0}]'
try ranks_network_zero parallel gpt2 --devices 2 --network own_network.json
network ', "levels": [{"devices": 8, "latency_seconds": 1e-5, "bytes_per_second": 1}, {"devices": 2, "latency_seconds": 1e-5, "bytes_per_second": 1}]'
try ranks_network_twice estimate gpt2 $small --mesh dp=2 --network own_network.json
try ranks_network_nowhere estimate gpt2 $small --mesh dp=2 --network nowhere.json
try ranks_unit_none estimate gpt2 --dim layers=1 --mesh shard=2 --rules pytorch --fsdp-unit head
try ranks_unit_parallel parallel gpt2 --dim layers=1 --devices 2 --rules pytorch --fsdp-unit head
try ranks_unit_replicas estimate gpt2 --dim layers=1 --mesh dp=2 --rules pytorch --fsdp-unit embedding
