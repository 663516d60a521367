# streams.sh - pictures to standard output, and plans from standard input.
holds pictures_to_standard_output sh -c "
    for format in svg png pdf; do
        '$memplan' draw mlp.onnx --plan plan.json -o named.\$format && '$memplan' draw mlp.onnx --plan plan.json -o - --format \$format | cmp - named.\$format || exit 1
        '$memplan' timeline mlp.onnx --plan plan.json -o named.\$format && '$memplan' timeline mlp.onnx --plan plan.json -o - --format \$format | cmp - named.\$format || exit 1
    done
    '$memplan' draw mlp.onnx --plan plan.json -o named.dot && '$memplan' draw mlp.onnx --plan plan.json -o - --format dot | cmp - named.dot &&
    '$memplan' timeline mlp.onnx --plan plan.json -o named.json && '$memplan' timeline mlp.onnx --plan plan.json -o - --format json | cmp - named.json &&
    '$memplan' report mlp.onnx --plan plan.json --no-curve -o - | grep -q '</html>'"
holds answers_make_room_for_pictures sh -c "
    '$memplan' sweep mlp.onnx --batch 4096 --solvers chen --budgets floor+50% -o named.svg > /dev/null &&
    '$memplan' sweep mlp.onnx --batch 4096 --solvers chen --budgets floor+50% -o - --format svg | cmp - named.svg &&
    '$memplan' train bert.onnx --budget 100% --steps 3 --no-before -o - --format svg > loss.txt && head -n 1 loss.txt | grep -q '<?xml' && tail -n 1 loss.txt | grep -q '</svg>'"
holds a_format_for_any_name sh -c "
    '$memplan' draw mlp.onnx --plan plan.json -o named --format png && '$memplan' draw mlp.onnx --plan plan.json -o named.png && cmp named named.png"
holds nothing_stays_in_tmp sh -c "mkdir -p passing && '$memplan' draw mlp.onnx --plan plan.json -o named.svg &&
    TMPDIR=\$PWD/passing '$memplan' draw mlp.onnx --plan plan.json -o - --format svg | cmp - named.svg &&
    TMPDIR=\$PWD/passing '$memplan' draw mlp.onnx --plan plan.json -o - --format pdf | head -c 9 > /dev/null; rmdir passing &&
    ! TMPDIR=\$PWD/passing '$memplan' draw mlp.onnx --plan plan.json -o - --format svg"
holds plans_from_standard_input sh -c "
    '$memplan' draw mlp.onnx --plan plan.json -o named.svg && '$memplan' draw mlp.onnx --plan - -o - --format svg < plan.json | cmp - named.svg &&
    cat plan.json | '$memplan' timeline mlp.onnx --plan - -o named.svg && cat mlp.onnx | '$memplan' draw - --plan - -o none.svg 2>&1 | grep -q 'can be read once'"
try draw_stdout draw mlp.onnx --plan plan.json -o -
try draw_format draw mlp.onnx --plan plan.json -o - --format json
try sweep_format sweep mlp.onnx --batch 64 --format svg
try sweep_stdout_twice sweep mlp.onnx --batch 64 --json -o - --format svg
try plan_costs_stdin plan mlp.onnx --batch 64 --budget 100% --costs -
