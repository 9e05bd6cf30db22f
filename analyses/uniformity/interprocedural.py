"""The contexts of the functions of a module: summaries bottom-up, then arguments top-down.

First, each function is analyzed as if all threads called it with uniform arguments; its results can only be less uniform for other
arguments. With these summaries, each call site determines the levels of its arguments and the groups of threads that make the call
together. Recursion is solved by fixpoint iteration. A function that other modules may call assumes nothing.
"""

from __future__ import annotations

import attrs

from ptxkit.analyses.cfg.dataflow import fixpoint
from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.callers import Sites, calls_of, kernels_of, module_calls
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.uniformity.context import Context
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.propagation import Propagation
from ptxkit.analyses.uniformity.template import has_other_dimensions

THREAD, GRID = Level.THREAD, Level.GRID
Results = dict[str, tuple[Level, ...]]


def context_of(routine: Routine) -> Context:
    """The context of a function in its module."""
    first = routine.siblings[0] if routine.siblings else routine
    if not _has_inner(first):
        return Context(not has_other_dimensions(routine), GRID, _all(routine, GRID), {})
    if _has_namesakes(first):
        # the module is invalid: which of two functions of one name is called is unknown
        return Context(False, THREAD, _all(routine, THREAD), {})
    found = _found(first)
    if routine.name not in found:
        _find(first, routine, found)
    return found[routine.name]


@fact
def _found(first: Routine) -> dict[str, Context]:
    """The contexts requested so far, by function."""
    return {}


def _find(first: Routine, routine: Routine, found: dict[str, Context]) -> None:
    """Finds the context of a function, and those of its possible callers."""
    inner: list[tuple[Routine, Sites]] = []
    for one in nearest_first([routine], lambda one: [caller for caller, _ in calls_of(one) or () if caller.name not in found]):
        if one.name in found:
            continue
        sites = calls_of(one)
        level = GRID if one.function.header.is_entry or sites else THREAD
        found[one.name] = Context(_is_flat(one), level, _all(one, level), _results_in(first, one))
        if sites:
            inner.append((one, sites))

    def update(of: tuple[Routine, Sites]) -> bool:
        one, sites = of
        entry, arguments = GRID, list(_all(one, GRID))
        for caller, i in sites:
            level, passed = _site(caller, found[caller.name], i)
            entry = min(entry, level)
            arguments = [min(pair) for pair in zip(arguments, passed, strict=False)] + [THREAD] * (len(arguments) - len(passed))
        old = found[one.name]
        found[one.name] = attrs.evolve(old, entry=entry, arguments=tuple(arguments))
        return found[one.name] != old

    called: dict[Routine, list[tuple[Routine, Sites]]] = {}
    for of in inner:
        for caller in dict.fromkeys([caller for caller, _ in of[1]]):
            called.setdefault(caller, []).append(of)
    fixpoint(inner, update, lambda of: called.get(of[0], ()))


@fact
def _by_name(first: Routine) -> dict[str, Routine]:
    """The functions of a module that have a body."""
    return {routine.name: routine for routine in first.siblings}


def _is_flat(routine: Routine) -> bool:
    """Whether CTAs that run a function can be assumed to be one-dimensional."""
    return all(map(_looks_at_one_dimension, kernels_of(routine) or (routine,)))


@fact
def _looks_at_one_dimension(routine: Routine) -> bool:
    """Whether neither a function nor its callees read the y or z index."""
    first = routine.siblings[0]
    called = module_calls(first).reached_from(routine.name)
    return not any(map(has_other_dimensions, [routine, *[one for name, one in _by_name(first).items() if name in called]]))


@fact
def _has_namesakes(first: Routine) -> bool:
    """Whether two functions of a module share a name."""
    return len({routine.name for routine in first.siblings}) < len(first.siblings)


@fact
def _has_inner(first: Routine) -> bool:
    """Whether a module has functions other than kernels."""
    return not all(routine.function.header.is_entry for routine in first.siblings or [first])


def _all(routine: Routine, level: Level) -> tuple[Level, ...]:
    return (level,) * len(routine.function.header.parameters)


def solution(routine: Routine, context: Context) -> Propagation:
    """The levels of a function in a context; the most recent one is cached."""
    last = _last(routine)
    if not last or last[0][0] != context:
        last[:] = [(context, Propagation(routine, context))]
    return last[0][1]


@fact
def _last(routine: Routine) -> list[tuple[Context, Propagation]]:
    return []


def _site(caller: Routine, context: Context, i: int) -> tuple[Level, list[Level]]:
    """The groups that execute a call together, and the levels of its arguments."""
    solved = solution(caller, context)
    block = solved.flow.block_of[i]
    if block not in solved.flow.reachable:
        return GRID, [GRID] * 256
    level = min(solved.points(staying=False)[block], context.entry)
    if caller.instructions[i].guard is not None:
        level = min(level, solved.used(ssa(caller).uses[i][0], block))
    return level, solved.parameters.passed(i, solved.used)


def _results_in(first: Routine, routine: Routine) -> Results:
    """For each function that a function may call, directly or indirectly, the levels of its return values if all arguments are uniform."""
    names = module_calls(first).reached_from(routine.name)
    known = _summaries(first)
    defined = [_by_name(first)[name] for name in names if name in _by_name(first) and name not in known]
    inner = {one.name: one for one in defined if not one.function.header.is_entry}
    found: Results = known | {name: (GRID,) * len(one.function.header.returns) for name, one in inner.items()}
    edges = module_calls(first).edges

    def update(name: str) -> bool:
        old = found[name]
        found[name] = _returned(inner[name], Context(_is_flat(inner[name]), GRID, _all(inner[name], GRID), {**found}))
        return found[name] != old

    # callees before callers
    fixpoint(list(inner)[::-1], update, lambda name: [caller for caller in inner if name in edges[caller]])
    known.update(found)
    return {name: known[name] for name in names if name in known}


@fact
def _summaries(first: Routine) -> Results:
    """Cache of `_results_in`."""
    return {}


def _returned(routine: Routine, context: Context) -> tuple[Level, ...]:
    """The levels of a function's return values."""
    if not routine.function.header.returns:
        return ()
    solved = solution(routine, context)
    reached, parameters = solved.points(staying=False), solved.parameters
    ends = [block for block in solved.flow.blocks if block.leaves == "return" and block.index in solved.flow.reachable]
    table = registers(routine).table
    found = []
    through = parameters.returned()
    for position, parameter in enumerate(routine.function.header.returns):
        level = GRID
        if parameter.space == ".reg":
            for block in ends:
                if len(ends) > 1 or routine.instructions[block.end - 1].guard is not None:
                    level = min(level, reached[block.index], solved.branches[block.index])
                reads, uses = registers(routine).reads[block.end - 1], ssa(routine).uses[block.end - 1]
                for register, number in zip(reads, uses, strict=False):
                    if table[register].name == parameter.name:
                        level = min(level, solved.used(number, block.index))
        else:
            stores, calls = through[position]
            if calls or not stores:
                level = THREAD
            for i in stores:
                block_of = solved.flow.block_of[i]
                if block_of in solved.flow.reachable:
                    level = min(level, parameters.stored(i, solved.used), reached[block_of])
        found.append(level)
    return tuple(found)
