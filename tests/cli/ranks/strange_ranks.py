#!/usr/bin/env python3
"""strange_ranks.py MEMPLAN TEST - a rank whose peer is another program: it uses MPI, and sends too few, too many or wrong bytes. The rank ends, with a sentence.

The other program is this file, called by mpirun: it sends through the same libmpi, loaded without a binding, with the tag that ranks join with.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import time

EXCHANGES = 32767  # the tag: MP_COMMUNICATOR_TAGS - 1
HELLO = 280  # bytes of mp_peer, of which the first 24 are the program


def stranger(hello: str) -> None:
    """Joins as rank 1, sends rank 0 this hello and perhaps more bytes; then waits until rank 0 ends all ranks."""
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    world, byte = (ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{name}"))) for name in ("comm_world", "byte"))
    mpi.MPI_Init(None, None)
    theirs = ctypes.create_string_buffer(HELLO)
    mpi.MPI_Recv(theirs, HELLO, byte, 0, EXCHANGES, world, None)

    def send(contents: bytes) -> None:
        mpi.MPI_Send(contents, len(contents), byte, 0, EXCHANGES, world)

    if hello == "short":
        send(theirs.raw[:100])
    elif hello == "long":
        send(theirs.raw + bytes(5000))
    elif hello == "garbage":
        send(bytes(range(256)) + bytes(HELLO - 256))
    elif hello == "newer":
        send(b"memplan 99.1".ljust(24, b"\0") + theirs.raw[24:])
    else:  # the hello of this version, and then an unexpected length
        send(theirs.raw)
        send(bytes(4) if hello == "short_later" else bytes(1 << 20))
    time.sleep(120)


def refused() -> None:
    """All that a peer may be instead of a rank of this version."""
    from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, path

    of_another = "it runs another program, or another version of this one"
    cases = {
        "short": (rf"rank 1 of 2 has sent 100 bytes in joining instead of {HELLO}: {of_another}", {1, 2}),
        "long": (rf"rank 1 of 2 has sent {HELLO + 5000} bytes in joining instead of {HELLO}: {of_another}", {1, 2}),
        "garbage": (r"rank 1 of 2 does not run memplan [0-9.]+: its first message has another format", {2}),
        "newer": (r"rank 1 of 2 runs memplan 99\.1, but rank 0 runs memplan [0-9.]+", {2}),
        "short_later": (rf"rank 1 of 2 has sent 4 bytes in .* instead of [0-9]+: {of_another}", {1, 2}),
        "long_later": (rf"rank 1 of 2 has sent {1 << 20} bytes in .* instead of [0-9]+: {of_another}", {1, 2}),
    }
    for hello, (sentence, statuses) in cases.items():
        begin = time.monotonic()
        ours = [MEMPLAN, "train", path("mlp"), "--mesh", "dp=2", "--budget", "100%", "--no-before", "--timeout", "20"]
        line = [*MPIRUN, "-n", "1", *ours, ":", "-n", "1", sys.executable, "-B", __file__, hello, "stranger"]
        done = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert done.returncode in statuses and re.search(f"memplan: rank 0: .*{sentence}", done.stderr), (hello, done)
        assert not done.stdout.strip() and time.monotonic() - begin < 30, (hello, done)


if __name__ == "__main__":
    if sys.argv[2] == "stranger":
        stranger(sys.argv[1])
    else:
        globals()[sys.argv[2]]()
