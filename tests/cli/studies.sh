# studies.sh - sweep and fit: the trade-off curve and the largest batch.
try sweep sweep mlp.onnx --batch 4096 --solvers chen,segments --budgets 90%,floor+25%,1MiB
try sweep_default sweep mlp.onnx --batch 4096
try sweep_json sweep mlp.onnx --batch 4096 --solvers chen --budgets floor+25%,1MiB --json
try sweep_graph sweep chain.json
try sweep_infeasible sweep mlp.onnx --batch 4096 --budgets 1MiB
holds sweep_draws sh -c "'$memplan' sweep mlp.onnx --batch 4096 -o curve.svg && grep -q '</svg>' curve.svg && cp curve.svg once.svg &&
    '$memplan' sweep mlp.onnx --batch 4096 -o curve.svg && cmp once.svg curve.svg"
holds sweep_unwritable sh -c "'$memplan' sweep mlp.onnx --batch 64 --solvers none -o no/such/curve.svg; test \$? = 1"
try fit fit mlp.onnx --memory 16MiB --overhead 5% --solver segments
try fit_json fit mlp.onnx --memory 16MiB --overhead 5% --solver segments --json
holds fit_thorough_is_announced sh -c "
    '$memplan' fit mlp.onnx --memory 16MiB --solver segments --effort thorough 2> said.txt > /dev/null && grep -q 'up to minutes' said.txt &&
    '$memplan' fit mlp.onnx --memory 16MiB --solver segments --effort thorough -q 2> said.txt > /dev/null && ! test -s said.txt"
try fit_none fit mlp.onnx --memory 1MiB
try fit_graph fit chain.json --memory 1MiB
try fit_fixed fit mlp.onnx --dim N=4 --memory 16MiB
try fit_absent fit absent.onnx --memory 16MiB
holds fit_agrees_with_plan sh -c "
    batch=\$('$memplan' fit mlp.onnx --rules executor --memory 16MiB --overhead 5% --json | sed -n 's/.*\"batch_any\": \([0-9]*\).*/\1/p')
    '$memplan' plan mlp.onnx --budget 16MiB --batch \$batch > /dev/null && ! '$memplan' plan mlp.onnx --budget 16MiB --batch \$((batch + 1)) > /dev/null"
# No plan was found for a batch of one, whose floor leaves space for it: that is no proof.
try fit_not_known fit fashion_cnn.onnx --memory 1475KiB --solver segments -q
