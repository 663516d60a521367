"""No situation from a public thread ends in a wrong result, or in a step without a plan, without a warning."""

from __future__ import annotations

import pytest

from threads import SITUATIONS
from threads.situations import Situation
from threads.verdict import verdict


@pytest.mark.parametrize("situation", SITUATIONS, ids=[s.name for s in SITUATIONS])
def test_a_situation_works_or_is_warned_of(situation: Situation) -> None:
    for package in situation.needs:
        pytest.importorskip(package, exc_type=ImportError)
    kind, reason = verdict(situation)
    assert kind in {"works", "warned"}, reason
