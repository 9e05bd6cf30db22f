"""The contexts of the functions of a module: summaries from the callees up, then arguments from the callers down.

First each function is looked at as if all threads called it with the same arguments: what it returns then agrees as far as its arguments
do, or less. With these summaries each call site tells how far threads agree on the arguments that it passes, and which threads come there
together. Recursion is solved by fixpoint. Who may be called by others expects nothing.
"""

from __future__ import annotations

from ptxkit.analyses.callgraph import callgraph
from ptxkit.analyses.context import Context, Parameters
from ptxkit.analyses.levels import Level
from ptxkit.analyses.propagation import Propagation, points
from ptxkit.analyses.registers import registers
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.ssa import ssa
from ptxkit.analyses.template import has_other_dimensions

THREAD, GRID = Level.THREAD, Level.GRID
Results = dict[str, tuple[Level, ...]]


def context_of(routine: Routine) -> Context:
    """The context of a function in its module."""
    siblings = routine.siblings or [routine]
    others = [other for other in siblings if not other.function.header.is_entry]
    if not others:
        return Context(not has_other_dimensions(routine), GRID, _all(routine, GRID), {})
    return _contexts(siblings[0])[id(routine)]


@fact
def _contexts(first: Routine) -> dict[int, Context]:
    """The contexts of all functions of a module, by `id`."""
    siblings = first.siblings
    flat = not any(map(has_other_dimensions, siblings))
    results = _results(siblings, flat)
    graph = callgraph(first.module, tuple(siblings))
    by_name = {routine.name: routine for routine in siblings}
    called: dict[str, list[tuple[str, int]]] = {}
    open_to_others = set()
    for call in graph.calls:
        for name in call.callees:
            called.setdefault(name, []).append((call.caller, call.instruction))
            if call.is_indirect or call.is_open:
                open_to_others.add(name)
    found = {}
    inner = []
    for routine in siblings:
        if routine.function.header.is_entry:
            found[routine.name] = Context(flat, GRID, _all(routine, GRID), results)
        elif routine.function.header.linkage or routine.name in open_to_others or routine.name not in called:
            found[routine.name] = Context(flat, THREAD, _all(routine, THREAD), results)
        else:
            found[routine.name] = Context(flat, GRID, _all(routine, GRID), results)
            inner.append(routine)
    solved: dict[str, tuple[Context, Propagation]] = {}
    changed = bool(inner)
    while changed:
        changed = False
        for routine in inner:
            entry, arguments = GRID, list(_all(routine, GRID))
            for caller, i in called[routine.name]:
                level, passed = _site(by_name[caller], found[caller], i, solved)
                entry = min(entry, level)
                arguments = [min(pair) for pair in zip(arguments, passed, strict=False)] + [THREAD] * (len(arguments) - len(passed))
            context = Context(flat, entry, tuple(arguments), results)
            if context != found[routine.name]:
                found[routine.name] = context
                changed = True
    return {id(routine): found[routine.name] for routine in siblings}


def _all(routine: Routine, level: Level) -> tuple[Level, ...]:
    return (level,) * len(routine.function.header.parameters)


def _solve(routine: Routine, context: Context, solved: dict[str, tuple[Context, Propagation]]) -> Propagation:
    old = solved.get(routine.name)
    if old is None or old[0] != context:
        old = solved[routine.name] = (context, Propagation(routine, context))
    return old[1]


def _site(caller: Routine, context: Context, i: int, solved: dict[str, tuple[Context, Propagation]]) -> tuple[Level, list[Level]]:
    """Which groups come to a call together, and how far they agree on what they pass."""
    solution = _solve(caller, context, solved)
    block = solution.flow.block_of[i]
    if block not in solution.flow.reachable:
        return GRID, [GRID] * 256
    level = min(points(solution, staying=False)[block], context.entry)
    if caller.instructions[i].guard is not None:
        level = min(level, solution.used(ssa(caller).uses[i][0], block))
    return level, Parameters(caller, context).passed(i, solution.used)


def _results(siblings: list[Routine], flat: bool) -> Results:
    """By function, how far threads agree on what it returns if they agree on all that they pass."""
    inner = [routine for routine in siblings if not routine.function.header.is_entry]
    found: Results = {routine.name: (GRID,) * len(routine.function.header.returns) for routine in inner}
    changed = True
    while changed:
        changed = False
        for routine in inner:
            new = _returned(routine, Context(flat, GRID, _all(routine, GRID), dict(found)))
            if new != found[routine.name]:
                found[routine.name] = new
                changed = True
    return found


def _returned(routine: Routine, context: Context) -> tuple[Level, ...]:
    """How far threads agree on each thing that a function returns."""
    if not routine.function.header.returns:
        return ()
    solution = Propagation(routine, context)
    reached = points(solution, staying=False)
    parameters = Parameters(routine, context)
    ends = [block for block in solution.flow.blocks if block.leaves == "return" and block.index in solution.flow.reachable]
    table = registers(routine).table
    found = []
    through = parameters.returned()
    for place, parameter in enumerate(routine.function.header.returns):
        level = GRID
        if parameter.space == ".reg":
            for block in ends:
                if len(ends) > 1 or routine.instructions[block.end - 1].guard is not None:
                    level = min(level, reached[block.index], solution.branches[block.index])
                reads, uses = registers(routine).reads[block.end - 1], ssa(routine).uses[block.end - 1]
                for register, number in zip(reads, uses, strict=False):
                    if table[register].name == parameter.name:
                        level = min(level, solution.used(number, block.index))
        else:
            stores, calls = through[place]
            if calls or not stores:
                level = THREAD
            for i in stores:
                block_of = solution.flow.block_of[i]
                if block_of in solution.flow.reachable:
                    level = min(level, parameters.stored(i, solution.used), reached[block_of])
        found.append(level)
    return tuple(found)
