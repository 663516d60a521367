# shellcheck shell=sh disable=SC2154
# bench.sh - the sections of training steps, ours and PyTorch's of the same nets at the same batches, the most important first: bench-ours,
# bench-eager, bench-compile.
if [ -n "$rehearsed" ]; then
    nets='mobilenet_v2 2' first=fp32 second=bf16 other=fp32
else
    nets='resnet50 128
bert_base 32
gpt2_small 8
mobilenet_v2 32' first=bf16 second=tf32 other=fp32
fi
# Runs COMMAND NET BATCH ARGUMENT... for each net.
each_net() {
    command=$1
    shift
    while read -r each_name each_batch; do "$command" "$each_name" "$each_batch" "$@"; done << END
$nets
END
}

# ---- memplan
measured_costs() { # NET BATCH PRECISION
    what="memplan measured"
    enough 60 "$1 with measured costs" || return
    path=$(model "$1") || return
    costs=$work/logs/costs_$1.json
    case $3 in bf16) set -- "$@" --dtype bf16 ;; tf32) set -- "$@" --tf32 ;; fp32) set -- "$@" --dtype fp32 ;; esac
    if ours 70 "$build/memplan" profile "$path" --device "$device" --batch "$2" --steps 3 -o "$costs" "$4" ${5+"$5"} > "$work/logs/profile_$1.txt" 2>&1; then
        ours_row "$1" "$2" "$3" "$what" --budget 100% --costs "$costs"
    else
        why=$(reason "$work/logs/profile_$1.txt" 'memplan:')
        no_row "$1" "$2" "$3" "$what" FAILED "${why:-profile: not done within 70 s}"
    fi
}
fast_row() { # PRECISION
    if [ "$device" = cpu ]; then note "memplan --fast" "left out" "on a GPU only"; else
        each_net ours_row "$1" "memplan --fast" --budget 100% --fast
    fi
}
ours_bench() {
    each_net ours_row $first memplan --budget 100%
    fast_row $first
    each_net ours_row $second memplan --budget 100%
    each_net ours_row $first "memplan 60%" --budget 60% --time-limit 10
    each_net measured_costs $first
    if enough 20 "places of the updates" && path=$(model mobilenet_v2); then
        ours 60 "$build/tests/bench_updates" "$path" "${nets##* }" $((bench_steps + 1)) "$device" > "$work/updates" 2>&1 ||
            note "places of the updates" FAILED "$(reason "$work/updates" | grep . || echo "not done within 60 s")"
    fi
    fast_row $second
}

# ---- PyTorch
their_row() { # NET BATCH PRECISION SECONDS WHO ARGUMENT...
    their_net=$1 their_batch=$2 their_precision=$3 their_most=$4
    shift 4
    torch_row "$their_most" "$their_net" "$their_batch" "$their_precision" "$@"
}
eager_bench() {
    each_net their_row $first 60 "PyTorch eager"
    each_net their_row $second 60 "PyTorch eager"
    each_net their_row $first 60 "PyTorch checkpoint" --how checkpoint
    each_net their_row $first 60 "PyTorch deterministic" --deterministic
    [ -n "$rehearsed" ] || torch_row 60 bert_base 32 bf16 "PyTorch no mask" --no-mask
    for how in forloop foreach eager backward; do torch_row 60 mobilenet_v2 "${nets##* }" $other "PyTorch $how" --how $how; done
}
compile_bench() {
    each_net their_row $first 120 "PyTorch compile" --how compile
    each_net their_row $first 120 "PyTorch budget=0.5" --how budget=0.5
    [ -n "$rehearsed" ] || torch_row 120 resnet50 128 tf32 "PyTorch compile" --how compile
    [ -n "$rehearsed" ] || torch_row 120 gpt2_small 8 bf16 "PyTorch compile graphs" --how graphs
}

# The end of a section of steps: rows of one network are together.
sorted_rows() {
    sort -s -k 1,3 "$work/table" > "$work/sorted" && mv "$work/sorted" "$work/table"
    [ ! -e "$work/updates" ] || say "$(cat "$work/updates")"
    differences
}
case $section in
bench-ours) ours_bench; sorted_rows ;;
bench-eager) eager_bench; sorted_rows ;;
bench-compile) compile_bench; sorted_rows ;;
esac
