"""B006 named-barrier-overrun."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.barriers import barriers
from ptxkit.analyses.bindings import bindings
from ptxkit.analyses.protocols.overrun import overruns
from ptxkit.analyses.routine import Routine
from ptxkit.analyses.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.binding import Bound


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Arrivals at a barrier at which nobody waits, and warps that come to a barrier again before it can be complete."""
    for routine in facts.routines:
        yield from _again(facts, routine)
        yield from _alone(facts, routine)


def _again(facts: Facts, routine: Routine) -> Iterator[Diagnostic]:
    told: set[int] = set()
    for overrun in overruns(routine):
        if overrun.second in told:
            continue
        told.add(overrun.second)
        first = "in the iteration before" if overrun.first == overrun.second else "here"
        yield facts.report(
            RULE,
            routine.where(overrun.second),
            "the warp comes to this barrier again, and has not waited since it arrived there",
            *(["it has arrived in the iteration before"] if overrun.first == overrun.second else []),
            related=[(routine.where(overrun.first), f"it arrives {first}")] if overrun.first != overrun.second else (),
        )


def _alone(facts: Facts, routine: Routine) -> Iterator[Diagnostic]:
    """Arrivals at a barrier that no instruction of the kernel waits at."""
    uses = barriers(routine).cta
    calls = any(isinstance(bound, Bound) and bound.flow == "call" for bound in bindings(routine))
    if not routine.function.header.is_entry or calls or any(use.id is None for use in uses):
        return
    for use in uses:
        if use.waits or use.id is None:
            continue
        least, most = use.id.bounds
        waited = [other for other in uses if other.waits and other.id is not None and _meet(other.id.bounds, (least, most))]
        if not waited:
            elsewhere = [(routine.where(other.instruction), f"threads wait at barrier {other.number} here") for other in uses if other.waits]
            name = str(least) if least == most else f"{least} to {most}"
            yield facts.report(
                RULE,
                routine.where(use.instruction),
                f"threads arrive at barrier {name}, and none of the kernel ever wait there",
                related=elsewhere[:2],
            )


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


RULE = Rule(
    id="B006",
    name="named-barrier-overrun",
    severity=Severity.ERROR,
    summary="arriving at a barrier twice before it is complete, or where nobody waits",
    why="A warp that has arrived must not come to the barrier again before it is reset, which it knows only by waiting for something (9.7.14.1).",
    bad=".version 8.5\n.target sm_80\n.address_size 64\n.visible .entry k()\n.reqntid 128\n{\n.reg .pred %p<3>;\n.reg .b32 %r<3>;\n"
    "mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, 64;\n@%p1 bra other;\nbar.arrive 1, 128;\nbar.arrive 1, 128;\nret;\nother:\nbar.sync 1, 128;\nret;\n}\n",
    good=".version 8.5\n.target sm_80\n.address_size 64\n.visible .entry k()\n.reqntid 128\n{\n.reg .pred %p<3>;\n.reg .b32 %r<3>;\n"
    "mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, 64;\n@%p1 bra other;\nbar.arrive 1, 128;\nbar.sync 2, 128;\nbar.arrive 1, 128;\nret;\nother:\nbar.sync 1, 128;\nbar.arrive 2, 128;\nbar.sync 1, 128;\nret;\n}\n",
    check=check,
)
