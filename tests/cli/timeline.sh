# timeline.sh - timeline: memory over the steps of plan.json, drawn. Leaves no_offsets.json.
for ending in svg png pdf; do holds "timeline_$ending" sh -c "
    '$memplan' timeline mlp.onnx --plan plan.json -o once.$ending && '$memplan' timeline mlp.onnx --plan plan.json -o twice.$ending &&
    cmp once.$ending twice.$ending && test -s once.$ending"; done
holds timeline_keep_all "$memplan" timeline chain.json -o chain.svg
try timeline timeline mlp.onnx --plan plan.json --view memory -o timeline.svg
holds timeline_says_what_plan_said sh -c "
    grep -q '<title>.*: .* instead of ' timeline.svg && ! grep -q '<title>box' timeline.svg && grep -q 'fullest\|>budget<' timeline.svg && grep -q '>keep everything: ' timeline.svg"
try timeline_no_file timeline mlp.onnx --plan plan.json
try timeline_ending timeline mlp.onnx --plan plan.json -o timeline.jpeg
holds timeline_trace sh -c "'$memplan' timeline mlp.onnx --plan plan.json -o trace.json && cp trace.json once.json &&
    '$memplan' timeline mlp.onnx --plan plan.json -o trace.json && cmp once.json trace.json && '$memplan' timeline resnet50.onnx --batch 2 -o trace_all.json"
holds timeline_trace_adds_up sh -c "command -v python3 > /dev/null || exit 0
    python3 -B '$root/tests/cli/trace.py' trace.json plan.json && python3 -B '$root/tests/cli/trace.py' trace_all.json"
holds timeline_trace_keep_all_is_estimate sh -c "'$memplan' timeline mlp.onnx --batch 64 --fuse backward -o fused.json &&
    peak=\$('$memplan' estimate mlp.onnx --batch 64 --fuse backward --json | sed -n 's/^  .peak_bytes.: \([0-9]*\),/\1/p') && grep -q \"peak_bytes.:\$peak\b\" fused.json"
try timeline_trace_view timeline mlp.onnx --plan plan.json --view all -o trace.json
try timeline_dot timeline mlp.onnx --plan plan.json -o timeline.dot
try timeline_view timeline mlp.onnx --plan plan.json -o timeline.svg --view addresses
try timeline_no_plan timeline mlp.onnx --batch 64 -o none.svg --view arena
sed -e 's/"arena_bytes": *[0-9]*/"arena_bytes": null/' -e 's/"offsets"/"no_offsets"/' plan.json > no_offsets.json
try timeline_no_offsets timeline mlp.onnx --plan no_offsets.json -o none.svg --view arena
holds timeline_arena sh -c "'$memplan' timeline mlp.onnx --plan plan.json --view arena -o arena.svg && grep -q 'the arena of' arena.svg"
holds timeline_all_has_both sh -c "'$memplan' timeline mlp.onnx --plan plan.json --view all -o all.svg && grep -q 'the arena of' all.svg &&
    grep -q 'largest tensors' all.svg && ! grep -q '_output_0</text>' all.svg && ! grep -q 'the arena of' timeline.svg"
try timeline_lie timeline mlp.onnx --plan lie.json -o none.svg
try timeline_unwritable timeline mlp.onnx --plan plan.json -o no/such/folder.svg
holds timeline_writes_nothing_on_failure test ! -e none.svg
