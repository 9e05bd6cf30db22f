"""The allowed outcomes of a program by trying everything: each read reads from each write, each order is tried, and the axioms judge."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from ptxkit.analyses.memory_model.enumerator import Register, registers
from ptxkit.analyses.memory_model.execution import Execution, Values
from ptxkit.analyses.memory_model.expressions import value_of
from ptxkit.analyses.memory_model.paths import paths
from ptxkit.analyses.memory_model.program import Program
from ptxkit.analyses.memory_model.relations import Relation, members
from ptxkit.analyses.memory_model.skeleton import Skeleton, skeletons


class TooMany(Exception):
    """More candidates than are to be tried."""


def all_skeletons(program: Program, loops: int = 3) -> Iterator[Skeleton]:
    """Every choice of paths and every meeting of barriers."""
    for chosen in product(*[paths(thread, program, loops).paths for thread in program.threads]):
        yield from skeletons(program, chosen)


def pairs(skeleton: Skeleton) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The writes, and the fences, that must be ordered one way or the other."""
    events = skeleton.events
    writes, fences = [], []
    for i, row in enumerate(skeleton.morally_strong):
        for j in members(row):
            if i < j and events[i].is_write and events[j].is_write and skeleton.overlap[i] >> j & 1:
                writes.append((i, j))
            if i < j and events[i].is_fence and events[j].is_fence and events[i].sem == events[j].sem == "sc":
                fences.append((i, j))
    return writes, fences


def candidates(skeleton: Skeleton, limit: int) -> Iterator[Execution]:
    """Every candidate execution. Raises TooMany."""
    events = skeleton.events
    decisions = [(one.index, cell) for one in events if one.is_read for cell in one.cells]
    writers = [[one.index for one in events if one.is_write and cell in one.cells and one.index != read] for read, cell in decisions]
    writes, fences = pairs(skeleton)
    if prod(map(len, writers)) * 2 ** (len(writes) + len(fences)) > limit:
        raise TooMany
    for chosen in product(*writers):
        sources = dict(zip(decisions, chosen, strict=True))
        values = Values(skeleton, sources)
        if not all(
            bool(value_of(condition, values.in_thread(t))) == truth
            for t, path in enumerate(skeleton.paths)
            for condition, truth in path.constraints
        ):
            continue
        if any(values.of(read) is None for read, _ in decisions):
            continue
        for ways in product((False, True), repeat=len(writes)):
            order = [(b, a) if way else (a, b) for (a, b), way in zip(writes, ways, strict=True)]
            for turns in product((False, True), repeat=len(fences)):
                between = [(b, a) if way else (a, b) for (a, b), way in zip(fences, turns, strict=True)]
                yield Execution(skeleton, sources, Relation.of(len(events), order), Relation.of(len(events), between))


def outcomes(program: Program, limit: int = 2000) -> dict[tuple[int, ...], bool]:
    """The allowed values of all registers, and whether an execution with these has a data race. Raises TooMany."""
    found: dict[tuple[int, ...], bool] = {}
    wanted = registers(program)
    for skeleton in all_skeletons(program):
        if not skeleton.is_ended:
            continue
        for execution in candidates(skeleton, limit):
            values = Values(skeleton, execution.sources)
            outcome = tuple(_final(skeleton, values, one) for one in wanted)
            if found.get(outcome) or not execution.is_consistent:
                continue
            found[outcome] = found.get(outcome, False) or bool(execution.data_races)
    return found


def _final(skeleton: Skeleton, values: Values, one: Register) -> int:
    value = value_of(skeleton.paths[one.thread].registers.get(one.name, 0), values.in_thread(one.thread))
    assert value is not None
    return value
