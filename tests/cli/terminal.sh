# terminal.sh - output on a terminal: no line wraps, a plan takes 24 lines, Ctrl-C works, and progress is correct.
cp "$root/tests/gradients/bert.onnx" .
screen() { python3 "$root/tests/cli/terminal.py" "$@"; }
for columns in 60 80 200; do
    lines=24
    [ $columns != 60 ] || lines=0
    holds "terminal_plan_$columns" screen --says searching $columns $lines "$memplan" plan resnet50.onnx --batch 32 --budget 60% --time-limit 2
    holds "terminal_no_plan_$columns" screen --status 1 --says 'searching for the smallest budget' $columns $lines \
        "$memplan" plan resnet50.onnx --batch 32 --budget 20% --time-limit 2
done
holds terminal_plan_is_quiet screen --not found --not searching 80 1 "$memplan" plan mlp.onnx --batch 64 --budget floor+50% -q
holds terminal_plan_without_progress screen --not searching 80 24 "$memplan" plan resnet50.onnx --batch 32 --budget 60% --time-limit 1 --no-progress
holds terminal_plan_tells_all screen --says ' tried' --says ' bytes ' 200 0 "$memplan" plan resnet50.onnx --batch 32 --budget 60% --time-limit 3 -v
holds terminal_is_stopped screen --stop-at 'best +' --says stopping --says 'fits the budget' 80 24 \
    "$memplan" plan resnet50.onnx --batch 32 --budget floor+40% --effort thorough
holds terminal_is_stopped_early screen --stop-at 'no plan yet' --status 130 --says 'not known whether it fits' --not 'does not fit' 80 24 \
    "$memplan" plan resnet50.onnx --batch 32 --budget 25% --effort thorough
holds terminal_says_no_at_once screen --stop-at 'so far' --status 1 --says 'does not fit' --says 'until Ctrl-C' 80 24 \
    "$memplan" plan resnet50.onnx --batch 32 --budget 20% --effort thorough
holds terminal_train_stopped_first screen --stop-at 'run 1 of 2' --status 130 --says 'not compared' --not 'NOT the same' 80 0 \
    "$memplan" train bert.onnx --budget 100% --steps 1000000
holds terminal_train_stopped_second env OMP_NUM_THREADS=1 python3 "$root/tests/cli/terminal.py" \
    --stop-at 'run 2 of 2' --says 'interrupted: not compared' --not 'NOT the same' 80 24 \
    "$memplan" train bert.onnx --budget 100% --steps 20000
# A table on a narrow terminal loses no column, and a short note fits beside 80.
for columns in 30 45 60; do holds "terminal_table_$columns" screen --says 'bubble network' --says '11.57 GiB 0 us 0 us' --not '...' $columns 0 \
    "$memplan" parallel gpt2 --devices 4 --device a100; done
holds terminal_train_few_steps screen --says 'too few steps' 80 0 "$memplan" train bert.onnx --budget 100% --steps 2
holds terminal_has_color screen --says '[1;32m' 80 24 "$memplan" plan mlp.onnx --batch 64 --budget 100%
holds terminal_has_no_color env NO_COLOR=1 python3 "$root/tests/cli/terminal.py" --not '[1;32m' 80 24 "$memplan" plan mlp.onnx --batch 64 --budget 100%
holds terminal_is_dumb env TERM_UNDER_TEST=dumb python3 "$root/tests/cli/terminal.py" --not '[K' --not searching 80 24 \
    "$memplan" plan resnet50.onnx --batch 32 --budget 60% --time-limit 1
holds color_in_a_pipe sh -c "'$memplan' plan mlp.onnx --batch 64 --budget 100% --color always | grep -q '1;32m' &&
    ! '$memplan' plan mlp.onnx --batch 64 --budget 100% | grep -q '1;32m'"
for columns in 60 80 200; do
    holds "terminal_fit_$columns" screen --says 'The next batch' $columns 0 "$memplan" fit mlp.onnx --memory 16MiB --overhead 5% --effort quick
    holds "terminal_sweep_$columns" screen --says 'At least' $columns 0 "$memplan" sweep mlp.onnx --batch 4096 --solvers chen,lagrange --budgets 90%,floor+25%,1MiB
    holds "terminal_train_$columns" screen --says 'bit for bit' $columns 24 "$memplan" train bert.onnx --budget 100% --steps 20
done
for columns in 60 80 200; do
    lines=24
    [ $columns != 60 ] || lines=0
    holds "terminal_estimate_$columns" screen --says 'What would help' $columns $lines "$memplan" estimate resnet50.onnx --batch 32
done
holds terminal_says_what_it_wrote screen --says 'wrote said.json (' 80 1 "$memplan" graph mlp.onnx --batch 64 -o said.json
holds terminal_sweep screen --says 'all of them: --list' --says '30.91 MiB 30.03 MiB 79.0 % +7.2 % +7.2 % segments, optimal' --not 'smallest found' --not '...' \
    80 24 "$memplan" sweep mlp.onnx --batch 4096 --rates peak
holds terminal_sweep_list screen --says 'smallest found' --says 'More and more checkpoints' 80 0 "$memplan" sweep mlp.onnx --batch 4096 --list
