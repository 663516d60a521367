# system.sh - the system fails (exit status 1), and the example programs.
for command in help 'estimate mlp.onnx --batch 64 --json' 'graph mlp.onnx --batch 64'; do
    holds "disk_full_${command%% *}" sh -c "'$memplan' $command > /dev/full; test \$? = 1"
done
holds unwritable_output sh -c "'$memplan' graph mlp.onnx --batch 64 -o no/such/folder.json; test \$? = 1"

# ---- the example programs
holds example_own_graph "$build/examples/own_graph"
holds example_peak_agrees_with_estimate sh -c "
    peak=\$('$build/examples/peak' resnet50.onnx 8 | sed 's/.*: \([0-9]*\) bytes.*/\1/')
    '$memplan' estimate resnet50.onnx --batch 8 --json | grep -q '\"peak_bytes\": '\$peak,"
# Where the answer goes is tried before anything else is done: the model is not even there.
holds outputs_are_tried_first sh -c "
    for words in 'plan absent.onnx --budget 60%' 'graph absent.onnx' 'pack absent.csv --minimize' 'profile absent.onnx' 'sweep absent.onnx' \
        'draw absent.onnx' 'timeline absent.onnx' 'report absent.onnx' 'train absent.onnx --budget 100%'; do
        case \$words in report*) ending=html;; sweep*|draw*|timeline*|train*) ending=svg;; *) ending=json;; esac
        '$memplan' \$words -o no/such/answer.\$ending 2> why.txt; test \$? = 1 && grep -q '^memplan: no/such/answer.*cannot be written' why.txt || { echo \"\$words\"; cat why.txt; exit 1; }
    done
    '$memplan' train absent.onnx --budget 100% --save no/such/state.safetensors 2>&1 | grep -q 'no/such/state.*cannot be written'"

# ---- memory runs out, in libraries too (a program with sanitizers has an allocator of its own)
if ! grep -q __asan_init "$memplan"; then
    memory_runs_out() { python3 -B "$root/tests/cli/allocations.py" "$memplan" "$build/tests/modules/failing_malloc.so" "$@"; }
    holds memory_runs_out_in_json memory_runs_out 60 graph
    holds memory_runs_out memory_runs_out 8 estimate plan_json check train
fi
