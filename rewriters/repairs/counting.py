"""Monitors for trial runs: how often threads execute inserted code, and whether a run can be stopped early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ptxkit.machine import Fault
from ptxkit.machine.monitoring import Monitor

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding

GIVEN_UP = "given up"
"""The kind of fault that stops a run early."""


class Counting(Monitor):
    """How often threads execute each synchronizing instruction, by line."""

    def __init__(self) -> None:
        self.lanes: Counter[int] = Counter()
        self._launch: Any = None

    def begin(self, launch: Any) -> None:
        self._launch = launch

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        self.lanes[self._launch.span(lanes.site).line] += int(lanes.count)


class Judging(Monitor):
    """Stops a run as soon as its findings decide the trial."""

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
        # by now all monitors have received the findings
        if self._is_over:
            raise Fault(GIVEN_UP, "the rest of the run says nothing more")
