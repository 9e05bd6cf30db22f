"""Synthesized memory through which threads synchronize: locks, flags, counters, tails of queues.

Such memory is a protocol between the threads of one launch, and the host clears it before. Other initial values say that a lock is taken,
or that data are published which nobody has written: a launch like that says nothing about the kernel. It is recognized by how it is read:
by atomics, or by loads that order memory or that other threads may change meanwhile (`volatile`, `relaxed`, `acquire`), with a result that
decides a branch or an address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from ptxkit.analyses.execution.dependence import dependent
from ptxkit.analyses.execution.launch import Launch, MadeUp
from ptxkit.analyses.execution.observing import Observer


def cleared(launch: Launch, observer: Observer, starts: Mapping[int, int]) -> Launch:
    """The launch with zeros in all memory through which threads synchronized in a run; the same if there is none. `starts` are those of
    `Once`."""
    strong = {starts[start] for start, sites in observer.strong.items() if start in starts and dependent(observer.program, sites)}
    return _with(launch, lambda n, one: one.is_cleared or (n in strong and bool(one.pointers)))


def uncleared(launch: Launch) -> Launch:
    """The launch without that."""
    return _with(launch, lambda n, one: False)


def _with(launch: Launch, is_cleared: Callable[[int, MadeUp], bool]) -> Launch:
    """The launch in which a function of an argument, and of its index, says whether it is cleared. Variables of the module follow the
    arguments."""

    def of(n: int, one: MadeUp) -> MadeUp:
        return attrs.evolve(one, is_cleared=is_cleared(n, one))

    after = len(launch.arguments)
    arguments = [of(n, one) if isinstance(one, MadeUp) else one for n, one in enumerate(launch.arguments)]
    variables = [attrs.evolve(one, made_up=of(n, one.made_up)) for n, one in enumerate(launch.variables, after)]
    return attrs.evolve(launch, arguments=tuple(arguments), variables=tuple(variables))
