# shellcheck shell=sh disable=SC2034,SC2154
# choices.sh - read by first.sh and second.sh: compares steps that change one choice of algorithms or kernels with the same
# steps without the change.
# First come choices inside of memplan that have no option. A line has the arguments NETWORK SECONDS TYPE of bench_choices. In
# one second bench_choices measures only the defaults, and in bf16 also attention by own kernels.
inner='bert_base 30 bf16
gpt2_small 20 bf16
resnet50 12 bf16
bert_base 1 tf32
bert_base 1 fp32'
# Then choices of options. A line: LABEL|NETWORK|variables of the environment as NAME=VALUE|arguments of `memplan train`; the most
# informative come first. COSTS among the arguments stands for costs that `memplan profile` has measured before.
choices='algorithms that are not deterministic|bert_base||--fast
measured algorithms|bert_base||--costs COSTS
attention operator by operator|gpt2_small||--no-fused-attention
kernels without a captured graph|bert_base||--no-graph
algorithms that are not deterministic|gpt2_small||--fast
small workspaces|bert_base||--workspace-limit 32MiB'
if [ -n "$rehearsed" ]; then
    inner='fashion_cnn 20 fp32'
    choices='measured algorithms|mobilenet_v2||--costs COSTS
one thread|mobilenet_v2|OMP_NUM_THREADS=1|'
fi

# Rows of bench_choices: inner_choices NET SECONDS TYPE.
inner_choices() {
    title="$1 $3: choices inside of memplan" log=$work/logs/choices_$1_$3.txt
    if [ ! -x "$build/tests/bench_choices" ]; then note "$title" "left out" "not built"; return; fi
    enough 10 "$title" || return
    path=$(model "$1") || { note "$title" "left out" "the model is not here"; return; }
    inner_batch=$(echo "$nets" | sed -n "s/^$1 //p")
    { ours $(($2 + 15)) "$build/tests/bench_choices" "$path" "${inner_batch:-8}" "$3" $((bench_steps - 1)) "$device" "$2" 2>&1; } |
        while IFS= read -r line; do
            say "$1 $3: $line"
            record net "$1" precision "$3" choice "$line"
            echo "$line" >> "$log"
        done
    rows=$(grep -c ' ms ' "$log" 2> /dev/null)
    if [ "${rows:-0}" -gt 0 ]; then note "$title" ok "$rows rows"; else
        note "$title" FAILED "$(tail -n 1 "$log" 2> /dev/null | grep . || echo "not done in time")"
    fi
}
# Measures operators and algorithms of a network once; sets $costs, or fails after a row: costs_of NET BATCH.
costs_of() {
    costs=$work/logs/costs_$1.json
    [ ! -s "$costs" ] || return 0
    enough 15 "$1: measured algorithms" || return 1
    path=$(model "$1") || { note "$1: measured algorithms" "left out" "the model is not here"; return 1; }
    ours $((30 * stretch)) "$build/memplan" profile "$path" --device "$device" --batch "$2" --dtype "$first" --steps 2 --time-limit 20 -o "$costs" \
        > "$work/logs/profile_$1.txt" 2>&1 && return 0
    note "$1: measured algorithms" FAILED "$(reason "$work/logs/profile_$1.txt" 'memplan: [^p]' | grep . || echo "not done in time")"
    rm -f "$costs"
    return 1
}
# The steps without a change, once for each network; sets $base to their seconds: base_of NET BATCH.
base_of() {
    base=$(sed -n "s/^$1 //p" "$work/bases")
    [ -z "$base" ] || return 0
    ours_row "$1" "$2" "$first" memplan --budget 100% || return 1
    base=$seconds_a_step
    echo "$1 $base" >> "$work/bases"
}
a_choice() { # LABEL NET SWITCHES ARGUMENT...
    label=$1 chosen=$2 changed=$3
    shift 3
    chosen_batch=$(echo "$nets" | sed -n "s/^$chosen //p")
    base_of "$chosen" "$chosen_batch" || return
    case " $* " in *' COSTS '*)
        costs_of "$chosen" "$chosen_batch" || return
        # shellcheck disable=SC2046 # arguments without blanks
        set -- $(echo "$*" | sed "s|COSTS|$costs|")
        ;;
    esac
    switches=$changed
    if ours_row "$chosen" "$chosen_batch" "$first" "$label" --budget 100% "$@"; then
        slower=$(awk "BEGIN { printf \"%+.1f\", 100 * ($seconds_a_step / $base - 1) }")
        say "$chosen, $label: $slower % time"
        record net "$chosen" choice "$label" percent_more_time "$slower"
    fi
    switches=''
}
choice_rows() {
    while read -r inner_net inner_seconds inner_type; do inner_choices "$inner_net" "$inner_seconds" "$inner_type"; done << END
$inner
END
    : > "$work/bases"
    echo "$choices" > "$work/choices"
    while IFS='|' read -r label chosen changed arguments; do
        # shellcheck disable=SC2086 # several arguments
        a_choice "$label" "$chosen" "$changed" $arguments
    done < "$work/choices"
}
