#!/bin/sh
# cli.sh BUILD - the command line: what each case prints (standard output, then standard error, then the exit status) is compared
# with tests/golden/CASE.out. REGENERATE=1 tests/cli.sh BUILD writes them anew; git diff is the review.
cd "$(dirname "$0")/.." || exit 2
build=$(realpath "$1")
memplan=$build/memplan
root=$(pwd)
work=$build/tests/cli-work
rm -rf "$work"
mkdir -p "$work" || exit 2
passed=0 failed=0

for text in tests/cli/*.onnx.txt; do
    protoc-c --encode=onnx.ModelProto --proto_path=/usr/include/onnx onnx.proto < "$text" > "$work/$(basename "$text" .txt)" || exit 2
done
cp tests/cli/*.json examples/resnet50.onnx "$work"
cd "$work" || exit 2
head -c 300 mlp.onnx > truncated.onnx
head -c 300 chain.json > chain_truncated.json
printf 'hello, this is no model\n' > malformed.onnx
: > empty.onnx
mkdir folder.onnx

verdict() { # NAME OK
    if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}
# try NAME ARGUMENT...: one golden case. Times of searching are replaced; FILTER is a command that cuts long output.
try() {
    name=$1
    shift
    "$memplan" "$@" > "$name.stdout" 2> "$name.stderr" < /dev/null
    status=$?
    { echo "\$ memplan $*"; ${FILTER:-cat} < "$name.stdout"; [ -s "$name.stderr" ] && sed 's/^/stderr: /' "$name.stderr"; echo "exit $status"; } |
        sed -e 's/^\(  found by [a-z-]* in\) .*/\1 TIME/' -e 's/"planning_seconds": [0-9.e-]*/"planning_seconds": TIME/' > "$name.out"
    [ -z "$REGENERATE" ] || cp "$name.out" "$root/tests/golden/$name.out"
    diff -u "$root/tests/golden/$name.out" "$name.out"
    verdict "$name" $?
}
# holds NAME COMMAND...: a case that a command judges.
holds() {
    name=$1
    shift
    "$@" > "$name.log" 2>&1 < /dev/null
    ok=$?
    [ $ok = 0 ] || cat "$name.log"
    verdict "$name" $ok
}

# ---- help and completion
try help help
try version version
for command in estimate plan graph check ops solvers devices help version complete; do try "help_$command" help "$command"; done
try help_long plan --help
try help_unknown help estimat
try bare
FILTER='grep -E ^(operator|Relu|Conv|Softmax|SimplifiedLayerNorm)' try ops ops
try solvers solvers
try devices devices
try complete_commands complete pl
try complete_options complete plan m.onnx --se
try complete_choices complete estimate m.onnx --optimizer ''
try complete_file complete plan ''

# ---- usage errors
try usage_command estimat mlp.onnx
try usage_command_far frobnicate
try usage_option plan mlp.onnx --bugdet 60%
try usage_option_other ops --json
try usage_twice estimate mlp.onnx --batch 2 --batch 2
try usage_dim_twice estimate mlp.onnx --dim N=2 --dim N=3
try usage_dim_form estimate mlp.onnx --dim N
try usage_value_missing estimate mlp.onnx --batch
try usage_value_option estimate mlp.onnx --batch --json
try usage_flag_value estimate mlp.onnx --json=yes
try usage_count estimate mlp.onnx --batch -3
try usage_count_large estimate mlp.onnx --batch 99999999999999999999
try usage_choice estimate mlp.onnx --optimizer adamm
try usage_choice_far estimate mlp.onnx --fuse sideways
try usage_operand_missing check mlp.onnx
try usage_operand_more estimate mlp.onnx other.onnx
try usage_budget_missing plan mlp.onnx --batch 64
try usage_budget_unit plan mlp.onnx --batch 64 --budget 8G
try usage_budget_word plan mlp.onnx --batch 64 --budget lots
try usage_budget_floor plan mlp.onnx --batch 64 --budget floor+8GiB
try usage_budget_percent plan mlp.onnx --batch 64 --budget 6.0.0%
try usage_budget_huge plan mlp.onnx --batch 64 --budget 1e30
try usage_time_limit plan mlp.onnx --batch 64 --budget 60% --time-limit nan
try usage_contradiction plan mlp.onnx --batch 64 --budget 60% --solver chen --checkpoints /up/Relu_output_0
try usage_stdout_twice plan mlp.onnx --batch 64 --budget 60% --json -o -
try usage_graph_batch plan chain.json --budget 60% --batch 4
try usage_graph_fuse estimate chain.json --fuse backward

# ---- bad inputs: one sentence, exit status 2, nothing written
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
try bad_freeze estimate mlp.onnx --batch 4 --freeze 'nothing.*'
try bad_checkpoint plan mlp.onnx --batch 64 --checkpoints /up/Relu_output_1
try bad_checkpoint_parameter plan mlp.onnx --batch 64 --checkpoints up.weight
try bad_checkpoint_empty plan mlp.onnx --batch 64 --checkpoints /up/Relu_output_0,,
try bad_no_batch estimate mlp.onnx
holds nothing_was_written sh -c '! ls written_*'

# ---- answers
try estimate estimate mlp.onnx --batch 64
try estimate_per_op estimate mlp.onnx --batch 64 --per-op
try estimate_json estimate mlp.onnx --batch 64 --json
try estimate_pytorch estimate mlp.onnx --batch 64 --rules pytorch --optimizer sgd
try estimate_bf16 estimate mlp.onnx --batch 64 --dtype bf16 --fuse backward
try estimate_freeze estimate mlp.onnx --batch 64 --freeze 'up.*'
try estimate_graph estimate chain.json
try estimate_graph_json estimate chain.json --json
try plan_none plan mlp.onnx --batch 4096 --solver none
try plan_floor plan mlp.onnx --batch 4096 --budget floor+60% --solver chen -o plan.json
try plan_json plan mlp.onnx --batch 4096 --budget floor+60% --solver chen --json
try plan_mapped plan mlp.onnx --batch 4096 --checkpoints /up/Identity_output_0
try plan_graph plan chain.json --budget 350 --solver lower-set
try plan_infeasible plan mlp.onnx --batch 4096 --budget 1MiB -o infeasible.json
try plan_infeasible_json plan mlp.onnx --batch 4096 --budget 1MiB --json
holds infeasible_writes_nothing test ! -e infeasible.json
try check check mlp.onnx plan.json
try check_json check mlp.onnx plan.json --json
try check_repeated check mlp.onnx plan.json --batch 4096
try check_contradiction check mlp.onnx plan.json --batch 64
holds graph_is_written "$memplan" graph mlp.onnx --batch 4096 -o graph.json
try check_graph check graph.json plan.json
try check_other_graph check chain.json plan.json
sed 's/"peak_bytes": *\([0-9]*\)/"peak_bytes": 1\1/' plan.json > lie.json
try check_lie check mlp.onnx lie.json
try check_lie_json check mlp.onnx lie.json --json
head -c 400 plan.json > cut.json
try check_truncated check mlp.onnx cut.json
try check_absent check mlp.onnx absent.json
holds graph_to_stdout sh -c "'$memplan' graph mlp.onnx --batch 4096 | cmp - graph.json"
holds plan_to_stdout sh -c "'$memplan' plan mlp.onnx --batch 4096 --budget floor+60% --solver chen -o - | cmp - plan.json"
holds a_graph_file_plans_like_its_model sh -c "
    '$memplan' plan graph.json --budget floor+60% --solver chen -o plan2.json > /dev/null && '$memplan' check mlp.onnx plan2.json"
holds plans_are_the_same_every_time sh -c "
    '$memplan' plan resnet50.onnx --batch 32 --budget floor+50% -o once.json > /dev/null && '$memplan' plan resnet50.onnx --batch 32 --budget floor+50% -o twice.json > /dev/null && cmp once.json twice.json"

# ---- the system fails: exit status 1
for command in help 'estimate mlp.onnx --batch 64 --json' 'graph mlp.onnx --batch 64'; do
    holds "disk_full_${command%% *}" sh -c "'$memplan' $command > /dev/full; test \$? = 1"
done
holds unwritable_output sh -c "'$memplan' graph mlp.onnx --batch 64 -o no/such/folder.json; test \$? = 1"

# ---- the example programs
holds example_own_graph "$build/examples/own_graph"
holds example_peak_agrees_with_estimate sh -c "
    peak=\$('$build/examples/peak' resnet50.onnx 8 | sed 's/.*: \([0-9]*\) bytes.*/\1/')
    '$memplan' estimate resnet50.onnx --batch 8 --json | grep -q '\"peak_bytes\": '\$peak,"

echo "[  PASSED  ] $passed test(s)."
[ $failed = 0 ] || echo "[  FAILED  ] $failed test(s), listed above:"
[ $failed = 0 ]
