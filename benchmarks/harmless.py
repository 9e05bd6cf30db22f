"""Whether a mutant is harmless in the launches that `lint` synthesizes for its kernel, as executions show it.

The launches are those of the kernel itself in which the changed line is executed, all threads run to completion, and no monitor finds
anything. The mutant is executed in each of them lockstep, late, early, and with three seeds. It is harmless if every one of these runs is
complete, no monitor finds anything in any, and memory is the same in the end.
"""

from __future__ import annotations

import functools

from ptxkit.analyses.dynamic.exercise import exercise
from ptxkit.analyses.dynamic.once import Ran, once
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.loading import module_code
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.cost import most_operations
from ptxkit.analyses.inputs.example import Example

SCHEDULES: tuple[str | int, ...] = ("lockstep", "late", "early", 1, 2, 3)
SECONDS = 60.0
LONGER = 8
"""A mutant may take this many times the operations of a run of the kernel."""


def is_harmless(original: Routine, mutant: Routine, line: int) -> bool:
    """Whether runs of a mutant, with a change on this line, show it to be harmless; not if there is no launch that executes the line."""
    code = module_code(mutant)
    launches = {one: ran for one, ran in _right(original).items() if line in ran.lines}
    if code is None or not launches:
        return False
    operations = LONGER * most_operations(original)
    runs = (
        (ran, once(code, one, COUNT, operations, SECONDS, schedule, keep=True)) for schedule in SCHEDULES for one, ran in launches.items()
    )
    return all(other.fault is None and not other.wrong and other.memory == ran.memory for ran, other in runs)


@functools.lru_cache(maxsize=1)
def _right(routine: Routine) -> dict[Example, Ran]:
    """The launches of a kernel that run to completion, and in which no monitor finds anything."""
    code = module_code(routine)
    known: dict[Example, Ran] = {}
    if code is not None:
        exercise(routine, code, known=known)
    return {one: ran for one, ran in known.items() if ran.fault is None and not ran.wrong}
