"""The outcomes of a program that the axioms allow, each with an execution as evidence.

`search` finds the executions for each combination of paths of the threads and of threads that meet at barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from ptxkit.analyses.memory_model.execution import Execution
from ptxkit.analyses.memory_model.expressions import Read
from ptxkit.analyses.memory_model.paths import Path, paths
from ptxkit.analyses.memory_model.program import Program
from ptxkit.analyses.memory_model.search import Interest, Search
from ptxkit.analyses.memory_model.skeleton import Event, Observed, Skeleton, skeletons
from ptxkit.frozen import frozen

LOOPS = 3
"""Maximum number of times that a backward branch is taken."""


@frozen
class Register:
    """A register at the end of its thread."""

    thread: int
    name: str


Wanted = Register | Observed
"""A part of the final state that an outcome consists of."""


@frozen
class Outcome:
    """An allowed final state: the requested values, in order, and an execution that produces them."""

    values: tuple[int, ...]
    execution: Execution
    racy: Execution | None = None
    """An execution with these values and a data race, if there is one."""


@frozen
class Outcomes:
    """All allowed outcomes; `is_cut` if there may be more because a loop was not followed further."""

    wanted: tuple[Wanted, ...]
    outcomes: tuple[Outcome, ...]
    is_cut: bool

    def values(self) -> set[tuple[int, ...]]:
        """The values alone."""
        return {one.values for one in self.outcomes}


def registers(program: Program) -> tuple[Register, ...]:
    """Every register that an operation writes, thread by thread in program order."""
    found: dict[Register, None] = {}
    for t, thread in enumerate(program.threads):
        for operation in thread.code:
            names = getattr(operation, "register", None)
            for name in names if isinstance(names, tuple) else (names,):
                if name is not None:
                    found[Register(t, name)] = None
    return tuple(found)


def outcomes(
    program: Program,
    wanted: Sequence[Wanted] | None = None,
    *,
    races: bool = True,
    loops: int = LOOPS,
    without: Iterable[str] = (),
    accept: Callable[[tuple[int, ...]], bool] = lambda values: True,
    possible: Callable[[Sequence[int | None]], bool] | None = None,
    first: bool = False,
) -> Outcomes:
    """Every allowed outcome of a program.

    `wanted`: the registers and bytes of memory that make up an outcome; by default, all registers written. `races`: also search for an
    execution with a data race for each. `without`: axioms to drop. `accept`: selects outcomes of interest; `possible`: whether an outcome
    may be of interest, given some values (None if unknown). `first`: stop after one. Raises CannotFollow.
    """
    asked = registers(program) if wanted is None else tuple(wanted)
    found: dict[tuple[int, ...], Outcome] = {}
    settled: set[tuple[int, ...]] = set()
    is_cut = False
    for combination, cut in _combinations(program, loops):
        is_cut |= cut
        for skeleton in skeletons(program, combination, [one for one in asked if isinstance(one, Observed)]):
            search = Search(skeleton, frozenset(without))
            if not search.is_possible:
                continue
            interest = _interest(skeleton, asked)
            if interest is None:
                continue
            for values, node in search.partial(interest, possible):
                if values in settled or not accept(values):
                    continue
                known = found.get(values)
                if known is None:
                    execution = search.complete(node)
                    if execution is None:
                        continue
                    known = found[values] = Outcome(values, execution)
                    if first:
                        return Outcomes(asked, (known,), is_cut)
                if races and known.racy is None:
                    racy = search.complete(node, racy=True)
                    if racy is not None:
                        known = found[values] = Outcome(values, known.execution, racy)
                if not races or known.racy is not None:
                    settled.add(values)
    return Outcomes(asked, tuple(found[key] for key in sorted(found)), is_cut)


def find_race(
    program: Program,
    *,
    loops: int = LOOPS,
    between: Callable[[Event, Event], bool] = lambda a, b: True,
    observing: Callable[[Event, Event], bool] | None = None,
) -> Execution | None:
    """An allowed execution with a data race (8.7.1), if the program has one.

    `between`: only races between such operations. `observing`: only executions in which such a write is read by such a read. Raises
    CannotFollow.
    """
    for combination, _ in _combinations(program, loops):
        for skeleton in skeletons(program, combination):
            search = Search(skeleton)
            events = skeleton.events
            search.conflicts = [(i, j) for i, j in search.conflicts if between(events[i], events[j])]
            if not search.conflicts:
                continue
            if not search.is_possible:
                continue
            for node in [search.start()] if observing is None else search.observing(observing):
                execution = search.complete(node, racy=True)
                if execution is not None:
                    return execution
    return None


def _combinations(program: Program, loops: int) -> Iterator[tuple[tuple[Path, ...], bool]]:
    each = [paths(thread, program, loops) for thread in program.threads]
    is_cut = any(one.is_cut for one in each)
    for combination in product(*[one.paths for one in each]):
        yield combination, is_cut


def _interest(skeleton: Skeleton, wanted: Sequence[Wanted]) -> Interest | None:
    """The thread and expression of each requested value; None if a thread blocks before reaching it, or the program does not end."""
    if not skeleton.is_ended:
        return None
    found: Interest = []
    for one in wanted:
        if isinstance(one, Observed):
            found.append((-1, Read(skeleton.finals[one])))
            continue
        expression = skeleton.paths[one.thread].registers.get(one.name, 0)
        if one.thread in skeleton.stuck:
            step = skeleton.paths[one.thread].steps[skeleton.stuck[one.thread]]
            held = step.registers.get(one.name, 0)
            if held is not expression and held != expression:
                return None
        found.append((one.thread, expression))
    return found


def as_mapping(program: Program, wanted: Sequence[Wanted], values: Sequence[int]) -> Mapping[str, int]:
    """An outcome by name: `P0:r1` for a register of thread P0 (`%r1@0:1` in PTX), `x` for memory, `x+4` for bytes at an offset."""
    return {name_of(program, one): value for one, value in zip(wanted, values, strict=True)}


def name_of(program: Program, wanted: Wanted) -> str:
    """The name of a part of an outcome."""
    if isinstance(wanted, Register):
        thread = program.threads[wanted.thread].name
        return f"{wanted.name}@{thread}" if wanted.name.startswith("%") else f"{thread}:{wanted.name}"
    return wanted.variable + (f"+{wanted.offset}" if wanted.offset else "")
