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

# Links: plan accepts the printed options; a disk's errors are one sentence, and no file is left in the folder.
mkdir -p linked
"$memplan" profile link host linked --json > links.json
holds profile_link_is_what_plan_takes sh -c "
    option=\$(python3 -c 'import json; print(json.load(open(\"links.json\"))[\"links\"][1][\"option\"])') &&
    '$memplan' plan '$root/examples/mlp4.onnx' --batch 65536 --budget 80% --device cpu --offload linked --link \$option -q && test -z \"\$(ls -A linked)\""
holds profile_link_prints_what_plan_takes sh -c "
    '$memplan' profile link host > links.txt && grep -q '^host: [0-9.]* GB/s out, [0-9.]* GB/s back, latency ' links.txt && grep -q '^ *64.00 MiB ' links.txt &&
    '$memplan' plan '$root/examples/mlp4.onnx' --batch 65536 --budget 80% --device cpu \$(grep '^--offload host --link ' links.txt) -q"
holds profile_link_fits_what_it_measured python3 -c "
import json
for link in json.load(open('links.json'))['links']:
    sizes = link['sizes']
    assert [size['bytes'] for size in sizes] == [65536 * 4**k for k in range(6)]
    for way in 'out', 'in':
        seconds = sorted(size[way + '_seconds'] / (link['latency_seconds'] + size['bytes'] / link[way + '_bytes_per_second']) for size in sizes)
        assert seconds[0] < 1.05 and seconds[-1] > 0.95, (link['where'], way, seconds)"
unlinked() { # STATUS SENTENCE ARGUMENT...
    status=$1 sentence=$2
    shift 2
    "$memplan" profile link "$@" 2> why.txt > out.txt
    ended=$?
    cat why.txt
    [ $ended = "$status" ] && [ "$(wc -l < why.txt)" = 1 ] && grep -q "^memplan: .*$sentence" why.txt && [ ! -s out.txt ] && [ -z "$(ls -A linked)" ]
}
without_large_files_here() { (ulimit -f 1024; unlinked "$@"); }
holds profile_link_no_folder unlinked 1 "cannot create a file for the tier 'disk' in absent: No such file or directory\$" absent
holds profile_link_no_file unlinked 1 "cannot create a file for the tier 'disk' in /proc: " /proc
holds profile_link_no_large_files without_large_files_here 1 "cannot reserve 134217728 bytes for the tier 'disk' in linked: File too large\$" linked
holds profile_link_full_disk sh -c "
    unshare -rm true 2> /dev/null || exit 0
    unshare -rm sh -c \"mount -t tmpfs -o size=2m none linked && exec '$memplan' profile link linked\" 2> why.txt
    test \$? = 1 && grep -q 'cannot reserve 134217728 bytes for the tier .disk. in linked: No space left on device\$' why.txt"
try profile_link_of_a_card profile link host --device h100
try profile_link_without_place profile link
try profile_network_and_model profile network bert.onnx
try profile_network_and_link profile network --link host
# The old forms run, with a notice.
holds profile_link_old_form sh -c "'$memplan' profile --link host > links.txt 2> why.txt && grep -q '^host: ' links.txt &&
    grep -q -- '^memplan: --link is the old form of .profile link WHERE.' why.txt"
holds profile_network_old_form sh -c "'$memplan' profile --network --json 2> why.txt; grep -q -- '^memplan: --network is the old form of .profile network.' why.txt"
try profile_nothing profile
