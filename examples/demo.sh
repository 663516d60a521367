#!/bin/sh
# demo.sh MEMPLAN FOLDER - the main job on a real model: ResNet-50 at batch 32 within 60 % of the memory it would take, drawn; a few steps
# of training as planned, measured; a small language model that learns the bytes of a text; and an image classifier that learns
# from IDX files (Debian's dataset-fashion-mnist) until it is right on 88 % of pictures that it has not seen.
set -e
memplan=$1 folder=$2
cd "$(dirname "$0")/.."
mkdir -p "$folder"
say() { printf '\n$ %s\n' "$*"; }
say memplan plan examples/resnet50.onnx --batch 32 --budget 60% -o "$folder/plan.json"
"$memplan" plan examples/resnet50.onnx --batch 32 --budget 60% -o "$folder/plan.json"
say memplan check examples/resnet50.onnx "$folder/plan.json"
"$memplan" check examples/resnet50.onnx "$folder/plan.json"
draw() { # FILE ARGUMENT...: a picture; the last lines say where they all are
    file=$folder/$1
    shift
    say memplan "$@" -o "$file"
    "$memplan" "$@" -o "$file"
    pictures="$pictures
  $(realpath "$file")"
}
draw timeline.svg timeline examples/resnet50.onnx --plan "$folder/plan.json"
draw timeline.png timeline examples/resnet50.onnx --plan "$folder/plan.json"
draw timeline_keep_all.png timeline examples/resnet50.onnx --batch 32
draw model.svg draw examples/resnet50.onnx --plan "$folder/plan.json"
draw model.png draw examples/resnet50.onnx --plan "$folder/plan.json"
draw curve.png sweep examples/resnet50.onnx --batch 32 --solvers segments,lower-set
say memplan train examples/resnet50.onnx --batch 4 --budget floor+50% --steps 5
"$memplan" train examples/resnet50.onnx --batch 4 --budget floor+50% --steps 5
say memplan train examples/gpt_bytes.onnx --budget floor+50% --data text=LICENSE --steps 600 --lr 0.003 --warmup 20 --schedule cosine
"$memplan" train examples/gpt_bytes.onnx --budget floor+50% --data text=LICENSE --steps 600 --lr 0.003 --warmup 20 --schedule cosine \
    --no-before -o "$folder/loss.png"
pictures="$pictures
  $(realpath "$folder/loss.png")"
for file in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
    gunzip -c "/usr/share/datasets/fashion-mnist/$file.gz" > "$folder/$file"
done
set -- train examples/fashion_cnn.onnx --batch 100 --budget floor+50% --data "image=$folder/train-images-idx3-ubyte" \
    --data "target=$folder/train-labels-idx1-ubyte" --test "image=$folder/t10k-images-idx3-ubyte" \
    --test "target=$folder/t10k-labels-idx1-ubyte" --steps 600 --lr 0.005 --warmup 50 --schedule cosine --no-before
say memplan "$@"
"$memplan" "$@" -o "$folder/loss_fashion.png" > "$folder/fashion.txt"
cat "$folder/fashion.txt"
awk '/accuracy there/ { right = $3 } END { exit right < 88 }' "$folder/fashion.txt" || { echo "demo: less than 88 % are right" >&2; exit 1; }
pictures="$pictures
  $(realpath "$folder/loss_fashion.png")"
printf '\nPictures:%s\n' "$pictures"
