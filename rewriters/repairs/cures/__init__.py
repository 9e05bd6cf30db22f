"""Kinds of cures, a module each. A cure looks at what a finding knows and gives candidates; which of them is one is found out by trying."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.rewriters.repairs.candidate import Candidate
from ptxkit.rewriters.repairs.cures import barriers, fences, groups
from ptxkit.rewriters.repairs.trouble import Trouble

CURES = (fences.cured, groups.cured, barriers.inserted)


def candidates(trouble: Trouble) -> Iterator[Candidate]:
    """All candidates for a finding, the cheapest first; those of one price in the order of the cures."""
    seen = set()
    for one in sorted([one for cure in CURES for one in cure(trouble)], key=lambda one: one.price):
        if one.edits not in seen:
            seen.add(one.edits)
            yield one
