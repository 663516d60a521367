# shellcheck shell=sh disable=SC2154
# memory.sh - the section of bytes: planned and measured; the largest batch in 16 GB; steps at the peak of PyTorch's own recomputation.
if [ -n "$rehearsed" ]; then
    room=300MB room_bytes=1500000000 fit_net=mobilenet_v2 equal='mobilenet_v2 4' measured='mobilenet_v2 4 fp32' precision=fp32
else
    room=16GB room_bytes=16000000000 fit_net=resnet50 precision=bf16
    equal='resnet50 128
bert_base 32
gpt2_small 8'
    measured='mobilenet_v2 32 fp32
resnet50 32 bf16
bert_base 8 bf16
gpt2_small 4 bf16'
fi

# ---- at an equal peak: PyTorch with checkpoints, and a plan within the bytes that it took
at_equal_peak() { # NET BATCH
    torch_row 60 "$1" "$2" $precision "PyTorch checkpoint" --how checkpoint || return
    theirs=$seconds_a_step their_bytes=$bytes
    ours_row "$1" "$2" $precision "memplan, equal" --budget "$their_bytes" --time-limit 15 || return
    faster=$(awk "BEGIN { printf \"%.1f\", 100 * (1 - $seconds_a_step / $theirs) }")
    say "$1: at the peak of PyTorch's checkpoints, memplan takes $faster % less time"
    record net "$1" equal_bytes "$their_bytes" percent_less_time "$faster"
}
while read -r net batch; do at_equal_peak "$net" "$batch"; done << END
$equal
END

# ---- planned = measured
as_planned() { # NET BATCH PRECISION BUDGET
    title="$1 $2 $3, $4: measured of planned"
    path=$(model "$1") || { note "$title" "left out" "the model is not here"; return; }
    enough 20 "$title" || return
    # shellcheck disable=SC2086 # several arguments
    train "planned_$1_$4" "$path" --batch "$2" --dtype "$3" --budget "$4" --steps 3 --no-before $brief || {
        note "$title" FAILED "$(reason "$said")"
        return
    }
    planned=$(value "$answer" arena_bytes) used=$(value "$answer" measured_arena_bytes)
    text="$used of $planned bytes of the arena ($(awk "BEGIN { printf \"%.3f\", $used / $planned }")), static $(value "$answer" static_bytes)"
    [ "$device" = cpu ] || text="$text; the process holds $(value "$answer" bytes)"
    if [ "$used" -le "$planned" ]; then note "$title" ok "$text"; else note "$title" FAILED "$text"; fi
}
while read -r net batch dtype; do
    for budget in 100% 70%; do as_planned "$net" "$batch" "$dtype" $budget; done
done << END
$measured
END

# ---- the largest batch
title="the largest batch in $room, $fit_net fp32"
if enough 60 "$title" && path=$(model $fit_net); then
    if ours 150 "$build/memplan" fit "$path" --device "$device" --rules executor --memory $room --overhead 20% --moves 100 --json > "$work/logs/fit.json" 2> "$work/logs/fit.txt"; then
        keep=$(value "$work/logs/fit.json" batch_keep_all) with=$(value "$work/logs/fit.json" batch_recompute)
        note "$title" ok "memplan: $keep with everything kept, $with with 20 % of recomputation"
        [ "$with" -gt 0 ] && ours_row $fit_net "$with" fp32 "memplan $room" --budget $room --time-limit 15
    else
        why=$(reason "$work/logs/fit.txt")
        note "$title" FAILED "${why:-fit: not done in time}"
    fi
    for how in eager checkpoint; do
        torch_row 120 $fit_net "${keep:-8}" fp32 "PyTorch $how" --how $how --largest "$room_bytes" &&
            say "PyTorch $how: the largest batch in $room is $(value "$answer" largest_batch)" &&
            record net $fit_net who "PyTorch $how" largest_batch "$(value "$answer" largest_batch)"
    done
fi
