"""MLPs in chunks of rows.

memplan writes forward of an MLP once per chunk of rows, and backward once per chunk. The hidden results of one chunk are
tensors of their own, so a plan can keep some chunks and recompute others. Weight gradients are added in the order of the
chunks.
"""

from __future__ import annotations

import torch
from torch import fx

from memplan.graph.mlps import Mlp, mlps_of
from memplan.graph.row_writer import RowWriter

aten = torch.ops.aten


class MlpWriter(RowWriter):
    """Writes the joint graph with its MLPs in n chunks."""

    kind = "mlp"

    def __init__(self, joint: fx.GraphModule, mlps: list[Mlp], n: int) -> None:
        super().__init__(joint, mlps[0].seed)
        self.n = n
        self.mlp_of = {node: mlp for mlp in mlps for node in mlp.nodes}
        self.have_run: set[tuple[Mlp, bool]] = set()
        # by MLP and chunk: the values of forward, which backward reads
        self.kept: dict[tuple[Mlp, int], dict[fx.Node, fx.Node]] = {}
        for node in joint.graph.nodes:
            if node not in self.mlp_of:
                self.outer(node)
        self.module = self.finished()

    def region_of(self, node: fx.Node) -> Mlp | None:
        return self.mlp_of.get(node)

    def result(self, node: fx.Node) -> fx.Node:
        mlp = self.mlp_of[node]
        self._run(mlp, mlp.is_late(node))
        self.region, self.like = mlp, node
        return self.rows_or_sum(node)

    def _run(self, mlp: Mlp, is_late: bool) -> None:
        """Write all chunks of forward, or of backward."""
        if (mlp, is_late) in self.have_run:
            return
        nodes = mlp.backward if is_late else mlp.forward
        if is_late:
            self._run(mlp, False)
        for node in nodes:  # operands may be results of other MLPs, which are written before
            for given in node.all_input_nodes:
                if given not in mlp.rules:
                    self.outer(given)
        self.have_run.add((mlp, is_late))
        self.region, self.first = mlp, 0
        self.flat.clear()
        for k, n_rows in enumerate(mlp.sizes(self.n)):
            self.k, self.n_rows = k, n_rows
            self.now = self.kept.setdefault((mlp, k), {})
            self.given.clear()
            for node in nodes:
                self.like, self.rule = node, mlp.rules[node]
                self.add(node)
            self.first += n_rows


def with_mlps(joint: fx.GraphModule, n: int) -> fx.GraphModule:
    """Return the joint graph with all MLPs in n chunks of rows. Raises Refused."""
    mlps = mlps_of(joint.graph)
    return MlpWriter(joint, mlps, n).module if mlps else joint
