#!/bin/sh
# demo_training.sh MEMPLAN FOLDER - trainings within a budget, a few minutes in total:
# - ResNet-50 for a few steps, with and without a plan
# - a small language model on the bytes of a text
# - an image classifier on IDX files (Debian's dataset-fashion-mnist), until it classifies 88 % of the test images correctly
set -e
memplan=$1 folder=$2
cd "$(dirname "$0")/.."
mkdir -p "$folder"
say() { printf '\n$ %s\n' "$*"; }
say memplan train examples/resnet50.onnx --batch 4 --budget floor+50% --steps 5
"$memplan" train examples/resnet50.onnx --batch 4 --budget floor+50% --steps 5
say memplan train examples/gpt_bytes.onnx --budget floor+50% --data text=LICENSE --steps 600 --lr 0.003 --warmup 20 --lr-schedule cosine
"$memplan" train examples/gpt_bytes.onnx --budget floor+50% --data text=LICENSE --steps 600 --lr 0.003 --warmup 20 --lr-schedule cosine \
    --no-before -o "$folder/loss.png"
pictures="
  $(realpath "$folder/loss.png")"
for file in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
    gunzip -c "/usr/share/datasets/fashion-mnist/$file.gz" > "$folder/$file"
done
set -- train examples/fashion_cnn.onnx --batch 100 --budget floor+50% --data "image=$folder/train-images-idx3-ubyte" \
    --data "target=$folder/train-labels-idx1-ubyte" --test "image=$folder/t10k-images-idx3-ubyte" \
    --test "target=$folder/t10k-labels-idx1-ubyte" --steps 600 --lr 0.005 --warmup 50 --lr-schedule cosine --no-before
say memplan "$@"
"$memplan" "$@" -o "$folder/loss_fashion.png" > "$folder/fashion.txt"
cat "$folder/fashion.txt"
awk '/accuracy there/ { right = $3 } END { exit right < 88 }' "$folder/fashion.txt" || { echo "demo: less than 88 % are right" >&2; exit 1; }
pictures="$pictures
  $(realpath "$folder/loss_fashion.png")"
printf '\nPictures:%s\n' "$pictures"
