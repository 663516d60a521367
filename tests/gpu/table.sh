# shellcheck shell=sh disable=SC2154
# table.sh - read by run.sh, with $section and $limit set: the section's clock, its rows as text and as JSON, and its end.
started=$(date +%s) part_name='' part_end=0 n_passed=0 n_failed=0 n_left_out=0 n_rows=0
out=${OUT:-$results/$section}
work=$(mktemp -d) && mkdir -p "$out" "$work/logs" || exit 2
readonly out work section # a section that changed one of them would lose its rows
: > "$work/table"
: > "$out/$section.jsonl"
trap 'rm -rf "$work"' EXIT
trap 'note "the section" FAILED "stopped from outside"; finish; exit 1' TERM INT HUP

# The seconds that are left to the section, and to its part if the section has parts.
left() {
    now=$(date +%s)
    rest=$((limit - now + started)) part_rest=$((part_end - now))
    if [ "$part_end" != 0 ] && [ $part_rest -lt $rest ]; then echo $part_rest; else echo $rest; fi
}
# The processor seconds of all ended commands, rounded; on a busy machine they say more than the seconds of the clock.
processors() { awk 'NR == 2 { gsub("s", ""); for (i = 1; i <= 2; i++) { split($i, t, "m"); n += 60 * t[1] + t[2] } printf "%d", n }' "$work/times"; }
# Begins a part of the section with a time of its own; time that an earlier part did not need is not added: part NAME SECONDS.
part() {
    end_part
    part_name=$1 part_started=$(date +%s)
    times > "$work/times"
    part_processors=$(processors)
    part_end=$((part_started + $2))
    say "---- $1 ($2 s)"
}
end_part() {
    [ -n "$part_name" ] || return
    seconds=$(($(date +%s) - part_started))
    times > "$work/times"
    processor_seconds=$(($(processors) - part_processors))
    say "---- $part_name: $seconds s, $processor_seconds processor s"
    record part "$part_name" seconds $seconds processor_seconds $processor_seconds
    keep_logs
    part_name='' part_end=0
}
# True, and nothing is printed, if there are that many seconds; else the row says that it was left out: enough SECONDS LABEL.
enough() {
    [ "$(left)" -ge "$1" ] && return
    note "$2" "left out" "no time"
    return 1
}
# Runs a command for that many seconds at most, and no longer than the section and its part have.
within() { # SECONDS COMMAND...
    seconds=$1
    [ "$(left)" -ge "$seconds" ] || seconds=$(left)
    shift
    [ "$seconds" -gt 0 ] || return 124
    timeout -k 5 "$seconds" "$@"
}

quoted() { printf '%s' "$1" | tr '\n\t\r' '   ' | sed 's/\\/\\\\/g; s/"/\\"/g'; }
# A line of JSON: record KEY VALUE KEY VALUE...
record() {
    line='' comma=''
    while [ $# -gt 1 ]; do
        if printf '%s' "$2" | grep -Eqx -e '-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?'; then
            line="$line$comma\"$1\": $2"
        else
            line="$line$comma\"$1\": \"$(quoted "$2")\""
        fi
        comma=', '
        shift 2
    done
    printf '{%s}\n' "$line" >> "$out/$section.jsonl"
}

# A row of a check: note LABEL VERDICT TEXT. VERDICT: ok, FAILED, "left out" (no time, or not here).
note() {
    case $2 in
    ok) n_passed=$((n_passed + 1)) ;;
    FAILED) n_failed=$((n_failed + 1)) ;;
    *) n_left_out=$((n_left_out + 1)) ;;
    esac
    printf '%-44s %-8s  %s\n' "$1" "$2" "$3" | tee -a "$work/table"
    record check "$1" verdict "$2" text "$3"
}
# A row of a measurement: row NET BATCH PRECISION WHO SECONDS BYTES HELD.
row() {
    n_rows=$((n_rows + 1))
    awk -v net="$1" -v batch="$2" -v precision="$3" -v who="$4" -v seconds="$5" -v bytes="$6" -v held="$7" 'BEGIN {
        printf "%-13s %5s %5s  %-22s %9.2f ms %9.3f GiB %9.3f GiB\n", net, batch, precision, who, 1000 * seconds, bytes / 2^30, held / 2^30
    }' | tee -a "$work/table"
    record net "$1" batch "$2" precision "$3" who "$4" step_seconds "$5" bytes "$6" held_bytes "$7"
}
# The row of a measurement that did not succeed: no_row NET BATCH PRECISION WHO VERDICT TEXT.
no_row() {
    note "$(printf '%-13s %5s %5s  %-22s' "$1" "$2" "$3" "$4")" "$5" "$6"
}
# A line of the table that is neither.
say() { printf '%s\n' "$*" | tee -a "$work/table"; }

# A number in a JSON answer, the last of that name: value FILE KEY.
value() { sed -n "s/^ *\"$2\": *\"*\([^,\"]*\)\"*,*$/\1/p" "$1" | tail -n 1; }
# The first line of a file, short enough for a table: reason FILE [PATTERN].
reason() { grep -m 1 -E "${2:-.}" "$1" | tr '\t' ' ' | cut -c 1-110; }

# Writes the logs so far: a section that is killed leaves those of its parts.
keep_logs() { tar -C "$work/logs" -czf "$out/$section.logs.tar.gz" .; }
finish() {
    trap - TERM INT HUP
    end_part
    seconds=$(($(date +%s) - started))
    {
        echo
        echo "==== $section: $machine"
        cat "$work/table"
        printf '%d passed, %d failed, %d left out, %d measured; %d of %d s\n' $n_passed $n_failed $n_left_out $n_rows $seconds "$limit"
    } > "$work/logs/$section.txt"
    record section "$section" machine "$machine" passed $n_passed failed $n_failed left_out $n_left_out measured $n_rows seconds $seconds
    keep_logs || n_failed=$((n_failed + 1))
    cat "$work/logs/$section.txt"
    echo "raw results: $out/$section.jsonl, $section.logs.tar.gz"
    [ $n_failed = 0 ] || exit 1
    [ -z "$no_gpu" ] || exit 77
    exit 0
}
