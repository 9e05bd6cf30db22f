"""The contexts of the functions of a module: summaries from the callees up, then arguments from the callers down.

First each function is looked at as if all threads called it with the same arguments: what it returns then agrees as far as its arguments
do, or less. With these summaries each call site tells how far threads agree on the arguments that it passes, and which threads come there
together. Recursion is solved by fixpoint. Who may be called by others expects nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from ptxkit.analyses.callers import module_calls
from ptxkit.analyses.context import Context
from ptxkit.analyses.levels import Level
from ptxkit.analyses.propagation import Propagation
from ptxkit.analyses.registers import registers
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.ssa import ssa
from ptxkit.analyses.template import has_other_dimensions

THREAD, GRID = Level.THREAD, Level.GRID
Results = dict[str, tuple[Level, ...]]


def context_of(routine: Routine) -> Context:
    """The context of a function in its module."""
    first = routine.siblings[0] if routine.siblings else routine
    if not _has_inner(first):
        return Context(not has_other_dimensions(routine), GRID, _all(routine, GRID), {})
    if _has_namesakes(first):
        # no module that can be assembled: who calls which of two functions of one name cannot be said
        return Context(False, THREAD, _all(routine, THREAD), {})
    if routine.function.header.is_entry:
        return _of_kernel(first, routine)
    return _contexts(first)[id(routine)]


def _of_kernel(first: Routine, routine: Routine) -> Context:
    """The context of a kernel: nobody calls it, so that only what it calls matters."""
    called = module_calls(first).reached_from(routine.name)
    results = _results(first, called)
    return Context(_is_flat(first), GRID, _all(routine, GRID), {name: results[name] for name in called if name in results})


@fact
def _is_flat(first: Routine) -> bool:
    """Whether CTAs can be taken to have one dimension, whatever kernel runs."""
    return not any(map(has_other_dimensions, first.siblings))


@fact
def _has_namesakes(first: Routine) -> bool:
    """Whether two functions of a module have one name."""
    return len({routine.name for routine in first.siblings}) < len(first.siblings)


@fact
def _has_inner(first: Routine) -> bool:
    """Whether a module has functions that are no kernels."""
    return not all(routine.function.header.is_entry for routine in first.siblings or [first])


@fact
def _contexts(first: Routine) -> dict[int, Context]:
    """The contexts of all functions of a module, by `id`."""
    siblings = first.siblings
    flat = _is_flat(first)
    by_name = {routine.name: routine for routine in siblings}
    called: dict[str, list[tuple[str, int]]] = {}
    open_to_others = set()
    for call in module_calls(first).calls:
        for name in call.callees:
            called.setdefault(name, []).append((call.caller, call.instruction))
            if call.is_indirect or call.is_open:
                open_to_others.add(name)
    results = _results(first, by_name.keys())
    found = {}
    inner = []
    for routine in siblings:
        if routine.function.header.is_entry:
            found[routine.name] = _of_kernel(first, routine)
        elif routine.function.header.linkage or routine.name in open_to_others or routine.name not in called:
            found[routine.name] = Context(flat, THREAD, _all(routine, THREAD), results)
        else:
            found[routine.name] = Context(flat, GRID, _all(routine, GRID), results)
            inner.append(routine)
    changed = bool(inner)
    while changed:
        changed = False
        for routine in inner:
            entry, arguments = GRID, list(_all(routine, GRID))
            for caller, i in called[routine.name]:
                level, passed = _site(by_name[caller], found[caller], i)
                entry = min(entry, level)
                arguments = [min(pair) for pair in zip(arguments, passed, strict=False)] + [THREAD] * (len(arguments) - len(passed))
            context = Context(flat, entry, tuple(arguments), results)
            if context != found[routine.name]:
                found[routine.name] = context
                changed = True
    return {id(routine): found[routine.name] for routine in siblings}


def _all(routine: Routine, level: Level) -> tuple[Level, ...]:
    return (level,) * len(routine.function.header.parameters)


def solution(routine: Routine, context: Context) -> Propagation:
    """The levels of a function in a context; the last one is remembered."""
    last = _last(routine)
    if not last or last[0][0] != context:
        last[:] = [(context, Propagation(routine, context))]
    return last[0][1]


@fact
def _last(routine: Routine) -> list[tuple[Context, Propagation]]:
    return []


def _site(caller: Routine, context: Context, i: int) -> tuple[Level, list[Level]]:
    """Which groups come to a call together, and how far they agree on what they pass."""
    solved = solution(caller, context)
    block = solved.flow.block_of[i]
    if block not in solved.flow.reachable:
        return GRID, [GRID] * 256
    level = min(solved.points(staying=False)[block], context.entry)
    if caller.instructions[i].guard is not None:
        level = min(level, solved.used(ssa(caller).uses[i][0], block))
    return level, solved.parameters.passed(i, solved.used)


def _results(first: Routine, names: Collection[str]) -> Results:
    """By function, how far threads agree on what it returns if they agree on all that they pass: of these, with which are all they call."""
    known = _summaries(first)
    inner = {one.name: one for one in first.siblings if not one.function.header.is_entry and one.name in names and one.name not in known}
    found: Results = known | {name: (GRID,) * len(routine.function.header.returns) for name, routine in inner.items()}
    called_by: dict[str, dict[str, None]] = {}
    for call in module_calls(first).calls if inner else ():
        for name in call.callees:
            called_by.setdefault(name, {})[call.caller] = None
    work = list(inner)
    while work:
        name = work.pop()
        new = _returned(inner[name], Context(_is_flat(first), GRID, _all(inner[name], GRID), {**found}))
        if new != found[name]:
            found[name] = new
            work += [caller for caller in called_by.get(name, ()) if caller in inner and caller not in work]
    known.update(found)
    return known


@fact
def _summaries(first: Routine) -> Results:
    """What `_results` has found so far."""
    return {}


def _returned(routine: Routine, context: Context) -> tuple[Level, ...]:
    """How far threads agree on each thing that a function returns."""
    if not routine.function.header.returns:
        return ()
    solved = solution(routine, context)
    reached, parameters = solved.points(staying=False), solved.parameters
    ends = [block for block in solved.flow.blocks if block.leaves == "return" and block.index in solved.flow.reachable]
    table = registers(routine).table
    found = []
    through = parameters.returned()
    for place, parameter in enumerate(routine.function.header.returns):
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
            stores, calls = through[place]
            if calls or not stores:
                level = THREAD
            for i in stores:
                block_of = solved.flow.block_of[i]
                if block_of in solved.flow.reachable:
                    level = min(level, parameters.stored(i, solved.used), reached[block_of])
        found.append(level)
    return tuple(found)
