# names.sh - names with control sequences for a terminal, a browser or Graphviz: shown visibly, and passed on exactly.
rm -rf strange && mkdir strange
# Output for people has no control characters but line ends, no marks of direction, no broken UTF-8.
cat > plain.py <<'END'
import sys
for path in sys.argv[1:]:
    text = open(path, "rb").read().decode("utf-8")
    bad = [c for c in text if ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 or c in "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"]
    lies = [line for line in text.split("\n") if line.startswith(("plan.json holds", " evil"))]
    if bad or lies:
        sys.exit(f"{path}: {bad[:5]} {lies[:5]}")
END
steered=$(printf 'd\033[2J\302\205\342\200\256')
printf 'id,lower,upper,size\n%s,0,3,4\nb,2,9,40\n' "$steered" > strange/in.csv
printf 'id,lower,upper,size\n%s,0,3,4\n%s,2,9,40\n' "$steered" "$steered" > strange/twice.csv
printf 'id,%s,upper,size\nb,0,3,4\n' "$steered" > strange/column.csv
printf 'id,lower,upper,size\n%s,0,3,-4%s\n' "$steered" "$steered" > strange/number.csv
try estimate_names estimate names.onnx --batch 2 -v --list
# Names that differ only in the middle are shortened to different texts.
try estimate_names_alike estimate alike.onnx
holds names_are_plain sh -c "
    k=0
    '$memplan' graph names.onnx --batch 2 -o strange/names.json && '$memplan' draw names.onnx --batch 2 -o strange/names.dot || exit 1
    '$memplan' plan names.onnx --batch 2 --budget 100% -o strange/plan.json > /dev/null || exit 1
    while read -r words; do
        '$memplan' \$words > strange/out.\$k 2> strange/err.\$k < /dev/null; status=\$?
        test \$status -le 2 || { echo \"\$words: \$status\"; exit 1; }
        k=\$((k + 1))
    done <<'END'
estimate names.onnx --batch 2 --per-op
estimate names.onnx --batch 2 --csv
estimate names.onnx --batch 2 --output z
estimate names.onnx
estimate strange/names.json -v --list
plan names.onnx --batch 2 --budget 100% -v --list --explain-bound
plan names.onnx --batch 2 --budget 1KiB
plan names.onnx --batch 2 --checkpoints none
check names.onnx strange/plan.json
check mlp.onnx strange/plan.json
timeline names.onnx --batch 2 --plan strange/plan.json -o strange/names.svg
timeline names.onnx --batch 2 -o strange/absent/names.svg
draw names.onnx --batch 2 -o strange/boxes.svg
report names.onnx --batch 2 --budget 100% -o strange/names.html
sweep names.onnx --batch 2 --list
fit names.onnx --memory 1MiB
pack names.onnx strange/plan.json --minimize
pack strange/in.csv --minimize -o strange/out.csv
pack strange/twice.csv --minimize
pack strange/column.csv --minimize
pack strange/number.csv --minimize
apply names.onnx strange/plan.json --for jax
apply names.onnx strange/plan.json --for paddle
train names.onnx --batch 2 --device cpu --budget 100% --steps 1 --profile --loss mse
train names.onnx --batch 2 --device cpu --budget 100% --steps 1 --data absent=names.json
train names.onnx --batch 2 --device cpu --budget 100% --steps 1 --data $steered=names.json
train names.onnx --batch 2 --device cpu --budget 100% --steps 1 --data $steered
train names.onnx --batch 2 --device cpu --budget 100% --steps 1 --test $steered=strange/$steered
estimate names.onnx --batch 2 --per-op --json
plan names.onnx --batch 2 --budget 100% --json
graph names.onnx --batch 2
timeline names.onnx --batch 2 --plan strange/plan.json -o strange/trace.json
profile names.onnx --batch 2 --device cpu --steps 1 -o strange/costs.json
END
    test \$k = 33 && grep -q 'x1b' strange/out.* && grep -q '\\\\u202e.*x1b' strange/err.* && grep -q '\\\\u202e' strange/names.json strange/trace.json &&
    python3 plain.py strange/out.[0-9]* strange/err.* strange/*.dot strange/*.html strange/*.svg strange/*.json &&
    cut -d, -f1-4 strange/out.csv | cmp - strange/in.csv"
holds names_are_exact sh -c "
    printf 'import json,sys\ng=json.load(open(\"strange/names.json\"))\nnames={s[\"name\"] for s in g[\"storages\"]}\nassert {\"w\\\\u202eabc\",\"v\\\\x1b[8m\\\\x7f\"} <= names, names\n' | python3 &&
    '$memplan' train names.onnx --batch 2 --device cpu --budget 100% --steps 1 --loss mse --freeze \"\$(printf 'w\342\200\256*')\" --save strange/state.st > /dev/null &&
    '$memplan' train names.onnx --batch 2 --device cpu --budget 100% --steps 1 --loss mse --freeze \"\$(printf 'w\342\200\256*')\" --resume strange/state.st > /dev/null &&
    '$memplan' plan names.onnx --batch 2 --device cpu --budget 100% -o strange/exact.json > /dev/null && '$memplan' check names.onnx strange/exact.json > /dev/null"
holds names_do_not_end_a_text_of_dot sh -c "
    ! grep -q '^ *evil\|[^\\\\]\"; evil' strange/names.dot && grep -q 'evil' strange/names.dot &&
    if command -v dot > /dev/null; then dot -Tsvg strange/names.dot > strange/dot.svg && grep -c '<g id=\"node' strange/dot.svg | grep -qx 7 &&
        dot -Tdot strange/names.dot | neato -n2 -Tsvg > strange/neato.svg && grep -q '</svg>' strange/neato.svg; fi"
holds names_do_not_end_a_text_of_python sh -c "
    '$memplan' plan names.onnx --batch 64 --budget 93% -o strange/tight.json > /dev/null || exit 1
    for whom in jax paddle; do '$memplan' apply names.onnx strange/tight.json --for \$whom > strange/apply.py && grep -q evil strange/apply.py &&
        python3 -m py_compile strange/apply.py || exit 1; done"
