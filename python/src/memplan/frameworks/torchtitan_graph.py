"""torchtitan's graph trainer within a budget: the memory policy `memplan`.

from memplan.frameworks.torchtitan_graph import MemplanCompile
config.compile = MemplanCompile(enable=True, memplan_budget="70GiB")

The trainer has one graph of forward, loss and backward. memplan marks forward nodes as saved or recomputed, according to a
plan. torchtitan's own pass then inserts the recomputed nodes before their first reader in backward. memplan counts the peak
on the graph after this pass and after torchtitan's bucketing of collectives. If the peak is over the budget, memplan plans
again with a smaller target. On several ranks, all ranks use the marks of the first rank.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy
from torchtitan.experiments.graph_trainer.configs import GraphTrainerCompileConfig
from torchtitan.experiments.graph_trainer.fsdp_passes import (
    joint_transformer_block_bucketing_reordering_pass,
    reassign_collective_pgs_pass,
)
from torchtitan.experiments.graph_trainer.memory_policy import tag_with_memory_policy_pass
from torchtitan.experiments.graph_trainer.passes import construct_default_graph_passes
from torchtitan.experiments.graph_trainer.registry import (
    MEMORY_POLICY_REGISTRY,
    register_memory_policy,
    register_pass_pipeline,
)
from torchtitan.experiments.graph_trainer.selective_activation_remat import selective_activation_remat_pass
from torchtitan.tools.logging import logger

from memplan.budget import Budget, in_units, only_bytes, resolve
from memplan.checkpoints.coarse import Kept
from memplan.checkpoints.export import saved_by
from memplan.costs.measure import Cost
from memplan.errors import FallbackWarning
from memplan.frameworks.loop_memory import LOG
from memplan.graph.capture import Capture, Operation, storage_bytes, tensors_of
from memplan.graph.collectives import groups_in, is_functional, is_sum_on_host, is_wait_of_pytorch, part_of_sum, workspace_bytes
from memplan.graph.joint import flat_outputs
from memplan.graph.operators import draws, is_mutating
from memplan.memory.liveness import WORKSPACE, Liveness, keys_of
from memplan.plan.options import Options
from memplan.plan.planner import GraphPlanner
from memplan.ranks.rank_group import ALONE
from memplan.run.backend import COSTS
from memplan.torch_internals import collectives
from memplan.torch_internals.dispatch import OPERATOR

ROUNDS = 6  # number of plans tried, because torchtitan's pass may raise the peak above the plan's
EPILOGUE = ("lm_head", "loss")  # modules that the policy leaves unchanged; their backward precedes the backward of the blocks
AGAIN_SUFFIX = "_recomputed"  # torchtitan's pass adds this suffix to the names of recomputed nodes
NAME = "torchtitan's graph"
# torchtitan's passes that change the graph after it is marked
REARRANGING = (reassign_collective_pgs_pass, joint_transformer_block_bucketing_reordering_pass)
Pass = Callable[..., fx.GraphModule]
SAVE, AGAIN = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE


@dataclass(kw_only=True, slots=True)
class MemplanCompile(GraphTrainerCompileConfig):
    memory_policy: Literal["memplan", "default", "full", "eager", "sac_and_offload"] = "memplan"
    pass_pipeline: str = "memplan"

    memplan_budget: str = "auto"
    """Bytes of one device that a step may use: "70GiB", "60%" (of keeping everything), "min+20%" or "auto"."""

    memplan_reserve: str = "0"
    """Bytes of the budget for memory outside of the graph: accumulated gradients, communication buffers."""

    memplan_state_per_parameter: int = 2
    """Values of optimizer state per trained parameter element; 2 for Adam's two moments."""


def module_of(node: fx.Node) -> str:
    return str(node.meta.get("custom", {}).get("module_fqn", ""))


def layer_of(node: fx.Node) -> int:
    """Return the number of the block that contains a node, or -1."""
    name, _, rest = module_of(node).partition(".")
    number = rest.partition(".")[0]
    return int(number) if name == "layers" and number.isdecimal() else -1


def is_backward(node: fx.Node) -> bool:
    return bool(node.meta.get("autograd_backward"))


class TitanCapture(Capture):
    """A capture of a graph with forward, loss and backward that runs as written.

    No operator writes in place. All nodes of the loss and of its backward together count as the end of forward.
    """

    returns_apart = False

    def __init__(self, module: fx.GraphModule) -> None:
        n_inputs = sum(n.op == "placeholder" for n in module.graph.nodes)
        super().__init__(module, 1, range(n_inputs))

    def _written_outputs(self) -> dict[int, fx.Node]:
        return {}

    def refuse(self, node: fx.Node) -> None:
        """Accept every node, because the nodes that cannot run again are always saved."""

    def _in_place(self, node: fx.Node, made: list[int], phase: str) -> list[int]:
        return []

    def _add_body(self) -> None:
        body = [n for n in self.joint.graph.nodes if n.op not in ("placeholder", "output")]
        last = max((k for k, n in enumerate(body) if module_of(n).split(".")[0] in EPILOGUE), default=-1)
        if last < 0:
            last = next(k for k, n in enumerate(body) if is_backward(n)) - 1
        self._add_forward(body[: last + 1])
        written = self._written_from_elsewhere(body)
        for operation in self.operations:
            operation.once = operation.once or self._is_kept(operation) or bool(written & set(operation.writes))
        self._add_boundary()
        done = self._add_storage("end of the loss", "activation_gradient", 0)
        self.operations[self.boundary].writes.append(done)
        self._add_backward(body[last + 1 :], set(body))
        for operation in self.operations[self.boundary + 1 :]:
            operation.reads.append(done)
        self._add_end()

    def _written_from_elsewhere(self, body: list[fx.Node]) -> set[int]:
        """Return the forward storages that an operator fills with data from other tensors.

        Recomputation of such a storage requires other operators besides its producer.
        """
        writers = [n for n in body if n in self.places and isinstance(n.target, OPERATOR) and is_mutating(n)]
        return {s for n in writers if len(n.all_input_nodes) > 1 for s in self.storages_of(n.all_input_nodes)}

    def _is_kept(self, operation: Operation) -> bool:
        node = operation.source
        assert node is not None
        return not may_be_marked(node) or draws(node) or not isinstance(node.target, OPERATOR)


def may_be_marked(node: fx.Node) -> bool:
    """Whether the policy may mark a node: all forward nodes except the loss."""
    return node.op == "call_function" and not is_backward(node) and not module_of(node).startswith(EPILOGUE)


class AsWritten(Liveness):
    """Liveness of a graph in which no result overwrites an argument."""

    def _takes_over(self, node: fx.Node) -> bool:
        return False


Marks = Mapping[fx.Node, CheckpointPolicy]


def wait_at_once(module: fx.GraphModule, example_inputs: Any = None) -> fx.GraphModule:
    """Wait for each collective on a CPU immediately, and free gloo's buffers.

    gloo copies the data in its own thread, and allocates and frees these copies at unpredictable times.
    """
    for wait in [n for n in module.graph.nodes if is_wait_of_pytorch(n)]:
        begun: Any = wait.args[0]
        if not is_functional(begun) or begun.meta["val"].device.type != "cpu":
            continue
        begun.meta[WORKSPACE] = workspace_bytes(begun)
        if is_sum_on_host(begun):
            begun.target = part_of_sum
            wait.replace_all_uses_with(begun)
            module.graph.erase_node(wait)
        else:
            wait.target = collectives.wait
            begun.append(wait)
    module.recompile()
    return module


def hold_until_waits(graph: fx.Graph) -> None:
    """Extend the lifetimes of each collective's inputs to the collective's wait, in a graph that only serves for counting."""
    for wait in [n for n in graph.nodes if is_wait_of_pytorch(n)]:
        begun: Any = wait.args[0]
        wait.args = (begun, *begun.all_input_nodes)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress log messages of passes that run as a trial."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def copy_of(module: fx.GraphModule) -> tuple[fx.GraphModule, dict[fx.Node, Any]]:
    graph = fx.Graph()
    copies: dict[fx.Node, Any] = {}
    graph.output(graph.graph_copy(module.graph, copies))
    return fx.GraphModule(module, graph), copies


def marks_of_full(module: fx.GraphModule, config: Any) -> Marks:
    """Return the marks (saved or recomputed) that torchtitan's own policy `full` gives the nodes."""
    copy, copies = copy_of(module)
    MEMORY_POLICY_REGISTRY["full"](copy, config=config)
    return {n: copies[n].meta["recompute"] for n in module.graph.nodes if n in copies and "recompute" in copies[n].meta}


class Policy:
    """Chooses the marks (saved or recomputed) of one traced step's forward nodes.

    Args:
        module: the traced step.
        full: the marks of torchtitan's policy with the most recomputation.
        outside_bytes: memory besides the step.
        options: options of the search.
        behind: torchtitan's passes that run after the marks are applied.
    """

    def __init__(
        self, module: fx.GraphModule, full: Marks, outside_bytes: int, options: Options, behind: Sequence[Pass]
    ) -> None:
        self.module, self.full, self.options, self.behind = module, full, options, behind
        self.capture = TitanCapture(module)
        nodes = [o.source for o in self.capture.operations if o.source is not None]
        self.costs: dict[fx.Node, Cost] = COSTS.measure(nodes, options.kept)
        self.planner = GraphPlanner(self.capture, self.costs, outside_bytes, "the step")
        self.planner.planning.set("effort", options.effort)
        self.planner.planning.set("time_limit", options.time_limit)

    def marks(self, saved: Kept) -> dict[fx.Node, CheckpointPolicy]:
        """Return marks that save the results of these operations and recompute all others.

        All nodes of one storage have the same mark: views, items, and operators that write into the storage. Tensors between
        blocks are saved, because torchtitan's pass recomputes each node once and then keeps it from its first reader to its
        last.
        """
        kept = {s for k in saved for s in self.capture.operations[k].writes}
        made = {s for o in self.capture.operations[: self.capture.boundary] if not o.once for s in o.writes}
        marked = [n for n in self.capture.places if may_be_marked(n)]
        again = {n for n in marked if (places := set(self.capture.storages_of([n]))) & made and not places & kept}
        kept.update(
            self.capture.storages_of(n for n in again if any(u in again and layer_of(u) > layer_of(n) for u in n.users))
        )
        return {n: AGAIN if n in again and not kept & set(self.capture.storages_of([n])) else SAVE for n in marked}

    def marked(self, marks: Marks) -> fx.GraphModule:
        """Copy the graph and run torchtitan's recomputation pass on the copy, with these marks (save, recompute)."""
        copy, copies = copy_of(self.module)
        for node, cost in self.costs.items():
            copies[node].meta[WORKSPACE] = cost.workspace_bytes
        for node, mark in marks.items():
            copies[node].meta["recompute"] = mark
        made: fx.GraphModule = selective_activation_remat_pass(copy)
        return made

    def peak_bytes(self, marks: Marks) -> int:
        """Return the peak of the step with these marks."""
        module = self.marked(marks)
        for change in self.behind:
            module = change(module, None)
        made = module.graph
        hold_until_waits(made)
        static = keys_of(n for n in made.nodes if n.op == "placeholder")
        return self.planner.static_bytes + AsWritten(made, self.capture.sizes, static).peak_bytes()

    def of_plan(self, target: int | None) -> Marks | None:
        """Return the marks of a plan within `target` bytes (None: of the smallest plan), or None if there is no such plan."""
        if not self.planner.search(target, self.options):
            return None
        return self.marks(saved_by(self.capture, self.planner.planning.steps()))

    def smallest(self) -> Marks:
        """Return the marks with the lowest peak.

        Candidates: the smallest plan, saving only tensors between blocks, and `full`.
        """
        found = self.of_plan(None)
        assert found is not None
        return min(found, self.marks(frozenset()), self.full, key=self.peak_bytes)

    def choose(self, wanted: Budget) -> tuple[Marks, int, int]:
        """Return marks, the peak of the step with these marks, and the budget.

        If no marks fit the budget, warn and return the marks of the lowest peak.
        """
        keep_all = self.peak_bytes({})
        min_bytes = functools.cache(lambda: self.peak_bytes(self.smallest()))
        target = budget = resolve(wanted, keep_all, min_bytes, lambda whole: self.planner.auto_bytes(None, whole))
        if keep_all <= budget:
            return {}, keep_all, budget
        for _ in range(ROUNDS):
            if (marks := self.of_plan(target)) is None:
                break
            if (n_bytes := self.peak_bytes(marks)) <= budget:
                return marks, n_bytes, budget
            target -= n_bytes - budget
        if min_bytes() > budget:
            over = in_units(min_bytes() - budget)
            sentence = f"no marks were found with which the step fits {in_units(budget)}; the best exceed it by {over}"
            warnings.warn(sentence, FallbackWarning, stacklevel=2)
        return self.smallest(), min_bytes(), budget

    def extra_seconds(self, marks: Marks) -> float:
        """Return the time of recomputation as a fraction of the step."""
        by_name = {node.name: cost.seconds for node, cost in self.costs.items()}
        again = sum(by_name.get(n.name.removesuffix(AGAIN_SUFFIX), 0.0) for n in self.marked(marks).graph.nodes)
        return again / sum(by_name.values()) - 1


def state_bytes(module: fx.GraphModule, per_parameter: int) -> int:
    """Return the bytes of the optimizer state, from the sizes of the gradients that the graph returns after the loss."""
    gradients = [n for n in flat_outputs(module.graph)[1:] if isinstance(n, fx.Node)]
    return per_parameter * sum(storage_bytes(t) for n in gradients for t in tensors_of(n.meta.get("val")))


def planned(module: fx.GraphModule, config: Any, behind: Sequence[Pass]) -> tuple[list[bool], str]:
    """Return which of the markable nodes are recomputed, and a sentence for the log."""
    given = config.compile
    outside = only_bytes(given.memplan_reserve) + state_bytes(module, given.memplan_state_per_parameter)
    with quietly():
        policy = Policy(module, marks_of_full(module, config), outside, Options(), behind)
        marks, n_bytes, budget = policy.choose(given.memplan_budget)
        extra = policy.extra_seconds(marks)
    again = [marks.get(n) is AGAIN for n in module.graph.nodes if may_be_marked(n)]
    fits = f"{in_units(n_bytes)} within {in_units(budget)}"
    return again, f"planned {sum(again)} of {len(again)} nodes of forward again: {fits}, extra time {100 * extra:+.1f}%"


def mark(module: fx.GraphModule, example_inputs: Any = None, *, config: Any, behind: Sequence[Pass] = ()) -> fx.GraphModule:
    """Apply the memory policy. All ranks use the marks of the first rank."""
    given, rank_group = config.compile, ALONE.joined(groups_in(module.graph))
    with rank_group.planning(NAME, Options().wait_seconds()):
        calls = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
        rank_group.same({"the budget": [given.memplan_budget], "its reserve": [given.memplan_reserve], "its operators": calls})
        again, sentence = rank_group.of_first(planned(module, config, behind) if rank_group.is_first() else ([], ""))
    for node, runs_again in zip((n for n in module.graph.nodes if may_be_marked(n)), again, strict=True):
        node.meta["recompute"] = AGAIN if runs_again else SAVE
    LOG.info(sentence)
    return module


def passes(traced: Any, config: Any, *, parallel_dims: Any = None) -> list[Pass]:
    """Return torchtitan's passes with memplan's policy inserted. The policy receives the passes after it. On a CPU, collectives
    wait at once.
    """
    found: list[Pass] = construct_default_graph_passes(traced, config, parallel_dims=parallel_dims)
    functions = [getattr(p, "func", p) for p in found]
    last = max((k for k, f in enumerate(functions) if f in REARRANGING), default=-1)
    if torch.distributed.get_world_size() > 1 and parallel_dims.world_mesh.device_type == "cpu":
        found.insert(last + 1, wait_at_once)
        functions.insert(last + 1, wait_at_once)
    if config.compile.memory_policy == "memplan" and tag_with_memory_policy_pass in functions:
        kept = [p for p, f in zip(found, functions) if f in (*REARRANGING, wait_at_once)]
        behind = [p for p in kept if getattr(p, "func", p).__name__ not in config.compile.disable_passes]
        known = functools.partial(mark, config=config, behind=behind)
        found[functions.index(tag_with_memory_policy_pass)] = known
    return found


register_memory_policy("memplan")(mark)
register_pass_pipeline("memplan")(passes)
