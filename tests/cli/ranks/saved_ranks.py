#!/usr/bin/env python3
"""saved_ranks.py MEMPLAN TEST - the saves of many ranks, trainings that resume from them, and the data that ranks read.

A training in parts saves into a folder: the tensors of a training that is whole everywhere, bit for bit. Any number of ranks goes on with it, with the losses
of those that went on from one file, and within rounding of one process that was never stopped. Folders that are not whole are refused by the part that is to
blame. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import tempfile

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, one, path, ranks, tensors

INDEX = "model.safetensors.index.json"
FREE_BATCH = "../../examples/mlp4"  # a network that takes any number of samples, and has no statistics of them
ALL_AT_ONCE = ("--budget", "100%", "--no-before")


def write_npy(file: str, kind: str, shape: tuple[int, ...], values: list) -> None:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with open(file, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00v\x00" + header.encode() + struct.pack(f"<{len(values)}{'f' if kind == '<f4' else 'q'}", *values))


def data(folder: str, n: int, features: int = 12) -> list[str]:
    """So many samples for the mlp, or with 784 features for mlp4: the samples of a step then depend on their number, and not on the ranks that read them."""
    draw, x, y = random.Random(n), f"{folder}/x{n}-{features}.npy", f"{folder}/y{n}-{features}.npy"
    write_npy(x, "<f4", (n, features), [draw.uniform(-1, 1) for _ in range(features * n)])
    if features == 12:
        write_npy(y, "<i8", (n,), [draw.randrange(5) for _ in range(n)])
    else:
        write_npy(y, "<f4", (n, 1), [draw.randrange(2) for _ in range(n)])
    return ["--data", f"input={x}", "--data", f"target={y}"]


def parts(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name != INDEX)


def all_tensors(folder: str) -> dict[str, bytes]:
    with open(f"{folder}/{INDEX}") as file:
        index = json.load(file)
    found = {part: tensors(f"{folder}/{part}") for part in parts(folder)}
    assert sorted(index["weight_map"]) == sorted(name for part in found.values() for name in part), "a tensor in two parts, or in none"
    return {name: found[part][name] for name, part in index["weight_map"].items()}


def after(answer: dict) -> dict:
    return answer["after"]


def saved_in_parts() -> None:
    """The tensors of ranks that have all of them, and a training that goes on as if it had not been stopped."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for network, n, mesh in (("mlp", 4, "shard=4"), ("mlp", 4, "shard=4,zero=1"), ("mlp", 3, "shard=3,zero=2"), ("cnn", 2, "shard=2"), ("gpt", 2, "shard=2,zero=2")):
            whole, state = f"{folder}/{network}{n}.safetensors", f"{folder}/{network}-{mesh}"
            ranks(n, network, *ALL_AT_ONCE, "--save", whole, steps=2)
            ranks(n, network, *ALL_AT_ONCE, "--save", state, "--save-every", "1", mesh=mesh, steps=2)
            assert all_tensors(state) == tensors(whole), mesh
            assert len(parts(state)) == n and all(f"-of-{n}.safetensors" in part for part in parts(state)), parts(state)
            sizes = [os.path.getsize(f"{state}/{part}") for part in parts(state)]
            assert network != "mlp" or max(sizes) < 2 * min(sizes), sizes
            rest, never = ranks(n, network, *ALL_AT_ONCE, "--resume", state, mesh=mesh, steps=2), ranks(n, network, *ALL_AT_ONCE, mesh=mesh, steps=4)
            assert after(rest)["losses"] == after(never)["losses"][2:] and after(rest)["weights_hash"] == after(never)["weights_hash"], mesh
    # with two dimensions, and with sums in the network's order, the save only suffices to continue in the same way
    with tempfile.TemporaryDirectory(dir=".") as state:
        for more, mesh in ((["--optimizer", "momentum"], "dp=2,shard=2,zero=2"), (["--optimizer", "sgd"], "shard=4")):
            ranks(4, "mlp", *ALL_AT_ONCE, *more, "--save", state, mesh=mesh, steps=2)
            rest, never = ranks(4, "mlp", *ALL_AT_ONCE, *more, "--resume", state, mesh=mesh, steps=2), ranks(4, "mlp", *ALL_AT_ONCE, *more, mesh=mesh, steps=4)
            assert after(rest)["losses"] == after(never)["losses"][2:], mesh


def resharded() -> None:
    """Twelve samples a step, on 4, 2, 3 ranks and one process: the bits of the same chain with all state on all ranks, and the losses of one process that is
    never stopped, within rounding."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        common = [*ALL_AT_ONCE, *data(folder, 40, features=784), "--optimizer", "momentum", "--lr", "0.05"]
        never = after(one(FREE_BATCH, *common, "--batch", "12", steps=8))["losses"]
        whole, losses, state = f"{folder}/whole.safetensors", [], f"{folder}/state"

        def leg(n: int, mesh: str, resume: str, save: str) -> dict:
            words = [*common, "--batch", str(12 // n), "--save", save, *(["--resume", resume] if losses else [])]
            return after(ranks(n, FREE_BATCH, *words, mesh=mesh, steps=2) if n > 1 else one(FREE_BATCH, *words, steps=2))

        for n, mesh in ((4, "shard=4"), (2, "shard=2,zero=2"), (3, "shard=3,zero=1"), (1, "")):
            same = leg(n, f"dp={n}", whole, whole)
            mine = leg(n, mesh, state, state)
            assert mine["losses"] == same["losses"], (mesh, mine["losses"], same["losses"])
            assert all_tensors(state) == tensors(whole) and len(parts(state)) == n, mesh
            losses += mine["losses"]
        assert len(losses) == 8 and all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(losses, never)), (losses, never)
        # from one file into parts, and back
        for n, mesh, resume, save in ((4, "dp=2,shard=2,zero=2", whole, f"{folder}/other"), (2, "dp=2", f"{folder}/other", f"{folder}/back.safetensors")):
            losses += leg(n, mesh, resume, save)["losses"]
        longer = after(one(FREE_BATCH, *common, "--batch", "12", steps=12))["losses"]
        assert len(losses) == 12 and all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(losses, longer)), (losses, longer)


def refused(state: str, about: str, *more: str, n: int = 2) -> None:
    words = [*MPIRUN, "-n", str(n)] if n > 1 else []
    mesh = ["--mesh", f"shard={n}"] if n > 1 else []
    done = subprocess.run([*words, MEMPLAN, "train", path("mlp"), *ALL_AT_ONCE, *mesh, "--steps", "1", *more], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and about in done.stderr, (about, done.returncode, done.stderr)
    assert not done.stdout, done.stdout


def part_is_amiss() -> None:
    """Status 2, and the name of the part; the folder stays as it is."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        good, state = f"{folder}/good", f"{folder}/state"
        ranks(4, "mlp", *ALL_AT_ONCE, "--save", good, mesh="shard=4", steps=1)
        shutil.copytree(good, f"{folder}/later")
        ranks(4, "mlp", *ALL_AT_ONCE, "--resume", good, "--save", f"{folder}/later", mesh="shard=4", steps=1)
        third, later = parts(good)[2], parts(f"{folder}/later")[2]
        for n in (1, 2):
            for what, says in (
                ("missing", f"{state}/{third}: this part of the saved training is missing"),
                ("short", f"{state}/{third}: "),
                ("other", f"{state}/{third}: this part is of the save step-2."),
                ("garbage", f"{state}/{third}: "),
                ("a bit", f"{state}/{third}: this part is damaged: its checksum is "),
                ("index", f"{state}/{INDEX}: the index is not JSON"),
                ("no index", f"{state}: the folder has no {INDEX}, so no training was saved into it"),
                ("outside", f"{state}/../{third}: the index names a part that is not in its folder"),
            ):
                shutil.rmtree(state, ignore_errors=True)
                shutil.copytree(good, state)
                if what == "missing":
                    os.unlink(f"{state}/{third}")
                elif what == "short":
                    os.truncate(f"{state}/{third}", os.path.getsize(f"{state}/{third}") - 5)
                elif what == "other":
                    shutil.copy(f"{folder}/later/{later}", f"{state}/{third}")
                elif what == "garbage":
                    with open(f"{state}/{third}", "r+b") as file:
                        file.write(b"\xff" * 64)
                elif what == "a bit":
                    with open(f"{state}/{third}", "r+b") as file:
                        file.seek(-7, os.SEEK_END)
                        byte = file.read(1)[0]
                        file.seek(-7, os.SEEK_END)
                        file.write(bytes([byte ^ 4]))
                elif what == "index":
                    os.truncate(f"{state}/{INDEX}", 50)
                elif what == "no index":
                    os.unlink(f"{state}/{INDEX}")
                else:
                    with open(f"{state}/{INDEX}") as file:
                        text = file.read()
                    with open(f"{state}/{INDEX}", "w") as file:
                        file.write(text.replace(third, f"../{third}"))
                before = sorted(os.listdir(state))
                refused(state, says, "--resume", state, n=n)
                assert sorted(os.listdir(state)) == before
        refused(good, "the file was saved with the seed 0, but this training has 1", "--resume", good, "--seed", "1")
        with open(f"{folder}/file", "w") as file:
            file.write("old")
        refused(f"{folder}/file", "save into a folder, but this is a file", "--save", f"{folder}/file")
        shutil.copytree(good, f"{folder}/weights")
        with open(f"{folder}/weights/{INDEX}", "w") as file:
            json.dump({"metadata": {"total_size": 4}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}, file)
        refused(f"{folder}/weights", "not a saved training", "--save", f"{folder}/weights")
        assert len(parts(f"{folder}/weights")) == 4


def uneven_data() -> None:
    """Samples that ranks and batches do not divide: every epoch has each sample once, and goes over into the next one as in one process."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for n_ranks, batch, n_samples in ((3, 4, 14), (2, 5, 13), (4, 3, 17)):
            words = [*ALL_AT_ONCE, *data(folder, n_samples, features=784), "--optimizer", "momentum", "--lr", "0.05"]
            many = after(ranks(n_ranks, FREE_BATCH, *words, "--batch", str(batch), steps=7))
            same = after(one(FREE_BATCH, *words, "--batch", str(batch), "--accumulate", str(n_ranks), steps=7))
            assert many["losses"] == same["losses"] and many["weights_hash"] == same["weights_hash"], (n_ranks, batch, n_samples)
            at_once = after(one(FREE_BATCH, *words, "--batch", str(n_ranks * batch), steps=7))["losses"]
            assert all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(many["losses"], at_once)), (n_ranks, batch, n_samples, many["losses"], at_once)


if __name__ == "__main__":
    globals()[WHAT]()
