#!/bin/sh
# check_all.sh BUILD [NAME...] - all checks that take too long for make test, or the named ones: a line each with its result
# and time, and the end of its log where it failed. Nothing ends the others; exit status 1 if any failed. SECONDS of fuzzing: 30.
build=$1
shift
logs=$build/check-all
mkdir -p "$logs" || exit 2
failed=0 jobs=-j$(nproc)
each() { # NAME COMMAND...
    name=$1
    shift
    case " ${only:-$name} " in *" $name "*) ;; *) return ;; esac
    start=$(date +%s)
    if "$@" > "$logs/$name.log" 2>&1; then result=passed; else result="FAILED, see $logs/$name.log" failed=1; fi
    echo "$name: $result, $(($(date +%s) - start)) s"
    [ "$result" = passed ] || tail -n 15 "$logs/$name.log" | sed 's/^/    /'
}
only=$*
each architectures make "$jobs" install DESTDIR="$PWD/$logs/installed"
each suite env MEMPLAN_ORACLE_GRAPHS=300 make "$jobs" test
each sanitizers-gcc make "$jobs" SAN=1 CUDA=0 test
each sanitizers-clang make "$jobs" CC=clang SAN=1 CUDA=0 test
each threads make "$jobs" threads
each valgrind make "$jobs" valgrind
each analyse make "$jobs" analyse
each faults env FAULTS=all PARTS="inputs faults" tests/cli.sh "$build"
each kills env -C "$build/tests/cli-work" "$PWD/tests/cli/kills.py" "$(realpath "$build")/memplan" 50
each rank-copies sh -c "make $jobs SAN=1 CUDA=0 build/san/memplan build/san/memplan_mpi.so &&
    python3 -B tests/cli/ranks/copied_ranks.py build/san/memplan all $logs/rank-copies.md"
each rank-interrupts env -C "$build/tests/cli-work" python3 -B "$PWD/tests/cli/ranks/interrupts.py" "$(realpath "$build")/memplan" 40
each fuzz make "$jobs" SECONDS="${SECONDS:-30}" fuzz
exit $failed
