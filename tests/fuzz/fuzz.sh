#!/bin/sh
# fuzz.sh BUILD SECONDS [TARGET...] - runs each target of BUILD (all of them by default) with libFuzzer so long, from its corpus and the
# inputs of earlier runs. Inputs that fail are left in BUILD/found, and the exit status is 1.
build=$1 seconds=$2
shift 2
[ $# != 0 ] || set -- $(ls "$build/tests" | sed -n 's/^fuzz_\([a-z_]*\)$/\1/p')
faults=0
mkdir -p "$build/found"
export LSAN_OPTIONS="suppressions=$PWD/tests/leaks.supp:print_suppressions=0" OMP_NUM_THREADS=1
for target; do
    seeds=$build/corpus/$target
    mkdir -p "$seeds" "$seeds-grown"
    for file in tests/fuzz/corpus/"$target"/*; do
        case $file in # a line is an input
        *.txt) grep -v -e '^#' -e '^$' "$file" | split -l 1 -a 4 - "$seeds/$(basename "$file" .txt)-" ;;
        *) cp "$file" "$seeds" ;;
        esac
    done
    start=$(date +%s)
    dictionary=tests/fuzz/corpus/$target.dict
    "$build/tests/fuzz_$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
        $([ ! -f "$dictionary" ] || echo "-dict=$dictionary") -artifact_prefix="$build/found/$target-" "$seeds-grown" "$seeds" \
        > "$build/found/$target.log" 2>&1 || faults=$((faults + 1))
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/found/$target.log")
    echo "$target: ${runs:-?} inputs in $(($(date +%s) - start)) s, $(ls "$build/found" | grep -c "^$target-[clot]") found"
done
[ $faults = 0 ]
