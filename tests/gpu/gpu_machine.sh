# shellcheck shell=sh disable=SC2154
# gpu_machine.sh - read by the scripts that need a GPU, with $build set: where libraries are on a machine that has little more than a
# GPU, CUDA and PyTorch, and whether there is a GPU that the program can use. docs/gpu.md says what is carried there.
python=${PYTHON:-python3}
export MEMPLAN_MODULES="$build"
# What was carried along, then what pip's nvidia packages hold, then CUDA's own.
for folder in "$build/lib" $("$python" -c '
import glob, os, site, sys
for base in sys.path + site.getsitepackages():
    print("\n".join(sorted(glob.glob(os.path.join(base, "nvidia", "*", "lib")))))' 2> /dev/null | sort -u) /usr/local/cuda/lib64; do
    [ -d "$folder" ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
export LD_LIBRARY_PATH

"$build/memplan" version > /dev/null || { echo "$0: $build/memplan does not start here" >&2; exit 2; }
why=$("$build/memplan" train tests/gradients/mlp.onnx --device cuda --budget 100% --steps 1 --no-before 2>&1 > /dev/null)
case $why in
*"there is no NVIDIA"*) echo "skipped: no NVIDIA GPU"; exit 0 ;;
"" | *"cannot run"*) ;; # a GPU, with or without all kernels
*) echo "$why" >&2; exit 1 ;;
esac

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
# A number in what the program answered in JSON: value FILE KEY.
value() { sed -n "s/^ *\"$2\": *\"*\([^,\"]*\)\"*,*$/\1/p" "$1" | tail -n 1; }
