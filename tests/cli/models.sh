# models.sh - networks known by name, in place of a file.
try models_list models
FILTER='sed -n 1,/}/p' try models_list_json models --json
try models_estimate estimate "GPT-2 small" --batch 1 --dim layers=2
try models_pytorch estimate llama3-8b --dim layers=1 --dim sequence=1024 --dtype bf16 --rules pytorch -q
try models_experts estimate mixtral-8x7b --dim layers=1 --dim sequence=512 --dtype bf16 -q
try models_unknown estimate gpt3-157b
try models_unlike estimate something
try models_no_file estimate gpt2.onnx
try models_no_size estimate gpt2 --dim depth=3
try models_bad_size estimate gpt2 --dim heads=7
try models_data estimate gpt2 --data tokens
try models_train_nothing estimate gpt2 --train 'head.*'
tiny='--dim layers=2 --dim width=16 --dim heads=2 --dim feed-forward=32 --dim vocabulary=11 --dim sequence=64'
try models_plan plan gpt2 $tiny --batch 4 --budget 90% -o named.json
try models_check check gpt2 named.json
for whom in pytorch pytorch-selective huggingface; do
    try "models_apply_$whom" apply gpt2 $tiny --batch 4 named.json --for $whom
done
try models_fit fit gpt2 $tiny --memory 2MiB --effort quick
holds models_train sh -c "'$memplan' train gpt2 $tiny --batch 4 --device cpu --budget 90% --steps 3 | grep -q 'same, bit for bit'"
for name in llama3-8b mixtral-8x7b; do
    holds "models_train_$name" "$memplan" train "$name" $tiny --dim key-value-heads=1 --batch 4 --device cpu --budget 90% --steps 2 --no-before
done
holds models_train_grouped "$memplan" train megatron-7b $tiny --dim key-value-heads=1 --batch 4 --device cpu --budget 100% --steps 2 --no-before
t5="t5-small $tiny --dim head-width=12"
holds models_train_t5 sh -c "'$memplan' train $t5 --batch 4 --device cpu --budget 80% --steps 3 | grep -q 'same, bit for bit'"
try models_t5 estimate $t5 --batch 4 --device cpu
# Written, read again: the same graph.
try models_write model gpt2 $tiny -o written.onnx
try models_written estimate written.onnx
try models_write_fixed model gpt2 $tiny --batch 3 -o fixed.onnx
holds models_written_is_the_same sh -c "
    '$memplan' graph gpt2 $tiny --batch 3 -o inside.json && '$memplan' graph written.onnx --batch 3 -o open.json &&
    '$memplan' graph fixed.onnx -o fixed.json &&
    test 1 = \$(grep -h '\"hash\"' inside.json open.json fixed.json | sort -u | wc -l)"
try models_write_nowhere model gpt2 $tiny
try models_write_unknown model gpt5 -o gpt5.onnx
try models_write_wrongly model gpt2 --dim layers=x -o wrong.onnx
# A file comes first.
cp mlp.onnx gpt2
try models_file estimate gpt2 --batch 4 -q
rm gpt2
# The next batch takes +18.54 %: both numbers are printed with the digits that tell them apart.
holds models_fit_digits sh -c "'$memplan' fit gpt2 --dim layers=2 --dim width=16 --dim heads=2 --dim feed-forward=32 --dim vocabulary=11 \\
    --dim sequence=64 --memory 2MiB --rates peak --effort quick --overhead 18.53% | grep -qF 'takes +18.54 % where +18.53 % is allowed'"
