# shellcheck shell=sh disable=SC2154
# rows.sh - read by run.sh: rows that are measurements. Times are medians of a step without the making of its inputs. The first bytes are the
# most requested ones (memplan: always live + arena; PyTorch: max_memory_allocated). Behind them are the bytes of the process on the card,
# or those that the caching allocator has reserved; on the CPU both are the process's peak.
if [ -n "$rehearsed" ]; then bench_steps=2; else bench_steps=12; fi

# Steps of memplan: ours_row NET BATCH PRECISION WHO ARGUMENT...; sets $answer.
ours_row() {
    net=$1 batch=$2 precision=$3 who=$4
    shift 4
    case $precision in tf32) set -- "$@" --tf32 ;; bf16) set -- "$@" --dtype bf16 ;; esac
    if ! path=$(model "$net"); then no_row "$net" "$batch" "$precision" "$who" "left out" "the model is not here"; return 1; fi
    [ "$(left)" -ge 15 ] || { no_row "$net" "$batch" "$precision" "$who" "left out" "no time"; return 1; }
    if train "${net}_${batch}_${precision}_$(echo "$who" | tr -c 'a-zA-Z0-9\n' '_')" "$path" --batch "$batch" --steps $bench_steps --no-before "$@"; then
        if [ "$device" = cpu ]; then
            bytes=$(value "$answer" process_bytes) held=$bytes
        else
            bytes=$(($(value "$answer" static_bytes) + $(value "$answer" arena_bytes))) held=$(value "$answer" bytes)
        fi
        seconds_a_step=$(awk "BEGIN { print $(value "$answer" step_seconds) - $(value "$answer" input_seconds) }")
        row "$net" "$batch" "$precision" "$who" "$seconds_a_step" "$bytes" "${held:-0}"
        attention=$(attention_in "$answer")
        [ -z "$attention" ] || say "$(printf '%-13s %5s %5s  %s' "$net" "$batch" "$precision" "$who$attention")"
    else
        status=$? why=$(reason "$said")
        [ $status != 124 ] || why="not done in time"
        no_row "$net" "$batch" "$precision" "$who" FAILED "$why"
        return 1
    fi
}

# Steps of PyTorch: torch_row SECONDS NET BATCH PRECISION WHO ARGUMENT...; sets $answer.
torch_row() {
    patience=$1 net=$2 batch=$3 precision=$4 who=$5
    shift 5
    [ -n "$torch_is" ] || { no_row "$net" "$batch" "$precision" "$who" "left out" "no PyTorch: $torch_why"; return 1; }
    [ "$(left)" -ge 15 ] || { no_row "$net" "$batch" "$precision" "$who" "left out" "no time"; return 1; }
    answer=$work/logs/${net}_${batch}_${precision}_$(echo "$who" | tr -c 'a-zA-Z0-9\n' '_').json said=${answer%.json}.txt
    # a cache of its own: a row that runs out of time leaves a half-written file, which would fail the next row
    if within "$patience" env TORCHINDUCTOR_CACHE_DIR="$work/compiled/$(basename "$answer" .json)" \
        "$python" tests/bench/bench_torch.py "$net" "$batch" --steps $bench_steps --device "$device" --precision "$precision" "$@" \
        > "$answer" 2> "$said" < /dev/null; then
        seconds_a_step=$(value "$answer" step_seconds) bytes=$(value "$answer" bytes)
        row "$net" "$batch" "$precision" "$who" "$seconds_a_step" "$bytes" "$(value "$answer" held_bytes)"
    else
        status=$? why=$(grep . "$said" | tail -n 1 | cut -c 1-110)
        [ $status != 124 ] || why="not done within $patience s"
        no_row "$net" "$batch" "$precision" "$who" FAILED "$why"
        return 1
    fi
}

# Differences between the rows of different programs.
differences() {
    say "memplan: deterministic algorithms, the first that the libraries' heuristics name, unless a row says otherwise; one captured"
    say "graph a step. PyTorch: cudnn.benchmark tries algorithms, which may differ from run to run; 'deterministic' is without both."
    say "BERT has its padding mask on both sides but for 'no mask'; PyTorch is told that GPT-2's mask is causal, memplan sees it stored."
    say "Weights, gradients and moments are fp32 on both sides; bf16 is autocast there and bf16 activations here."
}
