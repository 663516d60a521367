#!/bin/sh
# run.sh [-r] [-t SECONDS] SECTION... - the checks that need a GPU, section by section. Each has SECONDS (480) of its own, says what it
# had no time for, and ends with a table. With -r it is rehearsed: small, and on the CPU.
root=$(dirname "$(realpath "$0")")
case $root in */tests/gpu) root=${root%/tests/gpu} ;; esac

usage() {
    cat << 'END'
usage: run [-r] [-t SECONDS] SECTION...

  first          for a machine that is available for minutes: tests, bits, features that have never run on a GPU, speed beside
                 PyTorch; each part has a time limit
  second         continues first: choices of algorithms one by one, the PyTorch package's networks, times by operator
  smoke          the first things to know: libraries, a step call by call and captured, one row of PyTorch
  kernels        the tests of kernels and of whole steps, on the GPU
  training       plans, places of the updates and streams: the same bits; gradients and losses against the CPU's
  algorithms     algorithms of convolutions: measured, planned with, and the same bits
  sanitizer      compute-sanitizer over the own kernels
  ranks          a process for each GPU, joined by NCCL: wants two GPUs, and mpirun; four show a little more
  bench-ours     steps of memplan: as it is, --fast, with measured costs, within 60 % of the memory
  bench-eager    steps of PyTorch: eager, deterministic, checkpoints
  bench-compile  steps of PyTorch: torch.compile, and with its activation memory budget
  memory         bytes planned and measured; the largest batch in 16 GB; beside PyTorch's recomputation at an equal peak

  -r             rehearse: on the CPU with small sizes, where there is no GPU
  -t SECONDS     what a section may take (480; a rehearsal 1560)

A section ends with a table on standard output. SECTION.jsonl (a line a row) and SECTION.logs.tar.gz (the table, and
what every program printed) go to the folder $OUT, else to results/SECTION. Exit status: 0 all passed, 1 something
failed, 2 usage, 77 there is no GPU. PYTHON names the Python that has PyTorch (python3), BUILD the folder of the
program (build), MODELS that of the models (models, else those of $DATA).
END
}

rehearsed='' limit=''
while getopts rt:h option; do
    case $option in
    r) rehearsed=1 ;;
    t) limit=$OPTARG ;;
    h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
    esac
done
shift $((OPTIND - 1))
# Default time limit in seconds. A rehearsal runs on one or two processors, so `first` and `second` need more time.
[ -n "$limit" ] || limit=$([ -n "$rehearsed" ] && echo 1560 || echo 480)
case $limit in *[!0-9]*) echo "run: -t wants a number of seconds, not '$limit'" >&2 && exit 2 ;; esac
[ $# -gt 0 ] || { usage >&2 && exit 2; }
for section in "$@"; do
    case $section in
    first | second | smoke | kernels | training | algorithms | sanitizer | ranks | bench-ours | bench-eager | bench-compile | memory) ;;
    *) echo "run: there is no section '$section' ('run -h' lists them)" >&2 && exit 2 ;;
    esac
done

# Programs of a rehearsal run beside each other: threads that wait for others must not keep a processor.
[ -z "$rehearsed" ] || export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
[ -z "$OUT" ] || OUT=$(realpath -m "$OUT")
results=$(pwd)/results
cd "$root" || exit 2
worst=0
for section in "$@"; do
    (
        . tests/gpu/table.sh
        . tests/gpu/machine.sh
        . tests/gpu/checks.sh
        . tests/gpu/rows.sh
        case $section in
        bench-*) . tests/gpu/bench.sh ;;
        *)
            # shellcheck disable=SC1090 # the section's file
            . "tests/gpu/$section.sh"
            ;;
        esac
        finish
    )
    status=$?
    case $status,$worst in 0,*) ;; 1,* | *,0) worst=$status ;; esac
done
exit $worst
