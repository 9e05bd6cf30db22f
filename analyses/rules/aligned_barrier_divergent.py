"""C001 aligned-barrier-divergent."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.barriers import BarrierUse, barriers
from ptxkit.analyses.bits import bits
from ptxkit.analyses.cfg import control_flow, flow_of
from ptxkit.analyses.dominators import dominators
from ptxkit.analyses.levels import Level
from ptxkit.analyses.participation import Parting, partings, told
from ptxkit.analyses.routine import Routine
from ptxkit.analyses.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Aligned barriers of the CTA that one thread executes and another of its warp does not; without a count also: of its CTA."""
    for routine in facts.routines:
        uses = {use.instruction: use for use in barriers(routine).cta}
        if uses:
            found = [parting for parting in partings(routine) if parting.instruction in uses and _is_fault(routine, uses, parting)]
            yield from told(facts, RULE, routine, found, "ptxas says nothing of this")


def _is_fault(routine: Routine, uses: dict[int, BarrierUse], parting: Parting) -> bool:
    """Whether a parting is one too many: whole warps may come to the same barrier by another instruction on their way."""
    if parting.scope is Level.WARP or parting.branch == parting.instruction or parting.again:
        return True
    flow = control_flow(routine)
    block = flow.block_of[parting.branch]
    meeting = dominators(routine).post.parent[block]
    own = uses[parting.instruction]
    for at in bits(_around(routine, block, meeting, flow.block_of[parting.instruction])):
        for i in range(flow.blocks[at].start, flow.blocks[at].end):
            use = uses.get(i)
            if use is not None and (use.number is None or own.number is None or use.number == own.number):
                return False
            if use is None and flow_of(routine.instructions[i].opcode.text) == "call":
                return False
    return True


def _around(routine: Routine, block: int, meeting: int, without: int) -> int:
    """The blocks that control can come to from a branch, until its ways meet again, without coming by one of them."""
    flow = control_flow(routine)
    seen = 0
    work = list(flow.blocks[block].successors)
    while work:
        at = work.pop()
        if at in (meeting, without) or seen >> at & 1:
            continue
        seen |= 1 << at
        work += flow.blocks[at].successors
    return seen


RULE = Rule(
    id="C001",
    name="aligned-barrier-divergent",
    severity=Severity.ERROR,
    summary="an aligned barrier of the CTA that not all of its threads execute",
    why="All threads of a warp must come to an aligned barrier together, and without a thread count all of the CTA; "
    "otherwise behaviour is undefined: threads hang, or run on too early (9.7.14.1).",
    bad="mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bar.sync 0;",
    good="mov.u32 %r1, %ctaid.x;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bar.sync 0;",
    check=check,
)
