# draw.sh - draw: the blocks of a model, drawn as plan.json treats them.
for ending in svg png pdf dot; do holds "draw_$ending" sh -c "
    '$memplan' draw mlp.onnx --plan plan.json -o once.$ending && '$memplan' draw mlp.onnx --plan plan.json -o twice.$ending &&
    cmp once.$ending twice.$ending && test -s once.$ending"; done
try draw draw mlp.onnx --plan plan.json --depth 1 -o draw.svg
holds draw_shows_checkpoints_and_colours sh -c "
    grep -q 'its output is a checkpoint' draw.svg && grep -q '>recomputed: ' draw.svg && grep -q '>kept: ' draw.svg && grep -q '>up<' draw.svg"
try draw_training draw mlp.onnx --plan plan.json --training -o training.svg
holds draw_training_shows_three sh -c "
    grep -q '>forward<' training.svg && grep -q '>forward and backward<' training.svg && grep -q '>with recomputation<' training.svg &&
    grep -q '>again<' training.svg"
holds draw_training_keep_all sh -c "'$memplan' draw resnet50.onnx --batch 2 --training -o two.svg && ! grep -q '>with recomputation<' two.svg"
holds draw_graph_file "$memplan" draw graph.json --plan plan.json -o graph.svg
try draw_no_file draw mlp.onnx --plan plan.json
try draw_ending draw mlp.onnx --plan plan.json -o draw.jpeg
try draw_depth draw mlp.onnx --plan plan.json --depth 0 -o none.svg
try draw_lie draw mlp.onnx --plan lie.json -o none.svg
try draw_contradiction draw mlp.onnx --plan plan.json --batch 64 -o none.svg
try draw_unwritable draw mlp.onnx --plan plan.json -o no/such/folder.svg
holds draw_writes_nothing_on_failure test ! -e none.svg
holds pictures_are_xml sh -c "
    command -v python3 > /dev/null || exit 0
    python3 -c 'import sys, xml.dom.minidom; [xml.dom.minidom.parse(f) for f in sys.argv[1:]]' draw.svg training.svg graph.svg"
