"""Monitors of tries: how often threads execute what a repair puts in, and whether a run is worth its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ptxkit.machine import Fault
from ptxkit.machine.monitoring import Monitor

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding

GIVEN_UP = "given up"
"""The kind of a fault by which a run is ended."""


class Counting(Monitor):
    """How often threads execute each instruction that synchronizes, by line."""

    def __init__(self) -> None:
        self.lanes: Counter[int] = Counter()
        self._launch: Any = None

    def begin(self, launch: Any) -> None:
        self._launch = launch

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        self.lanes[self._launch.span(lanes.site).line] += int(lanes.count)


class Judging(Monitor):
    """Ends a run as soon as what was found says enough."""

    def __init__(self, is_enough: Callable[[Sequence[Finding]], bool]) -> None:
        self._is_over = False
        self._is_enough = is_enough
        self._launch: Any = None

    def begin(self, launch: Any) -> None:
        self._launch = launch

    def found(self) -> None:
        found = [one for monitor in self._launch.monitors for one in getattr(monitor, "findings", ())]
        self._is_over = self._is_over or self._is_enough(found)

    def block(self, lanes: Any, body: Any, block: Any, taken: Any) -> None:
        # by now all monitors have heard of what was found
        if self._is_over:
            raise Fault(GIVEN_UP, "the rest of the run says nothing more")
