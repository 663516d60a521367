# studies.sh - sweep and fit: the trade-off curve and the largest batch.
try sweep sweep mlp.onnx --batch 4096 --solvers chen,segments --budgets 90%,floor+25%,1MiB
try sweep_default sweep mlp.onnx --batch 4096
try sweep_json sweep mlp.onnx --batch 4096 --solvers chen --budgets floor+25%,1MiB --json
try sweep_graph sweep chain.json
try sweep_infeasible sweep mlp.onnx --batch 4096 --budgets 1MiB
holds sweep_draws sh -c "'$memplan' sweep mlp.onnx --batch 4096 -o curve.svg && grep -q '</svg>' curve.svg && cp curve.svg once.svg &&
    '$memplan' sweep mlp.onnx --batch 4096 -o curve.svg && cmp once.svg curve.svg"
# plans of a rank may be faster than keep-all, because compute moves into waits for exchanges
holds sweep_bounds_of_a_rank_hold sh -c "
    '$memplan' graph gpt2 --dim layers=1 --dim width=64 --dim heads=4 --dim feed-forward=256 --dim vocabulary=512 --dim sequence=128 --batch 8 --mesh tp=2 --device h100 -o waiting.json &&
    '$memplan' sweep waiting.json --budgets 70%,100% --solvers anneal --json > waiting_sweep.json && python3 -c '
import json
answer = json.load(open(\"waiting_sweep.json\"))
plans = [point[\"overhead\"] for curve in answer[\"curves\"] for point in curve[\"points\"] if point[\"overhead\"] is not None]
assert min(plans) < 0 and min(plans) >= answer[\"bounds\"][-1][\"overhead\"], (plans, answer[\"bounds\"])'"
holds sweep_unwritable sh -c "'$memplan' sweep mlp.onnx --batch 64 --solvers none -o no/such/curve.svg; test \$? = 1"
try fit fit mlp.onnx --memory 16MiB --overhead 5% --solver segments
try fit_json fit mlp.onnx --memory 16MiB --overhead 5% --solver segments --json
holds fit_thorough_is_announced sh -c "
    '$memplan' fit mlp.onnx --memory 16MiB --solver segments --effort thorough 2> said.txt > /dev/null && grep -q 'up to minutes' said.txt &&
    '$memplan' fit mlp.onnx --memory 16MiB --solver segments --effort thorough -q 2> said.txt > /dev/null && ! test -s said.txt"
try fit_none fit mlp.onnx --memory 1MiB
try fit_graph fit chain.json --memory 1MiB
try fit_fixed fit mlp.onnx --dim N=4 --memory 16MiB
try fit_absent fit absent.onnx --memory 16MiB
holds fit_agrees_with_plan sh -c "
    batch=\$('$memplan' fit mlp.onnx --rules executor --memory 16MiB --overhead 5% --json | sed -n 's/.*\"batch_any\": \([0-9]*\).*/\1/p')
    '$memplan' plan mlp.onnx --budget 16MiB --batch \$batch > /dev/null && ! '$memplan' plan mlp.onnx --budget 16MiB --batch \$((batch + 1)) > /dev/null"
# The warning is about the answer's batch. Larger and smaller batches, which fit has tried, have other percentages.
holds fit_warns_about_its_batch sh -c "
    batch=\$('$memplan' fit llama3-8b --dim layers=12 --device l4 --memory 200GiB --solver none --json 2> said.txt | sed -n 's/.*\"batch_any\": \([0-9]*\).*/\1/p')
    '$memplan' estimate llama3-8b --dim layers=12 --device l4 --batch \$batch -q 2> same.txt > /dev/null; test \$batch -gt 1 && grep -q '% are in kernels' said.txt && cmp said.txt same.txt"
# With --row-chunks auto, the largest batch is at least that of every fixed number of chunks, and plan finds its plan, too.
holds fit_chooses_chunks python3 -c "
import json, subprocess
def fit(chunks):
    words = ['$memplan', 'fit', 'gpt2', *'--dim layers=1 --dim width=64 --dim heads=2 --dim vocabulary=4096 --dim sequence=32'.split(), '--rules', 'executor',
             '--memory', '16MiB', '--solver', 'segments', '--row-chunks', chunks, '--json']
    return json.loads(subprocess.run(words, capture_output=True, text=True).stdout)
auto, whole = fit('auto'), fit('off')
assert auto['batch_keep_all'] == whole['batch_keep_all'] and auto['batch_recompute'] >= whole['batch_recompute']
fixed = [fit(c)['batch_any'] for c in ('head=2', 'head=4', 'head=8', 'mlp=2', 'mlp=4', 'head=4,mlp=4')]
assert auto['batch_any'] >= max(fixed + [whole['batch_any']]) and auto['batch_any'] > whole['batch_any'], (auto['batch_any'], fixed)
assert auto['any']['row_chunks'] and 'row_chunks' not in auto['keep_all'] and 'row_chunks' not in whole['any']
chunks = ','.join(f'{kind}={n}' for kind, n in auto['any']['row_chunks'].items())
assert fit(chunks)['batch_any'] >= auto['batch_any']
"
# No plan was found for a batch of one, whose floor leaves space for it: that is no proof.
try fit_not_known fit fashion_cnn.onnx --memory 1475KiB --solver segments -q
