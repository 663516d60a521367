#!/bin/sh
# pack.sh BUILD MODELS - one archive, BUILD/memplan-gpu.tar.xz, with everything that tests/gpu needs on a machine that has a GPU, CUDA, perhaps
# PyTorch, and neither a compiler nor our packages: programs and the GPU module, stripped; libraries; the PyTorch package, which runs without
# being installed; tests, models, and 'run'. MODELS may be missing: those of examples/ and of the tests are there always. `pack.sh -l BUILD` lists the libraries only.
#
# Programs look for libraries in the lib beside them (make PACKED=1). Libraries of which the machine must have its own version are left out, because
# its Python, CUDA, driver and mpirun need them too: libc, the compiler's libstdc++ and libgcc_s, libz, libexpat, NVIDIA's and Open MPI's.
cd "$(dirname "$0")/../.." || exit 2
theirs='ld-linux.*|linux-vdso|libc|libm|libmvec|libdl|librt|libpthread|libresolv|libutil|libstdc\+\+|libgcc_s|libz|libexpat|libcuda|libcudart|libcudnn.*|libcublas.*|libnv.*|libmpi|libopen-.*|libhwloc|libevent.*'
most_bytes=50000000

programs() { # BUILD
    for program in memplan memplan_cuda.so memplan_mpi.so memplan_nccl.so package/libmemplan.so tests/bench_updates tests/bench_choices $(sed 's/[^ ]*/tests\/test_&/g' tests/gpu/tests.txt); do
        [ ! -e "$1/$program" ] || echo "$1/$program"
    done
}
# Paths of the libraries that these need, by the name that they are asked for with.
libraries() { # PROGRAM...
    ldd "$@" | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u
}
carried() { # BUILD
    # shellcheck disable=SC2046 # paths without blanks, as make has them
    libraries $(programs "$1") | grep -Ev "/($theirs)\.so[.0-9]*\$"
}

if [ "$1" = -l ]; then carried "$2"; exit; fi
build=$1 models=$2
archive=$build/memplan-gpu.tar.xz
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
to=$work/memplan-gpu
mkdir -p "$to/build/tests" "$to/build/package" "$to/python/bench" "$to/build/lib/spare" "$to/tests/bench" "$to/models" "$to/examples/bert" || exit 2

[ -e "$build/memplan_cuda.so" ] || { echo "pack: $build has no GPU module (make gpu-pack)" >&2; exit 2; }
# The package refuses a library that lacks one of its functions.
nm -D --defined-only "$build/package/libmemplan.so" | awk '{ print $3 }' > "$work/functions"
sed -n 's/^    "\(mp_[a-z_]*\)": (.*/\1/p' python/src/memplan/library/calls.py | grep -vxFf "$work/functions" &&
    { echo "pack: $build/package/libmemplan.so lacks these functions of the PyTorch package (make gpu-pack)" >&2; exit 2; }
for program in $(programs "$build"); do
    strip --strip-unneeded -o "$to/build/${program#"$build"/}" "$program" || exit 2
done
# shellcheck disable=SC2046
cp -L $(carried "$build") "$to/build/lib" || exit 2
# run takes it where there is none.
cp -L "$(libraries "$build/memplan" | grep '/libexpat\.so')" "$to/build/lib/spare" || exit 2
cp -r tests/gpu tests/gradients "$to/tests" &&
    cp -r python/src "$to/python" && find "$to/python" -name __pycache__ -prune -exec rm -r {} + &&
    cp python/bench/bench_gpu.py python/bench/gpu_features.py "$to/python/bench" &&
    cp tests/bench/bench_torch.py tests/bench/torch_nets.py "$to/tests/bench" &&
    cp examples/*.onnx "$to/examples" && cp examples/bert/bert.onnx "$to/examples/bert" &&
    ln -s tests/gpu/run.sh "$to/run" || exit 2
if [ -d "$models" ]; then cp "$models"/*.onnx "$to/models" && chmod u+w "$to/models"/*; else echo "pack: no models at $models (DATA=FOLDER, docs/internals/data.md)" >&2; fi

tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf "$work/pack.tar" memplan-gpu || exit 2
xz -T0 --lzma2=preset=3,dict=64MiB < "$work/pack.tar" > "$archive" || exit 2
bytes=$(stat -c %s "$archive")
echo "$archive: $bytes bytes, $(stat -c %s "$work/pack.tar") unpacked: $(programs "$build" | wc -l) programs," \
    "$(carried "$build" | wc -l) libraries, $(find "$to" -name '*.onnx' | wc -l) models"
[ "$bytes" -lt $most_bytes ] || { echo "pack: more than $most_bytes bytes" >&2; exit 1; }
