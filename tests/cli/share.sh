# share.sh - one card for several jobs: the split, its price, who cannot join, and by turns.
small='--memory 26MiB --reserve 1MiB --effort quick --rules memplan'
try share share mlp.onnx fashion_cnn.onnx --batch 64 $small
try share_turns share mlp.onnx fashion_cnn.onnx --batch 64 $small --mode turns
# nothing is searched for where everything fits: this took over a minute
holds share_does_not_search_where_all_fits sh -c "
    timeout 20 '$memplan' share gpt2 bert-base --batch 4 --memory 80GiB --json > fits.json && python3 -c \"
import json
answer = json.load(open('fits.json'))
assert answer['complete'] and all(len(job['options']) == 1 for job in answer['jobs'])
assert all(way['fits'] and way['smallest_bytes'] is None and way['seconds'] == way['bound_seconds'] for way in answer['ways'])\""
try share_all_fits share mlp.onnx fashion_cnn.onnx --batch 64 --memory 40MiB --reserve 1MiB
try share_longest share mlp.onnx fashion_cnn.onnx --batch 64 $small --solver lagrange --goal longest -q
try share_steps share mlp.onnx fashion_cnn.onnx --batch 64 $small --solver lagrange --steps 100,1
try share_three share mlp.onnx fashion_cnn.onnx mlp.onnx --batch 64 --memory 30MiB --reserve 1MiB --effort quick --solver lagrange
try share_refused share chain.json chain.json --memory 0.5KiB -v
try share_no_room share chain.json chain.json --memory 1KiB --reserve 2KiB -q
try share_json share mlp.onnx fashion_cnn.onnx --batch 64 $small --json
# jobs that are the graph of a rank: exchanges of gradients hide recomputation, and plans may be faster than keep-all
holds a_rank_is_written "$memplan" graph gpt2 --dim layers=1 --dim width=64 --dim heads=4 --dim feed-forward=256 --dim vocabulary=512 --dim sequence=128 --batch 8 --mesh tp=2 --device h100 -o exchanging.json
try share_rank_json share exchanging.json exchanging.json --memory 14MiB --reserve 1MiB --effort quick --solver anneal --json
holds share_bounds_of_a_rank_hold python3 -c "
import json
answer = json.load(open('share_rank_json.stdout'))
for job in answer['jobs']:
    assert 'recomputation' in job
    assert all(option['seconds'] >= job['bounds'][-1]['seconds'] for option in job['options']), job
assert all(way['seconds'] >= way['bound_seconds'] for way in answer['ways'])"
try share_json_refused share chain.json chain.json --memory 0.5KiB --json
# the budgets of a split are such that plan meets them, in no more time than the split says
holds share_agrees_with_plan sh -c "
    python3 -c \"import json; way = json.load(open('share_json.stdout'))['ways'][0]; print(*way['budgets'])\" > budgets.txt
    read a b < budgets.txt
    '$memplan' plan mlp.onnx --batch 64 --budget \$a -q && '$memplan' plan fashion_cnn.onnx --batch 64 --budget \$b -q"
# -o: a plan of each job that check takes, with its part of the card
holds share_writes_plans sh -c "
    for mode in beside turns; do
        '$memplan' share mlp.onnx fashion_cnn.onnx --batch 64 $small --solver lagrange --mode \$mode -o \$mode.json --json > \$mode.answer &&
        '$memplan' check mlp.onnx \$mode.job1.json && '$memplan' check fashion_cnn.onnx \$mode.job2.json || exit 1
    done
    python3 -c \"
import json
read = lambda name: json.load(open(name))
for mode, place in (('beside', 0), ('turns', 1)):
    way, plans = read(mode + '.answer')['ways'][place], [read(f'{mode}.job{job}.json') for job in (1, 2)]
    needs = [plan['static_bytes'] + plan['arena_bytes'] for plan in plans]
    assert all(need <= plan['budget_bytes'] for need, plan in zip(needs, plans))
    assert needs == way['budgets'], (needs, way)\""
try share_output_standard share mlp.onnx fashion_cnn.onnx --batch 64 $small -o -
try share_usage_one share mlp.onnx
try share_usage_steps share mlp.onnx mlp.onnx --steps 1,0
try share_usage_steps_many share mlp.onnx mlp.onnx --steps 1,2,3
try share_usage_steps_none share mlp.onnx mlp.onnx --steps 1,
try share_usage_memory share mlp.onnx mlp.onnx --memory 60%
try share_usage_unit share mlp.onnx mlp.onnx --memory 16
try share_usage_mode share mlp.onnx mlp.onnx --mode besides
try share_usage_goal share mlp.onnx mlp.onnx --goal total,longest
# the doubts about each job's file are printed, not only those about the first; everything fits, so nothing is searched for
holds share_notes_of_each_job sh -c "
    '$memplan' share hf_gpt2.dynamo.onnx hf_opt.dynamo.onnx --memory 80GiB -q 2> notes.txt
    grep -q 'hf_gpt2.dynamo.onnx: warning' notes.txt && grep -q 'hf_opt.dynamo.onnx: warning' notes.txt"
try share_unknown_card share chain.json chain.json
try share_absent share mlp.onnx absent.onnx --batch 4
try share_graph_options share chain.json chain.json --batch 4 --memory 1KiB
"$memplan" graph mlp.onnx --batch 4 --device h100 -o on_h100.json
"$memplan" graph mlp.onnx --batch 4 --device a100 -o on_a100.json
try share_other_cards share on_h100.json on_a100.json
try share_same_cards share on_h100.json on_h100.json -q
# by turns in one arena: three pairs, each job as alone, and the arena that was planned; resnet50 with its smallest plan
share_runs() {
    holds "$1" sh -c "'$memplan' share $2 --run --json --effort quick > $1.json && python3 -c \"
import json; run = json.load(open('$1.json'))['run']
assert all(job['identical'] for job in run['jobs']) and run['measured_arena_bytes'] == run['arena_bytes'], run\""
}
share_runs share_run_small "mlp.onnx fashion_cnn.onnx --batch 16 --steps 7,3 --memory 12MiB"
share_runs share_run_twice "fashion_cnn.onnx fashion_cnn.onnx --batch 8 --steps 3 --optimizer momentum --fuse backward"
share_runs share_run_large "resnet50.onnx mlp.onnx fashion_cnn.onnx --batch 1 --steps 2 --memory 600MiB --solver segments"
try share_run_beside share mlp.onnx mlp.onnx --batch 4 --run --mode beside
try share_run_graph share chain.json chain.json --memory 1KiB --run
try share_run_device share mlp.onnx mlp.onnx --batch 4 --run --device a100
try share_run_no_loss share mlp.onnx mlp.onnx --batch 4 --run --loss none
try share_carried share mlp.onnx mlp.onnx --batch 4 --fuse forward
