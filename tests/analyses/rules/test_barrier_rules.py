"""The B rules on many ways of writing the same mistakes, and on correct code that looks like them."""

from __future__ import annotations

import pytest
from marked import expected, found, kernels

KERNELS = kernels("barrier_rules.txt")


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_found(name: str) -> None:
    assert found(KERNELS[name], "B") == expected(KERNELS[name])
