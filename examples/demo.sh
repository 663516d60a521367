#!/bin/sh
# demo.sh MEMPLAN FOLDER - the main job on a real model: ResNet-50 at batch 32 within 60 % of the memory it would take.
set -e
memplan=$1 folder=$2
cd "$(dirname "$0")/.."
mkdir -p "$folder"
say() { printf '\n$ %s\n' "$*"; }
say memplan plan examples/resnet50.onnx --batch 32 --budget 60% -o "$folder/plan.json"
"$memplan" plan examples/resnet50.onnx --batch 32 --budget 60% -o "$folder/plan.json"
say memplan check examples/resnet50.onnx "$folder/plan.json"
"$memplan" check examples/resnet50.onnx "$folder/plan.json"
