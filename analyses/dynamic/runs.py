"""The runs of one kernel, within a common budget."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.dynamic.findings import are_in
from ptxkit.analyses.dynamic.once import LOCKSTEP, Ran, once
from ptxkit.analyses.execution.contents import COUNT, ZEROS, Contents
from ptxkit.analyses.execution.leaving import Made, leaves_by_descriptor, would_be_inside
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.cost import least_operations, most_operations
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.launches import FEW, Sizes, example
from ptxkit.analyses.inputs.numbers import OF_HOST, are_inconsistent
from ptxkit.analyses.inputs.outside import Outside, outside
from ptxkit.analyses.inputs.shapes import Shape
from ptxkit.frozen import frozen
from ptxkit.machine.launching import shared_limit

if TYPE_CHECKING:
    from ptxkit.machine import Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code
    from ptxkit.machine.monitoring import Monitor

LEAST = 1
"""Operation limit of a run once the budget is used up: the run ends at once."""
RUNS = 8
"""Budget for all runs of a kernel, as a multiple of the longest permitted run. No run starts once it is used up."""
MOST_MEMORY = 1 << 28
"""Limit on the global memory that the runs of a kernel use together, in bytes."""
GROWTH, MOST_GROWTH = 32, 1024
"""Factor by which arrays grow after a run leaves them, and the maximum over all such steps."""


@frozen
class Setting:
    """What decides a run besides its launch."""

    contents: Contents = COUNT
    """Contents of memory that the launch does not specify."""
    schedule: str | int = LOCKSTEP
    lines: frozenset[int] | None = None
    """The lines on which races matter; None if they matter on all."""
    asked: tuple[Finding, ...] = ()
    """The run ends once it has shown these; if there are none, it goes on."""


USUAL = Setting()


class Runs:
    """The runs of one kernel: what is left of their budget, and what they have shown about the memory that the kernel needs."""

    def __init__(self, routine: Routine, code: Code, seconds: float, known: dict[Example, Ran] | None = None) -> None:
        """`known` are earlier runs of the same text in the usual setting, by launch; new ones are added."""
        self.routine = routine
        self.code = code
        self.first_lines = False
        """Whether only the first lines of matrices are read, as one extends beyond shared memory or over an mbarrier."""
        self._known = known
        self._operations = most_operations(routine)
        self._patience = least_operations(routine)
        self._left = RUNS * self._operations
        self._end = time.thread_time() + seconds
        self._growth = 1
        self._shared = 0
        # no race there would count
        self._left_out = OF_HOST if known is None and are_inconsistent(routine) else frozenset[str]()
        self._ran: dict[tuple[Any, ...], Ran] = {}
        """The runs so far. If a kernel has no scalars, other sizes give the same launch."""

    @property
    def is_cut(self) -> bool:
        """Whether time is up."""
        return time.thread_time() > self._end

    @property
    def is_used_up(self) -> bool:
        """Whether the operations that all runs have together are used up."""
        return self._left <= 0

    @property
    def is_full(self) -> bool:
        """Whether the memory limit is reached. Memory that one run frees is not reused by the next."""
        return bool(self.code.machine.memory.size > MOST_MEMORY)

    def within(self, shape: Shape, sizes: Sizes, setting: Setting) -> Ran:
        """Runs a launch, enlarging arrays and dynamic shared memory as needed."""
        while True:
            one = self.example(shape, sizes)
            known = self._known_outside(one, setting)
            if known is not None and self._grows(known.fault, known.made):
                self._left -= known.operations
                continue
            ran = self.once(one, setting)
            if ran.outside == ".global" and self._grows(ran.fault, ran.observer.made):
                continue
            if ran.outside == ".shared" and one.shared and one.shared < self._most_shared():
                self._shared = self._most_shared()
            elif ran.outside == ".global" and setting.contents is not ZEROS:
                # numbers in memory may be used as indices
                setting = attrs.evolve(setting, contents=ZEROS)
            elif not self.first_lines and (leaves_by_descriptor(ran.fault) or ran.takes_mbarriers):
                self.first_lines = True
            else:
                return ran

    def _known_outside(self, one: Example, setting: Setting) -> Outside | None:
        """The recorded end of a launch that is known to leave global memory."""
        if self._known is not None or setting.contents is not COUNT or setting.schedule != LOCKSTEP:
            return None
        known = outside(self.routine).get(one)
        return known if known is not None and known.operations <= min(self._operations, self._left) else None

    def _grows(self, fault: Fault | None, made: Made) -> bool:
        """Enlarges arrays if the run would have stayed within larger ones. Returns whether they were enlarged."""
        if self._growth >= MOST_GROWTH or not would_be_inside(fault, made, MOST_GROWTH // self._growth):
            return False
        self._growth = self._growth * GROWTH if would_be_inside(fault, made, GROWTH) else MOST_GROWTH
        return True

    def example(self, shape: Shape, sizes: Sizes) -> Example:
        """The launch of this shape, with as much memory as earlier runs have shown to be needed."""
        one = example(self.routine, shape, sizes)
        if self._shared:
            one = attrs.evolve(one, shared=self._shared)
        one = one.with_larger_arrays(self._growth) if self._growth > 1 else one
        return attrs.evolve(one, options=tuple(self._options(one, sizes)))

    def _options(self, one: Example, sizes: Sizes) -> Iterator[str]:
        """The options with which `ptxkit inputs` creates this example."""
        values = {
            "block": ",".join(map(str, one.block)),
            "loops": "" if sizes.counts == FEW else str(sizes.counts),
            "scale": "" if sizes.scale == 1 else str(sizes.scale),
            "enlarge": "" if self._growth == 1 else str(self._growth),
            "shared": str(self._shared or ""),
            "less": str(sizes.uneven or ""),
            "small": str(sizes.small or ""),
        }
        for name, value in values.items():
            if value:
                yield from (f"--{name}", value)
        if sizes.empty:
            yield "--empty"

    def _most_shared(self) -> int:
        """The maximum dynamic shared memory of a launch, in bytes."""
        program = self.code.program(self.routine.name, False, True)
        return max(0, (shared_limit(self.code.machine.target) - program.shared_dynamic) // 1024 * 1024)

    def once(
        self,
        one: Example,
        setting: Setting,
        *,
        by_collectives: bool = False,
        zeroed: Mapping[int, int] | None = None,
        also: Sequence[Monitor] = (),
    ) -> Ran:
        """Runs a launch as it is, unless it has been run before; see `once` for the options."""
        contents, schedule = setting.contents, setting.schedule
        is_usual = contents is COUNT and schedule == LOCKSTEP and not (by_collectives or zeroed or also or self.first_lines)
        known = self._known if is_usual else None
        ran = known.get(one) if known is not None else None
        lines = setting.lines if self._known is None else None
        key = one, contents, schedule, by_collectives, self.first_lines, tuple((zeroed or {}).items())
        # whether a race is one on GPUs is found out even if nothing is left: all that came before would be in vain
        limit = self._operations if by_collectives else max(LEAST, min(self._operations, self._left))
        for looked_at in (lines, None) if not also else ():
            before = self._ran.get((*key, looked_at))
            if before is not None and _is_enough_for(before, setting.asked, limit):
                self._left -= before.limit if before.is_timed_out else 0
                return before
        if ran is None:
            ran = once(
                self.code,
                one,
                contents,
                limit,
                max(0.1, self._end - time.thread_time()),
                schedule=schedule,
                by_collectives=by_collectives,
                keep=known is not None,
                zeroed=zeroed,
                also=also,
                lines=lines,
                left_out=self._left_out,
                first_lines=self.first_lines,
                patience=self._patience,
                is_enough=partial(are_in, setting.asked) if setting.asked else None,
            )
            if known is not None and not ran.is_timed_out and not ran.has_shown_enough:
                known[one] = ran
        # a run without end says little about further ones, so it is charged in full
        self._left -= ran.limit if ran.is_timed_out else ran.observer.operations
        if not also:
            self._ran[*key, lines] = ran
        return ran


def _is_enough_for(before: Ran, asked: tuple[Finding, ...], limit: int) -> bool:
    """Whether an earlier run of the same launch answers for these findings what another with this limit would."""
    if before.has_shown_enough:
        return bool(asked) and are_in(asked, before.findings)
    return not before.is_timed_out or limit <= before.limit
