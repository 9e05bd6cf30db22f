"""A kernel executed with launches that were made up, until one is found that is a launch of it, and what that shows.

What a run shows is shown again with other sizes and other contents before it is believed: what shows with some only may be the fault of who
made them up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.execution.contents import COUNT, Contents
from ptxkit.analyses.execution.execute import OF_LAUNCH, UNKNOWN, Executed, Shown, cause_of, execute
from ptxkit.analyses.framework.bindings import has_such
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.launches import FEW, MANY, Sizes, example, is_compared
from ptxkit.analyses.inputs.parameters import Role, parameters
from ptxkit.analyses.inputs.shapes import Shape, needs, reached, shapes
from ptxkit.diagnostics import Severity
from ptxkit.isa.binding import Bound
from ptxkit.machine.launching import shared_limit
from ptxkit.machine.monitors.addresses import OUTSIDE

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code

SECONDS, SECONDS_AN_INSTRUCTION, MOST_SECONDS = 0.1, 2e-4, 2.0
"""So long one kernel may take, with all its runs: at least, more for each of its instructions, and at most."""
MOST_LAUNCHES = 12
"""So many launches are tried."""
GROWTH, MOST_GROWTH = 32, 1024
"""Arrays that a run leaves are made so many times as large; altogether at most."""

ODD = 7
CONTRAST = Sizes(counts=2 * FEW, scale=2, differ=True)
ODD_CONTRAST = Sizes(counts=2 * FEW, scale=2, odd=ODD)
TOGETHER = "CB"
"""Families of rules about what threads execute together."""
BY_ITSELF = frozenset(("trap", "assert"))
"""Kinds of faults by which a kernel says that it was not meant to be launched so."""
OF_SHAPE = frozenset(("launch", "shared"))
"""Kinds of faults that another shape may be without."""
RANDOM, ZEROS = Contents("random", 1), Contents("zeros")


@attrs.frozen
class Found:
    """A finding of a run, and what it depends on."""

    finding: Finding
    example: Example
    depends: bool
    """Whether its path or address depends on contents that were made up."""
    other_contents: bool
    """Whether it shows with other contents, too."""
    other_sizes: bool | None
    """Whether it shows with other sizes, too; None if no launch with others could be tried."""


@attrs.frozen
class Exercised:
    """What came of it. `example` is the launch that ran, None if none did; `why` says what ended the last one."""

    example: Example | None
    found: tuple[Found, ...]
    why: str = ""
    is_complete: bool = False
    """Whether all threads ran to completion."""


Launched = tuple[Example, Executed, Shape]


class Exercise:
    """The runs of one kernel."""

    def __init__(self, routine: Routine, code: Code, seconds: float | None = None) -> None:
        self.routine = routine
        self.code = code
        count = sum([len(one.instructions) for one in reached(routine)])
        self.end = time.perf_counter() + (seconds or min(MOST_SECONDS, SECONDS + SECONDS_AN_INSTRUCTION * count))
        self.why = ""
        self.growth = 1
        self.shared = 0

    def run(self) -> Exercised:
        """Tries launches one after the other. The first that is one is believed."""
        launched = self._first(shapes(self.routine), Sizes())
        if launched is None:
            return Exercised(None, (), self.why)
        shape = launched[2]
        found = list(self._judged(launched, CONTRAST))
        if not found and launched[1].is_complete and self._left() > 0.05:
            # a ring may go wrong only when it comes round, and those who are out of bounds may be missed elsewhere
            if has_rounds(self.routine):
                more = self._first((shape,), Sizes(counts=MANY))
                found = list(self._judged(more, CONTRAST)) if more is not None else []
                launched = more or launched
            if not found and is_compared(self.routine) and needs(self.routine, "cta"):
                odd = self._first((shape,), Sizes(odd=ODD))
                if odd is not None:
                    found = [one for one in self._judged(odd, ODD_CONTRAST) if one.finding.diagnostic.rule[:1] in TOGETHER]
        return Exercised(launched[0], tuple(found), self.why, launched[1].is_complete)

    def _left(self) -> float:
        return self.end - time.perf_counter()

    def _first(self, choices: tuple[Shape, ...], sizes: Sizes) -> Launched | None:
        """The first launch that stays within what it was given. Of a kernel that says its block, what it does there is its own doing."""
        last = None
        for n, shape in enumerate(choices):
            if n == MOST_LAUNCHES or self._left() <= 0:
                break
            one, ran = self._within(shape, sizes)
            outside = _outside(ran)
            fault = ran.fault
            self.why = fault.reason if fault is not None else ""
            if fault is not None and fault.kind in UNKNOWN | OF_LAUNCH | BY_ITSELF and fault.kind != "budget":
                if fault.kind in OF_SHAPE or outside:
                    continue
                return None
            if not outside:
                return one, ran, shape
            last = (one, ran, shape) if outside != ".global" else None
        # what leaves its own variables with every shape does so by itself
        return last

    def _within(self, shape: Shape, sizes: Sizes) -> tuple[Example, Executed]:
        """The run of a launch, with arrays and dynamic shared memory as large as it takes."""
        while True:
            one = self._example(shape, sizes)
            ran = self._executed(one, (COUNT,))
            outside = _outside(ran)
            if self._left() <= 0:
                return one, ran
            if outside == ".global" and self.growth < MOST_GROWTH:
                self.growth *= GROWTH
            elif outside == ".shared" and one.shared and one.shared < self._most_shared():
                self.shared = self._most_shared()
            elif outside == ".global":
                # numbers of memory may be meant as indices
                return one, self._executed(one, (ZEROS,))
            else:
                return one, ran

    def _example(self, shape: Shape, sizes: Sizes) -> Example:
        one = example(self.routine, shape, sizes)
        if self.shared:
            one = attrs.evolve(one, shared=self.shared)
        return one.with_larger_arrays(self.growth) if self.growth > 1 else one

    def _most_shared(self) -> int:
        """The most dynamic shared memory that a launch can have."""
        program = self.code.program(self.routine.name, False, True)
        return max(0, (shared_limit(self.code.machine.target) - program.shared_dynamic) // 1024 * 1024)

    def _executed(self, one: Example, contents: tuple[Contents, ...]) -> Executed:
        return execute(self.code, one.launch, schedules=("lockstep",), contents=contents, budget=max(0.05, self._left() / 2))

    def _judged(self, launched: Launched, contrast: Sizes) -> Iterator[Found]:
        """What a run showed, tried again with other contents and other sizes."""
        one, ran, shape = launched
        if not _wrong(ran):
            return
        again = self._executed(one, (COUNT, RANDOM, ZEROS))
        same = {cause_of(shown.finding): shown for shown in again.shown}
        other = self._first((shape,), contrast) if self._left() > 0 else None
        causes = None if other is None else {cause_of(shown.finding) for shown in other[1].shown}
        for shown in ran.shown:
            if shown.finding.diagnostic.severity is Severity.INFO:
                continue
            cause = cause_of(shown.finding)
            also = same.get(cause)
            yield Found(
                shown.finding,
                one,
                _depends(self.code, shown, again.depends),
                also is not None and also.is_always,
                None if causes is None else cause in causes,
            )


def _wrong(ran: Executed) -> bool:
    return any(shown.finding.diagnostic.severity is not Severity.INFO for shown in ran.shown)


def _outside(ran: Executed) -> str:
    """The state space that a run left, which ended it; empty if none did."""
    for shown in ran.shown:
        if shown.finding.diagnostic.name == OUTSIDE[1]:
            return "." + str(shown.finding.witness.get("space", ""))
    fault = ran.fault
    if fault is None or fault.kind != "address" or " outside of " not in fault.reason:
        return ""
    return "." + fault.reason.partition(" outside of ")[2].partition(" ")[0]


def _depends(code: Code, shown: Shown, sites: tuple[Any, ...]) -> bool:
    """Whether one of the instructions of a finding is among those that depend on made-up contents."""
    lines = {shown.finding.diagnostic.span.line, *[related.span.line for related in shown.finding.diagnostic.related]}
    return any(code.index.span(site.path).line in lines for site in sites)


def has_rounds(routine: Routine) -> bool:
    """Whether a kernel has operations in flight from one iteration to the next, and may be told how many there are."""

    def holds(bound: Bound) -> bool:
        return bool(bound.asynchronous or bound.completes or any(memory.is_async for memory in bound.memory))

    counts = any(slot.role is Role.COUNT for one in parameters(routine) for slot in one.slots)
    return counts and any(has_such(one, holds) for one in reached(routine))
