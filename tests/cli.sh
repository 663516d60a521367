#!/bin/sh
# cli.sh BUILD - the command line: the output of each case (standard output, then standard error, then the exit status) is compared
# with tests/golden/COMMAND/CASE.out. REGENERATE=1 tests/cli.sh BUILD writes them anew; git diff is the review. PARTS="plan
# terminal": these files of tests/cli only; mpi needs none of the others, and runs where it is named. The cases are in tests/cli,
# one file per command or subject; they share a folder (WORK, in BUILD/tests), and a file may use the files that earlier ones left there.
cd "$(dirname "$0")/.." || exit 2
build=$(realpath "$1")
memplan=$build/memplan
root=$(pwd)
work=$build/tests/${WORK:-cli-work}
rm -rf "$work"
mkdir -p "$work" || exit 2
passed=0 failed=0
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}" # threads that wait do not keep a processor

for text in tests/cli/files/*.onnx.txt; do
    protoc-c --encode=onnx.ModelProto --proto_path=/usr/include/onnx onnx.proto < "$text" > "$work/$(basename "$text" .txt)" || exit 2
done
cp tests/cli/files/*.json tests/cli/files/*.dot tests/cli/files/*.csv examples/branch.dot examples/resnet50.onnx examples/fashion_cnn.onnx tests/networks/files/*.onnx "$work"
cd "$work" || exit 2
head -c 300 mlp.onnx > truncated.onnx
head -c 300 chain.json > chain_truncated.json
printf 'hello, this is no model\n' > malformed.onnx
: > empty.onnx
mkdir folder.onnx

verdict() { # NAME OK
    if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}
# try NAME ARGUMENT...: one golden case. Search times are replaced, and progress lines of a slow machine are left out; FILTER is a command that cuts long output.
try() {
    name=$1
    shift
    "$memplan" "$@" > "$name.stdout" 2> "$name.stderr" < /dev/null
    status=$?
    { echo "\$ memplan $*"; ${FILTER:-cat} < "$name.stdout"; sed -e '/^memplan: progress: /d' -e 's/^/stderr: /' "$name.stderr"; echo "exit $status"; } |
        sed -e 's/^\(  found by [a-z-]* in\) .*/\1 TIME/' -e 's/"planning_seconds": [0-9.e-]*/"planning_seconds": TIME/' > "$name.out"
    golden "$name"
}
# golden NAME: NAME.out equals the golden file.
golden() {
    [ -z "$REGENERATE" ] || cp "$1.out" "$root/tests/golden/${1%%_*}/$1.out"
    diff -u "$root/tests/golden/${1%%_*}/$1.out" "$1.out"
    verdict "$1" $?
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

for part in ${PARTS:-help usage inputs hostile files names estimate models ranks pipelines plan offload offload_train check timeline report draw pack dot studies parallel share train profile terminal signals streams schemas system faults}; do . "$root/tests/cli/$part.sh"; done

echo "[  PASSED  ] $passed test(s)."
[ $failed = 0 ] || echo "[  FAILED  ] $failed test(s), listed above:"
[ $failed = 0 ]
