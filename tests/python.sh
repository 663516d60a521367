#!/bin/sh
# python.sh PYTHON LIBRARY - the tests of the PyTorch package, where this Python has torch and pytest; one line where it has not.
python=$1 library=$2
"$python" -c 'import pytest, torch' 2> /dev/null || { echo "python/: not tested, $python has no torch or no pytest (make test-python)"; exit 0; }
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/python" || exit 1
case $python in /*) ;; */*) python=$root/$python ;; esac
case $library in /*) ;; *) library=$root/$library ;; esac
MEMPLAN_LIBRARY=$library OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 exec "$python" -m pytest -q -p no:logging -p no:cacheprovider tests
