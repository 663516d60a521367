"""Families of measured jobs, and the margin that the memory of a process contains."""

from __future__ import annotations

from memplan.memory.process import Needs, family_of


def test_families_are_told_by_operators() -> None:
    for operators, family in (
        (("aten.embedding.default", "aten._softmax.default"), "transformer"),
        (("aten.embedding.default", "aten._scaled_dot_product_efficient_attention.default"), "transformer"),
        (("aten.convolution.default", "aten._log_softmax.default"), "convolution"),
        (("aten.convolution.default", "aten._softmax.default"), "vision transformer"),
        (("aten.convolution.default", "aten._softmax.default", "aten.embedding.default"), "other"),
        (("aten.convolution.default", "aten.embedding.default"), "other"),
        (("aten.embedding.default",), "other"),
        (("aten.mm.default",), "other"),
    ):
        assert family_of(operators) == family
    assert family_of(("aten.convolution.default",), has_halves=True) == "other"
    assert family_of(("aten.embedding.default", "aten._softmax.default"), has_halves=True) == "16-bit transformer"
    needs = Needs.of("a100", "other", 1, 2)
    assert needs is not None and "no measured job resembles" in str(needs)
    needs = Needs.of("a100", "16-bit transformer", 1, 1000)
    assert needs is not None and needs.n_jobs == 46 and needs.likely_bytes == needs.process_bytes + 65
    assert Needs.of("an unknown card", "other", 1, 2) is None
