"""Whole steps with copies in the host's memory, and the optimizer's state there: bits, memories, what users see, refusals."""

from __future__ import annotations

import copy
import io
import weakref
from collections.abc import Callable
from typing import Any

import networks
import pytest
import torch
from step_pair import OPTIMIZERS, OTHERS, Pair, perceptron, points, transformer
from test_offload import BUDGETS, make, written_bytes
from torch import nn

import memplan
from memplan.memory import host, states
from memplan.memory.states import States
from memplan.step.updates import Updates

KIB = 1024
MOVED: dict[str, Any] = {"offload": "64MiB", "offload_state": True}
ADAM = OPTIMIZERS["AdamW"]


@pytest.fixture(autouse=True)
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks of the tests are small."""
    monkeypatch.setattr(host, "LEAST_BYTES", 16 * KIB)


class Away(Pair):
    """A pair whose planned step has its state in the host's memory."""

    @property
    def pool(self) -> host.Pool:
        assert self.step.updates.states is not None
        return self.step.updates.states.pool

    def check_memory(self, *inputs: Any) -> None:
        """Both memories are as planned, the host's by what the system has given."""
        report = self.step.memplan
        assert not report.fallbacks and report.planned_bytes <= report.budget_bytes
        assert report.static_bytes == self.static_bytes(*inputs)
        assert abs(self.measured(*inputs) - report.planned_bytes) <= 0.001 * report.planned_bytes
        report.measure(lambda: self.step(*inputs))
        assert report.measured_host_bytes == report.host_bytes
        state = sum(t.untyped_storage().nbytes() for t in self.homes())
        assert state == report.graph.state_bytes > 0
        slabs = self.pool.idle  # of activations
        assert state + sum(s.n_bytes for s in slabs) == report.host_bytes
        assert sum(map(written_bytes, slabs)) >= 0.99 * sum(s.n_bytes for s in slabs)


def n_states(report: Any) -> int:
    """Of how many parameters the state comes and goes in a step."""
    return sum(c.name.startswith("state of ") and c.n_back == 1 for c in report.copied)


@pytest.mark.parametrize("name", ["convolutions", "unet", "tied"])
def test_activations_alone(name: str) -> None:
    model, inputs = networks.make(name)
    pair = Pair(model, OPTIMIZERS["SGD"], budget="floor+20%", offload="64MiB", link="100GB/s")
    pair.check(*inputs, steps=3)
    report = pair.step.memplan
    assert report.copied and not report.fallbacks and report.graph.state_bytes == 0
    assert abs(pair.measured(*inputs) - report.planned_bytes) <= 0.001 * report.planned_bytes
    report.measure(lambda: pair.step(*inputs))
    assert report.measured_host_bytes == report.host_bytes > 0


@pytest.mark.parametrize("name", BUDGETS)
def test_networks_with_all_that_may_move(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LEAST_BYTES", KIB)
    model, inputs = make(name)
    pair = Away(model, ADAM, budget="floor+20%", **MOVED)
    pair.check(*inputs, steps=3)
    pair.check_memory(*inputs)


@pytest.mark.parametrize("fuse", ["backward", "after"])
@pytest.mark.parametrize("budget", ["100%", "floor+10%"])
@pytest.mark.parametrize("name", [*OPTIMIZERS, "Adam"])
def test_ten_steps_are_eagers_and_both_memories_are_as_planned(name: str, budget: str, fuse: str) -> None:
    pair, inputs = Away(transformer(2), {**OTHERS, **OPTIMIZERS}[name], budget=budget, fuse=fuse, **MOVED), sequences()
    pair.check(*inputs, steps=10)
    pair.check_memory(*inputs)
    large = [p for p, state in pair.ours.state.items() if any(map(pair.pool.has, tensors(state)))]
    assert len(large) == sum(p.numel() * p.element_size() >= 16 * KIB for p in pair.model.parameters()) > 0
    assert n_states(pair.step.memplan) == len(large)


@pytest.mark.parametrize("name", OTHERS)
def test_any_optimizer_that_updates_each_parameter_by_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LEAST_BYTES", KIB)
    pair = Away(perceptron(), OTHERS[name], budget="100%", loss=nn.functional.mse_loss, **MOVED)
    pair.check(*points(), steps=5)
    assert pair.homes() and not pair.step.memplan.fallbacks


def test_layouts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (x, y) = networks.make("convolutions")
    pair = Away(model.to(memory_format=torch.channels_last), ADAM, budget="floor+20%", **MOVED)
    monkeypatch.setattr(host, "LEAST_BYTES", 256)
    pair.check(x.to(memory_format=torch.channels_last), y, steps=3)
    assert any(t.dim() == 4 and not t.is_contiguous() for t in pair.homes())


def wide(layers: int = 12) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(96, 96, bias=False), nn.Tanh()) for _ in range(layers)))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 96), torch.randn(8, 96)


def test_a_step_trains_whose_state_alone_does_not_fit() -> None:
    of_one, inputs, options = 4 * 96 * 96, batch(), {"loss": nn.functional.mse_loss, "budget": 20 * 4 * 96 * 96}
    with pytest.raises(memplan.BudgetError, match="the smallest plan found needs"):
        Pair(wide(), ADAM, **options).step(*inputs)
    torch._dynamo.reset()
    pair = Away(wide(), ADAM, **options, **MOVED)
    pair.check(*inputs, steps=5)
    pair.check_memory(*inputs)
    state = 24 * of_one
    assert pair.step.memplan.graph.state_bytes == state > options["budget"] > pair.measured(*inputs)


def test_a_budget_that_is_too_small_says_what_is_needed() -> None:
    inputs, options = batch(), {"loss": nn.functional.mse_loss, **MOVED}
    with pytest.raises(memplan.BudgetError, match="the smallest plan found needs") as told:
        Away(wide(), ADAM, budget=13 * 4 * 96 * 96, **options).step(*inputs)
    assert "with state of primals_" in str(told.value)
    torch._dynamo.reset()
    pair = Away(wide(), ADAM, budget=told.value.smallest_bytes, **options)
    pair.check(*inputs, steps=3)
    pair.check_memory(*inputs)
    assert pair.step.memplan.planned_bytes == told.value.smallest_bytes


# What users see between steps


def tensors(state: Any) -> list[torch.Tensor]:
    return [v for v in state.values() if isinstance(v, torch.Tensor)]


def sequences() -> tuple[torch.Tensor, ...]:
    return networks.sequences(4, 24, 50)


def moved(make: Callable[[Any], torch.optim.Optimizer] = ADAM, **options: Any) -> Away:
    return Away(wide(3), make, **{"budget": "floor+20%", "loss": nn.functional.mse_loss, **MOVED, **options})


def test_state_is_tensors_on_the_cpu_of_their_own() -> None:
    pair = moved()
    pair.check(*batch(), steps=2)
    before = [id(t) for t in pair.homes()]
    assert len(before) == 6
    for t in pair.homes():
        assert type(t) is torch.Tensor and t.device.type == "cpu" and t.storage_offset() == 0
        assert t.untyped_storage().nbytes() == t.numel() * 4
    pair.check(*batch(), steps=2)
    assert before == [id(t) for t in pair.homes()]  # as eager's, which are updated in place
    assert [list(s) for s in pair.ours.state.values()] == [list(s) for s in pair.theirs.state.values()]


def test_a_checkpoint_is_saved_and_loaded() -> None:
    pair, file = moved(), io.BytesIO()
    pair.check(*batch(), steps=3)
    torch.save({"model": pair.model.state_dict(), "optimizer": pair.ours.state_dict()}, file)
    assert len(file.getvalue()) < 1.2 * 9 * 4 * 96 * 96
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again = moved()
    for model, optimizer in ((again.model, again.ours), (again.eager, again.theirs)):
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(copy.deepcopy(saved["optimizer"]))
    assert len(again.homes()) == 6  # it has never been elsewhere
    for trained in (again, pair):
        trained.check(*batch(), steps=3)
    pair.ours.load_state_dict(pair.ours.state_dict())
    for old in (pair.ours, pair.theirs):
        old.load_state_dict(copy.deepcopy(saved["optimizer"]))
    pair.check(*batch(), steps=2)


def test_what_is_loaded_has_the_types_that_eager_gives_it() -> None:
    pair = moved()
    pair.check(*batch(), steps=2)
    saved = copy.deepcopy(pair.theirs.state_dict())
    for state in saved["state"].values():
        state["exp_avg"] = state["exp_avg"].double() + 1e-12
    for optimizer in (pair.ours, pair.theirs):
        optimizer.load_state_dict(copy.deepcopy(saved))
    assert len(pair.homes()) == 6
    pair.check(*batch(), steps=2)


def test_optimizers_go_on_without_the_step() -> None:
    pair = moved()
    pair.check(*batch(), steps=2)
    other = copy.deepcopy(pair.ours)
    assert other.state and not any(map(pair.pool.has, [t for s in other.state.values() for t in tensors(s)]))
    x, y = batch()
    for model, optimizer in ((pair.model, pair.ours), (pair.eager, pair.theirs)):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    pair.check(x, y, steps=2)


def test_eager_steps_before() -> None:
    pair, (x, y) = moved(), batch()
    for model, optimizer in ((pair.model, pair.ours), (pair.eager, pair.theirs)):
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert not pair.homes()
    pair.check(x, y, steps=2)
    pair.check_memory(x, y)


@pytest.mark.skipif(torch.__version__ < "2.15", reason="eager's AdamW, too, makes its counter on the default device")
def test_another_default_device() -> None:
    pair, inputs = moved(), batch()
    pair.eager_step(*inputs)
    with torch.device("meta"):
        pair.step(*inputs)
        pair.ours.load_state_dict(copy.deepcopy(pair.ours.state_dict()))
    assert len(pair.homes()) == 6
    pair.check(*inputs, steps=2)


def test_sizes_schedules_and_freezing() -> None:
    pair = moved(OPTIMIZERS["SGD"])
    schedules = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (pair.theirs, pair.ours)]
    for n in (64, 32, 64):
        pair.check(torch.randn(n, 96), torch.randn(n, 96))
        for schedule in schedules:
            schedule.step()
    for model in (pair.model, pair.eager):
        model[0].requires_grad_(False)
    inputs = torch.randn(64, 96), torch.randn(64, 96)
    pair.check(*inputs, steps=2)
    assert len(pair.homes()) == 3 and len(pair.step.memplan.graphs) == 3
    frozen = pair.step.memplan.graphs[-1]
    assert frozen.state_bytes == 3 * 4 * 96 * 96 and n_states(frozen) == 2
    assert frozen.static_bytes == pair.static_bytes(*inputs)


def test_memory_is_given_back() -> None:
    pair = moved()
    pair.check(*batch(), steps=2)
    pool = pair.pool
    for _ in range(3):  # what is loaded takes the place of what was there
        pair.ours.load_state_dict(copy.deepcopy(pair.ours.state_dict()))
        pair.step(*batch())
    pool.measure_from_now()
    assert pool.leased_bytes == 6 * 4 * 96 * 96 and len(pool.idle) == 6
    pair.ours.state.clear()
    pool.measure_from_now()
    assert pool.leased_bytes == 0


# Copies whenever they may run


def as_late_as_possible(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Copies as on a GPU whose link is slow: none has begun when it is issued, and all run where they are waited for, if what
    they read is there still."""
    ran: list[str] = []

    def issue(target: torch.Tensor, source: torch.Tensor, _: torch.device, way: str) -> torch.Tensor:
        assert source.data_ptr() not in host.EVENTS
        there, here = weakref.ref(target), weakref.ref(source)
        target.fill_(torch.nan)

        def run() -> None:
            to, what = there(), here()
            assert to is not None and what is not None, "what a copy needs has gone before"
            to.copy_(what)
            ran.append(way)

        host.EVENTS[target.data_ptr()] = run
        return target

    class Stream:
        def wait_event(self, event: Callable[[], None]) -> None:
            event()

    for module in (host, states):
        monkeypatch.setattr(module, "issue", issue)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: Stream())
    return ran


@pytest.mark.parametrize("fuse", ["backward", "after"])
@pytest.mark.parametrize("budget", ["100%", "floor+20%"])
def test_copies_may_end_where_they_are_waited_for(budget: str, fuse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = as_late_as_possible(monkeypatch)
    pair = Away(transformer(2), ADAM, budget=budget, fuse=fuse, **MOVED)
    pair.check(*sequences(), steps=3)
    report = pair.step.memplan
    n_state = n_states(report)
    assert n_state and ran.count("out") == 3 * (len(report.copied) + n_state) and not host.EVENTS
    assert ran.count("back") >= ran.count("out") - 2 * n_state  # in the first step there was no state


# What goes wrong


@pytest.mark.parametrize("where", ["before it is sent", "in the update"])
def test_a_step_that_is_broken_off_leaves_state_with_its_parameters(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair, inputs = moved(), batch()
    pair.check(*inputs, steps=2)
    pair.eager_step(*inputs)
    calls: list[int] = []
    send, run = States.send, Updates.run

    def broken(self: Any, *args: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return (send if where == "before it is sent" else run)(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(*((States, "send") if where == "before it is sent" else (Updates, "run")), broken)
        with pytest.raises(KeyboardInterrupt):
            pair.step(*inputs)
    n_updated = 0
    for p, theirs in zip(pair.model.parameters(), pair.eager.parameters()):
        is_updated = torch.equal(p, theirs)
        n_updated += is_updated
        for name, t in pair.ours.state[p].items():
            assert torch.equal(t, pair.theirs.state[theirs][name]) == is_updated
    assert n_updated == (2 if where == "before it is sent" else 1)
    assert len(pair.homes()) == 6


def test_without_a_plan_state_comes_for_one_update_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def shared() -> nn.Module:
        model: Any = wide(3)
        model[0][0].bias = nn.Parameter(model[1][0].weight.data[0])
        return model

    pair = Away(shared(), ADAM, budget="10GiB", loss=nn.functional.mse_loss, eager=shared(), **MOVED)
    present: list[int] = []
    update = States.update

    def counted(self: States, *args: Any) -> Any:
        present.append(sum(len(state) for _, state in self.on_device.values()))
        return update(self, *args)

    monkeypatch.setattr(States, "update", counted)
    with pytest.warns(memplan.FallbackWarning, match="shares its memory"):
        pair.check(*batch(), steps=3)
    assert len(pair.homes()) == 6 and present == [0] * 12  # four parameters, one of which has a small state


def test_the_hosts_memory_is_too_small() -> None:
    inputs, sentence = batch(), "the optimizer's state needs 216.00 KiB of host memory, but offload= is 200.00 KiB"
    pair = moved(offload="200KiB")
    with pytest.raises(memplan.MemplanError, match=sentence):
        pair.step(*inputs)
    assert not pair.ours.state
    pair.eager_step(*inputs)
    with pytest.warns(memplan.FallbackWarning, match="state and the buffers of earlier states together use 216.00 KiB"):
        pair.ours.load_state_dict(copy.deepcopy(pair.theirs.state_dict()))
    with pytest.raises(memplan.MemplanError, match=sentence):
        pair.step(*inputs)
    torch._dynamo.reset()
    just = moved(offload="216KiB")  # and no copy of an activation
    just.check(*inputs, steps=2)
    just.check_memory(*inputs)
    assert just.step.memplan.host_bytes == 216 * KIB


def test_refusals() -> None:
    model = wide(3)
    with pytest.raises(memplan.MemplanError, match="offload_state=True needs offload="):
        memplan.TrainStep(model, nn.functional.mse_loss, ADAM(model.parameters()), offload_state=True)
    with pytest.raises(memplan.MemplanError, match="offload=0 provides no host memory"):
        memplan.TrainStep(model, nn.functional.mse_loss, ADAM(model.parameters()), offload=0)
    elsewhere = moved()
    weight = next(elsewhere.model.parameters())
    elsewhere.ours.state[weight]["exp_avg"] = torch.empty_like(weight, device="meta")
    with pytest.raises(memplan.MemplanError, match="exp_avg of a parameter on cpu is on meta"):
        elsewhere.step(*batch())


def test_no_state_is_large_enough() -> None:
    plain = moved(lambda p: torch.optim.SGD(p, lr=0.1))
    with pytest.warns(memplan.FallbackWarning, match="offload_state=True has no effect: no tensor of SGD's state"):
        plain.check(*batch())
