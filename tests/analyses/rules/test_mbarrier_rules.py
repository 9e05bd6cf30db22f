"""The M, G and S rules on many ways of writing the same mistakes, and on correct code that looks like them."""

from __future__ import annotations

import pytest
from marked import expected, findings, found, kernels

KERNELS = kernels("mbarrier_rules.txt")
FAMILIES = "MGS"


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_found(name: str) -> None:
    assert found(KERNELS[name], FAMILIES) == expected(KERNELS[name])


def test_a_race_names_two_threads() -> None:
    (one,) = findings(KERNELS["none between a write and the reads of others"], FAMILIES)

    assert "thread (255,0,0) of CTA (0,0,0) writes smem[1020..1023] (line 18), thread (0,0,0) reads it (line 22)" in one.message
    assert [related.span.line for related in one.related] == [18]


def test_a_kernel_that_does_not_say_its_threads_is_told_what_was_tried() -> None:
    (one,) = findings(KERNELS["a count that suits no launch"], FAMILIES)

    assert "bar[0] lacks 1 of 65 arrivals" in one.notes
    assert "shown with one CTA of 64 threads, n = 64" in one.notes
