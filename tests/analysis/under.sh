#!/bin/sh
# under.sh threads|valgrind BUILD TEST... - test programs, and some commands, under clang's sanitizer of threads (BUILD was made with
# TSAN=1) or under valgrind's memcheck. Prints the findings of each program; exit status 1 if there are any.
tool=$1 build=$(realpath "$2")
shift 2
logs=$build/under-$tool known=$PWD/tests/analysis/valgrind.supp
rm -rf "$logs" && mkdir -p "$logs/files" || exit 2
case $tool in
threads) # OpenMP tells it through archer who waits for whom; libraries that are not built for it are not looked into
    folder=$(dirname "$(dirname "$(clang -print-resource-dir)")")
    export OMP_TOOL_LIBRARIES="$folder/libarcher.so" OMP_NUM_THREADS=3
    export TSAN_OPTIONS="ignore_noninstrumented_modules=1:exitcode=66"
    run() { "$@"; } ;;
valgrind)
    export OMP_NUM_THREADS=1
    run() { valgrind -q --error-exitcode=66 --leak-check=full --errors-for-leak-kinds=definite,indirect --suppressions="$known" "$@"; } ;;
*) exit 2 ;;
esac
passed=0 failed=0
judge() { # NAME COMMAND...
    name=$1
    shift
    run "$@" > "$logs/$name.log" 2>&1 < /dev/null
    status=$?
    if [ $status = 0 ] && ! grep -q 'WARNING: ThreadSanitizer' "$logs/$name.log"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name: exit status $status, $logs/$name.log"
        grep -m 5 -A 12 -E 'WARNING: ThreadSanitizer|^==[0-9]+== [A-Z]|FAILED' "$logs/$name.log"
    fi
}
for test; do judge "$(basename "$test")" "$test"; done
models=$PWD/examples gradients=$PWD/tests/gradients
cd "$logs/files" || exit 2
memplan=$build/memplan
judge plan "$memplan" plan "$models/fashion_cnn.onnx" --batch 64 --device a100 --budget floor+30% -o plan.json
judge check "$memplan" check "$models/fashion_cnn.onnx" plan.json
case $tool in # oneDNN has no products for the processor that valgrind plays
threads) judge train "$memplan" train "$gradients/bert.onnx" --budget floor+30% --steps 2 --save state.safetensors ;;
valgrind) judge draw "$memplan" draw "$models/mlp4.onnx" --batch 4 -o picture.svg ;;
esac
echo "$tool: $passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
