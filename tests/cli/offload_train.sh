# offload_train.sh - training by plans with copies: bits, bytes, memory; and failures of folders, in one sentence.
mkdir -p copies
cp "$root/examples/fashion_cnn.onnx" "$root/examples/mlp4.onnx" .
copying="fashion_cnn.onnx --batch 16 --device cpu --offload copies --link 300MB/s"
# copied FILE STEPS: the answer reports the same bits for both runs, and the plan's bytes of arena, tier and copies exactly.
cat > copied.py <<'END'
import json, sys
answer = json.load(open(sys.argv[1]))
run, copies = answer["after"], answer["offload"]
assert len(run["losses"]) == int(sys.argv[2]) and answer["identical"] in (True, None) and run["allocations"] == 0
assert 0 <= run["arena_bytes"] - run["measured_arena_bytes"] < 4096 # the last bytes may be padding
for tier in copies["tiers"]: assert tier["bytes"] == tier["planned_bytes"] > 0, tier
for way in "bytes_out", "bytes_in": assert copies[way] == copies["planned_" + way] > 0, way
print(run["weights_hash"])
END
copied() { python3 -B copied.py "$@"; }
holds offload_train_plans sh -c "'$memplan' plan $copying --budget 60% --fuse none -o copying.json && '$memplan' check fashion_cnn.onnx copying.json"
# A rate of --link holds the copies to it, a name does not; the results are the same bits.
"$memplan" train fashion_cnn.onnx --plan copying.json --steps 20 --json > copying_slowly.json
"$memplan" train fashion_cnn.onnx --batch 16 --budget 60% --offload copies --link nvme4 --steps 20 --no-before --json > copying_fast.json
"$memplan" train fashion_cnn.onnx --batch 16 --budget 60% --offload host --steps 20 --no-before --json > copying_host.json
holds offload_train_to_a_folder_throttled copied copying_slowly.json 20
holds offload_train_to_a_folder copied copying_fast.json 20
holds offload_train_to_the_host copied copying_host.json 20
holds offload_train_is_no_faster_than_its_link python3 -c "
import json
copies = json.load(open('copying_slowly.json'))['offload']
longest = max(copies['bytes_out'], copies['bytes_in']) / 20 / 300e6
assert copies['planned_step_seconds'] > copies['planned_wait_seconds'] >= 0 and json.load(open('copying_slowly.json'))['after']['step_seconds'] >= longest"
holds offload_train_gives_the_same_bits sh -c "
    for run in slowly fast host; do python3 -B copied.py copying_\$run.json 20; done | sort -u | wc -l | grep -qx 1 && grep -q '\"identical\": true' copying_slowly.json"
holds offload_train_reports sh -c "
    '$memplan' train fashion_cnn.onnx --plan copying.json --steps 2 > copying.txt &&
    grep -q '^  disk, as planned  *0 B  *[0-9.]* MiB\$' copying.txt && grep -q '^    of it, waiting for copies  *[0-9.]* [mun]*s  planned ' copying.txt &&
    grep -q '^Copied as planned: [0-9.]* MiB out and [0-9.]* MiB back in 2 steps.\$' copying.txt"
# A folder of this machine, and a step of several micro-batches.
mkdir -p others
holds offload_train_elsewhere sh -c "
    '$memplan' train fashion_cnn.onnx --plan copying.json --offload others:1GiB --steps 20 --no-before --json > elsewhere.json &&
    test \$(python3 -B copied.py elsewhere.json 20) = \$(python3 -B copied.py copying_slowly.json 20)"
holds offload_train_accumulates sh -c "
    '$memplan' train mlp4.onnx --batch 2048 --budget 85% --solver exact --offload copies --accumulate 3 --steps 2 --no-before --json > accumulated.json &&
    python3 -B copied.py accumulated.json 2"
# BYTES limit the tier, in the search and in the training, also if they are a block less than the plan without a limit takes.
holds offload_train_keeps_to_bytes sh -c "
    copying='fashion_cnn.onnx --batch 64 --device cpu --budget 80% --link nvme4'
    '$memplan' plan \$copying --offload copies --json > unlimited.json &&
    most=\$(python3 -c \"import json; print(json.load(open('unlimited.json'))['tiers'][0]['arena_bytes'] - 4096)\") &&
    '$memplan' train \$copying --offload copies:\$most --steps 1 --no-before --json > kept.json &&
    python3 -B copied.py kept.json 1 && python3 -c \"import json; assert json.load(open('kept.json'))['offload']['tiers'][0]['bytes'] <= \$most\""
state() { "$memplan" train fashion_cnn.onnx --plan copying.json --no-before --json "$@" | grep weights_hash; }
state --steps 4 > offload_whole.hash
state --steps 2 --save offloaded.st > offload_half.hash
state --steps 2 --resume offloaded.st > offload_rest.hash
holds offload_train_resumes sh -c "test -s offload_whole.hash && cmp offload_whole.hash offload_rest.hash && ! cmp -s offload_whole.hash offload_half.hash"
# The least address space in which the plan with a tier trains is too small for recomputation alone.
holds offload_train_where_recomputation_does_not_fit sh -c "
    case '$build' in *san*) exit 0 ;; esac # sanitizers reserve more than any limit
    '$memplan' plan fashion_cnn.onnx --batch 1024 --device cpu --budget min -o recomputing.json &&
    '$memplan' plan fashion_cnn.onnx --batch 1024 --device cpu --budget 225MiB --offload copies -o leaving.json || exit 1
    once() { (ulimit -v \$1; '$memplan' train fashion_cnn.onnx --plan \$2 --steps 1 --no-before -q); }
    for room in \$(seq 260000 40000 1000000); do once \$room leaving.json > /dev/null 2>&1 && break; done
    echo \"address space of \$room KiB\"
    once \$room leaving.json && ! once \$room recomputing.json 2> why.txt && grep -q 'there is no memory for an arena of [0-9]* bytes' why.txt"

# Optimizer state in a folder, or in the host's memory: a model of which nothing fits the budget with it, and the same bits.
paging="mlp4.onnx --batch 64 --device cpu --no-before --json"
hash_of() { "$memplan" train $paging "$@" | grep weights_hash; }
hash_of --budget 100% --steps 6 > kept.hash
trained_with_state_away() { # FUSE WHERE [--link RATE]
    "$memplan" train $paging --budget 80% --fuse "$1" --offload "$2" --offload-state $3 $4 --steps 6 > paged.json && copied paged.json 6 && grep weights_hash paged.json | cmp - kept.hash
}
holds offload_train_state_does_not_fit sh -c "'$memplan' train $paging --budget 80% --steps 1 2>&1 | grep 'nothing fits'"
for fuse in none backward forward; do holds offload_train_state_$fuse trained_with_state_away $fuse copies; done
holds offload_train_state_throttled trained_with_state_away backward copies --link 300MB/s
holds offload_train_state_in_memory trained_with_state_away none host
"$memplan" plan mlp4.onnx --batch 64 --device cpu --budget 80% --offload copies --offload-state -o paging.json > /dev/null
# The saved state does not depend on its tier: a training without the tier can resume from it, and vice versa.
saved_with_state_away() {
    hash_of --budget 100% --steps 2 --save kept.st && "$memplan" train mlp4.onnx --plan paging.json --no-before --steps 2 --save paged.st -q && cmp kept.st paged.st &&
        hash_of --budget 100% --steps 4 --resume paged.st | cmp - kept.hash &&
        "$memplan" train mlp4.onnx --plan paging.json --no-before --steps 4 --resume kept.st --json | grep weights_hash | cmp - kept.hash
}
holds offload_train_state_is_saved saved_with_state_away
holds offload_train_state_accumulates sh -c "
    '$memplan' train $paging --budget 80% --fuse forward --offload copies --offload-state --accumulate 3 --steps 2 --save each.st --save-every 1 > accumulated.json &&
    python3 -B copied.py accumulated.json 2"
holds offload_train_state_and_keep_all sh -c "'$memplan' train mlp4.onnx --plan paging.json --steps 2 > both.txt && grep -q 'same, bit for bit' both.txt && grep -q '^  disk, as planned  *22.12 MiB  *22.12 MiB' both.txt"

# Failures: one sentence that names the folder, the old save is unchanged, and no file is left.
cp offloaded.st untouched.st
model=fashion_cnn.onnx planned=copying.json
paged() { (model=mlp4.onnx planned=paging.json; "$@"); } # the same of the plan with state away
# refused STATUS SENTENCE ARGUMENT...
refused() {
    status=$1 sentence=$2
    shift 2
    "$memplan" train $model --plan $planned --steps 2 --save offloaded.st "$@" 2> why.txt > out.txt
    ended=$?
    cat why.txt
    [ $ended = "$status" ] && [ "$(wc -l < why.txt)" = 1 ] && grep -q "^memplan: .*$sentence" why.txt && [ ! -s out.txt ] && cmp offloaded.st untouched.st && left_nothing
}
left_nothing() { [ -z "$(ls -A copies)$(ls -A others)" ]; }
holds offload_train_no_folder refused 2 "'absent' is neither host nor an existing folder" --offload absent
holds offload_train_no_file refused 1 "cannot create a file for the tier 'disk' in /proc: " --offload /proc
holds offload_train_too_few_bytes refused 1 "the plan needs [0-9]* bytes of the tier 'disk' in others, which has 1048576\$" --offload others:1MiB
holds offload_train_another_memory refused 2 'the plan is for the graph' --offload host
holds offload_train_another_link refused 2 '.--link contradicts the plan' --link nvme4
holds offload_train_no_room_for_state paged refused 1 "the plan needs [0-9]* bytes of the tier 'disk' in others, which has 4194304\$" --offload others:4MiB
without_large_files() { (ulimit -f 1024; refused "$@"); }
holds offload_train_no_large_files without_large_files 1 "cannot reserve [0-9]* bytes for the tier 'disk' in copies: File too large\$"
holds offload_train_no_large_files_of_state paged without_large_files 1 "cannot reserve [0-9]* bytes for the tier 'disk' in copies: File too large\$"
holds offload_train_full_disk sh -c "
    unshare -rm true 2> /dev/null || exit 0
    unshare -rm sh -c \"mount -t tmpfs -o size=2m none others && exec '$memplan' train fashion_cnn.onnx --plan copying.json --offload others --steps 2 --save offloaded.st\" 2> why.txt
    test \$? = 1 && grep -q 'cannot reserve [0-9]* bytes for the tier .disk. in others: No space left on device\$' why.txt && cmp offloaded.st untouched.st"
# The folder goes while the training runs, and a training is killed in the middle of its copies.
running() { # SIGNAL ARGUMENT...: trains, and when the first step is saved removes the folder or kills
    rm -f begun.st
    "$memplan" train $model --plan $planned --no-before --save begun.st --save-every 1 --json "$@" > running.json 2> why.txt &
    pid=$!
    until [ -s begun.st ]; do kill -0 $pid || return 1; sleep 0.02; done
}
bereft() {
    running --steps 20 --offload others && rmdir others && wait $pid && mkdir others && [ "$(copied running.json 20)" = "$(copied copying_slowly.json 20)" ]
}
killed() {
    running --steps 1000000 && kill -KILL $pid
    wait $pid
    [ $? = 137 ] && left_nothing && "$memplan" train $model --plan $planned --steps 1 --no-before --resume begun.st -q
}
holds offload_train_folder_vanishes bereft
holds offload_train_killed_leaves_nothing killed
holds offload_train_killed_with_state_away paged killed
try offload_train_gpu_profile train fashion_cnn.onnx --batch 16 --budget 60% --device h100 --offload host
