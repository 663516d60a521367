#!/bin/sh
# bench_large.sh MEMPLAN [NAME...] - the largest graphs of docs/internals/reliability.md: time and peak memory of `estimate`, and of `plan` with 10 seconds
# for the search. It takes some minutes, 4 GB of memory and 300 MB of disk.
#
# chain: a product and a million Sigmoids, one behind the other. sum: one Sum of a tensor, a million times. fan: 100,000 Sigmoids of one
# tensor, and their Sum. layered: 250,000 nodes without marks. dense: 2,000 nodes, each reading all before it, 1,999,000 edges.
memplan=$(realpath "$1") || exit 2
shift
make_large=$(dirname "$(realpath "$0")")/make_large.py
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2
onnx() { # the nodes behind the product, which makes t0; the last makes y
    { echo 'ir_version: 8 opset_import { version: 17 } graph { name: "large" node { op_type: "MatMul" input: "x" input: "w" output: "t0" }'
        cat
        echo 'input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_param: "N" } dim { dim_value: 8 } } } } }'
        echo 'initializer { name: "w" data_type: 1 dims: 8 dims: 1' "$(seq 8 | sed 's/^/float_data: /')" '}'
        echo 'output { name: "y" type { tensor_type { elem_type: 1 } } } }'
    } | protoc-c --encode=onnx.ModelProto --proto_path=/usr/include/onnx onnx.proto
}
make() {
    case $1 in
    chain) awk 'BEGIN { n = 1000000; for (i = 1; i <= n; i++) printf "node { op_type: \"Sigmoid\" input: \"t%d\" output: \"%s\" }\n", i - 1, i < n ? "t" i : "y" }' | onnx > chain.onnx ;;
    sum) awk 'BEGIN { print "node { op_type: \"Sum\" output: \"y\""; for (i = 0; i < 1000000; i++) print "input: \"t0\""; print "}" }' | onnx > sum.onnx ;;
    fan) awk 'BEGIN { n = 100000; for (i = 0; i < n; i++) printf "node { op_type: \"Sigmoid\" input: \"t0\" output: \"f%d\" }\n", i
        print "node { op_type: \"Sum\" output: \"y\""; for (i = 0; i < n; i++) printf "input: \"f%d\"\n", i; print "}" }' | onnx > fan.onnx ;;
    layered) "$make_large" layered 250000 1 8 > layered.json ;;
    dense) "$make_large" dense 2000 > dense.json ;;
    *) echo "bench: there is no graph '$1'" >&2; exit 2 ;;
    esac
}
printf '%-8s %12s %-9s %10s %10s %8s   %s\n' graph 'file, bytes' command 'seconds' 'of CPU' MiB answer
for name in ${*:-chain sum fan layered dense}; do
    make "$name"
    file=$(ls "$name".*)
    for command in 'estimate -q' 'plan -q --budget floor+50% --time-limit 10'; do
        set -- $command
        [ "${file##*.}" = json ] || set -- "$@" --batch 4
        verb=$1
        shift
        answer=$(/usr/bin/time -o time -f '%e %U %M' "$memplan" "$verb" "$file" "$@" 2>&1)
        printf '%-8s %12s %-9s %10.1f %10.1f %8.0f   %s\n' "$name" "$(wc -c < "$file")" "$verb" $(tail -1 time | awk '{ print $1, $2, $3 / 1024 }') "$answer"
    done
    rm -f "$file"
done
