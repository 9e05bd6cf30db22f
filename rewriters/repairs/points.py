"""Points between two instructions at which to insert another: every path between them passes there. Cheapest and latest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxkit.analyses.cfg.graph import BasicBlock, control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.paths import comes_without
from ptxkit.analyses.cfg.reachability import closure, nearest_first
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound


@frozen
class Point:
    """Directly before an instruction; with `after`, directly after the last one of a block with one successor."""

    instruction: int
    after: bool = False


def right_after(routine: Routine, i: int) -> Point:
    """Directly after an instruction."""
    flow = control_flow(routine)
    return Point(i + 1) if i + 1 < flow.blocks[flow.block_of[i]].end else Point(i, after=True)


def depth(routine: Routine, point: Point) -> int:
    """The loop depth of a point."""
    return loops(routine).depth(control_flow(routine).block_of[point.instruction])


def level(routine: Routine, point: Point) -> Level:
    """The largest group whose threads certainly all reach a point if any of them does."""
    return uniformity(routine).block(control_flow(routine).block_of[point.instruction], exits_count=True).level


Loud = Callable[[Bound], object]
"""Whether an instruction makes a difference between the points before and after it."""


def between(routine: Routine, first: int, last: int, least: Level = Level.THREAD, loud: Loud | None = None) -> list[Point]:
    """The points that every path from one instruction to another passes, and that all threads of a group reach together.

    Of points with no relevant instruction between them, only the latest; points in fewer loops first, then those closer to the last
    instruction.
    """
    among = _along(routine, first, last, loud or is_loud)
    found = [one for one in among if level(routine, one) >= least and not _avoids(routine, first, last, one)]
    return sorted(found, key=lambda one: depth(routine, one))


def _along(routine: Routine, first: int, last: int, loud: Loud) -> Iterator[Point]:
    """The points on paths from one instruction to another, last ones first."""
    flow = control_flow(routine)
    start, end = flow.block_of[first], flow.block_of[last]
    ahead = closure(flow.successors(start), flow.successors)
    is_direct = start == end and first < last
    if not is_direct and end not in ahead:
        return
    if is_direct:
        yield from _in(routine, flow.blocks[end], first + 1, last, loud)
        return
    yield from _in(routine, flow.blocks[end], flow.blocks[end].start, last, loud)
    for block in nearest_first(flow.predecessors(end), flow.predecessors):
        if block == start:
            yield from _in(routine, flow.blocks[start], first + 1, flow.blocks[start].end, loud)
        elif block in ahead and block != end:
            yield from _in(routine, flow.blocks[block], flow.blocks[block].start, flow.blocks[block].end, loud)
    if start == end:
        yield from _in(routine, flow.blocks[start], first + 1, flow.blocks[start].end, loud)


def _in(routine: Routine, block: BasicBlock, start: int, end: int, loud: Loud) -> Iterator[Point]:
    """The points before instructions `start` to `end` of a block, inclusive: the one at the end, and those before relevant instructions."""
    is_whole = end == block.end
    if is_whole and end > start:
        if len(block.edges) == 1 and not _leaves(routine, end - 1):
            yield Point(end - 1, after=True)
        else:
            yield Point(end - 1)
            end -= 1
    elif not is_whole:
        yield Point(end)
    bounds = bindings(routine)
    for i in range(end - 1, start - 1, -1):
        bound = bounds[i]
        if not isinstance(bound, Bound) or loud(bound):
            yield Point(i)


def _leaves(routine: Routine, i: int) -> bool:
    bound = bindings(routine)[i]
    return not isinstance(bound, Bound) or bool(bound.flow)


def synchronizes(bound: Bound) -> bool:
    """Whether an instruction orders others, or starts an asynchronous operation."""
    return bool(bound.barrier or bound.asynchronous or bound.effects or bound.completes or bound.converges or bound.flow == "call")


def is_loud(bound: Bound) -> bool:
    """Whether an instruction does more than compute: accesses memory, synchronizes, calls."""
    return bool(bound.memory) or synchronizes(bound)


def _avoids(routine: Routine, first: int, last: int, point: Point) -> bool:
    """Whether a path from one instruction to another avoids a point."""
    i = point.instruction
    if (point.after and i == first) or (not point.after and i == last):
        return False
    flow = control_flow(routine)
    home = flow.blocks[flow.block_of[first]]
    starts = [first + 1] if first + 1 < home.end else [flow.blocks[after].start for after in home.successors]
    return any(comes_without(routine, {i}, start)(last) and not (start == i and not point.after) for start in starts)
