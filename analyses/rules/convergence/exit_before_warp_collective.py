"""C008 exit-before-warp-collective."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import flow_of
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.convergence.participation import Divergence, divergence_reports, divergences
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Instructions for a whole warp of which some threads have exited."""
    for routine in facts.routines:
        found = [divergence for divergence in divergences(routine) if _has_left(routine, divergence)]
        yield from divergence_reports(facts, RULE, routine, found, "ptxas accepts this without a warning")


def _has_left(routine: Routine, divergence: Divergence) -> bool:
    whole = divergence.demand is not None and divergence.demand.converges.whole
    leaves = flow_of(routine.instructions[divergence.branch].opcode.text) in ("return", "exit")
    return whole and divergence.has_ended and leaves and divergence.scope is Level.WARP


RULE = Rule(
    id="C008",
    name="exit-before-warp-collective",
    severity=Severity.ERROR,
    summary="an instruction that needs the whole warp, after some of its threads have ended",
    why="Unlike barriers, matrix instructions are undefined if any thread of the warp has exited (9.7.15.3, 9.7.15.4, 9.7.16).",
    bad="""
        mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 20;
        @%p1 ret;
        movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
    """,
    good="""
        mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 32;
        @%p1 ret;
        movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
    """,
    proof="Two threads are named by their indices, each with its path: one has exited before the other executes the instruction.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
