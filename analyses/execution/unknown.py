"""Functions that are called and that nobody defines: what they return is made up.

A function that is given no address can change nothing but variables of its own module. So it is taken to return numbers: small ones by
lot, the same for all threads with the first contents, others for each thread with the rest. Of one that is given an address nobody can
say what it writes there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.analyses.execution.contents import COUNT, Contents
from ptxkit.machine.memory.windows import WINDOW_BITS

MOST_RETURNED = 4
"""What is returned is less than this: flags and small numbers."""


class UnknownFunctions:
    """What functions return that nobody defines, in one run."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.called: dict[str, None] = {}
        """Their names."""
        self.sites: dict[int, Any] = {}
        """The calls, by `id`."""
        self._calls = 0

    def __call__(self, name: str, site: Any, lanes: Any, words: list[Any], sizes: list[int]) -> list[Any] | None:
        """The bytes of each result, a row for each lane; None if the function is given an address. `words` are what it is given."""
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
        """Numbers of `size` bytes: words of 4 bytes with the same number in each, or one that is shorter."""
        numbers = lot.integers(0, MOST_RETURNED, (rows, 1), np.uint32)
        words = np.repeat(numbers, -(-size // 4), axis=1)
        if size == 8:
            words[:, 1] = 0
        return np.ascontiguousarray(words).view(np.uint8)[:, :size]
