"""PyTorch's private names: only one folder of the package uses them. Tests remove each name and check the consequence."""

from __future__ import annotations

import ast
import contextlib
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx
from without import captures, collectives, explained, modules, operators, tensors
from without.case import CASES, Take, Two, planned, x_of

import memplan
from memplan import torch_internals
from memplan.graph import native
from memplan.torch_internals import names
from memplan.torch_internals.names import NAMES, Private
from memplan.torch_internals.texts import only_read_texts

ROOMS = (captures, collectives, explained, operators, modules, tensors)  # whose import fills CASES
SOURCES = Path(memplan.__file__).parent
PRIVATE = re.compile(r"_[A-Za-z]\w*")
NOT_PYTORCHS = {"_getframe", "_fields", "_current_frames", "_compiler_ctx"}  # Python's, Lightning's


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Take:
    """Has this PyTorch not have a name, or none of the names for the same."""
    native.overloads.cache_clear()
    native.made_of_others.cache_clear()
    return lambda row: monkeypatch.setattr(row, "place", None)


@pytest.mark.parametrize("row", NAMES, ids=lambda row: row.paths[0].rpartition("torch.")[2])
def test_without(row: Private, take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    take(row)
    with contextlib.ExitStack() as stack:
        if row.lost and row in names.missing():
            stack.enter_context(pytest.warns(memplan.FallbackWarning, match=re.escape(str(row))))
            torch_internals.probe()
    CASES[row.paths[0]](take, monkeypatch)
    native.overloads.cache_clear()
    native.made_of_others.cache_clear()


def test_every_name_is_taken_away() -> None:
    assert CASES.keys() == {row.paths[0] for row in NAMES}


def test_nothing_is_missing_here() -> None:
    """Of what this version of PyTorch should have."""
    assert names.missing() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch_internals.probe()


# Texts of a capture


@pytest.mark.parametrize("logs", [False, True])
def test_a_graph_is_a_text_only_for_a_log(logs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[fx.GraphModule] = []
    written = fx.GraphModule.print_readable

    def write(module: fx.GraphModule, *args: Any, **kwargs: Any) -> str:
        texts.append(module)
        return written(module, *args, **kwargs)

    monkeypatch.setattr(fx.GraphModule, "print_readable", write)
    log = logging.getLogger("torch._functorch._aot_autograd.graph_compile.__aot_joint_graph")
    level = log.level
    log.setLevel(logging.INFO if logs else logging.WARNING)
    try:
        planned(Two())(x_of()).backward()
    finally:
        log.setLevel(level)
    assert bool(texts) == logs


def test_traces_of_equal_lines_are_equal() -> None:
    def traces() -> list[str]:
        graphs: list[fx.GraphModule] = []
        torch._dynamo.reset()
        model = torch.compile(Two(), backend=lambda module, inputs: graphs.append(module) or module.forward)
        model(x_of())
        return [str(n.meta.get("stack_trace")) for n in graphs[0].graph.nodes]

    plain = traces()
    with only_read_texts():
        assert traces() == plain and any("^" in trace for trace in plain)


# One folder


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What a file uses that begins with an underscore, and is not its object's own."""
    for node in ast.walk(tree):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [a.name for a in node.names if a.name.startswith("torch")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            found = [f"{node.module}.{a.name}" for a in node.names]
        elif isinstance(node, ast.Attribute) and dotted(node.value) not in ("self", "cls"):
            found = [node.attr]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PRIVATE.fullmatch(node.value):
            found = [node.value]
        for name in found:
            if any(PRIVATE.fullmatch(part) for part in name.split(".")):
                yield node.lineno, name


def own_names(tree: ast.AST) -> set[str]:
    """What a file defines."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    defined = {n.name for n in ast.walk(tree) if isinstance(n, kinds)}
    defined |= {n.target.id for n in ast.walk(tree) if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    stored = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return defined | {n.attr for n in stored if dotted(n.value) == "self"}


def test_no_other_file_has_a_private_name() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCES.rglob("*.py"))}
    own = {name for tree in trees.values() for name in own_names(tree)} | NOT_PYTORCHS
    elsewhere = [
        f"{path.relative_to(SOURCES)}:{line}: {name}"
        for path, tree in trees.items()
        if path.parent.name != "torch_internals"
        for line, name in private_names(tree)
        if name not in own
    ]
    assert not elsewhere, "these belong into memplan/torch_internals: " + ", ".join(elsewhere)


@pytest.mark.parametrize(
    "line",
    [
        "torch._C._functorch",
        "x = t._version",
        "from torch._dynamo import config",
        "import torch._guards",
        "getattr(t, '_base')",
    ],
)
def test_a_private_name_is_seen(line: str) -> None:
    assert list(private_names(ast.parse(line)))


def test_names_that_are_nowhere_are_missing_and_nothing_fails() -> None:
    try:
        gone = [
            Private(path, use="nothing", lost="nothing is")
            for path in ("torch._gone.name", "torch.Tensor._gone", "torch._gone")
        ]
        assert not any(gone) and gone[0].get(3) == 3
        assert set(gone) <= set(names.missing())
        with pytest.raises(memplan.MemplanError, match=r"lacks torch._gone.name \(nothing\): nothing is"):
            gone[0]()
    finally:
        del NAMES[-3:]


def test_the_second_name_is_found_where_the_first_is_not() -> None:
    row = Private("torch._gone", "torch.ones", use="nothing", instead="nothing")
    NAMES.remove(row)
    assert row.get() is torch.ones
