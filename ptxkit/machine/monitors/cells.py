"""Which cells of tensor memory have been written since they were allocated (ISA 9.1: 9.7.16.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Cells:
    """The cells of the resident CTAs, by number: their position in bytes (`tensor_memory.offsets`) over that of a cell."""

    def __init__(self) -> None:
        self._written = np.zeros(0, bool)

    def mark(self, cells: Array, is_written: bool) -> None:
        """Marks cells as written, or as not written, as they are after their deallocation."""
        if not len(cells):
            return
        missing = int(cells.max()) + 1 - len(self._written)
        if missing > 0:
            self._written = np.concatenate([self._written, np.zeros(missing, bool)])
        self._written[cells] = is_written

    def has_written(self, cells: Array) -> bool:
        """Whether any of these cells has been written."""
        return bool(self._written[cells[cells < len(self._written)]].any())
