"""Six kinds of networks under FSDP2 on two processes, at two budgets or three (MEMPLAN_SLOW=1): bits, and peaks as planned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from sharded_models import process, pytestmark  # noqa: F401
from sharded_networks import BUDGETS, NETWORKS, rows


def networks(rank: int) -> None:
    budgets = BUDGETS if os.environ.get("MEMPLAN_SLOW") else BUDGETS[:2]
    found = {name: rows(name, 1, rank, budgets) for name in NETWORKS}
    troubles = [f"{name} at {trouble}" for name, of_one in found.items() for row in of_one for trouble in row.troubles()]
    assert not troubles, "\n".join(troubles)


def test_two_ranks(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("torchvision")
    torch.multiprocessing.spawn(process, (str(tmp_path), 2, networks), 2)
