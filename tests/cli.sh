#!/bin/sh
# cli.sh BUILD - the command line: what each case prints (standard output, then standard error, then the exit status) is compared
# with tests/golden/COMMAND/CASE.out. REGENERATE=1 tests/cli.sh BUILD writes them anew; git diff is the review.
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
cp tests/cli/*.json tests/cli/*.dot tests/cli/*.csv examples/branch.dot examples/resnet50.onnx examples/fashion_cnn.onnx "$work"
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
    [ -z "$REGENERATE" ] || cp "$name.out" "$root/tests/golden/${name%%_*}/$name.out"
    diff -u "$root/tests/golden/${name%%_*}/$name.out" "$name.out"
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
for command in estimate plan graph check timeline draw sweep fit pack ops solvers devices help version complete; do try "help_$command" help "$command"; done
try help_long plan --help
try help_unknown help estimat
try bare
FILTER='grep -E ^(operator|Relu|Conv|Softmax|SimplifiedLayerNorm)' try ops ops
FILTER='grep -E ^(operator|Relu|Conv|Softmax|SimplifiedLayerNorm)' try ops_cpu ops --device cpu
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
try usage_without plan chain.json --budget 250 --without chen,nodes
try usage_without_empty plan chain.json --budget 250 --without chen,
try usage_contradiction plan mlp.onnx --batch 64 --budget 60% --solver chen --checkpoints /up/Relu_output_0
try usage_sweep_solver sweep mlp.onnx --batch 64 --solvers chen,chne
try usage_sweep_twice sweep mlp.onnx --batch 64 --solvers chen,chen
try usage_sweep_budget sweep mlp.onnx --batch 64 --budgets 60%,half
try usage_sweep_empty sweep mlp.onnx --batch 64 --budgets 60%,,70%
try usage_sweep_picture sweep mlp.onnx --batch 64 -o curve.jpg
try usage_second_stream plan mlp.onnx --batch 64 --budget 60% --second-stream
try usage_second_stream_plan train mlp.onnx --plan plan.json --second-stream
try usage_fit_memory fit mlp.onnx
try usage_fit_share fit mlp.onnx --memory 60%
try usage_fit_overhead fit mlp.onnx --memory 1GiB --overhead much
try usage_fit_batch fit mlp.onnx --memory 1GiB --batch 4
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
try estimate_updates_clipped estimate mlp.onnx --batch 64 --fuse forward --clip-norm 1
try estimate_updates_json estimate mlp.onnx --batch 64 --fuse backward --json
try estimate_bf16 estimate mlp.onnx --batch 64 --dtype bf16 --fuse backward
try estimate_freeze estimate mlp.onnx --batch 64 --freeze 'up.*'
try estimate_graph estimate chain.json
try estimate_graph_json estimate chain.json --json
try plan_none plan mlp.onnx --batch 4096 --solver none
try plan_floor plan mlp.onnx --batch 4096 --budget floor+50% --solver chen -o plan.json
try plan_second_stream plan mlp.onnx --batch 512 --budget floor+60% --fuse backward --solver chen --second-stream -o second.json
holds check_second_stream sh -c "'$memplan' check mlp.onnx second.json && grep -q '\"until\"' second.json"
try plan_second_stream_json plan mlp.onnx --batch 512 --budget floor+60% --fuse backward --solver chen --second-stream --json
try plan_json plan mlp.onnx --batch 4096 --budget floor+50% --solver chen --json
try plan_mapped plan mlp.onnx --batch 4096 --checkpoints /up/Identity_output_0
try plan_graph plan chain.json --budget 350 --solver lower-set
try plan_explain plan chain.json --budget 350 --explain-bound
try plan_explain_json plan chain.json --budget 350 --explain-bound --json
try plan_explain_off plan chain.json --budget 350 --explain-bound --without interval,exact,chen
try plan_explain_infeasible plan chain.json --budget 180 --explain-bound
try plan_explain_unbounded plan chain.json --solver none --explain-bound
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
for ending in svg png pdf dot; do holds "timeline_$ending" sh -c "
    '$memplan' timeline mlp.onnx --plan plan.json -o once.$ending && '$memplan' timeline mlp.onnx --plan plan.json -o twice.$ending &&
    cmp once.$ending twice.$ending && test -s once.$ending"; done
holds timeline_keep_all "$memplan" timeline chain.json -o chain.svg
try timeline timeline mlp.onnx --plan plan.json --view memory -o timeline.svg
holds timeline_says_what_plan_said sh -c "
    grep -q \"instead of \" timeline.svg && grep -q 'fullest\|>budget<' timeline.svg && grep -q '>keep everything ' timeline.svg"
try timeline_no_file timeline mlp.onnx --plan plan.json
try timeline_ending timeline mlp.onnx --plan plan.json -o timeline.jpeg
try timeline_view timeline mlp.onnx --plan plan.json -o timeline.svg --view addresses
try timeline_no_plan timeline mlp.onnx --batch 64 -o none.svg --view arena
sed -e 's/"arena_bytes": *[0-9]*/"arena_bytes": null/' -e 's/"offsets"/"no_offsets"/' plan.json > no_offsets.json
try timeline_no_offsets timeline mlp.onnx --plan no_offsets.json -o none.svg --view arena
holds timeline_arena sh -c "'$memplan' timeline mlp.onnx --plan plan.json --view arena -o arena.svg && grep -q 'the arena of' arena.svg"
try timeline_lie timeline mlp.onnx --plan lie.json -o none.svg
try timeline_unwritable timeline mlp.onnx --plan plan.json -o no/such/folder.svg
holds timeline_writes_nothing_on_failure test ! -e none.svg
for ending in svg png pdf dot; do holds "draw_$ending" sh -c "
    '$memplan' draw mlp.onnx --plan plan.json -o once.$ending && '$memplan' draw mlp.onnx --plan plan.json -o twice.$ending &&
    cmp once.$ending twice.$ending && test -s once.$ending"; done
try draw draw mlp.onnx --plan plan.json --depth 1 -o draw.svg
holds draw_shows_checkpoints_and_colours sh -c "
    grep -q 'its output is a checkpoint' draw.svg && grep -q '>recomputed: ' draw.svg && grep -q '>kept: ' draw.svg && grep -q '>up<' draw.svg"
try draw_training draw mlp.onnx --plan plan.json --training -o training.svg
holds draw_training_shows_three sh -c "
    grep -q '>forward<' training.svg && grep -q '>forward and backward<' training.svg && grep -q '>with recomputation<' training.svg &&
    grep -q '>again<' training.svg"
holds draw_training_keep_all sh -c "'$memplan' draw resnet50.onnx --batch 2 --training -o two.svg && ! grep -q '>with recomputation<' two.svg"
holds draw_graph_file "$memplan" draw graph.json --plan plan.json -o graph.svg
try draw_no_file draw mlp.onnx --plan plan.json
try draw_ending draw mlp.onnx --plan plan.json -o draw.jpeg
try draw_depth draw mlp.onnx --plan plan.json --depth 0 -o none.svg
try draw_lie draw mlp.onnx --plan lie.json -o none.svg
try draw_contradiction draw mlp.onnx --plan plan.json --batch 64 -o none.svg
try draw_unwritable draw mlp.onnx --plan plan.json -o no/such/folder.svg
holds draw_writes_nothing_on_failure test ! -e none.svg
holds pictures_are_xml sh -c "
    command -v python3 > /dev/null || exit 0
    python3 -c 'import sys, xml.dom.minidom; [xml.dom.minidom.parse(f) for f in sys.argv[1:]]' draw.svg training.svg graph.svg"

# ---- offsets
try pack pack buffers.csv --capacity 1024 -o placed.csv
holds pack_writes_what_it_can_read sh -c "'$memplan' pack placed.csv --minimize -o again.csv > /dev/null && cmp placed.csv again.csv"
try pack_minimize pack buffers.csv --minimize -o -
try pack_minimize_report pack buffers.csv --minimize
try pack_json pack buffers.csv --minimize --json
try pack_infeasible pack buffers.csv --capacity 448 -o never.csv
try pack_infeasible_json pack buffers.csv --capacity 448 --json
try pack_infeasible_minimize pack buffers.csv --capacity 448 --minimize -o never.csv
try pack_plan pack mlp.onnx plan.json -o packed.json
holds pack_plan_holds "$memplan" check mlp.onnx packed.json
try pack_plan_minimize pack graph.json plan.json --minimize
try pack_plan_infeasible pack mlp.onnx plan.json --capacity 1MiB -o never.json
holds pack_without_offsets sh -c "'$memplan' pack mlp.onnx no_offsets.json -o offsets.json > /dev/null && '$memplan' check mlp.onnx offsets.json | grep -q 'arena '"
printf 'id,lower,upper,size,offset\na,0,9,64,0\nb,3,5,64,32\n' > clash.csv
try pack_clash pack clash.csv --minimize -o never.csv
try pack_no_capacity pack buffers.csv
try pack_capacity pack buffers.csv --capacity lots
try pack_capacity_share pack buffers.csv --capacity 60%
try pack_batch pack buffers.csv --minimize --batch 4
try pack_stdout_twice pack buffers.csv --minimize --json -o -
printf 'id,lower,upper\na,0,9\n' > no_size.csv
printf 'id,lower,upper,size\na,9,9,64\n' > no_life.csv
printf 'id,lower,upper,size\na,0,9,4000000000000000000\nb,0,9,4000000000000000000\n' > too_large.csv
: > empty.csv
for bad in no_size no_life too_large empty absent; do try "bad_csv_$bad" pack "$bad.csv" --minimize -o never.csv; done
try pack_lie pack mlp.onnx lie.json -o never.json
try pack_absent_plan pack mlp.onnx absent.json
holds pack_writes_nothing_on_failure sh -c '! ls never.*'
holds pack_unwritable sh -c "'$memplan' pack buffers.csv --minimize -o no/such/folder.csv; test \$? = 1"
holds pack_stops_when_asked sh -c "
    awk 'BEGIN { print \"id,lower,upper,size,alignment\"; for (k = 0; k < 60; k++) printf \"%d,%d,%d,%d,1024\n\", k, k % 7, 9 + k % 5, 2000 + 37 * k }' > crowd.csv
    '$memplan' pack crowd.csv --minimize -o crowded.csv > crowd.txt 2> why.txt &
    pid=\$!; sleep 1; kill -INT \$pid; wait \$pid; test \$? = 0 && grep -q 'cut short' why.txt && test -s crowded.csv"

# ---- graphs in DOT
try dot_estimate estimate branch.dot
try dot_plan plan branch.dot --budget 80% --solver chen -o branch.json
try dot_check check branch.dot branch.json
holds dot_becomes_json sh -c "'$memplan' graph branch.dot -o branch_graph.json && '$memplan' check branch_graph.json branch.json"
holds dot_draws "$memplan" draw branch.dot --plan branch.json -o branch.svg
for bad in malformed cyclic undirected missing hostile; do try "bad_dot_$bad" plan "graph_$bad.dot" --budget 60% -o "written_$bad.json"; done
try bad_dot_absent estimate absent.gv
try bad_dot_batch estimate branch.dot --batch 4
holds dot_wrote_nothing sh -c '! ls written_*'

holds graph_to_stdout sh -c "'$memplan' graph mlp.onnx --batch 4096 | cmp - graph.json"
holds plan_to_stdout sh -c "'$memplan' plan mlp.onnx --batch 4096 --budget floor+50% --solver chen -o - | cmp - plan.json"
holds a_graph_file_plans_like_its_model sh -c "
    '$memplan' plan graph.json --budget floor+50% --solver chen -o plan2.json > /dev/null && '$memplan' check mlp.onnx plan2.json"
holds plans_are_the_same_every_time sh -c "
    '$memplan' plan resnet50.onnx --batch 32 --budget floor+50% -o once.json > /dev/null && '$memplan' plan resnet50.onnx --batch 32 --budget floor+50% -o twice.json > /dev/null && cmp once.json twice.json"

# ---- the trade-off curve and the largest batch
try sweep sweep mlp.onnx --batch 4096 --solvers chen,segments --budgets 90%,floor+25%,1MiB
try sweep_default sweep mlp.onnx --batch 4096
try sweep_json sweep mlp.onnx --batch 4096 --solvers chen --budgets floor+25%,1MiB --json
try sweep_graph sweep chain.json
try sweep_infeasible sweep mlp.onnx --batch 4096 --budgets 1MiB
holds sweep_draws sh -c "'$memplan' sweep mlp.onnx --batch 4096 -o curve.svg && grep -q '</svg>' curve.svg && cp curve.svg once.svg &&
    '$memplan' sweep mlp.onnx --batch 4096 -o curve.svg && cmp once.svg curve.svg"
holds sweep_unwritable sh -c "'$memplan' sweep mlp.onnx --batch 64 --solvers none -o no/such/curve.svg; test \$? = 1"
try fit fit mlp.onnx --memory 16MiB --overhead 5% --solver segments
try fit_json fit mlp.onnx --memory 16MiB --overhead 5% --solver segments --json
try fit_none fit mlp.onnx --memory 1MiB
try fit_graph fit chain.json --memory 1MiB
try fit_fixed fit mlp.onnx --dim N=4 --memory 16MiB
try fit_absent fit absent.onnx --memory 16MiB
holds fit_agrees_with_plan sh -c "
    batch=\$('$memplan' fit mlp.onnx --memory 16MiB --overhead 5% --json | sed -n 's/.*\"batch_any\": \([0-9]*\).*/\1/p')
    '$memplan' plan mlp.onnx --budget 16MiB --batch \$batch > /dev/null && ! '$memplan' plan mlp.onnx --budget 16MiB --batch \$((batch + 1)) > /dev/null"

# ---- training: the figures that depend on the machine are looked at, not compared
cp "$root/tests/gradients/bert.onnx" .
try train_no_budget train bert.onnx
try train_two_budgets train bert.onnx --plan plan.json --budget 60%
try train_graph train chain.json --budget 60%
try train_gpu train bert.onnx --budget 60% --device a100
export MEMPLAN_MODULES=nowhere
try train_no_module train bert.onnx --budget 60% --device cuda
unset MEMPLAN_MODULES
holds train_without_a_gpu_says_so_first sh -c "
    test -e /dev/nvidiactl && exit 0
    '$memplan' train bert.onnx --budget 60% --device cuda 2> why.txt; test \$? = 2 &&
    grep -q 'there is no NVIDIA\|has no GPU module\|cannot be loaded' why.txt && ! grep -q 'cannot run' why.txt"
try train_auto train bert.onnx --budget auto --device cpu
try plan_auto plan mlp.onnx --batch 64 --budget auto
FILTER='grep Forward' try estimate_tf32 estimate resnet50.onnx --batch 32 --device h100 --tf32
FILTER='grep Forward' try estimate_fp32 estimate resnet50.onnx --batch 32 --device h100
try usage_tf32 plan mlp.onnx --batch 64 --budget 60% --device cpu --tf32
try usage_workspace_limit plan mlp.onnx --batch 64 --budget 60% --workspace-limit lots
try usage_sweep_auto sweep mlp.onnx --batch 64 --budgets auto
try train_fp16 train bert.onnx --budget 60% --dtype fp16
try train_pytorch train bert.onnx --budget 60% --rules pytorch
try train_no_loss train bert.onnx --budget 60% --loss none
try train_clip_backward train bert.onnx --budget 60% --clip-norm 1 --fuse backward
try train_infeasible train bert.onnx --budget 1KiB
try train_no_data train bert.onnx --budget 100% --data input=absent.npy
try train_other_data train bert.onnx --budget 100% --data picture=absent.npy
try train_bad_rate train bert.onnx --budget 100% --lr nan
try train_save_every train bert.onnx --budget 100% --save-every 2
holds train_is_identical sh -c "
    '$memplan' train bert.onnx --budget floor+80% --steps 3 --json > train.json && grep -q '\"identical\": true' train.json &&
    grep -q '\"allocations\": 0,' train.json"
holds train_stays_within_its_arena sh -c "
    planned=\$(grep '\"arena_bytes' train.json | tail -n 1 | tr -dc 0-9) measured=\$(grep '\"measured' train.json | tail -n 1 | tr -dc 0-9)
    test \$measured -le \$planned && test \$measured -gt \$((planned * 3 / 4))"
holds train_runs_a_second_stream sh -c "
    '$memplan' train bert.onnx --budget 100% --fuse backward --second-stream --steps 2 --json > second.out && grep -q '\"identical\": true' second.out &&
    grep -q '\"hidden_seconds\"' second.out && ! grep -q '\"beside\": 0' second.out"
holds train_takes_a_plan sh -c "
    '$memplan' plan bert.onnx --device cpu --budget floor+80% -o cpu.json > /dev/null && '$memplan' check bert.onnx cpu.json > /dev/null &&
    '$memplan' train bert.onnx --plan cpu.json --steps 2 --no-before > /dev/null"
holds train_refuses_a_plan_for_another_target sh -c "
    '$memplan' plan bert.onnx --budget floor+80% -o a100.json > /dev/null && ! '$memplan' train bert.onnx --plan a100.json --steps 2 2> why.txt &&
    grep -q 'train runs on cpu' why.txt"
holds train_draws_its_loss sh -c "
    '$memplan' train bert.onnx --budget 100% --steps 30 --no-before -o loss.svg > /dev/null && grep -q '>loss<' loss.svg && grep -q '</svg>' loss.svg"
cp "$root/examples/fashion_cnn.onnx" .
{ printf '\0\0\10\3\0\0\0\12\0\0\0\34\0\0\0\34'; head -c 7840 "$root/LICENSE"; head -c 7840 /dev/zero; } | head -c 7856 > ten.images
printf '\0\0\10\1\0\0\0\12\0\1\2\3\4\5\6\7\10\11' > ten.labels
ten="--data image=ten.images --data target=ten.labels"
holds train_tests sh -c "
    '$memplan' train fashion_cnn.onnx --batch 5 --budget 100% $ten --test image=ten.images --test target=ten.labels --no-before --steps 3 \
        --json > tested.json && grep -q '\"samples\": 10' tested.json && grep -q '\"accuracy\": 0' tested.json"
try train_no_test train fashion_cnn.onnx --batch 5 --budget 100% $ten --test image=absent.images --test target=ten.labels
try train_half_a_test train fashion_cnn.onnx --batch 5 --budget 100% $ten --test image=ten.images
try train_bad_picture train bert.onnx --budget 100% -o loss.jpeg
hash() { "$memplan" train bert.onnx --budget floor+80% --no-before --json "$@" | grep weights_hash; }
hash --steps 4 --save whole.st > whole.hash
hash --steps 2 --save half.st > half.hash
hash --steps 2 --resume half.st > rest.hash
holds train_resumes sh -c "cmp whole.hash rest.hash && ! cmp -s whole.hash half.hash"
holds train_saves_what_it_is sh -c "grep -q tokens.weight whole.st && grep -q optimizer.2:tokens.weight whole.st"
try train_other_optimizer train bert.onnx --budget 100% --resume half.st --optimizer sgd --no-before
head -c 1000 half.st > cut.st
try train_cut_state train bert.onnx --budget 100% --resume cut.st --no-before
holds train_without_memory sh -c "
    case '$build' in *san*) exit 0 ;; esac # sanitizers reserve more than any limit
    (ulimit -v 1500000; '$memplan' train resnet50.onnx --batch 24 --budget 100% --steps 2 --no-before 2> why.txt; test \$? = 1) &&
    grep -q 'there is no memory for an arena of [0-9]* bytes' why.txt"
holds train_disk_full sh -c "'$memplan' train bert.onnx --budget 100% --steps 2 --no-before --save /dev/full 2> why.txt; test \$? = 1 && grep -q 'No space left' why.txt"
holds train_nan_stops_and_keeps_what_was_saved sh -c "
    cp half.st kept.st
    '$memplan' train bert.onnx --budget 100% --optimizer sgd --lr 1e30 --steps 9 --no-before --save kept.st --save-every 100 2> why.txt
    test \$? = 1 && grep -q 'the loss is -*nan\|the loss is -*inf' why.txt && cmp half.st kept.st"
holds train_stops_when_asked_and_saves sh -c "
    '$memplan' train bert.onnx --budget 100% --steps 1000000 --no-before --save stopped.st > stopped.txt 2> why.txt &
    pid=\$!; sleep 1; kill -TERM \$pid; wait \$pid; test \$? = 0 && grep -q 'was interrupted' why.txt && test -s stopped.st &&
    '$memplan' train bert.onnx --budget 100% --steps 1 --no-before --resume stopped.st > /dev/null"
holds train_killed_leaves_a_whole_file sh -c "
    '$memplan' train bert.onnx --budget 100% --steps 1000000 --no-before --save killed.st --save-every 1 > /dev/null 2>&1 &
    pid=\$!; sleep 1; kill -KILL \$pid; wait \$pid 2> /dev/null; '$memplan' train bert.onnx --budget 100% --steps 1 --no-before --resume killed.st > /dev/null"

weights() { "$memplan" train "$1" --budget 100% --steps 1 --no-before --loss mse --json | grep weights_hash; }
weights embedded.onnx > embedded.hash
weights external.onnx > drawn.hash # its file is not there: drawn by rule
printf '12345678\000\000\200\077\000\000\000\100\000\000\100\100\000\000\200\277' > weights.bin
weights external.onnx > external.hash
holds train_reads_external_weights sh -c "test -s embedded.hash && cmp embedded.hash external.hash && ! cmp -s embedded.hash drawn.hash"
head -c 20 weights.bin > cut.bin && mv cut.bin weights.bin
try train_cut_weights train external.onnx --budget 100% --loss mse
cp weights.bin ../weights.bin
try train_weights_outside train outside.onnx --budget 100% --loss mse

# ---- measured costs
try profile_no_file profile bert.onnx
try profile_graph profile chain.json -o never.json
holds profile_is_what_plan_reads sh -c "
    '$memplan' profile bert.onnx --steps 3 -o costs.json | grep -q 'Where the time goes' &&
    '$memplan' plan bert.onnx --device cpu --costs costs.json --budget floor+80% -o measured.json > /dev/null &&
    '$memplan' check bert.onnx measured.json > /dev/null && '$memplan' train bert.onnx --plan measured.json --steps 2 --no-before > /dev/null"
printf '{"format": "memplan-costs", "version": 1, "nodes": [{"name": "a", "seconds": 1}]}\n' > other_costs.json
printf '{"format": "memplan-costs", "version": 1, "nodes": [{"name": "a", "seconds": -1}]}\n' > bad_costs.json
try costs_other plan bert.onnx --device cpu --costs other_costs.json --budget 100%
try costs_bad plan bert.onnx --device cpu --costs bad_costs.json --budget 100%
try costs_absent plan bert.onnx --device cpu --costs absent.json --budget 100%

holds algorithms_are_measured_planned_and_trained_with sh -c "
    '$memplan' profile fashion_cnn.onnx --batch 4 --steps 2 -o algorithms.json | grep -q 'can be computed in several ways' &&
    '$memplan' plan fashion_cnn.onnx --batch 4 --device cpu --costs algorithms.json --budget 90% -o chosen.json > /dev/null &&
    '$memplan' check fashion_cnn.onnx chosen.json > /dev/null &&
    '$memplan' train fashion_cnn.onnx --plan chosen.json --steps 2 | grep -q 'the same, bit for bit'"
sed 's/\[{"name":"[^"]*","seconds":[^,]*/[{"name":"abacus","seconds":0/' algorithms.json > unknown_algorithm.json
try costs_unknown_algorithm plan fashion_cnn.onnx --batch 4 --device cpu --costs unknown_algorithm.json --budget 100%

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
