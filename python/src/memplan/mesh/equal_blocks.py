"""Detection of equal blocks, of which only a few need to be captured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from memplan.graph.unroll import new_static, primals_of, require, unroll
from memplan.plan.holders import module_of

KEPT = 4  # number of equal blocks that are captured: the first two and the last two
PLAIN = (bool, int, float, str, type(None))


def looks(block: nn.Module) -> list[Any]:
    """Return the properties by which blocks are compared: classes, parameters, buffers, plain attributes of modules."""
    tensors = [*block.named_parameters(), *block.named_buffers()]
    seen: list[Any] = [(name, tuple(t.shape), t.dtype, t.requires_grad) for name, t in tensors]
    for name, module in block.named_modules():
        seen += [name, type(module)]
        seen += [value for key, value in sorted(vars(module).items()) if key[0] != "_" and type(value) in PLAIN]
    return seen


def are_alike(a: list[Any], place_of_a: int, b: list[Any], place_of_b: int) -> bool:
    """Whether two blocks of a list have equal properties, except for attributes that equal the block's own index."""
    return len(a) == len(b) and all(x == y or (x == place_of_a and y == place_of_b) for x, y in zip(a, b))


def lists(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.ModuleList | nn.Sequential]]:
    """Yield the outermost lists of modules with their names."""
    for name, child in module.named_children():
        if isinstance(child, (nn.ModuleList, nn.Sequential)):
            yield path + name, child
        else:
            yield from lists(child, f"{path}{name}.")


@dataclass(frozen=True)
class Repeats:
    """`n` omitted blocks of the list `path`. The equal blocks begin at index `first`; the first two of them are captured."""

    path: str
    first: int
    n: int

    def starts(self, nodes: list[fx.Node]) -> list[int]:
        """Return the positions of the second and third captured block in forward, and in backward (third block first)."""
        named = [f"{self.path}.{self.first + k}" for k in (1, 2)]
        found: dict[tuple[str, bool], int] = {}
        for i, node in enumerate(nodes):
            inside = module_of(node).removeprefix("module.") + "."
            for name in named:
                if inside.startswith(name + "."):
                    found.setdefault((name, "nn_module_stack" not in node.meta), i)
        wanted = [(named[0], False), (named[1], False), (named[1], True), (named[0], True)]
        require(all(key in found for key in wanted), f"{named[0]} and {named[1]} do not exist")
        return [found[key] for key in wanted]

    def unroll(self, joint: fx.GraphModule, n_forward_outputs: int, static: Any) -> list[int]:
        """Insert the omitted blocks into a joint graph. Return the indices of the graph's parameters and buffers."""
        primals = primals_of(joint.graph)
        nodes = [primals[k] for k in static]
        unroll(joint, self.n, n_forward_outputs, self.starts)
        return new_static(joint.graph, nodes)


def shortened(model: nn.Module) -> tuple[Repeats, dict[str, str]] | None:
    """Remove blocks that are equal to other blocks from the model. Also return a map from old to new parameter names."""
    best: tuple[int, int, str, Any] = (KEPT, 0, "", None)
    for path, items in lists(model):
        seen = [looks(item) for item in items]
        first = 0
        for k in range(1, len(seen) + 1):
            if k == len(seen) or not are_alike(seen[first], first, seen[k], k):
                best = max(best, (k - first, first, path, items), key=lambda found: found[0])
                first = k
    n, first, path, items = best
    if items is None:
        return None
    now: dict[str, str] = {}
    for k in range(first + 2, len(items)):
        instead = first + 1 if k < first + n - 2 else k - (n - KEPT)
        now |= {f"{path}.{k}.{name}": f"{path}.{instead}.{name}" for name, _ in items[k].named_parameters()}
    del items[first + 2 : first + n - 2]
    return Repeats(path, first, n - KEPT), now
