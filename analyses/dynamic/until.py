"""A monitor that ends a launch once it has shown what it was made to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ptxkit.machine.fault import Stop
from ptxkit.machine.monitoring import Monitor

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.groups import Lanes
    from ptxkit.machine.interfaces import Launch
    from ptxkit.machine.memory import Access

ENOUGH = "shown"
"""Kind of the fault that ends such a launch."""


class Until(Monitor):
    """Ends a launch (`ENOUGH`) once `is_enough` holds for the findings of all its monitors. It must be the first of them, so that the
    others have seen the whole event that found something."""

    def __init__(self, is_enough: Callable[[tuple[Finding, ...]], bool]) -> None:
        self.is_enough = is_enough
        self._is_due = False
        """Whether there has been a finding since it was last asked."""

    def begin(self, launch: Launch) -> None:
        self._monitors = launch.monitors

    def found(self) -> None:
        self._is_due = True

    def access(self, access: Access) -> None:
        self._ask()

    def instruction(self, lanes: Lanes, arguments: tuple[object, ...]) -> None:
        self._ask()

    def _ask(self) -> None:
        if not self._is_due:
            return
        self._is_due = False
        findings = tuple([finding for monitor in self._monitors for finding in getattr(monitor, "findings", ())])
        if self.is_enough(findings):
            raise Stop(ENOUGH, "the launch has shown what was asked about")
