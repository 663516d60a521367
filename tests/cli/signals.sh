# signals.sh - SIGTERM ends a command as Ctrl-C does: with the best so far, and within about a second even in the middle of a step.
cp "$root/tests/gradients/bert.onnx" .
screen() { python3 "$root/tests/cli/terminal.py" --signal TERM "$@"; }
holds signal_plan_is_written screen --stop-at 'best +' --says stopping --says 'fits the budget' 80 24 \
    "$memplan" plan resnet50.onnx --batch 32 --budget floor+40% --effort thorough -o termed.json
holds signal_plan_holds "$memplan" check resnet50.onnx termed.json --batch 32
holds signal_no_plan_yet screen --stop-at 'no plan yet' --status 143 --says 'not known whether it fits' 80 24 \
    "$memplan" plan resnet50.onnx --batch 32 --budget 25% --effort thorough
holds signal_sweep screen --stop-at 'best +' --says 'cut short' 80 0 "$memplan" sweep resnet50.onnx --batch 32 --effort thorough -o termed.svg
holds signal_sweep_is_drawn grep -q '</svg>' termed.svg
holds signal_fit screen --stop-at 'best +' --says 'cut short' 80 0 "$memplan" fit resnet50.onnx --memory 2GiB --effort thorough
holds signal_fit_quiet sh -c "timeout --preserve-status 4 '$memplan' fit resnet50.onnx --memory 2GiB --effort thorough -q > quiet.out 2> quiet.err
    grep -Eq 'so far|was stopped' quiet.out && grep -q 'cut short' quiet.err"
# timeout(1) sends its signal to the child and then to the process group; the two signals are one request.
doubled() {
    python3 - "$memplan" "$@" <<'PYTHON'
import signal, subprocess, sys, time
run = subprocess.Popen([*sys.argv[1:], "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
time.sleep(2)
for _ in range(2):
    run.send_signal(signal.SIGTERM)
    time.sleep(0.001)
out, err = run.communicate(timeout=30)
sys.exit(run.returncode != 0 or "so far" not in out or err.count("cut short") != 1)
PYTHON
}
holds signal_doubled doubled fit resnet50.onnx --memory 2GiB --effort thorough
# Ctrl-C under -q: the answer so far, or none with status 130, and one sentence that the search was cut short
cut_short() {
    python3 - "$memplan" "$@" <<'PYTHON'
import signal, subprocess, sys, time
run = subprocess.Popen([*sys.argv[1:], "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
time.sleep(3)
run.send_signal(signal.SIGINT)
out, err = run.communicate(timeout=30)
is_answer = run.returncode == 0 or (run.returncode == 130 and "until it was stopped" in out)
has_none = run.returncode == 130 and not out and "stopped before a plan was found" in err
sys.exit(not (has_none or (is_answer and out.count("\n") == 1 and err.count("cut short") == 1)))
PYTHON
}
holds signal_quiet_plan cut_short plan resnet50.onnx --batch 32 --budget floor+20% --effort thorough
holds signal_quiet_sweep cut_short sweep resnet50.onnx --batch 32 --effort thorough -o quiet.svg
holds signal_quiet_fit cut_short fit resnet50.onnx --memory 2GiB --effort thorough
holds signal_quiet_pipeline cut_short plan llama2-7b --batch 8 --micro-batches 8 --mesh pp=4 --budget 44GiB --effort thorough
holds signal_report screen --stop-at 'best +' 80 0 "$memplan" report resnet50.onnx --batch 32 --budget floor+40% --effort thorough -o termed.html
holds signal_report_is_whole grep -q '</html>' termed.html
holds signal_profile screen --stop-at 'of 1000000' --says 'Stopped before all was measured' 200 0 \
    "$memplan" profile fashion_cnn.onnx --batch 1 --steps 1000000 -o termed.costs
holds signal_train_saves screen --stop-at 'of 1000000' --says 'interrupted after step' --says 'has parameters and state after it' 80 0 \
    "$memplan" train bert.onnx --budget 100% --no-before --steps 1000000 --save termed.safetensors
holds signal_train_goes_on "$memplan" train bert.onnx --budget 100% --no-before --steps 1 --resume termed.safetensors
holds signal_train_says_what_is_not_saved screen --stop-at 'run 1 of 2' --status 143 --says 'the plan was not run; nothing was saved' 80 0 \
    "$memplan" train bert.onnx --budget 100% --steps 1000000 --save never.safetensors
# A step of minutes: the square of a large matrix, squared again and again.
awk 'BEGIN { print "ir_version: 8 opset_import { version: 15 } graph { name: \"long\""
    for (k = 0; k < 1000; k++) printf "node { name: \"p%d\" op_type: \"MatMul\" input: \"%s\" input: \"x\" output: \"y%d\" }\n", k, k ? "y" k - 1 : "x", k
    print "node { name: \"last\" op_type: \"MatMul\" input: \"y999\" input: \"w\" output: \"z\" }"
    print "input { name: \"x\" type { tensor_type { elem_type: 1 shape { dim { dim_value: 4096 } dim { dim_value: 4096 } } } } }"
    print "input { name: \"w\" type { tensor_type { elem_type: 1 shape { dim { dim_value: 4096 } dim { dim_value: 1 } } } } }"
    print "output { name: \"z\" type { tensor_type { elem_type: 1 } } } }" }' |
    protoc-c --encode=onnx.ModelProto --proto_path=/usr/include/onnx onnx.proto > long_step.onnx
# catches PID MASK: waits until the program catches one of these signals; in vain if it ends, or does not in half a minute.
catches() {
    for k in $(seq 600); do
        [ $((0x0$(sed -n 's/^SigCgt:[[:space:]]*[0-9a-f]*\([0-9a-f]\{4\}\)$/\1/p' "/proc/$1/status") & $2)) = 0 ] || return 0
        kill -0 "$1" || return 1
        sleep 0.05
    done
    return 1
}
# in_a_step SIGNAL STATUS SENTENCE COMMAND...: sends the signal once the command counts the time of a step.
in_a_step() {
    sent=$1 expected=$2 sentence=$3
    shift 3
    "$@" > late.out 2> late.err &
    pid=$!
    catches $pid 0x2000 || return 1
    kill -"$sent" $pid
    wait $pid
    ended=$?
    cat late.err
    [ $ended = "$expected" ] && grep -q "step that did not end; $sentence" late.err && [ "$(wc -l < late.err)" = 1 ]
}
# A second signal ends the process at once, without the message of the deadline.
second() {
    "$memplan" "$@" > late.out 2> late.err &
    pid=$!
    catches $pid 0x2000 || return 1
    kill -TERM $pid
    sleep 0.4
    kill -TERM $pid
    wait $pid
    [ $? = 143 ] && [ ! -s late.err ]
}
holds signal_second second profile long_step.onnx --data x --loss mse -o never.json
printf 'what was there' > kept.safetensors
holds signal_train_in_a_step in_a_step TERM 143 'nothing was saved yet' \
    "$memplan" train long_step.onnx --data x --budget 100% --steps 2 --no-before --loss mse --save kept.safetensors
holds signal_train_kept_the_old_save grep -qx 'what was there' kept.safetensors
holds signal_train_in_a_first_run in_a_step TERM 143 'nothing was to be saved' "$memplan" train long_step.onnx --data x --budget 100% --steps 2 --loss mse
holds signal_profile_in_a_step in_a_step TERM 143 'nothing is written' "$memplan" profile long_step.onnx --data x --loss mse -o never.json
holds signal_profile_wrote_nothing test ! -e never.json
# From the first second on: each of these waits for a file that does not come.
mkfifo never
before_anything() {
    exec 8<> never
    "$memplan" "$@" < never > early.out 2> early.err 8<&- &
    pid=$!
    catches $pid 0x4000
    kill -TERM $pid
    wait $pid
    ended=$?
    exec 8<&-
    cat early.err
    [ $ended = 143 ] && [ "$(cat early.err)" = 'memplan: stopped before it was done' ]
}
for command in 'estimate -' 'plan - --budget 50%' 'sweep -' 'fit - --memory 1GiB' 'train - --budget 50%' 'timeline - -o never.svg' 'check - termed.json'; do
    holds "signal_before_${command%% *}" before_anything $command
done
