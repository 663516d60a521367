# shellcheck shell=sh
# kernels.sh - the section of the tests of kernels and of whole steps (tests.txt), run on the GPU; $TESTS names others than all.
for name in ${TESTS:-$(cat tests/gpu/tests.txt)}; do run_test "$name"; done
