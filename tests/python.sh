#!/bin/sh
# python.sh PYTHON LIBRARY [--short] - the tests of the PyTorch package, or its short form, in two processes. One line if this Python
# has no torch or no pytest.
python=$1 library=$2
"$python" -c 'import pytest, torch' 2> /dev/null || {
    echo "python/: not tested, $python has no torch or no pytest (make test PYTHON=..., make test-python)"
    exit 0
}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/python" || exit 1
case $python in /*) ;; */*) python=$root/$python ;; esac
case $library in /*) ;; *) library=$root/$library ;; esac
export MEMPLAN_LIBRARY="$library" OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
run() { "$python" -m pytest -q -p no:logging -p no:cacheprovider $2 --share "$1/2" tests; }
log=$(mktemp) && trap 'rm -f "$log"' EXIT
run 1 "$3" > "$log" 2>&1 &
other=$!
run 2 "$3"
status=$?
wait $other || status=$?
cat "$log"
exit $status
