#!/usr/bin/env python3
"""tested_ranks.py MEMPLAN TEST - evaluations (--test) after trainings on many ranks, judged by that of one process.

The loss is within rounding of one process's, as that of the training is, and as many labels have the highest score: of batches that hold labels that do not count,
and of samples that do not fill a batch. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import math
import random
import subprocess
import tempfile

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, one, path, ranks
from pipelines import BATCH
from saved_ranks import ALL_AT_ONCE, write_npy

SAMPLES = {"mlp": ((12,), 5), "cnn": ((3, 17, 15), 4), "gpt": ((6,), 20), "bert": ((6,), 20)}  # the shape of one, and how many classes there are
WORDS = {"gpt", "bert"}  # each of their words has a label, but for some
USUAL = (*ALL_AT_ONCE, "--optimizer", "momentum")


def data(folder: str, network: str, n: int, option: str) -> list[str]:
    (shape, classes), draw, x, y = SAMPLES[network], random.Random(n), f"{folder}/{network}-x{n}.npy", f"{folder}/{network}-y{n}.npy"
    size = n * math.prod(shape)
    if network in WORDS:
        write_npy(x, "<i8", (n, *shape), [draw.randrange(classes) for _ in range(size)])
        write_npy(y, "<i8", (n, *shape), [draw.choice((-100, *range(classes))) for _ in range(size)])
    else:
        write_npy(x, "<f4", (n, *shape), [draw.uniform(-1, 1) for _ in range(size)])
        write_npy(y, "<i8", (n,), [draw.randrange(classes) for _ in range(n)])
    return [option, f"input={x}", option, f"target={y}"]


def both(folder: str, network: str) -> list[str]:
    """Samples to train on, and others to test on, which fill no whole number of batches."""
    return [*data(folder, network, 40, "--data"), *data(folder, network, 70, "--test")]


def same(mine: dict, other: dict, what: object) -> None:
    mine, other = mine["test"], other["test"]
    assert mine["samples"] == other["samples"] >= 66 and 0 < other["accuracy"] < 1, (what, mine, other)
    assert mine["accuracy"] == other["accuracy"] and abs(mine["loss"] / other["loss"] - 1) <= 1e-6, (what, mine, other)


def shared_out() -> None:
    """State shared out: the bits of ranks that have all of it."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        words = [*USUAL, *both(folder, "mlp")]
        whole = ranks(2, "mlp", *words)
        same(whole, one("mlp", *words, "--accumulate", "2"), "dp=2")
        for mesh in ("shard=2,zero=1", "shard=2,zero=2", "shard=2"):
            assert ranks(2, "mlp", *words, mesh=mesh)["test"] == whole["test"], mesh


def split() -> None:
    """Operators split: biases are added once, and classes (cnn, gpt) and positions (mlp, bert) are those of all ranks; also where parts are shared out."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for network in SAMPLES:
            words = [*USUAL, *both(folder, network)]
            single = one(network, *words)
            for n, mesh, *more in ((2, "tp=2"), (2, "tp=2,sp=0"), (4, "tp=4") if network in WORDS else (2, "tp=2,data=1", "--sync-batchnorm")):
                same(ranks(n, network, *words, *more, mesh=mesh), single, (network, mesh))
        for network, mesh in (("gpt", "dp=2,tp=2"), ("gpt", "shard=2,tp=2"), ("mlp", "shard=2,zero=2,tp=2")):
            words = [*USUAL, *both(folder, network)]
            same(ranks(4, network, *words, mesh=mesh), one(network, *words, "--accumulate", "2"), (network, mesh))


def stages() -> None:
    """Forward through the stages of a pipeline, also of several ranks each: the loss and accuracy of one process, bit for bit where the training has its bits. A rank
    that tests on other data is named before the first step."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for network in SAMPLES:
            words = [*USUAL, *both(folder, network)]
            single = one(network, *words, "--accumulate", "2")
            for n in (2, 4):
                many = ranks(n, network, *words, *cut(network, 2), mesh=f"pp={n}")
                same(many, single, (network, n))
                assert network == "gpt" or many["test"] == single["test"], (network, n, many["test"], single["test"])
        for network, n, mesh, micro_batches, *more in (("mlp", 4, "dp=2,pp=2", 1), ("gpt", 4, "dp=2,pp=2", 2), ("gpt", 4, "shard=2,pp=2", 2), ("bert", 3, "pp=3", 4, "--dtype", "bf16")):
            words = [*USUAL, *both(folder, network), *more]
            single = one(network, *words, "--accumulate", str(micro_batches * (1 if mesh == "pp=3" else 2)))
            same(ranks(n, network, *words, *cut(network, micro_batches), mesh=mesh), single, (network, mesh))
        for network in SAMPLES:
            words = [*USUAL, *both(folder, network)]
            same(ranks(4, network, *words, *cut(network, 2), mesh="tp=2,pp=2"), one(network, *words, "--accumulate", "2"), (network, "tp=2,pp=2"))
        words = [*USUAL, *both(folder, "mlp"), *cut("mlp", 2)]
        whole = ranks(4, "mlp", *words, mesh="dp=2,pp=2")
        assert ranks(4, "mlp", *words, mesh="shard=2,zero=1,pp=2")["test"] == whole["test"]
        same(ranks(4, "mlp", *words, mesh="shard=2,zero=3,pp=2"), whole, "shard=2,zero=3,pp=2")
        usual, fewer = data(folder, "mlp", 70, "--test"), data(folder, "mlp", 60, "--test")
        words = [MEMPLAN, "train", path("mlp"), *USUAL, *cut("mlp", 2), "--mesh", "pp=2"]
        done = subprocess.run([*MPIRUN, "-n", "1", *words, *usual, ":", "-n", "1", *words, *fewer], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and "rank 1 of 2 has another number of samples to test on (--test) than rank 0" in done.stderr, done.stderr


def cut(network: str, micro_batches: int) -> list[str]:
    return ["--batch", str(BATCH[network] * micro_batches), "--micro-batches", str(micro_batches)]


if __name__ == "__main__":
    globals()[WHAT]()
