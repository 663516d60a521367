# train.sh - train. The figures that depend on the machine are looked at, not compared.
cp "$root/tests/gradients/bert.onnx" .
try train_no_budget train bert.onnx
try train_two_budgets train bert.onnx --plan plan.json --budget 60%
try train_graph train chain.json --budget 60%
try train_gpu train bert.onnx --budget 60% --device a100
export MEMPLAN_MODULES=nowhere
try train_no_module train bert.onnx --budget 60% --device cuda
try train_second_gpu train bert.onnx --budget 60% --device cuda:1
try train_no_such_gpu train bert.onnx --budget 60% --device cuda:99
unset MEMPLAN_MODULES
holds train_without_a_gpu_says_so_first sh -c "
    test -e /dev/nvidiactl && exit 0
    '$memplan' train bert.onnx --budget 60% --device cuda 2> why.txt; test \$? = 2 &&
    grep -q 'there is no NVIDIA\|has no GPU module\|cannot be loaded' why.txt && ! grep -q 'cannot run' why.txt"
holds train_lora_starts_where_the_network_was sh -c "
    for lora in '' '--lora 4:*qkv* --lora 2:*up*'; do
        '$memplan' train bert.onnx --budget 100% --steps 1 --no-before --json \$lora | grep -A1 losses | tail -1
    done | uniq -d | grep -q '3\.[0-9]'"
holds train_lora sh -c "
    '$memplan' plan bert.onnx --device cpu --lora '4:*qkv*' --train 'head.*' --budget floor+30% -o adapted.json > /dev/null &&
    '$memplan' check bert.onnx adapted.json > /dev/null &&
    '$memplan' train bert.onnx --plan adapted.json --steps 3 --save adapted.safetensors --json | grep -q '\"identical\": true' &&
    grep -aq 'layers.1.qkv.lora_B.weight' adapted.safetensors"
try train_auto train bert.onnx --budget auto --device cpu
try plan_auto plan mlp.onnx --batch 64 --budget auto
FILTER='grep Forward' try estimate_tf32 estimate resnet50.onnx --batch 32 --device h100 --tf32
FILTER='grep Forward' try estimate_fp32 estimate resnet50.onnx --batch 32 --device h100
try usage_tf32 plan mlp.onnx --batch 64 --budget 60% --device cpu --tf32
try usage_workspace_limit plan mlp.onnx --batch 64 --budget 60% --workspace-limit lots
try usage_sweep_auto sweep mlp.onnx --batch 64 --budgets auto
try train_fp16 train bert.onnx --budget 60% --dtype fp16
try train_pytorch train bert.onnx --budget 60% --rules pytorch
try train_no_loss train bert.onnx --budget 60% --loss none
try train_clip_backward train bert.onnx --budget 60% --clip-norm 1 --fuse backward
try train_infeasible train bert.onnx --budget 1KiB
try train_no_data train bert.onnx --budget 100% --data input=absent.npy
try train_other_data train bert.onnx --budget 100% --data picture=absent.npy
try train_bad_rate train bert.onnx --budget 100% --lr nan
try train_save_every train bert.onnx --budget 100% --save-every 2
holds train_is_identical sh -c "
    '$memplan' train bert.onnx --budget floor+80% --steps 3 --json > train.json && grep -q '\"identical\": true' train.json &&
    grep -q '\"allocations\": 0,' train.json"
holds train_scatters sh -c "
    '$memplan' plan gcn.dynamo.onnx --device cpu --budget floor+50% -o gcn.json > gcn.out && '$memplan' check gcn.dynamo.onnx gcn.json > gcn.out &&
    '$memplan' train gcn.dynamo.onnx --device cpu --steps 2 --plan gcn.json --json > gcn.out && grep -q '\"identical\": true' gcn.out"
holds train_no_gradient sh -c "
    '$memplan' train floored.onnx --device cpu --budget 100% --loss mse --steps 1 --no-before -q 2> why.txt > /dev/null &&
    grep -q \"no gradient reaches 1 of 2 parameters, the first is 'w'\" why.txt &&
    '$memplan' train floored.onnx --device cpu --budget 100% --loss mse --steps 1 --no-before -q --optimizer sgd 2> why.txt > /dev/null &&
    ! test -s why.txt"
try train_no_indices train picks.onnx --batch 2 --device cpu --budget 100% --steps 1
try train_far_index train far.onnx --device cpu --budget 100% --loss mse --steps 1 --no-before
holds train_stays_within_its_arena sh -c "
    planned=\$(grep '\"arena_bytes' train.json | tail -n 1 | tr -dc 0-9) measured=\$(grep '\"measured' train.json | tail -n 1 | tr -dc 0-9)
    test \$measured -le \$planned && test \$measured -gt \$((planned * 3 / 4))"
holds train_takes_a_plan sh -c "
    '$memplan' plan bert.onnx --device cpu --budget floor+80% -o cpu.json > /dev/null && '$memplan' check bert.onnx cpu.json > /dev/null &&
    '$memplan' train bert.onnx --plan cpu.json --steps 2 --no-before > /dev/null"
holds train_refuses_a_plan_for_another_target sh -c "
    '$memplan' plan bert.onnx --budget floor+80% -o a100.json > /dev/null && ! '$memplan' train bert.onnx --plan a100.json --steps 2 2> why.txt &&
    grep -q 'train runs on cpu' why.txt"
holds train_draws_its_loss sh -c "
    '$memplan' train bert.onnx --budget 100% --steps 30 --no-before -o loss.svg > /dev/null && grep -q '>loss<' loss.svg && grep -q '</svg>' loss.svg"
cp "$root/examples/fashion_cnn.onnx" .
{ printf '\0\0\10\3\0\0\0\12\0\0\0\34\0\0\0\34'; head -c 7840 "$root/LICENSE"; head -c 7840 /dev/zero; } | head -c 7856 > ten.images
printf '\0\0\10\1\0\0\0\12\0\1\2\3\4\5\6\7\10\11' > ten.labels
ten="--data image=ten.images --data target=ten.labels"
holds train_tests sh -c "
    '$memplan' train fashion_cnn.onnx --batch 5 --budget 100% $ten --test image=ten.images --test target=ten.labels --no-before --steps 3 \
        --json > tested.json && grep -q '\"samples\": 10' tested.json && grep -q '\"accuracy\": 0' tested.json"
try train_no_test train fashion_cnn.onnx --batch 5 --budget 100% $ten --test image=absent.images --test target=ten.labels
try train_half_a_test train fashion_cnn.onnx --batch 5 --budget 100% $ten --test image=ten.images
# npy TYPE SHAPE: an .npy file of the bytes on standard input.
npy() { printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"; cat; }
digits() { head -c "$1" /dev/zero | tr '\0' "$2"; }
digits 800 '\17' | npy '|u1' '50, 16' > nodes.npy
{ digits 200 '\3'; digits 200 '\61'; } | npy '|u1' '2, 200' > edges.npy
{ digits 200 '\3'; digits 200 '\61'; } | npy '|u1' '1, 2, 200' > stacked_edges.npy
digits 50 '\6' | npy '|u1' '50,' > classes.npy
digits 100 '\6' | npy '|u1' '100,' > more_classes.npy
digits 50 '\6' | npy '|u1' '1, 50' > stacked_classes.npy
gcn() { "$memplan" train gcn.dynamo.onnx --budget 100% --steps 3 --no-before --json --data input0=nodes.npy "$@" | grep -A 5 losses; }
gcn --data input1=edges.npy --data target=classes.npy > whole.losses
gcn --data input1=stacked_edges.npy --data target=stacked_classes.npy > stacked.losses
gcn --data input1=stacked_edges.npy --data target=classes.npy --test input0=nodes.npy --test input1=edges.npy --test target=classes.npy > mixed.losses
holds train_takes_a_graph_whole sh -c "test -s whole.losses && cmp whole.losses stacked.losses && cmp whole.losses mixed.losses"
{ head -c 3196 /dev/zero; printf '\000\000\300\177'; } | npy '<f4' '50, 16' > nan.npy # the last number is none
try train_not_finite_data train gcn.dynamo.onnx --budget 100% --data input0=nan.npy --data input1=edges.npy --data target=classes.npy
digits 50 '\234' | npy '|i1' '50,' > ignored.npy # -100
try train_all_labels_ignored train gcn.dynamo.onnx --budget 100% --data input0=nodes.npy --data input1=edges.npy --data target=ignored.npy
try train_no_class_counts train gcn.dynamo.onnx --budget 100% --class-weights 0,0,0,0,0,0,0
holds train_tells_a_test_without_a_loss sh -c "
    '$memplan' train gcn.dynamo.onnx --budget 100% --steps 1 --no-before --data input0=nodes.npy --data input1=edges.npy --data target=classes.npy \
        --test input0=nan.npy --test input1=edges.npy --test target=classes.npy --json > tested.json 2> why.txt
    test \$? = 1 && grep -q '\"loss\": null' tested.json && grep -q \"warning: the loss on the test data is not a number: row 49 of 'nan.npy', data of 'input0', has nan at .15.\" why.txt"
try train_no_whole_graph train gcn.dynamo.onnx --budget 100% --data input0=nodes.npy --data input1=edges.npy --data target=more_classes.npy
try train_turned_edges train gcn.dynamo.onnx --budget 100% --data input0=nodes.npy --data input1=nodes.npy --data target=classes.npy
for loss in cross-entropy mse l1 smooth-l1 huber bce kl-div cosine; do
    "$memplan" plan gcn.dynamo.onnx --device cpu --loss $loss --budget floor+30% -o loss.json > /dev/null && "$memplan" train gcn.dynamo.onnx --plan loss.json --steps 2 --json
done > losses.out
weighted="--data input0=nodes.npy --data input1=edges.npy --data target=classes.npy --budget 100% --steps 1 --json"
digits 7 '\2' | npy '|u1' '7,' > twos.npy
printf '\1\2\3\4\5\6\377' | npy '|i1' '7,' > negative.npy
loss_of() { "$memplan" train gcn.dynamo.onnx $weighted --no-before "$@" | grep -A 1 losses; }
loss_of > plain.loss
loss_of --class-weights twos.npy > twos.loss
loss_of --class-weights 2,2,2,2,2,2,2 > written.loss
loss_of --label-smoothing 0.5 --class-weights 1,2,3,4,5,6,7 > smoothed.loss
holds train_knows_losses sh -c "
    test \$(grep -c '\"identical\": true' losses.out) = 8 && test -s plain.loss && cmp plain.loss twos.loss && cmp plain.loss written.loss &&
    test -s smoothed.loss && ! cmp -s plain.loss smoothed.loss"
try train_no_weights train gcn.dynamo.onnx --budget 100% --class-weights 1,heavy
try train_few_weights train gcn.dynamo.onnx --budget 100% --class-weights 1,2
try train_negative_weights train gcn.dynamo.onnx --budget 100% --class-weights negative.npy
try train_absent_weights train gcn.dynamo.onnx --budget 100% --loss bce --pos-weight absent.npy
try train_no_index train gcn.dynamo.onnx --budget 100% --ignore-index many
holds train_counts_no_label sh -c "! '$memplan' train gcn.dynamo.onnx $weighted --ignore-index 6 2> why.txt && grep -q \"all 50 labels of 'target' are 6, which the loss ignores\" why.txt"
try train_other_loss train gcn.dynamo.onnx --budget 100% --loss mse --label-smoothing 0.1
try train_bad_picture train bert.onnx --budget 100% -o loss.jpeg
hash() { "$memplan" train bert.onnx --budget floor+80% --no-before --json "$@" | grep weights_hash; }
hash --steps 4 --save whole.st > whole.hash
hash --steps 2 --save half.st > half.hash
hash --steps 2 --resume half.st > rest.hash
holds train_resumes sh -c "cmp whole.hash rest.hash && ! cmp -s whole.hash half.hash"
holds train_saves_what_it_is sh -c "grep -q tokens.weight whole.st && grep -q optimizer.2:tokens.weight whole.st"
try train_other_optimizer train bert.onnx --budget 100% --resume half.st --optimizer sgd --no-before
head -c 1000 half.st > cut.st
try train_cut_state train bert.onnx --budget 100% --resume cut.st --no-before
holds train_without_memory sh -c "
    case '$build' in *san*) exit 0 ;; esac # sanitizers reserve more than any limit
    (ulimit -v 1500000; '$memplan' train resnet50.onnx --batch 24 --budget 100% --steps 2 --no-before 2> why.txt; test \$? = 1) &&
    grep -q 'there is no memory for an arena of [0-9]* bytes' why.txt"
holds train_disk_full sh -c "'$memplan' train bert.onnx --budget 100% --steps 2 --no-before --save /dev/full 2> why.txt; test \$? = 1 && grep -q 'No space left' why.txt"
holds train_nan_stops_and_keeps_what_was_saved sh -c "
    cp half.st kept.st
    '$memplan' train bert.onnx --budget 100% --optimizer sgd --lr 1e30 --steps 9 --no-before --save kept.st --save-every 100 2> why.txt
    test \$? = 1 && grep -q 'the loss is nan\|the loss is -*inf' why.txt && grep -q '; first not finite: .* elements of .*, by .* in ' why.txt && cmp half.st kept.st"
holds train_stops_when_asked_and_saves sh -c "
    '$memplan' train bert.onnx --budget 100% --steps 1000000 --no-before --save stopped.st > stopped.txt 2> why.txt &
    pid=\$!; sleep 1; kill -TERM \$pid; wait \$pid; test \$? = 0 && test -s stopped.st &&
    n=\$(sed -n 's/.* interrupted after step \([0-9]*\): .stopped.st. has .* goes on with step \([0-9]*\)\$/\1 \2/p' why.txt) && echo \"\$n\" &&
    '$memplan' train bert.onnx --budget 100% --steps 1 --no-before --resume stopped.st | tr '\n' ' ' | tr -s ' ' > resumed.txt &&
    grep -q \"as stopped.st has them after step \${n% *}; this training went on with step \${n#* }\\.\" resumed.txt"
holds train_killed_leaves_a_whole_file sh -c "
    '$memplan' train bert.onnx --budget 100% --steps 1000000 --no-before --save killed.st --save-every 1 > /dev/null 2>&1 &
    pid=\$!; sleep 1; kill -KILL \$pid; wait \$pid 2> /dev/null; '$memplan' train bert.onnx --budget 100% --steps 1 --no-before --resume killed.st > /dev/null"

weights() { "$memplan" train --budget 100% --steps 1 --no-before --loss mse --json "$@" | grep weights_hash; }
weights embedded.onnx > embedded.hash
# Its file is not there: an error, or drawn by rule.
try train_missing_weights train external.onnx --budget 100% --loss mse
weights external.onnx --random-weights > drawn.hash
holds train_says_that_weights_are_drawn sh -c "
    '$memplan' train external.onnx --budget 100% --loss mse -q --random-weights | grep -q 'from drawn weights' &&
    '$memplan' train external.onnx --budget 100% --loss mse --steps 1 --no-before -q --random-weights --save drawn.st > /dev/null &&
    '$memplan' train external.onnx --budget 100% --loss mse --steps 1 --no-before -q --resume drawn.st | grep -qv drawn"
sed 's/ data_location.*/ }\n  initializer { name: "v" data_type: 1 dims: 2 dims: 2 float_data: [1, 2, 3, 4] }/;
    s/ output: "y" }/ output: "t" }\n  node { name: "second" op_type: "MatMul" input: "t" input: "v" output: "y" }/' "$root/tests/cli/files/external.onnx.txt" |
    protoc-c --encode=onnx.ModelProto --proto_path=/usr/include/onnx onnx.proto > half.onnx
holds train_warns_of_some_drawn_weights sh -c "
    '$memplan' train half.onnx --budget 100% --loss mse --steps 1 -q 2> why.txt | grep -q 'from some drawn weights' &&
    grep -q 'half.onnx: warning: the file has no values for 1 of 2 parameters, which are drawn from seed 0' why.txt &&
    '$memplan' train half.onnx --budget 100% --loss mse --steps 1 -q --random-weights 2> why.txt > /dev/null && ! test -s why.txt"
printf '12345678\000\000\200\077\000\000\000\100\000\000\100\100\000\000\200\277' > weights.bin
weights external.onnx > external.hash
holds train_reads_external_weights sh -c "test -s embedded.hash && cmp embedded.hash external.hash && ! cmp -s embedded.hash drawn.hash"
head -c 20 weights.bin > cut.bin && mv cut.bin weights.bin
try train_cut_weights train external.onnx --budget 100% --loss mse
cp weights.bin ../weights.bin
try train_weights_outside train outside.onnx --budget 100% --loss mse
holds train_no_time sh -c "# the floor depends on what this processor's kernels need
    '$memplan' train resnet50.onnx --batch 64 --budget 1.02GiB --time-limit 0.001 2> why.txt; test \$? = 3 && test \$(wc -l < why.txt) = 1 &&
    grep -q '^memplan: not known whether anything fits 1.02 GiB: the search was stopped before it found a plan (floor [0-9.]* [MG]iB)$' why.txt"
holds train_compares_no_times_of_three_steps sh -c "
    '$memplan' train bert.onnx --budget floor+80% --steps 3 | grep -q 'time of a step.*too few steps' &&
    '$memplan' train bert.onnx --budget floor+80% --steps 6 | grep -q 'time of a step.*  [-+0][0-9.]* %'"
