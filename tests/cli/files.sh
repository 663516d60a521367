# files.sh - files that a stranger's model names, and files that a run must not touch: weights outside the model's folder, outputs on
# inputs, broken links, files of killed runs.
rm -rf stranger elsewhere
mkdir -p stranger/inside elsewhere
head -c 24 /dev/zero > elsewhere/weights.bin
cp external.onnx stranger
weighted="train stranger/external.onnx --loss mse --budget 100% --steps 1 --no-before --device cpu"
# weights KIND: sets the kind of the model's weights.bin.
weights() { rm -rf stranger/weights.bin; "$@" stranger/weights.bin; }
weights ln -s ../elsewhere/weights.bin
try train_weights_linked_outside $weighted
holds train_weights_permitted "$memplan" $weighted --allow-external elsewhere
holds train_weights_permitted_elsewhere sh -c "'$memplan' $weighted --allow-external stranger/inside; test \$? = 2"
weights ln -s inside/weights.bin && cp elsewhere/weights.bin stranger/inside
holds train_weights_linked_inside "$memplan" $weighted
rm -r stranger/inside && ln -s ../elsewhere stranger/inside
holds train_weights_in_a_linked_folder sh -c "'$memplan' $weighted 2> why.txt; test \$? = 2 && grep -q 'is a link; move the file' why.txt"
weights mkdir
try train_weights_folder $weighted
weights mkfifo
try train_weights_pipe $weighted
weights ln -s /dev/zero
holds train_weights_device sh -c "'$memplan' $weighted 2> why.txt; test \$? = 2 && grep -q 'outside' why.txt"
weights cp elsewhere/weights.bin && head -c 20 elsewhere/weights.bin > stranger/weights.bin
try train_weights_short $weighted

# ---- an output is no input of the same run, under whatever name
weights cp elsewhere/weights.bin
cp mlp.onnx own.onnx && ln -sf own.onnx linked.onnx && ln -f own.onnx twin.onnx && cp chain.json own.json && cp "$root/tests/gradients/bert.onnx" own_bert.onnx
"$memplan" plan own.onnx --batch 64 --device cpu --budget 100% -o own_plan.json > /dev/null
"$memplan" profile own.onnx --batch 64 --steps 1 -o own_costs.json > /dev/null 2>&1
head -c 64 /dev/zero > own.npy
cat > own_device.json <<'END'
{"format": "memplan-device", "version": 1, "like": "a100"}
END
mkdir kept && cp own* linked.onnx stranger/weights.bin kept
try plan_over_its_model plan own.onnx --batch 64 --budget 100% -o ./own.onnx
holds outputs_spare_inputs sh -c "
    while read -r words; do
        '$memplan' \$words 2> why.txt < own.onnx > /dev/null; status=\$?
        test \$status = 2 && grep -q 'this run would overwrite the file' why.txt && test \$(wc -l < why.txt) = 1 || { echo \"\$words: \$status\"; cat why.txt; exit 1; }
    done <<'END'
plan own.onnx --batch 64 --budget 100% -o linked.onnx
plan linked.onnx --batch 64 --budget 100% -o own.onnx
plan own.onnx --batch 64 --budget 100% -o twin.onnx
plan own.json --budget 100% -o own.json
graph - --batch 64 -o own.onnx
pack own.onnx own_plan.json --minimize -o own_plan.json
timeline own.onnx --plan own_plan.json --format svg -o own_plan.json
draw own.onnx --batch 64 --format svg -o own.onnx
sweep own.onnx --batch 64 --format svg -o own.onnx
profile own.onnx --batch 64 -o own.onnx
plan own.onnx --batch 64 --costs own_costs.json --budget 100% -o own_costs.json
plan own.onnx --batch 64 --device own_device.json --budget 100% -o own_device.json
train own_bert.onnx --budget 100% --save own_bert.onnx
train own_bert.onnx --budget 100% --data input=own.npy --save own.npy
train own_bert.onnx --budget 100% --data input=own.npy --test input=own_costs.json --save own_costs.json
train own_bert.onnx --budget 100% --resume own.npy --format svg -o own.npy
$weighted --save stranger/weights.bin
END
    for f in kept/own*; do cmp \$f \${f#kept/} || exit 1; done; test -L linked.onnx && cmp kept/weights.bin stranger/weights.bin"
holds outputs_by_other_names sh -c "
    for words in 'graph mlp.onnx -o new.dot' 'plan mlp.onnx --budget 100% -o new.SVG' 'pack mlp.onnx own_plan.json -o new.onnx'; do
        '$memplan' \$words --batch 64 2> why.txt > answer.txt; test \$? = 2 && grep -q 'does not write \.' why.txt &&
            test ! -s answer.txt && test ! -e \${words##* } || exit 1
    done"
holds train_saves_where_it_resumed_from sh -c "
    '$memplan' train own_bert.onnx --budget 100% --steps 1 --no-before --save goes_on.st > /dev/null &&
    '$memplan' train own_bert.onnx --budget 100% --steps 1 --no-before --resume goes_on.st --save goes_on.st > /dev/null"
ln -sf nowhere.json dangling.json && ln -sf looping.json looping.json
try plan_to_a_dangling_link plan own.onnx --batch 64 --budget 100% -o dangling.json
try plan_to_a_looping_link plan own.onnx --batch 64 --budget 100% -o looping.json
holds links_are_left sh -c "test -L dangling.json && test -L looping.json && test ! -e nowhere.json"

# ---- a run that was killed leaves a file; the next that writes there removes it, and nobody else's
echo half > killed.json.4194300-0.tmp
echo mine > killed.json.4194300.tmp
echo other > killed.json.backup-0.tmp
echo other > notkilled.json.4194300-0.tmp
holds what_a_killed_run_left sh -c "
    '$memplan' graph own.onnx --batch 64 -o killed.json && test ! -e killed.json.4194300-0.tmp && test -e killed.json.4194300.tmp &&
    test -e killed.json.backup-0.tmp && test -e notkilled.json.4194300-0.tmp"
holds what_a_living_run_writes_stays sh -c "
    echo half > killed.json.4194300-0.tmp && flock killed.json.4194300-0.tmp '$memplan' graph own.onnx --batch 64 -o killed.json &&
    test -e killed.json.4194300-0.tmp"
rm -f killed.json* notkilled.json*
