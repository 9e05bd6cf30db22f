"""C002 warp-aligned-divergent."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import flow_of
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.convergence.participation import Divergence, divergence_reports, divergences
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Instructions for a whole warp that one of its threads executes and another does not."""
    for routine in facts.routines:
        found = [divergence for divergence in divergences(routine) if _is_of_a_warp(routine, divergence)]
        yield from divergence_reports(facts, RULE, routine, found, "ptxas accepts this without a warning")


def _is_of_a_warp(routine: Routine, divergence: Divergence) -> bool:
    demand = divergence.demand
    if demand is None or demand.converges.level != "warp" or demand.bound.form.threads:
        return False
    # threads that have exited at a `ret` or `exit` are covered by another rule
    return not (divergence.has_ended and flow_of(routine.instructions[divergence.branch].opcode.text) in ("return", "exit"))


RULE = Rule(
    id="C002",
    name="warp-aligned-divergent",
    severity=Severity.ERROR,
    summary="an instruction for the whole warp that not all of its threads execute",
    why=(
        "Matrix instructions, aligned cluster barriers and the like must be executed by all threads of a warp or by none; "
        "otherwise behavior is undefined (9.7.14.3, 9.7.15)."
    ),
    bad="""
        mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 16;
        @%p1 movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
    """,
    good="""
        mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 64;
        @%p1 movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
    """,
    proof=(
        "Two threads are named by their indices, each with its path: both belong to one warp; one executes the instruction and "
        "the other does not."
    ),
    sanitizer="synccheck reports such threads at barriers and __syncwarp; for matrix instructions this was not measured.",
    check=check,
)
