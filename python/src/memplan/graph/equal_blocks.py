"""Equal blocks of a captured call: AOTAutograd traces four of them, and memplan inserts the others into the joint graph.

A captured call of 24 equal blocks contains one list of nodes 24 times. `shortened` finds this list and omits all blocks but the
first two and the last two. `EqualBlocks.insert` inserts the omitted blocks into the joint graph of forward and backward (see
memplan.graph.unroll). The result equals the joint graph of the whole call: names, values, modules, source lines, and sequence
numbers of autograd.

Blocks are equal if corresponding nodes have the same target, layout, type and plain arguments. Corresponding nodes read either
the same value, or values at the same distance in the list.

A block that differs in anything that the call records (a hook, a buffer that is written, a type, a flag) has other nodes and
ends the list. If the joint graph is not regular, `insert` raises Unequal, and the whole call is traced.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from memplan.graph.capture import tensors_of
from memplan.graph.joint import flat_outputs, written_inputs
from memplan.graph.unroll import Parts, Position, Unequal, Unrolled, listed, plain_arguments, primals_of, require
from memplan.torch_internals.fake import SOURCE, are_same, cloned, fake_like, is_plain_fake, rename
from memplan.torch_internals.tensors import tree_iter, version_of

KEPT = 4  # number of equal blocks that are traced: the first two and the last two
LEAST_OMITTED = 2  # minimum number of omitted blocks
LEAST_NODES = 8  # minimum number of nodes in a block
MOST_LENGTHS = 4  # maximum number of block lengths that are tried
MARK = "memplan"  # key in nn_module_stack; the value contains the position of a node in the list of the whole call
STACKS = ("nn_module_stack", "fwd_nn_module_stack")
NUMBERED = re.compile(r"(.*?)(?:_(\d+))?", re.DOTALL)
CONSTANT = re.compile(r"(_tensor_constant)(\d+)")


def token(node: fx.Node, kinds: dict[fx.Node, Any]) -> Hashable:
    """Return the operation and the result of a node without its operands, or None if blocks with such a node are traced."""
    values = list(tree_iter(node.meta.get("example_value")))
    if not all(isinstance(v, (int, float, bool, type(None))) or is_plain_fake(v) for v in values):
        return None
    layouts = [
        (tuple(v.shape), v.stride(), v.storage_offset(), v.dtype, v.device, v.requires_grad, type(v), v.is_leaf)
        if isinstance(v, torch.Tensor)
        else v
        for v in values
    ]
    if node.op == "placeholder":
        is_written = any(isinstance(v, torch.Tensor) and version_of(v) > 0 for v in values)
        return None if is_written else (node.op, str(layouts), kinds[node])
    return node.op, node.target if node.op != "get_attr" else node.name, str(layouts), plain_arguments(node)


def lengths(tokens: Sequence[Hashable]) -> list[int]:
    """Return possible lengths of a block, the most probable first: distances of equal nodes that occur once in a block."""
    places: dict[Hashable, list[Position]] = {}
    for i, found in enumerate(tokens):
        if found is not None:
            places.setdefault(found, []).append(i)
    votes: Counter[int] = Counter()
    for at in places.values():
        if len(at) >= KEPT + LEAST_OMITTED - 1:
            distance, n = Counter(b - a for a, b in zip(at, at[1:])).most_common(1)[0]
            votes[distance] += n >= KEPT + LEAST_OMITTED - 2
    return [length for length, n in votes.most_common(MOST_LENGTHS) if n and length >= LEAST_NODES]


@dataclasses.dataclass(frozen=True)
class Run:
    """`n` equal lists of nodes, each `length` nodes long, from position `first`."""

    first: Position
    length: int
    n: int

    @property
    def n_omitted(self) -> int:
        return self.n - KEPT

    @property
    def omitted(self) -> range:
        begin = self.first + KEPT // 2 * self.length
        return range(begin, begin + self.n_omitted * self.length)


def longest_run(tokens: Sequence[Hashable], inputs: Sequence[Sequence[Position]], length: int) -> Run | None:
    """Return the equal lists of this length that occur most often in sequence."""

    def corresponds(i: Position) -> bool:
        here, there = inputs[i], inputs[i + length]
        same = tokens[i] is not None and tokens[i] == tokens[i + length] and len(here) == len(there)
        return same and all(b in (a, a + length) for a, b in zip(here, there))

    best, begin = (0, 0), 0
    for i in range(len(tokens) - length + 1):
        if i == len(tokens) - length or not corresponds(i):
            best, begin = max(best, (i - begin, -begin)), i + 1
    n_nodes, first = best[0], -best[1]
    # a value that all blocks read must be made before the first block
    shared = [a for i in range(first, first + n_nodes) for a, b in zip(inputs[i], inputs[i + length]) if a == b and a >= first]
    if shared:
        n_nodes, first = n_nodes - (max(shared) + 1 - first), max(shared) + 1
    n = n_nodes // length + 1
    return Run(first, length, n) if n >= KEPT + LEAST_OMITTED else None


class Whole:
    """The list of nodes of a whole captured call, and its equal blocks."""

    def __init__(self, nodes: list[fx.Node], placeholders: list[fx.Node], run: Run) -> None:
        self.nodes, self.placeholders, self.run = nodes, placeholders, run
        self.at = {node: i for i, node in enumerate(nodes)}

    def instead(self, reader: Position, read: Position) -> Position:
        """Return the position of the traced node that a traced node reads instead of the node `read`. Raises Unequal."""
        if read not in self.run.omitted:
            return read
        end = self.run.first + self.run.n * self.run.length
        require(reader < end, f"{self.nodes[reader].name} reads a value of an omitted block")
        found = read - self.run.n_omitted * self.run.length
        require(found >= self.run.first, f"{self.nodes[reader].name} reads a value of an earlier block")
        return found


def shortened(module: fx.GraphModule, kinds: Sequence[Any]) -> EqualBlocks | None:
    """Return the equal blocks of a captured call, or None if it has too few. `kinds`: a description of each input."""
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    if len(placeholders) != len(kinds):
        return None
    nodes = listed(module.graph)
    at = {node: i for i, node in enumerate(nodes)}
    kind_of = dict(zip(placeholders, kinds))
    tokens = [token(node, kind_of) for node in nodes]
    inputs = [[at[a] for a in node.all_input_nodes] for node in nodes]
    runs = [run for length in lengths(tokens) if (run := longest_run(tokens, inputs, length)) is not None]
    with contextlib.suppress(Unequal):  # nodes behind the blocks may read values of omitted blocks
        return EqualBlocks(module, Whole(nodes, placeholders, max(runs, key=lambda run: len(run.omitted)))) if runs else None
    return None


class EqualBlocks:
    """A captured call with equal blocks. `module` is the call without the omitted blocks, with all inputs. Raises Unequal."""

    def __init__(self, module: fx.GraphModule, whole: Whole) -> None:
        self.whole = whole
        graph = fx.Graph()
        made: dict[fx.Node, fx.Node] = {}

        def copy(node: fx.Node, reader: Position) -> None:
            def argument(a: fx.Node) -> fx.Node:
                return made[whole.nodes[whole.instead(reader, whole.at[a])]] if a in whole.at else made[a]

            made[node] = graph.node_copy(node, argument)
            made[node].meta = dict(node.meta)
            if hasattr(node, SOURCE):
                setattr(made[node], SOURCE, getattr(node, SOURCE))

        for node in module.graph.nodes:
            place = whole.at.get(node, len(whole.nodes))
            if node.op == "placeholder" or place not in whole.run.omitted:
                copy(node, place)
                if node.op not in ("placeholder", "output"):
                    stack = node.meta.get(STACKS[0]) or {}
                    made[node].meta[STACKS[0]] = {MARK: (str(place), torch.nn.Module), **stack}
        self.module = fx.GraphModule(module, graph)
        self.module.meta = module.meta
        for name, value in vars(module).items():  # dynamo's notes for AOTAutograd
            if name not in vars(self.module):
                setattr(self.module, name, value)

    def insert(self, joint: fx.GraphModule, n_forward_outputs: int) -> None:
        """Insert the omitted blocks into the joint graph of the shortened call. Raises Unequal."""
        require(len(primals_of(joint.graph)) == len(self.whole.placeholders), "its inputs are split or joined")
        with_marks = {node: place for node in joint.graph.nodes if (place := marked(node)) is not None}
        written = written_inputs(joint.graph, primals_of(joint.graph), n_forward_outputs).values()
        at = [self.whole.at.get(p, 0) for p, q in zip(self.whole.placeholders, primals_of(joint.graph)) if q in written]
        require(all(place < self.whole.run.first for place in at), "an input is overwritten")
        Inserted(joint.graph, self.whole, with_marks, n_forward_outputs)
        for node in joint.graph.nodes:
            unmark(node)


def marked(node: fx.Node) -> Position | None:
    """Return the position, in the whole call, of the node that a joint node belongs to."""
    for name in STACKS:
        if (found := (node.meta.get(name) or {}).get(MARK)) is not None:
            return int(found[0])
    return None


def unmark(node: fx.Node) -> None:
    for name in STACKS:
        if MARK in (stack := node.meta.get(name) or {}):
            others = {key: value for key, value in stack.items() if key != MARK}
            node.meta[name] = others or None
            if not others and name == STACKS[0]:
                del node.meta[name]


def is_in_backward(node: fx.Node) -> bool:
    return STACKS[0] not in node.meta


class Inserted(Unrolled):
    """A joint graph of a shortened call, into which the omitted blocks are inserted as the whole call would have them."""

    def __init__(self, graph: fx.Graph, whole: Whole, marks: dict[fx.Node, Position], n_forward_outputs: int) -> None:
        self.whole, self.marks = whole, marks
        self.input_of = dict(zip(whole.placeholders, primals_of(graph)))
        self.input_in_whole = {made: given for given, made in self.input_of.items()}
        self.old_names = {node: node.name for node in graph.nodes}
        self.copied: dict[fx.Node, tuple[Parts, int, int]] = {}  # by inserted node: part, index within it, number of the copy
        super().__init__(graph, whole.run.n_omitted, n_forward_outputs, self.starts)
        self._number()

    def _are_alike(self, here: fx.Node, there: fx.Node) -> bool:
        if (constant := self._constant(here)) is None:
            return super()._are_alike(here, there)
        other = self._constant(there)
        return other is not None and are_same(constant, other)

    def _constant(self, node: fx.Node) -> torch.Tensor | None:
        value = getattr(self.graph.owning_module, str(node.target), None) if node.op == "get_attr" else None
        return value if isinstance(value, torch.Tensor) else None

    def starts(self, nodes: list[fx.Node]) -> list[Position]:
        """Return the positions of the second and third traced block in forward, and in backward (third block first)."""
        run = self.whole.run
        second, third = run.first + run.length, run.first + (run.n - 2) * run.length
        found: dict[tuple[Position, bool], Position] = {}
        for i, node in enumerate(nodes):
            place = self.marks.get(node, -1)
            for begin in (second, third):
                if begin <= place < begin + run.length:
                    found.setdefault((begin, is_in_backward(node)), i)
        wanted = [(second, False), (third, False), (third, True), (second, True)]
        require(all(key in found for key in wanted), "a block has no forward or no backward")
        return [found[key] for key in wanted]

    def place_in_whole(self, parts: Parts, place: Position, copy: int) -> Position:
        """Return the position in the whole call for copy 0 to n + 1, from the position for the second captured part."""
        n_before = (self.n + 1 - copy) * self.whole.run.length
        return place - n_before if parts is self.forward else place + n_before

    def _input(self, parts: Parts, k: int, copy: int) -> fx.Node:
        second = self.nodes[parts.second + k]
        require(parts is self.forward and second in self.input_in_whole, f"{second.name} is an input of backward")
        at = self.place_in_whole(parts, self.whole.at[self.input_in_whole[second]], copy)
        require(0 <= at < len(self.whole.nodes) and self.whole.nodes[at].op == "placeholder", second.name)
        return self.input_of[self.whole.nodes[at]]

    def _prepare(self) -> None:
        """Exchange inputs: a part may end with the first inputs of the next block, which is another one in the whole call."""
        constants = [n for n in self.graph.nodes if self._constant(n) is not None]
        require(all(n.name == n.target for n in constants), "nodes share a constant")
        for k in range(self.forward.length):
            if self.nodes[self.forward.second + k].op == "placeholder":
                self.made[self.forward.first + k] = self._input(self.forward, k, 0)

    def _operator(self, parts: Parts, k: int, copy: int) -> fx.Node:
        made, second = super()._operator(parts, k, copy), self.nodes[parts.second + k]
        if (mark := self.marks.get(second)) is not None:
            self._describe(made, self.whole.nodes[self.place_in_whole(parts, mark, copy)])
        if (constant := self._constant(second)) is not None:
            made.target = made.name
            setattr(self.graph.owning_module, made.name, cloned(constant))
        self.copied[made] = parts, k, copy
        return made

    def _describe(self, made: fx.Node, of: fx.Node) -> None:
        """Take module and source line from the node of the whole call."""
        for name in ("nn_module_stack", "source_fn_stack"):
            for key in (name, f"fwd_{name}"):
                if key in made.meta:
                    made.meta[key] = of.meta.get(name)
        if "stack_trace" in of.meta and "stack_trace" in made.meta:
            made.meta["stack_trace"] = of.meta["stack_trace"]

    def _like(self, value: torch.Tensor, storage: Any) -> Any:
        return fake_like(value, storage)

    def _return(self, output: fx.Node, n_forward_outputs: int) -> None:
        descriptions = list(tree_iter(output.meta.get("desc")))
        super()._return(output, n_forward_outputs)
        outputs = flat_outputs(self.graph)
        output.args = (outputs,)
        if len(descriptions) != n_forward_outputs + len(self.given):
            return
        like = next((d for d in descriptions[n_forward_outputs:] if hasattr(d, "grad_of")), None)
        for k, (given, gradient) in enumerate(zip(self.given, outputs[n_forward_outputs:]), n_forward_outputs):
            if like is not None and gradient is not None and descriptions[k] is None:
                descriptions[k] = dataclasses.replace(like, grad_of=given.meta["desc"])
        output.meta["desc"] = descriptions

    # ---- names and sequence numbers

    def _number(self) -> None:
        """Give the nodes the names and the sequence numbers of autograd that the whole call would give them."""
        growth = self._growth()
        pairs = [self._pairs(self.forward, k) for k in range(self.forward.length)]
        steps = [b.meta["seq_nr"] - a.meta["seq_nr"] for a, b in pairs if "seq_nr" in a.meta and "seq_nr" in b.meta]
        step, begin = next(iter(steps), 0), int(self.nodes[self.forward.second].meta.get("seq_nr", 0))
        names, sequences = list[tuple[fx.Node, str]](), list[tuple[fx.Node, int]]()
        for node in self.graph.nodes:
            if node.op in ("placeholder", "output") or (node.op == "get_attr" and self._constant(node) is None):
                continue
            parts, k, copy = self.copied.get(node, (None, 0, self.n))
            old = node if parts is None else self.nodes[parts.first + k]
            base, number = numbered(self.old_names[old])
            in_forward, in_backward = growth.get((True, base), 0), growth.get((False, base), 0)
            if parts is self.forward:
                number += copy * in_forward
            elif parts is self.backward:
                number += self.n * in_forward + copy * in_backward
            else:
                at = self.at[node]
                number += self.n * (in_forward * (at >= self.forward.second) + in_backward * (at >= self.backward.second))
            names.append((node, f"{base}{number}" if node.op == "get_attr" else f"{base}_{number}" if number else base))
            sequences.append((node, self._sequence(old, parts, copy, begin, step)))
        self._move_constants([(node, name) for node, name in names if node.op == "get_attr"])
        rename(self.graph, names)
        for node, number in sequences:
            if "seq_nr" in node.meta:
                node.meta["seq_nr"] = number

    def _growth(self) -> dict[tuple[bool, str], int]:
        """Return by how much a block increases the numbers in names, by forward (or backward) and name of the operator."""
        found: dict[tuple[bool, str], int] = {}
        for parts in (self.forward, self.backward):
            for k in range(parts.length):
                first, second = (numbered(self.old_names[node]) for node in self._pairs(parts, k))
                found.setdefault((parts is self.forward, first[0]), second[1] - first[1])
        return found

    def _move_constants(self, names: list[tuple[fx.Node, str]]) -> None:
        values = [self._constant(node) for node, _ in names]
        for node, _ in names:
            delattr(self.graph.owning_module, str(node.target))
        for (node, name), value in zip(names, values):
            setattr(self.graph.owning_module, name, value)
            node.target = name

    def _sequence(self, old: fx.Node, parts: Parts | None, copy: int, begin: int, step: int) -> int:
        """Return a sequence number in the whole call. The third traced block has `step` numbers, from `begin` on."""
        number = int(old.meta.get("seq_nr", 0))
        if parts is self.forward:
            return number + copy * step
        if parts is self.backward and 0 <= number - begin < step:
            return number + (self.n - copy) * step
        return number + self.n * step if number >= begin else number


def numbered(name: str) -> tuple[str, int]:
    """Split the name of a node into the name of its operator and its number."""
    base, number = (CONSTANT.fullmatch(name) or NUMBERED.fullmatch(name)).groups()  # type: ignore[union-attr]
    return base, int(number or 0)


def kinds_of(inputs: Sequence[Any], of_model: Sequence[bool]) -> Iterator[Any]:
    """Yield a description of each input, equal for inputs that PyTorch and memplan treat alike."""
    for value, is_of_model in zip(inputs, of_model):
        yield str(type(value)), is_of_model, len(tensors_of(value))
