#!/usr/bin/env python3
"""alone_ranks.py MEMPLAN TEST - processes of one launcher that are no ranks: trainings into one file are refused, and the sentences of several do not mix."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, path


def without_a_mesh() -> None:
    """One sentence, nothing saved; also with a mesh of one rank, with a plan without ranks, and where nothing is trained but all is measured."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        plan, state, costs = f"{folder}/plan.json", f"{folder}/state.safetensors", f"{folder}/costs.json"
        subprocess.run([MEMPLAN, "plan", path("mlp"), "--device", "cpu", "--budget", "100%", "-q", "-o", plan], env=ENVIRONMENT, check=True, capture_output=True)
        training = ["--no-before", "--steps", "2", "--save", state]
        for n, more, says in (
            (2, ["train", path("mlp"), "--budget", "100%", *training], "add --mesh dp=2"),
            (3, ["train", path("mlp"), "--budget", "100%", "--mesh", "dp=1", *training], "add --mesh dp=3"),
            (2, ["train", path("mlp"), "--plan", plan, *training], "add --mesh dp=2"),
            (2, ["profile", path("mlp"), "-o", costs], "disturb each other's measurements"),
        ):
            done = subprocess.run([*MPIRUN, "-n", str(n), MEMPLAN, *more], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
            sentences = [line for line in done.stderr.splitlines() if line.startswith("memplan: ")]
            assert done.returncode == 2 and len(sentences) == 1 and says in sentences[0], (more, done)
            assert f"the launcher has started {n} processes" in sentences[0], sentences
            assert not os.path.exists(state) and not os.path.exists(costs), more
        done = subprocess.run([*MPIRUN, "-n", "1", MEMPLAN, "train", path("mlp"), "--budget", "100%", *training], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and os.path.exists(state), done
        assert "\033[" not in done.stdout + done.stderr, "colours in a log"


def lines_are_whole() -> None:
    """Every sentence is one write: a socket that keeps writes apart receives one, with one prefix."""
    for words in (
        ["train", path("mlp"), "--budget", "100%", "--no-such-option"],
        ["train", "nowhere.onnx", "--budget", "100%"],
        ["train", path("mlp"), "--budget", "100%", "--batch", "6", "--batch", "6"],
        ["estimate", "caf\xe9\x1b.onnx"],  # a character in three parts, and one that is made visible
    ):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            subprocess.run([MEMPLAN, *words], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=theirs.fileno(), timeout=60)
            theirs.close()
            writes = []
            while packet := ours.recv(1 << 16):
                writes.append(packet)
        assert len(writes) == 1 and writes[0].startswith(b"memplan: ") and writes[0].count(b"memplan: ") == 1, (words, writes[:4])
        assert writes[0].endswith(b"\n") and writes[0].count(b"\n") == 1, writes


if __name__ == "__main__":
    globals()[WHAT]()
