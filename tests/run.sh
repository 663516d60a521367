#!/bin/sh
# run.sh BUILD TEST... - runs the test programs, as many at a time as there are processors, then the cases of the command line and of
# the scripts for a GPU.
# Shows failed and skipped tests; the last line says how many passed and failed. Exit status 1 if any failed.
build=$1
shift
start=$(date +%s)
export LSAN_OPTIONS="suppressions=$PWD/tests/leaks.supp:print_suppressions=0"
printf '%s\n' "$@" | xargs -P "$(nproc)" -I TEST sh -c '
    case TEST in */fuzz_*) export OMP_NUM_THREADS=1 ;; esac # inputs too small for two
    timeout 900 TEST > TEST.log 2>&1; echo $? > TEST.status'
(
    PARTS=mpi WORK=mpi-work tests/cli.sh "$build" > "$build/tests/mpi.log" 2>&1
    echo $? > "$build/tests/mpi.status"
) &
tests/cli.sh "$build" > "$build/tests/cli.log" 2>&1
echo $? > "$build/tests/cli.status"
wait
tests/gpu/test_scripts.sh "$build" > "$build/tests/gpu_scripts.log" 2>&1
echo $? > "$build/tests/gpu_scripts.status"

# The number in the line of a cmocka log that starts with a word: "[  PASSED  ] 4 test(s)."
count() { sed -n "s/^\[  *$1  *\] \([0-9][0-9]*\) test(s).*/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'; }

passed=0 failed=0 skipped=0
for test in "$@" "$build/tests/cli" "$build/tests/mpi" "$build/tests/gpu_scripts"; do
    p=$(count PASSED "$test.log") f=$(count FAILED "$test.log") s=$(count SKIPPED "$test.log")
    status=$(cat "$test.status")
    [ "$status" != 0 ] && [ "$f" = 0 ] && f=1 # it crashed, or ran out of time
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-28s %4d passed  %d failed\n' "$(basename "$test")" "$p" "$f"
    [ "$f" = 0 ] || { echo "---- $test.log (exit status $status)"; tail -n 60 "$test.log"; echo "----"; }
    [ "$s" = 0 ] || grep -E '^\[  SKIPPED \] [^0-9]|^SKIPPED: ' "$test.log" | sort -u | sed 's/^/    /'
    grep -E '^[0-9]+ conformance models' "$test.log" | sed 's/^/    /'
done
[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "in $(($(date +%s) - start)) s"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
