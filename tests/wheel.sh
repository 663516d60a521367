#!/bin/sh
# wheel.sh PYTHON WHEEL - auditwheel finds that the wheel runs where its name says; it takes nothing from the system but the C
# and C++ libraries; the program in it runs with nothing set.
set -e
python=$1 wheel=$2
root=$(cd "$(dirname "$0")/.." && pwd)
said=$("$python" -m auditwheel show "$wheel" | tr '\n' ' ' | sed 's/.*constrains the platform tag to "\([^"]*\)".*/\1/')
case $wheel in *-"$said".whl) ;; *) echo "$wheel: by auditwheel it is for $said" >&2; exit 1 ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check --no-deps "$wheel"
for file in "$folder"/lib/python3*/site-packages/memplan/bin/memplan "$folder"/lib/python3*/site-packages/memplan/libmemplan.so; do
    taken=$(ldd "$file" | grep '=> ' | grep -v "=> $folder/" | grep -vE '^\s*lib(c|m|stdc\+\+|gcc_s)\.so' || true)
    [ -z "$taken" ] || { echo "$wheel: $(basename "$file") takes from the system:$taken" >&2; exit 1; }
done
env -i "$folder/bin/memplan" plan "$root/examples/fashion_cnn.onnx" --batch 64 --budget 60% -o "$folder/plan.json" > "$folder/said"
grep -q '^fashion_cnn, batch 64: fits the budget' "$folder/said"
env -i "$folder/bin/memplan" timeline "$root/examples/fashion_cnn.onnx" --batch 64 --plan "$folder/plan.json" -o "$folder/t.svg"
env -i "$folder/bin/memplan" train "$root/examples/mlp4.onnx" --batch 4 --steps 1 --budget 100% > /dev/null
grep -q '<svg' "$folder/t.svg"
echo "$wheel: $said, $(($(wc -c < "$wheel") / 1000000)) MB; its program plans, draws and trains"
