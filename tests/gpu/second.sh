# shellcheck shell=sh disable=SC2154
# second.sh - continues first.sh, for a second call on the same machine: the choices of algorithms and kernels one by one, the PyTorch
# package's networks, and times by operator.
. tests/gpu/bench.sh
. tests/gpu/package.sh
. tests/gpu/choices.sh
[ -n "$rehearsed" ] && stretch=4 package_networks='gpt2 convnext_tiny' || stretch=1 package_networks=''

part "choices one by one" $((110 * stretch))
choice_rows

part "PyTorch package" $((230 * stretch))
package_table "$(left)"

part "operators" $((30 * stretch))
while read -r net batch; do operator_times "$net" "$batch"; done << END
$nets
END
