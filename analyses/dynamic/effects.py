"""Which threads write memory. What a thread that writes none has read has no effect, unless threads exchange values by other means."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

import numpy as np

from ptxkit.machine.monitoring import Monitor

OWN = (".local", ".param")
"""State spaces of which no other thread sees anything."""


class Effects(Monitor):
    """Records the threads that write memory, and the bytes that each thread accesses on the given lines."""

    def __init__(self, lines: Iterable[int]) -> None:
        self.lines = frozenset(lines)
        self._writers: set[int] = set()
        self._accesses: list[tuple[int, bool, Any, Any]] = []
        """Line, whether it is a write, and for each byte its address and the index of the thread."""
        self._launch: Any = None
        self._line_of: dict[int, int] = {}

    def begin(self, launch: Any) -> None:
        self._launch = launch

    def access(self, access: Any) -> None:
        is_write = access.kind != "read"
        threads = np.atleast_1d(np.asarray(access.lanes.index, np.int64))
        if is_write and not access.space.startswith(OWN):
            self._writers.update(threads.tolist())
        line = self._line(getattr(access.lanes, "site", None))
        if line in self.lines:
            size = int(np.max(access.size))
            at = np.broadcast_to(np.atleast_1d(np.asarray(access.at, np.int64)), threads.shape)[:, None] + np.arange(size)
            self._accesses.append((line, is_write, at.reshape(-1), np.repeat(threads, size)))

    def meet(self, lines: Set[int]) -> bool:
        """Whether two threads that write memory access the same byte on these lines, and one of the accesses is a write."""
        readers: dict[int, set[int]] = {}
        writers: dict[int, set[int]] = {}
        for line, is_write, addresses, threads in self._accesses:
            for at, thread in zip(addresses.tolist(), threads.tolist(), strict=True) if line in lines else ():
                if thread in self._writers:
                    (writers if is_write else readers).setdefault(at, set()).add(thread)
        return any(len(found | readers.get(at, set())) > 1 for at, found in writers.items())

    def _line(self, site: Any) -> int:
        """The line of an instruction; 0 if it is unknown."""
        if site is None:
            return 0
        found = self._line_of.get(id(site))
        if found is None:
            found = self._line_of[id(site)] = self._launch.span(site).line
        return found


__all__ = ["Effects"]
