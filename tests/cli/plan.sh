# plan.sh - plan: answers with and without a plan. Leaves plan.json.
try plan_none plan mlp.onnx --batch 4096 --solver none
try plan_chen plan mlp.onnx --batch 4096 --budget 29786624 --solver chen -o plan.json
try plan_json plan mlp.onnx --batch 4096 --budget 29786624 --solver chen --json
try plan_mapped plan mlp.onnx --batch 4096 --checkpoints /up/Identity_output_0
try plan_graph plan chain.json --budget 350 --solver lower-set
# A graph with a copy out and back: 17 bytes suffice, which no recomputation reaches.
try plan_copies plan copies.json --budget 17 -o copied.json
try check_copies check copies.json copied.json
holds copies_are_drawn sh -c "'$memplan' timeline copies.json --plan copied.json -o copied.svg && grep -q '>copy in<' copied.svg && grep -q '>host<' copied.svg &&
    '$memplan' report copies.json --plan copied.json -o copied.html && grep -q '>copied</th>' copied.html && '$memplan' draw copies.json -o copies.svg"
holds copies_are_traced sh -c "'$memplan' timeline copies.json --plan copied.json -o trace.json && grep -q 'copy out' trace.json && '$memplan' timeline copies.json -o kept.json &&
    { ! command -v python3 > /dev/null || { python3 -B '$root/tests/cli/trace.py' trace.json copied.json && python3 -B '$root/tests/cli/trace.py' kept.json; }; }"
try plan_copies_anneal plan copies.json --budget 17 --solver anneal
try plan_modules plan resnet50.onnx --batch 4 --budget 80% --granularity module -o modules.json
try check_modules check resnet50.onnx modules.json
holds plan_names_nodes_and_modules sh -c "grep -q '\"modules\": *\[' modules.json && grep -q '\"name\": *\"/conv1/Conv\"' modules.json"
try apply_pytorch apply resnet50.onnx modules.json --for pytorch
cp "$root/examples/gpt_bytes.onnx" .
FILTER="grep -v found.by" try plan_modules_gpt plan gpt_bytes.onnx --budget 70% --granularity module -o gpt.json
try apply_selective apply gpt_bytes.onnx gpt.json --for pytorch-selective
try apply_remat apply gpt_bytes.onnx gpt.json --for torch-remat
try apply_huggingface apply gpt_bytes.onnx gpt.json --for huggingface
try apply_megatron apply gpt_bytes.onnx gpt.json --for megatron
try apply_deepspeed apply gpt_bytes.onnx gpt.json --for deepspeed
try apply_too_coarse apply mlp.onnx plan.json --for pytorch
try apply_paddle apply mlp.onnx plan.json --for paddle
try apply_jax apply mlp.onnx plan.json --for jax
try apply_nobody apply mlp.onnx plan.json
sed 's#name: "/blocks/blocks.5/Relu"#name: "/up/Relu_1"#' "$root/tests/cli/files/mlp.onnx.txt" |
    protoc-c --encode=onnx.ModelProto --proto_path=/usr/include/onnx onnx.proto > split.onnx
FILTER="grep -v found.by" try plan_modules_split plan split.onnx --batch 4096 --budget 99.8% --granularity module
try plan_modules_none plan chain.json --budget 350 --granularity module
try plan_modules_contradict plan mlp.onnx --budget 50% --granularity module --solver chen
# Logits in chunks of rows.
small="--dim layers=1 --dim width=64 --dim heads=2 --dim vocabulary=4096 --dim sequence=32 --batch 8"
FILTER="grep -v found.by" try chunks_auto plan gpt2 $small --device a100 --rules executor --row-chunks auto --budget 85%
FILTER='grep row_chunks' try chunks_json plan gpt2 $small --device a100 --rules executor --row-chunks head=4 --budget 100% --json
FILTER='grep -A6 row_chunks' try chunks_kinds plan gpt2 $small --device a100 --rules executor --row-chunks head=4,mlp=2 --budget 100% --json
try chunks_plan plan gpt2 $small --device a100 --rules executor --row-chunks head=4,mlp=2 --budget 80% -q -o chunks.json
holds chunks_heading_names_the_numbers sh -c "'$memplan' timeline gpt2 $small --device a100 --rules executor --row-chunks head=4,mlp=2 --plan chunks.json -o chunks.svg && grep -q 'chunks head=4,mlp=2' chunks.svg"
try chunks_none plan mlp.onnx --batch 64 --loss mse --row-chunks head=4 --budget 100%
try chunks_bare plan mlp.onnx --batch 64 --row-chunks 4 --budget 100%
FILTER="grep -E keep.all|logits.in" try chunks_pytorch plan gpt2 $small --device a100 --row-chunks head=4 --budget 100%
try chunks_train train mlp.onnx --row-chunks auto --budget 100%
try chunks_fit fit gpt2 --dim layers=1 --dim width=64 --dim heads=2 --dim vocabulary=4096 --dim sequence=32 --rules executor --memory 16MiB --solver segments --row-chunks auto
try chunks_sweep sweep mlp.onnx --row-chunks auto
try chunks_share share mlp.onnx mlp.onnx --memory 1GiB --row-chunks auto
FILTER="grep -E this.plan|proved" try plan_quick plan resnet50.onnx --batch 4 --budget floor+50% --effort quick --no-offsets
FILTER="grep -E this.plan|proved" try plan_gap plan resnet50.onnx --batch 4 --budget floor+50% --gap 10% --no-offsets
try plan_explain plan chain.json --budget 350 --explain-bound
try plan_explain_json plan chain.json --budget 350 --explain-bound --json
try plan_explain_off plan chain.json --budget 350 --explain-bound --without interval,exact,chen
try plan_explain_infeasible plan chain.json --budget 180 --explain-bound
try plan_explain_unbounded plan chain.json --solver none --explain-bound
try plan_infeasible plan mlp.onnx --batch 4096 --budget 1MiB -o infeasible.json
try plan_infeasible_json plan mlp.onnx --batch 4096 --budget 1MiB --json
holds infeasible_writes_nothing test ! -e infeasible.json
# A small graph between its floor and its smallest plan: a proof that there is none.
holds plan_small_is_decided sh -c "'$memplan' plan '$root/examples/mlp4.onnx' --batch 128 --budget 47130239 -q > decided.txt; test \$? = 1 && grep -q 'does not fit' decided.txt"
# Exactly the checkpoints to set.
try plan_fits plan mlp.onnx --batch 64 --budget 100%
FILTER='sed -n /^Checkpoints/,/^$/p' try plan_two_segments plan resnet50.onnx --batch 4 --checkpoints /layer1/layer1.2/relu_2/Relu_output_0,/layer3/layer3.0/relu_2/Relu_output_0
FILTER='sed -n /^Checkpoints/,/^Peak/p' try plan_list plan mlp.onnx --batch 4096 --budget 29786624 --solver chen --list
FILTER='grep -A 3 checkpoints_to_set' try plan_to_set_json plan resnet50.onnx --batch 4 --json \
    --checkpoints /layer1/layer1.2/relu_2/Relu_output_0,/layer3/layer3.0/relu_2/Relu_output_0
try plan_quiet plan mlp.onnx --batch 4096 --budget 1MiB -q
try plan_verbose plan mlp.onnx --batch 4096 --budget 29786624 --solver chen -v
# Budgets that are numbers alone; a file that cannot be written is known before the search.
try plan_bare plan mlp.onnx --batch 4096 --budget 60
try plan_bare_share plan mlp.onnx --batch 4096 --budget 0.6
try plan_bare_many plan mlp.onnx --batch 4096 --budget 600
try sweep_bare sweep mlp.onnx --batch 4096 --budgets 90%,80
try fit_bare fit mlp.onnx --memory 16
try plan_unwritable plan mlp.onnx --batch 4096 --budget 60% -o no/such/plan.json
holds plan_is_printed_if_not_written sh -c "'$memplan' plan mlp.onnx --batch 4096 --budget 100% -o /dev/full > full.txt 2> why.txt; test \$? = 1 &&
    grep -q 'No space left' why.txt && grep -q 'fits the budget' full.txt && ! grep -q 'written to' full.txt"
holds a_file_is_tried_and_left_as_it_was sh -c "cp plan.json kept.json && ! '$memplan' plan mlp.onnx --batch 4096 --budget 1MiB -o kept.json &&
    cmp plan.json kept.json && ! ls | grep -q tmp"
# That no plan was found is no proof: status 3, and 1 where there is one.
FILTER='grep -v found.by' try plan_not_known plan mlp.onnx --batch 4096 --budget 18.98MiB --solver segments
try plan_not_known_quiet plan mlp.onnx --batch 4096 --budget 18.98MiB --solver segments -q
FILTER='grep -E feasible|interrupted' try plan_not_known_json plan mlp.onnx --batch 4096 --budget 18.98MiB --solver segments --json
try plan_one_plan_does_not_fit plan mlp.onnx --batch 4096 --budget 90% --solver none -q
try plan_no_time plan resnet50.onnx --batch 64 --budget 1.02GiB --time-limit 0.001 -q
# The reported smallest budget is met when it is requested, and equals min; floor is another word for it, also under a time limit.
offered() { sed -n 's/.*--budget \([0-9]*\)$/\1/p'; }
for case in "mlp.onnx --batch 512 --fuse backward" "fashion_cnn.onnx --batch 32" "gpt_bytes.onnx --solver lagrange" "fashion_cnn.onnx --batch 64 --keep-order"; do
    least=$("$memplan" plan $case --budget 1MiB 2> /dev/null | offered)
    holds "plan_offer_of_$(echo "$case" | tr -c 'a-z0-9\n' _)" sh -c "test -n '$least' && '$memplan' plan $case --budget $least &&
        '$memplan' plan $case --budget $((least + (least >> 10))) && '$memplan' plan $case --budget min --json | grep -q '\"budget_bytes\": $least,' &&
        '$memplan' plan $case --budget floor+0% --time-limit 0.01 --json | grep -q '\"budget_bytes\": $least,' && '$memplan' plan $case --budget min+30%"
done
try plan_min plan fashion_cnn.onnx --batch 64 --budget min -q
try plan_min_share plan fashion_cnn.onnx --batch 64 --budget min+50% -q
try plan_min_other plan fashion_cnn.onnx --batch 64 --budget min50% -q
try report_min report fashion_cnn.onnx --batch 64 --budget min --no-curve -o min.html
holds report_min_is_written grep -q '</html>' min.html
try sweep_min sweep mlp.onnx --batch 4096 --solvers lower-set,lagrange --budgets min+50%
