"""Which stores to shared memory are read. An unordered pair of stores matters only if some thread reads the result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ptxkit.machine.monitoring import Monitor

MOST_LINES = 64
"""Maximum number of stores that are distinguished."""


class Reads(Monitor):
    """Records in `read` the lines, among the given ones, whose stores are read or updated later in the launch."""

    def __init__(self, lines: Iterable[int]) -> None:
        self.lines = sorted(lines)[:MOST_LINES]
        self.read: set[int] = set()
        self._stored = np.zeros(0, np.uint64)
        """For each byte, the lines that have stored to it, as a bit set."""
        self._launch: Any = None
        self._bits: dict[int, int] = {}

    def begin(self, launch: Any) -> None:
        self._launch = launch

    def access(self, access: Any) -> None:
        if not access.space.startswith(".shared"):
            return
        bit = self._bit(getattr(access.lanes, "site", None)) if access.kind == "write" else 0
        if access.kind == "write" and not bit:
            return
        at = (np.atleast_1d(np.asarray(access.at, np.int64))[:, None] + np.arange(int(np.max(access.size)))).reshape(-1)
        if bit:
            missing = int(at.max()) + 1 - len(self._stored)
            if missing > 0:
                self._stored = np.concatenate([self._stored, np.zeros(missing, np.uint64)])
            self._stored[at] |= np.uint64(bit)
        elif len(self._stored):
            bits = int(np.bitwise_or.reduce(self._stored[at[at < len(self._stored)]], initial=np.uint64(0)))
            self.read.update([line for n, line in enumerate(self.lines) if bits >> n & 1])

    def _bit(self, site: Any) -> int:
        """The bit for the line of an instruction; 0 if the line is not watched."""
        if site is None:
            return 0
        found = self._bits.get(id(site))
        if found is None:
            line = self._launch.span(site).line
            found = self._bits[id(site)] = 1 << self.lines.index(line) if line in self.lines else 0
        return found


__all__ = ["Reads"]
