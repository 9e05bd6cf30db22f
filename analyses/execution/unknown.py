"""Synthesized results of functions that are called but not defined in the module.

A function that receives no address can change nothing but variables of its own module. It is therefore taken to return small random
integers: the same for all threads with the first contents, and different ones for each thread with other contents. A function that receives
an address may write anything there, so its effect is unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.analyses.execution.contents import COUNT, Contents
from ptxkit.machine.memory.windows import WINDOW_BITS

MOST_RETURNED = 4
"""Exclusive upper bound of synthesized results, so that they are valid as flags and small numbers."""


class UnknownFunctions:
    """Results of undefined functions in one run."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.called: dict[str, None] = {}
        """Names of the functions that were called."""
        self.sites: dict[int, Any] = {}
        """The calls, by `id`."""
        self._calls = 0

    def __call__(self, name: str, site: Any, lanes: Any, words: list[Any], sizes: list[int]) -> list[Any] | None:
        """The bytes of each result, one row for each lane; None if an argument in `words` is an address."""
        allocations = lanes.residents.memory.allocations
        for word in words:
            given = np.atleast_1d(np.asarray(word).astype(np.uint64))
            if (given >> np.uint64(WINDOW_BITS)).any() or not allocations.outside(given, 1).all():
                return None
        self.called.setdefault(name)
        self.sites.setdefault(id(site), site)
        self._calls += 1
        lot = np.random.default_rng((self.contents.seed, self._calls))
        rows = 1 if self.contents.name == COUNT.name else lanes.count
        return [np.broadcast_to(self._numbers(lot, rows, size), (lanes.count, size)) for size in sizes]

    def _numbers(self, lot: Any, rows: int, size: int) -> Any:
        """Random integers of `size` bytes: each 32-bit word has the same value, except that the upper half of 64 bits is 0."""
        numbers = lot.integers(0, MOST_RETURNED, (rows, 1), np.uint32)
        words = np.repeat(numbers, -(-size // 4), axis=1)
        if size == 8:
            words[:, 1] = 0
        return np.ascontiguousarray(words).view(np.uint8)[:, :size]
