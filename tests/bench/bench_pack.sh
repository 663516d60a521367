#!/bin/sh
# bench_pack.sh MEMPLAN [FOLDER] [--minimize] - the packer on a folder of instances in MiniMalloc's format, whose names end in
# .CAPACITY.csv, as those that were published with it (Moffitt 2023; DATA/bench/minimalloc): one line per instance. Every placement
# has been verified before it is written. TIME_LIMIT: seconds per instance (60).
memplan=$1 folder=${2:-${DATA:-DATA}/bench/minimalloc} minimize=$3
[ -d "$folder" ] || { echo "bench: no instances in $folder: copy those of github.com/google/minimalloc (docs/internals/data.md)" >&2; exit 2; }
json=$(mktemp) && trap 'rm -f "$json"' EXIT
value() { sed -n "s/^ *\"$1\": *\([^,]*\),*$/\1/p" "$json"; }
printf '%-12s %8s %10s %10s %10s %10s %8s\n' instance buffers capacity height bound nodes seconds
failed=0
for csv in "$folder"/*.csv; do
    name=$(basename "$csv" .csv)
    capacity=${name##*.}
    from=$(date +%s.%N)
    "$memplan" pack "$csv" --capacity "$capacity" $minimize --time-limit "${TIME_LIMIT:-60}" --json > "$json" 2> /dev/null || failed=1
    printf '%-12s %8s %10s %10s %10s %10s %8.2f\n' "${name%.*}" "$(($(wc -l < "$csv") - 1))" "$capacity" "$(value height)" \
        "$(value lower_bound)" "$(value nodes)" "$(echo "$(date +%s.%N) $from" | awk '{ print $1 - $2 }')"
done
exit $failed
