"""Trip counts of loops that count from the thread index in constant steps to a constant, for each thread.

In `for (i = tid; i < 2048; i += 128)`, threads start at different numbers, yet all threads of a warp leave in the same iteration. So the
loop branch is uniform for them, although `i` is not.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.template import Template


def leaving(known: Values, template: Template, block: int) -> Level:
    """The level of the branch at the end of a block if it is the exit of a counted loop; otherwise THREAD."""
    routine = known.routine
    forest = loops(routine)
    inner = forest.innermost[block]
    loop = forest.loops[inner] if inner is not None else None
    if loop is None or not loop.is_reducible:
        return Level.THREAD
    if not all(dominators(routine).tree.dominates(block, latch) for latch in loop.latches):
        return Level.THREAD
    condition = _staying(known, loop, block)
    return Level.THREAD if condition is None else _uniformity(known, template, loop, condition)


def _staying(known: Values, loop: Loop, block: int) -> Term | None:
    """The condition under which threads stay in a loop, if the branch at the end of a block alone decides that."""
    flow = control_flow(known.routine)
    edges = flow.blocks[block].edges
    staying = [edge for edge in edges if edge.target in loop]
    if len(staying) != 1 or len(edges) + bool(flow.blocks[block].leaves) != 2 or staying[0].via is Via.INDEXED:
        return None
    guard = known.guard(flow.blocks[block].end - 1)
    return guard if guard is None or staying[0].via is Via.TAKEN else known.terms.invert(guard)


def _uniformity(known: Values, template: Template, loop: Loop, condition: Term) -> Level:
    """The level of the number of times that a comparison of the counter with a constant holds."""
    holds = True
    if not condition.args:
        offset, parts = condition.linear
        if offset != 1 or len(parts) != 1:
            return Level.THREAD
        condition, holds = parts[0][0], False
    if condition.operator not in ("lt.s", "lt.u", "eq"):
        return Level.THREAD
    left, right = condition.args
    counted, limit, is_less = (left, right.constant, True) if right.constant is not None else (right, left.constant, False)
    offset, parts = counted.linear
    if limit is None or len(parts) != 1 or parts[0][1] != 1 or parts[0][0].operator != "phi":
        return Level.THREAD
    phi = parts[0][0].ssa_value
    if phi is None:
        return Level.THREAD
    induction = known.induction(phi)
    if induction is None or not induction.step or ssa(known.routine).values[phi].block != loop.header:
        return Level.THREAD
    starts = template.numbers(known.terms.add(induction.start, known.terms.constant(offset, counted.width)))
    if starts is None:
        return Level.THREAD
    found = _times(condition.operator, starts, induction.step, limit, counted.width, is_less, holds)
    return Level.THREAD if found is None else template.level(found)


def _times(operator: str, starts: Numbers, step: int, limit: int, width: int, is_less: bool, holds: bool) -> Numbers | None:
    """For each thread, the number of steps after which a comparison with a limit leaves the loop. None if numbers wrap around first."""
    if operator == "eq":
        return _times_to(starts, step, limit, width) if not holds else None
    low = -(1 << width - 1) if operator == "lt.s" else 0
    high = low + (1 << width) - 1
    # staying means that increasing numbers are below the bound, or decreasing ones above it
    goes_up = is_less == holds
    if goes_up != (step > 0):
        return None
    bound = _number(limit, low, width)
    # `x < limit`, not `limit < x`, `limit < x`, and not `x < limit`
    first = bound + (not is_less) if goes_up else bound - is_less
    found = []
    for bits in starts:
        start = _number(bits, low, width)
        times = max(-((start - first) // step) if goes_up else -((first - start) // -step), 0)
        if not low <= start + times * step <= high:
            return None
        found.append(times)
    return tuple(found)


def _number(bits: int, low: int, width: int) -> int:
    """The number that bits represent, where `low` is the minimum."""
    return (bits - low) % (1 << width) + low


def _times_to(starts: Numbers, step: int, limit: int, width: int) -> Numbers | None:
    """For each thread, the number of steps until its number equals a limit. None if one never does, or if another wraps around first."""
    found = []
    for start in starts:
        path = (limit - start if step > 0 else start - limit) % (1 << width)
        if path % abs(step):
            return None
        found.append(path // abs(step))
    return tuple(found)
