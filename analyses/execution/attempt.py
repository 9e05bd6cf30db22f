"""The runs of a launch with one choice of scalars: under several schedules if the order of threads or of asynchronous operations may
matter, with several contents if something depends on synthesized contents, and again with larger memory as accesses need it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.analyses.execution.contents import COUNT, NOISE, RANDOM, SHUFFLED, SMALL, Contents, Numbers
from ptxkit.analyses.execution.dependence import dependent, executed, unexecuted
from ptxkit.analyses.execution.findings import OF_LAUNCH, OUTSIDE, UNKNOWN, cause_of, fault_space, is_explained, of_fault
from ptxkit.analyses.execution.launch import MOST_ROOM, Launch
from ptxkit.analyses.execution.leaving import leaves_by_descriptor
from ptxkit.analyses.execution.observing import Observer
from ptxkit.analyses.execution.representatives import APART, Classes, divided
from ptxkit.analyses.execution.result import Attempt, Ran
from ptxkit.analyses.execution.running import once
from ptxkit.analyses.execution.sides import Reached, Side
from ptxkit.analyses.execution.synchronizing import cleared
from ptxkit.diagnostics import Severity

if TYPE_CHECKING:
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code
    from ptxkit.syntax import Path

SHARE = 0.6
"""Fraction of the remaining time that the first run of an attempt may take, as attempts with other scalars may follow."""
PART = 0.3
"""The first run of an attempt with other scalars may take at least this fraction of the remaining time."""
LEAST_SECONDS = 0.05
"""Least time for a run, in seconds. No optional run starts with less time left."""
MOST_ALONE = 4
"""Contents in one array while the others hold 0, 1, 2, … are tried for this many arrays."""
MOST_RESTARTS = 2
"""A run with other contents than the first is restarted so many times because CTAs deviate; then all of them are watched."""
FEW, LEAST_CTAS = 0.1, 8
"""A run of the first CTAs may take about this fraction of the remaining time, as they all may have to be watched; fewer CTAs than these
are not worth a run."""
SLOWER = 3
"""Time limit for a run with other inputs, relative to the first run (plus a constant)."""
LEAST_OPERATIONS, LONGER = 1 << 14, 8
"""Operation limit for a run without monitors: at least LEAST_OPERATIONS, and LONGER times as many as the previous run needed."""
LOOKING, LOOK = 0.25, 0.03
"""The search for further scalars stops when less than the fraction LOOKING of the time is left; one run of the search takes at most the
fraction LOOK."""
LEAST_SHARED = 1024
"""Granularity of dynamic shared memory, in bytes."""
IN_STEP = ("lockstep", "early", "late")
"""Schedules under which all CTAs advance in lockstep."""


class Runner:
    """Performs the runs of a launch, within a budget of processor time for all of them."""

    def __init__(
        self,
        code: Code,
        launch: Launch,
        schedules: tuple[str | int, ...],
        contents: tuple[Contents, ...],
        checks: str | Sequence[str],
        budget: float,
        progress: Callable[[Any], None] | None,
        closed: frozenset[Path],
        others: tuple[Contents, ...] = (),
    ) -> None:
        """`closed` are the paths of instructions that no scalars and no contents can reach, `others` the contents to try where the
        usual ones show nothing; the rest is as `execute` has it."""
        self.code = code
        self.launch = launch
        self.schedules = schedules
        self.usual = self.contents = contents
        self.checks = checks
        self.progress = progress
        self.budget = budget
        self.closed = closed
        self.others = others
        self.clears = True
        """Whether memory through which threads synchronize is cleared."""
        self.end = time.thread_time() + budget
        self.runs: list[Ran] = []
        self.first: dict[tuple[Any, ...], tuple[Finding, str | int, Contents]] = {}
        self.not_covered: dict[str, None] = {}
        self.skipped = 0
        self.is_cut = False
        """Whether there was no time to try all contents."""
        self.observer = Observer()
        self.made: tuple[tuple[int, int], ...] = ()
        """Address ranges (start, end) of the synthesized memory of the last run."""
        self.starts: Mapping[int, int] = {}
        """As `Once.starts`, of the first run with these scalars."""
        self.classes: Classes | None = ()
        """The CTAs that deviate in shared memory, as far as runs with these scalars have shown; None if no CTA may represent others."""
        self.depends: tuple[Any, ...] = ()
        self.instructions = 0
        self.ahead: frozenset[int] = frozenset()
        """Distances from out-of-bounds addresses up to the allocations that start after them."""
        self.needed = 0
        """Distance of an out-of-bounds address from the start of the allocation that it belongs to."""
        self.most_operations: int | None = None
        self.longest: float | None = None
        """Time limit for a run with other scalars, in seconds."""
        self.unfit: dict[str, None] = {}
        self.seen: set[int] = set()
        """The instructions executed with these scalars, by `id`."""
        self.sides: set[Side] = set()
        """The sides of branches taken with these scalars."""
        self.first_lines = False
        """Whether only the first rows of matrices are read through descriptors."""
        self.layouts: dict[tuple[Any, ...], Finding] = {}
        """Findings about matrices that extend beyond shared memory, by cause."""

    def attempt(self, numbers: Numbers, *more: Contents) -> Attempt:
        """Runs the launch with the given scalars, for the usual contents and those in `more`, and enlarges synthesized memory as needed."""
        self.contents = tuple([one.with_numbers(numbers) for one in (*self.usual, *more)])
        launch = self.launch
        if self.classes is not None:
            self.classes = ()
        self._all(numbers)
        if self._leaves_shared():
            self.launch = attrs.evolve(self.launch, shared=self._most_shared)
            self._all(numbers)
        if self._is_beyond_shared():
            self.first_lines = True
            self._all(numbers)
        while (small := next((run for run in self.runs if self._is_too_small(run.fault)), None)) is not None:
            if not self._enlarged(small):
                break
            self._all(numbers)
        if any(self._leaves_memory(run.fault) for run in self.runs):
            # with these scalars no amount of memory suffices; start small again for the next ones
            self.launch = launch
        if self.skipped:
            self._leave_out("runs under other schedules or with other contents, for which there was no time")
        program = self.observer.program
        unseen = unexecuted(program, self.seen, self.closed) if program is not None else {}
        reached: set[Reached] = set(self.sides)
        reached |= executed(program, self.seen) if program is not None else set()
        known = dict(self.first), self.observer, self.depends, self.instructions, unseen, dict(self.not_covered)
        return Attempt(tuple(self.runs), *known, self.is_cut, self.starts, frozenset(reached))

    def reached(self, numbers: Numbers, contents: Contents = COUNT) -> set[Reached]:
        """The instructions that are executed and the sides of branches that are taken with these scalars and contents, found by a run
        without monitors; none if the run faults. If there is no time for all CTAs, those of the first ones."""
        from ptxkit.machine import Budget

        self.code.reset()
        budget = Budget(seconds=LOOK * self.budget, operations=self.most_operations)
        one = once(self.code, self.launch, self.schedules[0], contents.with_numbers(numbers), budget)
        self.code.reset()
        if one.fault is not None and (one.fault.kind != "budget" or not one.observer.completed):
            return set()
        self.most_operations = max(LEAST_OPERATIONS, LONGER * one.observer.operations)
        return executed(one.observer.program, one.observer.seen) | one.sides

    @property
    def left(self) -> float:
        """Remaining processor time in seconds."""
        return self.end - time.thread_time()

    @staticmethod
    def several_times(run: Ran) -> float:
        """Time limit in seconds for a run that repeats another one with other inputs."""
        return 10 * LEAST_SECONDS + SLOWER * run.seconds

    def _enlarged(self, run: Ran) -> bool:
        """Enlarges synthesized memory until a run, repeated without monitors, stays within it; returns whether that helps and time is
        left."""
        from ptxkit.machine import Budget

        fault, before = run.fault, frozenset[int]()
        while self._is_too_small(fault):
            if before & self.ahead or self.left <= 0:
                # the access is as far before the allocation as it was before the allocation grew: more memory does not help
                return False
            before = self.ahead
            self.launch = self.launch.larger(self.needed)
            self.code.reset()
            budget = Budget(seconds=max(LEAST_SECONDS, PART * self.left))
            one = once(self.code, self.launch, run.schedule, run.contents, budget, first_lines=self.first_lines)
            fault, self.made = one.fault, one.made
        return self.left > 0

    @property
    def _share(self) -> float:
        """Fraction of the remaining time that one run may take. If scalars were synthesized, further attempts may follow."""
        return SHARE if self.launch.has_numbers and not self.runs else 1.0

    def _all(self, numbers: Numbers) -> None:
        """Performs the first run, and those that may show something else."""
        if self.runs:
            self.code.reset()
        self.runs, self.first, self.not_covered, self.skipped, self.seen, self.sides = [], {}, {}, 0, set(), set()
        self.is_cut = False
        self._once(self.schedules[0], self.contents[0])
        if not self._is_known or self._is_too_small(self.runs[0].fault):
            return
        if self._clears():
            self.code.reset()
            self.runs, self.first, self.not_covered, self.seen, self.sides = [], {}, {}, set(), set()
            self._once(self.schedules[0], self.contents[0])
        for n, schedule in enumerate(self._other_schedules if self.runs[0].fault is None else ()):
            self._again(schedule, self.contents[0], is_needed=n == 0)
        for n, choice in enumerate(self.contents[1:] if self.depends else ()):
            self.is_cut |= not self._again(self.schedules[0], choice, is_needed=n == 0)
        if any(self._says_nothing(run) for run in self.runs if run.contents.name == RANDOM.name):
            # arrays may not go together: random words in one of them, as in a list of edges, may be valid if another is a table of indices
            for n in self.deciding[:MOST_ALONE]:
                self._again(self.schedules[0], attrs.evolve(RANDOM, only=n).with_numbers(numbers), is_needed=False)
        if self.depends and not self.skipped and not self._has_others:
            # `small` contents neither run long nor leave arrays
            self._again(self.schedules[0], SMALL.with_numbers(numbers), is_needed=False)
        for choice in self.others if self.depends else ():
            if not self.first:
                self._again(self.schedules[0], choice.with_numbers(numbers), is_needed=False)
        self._leave_out_unfit()
        usual = frozenset().union(*[run.causes for run in self.runs if run.contents == self.contents[0]])
        if not self.first.keys() <= usual:
            # threads may collide only where words are equal, of an index table or of keys
            self._again(self.schedules[0], SHUFFLED.with_numbers(numbers), is_needed=False)
        if self._are_equal and self.launch.made_up:
            # with random bytes, values are not equal by coincidence
            self._again(self.schedules[0], NOISE.with_numbers(numbers), is_needed=False)
            self._leave_out_unfit()

    @property
    def deciding(self) -> list[int]:
        """The arguments on whose synthesized contents branches or addresses depended in the first run with these scalars, by index."""
        found = [n for start, n in self.starts.items() if dependent(self.observer.program, self.observer.read.get(start, {}))]
        return list(dict.fromkeys(found))

    def _clears(self) -> bool:
        """Clears the memory through which threads synchronized in the first run, if a run with it cleared executes all that the first run
        did. Returns whether there is such memory."""
        given, launch = self.launch, cleared(self.launch, self.observer, self.starts)
        if launch == given or not self.clears:
            return False
        self.launch = launch
        if self.reached(self.contents[0].numbers, self.contents[0]) >= executed(self.observer.program, self.seen):
            return True
        self.launch = given
        return False

    @property
    def _other_schedules(self) -> tuple[str | int, ...]:
        """The further schedules that may matter. Where no operation is in flight, `early` and `lockstep` are the same."""
        if not self.observer.depends_on_order:
            return ()
        return tuple([one for one in self.schedules[1:] if one != "early" or self.observer.copies])

    @property
    def _is_known(self) -> bool:
        """Whether the machine could execute the kernel. If not, further runs would end in the same fault."""
        fault = self.runs[0].fault
        return fault is None or fault.kind not in UNKNOWN | OF_LAUNCH

    def _is_too_small(self, fault: Fault | None) -> bool:
        """Whether a run ended at an access beyond synthesized global memory that can still grow."""
        return self._leaves_memory(fault) and self.launch.can_grow

    def _leaves_memory(self, fault: Fault | None) -> bool:
        if fault is None or fault.access is None or fault_space(fault) != ".global":
            return False
        if not self.made:
            return True
        access = fault.access
        # consider only allocations that start before the address and could grow up to it
        at = int(np.ravel(access.at)[0]) if access.mask is None else int(np.broadcast_to(access.at, len(access.mask))[access.mask][0])
        self.ahead = frozenset([start - at for start, _ in self.made if start > at])
        self.needed = min([at - start for start, _ in self.made if start <= at < start + MOST_ROOM], default=0)
        return self.needed > 0

    def _leaves_shared(self) -> bool:
        """Whether a run ended at an access beyond shared memory, and there could be more dynamic shared memory."""
        if not self.launch.is_shared_made_up or self.launch.shared >= self._most_shared:
            return False
        return any(run.fault is not None and fault_space(run.fault) == ".shared" for run in self.runs)

    @property
    def _most_shared(self) -> int:
        """How many bytes of dynamic shared memory a CTA may have on the target."""
        from ptxkit.machine.launching import shared_limit

        return max(0, shared_limit(self.code.machine.target) - int(self.observer.program.shared_dynamic)) // LEAST_SHARED * LEAST_SHARED

    def _is_beyond_shared(self) -> bool:
        """Whether the run ended at a matrix that extends beyond shared memory, as its descriptor defines it. It is unknown which part of
        the matrix is needed; the first rows are in any case. The findings are kept in `layouts`, so that the rest of the kernel can
        still be checked."""
        if self.first_lines or not leaves_by_descriptor(self.runs[0].fault):
            return False
        self.layouts.update({cause: finding for cause, (finding, _, _) in self.first.items() if finding.diagnostic.name in OUTSIDE})
        return True

    @property
    def _are_equal(self) -> bool:
        """Whether all findings are about threads that write equal values."""
        found = [finding.diagnostic.severity for finding, _, _ in self.first.values()]
        return bool(found) and all(severity is Severity.INFO for severity in found)

    def _again(self, schedule: str | int, contents: Contents, is_needed: bool) -> bool:
        """Performs a further run if time permits; returns whether it did. If the run is needed, the omission is counted.

        If there is time for some CTAs only, other contents are tried with these.
        """
        # under random schedules every CTA is watched, which takes longer
        similar = [run.seconds for run in self.runs if isinstance(run.schedule, int) and isinstance(schedule, int)]
        if self.left >= max(LEAST_SECONDS, self.runs[0].seconds, *similar):
            self._once(schedule, contents)
            return True
        if contents == self.contents[0] and not is_needed:
            self.unfit.setdefault(f"schedule {schedule}, for which there was no time")
        ctas = self._ctas_in_time if contents != self.contents[0] else 0
        if ctas and self._of_first_ctas(schedule, contents, ctas):
            return True
        self.skipped += is_needed
        return False

    @property
    def _ctas_in_time(self) -> int:
        """How many CTAs of the grid a further run can execute in the fraction FEW of the time left; 0 if these are too few to count, or may
        wait for the others."""
        first, ctas = self.runs[0], math.prod(self.launch.grid)
        found = int(ctas * FEW * self.left / max(first.seconds, LEAST_SECONDS))
        return found if first.fault is None and not self.launch.cooperative and LEAST_CTAS <= found < ctas else 0

    def _of_first_ctas(self, schedule: str | int, contents: Contents, ctas: int) -> bool:
        """Performs a run in which only the first CTAs are started; returns whether it says something."""
        before, first = len(self.runs), dict(self.first)
        self._once(schedule, contents, ctas)
        if self.runs[-1].fault is not None:
            # these CTAs may have waited for others
            del self.runs[before:]
            self.first = first
            return False
        every = math.prod(self.launch.grid)
        self.unfit.setdefault(f"{contents} in memory beyond the first {ctas:,} of {every:,} CTAs, for which there was no time")
        return True

    @property
    def _has_others(self) -> bool:
        """Whether a run with other contents than the first ran to completion."""
        return any(run.fault is None and run.contents != self.contents[0] for run in self.runs)

    def _leave_out_unfit(self) -> None:
        """Drops contents whose runs are not conclusive, and schedules that timed out, if other runs of the same kind completed."""
        unfit = [run for run in self.runs if run.contents != self.contents[0] and self._says_nothing(run)] if self._has_others else []
        orders = [run for run in self.runs[1:] if run.contents == self.contents[0]]
        late = [run for run in orders if run.is_too_long and not run.causes] if any(run.fault is None for run in orders) else []
        self.runs = [run for run in self.runs if run not in unfit and run not in late]
        for run in late:
            self.unfit.setdefault(f"schedule {run.schedule}, for which there was no time")
        for run in unfit:
            self.unfit.setdefault(f"{run.contents} in memory, {'which takes too long' if run.is_too_long else 'by which arrays are left'}")
            for cause in run.causes - frozenset().union(*[one.causes for one in self.runs]):
                self.first.pop(cause, None)

    def _says_nothing(self, run: Ran) -> bool:
        """Whether the run timed out, or ended at an access beyond memory whose size is unknown."""
        if run.fault is None:
            return False
        spaces = {str(self.first[cause][0].witness.get("space", fault_space(run.fault).lstrip("."))) for cause in run.causes}
        is_outside = run.fault.kind == "address" and all(name in OUTSIDE for name, *_ in run.causes)
        return (run.is_too_long and not run.causes) or (is_outside and spaces <= {"global"} and bool(self.made))

    def _once(self, schedule: str | int, contents: Contents, most_ctas: int | None = None) -> None:
        """Performs a run; `most_ctas` limits it to the first CTAs. Under schedules that advance CTAs in lockstep, one CTA represents all
        that do the same in shared memory."""
        is_usual = contents == self.contents[0]
        classes = self.classes if schedule in IN_STEP else None
        for attempt in itertools.count():
            observer, fault = self._run(schedule, contents, classes, most_ctas)
            if fault is None or fault.kind != APART:
                return
            assert classes is not None and observer.representatives is not None
            # where CTAs deviate by their data, many restarts would end with all of them watched
            ctas = math.prod(self.launch.grid)
            classes = divided(classes, observer.representatives.apart, ctas) if is_usual or attempt < MOST_RESTARTS else None
            if is_usual:
                self.classes = classes

    def _run(
        self, schedule: str | int, contents: Contents, classes: Classes | None, most_ctas: int | None
    ) -> tuple[Observer, Fault | None]:
        from ptxkit.machine import Budget

        if self.runs:
            self.code.reset()
        seconds = self._share * self.left
        if self.runs and contents != self.contents[0]:
            seconds = min(seconds, self.several_times(self.runs[0]))
        elif self.longest is not None and not self.runs:
            seconds = min(seconds, max(self.longest, PART * self.left))
        budget = Budget(seconds=max(LEAST_SECONDS, seconds))
        one = once(self.code, self.launch, schedule, contents, budget, self.checks, classes, self.progress, self.first_lines, most_ctas)
        fault = one.fault
        self.made = one.made
        if fault is not None and fault.kind == APART:
            self.code.reset()
            return one.observer, fault
        for what in one.not_covered:
            self._leave_out(what)
        causes = set()
        for finding in one.findings:
            causes.add(cause_of(finding))
            self._note(finding, schedule, contents)
        if fault is not None and fault.kind not in UNKNOWN | OF_LAUNCH and not is_explained(fault, one.findings):
            finding = of_fault(fault, self.launch, schedule)
            causes.add(cause_of(finding))
            self._note(finding, schedule, contents)
        self.seen |= one.observer.seen
        self.sides |= one.sides
        self.runs.append(Ran(schedule, contents, one.seconds, fault, frozenset(causes), one.result))
        if not self.runs[1:]:
            self.observer, self.instructions, self.starts = one.observer, one.instructions, one.starts
            self.depends = dependent(self.observer.program, {**self.observer.sources, **self.observer.unknown_calls})
        return one.observer, fault

    def _note(self, finding: Finding, schedule: str | int, contents: Contents) -> None:
        """Keeps the first finding for each cause; an error replaces a finding that is only informational."""
        cause = cause_of(finding)
        known = self.first.get(cause)
        if known is None or (known[0].diagnostic.severity is Severity.INFO and finding.diagnostic.severity is not Severity.INFO):
            self.first[cause] = finding, schedule, contents

    def _leave_out(self, what: str) -> None:
        self.not_covered.setdefault(what)
