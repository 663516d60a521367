#!/usr/bin/env python3
"""split_ranks.py MEMPLAN TEST - operators split over ranks (tp), judged by one process that has all of them.

Losses and parameters, brought together, are within rounding of one process's: sums over ranks are the only ones that are made in another order. Runs are the
same, bit for bit, whatever is recomputed; memory and bytes sent are as planned. A state goes from ranks to one process and back. The optimizer is one that does
not turn rounding into steps: Adam divides gradients that are zero but for rounding (of a bias before a normalization, of the keys' bias) by their own size.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile

from many_ranks import ENVIRONMENT, MEMPLAN, WHAT, is_as_planned, one, path, ranks, tensors

TIGHT, ALL = ("--budget", "floor+30%", "--optimizer", "momentum"), ("--budget", "100%", "--no-before", "--optimizer", "momentum")
DROPOUT = "../networks/files/dropout_cnn.dynamo"


def near(a: list[float], b: list[float], what: object, most: float = 1e-6) -> None:
    assert len(a) == len(b) > 0, (what, len(a), len(b))
    away = max(abs(x - y) / max(1, abs(y)) for x, y in zip(a, b))
    assert away <= most, (what, away)


def same_losses(a: dict, b: dict, what: object) -> None:
    near(a["after"]["losses"], b["after"]["losses"], what)


def values(file: str) -> dict[str, list[float]]:
    return {name: list(struct.unpack(f"<{len(bits) // 4}f", bits)) for name, bits in tensors(file).items()}


def same_state(a: str, b: str, what: object) -> None:
    mine, others = values(a), values(b)
    assert mine.keys() == others.keys() and any(name.startswith("optimizer.1:") for name in mine), (what, mine.keys() ^ others.keys())
    for name in mine:
        near(mine[name], others[name], (what, name))


def as_one() -> None:
    """Tables by rows, attention by heads, blocks by columns and rows, convolutions by channels, losses by classes (gpt, cnn) and by positions (mlp, bert)."""
    for network in ("mlp", "cnn", "gpt", "bert"):
        with tempfile.TemporaryDirectory() as folder:
            a, b = f"{folder}/ranks", f"{folder}/one"
            many, single = ranks(2, network, *TIGHT, "--save", a, mesh="tp=2"), one(network, *ALL, "--save", b)
            is_as_planned(many)
            same_losses(many, single, network)
            same_state(a, b, network)
            again = ranks(2, network, *ALL, mesh="tp=2")
            assert again["after"]["weights_hash"] == many["after"]["weights_hash"], network
            assert again["after"]["losses"] == many["after"]["losses"], network
            assert again["after"]["static_bytes"] < single["after"]["static_bytes"], network
            if network in ("mlp", "gpt"):
                whole = ranks(2, network, *ALL, mesh="tp=2,sp=0")
                is_as_planned({**whole, "identical": True})
                same_losses(whole, single, network)


def by_name() -> None:
    """Positions are looked up in other runs of lines than words are, and dealt anew where the two are added."""
    small = "layers=2", "vocabulary=512", "sequence=32", "width=64", "heads=4", "feed-forward=128"
    how = [*(word for size in small for word in ("--dim", size)), "--batch", "2", "--random-weights", *ALL]
    for network in ("gpt2", "bert-base"):
        with tempfile.TemporaryDirectory() as folder:
            a, b = f"{folder}/ranks", f"{folder}/one"
            many = ranks(2, network, *how, "--save", a, mesh="tp=2")
            is_as_planned({**many, "identical": True})
            same_losses(many, one(network, *how, "--save", b), network)
            same_state(a, b, network)


def with_data() -> None:
    """Two dimensions: one process with as many micro-batches as there are ranks with data of their own."""
    for network, mesh in (("gpt", "dp=2,tp=2"), ("mlp", "shard=2,tp=2"), ("gpt", "shard=2,zero=1,tp=2")):
        many, single = ranks(4, network, *TIGHT, mesh=mesh, steps=3), one(network, *ALL, "--accumulate", "2", steps=3)
        is_as_planned(many)
        same_losses(many, single, (network, mesh))
    for network in ("mlp", DROPOUT):
        more = ("--batch", "4") if network == DROPOUT else ()
        many, single = ranks(2, network, *TIGHT, *more, mesh="tp=2,data=1"), one(network, *ALL, *more)
        is_as_planned(many)
        same_losses(many, single, network)
    many, single = ranks(2, "gpt", *TIGHT, "--accumulate", "2", mesh="tp=2"), one("gpt", *ALL, "--accumulate", "2")
    is_as_planned(many)
    same_losses(many, single, "micro-batches")


def clipped() -> None:
    """By the global norm: parts of each rank, and replicated gradients once; also if both are sharded."""
    for network, n, mesh, passes in (("gpt", 2, "tp=2", 1), ("mlp", 2, "tp=2", 1), ("gpt", 2, "tp=2,sp=0", 1), ("gpt", 4, "shard=2,zero=2,tp=2", 2), ("mlp", 2, "tp=2,data=1", 1)):
        usual = ("--lr", "0.1", "--accumulate", str(passes))
        many, single = ranks(n, network, *TIGHT, "--lr", "0.1", "--clip-norm", "0.05", mesh=mesh, steps=4), one(network, *ALL, *usual, "--clip-norm", "0.05", steps=4)
        is_as_planned(many)
        same_losses(many, single, (network, mesh))
        free = one(network, *ALL, *usual, steps=4)["after"]["losses"]
        assert abs(free[-1] / single["after"]["losses"][-1] - 1) > 1e-4, (network, "the limit is above the norm")


def goes_on() -> None:
    """A state of ranks that have parts goes to one process, and that of one process to ranks, of other meshes, too."""
    whole = one("gpt", *ALL, steps=4)["after"]["losses"]
    with tempfile.TemporaryDirectory() as folder:
        of_one, of_ranks, shared = f"{folder}/one", f"{folder}/ranks", f"{folder}/shared"
        one("gpt", *ALL, "--save", of_one, steps=2)
        ranks(2, "gpt", *ALL, "--save", of_ranks, mesh="tp=2", steps=2)
        near(one("gpt", *ALL, "--resume", of_ranks, steps=2)["after"]["losses"], whole[2:], "ranks to one")
        near(ranks(2, "gpt", *ALL, "--resume", of_one, mesh="tp=2", steps=2)["after"]["losses"], whole[2:], "one to ranks")
        four = ranks(4, "mlp", *ALL, "--save", shared, mesh="shard=2,tp=2", steps=2)["after"]["losses"]
        rest = one("mlp", *ALL, "--accumulate", "2", "--resume", shared, steps=2)["after"]["losses"]
        near(four + rest, one("mlp", *ALL, "--accumulate", "2", steps=4)["after"]["losses"], "a folder of four to one")
        here = ranks(2, "mlp", *ALL, "--accumulate", "2", "--resume", shared, mesh="tp=2", steps=2)["after"]["losses"]
        near(here, rest, "a folder of four to two")


def refused() -> None:
    done = subprocess.run([MEMPLAN, "train", path("mlp"), "--budget", "100%", "--mesh", "tp=2"], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2 and "the mesh tp=2 needs 2 ranks, but 1 process was started; run mpirun -n 2 memplan ..." in done.stderr, done


if __name__ == "__main__":
    globals()[WHAT]()
