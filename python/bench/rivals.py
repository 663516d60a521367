"""PyTorch's own means against memory, for comparison: checkpoints per block, torchtitan's selection of operators in them, and
the knob activation_memory_budget."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from memplan.graph.native import native_kernels
from memplan.graph.operators import drop_unread_arguments, has_batch_statistics, second_form
from memplan.run.execute import compile_graph
from memplan.torch_internals.capture import boxed, with_backward

aten = torch.ops.aten


def checkpoint_blocks(model: nn.Module, blocks: Callable[[nn.Module], list[nn.Module]]) -> nn.Module:
    """The model itself, with torch.utils.checkpoint around these modules."""
    for block in blocks(model):
        checkpointed(block)
    return model


def checkpointed(block: nn.Module, **options: Any) -> None:
    block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False, **options)  # type: ignore[method-assign]


# What torchtitan's selective checkpointing saves by operator: attention, and every second product of matrices, which here are
# also those with a bias (its models have none), and attention is also that of CPUs.
PRODUCTS = {aten.mm.default, aten.addmm.default}
SAVED = PRODUCTS | {
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten.max.default,
}


def selected(block: nn.Module) -> None:
    """Checkpointed but for these."""

    def contexts() -> Any:
        n_products = {False: 0, True: 0}  # in forward, and when it runs again

        def policy(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
            if operator in PRODUCTS:
                n_products[context.is_recompute] += 1
            is_second = operator in PRODUCTS and n_products[context.is_recompute] % 2 == 0
            saves = operator in SAVED and not is_second
            return CheckpointPolicy.MUST_SAVE if saves else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    checkpointed(block, context_fn=contexts)


def split_batch_normalization(graph: fx.Graph, node: fx.Node) -> None:
    """Takes the running statistics out of a batch normalization, into operators of their own: with them inside, autograd
    refuses what PyTorch's partitioner makes, as it runs them again when they have moved."""
    _, _, _, mean, variance, _, momentum, epsilon = node.args
    function, arguments = second_form(node)
    values = node.meta["val"]
    n = values[0].numel() // values[1].numel()
    with graph.inserting_before(node):

        def add(target: Any, *args: Any, like: Any) -> fx.Node:
            made = graph.call_function(target, args)
            made.meta["val"] = like.clone() if isinstance(like, torch.Tensor) else like
            return made

        again = add(function, *arguments, like=values[:3])
        results = [add(operator.getitem, again, k, like=None) for k in range(3)]
        for k, result in enumerate(results):
            result.meta["val"] = values[k]
        square = add(aten.reciprocal.default, add(aten.square.default, results[2], like=values[2]), like=values[2])
        biased = add(aten.sub.Tensor, square, epsilon, like=values[2])
        seen = (results[1], add(aten.mul.Tensor, biased, n / max(1, n - 1), like=values[2]))
        for old, new in zip((mean, variance), seen):
            part = add(aten.mul.Tensor, new, momentum, like=values[3])
            results.append(add(aten.add.Tensor, add(aten.mul.Tensor, old, 1 - momentum, like=values[3]), part, like=values[3]))
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def min_cut(budget: float) -> Callable[..., Any]:
    """A backend for torch.compile: PyTorch's min-cut partitioner with activation_memory_budget at this share, run by our
    executor, so that only the choice of what is recomputed differs."""

    def partition(joint: fx.GraphModule, inputs: Any, **known: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        drop_unread_arguments(joint.graph)
        for node in list(joint.graph.nodes):
            if node.op == "call_function" and has_batch_statistics(node):
                split_batch_normalization(joint.graph, node)
        joint.graph.eliminate_dead_code()
        joint.recompile()
        with config.patch(activation_memory_budget=budget):
            return min_cut_rematerialization_partition(joint, inputs, **known)

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        def compiler(graph: fx.GraphModule, _: Any) -> Any:
            return boxed(compile_graph(graph))

        with native_kernels():
            return with_backward(module, inputs, fw_compiler=compiler, bw_compiler=compiler, partition_fn=partition)

    return backend
