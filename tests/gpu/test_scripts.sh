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
for section in first smoke kernels training algorithms sanitizer ranks bench-ours bench-eager bench-compile memory; do
    holds "there is no GPU: $section" there_is_no_gpu $section
done
for what in a_failure_is_the_exit_status text_is_quoted a_command_ends_with_the_section libraries_of_the_machine_stay_out; do holds $what $what; done
if [ -e "$build/memplan_cuda.so" ]; then holds own_kernels_are_looked_at own_kernels_are_looked_at; fi

echo "[  PASSED  ] $passed test(s)."
[ $failed = 0 ] || echo "[  FAILED  ] $failed test(s), listed above:"
[ $failed = 0 ]
