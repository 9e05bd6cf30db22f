"""A kernel run under monitors for one launch, as often as it takes: under several schedules where the order of threads or of what is in
flight may matter, with several contents where something depends on contents that were made up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.analyses.execution.contents import CHOICES, COUNT, NOISE, SMALL, Contents, Numbers
from ptxkit.analyses.execution.dependence import dependent, executed, readers, unexecuted
from ptxkit.analyses.execution.launch import MOST_ROOM, WORD, Launch, MadeUp
from ptxkit.analyses.execution.observing import Observer
from ptxkit.analyses.execution.reach import unreachable
from ptxkit.analyses.execution.running import once
from ptxkit.analyses.execution.standing import APART, MOST
from ptxkit.analyses.execution.straying import leaves_by_descriptor
from ptxkit.analyses.framework.routine import Routine, fact, routines
from ptxkit.diagnostics import Severity
from ptxkit.isa.binding import Bound

if TYPE_CHECKING:
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code
    from ptxkit.syntax import Module, Path

SCHEDULES: tuple[str | int, ...] = ("lockstep", "early", 1, 2)
"""The schedules that are tried where they may matter; the first always."""
SHARE = 0.6
"""The part of what time is left that a run takes at most where others with other numbers may follow."""
PART = 0.3
"""A run with further numbers may take this part of what time is left in any case."""
LEAST_SECONDS = 0.05
"""A further run is begun only where so many seconds are left."""
MOST_LOOKS = 200
"""So many numbers are tried at most to come to what was not executed."""
MOST_FLAGS, FEW_FLAGS, FIRST_SEED = 24, 6, 10
"""So many contents are looked at in search of what was not executed; their seeds begin here."""
MOST_WRONG = 6
"""After so many that do not go together no further numbers are tried."""
LESS = 4
"""After numbers with which a launch takes too long those are tried that are so many times less."""
MOST_ATTEMPTS = 4
"""After so many no other numbers are tried where some have led to everything."""
SLOWER = 3
"""A run with other numbers takes so many times as long as the first at most, and somewhat more."""
LEAST_OPERATIONS, LONGER = 1 << 14, 8
"""A run that only shows what is executed takes this many operations at most, and so many times as many as the one before."""
LOOKING, LOOK = 0.25, 0.03
"""No further numbers are looked for when less than the first part of the time is left; a look at some takes the second part at most."""
LEAST_NUMBER = 32
"""With numbers below this alone a launch shows too little."""
OUTSIDE = frozenset(("fault-address", "out-of-bounds-access"))
"""Findings of accesses outside of what was allocated."""
UNKNOWN = frozenset(("unsupported", "extern", "call", "branch", "memory", "stack", "budget"))
"""Kinds of faults that say that the machine cannot go on, and nothing of the kernel."""
OF_NUMBERS = frozenset(("address", "budget", "stack", "handle", "memory", "call", "branch"))
"""Kinds of faults that other numbers may not lead to."""
NO_LAUNCH = frozenset(("launch", "shared"))
"""Kinds of faults that say that a kernel is not to be launched so."""
IN_STEP = ("lockstep", "early", "late")
"""The schedules under which all CTAs go on in step."""
OF_LAUNCH = NO_LAUNCH | {"handle", "tensormap"}
"""Kinds of faults that say that this is no launch of the kernel, with these arguments."""


@attrs.frozen
class Ran:
    """One run: how, how long, and what ended it (None: all threads ran to completion)."""

    schedule: str | int
    contents: Contents
    seconds: float
    fault: Fault | None
    causes: frozenset[tuple[Any, ...]] = frozenset()
    """Those of its findings, the fault among them."""

    @property
    def is_too_long(self) -> bool:
        """Whether time was up."""
        return self.fault is not None and self.fault.kind == "budget"


@attrs.frozen
class Shown:
    """A finding, of all runs that showed it the first, with the schedule and contents of that run."""

    finding: Finding
    schedule: str | int
    contents: Contents
    is_always: bool
    """Whether it shows with the first numbers and all contents that were tried, under some schedule."""


@attrs.frozen
class Executed:
    """What came of the runs of a launch."""

    launch: Launch
    runs: tuple[Ran, ...]
    shown: tuple[Shown, ...]
    """What monitors found and what ended a run, one for each cause, errors first."""
    covered: Mapping[str, int]
    """`shared` and `global` accesses, `barriers` (threads that waited at one), `phases` of mbarriers, `copies` and other operations in
    flight, all of the first run; `stood_for`: CTAs that do in shared memory what one that was watched does; how many `schedules` and
    `contents` were tried."""
    not_covered: tuple[str, ...]
    """What was not looked at, or not executed, in words."""
    depends: tuple[Any, ...]
    """The instructions (`Site`s) whose path or address depends on contents that were made up; empty if none does."""
    numbered: tuple[Any, ...]
    """The same for numbers that were made up, where something was found."""
    instructions: int
    unexecuted: tuple[Any, ...]
    """The instructions that write memory or synchronize and were not executed with any of the numbers that were made up."""
    code: Code
    unknown: tuple[str, ...] = ()
    """The functions that were called and that nobody defines: what they return was made up."""
    not_together: tuple[str, ...] = ()
    """Numbers with which something goes wrong at an address that is computed from them, as of numbers that do not go together."""
    unfit: tuple[str, ...] = ()
    """Contents with which a run took too long, or left memory whose size nobody gave, where it did not with others, in words."""
    states: tuple[str, ...] = ()
    """The variables of the module that held other values besides, as the host may have written them."""
    is_by_numbers: bool = False
    """Whether numbers that were made up may decide that something is not executed."""
    layouts: tuple[Finding, ...] = ()
    """Matrices that descriptors name and that leave shared memory: of all such matrices only the first lines were read."""

    def is_among(self, finding: Finding, sites: Sequence[Any]) -> bool:
        """Whether a finding is about memory that one of these instructions accesses."""
        return is_about(self.code, finding, sites)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What went wrong."""
        return tuple([one.finding for one in self.shown])

    @property
    def fault(self) -> Fault | None:
        """What ended the first run that did not run to completion."""
        return next((run.fault for run in self.runs if run.fault is not None), None)

    @property
    def is_complete(self) -> bool:
        """Whether every thread of every run ran to completion."""
        return self.fault is None


def execute(
    code: Code,
    launch: Launch,
    *,
    schedules: Sequence[str | int] = (),
    contents: Sequence[Contents] = (),
    checks: str | Sequence[str] = "all",
    budget: float = 10.0,
    progress: Callable[[Any], None] | None = None,
) -> Executed:
    """Runs a launch of a kernel of a module that was loaded (`loaded`), under the monitors that `checks` names, for `budget` seconds.

    The first run has the first schedule and the first contents. Others follow where they may show something else; `schedules` and
    `contents` name those to choose from, the usual ones if they are empty. Raises TypeError or ValueError for arguments that are not the
    kernel's.
    """
    return _Executing(code, launch, tuple(schedules) or SCHEDULES, tuple(contents) or CHOICES, checks, budget, progress).run()


def loaded(module: Module, target: str = "") -> Code:
    """A module on a machine of its own, of its target or that given. Raises ValueError if it has errors."""
    from ptxkit.machine import Machine

    return Machine(target or next((word for word in module.targets if word.startswith("sm_")), "sm_90a")).load(module)


def module_code(routine: Routine) -> Code | None:
    """The module of a function, loaded once for all its functions, on a machine for its target; None if it has errors."""
    return _module_code(routine.siblings[0] if routine.siblings else routine)


@fact
def _module_code(first: Routine) -> Code | None:
    try:
        return loaded(first.module)
    except ValueError:
        return None


class _Executing:
    """The runs of a launch, one after the other."""

    def __init__(
        self,
        code: Code,
        launch: Launch,
        schedules: tuple[str | int, ...],
        contents: tuple[Contents, ...],
        checks: str | Sequence[str],
        budget: float,
        progress: Callable[[Any], None] | None,
    ) -> None:
        self.code = code
        self.launch = launch
        self.schedules = schedules
        self.usual = self.contents = contents
        self.checks = checks
        self.progress = progress
        self.budget = budget
        self.end = time.perf_counter() + budget
        self.runs: list[Ran] = []
        self.first: dict[tuple[Any, ...], tuple[Finding, str | int, Contents]] = {}
        self.not_covered: dict[str, None] = {}
        self.skipped = 0
        self.observer = Observer()
        self.made: tuple[tuple[int, int], ...] = ()
        """The addresses (first, end) of memory that the last run was given and nobody else gave."""
        self.stands = True
        """Whether CTAs may stand for others."""
        self.depends: tuple[Any, ...] = ()
        self.instructions = 0
        self.ahead: frozenset[int] = frozenset()
        """How far before the starts of memory an access left it."""
        self.needed = 0
        """How far from the start of memory an access left it."""
        self.most_operations: int | None = None
        self.longest: float | None = None
        """The seconds that a run with further numbers may take."""
        self.unfit: dict[str, None] = {}
        self.seen: set[int] = set()
        """The instructions that were executed with these numbers, by `id`."""
        self.first_lines = False
        """Whether of matrices that descriptors name only the first lines are read."""
        self.layouts: dict[tuple[Any, ...], Finding] = {}
        """Matrices that descriptors name and that leave shared memory, by cause."""
        self.has_other_states = False
        self.not_together: tuple[str, ...] = ()
        """As `Executed` has it."""
        kernel = next((one for one in routines(code.module) if one.name == launch.kernel), None)
        self.closed = frozenset([kernel.where(i) for i in unreachable(kernel, launch)]) if kernel is not None else frozenset()
        """The paths of instructions to which no number or contents lead."""

    def run(self) -> Executed:
        attempts: list[_Attempt] = []
        unseen: set[Path] | None = None
        contrasts = 0
        for numbers in self.launch.numbers if self.launch.has_numbers else (Numbers(),):
            last = attempts[-1].runs[0] if attempts else None
            if last is not None and last.is_too_long:
                # only with much less to do
                if numbers.other * LESS > last.contents.numbers.other:
                    continue
            elif last is not None and self._left < max(LEAST_SECONDS, last.seconds):
                break
            one = self._attempt(numbers)
            attempts.append(one)
            if self.longest is None and one.runs[0].fault is None:
                self.longest = self._several_times(one.runs[0])
            fault = one.runs[0].fault
            if fault is not None and (fault.kind not in OF_NUMBERS or not self._iterates(one)):
                break
            if not self._is_good(one):
                if unseen is not None and len(attempts) > (1 if unseen else MOST_ATTEMPTS):
                    break
                continue
            left: set[Path] = set(one.unseen) if self._decides(one) else set()
            unseen = left if unseen is None else unseen & left
            contrasts += 1
            if not unseen and numbers.other >= LEAST_NUMBER and (contrasts > 1 or len(attempts) > MOST_ATTEMPTS):
                break
            if unseen and len(attempts) > 1:
                # what others lead to is looked at before
                break
        if not unseen:
            attempts += self._led_by_contents(attempts)
        if unseen:
            for search in (self._searched, self._searched_contents):
                for one in search(tuple(attempts), unseen):
                    attempts.append(one)
                    if self._is_good(one):
                        unseen &= set(one.unseen)
        completed = [one for one in attempts if not self._is_of_numbers(one)]
        good = [one for one in completed if not self._is_doubtful(one)]
        if good and len(good) < len(completed):
            wrong = list(dict.fromkeys([str(one.runs[0].contents.numbers) for one in completed if one not in good]))
            self.not_together = tuple(wrong)
        completed = good or completed
        left = set(unseen or ()) if self.launch.has_numbers else set()
        other, held = self._with_other_states(completed)
        # where nothing else leads to an instruction it is said what those show that may not go together
        besides = [one for one in attempts if left and one not in completed]
        return self._executed(completed or attempts[:1], left, [*([other] if other is not None else []), *besides], held)

    def _with_other_states(self, attempts: Sequence[_Attempt]) -> tuple[_Attempt | None, set[Path]]:
        """An attempt with other values in variables of the module, if they decide what is executed and it shows something; and what of it
        nothing has led to."""
        best = min(attempts, key=lambda one: len(one.unseen), default=None)
        if best is None or not best.unseen or not dependent(best.observer.program, best.observer.preset):
            return None, set()
        left = set.intersection(*[set(one.unseen) for one in attempts])
        if not self.launch.states or self._left < LOOKING * self.budget:
            return None, left
        given, self.launch = self.launch, attrs.evolve(self.launch, variables=(*self.launch.variables, *self.launch.states))
        one = self._attempt(best.runs[0].contents.numbers)
        self.launch = given
        if one.runs[0].fault is not None or self._is_doubtful(one):
            return None, left
        self.has_other_states = True
        left &= set(one.unseen)
        return one, left

    def _searched(self, attempts: Sequence[_Attempt], unseen: Set[Path]) -> Iterator[_Attempt]:
        """Further attempts, with numbers by which instructions are executed that no others have led to.

        A part is changed at a time, of numbers that have led to something new. What they lead to a run without monitors shows.
        """
        known: set[Path] = set()
        tried: set[Numbers] = set()
        starts = {one.runs[0].contents.numbers: 0 for one in attempts if self._is_good(one)}
        wrong = 0
        while starts:
            start = max(starts, key=lambda one: starts[one])
            most = starts.pop(start)
            for numbers in (start, *self.launch.others(start), *(self.launch.numbers if len(tried) < MOST_LOOKS // 4 else ())):
                if numbers in tried:
                    continue
                if len(tried) >= MOST_LOOKS or wrong >= MOST_WRONG or self._left < LOOKING * self.budget or not unseen:
                    return
                tried.add(numbers)
                seen = self._looked(numbers)
                if not seen <= known and numbers != start:
                    starts[numbers] = len(seen)
                known |= seen
                if seen & unseen:
                    one = self._attempt(numbers)
                    wrong += not self._is_good(one)
                    yield one
                if 0 < most < len(seen):
                    # these lead on
                    starts[start] = most
                    break
                most = max(most, len(seen))

    def _led_by_contents(self, attempts: Sequence[_Attempt]) -> list[_Attempt]:
        """Further attempts, where it is for contents alone that something was not executed; what nothing leads to is said."""
        best = min([one for one in attempts if self._is_good(one)], key=lambda one: len(one.unseen), default=None)
        if best is None or not best.unseen or not any(isinstance(site.bound, Bound) and site.bound.flow for site in best.depends):
            return []
        left, found = set(best.unseen), []
        for one in self._searched_contents((best,), left, FEW_FLAGS):
            found.append(one)
            left &= set(one.unseen)
        if left:
            lines = sorted({self.code.index.span(best.unseen[path].path).line for path in left})
            more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
            self.unfit.setdefault(f"line {', '.join(map(str, lines[:3]))}{more}, which no tried contents reach")
        return found

    def _searched_contents(self, attempts: Sequence[_Attempt], unseen: Set[Path], most: int = MOST_FLAGS) -> Iterator[_Attempt]:
        """Further attempts, with other zeros and ones, or real numbers, in memory: by these instructions are executed that nothing has led
        to."""
        start = next((one for one in attempts if self._is_good(one) and one.depends), None)
        kinds = ("flags", "reals") * (most // 2)
        for seed, kind in enumerate(kinds if start is not None else ()):
            if self._left < LOOKING * self.budget or not unseen:
                return
            assert start is not None
            contents = Contents(kind, FIRST_SEED + seed)
            if self._looked(start.runs[0].contents.numbers, contents) & unseen:
                yield self._attempt(start.runs[0].contents.numbers, contents)

    def _is_of_numbers(self, one: _Attempt) -> bool:
        """Whether an attempt ended with a fault that other numbers may not lead to. An access that leaves a variable, at an address that
        has nothing to do with numbers, is wrong with any for which it is executed."""
        fault = one.runs[0].fault
        if fault is None or fault.kind not in OF_NUMBERS:
            return False
        is_of_a_variable = fault.kind == "address" and fault_space(fault) in (".shared", ".local")
        return not (is_of_a_variable and one.first and not one.depends) or self._is_doubtful(one)

    def _is_good(self, one: _Attempt) -> bool:
        """Whether all threads of an attempt ran to completion, and nothing in it says that its numbers do not go together."""
        return one.runs[0].fault is None and not self._is_doubtful(one)

    def _looked(self, numbers: Numbers, contents: Contents = COUNT) -> set[Path]:
        """The instructions that are executed with these numbers; none if that ends with a fault."""
        from ptxkit.machine import Budget

        self.code.reset()
        budget = Budget(seconds=LOOK * self.budget, operations=self.most_operations)
        one = once(self.code, self.launch, self.schedules[0], contents.with_numbers(numbers), budget)
        self.code.reset()
        if one.fault is not None:
            return set()
        self.most_operations = max(LEAST_OPERATIONS, LONGER * one.observer.operations)
        return executed(one.observer.program, one.observer.seen)

    @staticmethod
    def _several_times(run: Ran) -> float:
        """The seconds that a run may take that does what another has done, with something else made up."""
        return 10 * LEAST_SECONDS + SLOWER * run.seconds

    def _iterates(self, one: _Attempt) -> bool:
        """Whether smaller numbers may help a run that ended: of one that had no time left, if they decide who goes where."""
        fault = one.runs[0].fault
        return fault is None or fault.kind != "budget" or self._decides(one)

    def _is_doubtful(self, one: _Attempt) -> bool:
        """Whether something goes wrong at an address that is computed from numbers that were made up: then they may not fit together."""
        # also of equal values: with other numbers they may not come to one address
        wrong = [finding for finding, _, _ in one.first.values()]
        program = one.observer.program
        if not wrong or program is None or not self.launch.has_numbers:
            return False
        sites = dependent(program, readers(program, self._numbers(program)))
        return any(is_about(self.code, finding, sites) for finding in wrong)

    def _decides(self, one: _Attempt) -> bool:
        """Whether it depends on numbers that were made up who goes where: else other numbers lead nowhere else."""
        program = one.observer.program
        if program is None:
            return True
        sites = dependent(program, readers(program, self._numbers(program)))
        return any(isinstance(site.bound, Bound) and site.bound.flow for site in sites)

    def _attempt(self, numbers: Numbers, *more: Contents) -> _Attempt:
        """All runs with a number for those that were not given, in as much memory as they take, with `more` contents than usual."""
        self.contents = tuple([one.with_numbers(numbers) for one in (*self.usual, *more)])
        launch = self.launch
        self._all(numbers)
        if self._is_beyond_shared():
            self.first_lines = True
            self._all(numbers)
        before: frozenset[int] = frozenset()
        while any(self._is_too_small(run) for run in self.runs) and self._left > 0:
            if before & self.ahead:
                # as far before memory as it was when there was less: more of it is of no help
                break
            before = self.ahead
            self.launch = self.launch.larger(self.needed)
            self._all(numbers)
        if any(self._leaves_memory(run) for run in self.runs):
            # with these numbers it is never enough: others start with little again
            self.launch = launch
        if self.skipped:
            self._leave_out(f"{self.skipped} more runs, under other schedules or with other contents: time is up")
        program = self.observer.program
        unseen = unexecuted(program, self.seen, self.closed) if program is not None else {}
        return _Attempt(tuple(self.runs), dict(self.first), self.observer, self.depends, self.instructions, unseen, dict(self.not_covered))

    def _executed(self, attempts: list[_Attempt], unseen: set[Path], besides: list[_Attempt], held: set[Path]) -> Executed:
        """What came of attempts with several numbers. `besides` are those that may be no launch; nothing led to what is `unseen` because of
        numbers, and to what is `held` because of variables of the module."""
        best = min(attempts, key=lambda one: len(one.unseen))
        observer = best.observer
        runs = tuple([run for one in (best, *[other for other in attempts if other is not best]) for run in one.runs])
        covered = {
            "shared": observer.shared,
            "global": observer.globals,
            "barriers": observer.barriers,
            "phases": observer.phases,
            "copies": observer.copies,
            "stood_for": observer.standing.count if observer.standing is not None and observer.shared else 0,
            "schedules": len({run.schedule for run in runs}),
            "contents": len({(run.contents.name, run.contents.seed) for run in runs}),
        }
        shown = _shown([*attempts, *besides])
        program = observer.program
        is_by_numbers = bool(unseen & set(best.unseen))
        unseen |= held & set(best.unseen)
        numbered = dependent(program, readers(program, self._numbers(program))) if shown and program is not None else ()
        left_out = tuple(dict.fromkeys([what for one in attempts for what in one.not_covered]))
        unexecuted_ = tuple([site for key, site in best.unseen.items() if key in unseen])
        called = tuple(dict.fromkeys([name for one in attempts for name in one.observer.unknown_names]))
        return Executed(
            self.launch,
            runs,
            shown,
            covered,
            left_out,
            best.depends,
            numbered,
            best.instructions,
            unexecuted_,
            self.code,
            called,
            self.not_together,
            tuple(self.unfit),
            tuple([one.name for one in self.launch.states]) if self.has_other_states else (),
            is_by_numbers,
            tuple(self.layouts.values()),
        )

    @property
    def _left(self) -> float:
        """Seconds that are left."""
        return self.end - time.perf_counter()

    @property
    def _share(self) -> float:
        """The part of what time is left that one run may take: where numbers were made up there may be further attempts."""
        return SHARE if self.launch.has_numbers and not self.runs else 1.0

    def _numbers(self, program: Any) -> dict[str, frozenset[int]]:
        """The parameters that are numbers, or have some, and were not given, with the offsets at which they have something else."""
        return {
            name: frozenset([*one.pointers, *[image.at for image in one.images], *dict(one.functions), *dict(one.given)])
            for (name, _, _, _), one in zip(program.layout(), self.launch.arguments, strict=True)
            if isinstance(one, MadeUp) and (one.made_up == "number" or one.size > WORD)
        }

    def _all(self, numbers: Numbers) -> None:
        """The first run, and those that may show something else."""
        if self.runs:
            self.code.reset()
        self.runs, self.first, self.not_covered, self.skipped, self.seen = [], {}, {}, 0, set()
        self._once(self.schedules[0], self.contents[0])
        if not self._is_known or self._is_too_small(self.runs[0]):
            return
        other_orders = self.observer.depends_on_order and self.runs[0].fault is None
        for n, schedule in enumerate(self.schedules[1:] if other_orders else ()):
            self._again(schedule, self.contents[0], is_needed=n == 0)
        for n, choice in enumerate(self.contents[1:] if self.depends else ()):
            self._again(self.schedules[0], choice, is_needed=n == 0)
        if self.depends and not self.skipped and not self._has_others:
            # neither takes long nor leaves arrays
            self._again(self.schedules[0], SMALL.with_numbers(numbers), is_needed=False)
        self._leave_out_unfit()
        if self._are_equal and self.launch.made_up:
            # with bytes that differ, values that are equal by chance are not
            self._again(self.schedules[0], NOISE.with_numbers(numbers), is_needed=False)
            self._leave_out_unfit()

    @property
    def _is_known(self) -> bool:
        """Whether the machine could execute what it came to: else further runs come to the same end."""
        fault = self.runs[0].fault
        return fault is None or fault.kind not in UNKNOWN | OF_LAUNCH

    def _is_too_small(self, run: Ran) -> bool:
        """Whether a run ended at an access that leaves the global memory that was made up, which could be larger."""
        return self._leaves_memory(run) and self.launch.can_grow

    def _leaves_memory(self, run: Ran) -> bool:
        fault = run.fault
        if fault is None or fault.kind != "address" or fault_space(fault) != ".global":
            return False
        access = fault.stop.access if fault.stop is not None else None
        if access is None or not self.made:
            return True
        # of memory that begins before the address, and could be so large
        at = int(np.ravel(access.at)[0]) if access.mask is None else int(np.broadcast_to(access.at, len(access.mask))[access.mask][0])
        self.ahead = frozenset([start - at for start, _ in self.made if start > at])
        self.needed = min([at - start for start, _ in self.made if start <= at < start + MOST_ROOM], default=0)
        return self.needed > 0

    def _is_beyond_shared(self) -> bool:
        """Whether a run ended at a matrix that a descriptor names and that leaves shared memory. Which part of it matters nobody says: the
        first lines do in any case, and what the kernel does besides. It is kept in `layouts`."""
        if self.first_lines or not leaves_by_descriptor(self.runs[0].fault):
            return False
        self.layouts.update({cause: finding for cause, (finding, _, _) in self.first.items() if finding.diagnostic.name in OUTSIDE})
        return True

    @property
    def _are_equal(self) -> bool:
        """Whether all that was found is that threads write equal values."""
        found = [finding.diagnostic.severity for finding, _, _ in self.first.values()]
        return bool(found) and all(severity is Severity.INFO for severity in found)

    def _again(self, schedule: str | int, contents: Contents, is_needed: bool) -> None:
        """A further run, if there is time. What is needed and not run is left out, and said."""
        if self._left < max(LEAST_SECONDS, self.runs[0].seconds):
            self.skipped += is_needed
            return
        self._once(schedule, contents)

    @property
    def _has_others(self) -> bool:
        """Whether all threads ran to completion with other contents than the first, too."""
        return any(run.fault is None and run.contents != self.contents[0] for run in self.runs)

    def _leave_out_unfit(self) -> None:
        """Takes out the contents with which a run says nothing, and schedules for which there was no time, if others were tried to the
        end."""
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
        """Whether a run ended because time was up, or at an access that leaves memory of which nobody knows how large it is."""
        if run.fault is None:
            return False
        spaces = {str(self.first[cause][0].witness.get("space", fault_space(run.fault).lstrip("."))) for cause in run.causes}
        is_outside = run.fault.kind == "address" and all(name in OUTSIDE for name, *_ in run.causes)
        return (run.is_too_long and not run.causes) or (is_outside and spaces <= {"global"} and bool(self.made))

    def _once(self, schedule: str | int, contents: Contents) -> None:
        """A run. CTAs that do the same in shared memory have one that stands for them, where all go on in step."""
        own: frozenset[int] | None = frozenset() if schedule in IN_STEP and self.stands else None
        while True:
            observer, fault = self._run(schedule, contents, own)
            if fault is None or fault.kind != APART:
                return
            apart = observer.standing.apart if observer.standing is not None else frozenset()
            own = own | apart if own is not None and apart - own else None
            if own is None or len(own) > MOST or 0 in own:
                self.stands, own = False, None

    def _run(self, schedule: str | int, contents: Contents, own: frozenset[int] | None) -> tuple[Observer, Fault | None]:
        from ptxkit.machine import Budget

        if self.runs:
            self.code.reset()
        seconds = self._share * self._left
        if self.runs and contents != self.contents[0]:
            seconds = min(seconds, self._several_times(self.runs[0]))
        elif self.longest is not None and not self.runs:
            seconds = min(seconds, max(self.longest, PART * self._left))
        budget = Budget(seconds=max(LEAST_SECONDS, seconds))
        one = once(self.code, self.launch, schedule, contents, budget, self.checks, own, self.progress, self.first_lines)
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
        if fault is not None and fault.kind not in UNKNOWN | OF_LAUNCH and not _is_explained(fault, one.findings):
            finding = of_fault(fault, self.launch, schedule)
            causes.add(cause_of(finding))
            self._note(finding, schedule, contents)
        self.seen |= one.observer.seen
        self.runs.append(Ran(schedule, contents, one.seconds, fault, frozenset(causes)))
        if not self.runs[1:]:
            self.observer, self.instructions = one.observer, one.instructions
            self.depends = dependent(self.observer.program, {**self.observer.sources, **self.observer.unknown_calls})
        return one.observer, fault

    def _note(self, finding: Finding, schedule: str | int, contents: Contents) -> None:
        """Keeps the first finding of a cause, or the first that is an error."""
        cause = cause_of(finding)
        known = self.first.get(cause)
        if known is None or (known[0].diagnostic.severity is Severity.INFO and finding.diagnostic.severity is not Severity.INFO):
            self.first[cause] = finding, schedule, contents

    def _leave_out(self, what: str) -> None:
        self.not_covered.setdefault(what)


@attrs.frozen(eq=False)
class _Attempt:
    """The runs with one choice of numbers."""

    runs: tuple[Ran, ...]
    first: Mapping[tuple[Any, ...], tuple[Finding, str | int, Contents]]
    observer: Observer
    depends: tuple[Any, ...]
    instructions: int
    unseen: Mapping[Path, Any]
    """The instructions that write memory or synchronize and were not executed, by their paths."""
    not_covered: Mapping[str, None]


def _shown(attempts: Sequence[_Attempt]) -> tuple[Shown, ...]:
    """The findings of attempts, one for each cause, the worst first."""
    found: dict[tuple[Any, ...], Shown] = {}
    for n, one in enumerate(attempts):
        # a run that could not go on shows nothing but what it has found
        tried = {run.contents for run in one.runs if run.causes or run.fault is None or run.fault.kind not in UNKNOWN}
        for cause, (finding, schedule, contents) in one.first.items():
            is_always = n == 0 and {run.contents for run in one.runs if cause in run.causes} == tried
            known = found.get(cause)
            if known is None or (is_always and not known.is_always):
                found[cause] = Shown(finding, schedule, contents, is_always)
    order = list(Severity)
    return tuple(sorted(found.values(), key=lambda one: order.index(one.finding.diagnostic.severity)))


def is_about(code: Code, finding: Finding, sites: Sequence[Any]) -> bool:
    """Whether a finding is about memory that one of these instructions accesses: of registers no address decides."""
    if finding.witness.get("space") == "register":
        return False
    spans = {finding.diagnostic.span, *[related.span for related in finding.diagnostic.related]}
    return any(code.index.span(site.path) in spans for site in sites)


def fault_space(fault: Fault) -> str:
    """The state space of an access that ended a run, as the machine names it; empty if it is not known."""
    return next((f".{space}" for space in ("global", "shared", "local", "constant", "parameter") if f"{space} memory" in fault.reason), "")


def cause_of(finding: Finding) -> tuple[Any, ...]:
    """What makes two findings one: the rule, the instruction, and the related ones."""
    diagnostic = finding.diagnostic
    return diagnostic.name, diagnostic.span, tuple([related.span for related in diagnostic.related])


def _is_explained(fault: Fault, findings: Sequence[Finding]) -> bool:
    """Whether a finding of a monitor says why a run ended: at the same instruction, or of threads that wait forever."""
    span = fault.diagnostic.span
    wrong = [one.diagnostic for one in findings if one.diagnostic.severity is Severity.ERROR]
    if fault.kind in ("deadlock", "budget"):
        return any("deadlock" in one.name or one.span == span for one in wrong)
    return any(one.span == span for one in wrong)


def of_fault(fault: Fault, launch: Launch, schedule: str | int) -> Finding:
    """What ended a run as a finding: its witness are the threads that could not go on."""
    from ptxkit.machine.findings import Finding

    accesses = [{"cta": list(cta), "thread": list(thread), "line": fault.line, "kind": fault.kind} for cta, thread in fault.threads]
    shape: dict[str, Any] = {"kernel": launch.kernel, "grid": list(launch.grid), "block": list(launch.block)}
    if launch.cluster is not None:
        shape["cluster"] = list(launch.cluster)
    if launch.shared:
        shape["shared"] = launch.shared
    if launch.cooperative:
        shape["cooperative"] = True
    shape["seed" if isinstance(schedule, int) else "schedule"] = schedule
    return Finding(fault.diagnostic, {"accesses": accesses, "launch": shape}, max(1, fault.count))
