#!/bin/sh
# hostile_models.sh MEMPLAN FOLDER - every malformed model of FOLDER is refused by train: exit status 2 and one sentence that names
# file and node. dotbs.onnx and esc.onnx only have names that would steer DOT and a terminal: they train, and are shown as they are.
memplan=$1 wrong=0 refused=0
for model in "$2"/*.onnx; do
    said=$("$memplan" train "$model" --batch 2 --steps 1 --budget 100% --no-before --loss mse 2>&1 > /dev/null)
    status=$?
    case $model:$status in
    */dotbs.onnx:0 | */esc.onnx:0) continue ;;
    *:2) [ "$(printf '%s\n' "$said" | wc -l)" = 1 ] && printf '%s' "$said" | grep -q "^memplan: $model: .*'[^']*'" && refused=$((refused + 1)) && continue ;;
    esac
    echo "$model: status $status, $said"
    wrong=$((wrong + 1))
done
echo "$refused malformed models refused, $wrong wrong"
[ $wrong = 0 ] && [ $refused != 0 ]
