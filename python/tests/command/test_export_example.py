"""examples/export_pytorch.py writes a training graph: batch normalizations and dropout are there, weights are not."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import subprocess

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build/memplan"


@pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="PyTorch exports with the package onnx")
def test_the_example_exports_a_training_graph(tmp_path: pathlib.Path) -> None:
    import onnx

    spec = importlib.util.spec_from_file_location("export_pytorch", ROOT / "examples/export_pytorch.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    path = tmp_path / "net.onnx"
    example.export(example.Network(), (torch.zeros(2, 3, 32, 32),), str(path))
    graph = onnx.load(path).graph
    kinds = [node.op_type for node in graph.node]
    assert (kinds.count("BatchNormalization"), kinds.count("Dropout"), kinds.count("Conv")) == (2, 1, 2)
    assert len(graph.initializer) == 0
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    if PROGRAM.exists():
        answer = subprocess.run(
            [PROGRAM, "estimate", path, "--batch", "64", "--json"], capture_output=True, text=True, check=True
        )
        assert answer.stderr == ""  # no warning of an inference graph
        # 896 + 64 + 18496 + 128 + 650, counted by hand
        assert json.loads(answer.stdout)["parameter_bytes"] // 4 in range(20234, 20234 + 64 * 10)
