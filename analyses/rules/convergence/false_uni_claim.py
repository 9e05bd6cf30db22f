"""C012 false-uni-claim."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit import fixing
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.convergence.participation import assumed_note, choose_pair, example_note
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.diagnostics import Diagnostic, Fix, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Branches, calls and returns marked `.uni` at which threads of a warp diverge."""
    for routine in facts.routines:
        flow = control_flow(routine)
        for i, bound in matching(routine, lambda bound: bound.flow and bound.has(".uni")):
            if flow.block_of[i] not in flow.reachable:
                continue
            if routine.instructions[i].guard is None and bound.flow != "branch-indexed":
                continue
            if not uniformity(routine).guard(i).holds(Level.WARP):
                yield from _parted(facts, routine, i)


def _parted(facts: Facts, routine: Routine, i: int) -> Iterator[Diagnostic]:
    found = choose_pair(routine, i)
    if found is None:
        return
    yield facts.report(
        RULE,
        routine.where(i),
        f"`.uni` promises one path for the whole warp, but {found.why}",
        *filter(None, (example_note(found.example), assumed_note(found.assumption), "ptxas accepts this without a warning")),
        related=origins(routine, i, 0) if routine.instructions[i].guard is not None else (),
        fix=_fix(facts, routine, i),
    )


def _fix(facts: Facts, routine: Routine, i: int) -> Fix:
    """Removes `.uni`."""
    opcode = routine.instructions[i].opcode
    at = routine.instructions[i].children.index(opcode)
    return Fix("remove `.uni`", (fixing.replace(facts.index, (*routine.where(i), at), opcode.text.replace(".uni", "")),))


RULE = Rule(
    id="C012",
    name="false-uni-claim",
    severity=Severity.ERROR,
    summary="a branch, call or return with .uni at which threads of a warp diverge",
    why=(
        "`.uni` promises that all active threads of a warp take the same path (9.7.13.3 to 9.7.13.6); what happens if they do not "
        "is undefined."
    ),
    bad="""
        mov.u32 %r1, %tid.x;
        and.b32 %r1, %r1, 31;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra.uni out;
        st.global.u32 [%rd1], %r1;
        out:
    """,
    good="""
        mov.u32 %r1, %tid.x;
        shr.u32 %r1, %r1, 5;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra.uni out;
        st.global.u32 [%rd1], %r1;
        out:
    """,
    proof=(
        "Two threads are named by their indices, each with its path: both belong to one warp and reach the instruction, and the "
        "guard sends them along different paths."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
