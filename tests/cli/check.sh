# check.sh - check and graph: the claims of plans. Leaves graph.json, and lie.json and cut.json, which do not hold.
try check check mlp.onnx plan.json
try check_json check mlp.onnx plan.json --json
try check_repeated check mlp.onnx plan.json --batch 4096
try check_contradiction check mlp.onnx plan.json --batch 64
holds graph_is_written "$memplan" graph mlp.onnx --batch 4096 -o graph.json
try check_graph check graph.json plan.json
try graph_json graph chain.json --json
try check_other_graph check chain.json plan.json
holds a_plan_for_other_threads_says_so sh -c "
    '$memplan' plan mlp.onnx --batch 64 --device cpu --budget 100% -o - | sed 's/\"threads\": *[0-9]*/\"threads\":96/; s/\"hash\":\"../\"hash\":\"00/' > other.json
    '$memplan' check mlp.onnx other.json 2>&1 | grep -q 'made with threads 96, here [0-9]*$'"
sed 's/"peak_bytes": *\([0-9]*\)/"peak_bytes": 1\1/' plan.json > lie.json
try check_lie check mlp.onnx lie.json
try check_lie_json check mlp.onnx lie.json --json
# The message names the fault and not its consequences: a missing run, two swapped runs.
spoil() { python3 -c "import json, sys
plan = json.load(open('plan.json')); steps = plan['steps']; again = [k for k, s in enumerate(steps) if s['recompute']]
$1
json.dump(plan, open('spoilt.json', 'w'))"; }
spoil 'del steps[again[0]]'
try check_missing_run check mlp.onnx spoilt.json
spoil 'steps[again[0]], steps[again[1]] = steps[again[1]], steps[again[0]]'
try check_swapped_runs check mlp.onnx spoilt.json
spoil 'steps.insert(again[0], steps[again[0]])'
try check_run_twice check mlp.onnx spoilt.json
spoil "plan['offsets'][3]['first_step'] += 1"
try check_shifted_place check mlp.onnx spoilt.json
head -c 400 plan.json > cut.json
try check_truncated check mlp.onnx cut.json
try check_absent check mlp.onnx absent.json
holds graph_to_stdout sh -c "'$memplan' graph mlp.onnx --batch 4096 | cmp - graph.json"
holds plan_to_stdout sh -c "'$memplan' plan mlp.onnx --batch 4096 --budget 29786624 --solver chen -o - | cmp - plan.json"
holds a_graph_file_plans_like_its_model sh -c "
    '$memplan' plan graph.json --budget 29786624 --solver chen -o plan2.json > /dev/null && '$memplan' check mlp.onnx plan2.json"
holds plans_are_the_same_every_time sh -c "
    for case in 'resnet50.onnx --batch 32 --budget 60%' 'fashion_cnn.onnx --batch 32 --budget floor+50%'; do
        '$memplan' plan \$case -o once.json > /dev/null && '$memplan' plan \$case -o twice.json > /dev/null && cmp once.json twice.json || exit 1
    done"
sed 's/"floor_bytes": *\([0-9]*\)/"floor_bytes": 28084224/' plan.json > untrue.json
try check_floor check mlp.onnx untrue.json
holds plan_above_its_bound "$memplan" plan mlp.onnx --batch 4096 --budget 90% --solver chen -o above.json
try check_proved check mlp.onnx above.json --prove-bound
sed 's/"lower_bound_seconds": *[0-9.e-]*/"lower_bound_seconds": 0.01/' above.json > untrue.json
try check_bound check mlp.onnx untrue.json --prove-bound
sed 's/"bound_covers": *"any-order"/"bound_covers": "zzz"/' above.json > untrue.json
try check_covers check mlp.onnx untrue.json
sed 's/"baseline_seconds": */&-/' above.json > untrue.json
try check_negative check mlp.onnx untrue.json
holds graphs_written_otherwise_have_the_same_answers python3 "$root/tests/cli/metamorphic.py" "$memplan" fashion_cnn.onnx resnet50.onnx
# check prints the warning about the exported form, but not the accuracy of seconds, which `plan` has printed.
holds plan_of_rested "$memplan" plan rested.onnx --batch 64 --budget 100% -o rested.json -q
try check_inference check rested.onnx rested.json
