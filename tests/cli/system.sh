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
