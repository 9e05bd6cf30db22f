"""C003 warpgroup-aligned-divergent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxkit.analyses.cfg.graph import flow_of
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.convergence.participation import Divergence, comes_otherwise, divergence_reports, divergences
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Instructions for a whole warpgroup that one of its threads executes and another does not."""
    for routine in facts.routines:
        found = [divergence for divergence in divergences(routine) if _is_of_a_warpgroup(routine, divergence)]
        yield from divergence_reports(facts, RULE, routine, found, "ptxas accepts this without a warning")


def _is_of_a_warpgroup(routine: Routine, divergence: Divergence) -> bool:
    if divergence.demand is None or divergence.demand.converges.level != "warpgroup":
        return False
    # lanes that have exited at a `ret` or `exit` are covered by another rule
    if divergence.scope is not Level.WARP and comes_otherwise(routine, divergence, _likewise(routine, divergence.instruction)):
        return False
    leaves = flow_of(routine.instructions[divergence.branch].opcode.text) in ("return", "exit")
    return not (divergence.has_ended and leaves and divergence.scope is Level.WARP)


def _likewise(routine: Routine, i: int) -> Callable[[int], bool]:
    """Whether an instruction is equivalent: if each warp has its own copy, the whole warpgroup executes one."""
    name = routine.instructions[i].opcode.text
    return lambda other: routine.instructions[other].opcode.text == name


RULE = Rule(
    id="C003",
    name="warpgroup-aligned-divergent",
    severity=Severity.ERROR,
    summary="an instruction for a whole warpgroup that not all of its threads execute",
    why=(
        "wgmma instructions and setmaxnreg must be executed by all threads of a warpgroup: four warps, of which the first has a "
        "rank divisible by four; otherwise behavior is undefined (9.7.16, 9.7.19.5)."
    ),
    bad="""
        mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 96;
        @%p1 wgmma.fence.sync.aligned;
    """,
    good="""
        mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 128;
        @%p1 wgmma.fence.sync.aligned;
    """,
    proof=(
        "Two threads are named by their indices, each with its path: both belong to one warpgroup; one executes the instruction "
        "and the other does not."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
