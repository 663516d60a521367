#!/bin/sh
# demo.sh MEMPLAN FOLDER - a demonstration of about a minute. It plans ResNet-50 at batch 32 within 60 % of its keep-all memory, then
# checks and draws the plan. It trains a small network for a few steps as planned and measures the memory. At the end it prints
# the command for your own model.
set -e
memplan=$1 folder=$2
cd "$(dirname "$0")/.."
mkdir -p "$folder"
say() { printf '\n$ %s\n' "$*"; }
run() { say memplan "$@"; "$memplan" "$@"; }
run plan examples/resnet50.onnx --batch 32 --budget 60% --time-limit 15 -o "$folder/plan.json"
run check examples/resnet50.onnx "$folder/plan.json"
for file in timeline.svg timeline.png; do run timeline examples/resnet50.onnx --plan "$folder/plan.json" -o "$folder/$file"; done
for file in model.svg model.png; do run draw examples/resnet50.onnx --plan "$folder/plan.json" -o "$folder/$file"; done
run train examples/fashion_cnn.onnx --batch 16 --budget floor+50% --steps 5
printf '\nPictures:\n'
for file in timeline.svg timeline.png model.svg model.png; do printf '  %s\n' "$(realpath "$folder/$file")"; done
printf '\nWhole trainings, some minutes: make demo-training\n'
printf '\nYour own model (how it gets out of PyTorch: examples/export_pytorch.py):\n  %s plan model.onnx --batch 32 --budget 8GiB\n' "$memplan"
