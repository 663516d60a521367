#!/usr/bin/env python3
"""shared_statistics.py MEMPLAN TEST - batch normalization by the samples of all ranks (--sync-batchnorm), judged by one process that has them in one batch.

Losses, gradients, parameters and running statistics are within rounding of that process's: only sums over samples are made in another order. All ranks have the
same bits, running statistics too, in every run and whatever is recomputed; memory and bytes sent are as planned. Needs protoc-c, with which files get another batch
or picture size. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, is_as_planned, one, path, ranks
from saved_ranks import write_npy
from split_ranks import near, same_state

PROTO = ["--proto_path=/usr/include/onnx", "onnx.proto"]
SAMPLES = 24
ALL = ("--optimizer", "momentum", "--lr", "0.01", "--budget", "100%", "--no-before")
TIGHT = ("--optimizer", "momentum", "--lr", "0.01", "--budget", "floor+30%")


def rewritten(network: str, folder: str, name: str, changes: dict[str, str]) -> str:
    with open(path(network), "rb") as file:
        text = subprocess.run(["protoc-c", "--decode=onnx.ModelProto", *PROTO], stdin=file, capture_output=True, check=True).stdout.decode()
    for old, new in changes.items():
        assert old in text, (network, old)
        text = text.replace(old, new)
    with open(f"{folder}/{name}.onnx", "wb") as file:
        file.write(subprocess.run(["protoc-c", "--encode=onnx.ModelProto", *PROTO], input=text.encode(), capture_output=True, check=True).stdout)
    return os.path.relpath(f"{folder}/{name}", os.path.dirname(path("cnn")))


def cnn_of(folder: str, batch: int) -> str:
    """The residual network with five batch normalizations, for another batch."""
    head = "name: \"{}\"\n    type {{\n      tensor_type {{\n        elem_type: {}\n        shape {{\n          dim {{\n            dim_value: {}\n"
    inputs = (("input", 1), ("target", 7))
    return rewritten("cnn", folder, f"cnn{batch}", {head.format(*i, 4): head.format(*i, batch) for i in inputs})


def data(folder: str, shape: tuple[int, ...], classes: int) -> list[str]:
    draw, size = random.Random(7), 1
    for n in shape:
        size *= n
    write_npy(f"{folder}/x.npy", "<f4", (SAMPLES, *shape), [draw.gauss(0, 1) for _ in range(SAMPLES * size)])
    write_npy(f"{folder}/y.npy", "<i8", (SAMPLES,), [draw.randrange(classes) for _ in range(SAMPLES)])
    return ["--data", f"input={folder}/x.npy", "--data", f"target={folder}/y.npy"]


def hashes(answer: dict) -> set[str]:
    return {rank["weights_hash"] for rank in answer["ranks"]["each"]}


def as_one_batch() -> None:
    """Two and four ranks, alone and with micro-batches, beside sums of parts and where the batch is shared out by tp; then without: other statistics."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        samples, networks = data(folder, (3, 17, 15), 4), {batch: cnn_of(folder, batch) for batch in (1, 2, 4)}
        for more in ([], ["--accumulate", "2"]):
            single = one(networks[4], *samples, *ALL, *more, "--save", f"{folder}/one", steps=4)
            for n, mesh in ((2, "dp=2"), (4, "dp=4"), (2, "shard=2,zero=1"), (2, "shard=2"), (2, "tp=2,data=1")):
                if more and mesh == "shard=2":
                    continue
                words = [*samples, "--sync-batchnorm", *more, "--save", f"{folder}/{mesh}"]
                many = ranks(n, networks[4 if "tp" in mesh else 4 // n], *words, *TIGHT, mesh=mesh, steps=4)
                is_as_planned(many)
                assert many["ranks"]["batch_statistics"] == "all ranks"
                near(many["after"]["losses"], single["after"]["losses"], (mesh, more))
                if "shard" not in mesh:
                    same_state(f"{folder}/{mesh}", f"{folder}/one", (mesh, more))
                assert mesh == "shard=2" or len(hashes(many)) == 1, (mesh, more)
                again = ranks(n, networks[4 if "tp" in mesh else 4 // n], *samples, "--sync-batchnorm", *more, *ALL, mesh=mesh, steps=4)
                assert again["after"]["losses"] == many["after"]["losses"] and hashes(again) == hashes(many), (mesh, more)
        own = ranks(2, networks[2], *samples, *ALL, steps=4)
        assert own["ranks"]["batch_statistics"] == "each rank" and len(hashes(own)) == 2
        assert abs(own["after"]["losses"][0] / one(networks[4], *samples, *ALL, steps=1)["after"]["losses"][0] - 1) > 1e-3


def beside_stages() -> None:
    """Each stage of a pipeline shares the statistics of its own ranks, micro-batch by micro-batch."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        network, whole = cnn_of(folder, 2), cnn_of(folder, 4)
        samples = data(folder, (3, 17, 15), 4)
        single = one(whole, *samples, *ALL, "--accumulate", "2", steps=3)
        many = ranks(4, network, *samples, *ALL, "--sync-batchnorm", "--batch", "4", "--micro-batches", "2", mesh="dp=2,pp=2", steps=3)
        near(many["after"]["losses"], single["after"]["losses"], "dp=2,pp=2")
        for rank in many["ranks"]["each"]:
            assert rank["sent_bytes"] == rank["planned_sent_bytes"] > 0, rank
        by_rank = [rank["weights_hash"] for rank in many["ranks"]["each"]]
        assert by_rank[0] == by_rank[1] and by_rank[2] == by_rank[3], by_rank


def residual() -> None:
    """ResNet-50 of small pictures: the first loss is within rounding, through 53 normalizations of few values; with statistics of each rank it is another one."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        sizes = {"dim_value: 1000\n": "dim_value: 10\n", "dim_value: 224\n": "dim_value: 64\n"}
        network, samples = rewritten("../../examples/resnet50", folder, "resnet", sizes), data(folder, (3, 64, 64), 10)
        single = one(network, *samples, *ALL, "--batch", "8", steps=1)["after"]["losses"][0]
        many = ranks(2, network, *samples, *ALL, "--batch", "4", "--sync-batchnorm", steps=1)
        is_as_planned({**many, "identical": True})
        own = ranks(2, network, *samples, *ALL, "--batch", "4", steps=1)["after"]["losses"][0]
        assert abs(many["after"]["losses"][0] / single - 1) < 1e-5 < 1e-2 < abs(own / single - 1), (many["after"]["losses"], own, single)


def sentences() -> None:
    words = [MEMPLAN, "train", path("cnn"), "--budget", "100%", "--no-before", "--steps", "1"]
    for more, says in (
        ([], r"Batch normalization uses the samples of each rank \(--sync-batchnorm: of all ranks\)."),
        (["--sync-batchnorm"], "Batch normalization uses the samples of all ranks."),
    ):
        done = subprocess.run([*MPIRUN, "-n", "2", *words, "--mesh", "dp=2", *more], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and re.search(says.replace(" ", r"\s+"), done.stdout), done.stdout
    done = subprocess.run([*words, "--sync-batchnorm"], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--sync-batchnorm applies to the ranks of a mesh; add --mesh" in done.stderr, done


if __name__ == "__main__":
    globals()[WHAT]()
