"""fullgraph=False, and captures by others: code that runs eagerly has eager's numbers, and one sentence names its line."""

from __future__ import annotations

import builtins
import copy
import warnings
from typing import Any

import pytest
import torch
from test_eagerly import WIDTH, Squared, assert_equal, batch, run_both, step
from torch import nn

import memplan


class Experts(nn.Module):
    """Each row goes to one of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def sorted(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = x[:, :2].argmax(1)
        return x[chosen.argsort()], torch.bincount(chosen, minlength=2)


class BySplit(Experts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, counts = self.sorted(x)
        shares = rows.split(counts.tolist())  # the line
        return torch.cat([part(s) for part, s in zip(self.parts, shares)]).pow(2).sum()


class ByTensorSplit(Experts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, counts = self.sorted(x)
        ends = counts.cumsum(0)[:-1]
        shares = rows.tensor_split(ends)  # the line
        return torch.cat([part(s) for part, s in zip(self.parts, shares)]).pow(2).sum()


class ByListOfEnds(Experts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, counts = self.sorted(x)
        shares = rows.tensor_split(counts.cumsum(0)[:-1].tolist())  # the line
        return torch.cat([part(s) for part, s in zip(self.parts, shares)]).pow(2).sum()


class BySlices(Experts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, counts = self.sorted(x)
        begin, loss = 0, torch.zeros(())
        for part, n in zip(self.parts, counts.tolist()):  # the line
            loss = loss + part(rows[begin : begin + n]).pow(2).sum()
            begin += n
        return loss


class ByNonzero(Experts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen, loss = x[:, :2].argmax(1), torch.zeros(())
        for k, part in enumerate(self.parts):
            rows = torch.nonzero(chosen == k)[:, 0]  # the line
            if rows.numel():  # the line
                loss = loss + part(x[rows]).pow(2).sum()
        return loss


class BreaksInLoop(Squared):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.body:
            x = layer(x)
            builtins.print(end="")  # the line
        return x.pow(2).sum()


class BreaksInTry(Squared):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            x = self.body(x)
            builtins.print(end="")  # the line
        finally:
            x = x * 2
        return x.pow(2).sum()


class Halts(Squared):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, halted = x, torch.zeros(len(x))
        for _ in range(5):
            h = self.body(h)
            halted = halted + h.mean(1).detach().sigmoid()
            if bool((halted > 1).all()):  # the line
                break
        return h.pow(2).sum()


class Inside(Squared):
    """A function of a planned model is given up."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks, self.head = BreaksInLoop(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x) * self.breaks(x)).pow(2).sum()


class Disabled(Squared):
    @torch.compiler.disable
    def halves(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).tanh() / 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.halves(x)  # the line
        return self.body(h).pow(2).sum()


class Hooked(Squared):
    def __init__(self) -> None:
        super().__init__()
        self.body[2].register_full_backward_hook(lambda *a: None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.body(x)  # the line
        return h.pow(2).sum()


class Averages(Hooked):
    def __init__(self) -> None:
        Squared.__init__(self, nn.BatchNorm1d(WIDTH, momentum=None))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.body(x)  # the line
        return h.pow(2).sum()


def lines(kind: type[nn.Module]) -> list[int]:
    """Those of the class's forward that end with the mark."""
    code = kind.forward.__code__
    with open(__file__, encoding="utf-8") as source:
        rows = source.read().splitlines()
    last = max(line for _, _, line in code.co_lines() if line)
    return [k for k in range(code.co_firstlineno, last + 1) if rows[k - 1].endswith("# the line")]


def twice(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
    return [*step(model, module, x), *step(model, module, x)]


def about_eager(said: list[str]) -> list[str]:
    return [s for s in said if "eagerly" in s]


GIVEN_UP: list[type[nn.Module]] = [BreaksInLoop, BreaksInTry, Halts, ByNonzero]


@pytest.mark.parametrize("kind", GIVEN_UP)
def test_a_function_that_pytorch_gives_up_is_eager_and_its_line_is_named(kind: type[nn.Module]) -> None:
    got, said, expected = run_both(twice, kind(), fullgraph=False)
    assert_equal(expected, got)
    (sentence,) = about_eager(said)
    assert sentence.startswith(f"memplan runs {kind.__name__} eagerly, without a plan: PyTorch cannot capture {__file__}:")
    assert any(f"{__file__}:{line} (" in sentence for line in lines(kind))


@pytest.mark.parametrize("kind", [Disabled, Hooked, Averages])
def test_a_part_that_is_eager_is_named_by_its_line(kind: type[nn.Module]) -> None:
    got, said, expected = run_both(twice, kind(), fullgraph=False)
    assert_equal(expected, got)
    (sentence,) = about_eager(said)
    assert (
        f"runs a part of {kind.__name__} eagerly, without a plan: PyTorch cannot capture {__file__}:{lines(kind)[0]} ("
        in sentence
    )


def test_a_function_within_a_planned_model_is_named_by_its_line() -> None:
    got, said, expected = run_both(twice, Inside(), fullgraph=False)
    assert_equal(expected, got)
    (sentence,) = about_eager(said)
    assert "a part of Inside" in sentence and f"{__file__}:{lines(BreaksInLoop)[0]} (" in sentence


class Shows(Squared):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.body(x)
        builtins.print(end="")
        return self.body(h).pow(2).sum()


def test_parts_that_are_all_planned_and_eager_code_outside_of_the_call_are_no_reason_to_warn() -> None:
    before = nn.Linear(WIDTH, WIDTH)
    torch.manual_seed(0)
    got, said, expected = run_both(lambda m, s, x: twice(lambda x: m(before(x).exp()), s, x), Shows(), fullgraph=False)
    assert_equal(expected, got)
    assert not about_eager(said)


@pytest.mark.parametrize("kind", [BySplit, ByTensorSplit, ByListOfEnds, BySlices, ByNonzero])
@pytest.mark.parametrize("fullgraph", [True, False])
def test_experts_whose_shares_depend_on_data_are_eagers(kind: type[nn.Module], fullgraph: bool) -> None:
    got, said, expected = run_both(twice, kind(), fullgraph=fullgraph)
    assert_equal(expected, got)
    if fullgraph:
        (sentence,) = about_eager(said)
        assert any(f"PyTorch cannot capture {__file__}:{line} (" in sentence for line in lines(kind))


class Wrong(Squared):
    """Its error is the same class as that of a capture."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) @ torch.ones(WIDTH + 1, WIDTH)


def test_an_error_of_the_model_is_the_models() -> None:
    with pytest.warns(memplan.FallbackWarning), pytest.raises(RuntimeError, match="mat1 and mat2"):
        memplan.compile(Wrong(), "100%", cache="off")(batch())


@pytest.mark.parametrize("is_planned_before", [False, True])
@pytest.mark.parametrize("outer", ["eager", "aot_eager", "memplan"])
def test_inside_another_capture_there_is_no_plan_and_that_is_said(outer: str, is_planned_before: bool) -> None:
    torch.compiler.reset()
    model = Squared()
    eager = copy.deepcopy(model)
    memplan.compile(model, "100%", cache="off")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if is_planned_before:
            step(model, model, batch())
        got = twice(torch.compile(lambda x: model(x) * 2, backend=outer, fullgraph=True), model, batch())
    assert_equal(twice(lambda x: eager(x) * 2, eager, batch()), got)
    said = [str(w.message) for w in caught if "does not plan Squared" in str(w.message)]
    assert len(said) == (outer != "memplan") and all(f'(backend="{outer}") captures' in s for s in said)


def test_a_compiled_module_inside_of_a_compiled_one_is_planned_by_that() -> None:
    model = Squared()
    memplan.compile(model.body, "100%", cache="off")
    got, said, expected = run_both(twice, model)
    assert_equal(expected, got)
    assert not said and model.memplan.graphs


def test_backward_inside_of_a_compiled_function_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    """Hooks of a planned backward are no code for PyTorch's capture."""
    model = Squared()

    def gradients(x: torch.Tensor) -> torch.Tensor:
        loss = model(x)
        loss.backward()
        return loss.detach()

    eager = copy.deepcopy(model)
    compiled = memplan.compile(gradients, "100%", cache="off", fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = [compiled(batch()), compiled(batch())]
    expected = [eager(batch()) for _ in range(2)]
    for loss in expected:
        loss.backward()
    assert_equal([*expected, *(p.grad for p in eager.parameters())], [*got, *(p.grad for p in model.parameters())])
    assert "Exception ignored" not in capfd.readouterr().err
