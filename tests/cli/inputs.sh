# inputs.sh - models and graphs that cannot be read: one sentence, exit status 2, nothing written.
for bad in malformed truncated empty folder unknown cyclic self_loop oversized missing misfit absent; do
    try "bad_$bad" plan "$bad.onnx" --budget 60% -o "written_$bad.json"
done
for bad in chain_malformed chain_truncated chain_self_loop chain_cyclic chain_oversized absent; do
    try "bad_graph_$bad" plan "$bad.json" --budget 60% -o "written_$bad.json"
done
try bad_unbound plan unbound.onnx --batch 4 --budget 60% -o written_unbound.json
try bad_expanded estimate expanded.onnx --json
try bad_output estimate mlp.onnx --batch 4 --output '/up/Relu_output_O'
try bad_data estimate mlp.onnx --batch 4 --data z
try bad_dim estimate mlp.onnx --batch 4 --dim M=3
try bad_train estimate mlp.onnx --batch 4 --train 'nothing.*'
try bad_freeze estimate mlp.onnx --batch 4 --freeze 'nothing.*'
try bad_checkpoint plan mlp.onnx --batch 64 --checkpoints /up/Relu_output_1
try bad_checkpoint_parameter plan mlp.onnx --batch 64 --checkpoints up.weight
try bad_checkpoint_empty plan mlp.onnx --batch 64 --checkpoints /up/Relu_output_0,,
try bad_no_batch estimate mlp.onnx
holds nothing_was_written sh -c '! ls written_*'
printf 'PK\003\004checkpoint' > checkpoint.pth
printf '\012\005hello' > saved_model.pb
try bad_checkpoint_file estimate checkpoint.pth --batch 4
try bad_tensorflow estimate saved_model.pb --batch 4

# ---- standard input: through a pipe, from a file, and of each kind
holds standard_input sh -c "
    '$memplan' estimate mlp.onnx --batch 64 --json | grep -v '\"model\"' > by_name.json
    cat mlp.onnx | '$memplan' estimate - --batch 64 --json | grep -v '\"model\"' | cmp - by_name.json &&
    '$memplan' estimate - --batch 64 --json < mlp.onnx | grep -v '\"model\"' | cmp - by_name.json &&
    '$memplan' graph mlp.onnx --batch 64 | '$memplan' estimate - --json | grep -q peak_bytes &&
    cat branch.dot | '$memplan' estimate - | grep -q peak &&
    '$memplan' plan mlp.onnx --batch 64 --budget 100% -o - | '$memplan' check mlp.onnx - | grep -q holds &&
    head -c 300 mlp.onnx | '$memplan' estimate - 2>&1 | grep -q '^memplan: standard input: '"
holds standard_input_is_one_file sh -c "cat mlp.onnx | '$memplan' check - - 2>&1 | grep -q 'can be read once'"

holds a_newer_operator_set_is_said sh -c "
    sed 's/opset_import { version: 15 }/opset_import { version: 99 }/' '$root/tests/cli/files/mlp.onnx.txt' |
        protoc-c --encode=onnx.ModelProto --proto_path=/usr/include/onnx onnx.proto > newer.onnx &&
    '$memplan' estimate newer.onnx --batch 4 2>&1 > /dev/null | grep -q 'warning: the file uses operator set 99' &&
    test -z \"\$('$memplan' estimate mlp.onnx --batch 4 2>&1 > /dev/null)\""
