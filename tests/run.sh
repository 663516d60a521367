#!/bin/sh
# run.sh BUILD TEST... - runs the test programs, the cases of the command line, the commands in pages (BUILD/tests/commands) and the
# scripts for a GPU, as many at a time as there are processors. The long ones begin first, so that no processor waits for the last one.
# Shows processor seconds, and failed and skipped tests; the last line says how many passed and failed. Exit status 1 if any failed.
build=$1
shift
start=$(date +%s)
export LSAN_OPTIONS="suppressions=$PWD/tests/leaks.supp:print_suppressions=0"
# Over ten processor seconds, the longest first.
long='auto commands tier_budgets public_memory solvers offload_rules arena_solve cuda_twin copies_run state_copies execution smallest anneal copies_oracle copies'
first=$(for name in $long; do for test in "$@"; do file=${test##*/}; [ "${file#test_}" != "$name" ] || echo "$test"; done; done)
printf '%s\n' "$build/tests/cli" "$build/tests/mpi" "$build/tests/gpu_scripts" $first "$@" | awk '!seen[$0]++' |
    BUILD=$build xargs -P "$(nproc)" -I TEST sh -c '
    limit=900
    case TEST in
    */fuzz_*) export OMP_NUM_THREADS=1; set -- TEST ;; # inputs too small for two
    */cli) limit=3600; set -- tests/cli.sh "$BUILD" ;;
    */mpi) limit=3600; export PARTS=mpi WORK=mpi-work; set -- tests/cli.sh "$BUILD" ;;
    */commands) set -- python3 -B tests/docs/commands.py "$BUILD" --run ;;
    */gpu_scripts) set -- tests/gpu/test_scripts.sh "$BUILD" ;;
    *) set -- TEST ;;
    esac
    timeout $limit "$@" > TEST.log 2>&1
    echo $? > TEST.status
    times > TEST.times'

# The number in the line of a cmocka log that starts with a word: "[  PASSED  ] 4 test(s)."
count() { sed -n "s/^\[  *$1  *\] \([0-9][0-9]*\) test(s).*/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'; }

# Of its processes: the second line of the shell's times, such as "1m2.5s 0m0.3s".
seconds() { awk 'NR == 2 { gsub("s", ""); for (i = 1; i <= 2; i++) { split($i, t, "m"); n += 60 * t[1] + t[2] } } END { printf "%.1f", n }' "$1.times"; }

passed=0 failed=0 skipped=0
for test in "$@" "$build/tests/cli" "$build/tests/mpi" "$build/tests/gpu_scripts"; do
    p=$(count PASSED "$test.log") f=$(count FAILED "$test.log") s=$(count SKIPPED "$test.log")
    status=$(cat "$test.status")
    [ "$status" != 0 ] && [ "$f" = 0 ] && f=1 # it crashed, or ran out of time
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-28s %4d passed  %d failed  %7s s\n' "$(basename "$test")" "$p" "$f" "$(seconds "$test")"
    [ "$f" = 0 ] || { echo "---- $test.log (exit status $status)"; tail -n 60 "$test.log"; echo "----"; }
    [ "$s" = 0 ] || grep -E '^\[  SKIPPED \] [^0-9]|^SKIPPED: ' "$test.log" | sort -u | sed 's/^/    /'
    grep -E '^[0-9]+ conformance models' "$test.log" | sed 's/^/    /'
done
[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "in $(($(date +%s) - start)) s, $(for test in "$@" "$build/tests/cli" "$build/tests/mpi" "$build/tests/gpu_scripts"; do seconds "$test"; echo; done | awk '{ n += $1 } END { printf "%.0f", n }') processor seconds"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
