"""The head and its loss in chunks of rows. Oracles: eager PyTorch, in float64 where other orders of additions are compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import networks
import pytest
import torch
import torch.nn.functional as F
from against_eager import assert_like_eager, eager_copy, train
from published import PUBLISHED, published
from torch import nn

import memplan
from memplan.graph.heads import NO_HEAD
from memplan.plan.chunk_choice import MOST_SEARCHES
from memplan.plan.planner import GraphPlanner

ROWS, WIDTH, WORDS = (2, 6), 8, 31
Loss = Callable[[torch.Tensor, torch.Tensor], Any]
WEIGHTS = torch.linspace(0.5, 1.5, WORDS, dtype=torch.float64)
EMPTY = torch.full(ROWS, -100)


def flat(logits: torch.Tensor) -> torch.Tensor:
    return logits.reshape(-1, WORDS)


def capped(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(flat(3 * torch.tanh(logits / 3)), labels.flatten())


def with_z_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(flat(logits), labels.flatten()) + 1e-2 * torch.logsumexp(flat(logits), -1).square().mean()


def of_tokens(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    chosen = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return -chosen.mean()


def of_classes(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(flat(logits), F.one_hot(labels.flatten(), WORDS).double() * 0.9 + 0.1 / WORDS)


def shifted(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The logits of a token predict the next token."""
    logits = 3 * torch.tanh(logits / 3)
    return F.cross_entropy(logits[..., :-1, :].reshape(-1, WORDS), labels[..., 1:].reshape(-1), reduction="sum") / 7


def shifted_tokens(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return of_tokens(logits[:, :-1], labels[:, 1:])


def second_sequence(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return usual(label_smoothing=0.1)(logits[1:], labels[1:])


def focal(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    losses = F.cross_entropy(flat(logits), labels.flatten(), reduction="none")
    return ((1 - torch.exp(-losses)) ** 2 * losses).mean()


def with_accuracy(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    right = (flat(logits).argmax(-1) == labels.flatten()).double().mean()
    return F.cross_entropy(flat(logits), labels.flatten()), right


def usual(**options: Any) -> Loss:
    return lambda logits, labels: F.cross_entropy(flat(logits), labels.flatten(), **options)


LOSSES: dict[str, Loss] = {
    "mean": usual(),
    "sum": usual(reduction="sum"),
    "rows": lambda logits, labels: usual(reduction="none")(logits, labels).mean(),
    "ignored": usual(ignore_index=3),
    "ignored 0": usual(ignore_index=0, reduction="sum"),
    "weights": usual(weight=WEIGHTS, ignore_index=5),
    "smooth": usual(label_smoothing=0.1),
    "smooth, weights": usual(label_smoothing=0.1, weight=WEIGHTS, ignore_index=0),
    "scaled": lambda logits, labels: usual()(logits, labels) / 7,
    "cast": lambda logits, labels: usual()(logits.float(), labels).double(),
    "capped": capped,
    "z": with_z_loss,
    "tokens": of_tokens,
    "shifted": shifted,
    "shifted tokens": shifted_tokens,
    "second sequence": second_sequence,
    "classes": of_classes,
    "focal": focal,
    "accuracy": with_accuracy,
}


class Head(nn.Module):
    def __init__(self, loss: Loss, bias: bool = True) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body, self.head, self.loss = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS, bias=bias), loss
        self.double()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:
        return self.loss(self.head(torch.tanh(self.body(x))), labels)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    return torch.randn(*ROWS, WIDTH, dtype=torch.float64), torch.randint(0, WORDS, ROWS)


def results(model: Any, given: tuple[Any, ...], factor: float) -> list[torch.Tensor]:
    """Return the outputs and gradients of one step whose loss has this incoming gradient."""
    model.zero_grad()
    made = model(*given)
    loss, *others = made if isinstance(made, tuple) else (made,)
    (factor * loss).backward()
    return [loss.detach(), *others, *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_in_chunks_is_the_loss(name: str) -> None:
    given = inputs()
    tolerance = 1e-6 if name == "cast" else 1e-12
    for n, factor in ((2, 1.0), (5, 0.37), (99, 1.0)):
        torch._dynamo.reset()
        model = Head(LOSSES[name], bias=n != 5)
        expected = results(eager_copy(model), given, factor)
        compiled = memplan.compile(model, "100%", chunks={"head": n})
        for a, b in zip(results(compiled, given, factor), expected, strict=True):
            assert torch.allclose(a, b, rtol=tolerance, atol=tolerance), (name, n)
        n_rows = {"shifted": 10, "shifted tokens": 10, "second sequence": 6}.get(name, 12)
        assert compiled.memplan.graph.n_chunks == min(n, n_rows)


def test_rows_without_labels_have_no_gradient() -> None:
    model = Head(usual(reduction="sum"))
    compiled = memplan.compile(model, "100%", chunks={"head": 3})
    assert all(not g.any() for g in results(compiled, (inputs()[0], EMPTY), 1.0))


def returned(logits: torch.Tensor, labels: torch.Tensor) -> Any:
    return usual()(logits, labels), logits


REFUSED: dict[str, tuple[Loss, str]] = {
    "no loss over classes": (lambda logits, labels: logits.square().mean(), NO_HEAD),
    "logits returned": (returned, "returns the logits"),
    "two slices": (lambda logits, labels: shifted(logits, labels) + usual()(logits[:, 1:], labels[:, 1:]), "sliced"),
    "a function of the mean loss": (lambda logits, labels: usual()(logits, labels) ** 2, "pow"),
    "statistics over the rows": (lambda logits, labels: usual()(logits - logits.mean((0, 1)), labels), "mean"),
    "dropout of the logits": (lambda logits, labels: usual()(F.dropout(logits), labels), "bernoulli"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_head_that_cannot_be_cut_stays_whole(name: str) -> None:
    loss, reason = REFUSED[name]
    model, given = Head(loss), inputs()
    with pytest.raises(memplan.MemplanError, match="chunks=") as raised:
        memplan.compile(model, "100%", chunks={"head": 2})(*given)
    assert reason in str(raised.value)
    torch._dynamo.reset()
    compiled = memplan.compile(Head(loss), "min", chunks="auto", time_limit=2)
    torch.manual_seed(3)
    results(compiled, given, 1.0)
    assert compiled.memplan.graph.n_chunks == 1
    assert reason in str(compiled.memplan)


@pytest.mark.parametrize("value", ["many", {"head": 0}, {"head": 2.5}, {"attention": 2}, {}, {"head": True}, 8])
def test_a_setting_that_names_no_number_is_an_error(value: Any) -> None:
    with pytest.raises(memplan.MemplanError, match="chunks"):
        memplan.compile(Head(usual()), chunks=value)


def in_bits(model: Any, given: tuple[Any, ...], budget: str, n: int) -> list[torch.Tensor]:
    """Return losses and gradients of some steps. The measured peak of a step is the planned one."""
    compiled = memplan.compile(model, budget, chunks={"head": n}, effort="quick")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = train(compiled, given, 2)
    found += [p.grad.clone() for p in model.parameters() if p.grad is not None]
    for p in model.parameters():
        p.grad = None
    report = compiled.memplan
    assert report.measure(lambda: compiled(*given).backward()) == report.planned_bytes
    assert report.graph.n_chunks == n and not report.fallbacks
    return found


BUDGETS = ("100%", "floor+50%", "floor+15%")


def test_a_plan_has_the_bits_of_the_same_chunks_kept() -> None:
    found = []
    for budget in BUDGETS:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, given = networks.Transformer(words=200, layers=2), networks.sequences(2, 12, 200)
        found.append(in_bits(model, given, budget, 4))
    for others in found[1:]:
        assert all(map(torch.equal, others, found[0]))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_networks(name: str) -> None:
    found = []
    for budget in BUDGETS:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, given = published(name)
        eager = eager_copy(model)
        found.append(in_bits(model, given, budget, 4))
        expected = train(eager, given, 2)
        expected += [p.grad for p in eager.parameters() if p.grad is not None]
        largest = max(float(g.abs().max()) for g in expected)
        assert all(float((a - b).abs().max()) < 1e-5 * largest for a, b in zip(found[-1], expected, strict=True))
        assert all(map(torch.equal, found[-1], found[0]))


def test_without_a_small_budget_the_logits_stay_whole() -> None:
    torch.manual_seed(0)
    model, given = networks.Transformer(words=200, layers=1), networks.sequences(2, 8, 200)
    compiled = memplan.compile(model, "100%", chunks="auto")
    assert_like_eager(model, compiled, given)


def test_auto_is_no_slower_than_any_number() -> None:
    given = inputs()
    known = {"effort": "quick", "time_limit": 4.0}

    def planned(budget: Any, chunks: Any) -> memplan.Report:
        return memplan.estimate(Head(usual()), given, budget=budget, chunks=chunks, **known)

    least = {n: planned("min", {"head": n}).planned_bytes for n in (1, 2, 4)}
    assert least[1] > least[2] > least[4]
    for budget in (least[1], least[2], (least[2] + least[4]) // 2):
        auto = planned(budget, "auto")
        assert auto.planned_bytes <= budget
        others = [planned(budget, {"head": n}).seconds for n, least_bytes in least.items() if least_bytes <= budget]
        assert auto.seconds <= min(others)
    with pytest.raises(memplan.BudgetError):
        planned(least[4] // 2, "auto")


def n_searches(model: Any, given: tuple[Any, ...], chunks: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of searches of an estimate within a budget below keep-all."""
    found = 0
    search = GraphPlanner.search

    def counted(*given: Any) -> bool:
        nonlocal found
        found += 1
        return search(*given)

    torch._dynamo.reset()
    with monkeypatch.context() as patch:
        patch.setattr(GraphPlanner, "search", counted)
        memplan.estimate(model, given, budget="floor+30%", chunks=chunks, effort="quick")
    return found


def test_auto_adds_few_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network without a head and MLPs has the same searches as without chunks."""
    convolutions, images = networks.Convolutions(), (torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,)))
    n = n_searches(convolutions, images, "off", monkeypatch)
    assert n > 0 and n_searches(convolutions, images, "auto", monkeypatch) == n
    n = n_searches(Head(usual()), inputs(), "off", monkeypatch)
    assert n < n_searches(Head(usual()), inputs(), "auto", monkeypatch) <= n + MOST_SEARCHES


def test_other_options_give_other_chunks() -> None:
    model, given = Head(usual()), inputs()
    expected = results(eager_copy(model), given, 1.0)
    for chunks, n in (({"head": 3}, 3), ("off", 1), ({"head": 2}, 2), ("auto", 1)):
        compiled = memplan.compile(model, "100%", chunks=chunks)
        found = results(compiled, given, 1.0)
        assert compiled.memplan.graph.n_chunks == n
        assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in zip(found, expected, strict=True))


def test_backward_may_run_twice() -> None:
    model = Head(usual())
    compiled = memplan.compile(model, "100%", chunks={"head": 3})
    loss = compiled(*inputs())
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters()]
    loss.backward()
    assert all(torch.equal(2 * a, p.grad) for a, p in zip(first, model.parameters()))


def test_the_report_names_the_tensors_with_eagers_bits() -> None:
    model = Head(usual())
    compiled = memplan.compile(model, "100%", chunks={"head": 3}, verify=True)
    compiled(*inputs())
    (note,) = (n for n in compiled.memplan.graph.notes if n.startswith("verified"))
    assert "with chunks of rows (head=3)" in note and "output 0" in note


def test_a_whole_step_in_chunks() -> None:
    given = inputs()
    models = [Head(usual()) for _ in range(2)]
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in models]
    step = memplan.TrainStep(models[0], None, optimizers[0], "floor+30%", chunks={"head": 4})
    for _ in range(3):
        loss = step(*given)
        expected = models[1](*given)
        expected.backward()
        optimizers[1].step()
        optimizers[1].zero_grad()
        assert torch.allclose(loss, expected.detach(), rtol=1e-12)
    assert step.memplan.graph.n_chunks == 4
    for a, b in zip(models[0].parameters(), models[1].parameters()):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_half_precision_is_added_in_full() -> None:
    """Under autocast, the parts of the weight gradient are cast before they are added."""
    torch.manual_seed(0)
    model, given = networks.Transformer(dropout=0.0, words=200, layers=1), networks.sequences(2, 16, 200)
    exact = eager_copy(model)
    exact(*given).backward()
    compiled = memplan.compile(model, "100%", chunks={"head": 16})
    with torch.autocast("cpu", torch.bfloat16):
        loss = compiled(*given)
    loss.backward()
    error = (model.head.weight.grad - exact.head.weight.grad).abs().max() / exact.head.weight.grad.abs().max()
    assert float(error) < 0.02
