"""The cluster barrier (9.7.14.3): missing, without its wait, or with an arrival that publishes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.events.barriers import barriers
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.rewriters.repairs.candidate import CLUSTER_BARRIER, Candidate, change, insertion
from ptxkit.rewriters.repairs.points import between, synchronizes
from ptxkit.rewriters.repairs.trouble import Trouble
from ptxkit.rewriters.repairs.wording import changed

FAMILIES = "GCM"
ARRIVES, WAITS = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"


def cured(trouble: Trouble) -> Iterator[Candidate]:
    """A cluster barrier on every path from one access to the other, or to the end; its wait; an arrival with release semantics."""
    is_unpaired = trouble.finding.rule == "C010"
    if trouble.family not in FAMILIES or (trouble.family == "C" and not is_unpaired) or (trouble.is_of_a_cta and not is_unpaired):
        return
    uses = barriers(trouble.routine).cluster
    own = [i for pair in trouble.pairs for i in pair]
    bounds = [bound for i in (*trouble.instructions, *own) if (bound := trouble.bound(i)) is not None]
    if not uses and not any(bound.has(".shared::cluster") for bound in bounds):
        return
    for use in uses:
        bound = trouble.bound(use.instruction)
        if use.arrives and bound is not None and bound.has(".relaxed"):
            released = changed(trouble.routine, use.instruction, opcode=lambda text: text.replace(".relaxed", ""))
            yield change(trouble, use.instruction, released)
    for use in [one for one in uses if one.arrives]:
        for last in [one.instruction for one in uses if one.arrives and comes_to(trouble.routine, use.instruction, one.instruction)]:
            for point in between(trouble.routine, use.instruction, last, Level.CTA)[::-1]:
                yield insertion(trouble, point, CLUSTER_BARRIER // 2, WAITS)
    for point in trouble.common(Level.CTA, synchronizes):
        yield insertion(trouble, point, CLUSTER_BARRIER, ARRIVES, WAITS)
    ends = trouble.matching(lambda bound: bound.flow in ("return", "exit"))
    for i in trouble.instructions[:1]:
        for end in [one for one in ends if comes_to(trouble.routine, i, one)]:
            for point in between(trouble.routine, i, end, Level.CTA, synchronizes)[:3]:
                yield insertion(trouble, point, CLUSTER_BARRIER, ARRIVES, WAITS)
