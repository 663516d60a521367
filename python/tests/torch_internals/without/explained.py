"""Without the names by which explain_oom and saved see more than the graph of autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import memplan
from memplan.explain import explanation
from memplan.explain.failed_call import NotReplayed
from memplan.explain.failure import Failure, of_threads
from memplan.torch_internals import autograd, devices, dispatch
from without.case import Two, without, x_of


@without(autograd.NUMBER, autograd.NEXT_NUMBER, dispatch.FAKE)
def modules_are_those_of_the_nearest_parameters(*_: Any) -> None:
    model, x = Two(), x_of()
    loss = model(x)
    found = memplan.saved(loss)
    assert found.n_bytes > 0 and not any(row.place for row in found.rows)
    with pytest.raises(NotReplayed):
        memplan.saved(loss, model, (x,))


@without(devices.OUT_OF_MEMORY)
def the_error_explains(*_: Any) -> None:
    assert not devices.on_out_of_memory(lambda *told: None)
    found = explanation.explain(Failure(1, torch.device("cpu"), of_threads()), None)
    assert found.account.total() > 0
