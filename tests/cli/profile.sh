# profile.sh - profile: measured costs, and plans made with them.
try profile_no_file profile bert.onnx
try profile_graph profile chain.json -o never.json
holds profile_is_what_plan_reads sh -c "
    '$memplan' profile bert.onnx --steps 3 -o costs.json | grep -q 'Where the time goes' &&
    '$memplan' plan bert.onnx --device cpu --costs costs.json --budget floor+80% -o measured.json > /dev/null &&
    '$memplan' check bert.onnx measured.json > /dev/null && '$memplan' train bert.onnx --plan measured.json --steps 2 --no-before > /dev/null"
printf '{"format": "memplan-costs", "version": 1, "nodes": [{"name": "a", "seconds": 1}]}\n' > other_costs.json
printf '{"format": "memplan-costs", "version": 1, "nodes": [{"name": "a", "seconds": -1}]}\n' > bad_costs.json
try costs_other plan bert.onnx --device cpu --costs other_costs.json --budget 100%
try costs_bad plan bert.onnx --device cpu --costs bad_costs.json --budget 100%
try costs_absent plan bert.onnx --device cpu --costs absent.json --budget 100%

holds algorithms_are_measured_planned_and_trained_with sh -c "
    '$memplan' profile fashion_cnn.onnx --batch 4 --steps 2 -o algorithms.json | grep -q 'can be computed in several ways' &&
    '$memplan' plan fashion_cnn.onnx --batch 4 --device cpu --costs algorithms.json --budget 90% -o chosen.json > /dev/null &&
    '$memplan' check fashion_cnn.onnx chosen.json > /dev/null &&
    '$memplan' train fashion_cnn.onnx --plan chosen.json --steps 2 | grep -q 'the same, bit for bit'"
sed 's/\[{"name":"[^"]*","seconds":[^,]*/[{"name":"abacus","seconds":0/' algorithms.json > unknown_algorithm.json
try costs_unknown_algorithm plan fashion_cnn.onnx --batch 4 --device cpu --costs unknown_algorithm.json --budget 100%
try costs_other_batch plan fashion_cnn.onnx --batch 8 --device cpu --costs algorithms.json --budget 100%
sed 's/"target":"[^"]*"/"target":"cpu, 96 threads"/' algorithms.json > elsewhere.json
holds costs_of_another_machine_are_refused sh -c "
    '$memplan' plan fashion_cnn.onnx --batch 4 --device a100 --costs elsewhere.json --budget 100% 2>&1 | grep -q \"measured on 'cpu, 96 threads'\""
holds profile_keeps_what_there_is sh -c "
    '$memplan' profile fashion_cnn.onnx --batch 4 --steps 50 --time-limit 0.001 -o partial.json | grep -q 'Stopped before all was measured' &&
    '$memplan' plan fashion_cnn.onnx --batch 4 --device cpu --costs partial.json --budget 100% > /dev/null
    ! grep -q 'algorithms.*algorithms.*name.*name.*name' partial.json"
# Ctrl-C, once a step has been measured: on a machine that is busy that takes longer
holds profile_interrupted sh -c "
    for seconds in 3 30; do
        timeout --preserve-status -s INT \$seconds '$memplan' profile fashion_cnn.onnx --batch 4 --steps 100000 -o stopped.json > stopped.txt && break
    done
    grep -q 'Stopped before all was measured' stopped.txt && '$memplan' plan fashion_cnn.onnx --batch 4 --device cpu --costs stopped.json --budget 100%"
# The parts of a step take no more than the step.
holds profile_agrees_with_itself sh -c "
    '$memplan' profile bert.onnx --json -o parts.costs > parts.json &&
    '$memplan' train bert.onnx --budget 100% --steps 2 --no-before --profile > parts.txt && grep -q 'in the fastest step (' parts.txt &&
    python3 -c 'import json; d = json.load(open(\"parts.json\")); assert 0 < sum(o[\"seconds\"] for o in d[\"operators\"]) <= d[\"step_seconds\"]'"
