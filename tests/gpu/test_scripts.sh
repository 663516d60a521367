#!/bin/sh
# test_scripts.sh BUILD - tests of tests/gpu that need no GPU, in seconds: usage, that every section says that there is none,
# rows as JSON and as exit statuses, which libraries the pack leaves out, and which kernels compute-sanitizer is to look at.
cd "$(dirname "$0")/../.." || exit 2
build=$(realpath "$1")
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
passed=0 failed=0
# A command that judges: holds WHAT COMMAND...
holds() {
    what=$1
    shift
    if "$@" > "$work/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED: $what" && cat "$work/log"; fi
}
# The sections, as on a machine without a GPU, with a Python that has nothing.
run() { env CUDA_VISIBLE_DEVICES='' PYTHON=false BUILD="$build" OUT="$work/out" tests/gpu/run.sh "$@"; }

exits() { # STATUS COMMAND...
    wanted=$1
    shift
    "$@" > "$work/said" 2>&1
    status=$?
    [ $status = "$wanted" ] || { echo "exit status $status, not $wanted:" && cat "$work/said" && return 1; }
}
help_is_asked_for() { exits 0 run -h && grep -q '^usage: run' "$work/said"; }
nothing_is_asked_for() { exits 2 run && grep -q '^usage: run' "$work/said"; }
a_section_is_misspelt() { exits 2 run smoke kernel && grep -q "no section 'kernel'" "$work/said" && [ ! -e "$work/out" ]; }
a_time_is_no_number() { exits 2 run -t 5m smoke && grep -q "not '5m'" "$work/said"; }

there_is_no_gpu() { # SECTION
    exits 77 run "$1" && grep -q "^==== $1: " "$work/said" && grep -q 'left out  no NVIDIA GPU: ' "$work/said" &&
        grep -q '"verdict": "left out"' "$work/out/$1.jsonl" && grep -q "\"section\": \"$1\"" "$work/out/$1.jsonl" &&
        tar -tzf "$work/out/$1.logs.tar.gz" "./$1.txt"
}

# A section of one's own: rows COMMAND writes $work/out/own.jsonl, and its exit status is the section's.
rows() {
    sh -c 'section=own limit=60 machine=here OUT=$1 results=; . tests/gpu/table.sh; eval "$2"; finish' own "$work/out" "$1"
}
a_failure_is_the_exit_status() { exits 1 rows 'note one ok fine; note two FAILED "not fine"' && grep -q '1 passed, 1 failed' "$work/said"; }
text_is_quoted() {
    exits 0 rows 'note "a \"b\" \\ c" ok "tab	and number 12"; row net 8 bf16 "who else" 0.0125 1073741824 2147483648' &&
        grep -qx '{"check": "a \\"b\\" \\\\ c", "verdict": "ok", "text": "tab and number 12"}' "$work/out/own.jsonl" &&
        grep -q '"batch": 8, .*"who": "who else", "step_seconds": 0.0125, "bytes": 1073741824' "$work/out/own.jsonl" &&
        grep -q 'who else  *12.50 ms  *1.000 GiB  *2.000 GiB' "$work/said"
}
a_command_ends_with_the_section() {
    exits 0 rows 'limit=1; within 60 sleep 30; [ $? = 124 ] && ! enough 5 later' && grep -q 'later  *left out  no time' "$work/said"
}

a_part_that_fails_does_not_stop_the_next() {
    exits 1 rows 'part one 1; within 60 sleep 30; note early FAILED "status $?"; part two 40; within 40 sleep 0; note later ok "status $?"' &&
        grep -q 'early  *FAILED  *status 124' "$work/said" && grep -q 'later  *ok  *status 0' "$work/said" &&
        grep -q '{"part": "two", "seconds": [0-9]*, "processor_seconds": 0}' "$work/out/own.jsonl"
}
rows_and_logs_of_a_killed_section_are_there() {
    # shellcheck disable=SC2016 # the section's own shell expands it
    exits 137 rows 'part one 5; echo said > "$work/logs/early.txt"; note early ok fine; part two 5; kill -9 $$' &&
        grep -q '"check": "early"' "$work/out/own.jsonl" && tar -tzf "$work/out/own.logs.tar.gz" ./early.txt
}
test_programs_run_beside_each_other() {
    mkdir -p "$work/build/tests" && for name in good bad; do
        printf '#!/bin/sh\necho "[  PASSED  ] 2 test(s)."; [ %s = good ]\n' $name > "$work/build/tests/test_$name"
        chmod +x "$work/build/tests/test_$name"
    done
    exits 1 rows 'rehearsed= build='"$work/build"'; . tests/gpu/checks.sh; ours() { shift; "$@"; }; run_tests good bad absent' &&
        grep -q 'test_good  *ok  *2 passed' "$work/said" && grep -q 'test_bad  *FAILED' "$work/said" && grep -q 'test_absent  *left out' "$work/said"
}
# A section's file with everything but its parts left out: parts SECTION prints their seconds.
parts() {
    sh -c 'section=$1 limit=0 rehearsed= OUT=$2 machine=here device=cuda build=none work=$2 torch_is= torch_why=none; . tests/gpu/table.sh
        libraries_row() { :; }; ours() { return 1; }; model() { return 1; }; part() { echo "seconds $2"; }
        . tests/gpu/checks.sh; . tests/gpu/rows.sh; . "tests/gpu/$1.sh"' parts "$1" "$work/out" 2> /dev/null | sed -n 's/^seconds //p'
}
both_halves_fit_thirteen_minutes() {
    parts first > "$work/first" && parts second > "$work/second" && cat "$work/first" "$work/second" &&
        awk '{ n += $1 } END { exit !(NR == 8 && n + 2 * 20 <= 13 * 60) }' "$work/first" "$work/second" &&
        awk '{ n += $1 } END { exit n + 20 > 480 }' "$work/first" && awk '{ n += $1 } END { exit n + 20 > 480 }' "$work/second"
}
# A line of choices.sh is a row of steps, beside those without the choice.
a_choice_is_a_row() {
    mkdir -p "$work/build/tests"
    # shellcheck disable=SC2016 # a program's arguments
    printf '#!/bin/sh\necho "defaults 20.00 ms $2 $3"; echo "Conv forward: algorithm 2 19.00 ms"\n' > "$work/build/tests/bench_choices"
    chmod +x "$work/build/tests/bench_choices"
    # shellcheck disable=SC2016
    exits 0 rows 'rehearsed= stretch=1 bench_steps=3 device=cuda nets="net 8" first=bf16 switches=; . tests/gpu/choices.sh
        inner="net 1 bf16"; build=$OUT/../build; ours() { shift; "$@"; }; model() { echo "$1"; }
        ours_row() { seconds_a_step=0.02; case "$switches $*" in "A=1 "*--fast*) seconds_a_step=0.03 ;; esac; row "$1" "$2" "$3" "$4" $seconds_a_step 0 0; }
        choices="one|net|A=1|--fast
two|net||"; choice_rows; echo "stretch $stretch"' && grep -qx 'stretch 1' "$work/said" && grep -q 'net, one: +50.0 % time' "$work/said" && grep -q 'net, two: +0.0 % time' "$work/said" &&
        grep -q 'net bf16: defaults 20.00 ms 8 bf16' "$work/said" && grep -q '"choice": "Conv forward: algorithm 2 19.00 ms"' "$work/out/own.jsonl" &&
        [ "$(grep -c '"who": "memplan"' "$work/out/own.jsonl")" = 1 ] && grep -q '"choice": "one", "percent_more_time": "+50.0"' "$work/out/own.jsonl"
}
no_pytorch_leaves_the_package_out() {
    exits 0 rows 'device=cuda build=none torch_why="no torch"; . tests/gpu/package.sh; package_features 5; package_table 5' &&
        [ "$(grep -c '"verdict": "left out"' "$work/out/own.jsonl")" = 2 ]
}

# Every library that a program asks for is carried, or one that the machine has to have; those are never carried.
libraries_of_the_machine_stay_out() {
    tests/gpu/pack.sh -l "$build" > "$work/libraries" && grep -q '/libdnnl\.so' "$work/libraries" && grep -q '/libigraph\.so' "$work/libraries" &&
        ! grep -E '/(libc|libm|libstdc\+\+|libgcc_s|libz|libexpat|libcuda|libcudnn|libcublasLt|ld-linux-x86-64)\.so' "$work/libraries"
}
# compute-sanitizer's filter (sanitizer.sh) names all own kernels; the empty one only asks whether there is code for the device.
own_kernels_are_looked_at() {
    filter=$(sed -n "s/^filter='--kernel-name regex=\(.*\)'/\1/p" tests/gpu/sanitizer.sh)
    nm "$build/memplan_cuda.so" | grep -o '__device_stub__[A-Za-z0-9_]*' > "$work/kernels"
    [ -n "$filter" ] && grep -Eq "$filter" "$work/kernels" && ! grep -Ev "$filter|Z7nothingvv" "$work/kernels"
}

for what in help_is_asked_for nothing_is_asked_for a_section_is_misspelt a_time_is_no_number; do holds $what $what; done
for section in first second smoke kernels training algorithms sanitizer ranks bench-ours bench-eager bench-compile memory; do
    holds "there is no GPU: $section" there_is_no_gpu $section
done
for what in a_failure_is_the_exit_status text_is_quoted a_command_ends_with_the_section a_part_that_fails_does_not_stop_the_next \
    rows_and_logs_of_a_killed_section_are_there test_programs_run_beside_each_other both_halves_fit_thirteen_minutes a_choice_is_a_row \
    no_pytorch_leaves_the_package_out libraries_of_the_machine_stay_out; do holds $what $what; done
if [ -e "$build/memplan_cuda.so" ]; then holds own_kernels_are_looked_at own_kernels_are_looked_at; fi

echo "[  PASSED  ] $passed test(s)."
[ $failed = 0 ] || echo "[  FAILED  ] $failed test(s), listed above:"
[ $failed = 0 ]
