"""C010 cluster-barrier-unpaired."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.specimen import is_specimen
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.cluster.barrier import Fault, cluster_barrier_faults
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.syntax import Path

MOST_SHOWN = 6


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Threads that arrive at the cluster barrier twice without waiting, or wait without having arrived."""
    for routine, fault in cluster_barrier_faults(facts.routines):
        if is_specimen(routine):
            continue
        what = "arrives again before it has waited" if fault.use.arrives else "waits, but has not arrived"
        how = "a thread that reaches this" if fault.always else "there is a path on which a thread"
        yield facts.report(
            RULE,
            routine.where(fault.use.instruction),
            f"{how} {what}",
            *([f"for example with {fault.given}"] if fault.given else []),
            related=_witness(routine, fault)[:MOST_SHOWN],
        )


def _witness(routine: Routine, fault: Fault) -> list[tuple[Path, str]]:
    if fault.always:
        word = "it arrived here" if fault.use.arrives else "it waited here"
        return [(routine.where(i), word) for i in fault.before if i != fault.use.instruction] or [
            (routine.where(i), "this instruction, in the previous iteration") for i in fault.before
        ]
    last = fault.before[-1:]
    shown = [(routine.where(i), "the last use of the barrier on this path") for i in last]
    return [*shown, *[(routine.where(i), f"the guard {'holds' if holds else 'does not hold'}") for i, holds in fault.decisions]]


RULE = Rule(
    id="C010",
    name="cluster-barrier-unpaired",
    severity=Severity.ERROR,
    summary="a thread arrives twice at the cluster barrier without waiting, or waits without having arrived",
    why="Each thread must arrive exactly once in each phase; a thread that has not arrived blocks all that wait (9.7.14.3).",
    bad="""
        barrier.cluster.arrive;
        barrier.cluster.arrive;
        barrier.cluster.wait;
    """,
    good="""
        barrier.cluster.arrive;
        barrier.cluster.wait;
        barrier.cluster.arrive;
        barrier.cluster.wait;
    """,
    proof=(
        "The barrier is followed as an automaton: on all paths, or on one for which inputs are found, a thread reaches the "
        "instruction in the wrong state."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
