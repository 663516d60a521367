# shellcheck shell=sh disable=SC2154
# algorithms.sh - the section of the algorithms of convolutions: measured, planned with, and the bits of everything kept with the same
# ones; and the effect of --fast.
algorithms() { # NET BATCH ARGUMENT...
    net=$1 batch=$2
    shift 2
    title="$net${*:+ $*}"
    if ! path=$(model "$net"); then note "$title" "left out" "the model is not here"; return; fi
    enough 30 "$title" || return
    costs=$work/logs/costs_$net.json log=$work/logs/profile_$net.txt
    if ! ours 150 "$build/memplan" profile "$path" --device "$device" --batch "$batch" --steps 3 -o "$costs" "$@" > "$log" 2>&1; then
        note "$title" FAILED "$(reason "$log" 'memplan:')"
        return
    fi
    note "$title: measured" ok "$(reason "$log" 'nodes can be computed')"
    for budget in 100% floor+50%; do
        enough 15 "$title, $budget" || return
        # shellcheck disable=SC2086 # several arguments
        if ! train "chosen_${net}_$budget" "$path" --batch "$batch" --steps 4 $brief --costs "$costs" --budget $budget "$@"; then
            note "$title, $budget" FAILED "$(reason "$said")"
        elif grep -q '"identical": true' "$answer"; then
            note "$title, $budget" ok "same bits, $(awk "BEGIN { printf \"%.2f ms\", 1000 * $(value "$answer" step_seconds) }") a step"
        else
            note "$title, $budget" FAILED "not the bits of everything kept"
        fi
    done
}
if [ -n "$rehearsed" ]; then
    algorithms cnn 4
else
    algorithms resnet18 8 --tf32
    algorithms mobilenet_v2 8 --tf32
    algorithms resnet50 32 --dtype bf16
    algorithms resnet50 32 --dtype bf16 --fast
    algorithms unet 4 --dtype bf16
fi
