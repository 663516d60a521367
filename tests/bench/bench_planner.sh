#!/bin/sh
# bench_planner.sh MEMPLAN [GRAPHS] - the lower-set searcher against the published programs of Kusumoto et al. 2019, on their own graphs
# (forward and backward functions with unit costs, parameters not counted). For each fraction of the keep-all peak: the least extra
# time, in % of one forward pass, that their programs reach (exact or approximate, time- or memory-centric, or their Chen; the
# executed operators of their schedules), then ours with lower-set and with auto. '-': no plan within the fraction.
#
# Why ours is lower almost everywhere: (1) the last segment is still there when backward begins, so it is not run again, while
# theirs runs it twice; (2) their backward calls are issued once per segment, and operators whose backward reads their own output
# are run again uncharged; here a node's backward runs once, and all that is run again is counted; (3) several topological orders
# and both sorts of objective are tried, and the timeline, not the memory model of the dynamic program, judges whether a schedule fits.
memplan=$1 graphs=${2:-${DATA:-DATA}/bench/graphs}
[ -e "$graphs/kusumoto_unet.json" ] ||
    { echo "bench: no graphs in $graphs: tests/bench/convert_graphs.py makes them from github.com/pfnet-research/recompute" >&2; exit 2; }
json=$(mktemp) && trap 'rm -f "$json"' EXIT
value() { sed -n "s/^ *\"$1\": *\([^,]*\),*$/\1/p" "$json"; }
plan() { # GRAPH FRACTION SOLVER FORWARD-SECONDS -> "overhead-in-%-of-forward seconds"
    "$memplan" plan "$1" --budget "$2%" --solver "$3" --json > "$json" || { printf -- '- %.2f\n' "$(value planning_seconds)"; return; }
    awk -v s="$(value seconds)" -v b="$(value baseline_seconds)" -v f="$4" -v t="$(value planning_seconds)" \
        'BEGIN { printf "%.1f %.2f\n", 100 * (s - b) / f, t }'
}
printf '%-10s %8s %10s %10s %10s   %s\n' graph budget published lower-set auto 'seconds to plan (lower-set, auto)'
while read -r name figures; do
    graph=$graphs/kusumoto_$name.json
    "$memplan" estimate "$graph" --json > "$json" || exit 1
    forward=$(value forward_seconds)
    fraction=100
    for published in $figures; do
        set -- $(plan "$graph" $fraction lower-set "$forward") $(plan "$graph" $fraction auto "$forward")
        printf '%-10s %7s%% %10s %10s %10s   %s, %s\n' "$name" "$fraction" "$published" "$1" "$3" "$2" "$4"
        fraction=$((fraction - 10))
    done
done <<'TABLE'
vgg19 30.0 89.0 89.5 - - - - -
unet 20.3 20.3 29.4 64.1 87.9 - - -
resnet50 11.5 11.5 11.5 17.9 17.9 22.4 45.3 91.1
densenet 10.1 10.1 11.0 11.8 14.6 18.3 21.4 35.3
TABLE
