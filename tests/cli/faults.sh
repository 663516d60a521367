# faults.sh - system calls fail: each call of a kind in turn, with every possible error. Afterwards the requested result exists, or
# the file is unchanged; there is one sentence and its status; no other file is left. FAULTS=all sweeps all commands.
fault=$build/tests/modules/faults.so
mkdir -p faulty && cp mlp.onnx faulty/ && cp "$root/tests/gradients/bert.onnx" faulty/
# fault_sweep FILE COMMAND...: the command, which writes FILE.
cat > fault_sweep.sh <<'END'
memplan=$1 fault=$2 file=$3 cases=0
shift 3
"$memplan" "$@" > /dev/null 2>&1 < /dev/null || { echo "$*: fails without a fault"; exit 1; }
cp "$file" good
fails() { echo "$*"; cat why.txt; ls faulty; exit 1; }
for call in open write fsync rename close mmap fstat read; do
    case $call in write) errors='0 4 5 28' ;; open) errors='4 5 13 24' ;; read) errors='0 4 5' ;; rename) errors='5 28' ;; *) errors='4 5' ;; esac
    for error in $errors; do
        n=1
        while [ $n -le 60 ]; do
            echo old > "$file"
            rm -f reached
            LD_PRELOAD=$fault FAULT_CALL=$call FAULT_AT=$n FAULT_ERROR=$error FAULT_MARK=reached "$memplan" "$@" > /dev/null 2> why.txt < /dev/null
            status=$?
            what="$1: $call number $n fails with $error: status $status"
            [ -e reached ] || break
            cases=$((cases + 1))
            case $status in
            0) sed 's/"planning_seconds": [0-9.e-]*//' "$file" > a; sed 's/"planning_seconds": [0-9.e-]*//' good > b; cmp -s a b || fails "$what, another answer" ;;
            1 | 2)
                [ "$(wc -l < why.txt)" = 1 ] && grep -q '^memplan: ' why.txt || fails "$what, no one sentence"
                [ "$(cat "$file" | tr -d '\0')" = old ] || grep -q 'is written, but' why.txt || fails "$what, the old file is gone" ;;
            *) fails "$what" ;;
            esac
            ls faulty | grep -q '\.tmp$' && fails "$what, a temporary is left"
            [ "$call $error" = 'write 0' ] && [ $status != 0 ] && fails "$what, though it was only short"
            [ "$call $error" = 'write 4' ] && [ $status != 0 ] && fails "$what, though it was only interrupted"
            n=$((n + 1))
        done
    done
done
[ $cases -ge 10 ] || fails "$1: $cases faults only"
echo "$1: $cases faults"
END
case "$build" in *san*) ;; *) # a sanitizer wants to be loaded first itself
    sweep_faults() { holds "faults_$2" sh fault_sweep.sh "$memplan" "$fault" "$@"; [ -z "$FAULTS" ] || cat "faults_$2.log"; }
    sweep_faults faulty/out.json graph faulty/mlp.onnx --batch 4 -o faulty/out.json
    if [ -n "$FAULTS" ]; then
        sweep_faults faulty/state.st train faulty/bert.onnx --budget 100% --steps 1 --no-before --save faulty/state.st
        sweep_faults faulty/plan.json plan faulty/mlp.onnx --batch 4 --budget 100% -o faulty/plan.json
        sweep_faults faulty/out.svg draw faulty/mlp.onnx --batch 4 -o faulty/out.svg
        sweep_faults faulty/out.html report faulty/mlp.onnx --batch 4 --budget 100% -o faulty/out.html
        sweep_faults faulty/out.dot timeline faulty/mlp.onnx --batch 4 --format json -o faulty/out.dot
        sweep_faults faulty/out.csv pack buffers.csv --minimize -o faulty/out.csv
    fi
    # The first sync is the file's, the second its folder's.
    holds the_folder_is_synced sh -c "
        rm -f reached && LD_PRELOAD='$fault' FAULT_CALL=fsync FAULT_AT=2 FAULT_ERROR=5 FAULT_MARK=reached '$memplan' graph faulty/mlp.onnx --batch 4 -o faulty/out.json 2> why.txt
        test \$? = 1 && test -e reached && grep -q 'is written, but its folder' why.txt && '$memplan' graph faulty/mlp.onnx --batch 4 | cmp - faulty/out.json"
    # Memory that runs out at some places, in libraries too. docs/internals/reliability.md: at more of them.
    holds memory_runs_out python3 -B "$root/tests/cli/allocations.py" "$memplan" "$build/tests/modules/failing_malloc.so" 3 graph estimate check pack train dot
    holds memory_runs_out_in_onednn python3 -B "$root/tests/cli/allocations.py" "$memplan" "$build/tests/modules/failing_malloc.so" 15 profile ;;
esac
holds a_closed_output sh -c "
    for words in 'estimate mlp.onnx --batch 4' 'estimate mlp.onnx --batch 4 --json' 'plan mlp.onnx --batch 4 --budget 100%' 'graph mlp.onnx --batch 4' 'help' 'ops' 'version' \
        'draw mlp.onnx --batch 4 --format svg -o -'; do
        for to in '> /dev/full' '>&-'; do
            eval \"'$memplan' \$words \$to\" 2> why.txt; status=\$?
            test \$status = 1 && grep -q '^memplan: ' why.txt && test \$(wc -l < why.txt) = 1 || { echo \"\$words \$to: \$status\"; cat why.txt; exit 1; }
        done
    done"
# Ten trainings are killed, and three other commands; the next run resumes from their files. tests/cli/kills.py "$memplan" 200: more of them.
holds killed_runs python3 -B "$root/tests/cli/kills.py" "$memplan" 10
