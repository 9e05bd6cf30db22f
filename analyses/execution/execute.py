"""Executes a kernel for one launch under monitors, in as many attempts as needed: with other scalars or other contents as long as
instructions that write memory or synchronize have not been executed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.execution.attempt import LEAST_SECONDS, MOST_ALONE, Runner
from ptxkit.analyses.execution.contents import CHOICES, REALS, RISING, Contents, Numbers
from ptxkit.analyses.execution.dependence import dependent, readers
from ptxkit.analyses.execution.findings import OF_NUMBERS, fault_space, is_about
from ptxkit.analyses.execution.launch import WORD, Launch, MadeUp
from ptxkit.analyses.execution.literals import compared, has_real_comparisons, literals
from ptxkit.analyses.execution.reach import unreachable
from ptxkit.analyses.execution.result import Attempt, Executed, Shown, shown
from ptxkit.analyses.execution.sides import Reached, Side, untaken
from ptxkit.analyses.execution.synchronizing import cleared, uncleared
from ptxkit.analyses.framework.bindings import specials
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.isa.binding import Bound

if TYPE_CHECKING:
    from ptxkit.machine.loading import Code
    from ptxkit.syntax import Path

SCHEDULES: tuple[str | int, ...] = ("lockstep", "early", 1, 2)
"""Schedules to try if the schedule may matter; the first is always used."""
MOST_LOOKS = 200
"""Maximum number of scalar choices that are tried to reach unexecuted instructions."""
FEW_LOOKS = 50
"""The same for sides of branches, beside which everything has been executed."""
MOST_FLAGS, FEW_FLAGS, FIRST_SEED = 24, 6, 10
"""Maximum number of contents that are tried to reach unexecuted instructions, in a full and in a short search, and the first random
seed."""
MOST_WRONG = 6
"""The search stops after this many attempts with inconsistent scalars."""
LESS = 4
"""After a run that timed out, only scalars that are at least this many times smaller are tried."""
MOST_ATTEMPTS = 4
"""Once an attempt has executed everything, no other scalars are tried after this many attempts."""
PATIENCE = 0.9
"""If less than this fraction of the time is left after the first attempt, the search comes before further scalars."""
LOOKING, LOOK = 0.25, 0.03
"""The search for further scalars stops when less than the fraction LOOKING of the time is left; one run of the search takes at most the
fraction LOOK."""
LEAST_NUMBER = 32
"""A launch whose scalars are all smaller than this exercises too little of the kernel."""
CLOCKS = frozenset(("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"))
"""Special registers whose values depend on the schedule."""


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
    kernel = next((one for one in routines(code.module) if one.name == launch.kernel), None)
    closed = frozenset([kernel.where(i) for i in unreachable(kernel, launch)]) if kernel is not None else frozenset()
    is_timed = kernel is not None and not specials(kernel).isdisjoint(CLOCKS)
    others = _others(kernel) if kernel is not None else ()
    runner = Runner(code, launch, tuple(schedules) or SCHEDULES, tuple(contents) or CHOICES, checks, budget, progress, closed, others)
    return _Search(runner, is_timed, literals(kernel) if kernel is not None else ()).run()


def _others(kernel: Routine) -> tuple[Contents, ...]:
    """Contents to try where the usual ones show nothing: with rising numbers neighbours are apart, real numbers differ where the kernel
    compares some, and many threads may take a path that a word leads to which it compares with others."""
    words = compared(kernel)
    reals = (REALS,) if has_real_comparisons(kernel) else ()
    return (RISING, *reals, *((Contents("among", words=words),) if words else ()))


class _Search:
    """The attempts of a launch, and what they leave unexecuted."""

    def __init__(self, runner: Runner, is_timed: bool, words: tuple[int, ...]) -> None:
        self.runner = runner
        self.literals = words
        self.is_timed = is_timed
        """Whether the kernel reads a clock, on which results may depend."""
        self.has_other_states = False
        self.not_together: tuple[Numbers, ...] = ()
        """See `Executed.not_together`."""
        self.set_aside: tuple[Shown, ...] = ()
        """See `Executed.set_aside`."""
        self.unreached: tuple[Path, ...] = ()
        """See `Executed.unreached`."""
        self.untaken: tuple[Path, ...] = ()
        """See `Executed.untaken`."""

    def run(self) -> Executed:
        attempts: list[Attempt] = []
        unseen: set[Reached] | None = None
        contrasts = 0
        for numbers in self.runner.launch.numbers if self.runner.launch.has_numbers else (Numbers(),):
            last = attempts[-1].runs[0] if attempts else None
            if last is not None and last.is_too_long:
                # only try scalars that mean much less work
                if numbers.other * LESS > last.contents.numbers.other:
                    continue
            elif last is not None and self.runner.left < max(LEAST_SECONDS, last.seconds):
                break
            one = self.runner.attempt(numbers)
            attempts.append(one)
            if self.runner.longest is None and one.runs[0].fault is None:
                self.runner.longest = self.runner.several_times(one.runs[0])
            fault = one.runs[0].fault
            if fault is not None and (fault.kind not in OF_NUMBERS or not self._iterates(one)):
                break
            if not self._is_good(one):
                if unseen is not None and len(attempts) > (1 if unseen else MOST_ATTEMPTS):
                    break
                continue
            left: set[Reached] = set(one.unseen) if self._decides(one) else set()
            unseen = left if unseen is None else unseen & left
            contrasts += 1
            if unseen and contrasts == 1 and self.runner.left < PATIENCE * self.runner.budget:
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
        self._take_sides(attempts)
        completed = [one for one in attempts if not self._is_of_numbers(one)]
        good = [one for one in completed if not self._is_doubtful(one)]
        if good and len(good) < len(completed):
            wrong = list(dict.fromkeys([one.runs[0].contents.numbers for one in completed if one not in good]))
            self.not_together = tuple(wrong)
            self.set_aside = shown(self.runner.code, [one for one in completed if one not in good])
        completed = good or completed
        by_numbers = unseen if unseen is not None and self.runner.launch.has_numbers else ()
        closed = {one for one in by_numbers if not isinstance(one, Side)}
        other, held = self._with_other_states(completed)
        # if nothing else reaches an instruction, report what the possibly inconsistent attempts show
        besides = [one for one in attempts if closed and one not in completed]
        return self._executed(completed or attempts[:1], closed, [*([other] if other is not None else []), *besides], held)

    def _search(self, attempts: list[Attempt], unseen: set[Reached]) -> None:
        """Adds attempts that execute instructions in `unseen`, and takes these out."""
        for search in (self._searched, self._searched_contents):
            self._add(attempts, unseen, search(tuple(attempts), unseen))

    def _add(self, attempts: list[Attempt], unseen: set[Reached], found: Iterator[Attempt]) -> None:
        """Adds attempts, and takes what they reach out of `unseen`."""
        for one in found:
            attempts.append(one)
            if self._is_good(one):
                unseen -= one.reached

    def _take_sides(self, attempts: list[Attempt]) -> None:
        """Adds attempts that take sides of branches which no other attempt took, where synthesized scalars decide. Keeps the branches of
        which some side remains."""
        good = [one for one in attempts if self._is_good(one)]
        if not good or not self.runner.launch.has_numbers:
            return
        taken = {side for one in good for side in one.reached if isinstance(side, Side)}
        deciding = {site.path for one in good for site in self._numbered(one)}
        left: set[Reached] = {side for side in untaken(taken) if side.branch in deciding}
        self._add(attempts, left, self._searched(good, left, FEW_LOOKS))
        self.untaken = tuple(sorted({side.branch for side in left if isinstance(side, Side)}))

    def _with_other_states(self, attempts: Sequence[Attempt]) -> tuple[Attempt | None, set[Path]]:
        """Repeats the best attempt with other values in variables of the module, if these decide which instructions execute. Returns the
        attempt if it ran to completion, and the instructions that are still unexecuted."""
        best = min(attempts, key=lambda one: len(one.unseen), default=None)
        if best is None or not best.unseen or not dependent(best.observer.program, best.observer.preset):
            return None, set()
        left = set.intersection(*[set(one.unseen) for one in attempts])
        if not self.runner.launch.states or self.runner.left < LOOKING * self.runner.budget:
            return None, left
        given, self.runner.launch = (
            self.runner.launch,
            attrs.evolve(self.runner.launch, variables=(*self.runner.launch.variables, *self.runner.launch.states)),
        )
        one = self.runner.attempt(best.runs[0].contents.numbers)
        self.runner.launch = given
        if one.runs[0].fault is not None or self._is_doubtful(one):
            return None, left
        self.has_other_states = True
        left &= set(one.unseen)
        return attrs.evolve(one, states=tuple([state.name for state in self.runner.launch.states])), left

    def _searched(self, attempts: Sequence[Attempt], unseen: Set[Reached], looks: int = MOST_LOOKS) -> Iterator[Attempt]:
        """Yields attempts with scalars that execute instructions or take sides of branches which no other attempt reached, after at most
        so many `looks` at other scalars.

        A hill climb: starting from scalars that reached something new, change one scalar at a time. Runs without monitors show what each
        choice reaches.
        """
        known: set[Reached] = set()
        tried: set[Numbers] = set()
        starts = {one.runs[0].contents.numbers: 0 for one in attempts if self._is_good(one)}
        wrong = 0
        while starts:
            start = max(starts, key=lambda one: starts[one])
            most = starts.pop(start)
            for numbers in (
                start,
                *self.runner.launch.others(start),
                *(self.runner.launch.numbers if len(tried) < looks // 4 else ()),
            ):
                if numbers in tried:
                    continue
                if len(tried) >= looks or wrong >= MOST_WRONG or self.runner.left < LOOKING * self.runner.budget or not unseen:
                    return
                tried.add(numbers)
                seen = self.runner.reached(numbers)
                if not seen <= known and numbers != start:
                    starts[numbers] = len(seen)
                known |= seen
                for choice in (numbers, *numbers.simpler()) if seen & unseen else ():
                    # if these are inconsistent, it may be for a value that does not matter here
                    if choice != numbers and (choice in tried or not self.runner.reached(choice) & unseen):
                        continue
                    tried.add(choice)
                    one = self.runner.attempt(choice)
                    wrong += not self._is_good(one)
                    yield one
                    if self._is_good(one) or wrong >= MOST_WRONG:
                        break
                if 0 < most < len(seen):
                    # continue from the improved choice
                    starts[start] = most
                    break
                most = max(most, len(seen))

    def _led_by_contents(self, attempts: Sequence[Attempt]) -> list[Attempt]:
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

    def _uncleared(self, best: Attempt) -> Iterator[Attempt]:
        """Yields the best attempt without clearing the memory through which threads synchronize: they may compute with it as well."""
        runner = self.runner
        given, runner.launch = runner.launch, uncleared(runner.launch)
        if given != runner.launch:
            runner.clears = False
            yield runner.attempt(best.runs[0].contents.numbers)
            runner.launch, runner.clears = given, True

    def _searched_contents(self, attempts: Sequence[Attempt], unseen: Set[Reached], most: int = MOST_FLAGS) -> Iterator[Attempt]:
        """Yields attempts with other contents that execute instructions which no other attempt reached: a number of the kernel's text in
        one array, flags, or real numbers."""
        start = next((one for one in attempts if self._is_good(one) and one.depends), None)
        alone = [Contents("among", only=n, words=(word,)) for n in self.runner.deciding[:MOST_ALONE] for word in self.literals]
        kinds = [Contents(kind, FIRST_SEED + seed) for seed, kind in enumerate(("flags", "reals") * (most // 2))]
        for contents in (*alone, *kinds) if start is not None else ():
            if self.runner.left < LOOKING * self.runner.budget or not unseen:
                return
            assert start is not None
            if self.runner.reached(start.runs[0].contents.numbers, contents) & unseen:
                yield self.runner.attempt(start.runs[0].contents.numbers, contents)

    def _is_of_numbers(self, one: Attempt) -> bool:
        """Whether the attempt ended with a fault that other scalars may avoid. An access that leaves a shared or local variable, at an
        address that does not depend on scalars, is an error for all scalars that reach it."""
        fault = one.runs[0].fault
        if fault is None or fault.kind not in OF_NUMBERS:
            return False
        is_of_a_variable = fault_space(fault) in (".shared", ".local")
        return not (is_of_a_variable and one.first and not one.depends) or self._is_doubtful(one)

    def _is_good(self, one: Attempt) -> bool:
        """Whether all threads ran to completion and nothing suggests that the scalars are inconsistent."""
        return one.runs[0].fault is None and not self._is_doubtful(one)

    def _iterates(self, one: Attempt) -> bool:
        """Whether smaller scalars may help: a run that timed out must depend on them in its control flow."""
        fault = one.runs[0].fault
        return fault is None or fault.kind != "budget" or self._decides(one)

    def _is_doubtful(self, one: Attempt) -> bool:
        """Whether an error occurs at an address that is computed from synthesized scalars, so that the scalars may be inconsistent."""
        # this includes stores of equal values, which other scalars may send to different addresses
        wrong = [finding for finding, _, _ in one.first.values()]
        program = one.observer.program
        if not wrong or program is None or not self.runner.launch.has_numbers:
            return False
        sites = self._numbered(one, addresses=True)
        return any(is_about(self.runner.code, finding, sites) for finding in wrong)

    def _numbered(self, one: Attempt, addresses: bool = False) -> tuple[Any, ...]:
        """The instructions for which synthesized scalars decide whether they execute, or which address they access, or only the latter."""
        program = one.observer.program
        return dependent(program, readers(program, self._numbers(program)), addresses=addresses) if program is not None else ()

    def _decides(self, one: Attempt) -> bool:
        """Whether control flow depends on synthesized scalars. If not, other scalars reach nothing new."""
        if one.observer.program is None:
            return True
        return any(isinstance(site.bound, Bound) and site.bound.flow for site in self._numbered(one))

    def _deciding(self, one: Attempt) -> dict[int, int]:
        """As `Executed` has it."""
        found: dict[int, int] = {}
        for start, sites in one.observer.read.items() if one.depends else ():
            if start in one.starts and dependent(one.observer.program, sites):
                who = one.starts[start]
                found[who] = max(found.get(who, 0), one.observer.extent[start])
        return found

    def _executed(self, attempts: list[Attempt], unseen: set[Path], besides: list[Attempt], held: set[Path]) -> Executed:
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
            "stood_for": observer.representatives.count if observer.representatives is not None and observer.shared else 0,
            "schedules": len({run.schedule for run in runs}),
            "contents": len({run.contents.with_numbers(Numbers()) for run in runs}),
        }
        found = shown(self.runner.code, [*attempts, *besides])
        program = observer.program
        is_by_numbers = bool(unseen & set(best.unseen))
        unseen |= held & set(best.unseen)
        is_asked = bool(found) and program is not None
        numbered = dependent(program, readers(program, self._numbers(program))) if is_asked else ()
        sources = {**observer.sources, **observer.unknown_calls}
        placed = dependent(program, sources, addresses=True) if is_asked else ()
        left_out = tuple(dict.fromkeys([what for one in attempts for what in one.not_covered]))
        unexecuted_ = tuple([site for key, site in best.unseen.items() if key in unseen])
        called = tuple(dict.fromkeys([name for one in attempts for name in one.observer.unknown_names]))
        return Executed(
            self.runner.launch,
            runs,
            found,
            covered,
            left_out,
            best.depends,
            placed,
            numbered,
            best.instructions,
            unexecuted_,
            self.runner.code,
            called,
            self.not_together,
            tuple(self.runner.unfit),
            tuple([one.name for one in self.runner.launch.states]) if self.has_other_states else (),
            is_by_numbers,
            tuple(self.runner.layouts.values()),
            self._deciding(best),
            self._deciding_numbers(program) if is_by_numbers else (),
            () if self.is_timed else tuple(dict.fromkeys([schedule for one in attempts for schedule in one.differing])),
            tuple([n for n, one in enumerate(self.runner.launch.arguments) if isinstance(one, MadeUp) and one.is_cleared]),
            self.unreached,
            cleared(self.runner.launch, observer, best.starts) != self.runner.launch,
            self.untaken,
            self.set_aside,
        )

    def _deciding_numbers(self, program: Any) -> tuple[int, ...]:
        """As `Executed` has it."""
        names = [name for name, _, _, _ in program.layout()]
        found = {name: dependent(program, readers(program, {name: at})) for name, at in self._numbers(program).items()}
        return tuple(
            [n for n, name in enumerate(names) if any(isinstance(one.bound, Bound) and one.bound.flow for one in found.get(name, ()))]
        )

    def _numbers(self, program: Any) -> dict[str, frozenset[int]]:
        """The parameters that contain synthesized scalars, with the offsets of what is not a scalar in them."""
        return {
            name: frozenset([*one.pointers, *[image.at for image in one.images], *dict(one.functions), *dict(one.given)])
            for (name, _, _, _), one in zip(program.layout(), self.runner.launch.arguments, strict=True)
            if isinstance(one, MadeUp) and (one.made_up == "number" or one.size > WORD)
        }
