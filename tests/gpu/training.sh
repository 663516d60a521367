# shellcheck shell=sh disable=SC2154
# training.sh - the section of whole trainings: losses of the CPU, the same bits whatever the plan, and no room.

# ---- the CPU's losses: 1e-4 in fp32, 2e-2 in bf16
for precision in fp32 bf16; do
    [ $precision = fp32 ] && most=1e-4 || most=2e-2
    for net in mlp cnn unet bert gpt; do
        title="$net $precision: losses off the CPU's by"
        enough 5 "$title" || continue
        if train "loss_${net}_$precision" "tests/gradients/$net.onnx" --dtype $precision --budget 100% --steps 4 --no-before; then
            theirs=$work/logs/loss_${net}_${precision}_cpu.json
            ours 60 "$build/memplan" train "tests/gradients/$net.onnx" --device cpu --dtype $precision --steps 4 --no-before --json --budget 100% \
                > "$theirs" 2> "$said"
            off=$(losses_off "$answer" "$theirs")
            if awk "BEGIN { exit !($off <= $most) }"; then note "$title" ok "$off"; else note "$title" FAILED "$off"; fi
        else
            note "$title" FAILED "$(reason "$said")"
        fi
    done
done

# ---- the same bits
for net in mlp cnn unet bert gpt; do same_bits "tests/gradients/$net.onnx"; done
same_bits tests/gradients/bert.onnx --dtype bf16
same_bits tests/gradients/cnn.onnx --accumulate 3
if [ -z "$rehearsed" ]; then
    ! path=$(model mobilenet_v2) || same_bits "$path" --batch 8
    ! path=$(model resnet50) || same_bits "$path" --batch 8 --dtype bf16
    ! path=$(model gpt2_small) || same_bits "$path" --batch 1 --dtype bf16
    ! path=$(model mobilenet_v2) || copied_bits "$path" --batch 8
    ! path=$(model gpt2_small) || copied_bits "$path" --batch 1 --dtype bf16
fi

link_rates

# ---- no room: a sentence, exit status 1, and the save is unchanged
title="out of memory"
if [ "$device" = cpu ]; then note "$title" "left out" "on a GPU only"; elif enough 30 "$title" && path=$(model resnet50); then
    train saved tests/gradients/mlp.onnx --budget 100% --steps 1 --no-before --save "$work/kept.st"
    cp "$work/kept.st" "$work/before.st" 2> /dev/null
    train full "$path" --batch 100000 --budget 100% --steps 1 --no-before --save "$work/kept.st"
    status=$?
    if [ $status = 1 ] && grep -q 'there is no memory for' "$said" && cmp -s "$work/kept.st" "$work/before.st"; then
        note "$title" ok "$(reason "$said")"
    else
        note "$title" FAILED "status $status, $(reason "$said")"
    fi
fi
