#!/bin/sh
# coverage.sh BUILD - lines that the tests of a build with --coverage have run, per room and folder, and the files
# below 90 %. Exit status 1 if estimator, planner, formats, executor/cpu or the rest of executor is. GPU code is not counted.
build=$1
gcovr -r . -j "$(nproc)" --csv --gcov-ignore-parse-errors --exclude '.*/gen/.*' --exclude 'tests/.*' --exclude 'executor/cuda/.*' --exclude '.*_cuda[.].*' --exclude '.*[.]cuh' \
    "$build/cli" "$build/estimator" "$build/planner" "$build/formats" "$build/executor" > "$build/coverage.csv" || exit 2
awk -F, -v least=90 '
    function percent(name) { return 100 * run[name] / lines[name] }
    function count(name) { lines[name] += total; run[name] += $3 }
    NR == 1 || !$2 { next }
    {
        total = $2
        n = split($1, part, "/")
        room = part[1] != "executor" ? part[1] : part[2] == "cpu" || $1 ~ /_cpu[.]/ ? "executor/cpu" : "executor"
        count(room)
        count($1)
        if (n > 2 && room == part[1]) count(part[1] "/" part[2])
        if (n > 3 && room != part[1]) count(room "/" part[3])
    }
    END {
        for (name in lines) {
            file = name ~ /\.[a-z]+$/
            if (!file || percent(name) < least)
                printf "%d %s\t%5.1f %%  %6d lines, %5d not run  %s\n", file, name, percent(name), lines[name], lines[name] - run[name], name
        }
        n = split("estimator planner formats executor executor/cpu", rooms, " ")
        for (i = 1; i <= n; i++)
            if (percent(rooms[i]) < least) printf "2\tbelow %d %%: %s\n", least, rooms[i]
    }' "$build/coverage.csv" | LC_ALL=C sort | cut -f 2- > "$build/coverage.txt"
cat "$build/coverage.txt"
! grep -q '^below' "$build/coverage.txt"
