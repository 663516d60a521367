# schemas.sh - JSON answers and files of the cases before it, against docs/reference/schemas.
try apply_json apply mlp.onnx plan.json --for paddle --json
try apply_json_too_coarse apply mlp.onnx plan.json --for pytorch --json
"$memplan" profile bert.onnx --steps 2 --json -o profiled.json > profile.json
"$memplan" train bert.onnx --budget 100% --steps 2 --profile --no-before --json > profiled_train.json
# An older validator than Debian 12 has (Ubuntu 22.04) knows no draft of 2020: it judges nothing.
holds json_is_as_its_schema_says sh -c "
    python=python3; \$python -c 'import jsonschema' 2> /dev/null || python=/usr/bin/python3
    \$python -c 'import jsonschema, sys; sys.exit(hasattr(jsonschema, \"Draft202012Validator\"))' && exit 0
    \$python -B '$root/tests/cli/schemas.py' '$root/docs/reference' . plan.json graph.json offload_graph.json state_graph.json packed.json modules.json branch_graph.json gcn.json \\
        measured.json costs.json algorithms.json partial.json train.json tested.json copying_slowly.json copying_host.json links.json profile.json profiled_train.json network.json"
