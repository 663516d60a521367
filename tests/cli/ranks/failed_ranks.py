#!/usr/bin/env python3
"""failed_ranks.py MEMPLAN TEST - ranks that see other data, have no memory, die on another machine or never come: all end, with a sentence that says why."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, end_of, gone, path, processes
from saved_ranks import ALL_AT_ONCE, FREE_BATCH, data


def each(*ranks: list[str], timeout: float = 60) -> subprocess.CompletedProcess:
    words = [*MPIRUN]
    for k, of_rank in enumerate(ranks):
        words += [*([":"] if k else []), "-n", "1", *of_rank]
    return subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)


def other_data() -> None:
    """The same shape with one other sample in a batch that is looked at; more samples; other data to test on."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        usual = [MEMPLAN, "train", path("mlp"), *ALL_AT_ONCE, "--mesh", "dp=2"]
        mine, more = data(folder, 12), data(folder, 20)
        changed = [word.replace("x12-", "z12-") for word in mine]
        with open(mine[1].removeprefix("input="), "rb") as source, open(changed[1].removeprefix("input="), "wb") as copy:
            contents = bytearray(source.read())
            contents[-1] ^= 1
            copy.write(contents)
        test = ["--test", mine[1], "--test", mine[3]]
        for ours, theirs, what in ((mine, changed, "--data"), (mine, more, "--data"), ([*mine, *test], [*mine, *(w.replace("--data", "--test") for w in more)], "--test")):
            done = each([*usual, *ours], [*usual, *theirs])
            assert done.returncode == 2 and re.search(rf"memplan: rank 0: .*rank 1 of 2 has another set of data .*{what}", done.stderr), (what, done)
        done = each([*usual, *mine], [*usual, *mine])
        assert done.returncode == 0, done


def out_of_memory() -> None:
    """One rank may take less memory than its arena: it says so, and the other one ends, too."""
    words = [MEMPLAN, "train", path(FREE_BATCH), *ALL_AT_ONCE, "--mesh", "dp=2", "--batch", "12000", "--steps", "2"]
    limited = ["sh", "-c", f"ulimit -v 500000; exec {' '.join(words)}"]
    begin = time.monotonic()
    done = each(words, limited)
    assert done.returncode != 0 and re.search("memplan: rank 1: .*there is no memory for an arena of [0-9]+ bytes", done.stderr), done
    assert time.monotonic() - begin < 30, done


def on_another_machine() -> None:
    """A rank whose processes others cannot see, as with another name of the machine: the launcher ends all, and who waits says for whom."""
    words = [MEMPLAN, "train", path("cnn"), *ALL_AT_ONCE, "--mesh", "dp=2", "--steps", "1000000000"]
    elsewhere = ["unshare", "--uts", "sh", "-c", f"hostname elsewhere && exec {' '.join(words)}"]
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode:
        print("SKIPPED: no namespace with another name of the machine may be made here")
        return
    patient = ["--mca", "odls_base_sigkill_timeout", "3"]  # a busy machine may take longer than the usual second to say a sentence
    job = subprocess.Popen([*MPIRUN, *patient, "-n", "1", *words, ":", "-n", "1", *elsewhere], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pids = processes(job, 2)
    os.kill(pids[1], signal.SIGKILL)
    said = end_of(job, 20)
    assert re.search("memplan: rank 0: .*the launcher ended all ranks while this rank waited for rank 1 of 2, on elsewhere, in .*", said), said
    gone(pids)
    job = subprocess.Popen([*MPIRUN, "-n", "1", *words, "--timeout", "2", ":", "-n", "1", *elsewhere], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pids = processes(job, 2)
    os.kill(pids[1], signal.SIGSTOP)
    said = end_of(job, 12)
    assert re.search("memplan: rank 0: .*rank 1 of 2, on elsewhere, has not answered in .* for 2 s", said), said
    gone(pids)


def never_joined() -> None:
    """A process that never comes to the others: joining them ends in time."""
    begin = time.monotonic()
    done = each([MEMPLAN, "train", path("mlp"), *ALL_AT_ONCE, "--mesh", "dp=2", "--timeout", "2"], ["sleep", "20"])
    assert done.returncode != 0 and "this process could not join the other ranks in time" in done.stderr, done
    assert time.monotonic() - begin < 15, done


def told_once() -> None:
    """If all ranks fail alike before the first step, one rank prints the sentence. If one rank fails, it prints its own sentence."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        samples = data(folder, 12)
        for more, sentence in (
            (["--data", "input=nowhere.npy"], "nowhere.npy: the file cannot be opened"),
            (["--test", "input=nowhere.npy"], "nowhere.npy: the file cannot be opened"),
            (["--offload", "nowhere"], "'nowhere' is neither host nor an existing folder"),
            (["--costs", "nowhere.json"], "nowhere.json: the file cannot be opened"),
            (["--freeze", "nothing"], "no parameter matches the freeze pattern 'nothing'"),
        ):
            usual = [MEMPLAN, "train", path("mlp"), *ALL_AT_ONCE, "--mesh", "dp=3"]
            failing = [*usual, *more]
            healthy = [*usual, *(samples if "--data" in more else [])]
            for ranks, teller in (([failing] * 3, 0), ([healthy, healthy, failing], 2), ([healthy, failing, failing], 1)):
                done = each(*ranks)
                told = re.findall(r"^memplan: (rank \d: .*)", done.stderr, re.MULTILINE)
                assert done.returncode == 2 and len(told) == 1 and told[0].startswith(f"rank {teller}: ") and sentence in told[0], (more, teller, done)


if __name__ == "__main__":
    globals()[WHAT]()
