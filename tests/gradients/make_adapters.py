#!/usr/bin/env python3
"""adapters.safetensors: the network of bert.onnx with adapters (package peft, rank 4) beside two matrices of each layer, and a head that is
trained besides: the adapters' values, inputs, loss and gradients.

Run as  python3 tests/gradients/make_adapters.py  (needs torch, onnx and peft); tests/executor/test_gradients.c compares with it. A and B are
written as x A B reads them, in x rank and rank x out, and under the names that memplan gives them.
"""

import os

import onnx
import torch
from make_gradients import BERT, save
from onnx import numpy_helper
from peft import LoraConfig, inject_adapter_in_model


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    torch.manual_seed(5)
    model = BERT()
    values = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in onnx.load(os.path.join(folder, "bert.onnx")).graph.initializer}
    model.load_state_dict({name: values[name] for name in model.state_dict()})
    inject_adapter_in_model(LoraConfig(r=4, lora_alpha=8, target_modules=["qkv", "up"]), model)
    for p in model.head.parameters():
        p.requires_grad = True
    tensors = {"input": torch.randint(20, (3, 6)), "target": torch.randint(20, (3, 6))}
    for name, p in model.named_parameters():
        if ".lora_" in name:
            torch.nn.init.normal_(p, std=0.3)
    model.train()
    tensors["loss"] = model(tensors["input"], tensors["target"])
    tensors["loss"].backward()
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        ours = name.replace(".default", "")
        if ".lora_" in name:
            tensors[ours] = p.t()
        tensors["gradient of " + ours] = p.grad.t() if ".lora_" in name else p.grad
    save(os.path.join(folder, "adapters.safetensors"), tensors)


if __name__ == "__main__":
    main()
