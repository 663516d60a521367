# hostile.sh - malformed models of an attack (tests/verify/hostile): train refuses each with status 2 and one sentence that names file
# and node. dotbs.onnx and esc.onnx only have names that would steer DOT and a terminal: they train.
cp -r "$root/tests/verify/hostile" .
for model in hostile/*.onnx; do
    case $model in */dotbs.onnx | */esc.onnx | */sm*.onnx) batch='--batch 2' ;; *) batch='' ;; esac # the others fix theirs
    said=$("$memplan" train "$model" $batch --steps 1 --budget 100% --no-before --loss mse 2>&1 > /dev/null < /dev/null)
    echo "$model: status $?${said:+, $said}"
done > train_hostile_models.out
golden train_hostile_models
