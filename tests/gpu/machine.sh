# shellcheck shell=sh disable=SC2034,SC2154
# machine.sh - read by run.sh: where the program, the models and NVIDIA's libraries are on a machine that may have little more than a
# GPU, CUDA and PyTorch; whether the program can use the GPU. Nothing is exported: libraries that our programs find must not get
# between a Python and its own.
build=$(realpath -m "${BUILD:-build}") python=${PYTHON:-python3} no_gpu='' device=cuda spare=''
models=${MODELS:-models}
[ -d "$models" ] || models=${DATA:-.}/models

# The caller's folder, then those of pip's nvidia packages, then CUDA's own.
libraries=$LD_LIBRARY_PATH
for folder in $("$python" -c '
import glob, os, site, sys
for base in sys.path + site.getsitepackages():
    print("\n".join(sorted(glob.glob(os.path.join(base, "nvidia", "*", "lib")))))' 2> /dev/null | sort -u) /usr/local/cuda/lib64; do
    [ -d "$folder" ] && libraries=${libraries:+$libraries:}$folder
done

# One of our programs, for so many seconds at most: ours SECONDS PROGRAM ARGUMENT...
ours() {
    most=$1
    shift
    within "$most" env "LD_LIBRARY_PATH=$libraries" "MEMPLAN_MODULES=$build" "$@" < /dev/null
}
# A library of NVIDIA's as our programs find it, by a name that the loader knows: its path, or nothing. library NAME.
library() {
    for folder in $(echo "$libraries" | tr ':' ' '); do
        [ -e "$folder/$1" ] && echo "$folder/$1" && return
    done
    ldconfig -p 2> /dev/null | sed -n "s|^[[:space:]]*$1 .*=> ||p" | head -n 1
}
# The row of NVIDIA's libraries: those that the GPU module is linked with, and NCCL, which the module of ranks loads by name.
libraries_row() {
    if ! ours 20 ldd "$build/memplan_cuda.so" > "$work/logs/ldd.txt" 2>&1; then
        note "libraries" "left out" "$(reason "$work/logs/ldd.txt")"
        return
    fi
    nccl=$(library libnccl.so.2)
    missing=$(grep 'not found' "$work/logs/ldd.txt" | awk '{ print $1 }' | tr '\n' ' ')${nccl:-libnccl.so.2}
    case $missing in
    /*) note "libraries" ok "$(awk '/cudnn|cublasLt/ { print $3 }' "$work/logs/ldd.txt" | tr '\n' ' ')$nccl" ;;
    *) note "libraries" FAILED "not found: ${missing%"$nccl"}" ;;
    esac
}
# A model's file; fails if it is not here: model NAME.
model() {
    for path in "$models/$1.onnx" "tests/gradients/$1.onnx" "examples/$1.onnx" "examples/bert/$1.onnx"; do
        [ -e "$path" ] && echo "$path" && return
    done
    return 1
}

card=$(within 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null | head -n 1)
machine=${card:-no NVIDIA GPU}
if ! ours 20 "$build/memplan" version > "$work/version" 2>&1; then
    # A library that nearly every machine has, for one that has not.
    spare=$build/lib/spare libraries=${libraries:+$libraries:}$build/lib/spare
    if ! ours 20 "$build/memplan" version > "$work/version" 2>&1; then
        note "memplan" FAILED "does not start here: $(reason "$work/version")"
        finish
    fi
fi
machine="$machine; $(head -n 1 "$work/version")"

# PyTorch, by the Python and the libraries that the caller has.
torch_why=''
command -v "$python" > /dev/null || torch_why="there is no $python"
torch_is=$(within 90 "$python" -c 'import torch; print(torch.__version__, "with" if torch.cuda.is_available() else "without", "a GPU")' 2> "$work/torch.err") ||
    torch_why=${torch_why:-$(tail -n 1 "$work/torch.err" | cut -c 1-110)}
[ -n "$torch_is" ] || torch_why=${torch_why:-$python did not answer}
machine="$machine; PyTorch ${torch_is:-is not here: $torch_why}"

if [ -n "$rehearsed" ]; then
    device=cpu machine="rehearsed on the CPU; $machine"
else
    ours 60 "$build/memplan" train tests/gradients/mlp.onnx --device cuda --budget 100% --steps 1 --no-before > "$work/logs/first_step.txt" 2>&1
    status=$?
    seen=$(ls -d /dev/nvidia[0-9]* 2> /dev/null)$card
    if [ -z "${CUDA_VISIBLE_DEVICES-all}" ] || { [ $status != 0 ] && [ -z "$seen" ]; }; then
        no_gpu=$(sed 's/^memplan: [^:]*: //' "$work/logs/first_step.txt" | cut -c 1-150)
        note "a step on the GPU" "left out" "no NVIDIA GPU: $no_gpu"
        say "Section $section was not run."
        finish
    elif [ $status != 0 ]; then
        note "a step on the GPU" FAILED "$(reason "$work/logs/first_step.txt")"
    fi
fi
