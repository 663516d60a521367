# draw.sh - draw: the blocks of a model, drawn as plan.json treats them.
for ending in svg png pdf dot; do holds "draw_$ending" sh -c "
    '$memplan' draw mlp.onnx --plan plan.json -o once.$ending && '$memplan' draw mlp.onnx --plan plan.json -o twice.$ending &&
    cmp once.$ending twice.$ending && test -s once.$ending"; done
try draw draw mlp.onnx --plan plan.json --depth 1 -o draw.svg
holds draw_shows_checkpoints_and_colours sh -c "
    grep -q 'output is a checkpoint' draw.svg && grep -q '>recomputed: ' draw.svg && grep -q '>kept for backward: ' draw.svg && grep -q '>up<' draw.svg"
try draw_training draw mlp.onnx --plan plan.json --training -o training.svg
holds draw_training_shows_three sh -c "
    grep -q '>forward<' training.svg && grep -q '>forward and backward<' training.svg && grep -q '>as planned<' training.svg &&
    grep -q '>again<' training.svg"
holds draw_training_keep_all sh -c "'$memplan' draw resnet50.onnx --batch 2 --training -o two.svg && ! grep -q '>as planned<' two.svg"
holds draw_files_have_the_heading_as_title sh -c "grep -q '<title>.*: .* instead of ' draw.svg && '$memplan' draw mlp.onnx --plan plan.json -o draw.pdf || exit
    command -v pdfinfo > /dev/null || exit 0
    pdfinfo draw.pdf | grep -q '^Title: .*: .* instead of '"
holds draw_heading_names_the_step sh -c "'$memplan' draw gpt2 --batch 8 --dim layers=2 --micro-batches 4 --amp bf16 --mesh pp=2 --rank 1 --device h100 -o named_step.svg &&
    grep -q '<title>gpt2, batch 8, layers 2, pp=2, rank 1, fp32, amp bf16, h100' named_step.svg"
holds draw_graph_file "$memplan" draw graph.json --plan plan.json -o graph.svg
holds draw_training_names_no_colour_in_vain sh -c "grep -q '>recomputed<' training.svg && ! grep -q '>recomputed<' two.svg"
# A graph with labels and edges, which Graphviz itself lays out.
holds draw_dot_is_a_graph sh -c "'$memplan' draw resnet50.onnx --batch 2 -o graph.dot && grep -q 'label=.layer1.0.n12 operators' graph.dot &&
    test \$(grep -c ' -> ' graph.dot) -ge 14 && ! grep -q '_background\|pos=' graph.dot"
holds draw_dot_is_rendered sh -c "command -v dot > /dev/null || exit 0
    dot -Tsvg graph.dot > graph_dot.svg && grep -q '>layer4.1 . layer4.2<' graph_dot.svg && test \$(grep -c 'class=.edge' graph_dot.svg) -ge 14 &&
    dot -Tsvg once.dot > /dev/null"
try draw_training_dot draw mlp.onnx --training -o none.dot
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
