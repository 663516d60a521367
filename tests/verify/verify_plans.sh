#!/bin/sh
# verify_plans.sh MEMPLAN DATA [BUDGET ...] - are the plans of every searcher accepted by the independent verifier? Every model and
# every published graph in DATA is planned by each searcher at each budget (default: 100%, floor+50%, 60%); each plan found goes to
# `memplan check` and to DATA/tools/check_plan.py. "No plan" is an answer. Exit status 1 if a plan is refused, or memplan fails.
memplan=$1 data=$2
[ $# -ge 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
shift 2
[ -f "$data/tools/check_plan.py" ] ||
    { echo "verify: no $data/tools/check_plan.py: a program of another hand that judges GRAPH PLAN (docs/internals/data.md)" >&2; exit 2; }
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
found=0 none=0 wrong=0
verify() { # FILE OPTION...: the file with the options it is read with, at each budget by each searcher
    file=$1
    shift
    case $file in
    *.json) graph=$file ;;
    *) graph=$folder/graph.json && "$memplan" graph "$file" "$@" -o "$graph" || { wrong=$((wrong + 1)) && return; } ;;
    esac
    for solver in $("$memplan" solvers | awk '{ print $1 }'); do
        for budget in $budgets; do
            rm -f "$folder/plan.json"
            "$memplan" plan "$file" "$@" --solver $solver --budget "$budget" -o "$folder/plan.json" > "$folder/report" 2>&1
            case $? in
            0) found=$((found + 1)) ;;
            1) none=$((none + 1)) && continue ;;
            2) grep -Eq 'no backward phase|is no chain|too large' "$folder/report" && continue ;; # this searcher does not apply
            esac
            "$memplan" check "$graph" "$folder/plan.json" > "$folder/ours" 2>&1 &&
                python3 "$data/tools/check_plan.py" "$graph" "$folder/plan.json" > "$folder/theirs" 2>&1 && continue
            wrong=$((wrong + 1))
            echo "$file $* $solver $budget:"
            tail -n 3 "$folder/report" "$folder/ours" "$folder/theirs"
        done
    done
}
budgets=${*:-100% floor+50% 60%}
for model in "$data"/models/*.onnx; do
    batch=$(awk -F, -v name="$(basename "$model" .onnx)" '$1 == name { print $2; exit }' "$data/truth/truth.csv")
    verify "$model" --batch "${batch:-2}"
done
for graph in "$data"/bench/graphs/*.json; do verify "$graph"; done
echo "$found plans found, $((found - wrong)) accepted; $none times no plan; $wrong wrong"
[ $wrong = 0 ] && [ $found -gt 0 ]
