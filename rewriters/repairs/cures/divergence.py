"""Instructions that a group of threads must execute together but does not (9.7.14.1, 9.7.10.6): moved, or with another mask or guard."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.isa.binding import Bound
from ptxkit.rewriters.repairs.candidate import LAST, Candidate, change, move
from ptxkit.rewriters.repairs.points import Point, level
from ptxkit.rewriters.repairs.trouble import Trouble
from ptxkit.rewriters.repairs.wording import changed, position

FAMILIES = "CBT"
"""Rules about which threads execute an instruction together."""
ALL_LANES = "0xffffffff"
_LEVELS = {"warp": Level.WARP, "warpgroup": Level.WARPGROUP, "cta": Level.CTA, "cluster": Level.CLUSTER}


def cured(trouble: Trouble) -> Iterator[Candidate]:
    """Another mask; no guard; another point, which all threads reach; no such instruction at all."""
    if trouble.family not in FAMILIES:
        return
    for i in trouble.instructions:
        bound = trouble.bound(i)
        if bound is None:
            continue
        yield from _masks(trouble, i, bound)
        if bound.flow == "branch" and bound.has(".uni"):
            yield change(trouble, i, changed(trouble.routine, i, opcode=lambda text: text.replace(".uni", "")))
        if bound.converges is not None:
            yield from _elsewhere(trouble, i, bound)


def _masks(trouble: Trouble, i: int, bound: Bound) -> Iterator[Candidate]:
    """All lanes of the warp instead of those that a mask names."""
    members = bound.members
    n = position(bound, members.name) if members is not None else None
    if members is None or n is None:
        return
    if members.reads:
        yield change(trouble, i, changed(trouble.routine, i, operands={n: ALL_LANES}))
    elif members.writes:
        guard = trouble.routine.instructions[i].guard
        register = trouble.routine.instructions[i].operands[n].text.strip()
        yield change(trouble, i, f"{f'{guard.text.strip()} ' if guard is not None else ''}mov.b32 {register}, {ALL_LANES};")


def _elsewhere(trouble: Trouble, i: int, bound: Bound) -> Iterator[Candidate]:
    """The instruction without its guard, after the paths have merged, before they diverge, or removed."""
    assert bound.converges is not None
    if trouble.routine.instructions[i].guard is not None:
        yield change(trouble, i, changed(trouble.routine, i, unguarded=True))
    flow, dominance = control_flow(trouble.routine), dominators(trouble.routine)
    home = flow.block_of[i]
    for other in trouble.instructions if trouble.family == "T" else ():
        if other != i and flow.block_of[other] == home:
            yield move(trouble, i, Point(other + 1) if i < other else Point(other))
    wanted = _LEVELS.get(bound.converges.level, Level.WARP)
    for tree, is_after in ((dominance.post, True), (dominance.tree, False)):
        block = tree.parent[home] if home < len(tree.parent) else -1
        while 0 <= block < len(flow.blocks):
            one = flow.blocks[block]
            point = Point(one.start) if is_after else Point(one.end - 1, after=len(one.edges) == 1 and one.edges[0].via == "fall")
            if one.end > one.start and level(trouble.routine, point) >= wanted:
                if _may_be_executed_by_more(trouble.routine, i, bound, point):
                    yield move(trouble, i, point)
                break
            block = tree.parent[block] if tree.parent[block] != block else -1
    if bound.barrier and not bound.writes:
        # weaker ordering may do harm that no execution shows
        yield change(trouble, i, "", LAST)


def _may_be_executed_by_more(routine: Routine, i: int, bound: Bound, point: Point) -> bool:
    """Whether more threads may safely execute an instruction elsewhere: it has no lasting effect, nobody else needs its result there,
    and the result does not depend on which threads execute it."""
    if bound.barrier and not bound.writes:
        return True
    changes = any(one.access != "read" for one in bound.memory) or bound.effects or bound.asynchronous
    if changes or any(bound.uniform(one.name) == "one" for one in bound.operands if one.writes):
        return False
    live, block = liveness(routine), control_flow(routine).block_of[point.instruction]
    after = live.after_instruction(point.instruction) if point.after else live.before_instruction(point.instruction)
    if block in control_flow(routine).successors(block):
        after |= live.before[block]
    written = registers(routine).writes[i]
    return not any(after >> number & 1 for number in written) or _is_only_read_after(routine, i, point)


def _is_only_read_after(routine: Routine, i: int, point: Point) -> bool:
    """Whether the new point dominates the old one, and nothing else writes the registers that the instruction writes: so they are read
    after both."""
    tree, flow = dominators(routine).tree, control_flow(routine)
    if not tree.dominates(flow.block_of[point.instruction], flow.block_of[i]):
        return False
    known = registers(routine)
    written = set(known.writes[i])
    return not any(written & set(own) for j, own in enumerate(known.writes) if j != i)
