"""Kinds of cures, one module each. A cure proposes candidates for a finding; trials determine which of them repair it."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.rewriters.repairs.candidate import ROUNDS, Candidate
from ptxkit.rewriters.repairs.cures import barriers, clusters, divergence, fences, groups, mbarriers, named, orders
from ptxkit.rewriters.repairs.trouble import Trouble

CURES = (
    named.cured,
    divergence.cured,
    mbarriers.cured,
    orders.cured,
    fences.cured,
    groups.cured,
    barriers.inserted,
    clusters.cured,
)


def candidates(trouble: Trouble) -> Iterator[Candidate]:
    """All candidates for a finding, cheapest first; at equal price, those that change instructions of the finding first."""
    near = set(trouble.instructions)

    def order(one: Candidate) -> tuple[int, bool]:
        # a change of the finding's own instruction adds no instruction to the loops around it
        known = one.at == trouble.instructions[:1]
        return one.price // (ROUNDS if known else 1), bool(one.at) and near.isdisjoint(one.at)

    seen = set()
    for one in sorted([one for cure in CURES for one in cure(trouble)], key=order):
        if one.edits not in seen:
            seen.add(one.edits)
            yield one
