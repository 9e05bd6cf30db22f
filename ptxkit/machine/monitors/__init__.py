"""Monitors of launches, one in each module, with their `findings`. `CHECKS` has the names for `checks=`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.addresses import Addresses
from ptxkit.machine.monitors.barriers import Barriers
from ptxkit.machine.monitors.grids import Grids
from ptxkit.machine.monitors.locks import Locks
from ptxkit.machine.monitors.matrices import Matrices
from ptxkit.machine.monitors.mbarriers import Mbarriers
from ptxkit.machine.monitors.races import FAMILIES, Races
from ptxkit.machine.monitors.uninitialized import Uninitialized

CHECKS: dict[str, Callable[[Sequence[str]], Monitor]] = {
    **dict.fromkeys(FAMILIES, Races),
    "addresses": lambda _: Addresses(),
    "barriers": lambda _: Barriers(),
    "grids": lambda _: Grids(),
    "locks": lambda _: Locks(),
    "matrices": lambda _: Matrices(),
    "mbarriers": lambda _: Mbarriers(),
    "uninitialized": lambda _: Uninitialized(),
}
"""Creates the monitor of a check from the names of all requested checks, since one monitor may implement several."""


def monitors_of(checks: str | Sequence[str]) -> tuple[Monitor, ...]:
    """The monitors of some checks: names, or `all`. Raises ValueError for an unknown name."""
    names = (checks,) if isinstance(checks, str) else tuple(checks)
    unknown = [name for name in names if name != "all" and name not in CHECKS]
    if unknown:
        raise ValueError(f"there is no check {unknown[0]!r}; there are all, {', '.join(CHECKS)}")
    asked = [name for name in CHECKS if "all" in names or name in names]
    return tuple([make(asked) for make in dict.fromkeys(CHECKS[name] for name in asked)])


def not_covered(monitors: Sequence[Monitor]) -> list[str]:
    """Descriptions of what monitors did not check in a launch."""
    found = []
    for monitor in monitors:
        name = next((check for check, make in CHECKS.items() if isinstance(monitor, type(make(())))), type(monitor).__name__)
        for count, what in (("unwatched", "accesses were not watched"), ("unchecked", "pairs of accesses were too many to compare")):
            number = getattr(monitor, count, 0)
            if number:
                found.append(f"{name}: {number:,} {what}")
        found += [f"{name}: {what}" for what in getattr(monitor, "left_out", ())]
    return found


__all__ = ["CHECKS", "monitors_of", "not_covered"]
