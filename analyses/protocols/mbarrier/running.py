"""Executes a kernel with example launches, and records what happens to its mbarriers (9.7.14.15)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.events.steps import ON_MBARRIERS, steps
from ptxkit.analyses.execution.available import is_available
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.cost import least_operations
from ptxkit.analyses.inputs.example import Argument, Example, Number
from ptxkit.analyses.inputs.launches import Sizes, example, most_operations
from ptxkit.analyses.inputs.outside import Outside, outside
from ptxkit.analyses.inputs.shapes import shapes
from ptxkit.analyses.protocols.mbarrier.uses import Use
from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.analyses.protocols.mbarrier.watching import Watch
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.monitoring import Monitor

MOST_SHAPES = 4
ROUNDS = 13
"""Maximum value of scalars at first: more than most rings have stages, and no multiple of their number."""
GROWTH, MOST_GROWTHS = 16, 3
"""Factor by which arrays grow after a run leaves them, and how often."""
RUNS = 8
"""Budget for all launches of a kernel, as a multiple of the longest permitted run. Many waits happen before a ring wraps around."""
SECONDS = 60.0
"""Time limit for one launch in seconds. Runs are bounded by a count of operations; this limit only matters on a busy machine."""
STOPS = ("deadlock", "standstill", "mbarrier")
"""Kinds of faults that misuse of mbarriers leads to: deadlocks, and too many arrivals."""


@frozen
class Ran:
    """A launch that ran to completion or until its mbarriers only repeated themselves, or that a misused mbarrier ended (`fault`)."""

    uses: tuple[Use, ...]
    fault: Fault | None
    block: tuple[int, int, int]
    at: dict[tuple[int, ...], int]
    """The instructions of the kernel by their paths in the module."""
    late: tuple[tuple[int, int], ...] = ()
    """Threads that access data of a copy without having observed its completion, and the accessing instruction."""

    @property
    def threads(self) -> int:
        """Number of threads in a CTA."""
        return math.prod(self.block)


@fact
def run(routine: Routine) -> Ran | None:
    """The first launch of a kernel that works; None if none does, if nothing can be executed, or if the kernel has no mbarriers."""
    if not routine.executes or not is_available():
        return None
    if not routine.function.header.is_entry or not any(step.does in ON_MBARRIERS for own in steps(routine).values() for step in own):
        return None
    # import the machine, and NumPy with it, only to execute something
    from ptxkit.analyses.execution.loading import module_code

    code = module_code(routine)
    return next(_launches(routine, code), None) if code is not None else None


def _launches(routine: Routine, code: Any) -> Iterator[Ran]:
    from ptxkit.analyses.execution.leaving import far_access, would_be_inside

    at = {routine.where(i): i for i in range(len(routine.instructions))}
    left, patience = RUNS * most_operations(routine), least_operations(routine)
    last = None
    for shape in shapes(routine)[:MOST_SHAPES]:
        likely = example(routine, shape, Sizes(counts=ROUNDS))
        short = likely.changed(_short)
        far = None
        for one in (short, likely) if short != likely else (likely,):
            for _ in range(MOST_GROWTHS):
                ran, fault, cost, made = _ran(one, code, at, left, patience)
                left -= cost
                if fault is not None and _is_outside(fault):
                    outside(routine)[one] = Outside(fault, tuple(made), cost)
                if ran is not None:
                    yield ran
                if left <= 0:
                    return
                far = far_access(fault, made)
                if not _is_outside(fault) or not would_be_inside(fault, made, GROWTH**MOST_GROWTHS):
                    break
                one = one.with_larger_arrays(GROWTH)
        if far is not None and far == last:
            # no other shape changes that
            return
        last = far


def _is_outside(fault: Fault | None) -> bool:
    """Whether the launch left global memory."""
    from ptxkit.analyses.execution.findings import fault_space

    return fault is not None and fault_space(fault) == ".global"


def _short(argument: Argument) -> Argument:
    """The argument, with scalars limited to a value with which loops end soon."""
    return attrs.evolve(argument, value=ROUNDS) if isinstance(argument, Number) and argument.value > ROUNDS else argument


def _ran(
    one: Example, code: Any, at: dict[tuple[int, ...], int], operations: int, patience: int
) -> tuple[Ran | None, Fault | None, int, list[tuple[int, int]]]:
    """Executes a launch: the result if it works; the fault; its cost; and the synthesized memory."""
    watch, fault, _, made = _launched(one, code, at, operations, patience, ())
    cost = watch.operations
    if fault is not None and fault.kind not in STOPS:
        return None, fault, cost, made
    late: tuple[tuple[int, int], ...] = ()
    if any(use.stale for use in watch.uses.values()):
        # only then it matters which threads have not observed the completion of a copy
        from ptxkit.machine.monitors import monitors_of

        watch, fault, findings, made = _launched(one, code, at, operations, patience, monitors_of("async"))
        cost += watch.operations
        lines = {code.line(path): i for path, i in at.items()}
        late = tuple([(thread, lines.get(line, -1)) for thread, line in watch.late(findings)])
    return Ran(tuple(watch.uses.values()), fault, one.block, at, late), fault, cost, made


def _launched(
    one: Example, code: Any, at: dict[tuple[int, ...], int], operations: int, patience: int, monitors: tuple[Monitor, ...]
) -> tuple[Watch, Fault | None, tuple[Any, ...], list[tuple[int, int]]]:
    """Executes a launch under additional monitors: the uses of mbarriers, the fault, the findings of the monitors, the synthesized
    memory."""
    from ptxkit.analyses.protocols.mbarrier.watching import SETTLED, Watch
    from ptxkit.machine import Budget, Fault
    from ptxkit.machine.matrices.accuracy import rough_products

    watch, machine = Watch(at, patience), code.machine
    made: list[tuple[int, int]] = []
    fault: Fault | None = None
    findings: tuple[Any, ...] = ()
    try:
        machine.memory.reserve(one.memory)
        arguments = [argument.make(machine, COUNT, number + 1, made) for number, (_, argument) in enumerate(one.arguments)]
        with rough_products():
            findings = machine.launch(
                code,
                one.kernel,
                *arguments,
                grid=one.grid,
                block=one.block,
                cluster=one.cluster,
                shared=one.shared,
                budget=Budget(seconds=SECONDS, operations=operations),
                monitors=(watch, *monitors),
            ).findings
    except Fault as error:
        fault, findings = error.detached() if error.kind != SETTLED else None, error.findings
    finally:
        for start, _ in made:
            machine.free_global(start)
        machine.memory.trim()
        code.reset()
    return watch, fault, findings, made
