# shellcheck shell=sh disable=SC2154
# checks.sh - read by run.sh: rows that pass or fail. Tests of kernels, and whole trainings whose weights, losses and memory are
# compared.

# The searches for these plans are short: the checks compare the trainings, not the quality of the plans.
brief='--moves 300 --time-limit 5'
[ -n "$rehearsed" ] && backend=cpu program_seconds=300 || backend=cuda program_seconds=120

# A test program on the GPU; its output is in the logs: test_program NAME.
test_program() {
    ours "$program_seconds" env MEMPLAN_TEST_BACKEND="$backend" "$build/tests/test_$1" > "$work/logs/test_$1.txt" 2>&1
}
# The row of a test program that has ended: test_row NAME STATUS.
test_row() {
    log=$work/logs/test_$1.txt
    count() { sed -n "s/^\[  *$1  *\] \([0-9][0-9]*\) test(s).*/\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }'; }
    case $2 in
    0) note "test_$1" ok "$(count PASSED) passed, $(count SKIPPED) skipped" ;;
    124) note "test_$1" FAILED "not done within $program_seconds s, or in the time of the section or its part" ;;
    *)
        note "test_$1" FAILED "$(count PASSED) passed, $(count FAILED) not (status $2)"
        grep -E '^(\[  FAILED  \]|\[  ERROR|ERROR: )' -A 2 "$log" | head -n 12
        ;;
    esac
}
run_test() { # NAME
    if [ ! -x "$build/tests/test_$1" ]; then note "test_$1" "left out" "not built"; return; fi
    enough 10 "test_$1" || return
    test_program "$1"
    test_row "$1" $?
}
# Test programs, four at a time: nothing is measured, and most of their time is spent on the host. Rehearsals run one at a time.
run_tests() { # NAME...
    [ -n "$rehearsed" ] && at_once=1 || at_once=4
    while [ $# -gt 0 ]; do
        running=''
        for _ in $(seq "$at_once"); do
            [ $# -gt 0 ] || break
            if [ ! -x "$build/tests/test_$1" ]; then note "test_$1" "left out" "not built"; elif enough 10 "test_$1"; then
                test_program "$1" &
                running="$running $1:$!"
            fi
            shift
        done
        for one in $running; do
            wait "${one#*:}"
            test_row "${one%:*}" $?
        done
    done
}

# A training in JSON; its answer and its messages are kept in the logs: train NAME MODEL ARGUMENT... writes $answer and $said.
# $switches has variables of the environment, as NAME=VALUE.
switches=''
train() {
    answer=$work/logs/$1.json said=$work/logs/$1.txt
    train_model=$2
    shift 2
    # shellcheck disable=SC2086 # several variables
    ours 120 $switches "$build/memplan" train "$train_model" --device "$device" --json "$@" > "$answer" 2> "$said" < /dev/null
}
# Which attention ran, where there is some: attention_in FILE.
attention_in() {
    in_cudnn=$(value "$1" cudnn)
    [ -z "$in_cudnn" ] || echo ", attention: $in_cudnn in cuDNN, $(value "$1" own) in own kernels"
}
# The losses in a file of train's, the last training there.
losses() { tr -d ' \n' < "$1" | sed 's/.*"losses":\[\([^]]*\)\].*/\1/' | tr ',' '\n'; }
# How far losses are from others, at most, relatively: losses_off FILE FILE; 1 if there are none.
losses_off() {
    losses "$1" > "$work/one"
    losses "$2" > "$work/two"
    paste "$work/one" "$work/two" |
        awk '{ d = $2 ? $1 / $2 - 1 : 1; if (d < 0) d = -d; if (!(d <= most)) most = d; n++ } END { print n ? most + 0 : 1 }'
}

# One training with a plan beside one with everything kept: both have the same weights and losses, no more is used of the arena than
# is planned, and steps are captured. Fills $wrong if not: with_plan NAME MODEL HASH ARGUMENT...
with_plan() {
    name=$1 plan_model=$2 hash=$3
    shift 3
    # shellcheck disable=SC2086 # $brief is several arguments
    train "$name" "$plan_model" --steps 4 $brief "$@" || {
        grep -q 'no plan was found' "$said" || wrong="$*: $(reason "$said")"
        return # in the smallest nets there is none
    }
    grep -q '"identical": true' "$answer" || wrong="$*: not the bits of everything kept"
    [ -z "$hash" ] || [ "$(value "$answer" weights_hash)" = "$hash" ] || wrong="$*: other weights than with --fuse none"
    planned=$(value "$answer" arena_bytes) measured=$(value "$answer" measured_arena_bytes)
    [ "$measured" -le "$planned" ] || wrong="$*: $measured bytes used of an arena of $planned"
    used=$(awk "BEGIN { printf \"%.2f\", $measured / $planned }")
    case "$device $*" in
    *--no-graph* | cpu*) ;;
    *) [ "$(value "$answer" recordings)" -gt 0 ] || wrong="$*: no step was captured" ;;
    esac
}
# Copies to the host and back beside compute, captured and call by call: copied_bits MODEL ARGUMENT...
copied_bits() {
    copied_model=$1
    shift
    title="$(basename "$copied_model" .onnx)${*:+ $*} --offload host"
    enough 20 "$title" || return
    log=$(echo "training_$title" | tr -c 'a-zA-Z0-9\n' '_') wrong='' used=''
    with_plan "$log" "$copied_model" '' --budget floor+20% --offload host "$@"
    kept_hash=$(value "$answer" weights_hash) bytes_out=$(value "$answer" bytes_out)
    [ -n "$wrong" ] || [ "${bytes_out:-0}" -gt 0 ] || wrong='nothing was copied'
    [ -n "$wrong" ] || with_plan "${log}_by_call" "$copied_model" "$kept_hash" --budget floor+20% --offload host --no-graph "$@"
    if [ -n "$wrong" ]; then note "$title" FAILED "$wrong"; else note "$title" ok "same bits, $bytes_out bytes out"; fi
}
# Device timestamps of copies beside compute: the trace has a lane of copies. copies_traced MODEL ARGUMENT...
copies_traced() {
    title="$(basename "$1" .onnx): device timestamps of copies"
    enough 10 "$title" || return
    traced=$1
    shift
    # shellcheck disable=SC2086 # $brief is several arguments
    if ! train traced "$traced" --steps 3 $brief --no-before --budget floor+20% --offload host --trace "$work/logs/trace.json" "$@"; then
        note "$title" FAILED "$(reason "$said")"
    elif grep -q '"name":"copy"' "$work/logs/trace.json"; then
        note "$title" ok "in the logs: trace.json"
    else
        note "$title" FAILED "the trace has no lane of copies"
    fi
}
# All places of updates, captured and call by call: same_bits MODEL ARGUMENT...
same_bits() {
    same_model=$1
    shift
    title="$(basename "$same_model" .onnx)${*:+ $*}"
    enough 20 "$title" || return
    log=$(echo "training_$title" | tr -c 'a-zA-Z0-9\n' '_') wrong='' used=''
    with_plan "$log" "$same_model" '' --budget floor+60% --fuse none "$@"
    kept_hash=$(value "$answer" weights_hash) ratio=$used
    for more in '--fuse backward' '--fuse forward' '--fuse none --no-graph' \
        '--fuse backward --no-graph'; do
        [ -z "$wrong" ] || break
        enough 10 "$title $more" || return
        # shellcheck disable=SC2086 # several arguments
        with_plan "${log}_$(echo "$more" | tr -d ' -')" "$same_model" "$kept_hash" --budget floor+60% $more "$@"
    done
    if [ -n "$wrong" ]; then note "$title" FAILED "$wrong"; else
        note "$title" ok "same bits: 3 x fuse, plan, call by call; ${ratio:-no plan} of the arena used"
    fi
}

# Rates of copies to the host and back.
link_rates() {
    title="copies to the host and back"
    enough 30 "$title" || return
    if ours 60 "$build/memplan" profile link host --device "$device" > "$work/logs/link.txt" 2> "$work/logs/link.err"; then
        note "$title" ok "$(tail -n 1 "$work/logs/link.txt")"
    else
        note "$title" FAILED "$(reason "$work/logs/link.err")"
    fi
}
# Seconds per operator in bf16, in the logs: operator_times NET BATCH.
operator_times() {
    title="$1, time by operator" log=$work/logs/profile_$1.txt
    enough 20 "$title" || return
    path=$(model "$1") || { note "$title" "left out" "the model is not here"; return; }
    if ours 120 "$build/memplan" train "$path" --device "$device" --batch "$2" --dtype bf16 --budget 100% --steps 6 --no-before \
        --profile > "$log" 2>&1; then
        note "$title" ok "in the logs: profile_$1.txt"
    else
        note "$title" FAILED "$(reason "$log" 'memplan:')"
    fi
}
