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

    assert one.message == "thread 0 reads what thread 255 writes, and nothing orders them"
    assert [related.message for related in one.related] == ["written here"]


def test_a_kernel_that_does_not_say_its_threads_is_told_what_was_tried() -> None:
    (one,) = findings(KERNELS["a count that suits no launch"], FAMILIES)

    assert one.notes[-1].startswith("the kernel does not say with how many threads it is launched: something is wrong with 32, 64, 128")
