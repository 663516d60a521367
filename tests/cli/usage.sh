# usage.sh - usage errors: one sentence, exit status 2.
try usage_command estimat mlp.onnx
try usage_command_far frobnicate
try usage_option plan mlp.onnx --bugdet 60%
try usage_option_other ops --batch 4
try usage_twice estimate mlp.onnx --batch 2 --batch 2
try usage_dim_twice estimate mlp.onnx --dim N=2 --dim N=3
try usage_dim_form estimate mlp.onnx --dim N
try usage_value_missing estimate mlp.onnx --batch
try usage_value_option estimate mlp.onnx --batch --json
try usage_flag_value estimate mlp.onnx --json=yes
try usage_count estimate mlp.onnx --batch -3
try usage_count_large estimate mlp.onnx --batch 99999999999999999999
try usage_choice estimate mlp.onnx --optimizer adamm
try devices_unknown estimate mlp.onnx --batch 4 --device a7000
try devices_changed_wrongly estimate mlp.onnx --batch 4 --device a100,memry=40GiB
try usage_choice_far estimate mlp.onnx --fuse sideways
try usage_choice_elsewhere train mlp.onnx --budget 100% --lr-schedule 1f1b
try usage_operand_missing check mlp.onnx
try usage_operand_more estimate mlp.onnx other.onnx
try usage_budget_missing plan mlp.onnx --batch 64 -q
try usage_budget_unit plan mlp.onnx --batch 64 --budget 8Q
try usage_budget_word plan mlp.onnx --batch 64 --budget lots
try usage_budget_floor plan mlp.onnx --batch 64 --budget floor+8GiB
try usage_budget_percent plan mlp.onnx --batch 64 --budget 6.0.0%
try usage_budget_huge plan mlp.onnx --batch 64 --budget 1e30
try usage_time_limit plan mlp.onnx --batch 64 --budget 60% --time-limit nan
try usage_effort plan chain.json --budget 250 --effort lazy
try usage_gap plan chain.json --budget 250 --gap 5
try usage_without plan chain.json --budget 250 --without chen,nodes
try usage_without_empty plan chain.json --budget 250 --without chen,
try usage_contradiction plan mlp.onnx --batch 64 --budget 60% --solver chen --checkpoints /up/Relu_output_0
# Old names of searchers run, with a notice.
for names in priced=lagrange greedy-offload=cheapest-first choices=anneal-tensors; do
    old=${names%=*} new=${names#*=}
    holds "usage_solver_$old" sh -c "
        '$memplan' plan mlp.onnx --batch 4096 --offload host --budget 90% -q --solver $new > new.txt &&
        '$memplan' plan mlp.onnx --batch 4096 --offload host --budget 90% -q --solver $old 2> why.txt | diff new.txt - &&
        test \"\$(cat why.txt)\" = \"memplan: the searcher '$old' is now called '$new'; a later release will not accept the old name\""
done
holds usage_solvers_old_names sh -c "
    '$memplan' sweep mlp.onnx --batch 64 --solvers none,priced --budgets 90% 2> why.txt | grep -q '^lagrange, smallest found' && grep -q 'now called .lagrange' why.txt &&
    '$memplan' plan mlp.onnx --batch 4096 --budget 90% --without priced -q 2> why.txt && grep -q 'now called .lagrange' why.txt"
try usage_sweep_solver sweep mlp.onnx --batch 64 --solvers chen,chne
try usage_sweep_twice sweep mlp.onnx --batch 64 --solvers chen,chen
try usage_sweep_budget sweep mlp.onnx --batch 64 --budgets 60%,half
try usage_sweep_empty sweep mlp.onnx --batch 64 --budgets 60%,,70%
try usage_sweep_picture sweep mlp.onnx --batch 64 -o curve.jpg
try usage_second_stream plan mlp.onnx --batch 64 --budget 60% --second-stream
try usage_fit_memory fit mlp.onnx --effort quick -q
try usage_fit_share fit mlp.onnx --memory 60%
try usage_fit_overhead fit mlp.onnx --memory 1GiB --overhead much
try usage_fit_batch fit mlp.onnx --memory 1GiB --batch 4
try usage_stdout_twice plan mlp.onnx --batch 64 --budget 60% --json -o -
try usage_graph_batch plan chain.json --budget 60% --batch 4
try usage_graph_fuse estimate chain.json --fuse backward
holds units_as_people_write_them sh -c "
    for unit in '800M' '800m' '800MiB' '800mib'; do
        '$memplan' plan mlp.onnx --batch 64 --budget \$unit -v | grep -q 'budget of 800.00 MiB (838,860,800 bytes)' || exit 1
    done
    '$memplan' plan mlp.onnx --batch 64 --budget 800mb -v | grep -q '(800,000,000 bytes)'"
try devices_reserve estimate mlp.onnx --batch 64 --device t4,memory=7MiB --reserve 1MiB -q
try devices_no_reserve estimate mlp.onnx --batch 64 --device t4,memory=7MiB --reserve 0 -q
try devices_all_reserved plan mlp.onnx --batch 64 --device t4,memory=1GiB
try devices_filled plan mlp.onnx --batch 64 --device t4,memory=6660KiB --reserve 100KiB --rules memplan
try devices_named plan mlp.onnx --batch 64 --device t4,memory=6660KiB,reserve=100KiB --rules memplan --budget device -q
try devices_exceeded plan mlp.onnx --batch 64 --device t4,memory=6660KiB,reserve=100KiB --rules memplan --budget 6600KiB
try devices_fit fit mlp.onnx --device t4,memory=6660KiB --reserve 100KiB -q
try devices_of_a_graph plan chain.json -q
device_file() { # KEY-AND-VALUE: a file of a device on standard output
    printf '{"format": "memplan-device",\n "like": "a100", "name": "mine", "reserve": 1048576,\n  %s}\n' "$1"
}
device_file '"memory": "8MiB", "bandwidth": 1555' > card.json
device_file '"memry": "3MiB"' > card_key.json
device_file '"memory": "3 apples"' > card_bytes.json
device_file '"bandwidth": -1555' > card_number.json
device_file '"fp32": true' > card_kind.json
device_file '"title": "x,memory=1"' > card_comma.json
sed 's/a100/cpu/' card.json > card_like.json
sed 's/"like": "a100", //' card.json > card_unlike.json
try devices_file plan mlp.onnx --batch 64 --device card.json -q
for bad in key bytes number kind comma like unlike absent; do try "devices_file_$bad" estimate mlp.onnx --batch 64 --device "card_$bad.json"; done
holds devices_file_stays_in_the_plan sh -c "
    '$memplan' plan mlp.onnx --batch 64 --device card.json -o card_plan.json > /dev/null && mv card.json card_gone.json &&
    '$memplan' check mlp.onnx card_plan.json > /dev/null &&
    '$memplan' plan mlp.onnx --batch 64 --device a100,memory=8MiB,bandwidth=1555,reserve=1MiB,name=mine -o card_text.json > /dev/null &&
    test \"\$(sed 's/.*\"seconds\"//;s/\"options\".*//' card_plan.json)\" = \"\$(sed 's/.*\"seconds\"//;s/\"options\".*//' card_text.json)\""
holds devices_in_any_case sh -c "
    '$memplan' estimate mlp.onnx --batch 64 --device 'RTX 4090' | grep -q 'GeForce RTX 4090' &&
    '$memplan' graph mlp.onnx --batch 64 --device A100 -o upper.json && '$memplan' graph mlp.onnx --batch 64 --device a100 -o lower.json &&
    cmp upper.json lower.json"
# whose memory a verdict is about: in the headline, the last line, -q, the exit status, fit, and the limits of MPS
holds verdicts_are_about_the_program_that_trains python3 "$root/tests/cli/verdicts.py" "$memplan"
holds a_device_of_ones_own sh -c "
    '$memplan' estimate mlp.onnx --batch 64 --device a100,memory=1MiB -q | grep -q 'Does not fit a100, assumed to need at most .* of 1[.0-9]* [KM]iB' &&
    '$memplan' plan mlp.onnx --batch 64 --device a100,memory=1MiB,bandwidth=10 --rates peak --rules memplan --budget 100% -o own_device.json &&
    '$memplan' check mlp.onnx own_device.json | grep -q ' 2.43 ms'" # 204 us on the a100 itself
holds overhead_with_and_without_a_sign sh -c "
    '$memplan' fit mlp.onnx --memory 300MB --overhead 20 --effort quick > plain.txt && '$memplan' fit mlp.onnx --memory 300MB --overhead 20% --effort quick | cmp - plain.txt"
holds options_by_chance python3 "$root/tests/cli/odd_options.py" "$memplan" 60
# Misspelt networks: missing, swapped or extra letters, and a beginning that several names share.
holds usage_misspelt_networks sh -c "
    while IFS='|' read -r word meant; do
        '$memplan' estimate \"\$word\" 2> why.txt; test \$? = 2 && grep -q \"no network of this name is known; did you mean \$meant?\$\" why.txt || { cat why.txt; exit 1; }
    done << 'EOF'
lama3-8b|llama3-8b
gtp2|gpt2
bert-bas|bert-base
LLaMA 2|llama2-7b or llama2-13b or llama2-70b
llama3.1-8b|llama3-8b
vit|vit-base or vit-large or vit-huge
GPT 3|gpt3-13b or gpt3-175b
EOF"
# Former names of options are accepted, with a notice.
former_name() { # FORMER PRESENT VALUE ARGUMENT...
    holds "usage_former_name_$1" sh -c '
        memplan=$1 former=$2 name=$3 value=$4
        shift 4
        "$memplan" "$@" "--$name" "$value" > new.txt && "$memplan" "$@" "--$former=$value" > old.txt 2> why.txt && cmp new.txt old.txt &&
        grep -qxF "memplan: --$former is now called --$name; a later release will not accept the old name" why.txt' sh "$memplan" "$@"
}
former_name pipeline pipeline-schedule gpipe estimate fashion_cnn.onnx --batch 4 --mesh pp=2 --json
former_name held stash 1MiB estimate fashion_cnn.onnx --batch 4 --mesh pp=2 --rank 0 --json
former_name micro-batch micro-batch-size 2 parallel fashion_cnn.onnx --devices 2 --global-batch 4 --mesh pp=2 -q
former_name schedule lr-schedule cosine train mlp.onnx --batch 4 --budget 100% --steps 3 --no-before -q
try usage_former_name_twice estimate fashion_cnn.onnx --batch 4 --mesh pp=2 --pipeline gpipe --pipeline-schedule gpipe
