"""How much is tested where there is much to test: a sample, or everything with `PTXKIT_TEST_ALL=1` in the environment."""

from __future__ import annotations

import os

from hypothesis import settings

ALL = bool(os.environ.get("PTXKIT_TEST_ALL"))
EVERY = 1 if ALL else 4
"""Of a long list, every n-th item is tried."""


def examples(many: int) -> settings:
    """Settings for that many examples of Hypothesis, or a quarter of them."""
    return settings(max_examples=many // EVERY, deadline=None)
