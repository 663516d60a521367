#!/bin/sh
# bench_arena.sh MEMPLAN [MODELS] [BUDGET ...] - how tight the offsets of plans are: each model, with the batch that MODELS/../truth
# has for it (2 if none), is planned by auto at each budget (default: floor+70%, floor+50%, floor+30%), and the plan's steps are
# packed. One line each: arena and live peak (both without static memory) in bytes, the gap between them in %, the seconds that
# `memplan pack` took (reading the model included), and the proved lower bound. ONLY: a pattern of model names. MOVES: of the search (400).
# PLANS: a folder where plans stay, and are taken from if they are there. CHECKER: a program that judges GRAPH PLAN beside ours.
memplan=$1 models=${2:-${DATA:-DATA}/models}
[ $# -ge 1 ] || { sed -n 2,6p "$0" >&2; exit 2; }
[ -d "$models" ] || { echo "bench: no models in $models: tests/bench/export_models.py exports them from PyTorch (docs/internals/data.md)" >&2; exit 2; }
shift $(($# > 1 ? 2 : 1))
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
json=$folder/json plans=${PLANS:-$folder} wrong=0
value() { sed -n "s/^ *\"$1\": *\([^,]*\),*$/\1/p" "$json"; }
claim() { sed -n "s/^ *\"$1\": *\([0-9]*\),*$/\1/p" "$folder/packed.json"; }
fault() { # TEXT FILE
    wrong=$((wrong + 1))
    echo "$1:" && tail -n 3 "$2"
}
: > "$folder/rows"
printf '%-20s %-10s %15s %15s %8s %8s  %s\n' model budget arena live 'gap %' seconds proof
for model in "$models"/${ONLY:-*}.onnx; do
    name=$(basename "$model" .onnx)
    batch=$(awk -F, -v name="$name" '$1 == name { print $2; exit }' "$models/../truth/truth.csv" 2> /dev/null)
    if [ -n "$CHECKER" ]; then
        "$memplan" graph "$model" --batch "${batch:-2}" -o "$folder/graph.json" 2> "$folder/says" || fault "$name" "$folder/says"
    fi
    for budget in ${*:-floor+70% floor+50% floor+30%}; do
        plan=$plans/$name.$budget.json
        [ -f "$plan" ] || "$memplan" plan "$model" --batch "${batch:-2}" --budget "$budget" --moves "${MOVES:-400}" --json \
            -o "$plan" > "$json" 2> /dev/null
        [ -f "$plan" ] || { printf '%-20s %-10s no plan\n' "$name" "$budget" && continue; }
        from=$(date +%s.%N)
        "$memplan" pack "$model" "$plan" --json -o "$folder/packed.json" > "$json" 2> "$folder/says" ||
            { fault "$name $budget" "$folder/says" && continue; }
        to=$(date +%s.%N)
        [ -z "$CHECKER" ] || "$CHECKER" "$folder/graph.json" "$folder/packed.json" > "$folder/says" 2>&1 ||
            fault "$name $budget" "$folder/says"
        echo "$name $budget $(value height) $(claim peak_bytes) $(claim static_bytes) $(value lower_bound) $from $to" | awk '{
            live = $4 - $5
            proof = $3 == live ? "lowest: the live peak" : $3 == $6 ? "lowest: proved by the search" : sprintf("%.0f or more", $6)
            printf "%-20s %-10s %15.0f %15.0f %8.3f %8.2f  %s\n", $1, $2, $3, live, 100 * ($3 / live - 1), $8 - $7, proof
        }' | tee -a "$folder/rows"
    done
done
awk -v wrong="$wrong" '
    { equal += $3 == $4; tight += $5 <= 0.5; slow += $6 >= 1; if ($5 > worst) worst = $5 }
    END { printf "%d plans: %d equal to the live peak, %d within 0.5 %%, worst %.3f %%; %d took a second or more; %d wrong\n", NR,
              equal, tight, worst, slow, wrong }' "$folder/rows"
[ "$wrong" = 0 ] && [ -s "$folder/rows" ]
