# pipelines.sh - all ranks of a pipeline, and one of them.
small='--dim layers=4 --dim width=64 --dim heads=4 --dim feed-forward=256 --dim vocabulary=512 --dim sequence=128 --batch 8 --device h100'
try pipelines_estimate estimate gpt2 $small --mesh pp=2
try pipelines_gpipe estimate gpt2 $small --mesh pp=4 --micro-batches 4 --pipeline-schedule gpipe -q
try pipelines_interleaved estimate gpt2 $small --mesh pp=2,dp=2 --pipeline-schedule interleaved --chunks 3
try pipelines_json estimate gpt2 $small --mesh pp=2 --pipeline-schedule zb-h1 --json
FILTER='sed -n -e /^..peak/p -e /^..param/p -e /^..gradients/p -e /^..optim/p -e /^..saved/p -e /^One/,/[.]$/p' try pipelines_rank \
    estimate gpt2 $small --mesh pp=2,tp=2 --rank 1
# Each of two ranks of tp sends half of the tensor between the stages. On one node this is slower, because the gather follows.
FILTER='grep -A1 ^8.micro' try pipelines_whole estimate gpt2 $small --mesh pp=2,tp=2,sp=0
FILTER='grep -A1 ^8.micro' try pipelines_scatter estimate gpt2 $small --mesh pp=2,tp=2,sp=0,scatter=1
try pipelines_stages estimate gpt2 $small --mesh pp=2 --stages 0,3
# A plan for each rank, which the checker confirms, and refuses where less is held than it keeps.
try pipelines_plan plan gpt2 $small --mesh pp=2 --micro-batches 4 --budget 85% --solver chen -o stage.json
try pipelines_check check gpt2 stage.rank0.json
try pipelines_check_last check gpt2 stage.rank1.json
holds pipelines_plan_is_of_its_graph sh -c "'$memplan' graph gpt2 $small --mesh pp=2 --micro-batches 4 --rank 0 --stash 1KiB -o few.json &&
    '$memplan' plan gpt2 $small --mesh pp=2 --micro-batches 4 --rank 0 --stash 1KiB --budget 100% --solver none -o few_plan.json > /dev/null &&
    ! '$memplan' check gpt2 few_plan.json > few.txt 2>&1 && grep 'other micro-batches keep .* bytes while one runs' few.txt"
# Each chunk of a rank has its own stash.
try pipelines_plan_chunks plan gpt2 $small --mesh pp=2 --micro-batches 4 --pipeline-schedule interleaved --budget 85% --solver chen -o chunk.json
try pipelines_check_all check gpt2 chunk.json
try pipelines_check_chunks check gpt2 chunk.rank0.json
try pipelines_held_by_none estimate gpt2 $small --mesh pp=2 --rank 0 --stash 1MiB,2MiB
try pipelines_held_of_nothing estimate gpt2 $small --mesh pp=2 --rank 0 --stash much
try pipelines_plan_json plan gpt2 $small --mesh pp=2 --micro-batches 4 --budget 85% --solver chen --json
# Ranks that also copy optimizer state: the checker confirms both plans, and extra time is relative to the step without copies.
copying="gpt2 --batch 8 --micro-batches 4 --dim layers=4 --dtype bf16 --mesh pp=2 --device h100 --budget 100%"
holds pipelines_plan_copies_state sh -c "'$memplan' plan $copying --json > plain.json &&
    '$memplan' plan $copying --offload host --offload-state --json -o paged.json > copied.json &&
    '$memplan' check gpt2 paged.rank0.json && '$memplan' check gpt2 paged.rank1.json && python3 -c '
import json
plain, copied = (json.load(open(name)) for name in (\"plain.json\", \"copied.json\"))
assert plain[\"keep_all_seconds\"] == copied[\"keep_all_seconds\"] < copied[\"seconds\"]
assert copied[\"ranks\"][1][\"stages\"][0][\"send_seconds\"] == 0  # the last stage sends nothing forward'"
try pipelines_no_plan plan gpt2 $small --mesh pp=2 --micro-batches 4 --budget 2MiB --solver chen
try pipelines_no_plan_above_floor plan gpt2 $small --mesh pp=2 --micro-batches 4 --budget 50% --solver chen
# The budget that a refusal states suffices, and is at most what --budget min finds.
holds pipelines_refusal_states_a_budget sh -c "
    plan() { '$memplan' plan gpt2 $small --mesh pp=2 --micro-batches 4 --solver chen --json \"\$@\" | sed -n 's/.*\"smallest_budget_bytes\": \([0-9]*\).*/\1/p'; }
    stated=\$(plan --budget 2MiB); least=\$(plan --budget min); echo \"\$stated \$least\"
    test -n \"\$stated\" && test \"\$stated\" -le \"\$least\" && '$memplan' plan gpt2 $small --mesh pp=2 --micro-batches 4 --solver chen --budget \$stated -q"
# With a time limit the search tries no smaller budgets at its end, so the stated budget is not called the smallest.
holds pipelines_refusal_with_a_time_limit sh -c "
    '$memplan' plan gpt2 $small --mesh pp=2 --micro-batches 4 --solver chen --budget 2MiB --time-limit 60 | grep 'every rank has a plan, with the stages'"
try pipelines_picture timeline gpt2 $small --mesh pp=2 --pipeline-schedule zb-h1 -o pipeline.svg
holds pipelines_picture_has_ranks sh -c "grep -q 'rank 1' pipeline.svg && grep -q 'gradients of parameters' pipeline.svg"
try pipelines_parallel parallel gpt2 ${small% --batch*} --device h100 --devices 2 --mesh pp=2 --global-batch 8 --pipeline-schedule zb-h1 --micro-batch-size 1
# Options that exclude each other.
try pipelines_alone estimate gpt2 $small --pipeline-schedule gpipe
try pipelines_no_pp estimate gpt2 $small --mesh dp=2 --micro-batches 2
try pipelines_do_not_divide estimate gpt2 $small --mesh pp=2 --micro-batches 3
try pipelines_no_batch estimate gpt2 --mesh pp=2 --micro-batches 3
try pipelines_many_stages estimate gpt2 $small --mesh pp=20
try pipelines_no_such_schedule estimate gpt2 $small --mesh pp=2 --pipeline-schedule dualpipe
try pipelines_chunks_of_1f1b estimate gpt2 $small --mesh pp=2 --chunks 2
try pipelines_groups estimate gpt2 $small --mesh pp=4 --micro-batches 2 --pipeline-schedule interleaved
try pipelines_no_such_rank estimate gpt2 $small --mesh pp=2 --rank 2
try pipelines_which_rank graph gpt2 $small --mesh pp=2 -o no.json
try pipelines_few_stages estimate gpt2 $small --mesh pp=2 --stages 0
try pipelines_stages_back estimate gpt2 $small --mesh pp=2 --stages 3,0
try pipelines_no_block estimate gpt2 $small --mesh pp=2 --stages 0,x
try pipelines_to_a_pipe plan gpt2 $small --mesh pp=2 --budget 85% -o -
# min is the smallest budget of all ranks: with it every rank has a plan, and with 1 % less one has none
tiny='gpt2 --dim layers=2 --dim width=32 --dim heads=2 --dim feed-forward=64 --dim vocabulary=64 --dim sequence=32 --batch 4 --micro-batches 4 --mesh pp=2 --effort quick'
try pipelines_min plan $tiny --budget min -q
holds pipelines_min_is_least sh -c "bytes=\$('$memplan' plan $tiny --budget min --json | sed -n 's/.*\"smallest_budget_bytes\": \([0-9]*\),.*/\1/p') &&
    '$memplan' plan $tiny --budget \$bytes -q && ! '$memplan' plan $tiny --budget \$((bytes * 99 / 100)) -q"
try pipelines_trace timeline gpt2 $small --mesh pp=2 -o trace.json
try pipelines_csv estimate gpt2 $small --mesh pp=2 --csv
# of the same graph the same plan, in every run, where collectives of dp hide behind compute
holds pipelines_same_plan sh -c "for k in 1 2 3 4; do '$memplan' plan '$root/tests/gradients/gpt.onnx' --mesh dp=2,pp=2 --rank 1 --batch 12 --micro-batches 4 --device cpu \
    --budget floor+30% --effort quick -q -o same_\$k.json && cmp same_1.json same_\$k.json || exit 1; done"
