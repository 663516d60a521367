#!/bin/sh
# coverage.sh BUILD - lines that the tests of a build with --coverage have run, of each room and of its folders.
gcovr -r . "$1" --csv --exclude 'tests/.*' --exclude 'examples/.*' --exclude '.*/gen/.*' --gcov-ignore-parse-errors 2> /dev/null | awk -F, '
    NR > 1 {
        split($1, part, "/")
        room = part[1]
        folder = part[1] "/" part[2]
        lines[room] += $2; run[room] += $3
        lines[folder] += $2; run[folder] += $3
    }
    END { for (k in lines) if (lines[k]) printf "%5.1f %%  %6d lines  %s\n", 100 * run[k] / lines[k], lines[k], k }' | sort -k4
