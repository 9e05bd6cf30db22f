"""C001 aligned-barrier-divergent."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import flow_of
from ptxkit.analyses.events.barriers import barriers
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.convergence.participation import Divergence, comes_otherwise, divergence_reports, divergences
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Aligned CTA barriers that one thread executes and another of its warp does not; without a count, also another of its CTA."""
    for routine in facts.routines:
        found = [divergence for divergence in divergences(routine) if _is_fault(routine, divergence)]
        yield from divergence_reports(facts, RULE, routine, found, "ptxas accepts this without a warning")


def _is_fault(routine: Routine, divergence: Divergence) -> bool:
    """Whether threads miss a barrier of the CTA; whole warps may reach the same barrier through another instruction."""
    demand = divergence.demand
    if demand is None or not demand.bound.form.threads:
        return False
    if divergence.scope is Level.WARP or divergence.branch == divergence.instruction or divergence.again:
        return True
    own = next(use for use in barriers(demand.routine).cta if use.instruction == demand.instruction)
    uses = {use.instruction: use for use in barriers(routine).cta}

    def is_same(i: int) -> bool:
        use = uses.get(i)
        if use is None:
            return flow_of(routine.instructions[i].opcode.text) == "call"
        return use.number is None or own.number is None or use.number == own.number

    return not comes_otherwise(routine, divergence, is_same)


RULE = Rule(
    id="C001",
    name="aligned-barrier-divergent",
    severity=Severity.ERROR,
    summary="an aligned barrier of the CTA that not all of its threads execute",
    why=(
        "All threads of a warp must reach an aligned barrier together, and if it has no thread count, all threads of the CTA; "
        "otherwise behavior is undefined: threads hang, or go on too early (9.7.14.1). Warps that exit as a whole release it (9.7.13.7)."
    ),
    bad="""
        mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 16;
        @%p1 bar.sync 0;
    """,
    good="""
        mov.u32 %r1, %ctaid.x;
        setp.lt.u32 %p1, %r1, 16;
        @%p1 bar.sync 0;
    """,
    proof=(
        "Two threads are named by their indices, each with its path: one executes the barrier, the other takes another path, on "
        "which it does not end."
    ),
    sanitizer="synccheck reports threads of a warp that diverge at a barrier, if a run takes that path.",
    check=check,
)
