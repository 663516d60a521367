#!/bin/sh
# check_plans.sh BUILD CHECK_PLAN.PY - do `memplan check` and the independent verifier agree? The tests of the checker and of the
# plan files write plans that hold and plans that were spoilt (with MEMPLAN_DUMP set); every one goes to both. Plans named
# `stricter-...` lie in properties that only memplan checks. Exit status 1 if a verdict is wrong.
build=$1 verifier=$2
[ $# = 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
[ -f "$verifier" ] || { echo "verify: no $verifier: a program of another hand that judges GRAPH PLAN (docs/internals/data.md)" >&2; exit 2; }
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
for test in test_check test_plan_json; do
    MEMPLAN_DUMP=$folder "$build/tests/$test" > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
done
wrong=0 n=0
kinds=$(cd "$folder" && ls | sed -n 's/\(spoilt-json-[0-9]*\).plan.json/\1/p; s/\(spoilt-[a-z_]*\)-.*plan.json/\1/p' | sort -u | wc -l)
for plan in "$folder"/*.plan.json; do
    graph=${plan%.plan.json}.graph.json name=$(basename "$plan" .plan.json)
    "$build/memplan" check "$graph" "$plan" --prove-bound > "$folder/ours" 2>&1
    case $? in 0) ours=holds ;; 1 | 2) ours=refused ;; *) ours=crashed ;; esac
    python3 "$verifier" "$graph" "$plan" > "$folder/theirs" 2>&1 && theirs=holds || theirs=refused
    case $name in
    holds-*) should="holds holds" ;;
    stricter-*) should="refused holds" ;;
    *) should="refused refused" ;;
    esac
    n=$((n + 1))
    [ "$ours $theirs" = "$should" ] && continue
    wrong=$((wrong + 1))
    echo "$name: memplan says $ours, the verifier $theirs"
    tail -n 3 "$folder/ours" "$folder/theirs"
done
echo "$n plans, $kinds kinds of corruption, $wrong verdicts wrong"
[ "$wrong" = 0 ] && [ "$n" -gt 100 ]
