"""How often threads execute what a repair puts in."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ptxkit.machine.monitoring import Monitor


class Counting(Monitor):
    """How often threads execute each instruction that synchronizes, by line."""

    def __init__(self) -> None:
        self.lanes: Counter[int] = Counter()
        self._launch: Any = None

    def begin(self, launch: Any) -> None:
        self._launch = launch

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        self.lanes[self._launch.span(lanes.site).line] += int(lanes.count)
