#!/usr/bin/env python3
"""columnar.py MEMPLAN TEST [COUNT] - trainings on Parquet files that pyarrow writes, judged by those on .npy files with the same numbers.

A single process has to give the same bits from both. Ranks that share the rows see every row once per epoch: the rows of one process that accumulates as
many micro-batches, and nothing of the others' row groups. Files that do not fit, or are broken, end with one sentence and status 2. `mutations` damages COUNT
files by chance: none may crash (run it with a program built with SAN=1).
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, path

PLAN = ["--budget", "100%", "--no-before", "--json"]
BATCH, WIDTH, CLASSES = 6, 12, 5  # of the test network mlp
DATA_KIB = 100_000  # of memory of its own, in which a program with Arrow trains, and into which 43 MB more do not fit


def ended(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


def train(network: str, *more: str, ranks: int = 1, steps: int = 7) -> dict[str, Any]:
    start = [*MPIRUN, "-n", str(ranks)] if ranks > 1 else []
    mesh = ["--mesh", f"dp={ranks}"] if ranks > 1 else []
    done = ended([*start, MEMPLAN, "train", path(network), *mesh, "--steps", str(steps), *PLAN, *more])
    assert done.returncode == 0, done.stderr
    after: dict[str, Any] = json.loads(done.stdout)["after"]
    return after


def refused(network: str, *more: str) -> str:
    """The message of a training that ends before its first step."""
    done = ended([MEMPLAN, "train", path(network), "--steps", "1", *PLAN, *more])
    assert done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1, (done.returncode, done.stdout, done.stderr)
    return done.stderr


def samples(rows: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(rows)
    return draw.standard_normal((rows, WIDTH)).astype(np.float32), draw.integers(0, CLASSES, rows)


def lists(values: np.ndarray, kind: str = "list") -> pa.Array:
    """An array of n dimensions as lists in lists, from the inside out: of variable size with narrow or wide offsets, or of a fixed one."""
    array = pa.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        if kind == "fixed":
            array = pa.FixedSizeListArray.from_arrays(array, size)
        else:
            offsets = np.arange(0, len(array) + 1, size)
            array = pa.ListArray.from_arrays(offsets.astype(np.int32), array) if kind == "list" else pa.LargeListArray.from_arrays(offsets, array)
    return array


def write(file: str, columns: dict[str, Any], group: int = 1000, **more: object) -> str:
    pq.write_table(pa.table(columns), file, row_group_size=group, **more)
    return file


def npy(folder: str, **arrays: np.ndarray) -> list[str]:
    words = []
    for name, array in arrays.items():
        np.save(f"{folder}/{name}.npy", array)
        words += ["--data", f"{name}={folder}/{name}.npy"]
    return words


def as_arrays(folder: str) -> None:
    """Row groups of any size, all kinds of lists and numbers, columns that nobody asks for, compression: the bits of .npy."""
    x, t = samples(41)
    whole = train("mlp", *npy(folder, input=x, target=t))["weights_hash"]
    others = {"words": ["a"] * 41, "when": pa.array(range(41), pa.timestamp("s")), "nulls": pa.nulls(41, pa.float32())}
    for kind in ("fixed", "list", "large"):
        for group, more in ((1000, {}), (1, {"compression": "gzip"}), (7, {"compression": "zstd", "use_dictionary": False, "data_page_version": "2.0"})):
            file = write(f"{folder}/x.parquet", {"a": others["words"], "target": t.astype(np.int32), **others, "input": lists(x, kind)}, group, **more)
            assert train("mlp", "--data", file)["weights_hash"] == whole, (kind, group)
    wide = write(f"{folder}/x.parquet", {"input": lists(x.astype(np.float64)), "target": t.astype(np.uint8)}, 10)
    assert train("mlp", "--data", wide)["weights_hash"] == whole
    narrow = write(f"{folder}/x.parquet", {"target": t}, 10)
    assert train("mlp", "--data", narrow, *npy(folder, input=x))["weights_hash"] == whole
    assert train("mlp", "--data", narrow, *npy(folder, input=x), "--resume", saved(folder, narrow, x), steps=4)["weights_hash"] == whole
    pictures = np.random.default_rng(1).integers(0, 256, (23, 3, 17, 15)).astype(np.uint8)
    classes = np.arange(23) % 3
    bits = train("cnn", *npy(folder, input=pictures, target=classes))["weights_hash"]
    for shape in ((23, 765), (23, 3, 17, 15)):
        file = write(f"{folder}/x.parquet", {"input": lists(pictures.reshape(shape)), "target": classes}, 5)
        assert train("cnn", "--data", file)["weights_hash"] == bits, shape


def in_a_folder(folder: str) -> None:
    """Decoded columns are in a folder, not in memory: the same bits if memory is too small, on ranks too, and no file is left. Faults are reported."""
    x, t = samples(900_000)
    large, own = write(f"{folder}/large.parquet", {"input": lists(x), "target": t}, 5_000), f"{folder}/columns"
    os.mkdir(own)
    few = write(f"{folder}/few.parquet", {"input": lists(x[:60]), "target": t[:60]})
    words = [MEMPLAN, "train", path("mlp"), "--steps", "3", *PLAN, "--data", large, "--test", few]
    whole = json.loads(ended(words).stdout)
    limited = ["sh", "-c", f'ulimit -d {DATA_KIB}; exec "$@"', "sh", *words]
    done = ended(limited)
    assert done.returncode == 1 and re.search("large.parquet: there is no memory for [0-9]+ bytes of column '(input|target)'", done.stderr), done
    done = ended([*limited, "--columns-in", own])
    assert done.returncode == 0, done.stderr
    mine = json.loads(done.stdout)
    assert mine["after"]["weights_hash"] == whole["after"]["weights_hash"] and mine["test"] == whole["test"] and not os.listdir(own), mine
    x, t = samples(63)
    file = write(f"{folder}/x.parquet", {"input": lists(x), "target": t}, 7)
    assert train("mlp", "--data", file, "--columns-in", own, ranks=2)["weights_hash"] == train("mlp", "--data", file, ranks=2)["weights_hash"] and not os.listdir(own)
    assert f"{file}: cannot create a file in '{folder}/nowhere': No such file or directory" in refused("mlp", "--data", file, "--columns-in", f"{folder}/nowhere")
    done = ended(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *words[:-4], "--data", file, "--columns-in", own])
    assert done.returncode == 2 and re.search(rf"{file}: there is no room for [0-9]+ bytes in '{own}': File too large", done.stderr) and not os.listdir(own), done


def saved(folder: str, file: str, x: np.ndarray) -> str:
    state = f"{folder}/saved.safetensors"
    train("mlp", "--data", file, *npy(folder, input=x), "--save", state, steps=3)
    return state


def dealt(folder: str) -> None:
    """With a learning rate too small to move anything the losses of an epoch are those of its samples, in any order: all rows are seen once."""
    x, t = samples(10 * BATCH)
    file = write(f"{folder}/x.parquet", {"input": lists(x), "target": t}, 7)
    for n in (2, 5):
        still = ["--lr", "1e-30", "--optimizer", "sgd"]
        mine = train("mlp", "--data", file, *still, ranks=n, steps=20 // n)["losses"]
        first, second = mine[: 10 // n], mine[10 // n :]
        expected = np.mean(train("mlp", *npy(folder, input=x, target=t), *still, steps=10)["losses"])
        assert abs(np.mean(first) - expected) < 1e-6 and abs(np.mean(second) - expected) < 1e-6, (n, mine, expected)
        assert first != second, n  # another order
    x, t = samples(63)  # parts that are not equal
    file = write(f"{folder}/x.parquet", {"input": lists(x), "target": t}, 7)
    two, one = train("mlp", "--data", file, ranks=2, steps=15), train("mlp", "--data", file, "--accumulate", "2", steps=15)
    assert two["weights_hash"] == one["weights_hash"] and two["losses"] == one["losses"]
    four, both = train("mlp", "--data", file, ranks=4), train("mlp", "--data", file, "--accumulate", "2", ranks=2)
    assert four["losses"][0] == both["losses"][0]
    assert np.allclose(four["losses"], both["losses"], rtol=1e-5)  # sums of two and two are others than of four
    own_groups(folder)


def own_groups(folder: str) -> None:
    """Faults in the second half of the file affect rank 1 only; no rank reads a column that no input names."""
    x, t = samples(40)
    columns = {"input": lists(x), "other": lists(x), "target": t}
    file = write(f"{folder}/x.parquet", columns, 10, compression="none", use_dictionary=False, write_page_checksum=True)
    whole = train("mlp", "--data", file)["weights_hash"]
    for name, rank in (("other", None), ("input", 1)):
        at = pq.ParquetFile(file).metadata.row_group(3).column([*columns].index(name))
        with open(file, "r+b") as f:
            f.seek(at.data_page_offset + at.total_compressed_size - 40)
            f.write(b"\xff" * 40)
        if rank is None:
            assert train("mlp", "--data", file)["weights_hash"] == whole
        else:
            done = ended([*MPIRUN, "-n", "2", MEMPLAN, "train", path("mlp"), "--mesh", "dp=2", "--steps", "1", *PLAN, "--data", file])
            assert done.returncode and "memplan: rank 1: " in done.stderr and "row group 3 of column 'input'" in done.stderr, done.stderr
            assert "memplan: rank 0: " not in re.sub(r"memplan: rank 0: .*rank 1 of 2 has ended.*", "", done.stderr), done.stderr


def misfits(folder: str) -> None:
    x, t = samples(12)
    good = {"input": lists(x), "target": t}
    holes, short = x.tolist(), x.tolist()
    holes[7][3] = None
    short[9] = short[9][:5]
    for columns, sentence in (
        ({"input": good["input"]}, "there is no column 'target'; those of the file: 'input'"),
        ({**good, "target": [*t[:3].tolist(), None, *t[4:].tolist()]}, "row 3 of column 'target' is null"),
        ({**good, "input": pa.array(holes, pa.list_(pa.float32()))}, "row 7 of column 'input' has a null"),
        ({**good, "input": pa.array(short, pa.list_(pa.float32()))}, "row 9 of column 'input' has a list of 5, and those before it have 12"),
        ({**good, "input": lists(x[:, :11])}, "a sample of the file is 11, but 'input' needs 12"),
        ({**good, "input": ["word"] * 12}, "column 'input' holds string: float32, float64, int32, int64, uint8 and lists of them can be read"),
        ({**good, "input": [{"a": 1.0, "b": 2.0}] * 12}, "column 'input' holds struct<a: double, b: double>"),
        ({**good, "target": t.astype(np.float32)}, "'target' needs whole numbers, but the column contains float32"),
        ({**good, "target": [*t[:10].tolist(), 5, 0]}, "row 10 of column 'target' is 5, but 'target' needs whole numbers from 0 to 4"),
        ({name: values[:5] for name, values in good.items()}, "the file has 5 rows, but a batch needs 6"),
    ):
        said = refused("mlp", "--data", write(f"{folder}/x.parquet", columns, 5))
        assert f"{folder}/x.parquet: {sentence}" in said, (sentence, said)
    file = write(f"{folder}/x.parquet", good)
    assert "the file's 12 rows give each of the 3 micro-batches of a step 4 rows, but a micro-batch needs 6" in refused("mlp", "--data", file, "--accumulate", "3")
    assert "only one file with columns is possible" in refused("mlp", "--data", file, "--data", file)
    with open(file, "rb") as f:
        contents = f.read()
    for broken in (b"", b"PAR1", contents[:-9], contents[: len(contents) // 2], b"x" * 1000, contents[:-8] + b"\xff\xff\xff\x7fPAR1"):
        with open(f"{folder}/broken.parquet", "wb") as f:
            f.write(broken)
        assert f"{folder}/broken.parquet: the file cannot be read: " in refused("mlp", "--data", f"{folder}/broken.parquet")
    for name, what in (("absent", "the file cannot be opened: No such file or directory"), ("folder", "a file is needed, this is a directory")):
        os.makedirs(f"{folder}/folder.parquet", exist_ok=True)
        assert f"{folder}/{name}.parquet: {what}" in refused("mlp", "--data", f"{folder}/{name}.parquet"), name
    modules = {**ENVIRONMENT, "MEMPLAN_MODULES": folder}
    done = subprocess.run([MEMPLAN, "train", path("mlp"), *PLAN, "--data", file], env=modules, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "columnar data: this build has no Parquet module (make PARQUET=1)" in done.stderr, done.stderr


def mutations(folder: str, count: int) -> None:
    """Bytes set, runs of them filled, cut out, doubled or swapped, in files of several kinds; half of the changes are in the description of the columns."""
    x, t = samples(30)
    kinds: list[dict[str, Any]] = [{}, {"compression": "gzip", "data_page_version": "2.0"}, {"use_dictionary": False, "compression": "none"}, {"compression": "zstd"}]
    draw, statuses = random.Random(5), {0: 0, 1: 0, 2: 0}
    for k in range(count):
        good = write(f"{folder}/good.parquet", {"input": lists(x, ("list", "fixed")[k % 2]), "target": t}, 11, **kinds[k % len(kinds)])
        with open(good, "rb") as f:
            data = bytearray(f.read())
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        for _ in range(draw.choice((1, 1, 2, 5))):
            at = draw.randrange(footer, len(data)) if draw.random() < 0.5 else draw.randrange(len(data))
            n = draw.choice((1, 1, 1, 4, 16))
            how = draw.randrange(4)
            if how == 0:
                data[at : at + n] = bytes(draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256))) for _ in range(n))
            elif how == 1:
                data[at] ^= 1 << draw.randrange(8)
            elif how == 2:
                del data[at : at + n]
            else:
                data[at:at] = data[at : at + n]
            if not data:
                data = bytearray(b"P")
        with open(f"{folder}/x.parquet", "wb") as f:
            f.write(data)
        done = ended([MEMPLAN, "train", path("mlp"), "--steps", "1", *PLAN, "--data", f"{folder}/x.parquet"])
        # 1: numbers that were read differ by chance, and the loss is not finite
        clean = done.returncode in statuses and (done.returncode == 0 or len(done.stderr.strip().splitlines()) == 1 or "loss" in done.stderr)
        if not clean:
            os.replace(f"{folder}/x.parquet", "failing.parquet")
        assert clean, (k, "kept as failing.parquet", done.returncode, done.stderr[-3000:])
        statuses[done.returncode] += 1
    print(f"mutations: {count} files, {statuses[0]} trained, {statuses[1]} diverged, {statuses[2]} refused by a sentence")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if WHAT == "mutations":
            mutations(folder, int(sys.argv[3]))
        else:
            {"as_arrays": as_arrays, "in_a_folder": in_a_folder, "give each of": dealt, "misfits": misfits}[WHAT](folder)


main()
