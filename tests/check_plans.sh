#!/bin/sh
# check_plans.sh MEMPLAN TEST_CHECK CHECK_PLAN.PY - do `memplan check` and the independent verifier agree? Writes plans that hold
# and plans that were spoilt (test_check does, with MEMPLAN_DUMP set) and gives every one to both. Plans named `stricter-...` lie
# in a claim that only memplan looks at. Exit status 1 if a verdict is not what it should be.
memplan=$1 test_check=$2 verifier=$3
[ $# = 3 ] || { sed -n 2,4p "$0" >&2; exit 2; }
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
MEMPLAN_DUMP=$folder "$test_check" > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
wrong=0 n=0 kinds=$(cd "$folder" && ls | sed -n 's/\(spoilt-[a-z_]*\)-.*plan.json/\1/p' | sort -u | wc -l)
for plan in "$folder"/*.plan.json; do
    graph=${plan%.plan.json}.graph.json name=$(basename "$plan" .plan.json)
    "$memplan" check "$graph" "$plan" > "$folder/ours" 2>&1 && ours=holds || ours=refused
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
