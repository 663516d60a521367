# shellcheck shell=sh disable=SC2154
# sanitizer.sh - the section of compute-sanitizer: small nets, our own kernels only (the libraries' are theirs to check, and slow), and
# no API errors: cuDNN and cublasLt call with arguments that fail, and go on.
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null)
# All own kernels are instances of the five in executor/cuda/grid. Old versions have another name for the option and no key 'regex'.
filter='--kernel-name regex=mp_(each|each_block|rows|blocks|large_blocks|warps)_kernel'

sanitize() { # TOOL MODEL ARGUMENT...
    tool=$1 sanitized=$2
    shift 2
    title="$tool $(basename "$sanitized" .onnx)${*:+ $*}"
    enough 20 "$title" || return
    log=$work/logs/$(echo "$title" | tr -c 'a-zA-Z0-9\n' '_').txt
    # shellcheck disable=SC2086 # several arguments
    ours 120 "$sanitizer" --tool "$tool" --report-api-errors no $filter --error-exitcode 9 \
        "$build/memplan" train "$sanitized" --device "$device" --budget floor+40% $brief --steps 2 --no-before "$@" > "$log" 2>&1
    status=$?
    case $status$rehearsed in
    0*) note "$title" ok "$(reason "$log" 'SUMMARY')" ;;
    2551) note "$title" "left out" "it sees no call of CUDA" ;;
    124*) note "$title" "left out" "not done within 120 s" ;;
    *) note "$title" FAILED "status $status: $(reason "$log" 'Invalid|Uninitialized|Race|Barrier|SUMMARY: [1-9]|memplan:|Error:')" ;;
    esac
}

if [ -z "$sanitizer" ]; then
    note "compute-sanitizer" "left out" "not here"
else
    "$sanitizer" --help > "$work/logs/sanitizer.txt"
    grep -q -e '--kernel-name' "$work/logs/sanitizer.txt" || filter='--kernel-regex kns=mp_'
    note "compute-sanitizer" ok "$("$sanitizer" --version | sed -n 's/^Version //p'), $filter"
    for tool in memcheck racecheck synccheck initcheck; do
        for net in mlp cnn bert gpt unet; do
            case $tool,$net in memcheck,* | racecheck,* | *,cnn | *,bert) sanitize "$tool" "tests/gradients/$net.onnx" ;; esac
        done
    done
    for net in cnn bert; do
        sanitize memcheck "tests/gradients/$net.onnx" --dtype bf16
        sanitize memcheck "tests/gradients/$net.onnx" --no-graph
    done
fi
