#!/usr/bin/env python3
"""bench_galvatron.py MEMPLAN GALVATRON - our best configuration beside that of Galvatron's search, by its own figures.

GALVATRON is a checkout of github.com/PKU-DAIR/Hetu-Galvatron with its `csrc/dp_core.cpp` built as the module galvatron_dp_core.
The network is that of its tests on eight devices, with the profiles that these write; its cost models of time and memory judge
both. Its search mixes strategies layer by layer, tensor parallelism included. Ours takes the meshes and micro-batches that
memplan has not refuted by their memory, and of each how many layers of a stage are sharded whole, and how many are computed
again: all counts, as layers are alike. It needs numpy, scipy, rich, pydantic and torch."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
import types
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DEVICES = 8
Engine = Any  # of Galvatron: costs of a network on a machine, and its search


@dataclass(frozen=True)
class Case:
    name: str
    layers: int
    sequence: int
    batch: int
    gigabytes: int
    chunks: int  # micro-batches of a step, of which its search takes any, one after the other


CASES = (
    Case("of its tests", 28, 8192, 64, 36, 32),
    Case("of its tests", 28, 8192, 64, 24, 32),
)


def engine_of(case: Case) -> Engine:
    """Its engine with the profiles that its tests write."""
    from tests.utils.search_configs import initialize_search_engine

    folder = Path(tempfile.mkdtemp())
    folders = [folder / name for name in ("configs", "hardware", "output", "log")]
    for one in folders:
        one.mkdir()
    settings = {
        "settle_bsz": case.batch,
        "settle_chunk": case.chunks,
        "memory_constraint": case.gigabytes,
        "default_dp_type": "zero2",
        "pipeline_type": "pipedream_flush",
        "async_grad_reduce": False,
        "sequence_parallel": True,
        "fine_grained_mode": 1,
        "num_layers": case.layers,
    }
    return initialize_search_engine(
        tuple(folders[:3]), str(folders[3]), "llama_search", "sequence", "sequence", True, [case.sequence], **settings
    )


@cache
def counts_of(n: int, k: int) -> Any:
    """All ways to share n layers out among k strategies."""
    import numpy as np

    counts = np.array([c for c in itertools.product(range(n + 1), repeat=k - 1) if sum(c) <= n])
    return np.concatenate([counts, n - counts.sum(axis=1, keepdims=True)], axis=1)


class Judge:
    """Seconds of a step by Galvatron's cost models, or none where its memory does not suffice."""

    def __init__(self, engine: Engine, case: Case) -> None:
        from galvatron.core.cost_model import cost_model_handler
        from galvatron.core.cost_model.components import embedding_lmhead_cost, layer_cost
        from galvatron.utils import strategy_utils

        self.engine, self.case, self.asked = engine, case, 0
        self.layers, self.ends, self.pipeline = layer_cost, embedding_lmhead_cost, cost_model_handler.pipeline_costmodel
        self.strategies = strategy_utils
        self.capacity = engine.memory_constraint
        if self.capacity // 1024 > 20:
            self.capacity -= int(self.capacity * 0.2)  # its cache

    def of(self, what: Any, strategy: Any, chunks: int, *with_hardware: Any, **more: Any) -> Any:
        e = self.engine
        arguments = {
            "strategy": strategy,
            "global_batch_size": self.case.batch,
            "chunks": chunks,
            "model_args": e.model_args_list[0],
            "train_args": e.train_args_list[0],
            "parallel_args": e.parallel_args_list[0],
            "profile_model_args": e.profile_model_args_list[0],
        }
        if with_hardware:
            arguments["profile_hardware_args"] = e.profile_hardware_args_list[0]
        return what(**arguments, **more)

    def choices(self, tp: int, pp: int, dp: int) -> list[Any]:
        s = self.strategies
        kinds = [s.DPType.DDP] if dp == 1 else [s.DPType.ZERO2, s.DPType.ZERO3]
        return [
            s.LayerStrategy(pp_size=pp, tp_size=tp, dp_size=dp, dp_type=kind, checkpoint=again)
            for kind, again in itertools.product(kinds, (False, True))
        ]

    def stage(self, n: int, sizes: Any, costs: Any, room: float) -> Any:
        """How many layers take each strategy: all counts, of those that fit the fastest."""
        import numpy as np

        counts = counts_of(n, len(costs))
        counts = counts[counts @ sizes <= room]
        return counts[np.argmin(counts @ costs)] if len(counts) else None

    def seconds(self, tp: int, pp: int, dp: int, micro_batch: int) -> float | None:
        import numpy as np

        case, e = self.case, self.engine
        chunks, best = case.batch // dp // micro_batch, None
        if chunks != case.chunks or chunks * micro_batch * dp != case.batch or not pp <= min(chunks, case.layers):
            return None
        choices = self.choices(tp, pp, dp)
        times = [self.of(self.layers.TimeCostModelBase, c, chunks, True).gen_result() for c in choices]
        costs = np.array([alone * chunks + (summed - alone) for summed, alone in times])
        stages = [case.layers // pp] * (pp - 1) + [case.layers - case.layers // pp * (pp - 1)]
        ends = [
            (t, DEVICES // pp // t) for t in (1, 2, 4, 8) if t * pp <= DEVICES and case.batch // chunks >= DEVICES // pp // t
        ]
        for vocabulary, copies in ends:
            for end in self.choices(vocabulary, pp, copies)[::2]:
                at_end = end.to_embedding_lmhead_strategy()
                _, more = self.of(
                    self.ends.EmbeddingLMHeadTimeCostModel, at_end, chunks, True, sequence_length_list=e.seqlen_list
                ).gen_result()
                held = np.ceil(self.of(self.ends.EmbeddingLMHeadMemoryCostModel, at_end, chunks).get_memory_cost()["enc_total"])
                widest = max(tp, vocabulary)
                buffer = int(
                    case.batch / chunks / (DEVICES // pp // widest) * e.args.model_info.hidden_size * case.sequence * 2 / 2**20
                )
                chosen: list[Any] = []
                for at, n in enumerate(stages):
                    sizes = [
                        self.of(self.layers.MemoryCostModelBase, c, chunks, stage_idx=at).get_memory_cost() for c in choices
                    ]
                    whole = np.ceil([size["enc_total"] for size in sizes])
                    counts = self.stage(n, whole, costs, self.capacity - held[at] - buffer)
                    if counts is None:
                        break
                    chosen += [c for c, count in zip(choices, counts, strict=True) for _ in range(count)]
                if len(chosen) < case.layers:
                    continue
                self.asked += 1
                lists = (
                    e.model_args_list,
                    e.train_args_list,
                    e.parallel_args_list,
                    e.profile_model_args_list,
                    e.profile_hardware_args_list,
                )
                found = float(self.pipeline(e.layernum_list, *lists, chosen, stages, chunks, case.batch, pp, more))
                best = found if best is None else min(best, found)
        return best


def spent() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def ours(memplan: str, judge: Judge) -> tuple[float, tuple[int, ...]]:
    case = judge.case
    asked = [
        memplan,
        "parallel",
        "llama2-7b",
        "--dim",
        f"layers={case.layers}",
        "--dim",
        f"sequence={case.sequence}",
        "--device",
        "a100",
        "--rules",
        "executor",
        "--dtype",
        "bf16",
        "--memory",
        f"{case.gigabytes}GiB",
        "--devices",
        str(DEVICES),
        "--global-batch",
        str(case.batch),
        "--json",
    ]
    answer = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    meshes = {
        (c["mesh"]["tp"], c["mesh"]["pp"], c["mesh"]["dp"] * c["mesh"]["shard"], c["micro_batch"])
        for c in answer["best"] + answer["set_aside"]
        if c["reason"] not in ("floor", "over-memory") and not c["mesh"]["data"]
    }
    found = [(seconds, mesh) for mesh in sorted(meshes) if (seconds := judge.seconds(*mesh)) is not None]
    return min(found)


def main(memplan: str, checkout: str) -> int:
    root = Path(checkout).resolve()
    sys.path.insert(0, str(root))
    runtime = types.ModuleType("galvatron.core.runtime")  # only its tables of options, as the rest needs GPUs
    runtime.__path__ = [str(root / "galvatron/core/runtime")]
    import galvatron.core  # noqa: F401

    sys.modules["galvatron.core.runtime"] = runtime
    print(
        f"{'network':<14} {'layers':>6} {'GB':>4} {'batch':>6} {'chunks':>6} {'Galvatron: 1/s':>14} {'processor s':>11} "
        f"{'here: 1/s':>10} {'processor s':>11} {'judged':>6}  tp, pp, dp, micro-batch"
    )
    for case in CASES:
        silence = io.StringIO()
        with contextlib.redirect_stdout(silence):
            engine = engine_of(case)
            begun = spent()
            theirs = engine.parallelism_optimization()
            their_seconds = spent() - begun
        judge, begun = Judge(engine, case), spent()
        with contextlib.redirect_stdout(silence):
            best, mesh = ours(memplan, judge)
        print(
            f"{case.name:<14} {case.layers:>6} {case.gigabytes:>4} {case.batch:>6} {case.chunks:>6} {theirs:>14.4f} "
            f"{their_seconds:>11.1f} {case.batch / best:>10.4f} {spent() - begun:>11.2f} {judge.asked:>6}  "
            f"{', '.join(map(str, mesh))}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
