# estimate.sh - estimate: figures of a training step.
try estimate estimate mlp.onnx --batch 64
try estimate_verbose estimate mlp.onnx --batch 64 -v
try estimate_quiet estimate mlp.onnx --batch 64 -q
FILTER='sed -n /Modules/,$p' try estimate_modules estimate resnet50.onnx --batch 8
FILTER='sed -n /Modules/,/What/p' try estimate_top estimate resnet50.onnx --batch 8 --sort time --top 5
FILTER='sed -n /Modules/,/What/p' try estimate_sorted estimate resnet50.onnx --batch 8 --sort name -v
try estimate_sort estimate mlp.onnx --batch 64 --sort size
try estimate_per_op estimate mlp.onnx --batch 64 --per-op
FILTER='sed -n /^Operators/,$p' try estimate_per_op_sorted estimate fashion_cnn.onnx --batch 64 --per-op --sort parameters
try estimate_csv estimate mlp.onnx --batch 64 --csv --sort time
try estimate_csv_json estimate mlp.onnx --batch 64 --csv --json
# CSV and JSON agree, also for names with commas, quotes and line breaks.
holds estimate_csv_is_json python3 -c "import csv, io, json, subprocess
def ask(model, form): return subprocess.run(['$memplan', 'estimate', model, '--batch', '2', form], capture_output=True, text=True, check=True).stdout
def text(value): return '' if value is None else value if isinstance(value, str) else repr(value)
rows = list(csv.DictReader(io.StringIO(ask('fashion_cnn.onnx', '--csv'))))
told = json.loads(ask('fashion_cnn.onnx', '--json'))['operators']
assert len(rows) == len(told) > 10 and all({k: float(v) if k.endswith(('seconds', 'flops')) else v for k, v in row.items()} ==
    {k: float(v) if k.endswith(('seconds', 'flops')) else text(v) for k, v in one.items()} for row, one in zip(rows, told))"
try estimate_json estimate mlp.onnx --batch 64 --json
try estimate_pytorch estimate mlp.onnx --batch 64 --rules pytorch --optimizer sgd
try estimate_updates_clipped estimate mlp.onnx --batch 64 --fuse forward --clip-norm 1
try estimate_updates_json estimate mlp.onnx --batch 64 --fuse backward --json
try estimate_bf16 estimate mlp.onnx --batch 64 --dtype bf16 --fuse backward
try estimate_freeze estimate mlp.onnx --batch 64 --freeze 'up.*'
FILTER='sed -n /accuracy/p' try rates_json estimate mlp.onnx --batch 64 --device rtx3090 --json
FILTER='sed -n /Forward/p' try rates_achieved estimate mlp.onnx --batch 64 --device rtx3090 --amp fp16
FILTER='sed -n /Forward/p' try rates_peak estimate mlp.onnx --batch 64 --device rtx3090 --rates peak --amp fp16
try estimate_graph estimate chain.json
try estimate_graph_json estimate chain.json --json
# Tensors that the exporter computed are no parameters: sums that start at zero, a count of ones.
FILTER='sed -n /^Inputs/,/^Simplified/p' try estimate_constants estimate gcn.dynamo.onnx -v
FILTER='sed -n /^Inputs/,/^Simplified/p' try estimate_train estimate gcn.dynamo.onnx --train 'zeros*' --freeze 'l.0.*' -v
FILTER='sed -n /"inputs"/,$p' try estimate_constants_json estimate gcn.dynamo.onnx --json
# Inference graphs: a batch normalization that is gone, and five that are in inference mode.
cp "$root/tests/gradients/fixed.onnx" .
FILTER='sed -n /saved/p' try estimate_folded estimate dropout_cnn.dynamo.onnx
FILTER='sed -n /parameters/p' try estimate_unsigned estimate own_two_linears.dynamo17.onnx
FILTER='sed -n /parameters/p' try estimate_tied estimate hf_gpt2.dynamo.onnx
FILTER='sed -n /"inference_form"/,/}/p' try estimate_folded_json estimate dropout_cnn.dynamo.onnx --json
FILTER='sed -n /saved/p' try estimate_inference_norms estimate fixed.onnx
FILTER='sed -n /saved/p' try estimate_kept_norms estimate fixed.onnx --keep-inference-norms
FILTER='sed -n 1p' try plan_inference_norms plan fixed.onnx --budget 80% --effort quick --device cpu
# The listed remedies equal the results of their options.
holds estimate_savings_are_what_they_say sh -c "
    '$memplan' estimate resnet50.onnx --batch 8 --json > all.txt
    for option in '--optimizer sgd' '--dtype bf16' '--amp bf16'; do
        peak=\$('$memplan' estimate resnet50.onnx --batch 8 \$option --json | sed -n 's/^  .peak_bytes.: \([0-9]*\).*/\1/p')
        grep -A 1 \"\\\"what\\\": \\\"\$option\" all.txt | grep -q \"peak_bytes\\\": \$peak,\" || exit 1
    done
    peak=\$('$memplan' estimate resnet50.onnx --batch 4 --json | sed -n 's/^  .peak_bytes.: \([0-9]*\).*/\1/p')
    grep -A 1 -e '--batch 4' all.txt | grep -q \"\$peak\""
# Updates within backward: headline and table agree.
FILTER='grep -e takes -e peak' try estimate_fused estimate resnet50.onnx --batch 8 --fuse backward
# The batch in the headline is the axis that is called so, and not the first one.
try estimate_batch_axis estimate seqfirst.onnx --dim seq=8 --dim batch=128 -q
try estimate_batch_option estimate seqfirst.onnx --dim seq=128 --batch 8 -q
# The peak under the other rules equals the answer with these rules; a graph's file has no model and no such peak.
holds estimate_other_rules_are_what_they_say sh -c "
    peak() { '$memplan' estimate resnet50.onnx --batch 8 --rules \$1 --json | sed -n 's/^  .peak_bytes.: \([0-9]*\).*/\1/p'; }
    other() { '$memplan' \$1 resnet50.onnx --batch 8 \$2 --json | grep -A 2 other_rules; }
    test \"\$(peak pytorch)\" != \"\$(peak executor)\" || exit 1
    other estimate '--rules pytorch' | grep -q \"peak_bytes\\\": \$(peak executor)\" &&
    other estimate '--rules executor' | grep -q \"peak_bytes\\\": \$(peak pytorch)\" &&
    other plan '--budget 100%' | grep -q \"peak_bytes\\\": \$(peak pytorch)\" &&
    '$memplan' estimate chain.json --json | grep -q 'other_rules\": null' && ! '$memplan' plan chain.json --budget 100% | grep 'in PyTorch'"
cp "$root/tests/gradients/bert.onnx" .
try estimate_lora estimate bert.onnx --lora '4:*qkv*' --train 'head.*'
try estimate_lora_bias estimate mlp.onnx --batch 4 --lora '4:*.bias'
try estimate_lora_rank estimate mlp.onnx --batch 4 --lora '*'
holds estimate_lora_saves_what_it_says sh -c "
    '$memplan' estimate hf_vit.torchscript.onnx --json > adapters.txt &&
    peak=\$('$memplan' estimate hf_vit.torchscript.onnx --lora '8:*[qv]_proj*' --json | sed -n 's/^  .peak_bytes.: \([0-9]*\).*/\1/p') &&
    grep -A 1 -e '--lora .8:.\[qv\]_proj' adapters.txt | grep -q \": \$peak\" &&
    ! '$memplan' estimate hf_vit.torchscript.onnx --lora '8:*q_proj*' | grep -q -e --lora"
# Mixed precision as autocast has it: half the activations, all of the parameters; no backend runs it.
FILTER='sed -n /saved/p' try estimate_guessed estimate own_formulas.torchscript.onnx --rules pytorch
FILTER='sed -n /saved/p' try estimate_noted estimate own_formulas.dynamo.onnx --rules pytorch
FILTER='sed -n /"guessed"/,/}/p' try estimate_guessed_json estimate own_formulas.torchscript.onnx --rules pytorch --json
FILTER='sed -n /saved/p' try estimate_guessed_dropout estimate hf_llama.dynamo.onnx --rules pytorch
FILTER='sed -n /saved/p' try doubts_lost_dropout estimate hf_gpt2.dynamo.onnx --rules pytorch
FILTER='sed -n /saved/p' try doubts_unrecognised_attention estimate own_attention_by_columns.dynamo.onnx --rules pytorch
FILTER='sed -n /saved/p' try doubts_merged_calls estimate own_repeated.dynamo.onnx --rules pytorch
FILTER='sed -n /saved/p' try doubts_of_functions estimate own_gcn_index_add.dynamo.onnx --rules pytorch
try estimate_amp estimate mlp.onnx --batch 4096 --amp bf16 --rules pytorch
try estimate_amp_half estimate mlp.onnx --batch 64 --amp fp16 --dtype bf16
try estimate_amp_cpu estimate mlp.onnx --batch 64 --amp bf16 --device cpu
try train_amp train mlp.onnx --batch 64 --amp bf16 --budget 80%
try plan_amp plan mlp.onnx --batch 4096 --amp bf16 --budget 70% -o amp.json
try check_amp check mlp.onnx amp.json
holds amp_everywhere sh -c "
    '$memplan' fit mlp.onnx --memory 16MiB --overhead 5% --effort quick --amp bf16 &&
    '$memplan' sweep mlp.onnx --batch 4096 --solvers chen --budgets 90% --amp fp16 &&
    '$memplan' timeline mlp.onnx --batch 64 --amp bf16 -o amp.svg &&
    '$memplan' report mlp.onnx --batch 64 --amp bf16 --no-curve -o amp.html"
# Where nothing is a parameter, the floating-point initializers are named, and the option that trains them.
try estimate_no_parameter estimate scaled.onnx
try estimate_no_parameter_at estimate scaled.onnx --output y
try estimate_named_parameter estimate scaled.onnx --train mask -q
