"""Executes a kernel for one launch under monitors, in as many runs as needed: under several schedules if the order of threads or of
asynchronous operations may matter, and with several contents if something depends on synthesized contents."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.analyses.execution.contents import CHOICES, COUNT, DIFFERENT, NOISE, RANDOM, SHUFFLED, SMALL, Contents, Numbers
from ptxkit.analyses.execution.dependence import dependent, executed, readers, unexecuted
from ptxkit.analyses.execution.launch import MOST_ROOM, WORD, Launch, MadeUp
from ptxkit.analyses.execution.observing import Observer
from ptxkit.analyses.execution.reach import unreachable
from ptxkit.analyses.execution.running import once
from ptxkit.analyses.execution.standing import APART, Classes, divided
from ptxkit.analyses.execution.straying import leaves_by_descriptor
from ptxkit.analyses.execution.synchronizing import cleared, uncleared
from ptxkit.analyses.framework.bindings import specials
from ptxkit.analyses.framework.routine import Routine, fact, routines
from ptxkit.diagnostics import Severity
from ptxkit.isa.binding import Bound
from ptxkit.syntax import constant_value

if TYPE_CHECKING:
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code
    from ptxkit.syntax import Module, Path

SCHEDULES: tuple[str | int, ...] = ("lockstep", "early", 1, 2)
"""Schedules to try if the schedule may matter; the first is always used."""
SHARE = 0.6
"""Fraction of the remaining time that the first run of an attempt may take, as attempts with other scalars may follow."""
PART = 0.3
"""The first run of an attempt with other scalars may take at least this fraction of the remaining time."""
LEAST_SECONDS = 0.05
"""Least time for a run, in seconds. No optional run starts with less time left."""
MOST_LOOKS = 200
"""Maximum number of scalar choices that are tried to reach unexecuted instructions."""
MOST_FLAGS, FEW_FLAGS, FIRST_SEED = 24, 6, 10
"""Maximum number of contents that are tried to reach unexecuted instructions, in a full and in a short search, and the first random
seed."""
MOST_ALONE, MOST_LITERALS = 4, 16
"""Contents in one array while the others hold 0, 1, 2, … are tried for this many arrays, and in each this many numbers of the text."""
MOST_RESTARTS = 2
"""A run with other contents than the first is restarted so many times because CTAs deviate; then all of them are watched."""
FEW, LEAST_CTAS = 0.1, 8
"""A run of the first CTAs may take about this fraction of the remaining time, as they all may have to be watched; fewer CTAs than these
are not worth a run."""
MOST_WRONG = 6
"""The search stops after this many attempts with inconsistent scalars."""
LESS = 4
"""After a run that timed out, only scalars that are at least this many times smaller are tried."""
MOST_ATTEMPTS = 4
"""Once an attempt has executed everything, no other scalars are tried after this many attempts."""
SLOWER = 3
"""Time limit for a run with other inputs, relative to the first run (plus a constant)."""
LEAST_OPERATIONS, LONGER = 1 << 14, 8
"""Operation limit for a run without monitors: at least LEAST_OPERATIONS, and LONGER times as many as the previous run needed."""
PATIENCE = 0.9
"""If less than this fraction of the time is left after the first attempt, the search comes before further scalars."""
LOOKING, LOOK = 0.25, 0.03
"""The search for further scalars stops when less than the fraction LOOKING of the time is left; one run of the search takes at most the
fraction LOOK."""
LEAST_NUMBER = 32
"""A launch whose scalars are all smaller than this exercises too little of the kernel."""
LEAST_SHARED = 1024
"""Granularity of dynamic shared memory, in bytes."""
OUTSIDE = frozenset(("fault-address", "out-of-bounds-access"))
"""Findings about accesses outside of allocations."""
UNKNOWN = frozenset(("unsupported", "extern", "call", "branch", "memory", "stack", "budget"))
"""Kinds of faults that are limits of the machine and no evidence about the kernel."""
OF_NUMBERS = frozenset(("address", "budget", "stack", "handle", "memory", "call", "branch"))
"""Kinds of faults that other scalars may avoid."""
NO_LAUNCH = frozenset(("launch", "shared"))
"""Kinds of faults that mean that the kernel cannot be launched with this shape."""
CLOCKS = frozenset(("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"))
"""Special registers whose values depend on the schedule."""
IN_STEP = ("lockstep", "early", "late")
"""Schedules under which all CTAs advance in lockstep."""
OF_LAUNCH = NO_LAUNCH | {"handle", "tensormap"}
"""Kinds of faults that mean that this launch, with these arguments, is not valid for the kernel."""


@attrs.frozen
class Ran:
    """One run. `fault` is what ended it; None if all threads ran to completion."""

    schedule: str | int
    contents: Contents
    seconds: float
    fault: Fault | None
    causes: frozenset[tuple[Any, ...]] = frozenset()
    """Causes of its findings, including the fault."""
    result: bytes = b""
    """As `Once.result`."""

    @property
    def is_too_long(self) -> bool:
        """Whether the run exceeded its budget."""
        return self.fault is not None and self.fault.kind == "budget"


@attrs.frozen
class Shown:
    """A finding, with the schedule and contents of the first run that showed it."""

    finding: Finding
    schedule: str | int
    contents: Contents
    is_always: bool
    """Whether it appears with the first scalars for all contents, under some schedule, and there was time to try all contents."""
    states: tuple[str, ...] = ()
    """Variables of the module that the host would have to write for it; empty if it appears without that."""
    is_of_equal_words: bool = False
    """Whether it is about two stores whose addresses come from synthesized contents, and does not appear if all words of these differ."""
    kinds: frozenset[str] = frozenset()
    """The kinds of contents for which it appears with the first scalars; empty if there was no time to try all contents."""


@attrs.frozen
class Executed:
    """Result of all runs of a launch."""

    launch: Launch
    runs: tuple[Ran, ...]
    shown: tuple[Shown, ...]
    """Findings of monitors and faults, one for each cause, the most severe first."""
    covered: Mapping[str, int]
    """Counts from the first run: `shared` and `global` accesses, `barriers` (threads that waited at one), `phases` of mbarriers,
    `copies` and other asynchronous operations; `stood_for`: CTAs represented by another one in shared memory. Also how many `schedules`
    and `contents` were tried."""
    not_covered: tuple[str, ...]
    """Descriptions of what was not checked or not executed."""
    depends: tuple[Any, ...]
    """The instructions (`Site`s) whose execution or address depends on synthesized contents; empty if none does."""
    placed: tuple[Any, ...]
    """The instructions whose address depends on synthesized contents; computed only if there are findings."""
    numbered: tuple[Any, ...]
    """As `depends`, for synthesized scalars; computed only if there are findings."""
    instructions: int
    unexecuted: tuple[Any, ...]
    """The instructions that write memory or synchronize and that no attempt executed."""
    code: Code
    unknown: tuple[str, ...] = ()
    """The undefined functions that were called; their results were synthesized."""
    not_together: tuple[Numbers, ...] = ()
    """Scalars that led to an error at an address computed from them, and are therefore taken to be inconsistent."""
    unfit: tuple[str, ...] = ()
    """Descriptions of contents for which a run timed out or left memory of unknown size, although other contents ran to completion."""
    states: tuple[str, ...] = ()
    """Variables of the module that were also tried with other values, as the host may have written them."""
    is_by_numbers: bool = False
    """Whether synthesized scalars may be the reason that some instruction was not executed."""
    layouts: tuple[Finding, ...] = ()
    """Findings about matrices that extend beyond shared memory, as their descriptors define them. If there are any, only the first rows
    of each such matrix were read."""
    deciding: Mapping[int, int] = {}
    """Arguments whose synthesized contents decide which path threads take or which address they access, by index (variables of the module
    follow the arguments); and how many bytes of each the kernel reads."""
    deciding_numbers: tuple[int, ...] = ()
    """Arguments whose synthesized scalars decide which path threads take, by index; known only if something was not executed."""
    differing: tuple[str | int, ...] = ()
    """Schedules under which memory ends with other contents than under the first one, though no atomics and no clocks explain that."""

    cleared: tuple[int, ...] = ()
    """Arguments through which threads synchronize, and whose memory therefore held zeros at first, by index."""
    unreached: tuple[Path, ...] = ()
    """The instructions that write memory or synchronize, and that none of the contents tried lead to."""
    is_protocol_open: bool = False
    """Whether there is other synthesized memory through which threads synchronize."""

    def is_among(self, finding: Finding, sites: Sequence[Any]) -> bool:
        """Whether the finding is about memory that one of these instructions accesses."""
        return is_about(self.code, finding, sites)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return tuple([one.finding for one in self.shown])

    @property
    def fault(self) -> Fault | None:
        """The fault of the first run that did not run to completion."""
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
    """Executes a launch of a kernel of a loaded module (`loaded`) under the monitors named in `checks`, within about `budget` seconds of
    processor time, so that the result is the same on a busy computer.

    The first run uses the first schedule and the first contents; other runs follow if they could show something else. `schedules` and
    `contents` replace the default choices if not empty. Raises TypeError or ValueError if the arguments do not fit the kernel's parameters.
    """
    return _Executing(code, launch, tuple(schedules) or SCHEDULES, tuple(contents) or CHOICES, checks, budget, progress).run()


def loaded(module: Module, target: str = "") -> Code:
    """Loads a module on a machine of its own, for its own target or the given one. Raises ValueError if the module has errors."""
    from ptxkit.machine import Machine

    return Machine(target or next((word for word in module.targets if word.startswith("sm_")), "sm_90a")).load(module)


def module_code(routine: Routine) -> Code | None:
    """The module of a function, loaded on a machine for its target; None if it has errors. It is loaded once for all functions of the
    module."""
    return _module_code(routine.siblings[0] if routine.siblings else routine)


@fact
def _module_code(first: Routine) -> Code | None:
    try:
        return loaded(first.module)
    except ValueError:
        return None


class _Executing:
    """The runs of one launch."""

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
        self.first_lines = False
        """Whether only the first rows of matrices are read through descriptors."""
        self.layouts: dict[tuple[Any, ...], Finding] = {}
        """Findings about matrices that extend beyond shared memory, by cause."""
        self.has_other_states = False
        self.not_together: tuple[Numbers, ...] = ()
        """See `Executed.not_together`."""
        self.unreached: tuple[Path, ...] = ()
        """See `Executed.unreached`."""
        kernel = next((one for one in routines(code.module) if one.name == launch.kernel), None)
        self.is_timed = kernel is not None and not specials(kernel).isdisjoint(CLOCKS)
        """Whether the kernel reads a clock, of which results may depend."""
        self.closed = frozenset([kernel.where(i) for i in unreachable(kernel, launch)]) if kernel is not None else frozenset()
        """Paths of the instructions that no scalars and no contents can reach."""
        self.clears = True
        """Whether memory through which threads synchronize is cleared."""
        self.literals = _literals(kernel) if kernel is not None else ()
        self.compared = _compared(kernel) if kernel is not None else ()

    def run(self) -> Executed:
        attempts: list[_Attempt] = []
        unseen: set[Path] | None = None
        contrasts = 0
        for numbers in self.launch.numbers if self.launch.has_numbers else (Numbers(),):
            last = attempts[-1].runs[0] if attempts else None
            if last is not None and last.is_too_long:
                # only try scalars that mean much less work
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
            if unseen and contrasts == 1 and self._left < PATIENCE * self.budget:
                # after another attempt like this, there may be no time for the search
                self._search(attempts, unseen)
            if not unseen and numbers.other >= LEAST_NUMBER and (contrasts > 1 or len(attempts) > MOST_ATTEMPTS):
                break
            if unseen and len(attempts) > 1:
                # the search comes before the remaining scalars
                break
        if not unseen:
            attempts += self._led_by_contents(attempts)
        if unseen:
            self._search(attempts, unseen)
        completed = [one for one in attempts if not self._is_of_numbers(one)]
        good = [one for one in completed if not self._is_doubtful(one)]
        if good and len(good) < len(completed):
            wrong = list(dict.fromkeys([one.runs[0].contents.numbers for one in completed if one not in good]))
            self.not_together = tuple(wrong)
        completed = good or completed
        left = set(unseen or ()) if self.launch.has_numbers else set()
        other, held = self._with_other_states(completed)
        # if nothing else reaches an instruction, report what the possibly inconsistent attempts show
        besides = [one for one in attempts if left and one not in completed]
        return self._executed(completed or attempts[:1], left, [*([other] if other is not None else []), *besides], held)

    def _search(self, attempts: list[_Attempt], unseen: set[Path]) -> None:
        """Adds attempts that execute instructions in `unseen`, and takes these out."""
        for search in (self._searched, self._searched_contents):
            for one in search(tuple(attempts), unseen):
                attempts.append(one)
                if self._is_good(one):
                    unseen &= set(one.unseen)

    def _with_other_states(self, attempts: Sequence[_Attempt]) -> tuple[_Attempt | None, set[Path]]:
        """Repeats the best attempt with other values in variables of the module, if these decide which instructions execute. Returns the
        attempt if it ran to completion, and the instructions that are still unexecuted."""
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
        return attrs.evolve(one, states=tuple([state.name for state in self.launch.states])), left

    def _searched(self, attempts: Sequence[_Attempt], unseen: Set[Path]) -> Iterator[_Attempt]:
        """Yields attempts with scalars that execute instructions which no other attempt reached.

        A hill climb: starting from scalars that reached something new, change one scalar at a time. Runs without monitors show what each
        choice reaches.
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
                for choice in (numbers, *numbers.simpler()) if seen & unseen else ():
                    # if these are inconsistent, it may be for a value that does not matter here
                    if choice != numbers and (choice in tried or not self._looked(choice) & unseen):
                        continue
                    tried.add(choice)
                    one = self._attempt(choice)
                    wrong += not self._is_good(one)
                    yield one
                    if self._is_good(one) or wrong >= MOST_WRONG:
                        break
                if 0 < most < len(seen):
                    # continue from the improved choice
                    starts[start] = most
                    break
                most = max(most, len(seen))

    def _led_by_contents(self, attempts: Sequence[_Attempt]) -> list[_Attempt]:
        """Attempts with other contents, if contents alone keep instructions from being executed. Keeps those that remain unexecuted."""
        good = [one for one in attempts if self._is_good(one)]
        best = min(good, key=lambda one: len(one.unseen), default=None)
        if best is None or not best.unseen or not any(isinstance(site.bound, Bound) and site.bound.flow for site in best.depends):
            return []
        left, found = set.intersection(*[set(one.unseen) for one in good]), []
        for one in itertools.chain(self._uncleared(best) if left else (), self._searched_contents((best,), left, FEW_FLAGS)):
            found.append(one)
            left &= set(one.unseen)
        self.unreached = tuple([best.unseen[path].path for path in left])
        return found

    def _uncleared(self, best: _Attempt) -> Iterator[_Attempt]:
        """Yields the best attempt without clearing the memory through which threads synchronize: they may compute with it as well."""
        given, self.launch = self.launch, uncleared(self.launch)
        if given != self.launch:
            self.clears = False
            yield self._attempt(best.runs[0].contents.numbers)
            self.launch, self.clears = given, True

    def _searched_contents(self, attempts: Sequence[_Attempt], unseen: Set[Path], most: int = MOST_FLAGS) -> Iterator[_Attempt]:
        """Yields attempts with other contents that execute instructions which no other attempt reached: a number of the kernel's text in
        one array, flags, or real numbers."""
        start = next((one for one in attempts if self._is_good(one) and one.depends), None)
        alone = [Contents("among", only=n, words=(word,)) for n in self._deciding_arguments[:MOST_ALONE] for word in self.literals]
        kinds = [Contents(kind, FIRST_SEED + seed) for seed, kind in enumerate(("flags", "reals") * (most // 2))]
        for contents in (*alone, *kinds) if start is not None else ():
            if self._left < LOOKING * self.budget or not unseen:
                return
            assert start is not None
            if self._looked(start.runs[0].contents.numbers, contents) & unseen:
                yield self._attempt(start.runs[0].contents.numbers, contents)

    def _is_of_numbers(self, one: _Attempt) -> bool:
        """Whether the attempt ended with a fault that other scalars may avoid. An access that leaves a shared or local variable, at an
        address that does not depend on scalars, is an error for all scalars that reach it."""
        fault = one.runs[0].fault
        if fault is None or fault.kind not in OF_NUMBERS:
            return False
        is_of_a_variable = fault.kind == "address" and fault_space(fault) in (".shared", ".local")
        return not (is_of_a_variable and one.first and not one.depends) or self._is_doubtful(one)

    def _is_good(self, one: _Attempt) -> bool:
        """Whether all threads ran to completion and nothing suggests that the scalars are inconsistent."""
        return one.runs[0].fault is None and not self._is_doubtful(one)

    def _looked(self, numbers: Numbers, contents: Contents = COUNT) -> set[Path]:
        """The instructions that are executed with these scalars and contents, found by a run without monitors; none if the run faults. If
        there is no time for all CTAs, those of the first ones."""
        from ptxkit.machine import Budget

        self.code.reset()
        budget = Budget(seconds=LOOK * self.budget, operations=self.most_operations)
        one = once(self.code, self.launch, self.schedules[0], contents.with_numbers(numbers), budget)
        self.code.reset()
        if one.fault is not None and (one.fault.kind != "budget" or not one.observer.completed):
            return set()
        self.most_operations = max(LEAST_OPERATIONS, LONGER * one.observer.operations)
        return executed(one.observer.program, one.observer.seen)

    @staticmethod
    def _several_times(run: Ran) -> float:
        """Time limit in seconds for a run that repeats another one with other inputs."""
        return 10 * LEAST_SECONDS + SLOWER * run.seconds

    def _iterates(self, one: _Attempt) -> bool:
        """Whether smaller scalars may help: a run that timed out must depend on them in its control flow."""
        fault = one.runs[0].fault
        return fault is None or fault.kind != "budget" or self._decides(one)

    def _is_doubtful(self, one: _Attempt) -> bool:
        """Whether an error occurs at an address that is computed from synthesized scalars, so that the scalars may be inconsistent."""
        # this includes stores of equal values, which other scalars may send to different addresses
        wrong = [finding for finding, _, _ in one.first.values()]
        program = one.observer.program
        if not wrong or program is None or not self.launch.has_numbers:
            return False
        sites = dependent(program, readers(program, self._numbers(program)))
        return any(is_about(self.code, finding, sites) for finding in wrong)

    def _decides(self, one: _Attempt) -> bool:
        """Whether control flow depends on synthesized scalars. If not, other scalars reach nothing new."""
        program = one.observer.program
        if program is None:
            return True
        sites = dependent(program, readers(program, self._numbers(program)))
        return any(isinstance(site.bound, Bound) and site.bound.flow for site in sites)

    def _attempt(self, numbers: Numbers, *more: Contents) -> _Attempt:
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
        known = dict(self.first), self.observer, self.depends, self.instructions, unseen, dict(self.not_covered)
        return _Attempt(tuple(self.runs), *known, self.is_cut, self.starts)

    def _enlarged(self, run: Ran) -> bool:
        """Enlarges synthesized memory until a run, repeated without monitors, stays within it; returns whether that helps and time is
        left."""
        from ptxkit.machine import Budget

        fault, before = run.fault, frozenset[int]()
        while self._is_too_small(fault):
            if before & self.ahead or self._left <= 0:
                # the access is as far before the allocation as it was before the allocation grew: more memory does not help
                return False
            before = self.ahead
            self.launch = self.launch.larger(self.needed)
            self.code.reset()
            budget = Budget(seconds=max(LEAST_SECONDS, PART * self._left))
            one = once(self.code, self.launch, run.schedule, run.contents, budget, first_lines=self.first_lines)
            fault, self.made = one.fault, one.made
        return self._left > 0

    @property
    def _deciding_arguments(self) -> list[int]:
        """The arguments on whose synthesized contents branches or addresses depended in the first run with these scalars, by index."""
        found = [n for start, n in self.starts.items() if dependent(self.observer.program, self.observer.read.get(start, {}))]
        return list(dict.fromkeys(found))

    def _deciding(self, one: _Attempt) -> dict[int, int]:
        """As `Executed` has it."""
        found: dict[int, int] = {}
        for start, sites in one.observer.read.items() if one.depends else ():
            if start in one.starts and dependent(one.observer.program, sites):
                who = one.starts[start]
                found[who] = max(found.get(who, 0), one.observer.extent[start])
        return found

    def _executed(self, attempts: list[_Attempt], unseen: set[Path], besides: list[_Attempt], held: set[Path]) -> Executed:
        """Combines attempts with several scalars into the result. `besides` are attempts whose scalars may be inconsistent. `unseen`
        instructions were not executed because of scalars, `held` ones because of variables of the module."""
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
            "contents": len({run.contents.with_numbers(Numbers()) for run in runs}),
        }
        shown = _shown(self.code, [*attempts, *besides])
        program = observer.program
        is_by_numbers = bool(unseen & set(best.unseen))
        unseen |= held & set(best.unseen)
        is_asked = bool(shown) and program is not None
        numbered = dependent(program, readers(program, self._numbers(program))) if is_asked else ()
        sources = {**observer.sources, **observer.unknown_calls}
        placed = dependent(program, sources, addresses=True) if is_asked else ()
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
            placed,
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
            self._deciding(best),
            self._deciding_numbers(program) if is_by_numbers else (),
            () if self.is_timed else tuple(dict.fromkeys([schedule for one in attempts for schedule in one.differing])),
            tuple([n for n, one in enumerate(self.launch.arguments) if isinstance(one, MadeUp) and one.is_cleared]),
            self.unreached,
            cleared(self.launch, observer, best.starts) != self.launch,
        )

    def _deciding_numbers(self, program: Any) -> tuple[int, ...]:
        """As `Executed` has it."""
        names = [name for name, _, _, _ in program.layout()]
        found = {name: dependent(program, readers(program, {name: at})) for name, at in self._numbers(program).items()}
        return tuple(
            [n for n, name in enumerate(names) if any(isinstance(one.bound, Bound) and one.bound.flow for one in found.get(name, ()))]
        )

    @property
    def _left(self) -> float:
        """Remaining processor time in seconds."""
        return self.end - time.thread_time()

    @property
    def _share(self) -> float:
        """Fraction of the remaining time that one run may take. If scalars were synthesized, further attempts may follow."""
        return SHARE if self.launch.has_numbers and not self.runs else 1.0

    def _numbers(self, program: Any) -> dict[str, frozenset[int]]:
        """The parameters that contain synthesized scalars, with the offsets of what is not a scalar in them."""
        return {
            name: frozenset([*one.pointers, *[image.at for image in one.images], *dict(one.functions), *dict(one.given)])
            for (name, _, _, _), one in zip(program.layout(), self.launch.arguments, strict=True)
            if isinstance(one, MadeUp) and (one.made_up == "number" or one.size > WORD)
        }

    def _all(self, numbers: Numbers) -> None:
        """Performs the first run, and those that may show something else."""
        if self.runs:
            self.code.reset()
        self.runs, self.first, self.not_covered, self.skipped, self.seen = [], {}, {}, 0, set()
        self.is_cut = False
        self._once(self.schedules[0], self.contents[0])
        if not self._is_known or self._is_too_small(self.runs[0].fault):
            return
        if self._clears():
            self.code.reset()
            self.runs, self.first, self.not_covered, self.seen = [], {}, {}, set()
            self._once(self.schedules[0], self.contents[0])
        for n, schedule in enumerate(self._other_schedules if self.runs[0].fault is None else ()):
            self._again(schedule, self.contents[0], is_needed=n == 0)
        for n, choice in enumerate(self.contents[1:] if self.depends else ()):
            self.is_cut |= not self._again(self.schedules[0], choice, is_needed=n == 0)
        if any(self._says_nothing(run) for run in self.runs if run.contents.name == RANDOM.name):
            # arrays may not go together: random words in one of them, as in a list of edges, may be valid if another is a table of indices
            for n in self._deciding_arguments[:MOST_ALONE]:
                self._again(self.schedules[0], attrs.evolve(RANDOM, only=n).with_numbers(numbers), is_needed=False)
        if self.depends and not self.skipped and not self._has_others:
            # `small` contents neither run long nor leave arrays
            self._again(self.schedules[0], SMALL.with_numbers(numbers), is_needed=False)
        if self.depends and self.compared and not self.first:
            # many threads may take a path that a certain word leads to
            self._again(self.schedules[0], Contents("among", words=self.compared).with_numbers(numbers), is_needed=False)
        self._leave_out_unfit()
        usual = frozenset().union(*[run.causes for run in self.runs if run.contents == self.contents[0]])
        if not self.first.keys() <= usual:
            # threads may collide only where words are equal, of an index table or of keys
            self._again(self.schedules[0], SHUFFLED.with_numbers(numbers), is_needed=False)
        if self._are_equal and self.launch.made_up:
            # with random bytes, values are not equal by coincidence
            self._again(self.schedules[0], NOISE.with_numbers(numbers), is_needed=False)
            self._leave_out_unfit()

    def _clears(self) -> bool:
        """Clears the memory through which threads synchronized in the first run, if a run with it cleared executes all that the first run
        did. Returns whether there is such memory."""
        given, launch = self.launch, cleared(self.launch, self.observer, self.starts)
        if launch == given or not self.clears:
            return False
        self.launch = launch
        if self._looked(self.contents[0].numbers, self.contents[0]) >= executed(self.observer.program, self.seen):
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
        if fault is None or fault.kind != "address" or fault_space(fault) != ".global":
            return False
        access = fault.stop.access if fault.stop is not None else None
        if access is None or not self.made:
            return True
        # consider only allocations that start before the address and could grow up to it
        at = int(np.ravel(access.at)[0]) if access.mask is None else int(np.broadcast_to(access.at, len(access.mask))[access.mask][0])
        self.ahead = frozenset([start - at for start, _ in self.made if start > at])
        self.needed = min([at - start for start, _ in self.made if start <= at < start + MOST_ROOM], default=0)
        return self.needed > 0

    def _leaves_shared(self) -> bool:
        """Whether a run ended at an access beyond shared memory, and there could be more dynamic shared memory."""
        if not self.launch.is_shared_made_up or self.launch.shared >= self._most_shared:
            return False
        faults = [run.fault for run in self.runs if run.fault is not None and run.fault.kind == "address"]
        return any(fault_space(fault) == ".shared" for fault in faults)

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
        if self._left >= max(LEAST_SECONDS, self.runs[0].seconds, *similar):
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
        found = int(ctas * FEW * self._left / max(first.seconds, LEAST_SECONDS))
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
            assert classes is not None and observer.standing is not None
            # where CTAs deviate by their data, many restarts would end with all of them watched
            ctas = math.prod(self.launch.grid)
            classes = divided(classes, observer.standing.apart, ctas) if is_usual or attempt < MOST_RESTARTS else None
            if is_usual:
                self.classes = classes

    def _run(
        self, schedule: str | int, contents: Contents, classes: Classes | None, most_ctas: int | None
    ) -> tuple[Observer, Fault | None]:
        from ptxkit.machine import Budget

        if self.runs:
            self.code.reset()
        seconds = self._share * self._left
        if self.runs and contents != self.contents[0]:
            seconds = min(seconds, self._several_times(self.runs[0]))
        elif self.longest is not None and not self.runs:
            seconds = min(seconds, max(self.longest, PART * self._left))
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
        if fault is not None and fault.kind not in UNKNOWN | OF_LAUNCH and not _is_explained(fault, one.findings):
            finding = of_fault(fault, self.launch, schedule)
            causes.add(cause_of(finding))
            self._note(finding, schedule, contents)
        self.seen |= one.observer.seen
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


def _literals(kernel: Routine) -> tuple[int, ...]:
    """The first whole numbers in the text of a kernel, as 32-bit words."""
    found = [constant_value(operand) for one in kernel.instructions for operand in one.operands]
    return tuple(dict.fromkeys([one % (1 << 32) for one in found if isinstance(one, int)]))[:MOST_LITERALS]


def _compared(kernel: Routine) -> tuple[int, ...]:
    """The numbers other than those of flags to which a kernel compares something for equality, as 32-bit words."""
    tests = [one for one in kernel.instructions if one.opcode.text.startswith(("setp.eq", "setp.ne"))]
    found = [constant_value(operand) for one in tests for operand in one.operands]
    words = dict.fromkeys([one % (1 << 32) for one in found if isinstance(one, int)])
    return tuple([word for word in words if word > 1])[:MOST_LITERALS]


@attrs.frozen(eq=False)
class _Attempt:
    """All runs with one choice of scalars."""

    runs: tuple[Ran, ...]
    first: Mapping[tuple[Any, ...], tuple[Finding, str | int, Contents]]
    observer: Observer
    depends: tuple[Any, ...]
    instructions: int
    unseen: Mapping[Path, Any]
    """The instructions that write memory or synchronize and were not executed, by path."""
    not_covered: Mapping[str, None]
    is_cut: bool
    """Whether there was no time to try all contents."""
    starts: Mapping[int, int]
    """As `Once.starts`."""
    states: tuple[str, ...] = ()
    """Variables of the module that held other values than the module gives them."""

    @property
    def differing(self) -> tuple[str | int, ...]:
        """The schedules under which memory ends with other contents than in the first run."""
        first = self.runs[0]
        again = [run for run in self.runs[1:] if run.contents == first.contents and run.result]
        return tuple([run.schedule for run in again if first.result and run.result != first.result])

    def is_of_equal_words(self, code: Code, cause: tuple[Any, ...]) -> bool:
        """Whether a finding is about two stores at addresses from synthesized contents, and appears only if words of these are equal."""
        if not is_of_stores(self.first[cause][0]):
            return False
        runs = [run for run in self.runs if run.contents.name in DIFFERENT]
        if any(run.fault is not None or cause in run.causes for run in runs) or {run.contents.name for run in runs} != set(DIFFERENT):
            return False
        sites = dependent(self.observer.program, self.observer.sources, addresses=True)
        return are_about(code, self.first[cause][0], sites)


def _shown(code: Code, attempts: Sequence[_Attempt]) -> tuple[Shown, ...]:
    """The findings of all attempts, one for each cause, the most severe first."""
    found: dict[tuple[Any, ...], Shown] = {}
    by_words: dict[tuple[Any, ...], bool] = {}
    for n, one in enumerate(attempts):
        # a run that the machine could not continue is evidence only for what it found
        tried = {run.contents for run in one.runs if run.causes or run.fault is None or run.fault.kind not in UNKNOWN}
        for cause, (finding, schedule, contents) in one.first.items():
            showing = {run.contents for run in one.runs if cause in run.causes} if n == 0 and not one.is_cut else set()
            is_always = bool(showing) and showing == tried
            by_words[cause] = by_words.get(cause, True) and one.is_of_equal_words(code, cause)
            known = found.get(cause)
            if known is None or (is_always and not known.is_always):
                kinds = frozenset([each.name for each in showing])
                found[cause] = Shown(finding, schedule, contents, is_always, one.states, kinds=kinds)
    order = list(Severity)
    every = [attrs.evolve(one, is_of_equal_words=by_words[cause]) for cause, one in found.items()]
    return tuple(sorted(every, key=lambda one: order.index(one.finding.diagnostic.severity)))


def is_of_stores(finding: Finding) -> bool:
    """Whether a finding is about two stores."""
    accesses = finding.witness.get("accesses", ())
    return len(accesses) == 2 and all(one["kind"] == "write" for one in accesses)


def are_about(code: Code, finding: Finding, sites: Sequence[Any]) -> bool:
    """Whether all instructions that a finding names are among `sites`."""
    spans = {code.index.span(site.path) for site in sites}
    return {finding.diagnostic.span, *[related.span for related in finding.diagnostic.related]} <= spans


def is_about(code: Code, finding: Finding, sites: Sequence[Any]) -> bool:
    """Whether a finding is about memory that one of these instructions accesses. A finding about registers is not."""
    if finding.witness.get("space") == "register":
        return False
    spans = {finding.diagnostic.span, *[related.span for related in finding.diagnostic.related]}
    return any(code.index.span(site.path) in spans for site in sites)


def fault_space(fault: Fault) -> str:
    """The state space of the access that ended a run, as the machine names it; empty if unknown."""
    return next((f".{space}" for space in ("global", "shared", "local", "constant", "parameter") if f"{space} memory" in fault.reason), "")


def cause_of(finding: Finding) -> tuple[Any, ...]:
    """Identity of a finding: rule, instruction, and related instructions."""
    diagnostic = finding.diagnostic
    return diagnostic.name, diagnostic.span, tuple([related.span for related in diagnostic.related])


def _is_explained(fault: Fault, findings: Sequence[Finding]) -> bool:
    """Whether a monitor's finding explains the fault: it is at the same instruction, or both are a deadlock."""
    span = fault.diagnostic.span
    wrong = [one.diagnostic for one in findings if one.diagnostic.severity is Severity.ERROR]
    if fault.kind in ("deadlock", "budget"):
        return any("deadlock" in one.name or one.span == span for one in wrong)
    return any(one.span == span for one in wrong)


def of_fault(fault: Fault, launch: Launch, schedule: str | int) -> Finding:
    """Converts a fault to a finding. Its witness lists the threads that could not continue."""
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
